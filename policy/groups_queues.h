/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * groups_queues.h - groups=queues: as groups=load, and each group is a queue on each CPU, as in
 * Linux.
 *
 * With the other values queues are flat: a task of a group is charged by what it has of its CPU
 * (hweight), and a queued task keeps what it had when it was queued. So two tasks of a group weigh
 * as differently as the group had tasks when each of them arrived. Here the tasks of a group that
 * wait or run on a CPU are a queue, in which they have their own weights, their own V, deadlines
 * and lags (eevdf.h). In the CPU's queue an entity stands for the group, with the weight
 *	sum of the tasks' weights * product over the group and those above it of W(g,i) / T(g,i)
 * which is W(K,i) for a group K of tasks only, below the root. Nothing that waits in a host's queue
 * depends on it, so it changes at once when tasks come and go, and at ticks; while the group runs,
 * at ticks and when it starts.
 *	pick	First the group or task of the CPU's queue by EEVDF, then the task of that group by
 *		EEVDF. A host's queue is ordered by the tasks' deadlines, which say nothing across
 *		groups. So if the CPU has several groups, the host asks about all tasks that wait,
 *		and the policy remembers which group the best one so far is of
 *	preempt	A task that arrives meets what runs in the queue of their common group, or as
 *		groups in the CPU's queue: check_preempt_wakeup_fair() and find_matching_se() of
 *		kernel/sched/fair.c. In the latter case it preempts if its group may; a third group
 *		that would come first does not keep the running task going, as it does in Linux
 *	protect	What runs is protected in both queues. If its CPU chooses again because of one of
 *		them, what is protected in the other still is: a task in its group's queue, though
 *		the group was not; a group, if another task of it follows
 *	lag	A group whose last task leaves a CPU keeps its lag there until its next task
 *	delay	With fair-2024 and later, a group beyond V whose last task goes to sleep stays in
 *		the CPU's queue and counts in V, as a task does (queue_delayed.h), so that its debt
 *		shrinks while others run. If it would be picked, it leaves, without lag. If a task
 *		of it comes before that, the group goes on from its vtime and deadline, or, if V has
 *		passed it, from the V of the others with a whole slice
 * The queue must be fair-2023 or later; with others groups=queues is as groups=load, but for tasks
 * that share by what is there.
 *
 * Example: group A, of 1024 shares, has tasks A1 and A2 (1024 each) on a CPU, and B (1024) is there
 * outside any group. The CPU's queue holds A's entity and B, both of weight 1024; so B receives
 * half of the CPU and A1 a quarter. If 8 tasks more of A arrive, B still receives half, and A1 and
 * A2 a twentieth each, although they waited when the 8 came.
 *
 * Cost: each charge, arrival, start and tick of a group's task does the work twice; a CPU with
 * several groups asks about all that wait there. Levels between the root and a task's group have no
 * queue: groups of different parents compete in the CPU's queue by what they have of it. It fails
 * where one parent's groups come and go faster than they run: the parent has no lag. And a group
 * takes its debt along where its last task does not sleep but moves to another CPU, and where hosts
 * do not ask about sleep (sched_ext): in Linux it stays there, too. And once a group has left, the
 * choice is not made again, though V has changed.
 */
#ifndef WL_GROUPS_QUEUES_H
#define WL_GROUPS_QUEUES_H

#include "eevdf.h"

/* What a host's walk over the queue is for: wl_queues_cpu.has_best. */
enum wl_queues_walk {
	WL_QUEUES_FIRST,  /* the first that may run */
	WL_QUEUES_WITHIN, /* the first of the group best_slot that may run */
	WL_QUEUES_LOOKS,  /* the best of all; none was found so far */
	WL_QUEUES_FOUND,  /* best_slot and best_deadline are those of the best so far */
};

/* Is a group in a CPU's queue? */
enum wl_queues_stands {
	WL_STANDS_NOT,
	WL_STANDS,
	WL_STANDS_DELAYED, /* it has no task there */
};

/* A group's record on cpu, if it has a queue there. */
WL_INLINE struct wl_group_cpu *wl_queues_group(struct wl_policy *p, u32 slot, u32 cpu)
{
	return wl_nests(p) && slot ? wl_group_cpu_at(p, slot, cpu) : 0;
}

