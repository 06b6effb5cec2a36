/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * access.h - reaching CPUs, levels and masks by number, and counting what that costs.
 *
 * Any number stays inside its array: BPF's verifier demands it, and natively it makes a host's
 * mistake harmless. The code that reads other CPUs' state counts those reads, at their distance
 * from the CPU that searches. A task's own record and the topology tables, which never change, are
 * free.
 */
#ifndef WL_ACCESS_H
#define WL_ACCESS_H

#include "state.h"

#define WL_NO_CLUSTER 0xffff

WL_INLINE struct wl_cpu *wl_cpu_of(struct wl_policy *p, u32 cpu)
{
	wl_hide(cpu);
	return &p->cpu[cpu & (WL_MAX_CPUS - 1)];
}

WL_INLINE struct wl_level *wl_level_of(struct wl_policy *p, u32 level)
{
	/* A constant needs no mask that the verifier can see. */
	if (!__builtin_constant_p(level))
		wl_hide(level);
	return &p->topo.level[level & (WL_MAX_LEVELS - 1)];
}

/* What balancing on cpu has found about a level's groups. */
WL_INLINE struct wl_level_stats *wl_level_stats_of(struct wl_policy *p, u32 cpu)
{
	wl_hide(cpu);
	return &p->scratch[cpu & (WL_MAX_CPUS - 1)].stats;
}

/* A bit for every level that can be balanced: all but level 0. */
WL_INLINE u32 wl_all_levels(struct wl_policy *p)
{
	return (1u << (p->topo.nr_levels & 31)) - 2;
}

/*
 * i from the lo-th level to the highest. The loop has so few turns that BPF needs no iterator for
 * it.
 */
#define wl_for_levels(p, i, lo)                                                                    \
	for ((i) = (lo); (i) < WL_MAX_LEVELS && (i) < (p)->topo.nr_levels; (i)++)

/* The widest level that wake-ups, forks and execs may cross; 0 if there is none. */
WL_INLINE u32 wl_widest_level(struct wl_policy *p)
{
	u32 widest = 0, i;

	wl_for_levels (p, i, 1) {
		if (wl_level_of(p, i)->wake_affine)
			widest = i;
	}
	return widest;
}

/* An entry of one of a level's tables. */
WL_INLINE u32 wl_entry(const u16 *table, u32 index)
{
	wl_hide(index);
	return table[index & (WL_MAX_CPUS - 1)];
}

WL_INLINE struct wl_counter *wl_counter_of(struct wl_policy *p, const struct wl_level *lv, u32 dom)
{
	u32 index = lv->counter_base + dom;

	wl_hide(index);
	return &p->counter[index & (WL_MAX_COUNTERS - 1)];
}

/* The first CPU of cpu's LLC. Its record holds what belongs to the whole LLC. */
WL_INLINE u32 wl_llc_first(struct wl_policy *p, u32 cpu)
{
	return wl_entry(p->topo.llc_first, cpu);
}

WL_INLINE u32 wl_shares_llc(struct wl_policy *p, u32 a, u32 b)
{
	return wl_llc_first(p, a) == wl_llc_first(p, b);
}

/*
 * The smallest level at which one domain has both CPUs, which differ; nr_levels if there is none.
 */
WL_INLINE u32 wl_spanning_level(struct wl_policy *p, u32 a, u32 b)
{
	u32 found = p->topo.nr_levels, i;

	wl_for_levels (p, i, wl_shares_llc(p, a, b) ? 1 : p->topo.llc_level + 1) {
		struct wl_level *lv = wl_level_of(p, i);

		if (wl_entry(lv->dom_of, a) == wl_entry(lv->dom_of, b)) {
			found = i;
			break;
		}
	}
	return found;
}

WL_INLINE struct wl_cpu *wl_llc_record(struct wl_policy *p, u32 cpu)
{
	return wl_cpu_of(p, wl_llc_first(p, cpu));
}

