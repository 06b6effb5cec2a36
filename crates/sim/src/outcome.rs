// SPDX-License-Identifier: GPL-2.0-or-later
//! What a run found out, as plain serialisable data. Raw sums and histograms; percentages are made in crates/report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wakelab_machine::Distance;

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// As the workload says.
    #[default]
    Completed,
    /// The scenario's `limit_ns` came first.
    LimitReached,
    /// Nothing could ever happen again: so many tasks wait for each other.
    Deadlock {
        /// Tasks that wait.
        waiting: u64,
    },
}

/// CPU time by what it was spent on, in nanoseconds summed over all CPUs. The fields add up to CPUs x elapsed time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeUse {
    /// The workload's own work, as it would take with idle SMT siblings and full capacity.
    pub work_ns: u64,
    /// What work and overheads took longer because SMT siblings were busy or the CPU has less capacity.
    pub slowdown_ns: u64,
    /// Waiting for memory: what streaming took longer than its work.
    pub memory_ns: u64,
    /// Refilling caches.
    pub cache_refill_ns: u64,
    /// Fetching messages from the caches of who wrote them.
    pub data_ns: u64,
    /// Protocol work of loopback sockets.
    pub protocol_ns: u64,
    /// Spinning at locks and barriers.
    pub spin_ns: u64,
    /// System calls round locks and barriers that sleep or wake.
    pub futex_ns: u64,
    /// Waiting for runqueue locks that another CPU holds.
    pub runqueue_lock_ns: u64,
    /// Atomic updates of counters that CPUs share.
    pub atomic_ns: u64,
    /// Context switches.
    pub switch_ns: u64,
    /// The fixed part of wake-ups.
    pub wakeup_ns: u64,
    /// Placement decisions: their fixed part and their reads.
    pub select_ns: u64,
    /// Newly-idle and periodic balancing: fixed part and reads.
    pub balance_ns: u64,
    /// Sending and handling interrupts between CPUs.
    pub ipi_ns: u64,
    /// Timer and device interrupts.
    pub interrupt_ns: u64,
    /// Scheduler ticks.
    pub tick_ns: u64,
    /// fork, exec and exit.
    pub fork_exit_ns: u64,
    /// Waking up from idle states.
    pub idle_exit_ns: u64,
    /// Nothing to do.
    pub idle_ns: u64,
}

impl TimeUse {
    /// The sum of all fields.
    pub fn total_ns(&self) -> u64 {
        let TimeUse {
            work_ns,
            slowdown_ns,
            memory_ns,
            cache_refill_ns,
            data_ns,
            protocol_ns,
            spin_ns,
            futex_ns,
            runqueue_lock_ns,
            atomic_ns,
            switch_ns,
            wakeup_ns,
            select_ns,
            balance_ns,
            ipi_ns,
            interrupt_ns,
            tick_ns,
            fork_exit_ns,
            idle_exit_ns,
            idle_ns,
        } = *self;
        let overheads_ns = switch_ns + wakeup_ns + select_ns + balance_ns + ipi_ns + interrupt_ns + tick_ns;
        let sharing_ns =
            memory_ns + cache_refill_ns + data_ns + spin_ns + futex_ns + runqueue_lock_ns + atomic_ns;
        work_ns
            + slowdown_ns
            + protocol_ns
            + sharing_ns
            + overheads_ns
            + fork_exit_ns
            + idle_exit_ns
            + idle_ns
    }
}

/// How often something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Of which went past target and prev into a search.
    pub searches: u64,
    /// Idle CPUs that a search found but another wake-up had claimed.
    pub lost_claims: u64,
    /// Interrupts sent to other CPUs.
    pub ipis: u64,
    /// Ticks.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// `(highest value of the bucket, how many)`, ascending, empty buckets left out.
    pub buckets: Vec<(u64, u64)>,
    /// Number of values.
    pub count: u64,
    /// Largest value, exact.
    pub max_ns: u64,
    /// Sum of all values, exact.
    pub sum_ns: u64,
}

/// What a task group received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupTime {
    /// As in the workload.
    pub name: String,
    /// CPU time of its tasks and of all groups in it, in nanoseconds.
    pub cpu_time_ns: u64,
    /// CPU time of its own tasks, while they were in it.
    pub own_cpu_time_ns: u64,
}

/// Reads of other CPUs' state, by distance.
pub type Reads = [u64; Distance::COUNT];

/// How many idle searches there were, or came to a step, and the time in it; the mean is one by the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchTime {
    /// How many.
    pub searches: u64,
    /// Time in all of them, as the CPUs ran that they ran on.
    pub time_ns: u64,
}

/// Time in the idle searches of wake-ups, by what was read in which step (search.rs).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchTimes {
    /// From the look at target to the answer, and the fixed part of the decision; also if target was idle at once.
    pub whole: SearchTime,
    /// Of those past target and prev, the step that looks for an idle core.
    pub idle_core: SearchTime,
    /// The step that looks for an idle CPU, one by one.
    pub idle_cpu: SearchTime,
    /// That step in the searches that looked for an idle core before, and found none.
    pub idle_cpu_after_core: SearchTime,
    /// All else past target and prev.
    pub rest: SearchTime,
}

/// The result of one run. By default it completed at once, and nothing happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The seed it ran with.
    pub seed: u64,
    /// How it ended.
    pub ending: Ending,
    /// Simulated time at the end.
    pub elapsed_ns: u64,
    /// Length of the measured part.
    pub makespan_ns: u64,
    /// Units counted in the measured part.
    pub units: u64,
    /// From the start of a wake-up to the switch-in of the wakee.
    pub wakeup_latency: Histogram,
    /// Of those, the ones of the tasks that the workload is judged by, in the measured part.
    pub judged_latency: Histogram,
    /// From becoming runnable by any way but a wake-up (preempted, forked) to the switch-in.
    pub queue_delay: Histogram,
    /// CPU time during which a CPU idled, unclaimed, while a task allowed there waited behind another on another CPU.
    pub idle_while_runnable_ns: u64,
    /// Switch-ins of a task on another CPU than the last one, by distance between the two.
    pub migrations: Reads,
    /// Reads of placement decisions.
    pub select_reads: Reads,
    /// Of those, the misses: another CPU had written the line since the reader last had it.
    pub select_misses: Reads,
    /// Reads of enqueueing (wake-up preemption).
    pub enqueue_reads: Reads,
    /// Of those, the misses.
    pub enqueue_misses: Reads,
    /// Reads of balancing.
    pub balance_reads: Reads,
    /// Of those, the misses.
    pub balance_misses: Reads,
    /// How long idle searches took.
    pub search_times: SearchTimes,
    /// Why each CPU was chosen: decisions by reason, by the name of enum wl_reason.
    pub reasons: BTreeMap<String, u64>,
    /// Why each target was chosen, by the name of enum wl_affine_reason.
    pub affine_reasons: BTreeMap<String, u64>,
    /// Where the time went.
    pub time: TimeUse,
    /// How often what happened.
    pub counts: Counts,
    /// CPU time that each task group received, in the workload's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupTime>,
    /// CPU time that each task received, in the workload's order, in nanoseconds.
    pub task_cpu_time_ns: Vec<u64>,
}
