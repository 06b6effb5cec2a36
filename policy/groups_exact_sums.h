/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * groups_exact_sums.h - groups=exact: what each group has received for its shares, and the order in
 * which tasks are served. groups_exact.h uses both.
 *
 * A group's v is what it has received, in ns * 1024 / shares: it grows by 1 per ns on a CPU at 1024
 * shares. A task's v, kept in its vtime, is the same with its weight. Two tasks are compared at the
 * point where their paths to the root part: by the v of the two groups (or a group and a task, or
 * two tasks) just below their nearest common ancestor. The one behind is served first.
 *
 * A group's v is a sum of parts, one for each LLC, each written only on CPUs of that LLC. An LLC
 * keeps the sum of the other LLCs' parts beside its own, and reads it again on a tick of a CPU
 * where the group runs or waits first, at most once in half a tick. So a v is late by what the
 * group got in other LLCs in a tick. A v that is late for longer belongs to a group that only waits
 * here, behind others. It looks further behind than it is, comes to the front, and is read again
 * there before it runs for a second tick.
 *
 * A parent's clock says where its children and tasks are: it is an average of the v's of those that
 * were picked while others waited. Each LLC has its own clock, and the root also one per CPU.
 *
 * Example: A has 1024 shares and B has 2048, with one task each; A's ran for 6 ms and B's for 8 ms.
 * Their v's are 6 ms and 4 ms: B is behind by 2 ms, which is 4 ms of its CPU time.
 *
 * Cost: a charge writes one line per level, of the CPU's own LLC; a comparison reads two lines per
 * level; reading the sum takes one read for each other LLC and level. It fails where LLCs are
 * single CPUs: a group on many of them is read from many lines.
 */
#ifndef WL_GROUPS_EXACT_SUMS_H
#define WL_GROUPS_EXACT_SUMS_H

#include "group.h"

/* A clock moves a quarter of the way to each v that is picked. */
#define WL_EXACT_CLOCK_SHIFT  2
#define WL_EXACT_FAVOUR_TICKS 4
#define WL_EXACT_RATE_US      32768 /* time over which a rate is measured, in 1024 ns */

/* CPU time as a distance between v's. */
WL_INLINE u64 wl_exact_v_of(u64 time_ns, u32 shares)
{
	return shares == WL_WEIGHT_NICE_0 ? time_ns : wl_div(time_ns * WL_WEIGHT_NICE_0, shares);
}

/* A distance between v's of something with these shares, as CPU time. Valid up to a day. */
WL_INLINE u64 wl_exact_time_of(u64 v, u32 shares)
{
	return wl_mul_shift(v, shares, 10);
}

/* v of a group. What a group has in an LLC is in its record of the LLC's first CPU. */
WL_INLINE u64 wl_exact_v(const struct wl_group_cpu *gl)
{
	return wl_read_once(gl->exact.part) + wl_read_once(gl->exact.others);
}

/* The clock of a group's children and tasks in an LLC. The LLC itself keeps the root's. */
WL_INLINE struct wl_clock *wl_exact_clock(struct wl_policy *p, u32 slot, u32 llc)
{
	struct wl_group_cpu *gl = slot ? wl_group_cpu_at(p, slot, llc) : 0;

	return gl ? &gl->exact.clock : &wl_cpu_of(p, llc)->exact_llc.clock;
}

/* Moves v to another v, by 1/2^shift of the way. */
WL_INLINE u64 wl_exact_nearer(u64 v, u64 to, u32 shift)
{
	s64 way = to - v;

	return way >= 0 ? v + ((u64)way >> shift) : v - (-(u64)way >> shift);
}

WL_INLINE void wl_exact_move_clock(struct wl_clock *clock, u64 v, u64 now_ns)
{
	u32 now_us = now_ns >> 10, time_us = now_us - wl_get(clock->rate_us);
	u64 gone;

	wl_write_once(clock->v, wl_exact_nearer(wl_get(clock->v), v, WL_EXACT_CLOCK_SHIFT));
	/* The first rate is measured over a shorter time. */
	if (time_us < (wl_get(clock->rate) ? WL_EXACT_RATE_US : WL_EXACT_RATE_US / 8))
		return;
	gone = wl_get(clock->v) - wl_get(clock->rate_v);
	gone = (s64)gone < 0 ? 0 : wl_div(gone, time_us);
	/* A clock that has stood still has no rate. */
	if (time_us < 2 * WL_EXACT_RATE_US)
		clock->rate = gone < ~0u ? gone : ~0u;
	clock->rate_v = wl_get(clock->v);
	clock->rate_us = now_us;
}

/* Start values of the clock of cpu's LLC, kept in its first CPU's record. */
WL_INLINE void wl_exact_init(struct wl_policy *p, u32 cpu)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	c->exact_llc.clock.v = WL_VTIME_START;
	c->exact_llc.clock.rate_v = WL_VTIME_START;
}

/* ------------------------------------------------------------------ sums */

/* Reads what other LLCs have of a group, unless that was done within half a tick. */
WL_INLINE void wl_exact_sum_group(struct wl_policy *p, u32 slot, u32 cpu, u64 now_ns,
				  struct wl_reads *reads)
{
	struct wl_level *lv = wl_level_of(p, p->topo.llc_level);
	u32 llc = wl_llc_first(p, cpu), nr_llcs = lv->nr_doms, waiting = 0, running = 0, i, other;
	struct wl_group_cpu *gl = wl_group_cpu_at(p, slot, llc);
	u64 others = 0;

