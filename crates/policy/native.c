// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * native.c - the policy built for this machine: the memory host, the lines that its CPUs share, and
 * an exported wrapper for every entry point.
 *
 * Entry points are static, so the linker sees nothing of the policy but these wrappers.
 */
#include "host/memory.h"
#include "host/lines.h"
#include "host/groups.h"
#include "host/walk.h"
#include "core.h"
#include "event.h"
#include "mirror_check.h"

u64 wl_native_instance_size(u32 nr_cpus, u32 nr_groups)
{
	return wl_instance_place(0, nr_cpus, nr_groups);
}

/* The first part of an instance is the policy's state; the rest belongs to the host. */
u64 wl_native_state_size(void)
{
	return sizeof(struct wl_memory);
}

void wl_native_traits(const struct wl_params *params, u32 inner, struct wl_traits *out)
{
	*out = wl_traits(params, inner);
}

/*
 * What the last select, enqueue, dispatch, tick, timer, busy or idle read and updated, and what the
 * writes of the last of these, or of may_move, running, stopping, sleep or quiescent, waited for.
 */
const struct wl_seen *wl_native_seen(struct wl_policy *p)
{
	return &wl_lines_of(p)->seen;
}

/*
 * From now on reads cost this for each line, by distance: hits and misses. Before, they cost
 * nothing. A read of a CPU's state is one of `lines_of_cpu` lines.
 */
void wl_native_set_prices(struct wl_policy *p, const u64 *hit_ps, const u64 *miss_ps,
			  u32 lines_of_cpu)
{
	struct wl_lines *l = wl_lines_of(p);

	__builtin_memcpy(l->price_ps[0], hit_ps, sizeof(l->price_ps[0]));
	__builtin_memcpy(l->price_ps[1], miss_ps, sizeof(l->price_ps[1]));
	l->lines_of_cpu = lines_of_cpu;
}

void wl_native_set_idle_mask(struct wl_policy *p, u32 cpu, u32 idle)
{
	wl_memory_set_idle(p, cpu, idle);
}

u32 wl_native_idle_mask(struct wl_policy *p, u32 cpu)
{
	return wl_memory_is_idle(p, cpu);
}

int wl_native_select(struct wl_policy *p, const struct wl_select_in *in, struct wl_task *wakee,
		     struct wl_task *waker, struct wl_decision *out)
{
	wl_lines_begin(p, in->this_cpu);
	return wl_select(p, in, wakee, waker, out);
}

int wl_native_scan_took(struct wl_policy *p, u32 cpu, const struct wl_decision *d, u64 elapsed_ns)
{
	wl_lines_on(p, cpu);
	return wl_scan_took(p, cpu, d, elapsed_ns);
}

int wl_native_enqueue(struct wl_policy *p, struct wl_task *t, const struct wl_enqueue_in *in,
		      struct wl_enqueue_out *out)
{
	wl_lines_begin(p, in->this_cpu);
	return wl_enqueue(p, t, in, out);
}

int wl_native_dispatch(struct wl_policy *p, u32 cpu, u64 now_ns, struct wl_dispatch_out *out)
{
	wl_lines_begin(p, cpu);
	return wl_dispatch(p, cpu, now_ns, out);
}

int wl_native_may_move(struct wl_policy *p, struct wl_task *t, const struct wl_move_in *in,
		       struct wl_dispatch_out *d, struct wl_move_out *out)
{
	wl_lines_on(p, in->cpu);
	return wl_may_move(p, t, in, d, out);
}

int wl_native_may_run(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns,
		      struct wl_run_out *out)
{
	return wl_may_run(p, t, cpu, now_ns, out);
}

int wl_native_may_run_told(struct wl_policy *p, u32 cpu, u64 key, u64 slice_ns, u32 weight,
			   u64 now_ns)
{
	return wl_may_run_told(p, cpu, key, slice_ns, weight, now_ns);
}

/*
 * A task arrived on cpu and preempts there: before wl_native_may_run_told() about those that wait.
 * Returns 0 if others decide what cpu runs next: an overdue task, or a balancer.
 */
int wl_native_chooses(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	if (wl_read_once(wl_cpu_of(p, cpu)->balance_marked) || wl_wait_is_due(p, cpu, now_ns))
		return 0;
	wl_chooses(p, cpu, now_ns);
	return 1;
}

int wl_native_overdue(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns,
		      struct wl_run_out *out)
{
	return wl_overdue(p, t, cpu, now_ns, out);
}

int wl_native_tick(struct wl_policy *p, u32 cpu, struct wl_task *t, u64 now_ns,
		   struct wl_tick_out *out)
{
	wl_lines_begin(p, cpu);
	return wl_tick(p, cpu, t, now_ns, out);
}

int wl_native_timer(struct wl_policy *p, u32 cpu, u64 now_ns, struct wl_timer_out *out)
{
	wl_lines_begin(p, cpu);
	return wl_timer(p, cpu, now_ns, out);
}