/*
 * The queue of a group's tasks on cpu; without queues of groups, and for slot 0, the CPU's queue.
 */
WL_INLINE struct wl_run_queue *wl_queue_of(struct wl_policy *p, u32 slot, u32 cpu)
{
	struct wl_group_cpu *gc = wl_queues_group(p, slot, cpu);

	return gc ? &gc->queue : &wl_cpu_of(p, cpu)->queue;
}

/* What stands for a group in the CPU's queue. */
WL_INLINE struct wl_entity wl_queues_entity(const struct wl_group_cpu *gc)
{
	return (struct wl_entity){.vtime = wl_get(gc->entity.vtime),
				  .deadline = wl_get(gc->entity.deadline),
				  .lag = wl_get(gc->entity.lag),
				  .hweight = wl_get(gc->entity.hweight),
				  .own_slice_ns = wl_get(gc->entity.own_slice_ns)};
}

/* By what a group is known in the CPU's queue: no task has such an id. */
WL_INLINE u64 wl_queues_id(u32 slot)
{
	return (1ULL << 63) + slot;
}

/* V of the CPU's queue. */
WL_INLINE u64 wl_queues_mean(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	return wl_fair_mean(p, cpu, &c->queue, wl_read_once(c->nr_running), now_ns);
}

/* ------------------------------------------------------------------ what a group weighs */

/* The weight of what stands for a group's own tasks in the queue of cpu. */
WL_FN u64 wl_queues_hweight(struct wl_policy *p WL_ARG, u32 slot, u32 cpu)
{
	struct wl_group_cpu *own = wl_group_cpu_at(p, slot, cpu);
	u64 hweight = own ? wl_read_once(own->queue.charged) : 0;
	u32 at = slot, i;

	wl_for_depth (i) {
		struct wl_group *g = wl_group_at(p, at);
		struct wl_group_cpu *gc = wl_group_cpu_at(p, at, cpu);

		if (!at || !g || !gc)
			break;
		hweight = wl_div(hweight * wl_group_weight(g, gc), wl_read_once(gc->load));
		at = wl_get(g->parent);
	}
	return wl_hweight_clamped(hweight);
}

/* A group weighs this on cpu, perhaps as before. While it runs, it is weighed at ticks. */
WL_FN int wl_queues_weigh(struct wl_policy *p WL_ARG, u32 slot, u32 cpu, u32 hweight, u64 now_ns)
{
	struct wl_group_cpu *gc = wl_queues_group(p, slot, cpu);
	struct wl_run_queue *root = &wl_cpu_of(p, cpu)->queue;
	struct wl_entity e;
	u64 mean;

	if (!gc || wl_read_once(gc->queue.runs) || hweight == wl_get(gc->entity.hweight))
		return 0;
	e = wl_queues_entity(gc);
	mean = wl_queues_mean(p, cpu, now_ns);
	if (!wl_read_once(wl_cpu_of(p, cpu)->nr_running) &&
	    wl_read_once(root->last) == wl_queues_id(slot) + 1)
		wl_fair_reweigh_curr(p, root, &e, hweight, mean);
	else
		wl_fair_reweigh_to(p, root, &e, hweight, mean);
	gc->entity = e;
	return 0;
}

/* ------------------------------------------------------------------ tasks come and go */

/* A group that had no task on cpu has one, and weighs this. */
WL_FN int wl_queues_enter(struct wl_policy *p WL_ARG, u32 slot, u32 cpu, u32 hweight, u64 now_ns)
{
	struct wl_group_cpu *gc = wl_queues_group(p, slot, cpu);
	struct wl_run_queue *root = &wl_cpu_of(p, cpu)->queue;
	struct wl_entity e;

	if (!gc)
		return 0;
	e = wl_queues_entity(gc);
	if (!e.hweight)
		e.hweight = WL_WEIGHT_NICE_0 << WL_HWEIGHT_SHIFT;
	wl_fair_rescale_lag(&e, hweight);
	e.own_slice_ns =
		wl_read_once(wl_cpu_of(p, cpu)->slices.nr_own) ? wl_slice_shortest(p, cpu) : 0;
	wl_fair_join(p, root, &e, wl_queues_mean(p, cpu, now_ns), 0);
	wl_fair_add(root, &e);
	gc->entity = e;
	wl_atomic_add(&root->nr, 1);
	return 0;
}

