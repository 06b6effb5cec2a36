/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * host/memory.h - a host that is only memory: the policy's state, and the idle mask in which
 * searches claim.
 *
 * The simulator's native build (crates/policy/native.c) and the parity program (BPF) include this
 * file before core.h, so that both give wl_claim_idle() the same meaning. A bit of the mask is set
 * while its CPU is idle and unclaimed; the caller that tells the policy about idle CPUs also keeps
 * the mask. The sched_ext build has no such mask, because the kernel has one.
 *
 * Natively the policy is the first member of an instance, and there can be any number of instances.
 * A BPF function may not leave the object that it was passed, so a BPF program defines a single
 * global, `wl_memory`.
 */
#ifndef WL_HOST_MEMORY_H
#define WL_HOST_MEMORY_H

#include "state.h"

struct wl_memory {
	struct wl_policy policy;
	u64 idle_mask[WL_MASK_WORDS];
};

#ifdef __bpf__
extern struct wl_memory wl_memory;
#define wl_memory_of(p) (&wl_memory)
#else
#define wl_memory_of(p) ((struct wl_memory *)(p))
_Static_assert(__builtin_offsetof(struct wl_memory, policy) == 0, "wl_memory_of() casts");
#endif

/* The word and the bit of a CPU in a mask. */
#define wl_memory_word(cpu) (((cpu) / 64) & (WL_MASK_WORDS - 1))
#define wl_memory_bit(cpu)  (1ULL << ((cpu) & 63))

WL_INLINE void wl_memory_set_idle(struct wl_policy *p, u32 cpu, u32 idle)
{
	u32 word = wl_memory_word(cpu);

	(void)p;
	wl_hide(word);
	if (idle)
		wl_atomic_or(&wl_memory_of(p)->idle_mask[word & (WL_MASK_WORDS - 1)],
			     wl_memory_bit(cpu));
	else
		wl_atomic_and(&wl_memory_of(p)->idle_mask[word & (WL_MASK_WORDS - 1)],
			      ~wl_memory_bit(cpu));
}

WL_INLINE u32 wl_memory_is_idle(struct wl_policy *p, u32 cpu)
{
	u32 word = wl_memory_word(cpu);

	(void)p;
	wl_hide(word);
	return (wl_memory_of(p)->idle_mask[word & (WL_MASK_WORDS - 1)] >> (cpu & 63)) & 1;
}

/* See base.h: test-and-clear. */
WL_INLINE u32 wl_claim_idle(struct wl_policy *p, u32 cpu)
{
	u32 word = wl_memory_word(cpu);
	u64 old;

	(void)p;
	wl_hide(word);
	old = wl_atomic_and(&wl_memory_of(p)->idle_mask[word & (WL_MASK_WORDS - 1)],
			    ~wl_memory_bit(cpu));
	return (old >> (cpu & 63)) & 1;
}

#endif /* WL_HOST_MEMORY_H */
