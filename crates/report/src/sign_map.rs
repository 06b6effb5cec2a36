// SPDX-License-Identifier: GPL-2.0-or-later
//! Where a policy helps and where it hurts: one workload over machines and loads, the gain over a baseline in each
//! cell, and where its sign flips.
//!
//! A cell counts as a gain or a loss if it is marked: more than 1 % and more than its interval. A sign flips along a
//! row if a machine has both, and between machines if a load has both.

use serde::Serialize;
use wakelab_machine::printable;
use wakelab_sim::Outcome;
use wakelab_workload::Measure;

use crate::comparison::MetricOfPolicy;
use crate::document::{CONFIDENCE_PERCENT, INTERVAL, ResultDocument, SCHEMA_VERSION};
use crate::error::ReportError;
use crate::gain_text::points_words;
use crate::grid::{Cell, Grid};
use crate::result::{ResultMetric, check_seeds, metric_names};
use crate::style::{BOLD, Style, paint};
use crate::table::{gain_cell, seeds};
use wakelab_stats::{Direction, Unit};

/// The axes of a map.
#[derive(Clone, Debug)]
pub struct MapAxes {
    /// The workload as it was given, with the number of tasks left open.
    pub workload: String,
    /// Names and numbers of CPUs, one for each row.
    pub machines: Vec<(String, u32)>,
    /// Tasks for each CPU as they were given, one for each column.
    pub loads: Vec<String>,
    /// The policies; the first is the baseline.
    pub policies: Vec<String>,
    /// The metric, one of [`metric_names`]; `None`: what the workload is judged by.
    pub metric: Option<String>,
    /// Whether there is one map only: the last policy over the one of the others with the best mean in the cell.
    pub over_best: bool,
}

/// Gains over machines and loads, a map for each policy.
#[derive(Clone, Debug)]
pub struct SignMap {
    axes: MapAxes,
    seeds: Vec<u64>,
    cells: Vec<MapCell>,
}

/// One machine, load and policy.
#[derive(Clone, Debug)]
struct MapCell {
    /// Index into the machines.
    machine: usize,
    /// Index into the loads.
    load: usize,
    /// Index into the policies; never the baseline.
    policy: usize,
    /// The policy that it is compared with: the first, or the best of all before this one.
    baseline: usize,
    workload: String,
    metric: String,
    unit: Unit,
    direction: Direction,
    before: MetricOfPolicy,
    after: MetricOfPolicy,
}

