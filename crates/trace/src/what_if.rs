// SPDX-License-Identifier: GPL-2.0-or-later
//! What-ifs on the tasks of a recording: another nice value, another slice, other CPUs, a smaller machine, other
//! weights and quotas of groups.
//!
//! A change names tasks by the name, or by its beginning and `*`; for each task the longest pattern counts. The same
//! goes for task groups and their paths, with or without the first slash. A nice
//! value sets the weight as the kernel does, for real-time tasks too. CPUs replace those where a task may run, as
//! taskset does. Kernel threads of one CPU, which taskset refuses to move, are fitted onto the new CPUs
//! ([`crate::fold`]).
//!
//! Worked example: `a*` at nice 5 and `a1` at nice 0 give `a1` the weight 1024 and `a2` 335. With CPUs 2 and 3 for all
//! tasks, `a1` may run on both, and `migration/1` on CPU 3 only.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use wakelab_machine::{cpu_list, printable};
use wakelab_workload::{Group, Op, Quota, SLICES_NS, Task, Workload};

use crate::fold::{Fit, Folded, fit, fold};
use crate::groups::{WEIGHTS, quota_of_words, shares_of_weight};
use crate::kernel::{bound_cpu, weight_of_nice};
use crate::loops::closeness;
use crate::program::cpus;

/// The pattern that all names fit.
const ALL: &str = "*";
/// The word for a task that asks for no slice.
const BASE_SLICE: &str = "base";
/// The range of nice values.
const NICE: std::ops::RangeInclusive<i32> = -20..=19;

/// Tasks of some name at another nice value: `COMM=N`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NiceChange {
    comm: String,
    nice: i32,
}

/// Tasks of some name with another slice: `COMM=TIME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceChange {
    comm: String,
    /// `None`: that of all tasks.
    slice_ns: Option<u32>,
}

/// Tasks of some name with less CPU work: `COMM=N%`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FasterChange {
    comm: String,
    percent: u64,
}

/// Tasks of some name, or all, on other CPUs: `COMM=LIST` or `LIST`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpusChange {
    comm: String,
    /// In ascending order, at least one.
    cpus: Vec<u32>,
}

/// Task groups of some path with another weight: `CGROUP=N`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightChange {
    path: String,
    weight: u32,
}

/// Task groups of some path with another quota: `CGROUP=QUOTA_US/PERIOD_US`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaChange {
    path: String,
    quota: Option<Quota>,
}

/// Changes to the tasks of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhatIf {
    /// Weights of task groups.
    pub weights: Vec<WeightChange>,
    /// Quotas of task groups.
    pub quotas: Vec<QuotaChange>,
    /// Nice values.
    pub nice: Vec<NiceChange>,
    /// Slices of tasks.
    pub slices: Vec<SliceChange>,
    /// CPUs where tasks may run.
    pub cpus: Vec<CpusChange>,
    /// CPU work that becomes less. This also applies to workloads that are no recordings.
    pub faster: Vec<FasterChange>,
}

impl WhatIf {
    /// Adds the changes of another one, behind its own.
    pub fn add(&mut self, other: WhatIf) {
        let WhatIf { weights, quotas, nice, slices, cpus, faster } = other;
        self.weights.extend(weights);
        self.quotas.extend(quotas);
        self.nice.extend(nice);
        self.slices.extend(slices);
        self.cpus.extend(cpus);
        self.faster.extend(faster);
    }
}

/// What became of the tasks of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// What did not fit onto the machine.
    pub folded: Folded,
    /// One for each change of [`WhatIf`]: nice values, slices, CPUs, weights, quotas, work.
    pub what_if: Vec<ChangedTasks>,
}

