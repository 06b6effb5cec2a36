/* SPDX-License-Identifier: GPL-2.0-or-later */
/* core.h - what a host includes: the interface and every file that implements it. */
#ifndef WL_CORE_H
#define WL_CORE_H
#include "policy.h"
#pragma GCC diagnostic ignored "-Wunused-parameter"
WL_FN int wl_select(struct wl_policy *p WL_ARG, const struct wl_select_in *in WL_ARG, struct wl_task *wakee WL_ARG,
		    struct wl_task *waker, struct wl_decision *out WL_ARG)
{
	return 0;
}

WL_FN int wl_scan_took(struct wl_policy *p WL_ARG, u32 cpu, const struct wl_decision *d WL_ARG, u64 elapsed_ns)
{
	return 0;
}

WL_FN int wl_enqueue(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, const struct wl_enqueue_in *in WL_ARG,
		     struct wl_enqueue_out *out WL_ARG)
{
	return 0;
}

WL_FN int wl_dispatch(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns, struct wl_dispatch_out *out WL_ARG)
{
	return 0;
}

WL_FN int wl_may_move(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, const struct wl_move_in *in WL_ARG,
		      struct wl_dispatch_out *d WL_ARG, struct wl_move_out *out WL_ARG)
{
	return 0;
}

WL_FN int wl_tick(struct wl_policy *p WL_ARG, u32 cpu, struct wl_task *t, u64 now_ns, struct wl_tick_out *out WL_ARG)
{
	return 0;
}

WL_FN int wl_timer(struct wl_policy *p WL_ARG, u64 now_ns, struct wl_timer_out *out WL_ARG)
{
	return 0;
}

WL_FN int wl_init(struct wl_policy *p WL_ARG)
{
	return 0;
}

WL_FN int wl_busy(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns)
{
	return 0;
}

WL_FN int wl_idle(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns)
{
	return 0;
}

WL_FN int wl_running(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 cpu, u64 now_ns)
{
	return 0;
}

WL_FN int wl_stopping(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 cpu, u64 now_ns, u32 runnable)
{
	return 0;
}

WL_FN int wl_runnable(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 cpu, u64 now_ns)
{
	return 0;
}

WL_FN int wl_quiescent(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u64 now_ns)
{
	return 0;
}

WL_FN int wl_task_init(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u64 id, u32 weight, u32 flags)
{
	return 0;
}

WL_FN int wl_task_weight(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 weight, u64 now_ns)
{
	return 0;
}

WL_FN int wl_task_affinity(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG)
{
	return 0;
}

WL_FN int wl_task_exit(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u64 now_ns)
{
	return 0;
}

#endif
