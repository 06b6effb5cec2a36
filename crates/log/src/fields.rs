// SPDX-License-Identifier: GPL-2.0-or-later
//! The fields of answers, by name: where they are, and how their values are told.

use wakelab_policy::{AffineReason, BalanceWhy, DispatchDo, LogKind, Pick, Reason};

/// How a field's value is told.
#[derive(Clone, Copy)]
enum Form {
    Number,
    /// A CPU, or -1.
    Signed,
    Reason,
    AffineReason,
    What,
    Why,
    Pick,
    /// One number a distance.
    Reads,
}

/// A field of an answer. `decides`: it says what is done, and is not a measure of how it was found.
pub(crate) struct Field {
    name: &'static str,
    offset: usize,
    bytes: usize,
    form: Form,
    pub(crate) decides: bool,
}

const fn field(name: &'static str, offset: usize, bytes: usize, form: Form, decides: bool) -> Field {
    Field { name, offset, bytes, form, decides }
}

/// As in `struct wl_decision`.
const SELECT: &[Field] = &[
    field("cpu", 0, 4, Form::Signed, true),
    field("reason", 4, 4, Form::Reason, true),
    field("affine_reason", 8, 4, Form::AffineReason, true),
    field("claimed", 12, 4, Form::Number, true),
    field("target", 16, 4, Form::Signed, true),
    field("lost_claims", 20, 4, Form::Number, false),
    field("scan_timed", 24, 4, Form::Number, false),
    field("searched", 28, 4, Form::Number, false),
    field("reads", 32, 32, Form::Reads, false),
    field("step_reads", 64, 32, Form::Reads, false),
];
/// As in `struct wl_enqueue_out`.
const ENQUEUE: &[Field] = &[
    field("cpu", 0, 4, Form::Signed, true),
    field("preempt", 4, 4, Form::Number, true),
    field("key", 8, 8, Form::Number, false),
    field("slice_ns", 16, 8, Form::Number, false),
    field("reads", 24, 32, Form::Reads, false),
];
/// As in `struct wl_dispatch_out`.
const DISPATCH: &[Field] = &[
    field("what", 0, 4, Form::What, true),
    field("cpu", 4, 4, Form::Signed, true),
    field("why", 8, 4, Form::Why, true),
    field("level", 12, 4, Form::Number, true),
    field("max_load", 16, 8, Form::Number, false),
    field("max_tasks", 24, 4, Form::Number, false),
    field("pick", 28, 4, Form::Pick, true),
    field("keep_slice_ns", 32, 8, Form::Number, false),
    field("push_cpu", 40, 4, Form::Signed, true),
    field("reads", 48, 32, Form::Reads, false),
];
/// As in `struct wl_log_move`.
const MOVE: &[Field] = &[
    field("max_load", 96, 8, Form::Number, false),
    field("max_tasks", 104, 4, Form::Number, false),
    field("reads", 128, 32, Form::Reads, false),
    field("move", 160, 4, Form::Number, true),
    field("stop", 164, 4, Form::Number, true),
    field("key", 168, 8, Form::Number, false),
    field("slice_ns", 176, 8, Form::Number, false),
];
/// As in `struct wl_run_out`.
const RUN: &[Field] = &[field("run", 0, 4, Form::Number, true)];
/// As in `struct wl_tick_out`.
const TICK: &[Field] = &[
    field("resched", 0, 4, Form::Number, true),
    field("balance_due", 4, 4, Form::Number, true),
    field("kick_cpu", 8, 4, Form::Signed, true),
    field("reads", 16, 32, Form::Reads, false),
];

/// The fields of a question's answer.
pub(crate) fn of(kind: LogKind) -> &'static [Field] {
    match kind {
        LogKind::Select => SELECT,
        LogKind::Enqueue => ENQUEUE,
        LogKind::Dispatch => DISPATCH,
        LogKind::MayMove => MOVE,
        LogKind::MayRun => RUN,
        LogKind::Tick => TICK,
        _ => &[],
    }
}

impl Field {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Its bytes in an answer.
    pub(crate) fn of<'a>(&self, answer: &'a [u8]) -> &'a [u8] {
        &answer[self.offset..self.offset + self.bytes]
    }

    /// Its value in words.
    pub(crate) fn text(&self, answer: &[u8]) -> String {
        let bytes = self.of(answer);
        let number = little_endian(bytes);
        let named = |names: &mut dyn Iterator<Item = &'static str>| {
            names.nth(number as usize).map_or_else(|| number.to_string(), str::to_owned)
        };
        match self.form {
            Form::Number => number.to_string(),
            Form::Signed => (number as u32 as i32).to_string(),
            Form::Reason => named(&mut Reason::ALL.iter().map(|reason| reason.name())),
            Form::AffineReason => named(&mut AffineReason::ALL.iter().map(|reason| reason.name())),
            Form::What => named(&mut DispatchDo::ALL.iter().map(|what| what.name())),
            Form::Why => named(&mut BalanceWhy::ALL.iter().map(|why| why.name())),
            Form::Pick => named(&mut Pick::ALL.iter().map(|pick| pick.name())),
            Form::Reads => {
                let numbers: Vec<String> =
                    bytes.chunks_exact(4).map(|four| little_endian(four).to_string()).collect();
                numbers.join(" ")
            }
        }
    }
}

/// Up to 8 bytes as a number, that of the machine: x86-64 and other hosts of BPF are little-endian.
pub(crate) fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_within_their_answers_one_behind_the_other() {
        for &kind in LogKind::ALL.iter().filter(|kind| kind.is_question()) {
            let mut end = 0;
            for field in of(kind) {
                assert!(field.offset >= end, "{} of {}", field.name, kind.name());
                end = field.offset + field.bytes;
            }
            assert!(end <= kind.answer_bytes() && end + 8 > kind.answer_bytes(), "{}", kind.name());
        }
    }
}
