/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * classes.bpf.h - which CPUs tasks of a higher class have, or are about to have.
 *
 * Higher classes are real-time and deadline tasks and, with --partial, all tasks that are not in
 * the class SCHED_EXT.
 *
 * A task of ours must not go to the local queue of a CPU that a higher class is about to take,
 * because nobody can move it from there: not the policy, which no longer sees it, and not a hook,
 * because the kernel calls cpu_release only if one of our tasks ran before. The kernel asks for
 * dispatch on an idle CPU even if a task of a higher class comes next, so each wake-up of such a
 * task on an idle CPU is such a moment. What was put there would wait until the higher class is
 * done, beside idle CPUs.
 *
 * That is looked at with --partial only, where a higher class may have a CPU for ever. Without it,
 * higher classes are real-time tasks, which come seldom and give way.
 */
#ifndef SCX_WAKELAB_CLASSES_H
#define SCX_WAKELAB_CLASSES_H

/* Set by the loader with --partial. */
const volatile u32 is_partial;

/* MAX_RT_PRIO: real-time and deadline tasks have priorities below it. */
#define FIRST_FAIR_PRIO 100
#define POLICY_EXT	7 /* SCHED_EXT */

/* Fields of the kernel's cfs_rq which count tasks that sleep, but are still on the run queue. */
struct cfs_rq___runnable {
	unsigned int h_nr_queued;
	unsigned int h_nr_runnable; /* in stable 6.12 and from 6.14 on */
} __attribute__((preserve_access_index));

struct cfs_rq___delayed {
	unsigned int h_nr_delayed; /* between */
} __attribute__((preserve_access_index));

/* Does a task of a higher class run on cpu? */
static bool is_taken(s32 cpu)
{
	struct task_struct *curr;
	bool taken = false;

	bpf_rcu_read_lock();
	curr = cpu_curr(cpu);
	if (curr)
		taken = curr->prio < FIRST_FAIR_PRIO ||
			(is_partial && curr->pid && curr->policy != POLICY_EXT);
	bpf_rcu_read_unlock();
	return taken;
}

/* How many tasks of cpu's run queue sleep, and stay there only to lose their lag (6.12, fair.c). */
static u32 nr_delayed(const struct rq *rq)
{
	struct cfs_rq___runnable *runnable = (void *)&rq->cfs;
	struct cfs_rq___delayed *delayed = (void *)&rq->cfs;

	if (bpf_core_field_exists(runnable->h_nr_runnable))
		return BPF_CORE_READ(runnable, h_nr_queued) -
		       BPF_CORE_READ(runnable, h_nr_runnable);
	if (bpf_core_field_exists(delayed->h_nr_delayed))
		return BPF_CORE_READ(delayed, h_nr_delayed);
	return 0;
}

/*
 * Is a task of a higher class runnable on cpu? Then none of ours runs there next. The caller has
 * the lock of that run queue, as dispatch has.
 */
static bool has_higher(s32 cpu)
{
	struct rq *rq = bpf_per_cpu_ptr(&runqueues, cpu);
	u32 higher;

	if (!rq)
		return false;
	higher = rq->nr_running - rq->scx.nr_running;
	return higher && higher > nr_delayed(rq);
}

#endif /* SCX_WAKELAB_CLASSES_H */
