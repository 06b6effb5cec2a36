/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * timer.bpf.h - the policy's timer: when it fires, the policy says when it fires next, and which
 * CPU to kick.
 *
 * The machine has one timer, on the CPU that the kernel chooses. The policy bounds the work of one
 * firing. If the policy wants no timer, it is never started.
 */
#ifndef SCX_WAKELAB_TIMER_H
#define SCX_WAKELAB_TIMER_H

#include "state.bpf.h"

struct timer_slot {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} timers SEC(".maps");

/*
 * Sets what the only timer of a map calls, and starts it if wait_ns is not 0. Inlined, because the
 * verifier must see which map and which function these are.
 */
static __always_inline s32 init_timer(void *map, int (*fired)(void *, int *, struct timer_slot *),
				      u64 wait_ns)
{
	struct timer_slot *slot;
	u32 key = 0;
	s32 ret;

	slot = bpf_map_lookup_elem(map, &key);
	if (!slot)
		return -ENOENT;
	ret = bpf_timer_init(&slot->timer, map, CLOCK_MONOTONIC);
	if (!ret)
		ret = bpf_timer_set_callback(&slot->timer, fired);
	if (!ret && wait_ns)
		ret = bpf_timer_start(&slot->timer, wait_ns, 0);
	return ret;
}

/* Only the timer writes this. */
struct timer_stats {
	u64 firings;
	u64 total_ns;
	u64 longest_ns;
};

struct timer_stats timer_stats;

/* Asks the policy. Returns the time until the next firing, or 0: never. */
SEPARATE u64 ask_timer(u32 cpu)
{
	struct wl_timer_out out = {};
	u64 now_ns = bpf_ktime_get_ns(), took_ns;

	wl_timer(&policy, cpu, now_ns, &out);
	if (valid_cpu(out.kick_cpu))
		scx_bpf_kick_cpu(out.kick_cpu, SCX_KICK_IDLE);
	took_ns = bpf_ktime_get_ns() - now_ns;
	timer_stats.firings++;
	timer_stats.total_ns += took_ns;
	if (took_ns > timer_stats.longest_ns)
		timer_stats.longest_ns = took_ns;
	if (!out.next_ns)
		return 0;
	return out.next_ns > now_ns + took_ns ? out.next_ns - now_ns - took_ns : 1;
}

static int timer_fired(void *map, int *key, struct timer_slot *slot)
{
	u64 wait_ns = ask_timer(bpf_get_smp_processor_id());

	if (wait_ns)
		bpf_timer_start(&slot->timer, wait_ns, 0);
	return 0;
}

static s32 start_timer(void)
{
	u64 wait_ns = ask_timer(bpf_get_smp_processor_id());

	return wait_ns ? init_timer(&timers, timer_fired, wait_ns) : 0;
}

#endif /* SCX_WAKELAB_TIMER_H */