/* The first CPU of cpu's domain at a level. */
WL_INLINE u32 wl_domain_first(struct wl_policy *p, u32 level, u32 cpu)
{
	struct wl_level *lv = wl_level_of(p, level);

	return wl_entry(lv->cpus, wl_entry(lv->first, wl_entry(lv->dom_of, cpu)));
}

/* ------------------------------------------------------------------ affinity */

/* Whether every CPU is allowed; then the mask need not be read. */
WL_INLINE u32 wl_anywhere(struct wl_policy *p, const struct wl_task *t)
{
	return t->nr_allowed >= p->topo.nr_cpus;
}

WL_INLINE u32 wl_allowed(struct wl_policy *p, const struct wl_task *t, u32 cpu)
{
	u32 word = cpu / 64;

	if (wl_anywhere(p, t))
		return 1;
	wl_hide(word);
	return (t->allowed[word & (WL_MASK_WORDS - 1)] >> (cpu & 63)) & 1;
}

/*
 * Returns the first allowed CPU of a domain, from its start-th CPU on, wrapping; WL_CPU_NONE if it
 * has none.
 */
WL_FN int wl_first_allowed(struct wl_policy *p WL_ARG, const struct wl_task *t WL_ARG, u32 level,
			   u32 dom, u32 start)
{
	struct wl_level *lv = wl_level_of(p, level);
	u32 first = wl_entry(lv->first, dom), span = wl_entry(lv->weight, dom);
	u32 i, cpu;
	int found = WL_CPU_NONE;

	if (wl_anywhere(p, t))
		return wl_entry(lv->cpus, first + start);
	wl_for (i, 0, span) {
		cpu = wl_entry(lv->cpus, first + wl_wrap(start + i, span));
		if (wl_allowed(p, t, cpu)) {
			found = cpu;
			break;
		}
	}
	return found;
}

/*
 * Returns cpu if it is allowed, else the first allowed CPU of the smallest domain around cpu that
 * has one.
 */
WL_FN int wl_nearest_allowed(struct wl_policy *p WL_ARG, const struct wl_task *t WL_ARG, u32 cpu)
{
	u32 nr_levels = p->topo.nr_levels, i, dom;
	int found = cpu;

	if (wl_allowed(p, t, cpu))
		return found;
	wl_for (i, 1, nr_levels) {
		struct wl_level *lv = wl_level_of(p, i);

		dom = wl_entry(lv->dom_of, cpu);
		found = wl_first_allowed(p, t, i, dom,
					 wl_entry(lv->pos, cpu) - wl_entry(lv->first, dom));
		if (found >= 0)
			break;
	}
	return found < 0 ? (int)cpu : found;
}

/* ------------------------------------------------------------------ distances and reads */

/*
 * A host that follows the lines of enum wl_line defines these before core.h. The host knows which
 * CPU executes the call: the CPU that reads or writes. None of them decides or returns anything.
 *	wl_line_read(p, line, dist)	the line is read, at this distance
 *	wl_line_locked(p, line, dist)	the line is read at this distance in order to be written:
 *		the runqueue's lock lies in it, and is taken before anything else is read
 *	wl_line_written(p, line)	the line is written
 *	wl_line_updated(p, line)	the line is updated by an atomic operation, which other CPUs
 *		perform on it too
 *	wl_line_step(p, step)		reads from now on belong to this enum wl_step
 */
#ifndef wl_line_read
#define wl_line_read(p, line, dist)   ((void)(line), (void)(dist))
#define wl_line_locked(p, line, dist) ((void)(line), (void)(dist))
#define wl_line_written(p, line)      ((void)(line))
#define wl_line_updated(p, line)      ((void)(line))
#define wl_line_step(p, step)	      ((void)(step))
#endif

WL_INLINE void wl_wrote_cpu(struct wl_policy *p, u32 cpu)
{
	(void)p;
	wl_line_written(p, WL_LINE_CPU + (cpu & (WL_MAX_CPUS - 1)));
}

