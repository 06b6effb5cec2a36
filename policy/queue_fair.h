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
 *		with an earlier deadline. With parity=off it does so at any time, as with
 *		NO_RUN_TO_PARITY
 *   preempt	An eligible task that arrives preempts a running task that is beyond V, if the host
 *		finds no eligible task with an earlier deadline before it (WL_PREEMPT_IF_FIRST); and
 *		in any case one whose slice is over
 *   lag	When a task leaves a queue its lag, V - vtime, is kept, limited in both directions
 *		to two slices (or a tick, if that is more) * 1024 / weight. When it arrives, it is
 *		placed at that distance from V, inflated by (load + weight) / load because it moves
 *		V itself (PLACE_LAG). On an empty CPU lag is 0
 *   deadline	A task that wakes has a whole slice to its deadline, a new task half a slice, and a
 *		task that is moved keeps what it had left
 *   yield	A task that yields, is eligible and leaves others waiting forfeits the rest of its
 *		slice: its vtime becomes its deadline, and its deadline a slice later
 * That is `fair`, which a host that sees only the task in question can carry out. The kernels
 * differ in this (fair-2023: Linux 6.6 to 6.11; fair-2024 and fair-2025 too: queue_delayed.h):
 *   preempt	An arriving task preempts only if it would run next, and else the running task goes
 *		on, though it is beyond V. A host that cannot look takes either for a yes
 *   arrival	It charges the running task, after a task that slept in the queue has been placed
 *		(queue_delayed.h). If that has reached its deadline, it gets its next
 *		slice at once, and the CPU reschedules if others waited before. Of two equal
 *		deadlines the arriving task's comes first
 *   parity	A task that is picked again right after itself is not protected again
 *   yield	fair-2023 and fair-2024: the deadline of a task that yields is a slice later,
 *		whatever its vtime is. The forfeit is that of Linux 6.18.y and 6.19; 6.17 has the
 *		former rule, and fair-2025 the newer one
 *   fair-2023	A task beyond V that has got another slice is not stopped by a tick before that
 *		slice is over; and a task that is moved gets a whole slice
 * A task may ask for another slice, but not with fair-2023: slices.h.
 *
 * eevdf.h has the arithmetic of one queue. Weights are those by which tasks are charged (hweight,
 * group.h). When its hweight changes, a task keeps its lag and what is left of its slice, in run
 * time. With groups=queues a group's tasks have a queue of their group: groups_queues.h.
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

#include "groups_queues.h"

/* Does something run in q, a queue of c? */
WL_INLINE u32 wl_fair_runs(const struct wl_policy *p, const struct wl_cpu *c,
			   const struct wl_run_queue *q, u32 slot)
{
	return wl_nests(p) && slot ? wl_read_once(q->runs) : wl_read_once(c->nr_running);
}

/* V of the queue in which t is, or would be, on cpu. */
WL_INLINE u64 wl_fair_mean_of(struct wl_policy *p, const struct wl_task *t, u32 cpu, u64 now_ns)
{
	struct wl_run_queue *q = wl_queue_of(p, t->group, cpu);

	return wl_fair_mean(p, cpu, q, wl_fair_runs(p, wl_cpu_of(p, cpu), q, t->group), now_ns);
}

/* ------------------------------------------------------------------ joining and leaving */

/* Takes a task out of its queue, whose V is mean. It is still counted there, but soon no longer. */
WL_INLINE void wl_fair_leaves(struct wl_policy *p, struct wl_task *t, u64 mean)
{
	struct wl_run_queue *q = wl_queue_of(p, t->group, t->cpu);

	wl_fair_leave(p, q, &t->entity, mean);
	wl_fair_forget(p, q, t->id);
	wl_wrote_cpu(p, t->cpu);
}

/* Sets vtime and deadline of a task that comes to cpu. It is not counted there yet. */
WL_INLINE void wl_fair_joins(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns, u32 moved)
{
	struct wl_run_queue *q = wl_queue_of(p, t->group, cpu);
	u32 how = moved ? WL_JOIN_MOVED : 0;

	/* A group's queue begins where the CPU's began, so that credit cannot go below 0. */
	if (wl_nests(p) && !wl_read_once(q->min_vtime))
		wl_write_once(q->min_vtime, WL_VTIME_START);
	if (t->flags & WL_TASK_NEW) {
		t->flags &= ~WL_TASK_NEW;
		how = WL_JOIN_NEW;
	}
	wl_fair_join(p, q, &t->entity, wl_fair_mean_of(p, t, cpu, now_ns), how);
}

