/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * newly_idle.h - which levels a CPU looks at when it goes idle: those that cost less time than it
 * expects to idle.
 *
 * A CPU that is about to go idle looks for something to pull, from the innermost level outwards. It
 * stops before the level at which the time that looking has cost, level by level, exceeds its mean
 * idle period: by then the next wake-up would have come. The cost of a level is the longest that a
 * try took there; it falls by 1 % a second (Linux: max_newidle_lb_cost). With balance=load it is an
 * average, for which a try counts as no more than twice that and 8 us: a CPU of a virtual machine
 * may be stopped for milliseconds during a try, and that says nothing about the next one. A try
 * begins with wl_dispatch() and ends with the CPU's next event. The levels that it tried share its
 * time by the CPUs that each one adds.
 *
 * Example: 2 LLCs of 4 CPUs. A try of both levels took 8 us: it read 8 CPUs, of which the LLC has
 * 4, so each level cost 4 us. While the CPU's mean idle period is at least 8 us it tries both;
 * between 4 and 8 us the LLC; below that, neither. With balance=load such a try, the first, raises
 * the cost of each level from 0 to 4 / 8 = 0.5 us, and after some 20 of them it is nearly 4 us. A
 * try of 2 ms then adds (2 * 4 + 8 - 4) / 8 = 1.5 us.
 *
 * Cost: a few words of the CPU's own. It fails, except with balance=load, where a single slow try,
 * such as one that waited for a lock, keeps the CPU from further ones for minutes.
 */
#ifndef WL_NEWLY_IDLE_H
#define WL_NEWLY_IDLE_H

#include "access.h"

#define WL_NEWLY_IDLE_DECAY_NS 1000000000ULL
#define WL_NEWLY_IDLE_MORE_NS  8192 /* balance=load: a first try adds 1 us at most */

/* A try of `levels` begins on cpu. */
WL_INLINE void wl_newly_idle_begins(struct wl_policy *p, u32 cpu, u32 levels, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 i;

	c->newly_idle.since_ns = now_ns;
	wl_for_levels (p, i, 1) {
		if (levels >> (i & 31) & 1)
			c->newly_idle.top = i;
	}
}

/* What a level costs, after a try that took took_ns there. */
WL_INLINE u64 wl_newly_idle_cost(struct wl_policy *p, u64 cost_ns, u64 took_ns)
{
	u64 most_ns = 2 * cost_ns + WL_NEWLY_IDLE_MORE_NS;

	if (wl_axis(p, balance) != WL_BALANCING_LOAD)
		return took_ns > cost_ns ? took_ns : cost_ns;
	return wl_average(cost_ns, took_ns < most_ns ? took_ns : most_ns);
}

/* The try in progress on cpu is over. */
WL_FN int wl_newly_idle_charge(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u64 since_ns = wl_get(c->newly_idle.since_ns), took_ns, cost_ns;
	u32 top = wl_get(c->newly_idle.top), span, inner = 0, i, index;
	struct wl_level *lv;

	c->newly_idle.since_ns = 0;
	took_ns = now_ns > since_ns ? now_ns - since_ns : 0;
	lv = wl_level_of(p, top);
	span = wl_entry(lv->weight, wl_entry(lv->dom_of, cpu));
	wl_for_levels (p, i, 1) {
		u32 weight;

		if (i > top)
			break;
		lv = wl_level_of(p, i);
		weight = wl_entry(lv->weight, wl_entry(lv->dom_of, cpu));
		cost_ns = wl_div(took_ns * (weight - inner), span);
		inner = weight;
		index = i;
		wl_hide(index);
		index &= WL_MAX_LEVELS - 1;
		cost_ns = wl_newly_idle_cost(p, wl_get(c->newly_idle.cost_ns[index]), cost_ns);
		c->newly_idle.cost_ns[index] = cost_ns < ~0u ? cost_ns : ~0u;
	}
	return 0;
}

/* Something happens on cpu: a try in progress is over. */
WL_INLINE void wl_newly_idle_ends(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	if (wl_get(wl_cpu_of(p, cpu)->newly_idle.since_ns))
		wl_newly_idle_charge(p, cpu, now_ns);
}

/* Those of `levels` that cpu should try now. */
WL_FN int wl_newly_idle_levels(struct wl_policy *p WL_ARG, u32 cpu, u32 levels, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u64 idle_ns = wl_get(c->avg_idle_ns), sum_ns = 0, cost_ns;
	u32 decays = now_ns >= wl_get(c->newly_idle.decay_ns) + WL_NEWLY_IDLE_DECAY_NS, i, index;

	if (decays)
		c->newly_idle.decay_ns = now_ns;
	wl_for_levels (p, i, 1) {
		index = i;
		wl_hide(index);
		index &= WL_MAX_LEVELS - 1;
		cost_ns = wl_get(c->newly_idle.cost_ns[index]);
		if (decays) {
			cost_ns = cost_ns * 253 / 256;
			c->newly_idle.cost_ns[index] = cost_ns;
		}
		sum_ns += cost_ns;
		if (idle_ns < sum_ns)
			levels &= (1u << (i & 31)) - 1;
	}
	return levels;
}

#endif /* WL_NEWLY_IDLE_H */
