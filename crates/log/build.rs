// SPDX-License-Identifier: GPL-2.0-or-later
//! Compiles the policy in the layout of a BPF build, and writes the Rust side of a log's records, both with
//! crates/mirror.

use std::error::Error;
use std::process::ExitCode;
use std::slice::from_ref;

use wakelab_mirror::rust::Names;
use wakelab_mirror::script::{self, Constant, Places};
use wakelab_mirror::{Headers, compiler};

/// The most CPUs of a BPF build: the value in base.h.
const MAX_CPUS: i128 = 1024;

const CONSTANTS: [Constant; 6] = [
    ("WL_MAX_CPUS", "MAX_CPUS", "usize"),
    ("WL_LOG_UNIT", "LOG_UNIT", "usize"),
    ("WL_LOG_ANSWER", "LOG_ANSWER", "usize"),
    ("WL_LOG_CUT", "LOG_CUT", "u16"),
    ("WL_LOG_HAS_TASK", "LOG_HAS_TASK", "u16"),
    ("WL_LOG_HAS_WAKER", "LOG_HAS_WAKER", "u16"),
];

/// wakelab-policy already has the event. A log needs the rest of the policy only as tables, in the BPF layout.
const NAMES: Names<'_> =
    Names { irregular: &[("wl_logged_found", "Found")], foreign: &[("wl_event", "wakelab_policy::Event")] };

fn main() -> ExitCode {
    script::run(&["logged.c", "logged.h", "build.rs"], build)
}

fn build(places: &Places) -> Result<(), Box<dyn Error>> {
    let roots = [places.here.join("logged.h")];
    let headers = Headers::read(&roots, from_ref(&places.policy), &[("WL_MAX_CPUS", MAX_CPUS)])?;
    places.mirror(&headers, NAMES, &CONSTANTS, |writer| {
        writer.enumeration("wl_note_kind", "", &|_| String::new())?;
        for c in ["wl_log_head", "wl_note", "wl_logged_found"] {
            writer.structure(c)?;
        }
        for c in ["wl_policy", "wl_task", "wl_group", "wl_group_cpu"] {
            writer.table(c)?;
            let size = headers.find(c).map_or(0, |found| found.size);
            writer.push(&format!(
                "/// Bytes of `struct {c}`.\npub(crate) const {}_BYTES: usize = {size};\n",
                c.to_uppercase()
            ));
        }
        Ok(())
    })?;
    compiler(&places.policy, &places.out).file("logged.c").compile("wakelab_log");
    Ok(())
}
