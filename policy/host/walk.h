/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * host/walk.h - the walk of idle_visit.h through an LLC, answered as a whole.
 *
 * The walk visits hundreds of CPUs in a large busy LLC, and a visit is always the same: is the CPU
 * idle, can it be claimed, and did the visitor have its line? The host has a bit for each of these:
 * CPUs that look idle, CPUs that can be claimed, and holders of lines (lines.h). So it first looks
 * for the CPU that ends the walk, 64 at a time: the first that is both idle and unclaimed, unless
 * the limit comes before it. Idle ones before it are lost claims. Then it reads the lines of all
 * CPUs up to there, four at a time. What is read, hit, missed, claimed and answered is the same as
 * by the loop, which stays the definition. A test compares the two
 * (crates/policy/tests/policy/walk.rs).
 *
 * Only plain walks are answered: those of tasks that may run anywhere, through a whole LLC without
 * clusters. There, all CPUs that are not of the visitor's core are equally far from it.
 *
 * Example: an LLC of CPUs 0 to 95 and 192 to 287; the walk starts at 190 + 4 = 194 with a limit of
 * 150. None is idle. It reads the lines of 194 to 287 (94 CPUs) and of 0 to 55, the limit.
 *
 * Cost: a few operations per word of CPUs, and per four lines. It gains little where neighbours by
 * number are of different LLCs.
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

/* Two words of a row at once: what a build for the oldest CPUs has. */
typedef u64 wl_words_two __attribute__((vector_size(16), aligned(8), may_alias));

/*
 * The CPU that executes reads `nr` lines from `first` on. Returns how many it had. What is the same
 * for all lines is kept in local variables, because a compiler that cannot tell lines from the rest
 * of the memory would read it again for each.
 */
WL_INLINE u32 wl_words_read_run(struct wl_lines *l, u32 first, u32 nr)
{
	u64 *row = &l->row[first], *used = &l->used[first], bit = l->bit, word = 1ULL << l->word;
	wl_words_two bits = {bit, bit}, words = {word, word}, one = {1, 1}, had = {0}, a, b;
	u32 shift = l->cpu & 63, hits;
	u64 i = 0;

	for (; i + 4 <= nr; i += 4) {
		a = *(wl_words_two *)&row[i];
		b = *(wl_words_two *)&row[i + 2];
		had += ((a >> shift) & one) + ((b >> shift) & one);
		*(wl_words_two *)&row[i] = a | bits;
		*(wl_words_two *)&row[i + 2] = b | bits;
		*(wl_words_two *)&used[i] |= words;
		*(wl_words_two *)&used[i + 2] |= words;
	}
	hits = had[0] + had[1];
	for (; i < nr; i++) {
		hits += row[i] >> shift & 1;
		row[i] |= bit;
		used[i] |= word;
	}
	return hits;
}

/* `hits` of `nr` reads at this distance were hits. */
WL_INLINE void wl_words_count(struct wl_lines *l, struct wl_decision *out, u32 dist, u32 nr,
			      u32 hits)
{
	wl_lines_count(l, 0, dist, hits, l->lines_of_cpu);
	wl_lines_count(l, 1, dist, nr - hits, l->lines_of_cpu);
	dist &= WL_NR_DIST - 1;
	out->reads.at[dist] += nr;
	out->step_reads.at[dist] += nr;
}

/* The number of CPUs that the walk visits before this one. */
WL_INLINE u32 wl_words_before(struct wl_policy *p, const struct wl_walk *w, u32 cpu)
{
	u32 at = wl_entry(wl_level_of(p, w->level)->pos, cpu) - w->first;

	return at < w->start ? at + w->span - w->start : at - w->start;
}

/*
 * Claims the first CPU of the walk that is idle and unclaimed, if there are fewer than `limit`
 * before it. Returns it, or WL_CPU_NONE, and counts lost claims.
 */
