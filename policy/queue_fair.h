/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * queue_fair.h - queue=fair, and what fair-2023, fair-2024 and fair-2025 share with it: eligible
 * tasks by virtual deadline (EEVDF), as in Linux from 6.6 on.
 *
 * A task's vtime grows by run time * 1024 / weight. V is the mean vtime of all tasks counted on a
 * CPU, by weight: the vtime that each of them would have if all ran at once. A task is *eligible*
 * if its vtime is not beyond V, that is, if it has received no more than its share. Its *deadline*,
 * the key of the queue, is the vtime at which its slice began plus slice * 1024 / weight; the slice
 * is base_slice (0.75 ms, scaled: 3 ms on 8 CPUs or more). The eligible task with the earliest
 * deadline runs.
 *   slice over	A slice ends when the deadline is reached, which a tick notices. The task gets its
 *		next slice, and the CPU reschedules if others wait
 *   parity	A running task that is eligible and has not reached its deadline is not preempted
 *		(RUN_TO_PARITY). Once it has got another slice, it gives way to an eligible task
 *		with an earlier deadline
 *   preempt	An eligible task that arrives preempts a running task that is beyond V
 *   lag	When a task leaves a queue its lag, V - vtime, is kept, limited in both directions
 *		to two slices (or a tick, if that is more) * 1024 / weight. When it arrives, it is
 *		placed at that distance from V, inflated by (load + weight) / load because it moves
 *		V itself (PLACE_LAG). On an empty CPU lag is 0
 *   deadline	A task that wakes has a whole slice to its deadline, a new task half a slice, and a
 *		task that is moved keeps what it had left
 * That is `fair`, which a host that sees only the task in question can carry out. The kernels
 * differ in this (fair-2023: Linux 6.6 to 6.11; fair-2024 and fair-2025 too: queue_delayed.h):
 *   preempt	An arriving task preempts only if it would run next: a third task with an earlier
 *		deadline, if eligible, keeps the running task going, though that is beyond V
 *   arrival	It charges the running task, after a task that slept in the queue has been placed
 *		(queue_delayed.h). If that has reached its deadline, it gets its next
 *		slice at once, and the CPU reschedules if others waited before. Of two equal
 *		deadlines the arriving task's comes first
 *   parity	A task that is picked again right after itself is not protected again
 *   fair-2023	A task beyond V that has got another slice is not stopped by a tick before that
 *		slice is over; and a task that is moved gets a whole slice
 * A task may ask for another slice, but not with fair-2023: slices.h.
 *
 * V needs no walk over the queue: the CPU keeps S, the sum of weight * vtime modulo 2^64, and V =
 * anchor + (S - load * anchor) / load for any anchor near V: the running task's vtime, else the
 * last V. Weights are those by which tasks are charged (hweight, group.h), and load is their sum.
 * When its hweight changes, a task keeps its lag and what is left of its slice, in run time.
 *
 * Example: slice 3 ms, vtimes in ms since the start. A (1024) runs alone from 0, with deadline 3.
 * At 1 ms B (1024) wakes without lag: V is 1 and B's deadline is 4; A is not beyond V, and goes on.
 * At 2 ms A is at 2, V = (2 + 1) / 2 = 1.5, and C (2048) wakes: its vtime is 1.5 and its deadline
 * is 1.5 + 1.5 = 3. A is beyond V, so C preempts it, and runs for 3 ms to its deadline; its next
 * one is 4.5. V = (2 + 1 + 2 * 3) / 4 = 2.25: A (deadline 3) and B (4) are eligible, C is not, and
 * A runs.
 *
 * Cost: two divisions per event; picking asks about tasks in order of deadline until one is
 * eligible, and so does an arrival with fair-2023. There are no batch and idle classes. It fails a
 * task that wakes often and runs briefly beyond its share: its debt stays, in `fair` and fair-2023
 * for as long as it sleeps. In a kernel, a pull that races with a dequeue of the same task may
 * leave S wrong until the CPU has one task; a V too far from its anchor is then not believed, and
 * the anchor is taken instead.
 */
#ifndef WL_QUEUE_FAIR_H
#define WL_QUEUE_FAIR_H

#include "wait.h"

/* No vtime is as great. */
#define WL_VTIME_NEVER (~0ULL)

#define WL_HWEIGHT_NICE_19 (15 << WL_HWEIGHT_SHIFT)

