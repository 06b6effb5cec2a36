// SPDX-License-Identifier: GPL-2.0-or-later
//! The task groups of a recording: which task is in which, and what each group weighs.
//!
//! The header of `wakelab record` has the groups of the controller `cpu` with their weights, and the group of each task
//! at the beginning, or at the end if it began meanwhile. In between, a child begins in the group of its parent, and
//! cgroup_attach_task tells of a process that was moved.
//!
//! - The root is no group: its tasks stand beside the groups below it.
//! - A group of version 2 without a weight does not have the controller, so its tasks belong to the nearest group above
//!   that has it. In version 1 every group has it; one that was made and removed during the recording weighs as much as
//!   a new one.
//! - Shares are those of version 1, 1024 for a task of nice 0. `cpu.weight` is 100 for them. A group of `cpu.idle` has
//!   3.
//! - With autogroups on, a task of the root belongs to the group of its session, which weighs as a task of its nice
//!   value.
//!
//! Worked example, version 2: `/a` has the weight 200, `/a/b` has none, `/a/b/c` has 100. A task in `/a/b` is in the
//! group `/a` with 2048 shares, and one in `/a/b/c` in a group with 1024 below it.
//!
//! Where a machine has groups, but no task is in one, the workload still has one of them, because policies see it.
//!
//! It fails for a session that begins during the recording (setsid has no event), and for weights that change then:
//! those of the beginning count.

use std::collections::BTreeMap;

use wakelab_workload::{Group, GroupIndex, Quota};

use crate::event::Told;
use crate::header::HeaderLine;
use crate::kernel::weight_of_nice;
use crate::loops::fits;

/// The key of a line about one group.
pub const GROUP: &str = "cgroup";
/// The key of the line with the number of version 1's hierarchy that has the controller `cpu`; 0 for version 2.
pub const HIERARCHY: &str = "cgroup-hierarchy";
/// The key of the line that says whether autogroups are on.
pub const AUTOGROUP: &str = "autogroup";
/// How groups of sessions are called, up to their number.
const SESSION: &str = "/autogroup-";
/// Shares of a new group, and of a task of nice 0.
const NEW_SHARES: u32 = 1024;
/// Shares of a group of `cpu.idle`: WEIGHT_IDLEPRIO of kernel/sched/sched.h.
const IDLE_SHARES: u32 = 3;
/// The range of shares: MIN_SHARES and MAX_SHARES of kernel/sched/sched.h.
const SHARES: std::ops::RangeInclusive<u32> = 2..=1 << 18;
/// The range of `cpu.weight`: CGROUP_WEIGHT_MIN and CGROUP_WEIGHT_MAX of include/linux/cgroup-defs.h.
pub const WEIGHTS: std::ops::RangeInclusive<u32> = 1..=10_000;
/// The weight of a new group: CGROUP_WEIGHT_DFL.
const NEW_WEIGHT: u32 = 100;

/// What the header says of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ToldGroup {
    shares: u32,
    quota: Option<Quota>,
}

/// What the header says of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ToldTask {
    path: String,
    /// It was not there at the beginning.
    is_new: bool,
}

/// The groups of a recording while it is read.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    told: BTreeMap<String, ToldGroup>,
    tasks: BTreeMap<u32, ToldTask>,
    hierarchy: Option<i64>,
    is_version_1: bool,
    has_autogroups: bool,
    /// Those in which tasks are, and the groups above them.
    made: Vec<Group>,
    by_path: BTreeMap<String, GroupIndex>,
    /// How many of them are limited.
    pub(crate) limited: u64,
}

/// Returns the shares of a value of `cpu.weight`, as the kernel does.
pub(crate) fn shares_of_weight(weight: u32) -> u32 {
    let shares =
        (u64::from(weight) * u64::from(NEW_SHARES) + u64::from(NEW_WEIGHT) / 2) / u64::from(NEW_WEIGHT);
    u32::try_from(shares).unwrap_or(u32::MAX).clamp(*SHARES.start(), *SHARES.end())
}

/// A quota of the kernel's two numbers.
fn quota_of_us(quota_us: u64, period_us: u64) -> Result<Quota, String> {
    let quota = Quota { quota_ns: quota_us.saturating_mul(1000), period_ns: period_us.saturating_mul(1000) };
    quota.check().map(|()| quota)
}

