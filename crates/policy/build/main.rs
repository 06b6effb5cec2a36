// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes the Rust side of policy/*.h, and compiles policy/ for this machine, both with crates/mirror.

mod axes;
mod events;

use std::error::Error;
use std::process::ExitCode;
use std::slice::from_ref;

use wakelab_mirror::rust::Names;
use wakelab_mirror::script::{self, Constant, Places};
use wakelab_mirror::{Headers, compiler};

/// The headers that hosts need, relative to policy/; they include others.
const HEADERS: [&str; 4] = ["state.h", "event.h", "traits.h", "host/seen.h"];

/// Structs that Rust gets, apart from the structs that they contain.
const STRUCTS: [&str; 21] = [
    "wl_params",
    "wl_reads",
    "wl_task",
    "wl_select_in",
    "wl_decision",
    "wl_enqueue_in",
    "wl_enqueue_out",
    "wl_dispatch_out",
    "wl_move_in",
    "wl_move_out",
    "wl_run_out",
    "wl_sleep_out",
    "wl_tick_out",
    "wl_timer_out",
    "wl_event",
    "wl_moved",
    "wl_traits",
    "wl_cpu",
    "wl_block",
    "wl_group",
    "wl_group_cpu",
];

/// Enumerations that Rust gets, apart from those of the axes.
const ENUMS: [&str; 10] = [
    "wl_reason",
    "wl_affine_reason",
    "wl_enqueue_why",
    "wl_preempt",
    "wl_straight",
    "wl_dispatch_do",
    "wl_pick",
    "wl_balance_why",
    "wl_cpu_state",
    "wl_step",
];

const CONSTANTS: [Constant; 18] = [
    ("WL_MAX_CPUS", "MAX_CPUS", "usize"),
    ("WL_MAX_LEVELS", "MAX_LEVELS", "usize"),
    ("WL_MAX_THREADS", "MAX_THREADS", "usize"),
    ("WL_MAX_GROUPS", "MAX_GROUPS", "usize"),
    ("WL_GROUP_DEPTH", "GROUP_DEPTH", "u32"),
    ("WL_WEIGHT_NICE_0", "WEIGHT_NICE_0", "u32"),
    ("WL_LOCAL_DISTANCE", "LOCAL_DISTANCE", "u32"),
    ("WL_MAX_BEFORE", "MAX_BEFORE", "usize"),
    ("WL_TASK_NEW", "TASK_NEW", "u32"),
    ("WL_TASK_KTHREAD", "TASK_KTHREAD", "u32"),
    ("WL_WAKE_SYNC", "WAKE_SYNC", "u32"),
    ("WL_WAKE_FORK", "WAKE_FORK", "u32"),
    ("WL_WAKE_EXEC", "WAKE_EXEC", "u32"),
    ("WL_WAKE_IRQ", "WAKE_IRQ", "u32"),
    ("WL_LINE_COUNTER", "LINE_COUNTER", "usize"),
    ("WL_LINE_BLOCK", "LINE_BLOCK", "usize"),
    ("WL_LINE_LLC", "LINE_LLC", "usize"),
    ("WL_LINE_IDLE_LLCS", "LINE_IDLE_LLCS", "usize"),
];

/// Rust names that do not follow from C names.
const NAMES: Names<'_> = Names {
    irregular: &[("wl_cpu", "CpuState"), ("wl_cpu_state", "CpuActivity"), ("wl_seen_taken", "Taken")],
    foreign: &[],
};

fn main() -> ExitCode {
    script::run(&["build", "native.c"], build)
}

fn build(places: &Places) -> Result<(), Box<dyn Error>> {
    let policy = &places.policy;
    let roots = HEADERS.map(|header| policy.join(header));
    let read = |max_cpus| Headers::read(&roots, from_ref(policy), &[("WL_MAX_CPUS", max_cpus)]);
    let (headers, few) = (read(4096)?, read(1024)?);
    places.mirror(&headers, NAMES, &CONSTANTS, |writer| {
        for c in ENUMS {
            writer.enumeration(c, "", &|_| String::new())?;
        }
        for c in STRUCTS.into_iter().chain(["wl_seen"]) {
            writer.structure(c)?;
        }
        events::write(writer, &headers)?;
        writer.table("wl_policy")?;
        axes::write(writer, &headers, policy)?;
        axes::write_places(writer, &headers, &few)
    })?;
    compiler(policy, &places.out).file("native.c").compile("wakelab_policy");
    Ok(())
}
