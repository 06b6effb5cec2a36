/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * main.bpf.c - the policy behind sched_ext's hooks.
 *
 * This file decides nothing. It owns what the contract (docs/design/contract.md) assigns to a host:
 * the queues, one vtime-ordered DSQ per CPU with the CPU's number as its id; the task records
 * (task_ctx() in state.bpf.h); and the idle mask, which is the kernel's built-in one. Each hook
 * tells policy/ what happened and carries out its answer.
 *
 * The path of a wake-up: select_cpu asks wl_select() for the CPU and, directly after, wl_enqueue()
 * for key and slice. It inserts the task into that CPU's DSQ, so that the kernel need not call
 * enqueue. The kernel reschedules an idle CPU by itself; a preemption is a kick. dispatch asks
 * wl_dispatch() whether to pull, then moves the head of the own DSQ to the CPU, or the first or
 * last task for which wl_may_run() says yes. Tasks for which the kernel does not call select_cpu
 * (pinned tasks, and tasks that are put back) come to enqueue. If dispatch would take the task that
 * was just inserted (goes_straight()), the task goes to the CPU's local queue, and the kernel does
 * not call dispatch.
 *
 * Most of the cost is that of hooks: entering one and finding the task's record takes longer than
 * most of them do otherwise. So there is no hook that is not needed: a task that sleeps was
 * running, and stopping() says that it no longer is; a task that leaves a queue without having run
 * is queued again (affinity, weight), leaves the class (disable) or ends (exit_task).
 * docs/results/live-bench.md has the figures.
 *
 * No task is left waiting for ever, whatever the policy counts: dispatch always looks at the own
 * DSQ itself; a task that may not run where it is queued is moved on (rescue()); a task without a
 * record, or for which the policy's answer cannot be carried out, goes to the global DSQ, which
 * every CPU empties first. If everything fails, the kernel's watchdog ejects the scheduler and
 * Linux's own takes over.
 *
 * Two races are harmless. (1) A pull counts a task here, and then finds that another CPU took it:
 * the record is uncounted, and that CPU's next event counts it again. (2) A CPU is claimed for a
 * task that is then queued elsewhere: the CPU is kicked, finds nothing, and goes idle again, and
 * the kernel sets its bit again.
 */
#include "state.bpf.h"
#include "queues.bpf.h"
#include "break.bpf.h"
#include "timer.bpf.h"
#include "taken.bpf.h"
#include "limits.bpf.h"
#include "groups.bpf.h"
#include "perf.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/*
 * If the policy's reads are noted, its deepest search needs nearly all of the stack. So what its
 * caller does afterwards is a separate function.
 */
#ifdef WL_LOGS
#define AFTER_SEARCH __noinline
#else
#define AFTER_SEARCH __always_inline
#endif

/*
 * Carries out the answer to wl_enqueue() in sc: p, whose record is tctx, goes to the queue of
 * enqueue_out.cpu. It is on the run queue of enqueue_in.cpu.
 */
