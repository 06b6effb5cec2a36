/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * groups_exact.h - groups=exact: every CPU serves the group that has received least for its shares.
 *
 * That rule alone makes an allocation max-min fair: what a group cannot use, because it has few
 * tasks or its tasks may run on few CPUs, goes to the next group behind, and no equations need to
 * be solved. groups_exact_lag.h keeps lags, groups_exact_sums.h the v's and their order. The axes
 * `queue` and `push` have no effect: the order is that of v. A host without groups has nothing to
 * divide: there `queue` and `push` decide, at no additional cost.
 *   pick	A CPU picks, of its running task and all tasks that wait there, the one furthest
 *		behind; or of those that are overdue (wait.h) the one that has waited longest. By
 *		their v's, a task that wakes again and again after it ran for microseconds would go
 *		before all that are ahead of it, for ever.
 *   spare	A tick makes a CPU pick. But while two tasks or more wait there, all of the running
 *		task's group, that is spared until it has run for a slice (min_granularity_ns): no
 *		group receives less by that, and tasks switch less often. A task that preempts, one
 *		that is overdue, a pull and a yield end this. If only one waits, it need not wait
 *		for longer than a tick: of two tasks, one is often there to be served at once.
 *   preempt	A task that wakes preempts if it is behind the running task by more than a quarter
 *		of a tick of its CPU time; however recently that one began to run. If it were spared
 *		at first, a task that sleeps for less than that beside one that computes would wait
 *		for a tick each time.
 *   pull	A tick probes WL_EXACT_PROBES CPUs of the LLC, each in turn, or all others of it if
 *		they are no more; and one CPU of the whole machine, each in turn, unless those were
 *		all others there are. If the first task that waits there is behind all tasks of this
 *		CPU by more than WL_EXACT_PULL_TICKS ticks of its CPU time (the hysteresis), this
 *		CPU pulls the first task of that queue that is so far behind, and runs it. A CPU
 *		that is about to go idle pulls from the next CPU where a task waits, and a tick on a
 *		CPU where a task waits kicks an idle CPU, as in balance.h. A CPU that is asked to
 *		pull from a taken one (taken.h) also pulls an overdue task. Loads are not balanced.
 *
 * Example: CPU 0 runs B while A waits there; CPU 1 runs B. v is 10 ms for A and 12 ms for B, both
 * with 1024 shares. At its tick CPU 0 picks A. If CPU 0 ran C with v of 9 ms instead, A would go on
 * waiting; the next tick of CPU 1 that probes CPU 0 finds A 2 ms behind B, more than a tick, pulls
 * A, and runs it.
 *
 * Bound: a group's lag is at most the time that its tasks wait for a pick (a tick) and for a probe
 * (a quarter of the number of CPUs, in ticks; by then all CPUs that it is allowed on have probed),
 * plus the hysteresis. Because CPUs pick at ticks, any rule has an error of one tick of CPU time
 * for each CPU that the group runs on at a time, and of at least one tick: the group may have just
 * received that tick, or just missed it. Within a group, a task may be a slice off besides.
 *
 * Keys: a queue has the order of its tasks' own v's, which stand still while they wait. Those of
 * their groups move, so all tasks are compared. But while all that wait on a CPU are tasks of one
 * group, the first task is the one furthest behind. If nothing runs, it is picked without a
 * comparison. Else two are enough: with the first task, and with the second, which is the one that
 * other CPUs may pull next. Two sums over the tasks that wait tell which is the case.
 *
 * Cost: a tick reads at most WL_EXACT_PROBES + 1 CPUs, and a pick compares two tasks, or all that
 * wait if they are of several groups. It fails for a queue of hundreds of tasks of several groups,
 * because each is compared at each pick. A task whose group is served in full elsewhere waits until
 * it is overdue, because max-min fairness gives it nothing.
 */
#ifndef WL_GROUPS_EXACT_H
#define WL_GROUPS_EXACT_H

