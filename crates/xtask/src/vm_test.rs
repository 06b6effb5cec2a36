// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask vm test`: what must hold on a live kernel under any policy: no task is lost or late, and the kernel
//! always gets its machine back (vm/test.sh has the steps).
//!
//! A guest is booted once for all steps that it suits. In virtual time, bounds of time are meaningful on any host. With
//! one thread of the host per CPU there are races, and no bound is meaningful.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::command;
use crate::package;
use crate::vm_guest::{Accel, Guest, Tally, build_guest_work, build_loader};

/// Arguments of `cargo xtask vm test`.
#[derive(Args)]
pub(crate) struct TestArgs {
    /// The machine of all guests, as QEMU's -smp has it; by default 4 CPUs, 8 for fair groups, and 2 where every CPU is
    /// a thread of this machine.
    #[arg(long, value_name = "SMP")]
    smp: Option<String>,
    /// Only this guest's steps: virtual-time, races, two-llcs, fair-groups, stress or soak.
    #[arg(long, value_name = "GUEST")]
    guest: Option<String>,
    /// Only these steps.
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    only: Vec<String>,
    /// The policy, in place of the steps' own.
    #[arg(long, value_name = "SPEC")]
    policy: Option<String>,
    /// All steps in virtual time: slower, but independent of how busy this machine is.
    #[arg(long)]
    icount: bool,
    /// Length of a measurement of the step `fair`, in the guest's time; shorter ones miss its bounds.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 20_000)]
    fair_ms: u64,
    /// Length of the step `fuzz`.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    fuzz_s: u64,
    /// Loads and unloads of the step `stress-loads`.
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    stress_loads: u64,
    /// Length of the step `soak`, in the guest's time.
    #[arg(long, value_name = "HOURS", default_value_t = 1)]
    soak_h: u64,
    /// Use the loader of the Debian package (cargo xtask package).
    #[arg(long)]
    package: bool,
    /// Give up after SECONDS of wall time.
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    limit: u64,
}

/// In virtual time a busy CPU hands over to the next one where any timer is due. With ticks of all CPUs at the same
/// time each of 8 CPUs would have one in 8 ms.
const TICKS_APART: &str = "tsc=reliable skew_tick=1";

/// A guest, and the steps of vm/test.sh that it is for.
struct Kind {
    what: &'static str,
    accel: Accel,
    smp: &'static str,
    policy: &'static str,
    kernel_arguments: &'static str,
    /// For vm/test.sh: shell variables.
    bounds: &'static str,
    steps: &'static [&'static str],
}

const KINDS: &[Kind] = &[
    Kind {
        what: "virtual-time",
        accel: Accel::Icount { shift: 0 },
        smp: "4,sockets=2,cores=1,threads=2",
        kernel_arguments: TICKS_APART,
        policy: "wakelab",
        bounds: "within_ms=100\nat_least=90\n",
        steps: &[
            "pinned",
            "affinity",
            "forks",
            "cgroups",
            "real-time",
            "gap",
            "partial",
            "waits",
            "crowd",
            "stats",
            "first-cgroup",
            "again",
            "yield",
            "stall",
            "limits",
        ],
    },
    Kind {
        what: "races",
        accel: Accel::Multi,
        // More CPUs would take turns on this machine's, and loading is mostly the verifier's work.
        smp: "2",
        // One that loads in half of the time of the other, and has a timer that must be gone after each.
        policy: "linux-4.15+groups=shares",
        kernel_arguments: "",
        // No bounds in time: they would be about the host.
        bounds: "reloads=20\nmoments='0 20 40 60 80 90 100 110'\n",
        steps: &["hotplug", "reload", "kill"],
    },
    Kind {
        what: "two-llcs",
        accel: Accel::Icount { shift: 0 },
        smp: "8,sockets=2,cores=4,threads=1",
        kernel_arguments: TICKS_APART,
        policy: "wakelab",
        bounds: "",
        steps: &["forbidden"],
    },
    Kind {
        what: "fair-groups",
        accel: Accel::Icount { shift: 0 },
        // The published machine, as far as it is known. Where groups meet more levels, the published rule is further
        // off on any host.
        smp: "8,sockets=1,cores=8,threads=1",
        kernel_arguments: TICKS_APART,
        policy: "wakelab",
        bounds: "",
        steps: &["fair"],
    },
    Kind {
        what: "stress",
        accel: Accel::Multi,
        smp: "2",
        policy: "wakelab",
        kernel_arguments: "",
        bounds: "",
        steps: &["fuzz", "stress-loads"],
    },
    Kind {
        what: "soak",
        accel: Accel::Icount { shift: 0 },
        smp: "2",
        policy: "wakelab",
        kernel_arguments: TICKS_APART,
        bounds: "",
        steps: &["soak"],
    },
];

