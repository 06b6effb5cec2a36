/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * idle_merged.h - idle=scan, form=merged (Linux 5.12), form=aged (5.15 to 5.19), form=util (since
 * 6.0) and form=packed: one walk through target's LLC that looks for an idle core and for an idle
 * CPU at once. idle_node.h goes on in other LLCs.
 *
 * The walk visits allowed CPUs in order, wrapping. merged starts at target, the others at the CPU
 * behind target. There are two kinds of walk:
 *   cores	On SMT machines, while has_idle_cores is set. Each visit is to a core that was not
 *		visited yet. The first allowed idle CPU seen anywhere is remembered. Until there is
 *		one, all threads of a core are read; from then on a core is left at its first busy
 *		thread. A wholly idle core is taken: of its CPUs, the one that came first in the
 *		order. At the end of the walk has_idle_cores is cleared, and the remembered CPU is
 *		taken. There is no limit.
 *   CPUs	Otherwise. Each visit is to one CPU, which is taken if it is idle. The number of
 *		visits is limited:
 *			merged	by times (SIS_PROP), like form=5.2; the host times the walk
 *			aged	the same, but with scan_room instead of avg_idle / 512
 *			util	by nr_idle_scan of target's LLC (SIS_UTIL)
 *		With aged and util the threads of prev's core are visited first, if prev shares the
 *		LLC.
 * scan_room is half of avg_idle when a CPU's idle period ends. Each tick since then halves it, and
 * a search that the host timed takes its time off it.
 * If nr_idle_scan is 0, util visits nothing, in either kind of walk. nr_idle_scan is, with x the
 * mean utilization of the LLC's CPUs (util.h) and span their number,
 *     span * (1024 - min(1024, x^2 * 117^2 / (10000 * 1024))) / 1024
 * that is, all CPUs at x = 0, and none from 85 % on. It starts at span. Our timing differs: it is
 * computed at the first tick in the LLC that comes at least span ms after the last computation;
 * Linux computes it when it balances the LLC.
 *
 * packed is util, but it walks only if a task waits on target beside the one that runs there, and
 * the task's recent CPU is not looked at. A kernel of a virtual machine may do that, because a
 * virtual CPU that idles costs its waker tens of microseconds: two tasks that wake each other stay
 * on one CPU, and a third leaves. docs/guide/recordings.md says how it was found.
 *
 * Example: one LLC of 4 cores x 2 threads; CPU c and c + 4 share a core; form=util; target is 1,
 * and only 3, 6 and 7 are idle. With has_idle_cores the walk starts at 2. Core {2, 6}: 2 is busy; 6
 * is idle and remembered. Core {3, 7} is idle: CPU 3 is taken, after 4 reads and the flag's.
 * Without has_idle_cores: after prev's core come CPUs 2 and 3, if nr_idle_scan allows two visits.
 * Its value: if 4 of 8 CPUs have been busy for long, x = 512, 262144 * 13689 / 10240000 = 350, and
 * 8 * 674 / 1024 = 5 visits are allowed. With form=aged: if avg_idle was 40 us when CPU 1 became
 * busy, two ticks ago, scan_room is 20 / 4 = 5 us; at an avg_scan of 10 us, 8 * 5 = 40 is not above
 * 4 * 10, so the limit is 4, and 3 visits are allowed. With form=packed the task waits on CPU 1 if
 * only its waker runs there; if one more task waits, it takes CPU 3.
 *
 * Cost: up to the whole LLC. It fails where load changes faster than its average, because the limit
 * lags behind.
 */
#ifndef WL_IDLE_MERGED_H
#define WL_IDLE_MERGED_H

#include "idle_scan.h"
#include "util.h"

/* (imbalance_pct of an LLC)^2: above a utilization of 100 / 1.17 = 85 % nothing is visited. */
#define WL_IDLE_SCAN_PCT    117
#define WL_IDLE_SCAN_AGE_NS 1000000ULL /* per CPU of the LLC */

/* Does an allowed CPU of cpu's core come before cpu in the walk? */
WL_FN int wl_walk_was_at_core(struct wl_policy *p WL_ARG, const struct wl_walk *w WL_ARG,
			      const struct wl_task *t WL_ARG, u32 cpu, u32 at)
{
	struct wl_level *lv = wl_level_of(p, w->level);
	struct wl_level *smt = wl_level_of(p, p->topo.smt_level);
	u32 core = wl_entry(smt->dom_of, cpu), first = wl_entry(smt->first, core);
	u32 threads = wl_entry(smt->weight, core), i, other, index, was = 0;

	wl_for_few (i, threads, WL_MAX_THREADS) {
		other = wl_entry(smt->cpus, first + i);
		index = wl_wrap(wl_entry(lv->pos, other) - w->first + w->span - w->start, w->span);
		if (index < at && wl_allowed(p, t, other)) {
			was = 1;
			break;
		}
	}
	return was;
}

