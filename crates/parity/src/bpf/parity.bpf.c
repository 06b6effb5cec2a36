// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * parity.bpf.c - the policy as syscall programs, for tests: one BPF state, driven from user space.
 *
 * All memory is in .bss, which user space maps: it writes topology and parameters into wl_memory
 * and calls parity_init; writes up to PARITY_BATCH events and calls parity_run, which answers each
 * in answers[]; and reads everything back. parity_hammer is run by two threads at once on the same
 * state; parity_bench times searches.
 *
 * Entry points of the policy are global functions here as in the scheduler, and every handler is
 * one too, of scalars, so that the verifier proves each once.
 */

/* ---------------------------------------------- what bpf_helpers.h expects of vmlinux.h */

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

struct bpf_iter_num {
	__u64 __opaque[1];
} __attribute__((aligned(8)));

enum bpf_map_type { BPF_MAP_TYPE_ARRAY = 2 };

#include <bpf/bpf_helpers.h>

/* Weak: see base.h. */
#define WL_FN  __attribute__((noinline, weak))
#define WL_ARG __arg_nonnull

#include "host/memory.h"
#include "host/groups.h"
#include "core.h"

char LICENSE[] SEC("license") = "GPL";

struct wl_memory wl_memory;

/* ------------------------------------------------------------------ shared with src/kernel.rs */

#define PARITY_BATCH   4096
#define PARITY_TASKS   1024
#define PARITY_MASKS   256
#define PARITY_NO_TASK (~0u)

enum parity_kind { /* src/event.rs has the same order */
		   PARITY_TASK_INIT,
		   PARITY_AFFINITY,
		   PARITY_SELECT,
		   PARITY_SCAN_TOOK,
		   PARITY_ENQUEUE,
		   PARITY_DISPATCH,
		   PARITY_MAY_MOVE,
		   PARITY_MAY_RUN,
		   PARITY_TICK,
		   PARITY_TIMER,
		   PARITY_BUSY,
		   PARITY_IDLE,
		   PARITY_RUNNING,
		   PARITY_STOPPING,
		   PARITY_QUIESCENT,
		   PARITY_WEIGHT,
		   PARITY_EXIT,
		   PARITY_IDLE_MASK,
		   PARITY_GROUP_INIT,
		   PARITY_GROUP_EXIT,
		   PARITY_GROUP_SHARES,
		   PARITY_TASK_GROUP,
		   PARITY_TAKEN,
};

/* One event; what the fields mean depends on kind. */
struct parity_event {
	u64 now_ns;
	u64 value; /* id, elapsed_ns, set or clear */
	u32 kind;
	u32 cpu;
	s32 prev_cpu; /* of an enqueue: where it happens */
	u32 task;
	u32 waker;  /* PARITY_NO_TASK: none */
	u32 flags;  /* of the wake-up or the task; why of an enqueue; runnable of stopping */
	u32 weight; /* or shares */
	u32 mask;   /* index into masks[]; of a group event its slot */
};

struct parity_answer {
	struct wl_decision decision;
	struct wl_enqueue_out enqueue;
	struct wl_dispatch_out dispatch;
	struct wl_move_out move;
	struct wl_run_out run;
	struct wl_tick_out tick;
	struct wl_timer_out timer;
	struct wl_task task;  /* its record after the event, without the mask */
	struct wl_task waker; /* the waker's */
};

struct wl_task tasks[PARITY_TASKS];
struct parity_event events[PARITY_BATCH];
struct parity_answer answers[PARITY_BATCH];
u32 nr_events;
u64 masks[PARITY_MASKS][WL_MASK_WORDS];
struct wl_decision last_decision;
struct wl_dispatch_out last_dispatch;

/* A deliberate fault, to prove that the comparison can fail; 0: none. */
const volatile u32 parity_fault = 0;

#define FAULT_CPU     1 /* another CPU is answered, now and then */
#define FAULT_REASON  2
#define FAULT_READS   3
#define FAULT_STATE   4 /* a rotor moves on its own */
#define FAULT_COUNTER 5 /* hammer: a group's counter is off by one */
#define FAULT_CLAIM   6 /* hammer: a claim is not given back */
#define FAULT_GROUP   7 /* a group's part of v moves on its own */
#define FAULT_TOTAL   8 /* hammer: a CPU counts more load of groups than it has */

/* ------------------------------------------------------------------ helpers */

static __always_inline struct parity_event *event_at(u32 i)
{
	wl_hide(i);
	return &events[i & (PARITY_BATCH - 1)];
}

static __always_inline struct parity_answer *answer_at(u32 i)
{
	wl_hide(i);
	return &answers[i & (PARITY_BATCH - 1)];
}

static __always_inline struct wl_task *task_at(u32 i)
{
	wl_hide(i);
	return &tasks[i & (PARITY_TASKS - 1)];
}

