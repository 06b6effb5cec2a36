/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * eevdf.h - one queue by the rules of EEVDF: who is eligible, what joins and leaves, lag, slices.
 *
 * What it says of entities holds for tasks and, with groups=queues, for groups. queue_fair.h has
 * the rules, an example and where they fail; it makes events of these steps. V of a queue needs no
 * walk over it: the queue keeps S, the sum of weight * vtime modulo 2^64, and
 *	V = anchor + (S - load * anchor) / load
 * for any anchor near V: the vtime of what runs, else the last V. load is the sum of the weights.
 *
 * Example: two entities of 1024, at 3 ms and 5 ms: S = 8 ms * 1024, load = 2048. From the anchor 3
 * ms, V = 3 + (8 * 1024 - 2048 * 3) / 2048 = 4 ms.
 *
 * Cost: V takes a division. It fails if a race left S wrong: a V too far from its anchor is not
 * believed, and the anchor is taken instead, until the queue holds one entity and S is set again.
 */
#ifndef WL_EEVDF_H
#define WL_EEVDF_H

#include "wait.h"

/* No vtime is as great. */
#define WL_VTIME_NEVER (~0ULL)

/* Of the lightest task. Linux has 3 for SCHED_IDLE, and sched_ext 10. */
#define WL_HWEIGHT_LIGHTEST (1 << WL_HWEIGHT_SHIFT)

/* Are the rules those of a kernel? */
WL_INLINE u32 wl_fair_as_kernel(const struct wl_policy *p)
{
	return wl_axis(p, queue) > WL_QUEUE_FAIR;
}

/* ------------------------------------------------------------------ arithmetic */

/* A whole slice of an entity in vtime. */
WL_INLINE u64 wl_fair_slice(const struct wl_policy *p, const struct wl_entity *e)
{
	return wl_vtime_of(wl_slice_ns(p, e), e->hweight);
}

/* The greatest lag of an entity with this slice, in vtime. */
WL_INLINE u64 wl_fair_lag_max(const struct wl_params *params, u64 slice_ns, u32 hweight)
{
	u64 slices_ns = 2 * slice_ns;

	return wl_vtime_of(slices_ns > params->tick_ns ? slices_ns : params->tick_ns, hweight);
}

/* How much longer an entity may run until its deadline; at least 1 ns. */
WL_INLINE u64 wl_fair_left_ns(u64 vtime, u64 deadline, u32 hweight)
{
	u64 left_ns = deadline > vtime ? (deadline - vtime) * hweight /
						 (WL_WEIGHT_NICE_0 << WL_HWEIGHT_SHIFT)
				       : 0;

	return left_ns ? left_ns : 1;
}

/* A distance in vtime for hweight `was`, as the distance of the same run time for hweight `now`. */
WL_INLINE u64 wl_fair_rescale(u64 vtime, u32 was, u32 now)
{
	return was == now ? vtime : wl_div(vtime * was, now);
}

/*
 * Is V of a queue of c believed at this distance from the anchor? Yes, up to twice the lag limit of
 * the lightest entity with the longest slice.
 */
WL_INLINE u32 wl_fair_is_near(struct wl_policy *p, const struct wl_cpu *c, u64 off)
{
	u64 slice_ns = p->params.min_granularity_ns;

	/*
	 * True nearly always, and needs no division: lags are up to two slices, and more for
	 * lighter entities.
	 */
	if (off <= slice_ns)
		return 1;
	if (wl_read_once(c->slices.nr_own) && slice_ns < WL_SLICE_MAX_NS)
		slice_ns = WL_SLICE_MAX_NS;
	return off <=
	       4 * wl_fair_lag_max(&p->params, slice_ns,
				   p->params.nr_groups ? WL_HWEIGHT_MIN : WL_HWEIGHT_LIGHTEST);
}

/*
 * V of a queue of cpu, computed from an anchor: the vtime of what runs (runs is 1), else the last
 * V.
 */