#include "groups_exact_lag.h"
#include "wait.h"

#define WL_EXACT_PULL_TICKS  1
#define WL_EXACT_PREEMPT_DIV 4 /* of a tick */
#define WL_EXACT_PROBES	     3
#define WL_EXACT_IDLE_PULLS  4 /* tries of a CPU that is about to go idle */

/* ------------------------------------------------------------------ which task is first */

/*
 * Do tasks of several groups wait on c? n tasks of one group have n times its slot and n times the
 * square of that, so that n times the sum of the squares is the square of the sum. Of several
 * groups it is more: by the squares of all differences, which for up to 22 tasks is less than 2^32.
 * Where more of them are by chance taken for one group, the order of the tasks' v's must do.
 */
WL_INLINE u32 wl_exact_is_mixed(const struct wl_cpu *c)
{
	u64 slots = wl_read_once(c->exact.slots);
	u32 sum = slots, squares = slots >> 32;

	return wl_read_once(c->nr_queued) * squares != sum * sum;
}

#define WL_EXACT_MIXED ~0u

/* The group of all tasks that wait on c, or WL_EXACT_MIXED. */
WL_INLINE u32 wl_exact_queued_slot(const struct wl_cpu *c)
{
	u64 slots = wl_read_once(c->exact.slots);
	u32 sum = slots, squares = slots >> 32, slot = sum ? squares / sum : 0;

	return wl_read_once(c->nr_queued) * slot == sum ? slot : WL_EXACT_MIXED;
}

/* What a walk over the queue has found so far: wl_cpu.has_best. */
#define WL_EXACT_RUNS	 1 /* the running task */
#define WL_EXACT_WAITS	 2 /* a task that waits */
#define WL_EXACT_STARVES 3 /* a task that has waited too long */

/* The running task of a CPU, or the one that ran last. */
WL_INLINE struct wl_exact_key wl_exact_curr(struct wl_cpu *c)
{
	return (struct wl_exact_key){.v = wl_read_once(c->queue.curr_vtime),
				     .slot = wl_read_once(c->exact.curr_slot),
				     .weight = wl_read_once(c->queue.curr_weight)};
}

/* Notes a waiting task as the first of its CPU if it comes before the one noted. */
WL_INLINE void wl_exact_note(struct wl_policy *p, struct wl_cpu *c, struct wl_exact_key key,
			     u32 llc)
{
	struct wl_exact_pair pair = {.a = key, .b = wl_exact_seen(&c->exact.first)};

	if (wl_get(c->exact.has_first) && wl_exact_ahead(p, &pair, llc) <= 0)
		return;
	wl_write_once(c->exact.first.v, key.v);
	wl_write_once(c->exact.first.slot, key.slot);
	wl_write_once(c->exact.first.weight, key.weight);
	wl_write_once(c->exact.has_first, 1);
}

/*
 * t was the head of a queue of one group and now runs; others wait, and no walk has seen them. None
 * of them is behind t, so that a CPU that looks for work may take t's v for that of the next one:
 * if it is wrong, it finds nothing to pull.
 */
WL_INLINE void wl_exact_note_bound(struct wl_cpu *c, const struct wl_task *t)
{
	u32 slot = wl_exact_queued_slot(c);

	if (slot == WL_EXACT_MIXED)
		return;
	wl_write_once(c->exact.first.v, t->entity.vtime);
	wl_write_once(c->exact.first.slot, slot);
	wl_write_once(c->exact.first.weight, t->weight);
	wl_write_once(c->exact.has_first, 1);
}

/* What a task may run for, among tasks of its group. At least a tick, because ticks end it. */
WL_INLINE u64 wl_exact_slice_ns(const struct wl_policy *p)
{
	u64 slice_ns = p->params.min_granularity_ns;

	return slice_ns > p->params.tick_ns ? slice_ns : p->params.tick_ns;
}

