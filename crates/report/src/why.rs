// SPDX-License-Identifier: GPL-2.0-or-later
//! The difference between two sides, axis by axis: what each axis changes alone, what is left of the change without it,
//! and its share of the change.
//!
//! The share is the Shapley value of the axis (crates/lab/src/why.rs), in percent of the whole change. Shares add up to
//! 100 %, but for what axes change together that change nothing one by one; that rest is told.

use serde::Serialize;
use wakelab_lab::{Axes, Axis, WhyOutcomes};
use wakelab_machine::printable;
use wakelab_sim::Outcome;
use wakelab_stats::{Direction, Gain, Unit, mean, paired_gain};

use crate::comparison::{Comparison, MetricOfPolicy, MetricResult, over_the_first};
use crate::document::{
    CONFIDENCE_PERCENT, CompareDocument, INTERVAL, ResultDocument, SCHEMA_VERSION, ValuesDocument,
};
use crate::error::ReportError;
use crate::gain_text::{gain_sentence, gain_words};
use crate::grid::{Cell, Grid, Row};
use crate::html::PageParts;
use crate::html_page::grid_html;
use crate::limit::RESULT;
use crate::metric::metrics;
use crate::slowest::SlowWaits;
use crate::style::Style;
use crate::table::{points_cell, scale, value_text};
use crate::verdict::Verdict;

/// The axes that are named together have at least this share of the change, and are this many at most.
const NAMED_MIN_PERCENT: f64 = 80.0;
const NAMED_MAX: usize = 3;
/// A smaller difference between 100 % and what axes do alone is not told.
const TOGETHER_MIN_PERCENT: f64 = 10.0;

/// How to read the table of axes.
const AXES_KEY: &str = "alone: the first side with this axis of the second; without it: the second side with this axis \
    of the first; (gain) of both over the first side; share: the axis's mean part of the change over all orders of \
    adding axes";

/// A comparison of two sides, axis by axis.
pub struct Why<'a> {
    runs: &'a WhyOutcomes,
    /// Both sides.
    pub comparison: Comparison<'a>,
    /// The metric that is explained, of both sides.
    metric: MetricResult,
    rows: Vec<AxisRow>,
    /// What the axes change together that change nothing one by one, in percent of the change.
    rest_percent: f64,
}

/// What one axis does.
struct AxisRow {
    axis: Axis,
    is_live: bool,
    /// The first side with the axis of the second.
    alone: MetricOfPolicy,
    /// The second side with the axis of the first.
    without: MetricOfPolicy,
    /// Percent of the change.
    share: Gain,
}

