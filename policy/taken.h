/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * taken.h - CPUs that a task of a higher class has taken (real-time, deadline): what waits there is
 * moved elsewhere.
 *
 * The policy sees no tick of such a CPU, and none of its tasks runs there. So the host looks
 * again after a tick, and then each tick for as long as something waits there: wl_taken(). Each
 * time
 *   - the CPU is in the state `taken`: busy, and to balancing a CPU with one task more than the
 *     policy counts and with next to no capacity (Linux: nr_running has all classes, and
 *     cpu_capacity is what real-time tasks leave), so that even a busy CPU with as much load finds
 *     it busier than itself;
 *   - an idle CPU is looked for, as at a tick (wl_balance_kick), to be marked and kicked. If none
 *     is found, one that runs a task of the policy is marked, and balances at its next dispatch:
 *     the first of up to 4, which are others each time, in turns of the CPU's LLC and of the
 *     machine. Turns are counted: a host whose timer fires at every other tick would see odd ticks
 *     only, and one of the two.
 * A CPU leaves the state when it idles, when one of the policy's tasks begins to run or ticks
 * there, or when it balances itself.
 *
 * Example, one LLC of 4 CPUs without SMT, a task of weight 1024 on each. A real-time task takes CPU
 * 0, whose task waits. A tick later nobody idles, and CPU 1 is marked. When its slice is over it
 * compares: its own mean load is 1024 a CPU of capacity 1024, the busiest group is CPU 0, 1024 on a
 * capacity of 1, the domain's mean is 4096 on 3073. So it lacks (4096 / 3073 - 1) * 1024 = 340, and
 * CPU 0's mean task, of two, is 512: it may pull 512, and half of the task's weight fits that.
 *
 * Cost: a probe of up to 4 CPUs a level, a tick. It fails where a real-time task runs for less than
 * a tick, again and again: the policy does not see that. A task that may run on that CPU only must
 * wait.
 */
#ifndef WL_TAKEN_H
#define WL_TAKEN_H

#include "balance.h"

/* A CPU on which a task of the policy runs, marked to balance; or WL_CPU_NONE if none was found. */
WL_INLINE int wl_taken_mark(struct wl_policy *p, u32 cpu, u32 turn)
{
	u32 level = turn & 1 ? p->topo.nr_levels - 1 : p->topo.llc_level;
	struct wl_level *lv = wl_level_of(p, level);
	u32 dom = wl_entry(lv->dom_of, cpu), first = wl_entry(lv->first, dom);
	u32 span = wl_entry(lv->weight, dom), start = span ? (cpu + turn / 2) % span : 0, i;
	int found = WL_CPU_NONE;

	wl_for_few (i, span, WL_KICK_PROBES) {
		u32 other = wl_entry(lv->cpus, first + wl_wrap(start + i, span));

		if (other == cpu || !wl_read_once(wl_cpu_of(p, other)->nr_running))
			continue;
		found = other;
		break;
	}
	if (found >= 0)
		wl_ask_to_pull(p, found, cpu);
	return found;
}

WL_INLINE void wl_account_taken(struct wl_policy *p, u32 cpu, u64 now_ns, struct wl_timer_out *out)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 turn = wl_get(c->taken_turns) + 1;

	if (c->state == WL_CPU_UNKNOWN)
		wl_account_busy(p, cpu, now_ns);
	/* Given back in the meantime. */
	if (!wl_read_once(c->nr_queued) || c->state == WL_CPU_IDLE)
		return;
	if (c->state != WL_CPU_TAKEN) {
		wl_write_once(c->state, WL_CPU_TAKEN);
		wl_wrote_cpu(p, cpu);
	}
	if (!wl_read_once(p->overloaded)) {
		wl_write_once(p->overloaded, 1);
		wl_line_written(p, WL_LINE_OVERLOADED);
	}
	wl_write_once(c->taken_turns, turn);
	out->next_ns = now_ns + p->params.tick_ns;
	out->kick_cpu = wl_balance_kick(p, cpu, turn, &out->reads);
	if (out->kick_cpu < 0)
		out->kick_cpu = wl_taken_mark(p, cpu, turn);
}

#endif /* WL_TAKEN_H */
