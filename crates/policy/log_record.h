/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * log_record.h - records of a log: what a scheduler that runs was told and asked, and what it read
 * to answer.
 *
 * Written by the BPF side of scx_wakelab when it logs, and by logged.c; read by crates/log.
 * docs/guide/log.md describes the file. A record is a head, then the parts that its kind and flags
 * say, each padded to WL_LOG_UNIT bytes:
 *	the answer	of a question, and of what carries one: see enum wl_log_kind; WL_LOG_ANSWER bytes
 *	the task	its struct wl_task before the call, with WL_LOG_HAS_TASK
 *	the waker	likewise, with WL_LOG_HAS_WAKER
 *	the notes	head.nr_notes of them: what the policy read, in the order in which it did
 */
#ifndef WL_LOG_RECORD_H
#define WL_LOG_RECORD_H

#include "state.h"

#define WL_LOG_UNIT   16
#define WL_LOG_ANSWER 192 /* the longest */

enum wl_log_kind {
	WL_LOG_END, /* the last: args[0] records were lost, by all CPUs */
	/* Questions, with their answers. */
	WL_LOG_SELECT,	 /* args: prev_cpu, flags, ns that it took; struct wl_decision */
	WL_LOG_ENQUEUE,	 /* args: cpu, why; struct wl_enqueue_out */
	WL_LOG_DISPATCH, /* args: cpu; struct wl_dispatch_out */
	WL_LOG_MAY_MOVE, /* args: cpu; struct wl_log_move */
	WL_LOG_MAY_RUN,	 /* args: cpu; struct wl_run_out */
	WL_LOG_TICK,	 /* args: cpu; struct wl_tick_out */
	/* Events. */
	WL_LOG_TIMER,	 /* args: cpu */
	WL_LOG_BUSY,	 /* args: cpu */
	WL_LOG_IDLE,	 /* args: cpu */
	WL_LOG_RUNNING,	 /* args: cpu */
	WL_LOG_STOPPING, /* args: cpu, runnable */
	WL_LOG_QUIESCENT,
	WL_LOG_TASK_INIT, /* args: weight, flags */
	WL_LOG_AFFINITY,  /* has the task, with the new mask */
	WL_LOG_WEIGHT,	  /* args: weight */
	WL_LOG_GROUP,	  /* the task goes to another; args: slot */
	WL_LOG_EXIT,
	WL_LOG_GROUP_INIT,   /* args: slot, shares, parent */
	WL_LOG_GROUP_EXIT,   /* args: slot */
	WL_LOG_GROUP_SHARES, /* args: slot, shares */
	WL_LOG_SCAN_TOOK,    /* args: cpu, ns; struct wl_decision */
	WL_LOG_TAKEN,	     /* args: cpu */
	WL_NR_LOG_KIND,
};

#define WL_LOG_CUT	 1u /* there were more notes than it has room for */
#define WL_LOG_HAS_TASK	 2u
#define WL_LOG_HAS_WAKER 4u

struct wl_log_head {
	u32 size;     /* of the record in bytes, this head included */
	u16 kind;     /* enum wl_log_kind */
	u16 flags;    /* WL_LOG_* */
	u32 cpu;      /* where it happened */
	u32 nr_notes; /* that are here */
	u64 seq;      /* counts the CPU's records, lost ones too */
	u64 now_ns;   /* as the policy was told */
	u64 task;     /* its id, if the call has one */
	u32 task_at;  /* where the task's record was, as a note's `what` */
	u32 waker_at;
	u64 args[4];
};

/* What of a pull's state wl_may_move() changes: before and after, and the answer. */
struct wl_log_move {
	struct wl_dispatch_out before;
	struct wl_dispatch_out after;
	struct wl_move_out out;
};

_Static_assert(sizeof(struct wl_log_move) <= WL_LOG_ANSWER, "an answer is too long");

enum wl_note_kind {
	WL_NOTE_READ,	   /* what: the address less that of struct wl_policy, modulo 2^32 */
	WL_NOTE_GROUP,	   /* what: a slot; value: 0, or 2^32 + where its record is, as a `what` */
	WL_NOTE_GROUP_CPU, /* what: slot * CPUs + CPU; value: likewise */
	WL_NOTE_CLAIM,	   /* what: a CPU; value: whether it was claimed */
};

struct wl_note {
	u32 what;
	u32 kind; /* enum wl_note_kind */
	u64 value;
};
_Static_assert(sizeof(struct wl_note) == WL_LOG_UNIT, "notes need no padding");
_Static_assert(sizeof(struct wl_log_head) % WL_LOG_UNIT == 0, "nor does the head");

#define WL_LOG_UNITS(bytes) (((bytes) + WL_LOG_UNIT - 1) / WL_LOG_UNIT)

/* Bytes of a kind's answer. */
WL_INLINE u32 wl_log_answer_bytes(u32 kind)
{
	switch (kind) {
	case WL_LOG_SELECT:
	case WL_LOG_SCAN_TOOK:
		return sizeof(struct wl_decision);
	case WL_LOG_ENQUEUE:
		return sizeof(struct wl_enqueue_out);
	case WL_LOG_DISPATCH:
		return sizeof(struct wl_dispatch_out);
	case WL_LOG_MAY_MOVE:
		return sizeof(struct wl_log_move);
	case WL_LOG_MAY_RUN:
		return sizeof(struct wl_run_out);
	case WL_LOG_TICK:
		return sizeof(struct wl_tick_out);
	default:
		return 0;
	}
}

#endif /* WL_LOG_RECORD_H */
