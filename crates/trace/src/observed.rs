// SPDX-License-Identifier: GPL-2.0-or-later
//! What a recording shows of scheduling, by task name: the recorded half of `wakelab check`. The other half is the same
//! code, reading the events of the replay, so both have the same definitions:
//!
//! - a *wake-up* ended a task's wait (a wake-up of a task that runs or is runnable does not count). A task that waited
//!   and runs again was woken, even if that was not recorded;
//! - *wake-up latency* goes from the wake-up (sched_waking) to the switch-in, if the wake-up was recorded;
//! - *run delay* goes from the moment at which a task is runnable (by a wake-up, its birth, or a preemption) to the
//!   switch-in, as `perf sched timehist` has it;
//! - a *switch* puts a task on a CPU, idle tasks not counted;
//! - a *preemption* takes a task off its CPU that could go on (`R` or `R+`; a yield is one, too);
//! - a *migration* is a switch-in on another CPU than the one before.
//!
//! Worked example: B waits, is woken at 10, is switched in at 14, preempted at 20, switched in elsewhere at 23. That is
//! one wake-up with a latency of 4, run delays of 4 and 3, two switches, one preemption and one migration.
//!
//! Cost: 8 or 16 bytes for each switch-in; a wake-up and a switch take 200 bytes or more of text.

use std::collections::BTreeMap;
use std::fmt;

use crate::Recording;

/// What was seen of one task, or of several together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The number of tasks.
    pub tasks: u64,
    /// Their CPU time together.
    pub cpu_ns: u64,
    /// When the last of them left its CPU for the last time, since the recording began; of the service, since the first
    /// of its tasks ran, and by the awaited tasks alone, if there are such among them.
    pub done_ns: u64,
    /// Whether `done_ns` is by awaited tasks alone ([`Service::Told`]).
    pub awaited: bool,
    /// Wake-ups that ended a wait.
    pub wakeups: u64,
    /// Switch-ins of a task, idle tasks not counted.
    pub switches: u64,
    /// Switch-outs of tasks that could go on.
    pub preemptions: u64,
    /// Switch-ins on another CPU than before.
    pub migrations: u64,
    /// From each wake-up to the switch-in; ascending once the recording is read.
    pub wakeup_latency_ns: Vec<u64>,
    /// From each moment at which a task became runnable to the switch-in; ascending once the recording is read.
    pub run_delay_ns: Vec<u64>,
}

impl Observed {
    /// Adds what was seen of other tasks. The samples are in order only after [`Observed::sort`].
    fn add(&mut self, other: &Observed) {
        self.tasks += other.tasks;
        self.cpu_ns += other.cpu_ns;
        (self.awaited, self.done_ns) = (self.awaited, self.done_ns).max((other.awaited, other.done_ns));
        self.wakeups += other.wakeups;
        self.switches += other.switches;
        self.preemptions += other.preemptions;
        self.migrations += other.migrations;
        self.wakeup_latency_ns.extend(&other.wakeup_latency_ns);
        self.run_delay_ns.extend(&other.run_delay_ns);
    }

    fn sort(&mut self) {
        self.wakeup_latency_ns.sort_unstable();
        self.run_delay_ns.sort_unstable();
    }
}

/// What was seen of all tasks, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observations {
    /// Tasks by their last name (`comm`).
    pub by_comm: BTreeMap<String, Observed>,
    /// The tasks of the service among them, by name.
    pub judged: BTreeMap<String, Observed>,
}

impl Observations {
    /// Adds a task that will be seen no more.
    pub(crate) fn add(&mut self, comm: &str, mut observed: Observed, judged: bool) {
        if judged {
            self.judged.entry(comm.to_owned()).or_default().add(&observed);
        }
        observed.awaited = false;
        self.by_comm.entry(comm.to_owned()).or_default().add(&observed);
    }

    pub(crate) fn sorted(mut self) -> Observations {
        self.by_comm.values_mut().chain(self.judged.values_mut()).for_each(Observed::sort);
        self
    }
}

/// Returns what was seen of several names, together.
pub fn total<'a>(all: impl IntoIterator<Item = &'a Observed>) -> Observed {
    let mut total = Observed::default();
    all.into_iter().for_each(|observed| total.add(observed));
    total.sort();
    total
}

/// Which tasks a recording is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// It does not say: all but kernel threads, the recorder, and names with less than [`SMALL_PER_MILLE`] of the CPU
    /// time of these (a `sleep`, a shell), because such tasks tell when the recording ended, not the work.
    #[default]
    Unknown,
    /// The recorded command with all tasks that descend from it, and tasks of some names. If the command and these
    /// descendants have [`SMALL_PER_MILLE`] of the service's CPU time or more, they are awaited: the service is done
    /// when they are, because a server goes on after the last request, with work that nobody waits for. A command of
    /// less (`sleep 10`) tells when the recording ended, so each task of the service counts.
    Told {
        /// The command was seen, and no names were asked for.
        command: bool,
        /// The names, or their beginnings and `*`.
        names: Vec<String>,
    },
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Service::Told { command, names } = self else {
            return f.write_str("all tasks but kernel threads, the recorder, and those of little CPU time");
        };
        let called = format!("tasks called {}", names.join(", "));
        match (command, names.is_empty()) {
            (false, _) => f.write_str(&called),
            (true, true) => f.write_str("the command and all that it started"),
            (true, false) => write!(f, "the command, all that it started, and {called}"),
        }
    }
}