/* Is the running task of c still spared? No longer, unless several wait, all of its group. */
WL_INLINE u32 wl_exact_still_spared(struct wl_cpu *c)
{
	if (!wl_read_once(c->exact.spared))
		return 0;
	if (wl_read_once(c->nr_queued) > 1 &&
	    wl_exact_queued_slot(c) == wl_read_once(c->exact.curr_slot))
		return 1;
	wl_write_once(c->exact.spared, 0);
	return 0;
}

/* ------------------------------------------------------------------ events */

WL_INLINE void wl_exact_enqueue(struct wl_policy *p, struct wl_task *t, u32 to,
				const struct wl_enqueue_in *in, struct wl_enqueue_out *out)
{
	u32 cpu = wl_allowed(p, t, to) ? to : (u32)wl_nearest_allowed(p, t, to);
	union wl_where now = {.place = WL_PLACE_QUEUED, .cpu = cpu};
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	struct wl_exact_pair pair;
	struct wl_exact_here at;

	wl_exact_charge(p, t, in->now_ns);
	wl_exact_sum(p, t->group, cpu, in->now_ns, &out->reads);
	wl_read_queues(p, t, cpu, in->this_cpu, &out->reads);
	if (t->place == WL_PLACE_NONE) {
		at = wl_exact_at(p, t->group, cpu);
		wl_exact_wake(p, t, &at, cpu, in->now_ns, &out->reads);
		wl_exact_place_from(p, t, &at, WL_PLACE_NONE, now, in->now_ns);
	} else {
		wl_exact_place(p, t, WL_PLACE_QUEUED, cpu, in->now_ns);
	}
	t->slice_ns = wl_exact_slice_ns(p);
	wl_exact_note(p, c, wl_exact_key_of(t), wl_llc_first(p, cpu));
	wl_wrote_cpu(p, cpu);

	out->cpu = cpu;
	out->key = t->entity.vtime;
	out->slice_ns = t->slice_ns;
	if (in->why == WL_ENQ_SLICE_END || !wl_read_once(c->nr_running))
		return;
	pair.a = wl_exact_key_of(t);
	pair.b = wl_exact_curr(c);
	out->preempt = wl_exact_is_ahead(p, &pair, wl_llc_first(p, cpu),
					 p->params.tick_ns / WL_EXACT_PREEMPT_DIV);
	if (out->preempt)
		wl_write_once(c->exact.spared, 0);
}

WL_INLINE void wl_exact_running(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns)
{
	union wl_where now = {.place = WL_PLACE_RUNNING, .cpu = cpu};
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	struct wl_reads reads; /* dropped, because the host missed the enqueue */
	struct wl_exact_here at;
	u64 clock;

	if (t->place == WL_PLACE_RUNNING && t->cpu == (s32)cpu)
		return;
	wl_exact_charge(p, t, now_ns);
	at = wl_exact_at(p, t->group, cpu);
	if (t->place == WL_PLACE_NONE) {
		__builtin_memset(&reads, 0, sizeof(reads));
		wl_exact_wake(p, t, &at, cpu, now_ns, &reads);
	}
	clock = wl_get(wl_exact_clock_at(p, &at)->v);
	/* It runs although it is ahead: groups_exact_lag.h, `overdue`. */
	if (wl_wait_ends(p, t, cpu, now_ns) && (s64)(t->entity.vtime - clock) > 0)
		t->entity.vtime = clock;
	wl_exact_place_from(p, t, &at, WL_PLACE_QUEUED, now, now_ns);
	t->run_start_ns = now_ns;
	t->slice_used_ns = 0;
	t->entity.lag = t->entity.vtime - clock;
	wl_write_once(c->exact.curr_slot, t->group);
	wl_write_once(c->exact.spared, 1);
	wl_write_once(c->queue.curr_weight, t->weight);
	wl_write_once(c->queue.curr_vtime, t->entity.vtime);
	wl_write_once(c->queue.curr_start_ns, now_ns);
	c->exact.idle_pulls = 0;
	/* A task that went straight to the CPU was noted, and no choice has forgotten it. */
	if (!wl_read_once(c->nr_queued))
		wl_write_once(c->exact.has_first, 0);
	else if (!wl_get(c->exact.has_first))
		wl_exact_note_bound(c, t);
	if (t->group || wl_read_once(c->nr_queued))
		wl_exact_picked(p, t, &at, cpu, now_ns);
}

