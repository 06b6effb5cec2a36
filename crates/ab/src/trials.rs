// SPDX-License-Identifier: GPL-2.0-or-later
//! The trials: block after block, until the intervals are narrow enough or the number of blocks asked for was run.
//!
//! The trials stop when an interval is *narrow*, because this keeps the interval's meaning (Chow and Robbins 1965,
//! sequential intervals of fixed width). They never stop because a gain is *significant*, because this would not. A
//! narrow interval over few blocks may be luck, so at least [`BLOCKS_MIN`] are run.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use regex::Regex;
use wakelab_policy::PolicySpec;
use wakelab_stats::{Direction, Gain, paired_gain};

use crate::command::{self, Finished, status_words};
use crate::counters::{Counters, Sources};
use crate::descendants::end_descendants;
use crate::error::{AbError, system};
use crate::interrupt::Interrupt;
use crate::kernel::{Loader, LoaderCommand, SchedExt};
use crate::metrics::{Measured, metrics};
use crate::order::Orders;
use crate::runs::{LeftRunning, StoppedBy, TrialRuns, VoidRun};

/// The smallest number of blocks after which an interval can stop the trials.
const BLOCKS_MIN: usize = 5;
/// The number of void runs at which the trials are given up.
const VOID_MAX: usize = 3;
/// Pause between the change of schedulers and the run, under every side. What the change left to do is done by then.
const SETTLE: Duration = Duration::from_millis(100);

/// Where the kernel shows its state.
const SYSFS: &str = "/sys";

/// A scheduler that the command is run under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// The kernel's own scheduler.
    Kernel,
    /// A policy, which the loader attaches.
    Policy(Box<PolicySpec>),
}

impl Side {
    /// Returns the name in tables: `kernel`, or the policy's.
    pub fn name(&self) -> String {
        match self {
            Side::Kernel => "kernel".to_owned(),
            Side::Policy(spec) => spec.to_string(),
        }
    }
}

/// A number that the command prints.
#[derive(Clone, Debug)]
pub struct OwnMetric {
    /// Finds the number, which is its first group. The last match counts; each line is searched by itself.
    pub regex: Regex,
    /// Which way is better.
    pub direction: Direction,
}

/// The trials to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Program and arguments; not empty.
    pub command: Vec<String>,
    /// The first is the baseline; not empty.
    pub sides: Vec<Side>,
    /// Maximum number of runs under each side; at least 1.
    pub runs_max: usize,
    /// Stop when the 95 % interval of the result's gain is within ± this many percent, for every side.
    pub until_percent: Option<f64>,
    /// Number of runs before the first block, under the kernel's own scheduler. They do not count.
    pub warmup_runs: usize,
    /// Seed of the random order.
    pub seed: u64,
    /// The number that the command prints, as the result; `None`: the wall time is the result.
    pub metric: Option<OwnMetric>,
    /// The program that loads policies.
    pub loader: LoaderCommand,
    /// Where the kernel shows sched_ext: `/sys`.
    pub sysfs: PathBuf,
}

/// What happens, for a caller that shows progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// A run begins.
    Run {
        /// The scheduler.
        side: &'a str,
    },
    /// A run counts.
    Done,
    /// A run, and with it its block so far, does not count.
    Void {
        /// The scheduler.
        side: &'a str,
        /// What happened.
        why: &'a str,
        /// Number of runs of the block that had counted.
        lost_runs: usize,
    },
}

/// How a run ended that did not end the trials.
enum Run {
    Valid(Measured),
    /// The scheduler did not stay attached, for this reason.
    Void(String),
}

