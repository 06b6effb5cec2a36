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
 * and as much as one more line per CPU for each task group; and 16 MB for the bitmaps of domains at
 * 4096 CPUs, enough for a domain per CPU on every level. Of this only what is read or written is
 * touched. Sets are kept in rows: row w has the w-th word of every line's set, because a CPU that
 * reads many CPUs' lines in turn has its bit in the same word of each. `used` has a bit for each
 * word of a line's set that is not 0, so that a write clears only those.
 *
 * Example: CPU 1 reads CPU 0's line: a miss, holders {1}. It reads again: a hit. CPU 0 turns busy
 * and takes the line from CPU 1: holders {0}. CPU 1 reads: a miss, holders {0, 1}. CPU 9, of
 * another socket, reads too: {0, 1, 9}. CPU 0 turns idle: it waits for CPU 9, the farthest holder.
 * It turns busy again: it is the only holder, and waits for none.
 *
 * Cost: a write looks at one word for each 64 CPUs among which there are holders, and at the
 * writer's domains as bitmaps of CPUs.
 *
 * The host also keeps a bit for each CPU that looks idle to the policy, for walk.h. What the policy
 * looks at is in the CPU's line, so the bit follows each write of that line. And it keeps the place
 * of each CPU as one number, because an event asks for three distances: wl_lines_distance().
 *
 * This follows the simulated machine and decides nothing: the policy never sees it.
 */
#ifndef WL_HOST_LINES_H
#define WL_HOST_LINES_H

#include "host/memory.h"
#include "host/seen.h"

/* defined in access.h, which comes after this file */
WL_FN int wl_distance_of(struct wl_policy *p WL_ARG, u32 a, u32 b);

/* Where the parts of a CPU's place begin: its number, core, cluster and LLC. Bit 0 is not used. */
#define WL_PLACE_CPU	 1
#define WL_PLACE_CORE	 16
#define WL_PLACE_CLUSTER 32
#define WL_PLACE_LLC	 48
#define WL_PLACE_FAR	 0xff
_Static_assert(WL_MAX_CPUS <= 1 << (WL_PLACE_CORE - WL_PLACE_CPU), "a CPU's number fits");

struct wl_lines {
	struct wl_seen seen;
	u64 price_ps[2][WL_NR_DIST]; /* of a hit and of a miss, by distance */
	u64 lines_of_cpu;	     /* what one WL_LINE_CPU stands for when it is read */
	u32 words;		     /* words in a line's set */
	u32 cpu;		     /* the CPU that executes */
	u32 word;		     /* the place of its bit in a set: the word, and the bit */
	u64 bit;
	u64 *row;     /* the row of that word */
	u64 *used;    /* a word per line */
	u64 *rows;    /* `words` rows */
	u64 nr_lines; /* words in a row */
	u64 *places;  /* for each CPU, where it is */
	u8 near[64];  /* distances by the highest bit in which places differ, or WL_PLACE_FAR */
	u16 *run_end; /* for each CPU, the first one after it that is not of its LLC */
	u64 *idle;    /* a bit per CPU that looks idle */
	u64 *domains; /* `words` words per domain: the CPUs in it, of all levels from the LLC's up */
	u32 domains_at[WL_MAX_LEVELS]; /* the number of the first domain of each of these levels */
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
	u64 rows = used + lines * sizeof(u64);
	u64 places = rows + lines * words * sizeof(u64);
	u64 run_end = places + nr_cpus * sizeof(u64);
	u64 idle = run_end + words * 64 * sizeof(u16);
	u64 domains = idle + words * sizeof(u64);

	if (at) {
		at->groups = (struct wl_group *)((u8 *)at + groups);
		at->group_cpus = (struct wl_group_cpu *)((u8 *)at + group_cpus);
		at->lines.used = (u64 *)((u8 *)at + used);
		at->lines.rows = (u64 *)((u8 *)at + rows);
		at->lines.row = at->lines.rows;
		at->lines.nr_lines = lines;
		at->lines.places = (u64 *)((u8 *)at + places);
		at->lines.run_end = (u16 *)((u8 *)at + run_end);
		at->lines.idle = (u64 *)((u8 *)at + idle);
		at->lines.domains = (u64 *)((u8 *)at + domains);
		at->lines.words = words;
	}
	/* A level may have a domain for each CPU, also above the LLC's: nodes of one CPU, say. */
	return domains + WL_MAX_LEVELS * nr_cpus * words * sizeof(u64);
}

/* `cpu` executes from now on, and what it waits for is noted from the start. */
WL_INLINE void wl_lines_on(struct wl_policy *p, u32 cpu)
{
	struct wl_lines *l = wl_lines_of(p);

	l->seen.taken = (struct wl_seen_taken){WL_DIST_CPU, WL_DIST_CPU};
	l->cpu = cpu & (WL_MAX_CPUS - 1);
	l->word = (cpu & (WL_MAX_CPUS - 1)) / 64;
	l->row = l->rows + l->word * l->nr_lines;
	l->bit = 1ULL << (cpu & 63);
}