/* A task that joined is now counted: adds it to S, after its hweight. */
WL_INLINE void wl_fair_counts(struct wl_policy *p, const struct wl_task *t, u64 now_ns)
{
	wl_fair_add(wl_queue_of(p, t->group, t->cpu), &t->entity);
	wl_queues_joined(p, t->group, t->cpu, now_ns);
	wl_wrote_cpu(p, t->cpu);
}

/* Sets the hweight of a counted task that has been charged and is not in a host's queue. */
WL_INLINE void wl_fair_reweigh(struct wl_policy *p, struct wl_task *t, u32 hweight, u64 now_ns)
{
	struct wl_run_queue *q = wl_queue_of(p, t->group, t->cpu);
	u64 mean;

	if (hweight == t->entity.hweight)
		return;
	mean = wl_fair_mean_of(p, t, t->cpu, now_ns);
	if (t->place == WL_PLACE_RUNNING)
		wl_fair_reweigh_curr(p, q, &t->entity, hweight, mean);
	else
		wl_fair_reweigh_to(p, q, &t->entity, hweight, mean);
	wl_wrote_cpu(p, t->cpu);
}

/*
 * Charges a running task for what it ran, and gives it another slice if this one is over. Returns 1
 * if that needed V of its queue; V is then in mean.
 */
WL_INLINE u32 wl_fair_charge_and_mean(struct wl_policy *p, struct wl_task *t, u64 now_ns, u64 *mean)
{
	struct wl_cpu *c = wl_cpu_of(p, t->cpu);
	struct wl_run_queue *q;
	u64 delta_ns;

	if (t->place != WL_PLACE_RUNNING || now_ns <= t->run_start_ns)
		return 0;
	q = wl_queue_of(p, t->group, t->cpu);
	wl_fair_take_slice(p, q, &t->entity);
	delta_ns = now_ns - t->run_start_ns;
	t->sum_exec_ns += delta_ns;
	t->slice_used_ns += delta_ns;
	t->run_start_ns = now_ns;
	if (wl_fair_charge_entity(p, q, &t->entity, delta_ns, now_ns))
		t->slice_used_ns = 0;
	wl_fair_alone(p, c, q, &t->entity);
	*mean = wl_fair_mean_from(p, t->cpu, q, t->entity.vtime, 1);
	wl_write_once(q->min_vtime, *mean);
	wl_queues_charge(p, t->group, t->cpu, delta_ns, now_ns);
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
	s32 was = t->cpu;

	if (counted && was == (s32)cpu) {
		wl_fair_reweigh(p, t, hweight, now_ns);
		wl_place(p, t, place, cpu);
		return;
	}
	if (counted)
		wl_fair_leaves(p, t, wl_fair_mean_of(p, t, was, now_ns));
	wl_fair_rescale_lag(&t->entity, hweight);
	wl_fair_joins(p, t, cpu, now_ns, counted);
	wl_place_from(p, t, WL_PLACE_NONE, place, cpu);
	if (counted)
		wl_queues_left(p, t->group, was, now_ns);
	wl_fair_counts(p, t, now_ns);
}

/* ------------------------------------------------------------------ events */

/*
 * A task of cpu is about to be chosen. With queue=fair nothing changes V before that but what other
 * CPUs queue meanwhile, so V is computed once, and not for each task that is asked about.
 */
WL_INLINE void wl_fair_chooses(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	if (wl_axis(p, queue) == WL_QUEUE_FAIR)
		wl_write_once(c->choice_mean,
			      wl_fair_mean(p, cpu, &c->queue, wl_read_once(c->nr_running), now_ns));
}

/* Should t, queued on cpu, run there now? */
WL_INLINE u32 wl_fair_may_run(struct wl_policy *p, const struct wl_task *t, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	if (wl_nests(p))
		return wl_queues_may_run(p, t, cpu, now_ns);
	if (wl_read_once(c->nr_running))
		return wl_fair_preempts(p, cpu, &c->queue, &t->entity,
					wl_curr_vtime(&c->queue, now_ns), now_ns);
	if (wl_axis(p, queue) == WL_QUEUE_FAIR)
		return t->entity.vtime <= wl_get(c->choice_mean);
	return t->entity.vtime <=
	       wl_fair_mean_from(p, cpu, &c->queue, wl_read_once(c->queue.min_vtime), 0);
}

/*
 * wl_fair_may_run(), from a key, which is the deadline, and a slice, which is the way there in run
 * time. Without groups that is the way in vtime, too, at the weight at which vtime is run time.
 */