WL_FN_OWN u64 wl_fair_mean_from(struct wl_policy *p WL_ARG, u32 cpu,
				const struct wl_run_queue *q WL_ARG, u64 anchor, u32 runs)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u64 load = wl_read_once(q->charged), sum, off;

	if (!load)
		return runs ? wl_read_once(q->min_vtime) : anchor;
	sum = wl_read_once(q->vtime_sum);
	/* S holds the vtime of what runs as of its last charge. */
	if (runs)
		sum += (anchor - wl_read_once(q->curr_vtime)) * wl_read_once(q->curr_weight);
	off = sum - load * anchor;
	if ((s64)off >= 0) {
		off = wl_div(off, load);
		return wl_fair_is_near(p, c, off) ? anchor + off : anchor;
	}
	/* Rounded down, like the other branch. */
	off = wl_div(0 - off + load - 1, load);
	return off <= anchor && wl_fair_is_near(p, c, off) ? anchor - off : anchor;
}

/*
 * V of a queue of cpu, where something runs (1) or nothing. It lies between the smallest and the
 * greatest vtime there.
 */
WL_INLINE u64 wl_fair_mean(struct wl_policy *p, u32 cpu, const struct wl_run_queue *q, u32 runs,
			   u64 now_ns)
{
	if (runs)
		return wl_fair_mean_from(p, cpu, q, wl_curr_vtime(q, now_ns), 1);
	return wl_fair_mean_from(p, cpu, q, wl_read_once(q->min_vtime), 0);
}

/* ------------------------------------------------------------------ joining and leaving */

/* If it is picked again, it is a new choice. */
WL_INLINE void wl_fair_forget(struct wl_policy *p, struct wl_run_queue *q, u64 id)
{
	if (wl_fair_as_kernel(p) && wl_read_once(q->last) == id + 1)
		wl_write_once(q->last, 0);
}

/* Adds an entity to S. */
WL_INLINE void wl_fair_add(struct wl_run_queue *q, const struct wl_entity *e)
{
	wl_atomic_add(&q->charged, e->hweight);
	wl_atomic_add(&q->vtime_sum, e->vtime * e->hweight);
}

/* Takes an entity out of S. */
WL_INLINE void wl_fair_remove(struct wl_run_queue *q, const struct wl_entity *e)
{
	wl_atomic_add(&q->vtime_sum, 0 - e->vtime * e->hweight);
	wl_atomic_add(&q->charged, 0 - (u64)e->hweight);
}

/* Takes an entity out of S, and keeps its lag from V, the mean. */
WL_FN_OWN int wl_fair_leave(struct wl_policy *p WL_ARG, struct wl_run_queue *q WL_ARG,
			    struct wl_entity *e WL_ARG, u64 mean)
{
	u64 most = wl_fair_lag_max(&p->params, wl_slice_ns(p, e), e->hweight);
	u64 lag = mean >= e->vtime ? mean - e->vtime : e->vtime - mean;

	lag = lag < most ? lag : most;
	e->lag = mean >= e->vtime ? (s64)lag : -(s64)lag;
	wl_fair_remove(q, e);
	wl_write_once(q->min_vtime, mean);
	return 0;
}

/* How an entity comes to a queue. */
#define WL_JOIN_NEW   1u /* it never ran */
#define WL_JOIN_MOVED 2u /* from another CPU, and not from sleep */

/* Sets vtime and deadline of an entity that comes to a queue with this V. It is not in S yet. */
WL_FN_OWN int wl_fair_join(struct wl_policy *p WL_ARG, struct wl_run_queue *q WL_ARG,
			   struct wl_entity *e WL_ARG, u64 mean, u32 how)
{
	u64 load = wl_read_once(q->charged), slice = wl_fair_slice(p, e);
	u64 left = e->deadline - e->vtime, lag;

	if (how & WL_JOIN_NEW)
		slice /= 2;
	else if ((how & WL_JOIN_MOVED) && left && left < slice &&
		 wl_axis(p, queue) != WL_QUEUE_FAIR_2023)
		slice = left;
	if (!load || (how & WL_JOIN_NEW))
		e->lag = 0;
	lag = e->lag < 0 ? 0 - (u64)e->lag : (u64)e->lag;
	lag += wl_div(lag * e->hweight, load);
	if (e->lag < 0)
		e->vtime = mean + lag;
	else
		e->vtime = mean > lag ? mean - lag : 0;
	e->deadline = e->vtime + slice;
	return 0;
}

