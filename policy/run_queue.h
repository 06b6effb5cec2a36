/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * run_queue.h - what every kind of queue shares: where a task is counted, and weighted time.
 *
 * One function, wl_place(), moves a task between not runnable, queued, running and delayed (asleep
 * but still in the queue: queue_delayed.h; it counts as queued), and changes the counts of CPUs by
 * the difference. So an event that is told twice changes nothing, and an event that was missed is
 * repaired by the next. A CPU's load is the sum of the weights of the tasks counted there; group.h
 * says what groups make of it.
 *
 * Example: A (1024) runs on CPU 0 and B (2048) is queued there: nr_running is 1, nr_queued 1, load
 * 3072. B is pulled to CPU 1: CPU 0 now has 1, 0 and 1024, CPU 1 has 0, 1 and 2048.
 *
 * Cost: two atomic additions per change; four if the CPU changes.
 */
#ifndef WL_RUN_QUEUE_H
#define WL_RUN_QUEUE_H

#include "groups.h"
#include "idle.h"
#include "slices.h"

/*
 * Run time as vtime, for a task that is charged by hweight. At a weight of 1024 they are equal.
 * Valid for times up to 4 hours.
 */
WL_INLINE u64 wl_vtime_of(u64 time_ns, u32 hweight)
{
	return hweight == WL_WEIGHT_NICE_0 << WL_HWEIGHT_SHIFT
		       ? time_ns
		       : wl_div(time_ns * (WL_WEIGHT_NICE_0 << WL_HWEIGHT_SHIFT), hweight);
}

/* The vtime of what runs in a queue. */
WL_INLINE u64 wl_curr_vtime(const struct wl_run_queue *q, u64 now_ns)
{
	u64 start_ns = wl_read_once(q->curr_start_ns), vtime = wl_read_once(q->curr_vtime);

	return now_ns > start_ns
		       ? vtime + wl_vtime_of(now_ns - start_ns, wl_read_once(q->curr_weight))
		       : vtime;
}

/* ------------------------------------------------------------------ counting */

/* Where a task is counted, as one word. */
union wl_where {
	struct {
		u32 place;
		s32 cpu;
	};
	u64 both;
};
_Static_assert(__builtin_offsetof(struct wl_task, place) % 8 == 0, "place and cpu are one word");
_Static_assert(__builtin_offsetof(struct wl_task, cpu) ==
		       __builtin_offsetof(struct wl_task, place) + 4,
	       "place and cpu are one word");

/* Some CPU has two tasks: CPUs that go idle look for them. */
WL_INLINE void wl_mark_overloaded(struct wl_policy *p)
{
	if (wl_read_once(p->overloaded))
		return;
	wl_write_once(p->overloaded, 1);
	wl_line_written(p, WL_LINE_OVERLOADED);
}

/* Does a task at this place wait in a queue? */
WL_INLINE u32 wl_is_queued(u32 place)
{
	return place == WL_PLACE_QUEUED || place == WL_PLACE_DELAYED;
}

/*
 * Changes the counts of CPUs by the difference between two places of a task. Those of groups=exact
 * are not among them.
 */
WL_INLINE void wl_recount(struct wl_policy *p, struct wl_task *t, u32 weight, union wl_where was,
			  union wl_where now)
{
	struct wl_cpu *from = wl_cpu_of(p, was.cpu), *to = wl_cpu_of(p, now.cpu);
	u32 moves = was.cpu != now.cpu;

	if (wl_is_queued(was.place))
		wl_atomic_add(&from->nr_queued, -1);
	else if (was.place == WL_PLACE_RUNNING)
		wl_atomic_add(&from->nr_running, -1);
	if (was.place != WL_PLACE_NONE && (moves || now.place == WL_PLACE_NONE))
		wl_weigh(p, t->group, weight, was.cpu, -1);
	if (now.place != WL_PLACE_NONE && (moves || was.place == WL_PLACE_NONE))
		wl_weigh(p, t->group, weight, now.cpu, 1);
	if (t->entity.own_slice_ns) {
		if (was.place != WL_PLACE_NONE && (moves || now.place == WL_PLACE_NONE))
			wl_slice_count(p, was.cpu, t->entity.own_slice_ns, -1);
		if (now.place != WL_PLACE_NONE && (moves || was.place == WL_PLACE_NONE))
			wl_slice_count(p, now.cpu, t->entity.own_slice_ns, 1);
	}
	if (wl_is_queued(now.place))
		wl_atomic_add(&to->nr_queued, 1);
	else if (now.place == WL_PLACE_RUNNING)
		wl_atomic_add(&to->nr_running, 1);
	if (was.place != WL_PLACE_NONE)
		wl_wrote_cpu(p, was.cpu);
	if (wl_is_queued(was.place))
		wl_idle_dequeued(p, was.cpu);
	if (now.place != WL_PLACE_NONE && (moves || was.place == WL_PLACE_NONE))
		wl_wrote_cpu(p, now.cpu);
	if (now.place != WL_PLACE_NONE && wl_get(to->nr_queued) + wl_get(to->nr_running) > 1)
		wl_mark_overloaded(p);
	if (moves)
		t->recent_cpu = was.cpu;
}

