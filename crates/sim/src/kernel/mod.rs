// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's state, and its paths: how tasks run (run.rs), wake-ups (wake.rs, exec.rs), schedule() (schedule.rs,
//! switch.rs, delayed.rs, preempt.rs), interrupts and ticks (interrupt.rs), task groups and the policy's timer
//! (groups.rs), bandwidth control (quota.rs). The paths are methods of the engine, because they act on hardware,
//! programs and ledger. They ask the policy (host.rs) for every decision; nothing here places or balances.

mod bandwidth;
mod clock;
pub(crate) mod cpu;
mod delayed;
mod exec;
mod groups;
pub(crate) mod host;
mod interrupt;
mod preempt;
mod prices;
pub(crate) mod profile;
mod quota;
mod run;
pub(crate) mod runqueue;
mod schedule;
mod switch;
pub(crate) mod thread;
mod wake;

use wakelab_policy::Timer;

use crate::error::SimError;
use crate::kernel::bandwidth::Bandwidth;
use crate::kernel::cpu::Cpu;
use crate::kernel::host::Host;
use crate::kernel::profile::{Faults, Look};
use crate::kernel::runqueue::RunQueue;
use crate::kernel::thread::{Record, Thread};
use crate::rng::{Purpose, Stream as Random};
use crate::scenario::{HostProfile, Scenario};

/// What the kernel knows.
pub(crate) struct Kernel<'a> {
    pub(crate) profile: HostProfile,
    /// Whether a search claims the CPU that it chose.
    pub(crate) claims: bool,
    /// Whether a task that sleeps may stay in its queue.
    pub(crate) delays: bool,
    /// What is looked at before a task preempts.
    pub(crate) looks: Look,
    pub(crate) host: Host<'a>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) runqueues: Vec<RunQueue>,
    pub(crate) threads: Vec<Thread>,
    /// The policy's record of each task.
    pub(crate) records: Vec<Record>,
    /// Bandwidth control, if a group has a quota.
    pub(crate) bandwidth: Option<Bandwidth>,
    /// CPU time that groups received from tasks that have left them.
    pub(crate) group_time_ns: Vec<u64>,
    /// The policy's last answer to its timer.
    pub(crate) policy_timer: Timer,
    /// The number of tasks that exist or will start, and have not exited.
    pub(crate) alive: u64,
    pub(crate) faults: Faults,
}

impl<'a> Kernel<'a> {
    /// The kernel before boot.
    pub(crate) fn new(scenario: &'a Scenario, seed: u64) -> Result<Kernel<'a>, SimError> {
        let nr_cpus = scenario.machine.topology.nr_cpus();
        let tick_period_ns = scenario.machine.costs.tick_period_ns;
        let tick_phase_ns =
            |cpu| Random::new(seed, Purpose::TickPhase, cpu as u32).between(0, tick_period_ns - 1);
        let workload = &scenario.workload;
        let phase_ns =
            |group, period_ns| Random::new(seed, Purpose::QuotaPhase, group).between(0, period_ns - 1);
        let limits = scenario.host.limits_groups();
        let bandwidth = limits.then(|| Bandwidth::new(&workload.groups, nr_cpus, phase_ns)).flatten();
        let host = Host::new(scenario)?;
        let traits = host.traits();
        Ok(Kernel {
            profile: scenario.host,
            claims: scenario.host.claims(traits),
            delays: scenario.host.queues_sleepers() && traits.delays != 0,
            looks: scenario.host.looks(traits),
            host,
            cpus: (0..nr_cpus).map(|cpu| Cpu::new(tick_phase_ns(cpu))).collect(),
            runqueues: (0..nr_cpus).map(|_| RunQueue::default()).collect(),
            threads: workload.tasks.iter().map(|spec| Thread::new(spec, nr_cpus)).collect(),
            records: vec![Record::default(); workload.tasks.len()],
            bandwidth,
            group_time_ns: vec![0; workload.groups.len()],
            policy_timer: Timer::default(),
            alive: 0,
            faults: Faults::default(),
        })
    }
}
