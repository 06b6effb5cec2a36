// SPDX-License-Identifier: GPL-2.0-or-later
//! An interval for the model itself, beside the spread of the seeds: how gains spread if the model's figures are
//! drawn from their ranges, all at once, and which figures decide the result.
//!
//! The rules are those of [`wakelab_stats::Spread`]: a gain whose sign does not hold in 80 % of the draws is undecided,
//! unless 80 % of the draws are within 1 %. Such a gain is not marked, and tables and sentences say so instead of it.

use serde::Serialize;
use wakelab_lab::{Drawn, DrawnFigure, Draws};
use wakelab_machine::printable;
use wakelab_sim::{Outcome, Scenario};
use wakelab_stats::{Deciding, Direction, DrawGain, Spread, deciding, draw_gain};

use crate::comparison::{Comparison, MetricOfPolicy, MetricResult};
use crate::grid::{Cell, Grid};
use crate::metric::metrics;
use crate::style::{BOLD, Style, paint};
use crate::table::head;

/// Where the upper half of a range begins.
pub(crate) const MIDDLE: u16 = 1 << 15;
/// The most figures that are told of a policy.
const FIGURES_MAX: usize = 5;

/// The draws of a comparison, and what decides its result.
#[derive(Clone, Debug, Serialize)]
pub struct Uncertainty {
    /// Number of draws.
    pub(crate) draws: usize,
    /// The seed of the draws.
    pub(crate) seed: u64,
    /// All figures that were drawn, with their ranges.
    pub(crate) figures: Vec<DrawnFigure>,
    /// For each policy but the first, the figures that decide the result, the largest share first.
    pub(crate) deciding: Vec<DecidingOfPolicy>,
}

/// The figures that decide the result of a policy.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DecidingOfPolicy {
    pub(crate) policy: String,
    pub(crate) figures: Vec<DecidingFigure>,
}

/// A figure that decides, by name.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DecidingFigure {
    pub(crate) figure: String,
    #[serde(flatten)]
    pub(crate) how: Deciding,
}

/// Returns the values of all metrics of a comparison, of one run: what [`wakelab_lab::draw`] has to keep.
pub fn metric_values(scenario: &Scenario, outcome: &Outcome) -> Vec<Option<f64>> {
    let has_service = scenario.workload.tasks.iter().any(|task| task.judged);
    metrics(scenario.workload.measure, has_service).iter().map(|metric| (metric.value)(outcome)).collect()
}

/// The figures that decide, with their names.
pub(crate) fn deciding_figures<T>(drawn: &Drawn<T>, gains: &[DrawGain]) -> Vec<DecidingFigure> {
    let named = |how: Deciding| DecidingFigure { figure: drawn.figures[how.figure].figure.clone(), how };
    let gains: Vec<Option<f64>> = gains.iter().map(|draw| draw.gain_percent).collect();
    deciding(&drawn.positions, &gains, MIDDLE).into_iter().map(named).collect()
}

impl<'a> Comparison<'a> {
    /// Adds how gains spread over draws. `drawn` has what [`metric_values`] returns, of these scenarios and seeds.
    /// Gains whose sign does not hold lose their marks.
    pub fn with_uncertainty(mut self, draws: Draws, drawn: &Drawn<Vec<Option<f64>>>) -> Comparison<'a> {
        let mut of_result = Vec::new();
        for (row, metric) in self.metrics.iter_mut().enumerate() {
            for (column, policy) in metric.policies.iter_mut().enumerate().skip(1) {
                let gain = |kept: &Vec<Vec<Vec<Option<f64>>>>| {
                    let values = |column: usize| kept[column].iter().map(|run| run[row]).collect::<Vec<_>>();
                    draw_gain(&values(0), &values(column), metric.direction)
                };
                let gains: Vec<DrawGain> = drawn.kept.iter().map(gain).collect();
                let spread = Spread::new(policy.gain.gain_percent, &gains);
                policy.gain.marked &= spread.sign_holds();
                policy.spread = Some(spread);
                if row == 0 {
                    of_result.push(deciding_figures(drawn, &gains));
                }
            }
        }
        let names = (1..self.policies.len()).map(|column| self.column_name(column));
        self.uncertainty = Some(Uncertainty {
            draws: draws.number,
            seed: draws.seed,
            figures: drawn.figures.clone(),
            deciding: names
                .zip(of_result)
                .map(|(policy, figures)| DecidingOfPolicy { policy, figures })
                .collect(),
        });
        self
    }

    /// Returns the table of how gains spread, and what decides; nothing if that was not asked for.
    pub(crate) fn uncertainty_text(&self, rows: &[MetricResult], columns: &[usize], style: &Style) -> String {
        let Some(uncertainty) = self.uncertainty.as_ref().filter(|_| columns.len() > 1) else {
            return String::new();
        };
        let mut out = paint(style, BOLD, style.wrap("If the model's figures are others").trim_end());
        out.push('\n');
        out.push_str(&style.wrap(&uncertainty.about()));
        out.push('\n');
        out.push_str(&self.uncertainty_grid(rows, columns).text(style));
        let result = &self.metrics[0];
        for (deciding, column) in uncertainty.deciding.iter().zip(1..) {
            if !columns.contains(&column) || result.policies[column].gain.gain_percent.is_none() {
                continue;
            }
            out.push_str(&deciding_text(result.label.trim(), uncertainty, deciding, style));
        }
        out
    }

    /// A row for each metric that has a direction, four columns for each policy.
    pub(crate) fn uncertainty_grid(&self, rows: &[MetricResult], columns: &[usize]) -> Grid {
        let compared = || columns.iter().copied().filter(|&column| column > 0);
        let one = |column: usize| {
            let name = head(&self.column_name(column));
            [
                format!("{name}\ngain %"),
                "90 % of draws".to_owned(),
                "chance".to_owned(),
                "sign holds".to_owned(),
            ]
        };
        let heads = compared().flat_map(one).collect();
        let cells = |policy: &MetricOfPolicy| spread_cells(policy.gain.gain_percent, policy.spread.as_ref());
        let has_gain = |metric: &&MetricResult| {
            metric.direction != Direction::Neutral
                && compared().any(|column| metric.policies[column].gain.gain_percent.is_some())
        };
        let row = |metric: &MetricResult| {
            let cells = compared().flat_map(|column| cells(&metric.policies[column])).collect();
            (metric.label.clone(), "", cells)
        };
        Grid { title: "", heads, rows: rows.iter().filter(has_gain).map(row).collect() }
    }
}

