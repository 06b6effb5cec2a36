/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * balance.h - pulling queued tasks towards a CPU, level by level, from the innermost outwards.
 *
 * A CPU pulls when it is about to go idle (newly idle), and when a level of it is due or it was
 * kicked while idle (periodic). The axis `balance` says when a level is due, which group of the
 * domain is the busiest, and how much of it should move: balance_load.h, balance_4_15.h,
 * balance_5_12.h; balance_stats.h has what they compare.
 *
 * Tasks are taken from the busiest group's CPU with most load. A newly idle CPU pulls one task at
 * most (4.15: as a periodic pull), a periodic pull takes up to 32. A task may move if it is
 * allowed, if half of its weight fits what is left of that amount (5.12: all of it, until a try has
 * failed; the axis `groups` adds rules), and if it is not cache-hot: it has not run within
 * migration_cost, or periodic pulls have failed more often than the level's patience allows (0 for
 * SMT, 1 inside a node, 2 beyond), or balance_load.h has a reason to take it. Each level is tried
 * once for each time that a task ran here (newly idle), or once per mark (periodic), so pulls
 * always come to an end. Newly-idle balancing needs an avg_idle of at least migration_cost (not
 * with balance=6.12, and not inside the LLC with balance=load), and of what it costs
 * (newly_idle.h); and `overloaded`: some CPU had two tasks. `overloaded` is cleared when all CPUs
 * were read and none had two; reading it counts as a read of the first CPU. If no task that waits
 * on the busiest CPU may run here, the level is tried once more without that CPU (Linux,
 * LBF_ALL_PINNED, leaves out one CPU after the other).
 *
 * With balance=4.15 and later and push=on, a periodic try that finds nothing queued in the busiest
 * group, but a task that runs alone, is a failed one. After more than patience + 2 of them in a row
 * that task moves (push.h). A try that finds nothing to do ends the row, a newly idle one too, and
 * so does finding that another CPU balances the group, or a push that succeeds.
 *
 * If a periodic pull leaves something of that amount, and a task that waits may not run here, but
 * may on a CPU that comes later in this CPU's group, that CPU is marked instead, and does the same
 * at its next tick (Linux: LBF_DST_PINNED, new_dst_cpu). So a level is balanced even if no task may
 * run on the first CPU of a group, as with CPUs that are reserved. Example: 2 LLCs of 4 CPUs, and
 * 12 tasks that may run on 1 to 7 wait on 4 to 7. CPU 0 is due and may take none of them. It marks
 * CPU 1, which pulls 6 tasks; CPUs 2 and 3 pull from CPU 1 when they are due. It fails where a task
 * of a higher class keeps the first CPU, because no tick comes there and nothing is due.
 *
 * Cost: each CPU of the widest level tried is read once. It fails where the task that should move
 * is running and push is off, because only queued tasks move.
 */
#ifndef WL_BALANCE_H
#define WL_BALANCE_H

#include "balance_4_15.h"
#include "balance_5_12.h"
#include "balance_times.h"
#include "newly_idle.h"
#include "queue.h"

/* balance=load, per CPU of the domain: 1 ms * busy_factor (Linux 4.15, sd_init). */
#define WL_BALANCE_INTERVAL_NS (32 * 1000000ULL)
#define WL_KICK_PROBES	       4
#define WL_PUSH_PATIENCE       2 /* of a running task, beyond that of a queued one */

WL_INLINE u32 wl_balance_patience(u32 kind)
{
	return kind < WL_DIST_CLS ? 0 : kind <= WL_DIST_NODE ? 1 : 2;
}

