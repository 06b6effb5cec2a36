/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * limits.bpf.h - cpu.max and cpu.idle of cgroups: throttles those that have used up their quota.
 *
 * Linux 6.12 tells sched_ext of neither, so the loader reads the cgroups' files, and writes what it
 * finds into `limits`. No policy is asked. One only sees that a task stops being runnable and
 * becomes so again, as in the lab (crates/sim/src/kernel/quota.rs).
 *
 *   pool	A group's CPU time in this period, on all CPUs together. A tick and a task that
 *		stops charge what was run since to the pools of the task's group and of those above.
 *		It is empty at 0 or below: what was used beyond it is owed to the next period
 *   throttle	A task whose group, or one above, has an empty pool gives way: at a tick; when it
 *		begins to run; when it would be queued. It goes to the outermost such group's own
 *		queue, which no CPU looks at
 *   release	A timer fills all pools up to their quotas, at multiples of their periods. Tasks of
 *		a group whose pool is no longer empty are queued again, as wake-ups on the CPU on
 *		which they were
 *
 * Example: 30 ms in each 100 ms, two tasks that compute on two CPUs, ticks of 4 ms. At 16 ms they
 * have used 32 ms, and wait until 100 ms. The pool is then filled to 28 ms.
 *
 * Bound: a group owes at most what its quota repays in a second (LONGEST_DEBT_NS). So no task is
 * throttled for much longer than that, however small the quota is, and the watchdog ejects nobody.
 * A group whose quota is smaller than a tick on each CPU that it uses gets more than the quota.
 *
 * Cost: nothing while there is no limit (has_limits is a constant of the program). Then a switch
 * and a tick in a limited group change a counter that all CPUs share, and each wake-up reads the
 * pools of its group and of those above. It fails a task that is throttled in the kernel with a
 * lock that others wait for, as Linux does before 6.18. Bursts (cpu.max.burst) are not known.
 */
#ifndef SCX_WAKELAB_LIMITS_H
#define SCX_WAKELAB_LIMITS_H

#include "state.bpf.h"
#include "queues.bpf.h"
#include "taken.bpf.h"

/* What the loader found in a cgroup's files, by slot. Only the loader writes it. */
struct limit {
	u64 quota_ns;  /* of cpu.max; 0: no limit */
	u64 period_ns; /* not 0 if quota_ns is not */
	u64 is_idle;   /* cpu.idle */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct limit);
} limits SEC(".maps");

struct pool {
	s64 left_ns;
	u64 period; /* the number of the period that filled it; 0: none has */
	u32 shares; /* that cpu.weight says */
	u32 is_idle;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pool);
} pools SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} limit_timers SEC(".maps");

/* Set by the loader: there is a limit, or was one. */
const volatile u32 has_limits;

/* A log's program has no stack left for limits, and without cgroups there are none. */
#if defined(WL_LOGS) || (defined(WL_OWN) && !OWN_nr_groups)
#define counts_limits() false
#else
#define counts_limits() has_limits
#endif

#define LONGEST_DEBT_NS	 1000000000ULL
#define LONGEST_PAUSE_NS 100000000ULL /* of the timer */
#define SHORT_PAUSE_NS	 1000000ULL   /* if more tasks are to be released than one firing does */
/* The shares of cpu.idle: Linux's WEIGHT_IDLEPRIO. */
#define IDLE_SHARES 3
/* Behind the CPUs' queues; by slot. */
#define THROTTLED_DSQ WL_MAX_CPUS

/* The timer's own, because it runs with interrupts on, and a wake-up in between uses the CPU's. */
struct scratch limit_scratch;

/* The pool of a group, or NULL if the group has no quota. */
static __always_inline struct pool *pool_of(u32 slot)
{
	struct limit *limit = bpf_map_lookup_elem(&limits, &slot);

	if (!limit || !wl_read_once(limit->quota_ns))
		return NULL;
	return bpf_map_lookup_elem(&pools, &slot);
}

/* The group above a group; 0: none. */
static __always_inline u32 group_above(u32 slot)
{
	struct wl_group *g = wl_group_at(&policy, slot);

	return g ? wl_read_once(g->parent) : 0;
}

/* The outermost group at or above `slot` whose pool is empty; 0: none. */
SEPARATE u32 throttled_by(u32 slot)
{
	u32 found = 0, i;

	bpf_for(i, 0, WL_GROUP_DEPTH)
	{
		struct pool *pool = pool_of(slot);

		if (pool && wl_read_once(pool->period) && wl_read_once(pool->left_ns) <= 0)
			found = slot;
		slot = group_above(slot);
		if (!slot)
			break;
	}
	return found;
}

