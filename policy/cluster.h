/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cluster.h - cluster=spread and cluster=spread-and-pack: clusters of cores as a level of their
 * own.
 *
 * A cluster is a set of cores of one LLC that share an L2, an L3 tag or an internal bus. With the
 * level CLS between SMT and LLC, the groups of an LLC are its clusters, and tasks spread over them:
 *
 *   pull	An idle CPU whose cluster has n tasks, where the busiest cluster with something
 *		queued has m >= n + 2, pulls (m - n) / 2 of them (balance.h). The busiest is that
 *		with most tasks, the first in ring order of equals. A busy CPU compares loads, as
 *		everywhere.
 *   push	With push=on a task that runs alone moves too, after failed tries (push.h). The tick
 *		on its CPU counts the tasks of each cluster of the LLC. If its own has 2 more than
 *		the one with fewest that has an idle CPU for it, that CPU, its cluster's first, is
 *		kicked. The kicked CPU asks the cluster with most tasks for its first task that runs
 *		alone, if it has 2 more.
 *   fork	Fork and exec take the cluster with most idle CPUs, of those the one that was busy
 *		least lately (util.h), of equals the first in ring order (placement.h).
 *
 * spread-and-pack also lets wake-ups stay near: a walk through the LLC visits target's cluster
 * first, from where it starts and wrapping, then the rest. An idle prev or recent CPU is taken at
 * once only if it shares target's cluster; else it is taken if the search finds nothing.
 *
 * Example, one LLC of 3 clusters of 2 CPUs; tasks run on CPUs 0 and 1, nothing else. CPU 0's tick
 * finds 2 tasks in its cluster and none in the others: CPU 2 is kicked. It asks for CPU 0's task on
 * the fourth try. Then the clusters have 1, 1 and 0 tasks, which differ by less than 2: nothing
 * more moves. A fork on CPU 0 now finds 1, 1 and 2 idle CPUs, and goes to CPU 4.
 *
 * Packing, a task that last ran on CPU 3, all but 2 and 4 busy: from 3 on come 3 and 2, which is
 * taken; without, 3 and 4. If 2 is busy too: 3, 2 and 4.
 *
 * Cost: a tick reads the LLC once an interval, and so does the kicked CPU. It fails for tasks that
 * work on the same data, which spread keeps apart, and packs them where they need bandwidth.
 */
#ifndef WL_CLUSTER_H
#define WL_CLUSTER_H

#include "access.h"
#include "util.h"

/* Are the groups of `level` clusters that divide an LLC? */
WL_INLINE u32 wl_is_cluster_split(struct wl_policy *p, u32 level)
{
	return level && level == p->topo.llc_level && wl_level_of(p, level)->kind == WL_DIST_LLC &&
	       wl_level_of(p, level - 1)->kind == WL_DIST_CLS;
}

/* Are groups compared by the utilization of their CPUs? */
WL_INLINE u32 wl_cluster_reads_util(struct wl_policy *p)
{
	return wl_axis(p, cluster) != WL_CLUSTER_OFF;
}

/* Do wake-ups look into target's cluster first? */
WL_INLINE u32 wl_packs(struct wl_policy *p)
{
	return wl_axis(p, cluster) == WL_CLUSTER_SPREAD_AND_PACK &&
	       wl_is_cluster_split(p, p->topo.llc_level);
}

/* Of CPUs of an LLC that wl_is_cluster_split(). */
WL_INLINE u32 wl_shares_cluster(struct wl_policy *p, u32 a, u32 b)
{
	struct wl_level *clusters = wl_level_of(p, p->topo.llc_level - 1);

	return wl_entry(clusters->dom_of, a) == wl_entry(clusters->dom_of, b);
}

/* How many tasks an idle CPU pulls from a cluster with `busiest` tasks to its own with `own`. */
WL_INLINE u32 wl_cluster_excess(u32 busiest, u32 own)
{
	return busiest >= own + 2 ? (busiest - own) / 2 : 0;
}

/* Does a single task run on cpu, with nothing behind it? */
WL_INLINE u32 wl_runs_alone(struct wl_policy *p, u32 cpu)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);

	return wl_read_once(c->nr_running) && !wl_read_once(c->nr_queued);
}

/* What a cluster has. */
struct wl_crowd {
	u32 group;    /* a domain of the level below the LLC's */
	u32 nr;	      /* tasks */
	s32 idle_cpu; /* its first idle CPU on which the task may run, or WL_CPU_NONE */
	s32 lone_cpu; /* its first CPU where a task runs alone, or WL_CPU_NONE */
};