	if (nr_llcs < 2 || !gl ||
	    now_ns - wl_get(gl->exact_others.summed_ns) < p->params.tick_ns / 2)
		return;
	wl_for (i, 0, nr_llcs) {
		struct wl_group_cpu *there;

		other = wl_entry(lv->cpus, wl_entry(lv->first, i));
		there = wl_group_cpu_at(p, slot, other);
		if (other == llc || !there)
			continue;
		wl_read_group(p, reads, slot, other, wl_distance(p, cpu, other));
		others += wl_read_once(there->exact.part);
		waiting += wl_read_once(there->exact.waiting);
		running += wl_read_once(there->exact.running);
	}
	wl_write_once(gl->exact.others, others);
	gl->exact_others.waiting = waiting;
	gl->exact_others.running = running;
	gl->exact_others.summed_ns = now_ns;
	wl_wrote_group(p, slot, llc);
}

WL_FN int wl_exact_sum_groups(struct wl_policy *p WL_ARG, u32 slot, u32 cpu, u64 now_ns,
			      struct wl_reads *reads WL_ARG)
{
	u32 at = slot, i;

	wl_for_depth (i) {
		struct wl_group *g = wl_group_at(p, at);

		if (!at || !g)
			break;
		wl_exact_sum_group(p, at, cpu, now_ns, reads);
		at = wl_get(g->parent);
	}
	return 0;
}

/* Reads the sums of a group and of all groups above it, if there are other LLCs. */
WL_INLINE void wl_exact_sum(struct wl_policy *p, u32 slot, u32 cpu, u64 now_ns,
			    struct wl_reads *reads)
{
	if (slot && wl_level_of(p, p->topo.llc_level)->nr_doms > 1)
		wl_exact_sum_groups(p, slot, cpu, now_ns, reads);
}

/* ------------------------------------------------------------------ order */

/* Two tasks to compare, as seen from an LLC. */
struct wl_exact_pair {
	struct wl_exact_key a,
		b; /* at first the task's v and weight; then those of what is compared */
};

WL_INLINE struct wl_exact_key wl_exact_key_of(const struct wl_task *t)
{
	return (struct wl_exact_key){.v = t->entity.vtime, .slot = t->group, .weight = t->weight};
}

/* A key that a CPU keeps for others to see. */
WL_INLINE struct wl_exact_key wl_exact_seen(const struct wl_exact_key *key)
{
	return (struct wl_exact_key){.v = wl_read_once(key->v),
				     .slot = wl_read_once(key->slot),
				     .weight = wl_read_once(key->weight)};
}

WL_FN s64 wl_exact_ahead_groups(struct wl_policy *p WL_ARG, struct wl_exact_pair *pair WL_ARG,
				u32 llc)
{
	u32 a = pair->a.slot, b = pair->b.slot, a_capped = 0, b_capped = 0, i;
	u64 favour;

	wl_for (i, 0, 2 * WL_GROUP_DEPTH) {
		struct wl_group *ga = wl_group_at(p, a), *gb = wl_group_at(p, b);
		struct wl_group_cpu *la = wl_group_cpu_at(p, a, llc);
		struct wl_group_cpu *lb = wl_group_cpu_at(p, b, llc);
		u32 a_depth, b_depth;

		if (a == b || !ga || !gb || !la || !lb)
			break;
		a_depth = a ? wl_get(ga->depth) : 0;
		b_depth = b ? wl_get(gb->depth) : 0;
		if (a_depth >= b_depth) {
			pair->a.v = wl_exact_v(la);
			pair->a.weight = wl_get(ga->shares);
			a_capped |= wl_get(la->exact_others.capped);
			a = wl_get(ga->parent);
		}
		if (b_depth >= a_depth) {
			pair->b.v = wl_exact_v(lb);
			b_capped |= wl_get(lb->exact_others.capped);
			b = wl_get(gb->parent);
		}
	}
	favour = wl_mul_shift(WL_EXACT_FAVOUR_TICKS * p->params.tick_ns,
			      wl_get(wl_exact_clock(p, a, llc)->rate), 10);
	return pair->b.v - pair->a.v + (a_capped ? favour : 0) - (b_capped ? favour : 0);
}

/* How far b is ahead of a, as a distance between v's: above 0 if a should be served first. */
WL_INLINE s64 wl_exact_ahead(struct wl_policy *p, struct wl_exact_pair *pair, u32 llc)
{
	/* Tasks of one group, the most frequent case. */
	if (pair->a.slot == pair->b.slot)
		return pair->b.v - pair->a.v;
	return wl_exact_ahead_groups(p, pair, llc);
}

/* Is b ahead of a by more than time_ns of a's CPU time? */
WL_INLINE u32 wl_exact_is_ahead(struct wl_policy *p, struct wl_exact_pair *pair, u32 llc,
				u64 time_ns)
{
	s64 ahead = wl_exact_ahead(p, pair, llc);

	return ahead > 0 && wl_exact_time_of(ahead, pair->a.weight) > time_ns;
}

#endif /* WL_GROUPS_EXACT_SUMS_H */