/// Reads what `cpu.max` holds, `50000 100000` or `max 100000`, or the same with `/` for the blank. The period may be
/// absent, and is 100 ms then.
pub(crate) fn quota_of_words(words: &str) -> Result<Option<Quota>, String> {
    let (quota, period) = words.split_once(['/', ' ']).unwrap_or((words, "100000"));
    let number = |word: &str| word.parse::<u64>().map_err(|_| format!("`{words}`"));
    let period_us = number(period)?;
    match quota {
        "max" => quota_of_us(*Quota::QUOTA_NS.start() / 1000, period_us).map(|_| None),
        quota => quota_of_us(number(quota)?, period_us).map(Some),
    }
}

impl Groups {
    /// Notes a line of the header, if it is about groups.
    pub(crate) fn header(&mut self, line: &HeaderLine<'_>) {
        match line.key {
            GROUP => self.group(line.value),
            HIERARCHY => self.hierarchy = line.value.parse().ok(),
            AUTOGROUP => self.has_autogroups = line.value == "1",
            _ => {}
        }
    }

    /// `/a/b cpu.weight=100 cpu.idle=0` or `/a/b cpu.shares=1024`.
    fn group(&mut self, value: &str) {
        let mut words = value.split(' ');
        let Some(path) = words.next() else { return };
        let fields: BTreeMap<&str, &str> = words.filter_map(|word| word.split_once('=')).collect();
        let number = |key: &str| fields.get(key).and_then(|value| value.parse::<u32>().ok());
        self.is_version_1 |= fields.contains_key("cpu.shares");
        let shares = number("cpu.shares").map(|shares| shares.clamp(*SHARES.start(), *SHARES.end()));
        let shares = shares.or_else(|| number("cpu.weight").map(shares_of_weight));
        let is_idle = number("cpu.idle") == Some(1);
        if let Some(shares) = shares {
            let shares = if is_idle { IDLE_SHARES } else { shares };
            let quota = match fields.get("cpu.max") {
                Some(max) => quota_of_words(max).ok().flatten(),
                None => number("cpu.cfs_quota_us").and_then(|quota_us| {
                    quota_of_us(quota_us.into(), number("cpu.cfs_period_us")?.into()).ok()
                }),
            };
            self.told.insert(path.to_owned(), ToldGroup { shares, quota });
        }
    }

    /// Notes the group of a task. The header has autogroups before tasks.
    pub(crate) fn task(&mut self, told: &Told<'_>) {
        let Some(path) = told.cgroup else { return };
        let session = told.session.filter(|_| path == "/" && self.has_autogroups);
        let path = match session {
            None => path.to_owned(),
            Some((number, nice)) => {
                let path = format!("{SESSION}{number}");
                self.told.insert(path.clone(), ToldGroup { shares: weight_of_nice(nice), quota: None });
                path
            }
        };
        self.tasks.entry(told.tid).or_insert(ToldTask { path, is_new: !told.from_before });
    }

    /// Notes a fork before the part of the recording that counts.
    pub(crate) fn forked_before(&mut self, parent: u32, child: u32) {
        if let Some(told) = self.tasks.get(&parent).cloned() {
            self.tasks.entry(child).or_insert(told);
        }
    }

    /// Notes a move before the part of the recording that counts.
    pub(crate) fn moved_before(&mut self, tid: u32, hierarchy: i64, path: &str) {
        if self.hierarchy == Some(hierarchy) {
            let path = crate::header::word(path);
            self.tasks.insert(tid, ToldTask { path, is_new: false });
        }
    }

    /// Returns the group in which a task of this id begins. `parents` is that of its parent; `None` means that the task
    /// was there before the recording. With version 1, an exited task that nobody has waited for yet is in the root, so
    /// a child that was seen there tells nothing.
    pub(crate) fn of_new(&mut self, tid: u32, parents: Option<Option<GroupIndex>>) -> Option<GroupIndex> {
        let in_root = |path: &str| path == "/" || path.starts_with(SESSION);
        let tells = |told: &ToldTask| told.is_new && !(self.is_version_1 && in_root(&told.path));
        let told = self.tasks.get(&tid).filter(|told| parents.is_none() || tells(told));
        match told.map(|told| told.path.clone()) {
            Some(path) => self.of_path(&path),
            None => parents.flatten(),
        }
    }

    /// Returns the group to which a task of the group `from` was moved; `None` if the move is of another hierarchy.
    pub(crate) fn moved_to(&mut self, hierarchy: i64, path: &str) -> Option<Option<GroupIndex>> {
        let path = crate::header::word(path);
        (self.hierarchy == Some(hierarchy)).then(|| self.of_path(&path))
    }

