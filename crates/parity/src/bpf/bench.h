/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bench.h - part of parity.bpf.c: nanoseconds per search. */

/*
 * The waking CPU is also prev, and it is busy: wake-affine has nothing to choose, and the idle
 * search starts at a CPU that is not idle. Waking CPUs rotate. A claimed CPU is given back at once.
 * BENCH_OVERHEAD does everything except the search, which gives the time to subtract; BENCH_COUNT
 * searches and counts reads instead of being timed. BENCH_ALONE is the idle search without the rest
 * of wl_select(): a look at target, and what follows if that is busy.
 */
#define BENCH_OVERHEAD 0
#define BENCH_SEARCH   1
#define BENCH_COUNT    2
#define BENCH_ALONE    3

struct parity_bench_args {
	u32 what; /* BENCH_* */
	u32 nr_rounds;
	u32 nr_wakers;	 /* in bench_waker[] */
	u32 restore_cpu; /* BENCH_OVERHEAD gives this idle CPU back each round; ~0: none */
	u64 now_ns;
	/* answers */
	u64 elapsed_ns;
	u64 found;
	u64 reads;
};

struct parity_bench_args bench_args;
u32 bench_waker[WL_MAX_CPUS];
struct wl_decision bench_decision;

__noinline int bench_search(u32 cpu, u64 now_ns)
{
	struct wl_select_in in = {.this_cpu = cpu, .prev_cpu = cpu, .now_ns = now_ns};

	wl_select(&wl_memory.policy, &in, task_at(0), task_at(1), &bench_decision);
	return 0;
}

__noinline int bench_alone(u32 cpu, u64 now_ns)
{
	struct wl_search s = {.this_cpu = cpu, .prev = cpu, .target = cpu, .now_ns = now_ns};

	wl_place_woken(&wl_memory.policy, &s, task_at(0), &bench_decision);
	return 0;
}

__noinline int bench_nothing(u32 cpu, u64 now_ns)
{
	bench_decision.cpu = cpu;
	return now_ns == 0;
}

__noinline int bench_reads(void)
{
	u32 i, reads = 0;

	wl_for (i, 0, WL_NR_DIST)
		reads += bench_decision.reads.at[i & (WL_NR_DIST - 1)];
	return reads;
}

SEC("syscall")
int parity_bench(void *unused)
{
	struct parity_bench_args *args = &bench_args;
	u32 what = args->what, nr = args->nr_rounds, nr_wakers = args->nr_wakers;
	u32 restore = args->restore_cpu, i, cpu;
	u64 begin_ns, now_ns = args->now_ns, found = 0, reads = 0;

	bench_decision.claimed = 0;
	begin_ns = bpf_ktime_get_ns();
	wl_for (i, 0, nr) {
		cpu = bench_waker[cpu_at(nr_wakers ? i % nr_wakers : 0)];
		if (what == BENCH_OVERHEAD)
			bench_nothing(cpu, now_ns);
		else if (what == BENCH_ALONE)
			bench_alone(cpu, now_ns);
		else
			bench_search(cpu, now_ns);
		if (bench_decision.claimed) {
			found++;
			token_give(bench_decision.cpu);
		} else if (restore != ~0u) {
			token_give(restore);
		}
		if (what == BENCH_COUNT)
			reads += bench_reads();
	}
	args->elapsed_ns = bpf_ktime_get_ns() - begin_ns;
	args->found = found;
	args->reads = reads;
	return 0;
}
