/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * balance.h - pulling queued tasks towards a CPU, level by level, from the innermost outwards.
 *
 * A CPU pulls when it is about to go idle (newly idle), and when a tick found that a level's
 * interval has passed or when it was kicked while idle (periodic). At each level its own group is
 * compared with the other groups of the domain. The busiest is the one with the highest average
 * load among those with something to take: a CPU with two tasks or more, at least one of them
 * queued. Averages are load per capacity, in 1/1024 of the weight on a CPU of capacity 1024; with
 * capacity=ignored every CPU has that capacity.
 *   forced	An idle CPU pulls if its group has room (fewer tasks than CPUs) and the busiest
 *		group has none (more tasks than CPUs, or what waits there waits on a taken CPU).
 *   otherwise	It pulls only if its group's average is below the busiest's and below the domain's,
 *		and, on an idle CPU, if its group has at least two idle CPUs more than the busiest;
 *		on a busy CPU, if 100 * busiest > imbalance_pct * own.
 *   how much	The smaller of two amounts: what brings its own group up to the domain's average,
 *		and what brings the busiest down to it; but at least the mean task of the busiest
 *		group's busiest CPU, the CPU from which tasks are taken.
 * Between clusters an idle CPU compares numbers of tasks instead (cluster.h). A newly idle CPU
 * pulls one task at most, a periodic pull takes up to 32. A task may move if it is allowed, if half
 * of its weight fits what is left of that amount (the axis `groups` adds rules), and if it is not
 * cache-hot: either it has not run within migration_cost, or periodic pulls have failed more often
 * than the level's patience allows (0 for SMT, 1 inside a node, 2 beyond). Each level is tried once
 * for each time that a task ran here (newly idle), or once per mark (periodic), so pulls always
 * come to an end. Newly-idle balancing needs an avg_idle of at least migration_cost, and
 * `overloaded`: some CPU had two tasks. `overloaded` is cleared when all CPUs were read and none
 * had two; reading it counts as a read of the first CPU. If no task that waits on the busiest CPU
 * may run here, the level is tried once more without that CPU (Linux, LBF_ALL_PINNED, leaves out
 * one CPU after the other).
 *
 * Ticks: level l is due every 32 ms per CPU of the domain (Linux's busy_factor), on the first CPU
 * of each group. Kick: at a tick, a CPU with something queued probes 4 CPUs per level for an idle
 * one, at each tick other CPUs. The idle CPU is marked, and should be woken.
 *
 * Example: 2 LLCs of 4 CPUs without SMT. CPU 0 goes idle; CPUs 1 to 3 run one task of weight 1024
 * each, and 4 to 7 have two each. LLC level: CPUs 1 to 3 have nothing queued. NUMA level: the
 * average of the own group is 768, that of LLC 1 is 2048, and the domain's is 1408. LLC 1 has 8
 * tasks on 4 CPUs, LLC 0 has three: CPU 0 pulls from CPU 4, the first of equals, a load of
 * min((2048 - 1408) * 4, (1408 - 768) * 4) = 2560.
 *
 * A CPU that a task of a higher class has taken counts as a CPU with one task more and no capacity
 * (taken.h). Whether its group has room depends on the group's other CPUs: what waits behind the
 * higher class may be bound to that CPU, and must not keep an idle neighbour from pulling.
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
 * is running, because only queued tasks move.
 */
#ifndef WL_BALANCE_H
#define WL_BALANCE_H

#include "cluster.h"
#include "queue.h"

/* Per CPU of the domain: 1 ms * busy_factor (Linux 4.15, sd_init). */
#define WL_BALANCE_INTERVAL_NS (32 * 1000000ULL)
#define WL_MOVE_TASKS_MAX      32 /* sched_nr_migrate */
#define WL_KICK_PROBES	       4

WL_INLINE void wl_stats_clear(struct wl_group_stats *side)
{
	side->load = 0;
	side->nr = 0;
	side->idle = 0;
	side->weight = 0;
	side->capacity = 0;
	side->cpu = WL_CPU_NONE;
	side->cpu_load = 0;
	side->cpu_capacity = 0;
	side->cpu_nr = 0;
	side->cpu_queued = 0;
}

/* The capacity that balancing attributes to a taken CPU; no other CPU has so little. */
#define WL_TAKEN_CAPACITY 1

/* Adds a CPU, which is read. avoid: see wl_level_stats. Returns 1 if the CPU has two tasks. */
WL_INLINE u32 wl_stats_add(struct wl_policy *p, struct wl_group_stats *side, u32 cpu, u32 avoid)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 queued = wl_read_once(c->nr_queued), nr = queued + wl_read_once(c->nr_running);
	u64 load = wl_read_once(c->load), capacity = wl_entry(p->topo.capacity, cpu);

	side->weight++;
	if (wl_read_once(c->state) == WL_CPU_TAKEN) {
		side->weight += queued;
		nr++;
		capacity = WL_TAKEN_CAPACITY;
	}

	side->load += load;
	side->nr += nr;
	side->idle += wl_looks_idle(p, cpu);
	side->capacity += capacity;
	if (queued && nr > 1 && cpu + 1 != avoid &&
	    (side->cpu < 0 || load * side->cpu_capacity > side->cpu_load * capacity)) {
		side->cpu = cpu;
		side->cpu_capacity = capacity;
		side->cpu_load = load;
		side->cpu_nr = nr;
		side->cpu_queued = queued;
	}
	return nr > 1;
}

