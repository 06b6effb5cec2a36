/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * idle_walk.h - idle=scan, form=2.6.24 and form=3.10: the walks before the scan, without limits.
 *
 *   3.10	From the LLC down, level by level, it visits the groups of target's domain, first
 *		target's own, wrapping. It takes the first allowed CPU of the first group that is
 *		wholly idle. With SMT that is an idle core, then an idle thread of target's core. A
 *		group is left at its first busy CPU, and a group without an allowed CPU is not
 *		read. A lost claim is as good as busy.
 *   2.6.24	If more than one task is runnable on target, it takes target. Else, from SMT up to
 *		the LLC, level by level, it visits the allowed CPUs of target's domain in numeric
 *		order, and takes the first idle one. It does not look at prev separately.
 *
 * Example: one LLC of 4 cores x 2 threads; CPU c and c + 4 share a core; target is 1; only 3, 6 and
 * 7 are idle. 3.10: core {1, 5} is target's own; {2, 6}: 2 is busy; {3, 7} is idle, and CPU 3 is
 * taken after 3 reads. If 7 were busy, {3, 7} would fail at its second CPU and {0, 4} at its first;
 * then come the threads of target's core, and 5 is busy: nothing is found after 5 reads, though 3
 * and 6 are idle. 2.6.24: 1 and 5 are busy; then 0, 1 and 2 are busy, and CPU 3 is taken after 6
 * reads.
 *
 * Cost: 3.10 reads one CPU of each busy group, 2.6.24 reads up to the whole LLC. 3.10 fails where
 * idle CPUs have busy siblings, because it does not see such CPUs in cores other than target's.
 * 2.6.24 fails by stacking tasks on low-numbered CPUs' siblings, because it does not know idle
 * cores.
 */
#ifndef WL_IDLE_WALK_H
#define WL_IDLE_WALK_H

#include "access.h"

struct wl_walk_group {
	u32 level; /* the group is a domain of this level */
	u32 group;
};

/*
 * Reads a group until a CPU is busy. If all are idle, claims its first allowed CPU and returns it,
 * else WL_CPU_NONE.
 */
WL_FN int wl_take_idle_group(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG,
			     const struct wl_task *t WL_ARG, const struct wl_walk_group *g WL_ARG,
			     struct wl_decision *out WL_ARG)
{
	struct wl_level *groups = wl_level_of(p, g->level);
	u32 first = wl_entry(groups->first, g->group), span = wl_entry(groups->weight, g->group);
	u32 i, cpu, busy = 0;
	int candidate;

	candidate = wl_first_allowed(p, t, g->level, g->group, 0);
	if (candidate < 0)
		return WL_CPU_NONE;
	wl_for (i, 0, span) {
		cpu = wl_entry(groups->cpus, first + i);
		if (cpu == s->target) {
			busy = 1;
			break;
		}
		wl_read_cpu(p, &out->reads, cpu, wl_reader_distance(p, &s->reader, cpu));
		if (!wl_looks_idle(p, cpu)) {
			busy = 1;
			break;
		}
	}
	if (busy || !wl_take_idle(p, candidate, out))
		return WL_CPU_NONE;
	return candidate;
}

/* Walks the groups of target's domain at `level`. Returns the CPU claimed, or WL_CPU_NONE. */
WL_FN int wl_walk_groups(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG,
			 const struct wl_task *t WL_ARG, u32 level, struct wl_decision *out WL_ARG)
{
	struct wl_level *lv = wl_level_of(p, level), *groups = wl_level_of(p, level - 1);
	u32 dom = wl_entry(lv->dom_of, s->target), child = wl_entry(lv->child, dom);
	u32 nr = wl_entry(lv->nr_child, dom), start = wl_entry(groups->dom_of, s->target) - child;
	struct wl_walk_group g = {.level = level - 1};
	u32 i;
	int found = WL_CPU_NONE;

	wl_for (i, 0, nr) {
		g.group = child + wl_wrap(start + i, nr);
		found = wl_take_idle_group(p, s, t, &g, out);
		if (found >= 0)
			break;
	}
	return found;
}

/* form=3.10. Returns the CPU claimed, or WL_CPU_NONE. */
WL_FN int wl_search_groups(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG,
			   const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	u32 llc_level = p->topo.llc_level, smt_level = p->topo.smt_level, i, level;
	int found = WL_CPU_NONE;

	wl_for (i, 0, llc_level) {
		level = llc_level - i;
		out->reason = level == 1 ? (smt_level ? WL_REASON_IDLE_SIBLING : WL_REASON_IDLE_CPU)
					 : WL_REASON_IDLE_CORE;
		found = wl_walk_groups(p, s, t, level, out);
		if (found >= 0)
			break;
	}
	return found;
}

/* form=2.6.24. Returns the CPU claimed, or WL_CPU_NONE. */
WL_FN int wl_search_domains(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			    const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	struct wl_cpu *c = wl_cpu_of(p, s->target);
	u32 last = p->topo.llc_level + 1, smt_level = p->topo.smt_level, i;
	int found = WL_CPU_NONE;

	if (wl_read_once(c->nr_queued) + wl_read_once(c->nr_running) > 1)
		return WL_CPU_NONE;
	wl_for (i, 1, last) {
		out->reason = i == smt_level ? WL_REASON_IDLE_SIBLING : WL_REASON_IDLE_CPU;
		s->candidate = wl_domain_first(p, i, s->target);
		found = wl_take_in_domain(p, s, t, i, out);
		if (found >= 0)
			break;
	}
	return found;
}

#endif /* WL_IDLE_WALK_H */