WL_INLINE void wl_exact_stopping(struct wl_policy *p, struct wl_task *t, u64 now_ns, u32 runnable)
{
	union wl_where now = {.place = WL_PLACE_NONE, .cpu = t->cpu};
	struct wl_exact_here at;
	struct wl_clock *clock;

	if (t->place != WL_PLACE_RUNNING)
		return;
	at = wl_exact_at(p, t->group, t->cpu);
	clock = wl_exact_clock_at(p, &at);
	if (!wl_exact_charge_task(p, t, clock, now_ns))
		now_ns = 0;
	if (runnable) {
		wl_exact_place(p, t, WL_PLACE_QUEUED, t->cpu, now_ns);
		return;
	}
	t->entity.lag = t->entity.vtime - wl_get(clock->v);
	wl_exact_place_from(p, t, &at, WL_PLACE_RUNNING, now, now_ns);
}

/* The running task of cpu gives it up: a pick decides, and that may be for the same task again. */
WL_INLINE void wl_exact_yield(struct wl_policy *p, u32 cpu)
{
	wl_write_once(wl_cpu_of(p, cpu)->exact.spared, 0);
}

WL_INLINE void wl_exact_leave(struct wl_policy *p, struct wl_task *t, u64 now_ns)
{
	wl_exact_charge(p, t, now_ns);
	if (t->place != WL_PLACE_NONE)
		wl_exact_sleep(p, t, t->cpu);
	wl_exact_place(p, t, WL_PLACE_NONE, t->cpu, 0);
}

/* The weight of t changed, or its group. */
WL_INLINE void wl_exact_weight(struct wl_policy *p, struct wl_task *t, u32 weight, u32 group,
			       u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, t->cpu);
	u32 was = t->group;

	wl_exact_charge(p, t, now_ns);
	if (group != was)
		t->flags |= WL_TASK_NEW;
	if (group != was && t->place != WL_PLACE_NONE) {
		union wl_where here = {.place = t->place, .cpu = t->cpu};
		union wl_where gone = {.place = WL_PLACE_NONE, .cpu = t->cpu};
		struct wl_reads reads = {};
		struct wl_exact_here at;

		wl_exact_sleep(p, t, t->cpu);
		wl_exact_recount(p, was, here.both, gone.both, now_ns);
		t->group = group;
		at = wl_exact_at(p, group, t->cpu);
		wl_exact_wake(p, t, &at, t->cpu, now_ns, &reads);
		wl_exact_recount(p, group, gone.both, here.both, now_ns);
		t->entity.lag = t->entity.vtime - wl_get(wl_exact_clock_at(p, &at)->v);
		t->group = was;
	}
	wl_reweigh(p, t, weight, group);
	if (t->place == WL_PLACE_RUNNING) {
		wl_write_once(c->queue.curr_weight, weight);
		wl_write_once(c->exact.curr_slot, group);
		wl_write_once(c->queue.curr_vtime, t->entity.vtime);
	}
}

/* ------------------------------------------------------------------ ticks */

/* Is a so far behind b that cpu, where b is, should pull it? */
WL_INLINE u32 wl_exact_is_worth_a_pull(struct wl_policy *p, struct wl_exact_pair *pair, u32 cpu)
{
	return wl_exact_is_ahead(p, pair, wl_llc_first(p, cpu),
				 WL_EXACT_PULL_TICKS * p->params.tick_ns);
}

