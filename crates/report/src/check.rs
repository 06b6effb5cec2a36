// SPDX-License-Identifier: GPL-2.0-or-later
//! A recording beside its own replay: how far each figure of a replay can be trusted.
//!
//! The replay runs on the recorded machine under the policy nearest to the recorded kernel, so that nothing but the
//! model differs. An error there is the least error of every what-if made from that recording.

use serde::Serialize;
use wakelab_lab::Replay;
use wakelab_machine::printable;
use wakelab_trace::observed::total;
use wakelab_trace::{Observations, Observed, Recording};

use crate::document::SCHEMA_VERSION;
use crate::grid::{Cell, Grid, Row};
use crate::style::{BOLD, GAIN, LOSS, Style, paint};
use crate::table::ending_words;

/// The fewest events that make a count or a percentile worth judging.
const FEWEST: u64 = 20;
/// Rows of the table of tasks, in text.
const TASKS_SHOWN: usize = 10;

/// A recording and its replays, one for each seed.
#[derive(Clone, Debug)]
pub struct Check {
    input: String,
    /// The recording with which the replay is compared, if it is another one.
    against: Option<String>,
    machine: String,
    policy: String,
    /// Which tasks the service is.
    service: String,
    metrics: Vec<CheckedMetric>,
    tasks: Vec<CheckedTasks>,
    /// Why the recordings cannot be trusted.
    warnings: Vec<String>,
    /// What each recording lacks.
    missing: Vec<Missing>,
}

/// What a recording lacks, measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Missing {
    /// The recording.
    pub input: String,
    /// CPU time of all tasks, to compare the next ones with.
    pub cpu_ns: u64,
    /// CPU time that the scheduler does not account to the task that seems to run; it is part of `cpu_ns`.
    pub unaccounted_ns: u64,
    /// Time of CPUs in which it is not known what ran; it is not part of `cpu_ns`.
    pub unseen_ns: u64,
    /// Events that the recorder says it lost.
    pub lost_events: u64,
    /// Wake-ups of all kinds but first ones, to compare those of silent CPUs with.
    pub wakeups: u64,
    /// CPUs that ran tasks and have no events.
    pub silent_cpus: Vec<SilentCpu>,
    /// CPUs whose idle tasks have no events.
    pub silent_idle: Vec<SilentIdle>,
}

/// A CPU that ran tasks and has no events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SilentCpu {
    /// Its number.
    pub cpu: u32,
    /// Wake-ups by which tasks are known to have run there.
    pub wakeups: u64,
}

/// A CPU whose idle task has no events, so that wake-ups by interrupts of the idle CPU were not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SilentIdle {
    /// Its number.
    pub cpu: u32,
    /// How often it left its idle task for another one.
    pub switches: u64,
}

impl Missing {
    fn of(recording: &Recording) -> Missing {
        let explained = &recording.explained;
        let silent = |(&cpu, &wakeups): (&u32, &u64)| SilentCpu { cpu, wakeups };
        let silent_idle = |(&cpu, &switches): (&u32, &u64)| SilentIdle { cpu, switches };
        Missing {
            input: recording.workload.name.clone(),
            cpu_ns: recording.busy_ns,
            unaccounted_ns: explained.unaccounted_ns,
            unseen_ns: explained.unseen_ns,
            lost_events: explained.lost_events,
            wakeups: explained.wakeups,
            silent_cpus: explained.silent_cpus.iter().map(silent).collect(),
            silent_idle: explained.silent_idle.iter().map(silent_idle).collect(),
        }
    }
}

/// Recorded beside replayed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CheckedMetric {
    /// For programs; the unit comes last.
    pub name: &'static str,
    /// What the recording shows; `None` without a sample.
    pub recorded: Option<u64>,
    /// What the replays show: the median over seeds.
    pub replayed: Option<u64>,
    /// How much more the replay has, in percent of the recorded value.
    pub error_percent: Option<f64>,
    /// The replay may have this factor more or less.
    pub tolerance_factor: f64,
    /// Whether it does; `None` where the recording has too little to judge.
    pub within: Option<bool>,
}

/// The tasks of one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckedTasks {
    /// The name.
    pub comm: String,
    /// The number of tasks in the recording.
    pub tasks: u64,
    /// As for the service.
    pub metrics: Vec<CheckedMetric>,
}

/// A check for programs: docs/schema/check.schema.json.
#[derive(Debug, Serialize)]
pub struct CheckDocument<'a> {
    schema_version: u32,
    kind: &'static str,
    input: &'a str,
    against: Option<&'a str>,
    machine: &'a str,
    policy: &'a str,
    service: &'a str,
    seeds: &'a [u64],
    verdict: String,
    warnings: &'a [String],
    missing: &'a [Missing],
    metrics: &'a [CheckedMetric],
    tasks: &'a [CheckedTasks],
}

