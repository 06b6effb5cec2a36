/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * account.h - busy and idle: what a context switch from or to the idle task changes.
 *
 * Every CPU remembers its last report. The first one counts from idle, and one that repeats the
 * last changes nothing. Where the policy keeps counters (smt-balance), a CPU that turns busy adds 1
 * to the counter of each domain round it below the LLC, one that turns idle subtracts it. The two
 * ends of an idle period give a sample for the CPU's average. A CPU that turns idle and finds its
 * whole core idle says so to its LLC (has_idle_cores), for `scan`; with idle=nearest block.h takes
 * both over.
 *
 * Example, one LLC of 2 cores x 2 threads, CPU c and c + 2 sharing a core. The LLC's groups are the
 * cores, with a counter each. busy(0), busy(0), busy(2), busy(1): the counters are 2 and 1.
 * idle(2): 1 and 1, and no core is idle. idle(1): 1 and 0; CPU 3 never reported, so core 1 is idle
 * and has_idle_cores is set. CPU 1 idled from 100 us to 900 us with avg_idle 1000 us before: the
 * average becomes 1000 - 200 / 8 = 975 us.
 *
 * Cost: an atomic addition a counter; going idle reads has_idle_cores and the core's threads. It
 * fails where idle periods change faster than an average over 8 of them follows.
 */
#ifndef WL_ACCOUNT_H
#define WL_ACCOUNT_H

#include "block.h"
#include "util.h"

/* Adds 1 or subtracts 1 in all domains round cpu that have a counter. */
WL_INLINE void wl_count_busy(struct wl_policy *p, u32 cpu, u32 change)
{
	u32 i;

	/* SMT and CLS at most, and none from the LLC on. */
	for (i = 1; i < 3; i++) {
		struct wl_level *lv = wl_level_of(p, i);
		u32 dom = wl_entry(lv->dom_of, cpu);

		if (!lv->has_counters)
			continue;
		wl_atomic_add(&wl_counter_of(p, lv, dom)->busy, change);
		wl_line_updated(p, WL_LINE_COUNTER +
					   ((lv->counter_base + dom) & (WL_MAX_COUNTERS - 1)));
	}
}

/* Are all CPUs of cpu's core idle? */
WL_INLINE u32 wl_core_is_idle(struct wl_policy *p, u32 cpu)
{
	struct wl_level *smt = wl_level_of(p, p->topo.smt_level);
	u32 core = wl_entry(smt->dom_of, cpu);
	u32 first = wl_entry(smt->first, core), span = wl_entry(smt->weight, core), idle = 1;
	u32 i, other;

	wl_for_few (i, span, WL_MAX_THREADS) {
		other = wl_entry(smt->cpus, first + i);
		wl_line_read(p, WL_LINE_CPU + other, other == cpu ? WL_DIST_CPU : WL_DIST_SMT);
		if (!wl_looks_idle(p, other)) {
			idle = 0;
			break;
		}
	}
	return idle;
}

/* One of the policy's tasks runs on cpu, or nothing: no higher class has it any more. */
WL_INLINE void wl_not_taken(struct wl_policy *p, u32 cpu)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	if (wl_get(c->state) != WL_CPU_TAKEN)
		return;
	wl_write_once(c->state, WL_CPU_BUSY);
	wl_wrote_cpu(p, cpu);
}

WL_INLINE void wl_account_busy(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u64 cap = 2 * c->max_idle_balance_cost_ns, average;

	if (c->state == WL_CPU_BUSY)
		return;
	if (c->state == WL_CPU_TAKEN) {
		wl_not_taken(p, cpu);
		return;
	}
	if (c->state == WL_CPU_IDLE) {
		average = wl_average(c->avg_idle_ns,
				     now_ns > c->idle_since_ns ? now_ns - c->idle_since_ns : 0);
		c->avg_idle_ns = average < cap ? average : cap;
	}
	wl_util_cpu_changes(p, cpu, now_ns);
	wl_write_once(c->state, WL_CPU_BUSY);
	wl_wrote_cpu(p, cpu);
	wl_count_busy(p, cpu, 1);
	if (wl_is_nearest(p))
		wl_block_busy(p, cpu, now_ns);
}

WL_INLINE void wl_account_idle(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 before = c->state, first = wl_llc_first(p, cpu);
	struct wl_cpu *llc = wl_cpu_of(p, first);

	if (before == WL_CPU_IDLE)
		return;
	c->idle_since_ns = now_ns;
	wl_util_cpu_changes(p, cpu, now_ns);
	wl_publish(c->state, WL_CPU_IDLE);
	wl_wrote_cpu(p, cpu);
	if (before >= WL_CPU_BUSY)
		wl_count_busy(p, cpu, -1);
	if (wl_is_nearest(p)) {
		wl_block_idle(p, cpu, now_ns);
		return;
	}
	if (!p->topo.smt_level)
		return;
	wl_line_read(p, WL_LINE_LLC + first, WL_DIST_LLC);
	if (!wl_read_once(llc->has_idle_cores) && wl_core_is_idle(p, cpu)) {
		wl_write_once(llc->has_idle_cores, 1);
		wl_wrote_llc(p, first);
	}
}

#endif /* WL_ACCOUNT_H */