static AFTER_SEARCH void insert(struct task_struct *p, struct scratch *sc, struct task_ctx *tctx,
				s32 claimed_cpu, u64 enq_flags)
{
	const struct wl_enqueue_in *in = &sc->enqueue_in;
	const struct wl_enqueue_out *out = &sc->enqueue_out;
	struct cpu_stats *st = cpu_stats();
	s32 home = in->cpu;

	st->enqueues++;
	/*
	 * A claim that was not used is given back: the CPU looks for work, finds none, and is idle
	 * again.
	 */
	if (claimed_cpu != WL_CPU_NONE && claimed_cpu != out->cpu)
		scx_bpf_kick_cpu(claimed_cpu, SCX_KICK_IDLE);

	if (!valid_cpu(out->cpu) || (out->cpu != home && !can_run(p, out->cpu))) {
		st->global++;
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, out->slice_ns ?: SCX_SLICE_DFL, enq_flags);
		scx_bpf_kick_cpu(home, SCX_KICK_IDLE);
		return;
	}

	/*
	 * A CPU with something queued must not keep its bit, or the next waker would choose it too.
	 * The kernel sets the bit after it has called update_idle.
	 */
	if (claimed_cpu != out->cpu &&
	    wl_read_once(wl_cpu_of(&policy, out->cpu)->state) < WL_CPU_BUSY)
		scx_bpf_test_and_clear_cpu_idle(out->cpu);

	if (out->cpu == home && goes_straight(p, sc, tctx)) {
		st->preempts += out->preempt != WL_PREEMPT_NO;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, out->slice_ns,
				   enq_flags | (out->preempt ? SCX_ENQ_PREEMPT : 0));
		return;
	}
	st->preempts += out->preempt != WL_PREEMPT_NO;
	watch_if_taken(out->cpu);
	scx_bpf_dsq_insert_vtime(p, out->cpu, out->slice_ns, out->key, enq_flags);
	if (out->preempt) {
		scx_bpf_kick_cpu(out->cpu, SCX_KICK_PREEMPT);
	} else if (out->cpu != home || in->why == WL_ENQ_MOVED) {
		/*
		 * The kernel reschedules an idle CPU for a wake-up or a fork on that CPU's own run
		 * queue. In all other cases the kick is needed.
		 */
		scx_bpf_kick_cpu(out->cpu, SCX_KICK_IDLE);
	}
}

s32 BPF_STRUCT_OPS(wakelab_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id();
	struct task_ctx *tctx = task_ctx(p), *waker = NULL;
	struct scratch *sc = scratch_of(this_cpu);
	struct wl_select_in *in = &sc->select_in;
	struct wl_decision *d = &sc->decision;

	if (!tctx || is_to_be_lost(p))
		return prev_cpu;
	/* The kernel calls enqueue then. */
	if (counts_limits() && task_throttled_by(p, tctx))
		return prev_cpu;
	if (wl_trait_reads_waker(&axis_params))
		waker = task_ctx(bpf_get_current_task_btf());
	in->this_cpu = this_cpu;
	/* A task that slept meanwhile may have been on a CPU that is gone. */
	in->prev_cpu = is_gap(prev_cpu) ? this_cpu : prev_cpu;
	in->flags = 0;
	if (wake_flags & SCX_WAKE_SYNC)
		in->flags |= WL_WAKE_SYNC;
	if (wake_flags & SCX_WAKE_FORK)
		in->flags |= WL_WAKE_FORK;
	in->now_ns = bpf_ktime_get_ns();

	if (!bench_search || !kernel_searches(p, in, wake_flags, d)) {
		sc->select_ns = bench_search ? bpf_ktime_get_ns() : in->now_ns;
		wl_select(&policy, in, &tctx->task, (struct wl_task *)waker, d);
		if (bench_search || detail >= DETAIL_STATS || d->scan_timed)
			count_time(in, d, bpf_ktime_get_ns() - sc->select_ns);
		count_decision(d);
	}
	if (!valid_cpu(d->cpu))
		return prev_cpu;

	ask_enqueue(sc, tctx, d->cpu, tctx->task.flags & WL_TASK_NEW ? WL_ENQ_FORK : WL_ENQ_WAKEUP,
		    this_cpu, in->now_ns);
	insert(p, sc, tctx, d->claimed ? d->cpu : WL_CPU_NONE, 0);
	return d->cpu;
}

/*
 * The slice of a running task has ended: it is queued again at once, and need not be reported as
 * stopped if the policy's enqueue does all that. Without a flag that 6.12 does not know, newer
 * kernels queue a task that cannot migrate themselves.
 */
static bool enqueue_says_stopped(struct task_struct *p)
{
	return wl_trait_enqueue_stops(&axis_params) && !p->scx.slice && !is_migration_disabled(p);
}

/*
 * A task comes to a CPU whose record says that it runs already: it stopped, and the kernel called
 * no enqueue (in bypass, and on a CPU that goes offline). When is not known, so the run is not
 * charged: what has passed since was mostly waiting.
 */
