/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * slices.h - slices that tasks ask for: sched_setattr() with sched_runtime on Linux from 6.12 on.
 *
 * A task of queue=fair, fair-2024 or fair-2025 may ask for its own slice, of 0.1 to 100 ms, in
 * place of the slice of all tasks (min_granularity_ns, which Linux calls base_slice). Its share of
 * the CPU stays the same: a shorter slice gives it an earlier deadline, so that it runs sooner,
 * more often and for less time. Its lag is limited by its own slice. The rest of the rules
 * (queue_fair.h) change for CPUs where slices differ:
 *   preempt	An eligible task that arrives with a shorter slice than the running task's ends the
 *		protection of that. With fair-2024 and fair it does so if its deadline is earlier,
 *		or if the running task is beyond V, and for as long as the task runs
 *		(PREEMPT_SHORT); with fair-2025 always, but only for the choice at its arrival
 *   protect	fair-2025: a running task is protected for the shortest slice of the tasks counted
 *		on its CPU, its own included, and not for its slice. A shorter one that arrives
 *		later and does not preempt shortens that
 *
 * The shortest slice of a CPU must be known without a walk over its queue. So a CPU counts its
 * tasks that asked for one in classes, from each power of two to the next, and keeps the last slice
 * that came into each class: the shortest slice is exact if slices of one class are equal.
 *
 * Example: fair-2025, slice 2.8 ms, and A asks for 20 ms. A is picked at vtime 0 with deadline 20,
 * because B waits at 1, beyond V = 0.5. A is protected until 2.8 ms; had B asked for 20 ms, too, it
 * would be until 20. A tick finds A at 3. V is 2, A is beyond it, and B runs to 5, beyond its
 * deadline 3.8: now V is 4, and A runs, protected until 3 + 2.8 = 5.8.
 *
 * Cost: a comparison for each change of place; for a task that asked for a slice two atomic updates
 * more. It fails where slices of one class differ: their shortest is then up to twice off. And
 * protection ends with every choice that some other task causes, as in Linux: a running task that
 * is beyond V then gives way, however long its slice is.
 */
#ifndef WL_SLICES_H
#define WL_SLICES_H

#include "access.h"

/* What the kernel makes of shorter and longer ones. */
#define WL_SLICE_MIN_NS 100000u
#define WL_SLICE_MAX_NS 100000000u

/* The first class holds slices below this power of two: 131,072 ns. */
#define WL_SLICE_FIRST_SHIFT 17

/* A slice as the kernel takes it. */
WL_INLINE u32 wl_slice_clamped(u32 slice_ns)
{
	if (slice_ns < WL_SLICE_MIN_NS)
		return WL_SLICE_MIN_NS;
	return slice_ns > WL_SLICE_MAX_NS ? WL_SLICE_MAX_NS : slice_ns;
}

/* The class of a slice within the limits. */
WL_INLINE u32 wl_slice_class(u32 slice_ns)
{
	u32 above = slice_ns >> WL_SLICE_FIRST_SHIFT, class = 0;

	/* The number of bits. The verifier of BPF follows a loop over them into every sum. */
	if (above >= 32) {
		class += 5;
		above >>= 5;
	}
	if (above >= 8) {
		class += 3;
		above >>= 3;
	}
	return class + (above >= 4 ? 3 : above >= 2 ? 2 : above);
}

/* Counts a task that asked for a slice on a CPU (change is 1), or no longer (-1). */
WL_FN int wl_slice_count(struct wl_policy *p WL_ARG, u32 cpu, u32 slice_ns, s32 change)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 class = wl_slice_class(slice_ns);

	wl_hide(class);
	if (class >= WL_SLICE_CLASSES)
		return 0;
	wl_atomic_add(&c->slices.nr[class], change);
	wl_atomic_add(&c->slices.nr_own, change);
	if (change > 0)
		wl_write_once(c->slices.ns[class], slice_ns);
	return 0;
}

/* The slice of a task, or of a group. */
WL_INLINE u64 wl_slice_ns(const struct wl_policy *p, const struct wl_entity *e)
{
	return e->own_slice_ns ? e->own_slice_ns : p->params.min_granularity_ns;
}

/* The shortest slice of the tasks counted on cpu, where one at least is counted. */
WL_FN u64 wl_slice_shortest(struct wl_policy *p WL_ARG, u32 cpu)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 own = wl_read_once(c->slices.nr_own), i, at;
	u64 slice_ns = WL_SLICE_MAX_NS;

	wl_for (i, 0, WL_SLICE_CLASSES) {
		at = WL_SLICE_CLASSES - 1 - i;
		if (wl_read_once(c->slices.nr[at]))
			slice_ns = wl_read_once(c->slices.ns[at]);
	}
	if (wl_read_once(c->nr_queued) + wl_read_once(c->nr_running) > own &&
	    p->params.min_granularity_ns < slice_ns)
		return p->params.min_granularity_ns;
	return slice_ns;
}

#endif /* WL_SLICES_H */
