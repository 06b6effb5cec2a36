/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * placement.h - where a new or exec'ing task goes: down the levels, at each into the group with
 * most idle CPUs.
 *
 * The descent starts in the widest domain around prev that forks may cross. The groups of one
 * domain are compared by their allowed CPUs: most idle CPUs first, then the least load per CPU, or
 * between clusters the least utilization (cluster.h). Of equals, the first in ring order wins,
 * counted from the group that holds the candidate CPU. The candidate is prev at first; it moves to
 * the chosen group's first allowed CPU, and the descent continues in that group. In the innermost
 * domain an idle CPU is claimed, in ring order from the candidate; if there is none, the least
 * loaded CPU is taken. Looking at idle CPUs claims none of them; if the claim at the end is lost,
 * the search goes on to the next CPU.
 *
 * Example: 2 LLCs of 4 CPUs, no SMT, one LLC per node. The parent runs on CPU 0, one task runs on
 * each of CPUs 1, 4, 5 and 6, and a second one is queued on 4. At the NUMA level LLC 0 has 2 idle
 * CPUs and LLC 1 has 1, so the task stays local. Inside LLC 0 CPUs 0 and 1 are busy, and CPU 2 is
 * claimed. If CPU 6 were idle too, both sides would have 2 idle CPUs, and LLC 0 would win because
 * it has less load (2048 against 3072).
 *
 * With balance=5.12 and 6.12 a node with room keeps new tasks while it has few (numa.h). If only
 * the parent runs in the example, its child stays in LLC 0 with 5.12, though LLC 1 has one idle CPU
 * more. If one more task runs there, 2 tasks are no less than a quarter of 8 CPUs, and the child
 * leaves for LLC 1. Two more rules of find_idlest_group() hold there, which are of Linux 5.5:
 *   exec	A task that execs counts nowhere, because it would leave: if nothing else is on its
 *		CPU, that CPU is idle, and it stays unless another group has more idle CPUs. If the
 *		task on CPU 1 execs in the example, LLC 0 has 3 idle CPUs, 1 among them, to LLC 1's
 *		1, and CPU 1 is as idle as 2 and 3: it stays.
 *   tie	The own group, if it has an idle CPU and fewer tasks than CPUs, keeps the task
 *		unless another one has more idle CPUs, whatever the loads.
 *
 * With fork=parent a new task stays on prev, where its parent runs, unless another task waits
 * there, and a task that execs stays. A kernel of a virtual machine may do that, because a virtual
 * CPU that idles costs its waker tens of microseconds (measured on one that does: of 2,009 new
 * processes whose parent was alone on its CPU while the other one idled, 1,474 stayed; of 429
 * beside others, 1; and of 2,859 tasks that exec'ed while the other CPU idled, 2,724 stayed, 424 of
 * them beside others). In the example the new task waits on CPU 0 behind its parent, until
 * balancing moves it; the next one goes to CPU 2. It fails where children run for long: idle CPUs
 * wait for the next balancing.
 *
 * Cost: every allowed CPU below the widest domain is read, and read again at each level. It fails
 * when many forks run at once, because all of them see the same idle group. Loads are those of this
 * moment, not averages.
 */
#ifndef WL_PLACEMENT_H
#define WL_PLACEMENT_H

#include "cluster.h"
#include "group.h"
#include "numa.h"

/* The sums over a group's allowed CPUs. */
struct wl_idlest {
	u32 level; /* the group is a domain of this level */
	u32 group;
	u32 allowed;
	u32 idle;
	u32 nr; /* tasks that run or wait */
	s32 first_allowed;
	u64 load; /* or utilization, if its siblings are clusters */
};

/* Is t on cpu, and counts nowhere while a CPU is looked for? task_running_on_cpu() */
WL_INLINE u32 wl_counts_nowhere(struct wl_policy *p, const struct wl_task *t, u32 cpu)
{
	return wl_axis(p, balance) >= WL_BALANCING_5_12 && t->place == WL_PLACE_RUNNING &&
	       t->cpu == (s32)cpu;
}

