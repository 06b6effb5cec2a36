// SPDX-License-Identifier: GPL-2.0-or-later
//! `forks`: starts processes at a rate, and checks the result of each.
//!
//! A process is this program again: it computes, and its exit code follows from its number. Fork, exec and exit come from all CPUs
//! while others do the same.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::work::{Line, Work, allowed_cpus, now, ns};

/// Arguments of `forks`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Processes a second.
    #[arg(long, default_value_t = 1000)]
    rate: u64,
    /// For how long.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 2000)]
    ms: u64,
    /// Fail if fewer than this part of the rate was reached, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 90)]
    at_least: u64,
}

/// Arguments of `child`.
#[derive(clap::Args)]
pub(crate) struct ChildArgs {
    number: u64,
}

/// A starter keeps at most so many processes that it has not waited for.
const OUTSTANDING: usize = 16;

/// What the process of this number ends with: by its number, and by work done on the way.
pub(crate) fn child(args: &ChildArgs) -> u8 {
    let mut work = Work::new(args.number);
    work.go_on();
    if work.is_right(args.number) { code(args.number) } else { 255 }
}

/// 0 to 250, never the 255 of wrong work.
fn code(number: u64) -> u8 {
    (number % 251) as u8
}

/// Starts them, from one thread a CPU.
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
                    let mut running: Vec<(u64, Child)> = Vec::new();
                    let mut right = 0;
                    for number in (starter..total).step_by(starters as usize) {
                        thread::sleep(due(number, args.rate).saturating_sub(now() - begin));
                        let child = Command::new(program)
                            .args(["child", &number.to_string()])
                            .stdin(Stdio::null())
                            .spawn()
                            .with_context(|| format!("cannot start process {number}"))?;
                        running.push((number, child));
                        if running.len() > OUTSTANDING {
                            right += wait(running.remove(0))?;
                        }
                    }
                    for child in running {
                        right += wait(child)?;
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
        .add("processes", right)
        .add("wall_ns", ns(took))
        .add("per_second", rate)
        .expect(right == total, format!("{total} processes with right results"), right)
        .expect(
            rate >= args.rate * args.at_least / 100,
            format!("at least {} % of {} a second", args.at_least, args.rate),
            rate,
        ))
}

/// When a process is to be started, since the begin.
fn due(number: u64, rate: u64) -> Duration {
    Duration::from_nanos(number * 1_000_000_000 / rate)
}

/// 1 if the process ended with the code that its number demands.
fn wait((number, mut child): (u64, Child)) -> Result<u64> {
    let status = child.wait().with_context(|| format!("cannot wait for process {number}"))?;
    let right = status.code() == Some(code(number).into());
    if !right {
        eprintln!("wakelab-guest: process {number} should have ended with code {}: {status}", code(number));
    }
    Ok(right.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_s_code_follows_from_its_number() {
        assert_eq!(child(&ChildArgs { number: 0 }), 0);
        assert_eq!(child(&ChildArgs { number: 250 }), 250);
        assert_eq!(child(&ChildArgs { number: 251 }), 0);
        assert_eq!(child(&ChildArgs { number: 1000 }), 247); // 1000 - 3 * 251
    }

    #[test]
    fn processes_are_due_at_the_rate() {
        assert_eq!(due(0, 1000), Duration::ZERO);
        assert_eq!(due(1, 1000), Duration::from_millis(1));
        assert_eq!(due(250, 500), Duration::from_millis(500));
    }
}