WL_INLINE u32 wl_fair_may_run_told(struct wl_policy *p, u32 cpu, u64 key, u64 slice_ns, u32 weight,
				   u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u64 mean = wl_read_once(c->choice_mean), vtime;

	/* A slice of 1 ns may stand for less. */
	if (wl_axis(p, queue) != WL_QUEUE_FAIR || wl_axis(p, nr_groups) ||
	    weight != WL_WEIGHT_NICE_0 || slice_ns <= 1)
		return WL_RUN_ASK;
	if (key - slice_ns > mean)
		return WL_RUN_NO;
	if (!wl_read_once(c->nr_running))
		return WL_RUN_YES;
	vtime = wl_curr_vtime(&c->queue, now_ns);
	return wl_fair_gives_way_to(p, &c->queue, key, vtime, mean, now_ns) ? WL_RUN_YES
									    : WL_RUN_NO;
}

/* Does t, which has arrived in a queue of cpu where it meets what runs, preempt that? */
WL_FN_OWN u32 wl_fair_arrival_preempts(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG,
				       u32 cpu, u64 now_ns)
{
	struct wl_meeting at = wl_queues_meet(p, t, cpu);
	u64 vtime = wl_curr_vtime(at.queue, now_ns);

	if (wl_slice_ns(p, &at.entity) < wl_read_once(at.queue->slice_ns))
		wl_fair_arrives_shorter(p, cpu, at.queue, &at.entity, now_ns);
	if (wl_fair_as_kernel(p)) {
		if (!wl_fair_preempts(p, cpu, at.queue, &at.entity, vtime, now_ns))
			return WL_PREEMPT_NO;
		/* A host's queue has tasks: it cannot tell which group is first. */
		if (at.is_group)
			return WL_PREEMPT_YES;
		return wl_axis(p, queue) == WL_QUEUE_FAIR_2025 ? WL_PREEMPT_IF_FIRST_AWAKE
							       : WL_PREEMPT_IF_FIRST;
	}
	/* Linux charges what runs here, and reschedules if its slice is over. */
	if (vtime >= wl_read_once(at.queue->deadline))
		return WL_PREEMPT_YES;
	return wl_fair_preempts(p, cpu, at.queue, &at.entity, vtime, now_ns) ? WL_PREEMPT_IF_FIRST
									     : WL_PREEMPT_NO;
}

/* May a task that arrives for this reason preempt what runs? */
WL_INLINE u32 wl_fair_may_preempt(const struct wl_policy *p, u32 why)
{
	return why != WL_ENQ_FORK || wl_axis(p, queue) != WL_QUEUE_FAIR_2025;
}

WL_INLINE void wl_fair_enqueue(struct wl_policy *p, struct wl_task *t, u32 to,
			       const struct wl_enqueue_in *in, struct wl_enqueue_out *out)
{
	u32 cpu = wl_allowed(p, t, to) ? to : (u32)wl_nearest_allowed(p, t, to);
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 arrives = in->why != WL_ENQ_SLICE_END && wl_read_once(c->nr_running);
	struct wl_run_queue *q;

	wl_fair_charge(p, t, in->now_ns);
	wl_read_queues(p, t, cpu, in->this_cpu, &out->reads);
	q = wl_queues_meet_in(p, t, cpu);
	if (arrives && wl_fair_as_kernel(p)) {
		/* Whatever the answer will be, so that an event told twice is told once. */
		wl_queues_ask_within(p, t, cpu);
		if (wl_fair_arrives(p, cpu, q, wl_queues_others(p, q, cpu), in->now_ns))
			out->preempt = WL_PREEMPT_YES;
	}
	wl_queues_stop(p, t);
	wl_fair_place(p, t, WL_PLACE_QUEUED, cpu, in->now_ns);
	t->slice_ns = wl_queues_left_ns(p, t);

	out->cpu = cpu;
	out->key = t->entity.deadline;
	out->slice_ns = t->slice_ns;
	if (arrives && wl_read_once(c->nr_running) && !out->preempt &&
	    wl_fair_may_preempt(p, in->why))
		out->preempt = wl_fair_arrival_preempts(p, t, cpu, in->now_ns);
}

