// SPDX-License-Identifier: GPL-2.0-or-later
//! How a result depends on the estimated figures of a machine: the same runs with each figure halved and doubled,
//! paired by seed.
//!
//! With one policy the effect is the gain of the changed machine over the machine itself. With two it is how far the
//! second's *gain over the first* moves, in percent points: a figure may change every result and no choice. Figures are
//! ordered by the larger of their two effects.

use serde::Serialize;
use wakelab_lab::SensitivityOutcomes;
use wakelab_machine::printable;
use wakelab_policy::PolicySpec;
use wakelab_sim::{HostProfile, Outcome, Scenario};

use crate::comparison::MetricOfPolicy;
use crate::document::{CONFIDENCE_PERCENT, INTERVAL, ResultDocument, SCHEMA_VERSION};
use crate::error::ReportError;
use crate::gain_text::gain_words;
use crate::grid::{Cell, Grid, Row};
use crate::result::{ResultMetric, check_seeds, completed};
use crate::style::{BOLD, Style, paint};
use crate::table::{gain_cell, host_name, points_cell, seeds};
use wakelab_stats::{Direction, Unit};
use wakelab_stats::{Gain, paired_move};

/// The effects of all estimated figures on one result, the largest first.
#[derive(Clone, Debug)]
pub struct Sensitivity<'a> {
    scenarios: &'a [Scenario],
    names: &'a [String],
    seeds: Vec<u64>,
    result: ResultMetric,
    base: Vec<MetricOfPolicy>,
    figures: Vec<Figure<'a>>,
}

#[derive(Clone, Debug)]
struct Figure<'a> {
    figure: &'a str,
    source: &'a str,
    halved: Side,
    doubled: Side,
}

/// One figure changed in one direction.
#[derive(Clone, Debug)]
struct Side {
    /// The result of each policy; its gain is over the same policy on the machine itself.
    policies: Vec<MetricOfPolicy>,
    /// With two policies: the second's gain over the first.
    gain: Option<Gain>,
    /// With two policies: how far that moved, in percent points.
    moved: Option<Gain>,
}

impl Side {
    fn effect(&self) -> &Gain {
        self.moved.as_ref().unwrap_or(&self.policies[0].gain)
    }
}

