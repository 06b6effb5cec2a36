/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * wait.h - the bound on how long a runnable task waits, whatever orders its queue.
 *
 * Weighted queues have no such bound. On a CPU with 40 tasks of weight 1024 and one of weight 10,
 * the latter is due again 4 ms * 40 * 1024 / 10 = 16 s after it ran for 4 ms. Linux lets it wait,
 * but sched_ext takes a task that waits for long for one that was lost, and ejects the scheduler.
 * So a task that has waited for longer than wait_max_ns is *overdue*, and goes before all others.
 *   since	A task's record says since when it waits: since it woke, or was put back. A change
 *		of queues does not end its waiting, and its turn on a CPU does
 *   oldest	Each CPU keeps a time before which none of its tasks began to wait. It is set when
 *		a task joins an empty queue, lowered when an older task joins, and found again by
 *		each walk
 *   walk	If `oldest` is too long ago when the CPU dispatches, the answer says so (overdue):
 *		the host asks wl_overdue() about all tasks that wait, and takes the one that has
 *		waited longest, the last one for which the answer was yes. If there is none, it
 *		chooses as always
 *   debt	An overdue task that is switched in is forgiven what it has received beyond its
 *		share: its vtime becomes that of its queue. Else its debt would grow for ever
 *   turns	One overdue task runs in WL_WAIT_TURNS ticks, so that a crowd of light tasks does
 *		not take the CPU from the others. But a task that has waited for a quarter more than
 *		wait_max_ns is *late*: a tick ends the slice of the running task, and it goes at once
 *   cut	An overdue task whose turn a wakee or an early tick ends before half a tick has got
 *		nothing for its wait: it is overdue again after a quarter of wait_max_ns. Not at
 *		once, because then a light task would go before all others for as long as its
 *		turns are cut
 * groups=exact compares all tasks if one may be overdue, and chooses of the overdue ones first the
 * one that has waited longest; so it needs no other walk, and has no turns.
 *
 * Example: wait_max_ns is 1 s, a tick 4 ms. H (1024) and L (10) are bound to CPU 0, and L is put
 * back at 0 s after a tick, with a vtime 4 * 1024 / 10 = 410 ms beyond H's. H would run until its
 * vtime is there. At 1.001 s a slice of H ends. `oldest` is 0 s, so the host asks about L: it is
 * overdue, and runs, with H's vtime. After its tick it waits from 1.005 s on, and is overdue at
 * 2.005 s. Without the bound, it would wait for 1.6 s with four such H, and for 16 s with 40.
 *
 * Cost: a comparison when a task joins a queue and when a CPU dispatches; and a walk over a queue
 * that was not empty for wait_max_ns, about once in that time. A light task receives up to a tick
 * in wait_max_ns, whatever its weight. It fails where more tasks wait on a CPU than have a tick in
 * that time: n tasks wait for n ticks each, 500 of them for 2 s, and each choice is a walk then;
 * where a host looks only at a part of a longer queue; and where a task of a higher class has the
 * CPU.
 */
#ifndef WL_WAIT_H
#define WL_WAIT_H

#include "run_queue.h"

#define WL_WAIT_TURNS 4

/* How far a walk over a CPU's queue is: wl_wait_cpu.walk. */
enum wl_wait_walk {
	WL_WALK_NONE,
	WL_WALK_ASKED, /* dispatch asked for it; a host that only balances makes none */
	WL_WALK_BEGUN, /* no overdue task so far */
	WL_WALK_FOUND, /* found_ns is that of the first overdue task */
};

/* Has t, which waits, waited for too long? */
WL_INLINE u32 wl_is_overdue(const struct wl_policy *p, const struct wl_task *t, u64 now_ns)
{
	s64 waited_ns = now_ns - t->waits_since_ns; /* below 0: it came after this CPU's clock */

	return p->params.wait_max_ns && waited_ns > (s64)p->params.wait_max_ns;
}

/* t is about to wait. If it waits already, it goes on. */
WL_INLINE void wl_wait_begins(struct wl_task *t, u64 now_ns)
{
	if (t->place != WL_PLACE_QUEUED)
		t->waits_since_ns = now_ns;
}

/* t, which runs, is put back. */
WL_INLINE void wl_wait_again(struct wl_policy *p, struct wl_task *t, u64 now_ns)
{
	u64 max_ns = p->params.wait_max_ns, served_ns;

	if (t->place == WL_PLACE_QUEUED)
		return;
	served_ns = wl_read_once(wl_cpu_of(p, t->cpu)->wait.served_ns);
	if (now_ns - served_ns < p->params.tick_ns / 2 && wl_is_overdue(p, t, served_ns))
		now_ns -= max_ns - max_ns / 4;
	t->waits_since_ns = now_ns;
}

