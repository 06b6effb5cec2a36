// SPDX-License-Identifier: GPL-2.0-or-later
//! The structs of policy.h and the entry points of native.c, by hand: bindgen would need clang on every user's machine.
//!
//! Field names and order are those of policy.h, where each is explained; the test at the end compares sizes and offsets
//! with what the C compiler made of them.
#![allow(unsafe_code)]

use std::ffi::c_int;

use crate::names::{AffineReason, BalanceWhy, DispatchDo, Pick, Reason};
use crate::seen::Seen;

use crate::state::{Block, CpuState, Group, GroupCpu};
use crate::traits::Traits;

/// `WL_MAX_CPUS` of the native build.
pub const MAX_CPUS: usize = 4096;
/// `WL_MAX_LEVELS`.
pub const MAX_LEVELS: usize = 8;
/// Weight of a task at nice 0.
pub const WEIGHT_NICE_0: u32 = 1024;
/// Flag of [`SelectIn`]: the waker says that it is about to sleep.
pub const WAKE_SYNC: u32 = 1;
/// Flag of [`SelectIn`]: the first placement of a new task.
pub const WAKE_FORK: u32 = 2;
/// Flag of [`SelectIn`]: placement at exec.
pub const WAKE_EXEC: u32 = 4;
/// Flag of [`SelectIn`]: from an interrupt; the waker is whatever task was current.
pub const WAKE_IRQ: u32 = 8;
/// Flag of [`Task`]: not placed since fork.
pub const TASK_NEW: u32 = 1;
/// `WL_MAX_GROUPS`: slots of task groups, the root's included.
pub const MAX_GROUPS: usize = 4096;
/// `WL_GROUP_DEPTH`: groups deeper than this count in their ancestor.
pub const GROUP_DEPTH: u32 = 8;
/// `hweight` of a task of weight 1: [`Task::hweight`] is in 1/1024 of a weight.
pub const HWEIGHT_ONE: u32 = 1024;
/// Flag of [`Task`]: a kernel thread.
pub const TASK_KTHREAD: u32 = 2;

/// `struct wl_params`: one choice on each axis, and the tunables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "explained in params.h")]
pub struct Params {
    pub idle: u32,
    pub scan_form: u32,
    pub rotor: u32,
    pub affine: u32,
    pub affine_form: u32,
    pub factor: u32,
    pub cluster: u32,
    pub groups: u32,
    pub queue: u32,
    pub capacity: u32,
    pub push: u32,
    pub latency_ns: u64,
    pub min_granularity_ns: u64,
    pub wakeup_granularity_ns: u64,
    pub migration_cost_ns: u64,
    pub shares_min_ns: u64,
    pub shares_max_ns: u64,
    pub tick_ns: u64,
    pub nr_groups: u32,
    pub unused: u32,
}

/// `struct wl_task`: a task's record. The host keeps it; only the policy writes it.
#[derive(Clone, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "explained in policy.h")]
pub struct Task {
    pub vtime: u64,
    pub sum_exec_ns: u64,
    pub run_start_ns: u64,
    pub slice_ns: u64,
    pub slice_used_ns: u64,
    pub deadline: u64,
    pub lag: i64,
    pub flip_stamp_ns: u64,
    pub last_wakee: u64,
    pub wakee_flips: u32,
    pub weight: u32,
    pub place: u32,
    pub cpu: i32,
    pub recent_cpu: i32,
    pub nr_allowed: u32,
    pub id: u64,
    pub util_stamp_ns: u64,
    pub util: u32,
    pub util_slept: u32,
    pub flags: u32,
    pub group: u32,
    pub hweight: u32,
    pub nr_moved: u32,
    pub allowed: [u64; MAX_CPUS / 64],
}

impl Default for Task {
    fn default() -> Self {
        Task {
            vtime: 0,
            sum_exec_ns: 0,
            run_start_ns: 0,
            slice_ns: 0,
            slice_used_ns: 0,
            deadline: 0,
            lag: 0,
            flip_stamp_ns: 0,
            last_wakee: 0,
            wakee_flips: 0,
            weight: 0,
            place: 0,
            cpu: 0,
            recent_cpu: 0,
            nr_allowed: 0,
            id: 0,
            util_stamp_ns: 0,
            util: 0,
            util_slept: 0,
            flags: 0,
            group: 0,
            hweight: 0,
            nr_moved: 0,
            allowed: [0; MAX_CPUS / 64],
        }
    }
}

