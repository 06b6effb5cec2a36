/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * capacity.h - capacity=aware: wake-ups on CPUs of unequal speed. Balancing scales by capacity too.
 *
 * A task *fits* a CPU if its utilization (now or at its last sleep, whichever is greater) is below
 * 80 % of the CPU's capacity. If target, prev or the recent CPU is idle, it is taken at once only
 * if the task fits it. Else the search visits all allowed CPUs of the widest domain that wake-ups
 * may cross, from target on, wrapping. It takes the first idle CPU that the task fits, else the
 * biggest idle CPU, the first of equals. This replaces the search inside one LLC. Where all
 * capacities are equal, nothing here is used.
 *
 * Example: CPUs 0 to 3 have capacity 400, CPUs 4 to 7 have 1024; target is 0, and all but target
 * are idle. A task of utilization 300 fits 400 because 300 * 1280 < 400 * 1024, and gets CPU 1. A
 * task of 330 does not fit (422400 > 409600), and gets CPU 4. If only 2 and 3 are idle, it gets 2,
 * the biggest idle CPU.
 *
 * Cost: it may read every CPU. It fails for a task whose use of CPU time has just changed, because
 * its utilization follows with a half-life of 32 ms. Energy is not considered.
 */
#ifndef WL_CAPACITY_H
#define WL_CAPACITY_H

#include "util.h"

/*
 * Does t fit a CPU of this capacity? Asked where capacities are unequal; t->util must be up to
 * date.
 */
WL_INLINE u32 wl_fits(const struct wl_task *t, u32 capacity)
{
	u64 util = t->util > t->util_slept ? t->util : t->util_slept;

	return (util * 1280 >> WL_UTIL_SHIFT) < capacity * 1024;
}

/* Is cpu good enough to be taken without a search? */
WL_INLINE u32 wl_fits_or_equal(struct wl_policy *p, const struct wl_task *t, u32 cpu)
{
	return !p->topo.unequal || wl_fits(t, wl_entry(p->topo.capacity, cpu));
}

/* Returns the CPU claimed, or WL_CPU_NONE. */
WL_FN int wl_search_capacity(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG,
			     const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	struct wl_level *lv = wl_level_of(p, wl_widest_level(p));
	u32 dom = wl_entry(lv->dom_of, s->target);
	u32 first = wl_entry(lv->first, dom), span = wl_entry(lv->weight, dom);
	u32 start = wl_entry(lv->pos, s->target) - first, i, cpu, capacity, most = 0;
	int found = WL_CPU_NONE, biggest = WL_CPU_NONE;

	wl_for (i, 0, span) {
		cpu = wl_entry(lv->cpus, first + wl_wrap(start + i, span));
		if (!wl_allowed(p, t, cpu))
			continue;
		wl_read_cpu(p, &out->reads, cpu, wl_distance(p, s->this_cpu, cpu));
		if (!wl_looks_idle(p, cpu))
			continue;
		capacity = wl_entry(p->topo.capacity, cpu);
		if (wl_fits(t, capacity)) {
			if (!wl_take_idle(p, cpu, out))
				continue;
			found = cpu;
			break;
		}
		if (capacity > most) {
			most = capacity;
			biggest = cpu;
		}
	}
	out->reason = WL_REASON_FITS;
	if (found < 0 && biggest >= 0 && wl_take_idle(p, biggest, out)) {
		out->reason = WL_REASON_BIGGEST;
		found = biggest;
	}
	return found;
}

#endif /* WL_CAPACITY_H */
