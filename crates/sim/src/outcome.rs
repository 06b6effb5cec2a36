// SPDX-License-Identifier: GPL-2.0-or-later
//! The result of a run, as plain serialisable data: raw sums and histograms. crates/report computes percentages.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use wakelab_machine::Distance;

use crate::time_use::TimeUse;
use crate::waits::Waits;

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// As the workload's programs say.
    #[default]
    Completed,
    /// The scenario's `limit_ns` came first.
    LimitReached,
    /// Nothing could ever happen again: tasks wait for each other.
    Deadlock {
        /// The number of tasks that wait.
        waiting: u64,
    },
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Wake-ups of blocked tasks, forks excluded.
    pub wakeups: u64,
    /// Tasks started by fork.
    pub forks: u64,
    /// Tasks switched in.
    pub switches_in: u64,
    /// Tasks switched out.
    pub switches_out: u64,
    /// Switches out of a task that was still runnable.
    pub preemptions: u64,
    /// Placement decisions.
    pub selects: u64,
    /// Placement decisions that went past target and prev into a search.
    pub searches: u64,
    /// Reads of other CPUs' state, from SMT siblings on, in these decisions.
    pub search_reads: u64,
    /// Idle CPUs that a search found but another wake-up had claimed.
    pub lost_claims: u64,
    /// Interrupts sent to other CPUs.
    pub ipis: u64,
    /// The number of scheduler ticks.
    pub ticks: u64,
    /// Newly-idle balancing attempts.
    pub newly_idle_balances: u64,
    /// Periodic balancing attempts.
    pub periodic_balances: u64,
    /// Tasks moved by balancing.
    pub pulled: u64,
    /// Running tasks that were told to go elsewhere (active balancing).
    pub pushed: u64,
}

/// A histogram of nanoseconds: hdrhistogram with 3 significant digits, written out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Histogram {
    /// `(highest value of the bucket, number of values in it)`, ascending, without empty buckets.
    pub buckets: Vec<(u64, u64)>,
    /// The number of values.
    pub count: u64,
    /// The largest value, exact.
    pub max_ns: u64,
    /// The sum of all values, exact.
    pub sum_ns: u64,
}

/// The CPU time that a task group received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupTime {
    /// The group's name in the workload.
    pub name: String,
    /// CPU time of its tasks and of all groups in it, in nanoseconds.
    pub cpu_time_ns: u64,
    /// CPU time of its direct tasks while they were in it, in nanoseconds.
    pub own_cpu_time_ns: u64,
    /// How long it was throttled, on all CPUs together; `None` if it has no quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_ns: Option<u64>,
}

/// The judged tasks of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameOutcome {
    /// The name.
    pub name: String,
    /// The number of tasks.
    pub tasks: u64,
    /// CPU time of all of them, in nanoseconds.
    pub cpu_time_ns: u64,
    /// When the last of them ended, since the first judged task ran; `None` if one did not. If some of them are
    /// awaited, the others do not count.
    pub done_ns: Option<u64>,
    /// Times from the start of a wake-up to the switch-in, in the measured part; two digits.
    pub wakeup_latency: Histogram,
    /// Times from becoming runnable in any way to the switch-in, in the measured part; two digits.
    pub run_delay: Histogram,
}

/// Reads of other CPUs' state, by distance.
pub type Reads = [u64; Distance::COUNT];

/// Writes counts with the names of their distances.
fn by_distance<S: Serializer>(reads: &Reads, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(Distance::ALL.map(Distance::name).into_iter().zip(reads))
}

/// The number of idle searches, or of those that reached a step, and the time in them; their mean is time / searches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SearchTime {
    /// The number of searches.
    pub searches: u64,
    /// The time in all of them, at the speed of the CPUs on which they ran.
    pub time_ns: u64,
    /// How many CPUs, counters or blocks they read.
    pub reads: u64,
}