/* A group has no task on cpu any more. */
WL_FN int wl_queues_exit(struct wl_policy *p WL_ARG, u32 slot, u32 cpu, u64 now_ns)
{
	struct wl_group_cpu *gc = wl_queues_group(p, slot, cpu);
	struct wl_run_queue *root = &wl_cpu_of(p, cpu)->queue;
	struct wl_entity e;

	if (!gc)
		return 0;
	e = wl_queues_entity(gc);
	wl_fair_leave(p, root, &e, wl_queues_mean(p, cpu, now_ns));
	gc->entity = e;
	wl_fair_forget(p, root, wl_queues_id(slot));
	wl_atomic_add(&root->nr, -1);
	return 0;
}

/* ------------------------------------------------------------------ groups that stay */

/*
 * t, which runs and has been charged, goes to sleep, and leaves its queue. If it is the last of its
 * group on its CPU and the group is beyond V, the group stays in the CPU's queue.
 */
WL_INLINE void wl_queues_delay(struct wl_policy *p, const struct wl_task *t, u64 now_ns)
{
	struct wl_group_cpu *gc = wl_queues_group(p, t->group, t->cpu);
	struct wl_cpu *c = wl_cpu_of(p, t->cpu);

	if (!gc || wl_read_once(gc->queue.nr) > 1 || wl_read_once(c->queue.nr) <= 1 ||
	    wl_get(gc->entity.vtime) <= wl_queues_mean(p, t->cpu, now_ns))
		return;
	wl_fair_forget(p, &c->queue, wl_queues_id(t->group));
	gc->stands = WL_STANDS_DELAYED;
	gc->delayed_load = t->weight;
	gc->next_delayed = wl_read_once(c->queues.delayed);
	wl_write_once(c->queues.delayed, t->group);
}

/* This group, which stays on cpu, no longer does so. */
WL_FN int wl_queues_unlink(struct wl_policy *p WL_ARG, u32 slot, u32 cpu)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 at = wl_read_once(c->queues.delayed), i;
	struct wl_group_cpu *gone = wl_queues_group(p, slot, cpu), *before = 0;

	wl_for (i, 0, p->params.nr_groups) {
		struct wl_group_cpu *gc = wl_queues_group(p, at, cpu);

		if (!gc || at == slot)
			break;
		before = gc;
		at = gc->next_delayed;
	}
	if (!gone)
		return 0;
	if (before)
		before->next_delayed = gone->next_delayed;
	else
		wl_write_once(c->queues.delayed, gone->next_delayed);
	wl_group_add(p, slot, cpu, 0 - (u64)gone->delayed_load, 0);
	return 0;
}

/*
 * A task comes to this group. If it stays on cpu, it stands for that task now. If V, as of the last
 * charge of what runs there, has passed it, it is placed at V with a whole slice.
 */
WL_FN int wl_queues_return(struct wl_policy *p WL_ARG, u32 slot, u32 cpu)
{
	struct wl_group_cpu *gc = wl_queues_group(p, slot, cpu);
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	struct wl_entity e;

	if (!gc || gc->stands != WL_STANDS_DELAYED)
		return 0;
	wl_queues_unlink(p, slot, cpu);
	gc->stands = WL_STANDS;
	e = wl_queues_entity(gc);
	if (wl_fair_lift(p, cpu, &c->queue, &e, wl_read_once(c->nr_running)))
		gc->entity = e;
	return 0;
}

/* Of the groups that stay on cpu, which would be picked if V is mean? 0: none. */
WL_FN u32 wl_queues_first(struct wl_policy *p WL_ARG, u32 cpu, u64 mean)
{
	u32 at = wl_read_once(wl_cpu_of(p, cpu)->queues.delayed), first = 0, i;
	u64 deadline = WL_VTIME_NEVER;

	wl_for (i, 0, p->params.nr_groups) {
		struct wl_group_cpu *gc = wl_queues_group(p, at, cpu);

		if (!gc)
			break;
		if (wl_get(gc->entity.vtime) <= mean && wl_get(gc->entity.deadline) < deadline) {
			first = at;
			deadline = wl_get(gc->entity.deadline);
		}
		at = gc->next_delayed;
	}
	return first;
}

