// SPDX-License-Identifier: GPL-2.0-or-later
//! Every question of a log asked again, each read being answered by what was read then.
//!
//! Nothing else goes into an answer than its record: the task's and waker's records, the arguments and the notes. So
//! the native answer must be the same to the last field, whatever other CPUs did meanwhile, and the native policy must
//! read the same things.

use wakelab_policy::{LogKind, Logged, Note};

use crate::{Error, Log, Record, fields};

/// How many questions of a kind there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Asked, and in the log.
    pub questions: u64,
    /// Answered alike by the native policy.
    pub agreed: u64,
    /// Not compared: the record had no room for all that was read.
    pub cut: u64,
}

/// A field in which an answer differs, or something that only one of the two read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The record's number in the file, from 1 on.
    pub record: usize,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// The CPU that asked.
    pub cpu: u32,
    /// When.
    pub now_ns: u64,
    /// What.
    pub kind: LogKind,
    /// The task's id; 0: none.
    pub task: u64,
    /// The answer's field, or what was read: `cpu[3].nr_queued`.
    pub field: String,
    /// What the log has.
    pub live: String,
    /// What the native policy says.
    pub native: String,
}

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// By kind of question, in the order of [`LogKind::ALL`]; kinds that never occur are left out.
    pub kinds: Vec<(LogKind, Counts)>,
    /// In the file's order.
    pub differences: Vec<Difference>,
}

impl Verified {
    /// All kinds together.
    pub fn total(&self) -> Counts {
        let add = |sum: Counts, (_, counts): &(LogKind, Counts)| Counts {
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
    let mut counts = vec![Counts::default(); LogKind::ALL.len()];
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
    let kinds = LogKind::ALL.iter().copied().zip(counts).filter(|(_, counts)| counts.questions > 0).collect();
    Ok(Verified { kinds, differences })
}

/// Asks one question, and adds what differs.
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
    let mut answer = record.answer.to_vec();
    if record.kind == LogKind::MayMove {
        // What is read of it is what was there before; all else is written.
        let before = answer.len() - 104;
        answer[before..].fill(0);
    } else {
        answer.fill(0);
    }
    let (task, waker) = (record.task.map(|_| 0), record.waker.map(|_| 1));
    let replayed = native.replay(&record.head, task, waker, &mut notes, &mut answer);
    let mut differ = |field: String, live: String, native: String| {
        differences.push(Difference {
            record: record.number,
            offset: record.offset,
            cpu: record.head.cpu,
            now_ns: record.head.now_ns,
            kind: record.kind,
            task: record.head.task,
            field,
            live,
            native,
        });
    };
    for field in fields::of(record.kind) {
        if field.of(record.answer) != field.of(&answer) {
            differ(field.name().to_owned(), field.text(record.answer), field.text(&answer));
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

/// Where in the native instance is what a note is of. Group records and tasks are elsewhere than they were in the
/// kernel; where those were is told by the record's head, and by the look-ups that come before reads of a group's
/// record.
pub(crate) fn to_native(native: &Logged, record: &Record<'_>, note: &Note) -> u32 {
    let layout = Logged::layout();
    if note.kind != Note::READ {
        return note.what;
    }
    // Tasks before the policy: a note has the lower half of a distance only, and that of a task far away may look like
    // one into the policy's rarely used parts.
    let within = |begin: u32, bytes: u32| {
        let offset = note.what.wrapping_sub(begin);
        (offset < bytes).then_some(offset)
    };
    if record.task.is_some()
        && let Some(offset) = within(record.head.task_at, layout.task)
    {
        return native.task_at(0) as u32 + offset;
    }
    if record.waker.is_some()
        && let Some(offset) = within(record.head.waker_at, layout.task)
    {
        return native.task_at(1) as u32 + offset;
    }
    let (groups, group_cpus) = native.groups_at();
    let kinds = [(Note::GROUP, layout.group, groups), (Note::GROUP_CPU, layout.group_cpu, group_cpus)];
    for lookup in record.lookups() {
        for (kind, bytes, begin) in kinds {
            if lookup.kind == kind
                && lookup.value != 0
                && let Some(offset) = within(lookup.value as u32, bytes)
            {
                return begin as u32 + lookup.what * bytes + offset;
            }
        }
    }
    note.what
}