WL_INLINE void wl_wrote_llc(struct wl_policy *p, u32 first_cpu)
{
	(void)p;
	wl_line_written(p, WL_LINE_LLC + (first_cpu & (WL_MAX_CPUS - 1)));
}

/*
 * Answers count reads by distance; the counts never affect a decision. A host that ignores them may
 * define wl_tells_distances to 0 before core.h: every read then counts as local, and reads outside
 * a search are not counted. If it also never calls wl_scan_took(), which compares numbers of reads,
 * it may define wl_counts_reads to 0: then nothing is counted.
 */
#ifndef wl_tells_distances
#define wl_tells_distances(p) 1
#define wl_counts_reads(p)    1
#endif

/*
 * A host that never calls wl_sleep() may define wl_keeps_sleepers to 0 before core.h. Then no code
 * looks for groups that stay in a queue without a task.
 */
#ifndef wl_keeps_sleepers
#define wl_keeps_sleepers(p) 1
#endif

WL_INLINE void wl_read_at(struct wl_policy *p, struct wl_reads *reads, u32 dist)
{
	(void)p;
	if (!wl_counts_reads(p))
		return;
	wl_hide(dist);
	reads->at[dist & (WL_NR_DIST - 1)]++;
}

/*
 * These count a read, and name the line that is read: a CPU's, an LLC's, a counter's or a block's.
 */
WL_INLINE void wl_read_cpu(struct wl_policy *p, struct wl_reads *reads, u32 cpu, u32 dist)
{
	wl_read_at(p, reads, dist);
	wl_line_read(p, WL_LINE_CPU + (cpu & (WL_MAX_CPUS - 1)), dist);
}

/* As wl_read_cpu(), with cpu's runqueue locked. */
WL_INLINE void wl_lock_cpu(struct wl_policy *p, struct wl_reads *reads, u32 cpu, u32 dist)
{
	wl_read_at(p, reads, dist);
	wl_line_locked(p, WL_LINE_CPU + (cpu & (WL_MAX_CPUS - 1)), dist);
}

WL_INLINE void wl_read_llc(struct wl_policy *p, struct wl_reads *reads, u32 first_cpu, u32 dist)
{
	wl_read_at(p, reads, dist);
	wl_line_read(p, WL_LINE_LLC + (first_cpu & (WL_MAX_CPUS - 1)), dist);
}

WL_INLINE void wl_read_counter(struct wl_policy *p, struct wl_reads *reads,
			       const struct wl_level *lv, u32 dom, u32 dist)
{
	wl_read_at(p, reads, dist);
	wl_line_read(p, WL_LINE_COUNTER + ((lv->counter_base + dom) & (WL_MAX_COUNTERS - 1)), dist);
}

WL_INLINE void wl_read_block(struct wl_policy *p, struct wl_reads *reads, u32 block, u32 dist)
{
	wl_read_at(p, reads, dist);
	wl_line_read(p, WL_LINE_BLOCK + (block & (WL_MAX_CPUS - 1)), dist);
}

/*
 * The word of idle_llcs that holds an LLC's bit. llc is its number, the domain at llc_level. These
 * bits belong to no CPU; their distance is taken to be the machine's largest.
 */
WL_INLINE u64 *wl_idle_llcs(struct wl_policy *p, u32 llc)
{
	u32 word = llc / 64;

	wl_hide(word);
	return &p->idle_llcs[word & (WL_MASK_WORDS - 1)];
}

WL_INLINE u32 wl_idle_llcs_line(u32 llc)
{
	return WL_LINE_IDLE_LLCS + (llc & (WL_MAX_CPUS - 1)) / 512;
}

WL_INLINE u32 wl_idle_llcs_distance(struct wl_policy *p)
{
	return wl_level_of(p, p->topo.nr_levels - 1)->kind;
}