static __always_inline u32 cpu_at(u32 cpu)
{
	wl_hide(cpu);
	return cpu & (WL_MAX_CPUS - 1);
}

static __always_inline void copy_head(struct wl_task *to, const struct wl_task *t)
{
	__builtin_memcpy(to, t, __builtin_offsetof(struct wl_task, allowed));
}

/* Takes a CPU's bit out of the idle mask, or gives it back; returns whether it was set before. */
static __always_inline u32 token_take(u32 cpu)
{
	return wl_claim_idle(&wl_memory.policy, cpu);
}

static __always_inline u32 token_give(u32 cpu)
{
	u64 bit = wl_memory_bit(cpu), old;
	u32 word = wl_memory_word(cpu);

	wl_hide(word);
	old = __sync_fetch_and_or(&wl_memory.idle_mask[word & (WL_MASK_WORDS - 1)], bit);
	return (old & bit) != 0;
}

/* ------------------------------------------------------------------ one event */

__noinline int parity_select(u32 i)
{
	struct parity_event *e = event_at(i);
	struct parity_answer *a = answer_at(i);
	struct wl_task *waker = e->waker == PARITY_NO_TASK ? 0 : task_at(e->waker);
	struct wl_select_in in = {
		.this_cpu = e->cpu,
		.prev_cpu = e->prev_cpu,
		.flags = e->flags,
		.now_ns = e->now_ns,
	};

	wl_select(&wl_memory.policy, &in, task_at(e->task), waker, &a->decision);
	if (parity_fault && (e->now_ns & 63) == 0) {
		if (parity_fault == FAULT_CPU)
			a->decision.cpu ^= 1;
		if (parity_fault == FAULT_REASON)
			a->decision.reason ^= 1;
		if (parity_fault == FAULT_READS)
			a->decision.reads.at[WL_DIST_LLC]++;
	}
	last_decision = a->decision;
	if (e->waker != PARITY_NO_TASK)
		copy_head(&a->waker, task_at(e->waker));
	return 0;
}

__noinline int parity_scan_took(u32 i)
{
	struct parity_event *e = event_at(i);

	wl_scan_took(&wl_memory.policy, e->cpu, &last_decision, e->value);
	return 0;
}

__noinline int parity_enqueue(u32 i)
{
	struct parity_event *e = event_at(i);
	struct wl_enqueue_in in = {
		.cpu = e->cpu, .why = e->flags, .this_cpu = e->prev_cpu, .now_ns = e->now_ns};

	wl_enqueue(&wl_memory.policy, task_at(e->task), &in, &answer_at(i)->enqueue);
	return 0;
}

__noinline int parity_dispatch(u32 i)
{
	struct parity_event *e = event_at(i);
	struct parity_answer *a = answer_at(i);

	wl_dispatch(&wl_memory.policy, e->cpu, e->now_ns, &a->dispatch);
	last_dispatch = a->dispatch;
	return 0;
}

__noinline int parity_may_move(u32 i)
{
	struct parity_event *e = event_at(i);
	struct parity_answer *a = answer_at(i);

	struct wl_move_in in = {.cpu = e->cpu, .now_ns = e->now_ns};

	wl_may_move(&wl_memory.policy, task_at(e->task), &in, &last_dispatch, &a->move);
	a->dispatch = last_dispatch;
	return 0;
}

__noinline int parity_may_run(u32 i)
{
	struct parity_event *e = event_at(i);

	wl_may_run(&wl_memory.policy, task_at(e->task), e->cpu, e->now_ns, &answer_at(i)->run);
	return 0;
}

__noinline int parity_tick(u32 i)
{
	struct parity_event *e = event_at(i);

	wl_tick(&wl_memory.policy, e->cpu, e->task == PARITY_NO_TASK ? 0 : task_at(e->task),
		e->now_ns, &answer_at(i)->tick);
	return 0;
}

__noinline int parity_timer(u32 i)
{
	struct parity_event *e = event_at(i);

	if (e->kind == PARITY_TAKEN)
		wl_taken(&wl_memory.policy, e->cpu, e->now_ns, &answer_at(i)->timer);
	else
		wl_timer(&wl_memory.policy, e->cpu, e->now_ns, &answer_at(i)->timer);
	return 0;
}

__noinline int parity_busy_idle(u32 i)
{
	struct parity_event *e = event_at(i);

	if (e->kind == PARITY_BUSY)
		wl_busy(&wl_memory.policy, e->cpu, e->now_ns);
	else
		wl_idle(&wl_memory.policy, e->cpu, e->now_ns);
	if (parity_fault == FAULT_STATE)
		wl_memory.policy.cpu[cpu_at(e->cpu)].rotor++;
	return 0;
}

