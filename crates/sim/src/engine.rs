// SPDX-License-Identifier: GPL-2.0-or-later
//! The engine: takes events in order of time and lets CPUs continue.
//!
//! It has four parts. The *hardware* (hardware/) executes segments; the *programs* (programs/) say what tasks do next;
//! the *kernel* (kernel/) wakes, schedules and takes interrupts, and asks the policy; the *ledger* (ledger/) counts and
//! checks. The kernel's paths are methods of the engine, because they act on all four.

use wakelab_machine::{Costs, Distances};
use wakelab_policy::TASK_NEW;
use wakelab_workload::{End, Workload};

use crate::error::SimError;
use crate::hardware::Hardware;
use crate::hardware::cpu::Doing;
use crate::hardware::queue::{Event, TIME_NS_MAX};
use crate::ids::{NONE, UNITS};
use crate::kernel::Kernel;
use crate::kernel::cpu::Todo;
use crate::kernel::thread::Life;
use crate::ledger::Ledger;
use crate::ledger::checker::Checker;
use crate::ledger::idle_runnable::IdleRunnable;
use crate::ledger::tally::Tally;
use crate::observer::{Activity, Observer};
use crate::outcome::{Ending, Outcome};
use crate::programs::Programs;
use crate::programs::deadlock::LOOK_NS;
use crate::scenario::Scenario;
use crate::time_use::TimeKind;

/// The number of segments and operations at one instant after which a run fails.
const STEPS_WITHOUT_TIME_MAX: u64 = 1 << 24;

/// A simulated machine with a kernel, tasks and a policy.
pub(crate) struct Engine<'a, O: Observer + ?Sized> {
    pub(crate) workload: &'a Workload,
    pub(crate) costs: &'a Costs,
    pub(crate) distances: &'a Distances,
    pub(crate) hardware: Hardware<'a>,
    pub(crate) programs: Programs<'a>,
    pub(crate) kernel: Kernel<'a>,
    pub(crate) ledger: Ledger<'a, O>,
    /// An error of a program, or a run without progress.
    pub(crate) failure: Option<SimError>,
    /// The last task that executed an operation.
    pub(crate) last_task: u32,
    limit_events: u64,
    events_left: u64,
    /// Segments without length and operations since time went on.
    steps: u64,
    /// When a CPU that goes idle looks for tasks that wait for each other.
    look_ns: u64,
}

