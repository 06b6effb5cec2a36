// SPDX-License-Identifier: GPL-2.0-or-later
//! The comparison as JSON: docs/schema/compare.schema.json.
//!
//! Every run is there as the simulator left it, histograms as buckets. Values carry the names of their policy and
//! machine, and their seed. Keys have a fixed order, undefined numbers are null.
//!
//! The scenario is there if it is asked for, because the programs of a recording's tasks are larger than all else. What
//! the policies share of it (machine, workload, limit) is there once, and a policy that ran on another machine has that
//! one; with the axes and the host of any of the policies it is a whole [`Scenario`], which [`read_scenarios`] puts
//! together again.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use wakelab_machine::Machine;
use wakelab_policy::PolicySpec;
use wakelab_sim::{Histogram, HostProfile, LIMIT_EVENTS, NameOutcome, Outcome, Scenario};
use wakelab_workload::Workload;

use crate::comparison::{Comparison, MetricOfPolicy, MetricResult};
use crate::error::ReportError;
use crate::percentile::percentile_ns;
use crate::replay_error::{ReplayErrors, ReplayedOn};
use crate::slowest::SlowWaits;
use crate::uncertainty::Uncertainty;
use crate::verdict::Verdict;
use wakelab_stats::{Direction, Gain, Spread, Unit};

/// Version of all JSON documents. From the first release on, it grows when a key changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// Confidence of all intervals.
pub(crate) const CONFIDENCE_PERCENT: u32 = 95;

/// The meaning of the intervals.
pub(crate) const INTERVAL: &str = "seed spread, not model error";

/// A comparison for programs.
#[derive(Debug, Serialize)]
pub struct CompareDocument<'a> {
    schema_version: u32,
    kind: &'static str,
    interval: &'static str,
    confidence_percent: u32,
    workload: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scenario: Option<SharedScenario<'a>>,
    recording: Option<Value>,
    replay_check: Option<&'a ReplayedOn>,
    seeds: &'a [u64],
    #[serde(skip_serializing_if = "Option::is_none")]
    uncertainty: Option<&'a Uncertainty>,
    verdicts: Vec<Verdict>,
    metrics: Vec<MetricDocument<'a>>,
    waiting: Vec<WaitingDocument<'a>>,
    blocked: Vec<WaitingDocument<'a>>,
    policies: Vec<PolicyDocument<'a>>,
}

#[derive(Debug, Serialize)]
struct SharedScenario<'a> {
    machine: &'a Machine,
    workload: &'a Workload,
    limit_ns: u64,
    limit_events: u64,
}

#[derive(Debug, Serialize)]
struct MetricDocument<'a> {
    name: &'a str,
    unit: Unit,
    direction: Direction,
    replay_error_percent: Option<f64>,
    policies: Vec<ValuesDocument<'a>>,
}

/// A metric of one policy on one machine.
#[derive(Debug, Serialize)]
pub(crate) struct ValuesDocument<'a> {
    policy: &'a str,
    machine: &'a str,
    values: Vec<SeedValue>,
    #[serde(serialize_with = "number")]
    mean: Option<f64>,
    #[serde(flatten)]
    gain: Gain,
    #[serde(skip_serializing_if = "Option::is_none")]
    uncertainty: Option<Spread>,
}

/// A metric of runs whose policy and machine stand above it.
#[derive(Debug, Serialize)]
pub(crate) struct ResultDocument {
    values: Vec<SeedValue>,
    #[serde(serialize_with = "number")]
    mean: Option<f64>,
    #[serde(flatten)]
    gain: Gain,
}

impl ResultDocument {
    /// Returns what was found with these seeds, in their order.
    pub(crate) fn new(seeds: &[u64], found: &MetricOfPolicy) -> ResultDocument {
        ResultDocument { values: seed_values(seeds, &found.values), mean: found.mean, gain: found.gain }
    }
}

/// A value, and the seed that it belongs to.
#[derive(Debug, Serialize)]
pub(crate) struct SeedValue {
    seed: u64,
    #[serde(serialize_with = "number")]
    value: Option<f64>,
}

/// Names the seed of each value; both have the same order.
pub(crate) fn seed_values(seeds: &[u64], values: &[Option<f64>]) -> Vec<SeedValue> {
    seeds.iter().zip(values).map(|(&seed, &value)| SeedValue { seed, value }).collect()
}

