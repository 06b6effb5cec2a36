// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers that every part of the simulator uses.

/// No task, or no CPU.
pub(crate) const NONE: u32 = u32::MAX;
/// Units of work in 1 ns: work is kept in 1/1024 ns.
pub(crate) const UNITS: u64 = 1024;
/// Picoseconds in 1 ns.
pub(crate) const PS_PER_NS: u64 = 1000;

/// Numbers values from 0 in the order in which they first come.
pub(crate) fn dense(values: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut seen = std::collections::BTreeMap::new();
    values
        .map(|value| {
            let next = seen.len() as u32;
            *seen.entry(value).or_insert(next)
        })
        .collect()
}
