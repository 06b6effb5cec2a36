/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * log.bpf.h - when logging: passes a record of each question and each event to user space through a
 * ring buffer.
 *
 * A file that includes this calls the policy as before: its entry points are macros that also make
 * the record (host/log_record.h). A question's record is made in the CPU's buffer (notes.bpf.h):
 * opened with the tasks' present records, filled by the policy's reads, closed with the answer. An
 * event's record is written to the ring buffer directly. A record that finds no room there is lost;
 * each CPU counts its records, so that the reader sees which ones are missing.
 */
#ifndef SCX_WAKELAB_LOG_H
#define SCX_WAKELAB_LOG_H

/* The loader sets its size. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} log_ring SEC(".maps");

/* Makes a question return a wrong answer now and then, which proves that verifying can fail. */
const volatile u32 log_fault = 0;

/* Where the parts of a question's record begin, in units. */
#define LOG_TASK_AT  (WL_LOG_ANSWER / WL_LOG_UNIT)
#define LOG_WAKER_AT (LOG_TASK_AT + WL_LOG_UNITS(sizeof(struct wl_task)))
#define LOG_NOTES_AT (LOG_WAKER_AT + WL_LOG_UNITS(sizeof(struct wl_task)))

/* ------------------------------------------------------------------ questions */

static __always_inline void log_lost(struct log_buffer *b)
{
	__sync_fetch_and_add(&b->lost, 1);
}

/* A question is about to be asked about these tasks; either may be null. */
SEPARATE int log_open(u32 kind, u64 now_ns, const struct wl_task *task, const struct wl_task *waker)
{
	struct log_buffer *b = log_buffer();
	u32 at = LOG_TASK_AT;

	__builtin_memset(&b->head, 0, sizeof(b->head));
	b->head.event.kind = kind;
	b->head.event.now_ns = now_ns;
	b->cut = 0;
	if (task) {
		b->head.flags |= WL_LOG_HAS_TASK;
		b->head.task = task->id;
		b->head.task_at = log_place(task);
		__builtin_memcpy(&b->unit[LOG_TASK_AT], task, sizeof(*task));
		at = LOG_WAKER_AT;
	}
	if (task && waker) {
		b->head.flags |= WL_LOG_HAS_WAKER;
		b->head.waker_at = log_place(waker);
		__builtin_memcpy(&b->unit[LOG_WAKER_AT], waker, sizeof(*waker));
		at = LOG_NOTES_AT;
	}
	b->head.nr_notes = at; /* where the notes begin, until their number is known */
	b->at = at;
	return 0;
}

/* The answer completes the record. The arguments are fields of the event with these names. */
SEPARATE int log_close(u32 cpu, s32 prev_cpu, u32 flags, u64 value)
{
	struct log_buffer *b = log_buffer();
	u32 at = b->at, size;

	b->at = 0;
	b->head.seq = __sync_fetch_and_add(&b->seq, 1);
	b->head.event.this_cpu = bpf_get_smp_processor_id();
	b->head.event.cpu = cpu;
	b->head.event.prev_cpu = prev_cpu;
	b->head.event.flags = flags;
	b->head.event.value = value;
	b->head.nr_notes = at - b->head.nr_notes;
	if (b->cut)
		b->head.flags |= WL_LOG_CUT;
	size = sizeof(b->head) + at * WL_LOG_UNIT;
	b->head.size = size;
	if (size > sizeof(b->head) + sizeof(b->unit))
		return 0;
	if (bpf_ringbuf_output(&log_ring, b, size, BPF_RB_NO_WAKEUP))
		log_lost(b);
	return 0;
}

/* The part of this CPU's record that holds the answer. */
#define log_answer(type) ((type *)log_buffer()->unit)