/// A cause of waiting, or all of it.
#[derive(Debug, Serialize)]
struct WaitingDocument<'a> {
    name: String,
    unit: Unit,
    direction: Direction,
    policies: Vec<ValuesDocument<'a>>,
}

#[derive(Debug, Serialize)]
struct PolicyDocument<'a> {
    name: &'a str,
    machine: &'a str,
    cpus: usize,
    policy: &'a PolicySpec,
    host: HostProfile,
    /// Only if the scenario is there, and only what is not that of all.
    #[serde(skip_serializing_if = "OwnScenario::is_empty")]
    scenario: OwnScenario<'a>,
    time_percent: BTreeMap<&'a str, Option<f64>>,
    reasons_percent: BTreeMap<&'a str, f64>,
    affine_reasons_percent: BTreeMap<&'a str, f64>,
    /// Behind whom the judged tasks waited, and for how long in a run.
    waited_behind_ns: BTreeMap<String, u64>,
    /// Whose waiting the judged tasks paid for while they were blocked, and how much in a run.
    blocked_on_waiting_of_ns: BTreeMap<String, u64>,
    runs: Vec<RunDocument<'a>>,
}

/// What a policy does not share with the others.
#[derive(Debug, Default, Serialize)]
struct OwnScenario<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<&'a Machine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workload: Option<&'a Workload>,
}

impl<'a> OwnScenario<'a> {
    fn new(own: &'a Scenario, first: &'a Scenario) -> OwnScenario<'a> {
        OwnScenario {
            machine: (own.machine != first.machine).then_some(&*own.machine),
            workload: (own.workload != first.workload).then_some(&*own.workload),
        }
    }

    fn is_empty(&self) -> bool {
        self.machine.is_none() && self.workload.is_none()
    }
}

#[derive(Debug, Serialize)]
struct RunDocument<'a> {
    seed: u64,
    wakeup_latency: PercentilesDocument,
    queue_delay: PercentilesDocument,
    tasks: Vec<NameDocument<'a>>,
    /// The longest waits, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    slowest: Option<SlowWaits<'a>>,
    outcome: &'a Outcome,
    task_cpu_times: Vec<TaskDocument<'a>>,
}

/// The CPU time of one task.
#[derive(Debug, Serialize)]
struct TaskDocument<'a> {
    task: usize,
    comm: &'a str,
    cpu_time_ns: u64,
}

impl<'a> RunDocument<'a> {
    fn new(outcome: &'a Outcome, workload: &'a Workload) -> RunDocument<'a> {
        let waits = outcome.waits.as_ref().filter(|waits| !waits.longest.is_empty());
        let times = workload.tasks.iter().zip(&outcome.task_cpu_time_ns).enumerate();
        RunDocument {
            seed: outcome.seed,
            wakeup_latency: PercentilesDocument::new(&outcome.wakeup_latency),
            queue_delay: PercentilesDocument::new(&outcome.queue_delay),
            tasks: outcome.by_name.iter().map(NameDocument::new).collect(),
            slowest: waits.map(SlowWaits::new),
            outcome,
            task_cpu_times: times
                .map(|(task, (of, &cpu_time_ns))| TaskDocument { task, comm: &of.name, cpu_time_ns })
                .collect(),
        }
    }
}

/// The judged tasks of one name.
#[derive(Debug, Serialize)]
struct NameDocument<'a> {
    comm: &'a str,
    tasks: u64,
    cpu_time_ns: u64,
    done_ns: Option<u64>,
    wakeups: u64,
    wakeup_latency: PercentilesDocument,
    run_delay: PercentilesDocument,
}

