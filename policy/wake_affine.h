/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * wake_affine.h - affine=always: is the wakee pulled from prev to this, where the wake-up happens?
 *
 * It is pulled only if it may run on this and a domain with wake-affine spans this and prev. Let
 * L(c) be the load of CPU c, w the wakee's, this_load = L(this), less the waker's load if the
 * wake-up is sync, and prev_load = L(prev) without the wakee's. loads.h says what loads are. Then
 * it is pulled if one of these holds:
 *	4.15 only:	this is idle; or the wake-up is sync and the waker runs alone on this
 *	both forms:	this_load is 0
 *		100 * (this_load + w) <= (100 + (imbalance_pct - 100) / 2) * prev_load
 *		this_load <= prev_load, and their sum is at most this's mean load per task
 * imbalance_pct is that of the smallest domain that spans both: 110 for SMT siblings, 117 inside an
 * LLC, 125 beyond.
 *
 * Example: this and prev are inside one LLC, form=3.10, affine-loads=now, all weights 1024. The
 * waker runs on this, where one more task is queued; prev has 2 tasks. If the wake-up is sync,
 * this_load is 1024 and prev_load is 2048: 100 * 2048 <= 108 * 2048, so the wakee is pulled. If
 * not, this_load is 2048: 100 * 3072 > 108 * 2048, and 4096 is above the mean of 1024, so it is not
 * pulled.
 *
 * Cost: one remote CPU is read. It fails where one waker serves many wakees: it pulls them all onto
 * its own CPU, and they all wait for it.
 */
#ifndef WL_WAKE_AFFINE_H
#define WL_WAKE_AFFINE_H

#include "loads.h"

/* Returns the target and says why. waker may be null. */
WL_FN int wl_affine_always(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG,
			   const struct wl_task *t WL_ARG, const struct wl_task *waker,
			   struct wl_decision *out WL_ARG)
{
	struct wl_cpu *this = wl_cpu_of(p, s->this_cpu);
	u32 level, nr, sync = 0, form_4_15 = wl_axis(p, affine_form) == WL_AFFINE_4_15;
	u64 this_load, prev_load, mean, leaves;

	out->affine_reason = WL_AFFINE_PREV;
	if (s->this_cpu == s->prev) {
		out->affine_reason = WL_AFFINE_SAME_CPU;
		return s->prev;
	}
	if (!wl_allowed(p, t, s->this_cpu)) {
		out->affine_reason = WL_AFFINE_NOT_ALLOWED;
		return s->prev;
	}
	level = wl_spanning_level(p, s->this_cpu, s->prev);
	if (level >= p->topo.nr_levels || !wl_level_of(p, level)->wake_affine) {
		out->affine_reason = WL_AFFINE_NO_DOMAIN;
		return s->prev;
	}
	/* Only a waker that counts on this CPU frees something there by sleeping. */
	if (waker)
		sync = (s->flags & WL_WAKE_SYNC) && waker->place != WL_PLACE_NONE &&
		       waker->cpu == (s32)s->this_cpu;

	wl_read_cpu(p, &out->reads, s->this_cpu, WL_DIST_CPU);
	nr = wl_read_once(this->nr_running) + wl_read_once(this->nr_queued);
	this_load = wl_load_of_cpu(p, s->this_cpu, s->now_ns);
	mean = wl_div(this_load, nr);
	if (form_4_15 && wl_looks_idle(p, s->this_cpu)) {
		out->affine_reason = WL_AFFINE_THIS_IDLE;
		return s->this_cpu;
	}
	if (form_4_15 && sync && nr == 1) {
		out->affine_reason = WL_AFFINE_SYNC_ALONE;
		return s->this_cpu;
	}
	wl_read_cpu(p, &out->reads, s->prev, wl_distance(p, s->this_cpu, s->prev));
	prev_load = wl_load_of_others(p, s->prev, t, s->now_ns);
	if (waker && sync) {
		leaves = wl_load_of_task(p, waker, s->this_cpu, 0, s->now_ns);
		this_load -= leaves < this_load ? leaves : this_load;
	}

	if (this_load == 0)
		out->affine_reason = WL_AFFINE_ZERO_LOAD;
	else if (100 * (this_load + wl_load_of_task(p, t, s->this_cpu, 1, s->now_ns)) <=
		 (100 + (wl_level_of(p, level)->imbalance_pct - 100) / 2) * prev_load)
		out->affine_reason = WL_AFFINE_LOAD;
	else if (this_load <= prev_load && this_load + prev_load <= mean)
		out->affine_reason = WL_AFFINE_MEAN_LOAD;
	return out->affine_reason == WL_AFFINE_PREV ? s->prev : s->this_cpu;
}

#endif /* WL_WAKE_AFFINE_H */
