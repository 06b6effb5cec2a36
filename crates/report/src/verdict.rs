// SPDX-License-Identifier: GPL-2.0-or-later
//! What a comparison comes to, in sentences made by rule:
//!
//! 1. the result (the comparison's first row): better, worse, no difference, or undecided, and by how much;
//! 2. the two other marked rows that moved furthest, of those that a user of the machine notices; not the makespan of
//!    all tasks, which is the recorder's or a timer's;
//! 3. if there are any: what moved furthest with them, of counts, of CPU time, and of placement decisions. That is no
//!    proof of a cause;
//! 4. where the judged tasks waited longer or less long in all: the cause that has at least half of the change;
//! 5. whether the result is one of the steady part, if start-up or tail change it;
//! 6. what to do next, where the answer is not certain.
//!
//! A result is *undecided* if it exceeds 1 % and the spread of the seeds, but not the error of replays; or if its sign
//! does not hold when the model's figures are drawn from their ranges, where that was asked for (uncertainty.rs). It
//! shows *no difference* if it does not exceed 1 % and the spread of the seeds.
//!
//! It fails where two changes cancel out: an unmarked row says nothing about its parts.

use serde::Serialize;
use wakelab_machine::printable;
use wakelab_sim::{Ending, Outcome, TimeKind};
use wakelab_stats::{Direction, Gain, mean};

use crate::comparison::{Comparison, MetricOfPolicy, MetricResult};
use crate::gain_text::{gain_sentence, gain_words, half_interval};
use crate::table::{scale, value_text};
use crate::uncertainty::spread_words;

/// The most rows of the second sentence.
const OTHERS_MAX: usize = 2;
/// Counts that change by less than this factor, or by fewer a run, are not told.
const COUNT_FACTOR_MIN: f64 = 1.1;
const COUNT_MIN: f64 = 10.0;
/// Shares of CPU time, and of placement decisions, that change by fewer percent points than this are not told.
const POINTS_MIN: [f64; 2] = [0.1, 2.0];
/// What is not told beside the result: the makespan of all tasks, and rates, which have another sentence.
const NOT_BESIDE: [&str; 3] = ["makespan_ns", "whole_rate_per_s", "steady_rate_per_s"];
/// The most names of a service that are told.
const NAMES_MAX: usize = 2;

/// Whether a policy is better than the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decided {
    /// The result is better.
    Better,
    /// The result is worse.
    Worse,
    /// The result does not differ by more than 1 % and the spread of the seeds.
    NoDifference,
    /// It does, but not by more than replays are off, or not if the model's figures are others.
    Undecided,
    /// All runs are the same.
    Identical,
    /// There is no result on one of the sides, or one seed only.
    Unknown,
}

/// What the comparison of one policy with the first comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The policy, and its machine, if there are several.
    pub policy: String,
    /// In one word.
    pub decided: Decided,
    /// In sentences; the first one has the result.
    pub sentences: Vec<String>,
}

