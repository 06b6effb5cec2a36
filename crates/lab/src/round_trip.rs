// SPDX-License-Identifier: GPL-2.0-or-later
//! Round trips: a run is exported, its export is imported, and the import is replayed on the same machine with the same
//! policy and seed. The replay should repeat the run. This is the one test of the importer for which the truth is
//! known.
//!
//! Without costs the two agree switch by switch. With costs an import has to tell a task's own work from the kernel's
//! work in its context (crates/trace), and the two agree as well as it can.

use std::sync::Arc;

use serde::Serialize;
use wakelab_machine::Costs;
use wakelab_sim::{Observer, Outcome, Scenario};
use wakelab_workload::End;

use crate::error::LabError;
use crate::export::export_events;
use crate::runner::Runner;
use crate::scenario::describe;

/// The facts of a run that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TripFacts {
    /// Time at the end of the run.
    pub elapsed_ns: u64,
    /// Wake-ups of blocked tasks.
    pub wakeups: u64,
    /// Tasks switched in.
    pub switches: u64,
}

/// A run and its replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Trip {
    /// The run.
    pub original: TripFacts,
    /// The replay of its export.
    pub replay: TripFacts,
    /// Each CPU switched to the same tasks in the same order at the same times, up to the end of the original.
    pub exact: bool,
    /// The first switch that differs, if the trip is not exact.
    pub first_difference: Option<TripDifference>,
}

/// The place where two runs first differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TripDifference {
    /// Time in the earlier of the two.
    pub time_ns: u64,
    /// The CPU.
    pub cpu: u32,
}

/// The trips of one workload on one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoundTrip {
    /// The workload's name.
    pub workload: String,
    /// The machine's name.
    pub machine: String,
    /// On the machine without costs, with all CPUs equally fast.
    pub free: Trip,
    /// On the machine as it is.
    pub costed: Trip,
}

/// Makes the round trip of each scenario, in their order.
///
/// # Errors
/// A scenario that cannot be run, a run that fails, or an export that cannot be read.
pub fn round_trips(
    scenarios: &[Scenario],
    seed: u64,
    runner: &Runner<'_>,
) -> Result<Vec<RoundTrip>, LabError> {
    for scenario in scenarios {
        scenario.check().map_err(|error| LabError::Scenario { name: describe(scenario), error })?;
    }
    let trips = runner.in_parallel(scenarios.len(), |job| round_trip(&scenarios[job], seed));
    trips.into_iter().collect()
}

/// Makes the round trip of one scenario, without costs and with them.
///
/// # Errors
/// A run that fails, or an export that cannot be read.
pub fn round_trip(scenario: &Scenario, seed: u64) -> Result<RoundTrip, LabError> {
    let mut machine = (*scenario.machine).clone();
    let (tick_period_ns, threads) = (machine.costs.tick_period_ns, machine.costs.smt_speed.len());
    machine.costs = Costs { tick_period_ns, ..Costs::free(threads) };
    machine.topology.cpus.iter_mut().for_each(|cpu| cpu.capacity = 1024);
    let free = Scenario { machine: Arc::new(machine), ..scenario.clone() };
    Ok(RoundTrip {
        workload: scenario.workload.name.clone(),
        machine: scenario.machine.name.clone(),
        free: trip(&free, seed)?,
        costed: trip(scenario, seed)?,
    })
}

/// Runs, exports, imports and replays.
fn trip(scenario: &Scenario, seed: u64) -> Result<Trip, LabError> {
    let name = describe(scenario);
    let (_, text) = export_events(scenario, seed, Vec::new())?;
    let mut log = Log::new(scenario);
    let original = run_observed(scenario, seed, &mut log, &name)?;

    let recorded_on = Some((*scenario.machine).clone());
    // What was recorded is all that there is to repeat.
    let options =
        wakelab_trace::Options { strict: true, recorded_waits_only: true, recorded_on, ..Default::default() };
    let recording = wakelab_trace::read_from(text.as_slice(), &name, &name, &options)
        .map_err(|error| LabError::Import { name: name.clone(), message: error.to_string() })?;
    let replay = Scenario { workload: Arc::new(recording.workload), ..scenario.clone() };
    let mut replayed = Log::new(&replay);
    let outcome = run_observed(&replay, seed, &mut replayed, &format!("{name}, replayed"))?;
    let first_difference = first_difference(scenario, log, &replayed);
    let facts = |outcome: &Outcome| TripFacts {
        elapsed_ns: outcome.elapsed_ns,
        wakeups: outcome.counts.wakeups,
        switches: outcome.counts.switches_in,
    };
    Ok(Trip {
        original: facts(&original),
        replay: facts(&outcome),
        exact: first_difference.is_none(),
        first_difference,
    })
}

fn run_observed(
    scenario: &Scenario,
    seed: u64,
    observer: &mut impl Observer,
    name: &str,
) -> Result<Outcome, LabError> {
    wakelab_sim::run_observed(scenario, seed, observer).map_err(|error| LabError::Run {
        name: name.to_owned(),
        seed,
        error,
    })
}

/// The first switch of any CPU that differs, up to the end of the original run.
fn first_difference(scenario: &Scenario, mut original: Log, replayed: &Log) -> Option<TripDifference> {
    // An export of wakelab names all tasks first, in their order. The importer keeps that order for those that began.
    original.began.sort_unstable();
    let original_task = |task: u32| original.began.get(task as usize).copied();
    let end_ns = match scenario.workload.end {
        End::AllExited => u64::MAX,
        End::After { duration_ns } => duration_ns,
    };
    let before_end = |&&(time_ns, _): &&(u64, u32)| time_ns < end_ns;
    let of_cpu = |cpu: usize| {
        let (ours, theirs) = (&original.switches[cpu], &replayed.switches[cpu]);
        let ours = ours.iter().take_while(before_end).map(|&(time_ns, task)| (time_ns, Some(task)));
        let theirs =
            theirs.iter().take_while(before_end).map(|&(time_ns, task)| (time_ns, original_task(task)));
        let time_ns = first_unequal(ours, theirs)?;
        Some(TripDifference { time_ns, cpu: cpu as u32 })
    };
    (0..original.switches.len()).filter_map(of_cpu).min_by_key(|found| found.time_ns)
}

/// The time of the first place where two histories differ.
fn first_unequal(
    mut a: impl Iterator<Item = (u64, Option<u32>)>,
    mut b: impl Iterator<Item = (u64, Option<u32>)>,
) -> Option<u64> {
    loop {
        match (a.next(), b.next()) {
            (None, None) => return None,
            (Some(a), Some(b)) if a == b => {}
            (Some((a_ns, _)), Some((b_ns, _))) => return Some(a_ns.min(b_ns)),
            (Some((time_ns, _)), None) | (None, Some((time_ns, _))) => return Some(time_ns),
        }
    }
}

/// The switches of each CPU, and the tasks that began.
struct Log {
    switches: Vec<Vec<(u64, u32)>>,
    began: Vec<u32>,
}

impl Log {
    fn new(scenario: &Scenario) -> Log {
        Log { switches: vec![Vec::new(); scenario.machine.topology.nr_cpus()], began: Vec::new() }
    }
}

impl Observer for Log {
    fn start(&mut self, _now_ns: u64, _cpu: u32, task: u32) {
        self.began.push(task);
    }

    fn fork(&mut self, _now_ns: u64, _cpu: u32, _parent: u32, child: u32) {
        self.began.push(child);
    }

    fn switch_in(&mut self, now_ns: u64, cpu: u32, task: u32) {
        self.switches[cpu as usize].push((now_ns, task));
    }
}
