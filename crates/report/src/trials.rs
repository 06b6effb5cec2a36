// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs of one command on a live kernel under several schedulers (`wakelab ab`), paired by block: the table of a
//! comparison, and JSON (docs/schema/ab.schema.json).
//!
//! A block is one run under each scheduler, one after the other. Slow drift (temperature, page cache, other load)
//! affects all runs of a block alike, and pairing removes it. Statistics are those of [`crate::Comparison`], with
//! blocks for seeds.

use serde::Serialize;
use wakelab_ab::{LeftRunning, MissingMetric, StoppedBy, TrialMetric, TrialRuns, VoidRun};

use crate::comparison::{MetricOfPolicy, MetricResult, over_the_first};
use crate::document::{CONFIDENCE_PERCENT, SCHEMA_VERSION};
use crate::error::ReportError;
use crate::style::Style;
use crate::table::{head, metric_grid, reading_key};
use wakelab_machine::{printable, printable_lines};
use wakelab_stats::{Direction, Unit};

/// The meaning of the intervals.
const INTERVAL: &str = "spread over runs";

/// Runs under several schedulers, compared with those under the first.
#[derive(Clone, Debug)]
pub struct Trials {
    runs: TrialRuns,
    metrics: Vec<MetricResult>,
}

/// Trials for programs.
#[derive(Debug, Serialize)]
pub struct TrialsDocument<'a> {
    schema_version: u32,
    kind: &'static str,
    interval: &'static str,
    confidence_percent: u32,
    command: &'a [String],
    kernel: &'a str,
    cpus: usize,
    sides: &'a [String],
    seed: u64,
    order: &'a [Vec<usize>],
    stopped_by: StoppedBy,
    regex: Option<&'a str>,
    metrics: Vec<TrialMetricDocument<'a>>,
    missing: &'a [MissingMetric],
    void: &'a [VoidRun],
    left_running: LeftRunning,
}

#[derive(Debug, Serialize)]
struct TrialMetricDocument<'a> {
    name: &'a str,
    unit: Unit,
    direction: Direction,
    sides: &'a [MetricOfPolicy],
}

impl<'a> TrialMetricDocument<'a> {
    fn new(metric: &'a MetricResult) -> TrialMetricDocument<'a> {
        let MetricResult { name, unit, direction, policies, .. } = metric;
        TrialMetricDocument { name, unit: *unit, direction: *direction, sides: policies }
    }
}

impl Trials {
    /// Compares every side with the first, block by block.
    ///
    /// # Errors
    /// No side, no block, or a metric that has not one value a side and block.
    pub fn new(mut runs: TrialRuns) -> Result<Trials, ReportError> {
        let (sides, blocks) = (runs.sides.len(), runs.order.len());
        if sides == 0 || blocks == 0 {
            return Err(ReportError::Empty);
        }
        let metrics = std::mem::take(&mut runs.metrics);
        for metric in &metrics {
            if metric.values.len() != sides || metric.values.iter().any(|values| values.len() != blocks) {
                return Err(ReportError::Trials { metric: metric.name, sides, blocks });
            }
        }
        let metrics = metrics
            .into_iter()
            .map(|TrialMetric { name, label, unit, direction, values }| MetricResult {
                name: name.to_owned(),
                label: label.to_owned(),
                unit,
                direction,
                policies: over_the_first(values, direction, true),
            })
            .collect();
        Ok(Trials { runs, metrics })
    }

    /// Returns the table as text, ending in a newline.
    pub fn text(&self, style: &Style) -> String {
        let TrialRuns { command, kernel, nr_cpus, sides, seed, order, .. } = &self.runs;
        let blocks = order.len();
        let plural = if blocks == 1 { "" } else { "s" };
        let mut out = style.wrap(&format!(
            "{} on Linux {} ({nr_cpus} CPUs), {blocks} run{plural} each, order by seed {seed}",
            printable(&shell_words(command)),
            printable(kernel)
        ));
        if sides.len() > 1 {
            out.push_str(&reading_key(style, blocks, "block", &self.metrics));
        }
        out.push('\n');
        let heads = sides.iter().map(|side| head(side)).collect();
        out.push_str(&metric_grid(&self.metrics, heads).text(style));
        out.push('\n');
        for note in self.notes() {
            out.push_str(&style.wrap_lines(&printable_lines(&note)));
        }
        out
    }

    /// Returns what to say below the table.
    fn notes(&self) -> Vec<String> {
        let TrialRuns { sides, order, regex, missing, void, left_running, .. } = &self.runs;
        let mut notes = Vec::new();
        if self.metrics.iter().any(|metric| metric.name.starts_with("runqueue_wait")) {
            notes.push("runqueue wait: of all tasks on the machine.".to_owned());
        }
        if let Some(regex) = regex {
            notes.push(format!("metric: the last match of `{regex}` in the command's output."));
        }
        for group in missing.chunk_by(|a, b| a.why == b.why) {
            let names: Vec<&str> = group.iter().map(|missing| missing.name).collect();
            notes.push(format!("not measured: {}: {}", names.join(", "), group[0].why));
        }
        let LeftRunning { processes, runs } = left_running;
        if *processes > 0 {
            let plural = if *processes == 1 { "" } else { "es" };
            let all = order.len() * sides.len();
            notes.push(format!(
                "!! the command left {processes} process{plural} running, in {runs} of {all} runs; each was ended after its run"
            ));
        }
        for VoidRun { block, side, why } in void {
            let side = &sides[*side];
            notes.push(format!("!! block {}, {side}: void, and run again: {why}", block + 1));
        }
        notes
    }

    /// Returns the whole as a document; serialise it with serde_json.
    pub fn document(&self) -> TrialsDocument<'_> {
        TrialsDocument {
            schema_version: SCHEMA_VERSION,
            kind: "ab",
            interval: INTERVAL,
            confidence_percent: CONFIDENCE_PERCENT,
            command: &self.runs.command,
            kernel: &self.runs.kernel,
            cpus: self.runs.nr_cpus,
            sides: &self.runs.sides,
            seed: self.runs.seed,
            order: &self.runs.order,
            stopped_by: self.runs.stopped_by,
            regex: self.runs.regex.as_deref(),
            metrics: self.metrics.iter().map(TrialMetricDocument::new).collect(),
            missing: &self.runs.missing,
            void: &self.runs.void,
            left_running: self.runs.left_running,
        }
    }
}

/// Returns a command as a shell would accept it.
fn shell_words(command: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    let word = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}
