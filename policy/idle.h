/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * idle.h - the axis `idle`: the search for an idle CPU, and the events that a design follows for
 * it. Both are handed to the chosen design.
 *
 * A design is a value in params.h and a file with its search; `cargo xtask lists` adds it here. It
 * needs a line below only for what it follows or changes: the default suits a search that keeps no
 * state.
 */
#ifndef WL_IDLE_H
#define WL_IDLE_H

#include "capacity.h"
#include "idle_node.h"
#include "idle_walk.h"

/* The designs' files; `cargo xtask lists` writes these lines. */
#include "idle_narrow.h"
#include "idle_nearest.h"
#include "idle_none.h"
#include "idle_scan.h"
#include "idle_smt_balance.h"
#include "idle_two_choices.h"

/* ------------------------------------------------------------------ the search */

/* idle=scan, by form. Returns the CPU claimed, or WL_CPU_NONE. */
WL_INLINE int wl_search_by_form(struct wl_policy *p, struct wl_search *s, const struct wl_task *t,
				struct wl_decision *out)
{
	switch (wl_axis(p, scan_form)) {
	case WL_SCAN_2_6_24:
		return wl_search_domains(p, s, t, out);
	case WL_SCAN_3_10:
		return wl_search_groups(p, s, t, out);
	case WL_SCAN_MERGED:
	case WL_SCAN_AGED:
	case WL_SCAN_UTIL:
	case WL_SCAN_PACKED:
		return wl_search_merged(p, s, t, out);
	case WL_SCAN_NODE:
	case WL_SCAN_NODE_4:
		return wl_search_node(p, s, t, out);
	default:
		return wl_search_scan(p, s, t, out);
	}
}

/* The search after target, prev and the recent CPU. Returns the CPU claimed, or WL_CPU_NONE. */
WL_INLINE int wl_idle_search(struct wl_policy *p, struct wl_search *s, const struct wl_task *t,
			     struct wl_decision *out)
{
	if (p->topo.unequal)
		return wl_search_capacity(p, s, t, out);
	switch (wl_axis(p, idle)) {
	/* `cargo xtask lists` writes the cases. */
	case WL_IDLE_SMT_BALANCE:
		return wl_search_smt_balance(p, s, t, out);
	case WL_IDLE_NARROW:
		return wl_search_narrow(p, s, t, out);
	case WL_IDLE_NEAREST:
		return wl_search_nearest(p, s, t, out);
	case WL_IDLE_TWO_CHOICES:
		return wl_search_two_choices(p, s, t, out);
	case WL_IDLE_NONE:
		return wl_search_none(p, s, t, out);
	default:
		return wl_search_by_form(p, s, t, out);
	}
}

/* Is prev looked at before the search? */
WL_INLINE u32 wl_idle_looks_at_prev(struct wl_policy *p)
{
	return wl_axis(p, idle) != WL_IDLE_SCAN || wl_axis(p, scan_form) != WL_SCAN_2_6_24;
}

/* Is the task's recent CPU looked at before the search? Since Linux 5.2, unless it packs. */
WL_INLINE u32 wl_idle_looks_at_recent(struct wl_policy *p)
{
	switch (wl_axis(p, idle)) {
	case WL_IDLE_SCAN:
		return wl_axis(p, scan_form) >= WL_SCAN_5_2 &&
		       wl_axis(p, scan_form) != WL_SCAN_PACKED;
	case WL_IDLE_NARROW:
		return 1;
	default:
		return 0;
	}
}

/* A search moved t to another CPU. */
WL_INLINE void wl_idle_moved(struct wl_policy *p, struct wl_task *t)
{
	if (wl_axis(p, idle) == WL_IDLE_NEAREST)
		wl_nearest_moved(t);
}

/* Target or prev was idle, and t went there. */
WL_INLINE void wl_idle_stayed(struct wl_policy *p, struct wl_task *t)
{
	if (wl_axis(p, idle) == WL_IDLE_NEAREST)
		wl_nearest_stayed(t);
}

/* ------------------------------------------------------------------ events */

/* Start values of what belongs to cpu. */
WL_INLINE void wl_idle_init(struct wl_policy *p, u32 cpu)
{
	switch (wl_axis(p, idle)) {
	case WL_IDLE_NEAREST:
		wl_block_init(p, cpu);
		break;
	case WL_IDLE_SCAN:
	case WL_IDLE_NARROW:
	case WL_IDLE_SMT_BALANCE:
		wl_cores_init(p, cpu);
		wl_idle_scan_init(p, cpu);
		break;
	}
}

/* cpu's idle period is over, and its average has been updated. */
WL_INLINE void wl_idle_woken(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	if (wl_axis(p, idle) == WL_IDLE_SCAN && wl_axis(p, scan_form) == WL_SCAN_AGED)
		wl_scan_room_renew(p, cpu, now_ns);
}

/* cpu turned busy, and its state already says so. */
WL_INLINE void wl_idle_became_busy(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	switch (wl_axis(p, idle)) {
	case WL_IDLE_SMT_BALANCE:
		wl_count_busy(p, cpu, 1);
		break;
	case WL_IDLE_NEAREST:
		wl_block_busy(p, cpu, now_ns);
		break;
	}
}

/* cpu turned idle, and its state already says so. was_busy: it was not idle before. */
WL_INLINE void wl_idle_became_idle(struct wl_policy *p, u32 cpu, u32 was_busy, u64 now_ns)
{
	switch (wl_axis(p, idle)) {
	case WL_IDLE_NEAREST:
		wl_block_idle(p, cpu, now_ns);
		break;
	case WL_IDLE_SMT_BALANCE:
		if (was_busy)
			wl_count_busy(p, cpu, -1);
		wl_cores_idle(p, cpu);
		break;
	case WL_IDLE_SCAN:
	case WL_IDLE_NARROW:
		wl_cores_idle(p, cpu);
		break;
	}
}

/* A task that was queued on cpu is no longer queued there. */
WL_INLINE void wl_idle_dequeued(struct wl_policy *p, u32 cpu)
{
	if (wl_axis(p, idle) == WL_IDLE_NEAREST && wl_looks_idle(p, cpu))
		wl_block_dequeued(p, cpu);
}

/* t is about to be counted as running on cpu. */
WL_INLINE void wl_idle_running(struct wl_policy *p, const struct wl_task *t, u32 cpu, u64 now_ns)
{
	if (wl_axis(p, idle) == WL_IDLE_NEAREST)
		wl_nearest_running(p, t, cpu, now_ns);
}

/* A tick on cpu. */
WL_INLINE void wl_idle_tick(struct wl_policy *p, u32 cpu, u64 now_ns, struct wl_reads *reads)
{
	if (wl_axis(p, idle) == WL_IDLE_NEAREST)
		wl_block_tick(p, cpu);
	else if (wl_idle_reads_util(p))
		wl_idle_scan_update(p, cpu, now_ns, reads);
}

#endif /* WL_IDLE_H */
