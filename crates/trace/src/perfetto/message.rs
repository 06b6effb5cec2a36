// SPDX-License-Identifier: GPL-2.0-or-later
//! Which of Perfetto's messages is which event of the kernel's, and which numbers its fields have
//! (protos/perfetto/trace/ftrace in Perfetto's source).

use crate::event::{SwitchedOut, TaskName, What};
use crate::perfetto::wire::{Message, Span, Value};
use crate::what::{Fields, Key, state_of_bits, what};

/// An event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// The number of its field in FtraceEvent.
    field: u64,
    pub(crate) subsystem: &'static str,
    pub(crate) name: &'static str,
    /// The names of its fields, from number 1.
    names: &'static [&'static str],
}

const fn kind(
    field: u64,
    subsystem: &'static str,
    name: &'static str,
    names: &'static [&'static str],
) -> Kind {
    Kind { field, subsystem, name, names }
}

const WAKEUP: &[&str] = &["comm", "pid", "prio", "success", "target_cpu"];

/// The events that say something.
static KINDS: [Kind; 16] = [
    kind(
        4,
        "sched",
        "sched_switch",
        &["prev_comm", "prev_pid", "prev_prio", "prev_state", "next_comm", "next_pid", "next_prio"],
    ),
    kind(17, "sched", "sched_wakeup", WAKEUP),
    kind(20, "sched", "sched_waking", WAKEUP),
    kind(114, "sched", "sched_wakeup_new", WAKEUP),
    kind(235, "task", "task_newtask", &["pid", "comm", "clone_flags", "oom_score_adj"]),
    kind(237, "sched", "sched_process_exec", &["filename", "pid", "old_pid"]),
    kind(238, "sched", "sched_process_exit", &["comm", "pid", "tgid", "prio"]),
    kind(239, "sched", "sched_process_fork", &["parent_comm", "parent_pid", "child_comm", "child_pid"]),
    kind(491, "sched", "sched_migrate_task", &["comm", "pid", "prio", "orig_cpu", "dest_cpu"]),
    kind(21, "ipi", "ipi_entry", &[]),
    kind(22, "ipi", "ipi_exit", &[]),
    kind(24, "irq", "softirq_entry", &["vec"]),
    kind(25, "irq", "softirq_exit", &["vec"]),
    kind(26, "irq", "softirq_raise", &["vec"]),
    kind(36, "irq", "irq_handler_entry", &[]),
    kind(37, "irq", "irq_handler_exit", &[]),
];

/// An event that says nothing about waiting.
pub(crate) static OTHER: Kind = kind(0, "", "", &[]);

/// Returns the event that the field of this number in FtraceEvent has.
pub(crate) fn kind_of(field: u64) -> &'static Kind {
    KINDS.iter().find(|kind| kind.field == field).unwrap_or(&OTHER)
}

impl Kind {
    pub(crate) fn is_fork(&self) -> bool {
        self.name == "sched_process_fork"
    }

    pub(crate) fn is_new_task(&self) -> bool {
        self.name == "task_newtask"
    }

    /// Calls `with` with the places of the names in a message.
    pub(crate) fn names(&self, bytes: &[u8], span: Span, mut with: impl FnMut(Span)) {
        let mut message = Message::new(bytes, span);
        while let Ok(Some((field, value))) = message.next() {
            if let Value::Bytes(place) = value
                && (1..=self.names.len() as u64).contains(&field)
            {
                with(place);
            }
        }
    }
}

/// The most fields of a message that are read.
const FIELDS_MAX: usize = 8;

/// One message of an event.
pub(crate) struct Record<'a> {
    kind: &'static Kind,
    bytes: &'a [u8],
    values: [Option<Value>; FIELDS_MAX],
}

impl<'a> Record<'a> {
    /// `bytes`: the message, with readable names. What breaks the rules ends it.
    pub(crate) fn new(kind: &'static Kind, bytes: &'a [u8]) -> Self {
        let mut values = [None; FIELDS_MAX];
        let mut message = Message::new(bytes, (0, bytes.len()));
        while let Ok(Some((field, value))) = message.next() {
            let index = usize::try_from(field).ok().and_then(|field| field.checked_sub(1));
            if let Some(known) = index.and_then(|index| values.get_mut(index)) {
                *known = Some(value);
            }
        }
        Record { kind, bytes, values }
    }

    fn value(&self, name: &str) -> Option<Value> {
        let index = self.kind.names.iter().position(|known| *known == name)?;
        self.values.get(index).copied().flatten()
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        match self.value(name)? {
            Value::Bytes((begin, end)) => std::str::from_utf8(self.bytes.get(begin..end)?).ok(),
            Value::Number(_) => None,
        }
    }

    /// Numbers with a sign are written as if they had 64 bits.
    fn integer(&self, name: &str) -> Option<i64> {
        match self.value(name)? {
            Value::Number(number) => Some(number as i64),
            Value::Bytes(_) => None,
        }
    }

    /// Returns the number of a soft interrupt.
    pub(crate) fn vector(&self) -> Option<i64> {
        self.integer("vec")
    }

    /// Returns what the event says, while the task `tid` was current. The error says what was expected.
    pub(crate) fn what(mut self, tid: Option<u32>) -> Result<What<'a>, String> {
        let kind = self.kind;
        if !kind.is_new_task() {
            let said = what(kind.name, &mut self);
            return said.map_err(|expected| format!("{} with {expected}", kind.name));
        }
        let new = self.text("comm").zip(self.integer("pid").and_then(|pid| u32::try_from(pid).ok()));
        let (comm, child) = new.ok_or_else(|| "task_newtask with comm= pid=".to_owned())?;
        // The new task has the name of its parent.
        let named = |tid| TaskName { comm, tid, prio: None };
        Ok(tid.map_or(What::Other, |tid| What::Fork { parent: named(tid), child: named(child) }))
    }
}

impl<'a> Fields<'a> for Record<'a> {
    fn task(&mut self, comm: Key, tid: Key) -> Option<(&'a str, u32)> {
        Some((self.text(comm.name)?, u32::try_from(self.integer(tid.name)?).ok()?))
    }

    fn number(&mut self, key: Key) -> Option<i64> {
        self.integer(key.name)
    }

    fn number_if_any(&mut self, key: Key) -> Option<i64> {
        self.integer(key.name)
    }

    fn number_after(&mut self, key: Key) -> Option<i64> {
        self.integer(key.name)
    }

    fn address_after(&mut self, key: Key) -> Option<u64> {
        self.integer(key.name).map(|number| number as u64)
    }

    fn state(&mut self, key: Key, comm: &str) -> Option<SwitchedOut> {
        Some(state_of_bits(self.integer(key.name)? as u64, comm))
    }

    fn skip_text(&mut self, _key: Key, _next: Key) -> bool {
        true
    }

    fn skip_arrow(&mut self) {}

    fn at_end(&self) -> bool {
        true
    }
}
