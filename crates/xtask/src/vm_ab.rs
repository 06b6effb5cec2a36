// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask vm ab`: `wakelab ab` with the real loader on the test kernel (vm/ab.sh). Tests it, or with arguments
//! runs it once and prints its table.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;

use crate::command;
use crate::package;
use crate::vm_guest::{Accel, Guest, Tally, build_loader, build_wakelab};

/// Arguments of `cargo xtask vm ab`.
#[derive(Args)]
pub(crate) struct AbArgs {
    /// CPUs of the guest, as QEMU's -smp has them.
    #[arg(long, value_name = "CPUS", default_value = "4,sockets=2,cores=1,threads=2")]
    smp: String,
    /// Run in real time, with one thread of this machine per CPU; else in virtual time, a nanosecond per instruction.
    #[arg(long)]
    real_time: bool,
    /// Use both programs of the Debian package (cargo xtask package) instead of builds for tests.
    #[arg(long)]
    package: bool,
    /// Give up after SECONDS of wall time.
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    limit: u64,
    /// Instead of testing it, run `wakelab ab` with these arguments, and print its table; the guest has busybox and
    /// hackbench.
    #[arg(value_name = "ARGUMENT", last = true)]
    arguments: Vec<String>,
}

/// The steps that vm/ab.sh reports without arguments.
const STEPS: [&str; 5] = ["refused", "table", "ejected", "failing", "interrupted"];

/// `cargo xtask vm ab`.
pub(crate) fn run(args: &AbArgs) -> Result<()> {
    let programs = if args.package {
        let folder = package::programs()?;
        vec![folder.join("scx_wakelab"), folder.join("wakelab")]
    } else {
        vec![build_loader()?, stripped_wakelab()?]
    };
    let quoted = |argument: &String| format!("'{}'", argument.replace('\'', r"'\''"));
    let arguments = args.arguments.iter().map(quoted).collect::<Vec<_>>().join(" ");
    let guest = Guest {
        name: "ab",
        smp: &args.smp,
        accel: if args.real_time { Accel::Multi } else { Accel::Icount { shift: 0 } },
        memory: "1G",
        kernel_arguments: "",
        programs,
        init: "ab.sh",
        files: if arguments.is_empty() { Vec::new() } else { vec![("arguments", arguments)] },
        limit: Duration::from_secs(args.limit),
    };
    let steps = if args.arguments.is_empty() { &STEPS[..] } else { &["ab"] };
    let start = Instant::now();
    let mut tally = Tally::new("ab");
    let ran = guest.run(|line| match tally.line(line) {
        Some(("out", line)) => println!("{line}"),
        Some(_) => tally.unknown(line),
        None => {}
    });
    tally.guest_ended(ran, steps);
    tally.finish(&format!("{} s in the guest", start.elapsed().as_secs()))
}

/// `wakelab` without what only debuggers read.
fn stripped_wakelab() -> Result<PathBuf> {
    let folder = command::target_folder()?.join("vm/bin");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let stripped = folder.join("wakelab");
    command::run(Command::new("strip").arg("-o").arg(&stripped).arg(build_wakelab()?))?;
    Ok(stripped)
}