/* Probes another CPU: should cpu's running task give way to a task that waits there? */
WL_FN int wl_exact_probe(struct wl_policy *p WL_ARG, u32 cpu, u32 other, u64 now_ns,
			 struct wl_reads *reads WL_ARG)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu), *o = wl_cpu_of(p, other);
	struct wl_exact_pair pair;

	if (other == cpu)
		return 0;
	wl_read_cpu(p, reads, other, wl_distance(p, cpu, other));
	if (!wl_read_once(o->nr_queued) || !wl_read_once(o->exact.has_first))
		return 0;
	pair.a = wl_exact_seen(&o->exact.first);
	pair.b = wl_exact_seen(&c->exact.best);
	wl_exact_sum(p, pair.a.slot, cpu, now_ns, reads);
	return wl_exact_is_worth_a_pull(p, &pair, cpu);
}

/* The CPU to probe next, in a level's domain around cpu. */
WL_INLINE u32 wl_exact_next(struct wl_policy *p, u32 cpu, u32 level, u32 at)
{
	struct wl_level *lv = wl_level_of(p, level);
	u32 dom = wl_entry(lv->dom_of, cpu), first = wl_entry(lv->first, dom);
	u32 span = wl_entry(lv->weight, dom);

	return wl_entry(lv->cpus, first + (span ? (cpu + at) % span : 0));
}

/* The CPU of the whole machine to look at next, in turn. */
WL_INLINE u32 wl_exact_next_far(struct wl_policy *p, u32 cpu)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 at = wl_get(c->exact.probe_far) + 1;

	c->exact.probe_far = at;
	return wl_exact_next(p, cpu, p->topo.nr_levels - 1, at);
}

/*
 * The CPU that cpu's tick probes i-th, which can be cpu itself; WL_CPU_NONE after the last. In an
 * LLC of few CPUs that is each other one. Else there are two counters, because a single one would
 * advance four steps at a time and reach only every fourth CPU. This is a function, because the
 * stack of the tick's probes has no room for what it needs.
 */
WL_FN int wl_exact_probed(struct wl_policy *p WL_ARG, u32 cpu, u32 i)
{
	struct wl_level *lv = wl_level_of(p, p->topo.llc_level);
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 dom = wl_entry(lv->dom_of, cpu), first = wl_entry(lv->first, dom);
	u32 others = wl_entry(lv->weight, dom) - 1, all = others <= WL_EXACT_PROBES, probe;
	u32 near = all ? others : WL_EXACT_PROBES;

	if (i > near || (i == near && all && lv->nr_doms == 1))
		return WL_CPU_NONE;
	if (i == near)
		return wl_exact_next_far(p, cpu);
	if (all) {
		probe = wl_wrap(wl_entry(lv->pos, cpu) - first + 1 + i, others + 1);
		return wl_entry(lv->cpus, first + probe);
	}
	probe = wl_get(c->exact.probe) + 1;
	c->exact.probe = probe;
	return wl_exact_next(p, cpu, p->topo.llc_level, probe);
}

/* Notes whether tasks wait in other LLCs than this one. */
WL_INLINE void wl_exact_others_wait(struct wl_policy *p, u32 llc, u32 wait)
{
	if (wl_read_once(wl_cpu_of(p, llc)->exact_llc.others_wait) == wait)
		return;
	wl_write_once(wl_cpu_of(p, llc)->exact_llc.others_wait, wait);
	wl_wrote_llc(p, llc);
}

/*
 * If no task waits in an LLC, its clock follows the foremost clock. The LLC also learns whether
 * tasks wait elsewhere.
 */
