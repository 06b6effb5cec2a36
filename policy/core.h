/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * core.h - what a host includes: the interface and every file that implements it.
 *
 * The entry points are here. An axis is an enumeration in params.h, a file for each of its values,
 * and a file that hands questions and events to the chosen value: idle.h, wake.h, groups.h, queue.h
 * and pull.h. No other code asks which value that is.
 */
#ifndef WL_CORE_H
#define WL_CORE_H

#include "policy.h"
#include "account.h"
#include "placement.h"
#include "pull.h"
#include "taken.h"
#include "wake.h"

/* ------------------------------------------------------------------ select */

/* Takes cpu at once if it is idle and good enough. Counts one read, at this distance. */
WL_INLINE u32 wl_take_at_once(struct wl_policy *p, const struct wl_task *t, u32 cpu, u32 dist,
			      struct wl_decision *out)
{
	wl_read_cpu(p, &out->reads, cpu, dist);
	return wl_fits_or_equal(p, t, cpu) && wl_take_idle(p, cpu, out);
}

/* cpu was idle, and is now claimed. */
WL_INLINE void wl_placed_on(struct wl_decision *out, u32 cpu, u32 reason)
{
	out->cpu = cpu;
	out->claimed = 1;
	out->reason = reason;
}

/*
 * Looks at cpu before the search. Takes it if it is idle and near enough; remembers it if it is
 * only idle. One read.
 */
WL_INLINE u32 wl_take_or_remember(struct wl_policy *p, const struct wl_search *s,
				  const struct wl_task *t, u32 cpu, s32 *second_best,
				  struct wl_decision *out)
{
	u32 dist = wl_reader_distance(p, &s->reader, cpu);

	if (!wl_packs(p) || wl_shares_cluster(p, cpu, s->target))
		return wl_take_at_once(p, t, cpu, dist, out);
	wl_read_cpu(p, &out->reads, cpu, dist);
	if (*second_best < 0 && wl_fits_or_equal(p, t, cpu) && wl_looks_idle(p, cpu))
		*second_best = cpu;
	return 0;
}

/* The state at the beginning of a search. */
WL_INLINE struct wl_search wl_search_for(const struct wl_select_in *in, u32 this_cpu, u32 prev,
					 u32 target)
{
	struct wl_search s = {.this_cpu = this_cpu,
			      .prev = prev,
			      .target = target,
			      .flags = in->flags,
			      .now_ns = in->now_ns};

	return s;
}

/* Looks at prev and the recent CPU, and then searches. wl_select() has already looked at target. */
WL_FN_REST int wl_place_woken(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			      struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	u32 recent = t->recent_cpu;
	s32 second_best = WL_CPU_NONE;
	int cpu;

	wl_reader_init(p, &s->reader, s->this_cpu, s->target);
	if (s->prev != s->target && wl_shares_llc(p, s->prev, s->target) &&
	    wl_idle_looks_at_prev(p) && wl_take_or_remember(p, s, t, s->prev, &second_best, out)) {
		wl_placed_on(out, s->prev, WL_REASON_PREV_IDLE);
		wl_idle_stayed(p, t);
		return 0;
	}
	if (wl_idle_looks_at_recent(p) && recent < p->topo.nr_cpus && recent != s->target &&
	    recent != s->prev && wl_allowed(p, t, recent) && wl_shares_llc(p, recent, s->target) &&
	    wl_take_or_remember(p, s, t, recent, &second_best, out)) {
		wl_placed_on(out, recent, WL_REASON_RECENT_IDLE);
		return 0;
	}
	out->searched = 1;
	wl_line_step(p, WL_STEP_REST);
	cpu = wl_idle_search(p, s, t, out);
	if (cpu < 0 && second_best >= 0 && wl_take_idle(p, second_best, out)) {
		cpu = second_best;
		out->reason = cpu == (int)s->prev ? WL_REASON_PREV_IDLE : WL_REASON_RECENT_IDLE;
	}
	if (cpu < 0) {
		out->cpu = s->target;
		out->claimed = 0;
		out->reason = WL_REASON_NONE_IDLE;
		return 0;
	}
	out->cpu = cpu;
	out->claimed = 1;
	wl_idle_moved(p, t);
	return 0;
}