impl<'a> NameDocument<'a> {
    fn new(name: &'a NameOutcome) -> NameDocument<'a> {
        NameDocument {
            comm: &name.name,
            tasks: name.tasks,
            cpu_time_ns: name.cpu_time_ns,
            done_ns: name.done_ns,
            wakeups: name.wakeup_latency.count,
            wakeup_latency: PercentilesDocument::new(&name.wakeup_latency),
            run_delay: PercentilesDocument::new(&name.run_delay),
        }
    }
}

#[derive(Debug, Serialize)]
struct PercentilesDocument {
    p50_ns: Option<u64>,
    p95_ns: Option<u64>,
    p99_ns: Option<u64>,
    p99_9_ns: Option<u64>,
}

impl PercentilesDocument {
    fn new(histogram: &Histogram) -> PercentilesDocument {
        let at = |permille| percentile_ns(histogram, permille);
        PercentilesDocument { p50_ns: at(500), p95_ns: at(950), p99_ns: at(990), p99_9_ns: at(999) }
    }
}

impl Comparison<'_> {
    /// Returns the comparison as a document; serialise it with serde_json. `recording` is what the importer reports
    /// about the recording that was replayed.
    pub fn document(&self, recording: Option<Value>) -> CompareDocument<'_> {
        let errors = self.replay_errors.as_ref();
        let metrics = self.metrics.iter().map(|found| MetricDocument {
            name: &found.name,
            unit: found.unit,
            direction: found.direction,
            replay_error_percent: errors.and_then(|errors| errors.percent(&found.name)),
            policies: self.labelled(&found.policies),
        });
        let of_waits = |found: MetricResult| {
            let policies = self.labelled(&found.policies);
            let MetricResult { name, unit, direction, .. } = found;
            WaitingDocument { name, unit, direction, policies }
        };
        CompareDocument {
            schema_version: SCHEMA_VERSION,
            kind: "compare",
            interval: INTERVAL,
            confidence_percent: CONFIDENCE_PERCENT,
            workload: &self.scenarios[0].workload.name,
            scenario: None,
            recording,
            replay_check: errors.map(|errors| &errors.of),
            seeds: &self.seeds,
            uncertainty: self.uncertainty.as_ref(),
            verdicts: self.verdicts(),
            metrics: metrics.collect(),
            waiting: self.waiting().into_iter().map(of_waits).collect(),
            blocked: self.blocked().into_iter().map(of_waits).collect(),
            policies: (0..self.policies.len()).map(|policy| self.policy_document(policy)).collect(),
        }
    }

    /// Returns the same with the scenarios, so that [`read_scenarios`] can read them again.
    pub fn document_with_scenario(&self, recording: Option<Value>) -> CompareDocument<'_> {
        let mut document = self.document(recording);
        let first = &self.scenarios[0];
        document.scenario = Some(SharedScenario {
            machine: &first.machine,
            workload: &first.workload,
            limit_ns: first.limit_ns,
            limit_events: first.limit_events,
        });
        for (policy, scenario) in document.policies.iter_mut().zip(self.scenarios) {
            policy.scenario = OwnScenario::new(scenario, first);
        }
        document
    }

    fn policy_document(&self, index: usize) -> PolicyDocument<'_> {
        let (result, scenario) = (&self.policies[index], &self.scenarios[index]);
        let behind = self.behind_ns(index).into_iter();
        PolicyDocument {
            name: &result.name,
            machine: &scenario.machine.name,
            cpus: scenario.machine.topology.nr_cpus(),
            policy: &scenario.policy,
            host: scenario.host,
            scenario: OwnScenario::default(),
            time_percent: result.time_percent.iter().copied().collect(),
            reasons_percent: by_name(&result.reasons_percent),
            affine_reasons_percent: by_name(&result.affine_reasons_percent),
            blocked_on_waiting_of_ns: self.waiting_of_names(index),
            waited_behind_ns: behind.map(|(name, ns)| (name, ns.round() as u64)).collect(),
            runs: result
                .outcomes
                .iter()
                .map(|outcome| RunDocument::new(outcome, &scenario.workload))
                .collect(),
        }
    }

    /// Returns values with the names of their policies and machines, and with their seeds.
    pub(crate) fn labelled(&self, found: &[MetricOfPolicy]) -> Vec<ValuesDocument<'_>> {
        let mut all = Vec::new();
        for ((policy, scenario), found) in self.policies.iter().zip(self.scenarios).zip(found) {
            all.push(ValuesDocument {
                policy: &policy.name,
                machine: &scenario.machine.name,
                values: seed_values(&self.seeds, &found.values),
                mean: found.mean,
                gain: found.gain,
                uncertainty: found.spread.clone(),
            });
        }
        all
    }
}

