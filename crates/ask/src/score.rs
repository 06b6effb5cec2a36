// SPDX-License-Identifier: GPL-2.0-or-later
//! One number for a policy: how much better or worse than a baseline it is, over several inputs, machines and metrics.
//!
//! For each case (an input on a machine), metric and seed, r is by how much the policy is better: the baseline's value
//! over the policy's where less is better, the policy's over the baseline's where more is. The score is 100 times the
//! geometric mean of all r, those of a metric weighted with its weight: 100 is the baseline, 110 is 10 % better.
//!
//! - r is at least 1/100 and at most 100; if both values are 0, it is 1. A policy without a value, because its run did
//!   not complete, has 1/100.
//! - A metric that the baseline has not with every seed is left out in that case, and counted.
//! - The interval is that of the mean of ln r over seeds (95 %, Student's t).
//! - The policy is *worse* in a case where one of the metrics is, beyond 1 % and the interval of its gain, or where a
//!   run did not complete that the baseline completes.
//!
//! Worked example: on one machine p99 falls from 200 to 100 us, on another it rises from 100 to 125 us. The ratios are
//! 2 and 0.8, their geometric mean is 1.265, the score 126.5, and the policy is worse in one case.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;
use wakelab_lab::{Kernel, LabError, Runner};
use wakelab_report::{Comparison, MetricResult, SCHEMA_VERSION};
use wakelab_sim::{Ending, HostProfile, Outcome, Scenario};
use wakelab_stats::{Direction, Gain, half_interval, mean, round_percent};

use crate::error::{AskError, bad_input};
use crate::input::{Ask, MachineChoice, Note, change, input, machine_of, policy, with_costs};

/// Bounds of a ratio.
const RATIO_MAX: f64 = 100.0;
/// Metrics beside those of [`Comparison::named`].
const THROUGHPUT: &str = "throughput";
const MIGRATIONS: &str = "migrations";

/// A metric with its weight: `p99`, or `p99=2`.
#[derive(Clone, Debug, PartialEq)]
pub struct Weighted {
    /// `result`, `throughput`, `migrations`, a percentile such as `p99`, or a name of JSON.
    pub name: String,
    /// How much it counts.
    pub weight: f64,
}

impl FromStr for Weighted {
    type Err = String;

    fn from_str(text: &str) -> Result<Weighted, String> {
        let (name, weight) = text.split_once('=').unwrap_or((text, "1"));
        let weight: f64 = weight.parse().map_err(|_| "expected METRIC or METRIC=WEIGHT".to_owned())?;
        if name.is_empty() || !(weight.is_finite() && weight > 0.0) {
            return Err("expected METRIC or METRIC=WEIGHT, with a weight above 0".to_owned());
        }
        Ok(Weighted { name: name.to_owned(), weight })
    }
}

/// What policies are scored on.
pub struct ScoreAsk<'a> {
    /// The inputs.
    pub inputs: &'a [Ask],
    /// The machines; each input runs on each of them.
    pub machines: &'a [MachineChoice],
    /// The policy that has the score 100.
    pub baseline: &'a str,
    /// The metrics.
    pub metrics: Vec<Weighted>,
    /// What surrounds the policies.
    pub kernel: Kernel,
}

/// Scores policies on the same cases. The baseline's runs are kept from one policy to the next.
pub struct Scorer {
    cases: Vec<Case>,
    baseline: String,
    metrics: Vec<Weighted>,
    host: HostProfile,
    kept: BTreeMap<Pair, Outcome>,
}

/// A case, by its place, and a seed.
type Pair = (usize, u64);

struct Case {
    input: String,
    scenario: Scenario,
}

