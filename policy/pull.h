/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pull.h - where a CPU gets its next task from: balancing and push, or the pulls of groups=exact.
 */
#ifndef WL_PULL_H
#define WL_PULL_H

#include "balance.h"
#include "push.h"

/* Do idle CPUs balance at intervals, one of them for all? */
WL_INLINE u32 wl_pull_has_times(const struct wl_policy *p)
{
	return wl_axis(p, balance) != WL_BALANCING_LOAD && !wl_groups_decide(p);
}

/*
 * Does the tick of a task that runs alone ask an idle CPU to take it? Where idle CPUs balance at
 * intervals, these find it, but for tasks that do not fit their CPU.
 */
WL_INLINE u32 wl_pull_asks(const struct wl_policy *p)
{
	return wl_axis(p, push) == WL_PUSH_ON && !wl_groups_decide(p) &&
	       (!wl_pull_has_times(p) || p->topo.unequal);
}

/* cpu needs something to run. */
WL_INLINE void wl_pull_dispatch(struct wl_policy *p, u32 cpu, u64 now_ns,
				struct wl_dispatch_out *out)
{
	u32 marks = wl_read_once(wl_cpu_of(p, cpu)->balance_marked);

	if (wl_groups_decide(p)) {
		wl_exact_dispatch(p, cpu, now_ns, out);
		return;
	}
	wl_queue_dispatch(p, cpu, now_ns, out);
	wl_balance_dispatch(p, cpu, now_ns, out);
	if (marks > WL_MARK_FOR_ALL && wl_pull_asks(p) && out->what == WL_DISPATCH_NOTHING &&
	    out->push_cpu < 0)
		wl_push_dispatch(p, cpu, marks, out);
	wl_wait_dispatch(p, cpu, now_ns, out);
}

/* During the pull d to in->cpu: may t come? If so, counts t there. */
WL_INLINE void wl_pull_move(struct wl_policy *p, struct wl_task *t, const struct wl_move_in *in,
			    struct wl_dispatch_out *d, struct wl_move_out *out)
{
	if (wl_groups_decide(p))
		wl_exact_move(p, t, in, d, out);
	else
		wl_balance_move(p, t, in, d, out);
}

/*
 * A tick on cpu: should a CPU pull, and which? t runs on cpu; null if the policy does not know it.
 */
WL_INLINE void wl_pull_tick(struct wl_policy *p, u32 cpu, const struct wl_task *t, u64 now_ns,
			    struct wl_tick_out *out)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	s32 pushed;

	if (!wl_groups_decide(p))
		wl_balance_mark(p, cpu, now_ns);
	out->balance_due = wl_read_once(c->balance_marked) != 0;
	if (wl_pull_has_times(p))
		out->kick_cpu = wl_times_kick(p, cpu, now_ns, &out->reads);
	else if (wl_read_once(c->nr_queued))
		out->kick_cpu =
			wl_balance_kick(p, cpu, wl_div(now_ns, p->params.tick_ns), &out->reads);
	if (!t || wl_read_once(c->nr_queued) || !wl_pull_asks(p))
		return;
	pushed = wl_push_kick(p, cpu, t, now_ns, &out->reads);
	if (pushed >= 0)
		out->kick_cpu = pushed;
}

#endif /* WL_PULL_H */