fn by_name(shares: &[(String, f64)]) -> BTreeMap<&str, f64> {
    shares.iter().map(|(name, share)| (name.as_str(), *share)).collect()
}

/// Returns the scenarios in a comparison's JSON, one for each policy, and the seeds to run them with again.
///
/// # Errors
/// The text is not a comparison of this schema version.
pub fn read_scenarios(json: &str) -> Result<(Vec<Scenario>, Vec<u64>), ReportError> {
    #[derive(Deserialize)]
    struct Version {
        schema_version: u32,
        kind: String,
    }
    #[derive(Deserialize)]
    struct Document {
        scenario: Option<Shared>,
        seeds: Vec<u64>,
        policies: Vec<Policy>,
    }
    #[derive(Deserialize)]
    struct Shared {
        machine: Arc<Machine>,
        workload: Arc<Workload>,
        limit_ns: u64,
        #[serde(default = "limit_events")]
        limit_events: u64,
    }
    fn limit_events() -> u64 {
        LIMIT_EVENTS
    }
    #[derive(Deserialize)]
    struct Policy {
        policy: PolicySpec,
        host: HostProfile,
        #[serde(default)]
        scenario: Own,
    }
    #[derive(Default, Deserialize)]
    struct Own {
        machine: Option<Arc<Machine>>,
        workload: Option<Arc<Workload>>,
    }
    let refuse = |message: String| ReportError::Document { expected: SCHEMA_VERSION, message };
    let version: Version = serde_json::from_str(json).map_err(|error| refuse(error.to_string()))?;
    if version.schema_version != SCHEMA_VERSION || version.kind != "compare" {
        return Err(refuse(format!("found '{}' of version {}", version.kind, version.schema_version)));
    }
    let document: Document = serde_json::from_str(json).map_err(|error| refuse(error.to_string()))?;
    let Some(shared) = document.scenario else {
        return Err(refuse("it has no `scenario`; make it with --with-scenario".to_owned()));
    };
    let Shared { machine, workload, limit_ns, limit_events } = shared;
    let scenarios = document
        .policies
        .into_iter()
        .map(|Policy { policy, host, scenario: own }| Scenario {
            machine: own.machine.unwrap_or_else(|| machine.clone()),
            workload: own.workload.unwrap_or_else(|| workload.clone()),
            policy,
            host,
            limit_ns,
            limit_events,
        })
        .collect();
    Ok((scenarios, document.seeds))
}

/// Returns the errors of replays in a comparison's JSON that [`read_scenarios`] accepts; `None` if it has none.
///
/// # Errors
/// The text is not such a comparison.
pub fn read_replay_errors(json: &str) -> Result<Option<ReplayErrors>, ReportError> {
    #[derive(Deserialize)]
    struct Document {
        replay_check: Option<ReplayedOn>,
        metrics: Vec<Metric>,
    }
    #[derive(Deserialize)]
    struct Metric {
        name: String,
        replay_error_percent: Option<f64>,
    }
    let refuse = |error: serde_json::Error| ReportError::Document {
        expected: SCHEMA_VERSION,
        message: error.to_string(),
    };
    let Document { replay_check, metrics } = serde_json::from_str(json).map_err(refuse)?;
    let Some(of) = replay_check else { return Ok(None) };
    let error = |metric: Metric| Some((metric.name, metric.replay_error_percent?));
    Ok(Some(ReplayErrors { of, percent: metrics.into_iter().filter_map(error).collect() }))
}

/// Writes a number: without a fraction if it has none, null if it is not finite.
pub(crate) fn number<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    Number(*value).serialize(serializer)
}

/// Writes each number as [`number`] does.
pub(crate) fn numbers<S: Serializer>(values: &[Option<f64>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|value| Number(*value)))
}

struct Number(Option<f64>);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// Integers up to here are exact.
        const EXACT_MAX: f64 = (1_u64 << 53) as f64;
        match self.0.filter(|value| value.is_finite()) {
            None => serializer.serialize_none(),
            Some(value) if value.fract() == 0.0 && value.abs() <= EXACT_MAX => {
                serializer.serialize_i64(value as i64)
            }
            Some(value) => serializer.serialize_f64(value),
        }
    }
}
