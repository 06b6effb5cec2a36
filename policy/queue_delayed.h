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
 *		slice
 * A task that exits leaves at once, and a pull does not take a delayed task.
 *
 * fair-2025 (Linux 6.17 and later) has base slices of 0.7 ms instead of 0.75 (scaled in the same
 * way), and a running task that has got another slice since it was picked makes its CPU reschedule
 * whenever it is charged while others wait: at each tick and arrival, not only if it is beyond V.
 *
 * Example: all weights 1024, slice 3 ms, vtimes in ms. A runs at 2 with deadline 3, and B waits at
 * 0 with deadline 3: V is 1. A waits for a message. It is beyond V, and stays queued at 3. B runs.
 * When B has run 1 ms, V = (2 + 1) / 2 = 1.5. The message comes: A wakes at 2 with deadline 3, is
 * not eligible, and waits. Had the message come after B had run 3.5 ms, V would be (2 + 3.5) / 2 =
 * 2.75: A is placed at 3.5, where B alone is, with deadline 6.5. Had it not come at all, B's slice
 * would have ended at 3, and its next deadline would be 6: V is 2.5, and A, at 2, is eligible and
 * has the earlier deadline. It leaves, and B goes on.
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
	if (delayed && t->lag > 0)
		t->lag = 0;
}

/* t, which runs, waits for something. */
WL_INLINE void wl_delayed_sleep(struct wl_policy *p, struct wl_task *t, u64 now_ns,
				struct wl_sleep_out *out)
{
	u64 mean;

	if (t->place != WL_PLACE_RUNNING)
		return;
	wl_fair_charge(p, t, now_ns);
	mean = wl_fair_mean(p, t->cpu, now_ns);
	if (t->vtime <= mean || !wl_read_once(wl_cpu_of(p, t->cpu)->nr_queued)) {
		wl_fair_sleep(p, t, now_ns);
		return;
	}
	wl_fair_forget(p, t);
	wl_place(p, t, WL_PLACE_DELAYED, t->cpu);
	out->stay = 1;
	out->key = t->deadline;
}

/* As wl_fair_enqueue(), of a task that may be delayed. */
WL_INLINE void wl_delayed_enqueue(struct wl_policy *p, struct wl_task *t,
				  const struct wl_enqueue_in *in, struct wl_enqueue_out *out)
{
	if (t->place == WL_PLACE_DELAYED &&
	    (t->cpu != (s32)in->cpu || t->vtime < wl_fair_mean(p, t->cpu, in->now_ns)))
		wl_delayed_leave(p, t, in->now_ns);
	wl_fair_enqueue(p, t, in, out);
}

#endif /* WL_QUEUE_DELAYED_H */