WL_INLINE void wl_fair_run(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	struct wl_run_queue *q = wl_queue_of(p, t->group, cpu);
	u32 overdue;

	if (t->place == WL_PLACE_RUNNING && t->cpu == (s32)cpu)
		return;
	overdue = wl_wait_ends(p, t, cpu, now_ns);
	wl_fair_charge(p, t, now_ns);
	if (t->place != WL_PLACE_QUEUED || t->cpu != (s32)cpu ||
	    t->entity.hweight != wl_hweight(p, t, cpu))
		wl_fair_place(p, t, WL_PLACE_QUEUED, cpu, now_ns);
	if (overdue) {
		wl_fair_forgive(p, q, &t->entity, wl_fair_mean_of(p, t, cpu, now_ns));
		wl_queues_forgive(p, t->group, cpu, now_ns);
		wl_wrote_cpu(p, cpu);
	}
	t->run_start_ns = now_ns;
	t->slice_used_ns = 0;
	wl_queues_picked(p, t, cpu, now_ns);
	wl_queues_start(p, t->group, cpu, now_ns);
	wl_fair_starts(p, cpu, q, &t->entity, t->id, now_ns);
	/* This comes last: a CPU that sees a task running must find the above. */
	wl_place_from(p, t, WL_PLACE_QUEUED, WL_PLACE_RUNNING, cpu);
	c->newly_idle_left = wl_all_levels(p);
}

/* t is no longer runnable. */
WL_INLINE void wl_fair_sleep(struct wl_policy *p, struct wl_task *t, u64 now_ns)
{
	u64 mean;

	if (t->place == WL_PLACE_NONE)
		return;
	if (!wl_fair_charge_and_mean(p, t, now_ns, &mean))
		mean = wl_fair_mean_of(p, t, t->cpu, now_ns);
	wl_queues_stop(p, t);
	wl_fair_leaves(p, t, mean);
	wl_place_from(p, t, WL_PLACE_RUNNING, WL_PLACE_NONE, t->cpu);
	wl_queues_left(p, t->group, t->cpu, now_ns);
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
	wl_queues_stop(p, t);
	wl_place(p, t, WL_PLACE_QUEUED, t->cpu);
}

/*
 * t, which runs on cpu, gives up the CPU to others that wait there. One that has not run since it
 * was charged has nothing to give up, so that an event told twice is told once.
 */
WL_INLINE void wl_fair_yield(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns)
{
	struct wl_run_queue *q = wl_queue_of(p, t->group, cpu);

	if (t->place != WL_PLACE_RUNNING || t->cpu != (s32)cpu || now_ns <= t->run_start_ns ||
	    !wl_read_once(wl_cpu_of(p, cpu)->nr_queued))
		return;
	wl_fair_charge(p, t, now_ns);
	wl_fair_forfeit(p, q, &t->entity, wl_fair_mean_from(p, cpu, q, t->entity.vtime, 1));
	wl_wrote_cpu(p, cpu);
}

/* Returns 1 if the running task should give way. */
WL_INLINE u32 wl_fair_tick(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns)
{
	struct wl_run_queue *q = wl_queue_of(p, t->group, cpu);
	u64 deadline, group_deadline = wl_queues_deadline(p, t->group, cpu);
	u32 renewed, group_gives_way;

	if (t->place != WL_PLACE_RUNNING || t->cpu != (s32)cpu)
		return 0;
	wl_fair_take_slice(p, q, &t->entity);
	deadline = t->entity.deadline;
	wl_fair_charge(p, t, now_ns);
	renewed = t->entity.deadline != deadline;
	wl_fair_reweigh(p, t, wl_hweight(p, t, cpu), now_ns);
	group_gives_way = wl_nests(p) && wl_queues_tick(p, t->group, cpu, group_deadline, now_ns);
	t->slice_ns = wl_queues_left_ns(p, t);
	if (group_gives_way || !wl_queues_wait_beside(p, t->group, cpu))
		return group_gives_way;
	return renewed || wl_fair_gives_way(p, cpu, q, t->entity.vtime);
}

/*
 * The weight of t changed, or its group. Its vtime stays as it is, and so does its key if it is in
 * a queue.
 */
WL_INLINE void wl_fair_weight(struct wl_policy *p, struct wl_task *t, u32 weight, u32 group,
			      u64 now_ns)
{
	struct wl_run_queue *q = &wl_cpu_of(p, t->cpu)->queue;
	u32 hweight;
	u64 more;

	wl_fair_charge(p, t, now_ns);
	wl_reweigh(p, t, weight, group);
	hweight = wl_hweight(p, t, t->cpu);
	if (t->place == WL_PLACE_NONE) {
		wl_fair_rescale_lag(&t->entity, hweight);
		return;
	}
	more = (u64)hweight - t->entity.hweight;
	wl_atomic_add(&q->charged, more);
	wl_atomic_add(&q->vtime_sum, more * t->entity.vtime);
	t->entity.hweight = hweight;
	if (t->place == WL_PLACE_RUNNING)
		wl_write_once(q->curr_weight, hweight);
}

