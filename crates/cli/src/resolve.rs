// SPDX-License-Identifier: GPL-2.0-or-later
//! From what was typed to what is meant: files are read, names looked up, and everything bad is refused here, before
//! anything runs.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use wakelab_machine::{Machine, Term, printable};
use wakelab_policy::PolicySpec;
use wakelab_sim::{HostProfile, Scenario};
use wakelab_trace::Recording;
use wakelab_workload::Workload;

use crate::args::{CompareArgs, Host, InputArgs, KernelArgs, RunArgs, SeedsArgs};

/// The user's input or arguments are at fault: exit code 2.
#[derive(Debug)]
pub(crate) struct BadInput(String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// Any error of a library that reads input, as the user's.
pub(crate) fn bad_input(error: impl fmt::Display) -> anyhow::Error {
    BadInput(error.to_string()).into()
}

/// What `compare` and `run` run.
pub(crate) struct Comparison {
    /// One scenario a policy, the baseline first.
    pub(crate) scenarios: Vec<Scenario>,
    /// As typed, for the heads of columns.
    pub(crate) policy_names: Vec<String>,
    /// Paired over scenarios.
    pub(crate) seeds: Vec<u64>,
    /// The recording, if the input is one.
    pub(crate) recording: Option<Recording>,
}

/// Reads and checks everything that `compare` was given.
pub(crate) fn comparison(args: &CompareArgs) -> Result<Comparison> {
    if let Some(path) = &args.scenario {
        return again(path);
    }
    let name = args.machine.as_deref().context("clap demands a machine where there is no scenario")?;
    let machine = machine(name, &args.without)?;
    resolve(&args.input, &machine, &args.policy, &args.kernel, seeds(&args.seeds))
}

/// The same for `run`: a comparison of one.
pub(crate) fn single(args: &RunArgs) -> Result<Comparison> {
    let machine = machine(&args.machine, &args.without)?;
    resolve(&args.input, &machine, std::slice::from_ref(&args.policy), &args.kernel, vec![args.seed])
}

fn resolve(
    args: &InputArgs,
    machine: &Machine,
    policy_names: &[String],
    kernel: &KernelArgs,
    seeds: Vec<u64>,
) -> Result<Comparison> {
    let policies = policies(policy_names)?;
    let (workload, recording) = input(args)?;
    if let Some(recording) = &recording {
        check_recording(recording, machine)?;
    }
    let scenarios = scenarios(machine, &workload, &policies, kernel);
    Ok(Comparison { scenarios, policy_names: policy_names.to_vec(), seeds, recording })
}

/// One scenario for each policy; all share the machine and the workload.
pub(crate) fn scenarios(
    machine: &Machine,
    workload: &Workload,
    policies: &[PolicySpec],
    kernel: &KernelArgs,
) -> Vec<Scenario> {
    let host = match kernel.host {
        Host::Mainline => HostProfile::Mainline,
        Host::SchedExt => HostProfile::SchedExt,
    };
    let (machine, workload) = (Arc::new(machine.clone()), Arc::new(workload.clone()));
    let scenario = |policy: &PolicySpec| Scenario {
        machine: machine.clone(),
        workload: workload.clone(),
        policy: policy.clone(),
        host,
        limit_ns: kernel.limit_s * 1_000_000_000,
    };
    policies.iter().map(scenario).collect()
}

/// `--policy`.
pub(crate) fn policies(names: &[String]) -> Result<Vec<PolicySpec>> {
    let parse = |name: &String| name.parse().map_err(|error| bad_input(format!("--policy {name}: {error}")));
    names.iter().map(parse).collect()
}

/// `--machine` and `--without`.
pub(crate) fn machine(name: &str, without: &[Term]) -> Result<Machine> {
    let machine = Machine::load(name).map_err(bad_input)?;
    Ok(without.iter().fold(machine, |machine, &term| machine.without(term)))
}

/// `--seed` and `--seeds`.
pub(crate) fn seeds(args: &SeedsArgs) -> Vec<u64> {
    (0..u64::from(args.seeds)).map(|index| args.seed.wrapping_add(index)).collect()
}

/// A workload that can only be one.
pub(crate) fn workload(spec: &str) -> Result<Workload> {
    Workload::parse_spec(spec).map_err(bad_input)
}

/// `--scenario`: what an earlier result ran.
fn again(path: &Path) -> Result<Comparison> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| bad_input(format!("{shown}: {error}")))?;
    let (scenarios, seeds) =
        wakelab_report::read_scenarios(&text).map_err(|error| bad_input(format!("{shown}: {error}")))?;
    let policy_names = scenarios.iter().map(|scenario| scenario.policy.to_string()).collect();
    Ok(Comparison { scenarios, policy_names, seeds, recording: None })
}

