// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab round-trip`: a run is exported, its export imported, and the import replayed on the same machine with the
//! same policy and seed. The replay should be the run again: the one test of the importer whose truth is known.
//!
//! Where nothing costs anything the two agree switch by switch. With costs, an import has to tell a task's own work
//! from what the kernel did in its context (crates/trace), and the two agree as well as it can.

use anyhow::{Context, Result};
use wakelab_machine::Costs;
use wakelab_report::{RoundTrip, Style, Trip, TripDifference, TripFacts};
use wakelab_sim::{Observer, Outcome, Scenario};
use wakelab_workload::End;

use crate::args::{Format, RoundTripArgs};
use crate::events::Exporter;
use crate::print;
use crate::resolve::{bad_input, machine, policies, scenarios, workload};
use crate::runner::{self, RunError};

/// All workloads on all machines.
pub(crate) fn run(args: &RoundTripArgs) -> Result<()> {
    let policy = policies(std::slice::from_ref(&args.policy))?;
    let machines = args.machine.iter().map(|name| machine(name, &[])).collect::<Result<Vec<_>>>()?;
    let workloads = args.workloads.iter().map(|spec| workload(spec)).collect::<Result<Vec<_>>>()?;
    let mut jobs = Vec::new();
    for workload in &workloads {
        for machine in &machines {
            jobs.extend(scenarios(machine, workload, &policy, &args.kernel));
        }
    }
    for scenario in &jobs {
        scenario.check().map_err(bad_input)?;
    }
    let threads = runner::threads(args.threads)?;
    let trips = runner::in_parallel(jobs.len(), threads, |job| round_trip(&jobs[job], args.seed));
    let trips = trips.into_iter().collect::<Result<Vec<RoundTrip>>>()?;
    match args.format {
        Format::Json => print::json(&wakelab_report::round_trip_document(&args.policy, args.seed, &trips)),
        Format::Text => {
            let style = Style { color: print::colored(), width: print::width() };
            print::text(&wakelab_report::round_trip_text(&args.policy, args.seed, &trips, &style))
        }
    }
}

/// One workload on one machine, without costs and with them.
pub(crate) fn round_trip(scenario: &Scenario, seed: u64) -> Result<RoundTrip> {
    let mut free = scenario.clone();
    let machine = free.machine_mut();
    let (tick_period_ns, threads) = (machine.costs.tick_period_ns, machine.costs.smt_speed.len());
    machine.costs = Costs { tick_period_ns, ..Costs::free(threads) };
    machine.topology.cpus.iter_mut().for_each(|cpu| cpu.capacity = 1024);
    Ok(RoundTrip {
        workload: scenario.workload.name.clone(),
        machine: scenario.machine.name.clone(),
        free: trip(&free, seed)?,
        costed: trip(scenario, seed)?,
    })
}

/// A run, its export, the import, its replay.
fn trip(scenario: &Scenario, seed: u64) -> Result<Trip> {
    let shown = format!("{} on {}", scenario.workload.name, scenario.machine.name);
    let failed = |error| RunError { scenario: 0, seed, error }.told(&shown);
    let mut exporter = Exporter::new(Vec::new(), scenario);
    wakelab_sim::run_observed(scenario, seed, &mut exporter).map_err(failed)?;
    let mut log = Log::new(scenario);
    let original = wakelab_sim::run_observed(scenario, seed, &mut log).map_err(failed)?;
    let text = exporter.finish(original.elapsed_ns)?;

    let recorded_on = Some((*scenario.machine).clone());
    let options = wakelab_trace::Options { strict: true, recorded_on, ..Default::default() };
    let recording = wakelab_trace::read_from(text.as_slice(), &shown, &shown, &options)
        .with_context(|| format!("{shown}: its own export cannot be read"))?;
    let replay = Scenario { workload: recording.workload.into(), ..scenario.clone() };
    let mut replayed = Log::new(&replay);
    let outcome = wakelab_sim::run_observed(&replay, seed, &mut replayed)
        .map_err(|error| RunError { scenario: 0, seed, error }.told(&format!("{shown}, replayed")))?;
    // Our exports name all tasks first, in their order; the importer keeps that order for those that began.
    log.began.sort_unstable();
    let original_task = |task: u32| log.began.get(task as usize).copied();
    let end_ns = match scenario.workload.end {
        End::AllExited => u64::MAX,
        End::After { duration_ns } => duration_ns,
    };
    let first_difference = log
        .switches
        .iter()
        .zip(&replayed.switches)
        .enumerate()
        .filter_map(|(cpu, (ours, theirs))| {
            let before_end = |&&(time_ns, _): &&(u64, u32)| time_ns < end_ns;
            let ours = ours.iter().take_while(before_end).map(|&(time_ns, task)| (time_ns, Some(task)));
            let theirs =
                theirs.iter().take_while(before_end).map(|&(time_ns, task)| (time_ns, original_task(task)));
            let time_ns = first_unequal(ours, theirs)?;
            Some(TripDifference { time_ns, cpu: cpu as u32 })
        })
        .min_by_key(|found| found.time_ns);
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

/// Who ran where, and which tasks began at all.
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
