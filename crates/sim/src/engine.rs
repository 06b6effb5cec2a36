// SPDX-License-Identifier: GPL-2.0-or-later
//! The simulated kernel's clock: takes events in order of time and lets CPUs carry on.
//!
//! The kernel's paths are in files of their own, each an `impl Engine`: cpu.rs (segments and SMT), cache.rs (cache
//! refill), counters.rs (shared counters), transfers.rs (lines that the policy reads and writes), runqueue_lock.rs
//! (runqueue locks), wake.rs (wake-ups and notifying), schedule.rs (dispatch, pull, switch), interrupt.rs (interrupts
//! and ticks), ops.rs (programs), lock.rs, barrier.rs, exec.rs and stream.rs (memory.rs has the shares). The policy is
//! asked for every decision; nothing here places or balances.

use wakelab_machine::{Costs, Distances, Machine};
use wakelab_policy::{Policy, TASK_NEW, Tables, Timer};
use wakelab_workload::{End, Op, Workload};

use crate::accounting::Tally;
use crate::barrier::Barrier;
use crate::channel::Channel;
use crate::checker::Checker;
use crate::counters;
use crate::cpu::{Core, Cpu, Doing, Kind, NONE, Todo, UNITS};
use crate::error::SimError;
use crate::host::Faults;
use crate::idle_runnable::IdleRunnable;
use crate::line::Line;
use crate::lock::Lock;
use crate::memory::Memory;
use crate::observer::Observer;
use crate::outcome::{Ending, Outcome};
use crate::queue::{Event, EventQueue, TIME_NS_MAX};
use crate::rng::{Purpose, Stream};
use crate::runqueue::RunQueue;
use crate::scenario::{HostProfile, Scenario};
use crate::task::{Life, Record, Stage, Task};

/// Segments and operations at one instant before a run is given up.
const STEPS_WITHOUT_TIME_MAX: u64 = 1 << 24;
/// A kick that takes longer than so many ticks, and than any kernel path, is lost.
const KICK_TICKS_MAX: u64 = 4;

pub(crate) struct Gate {
    pub(crate) open: bool,
    pub(crate) waiting: Vec<u32>,
}

/// A one-shot signal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Unset,
    Raised,
    Awaited(u32),
}

pub(crate) struct Engine<'a, O: Observer + ?Sized> {
    pub(crate) workload: &'a Workload,
    pub(crate) costs: &'a Costs,
    pub(crate) host: HostProfile,
    /// A search claims the CPU that it chose.
    pub(crate) claims: bool,
    pub(crate) distances: Distances,
    pub(crate) observer: &'a mut O,
    pub(crate) policy: Policy,
    pub(crate) now_ns: u64,
    pub(crate) queue: EventQueue,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) cores: Vec<Core>,
    pub(crate) runqueues: Vec<RunQueue>,
    pub(crate) tasks: Vec<Task<'a>>,
    /// The policy's record of each task.
    pub(crate) records: Vec<Record>,
    /// Of the policy; see counters.rs.
    pub(crate) counters: Vec<Line>,
    pub(crate) channels: Vec<Channel>,
    pub(crate) signals: Vec<Signal>,
    pub(crate) gates: Vec<Gate>,
    pub(crate) locks: Vec<Lock>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) memory: Memory,
    pub(crate) tally: Tally,
    pub(crate) idle_runnable: IdleRunnable,
    pub(crate) checker: Checker,
    pub(crate) faults: Faults,
    pub(crate) failure: Option<SimError>,
    /// What groups received from tasks that have left them.
    pub(crate) group_time_ns: Vec<u64>,
    /// What the policy answered to its timer last.
    pub(crate) policy_timer: Timer,
    /// Tasks that exist or will start, and have not exited.
    pub(crate) alive: u64,
    steps: u64,
    steps_since_ns: u64,
    last_task: u32,
}