/* The load of cpu, without t if that counts nowhere. */
WL_INLINE u64 wl_load_without(struct wl_policy *p, const struct wl_task *t, u32 cpu)
{
	u64 load = wl_read_once(wl_cpu_of(p, cpu)->load);
	u64 own = wl_counts_nowhere(p, t, cpu) ? t->entity.hweight >> WL_HWEIGHT_SHIFT : 0;

	return own < load ? load - own : 0;
}

WL_FN int wl_idlest_sum(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG,
			const struct wl_task *t WL_ARG, struct wl_idlest *g WL_ARG,
			struct wl_reads *reads WL_ARG)
{
	struct wl_level *groups = wl_level_of(p, g->level);
	u32 group = g->group, own = group == wl_entry(groups->dom_of, s->this_cpu);
	u32 first = wl_entry(groups->first, group), span = wl_entry(groups->weight, group);
	/* From outside, all CPUs of a group are equally far. */
	u32 dist = wl_distance(p, s->this_cpu, wl_entry(groups->cpus, first)), i, cpu;
	u32 by_util = wl_is_cluster_split(p, g->level + 1);

	g->allowed = 0;
	g->idle = 0;
	g->nr = 0;
	g->load = 0;
	g->first_allowed = WL_CPU_NONE;
	wl_for (i, 0, span) {
		cpu = wl_entry(groups->cpus, first + i);
		if (!wl_allowed(p, t, cpu))
			continue;
		wl_read_cpu(p, reads, cpu, own ? (u32)wl_distance(p, s->this_cpu, cpu) : dist);
		if (!g->allowed)
			g->first_allowed = cpu;
		g->allowed++;
		g->idle += wl_looks_idle(p, cpu);
		g->nr += wl_read_once(wl_cpu_of(p, cpu)->nr_queued) +
			 wl_read_once(wl_cpu_of(p, cpu)->nr_running);
		g->load += by_util ? wl_util_cpu(p, cpu, s->now_ns) : wl_load_without(p, t, cpu);
		if (wl_counts_nowhere(p, t, cpu)) {
			g->idle += wl_runs_alone(p, cpu);
			g->nr--;
		}
	}
	return 0;
}

/*
 * Makes the sums of the candidate's own group stand for what another group must exceed before a new
 * task leaves: if as many idle CPUs are not enough, the own group counts as without load, and if a
 * node keeps new tasks, it counts as idler than it is. This needs no stack while the other groups
 * are summed up, where a log's programs have none left.
 */
WL_FN int wl_idlest_own(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG, u32 level,
			struct wl_idlest *own WL_ARG)
{
	u32 more, few;

	if (wl_axis(p, balance) < WL_BALANCING_5_12 || !own->idle)
		return 0;
	if (own->nr < own->allowed)
		own->load = 0;
	if (!wl_joins_nodes(p, level))
		return 0;
	if (wl_axis(p, balance) == WL_BALANCING_5_12) {
		few = wl_span(p, level, s->candidate) / 4;
		more = p->topo.nr_cpus;
	} else {
		few = wl_numa_allowed(p, level, s->candidate);
		few = few < own->allowed ? few : own->allowed;
		more = WL_NUMA_DIFFERENCE;
	}
	if (own->nr < few) {
		own->idle += more;
		own->load = 0;
	}
	return 0;
}

/*
 * Compares the groups of the candidate's domain at `level`, and may move the candidate, which is an
 * allowed CPU.
 */
