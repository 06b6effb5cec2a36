/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * taken.bpf.h - CPUs that tasks of a higher class have taken: a timer serves the tasks that wait
 * there.
 *
 * sched_ext has no tick on such a CPU. So after a task of a higher class takes a CPU from one of
 * our tasks, or one of our tasks is queued behind it, a timer fires a tick later, and then at each
 * tick while there is such a queue. It tells the policy (wl_taken) and kicks the CPU that the
 * policy names. Without such a queue the timer does not run.
 */
#ifndef SCX_WAKELAB_TAKEN_H
#define SCX_WAKELAB_TAKEN_H

#include "state.bpf.h"
#include "timer.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} watch_timers SEC(".maps");

/*
 * Whether the timer will fire. Read when a task is queued behind a foreign one; written at most
 * twice per tick.
 */
u32 is_watching WL_ALIGN_LINE;

/* Something may wait behind a task of a higher class. */
SEPARATE int watch_taken(void)
{
	struct timer_slot *slot;
	u32 key = 0;

	if (is_watching || __sync_lock_test_and_set(&is_watching, 1))
		return 0;
	slot = bpf_map_lookup_elem(&watch_timers, &key);
	if (slot)
		bpf_timer_start(&slot->timer, policy.params.tick_ns, 0);
	return 0;
}

/* None of our tasks runs on cpu, or one is just being chosen. */
SEPARATE int watch_foreign(s32 cpu)
{
	if (is_taken(cpu))
		watch_taken();
	return 0;
}

/* A task was queued on cpu: starts the watch if none of our tasks runs there. */
static __always_inline void watch_if_taken(s32 cpu)
{
	struct wl_cpu *c = wl_cpu_of(&policy, cpu);

	if (!wl_get(c->nr_running) && wl_get(c->state) >= WL_CPU_BUSY && !is_watching)
		watch_foreign(cpu);
}

/* Returns 1 if the CPU should be looked at again. */
SEPARATE int look_after(s32 cpu)
{
	struct wl_timer_out out = {};

	wl_taken(&policy, cpu, bpf_ktime_get_ns(), &out);
	if (valid_cpu(out.kick_cpu))
		scx_bpf_kick_cpu(out.kick_cpu, SCX_KICK_IDLE);
	/* The CPU was given back meanwhile, and no event may say so for a long time. */
	if (wl_get(wl_cpu_of(&policy, cpu)->state) == WL_CPU_TAKEN && !is_taken(cpu))
		wl_busy(&policy, cpu, bpf_ktime_get_ns());
	return out.next_ns != 0;
}

static int watch_fired(void *map, int *key, struct timer_slot *slot)
{
	u32 found = 0;
	s32 cpu;

	/* This comes first, so that later events start the timer again. */
	__sync_lock_test_and_set(&is_watching, 0);
	bpf_for(cpu, 0, policy.topo.nr_cpus)
	{
		if (scx_bpf_dsq_nr_queued(cpu) <= 0 || !is_taken(cpu))
			continue;
		found |= look_after(cpu);
	}
	if (found)
		watch_taken();
	return 0;
}

static s32 init_watch(void)
{
	return init_timer(&watch_timers, watch_fired, 0);
}

#endif /* SCX_WAKELAB_TAKEN_H */
