/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * account.h - busy and idle: what a context switch from or to the idle task changes.
 *
 * Every CPU remembers its last report. The first report counts as a change from idle, and a report
 * that repeats the last one changes nothing. The two ends of an idle period give a sample for the
 * CPU's average. The idle search adds what it needs (idle.h): smt-balance counts busy CPUs, scan
 * notes idle cores (has_idle_cores), nearest keeps its bitmaps.
 *
 * Example: smt-balance, one LLC of 2 cores x 2 threads; CPU c and c + 2 share a core. The LLC's
 * groups are the cores, and each has a counter. After busy(0), busy(0), busy(2), busy(1) the
 * counters are 2 and 1. idle(2): 1 and 1, and no core is idle. idle(1): 1 and 0; CPU 3 never
 * reported, so core 1 is idle, and has_idle_cores is set. If CPU 1 was idle from 100 us to 900 us
 * and avg_idle was 1000 us, the average becomes 1000 - 200 / 8 = 975 us.
 *
 * Cost: the CPU's own line, and what the search adds: an atomic addition for each counter;
 * has_idle_cores and the core's threads if it turns idle. It fails where idle periods change faster
 * than an average over 8 of them can follow.
 */
#ifndef WL_ACCOUNT_H
#define WL_ACCOUNT_H

#include "idle.h"
#include "newly_idle.h"

/* Does anything use the utilization of CPUs? */
WL_INLINE u32 wl_keeps_util(struct wl_policy *p)
{
	return wl_idle_reads_util(p) || wl_cluster_reads_util(p);
}

/* Before a CPU turns busy or idle: updates its utilization. */
WL_INLINE void wl_account_util(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	if (wl_keeps_util(p))
		wl_util_cpu_changes(p, cpu, now_ns);
}

/* The new task t joins cpu: adds what it is expected to use there. */
WL_INLINE void wl_account_new(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns)
{
	if (wl_keeps_util(p) && !t->joined_util)
		wl_util_joins(p, t, cpu, now_ns);
}

/* t exits: takes off what is left of that. */
WL_INLINE void wl_account_exit(struct wl_policy *p, struct wl_task *t, u64 now_ns)
{
	if (wl_keeps_util(p) && t->joined_util)
		wl_util_leaves(p, t, now_ns);
}

/*
 * One of the policy's tasks runs on cpu, or nothing does: no task of a higher class has it any
 * more.
 */
WL_INLINE void wl_not_taken(struct wl_policy *p, u32 cpu)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	if (wl_get(c->state) != WL_CPU_TAKEN)
		return;
	wl_write_once(c->state, WL_CPU_BUSY);
	wl_wrote_cpu(p, cpu);
}

WL_INLINE void wl_account_busy(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u64 cap = 2 * p->params.migration_cost_ns, average;

	if (c->state == WL_CPU_BUSY)
		return;
	if (c->state == WL_CPU_TAKEN) {
		wl_not_taken(p, cpu);
		return;
	}
	if (c->state == WL_CPU_IDLE) {
		average = wl_average(c->avg_idle_ns,
				     now_ns > c->idle_since_ns ? now_ns - c->idle_since_ns : 0);
		c->avg_idle_ns = average < cap ? average : cap;
		wl_idle_woken(p, cpu, now_ns);
	}
	wl_account_util(p, cpu, now_ns);
	wl_write_once(c->state, WL_CPU_BUSY);
	wl_wrote_cpu(p, cpu);
	wl_idle_became_busy(p, cpu, now_ns);
}

WL_INLINE void wl_account_idle(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 before = c->state;

	wl_newly_idle_ends(p, cpu, now_ns);
	if (before == WL_CPU_IDLE)
		return;
	c->idle_since_ns = now_ns;
	wl_account_util(p, cpu, now_ns);
	wl_publish(c->state, WL_CPU_IDLE);
	wl_wrote_cpu(p, cpu);
	wl_idle_became_idle(p, cpu, before >= WL_CPU_BUSY, now_ns);
}

#endif /* WL_ACCOUNT_H */