/* Sets the hweight of an entity that is in no S. */
WL_INLINE void wl_fair_rescale_lag(struct wl_entity *e, u32 hweight)
{
	u64 left;

	if (e->hweight == hweight)
		return;
	left = wl_fair_rescale(e->deadline - e->vtime, e->hweight, hweight);
	if (e->lag < 0)
		e->lag = -(s64)wl_fair_rescale(0 - (u64)e->lag, e->hweight, hweight);
	else
		e->lag = wl_fair_rescale(e->lag, e->hweight, hweight);
	e->deadline = e->vtime + left;
	e->hweight = hweight;
}

/*
 * Sets the hweight of an entity in S that has been charged and is in no host's queue. V, its lag
 * and what is left of its slice stay the same in run time.
 */
WL_FN int wl_fair_reweigh_to(struct wl_policy *p WL_ARG, struct wl_run_queue *q WL_ARG,
			     struct wl_entity *e WL_ARG, u32 hweight, u64 mean)
{
	u64 left = e->deadline - e->vtime, before = e->vtime * e->hweight, lag;
	u32 was = e->hweight;

	(void)p;
	if (e->vtime > mean) {
		e->vtime = mean + wl_fair_rescale(e->vtime - mean, was, hweight);
	} else {
		lag = wl_fair_rescale(mean - e->vtime, was, hweight);
		e->vtime = mean > lag ? mean - lag : 0;
	}
	e->deadline = e->vtime + wl_fair_rescale(left, was, hweight);
	e->hweight = hweight;
	wl_atomic_add(&q->charged, (u64)hweight - was);
	wl_atomic_add(&q->vtime_sum, e->vtime * hweight - before);
	return 0;
}

/* As wl_fair_reweigh_to(), of what runs. */
WL_INLINE void wl_fair_reweigh_curr(struct wl_policy *p, struct wl_run_queue *q,
				    struct wl_entity *e, u32 hweight, u64 mean)
{
	u64 vtime = e->vtime, protected = wl_read_once(q->protected);
	u32 was = e->hweight;

	wl_fair_reweigh_to(p, q, e, hweight, mean);
	wl_write_once(q->curr_weight, hweight);
	wl_write_once(q->curr_vtime, e->vtime);
	wl_write_once(q->deadline, e->deadline);
	if (protected > vtime)
		wl_write_once(q->protected,
			      e->vtime + wl_fair_rescale(protected - vtime, was, hweight));
}

/* ------------------------------------------------------------------ what stays without a task */

/*
 * What e stands for wakes in q of cpu, where something runs (1) or nothing. If V, as of the last
 * charge, has passed e, that is placed at the V of the others with a whole slice: then returns 1.
 */
WL_INLINE u32 wl_fair_lift(struct wl_policy *p, u32 cpu, struct wl_run_queue *q,
			   struct wl_entity *e, u32 runs)
{
	u64 charged_ns = wl_read_once(q->curr_start_ns), arrived_ns = wl_read_once(q->arrived_ns);
	u64 at_ns = arrived_ns > charged_ns ? arrived_ns : charged_ns;

	if (e->vtime >= wl_fair_mean(p, cpu, q, runs, at_ns))
		return 0;
	wl_fair_remove(q, e);
	e->vtime = wl_fair_mean(p, cpu, q, runs, at_ns);
	e->deadline = e->vtime + wl_fair_slice(p, e);
	wl_fair_add(q, e);
	return 1;
}

/* ------------------------------------------------------------------ what runs */

/* The next slice of what runs may have begun when something arrived. */
WL_INLINE void wl_fair_take_slice(struct wl_policy *p, const struct wl_run_queue *q,
				  struct wl_entity *e)
{
	if (wl_fair_as_kernel(p))
		e->deadline = wl_read_once(q->deadline);
}

/*
 * Charges what runs for this time, and gives it another slice if this one is over: then returns 1.
 */
WL_INLINE u32 wl_fair_charge_entity(struct wl_policy *p, struct wl_run_queue *q,
				    struct wl_entity *e, u64 delta_ns, u64 now_ns)
{
	u64 ran = wl_vtime_of(delta_ns, e->hweight);

