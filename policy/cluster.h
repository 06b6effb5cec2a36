/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cluster.h - cluster=spread and cluster=spread-and-pack: clusters of cores as a separate level.
 *
 * A cluster is a set of cores of one LLC that share an L2, an L3 tag or an internal bus. With the
 * level CLS between SMT and LLC, the groups of an LLC are its clusters, and tasks spread over them:
 *
 *   pull	The own cluster of an idle CPU has n tasks, and the busiest cluster with something
 *		queued has m. If m >= n + 2, the CPU pulls (m - n) / 2 of them (balance.h). The
 *		busiest is the cluster with most tasks; of equals, the first in ring order. A busy
 *		CPU compares loads, as at other levels.
 *   push	With push=on, a task that runs alone moves too, after failed tries (push.h). The
 *		tick on its CPU counts the tasks of each cluster of the LLC. Take the cluster with
 *		fewest tasks that has an idle CPU for the task. If the task's own cluster has at
 *		least 2 more, the first such idle CPU is kicked. If the cluster with most tasks
 *		still has 2 more than the kicked CPU's, that CPU asks it for its first task that
 *		runs alone.
 *   fork	Fork and exec take the cluster with most idle CPUs; of equals, the one that was
 *		least busy lately (util.h); of equals again, the first in ring order (placement.h).
 *
 * spread-and-pack also keeps wake-ups near: a walk through the LLC first visits target's cluster,
 * from where the walk starts and wrapping, then the rest. An idle prev or recent CPU is taken at
 * once only if it shares target's cluster; else it is taken if the search finds nothing.
 *
 * Example: one LLC of 3 clusters of 2 CPUs; tasks run on CPUs 0 and 1, and nowhere else. CPU 0's
 * tick finds 2 tasks in its cluster and none in the others, so CPU 2 is kicked. On the fourth try
 * CPU 2 asks for CPU 0's task. Then the clusters have 1, 1 and 0 tasks, which differ by less than
 * 2: nothing more moves. A fork on CPU 0 now finds 1, 1 and 2 idle CPUs, and goes to CPU 4.
 *
 * Example of packing: a task last ran on CPU 3, and all CPUs but 2 and 4 are busy. The walk visits
 * 3, then 2, and takes it; without packing it visits 3, then takes 4. If 2 is busy too, it visits 3
 * and 2, and takes 4.
 *
 * Cost: a tick reads the LLC once per interval, and so does the kicked CPU. It fails for tasks that
 * work on the same data, because spread keeps them apart; spread-and-pack packs them where they
 * need bandwidth.
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

/* Do two CPUs of an LLC share a cluster? Asked where wl_is_cluster_split(). */
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

/* What balancing needs to know of a cluster. */
struct wl_crowd {
	u32 group;    /* a domain of the level below the LLC's */
	u32 nr;	      /* tasks */
	s32 idle_cpu; /* its first idle CPU on which the task may run, or WL_CPU_NONE */
	s32 lone_cpu; /* its first CPU where a task runs alone, or WL_CPU_NONE */
};

/* Reads the CPUs of a cluster, on cpu. t: the task that would move there, or null. */
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
		 * Without this, clang moves arithmetic on t out of the loop, to before the test of
		 * t, which the verifier refuses.
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
 * If t, which runs on cpu, should move to the LLC's cluster with fewest tasks, returns an idle CPU
 * there; else WL_CPU_NONE. Of equals it is the first one, whichever task asks: all tasks of a
 * cluster must ask the same CPU, or all of them would leave.
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
 * Returns the CPU of the LLC whose lone task should move to cpu, which is idle, or WL_CPU_NONE. It
 * is in the cluster with most tasks, the first of equals.
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
