// SPDX-License-Identifier: GPL-2.0-or-later
//! One input under several policies, and a run of it under one.

use std::path::Path;

use serde_json::Value;
use wakelab_lab::{
    DrawSet, Drawn, Draws, Kernel, Runner, Timeline, draw, observe_replays, observe_timeline,
    replay_on_itself, run_until_steady,
};
use wakelab_report::{Check, Comparison, ReplayErrors, metric_values};
use wakelab_sim::{HostProfile, Outcome, Scenario};
use wakelab_trace::{Changed, Observations, Recording};

use crate::error::{AskError, bad_input};
use crate::input::{Ask, Note, Question, policy, replayed_on_itself};
use crate::nearest::nearest;

/// How far the replay of a recording on its own machine is from it.
pub struct Replayed {
    /// The errors, by metric.
    pub errors: ReplayErrors,
    /// The recording beside its replay; it is not there where an earlier result told the errors.
    pub check: Option<Check>,
}

/// A comparison with its runs.
pub struct Compared {
    /// What ran.
    pub question: Question,
    /// By scenario, then by seed.
    pub outcomes: Vec<Vec<Outcome>>,
    /// The replay errors, if the input is a recording and they were asked for.
    pub replayed: Option<Replayed>,
    /// The runs on machines whose figures were drawn, if they were asked for.
    pub drawn: Option<(Draws, Drawn<Vec<Option<f64>>>)>,
}

impl Compared {
    /// Runs every scenario with every seed; `draws`: and as often with figures drawn from their ranges; `steady`: with
    /// longer runs, until rates are known to that many percent.
    ///
    /// # Errors
    /// A run that fails, or draws of a machine without a range.
    pub fn run(
        mut question: Question,
        replayed: Option<Replayed>,
        (draws, steady): (Option<usize>, Option<f64>),
        runner: &Runner<'_>,
    ) -> Result<Compared, AskError> {
        let run = |scenarios: &[Scenario]| -> Result<Vec<Vec<Outcome>>, AskError> {
            Ok(runner.run_all_explained(scenarios, &question.seeds, 0).map_err(|failure| {
                let name = format!("policy {}", question.policy_names[failure.scenario]);
                failure.named(name)
            })?)
        };
        let outcomes = match steady {
            None => run(&question.scenarios)?,
            Some(percent) => {
                let (scenarios, outcomes) = run_until_steady(question.scenarios.clone(), percent, run)?;
                question.scenarios = scenarios;
                outcomes
            }
        };
        let draws = draws.map(|number| Draws { number, seed: question.seeds[0] });
        let drawn = draws.map(|draws| Ok::<_, AskError>((draws, draws_of(&question, draws, runner)?)));
        Ok(Compared { drawn: drawn.transpose()?, question, outcomes, replayed })
    }

    /// The runs side by side.
    ///
    /// # Errors
    /// Runs that cannot be put side by side.
    pub fn comparison(&self) -> Result<Comparison<'_>, AskError> {
        let Question { scenarios, policy_names, .. } = &self.question;
        let compared = Comparison::new(scenarios, policy_names, &self.outcomes)?;
        let compared = match &self.replayed {
            Some(replayed) => compared.with_replay_errors(replayed.errors.clone()),
            None => compared,
        };
        Ok(match &self.drawn {
            Some((draws, drawn)) => compared.with_uncertainty(*draws, drawn),
            None => compared,
        })
    }

    /// The recording beside its replay.
    pub fn check(&self) -> Option<&Check> {
        self.replayed.as_ref()?.check.as_ref()
    }

    /// The JSON of docs/schema/compare.schema.json; `with_scenario`: with what [`again`] needs.
    ///
    /// # Errors
    /// Runs that cannot be put side by side.
    pub fn json(&self, with_scenario: bool) -> Result<String, AskError> {
        let (recording, comparison) = (self.question.recording_value()?, self.comparison()?);
        let document = match with_scenario {
            true => comparison.document_with_scenario(recording),
            false => comparison.document(recording),
        };
        Ok(serde_json::to_string_pretty(&document)?)
    }

    /// Runs everything once more with the first seed, and returns what each run did.
    ///
    /// # Errors
    /// A run that fails.
    pub fn timelines(&self, runner: &Runner<'_>) -> Result<Vec<Timeline>, AskError> {
        timelines(&self.question.scenarios, self.question.seeds[0], runner)
    }
}

/// Returns what the run of each scenario with this seed does.
///
/// # Errors
/// A run that fails.
pub fn timelines(scenarios: &[Scenario], seed: u64, runner: &Runner<'_>) -> Result<Vec<Timeline>, AskError> {
    let observed = runner.in_parallel(scenarios.len(), |index| observe_timeline(&scenarios[index], seed));
    observed.into_iter().map(|run| Ok(run?.1)).collect()
}

