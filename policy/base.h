/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base.h - integers, arithmetic, loops and atomics, the same for a native build and for BPF.
 *
 * The policy is freestanding: no libc, no kernel headers. It is compiled by gcc or clang into a
 * library that the simulator links, and by clang for the BPF target into the scheduler. What
 * differs between the two builds is here and nowhere else.
 *
 * A host defines, before including core.h:
 *	WL_MAX_CPUS		a power of two: 4096 natively, 1024 for BPF (the defaults below)
 *	wl_claim_idle(p, cpu)	test-and-clear of the host's idle mask: 1 if the CPU was idle and
 *		unclaimed, else 0
 * For BPF it first includes vmlinux.h or its own integer types (WL_HAVE_TYPES), then bpf_helpers.h,
 * and defines how functions are linked:
 *	#define WL_FN __attribute__((noinline, weak))
 *		every WL_FN function is global, and the verifier checks it once. It is weak so that
 *		clang cannot look inside when it compiles a call: for an argument that the function
 *		does not use, clang would pass whatever is in the register, and the verifier, which
 *		goes by the declaration, would reject the call
 *	#define WL_FN_ONCE, WL_FN_REST, WL_FN_OWN	what such a host may inline: policy.h
 *	#define WL_HAS_STACK 1	its programs have one policy, which leaves some of the stack free
 *	#define WL_ARG __arg_nonnull	a pointer argument that is never null (a declaration tag)
 * If all searches were inlined into one program, it would be too complex for the verifier.
 *
 * What BPF demands of the code below: loops are wl_for or wl_for_few; every array index is hidden
 * and masked where it is used (access.h does both); functions take five arguments at most, and keep
 * little on the stack (512 bytes per call chain).
 */
#ifndef WL_BASE_H
#define WL_BASE_H

#ifndef WL_HAVE_TYPES
typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;
typedef __INT8_TYPE__ s8;
typedef __INT16_TYPE__ s16;
typedef __INT32_TYPE__ s32;
typedef __INT64_TYPE__ s64;
#endif

#ifdef __bpf__
#ifndef WL_MAX_CPUS
#define WL_MAX_CPUS 1024
#endif
#else
#ifndef WL_MAX_CPUS
#define WL_MAX_CPUS 4096
#endif
#endif
_Static_assert((WL_MAX_CPUS & (WL_MAX_CPUS - 1)) == 0, "WL_MAX_CPUS must be a power of two");

#define WL_MASK_WORDS (WL_MAX_CPUS / 64)
#define WL_INLINE     static inline __attribute__((always_inline, unused))
#define WL_CACHE_LINE 64
#define WL_ALIGN_LINE __attribute__((aligned(WL_CACHE_LINE)))

/* Whether a host's stack has room for what is faster, but needs more of it. */
#ifndef WL_HAS_STACK
#ifdef __bpf__
#define WL_HAS_STACK 0
#else
#define WL_HAS_STACK 1
#endif
#endif

/*
 * wl_hide(): where clang can prove the bound, it removes the mask in `x & (MAX - 1)`; the verifier
 * cannot prove it, and rejects the access. An empty asm that claims to change x keeps the mask next
 * to the access. Where there is stack to spare, what was computed from a number that was hidden
 * before is kept, and not computed again.
 */
#if defined(__bpf__) && WL_HAS_STACK
#define wl_hide(x) __asm__("" : "+r"(x))
#elif defined(__bpf__)
#define wl_hide(x) __asm__ volatile("" : "+r"(x))
#else
#define wl_hide(x) ((void)0)
#endif

/*
 * wl_for(i, lo, hi): i from lo up to but not including hi. BPF uses the open-coded number iterator,
 * so that the verifier checks the body once. It evaluates lo and hi again at each turn, so neither
 * may change. `break` and `continue` work in both builds; `return` from inside does not, because it
 * would leak the iterator.
 */
#ifdef __bpf__
#ifndef bpf_for
#error "a BPF host includes bpf_helpers.h (bpf_for) before the policy"
#endif
#define wl_for(i, lo, hi) bpf_for((i), (lo), (hi))
#else
#define wl_for(i, lo, hi) for ((i) = (lo); (i) < (hi); (i)++)
#endif
/*
 * wl_for_few(i, hi, most): i from 0 up to but not including hi, for at most `most` turns, a
 * constant of 64 or less. It is the same in both builds: the verifier follows each turn, and a turn
 * needs no call, unlike the iterator's.
 */
#define wl_for_few(i, hi, most) for ((i) = 0; (i) < (most) && (i) < (hi); (i)++)

/*
 * Atomic add, exchange, and compare-and-exchange; the last two return the previous value. They work
 * on 64 bits, as wl_pair: two neighbouring u32 that must change together. Relaxed order is enough,
 * because counters order nothing else. Natively they are plain: one thread at a time drives an
 * instance (crates/policy takes it by &mut), so there are no other writers, and a locked
 * instruction costs more than the rest of an event.
 */
