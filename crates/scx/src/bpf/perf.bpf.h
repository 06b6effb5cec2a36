/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * perf.bpf.h - how fast CPUs should run, for the governor schedutil: as fast as they are utilized.
 *
 * Without a word from the scheduler, sched_ext asks for the highest frequency always. So each CPU's
 * utilization is followed, as in policy/util.h: it approaches the CPU's capacity, times its present
 * part of the highest frequency, while the CPU is busy, and 0 while it idles. The governor is told
 * at ticks and when the CPU turns busy; it adds a quarter of room itself.
 *
 * Example: a CPU that runs at half of its frequency turns busy. 32 ms later its utilization is 256,
 * and the governor chooses 31 %, but no less than it had; a tick later it is more. After 64 ms at
 * full frequency it is 768 and more, and the governor chooses the highest.
 *
 * Cost: a multiplication or two when a CPU turns busy or idle; nothing without that governor. It
 * fails a heavy task that comes to a CPU that was idle: what is followed is the CPU, and not the
 * task, so the CPU speeds up some ticks late.
 */
#ifndef SCX_WAKELAB_PERF_H
#define SCX_WAKELAB_PERF_H

#include "state.bpf.h"

/* Set by the loader: the governor heeds what it is told. */
const volatile u32 tells_perf;

/* Brings the utilization of cpu up to now_ns; `busy` is what it was since the last time. */
static __always_inline void follow_util(s32 cpu, struct scratch *sc, u64 now_ns, bool busy)
{
	u32 full = 0;

	if (!tells_perf)
		return;
	if (busy)
		full = (u64)wl_entry(policy.topo.capacity, cpu) * scx_bpf_cpuperf_cur(cpu) /
		       SCX_CPUPERF_ONE;
	if (now_ns > sc->util_ns)
		sc->util = wl_util_step(sc->util, now_ns - sc->util_ns, full);
	sc->util_ns = now_ns;
}

/* As follow_util(), and tells the governor. */
static __always_inline void tell_perf(s32 cpu, struct scratch *sc, u64 now_ns, bool busy)
{
	u32 perf;

	if (!tells_perf)
		return;
	follow_util(cpu, sc, now_ns, busy);
	perf = sc->util >> WL_UTIL_SHIFT;
	if (perf > SCX_CPUPERF_ONE)
		perf = SCX_CPUPERF_ONE;
	scx_bpf_cpuperf_set(cpu, perf);
	sc->told++;
	if (perf > sc->most_told)
		sc->most_told = perf;
}

#endif /* SCX_WAKELAB_PERF_H */
