// SPDX-License-Identifier: GPL-2.0-or-later
//! Events and answers in a form that both builds share, and the differences between two answers.
//!
//! An answer is the bytes of its C struct. The tables of fields that are generated from the headers give the layout;
//! unused room is not compared. Both builds have the same layout except for the length of a task's mask, which comes
//! last.

use std::fmt::Write;
use std::sync::LazyLock;

use wakelab_policy::{Answer, Block, CpuState, Event, EventKind, Group, GroupCpu, Leaf, Task, leaves};
use zerocopy::IntoBytes;

use crate::kernel::{bytes, types};

/// "No task" in an event (PARITY_NO_TASK).
const NO_TASK: u32 = u32::MAX;

/// An event, the numbers of its task, waker and mask, and the native build's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The kind, or one more than the last: PARITY_IDLE_MASK.
    pub(crate) event: Event,
    pub(crate) task: Option<u32>,
    pub(crate) waker: Option<u32>,
    /// Index of an affinity mask.
    pub(crate) mask: u32,
    pub(crate) answer: Answer,
    /// The records of task and waker after the event, if it has any.
    pub(crate) records: [Option<Record>; 2],
}

/// A task's record without its mask.
pub(crate) type Record = [u8; RECORD];
const RECORD: usize = std::mem::offset_of!(Task, allowed);

/// Returns a task's record as a step keeps it.
pub(crate) fn record(task: &Task) -> Record {
    *task.as_bytes().first_chunk().expect("a task has a record before its mask")
}

/// The numbers of each kind's answer, and of a task's record.
static ANSWERS: LazyLock<Vec<Vec<Leaf>>> =
    LazyLock::new(|| EventKind::ALL.iter().map(|kind| leaves(kind.call().answer)).collect());
static TASK: LazyLock<Vec<Leaf>> =
    LazyLock::new(|| leaves(Task::FIELDS).into_iter().filter(|leaf| leaf.offset < RECORD).collect());

/// The numbers in the policy's state.
pub(crate) struct State {
    pub(crate) cpu: Vec<Leaf>,
    pub(crate) block: Vec<Leaf>,
    pub(crate) group: Vec<Leaf>,
    pub(crate) group_cpu: Vec<Leaf>,
}

pub(crate) static STATE: LazyLock<State> = LazyLock::new(|| State {
    cpu: leaves(CpuState::FIELDS),
    block: leaves(Block::FIELDS),
    group: leaves(Group::FIELDS),
    group_cpu: leaves(GroupCpu::FIELDS),
});

/// Appends `prefix.field: native A, BPF B` for every number that differs.
pub(crate) fn differences(numbers: &[Leaf], prefix: &str, native: &[u8], bpf: &[u8], into: &mut Vec<String>) {
    for number in numbers {
        if number.value(native) != number.value(bpf) {
            let (native, bpf) = (number.text(native), number.text(bpf));
            into.push(format!("{prefix}.{number}: native {native}, BPF {bpf}"));
        }
    }
}

/// Returns an event as the BPF program reads it.
pub(crate) fn for_bpf(
    event: &Event,
    task: Option<u32>,
    waker: Option<u32>,
    mask: u32,
) -> types::parity_event {
    let Event { kind, this_cpu, now_ns, value, cpu, prev_cpu, flags, weight, slot, parent } = *event;
    types::parity_event {
        event: types::wl_event { kind, this_cpu, now_ns, value, cpu, prev_cpu, flags, weight, slot, parent },
        task: task.unwrap_or(NO_TASK),
        waker: waker.unwrap_or(NO_TASK),
        mask,
        unused: 0,
    }
}

impl Step {
    /// Returns every field in which the BPF build's answer differs; empty if none does.
    pub(crate) fn differences(&self, bpf: &types::parity_answer) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(kind) = self.event.kind() {
            let (native, bpf) = (self.answer.as_bytes(), bytes(&bpf.answer));
            differences(&ANSWERS[kind as usize], "answer", native, bpf, &mut found);
        }
        let records = [("task", &bpf.task), ("waker", &bpf.waker)];
        for ((prefix, bpf), native) in records.into_iter().zip(&self.records) {
            if let Some(native) = native {
                differences(&TASK, prefix, native, bytes(bpf), &mut found);
            }
        }
        found
    }

    /// Returns the event and the native answer in words.
    pub(crate) fn text(&self) -> String {
        let kind = self.event.kind();
        let mut text = format!("{} {:?}", kind.map_or("idle-mask", EventKind::name), self.event);
        for (index, number) in kind.map_or(&[][..], |kind| &ANSWERS[kind as usize]).iter().enumerate() {
            let before = if index == 0 { "\n  native   " } else { ", " };
            write!(text, "{before}{number} {}", number.text(self.answer.as_bytes())).expect("a string");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use wakelab_policy::Decision;

    use super::*;

    #[test]
    fn differences_name_the_field_and_both_values() {
        let native = Decision { cpu: 3, ..Default::default() };
        let mut bpf = types::wl_decision { cpu: -1, reason: 2, ..Default::default() };
        bpf.step_reads.at[2] = 5;
        let mut found = Vec::new();
        differences(&leaves(Decision::FIELDS), "answer", native.as_bytes(), bytes(&bpf), &mut found);
        let expected = [
            "answer.cpu: native 3, BPF -1",
            "answer.reason: native none, BPF target-idle",
            "answer.step_reads[2]: native 0, BPF 5",
        ];
        assert_eq!(found, expected);
    }

    /// The tables are of the native build; a struct of another layout in the BPF build would be read wrongly.
    #[test]
    fn both_builds_have_the_same_layout() {
        assert_eq!(size_of::<types::wl_cpu>(), size_of::<CpuState>());
        assert_eq!(size_of::<types::wl_block>(), size_of::<Block>());
        assert_eq!(size_of::<types::wl_group>(), size_of::<Group>());
        assert_eq!(size_of::<types::wl_group_cpu>(), size_of::<GroupCpu>());
        assert_eq!(size_of::<types::wl_event>(), size_of::<Event>());
        assert_eq!(size_of::<types::wl_task>(), RECORD + crate::kernel::MASK_WORDS * 8);
    }
}
