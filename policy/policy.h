/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * policy.h - the one interface between a scheduling policy and its host: events in, decisions out.
 *
 * Two hosts exist: the simulator (crates/sim) and the sched_ext scheduler (crates/scx). A host
 * includes core.h, which defines what is declared here. The rules in short
 * (docs/design/contract.md has them in full):
 *
 *   - The host owns queues; the policy owns keys. Each CPU has one queue, ordered by (vtime,
 *     arrival).
 *   - All state is passed in. struct wl_policy holds topology and CPUs; the host allocates a
 *     struct wl_task for each task.
 *   - Every event carries now_ns. The policy has no clock and no source of random numbers: its
 *     rotors are state.
 *   - Every event that tells of a change is idempotent: told twice, it changes nothing the second
 *     time. A question may also move on what is looked at next: smt-balance's rotors, and the CPUs
 *     that groups=exact probes at a tick.
 *   - All pulling happens in dispatch, on the CPU that pulls.
 */
#ifndef WL_POLICY_H
#define WL_POLICY_H

#include "base.h"
#include "params.h"
#include "topology.h"
#include "traits.h"

/*
 * The choice on an axis. A host that knows the policy at load time and never changes it may define
 * this to read the choice from read-only data: BPF's verifier then knows the values, and removes
 * the code that this policy never executes.
 */
#ifndef wl_axis
#define wl_axis(p, name) ((p)->params.name)
#endif

struct wl_policy; /* state.h */

#define WL_CPU_NONE	 (-1)
#define WL_WEIGHT_NICE_0 1024

enum wl_cpu_state {
	WL_CPU_UNKNOWN, /* nothing reported yet: counts as idle */
	WL_CPU_IDLE,
	WL_CPU_BUSY,
	WL_CPU_TAKEN, /* busy with a task of a higher class while the policy's wait: taken.h */
};

struct wl_reads { /* reads of CPUs' and groups' state, by distance from the reader */
	u32 at[WL_NR_DIST];
};

/* Slots that a host may have. Slot 0 is the root, for tasks outside any group; it has no record. */
#define WL_MAX_GROUPS 4096
/*
 * Groups deeper than this count in their ancestor at this depth. The root's children have depth 1.
 */
#define WL_GROUP_DEPTH 8

/* Parts of an idle search, for hosts that report what each costs (access.h: wl_line_step). */
enum wl_step {
	WL_STEP_FRONT, /* looking at target, prev and the recent CPU */
	WL_STEP_CORE,  /* looking for an idle core */
	WL_STEP_CPU,   /* looking for an idle CPU, one by one */
	WL_STEP_REST,  /* everything else: the LLC's flag, idle siblings, a descent */
};

/* ------------------------------------------------------------------ a task's record */

/* The host allocates it; only the policy writes it. */

enum wl_task_place {
	WL_PLACE_NONE,	  /* not runnable */
	WL_PLACE_QUEUED,  /* waiting on cpu */
	WL_PLACE_RUNNING, /* running on cpu */
	WL_PLACE_DELAYED, /* asleep, but still in cpu's queue, and counted there as if it waited */
};

struct wl_entity {
	u64 vtime;	  /* weighted run time, as its queue counts it: lag is vtime - min_vtime */
	u64 deadline;	  /* queue=fair..: its key, the vtime at which its slice ends */
	s64 lag;	  /* queue=fair..: how far it was behind the mean when it left a queue */
	u32 hweight;	  /* the weight it is charged by, in 1/1024: its weight's part of its CPU */
	u32 own_slice_ns; /* the slice that it asked for; 0: that of all tasks. slices.h */
};

/* An average of weights over time, and what it has approached since: loads.h. */
struct wl_loads {
	u64 average;  /* in 2^-16 */
	u64 stamp_ns; /* when it was right */
	u64 weight;   /* what it approaches */
	u32 cpu;      /* a task's: 1 + the CPU in whose average it counts; 0: in none */
	u32 began;    /* a task's: 0 until it is first runnable */
};

