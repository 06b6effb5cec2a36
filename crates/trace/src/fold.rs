// SPDX-License-Identifier: GPL-2.0-or-later
//! Fits the tasks of a recording onto other CPUs than the recorded ones: those of a smaller machine, or a part of it.
//!
//! A task that may run on some CPUs keeps those of them that are left. If none is left, as for a kernel thread of one
//! CPU, its CPU number c becomes the CPU at place c modulo n among the n that are left. The CPU on which it ran last
//! becomes another one by the same rule.
//!
//! Worked example: on CPUs 0 and 1, `migration/3` goes to CPU 3 mod 2 = 1, and a task with the CPUs 1 to 3 keeps 1. If
//! only CPUs 4 and 6 are left, `migration/3` goes to the second of them, 6.
//!
//! Why the threads of a missing CPU are not dropped: tasks caused their work, not the CPU. `kworker/3:1` and
//! `ksoftirqd/3` do what tasks on CPU 3 queued or raised. These tasks run on the remaining CPUs now and queue the same
//! work there, and tasks wait for it. Only moves between CPUs, by `migration/3`, become fewer on fewer CPUs. They stay
//! in the model and take as long as they did (30 us each in fixtures/hackbench.perf.txt).

use std::collections::BTreeSet;

use serde::Serialize;
use wakelab_machine::printable;
use wakelab_workload::{Task, Workload};

/// What did not fit, and was changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Folded {
    /// The number of CPUs of the machine.
    pub nr_cpus: u32,
    /// The names of tasks that were bound to CPUs that the machine lacks.
    pub moved: Vec<String>,
    /// The number of tasks that lost some of their CPUs, but not all.
    pub narrowed: u64,
}

/// What became of the CPUs where a task may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It keeps them all.
    Same,
    /// It keeps some of them.
    Narrowed,
    /// It kept none, and has others.
    Moved,
}

/// Fits all tasks onto a machine with CPUs 0 to `nr_cpus` - 1. Tasks that may run everywhere still may.
pub fn fold(workload: &mut Workload, nr_cpus: u32) -> Folded {
    let all: Vec<u32> = (0..nr_cpus).collect();
    let mut folded = Folded { nr_cpus, ..Folded::default() };
    for task in &mut workload.tasks {
        match fit(task, &all) {
            Fit::Same => {}
            Fit::Narrowed => folded.narrowed += 1,
            Fit::Moved => folded.moved.push(task.name.clone()),
        }
    }
    folded
}

/// Fits a task onto `cpus`, which are in ascending order, at least one.
pub(crate) fn fit(task: &mut Task, cpus: &[u32]) -> Fit {
    let is_left = |cpu: &u32| cpus.binary_search(cpu).is_ok();
    let folded = |cpu: u32| cpus[cpu as usize % cpus.len()];
    let mut what = Fit::Same;
    if let Some(allowed) = &mut task.allowed
        && !allowed.iter().all(is_left)
    {
        if allowed.iter().any(is_left) {
            allowed.retain(is_left);
            what = Fit::Narrowed;
        } else {
            allowed.iter_mut().for_each(|cpu| *cpu = folded(*cpu));
            allowed.sort_unstable();
            allowed.dedup();
            what = Fit::Moved;
        }
    }
    if let Some(last) = task.last_cpu.filter(|last| !is_left(last)) {
        task.last_cpu = Some(folded(last));
    }
    what
}

