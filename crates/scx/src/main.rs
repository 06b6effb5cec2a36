// SPDX-License-Identifier: GPL-2.0-only
//! The loader of `scx_wakelab`: puts a policy and the machine's topology into the BPF side, attaches it as the scheduler
//! of this kernel, and detaches it at SIGINT or SIGTERM.
//!
//! The kernel is safe from this program: if it dies, stalls or makes a mistake, the kernel detaches the scheduler and goes
//! on with its own (docs/scheduler.md). All that is left to do here is to say why, and to leave with an exit code that is
//! not 0.

mod arguments;
mod bpf_skel;
mod groups;
mod machine;
mod scheduler;
mod stats;
mod verifier;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use libbpf_rs::PrintLevel;

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

    let spec = args.spec()?;
    // A CPU went on or off: the kernel detached the scheduler, and the topology is another one.
    while scheduler::attach_and_wait(args, &spec, &stop)? == scheduler::Ending::Restart {
        eprintln!("scx_wakelab: the machine's CPUs changed, starting again");
    }
    Ok(())
}
