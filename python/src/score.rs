// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab.score`, and the scorer that tuning asks again and again.

use std::sync::{Mutex, MutexGuard};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use wakelab_ask::{ScoreAsk, Scored, Scorer, Weighted};
use wakelab_lab::consecutive_seeds;

use crate::objects::{machine_choice, policy_name};
use crate::options::{Options, several};
use crate::progress::detached;
use crate::refused;

/// The baseline, and the metrics, as in the command.
const BASELINE: &str = "linux-6.12";
const METRICS: [&str; 2] = ["result", "p99"];

/// The score of a policy.
#[pyclass(name = "Score", module = "wakelab", frozen)]
pub(crate) struct PyScore(Scored);

#[pymethods]
impl PyScore {
    /// 100 is the baseline, more is better.
    #[getter]
    fn score(&self) -> f64 {
        self.0.score
    }

    /// The 95 % interval over seeds.
    #[getter]
    fn ci(&self) -> Option<(f64, f64)> {
        self.0.ci.map(|[low, high]| (low, high))
    }

    /// The number of cases in which the policy is worse than the baseline.
    #[getter]
    fn worse_in(&self) -> usize {
        self.0.worse_in
    }

    /// The score in each metric alone, in the order in which they were asked for.
    #[getter]
    fn metrics(&self) -> Vec<(String, Option<f64>)> {
        self.0.metrics.iter().map(|metric| (metric.metric.clone(), metric.score)).collect()
    }

    /// The score of each input on each machine: input, machine, score, and whether the policy is worse there.
    #[getter]
    fn cases(&self) -> Vec<(String, String, Option<f64>, bool)> {
        let one = |case: &wakelab_ask::CaseScore| {
            (case.input.clone(), case.machine.clone(), case.score, case.worse)
        };
        self.0.cases.iter().map(one).collect()
    }

    /// Returns the JSON of `wakelab score --format json`.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string_pretty(&self.0).map_err(refused)
    }

    fn __float__(&self) -> f64 {
        self.0.score
    }

    fn __str__(&self) -> String {
        format!("{:.2}", self.0.score)
    }

    fn __repr__(&self) -> String {
        format!("Score({:.2}, policy {:?})", self.0.score, self.0.policy)
    }
}

/// Scores policies on the same inputs and machines. The baseline runs once.
#[pyclass(name = "Scorer", module = "wakelab._native", frozen)]
pub(crate) struct PyScorer(Mutex<Scorer>);

#[pymethods]
impl PyScorer {
    #[new]
    #[pyo3(signature = (input, machine, *, baseline = BASELINE, metric = None, **options))]
    fn new(
        py: Python<'_>,
        input: &Bound<'_, PyAny>,
        machine: &Bound<'_, PyAny>,
        baseline: &str,
        metric: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyScorer> {
        let mut options = Options::new(options)?;
        let scorer = scorer(py, (input, machine), baseline, metric, &mut options)?;
        options.finish("Scorer")?;
        Ok(PyScorer(Mutex::new(scorer)))
    }

    /// Returns a scorer of the first part of each run.
    fn first_part(&self, py: Python<'_>, part: f64, seed: u64) -> PyResult<PyScorer> {
        detached(py, None, |runner, _| self.locked().first_part(part, seed, runner))
            .map(|scorer| PyScorer(Mutex::new(scorer)))
    }

    /// Scores a policy with `seeds` seeds from `seed` on.
    #[pyo3(signature = (policy, *, seeds = 5, seed = 1))]
    fn score(&self, py: Python<'_>, policy: &Bound<'_, PyAny>, seeds: u32, seed: u64) -> PyResult<PyScore> {
        let (policy, seeds) = (policy_name(policy)?, consecutive_seeds(seed, seeds));
        detached(py, None, |runner, note| self.locked().score(&policy, &seeds, runner, note)).map(PyScore)
    }
}

impl PyScorer {
    fn locked(&self) -> MutexGuard<'_, Scorer> {
        self.0.lock().expect("no thread panics while it holds this lock")
    }
}

fn scorer<'py>(
    py: Python<'py>,
    (input, machine): (&Bound<'py, PyAny>, &Bound<'py, PyAny>),
    baseline: &str,
    metric: Option<&Bound<'py, PyAny>>,
    options: &mut Options<'py>,
) -> PyResult<Scorer> {
    let machines = several(machine, machine_choice)?;
    let inputs = options.asks(input)?;
    let metrics = match metric {
        Some(metric) => several(metric, |metric| metric.extract::<String>())?,
        None => METRICS.map(str::to_owned).to_vec(),
    };
    let weighted =
        |text: &String| text.parse::<Weighted>().map_err(|error| refused(format!("{text}: {error}")));
    let metrics = metrics.iter().map(weighted).collect::<PyResult<Vec<_>>>()?;
    let kernel = options.kernel()?;
    detached(py, None, |_, note| {
        Scorer::new(ScoreAsk { inputs: &inputs, machines: &machines, baseline, metrics, kernel }, note)
    })
}

/// Scores a policy.
#[pyfunction(name = "score")]
#[pyo3(signature = (input, machine, policy, *, baseline = BASELINE, metric = None, **options))]
pub(crate) fn score_native(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    machine: &Bound<'_, PyAny>,
    policy: &Bound<'_, PyAny>,
    baseline: &str,
    metric: Option<&Bound<'_, PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<PyScore> {
    let policy = policy_name(policy)?;
    let mut options = Options::new(options)?;
    let mut scorer = scorer(py, (input, machine), baseline, metric, &mut options)?;
    let (seeds, threads) = (options.seeds()?, options.threads()?);
    options.finish("score")?;
    detached(py, threads, |runner, note| scorer.score(&policy, &seeds, runner, note)).map(PyScore)
}
