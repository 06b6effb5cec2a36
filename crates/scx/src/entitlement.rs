// SPDX-License-Identifier: GPL-2.0-only
//! The CPU time that each cgroup was entitled to, beside what it received.
//!
//! The entitlement follows from the shares alone, whatever rule schedules. Each sample divides the CPUs, level by level
//! from the root, among the groups and tasks that are runnable at that moment, in proportion to their shares (a task
//! has 1024, whatever its nice value). No group gets more CPUs than it has runnable tasks; the others share what it
//! leaves (water-filling). All CPUs count as allowed for all tasks. Between two samples, what was runnable counts as
//! unchanged.
//!
//! A cgroup receives what the kernel accounts to it in cpu.stat, with the time of its real-time tasks and of the tasks
//! that Linux's own scheduler keeps.
//!
//! Example, 8 CPUs, equal shares; A has 1 task, B 2, C 8: each may have 8 / 3 = 2.67. A takes 1, which leaves 3.5 for
//! each of B and C; B takes 2, C the remaining 5.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::metrics::GroupMetrics;

/// The root, which is not a group.
const ROOT: u32 = 0;
/// The shares of a task, whatever its nice value.
const TASK_SHARES: f64 = 1024.0;

/// A group with something runnable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The policy's slot for it.
    pub(crate) slot: u32,
    /// The slot of its parent; 0: the root.
    pub(crate) parent: u32,
    /// 1024 for a cpu.weight of 100.
    pub(crate) shares: u32,
    /// Runnable tasks in it, without those of the groups below it.
    pub(crate) tasks: u64,
    /// The cgroup's id.
    pub(crate) id: u64,
}

/// A claim on CPUs: its shares, and the most CPUs that it can use.
#[derive(Clone, Copy, Debug)]
struct Claim {
    shares: f64,
    most: f64,
}

/// Divides `capacity` in proportion to shares. No claim gets more than its most, and what that leaves goes to the
/// others.
fn fill(capacity: f64, claims: &[Claim]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..claims.len()).filter(|&at| claims[at].shares > 0.0).collect();
    order.sort_by(|&a, &b| {
        (claims[a].most * claims[b].shares).total_cmp(&(claims[b].most * claims[a].shares))
    });
    let mut shares: f64 = order.iter().map(|&at| claims[at].shares).sum();
    let (mut left, mut parts) = (capacity, vec![0.0; claims.len()]);
    for at in order {
        parts[at] = (left * claims[at].shares / shares).min(claims[at].most);
        left -= parts[at];
        shares -= claims[at].shares;
    }
    parts
}

/// Returns the CPUs that each group is entitled to, and the number of runnable tasks in it and below, in the order of
/// `groups`.
fn entitled(groups: &[Group], root_tasks: u64, cpus: u64) -> Vec<(f64, u64)> {
    let mut below = vec![0; groups.len()];
    let mut parts = vec![(0.0, 0); groups.len()];
    for (at, tasks) in below.iter_mut().enumerate() {
        *tasks = tasks_below(groups, at, 0);
    }
    divide(groups, &below, ROOT, root_tasks, cpus as f64, cpus as f64, &mut parts);
    parts
}

/// The greatest depth of groups. Anything deeper is a loop in records that were read while they changed.
const DEPTH: u32 = 64;

fn tasks_below(groups: &[Group], at: usize, depth: u32) -> u64 {
    let children = groups.iter().enumerate().filter(|(_, group)| group.parent == groups[at].slot);
    let below = children.filter(|_| depth < DEPTH).map(|(child, _)| tasks_below(groups, child, depth + 1));
    groups[at].tasks + below.sum::<u64>()
}

fn divide(
    groups: &[Group],
    below: &[u64],
    parent: u32,
    tasks: u64,
    capacity: f64,
    cpus: f64,
    parts: &mut [(f64, u64)],
) {
    let children: Vec<usize> = (0..groups.len()).filter(|&at| groups[at].parent == parent).collect();
    let mut claims: Vec<Claim> = children
        .iter()
        .map(|&at| Claim { shares: groups[at].shares.into(), most: (below[at] as f64).min(cpus) })
        .collect();
    claims.push(Claim { shares: TASK_SHARES * tasks as f64, most: (tasks as f64).min(cpus) });
    for (&at, part) in children.iter().zip(fill(capacity, &claims)) {
        // If it was already reached, this is a loop.
        if parts[at].1 == 0 && below[at] > 0 {
            parts[at] = (part, below[at]);
            divide(groups, below, groups[at].slot, groups[at].tasks, part, cpus, parts);
        }
    }
}