/// How many times a guest is booted at most, if steps are void.
const MOST_BOOTS: u32 = 5;

/// The steps under stress-ng.
const STRESSED: [&str; 2] = ["fuzz", "stress-loads"];

/// What vm/test.sh sources: bounds and lengths.
fn bounds(kind: &Kind, args: &TestArgs) -> String {
    let TestArgs { fair_ms, fuzz_s, stress_loads, soak_h, .. } = args;
    format!(
        "{}fair_ms={fair_ms}\nfuzz_s={fuzz_s}\nstress_loads={stress_loads}\nsoak_h={soak_h}\n",
        kind.bounds
    )
}

/// `cargo xtask vm test`.
pub(crate) fn run(args: &TestArgs) -> Result<()> {
    let all = || KINDS.iter().flat_map(|kind| kind.steps).copied();
    if let Some(unknown) = args.only.iter().find(|only| !all().any(|name| name == *only)) {
        bail!("no step `{unknown}`; there are: {}", all().collect::<Vec<_>>().join(", "));
    }
    if let Some(unknown) = args.guest.as_ref().filter(|guest| !KINDS.iter().any(|kind| kind.what == **guest))
    {
        let guests: Vec<&str> = KINDS.iter().map(|kind| kind.what).collect();
        bail!("no guest `{unknown}`; there are: {}", guests.join(", "));
    }
    let start = Instant::now();
    // perl is there for one system call that no program of the guest makes.
    let perl = command::find_program(&["perl"]).context("no perl (perl-base)")?;
    let loader = if args.package { package::programs()?.join("scx_wakelab") } else { build_loader()? };
    let programs = vec![loader, build_guest_work()?, perl];
    let stress = command::find_program(&["stress-ng"]);
    println!("test: programs after {} s", start.elapsed().as_secs());

    let start = Instant::now();
    let mut tally = Tally::new("test");
    for kind in KINDS {
        let is_wanted = |name: &&str| args.only.is_empty() || args.only.iter().any(|only| only == name);
        let names: Vec<&str> = kind.steps.iter().copied().filter(is_wanted).collect();
        if names.is_empty() || args.guest.as_ref().is_some_and(|guest| guest != kind.what) {
            continue;
        }
        let mut programs = programs.clone();
        if names.iter().any(|name| STRESSED.contains(name)) {
            programs.push(stress.clone().context("no stress-ng (stress-ng)")?);
        }
        run_kind(kind, args, &programs, names, &mut tally);
    }
    tally.finish(&format!("{} s in the guests", start.elapsed().as_secs()))
}

/// Boots a guest for these steps; and again for those that were void.
fn run_kind(kind: &Kind, args: &TestArgs, programs: &[PathBuf], mut names: Vec<&str>, tally: &mut Tally) {
    let policy = args.policy.as_deref().unwrap_or(kind.policy);
    let accel =
        if args.icount && kind.accel == Accel::Multi { Accel::Icount { shift: 0 } } else { kind.accel };
    for _ in 0..MOST_BOOTS {
        let guest = Guest {
            name: kind.what,
            smp: args.smp.as_deref().unwrap_or(kind.smp),
            accel,
            memory: "1G",
            kernel_arguments: kind.kernel_arguments,
            programs: programs.to_vec(),
            init: "test.sh",
            files: vec![
                ("steps", names.join("\n") + "\n"),
                ("policy", format!("{policy}\n")),
                ("bounds", bounds(kind, args)),
            ],
            limit: Duration::from_secs(args.limit),
        };
        println!("{}, {policy}: {}", kind.what, names.join(", "));
        let ran = guest.run(|line| {
            if tally.line(line).is_some() {
                tally.unknown(line);
            }
        });
        let again = tally.take_void(&names);
        if again.is_empty() {
            tally.guest_ended(ran, &names);
            return;
        }
        names = again;
    }
    tally.step(&names.join(", "), Some("void each time: this machine is too busy to tell"));
}
