// SPDX-License-Identifier: GPL-2.0-or-later
//! Limits of a workload, whether it comes from a file, a recording or JSON.
//!
//! A few bytes of text can ask for billions of objects. [`Workload::check`] and the expansion of workload files compare
//! counts with these limits before they take memory, so a workload needs at most [`OPS_MAX`] x 40 bytes for its
//! programs (640 MiB) and [`TASKS_MAX`] x 128 bytes for its tasks (128 MiB); the simulator adds about 1 KiB a task.
//! docs/guide/workloads.md states them for users.

#[cfg(doc)]
use crate::Workload;

/// Most tasks of a workload; also most channels, gates, locks and barriers.
pub const TASKS_MAX: u64 = 1 << 20;
/// Most operations of a workload, over all tasks; also most signals, because each needs an operation.
pub const OPS_MAX: u64 = 1 << 24;
/// Most groups of a workload: the policy has that many slots beside the root's.
pub const GROUPS_MAX: u64 = 4095;
/// Most bytes of one [`Op::Memory`](crate::Op::Memory) in each direction, and of a footprint.
pub const MEMORY_BYTES_MAX: u64 = 1 << 44;
/// Longest single piece of work, sleep or run: about 13 days.
pub const TIME_NS_MAX: u64 = 1 << 50;
/// Weight of the heaviest task or group (Linux's MAX_SHARES).
pub const WEIGHT_MAX: u32 = 1 << 18;
/// The slices that a task can ask for; the kernel takes others for the nearest of these.
pub const SLICES_NS: std::ops::RangeInclusive<u32> = 100_000..=100_000_000;
/// Least shares of a group (Linux's MIN_SHARES).
pub const SHARES_MIN: u32 = 2;
/// Deepest nesting of loops.
pub const LOOP_DEPTH_MAX: usize = 64;
/// Most locks that a task holds at a time. (The kernel's lockdep stops at 48, MAX_LOCK_DEPTH.)
pub const HELD_LOCKS_MAX: usize = 64;

/// Most cache lines that are transferred with a message.
pub(crate) const LINES_MAX: u32 = 1 << 20;
/// CPU numbers in a workload file are below this; the machine may have fewer.
pub(crate) const CPUS_MAX: u64 = 1 << 16;
/// Node numbers in a workload file are below this.
pub(crate) const NODES_MAX: u64 = 1 << 16;
/// Longest name in a workload file, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 64;
/// Largest workload file, in bytes.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 20;
