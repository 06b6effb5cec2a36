/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * host/lines.h - which CPU holds which cache line, and so whether a read of another CPU's state is
 * a hit or a miss.
 *
 * A line (enum wl_line) has a set of holders: the CPUs whose caches have it in its present state. A
 * read by a holder is a hit; a read by another CPU is a miss, and makes that CPU a holder. A write
 * leaves the writer as the only holder. So a read is a miss if another CPU has written the line
 * since this CPU last read or wrote it, or if it never did. Caches are taken to be as large as
 * needed.
 *
 * A write waits until all other holders have given up the line. They do so at the same time, so the
 * wait is that for the farthest one. What one call writes leaves its store buffer together, before
 * the next atomic operation, so of several writes the longest wait counts (`taken`). The wait of an
 * atomic update counts separately (`updated`). Taking a runqueue's lock (wl_lines_locked) is a read
 * and a write in one: a miss fetches the line and takes it from the others at once, and `taken.had`
 * says which part of the wait the miss already covers.
 *
 * Sets are bitmaps of `words` words per line: 0.9 MB of address space for 384 CPUs, 8 MB for 4096,
 * and as much as one more line per CPU for each task group. Of this only what is read or written is
 * touched. `used` has a bit for each word of a line's set that is not 0, so that a write clears
 * only those.
 *
 * Example: CPU 1 reads CPU 0's line: a miss, holders {1}. It reads again: a hit. CPU 0 turns busy
 * and takes the line from CPU 1: holders {0}. CPU 1 reads: a miss, holders {0, 1}. CPU 9, of
 * another socket, reads too: {0, 1, 9}. CPU 0 turns idle: it waits for CPU 9, the farthest holder.
 * It turns busy again: it is the only holder, and waits for none.
 *
 * Cost: a write looks at each holder. Each of them has read the line since the last write, so this
 * is at most a part of what those reads cost.
 *
 * This follows the simulated machine and decides nothing: the policy never sees it.
 */
#ifndef WL_HOST_LINES_H
#define WL_HOST_LINES_H

#include "host/memory.h"
#include "host/seen.h"

/* defined in access.h, which comes after this file */
WL_FN int wl_distance_of(struct wl_policy *p WL_ARG, u32 a, u32 b);

struct wl_lines {
	struct wl_seen seen;
	u32 words; /* words in a line's set */
	u32 cpu;   /* the CPU that executes */
	u32 word;  /* the place of its bit in a set: the word, and the bit */
	u64 bit;
	u64 *used;    /* a word per line */
	u64 *holders; /* `words` words per line */
};

/* The arrays lie behind it, in the same block of memory: wl_instance_place(). */
struct wl_instance {
	struct wl_memory memory;
	struct wl_lines lines;
	struct wl_group *groups;	 /* by slot */
	struct wl_group_cpu *group_cpus; /* by slot, then CPU */
};
_Static_assert(__builtin_offsetof(struct wl_instance, memory) == 0, "wl_lines_of() casts");
#define wl_lines_of(p) (&((struct wl_instance *)(p))->lines)

/*
 * Returns the number of bytes that an instance takes for this many CPUs and slots of groups. If an
 * instance is given, sets the places of its arrays.
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

/* `cpu` executes from now on, and what it waits for is noted from the start. */
WL_INLINE void wl_lines_on(struct wl_policy *p, u32 cpu)
{
	struct wl_lines *l = wl_lines_of(p);

	l->seen.taken = (struct wl_seen_taken){WL_DIST_CPU, WL_DIST_CPU};
	l->cpu = cpu & (WL_MAX_CPUS - 1);
	l->word = (cpu & (WL_MAX_CPUS - 1)) / 64;
	l->bit = 1ULL << (cpu & 63);
}

/* `cpu` executes from now on, and its reads are counted from 0. */
WL_INLINE void wl_lines_begin(struct wl_policy *p, u32 cpu)
{
	__builtin_memset(&wl_lines_of(p)->seen, 0, __builtin_offsetof(struct wl_seen, updated));
	wl_lines_on(p, cpu);
}

WL_INLINE void wl_lines_count(struct wl_lines *l, u32 miss, u32 dist)
{
	struct wl_reads *reads = miss ? &l->seen.misses : &l->seen.hits;

	reads->at[dist & (WL_NR_DIST - 1)]++;
}