/// What a change did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedTasks {
    /// `nice`, `slice`, `cpus`, `weight`, `quota` or `faster`.
    pub option: &'static str,
    /// The pattern of names, or of paths.
    pub comm: String,
    /// The nice value, the slice, the list of CPUs, the weight, the quota, or by how much the work is less.
    pub to: String,
    /// The number of tasks that it changed.
    pub tasks: u64,
    /// The number of task groups that it changed.
    pub groups: u64,
    /// The number of kernel threads among them that were bound to other CPUs.
    pub moved: u64,
}

/// Why a change cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhatIfError {
    /// No task has such a name.
    #[error("no task is called `{comm}`; expected the name of a task, or its beginning and *")]
    NoSuchTask {
        /// The pattern.
        comm: String,
    },
    /// No task group has such a path.
    #[error("no task was in a group called `{path}`; expected {}", expected_groups(.known))]
    NoSuchGroup {
        /// The pattern.
        path: String,
        /// The paths of all groups.
        known: Vec<String>,
    },
    /// Two changes for the same names.
    #[error("is given twice for `{comm}`; expected it once")]
    Twice {
        /// The pattern.
        comm: String,
    },
    /// A CPU that the machine lacks.
    #[error("names CPU {cpu}; the machine has CPUs 0 to {last}")]
    NoSuchCpu {
        /// The CPU.
        cpu: u32,
        /// The machine's last CPU.
        last: u32,
    },
}

impl FromStr for NiceChange {
    type Err = String;

    fn from_str(text: &str) -> Result<NiceChange, String> {
        let parse = || {
            let (comm, nice) = text.rsplit_once('=').filter(|(comm, _)| !comm.is_empty())?;
            let nice = nice.parse().ok().filter(|nice| NICE.contains(nice))?;
            Some(NiceChange { comm: comm.to_owned(), nice })
        };
        parse().ok_or_else(|| "expected COMM=N with N from -20 to 19, such as postgres=5".to_owned())
    }
}

impl FromStr for FasterChange {
    type Err = String;

    fn from_str(text: &str) -> Result<FasterChange, String> {
        let parse = || {
            let (comm, percent) =
                text.strip_suffix('%')?.rsplit_once('=').filter(|(comm, _)| !comm.is_empty())?;
            let percent = percent.parse().ok().filter(|percent| (1..100).contains(percent))?;
            Some(FasterChange { comm: comm.to_owned(), percent })
        };
        parse().ok_or_else(|| "expected COMM=N% with a whole N from 1 to 99, such as postgres=20%".to_owned())
    }
}

impl fmt::Display for FasterChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}%", self.comm, self.percent)
    }
}

impl fmt::Display for NiceChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.comm, self.nice)
    }
}

impl FromStr for SliceChange {
    type Err = String;

    fn from_str(text: &str) -> Result<SliceChange, String> {
        let parse = || {
            let (comm, time) = text.rsplit_once('=').filter(|(comm, _)| !comm.is_empty())?;
            if time == BASE_SLICE {
                return Some(SliceChange { comm: comm.to_owned(), slice_ns: None });
            }
            let units = [("us", 1_000.0), ("ms", 1_000_000.0)];
            let (number, unit_ns) =
                units.iter().find_map(|(unit, ns)| Some((time.strip_suffix(unit)?, ns)))?;
            let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            let slice_ns = number.parse::<f64>().ok().filter(|_| plain)? * unit_ns;
            let (least, most) = (f64::from(*SLICES_NS.start()), f64::from(*SLICES_NS.end()));
            Some(SliceChange { comm: comm.to_owned(), slice_ns: Some(slice_ns.clamp(least, most) as u32) })
        };
        parse().ok_or_else(|| {
            "expected COMM=TIME with a slice from 100us to 100ms, such as postgres=3ms, or `base` for that of all tasks"
                .to_owned()
        })
    }
}

impl fmt::Display for SliceChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.comm, self.to())
    }
}