/* ------------------------------------------------------------------ arithmetic */

/* A whole slice of a task in vtime. */
WL_INLINE u64 wl_fair_slice(const struct wl_policy *p, const struct wl_task *t)
{
	return wl_vtime_of(wl_slice_ns(p, t), t->hweight);
}

/* The greatest lag of a task with this slice, in vtime. */
WL_INLINE u64 wl_fair_lag_max(const struct wl_params *params, u64 slice_ns, u32 hweight)
{
	u64 slices_ns = 2 * slice_ns;

	return wl_vtime_of(slices_ns > params->tick_ns ? slices_ns : params->tick_ns, hweight);
}

/* How much longer a task may run until its deadline; at least 1 ns. */
WL_INLINE u64 wl_fair_left_ns(u64 vtime, u64 deadline, u32 hweight)
{
	u64 left_ns = deadline > vtime ? (deadline - vtime) * hweight /
						 (WL_WEIGHT_NICE_0 << WL_HWEIGHT_SHIFT)
				       : 0;

	return left_ns ? left_ns : 1;
}

/*
 * Is V of c believed at this distance from the anchor? Yes, up to twice the lag limit of the
 * lightest task with the longest slice.
 */
WL_INLINE u32 wl_fair_is_near(struct wl_policy *p, const struct wl_cpu *c, u64 off)
{
	u64 slice_ns = p->params.min_granularity_ns;

	/*
	 * True nearly always, and needs no division: lags are up to two slices, and more for
	 * lighter tasks.
	 */
	if (off <= slice_ns)
		return 1;
	if (wl_read_once(c->fair.nr_own) && slice_ns < WL_SLICE_MAX_NS)
		slice_ns = WL_SLICE_MAX_NS;
	return off <=
	       4 * wl_fair_lag_max(&p->params, slice_ns,
				   p->params.nr_groups ? WL_HWEIGHT_MIN : WL_HWEIGHT_NICE_19);
}

/*
 * V of a CPU, computed from an anchor: the vtime of the running task (runs is 1), else the last V.
 */
WL_FN u64 wl_fair_mean_from(struct wl_policy *p WL_ARG, u32 cpu, u64 anchor, u32 runs)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u64 load = wl_read_once(c->fair.charged), sum, off;

	if (!load)
		return runs ? wl_read_once(c->min_vtime) : anchor;
	sum = wl_read_once(c->vtime_sum);
	/* S holds the running task's vtime as of its last charge. */
	if (runs)
		sum += (anchor - wl_read_once(c->curr_vtime)) * wl_read_once(c->curr_weight);
	off = sum - load * anchor;
	if ((s64)off >= 0) {
		off = wl_div(off, load);
		return wl_fair_is_near(p, c, off) ? anchor + off : anchor;
	}
	/* Rounded down, like the other branch. */
	off = wl_div(0 - off + load - 1, load);
	return off <= anchor && wl_fair_is_near(p, c, off) ? anchor - off : anchor;
}

/* V of a CPU. It lies between the smallest and the greatest vtime there. */
WL_INLINE u64 wl_fair_mean(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	if (wl_read_once(c->nr_running))
		return wl_fair_mean_from(p, cpu, wl_curr_vtime(c, now_ns), 1);
	return wl_fair_mean_from(p, cpu, wl_read_once(c->min_vtime), 0);
}

/* ------------------------------------------------------------------ joining and leaving */

/* Are the rules those of a kernel? */
WL_INLINE u32 wl_fair_as_kernel(const struct wl_policy *p)
{
	return wl_axis(p, queue) > WL_QUEUE_FAIR;
}

/* If t is picked again, it is a new choice. */
WL_INLINE void wl_fair_forget(struct wl_policy *p, const struct wl_task *t)
{
	struct wl_cpu *c = wl_cpu_of(p, t->cpu);

	if (wl_fair_as_kernel(p) && wl_read_once(c->fair.last) == t->id + 1)
		wl_write_once(c->fair.last, 0);
}

/*
 * Takes a task out of S, and keeps its lag from V, the mean. The task is still counted on its CPU,
 * but soon no longer.
 */
