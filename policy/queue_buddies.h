/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * queue_buddies.h - queue=cfs-2018: the next task to run is not always the first of the queue.
 *
 * As queue_cfs.h, but each CPU remembers two tasks of its queue, its buddies:
 *	next	the task whose wake-up preempted the running one
 *	last	the task that was preempted that way, if at least latency / min_granularity tasks
 *		(rounded up) are runnable there at that time: it has a warm cache
 * The next choice is next, else last, else the first of the queue; but a buddy is chosen only if
 * its vtime exceeds that of the first by at most wakeup_granularity * 1024 / the first's weight. A
 * task stops being a buddy when it is picked, sleeps, moves, or has used up its slice.
 *
 * Example: defaults on 8 CPUs or more, all weights 1024. A runs with vtime 10 ms above the floor,
 * and L is queued with 1 ms above it. B wakes with its key 3 ms above the floor: 7 ms behind A,
 * more than wakeup_granularity (4 ms), so B preempts A, and is next. 3 - 1 <= 4, so B runs before
 * L. If L were 2 ms below the floor, 3 + 2 > 4, and L would run first.
 *
 * Cost: two words for each wake-up that preempts; the host asks about each queued task until the
 * buddy's turn comes. It fails as all favours do: a stream of short tasks that preempt each other
 * keeps the others waiting, for up to the granularity. Left out: the skip buddy of sched_yield(),
 * the next buddy of a task that sleeps in its group, and the tick's check of how far behind the
 * first of the queue is.
 */
#ifndef WL_QUEUE_BUDDIES_H
#define WL_QUEUE_BUDDIES_H

#include "run_queue.h"

WL_INLINE u32 wl_has_buddies(const struct wl_policy *p)
{
	return wl_axis(p, queue) == WL_QUEUE_CFS_2018;
}

/* The wake-up of t preempts the running task of c. */
WL_INLINE void wl_buddy_preempts(struct wl_policy *p, struct wl_cpu *c, const struct wl_task *t)
{
	if (!wl_has_buddies(p))
		return;
	wl_write_once(c->buddies.next_vtime, t->entity.vtime);
	wl_write_once(c->buddies.next, t->id + 1);
}

/* t gives way on c, but is still runnable and counted there. */
WL_INLINE void wl_buddy_gives_way(struct wl_policy *p, struct wl_cpu *c, const struct wl_task *t)
{
	u64 nr_latency = wl_div(p->params.latency_ns + p->params.min_granularity_ns - 1,
				p->params.min_granularity_ns);

	if (!wl_read_once(c->buddies.next) ||
	    wl_read_once(c->nr_queued) + wl_read_once(c->nr_running) < nr_latency)
		return;
	wl_write_once(c->buddies.last_vtime, t->entity.vtime);
	wl_write_once(c->buddies.last, t->id + 1);
}

/* t is no longer a buddy on the CPU where it is counted. */
WL_INLINE void wl_buddy_forget(struct wl_policy *p, const struct wl_task *t)
{
	struct wl_cpu *c = wl_cpu_of(p, t->cpu);

	if (wl_read_once(c->buddies.next) == t->id + 1)
		wl_write_once(c->buddies.next, 0);
	if (wl_read_once(c->buddies.last) == t->id + 1)
		wl_write_once(c->buddies.last, 0);
}

/* Does c have a buddy? */
WL_INLINE u32 wl_buddy_waits(struct wl_cpu *c)
{
	return wl_read_once(c->buddies.next) || wl_read_once(c->buddies.last);
}

/*
 * The host asks about the queue in its order: does t run now? The task asked about first has the
 * smallest vtime. If a buddy may run before it, all tasks before the buddy wait.
 */
WL_INLINE u32 wl_buddy_may_run(struct wl_policy *p, const struct wl_task *t, u32 cpu)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u64 reach =
		t->entity.vtime + wl_vtime_of(p->params.wakeup_granularity_ns, t->entity.hweight);
	u64 next = wl_read_once(c->buddies.next), last = wl_read_once(c->buddies.last);

	if (next && (next == t->id + 1 || wl_read_once(c->buddies.next_vtime) <= reach))
		return next == t->id + 1;
	if (last && (last == t->id + 1 || wl_read_once(c->buddies.last_vtime) <= reach))
		return last == t->id + 1;
	return 1;
}

#endif /* WL_QUEUE_BUDDIES_H */