/* There is no branch here, because a search makes hundreds of reads. */
WL_INLINE void wl_lines_read(struct wl_lines *l, u32 line, u32 dist)
{
	u64 *set = &l->holders[(u64)line * l->words + l->word];
	u32 miss = !(*set & l->bit);

	*set |= l->bit;
	l->used[line] |= 1ULL << l->word;
	wl_lines_count(l, miss, dist);
}

/*
 * Makes the CPU the line's only holder. Returns the distance of the farthest other holder that
 * there was.
 */
static __attribute__((noinline)) u32 wl_lines_take_from(struct wl_policy *p, u32 line)
{
	struct wl_lines *l = wl_lines_of(p);
	u64 *sets = &l->holders[(u64)line * l->words];
	u64 used = l->used[line], others;
	u32 from = WL_DIST_CPU, word, dist;

	sets[l->word] &= ~l->bit;
	for (; used; used &= used - 1) {
		word = __builtin_ctzll(used);
		for (others = sets[word]; others; others &= others - 1) {
			dist = wl_distance_of(p, l->cpu, word * 64 + __builtin_ctzll(others));
			from = dist > from ? dist : from;
		}
		sets[word] = 0;
	}
	sets[l->word] = l->bit;
	l->used[line] = 1ULL << l->word;
	return from;
}

/* The same, with a fast path: most often the CPU is already the only holder. */
WL_INLINE u32 wl_lines_take(struct wl_policy *p, u32 line)
{
	struct wl_lines *l = wl_lines_of(p);

	if (l->used[line] == 1ULL << l->word &&
	    l->holders[(u64)line * l->words + l->word] == l->bit)
		return WL_DIST_CPU;
	return wl_lines_take_from(p, line);
}

/* The CPU waits for a holder at this distance; a miss has already covered the distance `had`. */
WL_INLINE void wl_lines_wait(struct wl_lines *l, u32 from, u32 had)
{
	struct wl_seen_taken *taken = &l->seen.taken;

	if (from > taken->from || (from == taken->from && had < taken->had))
		*taken = (struct wl_seen_taken){from, had};
}

WL_INLINE void wl_lines_written(struct wl_policy *p, u32 line)
{
	u32 from = wl_lines_take(p, line);

	if (from != WL_DIST_CPU)
		wl_lines_wait(wl_lines_of(p), from, WL_DIST_CPU);
}

WL_INLINE void wl_lines_updated(struct wl_policy *p, u32 line)
{
	struct wl_seen *seen = &wl_lines_of(p)->seen;
	u32 from = wl_lines_take(p, line);

	if (seen->nr_updated == WL_SEEN_UPDATES)
		return;
	seen->updated[seen->nr_updated] = line - WL_LINE_COUNTER;
	seen->updated_from[seen->nr_updated++] = from;
}

WL_INLINE void wl_lines_locked(struct wl_policy *p, u32 line, u32 dist)
{
	struct wl_lines *l = wl_lines_of(p);
	u64 *set = &l->holders[(u64)line * l->words + l->word];
	u32 miss = !(*set & l->bit), from;

	wl_lines_count(l, miss, dist);
	from = wl_lines_take(p, line);
	if (!miss || from > dist)
		wl_lines_wait(l, from, miss ? dist : WL_DIST_CPU);
}

WL_INLINE void wl_lines_step(struct wl_lines *l, u32 step)
{
	struct wl_seen *seen = &l->seen;
	struct wl_seen_step *began = &seen->steps[seen->nr_steps];

	if (seen->nr_steps == WL_SEEN_STEPS)
		return;
	seen->nr_steps++;
	began->step = step;
	began->hits = seen->hits;
	began->misses = seen->misses;
}

#define wl_line_read(p, line, dist)   wl_lines_read(wl_lines_of(p), (line), (dist))
#define wl_line_locked(p, line, dist) wl_lines_locked((p), (line), (dist))
#define wl_line_written(p, line)      wl_lines_written((p), (line))
#define wl_line_updated(p, line)      wl_lines_updated((p), (line))
#define wl_line_step(p, step)	      wl_lines_step(wl_lines_of(p), (step))

#endif /* WL_HOST_LINES_H */