/// Removes the task that takes the sample, which is always runnable at that time: it counts in the innermost of its
/// cgroups `own` that the policy knows as a group, or outside any.
fn without_looker(groups: &mut [Group], root_tasks: &mut u64, own: &[u64]) {
    let known = own.iter().find_map(|id| groups.iter().position(|group| group.id == *id));
    let tasks = known.map_or(root_tasks, |at| &mut groups[at].tasks);
    *tasks = tasks.saturating_sub(1);
}

/// Sums over the samples.
pub(crate) struct Entitlement {
    root: Option<PathBuf>,
    /// The cgroups that this process is in, the innermost first; `None` if the policy does not schedule it.
    own: Option<Vec<u64>>,
    /// By cgroup id.
    sums: BTreeMap<u64, Sum>,
    looked: Instant,
    next: Instant,
}

#[derive(Default)]
struct Sum {
    /// The path from the root, with a slash; empty if the cgroup was not found.
    path: String,
    began_us: u64,
    metrics: GroupMetrics,
}

impl Entitlement {
    /// Begins now. `is_partial`: the policy does not schedule this process.
    pub(crate) fn new(is_partial: bool) -> Entitlement {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let root = cgroup_root(&mounts);
        let own = root.as_ref().map(|root| own(root, &membership)).filter(|_| !is_partial);
        let now = Instant::now();
        Entitlement { root, own, sums: BTreeMap::new(), looked: now, next: now }
    }

    /// Whether the next sample is due. Sampling takes at most a twentieth of a CPU.
    pub(crate) fn is_due(&self) -> bool {
        self.root.is_some() && Instant::now() >= self.next
    }

    /// Adds a sample that began at `began`; `root_tasks` are runnable tasks outside any group.
    pub(crate) fn add(&mut self, mut groups: Vec<Group>, mut root_tasks: u64, cpus: u64, began: Instant) {
        let Some(root) = &self.root else { return };
        if let Some(own) = &self.own {
            without_looker(&mut groups, &mut root_tasks, own);
        }
        let passed = began.saturating_duration_since(self.looked).as_nanos() as f64;
        if groups.iter().any(|group| !self.sums.contains_key(&group.id)) {
            let paths = paths(root);
            for group in &groups {
                self.sums.entry(group.id).or_insert_with(|| {
                    let path = paths.get(&group.id).cloned().unwrap_or_default();
                    let began_us = usage_us(root, &path).unwrap_or(0);
                    Sum { path, began_us, metrics: GroupMetrics::default() }
                });
            }
        }
        for (group, (part, tasks)) in groups.iter().zip(entitled(&groups, root_tasks, cpus)) {
            let Some(sum) = self.sums.get_mut(&group.id) else { continue };
            sum.metrics.shares = group.shares.into();
            sum.metrics.entitled_ns += (part * passed) as u64;
            sum.metrics.runnable_ns += (tasks as f64 * passed) as u64;
        }
        self.looked = began;
        self.next = Instant::now() + (20 * began.elapsed()).max(Duration::from_millis(100));
    }

    /// Returns the sums by path, with the CPU time received until now. Cgroups that have gone are left out.
    pub(crate) fn metrics(&mut self) -> BTreeMap<String, GroupMetrics> {
        let Some(root) = &self.root else { return BTreeMap::new() };
        self.sums.retain(|_, sum| {
            let Some(now_us) = usage_us(root, &sum.path) else { return false };
            sum.metrics.received_ns = 1000 * now_us.saturating_sub(sum.began_us);
            true
        });
        self.sums.values().map(|sum| (sum.path.clone(), sum.metrics.clone())).collect()
    }
}