WL_FN int wl_exact_follow_clocks(struct wl_policy *p WL_ARG, u32 cpu, struct wl_reads *reads WL_ARG)
{
	struct wl_level *lv = wl_level_of(p, p->topo.llc_level);
	u32 llc = wl_llc_first(p, cpu), nr_llcs = lv->nr_doms, waiting = 0, i, other;
	u64 clock = wl_get(wl_cpu_of(p, llc)->exact_llc.clock.v), there;

	if (wl_read_once(wl_cpu_of(p, llc)->exact_llc.waiting)) {
		wl_exact_others_wait(p, llc, nr_llcs > 1);
		return 0;
	}
	wl_for (i, 0, nr_llcs) {
		other = wl_entry(lv->cpus, wl_entry(lv->first, i));
		if (other == llc)
			continue;
		wl_read_llc(p, reads, other, wl_distance(p, cpu, other));
		there = wl_read_once(wl_cpu_of(p, other)->exact_llc.clock.v);
		waiting += wl_read_once(wl_cpu_of(p, other)->exact_llc.waiting);
		if ((s64)(there - clock) > 0)
			clock = there;
	}
	/* A jump to another clock must not count as speed, so rate_v moves with v. */
	wl_cpu_of(p, llc)->exact_llc.clock.rate_v =
		wl_get(wl_cpu_of(p, llc)->exact_llc.clock.rate_v) + clock -
		wl_get(wl_cpu_of(p, llc)->exact_llc.clock.v);
	wl_write_once(wl_cpu_of(p, llc)->exact_llc.clock.v, clock);
	wl_exact_others_wait(p, llc, !!waiting);
	return 0;
}

WL_FN int wl_exact_tick(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 cpu, u64 now_ns,
			struct wl_reads *reads WL_ARG)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	struct wl_exact_pair pair;
	u32 i, found = 0, local = 0;
	int other;

	if (t->place != WL_PLACE_RUNNING || t->cpu != (s32)cpu)
		return 0;
	/* This comes first, because what a group is held to depends on its newest sums. */
	wl_exact_sum(p, t->group, cpu, now_ns, reads);
	wl_exact_charge(p, t, now_ns);
	t->slice_ns = wl_exact_slice_ns(p);
	wl_exact_follow_clocks(p, cpu, reads);
	c->exact.best = wl_exact_key_of(t);
	if (wl_read_once(c->nr_queued)) {
		pair.a = wl_exact_seen(&c->exact.first);
		pair.b = wl_exact_key_of(t);
		wl_exact_sum(p, pair.a.slot, cpu, now_ns, reads);
		/* If several wait, which of them is first changes while they wait. */
		local = !wl_get(c->exact.has_first) || wl_read_once(c->nr_queued) > 1 ||
			wl_exact_ahead(p, &pair, wl_llc_first(p, cpu)) > 0;
		if (local && wl_get(c->exact.has_first))
			c->exact.best = wl_exact_seen(&c->exact.first);
	}
	wl_for (i, 0, WL_EXACT_PROBES + 1) {
		other = wl_exact_probed(p, cpu, i);
		if (other < 0)
			break;
		if (wl_exact_probe(p, cpu, other, now_ns, reads)) {
			found = other + 1;
			break;
		}
	}
	/* If nothing was found, what another CPU asked this one to pull from stays asked. */
	if (found) {
		c->exact.pull_from = found;
		/* No task may go straight to this CPU before it has pulled. */
		wl_write_once(c->balance_marked, wl_all_levels(p));
	}
	if (found || t->slice_used_ns >= t->slice_ns)
		wl_write_once(c->exact.spared, 0);
	return found || (local && !wl_exact_still_spared(c));
}

/* ------------------------------------------------------------------ dispatch and pulls */

#define WL_EXACT_PULL_LAG 1 /* max_load of a pull for a lag: see wl_exact_move() */

/* A CPU that is about to go idle looks for a queue, from the last one that it found on. */
WL_FN int wl_exact_find_queue(struct wl_policy *p WL_ARG, u32 cpu, struct wl_reads *reads WL_ARG)
{
	u32 nr_cpus = p->topo.nr_cpus, i, other;
	int found = WL_CPU_NONE;

	wl_for (i, 0, nr_cpus) {
		other = wl_exact_next_far(p, cpu);
		if (other == cpu)
			continue;
		wl_read_cpu(p, reads, other, wl_distance(p, cpu, other));
		if (wl_read_once(wl_cpu_of(p, other)->nr_queued)) {
			found = other;
			break;
		}
	}
	return found;
}