/// How to read a map.
pub(crate) const KEY: [&str; 2] = [
    "Columns: tasks a CPU. Gains in percent, positive is better, ± 95 % interval: seed spread, not model error.",
    "* more than 1 % and more than its interval. `.`: fewer tasks than the workload can have.",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Effect {
    Helps,
    Hurts,
}

impl Effect {
    fn sign(self) -> char {
        match self {
            Effect::Helps => '+',
            Effect::Hurts => '-',
        }
    }
}

impl MapCell {
    fn effect(&self) -> Option<Effect> {
        let gain = self.after.gain;
        let effect = if gain.gain_percent > Some(0.0) { Effect::Helps } else { Effect::Hurts };
        gain.marked.then_some(effect)
    }

    fn gain(&self) -> f64 {
        self.after.gain.gain_percent.unwrap_or(0.0)
    }
}

fn metric_of(axes: &MapAxes, measure: Measure) -> Result<ResultMetric, ReportError> {
    match &axes.metric {
        None => Ok(ResultMetric::new(measure)),
        Some(name) => ResultMetric::named(measure, name)
            .ok_or_else(|| ReportError::Metric { name: name.clone(), known: metric_names().join(", ") }),
    }
}

/// Returns the index of the outcomes with the best mean, the first of equals. One without a mean is not chosen if there
/// is another.
fn best(metric: &ResultMetric, outcomes: &[Vec<Outcome>]) -> usize {
    let mean = |at: usize| match (metric.of(&outcomes[at]).mean, metric.direction) {
        (Some(mean), Direction::Lower) => mean,
        (Some(mean), Direction::Higher) => -mean,
        // No value is better than another.
        (Some(_), Direction::Neutral) => 0.0,
        (None, _) => f64::INFINITY,
    };
    (1..outcomes.len()).fold(0, |best, at| if mean(at) < mean(best) { at } else { best })
}

impl SignMap {
    /// Compares the policies in each cell.
    ///
    /// # Errors
    /// Fewer than two policies, no runs, lists that do not fit the policies, other seeds than the first, no such
    /// metric.
    pub fn new(axes: MapAxes, runs: &[wakelab_lab::MapCell]) -> Result<SignMap, ReportError> {
        let first = runs.first().and_then(|runs| runs.outcomes.first()).ok_or(ReportError::Empty)?;
        let seeds: Vec<u64> = first.iter().map(|outcome| outcome.seed).collect();
        if seeds.is_empty() || axes.policies.len() < 2 {
            return Err(ReportError::Empty);
        }
        let mut cells = Vec::new();
        for case in runs {
            if case.outcomes.len() != axes.policies.len() {
                let (names, outcomes) = (axes.policies.len(), case.outcomes.len());
                return Err(ReportError::Lengths { scenarios: names, names, outcomes });
            }
            for (policy, outcomes) in case.outcomes.iter().enumerate() {
                check_seeds(&seeds, &axes.policies[0], outcomes, &axes.policies[policy])?;
            }
            let last = axes.policies.len() - 1;
            for policy in if axes.over_best { last..=last } else { 1..=last } {
                let metric = metric_of(&axes, case.workload.measure)?;
                let baseline = if axes.over_best { best(&metric, &case.outcomes[..policy]) } else { 0 };
                let (base, outcomes) = (&case.outcomes[baseline], &case.outcomes[policy]);
                cells.push(MapCell {
                    machine: case.machine,
                    load: case.load,
                    policy,
                    baseline,
                    workload: case.workload.name.clone(),
                    before: metric.of(base),
                    after: metric.over(base, outcomes),
                    metric: metric.name,
                    unit: metric.unit,
                    direction: metric.direction,
                });
            }
        }
        Ok(SignMap { axes, seeds, cells })
    }

    pub(crate) fn axes(&self) -> &MapAxes {
        &self.axes
    }

    fn cell(&self, policy: usize, machine: usize, load: usize) -> Option<&MapCell> {
        self.cells.iter().find(|cell| (cell.policy, cell.machine, cell.load) == (policy, machine, load))
    }

    /// Returns the gain in percent and whether it is marked.
    pub(crate) fn gain(&self, policy: usize, machine: usize, load: usize) -> Option<(f64, bool)> {
        let gain = self.cell(policy, machine, load)?.after.gain;
        Some((gain.gain_percent?, gain.marked))
    }

    /// Returns a table for each policy, each with sentences about its signs. Ends in a newline.
    pub fn text(&self, style: &Style) -> String {
        let mut out = style.wrap(&printable(&self.title()));
        for policy in self.mapped() {
            out.push('\n');
            out.push_str(&paint(style, BOLD, &printable(&self.axes.policies[policy])));
            out.push('\n');
            out.push_str(&self.grid(policy).text(style));
            for line in self.findings(policy) {
                out.push_str(&style.wrap(&format!("  {}", printable(&line))));
            }
        }
        out.push('\n');
        KEY.iter().for_each(|line| out.push_str(&style.wrap(line)));
        out
    }

    pub(crate) fn title(&self) -> String {
        let of = self.axes.metric.as_ref().map(|name| format!("{name} of ")).unwrap_or_default();
        let MapAxes { workload, policies, .. } = &self.axes;
        let over = match policies.split_last() {
            Some((_, others)) if self.axes.over_best => format!("the best of {}", others.join(", ")),
            _ => policies[0].clone(),
        };
        format!("{of}{workload}, over {over}, {}", seeds(&self.seeds))
    }

    /// Returns the policies that have a map.
    pub(crate) fn mapped(&self) -> std::ops::Range<usize> {
        let nr_policies = self.axes.policies.len();
        if self.axes.over_best { nr_policies - 1..nr_policies } else { 1..nr_policies }
    }

    pub(crate) fn grid(&self, policy: usize) -> Grid {
        let row = |(machine, (name, cpus)): (usize, &(String, u32))| {
            let cell = |load| match self.cell(policy, machine, load) {
                Some(cell) => gain_cell(&cell.after.gain, cell.direction),
                None => Cell { text: ".  ".to_owned(), color: None },
            };
            (format!("{name} ({cpus})"), "%", (0..self.axes.loads.len()).map(cell).collect())
        };
        Grid {
            title: "",
            heads: self.axes.loads.clone(),
            rows: self.axes.machines.iter().enumerate().map(row).collect(),
        }
    }

    /// Returns what a map says, in sentences.
    pub(crate) fn findings(&self, policy: usize) -> Vec<String> {
        let cells: Vec<&MapCell> = self.cells.iter().filter(|cell| cell.policy == policy).collect();
        let of = |effect| cells.iter().filter(move |cell| cell.effect() == Some(effect));
        let most = |effect: Effect, verb: &str| {
            let largest = of(effect).max_by(|a, b| a.gain().abs().total_cmp(&b.gain().abs()))?;
            let (machine, _) = &self.axes.machines[largest.machine];
            Some(format!(
                "{verb} in {} of {} cells, most on {machine} at load {}: {:+.2} %",
                of(effect).count(),
                cells.len(),
                self.axes.loads[largest.load],
                largest.gain()
            ))
        };
        let mut lines: Vec<String> =
            [most(Effect::Helps, "helps"), most(Effect::Hurts, "hurts")].into_iter().flatten().collect();
        if lines.is_empty() {
            lines.push(format!("neither helps nor hurts in any of {} cells", cells.len()));
        }
        if self.axes.over_best {
            lines.extend(of(Effect::Hurts).map(|cell| self.loss(cell)));
        } else {
            lines.extend(self.flips(policy));
        }
        lines
    }

    fn loss(&self, cell: &MapCell) -> String {
        let MapAxes { machines, loads, policies, .. } = &self.axes;
        let (machine, load, better) =
            (&machines[cell.machine].0, &loads[cell.load], &policies[cell.baseline]);
        let gain = points_words(&cell.after.gain);
        format!("worse on {machine} at load {load} than {better}: {gain} %")
    }

    /// Returns machines with both signs, then loads with both.
    fn flips(&self, policy: usize) -> Vec<String> {
        let (machines, loads) = (0..self.axes.machines.len(), 0..self.axes.loads.len());
        let effect = |machine, load| self.cell(policy, machine, load).and_then(MapCell::effect);
        let both = |effects: Vec<(Effect, &str)>| {
            let names = |wanted: Effect| {
                let names = effects.iter().filter(|(effect, _)| *effect == wanted).map(|(_, name)| *name);
                names.collect::<Vec<_>>().join(", ")
            };
            let (helps, hurts) = (names(Effect::Helps), names(Effect::Hurts));
            (!helps.is_empty() && !hurts.is_empty())
                .then(|| format!("{} at {helps}; {} at {hurts}", Effect::Helps.sign(), Effect::Hurts.sign()))
        };
        let along = machines.clone().filter_map(|machine| {
            let of = |load| Some((effect(machine, load)?, self.axes.loads[load].as_str()));
            let found = both(loads.clone().filter_map(of).collect())?;
            Some(format!("sign flips with the load on {}: {found}", self.axes.machines[machine].0))
        });
        let between = loads.clone().filter_map(|load| {
            let of = |machine| Some((effect(machine, load)?, self.axes.machines[machine].0.as_str()));
            let found = both(machines.clone().filter_map(of).collect())?.replace(" at ", " on ");
            Some(format!("sign flips between machines at load {}: {found}", self.axes.loads[load]))
        });
        along.chain(between).collect()
    }

    /// Returns the document for programs: docs/schema/sign-map.schema.json.
    pub fn document(&self) -> SignMapDocument<'_> {
        let MapAxes { workload, machines, loads, policies, .. } = &self.axes;
        SignMapDocument {
            schema_version: SCHEMA_VERSION,
            kind: "sign_map",
            interval: INTERVAL,
            confidence_percent: CONFIDENCE_PERCENT,
            workload,
            seeds: &self.seeds,
            machines: machines.iter().map(|(name, cpus)| MachineDocument { name, cpus: *cpus }).collect(),
            loads,
            policies,
            cells: self.cells.iter().map(|cell| self.cell_document(cell)).collect(),
        }
    }

    fn cell_document<'a>(&'a self, cell: &'a MapCell) -> CellDocument<'a> {
        let MapAxes { machines, loads, policies, .. } = &self.axes;
        CellDocument {
            machine: &machines[cell.machine].0,
            load: &loads[cell.load],
            policy: &policies[cell.policy],
            baseline: &policies[cell.baseline],
            workload: &cell.workload,
            metric: &cell.metric,
            unit: cell.unit,
            direction: cell.direction,
            before: ResultDocument::new(&self.seeds, &cell.before),
            after: ResultDocument::new(&self.seeds, &cell.after),
        }
    }
}

/// A map for programs; serialise it with serde_json.
#[derive(Debug, Serialize)]
pub struct SignMapDocument<'a> {
    schema_version: u32,
    kind: &'static str,
    interval: &'static str,
    confidence_percent: u32,
    workload: &'a str,
    seeds: &'a [u64],
    machines: Vec<MachineDocument<'a>>,
    loads: &'a [String],
    policies: &'a [String],
    cells: Vec<CellDocument<'a>>,
}

/// A cell with the names of its row, its column and its policies.
#[derive(Debug, Serialize)]
struct CellDocument<'a> {
    machine: &'a str,
    load: &'a str,
    policy: &'a str,
    baseline: &'a str,
    workload: &'a str,
    metric: &'a str,
    unit: Unit,
    direction: Direction,
    before: ResultDocument,
    after: ResultDocument,
}

#[derive(Debug, Serialize)]
struct MachineDocument<'a> {
    name: &'a str,
    cpus: u32,
}