impl Comparison<'_> {
    /// Returns the verdict on each policy but the first.
    pub fn verdicts(&self) -> Vec<Verdict> {
        (1..self.policies.len()).map(|policy| self.verdict(policy)).collect()
    }

    fn verdict(&self, policy: usize) -> Verdict {
        let name = self.column_name(policy);
        if self.repeats_first(policy) {
            return Verdict { policy: name, decided: Decided::Identical, sentences: vec![self.identical()] };
        }
        let Some((result, others)) = self.metrics.split_first() else {
            return Verdict { policy: name, decided: Decided::Unknown, sentences: Vec::new() };
        };
        let decided = self.decide(result, policy);
        let mut sentences = vec![self.result_sentence(result, policy, decided)];
        sentences.extend(spread_sentence(&result.policies[policy]));
        sentences.extend(self.steady_sentence(policy));
        let moved = moved(others, policy);
        if !moved.is_empty() {
            let words = moved.iter().map(|metric| {
                let words = gain_sentence(&metric.policies[policy].gain, metric.direction);
                format!("{} {words}", metric.label.trim())
            });
            sentences.push(format!("Beside it: {}.", words.collect::<Vec<_>>().join("; ")));
        }
        if matches!(decided, Decided::Better | Decided::Worse) || !moved.is_empty() {
            let with = self.with_it(policy);
            if !with.is_empty() {
                sentences.push(format!("What moved most with it: {}.", with.join("; ")));
            }
        }
        sentences.extend(self.waiting_sentence(policy));
        if !result.policies[policy].is_undecided() {
            sentences.extend(next(decided, &result.policies[policy].gain).map(str::to_owned));
        }
        Verdict { policy: name, decided, sentences }
    }

    pub(crate) fn decide(&self, result: &MetricResult, policy: usize) -> Decided {
        let gain = &result.policies[policy].gain;
        match (gain.gain_percent, gain.ci_percent) {
            (Some(_), _) if result.policies[policy].is_undecided() && self.is_complete() => {
                Decided::Undecided
            }
            (Some(percent), _) if gain.marked && percent > 0.0 => Decided::Better,
            (Some(_), _) if gain.marked => Decided::Worse,
            (Some(_), Some(_)) if exceeds_spread(gain) && self.is_complete() => Decided::Undecided,
            (Some(_), Some(_)) if self.is_complete() => Decided::NoDifference,
            _ => Decided::Unknown,
        }
    }

    /// Returns the result of a comparison of one column: its mean, the range over seeds, and how far replays are off.
    /// `None` if there are several columns, or no result.
    pub(crate) fn only_result(&self) -> Option<String> {
        let result = self.metrics.first()?;
        let [only] = &result.policies[..] else { return None };
        let (divisor, unit, decimals) = scale(result);
        let values: Vec<f64> = only.values.iter().flatten().map(|value| value / divisor).collect();
        let (least, most) =
            (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
        let mut text =
            format!("{}: {} {unit}", self.what(result), value_text(result, only)).trim_end().to_owned();
        if values.len() > 1 {
            text += &format!(" ({least:.decimals$} to {most:.decimals$} over {} seeds)", values.len());
        }
        let errors = self.replay_errors.as_ref().filter(|errors| errors.percent(&result.name).is_some());
        if let Some(errors) = errors {
            text +=
                &format!("; replays of this recording are off by {} in it", errors.cell(&result.name).text);
        }
        Some(text + ".")
    }

    /// Returns what is judged, with the service's name.
    fn what(&self, result: &MetricResult) -> String {
        match self.service() {
            Some(service) => format!("{} (service: {service})", result.label),
            None => result.label.clone(),
        }
    }

    fn result_sentence(&self, result: &MetricResult, policy: usize, decided: Decided) -> String {
        let [before, after] = [0, policy].map(|policy| &result.policies[policy]);
        let (_, unit, _) = scale(result);
        let value = |found| format!("{} {unit}", value_text(result, found)).trim_end().to_owned();
        let values = format!("{} instead of {}", value(after), value(before));
        let what = self.what(result);
        let words = gain_sentence(&after.gain, result.direction);
        let signed = gain_words(&after.gain, result.direction);
        let seeds = self.seeds.len();
        match decided {
            Decided::Undecided if after.is_undecided() => {
                let spread = after.spread.as_ref().map_or_else(String::new, spread_words);
                format!(
                    "{what}: undecided: {words} with the model's figures as they are, {values}, but {spread}."
                )
            }
            Decided::Better | Decided::Worse => format!("{what}: {words}, {values}."),
            Decided::Undecided => {
                let error = self.replay_errors.as_ref().map(|errors| errors.cell(&result.name).text);
                let error = error.unwrap_or_default();
                format!(
                    "{what}: undecided: {words}, {values}, which is not more than replays of this recording are off \
                     ({error})."
                )
            }
            Decided::NoDifference => {
                format!(
                    "{what}: no difference beyond 1 % and the spread of {seeds} seeds ({signed}), {values}."
                )
            }
            Decided::Identical | Decided::Unknown if after.gain.gain_percent.is_some() => {
                format!("{what}: {words}, {values}, without an interval.")
            }
            Decided::Identical | Decided::Unknown => format!("{what}: no result to compare."),
        }
    }

    /// What the steady part says, if that is something else than the whole run, or if a run has none.
    fn steady_sentence(&self, policy: usize) -> Option<String> {
        if self.is_of_service() || !self.is_complete() {
            return None;
        }
        let named = |name: &str| self.metrics.iter().find(|metric| metric.name == name);
        let part = named("steady_part_percent")?;
        let shares =
            || [0, policy].into_iter().flat_map(|policy| part.policies[policy].values.iter().flatten());
        let (nr, without) = (shares().count(), shares().filter(|share| **share == 0.0).count());
        if without > 0 {
            return Some(format!(
                "No part of {without} of {nr} runs is steady: start-up and tail are in the result."
            ));
        }
        let (steady, whole) = match named("steady_rate_per_s") {
            Some(steady) => (steady, self.metrics.first()?),
            None => (self.metrics.first()?, named("whole_rate_per_s")?),
        };
        let [of_steady, of_whole] = [steady, whole].map(|metric| &metric.policies[policy].gain);
        let apart = of_steady.gain_percent? - of_whole.gain_percent?;
        let noise: f64 = [of_steady, of_whole].into_iter().filter_map(half_interval).sum();
        let words = |gain| gain_sentence(gain, Direction::Higher);
        let share = mean(&shares().copied().collect::<Vec<f64>>());
        (apart.abs() > noise.max(1.0)).then(|| {
            if steady.name == "steady_rate_per_s" {
                format!(
                    "In the steady part, {share:.0} % of the run, the rate is {}: the rest is start-up and tail.",
                    words(of_steady)
                )
            } else {
                format!(
                    "That is the steady part, {share:.0} % of the run; over the whole run it is {}.",
                    words(of_whole)
                )
            }
        })
    }

    /// Why all runs are the same, as far as the counts tell.
    fn identical(&self) -> String {
        let outcomes = self.policies[0].outcomes;
        let why = if self.scenarios[0].machine.topology.cpus.len() == 1 {
            ", because one CPU leaves no choice"
        } else if outcomes.iter().all(|outcome| outcome.counts.searches == 0) {
            ", because no placement decision went as far as a search"
        } else {
            ": no decision differed"
        };
        format!("identical runs{why}.")
    }

    /// Returns the names of the judged tasks, largest by CPU time first; `None` if none are judged or if the result is
    /// not theirs.
    fn service(&self) -> Option<String> {
        if !self.is_of_service() {
            return None;
        }
        let names = self.names_by_cpu_time();
        let told: Vec<&str> = names.iter().take(NAMES_MAX).copied().collect();
        let more = match names.len().saturating_sub(NAMES_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!told.is_empty()).then(|| printable(&format!("{}{more}", told.join(", "))).into_owned())
    }

    /// What moved furthest: a count for each run, a share of CPU time, a share of placement decisions.
    fn with_it(&self, policy: usize) -> Vec<String> {
        let sides = [0, policy].map(|policy| self.policies[policy].outcomes);
        let shares = [0, policy].map(|policy| {
            let of = &self.policies[policy];
            let time = TimeKind::ALL.iter().zip(&of.time_percent);
            let time = time.filter(|(kind, _)| !matches!(kind, TimeKind::Idle | TimeKind::Work));
            let time: Vec<(String, f64)> =
                time.map(|(kind, (_, share))| (kind.label().to_owned(), share.unwrap_or(0.0))).collect();
            [time, of.reasons_percent.clone()]
        });
        let mut words: Vec<String> = largest_count(sides).into_iter().collect();
        for (index, of) in ["CPU time", "placement decisions"].into_iter().enumerate() {
            let [before, after] = [0, 1].map(|side| &shares[side][index][..]);
            if let Some((name, [from, to])) = largest_share(before, after, POINTS_MIN[index]) {
                words.push(format!("{name} {from:.1} to {to:.1} % of {of}"));
            }
        }
        words
    }

    /// Whether all runs did all of their work.
    pub(crate) fn is_complete(&self) -> bool {
        self.policies
            .iter()
            .flat_map(|policy| policy.outcomes)
            .all(|outcome| outcome.ending == Ending::Completed)
    }
}

