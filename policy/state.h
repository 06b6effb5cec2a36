/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * state.h - what the policy keeps from one event to the next. Hosts allocate it, and read it only
 * to check it.
 *
 * What belongs to one value of an axis is in a struct named after that value: a design that keeps
 * state adds a struct here, and a field where the struct is kept. The position of a field matters
 * only for time, because CPUs that read or write the same line wait for each other.
 */
#ifndef WL_STATE_H
#define WL_STATE_H

#include "policy.h"

/* ------------------------------------------------------------------ designs: idle */

/* idle=scan and narrow, for each LLC. */
struct wl_scan_llc {
	u32 has_idle_cores; /* 0: the last search found no idle core, and none went idle since */
	u32 nr_idle_scan;   /* form=util, packed: CPUs that a search may visit */
	u64 due_ns;	    /* form=util, packed: when nr_idle_scan is computed next */
};

/* idle=nearest, for each CPU. */
struct wl_nearest_cpu {
	u64 picked_ns; /* when the running task was switched in */
};

/* idle=nearest, for each LLC: see block.h. */
struct wl_nearest_llc {
	u64 idle_blocks;     /* bit b: block b of the LLC has an idle CPU */
	u64 core_blocks;     /* bit b: block b has a wholly idle core */
	u64 wanted_until_ns; /* until then, CPUs that turn busy clear their bits at once */
	u32 nr_blocks;
};

/* idle=nearest: the idle CPUs among about 8 cores, in one cache line. See block.h. */
struct wl_block {
	u64 idle;	   /* a bit for each CPU */
	u64 present;	   /* the bits that stand for a CPU */
	u64 cores;	   /* the first bit of each core */
	u64 recent;	   /* CPUs that turned idle in the period recent_period */
	u64 before;	   /* CPUs that turned idle in the period before that */
	u32 recent_period; /* number of the period */
	u32 number;	   /* the block's number in its LLC: its bit in the summary */
} WL_ALIGN_LINE;

/* The CPUs for which a block's bits stand. */
struct wl_block_map {
	u16 cpu[64];
};

/* idle=smt-balance: the number of busy CPUs of a domain, in one cache line. */
struct wl_counter {
	u32 busy;
	u32 unused[15];
} WL_ALIGN_LINE;

/* Two levels at most have counters (SMT and CLS), and neither has more domains than CPUs. */
#define WL_MAX_COUNTERS (2 * WL_MAX_CPUS)

/* ------------------------------------------------------------------ designs: queue and push */

/*
 * A queue: that of a CPU; and with groups=queues that of a group on a CPU. What all queues use
 * comes first, because it shares a line with what other CPUs look at.
 */
struct wl_run_queue {
	u32 curr_weight;   /* hweight of what runs */
	u32 curr_renewed;  /* fair: it got another slice since it was picked */
	u64 min_vtime;	   /* floor of the vtimes; fair: their mean when last computed */
	u64 curr_vtime;	   /* vtime of what runs at curr_start_ns */
	u64 curr_start_ns; /* when it was last charged */
	u64 vtime_sum;	   /* fair: sum of hweight * vtime of all that is counted, modulo 2^64 */
	/* the rest for fair.. only */
	u64 charged;	/* sum of the hweights of all that is counted in vtime_sum */
	u64 deadline;	/* of what runs */
	u64 slice_ns;	/* of what runs */
	u64 protected;	/* the vtime until which it is protected; slices.h */
	u64 last;	/* not fair: 1 + id of what ran last, while it is counted here; or 0 */
	u64 arrived_ns; /* not fair: when something arrived last while another ran */
	u64 shorter_ns; /* fair-2025: 1 ns after something arrived last with a shorter slice */
	u32 nr;		/* groups=queues: how many are counted */
	u32 runs;	/* of a group: 1 while one of its tasks runs */
};

/* Slices of 0.1 to 100 ms in classes from each power of two to the next; see slices.h. */
#define WL_SLICE_CLASSES 11

/* queue=fair.., for each CPU: the slices that the tasks counted here have asked for. */
struct wl_slices_cpu {
	u32 nr[WL_SLICE_CLASSES]; /* how many of each class */
	u32 ns[WL_SLICE_CLASSES]; /* one of them: the one that came last */
	u32 nr_own;		  /* how many in all */
};