/* A read of the bit of cpu's LLC. */
WL_INLINE void wl_read_idle_llcs(struct wl_policy *p, struct wl_reads *reads, u32 cpu)
{
	u32 llc, dist;

	if (!wl_counts_reads(p))
		return;
	llc = wl_entry(wl_level_of(p, p->topo.llc_level)->dom_of, cpu);
	dist = wl_idle_llcs_distance(p);
	wl_read_at(p, reads, dist);
	wl_line_read(p, wl_idle_llcs_line(llc), dist);
}

/* ------------------------------------------------------------------ group records */

/*
 * A host that keeps group records defines these before core.h. Either may return a null pointer:
 * there is no such record. Other hosts have no groups, and the compiler removes the code that uses
 * them.
 *	wl_group_at(p, slot)		a struct wl_group
 *	wl_group_cpu_at(p, slot, cpu)	a struct wl_group_cpu
 */
#ifndef wl_group_at
#define wl_group_at(p, slot)	      ((void)(slot), (struct wl_group *)0)
#define wl_group_cpu_at(p, slot, cpu) ((void)(slot), (void)(cpu), (struct wl_group_cpu *)0)
#endif

#define wl_group_line(p, slot, cpu) (WL_NR_LINES + (slot) * (p)->topo.nr_cpus + (cpu))

WL_FN int wl_distance_of(struct wl_policy *p WL_ARG, u32 a, u32 b)
{
	u32 llc_level = p->topo.llc_level, kind = WL_DIST_NUMA3, i;
	struct wl_level *smt = wl_level_of(p, p->topo.smt_level);
	u32 cluster = wl_entry(p->topo.cluster_of, a);

	if (a == b)
		return WL_DIST_CPU;
	/*
	 * Inside an LLC, core and cluster decide. Most calls end here, and need no walk over the
	 * levels.
	 */
	if (wl_entry(smt->dom_of, a) == wl_entry(smt->dom_of, b))
		return smt->kind;
	if (cluster != WL_NO_CLUSTER && cluster == wl_entry(p->topo.cluster_of, b))
		return WL_DIST_CLS;
	if (wl_shares_llc(p, a, b))
		return wl_level_of(p, llc_level)->kind;
	wl_for_levels (p, i, llc_level + 1) {
		struct wl_level *lv = wl_level_of(p, i);

		if (wl_entry(lv->dom_of, a) == wl_entry(lv->dom_of, b)) {
			kind = lv->kind;
			break;
		}
	}
	return kind;
}

/* A host may answer faster, with the same answer: it defines this before core.h. */
#ifndef wl_distance_at_once
#define wl_distance_at_once(p, a, b) wl_distance_of((p), (a), (b))
#endif

/*
 * The distance between two CPUs: the kind of the smallest level at which one domain has both.
 * Clusters count even if the policy has no such level.
 */
WL_INLINE u32 wl_distance(struct wl_policy *p, u32 a, u32 b)
{
	return wl_tells_distances(p) ? wl_distance_at_once(p, a, b) : WL_DIST_CPU;
}

/* `overloaded` belongs to no CPU; it is taken to be with the first one. */
WL_INLINE void wl_read_overloaded(struct wl_policy *p, u32 this_cpu, struct wl_reads *reads)
{
	u32 first = wl_entry(wl_level_of(p, 0)->cpus, 0), dist = wl_distance(p, this_cpu, first);

	wl_read_at(p, reads, dist);
	wl_line_read(p, WL_LINE_OVERLOADED, dist);
}

/*
 * A search inside one LLC asks for the distance of every CPU that it visits, so this keeps what all
 * the answers share. From another LLC, all CPUs are equally far; from inside, core and cluster
 * decide.
 */
struct wl_reader { /* kept small because it is on BPF's stack */
	u16 cpu;
	u16 far; /* the distance if it is the same for all CPUs, else 0 */
	u16 core;
	u16 cluster;
};