int wl_native_taken(struct wl_policy *p, u32 cpu, u64 now_ns, struct wl_timer_out *out)
{
	wl_lines_begin(p, cpu);
	return wl_taken(p, cpu, now_ns, out);
}

/* Makes any of these calls, described as data. */
int wl_native_apply(struct wl_policy *p, const struct wl_event *e, struct wl_task *t,
		    struct wl_task *waker, union wl_answer *answer)
{
	wl_lines_begin(p, e->this_cpu);
	return wl_apply(p, e, t, waker, answer);
}

/*
 * For checkers and tests: the policy's record of a CPU, the bitmaps of a block, the busy counter of
 * a domain.
 */
void wl_native_cpu(struct wl_policy *p, u32 cpu, struct wl_cpu *out)
{
	*out = *wl_cpu_of(p, cpu);
}

void wl_native_block(struct wl_policy *p, u32 block, struct wl_block *out)
{
	*out = *wl_block_at(p, block);
}

u32 wl_native_busy_count(struct wl_policy *p, u32 level, u32 dom)
{
	return wl_counter_of(p, wl_level_of(p, level), dom)->busy;
}

u32 wl_native_idle_llc(struct wl_policy *p, u32 llc)
{
	return *wl_idle_llcs(p, llc) >> (llc & 63) & 1;
}

/* The records of a group; all 0 if there is none. */
void wl_native_group(struct wl_policy *p, u32 slot, struct wl_group *out)
{
	const struct wl_group *g = wl_group_at(p, slot);

	__builtin_memset(out, 0, sizeof(*out));
	if (g)
		*out = *g;
}

void wl_native_group_cpu(struct wl_policy *p, u32 slot, u32 cpu, struct wl_group_cpu *out)
{
	const struct wl_group_cpu *gc = wl_group_cpu_at(p, slot, cpu);

	__builtin_memset(out, 0, sizeof(*out));
	if (gc)
		*out = *gc;
}

int wl_native_init(struct wl_policy *p)
{
	wl_instance_place((struct wl_instance *)p, p->topo.nr_cpus, p->params.nr_groups);
	wl_lines_init(p);
	return wl_init(p);
}

int wl_native_busy(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	wl_lines_begin(p, cpu);
	return wl_busy(p, cpu, now_ns);
}

int wl_native_idle(struct wl_policy *p, u32 cpu, u64 now_ns)
{
	wl_lines_begin(p, cpu);
	return wl_idle(p, cpu, now_ns);
}

int wl_native_running(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns)
{
	wl_lines_on(p, cpu);
	return wl_running(p, t, cpu, now_ns);
}

int wl_native_stopping(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns, u32 runnable)
{
	wl_lines_on(p, cpu);
	return wl_stopping(p, t, cpu, now_ns, runnable);
}

int wl_native_sleep(struct wl_policy *p, struct wl_task *t, u64 now_ns, struct wl_sleep_out *out)
{
	wl_lines_on(p, t->cpu >= 0 ? (u32)t->cpu : 0);
	return wl_sleep(p, t, now_ns, out);
}

int wl_native_yield(struct wl_policy *p, struct wl_task *t, u32 cpu, u64 now_ns)
{
	wl_lines_on(p, cpu);
	return wl_yield(p, t, cpu, now_ns);
}

int wl_native_quiescent(struct wl_policy *p, struct wl_task *t, u64 now_ns)
{
	wl_lines_on(p, t->cpu);
	return wl_quiescent(p, t, now_ns);
}

int wl_native_task_init(struct wl_policy *p, struct wl_task *t, u64 id, u32 weight, u32 flags)
{
	return wl_task_init(p, t, id, weight, flags);
}

int wl_native_task_weight(struct wl_policy *p, struct wl_task *t, u32 weight, u64 now_ns)
{
	wl_lines_on(p, t->cpu);
	return wl_task_weight(p, t, weight, now_ns);
}

int wl_native_task_slice(struct wl_policy *p, struct wl_task *t, u32 slice_ns)
{
	wl_lines_on(p, t->cpu);
	return wl_task_slice(p, t, slice_ns);
}

int wl_native_task_affinity(struct wl_policy *p, struct wl_task *t)
{
	return wl_task_affinity(p, t);
}

int wl_native_task_exit(struct wl_policy *p, struct wl_task *t, u64 now_ns)
{
	wl_lines_on(p, t->cpu);
	return wl_task_exit(p, t, now_ns);
}

int wl_native_group_init(struct wl_policy *p, u32 slot, u32 parent, u32 shares)
{
	return wl_group_init(p, slot, parent, shares);
}

int wl_native_group_exit(struct wl_policy *p, u32 slot)
{
	return wl_group_exit(p, slot);
}

int wl_native_group_shares(struct wl_policy *p, u32 cpu, u32 slot, u32 shares)
{
	wl_lines_on(p, cpu);
	return wl_group_shares(p, slot, shares);
}

int wl_native_task_group(struct wl_policy *p, struct wl_task *t, u32 slot, u64 now_ns)
{
	wl_lines_on(p, t->cpu);
	return wl_task_group(p, t, slot, now_ns);
}
