/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * idle_smt_balance.h - idle=smt-balance: descend towards room by counters, never scan the LLC.
 *
 * Every group below the LLC has a counter of its busy CPUs (account.h), which this design alone
 * keeps. From the LLC down: *here*
 * is the group that holds the candidate CPU, at first target; *there* is a random other group of
 * the same domain: the first from a random index on that is not here and holds an allowed CPU. If
 * there has strictly more room (CPUs less busy ones; affinity is not looked at), the candidate
 * becomes a random allowed CPU of there. The descent goes on inside the candidate's group.
 * At the end, in the innermost domain (the core; the cluster on a machine without SMT), an idle
 * allowed CPU is taken, from a random index on, wrapping; if there is none, target.
 * A task that is to be placed while it is itself current on this would be in its own way: then the
 * remembered contribution of target's CPU is left out of the group that holds this.
 *
 * Random numbers are one counter a CPU, the rotor, as published; rotor=mixed hashes it. An LLC with
 * more than one group and no move uses two a search, so the published rotor visits only every other
 * start. A machine with neither SMT nor clusters takes step 2 of `scan` instead.
 *
 * Example, one LLC of 4 cores x 2 threads, CPU c and c + 4 sharing a core; target 0, the wake-up on
 * CPU 0, rotor 2; busy are 0, 1, 4 and 5. here is core 0 with no room. Random index 2: there is
 * core 2, room 2 > 0: move. Rotor 3: index 3 mod 2 is 1, the candidate is CPU 6. At the end rotor
 * 4: index 0 of {2, 6}: CPU 2 is idle and taken. Reads: own core's counter (SMT), core 2's (LLC),
 * CPU 2 (LLC).
 *
 * Cost: two counters a level and one core, whatever the LLC's size. It fails when few CPUs are
 * idle: one random comparison a level rarely hits their core.
 */
#ifndef WL_IDLE_SMT_BALANCE_H
#define WL_IDLE_SMT_BALANCE_H

#include "idle_scan.h"

/* A random number below n, from the rotor of the CPU that searches. */
WL_INLINE u32 wl_random(struct wl_policy *p, u32 cpu, u32 n)
{
	struct wl_cpu *own = wl_cpu_of(p, cpu);
	u32 random = wl_get(own->rotor);

	own->rotor = random + 1;
	if (wl_axis(p, rotor) == WL_ROTOR_MIXED) {
		/*
		 * Multiply by 2^32 / golden ratio, then bring the good upper bits down; n may be
		 * even.
		 */
		random *= 0x9e3779b1u;
		random ^= random >> 15;
		random *= 0x85ebca6bu;
		random ^= random >> 13;
	}
	return n ? random % n : 0;
}

/*
 * The first group of here's domain at `level`, from the start-th on, that is not here and holds an
 * allowed CPU; -1 if there is none. Not asked for a task that may run anywhere.
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

/* How many CPUs of a group are not busy, leaving `forgiven` of the busy ones out. */
WL_INLINE u32 wl_room(struct wl_policy *p, u32 level, u32 group, u32 forgiven)
{
	struct wl_level *lv = wl_level_of(p, level);
	u32 weight = wl_entry(lv->weight, group);
	u32 busy = wl_read_once(wl_counter_of(p, lv, group)->busy);

	busy = busy > forgiven ? busy - forgiven : 0;
	return weight > busy ? weight - busy : 0;
}

/*
 * How far a group is: its level's kind if it holds the CPU that searches, else the way to its first
 * CPU.
 */
WL_INLINE u32 wl_group_distance(struct wl_policy *p, const struct wl_search *s,
				const struct wl_level *groups, u32 group)
{
	if (wl_entry(groups->dom_of, s->this_cpu) == group)
		return groups->kind;
	return wl_reader_distance(p, &s->reader,
				  wl_entry(groups->cpus, wl_entry(groups->first, group)));
}

/*
 * One step of the descent, through the groups of the candidate's domain at `level`: may change the
 * candidate.
 */
WL_FN int wl_descend(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
		     const struct wl_task *t WL_ARG, u32 level, struct wl_decision *out WL_ARG)
{
	struct wl_level *lv = wl_level_of(p, level), *groups = wl_level_of(p, level - 1);
	u32 here = wl_entry(groups->dom_of, s->candidate),
	    own = wl_entry(groups->dom_of, s->this_cpu);
	u32 nr = wl_entry(lv->nr_child, wl_entry(lv->dom_of, s->candidate)), start;
	u32 itself = t->place == WL_PLACE_RUNNING && t->cpu == (s32)s->this_cpu;
	u32 forgiven = itself && wl_read_once(wl_cpu_of(p, s->target)->state) >= WL_CPU_BUSY;
	u32 child = wl_entry(lv->child, wl_entry(lv->dom_of, s->candidate));
	int there;

	if (nr < 2)
		return 0;
	start = wl_random(p, s->this_cpu, nr);
	if (wl_anywhere(p, t))
		there = child + wl_wrap(child + start == here ? start + 1 : start, nr);
	else
		there = wl_other_group(p, t, level, here, start);
	if (there < 0)
		return 0;
	wl_read_counter(p, &out->reads, groups, here, wl_group_distance(p, s, groups, here));
	wl_read_counter(p, &out->reads, groups, there, wl_group_distance(p, s, groups, there));
	if (wl_room(p, level - 1, there, forgiven && own == (u32)there) <=
	    wl_room(p, level - 1, here, forgiven && own == here))
		return 0;
	start = wl_random(p, s->this_cpu, wl_entry(groups->weight, there));
	if (wl_anywhere(p, t))
		s->candidate = wl_entry(groups->cpus, wl_entry(groups->first, there) + start);
	else
		s->candidate = wl_first_allowed(p, t, level - 1, there, start);
	return 0;
}

WL_FN int wl_search_smt_balance(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
				const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	struct wl_level *inner = wl_level_of(p, 1);
	u32 llc_level = p->topo.llc_level, dom, start;

	if (llc_level == 0 || inner->kind > WL_DIST_CLS) {
		out->reason = WL_REASON_IDLE_CPU;
		return wl_scan_cpu(p, s, t, out);
	}
	s->candidate = s->target;
	/*
	 * Levels 2 and 3 at most: groups of LLCs are clusters or cores, groups of clusters are
	 * cores.
	 */
	if (llc_level > 2)
		wl_descend(p, s, t, 3, out);
	if (llc_level > 1)
		wl_descend(p, s, t, 2, out);
	out->reason =
		s->candidate == s->target ? WL_REASON_BALANCE_STAYED : WL_REASON_BALANCE_MOVED;
	dom = wl_entry(inner->dom_of, s->candidate);
	start = wl_random(p, s->this_cpu, wl_entry(inner->weight, dom));
	s->candidate = wl_entry(inner->cpus, wl_entry(inner->first, dom) + start);
	return wl_take_in_domain(p, s, t, 1, out);
}

#endif /* WL_IDLE_SMT_BALANCE_H */
