// SPDX-License-Identifier: GPL-2.0-or-later
//! A run as data: the time slices of all tasks, and the wake-ups that led to them, for reports and tables.
//!
//! A slice is the time from a switch-in to the next switch-out, as the kernel's events have it; the time that the
//! scheduler takes to find the next task belongs to it. The wait before a slice is the time since the wake-up began, or
//! since the task gave way.
//!
//! Worked example: b runs on CPU 0 and wakes a at 10 us, which last ran on CPU 1. The policy chooses CPU 1, which is
//! idle, and a is switched in there at 14 us: one wake-up (time 10, by b, CPU 1), and a slice that begins at 14 us
//! after a wait of 4 us.

use std::io;

use wakelab_sim::{Outcome, Scenario};
use wakelab_trace::kernel_events::{At, KernelEvent, Left, Sink};
use wakelab_workload::{Source, TaskIndex};

use crate::error::LabError;
use crate::export::observe_events;

/// What makes a task runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waker {
    /// Another task.
    Task(TaskIndex),
    /// The task that created it.
    Parent(TaskIndex),
    /// An interrupt.
    Interrupt(Source),
    /// The idle task of a CPU, on behalf of another CPU.
    Idle,
}

/// A wake-up, or the first time that a task is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// When it begins.
    pub time_ns: u64,
    /// Where it begins.
    pub cpu: u32,
    /// By what.
    pub by: Waker,
    /// The task that is woken.
    pub task: TaskIndex,
    /// The CPU that the policy chose; `None` if it was not asked.
    pub chosen: Option<u32>,
    /// Why; empty if the policy was not asked.
    pub reason: &'static str,
}

/// A time in which a task has a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The CPU.
    pub cpu: u32,
    /// The task.
    pub task: TaskIndex,
    /// The switch-in.
    pub begin_ns: u64,
    /// The switch-out, or the end of the run.
    pub end_ns: u64,
    /// How long the task waited before, runnable.
    pub wait_ns: u64,
    /// The wake-up that made it runnable, as an index; `None` if it only gave way.
    pub wake: Option<u32>,
    /// How it ends; `None` if the run ends first.
    pub left: Option<Left>,
}

/// The slices and wake-ups of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// In the order of their begin.
    pub slices: Vec<Slice>,
    /// In the order of time.
    pub wakes: Vec<Wake>,
    /// Duration of the run.
    pub end_ns: u64,
}

/// Collects a timeline.
struct Collector {
    timeline: Timeline,
    /// The open slice of each CPU.
    open: Vec<Option<u32>>,
    /// By task: since when it waits, and the wake-up.
    waits: Vec<(u64, Option<u32>)>,
    /// By CPU: the interrupt that it is in.
    interrupts: Vec<Option<Source>>,
}

impl Collector {
    fn new(nr_cpus: usize, nr_tasks: usize) -> Collector {
        Collector {
            timeline: Timeline::default(),
            open: vec![None; nr_cpus],
            waits: vec![(0, None); nr_tasks],
            interrupts: vec![None; nr_cpus],
        }
    }

    /// Notes that a task becomes runnable.
    fn wake(&mut self, at: At, task: TaskIndex, by: Waker) {
        let index = self.timeline.wakes.len() as u32;
        self.timeline.wakes.push(Wake {
            time_ns: at.time_ns,
            cpu: at.cpu,
            by,
            task,
            chosen: None,
            reason: "",
        });
        self.waits[task as usize] = (at.time_ns, Some(index));
    }

    fn switch(&mut self, at: At, prev: Option<(TaskIndex, Left)>, next: Option<TaskIndex>) {
        if let Some(slice) = self.open[at.cpu as usize].take() {
            let slice = &mut self.timeline.slices[slice as usize];
            slice.end_ns = at.time_ns;
            slice.left = prev.map(|(_, left)| left);
        }
        if let Some((task, Left::Runnable)) = prev {
            self.waits[task as usize] = (at.time_ns, None);
        }
        let Some(task) = next else { return };
        let (since_ns, wake) = self.waits[task as usize];
        self.open[at.cpu as usize] = Some(self.timeline.slices.len() as u32);
        self.timeline.slices.push(Slice {
            cpu: at.cpu,
            task,
            begin_ns: at.time_ns,
            end_ns: at.time_ns,
            wait_ns: at.time_ns - since_ns,
            wake,
            left: None,
        });
    }
}

impl Sink for Collector {
    type Out = Timeline;

    fn event(&mut self, at: At, event: KernelEvent<'_>) {
        match event {
            KernelEvent::Switch { prev, next } => self.switch(at, prev, next),
            KernelEvent::Waking { task, .. } => {
                let interrupt = self.interrupts[at.cpu as usize].filter(|_| at.in_interrupt);
                let by = match (interrupt, at.current) {
                    (Some(source), _) => Waker::Interrupt(source),
                    (None, Some(waker)) => Waker::Task(waker),
                    (None, None) => Waker::Idle,
                };
                self.wake(at, task, by);
            }
            KernelEvent::Fork { parent, child } => self.wake(at, child, Waker::Parent(parent)),
            KernelEvent::Decision { task, choice } => {
                // exec asks, too, for a task that runs: no wake-up is under way then.
                if let (_, Some(wake)) = self.waits[task as usize] {
                    let wake = &mut self.timeline.wakes[wake as usize];
                    (wake.chosen, wake.reason) = (Some(choice.cpu), choice.reason);
                }
            }
            KernelEvent::Interrupt { source, enters } => {
                self.interrupts[at.cpu as usize] = enters.then_some(source);
            }
            KernelEvent::End => {
                self.timeline.end_ns = at.time_ns;
                for slice in self.open.iter_mut().filter_map(Option::take) {
                    self.timeline.slices[slice as usize].end_ns = at.time_ns;
                }
            }
            KernelEvent::Begin
            | KernelEvent::Wakeup { .. }
            | KernelEvent::Runtime { .. }
            | KernelEvent::Exec { .. }
            | KernelEvent::Exit { .. }
            | KernelEvent::Migrate { .. } => {}
        }
    }