/// Says which groups there are.
fn expected_groups(known: &[String]) -> String {
    const SHOWN: usize = 8;
    let more = if known.len() > SHOWN { ", ..." } else { "" };
    match known.len().min(SHOWN) {
        0 => "a recording with task groups, as `wakelab record` makes it".to_owned(),
        shown => format!("one of {}{more}, or a beginning and *", known[..shown].join(", ")),
    }
}

impl FromStr for WeightChange {
    type Err = String;

    fn from_str(text: &str) -> Result<WeightChange, String> {
        let parse = || {
            let (path, weight) = text.rsplit_once('=').filter(|(path, _)| !path.is_empty())?;
            let weight = weight.parse().ok().filter(|weight| WEIGHTS.contains(weight))?;
            Some(WeightChange { path: path.to_owned(), weight })
        };
        parse().ok_or_else(|| {
            "expected CGROUP=N with N from 1 to 10000 as in cpu.weight, such as /batch=50; 100 is that of a new group"
                .to_owned()
        })
    }
}

impl fmt::Display for WeightChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.path, self.weight)
    }
}

impl FromStr for QuotaChange {
    type Err = String;

    fn from_str(text: &str) -> Result<QuotaChange, String> {
        let expected = "expected CGROUP=QUOTA_US/PERIOD_US with the words of cpu.max, such as /batch=50000/100000 or \
                        /batch=max";
        let (path, words) = text.rsplit_once('=').filter(|(path, _)| !path.is_empty()).ok_or(expected)?;
        match quota_of_words(words) {
            Ok(quota) => Ok(QuotaChange { path: path.to_owned(), quota }),
            Err(error) => Err(format!("{error}; {expected}")),
        }
    }
}

impl fmt::Display for QuotaChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.path, self.to())
    }
}

impl FromStr for CpusChange {
    type Err = String;

    fn from_str(text: &str) -> Result<CpusChange, String> {
        let (comm, list) = text.rsplit_once('=').unwrap_or((ALL, text));
        match cpus(list).filter(|_| !comm.is_empty()) {
            Some(cpus) => Ok(CpusChange { comm: comm.to_owned(), cpus }),
            None => Err("expected LIST or COMM=LIST with a list of CPUs such as 0-3,8".to_owned()),
        }
    }
}

impl fmt::Display for CpusChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = cpu_list(&self.cpus);
        if self.comm == ALL { f.write_str(&list) } else { write!(f, "{}={list}", self.comm) }
    }
}

/// What a pattern names.
trait Target: Sized {
    fn all_of(workload: &mut Workload) -> &mut [Self];
    /// How well the pattern fits; `None` if it does not.
    fn closeness(&self, pattern: &str) -> Option<(usize, bool)>;
    /// The error if a pattern fits none of all.
    fn unknown(pattern: &str, all: &[Self]) -> WhatIfError;
}

impl Target for Task {
    fn all_of(workload: &mut Workload) -> &mut [Task] {
        &mut workload.tasks
    }

    fn closeness(&self, pattern: &str) -> Option<(usize, bool)> {
        closeness(pattern, &self.name)
    }

    fn unknown(pattern: &str, _: &[Task]) -> WhatIfError {
        WhatIfError::NoSuchTask { comm: pattern.to_owned() }
    }
}

impl Target for Group {
    fn all_of(workload: &mut Workload) -> &mut [Group] {
        &mut workload.groups
    }

    fn closeness(&self, pattern: &str) -> Option<(usize, bool)> {
        let bare = self.name.strip_prefix('/').unwrap_or(&self.name);
        [&self.name, bare].into_iter().filter_map(|path| closeness(pattern, path)).max()
    }

    fn unknown(pattern: &str, all: &[Group]) -> WhatIfError {
        let known = all.iter().map(|group| group.name.clone()).collect();
        WhatIfError::NoSuchGroup { path: pattern.to_owned(), known }
    }
}