WL_FN int wl_fair_leave(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u64 mean)
{
	struct wl_cpu *c = wl_cpu_of(p, t->cpu);
	u64 most = wl_fair_lag_max(&p->params, wl_slice_ns(p, t), t->hweight);
	u64 lag = mean >= t->vtime ? mean - t->vtime : t->vtime - mean;

	lag = lag < most ? lag : most;
	t->lag = mean >= t->vtime ? (s64)lag : -(s64)lag;
	wl_atomic_add(&c->vtime_sum, 0 - t->vtime * t->hweight);
	wl_atomic_add(&c->fair.charged, 0 - (u64)t->hweight);
	wl_write_once(c->min_vtime, mean);
	wl_fair_forget(p, t);
	wl_wrote_cpu(p, t->cpu);
	return 0;
}

/*
 * Sets vtime and deadline of a task that comes to cpu, from another CPU (moved) or from sleep. It
 * is not counted there yet.
 */
WL_FN int wl_fair_join(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 cpu, u64 now_ns,
		       u32 moved)
{
	u64 load = wl_read_once(wl_cpu_of(p, cpu)->fair.charged),
	    mean = wl_fair_mean(p, cpu, now_ns);
	u64 slice = wl_fair_slice(p, t), left = t->deadline - t->vtime, lag;

	if (t->flags & WL_TASK_NEW) {
		t->flags &= ~WL_TASK_NEW;
		t->lag = 0;
		slice /= 2;
	} else if (moved && left && left < slice && wl_axis(p, queue) != WL_QUEUE_FAIR_2023) {
		slice = left;
	}
	if (!load || t->cpu < 0)
		t->lag = 0;
	lag = t->lag < 0 ? 0 - (u64)t->lag : (u64)t->lag;
	lag += wl_div(lag * t->hweight, load);
	if (t->lag < 0)
		t->vtime = mean + lag;
	else
		t->vtime = mean > lag ? mean - lag : 0;
	t->deadline = t->vtime + slice;
	return 0;
}

/* A task that joined is now counted: adds it to S, after its hweight. */
WL_INLINE void wl_fair_add(struct wl_policy *p, const struct wl_task *t)
{
	wl_atomic_add(&wl_cpu_of(p, t->cpu)->fair.charged, t->hweight);
	wl_atomic_add(&wl_cpu_of(p, t->cpu)->vtime_sum, t->vtime * t->hweight);
	wl_wrote_cpu(p, t->cpu);
}

/* A distance in vtime for hweight `was`, as the distance of the same run time for hweight `now`. */
WL_INLINE u64 wl_fair_rescale(u64 vtime, u32 was, u32 now)
{
	return was == now ? vtime : wl_div(vtime * was, now);
}

/* Sets the hweight of a task that is not counted anywhere. */
WL_INLINE void wl_fair_rescale_lag(struct wl_task *t, u32 hweight)
{
	u64 left = wl_fair_rescale(t->deadline - t->vtime, t->hweight, hweight);

	if (t->lag < 0)
		t->lag = -(s64)wl_fair_rescale(0 - (u64)t->lag, t->hweight, hweight);
	else
		t->lag = wl_fair_rescale(t->lag, t->hweight, hweight);
	t->deadline = t->vtime + left;
	t->hweight = hweight;
}

/*
 * Sets the hweight of a counted task that has been charged and is not in the queue. V, its lag and
 * what is left of its slice stay the same in run time.
 */
WL_FN int wl_fair_reweigh_to(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 hweight,
			     u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, t->cpu);
	u64 left = t->deadline - t->vtime, before = t->vtime * t->hweight, mean, lag;
	u64 vtime = t->vtime, protected = wl_read_once(c->fair.protected);
	u32 was = t->hweight;

	mean = wl_fair_mean(p, t->cpu, now_ns);
	if (t->vtime > mean) {
		t->vtime = mean + wl_fair_rescale(t->vtime - mean, was, hweight);
	} else {
		lag = wl_fair_rescale(mean - t->vtime, was, hweight);
		t->vtime = mean > lag ? mean - lag : 0;
	}
	t->deadline = t->vtime + wl_fair_rescale(left, was, hweight);
	t->hweight = hweight;
	wl_atomic_add(&c->fair.charged, (u64)hweight - was);
	wl_atomic_add(&c->vtime_sum, t->vtime * hweight - before);
	if (t->place == WL_PLACE_RUNNING) {
		wl_write_once(c->curr_weight, hweight);
		wl_write_once(c->curr_vtime, t->vtime);
		wl_write_once(c->fair.deadline, t->deadline);
		if (protected > vtime)
			wl_write_once(c->fair.protected,
				      t->vtime + wl_fair_rescale(protected - vtime, was, hweight));
	}
	wl_wrote_cpu(p, t->cpu);
	return 0;
}