/*
 * A task's waiting ends on cpu, where it is about to run. Returns 1 if it was overdue; it must be
 * forgiven then.
 */
WL_INLINE u32 wl_wait_ends(struct wl_policy *p, const struct wl_task *t, u32 cpu, u64 now_ns)
{
	if (t->place != WL_PLACE_QUEUED || !wl_is_overdue(p, t, now_ns))
		return 0;
	wl_write_once(wl_cpu_of(p, cpu)->wait.served_ns, now_ns);
	return 1;
}

/* No task of cpu is known that waits since before since_ns; a walk may find older ones. */
WL_INLINE void wl_wait_forget(struct wl_policy *p, u32 cpu, u64 since_ns)
{
	wl_write_once(wl_cpu_of(p, cpu)->wait.oldest_ns, since_ns);
}

/* A task of cpu has waited since then. */
WL_INLINE void wl_wait_note(struct wl_policy *p, u32 cpu, u64 since_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	if ((s64)(wl_read_once(c->wait.oldest_ns) - since_ns) > 0)
		wl_write_once(c->wait.oldest_ns, since_ns);
}

/* t waits on cpu, and is counted there. */
WL_INLINE void wl_wait_joins(struct wl_policy *p, const struct wl_task *t, u32 cpu)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u64 since_ns = t->waits_since_ns;

	if (!p->params.wait_max_ns)
		return;
	if (wl_read_once(c->nr_queued) <= 1)
		wl_wait_forget(p, cpu, since_ns);
	else
		wl_wait_note(p, cpu, since_ns);
}

/* By how much the oldest task of cpu may be overdue, in ns; 0 or less: none is. */
WL_INLINE s64 wl_wait_excess_ns(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	s64 waited_ns = now_ns - wl_read_once(c->wait.oldest_ns);

	if (!p->params.wait_max_ns || !wl_read_once(c->nr_queued))
		return 0;
	return waited_ns - (s64)p->params.wait_max_ns;
}

/* Should the running task of cpu give way at once, because a task has waited for too long? */
WL_INLINE u32 wl_wait_is_late(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	return wl_wait_excess_ns(p, cpu, now_ns) > (s64)(p->params.wait_max_ns / 4);
}

/* May an overdue task wait on cpu, and is it its turn? */
WL_INLINE u32 wl_wait_is_due(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	u64 served_ns;

	if (wl_wait_excess_ns(p, cpu, now_ns) <= 0)
		return 0;
	served_ns = wl_read_once(wl_cpu_of(p, cpu)->wait.served_ns);
	return now_ns - served_ns >= WL_WAIT_TURNS * p->params.tick_ns ||
	       wl_wait_is_late(p, cpu, now_ns);
}

/* cpu is about to choose: should the host look for an overdue task first? */
WL_INLINE void wl_wait_dispatch(struct wl_policy *p, u32 cpu, u64 now_ns,
				struct wl_dispatch_out *out)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	if (out->what == WL_DISPATCH_PULL || !wl_wait_is_due(p, cpu, now_ns))
		return;
	out->overdue = 1;
	c->wait.walk = WL_WALK_ASKED;
}

/* The host's walk is at a task of cpu. If it is the first, the walk begins. */
WL_INLINE void wl_wait_look(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	if (wl_get(c->wait.walk) != WL_WALK_ASKED)
		return;
	c->wait.walk = WL_WALK_BEGUN;
	wl_wait_forget(p, cpu, now_ns);
}

/* The host's walk is at t, in the queue of cpu. Is t overdue, and the first of those so far? */
WL_INLINE u32 wl_wait_walk(struct wl_policy *p, const struct wl_task *t, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u64 since_ns = t->waits_since_ns, found_ns = wl_get(c->wait.found_ns), left_ns = since_ns;
	u32 has_found, takes;

	wl_wait_look(p, cpu, now_ns);
	has_found = wl_get(c->wait.walk) == WL_WALK_FOUND;
	if (t->place != WL_PLACE_QUEUED)
		return 0;
	takes = wl_is_overdue(p, t, now_ns) && (!has_found || (s64)(found_ns - since_ns) > 0);
	if (takes) {
		left_ns = has_found ? found_ns : now_ns;
		c->wait.found_ns = since_ns;
		c->wait.walk = WL_WALK_FOUND;
	}
	wl_wait_note(p, cpu, left_ns);
	return takes;
}

#endif /* WL_WAIT_H */
