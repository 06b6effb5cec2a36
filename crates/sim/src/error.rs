// SPDX-License-Identifier: GPL-2.0-or-later
//! Errors of a run.

use thiserror::Error;
use wakelab_machine::MachineError;
use wakelab_workload::CheckError;

/// The reason why a run failed. All but [`SimError::Invariant`] are errors in the scenario.
#[derive(Debug, Error)]
pub enum SimError {
    /// The machine is impossible.
    #[error("impossible machine: {0}")]
    Machine(#[from] MachineError),
    /// The workload cannot run on any machine: unbalanced loops, an unknown channel, a gate out of range, an empty
    /// mask.
    #[error("impossible workload: {0}")]
    Workload(#[from] CheckError),
    /// The policy cannot be set up on this machine.
    #[error("impossible policy: {0}")]
    Policy(#[from] wakelab_policy::Error),
    /// A task names a CPU that the machine does not have.
    #[error("task {task} ({name}): {field} names CPU {cpu}; the machine has CPUs 0 to {last}")]
    CpuBeyondMachine {
        /// Index of the task.
        task: u32,
        /// Its name.
        name: String,
        /// `allowed` or `last_cpu`.
        field: &'static str,
        /// The CPU that does not exist.
        cpu: u32,
        /// The machine's last CPU.
        last: u32,
    },
    /// A task streams through the memory of a node that the machine does not have.
    #[error("task {task} ({name}), operation {op}: names node {node}; the machine has nodes 0 to {last}")]
    NodeBeyondMachine {
        /// Index of the task.
        task: u32,
        /// Its name.
        name: String,
        /// Index of the operation.
        op: u32,
        /// The node that does not exist.
        node: u32,
        /// The machine's last node.
        last: u32,
    },
    /// The program did something at run time that no program may.
    #[error("task {task} ({name}), operation {op}: {what}")]
    Program {
        /// Index of the task.
        task: u32,
        /// Its name.
        name: String,
        /// Index of the operation.
        op: u32,
        /// The error, and what was expected.
        what: String,
    },
    /// Too much happened at one instant: the programs loop without using time.
    #[error(
        "{steps} steps at {at_ns} ns without time passing, the last of them task {task}: expected programs that use time"
    )]
    NoProgress {
        /// The number of steps.
        steps: u64,
        /// The simulated time, in nanoseconds.
        at_ns: u64,
        /// The task that was executing.
        task: u32,
    },
    /// The run takes too long to simulate.
    #[error(
        "{events} simulated events by {at_ns} ns of simulated time, which is the limit: expected a shorter run, or a larger --limit-events"
    )]
    TooManyEvents {
        /// The limit.
        events: u64,
        /// The simulated time reached, in nanoseconds.
        at_ns: u64,
    },
    /// The checker found an invariant broken: the simulator or the policy is wrong, not the scenario.
    #[error("invariant broken at {at_ns} ns: {what}")]
    Invariant {
        /// The invariant, and the CPU or task that broke it.
        what: String,
        /// The simulated time, in nanoseconds.
        at_ns: u64,
    },
}
