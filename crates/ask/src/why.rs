// SPDX-License-Identifier: GPL-2.0-or-later
//! Two sides of a comparison, axis by axis.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use wakelab_lab::{Axes, Axis, Kernel, LabError, Runner, Timeline, WhyOutcomes, scenarios};
use wakelab_machine::{CostChange, Machine};
use wakelab_policy::PolicySpec;
use wakelab_report::{Check, Comparison, SlowWaits, Why};
use wakelab_sim::{Outcome, Scenario};
use wakelab_trace::{Changed, Recording, WhatIf};
use wakelab_workload::Workload;

use crate::compare::{Replayed, explained, replayed, timelines};
use crate::error::{AskError, bad_input};
use crate::input::{Ask, MachineChoice, Note, change, input, machine_of, note_unused, policies, with_costs};

type Result<T> = std::result::Result<T, AskError>;

/// One change of a what-if option.
struct Change {
    option: &'static str,
    to: String,
    tasks: WhatIf,
    cost: Option<CostChange>,
}

/// What an axis changes.
enum Part {
    Policy(&'static str),
    Machine(String),
    /// The change with this index.
    WhatIf(usize),
}

/// A workload as some machine runs it, and what was changed for that.
type Fitted = (Arc<Workload>, Changed);

/// Everything that mixtures are made of.
struct Sides {
    policies: [PolicySpec; 2],
    machines: [Arc<Machine>; 2],
    /// Axes if policy and machine are one each; otherwise both sides have all of them.
    changes: Vec<Change>,
    parts: Vec<Part>,
    workload: Arc<Workload>,
    is_recording: bool,
    kernel: Kernel,
    /// Workloads that mixtures share: by the number of CPUs and the changes.
    workloads: RefCell<BTreeMap<(usize, Vec<usize>), Fitted>>,
}

/// What to explain; the fields are options of the command.
pub struct WhyAsk<'a> {
    /// The input and its what-ifs.
    pub ask: &'a Ask,
    /// The choice of `--machine`.
    pub machines: &'a [MachineChoice],
    /// The choice of `--policy`.
    pub policies: &'a [String],
    /// The name of `--metric`.
    pub metric: Option<String>,
    /// Whether `--no-check` is given.
    pub no_check: bool,
    /// The number of `--slowest`.
    pub slowest: usize,
    /// What surrounds the policy.
    pub kernel: Kernel,
    /// The seeds.
    pub seeds: Vec<u64>,
}

/// Both sides, their mixtures, and all runs.
pub struct Explained {
    runs: WhyOutcomes,
    outcomes: [Vec<Outcome>; 2],
    names: [String; 2],
    metric: Option<String>,
    replayed: Option<Replayed>,
    /// Both sides with the first seed and their longest waits, if they were asked for.
    pub slowest: Vec<Outcome>,
    /// The recording, if the input is one.
    pub recording: Option<Recording>,
    /// What became of its tasks, by mixture.
    pub changed: Vec<Changed>,
}

/// Runs both sides and their mixtures.
///
/// # Errors
/// Sides that do not differ, a metric that does not exist, or a run that fails.
pub fn why(ask: &WhyAsk<'_>, runner: &Runner<'_>, note: Note<'_>) -> Result<Explained> {
    let (sides, axes, recording) = sides(ask, note)?;
    let told = recording.as_ref();
    let replayed = replayed(ask.ask, told, ask.no_check, ask.kernel, &ask.seeds, runner, note)?;
    let mix = |set: Axes| sides.mix(set).map_err(|error| LabError::Plan(error.to_string()));
    let runs = wakelab_lab::why(axes, &mix, &ask.seeds, runner)?;
    let outcomes = [0, runs.all()].map(|set| runs.runs[&set].clone());
    let slowest = slowest(&runs.sides, ask.seeds[0], ask.slowest)?;
    let changed = sides.workloads.borrow().values().map(|(_, changed)| changed.clone()).collect();
    let (names, metric) = (sides.names(ask.policies), ask.metric.clone());
    let explained = Explained { runs, outcomes, names, metric, replayed, slowest, recording, changed };
    explained.why()?;
    Ok(explained)
}

