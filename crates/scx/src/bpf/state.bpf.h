/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * state.bpf.h - the state of the BPF side: the policy, the task records, and a slot of scratch
 * space (and, by stats.bpf.h, of counters) for each CPU.
 */
#ifndef SCX_WAKELAB_STATE_H
#define SCX_WAKELAB_STATE_H

#include "kernel.bpf.h"

#define WL_HAVE_TYPES
/* Weak: see base.h. */
#define WL_FN  __attribute__((noinline, weak))
#define WL_ARG __arg_nonnull
#ifdef WL_OWN
#define WL_HAS_STACK 1
#define WL_FN_OWN    static __always_inline __attribute__((unused))
#endif
#ifndef WL_LOGS
#define WL_FN_ONCE static __always_inline
#define WL_FN_REST WL_FN
#endif
#define wl_claim_idle(p, cpu) (scx_bpf_test_and_clear_cpu_idle(cpu) ? 1 : 0)

/*
 * The axes are known when the program is loaded, so the verifier removes the code that their other
 * values need; or already when it is compiled (own.bpf.c).
 */
#ifdef WL_OWN
#define wl_axis(p, name) ((void)(p), OWN_##name)
/* The verifier has only one policy's code to follow here. */
#define wl_for_depth(i) wl_for_few (i, WL_GROUP_DEPTH, WL_GROUP_DEPTH)
#else
#define wl_axis(p, name) ((void)(p), policy_params.name)
#endif

/*
 * How much is counted; the loader sets it. DETAIL_STATS, with --stats: everything in stats.bpf.h,
 * and reads by distance. DETAIL_READS, if the policy asks for the time of scans: the number of
 * reads. It is one word, because each word that is tested costs a load. Weak: see policy_params.
 */
enum { DETAIL_NONE, DETAIL_READS, DETAIL_STATS };
const u32 detail __attribute__((weak)) SEC(".rodata");

/* A dispatch queue holds tasks that can run. */
#define wl_keeps_sleepers(p) ((void)(p), 0)

#ifdef WL_LOGS
#include "reads.bpf.h"
#else
/* A log has everything that was answered; nothing else uses the distances of reads. */
#define wl_tells_distances(p) ((void)(p), detail >= DETAIL_STATS)
#define wl_counts_reads(p)    ((void)(p), detail >= DETAIL_READS)
#endif
#include "params.h"

/*
 * The loader's copy of policy.params. Weak, so that clang does not take it for the zeros that it is
 * here.
 */
const struct wl_params policy_params __attribute__((weak)) SEC(".rodata");

/* What wl_axis() reads, for the policy's traits. */
#ifdef WL_OWN
#include "own.bpf.h"
#else
#define axis_params policy_params
#endif

#include "host/groups.h"
#if defined(WL_OWN) && !OWN_nr_groups
/* There are no groups: the compiler removes the code that uses them. */
#undef wl_group_at
#undef wl_group_cpu_at
#endif
#ifdef WL_LOGS
#include "notes.bpf.h"
#endif
#include "core.h"

/* The policy's state, the only instance. The loader fills in params and topo before it attaches. */
struct wl_policy policy;

/* The slots of cgroups (groups.bpf.h). */
struct group_counts {
	u32 last_slot;	  /* the slot that was given last */
	u32 highest_slot; /* the highest slot that was ever given */
	u64 without_slot; /* cgroups for which no slot was free */
};

struct group_counts group_counts;

/* Set by the loader: there are numbers of CPUs below nr_cpus that no CPU has (topology.h). */
const volatile u32 has_gaps;

/*
 * Set by the loader with --bench search: every other wake-up is placed by the kernel's default
 * search instead of the policy's, and the time of each is counted.
 */
const volatile u32 bench_search;

/* A function that the verifier checks once, and not at each call (see WL_FN). */
#define SEPARATE __attribute__((noinline, weak))

#ifdef WL_LOGS
#include "log.bpf.h"
#endif
#include "stats.bpf.h"
#include "classes.bpf.h"

/*
 * Arguments and answers of select, dispatch and tick, a slot per CPU, because the policy's own
 * functions need most of BPF's stack of 512 bytes. All of them run with interrupts off, and none
 * nests.
 */
