/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * notes.bpf.h - when logging: notes of everything that the policy reads in order to answer a
 * question.
 *
 * It is included before the policy, whose reads of state, atomic operations, claims and look-ups of
 * group records go through the macros below. A CPU's buffer holds the record of the question that
 * the CPU is asking, and takes notes while there is one. Questions are asked with interrupts off
 * and do not nest, so the buffer needs no lock. Events ask nothing, so their reads are not noted.
 *
 * Only logged.bpf.c includes this; the scheduler that does not log has none of it.
 */
#ifndef SCX_WAKELAB_NOTES_H
#define SCX_WAKELAB_NOTES_H

#include "host/log_record.h"

/*
 * Units of a record, without its head: room for 978 notes after a wake-up's answer and tasks. A
 * search reads two words per CPU. If notes do not fit, the record says so.
 */
#define LOG_UNITS 1024

struct log_buffer {
	struct wl_log_head head;
	struct wl_note unit[LOG_UNITS];
	u64 seq;
	u64 lost;
	u32 at; /* the unit for the next note; 0: no question is being asked */
	u32 cut;
} WL_ALIGN_LINE;

struct log_buffer log_buffers[WL_MAX_CPUS];
_Static_assert(WL_NOTE_READ == LOG_READ, "a read is another kind of note");

static __always_inline struct log_buffer *log_buffer(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	wl_hide(cpu);
	return &log_buffers[cpu & (WL_MAX_CPUS - 1)];
}

static __always_inline int log_put(u32 what, u32 kind, u64 value)
{
	struct log_buffer *b = log_buffer();
	u32 at = b->at;

	if (!at)
		return 0;
	if (at >= LOG_UNITS) {
		b->cut = 1;
		return 0;
	}
	b->at = at + 1;
	wl_hide(at);
	at &= LOG_UNITS - 1;
	b->unit[at].what = what;
	b->unit[at].kind = kind;
	b->unit[at].value = value;
	return 0;
}

/*
 * Separate functions: if they were inlined, the policy's functions would need more stack than there
 * is. None of them calls another, because calls go at most eight deep.
 */
__attribute__((noinline, weak)) int log_note(u32 what, u32 kind, u64 value)
{
	return log_put(what, kind, value);
}

#define LOG_DEFINE_READ(type)                                                                      \
	__attribute__((noinline, weak)) u64 log_read_##type(const volatile type *at WL_ARG)        \
	{                                                                                          \
		type value = *at;                                                                  \
                                                                                                   \
		log_put(log_place(at), WL_NOTE_READ, value);                                       \
		return value;                                                                      \
	}
LOG_DEFINE_READ(u8)
LOG_DEFINE_READ(u16)
LOG_DEFINE_READ(u32)
LOG_DEFINE_READ(u64)

__attribute__((noinline, weak)) u32 log_claim(u32 cpu)
{
	u32 claimed = scx_bpf_test_and_clear_cpu_idle(cpu) ? 1 : 0;

	log_put(cpu, WL_NOTE_CLAIM, claimed);
	return claimed;
}

#undef wl_claim_idle
#define wl_claim_idle(p, cpu) log_claim(cpu)

/* Notes whether a group has a record, and where, as a note's `value`. */
#define log_lookup(kind, index, found)                                                             \
	({                                                                                         \
		__typeof__(found) log_record = (found);                                            \
		log_note((index), (kind), log_record ? 1ULL << 32 | log_place(log_record) : 0);    \
		log_record;                                                                        \
	})
#undef wl_group_at
#define wl_group_at(p, slot)                                                                       \
	({                                                                                         \
		u32 log_slot = (slot);                                                             \
		log_lookup(WL_NOTE_GROUP, log_slot, wl_host_group((p), log_slot));                 \
	})
#undef wl_group_cpu_at
#define wl_group_cpu_at(p, slot, cpu)                                                              \
	({                                                                                         \
		u32 log_slot = (slot), log_cpu = (cpu);                                            \
		log_lookup(WL_NOTE_GROUP_CPU, log_slot *(p)->topo.nr_cpus + log_cpu,               \
			   wl_host_group_cpu((p), log_slot, log_cpu));                             \
	})

#endif /* SCX_WAKELAB_NOTES_H */