/* Reads the CPUs of a cluster, on cpu. t: the task that would come, or null. */
WL_FN int wl_crowd_count(struct wl_policy *p WL_ARG, u32 cpu, const struct wl_task *t,
			 struct wl_crowd *crowd WL_ARG, struct wl_reads *reads WL_ARG)
{
	struct wl_level *clusters = wl_level_of(p, p->topo.llc_level - 1);
	u32 first = wl_entry(clusters->first, crowd->group);
	u32 span = wl_entry(clusters->weight, crowd->group), i, other;

	crowd->nr = 0;
	crowd->idle_cpu = WL_CPU_NONE;
	crowd->lone_cpu = WL_CPU_NONE;
	wl_for (i, 0, span) {
		const struct wl_task *task = t;
		struct wl_cpu *c;

		/*
		 * Or clang moves arithmetic on t out of the loop, before its test: the verifier
		 * refuses that.
		 */
		wl_hide(task);
		other = wl_entry(clusters->cpus, first + i);
		c = wl_cpu_of(p, other);
		wl_read_cpu(p, reads, other, wl_distance(p, cpu, other));
		crowd->nr += wl_read_once(c->nr_queued) + wl_read_once(c->nr_running);
		if (crowd->idle_cpu < 0 && wl_looks_idle(p, other) &&
		    (!task || wl_allowed(p, task, other)))
			crowd->idle_cpu = other;
		if (crowd->lone_cpu < 0 && wl_runs_alone(p, other))
			crowd->lone_cpu = other;
	}
	return 0;
}

/*
 * An idle CPU of the LLC's cluster with fewest tasks, if t, which runs on cpu, should go there; or
 * WL_CPU_NONE. Of equals the first, whichever task asks: the tasks of a cluster must ask the same
 * CPU, or all would leave.
 */
WL_FN int wl_cluster_target(struct wl_policy *p WL_ARG, u32 cpu, const struct wl_task *t WL_ARG,
			    struct wl_reads *reads WL_ARG)
{
	struct wl_level *llc = wl_level_of(p, p->topo.llc_level);
	u32 own = wl_entry(wl_level_of(p, p->topo.llc_level - 1)->dom_of, cpu);
	u32 dom = wl_entry(llc->dom_of, cpu), child = wl_entry(llc->child, dom);
	u32 nr = wl_entry(llc->nr_child, dom), fewest = ~0u, own_nr = 0, i;
	struct wl_crowd crowd;
	int found = WL_CPU_NONE;

	wl_for (i, 0, nr) {
		crowd.group = child + i;
		wl_crowd_count(p, cpu, t, &crowd, reads);
		if (crowd.group == own) {
			own_nr = crowd.nr;
		} else if (crowd.idle_cpu >= 0 && crowd.nr < fewest) {
			fewest = crowd.nr;
			found = crowd.idle_cpu;
		}
	}
	return found >= 0 && wl_cluster_excess(own_nr, fewest) ? found : WL_CPU_NONE;
}

/*
 * The CPU of the LLC from which the lone task should come to cpu, which idles: in the cluster with
 * most tasks, the first of equals; or WL_CPU_NONE.
 */
WL_FN int wl_cluster_source(struct wl_policy *p WL_ARG, u32 cpu, struct wl_reads *reads WL_ARG)
{
	struct wl_level *llc = wl_level_of(p, p->topo.llc_level);
	u32 own = wl_entry(wl_level_of(p, p->topo.llc_level - 1)->dom_of, cpu);
	u32 dom = wl_entry(llc->dom_of, cpu), child = wl_entry(llc->child, dom);
	u32 nr = wl_entry(llc->nr_child, dom), most = 0, own_nr = 0, i;
	struct wl_crowd crowd;
	int found = WL_CPU_NONE;

	wl_for (i, 0, nr) {
		crowd.group = child + i;
		wl_crowd_count(p, cpu, (const struct wl_task *)0, &crowd, reads);
		if (crowd.group == own) {
			own_nr = crowd.nr;
		} else if (crowd.lone_cpu >= 0 && crowd.nr > most) {
			most = crowd.nr;
			found = crowd.lone_cpu;
		}
	}
	return wl_cluster_excess(most, own_nr) ? found : WL_CPU_NONE;
}

#endif /* WL_CLUSTER_H */