/// Runs everything on draws of the machines' figures.
fn draws_of(
    question: &Question,
    draws: Draws,
    runner: &Runner<'_>,
) -> Result<Drawn<Vec<Option<f64>>>, AskError> {
    let scenarios = &question.scenarios;
    let set = DrawSet { scenarios, seeds: vec![question.seeds.clone(); scenarios.len()], fitted: Vec::new() };
    let keep = |_, scenario: usize, outcome: &Outcome| metric_values(&scenarios[scenario], outcome);
    let drawn = draw(std::slice::from_ref(&set), draws, runner, keep)?.remove(0);
    if drawn.figures.is_empty() {
        return Err(bad_input("--uncertainty: no figure of the machine has a range; expected an estimate"));
    }
    Ok(drawn)
}

impl Question {
    /// Checks every scenario.
    ///
    /// # Errors
    /// The first that cannot be run.
    pub fn check(&self) -> Result<(), AskError> {
        self.scenarios.iter().try_for_each(|scenario| scenario.check().map_err(bad_input))
    }

    /// What the JSON says about the recording.
    ///
    /// # Errors
    /// A recording that cannot be written as JSON.
    pub fn recording_value(&self) -> Result<Option<Value>, AskError> {
        let changed = self.changed.iter().find(|changed| !changed.what_if.is_empty());
        let value = |recording| explained(recording, changed.or(self.changed.first()));
        self.recording.as_ref().map(value).transpose()
    }
}

/// Replays the recording as `check` does, unless `no_check`. `None` without a recording, and if it cannot be replayed
/// on its own machine.
///
/// # Errors
/// A recording that cannot be read again, or a replay that fails; `no_check` without a recording.
pub fn replayed(
    ask: &Ask,
    recording: Option<&Recording>,
    no_check: bool,
    kernel: Kernel,
    seeds: &[u64],
    runner: &Runner<'_>,
    note: Note<'_>,
) -> Result<Option<Replayed>, AskError> {
    let recording = match recording {
        Some(recording) if !no_check => recording,
        None if no_check => {
            return Err(bad_input("--no-check: the input is a workload; expected a recording"));
        }
        _ => return Ok(None),
    };
    let Some((recording, machine)) = replayed_on_itself(ask, recording)? else {
        note("no replay error: a pipe can be read only once, and --repeat asks for several runs");
        return Ok(None);
    };
    // The recorded kernel had its policy built in, whatever `--host` asks of the policies that are compared.
    let kernel = Kernel { host: HostProfile::Mainline, ..kernel };
    let (name, _) = nearest(&recording, &machine, kernel, runner, note)?;
    let scenario = replay_on_itself(&recording, &machine, policy(&name, note)?, kernel);
    let replays = observe_replays(&scenario, seeds, runner)?;
    let seen: Vec<Observations> = replays.iter().map(|replay| replay.seen.clone()).collect();
    let errors = ReplayErrors::new(&recording, &seen, &machine.name, &name);
    let mut check = Check::new(&recording, &seen, &machine.name, &name);
    check.warn_of_unfinished(&replays, kernel.limit_ns);
    Ok(Some(Replayed { errors, check: Some(check) }))
}

/// Reads the scenarios and seeds of an earlier result, and the replay errors that it measured.
///
/// # Errors
/// A file that cannot be read, or that is no such result.
pub fn again(path: &Path) -> Result<(Question, Option<Replayed>), AskError> {
    let refuse = |error: &dyn std::fmt::Display| bad_input(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refuse(&error))?;
    let (scenarios, seeds) = wakelab_report::read_scenarios(&text).map_err(|error| refuse(&error))?;
    let errors = wakelab_report::read_replay_errors(&text).map_err(|error| refuse(&error))?;
    if scenarios.is_empty() || seeds.is_empty() {
        return Err(refuse(&format!(
            "{} policies and {} seeds; expected at least one of each",
            scenarios.len(),
            seeds.len()
        )));
    }
    let policy_names = scenarios.iter().map(|scenario| scenario.policy.to_string()).collect();
    let question = Question { scenarios, policy_names, seeds, recording: None, changed: Vec::new() };
    Ok((question, errors.map(|errors| Replayed { errors, check: None })))
}

/// Returns what the JSON says about a recording: everything but the workload, which is in the scenario; `changed` is
/// for the first machine.
///
/// # Errors
/// A recording that cannot be written as JSON.
pub fn explained(recording: &Recording, changed: Option<&Changed>) -> Result<Value, AskError> {
    let mut value = serde_json::to_value(recording)?;
    if let Some(object) = value.as_object_mut() {
        object.remove("workload");
        if let Some(changed) = changed {
            object.insert("folded".to_owned(), serde_json::to_value(&changed.folded)?);
            object.insert("what_if".to_owned(), serde_json::to_value(&changed.what_if)?);
        }
    }
    Ok(value)
}
