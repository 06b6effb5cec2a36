// SPDX-License-Identifier: GPL-2.0-or-later
//! Logs of a live scheduler: what its policy was told and asked, what it read, and what it answered.
//!
//! [`Log::parse`] reads a file as docs/guide/log.md describes it, and [`Writer`] writes one. [`verify`] asks the native
//! policy every question of the log again, and answers each of its reads with the value that was read then: the answer
//! must be the same. [`rebuild`] tells a native policy all events in the order of their times, and asks it the same
//! questions. Where an answer differs, it says why: what other CPUs were doing at that moment.

mod document;
mod error;
mod fields;
mod header;
mod logged;
mod mirror;
mod parse;
mod rebuild;
mod verify;
mod write;

pub use document::{ByQuestion, DifferenceDocument, Document, FromEvents, Questions, RaceDocument};
pub use error::Error;
pub use header::Header;
pub use logged::{Logged, Replayed};
pub use mirror::*;
pub use parse::{Log, Record, record_bytes};
pub use rebuild::{Race, Rebuilt, rebuild};
pub use verify::{Counts, Difference, Verified, verify};
pub use write::Writer;
