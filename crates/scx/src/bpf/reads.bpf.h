/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reads.bpf.h - for the scheduler that logs: the macros by which the policy reads state, which
 * base.h leaves to the host. It must be included before the policy.
 */
#ifndef SCX_WAKELAB_READS_H
#define SCX_WAKELAB_READS_H

struct wl_policy;
extern struct wl_policy policy;

int log_note(u32 what, u32 kind, u64 value);

/* WL_NOTE_READ, which is declared later. */
#define LOG_READ 0

/*
 * A pointer as a note's `what`. The difference is hidden from clang, which would otherwise compute
 * only its lower half, by 32-bit arithmetic on pointers; the verifier refuses that.
 */
static __always_inline u32 log_place(const volatile void *ptr)
{
	u64 place = (u64)ptr - (u64)&policy;

	__asm__ volatile("" : "+r"(place));
	return place;
}

#define log_noted(ptr, v)                                                                          \
	({                                                                                         \
		__typeof__((v) + 0) log_v = (v);                                                   \
		log_note(log_place(ptr), LOG_READ, log_v);                                         \
		log_v;                                                                             \
	})
/*
 * Functions that read a value and note it. If the note were made by a call after the read, the
 * value would have to outlive the call, and the policy's functions would need more stack than there
 * is.
 */
u64 log_read_u8(const volatile u8 *at WL_ARG);
u64 log_read_u16(const volatile u16 *at WL_ARG);
u64 log_read_u32(const volatile u32 *at WL_ARG);
u64 log_read_u64(const volatile u64 *at WL_ARG);

#define log_read(x)                                                                                \
	(sizeof(x) == 8	  ? log_read_u64((const volatile u64 *)&(x))                               \
	 : sizeof(x) == 4 ? log_read_u32((const volatile u32 *)&(x))                               \
	 : sizeof(x) == 2 ? log_read_u16((const volatile u16 *)&(x))                               \
			  : log_read_u8((const volatile u8 *)&(x)))
#define wl_read_once(x) ((__typeof__((x) + 0))log_read(x))
#define wl_get(x)	wl_read_once(x)

#define wl_atomic_add(ptr, v)	   ((void)__sync_fetch_and_add((ptr), (v)))
#define wl_atomic_xchg(ptr, v)	   log_noted((ptr), __sync_lock_test_and_set((ptr), (v)))
#define wl_atomic_xchg_u32(ptr, v) log_noted((ptr), __sync_lock_test_and_set((ptr), (v)))
#define wl_atomic_cas(ptr, was, v) log_noted((ptr), __sync_val_compare_and_swap((ptr), (was), (v)))
#define wl_atomic_or(ptr, bits)	   log_noted((ptr), __sync_fetch_and_or((ptr), (bits)))
#define wl_atomic_and(ptr, bits)   log_noted((ptr), __sync_fetch_and_and((ptr), (bits)))
#define wl_publish(x, v)	   ((void)__sync_lock_test_and_set(&(x), (v)))

#endif /* SCX_WAKELAB_READS_H */
