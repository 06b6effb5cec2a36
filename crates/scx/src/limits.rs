// SPDX-License-Identifier: GPL-2.0-only
//! What cgroups' files say of `cpu.max` and `cpu.idle`, because Linux 6.12 tells sched_ext of neither.
//!
//! The files are read once a second, or, if that would take more than a hundredth of a CPU, at least every four. While
//! no cgroup has a limit, the BPF side has no code for any (bpf/limits.bpf.h).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::entitlement::{cgroup_root, paths};

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause: on a busy machine a look takes long because it waits for a CPU.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// Of this number of parts of the time a look takes one, as far as the longest pause allows.
const PARTS: u32 = 100;

/// The limits of a cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limit {
    /// CPU time in each period; 0: as much as there is.
    pub(crate) quota_ns: u64,
    pub(crate) period_ns: u64,
    /// Its tasks run only where no others want to (cpu.idle).
    pub(crate) is_idle: bool,
}

/// Returns the limit in the text of cpu.max, `QUOTA_US PERIOD_US` or `max PERIOD_US`, and of cpu.idle. What cannot be
/// read is no limit.
fn parse(max: &str, idle: &str) -> Limit {
    let mut words = max.split_whitespace().map(str::parse::<u64>);
    let (quota_ns, period_ns) = match (words.next(), words.next()) {
        (Some(Ok(quota_us)), Some(Ok(period_us))) if period_us > 0 => {
            (quota_us.saturating_mul(1000), period_us.saturating_mul(1000))
        }
        _ => (0, 0),
    };
    Limit { quota_ns, period_ns, is_idle: idle.trim() == "1" }
}

/// Returns the limits of all cgroups below a root that have some, by id.
fn limits(root: &Path) -> BTreeMap<u64, Limit> {
    let text = |path: &Path, file: &str| fs::read_to_string(path.join(file)).unwrap_or_default();
    let of = |(id, path): (u64, String)| {
        let folder = root.join(path.trim_start_matches('/'));
        (id, parse(&text(&folder, "cpu.max"), &text(&folder, "cpu.idle")))
    };
    paths(root).into_iter().map(of).filter(|(_, limit)| *limit != Limit::default()).collect()
}

/// Looks at the cgroups' files.
pub(crate) struct Limits {
    root: Option<PathBuf>,
    next: Instant,
    /// What the BPF side was told, by slot.
    told: BTreeMap<u32, Limit>,
}

impl Limits {
    /// Begins with a look at once.
    pub(crate) fn new() -> Limits {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        Limits { root: cgroup_root(&mounts), next: Instant::now(), told: BTreeMap::new() }
    }

    /// Returns the limits by the cgroups' ids; `None` if it is not yet time for another look.
    pub(crate) fn look(&mut self) -> Option<BTreeMap<u64, Limit>> {
        let began = Instant::now();
        let root = self.root.as_ref().filter(|_| began >= self.next)?;
        let found = limits(root);
        self.next = Instant::now() + (PARTS * began.elapsed()).clamp(PAUSE, LONGEST_PAUSE);
        Some(found)
    }

    /// Returns what the BPF side must be told, because it has changed: limits by slot.
    pub(crate) fn changes(&mut self, now: BTreeMap<u32, Limit>) -> Vec<(u32, Limit)> {
        let gone =
            self.told.keys().filter(|slot| !now.contains_key(slot)).map(|&slot| (slot, Limit::default()));
        let new = now.iter().filter(|(slot, limit)| self.told.get(slot) != Some(limit));
        let changes = gone.chain(new.map(|(&slot, &limit)| (slot, limit))).collect();
        self.told = now;
        changes
    }
}

/// Whether a cgroup has a limit now.
pub(crate) fn found() -> bool {
    Limits::new().look().is_some_and(|limits| !limits.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read() {
        let limit = |quota_ns, period_ns, is_idle| Limit { quota_ns, period_ns, is_idle };
        assert_eq!(parse("30000 100000\n", "0\n"), limit(30_000_000, 100_000_000, false));
        assert_eq!(parse("max 100000\n", "1\n"), limit(0, 0, true));
        assert_eq!(parse("", ""), Limit::default());
        assert_eq!(parse("30000 0\n", "0\n"), Limit::default());
        assert_eq!(parse("30000\n", "0\n"), Limit::default());
    }

    #[test]
    fn cgroups_without_limits_are_left_out() {
        let root = std::env::temp_dir().join(format!("wakelab-limits-{}", std::process::id()));
        for (path, max) in [("a", "max 100000\n"), ("a/b", "5000 50000\n"), ("c", "max 100000\n")] {
            fs::create_dir_all(root.join(path)).unwrap();
            fs::write(root.join(path).join("cpu.max"), max).unwrap();
        }
        fs::write(root.join("c/cpu.idle"), "1\n").unwrap();
        let found: Vec<Limit> = limits(&root).into_values().collect();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found.len(), 2);
        assert!(found.contains(&Limit { quota_ns: 5_000_000, period_ns: 50_000_000, is_idle: false }));
        assert!(found.contains(&Limit { quota_ns: 0, period_ns: 0, is_idle: true }));
    }

    /// A limit that is new, one that stays, one that changes, and one that goes.
    #[test]
    fn only_changes_are_told() {
        let mut limits = Limits { root: None, next: Instant::now(), told: BTreeMap::new() };
        let limit = |quota_ns| Limit { quota_ns, period_ns: 100, is_idle: false };
        assert_eq!(limits.changes([(1, limit(5)), (2, limit(6))].into()), [(1, limit(5)), (2, limit(6))]);
        assert_eq!(limits.changes([(1, limit(5)), (2, limit(7))].into()), [(2, limit(7))]);
        assert_eq!(limits.changes([(2, limit(7))].into()), [(1, Limit::default())]);
        assert_eq!(limits.changes([(2, limit(7))].into()), []);
    }
}
