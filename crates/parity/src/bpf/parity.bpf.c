// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * parity.bpf.c - the policy as syscall programs, for tests: one BPF state, driven from user space.
 *
 * All memory is in .bss, which user space maps. It writes topology and parameters into wl_memory
 * and calls parity_init; writes up to PARITY_BATCH events and calls parity_run, which answers each
 * of them in answers[]; and reads everything back. Two threads run parity_hammer at once on the
 * same state; parity_bench times searches.
 *
 * As in the scheduler, the policy's entry points are global functions. So is every handler, with
 * scalar arguments, so that the verifier proves each once.
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
#include "event.h"

char LICENSE[] SEC("license") = "GPL";

struct wl_memory wl_memory;

/* ------------------------------------------------------------------ shared with src/kernel.rs */

#define PARITY_BATCH   4096
#define PARITY_TASKS   1024
#define PARITY_MASKS   256
#define PARITY_NO_TASK (~0u)

/* A kind besides the policy's: sets whether the idle mask has a CPU, as value says. */
#define PARITY_IDLE_MASK WL_NR_EVENT

/* An event, and the numbers of its task, waker and mask. */
struct parity_event {
	struct wl_event event;
	u32 task;
	u32 waker; /* PARITY_NO_TASK: none */
	u32 mask;  /* index into masks[], for AFFINITY: the allowed CPUs */
	u32 unused;
};

struct parity_answer {
	union wl_answer answer;
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

/* A deliberate fault, which proves that the comparison can fail; 0: none. */
const volatile u32 parity_fault = 0;

#define FAULT_CPU     1 /* sometimes the answer is another CPU */
#define FAULT_REASON  2
#define FAULT_READS   3
#define FAULT_STATE   4 /* a rotor moves by itself */
#define FAULT_COUNTER 5 /* hammer: a group's counter is off by one */
#define FAULT_CLAIM   6 /* hammer: a claim is not given back */
#define FAULT_GROUP   7 /* a group's part of v moves by itself */
#define FAULT_TOTAL   8 /* hammer: a CPU counts more load of groups than there is */

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

/* Takes a CPU's bit out of the idle mask, or puts it back. Returns whether it was set before. */
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

/* Fills in what AFFINITY, SCAN_TOOK and MAY_MOVE read. */
__noinline int parity_prepare(u32 i)
{
	struct parity_event *e = event_at(i);
	struct parity_answer *a = answer_at(i);
	struct wl_task *t = task_at(e->task);
	u32 mask = e->mask, word;

	switch (e->event.kind) {
	case WL_EVENT_SCAN_TOOK:
		a->answer.decision = last_decision;
		break;
	case WL_EVENT_MAY_MOVE:
		a->answer.moved.before = last_dispatch;
		break;
	case WL_EVENT_AFFINITY:
		wl_hide(mask);
		wl_for (word, 0, WL_MASK_WORDS)
			t->allowed[word & (WL_MASK_WORDS - 1)] =
				masks[mask & (PARITY_MASKS - 1)][word & (WL_MASK_WORDS - 1)];
		break;
	}
	return 0;
}

/* Applies faults, and keeps what the next event reads. */
__noinline int parity_finish(u32 i)
{
	struct parity_event *e = event_at(i);
	struct parity_answer *a = answer_at(i);
	struct wl_decision *d = &a->answer.decision;

	switch (e->event.kind) {
	case WL_EVENT_SELECT:
		if (parity_fault && (e->event.now_ns & 63) == 0) {
			if (parity_fault == FAULT_CPU)
				d->cpu ^= 1;
			if (parity_fault == FAULT_REASON)
				d->reason ^= 1;
			if (parity_fault == FAULT_READS)
				d->reads.at[WL_DIST_LLC]++;
		}
		last_decision = *d;
		break;
	case WL_EVENT_DISPATCH:
		last_dispatch = a->answer.dispatch;
		break;
	case WL_EVENT_MAY_MOVE:
		last_dispatch = a->answer.moved.after;
		break;
	case WL_EVENT_BUSY:
	case WL_EVENT_IDLE:
		if (parity_fault == FAULT_STATE)
			wl_memory.policy.cpu[cpu_at(e->event.cpu)].rotor++;
		break;
	case WL_EVENT_GROUP_SHARES:
		if (parity_fault == FAULT_GROUP) {
			struct wl_group_cpu *gc =
				wl_group_cpu_at(&wl_memory.policy, e->event.slot, 0);

			if (gc)
				gc->exact.part++;
		}
		break;
	}
	if (e->task != PARITY_NO_TASK)
		copy_head(&a->task, task_at(e->task));
	if (e->waker != PARITY_NO_TASK)
		copy_head(&a->waker, task_at(e->waker));
	return 0;
}

/* Tells the policy one event, and records its answer. */
__noinline int parity_apply(u32 i)
{
	struct parity_event *e = event_at(i);
	struct wl_task *t = e->task == PARITY_NO_TASK ? 0 : task_at(e->task);
	struct wl_task *waker = e->waker == PARITY_NO_TASK ? 0 : task_at(e->waker);

	return wl_apply(&wl_memory.policy, &e->event, t, waker, &answer_at(i)->answer);
}

SEC("syscall")
int parity_run(void *unused)
{
	u32 i, nr = nr_events;

	wl_for (i, 0, nr) {
		struct wl_event *e = &event_at(i)->event;

		if (e->kind == PARITY_IDLE_MASK) {
			wl_memory_set_idle(&wl_memory.policy, e->cpu, e->value != 0);
			continue;
		}
		parity_prepare(i);
		parity_apply(i);
		parity_finish(i);
	}
	return 0;
}

/* The state as after loading: topology and parameters are filled in, everything else is zero. */
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