impl Folded {
    /// Returns a sentence for a terminal; `None` if all tasks fitted.
    pub fn note(&self) -> Option<String> {
        const SHOWN: usize = 3;
        let Folded { nr_cpus, moved, narrowed } = self;
        let mut parts = Vec::new();
        if !moved.is_empty() {
            let all: BTreeSet<&String> = moved.iter().collect();
            let mut names: Vec<String> =
                all.iter().take(SHOWN).map(|name| printable(name).into_owned()).collect();
            if all.len() > SHOWN {
                names.push(format!("{} more", all.len() - SHOWN));
            }
            let (tasks, run) = if moved.len() == 1 { ("task", "runs") } else { ("tasks", "run") };
            let place = match nr_cpus {
                1 => "CPU 0 instead".to_owned(),
                _ => format!("CPUs 0 to {} instead, by CPU number modulo {nr_cpus}", nr_cpus - 1),
            };
            parts.push(format!(
                "{} {tasks} bound to CPUs that the machine lacks {run} on {place}: {}",
                moved.len(),
                names.join(", ")
            ));
        }
        if *narrowed > 0 {
            let tasks = if *narrowed == 1 { "task keeps" } else { "tasks keep" };
            parts.push(format!(
                "{narrowed} {tasks} only some of the CPUs, because the machine lacks the others"
            ));
        }
        (!parts.is_empty()).then(|| format!("folded: {}", parts.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use wakelab_workload::Measure;

    use super::*;

    fn task(name: &str, allowed: Option<&[u32]>, last_cpu: Option<u32>) -> Task {
        Task { allowed: allowed.map(<[u32]>::to_vec), last_cpu, ..Task::new(name, 1, Vec::new()) }
    }

    fn placed(task: &Task) -> (Option<&[u32]>, Option<u32>) {
        (task.allowed.as_deref(), task.last_cpu)
    }

    #[test]
    fn worked_example() {
        let mut workload = Workload::empty("w", Measure::Makespan);
        workload.tasks = vec![
            task("migration/3", Some(&[3]), Some(3)),
            task("some", Some(&[1, 2, 3]), Some(2)),
            task("anywhere", None, Some(5)),
            task("fits", Some(&[0]), Some(0)),
            task("new", None, None),
        ];
        let folded = fold(&mut workload, 2);
        let places: Vec<_> = workload.tasks.iter().map(placed).collect();
        assert_eq!(
            places,
            [
                (Some(&[1][..]), Some(1)),
                (Some(&[1][..]), Some(0)),
                (None, Some(1)),
                (Some(&[0][..]), Some(0)),
                (None, None)
            ]
        );
        assert_eq!(folded, Folded { nr_cpus: 2, moved: vec!["migration/3".to_owned()], narrowed: 1 });
        let mut bound = task("migration/3", Some(&[3]), Some(3));
        assert_eq!((fit(&mut bound, &[4, 6]), placed(&bound)), (Fit::Moved, (Some(&[6][..]), Some(6))));
    }

    #[test]
    fn several_cpus_may_become_one() {
        let mut far = task("far", Some(&[4, 5, 6]), Some(6));
        assert_eq!(fit(&mut far, &[0, 1]), Fit::Moved);
        assert_eq!(placed(&far), (Some(&[0, 1][..]), Some(0)));
    }

    #[test]
    fn a_machine_of_the_same_size_changes_nothing() {
        let mut workload = Workload::empty("w", Measure::Makespan);
        workload.tasks = vec![task("migration/1", Some(&[1]), Some(1)), task("anywhere", None, Some(0))];
        let before = workload.clone();
        let folded = fold(&mut workload, 2);
        assert_eq!((&workload, folded.note()), (&before, None));
    }

    #[test]
    fn a_line_says_what_was_folded() {
        let moved: Vec<String> = (1..6).map(|cpu| format!("migration/{cpu}")).collect();
        // Each name is there once, however many tasks have it.
        let twice = [&moved[..], &moved[..]].concat();
        let ten = Folded { nr_cpus: 1, moved: twice, narrowed: 0 };
        assert_eq!(
            ten.note().expect("ten moved"),
            "folded: 10 tasks bound to CPUs that the machine lacks run on CPU 0 instead: migration/1, migration/2, \
             migration/3, 2 more"
        );
        let both = Folded { nr_cpus: 2, moved: moved[..1].to_vec(), narrowed: 2 };
        assert_eq!(
            both.note().expect("three changed"),
            "folded: 1 task bound to CPUs that the machine lacks runs on CPUs 0 to 1 instead, by CPU number modulo 2: \
             migration/1; 2 tasks keep only some of the CPUs, because the machine lacks the others"
        );
    }
}
