// SPDX-License-Identifier: GPL-2.0-or-later
//! Published experiments beside their simulation: for each row what was published, what the runs came to, and whether
//! the sign is right; for each control whether it holds; scores of each experiment and of all together.
//!
//! The published gain follows from the printed values, in the measure's direction; where only a gain was printed, that.
//! Of a share of CPU time the gain is by how much its distance from the fair part shrinks, of both the published and
//! the simulated values.

use serde::Serialize;
use wakelab_experiment::{Case, Control, Efficiency, Expect, Experiment, Measure, Row, SearchStep};
use wakelab_lab::Drawn;
use wakelab_policy::Reason;
use wakelab_sim::Outcome;
use wakelab_workload::Workload;

use crate::drift::{Drift, without_steady_part};
use crate::metric;
use crate::percentile::fine_percentile_ns;
use crate::recorded::{Recorded, RecordedControl, RecordedDraws, RecordedRow, widened};
use crate::score::{Model, Pair, Score};
use crate::uncertainty::{DecidingFigure, deciding_figures};
use wakelab_stats::Direction;
use wakelab_stats::{DrawGain, Gain, Spread, draw_gain, mean, paired_gain, round_percent};

/// A case and its runs.
#[derive(Clone, Debug)]
pub struct CaseRuns<'a> {
    /// What was run.
    pub case: &'a Case,
    /// One run for each seed, before and after.
    pub outcomes: [Vec<Outcome>; 2],
    /// What [`row_values`] returns of runs on draws of the model's figures, if there were any.
    pub drawn: Option<Drawn<Vec<Option<f64>>>>,
}

/// An experiment and its runs.
#[derive(Clone, Debug)]
pub struct ExperimentRuns<'a> {
    /// The experiment as its file has it.
    pub experiment: &'a Experiment,
    /// Seeds of all runs but those of the second policy where `Case::other_seeds`.
    pub seeds: Vec<u64>,
    /// Shorter or longer than the file says, so that only gains compare with what was published.
    pub has_other_length: bool,
    /// Some rows only: what is known of the others and of controls stays.
    pub is_part: bool,
    /// In the plan's order.
    pub cases: Vec<CaseRuns<'a>>,
}

/// Experiments with all their results.
#[derive(Debug)]
pub struct Experiments<'a> {
    pub(crate) results: Vec<ExperimentResult<'a>>,
    pub(crate) pooled: Score,
    /// What all rows and controls came to when they were last run: these runs, too, unless they have another length.
    pub(crate) recorded: Recorded,
}

#[derive(Debug)]
pub(crate) struct ExperimentResult<'a> {
    pub(crate) runs: &'a ExperimentRuns<'a>,
    /// Of the rows that were run, in the file's order.
    pub(crate) rows: Vec<RowResult<'a>>,
    pub(crate) controls: Vec<ControlResult<'a>>,
    pub(crate) score: Score,
}

/// Simulated values in the measure's unit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Simulated {
    /// One value for each seed, before and after.
    pub(crate) values: [Vec<Option<f64>>; 2],
    /// Means over all seeds; `None` unless each has a value.
    pub(crate) means: [Option<f64>; 2],
    pub(crate) gain: Gain,
}

/// How a row's predicted sign compares with the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sign {
    Right,
    Wrong,
    /// The published change does not exceed its noise: either sign counts as right.
    WithinNoise,
    /// No published gain is known.
    Unknown,
}

#[derive(Debug)]
pub(crate) struct RowResult<'a> {
    pub(crate) row: &'a Row,
    pub(crate) runs: &'a CaseRuns<'a>,
    pub(crate) direction: Direction,
    pub(crate) simulated: Simulated,
    pub(crate) published_gain_percent: Option<f64>,
    /// Combined published standard deviation; 0 if none was published.
    pub(crate) noise_percent: f64,
    pub(crate) sign: Sign,
    /// Whether the rate is that of a longer run, where it is taken between two moments.
    pub(crate) drift: Option<Drift>,
    /// The number of runs without a steady part, before and after, where the rate is that of the steady part.
    pub(crate) without_steady_part: Option<[usize; 2]>,
    /// How the gain spreads over draws of the model's figures, if there were any.
    pub(crate) spread: Option<Spread>,
    /// The range of 90 % of the draws, with the publication's noise and the model's error.
    pub(crate) range_with_error: Option<[f64; 2]>,
    /// The figures that decide the gain.
    pub(crate) deciding: Vec<DecidingFigure>,
}

#[derive(Debug)]
pub(crate) struct ControlResult<'a> {
    pub(crate) control: &'a Control,
    pub(crate) runs: &'a CaseRuns<'a>,
    pub(crate) simulated: Simulated,
    pub(crate) holds: bool,
}