static __always_inline int logged_select(const struct wl_select_in *in, struct wl_task *wakee,
					 struct wl_task *waker, struct wl_decision *out)
{
	log_open(WL_EVENT_SELECT, in->now_ns, wakee, waker);
	wl_select(&policy, in, wakee, waker, out);
	*log_answer(struct wl_decision) = *out;
	if (log_fault && !(wakee->id % log_fault))
		log_answer(struct wl_decision)->cpu++;
	log_close(0, in->prev_cpu, in->flags, 0);
	return 0;
}

static __always_inline int logged_scan_took(u32 cpu, const struct wl_decision *d, u64 elapsed_ns)
{
	wl_scan_took(&policy, cpu, d, elapsed_ns);
	log_open(WL_EVENT_SCAN_TOOK, bpf_ktime_get_ns(), 0, 0);
	*log_answer(struct wl_decision) = *d;
	log_close(cpu, 0, 0, elapsed_ns);
	return 0;
}

static __always_inline int logged_enqueue(struct wl_task *t, const struct wl_enqueue_in *in,
					  struct wl_enqueue_out *out)
{
	log_open(WL_EVENT_ENQUEUE, in->now_ns, t, 0);
	wl_enqueue(&policy, t, in, out);
	*log_answer(struct wl_enqueue_out) = *out;
	log_close(in->cpu, 0, in->why, 0);
	return 0;
}

static __always_inline int logged_dispatch(u32 cpu, u64 now_ns, struct wl_dispatch_out *out)
{
	log_open(WL_EVENT_DISPATCH, now_ns, 0, 0);
	wl_dispatch(&policy, cpu, now_ns, out);
	*log_answer(struct wl_dispatch_out) = *out;
	log_close(cpu, 0, 0, 0);
	return 0;
}

static __always_inline int logged_may_move(struct wl_task *t, const struct wl_move_in *in,
					   struct wl_dispatch_out *d, struct wl_move_out *out)
{
	log_open(WL_EVENT_MAY_MOVE, in->now_ns, t, 0);
	log_answer(struct wl_moved)->before = *d;
	wl_may_move(&policy, t, in, d, out);
	log_answer(struct wl_moved)->after = *d;
	log_answer(struct wl_moved)->out = *out;
	log_close(in->cpu, 0, 0, 0);
	return 0;
}

static __always_inline int logged_may_run(struct wl_task *t, u32 cpu, u64 now_ns,
					  struct wl_run_out *out)
{
	log_open(WL_EVENT_MAY_RUN, now_ns, t, 0);
	wl_may_run(&policy, t, cpu, now_ns, out);
	*log_answer(struct wl_run_out) = *out;
	log_close(cpu, 0, 0, 0);
	return 0;
}

static __always_inline int logged_overdue(struct wl_task *t, u32 cpu, u64 now_ns,
					  struct wl_run_out *out)
{
	log_open(WL_EVENT_OVERDUE, now_ns, t, 0);
	wl_overdue(&policy, t, cpu, now_ns, out);
	*log_answer(struct wl_run_out) = *out;
	log_close(cpu, 0, 0, 0);
	return 0;
}

static __always_inline int logged_tick(u32 cpu, struct wl_task *t, u64 now_ns,
				       struct wl_tick_out *out)
{
	log_open(WL_EVENT_TICK, now_ns, t, 0);
	wl_tick(&policy, cpu, t, now_ns, out);
	*log_answer(struct wl_tick_out) = *out;
	log_close(cpu, 0, 0, 0);
	return 0;
}

/* ------------------------------------------------------------------ events */

struct log_event {
	struct wl_log_head head;
	struct wl_task task;
};
_Static_assert(sizeof(struct log_event) % WL_LOG_UNIT == 0, "an event's record has a gap");

/* Two of an event's fields in one argument of log_event(). */
#define LOG_PAIR(low, high) ((u64)(u32)(high) << 32 | (u32)(low))

static __always_inline void log_event_head(struct wl_log_head *head, u32 kind,
					   const struct wl_task *t, u64 now_ns, u64 seq)
{
	__builtin_memset(head, 0, sizeof(*head));
	head->size = sizeof(*head);
	head->seq = seq;
	head->task = t ? t->id : 0;
	head->event.kind = kind;
	head->event.this_cpu = bpf_get_smp_processor_id();
	head->event.now_ns = now_ns;
}

