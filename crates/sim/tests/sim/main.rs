// SPDX-License-Identifier: GPL-2.0-or-later
//! Whole runs, from outside: first by hand, then properties.

mod cache;
mod causes;
mod common;
mod counters;
mod data;
mod delayed;
mod endings;
mod exec;
mod fair_groups;
mod fairness;
mod forbidden;
mod groups;
mod idle_exit;
mod interrupts;
mod locks;
mod memory;
mod models;
mod observing;
mod operations;
mod passed;
mod properties;
mod quota;
mod reads;
mod runqueue_lock;
mod searches;
mod sharing;
mod smt;
mod waits;
mod wakeup;
mod water_filling;