    /// Returns the group of a path, and makes it and those above it.
    fn of_path(&mut self, path: &str) -> Option<GroupIndex> {
        let mut group = None;
        let ends = path.bytes().enumerate().skip(1).filter(|(_, byte)| *byte == b'/').map(|(at, _)| at);
        for end in ends.chain([path.len()]) {
            let part = &path[..end];
            if part.len() <= 1 || part.ends_with('/') {
                continue;
            }
            if let Some(&known) = self.by_path.get(part) {
                group = Some(known);
                continue;
            }
            let unknown = self.is_version_1.then_some(ToldGroup { shares: NEW_SHARES, quota: None });
            if let Some(ToldGroup { shares, quota }) = self.told.get(part).copied().or(unknown) {
                let index = self.made.len() as GroupIndex;
                self.limited += u64::from(quota.is_some());
                self.made.push(Group { name: part.to_owned(), parent: group, shares, quota });
                self.by_path.insert(part.to_owned(), index);
                group = Some(index);
            }
        }
        group
    }

    /// Whether the path of this group, or of one above it, is `pattern`, or begins with it if it ends with `*`.
    pub(crate) fn is_inside(&self, group: Option<GroupIndex>, pattern: &str) -> bool {
        let of = |index: GroupIndex| self.made.get(index as usize);
        std::iter::successors(group.and_then(of), |group| group.parent.and_then(of))
            .any(|group| fits(pattern, &group.name))
    }