/*
 * What has this vtime and deadline in the queue of cpu, where nothing runs, will run; with
 * WL_VTIME_NEVER nothing will. Groups that stay there and would have been picked before leave,
 * without lag.
 */
WL_FN int wl_queues_drop(struct wl_policy *p WL_ARG, u32 cpu, u64 vtime, u64 deadline, u64 now_ns)
{
	struct wl_run_queue *root = &wl_cpu_of(p, cpu)->queue;
	u32 i;

	wl_for (i, 0, p->params.nr_groups) {
		u64 mean = wl_queues_mean(p, cpu, now_ns);
		u32 slot = wl_queues_first(p, cpu, mean);
		struct wl_group_cpu *gc = slot ? wl_queues_group(p, slot, cpu) : 0;
		struct wl_entity e;

		if (!gc || (vtime <= mean && deadline <= wl_get(gc->entity.deadline)))
			break;
		e = wl_queues_entity(gc);
		wl_fair_remove(root, &e);
		wl_write_once(root->min_vtime, mean);
		wl_atomic_add(&root->nr, -1);
		gc->entity.lag = 0;
		gc->stands = WL_STANDS_NOT;
		wl_queues_unlink(p, slot, cpu);
	}
	return 0;
}

/* ------------------------------------------------------------------ counts */

/* A task of this group is now counted in a queue of cpu, and in its S. */
WL_INLINE void wl_queues_joined(struct wl_policy *p, u32 slot, u32 cpu, u64 now_ns)
{
	struct wl_group_cpu *gc = wl_queues_group(p, slot, cpu);
	u32 hweight;

	if (!wl_nests(p))
		return;
	wl_atomic_add(gc ? &gc->queue.nr : &wl_cpu_of(p, cpu)->queue.nr, 1);
	if (!gc)
		return;
	/* Before it is weighed: what stays there counts as a task. */
	if (wl_keeps_sleepers(p))
		wl_queues_return(p, slot, cpu);
	hweight = wl_queues_hweight(p, slot, cpu);
	if (wl_atomic_xchg_u32(&gc->stands, WL_STANDS))
		wl_queues_weigh(p, slot, cpu, hweight, now_ns);
	else
		wl_queues_enter(p, slot, cpu, hweight, now_ns);
}

/* A task of this group is no longer counted on cpu. */
WL_INLINE void wl_queues_left(struct wl_policy *p, u32 slot, u32 cpu, u64 now_ns)
{
	struct wl_group_cpu *gc = wl_queues_group(p, slot, cpu);

	if (!wl_nests(p))
		return;
	wl_atomic_add(gc ? &gc->queue.nr : &wl_cpu_of(p, cpu)->queue.nr, -1);
	if (!gc)
		return;
	if (wl_read_once(gc->queue.nr))
		wl_queues_weigh(p, slot, cpu, wl_queues_hweight(p, slot, cpu), now_ns);
	else if (wl_keeps_sleepers(p) && wl_read_once(gc->stands) == WL_STANDS_DELAYED)
		/* What the other groups of its parent weigh does not change. */
		wl_group_add(p, slot, cpu, gc->delayed_load, 0);
	else if (wl_atomic_xchg_u32(&gc->stands, WL_STANDS_NOT))
		wl_queues_exit(p, slot, cpu, now_ns);
}

/* ------------------------------------------------------------------ what runs */

/* A task of this group that runs on cpu is charged for this time. */
WL_FN int wl_queues_charges(struct wl_policy *p WL_ARG, u32 slot, u32 cpu, u64 delta_ns, u64 now_ns)
{
	struct wl_group_cpu *gc = wl_queues_group(p, slot, cpu);
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	struct wl_entity e;

	if (!gc)
		return 0;
	e = wl_queues_entity(gc);
	wl_fair_take_slice(p, &c->queue, &e);
	wl_fair_charge_entity(p, &c->queue, &e, delta_ns, now_ns);
	wl_fair_alone(p, c, &c->queue, &e);
	wl_write_once(c->queue.min_vtime, wl_fair_mean_from(p, cpu, &c->queue, e.vtime, 1));
	gc->entity = e;
	return 0;
}