/* Reads the threads of cpu's core. Returns 1 if all are idle. */
WL_FN int wl_walk_core(struct wl_policy *p WL_ARG, const struct wl_search *s WL_ARG,
		       const struct wl_task *t WL_ARG, struct wl_walk *w WL_ARG,
		       struct wl_decision *out WL_ARG)
{
	struct wl_level *smt = wl_level_of(p, p->topo.smt_level);
	u32 core = wl_entry(smt->dom_of, s->candidate), first = wl_entry(smt->first, core);
	u32 threads = wl_entry(smt->weight, core), i, cpu, idle = 1;

	wl_for_few (i, threads, WL_MAX_THREADS) {
		cpu = wl_entry(smt->cpus, first + i);
		wl_read_cpu(p, &out->reads, cpu, wl_reader_distance(p, &s->reader, cpu));
		if (!wl_looks_idle(p, cpu)) {
			idle = 0;
			if (w->idle_cpu >= 0)
				break;
		} else if (w->idle_cpu < 0 && wl_allowed(p, t, cpu)) {
			w->idle_cpu = cpu;
		}
	}
	return idle;
}

/*
 * The walk by cores. If it covers only a cluster, the rest of the LLC follows. Returns the CPU
 * claimed, or WL_CPU_NONE.
 */
WL_FN int wl_walk_cores(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			const struct wl_task *t WL_ARG, struct wl_walk *w WL_ARG,
			struct wl_decision *out WL_ARG)
{
	struct wl_level *lv = wl_level_of(p, w->level);
	u32 first = w->first, span = w->span, start = w->start, i, cpu;
	int found = WL_CPU_NONE;

	wl_line_step(p, WL_STEP_CORE);
	wl_for (i, 0, span) {
		cpu = wl_entry(lv->cpus, first + wl_wrap(start + i, span));
		if (w->skips && wl_shares_cluster(p, cpu, s->target))
			continue;
		if (!wl_allowed(p, t, cpu) || wl_walk_was_at_core(p, w, t, cpu, i))
			continue;
		s->candidate = cpu;
		if (wl_walk_core(p, s, t, w, out) && wl_take_idle(p, cpu, out)) {
			found = cpu;
			break;
		}
	}
	out->reason = WL_REASON_IDLE_CORE;
	if (found >= 0 || w->level != p->topo.llc_level)
		return found;
	wl_write_once(wl_llc_record(p, s->target)->scan_llc.has_idle_cores, 0);
	wl_wrote_llc(p, wl_llc_first(p, s->target));
	out->reason = WL_REASON_IDLE_CPU;
	if (w->idle_cpu >= 0 && wl_take_idle(p, w->idle_cpu, out))
		found = w->idle_cpu;
	return found;
}

/* form=aged: cpu's idle period is over. */
WL_INLINE void wl_scan_room_renew(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	c->scan_room_ns = c->avg_idle_ns / 2;
	c->scan_room_tick = wl_div(now_ns, p->params.tick_ns);
}

/* The number of CPUs that a search on `cpu` may visit with form=aged. */
WL_INLINE u32 wl_visits_aged(struct wl_policy *p, u32 cpu, u32 span, u64 now_ns)
{
	struct wl_cpu *own = wl_cpu_of(p, cpu);
	u64 tick = wl_div(now_ns, p->params.tick_ns), since = wl_get(own->scan_room_tick);
	u64 room_ns = wl_get(own->scan_room_ns), ticks = tick - since;

	if (tick > since) {
		room_ns = ticks < 64 ? room_ns >> (ticks & 63) : 0;
		own->scan_room_ns = room_ns;
		own->scan_room_tick = tick;
	}
	return wl_visits_for(span, room_ns, wl_get(own->avg_scan_ns));
}