WL_INLINE void wl_fair_reweigh(struct wl_policy *p, struct wl_task *t, u32 hweight, u64 now_ns)
{
	if (hweight != t->hweight)
		wl_fair_reweigh_to(p, t, hweight, now_ns);
}

/* The running task's next slice may have begun when another task arrived. */
WL_INLINE void wl_fair_take_slice(struct wl_policy *p, struct wl_task *t)
{
	if (wl_fair_as_kernel(p))
		t->deadline = wl_read_once(wl_cpu_of(p, t->cpu)->fair.deadline);
}

/*
 * Charges a running task for what it ran, and gives it another slice if this one is over. Returns 1
 * if that needed V of its CPU; V is then in mean.
 */
WL_INLINE u32 wl_fair_charge_and_mean(struct wl_policy *p, struct wl_task *t, u64 now_ns, u64 *mean)
{
	struct wl_cpu *c = wl_cpu_of(p, t->cpu);
	u64 delta_ns, ran, sum, charged;

	if (t->place != WL_PLACE_RUNNING || now_ns <= t->run_start_ns)
		return 0;
	wl_fair_take_slice(p, t);
	delta_ns = now_ns - t->run_start_ns;
	ran = wl_vtime_of(delta_ns, t->hweight);
	t->sum_exec_ns += delta_ns;
	t->slice_used_ns += delta_ns;
	t->vtime += ran;
	t->run_start_ns = now_ns;
	wl_atomic_add(&c->vtime_sum, ran * t->hweight);
	wl_write_once(c->curr_vtime, t->vtime);
	wl_write_once(c->curr_start_ns, now_ns);
	if (t->vtime >= t->deadline) {
		t->deadline = t->vtime + wl_fair_slice(p, t);
		t->slice_used_ns = 0;
		wl_write_once(c->fair.deadline, t->deadline);
		wl_write_once(c->curr_renewed, 1);
	}
	/*
	 * A single task is all that S holds; a task that joins meanwhile has been counted before.
	 */
	sum = wl_read_once(c->vtime_sum);
	charged = wl_read_once(c->fair.charged);
	if ((sum != t->vtime * t->hweight || charged != t->hweight) &&
	    !wl_read_once(c->nr_queued) && wl_read_once(c->nr_running) == 1) {
		wl_atomic_cas(&c->fair.charged, charged, (u64)t->hweight);
		wl_atomic_cas(&c->vtime_sum, sum, t->vtime * t->hweight);
	}
	*mean = wl_fair_mean_from(p, t->cpu, t->vtime, 1);
	wl_write_once(c->min_vtime, *mean);
	wl_wrote_cpu(p, t->cpu);
	return 1;
}

WL_INLINE void wl_fair_charge(struct wl_policy *p, struct wl_task *t, u64 now_ns)
{
	u64 mean;

	wl_fair_charge_and_mean(p, t, now_ns, &mean);
}

/* Counts a task at this place on cpu. */
WL_INLINE void wl_fair_place(struct wl_policy *p, struct wl_task *t, u32 place, u32 cpu, u64 now_ns)
{
	u32 counted = t->place != WL_PLACE_NONE, hweight = wl_hweight(p, t, cpu);

	if (counted && t->cpu == (s32)cpu) {
		wl_fair_reweigh(p, t, hweight, now_ns);
		wl_place(p, t, place, cpu);
		return;
	}
	if (counted)
		wl_fair_leave(p, t, wl_fair_mean(p, t->cpu, now_ns));
	wl_fair_rescale_lag(t, hweight);
	wl_fair_join(p, t, cpu, now_ns, counted);
	wl_place(p, t, place, cpu);
	wl_fair_add(p, t);
}

/* ------------------------------------------------------------------ events */

/* Is the running task of c, at this vtime, protected from others? Only if it is eligible, too. */
WL_INLINE u32 wl_fair_protected(const struct wl_cpu *c, u64 vtime)
{
	return !wl_read_once(c->curr_renewed) && vtime < wl_read_once(c->fair.protected);
}