/* Prepares s for summing up a level. */
WL_INLINE void wl_find_begins(struct wl_policy *p, struct wl_level_stats *s, u32 level)
{
	struct wl_level *lv = wl_level_of(p, level);
	u32 inner = wl_level_of(p, level - 1)->kind;

	s->level = level;
	s->percent = lv->imbalance_pct;
	/* Since 5.10 nodes need no larger difference. */
	if (wl_axis(p, balance) >= WL_BALANCING_5_12 && s->percent > 117)
		s->percent = 117;
	s->by_tasks = wl_axis(p, balance) == WL_BALANCING_LOAD && s->looks != WL_LOOKS_BUSY &&
		      wl_is_cluster_split(p, level);
	/* In 4.15 the LLCs of a node do not spread. */
	s->prefers = level > 1 && inner <= WL_DIST_NODE &&
		     (wl_axis(p, balance) >= WL_BALANCING_5_12 || inner < WL_DIST_LLC ||
		      lv->kind > WL_DIST_NODE);
}

/* What s->to should pull at the level that cpu has summed up. */
WL_INLINE void wl_find_compares(struct wl_policy *p, u32 cpu)
{
	switch (wl_axis(p, balance)) {
	case WL_BALANCING_4_15:
		wl_compare_4_15(p, cpu);
		return;
	case WL_BALANCING_5_12:
	case WL_BALANCING_6_12:
		wl_compare_5_12(p, cpu);
		return;
	default:
		wl_compare_loads(p, cpu);
	}
}

/*
 * On cpu, tries the levels of a bit mask from the innermost outwards for the CPU s->to of cpu's
 * wl_level_stats, and takes nothing from the CPU that these avoid. Returns the level at which
 * something should be pulled, and says what in out; or returns 0. Then s->push_level says where a
 * running task should move.
 */
WL_FN int wl_find_pull(struct wl_policy *p WL_ARG, u32 cpu, u32 levels,
		       struct wl_dispatch_out *out WL_ARG)
{
	struct wl_level_stats *s = wl_level_stats_of(p, cpu);
	u32 i, pushes;

	wl_not_taken(p, s->to);
	wl_read_cpu(p, &out->reads, s->to, wl_distance(p, cpu, s->to));
	wl_stats_clear(&s->own);
	s->overloaded = wl_stats_add(p, &s->own, s->to, 0);
	s->push_level = 0;
	s->found = 0;
	s->looks = s->own.nr			       ? WL_LOOKS_BUSY
		   : out->why == WL_BALANCE_NEWLY_IDLE ? WL_LOOKS_NEWLY
						       : WL_LOOKS_IDLE;
	wl_for (i, 1, p->topo.nr_levels) {
		if (!(levels >> i))
			break;
		wl_find_begins(p, s, i);
		wl_sum_groups(p, cpu, i, &out->reads);
		s->max_load = 0;
		if (levels >> i & 1)
			wl_find_compares(p, cpu);
		if (s->max_load && s->busiest.cpu >= 0) {
			s->found = i;
			out->what = WL_DISPATCH_PULL;
			out->cpu = s->busiest.cpu;
			out->level = i;
			out->max_load = s->max_load;
			out->max_tasks = s->busiest.cpu_queued < s->max_tasks
						 ? s->busiest.cpu_queued
						 : s->max_tasks;
			out->max_tasks = out->max_tasks < WL_MOVE_TASKS_MAX ? out->max_tasks
									    : WL_MOVE_TASKS_MAX;
			break;
		}
		pushes = s->max_load && s->may_push && s->busiest.lone_cpu >= 0 &&
			 s->busiest.lone_load <= s->max_load;
		if (pushes && !s->push_level) {
			s->push_level = i;
			s->push_cpu = s->busiest.lone_cpu;
		}
		if (!pushes && levels >> i & 1 && wl_axis(p, balance) != WL_BALANCING_LOAD)
			wl_tries_end(p, s->to, i);
		wl_stats_widen(s);
	}
	/* A CPU may get its second task just now; then a mark or a kick will find it. */
	if (!s->found && !s->overloaded && s->own.weight == p->topo.nr_cpus) {
		wl_write_once(p->overloaded, 0);
		wl_line_written(p, WL_LINE_OVERLOADED);
	}
	return s->found;
}

/*
 * A periodic try has found nothing that waits, but a running task that should move to the CPU
 * s->to. After enough such tries, the answer asks for it.
 */