/* groups=queues, for each CPU: what a walk over the queue has found so far; see groups_queues.h. */
struct wl_queues_cpu {
	u64 best_deadline; /* the deadline in the root's queue, by which it is compared */
	u32 best_slot;	   /* its group */
	u32 has_best;	   /* enum wl_queues_walk */
	u32 curr_slot;	   /* the group of the running task */
	u32 delayed;	   /* a group that stays in the queue without a task; 0: none does */
};

/* queue=cfs-2018, for each CPU: see queue_buddies.h. */
struct wl_buddies_cpu {
	u64 next;	/* 1 + id of the task that preempted; 0: none */
	u64 next_vtime; /* its vtime */
	u64 last;	/* 1 + id of the task that was preempted; 0: none */
	u64 last_vtime; /* its vtime */
};

/* For each CPU: the tasks that wait there; see wait.h. */
struct wl_wait_cpu {
	u64 oldest_ns; /* none of them has waited since before */
	u64 served_ns; /* when an overdue task was last switched in */
	u64 found_ns;  /* since when the task waits that a walk has found */
	u32 walk;      /* enum wl_wait_walk: how far the walk is */
	u32 unused;
};

/* balance=4.15 and later, for each CPU: see balance_times.h. The CPU that balances reads it. */
struct wl_times_cpu {
	u64 last_ns[WL_MAX_LEVELS]; /* when each level was last balanced; 0: not started */
	u64 looked_ns;		    /* when it was last looked which of them are due */
	u64 next_ns;		    /* when a level is due next, if it is idle; 0: not known */
	u32 doubled;		    /* bit l: the interval of level l is doubled */
	u32 unused;
};

/* balance=4.15 and later: the CPU that balances for all idle ones. See balance_times.h. */
struct wl_times {
	u64 next_ns; /* when an idle CPU is kicked next */
	u32 wanted;  /* 1 + an idle CPU that has something to pull; 0: none */
	u32 unused[13];
} WL_ALIGN_LINE;

/* For each CPU: what tries to pull cost when it went idle. See newly_idle.h. */
struct wl_newly_idle_cpu {
	u64 since_ns; /* when the try in progress began; 0: none is */
	u64 decay_ns; /* when cost_ns was last reduced */
	u32 top;      /* the outermost level of that try */
	u32 cost_ns[WL_MAX_LEVELS];
	u32 unused;
};

/* push=on, for each CPU: see push.h. */
struct wl_push_cpu {
	u32 to;	    /* 1 + the CPU to which the running task goes when it is put back; 0: none */
	u32 why;    /* why the running task is worth moving, at the last tick */
	u64 due_ns; /* when an idle CPU may be asked again; or this CPU, if it is idle */
};

/* ------------------------------------------------------------------ designs: groups */

/* groups=exact: a task's key, by which it is compared with others. */
struct wl_exact_key {
	u64 v;	    /* what it has received for its weight */
	u32 slot;   /* the slot of its group */
	u32 weight; /* the task's weight */
};

/* groups=exact: a clock that counts in v, and its rate. */
struct wl_clock {
	u64 v;
	u64 rate_v;  /* v at rate_us */
	u32 rate_us; /* when the rate was measured, in 1024 ns */
	u32 rate;    /* in 1/1024 of v per ns, over the time before rate_us */
};

/* groups=exact, for each CPU: what runs there and what waits first, for CPUs that look for work. */
struct wl_exact_cpu {
	struct wl_exact_key first; /* the first task that waits, as far as is known */
	u32 has_first;
	u32 curr_slot;		  /* group of the running task, whose v is in curr_vtime */
	u32 spared;		  /* 1: the running task has its slice: groups_exact.h, `spare` */
	struct wl_exact_key best; /* the first task that a walk over the queue has found */
	u32 has_best;		  /* WL_EXACT_RUNS, .. */
	u32 pull_from;		  /* 1 + the CPU from which the next dispatch pulls; 0: none */
	u64 slots;		  /* sums over the tasks that wait: wl_exact_count_slot() */
	struct wl_reads walk_reads
		WL_ALIGN_LINE; /* reads of a walk, which the next dispatch counts */
	u32 probe_far;	       /* counts the CPUs of the whole machine that were probed */
	u32 probe;	       /* counts the CPUs of the LLC that were probed */
	u32 idle_pulls;	       /* tries to find work since a task ran */
} WL_ALIGN_LINE;

