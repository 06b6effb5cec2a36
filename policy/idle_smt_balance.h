/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * idle_smt_balance.h - idle=smt-balance: descends by counters to where there is room, and never
 * scans the LLC.
 *
 * Every group below the LLC has a counter of its busy CPUs, which only this design keeps: a CPU
 * that turns busy adds 1 to the counter of each domain around it below the LLC, and a CPU that
 * turns idle subtracts 1. The descent starts at the LLC. *here* is the group that holds the
 * candidate CPU, at first target. *there* is a random other group of the same domain: from a random
 * index on, the first group that is not here and holds an allowed CPU. If there has strictly more
 * room (CPUs less busy CPUs; affinity is ignored), a random allowed CPU of there becomes the
 * candidate. The descent continues inside the candidate's group. At the end, in the innermost
 * domain (the core; on a machine without SMT the cluster), it takes an idle allowed CPU, from a
 * random index on, wrapping; if there is none, target. A task that is placed while it is itself
 * running on this would be in its own way: then the remembered contribution of target's CPU is left
 * out of the count of the group that holds this.
 *
 * Random numbers come from one counter per CPU, the rotor, as published; rotor=mixed hashes it. In
 * an LLC of several groups a search that does not move uses two numbers, so the published rotor
 * visits only every other start. A machine with neither SMT nor clusters uses step 2 of `scan`
 * instead.
 *
 * Example: one LLC of 4 cores x 2 threads; CPU c and c + 4 share a core; target is 0, the wake-up
 * is on CPU 0, and the rotor is 2; CPUs 0, 1, 4 and 5 are busy. here is core 0, with no room.
 * Random index 2: there is core 2 with room 2 > 0, so the candidate moves. Rotor 3: index 3 mod 2
 * is 1, and the candidate is CPU 6. At the end, rotor 4: index 0 of {2, 6} is CPU 2, which is idle,
 * and is taken. Reads: the own core's counter (SMT), core 2's counter (LLC), CPU 2 (LLC).
 *
 * Cost: two counters per level and one core, whatever the LLC's size. It fails when few CPUs are
 * idle, because one random comparison per level rarely hits their core.
 */
#ifndef WL_IDLE_SMT_BALANCE_H
#define WL_IDLE_SMT_BALANCE_H

#include "idle_scan.h"
#include "random.h"

/* cpu turned busy (1) or idle (-1): counts it in all domains around it that have a counter. */
WL_INLINE void wl_count_busy(struct wl_policy *p, u32 cpu, u32 change)
{
	u32 i;

	/* SMT and CLS at most, and none from the LLC on. */
	for (i = 1; i < 3; i++) {
		struct wl_level *lv = wl_level_of(p, i);
		u32 dom = wl_entry(lv->dom_of, cpu);

		if (!lv->has_counters)
			continue;
		wl_atomic_add(&wl_counter_of(p, lv, dom)->busy, change);
		wl_line_updated(p, WL_LINE_COUNTER +
					   ((lv->counter_base + dom) & (WL_MAX_COUNTERS - 1)));
	}
}

/* A random number below n, from the rotor of the CPU that searches. n is not 0. */
WL_INLINE u32 wl_random(struct wl_policy *p, struct wl_cpu *own, u32 n)
{
	u32 random = wl_get(own->rotor);

	own->rotor = random + 1;
	/* The upper bits are mixed too, because n may be even. */
	if (wl_axis(p, rotor) == WL_ROTOR_MIXED)
		random = wl_mix(random);
	/* n is most often a power of two, and a division costs a tenth of the search. */
	return n & (n - 1) ? random % n : random & (n - 1);
}

/*
 * The first group of here's domain at `level`, from the start-th on, that is not here and holds an
 * allowed CPU; -1 if there is none. Not called for a task that may run anywhere.
 */
WL_FN int wl_other_group(struct wl_policy *p WL_ARG, const struct wl_task *t WL_ARG, u32 level,
			 u32 here, u32 start)
{
	struct wl_level *lv = wl_level_of(p, level), *groups = wl_level_of(p, level - 1);
	u32 dom = wl_entry(lv->dom_of, wl_entry(groups->cpus, wl_entry(groups->first, here)));
	u32 child = wl_entry(lv->child, dom), nr = wl_entry(lv->nr_child, dom);
	u32 i, group;
	int found = -1;

	wl_for (i, 0, nr) {
		group = child + wl_wrap(start + i, nr);
		if (group == here)
			continue;
		if (wl_first_allowed(p, t, level - 1, group, 0) >= 0) {
			found = group;
			break;
		}
	}
	return found;
}

/*
 * The distance of a group: its level's kind if it holds the CPU that searches, else the distance of
 * its first CPU.
 */
WL_INLINE u32 wl_group_distance(struct wl_policy *p, const struct wl_search *s,
				const struct wl_level *groups, u32 group)
{
	if (!wl_tells_distances(p))
		return WL_DIST_CPU;
	if (wl_entry(groups->dom_of, s->this_cpu) == group)
		return groups->kind;
	return wl_reader_distance(p, &s->reader,
				  wl_entry(groups->cpus, wl_entry(groups->first, group)));
}

/* The number of busy CPUs of a group. The read is counted. */
WL_INLINE u32 wl_group_busy(struct wl_policy *p, const struct wl_search *s, struct wl_level *groups,
			    u32 group, struct wl_decision *out)
{
	wl_read_counter(p, &out->reads, groups, group, wl_group_distance(p, s, groups, group));
	return wl_read_once(wl_counter_of(p, groups, group)->busy);
}

/*
 * One step of the descent, through the groups of the candidate's domain at `level`, from the
 * candidate's group, here. Returns the group in which the descent continues; *weight is the number
 * of its CPUs. anywhere: whether t may run on every CPU; a constant, so that there is a separate
 * function for such tasks. own: the record of the CPU that searches.
 */
