/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * idle_nearest.h - idle=nearest: an exact search whose cost does not grow with the LLC.
 *
 * It reads the words of block.h: those of target's LLC say which blocks have an idle core and which an
 * idle CPU, those of a block which ones. In this order, stopping at the first that can be claimed:
 *   1. an idle core of target's block		(machines with SMT)
 *   2. an idle core of another block of the LLC
 *   3. an idle CPU of target's block
 *   4. an idle CPU of another block of the LLC
 * Other blocks are visited from a rotor of the searching CPU on, wrapping. Inside a block, CPUs (of
 * cores: any thread counts) that turned idle in this period of 65 us come first, then those of the
 * period before, then the rest: how long a CPU has idled says how deeply it sleeps, and this is as
 * exact as two words make it. Of equals, the first from target's bit on, wrapping. A core must
 * really be idle: all its threads are looked at, and its first allowed CPU is taken. A CPU must look
 * idle and be claimed (wl_take_idle); a bit that was stale is cleared, and the search goes on.
 * Blocks whose idle CPUs are not allowed are left as they are.
 *
 * Example, one LLC of 2 blocks of 2 cores x 2 threads, CPU c and c + 4 sharing a core, all known to be
 * busy but 2, 6 and 5; target 0. Summary of cores: block 1. Its idle word is that of CPUs 2 and 6; core
 * {2, 6} is idle: CPU 2, after reading target, the summary, block 1 and CPUs 2 and 6. Were 6 busy, no
 * block had an idle core, and CPU 5 of target's own block would be taken: target, summary, block 0, CPU 5.
 *
 * Cost: if nothing idles, target, prev and one summary line, whatever the LLC's size. Else, for a task that
 * may run anywhere, two words of blocks at most and the CPU or core taken; a lost claim or a stale bit
 * adds a CPU each, and the stale bit is gone then. With affinity, at worst every block that has an
 * idle CPU; within a block CPUs are told apart without reading them. It fails where the summary goes
 * to and fro between empty and not (block.h), and it does not look beyond the LLC.
 */
#ifndef WL_IDLE_NEAREST_H
#define WL_IDLE_NEAREST_H

#include "block.h"

/* Of the candidates (bits of a block, not 0), the one to try first, from bit `slot` on. */
WL_INLINE u32 wl_nearest_slot(struct wl_policy *p, const struct wl_search *s,
			      const struct wl_block *b, u64 candidates, u32 slot)
{
	u32 age = (u32)(s->now_ns >> WL_RECENT_SHIFT) - wl_get(b->recent_period);
	u64 recent = age == 0 ? wl_get(b->recent) : 0;
	u64 before = age == 0 ? wl_get(b->before) : age == 1 ? wl_get(b->recent) : 0;
	u64 later;

	if (s->cores_searched) {
		recent = wl_any_of_core(p, recent);
		before = wl_any_of_core(p, before);
	}
	if (candidates & recent)
		candidates &= recent;
	else if (candidates & before)
		candidates &= before;
	later = candidates & (~0ULL << (slot & 63));
	return wl_lowest_bit(later ? later : candidates);
}

/*
 * Reads the threads of s->candidate's core until one does not idle, which is s->candidate then.
 * Returns 1 if all idle.
 */
WL_FN int wl_nearest_core(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			  struct wl_decision *out WL_ARG)
{
	struct wl_level *smt = wl_level_of(p, p->topo.smt_level);
	u32 core = wl_entry(smt->dom_of, s->candidate);
	u32 first = wl_entry(smt->first, core), span = wl_entry(smt->weight, core), i, cpu;
	int idle = 1;

	wl_for (i, 0, span) {
		cpu = wl_entry(smt->cpus, first + i);
		wl_read_cpu(p, &out->reads, cpu, wl_reader_distance(p, &s->reader, cpu));
		if (!wl_looks_idle(p, cpu)) {
			s->candidate = cpu;
			idle = 0;
			break;
		}
	}
	return idle;
}

/*
 * What the search may take of s->candidate, having looked at it: its core's first allowed CPU if
 * s->cores_searched, else itself; or WL_CPU_NONE.
 */
WL_INLINE int wl_nearest_candidate(struct wl_policy *p, struct wl_search *s,
				   const struct wl_task *t, struct wl_decision *out)
{
	struct wl_level *smt = wl_level_of(p, p->topo.smt_level);
	u32 cpu = s->candidate;
	int found = cpu;

	if (s->cores_searched) {
		found = wl_first_allowed(p, t, p->topo.smt_level, wl_entry(smt->dom_of, cpu), 0);
		if (found < 0)
			return found;
		s->candidate = found;
		return wl_nearest_core(p, s, out) ? found : WL_CPU_NONE;
	}
	if (!wl_allowed(p, t, cpu))
		return WL_CPU_NONE;
	wl_read_cpu(p, &out->reads, cpu, wl_reader_distance(p, &s->reader, cpu));
	return found;
}