/// The score of a policy, as docs/schema/score.schema.json describes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scored {
    schema_version: u32,
    kind: &'static str,
    /// 100 is the baseline, more is better.
    pub score: f64,
    /// Its 95 % interval over seeds; none with one seed.
    pub ci: Option<[f64; 2]>,
    /// Cases in which the policy is worse than the baseline.
    pub worse_in: usize,
    /// Metrics that were left out, over all cases.
    pub left_out: usize,
    /// The policy.
    pub policy: String,
    /// The policy that has the score 100.
    pub baseline: String,
    /// The kernel model.
    host: HostProfile,
    /// The seeds of all runs.
    pub seeds: Vec<u64>,
    /// The score in each metric alone.
    pub metrics: Vec<MetricScore>,
    /// Each input on each machine.
    pub cases: Vec<CaseScore>,
}

/// A metric over all cases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricScore {
    /// The metric as it was asked for.
    pub metric: String,
    /// How much it counts.
    pub weight: f64,
    /// 100 is the baseline; none if it was left out everywhere.
    pub score: Option<f64>,
}

/// An input on a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseScore {
    /// The input.
    pub input: String,
    /// The machine.
    pub machine: String,
    /// The number of its CPUs.
    pub cpus: usize,
    /// Whether all runs of the policy did all their work.
    pub completed: bool,
    /// 100 is the baseline; none if all metrics were left out.
    pub score: Option<f64>,
    /// Whether the policy is worse than the baseline here.
    pub worse: bool,
    /// The metrics that were not left out.
    pub metrics: Vec<CaseMetric>,
}

/// A metric of a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseMetric {
    /// The name in JSON.
    pub name: String,
    /// Which way is better.
    pub direction: Direction,
    /// The baseline's values by seed.
    pub baseline: Vec<Option<f64>>,
    /// The policy's values by seed.
    pub policy: Vec<Option<f64>>,
    /// 100 is the baseline.
    pub score: f64,
    /// The gain of the means, as `wakelab compare` has it.
    #[serde(flatten)]
    pub gain: Gain,
    #[serde(skip)]
    weight: f64,
    /// Which of the metrics that were asked for.
    #[serde(skip)]
    asked: usize,
    /// ln r by seed.
    #[serde(skip)]
    logs: Vec<f64>,
}

impl Scorer {
    /// Reads the inputs, and looks up the machines.
    ///
    /// # Errors
    /// A wrong name or file, or no input, machine or metric.
    pub fn new(ask: ScoreAsk<'_>, note: Note<'_>) -> Result<Scorer, AskError> {
        if ask.inputs.is_empty() || ask.machines.is_empty() || ask.metrics.is_empty() {
            return Err(bad_input("expected at least one input, one machine and one metric"));
        }
        let baseline = policy(ask.baseline, note)?;
        let mut cases = Vec::new();
        for own in ask.inputs {
            let (workload, recording) = input(own)?;
            let told = recording.as_ref().map(|recording| (recording, own.import.recorded_on.as_ref()));
            for choice in ask.machines {
                let machine = with_costs(&machine_of(choice, told, &[])?, &own.cost)?;
                let mut workload = Arc::clone(&workload);
                change(&own.what_if, &mut workload, &machine, recording.is_some())?;
                let specs = std::slice::from_ref(&baseline);
                let scenario = wakelab_lab::scenarios(&machine, &workload, specs, ask.kernel).remove(0);
                scenario.check().map_err(bad_input)?;
                cases.push(Case { input: workload.name.clone(), scenario });
            }
        }
        let (baseline, host) = (ask.baseline.to_owned(), ask.kernel.host);
        Ok(Scorer { cases, baseline, metrics: ask.metrics, host, kept: BTreeMap::new() })
    }