WL_INLINE void wl_queues_charge(struct wl_policy *p, u32 slot, u32 cpu, u64 delta_ns, u64 now_ns)
{
	if (wl_nests(p))
		wl_queues_charges(p, slot, cpu, delta_ns, now_ns);
}

/* A task of this group is about to run on cpu, where nothing runs now. */
WL_FN int wl_queues_starts(struct wl_policy *p WL_ARG, u32 slot, u32 cpu, u64 now_ns)
{
	struct wl_group_cpu *gc = wl_queues_group(p, slot, cpu);
	struct wl_entity e;

	if (!gc)
		return 0;
	wl_queues_weigh(p, slot, cpu, wl_queues_hweight(p, slot, cpu), now_ns);
	wl_write_once(gc->queue.runs, 1);
	e = wl_queues_entity(gc);
	wl_fair_starts(p, cpu, &wl_cpu_of(p, cpu)->queue, &e, wl_queues_id(slot), now_ns);
	return 0;
}

WL_INLINE void wl_queues_start(struct wl_policy *p, u32 slot, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	struct wl_group_cpu *last;

	if (!wl_nests(p))
		return;
	last = wl_queues_group(p, wl_read_once(c->queues.curr_slot), cpu);
	if (last && wl_read_once(c->queues.curr_slot) != slot)
		wl_write_once(last->queue.last, 0);
	wl_write_once(c->queues.curr_slot, slot);
	wl_queues_starts(p, slot, cpu, now_ns);
}

/* t is about to stop, if it runs. */
WL_INLINE void wl_queues_stop(struct wl_policy *p, const struct wl_task *t)
{
	struct wl_group_cpu *gc =
		t->place == WL_PLACE_RUNNING ? wl_queues_group(p, t->group, t->cpu) : 0;

	if (gc)
		wl_write_once(gc->queue.runs, 0);
}

/* A task of this group that was overdue is about to run on cpu. */
WL_FN int wl_queues_forgive(struct wl_policy *p WL_ARG, u32 slot, u32 cpu, u64 now_ns)
{
	struct wl_group_cpu *gc = wl_queues_group(p, slot, cpu);
	struct wl_entity e;

	if (!gc)
		return 0;
	e = wl_queues_entity(gc);
	wl_fair_forgive(p, &wl_cpu_of(p, cpu)->queue, &e, wl_queues_mean(p, cpu, now_ns));
	gc->entity = e;
	return 0;
}

/* How much longer t may run until its deadline, or that of its group. */
WL_INLINE u64 wl_queues_left_ns(struct wl_policy *p, const struct wl_task *t)
{
	struct wl_group_cpu *gc = wl_queues_group(p, t->group, t->cpu);
	u64 own_ns = wl_fair_left_ns(t->entity.vtime, t->entity.deadline, t->entity.hweight);
	u64 group_ns;

	if (!gc)
		return own_ns;
	group_ns = wl_fair_left_ns(wl_get(gc->entity.vtime), wl_get(gc->entity.deadline),
				   wl_get(gc->entity.hweight));
	return own_ns < group_ns ? own_ns : group_ns;
}

/* ------------------------------------------------------------------ ticks */

/* Does anything wait in the queue q of cpu, where something runs? */
WL_INLINE u32 wl_queues_others(struct wl_policy *p, const struct wl_run_queue *q, u32 cpu)
{
	if (wl_nests(p))
		return wl_read_once(q->nr) > 1;
	return wl_read_once(wl_cpu_of(p, cpu)->nr_queued);
}

/* The same of the queue of this group's tasks, one of which runs. */
WL_INLINE u32 wl_queues_wait_beside(struct wl_policy *p, u32 slot, u32 cpu)
{
	return wl_queues_others(p, wl_queue_of(p, slot, cpu), cpu);
}

/*
 * A tick has charged cpu's running task, which is of this group. Weighs the group, and returns 1 if
 * it should give way to others. deadline: the group's, before the tick.
 */