WL_INLINE void wl_find_pushes(struct wl_policy *p, struct wl_level_stats *s,
			      struct wl_dispatch_out *out)
{
	u32 level = s->push_level, patience, failed;
	struct wl_cpu *c = wl_cpu_of(p, s->to);

	if (!level || wl_axis(p, push) == WL_PUSH_OFF)
		return;
	patience = wl_balance_patience(wl_level_of(p, level)->kind);
	wl_hide(level);
	level &= WL_MAX_LEVELS - 1;
	failed = wl_get(c->balance_failed[level]) + 1;
	if (failed > patience + WL_PUSH_PATIENCE) {
		out->push_cpu = s->push_cpu;
		wl_write_once(wl_cpu_of(p, s->push_cpu)->push.to, s->to + 1);
		wl_wrote_cpu(p, s->push_cpu);
		failed = patience + 1;
		if (wl_axis(p, balance) == WL_BALANCING_4_15)
			wl_times_doubles(p, s->to, level);
	}
	c->balance_failed[level] = failed;
}

/*
 * cpu, which is idle, looks for all idle CPUs, and for itself first. Returns the level at which it
 * should pull itself, or 0.
 */
WL_FN int wl_find_for_all(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns,
			  struct wl_dispatch_out *out WL_ARG)
{
	struct wl_level_stats *s = wl_level_stats_of(p, cpu);
	u32 i, other, levels, level = 0;
	u64 due_ns;

	s->next_ns = now_ns + WL_TIMES_MOST_NS;
	wl_for (i, 0, p->topo.nr_cpus) {
		other = wl_wrap(cpu + i, p->topo.nr_cpus);
		if (!wl_looks_idle(p, other))
			continue;
		if (now_ns >= wl_read_once(wl_cpu_of(p, other)->times.next_ns)) {
			levels = wl_times_due(p, other, now_ns, 0);
			s->to = other;
			s->push_level = 0;
			level = levels ? wl_find_pull(p, cpu, levels, out) : 0;
			wl_times_looked(p, other, levels, level ? level : s->push_level);
			if (level && other != cpu) {
				wl_mark_levels(p, other, 1u << (level & 31));
				wl_write_once(p->times.wanted, other + 1);
			} else if (!level && levels) {
				wl_find_pushes(p, s, out);
			}
			if (level || out->push_cpu >= 0) {
				s->next_ns = now_ns;
				if (other != cpu)
					level = 0;
				break;
			}
		}
		due_ns = wl_read_once(wl_cpu_of(p, other)->times.next_ns);
		if (due_ns < s->next_ns)
			s->next_ns = due_ns;
	}
	wl_write_once(p->times.next_ns, s->next_ns);
	wl_line_written(p, WL_LINE_TIMES);
	s->to = cpu;
	return level;
}

/* ------------------------------------------------------------------ events */

/*
 * A pull is about to begin. If no task that waits there may run here, the level is tried once more
 * without that CPU.
 */
WL_INLINE void wl_balance_tries(struct wl_cpu *c, const struct wl_dispatch_out *out, u32 avoid)
{
	c->tried.cpu = avoid ? 0 : out->cpu + 1;
	c->tried.level = out->level;
	c->tried.why = out->why;
	c->tried.to = 0;
}

/*
 * The first CPU after cpu, in cpu's group below this level, on which t may run; or WL_CPU_NONE.
 * There is an order, so that a mark is not handed back.
 */
WL_FN int wl_balance_stand_in(struct wl_policy *p WL_ARG, const struct wl_task *t WL_ARG, u32 cpu,
			      u32 level)
{
	struct wl_level *groups = wl_level_of(p, level - 1);
	u32 dom = wl_entry(groups->dom_of, cpu), i, other;
	u32 end = wl_entry(groups->first, dom) + wl_entry(groups->weight, dom);
	int found = WL_CPU_NONE;

	wl_for (i, wl_entry(groups->pos, cpu) + 1, end) {
		other = wl_entry(groups->cpus, i);
		if (wl_allowed(p, t, other)) {
			found = other;
			break;
		}
	}
	return found;
}