impl<'a> Experiments<'a> {
    /// Measures all runs and scores them. The model's error is learned from `recorded`, in which the rows and controls
    /// of these runs take the place of those known, unless they have another length.
    pub fn new(runs: &'a [ExperimentRuns<'a>], mut recorded: Recorded) -> Experiments<'a> {
        let mut results: Vec<ExperimentResult<'a>> = runs.iter().map(ExperimentResult::new).collect();
        for result in results.iter().filter(|result| !result.runs.has_other_length) {
            let name = &result.runs.experiment.name;
            if !result.rows.is_empty() {
                recorded.replace(name, result.recorded(), result.runs.is_part);
            }
            if !result.runs.is_part {
                recorded.replace_controls(name, result.recorded_controls());
            }
        }
        for result in &mut results {
            result.add_model_error(recorded.model_error(&result.runs.experiment.publication));
        }
        let pairs: Vec<Pair> = results.iter().flat_map(|result| pairs(&result.rows)).collect();
        Experiments { results, pooled: Score::new(&pairs), recorded }
    }

    /// Returns what all rows and controls came to when they were last run.
    pub fn recorded(&self) -> &Recorded {
        &self.recorded
    }

    /// Returns what is wrong, one line each: controls that do not hold, and robust rows whose sign is wrong.
    pub fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for result in &self.results {
            for row in result.rows.iter().filter(|row| row.row.robust && row.sign == Sign::Wrong) {
                failures.push(format!(
                    "{}: the sign is wrong, though the file says that it is robust: published {}, simulated {} %",
                    row.row.id,
                    number(row.published_gain_percent),
                    number(row.simulated.gain.gain_percent)
                ));
            }
            for control in result.controls.iter().filter(|control| !control.holds) {
                failures.push(format!(
                    "{}: expected {}, found {} %",
                    control.control.id,
                    control.control.expect.name(),
                    number(control.simulated.gain.gain_percent)
                ));
            }
        }
        failures
    }
}

fn number(percent: Option<f64>) -> String {
    percent.map_or_else(|| "nothing".to_owned(), |percent| format!("{percent:+.2}"))
}

fn pairs(rows: &[RowResult<'_>]) -> Vec<Pair> {
    rows.iter().filter(|row| row.row.score).filter_map(RowResult::pair).collect()
}

impl<'a> ExperimentResult<'a> {
    fn new(runs: &'a ExperimentRuns<'a>) -> ExperimentResult<'a> {
        let experiment = runs.experiment;
        let mut rows: Vec<(usize, RowResult<'a>)> = Vec::new();
        let mut controls: Vec<(usize, ControlResult<'a>)> = Vec::new();
        for case in &runs.cases {
            let row =
                |(of_case, &at): (usize, &usize)| (at, RowResult::new(&experiment.rows[at], case, of_case));
            rows.extend(case.case.rows.iter().enumerate().map(row));
            let control = |&at: &usize| (at, ControlResult::new(&experiment.controls[at], case));
            controls.extend(case.case.controls.iter().map(control));
        }
        rows.sort_by_key(|(at, _)| *at);
        controls.sort_by_key(|(at, _)| *at);
        let rows: Vec<RowResult<'a>> = rows.into_iter().map(|(_, row)| row).collect();
        let score = Score::new(&pairs(&rows));
        ExperimentResult {
            runs,
            rows,
            controls: controls.into_iter().map(|(_, control)| control).collect(),
            score,
        }
    }

    /// Returns the rows that count in the score.
    fn recorded(&self) -> Vec<RecordedRow> {
        let experiment = self.runs.experiment;
        let of_row = |row: &RowResult<'_>| {
            let pair = row.pair()?;
            let draws = |spread: &Spread| {
                let gain = row.simulated.gain.gain_percent?;
                let (range, draws, undecided) = (spread.range_percent?, spread.draws, spread.undecided);
                Some(RecordedDraws { gain, range, draws, chance: spread.chance_percent, undecided })
            };
            Some(RecordedRow {
                publication: experiment.publication.clone(),
                experiment: experiment.name.clone(),
                id: row.row.id.clone(),
                published: pair.published,
                noise: pair.noise,
                gain: pair.predicted,
                certain: pair.certain,
                drawn: row.spread.as_ref().and_then(draws),
            })
        };
        self.rows.iter().filter(|row| row.row.score).filter_map(of_row).collect()
    }

    fn recorded_controls(&self) -> Vec<RecordedControl> {
        let of = |control: &ControlResult<'_>| RecordedControl {
            experiment: self.runs.experiment.name.clone(),
            id: control.control.id.clone(),
            holds: control.holds,
        };
        self.controls.iter().map(of).collect()
    }

    /// Widens the ranges of all rows by the model's error.
    fn add_model_error(&mut self, error: Option<f64>) {
        for row in &mut self.rows {
            let range = row.spread.as_ref().and_then(|spread| spread.range_percent);
            let gain = row.simulated.gain.gain_percent;
            row.range_with_error = gain
                .zip(range)
                .zip(error)
                .map(|((gain, range), error)| widened(gain, range, row.noise_percent, error));
        }
        self.score = Score::new(&pairs(&self.rows));
    }
}

