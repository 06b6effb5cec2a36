/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * stats.bpf.h - counters for --stats and --monitor: one slot per CPU, which only that CPU writes.
 * The table in metrics.rs names each of them.
 *
 * Decisions are always counted, one increment each. The time of each decision, its reads and the
 * distance of migrations are counted only with --stats: the verifier sees the constant `detail` and
 * removes the code without it.
 */
#ifndef SCX_WAKELAB_STATS_H
#define SCX_WAKELAB_STATS_H

/* A power of two above the values of enum wl_balance_why, for a mask that the verifier sees. */
#define WHYS 4
_Static_assert(WL_BALANCE_PERIODIC < WHYS, "a reason to balance has no counter");

/*
 * Buckets of a histogram of times: bucket b counts from 2^b ns to twice that; the last one also
 * counts all longer times.
 */
#define TIME_BUCKETS 32

/* Written with interrupts off; the loader reads them through the mapping. */
struct cpu_stats {
	u64 reason[WL_NR_REASON];
	u64 affine_reason[WL_NR_AFFINE_REASON];
	u64 select_reads[WL_NR_DIST]; /* only with --stats, like the next four */
	u64 select_ns;
	u64 search_ns; /* the part of decisions that went past target and prev */
	u64 search_times[TIME_BUCKETS];
	u64 moved[WL_NR_DIST]; /* migrations by distance */
	u64 selects;
	u64 searches;
	u64 lost_claims;
	u64 timed[2]; /* --bench search: wake-ups placed by policy and kernel */
	u64 timed_ns[2];
	u64 turned[2]; /* the part left out, because another CPU had its turn */
	u64 clock_ns;  /* of a clock read beside each search of the kernel's */
	u64 enqueues;
	u64 preempts;
	u64 dispatches;
	u64 pull_tries[WHYS]; /* by enum wl_balance_why */
	u64 pulled[WHYS];
	u64 pull_races; /* another CPU took the task first */
	u64 switches_in;
	u64 migrations;
	u64 rescued; /* moved on because it may not run where it was queued */
	u64 global;  /* through the global DSQ: no record, or no usable answer */
	u64 throttled;
} WL_ALIGN_LINE;

struct cpu_stats stats[WL_MAX_CPUS];

static struct cpu_stats *cpu_stats(void)
{
	u32 cpu = bpf_get_smp_processor_id() & (WL_MAX_CPUS - 1);

	wl_hide(cpu);
	return &stats[cpu & (WL_MAX_CPUS - 1)];
}

static void count_why(u64 *counters, u32 why)
{
	wl_hide(why);
	counters[why & (WHYS - 1)]++;
}

/* The bucket of a time: the place of its highest bit. */
static u32 time_bucket(u64 time_ns)
{
	u32 rest = time_ns >> 32 ? ~0u : time_ns, bucket = 0;

	if (rest >> 16) {
		bucket += 16;
		rest >>= 16;
	}
	if (rest >> 8) {
		bucket += 8;
		rest >>= 8;
	}
	if (rest >> 4) {
		bucket += 4;
		rest >>= 4;
	}
	if (rest >> 2) {
		bucket += 2;
		rest >>= 2;
	}
	return bucket + (rest >> 1);
}

/*
 * Emulated CPUs take turns, and in virtual time what the others execute counts too: a search that
 * seems to take longer than this had another CPU's turn in it. A real one takes less than a quarter
 * of it.
 */
#define LONGEST_SEARCH_NS 20000

/* For --bench search. `who` is 0 for the policy, 1 for the kernel. */
static void count_search(struct cpu_stats *st, u32 who, u64 elapsed_ns)
{
	st->timed[who & 1]++;
	if (elapsed_ns > LONGEST_SEARCH_NS)
		st->turned[who & 1]++;
	else
		st->timed_ns[who & 1] += elapsed_ns;
}

/* Counts the time of a decision, and reports it to the policy if the policy asks for it. */
static void count_time(const struct wl_select_in *in, const struct wl_decision *d, u64 elapsed_ns)
{
	struct cpu_stats *st = cpu_stats();
	u32 bucket;

	if (d->scan_timed)
		wl_scan_took(&policy, in->this_cpu, d, elapsed_ns);
	if (detail >= DETAIL_STATS) {
		st->select_ns += elapsed_ns;
		if (d->searched) {
			st->search_ns += elapsed_ns;
			bucket = time_bucket(elapsed_ns);
			wl_hide(bucket);
			st->search_times[bucket & (TIME_BUCKETS - 1)]++;
		}
	}
	if (in->flags & WL_WAKE_FORK)
		return;
	count_search(st, 0, elapsed_ns);
}

static void count_decision(const struct wl_decision *d)
{
	struct cpu_stats *st = cpu_stats();
	u32 reason = d->reason, affine_reason = d->affine_reason, i;

	st->selects++;
	st->searches += d->searched;
	st->lost_claims += d->lost_claims;
	if (reason < WL_NR_REASON)
		st->reason[reason]++;
	if (affine_reason < WL_NR_AFFINE_REASON)
		st->affine_reason[affine_reason]++;
	if (detail < DETAIL_STATS)
		return;
	for (i = 0; i < WL_NR_DIST; i++)
		st->select_reads[i] += d->reads.at[i];
}

/* Counts a task that runs on another CPU than before. */
static void count_migration(u32 from, u32 to)
{
	struct cpu_stats *st = cpu_stats();
	u32 distance;

	st->migrations++;
	if (detail < DETAIL_STATS)
		return;
	distance = wl_distance(&policy, from, to);
	if (distance < WL_NR_DIST)
		st->moved[distance]++;
}

#endif /* SCX_WAKELAB_STATS_H */
