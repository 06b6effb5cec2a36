/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * taken.h - CPUs that a task of a higher class (real-time, deadline) has taken: tasks that wait
 * there are moved elsewhere.
 *
 * The policy sees no tick of such a CPU, and none of its tasks runs there. So the host asks after a
 * tick, and then every tick for as long as something waits there: wl_taken(). Each time
 *   - the CPU is put into the state `taken`: busy. To balancing it is a CPU with one task more than
 *     the policy counts and with next to no capacity (in Linux, nr_running has all classes, and
 *     cpu_capacity is what real-time tasks leave), so that even a busy CPU with as much load finds
 *     it busier than itself;
 *   - an idle CPU is looked for, as at a tick (wl_balance_kick), and marked and kicked. If none is
 *     found, a CPU that runs a task of the policy is marked, and balances at its next dispatch. It
 *     is the first of up to 4, at each turn others, alternately of the CPU's LLC and of the
 *     machine. The policy counts turns, because a host whose timer fires at every other tick would
 *     see only odd ticks, and so only one of the two.
 * A CPU leaves the state when it turns idle, when one of the policy's tasks begins to run or ticks
 * there, or when it balances itself.
 *
 * Example: one LLC of 4 CPUs without SMT, with a task of weight 1024 on each. A real-time task
 * takes CPU 0, whose task waits. A tick later no CPU is idle, and CPU 1 is marked. When the slice
 * on CPU 1 ends, it compares: its own mean load is 1024 per capacity of 1024; the busiest group is
 * CPU 0, with 1024 on a capacity of 1; the domain's mean is 4096 on 3073. So it lacks (4096 / 3073
 * - 1) * 1024 = 340, and the mean of CPU 0's two tasks is 512: it may pull 512, and half of the
 * task's weight fits that.
 *
 * Cost: a probe of up to 4 CPUs per level, at each tick. It fails where a real-time task runs for
 * less than a tick again and again, because the policy does not see that. A task that may run only
 * on that CPU must wait.
 */
#ifndef WL_TAKEN_H
#define WL_TAKEN_H

#include "balance.h"

/*
 * Marks a CPU on which a task of the policy runs, so that it balances. Returns it, or WL_CPU_NONE
 * if none was found.
 */
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
	/* The CPU was given back in the meantime. */
	if (!wl_read_once(c->nr_queued) || c->state == WL_CPU_IDLE)
		return;
	if (c->state != WL_CPU_TAKEN) {
		wl_write_once(c->state, WL_CPU_TAKEN);
		wl_wrote_cpu(p, cpu);
	}
	wl_mark_overloaded(p);
	wl_write_once(c->taken_turns, turn);
	out->next_ns = now_ns + p->params.tick_ns;
	out->kick_cpu = wl_balance_kick(p, cpu, turn, &out->reads);
	if (out->kick_cpu < 0)
		out->kick_cpu = wl_taken_mark(p, cpu, turn);
}

#endif /* WL_TAKEN_H */
