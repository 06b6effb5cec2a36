/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * queues.bpf.h - walks over the CPUs' queues: what is pulled, which task runs next, and which tasks
 * are moved on.
 */
#ifndef SCX_WAKELAB_QUEUES_H
#define SCX_WAKELAB_QUEUES_H

#include "state.bpf.h"

/*
 * The number of tasks that one pull or rescue looks at. It is limited because a queue may be long
 * and the CPU's lock is held.
 */
#define MAX_SCANNED 64

/*
 * The number of tasks among which the next one is chosen. The order of the queue may say nothing
 * about it: across groups with groups=queues, and of an overdue task under any policy. So it is
 * large, and an overdue task is looked for from the end of the queue on, because the other walks
 * have seen its first tasks. A CPU with more has other troubles: with ticks of 4 ms, each of 1,024
 * tasks would run once in four seconds.
 */
#define MAX_CHOICES 1024

/* Moves what the policy allows from the queue that it named to the queue of cpu. */
SEPARATE int pull(s32 cpu)
{
	struct scratch *sc = scratch_of(cpu);
	struct cpu_stats *st = cpu_stats();
	struct task_struct *p;
	u32 scanned = 0;

	count_why(st->pull_tries, sc->dispatch.why);
	sc->move_in.cpu = cpu;
	bpf_for_each(scx_dsq, p, sc->dispatch.cpu, 0)
	{
		struct task_ctx *tctx;

		if (scanned++ >= MAX_SCANNED)
			break;
		__sink(scanned); /* else the verifier follows each count separately */
		/* Of one that may not run here the policy learns that another CPU should pull. */
		if (is_migration_disabled(p))
			continue;
		tctx = task_ctx(p);
		if (!tctx)
			continue;
		sc->move_in.now_ns = bpf_ktime_get_ns();
		wl_may_move(&policy, &tctx->task, &sc->move_in, &sc->dispatch, &sc->move_out);
		if (sc->move_out.move) {
			scx_bpf_dsq_move_set_slice(BPF_FOR_EACH_ITER, sc->move_out.slice_ns);
			scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, sc->move_out.key);
			if (scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, cpu, 0)) {
				count_why(st->pulled, sc->dispatch.why);
			} else {
				st->pull_races++;
				/* The CPU that took it counts it, now or soon. */
				if (tctx->task.place == WL_PLACE_QUEUED && tctx->task.cpu == cpu)
					wl_quiescent(&policy, &tctx->task, bpf_ktime_get_ns());
			}
		}
		if (sc->move_out.stop)
			break;
	}
	return 0;
}

/*
 * The policy said that something should be pulled, and is asked again after each pull: at most one
 * per level and one for a mark. The policy ends this earlier; the bound is for the verifier.
 */
SEPARATE int pull_all(s32 cpu)
{
	struct scratch *sc = scratch_of(cpu);

	bpf_repeat(WL_MAX_LEVELS + 1)
	{
		if (sc->dispatch.what != WL_DISPATCH_PULL || !valid_cpu(sc->dispatch.cpu))
			break;
		pull(cpu);
		wl_dispatch(&policy, cpu, bpf_ktime_get_ns(), &sc->dispatch);
	}
	return 0;
}

/*
 * Does the policy want p, of cpu's own queue, to run at now_ns; with `overdue`: because it has
 * waited for too long? Inlined, because the verifier would follow a function once for each path to
 * its call.
 */
static __always_inline bool wants(struct task_struct *p, s32 cpu, u64 now_ns, bool overdue)
{
	struct scratch *sc = scratch_of(cpu);
	struct task_ctx *tctx;

	if (!can_run(p, cpu))
		return false;
	tctx = task_ctx(p);
	if (!tctx)
		return false;
	if (overdue)
		wl_overdue(&policy, &tctx->task, cpu, now_ns, &sc->run);
	else
		wl_may_run(&policy, &tctx->task, cpu, now_ns, &sc->run);
	return sc->run.run;
}

/*
 * As wants(), for pick=ELIGIBLE: finding a task's record takes longer than all else here, and is
 * needed only if the queue does not tell. A log has each question.
 */
static __always_inline bool wants_told(struct task_struct *p, s32 cpu, u64 now_ns)
{
	u32 told = WL_RUN_ASK;

#ifndef WL_LOGS
	/* Else the pick is never ELIGIBLE, and its code would only need stack. */
	if (!wl_groups_decide(&policy))
		told = wl_may_run_told(&policy, cpu, p->scx.dsq_vtime, p->scx.slice,
				       task_weight(p->scx.weight), now_ns);
#endif
	if (told == WL_RUN_ASK)
		return wants(p, cpu, now_ns, false);
	return told == WL_RUN_YES && can_run(p, cpu);
}

/* The answer for pick=LAST_OF_TWO, which has more paths than the verifier should follow twice. */
SEPARATE int told_of_two(s32 cpu, u64 key, u64 slice_ns, u32 weight, u64 now_ns)
{
#ifdef WL_LOGS
	return WL_RUN_ASK;
#else
	return wl_may_run_told(&policy, cpu, key, slice_ns, weight, now_ns);
#endif
}

