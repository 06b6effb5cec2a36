/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * groups.bpf.h - maps cgroups to the policy's task groups: a cgroup's slot, its parent, its shares.
 *
 * The root cgroup is slot 0. Every other cgroup with a CPU controller gets a free slot of
 * host/groups.h's records when it is created, and gives it back when it is removed. The kernel
 * calls these hooks under its own locks, one at a time, so nothing here needs a lock. A hash finds
 * the slot by the cgroup's id. The cgroup's own storage would not do, because it refuses lookups
 * while it is busy, and a task that changes groups must find its slot. No wake-up needs any of
 * this, because a task's record has its slot.
 *
 * If all slots are taken, a cgroup gets none. It then counts in its nearest ancestor with a slot,
 * and is counted as such.
 */
#ifndef SCX_WAKELAB_GROUPS_H
#define SCX_WAKELAB_GROUPS_H

#include "state.bpf.h"
#include "limits.bpf.h"

/* Slot by cgroup id. The loader sizes it by the number of slots. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, u32);
} group_slots SEC(".maps");

/* A weight of 100 in sched_ext is 1024 shares in the policy. */
static u32 group_shares(u32 scx_weight)
{
	return task_weight(scx_weight);
}

/* The slot of a cgroup or of its nearest ancestor that has one; 0: the root's. */
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
		 * The embedded struct is at the head of struct cgroup, so that a pointer to the
		 * parent's is a pointer to the parent.
		 */
		at = (struct cgroup *)BPF_CORE_READ(at, self.parent);
	}
	return found;
}

/*
 * Is a slot without any count? Tasks that are ending count in their group for a moment after it has
 * gone.
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
 * A slot without a group: the first one after the slot given last, so that each rests as long as
 * possible. 0: there is none.
 */
SEPARATE int free_slot(void)
{
	u32 nr_groups = policy.params.nr_groups, last = group_counts.last_slot, found = 0, i;

	bpf_for(i, 1, nr_groups)
	{
		/*
		 * Not carried from one turn to the next, because the verifier would then follow
		 * each slot separately.
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
	if (counts_limits())
		limit_slot(slot, group_shares(args->weight));
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
	u32 *slot = bpf_map_lookup_elem(&group_slots, &id), shares = group_shares(weight);

	if (!slot)
		return;
	if (counts_limits())
		shares = limit_shares(*slot, shares);
	wl_group_shares(&policy, *slot, shares);
}

/* The kernel has taken the task out of its queue before this. */
void BPF_STRUCT_OPS(wakelab_cgroup_move, struct task_struct *p, struct cgroup *from,
		    struct cgroup *to)
{
	struct task_ctx *tctx = task_ctx(p);

	if (tctx)
		wl_task_group(&policy, &tctx->task, slot_of(to), bpf_ktime_get_ns());
}

#endif /* SCX_WAKELAB_GROUPS_H */
