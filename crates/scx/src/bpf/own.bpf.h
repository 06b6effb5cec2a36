/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * own.bpf.h - the axes of the policy `wakelab`, for the programs that have no other (own.bpf.c).
 *
 * The machine decides about `cluster` (policies have none where CPUs have none). A test compares
 * all others with those that the lab knows for `wakelab` (own.rs).
 */
#ifndef SCX_WAKELAB_OWN_H
#define SCX_WAKELAB_OWN_H

#define OWN_idle	 WL_IDLE_NEAREST
#define OWN_scan_form	 WL_SCAN_4_15
#define OWN_rotor	 WL_ROTOR_PUBLISHED
#define OWN_affine	 WL_AFFINE_WIDE
#define OWN_affine_form	 WL_AFFINE_4_15
#define OWN_factor	 WL_FACTOR_NODE
#define OWN_affine_loads WL_LOADS_NOW
#define OWN_cluster	 policy_params.cluster
#define OWN_groups	 WL_GROUPS_EXACT
#define OWN_queue	 WL_QUEUE_FAIR
#define OWN_parity	 WL_PARITY_ON
#define OWN_capacity	 WL_CAPACITY_AWARE
#define OWN_balance	 WL_BALANCING_LOAD
#define OWN_push	 WL_PUSH_ON
#define OWN_fork	 WL_FORK_IDLEST

/* Not static, so that the loader's test can read it. */
const struct wl_params axis_params SEC(".rodata") = {
	.idle = OWN_idle,
	.scan_form = OWN_scan_form,
	.rotor = OWN_rotor,
	.affine = OWN_affine,
	.affine_form = OWN_affine_form,
	.factor = OWN_factor,
	.affine_loads = OWN_affine_loads,
	.groups = OWN_groups,
	.queue = OWN_queue,
	.parity = OWN_parity,
	.capacity = OWN_capacity,
	.balance = OWN_balance,
	.push = OWN_push,
	.fork = OWN_fork,
	.nr_groups = OWN_nr_groups,
};

/* Not among them, because only the loader knows it. */
_Static_assert(sizeof(OWN_cluster) == sizeof(axis_params.cluster), "cluster is an axis");

#endif /* SCX_WAKELAB_OWN_H */
