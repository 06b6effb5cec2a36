/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * event.h - events and questions as data: one struct for every call, and wl_apply(), which makes
 * the call.
 *
 * It serves hosts that record calls, replay them or compare builds: the log of scx_wakelab and its
 * verification (crates/log), and parity. A host that runs tasks calls the entry points of policy.h
 * directly, which is cheaper.
 *
 * struct wl_event holds the arguments that are numbers. Tasks are passed separately, because their
 * records belong to the host; so is the answer, because an event is recorded before it is answered.
 *
 * The comment of a kind says in a fixed form what it takes and what answers it; Rust's tables are
 * generated from it: `takes FIELD, ..; answers STRUCT: text`. A field is one of struct wl_event,
 * `task`, or `maybe task` if there may be none. All kinds but NONE also take this_cpu and now_ns.
 */
#ifndef WL_EVENT_H
#define WL_EVENT_H

#include "policy.h"

enum wl_event_kind {
	/* Nothing: the end of a log. */
	WL_EVENT_NONE,

	/* takes task, prev_cpu, flags; answers wl_decision: Where should a task run? */
	WL_EVENT_SELECT,
	/* takes task, cpu, flags; answers wl_enqueue_out: A task joins a queue. */
	WL_EVENT_ENQUEUE,
	/* takes cpu; answers wl_dispatch_out: A CPU needs something to run. */
	WL_EVENT_DISPATCH,
	/* takes task, cpu; answers wl_moved: May a task be pulled? */
	WL_EVENT_MAY_MOVE,
	/* takes task, cpu; answers wl_run_out: Should a queued task run now? */
	WL_EVENT_MAY_RUN,
	/* takes task, cpu; answers wl_run_out: Has a queued task waited for too long? */
	WL_EVENT_OVERDUE,
	/* takes maybe task, cpu; answers wl_tick_out: A tick on a CPU. */
	WL_EVENT_TICK,

	/* takes cpu; answers wl_timer_out: The host's periodic timer fired. */
	WL_EVENT_TIMER,
	/* takes cpu: A CPU left its idle task. */
	WL_EVENT_BUSY,
	/* takes cpu: A CPU went to its idle task. */
	WL_EVENT_IDLE,
	/* takes task, cpu: A task was switched in. */
	WL_EVENT_RUNNING,
	/* takes task, cpu, flags: A task is switched out. */
	WL_EVENT_STOPPING,
	/* takes task: A task is no longer runnable, or leaves its queue. */
	WL_EVENT_QUIESCENT,
	/* takes task, value, weight, flags: A task's record begins. */
	WL_EVENT_TASK_INIT,
	/* takes task: A task's affinity changed; its record has the CPUs. */
	WL_EVENT_AFFINITY,
	/* takes task, weight: A task's weight changed. */
	WL_EVENT_WEIGHT,
	/* takes task, slot: A task moved to another group. */
	WL_EVENT_GROUP,
	/* takes task: A task is gone. */
	WL_EVENT_EXIT,
	/* takes slot, parent, weight: A group begins. */
	WL_EVENT_GROUP_INIT,
	/* takes slot: A group is gone. */
	WL_EVENT_GROUP_EXIT,
	/* takes slot, weight: A group's shares changed. */
	WL_EVENT_GROUP_SHARES,
	/* takes cpu, value; answers wl_decision: How long the search for this decision took. */
	WL_EVENT_SCAN_TOOK,
	/* takes cpu; answers wl_timer_out: A task of a higher class has a CPU where others wait. */
	WL_EVENT_TAKEN,
	/* takes task; answers wl_sleep_out: A task waits for something. */
	WL_EVENT_SLEEP,
	/* takes task, weight: A task asks for a slice. */
	WL_EVENT_SLICE,
	/* takes task, cpu: A task gives up its CPU. */
	WL_EVENT_YIELD,
	WL_NR_EVENT,
};

/* Questions, whose answers are decisions, are the kinds from SELECT to this one. */
#define WL_EVENT_LAST_QUESTION WL_EVENT_TICK

/* The arguments of a call. Those that its kind does not take are 0. */
struct wl_event {
	u32 kind;     /* enum wl_event_kind */
	u32 this_cpu; /* where it happens */
	u64 now_ns;
	u64 value; /* TASK_INIT: the task's id; SCAN_TOOK: ns */
	u32 cpu;   /* whose queue it is about, or the CPU that pulls, ticks or switches */
	s32 prev_cpu;
	u32 flags; /* WL_WAKE_*; ENQUEUE: enum wl_enqueue_why; STOPPING: runnable; TASK_INIT: WL_TASK_* */
	u32 weight; /* a task's, or a group's shares; SLICE: its slice in ns */
	u32 slot;   /* a group's slot */
	u32 parent; /* its parent's slot */
};

/* A pull's budget before and after wl_may_move(), and the answer. */
struct wl_moved {
	struct wl_dispatch_out before;
	struct wl_dispatch_out after;
	struct wl_move_out out;
};

