// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * native.c - the policy built for this machine: the memory host, and an exported wrapper for every
 * entry point.
 *
 * Entry points are static, so these names are all that the linker sees of the policy.
 */
#include "host_memory.h"
#include "core.h"

u64 wl_native_instance_size(void);
u64 wl_native_instance_size(void)
{
	return sizeof(struct wl_memory);
}

void wl_native_set_idle_mask(struct wl_policy *p, u32 cpu, u32 idle);
void wl_native_set_idle_mask(struct wl_policy *p, u32 cpu, u32 idle)
{
	wl_memory_set_idle(p, cpu, idle);
}

u32 wl_native_idle_mask(struct wl_policy *p, u32 cpu);
u32 wl_native_idle_mask(struct wl_policy *p, u32 cpu)
{
	return wl_memory_is_idle(p, cpu);
}

int wl_native_select(struct wl_policy *p, const struct wl_select_in *in, struct wl_task *wakee,
		     struct wl_task *waker, struct wl_decision *out);
int wl_native_select(struct wl_policy *p, const struct wl_select_in *in, struct wl_task *wakee,
		     struct wl_task *waker, struct wl_decision *out)
{
	return wl_select(p, in, wakee, waker, out);
}

int wl_native_scan_took(struct wl_policy *p, u32 cpu, const struct wl_decision *d, u64 elapsed_ns);
int wl_native_scan_took(struct wl_policy *p, u32 cpu, const struct wl_decision *d, u64 elapsed_ns)
{
	return wl_scan_took(p, cpu, d, elapsed_ns);
}

int wl_native_enqueue(struct wl_policy *p, struct wl_task *t, const struct wl_enqueue_in *in,
		      struct wl_enqueue_out *out);
int wl_native_enqueue(struct wl_policy *p, struct wl_task *t, const struct wl_enqueue_in *in,
		      struct wl_enqueue_out *out)
{
	return wl_enqueue(p, t, in, out);
}

int wl_native_dispatch(struct wl_policy *p, u32 cpu, u64 now_ns, struct wl_dispatch_out *out);
int wl_native_dispatch(struct wl_policy *p, u32 cpu, u64 now_ns, struct wl_dispatch_out *out)
{
	return wl_dispatch(p, cpu, now_ns, out);
}

int wl_native_may_move(struct wl_policy *p, struct wl_task *t, const struct wl_move_in *in,
		       struct wl_dispatch_out *d, struct wl_move_out *out);
int wl_native_may_move(struct wl_policy *p, struct wl_task *t, const struct wl_move_in *in,
		       struct wl_dispatch_out *d, struct wl_move_out *out)
{
	return wl_may_move(p, t, in, d, out);
}

int wl_native_tick(struct wl_policy *p, u32 cpu, struct wl_task *t, u64 now_ns,
		   struct wl_tick_out *out);
int wl_native_tick(struct wl_policy *p, u32 cpu, struct wl_task *t, u64 now_ns,
		   struct wl_tick_out *out)
{
	return wl_tick(p, cpu, t, now_ns, out);
}

int wl_native_timer(struct wl_policy *p, u64 now_ns, struct wl_timer_out *out);
int wl_native_timer(struct wl_policy *p, u64 now_ns, struct wl_timer_out *out)
{
	return wl_timer(p, now_ns, out);
}

int wl_native_init(struct wl_policy *p);
int wl_native_init(struct wl_policy *p)
{
	return wl_init(p);
}

int wl_native_busy(struct wl_policy *p, u32 cpu, u64 now_ns);
int wl_native_busy(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	return wl_busy(p, cpu, now_ns);
}

int wl_native_idle(struct wl_policy *p, u32 cpu, u64 now_ns);
int wl_native_idle(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	return wl_idle(p, cpu, now_ns);
}

int wl_native_running(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns);
int wl_native_running(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns)
{
	return wl_running(p, t, cpu, now_ns);
}

int wl_native_stopping(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns, u32 runnable);
int wl_native_stopping(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns, u32 runnable)
{
	return wl_stopping(p, t, cpu, now_ns, runnable);
}

int wl_native_runnable(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns);
int wl_native_runnable(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns)
{
	return wl_runnable(p, t, cpu, now_ns);
}

int wl_native_quiescent(struct wl_policy *p, struct wl_task *t, u64 now_ns);
int wl_native_quiescent(struct wl_policy *p, struct wl_task *t, u64 now_ns)
{
	return wl_quiescent(p, t, now_ns);
}

int wl_native_task_init(struct wl_policy *p, struct wl_task *t, u64 id, u32 weight, u32 flags);
int wl_native_task_init(struct wl_policy *p, struct wl_task *t, u64 id, u32 weight, u32 flags)
{
	return wl_task_init(p, t, id, weight, flags);
}

int wl_native_task_weight(struct wl_policy *p, struct wl_task *t, u32 weight, u64 now_ns);
int wl_native_task_weight(struct wl_policy *p, struct wl_task *t, u32 weight, u64 now_ns)
{
	return wl_task_weight(p, t, weight, now_ns);
}

int wl_native_task_affinity(struct wl_policy *p, struct wl_task *t);
int wl_native_task_affinity(struct wl_policy *p, struct wl_task *t)
{
	return wl_task_affinity(p, t);
}

int wl_native_task_exit(struct wl_policy *p, struct wl_task *t, u64 now_ns);
int wl_native_task_exit(struct wl_policy *p, struct wl_task *t, u64 now_ns)
{
	return wl_task_exit(p, t, now_ns);
}