/// The marked rows that moved furthest, of those with a direction. A row of one kind (a percentile) is told once.
fn moved(metrics: &[MetricResult], policy: usize) -> Vec<&MetricResult> {
    let far = |metric: &MetricResult| {
        let [before, after] = [0, policy].map(|policy| metric.policies[policy].mean.unwrap_or(0.0));
        if before > 0.0 && after > 0.0 { (after / before).ln().abs() } else { f64::INFINITY }
    };
    let mut marked: Vec<&MetricResult> = metrics
        .iter()
        .filter(|metric| metric.direction != Direction::Neutral && metric.policies[policy].gain.marked)
        .filter(|metric| !NOT_BESIDE.contains(&metric.name.as_str()))
        .collect();
    marked.sort_by(|a, b| far(b).total_cmp(&far(a)));
    let kind = |metric: &MetricResult| metric.label.rsplit_once(' ').map_or("", |(kind, _)| kind).to_owned();
    let mut told: Vec<&MetricResult> = Vec::new();
    for metric in marked {
        if told.len() < OTHERS_MAX && !told.iter().any(|other| kind(other) == kind(metric)) {
            told.push(metric);
        }
    }
    told
}

/// Returns the count that changed by the largest factor, in words.
fn largest_count(sides: [&[Outcome]; 2]) -> Option<String> {
    type Count = fn(&Outcome) -> u64;
    let counts: [(&str, Count); 4] = [
        ("wake-ups", |outcome| outcome.counts.wakeups),
        ("preemptions", |outcome| outcome.counts.preemptions),
        ("migrations", |outcome| outcome.migrations.iter().sum()),
        ("switches", |outcome| outcome.counts.switches_in),
    ];
    let means = |count: Count| {
        sides.map(|side| mean(&side.iter().map(|outcome| count(outcome) as f64).collect::<Vec<_>>()))
    };
    // One more on both sides, so that nothing has a factor, too.
    let factor = |[from, to]: [f64; 2]| ((to + 1.0) / (from + 1.0)).ln().abs();
    let is_large =
        |[from, to]: [f64; 2]| (to - from).abs() >= COUNT_MIN && factor([from, to]) >= COUNT_FACTOR_MIN.ln();
    let all = counts.map(|(name, count)| (name, means(count)));
    let large = all.into_iter().filter(|(_, change)| is_large(*change));
    let (name, [from, to]) = large.max_by(|a, b| factor(a.1).total_cmp(&factor(b.1)))?;
    Some(format!("{name} {from:.0} to {to:.0} a run"))
}

