// SPDX-License-Identifier: GPL-2.0-or-later
//! What all formats share once an event is taken apart: checks of its time and its CPUs, and whether an interrupt
//! caused it.

use crate::event::{Current, Event, Place, What};
use crate::interrupts::Interrupts;
use crate::{MAX_CPUS, TraceError};

/// Longer than any recording of every context switch, and short enough that sums of CPU time over [`MAX_CPUS`] fit into
/// 64 bits: 13 days.
const MAX_DURATION_NS: u64 = 1 << 50;

/// What is expected of a time that [`Order::is_too_late`].
pub(crate) const NOT_TOO_LATE: &str = "a time less than 13 days after the first event's";

/// An event before these checks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Happened<'a> {
    pub(crate) place: Place,
    pub(crate) time_ns: u64,
    /// Below [`MAX_CPUS`].
    pub(crate) cpu: u32,
    pub(crate) current: Current<'a>,
    /// ftrace's letters (`d.h1.`), if there are any.
    pub(crate) flags: Option<&'a str>,
    /// Empty if the format does not say.
    pub(crate) subsystem: &'a str,
    pub(crate) name: &'a str,
    /// The fields of an event that begins or ends an interrupt, as text.
    pub(crate) fields: &'a str,
    pub(crate) what: What<'a>,
}

/// What the reader has seen so far.
#[derive(Debug, Default)]
pub(crate) struct Order {
    interrupts: Interrupts,
    events: u64,
    switches: u64,
    first_ns: Option<u64>,
    previous_ns: u64,
}

impl Order {
    pub(crate) fn any_event(&self) -> bool {
        self.events > 0
    }

    /// Refuses a time before that of the event before.
    pub(crate) fn check_time(&self, file: &str, place: Place, time_ns: u64) -> Result<(), TraceError> {
        if time_ns >= self.previous_ns {
            return Ok(());
        }
        Err(TraceError::TimeBackwards {
            file: file.to_owned(),
            place,
            time_ns,
            previous_ns: self.previous_ns,
        })
    }

    /// Whether a time, which is not before the first event's, is too far behind it.
    pub(crate) fn is_too_late(&self, time_ns: u64) -> bool {
        time_ns - self.first_ns.unwrap_or(time_ns) > MAX_DURATION_NS
    }

    /// Checks the CPUs of an event whose time was checked, and returns it.
    pub(crate) fn event<'a>(&mut self, file: &str, happened: Happened<'a>) -> Result<Event<'a>, TraceError> {
        let Happened { place, time_ns, cpu, current, what, .. } = happened;
        let (one, other) = match what {
            What::Waking { last_cpu: cpu, .. } | What::Wakeup { cpu, .. } | What::WakeupNew { cpu, .. } => {
                (cpu, 0)
            }
            What::Migrate { from_cpu, to_cpu, .. } => (from_cpu, to_cpu),
            _ => (0, 0),
        };
        if one.max(other) >= MAX_CPUS {
            return Err(bad_cpu(file, place, &one.max(other).to_string()));
        }
        self.events += 1;
        self.first_ns.get_or_insert(time_ns);
        self.previous_ns = time_ns;
        self.switches += u64::from(matches!(what, What::Switch { .. }));
        let interrupt_ended_ns =
            self.interrupts.event(cpu, time_ns, happened.subsystem, happened.name, happened.fields);
        Ok(Event {
            place,
            time_ns,
            cpu,
            current,
            context: self.interrupts.context(cpu, happened.flags),
            interrupt_since_ns: self.interrupts.since_ns(cpu),
            interrupt_ended_ns,
            what,
        })
    }

    /// Checks at the end that the recording has events and context switches; `empty` is the error if it has no events.
    pub(crate) fn check_end(&self, file: &str, empty: impl FnOnce() -> TraceError) -> Result<(), TraceError> {
        if self.events == 0 {
            return Err(empty());
        }
        if self.switches == 0 {
            return Err(TraceError::NoSwitch { file: file.to_owned(), events: self.events });
        }
        Ok(())
    }
}

/// The refusal of a CPU as it is written there.
pub(crate) fn bad_cpu(file: &str, place: Place, cpu: &str) -> TraceError {
    TraceError::Cpu { file: file.to_owned(), place, cpu: cpu.to_owned() }
}