static void stop_late(struct task_ctx *tctx, s32 cpu, u64 now_ns)
{
	tctx->task.run_start_ns = now_ns;
	wl_stopping(&policy, &tctx->task, cpu, now_ns, 1);
}

static u32 enqueue_why(struct task_ctx *tctx, u64 enq_flags)
{
	if (tctx->task.flags & WL_TASK_NEW)
		return WL_ENQ_FORK;
	if (enq_flags & SCX_ENQ_WAKEUP)
		return WL_ENQ_WAKEUP;
	/* The policy was told that it sleeps, but it is throttled no more. */
	if (counts_limits() && tctx->is_throttled)
		return WL_ENQ_WAKEUP;
	return tctx->goes_on || tctx->task.place == WL_PLACE_RUNNING ? WL_ENQ_SLICE_END
								     : WL_ENQ_MOVED;
}

void BPF_STRUCT_OPS(wakelab_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id(), cpu = scx_bpf_task_cpu(p);
	struct task_ctx *tctx = task_ctx(p);
	struct scratch *sc = scratch_of(this_cpu);
	u64 now_ns;
	u32 why;

	if (is_to_be_lost(p))
		return;
	if (!tctx) {
		cpu_stats()->global++;
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	if (counts_limits() && put_aside(p, tctx, cpu, enq_flags))
		return;
	why = enqueue_why(tctx, enq_flags);
	tctx->goes_on = 0;
	if (counts_limits())
		tctx->is_throttled = 0;
	now_ns = bpf_ktime_get_ns();
	if (why == WL_ENQ_SLICE_END)
		scratch_of(cpu)->switch_ns = now_ns;
	ask_enqueue(sc, tctx, cpu, why, this_cpu, now_ns);
	insert(p, sc, tctx, WL_CPU_NONE, enq_flags);
	/* Its CPU was about to idle (see wakelab_dispatch()). */
	if (counts_limits() && (enq_flags & SCX_ENQ_LAST))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/*
 * With --partial: does dispatch leave cpu to a task of a higher class, which runs there next? What
 * waits stays in its queue, from which other CPUs may pull it.
 */
static bool yields_cpu(s32 cpu, struct scratch *sc)
{
	if (!is_partial)
		return false;
	sc->yielded = has_higher(cpu);
	if (!sc->yielded)
		return false;
	sc->switch_ns = 0;
	if (wl_read_once(wl_cpu_of(&policy, cpu)->nr_queued))
		watch_taken();
	return true;
}

/* Takes a task of the own queue by asking the policy about them. Returns 1 if there was one. */
static __always_inline int take_picked(s32 cpu, u64 now_ns, u32 pick)
{
	if (pick == WL_PICK_LAST_OF_TWO)
		return take_last_of_two(cpu, now_ns);
	return pick == WL_PICK_LAST ? take_last(cpu, now_ns) : take_eligible(cpu, now_ns);
}

/* May prev, which ran on the CPU of sc, go on there? */
static __always_inline bool can_go_on(struct task_struct *prev, struct scratch *sc)
{
	return prev && (prev->scx.flags & SCX_TASK_QUEUED) &&
	       !(counts_limits() && sc->throttles_prev);
}

void BPF_STRUCT_OPS(wakelab_dispatch, s32 cpu, struct task_struct *prev)
{
	struct scratch *sc = scratch_of(cpu);
	u64 now_ns = 0;

	cpu_stats()->dispatches++;
	if (yields_cpu(cpu, sc))
		return;
	/* If prev has just gone to sleep, stopping() was a moment ago. */
	if (prev && !(prev->scx.flags & SCX_TASK_QUEUED))
		now_ns = sc->switch_ns;
	if (!now_ns)
		now_ns = bpf_ktime_get_ns();
	/* If a task of a higher class comes next, a hook follows only if one of our tasks ran. */
	sc->switch_ns = prev ? now_ns : 0;
	if (counts_limits()) {
		sc->throttles_prev = 0;
		sc->throttles_prev = can_go_on(prev, sc) && throttles_prev(prev, cpu, now_ns);
	}
	wl_dispatch(&policy, cpu, now_ns, &sc->dispatch);
	if (sc->dispatch.what == WL_DISPATCH_PULL)
		pull_all(cpu);
	if (sc->dispatch.overdue && take_overdue(cpu, now_ns))
		return;
	if (sc->dispatch.pick != WL_PICK_HEAD) {
		if (take_picked(cpu, now_ns, sc->dispatch.pick))
			return;
		/*
		 * No other task should run instead of prev if prev can go on: while it has slice
		 * left, the kernel keeps it.
		 */
		if (can_go_on(prev, sc) && sc->dispatch.keep_slice_ns &&
		    scx_bpf_dsq_nr_queued(cpu) > 0) {
			scx_bpf_task_set_slice(prev, sc->dispatch.keep_slice_ns);
			return;
		}
	}
	if (scx_bpf_dsq_move_to_local(cpu, 0))
		return;
	if (scx_bpf_dsq_nr_queued(cpu) > 0)
		rescue(cpu);
	/*
	 * Nothing but prev can run here. The kernel would let it go on by itself, but with limits
	 * it is asked not to (SCX_OPS_ENQ_LAST), because prev may be throttled.
	 */
	if (counts_limits() && can_go_on(prev, sc))
		scx_bpf_task_set_slice(prev, SCX_SLICE_DFL);
}

void BPF_STRUCT_OPS(wakelab_running, struct task_struct *p)
{
	struct task_ctx *tctx = task_ctx(p);
	struct cpu_stats *st = cpu_stats();
	s32 cpu = own_cpu(p);
	u64 now_ns = end_switch(cpu);

	/*
	 * The CPU was already busy, unless its tasks were running when the scheduler was attached:
	 * then update_idle saw no change.
	 */
	if (wl_read_once(wl_cpu_of(&policy, cpu)->state) != WL_CPU_BUSY)
		wl_busy(&policy, cpu, now_ns);
	if (!tctx)
		return;
	tctx->goes_on = 0;
	if (counts_limits())
		limited_running(p, tctx, cpu);
	if (wl_trait_enqueue_stops(&axis_params) && tctx->task.place == WL_PLACE_RUNNING)
		stop_late(tctx, cpu, now_ns);
	wl_running(&policy, &tctx->task, cpu, now_ns);
	st->switches_in++;
	if (tctx->last_cpu != cpu && tctx->last_cpu != WL_CPU_NONE)
		count_migration(tctx->last_cpu, cpu);
	tctx->last_cpu = cpu;
}

void BPF_STRUCT_OPS(wakelab_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *tctx;
	s32 cpu;
	u64 now_ns;

	if (runnable && !counts_limits() && enqueue_says_stopped(p))
		return;
	tctx = task_ctx(p);
	if (!tctx)
		return;
	cpu = own_cpu(p);
	if (counts_limits()) {
		charge_running(p, tctx, cpu);
		if (runnable && (tctx->is_throttled || enqueue_says_stopped(p)))
			return;
	}
	tctx->goes_on = runnable;
	now_ns = bpf_ktime_get_ns();
	scratch_of(cpu)->switch_ns = now_ns;
	wl_stopping(&policy, &tctx->task, cpu, now_ns, runnable);
}

/*
 * sched_yield(): `from` runs, and its slice ends. A task is named in `to` only by KVM, which wants
 * that one to run instead; it is told no, as without this hook.
 */
bool BPF_STRUCT_OPS(wakelab_yield, struct task_struct *from, struct task_struct *to)
{
	struct task_ctx *tctx;

	if (to)
		return false;
	tctx = task_ctx(from);
	if (tctx)
		wl_yield(&policy, &tctx->task, own_cpu(from), bpf_ktime_get_ns());
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/*
 * Busy means that the current task is not the idle task: tasks of other classes count, and only
 * this hook sees them.
 */
void BPF_STRUCT_OPS(wakelab_update_idle, s32 cpu, bool idle)
{
	struct scratch *sc = scratch_of(cpu);
	u64 now_ns = bpf_ktime_get_ns();

	/* The noted time is of an earlier switch, unless this is the switch from the idle task. */
	sc->switch_ns = 0;
	/*
	 * Left to a higher class, and yet idle: a task of it was counted that only sleeps (6.12.0
	 * does not tell them apart).
	 */
	if (is_partial && sc->yielded) {
		sc->yielded = 0;
		if (idle)
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
	if (idle) {
		follow_util(cpu, sc, now_ns, true);
		wl_idle(&policy, cpu, now_ns);
	} else {
		tell_perf(cpu, sc, now_ns, false);
		wl_busy(&policy, cpu, now_ns);
	}
}

void BPF_STRUCT_OPS(wakelab_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct scratch *sc = scratch_of(cpu);
	struct wl_tick_out *out = &sc->tick;
	u64 now_ns = bpf_ktime_get_ns();

	tell_perf(cpu, sc, now_ns, true);
	wl_tick(&policy, cpu, (struct wl_task *)task_ctx(p), now_ns, out);
	if (counts_limits())
		limited_tick(p, cpu);
	/*
	 * The dispatch does the balancing that is due, but it would come only at the end of the
	 * slice.
	 */
	if (out->resched || out->balance_due)
		scx_bpf_task_set_slice(p, 0);
	if (valid_cpu(out->kick_cpu))
		scx_bpf_kick_cpu(out->kick_cpu, SCX_KICK_IDLE);
}

/*
 * A task of a higher class took the CPU. The task that was about to run here goes back to the
 * queues, so that others may pull it.
 */
void BPF_STRUCT_OPS(wakelab_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scratch_of(cpu)->switch_ns = 0;
	scx_bpf_reenqueue_local();
	watch_taken();
}

void BPF_STRUCT_OPS(wakelab_set_cpumask, struct task_struct *p, const struct cpumask *mask)
{
	struct task_ctx *tctx = task_ctx(p);

	if (!tctx)
		return;
	copy_allowed(tctx, mask);
	/* It is taken out of its queue and queued again, which is not the end of a slice. */
	tctx->goes_on = 0;
}

/* The kernel tells of the weight after each sched_setattr(), which may have set a slice. */
void BPF_STRUCT_OPS(wakelab_set_weight, struct task_struct *p, u32 weight)
{
	struct task_ctx *tctx = task_ctx(p);

	if (!tctx)
		return;
	wl_task_weight(&policy, &tctx->task, task_weight(weight), bpf_ktime_get_ns());
	if (own_slice_ns(p) != tctx->task.entity.own_slice_ns)
		wl_task_slice(&policy, &tctx->task, own_slice_ns(p));
}

/*
 * Joins sched_ext. Its affinity may have changed while it was in another class. set_weight reports
 * its weight.
 */
void BPF_STRUCT_OPS(wakelab_enable, struct task_struct *p)
{
	struct task_ctx *tctx = task_ctx(p);

	if (tctx)
		copy_allowed(tctx, p->cpus_ptr);
}

/* Leaves sched_ext, or ends. It was taken out of its queue before. */
void BPF_STRUCT_OPS(wakelab_disable, struct task_struct *p)
{
	struct task_ctx *tctx = task_ctx(p);

	if (tctx)
		wl_quiescent(&policy, &tctx->task, bpf_ktime_get_ns());
	scratch_of(scx_bpf_task_cpu(p))->switch_ns = 0;
	/* A running task takes its CPU with it, and cpu_release is not called for that. */
	if (p->prio < FIRST_FAIR_PRIO || is_partial)
		watch_taken();
}

s32 BPF_STRUCT_OPS_SLEEPABLE(wakelab_init_task, struct task_struct *p,
			     struct scx_init_task_args *args)
{
	struct task_ctx *tctx;
	u32 flags = 0;

	tctx = make_task_ctx(p);
	/*
	 * again.rs knows when there is none although there is memory. The fault fails no fork,
	 * because the shell of the test forks, too.
	 */
	if (!tctx || (break_start && !args->fork)) {
		free_task_ctx(p);
		return -ENOMEM;
	}
	if (p->flags & PF_KTHREAD)
		flags |= WL_TASK_KTHREAD;
	if (args->fork)
		flags |= WL_TASK_NEW;
	tctx->last_cpu = WL_CPU_NONE;
	tctx->goes_on = 0;
	tctx->is_throttled = 0;
	wl_task_init(&policy, &tctx->task, p->pid, WL_WEIGHT_NICE_0, flags);
	copy_allowed(tctx, p->cpus_ptr);
	if (policy.params.nr_groups && args->cgroup)
		wl_task_group(&policy, &tctx->task, slot_of(args->cgroup), bpf_ktime_get_ns());
	return 0;
}

void BPF_STRUCT_OPS(wakelab_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_ctx *tctx = task_ctx(p);

	if (tctx)
		wl_task_exit(&policy, &tctx->task, bpf_ktime_get_ns());
	free_task_ctx(p);
}

/* For the dump after an error: an error is where the policy's counts and the queues differ. */
void BPF_STRUCT_OPS(wakelab_dump_cpu, struct scx_dump_ctx *dctx, s32 cpu, bool idle)
{
	u32 i = cpu & (WL_MAX_CPUS - 1);

	if (idle && !scx_bpf_dsq_nr_queued(cpu))
		return;
	wl_hide(i);
	i &= WL_MAX_CPUS - 1;
	scx_bpf_dump("policy: state=%u nr_queued=%u nr_running=%u load=%llu; queue holds %d",
		     policy.cpu[i].state, policy.cpu[i].nr_queued, policy.cpu[i].nr_running,
		     policy.cpu[i].load, scx_bpf_dsq_nr_queued(cpu));
}

s32 BPF_STRUCT_OPS_SLEEPABLE(wakelab_init)
{
	s32 i, ret;

	wl_init(&policy);
	bpf_for(i, 0, policy.topo.nr_cpus)
	{
		ret = scx_bpf_create_dsq(i, -1);
		if (ret) {
			scx_bpf_error("cannot create the queue of CPU %d: %d", i, ret);
			return ret;
		}
	}
	ret = start_timer();
	if (!ret)
		ret = init_watch();
	if (!ret)
		ret = start_limits();
	if (ret)
		scx_bpf_error("cannot start the timer: %d", ret);
	return ret;
}

void BPF_STRUCT_OPS(wakelab_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(wakelab_ops, .select_cpu = (void *)wakelab_select_cpu,
	       .enqueue = (void *)wakelab_enqueue, .dispatch = (void *)wakelab_dispatch,
	       .running = (void *)wakelab_running, .stopping = (void *)wakelab_stopping,
	       .yield = (void *)wakelab_yield, .update_idle = (void *)wakelab_update_idle,
	       .tick = (void *)wakelab_tick, .cpu_release = (void *)wakelab_cpu_release,
	       .set_cpumask = (void *)wakelab_set_cpumask, .set_weight = (void *)wakelab_set_weight,
	       .enable = (void *)wakelab_enable, .disable = (void *)wakelab_disable,
	       .init_task = (void *)wakelab_init_task, .exit_task = (void *)wakelab_exit_task,
	       .cgroup_init = (void *)wakelab_cgroup_init,
	       .cgroup_exit = (void *)wakelab_cgroup_exit,
	       .cgroup_move = (void *)wakelab_cgroup_move,
	       .cgroup_set_weight = (void *)wakelab_cgroup_set_weight,
	       .dump_cpu = (void *)wakelab_dump_cpu, .init = (void *)wakelab_init,
	       .exit = (void *)wakelab_exit,
	       .flags = SCX_OPS_KEEP_BUILTIN_IDLE | SCX_OPS_ENQ_EXITING, .timeout_ms = 10000,
	       .name = "wakelab");