/* Should t, queued on cpu, run there now, instead of the running task, whose vtime is vtime? */
WL_INLINE u32 wl_fair_preempts(struct wl_policy *p, const struct wl_task *t, u32 cpu, u64 vtime,
			       u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u64 mean = wl_fair_mean_from(p, cpu, vtime, 1);

	if (t->vtime > mean)
		return 0;
	if (vtime > mean)
		return 1;
	if (wl_fair_protected(c, vtime) && wl_read_once(c->fair.shorter_ns) != now_ns + 1)
		return 0;
	return t->deadline < wl_read_once(c->fair.deadline) + wl_fair_as_kernel(p);
}

/*
 * t, which is counted on cpu, has arrived there beside the running task, whose vtime is vtime. If
 * its slice is shorter, that may lose its protection.
 */
WL_FN int wl_fair_arrives_shorter(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u64 vtime,
				  u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, t->cpu);
	u64 mean = wl_fair_mean_from(p, t->cpu, vtime, 1), until;

	if (wl_axis(p, queue) != WL_QUEUE_FAIR_2025) {
		if (t->vtime <= mean &&
		    (vtime > mean || t->deadline < wl_read_once(c->fair.deadline)))
			wl_write_once(c->curr_renewed, 1);
		return 0;
	}
	until = vtime + wl_vtime_of(wl_slice_shortest(p, t->cpu), wl_read_once(c->curr_weight));
	if (until < wl_read_once(c->fair.protected))
		wl_write_once(c->fair.protected, until);
	wl_write_once(c->fair.shorter_ns, now_ns + 1);
	return 0;
}

/* Should t, queued on cpu, run there now? */
WL_INLINE u32 wl_fair_may_run(struct wl_policy *p, const struct wl_task *t, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	if (wl_read_once(c->nr_running))
		return wl_fair_preempts(p, t, cpu, wl_curr_vtime(c, now_ns), now_ns);
	return t->vtime <= wl_fair_mean_from(p, cpu, wl_read_once(c->min_vtime), 0);
}

/* Does the running task of c, at this vtime, give way if it is charged while others wait? */
WL_INLINE u32 wl_fair_gives_way(struct wl_policy *p, u32 cpu, u64 vtime)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	if (wl_fair_protected(c, vtime) || wl_axis(p, queue) == WL_QUEUE_FAIR_2023)
		return 0;
	return wl_axis(p, queue) == WL_QUEUE_FAIR_2025 ||
	       vtime > wl_fair_mean_from(p, cpu, vtime, 1);
}

/*
 * fair-2023 and later: a task is about to join the queue of c, where `others` wait. Charges the
 * running task, and returns 1 if that gives way to them.
 */
WL_INLINE u32 wl_fair_arrives(struct wl_policy *p, u32 cpu, u32 others, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u64 vtime = wl_curr_vtime(c, now_ns);

	wl_write_once(c->fair.arrived_ns, now_ns);
	if (vtime < wl_read_once(c->fair.deadline))
		return others && wl_fair_gives_way(p, cpu, vtime);
	wl_write_once(c->fair.deadline, vtime + wl_vtime_of(wl_read_once(c->fair.slice_ns),
							    wl_read_once(c->curr_weight)));
	wl_write_once(c->curr_renewed, 1);
	return others != 0;
}

