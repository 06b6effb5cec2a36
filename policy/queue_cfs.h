/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * queue_cfs.h - queue=cfs-2007 and cfs-2018: the keys of a CPU's queue, slices and wake-up
 * preemption. The text describes cfs-2018; cfs-2007 differs as said below.
 *
 * A task's vtime grows by run time * 1024 / weight, and the task with the smallest key runs first.
 * The CPU keeps a floor of its queue, min_vtime, that never falls. The floor rises to the vtime of
 * each task that is picked, and follows a task that runs alone. A task's lag is vtime - min_vtime.
 *   slice	period * weight / load of the CPU. The period is latency, or, with more than
 *		latency / min_granularity tasks (rounded up), their number times min_granularity
 *   preempt	A task that arrives preempts the running one if it is behind it, in vtime, by more
 *		than wakeup_granularity * 1024 / its weight
 *   arrival	A task keeps its lag when it changes CPUs and when it sleeps, within two limits: at
 *		most latency / 2 below the floor (the credit of a sleeper), and at most latency *
 *		1024 / weight above it (ours, because it bounds what a stale floor can do)
 *   new task	It starts behind the others by one of its slices, in vtime (START_DEBIT)
 *
 * cfs-2018 (Linux 2.6.32 to 6.5) also has buddies: queue_buddies.h. In cfs-2007 (Linux 2.6.24) a
 * sleeper's credit is the whole latency; the granularity that a waking task must overcome is scaled
 * by the weight of the running task, not by its own; and the defaults are latency 20 ms,
 * min_granularity 4 ms and wakeup_granularity 10 ms, scaled by 1 + log2(CPUs) without a limit at 8
 * CPUs.
 *
 * At the end of a slice the task with the smallest key runs next. If the host does not put the
 * running task back first (sched_ext), that task goes on, tick by tick, until a waiting task is
 * behind it.
 *
 * Example: defaults on 8 CPUs or more: latency 24 ms, min_granularity 3 ms, wakeup_granularity 4
 * ms. A (1024) runs alone: its slice is 24 ms. When B (2048) is queued, A's slice is 24 * 1024 /
 * 3072 = 8 ms and B's is 16 ms. A runs for 8 ms and its vtime grows by 8 ms; B runs for 16 ms and
 * its vtime grows by 8 ms: they are equal again. C (1024) has slept for a second on this CPU, and
 * wakes while A runs with a vtime 10 ms above the floor. C's key is 12 ms below the floor, 22 ms
 * behind A, so C preempts. With cfs-2007 on 8 CPUs (latency 80 ms, granularity 40 ms) C's key is 80
 * ms below the floor, 90 ms behind A, so C preempts too; after a short sleep, with a lag of 25 ms
 * below the floor, it would not (35 <= 40).
 *
 * Cost: constant. The floor lags where several tasks with different keys are queued: the policy
 * does not see the second task in the queue, so the floor rises only when a task is picked, up to a
 * slice late.
 */
#ifndef WL_QUEUE_CFS_H
#define WL_QUEUE_CFS_H

#include "queue_buddies.h"
#include "wait.h"

/* ------------------------------------------------------------------ arithmetic */

/*
 * The slice of a task with this hweight, on a CPU with nr tasks and a load of `load`, the task
 * included. At least 1 ns.
 */
WL_INLINE u64 wl_cfs_slice(const struct wl_params *params, u32 nr, u64 load, u32 hweight)
{
	u64 nr_latency = wl_div(params->latency_ns + params->min_granularity_ns - 1,
				params->min_granularity_ns);
	u64 period = nr > nr_latency ? nr * params->min_granularity_ns : params->latency_ns;
	/* Four bits are dropped, so that 100,000 tasks of any weight do not overflow. */
	u64 slice = wl_div(period * (hweight >> 4), load << (WL_HWEIGHT_SHIFT - 4));

	return slice ? slice : 1;
}

/* The slice of a task on the CPU where it is counted. */
WL_INLINE u64 wl_cfs_slice_of(struct wl_policy *p, const struct wl_task *t)
{
	struct wl_cpu *c = wl_cpu_of(p, t->cpu);

	return wl_cfs_slice(&p->params, wl_get(c->nr_queued) + wl_get(c->nr_running),
			    wl_total(p, c), t->entity.hweight);
}

/* ------------------------------------------------------------------ vtime */

WL_INLINE void wl_cfs_raise_floor(struct wl_cpu *c, u64 vtime)
{
	if (vtime > wl_get(c->queue.min_vtime))
		wl_write_once(c->queue.min_vtime, vtime);
}