/* Adds what the last walk over the queue of c has read, for sums of several LLCs. */
WL_INLINE void wl_exact_count_walk(struct wl_cpu *c, struct wl_reads *reads)
{
	u32 i;

	wl_for (i, 0, WL_NR_DIST) {
		u32 dist = i;

		wl_hide(dist);
		reads->at[dist & (WL_NR_DIST - 1)] +=
			wl_get(c->exact.walk_reads.at[dist & (WL_NR_DIST - 1)]);
		c->exact.walk_reads.at[dist & (WL_NR_DIST - 1)] = 0;
	}
}

WL_INLINE void wl_exact_dispatch(struct wl_policy *p, u32 cpu, u64 now_ns,
				 struct wl_dispatch_out *out)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 is_idle = !wl_read_once(c->nr_queued) && !wl_read_once(c->nr_running);
	int found = (int)(wl_get(c->exact.pull_from) - 1); /* or WL_CPU_NONE */

	out->cpu = cpu;
	out->what = WL_DISPATCH_OWN;
	out->pick = WL_PICK_LAST;
	out->keep_slice_ns = wl_exact_slice_ns(p);
	c->exact.pull_from = 0;
	wl_write_once(c->balance_marked, 0);
	if (is_idle) {
		out->what = WL_DISPATCH_NOTHING;
		if (found < 0) {
			wl_read_overloaded(p, cpu, &out->reads);
			if (wl_read_once(p->overloaded) &&
			    wl_get(c->exact.idle_pulls) < WL_EXACT_IDLE_PULLS)
				found = wl_exact_find_queue(p, cpu, &out->reads);
			c->exact.idle_pulls = wl_get(c->exact.idle_pulls) + 1;
		}
	}
	if (found >= 0) {
		wl_write_once(c->exact.spared, 0);
		out->what = WL_DISPATCH_PULL;
		out->why = is_idle ? WL_BALANCE_NEWLY_IDLE : WL_BALANCE_PERIODIC;
		out->cpu = found;
		out->max_tasks = 1;
		out->max_load = is_idle ? ~0ULL : WL_EXACT_PULL_LAG;
		return;
	}
	if (wl_level_of(p, p->topo.llc_level)->nr_doms > 1)
		wl_exact_count_walk(c, &out->reads);
	c->exact.has_first = 0;
	if (wl_wait_excess_ns(p, cpu, now_ns) > 0) {
		wl_write_once(c->exact.spared, 0);
		c->wait.walk = WL_WALK_ASKED;
	} else if (!wl_exact_still_spared(c) && wl_exact_is_mixed(c)) {
		c->wait.walk = WL_WALK_ASKED;
	} else if (!wl_read_once(c->nr_running)) {
		out->pick = WL_PICK_HEAD; /* the queue has the order of v */
	} else {
		out->pick = WL_PICK_LAST_OF_TWO;
	}
	c->exact.has_best = wl_read_once(c->nr_running) ? WL_EXACT_RUNS : 0;
	c->exact.best = wl_exact_curr(c);
}

WL_INLINE void wl_exact_move(struct wl_policy *p, struct wl_task *t, const struct wl_move_in *in,
			     struct wl_dispatch_out *d, struct wl_move_out *out)
{
	struct wl_cpu *c = wl_cpu_of(p, in->cpu);
	u32 from = d->cpu, may;
	struct wl_exact_pair pair;