/// A change with a pattern of names.
trait Change: fmt::Display {
    const OPTION: &'static str;
    /// A task, or a task group.
    type Of: Target;
    fn pattern(&self) -> &str;
    fn to(&self) -> String;
    /// Changes what the pattern fits, and counts it.
    fn apply(&self, to: &mut Self::Of, done: &mut ChangedTasks);
}

impl Change for NiceChange {
    const OPTION: &'static str = "nice";
    type Of = Task;

    fn pattern(&self) -> &str {
        &self.comm
    }

    fn to(&self) -> String {
        self.nice.to_string()
    }

    fn apply(&self, task: &mut Task, done: &mut ChangedTasks) {
        task.weight = weight_of_nice(self.nice);
        done.tasks += 1;
    }
}

impl Change for SliceChange {
    const OPTION: &'static str = "slice";
    type Of = Task;

    fn pattern(&self) -> &str {
        &self.comm
    }

    fn to(&self) -> String {
        match self.slice_ns {
            None => BASE_SLICE.to_owned(),
            Some(ns) if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
            Some(ns) => format!("{}us", f64::from(ns) / 1e3),
        }
    }

    fn apply(&self, task: &mut Task, done: &mut ChangedTasks) {
        task.slice_ns = self.slice_ns;
        done.tasks += 1;
    }
}

impl Change for FasterChange {
    const OPTION: &'static str = "faster";
    type Of = Task;

    fn pattern(&self) -> &str {
        &self.comm
    }

    fn to(&self) -> String {
        format!("{}%", self.percent)
    }

    /// Shortens each piece of work, rounded to the nearest nanosecond. Messages, memory traffic and sleeps stay.
    fn apply(&self, task: &mut Task, done: &mut ChangedTasks) {
        for op in &mut task.program {
            if let Op::Compute { work_ns, .. }
            | Op::Send { work_ns, .. }
            | Op::Recv { work_ns, .. }
            | Op::Poll { work_ns, .. }
            | Op::Memory { work_ns, .. } = op
            {
                let less = u128::from(*work_ns) * u128::from(100 - self.percent);
                *work_ns = ((less + 50) / 100) as u64;
            }
        }
        done.tasks += 1;
    }
}

impl Change for CpusChange {
    const OPTION: &'static str = "cpus";
    type Of = Task;

    fn pattern(&self) -> &str {
        &self.comm
    }

    fn to(&self) -> String {
        cpu_list(&self.cpus)
    }

    fn apply(&self, task: &mut Task, done: &mut ChangedTasks) {
        let is_bound = bound_cpu(&task.name).is_some() && task.allowed.is_some();
        if !is_bound {
            task.allowed = Some(self.cpus.clone());
        }
        done.moved += u64::from(fit(task, &self.cpus) == Fit::Moved);
        done.tasks += 1;
    }
}

impl Change for WeightChange {
    const OPTION: &'static str = "weight";
    type Of = Group;

    fn pattern(&self) -> &str {
        &self.path
    }

    fn to(&self) -> String {
        self.weight.to_string()
    }

    fn apply(&self, group: &mut Group, done: &mut ChangedTasks) {
        group.shares = shares_of_weight(self.weight);
        done.groups += 1;
    }
}

impl Change for QuotaChange {
    const OPTION: &'static str = "quota";
    type Of = Group;

    fn pattern(&self) -> &str {
        &self.path
    }

    fn to(&self) -> String {
        match self.quota {
            Some(Quota { quota_ns, period_ns }) => format!("{}/{}", quota_ns / 1000, period_ns / 1000),
            None => "max".to_owned(),
        }
    }

    fn apply(&self, group: &mut Group, done: &mut ChangedTasks) {
        group.quota = self.quota;
        done.groups += 1;
    }
}

