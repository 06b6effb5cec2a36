/* SPDX-License-Identifier: GPL-2.0-or-later */
/* queue.h - the axis `queue`: hands each event of a run queue to the chosen value. */
#ifndef WL_QUEUE_H
#define WL_QUEUE_H

#include "queue_cfs.h"
#include "queue_delayed.h"
#include "groups_exact.h"

/* The rules that order tasks: those of the axis, unless groups=exact replaces them. */
enum wl_order {
	WL_ORDER_CFS,	/* queue_cfs.h */
	WL_ORDER_FAIR,	/* queue_fair.h, queue_delayed.h */
	WL_ORDER_EXACT, /* groups_exact.h */
};

WL_INLINE u32 wl_order(const struct wl_policy *p)
{
	if (wl_groups_decide(p))
		return WL_ORDER_EXACT;
	return wl_axis(p, queue) >= WL_QUEUE_FAIR ? WL_ORDER_FAIR : WL_ORDER_CFS;
}

/* `to`: the CPU whose queue t joins, if t is allowed there. */
WL_INLINE void wl_queue_enqueue(struct wl_policy *p, struct wl_task *t, u32 to,
				const struct wl_enqueue_in *in, struct wl_enqueue_out *out)
{
	wl_wait_begins(t, in->now_ns);
	if (wl_order(p) == WL_ORDER_EXACT)
		wl_exact_enqueue(p, t, to, in, out);
	else if (wl_order(p) == WL_ORDER_FAIR)
		wl_delayed_enqueue(p, t, to, in, out);
	else
		wl_cfs_enqueue(p, t, to, in, out);
	wl_wait_joins(p, t, out->cpu);
}

WL_INLINE void wl_queue_running(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns)
{
	if (wl_order(p) == WL_ORDER_EXACT)
		wl_exact_running(p, t, cpu, now_ns);
	else if (wl_order(p) == WL_ORDER_FAIR)
		wl_fair_run(p, t, cpu, now_ns);
	else
		wl_cfs_running(p, t, cpu, now_ns);
}

WL_INLINE void wl_queue_stopping(struct wl_policy *p, struct wl_task *t, u64 now_ns, u32 runnable)
{
	if (runnable)
		wl_wait_again(p, t, now_ns);
	if (wl_order(p) == WL_ORDER_EXACT)
		wl_exact_stopping(p, t, now_ns, runnable);
	else if (wl_order(p) == WL_ORDER_FAIR)
		wl_fair_stopping(p, t, now_ns, runnable);
	else
		wl_cfs_stopping(p, t, now_ns, runnable);
}

/* t, which runs, waits for something. */
WL_INLINE void wl_queue_sleep(struct wl_policy *p, struct wl_task *t, u64 now_ns,
			      struct wl_sleep_out *out)
{
	if (wl_trait_delays(&p->params))
		wl_delayed_sleep(p, t, now_ns, out);
	else
		wl_queue_stopping(p, t, now_ns, 0);
}

/* t, which runs on cpu, gives up the CPU. */
WL_INLINE void wl_queue_yield(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns)
{
	if (wl_order(p) == WL_ORDER_EXACT)
		wl_exact_yield(p, cpu);
	else if (wl_order(p) == WL_ORDER_FAIR)
		wl_fair_yield(p, t, cpu, now_ns);
}

/* t is no longer runnable, or leaves its queue to be queued again. */
WL_INLINE void wl_queue_leave(struct wl_policy *p, struct wl_task *t, u64 now_ns)
{
	if (wl_order(p) == WL_ORDER_EXACT)
		wl_exact_leave(p, t, now_ns);
	else if (wl_order(p) == WL_ORDER_FAIR)
		wl_delayed_leave(p, t, now_ns);
	else
		wl_cfs_leave(p, t, now_ns);
}

/* Returns 1 if the running task should give way. */
WL_INLINE u32 wl_queue_tick(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns,
			    struct wl_reads *reads)
{
	u32 resched;

