/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * wake_wide.h - affine=wide: today's mainline; a waker of many tasks does not pull.
 *
 * Each task counts its flips as in wake_flips.h, but a count that is 1 s old is halved, not
 * cleared, and pinned wakees do not count. Let master be the greater and slave the smaller of the
 * waker's and the wakee's flips, and factor the number of CPUs of this's LLC. The wakee stays if
 * slave >= factor and master >= slave * factor. Else, if it may run on this and a domain with
 * wake-affine spans this and prev, the first rule that applies decides:
 *   1. this is idle and shares prev's LLC: prev if that is idle too, else this
 *   2. the wake-up is sync and the waker runs alone on this: this
 *   3. prev is idle: prev
 *   4. loads (loads.h), with w the wakee's and capacities scaling both sides: this if
 *	(L(this) - the waker's load if sync + w) * 100 * capacity(prev)
 *		< L(prev) * (100 + (imbalance_pct - 100) / 2) * capacity(this), + 1 if sync
 *	or if it is sync and the waker's load is more than L(this); else prev. L(prev) is without w.
 *
 * Example: an LLC of 4 CPUs. A server with 64 flips wakes clients with 4 each: 4 >= 4 and 64 >= 16,
 * so they stay. With 3 flips each they may be pulled. Now affine-loads=now, inside the LLC
 * (imbalance_pct 117) and with all weights 1024: the waker and another task are on this, two tasks
 * are on prev. Sync: 2048 * 100 < 2048 * 108, so the wakee is pulled. Not sync: 3072 * 100 >=
 * 221184, so it goes to prev.
 *
 * Cost: one remote CPU is read, and the waker's and wakee's records are written. It fails where a
 * few tasks wake each other at random, because their flips then say nothing.
 */
#ifndef WL_WAKE_WIDE_H
#define WL_WAKE_WIDE_H

#include "wake_flips.h"

/* Does waker or wakee wake too many tasks for a pull? */
WL_INLINE u32 wl_is_wide(struct wl_policy *p, const struct wl_search *s, const struct wl_task *t,
			 const struct wl_task *waker)
{
	struct wl_level *llc = wl_level_of(p, p->topo.llc_level);
	u64 factor = wl_entry(llc->weight, wl_entry(llc->dom_of, s->this_cpu));
	u32 master = waker->wakee_flips, slave = t->wakee_flips, swap;

	if (master < slave) {
		swap = master;
		master = slave;
		slave = swap;
	}
	return slave >= factor && master >= slave * factor;
}

/*
 * Rule 4. Returns 1 if this has less load. sync: the waker, if it is about to sleep; or null.
 */
WL_FN int wl_wide_load(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG,
		       const struct wl_task *t WL_ARG, const struct wl_task *sync,
		       u32 imbalance_pct)
{
	u64 this_load = wl_load_of_cpu(p, s->this_cpu, s->now_ns), leaves = 0;
	u64 prev_load = wl_load_of_others(p, s->prev, t, s->now_ns);
	u64 this_capacity = wl_entry(p->topo.capacity, s->this_cpu);
	u64 prev_capacity = wl_entry(p->topo.capacity, s->prev);

	if (sync)
		leaves = wl_load_of_task(p, sync, s->this_cpu, 0, s->now_ns);
	if (leaves > this_load)
		return 1;
	this_load += wl_load_of_task(p, t, s->this_cpu, 1, s->now_ns) - leaves;
	return this_load * 100 * prev_capacity <
	       prev_load * (100 + (imbalance_pct - 100) / 2) * this_capacity + (sync != 0);
}

/* Returns the target and says why. waker may be null. */
WL_FN int wl_affine_wide(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG,
			 const struct wl_task *t WL_ARG, const struct wl_task *waker,
			 struct wl_decision *out WL_ARG)
{
	struct wl_cpu *this = wl_cpu_of(p, s->this_cpu);
	u32 nr_levels = p->topo.nr_levels, level, sync = 0, idle, prev_idle;

	if (waker) {
		if (wl_is_wide(p, s, t, waker)) {
			out->affine_reason = WL_AFFINE_TOO_WIDE;
			return s->prev;
		}
		/* Only a waker that counts on this CPU frees something there by sleeping. */
		if ((s->flags & WL_WAKE_SYNC) && waker->place != WL_PLACE_NONE &&
		    waker->cpu == (s32)s->this_cpu)
			sync = 1;
	}
	if (s->this_cpu == s->prev) {
		out->affine_reason = WL_AFFINE_SAME_CPU;
		return s->prev;
	}
	if (!wl_allowed(p, t, s->this_cpu)) {
		out->affine_reason = WL_AFFINE_NOT_ALLOWED;
		return s->prev;
	}
	level = wl_spanning_level(p, s->this_cpu, s->prev);
	if (level >= nr_levels || !wl_level_of(p, level)->wake_affine) {
		out->affine_reason = WL_AFFINE_NO_DOMAIN;
		return s->prev;
	}
	wl_read_cpu(p, &out->reads, s->this_cpu, WL_DIST_CPU);
	idle = wl_looks_idle(p, s->this_cpu) && wl_shares_llc(p, s->this_cpu, s->prev);
	if (!idle && sync && wl_read_once(this->nr_running) + wl_read_once(this->nr_queued) == 1) {
		out->affine_reason = WL_AFFINE_SYNC_ALONE;
		return s->this_cpu;
	}
	wl_read_cpu(p, &out->reads, s->prev, wl_distance(p, s->this_cpu, s->prev));
	prev_idle = wl_looks_idle(p, s->prev);
	if (prev_idle) {
		out->affine_reason = WL_AFFINE_PREV_IDLE;
		return s->prev;
	}
	if (idle) {
		out->affine_reason = WL_AFFINE_THIS_IDLE;
		return s->this_cpu;
	}
	if (wl_wide_load(p, s, t, sync ? waker : 0, wl_level_of(p, level)->imbalance_pct)) {
		out->affine_reason = WL_AFFINE_LOAD;
		return s->this_cpu;
	}
	out->affine_reason = WL_AFFINE_PREV;
	return s->prev;
}

#endif /* WL_WAKE_WIDE_H */
