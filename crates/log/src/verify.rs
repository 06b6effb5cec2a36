// SPDX-License-Identifier: GPL-2.0-or-later
//! Asks every question of a log again, with the values that were read then.
//!
//! An answer depends only on its record: the records of task and waker, the arguments, and the notes of reads. So the
//! native answer must be the same in every field, whatever other CPUs did at the time, and the native policy must read
//! the same places.

use wakelab_policy::{Answer, Dispatch, EventKind, Moved};
use zerocopy::IntoBytes;

use crate::mirror::{WL_GROUP_BYTES, WL_GROUP_CPU_BYTES, WL_TASK_BYTES};
use crate::{Error, Log, Logged, Note, NoteKind, Record, fields};

/// Numbers of questions of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Questions in the log.
    pub questions: u64,
    /// Questions that the native policy answers the same.
    pub agreed: u64,
    /// Questions that are not compared, because the record had no room for all reads.
    pub cut: u64,
}

/// A field in which an answer differs, or a place that only one of the two policies read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The record's number in the file, counted from 1.
    pub record: usize,
    /// The record's offset in the file, in bytes.
    pub offset: u64,
    /// The CPU that asked.
    pub cpu: u32,
    /// The time of the question, as the policy was told it.
    pub now_ns: u64,
    /// The kind of question.
    pub kind: EventKind,
    /// The task's id; 0: none.
    pub task: u64,
    /// The answer's field, or the place that was read: `cpu[3].nr_queued`.
    pub field: String,
    /// The value in the log.
    pub live: String,
    /// The native policy's value.
    pub native: String,
}

/// The result of verifying.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// Counts by kind of question, in the order of [`EventKind::ALL`], without kinds that do not occur.
    pub kinds: Vec<(EventKind, Counts)>,
    /// The differences, in the file's order.
    pub differences: Vec<Difference>,
}

impl Verified {
    /// The sum over all kinds.
    pub fn total(&self) -> Counts {
        let add = |sum: Counts, (_, counts): &(EventKind, Counts)| Counts {
            questions: sum.questions + counts.questions,
            agreed: sum.agreed + counts.agreed,
            cut: sum.cut + counts.cut,
        };
        self.kinds.iter().fold(Counts::default(), add)
    }
}

/// Asks all questions of a log again.
///
/// # Errors
/// If the header's policy cannot be built.
pub fn verify(log: &Log<'_>) -> Result<Verified, Error> {
    // The task and the waker of the question.
    let mut native = log.header.instance(2)?;
    let mut counts = vec![Counts::default(); EventKind::ALL.len()];
    let mut differences = Vec::new();
    for record in log.records().filter(|record| record.kind.is_question()) {
        let counts = &mut counts[record.kind as usize];
        counts.questions += 1;
        if record.is_cut() {
            counts.cut += 1;
            continue;
        }
        let before = differences.len();
        ask(&mut native, &record, &mut differences);
        counts.agreed += u64::from(differences.len() == before);
    }
    let kinds =
        EventKind::ALL.iter().copied().zip(counts).filter(|(_, counts)| counts.questions > 0).collect();
    Ok(Verified { kinds, differences })
}

/// Asks one question again, and appends the differences.
fn ask(native: &mut Logged, record: &Record<'_>, differences: &mut Vec<Difference>) {
    let mut notes = record.notes();
    for note in &mut notes {
        note.what = to_native(native, record, note);
    }
    for (index, bytes) in [record.task, record.waker].into_iter().enumerate() {
        if let Some(bytes) = bytes {
            native.set_task(index, bytes);
        }
    }
    let mut answer = asked(record);
    let (task, waker) = (record.task.map(|_| 0), record.waker.map(|_| 1));
    let replayed = native.replay(&record.head.event, task, waker, &mut notes, &mut answer);
    let mut differ = |field: String, live: String, native: String| {
        differences.push(Difference {
            record: record.number,
            offset: record.offset,
            cpu: record.head.event.this_cpu,
            now_ns: record.head.event.now_ns,
            kind: record.kind,
            task: record.head.task,
            field,
            live,
            native,
        });
    };
    for field in fields::of(record.kind) {
        let (live, native) = (record.answer.as_bytes(), answer.as_bytes());
        if !field.is_equal(live, native) {
            differ(field.name.clone(), field.text(live), field.text(native));
        }
    }
    if replayed.nr_missing > 0 {
        let read = if replayed.nr_missing > 1 {
            format!("read, and {} more", replayed.nr_missing - 1)
        } else {
            "read".to_owned()
        };
        differ(native.name(&replayed.missing), "not read".to_owned(), read);
    }
    if let Some(unused) = replayed.unused {
        let note = notes[unused];
        differ(native.name(&note), format!("read as {}", note.value), "not read".to_owned());
    }
}

/// The part of a record's answer that the question reads: a pull's budget. All else is zero.
pub(crate) fn asked(record: &Record<'_>) -> Answer {
    let mut asked = Answer::default();
    if record.kind == EventKind::MayMove {
        asked.set::<Dispatch>(&record.answer.get::<Moved>().before);
    }
    asked
}

/// The place in the native instance to which a note refers. In the kernel, records of tasks and groups had other
/// addresses: the record's head has those of the tasks, and the note of a look-up has that of a group.
pub(crate) fn to_native(native: &Logged, record: &Record<'_>, note: &Note) -> u32 {
    if !note.is_read() {
        return note.what;
    }
    // Tasks are compared before the policy: a note has only the lower half of an offset, and the offset of a distant
    // task may look like one into rarely used parts of the policy.
    let within = |begin: u32, bytes: usize| {
        let offset = note.what.wrapping_sub(begin);
        ((offset as usize) < bytes).then_some(offset)
    };
    if record.task.is_some()
        && let Some(offset) = within(record.head.task_at, WL_TASK_BYTES)
    {
        return native.task_at(0) as u32 + offset;
    }
    if record.waker.is_some()
        && let Some(offset) = within(record.head.waker_at, WL_TASK_BYTES)
    {
        return native.task_at(1) as u32 + offset;
    }
    let (groups, group_cpus) = native.groups_at();
    for lookup in record.lookups() {
        let (bytes, begin) = match lookup.kind == NoteKind::Group as u32 {
            true => (WL_GROUP_BYTES, groups),
            false => (WL_GROUP_CPU_BYTES, group_cpus),
        };
        if lookup.value != 0
            && let Some(offset) = within(lookup.value as u32, bytes)
        {
            // A slot that is not in use leads to a place that is never read.
            return (begin as u32).wrapping_add(lookup.what.wrapping_mul(bytes as u32)).wrapping_add(offset);
        }
    }
    note.what
}