impl Explained {
    /// Which axis makes the difference.
    ///
    /// # Errors
    /// A metric that does not exist.
    pub fn why(&self) -> Result<Why<'_>> {
        let mut comparison = Comparison::new(&self.runs.sides, &self.names, &self.outcomes)?;
        if let Some(replayed) = &self.replayed {
            comparison = comparison.with_replay_errors(replayed.errors.clone());
        }
        Why::new(&self.runs, comparison, self.metric.as_deref()).map_err(bad_input)
    }

    /// The recording beside its replay.
    pub fn check(&self) -> Option<&Check> {
        self.replayed.as_ref()?.check.as_ref()
    }

    /// Runs both sides once more with the first seed, and returns what each run did.
    ///
    /// # Errors
    /// A run that fails.
    pub fn timelines(&self, runner: &Runner<'_>) -> Result<Vec<Timeline>> {
        timelines(&self.runs.sides, self.outcomes[0][0].seed, runner)
    }

    /// The JSON of docs/schema/why.schema.json.
    ///
    /// # Errors
    /// A metric that does not exist.
    pub fn json(&self) -> Result<String> {
        let why = self.why()?;
        let changed = self.changed.iter().find(|changed| !changed.what_if.is_empty());
        let recording = self.recording.as_ref().map(|recording| explained(recording, changed)).transpose()?;
        let slowest = self.slowest.iter().filter_map(|outcome| outcome.waits.as_ref().map(SlowWaits::new));
        let compare = why.comparison.document(recording);
        Ok(serde_json::to_string_pretty(&why.document(compare, slowest.collect()))?)
    }
}

/// Runs both sides once more, if their longest waits are asked for.
fn slowest(sides: &[Scenario; 2], seed: u64, longest: usize) -> Result<Vec<Outcome>> {
    if longest == 0 {
        return Ok(Vec::new());
    }
    let run = |scenario: &Scenario| {
        wakelab_sim::run_explained(scenario, seed, longest).map_err(|error| {
            let name = format!("policy {}", scenario.policy);
            AskError::from(LabError::Run { name, seed, error })
        })
    };
    sides.iter().map(run).collect()
}

/// Reads the arguments, and finds in what the sides differ.
fn sides(asked: &WhyAsk<'_>, note: Note<'_>) -> Result<(Sides, Vec<Axis>, Option<Recording>)> {
    for (option, given) in [("--policy", asked.policies.len()), ("--machine", asked.machines.len())] {
        if given == 0 || given > 2 {
            return Err(bad_input(format!("{option}: given {given} times; expected one, or two to compare")));
        }
    }
    let policies = policies(asked.policies, note)?;
    let (workload, recording) = input(asked.ask)?;
    let told = recording.as_ref().map(|recording| (recording, asked.ask.import.recorded_on.as_ref()));
    let machine = |choice: &MachineChoice| machine_of(choice, told, &[]);
    let machines = asked.machines.iter().map(machine).collect::<Result<Vec<_>>>()?;
    note_unused(asked.policies, &machines, note);
    let both = |at: usize| at.min(1);
    let sides = Sides {
        policies: [0, both(policies.len() - 1)].map(|at| policies[at].clone()),
        machines: [0, both(machines.len() - 1)].map(|at| Arc::clone(&machines[at])),
        changes: changes(asked.ask),
        parts: Vec::new(),
        workload,
        is_recording: recording.is_some(),
        kernel: asked.kernel,
        workloads: RefCell::default(),
    };
    let (parts, axes) = sides.axes(policies.len() == 1 && machines.len() == 1);
    if axes.is_empty() {
        let what = match (policies.len(), machines.len()) {
            (1, 1) => "one policy on one machine, and no what-if",
            _ => "both sides are the same",
        };
        return Err(bad_input(format!(
            "nothing to explain: {what}; expected two policies, two machines, or a what-if such as --faster COMM=20%"
        )));
    }
    Ok((Sides { parts, ..sides }, axes, recording))
}

/// The what-if options, one change each.
fn changes(ask: &Ask) -> Vec<Change> {
    let WhatIf { weights, quotas, nice, slices, cpus, faster } = &ask.what_if;
    let none = WhatIf::default;
    let of = |option, change: &dyn std::fmt::Display, tasks| Change {
        option,
        to: change.to_string(),
        tasks,
        cost: None,
    };
    let mut all = Vec::new();
    all.extend(faster.iter().map(|c| of("--faster", c, WhatIf { faster: vec![c.clone()], ..none() })));
    all.extend(nice.iter().map(|c| of("--nice", c, WhatIf { nice: vec![c.clone()], ..none() })));
    all.extend(slices.iter().map(|c| of("--slice", c, WhatIf { slices: vec![c.clone()], ..none() })));
    all.extend(cpus.iter().map(|c| of("--cpus", c, WhatIf { cpus: vec![c.clone()], ..none() })));
    all.extend(weights.iter().map(|c| of("--weight", c, WhatIf { weights: vec![c.clone()], ..none() })));
    all.extend(quotas.iter().map(|c| of("--quota", c, WhatIf { quotas: vec![c.clone()], ..none() })));
    all.extend(ask.cost.iter().map(|c| Change { cost: Some(c.clone()), ..of("--cost", c, none()) }));
    all
}