struct scratch {
	struct wl_select_in select_in;
	struct wl_decision decision;
	struct wl_dispatch_out dispatch;
	struct wl_move_in move_in;
	struct wl_move_out move_out;
	struct wl_run_out run;
	struct wl_enqueue_in enqueue_in;
	struct wl_enqueue_out enqueue_out;
	struct wl_tick_out tick;
	/*
	 * The time of the switch that the CPU is about to make, or 0. The clock is read once per
	 * switch, because that costs more than most of what a hook does. Protected by the lock of
	 * the CPU's run queue.
	 */
	u64 switch_ns;
	u64 select_ns; /* when the policy was asked for a CPU; here, to save stack */
	/*
	 * 1: a task that preempts went straight to the CPU, and the CPU has not switched to it yet.
	 */
	u32 preempted;
	/* 1: dispatch left the CPU to a task of a higher class, and no switch has followed yet. */
	u32 yielded;
	/* perf.bpf.h: the CPU's utilization, and when it was right. */
	u64 util_ns;
	u32 util;
	u32 most_told; /* the highest performance that was asked for */
	u64 told;      /* how many times it was asked for one */
	/* limits.bpf.h: the CPU time of the running task when it was last charged. */
	u64 charged_ns;
	u32 throttles_prev; /* 1: the task that ran is throttled; written and read by dispatch */
} WL_ALIGN_LINE;

struct scratch scratch[WL_MAX_CPUS];

