/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * queue_delayed.h - queue=fair-2024 and fair-2025: a task that goes to sleep beyond its share stays
 * in its queue until it would run, as in Linux from 6.12 on (DELAY_DEQUEUE, DELAY_ZERO).
 *
 * As fair-2023 in queue_fair.h, where a debt that a task takes to its sleep stays the same, however
 * long it sleeps. Here:
 *   sleep	A running task that waits for something, is beyond V, and is not alone on its CPU
 *		stays queued at its deadline and counted in V (WL_PLACE_DELAYED). V moves on while
 *		others run, so its debt shrinks
 *   choice	Once it is eligible and no eligible task has an earlier deadline, it would run. It
 *		leaves instead, without lag (what it has gained is not kept), and the choice begins
 *		again
 *   wake-up	If it wakes before that, it stays on its CPU. No CPU is searched for it, and it
 *		keeps vtime and deadline; but if V has passed it, it is placed at V with a whole
 *		slice. This V is that of the last charge, since then only the running task has gone
 *		on: it is charged next, and is beyond V then, so that the wakee often preempts it
 * A task that exits leaves at once, and a pull does not take a delayed task.
 *
 * fair-2025 (Linux 6.17 and later) has base slices of 0.7 ms instead of 0.75 (scaled in the same
 * way), and a running task that has got another slice since it was picked makes its CPU reschedule
 * whenever it is charged while others wait: at each tick and arrival, not only if it is beyond V.
 * An arrival that finds a delayed task to be the next makes it leave and chooses again, as the
 * stable releases of 6.18 do ("Fix wakeup_preempt_fair() vs delayed dequeue", 2026); with fair-2024
 * that task keeps the running one going. A new task does not preempt what runs, as in 6.19 and in
 * those releases ("Reimplement NEXT_BUDDY to align with EEVDF goals", without its buddies, which
 * are off, and without what "Revert force wakeup preemption" took back).
 *
 * Example: all weights 1024, slice 3 ms, vtimes in ms. A runs at 2 with deadline 3, and B waits at
 * 0 with deadline 3: V is 1. A waits for a message. It is beyond V, and stays queued at 3. B runs.
 * When B has run 1 ms, the message comes: V was 1 when B was picked, so A keeps vtime 2 and
 * deadline 3. Now V = (2 + 1) / 2 = 1.5; A is not eligible, and waits. Had the message come after
 * B had run 2.5 ms, A would have kept both, too, but V would be 2.25 then and B beyond it: A runs.
 * Had a tick charged B at 2.5, and the message come at 2.9, A would be placed at 2.5, where B was
 * at the tick, with deadline 5.5; B is at 2.9 and V at 2.7, so A runs. Had it not come at all, B's
 * slice would have ended at 3, and its next deadline would be 6: V is 2.5, and A, at 2, is eligible
 * and has the earlier deadline. It leaves, and B goes on.
 *
 * Cost: that of fair-2023, a division for each sleep, and another choice for each delayed task that
 * would run. The host's queue must hold sleeping tasks, which those of sched_ext cannot: there
 * wl_sleep() is not asked, and tasks leave as with fair-2023. It fails where sleepers are many: a
 * queue of delayed tasks lengthens every walk, and their weights hold V back for those that run.
 * Differences from Linux: a delayed task counts as queued for wake-affine and balancing, as in the
 * first 6.12 (later releases leave it out of some counts), and balancing never moves it.
 */
#ifndef WL_QUEUE_DELAYED_H
#define WL_QUEUE_DELAYED_H

#include "queue_fair.h"
#include "traits.h"

/* A task leaves cpu's queue for good: it takes no credit along from a time in which it slept. */
WL_INLINE void wl_delayed_leave(struct wl_policy *p, struct wl_task *t, u64 now_ns)
{
	u32 delayed = t->place == WL_PLACE_DELAYED;

	wl_fair_sleep(p, t, now_ns);
	if (!delayed)
		return;
	if (t->entity.lag > 0)
		t->entity.lag = 0;
	wl_queues_again(p, t->cpu);
}

/* t, which runs, waits for something. */
WL_INLINE void wl_delayed_sleep(struct wl_policy *p, struct wl_task *t, u64 now_ns,
				struct wl_sleep_out *out)
{
	u64 mean;

	if (t->place != WL_PLACE_RUNNING)
		return;
	wl_fair_charge(p, t, now_ns);
	mean = wl_fair_mean_of(p, t, t->cpu, now_ns);
	if (t->entity.vtime <= mean || !wl_queues_wait_beside(p, t->group, t->cpu)) {
		wl_queues_delay(p, t, now_ns);
		wl_fair_sleep(p, t, now_ns);
		return;
	}
	wl_fair_forget(p, wl_queue_of(p, t->group, t->cpu), t->id);
	wl_queues_stop(p, t);
	wl_place(p, t, WL_PLACE_DELAYED, t->cpu);
	out->stay = 1;
	out->key = t->entity.deadline;
}

/* A delayed task wakes on its CPU. If V has passed it, it is placed at V, with a whole slice. */
WL_FN int wl_delayed_wake(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG)
{
	struct wl_run_queue *q = wl_queue_of(p, t->group, t->cpu);

	if (wl_fair_lift(p, t->cpu, q, &t->entity,
			 wl_fair_runs(p, wl_cpu_of(p, t->cpu), q, t->group)))
		wl_wrote_cpu(p, t->cpu);
	return 0;
}

/* As wl_fair_enqueue(), of a task that may be delayed. */
WL_INLINE void wl_delayed_enqueue(struct wl_policy *p, struct wl_task *t, u32 to,
				  const struct wl_enqueue_in *in, struct wl_enqueue_out *out)
{
	/* A group that stays there, too, needs V before what runs is charged for the arrival. */
	if (wl_keeps_sleepers(p) && wl_nests(p))
		wl_queues_return(p, t->group, to);
	if (t->place == WL_PLACE_DELAYED && t->cpu != (s32)to)
		wl_delayed_leave(p, t, in->now_ns);
	else if (t->place == WL_PLACE_DELAYED)
		wl_delayed_wake(p, t);
	wl_fair_enqueue(p, t, to, in, out);
}

#endif /* WL_QUEUE_DELAYED_H */
