// SPDX-License-Identifier: GPL-2.0-or-later
//! What the binary formats share: a recording in bytes, and the kernel's events as the kernel lays them out.

pub(crate) mod emitter;
pub(crate) mod layout;
pub(crate) mod merge;
pub(crate) mod release;
#[cfg(test)]
pub(crate) mod same;
pub(crate) mod store;
#[cfg(test)]
pub(crate) mod written;