impl<'a, O: Observer + ?Sized> Engine<'a, O> {
    /// The scenario must have passed [`Scenario::check`]; `distances` are those of its machine.
    pub(crate) fn new(
        scenario: &'a Scenario,
        distances: &'a Distances,
        seed: u64,
        observer: &'a mut O,
    ) -> Result<Engine<'a, O>, SimError> {
        let (machine, workload) = (&*scenario.machine, &*scenario.workload);
        let (nr_cpus, nr_tasks) = (machine.topology.nr_cpus(), workload.tasks.len());
        let hardware = Hardware::new(machine, nr_tasks, seed);
        let nodes = hardware.memory.nodes().to_vec();
        let patience_ns = Checker::patience_ns(machine, scenario.lines_of_cpu());
        Ok(Engine {
            workload,
            costs: &machine.costs,
            distances,
            programs: Programs::new(workload, &machine.costs, distances, nodes, seed),
            hardware,
            kernel: Kernel::new(scenario, seed)?,
            ledger: Ledger {
                tally: Tally::new(&workload.tasks),
                checker: Checker::new(nr_cpus, nr_tasks, patience_ns),
                idle_runnable: IdleRunnable::new(nr_cpus),
                observer,
            },
            failure: None,
            last_task: NONE,
            limit_events: scenario.limit_events,
            events_left: scenario.limit_events.saturating_add(1),
            steps: 0,
            look_ns: if workload.channels.iter().any(|channel| channel.elastic) { 0 } else { u64::MAX },
        })
    }

    /// Runs from boot to the end, and returns what happened.
    pub(crate) fn run(mut self, limit_ns: u64, seed: u64) -> Result<Outcome, SimError> {
        let ending = self.simulate(limit_ns)?;
        self.finish(ending, seed)
    }

    /// Runs from boot to the end. A separate function, because it keeps more in registers without what follows it.
    #[inline(never)]
    pub(crate) fn simulate(&mut self, limit_ns: u64) -> Result<Ending, SimError> {
        self.boot();
        let (stop_ns, stopped) = match self.workload.end {
            End::After { duration_ns } if duration_ns <= limit_ns => (duration_ns, Ending::Completed),
            _ => (limit_ns.min(TIME_NS_MAX), Ending::LimitReached),
        };
        loop {
            match self.hardware.queue.next() {
                // Nearly always.
                Some((time_ns, event @ Event::SegmentEnd(_))) if time_ns <= stop_ns => {
                    self.take_event(time_ns, event);
                }
                Some((time_ns, _)) if time_ns > stop_ns => {
                    self.hardware.now_ns = stop_ns;
                    return Ok(stopped);
                }
                // If only the policy's timer is pending, no task will ever wake.
                Some((time_ns, Event::PolicyTimer)) if self.hardware.queue.has_policy_timer_at_most() => {
                    if !self.relent(time_ns) {
                        return Ok(self.dried_up(stop_ns));
                    }
                    self.take_event(time_ns, Event::PolicyTimer);
                }
                None => {
                    if !self.relent(self.hardware.now_ns) {
                        return Ok(self.dried_up(stop_ns));
                    }
                }
                Some((time_ns, event)) => self.take_event(time_ns, event),
            }
            if self.failure.is_some() || self.ledger.checker.failure().is_some() {
                return Err(self.error().expect("one of the two"));
            }
            self.events_left -= 1;
            if self.events_left == 0 {
                let (events, at_ns) = (self.limit_events, self.hardware.now_ns);
                return Err(SimError::TooManyEvents { events, at_ns });
            }
            if self.kernel.alive == 0 && self.workload.end == End::AllExited {
                return Ok(Ending::Completed);
            }
        }
    }

    /// Time 0: every CPU is idle, and tasks without a parent are about to start.
    fn boot(&mut self) {
        for cpu in 0..self.kernel.cpus.len() as u32 {
            self.set_idle_bit(cpu, true);
        }
        self.init_groups();
        for (task, spec) in self.workload.tasks.iter().enumerate() {
            if spec.parent.is_none() {
                self.kernel.alive += 1;
                self.init_record(task as u32);
                self.hardware.queue.set_timer(task as u32, spec.start_ns);
            }
        }
        self.start_policy_timer();
    }

    /// Tells the policy about a new task.
    pub(crate) fn init_record(&mut self, task: u32) {
        let spec = &self.workload.tasks[task as usize];
        let record = &mut self.kernel.records[task as usize];
        self.kernel.host.task_init(record, u64::from(task) + 1, spec.weight, TASK_NEW);
        self.kernel.host.set_affinity(record, spec.allowed.as_deref());
        if let Some(slice_ns) = spec.slice_ns {
            self.kernel.host.task_slice(record, slice_ns);
        }
        self.init_group(task);
    }

    #[inline(always)]
    fn take_event(&mut self, time_ns: u64, event: Event) {
        if time_ns > self.hardware.now_ns {
            self.steps = 0;
        }
        self.hardware.now_ns = time_ns;
        self.ledger.checker.clock(time_ns);
        // Nine events of ten are the end of a segment.
        if let Event::SegmentEnd(cpu) = event {
            let doing = self.hardware.settle_at_end(cpu, &mut self.ledger.checker);
            self.finish_doing(cpu, doing);
            // Nearly always a segment with a length follows: go() in place.
            let c = &self.hardware.cpus[cpu as usize];
            if c.doing != Doing::Idle && c.remaining > 0 {
                self.arm(cpu);
            } else {
                self.go(cpu);
            }
        } else {
            self.take_rarer_event(time_ns, event);
        }
        let host = &self.kernel.host;
        self.ledger.checker.event_over(|cpu| host.idle_mask(cpu));
    }

    #[inline(never)]
    fn take_rarer_event(&mut self, time_ns: u64, event: Event) {
        match event {
            Event::SegmentEnd(_) => unreachable!("take_event() takes these"),
            Event::Ipi(cpu) => {
                self.ledger.checker.kick_arrived(cpu);
                self.kernel.cpus[cpu as usize].ipi_pending = true;
                self.interrupt(cpu);
            }
            Event::Timer(task) => {
                let thread = &self.kernel.threads[task as usize];
                if thread.life == Life::Unborn {
                    self.start_task(task);
                } else {
                    let cpu = thread.cpu;
                    self.kernel.cpus[cpu as usize].timers.push_back(task);
                    self.interrupt(cpu);
                }
            }
            Event::Tick(cpu) => {
                self.hardware.queue.set_tick(cpu, time_ns + self.costs.tick_period_ns);
                self.kernel.cpus[cpu as usize].tick_pending = true;
                self.interrupt(cpu);
            }
            Event::PolicyTimer => self.raise_policy_timer(),
            Event::QuotaTimer => self.raise_quota_timer(),
        }
    }

    /// Accounts the CPU's time up to now.
    pub(crate) fn settle(&mut self, cpu: u32) {
        self.hardware.settle(cpu, &mut self.ledger.checker);
    }

    /// Starts the segment that was set for the CPU.
    #[inline(always)]
    pub(crate) fn arm(&mut self, cpu: u32) {
        if self.ledger.observer.watches_activity() {
            self.tell_activity(cpu);
        }
        self.hardware.arm(cpu, &mut self.ledger.checker);
    }

    /// Tells the observer what the CPU is about to do.
    #[cold]
    #[inline(never)]
    fn tell_activity(&mut self, cpu: u32) {
        let c = &self.hardware.cpus[cpu as usize];
        let curr = Some(self.kernel.cpus[cpu as usize].curr).filter(|&curr| curr != NONE);
        let of_task = curr.map_or(Activity::Schedule, Activity::Task);
        let activity = match c.doing {
            Doing::Idle => Activity::Idle,
            Doing::IdleExit => Activity::IdleExit,
            Doing::Task | Doing::SelectExec | Doing::Push => of_task,
            Doing::Kernel if c.kind == TimeKind::Switch => of_task,
            Doing::Kernel if c.kind == TimeKind::Interrupt => Activity::Interrupt,
            Doing::Kernel | Doing::Select | Doing::Wakeup | Doing::SendIpi => Activity::Path(curr),
            Doing::HandleIpi => Activity::Ipi,
            Doing::Dequeue | Doing::Balance => Activity::Schedule,
            Doing::Interrupt | Doing::Tick | Doing::PolicyTimer | Doing::QuotaTimer | Doing::TickBalance => {
                Activity::Interrupt
            }
        };
        self.ledger.observer.activity(self.hardware.now_ns, cpu, activity);
    }

    /// Executes what was set: segments without length at once, until one takes time or the CPU is idle.
    pub(crate) fn go(&mut self, cpu: u32) {
        loop {
            let c = &self.hardware.cpus[cpu as usize];
            if c.doing == Doing::Idle {
                if self.ledger.observer.watches_activity() {
                    self.tell_activity(cpu);
                }
                return self.hardware.start_idle(cpu, &mut self.ledger.checker);
            }
            if c.remaining > 0 {
                return self.arm(cpu);
            }
            self.finish_at_once(cpu, self.hardware.cpus[cpu as usize].doing);
            if !self.take_step() {
                return;
            }
        }
    }

    /// As [`Engine::finish_doing`], for a segment without length: a separate call, because such segments are rare.
    #[inline(never)]
    fn finish_at_once(&mut self, cpu: u32, doing: Doing) {
        self.finish_doing(cpu, doing);
    }

    /// Applies the effect at the end of a segment, which sets what the CPU does next.
    #[inline(always)]
    fn finish_doing(&mut self, cpu: u32, doing: Doing) {
        match doing {
            Doing::Idle => self.ledger.checker.fail(move || format!("CPU {cpu}: idling ended by itself")),
            Doing::IdleExit | Doing::Kernel => self.run_pending(cpu),
            Doing::Task => self.finish_segment(cpu),
            Doing::Select => self.finish_select(cpu),
            Doing::SelectExec => self.finish_exec_select(cpu),
            Doing::Push => self.finish_exec_push(cpu),
            Doing::Wakeup => self.finish_wakeup(cpu),
            Doing::SendIpi => self.finish_send_ipi(cpu),
            Doing::HandleIpi => self.finish_ipi(cpu),
            Doing::Interrupt => self.finish_interrupt(cpu),
            Doing::Tick => self.finish_tick(cpu),
            Doing::PolicyTimer => self.finish_policy_timer(cpu),
            Doing::QuotaTimer => self.finish_quota_interrupt(cpu),
            Doing::Dequeue => self.start_pick(cpu),
            Doing::Balance | Doing::TickBalance => self.finish_balance(cpu),
        }
    }

    /// A kernel path has ended: sets what the CPU does next. Pending work comes in a fixed order, then the task.
    pub(crate) fn run_pending(&mut self, cpu: u32) {
        let k = &mut self.kernel.cpus[cpu as usize];
        match k.todo.front() {
            Some(Todo::Send(_)) => {
                let c = &mut self.hardware.cpus[cpu as usize];
                c.set(Doing::SendIpi, TimeKind::Ipi, self.costs.ipi_send_ns * UNITS);
                return;
            }
            Some(&Todo::Queue(wakeup)) => {
                k.todo.pop_front();
                k.wakeup = wakeup;
                self.begin_wakeup(cpu);
                return;
            }
            Some(&Todo::Wake(wakee, flags)) => {
                k.todo.pop_front();
                self.start_wakeup(cpu, wakee, flags);
                return;
            }
            Some(Todo::LeaveInterrupt) => {
                k.todo.pop_front();
                let c = &mut self.hardware.cpus[cpu as usize];
                c.set(Doing::Kernel, TimeKind::Interrupt, self.costs.interrupt_exit_ns * UNITS);
                return;
            }
            None => {}
        }
        if k.scheduling {
            self.start_pick(cpu);
            return;
        }
        if k.interrupted && self.take_interrupt(cpu) {
            return;
        }
        let k = &self.kernel.cpus[cpu as usize];
        if k.need_resched && (k.curr == NONE || k.resched_at_ns <= self.hardware.now_ns) {
            self.schedule(cpu);
        } else if k.curr != NONE {
            self.resume(cpu);
        } else {
            self.hardware.cpus[cpu as usize].set(Doing::Idle, TimeKind::Idle, 0);
            if self.hardware.now_ns >= self.look_ns {
                self.look_for_deadlock();
            }
        }
    }

    /// Lets a writer go on that would wait for ever, if there is one.
    #[cold]
    fn look_for_deadlock(&mut self) {
        let now_ns = self.hardware.now_ns;
        self.look_ns = now_ns + LOOK_NS;
        let threads = &self.kernel.threads;
        let writer = self.programs.relent_stuck(|task| threads[task as usize].life);
        if let Some(writer) = writer {
            self.hardware.queue.set_timer(writer, now_ns);
        }
    }

    /// Counts a step. Returns false, and fails the run, if there were too many at one instant.
    pub(crate) fn take_step(&mut self) -> bool {
        self.steps += 1;
        if self.steps <= STEPS_WITHOUT_TIME_MAX {
            return true;
        }
        let steps = self.steps;
        let (at_ns, task) = (self.hardware.now_ns, self.last_task);
        self.failure.get_or_insert(SimError::NoProgress { steps, at_ns, task });
        false
    }

    /// Returns the error that makes the run fail, if there is one.
    pub(crate) fn error(&mut self) -> Option<SimError> {
        let broken = self.ledger.checker.failure();
        let broken = broken.map(|(at_ns, what)| SimError::Invariant { at_ns: *at_ns, what: what.clone() });
        self.failure.take().or(broken)
    }

    /// Wakes a writer at `time_ns` for which an elastic channel makes room. Returns whether there is one.
    fn relent(&mut self, time_ns: u64) -> bool {
        let writer = self.programs.relent();
        if let Some(writer) = writer {
            self.hardware.queue.set_timer(writer, time_ns);
        }
        writer.is_some()
    }

    /// The event queue is empty.
    fn dried_up(&mut self, stop_ns: u64) -> Ending {
        if self.kernel.alive > 0 {
            return Ending::Deadlock { waiting: self.kernel.alive };
        }
        // All tasks have exited before the time was over: the machine is idle until then.
        self.hardware.now_ns = stop_ns;
        Ending::Completed
    }
}