/// Runs the plan. The kernel's own scheduler runs at the end in any case, unless the error says that it does not.
///
/// Makes this process a child subreaper, and ends every process below it after each run, but for the loader.
///
/// # Errors
/// Policies cannot be loaded; the command fails; too many runs are void; the interrupt was stopped.
pub fn run(
    plan: &Plan,
    interrupt: &Interrupt,
    watch: &mut dyn FnMut(Progress<'_>),
) -> Result<TrialRuns, AbError> {
    prctl::set_child_subreaper(true).map_err(system("become a child subreaper"))?;
    let sched_ext = SchedExt::new(&plan.sysfs);
    check(plan, &sched_ext, nix::unistd::geteuid().is_root())?;
    let sources = Sources::default();
    for _ in 0..plan.warmup_runs {
        run_once(plan, &Side::Kernel, &sched_ext, &sources, interrupt)?;
    }
    let missing = Counters::start(&sources).missing();

    let names: Vec<String> = plan.sides.iter().map(Side::name).collect();
    let mut orders = Orders::new(plan.seed, plan.sides.len());
    let (mut order, mut blocks, mut void) = (Vec::new(), Vec::new(), Vec::<VoidRun>::new());
    let mut stopped_by = StoppedBy::Runs;
    while blocks.len() < plan.runs_max {
        let next = orders.next();
        let block = loop {
            let mut measured: Vec<Option<Measured>> = plan.sides.iter().map(|_| None).collect();
            let mut failed = None;
            for &side in &next {
                watch(Progress::Run { side: &names[side] });
                match run_once(plan, &plan.sides[side], &sched_ext, &sources, interrupt)? {
                    Run::Valid(run) => measured[side] = Some(run),
                    Run::Void(why) => {
                        failed = Some((side, why));
                        break;
                    }
                }
                watch(Progress::Done);
            }
            let Some((side, why)) = failed else {
                break measured.into_iter().map(|run| run.expect("every side was run")).collect::<Vec<_>>();
            };
            let lost_runs = measured.iter().flatten().count();
            watch(Progress::Void { side: &names[side], why: &why, lost_runs });
            void.push(VoidRun { block: blocks.len(), side, why });
            if void.len() >= VOID_MAX {
                let VoidRun { side, why, .. } = void.remove(VOID_MAX - 1);
                return Err(AbError::Void { count: VOID_MAX, side: names[side].clone(), why });
            }
        };
        order.push(next);
        blocks.push(block);
        if plan.until_percent.is_some_and(|percent| is_narrow(plan, &blocks, percent)) {
            stopped_by = StoppedBy::Interval;
            break;
        }
    }

    let uname = nix::sys::utsname::uname().map_err(system("ask for the kernel's release"))?;
    Ok(TrialRuns {
        command: plan.command.clone(),
        kernel: uname.release().to_string_lossy().into_owned(),
        nr_cpus: online_cpus()?,
        sides: names,
        seed: plan.seed,
        order,
        metrics: metrics(&blocks, plan.metric.as_ref().map(|metric| metric.direction), &missing),
        regex: plan.metric.as_ref().map(|metric| metric.regex.as_str().to_owned()),
        missing,
        void,
        left_running: left_running(&blocks),
        stopped_by,
    })
}

/// Sums up what the command left running.
fn left_running(blocks: &[Vec<Measured>]) -> LeftRunning {
    let counts = || blocks.iter().flatten().map(|run| run.left_running).filter(|&count| count > 0);
    LeftRunning { processes: counts().sum(), runs: counts().count() }
}

/// Refuses a plan that cannot work, before anything is run.
fn check(plan: &Plan, sched_ext: &SchedExt, is_root: bool) -> Result<(), AbError> {
    if plan.sides.iter().all(|side| *side == Side::Kernel) {
        // The kernel need not have sched_ext.
        return if sched_ext.is_free()? { Ok(()) } else { sched_ext.demand_free() };
    }
    // Another folder than the kernel's is a test's: nothing is loaded into a kernel.
    if plan.sysfs == Path::new(SYSFS) && !is_root {
        return Err(AbError::NotRoot);
    }
    sched_ext.demand_free()?;
    plan.loader.check()
}

/// Whether the result's interval is within plus and minus `percent` for every side but the first.
fn is_narrow(plan: &Plan, blocks: &[Vec<Measured>], percent: f64) -> bool {
    if blocks.len() < BLOCKS_MIN {
        return false;
    }
    let (direction, value): (Direction, fn(&Measured) -> Option<f64>) = match &plan.metric {
        Some(metric) => (metric.direction, |run| run.metric),
        None => (Direction::Lower, |run| Some(run.elapsed_ns as f64)),
    };
    let values = |side: usize| blocks.iter().map(|block| value(&block[side])).collect::<Vec<_>>();
    (1..plan.sides.len()).all(|side| within(&paired_gain(&values(0), &values(side), direction), percent))
}

fn within(gain: &Gain, percent: f64) -> bool {
    gain.ci_percent.is_some_and(|[low, high]| (high - low) / 2.0 <= percent)
}

/// Runs the command once under one side.
fn run_once(
    plan: &Plan,
    side: &Side,
    sched_ext: &SchedExt,
    sources: &Sources,
    interrupt: &Interrupt,
) -> Result<Run, AbError> {
    if interrupt.is_stopped() {
        return Err(AbError::Interrupted);
    }
    let name = side.name();
    let mut loader = match side {
        Side::Kernel => None,
        Side::Policy(_) => Some(Loader::start(&plan.loader, &name, sched_ext, interrupt)?),
    };
    thread::sleep(SETTLE);
    let counters = Counters::start(sources);
    let finished = command::run(&plan.command, interrupt);
    let counted = counters.finish();
    let lost = match &mut loader {
        Some(loader) => loader.lost()?,
        None if sched_ext.is_free()? => None,
        None => Some("another sched_ext scheduler was attached during the run".to_owned()),
    };
    let left_running = end_descendants(loader.as_ref().map(Loader::pid), Signal::SIGTERM)?;
    let unclean = match loader {
        Some(loader) => loader.stop()?,
        None => None,
    };
    if interrupt.is_stopped() {
        return Err(AbError::Interrupted);
    }
    let mut finished = finished?;
    // The command may have failed because its scheduler was detached, so this comes first.
    if let Some(why) = lost.or(unclean) {
        return Ok(Run::Void(why));
    }
    if !finished.status.success() {
        let (status, said) = (status_words(finished.status), finished.output.last_lines()?);
        return Err(AbError::CommandFailed { side: name, status, said });
    }
    let metric = match &plan.metric {
        None => None,
        Some(metric) => match finished.output.last_number(&metric.regex, interrupt)? {
            Some(value) => Some(value),
            None => {
                let (regex, said) = (metric.regex.to_string(), finished.output.last_lines()?);
                return Err(AbError::NoMetric { side: name, regex, said });
            }
        },
    };
    let Finished { elapsed_ns, usage, .. } = finished;
    Ok(Run::Valid(Measured { metric, elapsed_ns, usage, counted, left_running }))
}

/// Returns the number of CPUs in the kernel's list, for instance 5 for `0-3,5`.
fn online_cpus() -> Result<usize, AbError> {
    let path = "/sys/devices/system/cpu/online";
    let what = format!("read {path}");
    let list = std::fs::read_to_string(path).map_err(system(what.clone()))?;
    let count = |range: &str| -> Option<usize> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
    };
    let counts: Option<Vec<usize>> = list.trim().split(',').map(count).collect();
    let counts = counts.ok_or_else(|| {
        system(what)(std::io::Error::other(format!("expected a list of CPUs, found {list}")))
    })?;
    Ok(counts.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(sides: Vec<Side>) -> Plan {
        Plan {
            command: vec!["true".to_owned()],
            sides,
            runs_max: 1,
            until_percent: None,
            warmup_runs: 0,
            seed: 1,
            metric: None,
            loader: LoaderCommand { program: "/no/such/loader".into(), arguments: Vec::new() },
            sysfs: SYSFS.into(),
        }
    }

    #[test]
    fn only_root_loads_policies() {
        let policy = Side::Policy(Box::new("linux-4.15".parse().unwrap()));
        let sched_ext = SchedExt::new(Path::new("/no/such/tree"));
        let refused =
            |sides, is_root| check(&plan(sides), &sched_ext, is_root).map_err(|error| error.to_string());
        assert!(refused(vec![Side::Kernel, policy.clone()], false).unwrap_err().contains("only root"));
        assert!(refused(vec![Side::Kernel, policy], true).unwrap_err().contains("no sched_ext"));
        // The kernel against itself takes neither.
        assert_eq!(refused(vec![Side::Kernel, Side::Kernel], false), Ok(()));
    }

    #[test]
    fn an_interval_is_narrow_on_both_sides() {
        let gain = |ci_percent| Gain { gain_percent: Some(1.0), ci_percent, marked: false };
        assert!(within(&gain(Some([-1.0, 3.0])), 2.0));
        assert!(!within(&gain(Some([-1.1, 3.0])), 2.0));
        assert!(!within(&gain(None), 2.0));
    }
}
