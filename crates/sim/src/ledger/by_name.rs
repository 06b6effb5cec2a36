// SPDX-License-Identifier: GPL-2.0-or-later
//! Sums of the judged tasks by name, as `perf sched latency` has them: delays, and when the last of a name was done.
//!
//! Cost: 24 KiB or less for each name and histogram, because two digits are enough for a table; nothing for workloads
//! without judged tasks.

use std::collections::BTreeMap;

use wakelab_workload::Task;

use crate::ledger::delays::Delays;
use crate::outcome::NameOutcome;

/// The number of digits that the histograms keep.
const SIGNIFICANT_DIGITS: u8 = 2;
/// The index of tasks that are not judged.
const UNJUDGED: u32 = u32::MAX;

/// The judged tasks of a run, by name.
pub(crate) struct ByName {
    /// The name of each task, as an index; empty if no task is judged.
    of_task: Vec<u32>,
    names: Vec<Name>,
}

/// The tasks of one name.
struct Name {
    name: String,
    tasks: u64,
    /// Some of them are awaited, so that the others do not count for the end.
    some_are_awaited: bool,
    /// Those that count for the end and have not ended.
    left: u64,
    /// When the last of these ended.
    done_ns: u64,
    wakeup_latency: Delays,
    run_delay: Delays,
}

impl Name {
    fn new(name: &str) -> Name {
        let [wakeup_latency, run_delay] = [(); 2].map(|()| Delays::with_digits(SIGNIFICANT_DIGITS));
        let name = name.to_owned();
        Name { name, tasks: 0, some_are_awaited: false, left: 0, done_ns: 0, wakeup_latency, run_delay }
    }
}

impl ByName {
    pub(crate) fn new(tasks: &[Task]) -> ByName {
        let mut by_name = ByName { of_task: Vec::new(), names: Vec::new() };
        if !tasks.iter().any(|task| task.judged) {
            return by_name;
        }
        let mut known: BTreeMap<&str, u32> = BTreeMap::new();
        for task in tasks {
            if !task.judged {
                by_name.of_task.push(UNJUDGED);
                continue;
            }
            let index = *known.entry(&task.name).or_insert_with(|| {
                by_name.names.push(Name::new(&task.name));
                by_name.names.len() as u32 - 1
            });
            by_name.of_task.push(index);
            let name = &mut by_name.names[index as usize];
            name.tasks += 1;
            if task.awaited && !name.some_are_awaited {
                (name.some_are_awaited, name.left) = (true, 0);
            }
            name.left += u64::from(task.awaited || !name.some_are_awaited);
        }
        by_name
    }

    fn of(&mut self, task: u32) -> Option<&mut Name> {
        let name = *self.of_task.get(task as usize)?;
        self.names.get_mut(name as usize)
    }

    /// A task is switched in after it waited on a runqueue; `woken`: a wake-up began that wait.
    #[cold]
    #[inline(never)]
    pub(crate) fn switch_in(&mut self, task: u32, waited_ns: u64, woken: bool) {
        let Some(name) = self.of(task) else { return };
        name.run_delay.record(waited_ns);
        if woken {
            name.wakeup_latency.record(waited_ns);
        }
    }

    /// A task has ended.
    pub(crate) fn gone(&mut self, task: u32, awaited: bool, now_ns: u64) {
        if let Some(name) = self.of(task).filter(|name| awaited || !name.some_are_awaited) {
            name.left -= 1;
            name.done_ns = now_ns;
        }
    }

    /// The measured part begins; the delays until now do not belong to it.
    pub(crate) fn restart(&mut self) {
        for name in &mut self.names {
            let Name { wakeup_latency, run_delay, .. } = Name::new("");
            (name.wakeup_latency, name.run_delay) = (wakeup_latency, run_delay);
        }
    }

    /// Returns for each name the number of waits and their sum in nanoseconds.
    pub(crate) fn wait_sums(&self) -> impl Iterator<Item = (String, u64, u64)> {
        self.names.iter().map(|name| (name.name.clone(), name.run_delay.count(), name.run_delay.sum_ns()))
    }

    /// Returns the sums; `cpu_time_ns` is that of each task, and the first judged task began at `begin_ns`.
    pub(crate) fn outcome(&self, cpu_time_ns: &[u64], begin_ns: u64) -> Vec<NameOutcome> {
        let mut all: Vec<NameOutcome> = self
            .names
            .iter()
            .map(|name| NameOutcome {
                name: name.name.clone(),
                tasks: name.tasks,
                cpu_time_ns: 0,
                done_ns: (name.left == 0).then_some(name.done_ns.saturating_sub(begin_ns)),
                wakeup_latency: name.wakeup_latency.histogram(),
                run_delay: name.run_delay.histogram(),
            })
            .collect();
        for (&name, cpu_time_ns) in self.of_task.iter().zip(cpu_time_ns) {
            if let Some(outcome) = all.get_mut(name as usize) {
                outcome.cpu_time_ns += cpu_time_ns;
            }
        }
        all
    }
}