WL_FN u32 wl_queues_tick(struct wl_policy *p WL_ARG, u32 slot, u32 cpu, u64 deadline, u64 now_ns)
{
	struct wl_group_cpu *gc = wl_queues_group(p, slot, cpu);
	struct wl_run_queue *root = &wl_cpu_of(p, cpu)->queue;
	u32 hweight, renewed;
	struct wl_entity e;

	if (!gc)
		return 0;
	e = wl_queues_entity(gc);
	renewed = e.deadline != deadline;
	hweight = wl_queues_hweight(p, slot, cpu);
	if (hweight != e.hweight)
		wl_fair_reweigh_curr(p, root, &e, hweight, wl_queues_mean(p, cpu, now_ns));
	gc->entity = e;
	if (wl_read_once(root->nr) <= 1)
		return 0;
	return renewed || wl_fair_gives_way(p, cpu, root, e.vtime);
}

/* The deadline of a group in the queue of cpu, where it runs. */
WL_INLINE u64 wl_queues_deadline(struct wl_policy *p, u32 slot, u32 cpu)
{
	struct wl_group_cpu *gc = wl_queues_group(p, slot, cpu);

	return gc ? wl_read_once(wl_cpu_of(p, cpu)->queue.deadline) : 0;
}

/* ------------------------------------------------------------------ arrivals and choices */

/* Where a task meets what runs on its CPU, and as what. */
struct wl_meeting {
	struct wl_run_queue *queue;
	struct wl_entity entity;
	u32 is_group;
};

WL_INLINE struct wl_meeting wl_queues_meet(struct wl_policy *p, const struct wl_task *t, u32 cpu)
{
	struct wl_group_cpu *gc = wl_queues_group(p, t->group, cpu);
	u32 within = gc && wl_read_once(gc->queue.runs);

	if (within || !gc)
		return (struct wl_meeting){.queue = within ? &gc->queue : &wl_cpu_of(p, cpu)->queue,
					   .entity = t->entity};
	return (struct wl_meeting){
		.queue = &wl_cpu_of(p, cpu)->queue, .entity = wl_queues_entity(gc), .is_group = 1};
}

/* The queue in which t meets what runs on cpu. */
WL_INLINE struct wl_run_queue *wl_queues_meet_in(struct wl_policy *p, const struct wl_task *t,
						 u32 cpu)
{
	struct wl_group_cpu *gc = wl_queues_group(p, t->group, cpu);

	return gc && wl_read_once(gc->queue.runs) ? &gc->queue : &wl_cpu_of(p, cpu)->queue;
}

/*
 * t arrives on cpu. If the host looks for the first task that preempts, it is among those of the
 * group of t.
 */
WL_INLINE void wl_queues_ask_within(struct wl_policy *p, const struct wl_task *t, u32 cpu)
{
	if (!wl_nests(p))
		return;
	wl_write_once(wl_cpu_of(p, cpu)->queues.best_slot, t->group);
	wl_write_once(wl_cpu_of(p, cpu)->queues.has_best, WL_QUEUES_WITHIN);
}

/* The host will choose a task of cpu's own queue: how should it look? */
WL_FN_OWN u32 wl_queues_pick(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 several;

	if (!wl_nests(p))
		return WL_PICK_ELIGIBLE;
	if (wl_keeps_sleepers(p) && wl_read_once(c->queues.delayed) &&
	    !wl_read_once(c->nr_running) && !wl_read_once(c->nr_queued))
		wl_queues_drop(p, cpu, WL_VTIME_NEVER, WL_VTIME_NEVER, now_ns);
	several = wl_read_once(c->queue.nr) > 1;
	wl_write_once(c->queues.has_best, several ? WL_QUEUES_LOOKS : WL_QUEUES_FIRST);
	return several ? WL_PICK_LAST : WL_PICK_ELIGIBLE;
}

/* t was picked on cpu, where nothing runs. */
WL_INLINE void wl_queues_picked(struct wl_policy *p, const struct wl_task *t, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	struct wl_group_cpu *gc;
	struct wl_entity up;
	u64 id;

	if (!wl_keeps_sleepers(p) || !wl_nests(p) || !wl_read_once(c->queues.delayed))
		return;
	gc = wl_queues_group(p, t->group, cpu);
	up = gc ? wl_queues_entity(gc) : t->entity;
	id = gc ? wl_queues_id(t->group) : t->id;
	/* What is still protected is picked before all others. */
	if (wl_read_once(c->queue.last) == id + 1 && wl_fair_protected(&c->queue, up.vtime))
		return;
	wl_queues_drop(p, cpu, up.vtime, up.deadline, now_ns);
}

