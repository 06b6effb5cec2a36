// SPDX-License-Identifier: GPL-2.0-only
//! The loader of `scx_wakelab`: puts a policy and the machine's topology into the BPF side, attaches it as the scheduler
//! of this kernel, and detaches it at SIGINT or SIGTERM.
//!
//! The kernel is safe from this program: if it dies, stalls or makes a mistake, the kernel detaches the scheduler and goes
//! on with its own (docs/scheduler.md). All that is left to do here is to say why, and to leave with an exit code that is
//! not 0.

mod bpf_skel;
mod machine;
mod scheduler;
mod stats;
mod verifier;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use libbpf_rs::PrintLevel;
use wakelab_policy::PolicySpec;

/// Schedules this machine by a wakelab policy, through sched_ext. Ends at SIGINT, and Linux's own scheduler goes on.
#[derive(Parser)]
#[command(name = "scx_wakelab", version, disable_version_flag = true)]
struct Arguments {
    /// A named policy, with axes overridden: `linux-4.15+idle=smt-balance`.
    #[arg(long, value_name = "SPEC", default_value = "linux-4.15")]
    policy: PolicySpec,
    /// Take the topology from a machine file or preset, not from /sys; it must have this machine's CPUs.
    #[arg(long, value_name = "FILE")]
    machine: Option<String>,
    /// Take the topology from the tree below this folder, as /sys has it.
    #[arg(long, value_name = "FOLDER", default_value = "/sys", hide = true)]
    sysfs: PathBuf,
    /// The least slice; one turn of all tasks of a CPU is eight of them, as in Linux.
    #[arg(long, value_name = "MICROSECONDS", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    slice_us: Option<u64>,
    /// Print what was decided, every so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    stats: Option<u64>,
    /// Bytes that the kernel's dump after an error may take; 0: its default.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    exit_dump_len: u32,
    /// Print the levels of the machine as the policy sees them.
    #[arg(long, short)]
    verbose: bool,
    /// For measurements: what to compare with (docs/live-bench.md).
    #[arg(long, value_name = "WHAT", hide = true)]
    bench: Option<Bench>,
    /// Print policies to try: the named ones, and more until every value of every axis is in one.
    #[arg(long)]
    list_policies: bool,
    /// Misbehave, to test what the kernel does then (bpf/break.bpf.h); refused unless WAKELAB_ALLOW_BREAK is set, too.
    #[arg(long = "break", value_name = "HOW", hide = true)]
    break_by: Option<Break>,
    /// Print the version.
    #[arg(long, short = 'V', action = clap::ArgAction::Version)]
    version: (),
}

/// Deliberate faults.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Break {
    /// Tasks named `stall-victim` are never queued: the kernel's watchdog has to eject the scheduler.
    Stall,
}

/// What `cargo xtask vm bench` compares a policy with.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Bench {
    /// No policy: a scheduler without hooks, which costs what sched_ext itself does.
    Empty,
    /// The kernel's default search for an idle CPU, at every other wake-up; prints what both took.
    Search,
}

fn main() -> ExitCode {
    let args = Arguments::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scx_wakelab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Arguments) -> Result<()> {
    if args.list_policies {
        scheduler::listed_policies().iter().for_each(|spec| println!("{spec}"));
        return Ok(());
    }
    ensure!(
        args.break_by.is_none() || std::env::var_os("WAKELAB_ALLOW_BREAK").is_some(),
        "--break makes this scheduler lose tasks; it is for tests on machines made for it, and refused here"
    );
    scheduler::check_kernel()?;
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| {
        // Said at every attach: the skeleton leaves the scheduler's map to be attached by hand.
        if !text.contains("skeleton link is uninitialized") {
            eprint!("{text}");
        }
    })));
    let stop = Arc::new(AtomicBool::new(false));
    let stop_at_signal = Arc::clone(&stop);
    ctrlc::set_handler(move || stop_at_signal.store(true, Ordering::Relaxed))
        .context("cannot catch SIGINT")?;

    let mut spec = args.policy.clone();
    if let Some(slice_us) = args.slice_us {
        spec.tunables.min_granularity_ns = Some(slice_us * 1000);
        spec.tunables.latency_ns = Some(8 * slice_us * 1000);
    }
    // A CPU went on or off: the kernel detached the scheduler, and the topology is another one.
    while scheduler::attach_and_wait(args, &spec, &stop)? == scheduler::Ending::Restart {
        eprintln!("scx_wakelab: the machine's CPUs changed, starting again");
    }
    Ok(())
}