/* The last pull of cpu left a task that may not run there: marks the CPU that should try. */
WL_INLINE void wl_balance_hand_over(struct wl_policy *p, u32 cpu, struct wl_dispatch_out *out)
{
	struct wl_tried *tried = &wl_cpu_of(p, cpu)->tried;
	u32 to = wl_get(tried->to);

	if (!to)
		return;
	tried->to = 0;
	wl_read_cpu(p, &out->reads, to - 1, wl_distance(p, cpu, to - 1));
	wl_mark_levels(p, to - 1, 1u << (wl_get(tried->level) & 31));
}

/* Looks for what cpu should pull because of its marks. Returns the level, or 0. */
WL_INLINE u32 wl_balance_marked(struct wl_policy *p, u32 cpu, u32 marks, u64 now_ns,
				struct wl_dispatch_out *out)
{
	u32 levels = marks & ~WL_MARK_FOR_ALL, level;
	struct wl_level_stats *s;

	if (!levels && wl_looks_idle(p, cpu))
		return wl_find_for_all(p, cpu, now_ns, out);
	level = wl_find_pull(p, cpu, levels, out);
	if (wl_axis(p, balance) == WL_BALANCING_LOAD)
		return level;
	s = wl_level_stats_of(p, cpu);
	wl_times_looked(p, cpu, levels, level ? level : s->push_level);
	if (!level)
		wl_find_pushes(p, s, out);
	return level;
}

/* The levels inside an LLC, as a bit mask. */
WL_INLINE u32 wl_llc_levels(const struct wl_policy *p)
{
	return (2u << (p->topo.llc_level & 31)) - 1;
}

/* The levels that cpu should try before it goes idle. */
WL_INLINE u32 wl_balance_before_idle(struct wl_policy *p, u32 cpu, u32 levels, u64 now_ns,
				     struct wl_dispatch_out *out)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	if (wl_axis(p, balance) != WL_BALANCING_6_12 &&
	    wl_get(c->avg_idle_ns) < p->params.migration_cost_ns)
		levels = wl_axis(p, balance) == WL_BALANCING_LOAD ? levels & wl_llc_levels(p) : 0;
	if (!levels)
		return 0;
	wl_read_overloaded(p, cpu, &out->reads);
	return wl_read_once(p->overloaded) ? wl_newly_idle_levels(p, cpu, levels, now_ns) : 0;
}

WL_INLINE void wl_balance_dispatch(struct wl_policy *p, u32 cpu, u64 now_ns,
				   struct wl_dispatch_out *out)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 marks = wl_read_once(c->balance_marked), left, level, done;
	u32 avoid = wl_get(c->tried.cpu), again = avoid ? 1u << (wl_get(c->tried.level) & 31) : 0;
	u32 is_newly_idle = wl_get(c->tried.why) == WL_BALANCE_NEWLY_IDLE;

	wl_newly_idle_ends(p, cpu, now_ns);
	wl_balance_hand_over(p, cpu, out);
	out->cpu = cpu;
	c->tried.cpu = 0;
	wl_level_stats_of(p, cpu)->avoid = avoid;
	wl_level_stats_of(p, cpu)->to = cpu;
	if (!is_newly_idle)
		marks |= again;
	if (marks) {
		out->why = WL_BALANCE_PERIODIC;
		level = wl_balance_marked(p, cpu, marks, now_ns, out);
		/* What was tried is done: the marks up to the level of the pull, or all marks. */
		done = level ? marks & ~(~0u << 1 << level) : marks;
		wl_write_once(c->balance_marked, marks & ~done);
		wl_wrote_cpu(p, cpu);
		c->newly_idle_left = wl_get(c->newly_idle_left) & ~done;
		if (level) {
			wl_hide(level);
			c->balance_failed[level & (WL_MAX_LEVELS - 1)] =
				wl_get(c->balance_failed[level & (WL_MAX_LEVELS - 1)]) + !avoid;
			wl_balance_tries(c, out, avoid);
			return;
		}
	}
	out->what = WL_DISPATCH_OWN;
	if (wl_read_once(c->nr_queued) || wl_read_once(c->nr_running))
		return;
	out->what = WL_DISPATCH_NOTHING;
	/* A CPU that was woken to balance for others has been idle already. */
	if (marks & WL_MARK_FOR_ALL)
		return;
	left = wl_balance_before_idle(
		p, cpu, wl_get(c->newly_idle_left) | (is_newly_idle ? again : 0), now_ns, out);
	if (!left)
		return;
	out->why = WL_BALANCE_NEWLY_IDLE;
	wl_newly_idle_begins(p, cpu, left, now_ns);
	level = wl_find_pull(p, cpu, left, out);
	c->newly_idle_left = level ? left & ~0u << 1 << level : 0;
	if (!level)
		return;
	if (wl_axis(p, balance) != WL_BALANCING_4_15)
		out->max_tasks = 1;
	wl_balance_tries(c, out, avoid);
}