WL_INLINE void wl_fair_enqueue(struct wl_policy *p, struct wl_task *t,
			       const struct wl_enqueue_in *in, struct wl_enqueue_out *out)
{
	u32 cpu = wl_allowed(p, t, in->cpu) ? in->cpu : (u32)wl_nearest_allowed(p, t, in->cpu);
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 arrives = in->why != WL_ENQ_SLICE_END && wl_read_once(c->nr_running);
	u64 vtime;

	wl_fair_charge(p, t, in->now_ns);
	wl_read_queues(p, t, cpu, in->this_cpu, &out->reads);
	if (arrives && wl_fair_as_kernel(p) &&
	    wl_fair_arrives(p, cpu, wl_read_once(c->nr_queued), in->now_ns))
		out->preempt = WL_PREEMPT_YES;
	wl_fair_place(p, t, WL_PLACE_QUEUED, cpu, in->now_ns);
	t->slice_ns = wl_fair_left_ns(t->vtime, t->deadline, t->hweight);

	out->cpu = cpu;
	out->key = t->deadline;
	out->slice_ns = t->slice_ns;
	if (!arrives || !wl_read_once(c->nr_running) || out->preempt)
		return;
	vtime = wl_curr_vtime(c, in->now_ns);
	if (wl_slice_ns(p, t) < wl_read_once(c->fair.slice_ns))
		wl_fair_arrives_shorter(p, t, vtime, in->now_ns);
	if (wl_fair_as_kernel(p)) {
		if (wl_fair_preempts(p, t, cpu, vtime, in->now_ns))
			out->preempt = wl_axis(p, queue) == WL_QUEUE_FAIR_2025
					       ? WL_PREEMPT_IF_FIRST_AWAKE
					       : WL_PREEMPT_IF_FIRST;
		return;
	}
	/* Linux charges the running task here, and reschedules if its slice is over. */
	out->preempt = vtime >= wl_read_once(c->fair.deadline) ||
		       wl_fair_preempts(p, t, cpu, vtime, in->now_ns);
}

/* A counted task that was overdue (wait.h) loses what it has received beyond V. */
WL_FN int wl_fair_forgive(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u64 now_ns)
{
	u64 mean = wl_fair_mean(p, t->cpu, now_ns);

	if (t->vtime <= mean)
		return 0;
	wl_atomic_add(&wl_cpu_of(p, t->cpu)->vtime_sum, (mean - t->vtime) * t->hweight);
	t->vtime = mean;
	t->deadline = mean + wl_fair_slice(p, t);
	wl_wrote_cpu(p, t->cpu);
	return 0;
}

/* The vtime until which t is protected, which is about to run on cpu. */
WL_INLINE u64 wl_fair_protect_until(struct wl_policy *p, const struct wl_task *t, u32 cpu)
{
	u64 shortest_ns;

	if (wl_axis(p, queue) != WL_QUEUE_FAIR_2025 ||
	    !wl_read_once(wl_cpu_of(p, cpu)->fair.nr_own))
		return WL_VTIME_NEVER;
	shortest_ns = wl_slice_shortest(p, cpu);
	return shortest_ns < wl_slice_ns(p, t) ? t->vtime + wl_vtime_of(shortest_ns, t->hweight)
					       : WL_VTIME_NEVER;
}

WL_INLINE void wl_fair_run(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 overdue;

	if (t->place == WL_PLACE_RUNNING && t->cpu == (s32)cpu)
		return;
	overdue = wl_wait_ends(p, t, cpu, now_ns);
	wl_fair_charge(p, t, now_ns);
	wl_fair_place(p, t, WL_PLACE_QUEUED, cpu, now_ns);
	if (overdue)
		wl_fair_forgive(p, t, now_ns);
	t->run_start_ns = now_ns;
	t->slice_used_ns = 0;
	wl_write_once(c->curr_weight, t->hweight);
	wl_write_once(c->curr_vtime, t->vtime);
	wl_write_once(c->curr_start_ns, now_ns);
	wl_write_once(c->fair.deadline, t->deadline);
	wl_write_once(c->fair.slice_ns, wl_slice_ns(p, t));
	if (!wl_fair_as_kernel(p) || wl_read_once(c->fair.last) != t->id + 1) {
		wl_write_once(c->curr_renewed, 0);
		wl_write_once(c->fair.protected, wl_fair_protect_until(p, t, cpu));
	}
	wl_write_once(c->fair.last, t->id + 1);
	/* This comes last: a CPU that sees a task running must find the above. */
	wl_place(p, t, WL_PLACE_RUNNING, cpu);
	c->newly_idle_left = wl_all_levels(p);
}

/* t is no longer runnable. */
WL_INLINE void wl_fair_sleep(struct wl_policy *p, struct wl_task *t, u64 now_ns)
{
	u64 mean;

	if (t->place == WL_PLACE_NONE)
		return;
	if (!wl_fair_charge_and_mean(p, t, now_ns, &mean))
		mean = wl_fair_mean(p, t->cpu, now_ns);
	wl_fair_leave(p, t, mean);
	wl_place(p, t, WL_PLACE_NONE, t->cpu);
}

