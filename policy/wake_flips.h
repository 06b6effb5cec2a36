/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * wake_flips.h - affine=flips (2013): a waker of many tasks does not pull.
 *
 * Each task counts its flips: wake-ups of another task than the one it woke last. At each wake-up
 * the waker first looks at its stamp: if more than 1 s has passed since, its count becomes 0 and
 * the stamp becomes now. Then, with factor the number of CPUs of this's NUMA node, the wakee stays
 * on prev if
 *	wakee.flips > factor and waker.flips > factor * wakee.flips
 * and otherwise affine=always decides (wake_affine.h). The waker is the task that is current on
 * this, even if an interrupt does the waking. The idle task has no record, and counts nothing (our
 * choice). Pinned wakees count too.
 *
 * Which factor (the axis `factor`): node, as published; llc, as in today's mainline; machine, all
 * CPUs, which is what `node` means on machines without NUMA.
 *
 * Example, factor 6: a client woke 8 servers in turn, 400 times, so it has 400 flips. A server woke
 * only the client, so it has 1 flip; 1 > 6 is false, and `always` decides. Now interrupts wake four
 * kernel threads while the server runs, and each time it wakes the client next: it has 1 + 2 * 4 =
 * 9 flips. 9 > 6 and 400 > 54: it stays. With factor 12 it may be pulled, because 9 > 12 is false.
 * 1 s after the server's stamp its next wake-up clears its count, and it may be pulled again.
 *
 * Cost: the waker's and the wakee's records; the waker's is written. It fails where servers wake
 * only their client: they never have more than one flip, and the rule never applies. Interrupts and
 * locks make it apply, and they say nothing about the servers.
 */
#ifndef WL_WAKE_FLIPS_H
#define WL_WAKE_FLIPS_H

#include "wake_affine.h"

#define WL_FLIP_DECAY_NS 1000000000ULL

/* Counts that the waker wakes t. */
WL_INLINE void wl_record_wakee(struct wl_policy *p, struct wl_task *waker, const struct wl_task *t,
			       u64 now_ns)
{
	if (now_ns > waker->flip_stamp_ns + WL_FLIP_DECAY_NS) {
		/* Today's mainline (wake_wide.h) halves the count that older kernels set to 0. */
		waker->wakee_flips =
			wl_axis(p, affine) == WL_AFFINE_FLIPS ? 0 : waker->wakee_flips >> 1;
		waker->flip_stamp_ns = now_ns;
	}
	if (waker->last_wakee != t->id) {
		waker->last_wakee = t->id;
		waker->wakee_flips++;
	}
}

/* The number of CPUs in cpu's NUMA node: those of the widest domain around it inside one node. */
WL_FN int wl_node_weight(struct wl_policy *p WL_ARG, u32 cpu)
{
	u32 weight = 1, i;

	wl_for_levels (p, i, 1) {
		struct wl_level *lv = wl_level_of(p, i);

		if (lv->kind > WL_DIST_NODE)
			break;
		weight = wl_entry(lv->weight, wl_entry(lv->dom_of, cpu));
	}
	return weight;
}

/* How many flips count as many, for wake-ups on cpu. */
WL_INLINE u64 wl_flips_factor(struct wl_policy *p, u32 cpu)
{
	struct wl_level *llc = wl_level_of(p, p->topo.llc_level);

	switch (wl_axis(p, factor)) {
	case WL_FACTOR_LLC:
		return wl_entry(llc->weight, wl_entry(llc->dom_of, cpu));
	case WL_FACTOR_MACHINE:
		return p->topo.nr_cpus;
	default:
		return wl_node_weight(p, cpu);
	}
}

/* Does the waker wake too many tasks to pull this one? */
WL_INLINE u32 wl_flips_stays(struct wl_policy *p, const struct wl_search *s,
			     const struct wl_task *t, const struct wl_task *waker)
{
	u64 factor = wl_flips_factor(p, s->this_cpu);

	return t->wakee_flips > factor && waker->wakee_flips > factor * t->wakee_flips;
}

#endif /* WL_WAKE_FLIPS_H */