/*
 * balance=load: may an idle cpu take t at this level as a search would have placed it there? Yes
 * inside the LLC, if t has slept since it last ran: had it woken a moment later, the search would
 * not have asked what is left in t's caches.
 */
WL_INLINE u32 wl_balance_as_placed(struct wl_policy *p, const struct wl_task *t, u32 cpu, u32 level)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	if (wl_axis(p, balance) != WL_BALANCING_LOAD || level > p->topo.llc_level)
		return 0;
	return !wl_read_once(c->nr_queued) && !wl_read_once(c->nr_running) &&
	       (s64)(wl_read_once(t->waits_since_ns) - wl_read_once(t->run_start_ns)) > 0;
}

/* May t leave its queue for cpu as part of the pull d? */
WL_INLINE u32 wl_balance_may_move(struct wl_policy *p, const struct wl_task *t,
				  const struct wl_move_in *in, const struct wl_dispatch_out *d)
{
	struct wl_cpu *c = wl_cpu_of(p, in->cpu);
	u32 level = d->level, failed;
	u64 start_ns;
	s32 cpu;

	/* Another CPU may be taking it just now. */
	cpu = wl_read_once(t->cpu);
	if (d->what != WL_DISPATCH_PULL || wl_read_once(t->place) != WL_PLACE_QUEUED ||
	    cpu != d->cpu || cpu == (s32)in->cpu)
		return 0;
	if (!d->max_tasks || !wl_allowed(p, t, in->cpu) || !wl_groups_may_move(p, t, in->cpu, d))
		return 0;
	wl_hide(level);
	failed = wl_get(c->balance_failed[level & (WL_MAX_LEVELS - 1)]);
	if (wl_axis(p, balance) >= WL_BALANCING_5_12 && !failed &&
	    wl_groups_load_of(p, t, d->cpu) > d->max_load)
		return 0;
	if (wl_balance_as_placed(p, t, in->cpu, level))
		return 1;
	start_ns = wl_read_once(t->run_start_ns);
	return failed > wl_balance_patience(wl_level_of(p, level)->kind) ||
	       !wl_read_once(t->sum_exec_ns) ||
	       in->now_ns >= start_ns + p->params.migration_cost_ns;
}

WL_INLINE void wl_balance_move(struct wl_policy *p, struct wl_task *t, const struct wl_move_in *in,
			       struct wl_dispatch_out *d, struct wl_move_out *out)
{
	struct wl_cpu *c = wl_cpu_of(p, in->cpu);
	u32 level = d->level, moved = 0;
	u64 load = 0;