WL_INLINE int wl_words_claim(struct wl_policy *p, const struct wl_walk *w, u32 limit,
			     struct wl_decision *out)
{
	struct wl_lines *l = wl_lines_of(p);
	u32 start = wl_entry(wl_level_of(p, w->level)->cpus, w->first + w->start), word, i, cpu;
	const u64 *domain = wl_lines_domain(p, w->level, start);
	u64 *mask = wl_memory_of(p)->idle_mask, upper = ~0ULL << (start & 63), idle;

	/* The first word comes twice: from the start on, and at the end what is before it. */
	for (i = 0; i <= l->words; i++) {
		word = wl_wrap(start / 64 + i, l->words);
		idle = domain[word] & l->idle[word];
		if (i == 0)
			idle &= upper;
		if (i == l->words)
			idle &= ~upper;
		for (; idle; idle &= idle - 1) {
			cpu = word * 64 + __builtin_ctzll(idle);
			if (wl_words_before(p, w, cpu) >= limit)
				return WL_CPU_NONE;
			if (mask[word] & idle & -idle) {
				mask[word] &= ~(idle & -idle);
				return cpu;
			}
			out->lost_claims++;
		}
	}
	return WL_CPU_NONE;
}

/*
 * Counts the reads of those CPUs of the visitor's own core that are among the first `nr` of the
 * walk. Returns their number, and how many were hits.
 */
WL_INLINE u32 wl_words_read_core(struct wl_policy *p, const struct wl_search *s,
				 const struct wl_walk *w, u32 nr, struct wl_decision *out,
				 u32 *hits)
{
	struct wl_level *smt = wl_level_of(p, p->topo.smt_level);
	struct wl_lines *l = wl_lines_of(p);
	u32 first = wl_entry(smt->first, s->reader.core);
	u32 threads = wl_entry(smt->weight, s->reader.core), near = 0, i, cpu, hit;

	for (i = 0; i < threads; i++) {
		cpu = wl_entry(smt->cpus, first + i);
		if (wl_words_before(p, w, cpu) >= nr)
			continue;
		hit = (l->row[cpu] & l->bit) != 0;
		wl_words_count(l, out, cpu == s->reader.cpu ? WL_DIST_CPU : WL_DIST_SMT, 1, hit);
		near++;
		*hits += hit;
	}
	return near;
}

/* Reads the lines of the first `nr` CPUs of the walk. */
WL_INLINE void wl_words_read(struct wl_policy *p, const struct wl_search *s,
			     const struct wl_walk *w, u32 nr, struct wl_decision *out)
{
	struct wl_level *lv = wl_level_of(p, w->level);
	struct wl_lines *l = wl_lines_of(p);
	u32 left = nr, at = w->start, near = 0, near_hits = 0, hits = 0, run, cpu;

	if (!s->reader.far)
		near = wl_words_read_core(p, s, w, nr, out, &near_hits);
	while (left) {
		cpu = wl_entry(lv->cpus, w->first + at);
		run = l->run_end[cpu] - cpu;
		run = run < left ? run : left;
		hits += wl_words_read_run(l, cpu, run);
		left -= run;
		at = wl_wrap(at + run, w->span);
	}
	wl_words_count(l, out, s->reader.far ? s->reader.far : WL_DIST_LLC, nr - near,
		       hits - near_hits);
}

static u32 wl_words_walk(struct wl_policy *p, const struct wl_search *s, const struct wl_task *t,
			 struct wl_walk *w, struct wl_decision *out, int *found)
{
	u32 limit = w->visits < w->span ? w->visits : w->span, nr = limit;

	if (w->level != p->topo.llc_level || w->skips || s->reader.cluster != WL_NO_CLUSTER ||
	    !wl_anywhere(p, t))
		return 0;
	*found = wl_words_claim(p, w, limit, out);
	if (*found >= 0)
		nr = wl_words_before(p, w, *found) + 1;
	wl_words_read(p, s, w, nr, out);
	w->visits -= nr;
	out->scan_timed = *found >= 0 || limit == w->span;
	return 1;
}

#endif /* WL_HOST_WALK_H */
