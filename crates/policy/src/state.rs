// SPDX-License-Identifier: GPL-2.0-or-later
//! Mirrors of what the policy keeps of groups, CPUs and blocks: to look at, never to change.
//!
//! Field names and order are those of policy.h, where each is explained; ffi.rs's test compares them with C.

use crate::ffi::{MAX_LEVELS, Reads};

/// `struct wl_group`: a task group. Only for looking at: see [`crate::Policy::group`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
#[expect(missing_docs, reason = "explained in policy.h")]
pub struct Group {
    pub shares: u32,
    pub parent: u32,
    pub depth: u32,
    pub counts_as: u32,
    pub stale_weight: u32,
    pub generation: u32,
    pub home: u32,
    pub waking: u32,
}

/// `struct wl_group_cpu`: a task group on one CPU. Only for looking at: see [`crate::Policy::group_cpu`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
#[expect(missing_docs, reason = "explained in policy.h")]
pub struct GroupCpu {
    pub load: u64,
    pub nr: u32,
    pub counted: u32,
    pub weight: u32,
    pub generation: u32,
    pub summed_ns: u64,
    pub advanced_ns: u64,
    pub others_waiting: u32,
    pub others_running: u32,
    pub capped: u32,
    unused: [u32; 3],
    pub part: u64,
    pub others: u64,
    pub mark: u64,
    pub clock: Clock,
    pub waiting: u32,
    pub running: u32,
}

/// `struct wl_cpu`: what the policy knows of a CPU. Only for looking at: see [`crate::Policy::cpu`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
#[expect(missing_docs, reason = "explained in policy.h")]
pub struct CpuState {
    pub state: u32,
    pub nr_queued: u32,
    pub nr_running: u32,
    pub curr_weight: u32,
    pub load: u64,
    pub min_vtime: u64,
    pub curr_vtime: u64,
    pub curr_start_ns: u64,
    pub vtime_sum: u64,
    pub balance_marked: u32,
    pub curr_renewed: u32,
    pub idle_since_ns: u64,
    pub avg_idle_ns: u64,
    pub avg_scan_ns: u64,
    pub max_idle_balance_cost_ns: u64,
    pub next_balance_ns: [u64; MAX_LEVELS],
    pub balance_failed: [u16; MAX_LEVELS],
    pub rotor: u32,
    pub newly_idle_left: u32,
    pub curr_deadline: u64,
    pub next_buddy: u64,
    pub next_vtime: u64,
    pub last_buddy: u64,
    pub last_vtime: u64,
    pub tried_cpu: u32,
    pub tried_level: u32,
    pub tried_why: u32,
    pub taken_turns: u32,
    unused_buddies: [u32; 4],
    pub has_idle_cores: u32,
    pub nr_idle_scan: u32,
    pub idle_scan_due_ns: u64,
    pub idle_blocks: u64,
    pub core_blocks: u64,
    pub wanted_until_ns: u64,
    pub nr_blocks: u32,
    unused_llc: [u32; 5],
    pub util_stamp_ns: u64,
    pub util: u32,
    pub push_to: u32,
    pub push_why: u32,
    pub push_due_ns: u64,
    pub total: u64,
    pub charged: u64,
    pub picked_ns: u64,
    unused_util: u64,
    pub first: ExactWho,
    pub has_first: u32,
    pub curr_slot: u32,
    pub best: ExactWho,
    pub has_best: u32,
    pub pull_from: u32,
    pub probe: u32,
    pub idle_pulls: u32,
    pub walked_ns: u64,
    pub walk_reads: Reads,
    pub probe_far: u32,
    unused_walk: [u32; 7],
    pub llc_clock: Clock,
    pub llc_waiting: u32,
    pub others_wait: u32,
}

/// `struct wl_exact_who`: a task as `groups=exact` compares it with others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "explained in policy.h")]
pub struct ExactWho {
    pub v: u64,
    pub slot: u32,
    pub weight: u32,
}

/// `struct wl_clock`: how far a group's children and tasks are, in terms of v, and how fast they go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "explained in policy.h")]
pub struct Clock {
    pub v: u64,
    pub rate_v: u64,
    pub rate_us: u32,
    pub rate: u32,
}

/// `struct wl_block`: which CPUs of a block idle. Only for looking at: see [`crate::Policy::block`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
#[expect(missing_docs, reason = "explained in policy.h")]
pub struct Block {
    pub idle: u64,
    pub present: u64,
    pub cores: u64,
    pub recent: u64,
    pub before: u64,
    pub recent_period: u32,
    pub number: u32,
}