impl<'a> RowResult<'a> {
    /// `of_case`: index among the rows of its case.
    fn new(row: &'a Row, runs: &'a CaseRuns<'a>, of_case: usize) -> RowResult<'a> {
        let simulated = Simulated::new(&row.measure, runs);
        let direction = direction(&row.measure);
        let published_gain_percent = published_gain(row);
        let squares = |stdev: Option<f64>| stdev.map_or(0.0, |stdev| stdev * stdev);
        let noise_percent =
            round_percent((squares(row.before_stdev_percent) + squares(row.after_stdev_percent)).sqrt());
        let mut result = RowResult {
            row,
            runs,
            direction,
            simulated,
            published_gain_percent,
            noise_percent,
            sign: Sign::Unknown,
            drift: Drift::of(&row.measure, &runs.outcomes),
            without_steady_part: without_steady_part(&row.measure, &runs.outcomes),
            spread: None,
            range_with_error: None,
            deciding: Vec::new(),
        };
        if let Some(drawn) = &runs.drawn {
            let gains = drawn_gains(&row.measure, drawn, of_case);
            result.spread = Some(Spread::new(result.simulated.gain.gain_percent, &gains));
            result.deciding = deciding_figures(drawn, &gains);
        }
        result.sign = match result.pair() {
            None => Sign::Unknown,
            Some(pair) if !pair.exceeds_noise() => Sign::WithinNoise,
            Some(pair) if pair.sign_is_right() => Sign::Right,
            Some(_) => Sign::Wrong,
        };
        result
    }

    fn pair(&self) -> Option<Pair> {
        Some(Pair {
            published: self.published_gain_percent?,
            noise: self.noise_percent,
            predicted: self.simulated.gain.gain_percent.unwrap_or(0.0),
            certain: self.simulated.gain.ci_percent.is_some_and(|[low, high]| low > 0.0 || high < 0.0),
            model: self.spread.as_ref().map(|spread| Model {
                undecided: spread.undecided,
                by_chance: spread.is_mostly_chance(),
                inside: spread.range_percent.is_some_and(|[low, high]| {
                    self.published_gain_percent.is_some_and(|published| (low..=high).contains(&published))
                }),
                inside_with_error: self
                    .range_with_error
                    .zip(self.published_gain_percent)
                    .map(|([low, high], published)| (low..=high).contains(&published)),
            }),
        })
    }
}

impl<'a> ControlResult<'a> {
    fn new(control: &'a Control, runs: &'a CaseRuns<'a>) -> ControlResult<'a> {
        let simulated = Simulated::new(&control.measure, runs);
        let interval = simulated.gain.ci_percent;
        let holds = match control.expect {
            Expect::Same => runs.outcomes[0] == runs.outcomes[1],
            Expect::NoChange => interval.is_some_and(|[low, high]| low <= 0.0 && 0.0 <= high),
            Expect::Gain => interval.is_some_and(|[low, _]| low > 0.0),
            Expect::Loss => interval.is_some_and(|[_, high]| high < 0.0),
        };
        ControlResult { control, runs, simulated, holds }
    }
}

impl Simulated {
    fn new(measure: &Measure, runs: &CaseRuns<'_>) -> Simulated {
        let workload = &runs.case.scenarios[0].workload;
        let of = |outcomes: &[Outcome]| -> Vec<Option<f64>> {
            outcomes.iter().map(|outcome| value(measure, workload, outcome)).collect()
        };
        let values = [of(&runs.outcomes[0]), of(&runs.outcomes[1])];
        let [before, after] = [&values[0], &values[1]]
            .map(|values| values.iter().map(|value| value.map(|v| judged(measure, v))).collect::<Vec<_>>());
        let gain = paired_gain(&before, &after, direction(measure));
        let means = [&values[0], &values[1]]
            .map(|values| values.iter().copied().collect::<Option<Vec<f64>>>().map(|all| mean(&all)));
        Simulated { values, means, gain }
    }
}

/// Returns the values that the rows of a case measure of one run, in the order of [`Case::rows`]: what
/// [`wakelab_lab::draw_experiments`] has to keep.
pub fn row_values(experiment: &Experiment, case: &Case, outcome: &Outcome) -> Vec<Option<f64>> {
    let workload = &case.scenarios[0].workload;
    case.rows.iter().map(|&at| value(&experiment.rows[at].measure, workload, outcome)).collect()
}

/// Returns the gain of a row in each draw.
fn drawn_gains(measure: &Measure, drawn: &Drawn<Vec<Option<f64>>>, of_case: usize) -> Vec<DrawGain> {
    let gain = |kept: &Vec<Vec<Vec<Option<f64>>>>| {
        let side = |side: usize| -> Vec<Option<f64>> {
            kept[side].iter().map(|run| run[of_case].map(|value| judged(measure, value))).collect()
        };
        draw_gain(&side(0), &side(1), direction(measure))
    };
    drawn.kept.iter().map(gain).collect()
}

/// Returns which way the judged value of a measure is better.
pub(crate) fn direction(measure: &Measure) -> Direction {
    match measure {
        Measure::Rate { .. } | Measure::Efficiency { .. } => Direction::Higher,
        Measure::Makespan { .. }
        | Measure::Latency { .. }
        | Measure::Decision {}
        | Measure::Search { .. }
        | Measure::CpuShare { .. } => Direction::Lower,
    }
}

/// Returns what a value is judged by: the value itself, or a share's distance from the fair part.
fn judged(measure: &Measure, value: f64) -> f64 {
    match measure {
        Measure::CpuShare { fair_percent, .. } => (value - fair_percent).abs(),
        _ => value,
    }
}

fn published_gain(row: &Row) -> Option<f64> {
    let (Some(before), Some(after)) = (row.before, row.after) else { return row.gain_percent };
    let judged = |value| [Some(judged(&row.measure, value))];
    paired_gain(&judged(before), &judged(after), direction(&row.measure)).gain_percent
}

/// Returns how well idle searches did, in percent. Target, prev and the recent CPU are one look together; a search of
/// the LLC also looks at what its steps read.
fn efficiency(part: Efficiency, outcome: &Outcome) -> Option<f64> {
    let times = &outcome.search_times;
    let searches = times.whole.searches;
    let in_llc = outcome.counts.searches.min(searches);
    let fast = searches - in_llc;
    let failed = outcome.reasons.get(Reason::NoneIdle.name()).copied().unwrap_or(0).min(in_llc);
    let visits = times.idle_core.reads + times.idle_cpu.reads;
    match part {
        Efficiency::Search => metric::percent(searches - failed, searches + visits),
        Efficiency::Domain => metric::percent(in_llc - failed, in_llc + visits),
        Efficiency::Fast => metric::percent(fast, searches),
        Efficiency::Success => metric::percent(searches - failed, searches),
    }
}

/// Returns the figure of a run in the measure's unit; `None` if it is not defined.
fn value(measure: &Measure, workload: &Workload, outcome: &Outcome) -> Option<f64> {
    match measure {
        Measure::Makespan { times, within_percent } => {
            let seconds = match within_percent {
                Some(within) => metric::seconds_within(outcome, within.percent()),
                None => metric::makespan(outcome).map(|ns| ns / 1e9),
            };
            seconds.map(|seconds| seconds * *times as f64)
        }
        Measure::Rate { per_unit, within_percent, .. } => {
            let rate = match within_percent {
                Some(within) => metric::rate_within(outcome, within.percent()),
                None => metric::rate(outcome),
            };
            rate.map(|rate| rate / *per_unit as f64)
        }
        Measure::Latency { percentile } => {
            fine_percentile_ns(&outcome.judged_latency, percentile.milli_percent()).map(|ns| ns as f64 / 1e3)
        }
        Measure::Decision {} => {
            let selects = outcome.counts.selects;
            (selects > 0).then(|| outcome.time.select_ns as f64 / selects as f64 / 1e3)
        }
        Measure::Search { step } => {
            let times = &outcome.search_times;
            let time = match step {
                SearchStep::Whole => times.whole,
                SearchStep::IdleCore => times.idle_core,
                SearchStep::IdleCpu => times.idle_cpu,
                SearchStep::IdleCpuAfterCore => times.idle_cpu_after_core,
            };
            metric::ratio(time.time_ns, time.searches).map(|ns| ns / 1e3)
        }
        Measure::Efficiency { part } => efficiency(*part, outcome),
        Measure::CpuShare { task, .. } => {
            let of = |is_counted: &dyn Fn(&str) -> bool| -> u64 {
                let tasks = workload.tasks.iter().zip(&outcome.task_cpu_time_ns);
                tasks.filter(|(task, _)| is_counted(&task.name)).map(|(_, ns)| ns).sum()
            };
            let is_meant = |name: &str| match task.strip_suffix('*') {
                Some(beginning) => name.starts_with(beginning),
                None => name == task,
            };
            metric::percent(of(&is_meant), of(&|_| true))
        }
    }
}