/* The group that throttles p; 0: none. A task that is ending goes on, so that it can end. */
static __always_inline u32 task_throttled_by(struct task_struct *p, struct task_ctx *tctx)
{
	u32 slot = tctx->task.group;

	return slot && !(p->flags & PF_EXITING) ? throttled_by(slot) : 0;
}

/* A task of group `slot` ran. */
SEPARATE int charge_pools(u32 slot, u64 ran_ns)
{
	u32 i;

	bpf_for(i, 0, WL_GROUP_DEPTH)
	{
		struct pool *pool = pool_of(slot);

		if (pool)
			__sync_fetch_and_sub(&pool->left_ns, ran_ns);
		slot = group_above(slot);
		if (!slot)
			break;
	}
	return 0;
}

/* p begins to run on cpu. If it is throttled, it gives way at once. */
static __noinline void limited_running(struct task_struct *p, struct task_ctx *tctx, s32 cpu)
{
	scratch_of(cpu)->charged_ns = p->se.sum_exec_runtime;
	tctx->is_throttled = 0;
	if (task_throttled_by(p, tctx))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* Charges what p, which runs on cpu, has run since it was last charged. */
static __noinline void charge_running(struct task_struct *p, struct task_ctx *tctx, s32 cpu)
{
	struct scratch *sc = scratch_of(cpu);
	u64 sum_ns = p->se.sum_exec_runtime, ran_ns = sum_ns - sc->charged_ns;

	sc->charged_ns = sum_ns;
	if (tctx->task.group)
		charge_pools(tctx->task.group, ran_ns);
}

/* A tick of p on cpu. */
static __noinline void limited_tick(struct task_struct *p, s32 cpu)
{
	struct task_ctx *tctx = task_ctx(p);

	if (!tctx)
		return;
	charge_running(p, tctx, cpu);
	if (task_throttled_by(p, tctx))
		scx_bpf_task_set_slice(p, 0);
}

/* Tells the policy that a task is not runnable. */
SEPARATE int tell_throttled(struct task_ctx *tctx __arg_nonnull, s32 cpu, u64 now_ns)
{
	if (tctx->task.place == WL_PLACE_RUNNING)
		wl_stopping(&policy, &tctx->task, cpu, now_ns, 0);
	wl_quiescent(&policy, &tctx->task, now_ns);
	tctx->is_throttled = 1;
	tctx->goes_on = 0;
	return 0;
}

/*
 * A CPU asks for a task while prev could go on there. If prev is throttled, it cannot: it is queued
 * again after this, and then put aside.
 */
static __noinline bool throttles_prev(struct task_struct *prev, s32 cpu, u64 now_ns)
{
	struct task_ctx *tctx = task_ctx(prev);

	if (!tctx || !task_throttled_by(prev, tctx))
		return false;
	scx_bpf_task_set_slice(prev, 0);
	tell_throttled(tctx, cpu, now_ns);
	return true;
}

/* p would be queued. Puts it aside and returns true if it is throttled. */
static __noinline bool put_aside(struct task_struct *p, struct task_ctx *tctx, s32 cpu,
				 u64 enq_flags)
{
	u32 by = task_throttled_by(p, tctx);

	if (!by)
		return false;
	tell_throttled(tctx, cpu, bpf_ktime_get_ns());
	cpu_stats()->throttled++;
	scx_bpf_dsq_insert(p, THROTTLED_DSQ + by, SCX_SLICE_DFL, enq_flags);
	return true;
}

/*
 * Queues the tasks that group `slot` no longer throttles. Those that another group throttles go to
 * that one's queue.
 */
SEPARATE int release(u32 slot)
{
	struct scratch *sc = &limit_scratch;
	struct task_struct *p;
	u32 scanned = 0;

	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, THROTTLED_DSQ + slot, 0)
	{
		struct task_ctx *tctx;
		s32 cpu = scx_bpf_task_cpu(p), to;
		u32 by;

		if (scanned++ >= MAX_CHOICES)
			break;
		__sink(scanned); /* else the verifier follows each count separately */
		tctx = task_ctx(p);
		if (!tctx)
			continue;
		by = task_throttled_by(p, tctx);
		if (by) {
			if (by != slot)
				scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, THROTTLED_DSQ + by, 0);
			continue;
		}
		ask_enqueue(sc, tctx, cpu,
			    tctx->task.flags & WL_TASK_NEW ? WL_ENQ_FORK : WL_ENQ_WAKEUP,
			    bpf_get_smp_processor_id(), bpf_ktime_get_ns());
		tctx->is_throttled = 0;
		to = sc->enqueue_out.cpu;
		if (!valid_cpu(to) || !can_run(p, to))
			to = cpu;
		scx_bpf_dsq_move_set_slice(BPF_FOR_EACH_ITER, sc->enqueue_out.slice_ns);
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, sc->enqueue_out.key);
		if (scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, to, 0)) {
			watch_if_taken(to);
			scx_bpf_kick_cpu(to, sc->enqueue_out.preempt ? SCX_KICK_PREEMPT
								     : SCX_KICK_IDLE);
		} else if (tctx->task.place == WL_PLACE_QUEUED) {
			/* Its affinity was changed meanwhile, or it ends: it is queued again. */
			wl_quiescent(&policy, &tctx->task, bpf_ktime_get_ns());
		}
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* Fills a pool for the periods that have begun since it was last filled. */
static __always_inline void fill_pool(struct pool *pool, u64 quota_ns, u64 period_ns, u64 period)
{
	u64 periods = period - pool->period;
	s64 left_ns = wl_read_once(pool->left_ns), filled_ns = quota_ns;
	s64 most_owed_ns = quota_ns * (LONGEST_DEBT_NS / period_ns ?: 1) - 1;

	if (!periods)
		return;
	if (periods < LONGEST_DEBT_NS / period_ns + 2) {
		filled_ns = (left_ns < -most_owed_ns ? -most_owed_ns : left_ns) +
			    (s64)(periods * quota_ns);
		if (filled_ns > (s64)quota_ns)
			filled_ns = quota_ns;
	}
	/* Others charge meanwhile. */
	__sync_fetch_and_add(&pool->left_ns, filled_ns - left_ns);
	wl_write_once(pool->period, period);
}

