// SPDX-License-Identifier: GPL-2.0-or-later
//! `shares`: spinners in weighted cgroups, which may be nested; reports the part of the CPU time of each cgroup.
//!
//! A cgroup's part is its weight's part of its siblings' weights, times the part of its parent. That holds if
//! each has at least as many spinners as CPUs that it is entitled to. Anything else is refused, because other rules
//! would decide.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::cgroups::{create, remove, set_weight};
use crate::work::{Line, allowed_cpus};

/// Arguments of `shares`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A cgroup, its weight and its number of spinners; `a/b` is nested in `a`, which comes before and has 0.
    #[arg(long = "group", value_name = "PATH:WEIGHT:SPINNERS", required = true)]
    groups: Vec<Group>,
    /// After the first measurement, set these weights and measure again.
    #[arg(long = "reweight", value_name = "PATH:WEIGHT")]
    reweights: Vec<Reweight>,
    /// Time to settle before each measurement.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1000)]
    settle_ms: u64,
    /// Length of a measurement.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 5000)]
    ms: u64,
    /// Fail if a cgroup's part is off by more than this, in percent of all groups' CPU time.
    #[arg(long, value_name = "POINTS")]
    within: Option<f64>,
    /// Fail if no cgroup's part is off by at least this, in percent: the negative control.
    #[arg(long, value_name = "POINTS")]
    beyond: Option<f64>,
    /// Where cgroup v2 is mounted, with the controller cpu enabled for children.
    #[arg(long, value_name = "FOLDER", default_value = "/sys/fs/cgroup")]
    root: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    path: String,
    weight: u64,
    spinners: u64,
}

impl FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Group, String> {
        let fields: Vec<&str> = text.split(':').collect();
        let &[path, weight, spinners] = &fields[..] else {
            return Err("expected PATH:WEIGHT:SPINNERS, as in a/b:100:4".into());
        };
        let spinners = spinners.parse().map_err(|_| format!("`{spinners}` is not a number of spinners"))?;
        Ok(Group { path: path.into(), weight: parse_weight(weight)?, spinners })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Reweight {
    path: String,
    weight: u64,
}

impl FromStr for Reweight {
    type Err = String;

    fn from_str(text: &str) -> Result<Reweight, String> {
        let (path, weight) = text.split_once(':').ok_or("expected PATH:WEIGHT, as in a/b:100")?;
        Ok(Reweight { path: path.into(), weight: parse_weight(weight)? })
    }
}

fn parse_weight(text: &str) -> Result<u64, String> {
    let weight = text.parse().ok().filter(|weight| (1..=10_000).contains(weight));
    weight.ok_or_else(|| format!("`{text}` is not a weight from 1 to 10000"))
}

/// Returns the part of all CPU time that each group is entitled to, from 0 to 1, in the order of `groups`.
fn entitlements(groups: &[Group]) -> Result<Vec<f64>> {
    let mut parts: Vec<f64> = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        let parent = parent_of(&group.path);
        let of_parent = match parent {
            "" => 1.0,
            _ => {
                let at = groups[..index].iter().position(|other| other.path == parent);
                let at =
                    at.with_context(|| format!("`{}`: its parent does not come before it", group.path))?;
                ensure!(groups[at].spinners == 0, "`{parent}` cannot have spinners and cgroups");
                parts[at]
            }
        };
        let siblings = groups.iter().filter(|other| parent_of(&other.path) == parent);
        let weights: u64 = siblings.map(|sibling| sibling.weight).sum();
        parts.push(of_parent * group.weight as f64 / weights as f64);
    }
    Ok(parts)
}

fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Returns each group's part of what all groups received, in percent.
fn percents(usage_us: &[u64]) -> Vec<f64> {
    let sum = usage_us.iter().sum::<u64>().max(1) as f64;
    usage_us.iter().map(|&usage| 100.0 * usage as f64 / sum).collect()
}

/// Spinners and cgroups that end with this value.
struct Running<'a> {
    spinners: Vec<Child>,
    folders: Vec<&'a Path>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        for spinner in &mut self.spinners {
            let _ = spinner.kill();
            let _ = spinner.wait();
        }
        for folder in self.folders.iter().rev() {
            if let Err(error) = remove(folder) {
                eprintln!("wakelab-guest: {error:#}");
            }
        }
    }
}

/// Runs the spinners and measures.
pub(crate) fn run(args: &Args) -> Result<Line> {
    let cpus = allowed_cpus()?.len();
    let mut groups = args.groups.clone();
    check(&groups, cpus)?;
    let folders: Vec<PathBuf> = groups.iter().map(|group| args.root.join(&group.path)).collect();
    let program = std::env::current_exe().context("cannot find this program")?;
    let phases = if args.reweights.is_empty() { 1 } else { 2 };
    let mut running = Running { spinners: Vec::new(), folders: Vec::new() };
    for (group, folder) in groups.iter().zip(&folders) {
        create(folder, group.spinners == 0)?;
        running.folders.push(folder);
        set_weight(folder, group.weight)?;
    }
    for (group, folder) in groups.iter().zip(&folders).filter(|(group, _)| group.spinners > 0) {
        // Far longer than the measurements, which end them.
        let ms = 10 * phases * (args.settle_ms + args.ms);
        let mut spin = Command::new(&program);
        spin.args(["spin", "--threads", &group.spinners.to_string(), "--ms", &ms.to_string(), "--cgroup"]);
        let spin = spin.arg(folder).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        running.spinners.push(spin.context("cannot start spinners")?);
    }

    let mut line = Line::new("shares").add("cpus", cpus).add("ms", args.ms);
    line = measure(args, line, "", &groups, &folders, cpus)?;
    if !args.reweights.is_empty() {
        for change in &args.reweights {
            let at = groups.iter().position(|group| group.path == change.path);
            let at = at.with_context(|| format!("there is no cgroup `{}`", change.path))?;
            groups[at].weight = change.weight;
            set_weight(&folders[at], change.weight)?;
        }
        check(&groups, cpus)?;
        line = measure(args, line, "2", &groups, &folders, cpus)?;
    }
    Ok(line)
}