impl<'a> Why<'a> {
    /// `comparison` is of both sides, in their order. `metric`: a name as for a limit; `None`: the result.
    ///
    /// # Errors
    /// A metric that the comparison lacks, or that a run has no value of.
    pub fn new(
        runs: &'a WhyOutcomes,
        comparison: Comparison<'a>,
        metric: Option<&str>,
    ) -> Result<Why<'a>, ReportError> {
        let metric = comparison.named(metric.unwrap_or(RESULT))?.clone();
        let values = Values::new(runs, &comparison, &metric)?;
        let full = runs.all();
        let change = values.mean(full) - values.mean(0);
        let share = |axis: usize| {
            let base = vec![Some(change.abs()); values.seeds];
            let sign = change.signum();
            let own: Vec<Option<f64>> =
                values.shapley(runs, axis).iter().map(|value| Some(change.abs() + sign * value)).collect();
            paired_gain(&base, &own, Direction::Higher)
        };
        let side = |set: Axes| {
            let columns = vec![values.some(0), values.some(set)];
            over_the_first(columns, metric.direction, comparison.is_complete()).remove(1)
        };
        let row = |(index, axis): (usize, &Axis)| {
            let is_live = runs.live.contains(&index);
            AxisRow {
                axis: axis.clone(),
                is_live,
                alone: side(1 << index),
                without: side(full & !(1 << index)),
                share: if is_live {
                    share(index)
                } else {
                    Gain { gain_percent: Some(0.0), ..Gain::default() }
                },
            }
        };
        let mut rows: Vec<AxisRow> = runs.axes.iter().enumerate().map(row).collect();
        let size = |row: &AxisRow| row.share.gain_percent.map_or(0.0, f64::abs);
        rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
        let rest = values.mean(full) - values.mean(runs.all_live());
        let rest_percent = if change == 0.0 { 0.0 } else { rest / change * 100.0 };
        Ok(Why { runs, comparison, metric, rows, rest_percent })
    }

    /// Returns the sentences of the verdict: the change, the axes that carry it, and what is not one axis's own.
    pub fn sentences(&self) -> Vec<String> {
        let gain = &self.metric.policies[1].gain;
        if self.comparison.repeats_first(1) {
            return vec![format!("identical runs: {} differ, and no decision does.", self.names_of_axes())];
        }
        let (_, unit, _) = scale(&self.metric);
        let [before, after] = [0, 1].map(|side| {
            format!("{} {unit}", value_text(&self.metric, &self.metric.policies[side])).trim_end().to_owned()
        });
        let label = self.metric.label.trim();
        let words = gain_sentence(gain, self.metric.direction);
        let mut sentences = vec![format!("{label}: {words}, {after} instead of {before}.")];
        sentences.extend(self.error_sentence());
        if !is_certain(gain) {
            sentences.push(
                "The change is not larger than its interval, so that its parts say nothing; more --seeds narrow it."
                    .to_owned(),
            );
        } else {
            sentences.extend(self.carriers());
            sentences.extend(self.together());
        }
        sentences.extend(self.dead());
        if self.rest_percent.abs() >= 1.0 {
            sentences.push(format!(
                "{:.0} % of the change is not attributed: the axes that change nothing one by one make it together.",
                self.rest_percent
            ));
        }
        sentences
    }

    /// How the gain compares with the error of replays, if that was measured.
    fn error_sentence(&self) -> Option<String> {
        let errors = self.comparison.replay_errors.as_ref()?;
        let MetricResult { name, policies, direction, .. } = &self.metric;
        let error = errors.cell(name).text;
        if errors.percent(name).is_none() {
            return Some("How far replays of this recording are off in it is not known.".to_owned());
        }
        Some(match errors.is_exceeded(name, &policies[1].gain, *direction) {
            true => format!("That is more than replays of this recording are off in it ({error})."),
            false => format!(
                "That is not more than replays of this recording are off in it ({error}), so that in reality it may have \
                 the other sign."
            ),
        })
    }

    fn names_of_axes(&self) -> String {
        let names: Vec<&str> = self.runs.axes.iter().map(|axis| axis.name.as_str()).collect();
        printable(&names.join(", ")).into_owned()
    }

    /// The fewest axes that make most of the change.
    fn carriers(&self) -> Option<String> {
        let live: Vec<&AxisRow> = self.rows.iter().filter(|row| row.is_live).collect();
        let mut sum = 0.0;
        let mut named = Vec::new();
        for row in live.iter().take(NAMED_MAX) {
            let percent = row.share.gain_percent?;
            if percent <= 0.0 {
                break;
            }
            sum += percent;
            let Axis { name, from, to } = &row.axis;
            let what = printable(&format!("{name} ({from} to {to})")).into_owned();
            named.push(format!("{} from {what}", share_words(&row.share)));
            if sum >= NAMED_MIN_PERCENT {
                break;
            }
        }
        let orders = self.runs.orders.as_ref().map_or(String::new(), |orders| {
            format!(", as far as {} random orders of the axes tell", orders.len())
        });
        match &named[..] {
            [] => Some("No axis carries it: their parts have both signs.".to_owned()),
            [one] => Some(format!(
                "One axis carries it: {}{orders}.",
                one.replacen(" from", " of the change comes from", 1)
            )),
            several => Some(format!("Of the change come {}{orders}.", several.join(", "))),
        }
    }

    /// What is left if each axis only did what it does alone.
    fn together(&self) -> Option<String> {
        let change = self.metric.policies[1].mean? - self.metric.policies[0].mean?;
        let alone = |row: &AxisRow| Some(row.alone.mean? - self.metric.policies[0].mean?);
        let sum: Option<f64> = self.rows.iter().map(alone).sum();
        let percent = sum? / change * 100.0;
        if (percent - 100.0).abs() < TOGETHER_MIN_PERCENT || !percent.is_finite() {
            return None;
        }
        Some(format!(
            "Alone, the axes make {percent:.0} % of the change together: they act on each other, which their shares contain."
        ))
    }

    fn dead(&self) -> Option<String> {
        let dead = || self.rows.iter().filter(|row| !row.is_live);
        let names: Vec<&str> = dead().map(|row| row.axis.name.as_str()).collect();
        let names = printable(&names.join(", ")).into_owned();
        match dead().count() {
            0 => None,
            1 => Some(format!("{names} changes nothing: identical runs with and without it.")),
            _ => Some(format!("{names} change nothing: identical runs with and without each of them.")),
        }
    }

    /// Returns the sentences of the verdict, and those on waiting.
    fn all_sentences(&self) -> Vec<String> {
        let on_waiting = [self.comparison.waiting_sentence(1), self.comparison.blocked_sentence(1)];
        self.sentences().into_iter().chain(on_waiting.into_iter().flatten()).collect()
    }

    /// Returns the comparison of both sides as a page, with what each axis does.
    pub fn html(&self, parts: &PageParts<'_>) -> String {
        let verdict = Verdict {
            policy: self.comparison.column_name(1),
            decided: self.comparison.decide(&self.metric, 1),
            sentences: self.all_sentences(),
        };
        let mut answer = self.comparison.verdict_html(&verdict);
        if !self.comparison.repeats_first(1) {
            let axes = Grid { title: "", ..self.axis_grid() };
            answer += &format!("<h2>Axis by axis</h2>\n{}", grid_html(&axes));
            answer += &format!("<p class=\"faint\">{AXES_KEY}</p>\n");
        }
        self.comparison.page(&answer, parts)
    }

    /// Returns the verdict and the tables, ending in a newline.
    pub fn text(&self, style: &Style) -> String {
        let mut out = style.wrap(&self.comparison.title());
        let [first, second] = [0, 1].map(|column| self.comparison.column_name(column));
        out.push_str(&style.wrap(&format!("{} against {}:", printable(&second), printable(&first))));
        for sentence in self.all_sentences() {
            out.push_str(&style.wrap(&format!("  {sentence}")));
        }
        if self.comparison.repeats_first(1) {
            return out;
        }
        out.push('\n');
        out.push_str(&style.wrap(AXES_KEY));
        let compared = &self.comparison;
        let waits = [compared.waiting_grid(), compared.behind_grid(), compared.blocked_grid()];
        for grid in [self.axis_grid()].into_iter().chain(waits).chain([compared.waiting_of_grid()]) {
            if !grid.rows.is_empty() {
                out.push('\n');
                out.push_str(&grid.text(style));
            }
        }
        out
    }

    fn axis_grid(&self) -> Grid {
        let found: Vec<MetricOfPolicy> = self
            .rows
            .iter()
            .flat_map(|row| [row.alone.clone(), row.without.clone()])
            .chain(self.metric.policies.iter().cloned())
            .collect();
        let scaled = MetricResult { policies: found, ..self.metric.clone() };
        let (_, unit, _) = scale(&scaled);
        let cell = |found: &MetricOfPolicy| {
            let words = gain_words(&found.gain, self.metric.direction);
            Cell { text: format!("{} ({words})", value_text(&scaled, found)), color: None }
        };
        let row = |row: &AxisRow| -> Row {
            let Axis { name, from, to } = &row.axis;
            let cells = match row.is_live {
                true => vec![cell(&row.alone), cell(&row.without), points_cell(&row.share)],
                false => ["identical runs", "identical runs", "0  "]
                    .map(|text| Cell { text: text.to_owned(), color: None })
                    .into(),
            };
            (format!("{name}: {from} to {to}"), unit, cells)
        };
        Grid {
            title: "Axis by axis",
            heads: ["alone", "without it", "share, %"].map(str::to_owned).into(),
            rows: self.rows.iter().map(row).collect(),
        }
    }

    /// Returns everything as a document; serialise it with serde_json. `compare` is the comparison's own document,
    /// `slowest` has the longest waits of both sides.
    pub fn document<'d>(
        &'d self,
        compare: CompareDocument<'d>,
        slowest: Vec<SlowWaits<'d>>,
    ) -> WhyDocument<'d> {
        let axis = |row: &'d AxisRow| AxisDocument {
            axis: &row.axis.name,
            from: &row.axis.from,
            to: &row.axis.to,
            identical: !row.is_live,
            alone: ResultDocument::new(&self.comparison.seeds, &row.alone),
            without: ResultDocument::new(&self.comparison.seeds, &row.without),
            share_percent: row.share.gain_percent,
            share_ci_percent: row.share.ci_percent,
        };
        let errors = self.comparison.replay_errors.as_ref();
        WhyDocument {
            schema_version: SCHEMA_VERSION,
            kind: "why",
            interval: INTERVAL,
            confidence_percent: CONFIDENCE_PERCENT,
            metric: &self.metric.name,
            unit: self.metric.unit,
            direction: self.metric.direction,
            sides: self.comparison.labelled(&self.metric.policies),
            sentences: self.sentences(),
            orders: self.runs.orders.as_ref().map(Vec::len),
            rest_percent: self.rest_percent,
            replay_error_percent: errors.and_then(|errors| errors.percent(&self.metric.name)),
            axes: self.rows.iter().map(axis).collect(),
            slowest,
            compare,
        }
    }
}

