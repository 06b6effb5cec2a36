/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * idle_narrow.h - idle=narrow: `scan` in its form 5.2, but the idle-CPU step does not look again at
 * CPUs that the idle-core step has just found busy.
 *
 * If there is no idle core, step 1 of idle_scan.h reads every CPU of the LLC. Here it also notes
 * each CPU that it finds busy. Step 2 visits the remaining allowed CPUs of the LLC, from target on,
 * wrapping, with the limit of form 5.2 (SIS_PROP); CPUs that are not allowed do not use up the
 * limit. If step 1 did not run (has_idle_cores was clear, or there is no SMT), nothing was noted
 * and step 2 visits all allowed CPUs: a task that may run anywhere is then placed as by scan. Step
 * 3 is scan's, and so is the look at the recent CPU before. A CPU that was idle but was claimed by
 * another wake-up is not noted.
 *
 * A note is one bit for a CPU of the LLC, by its place there, in the searching CPU's own part of
 * the policy's state (scratch[]), because 16 words for 1,024 CPUs do not fit a BPF stack. No other
 * CPU reads the notes, so they cost no transfers, and reads of them are not counted.
 *
 * Example: one LLC of 4 cores x 2 threads; CPU c and c + 4 share a core; target is 1; 3 and 6 are
 * idle; the wake-up is on CPU 1. Step 1 reads all 8 CPUs and notes 1, 5, 2, 7, 0 and 4. Step 2 has
 * 3 and 6 left, and takes CPU 3 after one read, where scan reads 1, 2 and 3. If 0 and 6 are idle
 * and the limit is 4, scan visits 1, 2 and 3 and finds nothing; here 6 comes first, and is taken.
 *
 * Cost: the LLC once. Nothing is gained where step 1 is skipped or succeeds, which is most of the
 * time: step 1 runs in vain once after each time that a core went idle. A CPU that goes idle
 * between the two steps is missed.
 */
#ifndef WL_IDLE_NARROW_H
#define WL_IDLE_NARROW_H

#include "idle_scan.h"

/* Step 1. Returns the CPU claimed, or WL_CPU_NONE. */
WL_FN int wl_narrow_core(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			 const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	return wl_read_cores(p, s, t, 1, out);
}

/*
 * Step 2 in target's cluster, if wake-ups stay near. CPUs visited there are noted, so that they are
 * not visited again. Returns the CPU claimed, or WL_CPU_NONE. *visits is what is left of the limit,
 * or ~0u if the limit stopped the step.
 */
WL_INLINE int wl_narrow_near(struct wl_policy *p, const struct wl_search *s,
			     const struct wl_task *t, u32 *visits, struct wl_decision *out)
{
	struct wl_level *llc = wl_level_of(p, p->topo.llc_level),
			*cls = wl_level_of(p, p->topo.llc_level - 1);
	u32 cluster = wl_entry(cls->dom_of, s->target), first = wl_entry(cls->first, cluster);
	u32 span = wl_entry(cls->weight, cluster), i, at, cpu;
	u32 start = wl_entry(cls->pos, s->target) - first;
	u32 llc_first = wl_entry(llc->first, wl_entry(llc->dom_of, s->target));
	int found = WL_CPU_NONE;

	wl_for (i, 0, span) {
		cpu = wl_entry(cls->cpus, first + wl_wrap(start + i, span));
		at = wl_entry(llc->pos, cpu) - llc_first;
		if (*wl_noted_word(p, s->this_cpu, at / 64) >> (at & 63) & 1)
			continue;
		if (!wl_allowed(p, t, cpu))
			continue;
		if (!*visits) {
			*visits = ~0u;
			break;
		}
		--*visits;
		wl_note(p, s->this_cpu, cpu);
		if (wl_visit(p, s, cpu, out)) {
			found = cpu;
			break;
		}
	}
	return found;
}

/* Step 2, if step 1 ran. Returns the CPU claimed, or WL_CPU_NONE. */
WL_FN int wl_narrow_cpu(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG,
			const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	struct wl_level *llc = wl_level_of(p, p->topo.llc_level);
	u32 dom = wl_entry(llc->dom_of, s->target);
	u32 first = wl_entry(llc->first, dom), span = wl_entry(llc->weight, dom);
	u32 start = wl_entry(llc->pos, s->target) - first;
	u32 visits = wl_visits(p, s->this_cpu, span), stopped = 0;
	u32 words = (span + 63) / 64, i, j, word, nr, cpu;
	u64 left, upper = ~0ULL << (start & 63);
	int found = WL_CPU_NONE;

	wl_line_step(p, WL_STEP_CPU);
	if (wl_packs(p)) {
		found = wl_narrow_near(p, s, t, &visits, out);
		out->scan_timed = visits != ~0u;
		if (found >= 0 || visits == ~0u)
			return found;
	}
	/*
	 * Word by word, and target's word twice: first from target on, at the end what is before
	 * it.
	 */
	wl_for (i, 0, words + 1) {
		word = wl_wrap(start / 64 + i, words);
		left = ~*wl_noted_word(p, s->this_cpu, word);
		if (i == 0)
			left &= upper;
		if (i == words)
			left &= ~upper;
		if (span - word * 64 < 64)
			left &= (1ULL << (span & 63)) - 1;
		nr = wl_popcount(left);
		wl_for (j, 0, nr) {
			cpu = wl_entry(llc->cpus,
				       first + word * 64 + wl_popcount((left & -left) - 1));
			left &= left - 1;
			if (!wl_allowed(p, t, cpu))
				continue;
			if (!visits) {
				stopped = 1;
				break;
			}
			visits--;
			if (wl_visit(p, s, cpu, out)) {
				found = cpu;
				break;
			}
		}
		if (stopped || found >= 0)
			break;
	}
	out->scan_timed = !stopped;
	return found;
}

WL_FN int wl_search_narrow(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			   const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	u32 smt = p->topo.smt_level;
	int cpu = WL_CPU_NONE;

	if (smt) {
		cpu = wl_narrow_core(p, s, t, out);
		out->reason = WL_REASON_IDLE_CORE;
	}
	if (cpu < 0) {
		cpu = s->cores_searched ? wl_narrow_cpu(p, s, t, out)
					: wl_scan_cpu(p, s, t, 0, out);
		out->reason = WL_REASON_IDLE_CPU;
	}
	if (cpu < 0 && smt)
		cpu = wl_scan_sibling(p, s, t, out);
	return cpu;
}

#endif /* WL_IDLE_NARROW_H */