impl<'a, O: Observer + ?Sized> Engine<'a, O> {
    /// The scenario must have passed [`crate::validate::check`].
    pub(crate) fn new(
        scenario: &'a Scenario,
        seed: u64,
        observer: &'a mut O,
    ) -> Result<Engine<'a, O>, SimError> {
        let (machine, workload) = (&scenario.machine, &scenario.workload);
        let (topology, costs) = (&machine.topology, &machine.costs);
        let (nr_cpus, nr_tasks) = (topology.nr_cpus(), workload.tasks.len());
        let nr_slots = if workload.groups.is_empty() { 0 } else { workload.groups.len() + 1 };
        let tables = Tables::build(topology, &scenario.policy)?;
        let policy = Policy::with_groups(&scenario.policy, tables, costs.tick_period_ns, nr_slots)?;
        let core_of: Vec<u32> = dense(topology.cpus.iter().map(|cpu| cpu.core));
        let mut core_cpus = vec![Vec::new(); core_of.iter().max().map_or(0, |&last| last as usize + 1)];
        for (cpu, &core) in core_of.iter().enumerate() {
            core_cpus[core as usize].push(cpu as u32);
        }
        let cpus = topology.cpus.iter().zip(&core_of).enumerate().map(|(number, (cpu, &core))| {
            let phase =
                Stream::new(seed, Purpose::TickPhase, number as u32).between(0, costs.tick_period_ns - 1);
            Cpu::new(core, cpu.capacity, cpu.llc, phase)
        });
        let programs = programs(workload);
        let tasks = workload.tasks.iter().zip(programs).enumerate().map(|(number, (spec, program))| Task {
            program,
            innermost: None,
            outer_loops: Vec::new(),
            pc: 0,
            life: Life::Unborn,
            stage: Stage::Begin,
            remaining: 0,
            kind: Kind::Work,
            tail: 0,
            tail_kind: Kind::Work,
            retries: false,
            woken: false,
            limited: spec.allowed.as_ref().is_some_and(|allowed| allowed.len() < nr_cpus),
            joining: false,
            cpu: spec.last_cpu.unwrap_or(0),
            ran: spec.last_cpu.is_some(),
            refill: 0,
            waits_since_ns: 0,
            runs_since_ns: 0,
            cpu_time_ns: 0,
            slice_ns: 0,
            slice_since_ns: 0,
            bytes: 0,
            round: 0,
            work_left: 0,
            home: NONE,
            is_cold: false,
            children: 0,
            process: spec.process,
            group: None,
            group_since_ns: 0,
            random: Stream::new(seed, Purpose::Compute, number as u32),
        });
        let gates = (0..workload.gates).map(|_| Gate { open: false, waiting: Vec::new() });
        Ok(Engine {
            workload,
            costs,
            host: scenario.host,
            claims: scenario.host.claims(scenario.policy.traits()),
            distances: topology.distances(),
            observer,
            counters: counters::lines(&policy),
            policy,
            now_ns: 0,
            queue: EventQueue::new(nr_cpus as u32, nr_tasks as u32),
            cpus: cpus.collect(),
            cores: core_cpus.into_iter().map(Core::new).collect(),
            runqueues: (0..nr_cpus).map(|_| RunQueue::default()).collect(),
            tasks: tasks.collect(),
            records: vec![Record::default(); nr_tasks],
            channels: workload.channels.iter().map(|&spec| Channel::new(spec)).collect(),
            signals: vec![Signal::Unset; workload.signals as usize],
            gates: gates.collect(),
            locks: workload.locks.iter().map(|&spec| Lock::new(spec)).collect(),
            barriers: workload.barriers.iter().map(|&spec| Barrier::new(spec)).collect(),
            memory: Memory::new(machine),
            tally: Tally::new(),
            idle_runnable: IdleRunnable::new(nr_cpus),
            checker: Checker::new(nr_cpus, nr_tasks, kick_ns_max(&scenario.machine)),
            faults: Faults::default(),
            failure: None,
            group_time_ns: vec![0; workload.groups.len()],
            policy_timer: Timer::default(),
            alive: 0,
            steps: 0,
            steps_since_ns: 0,
            last_task: NONE,
        })
    }

    pub(crate) fn run(mut self, limit_ns: u64, seed: u64) -> Result<Outcome, SimError> {
        let ending = self.simulate(limit_ns)?;
        self.finish(ending, seed)
    }

    /// From boot to the end.
    pub(crate) fn simulate(&mut self, limit_ns: u64) -> Result<Ending, SimError> {
        self.boot();
        let (stop_ns, stopped) = match self.workload.end {
            End::After { duration_ns } if duration_ns <= limit_ns => (duration_ns, Ending::Completed),
            _ => (limit_ns.min(TIME_NS_MAX), Ending::LimitReached),
        };
        loop {
            match self.queue.next() {
                Some((time_ns, _)) if time_ns > stop_ns => {
                    self.now_ns = stop_ns;
                    return Ok(stopped);
                }
                // The policy's timer alone wakes nobody.
                Some((_, Event::PolicyTimer)) if self.queue.has_policy_timer_at_most() => {
                    return Ok(self.dried_up(stop_ns));
                }
                None => return Ok(self.dried_up(stop_ns)),
                Some((time_ns, event)) => self.take_event(time_ns, event),
            }
            if let Some(error) = self.error() {
                return Err(error);
            }
            if self.alive == 0 && self.workload.end == End::AllExited {
                return Ok(Ending::Completed);
            }
        }
    }

    /// Time 0: everything idles; tasks without a parent have their start before them.
    fn boot(&mut self) {
        for cpu in 0..self.cpus.len() as u32 {
            self.policy.set_idle_mask(cpu, true);
            self.idle_runnable.set_idle(cpu, true, 0);
        }
        self.init_groups();
        for (task, spec) in self.workload.tasks.iter().enumerate() {
            if spec.parent.is_none() {
                self.alive += 1;
                self.init_record(task as u32);
                self.queue.set_timer(task as u32, spec.start_ns);
            }
        }
        self.start_policy_timer();
    }

    pub(crate) fn init_record(&mut self, task: u32) {
        let spec = &self.workload.tasks[task as usize];
        let record = &mut self.records[task as usize];
        self.policy.task_init(record, u64::from(task) + 1, spec.weight, TASK_NEW);
        self.policy.set_affinity(record, spec.allowed.as_deref());
        self.init_group(task);
    }

    fn take_event(&mut self, time_ns: u64, event: Event) {
        if time_ns > self.now_ns {
            self.steps_since_ns = self.steps;
        }
        self.now_ns = time_ns;
        self.checker.clock(time_ns);
        match event {
            Event::SegmentEnd(cpu) => {
                self.settle(cpu);
                self.step(cpu);
                self.go(cpu);
            }
            Event::Ipi(cpu) => {
                self.checker.kick_arrived(cpu);
                self.cpus[cpu as usize].ipi_pending = true;
                self.interrupt(cpu);
            }
            Event::Timer(task) if self.tasks[task as usize].life == Life::Unborn => self.start(task),
            Event::Timer(task) => {
                let cpu = self.tasks[task as usize].cpu;
                self.cpus[cpu as usize].timers.push_back(task);
                self.interrupt(cpu);
            }
            Event::Tick(cpu) => {
                self.queue.set_tick(cpu, time_ns + self.costs.tick_period_ns);
                self.cpus[cpu as usize].tick_pending = true;
                self.interrupt(cpu);
            }
            Event::PolicyTimer => self.policy_timer_fires(),
        }
        let policy = &self.policy;
        self.checker.event_over(|cpu| policy.idle_mask(cpu));
    }

    /// The effect of what the CPU did, which sets what it does next.
    pub(crate) fn step(&mut self, cpu: u32) {
        match self.cpus[cpu as usize].doing {
            Doing::Idle => self.checker.fail(format!("CPU {cpu}: idling ended by itself")),
            Doing::IdleExit | Doing::Kernel => self.next(cpu),
            Doing::Task => self.task_segment_over(cpu),
            Doing::Select => self.selected(cpu),
            Doing::SelectExec => self.exec_placed(cpu),
            Doing::Push => self.pushed(cpu),
            Doing::Wakeup => self.wakeup_over(cpu),
            Doing::SendIpi => self.ipi_sent(cpu),
            Doing::HandleIpi => self.ipi_handled(cpu),
            Doing::Interrupt => self.interrupt_handled(cpu),
            Doing::Tick => self.tick_over(cpu),
            Doing::PolicyTimer => self.policy_timer_over(cpu),
            Doing::Balance | Doing::TickBalance => self.balanced(cpu),
        }
    }

    /// What the CPU does when the kernel path that it was in is done: what is pending, in a fixed order, else its task.
    pub(crate) fn next(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        match c.todo.front() {
            Some(Todo::Send(_)) => {
                c.set(Doing::SendIpi, Kind::Ipi, self.costs.ipi_send_ns * UNITS);
                return;
            }
            Some(&Todo::Queue(wakeup)) => {
                c.todo.pop_front();
                c.wakeup = wakeup;
                self.begin_wakeup(cpu);
                return;
            }
            Some(&Todo::Wake(wakee, flags)) => {
                c.todo.pop_front();
                self.start_wakeup(cpu, wakee, flags);
                return;
            }
            None => {}
        }
        if c.scheduling {
            self.choose(cpu);
            return;
        }
        if c.interrupted && self.take_interrupt(cpu) {
            return;
        }
        let c = &self.cpus[cpu as usize];
        if c.need_resched {
            self.schedule(cpu);
        } else if c.curr != NONE {
            self.resume(cpu);
        } else {
            self.idle(cpu);
        }
    }

    /// Counts a step. Answers no, and fails the run, if too many were made at one instant.
    pub(crate) fn take_step(&mut self) -> bool {
        self.steps += 1;
        if self.steps - self.steps_since_ns <= STEPS_WITHOUT_TIME_MAX {
            return true;
        }
        let steps = self.steps - self.steps_since_ns;
        self.failure.get_or_insert(SimError::NoProgress { steps, at_ns: self.now_ns, task: self.last_task });
        false
    }

    pub(crate) fn executes(&mut self, task: u32) {
        self.last_task = task;
    }

    fn error(&mut self) -> Option<SimError> {
        let broken = self
            .checker
            .failure()
            .map(|(at_ns, what)| SimError::Invariant { at_ns: *at_ns, what: what.clone() });
        self.failure.take().or(broken)
    }

    /// Nothing is pending any more.
    fn dried_up(&mut self, stop_ns: u64) -> Ending {
        if self.alive > 0 {
            return Ending::Deadlock { waiting: self.alive };
        }
        // All have exited before the time was over: the machine idles until then.
        self.now_ns = stop_ns;
        Ending::Completed
    }

    fn finish(mut self, ending: Ending, seed: u64) -> Result<Outcome, SimError> {
        self.checker.clock(self.now_ns);
        for cpu in 0..self.cpus.len() as u32 {
            self.settle(cpu);
        }
        let finished = matches!(ending, Ending::Deadlock { .. }) || self.alive == 0;
        self.check_policy_charges();
        let policy = &self.policy;
        self.checker.run_over(self.now_ns, finished, |cpu| policy.idle_mask(cpu));
        if let Some(error) = self.error() {
            return Err(error);
        }
        for cpu in &self.cpus {
            if cpu.curr != NONE {
                let task = &mut self.tasks[cpu.curr as usize];
                task.cpu_time_ns += self.now_ns - task.runs_since_ns;
            }
        }
        Ok(self.outcome(ending, seed))
    }
}

