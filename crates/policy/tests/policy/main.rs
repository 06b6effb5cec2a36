// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of policy/ through its Rust API, with a file for each of its files. Hand-computed cases come first, among them
//! the worked example of every header. They are one binary, because linking each file separately takes longer than
//! running it.
//!
//! A file named like a header of policy/ tests that header by hand. group and groups_* are also compared with sums
//! computed in another way, idle_nearest with a slow search on random machines. The other files:
//! - reference: idle searches against a slow second implementation (model.rs), on random machines (shapes.rs)
//! - lines: host/lines.h, which reads are hits and what writes wait for
//! - walk: host/walk.h, walks that are answered 64 CPUs at a time
//! - events: any history of events, told once and told twice; counts conserved; nothing outside affinity
//! - tables: domain levels of regular and random machines
//! - spec: names of policies
#![allow(unreachable_pub, reason = "modules of one test binary")]

// The files of this folder; `cargo xtask lists` writes these lines.
mod account;
mod balance;
mod balance_4_15;
mod balance_5_12;
mod balance_times;
mod capacity;
mod cluster;
mod events;
mod group;
mod groups_exact;
mod groups_exact_clock;
mod groups_load;
mod groups_queues;
mod groups_shares;
mod groups_task_weight;
mod host;
mod idle_merged;
mod idle_narrow;
mod idle_nearest;
mod idle_node;
mod idle_none;
mod idle_scan;
mod idle_smt_balance;
mod idle_two_choices;
mod idle_walk;
mod lines;
mod loads;
mod model;
mod newly_idle;
mod placement;
mod push;
mod queue_buddies;
mod queue_cfs;
mod queue_delayed;
mod queue_fair;
mod reference;
mod shapes;
mod slices;
mod spec;
mod tables;
mod taken;
mod util;
mod wait;
mod wake_affine;
mod wake_flips;
mod wake_wide;
mod walk;