/* A group is complete: is it the busiest with something to take? Of equals, the first one stays. */
WL_INLINE void wl_stats_close(struct wl_level_stats *s)
{
	s->others_load += s->group.load;
	s->others_nr += s->group.nr;
	s->others_idle += s->group.idle;
	s->others_weight += s->group.weight;
	s->others_capacity += s->group.capacity;
	if (s->group.cpu >= 0 &&
	    (s->busiest.cpu < 0 || (s->by_tasks ? s->group.nr > s->busiest.nr
						: s->group.load * s->busiest.capacity >
							  s->busiest.load * s->group.capacity)))
		s->busiest = s->group;
	wl_stats_clear(&s->group);
}

/*
 * Reads all groups of cpu's domain at `level` except its own, in ring order from its own on, and
 * sums them up in cpu's wl_level_stats.
 */
WL_FN int wl_sum_groups(struct wl_policy *p WL_ARG, u32 cpu, u32 level,
			struct wl_reads *reads WL_ARG)
{
	struct wl_level_stats *s = wl_level_stats_of(p, cpu);
	struct wl_level *lv = wl_level_of(p, level), *groups = wl_level_of(p, level - 1);
	u32 dom = wl_entry(lv->dom_of, cpu), own = wl_entry(groups->dom_of, cpu);
	u32 first = wl_entry(lv->first, dom), span = wl_entry(lv->weight, dom);
	u32 own_span = wl_entry(groups->weight, own);
	u32 start = wl_entry(groups->first, own) + own_span - first;
	u32 nr = span - own_span, last = own, dist = 0, i, other, group;

	wl_stats_clear(&s->group);
	wl_stats_clear(&s->busiest);
	s->others_load = 0;
	s->others_nr = 0;
	s->others_idle = 0;
	s->others_weight = 0;
	s->others_capacity = 0;
	wl_for (i, 0, nr) {
		other = wl_entry(groups->cpus, first + wl_wrap(start + i, span));
		group = wl_entry(groups->dom_of, other);
		if (group != last) {
			if (last != own)
				wl_stats_close(s);
			last = group;
			dist = wl_distance(p, cpu, other);
		}
		wl_read_cpu(p, reads, other, dist);
		s->overloaded |= wl_stats_add(p, &s->group, other, s->avoid);
	}
	if (last != own)
		wl_stats_close(s);
	return 0;
}

/* Load per capacity, in 1/1024 of a weight on a CPU of capacity 1024. */
WL_INLINE u64 wl_mean_1024(u64 load, u32 capacity)
{
	return wl_div(load << 20, capacity);
}

/* How much load to pull from the busiest group to cpu's own; 0 if they are balanced. */
WL_INLINE u64 wl_imbalance(struct wl_policy *p, u32 cpu, const struct wl_group_stats *own, u32 idle,
			   u32 imbalance_pct)
{
	const struct wl_level_stats *s = wl_level_stats_of(p, cpu);
	u64 own_mean = wl_mean_1024(own->load, own->capacity);
	u64 busiest_mean = wl_mean_1024(s->busiest.load, s->busiest.capacity);
	u64 mean = wl_mean_1024(own->load + s->others_load, own->capacity + s->others_capacity);
	u64 excess = busiest_mean > mean ? (busiest_mean - mean) * s->busiest.capacity >> 20 : 0;
	u64 lack = mean > own_mean ? (mean - own_mean) * own->capacity >> 20 : 0;
	u64 amount = excess < lack ? excess : lack,
	    task = wl_div(s->busiest.cpu_load, s->busiest.cpu_nr);
	u32 forced =
		idle && own->nr < own->weight &&
		(s->busiest.nr > s->busiest.weight || s->busiest.cpu_capacity == WL_TAKEN_CAPACITY);

	if (s->busiest.cpu < 0)
		return 0;
	if (!forced) {
		if (own_mean >= busiest_mean || own_mean >= mean)
			return 0;
		if (idle ? own->idle <= s->busiest.idle + 1
			 : 100 * busiest_mean <= imbalance_pct * own_mean)
			return 0;
	}
	if (amount >= task)
		return amount;
	return wl_groups_small_pull(p, cpu, own, own_mean, amount, task);
}

/*
 * Tries the levels of a bit mask from the innermost outwards, and takes nothing from the CPU that
 * wl_level_stats avoids. Returns the level at which something should be pulled, and says what in
 * out; or returns 0.
 */
WL_FN int wl_find_pull(struct wl_policy *p WL_ARG, u32 cpu, u32 levels,
		       struct wl_dispatch_out *out WL_ARG)
{
	u32 nr_levels = p->topo.nr_levels, idle, found = 0, tasks, i;
	struct wl_level_stats *s = wl_level_stats_of(p, cpu);
	struct wl_group_stats own;
	u64 amount;