impl<'a> Sensitivity<'a> {
    /// Compares one or two policies, which `names` names.
    ///
    /// # Errors
    /// Lists of different lengths, more than two policies, no seeds, other seeds.
    pub fn new(
        names: &'a [String],
        outcomes: &'a SensitivityOutcomes,
    ) -> Result<Sensitivity<'a>, ReportError> {
        let SensitivityOutcomes { scenarios, base, figures } = outcomes;
        let first = scenarios.first().ok_or(ReportError::Empty)?;
        let nr_policies = scenarios.len();
        let lengths =
            |outcomes: usize| ReportError::Lengths { scenarios: nr_policies, names: names.len(), outcomes };
        if nr_policies > 2 || names.len() != nr_policies || base.len() != nr_policies {
            return Err(lengths(base.len()));
        }
        let seeds: Vec<u64> = base[0].iter().map(|outcome| outcome.seed).collect();
        if seeds.is_empty() {
            return Err(ReportError::Empty);
        }
        for runs in base {
            check_seeds(&seeds, &names[0], runs, &names[nr_policies - 1])?;
        }
        let result = ResultMetric::new(first.workload.measure);
        let mut done = Vec::with_capacity(figures.len());
        for runs in figures {
            for side in [&runs.halved, &runs.doubled] {
                if side.len() != nr_policies {
                    return Err(lengths(side.len()));
                }
                for runs_of_policy in side {
                    check_seeds(&seeds, &names[0], runs_of_policy, &runs.figure)?;
                }
            }
            done.push(Figure {
                figure: &runs.figure,
                source: &runs.source,
                halved: side(&result, base, &runs.halved),
                doubled: side(&result, base, &runs.doubled),
            });
        }
        let size = |figure: &Figure<'_>| {
            let of = |side: &Side| side.effect().gain_percent.map_or(f64::INFINITY, f64::abs);
            of(&figure.halved).max(of(&figure.doubled))
        };
        // Stable: equal effects keep the order of the machine file.
        done.sort_by(|a, b| size(b).total_cmp(&size(a)));
        let base = base.iter().enumerate().map(|(at, runs)| match at {
            0 => result.of(runs),
            _ => result.over(&base[0], runs),
        });
        Ok(Sensitivity { scenarios, names, seeds, base: base.collect(), result, figures: done })
    }

    /// Returns the table. Ends in a newline.
    pub fn text(&self, style: &Style) -> String {
        let first = &self.scenarios[0];
        let (workload, machine) = (&first.workload.name, &first.machine.name);
        let (host, policies) = (host_name(first.host), self.names.join(" and "));
        let title = format!("{workload} on {machine}, {policies}, host {host}, {}", seeds(&self.seeds));
        let mut out = paint(style, BOLD, style.wrap(&printable(&title)).trim_end());
        out.push_str("\n\n");
        let (label, unit, cells) = self.result.row(self.base.iter());
        for (name, cell) in self.names.iter().zip(cells) {
            out.push_str(&format!("{label} {} {unit}, {name}\n", cell.text.trim()));
        }
        if let Some(second) = self.base.get(1) {
            let star = if second.gain.marked { " *" } else { "" };
            let gain = gain_words(&second.gain, self.result.direction);
            out.push_str(&format!("gain of {} over {}: {gain}{star}\n", self.names[1], self.names[0]));
        }
        let unmoved = |figure: &&Figure<'_>| {
            [&figure.halved, &figure.doubled].iter().all(|side| side.effect().gain_percent == Some(0.0))
        };
        let (still, moving): (Vec<_>, Vec<_>) = self.figures.iter().partition(unmoved);
        if !moving.is_empty() {
            out.push('\n');
            let heads = ["halved", "doubled"].map(str::to_owned).into();
            let rows = moving.iter().map(|figure| self.row(figure)).collect();
            out.push_str(&Grid { title: "", heads, rows }.text(style));
        }
        if !still.is_empty() {
            let names: Vec<&str> = still.iter().map(|figure| figure.figure).collect();
            out.push('\n');
            out.push_str(&style.wrap(&format!("No effect: {}.", names.join(", "))));
        }
        out.push('\n');
        let key = match self.names.len() {
            1 => "Percent by which the result is better (+) or worse (-) if the estimated figure is changed.",
            _ => {
                "The gain if the estimated figure is changed, and in brackets how far it moved, in percent points."
            }
        };
        if self.seeds.len() == 1 {
            out.push_str(&style.wrap(&format!("{key} One seed: no intervals.")));
        } else {
            let intervals =
                "± 95 % interval: seed spread, not model error. * more than 1 % and more than its interval.";
            out.push_str(&style.wrap(key));
            out.push_str(&style.wrap(intervals));
        }
        out
    }

    fn row(&self, figure: &Figure<'_>) -> Row {
        let cell = |side: &Side| match (&side.gain, &side.moved) {
            (Some(Gain { gain_percent: Some(gain), .. }), Some(moved)) => {
                let Cell { text, color } = points_cell(moved);
                let (points, star) = text.split_at(text.len() - 2);
                Cell { text: format!("{gain:+.2} ({points}){star}"), color }
            }
            _ => gain_cell(side.effect(), self.result.direction),
        };
        (figure.figure.to_owned(), "%", vec![cell(&figure.halved), cell(&figure.doubled)])
    }

    /// Returns the document for programs: docs/schema/sensitivity.schema.json.
    pub fn document(&self) -> SensitivityDocument<'_> {
        let first = &self.scenarios[0];
        let policies = self.names.iter().zip(self.scenarios).zip(&self.base);
        SensitivityDocument {
            schema_version: SCHEMA_VERSION,
            kind: "sensitivity",
            interval: INTERVAL,
            confidence_percent: CONFIDENCE_PERCENT,
            workload: &first.workload.name,
            machine: &first.machine.name,
            cpus: first.machine.topology.nr_cpus(),
            limit_ns: first.limit_ns,
            seeds: &self.seeds,
            metric: &self.result.name,
            unit: self.result.unit,
            direction: self.result.direction,
            policies: policies
                .map(|((name, scenario), base)| PolicyDocument {
                    name,
                    policy: &scenario.policy,
                    host: scenario.host,
                    base: ResultDocument::new(&self.seeds, base),
                })
                .collect(),
            figures: self.figures.iter().map(|figure| self.figure_document(figure)).collect(),
        }
    }

    fn figure_document<'b>(&'b self, figure: &'b Figure<'_>) -> FigureDocument<'b> {
        let of = |side: &Side| SideDocument {
            policies: self
                .names
                .iter()
                .zip(&side.policies)
                .map(|(name, found)| OfPolicy {
                    policy: name,
                    result: ResultDocument::new(&self.seeds, found),
                })
                .collect(),
            gain: side.gain,
            moved: side.moved,
        };
        let Figure { figure: name, source, halved, doubled } = figure;
        FigureDocument { figure: name, source, halved: of(halved), doubled: of(doubled) }
    }
}

fn side(result: &ResultMetric, base: &[Vec<Outcome>], changed: &[Vec<Outcome>]) -> Side {
    let policies = base.iter().zip(changed).map(|(base, changed)| result.over(base, changed)).collect();
    let [Some(first), Some(second)] = [changed.first(), changed.get(1)] else {
        return Side { policies, gain: None, moved: None };
    };
    let gain = result.over(first, second).gain;
    let moved = paired_move(
        [&result.values(&base[0]), &result.values(&base[1])],
        [&result.values(first), &result.values(second)],
        result.direction,
    );
    let all = base.iter().chain(changed).all(|runs| completed(runs));
    Side { policies, gain: Some(gain), moved: Some(Gain { marked: moved.marked && all, ..moved }) }
}

/// A sensitivity for programs; serialise it with serde_json.
#[derive(Debug, Serialize)]
pub struct SensitivityDocument<'a> {
    schema_version: u32,
    kind: &'static str,
    interval: &'static str,
    confidence_percent: u32,
    workload: &'a str,
    machine: &'a str,
    cpus: usize,
    limit_ns: u64,
    seeds: &'a [u64],
    metric: &'a str,
    unit: Unit,
    direction: Direction,
    policies: Vec<PolicyDocument<'a>>,
    figures: Vec<FigureDocument<'a>>,
}

#[derive(Debug, Serialize)]
struct PolicyDocument<'a> {
    name: &'a str,
    policy: &'a PolicySpec,
    host: HostProfile,
    base: ResultDocument,
}

#[derive(Debug, Serialize)]
struct FigureDocument<'a> {
    figure: &'a str,
    source: &'a str,
    halved: SideDocument<'a>,
    doubled: SideDocument<'a>,
}

#[derive(Debug, Serialize)]
struct SideDocument<'a> {
    policies: Vec<OfPolicy<'a>>,
    gain: Option<Gain>,
    moved: Option<Gain>,
}

#[derive(Debug, Serialize)]
struct OfPolicy<'a> {
    policy: &'a str,
    #[serde(flatten)]
    result: ResultDocument,
}