/* `cpu` executes from now on, and its reads are counted from 0. */
WL_INLINE void wl_lines_begin(struct wl_policy *p, u32 cpu)
{
	struct wl_seen *seen = &wl_lines_of(p)->seen;

	/* Field by field, because compilers make a slow string instruction of one memset. */
	seen->hits = (struct wl_reads){0};
	seen->misses = (struct wl_reads){0};
	seen->ps = 0;
	seen->nr_updated = 0;
	seen->nr_steps = 0;
	wl_lines_on(p, cpu);
}

/* `nr` reads of `lines` lines each, at this distance, were misses, or hits. */
WL_INLINE void wl_lines_count(struct wl_lines *l, u32 miss, u32 dist, u64 nr, u64 lines)
{
	struct wl_reads *reads = miss ? &l->seen.misses : &l->seen.hits;

	dist &= WL_NR_DIST - 1;
	reads->at[dist] += (u32)nr;
	l->seen.ps += l->price_ps[miss][dist] * nr * lines;
}

/* There is no branch here, because a search makes hundreds of reads. */
WL_INLINE void wl_lines_read(struct wl_lines *l, u32 line, u32 dist)
{
	u64 *set = &l->row[line];
	u32 miss = !(*set & l->bit);

	*set |= l->bit;
	l->used[line] |= 1ULL << l->word;
	wl_lines_count(l, miss, dist, 1, line < WL_MAX_CPUS ? l->lines_of_cpu : 1);
}

/* The CPUs of cpu's domain at a level, the LLC's or one above, as a bitmap. */
WL_INLINE const u64 *wl_lines_domain(struct wl_policy *p, u32 level, u32 cpu)
{
	struct wl_lines *l = wl_lines_of(p);
	u64 dom = l->domains_at[level] + p->topo.level[level].dom_of[cpu & (WL_MAX_CPUS - 1)];

	return &l->domains[dom * l->words];
}

static __attribute__((noinline)) u32 wl_lines_distance_far(struct wl_policy *p, u32 a, u32 b)
{
	return wl_distance_of(p, a, b);
}

/* As wl_distance_of(). Domains are nested, so the outermost one in which they differ decides. */
WL_INLINE u32 wl_lines_distance(struct wl_policy *p, u32 a, u32 b)
{
	struct wl_lines *l = wl_lines_of(p);
	u64 differ = l->places[a & (WL_MAX_CPUS - 1)] ^ l->places[b & (WL_MAX_CPUS - 1)];
	u32 near = l->near[63 - __builtin_clzll(differ | 1)];

	return near == WL_PLACE_FAR ? wl_lines_distance_far(p, a, b) : near;
}

/*
 * Returns the distance of the farthest holder inside the LLC of the CPU that executes, which is not
 * in the set itself; WL_DIST_CPU if there is none.
 */
WL_INLINE u32 wl_lines_farthest_near(struct wl_policy *p, const u64 *set, u64 used)
{
	struct wl_lines *l = wl_lines_of(p);
	u32 from = WL_DIST_CPU, word, dist;
	u64 others;

	for (; used; used &= used - 1) {
		word = __builtin_ctzll(used);
		for (others = set[word * l->nr_lines]; others; others &= others - 1) {
			dist = wl_lines_distance(p, l->cpu, word * 64 + __builtin_ctzll(others));
			from = dist > from ? dist : from;
			if (from == WL_DIST_LLC)
				return from;
		}
	}
	return from;
}

/* The same for all holders: the smallest domain of the CPU that has all of them decides. */
WL_INLINE u32 wl_lines_farthest(struct wl_policy *p, const u64 *set, u64 used)
{
	struct wl_lines *l = wl_lines_of(p);
	u32 level = p->topo.llc_level, nr_levels = p->topo.nr_levels, word;
	const u64 *domain;
	u64 rest, outside;

	/* Most often there is one holder: a waker, or the CPU whose line it is. */
	if (used && !(used & (used - 1))) {
		word = __builtin_ctzll(used);
		rest = set[word * l->nr_lines];
		if (rest && !(rest & (rest - 1)))
			return wl_lines_distance(p, l->cpu, word * 64 + __builtin_ctzll(rest));
	}
	for (; level < nr_levels; level++) {
		domain = wl_lines_domain(p, level, l->cpu);
		outside = 0;
		for (rest = used; rest; rest &= rest - 1) {
			word = __builtin_ctzll(rest);
			outside |= set[word * l->nr_lines] & ~domain[word];
		}
		if (outside)
			continue;
		return level == p->topo.llc_level ? wl_lines_farthest_near(p, set, used)
						  : p->topo.level[level].kind;
	}
	return WL_DIST_NUMA3;
}

/*
 * Makes the CPU the line's only holder. Returns the distance of the farthest other holder that
 * there was.
 */
static __attribute__((noinline)) u32 wl_lines_take_from(struct wl_policy *p, u32 line)
{
	struct wl_lines *l = wl_lines_of(p);
	u64 *set = &l->rows[line], used = l->used[line];
	u32 from;

	l->row[line] &= ~l->bit;
	if (!l->row[line])
		used &= ~(1ULL << l->word);
	from = wl_lines_farthest(p, set, used);
	for (; used; used &= used - 1)
		set[__builtin_ctzll(used) * l->nr_lines] = 0;
	l->row[line] = l->bit;
	l->used[line] = 1ULL << l->word;
	return from;
}