WL_FN_ONCE int wl_select(struct wl_policy *p WL_ARG, const struct wl_select_in *in WL_ARG,
			 struct wl_task *wakee WL_ARG, struct wl_task *waker,
			 struct wl_decision *out WL_ARG)
{
	u32 nr_cpus = p->topo.nr_cpus, this_cpu = in->this_cpu, prev = in->prev_cpu, target;
	struct wl_search s;

	/* The other fields are set on every path. */
	out->lost_claims = 0;
	out->scan_timed = 0;
	out->searched = 0;
	if (wl_counts_reads(p)) {
		__builtin_memset(&out->reads, 0, sizeof(out->reads));
		__builtin_memset(&out->step_reads, 0, sizeof(out->step_reads));
	}
	wl_util_task(p, wakee, in->now_ns);
	if (this_cpu >= nr_cpus)
		this_cpu = 0;
	if (prev >= nr_cpus)
		prev = this_cpu;
	if (wakee->nr_allowed < nr_cpus && !wl_allowed(p, wakee, prev))
		prev = wl_nearest_allowed(p, wakee, prev);

	target = prev;
	out->target = prev;
	if (wakee->nr_allowed == 1) {
		out->affine_reason = WL_AFFINE_NOT_ASKED;
		if (!(in->flags & WL_WAKE_NEW))
			wl_affine_pinned(p, waker, wakee, in->now_ns);
		out->cpu = prev;
		out->reason = WL_REASON_ONLY_ALLOWED;
		wl_read_cpu(p, &out->reads, prev, wl_distance(p, this_cpu, prev));
		out->claimed = wl_take_idle(p, prev, out);
		return 0;
	}
	if (in->flags & WL_WAKE_NEW) {
		out->affine_reason = WL_AFFINE_NOT_ASKED;
		s = wl_search_for(in, this_cpu, prev, prev);
		return wl_stays_with_parent(p, prev, in->flags) ? wl_place_beside(p, &s, out)
								: wl_place_new(p, &s, wakee, out);
	}
	s = wl_search_for(in, this_cpu, prev, prev);
	target = wl_affine_target(p, &s, wakee, waker, out);
	out->target = target;
	wl_line_step(p, WL_STEP_FRONT);
	if (wl_take_at_once(p, wakee, target, wl_distance(p, this_cpu, target), out)) {
		wl_placed_on(out, target, WL_REASON_TARGET_IDLE);
		wl_idle_stayed(p, wakee);
		return 0;
	}
	s.target = target;
	return wl_place_woken(p, &s, wakee, out);
}

WL_FN int wl_scan_took(struct wl_policy *p WL_ARG, u32 cpu, const struct wl_decision *d WL_ARG,
		       u64 elapsed_ns)
{
	wl_scan_average(p, cpu, d, elapsed_ns);
	return 0;
}

/* ------------------------------------------------------------------ queues */

WL_FN int wl_enqueue(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG,
		     const struct wl_enqueue_in *in WL_ARG, struct wl_enqueue_out *out WL_ARG)
{
	u32 to = in->cpu;

	__builtin_memset(out, 0, sizeof(*out));
	wl_util_task(p, t, in->now_ns);
	if (in->why == WL_ENQ_FORK)
		wl_account_new(p, t, to, in->now_ns);
	if (in->why == WL_ENQ_SLICE_END)
		to = wl_push_queue(p, t, to);
	wl_queue_enqueue(p, t, to, in, out);
	wl_loads_follow(p, t, in->now_ns);
	return 0;
}

WL_FN int wl_dispatch(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns,
		      struct wl_dispatch_out *out WL_ARG)
{
	__builtin_memset(out, 0, sizeof(*out));
	out->push_cpu = WL_CPU_NONE;
	wl_pull_dispatch(p, cpu, now_ns, out);
	return 0;
}