WL_FN int wl_search_merged(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
			   const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	struct wl_cpu *record = wl_llc_record(p, s->target);
	u32 form = wl_axis(p, scan_form), is_util = form >= WL_SCAN_UTIL;
	u32 is_late = form != WL_SCAN_MERGED;
	struct wl_walk w = wl_walk_from(p, s->target, is_late);
	u32 smt = p->topo.smt_level, cores = 0;
	int cpu = wl_llc_first(p, s->target);

	if (form == WL_SCAN_PACKED && !wl_read_once(wl_cpu_of(p, s->target)->nr_queued))
		return WL_CPU_NONE;
	if (smt || is_util)
		wl_read_llc(p, &out->reads, cpu, wl_reader_distance(p, &s->reader, cpu));
	if (smt)
		cores = wl_read_once(record->scan_llc.has_idle_cores);
	if (is_late && smt && !cores && wl_shares_llc(p, s->prev, s->target)) {
		out->reason = WL_REASON_IDLE_SIBLING;
		s->candidate = wl_domain_first(p, 1, s->prev);
		cpu = wl_take_in_domain(p, s, t, 1, out);
		if (cpu >= 0)
			return cpu;
	}
	out->reason = WL_REASON_IDLE_CPU;
	if (is_util && !wl_read_once(record->scan_llc.nr_idle_scan))
		return WL_CPU_NONE;
	if (cores) {
		if (wl_packs(p)) {
			wl_walk_in(p, &w, s->target, p->topo.llc_level - 1);
			cpu = wl_walk_cores(p, s, t, &w, out);
			if (cpu >= 0)
				return cpu;
			wl_walk_on(p, &w, s->target);
		}
		return wl_walk_cores(p, s, t, &w, out);
	}
	if (is_util)
		w.visits = wl_read_once(record->scan_llc.nr_idle_scan);
	else if (is_late)
		w.visits = wl_visits_aged(p, s->this_cpu, w.span, s->now_ns);
	else
		w.visits = wl_visits(p, s->this_cpu, w.span);
	cpu = wl_walk_cpus_near(p, s, t, &w, out);
	if (is_util)
		out->scan_timed = 0;
	return cpu;
}

/* -------------------------------------------------- the limit of form=util and form=packed */

/* Does the policy keep the limit of form=util, and therefore the utilization of CPUs? */
WL_INLINE u32 wl_idle_reads_util(struct wl_policy *p)
{
	return wl_axis(p, idle) == WL_IDLE_SCAN && wl_axis(p, scan_form) >= WL_SCAN_UTIL;
}

/* Start value of an LLC's limit, which its first CPU's record holds. */
WL_INLINE void wl_idle_scan_init(struct wl_policy *p, u32 cpu)
{
	struct wl_level *llc = wl_level_of(p, p->topo.llc_level);

	wl_cpu_of(p, cpu)->scan_llc.nr_idle_scan =
		wl_entry(llc->weight, wl_entry(llc->dom_of, cpu));
}

/* How many CPUs of an LLC of `span` CPUs may be visited at this sum of scaled utilizations. */
WL_INLINE u32 wl_idle_scan_limit(u64 util_sum, u32 span)
{
	u64 x = wl_div(util_sum >> WL_UTIL_SHIFT, span);
	u64 less = x * x * WL_IDLE_SCAN_PCT * WL_IDLE_SCAN_PCT / (10000 * 1024);

	return less < 1024 ? span * (1024 - less) / 1024 : 0;
}

/* A tick on cpu: computes the limit of its LLC again if that is due. */
WL_FN int wl_idle_scan_update(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns,
			      struct wl_reads *reads WL_ARG)
{
	struct wl_level *llc = wl_level_of(p, p->topo.llc_level);
	struct wl_cpu *record = wl_llc_record(p, cpu);
	u32 dom = wl_entry(llc->dom_of, cpu), first = wl_entry(llc->first, dom);
	u32 span = wl_entry(llc->weight, dom), i, other;
	u64 sum = 0;

	if (now_ns < wl_read_once(record->scan_llc.due_ns))
		return 0;
	wl_write_once(record->scan_llc.due_ns, now_ns + span * WL_IDLE_SCAN_AGE_NS);
	wl_for (i, 0, span) {
		other = wl_entry(llc->cpus, first + i);
		wl_read_cpu(p, reads, other, wl_distance(p, cpu, other));
		sum += wl_util_cpu(p, other, now_ns);
	}
	wl_write_once(record->scan_llc.nr_idle_scan, wl_idle_scan_limit(sum, span));
	wl_wrote_llc(p, wl_entry(llc->cpus, first));
	return 0;
}

#endif /* WL_IDLE_MERGED_H */
