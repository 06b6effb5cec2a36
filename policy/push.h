/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * push.h - push=on: after failed tries a running task moves too (Linux's active balancing).
 *
 * Pulling takes what waits. With balance=4.15 and later, balancing itself finds the tasks that run
 * and should move (balance.h), and what follows is for tasks that do not fit their CPU only. A task
 * that runs alone on a CPU is worth moving if it is
 *   packed	another thread of its core is busy, and there is a wholly idle core; or
 *   misfit	it does not fit its CPU (capacity.h), and a bigger CPU is idle; or
 *   crowded	the policy has the cluster level, and the task's cluster has at least 2 tasks more
 *		than another (cluster.h).
 * The tick on its CPU looks for such an idle CPU, in the LLC and then anywhere, and kicks the first
 * one, marked at every level. Both do so at most once per ms for each CPU of the LLC (Linux's
 * interval between the tries of an idle CPU). The kicked CPU balances. If it finds nothing to pull
 * at any level, but a task at level l that is worth moving, that is a failed try of level l. After
 * more than patience + 2 failed tries (patience as in balance.h: Linux's cache_nice_tries) it names
 * the CPU that should put its task back (push_cpu). That task is queued here next, if this CPU is
 * still idle then and the task may run here.
 *
 * Example: one LLC of 2 cores x 2 threads; CPU c and c + 2 share a core; two tasks run on CPUs 0
 * and 2. The tick of CPU 0 finds core 1 idle and kicks CPU 1; 4 ms later one of the two CPUs does
 * so again, and so on. Patience is 1 inside an LLC: the tries at 0, 4 and 8 ms fail, and the
 * fourth, at 12 ms, returns push_cpu 0. CPU 0 puts its task back, and wl_enqueue() returns queue 1.
 *
 * Cost: a tick may read every CPU, once per interval, and the kicked CPU does so again. It fails
 * for a task that would have slept before it warmed its new cache. A host that does not ask the
 * policy when a lone task's slice ends cannot carry out a push (docs/design/contract.md).
 */
#ifndef WL_PUSH_H
#define WL_PUSH_H

#include "balance.h"
#include "capacity.h"

#define WL_PUSH_INTERVAL_NS 1000000ULL /* per CPU of the LLC */

/* Is another thread of cpu's core busy? */
WL_FN int wl_is_packed(struct wl_policy *p WL_ARG, u32 cpu)
{
	struct wl_level *smt = wl_level_of(p, p->topo.smt_level);
	u32 core = wl_entry(smt->dom_of, cpu), first = wl_entry(smt->first, core);
	u32 threads = wl_entry(smt->weight, core), i, other, packed = 0;

	wl_for_few (i, threads, WL_MAX_THREADS) {
		other = wl_entry(smt->cpus, first + i);
		if (other != cpu && !wl_looks_idle(p, other)) {
			packed = 1;
			break;
		}
	}
	return packed;
}

/* Why a lone task is worth moving, as bits. */
#define WL_PUSH_PACKED 1u
#define WL_PUSH_MISFIT 2u

/* Is the idle CPU `to` a better place for the lone task of `from`? */
WL_INLINE u32 wl_is_better(struct wl_policy *p, u32 to, u32 from, u32 why)
{
	u32 to_capacity = wl_entry(p->topo.capacity, to);
	u32 from_capacity = wl_entry(p->topo.capacity, from);

	if ((why & WL_PUSH_MISFIT) && to_capacity > from_capacity)
		return 1;
	return (why & WL_PUSH_PACKED) && to_capacity >= from_capacity && !wl_is_packed(p, to);
}

/*
 * The first idle CPU of cpu's domain at `level` that is better for t. Not the next one in ring
 * order: two tasks that share a core must ask the same CPU, or both would leave.
 */
WL_FN int wl_push_target(struct wl_policy *p WL_ARG, u32 cpu, const struct wl_task *t WL_ARG,
			 u32 level, struct wl_reads *reads WL_ARG)
{
	struct wl_level *lv = wl_level_of(p, level);
	u32 dom = wl_entry(lv->dom_of, cpu), first = wl_entry(lv->first, dom);
	u32 span = wl_entry(lv->weight, dom), why = wl_read_once(wl_cpu_of(p, cpu)->push.why);
	u32 i, other;
	int found = WL_CPU_NONE;

	wl_for (i, 0, span) {
		other = wl_entry(lv->cpus, first + i);
		if (other == cpu)
			continue;
		wl_read_cpu(p, reads, other, wl_distance(p, cpu, other));
		if (wl_looks_idle(p, other) && wl_allowed(p, t, other) &&
		    wl_is_better(p, other, cpu, why)) {
			found = other;
			break;
		}
	}
	return found;
}

/*
 * A tick on cpu, where t runs: finds an idle CPU that should try to take t, and marks it; or
 * WL_CPU_NONE.
 */
WL_FN int wl_push_kick(struct wl_policy *p WL_ARG, u32 cpu, const struct wl_task *t WL_ARG,
		       u64 now_ns, struct wl_reads *reads WL_ARG)
{
	struct wl_level *llc = wl_level_of(p, p->topo.llc_level);
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 spreads = wl_is_cluster_split(p, p->topo.llc_level), why = 0;
	int found = WL_CPU_NONE;
	u64 due_ns;

	if (now_ns < wl_get(c->push.due_ns) || !wl_runs_alone(p, cpu))
		return WL_CPU_NONE;
	if (p->topo.smt_level && wl_is_packed(p, cpu))
		why |= WL_PUSH_PACKED;
	if (p->topo.unequal && !wl_fits(t, wl_entry(p->topo.capacity, cpu)))
		why |= WL_PUSH_MISFIT;
	wl_write_once(c->push.why, why);
	if (!why && !spreads)
		return WL_CPU_NONE;
	due_ns = now_ns + wl_entry(llc->weight, wl_entry(llc->dom_of, cpu)) * WL_PUSH_INTERVAL_NS;
	c->push.due_ns = due_ns;
	if (why)
		found = wl_push_target(p, cpu, t, p->topo.llc_level, reads);
	if (found < 0 && spreads)
		found = wl_cluster_target(p, cpu, t, reads);
	if (found < 0 && why && p->topo.nr_levels > p->topo.llc_level + 1)
		found = wl_push_target(p, cpu, t, p->topo.nr_levels - 1, reads);
	if (found < 0 || now_ns < wl_read_once(wl_cpu_of(p, found)->push.due_ns))
		return WL_CPU_NONE;
	wl_write_once(wl_cpu_of(p, found)->push.due_ns, due_ns);
	wl_ask_to_pull(p, found, cpu);
	return found;
}

/*
 * Returns the innermost level of `levels` at which a lone task is worth moving to cpu, which is
 * idle; or 0.
 */
WL_FN int wl_push_find(struct wl_policy *p WL_ARG, u32 cpu, u32 levels,
		       struct wl_dispatch_out *out WL_ARG)
{
	u32 nr_levels = p->topo.nr_levels, found = 0, l, i, first, span, other, dom, why;
	int source;

	wl_for (l, 1, nr_levels) {
		struct wl_level *lv = wl_level_of(p, l), *groups = wl_level_of(p, l - 1);

		if (!(levels >> (l & 31) & 1))
			continue;
		if (wl_is_cluster_split(p, l)) {
			source = wl_cluster_source(p, cpu, &out->reads);
			if (source >= 0) {
				out->push_cpu = source;
				found = l;
				break;
			}
		}
		dom = wl_entry(lv->dom_of, cpu);
		first = wl_entry(lv->first, dom);
		span = wl_entry(lv->weight, dom);
		wl_for (i, 0, span) {
			other = wl_entry(lv->cpus, first + i);
			if (wl_entry(groups->dom_of, other) == wl_entry(groups->dom_of, cpu))
				continue;
			wl_read_cpu(p, &out->reads, other, wl_distance(p, cpu, other));
			if (!wl_runs_alone(p, other))
				continue;
			/* Its last tick said so; the sibling may be idle by now. */
			why = wl_read_once(wl_cpu_of(p, other)->push.why);
			if ((why & WL_PUSH_PACKED) && !wl_is_packed(p, other))
				why &= ~WL_PUSH_PACKED;
			if (wl_is_better(p, cpu, other, why)) {
				out->push_cpu = other;
				found = l;
				break;
			}
		}
		if (found)
			break;
	}
	return found;
}

/* An idle CPU was kicked, and there was nothing to pull. */
WL_INLINE void wl_push_dispatch(struct wl_policy *p, u32 cpu, u32 levels,
				struct wl_dispatch_out *out)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 level = wl_push_find(p, cpu, levels, out), failed;

	if (!level)
		return;
	wl_hide(level);
	failed = wl_get(c->balance_failed[level & (WL_MAX_LEVELS - 1)]) + 1;
	if (failed > wl_balance_patience(wl_level_of(p, level)->kind) + WL_PUSH_PATIENCE) {
		wl_write_once(wl_cpu_of(p, out->push_cpu)->push.to, cpu + 1);
		wl_wrote_cpu(p, out->push_cpu);
		failed = 0;
	} else {
		out->push_cpu = WL_CPU_NONE;
	}
	c->balance_failed[level & (WL_MAX_LEVELS - 1)] = failed;
}

/*
 * t is about to run on cpu. A promise was about the task before it; t is judged at the next tick.
 */
WL_INLINE void wl_push_running(struct wl_policy *p, const struct wl_task *t, u32 cpu)
{
	if (wl_axis(p, push) == WL_PUSH_OFF || t->place == WL_PLACE_RUNNING)
		return;
	wl_write_once(wl_cpu_of(p, cpu)->push.to, 0);
	wl_write_once(wl_cpu_of(p, cpu)->push.why, 0);
}

/* A running task of cpu moves to the CPU `to`. */
WL_FN int wl_push_ends(struct wl_policy *p WL_ARG, u32 cpu, u32 to)
{
	u32 level = wl_spanning_level(p, cpu, to);

	if (level < p->topo.nr_levels)
		wl_tries_end(p, to, level);
	return 0;
}

/*
 * The CPU on which to queue a task that is put back: the CPU that it was promised to, if that is
 * still idle.
 */
WL_INLINE u32 wl_push_queue(struct wl_policy *p, const struct wl_task *t, u32 cpu)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 to;

	if (wl_axis(p, push) == WL_PUSH_OFF)
		return cpu;
	to = wl_read_once(c->push.to) - 1;
	if (to == ~0u)
		return cpu;
	wl_write_once(c->push.to, 0);
	if (to >= p->topo.nr_cpus || !wl_allowed(p, t, to) || !wl_looks_idle(p, to))
		return cpu;
	wl_push_ends(p, cpu, to);
	return to;
}

#endif /* WL_PUSH_H */