	wl_not_taken(p, cpu);
	wl_read_cpu(p, &out->reads, cpu, WL_DIST_CPU);
	wl_stats_clear(&own);
	s->overloaded = wl_stats_add(p, &own, cpu, 0);
	idle = own.nr == 0;
	wl_for (i, 1, nr_levels) {
		if (!(levels >> i))
			break;
		s->by_tasks = idle && wl_is_cluster_split(p, i);
		wl_sum_groups(p, cpu, i, &out->reads);
		tasks = WL_MOVE_TASKS_MAX;
		if (!(levels >> i & 1)) {
			amount = 0;
		} else if (s->by_tasks) {
			tasks = wl_cluster_excess(s->busiest.nr, own.nr);
			/* The number of tasks limits the pull, not their load. */
			amount = s->busiest.cpu >= 0 && tasks ? s->busiest.cpu_load : 0;
		} else {
			amount = wl_imbalance(p, cpu, &own, idle, wl_level_of(p, i)->imbalance_pct);
		}
		if (amount) {
			found = i;
			out->what = WL_DISPATCH_PULL;
			out->cpu = s->busiest.cpu;
			out->level = i;
			out->max_load = amount;
			tasks = tasks < WL_MOVE_TASKS_MAX ? tasks : WL_MOVE_TASKS_MAX;
			out->max_tasks =
				s->busiest.cpu_queued < tasks ? s->busiest.cpu_queued : tasks;
			break;
		}
		own.load += s->others_load;
		own.nr += s->others_nr;
		own.idle += s->others_idle;
		own.weight += s->others_weight;
		own.capacity += s->others_capacity;
	}
	/* A CPU may get its second task just now; then a mark or a kick will find it. */
	if (!found && !s->overloaded && own.weight == p->topo.nr_cpus) {
		wl_write_once(p->overloaded, 0);
		wl_line_written(p, WL_LINE_OVERLOADED);
	}
	return found;
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
	u32 to = wl_get(tried->to), marks;

	if (!to)
		return;
	tried->to = 0;
	wl_read_cpu(p, &out->reads, to - 1, wl_distance(p, cpu, to - 1));
	marks = wl_read_once(wl_cpu_of(p, to - 1)->balance_marked);
	wl_write_once(wl_cpu_of(p, to - 1)->balance_marked,
		      marks | 1u << (wl_get(tried->level) & 31));
	wl_wrote_cpu(p, to - 1);
}

WL_INLINE void wl_balance_dispatch(struct wl_policy *p, u32 cpu, struct wl_dispatch_out *out)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 marks = wl_read_once(c->balance_marked), left, level, done;
	u32 avoid = wl_get(c->tried.cpu), again = avoid ? 1u << (wl_get(c->tried.level) & 31) : 0;
	u32 is_newly_idle = wl_get(c->tried.why) == WL_BALANCE_NEWLY_IDLE;

	wl_balance_hand_over(p, cpu, out);
	out->cpu = cpu;
	c->tried.cpu = 0;
	wl_level_stats_of(p, cpu)->avoid = avoid;
	if (!is_newly_idle)
		marks |= again;
	if (marks) {
		out->why = WL_BALANCE_PERIODIC;
		level = wl_find_pull(p, cpu, marks, out);
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
	left = wl_get(c->newly_idle_left) | (is_newly_idle ? again : 0);
	if (!left || wl_get(c->avg_idle_ns) < p->params.migration_cost_ns)
		return;
	wl_read_overloaded(p, cpu, &out->reads);
	if (!wl_read_once(p->overloaded))
		return;
	out->why = WL_BALANCE_NEWLY_IDLE;
	level = wl_find_pull(p, cpu, left, out);
	c->newly_idle_left = level ? left & ~0u << 1 << level : 0;
	out->max_tasks = level ? 1 : 0;
	if (level)
		wl_balance_tries(c, out, avoid);
}

WL_INLINE u32 wl_balance_patience(u32 kind)
{
	return kind < WL_DIST_CLS ? 0 : kind <= WL_DIST_NODE ? 1 : 2;
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
		wl_hide(level);
		c->balance_failed[level & (WL_MAX_LEVELS - 1)] = 0;
		out->move = 1;
		out->slice_ns = t->slice_ns;
	}
	out->stop = !d->max_tasks || !d->max_load;
	if (out->stop)
		c->tried.to = 0;
}

/* Marks the levels whose interval has passed. The first tick only starts the intervals. */
WL_INLINE void wl_balance_mark(struct wl_policy *p, u32 cpu, u64 now_ns)
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
		if (next_ns) {
			wl_write_once(c->balance_marked,
				      wl_get(c->balance_marked) | 1u << (i & 31));
			wl_wrote_cpu(p, cpu);
		}
		c->next_balance_ns[index & (WL_MAX_LEVELS - 1)] = now_ns + interval_ns;
	}
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