/// Fails if a group has fewer spinners than CPUs that it is entitled to.
fn check(groups: &[Group], cpus: usize) -> Result<()> {
    for (group, part) in groups.iter().zip(entitlements(groups)?) {
        let entitled = part * cpus as f64;
        if group.spinners > 0 && (group.spinners as f64) < entitled - 1e-9 {
            bail!(
                "`{}` is entitled to {entitled:.2} CPUs and has {} spinners: others would get the rest",
                group.path,
                group.spinners
            );
        }
    }
    Ok(())
}

/// Waits, measures, and adds the results to the line; `phase` is appended to each key.
fn measure(
    args: &Args,
    line: Line,
    phase: &str,
    groups: &[Group],
    folders: &[PathBuf],
    cpus: usize,
) -> Result<Line> {
    let leaves: Vec<usize> = (0..groups.len()).filter(|&at| groups[at].spinners > 0).collect();
    let used = || leaves.iter().map(|&at| usage_us(&folders[at])).collect::<Result<Vec<u64>>>();
    thread::sleep(Duration::from_millis(args.settle_ms));
    let before = used()?;
    thread::sleep(Duration::from_millis(args.ms));
    let received: Vec<u64> = used()?.iter().zip(&before).map(|(after, before)| after - before).collect();
    let entitled = entitlements(groups)?;
    let mut line = line;
    let mut worst = 0.0_f64;
    for (&at, percent) in leaves.iter().zip(percents(&received)) {
        line = line.add(&format!("{}{phase}", groups[at].path), format!("{percent:.2}"));
        worst = worst.max((percent - 100.0 * entitled[at]).abs());
    }
    let busy = 100.0 * received.iter().sum::<u64>() as f64 / (cpus as f64 * args.ms as f64 * 1000.0);
    let line = line.add(&format!("off{phase}"), format!("{worst:.2}"));
    let line = line.add(&format!("busy{phase}"), format!("{busy:.1}"));
    let found = || format!("{worst:.2} points");
    let line = match args.within {
        Some(within) => line.expect(worst <= within, format!("parts within {within} points"), found()),
        None => line,
    };
    Ok(match args.beyond {
        Some(beyond) => {
            line.expect(worst >= beyond, format!("a part off by {beyond} points or more"), found())
        }
        None => line,
    })
}

/// Returns the CPU time that a cgroup's tasks have received.
fn usage_us(folder: &Path) -> Result<u64> {
    let file = folder.join("cpu.stat");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let usage = text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.parse().ok());
    usage.with_context(|| format!("{} has no usage_usec", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(texts: &[&str]) -> Vec<Group> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn parts_multiply_down_the_tree() {
        let flat = entitlements(&groups(&["a:100:8", "b:100:4", "c:200:8"])).unwrap();
        assert_eq!(flat, [0.25, 0.25, 0.5]);
        // x has 3/4 of all; x/a has 1/4 of that, x/b the rest.
        let nested = entitlements(&groups(&["x:300:0", "x/a:100:4", "x/b:300:8", "y:100:2"])).unwrap();
        assert_eq!(nested, [0.75, 0.1875, 0.5625, 0.25]);
        assert!(entitlements(&groups(&["x/a:100:4"])).is_err(), "its parent is missing");
        assert!(entitlements(&groups(&["x:100:1", "x/a:100:4"])).is_err(), "spinners beside a cgroup");
    }

    #[test]
    fn too_few_spinners_are_refused() {
        // Of 8 CPUs, a third each: 2.67.
        assert!(check(&groups(&["a:100:8", "b:100:4", "c:100:3"]), 8).is_ok());
        let error = check(&groups(&["a:100:8", "b:100:4", "c:100:2"]), 8).unwrap_err().to_string();
        assert_eq!(error, "`c` is entitled to 2.67 CPUs and has 2 spinners: others would get the rest");
        // A half of 8 CPUs is 4, exactly enough.
        assert!(check(&groups(&["a:100:8", "b:100:4"]), 8).is_ok());
    }

    #[test]
    fn percents_are_of_the_sum() {
        assert_eq!(percents(&[100, 300]), [25.0, 75.0]);
        assert_eq!(percents(&[0, 0]), [0.0, 0.0]);
    }

    #[test]
    fn bad_groups_are_refused() {
        for text in ["a", "a:1", "a:0:1", "a:10001:1", "a:100:x", "a:100:1:1"] {
            assert!(text.parse::<Group>().is_err(), "{text}");
        }
        assert_eq!("a:5".parse(), Ok(Reweight { path: "a".into(), weight: 5 }));
        assert!("a".parse::<Reweight>().is_err());
    }
}