	e->vtime += ran;
	wl_atomic_add(&q->vtime_sum, ran * e->hweight);
	wl_write_once(q->curr_vtime, e->vtime);
	wl_write_once(q->curr_start_ns, now_ns);
	if (e->vtime < e->deadline)
		return 0;
	e->deadline = e->vtime + wl_fair_slice(p, e);
	wl_write_once(q->deadline, e->deadline);
	wl_write_once(q->curr_renewed, 1);
	return 1;
}

/* Is what runs in q, a queue of c, alone there? */
WL_INLINE u32 wl_fair_is_alone(const struct wl_policy *p, const struct wl_cpu *c,
			       const struct wl_run_queue *q)
{
	if (wl_nests(p))
		return wl_read_once(q->nr) == 1;
	return !wl_read_once(c->nr_queued) && wl_read_once(c->nr_running) == 1;
}

/* e runs in q, a queue of c. If it is alone there, it is all that S holds. */
WL_INLINE void wl_fair_alone(const struct wl_policy *p, const struct wl_cpu *c,
			     struct wl_run_queue *q, const struct wl_entity *e)
{
	/* What joins meanwhile has been counted before. */
	u64 sum = wl_read_once(q->vtime_sum), charged = wl_read_once(q->charged);

	if ((sum != e->vtime * e->hweight || charged != e->hweight) && wl_fair_is_alone(p, c, q)) {
		wl_atomic_cas(&q->charged, charged, (u64)e->hweight);
		wl_atomic_cas(&q->vtime_sum, sum, e->vtime * e->hweight);
	}
}

/* Is what runs in q, at this vtime, protected from others? Only if it is eligible, too. */
WL_INLINE u32 wl_fair_protected(const struct wl_run_queue *q, u64 vtime)
{
	return !wl_read_once(q->curr_renewed) && vtime < wl_read_once(q->protected);
}

/*
 * Does what runs in q, whose V is mean, give way at this vtime to something eligible with this
 * deadline?
 */
WL_INLINE u32 wl_fair_gives_way_to(struct wl_policy *p, const struct wl_run_queue *q, u64 deadline,
				   u64 vtime, u64 mean, u64 now_ns)
{
	if (vtime > mean)
		return 1;
	if (wl_fair_protected(q, vtime) && wl_read_once(q->shorter_ns) != now_ns + 1)
		return 0;
	return deadline < wl_read_once(q->deadline) + wl_fair_as_kernel(p);
}

/* Should e, in q of cpu, run there now, instead of what runs, whose vtime is vtime? */
WL_INLINE u32 wl_fair_preempts(struct wl_policy *p, u32 cpu, const struct wl_run_queue *q,
			       const struct wl_entity *e, u64 vtime, u64 now_ns)
{
	u64 mean = wl_fair_mean_from(p, cpu, q, vtime, 1);

	return e->vtime <= mean && wl_fair_gives_way_to(p, q, e->deadline, vtime, mean, now_ns);
}

/*
 * e, which is counted in q of cpu, has arrived there beside what runs. If its slice is shorter,
 * that may lose its protection.
 */
WL_FN int wl_fair_arrives_shorter(struct wl_policy *p WL_ARG, u32 cpu,
				  struct wl_run_queue *q WL_ARG, const struct wl_entity *e WL_ARG,
				  u64 now_ns)
{
	u64 vtime = wl_curr_vtime(q, now_ns), mean = wl_fair_mean_from(p, cpu, q, vtime, 1), until;

	if (wl_axis(p, queue) != WL_QUEUE_FAIR_2025) {
		if (e->vtime <= mean && (vtime > mean || e->deadline < wl_read_once(q->deadline)))
			wl_write_once(q->curr_renewed, 1);
		return 0;
	}
	until = vtime + wl_vtime_of(wl_slice_shortest(p, cpu), wl_read_once(q->curr_weight));
	if (until < wl_read_once(q->protected))
		wl_write_once(q->protected, until);
	wl_write_once(q->shorter_ns, now_ns + 1);
	return 0;
}

/* Does what runs in q, at this vtime, give way if it is charged while others wait? */
WL_INLINE u32 wl_fair_gives_way(struct wl_policy *p, u32 cpu, const struct wl_run_queue *q,
				u64 vtime)
{
	if (wl_fair_protected(q, vtime) || wl_axis(p, queue) == WL_QUEUE_FAIR_2023)
		return 0;
	return wl_axis(p, queue) == WL_QUEUE_FAIR_2025 ||
	       vtime > wl_fair_mean_from(p, cpu, q, vtime, 1);
}