/* Charges a running task for the time since it was last charged. */
WL_INLINE void wl_cfs_charge(struct wl_policy *p, struct wl_task *t, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, t->cpu);
	u64 delta_ns = now_ns > t->run_start_ns ? now_ns - t->run_start_ns : 0;

	if (t->place != WL_PLACE_RUNNING || !delta_ns)
		return;
	t->sum_exec_ns += delta_ns;
	t->slice_used_ns += delta_ns;
	t->entity.vtime += wl_vtime_of(delta_ns, t->entity.hweight);
	t->run_start_ns = now_ns;
	wl_write_once(c->queue.curr_vtime, t->entity.vtime);
	wl_write_once(c->queue.curr_start_ns, now_ns);
	wl_wrote_cpu(p, t->cpu);
	if (!wl_read_once(c->nr_queued))
		wl_cfs_raise_floor(c, t->entity.vtime);
}

/*
 * Converts the vtime of a task that comes to cpu, from sleep or from another CPU, to cpu's queue.
 */
WL_INLINE void wl_cfs_arrive(struct wl_policy *p, struct wl_task *t, u32 cpu)
{
	struct wl_cpu *home = wl_cpu_of(p, t->cpu), *c = wl_cpu_of(p, cpu);
	u64 floor = wl_read_once(c->queue.min_vtime),
	    home_floor = wl_read_once(home->queue.min_vtime);
	u64 credit_max = wl_axis(p, queue) == WL_QUEUE_CFS_2007 ? p->params.latency_ns
								: p->params.latency_ns / 2,
	    debit_max = wl_vtime_of(p->params.latency_ns, t->entity.hweight);
	u64 lag, load;

	if (t->flags & WL_TASK_NEW) {
		t->flags &= ~WL_TASK_NEW;
		load = wl_total(p, c) +
		       (t->group ? t->entity.hweight >> WL_HWEIGHT_SHIFT : t->weight);
		t->entity.vtime =
			floor +
			wl_vtime_of(wl_cfs_slice(&p->params,
						 wl_get(c->nr_queued) + wl_get(c->nr_running) + 1,
						 load, t->entity.hweight),
				    t->entity.hweight);
		return;
	}
	if (t->cpu < 0) {
		t->entity.vtime = floor;
	} else if (t->entity.vtime >= home_floor) {
		lag = t->entity.vtime - home_floor;
		t->entity.vtime = floor + (lag < debit_max ? lag : debit_max);
	} else {
		lag = home_floor - t->entity.vtime;
		lag = lag < credit_max ? lag : credit_max;
		t->entity.vtime = floor > lag ? floor - lag : 0;
	}
}

/* ------------------------------------------------------------------ events */

WL_INLINE void wl_cfs_enqueue(struct wl_policy *p, struct wl_task *t, u32 to,
			      const struct wl_enqueue_in *in, struct wl_enqueue_out *out)
{
	u32 cpu = wl_allowed(p, t, to) ? to : (u32)wl_nearest_allowed(p, t, to);
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 hweight;

	wl_cfs_charge(p, t, in->now_ns);
	if (wl_has_buddies(p) && t->cpu != (s32)cpu)
		wl_buddy_forget(p, t);
	wl_read_queues(p, t, cpu, in->this_cpu, &out->reads);
	t->entity.hweight = wl_hweight(p, t, cpu);
	if (t->place == WL_PLACE_NONE || t->cpu != (s32)cpu)
		wl_cfs_arrive(p, t, cpu);
	wl_place(p, t, WL_PLACE_QUEUED, cpu);
	t->slice_ns = wl_cfs_slice_of(p, t);

	out->cpu = cpu;
	out->key = t->entity.vtime;
	out->slice_ns = t->slice_ns;
	if (in->why == WL_ENQ_SLICE_END || !wl_read_once(c->nr_running))
		return;
	hweight = wl_axis(p, queue) == WL_QUEUE_CFS_2007 ? wl_read_once(c->queue.curr_weight)
							 : t->entity.hweight;
	out->preempt = wl_curr_vtime(&c->queue, in->now_ns) >
		       t->entity.vtime + wl_vtime_of(p->params.wakeup_granularity_ns, hweight);
	if (out->preempt)
		wl_buddy_preempts(p, c, t);
}

