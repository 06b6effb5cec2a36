// SPDX-License-Identifier: GPL-2.0-or-later
//! Whole runs, from outside: first by hand, then properties.

mod common;
mod endings;
mod locks;
mod memory;
mod observing;
mod operations;
mod properties;
mod sharing;
mod smt;
mod wakeup;
