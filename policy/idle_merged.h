/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * idle_merged.h - idle=scan, form=merged (Linux 5.12) and form=util (6.12): one walk through
 * target's LLC that looks for an idle core and for an idle CPU at once.
 *
 * Allowed CPUs are visited in order, wrapping: from target on (merged), from the one behind it
 * (util).
 *   While has_idle_cores is set (SMT machines), each visit is to a core not visited yet: its
 *   threads are read until one is busy, and the first allowed idle CPU that is seen anywhere is
 *   remembered; once there is one, a core is left at its first busy thread, before that all its
 *   threads are read. A core that is wholly idle is taken: its CPU that came first in the order. At
 *   the end has_idle_cores is cleared, and the remembered CPU taken. There is no limit. Else each
 *   visit is to one CPU, which is taken if idle; the number of visits is limited.
 *     merged	by times (SIS_PROP), as form=5.2 is; the host times the walk
 *     util	to nr_idle_scan of target's LLC (SIS_UTIL); before, the threads of prev's core are
 *		visited if prev shares the LLC. At nr_idle_scan 0 nothing is visited, cores neither
 * nr_idle_scan, with x the mean utilization of the LLC's CPUs (util.h) and span their number, is
 *     span * (1024 - min(1024, x^2 * 117^2 / (10000 * 1024))) / 1024
 * that is, all of them at x = 0, none from 85 % on. Ours: it is computed at the first tick in the
 * LLC that comes span ms after the last time; Linux does that as it balances the LLC. It starts at
 * span.
 *
 * Example, one LLC of 4 cores x 2 threads, CPU c and c + 4 sharing a core, form=util; target 1;
 * only 3, 6 and 7 are idle. With has_idle_cores: from 2 on; core {2, 6}: 2 is busy, 6 is idle and
 * remembered; core {3, 7} is idle: CPU 3, after 4 reads and the flag's. Without: after prev's core,
 * CPUs 2 and 3, if nr_idle_scan allows two visits. Utilization: 4 of 8 CPUs busy for long have x =
 * 512: 262144 * 13689 / 10240000 = 350, and 8 * 674 / 1024 = 5 visits are allowed.
 *
 * Cost: up to the whole LLC. It fails where load changes faster than its average: the limit is
 * late.
 */
#ifndef WL_IDLE_MERGED_H
#define WL_IDLE_MERGED_H

#include "idle_scan.h"
#include "util.h"

/* (imbalance_pct of an LLC)^2: utilization above 100 / 1.17 = 85 % leaves nothing to visit. */
#define WL_IDLE_SCAN_PCT    117
#define WL_IDLE_SCAN_AGE_NS 1000000ULL /* a CPU of the LLC */

/* Is there an allowed CPU of cpu's core that comes before it in the walk? */
WL_FN int wl_walk_was_at_core(struct wl_policy *p WL_ARG, const struct wl_walk *w WL_ARG,
			      const struct wl_task *t WL_ARG, u32 cpu, u32 at)
{
	struct wl_level *lv = wl_level_of(p, w->level);
	struct wl_level *smt = wl_level_of(p, p->topo.smt_level);
	u32 core = wl_entry(smt->dom_of, cpu), first = wl_entry(smt->first, core);
	u32 threads = wl_entry(smt->weight, core), i, other, index, was = 0;

	wl_for_few (i, threads, WL_MAX_THREADS) {
		other = wl_entry(smt->cpus, first + i);
		index = wl_wrap(wl_entry(lv->pos, other) - w->first + w->span - w->start, w->span);
		if (index < at && wl_allowed(p, t, other)) {
			was = 1;
			break;
		}
	}
	return was;
}

/* Reads the threads of cpu's core. Returns 1 if all are idle. */
WL_FN int wl_walk_core(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG,
		       const struct wl_task *t WL_ARG, struct wl_walk *w WL_ARG,
		       struct wl_decision *out WL_ARG)
{
	struct wl_level *smt = wl_level_of(p, p->topo.smt_level);
	u32 core = wl_entry(smt->dom_of, s->candidate), first = wl_entry(smt->first, core);
	u32 threads = wl_entry(smt->weight, core), i, cpu, idle = 1;

	wl_for_few (i, threads, WL_MAX_THREADS) {
		cpu = wl_entry(smt->cpus, first + i);
		wl_read_cpu(p, &out->reads, cpu, wl_reader_distance(p, &s->reader, cpu));
		if (!wl_looks_idle(p, cpu)) {
			idle = 0;
			if (w->idle_cpu >= 0)
				break;
		} else if (w->idle_cpu < 0 && wl_allowed(p, t, cpu)) {
			w->idle_cpu = cpu;
		}
	}
	return idle;
}

/*
 * The walk by cores; of a cluster only if the rest of the LLC comes after it. Returns the CPU
 * claimed, or WL_CPU_NONE.
 */
WL_FN int wl_walk_cores(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			const struct wl_task *t WL_ARG, struct wl_walk *w WL_ARG,
			struct wl_decision *out WL_ARG)
{
	struct wl_level *lv = wl_level_of(p, w->level);
	u32 first = w->first, span = w->span, start = w->start, i, cpu;
	int found = WL_CPU_NONE;