    /// Returns a scorer of the first part of each case: runs are stopped after `part` of the time that the baseline's
    /// run with the seed takes.
    ///
    /// # Errors
    /// A run that fails.
    pub fn first_part(&mut self, part: f64, seed: u64, runner: &Runner<'_>) -> Result<Scorer, AskError> {
        self.keep_baseline(&[seed], runner)?;
        let cases = self.cases.iter().enumerate().map(|(at, case)| {
            let whole_ns = self.kept[&(at, seed)].elapsed_ns;
            let limit_ns = ((whole_ns as f64 * part) as u64).max(1);
            Case { input: case.input.clone(), scenario: Scenario { limit_ns, ..case.scenario.clone() } }
        });
        Ok(Scorer {
            cases: cases.collect(),
            baseline: self.baseline.clone(),
            metrics: self.metrics.clone(),
            host: self.host,
            kept: BTreeMap::new(),
        })
    }

    /// Runs a policy with seeds, and the baseline where that is not known yet.
    ///
    /// # Errors
    /// A wrong policy or metric, a run that fails, or a baseline without any value.
    pub fn score(
        &mut self,
        name: &str,
        seeds: &[u64],
        runner: &Runner<'_>,
        note: Note<'_>,
    ) -> Result<Scored, AskError> {
        let spec = policy(name, note)?;
        let own = |case: &Case| Scenario { policy: spec.clone(), ..case.scenario.clone() };
        let scenarios: Vec<Scenario> = self.cases.iter().map(own).collect();
        scenarios.iter().try_for_each(|scenario| scenario.check().map_err(bad_input))?;
        self.keep_baseline(seeds, runner)?;
        let runs = run_all(&scenarios, self.pairs(seeds).collect(), name, runner)?;
        let mut cases = Vec::new();
        for (at, scenario) in scenarios.iter().enumerate() {
            let of = |runs: &BTreeMap<Pair, Outcome>| {
                seeds.iter().filter_map(|&seed| runs.get(&(at, seed)).cloned()).collect::<Vec<_>>()
            };
            cases.push(self.case(at, scenario, name, [of(&self.kept), of(&runs)])?);
        }
        self.scored(name, seeds, cases)
    }

    /// Runs the baseline with seeds where it has not run yet.
    fn keep_baseline(&mut self, seeds: &[u64], runner: &Runner<'_>) -> Result<(), AskError> {
        let own: Vec<Scenario> = self.cases.iter().map(|case| case.scenario.clone()).collect();
        let unknown = self.pairs(seeds).filter(|pair| !self.kept.contains_key(pair)).collect();
        let runs = run_all(&own, unknown, &self.baseline, runner)?;
        self.kept.extend(runs);
        Ok(())
    }

    fn pairs<'a>(&'a self, seeds: &'a [u64]) -> impl Iterator<Item = Pair> + 'a {
        (0..self.cases.len()).flat_map(move |case| seeds.iter().map(move |&seed| (case, seed)))
    }

    fn case(
        &self,
        at: usize,
        scenario: &Scenario,
        name: &str,
        outcomes: [Vec<Outcome>; 2],
    ) -> Result<CaseScore, AskError> {
        let has_completed = |runs: &[Outcome]| runs.iter().all(|outcome| outcome.ending == Ending::Completed);
        let completed = outcomes.each_ref().map(|runs| has_completed(runs));
        let scenarios = [self.cases[at].scenario.clone(), scenario.clone()];
        let names = [self.baseline.clone(), name.to_owned()];
        let comparison = Comparison::new(&scenarios, &names, &outcomes)?;
        let mut metrics = Vec::new();
        for (asked, metric) in self.metrics.iter().enumerate() {
            metrics.extend(case_metric(named(&comparison, &metric.name)?, asked, metric.weight));
        }
        let is_worse = |metric: &CaseMetric| metric.gain.marked && metric.gain.gain_percent < Some(0.0);
        Ok(CaseScore {
            input: self.cases[at].input.clone(),
            machine: scenario.machine.name.clone(),
            cpus: scenario.machine.topology.nr_cpus(),
            completed: completed[1],
            score: score(metrics.iter()).map(|(score, _)| score),
            worse: (completed[0] && !completed[1]) || metrics.iter().any(is_worse),
            metrics,
        })
    }

