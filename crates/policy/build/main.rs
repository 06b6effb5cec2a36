// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes the Rust side of policy/*.h, and compiles policy/ for this machine, both with crates/mirror.

mod axes;
mod events;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use wakelab_mirror::rust::{Names, Writer};
use wakelab_mirror::{Headers, check, compiler};

/// The headers that hosts need, relative to policy/. They include what they need themselves.
const HEADERS: [&str; 4] = ["state.h", "event.h", "traits.h", "host/seen.h"];

/// Structs that Rust has, besides those that they contain.
const STRUCTS: [&str; 20] = [
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

/// Enumerations that Rust has, besides those of the axes.
const ENUMS: [&str; 8] = [
    "wl_reason",
    "wl_affine_reason",
    "wl_enqueue_why",
    "wl_dispatch_do",
    "wl_pick",
    "wl_balance_why",
    "wl_cpu_state",
    "wl_step",
];

/// Constants: the C name, the Rust name and type.
const CONSTANTS: [(&str, &str, &str); 17] = [
    ("WL_MAX_CPUS", "MAX_CPUS", "usize"),
    ("WL_MAX_LEVELS", "MAX_LEVELS", "usize"),
    ("WL_MAX_THREADS", "MAX_THREADS", "usize"),
    ("WL_MAX_GROUPS", "MAX_GROUPS", "usize"),
    ("WL_GROUP_DEPTH", "GROUP_DEPTH", "u32"),
    ("WL_WEIGHT_NICE_0", "WEIGHT_NICE_0", "u32"),
    ("WL_LOCAL_DISTANCE", "LOCAL_DISTANCE", "u32"),
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

/// Rust names that do not follow from C's.
const NAMES: Names<'_> = Names {
    irregular: &[("wl_cpu", "CpuState"), ("wl_cpu_state", "CpuActivity"), ("wl_seen_taken", "Taken")],
    foreign: &[],
};

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), Box<dyn Error>> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let policy = here.join("../../policy").canonicalize()?;
    println!("cargo:rerun-if-changed={}", policy.display());
    println!("cargo:rerun-if-changed=build");
    mirror(&policy, &out)?;
    compile(&policy, &out);
    Ok(())
}

/// Writes mirror.rs and mirror_check.h.
fn mirror(policy: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let roots = HEADERS.map(|header| policy.join(header));
    let read = |max_cpus| Headers::read(&roots, &[policy.to_owned()], &[("WL_MAX_CPUS", max_cpus)]);
    let headers = read(4096)?;
    let mut writer = Writer::new(&headers, NAMES);
    for (c, name, of) in CONSTANTS {
        writer.constant(c, name, of)?;
    }
    for c in ENUMS {
        writer.enumeration(c, "", &|_| String::new())?;
    }
    for c in STRUCTS.into_iter().chain(["wl_seen"]) {
        writer.structure(c)?;
    }
    events::write(&mut writer, &headers)?;
    writer.table("wl_policy")?;
    axes::write(&mut writer, &headers, policy)?;
    axes::write_places(&mut writer, &headers, &read(1024)?)?;
    fs::write(out.join("mirror.rs"), writer.finish())?;
    let constants = CONSTANTS.map(|(c, ..)| c);
    fs::write(out.join("mirror_check.h"), check::assertions(&headers, &constants)?)?;
    Ok(())
}

fn compile(policy: &Path, out: &Path) {
    println!("cargo:rerun-if-changed=native.c");
    compiler(policy, out).file("native.c").compile("wakelab_policy");
}