/// Whether there is a cgroup with a CPU controller below the root, as far as cgroup v2 says.
pub(crate) fn has_cgroups() -> bool {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    cgroup_root(&mounts).is_some_and(|root| has_weights(&root))
}

/// Whether a child of this cgroup has a weight, which means that it has a CPU controller.
fn has_weights(root: &Path) -> bool {
    let children = fs::read_dir(root).into_iter().flatten().flatten();
    children.into_iter().any(|child| child.path().join("cpu.weight").exists())
}

/// Returns where cgroup v2 is mounted, according to /proc/mounts.
pub(crate) fn cgroup_root(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let path = words.next()?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(path))
    })
}

/// Returns the cgroups below the root that a process is in, from its /proc/PID/cgroup, the innermost first.
fn own(root: &Path, membership: &str) -> Vec<u64> {
    let Some(path) = membership.lines().find_map(|line| line.strip_prefix("0::/")) else { return Vec::new() };
    let below = Path::new(path).ancestors().take_while(|path| !path.as_os_str().is_empty());
    below.filter_map(|path| Some(fs::metadata(root.join(path)).ok()?.ino())).collect()
}

/// Returns the paths of all cgroups below a root, by id, which is the directory's inode.
pub(crate) fn paths(root: &Path) -> BTreeMap<u64, String> {
    let (mut found, mut rest) = (BTreeMap::new(), vec![String::new()]);
    while let Some(path) = rest.pop() {
        for entry in fs::read_dir(root.join(path.trim_start_matches('/'))).into_iter().flatten().flatten() {
            let (Ok(metadata), Some(name)) =
                (entry.metadata(), entry.file_name().to_str().map(str::to_owned))
            else {
                continue;
            };
            if metadata.is_dir() {
                let path = format!("{path}/{name}");
                found.insert(metadata.ino(), path.clone());
                rest.push(path);
            }
        }
    }
    found
}