    fn scored(&self, name: &str, seeds: &[u64], cases: Vec<CaseScore>) -> Result<Scored, AskError> {
        let all = || cases.iter().flat_map(|case| &case.metrics);
        let Some((total, ci)) = score(all()) else {
            return Err(bad_input(
                "the baseline has no value of any metric, because its runs did not complete or have no such event; \
                 expected a larger --limit-s, or another --metric",
            ));
        };
        let metrics = self.metrics.iter().enumerate().map(|(at, metric)| MetricScore {
            metric: metric.name.clone(),
            weight: metric.weight,
            score: score(all().filter(|own| own.asked == at)).map(|(score, _)| score),
        });
        Ok(Scored {
            schema_version: SCHEMA_VERSION,
            kind: "score",
            score: total,
            ci,
            worse_in: cases.iter().filter(|case| case.worse).count(),
            left_out: cases.len() * self.metrics.len() - all().count(),
            policy: name.to_owned(),
            baseline: self.baseline.clone(),
            host: self.host,
            seeds: seeds.to_vec(),
            metrics: metrics.collect(),
            cases,
        })
    }
}

/// Runs cases with seeds.
fn run_all(
    scenarios: &[Scenario],
    pairs: Vec<Pair>,
    name: &str,
    runner: &Runner<'_>,
) -> Result<BTreeMap<Pair, Outcome>, AskError> {
    let outcomes = runner.in_parallel(pairs.len(), |at| {
        let (case, seed) = pairs[at];
        wakelab_sim::run(&scenarios[case], seed)
    });
    let mut runs = BTreeMap::new();
    for (pair, outcome) in pairs.into_iter().zip(outcomes) {
        let failed = |error| LabError::Run { name: format!("policy {name}"), seed: pair.1, error };
        runs.insert(pair, outcome.map_err(failed)?);
    }
    Ok(runs)
}

/// The metric that is asked for, and which way is better.
fn named<'a>(comparison: &'a Comparison<'_>, name: &str) -> Result<(&'a MetricResult, Direction), AskError> {
    let has = |name: &str| comparison.metrics.iter().find(|metric| metric.name == name);
    let found = match name {
        MIGRATIONS => has(MIGRATIONS).map(|metric| (metric, Direction::Lower)),
        THROUGHPUT => ["rate_per_s", "done_ns", "makespan_ns"]
            .into_iter()
            .find_map(has)
            .map(|metric| (metric, metric.direction)),
        _ => None,
    };
    match found {
        Some(found) => Ok(found),
        None => comparison.named(name).map(|metric| (metric, metric.direction)).map_err(bad_input),
    }
}

/// Returns nothing if the baseline lacks a value.
fn case_metric(
    (metric, direction): (&MetricResult, Direction),
    asked: usize,
    weight: f64,
) -> Option<CaseMetric> {
    let [baseline, policy] = [0, 1].map(|column| metric.policies[column].values.clone());
    let known: Vec<f64> = baseline.iter().copied().collect::<Option<Vec<f64>>>()?;
    let logs: Vec<f64> =
        known.iter().zip(&policy).map(|(base, own)| log_ratio(*base, *own, direction)).collect();
    Some(CaseMetric {
        name: metric.name.clone(),
        direction,
        score: as_score(mean(&logs)),
        gain: metric.policies[1].gain,
        baseline,
        policy,
        weight,
        asked,
        logs,
    })
}

/// ln r of one seed.
fn log_ratio(baseline: f64, policy: Option<f64>, direction: Direction) -> f64 {
    let Some(policy) = policy else { return -RATIO_MAX.ln() };
    let ratio = match direction {
        _ if baseline == policy => 1.0,
        Direction::Higher => policy / baseline,
        Direction::Lower | Direction::Neutral => baseline / policy,
    };
    ratio.clamp(1.0 / RATIO_MAX, RATIO_MAX).ln()
}