/// `struct wl_reads`: reads of CPUs' and groups' state, by distance from the reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Reads {
    /// Indexed by [`wakelab_machine::Distance::index`].
    pub at: [u32; wakelab_machine::Distance::COUNT],
}

impl Reads {
    /// Reads at all distances.
    pub fn total(&self) -> u64 {
        self.at.iter().map(|&n| u64::from(n)).sum()
    }
}

/// `struct wl_select_in`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[expect(missing_docs, reason = "explained in policy.h")]
pub struct SelectIn {
    pub this_cpu: i32,
    pub prev_cpu: i32,
    pub flags: u32,
    pub unused: u32,
    pub now_ns: u64,
}

/// `struct wl_decision`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "explained in policy.h")]
pub struct Decision {
    pub cpu: i32,
    pub reason: u32,
    pub affine_reason: u32,
    pub claimed: u32,
    pub target: i32,
    pub lost_claims: u32,
    pub scan_timed: u32,
    pub searched: u32,
    pub reads: Reads,
    pub step_reads: Reads,
}

impl Decision {
    /// Why the CPU was chosen.
    pub fn reason(&self) -> Reason {
        Reason::from_raw(self.reason)
    }

    /// Why the target was chosen.
    pub fn affine_reason(&self) -> AffineReason {
        AffineReason::from_raw(self.affine_reason)
    }
}

/// `struct wl_enqueue_in`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct EnqueueIn {
    pub(crate) cpu: u32,
    pub(crate) why: u32,
    pub(crate) this_cpu: u32,
    pub(crate) unused: u32,
    pub(crate) now_ns: u64,
}

/// `struct wl_move_in`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct MoveIn {
    pub(crate) cpu: u32,
    pub(crate) unused: u32,
    pub(crate) now_ns: u64,
}

/// `struct wl_enqueue_out`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "explained in policy.h")]
pub struct Enqueue {
    pub cpu: i32,
    pub preempt: u32,
    pub key: u64,
    pub slice_ns: u64,
    pub reads: Reads,
}

/// `struct wl_dispatch_out`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "explained in policy.h")]
pub struct Dispatch {
    pub what: u32,
    pub cpu: i32,
    pub why: u32,
    pub level: u32,
    pub max_load: u64,
    pub max_tasks: u32,
    pub pick: u32,
    pub keep_slice_ns: u64,
    pub push_cpu: i32,
    pub unused: u32,
    pub reads: Reads,
}

impl Dispatch {
    /// What to do.
    pub fn what(&self) -> DispatchDo {
        DispatchDo::from_raw(self.what)
    }

    /// Which balancing was tried, if any.
    pub fn why(&self) -> BalanceWhy {
        BalanceWhy::from_raw(self.why)
    }

    /// How the host chooses from the own queue.
    pub fn pick(&self) -> Pick {
        Pick::from_raw(self.pick)
    }
}

/// `struct wl_move_out`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "explained in policy.h")]
pub struct Move {
    /// 1: take it.
    pub r#move: u32,
    pub stop: u32,
    pub key: u64,
    pub slice_ns: u64,
}

/// `struct wl_run_out`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "explained in policy.h")]
pub struct Run {
    /// 1: take it.
    pub run: u32,
    pub unused: u32,
}

/// `struct wl_tick_out`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "explained in policy.h")]
pub struct Tick {
    pub resched: u32,
    pub balance_due: u32,
    pub kick_cpu: i32,
    pub unused: u32,
    pub reads: Reads,
}

/// `struct wl_timer_out`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "explained in policy.h")]
pub struct Timer {
    pub next_ns: u64,
    pub kick_cpu: i32,
    pub unused: u32,
    pub reads: Reads,
}

/// The C state. Its layout is C's business; Rust fills its head by [`crate::Tables::write_image`].
#[repr(C)]
pub(crate) struct Instance {
    _private: [u8; 0],
}