/// Returns the usage in a cgroup's cpu.stat; `None` if it has gone.
fn usage_us(root: &Path, path: &str) -> Option<u64> {
    if path.is_empty() {
        return None;
    }
    let text = fs::read_to_string(root.join(path.trim_start_matches('/')).join("cpu.stat")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(slot: u32, parent: u32, shares: u32, tasks: u64) -> Group {
        Group { slot, parent, shares, tasks, id: u64::from(slot) }
    }

    fn parts(groups: &[Group], root_tasks: u64, cpus: u64) -> Vec<f64> {
        entitled(groups, root_tasks, cpus).iter().map(|(part, _)| (part * 1000.0).round() / 1000.0).collect()
    }

    #[test]
    fn a_group_with_few_tasks_leaves_the_rest_to_others() {
        // The example above.
        let groups = [group(1, 0, 1024, 1), group(2, 0, 1024, 2), group(3, 0, 1024, 8)];
        assert_eq!(parts(&groups, 0, 8), [1.0, 2.0, 5.0]);
        // 8, 4 and 3 tasks: 8 / 3 each, because no group lacks tasks.
        let groups = [group(1, 0, 1024, 8), group(2, 0, 1024, 4), group(3, 0, 1024, 3)];
        assert_eq!(parts(&groups, 0, 8), [2.667, 2.667, 2.667]);
        // Shares of 3 : 1, and both have enough.
        assert_eq!(parts(&[group(1, 0, 3072, 9), group(2, 0, 1024, 9)], 0, 8), [6.0, 2.0]);
        // Less than the machine: each gets what it can use.
        assert_eq!(parts(&[group(1, 0, 10, 2), group(2, 0, 10000, 1)], 1, 8), [2.0, 1.0]);
    }

    #[test]
    fn tasks_outside_any_group_have_shares_of_their_own() {
        // 2 tasks of 1024 and a group of 2048, 2 CPUs: half of it for the group.
        assert_eq!(parts(&[group(1, 0, 2048, 5)], 2, 2), [1.0]);
        // 6 tasks beside it: 2048 / 8192 of 2 CPUs.
        assert_eq!(parts(&[group(1, 0, 2048, 5)], 6, 2), [0.5]);
    }

    #[test]
    fn a_parent_divides_what_it_has() {
        // The root: A 1024 and B 3072 of 4 CPUs get 1 and 3. In B there are a task (1024), C (2048) and D (1024, 0
        // tasks). Nothing in D is runnable, so B's 3 CPUs are divided by 3072: the task gets 1 and C gets 2.
        let groups = [group(1, 0, 1024, 9), group(2, 0, 3072, 1), group(3, 2, 2048, 9), group(4, 2, 1024, 0)];
        assert_eq!(parts(&groups, 0, 4), [1.0, 3.0, 2.0, 0.0]);
        // B's subtree has 1 + 9 tasks.
        assert_eq!(entitled(&groups, 0, 4)[1].1, 10);
    }

    #[test]
    fn records_that_changed_while_they_were_read_do_no_harm() {
        // Each other's parent: not reached from the root.
        assert_eq!(parts(&[group(1, 2, 1024, 1), group(2, 1, 1024, 1)], 0, 4), [0.0, 0.0]);
        assert_eq!(parts(&[group(1, 1, 1024, 1)], 0, 4), [0.0]);
    }

    #[test]
    fn the_process_that_looks_does_not_count() {
        let mut groups = [group(1, 0, 1024, 9), group(2, 1, 1024, 4)];
        let mut root_tasks = 1;
        // In a cgroup without a slot, and in none: it counts outside any group.
        without_looker(&mut groups, &mut root_tasks, &[7]);
        assert_eq!((groups[0].tasks, groups[1].tasks, root_tasks), (9, 4, 0));
        without_looker(&mut groups, &mut root_tasks, &[]);
        assert_eq!((groups[0].tasks, groups[1].tasks, root_tasks), (9, 4, 0));
        // In 7, in 2, in 1: of these 2 is the innermost known.
        without_looker(&mut groups, &mut root_tasks, &[7, 2, 1]);
        assert_eq!((groups[0].tasks, groups[1].tasks, root_tasks), (9, 3, 0));
    }

    #[test]
    fn cgroups_are_found_by_their_inode() {
        let root = std::env::temp_dir().join(format!("wakelab-cgroups-{}", std::process::id()));
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/cpu.stat"), "usage_usec 2500\nuser_usec 2000\n").unwrap();
        assert!(!has_weights(&root));
        fs::write(root.join("a/cpu.weight"), "100\n").unwrap();
        assert!(has_weights(&root));
        let id = fs::metadata(root.join("a/b")).unwrap().ino();
        assert_eq!(paths(&root)[&id], "/a/b");
        assert_eq!(usage_us(&root, "/a/b"), Some(2500));
        assert_eq!((usage_us(&root, "/a"), usage_us(&root, "")), (None, None));

        let outer = fs::metadata(root.join("a")).unwrap().ino();
        assert_eq!(own(&root, "1:cpu:/x\n0::/a/b\n"), [id, outer]);
        assert!(own(&root, "0::/\n").is_empty());

        let now = Instant::now();
        let mut entitlement = Entitlement {
            root: Some(root.clone()),
            own: None,
            sums: BTreeMap::new(),
            looked: now,
            next: now,
        };
        let groups = vec![Group { slot: 1, parent: 0, shares: 512, tasks: 3, id }];
        entitlement.add(groups.clone(), 0, 2, now);
        fs::write(root.join("a/b/cpu.stat"), "usage_usec 4500\n").unwrap();
        // One second later: 2 of 2 CPUs were due, to 3 tasks.
        entitlement.add(groups, 0, 2, now + Duration::from_secs(1));
        let expected = GroupMetrics {
            shares: 512,
            runnable_ns: 3_000_000_000,
            entitled_ns: 2_000_000_000,
            received_ns: 2_000_000,
        };
        assert_eq!(entitlement.metrics(), BTreeMap::from([("/a/b".to_owned(), expected)]));
        fs::remove_dir_all(&root).unwrap();
        assert!(entitlement.metrics().is_empty(), "it has gone");
    }

    #[test]
    fn the_second_version_of_cgroups_is_found_among_mounts() {
        let hybrid = "tmpfs /sys/fs/cgroup tmpfs ro 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(cgroup_root(hybrid), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(cgroup_root("cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n"), None);
    }
}