/* The answer to an event, by its kind. */
union wl_answer {
	struct wl_decision decision;
	struct wl_enqueue_out enqueue;
	struct wl_dispatch_out dispatch;
	struct wl_moved moved;
	struct wl_run_out run;
	struct wl_tick_out tick;
	struct wl_timer_out timer;
	struct wl_sleep_out sleep;
};

/* Makes the call of a kind that needs no task. */
WL_INLINE int wl_apply_to_cpu(struct wl_policy *p, const struct wl_event *e, struct wl_task *t,
			      union wl_answer *answer)
{
	switch (e->kind) {
	case WL_EVENT_DISPATCH:
		return wl_dispatch(p, e->cpu, e->now_ns, &answer->dispatch);
	case WL_EVENT_TICK:
		return wl_tick(p, e->cpu, t, e->now_ns, &answer->tick);
	case WL_EVENT_TIMER:
		return wl_timer(p, e->cpu, e->now_ns, &answer->timer);
	case WL_EVENT_TAKEN:
		return wl_taken(p, e->cpu, e->now_ns, &answer->timer);
	case WL_EVENT_BUSY:
		return wl_busy(p, e->cpu, e->now_ns);
	case WL_EVENT_IDLE:
		return wl_idle(p, e->cpu, e->now_ns);
	case WL_EVENT_GROUP_INIT:
		return wl_group_init(p, e->slot, e->parent, e->weight);
	case WL_EVENT_GROUP_EXIT:
		return wl_group_exit(p, e->slot);
	case WL_EVENT_GROUP_SHARES:
		return wl_group_shares(p, e->slot, e->weight);
	case WL_EVENT_SCAN_TOOK:
		return wl_scan_took(p, e->cpu, &answer->decision, e->value);
	default:
		return 0;
	}
}

/* Makes the call of a kind that tells of a change to a task. */
WL_INLINE int wl_apply_to_task(struct wl_policy *p, const struct wl_event *e, struct wl_task *t)
{
	switch (e->kind) {
	case WL_EVENT_RUNNING:
		return wl_running(p, t, e->cpu, e->now_ns);
	case WL_EVENT_STOPPING:
		return wl_stopping(p, t, e->cpu, e->now_ns, e->flags);
	case WL_EVENT_YIELD:
		return wl_yield(p, t, e->cpu, e->now_ns);
	case WL_EVENT_QUIESCENT:
		return wl_quiescent(p, t, e->now_ns);
	case WL_EVENT_TASK_INIT:
		return wl_task_init(p, t, e->value, e->weight, e->flags);
	case WL_EVENT_AFFINITY:
		return wl_task_affinity(p, t);
	case WL_EVENT_WEIGHT:
		return wl_task_weight(p, t, e->weight, e->now_ns);
	case WL_EVENT_SLICE:
		return wl_task_slice(p, t, e->weight);
	case WL_EVENT_GROUP:
		return wl_task_group(p, t, e->slot, e->now_ns);
	case WL_EVENT_EXIT:
		return wl_task_exit(p, t, e->now_ns);
	default:
		return 0;
	}
}

/*
 * Makes the call that `e` describes, for these tasks. A kind that takes a task does nothing without
 * one. The answer must have room for what the kind returns. SCAN_TOOK reads the decision in it, and
 * MAY_MOVE reads `before`.
 */
WL_INLINE int wl_apply(struct wl_policy *p, const struct wl_event *e, struct wl_task *t,
		       struct wl_task *waker, union wl_answer *answer)
{
	/* One at a time, because BPF's stack is small. */
	union {
		struct wl_select_in select;
		struct wl_enqueue_in enqueue;
		struct wl_move_in move;
	} in;

	wl_apply_to_cpu(p, e, t, answer);
	if (!t)
		return 0;
	switch (e->kind) {
	case WL_EVENT_SELECT:
		in.select = (struct wl_select_in){.this_cpu = e->this_cpu,
						  .prev_cpu = e->prev_cpu,
						  .flags = e->flags,
						  .now_ns = e->now_ns};
		return wl_select(p, &in.select, t, waker, &answer->decision);
	case WL_EVENT_ENQUEUE:
		in.enqueue = (struct wl_enqueue_in){.cpu = e->cpu,
						    .why = e->flags,
						    .this_cpu = e->this_cpu,
						    .now_ns = e->now_ns};
		return wl_enqueue(p, t, &in.enqueue, &answer->enqueue);
	case WL_EVENT_MAY_MOVE:
		in.move = (struct wl_move_in){.cpu = e->cpu, .now_ns = e->now_ns};
		answer->moved.after = answer->moved.before;
		return wl_may_move(p, t, &in.move, &answer->moved.after, &answer->moved.out);
	case WL_EVENT_MAY_RUN:
		return wl_may_run(p, t, e->cpu, e->now_ns, &answer->run);
	case WL_EVENT_OVERDUE:
		return wl_overdue(p, t, e->cpu, e->now_ns, &answer->run);
	case WL_EVENT_SLEEP:
		return wl_sleep(p, t, e->now_ns, &answer->sleep);
	default:
		return wl_apply_to_task(p, e, t);
	}
}

#endif /* WL_EVENT_H */