/* As wants_told(), for pick=LAST_OF_TWO, of a task that may run here. */
static __always_inline bool wants_of_two(struct task_struct *p, s32 cpu, u64 now_ns)
{
	u32 told = told_of_two(cpu, p->scx.dsq_vtime, p->scx.slice, task_weight(p->scx.weight),
			       now_ns);

	return told == WL_RUN_ASK ? wants(p, cpu, now_ns, false) : told == WL_RUN_YES;
}

/*
 * Takes the first task of the own queue that the policy wants to run now. Returns 1 if there was
 * one.
 */
SEPARATE int take_eligible(s32 cpu, u64 now_ns)
{
	struct task_struct *p;
	u32 scanned = 0, taken = 0;

	bpf_for_each(scx_dsq, p, cpu, 0)
	{
		if (scanned++ >= MAX_CHOICES)
			break;
		__sink(scanned); /* else the verifier follows each count separately */
		if (!wants_told(p, cpu, now_ns))
			continue;
		if (scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0)) {
			taken = 1;
			break;
		}
	}
	return taken;
}

/*
 * Moves a task of the own queue, which was found by a walk with these flags, to the CPU. Returns 1
 * if it is still there.
 */
SEPARATE int take(s32 cpu, s32 pid, u64 flags)
{
	struct task_struct *p;
	u32 scanned = 0, taken = 0;

	bpf_for_each(scx_dsq, p, cpu, flags)
	{
		if (scanned++ >= MAX_CHOICES)
			break;
		__sink(scanned); /* else the verifier follows each count separately */
		if (p->pid != pid)
			continue;
		if (scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0))
			taken = 1;
		break;
	}
	return taken;
}

/*
 * Asks the policy about all tasks of the own queue, and takes the last one that it wants to run.
 * There are two walks, because a task can be moved only while the walk is at it. Returns 1 if there
 * was one and it is still there.
 */
SEPARATE int take_last(s32 cpu, u64 now_ns)
{
	struct task_struct *p;
	u32 scanned = 0;
	s32 last = 0;

	bpf_for_each(scx_dsq, p, cpu, 0)
	{
		if (scanned++ >= MAX_CHOICES)
			break;
		__sink(scanned); /* else the verifier follows each count separately */
		if (wants(p, cpu, now_ns, false))
			last = p->pid;
	}
	return last ? take(cpu, last, 0) : 0;
}

/*
 * As take_last(), of the first two tasks that may run here. The first of them needs no walk of its
 * own.
 */
SEPARATE int take_last_of_two(s32 cpu, u64 now_ns)
{
	struct task_struct *p;
	u32 scanned = 0, asked = 0, first = 0, taken = 0;

	bpf_for_each(scx_dsq, p, cpu, 0)
	{
		bool runs;

		if (scanned++ >= MAX_CHOICES)
			break;
		__sink(scanned); /* else the verifier follows each count separately */
		__sink(asked);
		if (!can_run(p, cpu))
			continue;
		runs = wants_of_two(p, cpu, now_ns);
		if (!asked++) {
			first = runs;
			continue;
		}
		if (runs && scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0))
			taken = 1;
		break;
	}
	return taken || (first && scx_bpf_dsq_move_to_local(cpu, 0));
}

/* As take_last(), of the tasks that have waited for too long. */
SEPARATE int take_overdue(s32 cpu, u64 now_ns)
{
	struct task_struct *p;
	u32 scanned = 0;
	s32 last = 0;

	bpf_for_each(scx_dsq, p, cpu, SCX_DSQ_ITER_REV)
	{
		if (scanned++ >= MAX_CHOICES)
			break;
		__sink(scanned); /* else the verifier follows each count separately */
		if (wants(p, cpu, now_ns, true))
			last = p->pid;
	}
	return last ? take(cpu, last, SCX_DSQ_ITER_REV) : 0;
}

/*
 * The own queue has only tasks that may not run here: moves each to the queue of a CPU on which it
 * may.
 */
SEPARATE int rescue(s32 cpu)
{
	struct task_struct *p;
	u32 scanned = 0;

	bpf_for_each(scx_dsq, p, cpu, 0)
	{
		struct task_ctx *tctx;
		s32 to;

		if (scanned++ >= MAX_SCANNED)
			break;
		__sink(scanned); /* else the verifier follows each count separately */
		if (can_run(p, cpu))
			continue;
		tctx = task_ctx(p);
		if (!tctx)
			continue;
		ask_enqueue(scratch_of(cpu), tctx, scx_bpf_task_cpu(p), WL_ENQ_MOVED, cpu,
			    bpf_ktime_get_ns());
		to = scratch_of(cpu)->enqueue_out.cpu;
		if (!valid_cpu(to) || !can_run(p, to))
			to = scx_bpf_task_cpu(p);
		scx_bpf_dsq_move_set_slice(BPF_FOR_EACH_ITER,
					   scratch_of(cpu)->enqueue_out.slice_ns);
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, scratch_of(cpu)->enqueue_out.key);
		if (scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, to, 0)) {
			cpu_stats()->rescued++;
			scx_bpf_kick_cpu(to, SCX_KICK_IDLE);
		}
	}
	return 0;
}

#endif /* SCX_WAKELAB_QUEUES_H */
