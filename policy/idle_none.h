/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * idle_none.h - idle=none: no search. The task goes to target, or to prev if that alone is idle.
 *
 * A yardstick: what does a search gain over none? With affine=off, target is prev, and each task
 * stays on its CPU until balancing moves it. A kernel of a virtual machine may place tasks like
 * that, because a wake-up of an idle virtual CPU leaves the guest and costs its waker tens of
 * microseconds.
 *
 * Example, one LLC of 4 CPUs, of which only CPU 2 is idle; target is prev is 1: the task waits on
 * CPU 1 although CPU 2 is idle.
 *
 * Cost: the looks at target and prev, which precede every search.
 *
 * It fails where tasks wake for longer work than a balancing interval: they wait behind each other
 * beside idle CPUs.
 */
#ifndef WL_IDLE_NONE_H
#define WL_IDLE_NONE_H

#include "access.h"

/* Returns WL_CPU_NONE. */
WL_INLINE int wl_search_none(struct wl_policy *p, struct wl_search *s, const struct wl_task *t,
			     struct wl_decision *out)
{
	(void)p;
	(void)s;
	(void)t;
	(void)out;
	return WL_CPU_NONE;
}

#endif /* WL_IDLE_NONE_H */