/// Time in the idle searches of wake-ups, by what was read in which step (search.rs).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SearchTimes {
    /// From the look at target to the answer, with the fixed part of the decision; also where target was idle.
    pub whole: SearchTime,
    /// In searches past target and prev: the step that looks for an idle core.
    pub idle_core: SearchTime,
    /// The step that looks for an idle CPU, one by one.
    pub idle_cpu: SearchTime,
    /// The same step, only in searches that had looked for an idle core and found none.
    pub idle_cpu_after_core: SearchTime,
    /// Everything else past target and prev.
    pub rest: SearchTime,
}

/// Work done over time: what was done in each of some equal spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The length of a span.
    pub span_ns: u64,
    /// The number that stands for one unit: 1 where programs count, a million where the nanoseconds of work are counted
    /// because programs count nothing.
    pub unit: u64,
    /// What was done in each span.
    pub units: Vec<u64>,
}

/// The result of one run. The default is a run that completed at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The seed of the run.
    pub seed: u64,
    /// How the run ended.
    pub ending: Ending,
    /// Simulated time at the end.
    pub elapsed_ns: u64,
    /// Length of the measured part.
    pub makespan_ns: u64,
    /// Units counted in the measured part.
    pub units: u64,
    /// Units over time, in the measured part.
    #[serde(skip)]
    pub progress: Progress,
    /// The number of wake-ups of blocked tasks in the measured part.
    #[serde(skip)]
    pub measured_wakeups: u64,
    /// The number of preemptions in the measured part.
    #[serde(skip)]
    pub measured_preemptions: u64,
    /// Times from the start of a wake-up to the switch-in of the wakee.
    pub wakeup_latency: Histogram,
    /// The same times, only of the tasks by which the workload is judged, in the measured part.
    pub judged_latency: Histogram,
    /// Times from becoming runnable in any other way (preempted, forked) to the switch-in.
    pub queue_delay: Histogram,
    /// CPU time during which a CPU idled, unclaimed, while a task allowed there waited behind another task on a busy
    /// CPU.
    pub idle_while_runnable_ns: u64,
    /// Switch-ins of a task on another CPU than the last one, by distance between the two.
    #[serde(serialize_with = "by_distance")]
    pub migrations: Reads,
    /// Reads of placement decisions.
    #[serde(serialize_with = "by_distance")]
    pub select_reads: Reads,
    /// The misses among them: another CPU had written the line since the reader last had it.
    #[serde(serialize_with = "by_distance")]
    pub select_misses: Reads,
    /// Reads of enqueueing (wake-up preemption).
    #[serde(serialize_with = "by_distance")]
    pub enqueue_reads: Reads,
    /// The misses among them.
    #[serde(serialize_with = "by_distance")]
    pub enqueue_misses: Reads,
    /// Reads of balancing.
    #[serde(serialize_with = "by_distance")]
    pub balance_reads: Reads,
    /// The misses among them.
    #[serde(serialize_with = "by_distance")]
    pub balance_misses: Reads,
    /// Times of idle searches.
    pub search_times: SearchTimes,
    /// The number of decisions by reason for the CPU; the names are those of enum wl_reason.
    pub reasons: BTreeMap<String, u64>,
    /// The number of decisions by reason for the target; the names are those of enum wl_affine_reason.
    pub affine_reasons: BTreeMap<String, u64>,
    /// CPU time by kind.
    pub time: TimeUse,
    /// Counts of events.
    pub counts: Counts,
    /// CPU time that each task group received, in the workload's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupTime>,
    /// CPU time that each task received, in the workload's order, in nanoseconds. Documents have it with names.
    #[serde(skip)]
    pub task_cpu_time_ns: Vec<u64>,
    /// The judged tasks by name, in the order in which the workload names them. Documents have percentiles instead.
    #[serde(skip)]
    pub by_name: Vec<NameOutcome>,
    /// How long tasks waited for what; only of runs that account for it. Documents have it in another form.
    #[serde(skip)]
    pub waits: Option<Waits>,
}
