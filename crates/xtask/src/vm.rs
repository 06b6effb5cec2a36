// SPDX-License-Identifier: GPL-2.0-or-later
//! The test kernel, and the scheduler on it under emulation (vm/README.md): the arguments of `cargo xtask vm`.
//!
//! `vm_kernel` builds Linux 6.12 with sched_ext once and keeps it in the cache; `vm_guest` packs a guest, boots it and
//! reads its serial console; `vm_smoke`, `vm_test`, `vm_bench`, `vm_log` and `vm_truth` are what guests do.

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::vm_ab::{self, AbArgs};
use crate::vm_bench::{self, BenchArgs};
use crate::vm_kernel;
use crate::vm_log::{self, LogArgs};
use crate::vm_smoke::{self, SmokeArgs};
use crate::vm_test::{self, TestArgs};
use crate::vm_truth::{self, TruthArgs};

/// Arguments of `cargo xtask vm`.
#[derive(Args)]
pub(crate) struct VmArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Build the test kernel, or say where it is; waits for a build that already runs.
    Kernel,
    /// Load policies on the test kernel, run work under each, unload, and count.
    Smoke(SmokeArgs),
    /// No task is lost or late, and the kernel always gets its machine back: live tests of one policy.
    Test(TestArgs),
    /// Measure what the scheduler costs beside the kernel's own, and write docs/results/live-bench.md. Takes an hour;
    /// --part measures a part.
    Bench(BenchArgs),
    /// Test `wakelab ab` on the test kernel, or run it there.
    Ab(AbArgs),
    /// Log what policies decide on the test kernel, and verify the logs here.
    Log(LogArgs),
    /// Measure how true predictions of the scheduler are, on recordings from the test kernel, and write
    /// docs/results/truth-guest.md (perf). Takes half an hour.
    Truth(TruthArgs),
}

/// `cargo xtask vm`.
pub(crate) fn run(args: VmArgs) -> Result<()> {
    match args.what {
        What::Kernel => {
            let image = vm_kernel::kernel()?;
            println!("kernel: {}", image.display());
            Ok(())
        }
        What::Smoke(args) => vm_smoke::run(&args),
        What::Test(args) => vm_test::run(&args),
        What::Bench(args) => vm_bench::run(&args),
        What::Ab(args) => vm_ab::run(&args),
        What::Log(args) => vm_log::run(&args),
        What::Truth(args) => vm_truth::run(&args),
    }
}