	if (wl_allowed(p, t, in->cpu))
		c->tried.cpu = 0;
	else if (d->why == WL_BALANCE_PERIODIC && !wl_get(c->tried.to))
		c->tried.to = wl_balance_stand_in(p, t, in->cpu, level) + 1;
	if (wl_balance_may_move(p, t, in, d)) {
		load = wl_groups_load_of(p, t, d->cpu);
		wl_groups_moves(p, t, d->cpu, in->cpu);
		moved = wl_queue_pulled(p, t, d->cpu, in, out);
	}
	if (moved) {
		d->max_load -= load < d->max_load ? load : d->max_load;
		d->max_tasks--;
		wl_tries_end(p, in->cpu, level);
		if (d->why == WL_BALANCE_PERIODIC)
			wl_times_moved(p, in->cpu, d->level);
		out->move = 1;
		out->slice_ns = t->slice_ns;
	}
	out->stop = !d->max_tasks || !d->max_load;
	if (out->stop)
		c->tried.to = 0;
}

/*
 * balance=load: marks the levels whose interval has passed. The first tick only starts the
 * intervals.
 */
WL_INLINE void wl_balance_mark_load(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 i, span, index;
	u64 interval_ns, next_ns;

	wl_for_levels (p, i, 1) {
		struct wl_level *lv = wl_level_of(p, i), *groups = wl_level_of(p, i - 1);

		if (wl_entry(groups->pos, cpu) !=
		    wl_entry(groups->first, wl_entry(groups->dom_of, cpu)))
			continue;
		span = wl_entry(lv->weight, wl_entry(lv->dom_of, cpu));
		interval_ns = span * WL_BALANCE_INTERVAL_NS;
		index = i;
		wl_hide(index);
		next_ns = wl_get(c->next_balance_ns[index & (WL_MAX_LEVELS - 1)]);
		if (next_ns && now_ns < next_ns)
			continue;
		if (next_ns)
			wl_mark_levels(p, cpu, 1u << (i & 31));
		c->next_balance_ns[index & (WL_MAX_LEVELS - 1)] = now_ns + interval_ns;
	}
}

/* A tick on cpu: marks the levels that are due. */
WL_INLINE void wl_balance_mark(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	u32 due;

	if (wl_axis(p, balance) == WL_BALANCING_LOAD) {
		wl_balance_mark_load(p, cpu, now_ns);
		return;
	}
	due = wl_times_due(p, cpu, now_ns, 1);
	if (due)
		wl_mark_levels(p, cpu, due);
}

/* Asks cpu to pull from `from`: at its next dispatch it balances at every level. */
WL_INLINE void wl_ask_to_pull(struct wl_policy *p, u32 cpu, u32 from)
{
	wl_write_once(wl_cpu_of(p, cpu)->balance_marked, wl_all_levels(p));
	wl_queue_asked(p, cpu, from);
	wl_wrote_cpu(p, cpu);
}

/*
 * Finds an idle CPU that should look for work, and marks it to balance at every level. Returns it,
 * or WL_CPU_NONE. Each turn begins with other CPUs.
 */
WL_FN int wl_balance_kick(struct wl_policy *p WL_ARG, u32 cpu, u64 turn,
			  struct wl_reads *reads WL_ARG)
{
	u32 l, i, first, span, start, other;
	int found = WL_CPU_NONE;

	wl_for_levels (p, l, 1) {
		struct wl_level *lv = wl_level_of(p, l);
		u32 dom = wl_entry(lv->dom_of, cpu);

		first = wl_entry(lv->first, dom);
		span = wl_entry(lv->weight, dom);
		start = span ? (cpu + turn * WL_KICK_PROBES) % span : 0;
		wl_for_few (i, span, WL_KICK_PROBES) {
			other = wl_entry(lv->cpus, first + wl_wrap(start + i, span));
			if (other == cpu)
				continue;
			wl_read_cpu(p, reads, other, wl_distance(p, cpu, other));
			if (wl_looks_idle(p, other)) {
				found = other;
				break;
			}
		}
		if (found >= 0)
			break;
	}
	if (found >= 0)
		wl_ask_to_pull(p, found, cpu);
	return found;
}

#endif /* WL_BALANCE_H */