#ifdef WL_LOGS
/* The host defines these, like everything that returns what memory held: see below. */
#elif defined(__bpf__)
#define wl_atomic_add(ptr, v)	   ((void)__sync_fetch_and_add((ptr), (v)))
#define wl_atomic_xchg(ptr, v)	   __sync_lock_test_and_set((ptr), (v))
#define wl_atomic_xchg_u32(ptr, v) __sync_lock_test_and_set((ptr), (v))
#define wl_atomic_cas(ptr, was, v) __sync_val_compare_and_swap((ptr), (was), (v))
#else
#define wl_atomic_add(ptr, v)	   ((void)(*(ptr) += (v)))
#define wl_atomic_xchg(ptr, v)	   wl_plain_xchg((ptr), (v))
#define wl_atomic_xchg_u32(ptr, v) wl_plain_xchg_u32((ptr), (v))
#define wl_atomic_cas(ptr, was, v) wl_plain_cas((ptr), (was), (v))
#endif
/*
 * Set or clear bits of a 64-bit word that other CPUs change too; both return the previous value.
 * wl_publish() stores a value, and no later read is done before that. All three are full barriers.
 */
#ifdef WL_LOGS
#elif defined(__bpf__)
#define wl_atomic_or(ptr, bits)	 __sync_fetch_and_or((ptr), (bits))
#define wl_atomic_and(ptr, bits) __sync_fetch_and_and((ptr), (bits))
#define wl_publish(x, v)	 ((void)wl_atomic_xchg(&(x), (v)))
#else
#define wl_atomic_or(ptr, bits)	 wl_plain_xchg((ptr), *(ptr) | (bits))
#define wl_atomic_and(ptr, bits) wl_plain_xchg((ptr), *(ptr) & (bits))
#define wl_publish(x, v)	 wl_write_once(x, v)
#endif
#define wl_write_once(x, v) (*(volatile __typeof__(x) *)&(x) = (v))
typedef u64 __attribute__((may_alias)) wl_pair;

/*
 * Reads of the policy's and the groups' state, on which decisions depend: wl_read_once() where
 * other CPUs write at the same time, wl_get() elsewhere. A host that logs what decisions read
 * (WL_LOGS) defines both, and the atomic operations above. Topology, parameters, what never changes
 * after wl_init(), and a task's own record need neither, because a log has them already.
 */
#ifndef WL_LOGS
#define wl_read_once(x) (*(volatile __typeof__(x) *)&(x))
#define wl_get(x)	(x)
#endif

#ifndef __bpf__
WL_INLINE u64 wl_plain_xchg(wl_pair *ptr, u64 v)
{
	u64 old = *ptr;

	*ptr = v;
	return old;
}

WL_INLINE u32 wl_plain_xchg_u32(u32 *ptr, u32 v)
{
	u32 old = *ptr;

	*ptr = v;
	return old;
}

WL_INLINE u64 wl_plain_cas(wl_pair *ptr, u64 was, u64 v)
{
	u64 old = *ptr;

	if (old == was)
		*ptr = v;
	return old;
}
#endif

/* Division by zero gives 0 in BPF and traps natively. Here it gives 0 everywhere. */
WL_INLINE u64 wl_div(u64 a, u64 b)
{
	return b ? a / b : 0;
}

/* Wraps an index into a ring of `span` entries; index is below twice span. */
WL_INLINE u32 wl_wrap(u32 index, u32 span)
{
	return index < span ? index : index - span;
}

/* Number of bits set. It needs neither libgcc nor a BPF instruction. */
WL_INLINE u32 wl_popcount(u64 x)
{
	x -= (x >> 1) & 0x5555555555555555ULL;
	x = (x & 0x3333333333333333ULL) + ((x >> 2) & 0x3333333333333333ULL);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return (x * 0x0101010101010101ULL) >> 56;
}

/* The number of the lowest bit set, for x != 0. */
WL_INLINE u32 wl_lowest_bit(u64 x)
{
	return wl_popcount((x & -x) - 1);
}

/*
 * Returns the first set bit of words[] from bit `from` up to but not including `end`, or `end` if
 * there is none. nr_words, the length of the array, is a power of two.
 */
WL_INLINE u32 wl_next_bit(const u64 *words, u32 nr_words, u32 from, u32 end)
{
	u32 nr = (end + 63) / 64, found = end, i, index;
	u64 bits;

	wl_for (i, from / 64, nr) {
		index = i;
		wl_hide(index);
		bits = wl_read_once(words[index & (nr_words - 1)]);
		if (i == from / 64)
			bits &= ~0ULL << (from & 63);
		if (!bits)
			continue;
		found = i * 64 + wl_lowest_bit(bits);
		break;
	}
	return found < end ? found : end;
}

/*
 * Exponential average: moves old by an eighth of the way to the sample. Unsigned, because BPF v3
 * has no signed division.
 */
WL_INLINE u64 wl_average(u64 old, u64 sample)
{
	return sample >= old ? old + (sample - old) / 8 : old - (old - sample) / 8;
}

/*
 * a * b / 2^shift without a 128-bit product, for shift in 0..32 and results below 2^64; higher bits
 * are lost.
 */
WL_INLINE u64 wl_mul_shift(u64 a, u32 b, u32 shift)
{
	u64 low = (a & 0xffffffffULL) * b;
	u64 high = (a >> 32) * b;

	return (low >> shift) + (high << (32 - shift));
}

#endif /* WL_BASE_H */