struct wl_task {
	struct wl_entity entity;
	u64 sum_exec_ns;    /* CPU time received, as charged */
	u64 run_start_ns;   /* when it was last switched in or charged */
	u64 slice_ns;	    /* the slice it was last given */
	u64 slice_used_ns;  /* how much of that it has run */
	u64 waits_since_ns; /* when it began to wait, if it is queued: wait.h */
	u64 flip_stamp_ns;  /* decay stamp of wakee_flips */
	u64 last_wakee;	    /* id of the task it woke last */
	u32 wakee_flips;
	u32 weight;	   /* 1024 at nice 0 */
	u32 place;	   /* enum wl_task_place */
	s32 cpu;	   /* home: the CPU whose load it counts in, or which it last ran on */
	s32 recent_cpu;	   /* the CPU that it used before that one */
	u32 nr_allowed;	   /* CPUs in allowed[] that exist; nr_cpus or more: it may run anywhere */
	u64 id;		   /* the host's name for it (pid); never used to order anything */
	u64 util_stamp_ns; /* when util was last updated */
	u32 util;	   /* share of time that it runs, of the machine's fastest CPU: util.h */
	u32 util_slept;	   /* util when it last slept */
	u32 flags;	   /* WL_TASK_* */
	u32 group;	   /* the slot of its group; 0: the root */
	u32 nr_moved;	   /* idle=nearest: searches in a row that have moved it; idle_nearest.h */
	u32 joined_util;   /* what its CPU's utilization gained when it was new: util.h */
	u64 joined_ns;	   /* when that was */
	struct wl_loads loads; /* affine-loads */
	u64 allowed[WL_MASK_WORDS];
};

#define WL_TASK_NEW	1u /* not placed since fork: its key is not set yet */
#define WL_TASK_KTHREAD 2u /* a kernel thread */

/* ------------------------------------------------------------------ answers */

enum wl_reason {
	WL_REASON_NONE,
	WL_REASON_ONLY_ALLOWED,	  /* one CPU allowed: nothing to choose */
	WL_REASON_TARGET_IDLE,	  /* the CPU that wake-affine chose was idle */
	WL_REASON_PREV_IDLE,	  /* prev was idle and shares target's LLC */
	WL_REASON_RECENT_IDLE,	  /* the CPU used before prev was idle (Linux 5.2 on) */
	WL_REASON_IDLE_CORE,	  /* scan, step 1; nearest: an idle core of another block */
	WL_REASON_IDLE_CPU,	  /* scan, step 2; nearest: an idle CPU of another block */
	WL_REASON_IDLE_SIBLING,	  /* scan, step 3 */
	WL_REASON_BALANCE_MOVED,  /* smt-balance: an idle CPU of a group with more room */
	WL_REASON_BALANCE_STAYED, /* smt-balance: an idle CPU in target's own group */
	WL_REASON_NONE_IDLE,	  /* the search found no idle CPU: the task is queued on target */
	WL_REASON_FORK_LOCAL,	  /* fork or exec: stayed in the local group */
	WL_REASON_FORK_IDLEST,	  /* fork or exec: the idlest CPU of the idlest group */
	WL_REASON_FITS,		  /* unequal capacities: an idle CPU that the task fits */
	WL_REASON_BIGGEST,   /* unequal capacities: it fits no idle CPU; the biggest idle one */
	WL_REASON_NEAR_CORE, /* nearest: an idle core of target's block */
	WL_REASON_NEAR_CPU,  /* nearest: an idle CPU of target's block */
	WL_REASON_FAR_CPU,   /* nearest: an idle CPU of another LLC */
	WL_NR_REASON,
};

enum wl_affine_reason {
	WL_AFFINE_SAME_CPU,    /* this is prev */
	WL_AFFINE_DISABLED,    /* affine=off */
	WL_AFFINE_NOT_ALLOWED, /* the wakee may not run on this */
	WL_AFFINE_NO_DOMAIN,   /* no domain spans both */
	WL_AFFINE_THIS_IDLE,   /* pulled: this is idle (4.15) */
	WL_AFFINE_SYNC_ALONE,  /* pulled: a sync wake-up, and the waker runs alone on this (4.15) */
	WL_AFFINE_ZERO_LOAD,   /* pulled: this has no other load */
	WL_AFFINE_LOAD,	       /* pulled: this has less load */
	WL_AFFINE_MEAN_LOAD,   /* pulled: this and prev together: below this's mean per task */
	WL_AFFINE_PREV,	       /* not pulled: prev has less load */
	WL_AFFINE_NOT_ASKED,   /* fork, exec */
	WL_AFFINE_TOO_WIDE,    /* not pulled: waker or wakee wakes many tasks (flips, wide) */
	WL_AFFINE_PREV_IDLE,   /* not pulled: prev is idle (wide) */
	WL_NR_AFFINE_REASON,
};