WL_FN int wl_may_move(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG,
		      const struct wl_move_in *in WL_ARG, struct wl_dispatch_out *d WL_ARG,
		      struct wl_move_out *out WL_ARG)
{
	__builtin_memset(out, 0, sizeof(*out));
	wl_pull_move(p, t, in, d, out);
	if (out->move)
		wl_loads_follow(p, t, in->now_ns);
	return 0;
}

WL_FN int wl_may_run(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 cpu, u64 now_ns,
		     struct wl_run_out *out WL_ARG)
{
	out->unused = 0;
	out->run = wl_queue_may_run(p, t, cpu, now_ns);
	return 0;
}

/*
 * As wl_may_run(), from what a host's queue has of a task: its key, the slice that came with it,
 * and the task's weight. It saves the host the task's record. WL_RUN_ASK: only wl_may_run() knows.
 */
WL_INLINE u32 wl_may_run_told(struct wl_policy *p, u32 cpu, u64 key, u64 slice_ns, u32 weight,
			      u64 now_ns)
{
	switch (wl_order(p)) {
	case WL_ORDER_EXACT:
		return wl_exact_may_run_told(p, cpu, key, weight);
	case WL_ORDER_FAIR:
		return wl_fair_may_run_told(p, cpu, key, slice_ns, weight, now_ns);
	default:
		return WL_RUN_ASK;
	}
}

/*
 * A task arrived on cpu and preempts there: before the host asks wl_may_run_told() about it and
 * those that wait before it, which of them the CPU would choose.
 */
WL_INLINE void wl_chooses(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	if (wl_order(p) == WL_ORDER_FAIR)
		wl_fair_chooses(p, cpu, now_ns);
}

WL_FN int wl_overdue(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 cpu, u64 now_ns,
		     struct wl_run_out *out WL_ARG)
{
	out->unused = 0;
	out->run = wl_wait_walk(p, t, cpu, now_ns);
	return 0;
}

WL_FN int wl_tick(struct wl_policy *p WL_ARG, u32 cpu, struct wl_task *t, u64 now_ns,
		  struct wl_tick_out *out WL_ARG)
{
	__builtin_memset(out, 0, sizeof(*out));
	out->kick_cpu = WL_CPU_NONE;
	if (t) {
		wl_not_taken(p, cpu);
		wl_util_task(p, t, now_ns);
		wl_groups_tick(p, t->group, cpu);
		out->resched = wl_queue_tick(p, t, cpu, now_ns, &out->reads);
	}
	wl_idle_tick(p, cpu, now_ns, &out->reads);
	wl_pull_tick(p, cpu, t, now_ns, out);
	return 0;
}

WL_FN int wl_timer(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns, struct wl_timer_out *out WL_ARG)
{
	__builtin_memset(out, 0, sizeof(*out));
	out->kick_cpu = WL_CPU_NONE;
	wl_groups_timer(p, cpu, now_ns, out);
	return 0;
}

WL_FN int wl_taken(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns, struct wl_timer_out *out WL_ARG)
{
	__builtin_memset(out, 0, sizeof(*out));
	out->kick_cpu = WL_CPU_NONE;
	wl_account_taken(p, cpu, now_ns, out);
	return 0;
}

/* ------------------------------------------------------------------ state */

WL_FN int wl_init(struct wl_policy *p WL_ARG)
{
	u32 nr_cpus = p->topo.nr_cpus, i;

	wl_for (i, 0, nr_cpus) {
		struct wl_cpu *c = wl_cpu_of(p, i);

		c->avg_idle_ns = 2 * p->params.migration_cost_ns;
		c->scan_room_ns = c->avg_idle_ns;
		c->newly_idle_left = wl_all_levels(p);
		wl_queue_init(p, i);
		wl_groups_init(p, i);
		wl_idle_init(p, i);
	}
	return 0;
}

WL_FN int wl_busy(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns)
{
	wl_account_busy(p, cpu, now_ns);
	return 0;
}

WL_FN int wl_idle(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns)
{
	wl_account_idle(p, cpu, now_ns);
	return 0;
}

