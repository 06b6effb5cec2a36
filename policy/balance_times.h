/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * balance_times.h - balance=4.15 and later: when each level of a CPU is balanced, and by whom.
 *
 * Level l of a CPU is due 1 ms per CPU of the domain after it was balanced last; twice that, if
 * nothing was found then (in 4.15 also if a push began: balance.h); and 32 times that (since 5.10:
 * 16) while the CPU is busy. The first interval starts at another point on each CPU. Of the CPUs of
 * a group, the first idle one balances the group; if none is idle, the first one. What a CPU may
 * not balance counts as a level where it found nothing, and ends its round: it does not look at
 * wider levels either.
 *
 * A busy CPU's ticks mark the levels that are due. Idle CPUs have no tick. So as soon as any of
 * them is due, the tick of a busy CPU on which a task waits, or in whose LLC another CPU is busy,
 * kicks the first idle CPU of the machine, and that one looks for all idle CPUs in turn, itself
 * first (Linux: nohz_idle_balance()). If one of them should pull,
 * it is marked at that level, and the next tick wakes it. If none should, the machine waits until
 * the first of them is due.
 *
 * Example: 2 LLCs of 4 CPUs. CPU 2 idles, all others are busy, and two tasks are on CPU 5. CPU 2 is
 * due at its LLC every 4 to 8 ms. There is nothing to pull. At the machine's level, every 8 to 16
 * ms, it is the first idle CPU of its LLC, so it compares LLCs, and pulls from CPU 5. A task that
 * waits on CPU 1 is found by CPU 2 within 8 ms; one that waits on CPU 5, within 16 ms; and by CPU
 * 4, the first of its LLC, which is busy, within 128 to 256 ms.
 *
 * Cost: a tick reads one line; the CPU that is kicked reads what all idle CPUs compare. It fails
 * for tasks that wait for less than the intervals: most are never seen.
 */
#ifndef WL_BALANCE_TIMES_H
#define WL_BALANCE_TIMES_H

#include "balance_stats.h"

#define WL_TIMES_PER_CPU_NS 1000000ULL
/* No interval exceeds this per CPU of the machine. */
#define WL_TIMES_MOST_NS 100000000ULL

/* A bit of balance_marked, where no level has one: the CPU balances for all idle ones. */
#define WL_MARK_FOR_ALL 1u

/* Marks levels, as bits, that a CPU should balance at its next dispatch. */
WL_INLINE void wl_mark_levels(struct wl_policy *p, u32 cpu, u32 levels)
{
	wl_write_once(wl_cpu_of(p, cpu)->balance_marked,
		      wl_read_once(wl_cpu_of(p, cpu)->balance_marked) | levels);
	wl_wrote_cpu(p, cpu);
}

/* The interval of a level of cpu, with `span` CPUs. */
WL_INLINE u64 wl_times_interval_ns(struct wl_policy *p, u32 cpu, u32 level, u32 span, u32 busy)
{
	u64 interval_ns = span * WL_TIMES_PER_CPU_NS;

	interval_ns <<= wl_read_once(wl_cpu_of(p, cpu)->times.doubled) >> (level & 31) & 1;
	if (busy)
		interval_ns *= wl_axis(p, balance) == WL_BALANCING_4_15 ? 32 : 16;
	return interval_ns < p->topo.nr_cpus * WL_TIMES_MOST_NS
		       ? interval_ns
		       : p->topo.nr_cpus * WL_TIMES_MOST_NS;
}

/* Failed tries count only in a row, and that of cpu at this level ends. */
WL_INLINE void wl_tries_end(struct wl_policy *p, u32 cpu, u32 level)
{
	wl_hide(level);
	wl_cpu_of(p, cpu)->balance_failed[level & (WL_MAX_LEVELS - 1)] = 0;
}

/* The next interval of a level of cpu is doubled. */
WL_INLINE void wl_times_doubles(struct wl_policy *p, u32 cpu, u32 level)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	wl_write_once(c->times.doubled, wl_read_once(c->times.doubled) | 1u << (level & 31));
}

/* Is cpu the one that balances its group at this level? */
WL_FN int wl_balances_group(struct wl_policy *p WL_ARG, u32 cpu, u32 level)
{
	struct wl_level *groups = wl_level_of(p, level - 1);
	u32 dom = wl_entry(groups->dom_of, cpu), first = wl_entry(groups->first, dom);
	u32 span = wl_entry(groups->weight, dom), found = wl_entry(groups->cpus, first), i, other;

	wl_for (i, 0, span) {
		other = wl_entry(groups->cpus, first + i);
		if (wl_looks_idle(p, other)) {
			found = other;
			break;
		}
	}
	return found == cpu;
}

/*
 * Returns the levels of cpu that are due, and that cpu should balance, as bits. Their next interval
 * begins.
 */