/// A comparison axis by axis, for programs.
#[derive(Debug, Serialize)]
pub struct WhyDocument<'a> {
    schema_version: u32,
    kind: &'static str,
    interval: &'static str,
    confidence_percent: u32,
    metric: &'a str,
    unit: Unit,
    direction: Direction,
    sides: Vec<ValuesDocument<'a>>,
    sentences: Vec<String>,
    orders: Option<usize>,
    rest_percent: f64,
    replay_error_percent: Option<f64>,
    axes: Vec<AxisDocument<'a>>,
    slowest: Vec<SlowWaits<'a>>,
    compare: CompareDocument<'a>,
}

#[derive(Debug, Serialize)]
struct AxisDocument<'a> {
    axis: &'a str,
    from: &'a str,
    to: &'a str,
    identical: bool,
    alone: ResultDocument,
    without: ResultDocument,
    share_percent: Option<f64>,
    share_ci_percent: Option<[f64; 2]>,
}

/// Whether a gain is larger than its interval, if it has one.
fn is_certain(gain: &Gain) -> bool {
    gain.ci_percent.is_none_or(|[low, high]| low > 0.0 || high < 0.0)
}

fn share_words(share: &Gain) -> String {
    let half = share.ci_percent.map(|[low, high]| (high - low) / 2.0);
    let percent = share.gain_percent.unwrap_or_default();
    match half.filter(|half| *half >= 0.5) {
        Some(half) => format!("{percent:.0} % ±{half:.0}"),
        None => format!("{percent:.0} %"),
    }
}