impl Sides {
    /// Returns in what the sides differ; `what_ifs`: by what-ifs.
    fn axes(&self, what_ifs: bool) -> (Vec<Part>, Vec<Axis>) {
        let mut all = Vec::new();
        for (name, from, to) in self.policies[0].differences(&self.policies[1]) {
            all.push((Part::Policy(name), Axis { name: name.to_owned(), from, to }));
        }
        for (name, from, to) in self.machines[0].differences(&self.machines[1]) {
            all.push((Part::Machine(name.clone()), Axis { name, from, to }));
        }
        if what_ifs {
            for (index, change) in self.changes.iter().enumerate() {
                let (name, from) = (change.option.to_owned(), "unchanged".to_owned());
                all.push((Part::WhatIf(index), Axis { name, from, to: change.to.clone() }));
            }
        }
        all.into_iter().unzip()
    }

    /// The scenario with these axes of the second side.
    fn mix(&self, set: Axes) -> Result<Scenario> {
        let mut policy = self.policies[0].clone();
        let mut parts: Vec<&str> = Vec::new();
        let mut changes: Vec<usize> = Vec::new();
        let chosen = self.parts.iter().enumerate().filter(|(index, _)| set >> index & 1 == 1);
        for (_, part) in chosen {
            match part {
                Part::Policy(name) => {
                    policy = policy.with_choice_of(&self.policies[1], name).map_err(bad_input)?
                }
                Part::Machine(name) => parts.push(name),
                Part::WhatIf(index) => changes.push(*index),
            }
        }
        if !self.parts.iter().any(|part| matches!(part, Part::WhatIf(_))) {
            changes = (0..self.changes.len()).collect();
        }
        let nr_parts = self.parts.iter().filter(|part| matches!(part, Part::Machine(_))).count();
        let [first, second] = &self.machines;
        let machine = match parts.len() {
            0 => Arc::clone(first),
            all if all == nr_parts => Arc::clone(second),
            _ => Arc::new(first.with_parts_of(second, &parts).map_err(|error| {
                bad_input(format!("these machines cannot be compared part by part: {error}"))
            })?),
        };
        let costs: Vec<CostChange> =
            changes.iter().filter_map(|&change| self.changes[change].cost.clone()).collect();
        let machine = with_costs(&machine, &costs)?;
        let workload = self.workload(&machine, changes)?;
        Ok(scenarios(&machine, &workload, &[policy], self.kernel).remove(0))
    }

    fn workload(&self, machine: &Machine, changes: Vec<usize>) -> Result<Arc<Workload>> {
        let mut what_if = WhatIf::default();
        changes.iter().for_each(|&change| what_if.add(self.changes[change].tasks.clone()));
        let key = (machine.topology.nr_cpus(), changes);
        if let Some((workload, _)) = self.workloads.borrow().get(&key) {
            return Ok(Arc::clone(workload));
        }
        let mut workload = Arc::clone(&self.workload);
        let changed = change(&what_if, &mut workload, machine, self.is_recording)?;
        self.workloads.borrow_mut().insert(key, (Arc::clone(&workload), changed));
        Ok(workload)
    }

    /// The names of both sides.
    fn names(&self, policies: &[String]) -> [String; 2] {
        let [first, second] = [0, policies.len() - 1].map(|at| policies[at].clone());
        let is_axis = |change: &usize| {
            self.parts.iter().any(|part| matches!(part, Part::WhatIf(index) if index == change))
                && self.changes[*change].cost.is_none()
        };
        let words = (0..self.changes.len()).filter(is_axis).map(|index| {
            let Change { option, to, .. } = &self.changes[index];
            format!(" {option} {to}")
        });
        let words: String = words.collect();
        [first, second + &words]
    }
}
