// SPDX-License-Identifier: GPL-2.0-or-later
//! What all kinds of work share: a computation whose result shows its progress, clocks, CPUs, and the line of results.
//!
//! The computation is a linear congruential generator. Its state after n steps can be computed in log n steps, so that
//! a worker's claim to have done n steps is checked without doing them again.

use std::fmt::Display;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Multiplier and increment of MMIX (Knuth, The Art of Computer Programming 2, 3.3.4): full period of 2^64.
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;

/// Steps between two looks at a clock or a flag: some microseconds.
const STEPS: u32 = 2_000;

/// A computation in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// Steps done.
    pub(crate) steps: u64,
    state: u64,
}

impl Work {
    /// Returns a computation with no steps done.
    pub(crate) fn new(seed: u64) -> Work {
        Work { steps: 0, state: seed }
    }

    /// Does steps for a few microseconds.
    pub(crate) fn go_on(&mut self) {
        for _ in 0..STEPS {
            // Without a use of each result, the compiler folds many steps into one.
            self.state = std::hint::black_box(next(self.state));
        }
        self.steps += u64::from(STEPS);
    }

    /// Computes until the thread has used `time` of CPU time since this call. Looks at the clock seldom: each
    /// look makes Linux charge the thread, and may end its slice there, while slices of other programs end at
    /// ticks. So it goes on for half of what seems to be left until the next look.
    pub(crate) fn use_cpu_time(&mut self, time: Duration) {
        let begin = thread_cpu_time();
        let (mut rounds, mut used) = (0, Duration::ZERO);
        while used < time {
            let left = (time - used).as_nanos();
            let until_look = (left * rounds).checked_div(used.as_nanos() * 2).unwrap_or(0).max(1);
            for _ in 0..until_look {
                self.go_on();
                end_turn();
            }
            rounds += until_look;
            used = thread_cpu_time() - begin;
        }
    }

    /// Whether the state is the one that this number of steps leads to.
    pub(crate) fn is_right(&self, seed: u64) -> bool {
        self.state == jump(seed, self.steps)
    }
}

/// Ends this CPU's turn if CPUs are emulated in turns; every long computation must call it.
///
/// In virtual time a CPU's turn ends when a timer is due, and the next CPU handles that timer instead of executing
/// anything. If nothing else ends turns, every other turn is lost, and with an even number of busy CPUs the same CPU
/// always loses it: it stands still for up to half a second. A `pause` ends a turn before that. To a real CPU it is a
/// hint that takes some nanoseconds.
pub(crate) fn end_turn() {
    std::hint::spin_loop();
}

fn next(state: u64) -> u64 {
    state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT)
}

/// Returns the state after `steps` steps: the affine map `x -> MULTIPLIER x + INCREMENT` composed with itself by
/// repeated squaring (F. Brown, Random number generation with arbitrary strides, 1994).
fn jump(seed: u64, mut steps: u64) -> u64 {
    let (mut multiplier, mut increment) = (MULTIPLIER, INCREMENT);
    let mut state = seed;
    while steps > 0 {
        if steps % 2 == 1 {
            state = state.wrapping_mul(multiplier).wrapping_add(increment);
        }
        increment = multiplier.wrapping_mul(increment).wrapping_add(increment);
        multiplier = multiplier.wrapping_mul(multiplier);
        steps /= 2;
    }
    state
}

/// Random numbers for choices, from a seed: the upper half of the generator's state, below `bound`.
pub(crate) struct Choices(u64);

impl Choices {
    /// Returns the sequence of this seed.
    pub(crate) fn new(seed: u64) -> Choices {
        Choices(jump(seed, 1_000_003))
    }

    /// Returns a number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = next(self.0);
        (self.0 >> 32) % bound
    }
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the time by CLOCK_MONOTONIC.
pub(crate) fn now() -> Duration {
    clock(ClockId::Monotonic)
}

/// Returns the calling thread's CPU time.
pub(crate) fn thread_cpu_time() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

/// Returns the nanoseconds of a duration; 64 bits hold 584 years.
pub(crate) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the CPUs that this thread may run on, in order.
pub(crate) fn allowed_cpus() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("sched_getaffinity")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Binds the calling thread to one CPU.
pub(crate) fn pin(cpu: usize) -> Result<()> {
    sched_setaffinity(None, &cpu_set([cpu])).with_context(|| format!("cannot bind a task to CPU {cpu}"))
}

/// Returns a set of these CPUs.
pub(crate) fn cpu_set(cpus: impl IntoIterator<Item = usize>) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.into_iter().for_each(|cpu| set.set(cpu));
    set
}

/// The line that a subcommand prints, with its errors.
pub(crate) struct Line {
    text: String,
    wrong: Vec<String>,
}

