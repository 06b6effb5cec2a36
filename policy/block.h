/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * block.h - bitmaps of idle CPUs: what idle=nearest reads instead of CPUs.
 *
 * An LLC is divided into blocks: its clusters, or runs of 8 cores if it has no clusters. A block
 * has at most 64 CPUs, and an LLC at most 64 blocks (crates/policy, blocks.rs, handles LLCs that do
 * not fit). A block has one cache line with a bitmap of its idle CPUs, in which the bits of a core
 * are adjacent; the bitmap of wholly idle cores is computed from it. An LLC has one line with two
 * summary bitmaps of its blocks: the blocks with an idle CPU, and the blocks with an idle core. A
 * summary bit is written only when its block becomes empty or non-empty. For searches that leave
 * their LLC the machine has a bitmap of LLCs, 512 per line: the LLCs that have an idle CPU, or
 * lately had one.
 *
 * Invariant: a CPU that looks idle (its idle task runs and nothing is queued on it) has its bit
 * set. A set bit may be *stale*; the search that finds a stale bit clears it. In detail:
 *   turns idle	the CPU sets its bit if that is clear
 *   turns busy	the CPU clears its bit if a search lately wanted to know (wanted_until_ns of the
 *		LLC: a search that found the summary not empty), else leaves it. So two tasks that
 *		wake each other on idle CPUs write no shared line at all, nor do searches while
 *		everything is busy
 *   tick	clears the bit of a CPU that is still busy
 *   dequeue	of the last task queued on an idling CPU: sets the CPU's bit
 *   search	clears the bit of a CPU that it finds not idle, and the bit of another LLC in which
 *		it found nothing
 * When the summary of an LLC becomes non-empty, the LLC's bit is read, and set if it is clear;
 * turning busy never clears it. Claims are not recorded here: they are in the host's mask alone, so
 * that no claim can leak into "busy for ever". Until the claimed CPU turns busy, other searches may
 * find its bit, lose the claim, and go on.
 *
 * Two CPUs may change a word at once. A CPU that clears a bit looks at the bit's CPU again
 * afterwards, and sets the bit again if that CPU is idle by now; a CPU that turns idle publishes
 * its state before it reads its bit. So no idle CPU is left without its bit. The bits of summaries
 * and of LLCs are maintained in the same way.
 *
 * Example: an LLC of 2 blocks of 2 cores x 2 threads; CPU c and c + 4 share a core, and block 0 has
 * the bits of CPUs 0, 4, 1, 5 in this order. All are idle: idle is 1111, cores 0101, both summaries
 * 11. Now CPUs turn busy while searches want to know. CPU 4: idle 1101, cores 0100. CPU 1: idle
 * 1001, cores 0000, and block 0 leaves the summary of cores. CPUs 0 and 5: idle 0000, and block 0
 * leaves the summary of CPUs. When CPU 5 turns idle, idle is 1000, and block 0 is in that summary
 * again.
 *
 * Cost: turning idle or busy takes a read, an atomic update if the bit changes, and a second one if
 * the block was empty or becomes empty. It fails where blocks alternate between empty and non-empty
 * many times per millisecond: each change writes the summary.
 */
#ifndef WL_BLOCK_H
#define WL_BLOCK_H

#include "access.h"

/* For this time after a search, CPUs that turn busy clear their bits. */
#define WL_WANTED_NS 1000000ULL
/* log2 of the period in ns; CPUs that turn idle within one period count as equally recent. */
#define WL_RECENT_SHIFT 16

WL_INLINE struct wl_block *wl_block_at(struct wl_policy *p, u32 block)
{
	wl_hide(block);
	return &p->block[block & (WL_MAX_CPUS - 1)];
}

WL_INLINE u64 wl_slot_bit(struct wl_policy *p, u32 cpu)
{
	return 1ULL << (wl_entry(p->topo.slot_of, cpu) & 63);
}

WL_INLINE u32 wl_block_cpu(struct wl_policy *p, u32 block, u32 slot)
{
	wl_hide(block);
	wl_hide(slot);
	return p->block_map[block & (WL_MAX_CPUS - 1)].cpu[slot & 63];
}

/* The first bit of each core whose CPUs are all in `idle`. */
WL_INLINE u64 wl_whole_cores(struct wl_policy *p, const struct wl_block *b, u64 idle)
{
	u64 word = idle | ~b->present;
	u32 slots = p->topo.slots;

	if (slots > 1)
		word &= word >> 1;
	if (slots > 2)
		word &= word >> 2;
	if (slots > 4)
		word &= word >> 4;
	if (slots > 8)
		word &= word >> 8;
	if (slots > 16)
		word &= word >> 16;
	if (slots > 32)
		word &= word >> 32;
	return word & b->cores;
}