WL_INLINE void wl_fair_stopping(struct wl_policy *p, struct wl_task *t, u64 now_ns, u32 runnable)
{
	if (t->place != WL_PLACE_RUNNING)
		return;
	if (!runnable) {
		wl_fair_sleep(p, t, now_ns);
		return;
	}
	wl_fair_charge(p, t, now_ns);
	wl_place(p, t, WL_PLACE_QUEUED, t->cpu);
}

/* Returns 1 if the running task should give way. */
WL_INLINE u32 wl_fair_tick(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 renewed;
	u64 deadline;

	if (t->place != WL_PLACE_RUNNING || t->cpu != (s32)cpu)
		return 0;
	wl_fair_take_slice(p, t);
	deadline = t->deadline;
	wl_fair_charge(p, t, now_ns);
	renewed = t->deadline != deadline;
	wl_fair_reweigh(p, t, wl_hweight(p, t, cpu), now_ns);
	t->slice_ns = wl_fair_left_ns(t->vtime, t->deadline, t->hweight);
	if (!wl_read_once(c->nr_queued))
		return 0;
	return renewed || wl_fair_gives_way(p, cpu, t->vtime);
}

/*
 * The weight of t changed, or its group. Its vtime stays as it is, and so does its key if it is in
 * a queue.
 */
WL_INLINE void wl_fair_weight(struct wl_policy *p, struct wl_task *t, u32 weight, u32 group,
			      u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, t->cpu);
	u32 hweight;
	u64 more;

	wl_fair_charge(p, t, now_ns);
	wl_reweigh(p, t, weight, group);
	hweight = wl_hweight(p, t, t->cpu);
	if (t->place == WL_PLACE_NONE) {
		wl_fair_rescale_lag(t, hweight);
		return;
	}
	more = (u64)hweight - t->hweight;
	wl_atomic_add(&c->fair.charged, more);
	wl_atomic_add(&c->vtime_sum, more * t->vtime);
	t->hweight = hweight;
	if (t->place == WL_PLACE_RUNNING)
		wl_write_once(c->curr_weight, hweight);
}

/* t asks for a slice; 0: that of all tasks. It gets it after the slice that it has. */
WL_INLINE void wl_fair_own_slice(struct wl_policy *p, struct wl_task *t, u32 slice_ns)
{
	u32 counted = t->place != WL_PLACE_NONE;

	if (slice_ns)
		slice_ns = wl_slice_clamped(slice_ns);
	if (counted && t->own_slice_ns)
		wl_slice_count(p, t->cpu, t->own_slice_ns, -1);
	t->own_slice_ns = slice_ns;
	if (counted && slice_ns)
		wl_slice_count(p, t->cpu, slice_ns, 1);
	if (t->place == WL_PLACE_RUNNING)
		wl_write_once(wl_cpu_of(p, t->cpu)->fair.slice_ns, wl_slice_ns(p, t));
}

/* A pull takes t from `from` to in->cpu. Returns 0 if t is no longer queued there. */
WL_INLINE u32 wl_fair_pulled(struct wl_policy *p, struct wl_task *t, u32 from,
			     const struct wl_move_in *in, struct wl_move_out *out)
{
	u64 vtime = t->vtime, deadline = t->deadline;
	u32 hweight = t->hweight;
	s64 lag = t->lag;

	wl_fair_leave(p, t, wl_fair_mean(p, from, in->now_ns));
	wl_fair_rescale_lag(t, wl_hweight(p, t, in->cpu));
	wl_fair_join(p, t, in->cpu, in->now_ns, 1);
	if (!wl_place_moved(p, t, from, in->cpu)) {
		t->vtime = vtime;
		t->deadline = deadline;
		t->lag = lag;
		t->hweight = hweight;
		wl_atomic_add(&wl_cpu_of(p, from)->fair.charged, hweight);
		wl_atomic_add(&wl_cpu_of(p, from)->vtime_sum, vtime * hweight);
		return 0;
	}
	wl_fair_add(p, t);
	t->slice_ns = wl_fair_left_ns(t->vtime, t->deadline, t->hweight);
	out->key = t->deadline;
	return 1;
}

/* The slice with which the running task of cpu may go on; at least 1 ns. */
WL_INLINE u64 wl_fair_keep_ns(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	return wl_fair_left_ns(wl_curr_vtime(c, now_ns), wl_read_once(c->fair.deadline),
			       wl_read_once(c->curr_weight));
}

#endif /* WL_QUEUE_FAIR_H */