#define WL_WAKE_SYNC 1u				   /* the waker says that it is about to sleep */
#define WL_WAKE_FORK 2u				   /* the first placement of a new task */
#define WL_WAKE_EXEC 4u				   /* placement at exec */
#define WL_WAKE_NEW  (WL_WAKE_FORK | WL_WAKE_EXEC) /* placed anywhere on the machine */
#define WL_WAKE_IRQ  8u /* from an interrupt: the waker is the task that it interrupted */

struct wl_select_in {
	s32 this_cpu;
	s32 prev_cpu;
	u32 flags; /* WL_WAKE_* */
	u32 unused;
	u64 now_ns;
};

struct wl_decision {
	s32 cpu;
	u32 reason;	   /* enum wl_reason */
	u32 affine_reason; /* enum wl_affine_reason */
	u32 claimed;	   /* 1: cpu was idle and is now claimed for this task */
	s32 target;	   /* what wake-affine handed to the idle search */
	u32 lost_claims;   /* idle CPUs that another wake-up claimed first */
	u32 scan_timed;	   /* 1: the host should report through wl_scan_took() how long this took */
	u32 searched;	   /* 1: the idle search went past target and prev */
	struct wl_reads reads;	    /* all reads */
	struct wl_reads step_reads; /* those of the timed step */
};

/* The arguments are bundled because a BPF function takes five at most. */
struct wl_enqueue_in {
	u32 cpu;
	u32 why;      /* enum wl_enqueue_why */
	u32 this_cpu; /* where this happens; distances of reads are measured from it */
	u32 unused;
	u64 now_ns;
};

struct wl_move_in {
	u32 cpu; /* the CPU that pulls */
	u32 unused;
	u64 now_ns;
};

enum wl_enqueue_why {
	WL_ENQ_WAKEUP,
	WL_ENQ_FORK,
	WL_ENQ_SLICE_END, /* ran its slice, or was preempted: still runnable */
	WL_ENQ_MOVED, /* its queue changed: affinity, hotplug, a policy that was just attached */
};

/*
 * How many tasks that wait before one that preempts a host passes by in its queue, if it asks
 * wl_may_run_told() which of them would run next.
 */
#define WL_MAX_BEFORE 8

enum wl_preempt {
	WL_PREEMPT_NO,	/* the running task goes on */
	WL_PREEMPT_YES, /* the running task should give way */
	/*
	 * It should if the queued task would run next: it is the first of the queue for which
	 * wl_may_run() says yes. A host that cannot look at its queue here takes this for a yes.
	 */
	WL_PREEMPT_IF_FIRST,
	/*
	 * The same, but a task that sleeps in the queue is no obstacle: where wl_may_run() says yes
	 * to one, it leaves (wl_quiescent()), and the host looks again.
	 */
	WL_PREEMPT_IF_FIRST_AWAKE,
};

struct wl_enqueue_out {
	s32 cpu;     /* where to queue it: the CPU asked for, or the nearest allowed one */
	u32 preempt; /* enum wl_preempt: does the running task of cpu give way? */
	u64 key;     /* its place in the queue: low keys come first */
	u64 slice_ns;
	struct wl_reads reads;
};

enum wl_dispatch_do {
	WL_DISPATCH_OWN,  /* run the head of the own queue; if empty, the previous task, or idle */
	WL_DISPATCH_PULL, /* move tasks from the queue of cpu, then run the head of the own queue */
	WL_DISPATCH_NOTHING, /* the own queue is empty and nothing is worth pulling */
};

/* What wl_may_run_told() says. */
enum wl_run_told {
	WL_RUN_NO,
	WL_RUN_YES,
	WL_RUN_ASK,
};

enum wl_pick {
	WL_PICK_HEAD, /* the first task of the queue that may run here */
	/*
	 * The first task for which wl_may_run() says yes. If it says no to all: the previous task
	 * with keep_slice_ns, if that is still runnable and was not put back; else the first task
	 * that may run here.
	 */
	WL_PICK_ELIGIBLE,
	/*
	 * The last task for which wl_may_run() says yes; it is asked about all of them. If it says
	 * no to all: as ELIGIBLE.
	 */
	WL_PICK_LAST,
	/* As LAST, but it is asked about the first two tasks that may run here, not about all. */
	WL_PICK_LAST_OF_TWO,
};