/* groups=exact, for each LLC. */
struct wl_exact_llc {
	struct wl_clock clock; /* the root's clock */
	u32 waiting;	       /* tasks that wait in the LLC */
	u32 others_wait;       /* 1: tasks wait elsewhere, or not checked since one waited here */
} WL_ALIGN_LINE;

/* groups=exact, for each group. */
struct wl_exact_group {
	u32 home;   /* the first CPU of its home LLC, which keeps its distance from the clock */
	u32 waking; /* 1: a CPU is about to place it where it was before it slept */
};

/* groups=exact, for a group in an LLC: what is known of the group in other LLCs. */
struct wl_exact_others {
	u64 summed_ns;	 /* when the parts of other LLCs were read */
	u64 advanced_ns; /* when its own part was up to date */
	u32 waiting;	 /* tasks in other LLCs, at summed_ns */
	u32 running;	 /* tasks in other LLCs, at summed_ns */
	u32 capped;	 /* 1: all its tasks at once get less than its parent's clock advances */
	u32 unused;
};

/* groups=exact, for a group in an LLC: see groups_exact_sums.h. */
struct wl_exact_part {
	u64 part;   /* the part of its v that it received in this LLC */
	u64 others; /* the parts of other LLCs, at summed_ns */
	u64 mark;   /* v - its parent's clock when it was last not saturated, or fell asleep */
	struct wl_clock clock; /* the clock of its children and tasks */
	u32 waiting;	       /* tasks in this LLC */
	u32 running;	       /* tasks in this LLC */
} WL_ALIGN_LINE;

/* groups=shares: how far the pass over all groups has come; see groups_shares.h. */
struct wl_monitor {
	u64 due_ns;
	u64 interval_ns;
	u64 sum; /* sum of T, of the group in progress */
	u32 depth;
	u32 slot;
	u32 cpu;
	u32 phase;   /* enum wl_shares_phase */
	u32 changed; /* 1: this pass changed a weight */
	u32 deepest; /* the depth of the deepest group so far */
} WL_ALIGN_LINE;

/* ------------------------------------------------------------------ a CPU */

/* balance.h: the last pull. */
struct wl_tried {
	u32 cpu; /* 1 + the CPU, until a task that may run here is found there; 0: none */
	u32 level;
	u32 why; /* WL_BALANCE_PERIODIC, .. */
	u32 to; /* 1 + the CPU that should try, because a task may run there and not here; 0: none */
};

/* Other CPUs read and write the first line; only the CPU itself touches the next two. */
struct wl_cpu {
	u32 state;	    /* enum wl_cpu_state; changes at context switches only */
	u32 nr_queued;	    /* runnable tasks waiting on it */
	u32 nr_running;	    /* 1 while a task of the policy runs on it, else 0 */
	u32 balance_marked; /* bit l: balancing at level l is due at the next dispatch */
	u64 load; /* weights of its runnable tasks; balancing and wake-affine compare it */
	struct wl_run_queue queue; /* its second half is in the next line */

	u64 idle_since_ns WL_ALIGN_LINE;    /* when it turned idle */
	u64 avg_idle_ns;		    /* average length of its idle periods */
	u64 avg_scan_ns;		    /* average time of the searches that the host timed */
	u64 scan_room_ns;		    /* form=aged: idle time that its searches may use */
	u64 scan_room_tick;		    /* the tick in which scan_room_ns was last right */
	u64 next_balance_ns[WL_MAX_LEVELS]; /* per level, when it is due; 0: not started */
	u16 balance_failed
		[WL_MAX_LEVELS]; /* per level, periodic tries in a row that moved nothing */
	u32 rotor;		 /* counts its uses; says where searches begin */
	u32 newly_idle_left;	 /* bit l: level l was not tried (newly idle) since a task ran */
	struct wl_tried tried;	 /* the last pull */
	u32 taken_turns;	 /* taken.h: counts the looks at it while a higher class has it */
	struct wl_buddies_cpu buddies;
	struct wl_newly_idle_cpu newly_idle;