/* The same, with a fast path: most often the CPU is already the only holder. */
WL_INLINE u32 wl_lines_take(struct wl_policy *p, u32 line)
{
	struct wl_lines *l = wl_lines_of(p);

	if (l->used[line] == 1ULL << l->word && l->row[line] == l->bit)
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

/* A CPU's line was written: it may look idle now, or no longer. As wl_looks_idle() in access.h. */
WL_INLINE void wl_lines_looks(struct wl_policy *p, u32 cpu)
{
	struct wl_cpu *c = &p->cpu[cpu];
	u64 *word = &wl_lines_of(p)->idle[cpu / 64];
	u64 idle = c->state < WL_CPU_BUSY && c->nr_queued == 0;

	*word = (*word & ~(1ULL << (cpu & 63))) | idle << (cpu & 63);
}

WL_INLINE void wl_lines_written(struct wl_policy *p, u32 line)
{
	u32 from = wl_lines_take(p, line);

	if (line < WL_MAX_CPUS)
		wl_lines_looks(p, line);
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
	u32 miss = !(l->row[line] & l->bit), from;

	wl_lines_count(l, miss, dist, 1, 1);
	from = wl_lines_take(p, line);
	if (!miss || from > dist)
		wl_lines_wait(l, from, miss ? dist : WL_DIST_CPU);
}

WL_INLINE void wl_lines_step(struct wl_lines *l, u32 step)
{
	struct wl_seen *seen = &l->seen;
	struct wl_seen_step *began = &seen->steps[seen->nr_steps];
	u32 dist;

	if (seen->nr_steps == WL_SEEN_STEPS)
		return;
	seen->nr_steps++;
	began->step = step;
	began->ps = seen->ps;
	began->reads = 0;
	for (dist = 0; dist < WL_NR_DIST; dist++)
		began->reads += seen->hits.at[dist] + seen->misses.at[dist];
}

/* Notes where each CPU is. One that is in no cluster counts as in a cluster of only its core. */
WL_INLINE void wl_lines_init_places(struct wl_policy *p)
{
	const struct wl_level *llc = &p->topo.level[p->topo.llc_level],
			      *smt = &p->topo.level[p->topo.smt_level];
	struct wl_lines *l = wl_lines_of(p);
	u32 cpu = p->topo.nr_cpus, next, bit;
	u64 core, cluster;

	for (bit = 0; bit < 64; bit++)
		l->near[bit] = bit < WL_PLACE_CPU	? WL_DIST_CPU
			       : bit < WL_PLACE_CORE	? smt->kind
			       : bit < WL_PLACE_CLUSTER ? WL_DIST_CLS
			       : bit < WL_PLACE_LLC	? llc->kind
							: WL_PLACE_FAR;
	while (cpu-- > 0) {
		next = cpu + 1;
		l->run_end[cpu] = next < p->topo.nr_cpus && llc->dom_of[next] == llc->dom_of[cpu]
					  ? l->run_end[next]
					  : next;
		core = smt->dom_of[cpu];
		cluster = p->topo.cluster_of[cpu];
		if (cluster >= WL_MAX_CPUS)
			cluster = WL_MAX_CPUS + core;
		l->places[cpu] = (u64)llc->dom_of[cpu] << WL_PLACE_LLC |
				 cluster << WL_PLACE_CLUSTER | core << WL_PLACE_CORE |
				 cpu << WL_PLACE_CPU;
	}
}

/* Before any event: every CPU looks idle. Notes which CPUs each domain has. */
WL_INLINE void wl_lines_init(struct wl_policy *p)
{
	struct wl_lines *l = wl_lines_of(p);
	u32 nr_cpus = p->topo.nr_cpus, at = 0, level, cpu;

	for (level = p->topo.llc_level; level < p->topo.nr_levels; level++) {
		l->domains_at[level] = at;
		at += p->topo.level[level].nr_doms;
		for (cpu = 0; cpu < nr_cpus; cpu++)
			((u64 *)wl_lines_domain(p, level, cpu))[cpu / 64] |= 1ULL << (cpu & 63);
	}
	for (cpu = 0; cpu < nr_cpus; cpu++)
		wl_lines_looks(p, cpu);
	wl_lines_init_places(p);
}

#define wl_distance_at_once(p, a, b)  wl_lines_distance((p), (a), (b))
#define wl_line_read(p, line, dist)   wl_lines_read(wl_lines_of(p), (line), (dist))
#define wl_line_locked(p, line, dist) wl_lines_locked((p), (line), (dist))
#define wl_line_written(p, line)      wl_lines_written((p), (line))
#define wl_line_updated(p, line)      wl_lines_updated((p), (line))
#define wl_line_step(p, step)	      wl_lines_step(wl_lines_of(p), (step))

#endif /* WL_HOST_LINES_H */
