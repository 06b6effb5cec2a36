// SPDX-License-Identifier: GPL-2.0-or-later
//! `affinity`: the affinity and the nice value of tasks change while they run, wait or sleep.
//!
//! Once sched_setaffinity has returned, the task must not be seen on a CPU outside its mask. The task checks its CPU
//! all the time, and a sequence number shows whether its mask changed around a check. Half of the tasks compute all the
//! time and the others sleep now and then, so that changes meet tasks that run, tasks in a queue, and tasks that sleep.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, setpriority_process};
use rustix::thread::{gettid, sched_getcpu, sched_setaffinity};

use crate::work::{Choices, Line, Work, allowed_cpus, cpu_set, now, ns};

/// Arguments of `affinity`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Length of the test.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 2000)]
    ms: u64,
    /// Tasks per CPU.
    #[arg(long, default_value_t = 3)]
    tasks: usize,
    /// Time between two changes.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 500)]
    every_us: u64,
    /// Fail if a computing task did not run for longer than this.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 100)]
    within_ms: u64,
    /// Seed of the choice of masks.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// State that a task shares with the thread that changes its affinity.
#[derive(Default)]
struct Shared {
    /// The task's id; 0 before it starts.
    tid: AtomicU64,
    /// Odd while the mask changes.
    sequence: AtomicU64,
    /// The CPUs allowed, by bit; CPUs from 64 on are not used.
    mask: AtomicU64,
}

impl Shared {
    /// Whether the task runs on a CPU outside its mask; `None` if the mask changed during the check.
    fn is_astray(&self, cpu: impl Fn() -> usize) -> Option<bool> {
        let before = self.sequence.load(Ordering::SeqCst);
        let mask = self.mask.load(Ordering::SeqCst);
        let cpu = cpu();
        let after = self.sequence.load(Ordering::SeqCst);
        (before == after && before.is_multiple_of(2)).then_some(cpu >= 64 || mask >> cpu & 1 == 0)
    }
}

/// What a task saw.
struct Seen {
    astray: u64,
    looks: u64,
    longest_gap: Duration,
    right: bool,
}

/// Runs the tasks and changes them.
pub(crate) fn run(args: &Args) -> Result<Line> {
    let cpus: Vec<usize> = allowed_cpus()?.into_iter().filter(|&cpu| cpu < 64).collect();
    ensure!(!cpus.is_empty(), "none of the first 64 CPUs may be used");
    let all = cpus.iter().fold(0, |mask, &cpu| mask | 1 << cpu);
    let tasks: Vec<Shared> = (0..args.tasks * cpus.len())
        .map(|_| Shared { mask: AtomicU64::new(all), ..Shared::default() })
        .collect();
    let stop = AtomicBool::new(false);
    let (seen, changes) = thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(&tasks)
            .map(|(seed, shared)| {
                let stop = &stop;
                scope.spawn(move || task(shared, seed, seed % 2 == 1, stop))
            })
            .collect();
        let changes = change(args, &tasks, &cpus);
        stop.store(true, Ordering::Relaxed);
        let seen: Vec<Seen> = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        (seen, changes)
    });
    let changes = changes?;
    let astray: u64 = seen.iter().map(|seen| seen.astray).sum();
    let right = seen.iter().filter(|seen| seen.right && seen.looks > 0).count();
    let longest = seen.iter().map(|seen| seen.longest_gap).max().unwrap_or_default();
    let bound = Duration::from_millis(args.within_ms);
    Ok(Line::new("affinity")
        .add("tasks", right)
        .add("changes", changes)
        .add("looks", seen.iter().map(|seen| seen.looks).sum::<u64>())
        .add("astray", astray)
        .add("longest_gap_ns", ns(longest))
        .add("bound_ns", ns(bound))
        .expect(right == tasks.len(), format!("{} tasks with right results", tasks.len()), right)
        .expect(astray == 0, "no task outside its mask", format!("{astray} looks from there"))
        .expect(longest <= bound, format!("at most {bound:?} between two looks"), format!("{longest:?}")))
}

/// Changes one task after the other until the time is over. Returns the number of changes.
fn change(args: &Args, tasks: &[Shared], cpus: &[usize]) -> Result<u64> {
    let mut choices = Choices::new(args.seed);
    let mut changes = 0;
    let end = now() + Duration::from_millis(args.ms);
    while now() < end {
        let task = &tasks[choices.below(tasks.len() as u64) as usize];
        thread::sleep(Duration::from_micros(args.every_us));
        let tid = i32::try_from(task.tid.load(Ordering::SeqCst)).ok().and_then(Pid::from_raw);
        let Some(tid) = tid else { continue };
        // One CPU, two, or all but one.
        let first = choices.below(cpus.len() as u64) as usize;
        let chosen: Vec<usize> = match choices.below(3) {
            0 => vec![cpus[first]],
            1 => vec![cpus[first], cpus[(first + 1) % cpus.len()]],
            _ if cpus.len() > 1 => cpus.iter().copied().filter(|&cpu| cpu != cpus[first]).collect(),
            _ => cpus.to_vec(),
        };
        task.sequence.fetch_add(1, Ordering::SeqCst);
        sched_setaffinity(Some(tid), &cpu_set(chosen.iter().copied())).context("sched_setaffinity")?;
        task.mask.store(chosen.iter().fold(0, |mask, &cpu| mask | 1 << cpu), Ordering::SeqCst);
        task.sequence.fetch_add(1, Ordering::SeqCst);
        changes += 1;
        if choices.below(4) == 0 {
            // From -5 to 5: weights from 3,121 to 335. A smaller part would make the bound meaningless.
            let nice = choices.below(11) as i32 - 5;
            setpriority_process(Some(tid), nice).context("setpriority")?;
        }
    }
    Ok(changes)
}

fn task(shared: &Shared, seed: u64, sleeps: bool, stop: &AtomicBool) -> Seen {
    let mut work = Work::new(seed);
    let mut seen = Seen { astray: 0, looks: 0, longest_gap: Duration::ZERO, right: false };
    shared.tid.store(gettid().as_raw_nonzero().get().unsigned_abs().into(), Ordering::SeqCst);
    let mut last = now();
    while !stop.load(Ordering::Relaxed) {
        work.go_on();
        if let Some(astray) = shared.is_astray(sched_getcpu) {
            seen.looks += 1;
            seen.astray += u64::from(astray);
        }
        if sleeps && seen.looks.is_multiple_of(32) {
            thread::sleep(Duration::from_micros(300));
        }
        let time = now();
        if !sleeps {
            seen.longest_gap = seen.longest_gap.max(time - last);
        }
        last = time;
    }
    seen.right = work.steps > 0 && work.is_right(seed);
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_counts_only_if_the_mask_stood_still() {
        let shared = Shared { mask: AtomicU64::new(0b101), ..Shared::default() };
        assert_eq!(shared.is_astray(|| 0), Some(false));
        assert_eq!(shared.is_astray(|| 1), Some(true));
        assert_eq!(shared.is_astray(|| 2), Some(false));
        assert_eq!(shared.is_astray(|| 64), Some(true));
        // It changes during the check, or has begun to.
        let change = || {
            shared.sequence.fetch_add(2, Ordering::SeqCst);
            1
        };
        assert_eq!(shared.is_astray(change), None);
        shared.sequence.fetch_add(1, Ordering::SeqCst);
        assert_eq!(shared.is_astray(|| 1), None);
    }
}