WL_FN_ONCE int wl_running(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 cpu, u64 now_ns)
{
	wl_util_task(p, t, now_ns);
	wl_push_running(p, t, cpu);
	wl_idle_running(p, t, cpu, now_ns);
	wl_queue_running(p, t, cpu, now_ns);
	wl_loads_follow(p, t, now_ns);
	return 0;
}

/* The task's record says where it runs; a host that missed an event may believe otherwise. */
WL_FN_ONCE int wl_stopping(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 cpu,
			   u64 now_ns, u32 runnable)
{
	(void)cpu;
	wl_util_task(p, t, now_ns);
	if (!runnable)
		t->util_slept = t->util;
	wl_queue_stopping(p, t, now_ns, runnable);
	wl_loads_follow(p, t, now_ns);
	return 0;
}

WL_FN int wl_sleep(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u64 now_ns,
		   struct wl_sleep_out *out WL_ARG)
{
	__builtin_memset(out, 0, sizeof(*out));
	wl_util_task(p, t, now_ns);
	t->util_slept = t->util;
	wl_queue_sleep(p, t, now_ns, out);
	wl_loads_follow(p, t, now_ns);
	return 0;
}

WL_FN int wl_yield(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 cpu, u64 now_ns)
{
	wl_queue_yield(p, t, cpu, now_ns);
	return 0;
}

WL_FN int wl_quiescent(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u64 now_ns)
{
	wl_util_task(p, t, now_ns);
	wl_queue_leave(p, t, now_ns);
	wl_loads_follow(p, t, now_ns);
	return 0;
}

WL_FN int wl_task_init(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u64 id, u32 weight,
		       u32 flags)
{
	__builtin_memset(t, 0, sizeof(*t));
	t->id = id;
	t->weight = weight ? weight : 1;
	t->entity.hweight = t->weight << WL_HWEIGHT_SHIFT;
	t->flags = flags;
	t->cpu = WL_CPU_NONE;
	t->recent_cpu = WL_CPU_NONE;
	t->nr_allowed = p->topo.nr_cpus;
	/* Nothing is known about the task: half of the machine's fastest CPU, as in Linux. */
	t->util = 512u << WL_UTIL_SHIFT;
	return 0;
}

WL_FN int wl_task_weight(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 weight,
			 u64 now_ns)
{
	wl_queue_weight(p, t, weight ? weight : 1, t->group, now_ns);
	wl_loads_follow(p, t, now_ns);
	return 0;
}

WL_FN int wl_task_slice(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 slice_ns)
{
	if (wl_trait_own_slices(&p->params))
		wl_fair_own_slice(p, t, slice_ns);
	return 0;
}

WL_FN int wl_task_group(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 slot, u64 now_ns)
{
	struct wl_group *g = wl_group_at(p, slot);
	u32 group = slot && g ? wl_get(g->counts_as) : 0;

	if (group == t->group)
		return 0;
	wl_queue_weight(p, t, t->weight, group, now_ns);
	wl_loads_follow(p, t, now_ns);
	return 0;
}

/*
 * Bits beyond the machine's CPUs do not count. A mask without any valid bit means all CPUs, Linux's
 * fallback.
 */
WL_FN int wl_task_affinity(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG)
{
	u32 nr_cpus = p->topo.nr_cpus, nr = 0, words = (nr_cpus + 63) / 64, i, index;
	u64 word;

	wl_for (i, 0, words) {
		index = i;
		wl_hide(index);
		word = t->allowed[index & (WL_MASK_WORDS - 1)];
		if (nr_cpus - i * 64 < 64)
			word &= (1ULL << ((nr_cpus - i * 64) & 63)) - 1;
		nr += wl_popcount(word);
	}
	t->nr_allowed = nr ? nr : nr_cpus;
	return 0;
}

WL_FN int wl_task_exit(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u64 now_ns)
{
	wl_account_exit(p, t, now_ns);
	wl_queue_leave(p, t, now_ns);
	wl_loads_exit(p, t, now_ns);
	return 0;
}

#endif /* WL_CORE_H */