/* The first bit of each core that has a CPU in `word`. All other bits are meaningless. */
WL_INLINE u64 wl_any_of_core(const struct wl_policy *p, u64 word)
{
	u32 slots = p->topo.slots;

	if (slots > 1)
		word |= word >> 1;
	if (slots > 2)
		word |= word >> 2;
	if (slots > 4)
		word |= word >> 4;
	if (slots > 8)
		word |= word >> 8;
	if (slots > 16)
		word |= word >> 16;
	if (slots > 32)
		word |= word >> 32;
	return word;
}

/* The CPU of a block's first bit. Its distance is the block's. */
WL_INLINE u32 wl_block_first(struct wl_policy *p, u32 block)
{
	return wl_block_cpu(p, block, wl_lowest_bit(wl_block_at(p, block)->present));
}

WL_INLINE void wl_block_updated(struct wl_policy *p, u32 block)
{
	(void)p;
	wl_line_updated(p, WL_LINE_BLOCK + (block & (WL_MAX_CPUS - 1)));
}

WL_INLINE void wl_summary_updated(struct wl_policy *p, u32 first_cpu)
{
	(void)p;
	wl_line_updated(p, WL_LINE_LLC + (first_cpu & (WL_MAX_CPUS - 1)));
}

/* ------------------------------------------------------------------ changing words */

/* The LLC of cpu has an idle CPU: sets its bit. */
WL_INLINE void wl_idle_llcs_set(struct wl_policy *p, u32 cpu)
{
	struct wl_level *lv = wl_level_of(p, p->topo.llc_level);
	u32 llc = wl_entry(lv->dom_of, cpu);
	u64 *word = wl_idle_llcs(p, llc), bit = 1ULL << (llc & 63);

	if (lv->nr_doms < 2)
		return;
	wl_line_read(p, wl_idle_llcs_line(llc), wl_idle_llcs_distance(p));
	if (wl_read_once(*word) & bit)
		return;
	wl_atomic_or(word, bit);
	wl_line_updated(p, wl_idle_llcs_line(llc));
}

/* The LLC of cpu was found to have no idle CPU: clears its bit, unless it has one by now. */
WL_FN int wl_idle_llcs_clear(struct wl_policy *p WL_ARG, u32 cpu)
{
	struct wl_level *lv = wl_level_of(p, p->topo.llc_level);
	u32 llc = wl_entry(lv->dom_of, cpu);

	wl_atomic_and(wl_idle_llcs(p, llc), ~(1ULL << (llc & 63)));
	wl_line_updated(p, wl_idle_llcs_line(llc));
	if (wl_read_once(wl_llc_record(p, cpu)->nearest_llc.idle_blocks))
		wl_idle_llcs_set(p, cpu);
	return 0;
}

/* Notes in a summary that cpu's block has an idle CPU, or an idle core. */
WL_INLINE void wl_summary_set(struct wl_policy *p, u32 cpu, u32 cores)
{
	struct wl_block *b = wl_block_at(p, wl_entry(p->topo.block_of, cpu));
	struct wl_cpu *llc = wl_llc_record(p, cpu);
	u64 was =
		wl_atomic_or(cores ? &llc->nearest_llc.core_blocks : &llc->nearest_llc.idle_blocks,
			     1ULL << (b->number & 63));

	wl_summary_updated(p, wl_llc_first(p, cpu));
	if (!cores && !was)
		wl_idle_llcs_set(p, cpu);
}

/* Notes in a summary that cpu's block has none, unless it has one by now. */
WL_INLINE void wl_summary_clear(struct wl_policy *p, u32 cpu, u32 cores)
{
	struct wl_block *b = wl_block_at(p, wl_entry(p->topo.block_of, cpu));
	struct wl_cpu *llc = wl_llc_record(p, cpu);
	u64 *summary = cores ? &llc->nearest_llc.core_blocks : &llc->nearest_llc.idle_blocks, idle;

	wl_atomic_and(summary, ~(1ULL << (b->number & 63)));
	wl_summary_updated(p, wl_llc_first(p, cpu));
	idle = wl_read_once(b->idle);
	if (cores ? wl_whole_cores(p, b, idle) : idle)
		wl_summary_set(p, cpu, cores);
}

/* Sets the bit of cpu, and the summary bits that depend on it. */
WL_INLINE void wl_block_set(struct wl_policy *p, u32 cpu)
{
	u32 block = wl_entry(p->topo.block_of, cpu);
	struct wl_block *b = wl_block_at(p, block);
	u64 bit = wl_slot_bit(p, cpu), was = wl_atomic_or(&b->idle, bit);

	wl_block_updated(p, block);
	if (!was)
		wl_summary_set(p, cpu, 0);
	if (p->topo.slots > 1 && !wl_whole_cores(p, b, was) && wl_whole_cores(p, b, was | bit))
		wl_summary_set(p, cpu, 1);
}

