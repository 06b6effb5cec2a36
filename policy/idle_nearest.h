/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * idle_nearest.h - idle=nearest: an exact search whose cost does not grow with the LLC.
 *
 * It reads the bitmaps of block.h: those of target's LLC say which blocks have an idle core and
 * which have an idle CPU; those of a block say which cores and CPUs. It searches in this order, and
 * stops at the first CPU that it can claim:
 *   1. an idle core of target's block		(machines with SMT)
 *   2. an idle core of another block of the LLC
 *   3. an idle CPU of target's block
 *   4. an idle CPU of another block of the LLC
 *   5. the same in another LLC, the nearest that has one, if that is worth it
 * Other blocks are visited from a rotor of the searching CPU on, wrapping. Inside a block, CPUs
 * that turned idle in the current period of 65 us come first, then those of the period before, then
 * the rest (of a core, any thread counts). How long a CPU has been idle says how deeply it sleeps,
 * and two bitmaps distinguish three ages. Of equals, the first from target's bit on is taken,
 * wrapping. A core must really be idle: the search looks at all its threads, and takes the first
 * allowed CPU. A CPU must look idle, and be claimed (wl_take_idle); a stale bit is cleared, and the
 * search goes on. Blocks whose idle CPUs are all disallowed are left as they are.
 *
 * A task that searches have moved twice in a row has no CPU to return to: its block has more tasks
 * than CPUs, and any CPU that it gets there is taken from another task, which then searches too.
 * For such a task target's block comes last, so that it leaves the block. A wake-up that finds
 * target or prev idle ends this state.
 *
 * The search goes to another LLC only while the expected wait exceeds the cost of migrating there.
 * Expected wait: target's running task is expected to run on for as long as it has already run, and
 * so is each task that waits there. Cost: migration_cost, the time in which a cache refills, times
 * the distance of the nodes relative to a node's distance from itself (ACPI's 10). LLCs that have a
 * bit are searched as target's was: domain by domain from target's LLC outwards, as far as wake-ups
 * may go, and in ring order inside a domain. An LLC where nothing is left loses its bit.
 *
 * Example: one LLC of 2 blocks of 2 cores x 2 threads; CPU c and c + 4 share a core; all CPUs are
 * known to be busy except 2, 6 and 5; target is 0. The summary of cores has block 1. The idle
 * bitmap of block 1 has CPUs 2 and 6, and core {2, 6} is idle: CPU 2 is taken, after reading
 * target, the summary, block 1, and CPUs 2 and 6. If 6 were busy, no block would have an idle core,
 * and CPU 5 of target's own block would be taken, after target, summary, block 0 and CPU 5.
 *
 * Example: two nodes of one LLC each at distance 20; migration_cost is 500 us, so that a migration
 * to the other node costs 1 ms. All of target's LLC is busy. Its task has run for 600 us: the wakee
 * waits. If one more task waits there, the expected wait is 1,200 us, and an idle CPU of the other
 * node is taken, after target's lines, the summary, the LLCs' bits, and there summary, block and
 * CPU.
 *
 * Example: one LLC of 2 blocks of 4 CPUs. A task that last ran on CPU 0 wakes while CPU 0 is busy,
 * and CPU 1 and block 1 are idle: it gets CPU 1. The next time 1 is busy and 2 idle: CPU 2. Then 2
 * is busy and 3 idle: CPU 4, in block 1. It stays there while 4 is idle when it wakes.
 *
 * Cost: if nothing is idle, target, prev and one summary line, whatever the LLC's size, and no
 * write. Else, for a task that may run anywhere, at most two blocks' words, and the CPU or core
 * that is taken; a lost claim or a stale bit adds a CPU each, and the stale bit is then gone. Step
 * 5 adds a read of target's running task and, if migrating is worth it, one read of the LLCs' bits
 * per level and two or three reads for each LLC tried. With affinity, the worst case is every block
 * that has an idle CPU; inside a block, disallowed CPUs are skipped without reading them. It fails
 * where the summary alternates between empty and non-empty (block.h), and where step 5 separates
 * tasks that work on the same data.
 */
#ifndef WL_IDLE_NEAREST_H
#define WL_IDLE_NEAREST_H

#include "block.h"

/* A task that this many searches in a row have moved has no CPU to return to. */
#define WL_NR_MOVED 2

