// SPDX-License-Identifier: GPL-2.0-or-later
//! Calls of the policy as data: what the kinds in event.h take and what answers them, and whether a machine has what an
//! event names.

use std::mem::offset_of;

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::fields::Field;
use crate::mirror::{ANSWER_BYTES, CALLS, Event, EventKind, LAST_QUESTION};

/// Whether a kind of event is about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It is not about a task.
    None,
    /// It may be about a task.
    Maybe,
    /// It is about a task; without one nothing happens.
    Always,
}

/// What a kind of event takes, and what answers it.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Whether it is about a task.
    pub task: Need,
    /// The fields of [`Event`] that it takes.
    pub fields: &'static [&'static str],
    /// The fields of its answer; empty if it has no answer.
    pub answer: &'static [Field],
}

/// The answer to an event: `union wl_answer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Answer {
    words: [u64; ANSWER_BYTES / 8],
}

/// A field of an event that names something that the machine does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The field's offset in [`Event`].
    pub offset: usize,
    /// What it names: `CPU 9`.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

impl EventKind {
    /// What this kind takes, and what answers it.
    pub fn call(self) -> &'static Call {
        &CALLS[self as usize]
    }

    /// Whether it is a question: its answer is a decision.
    pub fn is_question(self) -> bool {
        (EventKind::Select as u32..=LAST_QUESTION).contains(&(self as u32))
    }

    /// Whether it takes this field of [`Event`].
    pub fn takes(self, field: &str) -> bool {
        self.call().fields.contains(&field)
    }
}

impl Event {
    /// Returns an event of this kind, on this CPU and at this time; all other fields are 0.
    pub fn new(kind: EventKind, this_cpu: u32, now_ns: u64) -> Event {
        Event { kind: kind as u32, this_cpu, now_ns, ..Event::default() }
    }

    /// Its kind, if C has such a kind.
    pub fn kind(&self) -> Option<EventKind> {
        EventKind::get(self.kind)
    }

    /// Checks that a machine of `nr_cpus` CPUs, with slots of groups below `nr_groups`, has what the event names.
    ///
    /// # Errors
    /// The first field that names something that does not exist.
    pub fn check(&self, nr_cpus: usize, nr_groups: usize) -> Result<(), Misfit> {
        let Some(kind) = self.kind() else {
            let expected = format!("a kind below {}", EventKind::COUNT);
            return Err(Misfit {
                offset: offset_of!(Event, kind),
                found: format!("kind {}", self.kind),
                expected,
            });
        };
        let cpu = |cpu: u32, offset| match (cpu as usize) < nr_cpus {
            true => Ok(()),
            false => {
                let expected = format!("one below {nr_cpus}, as many as the machine has");
                Err(Misfit { offset, found: format!("CPU {cpu}"), expected })
            }
        };
        let slot = |slot: u32, least: u32, offset| match slot >= least && (slot as usize) < nr_groups {
            true => Ok(()),
            false => {
                let expected = format!("one from {least} to below {nr_groups}");
                Err(Misfit { offset, found: format!("group {slot}"), expected })
            }
        };
        cpu(self.this_cpu, offset_of!(Event, this_cpu))?;
        if kind.takes("cpu") {
            cpu(self.cpu, offset_of!(Event, cpu))?;
        }
        // A task may go to the root even if the host has no groups.
        if kind.takes("slot") && (kind != EventKind::Group || self.slot > 0) {
            slot(self.slot, 1, offset_of!(Event, slot))?;
        }
        if kind.takes("parent") {
            slot(self.parent, 0, offset_of!(Event, parent))?;
        }
        Ok(())
    }
}

impl Default for Answer {
    fn default() -> Answer {
        Answer::new_zeroed()
    }
}

impl Answer {
    /// Returns the answer as this type. With the type of another kind of event the result is meaningless.
    ///
    /// # Panics
    /// If the type is too large.
    pub fn get<T: FromBytes>(&self) -> T {
        T::read_from_prefix(self.as_bytes()).unwrap_or_else(|_| panic!("an answer of {ANSWER_BYTES} bytes")).0
    }

    /// Writes an answer of this type, for SCAN_TOOK and MAY_MOVE, which read it.
    ///
    /// # Panics
    /// If the type is too large.
    pub fn set<T: IntoBytes + Immutable>(&mut self, value: &T) {
        let bytes = value.as_bytes();
        self.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
    }
}
