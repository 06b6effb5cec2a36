// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads a log: its header, the offsets of its records, and a record's parts on demand.
//!
//! Records from outside are checked here: kinds, CPUs, groups, tasks. The code that replays them relies on that. If a
//! file ends inside a record, it was cut off, and the records before are read.

use std::mem::offset_of;

use wakelab_policy::{Answer, EventKind, Need};
use zerocopy::{FromBytes, IntoBytes};

use crate::mirror::WL_TASK_BYTES;
use crate::{
    Error, Header, LOG_ANSWER, LOG_CUT, LOG_HAS_TASK, LOG_HAS_WAKER, LOG_UNIT, LogHead, Note, NoteKind,
};

const HEAD: usize = size_of::<LogHead>();
/// Offset of the event in a head.
const EVENT: usize = offset_of!(LogHead, event);

/// A log in memory.
#[derive(Debug)]
pub struct Log<'a> {
    /// The policy and the machine.
    pub header: Header,
    bytes: &'a [u8],
    /// Offsets of the records, in the file's order.
    offsets: Vec<usize>,
    /// The number of lost records that the last record states; `None`: the log has no last record.
    stated_lost: Option<u64>,
    /// Offset of a record that is cut off.
    cut_at: Option<u64>,
}

/// One record.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Its number in the file, counted from 1.
    pub number: usize,
    /// Its offset in the file, in bytes.
    pub offset: u64,
    /// The kind of its event.
    pub kind: EventKind,
    /// Its head.
    pub head: LogHead,
    /// The answer; zero if the kind has none.
    pub answer: Answer,
    /// The task's record before the question.
    pub task: Option<&'a [u8]>,
    /// The waker's record before the question.
    pub waker: Option<&'a [u8]>,
    notes: &'a [u8],
}

impl Record<'_> {
    /// The values that the policy read.
    pub fn notes(&self) -> Vec<Note> {
        let note = |bytes: &[u8]| Note::read_from_bytes(bytes).expect("as many bytes as a note has");
        self.notes.chunks_exact(LOG_UNIT).map(note).collect()
    }

    /// The notes of look-ups of groups' records.
    pub(crate) fn lookups(&self) -> impl Iterator<Item = Note> {
        let note = |bytes: &[u8]| Note::read_from_bytes(bytes).expect("as many bytes as a note has");
        self.notes.chunks_exact(LOG_UNIT).map(note).filter(Note::is_lookup)
    }

    /// Whether the policy read more than the record has room for.
    pub fn is_cut(&self) -> bool {
        self.head.flags & LOG_CUT != 0
    }
}

impl Note {
    /// Whether it notes the look-up of a group's record.
    pub(crate) fn is_lookup(&self) -> bool {
        matches!(NoteKind::get(self.kind), Some(NoteKind::Group | NoteKind::GroupCpu))
    }

    /// Whether it notes a read of state.
    pub(crate) fn is_read(&self) -> bool {
        self.kind == NoteKind::Read as u32
    }
}

impl<'a> Log<'a> {
    /// Reads the header, and finds and checks all records.
    ///
    /// # Errors
    /// If the bytes are not a log of this version, a record makes no sense on the header's machine, or the header is
    /// not followed by a complete record or by the log's end.
    pub fn parse(bytes: &'a [u8]) -> Result<Log<'a>, Error> {
        let (header, begin) = Header::from_bytes(bytes)?;
        let mut log = Log { header, bytes, offsets: Vec::new(), stated_lost: None, cut_at: None };
        let mut at = begin;
        while at < bytes.len() {
            let Some(head) = log.head(at)? else {
                log.cut_at = Some(at as u64);
                break;
            };
            if head.event.kind == EventKind::None as u32 {
                log.stated_lost = Some(head.event.value);
                at += head.size as usize;
                if at < bytes.len() {
                    return Err(Error::format(at as u64, "more bytes", "nothing behind the last record"));
                }
                break;
            }
            log.offsets.push(at);
            at += head.size as usize;
        }
        if log.is_empty() && !log.has_end() {
            let found = "the end of the file, without a whole record";
            return Err(Error::format(
                bytes.len() as u64,
                found,
                "records, or the end of a log that has none",
            ));
        }
        Ok(log)
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether it has no record.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// The offset of the record inside which the file ends, if it does.
    pub fn cut_at(&self) -> Option<u64> {
        self.cut_at
    }

    /// Whether its writer ended it. If not, the writer was killed, or the file was cut off.
    pub fn has_end(&self) -> bool {
        self.stated_lost.is_some()
    }

    /// The number of records that are missing: according to gaps in the CPUs' counts or to the writer's own count,
    /// whichever is larger.
    pub fn lost(&self) -> u64 {
        let mut counts = vec![(0u64, 0u64); self.header.topology.nr_cpus()];
        for record in self.records() {
            let (most, number) = &mut counts[record.head.event.this_cpu as usize];
            *most = (*most).max(record.head.seq.saturating_add(1));
            *number += 1;
        }
        let gaps =
            counts.iter().map(|(most, number)| most.saturating_sub(*number)).fold(0, u64::saturating_add);
        self.stated_lost.unwrap_or(0).max(gaps)
    }

    /// All records, in the file's order.
    pub fn records(&self) -> impl Iterator<Item = Record<'a>> {
        (0..self.len()).map(|index| self.record(index))
    }

    /// The record at `index`, counted from 0.
    ///
    /// # Panics
    /// If the log has no such record.
    pub fn record(&self, index: usize) -> Record<'a> {
        let offset = self.offsets[index];
        let head = LogHead::read_from_prefix(&self.bytes[offset..]).expect("checked by parse()").0;
        let kind = head.event.kind().expect("checked by parse()");
        let mut rest = &self.bytes[offset + HEAD..offset + head.size as usize];
        let mut part = |bytes: usize| {
            let (part, behind) = rest.split_at(bytes.next_multiple_of(LOG_UNIT));
            rest = behind;
            &part[..bytes]
        };
        let answer = match has_answer(kind) {
            true => Answer::read_from_prefix(part(LOG_ANSWER)).expect("the part has room for it").0,
            false => Answer::default(),
        };
        let mut task = |flag| (head.flags & flag != 0).then(|| part(WL_TASK_BYTES));
        let (task, waker) = (task(LOG_HAS_TASK), task(LOG_HAS_WAKER));
        Record { number: index + 1, offset: offset as u64, kind, head, answer, task, waker, notes: rest }
    }