WL_FN int wl_idlest_group(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			  const struct wl_task *t WL_ARG, u32 level, struct wl_decision *out WL_ARG)
{
	struct wl_level *lv = wl_level_of(p, level), *groups = wl_level_of(p, level - 1);
	u32 dom = wl_entry(lv->dom_of, s->candidate), here = wl_entry(groups->dom_of, s->candidate);
	u32 child = wl_entry(lv->child, dom), nr = wl_entry(lv->nr_child, dom), i;
	struct wl_idlest best = {.level = level - 1, .group = here}, other = best;

	wl_idlest_sum(p, s, t, &best, &out->reads);
	wl_idlest_own(p, s, level, &best);
	wl_for (i, 1, nr) {
		other.group = child + wl_wrap(here - child + i, nr);
		wl_idlest_sum(p, s, t, &other, &out->reads);
		if (!other.allowed)
			continue;
		if (other.idle > best.idle ||
		    (other.idle == best.idle &&
		     other.load * best.allowed < best.load * other.allowed))
			best = other;
	}
	if (best.group != here)
		s->candidate = best.first_allowed;
	return 0;
}

/*
 * Returns the CPU to take in the candidate's innermost domain: an idle one, claimed; else the least
 * loaded.
 */
WL_FN int wl_idlest_cpu(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG,
			const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	u32 level = p->topo.nr_levels > 1;
	struct wl_level *lv = wl_level_of(p, level);
	u32 dom = wl_entry(lv->dom_of, s->candidate);
	u32 first = wl_entry(lv->first, dom), span = wl_entry(lv->weight, dom);
	u32 start = wl_entry(lv->pos, s->candidate) - first;
	u32 i, cpu, best = s->candidate;
	u64 load, best_load = ~0ULL;

	wl_for (i, 0, span) {
		cpu = wl_entry(lv->cpus, first + wl_wrap(start + i, span));
		if (!wl_allowed(p, t, cpu))
			continue;
		wl_read_cpu(p, &out->reads, cpu, wl_distance(p, s->this_cpu, cpu));
		if (wl_counts_nowhere(p, t, cpu) && wl_runs_alone(p, cpu)) {
			best = cpu; /* it stays, and there is nothing to claim */
			break;
		}
		if (wl_take_idle(p, cpu, out)) {
			best = cpu;
			out->claimed = 1;
			break;
		}
		/* The claim on it was lost: another task is on its way there. */
		if (wl_looks_idle(p, cpu))
			continue;
		load = wl_load_without(p, t, cpu);
		if (load < best_load) {
			best_load = load;
			best = cpu;
		}
	}
	return best;
}

/* With fork=parent: does a new task stay on its parent's CPU, or one that execs on its own? */
WL_INLINE u32 wl_stays_with_parent(struct wl_policy *p, u32 cpu, u32 flags)
{
	return wl_axis(p, fork) == WL_FORK_PARENT &&
	       (flags & WL_WAKE_EXEC || !wl_read_once(wl_cpu_of(p, cpu)->nr_queued));
}

/* fork=parent. s->prev is allowed. */
WL_FN int wl_place_beside(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG,
			  struct wl_decision *out WL_ARG)
{
	out->cpu = s->prev;
	out->reason = WL_REASON_FORK_LOCAL;
	wl_read_cpu(p, &out->reads, s->prev, wl_distance(p, s->this_cpu, s->prev));
	out->claimed = wl_take_idle(p, s->prev, out);
	return 0;
}

/* fork=idlest. s->prev is allowed. */
WL_FN int wl_place_new(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
		       const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	u32 widest = wl_widest_level(p), i;

	s->candidate = s->prev;
	out->searched = 1;
	out->claimed = 0;
	wl_for (i, 1, widest)
		wl_idlest_group(p, s, t, widest + 1 - i, out);
	out->cpu = wl_idlest_cpu(p, s, t, out);
	/*
	 * Local means that the task stayed in the widest domain's group that holds prev, or, if
	 * there is one level, on prev.
	 */
	i = widest ? widest - 1 : 0;
	out->reason = wl_entry(wl_level_of(p, i)->dom_of, out->cpu) ==
				      wl_entry(wl_level_of(p, i)->dom_of, s->prev)
			      ? WL_REASON_FORK_LOCAL
			      : WL_REASON_FORK_IDLEST;
	return 0;
}

#endif /* WL_PLACEMENT_H */