enum wl_balance_why {
	WL_BALANCE_NONE,
	WL_BALANCE_NEWLY_IDLE,
	WL_BALANCE_PERIODIC,
};

struct wl_dispatch_out {
	u32 what;     /* enum wl_dispatch_do */
	s32 cpu;      /* whose queue to pull from */
	u32 why;      /* enum wl_balance_why */
	u32 level;    /* topology level at which the imbalance was found */
	u64 max_load; /* budget for wl_may_move() */
	u32 max_tasks;
	u32 pick;	   /* enum wl_pick: how to choose from the own queue */
	u64 keep_slice_ns; /* pick=ELIGIBLE: the slice of the previous task if it goes on */
	s32 push_cpu;	   /* a CPU that should put its running task back now, or WL_CPU_NONE */
	/*
	 * 1: some task may have waited for too long. Before it chooses as `pick` says, the host
	 * asks wl_overdue() about all tasks of the queue that may run here, and takes the last one
	 * for which it says yes, if there is one.
	 */
	u32 overdue;
	struct wl_reads reads;
};

struct wl_move_out {
	u32 move; /* 1: take it */
	u32 stop; /* 1: the budget is used up; stop iterating */
	u64 key;  /* its key in the new queue */
	u64 slice_ns;
};

struct wl_run_out {
	u32 run; /* 1: take it */
	u32 unused;
};

struct wl_sleep_out {
	u32 stay; /* 1: it stays in its CPU's queue, at this key, though it sleeps */
	u32 unused;
	u64 key;
};

struct wl_tick_out {
	u32 resched;	 /* 1: the running task's slice is used up and others wait */
	u32 balance_due; /* mainline: balance now; sched_ext: end the slice, as dispatch balances */
	s32 kick_cpu;	 /* an idle CPU that should look for work, or WL_CPU_NONE */
	u32 unused;
	struct wl_reads reads;
};

struct wl_timer_out {
	u64 next_ns;  /* when to call again; 0: never */
	s32 kick_cpu; /* an idle CPU that should look for work, or WL_CPU_NONE */
	u32 unused;
	struct wl_reads reads;
};

/* ------------------------------------------------------------------ events and questions */

/*
 * WL_FN is how an entry point is linked: `static inline` natively; for BPF `__noinline`, a global
 * function with arg:nonnull pointers, which is verified once. WL_ARG marks a pointer that is never
 * null.
 */
#ifndef WL_FN
#define WL_FN static inline __attribute__((unused))
#endif
/*
 * WL_FN_ONCE is an entry point of every switch or wake-up. A host may inline it, because a call
 * costs more than a tenth of it. WL_FN_REST is the part of wl_select() that runs if target is not
 * idle: BPF's stack has no room for both as functions. WL_FN_OWN is short, or has one caller: a
 * host that has one policy may inline it.
 */
#ifndef WL_FN_OWN
#define WL_FN_OWN WL_FN
#endif
#ifndef WL_FN_ONCE
#define WL_FN_ONCE WL_FN
#endif
#ifndef WL_FN_REST
#define WL_FN_REST WL_INLINE
#endif
#ifndef WL_ARG
#define WL_ARG
#endif

/* Decisions. */

/*
 * Where should a waking, new or exec'ing task run? waker may be null: an interrupt on an idle CPU
 * has none.
 */
WL_FN_ONCE int wl_select(struct wl_policy *p WL_ARG, const struct wl_select_in *in WL_ARG,
			 struct wl_task *wakee WL_ARG, struct wl_task *waker,
			 struct wl_decision *out WL_ARG);
/*
 * Reports how long the whole wl_select() took, for a decision with scan_timed. The policy
 * attributes the part to the timed step that step_reads has in reads.
 */
WL_FN int wl_scan_took(struct wl_policy *p WL_ARG, u32 cpu, const struct wl_decision *d WL_ARG,
		       u64 elapsed_ns);
/*
 * The task joins the queue of in->cpu, and counts there from now on. Returns its key and slice, and
 * whether the running task should give way.
 */
WL_FN int wl_enqueue(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG,
		     const struct wl_enqueue_in *in WL_ARG, struct wl_enqueue_out *out WL_ARG);
/* cpu needs something to run. Called again after each pull, until it returns OWN or NOTHING. */
WL_FN int wl_dispatch(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns,
		      struct wl_dispatch_out *out WL_ARG);
