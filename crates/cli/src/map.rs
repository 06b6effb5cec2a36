// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab map`: one workload over machines and loads under several policies, to see where a gain's sign flips.

use anyhow::{Context, Result};
use wakelab_machine::Machine;
use wakelab_report::{MapAxes, MapRuns, SignMap, Style, metric_names};
use wakelab_sim::Scenario;

use crate::args::{Format, MapArgs};
use crate::load::{Load, TaskTemplate};
use crate::resolve::{bad_input, machine, policies, scenarios, seeds, workload};
use crate::{print, runner};

/// The machine that the command runs on has no part in a map unless it is named.
const HOST: &str = "host";

/// A machine and a load that the workload can have.
struct Place {
    machine: usize,
    load: usize,
    /// Index of the scenario under the first policy; those of the others follow.
    first: usize,
}

/// Runs and prints it.
pub(crate) fn run(args: &MapArgs) -> Result<()> {
    if args.policy.len() < 2 {
        return Err(bad_input("one policy; expected a baseline and at least one more"));
    }
    if let Some(name) = args.metric.as_ref().filter(|name| !metric_names().contains(name)) {
        return Err(bad_input(format!("metric '{name}'; expected one of {}", metric_names().join(", "))));
    }
    let policies = policies(&args.policy)?;
    let template: TaskTemplate = args.workload.parse().map_err(bad_input)?;
    let loads: Vec<Load> =
        args.load.iter().map(|load| load.parse().map_err(bad_input)).collect::<Result<_>>()?;
    let machines = machines(args)?;
    let mut all: Vec<Scenario> = Vec::new();
    let mut places: Vec<Place> = Vec::new();
    for (at, machine) in machines.iter().enumerate() {
        for (load, tasks) in loads.iter().map(|load| load.tasks(machine.topology.nr_cpus())).enumerate() {
            let Some(spec) = template.fill(tasks) else { continue };
            places.push(Place { machine: at, load, first: all.len() });
            all.extend(scenarios(machine, &workload(&spec)?, &policies, &args.kernel));
        }
    }
    if places.is_empty() {
        return Err(bad_input(format!("{}: no machine has CPUs enough for any of the loads", args.workload)));
    }
    let name = |scenario: &Scenario| {
        format!("{} on {}, policy {}", scenario.workload.name, scenario.machine.name, scenario.policy)
    };
    for scenario in &all {
        scenario.check().map_err(|error| bad_input(format!("{}: {error}", name(scenario))))?;
    }
    let outcomes = runner::run_all(&all, &seeds(&args.seeds), runner::threads(args.seeds.threads)?).map_err(
        |failure| {
            let name = name(&all[failure.scenario]);
            failure.told(&name)
        },
    )?;
    let runs: Vec<MapRuns<'_>> = places
        .iter()
        .map(|place| MapRuns {
            machine: place.machine,
            load: place.load,
            workload: &all[place.first].workload,
            outcomes: outcomes[place.first..place.first + policies.len()].iter().map(Vec::as_slice).collect(),
        })
        .collect();
    let axes = MapAxes {
        workload: args.workload.clone(),
        machines: machines
            .iter()
            .map(|machine| (machine.name.clone(), machine.topology.nr_cpus() as u32))
            .collect(),
        loads: args.load.clone(),
        policies: args.policy.clone(),
        metric: args.metric.clone(),
        over_best: args.over_best,
    };
    let map = SignMap::new(axes, &runs)?;
    if let Some(path) = &args.plot {
        std::fs::write(path, map.svg()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    match args.format {
        Format::Json => print::json(&map.document()),
        Format::Text => print::text(&map.text(&Style { color: print::colored(), width: print::width() })),
    }
}

/// Those named, or all presets; fewer CPUs first.
fn machines(args: &MapArgs) -> Result<Vec<Machine>> {
    if !args.machine.is_empty() {
        return args.machine.iter().map(|name| machine(name, &[])).collect();
    }
    let names = wakelab_machine::presets().iter().map(|(name, _)| *name).filter(|name| *name != HOST);
    let mut machines = names.map(|name| machine(name, &[])).collect::<Result<Vec<_>>>()?;
    machines.sort_by_key(|machine| machine.topology.nr_cpus());
    Ok(machines)
}
