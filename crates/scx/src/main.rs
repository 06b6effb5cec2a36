// SPDX-License-Identifier: GPL-2.0-only
//! The loader of `scx_wakelab`: puts a policy and the machine's topology into the BPF side, attaches it as the
//! scheduler of this kernel, and detaches it at SIGINT or SIGTERM.
//!
//! The kernel is safe from this program: if it dies, stalls or makes a mistake, the kernel detaches the scheduler and
//! returns to its own (docs/guide/scheduler.md). This program then only has to report why, and to exit with a code
//! other than 0.

// scheduler.rs and what it uses are compiled once for each of the two skeletons, because their types are alike but not
// the same.
#![allow(clippy::duplicate_mod)]

mod arguments;
mod bpf_skel;
mod entitlement;
mod logged;
mod logged_skel;
mod machine;
mod metrics;
mod plain;
mod print;
mod priority;
mod server;
mod verifier;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use libbpf_rs::PrintLevel;
use wakelab_policy::{Cover, PolicySpec};

use crate::arguments::Arguments;

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
        let names: Vec<String> = listed_policies().iter().map(PolicySpec::to_string).collect();
        return print::say(names.join("\n")).map(drop);
    }
    if args.help_stats {
        return server::describe();
    }
    if let Some(seconds) = args.monitor {
        return server::monitor(seconds, args.format);
    }
    ensure!(
        args.break_by.is_none() || std::env::var_os("WAKELAB_ALLOW_BREAK").is_some(),
        "--break makes the scheduler lose tasks, to test the kernel's watchdog: set WAKELAB_ALLOW_BREAK to allow it"
    );
    check_kernel()?;
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| {
        // libbpf warns at every attach because this program attaches the scheduler's map itself.
        if !text.contains("skeleton link is uninitialized") {
            eprint!("{text}");
        }
    })));
    let stop = Arc::new(AtomicBool::new(false));
    let stop_at_signal = Arc::clone(&stop);
    ctrlc::set_handler(move || stop_at_signal.store(true, Ordering::Relaxed))
        .context("cannot catch SIGINT")?;

    let spec = args.spec()?;
    let attach_and_wait = match args.log {
        Some(_) => logged::scheduler::attach_and_wait,
        None => plain::scheduler::attach_and_wait,
    };
    let mut starts = Starts { count: 0, cgroups: cgroups(args), server: None };
    loop {
        match attach_and_wait(args, &spec, &stop, &mut starts)? {
            Ending::Stopped => return Ok(()),
            Ending::CpusChanged => eprintln!("scx_wakelab: the machine's CPUs changed: starting again"),
            Ending::FirstCgroup => {
                eprintln!("scx_wakelab: the first cgroup has come: starting again, with room for cgroups");
                starts.cgroups = MANY_CGROUPS;
            }
        }
        starts.count += 1;
    }
}

/// What remains from one start to the next.
pub(crate) struct Starts {
    /// The number of starts before this one.
    pub(crate) count: usize,
    /// The greatest number of cgroups to distinguish.
    pub(crate) cgroups: u32,
    /// The statistics' server, once the scheduler was attached.
    pub(crate) server: Option<server::Server>,
}

/// Room for cgroups where nothing else is said.
const MANY_CGROUPS: u32 = 1000;

/// Returns how many cgroups to distinguish at the first start.
fn cgroups(args: &Arguments) -> u32 {
    let found = || if entitlement::has_cgroups() { MANY_CGROUPS } else { 0 };
    args.cgroups.unwrap_or_else(found)
}

/// Why the scheduler is no longer attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A signal, or another program detached it.
    Stopped,
    /// CPUs went online or offline: the kernel detached the scheduler.
    CpusChanged,
    /// The first cgroup was created, and there is no room for any.
    FirstCgroup,
}

/// Returns the named policies and enough others to have every value of every axis.
fn listed_policies() -> Vec<PolicySpec> {
    PolicySpec::cover(Cover::Values)
}

/// Fails with one line that says why this kernel cannot be scheduled.
fn check_kernel() -> Result<()> {
    let euid = Path::new("/proc/self").metadata().context("cannot read /proc/self")?.uid();
    ensure!(euid == 0, "must run as root");
    ensure!(
        Path::new("/sys/kernel/sched_ext/state").exists(),
        "this kernel has no sched_ext: Linux 6.12 or newer with CONFIG_SCHED_CLASS_EXT=y is needed"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_parses_back() {
        for spec in listed_policies() {
            assert_eq!(spec.to_string().parse::<PolicySpec>().unwrap(), spec);
        }
    }
}
