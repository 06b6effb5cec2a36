// SPDX-License-Identifier: GPL-2.0-or-later
//! Experiments as JSON: docs/schema/experiments.schema.json. Rows and controls of all experiments stand in one list
//! each.

use std::collections::BTreeMap;

use serde::Serialize;
use wakelab_experiment::{Case, Fitted, Measure};
use wakelab_sim::HostProfile;

use crate::document::{CONFIDENCE_PERCENT, INTERVAL, SCHEMA_VERSION, SeedValue, seed_values};
use crate::experiment::{ControlResult, Experiments, RowResult, Sign, Simulated};
use crate::score::Score;
use crate::uncertainty::DecidingFigure;
use wakelab_stats::{Direction, Spread};

/// Experiments for programs; serialise it with serde_json.
#[derive(Debug, Serialize)]
pub struct ExperimentsDocument<'a> {
    schema_version: u32,
    kind: &'static str,
    interval: &'static str,
    confidence_percent: u32,
    experiments: Vec<ExperimentDocument<'a>>,
    rows: Vec<RowDocument<'a>>,
    controls: Vec<ControlDocument<'a>>,
    pooled: &'a Score,
}

#[derive(Debug, Serialize)]
struct ExperimentDocument<'a> {
    name: &'a str,
    title: &'a str,
    host: HostProfile,
    limit_s: u64,
    seeds: &'a [u64],
    fitted: &'a [Fitted],
    score: &'a Score,
}

#[derive(Debug, Serialize)]
struct RowDocument<'a> {
    id: &'a str,
    experiment: &'a str,
    params: &'a BTreeMap<String, String>,
    #[serde(flatten)]
    scenario: ScenarioDocument<'a>,
    measure: &'a Measure,
    unit: &'a str,
    direction: Direction,
    before_published: Option<f64>,
    after_published: Option<f64>,
    before_published_stdev_percent: Option<f64>,
    after_published_stdev_percent: Option<f64>,
    #[serde(flatten)]
    simulated: SimulatedDocument,
    published_gain_percent: Option<f64>,
    published_noise_percent: f64,
    sign: Sign,
    #[serde(skip_serializing_if = "Option::is_none")]
    drift_percent: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runs_without_steady_part: Option<[usize; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uncertainty: Option<UncertaintyDocument<'a>>,
    scored: bool,
    robust: bool,
}

/// How the gain of a row spreads over draws of the model's figures, and which of them decide it.
#[derive(Debug, Serialize)]
struct UncertaintyDocument<'a> {
    #[serde(flatten)]
    spread: &'a Spread,
    range_with_error_percent: Option<[f64; 2]>,
    deciding: &'a [DecidingFigure],
}

#[derive(Debug, Serialize)]
struct ControlDocument<'a> {
    id: &'a str,
    experiment: &'a str,
    params: &'a BTreeMap<String, String>,
    #[serde(flatten)]
    scenario: ScenarioDocument<'a>,
    measure: &'a Measure,
    unit: &'a str,
    #[serde(flatten)]
    simulated: SimulatedDocument,
    expect: &'static str,
    because: &'a str,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct ScenarioDocument<'a> {
    machine: &'a str,
    workload: &'a str,
    policy_before: &'a str,
    policy_after: &'a str,
}

#[derive(Debug, Serialize)]
struct SimulatedDocument {
    #[serde(serialize_with = "crate::document::number")]
    before: Option<f64>,
    #[serde(serialize_with = "crate::document::number")]
    after: Option<f64>,
    before_values: Vec<SeedValue>,
    after_values: Vec<SeedValue>,
    gain_percent: Option<f64>,
    ci_percent: Option<[f64; 2]>,
}

impl SimulatedDocument {
    fn new(seeds: &[u64], simulated: &Simulated) -> SimulatedDocument {
        SimulatedDocument {
            before: simulated.means[0],
            after: simulated.means[1],
            before_values: seed_values(seeds, &simulated.values[0]),
            after_values: seed_values(seeds, &simulated.values[1]),
            gain_percent: simulated.gain.gain_percent,
            ci_percent: simulated.gain.ci_percent,
        }
    }
}

impl<'a> ScenarioDocument<'a> {
    fn new(case: &'a Case) -> ScenarioDocument<'a> {
        let [policy_before, policy_after] = &case.policies;
        ScenarioDocument { machine: &case.machine, workload: &case.workload, policy_before, policy_after }
    }
}

impl<'a> RowDocument<'a> {
    fn new(experiment: &'a str, seeds: &[u64], result: &'a RowResult<'a>) -> RowDocument<'a> {
        let row = result.row;
        RowDocument {
            id: &row.id,
            experiment,
            params: &row.params,
            scenario: ScenarioDocument::new(result.runs.case),
            measure: &row.measure,
            unit: row.measure.unit(),
            direction: result.direction,
            before_published: row.before,
            after_published: row.after,
            before_published_stdev_percent: row.before_stdev_percent,
            after_published_stdev_percent: row.after_stdev_percent,
            simulated: SimulatedDocument::new(seeds, &result.simulated),
            published_gain_percent: result.published_gain_percent,
            published_noise_percent: result.noise_percent,
            sign: result.sign,
            drift_percent: result.drift.map(|drift| drift.percent),
            runs_without_steady_part: result.without_steady_part,
            uncertainty: result.spread.as_ref().map(|spread| UncertaintyDocument {
                spread,
                range_with_error_percent: result.range_with_error,
                deciding: &result.deciding,
            }),
            scored: row.score && result.published_gain_percent.is_some(),
            robust: row.robust,
        }
    }
}

impl<'a> ControlDocument<'a> {
    fn new(experiment: &'a str, seeds: &[u64], result: &'a ControlResult<'a>) -> ControlDocument<'a> {
        let control = result.control;
        ControlDocument {
            id: &control.id,
            experiment,
            params: &control.params,
            scenario: ScenarioDocument::new(result.runs.case),
            measure: &control.measure,
            unit: control.measure.unit(),
            simulated: SimulatedDocument::new(seeds, &result.simulated),
            expect: control.expect.name(),
            because: &control.because,
            holds: result.holds,
        }
    }
}

impl Experiments<'_> {
    /// Returns all results as a document.
    pub fn document(&self) -> ExperimentsDocument<'_> {
        let experiments = self
            .results
            .iter()
            .map(|result| {
                let experiment = result.runs.experiment;
                ExperimentDocument {
                    name: &experiment.name,
                    title: &experiment.title,
                    host: experiment.host,
                    limit_s: experiment.limit_s,
                    seeds: &result.runs.seeds,
                    fitted: &experiment.fitted,
                    score: &result.score,
                }
            })
            .collect();
        let mut rows = Vec::new();
        let mut controls = Vec::new();
        for result in &self.results {
            let (name, seeds) = (&result.runs.experiment.name, &result.runs.seeds);
            rows.extend(result.rows.iter().map(|row| RowDocument::new(name, seeds, row)));
            controls.extend(result.controls.iter().map(|control| ControlDocument::new(name, seeds, control)));
        }
        ExperimentsDocument {
            schema_version: SCHEMA_VERSION,
            kind: "experiments",
            interval: INTERVAL,
            confidence_percent: CONFIDENCE_PERCENT,
            experiments,
            rows,
            controls,
            pooled: &self.pooled,
        }
    }
}
