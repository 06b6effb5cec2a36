/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * util.h - utilization: the recent share of time that a CPU is busy or a task runs.
 *
 * It is an exponential average with a half-life of 32 periods of 1.048576 ms (Linux's PELT), in
 * units of the machine's fastest CPU: it approaches 1024 at full use and 0 when idle; on a CPU of
 * capacity 512 it approaches 512 at most. It is kept lazily, as a value and the time when the value
 * was right. Linux accumulates by periods and their parts; here it is linear inside a period, which
 * differs by less than 0.01 %.
 *
 * A new task adds half of what its CPU has left, because it may compute from now on: so does Linux
 * since 4.3 (post_init_entity_util_avg(), unless the CPU's tasks wait more than they run). If it
 * exits, what is left of that is taken off its last CPU. Otherwise a CPU's utilization does not
 * depend on which tasks run there; Linux takes a task's along when it leaves for another CPU.
 *
 * Example: a CPU that has always been idle turns busy. After 32 periods, 33,554,432 ns, its
 * utilization is 512, and after 64 it is 768; after 32 more idle periods it is 384. If two new
 * tasks join an idle CPU, it goes to 512 and 768 at once. If the CPU stays idle, 384 are left after
 * 32 periods; if the first of them exits then, it takes 256 along, and leaves 128.
 *
 * Cost: at most six multiplications when it is read, and twice that for a new task. It fails as
 * every average does: it follows changes some milliseconds late.
 */
#ifndef WL_UTIL_H
#define WL_UTIL_H

#include "access.h"

#define WL_UTIL_PERIOD_SHIFT 20 /* a period is 2^20 ns */
#define WL_UTIL_SHIFT	     16 /* utilization is kept in units of 2^-16 */

/* value * 2^(-periods / 32), for a value below 2^32. The factors are 2^(-n / 32) * 2^32. */
WL_FN u64 wl_util_decay(u64 value, u64 time_ns)
{
	u64 periods = time_ns >> WL_UTIL_PERIOD_SHIFT;
	u64 part = time_ns & ((1ULL << WL_UTIL_PERIOD_SHIFT) - 1);

	if (periods >= 32 * 32)
		return 0;
	if (periods) {
		value >>= (periods / 32) & 31;
		if (periods & 16)
			value = wl_mul_shift(value, 0xb504f334, 32);
		if (periods & 8)
			value = wl_mul_shift(value, 0xd744fccb, 32);
		if (periods & 4)
			value = wl_mul_shift(value, 0xeac0c6e8, 32);
		if (periods & 2)
			value = wl_mul_shift(value, 0xf5257d15, 32);
		if (periods & 1)
			value = wl_mul_shift(value, 0xfa83b2db, 32);
	}
	return value -
	       (((value - wl_mul_shift(value, 0xfa83b2db, 32)) * part) >> WL_UTIL_PERIOD_SHIFT);
}

/*
 * A utilization after approaching `full`, in 1/1024, for time_ns: a capacity, or 0. loads.h has
 * weights that approach weights instead.
 */
WL_INLINE u64 wl_util_step(u64 util, u64 time_ns, u64 full)
{
	u64 goal = full << WL_UTIL_SHIFT;

	return goal >= util ? goal - wl_util_decay(goal - util, time_ns)
			    : goal + wl_util_decay(util - goal, time_ns);
}

/* ------------------------------------------------------------------ of CPUs */

/* The utilization of a CPU at now_ns, scaled. */
WL_INLINE u32 wl_util_cpu(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u64 stamp_ns = wl_read_once(c->util_stamp_ns);
	u32 full = wl_read_once(c->state) >= WL_CPU_BUSY ? wl_entry(p->topo.capacity, cpu) : 0;

	return wl_util_step(wl_read_once(c->util), now_ns > stamp_ns ? now_ns - stamp_ns : 0, full);
}

/* Sets the utilization of a CPU at now_ns, scaled. */
WL_INLINE void wl_util_set(struct wl_policy *p, u32 cpu, u32 util, u64 now_ns)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	wl_write_once(c->util, util);
	wl_write_once(c->util_stamp_ns, now_ns);
}

/* Called before a CPU turns busy or idle, and only if something uses utilization (account.h). */
WL_INLINE void wl_util_cpu_changes(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	wl_util_set(p, cpu, wl_util_cpu(p, cpu, now_ns), now_ns);
}

/* The new task t joins cpu. */
WL_INLINE void wl_util_joins(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns)
{
	u32 util = wl_util_cpu(p, cpu, now_ns);
	u32 full = wl_entry(p->topo.capacity, cpu) << WL_UTIL_SHIFT;

	t->joined_util = util < full ? (full - util) / 2 : 0;
	t->joined_ns = now_ns;
	wl_util_set(p, cpu, util + t->joined_util, now_ns);
}

/* t exits, and takes along what is left of what it added when it was new. */
WL_INLINE void wl_util_leaves(struct wl_policy *p, struct wl_task *t, u64 now_ns)
{
	u64 age_ns = now_ns > t->joined_ns ? now_ns - t->joined_ns : 0;
	u32 left = wl_util_decay(t->joined_util, age_ns), cpu = wl_read_once(t->cpu), util;

	t->joined_util = 0;
	if (cpu >= p->topo.nr_cpus)
		return;
	util = wl_util_cpu(p, cpu, now_ns);
	wl_util_set(p, cpu, util > left ? util - left : 0, now_ns);
}

/* ------------------------------------------------------------------ of tasks */

/* Updates the utilization of a task to now_ns. */
WL_FN int wl_util_task_step(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u64 now_ns)
{
	u32 full = t->place == WL_PLACE_RUNNING ? wl_entry(p->topo.capacity, t->cpu) : 0;

	if (now_ns <= t->util_stamp_ns)
		return 0;
	t->util = wl_util_step(t->util, now_ns - t->util_stamp_ns, full);
	t->util_stamp_ns = now_ns;
	return 0;
}

/* Called before a task starts or stops running. Only unequal capacities need it. */
WL_INLINE void wl_util_task(struct wl_policy *p, struct wl_task *t, u64 now_ns)
{
	if (p->topo.unequal)
		wl_util_task_step(p, t, now_ns);
}

#endif /* WL_UTIL_H */