WL_INLINE void wl_reader_init(struct wl_policy *p, struct wl_reader *r, u32 cpu, u32 target)
{
	struct wl_level *smt;

	r->far = 0;
	if (!wl_tells_distances(p))
		return;
	smt = wl_level_of(p, p->topo.smt_level);
	r->cpu = cpu;
	r->core = wl_entry(smt->dom_of, cpu);
	r->cluster = wl_entry(p->topo.cluster_of, cpu);
	r->far = wl_shares_llc(p, cpu, target) ? 0 : wl_distance(p, cpu, target);
}

WL_INLINE u32 wl_reader_distance(struct wl_policy *p, const struct wl_reader *r, u32 cpu)
{
	if (!wl_tells_distances(p))
		return WL_DIST_CPU;
	if (r->far)
		return r->far;
	if (cpu == r->cpu)
		return WL_DIST_CPU;
	if (wl_entry(wl_level_of(p, p->topo.smt_level)->dom_of, cpu) == r->core)
		return WL_DIST_SMT;
	if (r->cluster != WL_NO_CLUSTER && wl_entry(p->topo.cluster_of, cpu) == r->cluster)
		return WL_DIST_CLS;
	return WL_DIST_LLC;
}

/* What every search needs to know. */
struct wl_search {
	u32 this_cpu;	    /* the CPU that searches, where the wake-up happens */
	u32 prev;	    /* where the task was, or the nearest CPU that it is allowed on */
	u32 target;	    /* what wake-affine chose */
	u32 flags;	    /* WL_WAKE_* */
	u32 candidate;	    /* the CPU that a descent has reached */
	u32 cores_searched; /* 1: the idle-core step ran; nearest: it runs now */
	u64 now_ns;
	struct wl_reader reader; /* from this_cpu, in target's LLC */
};

/* ------------------------------------------------------------------ idle CPUs */

/*
 * Whether cpu seems idle: the idle task runs (or nothing was reported yet), and nothing is queued.
 * This claims nothing.
 */
WL_INLINE u32 wl_looks_idle(struct wl_policy *p, u32 cpu)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	return wl_read_once(c->state) < WL_CPU_BUSY && wl_read_once(c->nr_queued) == 0;
}

/*
 * Claims cpu if it is idle. If another wake-up claims it first, that is counted, and the CPU is as
 * good as busy.
 */
WL_INLINE u32 wl_take_idle(struct wl_policy *p, u32 cpu, struct wl_decision *out)
{
	if (!wl_looks_idle(p, cpu))
		return 0;
	if (wl_claim_idle(p, cpu))
		return 1;
	out->lost_claims++;
	return 0;
}

/* Looks at cpu for a search, and takes it if it is idle. */
WL_INLINE u32 wl_take_counted(struct wl_policy *p, const struct wl_search *s, u32 cpu,
			      struct wl_decision *out)
{
	wl_read_cpu(p, &out->reads, cpu, wl_reader_distance(p, &s->reader, cpu));
	return wl_take_idle(p, cpu, out);
}

/*
 * Claims an idle allowed CPU in the candidate's domain at `level`, from the candidate on, wrapping.
 * Returns it, or WL_CPU_NONE.
 */
WL_FN int wl_take_in_domain(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG,
			    const struct wl_task *t WL_ARG, u32 level,
			    struct wl_decision *out WL_ARG)
{
	struct wl_level *lv = wl_level_of(p, level);
	u32 dom = wl_entry(lv->dom_of, s->candidate);
	u32 first = wl_entry(lv->first, dom), span = wl_entry(lv->weight, dom);
	u32 start = wl_entry(lv->pos, s->candidate) - first, i, cpu;
	int found = WL_CPU_NONE;

	wl_for (i, 0, span) {
		cpu = wl_entry(lv->cpus, first + wl_wrap(start + i, span));
		if (wl_allowed(p, t, cpu) && wl_take_counted(p, s, cpu, out)) {
			found = cpu;
			break;
		}
	}
	return found;
}

#endif /* WL_ACCESS_H */