WL_FN int wl_times_due(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns, u32 busy)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u64 next_ns = now_ns + WL_TIMES_MOST_NS, last_ns, interval_ns;
	u32 nr_levels = p->topo.nr_levels, due = 0, i, index, dom, span;

	/* Told twice. */
	if (wl_read_once(c->times.looked_ns) == now_ns)
		return 0;
	wl_write_once(c->times.looked_ns, now_ns);
	wl_for (i, 1, nr_levels) {
		struct wl_level *lv = wl_level_of(p, i);

		index = i;
		wl_hide(index);
		index &= WL_MAX_LEVELS - 1;
		dom = wl_entry(lv->dom_of, cpu);
		span = wl_entry(lv->weight, dom);
		interval_ns = wl_times_interval_ns(p, cpu, i, span, busy);
		last_ns = wl_read_once(c->times.last_ns[index]);
		if (!last_ns) {
			last_ns = now_ns - wl_div(interval_ns * (wl_entry(lv->pos, cpu) -
								 wl_entry(lv->first, dom)),
						  span);
			last_ns = last_ns ? last_ns : ~0ULL;
			wl_write_once(c->times.last_ns[index], last_ns);
		}
		if (now_ns - last_ns >= interval_ns) {
			last_ns = now_ns;
			wl_write_once(c->times.last_ns[index], last_ns);
			if (!wl_balances_group(p, cpu, i)) {
				wl_tries_end(p, cpu, i);
				wl_times_doubles(p, cpu, i);
				break;
			}
			due |= 1u << (i & 31);
		}
		if (last_ns + interval_ns < next_ns)
			next_ns = last_ns + interval_ns;
	}
	wl_write_once(c->times.next_ns, busy ? 0 : next_ns);
	return due;
}

/*
 * cpu has looked at `levels`, and found something to pull or a task to push at the level `found`,
 * or nothing (0).
 */
WL_INLINE void wl_times_looked(struct wl_policy *p, u32 cpu, u32 levels, u32 found)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 doubled = wl_read_once(c->times.doubled), empty = levels & ~(1u << (found & 31));

	empty |= doubled & ~(1u << (found & 31));
	if (doubled != empty)
		wl_write_once(c->times.doubled, empty);
}

/* A pull has moved a task to cpu at this level. */
WL_INLINE void wl_times_moved(struct wl_policy *p, u32 cpu, u32 level)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	wl_write_once(c->times.doubled, wl_read_once(c->times.doubled) & ~(1u << (level & 31)));
}

/* Is it worth waking an idle CPU? Only if a task waits here, or another CPU of the LLC is busy. */
WL_FN int wl_times_may_help(struct wl_policy *p WL_ARG, u32 cpu)
{
	struct wl_level *llc = wl_level_of(p, p->topo.llc_level);
	u32 dom = wl_entry(llc->dom_of, cpu), first = wl_entry(llc->first, dom);
	u32 span = wl_entry(llc->weight, dom), found = 0, i, other;

	if (wl_read_once(wl_cpu_of(p, cpu)->nr_queued))
		return 1;
	wl_for (i, 0, span) {
		other = wl_entry(llc->cpus, first + i);
		if (other != cpu && !wl_looks_idle(p, other)) {
			found = 1;
			break;
		}
	}
	return found;
}

/* A tick on cpu, which is busy: the idle CPU that should be woken to balance, or WL_CPU_NONE. */
WL_FN int wl_times_kick(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns,
			struct wl_reads *reads WL_ARG)
{
	u32 nr_cpus = p->topo.nr_cpus, wanted, i;
	int found = WL_CPU_NONE;

	wl_read_at(p, reads, wl_distance(p, cpu, wl_entry(wl_level_of(p, 0)->cpus, 0)));
	wl_line_read(p, WL_LINE_TIMES, wl_distance(p, cpu, wl_entry(wl_level_of(p, 0)->cpus, 0)));
	wanted = wl_read_once(p->times.wanted);
	if (wanted && now_ns >= wl_read_once(p->times.next_ns)) {
		wl_write_once(p->times.wanted, 0);
		wl_write_once(p->times.next_ns, now_ns + 1);
		wl_line_written(p, WL_LINE_TIMES);
		if (wl_looks_idle(p, wanted - 1))
			return wanted - 1;
	}
	if (now_ns < wl_read_once(p->times.next_ns) || !wl_times_may_help(p, cpu))
		return WL_CPU_NONE;
	wl_write_once(p->times.next_ns, now_ns + p->params.tick_ns);
	wl_line_written(p, WL_LINE_TIMES);
	/* The kernel finds it in a mask of idle CPUs. */
	wl_for (i, 0, nr_cpus) {
		if (wl_looks_idle(p, i)) {
			found = i;
			break;
		}
	}
	if (found < 0)
		return found;
	wl_read_cpu(p, reads, found, wl_distance(p, cpu, found));
	wl_mark_levels(p, found, WL_MARK_FOR_ALL);
	return found;
}

#endif /* WL_BALANCE_TIMES_H */