    fn finish(self) -> io::Result<Timeline> {
        Ok(self.timeline)
    }
}

/// Runs a scenario and returns the outcome and what each CPU and task did.
///
/// # Errors
/// A run that fails.
pub fn observe_timeline(scenario: &Scenario, seed: u64) -> Result<(Outcome, Timeline), LabError> {
    let (nr_cpus, nr_tasks) = (scenario.machine.topology.nr_cpus(), scenario.workload.tasks.len());
    observe_events(scenario, seed, Collector::new(nr_cpus, nr_tasks))
}

#[cfg(test)]
mod tests {
    use wakelab_machine::Distance;
    use wakelab_trace::kernel_events::Choice;

    use super::*;

    fn at(time_ns: u64, cpu: u32, current: Option<TaskIndex>) -> At {
        At { time_ns, cpu, current, in_interrupt: false }
    }

    #[test]
    fn worked_example() {
        let mut all = Collector::new(2, 2);
        all.event(at(0, 0, None), KernelEvent::Switch { prev: None, next: Some(1) });
        all.event(at(10, 0, Some(1)), KernelEvent::Waking { task: 0, last_cpu: 1, sync: false });
        let choice = Choice {
            cpu: 1,
            reason: "prev-idle",
            affine_reason: "",
            target: None,
            reads: [0; Distance::COUNT],
            lost_claims: 0,
        };
        all.event(at(11, 0, Some(1)), KernelEvent::Decision { task: 0, choice: &choice });
        all.event(at(14, 1, None), KernelEvent::Switch { prev: None, next: Some(0) });
        all.event(at(20, 1, Some(0)), KernelEvent::Switch { prev: Some((0, Left::Runnable)), next: None });
        all.event(at(23, 1, None), KernelEvent::Switch { prev: None, next: Some(0) });
        all.event(at(30, 0, Some(1)), KernelEvent::End);
        let timeline = all.finish().expect("nothing is written");
        let wake =
            Wake { time_ns: 10, cpu: 0, by: Waker::Task(1), task: 0, chosen: Some(1), reason: "prev-idle" };
        assert_eq!(timeline.wakes, [wake]);
        let slice = |cpu, task, (begin_ns, end_ns), wait_ns, wake, left| Slice {
            cpu,
            task,
            begin_ns,
            end_ns,
            wait_ns,
            wake,
            left,
        };
        assert_eq!(
            timeline.slices,
            [
                slice(0, 1, (0, 30), 0, None, None),
                slice(1, 0, (14, 20), 4, Some(0), Some(Left::Runnable)),
                // It gave way at 20 and was not woken.
                slice(1, 0, (23, 30), 3, None, None),
            ]
        );
    }

    /// The slices of a run add up to what the simulator counted: as many as switches, and the service's waits.
    #[test]
    fn a_run_has_a_slice_for_each_switch() {
        let scenario = Scenario {
            machine: wakelab_machine::Machine::preset("smp-8").expect("a preset").into(),
            workload: wakelab_workload::Workload::parse_spec("hackbench:groups=1,fds=4,loops=5")
                .expect("a workload")
                .into(),
            policy: "linux-6.12".parse().expect("a policy"),
            host: wakelab_sim::HostProfile::Mainline,
            limit_ns: 1_000_000_000,
            limit_events: wakelab_sim::LIMIT_EVENTS,
        };
        let (outcome, timeline) = observe_timeline(&scenario, 1).expect("it runs");
        assert_eq!(timeline.slices.len() as u64, outcome.counts.switches_in);
        let roots = scenario.workload.tasks.iter().filter(|task| task.parent.is_none()).count() as u64;
        let counts = outcome.counts;
        assert_eq!(timeline.wakes.len() as u64, counts.wakeups + counts.forks + roots);
        let slices =
            || timeline.slices.iter().filter_map(|slice| Some((slice, timeline.wakes[slice.wake? as usize])));
        // First runs are no wake-ups: of children, and of the task that starts at time 0.
        let is_wakeup = |wake: &Wake| wake.time_ns > 0 && !matches!(wake.by, Waker::Parent(_));
        let of_wakeups = slices().filter(|(_, wake)| is_wakeup(wake));
        let waited_ns: u64 = of_wakeups.map(|(slice, _)| slice.wait_ns).sum();
        assert_eq!(waited_ns, outcome.wakeup_latency.sum_ns);
        assert_eq!(timeline.end_ns, outcome.elapsed_ns);
    }
}