/* Does what is due for a slot's limits. Returns when it is due next, or ~0: never. */
SEPARATE u64 renew(u32 slot, u64 now_ns)
{
	struct limit *limit = bpf_map_lookup_elem(&limits, &slot);
	struct pool *pool = bpf_map_lookup_elem(&pools, &slot);
	u64 quota_ns, period_ns, next_ns = ~0ULL;

	if (!limit || !pool)
		return next_ns;
	quota_ns = wl_read_once(limit->quota_ns);
	period_ns = wl_read_once(limit->period_ns);
	if (!limit->is_idle != !pool->is_idle && pool->shares) {
		pool->is_idle = !pool->is_idle;
		wl_group_shares(&policy, slot, pool->is_idle ? IDLE_SHARES : pool->shares);
	}
	if (quota_ns && period_ns) {
		fill_pool(pool, quota_ns, period_ns, now_ns / period_ns);
		next_ns = (now_ns / period_ns + 1) * period_ns;
	}
	if (scx_bpf_dsq_nr_queued(THROTTLED_DSQ + slot) <= 0 ||
	    (quota_ns && wl_read_once(pool->left_ns) <= 0))
		return next_ns;
	release(slot);
	if (scx_bpf_dsq_nr_queued(THROTTLED_DSQ + slot) > 0 && next_ns > now_ns + SHORT_PAUSE_NS)
		next_ns = now_ns + SHORT_PAUSE_NS;
	return next_ns;
}

static int limits_fired(void *map, int *key, struct timer_slot *timer)
{
	u64 now_ns = bpf_ktime_get_ns(), next_ns = now_ns + LONGEST_PAUSE_NS;
	u32 slots = group_counts.highest_slot + 1, slot;

	bpf_for(slot, 1, slots)
	{
		u64 due_ns = renew(slot, now_ns);

		if (due_ns < next_ns)
			next_ns = due_ns;
	}
	bpf_timer_start(&timer->timer, next_ns - now_ns, 0);
	return 0;
}

static s32 start_limits(void)
{
	return counts_limits() ? init_timer(&limit_timers, limits_fired, SHORT_PAUSE_NS) : 0;
}

/*
 * A cgroup has got a slot. Its queue may be there from a former cgroup: it stays, because one that
 * is not empty must not be removed.
 */
static __always_inline void limit_slot(u32 slot, u32 shares)
{
	struct limit *limit = bpf_map_lookup_elem(&limits, &slot);
	struct pool *pool = bpf_map_lookup_elem(&pools, &slot);

	if (!limit || !pool)
		return;
	limit->quota_ns = 0;
	limit->is_idle = 0;
	pool->period = 0;
	pool->left_ns = 0;
	pool->is_idle = 0;
	pool->shares = shares;
	scx_bpf_create_dsq(THROTTLED_DSQ + slot, -1);
}

/* cpu.weight of a slot's cgroup was changed. Returns the shares that count. */
static __always_inline u32 limit_shares(u32 slot, u32 shares)
{
	struct pool *pool = bpf_map_lookup_elem(&pools, &slot);

	if (!pool)
		return shares;
	pool->shares = shares;
	return pool->is_idle ? IDLE_SHARES : shares;
}

#endif /* SCX_WAKELAB_LIMITS_H */