    /// Reads and checks the head at `at`. `None` if the file ends before the record does.
    fn head(&self, at: usize) -> Result<Option<LogHead>, Error> {
        let offset = at as u64;
        let Ok((head, _)) = LogHead::read_from_prefix(&self.bytes[at..]) else { return Ok(None) };
        let Some(kind) = head.event.kind() else {
            return Err(Error::format(
                offset + EVENT as u64,
                format!("kind {}", head.event.kind),
                format!("a kind of record below {}", EventKind::COUNT),
            ));
        };
        let size = head.size as usize;
        let expected = record_size(kind, &head);
        if size != expected {
            return Err(Error::format(
                offset,
                format!("a record of {size} bytes"),
                format!("{expected}, as its parts have (a {} with {} notes)", kind.name(), head.nr_notes),
            ));
        }
        if self.bytes.len() - at < size {
            return Ok(None);
        }
        self.check(offset, kind, &head)?;
        Ok(Some(head))
    }

    /// Checks that the machine has what the head names, and that the record has the parts that its kind needs.
    fn check(&self, offset: u64, kind: EventKind, head: &LogHead) -> Result<(), Error> {
        head.event.check(self.header.topology.nr_cpus(), self.header.nr_groups).map_err(|misfit| {
            Error::format(offset + (EVENT + misfit.offset) as u64, misfit.found, misfit.expected)
        })?;
        let has_task = head.flags & LOG_HAS_TASK != 0;
        let needs_bytes =
            kind == EventKind::Affinity || (kind.is_question() && kind.call().task == Need::Always);
        if needs_bytes && !has_task {
            let found = format!("a {} without a task", kind.name());
            return Err(Error::format(
                offset + offset_of!(LogHead, flags) as u64,
                found,
                "one with its task",
            ));
        }
        // Without an id, its events could not be distinguished from those of other tasks.
        if has_task && head.task == 0 {
            let found = format!("a {} with a task whose id is 0", kind.name());
            return Err(Error::format(offset + offset_of!(LogHead, task) as u64, found, "the task's id"));
        }
        Ok(())
    }
}

/// Whether records of this kind carry an answer.
fn has_answer(kind: EventKind) -> bool {
    kind.is_question() || kind == EventKind::ScanTook
}

/// The size of a record with this head, in bytes.
fn record_size(kind: EventKind, head: &LogHead) -> usize {
    let answer = if has_answer(kind) { LOG_ANSWER } else { 0 };
    let task = WL_TASK_BYTES.next_multiple_of(LOG_UNIT);
    let has = |flag| usize::from(head.flags & flag != 0);
    HEAD + answer + (has(LOG_HAS_TASK) + has(LOG_HAS_WAKER)) * task + head.nr_notes as usize * LOG_UNIT
}

/// Returns a complete record with these parts, for schedulers in user space, such as a test. The head's event has the
/// kind; this function fills in the size, the number of notes, and which tasks are part of the record.
///
/// # Panics
/// If the head has no kind, or there are more notes than a record can have.
pub fn record_bytes(
    mut head: LogHead,
    answer: &Answer,
    task: Option<&[u8]>,
    waker: Option<&[u8]>,
    notes: &[Note],
) -> Vec<u8> {
    let kind = head.event.kind().expect("a kind of event");
    head.nr_notes = notes.len().try_into().expect("at most 65,535 notes");
    head.flags |= if task.is_some() { LOG_HAS_TASK } else { 0 };
    head.flags |= if waker.is_some() { LOG_HAS_WAKER } else { 0 };
    head.size = record_size(kind, &head) as u32;
    let mut bytes = head.as_bytes().to_vec();
    let mut part = |part: &[u8], length: usize| {
        bytes.extend(part);
        bytes.resize(bytes.len() - part.len() + length.next_multiple_of(LOG_UNIT), 0);
    };
    if has_answer(kind) {
        part(answer.as_bytes(), LOG_ANSWER);
    }
    [task, waker].into_iter().flatten().for_each(|task| part(task, task.len()));
    bytes.extend(notes.as_bytes());
    bytes
}
