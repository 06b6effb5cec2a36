/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * idle_scan.h - idle=scan, form=4.15 and form=5.2: three walks through target's LLC for an idle
 * CPU.
 *
 *   1. Idle core (SMT machines, while the LLC's has_idle_cores is set). Visits every core from
 *      target's on, wrapping, and reads every thread of each with no early exit. Takes the first
 *      allowed CPU of the first wholly idle core. The first is the one that comes first from target
 *      on, wrapping: Linux walks over CPUs, and returns the one at which it came to the core
 *      (select_idle_core()). So a search that begins at a second thread finds second threads. If
 *      there is no idle core, has_idle_cores is cleared, even if affinity or a lost claim hid the
 *      idle cores.
 *   2. Idle CPU, one by one from target on (idle_visit.h), with the limit of SIS_PROP; CPUs that
 *      are not allowed use up the limit. idle=narrow has another step 2 (idle_narrow.h).
 *   3. Idle sibling (SMT machines). The threads of target's own core.
 * has_idle_cores counts as one read, of the LLC's first CPU. Form 5.2 differs in what comes before:
 * the task's recent CPU, on which it ran before prev, is taken if it shares the LLC and is idle.
 *
 * Example: one LLC of 4 cores x 2 threads; CPU c and c + 4 share a core; target is 1; only 3, 6 and
 * 7 are idle; the wake-up is on CPU 1. Step 1 reads cores {1,5} {2,6} {3,7}: core {3,7} is idle,
 * and CPU 3 is taken after 6 reads and the flag's. With target 5 it would be CPU 7. If 7 were busy,
 * step 1 would read all 8 CPUs in vain. Then step 2, with avg_idle 1 ms and avg_scan 0: idle is
 * 1953 and cost is 1, so the limit is far beyond the span; it visits 1, 2 and 3, and takes CPU 3
 * after 3 reads. With avg_scan 8 us and avg_idle 10 us, 8 * 19 is below 4 * 8001, so the limit is 4
 * and three CPUs are visited: 1, 2, 3.
 *
 * Cost: up to the whole LLC twice. It fails on large busy LLCs, where either the walk is long or
 * the limit hides idle CPUs.
 */
#ifndef WL_IDLE_SCAN_H
#define WL_IDLE_SCAN_H

#include "idle_visit.h"

/* ------------------------------------------------------------------ the LLC's has_idle_cores */

/* Start value of what belongs to cpu. */
WL_INLINE void wl_cores_init(struct wl_policy *p, u32 cpu)
{
	wl_cpu_of(p, cpu)->scan_llc.has_idle_cores = 1;
}

/* Are all CPUs of cpu's core idle? */
WL_INLINE u32 wl_core_is_idle(struct wl_policy *p, u32 cpu)
{
	struct wl_level *smt = wl_level_of(p, p->topo.smt_level);
	u32 core = wl_entry(smt->dom_of, cpu);
	u32 first = wl_entry(smt->first, core), span = wl_entry(smt->weight, core), idle = 1;
	u32 i, other;

	wl_for_few (i, span, WL_MAX_THREADS) {
		other = wl_entry(smt->cpus, first + i);
		wl_line_read(p, WL_LINE_CPU + other, other == cpu ? WL_DIST_CPU : WL_DIST_SMT);
		if (!wl_looks_idle(p, other)) {
			idle = 0;
			break;
		}
	}
	return idle;
}

/* cpu turned idle: if its whole core is idle, notes that in its LLC. */
WL_INLINE void wl_cores_idle(struct wl_policy *p, u32 cpu)
{
	u32 first = wl_llc_first(p, cpu);
	struct wl_cpu *llc = wl_cpu_of(p, first);

	if (!p->topo.smt_level)
		return;
	wl_line_read(p, WL_LINE_LLC + first, WL_DIST_LLC);
	if (!wl_read_once(llc->scan_llc.has_idle_cores) && wl_core_is_idle(p, cpu)) {
		wl_write_once(llc->scan_llc.has_idle_cores, 1);
		wl_wrote_llc(p, first);
	}
}

/* ------------------------------------------------------------------ notes of busy CPUs */

/* A word of the notes of a search on `cpu`, in which each CPU of the LLC has a bit. */
WL_INLINE u64 *wl_noted_word(struct wl_policy *p, u32 cpu, u32 word)
{
	wl_hide(cpu);
	wl_hide(word);
	return &p->scratch[cpu & (WL_MAX_CPUS - 1)].word[word & (WL_MASK_WORDS - 1)];
}

/* A search on `cpu` begins in an LLC of `span` CPUs: clears the notes. */
WL_INLINE void wl_note_none(struct wl_policy *p, u32 cpu, u32 span)
{
	u32 words = (span + 63) / 64, i;

	wl_for (i, 0, words)
		*wl_noted_word(p, cpu, i) = 0;
}

/* Notes that the search on `cpu` need not look at `busy` again. */
WL_INLINE void wl_note(struct wl_policy *p, u32 cpu, u32 busy)
{
	struct wl_level *llc = wl_level_of(p, p->topo.llc_level);
	u32 at = wl_entry(llc->pos, busy) - wl_entry(llc->first, wl_entry(llc->dom_of, busy));

	*wl_noted_word(p, cpu, at / 64) |= 1ULL << (at & 63);
}

/* ------------------------------------------------------------------ the steps */

/*
 * Reads all of the core of s->candidate, with no early exit. Returns its first allowed CPU from
 * target on if all are idle, else WL_CPU_NONE. notes: whether to note busy CPUs; a constant.
 */
WL_INLINE int wl_read_core(struct wl_policy *p, const struct wl_search *s, const struct wl_task *t,
			   u32 notes, struct wl_decision *out)
{
	struct wl_level *smt = wl_level_of(p, p->topo.smt_level);
	u32 first = wl_entry(smt->first, s->candidate), span = wl_entry(smt->weight, s->candidate);
	u32 i, cpu, busy = 0;
	int found = WL_CPU_NONE;

	/*
	 * wl_for_few will not do: because there is no early exit, the verifier would follow every
	 * path through every turn.
	 */
	wl_for (i, 0, span) {
		cpu = wl_entry(smt->cpus, first + i);
		wl_read_cpu(p, &out->reads, cpu, wl_reader_distance(p, &s->reader, cpu));
		if (!wl_looks_idle(p, cpu)) {
			busy = 1;
			if (notes)
				wl_note(p, s->this_cpu, cpu);
		}
		/* A core's CPUs ascend, and a walk from target on comes to higher CPUs first. */
		if ((found < 0 || ((u32)found < s->target && cpu >= s->target)) &&
		    wl_allowed(p, t, cpu))
			found = cpu;
	}
	return busy ? WL_CPU_NONE : found;
}

WL_FN int wl_scan_one_core(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG,
			   const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	return wl_read_core(p, s, t, 0, out);
}

WL_FN int wl_note_one_core(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG,
			   const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	return wl_read_core(p, s, t, 1, out);
}

/* Step 1. Returns the CPU claimed, or WL_CPU_NONE. notes: as for wl_read_core(). */
WL_INLINE int wl_read_cores(struct wl_policy *p, struct wl_search *s, const struct wl_task *t,
			    u32 notes, struct wl_decision *out)
{
	struct wl_level *llc = wl_level_of(p, p->topo.llc_level),
			*smt = wl_level_of(p, p->topo.smt_level);
	struct wl_cpu *record = wl_llc_record(p, s->target);
	u32 dom = wl_entry(llc->dom_of, s->target);
	u32 first = wl_entry(llc->first, dom), last = first + wl_entry(llc->weight, dom) - 1;
	/*
	 * A domain has the same range of cpus[] at every level, so the LLC's cores are the SMT
	 * domains of this range.
	 */
	u32 first_core = wl_entry(smt->dom_of, wl_entry(smt->cpus, first));
	u32 nr = wl_entry(smt->dom_of, wl_entry(smt->cpus, last)) + 1 - first_core;
	u32 start = wl_entry(smt->dom_of, s->target) - first_core, near = 0, near_first = 0, i,
	    index;
	int cpu, found = WL_CPU_NONE;

	cpu = wl_entry(llc->cpus, first);
	wl_read_llc(p, &out->reads, cpu, wl_reader_distance(p, &s->reader, cpu));
	if (!wl_read_once(record->scan_llc.has_idle_cores))
		return WL_CPU_NONE;
	wl_line_step(p, WL_STEP_CORE);
	s->cores_searched = 1;
	if (notes)
		wl_note_none(p, s->this_cpu, last + 1 - first);
	if (wl_packs(p)) {
		/* The cores of target's cluster, which are consecutive, come first. */
		struct wl_level *cls = wl_level_of(p, p->topo.llc_level - 1);
		u32 cluster = wl_entry(cls->dom_of, s->target);

		near = wl_entry(cls->nr_child, cluster);
		near_first = wl_entry(cls->child, cluster) - first_core;
	}
	wl_for (i, 0, near + nr) {
		if (i < near) {
			index = near_first + wl_wrap(start - near_first + i, near);
		} else {
			index = wl_wrap(start + i - near, nr);
			if (index - near_first < near)
				continue;
		}
		s->candidate = first_core + index;
		cpu = notes ? wl_note_one_core(p, s, t, out) : wl_scan_one_core(p, s, t, out);
		if (cpu >= 0 && wl_take_idle(p, cpu, out)) {
			found = cpu;
			break;
		}
	}
	if (found < 0) {
		wl_write_once(record->scan_llc.has_idle_cores, 0);
		wl_wrote_llc(p, wl_entry(llc->cpus, first));
	}
	return found;
}

WL_FN int wl_scan_core(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
		       const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	return wl_read_cores(p, s, t, 0, out);
}

/*
 * Step 2. Returns the CPU claimed, or WL_CPU_NONE. counts_all: CPUs that are not allowed use up the
 * limit.
 */
WL_INLINE int wl_scan_cpu(struct wl_policy *p, const struct wl_search *s, const struct wl_task *t,
			  u32 counts_all, struct wl_decision *out)
{
	struct wl_walk w = wl_walk_from(p, s->target, 0);

	w.visits = wl_visits(p, s->this_cpu, w.span);
	w.counts_all = counts_all;
	return wl_walk_cpus_near(p, s, t, &w, out);
}

/* Step 3. Returns the CPU claimed, or WL_CPU_NONE. */
WL_INLINE int wl_scan_sibling(struct wl_policy *p, struct wl_search *s, const struct wl_task *t,
			      struct wl_decision *out)
{
	s->candidate = wl_domain_first(p, 1, s->target);
	wl_line_step(p, WL_STEP_REST);
	out->reason = WL_REASON_IDLE_SIBLING;
	return wl_take_in_domain(p, s, t, 1, out);
}

WL_FN int wl_search_scan(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			 const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	u32 smt = p->topo.smt_level;
	int cpu = WL_CPU_NONE;

	if (smt) {
		cpu = wl_scan_core(p, s, t, out);
		out->reason = WL_REASON_IDLE_CORE;
	}
	if (cpu < 0) {
		cpu = wl_scan_cpu(p, s, t, 1, out);
		out->reason = WL_REASON_IDLE_CPU;
	}
	if (cpu < 0 && smt)
		cpu = wl_scan_sibling(p, s, t, out);
	return cpu;
}

/*
 * Adds the timed step's part of the time of a whole wl_select() to the average of the CPU that
 * searched.
 */
WL_INLINE void wl_scan_average(struct wl_policy *p, u32 cpu, const struct wl_decision *d,
			       u64 elapsed_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u64 all = 0, step = 0;
	u32 i;

	if (!d->scan_timed)
		return;
	wl_for_few (i, WL_NR_DIST, WL_NR_DIST) {
		all += d->reads.at[i];
		step += d->step_reads.at[i];
	}
	elapsed_ns = wl_div(elapsed_ns * step, all);
	c->avg_scan_ns = wl_average(c->avg_scan_ns, elapsed_ns);
	if (wl_axis(p, scan_form) == WL_SCAN_AGED)
		c->scan_room_ns -= elapsed_ns < c->scan_room_ns ? elapsed_ns : c->scan_room_ns;
}

#endif /* WL_IDLE_SCAN_H */
