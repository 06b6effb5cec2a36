/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * host/walk.h - the walk of idle_visit.h through an LLC, answered as a whole, 64 CPUs at a time.
 *
 * The walk visits hundreds of CPUs in a large busy LLC, and a visit is always the same: is the CPU
 * idle, can it be claimed, and did the visitor have its line? The host has a bit for each of these:
 * CPUs that look idle, CPUs that can be claimed, and holders of lines (lines.h). So it takes the
 * CPUs of the LLC word by word, in the order of the walk, up to the limit; the first that is both
 * idle and unclaimed ends the walk, and idle ones before it are lost claims. What is read, hit,
 * missed, claimed and answered is the same as by the loop, which stays the definition. A test
 * compares the two (crates/policy/tests/policy/walk.rs).
 *
 * Only plain walks are answered: those of tasks that may run anywhere, through a whole LLC without
 * clusters. There, all CPUs that are not of the visitor's core are equally far from it.
 *
 * Example: an LLC of CPUs 0 to 95 and 192 to 287; the walk starts at 190 + 4 = 194 with a limit of
 * 150. Its words are: 194 to 255 (62 CPUs), 256 to 287 (32), 0 to 55 (56 of 64, the limit).
 *
 * Cost: a few operations per word, and a read and a write per line.
 */
#ifndef WL_HOST_WALK_H
#define WL_HOST_WALK_H

#include "host/lines.h"

struct wl_search; /* access.h */
struct wl_walk;	  /* idle_visit.h */

static u32 wl_words_walk(struct wl_policy *p, const struct wl_search *s, const struct wl_task *t,
			 struct wl_walk *w, struct wl_decision *out, int *found);
#define wl_walk_at_once(p, s, t, w, out, found) wl_words_walk((p), (s), (t), (w), (out), (found))

#include "idle_visit.h"

/* Four words of a row at once: what a build for the oldest CPUs has. */
typedef u64 wl_words_four __attribute__((vector_size(32), aligned(8), may_alias));

/* The CPU that executes reads `nr` CPUs' lines from `first` on. Returns how many it had. */
WL_INLINE u32 wl_words_read_run(struct wl_lines *l, u32 first, u32 nr)
{
	u64 *row = &l->row[first], *used = &l->used[first], word = 1ULL << l->word;
	u32 shift = l->cpu & 63, i = 0, hits;
	wl_words_four had = {0};

	for (; i + 4 <= nr; i += 4) {
		wl_words_four set = *(wl_words_four *)&row[i];

		had += (set >> shift) & 1;
		*(wl_words_four *)&row[i] = set | l->bit;
		*(wl_words_four *)&used[i] |= word;
	}
	hits = had[0] + had[1] + had[2] + had[3];
	for (; i < nr; i++) {
		hits += row[i] >> shift & 1;
		row[i] |= l->bit;
		used[i] |= word;
	}
	return hits;
}

/* The same for the CPUs of a word, which are one or two runs on most machines. */
WL_INLINE u32 wl_words_read_word(struct wl_lines *l, u32 word, u64 cpus)
{
	u32 hits = 0, low, nr;
	u64 rest;

	while (cpus) {
		low = __builtin_ctzll(cpus);
		rest = ~(cpus >> low);
		nr = rest ? __builtin_ctzll(rest) : 64;
		hits += wl_words_read_run(l, word * 64 + low, nr);
		cpus = low + nr < 64 ? cpus >> (low + nr) << (low + nr) : 0;
	}
	return hits;
}

/* `hits` of `nr` reads at this distance were hits. */
WL_INLINE void wl_words_count(struct wl_lines *l, struct wl_decision *out, u32 dist, u32 nr,
			      u32 hits)
{
	wl_lines_count(l, 0, dist, hits);
	wl_lines_count(l, 1, dist, nr - hits);
	dist &= WL_NR_DIST - 1;
	out->reads.at[dist] += nr;
	out->step_reads.at[dist] += nr;
}

