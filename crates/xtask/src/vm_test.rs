// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask vm test`: what must hold on a live kernel whatever the policy is: no task is lost or late, and the kernel always gets
//! its machine back (vm/test.sh has the steps).
//!
//! Two guests, one boot each. One runs in virtual time, for steps with a bound in time; the other has a thread of the host for each
//! CPU, for steps that look for races, and no bound there means anything.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;

use crate::vm_guest::{Accel, Guest, Tally, build_guest_work, build_loader};

/// Arguments of `cargo xtask vm test`.
#[derive(Args)]
pub(crate) struct TestArgs {
    /// The machine of both guests, as QEMU's -smp has it; by default 8 CPUs in virtual time, and 4 for races.
    #[arg(long, value_name = "SMP")]
    smp: Option<String>,
    /// Only the steps whose name contains this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// The policy.
    #[arg(long, value_name = "SPEC", default_value = "wakelab+groups=exact")]
    policy: String,
    /// All steps in virtual time: slower, but independent of how busy this machine is.
    #[arg(long)]
    icount: bool,
    /// Give up after so many seconds in a guest.
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    limit: u64,
}

/// A step of vm/test.sh, and whether it is one for virtual time.
const STEPS: &[(&str, bool)] = &[
    ("pinned", true),
    ("affinity", true),
    ("forks", true),
    ("cgroups", true),
    ("stall", true),
    ("hotplug", false),
    ("reload", false),
    ("kill", false),
];

/// `cargo xtask vm test`.
pub(crate) fn run(args: &TestArgs) -> Result<()> {
    let steps: Vec<(&str, bool)> =
        STEPS.iter().copied().filter(|(name, _)| name.contains(&args.only)).collect();
    if steps.is_empty() {
        let names: Vec<&str> = STEPS.iter().map(|(name, _)| *name).collect();
        bail!("no step contains `{}`; there are: {}", args.only, names.join(", "));
    }
    let start = Instant::now();
    let programs = vec![build_loader()?, build_guest_work()?];
    println!(
        "test: {} under {}, programs after {} s",
        count(steps.len()),
        args.policy,
        start.elapsed().as_secs()
    );

    let start = Instant::now();
    let mut tally = Tally::default();
    for is_virtual in [true, false] {
        let of_guest = |step: &&(&str, bool)| (step.1 || args.icount) == is_virtual;
        let names: Vec<&str> = steps.iter().filter(of_guest).map(|(name, _)| *name).collect();
        if names.is_empty() {
            continue;
        }
        let (accel, smp, bounds) = match is_virtual {
            true => {
                (Accel::Icount { shift: 0 }, "8,sockets=2,cores=2,threads=2", "within_ms=100\nat_least=90\n")
            }
            // Whatever a bound would say here, it would say of the host.
            false => (Accel::Multi, "4,sockets=2,cores=1,threads=2", "within_ms=60000\nat_least=0\n"),
        };
        let guest = Guest {
            name: "test",
            smp: args.smp.as_deref().unwrap_or(smp),
            accel,
            memory: "1G",
            kernel_arguments: "",
            programs: programs.clone(),
            init: "test.sh",
            files: vec![
                ("steps", names.join("\n") + "\n"),
                ("policy", args.policy.clone() + "\n"),
                ("bounds", bounds.to_owned()),
            ],
            limit: Duration::from_secs(args.limit),
        };
        println!("{}: {}", if is_virtual { "virtual time" } else { "races" }, names.join(", "));
        let ran = guest.run(|line| match tally.line(line) {
            Some(("ready", machine)) => println!("test: the guest is up: {machine}"),
            Some(_) => tally.step("console", Some(&format!("unknown report `{line}`"))),
            None => {}
        });
        tally.guest_ended(ran, &names);
    }
    tally.finish("test", &format!("{} s in the guests", start.elapsed().as_secs()))
}

fn count(steps: usize) -> String {
    if steps == 1 { "1 step".into() } else { format!("{steps} steps") }
}