/// A figure that is checked.
struct Metric {
    name: &'static str,
    label: &'static str,
    unit: Unit,
    /// The replay may have this factor more or less. Written down before any model was fitted.
    tolerance: f64,
    of: Of,
}

#[derive(Clone, Copy)]
enum Unit {
    Ns,
    None,
}

enum Of {
    Number(fn(&Observed) -> u64),
    WakeupLatency(u32),
    RunDelay(u32),
}

const fn count(name: &'static str, label: &'static str, tolerance: f64, of: fn(&Observed) -> u64) -> Metric {
    Metric { name, label, unit: Unit::None, tolerance, of: Of::Number(of) }
}

const fn time(name: &'static str, label: &'static str, tolerance: f64, of: Of) -> Metric {
    Metric { name, label, unit: Unit::Ns, tolerance, of }
}

const METRICS: [Metric; 14] = [
    time("done_ns", "done after", 1.05, Of::Number(|seen| seen.done_ns)),
    time("cpu_ns", "CPU time", 1.05, Of::Number(|seen| seen.cpu_ns)),
    count("wakeups", "wake-ups", 1.2, |seen| seen.wakeups),
    count("switches", "switches", 1.2, |seen| seen.switches),
    count("preemptions", "preemptions", 1.5, |seen| seen.preemptions),
    count("migrations", "migrations", 1.5, |seen| seen.migrations),
    time("wakeup_latency_p50_ns", "wake-up latency p50", 1.5, Of::WakeupLatency(500)),
    time("wakeup_latency_p95_ns", "wake-up latency p95", 1.5, Of::WakeupLatency(950)),
    time("wakeup_latency_p99_ns", "wake-up latency p99", 1.5, Of::WakeupLatency(990)),
    time("wakeup_latency_p999_ns", "wake-up latency p99.9", 1.5, Of::WakeupLatency(999)),
    time("run_delay_p50_ns", "run delay p50", 1.5, Of::RunDelay(500)),
    time("run_delay_p95_ns", "run delay p95", 1.5, Of::RunDelay(950)),
    time("run_delay_p99_ns", "run delay p99", 1.5, Of::RunDelay(990)),
    time("run_delay_p999_ns", "run delay p99.9", 1.5, Of::RunDelay(999)),
];

impl Metric {
    fn value(&self, seen: &Observed) -> Option<u64> {
        match self.of {
            Of::Number(of) => Some(of(seen)),
            Of::WakeupLatency(permille) => percentile(&seen.wakeup_latency_ns, permille),
            Of::RunDelay(permille) => percentile(&seen.run_delay_ns, permille),
        }
    }

    /// Whether the recording has enough to judge the figure by.
    fn is_known(&self, seen: &Observed) -> bool {
        let rest = |permille: u32| u64::from(1000 - permille);
        match self.of {
            Of::Number(of) => matches!(self.unit, Unit::Ns) || of(seen) >= FEWEST,
            Of::WakeupLatency(permille) => {
                seen.wakeup_latency_ns.len() as u64 * rest(permille) >= FEWEST * 500
            }
            Of::RunDelay(permille) => seen.run_delay_ns.len() as u64 * rest(permille) >= FEWEST * 500,
        }
    }

    fn check(&self, recorded: &Observed, replays: &[Observed]) -> CheckedMetric {
        let mut replayed: Vec<u64> = replays.iter().filter_map(|seen| self.value(seen)).collect();
        replayed.sort_unstable();
        let replayed = percentile(&replayed, 500);
        let recorded_value = self.value(recorded);
        let pair = recorded_value.zip(replayed);
        let within = pair.filter(|_| self.is_known(recorded)).map(|(recorded, replayed)| {
            let (recorded, replayed) = (recorded as f64, replayed as f64);
            replayed <= recorded * self.tolerance && recorded <= replayed * self.tolerance
        });
        CheckedMetric {
            name: self.name,
            recorded: recorded_value,
            replayed,
            error_percent: pair
                .filter(|(recorded, _)| *recorded > 0)
                .map(|(recorded, replayed)| (replayed as f64 / recorded as f64 - 1.0) * 100.0),
            tolerance_factor: self.tolerance,
            within,
        }
    }
}

/// Returns the value that at least `permille` thousandths of the ascending `samples` do not exceed.
fn percentile(samples: &[u64], permille: u32) -> Option<u64> {
    let rank = (samples.len() as u64 * u64::from(permille)).div_ceil(1000).max(1);
    samples.get(rank as usize - 1).copied()
}

