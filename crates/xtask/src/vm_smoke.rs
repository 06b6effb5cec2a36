// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask vm smoke`: boots the test kernel with 8 CPUs, loads policies that have every value of every axis among
//! them, runs work under each (vm/smoke.sh), and counts what the guest reports on its serial console.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;

use crate::command;
use crate::vm_guest::{Accel, Guest, Tally, build_loader};

/// Arguments of `cargo xtask vm smoke`.
#[derive(Args)]
pub(crate) struct SmokeArgs {
    /// Only policies whose name contains this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Give up after SECONDS of wall time.
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    limit: u64,
    /// In virtual time, a nanosecond an instruction: slower, but independent of how busy this machine is.
    #[arg(long)]
    icount: bool,
}

const SMP: &str = "8,sockets=2,cores=2,threads=2";
/// What the loader must detect in a guest of [`SMP`].
const TOPOLOGY: &str = "8 CPUs, 4 cores of 2, 2 LLCs of 4, 1 node";

/// `cargo xtask vm smoke`.
pub(crate) fn run(args: &SmokeArgs) -> Result<()> {
    let start = Instant::now();
    let loader = build_loader()?;
    let listed = command::text(Command::new(&loader).arg("--list-policies"))?;
    // Without room for cgroups the policy wakelab has another queue.
    let all = listed.lines().chain(["wakelab --cgroups 0"]);
    let policies: Vec<&str> = all.filter(|name| name.contains(&args.only)).collect();
    if policies.is_empty() {
        bail!("no policy contains `{}`", args.only);
    }
    println!("smoke: {} policies, loader after {} s", policies.len(), start.elapsed().as_secs());

    let guest = Guest {
        name: "smoke",
        smp: SMP,
        accel: if args.icount { Accel::Icount { shift: 0 } } else { Accel::Multi },
        memory: "1G",
        kernel_arguments: "",
        programs: vec![loader],
        init: "smoke.sh",
        files: vec![("policies", policies.join("\n") + "\n")],
        limit: Duration::from_secs(args.limit),
    };
    let start = Instant::now();
    let mut tally = Tally::new("smoke");
    let mut begun = 0;
    let ran = guest.run(|line| match tally.line(line) {
        Some(("policy", spec)) => {
            begun += 1;
            println!("{spec}");
        }
        Some(("topology", found)) => {
            let error = (found != TOPOLOGY).then(|| format!("detected `{found}`, not `{TOPOLOGY}`"));
            tally.step("topology", error.as_deref());
        }
        Some(_) => tally.unknown(line),
        None => {}
    });
    if ran.is_ok() && begun != policies.len() {
        tally.step("guest", Some(&format!("ran {begun} of {} policies", policies.len())));
    }
    tally.guest_ended(ran, &[]);
    tally.finish(&format!("{} s in the guest", start.elapsed().as_secs()))
}