	struct wl_times_cpu times WL_ALIGN_LINE;

	/* the LLC's; valid in the record of the LLC's first CPU only */
	struct wl_scan_llc scan_llc WL_ALIGN_LINE;
	struct wl_nearest_llc nearest_llc;

	/* read when utilization is summed, and when a task joins the queue */
	u64 util_stamp_ns WL_ALIGN_LINE; /* when util was last updated */
	u32 util;			 /* utilization of the CPU: util.h */
	u64 total; /* what groups and tasks outside any weigh; kept if there are groups */
	struct wl_loads loads; /* affine-loads: of the tasks that count here */
	struct wl_queues_cpu queues;
	struct wl_wait_cpu wait;
	struct wl_push_cpu push;
	struct wl_nearest_cpu nearest;
	struct wl_slices_cpu slices;
	u64 choice_mean; /* queue=fair: V when a task was last chosen for the CPU */

	struct wl_exact_cpu exact;
	struct wl_exact_llc exact_llc; /* valid in the record of the LLC's first CPU only */
} WL_ALIGN_LINE;

/* ------------------------------------------------------------------ task groups */

/* What is the same on all CPUs; hardly ever written. The host allocates the records. */
struct wl_group {
	u32 shares;	  /* S; 0: the slot is free */
	u32 parent;	  /* its parent's slot */
	u32 depth;	  /* 1 below the root */
	u32 counts_as;	  /* the slot in which its tasks count: its own, or an ancestor's */
	u32 stale_weight; /* W on CPUs where no rule has set one since S was set: group.h */
	u32 generation;	  /* counts how many times S was set */
	struct wl_exact_group exact;
	u64 load; /* groups=load: the sum of T over the CPUs */
	u32 unused[6];
} WL_ALIGN_LINE;

/* A group's record of one CPU. */
struct wl_group_cpu {
	u64 load; /* T: weights of its runnable tasks there, plus what its children weigh there */
	u32 nr;	  /* the number of those tasks and children */
	u32 counted; /* what it adds to its parent's load there: W, or 0 while its own load is 0 */
	u32 weight;  /* W, if generation is the group's; else W is stale_weight */
	u32 generation;		   /* the group's generation when weight was set */
	u32 last_load;		   /* groups=load: T at the last tick; 0: none yet */
	u32 usual_load;		   /* T that ticks agree on; 0: none yet */
	struct wl_run_queue queue; /* groups=queues: the queue of the group's own tasks */
	struct wl_entity entity;   /* groups=queues: what stands for them in the CPU's queue */
	u32 stands;		   /* enum wl_queues_stands */
	u32 next_delayed;	   /* the next group that stays on this CPU; 0: none */
	u32 delayed_load;	   /* what a group that stays adds to load, as its last task did */
	struct wl_exact_others exact_others; /* valid in the record of the LLC's first CPU only */
	struct wl_exact_part exact;	     /* valid in the record of the LLC's first CPU only */
} WL_ALIGN_LINE;

/* ------------------------------------------------------------------ one call */

/* balance_stats.h: sums over a set of CPUs. */
struct wl_group_stats {
	u64 load;
	u64 cpu_load;
	u64 lone_load;
	s32 cpu;      /* the CPU to take from: most load of those with something to take; or NONE */
	s32 lone_cpu; /* the CPU with most load of those whose task runs alone; or NONE */
	u32 nr;	      /* tasks */
	u32 idle;     /* idle CPUs */
	u32 weight;   /* CPUs; a taken one counts as many as it has tasks: none runs */
	u32 capacity; /* sum of the CPUs' capacities, 1024 each if the policy ignores them */
	u32 cpu_nr;
	u32 cpu_queued;
	u32 cpu_capacity;
	u32 type; /* enum wl_group_type */
	u32 unused;
};

/*
 * What one level found: the own group, the group in progress, the busiest so far, and the sums over
 * all groups but the own.
 */