/* The small events about a task, together. */
__noinline int parity_task_event(u32 i)
{
	struct parity_event *e = event_at(i);
	struct wl_task *t = task_at(e->task);
	u32 mask = e->mask, word;

	switch (e->kind) {
	case PARITY_TASK_INIT:
		wl_task_init(&wl_memory.policy, t, e->value, e->weight, e->flags);
		break;
	case PARITY_AFFINITY:
		wl_hide(mask);
		wl_for (word, 0, WL_MASK_WORDS)
			t->allowed[word & (WL_MASK_WORDS - 1)] =
				masks[mask & (PARITY_MASKS - 1)][word & (WL_MASK_WORDS - 1)];
		wl_task_affinity(&wl_memory.policy, t);
		break;
	case PARITY_WEIGHT:
		wl_task_weight(&wl_memory.policy, t, e->weight, e->now_ns);
		break;
	case PARITY_EXIT:
		wl_task_exit(&wl_memory.policy, t, e->now_ns);
		break;
	}
	return 0;
}

__noinline int parity_group_event(u32 i)
{
	struct parity_event *e = event_at(i);

	switch (e->kind) {
	case PARITY_GROUP_INIT:
		wl_group_init(&wl_memory.policy, e->mask, e->flags, e->weight);
		break;
	case PARITY_GROUP_EXIT:
		wl_group_exit(&wl_memory.policy, e->mask);
		break;
	case PARITY_GROUP_SHARES:
		wl_group_shares(&wl_memory.policy, e->mask, e->weight);
		if (parity_fault == FAULT_GROUP) {
			struct wl_group_cpu *gc = wl_group_cpu_at(&wl_memory.policy, e->mask, 0);

			if (gc)
				gc->exact.part++;
		}
		break;
	case PARITY_TASK_GROUP:
		wl_task_group(&wl_memory.policy, task_at(e->task), e->mask, e->now_ns);
		break;
	}
	return 0;
}

__noinline int parity_running(u32 i)
{
	struct parity_event *e = event_at(i);

	wl_running(&wl_memory.policy, task_at(e->task), e->cpu, e->now_ns);
	return 0;
}

__noinline int parity_stopping(u32 i)
{
	struct parity_event *e = event_at(i);

	if (e->kind == PARITY_STOPPING)
		wl_stopping(&wl_memory.policy, task_at(e->task), e->cpu, e->now_ns, e->flags);
	else
		wl_quiescent(&wl_memory.policy, task_at(e->task), e->now_ns);
	return 0;
}

/* Tells the policy one event and notes its answer. */
__noinline int parity_one(u32 i)
{
	struct parity_event *e = event_at(i);

	switch (e->kind) {
	case PARITY_SELECT:
		parity_select(i);
		break;
	case PARITY_SCAN_TOOK:
		parity_scan_took(i);
		break;
	case PARITY_ENQUEUE:
		parity_enqueue(i);
		break;
	case PARITY_DISPATCH:
		parity_dispatch(i);
		break;
	case PARITY_MAY_MOVE:
		parity_may_move(i);
		break;
	case PARITY_MAY_RUN:
		parity_may_run(i);
		break;
	case PARITY_TICK:
		parity_tick(i);
		break;
	case PARITY_TIMER:
	case PARITY_TAKEN:
		parity_timer(i);
		break;
	case PARITY_BUSY:
	case PARITY_IDLE:
		parity_busy_idle(i);
		break;
	case PARITY_RUNNING:
		parity_running(i);
		break;
	case PARITY_STOPPING:
	case PARITY_QUIESCENT:
		parity_stopping(i);
		break;
	case PARITY_IDLE_MASK:
		wl_memory_set_idle(&wl_memory.policy, e->cpu, e->value != 0);
		break;
	case PARITY_GROUP_INIT:
	case PARITY_GROUP_EXIT:
	case PARITY_GROUP_SHARES:
	case PARITY_TASK_GROUP:
		parity_group_event(i);
		break;
	default:
		parity_task_event(i);
		break;
	}
	if (e->task != PARITY_NO_TASK)
		copy_head(&answer_at(i)->task, task_at(e->task));
	return 0;
}

SEC("syscall")
int parity_run(void *unused)
{
	u32 i, nr = nr_events;

	wl_for (i, 0, nr)
		parity_one(i);
	return 0;
}

/* The state as after loading: topology and parameters are there, everything else is zero. */
SEC("syscall")
int parity_init(void *unused)
{
	struct wl_policy *p = &wl_memory.policy;
	u32 nr_groups = p->params.nr_groups, nr_cpus = p->topo.nr_cpus, slot, cpu;

	wl_for (slot, 0, nr_groups) {
		struct wl_group *g = wl_group_at(p, slot);

		if (g)
			__builtin_memset(g, 0, sizeof(*g));
		wl_for (cpu, 0, nr_cpus) {
			struct wl_group_cpu *gc = wl_group_cpu_at(p, slot, cpu);

			if (gc)
				__builtin_memset(gc, 0, sizeof(*gc));
		}
	}
	wl_init(&wl_memory.policy);
	return 0;
}

#include "hammer.h"
#include "bench.h"