WL_INLINE u32 wl_descend(struct wl_policy *p, const struct wl_search *s, const struct wl_task *t,
			 struct wl_cpu *own, u32 level, u32 candidate, u32 here, u32 anywhere,
			 u32 *weight, struct wl_decision *out)
{
	struct wl_level *lv = wl_level_of(p, level), *groups = wl_level_of(p, level - 1);
	u32 dom = wl_entry(lv->dom_of, candidate), nr = wl_entry(lv->nr_child, dom), child, start;
	u32 busy_here, busy_there, weight_here = wl_entry(groups->weight, here), weight_there;
	u32 this_group;
	int there;

	*weight = weight_here;
	if (nr < 2)
		return here;
	start = wl_random(p, own, nr);
	if (anywhere) {
		child = wl_entry(lv->child, dom);
		there = child + start;
		if ((u32)there == here)
			there = start + 1 < nr ? there + 1 : (int)child;
	} else {
		there = wl_other_group(p, t, level, here, start);
		if (there < 0)
			return here;
	}
	busy_here = wl_group_busy(p, s, groups, here, out);
	busy_there = wl_group_busy(p, s, groups, there, out);
	weight_there = wl_entry(groups->weight, there);
	if (t->place == WL_PLACE_RUNNING && t->cpu == (s32)s->this_cpu &&
	    wl_read_once(wl_cpu_of(p, s->target)->state) >= WL_CPU_BUSY) {
		this_group = wl_entry(groups->dom_of, s->this_cpu);
		if (this_group == here && busy_here)
			busy_here--;
		if (this_group == (u32)there && busy_there)
			busy_there--;
	}
	/* There has no room, or no more room than here. */
	if (busy_there >= weight_there)
		return here;
	if (busy_here < weight_here && weight_there - busy_there <= weight_here - busy_here)
		return here;
	*weight = weight_there;
	return there;
}

/* The step through the clusters of target's LLC. Returns the candidate. */
WL_FN int wl_descend_clusters(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG,
			      const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	struct wl_level *clusters = wl_level_of(p, 2);
	struct wl_cpu *own = wl_cpu_of(p, s->this_cpu);
	u32 here = wl_entry(clusters->dom_of, s->target), span, start;
	u32 there = wl_descend(p, s, t, own, 3, s->target, here, wl_anywhere(p, t), &span, out);

	if (there == here)
		return s->target;
	start = wl_random(p, own, span);
	return wl_first_allowed(p, t, 2, there, start);
}

/*
 * Descends from target by counters, then searches the innermost domain. Returns the CPU claimed, or
 * WL_CPU_NONE.
 */
WL_INLINE int wl_balance_search(struct wl_policy *p, struct wl_search *s, const struct wl_task *t,
				u32 anywhere, struct wl_decision *out)
{
	struct wl_level *inner = wl_level_of(p, 1);
	struct wl_cpu *own = wl_cpu_of(p, s->this_cpu);
	u32 llc_level = p->topo.llc_level, candidate = s->target, dom, here, first, span, start,
	    cpu;

	/*
	 * Levels 2 and 3 at most: groups of LLCs are clusters or cores, groups of clusters are
	 * cores.
	 */
	if (llc_level > 2)
		candidate = wl_descend_clusters(p, s, t, out);
	here = wl_entry(inner->dom_of, candidate);
	dom = here;
	if (llc_level > 1)
		dom = wl_descend(p, s, t, own, 2, candidate, here, anywhere, &span, out);
	else
		span = wl_entry(inner->weight, dom);
	out->reason = candidate == s->target ? WL_REASON_BALANCE_STAYED : WL_REASON_BALANCE_MOVED;
	first = wl_entry(inner->first, dom);
	if (dom != here) {
		out->reason = WL_REASON_BALANCE_MOVED;
		/* Draws the candidate there; only its core matters by now. */
		wl_random(p, own, span);
	}
	start = wl_random(p, own, span);
	if (span > 2) {
		s->candidate = wl_entry(inner->cpus, first + start);
		return wl_take_in_domain(p, s, t, 1, out);
	}
	/* Most cores have two threads at most; these are looked at without a loop. */
	cpu = wl_entry(inner->cpus, first + start);
	if ((anywhere || wl_allowed(p, t, cpu)) && wl_take_counted(p, s, cpu, out))
		return cpu;
	if (span < 2)
		return WL_CPU_NONE;
	cpu = wl_entry(inner->cpus, first + 1 - start);
	if ((anywhere || wl_allowed(p, t, cpu)) && wl_take_counted(p, s, cpu, out))
		return cpu;
	return WL_CPU_NONE;
}

WL_FN int wl_balance_anywhere(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			      const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	return wl_balance_search(p, s, t, 1, out);
}

WL_FN int wl_balance_allowed(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			     const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	return wl_balance_search(p, s, t, 0, out);
}

/* The second step of `scan` as a whole search. */
WL_FN int wl_balance_scan(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			  const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	out->reason = WL_REASON_IDLE_CPU;
	return wl_scan_cpu(p, s, t, 1, out);
}

WL_INLINE int wl_search_smt_balance(struct wl_policy *p, struct wl_search *s,
				    const struct wl_task *t, struct wl_decision *out)
{
	if (p->topo.llc_level == 0 || wl_level_of(p, 1)->kind > WL_DIST_CLS)
		return wl_balance_scan(p, s, t, out);
	if (wl_anywhere(p, t))
		return wl_balance_anywhere(p, s, t, out);
	return wl_balance_allowed(p, s, t, out);
}

#endif /* WL_IDLE_SMT_BALANCE_H */
