// SPDX-License-Identifier: GPL-2.0-or-later
//! Arguments turned into what crates/ask asks. Its notes go to stderr.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use wakelab_ask::{Ask, Import, MachineChoice, Source};
use wakelab_lab::Kernel;
use wakelab_machine::{Machine, Term};
use wakelab_policy::PolicySpec;
use wakelab_sim::HostProfile;
use wakelab_trace::{Recording, WhatIf};
use wakelab_workload::Workload;

use crate::args::{Host, ImportArgs, InputArgs, KernelArgs, RecordingArgs, SeedsArgs, WhatIfArgs};
use crate::print;

/// INPUT with its options.
pub(crate) fn ask(args: &InputArgs) -> Ask {
    let InputArgs { input, recording, workload, .. } = args;
    let source = match (recording, workload, input) {
        (Some(path), ..) => Some(Source::Recording(path.clone())),
        (_, Some(spec), _) => Some(Source::Workload(spec.clone())),
        (.., input) => input.clone().map(Source::Any),
    };
    let (import, what_if) = (import(&args.import), what_if(&args.what_if));
    Ask { source, import, what_if, cost: args.cost.clone() }
}

/// How to read a recording.
pub(crate) fn import(args: &ImportArgs) -> Import {
    Import {
        recorded_on: args.recorded_on.clone().map(MachineChoice::Name),
        of: args.of.clone(),
        open_loop: args.open_loop.clone(),
        closed_loop: args.closed_loop.clone(),
        recorded_waits_only: args.recorded_waits_only,
        recorded_times: args.recorded_times,
        repeat: args.repeat,
        time: args.time,
        strict: args.strict,
    }
}

/// The options that change tasks.
pub(crate) fn what_if(args: &WhatIfArgs) -> WhatIf {
    WhatIf {
        nice: args.nice.clone(),
        slices: args.slice.clone(),
        cpus: args.cpus.clone(),
        weights: args.weight.clone(),
        quotas: args.quota.clone(),
        faster: args.faster.clone(),
    }
}

/// `--host`, `--limit-s` and `--limit-events`.
pub(crate) fn kernel(args: &KernelArgs) -> Kernel {
    let host = match args.host {
        Host::Mainline => HostProfile::Mainline,
        Host::SchedExt => HostProfile::SchedExt,
    };
    Kernel { host, limit_ns: args.limit_ns, limit_events: args.limit_events }
}

/// `--seed` and `--seeds`.
pub(crate) fn seeds(args: &SeedsArgs) -> Vec<u64> {
    wakelab_lab::consecutive_seeds(args.first.seed, args.seeds)
}

/// `--machine`, which may be repeated.
pub(crate) fn choices(names: &[String]) -> Vec<MachineChoice> {
    names.iter().cloned().map(MachineChoice::Name).collect()
}

/// `--policy`, which may be repeated.
pub(crate) fn policies(names: &[String]) -> Result<Vec<PolicySpec>> {
    Ok(wakelab_ask::policies(names, &print::note)?)
}

/// One policy of `--policy`.
pub(crate) fn policy(name: &str) -> Result<PolicySpec> {
    Ok(wakelab_ask::policy(name, &print::note)?)
}

/// `--machine`, without some terms of the cost model.
pub(crate) fn machine(name: &str, without: &[Term]) -> Result<Arc<Machine>> {
    Ok(wakelab_ask::machine(name, without)?)
}

/// `--machine`, which may be repeated, of a command that reads no recording.
pub(crate) fn machines(names: &[String]) -> Result<Vec<Arc<Machine>>> {
    Ok(wakelab_ask::machines(names)?)
}

/// Parses text that can only be a workload.
pub(crate) fn workload(spec: &str) -> Result<Arc<Workload>> {
    Ok(wakelab_ask::workload(spec)?)
}

/// Parses `WORKLOAD...`.
pub(crate) fn workloads(specs: &[String]) -> Result<Vec<Arc<Workload>>> {
    Ok(wakelab_ask::workloads(specs)?)
}

/// Reads a recording, and returns the machine that made it: `--machine`, or what the recording itself tells.
pub(crate) fn recorded(args: &RecordingArgs, machine: Option<&str>) -> Result<(Recording, Arc<Machine>)> {
    let choice = machine.map(|name| MachineChoice::Name(name.to_owned()));
    Ok(wakelab_ask::recorded(&args.recording, &import(&args.import), choice.as_ref())?)
}

/// Returns the files from which the input is read; no output may replace them.
pub(crate) fn files<'a>(args: &'a InputArgs, machine: &'a str) -> Vec<&'a Path> {
    let import = args.import.recorded_on.as_deref();
    let texts =
        [args.input.as_deref(), args.workload.as_deref().map(wakelab_ask::name_of), import, Some(machine)];
    texts.into_iter().flatten().map(Path::new).chain(args.recording.as_deref()).collect()
}