impl WhatIf {
    /// Fits a recording's tasks onto a machine of `nr_cpus` CPUs, and makes the changes.
    ///
    /// # Errors
    /// The option and why it cannot be applied.
    pub fn apply(&self, workload: &mut Workload, nr_cpus: u32) -> Result<Changed, (String, WhatIfError)> {
        let folded = fold(workload, nr_cpus);
        for change in &self.cpus {
            if let Some(&cpu) = change.cpus.iter().find(|cpu| **cpu >= nr_cpus) {
                let error = WhatIfError::NoSuchCpu { cpu, last: nr_cpus.saturating_sub(1) };
                return Err((format!("--cpus {change}"), error));
            }
        }
        let mut what_if = change_all(&self.nice, workload)?;
        what_if.extend(change_all(&self.slices, workload)?);
        what_if.extend(change_all(&self.cpus, workload)?);
        what_if.extend(change_all(&self.weights, workload)?);
        what_if.extend(change_all(&self.quotas, workload)?);
        what_if.extend(change_all(&self.faster, workload)?);
        Ok(Changed { folded, what_if })
    }

    /// Makes the changes that apply to any workload: less CPU work.
    ///
    /// # Errors
    /// The option and why it cannot be applied.
    pub fn apply_to_model(&self, workload: &mut Workload) -> Result<Changed, (String, WhatIfError)> {
        Ok(Changed { folded: Folded::default(), what_if: change_all(&self.faster, workload)? })
    }
}

/// Changes each task or group by the longest pattern that it fits.
fn change_all<C: Change>(
    changes: &[C],
    workload: &mut Workload,
) -> Result<Vec<ChangedTasks>, (String, WhatIfError)> {
    let all = C::Of::all_of(workload);
    let mut done = Vec::with_capacity(changes.len());
    for (index, change) in changes.iter().enumerate() {
        let comm = change.pattern().to_owned();
        let refuse = |error| Err((format!("--{} {change}", C::OPTION), error));
        if changes[..index].iter().any(|other| other.pattern() == comm) {
            return refuse(WhatIfError::Twice { comm });
        }
        if !all.iter().any(|one| one.closeness(&comm).is_some()) {
            return refuse(Target::unknown(&comm, all));
        }
        done.push(ChangedTasks { option: C::OPTION, comm, to: change.to(), tasks: 0, moved: 0, groups: 0 });
    }
    for one in all {
        let best = changes
            .iter()
            .zip(&mut done)
            .filter_map(|(change, done)| Some((one.closeness(change.pattern())?, change, done)))
            .max_by_key(|(closeness, ..)| *closeness);
        if let Some((_, change, done)) = best {
            change.apply(one, done);
        }
    }
    Ok(done)
}

impl Changed {
    /// Returns a sentence for a terminal about each change.
    pub fn notes(&self) -> Vec<String> {
        self.folded.note().into_iter().chain(self.what_if.iter().map(ChangedTasks::note)).collect()
    }
}

impl ChangedTasks {
    fn note(&self) -> String {
        let ChangedTasks { option, comm, to, tasks, moved, groups } = self;
        let called = match comm.as_str() {
            ALL => String::new(),
            comm => format!(" called {}", printable(comm)),
        };
        if *groups > 0 {
            let plural = if *groups == 1 { "" } else { "s" };
            return format!("what if: {groups} task group{plural}{called} with the {option} {to}");
        }
        let plural = if *tasks == 1 { "" } else { "s" };
        if *option == FasterChange::OPTION {
            return format!("what if: {tasks} task{plural}{called} with {to} less CPU work");
        }
        let is_one = to.bytes().all(|byte| byte.is_ascii_digit());
        let of = match *option {
            "nice" => "at nice",
            "slice" => "with the slice",
            _ if is_one => "only on CPU",
            _ => "only on CPUs",
        };
        let moved = match moved {
            0 => String::new(),
            1 => "; 1 of them was bound to another CPU".to_owned(),
            moved => format!("; {moved} of them were bound to other CPUs"),
        };
        format!("what if: {tasks} task{plural}{called} {of} {to}{moved}")
    }
}

#[cfg(test)]
#[path = "what_if_tests.rs"]
mod tests;
