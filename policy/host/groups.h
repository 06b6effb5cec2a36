/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * host/groups.h - where the records of task groups are, for hosts to include before core.h.
 *
 * Natively they lie behind an instance (host/lines.h), as many as its parameters say. In BPF they
 * are two array maps whose sizes user space sets before it loads the program: wl_groups has a
 * record for each slot, and wl_group_cpus has one for each slot and CPU, params.nr_groups *
 * topo.nr_cpus records.
 */
#ifndef WL_HOST_GROUPS_H
#define WL_HOST_GROUPS_H

#include "state.h"

#ifdef __bpf__
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wl_group);
} wl_groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wl_group_cpu);
} wl_group_cpus SEC(".maps");

WL_INLINE struct wl_group *wl_host_group(struct wl_policy *p, u32 slot)
{
	(void)p;
	return bpf_map_lookup_elem(&wl_groups, &slot);
}

WL_INLINE struct wl_group_cpu *wl_host_group_cpu(struct wl_policy *p, u32 slot, u32 cpu)
{
	u32 index = slot * p->topo.nr_cpus + cpu;

	if (slot >= p->params.nr_groups || cpu >= p->topo.nr_cpus)
		return 0;
	return bpf_map_lookup_elem(&wl_group_cpus, &index);
}
#else
WL_INLINE struct wl_group *wl_host_group(struct wl_policy *p, u32 slot)
{
	return slot < p->params.nr_groups ? &((struct wl_instance *)p)->groups[slot] : 0;
}

WL_INLINE struct wl_group_cpu *wl_host_group_cpu(struct wl_policy *p, u32 slot, u32 cpu)
{
	if (slot >= p->params.nr_groups || cpu >= p->topo.nr_cpus)
		return 0;
	return &((struct wl_instance *)p)->group_cpus[(u64)slot * p->topo.nr_cpus + cpu];
}
#endif

#define wl_group_at(p, slot)	      wl_host_group((p), (slot))
#define wl_group_cpu_at(p, slot, cpu) wl_host_group_cpu((p), (slot), (cpu))

#endif /* WL_HOST_GROUPS_H */