impl Line {
    /// Returns a line that begins with the subcommand's name.
    pub(crate) fn new(name: &str) -> Line {
        Line { text: name.to_owned(), wrong: Vec::new() }
    }

    /// Appends ` key=value`.
    pub(crate) fn add(mut self, key: &str, value: impl Display) -> Line {
        self.text += &format!(" {key}={value}");
        self
    }

    /// Adds an error: what was expected and what was found.
    pub(crate) fn expect(mut self, right: bool, expected: impl Display, found: impl Display) -> Line {
        if !right {
            self.wrong.push(format!("expected {expected}, found {found}"));
        }
        self
    }

    /// Prints the line to stdout and the errors to stderr.
    pub(crate) fn print(self) -> ExitCode {
        // The reader may be gone.
        let written = writeln!(std::io::stdout(), "{}", self.text);
        for wrong in &self.wrong {
            eprintln!("wakelab-guest: {wrong}");
        }
        if written.is_ok() && self.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Arguments of `worker`.
#[derive(clap::Args)]
pub(crate) struct WorkerArgs {
    /// Start value of the computation.
    #[arg(long)]
    seed: u64,
}

/// Computes until standard input ends.
pub(crate) fn run_worker(args: &WorkerArgs) -> Result<Line> {
    static STOP: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
        // An error is an end too: the process that started this one is gone.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        STOP.store(true, Ordering::Relaxed);
    });
    let mut work = Work::new(args.seed);
    while !STOP.load(Ordering::Relaxed) {
        work.go_on();
    }
    Ok(Line::new("worker").add("steps", work.steps).add("state", work.state))
}

/// Parses the output of a worker.
pub(crate) fn parse_worker(text: &str) -> Option<Work> {
    let value = |key: &str| text.split_whitespace().find_map(|word| word.strip_prefix(key)?.parse().ok());
    Some(Work { steps: value("steps=")?, state: value("state=")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_are_steps() {
        // By hand: 0 steps change nothing, one step is next, two are next of next.
        assert_eq!(jump(7, 0), 7);
        assert_eq!(jump(0, 1), INCREMENT);
        assert_eq!(jump(1, 1), MULTIPLIER.wrapping_add(INCREMENT));
        assert_eq!(jump(7, 2), next(next(7)));
        let mut state = 42;
        for steps in 0..300 {
            assert_eq!(jump(42, steps), state, "{steps}");
            state = next(state);
        }
    }

    #[test]
    fn lost_and_invented_work_is_found() {
        let mut work = Work::new(5);
        work.go_on();
        work.go_on();
        assert_eq!(work.steps, 2 * u64::from(STEPS));
        assert!(work.is_right(5));
        assert!(!work.is_right(6));
        assert!(!Work { steps: work.steps + 1, ..work }.is_right(5));
        assert!(!Work { steps: work.steps - u64::from(STEPS), ..work }.is_right(5));
    }

    #[test]
    fn cpu_time_is_used_up() {
        let (mut work, begin) = (Work::new(5), thread_cpu_time());
        work.use_cpu_time(Duration::from_millis(2));
        assert!(thread_cpu_time() - begin >= Duration::from_millis(2));
        assert!(work.steps > 0 && work.is_right(5));
        let steps = work.steps;
        work.use_cpu_time(Duration::ZERO);
        assert_eq!(work.steps, steps);
    }

    #[test]
    fn a_worker_s_line_is_read_back() {
        let work = Work { steps: 4000, state: u64::MAX };
        let line = Line::new("worker").add("steps", work.steps).add("state", work.state);
        assert_eq!(parse_worker(&line.text), Some(work));
        assert_eq!(parse_worker("worker steps=4000"), None);
        assert_eq!(parse_worker(""), None);
    }

    #[test]
    fn choices_are_below_their_bound_and_differ_by_seed() {
        let take = |seed| {
            let mut choices = Choices::new(seed);
            (0..100).map(|_| choices.below(10)).collect::<Vec<u64>>()
        };
        assert!(take(1).iter().all(|&choice| choice < 10));
        assert!((0..10).all(|value| take(1).contains(&value)));
        assert_ne!(take(1), take(2));
    }

    #[test]
    fn what_is_wrong_makes_the_exit_code() {
        let line = || Line::new("x").add("a", 1);
        assert_eq!(line().text, "x a=1");
        assert_eq!(line().expect(true, "1", "1").print(), ExitCode::SUCCESS);
        let wrong = line().expect(false, "2 tasks", "1");
        assert_eq!(wrong.wrong, ["expected 2 tasks, found 1"]);
        assert_eq!(wrong.print(), ExitCode::FAILURE);
    }
}