// Entry points return an int because BPF global functions must; it is always 0.
unsafe extern "C" {
    pub(crate) fn wl_native_instance_size(nr_cpus: u32, nr_groups: u32) -> u64;
    pub(crate) fn wl_native_state_size() -> u64;
    pub(crate) fn wl_native_traits(params: *const Params, inner: u32, out: *mut Traits);
    pub(crate) fn wl_native_seen(p: *mut Instance) -> *const Seen;
    pub(crate) fn wl_native_set_idle_mask(p: *mut Instance, cpu: u32, idle: u32);
    pub(crate) fn wl_native_idle_mask(p: *mut Instance, cpu: u32) -> u32;
    pub(crate) fn wl_native_cpu(p: *mut Instance, cpu: u32, out: *mut CpuState);
    pub(crate) fn wl_native_block(p: *mut Instance, block: u32, out: *mut Block);
    pub(crate) fn wl_native_busy_count(p: *mut Instance, level: u32, domain: u32) -> u32;
    pub(crate) fn wl_native_idle_llc(p: *mut Instance, llc: u32) -> u32;
    pub(crate) fn wl_native_init(p: *mut Instance) -> c_int;
    pub(crate) fn wl_native_select(
        p: *mut Instance,
        input: *const SelectIn,
        wakee: *mut Task,
        waker: *mut Task,
        out: *mut Decision,
    ) -> c_int;
    pub(crate) fn wl_native_scan_took(
        p: *mut Instance,
        cpu: u32,
        d: *const Decision,
        elapsed_ns: u64,
    ) -> c_int;
    pub(crate) fn wl_native_enqueue(
        p: *mut Instance,
        t: *mut Task,
        input: *const EnqueueIn,
        out: *mut Enqueue,
    ) -> c_int;
    pub(crate) fn wl_native_dispatch(p: *mut Instance, cpu: u32, now_ns: u64, out: *mut Dispatch) -> c_int;
    pub(crate) fn wl_native_may_move(
        p: *mut Instance,
        t: *mut Task,
        input: *const MoveIn,
        d: *mut Dispatch,
        out: *mut Move,
    ) -> c_int;
    pub(crate) fn wl_native_may_run(
        p: *mut Instance,
        t: *mut Task,
        cpu: u32,
        now_ns: u64,
        out: *mut Run,
    ) -> c_int;
    pub(crate) fn wl_native_tick(
        p: *mut Instance,
        cpu: u32,
        t: *mut Task,
        now_ns: u64,
        out: *mut Tick,
    ) -> c_int;
    pub(crate) fn wl_native_timer(p: *mut Instance, cpu: u32, now_ns: u64, out: *mut Timer) -> c_int;
    pub(crate) fn wl_native_taken(p: *mut Instance, cpu: u32, now_ns: u64, out: *mut Timer) -> c_int;
    pub(crate) fn wl_native_group(p: *mut Instance, slot: u32, out: *mut Group);
    pub(crate) fn wl_native_group_cpu(p: *mut Instance, slot: u32, cpu: u32, out: *mut GroupCpu);
    pub(crate) fn wl_native_group_init(p: *mut Instance, slot: u32, parent: u32, shares: u32) -> c_int;
    pub(crate) fn wl_native_group_exit(p: *mut Instance, slot: u32) -> c_int;
    pub(crate) fn wl_native_group_shares(p: *mut Instance, cpu: u32, slot: u32, shares: u32) -> c_int;
    pub(crate) fn wl_native_task_group(p: *mut Instance, t: *mut Task, slot: u32, now_ns: u64) -> c_int;
    pub(crate) fn wl_native_busy(p: *mut Instance, cpu: u32, now_ns: u64) -> c_int;
    pub(crate) fn wl_native_idle(p: *mut Instance, cpu: u32, now_ns: u64) -> c_int;
    pub(crate) fn wl_native_running(p: *mut Instance, t: *mut Task, cpu: u32, now_ns: u64) -> c_int;
    pub(crate) fn wl_native_stopping(
        p: *mut Instance,
        t: *mut Task,
        cpu: u32,
        now_ns: u64,
        runnable: u32,
    ) -> c_int;
    pub(crate) fn wl_native_quiescent(p: *mut Instance, t: *mut Task, now_ns: u64) -> c_int;
    pub(crate) fn wl_native_task_init(
        p: *mut Instance,
        t: *mut Task,
        id: u64,
        weight: u32,
        flags: u32,
    ) -> c_int;
    pub(crate) fn wl_native_task_weight(p: *mut Instance, t: *mut Task, weight: u32, now_ns: u64) -> c_int;
    pub(crate) fn wl_native_task_affinity(p: *mut Instance, t: *mut Task) -> c_int;
    pub(crate) fn wl_native_task_exit(p: *mut Instance, t: *mut Task, now_ns: u64) -> c_int;
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    unsafe extern "C" {
        static wl_native_layout: [u32; 96];
    }

    #[test]
    fn the_mirrors_have_the_layout_of_c() {
        let rust = [
            size_of::<Params>(),
            offset_of!(Params, queue),
            offset_of!(Params, capacity),
            offset_of!(Params, latency_ns),
            offset_of!(Params, tick_ns),
            offset_of!(Params, nr_groups),
            size_of::<Task>(),
            offset_of!(Task, deadline),
            offset_of!(Task, last_wakee),
            offset_of!(Task, wakee_flips),
            offset_of!(Task, place),
            offset_of!(Task, nr_allowed),
            offset_of!(Task, id),
            offset_of!(Task, util),
            offset_of!(Task, flags),
            offset_of!(Task, group),
            offset_of!(Task, hweight),
            offset_of!(Task, nr_moved),
            offset_of!(Task, allowed),
            size_of::<Reads>(),
            size_of::<SelectIn>(),
            offset_of!(SelectIn, flags),
            offset_of!(SelectIn, now_ns),
            size_of::<Decision>(),
            offset_of!(Decision, target),
            offset_of!(Decision, searched),
            offset_of!(Decision, reads),
            offset_of!(Decision, step_reads),
            size_of::<EnqueueIn>(),
            offset_of!(EnqueueIn, this_cpu),
            offset_of!(EnqueueIn, now_ns),
            size_of::<MoveIn>(),
            offset_of!(MoveIn, now_ns),
            size_of::<Enqueue>(),
            offset_of!(Enqueue, key),
            offset_of!(Enqueue, reads),
            size_of::<Dispatch>(),
            offset_of!(Dispatch, level),
            offset_of!(Dispatch, max_load),
            offset_of!(Dispatch, max_tasks),
            offset_of!(Dispatch, keep_slice_ns),
            offset_of!(Dispatch, push_cpu),
            offset_of!(Dispatch, reads),
            size_of::<Move>(),
            offset_of!(Move, key),
            offset_of!(Move, slice_ns),
            size_of::<Run>(),
            size_of::<Tick>(),
            offset_of!(Tick, kick_cpu),
            offset_of!(Tick, reads),
            size_of::<Timer>(),
            offset_of!(Timer, kick_cpu),
            offset_of!(Timer, reads),
            size_of::<Group>(),
            offset_of!(Group, home),
            size_of::<GroupCpu>(),
            offset_of!(GroupCpu, generation),
            offset_of!(GroupCpu, part),
            offset_of!(GroupCpu, running),
            size_of::<CpuState>(),
            offset_of!(CpuState, curr_weight),
            offset_of!(CpuState, curr_start_ns),
            offset_of!(CpuState, balance_marked),
            offset_of!(CpuState, idle_since_ns),
            offset_of!(CpuState, next_balance_ns),
            offset_of!(CpuState, balance_failed),
            offset_of!(CpuState, newly_idle_left),
            offset_of!(CpuState, curr_deadline),
            offset_of!(CpuState, last_buddy),
            offset_of!(CpuState, tried_why),
            offset_of!(CpuState, taken_turns),
            offset_of!(CpuState, has_idle_cores),
            offset_of!(CpuState, nr_blocks),
            offset_of!(CpuState, util),
            offset_of!(CpuState, push_due_ns),
            offset_of!(CpuState, picked_ns),
            offset_of!(CpuState, first),
            offset_of!(CpuState, walked_ns),
            offset_of!(CpuState, probe_far),
            offset_of!(CpuState, others_wait),
            size_of::<Traits>(),
            offset_of!(Traits, straight),
            offset_of!(Traits, load_has_groups),
            size_of::<Block>(),
            offset_of!(Block, recent_period),
            // What write_image() writes is the head of struct wl_policy; the next field begins a line of its own.
            crate::Tables::image_len(MAX_CPUS).next_multiple_of(64),
            size_of::<Seen>(),
            offset_of!(Seen, taken),
            offset_of!(Seen, updated),
            offset_of!(Seen, updated_from),
            offset_of!(Seen, steps),
            Seen::FIRST_BLOCK,
            Seen::FIRST_LLC,
            Seen::FIRST_IDLE_LLCS,
            MAX_CPUS,
            MAX_LEVELS,
        ];
        // SAFETY: a constant array of that many elements.
        let c = unsafe { &wl_native_layout };
        assert_eq!(rust.map(|value| value as u32), *c);
    }
}