/// `--recording`, `--workload`, or INPUT: a recording if a file of that name exists.
fn input(args: &InputArgs) -> Result<(Workload, Option<Recording>)> {
    let recording = |path: &Path| {
        let recorded_on = args.recorded_on.as_deref().map(|name| machine(name, &[])).transpose()?;
        let options = wakelab_trace::Options {
            strict: args.strict,
            recorded_on,
            open: args.open_loop.clone(),
            closed: args.closed_loop.clone(),
            repeat: args.repeat,
        };
        let recording = wakelab_trace::read(path, &options).map_err(bad_input)?;
        Ok((recording.workload.clone(), Some(recording)))
    };
    let workload = |spec: &str| match for_recordings(args) {
        Some(option) => Err(bad_input(format!("{option}: '{spec}' is a workload; expected a recording"))),
        None => Ok((workload(spec)?, None)),
    };
    match (&args.input, &args.recording, &args.workload) {
        (_, Some(path), _) => recording(path),
        (_, _, Some(spec)) => workload(spec),
        // Not only plain files: the shell's <(perf script) is a pipe.
        (Some(input), _, _) if Path::new(input).metadata().is_ok_and(|file| !file.is_dir()) => {
            recording(Path::new(input))
        }
        (Some(input), _, _) if is_workload(input) => workload(input),
        (Some(input), _, _) => workload(input).map_err(|error: anyhow::Error| {
            bad_input(format!("{error}; and there is no file of that name that could be a recording"))
        }),
        (None, None, None) => Err(bad_input("an INPUT is needed: a recording or a workload")),
    }
}

/// An option that means nothing where a workload runs.
fn for_recordings(args: &InputArgs) -> Option<String> {
    let machine = args.recorded_on.iter().map(|name| format!("--recorded-on {name}"));
    let open = args.open_loop.iter().map(|comm| format!("--open-loop {comm}"));
    let closed = args.closed_loop.iter().map(|comm| format!("--closed-loop {comm}"));
    let repeat = args.repeat.iter().map(|runs| format!("--repeat {runs}"));
    machine.chain(open).chain(closed).chain(repeat).next()
}

/// Whether the name before the parameters is one that exists; what is wrong then is wrong in the parameters.
fn is_workload(spec: &str) -> bool {
    spec.split(':').next().is_some_and(|name| wakelab_workload::presets().any(|preset| preset == name))
}

/// A recording from a machine with more CPUs may still be replayed here, unless a task is bound to one of them.
fn check_recording(recording: &Recording, machine: &Machine) -> Result<()> {
    let nr_cpus = machine.topology.nr_cpus();
    let beyond = recording
        .workload
        .tasks
        .iter()
        .flat_map(|task| task.allowed.iter().flatten().map(move |cpu| (task, *cpu)))
        .find(|(_, cpu)| *cpu as usize >= nr_cpus);
    match beyond {
        Some((task, cpu)) => Err(bad_input(format!(
            "{}: task {} is bound to CPU {cpu}, but {} has CPUs 0 to {}",
            printable(&recording.workload.name),
            printable(&task.name),
            machine.name,
            nr_cpus - 1
        ))),
        None => Ok(()),
    }
}
