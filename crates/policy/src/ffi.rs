// SPDX-License-Identifier: GPL-2.0-or-later
//! The entry points of native.c.
#![allow(unsafe_code)]

use std::ffi::c_int;

use crate::events::Answer;
use crate::mirror::{
    Block, CpuState, Decision, Dispatch, Enqueue, EnqueueIn, Event, Group, GroupCpu, Move, MoveIn, Params,
    Run, Seen, SelectIn, Sleep, Task, Tick, Timer, Traits,
};

/// The C state. Only C knows its layout; Rust fills in its head by [`crate::Tables::write_image`].
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
    pub(crate) fn wl_native_set_prices(
        p: *mut Instance,
        hit_ps: *const u64,
        miss_ps: *const u64,
        lines_of_cpu: u32,
    );
    pub(crate) fn wl_native_set_idle_mask(p: *mut Instance, cpu: u32, idle: u32);
    pub(crate) fn wl_native_idle_mask(p: *mut Instance, cpu: u32) -> u32;
    pub(crate) fn wl_native_cpu(p: *mut Instance, cpu: u32, out: *mut CpuState);
    pub(crate) fn wl_native_block(p: *mut Instance, block: u32, out: *mut Block);
    pub(crate) fn wl_native_busy_count(p: *mut Instance, level: u32, domain: u32) -> u32;
    pub(crate) fn wl_native_idle_llc(p: *mut Instance, llc: u32) -> u32;
    pub(crate) fn wl_native_init(p: *mut Instance) -> c_int;
    pub(crate) fn wl_native_apply(
        p: *mut Instance,
        e: *const Event,
        t: *mut Task,
        waker: *mut Task,
        answer: *mut Answer,
    ) -> c_int;
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
    pub(crate) fn wl_native_may_run_told(
        p: *mut Instance,
        cpu: u32,
        key: u64,
        slice_ns: u64,
        weight: u32,
        now_ns: u64,
    ) -> c_int;
    pub(crate) fn wl_native_chooses(p: *mut Instance, cpu: u32, now_ns: u64) -> c_int;
    pub(crate) fn wl_native_overdue(
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
    pub(crate) fn wl_native_sleep(p: *mut Instance, t: *mut Task, now_ns: u64, out: *mut Sleep) -> c_int;
    pub(crate) fn wl_native_yield(p: *mut Instance, t: *mut Task, cpu: u32, now_ns: u64) -> c_int;
    pub(crate) fn wl_native_quiescent(p: *mut Instance, t: *mut Task, now_ns: u64) -> c_int;
    pub(crate) fn wl_native_task_init(
        p: *mut Instance,
        t: *mut Task,
        id: u64,
        weight: u32,
        flags: u32,
    ) -> c_int;
    pub(crate) fn wl_native_task_weight(p: *mut Instance, t: *mut Task, weight: u32, now_ns: u64) -> c_int;
    pub(crate) fn wl_native_task_slice(p: *mut Instance, t: *mut Task, slice_ns: u32) -> c_int;
    pub(crate) fn wl_native_task_affinity(p: *mut Instance, t: *mut Task) -> c_int;
    pub(crate) fn wl_native_task_exit(p: *mut Instance, t: *mut Task, now_ns: u64) -> c_int;
}
