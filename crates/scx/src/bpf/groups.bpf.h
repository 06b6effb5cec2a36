/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * groups.bpf.h - cgroups to the policy's task groups: which slot a cgroup has, its parent, its
 * shares.
 *
 * The root cgroup is slot 0; every other cgroup with a CPU controller gets a free slot of
 * host/groups.h's records when it comes and gives it back when it goes. The kernel calls these
 * hooks under its own locks, one at a time, so nothing here needs a lock. Slots are found by the
 * cgroup's id in a hash, not in the cgroup's storage, which refuses lookups while it is busy: a
 * task that changes groups must find its slot. No wake-up needs any of this, because a task's
 * record names its slot.
 *
 * A cgroup that gets no slot, because all are taken, counts in its nearest ancestor that has one,
 * and is counted.
 */
#ifndef SCX_WAKELAB_GROUPS_H
#define SCX_WAKELAB_GROUPS_H

#include "state.bpf.h"

/* Slot by cgroup id. The loader makes room for as many as there are slots. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, u32);
} group_slots SEC(".maps");

struct group_counts {
	u32 last_slot;	  /* the slot given last */
	u32 highest_slot; /* that was ever given */
	u64 without_slot; /* cgroups for which none was free */
};

struct group_counts group_counts;

/* sched_ext's weight is 100 where the policy's shares are 1024. */
static u32 group_shares(u32 scx_weight)
{
	return task_weight(scx_weight);
}

/* The slot of the nearest of a cgroup and its ancestors that has one; 0: the root's. */
static u32 slot_of(struct cgroup *cgrp)
{
	struct cgroup *at = cgrp;
	s32 level = BPF_CORE_READ(cgrp, level), i;
	u32 found = 0;

	bpf_for(i, 0, level)
	{
		u64 id = BPF_CORE_READ(at, kn, id);
		u32 *slot = bpf_map_lookup_elem(&group_slots, &id);

		if (slot) {
			found = *slot;
			break;
		}
		/*
		 * What is inside of struct cgroup is at its head, so that the parent's is the
		 * parent.
		 */
		at = (struct cgroup *)BPF_CORE_READ(at, self.parent);
	}
	return found;
}

/*
 * Does nothing count in a slot any more? Tasks that end count in their group for a moment after it
 * has gone.
 */
SEPARATE int is_empty_slot(u32 slot)
{
	u32 nr_cpus = policy.topo.nr_cpus, empty = 1, cpu;

	bpf_for(cpu, 0, nr_cpus)
	{
		struct wl_group_cpu *gc = wl_group_cpu_at(&policy, slot, cpu);

		if (gc && (gc->load || gc->nr || gc->exact.waiting || gc->exact.running)) {
			empty = 0;
			break;
		}
	}
	return empty;
}

/*
 * A slot without a group, the first after the one given last: each rests as long as possible. 0:
 * there is none.
 */
SEPARATE int free_slot(void)
{
	u32 nr_groups = policy.params.nr_groups, last = group_counts.last_slot, found = 0, i;

	bpf_for(i, 1, nr_groups)
	{
		/*
		 * Not carried from one turn to the next, or the verifier follows each slot by
		 * itself.
		 */
		u32 slot = last + i;
		struct wl_group *g;

		if (slot >= nr_groups)
			slot -= nr_groups - 1;
		g = wl_group_at(&policy, slot);
		if (g && !g->shares && is_empty_slot(slot)) {
			found = slot;
			break;
		}
	}
	return found;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(wakelab_cgroup_init, struct cgroup *cgrp,
			     struct scx_cgroup_init_args *args)
{
	u64 id = cgrp->kn->id;
	u32 slot, parent;

	if (!cgrp->level)
		return 0;
	slot = free_slot();
	parent = slot_of(cgrp);
	if (!slot || bpf_map_update_elem(&group_slots, &id, &slot, BPF_ANY)) {
		group_counts.without_slot++;
		return 0;
	}
	group_counts.last_slot = slot;
	if (slot > group_counts.highest_slot)
		group_counts.highest_slot = slot;
	wl_group_init(&policy, slot, parent, group_shares(args->weight));
	return 0;
}

void BPF_STRUCT_OPS_SLEEPABLE(wakelab_cgroup_exit, struct cgroup *cgrp)
{
	u64 id = cgrp->kn->id;
	u32 *slot = bpf_map_lookup_elem(&group_slots, &id);

	if (!slot)
		return;
	wl_group_exit(&policy, *slot);
	bpf_map_delete_elem(&group_slots, &id);
}

void BPF_STRUCT_OPS(wakelab_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	u64 id = cgrp->kn->id;
	u32 *slot = bpf_map_lookup_elem(&group_slots, &id);

	if (slot)
		wl_group_shares(&policy, *slot, group_shares(weight));
}

/* The kernel has taken the task out of its queue meanwhile. */
void BPF_STRUCT_OPS(wakelab_cgroup_move, struct task_struct *p, struct cgroup *from,
		    struct cgroup *to)
{
	struct task_ctx *tctx = task_ctx(p);

	if (tctx)
		wl_task_group(&policy, &tctx->task, slot_of(to), bpf_ktime_get_ns());
}

#endif /* SCX_WAKELAB_GROUPS_H */
