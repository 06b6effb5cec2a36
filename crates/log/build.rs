// SPDX-License-Identifier: GPL-2.0-or-later
//! Compiles the policy in the layout of a BPF build, and writes the Rust side of a log's records, both with
//! crates/mirror.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use wakelab_mirror::rust::{Names, Writer};
use wakelab_mirror::{Headers, check, compiler};

/// CPUs of a BPF build at most: what base.h says there.
const MAX_CPUS: i128 = 1024;

const CONSTANTS: [(&str, &str, &str); 6] = [
    ("WL_MAX_CPUS", "MAX_CPUS", "usize"),
    ("WL_LOG_UNIT", "LOG_UNIT", "usize"),
    ("WL_LOG_ANSWER", "LOG_ANSWER", "usize"),
    ("WL_LOG_CUT", "LOG_CUT", "u16"),
    ("WL_LOG_HAS_TASK", "LOG_HAS_TASK", "u16"),
    ("WL_LOG_HAS_WAKER", "LOG_HAS_WAKER", "u16"),
];

/// The crate wakelab-policy has the event; all else that a log needs of the policy is tables in the other layout.
const NAMES: Names<'_> =
    Names { irregular: &[("wl_logged_found", "Found")], foreign: &[("wl_event", "wakelab_policy::Event")] };

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
    for file in ["logged.c", "logged.h", "build.rs"] {
        println!("cargo:rerun-if-changed={file}");
    }
    mirror(&here, &policy, &out)?;
    compiler(&policy, &out).file("logged.c").compile("wakelab_log");
    Ok(())
}

/// Writes mirror.rs and mirror_check.h.
fn mirror(here: &Path, policy: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let roots = [here.join("logged.h")];
    let headers = Headers::read(&roots, &[policy.to_owned()], &[("WL_MAX_CPUS", MAX_CPUS)])?;
    let mut writer = Writer::new(&headers, NAMES);
    for (c, name, of) in CONSTANTS {
        writer.constant(c, name, of)?;
    }
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
    fs::write(out.join("mirror.rs"), writer.finish())?;
    let constants = CONSTANTS.map(|(c, ..)| c);
    fs::write(out.join("mirror_check.h"), check::assertions(&headers, &constants)?)?;
    Ok(())
}