	wl_line_step(p, WL_STEP_CORE);
	wl_for (i, 0, span) {
		cpu = wl_entry(lv->cpus, first + wl_wrap(start + i, span));
		if (w->skips && wl_shares_cluster(p, cpu, s->target))
			continue;
		if (!wl_allowed(p, t, cpu) || wl_walk_was_at_core(p, w, t, cpu, i))
			continue;
		s->candidate = cpu;
		if (wl_walk_core(p, s, t, w, out) && wl_take_idle(p, cpu, out)) {
			found = cpu;
			break;
		}
	}
	out->reason = WL_REASON_IDLE_CORE;
	if (found >= 0 || w->level != p->topo.llc_level)
		return found;
	wl_write_once(wl_llc_record(p, s->target)->scan_llc.has_idle_cores, 0);
	wl_wrote_llc(p, wl_llc_first(p, s->target));
	out->reason = WL_REASON_IDLE_CPU;
	if (w->idle_cpu >= 0 && wl_take_idle(p, w->idle_cpu, out))
		found = w->idle_cpu;
	return found;
}

WL_FN int wl_search_merged(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			   const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	struct wl_cpu *record = wl_llc_record(p, s->target);
	u32 is_util = wl_axis(p, scan_form) == WL_SCAN_UTIL;
	struct wl_walk w = wl_walk_from(p, s->target, is_util);
	u32 smt = p->topo.smt_level, cores = 0;
	int cpu = wl_llc_first(p, s->target);

	if (smt || is_util)
		wl_read_llc(p, &out->reads, cpu, wl_reader_distance(p, &s->reader, cpu));
	if (smt)
		cores = wl_read_once(record->scan_llc.has_idle_cores);
	if (is_util && smt && !cores && wl_shares_llc(p, s->prev, s->target)) {
		out->reason = WL_REASON_IDLE_SIBLING;
		s->candidate = wl_domain_first(p, 1, s->prev);
		cpu = wl_take_in_domain(p, s, t, 1, out);
		if (cpu >= 0)
			return cpu;
	}
	out->reason = WL_REASON_IDLE_CPU;
	if (is_util && !wl_read_once(record->scan_llc.nr_idle_scan))
		return WL_CPU_NONE;
	if (cores) {
		if (wl_packs(p)) {
			wl_walk_in(p, &w, s->target, p->topo.llc_level - 1);
			cpu = wl_walk_cores(p, s, t, &w, out);
			if (cpu >= 0)
				return cpu;
			wl_walk_on(p, &w, s->target);
		}
		return wl_walk_cores(p, s, t, &w, out);
	}
	w.visits = is_util ? wl_read_once(record->scan_llc.nr_idle_scan)
			   : wl_visits(p, s->this_cpu, w.span);
	cpu = wl_walk_cpus_near(p, s, t, &w, out);
	if (is_util)
		out->scan_timed = 0;
	return cpu;
}

/* ------------------------------------------------------------------ the limit of form=util */

/* Is the limit of form=util kept, and with it the utilization of CPUs? */
WL_INLINE u32 wl_idle_reads_util(struct wl_policy *p)
{
	return wl_axis(p, idle) == WL_IDLE_SCAN && wl_axis(p, scan_form) == WL_SCAN_UTIL;
}

/* Start value of the limit of an LLC, kept in its first CPU's record. */
WL_INLINE void wl_idle_scan_init(struct wl_policy *p, u32 cpu)
{
	struct wl_level *llc = wl_level_of(p, p->topo.llc_level);

	wl_cpu_of(p, cpu)->scan_llc.nr_idle_scan =
		wl_entry(llc->weight, wl_entry(llc->dom_of, cpu));
}

/* How many CPUs of an LLC of `span` may be visited, at this sum of scaled utilizations. */
WL_INLINE u32 wl_idle_scan_limit(u64 util_sum, u32 span)
{
	u64 x = wl_div(util_sum >> WL_UTIL_SHIFT, span);
	u64 less = x * x * WL_IDLE_SCAN_PCT * WL_IDLE_SCAN_PCT / (10000 * 1024);

	return less < 1024 ? span * (1024 - less) / 1024 : 0;
}

/* A tick on cpu: computes the limit of its LLC if that is due. */
WL_FN int wl_idle_scan_update(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns,
			      struct wl_reads *reads WL_ARG)
{
	struct wl_level *llc = wl_level_of(p, p->topo.llc_level);
	struct wl_cpu *record = wl_llc_record(p, cpu);
	u32 dom = wl_entry(llc->dom_of, cpu), first = wl_entry(llc->first, dom);
	u32 span = wl_entry(llc->weight, dom), i, other;
	u64 sum = 0;

	if (now_ns < wl_read_once(record->scan_llc.due_ns))
		return 0;
	wl_write_once(record->scan_llc.due_ns, now_ns + span * WL_IDLE_SCAN_AGE_NS);
	wl_for (i, 0, span) {
		other = wl_entry(llc->cpus, first + i);
		wl_read_cpu(p, reads, other, wl_distance(p, cpu, other));
		sum += wl_util_cpu(p, other, now_ns);
	}
	wl_write_once(record->scan_llc.nr_idle_scan, wl_idle_scan_limit(sum, span));
	wl_wrote_llc(p, wl_entry(llc->cpus, first));
	return 0;
}

#endif /* WL_IDLE_MERGED_H */
