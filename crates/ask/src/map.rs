// SPDX-License-Identifier: GPL-2.0-or-later
//! One workload over machines and loads under several policies.

use std::collections::BTreeSet;
use std::sync::Arc;

use wakelab_lab::{Kernel, Load, MapPlan, Runner};
use wakelab_machine::Machine;
use wakelab_report::{MapAxes, SignMap, metric_names};

use crate::error::{AskError, bad_input};
use crate::input::{MachineChoice, Note, machine, machine_of, policies};
use crate::suggest::did_you_mean;

/// The machine on which the program runs. It is part of a map only if it is named.
pub(crate) const HOST: &str = "host";

/// What to map; the fields are options of the command.
pub struct MapAsk<'a> {
    /// The workload, with the number of tasks left open.
    pub workload: &'a str,
    /// `--machine`; none: all presets but the host, in ascending order of CPUs.
    pub machines: &'a [MachineChoice],
    /// `--load`, as typed.
    pub loads: &'a [String],
    /// The choice of `--policy`.
    pub policies: &'a [String],
    /// What surrounds the policy.
    pub kernel: Kernel,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// The name of `--metric`.
    pub metric: Option<String>,
    /// Whether `--over-best` is given.
    pub over_best: bool,
}

/// A map that can run.
pub struct Mapped {
    plan: MapPlan,
    axes: MapAxes,
}

impl Mapped {
    /// Runs it.
    ///
    /// # Errors
    /// No cell at all, or a run that fails.
    pub fn run(self, runner: &Runner<'_>) -> Result<SignMap, AskError> {
        let cells = wakelab_lab::map(&self.plan, runner)?;
        Ok(SignMap::new(self.axes, &cells)?)
    }
}

/// Looks up everything that a map names.
///
/// # Errors
/// A name that does not exist, or fewer than two policies.
pub fn map(ask: MapAsk<'_>, note: Note<'_>) -> Result<Mapped, AskError> {
    if ask.policies.len() < 2 {
        return Err(bad_input("one policy; expected a baseline and at least one more"));
    }
    ask.metric.as_deref().map_or(Ok(()), check_metric)?;
    let machines = machines(ask.machines)?;
    let loads: Vec<Load> =
        ask.loads.iter().map(|load| load.parse()).collect::<Result<_, _>>().map_err(bad_input)?;
    let name_and_cpus = |machine: &Arc<Machine>| (machine.name.clone(), machine.topology.nr_cpus() as u32);
    let axes = MapAxes {
        workload: ask.workload.to_owned(),
        machines: machines.iter().map(name_and_cpus).collect(),
        loads: ask.loads.to_vec(),
        policies: ask.policies.to_vec(),
        metric: ask.metric,
        over_best: ask.over_best,
    };
    let plan = MapPlan {
        workload: ask.workload.parse().map_err(bad_input)?,
        machines,
        loads,
        policies: policies(ask.policies, note)?,
        kernel: ask.kernel,
        seeds: ask.seeds,
    };
    Ok(Mapped { plan, axes })
}

/// Refuses a name that no metric has.
pub(crate) fn check_metric(name: &str) -> Result<(), AskError> {
    let mut known = metric_names();
    if known.iter().any(|known| known == name) {
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    known.retain(|name| seen.insert(name.clone()));
    let meant = did_you_mean(name, known.iter().map(String::as_str));
    Err(bad_input(format!("metric '{name}'; expected one of {}{meant}", known.join(", "))))
}

/// Returns the machines named, or all presets in ascending order of CPUs.
fn machines(choices: &[MachineChoice]) -> Result<Vec<Arc<Machine>>, AskError> {
    if !choices.is_empty() {
        return choices.iter().map(|choice| machine_of(choice, None, &[])).collect();
    }
    let names = wakelab_machine::presets().iter().map(|(name, _)| *name).filter(|name| *name != HOST);
    let mut machines = names.map(|name| machine(name, &[])).collect::<Result<Vec<_>, _>>()?;
    machines.sort_by_key(|machine| machine.topology.nr_cpus());
    Ok(machines)
}
