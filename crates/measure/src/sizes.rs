// SPDX-License-Identifier: GPL-2.0-or-later
//! Sizes of caches, from sysfs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use wakelab_machine::parse_cpu_list;

/// Caches of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// The core's own, data and unified.
    pub(crate) core_bytes: Option<u64>,
    pub(crate) llc_bytes: Option<u64>,
    pub(crate) line_bytes: Option<u64>,
}

/// The caches of a CPU whose core has `threads` threads. The last level is the LLC's; a core has its part of a level
/// before that, if cores share it.
pub(crate) fn sizes(root: &Path, cpu: u32, threads: usize) -> Sizes {
    let mut levels: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let mut found = Sizes::default();
    for index in 0..16 {
        let folder = root.join(format!("devices/system/cpu/cpu{cpu}/cache/index{index}"));
        let text = |file: &str| fs::read_to_string(folder.join(file)).map(|text| text.trim().to_owned()).ok();
        let (Some(kind), Some(level), Some(size)) = (text("type"), text("level"), text("size")) else {
            break;
        };
        let (Ok(level), Some(size)) = (level.parse(), bytes(&size)) else { continue };
        if kind == "Instruction" {
            continue;
        }
        if let Some(line) = text("coherency_line_size").and_then(|line| line.parse().ok()) {
            found.line_bytes = Some(line);
        }
        let sharers = text("shared_cpu_list").and_then(|list| parse_cpu_list(&list).ok());
        let cores = sharers.map_or(1, |cpus| (cpus.len() / threads.max(1)).max(1)) as u64;
        levels.insert(level, (size, size / cores));
    }
    let last = levels.pop_last();
    if !levels.is_empty() {
        found.llc_bytes = last.map(|(_, (whole, _))| whole);
        found.core_bytes = Some(levels.values().map(|(_, part)| part).sum());
    }
    found
}

/// A size as sysfs writes it: `48K`.
fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.split_at_checked(text.len().checked_sub(1)?)? {
        (digits, "K") => (digits, 1 << 10),
        (digits, "M") => (digits, 1 << 20),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_sysfs() {
        let root = tempfile::tempdir().unwrap();
        let caches = [
            ("Data", "1", "48K", "0,4"),
            ("Instruction", "1", "32K", "0,4"),
            ("Unified", "2", "2048K", "0-1,4-5"),
            ("Unified", "3", "32M", "0-7"),
        ];
        for (index, (kind, level, size, shared)) in caches.into_iter().enumerate() {
            let folder = root.path().join(format!("devices/system/cpu/cpu0/cache/index{index}"));
            fs::create_dir_all(&folder).unwrap();
            let files = [
                ("type", kind),
                ("level", level),
                ("size", size),
                ("shared_cpu_list", shared),
                ("coherency_line_size", "64"),
            ];
            for (file, text) in files {
                fs::write(folder.join(file), format!("{text}\n")).unwrap();
            }
        }
        // 48 KiB and half of 2 MiB: two cores of two threads share it.
        let expected = Sizes {
            core_bytes: Some((48 << 10) + (1 << 20)),
            llc_bytes: Some(32 << 20),
            line_bytes: Some(64),
        };
        assert_eq!(sizes(root.path(), 0, 2), expected);
        assert_eq!(sizes(root.path(), 1, 2), Sizes::default());
        assert_eq!([bytes("48K"), bytes("7"), bytes("xK"), bytes("")], [Some(48 << 10), Some(7), None, None]);
    }
}