/* A search moved t. */
WL_INLINE void wl_nearest_moved(struct wl_task *t)
{
	if (t->nr_moved < WL_NR_MOVED)
		t->nr_moved++;
}

/* Target or prev was idle. */
WL_INLINE void wl_nearest_stayed(struct wl_task *t)
{
	t->nr_moved = 0;
}

/* t is about to be counted as running on cpu. */
WL_INLINE void wl_nearest_running(struct wl_policy *p, const struct wl_task *t, u32 cpu, u64 now_ns)
{
	if (t->place != WL_PLACE_RUNNING || t->cpu != (s32)cpu)
		wl_write_once(wl_cpu_of(p, cpu)->nearest.picked_ns, now_ns);
}

/* Returns the one of the candidates (bits of a block, not 0) to try first. */
WL_FN u32 wl_nearest_slot(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG, u32 block,
			  u64 candidates)
{
	struct wl_block *b = wl_block_at(p, block);
	u32 own = block == wl_entry(p->topo.block_of, s->target);
	u32 slot = own ? wl_entry(p->topo.slot_of, s->target) : 0;
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
 * Looks at s->candidate, and returns what the search may take: if s->cores_searched, the first
 * allowed CPU of its core if the whole core is idle; else the candidate itself; or WL_CPU_NONE.
 * Sets s->candidate to the CPU looked at last: in a core, a CPU that is not idle if there is one.
 */
WL_FN int wl_nearest_candidate(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			       const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	struct wl_level *lv = wl_level_of(p, s->cores_searched ? p->topo.smt_level : 0);
	u32 dom = wl_entry(lv->dom_of, s->candidate), first = wl_entry(lv->first, dom), i, cpu;
	u32 span = wl_entry(lv->weight, dom);
	int found = WL_CPU_NONE;

	/* wl_first_allowed() is not called, because BPF's calls can go no deeper. */
	wl_for_few (i, span, WL_MAX_THREADS) {
		cpu = wl_entry(lv->cpus, first + i);
		if (wl_allowed(p, t, cpu)) {
			found = cpu;
			break;
		}
	}
	if (found < 0)
		return found;
	s->candidate = found;
	wl_for_few (i, span, WL_MAX_THREADS) {
		cpu = wl_entry(lv->cpus, first + i);
		wl_read_cpu(p, &out->reads, cpu, wl_reader_distance(p, &s->reader, cpu));
		if (s->cores_searched && !wl_looks_idle(p, cpu)) {
			s->candidate = cpu;
			found = WL_CPU_NONE;
			break;
		}
	}
	return found;
}

/*
 * Takes an idle CPU of a block, or a CPU of an idle core if s->cores_searched. Returns the CPU
 * claimed, or WL_CPU_NONE.
 */
WL_FN int wl_nearest_in_block(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			      const struct wl_task *t WL_ARG, u32 block,
			      struct wl_decision *out WL_ARG)
{
	u64 left = ~0ULL, word;
	u32 i, at;
	int cpu = WL_CPU_NONE;

	wl_read_block(p, &out->reads, block,
		      wl_reader_distance(p, &s->reader, wl_block_first(p, block)));
	wl_for_few (i, 64, 64) {
		struct wl_block *b = wl_block_at(p, block);

		word = wl_read_once(b->idle);
		word = (s->cores_searched ? wl_whole_cores(p, b, word) : word) & left;
		if (!word)
			break;
		at = wl_nearest_slot(p, s, block, word);
		left &= ~(1ULL << (at & 63));
		s->candidate = wl_block_cpu(p, block, at);
		cpu = wl_nearest_candidate(p, s, t, out);
		if (cpu >= 0 && wl_take_idle(p, cpu, out))
			break;
		cpu = WL_CPU_NONE;
		if (!wl_looks_idle(p, s->candidate))
			wl_block_clear(p, s->candidate);
	}
	return cpu;
}

/*
 * Steps 1 and 2 if s->cores_searched, else 3 and 4: target's block, then the others from the rotor
 * on; target's block last for a task that has no CPU to return to. Returns the CPU claimed, or
 * WL_CPU_NONE.
 */
WL_FN int wl_nearest_in_llc(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			    const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	u32 llc_first = wl_llc_first(p, s->target);
	struct wl_cpu *llc = wl_cpu_of(p, llc_first), *me;
	u32 own = wl_entry(p->topo.block_of, s->target);
	u32 base = wl_entry(p->topo.block_of, llc_first), nr, rotor, i, at;
	u64 left = s->cores_searched ? wl_read_once(llc->nearest_llc.core_blocks)
				     : wl_read_once(llc->nearest_llc.idle_blocks),
	    later;
	int cpu = WL_CPU_NONE;

	out->reason = s->cores_searched ? WL_REASON_NEAR_CORE : WL_REASON_NEAR_CPU;
	at = own - base;
	if (t->nr_moved < WL_NR_MOVED && left >> (at & 63) & 1)
		cpu = wl_nearest_in_block(p, s, t, own, out);
	left &= ~(1ULL << (at & 63));
	if (cpu >= 0)
		return cpu;
	if (left) {
		out->reason = s->cores_searched ? WL_REASON_IDLE_CORE : WL_REASON_IDLE_CPU;
		/* Looked up here, because BPF's stack has no room for it across the call above. */
		nr = wl_llc_record(p, s->target)->nearest_llc.nr_blocks;
		me = wl_cpu_of(p, s->this_cpu);
		rotor = wl_get(me->rotor);
		me->rotor = rotor + 1;
		at = nr ? rotor % nr : 0;
	}
	wl_for_few (i, 64, 64) {
		if (!left)
			break;
		later = left & (~0ULL << (at & 63));
		at = wl_lowest_bit(later ? later : left);
		left &= ~(1ULL << (at & 63));
		cpu = wl_nearest_in_block(p, s, t, base + at, out);
		if (cpu >= 0)
			break;
	}
	if (cpu < 0 && t->nr_moved >= WL_NR_MOVED) {
		out->reason = s->cores_searched ? WL_REASON_NEAR_CORE : WL_REASON_NEAR_CPU;
		cpu = wl_nearest_in_block(p, s, t, wl_entry(p->topo.block_of, s->target), out);
	}
	return cpu;
}

/* Steps 1 to 4. */
WL_INLINE int wl_nearest_here(struct wl_policy *p, struct wl_search *s, const struct wl_task *t,
			      struct wl_decision *out)
{
	u32 first = wl_llc_first(p, s->target);
	struct wl_cpu *llc = wl_cpu_of(p, first);
	int cpu = WL_CPU_NONE;

	wl_read_llc(p, &out->reads, first, wl_reader_distance(p, &s->reader, first));
	if (!wl_read_once(llc->nearest_llc.idle_blocks))
		return cpu;
	if (s->now_ns + WL_WANTED_NS / 2 > wl_read_once(llc->nearest_llc.wanted_until_ns)) {
		wl_write_once(llc->nearest_llc.wanted_until_ns, s->now_ns + WL_WANTED_NS);
		wl_wrote_llc(p, first);
	}
	if (wl_read_once(llc->nearest_llc.core_blocks)) {
		s->cores_searched = 1;
		cpu = wl_nearest_in_llc(p, s, t, out);
		s->cores_searched = 0;
	}
	if (cpu < 0)
		cpu = wl_nearest_in_llc(p, s, t, out);
	return cpu;
}

/* ------------------------------------------------------------------ beyond the LLC */

/* The expected time that t would wait on target. */
WL_INLINE u64 wl_nearest_wait_ns(struct wl_policy *p, const struct wl_search *s,
				 struct wl_decision *out)
{
	struct wl_cpu *c = wl_cpu_of(p, s->target);
	u64 nr = wl_read_once(c->nr_running) + wl_read_once(c->nr_queued), picked_ns;

	if (!nr)
		return 0;
	wl_read_cpu(p, &out->reads, s->target, wl_reader_distance(p, &s->reader, s->target));
	picked_ns = wl_read_once(c->nearest.picked_ns);
	return s->now_ns > picked_ns ? (s->now_ns - picked_ns) * nr : 0;
}

/* Is the wait worth migrating to another LLC of target's domain at a level? */
WL_INLINE u32 wl_nearest_is_worth(struct wl_policy *p, u32 level, u64 wait_ns)
{
	struct wl_level *lv = wl_level_of(p, level);

	return lv->wake_affine &&
	       wait_ns * WL_LOCAL_DISTANCE > p->params.migration_cost_ns * lv->distance;
}

/*
 * Does any LLC except target's have its bit? Reads the bits if they are in one word; if in more,
 * returns 1.
 */
WL_INLINE u32 wl_nearest_any(struct wl_policy *p, const struct wl_search *s,
			     struct wl_decision *out)
{
	struct wl_level *llcs = wl_level_of(p, p->topo.llc_level);

	wl_read_idle_llcs(p, &out->reads, s->target);
	if (llcs->nr_doms > 64)
		return 1;
	return (wl_read_once(p->idle_llcs[0]) &
		~(1ULL << (wl_entry(llcs->dom_of, s->target) & 63))) != 0;
}

/*
 * Looks through the LLCs of target's domain at a level, in ring order from target's own (place 0),
 * starting at `place`, for the first that has its bit and an allowed CPU. Moves s->target into it
 * and returns the place behind it, or 0.
 */
WL_FN u32 wl_nearest_along(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			   const struct wl_task *t WL_ARG, u32 level, u32 place)
{
	struct wl_level *lv = wl_level_of(p, level), *llcs = wl_level_of(p, p->topo.llc_level);
	u32 dom = wl_entry(lv->dom_of, s->target), index = wl_entry(lv->first, dom);
	/* A domain has the same range of cpus[] at every level. */
	u32 first = wl_entry(llcs->dom_of, wl_entry(llcs->cpus, index));
	u32 last =
		wl_entry(llcs->dom_of, wl_entry(llcs->cpus, index + wl_entry(lv->weight, dom) - 1));
	u32 own = wl_entry(llcs->dom_of, s->target), span = last + 1 - first;
	u32 i, llc, end, found = 0;

	wl_for (i, 0, span) {
		if (place >= span)
			break;
		llc = first + wl_wrap(own - first + place, span);
		end = llc > own ? last + 1 : own;
		place -= llc;
		llc = wl_next_bit(p->idle_llcs, WL_MASK_WORDS, llc, end);
		place += llc;
		if (llc == end)
			continue;
		place++;
		if (wl_first_allowed(p, t, p->topo.llc_level, llc, 0) < 0)
			continue;
		index = wl_get(wl_cpu_of(p, s->this_cpu)->rotor) % wl_entry(llcs->weight, llc);
		s->target = wl_entry(llcs->cpus, wl_entry(llcs->first, llc) + index);
		wl_reader_init(p, &s->reader, s->this_cpu, s->target);
		found = place;
		break;
	}
	return found;
}

/* The other LLCs of target's domain at a level. Returns the CPU claimed, or WL_CPU_NONE. */
WL_FN int wl_nearest_in_domain(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			       const struct wl_task *t WL_ARG, u32 level,
			       struct wl_decision *out WL_ARG)
{
	u32 place = 1, i;
	int cpu = WL_CPU_NONE;

	/*
	 * The search is in another LLC for a while. This call has no room on BPF's stack to
	 * remember where it was.
	 */
	out->target = s->target;
	wl_for (i, 0, WL_MAX_CPUS) {
		place = wl_nearest_along(p, s, t, level, place);
		if (!place)
			break;
		cpu = wl_nearest_here(p, s, t, out);
		if (cpu < 0 && !wl_read_once(wl_llc_record(p, s->target)->nearest_llc.idle_blocks))
			wl_idle_llcs_clear(p, s->target);
		s->target = out->target;
		if (cpu >= 0)
			break;
	}
	out->reason = WL_REASON_FAR_CPU;
	return cpu;
}

WL_INLINE int wl_search_nearest(struct wl_policy *p, struct wl_search *s, const struct wl_task *t,
				struct wl_decision *out)
{
	int cpu = wl_nearest_here(p, s, t, out);
	u32 beyond = p->topo.llc_level + 1, i;
	u64 wait_ns;

	if (cpu >= 0 || beyond >= p->topo.nr_levels)
		return cpu;
	wait_ns = wl_nearest_wait_ns(p, s, out);
	wl_for_levels (p, i, beyond) {
		if (!wl_nearest_is_worth(p, i, wait_ns))
			break;
		if (!wl_nearest_any(p, s, out))
			continue;
		cpu = wl_nearest_in_domain(p, s, t, i, out);
		if (cpu >= 0)
			break;
	}
	return cpu;
}

#endif /* WL_IDLE_NEAREST_H */
