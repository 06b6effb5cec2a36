// SPDX-License-Identifier: GPL-2.0-only
//! The loader of `scx_wakelab`: puts a policy and the machine's topology into the BPF side, attaches it as the
//! scheduler of this kernel, and detaches it at SIGINT or SIGTERM.
//!
//! The kernel is safe from this program: if it dies, stalls or makes a mistake, the kernel detaches the scheduler and
//! returns to its own (docs/guide/scheduler.md). This program then only has to report why, and to exit with a code
//! other than 0.

// scheduler.rs and what it uses are compiled once for each of the skeletons, because their types are alike but not the
// same.
#![allow(clippy::duplicate_mod)]

mod again;
mod arguments;
mod bpf_skel;
mod entitlement;
mod kernel_has;
mod kernels;
mod labels;
mod limits;
mod logged;
mod logged_skel;
mod machine;
mod metrics;
mod own;
mod own_groups;
mod own_groups_skel;
mod own_skel;
mod plain;
mod print;
mod priority;
mod server;
#[cfg(test)]
mod stack;
mod verifier;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{CommandFactory, Parser};
use libbpf_rs::PrintLevel;
use scx_utils::compat;
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
    if args.man {
        let mut page = Vec::new();
        clap_mangen::Man::new(Arguments::command()).section("8").render(&mut page)?;
        return print::say(String::from_utf8(page)?.trim_end()).map(drop);
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
    warn_of_kernel();
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
    let cgroups = cgroups(args);
    let has_limits = may_limit(args, cgroups) && limits::found();
    let mut starts = Starts { count: 0, tries: 0, cgroups, has_limits, server: None };
    loop {
        let attach_and_wait = match () {
            () if args.log.is_some() => logged::scheduler::attach_and_wait,
            () if !is_own(&spec) => plain::scheduler::attach_and_wait,
            () if starts.cgroups > 0 && kernel_tells_groups() => own_groups::scheduler::attach_and_wait,
            () => own::scheduler::attach_and_wait,
        };
        match attach_and_wait(args, &spec, &stop, &mut starts)? {
            Ending::Stopped => return Ok(()),
            // Nothing was scheduled, so it is no start.
            Ending::NoRecord(pause) => {
                thread::sleep(pause);
                starts.tries += 1;
                continue;
            }
            Ending::CpusChanged => eprintln!("scx_wakelab: the machine's CPUs changed: starting again"),
            Ending::MoreCgroups => {
                starts.cgroups = more_cgroups(starts.cgroups);
                eprintln!(
                    "scx_wakelab: more cgroups than expected: starting again, with room for {}",
                    starts.cgroups
                );
            }
            Ending::Limits => {
                starts.has_limits = true;
                eprintln!("scx_wakelab: a cgroup has cpu.max or cpu.idle: starting again, with limits");
            }
        }
        starts.count += 1;
        starts.tries = 0;
    }
}

/// What remains from one start to the next.
pub(crate) struct Starts {
    /// The number of starts before this one.
    pub(crate) count: usize,
    /// The number of times that this start was tried again.
    pub(crate) tries: u32,
    /// The greatest number of cgroups to distinguish.
    pub(crate) cgroups: u32,
    /// Whether a cgroup has cpu.max or cpu.idle, or had.
    pub(crate) has_limits: bool,
    /// The statistics' server, once the scheduler was attached.
    pub(crate) server: Option<server::Server>,
}

/// The policy that has separate programs.
fn own_policy() -> PolicySpec {
    "wakelab".parse().expect("a named policy")
}

/// Has this policy the axes of our own? Tunables are free.
fn is_own(spec: &PolicySpec) -> bool {
    let own = own_policy();
    PolicySpec { tunables: own.tunables, ..spec.clone() } == own
}

/// Whether this kernel tells sched_ext of cgroups.
pub(crate) fn kernel_tells_groups() -> bool {
    compat::struct_has_field("sched_ext_ops", "cgroup_init").unwrap_or(false)
}

/// Room for cgroups where there are some, and the most that there can be.
const SOME_CGROUPS: u32 = 1000;
const MOST_CGROUPS: u32 = 4095;

/// Returns how many cgroups to distinguish at the first start.
fn cgroups(args: &Arguments) -> u32 {
    let found = || if entitlement::has_cgroups() { SOME_CGROUPS } else { 0 };
    args.cgroups.unwrap_or_else(found)
}

/// Returns how many cgroups to distinguish after there were more than `now`.
fn more_cgroups(now: u32) -> u32 {
    (2 * now).clamp(SOME_CGROUPS, MOST_CGROUPS)
}

/// Whether the BPF side can count limits of cgroups: a log's program cannot (bpf/limits.bpf.h).
pub(crate) fn may_limit(args: &Arguments, cgroups: u32) -> bool {
    cgroups > 0 && args.log.is_none() && kernel_tells_groups()
}

/// Why the scheduler is no longer attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A signal, or another program detached it.
    Stopped,
    /// CPUs went online or offline: the kernel detached the scheduler.
    CpusChanged,
    /// There are more cgroups than there is room for.
    MoreCgroups,
    /// A cgroup has got cpu.max or cpu.idle, and the BPF side was loaded without them.
    Limits,
    /// The kernel could not make a task's record, which it may do after a pause.
    NoRecord(Duration),
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

/// Says which known mistakes this kernel has.
fn warn_of_kernel() {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    for mistake in kernels::mistakes(release.trim()) {
        eprintln!("scx_wakelab: {mistake}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_for_cgroups_grows_to_a_limit() {
        assert_eq!([0, 1000, 2000, 4000, 4095].map(more_cgroups), [1000, 2000, 4000, 4095, 4095]);
    }

    #[test]
    fn our_own_policy_may_have_other_tunables_but_no_other_axes() {
        let is_own = |text: &str| super::is_own(&text.parse().unwrap());
        assert!(is_own("wakelab") && is_own("wakelab+wait-max-ns=0"));
        assert!(!is_own("wakelab+push=off") && !is_own("linux-6.12"));
    }

    #[test]
    fn the_list_parses_back() {
        for spec in listed_policies() {
            assert_eq!(spec.to_string().parse::<PolicySpec>().unwrap(), spec);
        }
    }
}