/*
 * An idle CPU of a block, or one of an idle core if s->cores_searched. Returns the CPU claimed, or
 * WL_CPU_NONE.
 */
WL_FN int wl_nearest_in_block(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			      const struct wl_task *t WL_ARG, u32 block,
			      struct wl_decision *out WL_ARG)
{
	struct wl_block *b = wl_block_at(p, block);
	u32 own = block == wl_entry(p->topo.block_of, s->target), i, at;
	u64 left = ~0ULL, word;
	int cpu, found = WL_CPU_NONE;

	wl_read_block(p, &out->reads, block,
		      wl_reader_distance(p, &s->reader, wl_block_first(p, b, block)));
	wl_for (i, 0, 64) {
		word = wl_read_once(b->idle);
		word = (s->cores_searched ? wl_whole_cores(p, b, word) : word) & left;
		if (!word)
			break;
		at = wl_nearest_slot(p, s, b, word, own ? wl_entry(p->topo.slot_of, s->target) : 0);
		left &= ~(1ULL << (at & 63));
		s->candidate = wl_block_cpu(p, block, at);
		cpu = wl_nearest_candidate(p, s, t, out);
		if (cpu >= 0 && wl_take_idle(p, cpu, out)) {
			found = cpu;
			break;
		}
		if (!wl_looks_idle(p, s->candidate))
			wl_block_clear(p, s->candidate);
	}
	return found;
}

/*
 * Steps 1 and 2 if s->cores_searched, else 3 and 4: target's block, then others from the rotor on. Returns
 * the CPU claimed, or WL_CPU_NONE.
 */
WL_FN int wl_nearest_in_llc(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			    const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	u32 llc_first = wl_llc_first(p, s->target);
	struct wl_cpu *llc = wl_cpu_of(p, llc_first), *me = wl_cpu_of(p, s->this_cpu);
	u32 own = wl_entry(p->topo.block_of, s->target);
	u32 base = wl_entry(p->topo.block_of, llc_first), nr = llc->nr_blocks, rotor, i, at;
	u64 left = s->cores_searched ? wl_read_once(llc->core_blocks)
				     : wl_read_once(llc->idle_blocks),
	    later;
	int cpu = WL_CPU_NONE;

	out->reason = s->cores_searched ? WL_REASON_NEAR_CORE : WL_REASON_NEAR_CPU;
	at = own - base;
	if (left >> (at & 63) & 1) {
		cpu = wl_nearest_in_block(p, s, t, own, out);
		left &= ~(1ULL << (at & 63));
	}
	if (cpu >= 0 || !left)
		return cpu;
	out->reason = s->cores_searched ? WL_REASON_IDLE_CORE : WL_REASON_IDLE_CPU;
	rotor = wl_get(me->rotor);
	me->rotor = rotor + 1;
	at = nr ? rotor % nr : 0;
	wl_for (i, 0, 64) {
		if (!left)
			break;
		later = left & (~0ULL << (at & 63));
		at = wl_lowest_bit(later ? later : left);
		left &= ~(1ULL << (at & 63));
		cpu = wl_nearest_in_block(p, s, t, base + at, out);
		if (cpu >= 0)
			break;
	}
	return cpu;
}

WL_INLINE int wl_search_nearest(struct wl_policy *p, struct wl_search *s, const struct wl_task *t,
				struct wl_decision *out)
{
	u32 first = wl_llc_first(p, s->target);
	struct wl_cpu *llc = wl_cpu_of(p, first);
	int cpu = WL_CPU_NONE;

	wl_read_llc(p, &out->reads, first, wl_reader_distance(p, &s->reader, first));
	if (s->now_ns + WL_WANTED_NS / 2 > wl_read_once(llc->wanted_until_ns)) {
		wl_write_once(llc->wanted_until_ns, s->now_ns + WL_WANTED_NS);
		wl_wrote_llc(p, first);
	}
	if (wl_read_once(llc->core_blocks)) {
		s->cores_searched = 1;
		cpu = wl_nearest_in_llc(p, s, t, out);
		s->cores_searched = 0;
	}
	if (cpu < 0 && wl_read_once(llc->idle_blocks))
		cpu = wl_nearest_in_llc(p, s, t, out);
	return cpu;
}

#endif /* WL_IDLE_NEAREST_H */