/*
 * During a pull to in->cpu: may t, which is queued on d->cpu, come? If so, takes t from d's budget
 * and counts it on in->cpu.
 */
WL_FN int wl_may_move(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG,
		      const struct wl_move_in *in WL_ARG, struct wl_dispatch_out *d WL_ARG,
		      struct wl_move_out *out WL_ARG);
/* With pick=ELIGIBLE: should t, queued on cpu, run there now? */
WL_FN int wl_may_run(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 cpu, u64 now_ns,
		     struct wl_run_out *out WL_ARG);
/*
 * With dispatch's `overdue`: has t, queued on cpu, waited for too long, and for longer than those
 * asked about before?
 */
WL_FN int wl_overdue(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 cpu, u64 now_ns,
		     struct wl_run_out *out WL_ARG);
/*
 * t, which runs, waits for something: does it stay in its CPU's queue? Else this is wl_stopping()
 * of a task that is no longer runnable. Only hosts whose queues can hold sleeping tasks ask it, and
 * only if the policy has the trait `delays`. If such a task wakes, wl_enqueue() on the same CPU
 * says where it is from then on; if it is the one to run next, it leaves by wl_quiescent() instead,
 * and the choice begins again.
 */
WL_FN int wl_sleep(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u64 now_ns,
		   struct wl_sleep_out *out WL_ARG);
/* A tick on a busy cpu; t is its running task, or null where the policy does not know it. */
WL_FN int wl_tick(struct wl_policy *p WL_ARG, u32 cpu, struct wl_task *t, u64 now_ns,
		  struct wl_tick_out *out WL_ARG);
/* A periodic timer of the host fired on cpu. Groups use it. */
WL_FN int wl_timer(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns,
		   struct wl_timer_out *out WL_ARG);
/*
 * A task of a higher class has run on cpu for a tick or longer, and something may wait there: which
 * CPU should look for work? A timer asks this, because the CPU itself has no event.
 */
WL_FN int wl_taken(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns,
		   struct wl_timer_out *out WL_ARG);

/* State. None of these returns an answer. */

/*
 * Sets the start values of every CPU. Called once, before all else; params and topo are filled in,
 * the rest is zero.
 */
WL_FN int wl_init(struct wl_policy *p WL_ARG);
WL_FN int wl_busy(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns);
WL_FN int wl_idle(struct wl_policy *p WL_ARG, u32 cpu, u64 now_ns);
WL_FN_ONCE int wl_running(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 cpu,
			  u64 now_ns);
/*
 * Charges the time since the task was switched in or last charged. runnable: it will be queued
 * again or goes on later, and stays counted on its CPU; else it is no longer counted.
 */
WL_FN_ONCE int wl_stopping(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 cpu,
			   u64 now_ns, u32 runnable);
/*
 * t, which runs on cpu, gives up the CPU (sched_yield) and is about to be put back. A host may
 * leave this out: then a yield is the end of a slice.
 */
WL_FN int wl_yield(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 cpu, u64 now_ns);
WL_FN int wl_quiescent(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u64 now_ns);
WL_FN int wl_task_init(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u64 id, u32 weight,
		       u32 flags);
WL_FN int wl_task_weight(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 weight,
			 u64 now_ns);
/*
 * The task asks for a slice of 0.1 to 100 ms, or no longer (0). Does nothing if the policy lacks
 * the trait `own_slices`.
 */
WL_FN int wl_task_slice(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 slice_ns);
/* The host has rewritten t->allowed: counts it again. */
WL_FN int wl_task_affinity(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG);
WL_FN int wl_task_exit(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u64 now_ns);
/*
 * A group begins in a free slot above 0. Its parent is in a slot in use, or is the root. shares:
 * like a task's weight.
 */
WL_FN int wl_group_init(struct wl_policy *p WL_ARG, u32 slot, u32 parent, u32 shares);
/* The group is gone. It has neither tasks nor children any more. */
WL_FN int wl_group_exit(struct wl_policy *p WL_ARG, u32 slot);
WL_FN int wl_group_shares(struct wl_policy *p WL_ARG, u32 slot, u32 shares);
/* The task, whatever its state, belongs to the group from now_ns on. */
WL_FN int wl_task_group(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u32 slot, u64 now_ns);

#endif /* WL_POLICY_H */