/* wl_recount() of any two places. */
WL_FN int wl_recount_rest(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 weight, u64 was,
			  u64 now)
{
	wl_recount(p, t, weight, (union wl_where){.both = was}, (union wl_where){.both = now});
	return 0;
}

/* As wl_recount_rest(). The call takes less of the caller's frame, but one more. */
WL_INLINE void wl_recount_any(struct wl_policy *p, struct wl_task *t, u32 weight,
			      union wl_where was, union wl_where now)
{
	if (WL_HAS_STACK)
		wl_recount_rest(p, t, weight, was.both, now.both);
	else
		wl_recount(p, t, weight, was, now);
}

/*
 * Counts a task where it now is instead of where it was. cpu is its home even if it is not
 * runnable. In a kernel, a CPU that pulls the task and a CPU that runs or dequeues it may do this
 * at the same time. So place and CPU are exchanged as one word: each difference begins where the
 * one before it ended, and counts never drift. Returns where it was.
 */
WL_INLINE union wl_where wl_place(struct wl_policy *p, struct wl_task *t, u32 place, u32 cpu)
{
	union wl_where was, now = {.place = place, .cpu = cpu};
	u32 weight = t->weight;

	if (t->place == place && t->cpu == (s32)cpu)
		return now;
	was.both = wl_atomic_xchg((wl_pair *)&t->place, now.both);
	wl_recount_any(p, t, weight, was, now);
	return was;
}

/*
 * As wl_place(), of a task that is not there yet, and nearly always comes from the place `usual` on
 * the same CPU: the compiler leaves little of the count then.
 */
WL_INLINE union wl_where wl_place_from(struct wl_policy *p, struct wl_task *t, u32 usual, u32 place,
				       u32 cpu)
{
	union wl_where was, now = {.place = place, .cpu = cpu};
	u32 weight = t->weight;

	was.both = wl_atomic_xchg((wl_pair *)&t->place, now.both);
	if (was.place == usual && was.cpu == now.cpu) {
		was = (union wl_where){.place = usual, .cpu = cpu};
		wl_recount(p, t, weight, was, now);
		return was;
	}
	wl_recount_any(p, t, weight, was, now);
	return was;
}

/* Queues on `cpu` a task that is queued on `from`. Returns 0 if it no longer is. */
WL_INLINE u32 wl_place_moved(struct wl_policy *p, struct wl_task *t, u32 from, u32 cpu)
{
	union wl_where was = {.place = WL_PLACE_QUEUED, .cpu = from};
	union wl_where now = {.place = WL_PLACE_QUEUED, .cpu = cpu};
	u32 weight = t->weight;

	if (wl_atomic_cas((wl_pair *)&t->place, was.both, now.both) != was.both)
		return 0;
	wl_recount(p, t, weight, was, now);
	return 1;
}

/* Gives t another weight or group, and corrects what is counted of it where it is. */
WL_INLINE void wl_reweigh(struct wl_policy *p, struct wl_task *t, u32 weight, u32 group)
{
	u32 counted = t->place != WL_PLACE_NONE;

	if (counted)
		wl_weigh(p, t->group, t->weight, t->cpu, -1);
	t->weight = weight;
	t->group = group;
	if (!counted)
		return;
	wl_weigh(p, group, weight, t->cpu, 1);
	wl_wrote_cpu(p, t->cpu);
}

/*
 * Counts what joining cpu's queue reads: the line of cpu, whose lock is taken; the line of the CPU
 * that the task comes from; and `overloaded`, if the task is not alone.
 */
WL_INLINE void wl_read_queues(struct wl_policy *p, const struct wl_task *t, u32 cpu, u32 this_cpu,
			      struct wl_reads *reads)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 counted_here = t->place != WL_PLACE_NONE && t->cpu == (s32)cpu;

	if (!wl_tells_distances(p))
		return;
	wl_lock_cpu(p, reads, cpu, wl_distance(p, this_cpu, cpu));
	if (t->cpu >= 0 && t->cpu != (s32)cpu)
		wl_read_cpu(p, reads, t->cpu, wl_distance(p, this_cpu, t->cpu));
	if (t->group && !counted_here)
		wl_read_groups(p, t->group, wl_groups_weigh(p) ? cpu : wl_llc_first(p, cpu),
			       this_cpu, reads);
	if (wl_read_once(c->nr_queued) + wl_read_once(c->nr_running) > counted_here)
		wl_read_overloaded(p, this_cpu, reads);
}

#endif /* WL_RUN_QUEUE_H */
