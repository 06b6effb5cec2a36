// SPDX-License-Identifier: GPL-2.0-or-later
//! Experiments as a page of Markdown: docs/results/experiments.md.

use crate::experiment::{CaseRuns, ExperimentResult, Experiments, RowResult};
use crate::experiment_text::{DRAW_NOTES, NOTES, score_text};
use crate::mechanism::{change_grids, change_words};
use crate::score::Score;
use crate::style::Style;

/// Maximum number of columns in the tables of what changed.
const CASES_MAX: usize = 4;

const HEAD: &str = "<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Written by `cargo xtask experiments`; edit experiments/*.toml instead. -->
# The published experiments, simulated

Each design was published with measurements. Here they are beside what wakelab predicts: the values under the first policy
(\"before\") may have been fitted by at most two parameters for all rows of an experiment together; the values under the second (\"after\")
are predictions. Nothing but the policy differs between the two. [experiment-files.md](../guide/experiment-files.md) says how rows are measured and
scored; `cargo xtask experiments` renews this page, `cargo xtask experiments NAME` a section, `wakelab experiments NAME` runs one.
A section says when it was run. One that does not is older than all that do.
";

const ALL: &str = "\
This is the score of each row's last run, and how well ranges say how far the model may be off: those of 90 % of the draws of the
model's figures, and those with the model's error, which is learned from the misses of all other publications
([uncertainty.md](../guide/uncertainty.md)). The draws are those of each row's last run with
draws, which may be of an older engine or workload than its gain.
";
impl Experiments<'_> {
    /// Returns the page, ending in a newline.
    pub fn page(&self) -> String {
        let mut out = HEAD.to_owned();
        let of_draws = if self.pooled.model.is_some() { DRAW_NOTES } else { "" };
        out.push_str(&format!("\n```text\n{NOTES}{of_draws}```\n"));
        let all = Score::new(&self.recorded.pairs());
        out.push_str(&format!("\n## All experiments together\n\n{ALL}\n```text\n{}```\n", score_text(&all)));
        let controls = &self.recorded.controls;
        let holding = controls.iter().filter(|control| control.holds).count();
        out.push_str(&format!(
            "\nNegative controls, each by its last run: {holding} of {} hold.\n",
            controls.len()
        ));
        let failures = self.failures();
        if !failures.is_empty() {
            out.push_str(&format!("\n{}\n", list(failures.iter().map(String::as_str))));
        }
        for result in &self.results {
            out.push_str(&result.page());
        }
        out
    }
}

fn list<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.map(|line| format!("- {line}")).collect::<Vec<_>>().join("\n")
}

impl ExperimentResult<'_> {
    fn page(&self) -> String {
        let experiment = self.runs.experiment;
        let mut out = format!("\n## {}\n\n{}\n", experiment.title, experiment.text);
        out.push_str(&format!("\n```text\n{}```\n", self.text(&Style::default())));
        let cases = self.shown_cases();
        if let Some(words) = self.largest_change() {
            out.push_str(&format!("\n*Mechanism.* {words}\n"));
        }
        if !experiment.mechanism.is_empty() {
            out.push_str(&format!("\n{}\n", experiment.mechanism));
        }
        let grids = change_grids(&cases);
        if !grids.is_empty() {
            let tables: Vec<String> = grids.iter().map(|grid| grid.text(&Style::default())).collect();
            out.push_str(&format!(
                "\nWhat changed most, before -> after:\n\n```text\n{}```\n",
                tables.join("\n")
            ));
        }
        if !experiment.misses.is_empty() {
            let of = experiment.misses_of.map(|date| format!(" (in the run of {date})")).unwrap_or_default();
            out.push_str(&format!("\n*What does not fit{of}.*\n{}\n", experiment.misses));
        }
        out
    }

    /// Returns the cases of the rows, each with the parameters of its first row; evenly chosen if there are many.
    pub(crate) fn shown_cases(&self) -> Vec<(&str, &CaseRuns<'_>)> {
        let mut all: Vec<(&str, &CaseRuns<'_>)> = Vec::new();
        for row in &self.rows {
            if !all.iter().any(|(_, case)| std::ptr::eq(*case, row.runs)) {
                all.push((short_id(row), row.runs));
            }
        }
        let count = all.len().min(CASES_MAX);
        // The first, the last, and those evenly between them.
        let chosen = |index: usize| if count < 2 { 0 } else { index * (all.len() - 1) / (count - 1) };
        (0..count).map(|index| all[chosen(index)]).collect()
    }

    /// Returns what changed in the case with the largest simulated gain or loss.
    fn largest_change(&self) -> Option<String> {
        let size = |row: &RowResult<'_>| row.simulated.gain.gain_percent.map_or(0.0, f64::abs);
        let row = self.rows.iter().max_by(|a, b| size(a).total_cmp(&size(b)))?;
        let gain = row.simulated.gain.gain_percent?;
        let words = change_words(row.runs);
        (!words.is_empty()).then(|| {
            format!("In `{}`, where the simulated gain is {gain:+.2} %, most changed: {words}.", row.row.id)
        })
    }
}

/// Returns the part of a row's id after the experiment's name.
fn short_id<'a>(row: &RowResult<'a>) -> &'a str {
    row.row.id.split_once('/').map_or(row.row.id.as_str(), |(_, params)| params)
}
