/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * idle_node.h - idle=scan, form=node and form=node-4: a search that goes on in the other LLCs of
 * target's NUMA node.
 *
 * SIS_NODE was merged for Linux 6.5 (commit c7dfd6b9122d) and dropped before its release. First
 * comes the search of form=util in target's LLC (idle_merged.h). If that finds nothing, each other
 * LLC of target's node is searched in the same way, in ring order from target's on, until one has
 * an idle CPU. The walk through another LLC begins at the CPU behind its first one; it is for an
 * idle core while that LLC's has_idle_cores is set, and limited by that LLC's nr_idle_scan. The
 * threads of prev's core are not visited again. node-4 searches at most four other LLCs: our
 * reading of "nr=4" in the tests of its limits, which were not merged.
 *
 * Example: one node with LLCs {0, 1}, {2, 3} and {4, 5}, of cores without SMT. Target is 2; only 0
 * and 1 are idle. The walk in {2, 3} visits 3 and 2. Then comes {4, 5}: it visits 5 and 4. Then
 * comes {0, 1}: CPU 1 is visited and taken. Each LLC's first CPU is read besides, for its limit. If
 * CPU 4 were idle, too, it would be taken before.
 *
 * Cost: up to all CPUs of the node. It fails where a task is better off waiting beside its data for
 * a moment than idling its way into another cache; and with full machines, where LLCs are searched
 * in vain one after the other, as long as their limits are not 0.
 */
#ifndef WL_IDLE_NODE_H
#define WL_IDLE_NODE_H

#include "idle_merged.h"

#define WL_NODE_LLCS_MAX   64 /* more are not searched, our limit */
#define WL_NODE_4_LLCS_MAX 5  /* form=node-4, with target's own */

/*
 * Moves the search from target's LLC to the one that comes `place` LLCs later in its node. Returns
 * 0 if there is none.
 */
WL_FN u32 wl_node_moves(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG, u32 target,
			u32 place)
{
	u32 level = p->topo.llc_level + 1, node, child, nr, llc;
	struct wl_level *nodes = wl_level_of(p, level), *llcs = wl_level_of(p, level - 1);

	if (level >= p->topo.nr_levels || nodes->kind != WL_DIST_NODE)
		return 0;
	node = wl_entry(nodes->dom_of, target);
	child = wl_entry(nodes->child, node);
	nr = wl_entry(nodes->nr_child, node);
	if (place >= nr || (wl_axis(p, scan_form) == WL_SCAN_NODE_4 && place >= WL_NODE_4_LLCS_MAX))
		return 0;
	llc = child + wl_wrap(wl_entry(llcs->dom_of, target) - child + place, nr);
	s->target = wl_entry(llcs->cpus, wl_entry(llcs->first, llc));
	wl_reader_init(p, &s->reader, s->this_cpu, s->target);
	return 1;
}

/* The walk through target's LLC alone. Returns the CPU claimed, or WL_CPU_NONE. */
WL_FN int wl_search_other_llc(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			      const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	struct wl_cpu *record = wl_llc_record(p, s->target);
	struct wl_walk w = wl_walk_from(p, s->target, 1);
	int cpu = wl_llc_first(p, s->target);

	wl_read_llc(p, &out->reads, cpu, wl_reader_distance(p, &s->reader, cpu));
	w.visits = wl_read_once(record->scan_llc.nr_idle_scan);
	if (!w.visits)
		return WL_CPU_NONE;
	if (p->topo.smt_level && wl_read_once(record->scan_llc.has_idle_cores))
		return wl_walk_cores(p, s, t, &w, out);
	out->reason = WL_REASON_IDLE_CPU;
	cpu = wl_walk_cpus(p, s, t, &w, out);
	out->scan_timed = 0;
	return cpu;
}

/* The other LLCs of target's node. Returns the CPU claimed, or WL_CPU_NONE. */
WL_FN int wl_search_node_rest(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			      const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	int cpu = WL_CPU_NONE;
	u32 i;

	/* There is no room on BPF's stack to remember where the search was. */
	out->target = s->target;
	wl_for_few (i, WL_NODE_LLCS_MAX, WL_NODE_LLCS_MAX) {
		if (cpu >= 0 || !wl_node_moves(p, s, out->target, i + 1))
			break;
		cpu = wl_search_other_llc(p, s, t, out);
	}
	s->target = out->target;
	return cpu;
}

WL_INLINE int wl_search_node(struct wl_policy *p, struct wl_search *s, const struct wl_task *t,
			     struct wl_decision *out)
{
	int cpu = wl_search_merged(p, s, t, out);

	return cpu >= 0 ? cpu : wl_search_node_rest(p, s, t, out);
}

#endif /* WL_IDLE_NODE_H */