struct wl_level_stats {
	struct wl_group_stats own;
	struct wl_group_stats group;
	struct wl_group_stats busiest;
	u64 others_load;
	u32 others_capacity;
	u32 others_nr;
	u32 others_idle;
	u32 others_weight;
	u32 overloaded; /* a CPU has two tasks */
	u32 by_tasks;	/* the busiest has most tasks; else it has most load per CPU */
	u32 avoid;	/* 1 + a CPU from which nothing should be taken; 0: none */
	u32 to;	     /* the CPU for which something is looked for: as a rule the one that looks */
	u32 percent; /* how much busier a group must be */
	u32 prefers; /* tasks spread over the groups one by one (Linux: SD_PREFER_SIBLING) */
	u32 level;
	u32 max_tasks;	/* what should be pulled from the busiest: tasks.. */
	u64 max_load;	/* ..and load; 0: nothing */
	u32 may_push;	/* if nothing waits there, the task that runs may move */
	u32 push_level; /* where a running task should move; 0: nowhere */
	s32 push_cpu;	/* the CPU where it runs */
	/* Where the sums are; here, because a stack of 512 bytes has no room for it. */
	u32 looks;     /* enum wl_looks */
	u32 domain[2]; /* the domain's place in the level's CPUs: its first one, their number */
	u32 start;     /* the first CPU after the own group, in the domain */
	u32 left;      /* CPUs outside the own group */
	u32 own_group;
	u32 last_group;
	u32 dist;    /* from the CPU that reads to the group in progress */
	u32 found;   /* the level at which something should be pulled, or 0 */
	u64 next_ns; /* when the next of the CPUs looked at so far is due */
};

/* What one call needs and no stack has room for; only the CPU that makes the call touches it. */
struct wl_scratch {
	union {
		u64 word[WL_MASK_WORDS]; /* for a search: a bit for each CPU of an LLC, by place */
		struct wl_level_stats stats; /* for a pull */
	};
} WL_ALIGN_LINE;

/* ------------------------------------------------------------------ all */

struct wl_policy {
	struct wl_params params;
	struct wl_topo topo;
	/* 1: some CPU has, or lately had, two tasks: newly-idle balancing may find something. */
	u32 overloaded WL_ALIGN_LINE;
	struct wl_times times;
	/* idle=nearest: a bit for each LLC that has, or lately had, an idle CPU. See block.h. */
	u64 idle_llcs[WL_MASK_WORDS] WL_ALIGN_LINE;
	/* groups: a bit for each group that has, or lately had, load */
	u64 loaded[WL_MAX_GROUPS / 64] WL_ALIGN_LINE;
	struct wl_monitor monitor;
	struct wl_counter counter[WL_MAX_COUNTERS];
	struct wl_cpu cpu[WL_MAX_CPUS];
	struct wl_scratch scratch[WL_MAX_CPUS];
	struct wl_block block[WL_MAX_CPUS];
	struct wl_block_map block_map[WL_MAX_CPUS];
};

/*
 * Names of the cache lines that CPUs share, for hosts that follow which CPU holds which (access.h).
 * Lines that only one CPU touches have no name.
 */
enum wl_line {
	WL_LINE_CPU,		       /* + CPU: the first line of its struct wl_cpu */
	WL_LINE_COUNTER = WL_MAX_CPUS, /* + index into counter[] */
	WL_LINE_BLOCK = WL_LINE_COUNTER + WL_MAX_COUNTERS, /* + index into block[] */
	WL_LINE_LLC =
		WL_LINE_BLOCK + WL_MAX_CPUS, /* + first CPU of an LLC: what belongs to the LLC */
	WL_LINE_IDLE_LLCS = WL_LINE_LLC + WL_MAX_CPUS,			    /* + LLC / 512 */
	WL_LINE_OVERLOADED = WL_LINE_IDLE_LLCS + (WL_MAX_CPUS + 511) / 512, /* overloaded */
	WL_LINE_TIMES,							    /* times */
	WL_LINE_LOADED,							    /* + slot / 512 */
	WL_NR_LINES =
		WL_LINE_LOADED + WL_MAX_GROUPS / 512, /* + slot * CPUs + CPU: its wl_group_cpu */
};

#endif /* WL_STATE_H */