/// The score of some metrics, and its interval. None without metrics.
fn score<'a>(metrics: impl Iterator<Item = &'a CaseMetric>) -> Option<(f64, Option<[f64; 2]>)> {
    let (mut sums, mut weights) = (Vec::new(), 0.0);
    for metric in metrics {
        sums.resize(metric.logs.len(), 0.0);
        sums.iter_mut().zip(&metric.logs).for_each(|(sum, log)| *sum += metric.weight * log);
        weights += metric.weight;
    }
    if sums.is_empty() {
        return None;
    }
    let logs: Vec<f64> = sums.iter().map(|sum| sum / weights).collect();
    let middle = mean(&logs);
    let ci = half_interval(&logs).map(|half| [as_score(middle - half), as_score(middle + half)]);
    Some((as_score(middle), ci))
}

fn as_score(log: f64) -> f64 {
    round_percent(100.0 * log.exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(weight: f64, logs: &[f64]) -> CaseMetric {
        CaseMetric {
            name: String::new(),
            direction: Direction::Lower,
            baseline: Vec::new(),
            policy: Vec::new(),
            score: 0.0,
            gain: Gain::default(),
            weight,
            asked: 0,
            logs: logs.to_vec(),
        }
    }

    #[test]
    fn ratios_by_hand() {
        let ratio = |base, own, direction| (log_ratio(base, own, direction).exp() * 1e6).round() / 1e6;
        assert_eq!(ratio(200.0, Some(100.0), Direction::Lower), 2.0);
        assert_eq!(ratio(100.0, Some(125.0), Direction::Lower), 0.8);
        assert_eq!(ratio(100.0, Some(125.0), Direction::Higher), 1.25);
        assert_eq!(ratio(0.0, Some(0.0), Direction::Lower), 1.0);
        assert_eq!(ratio(5.0, Some(0.0), Direction::Lower), 100.0);
        assert_eq!(ratio(0.0, Some(5.0), Direction::Lower), 0.01);
        assert_eq!(ratio(5.0, None, Direction::Higher), 0.01);
    }

    /// Ratios 2 and 0.8: sqrt(1.6) = 1.264911. With weights 3 and 1: 2^0.75 * 0.8^0.25 = 1.590541.
    #[test]
    fn means_by_hand() {
        let of = |weights: [f64; 2]| {
            let metrics = [metric(weights[0], &[2f64.ln()]), metric(weights[1], &[0.8f64.ln()])];
            score(metrics.iter())
        };
        assert_eq!(of([1.0, 1.0]), Some((126.491106, None)));
        assert_eq!(of([3.0, 1.0]), Some((159.054146, None)));
        assert_eq!(score([].into_iter()), None);
    }

    /// ln r of 0.1 and 0.3: mean 0.2, s = 0.141421, t(1) = 12.706205, half = 12.706205 * 0.1 = 1.270620.
    #[test]
    fn an_interval_by_hand() {
        let (middle, ci) = score([metric(1.0, &[0.1, 0.3])].iter()).expect("a score");
        assert_eq!(middle, 122.140276);
        let [low, high] = ci.expect("two seeds");
        assert!((low - 100.0 * (0.2f64 - 1.270620).exp()).abs() < 1e-3, "{low}");
        assert!((high - 100.0 * (0.2f64 + 1.270620).exp()).abs() < 1e-3, "{high}");
    }

    #[test]
    fn weights_are_read() {
        assert_eq!("p99=2.5".parse(), Ok(Weighted { name: "p99".to_owned(), weight: 2.5 }));
        assert_eq!("p99".parse(), Ok(Weighted { name: "p99".to_owned(), weight: 1.0 }));
        for wrong in ["p99=0", "p99=x", "=1", "p99=inf"] {
            assert!(wrong.parse::<Weighted>().is_err(), "{wrong}");
        }
    }
}
