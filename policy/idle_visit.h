/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * idle_visit.h - a walk through target's LLC, CPU by CPU, for an idle one: the step that all forms
 * of scan, and narrow, have in common.
 *
 * The CPUs of the LLC are visited in the order of their numbers from w->start on, wrapping, until
 * one is idle and can be claimed. A visit is one read. CPUs that are not allowed are skipped. At
 * most w->visits CPUs are visited; with w->counts_all, CPUs that are skipped count too. The host
 * times the step (scan_timed), unless the limit stopped it.
 *
 * The limit of SIS_PROP: with idle = avg_idle / 512 and cost = avg_scan + 1 of the CPU that
 * searches, the limit is span * idle / cost if span * idle > 4 * cost, else 4; limit - 1 CPUs are
 * visited.
 *
 * With cluster=spread-and-pack the CPUs of target's cluster come first, in the same order
 * (cluster.h).
 *
 * Example: an LLC of CPUs 0 to 7, start 6; 6, 7 and 0 are busy, 0 and 1 are not allowed. Three
 * visits are to 6, 7 and 2 if disallowed CPUs do not count; to 6 and 7 only if they count, because
 * 0 uses up the third.
 *
 * Cost: the whole LLC if nothing is idle and the limit allows it.
 */
#ifndef WL_IDLE_VISIT_H
#define WL_IDLE_VISIT_H

#include "cluster.h"

/* A walk in progress. */
struct wl_walk {
	u32 level;	/* it walks target's domain of this level: the LLC, or its cluster */
	u32 behind;	/* 1: it starts at the CPU behind target, 0: at target */
	u32 skips;	/* 1: it skips target's cluster, which it has already visited */
	u32 first;	/* where that domain begins in cpus[] */
	u32 span;	/* the number of its CPUs */
	u32 start;	/* index, inside the domain, of the first CPU visited */
	u32 visits;	/* visits that are left */
	u32 counts_all; /* 1: CPUs that are not allowed use up visits */
	s32 idle_cpu;	/* idle_merged.h: remembered, or WL_CPU_NONE */
};

/*
 * Sets up the walk through target's domain of a level. What it may visit, and what it remembers,
 * stay as they are.
 */
WL_INLINE void wl_walk_in(struct wl_policy *p, struct wl_walk *w, u32 target, u32 level)
{
	struct wl_level *lv = wl_level_of(p, level);
	u32 dom = wl_entry(lv->dom_of, target), start;

	w->level = level;
	w->first = wl_entry(lv->first, dom);
	w->span = wl_entry(lv->weight, dom);
	start = wl_entry(lv->pos, target) - w->first + w->behind;
	w->start = wl_wrap(start, w->span);
}

/* A walk through target's LLC, without a limit yet. */
WL_INLINE struct wl_walk wl_walk_from(struct wl_policy *p, u32 target, u32 behind)
{
	struct wl_walk w = {.behind = behind, .idle_cpu = WL_CPU_NONE};

	wl_walk_in(p, &w, target, p->topo.llc_level);
	return w;
}

/* The walk through target's cluster is over: continues with the rest of the LLC. */
WL_INLINE void wl_walk_on(struct wl_policy *p, struct wl_walk *w, u32 target)
{
	wl_walk_in(p, w, target, p->topo.llc_level);
	w->skips = 1;
}

/* The number of visits in an LLC of `span` CPUs for a CPU with this idle time and avg_scan. */
WL_INLINE u32 wl_visits_for(u32 span, u64 idle_ns, u64 avg_scan_ns)
{
	u64 room = span * idle_ns, cost = avg_scan_ns + 1;
	u64 limit = room > 4 * cost ? wl_div(room, cost) : 4;

	return limit - 1 < span ? limit - 1 : span;
}

/* The number of CPUs that a search on `cpu` may visit in an LLC of `span` CPUs (SIS_PROP). */
WL_INLINE u32 wl_visits(struct wl_policy *p, u32 cpu, u32 span)
{
	struct wl_cpu *own = wl_cpu_of(p, cpu);

	return wl_visits_for(span, wl_get(own->avg_idle_ns) / 512, wl_get(own->avg_scan_ns));
}

/* One visit. Returns 1 if the CPU was idle and is now claimed. */
WL_INLINE u32 wl_visit(struct wl_policy *p, const struct wl_search *s, u32 cpu,
		       struct wl_decision *out)
{
	u32 dist = wl_reader_distance(p, &s->reader, cpu);

	wl_read_cpu(p, &out->reads, cpu, dist);
	wl_read_at(p, &out->step_reads, dist);
	return wl_take_idle(p, cpu, out);
}

/*
 * A host may answer a walk as a whole, exactly as the loop below would, with its reads. It defines
 * wl_walk_at_once() before this file: 1 if it has answered, and *found.
 */
#ifndef wl_walk_at_once
#define wl_walk_at_once(p, s, t, w, out, found) ((void)(t), (void)(found), 0)
#endif

/* Walks over CPUs. Returns the CPU claimed, or WL_CPU_NONE. */
WL_FN int wl_walk_cpus(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG,
		       const struct wl_task *t WL_ARG, struct wl_walk *w WL_ARG,
		       struct wl_decision *out WL_ARG)
{
	struct wl_level *lv = wl_level_of(p, w->level);
	u32 first = w->first, span = w->span, start = w->start, visits = w->visits;
	u32 counts_all = w->counts_all, skips = w->skips, stopped = 0, i, cpu, may;
	int found = WL_CPU_NONE;

	wl_line_step(p, WL_STEP_CPU);
	if (wl_walk_at_once(p, s, t, w, out, &found))
		return found;
	wl_for (i, 0, span) {
		cpu = wl_entry(lv->cpus, first + wl_wrap(start + i, span));
		if (skips && wl_shares_cluster(p, cpu, s->target))
			continue;
		may = wl_allowed(p, t, cpu);
		if (!may && !counts_all)
			continue;
		if (!visits) {
			stopped = 1;
			break;
		}
		visits--;
		if (may && wl_visit(p, s, cpu, out)) {
			found = cpu;
			break;
		}
	}
	w->visits = visits;
	out->scan_timed = !stopped;
	return found;
}

/* The same, but through target's cluster first if wake-ups stay near. */
WL_INLINE int wl_walk_cpus_near(struct wl_policy *p, const struct wl_search *s,
				const struct wl_task *t, struct wl_walk *w, struct wl_decision *out)
{
	int found;

	if (wl_packs(p)) {
		wl_walk_in(p, w, s->target, p->topo.llc_level - 1);
		found = wl_walk_cpus(p, s, t, w, out);
		if (found >= 0 || !out->scan_timed)
			return found;
		wl_walk_on(p, w, s->target);
	}
	return wl_walk_cpus(p, s, t, w, out);
}

#endif /* WL_IDLE_VISIT_H */
