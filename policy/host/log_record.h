/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * host/log_record.h - records of a log: what a live scheduler was told and asked, and what it read
 * in order to answer.
 *
 * The BPF side of scx_wakelab writes them when it logs; crates/log reads and writes them.
 * docs/guide/log.md describes the file. A record is a head with the event, and then the parts that
 * its kind and flags say, each padded to WL_LOG_UNIT bytes:
 *	the answer	of a question, and the decision of SCAN_TOOK; WL_LOG_ANSWER bytes
 *	the task	its struct wl_task before the call, with WL_LOG_HAS_TASK
 *	the waker	the same for the waker, with WL_LOG_HAS_WAKER
 *	the notes	head.nr_notes of them: what the policy read, in order
 */
#ifndef WL_LOG_RECORD_H
#define WL_LOG_RECORD_H

#include "event.h"
#include "state.h"

#define WL_LOG_UNIT   16
#define WL_LOG_ANSWER 192 /* room for every answer */

#define WL_LOG_CUT	 1u /* there were more notes than the record has room for */
#define WL_LOG_HAS_TASK	 2u
#define WL_LOG_HAS_WAKER 4u

/* The beginning of a record. */
struct wl_log_head {
	u32 size;     /* bytes of the record, with this head */
	u16 flags;    /* WL_LOG_* */
	u16 nr_notes; /* notes that are part of it */
	u64 seq;      /* counts the CPU's records, including lost ones */
	u64 task;     /* the task's id, if the event has one */
	u32 task_at;  /* address of the task's record, as a note's `what` */
	u32 waker_at; /* address of the waker's record */
	struct wl_event
		event; /* NONE at the end of a log; value is then the number of lost records */
};

_Static_assert(sizeof(union wl_answer) <= WL_LOG_ANSWER, "an answer is too long");

/* What a note says was read. */
enum wl_note_kind {
	WL_NOTE_READ,	   /* what: the address less that of struct wl_policy, modulo 2^32 */
	WL_NOTE_GROUP,	   /* what: a slot; value: 0, or 2^32 + its record's address as a `what` */
	WL_NOTE_GROUP_CPU, /* what: slot * CPUs + CPU; value: as for GROUP */
	WL_NOTE_CLAIM,	   /* what: a CPU; value: whether it was claimed */
};

/* A value that the policy read. */
struct wl_note {
	u32 what;  /* its meaning depends on the kind */
	u32 kind;  /* enum wl_note_kind */
	u64 value; /* what was there */
};
_Static_assert(sizeof(struct wl_note) == WL_LOG_UNIT, "notes need no padding");
_Static_assert(sizeof(struct wl_log_head) % WL_LOG_UNIT == 0, "nor does the head");

#define WL_LOG_UNITS(bytes) (((bytes) + WL_LOG_UNIT - 1) / WL_LOG_UNIT)

#endif /* WL_LOG_RECORD_H */