/// Returns all figures of some tasks.
pub(crate) fn checked(recorded: &Observed, replays: &[Observed]) -> Vec<CheckedMetric> {
    METRICS.iter().map(|metric| metric.check(recorded, replays)).collect()
}

impl Check {
    /// Compares `recording` with its replays on `machine` under `policy`.
    pub fn new(recording: &Recording, replays: &[Observations], machine: &str, policy: &str) -> Check {
        let missing = vec![Missing::of(recording)];
        Check { against: None, missing, ..Check::against(recording, recording, replays, machine, policy) }
    }

    /// Compares replays of `recorded`, which predict what another machine, policy, nice value or set of CPUs makes of
    /// it, with `recording`, where that was tried.
    pub fn against(
        recorded: &Recording,
        recording: &Recording,
        replays: &[Observations],
        machine: &str,
        policy: &str,
    ) -> Check {
        // What is the service in a replay, the replayed recording tells.
        let check = |fits: &dyn Fn(&str) -> bool| {
            let of = |recording: &Recording, seen: &Observations| {
                total(recording.of_service(seen).filter(|(comm, _)| fits(comm)).map(|(_, seen)| seen))
            };
            let replays: Vec<Observed> = replays.iter().map(|replay| of(recorded, replay)).collect();
            checked(&of(recording, &recording.observed), &replays)
        };
        let mut by_cpu: Vec<(&str, &Observed)> = recording.of_service(&recording.observed).collect();
        by_cpu.sort_by_key(|(comm, seen)| (std::cmp::Reverse(seen.cpu_ns), *comm));
        let tasks = by_cpu
            .into_iter()
            .map(|(comm, seen)| CheckedTasks {
                comm: comm.to_owned(),
                tasks: seen.tasks,
                metrics: check(&|other| other == comm),
            })
            .collect();
        let mut warnings: Vec<String> =
            [recorded.warning(), recording.warning()].into_iter().flatten().collect();
        warnings.dedup();
        Check {
            warnings,
            missing: vec![Missing::of(recorded), Missing::of(recording)],
            input: recorded.workload.name.clone(),
            against: Some(recording.workload.name.clone()),
            machine: machine.to_owned(),
            policy: policy.to_owned(),
            service: printable(&recording.service.to_string()).into_owned(),
            metrics: check(&|_| true),
            tasks,
        }
    }

    /// Warns of replays that did not complete. `limit_ns` is the end of their simulated time.
    pub fn warn_of_unfinished(&mut self, replays: &[Replay], limit_ns: u64) {
        let unfinished = |replay: &Replay| {
            let what = ending_words(&replay.ending, limit_ns)?;
            Some(format!("WARNING: the replay with seed {} {what}", replay.seed))
        };
        self.warnings.splice(0..0, replays.iter().filter_map(unfinished));
    }

    /// What the check comes to, in a few sentences: when the service was done, and how many figures are right. Warnings
    /// come first.
    pub fn verdict(&self) -> String {
        let judged = || self.metrics.iter().filter(|metric| metric.within.is_some());
        let good = judged().filter(|metric| metric.within == Some(true)).count();
        let mut text: String = self.warnings.iter().map(|warning| format!("{warning}. ")).collect();
        text.extend(self.done());
        text.push_str(&format!("{good} of {} figures are within their tolerances", judged().count()));
        let off = |metric: &&CheckedMetric| {
            let ratio =
                metric.replayed.unwrap_or(0).max(1) as f64 / metric.recorded.unwrap_or(0).max(1) as f64;
            ratio.max(1.0 / ratio)
        };
        let worst =
            judged().filter(|metric| metric.within == Some(false)).max_by(|a, b| off(a).total_cmp(&off(b)));
        if let Some(worst) = worst {
            text.push_str(&format!("; furthest off: {}", label(worst.name)));
        }
        text.push('.');
        text
    }

    /// When the service was done in the replay and in the recording; `None` if one of them has no service.
    fn done(&self) -> Option<String> {
        let done = self.metrics.iter().find(|metric| metric.name == "done_ns")?;
        let (recorded, replayed) = (done.recorded?, done.replayed?);
        let ms = |ns: u64| format!("{:.1} ms", ns as f64 / 1e6);
        let error = error(done).text;
        let [recorded, replayed] = [recorded, replayed].map(ms);
        Some(format!("the service is done after {replayed}, recorded: {recorded} ({error}). "))
    }