/// The values of the metric, by set of axes and seed.
struct Values {
    seeds: usize,
    of: std::collections::BTreeMap<Axes, Vec<f64>>,
}

impl Values {
    fn new(
        runs: &WhyOutcomes,
        comparison: &Comparison<'_>,
        metric: &MetricResult,
    ) -> Result<Values, ReportError> {
        let workload = &comparison.scenarios[0].workload;
        let has_service = workload.tasks.iter().any(|task| task.judged);
        let all = metrics(workload.measure, has_service);
        let value =
            all.into_iter().find(|known| known.name == metric.name).expect("it was found by its name");
        let values = |(&set, outcomes): (&Axes, &Vec<Outcome>)| {
            let values: Option<Vec<f64>> = outcomes.iter().map(&value.value).collect();
            values
                .map(|values| (set, values))
                .ok_or_else(|| ReportError::NoValue { name: metric.name.clone() })
        };
        let of = runs.runs.iter().map(values).collect::<Result<_, _>>()?;
        Ok(Values { seeds: comparison.seeds.len(), of })
    }

    fn mean(&self, set: Axes) -> f64 {
        mean(&self.of[&set])
    }

    fn some(&self, set: Axes) -> Vec<Option<f64>> {
        self.of[&set].iter().copied().map(Some).collect()
    }

    /// The Shapley value of an axis, for each seed.
    fn shapley(&self, runs: &WhyOutcomes, axis: usize) -> Vec<f64> {
        let mut sums = vec![0.0; self.seeds];
        let mut add = |before: Axes, weight: f64| {
            let with = &self.of[&(before | 1 << axis)];
            for ((sum, with), without) in sums.iter_mut().zip(with).zip(&self.of[&before]) {
                *sum += weight * (with - without);
            }
        };
        match &runs.orders {
            Some(orders) => {
                for order in orders {
                    let before =
                        order.iter().take_while(|other| **other != axis).map(|other| 1 << other).sum();
                    add(before, 1.0 / orders.len() as f64);
                }
            }
            None => {
                let others: Vec<usize> = runs.live.iter().copied().filter(|other| *other != axis).collect();
                for chosen in 0..1_u32 << others.len() {
                    let taken = others.iter().enumerate().filter(|(bit, _)| chosen >> bit & 1 == 1);
                    let before = taken.map(|(_, other)| 1 << other).sum();
                    add(before, weight(chosen.count_ones() as usize, others.len() + 1));
                }
            }
        }
        sums
    }
}

/// The part of all orders of `all` axes in which these `before` come before a certain axis, and no others.
fn weight(before: usize, all: usize) -> f64 {
    let factorial = |n: usize| (1..=n).map(|factor| factor as f64).product::<f64>();
    factorial(before) * factorial(all - before - 1) / factorial(all)
}