impl Recording {
    /// Returns what was seen of the service, by name, in this recording or in a replay of it.
    pub fn of_service<'a>(&self, seen: &'a Observations) -> impl Iterator<Item = (&'a str, &'a Observed)> {
        seen.judged.iter().map(|(comm, observed)| (comm.as_str(), observed))
    }
}

/// Tasks of a name with less than this part of the CPU time of all are not the service of a recording that does not
/// name it.
pub(crate) const SMALL_PER_MILLE: u128 = 10;

/// Programs that record.
pub(crate) const RECORDERS: [&str; 5] =
    ["perf", "perf-exec", "trace-cmd", "traced_probes", "lttng-consumerd"];

/// A task while a recording is read.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(crate) observed: Observed,
    /// Since when it has been runnable, if that is known and it does not run.
    ready: Option<Ready>,
    /// What its last switch-in ended, which a later event may correct.
    ended: Option<Ready>,
    cpu: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Ready {
    since_ns: u64,
    woken: bool,
}

impl Watched {
    /// A wake-up ends its wait.
    pub(crate) fn woken(&mut self, at_ns: u64) {
        self.observed.wakeups += 1;
        self.ready = Some(Ready { since_ns: at_ns, woken: true });
    }

    /// A wake-up ends its wait, and it is not known when.
    pub(crate) fn woken_unseen(&mut self) {
        self.observed.wakeups += 1;
        self.ready = None;
    }

    /// It has begun, or it was preempted.
    pub(crate) fn ready(&mut self, at_ns: u64) {
        self.ready = Some(Ready { since_ns: at_ns, woken: false });
    }

    /// When the wake-up came since which it is runnable.
    pub(crate) fn woken_at(&self) -> Option<u64> {
        self.ready.filter(|ready| ready.woken).map(|ready| ready.since_ns)
    }

    /// It is switched in.
    pub(crate) fn switched_in(&mut self, at_ns: u64, cpu: u32) {
        self.observed.switches += 1;
        self.observed.migrations += u64::from(self.cpu.replace(cpu).is_some_and(|before| before != cpu));
        self.ended = self.ready.take();
        self.count(at_ns);
    }

    /// Its last switch-in was at another time than assumed.
    pub(crate) fn correct_switch_in(&mut self, at_ns: u64) {
        if let Some(ready) = self.ended {
            self.observed.run_delay_ns.pop();
            if ready.woken {
                self.observed.wakeup_latency_ns.pop();
            }
            self.count(at_ns);
        }
    }

    fn count(&mut self, at_ns: u64) {
        let Some(ready) = self.ended else { return };
        let delay_ns = at_ns.saturating_sub(ready.since_ns);
        self.observed.run_delay_ns.push(delay_ns);
        if ready.woken {
            self.observed.wakeup_latency_ns.push(delay_ns);
        }
    }

    /// It leaves its CPU and could go on.
    pub(crate) fn preempted(&mut self, at_ns: u64) {
        self.observed.preemptions += 1;
        self.ready(at_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example() {
        let mut b = Watched::default();
        b.woken(10);
        b.switched_in(14, 0);
        b.preempted(20);
        b.switched_in(23, 1);
        let seen = &b.observed;
        assert_eq!((&seen.wakeup_latency_ns[..], &seen.run_delay_ns[..]), (&[4][..], &[4, 3][..]));
        assert_eq!((seen.wakeups, seen.switches, seen.preemptions, seen.migrations), (1, 2, 1, 1));
    }

    #[test]
    fn a_wake_up_that_was_not_seen_has_no_latency() {
        let mut task = Watched::default();
        task.woken_unseen();
        task.switched_in(14, 0);
        let seen = &task.observed;
        assert_eq!((seen.wakeups, seen.switches), (1, 1));
        assert!(seen.wakeup_latency_ns.is_empty() && seen.run_delay_ns.is_empty());
    }

    #[test]
    fn a_correction_replaces_the_last_sample() {
        let mut task = Watched::default();
        task.woken(10);
        task.switched_in(14, 0);
        task.correct_switch_in(12);
        assert_eq!(task.observed.wakeup_latency_ns, [2]);
        assert_eq!(task.observed.run_delay_ns, [2]);
        // Nothing is known of the beginning of this one.
        task.switched_in(30, 0);
        task.correct_switch_in(29);
        assert_eq!(task.observed.run_delay_ns, [2]);
    }

    #[test]
    fn totals_are_in_order() {
        let mut all = Observations::default();
        let of = |latency_ns: u64| Observed {
            tasks: 1,
            wakeup_latency_ns: vec![latency_ns],
            done_ns: latency_ns,
            ..Observed::default()
        };
        for (comm, latency_ns) in [("b", 5), ("a", 9), ("kworker/0:1", 1), ("a", 2), ("perf", 4)] {
            all.add(comm, of(latency_ns), comm == "a");
        }
        let all = all.sorted();
        let few = total([&all.by_comm["a"], &all.by_comm["b"]]);
        assert_eq!((few.tasks, &few.wakeup_latency_ns[..]), (3, &[2, 5, 9][..]));
        assert_eq!(all.judged.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!((all.by_comm["a"].tasks, all.by_comm["a"].done_ns), (2, 9));
    }
}