/* Clears the bit of cpu, which was seen not to be idle, and the summary bits that depend on it. */
WL_FN int wl_block_clear(struct wl_policy *p WL_ARG, u32 cpu)
{
	u32 block = wl_entry(p->topo.block_of, cpu);
	struct wl_block *b = wl_block_at(p, block);
	u64 bit = wl_slot_bit(p, cpu), was = wl_atomic_and(&b->idle, ~bit);

	wl_block_updated(p, block);
	if (was == bit)
		wl_summary_clear(p, cpu, 0);
	if (p->topo.slots > 1 && wl_whole_cores(p, b, was) && !wl_whole_cores(p, b, was & ~bit))
		wl_summary_clear(p, cpu, 1);
	/* After it was looked at, the CPU may have turned idle and found its bit still set. */
	if (wl_looks_idle(p, cpu))
		wl_block_set(p, cpu);
	return 0;
}

WL_INLINE u32 wl_block_has(struct wl_policy *p, u32 cpu)
{
	u32 block = wl_entry(p->topo.block_of, cpu);

	wl_line_read(p, WL_LINE_BLOCK + block, WL_DIST_LLC);
	return (wl_read_once(wl_block_at(p, block)->idle) & wl_slot_bit(p, cpu)) != 0;
}

/* ------------------------------------------------------------------ what happens to a CPU */

/* cpu turned idle, and its state already says so. */
WL_INLINE void wl_block_idle(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	struct wl_block *b = wl_block_at(p, wl_entry(p->topo.block_of, cpu));
	u32 period = now_ns >> WL_RECENT_SHIFT;

	if (wl_block_has(p, cpu))
		return;
	/*
	 * Hints: written only when the line is written anyway. Of two writers at once, one may get
	 * lost.
	 */
	if (b->recent_period != period) {
		b->before = b->recent_period + 1 == period ? b->recent : 0;
		b->recent = 0;
		b->recent_period = period;
	}
	b->recent |= wl_slot_bit(p, cpu);
	/* A task may have been queued here before the new state was visible. */
	if (wl_looks_idle(p, cpu))
		wl_block_set(p, cpu);
}

/* cpu turned busy, and its state already says so. */
WL_INLINE void wl_block_busy(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	u32 first = wl_llc_first(p, cpu);

	wl_line_read(p, WL_LINE_LLC + first, WL_DIST_LLC);
	if (now_ns < wl_read_once(wl_cpu_of(p, first)->nearest_llc.wanted_until_ns) &&
	    wl_block_has(p, cpu))
		wl_block_clear(p, cpu);
}

/* A tick on cpu. */
WL_INLINE void wl_block_tick(struct wl_policy *p, u32 cpu)
{
	if (!wl_looks_idle(p, cpu) && wl_block_has(p, cpu))
		wl_block_clear(p, cpu);
}

/* A task that was queued on cpu, which looks idle, is no longer queued there. */
WL_FN int wl_block_dequeued(struct wl_policy *p WL_ARG, u32 cpu)
{
	if (!wl_block_has(p, cpu))
		wl_block_set(p, cpu);
	return 0;
}

/*
 * Start values, once the topology is filled in: a bit for every CPU, because none has reported yet
 * that it is busy.
 */
WL_INLINE void wl_block_init(struct wl_policy *p, u32 cpu)
{
	u32 block = wl_entry(p->topo.block_of, cpu), slot = wl_entry(p->topo.slot_of, cpu);
	u32 first = wl_llc_first(p, cpu), slots = p->topo.slots, number;
	struct wl_block *b = wl_block_at(p, block);
	struct wl_cpu *llc = wl_cpu_of(p, first);

	if (!wl_entry(p->topo.capacity, cpu))
		return;
	b->number = block - wl_entry(p->topo.block_of, first);
	b->present |= 1ULL << (slot & 63);
	b->cores |= 1ULL << ((slot & ~(slots - 1)) & 63);
	b->idle = b->present;
	wl_hide(block);
	p->block_map[block & (WL_MAX_CPUS - 1)].cpu[slot & 63] = cpu;
	llc->nearest_llc.idle_blocks |= 1ULL << (b->number & 63);
	number = wl_entry(wl_level_of(p, p->topo.llc_level)->dom_of, cpu);
	*wl_idle_llcs(p, number) |= 1ULL << (number & 63);
	if (slots > 1)
		llc->nearest_llc.core_blocks = llc->nearest_llc.idle_blocks;
	if (llc->nearest_llc.nr_blocks <= b->number)
		llc->nearest_llc.nr_blocks = b->number + 1;
}

#endif /* WL_BLOCK_H */
