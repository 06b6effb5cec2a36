// SPDX-License-Identifier: GPL-2.0-or-later
//! `forks`: forks at a rate, and checks the result of each task.
//!
//! Every other task is a process of this program, the rest are threads. Each computes, and ends with a code that
//! follows from its number. Forks, executions and exits come from all CPUs at the same time.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::work::{Line, Work, allowed_cpus, now, ns};

/// Arguments of `forks`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Forks per second, half of them processes.
    #[arg(long, default_value_t = 1000)]
    rate: u64,
    /// Length of the test.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 2000)]
    ms: u64,
    /// Fail below this percentage of the rate.
    #[arg(long, value_name = "PERCENT", default_value_t = 90)]
    at_least: u64,
}

/// Arguments of `child`.
#[derive(clap::Args)]
pub(crate) struct ChildArgs {
    number: u64,
}

/// Limit of the tasks that a starter has not yet waited for.
const OUTSTANDING: usize = 16;

/// Returns the exit code of the process of this number.
pub(crate) fn child(args: &ChildArgs) -> u8 {
    compute(args.number)
}

/// Does some work. Returns the code that follows from the number if the work was done right.
fn compute(number: u64) -> u8 {
    let mut work = Work::new(number);
    work.go_on();
    if work.is_right(number) { code(number) } else { 255 }
}

enum Task {
    Process(Child),
    Thread(JoinHandle<u8>),
}

fn start(program: &Path, number: u64) -> Result<Task> {
    if number % 2 == 1 {
        return Ok(Task::Thread(thread::spawn(move || compute(number))));
    }
    let child = Command::new(program).args(["child", &number.to_string()]).stdin(Stdio::null()).spawn();
    Ok(Task::Process(child.with_context(|| format!("cannot start process {number}"))?))
}

/// Returns 0 to 250, never the 255 of wrong work.
fn code(number: u64) -> u8 {
    (number % 251) as u8
}

/// Starts the tasks, from one thread per CPU.
pub(crate) fn run(args: &Args) -> Result<Line> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let starters = allowed_cpus()?.len() as u64;
    let total = args.rate * args.ms / 1000;
    let begin = now();
    let results: Vec<Result<u64>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..starters)
            .map(|starter| {
                let program = &program;
                scope.spawn(move || {
                    let mut running: Vec<(u64, Task)> = Vec::new();
                    let mut right = 0;
                    for number in (starter..total).step_by(starters as usize) {
                        thread::sleep(due(number, args.rate).saturating_sub(now() - begin));
                        running.push((number, start(program, number)?));
                        if running.len() > OUTSTANDING {
                            right += wait(running.remove(0))?;
                        }
                    }
                    for task in running {
                        right += wait(task)?;
                    }
                    Ok(right)
                })
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let took = now() - begin;
    let right: u64 = results.into_iter().sum::<Result<u64>>()?;
    let rate = total * 1_000_000_000 / ns(took).max(1);
    Ok(Line::new("forks")
        .add("tasks", right)
        .add("wall_ns", ns(took))
        .add("per_second", rate)
        .expect(right == total, format!("{total} tasks with right results"), right)
        .expect(
            rate >= args.rate * args.at_least / 100,
            format!("at least {} % of {} a second", args.at_least, args.rate),
            rate,
        ))
}

/// Returns the time from the begin to the start of a task.
fn due(number: u64, rate: u64) -> Duration {
    Duration::from_nanos(number * 1_000_000_000 / rate)
}

/// Returns 1 if the task ended with the code that its number demands.
fn wait((number, task): (u64, Task)) -> Result<u64> {
    let found = match task {
        Task::Process(mut child) => {
            child.wait().with_context(|| format!("cannot wait for process {number}"))?.code()
        }
        Task::Thread(thread) => thread.join().ok().map(i32::from),
    };
    let right = found == Some(code(number).into());
    if !right {
        eprintln!("wakelab-guest: task {number} should have ended with code {}: {found:?}", code(number));
    }
    Ok(right.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_s_code_follows_from_its_number() {
        assert_eq!(child(&ChildArgs { number: 0 }), 0);
        assert_eq!(child(&ChildArgs { number: 250 }), 250);
        assert_eq!(child(&ChildArgs { number: 251 }), 0);
        assert_eq!(compute(1000), 247); // 1000 - 3 * 251
    }

    #[test]
    fn tasks_are_due_at_the_rate() {
        assert_eq!(due(0, 1000), Duration::ZERO);
        assert_eq!(due(1, 1000), Duration::from_millis(1));
        assert_eq!(due(250, 500), Duration::from_millis(500));
    }
}