    /// Returns the check for people. Ends in a newline.
    pub fn text(&self, style: &Style) -> String {
        let mut out = style.wrap(&self.sentence());
        out.push('\n');
        let title = format!("The service ({})", self.service);
        out.push_str(&paint(style, BOLD, style.wrap(&title).trim_end()));
        out.push('\n');
        out.push_str(&self.service_grid().text(style));
        out.push('\n');
        let heads = ["tasks", "CPU ms", "done", "wake-ups", "switches", "latency p50", "latency p99"];
        let columns =
            ["cpu_ns", "done_ns", "wakeups", "switches", "wakeup_latency_p50_ns", "wakeup_latency_p99_ns"];
        let rows: Vec<Row> = self.tasks.iter().take(TASKS_SHOWN).map(|tasks| tasks.row(&columns)).collect();
        let title = "By task name: recorded CPU time, and by how much the replay has more or less";
        out.push_str(&Grid { title, heads: heads.map(str::to_owned).into(), rows }.text(style));
        if self.tasks.len() > TASKS_SHOWN {
            out.push_str(&format!("({} more names in --format json)\n", self.tasks.len() - TASKS_SHOWN));
        }
        out
    }

    /// What was replayed where, and what the check comes to.
    pub(crate) fn sentence(&self) -> String {
        format!(
            "{} replayed on {} under {}{}: {}",
            self.input,
            self.machine,
            self.policy,
            self.against.as_ref().map(|truth| format!(", beside {truth}")).unwrap_or_default(),
            self.verdict()
        )
    }

    /// A row for each figure of the service: recorded, replayed, and the error.
    pub(crate) fn service_grid(&self) -> Grid {
        let heads = ["recorded", "replayed", "error", "within"].map(str::to_owned).into();
        let rows = METRICS.iter().zip(&self.metrics).map(|(of, metric)| row(of, metric)).collect();
        Grid { title: "", heads, rows }
    }

    /// Returns the check for programs; `seeds` are those of the replays.
    pub fn document<'a>(&'a self, seeds: &'a [u64]) -> CheckDocument<'a> {
        CheckDocument {
            schema_version: SCHEMA_VERSION,
            kind: "check",
            input: &self.input,
            against: self.against.as_deref(),
            machine: &self.machine,
            policy: &self.policy,
            service: &self.service,
            seeds,
            verdict: self.verdict(),
            warnings: &self.warnings,
            missing: &self.missing,
            metrics: &self.metrics,
            tasks: &self.tasks,
        }
    }
}

impl CheckedTasks {
    fn row(&self, columns: &[&str]) -> Row {
        let of = |name: &str| self.metrics.iter().find(|metric| metric.name == name);
        let cpu_ms = of("cpu_ns").and_then(|metric| metric.recorded).map_or(0.0, |ns| ns as f64 / 1e6);
        let mut cells = vec![plain(self.tasks.to_string()), plain(format!("{cpu_ms:.1}"))];
        let errors = columns[1..].iter().map(|name| of(name).map_or_else(|| plain(String::new()), error));
        cells.extend(errors);
        (self.comm.clone(), "", cells)
    }
}

fn label(name: &str) -> &str {
    METRICS.iter().find(|metric| metric.name == name).map_or(name, |metric| metric.label)
}

fn plain(text: String) -> Cell {
    Cell { text, color: None }
}

fn row(of: &Metric, metric: &CheckedMetric) -> Row {
    let value = |value: Option<u64>| match (value, of.unit) {
        (None, _) => plain("-".to_owned()),
        (Some(value), Unit::None) => plain(value.to_string()),
        (Some(ns), Unit::Ns) => plain(format!("{:.1}", ns as f64 / 1e3)),
    };
    let within = match metric.within {
        Some(true) => "yes".to_owned(),
        Some(false) => format!("no (x{:.2})", metric.tolerance_factor),
        None => "too few".to_owned(),
    };
    let unit = match of.unit {
        Unit::Ns => "us",
        Unit::None => "",
    };
    (
        of.label.to_owned(),
        unit,
        vec![value(metric.recorded), value(metric.replayed), error(metric), plain(within)],
    )
}

/// The error, coloured where it is judged: percent, or a factor where the replay has more than twice as much.
fn error(metric: &CheckedMetric) -> Cell {
    let text = match (metric.error_percent, metric.recorded.zip(metric.replayed)) {
        (Some(percent), _) if percent.abs() < 100.0 => format!("{percent:+.1}%"),
        (Some(percent), _) => format!("x{:.1}", percent / 100.0 + 1.0),
        (None, Some((recorded, replayed))) if recorded == replayed => "=".to_owned(),
        (None, Some((_, replayed))) => format!("+{replayed}"),
        (None, None) => "-".to_owned(),
    };
    let color = metric.within.map(|within| if within { GAIN } else { LOSS });
    Cell { text, color }
}
