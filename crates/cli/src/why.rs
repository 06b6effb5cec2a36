// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab why`: two sides of a comparison, axis by axis.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use wakelab_lab::{Axes, Axis, Kernel, LabError, scenarios, why};
use wakelab_machine::{CostChange, Machine, printable};
use wakelab_policy::PolicySpec;
use wakelab_report::{Comparison, SlowWaits, Why, slowest_text};
use wakelab_sim::{Outcome, Scenario};
use wakelab_trace::{Changed, Recording, WhatIf};
use wakelab_workload::Workload;

use crate::args::{Format, FormatArg, InputArgs, KernelArgs, NoCheckArg, SeedsArgs, SlowestArg};
use crate::compare::explained;
use crate::error::bad_input;
use crate::progress::Bar;
use crate::replay_errors::replay_errors;
use crate::{input, print};

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab why demo --machine recorded --policy linux-5.2 --policy linux-6.12 --metric p99\n  \
    wakelab why demo --machine recorded --machine 'recorded*2' --policy linux-6.12\n  \
    wakelab why demo --machine recorded --policy linux-6.12 --faster hackbench=20% --cost wakeup=0\n  \
    wakelab why hackbench:groups=4 --machine smp-8 --policy linux-4.15 --policy linux-6.12 --slowest 5\n\n\
    The sides differ by policy, by machine or by both. With one policy on one machine, the sides are without and with the \
    what-ifs (--faster, --cost, --nice, ...), and each of these is an axis.")]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Machine to simulate, as for `wakelab compare`. Give two to explain what the second changes
    #[arg(long, short, value_name = "MACHINE", required = true)]
    machine: Vec<String>,
    /// Policy, as for `wakelab compare`. Give two to explain what the second changes
    #[arg(long, short, value_name = "POLICY", required = true)]
    policy: Vec<String>,
    /// The metric to explain: `result` (the first row of `wakelab compare`), p50, p95, p99 or p99.9 of wake-up latency,
    /// or a name of the JSON [default: result]
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    #[command(flatten)]
    slowest: SlowestArg,
    #[command(flatten)]
    kernel: KernelArgs,
    #[command(flatten)]
    seeds: SeedsArgs,
    #[command(flatten)]
    check: NoCheckArg,
    #[command(flatten)]
    format: FormatArg,
}

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

/// Runs both sides and their mixtures, and prints which axis makes the difference.
pub(crate) fn run(args: &WhyArgs) -> Result<()> {
    let (sides, axes, recording) = sides(args)?;
    let seeds = input::seeds(&args.seeds);
    let errors =
        replay_errors(&args.input, &args.kernel, &args.seeds, args.check.no_check, recording.as_ref())?;
    let bar = Bar::new();
    let runner = bar.runner(&args.seeds.threads);
    let mix = |set: Axes| sides.mix(set).map_err(|error| LabError::Plan(error.to_string()));
    let runs = why(axes, &mix, &seeds, &runner)?;
    let outcomes = [0, runs.all()].map(|set| runs.runs[&set].clone());
    let names = sides.names(args);
    let mut comparison = Comparison::new(&runs.sides, &names, &outcomes)?;
    if let Some((errors, _)) = errors {
        comparison = comparison.with_replay_errors(errors);
    }
    let why = Why::new(&runs, comparison, args.metric.as_deref()).map_err(bad_input)?;
    let slowest = slowest(&runs.sides, seeds[0], args.slowest.slowest.unwrap_or(0))?;
    let changed: Vec<Changed> =
        sides.workloads.borrow().values().map(|(_, changed)| changed.clone()).collect();
    match args.format.format {
        Format::Json => {
            let changed = changed.iter().find(|changed| !changed.what_if.is_empty());
            let recording = recording.as_ref().map(|recording| explained(recording, changed)).transpose()?;
            let slowest = slowest.iter().map(|outcome| outcome.waits.as_ref().map(SlowWaits::new));
            let compare = why.comparison.document(recording);
            print::json(&why.document(compare, slowest.flatten().collect()))
        }
        Format::Text => {
            let style = print::style();
            let mut text = why.text(&style);
            for (outcome, name) in slowest.iter().zip(why.comparison.column_names()) {
                let Some(waits) = &outcome.waits else { continue };
                let title = format!("The longest waits under {}, seed {}", printable(&name), outcome.seed);
                let waits = slowest_text(&title, waits, &style);
                if !waits.is_empty() {
                    text.push_str(&format!("\n{waits}"));
                }
            }
            if let Some(recording) = &recording {
                text.push('\n');
                text.push_str(&style.wrap_lines(&input::explanation(recording, &changed)));
            }
            print::text(&text)
        }
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
            LabError::Run { name, seed, error }.into()
        })
    };
    sides.iter().map(run).collect()
}

/// Reads the arguments, and finds in what the sides differ.
fn sides(args: &WhyArgs) -> Result<(Sides, Vec<Axis>, Option<Recording>)> {
    for (option, given) in [("--policy", args.policy.len()), ("--machine", args.machine.len())] {
        if given > 2 {
            return Err(bad_input(format!("{option}: given {given} times; expected one, or two to compare")));
        }
    }
    let policies = input::policies(&args.policy)?;
    let (workload, recording) = input::input(&args.input)?;
    let machine = |name: &String| input::machine_of(name, recording.as_ref(), &[]);
    let machines = args.machine.iter().map(machine).collect::<Result<Vec<_>>>()?;
    input::note_unused(&args.policy, &machines);
    let both = |at: usize| at.min(1);
    let sides = Sides {
        policies: [0, both(policies.len() - 1)].map(|at| policies[at].clone()),
        machines: [0, both(machines.len() - 1)].map(|at| Arc::clone(&machines[at])),
        changes: changes(&args.input),
        parts: Vec::new(),
        workload,
        is_recording: recording.is_some(),
        kernel: input::kernel(&args.kernel),
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
fn changes(args: &InputArgs) -> Vec<Change> {
    let WhatIf { weights, quotas, nice, slices, cpus, faster } = input::what_if(&args.what_if);
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
    all.extend(args.cost.iter().map(|c| Change { cost: Some(c.clone()), ..of("--cost", c, none()) }));
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
                Part::Policy(name) => policy = policy.with_choice_of(&self.policies[1], name)?,
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
        let machine = input::with_costs(&machine, &costs)?;
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
        let changed = input::change(&what_if, &mut workload, machine, self.is_recording)?;
        self.workloads.borrow_mut().insert(key, (Arc::clone(&workload), changed));
        Ok(workload)
    }

    /// The names of both sides.
    fn names(&self, args: &WhyArgs) -> [String; 2] {
        let [first, second] = [0, args.policy.len() - 1].map(|at| args.policy[at].clone());
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
