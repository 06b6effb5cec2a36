// SPDX-License-Identifier: GPL-2.0-or-later
//! A recording beside its own replay, or a what-if beside a recording of what came true.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use wakelab_lab::{Kernel, Runner, observe_replays, replay_on_itself};
use wakelab_machine::Machine;
use wakelab_report::Check;
use wakelab_trace::beside::hidden_threads;
use wakelab_trace::{Changed, Observations, Options, Recording, WhatIf};

use crate::error::AskError;
use crate::input::{
    Import, MachineChoice, Note, change, machine_of, note_without_slices, policy, read_as,
    recorded_on_itself, refuse_what_if,
};
use crate::nearest::nearest;

/// What to check; the fields are options of the command.
pub struct CheckAsk<'a> {
    /// The recording.
    pub recording: &'a Path,
    /// How to read it.
    pub import: &'a Import,
    /// The choice of `--machine`.
    pub machine: Option<&'a MachineChoice>,
    /// The path of `--against`.
    pub against: Option<PathBuf>,
    /// What was different there.
    pub what_if: &'a WhatIf,
    /// The choice of `--policy`.
    pub policy: Option<&'a str>,
    /// What surrounds the policy.
    pub kernel: Kernel,
    /// The seeds of the replays.
    pub seeds: Vec<u64>,
}

/// A check with what it was made from.
pub struct Checked {
    /// The figures side by side.
    pub check: Check,
    /// The seeds of the replays.
    pub seeds: Vec<u64>,
    /// The recording.
    pub recording: Recording,
    /// What became of its tasks.
    pub changed: Changed,
    /// Why this policy was chosen, if none was given.
    pub why: Option<String>,
    /// What the replays ran, for their events.
    pub scenario: wakelab_sim::Scenario,
}

impl Checked {
    /// The JSON of docs/schema/check.schema.json.
    ///
    /// # Errors
    /// None that is known.
    pub fn json(&self) -> Result<String, AskError> {
        Ok(serde_json::to_string_pretty(&self.check.document(&self.seeds))?)
    }
}

/// Replays a recording on its own machine, or as the what-if says.
///
/// # Errors
/// A recording, a machine or a policy that is wrong, or a run that fails.
pub fn check(ask: &CheckAsk<'_>, runner: &Runner<'_>, note: Note<'_>) -> Result<Checked, AskError> {
    let given = ask.policy.map(|name| policy(name, note)).transpose()?;
    if ask.against.is_none() {
        refuse_what_if(ask.what_if)?;
    }
    let own = ask.machine.filter(|_| ask.against.is_none());
    let (recording, itself) = recorded_on_itself(ask.recording, ask.import, own)?;
    if let Some(hidden) = hidden_threads(&recording.learnt.beside, &itself.topology) {
        note(&hidden);
    }
    let (name, why) = match ask.policy {
        Some(name) => (name.to_owned(), None),
        None => nearest(&recording, &itself, ask.kernel, runner, note)?,
    };
    let policy = given.map_or_else(|| policy(&name, note), Ok)?;
    let name = name.as_str();
    let (machine, truth): (Arc<Machine>, Option<Recording>) = match &ask.against {
        None => (itself, None),
        Some(truth) => {
            let machine = ask.machine.map_or(Ok(itself), |choice| machine_of(choice, None, &[]))?;
            let of = ask.import.of.clone();
            (machine, Some(read_as(truth, &Options { of, ..Options::default() })?))
        }
    };
    let (scenario, changed) = match truth {
        None => (replay_on_itself(&recording, &machine, policy, ask.kernel), Changed::default()),
        Some(_) => {
            let mut workload = Arc::new(recording.workload.clone());
            let changed = change(ask.what_if, &mut workload, &machine, true)?;
            note_without_slices(&workload, [(name, &policy)], note);
            (wakelab_lab::scenarios(&machine, &workload, &[policy], ask.kernel).remove(0), changed)
        }
    };
    let replays = observe_replays(&scenario, &ask.seeds, runner)?;
    let seen: Vec<Observations> = replays.iter().map(|replay| replay.seen.clone()).collect();
    let mut check = match &truth {
        None => Check::new(&recording, &seen, &machine.name, name),
        Some(truth) => Check::against(&recording, truth, &seen, &machine.name, name),
    };
    check.warn_of_unfinished(&replays, ask.kernel.limit_ns);
    Ok(Checked { check, seeds: ask.seeds.clone(), recording, changed, why, scenario })
}
