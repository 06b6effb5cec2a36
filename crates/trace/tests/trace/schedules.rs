// SPDX-License-Identifier: GPL-2.0-or-later
//! Recordings generated from a known schedule: the model must explain all waits, hold every nanosecond of work, and not
//! deadlock.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;

use crate::executor::{execute, work_ns};
use crate::script::{Script, comm};

const CPUS: usize = 3;

/// The next thing that happens on a CPU, after a time.
#[derive(Clone, Debug)]
struct Step {
    cpu: usize,
    after_ns: u64,
    action: Action,
    /// The choice of a task, where there are several.
    which: Index,
    /// The mutex that is waited for or given back, if mutexes are recorded.
    address: u64,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Preempt,
    Block,
    Exit,
    Wake,
    Fork,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let action = prop_oneof![
        3 => Just(Action::Preempt),
        4 => Just(Action::Block),
        1 => Just(Action::Exit),
        6 => Just(Action::Wake),
        2 => Just(Action::Fork),
    ];
    let step = (0..CPUS, 0..1000u64, action, any::<Index>(), 1..3u64);
    let step = step.prop_map(|(cpu, after_ns, action, which, address)| Step {
        cpu,
        after_ns,
        action,
        which,
        address,
    });
    prop::collection::vec(step, 1..400)
}

/// A machine that carries out steps and remembers what was done.
#[derive(Default)]
struct Machine {
    now_ns: u64,
    running: [u32; CPUS],
    runnable: BTreeSet<u32>,
    blocked: BTreeSet<u32>,
    last_tid: u32,
    busy_ns: u64,
    waits_ended: u64,
    wakes_by_tasks: u64,
    exits: u64,
    /// The mutex for which each task waited last.
    waits_for: BTreeMap<u32, u64>,
    script: Script,
}

fn pick(from: &BTreeSet<u32>, which: &Index) -> Option<u32> {
    (!from.is_empty()).then(|| *which.get(&from.iter().copied().collect::<Vec<_>>()))
}

impl Machine {
    /// Tasks 1 to 4 exist, and each CPU switches from idle to one of them.
    fn new(first: &Index) -> Self {
        let mut machine = Machine { last_tid: 4, runnable: (1..=4).collect(), ..Machine::default() };
        for cpu in 0..CPUS {
            machine.switch(cpu, "R", first);
        }
        machine
    }

    fn switch(&mut self, cpu: usize, state: &str, which: &Index) {
        let prev = self.running[cpu];
        let next = pick(&self.runnable, which).unwrap_or(0);
        if next == prev {
            return;
        }
        self.runnable.remove(&next);
        self.running[cpu] = next;
        match state {
            "R" if prev != 0 => {
                self.runnable.insert(prev);
            }
            "S" => {
                self.blocked.insert(prev);
            }
            _ => {}
        }
        self.script.switch(cpu as u32, self.now_ns, prev, state, next);
    }

    /// A step at which tasks call futex.
    fn step_with_futex(&mut self, step: &Step) {
        let (cpu, now_ns, current) = (step.cpu as u32, self.now_ns + step.after_ns, self.running[step.cpu]);
        match step.action {
            _ if current == 0 => {}
            Action::Block => {
                self.waits_for.insert(current, step.address);
                self.script.futex(cpu, now_ns, current, step.address, true);
            }
            Action::Wake => {
                let wakee = pick(&self.blocked, &step.which).and_then(|wakee| self.waits_for.get(&wakee));
                self.script.futex(cpu, now_ns, current, *wakee.unwrap_or(&step.address), false);
            }
            Action::Preempt => {
                self.script.futex(cpu, now_ns, current, step.address, false);
            }
            Action::Exit | Action::Fork => {}
        }
        self.step(step);
    }

    fn step(&mut self, step: &Step) {
        self.now_ns += step.after_ns;
        self.busy_ns += step.after_ns * self.running.iter().filter(|&&tid| tid != 0).count() as u64;
        let current = self.running[step.cpu];
        match step.action {
            Action::Preempt => self.switch(step.cpu, "R", &step.which),
            Action::Block if current != 0 => self.switch(step.cpu, "S", &step.which),
            Action::Exit if current != 0 => {
                self.exits += 1;
                self.switch(step.cpu, "X", &step.which);
            }
            Action::Wake => {
                if let Some(wakee) = pick(&self.blocked, &step.which) {
                    self.blocked.remove(&wakee);
                    self.runnable.insert(wakee);
                    self.waits_ended += 1;
                    self.wakes_by_tasks += u64::from(current != 0);
                    self.script.waking(step.cpu as u32, self.now_ns, current, wakee);
                }
            }
            Action::Fork if current != 0 => {
                self.last_tid += 1;
                self.runnable.insert(self.last_tid);
                self.script.fork(step.cpu as u32, self.now_ns, current, self.last_tid);
            }
            Action::Block | Action::Exit | Action::Fork => {}
        }
    }
}

proptest! {
    #[test]
    fn a_complete_recording_is_explained_completely(steps in steps(), first in any::<Index>()) {
        let mut machine = Machine::new(&first);
        for step in &steps {
            machine.step(step);
        }
        // An event at the end, so that the last bursts are seen to last until then.
        let current = machine.running[0];
        machine.script.event(0, machine.now_ns, current, "sched:sched_stat_wait", "");

        let recording = machine.script.read_strictly().map_err(TestCaseError::fail)?;
        let explained = &recording.explained;
        prop_assert_eq!(explained.waits, machine.waits_ended);
        prop_assert_eq!(explained.by_task, machine.wakes_by_tasks);
        prop_assert_eq!(explained.tasks_exited, machine.exits);
        prop_assert_eq!(explained.redundant_wakes, 0);
        prop_assert_eq!(recording.busy_ns, machine.busy_ns);
        prop_assert_eq!(work_ns(&recording.workload).iter().sum::<u64>(), machine.busy_ns);
        let ends_ns = execute(&recording.workload);
        prop_assert!(ends_ns.is_ok(), "tasks never end: {:?}", ends_ns);
        // No task waits for a CPU here, so none takes longer than it did.
        prop_assert!(ends_ns.iter().flatten().all(|&end_ns| end_ns <= machine.now_ns));
        for task in &recording.workload.tasks {
            let tid = task.process;
            prop_assert_eq!(&task.name, &comm(tid));
        }
    }

    /// Any task takes and gives back any mutex at any time: no task waits for ever, and no work is lost
    /// but what was done in vain.
    #[test]
    fn mutexes_cause_no_deadlock(steps in steps(), first in any::<Index>()) {
        let mut machine = Machine::new(&first);
        for step in &steps {
            machine.step_with_futex(step);
        }
        let current = machine.running[0];
        machine.script.event(0, machine.now_ns, current, "sched:sched_stat_wait", "");
        let recording = machine.script.read_strictly().map_err(TestCaseError::fail)?;
        let worked_ns = work_ns(&recording.workload).iter().sum::<u64>();
        prop_assert_eq!(worked_ns + recording.explained.left_out_ns, machine.busy_ns);
        recording.workload.check().map_err(|error| TestCaseError::fail(error.to_string()))?;
        let ends_ns = execute(&recording.workload);
        prop_assert!(ends_ns.is_ok(), "tasks never end: {:?}", ends_ns);
    }
}
