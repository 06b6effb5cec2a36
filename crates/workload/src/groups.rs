// SPDX-License-Identifier: GPL-2.0-or-later
//! Task groups: checks that they form a forest, and sorts them so that parents come before their children.

use std::ops::RangeInclusive;

use crate::check::CheckError;
use crate::limits::{GROUPS_MAX, SHARES_MIN, WEIGHT_MAX};
use crate::program::{Group, GroupIndex, Quota, Workload};

impl Workload {
    /// Returns the groups with parents before their children, otherwise by number. The workload must have passed
    /// [`Workload::check`].
    pub fn groups_parents_first(&self) -> Vec<GroupIndex> {
        let mut order: Vec<GroupIndex> = (0..self.groups.len() as u32).collect();
        order.sort_by_key(|&group| depth(&self.groups, group).unwrap_or(usize::MAX));
        order
    }

    pub(crate) fn check_groups(&self) -> Result<(), CheckError> {
        let nr = self.groups.len();
        if nr as u64 > GROUPS_MAX {
            return Err(CheckError::Workload(format!("{nr} groups; expected at most {GROUPS_MAX}")));
        }
        for (index, group) in self.groups.iter().enumerate() {
            let fail =
                |message: String| Err(CheckError::Group { group: index, name: group.name.clone(), message });
            if let Err(message) = check_shares(group.shares) {
                return fail(message);
            }
            if let Some(Err(message)) = group.quota.map(Quota::check) {
                return fail(message);
            }
            match group.parent {
                Some(parent) if parent as usize >= nr => {
                    return fail(format!("its parent is group {parent}; expected an index below {nr}"));
                }
                _ if depth(&self.groups, index as u32).is_none() => {
                    return fail("it is its own ancestor".to_owned());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Quota {
    /// The periods that there are, in nanoseconds: 1 ms to 1 s, as in Linux.
    pub const PERIOD_NS: RangeInclusive<u64> = 1_000_000..=1_000_000_000;
    /// The quotas that there are: at least 1 ms, as in Linux, at most a second on each of 4,096 CPUs.
    pub const QUOTA_NS: RangeInclusive<u64> = 1_000_000..=4_096_000_000_000;

    /// Refuses what Linux refuses.
    ///
    /// # Errors
    /// What was expected.
    pub fn check(self) -> Result<(), String> {
        let us =
            |range: &RangeInclusive<u64>| format!("{} to {} us", range.start() / 1000, range.end() / 1000);
        if !Quota::PERIOD_NS.contains(&self.period_ns) {
            let period_us = self.period_ns / 1000;
            return Err(format!("a period of {period_us} us; expected {}", us(&Quota::PERIOD_NS)));
        }
        if !Quota::QUOTA_NS.contains(&self.quota_ns) {
            let quota_us = self.quota_ns / 1000;
            return Err(format!("a quota of {quota_us} us; expected {}", us(&Quota::QUOTA_NS)));
        }
        Ok(())
    }
}

pub(crate) fn check_shares(shares: u32) -> Result<(), String> {
    if (SHARES_MIN..=WEIGHT_MAX).contains(&shares) {
        return Ok(());
    }
    Err(format!("shares {shares}; expected {SHARES_MIN} to {WEIGHT_MAX}"))
}

/// Returns the number of a group's ancestors; `None` if they form a cycle, or one does not exist.
pub(crate) fn depth(groups: &[Group], group: GroupIndex) -> Option<usize> {
    let mut at = groups.get(group as usize)?.parent;
    let mut depth = 0;
    while let Some(parent) = at {
        depth += 1;
        if depth > groups.len() {
            return None;
        }
        at = groups.get(parent as usize)?.parent;
    }
    Some(depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forests_only() {
        let group = |parent, shares| Group { name: "g".to_owned(), parent, shares, quota: None };
        let check = |groups: Vec<Group>| {
            let workload = Workload { groups, ..Workload::empty("w", crate::Measure::Rate) };
            workload.check_groups().map_err(|error| error.to_string())
        };
        assert_eq!(check(vec![group(Some(1), 2), group(None, WEIGHT_MAX)]), Ok(()));
        for (groups, error) in [
            (vec![group(Some(1), 2), group(Some(0), 2)], "group 0 (g): it is its own ancestor"),
            (
                vec![group(None, 2), group(Some(9), 2)],
                "group 1 (g): its parent is group 9; expected an index below 2",
            ),
            (vec![group(None, 1)], "group 0 (g): shares 1; expected 2 to 262144"),
        ] {
            assert_eq!(check(groups), Err(error.to_owned()));
        }
    }

    #[test]
    fn quotas_are_those_of_linux() {
        let check = |quota_us: u64, period_us: u64| {
            Quota { quota_ns: quota_us * 1000, period_ns: period_us * 1000 }.check()
        };
        assert_eq!((check(1000, 1000), check(4_096_000_000, 1_000_000)), (Ok(()), Ok(())));
        let refused = check(50_000, 999).unwrap_err();
        assert_eq!(refused, "a period of 999 us; expected 1000 to 1000000 us");
        assert!(check(50_000, 1_000_001).is_err());
        assert_eq!(check(999, 100_000).unwrap_err(), "a quota of 999 us; expected 1000 to 4096000000 us");
    }
}
