/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * host_lines.h - who has which cache line: what makes a read of another CPU's state a hit or a
 * miss.
 *
 * A line (enum wl_line) has a set of holders, the CPUs whose caches have it as it is. A read by a
 * holder is a hit; another's is a miss, and makes it a holder. A write leaves the writer as the
 * only holder. So a read is a miss if another CPU wrote the line since this CPU last read or wrote
 * it, or if it never did; caches are as large as need be.
 *
 * Sets are bits, `words` words a line: 0.9 MB of address space for 384 CPUs and 8 MB for 4096, and as
 * much as one more line a CPU for each task group, of which only what is read or written is touched. `used` has a bit for each word of a line's set
 * that is not 0, so that a write clears what is there and no more.
 *
 * Example: CPU 1 reads CPU 0's line: a miss, holders {1}; again: a hit. CPU 0 queues a task on
 * itself: holders {0}. CPU 1 reads: a miss, holders {0, 1}.
 *
 * This follows the simulated machine and decides nothing: the policy never sees it.
 */
#ifndef WL_HOST_LINES_H
#define WL_HOST_LINES_H

#include "host_memory.h"

#define WL_SEEN_UPDATES 15

/* A step of an idle search that began, and what had been read by then. */
struct wl_seen_step {
	u32 step;		  /* enum wl_step */
	u32 reads[2][WL_NR_DIST]; /* hits, misses */
};
#define WL_SEEN_STEPS 8

/*
 * Reads since the last wl_lines_begin(), by distance, the lines that were updated atomically, and
 * the steps of the idle search. What counts no more is left in steps[].
 */
struct wl_seen {
	u32 reads[2][WL_NR_DIST]; /* hits, misses */
	u32 nr_updated;
	u32 updated[WL_SEEN_UPDATES]; /* their numbers, WL_LINE_COUNTER being 0 */
	u32 nr_steps;
	struct wl_seen_step steps[WL_SEEN_STEPS];
};

struct wl_lines {
	struct wl_seen seen;
	u32 words; /* of a line's set */
	u32 word;  /* of the CPU that executes: its word in a set, and its bit there */
	u64 bit;
	u64 *used;    /* a word a line */
	u64 *holders; /* `words` words a line */
};

/* What it points to lies behind it, in the same piece of memory: wl_instance_place(). */
struct wl_instance {
	struct wl_memory memory;
	struct wl_lines lines;
	struct wl_group *groups;	 /* by slot */
	struct wl_group_cpu *group_cpus; /* by slot, then CPU */
};
_Static_assert(__builtin_offsetof(struct wl_instance, memory) == 0, "wl_lines_of() casts");
#define wl_lines_of(p) (&((struct wl_instance *)(p))->lines)

/*
 * How many bytes an instance takes, for so many CPUs and slots of groups; with an instance given, its
 * arrays get their places.
 */
WL_INLINE u64 wl_instance_place(struct wl_instance *at, u64 nr_cpus, u64 nr_groups)
{
	u64 pairs = nr_cpus * nr_groups, lines = WL_NR_LINES + pairs, words = (nr_cpus + 63) / 64;
	u64 groups =
		(sizeof(struct wl_instance) + WL_CACHE_LINE - 1) / WL_CACHE_LINE * WL_CACHE_LINE;
	u64 group_cpus = groups + nr_groups * sizeof(struct wl_group);
	u64 used = group_cpus + pairs * sizeof(struct wl_group_cpu);
	u64 holders = used + lines * sizeof(u64);

	if (at) {
		at->groups = (struct wl_group *)((u8 *)at + groups);
		at->group_cpus = (struct wl_group_cpu *)((u8 *)at + group_cpus);
		at->lines.used = (u64 *)((u8 *)at + used);
		at->lines.holders = (u64 *)((u8 *)at + holders);
		at->lines.words = words;
	}
	return holders + lines * words * sizeof(u64);
}

/* `cpu` executes what comes. */
WL_INLINE void wl_lines_on(struct wl_policy *p, u32 cpu)
{
	struct wl_lines *l = wl_lines_of(p);

	l->word = (cpu & (WL_MAX_CPUS - 1)) / 64;
	l->bit = 1ULL << (cpu & 63);
}

/* `cpu` executes what comes, and its reads are counted anew. */
WL_INLINE void wl_lines_begin(struct wl_policy *p, u32 cpu)
{
	__builtin_memset(&wl_lines_of(p)->seen, 0, __builtin_offsetof(struct wl_seen, steps));
	wl_lines_on(p, cpu);
}

/* Nothing branches here: a search makes hundreds. */
WL_INLINE void wl_lines_read(struct wl_lines *l, u32 line, u32 dist)
{
	u64 *set = &l->holders[(u64)line * l->words + l->word];
	u32 miss = !(*set & l->bit);

	*set |= l->bit;
	l->used[line] |= 1ULL << l->word;
	l->seen.reads[miss][dist & (WL_NR_DIST - 1)]++;
}

WL_INLINE void wl_lines_written(struct wl_lines *l, u32 line)
{
	u64 *sets = &l->holders[(u64)line * l->words];
	u64 used = l->used[line], own = 1ULL << l->word;

	if (used == own && sets[l->word] == l->bit)
		return;
	for (; used; used &= used - 1)
		sets[__builtin_ctzll(used)] = 0;
	sets[l->word] = l->bit;
	l->used[line] = own;
}

WL_INLINE void wl_lines_updated(struct wl_lines *l, u32 line)
{
	wl_lines_written(l, line);
	if (l->seen.nr_updated < sizeof(l->seen.updated) / sizeof(l->seen.updated[0]))
		l->seen.updated[l->seen.nr_updated++] = line - WL_LINE_COUNTER;
}

WL_INLINE void wl_lines_step(struct wl_lines *l, u32 step)
{
	struct wl_seen *seen = &l->seen;
	struct wl_seen_step *began = &seen->steps[seen->nr_steps];

	if (seen->nr_steps == WL_SEEN_STEPS)
		return;
	seen->nr_steps++;
	began->step = step;
	__builtin_memcpy(began->reads, seen->reads, sizeof(began->reads));
}

#define wl_line_read(p, line, dist) wl_lines_read(wl_lines_of(p), (line), (dist))
#define wl_line_written(p, line)    wl_lines_written(wl_lines_of(p), (line))
#define wl_line_updated(p, line)    wl_lines_updated(wl_lines_of(p), (line))
#define wl_line_step(p, step)	    wl_lines_step(wl_lines_of(p), (step))

#endif /* WL_HOST_LINES_H */