/*
 * fair-2023 and later: something is about to join q of cpu, where something runs and `others` wait.
 * Charges what runs, and returns 1 if that gives way to them.
 */
WL_INLINE u32 wl_fair_arrives(struct wl_policy *p, u32 cpu, struct wl_run_queue *q, u32 others,
			      u64 now_ns)
{
	u64 vtime = wl_curr_vtime(q, now_ns);

	wl_write_once(q->arrived_ns, now_ns);
	if (vtime < wl_read_once(q->deadline))
		return others && wl_fair_gives_way(p, cpu, q, vtime);
	wl_write_once(q->deadline,
		      vtime + wl_vtime_of(wl_read_once(q->slice_ns), wl_read_once(q->curr_weight)));
	wl_write_once(q->curr_renewed, 1);
	return others != 0;
}

/* The vtime until which e is protected, which is about to run on cpu. */
WL_INLINE u64 wl_fair_protect_until(struct wl_policy *p, const struct wl_entity *e, u32 cpu)
{
	u64 shortest_ns;

	if (wl_axis(p, parity) == WL_PARITY_OFF)
		return 0;
	if (wl_axis(p, queue) != WL_QUEUE_FAIR_2025 ||
	    !wl_read_once(wl_cpu_of(p, cpu)->slices.nr_own))
		return WL_VTIME_NEVER;
	shortest_ns = wl_slice_shortest(p, cpu);
	return shortest_ns < wl_slice_ns(p, e) ? e->vtime + wl_vtime_of(shortest_ns, e->hweight)
					       : WL_VTIME_NEVER;
}

/* e, by this id, is about to run in q of cpu. It has been charged. */
WL_INLINE void wl_fair_starts(struct wl_policy *p, u32 cpu, struct wl_run_queue *q,
			      const struct wl_entity *e, u64 id, u64 now_ns)
{
	wl_write_once(q->curr_weight, e->hweight);
	wl_write_once(q->curr_vtime, e->vtime);
	wl_write_once(q->curr_start_ns, now_ns);
	wl_write_once(q->deadline, e->deadline);
	wl_write_once(q->slice_ns, wl_slice_ns(p, e));
	if (!wl_fair_as_kernel(p) || wl_read_once(q->last) != id + 1) {
		wl_write_once(q->curr_renewed, 0);
		wl_write_once(q->protected, wl_fair_protect_until(p, e, cpu));
	}
	wl_write_once(q->last, id + 1);
}

/*
 * What runs in q, whose V is mean, gives up its CPU, after it has been charged. Until Linux 6.17
 * its deadline moves; from then on it forfeits the rest of its slice, if it is eligible.
 */
WL_FN int wl_fair_forfeit(struct wl_policy *p WL_ARG, struct wl_run_queue *q WL_ARG,
			  struct wl_entity *e WL_ARG, u64 mean)
{
	u64 before = e->vtime;

	if (wl_axis(p, queue) != WL_QUEUE_FAIR_2023 && wl_axis(p, queue) != WL_QUEUE_FAIR_2024) {
		if (e->vtime > mean)
			return 0;
		e->vtime = e->deadline;
		wl_atomic_add(&q->vtime_sum, (e->vtime - before) * e->hweight);
		wl_write_once(q->curr_vtime, e->vtime);
	}
	e->deadline += wl_fair_slice(p, e);
	wl_write_once(q->deadline, e->deadline);
	wl_write_once(q->curr_renewed, 1);
	return 0;
}

/* An entity in S whose task was overdue (wait.h) loses what it has received beyond V. */
WL_FN int wl_fair_forgive(struct wl_policy *p WL_ARG, struct wl_run_queue *q WL_ARG,
			  struct wl_entity *e WL_ARG, u64 mean)
{
	if (e->vtime <= mean)
		return 0;
	wl_atomic_add(&q->vtime_sum, (mean - e->vtime) * e->hweight);
	e->vtime = mean;
	e->deadline = mean + wl_fair_slice(p, e);
	return 0;
}

#endif /* WL_EEVDF_H */