	if (wl_order(p) == WL_ORDER_EXACT)
		resched = wl_exact_tick(p, t, cpu, now_ns, reads);
	else if (wl_order(p) == WL_ORDER_FAIR)
		resched = wl_fair_tick(p, t, cpu, now_ns);
	else
		resched = wl_cfs_tick(p, t, cpu, now_ns);
	return resched || wl_wait_is_late(p, cpu, now_ns);
}

/* The weight of t changed, or its group. */
WL_INLINE void wl_queue_weight(struct wl_policy *p, struct wl_task *t, u32 weight, u32 group,
			       u64 now_ns)
{
	if (wl_order(p) == WL_ORDER_EXACT)
		wl_exact_weight(p, t, weight, group, now_ns);
	else if (wl_nests(p))
		wl_fair_regroup(p, t, weight, group, now_ns);
	else if (wl_order(p) == WL_ORDER_FAIR)
		wl_fair_weight(p, t, weight, group, now_ns);
	else
		wl_cfs_weight(p, t, weight, group, now_ns);
}

/* A pull takes t from `from` to in->cpu. Returns 0 if t is no longer queued there. */
WL_INLINE u32 wl_queue_pulled(struct wl_policy *p, struct wl_task *t, u32 from,
			      const struct wl_move_in *in, struct wl_move_out *out)
{
	u32 pulled = wl_order(p) == WL_ORDER_FAIR ? wl_fair_pulled(p, t, from, in, out)
						  : wl_cfs_pulled(p, t, from, in, out);

	if (pulled)
		wl_wait_joins(p, t, in->cpu);
	return pulled;
}

/* The host asks this about its queue, in the queue's order, if dispatch told it to. */
WL_INLINE u32 wl_queue_may_run(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns)
{
	if (wl_order(p) == WL_ORDER_EXACT)
		return wl_exact_may_run(p, t, cpu, now_ns);
	if (wl_order(p) == WL_ORDER_FAIR)
		return wl_fair_may_run(p, t, cpu, now_ns);
	if (wl_has_buddies(p) && wl_buddy_waits(wl_cpu_of(p, cpu)))
		return wl_buddy_may_run(p, t, cpu);
	return wl_cfs_may_run(p, t, cpu, now_ns);
}

/* Start values of what belongs to cpu. */
WL_INLINE void wl_queue_init(struct wl_policy *p, u32 cpu)
{
	wl_cpu_of(p, cpu)->queue.min_vtime = WL_VTIME_START;
}

/* cpu was asked to pull what waits on `from`. */
WL_INLINE void wl_queue_asked(struct wl_policy *p, u32 cpu, u32 from)
{
	if (wl_order(p) == WL_ORDER_EXACT)
		wl_write_once(wl_cpu_of(p, cpu)->exact.pull_from, from + 1);
}

/* Says how the host should choose from cpu's own queue, and whether the running task may go on. */
WL_INLINE void wl_queue_dispatch(struct wl_policy *p, u32 cpu, u64 now_ns,
				 struct wl_dispatch_out *out)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 runs = wl_read_once(c->nr_running);

	out->pick = WL_PICK_ELIGIBLE;
	if (wl_order(p) == WL_ORDER_FAIR) {
		out->pick = wl_queues_pick(p, cpu, now_ns);
		/* The vtime of a single task is V. */
		if (!runs && wl_read_once(c->nr_queued) == 1) {
			out->pick = WL_PICK_HEAD;
			return;
		}
		if (runs)
			out->keep_slice_ns = wl_fair_keep_ns(p, cpu, now_ns);
		wl_fair_chooses(p, cpu, now_ns);
		return;
	}
	/*
	 * If the host put the running task back, that is in the queue. Else it still counts as
	 * running, and goes on for a tick if it is first.
	 */
	if (runs)
		out->keep_slice_ns = p->params.tick_ns;
	else if (!wl_has_buddies(p) || !wl_buddy_waits(c))
		out->pick = WL_PICK_HEAD;
}

#endif /* WL_QUEUE_H */