/* The task that was found has left instead of running: the choice begins again. */
WL_INLINE void wl_queues_again(struct wl_policy *p, u32 cpu)
{
	if (wl_nests(p) && wl_read_once(wl_cpu_of(p, cpu)->queues.has_best) == WL_QUEUES_FOUND)
		wl_write_once(wl_cpu_of(p, cpu)->queues.has_best, WL_QUEUES_LOOKS);
}

/*
 * Does this group come first by a tie? Its deadline may be that of the group that ran last: a task
 * that wakes beside a lone group whose slice is over gets the same. Linux goes on with what ran
 * only if its deadline is earlier.
 */
WL_INLINE u32 wl_queues_ties(const struct wl_cpu *c, u32 slot, u64 deadline)
{
	u32 curr = wl_read_once(c->queues.curr_slot);

	return wl_read_once(c->queues.best_deadline) == deadline &&
	       wl_read_once(c->queues.best_slot) == curr && slot != curr;
}

/* Is the walk's task, of this group and this deadline in the CPU's queue, the best so far? */
WL_INLINE u32 wl_queues_is_best(struct wl_cpu *c, u32 slot, u64 deadline)
{
	u32 walk = wl_read_once(c->queues.has_best), best = wl_read_once(c->queues.best_slot);

	if (walk == WL_QUEUES_FIRST || walk == WL_QUEUES_WITHIN)
		return walk == WL_QUEUES_FIRST || best == slot;
	/* Of a group's tasks the first that may run is the best. */
	if (walk == WL_QUEUES_FOUND && slot && best == slot)
		return 0;
	if (walk == WL_QUEUES_FOUND && wl_read_once(c->queues.best_deadline) <= deadline &&
	    !wl_queues_ties(c, slot, deadline))
		return 0;
	wl_write_once(c->queues.best_slot, slot);
	wl_write_once(c->queues.best_deadline, deadline);
	wl_write_once(c->queues.has_best, WL_QUEUES_FOUND);
	return 1;
}

/*
 * Nothing runs on cpu. May what has this id and vtime run next as far as q is concerned? It must be
 * eligible; and what ran last, if that is still protected and eligible, comes before all others.
 */
WL_FN u32 wl_queues_may_follow(struct wl_policy *p WL_ARG, u32 cpu,
			       const struct wl_run_queue *q WL_ARG, u64 vtime, u64 id)
{
	u64 mean = wl_fair_mean_from(p, cpu, q, wl_read_once(q->min_vtime), 0);
	u64 last = wl_read_once(q->last), last_vtime = wl_read_once(q->curr_vtime);

	if (last && last != id + 1 && last_vtime <= mean && wl_fair_protected(q, last_vtime))
		return 0;
	return vtime <= mean;
}

/* Should t, queued on cpu, run there now? */
WL_FN u32 wl_queues_may_run(struct wl_policy *p WL_ARG, const struct wl_task *t WL_ARG, u32 cpu,
			    u64 now_ns)
{
	struct wl_group_cpu *gc = wl_queues_group(p, t->group, cpu);
	struct wl_entity up = gc ? wl_queues_entity(gc) : t->entity;
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u64 deadline = up.deadline, vtime;

	if (gc && wl_read_once(gc->queue.runs)) {
		vtime = wl_curr_vtime(&gc->queue, now_ns);
		if (!wl_fair_preempts(p, cpu, &gc->queue, &t->entity, vtime, now_ns))
			return 0;
		/* A group that preempts the running one comes before that one's tasks. */
		deadline = WL_VTIME_NEVER;
	} else if (wl_read_once(c->nr_running)) {
		vtime = wl_curr_vtime(&c->queue, now_ns);
		if (!wl_fair_preempts(p, cpu, &c->queue, &up, vtime, now_ns))
			return 0;
	} else if (!wl_queues_may_follow(p, cpu, &c->queue, up.vtime,
					 gc ? wl_queues_id(t->group) : t->id)) {
		return 0;
	}
	if (gc && !wl_read_once(gc->queue.runs) &&
	    !wl_queues_may_follow(p, cpu, &gc->queue, t->entity.vtime, t->id))
		return 0;
	return wl_queues_is_best(c, t->group, deadline);
}

#endif /* WL_GROUPS_QUEUES_H */