    /// Takes all groups that have tasks, or groups below them that have. Where no task is in a group, but the
    /// machine has some, takes one of those: `scx_wakelab` makes room for groups then, and its order is another.
    pub(crate) fn take(&mut self) -> Vec<Group> {
        if self.made.is_empty()
            && let Some(path) = self.told.keys().find(|path| path.len() > 1).cloned()
        {
            self.of_path(&path);
        }
        std::mem::take(&mut self.made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(lines: &[&str]) -> Groups {
        let mut groups = Groups::default();
        for line in lines {
            let line = HeaderLine::parse(line).expect("a line of a header");
            groups.header(&line);
            if let Some(told) = line.told() {
                groups.task(&told);
            }
        }
        groups
    }

    fn made(groups: &mut Groups) -> Vec<(String, Option<GroupIndex>, u32)> {
        groups.take().into_iter().map(|group| (group.name, group.parent, group.shares)).collect()
    }

    #[test]
    fn worked_example() {
        let mut groups = groups(&[
            "# wakelab-cgroup: /a cpu.weight=200 cpu.max=max/100000 cpu.idle=0",
            "# wakelab-cgroup: /a/b/c cpu.weight=100",
            "# wakelab-cgroup: /other cpu.weight=7",
            "# wakelab-task: pid=7 comm=x at=begin cgroup=/a/b",
            "# wakelab-task: pid=8 comm=x at=begin,end cgroup=/a/b/c",
            "# wakelab-task: pid=9 comm=x at=begin,end cgroup=/",
        ]);
        assert_eq!([7, 8, 9, 10].map(|tid| groups.of_new(tid, None)), [Some(0), Some(1), None, None]);
        let expected = [("/a".to_owned(), None, 2048), ("/a/b/c".to_owned(), Some(0), 1024)];
        assert_eq!(made(&mut groups), expected);
    }

    #[test]
    fn a_machine_with_groups_has_one_even_if_no_task_is_in_it() {
        let mut without = groups(&["# wakelab-cgroup: / cpu.shares=1024"]);
        assert_eq!(made(&mut without), []);
        let lines = [
            "# wakelab-cgroup: / cpu.shares=1024",
            "# wakelab-cgroup: /a cpu.shares=2",
            "# wakelab-cgroup: /b cpu.shares=3",
        ];
        assert_eq!(made(&mut groups(&lines)), [("/a".to_owned(), None, 2)]);
    }

    #[test]
    fn shares_are_those_of_the_kernel() {
        assert_eq!([1, 100, 300, 10_000].map(shares_of_weight), [10, 1024, 3072, 102_400]);
        let mut groups = groups(&[
            "# wakelab-cgroup: / cpu.shares=1024 cpu.cfs_quota_us=-1",
            "# wakelab-cgroup: /a cpu.shares=2048 cpu.cfs_quota_us=5000 cpu.cfs_period_us=20000 cpu.idle=1",
        ]);
        let paths = ["/a", "/new/er", "/"].map(|path| groups.of_path(path));
        assert_eq!(groups.limited, 1);
        assert_eq!(paths, [Some(0), Some(2), None], "in version 1 every group has the controller");
        let made = groups.take();
        let shares: Vec<u32> = made.iter().map(|group| group.shares).collect();
        assert_eq!(shares, [3, 1024, 1024]);
        let quota = Quota { quota_ns: 5_000_000, period_ns: 20_000_000 };
        assert_eq!(made.iter().map(|group| group.quota).collect::<Vec<_>>(), [Some(quota), None, None]);
    }

    #[test]
    fn quotas_are_words_of_cpu_max() {
        let ms = |quota_ms: u64, period_ms: u64| {
            Ok(Some(Quota { quota_ns: quota_ms * 1_000_000, period_ns: period_ms * 1_000_000 }))
        };
        assert_eq!(quota_of_words("50000/100000"), ms(50, 100));
        assert_eq!((quota_of_words("50000 20000"), quota_of_words("50000")), (ms(50, 20), ms(50, 100)));
        assert_eq!((quota_of_words("max 100000"), quota_of_words("max")), (Ok(None), Ok(None)));
        for bad in ["", "5", "50000/5", "max/5", "x/100000", "50000/x", "-1/100000"] {
            assert!(quota_of_words(bad).is_err(), "{bad}");
        }
        let mut groups = groups(&["# wakelab-cgroup: /a cpu.weight=100 cpu.max=30000/100000 cpu.idle=0"]);
        groups.of_path("/a");
        assert_eq!((groups.take()[0].quota, groups.limited), (ms(30, 100).expect("a quota"), 1));
    }

    /// Task 7 was there before; 8 began in it and was moved before the end, 9 began and ended.
    #[test]
    fn children_begin_where_their_parents_are() {
        let mut groups = groups(&[
            "# wakelab-cgroup-hierarchy: 3",
            "# wakelab-cgroup: /a cpu.shares=2",
            "# wakelab-cgroup: /b? cpu.shares=4",
            "# wakelab-task: pid=7 comm=x at=begin cgroup=/a",
            "# wakelab-task: pid=8 comm=x at=end cgroup=/b?",
        ]);
        let a = groups.of_new(7, None);
        let b = groups.of_new(8, Some(a));
        assert_eq!((a, b, groups.of_new(9, Some(a))), (Some(0), Some(1), a));
        // Its id was used before: that one was there at the beginning.
        assert_eq!(groups.of_new(7, Some(b)), b);
        assert_eq!((groups.moved_to(3, "/b "), groups.moved_to(4, "/b ")), (Some(b), None));
        assert_eq!(groups.moved_to(3, "/"), Some(None));
    }

    /// Task 8 was seen after its exit: version 1 shows it in the root, or in its session, and version 2 where it was.
    #[test]
    fn an_exited_child_does_not_tell_its_group() {
        let seen = "# wakelab-task: pid=8 comm=x at=between cgroup=/ autogroup=12";
        let lines = |group| ["# wakelab-autogroup: 1", "# wakelab-cgroup-hierarchy: 3", group, seen];
        let mut first = groups(&lines("# wakelab-cgroup: /a cpu.shares=2"));
        let a = first.of_path("/a");
        assert_eq!((a, first.of_new(8, Some(a))), (Some(0), a));
        let mut second = groups(&lines("# wakelab-cgroup: /a cpu.weight=2"));
        let a = second.of_path("/a");
        assert_eq!((a, second.of_new(8, Some(a))), (Some(0), Some(1)));
    }

    #[test]
    fn sessions_are_groups_if_autogroups_are_on() {
        let task = "# wakelab-task: pid=7 comm=x at=begin cgroup=/ autogroup=12 autogroup_nice=5";
        let mut off = groups(&["# wakelab-autogroup: 0", task]);
        assert_eq!(off.of_new(7, None), None);
        let elsewhere = "# wakelab-task: pid=8 comm=x at=begin cgroup=/a autogroup=12";
        let mut on =
            groups(&["# wakelab-autogroup: 1", "# wakelab-cgroup: /a cpu.weight=100", task, elsewhere]);
        assert_eq!((on.of_new(7, None), on.of_new(8, None)), (Some(0), Some(1)));
        let expected = [("/autogroup-12".to_owned(), None, 335), ("/a".to_owned(), None, 1024)];
        assert_eq!(made(&mut on), expected);
    }
}
