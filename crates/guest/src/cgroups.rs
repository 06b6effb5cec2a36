// SPDX-License-Identifier: GPL-2.0-or-later
//! `cgroups`: creates many cgroups, gives them weights, moves busy workers in and out, and removes them.
//!
//! There are always as many cgroups as workers, one busy worker in each. A new cgroup takes over the worker of the
//! oldest, which is removed at once: its task runs, waits or is in the middle of a slice when its group goes away.
//! Every fourth has a separate parent. At the end each worker reports its progress, which is checked.
//!
//! All of them are in one cgroup, wakelab, of the default weight. Otherwise this program and the kernel's threads,
//! which are in the root, would get only what one of them gets, and creating the cgroups would take most of a minute.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::work::{Choices, Line, Work, now, ns, parse_worker};

/// Arguments of `cgroups`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where cgroup v2 is mounted, with the controller cpu enabled for children.
    #[arg(long, value_name = "FOLDER", default_value = "/sys/fs/cgroup")]
    root: PathBuf,
    /// Number of cgroups, one after the other.
    #[arg(long, default_value_t = 200)]
    count: usize,
    /// Number of workers, and of cgroups at the same time.
    #[arg(long, default_value_t = 24)]
    workers: usize,
    /// Time from one new cgroup to the next.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 3000)]
    every_us: u64,
    /// Fail if a worker takes longer than this to end.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 5000)]
    within_ms: u64,
    /// Seed of the choice of weights.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Moves a process into a cgroup.
pub(crate) fn enter(cgroup: &Path, pid: u32) -> Result<()> {
    put(&cgroup.join("cgroup.procs"), pid)
}

/// Sets a cgroup's weight, 1 to 10,000.
pub(crate) fn set_weight(cgroup: &Path, weight: u64) -> Result<()> {
    put(&cgroup.join("cpu.weight"), weight)
}

/// Creates a cgroup, whose children can have weights if it has any.
pub(crate) fn create(cgroup: &Path, has_children: bool) -> Result<()> {
    fs::create_dir(cgroup).with_context(|| format!("cannot create {}", cgroup.display()))?;
    if has_children {
        put(&cgroup.join("cgroup.subtree_control"), "+cpu")?;
    }
    Ok(())
}

/// Removes an empty cgroup. A process that has just ended still counts for a moment.
pub(crate) fn remove(cgroup: &Path) -> Result<()> {
    let end = now() + Duration::from_secs(5);
    while let Err(error) = fs::remove_dir(cgroup) {
        if now() > end {
            return Err(error).with_context(|| format!("cannot remove {}", cgroup.display()));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn put(file: &Path, value: impl std::fmt::Display) -> Result<()> {
    fs::write(file, value.to_string()).with_context(|| format!("cannot write {value} to {}", file.display()))
}

/// A cgroup in use: where its processes are, and the folders to remove, innermost first.
struct Group {
    leaf: PathBuf,
    folders: Vec<PathBuf>,
}

fn make(parent: &Path, number: usize, choices: &mut Choices) -> Result<Group> {
    let outer = parent.join(number.to_string());
    let is_nested = number % 4 == 3;
    create(&outer, is_nested)?;
    set_weight(&outer, weight(choices))?;
    if !is_nested {
        return Ok(Group { leaf: outer.clone(), folders: vec![outer] });
    }
    let inner = outer.join("inner");
    create(&inner, false)?;
    set_weight(&inner, weight(choices))?;
    Ok(Group { leaf: inner.clone(), folders: vec![inner, outer] })
}

/// Weights as people set them, a factor of ten to either side of the default of 100.
fn weight(choices: &mut Choices) -> u64 {
    10 + choices.below(991)
}

/// Runs the workers and the changes.
pub(crate) fn run(args: &Args) -> Result<Line> {
    ensure!(args.workers > 0, "at least one worker is needed");
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut choices = Choices::new(args.seed);
    let begin = now();
    let mut workers: Vec<Child> = (0..args.workers)
        .map(|seed| {
            Command::new(&program)
                .args(["worker", "--seed", &seed.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .with_context(|| format!("cannot start worker {seed}"))
        })
        .collect::<Result<_>>()?;
    let parent = args.root.join("wakelab");
    create(&parent, true)?;

    let mut groups: Vec<Option<Group>> = (0..args.workers).map(|_| None).collect();
    let (mut created, mut removed) = (0, 0);
    for number in 0..args.count {
        let place = number % args.workers;
        let group = make(&parent, number, &mut choices)?;
        created += 1;
        enter(&group.leaf, workers[place].id())?;
        if let Some(old) = groups[place].replace(group) {
            old.folders.iter().try_for_each(|folder| remove(folder))?;
            removed += 1;
        }
        // Change the weight of another cgroup while its worker is busy.
        if let Some(other) = &groups[choices.below(args.workers as u64) as usize] {
            set_weight(&other.leaf, weight(&mut choices))?;
        }
        thread::sleep(Duration::from_micros(args.every_us));
    }
    // Move the workers out while they are busy, and only then end them.
    for (group, worker) in
        groups.iter().zip(&workers).filter_map(|(group, worker)| Some((group.as_ref()?, worker)))
    {
        enter(&args.root, worker.id())?;
        group.folders.iter().try_for_each(|folder| remove(folder))?;
        removed += 1;
    }
    remove(&parent)?;
    let told = now();
    workers.iter_mut().for_each(|worker| drop(worker.stdin.take()));
    let mut right = 0;
    let mut steps = 0;
    for (seed, worker) in (0..).zip(&mut workers) {
        match end_of(worker, told + Duration::from_millis(args.within_ms)) {
            Ok(work) if work.steps > 0 && work.is_right(seed) => {
                right += 1;
                steps += work.steps;
            }
            Ok(work) => {
                eprintln!("wakelab-guest: worker {seed} ended with a wrong result after {} steps", work.steps)
            }
            Err(error) => eprintln!("wakelab-guest: worker {seed}: {error:#}"),
        }
    }
    Ok(Line::new("cgroups")
        .add("created", created)
        .add("removed", removed)
        .add("workers", right)
        .add("steps", steps)
        .add("wall_ns", ns(now() - begin))
        .expect(removed == created, format!("{created} cgroups removed"), removed)
        .expect(right == args.workers, format!("{} workers with right results", args.workers), right))
}

/// Waits until a worker has ended, and reads what it did.
fn end_of(worker: &mut Child, limit: Duration) -> Result<Work> {
    while worker.try_wait().context("cannot wait")?.is_none() {
        if now() > limit {
            worker.kill().context("cannot kill")?;
            worker.wait().context("cannot wait")?;
            bail!("did not end in time");
        }
        thread::sleep(Duration::from_millis(2));
    }
    let mut text = String::new();
    worker.stdout.take().context("no output")?.read_to_string(&mut text).context("cannot read its output")?;
    parse_worker(&text).with_context(|| format!("said `{}`", text.trim()))
}