/* The CPUs of the visitor's own core, in a word. */
WL_INLINE u64 wl_words_core(struct wl_policy *p, const struct wl_search *s, u32 word)
{
	struct wl_level *smt = wl_level_of(p, p->topo.smt_level);
	u32 first = wl_entry(smt->first, s->reader.core);
	u32 threads = wl_entry(smt->weight, s->reader.core), i, cpu;
	u64 cpus = 0;

	for (i = 0; i < threads; i++) {
		cpu = wl_entry(smt->cpus, first + i);
		if (cpu / 64 == word)
			cpus |= 1ULL << (cpu & 63);
	}
	return cpus;
}

/* Reads the lines of all these CPUs of a word, of which there are `nr`, and counts that. */
WL_INLINE void wl_words_read(struct wl_policy *p, const struct wl_search *s, u32 word, u64 cpus,
			     u32 nr, struct wl_decision *out)
{
	struct wl_lines *l = wl_lines_of(p);
	u64 near = s->reader.far ? 0 : cpus & wl_words_core(p, s, word), far = cpus & ~near;
	u32 cpu;

	for (; near; near &= near - 1, nr--) {
		cpu = word * 64 + __builtin_ctzll(near);
		wl_words_count(l, out, cpu == s->reader.cpu ? WL_DIST_CPU : WL_DIST_SMT, 1,
			       wl_words_read_run(l, cpu, 1));
	}
	wl_words_count(l, out, s->reader.far ? s->reader.far : WL_DIST_LLC, nr,
		       wl_words_read_word(l, word, far));
}

/* The lowest `nr` bits of x that are set. */
WL_INLINE u64 wl_words_lowest(u64 x, u32 nr)
{
	u64 rest = x;

	while (nr--)
		rest &= rest - 1;
	return x & ~rest;
}

/*
 * Visits at most *left of these CPUs of a word, in order. Returns the CPU claimed, or WL_CPU_NONE.
 */
WL_INLINE int wl_words_visit(struct wl_policy *p, const struct wl_search *s, u32 word, u64 cpus,
			     u32 *left, struct wl_decision *out)
{
	u64 *mask = &wl_memory_of(p)->idle_mask[word], idle, free;
	u32 nr = wl_popcount(cpus);
	int found = WL_CPU_NONE;

	if (nr > *left) {
		nr = *left;
		cpus = wl_words_lowest(cpus, nr);
	}
	idle = cpus & wl_lines_of(p)->idle[word];
	free = idle & *mask;
	if (free) {
		free &= -free;
		*mask &= ~free;
		cpus &= free | (free - 1);
		idle &= free - 1;
		nr = wl_popcount(cpus);
		found = word * 64 + __builtin_ctzll(free);
	}
	if (idle)
		out->lost_claims += wl_popcount(idle);
	wl_words_read(p, s, word, cpus, nr, out);
	*left -= nr;
	return found;
}

static u32 wl_words_walk(struct wl_policy *p, const struct wl_search *s, const struct wl_task *t,
			 struct wl_walk *w, struct wl_decision *out, int *found)
{
	struct wl_lines *l = wl_lines_of(p);
	u32 limit = w->visits < w->span ? w->visits : w->span, left = limit, start, word, i;
	const u64 *domain;
	u64 cpus, upper;

	if (w->level != p->topo.llc_level || w->skips || s->reader.cluster != WL_NO_CLUSTER ||
	    !wl_anywhere(p, t))
		return 0;
	start = wl_entry(wl_level_of(p, w->level)->cpus, w->first + w->start);
	domain = wl_lines_domain(p, w->level, start);
	upper = ~0ULL << (start & 63);
	*found = WL_CPU_NONE;
	/* The first word comes twice: from the start on, and at the end what is before it. */
	for (i = 0; i <= l->words && left && *found < 0; i++) {
		word = wl_wrap(start / 64 + i, l->words);
		cpus = domain[word];
		if (i == 0)
			cpus &= upper;
		if (i == l->words)
			cpus &= ~upper;
		if (cpus)
			*found = wl_words_visit(p, s, word, cpus, &left, out);
	}
	w->visits -= limit - left;
	out->scan_timed = *found >= 0 || limit == w->span;
	return 1;
}

#endif /* WL_HOST_WALK_H */