/* The policy was told something. A BPF function takes only five arguments. */
SEPARATE int log_event(u32 kind, const struct wl_task *t, u64 now_ns, u64 cpu_and_flags,
		       u64 weight_and_slot)
{
	struct log_buffer *b = log_buffer();
	struct wl_log_head *head = bpf_ringbuf_reserve(&log_ring, sizeof(*head), 0);
	u64 seq = __sync_fetch_and_add(&b->seq, 1);

	if (!head) {
		log_lost(b);
		return 0;
	}
	log_event_head(head, kind, t, now_ns, seq);
	head->event.flags = cpu_and_flags >> 32;
	head->event.weight = weight_and_slot;
	head->event.slot = weight_and_slot >> 32;
	if (kind == WL_EVENT_TASK_INIT)
		head->event.value = head->task;
	if (kind == WL_EVENT_GROUP_INIT)
		head->event.parent = cpu_and_flags;
	else
		head->event.cpu = cpu_and_flags;
	bpf_ringbuf_submit(head, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Logs the CPUs on which a task may run. */
SEPARATE int log_affinity(const struct wl_task *t WL_ARG, u64 now_ns)
{
	struct log_buffer *b = log_buffer();
	struct log_event *event = bpf_ringbuf_reserve(&log_ring, sizeof(*event), 0);
	u64 seq = __sync_fetch_and_add(&b->seq, 1);

	if (!event) {
		log_lost(b);
		return 0;
	}
	log_event_head(&event->head, WL_EVENT_AFFINITY, t, now_ns, seq);
	event->head.flags = WL_LOG_HAS_TASK;
	event->head.size = sizeof(*event);
	event->task = *t;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

/* ------------------------------------------------------------------ the policy's entry points */

#define wl_select(p, in, wakee, waker, out) logged_select((in), (wakee), (waker), (out))
#define wl_scan_took(p, cpu, d, elapsed_ns) logged_scan_took((cpu), (d), (elapsed_ns))
#define wl_enqueue(p, t, in, out)	    logged_enqueue((t), (in), (out))
#define wl_dispatch(p, cpu, now_ns, out)    logged_dispatch((cpu), (now_ns), (out))
#define wl_may_move(p, t, in, d, out)	    logged_may_move((t), (in), (d), (out))
#define wl_may_run(p, t, cpu, now_ns, out)  logged_may_run((t), (cpu), (now_ns), (out))
#define wl_overdue(p, t, cpu, now_ns, out)  logged_overdue((t), (cpu), (now_ns), (out))
#define wl_tick(p, cpu, t, now_ns, out)	    logged_tick((cpu), (t), (now_ns), (out))

/* when_ns, the time of the event, is evaluated once. */
#define logged_event(kind, t, when_ns, cpu_and_flags, weight_and_slot, call)                       \
	({                                                                                         \
		u64 log_now = (when_ns);                                                           \
		log_event((kind), (t), log_now, (cpu_and_flags), (weight_and_slot));               \
		call;                                                                              \
	})
#define wl_timer(p, cpu, now_ns, out)                                                              \
	logged_event(WL_EVENT_TIMER, 0, now_ns, LOG_PAIR(cpu, 0), 0,                               \
		     wl_timer((p), (cpu), log_now, (out)))
#define wl_taken(p, cpu, now_ns, out)                                                              \
	logged_event(WL_EVENT_TAKEN, 0, now_ns, LOG_PAIR(cpu, 0), 0,                               \
		     wl_taken((p), (cpu), log_now, (out)))
#define wl_busy(p, cpu, now_ns)                                                                    \
	logged_event(WL_EVENT_BUSY, 0, now_ns, LOG_PAIR(cpu, 0), 0, wl_busy((p), (cpu), log_now))
#define wl_idle(p, cpu, now_ns)                                                                    \
	logged_event(WL_EVENT_IDLE, 0, now_ns, LOG_PAIR(cpu, 0), 0, wl_idle((p), (cpu), log_now))
#define wl_running(p, t, cpu, now_ns)                                                              \
	logged_event(WL_EVENT_RUNNING, (t), now_ns, LOG_PAIR(cpu, 0), 0,                           \
		     wl_running((p), (t), (cpu), log_now))
#define wl_stopping(p, t, cpu, now_ns, runnable)                                                   \
	logged_event(WL_EVENT_STOPPING, (t), now_ns, LOG_PAIR(cpu, runnable), 0,                   \
		     wl_stopping((p), (t), (cpu), log_now, (runnable)))
#define wl_yield(p, t, cpu, now_ns)                                                                \
	logged_event(WL_EVENT_YIELD, (t), now_ns, LOG_PAIR(cpu, 0), 0,                             \
		     wl_yield((p), (t), (cpu), log_now))
#define wl_quiescent(p, t, now_ns)                                                                 \
	logged_event(WL_EVENT_QUIESCENT, (t), now_ns, 0, 0, wl_quiescent((p), (t), log_now))
#define wl_task_weight(p, t, weight, now_ns)                                                       \
	logged_event(WL_EVENT_WEIGHT, (t), now_ns, 0, LOG_PAIR(weight, 0),                         \
		     wl_task_weight((p), (t), (weight), log_now))
#define wl_task_slice(p, t, slice_ns)                                                              \
	({                                                                                         \
		u32 log_of = (slice_ns);                                                           \
		logged_event(WL_EVENT_SLICE, (t), bpf_ktime_get_ns(), 0, LOG_PAIR(log_of, 0),      \
			     wl_task_slice((p), (t), log_of));                                     \
	})
#define wl_task_group(p, t, slot, now_ns)                                                          \
	({                                                                                         \
		u32 log_to = (slot);                                                               \
		logged_event(WL_EVENT_GROUP, (t), now_ns, 0, LOG_PAIR(0, log_to),                  \
			     wl_task_group((p), (t), log_to, log_now));                            \
	})
#define wl_task_exit(p, t, now_ns)                                                                 \
	logged_event(WL_EVENT_EXIT, (t), now_ns, 0, 0, wl_task_exit((p), (t), log_now))
#define wl_task_init(p, t, id, weight, flags)                                                      \
	({                                                                                         \
		wl_task_init((p), (t), (id), (weight), (flags));                                   \
		log_event(WL_EVENT_TASK_INIT, (t), bpf_ktime_get_ns(), LOG_PAIR(0, flags),         \
			  LOG_PAIR(weight, 0));                                                    \
	})
#define wl_task_affinity(p, t)                                                                     \
	({                                                                                         \
		wl_task_affinity((p), (t));                                                        \
		log_affinity((t), bpf_ktime_get_ns());                                             \
	})
#define wl_group_init(p, slot, parent, shares)                                                     \
	({                                                                                         \
		u32 log_of = (shares);                                                             \
		log_event(WL_EVENT_GROUP_INIT, 0, bpf_ktime_get_ns(), LOG_PAIR(parent, 0),         \
			  LOG_PAIR(log_of, slot));                                                 \
		wl_group_init((p), (slot), (parent), log_of);                                      \
	})
#define wl_group_exit(p, slot)                                                                     \
	logged_event(WL_EVENT_GROUP_EXIT, 0, bpf_ktime_get_ns(), 0, LOG_PAIR(0, slot),             \
		     wl_group_exit((p), (slot)))
#define wl_group_shares(p, slot, shares)                                                           \
	({                                                                                         \
		u32 log_of = (shares);                                                             \
		logged_event(WL_EVENT_GROUP_SHARES, 0, bpf_ktime_get_ns(), 0,                      \
			     LOG_PAIR(log_of, slot), wl_group_shares((p), (slot), log_of));        \
	})

#endif /* SCX_WAKELAB_LOG_H */