impl Uncertainty {
    /// Returns what was drawn.
    pub(crate) fn about(&self) -> String {
        let draws = self.draws;
        let figures = match self.figures.len() {
            1 => "one figure that has a range".to_owned(),
            several => format!("{several} figures that have a range"),
        };
        format!(
            "{draws} draws of the {figures}, all at once. undecided: the sign of the gain holds in less than 80 % of them"
        )
    }

    /// Returns for each policy but the first a table of the figures that decide the result.
    pub(crate) fn deciding_grids(&self) -> Vec<Grid> {
        let cell = |text: String| Cell { text, color: None };
        let row = |DecidingFigure { figure, how }: &DecidingFigure| {
            let range = self.figures.iter().find(|known| known.figure == *figure);
            let range = range.map_or_else(String::new, |known| {
                format!("{} to {} {}, by {}", known.low, known.high, known.unit, known.rule)
            });
            let gains =
                [how.gain_low_percent, how.gain_high_percent].map(|gain| cell(format!("{gain:+.1} %")));
            let [low, high] = gains;
            let share = cell(format!("{:.0} %", how.share_percent));
            (figure.clone(), "", vec![cell(range), share, low, high])
        };
        let heads = ["range", "share of\nthe spread", "gain where\nit is low", "gain where\nit is high"];
        let grid = |of: &DecidingOfPolicy| Grid {
            title: "",
            heads: heads.map(str::to_owned).into(),
            rows: of.figures.iter().take(FIGURES_MAX).map(row).collect(),
        };
        self.deciding.iter().map(grid).collect()
    }
}

/// Returns the gain, or that it is undecided, its range, how much of that is chance, and how often its sign holds.
pub(crate) fn spread_cells(gain: Option<f64>, spread: Option<&Spread>) -> [Cell; 4] {
    let plain = |text: Option<String>| Cell { text: text.unwrap_or_else(|| "-".to_owned()), color: None };
    let undecided = spread.is_some_and(|spread| spread.undecided);
    let gain = gain.map(|gain| if undecided { "undecided".to_owned() } else { format!("{gain:+.2}") });
    let range = spread.and_then(|spread| spread.range_percent).map(range_words);
    let percent = |share: f64| format!("{share:.0} %");
    let chance = spread.and_then(|spread| spread.chance_percent).map(percent);
    let held = spread.and_then(|spread| spread.sign_held_percent).map(percent);
    [gain, range, chance, held].map(plain)
}

pub(crate) fn range_words([low, high]: [f64; 2]) -> String {
    format!("{low:+.1} to {high:+.1}")
}

/// Returns which figures decide, a line each.
fn deciding_text(label: &str, of: &Uncertainty, deciding: &DecidingOfPolicy, style: &Style) -> String {
    let policy = printable(&deciding.policy);
    if deciding.figures.is_empty() {
        let draws = of.draws;
        return style
            .wrap(&format!("No figure alone decides {label} of {policy}, as far as {draws} draws can tell"));
    }
    let mut out = style.wrap(&format!("What decides {label} of {policy}, by its share of the spread:"));
    for DecidingFigure { figure, how } in deciding.figures.iter().take(FIGURES_MAX) {
        let range = of.figures.iter().find(|known| known.figure == *figure);
        let range = range.map_or_else(String::new, |known| {
            format!(" (from {} to {} {}, by {})", known.low, known.high, known.unit, known.rule)
        });
        out.push_str(&style.wrap(&format!(
            "  {:.0} %  {figure}{range}: gain {:+.1} % where it is low, {:+.1} % where it is high",
            how.share_percent, how.gain_low_percent, how.gain_high_percent
        )));
    }
    out
}

/// Returns in words how a gain spreads, for a sentence.
pub(crate) fn spread_words(spread: &Spread) -> String {
    let range = spread.range_percent.map_or_else(
        || "none has a gain".to_owned(),
        |range| format!("90 % of them are between {} %", range_words(range).replace(" to ", " and ")),
    );
    let held = spread
        .sign_held_percent
        .map_or_else(String::new, |held| format!("its sign holds in {held:.0} % of "));
    format!("{held}{} draws of the model's figures, and {range}", spread.draws)
}