/*
 * groups=queues: the weight of t changed, or its group. It goes from one queue to another, at its
 * lag; its key stays as it is if it is in a host's queue.
 */
WL_INLINE void wl_fair_regroup(struct wl_policy *p, struct wl_task *t, u32 weight, u32 group,
			       u64 now_ns)
{
	u32 runs = t->place == WL_PLACE_RUNNING, was = t->group,
	    hweight = weight << WL_HWEIGHT_SHIFT;

	wl_fair_charge(p, t, now_ns);
	if (weight == t->weight && group == was)
		return;
	if (t->place == WL_PLACE_NONE) {
		wl_reweigh(p, t, weight, group);
		wl_fair_rescale_lag(&t->entity, hweight);
		return;
	}
	wl_fair_leaves(p, t, wl_fair_mean_of(p, t, t->cpu, now_ns));
	wl_queues_stop(p, t);
	wl_reweigh(p, t, weight, group);
	wl_queues_left(p, was, t->cpu, now_ns);
	wl_fair_rescale_lag(&t->entity, hweight);
	wl_fair_joins(p, t, t->cpu, now_ns, 1);
	wl_fair_counts(p, t, now_ns);
	if (!runs)
		return;
	wl_queues_start(p, group, t->cpu, now_ns);
	wl_fair_starts(p, t->cpu, wl_queue_of(p, group, t->cpu), &t->entity, t->id, now_ns);
}

/* t asks for a slice; 0: that of all tasks. It gets it after the slice that it has. */
WL_INLINE void wl_fair_own_slice(struct wl_policy *p, struct wl_task *t, u32 slice_ns)
{
	u32 counted = t->place != WL_PLACE_NONE;

	if (slice_ns)
		slice_ns = wl_slice_clamped(slice_ns);
	if (counted && t->entity.own_slice_ns)
		wl_slice_count(p, t->cpu, t->entity.own_slice_ns, -1);
	t->entity.own_slice_ns = slice_ns;
	if (counted && slice_ns)
		wl_slice_count(p, t->cpu, slice_ns, 1);
	if (t->place == WL_PLACE_RUNNING)
		wl_write_once(wl_queue_of(p, t->group, t->cpu)->slice_ns,
			      wl_slice_ns(p, &t->entity));
}

/* A pull takes t from `from` to in->cpu. Returns 0 if t is no longer queued there. */
WL_INLINE u32 wl_fair_pulled(struct wl_policy *p, struct wl_task *t, u32 from,
			     const struct wl_move_in *in, struct wl_move_out *out)
{
	struct wl_run_queue *q = wl_queue_of(p, t->group, from);
	struct wl_entity was = t->entity;

	wl_fair_leaves(p, t, wl_fair_mean_of(p, t, from, in->now_ns));
	wl_fair_rescale_lag(&t->entity, wl_hweight(p, t, in->cpu));
	wl_fair_joins(p, t, in->cpu, in->now_ns, 1);
	if (!wl_place_moved(p, t, from, in->cpu)) {
		t->entity = was;
		wl_fair_add(q, &t->entity);
		return 0;
	}
	wl_queues_left(p, t->group, from, in->now_ns);
	wl_fair_counts(p, t, in->now_ns);
	t->slice_ns = wl_queues_left_ns(p, t);
	out->key = t->entity.deadline;
	return 1;
}

/* How much longer what runs in q may run until its deadline. */
WL_INLINE u64 wl_fair_curr_left_ns(const struct wl_run_queue *q, u64 now_ns)
{
	return wl_fair_left_ns(wl_curr_vtime(q, now_ns), wl_read_once(q->deadline),
			       wl_read_once(q->curr_weight));
}

/* The slice with which the running task of cpu may go on; at least 1 ns. */
WL_FN u64 wl_fair_keep_ns(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u64 keep_ns = wl_fair_curr_left_ns(&c->queue, now_ns), own_ns;
	struct wl_group_cpu *gc = wl_queues_group(p, wl_read_once(c->queues.curr_slot), cpu);

	if (!gc)
		return keep_ns;
	own_ns = wl_fair_curr_left_ns(&gc->queue, now_ns);
	return own_ns < keep_ns ? own_ns : keep_ns;
}

#endif /* WL_QUEUE_FAIR_H */
