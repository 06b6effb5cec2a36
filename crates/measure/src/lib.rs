// SPDX-License-Identifier: GPL-2.0-or-later
//! Measures the machine that it runs on, as a user and in minutes, and writes a machine file of it. plan.rs lists what
//! is measured, derive.rs says how figures follow from it. Files of core-to-core-latency and wult are read as well.
//!
//! Every figure is a median with a range, and what cannot be measured is said in a line and left to a base.

mod cold;
mod core_to_core;
mod derive;
mod error;
mod figures;
mod file;
mod futexes;
mod idle;
mod interrupts;
mod lines;
mod pairs;
mod pin;
mod pipes;
mod plan;
mod sizes;
mod spread;
mod throughput;
mod timing;
mod wult;

use std::path::Path;
use std::time::Duration;

use wakelab_machine::Machine;

pub use cold::{ColdWork, Took};
pub use core_to_core::core_to_core;
pub use error::MeasureError;
pub use figures::{Figures, IdleFigure, Row};
pub use file::machine_file;
pub use spread::Spread;
pub use wult::wult;

use plan::{Plan, Samples};

/// Where sysfs is.
const SYSFS: &str = "/sys";

/// Is told how far the measurement has come.
pub trait Progress {
    /// It has this number of steps of about equal time.
    fn begin(&self, steps: usize);
    /// A step is done.
    fn step_done(&self);
    /// All are done.
    fn end(&self);
}

/// Measures this machine, which `machine` describes, with the costs of a base, for about `time`. The CPUs of
/// `machine` have the kernel's numbers.
///
/// # Errors
/// If the system does not tell which CPUs may be used. A step that fails is a line of what is missing.
pub fn measure(machine: &Machine, time: Duration, progress: &dyn Progress) -> Result<Figures, MeasureError> {
    let topology = &machine.topology;
    let cpus = pin::allowed(topology.nr_cpus()).map_err(MeasureError::Affinity)?;
    if cpus.is_empty() {
        let none = std::io::Error::other("none of them is one of the machine's");
        return Err(MeasureError::Affinity(none));
    }
    let root = Path::new(SYSFS);
    let sizes = sizes::sizes(root, cpus[0], topology.max_threads());
    let llcs = topology.cpus.iter().map(|cpu| cpu.llc).max().map_or(1, |last| u64::from(last) + 1);
    let plan = Plan::new(root, topology, &cpus, sizes.llc_bytes.unwrap_or(0).saturating_mul(llcs));
    progress.begin(plan.steps.len());
    let (mut samples, mut failed) = (Samples::default(), Vec::new());
    let each = time / plan.steps.len() as u32;
    for step in &plan.steps {
        if let Err(error) = plan.run(step, each, &mut samples) {
            let line = format!("{}: {error}", step.quantity());
            if !failed.contains(&line) {
                failed.push(line);
            }
        }
        progress.step_done();
    }
    progress.end();
    let mut figures = derive::figures(&plan, samples, sizes, &machine.costs);
    figures.missing.extend(failed);
    if hypervisor(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()) {
        let line = "the machine alone: this is a guest, whose interrupts and exits from idle include its hypervisor's";
        figures.missing(line.into());
    }
    Ok(figures)
}

/// Whether the CPU says that a hypervisor runs it.
fn hypervisor(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_are_known_by_a_flag() {
        assert!(hypervisor("processor : 0\nflags : fpu hypervisor sse\n"));
        assert!(!hypervisor("model name : hypervisor\nflags : fpu\n"));
    }
}