WL_INLINE void wl_cfs_running(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 overdue;

	if (t->place == WL_PLACE_RUNNING && t->cpu == (s32)cpu)
		return;
	overdue = wl_wait_ends(p, t, cpu, now_ns);
	wl_cfs_charge(p, t, now_ns);
	t->entity.hweight = wl_hweight(p, t, cpu);
	if (t->place == WL_PLACE_NONE || t->cpu != (s32)cpu)
		wl_cfs_arrive(p, t, cpu);
	if (overdue && t->entity.vtime > wl_get(c->queue.min_vtime))
		t->entity.vtime = wl_get(c->queue.min_vtime);
	wl_place(p, t, WL_PLACE_RUNNING, cpu);
	if (wl_has_buddies(p))
		wl_buddy_forget(p, t);
	t->run_start_ns = now_ns;
	t->slice_used_ns = 0;
	wl_cfs_raise_floor(c, t->entity.vtime);
	wl_write_once(c->queue.curr_weight, t->entity.hweight);
	wl_write_once(c->queue.curr_vtime, t->entity.vtime);
	wl_write_once(c->queue.curr_start_ns, now_ns);
	c->newly_idle_left = wl_all_levels(p);
}

WL_INLINE void wl_cfs_stopping(struct wl_policy *p, struct wl_task *t, u64 now_ns, u32 runnable)
{
	if (t->place != WL_PLACE_RUNNING)
		return;
	wl_cfs_charge(p, t, now_ns);
	wl_place(p, t, runnable ? WL_PLACE_QUEUED : WL_PLACE_NONE, t->cpu);
	if (!wl_has_buddies(p))
		return;
	if (runnable)
		wl_buddy_gives_way(p, wl_cpu_of(p, t->cpu), t);
	else
		wl_buddy_forget(p, t);
}

/*
 * Returns 1 if the running task should give way. Its slice is computed again, because tasks may
 * have come and gone.
 */
WL_INLINE u32 wl_cfs_tick(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns)
{
	if (t->place != WL_PLACE_RUNNING || t->cpu != (s32)cpu)
		return 0;
	wl_cfs_charge(p, t, now_ns);
	t->entity.hweight = wl_hweight(p, t, cpu);
	wl_write_once(wl_cpu_of(p, cpu)->queue.curr_weight, t->entity.hweight);
	t->slice_ns = wl_cfs_slice_of(p, t);
	if (t->slice_used_ns < t->slice_ns || !wl_read_once(wl_cpu_of(p, cpu)->nr_queued))
		return 0;
	if (wl_has_buddies(p))
		wl_buddy_forget(p, t);
	return 1;
}

/*
 * Asked about waiting tasks while the running task may go on; it does if no waiting task is behind
 * it.
 */
WL_INLINE u32 wl_cfs_may_run(struct wl_policy *p, const struct wl_task *t, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	return !wl_read_once(c->nr_running) || t->entity.vtime <= wl_curr_vtime(&c->queue, now_ns);
}

/* The weight of t changed, or its group. */
WL_INLINE void wl_cfs_weight(struct wl_policy *p, struct wl_task *t, u32 weight, u32 group,
			     u64 now_ns)
{
	wl_cfs_charge(p, t, now_ns);
	wl_reweigh(p, t, weight, group);
	t->entity.hweight = wl_hweight(p, t, t->cpu);
	if (t->place == WL_PLACE_RUNNING)
		wl_write_once(wl_cpu_of(p, t->cpu)->queue.curr_weight, t->entity.hweight);
}

/* A pull takes t from `from` to in->cpu. Returns 0 if t is no longer queued there. */
WL_INLINE u32 wl_cfs_pulled(struct wl_policy *p, struct wl_task *t, u32 from,
			    const struct wl_move_in *in, struct wl_move_out *out)
{
	u64 vtime = t->entity.vtime;
	u32 hweight = t->entity.hweight;

	if (wl_has_buddies(p))
		wl_buddy_forget(p, t);
	t->entity.hweight = wl_hweight(p, t, in->cpu);
	wl_cfs_arrive(p, t, in->cpu);
	if (!wl_place_moved(p, t, from, in->cpu)) {
		t->entity.vtime = vtime;
		t->entity.hweight = hweight;
		return 0;
	}
	t->slice_ns = wl_cfs_slice_of(p, t);
	out->key = t->entity.vtime;
	return 1;
}

/* t is no longer runnable. */
WL_INLINE void wl_cfs_leave(struct wl_policy *p, struct wl_task *t, u64 now_ns)
{
	wl_cfs_charge(p, t, now_ns);
	if (wl_has_buddies(p))
		wl_buddy_forget(p, t);
	wl_place(p, t, WL_PLACE_NONE, t->cpu);
}

#endif /* WL_QUEUE_CFS_H */