struct task_ctx {
	struct wl_task task; /* first, so that a pointer to one is a pointer to the other */
	s32 last_cpu;	     /* where it ran last, or WL_CPU_NONE */
	u16 goes_on;	     /* it stopped while runnable: the next enqueue ends its slice */
	u16 is_throttled;    /* limits.bpf.h: the policy was told that it is not runnable */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

static struct scratch *scratch_of(u32 cpu)
{
	wl_hide(cpu);
	return &scratch[cpu & (WL_MAX_CPUS - 1)];
}

/*
 * A record is found without a call if it is at one of the two places that its task's address says.
 * The call that task storage takes costs more than most of what a hook does with the record. A task
 * whose places were taken when it began has its record in task storage. Of 1,024 tasks those
 * are about nine, of 4,096 one in ten.
 */
#define NR_PLACES 8192

struct place {
	u64 owner; /* the address of the task; 0: free */
	struct task_ctx ctx;
} WL_ALIGN_LINE;

/* A log's program has no stack left for this. */
#ifndef WL_LOGS
struct place places[NR_PLACES];

/*
 * The number of p's first place; that of the second has another last bit. The verifier lets nobody
 * compute with an address, but the distance of two addresses is a number. In assembly, because
 * clang could compute with each address on its own.
 */
static __always_inline u32 place_number(struct task_struct *p)
{
	u64 distance = (u64)p;

	asm volatile("%0 -= %1" : "+r"(distance) : "r"(places));
	return distance * 0x9e3779b97f4a7c15ULL >> 51;
}

static __always_inline struct place *place_at(u32 number)
{
	wl_hide(number);
	return &places[number & (NR_PLACES - 1)];
}

/* p's place, or NULL if p has none. */
static __always_inline struct place *place_of(struct task_struct *p)
{
	u32 number = place_number(p);
	struct place *place = place_at(number);

	if (place->owner == (u64)p)
		return place;
	place = place_at(number ^ 1);
	return place->owner == (u64)p ? place : NULL;
}

/* Takes a place for p, if it is free. */
static __always_inline struct task_ctx *take_place(struct task_struct *p, u32 number)
{
	struct place *place = place_at(number);

	return __sync_val_compare_and_swap(&place->owner, 0, (u64)p) ? NULL : &place->ctx;
}
#endif

static __always_inline struct task_ctx *task_ctx(struct task_struct *p)
{
#ifndef WL_LOGS
	struct place *place = place_of(p);

	if (place)
		return &place->ctx;
#endif
	return bpf_task_storage_get(&task_ctxs, p, 0, 0);
}

/* The record of a task that begins. */
static __always_inline struct task_ctx *make_task_ctx(struct task_struct *p)
{
#ifndef WL_LOGS
	u32 number = place_number(p);
	struct task_ctx *tctx = take_place(p, number) ?: take_place(p, number ^ 1);

	if (tctx)
		return tctx;
#endif
	return bpf_task_storage_get(&task_ctxs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* p ends. The kernel frees what is in task storage. */
static __always_inline void free_task_ctx(struct task_struct *p)
{
#ifndef WL_LOGS
	struct place *place = place_of(p);

	if (place)
		wl_publish(place->owner, 0);
#endif
}

/*
 * Returns the noted time of the switch that cpu makes, and forgets it; if there is none, the time
 * now.
 */
static u64 end_switch(s32 cpu)
{
	struct scratch *sc = scratch_of(cpu);
	u64 now_ns = sc->switch_ns ?: bpf_ktime_get_ns();

	sc->switch_ns = 0;
	sc->preempted = 0;
	return now_ns;
}

/*
 * Is this a number that no CPU has? The logging build does not ask: a log needs numbers without
 * gaps, and its search has no stack left.
 */
static bool is_gap(s32 cpu)
{
#ifdef WL_LOGS
	return false;
#else
	return has_gaps && !wl_entry(policy.topo.capacity, cpu);
#endif
}

static bool valid_cpu(s32 cpu)
{
	return cpu >= 0 && (u32)cpu < policy.topo.nr_cpus && !is_gap(cpu);
}

/* scx_bpf_task_cpu() without the call. */
static s32 own_cpu(struct task_struct *p)
{
	return p->thread_info.cpu;
}

/*
 * May cpu run p? The kernel narrows cpus_ptr of a migration-disabled task only when it is off its
 * CPU.
 */
static bool can_run(struct task_struct *p, s32 cpu)
{
	if (own_cpu(p) == cpu)
		return true;
	return !is_migration_disabled(p) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/*
 * Runs the kernel's default search instead of the policy's. Returns 0 if it is the policy's turn,
 * or if a new task is placed, which is not a search for an idle CPU near another one.
 */
static __noinline u32 kernel_searches(struct task_struct *p, const struct wl_select_in *in,
				      u64 wake_flags, struct wl_decision *d)
{
	struct cpu_stats *st = cpu_stats();
	u64 start_ns, begin_ns;
	bool idle = false;

	if ((in->flags & WL_WAKE_FORK) || st->timed[1] >= st->timed[0])
		return 0;
	start_ns = bpf_ktime_get_ns();
	begin_ns = bpf_ktime_get_ns();
	d->cpu = scx_bpf_select_cpu_dfl(p, in->prev_cpu, wake_flags, &idle);
	count_search(st, 1, bpf_ktime_get_ns() - begin_ns);
	if (begin_ns - start_ns < LONGEST_SEARCH_NS)
		st->clock_ns += begin_ns - start_ns;
	d->claimed = idle;
	d->scan_timed = 0;
	return 1;
}

/* At nice 0, sched_ext's weight is 100 and the policy's is 1024. */
static u32 task_weight(u32 scx_weight)
{
	u32 weight = scx_weight * WL_WEIGHT_NICE_0 / 100;

	return weight ?: 1;
}

enum { NEXT_NO, NEXT_YES, NEXT_UNKNOWN };

/*
 * A task of this key preempts on cpu, where others wait: is it the one that cpu would choose? Yes
 * if the policy wants none of those that come before it in the queue. A log has each question, so
 * its program does not ask here.
 */
SEPARATE int is_next(s32 cpu, u64 key, u64 now_ns)
{
	struct task_struct *p;
	u32 scanned = 0, next = NEXT_YES;

#ifndef WL_LOGS
	wl_chooses(&policy, cpu, now_ns);
#endif
	bpf_for_each(scx_dsq, p, cpu, 0)
	{
		u32 told = WL_RUN_ASK;

		if ((s64)(p->scx.dsq_vtime - key) > 0)
			break;
#ifndef WL_LOGS
		told = wl_may_run_told(&policy, cpu, p->scx.dsq_vtime, p->scx.slice,
				       task_weight(p->scx.weight), now_ns);
#endif
		__sink(scanned); /* else the verifier follows each count separately */
		if (told != WL_RUN_NO && can_run(p, cpu)) {
			next = told == WL_RUN_YES ? NEXT_NO : NEXT_UNKNOWN;
			break;
		}
		if (scanned++ >= WL_MAX_BEFORE) {
			next = NEXT_UNKNOWN;
			break;
		}
	}
	return next;
}

/*
 * The case WL_STRAIGHT_MAY_RUN of a task that preempts. To ask is cheaper than an interrupt to the
 * own CPU, which a kick is, and a dispatch. If another task would be chosen, the running one goes
 * on if the answer allows it.
 */
static __always_inline bool preempts_straight(struct scratch *sc, struct task_ctx *tctx,
					      u32 nr_queued)
{
	s32 cpu = sc->enqueue_out.cpu;
	struct scratch *of = scratch_of(cpu);
	u64 now_ns = sc->enqueue_in.now_ns;
	u32 next = NEXT_YES;

	if (nr_queued > 1) {
		if (of->preempted || wl_wait_is_due(&policy, cpu, now_ns))
			return false;
		next = is_next(cpu, sc->enqueue_out.key, now_ns);
	}
	if (next == NEXT_NO && sc->enqueue_out.preempt == WL_PREEMPT_IF_FIRST)
		sc->enqueue_out.preempt = WL_PREEMPT_NO;
	if (next != NEXT_YES)
		return false;
	/* If the slice of the running task is over, it gives way, but perhaps not to this one. */
	if (sc->enqueue_out.preempt == WL_PREEMPT_YES) {
		wl_may_run(&policy, &tctx->task, cpu, now_ns, &sc->run);
		if (!sc->run.run)
			return false;
	}
	of->preempted = 1;
	return true;
}

/*
 * May a task whose queue is that of enqueue_out.cpu, and which is counted there, go to the CPU
 * without wl_dispatch()? Yes if the policy says so (wl_trait_straight()). And in any case a waking
 * kernel thread that is bound to its CPU: others may need it to make any progress at all
 * (workqueues, RCU), and no other CPU can run it. It is counted and charged like any other task,
 * and queues like any other at the end of its slice, so it cannot keep the CPU for itself.
 */
static __always_inline bool goes_straight(struct task_struct *p, struct scratch *sc,
					  struct task_ctx *tctx)
{
	const struct wl_enqueue_in *in = &sc->enqueue_in;
	const struct wl_enqueue_out *out = &sc->enqueue_out;
	struct wl_cpu *c = wl_cpu_of(&policy, out->cpu);
	u32 straight = wl_trait_straight(&axis_params), nr_queued;

	if (in->why != WL_ENQ_WAKEUP && in->why != WL_ENQ_FORK)
		return false;
	if (p->nr_cpus_allowed == 1 && (p->flags & PF_KTHREAD) && in->why == WL_ENQ_WAKEUP)
		return true;
	if (wl_read_once(c->balance_marked))
		return false;
	nr_queued = wl_read_once(c->nr_queued);
	if (straight == WL_STRAIGHT_MAY_RUN && out->preempt)
		return preempts_straight(sc, tctx, nr_queued);
	if (nr_queued != 1)
		return false;
	if (wl_read_once(c->nr_running))
		return out->preempt;
	/*
	 * With --partial a task of a higher class may come before the idle CPU reschedules, and
	 * stay for ever (classes.bpf.h). Real-time tasks come more seldom, and give way.
	 */
	return wl_read_once(c->state) < WL_CPU_BUSY && !is_partial;
}

/*
 * Asks the policy for queue, key and slice of a task: sc->enqueue_in is the question,
 * sc->enqueue_out the answer.
 */
static __always_inline void ask_enqueue(struct scratch *sc, struct task_ctx *tctx, u32 cpu, u32 why,
					u32 this_cpu, u64 now_ns)
{
	sc->enqueue_in.cpu = cpu;
	sc->enqueue_in.why = why;
	sc->enqueue_in.this_cpu = this_cpu;
	sc->enqueue_in.now_ns = now_ns;
	wl_enqueue(&policy, &tctx->task, &sc->enqueue_in, &sc->enqueue_out);
}

static void copy_allowed(struct task_ctx *tctx, const struct cpumask *mask)
{
	u32 size = bpf_core_type_size(struct cpumask);

	if (size > sizeof(tctx->task.allowed))
		size = sizeof(tctx->task.allowed);
	bpf_probe_read_kernel(tctx->task.allowed, size, mask);
	wl_task_affinity(&policy, &tctx->task);
}

/* The slice that a task has asked for by sched_setattr(); 0: none. */
static u32 own_slice_ns(const struct task_struct *p)
{
	if (!bpf_core_field_exists(p->se.custom_slice) || !p->se.custom_slice)
		return 0;
	return p->se.slice;
}

#endif /* SCX_WAKELAB_STATE_H */