/// Returns the share that changed by the most percent points.
fn largest_share(before: &[(String, f64)], after: &[(String, f64)], min: f64) -> Option<(String, [f64; 2])> {
    let of = |shares: &[(String, f64)], name: &str| {
        shares.iter().find(|(known, _)| known == name).map_or(0.0, |(_, share)| *share)
    };
    let names = before.iter().chain(after).map(|(name, _)| name);
    let changes = names.map(|name| (name.clone(), [of(before, name), of(after, name)]));
    let size = |[from, to]: [f64; 2]| (to - from).abs();
    changes.max_by(|a, b| size(a.1).total_cmp(&size(b.1))).filter(|(_, change)| size(*change) >= min)
}

/// Whether a gain exceeds 1 % and its interval, as marks ask.
pub(crate) fn exceeds_spread(gain: &Gain) -> bool {
    let half = half_interval(gain).unwrap_or(f64::INFINITY);
    gain.gain_percent.is_some_and(|percent| percent.abs() > half.max(1.0))
}

/// Returns how a gain spreads if the model's figures are others; nothing if that was not asked for, if there is no
/// gain, or if the first sentence says it.
fn spread_sentence(result: &MetricOfPolicy) -> Option<String> {
    let has_gain = result.gain.gain_percent.is_some() && !result.is_undecided();
    let words = spread_words(result.spread.as_ref().filter(|_| has_gain)?);
    Some(format!("{}{}.", words[..1].to_uppercase(), &words[1..]))
}

/// What to do next.
fn next(decided: Decided, gain: &Gain) -> Option<&'static str> {
    match decided {
        Decided::Undecided => {
            Some("`wakelab check` shows which figures of the recording are replayed worst.")
        }
        Decided::NoDifference if half_interval(gain).is_some_and(|half| half > 1.0) => {
            Some("More --seeds narrow the interval.")
        }
        Decided::Unknown if gain.gain_percent.is_some() && gain.ci_percent.is_none() => {
            Some("--seeds 2 or more give an interval.")
        }
        _ => None,
    }
}