	may = d->what == WL_DISPATCH_PULL && d->max_tasks &&
	      wl_read_once(t->place) == WL_PLACE_QUEUED && wl_read_once(t->cpu) == (s32)from &&
	      from != in->cpu && wl_allowed(p, t, in->cpu);
	if (may && d->max_load == WL_EXACT_PULL_LAG && !wl_is_overdue(p, t, in->now_ns)) {
		pair.a = wl_exact_key_of(t);
		pair.b = wl_exact_seen(&c->exact.best);
		may = wl_exact_is_worth_a_pull(p, &pair, in->cpu);
	}
	if (may && wl_place_moved(p, t, from, in->cpu)) {
		wl_wait_joins(p, t, in->cpu);
		wl_exact_pulled(p, t->group, from, in->cpu);
		d->max_tasks = 0;
		t->slice_ns = wl_exact_slice_ns(p);
		out->move = 1;
		out->slice_ns = t->slice_ns;
		out->key = t->entity.vtime;
	}
	out->stop = !d->max_tasks;
}

/* As wl_exact_walk(), of a task that is overdue: is it the one that has waited longest so far? */
WL_INLINE u32 wl_exact_has_waited_longest(struct wl_cpu *c, u64 since_ns)
{
	if (wl_get(c->exact.has_best) == WL_EXACT_STARVES &&
	    (s64)(wl_get(c->wait.found_ns) - since_ns) <= 0)
		return 0;
	c->wait.found_ns = since_ns;
	return 1;
}

/*
 * The host's walk over the queue of c is at a task of this key: is it the first so far? `starves`:
 * it is overdue, and has waited longest.
 */
WL_INLINE u32 wl_exact_walk(struct wl_policy *p, struct wl_cpu *c, struct wl_exact_key key,
			    u32 starves, u32 llc)
{
	u32 has_best = wl_get(c->exact.has_best);
	u32 stays = has_best == WL_EXACT_STARVES ||
		    (has_best == WL_EXACT_RUNS && wl_read_once(c->exact.spared));
	struct wl_exact_pair pair = {.a = key, .b = wl_exact_seen(&c->exact.best)};

	if (!starves && (stays || (has_best && wl_exact_ahead(p, &pair, llc) <= 0))) {
		wl_exact_note(p, c, key, llc);
		return 0;
	}
	if (has_best >= WL_EXACT_WAITS)
		wl_exact_note(p, c, wl_exact_seen(&c->exact.best), llc);
	c->exact.has_best = starves ? WL_EXACT_STARVES : WL_EXACT_WAITS;
	c->exact.best = key;
	return 1;
}

/*
 * The host asks this about all tasks that wait, or about the first two, in their order, and takes
 * the last one for which it is 1.
 */
WL_INLINE u32 wl_exact_may_run(struct wl_policy *p, const struct wl_task *t, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	wl_exact_sum(p, t->group, cpu, now_ns, &c->exact.walk_reads);
	wl_wait_look(p, cpu, now_ns);
	wl_wait_note(p, cpu, t->waits_since_ns);
	return wl_exact_walk(p, c, wl_exact_key_of(t),
			     wl_is_overdue(p, t, now_ns) &&
				     wl_exact_has_waited_longest(c, t->waits_since_ns),
			     wl_llc_first(p, cpu));
}

/*
 * As wl_exact_may_run(), from a key, which is the task's v, and a weight. While all that wait are
 * of one group, the sums tell which that is, and dispatch knows that none is overdue.
 */
WL_INLINE u32 wl_exact_may_run_told(struct wl_policy *p, u32 cpu, u64 key, u32 weight)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	struct wl_exact_key task = {.v = key, .slot = wl_exact_queued_slot(c), .weight = weight};

	/* Between LLCs the group's sums are read, too. */
	if (task.slot == WL_EXACT_MIXED || wl_get(c->wait.walk) == WL_WALK_ASKED ||
	    wl_level_of(p, p->topo.llc_level)->nr_doms > 1)
		return WL_RUN_ASK;
	return wl_exact_walk(p, c, task, 0, wl_llc_first(p, cpu)) ? WL_RUN_YES : WL_RUN_NO;
}

#endif /* WL_GROUPS_EXACT_H */
