// SPDX-License-Identifier: GPL-2.0-or-later
//! Replays of a recording, seen through the same eyes as the recording: each replay's events go through the reader of
//! recordings, so that every figure has one definition.

use std::io;

use wakelab_machine::Machine;
use wakelab_sim::Scenario;
use wakelab_trace::{Observations, Options, Recording};

use crate::error::LabError;
use crate::export::export_events;
use crate::runner::Runner;
use crate::scenario::describe;

/// The machine that made a recording, as far as the recording tells: CPUs of one LLC, with the costs of the preset
/// `smp-8` and the exits from idle that the recording shows.
pub fn recorded_machine(recording: &Recording) -> Machine {
    let text = format!(
        "description = \"what the recording tells of its machine\"\n\
         [topology]\nsockets = 1\ncores_per_llc = {}\n\
         [costs]\nbase = \"smp-8\"\n",
        recording.nr_cpus
    );
    let base = Machine::from_toml(&text, "recorded").expect("a machine of one LLC is valid");
    recording.learnt.machine(&base, &recording.workload.name)
}

/// What the replays of `scenario` show, one for each seed.
///
/// # Errors
/// A scenario that cannot be run, the first run that fails, or an export that cannot be read.
pub fn observe_replays(
    scenario: &Scenario,
    seeds: &[u64],
    runner: &Runner<'_>,
) -> Result<Vec<Observations>, LabError> {
    scenario.check().map_err(|error| LabError::Scenario { name: describe(scenario), error })?;
    let all = runner.in_parallel(seeds.len(), |job| observe(scenario, seeds[job]));
    all.into_iter().collect()
}

/// Runs a scenario on a second thread, and reads its events meanwhile.
fn observe(scenario: &Scenario, seed: u64) -> Result<Observations, LabError> {
    let name = describe(scenario);
    let (from, into) = io::pipe().map_err(LabError::Write)?;
    std::thread::scope(|scope| {
        let run = scope.spawn(move || export_events(scenario, seed, into).map(drop));
        let read = wakelab_trace::read_from(from, &name, &name, &Options::default());
        let ran = run.join().expect("a run does not panic");
        // A reader that gives up breaks the pipe of the run, so its error comes first.
        let recording: Recording = match (read, ran) {
            (_, Err(error @ (LabError::Run { .. } | LabError::Scenario { .. }))) => return Err(error),
            (Err(error), _) => return Err(LabError::Import { name, message: error.to_string() }),
            (Ok(_), Err(error)) => return Err(error),
            (Ok(recording), Ok(())) => recording,
        };
        Ok(recording.observed)
    })
}