/// The longest that a kick may be on its way: some ticks, and more than any path of the sender may take.
fn kick_ns_max(machine: &Machine) -> u64 {
    let (topology, costs) = (&machine.topology, &machine.costs);
    let line_ps: u64 = costs.line_transfer_ps.iter().sum();
    let reads_ns = (line_ps * (topology.nr_cpus() as u64 + 8)).div_ceil(1000);
    let locks_ns = 2 * costs.runqueue_lock_ns * topology.nr_cpus() as u64;
    let farthest_ps = costs.line_transfer_ps.iter().max().unwrap_or(&0);
    let counters_ns = (2 * (costs.atomic_ps + farthest_ps) * topology.nr_cpus() as u64).div_ceil(1000);
    let path_ns = costs.wakeup_ns
        + costs.balance_ns
        + costs.switch_process_ns
        + costs.ipi_send_ns
        + 2 * reads_ns
        + locks_ns
        + counters_ns;
    let capacity = topology.cpus.iter().map(|cpu| cpu.capacity).min().unwrap_or(1);
    let slowest = u64::from((capacity * costs.smt_speed.last().unwrap_or(&1) / UNITS as u32).max(1));
    let flight_ns = costs.ipi_flight_ns.iter().max().unwrap_or(&0);
    KICK_TICKS_MAX * (costs.tick_period_ns + path_ns * UNITS / slowest + flight_ns)
}

/// The tasks' programs. Equal neighbours, such as the senders of one group of hackbench, share the first one's: what
/// is read the most should be in a cache once.
fn programs(workload: &Workload) -> impl Iterator<Item = &[Op]> {
    let mut last: &[Op] = &[];
    workload.tasks.iter().map(move |spec| {
        if spec.program != last {
            last = &spec.program;
        }
        last
    })
}

/// Numbers values from 0 in the order in which they first come.
pub(crate) fn dense(values: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut seen = std::collections::BTreeMap::new();
    values
        .map(|value| {
            let next = seen.len() as u32;
            *seen.entry(value).or_insert(next)
        })
        .collect()
}
