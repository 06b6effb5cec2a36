// SPDX-License-Identifier: GPL-2.0-or-later
//! Reading a log: its header and where its records are; a record's parts when they are asked for.
//!
//! What a record names (CPUs, slots, kinds) is checked here, so that whoever replays it needs not to. A file that ends
//! within a record was cut off: what is before that is read.

use wakelab_policy::{LOG_CUT, LOG_HAS_TASK, LOG_HAS_WAKER, LOG_UNIT, LogHead, LogKind, Logged, Note};
use zerocopy::{FromBytes, IntoBytes};

use crate::{Error, Header};

/// `WL_LOG_ANSWER`: bytes of the part that holds an answer.
const ANSWER: usize = 192;
const HEAD: usize = size_of::<LogHead>();

/// A log in memory.
#[derive(Debug)]
pub struct Log<'a> {
    /// What it is of.
    pub header: Header,
    bytes: &'a [u8],
    /// Where each record begins, in the file's order.
    offsets: Vec<usize>,
    /// As its last record says; `None`: it has no end.
    stated_lost: Option<u64>,
    /// Where a record begins that is not there whole.
    cut_at: Option<u64>,
}

/// One record.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Its number in the file, from 1 on.
    pub number: usize,
    /// Where it begins in the file.
    pub offset: u64,
    /// What it is of.
    pub kind: LogKind,
    /// Its head.
    pub head: LogHead,
    /// What was answered; of the kind's length.
    pub answer: &'a [u8],
    /// The task's record before it.
    pub task: Option<&'a [u8]>,
    /// The waker's.
    pub waker: Option<&'a [u8]>,
    notes: &'a [u8],
}

impl Record<'_> {
    /// What the policy read.
    pub fn notes(&self) -> Vec<Note> {
        let note = |bytes: &[u8]| Note::read_from_bytes(bytes).expect("as many bytes as a note has");
        self.notes.chunks_exact(LOG_UNIT).map(note).collect()
    }

    /// Of them those that look for a group's record.
    pub(crate) fn lookups(&self) -> impl Iterator<Item = Note> {
        let note = |bytes: &[u8]| Note::read_from_bytes(bytes).expect("as many bytes as a note has");
        let is_lookup = |note: &Note| matches!(note.kind, Note::GROUP | Note::GROUP_CPU);
        self.notes.chunks_exact(LOG_UNIT).map(note).filter(is_lookup)
    }

    /// Did the policy read more than the record has?
    pub fn is_cut(&self) -> bool {
        self.head.flags & LOG_CUT != 0
    }
}

impl<'a> Log<'a> {
    /// Reads the header, and finds and checks all records.
    pub fn parse(bytes: &'a [u8]) -> Result<Log<'a>, Error> {
        let (header, begin) = Header::from_bytes(bytes)?;
        let mut log = Log { header, bytes, offsets: Vec::new(), stated_lost: None, cut_at: None };
        let mut at = begin;
        while at < bytes.len() {
            let Some(head) = log.head(at)? else {
                log.cut_at = Some(at as u64);
                break;
            };
            if head.kind == LogKind::End as u16 {
                log.stated_lost = Some(head.args[0]);
                at += head.size as usize;
                if at < bytes.len() {
                    return Err(Error::format(at as u64, "more bytes", "nothing behind the last record"));
                }
                break;
            }
            log.offsets.push(at);
            at += head.size as usize;
        }
        Ok(log)
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether it has no record.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Where the file ends within a record, if it does.
    pub fn cut_at(&self) -> Option<u64> {
        self.cut_at
    }

    /// Was it ended by its writer? Else the writer was killed, or the file cut off.
    pub fn has_end(&self) -> bool {
        self.stated_lost.is_some()
    }

    /// How many records were made and are not here: gaps in the CPUs' counts, and what the writer says if that is more.
    pub fn lost(&self) -> u64 {
        let mut counts = vec![(0u64, 0u64); self.header.topology.nr_cpus()];
        for record in self.records() {
            let (most, number) = &mut counts[record.head.cpu as usize];
            *most = (*most).max(record.head.seq + 1);
            *number += 1;
        }
        let gaps = counts.iter().map(|(most, number)| most.saturating_sub(*number)).sum();
        self.stated_lost.unwrap_or(0).max(gaps)
    }

    /// All records, in the file's order.
    pub fn records(&self) -> impl Iterator<Item = Record<'a>> {
        (0..self.len()).map(|index| self.record(index))
    }

    /// One of them.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn record(&self, index: usize) -> Record<'a> {
        let offset = self.offsets[index];
        let head = LogHead::read_from_prefix(&self.bytes[offset..]).expect("checked by parse()").0;
        let kind = LogKind::from_raw(head.kind).expect("checked by parse()");
        let mut rest = &self.bytes[offset + HEAD..offset + head.size as usize];
        let mut part = |bytes: usize| {
            let (part, behind) = rest.split_at(bytes.next_multiple_of(LOG_UNIT));
            rest = behind;
            &part[..bytes]
        };
        let answer = match kind.answer_bytes() {
            0 => &[],
            bytes => &part(ANSWER)[..bytes],
        };
        let mut task = |flag| (head.flags & flag != 0).then(|| part(Logged::layout().task as usize));
        let (task, waker) = (task(LOG_HAS_TASK), task(LOG_HAS_WAKER));
        Record { number: index + 1, offset: offset as u64, kind, head, answer, task, waker, notes: rest }
    }

    /// The head at `at`, checked; `None` if the file ends before the record does.
    fn head(&self, at: usize) -> Result<Option<LogHead>, Error> {
        let offset = at as u64;
        let Ok((head, _)) = LogHead::read_from_prefix(&self.bytes[at..]) else { return Ok(None) };
        let Some(kind) = LogKind::from_raw(head.kind) else {
            return Err(Error::format(
                offset + 4,
                format!("kind {}", head.kind),
                format!("a kind of record below {}", LogKind::ALL.len()),
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

    /// Does the machine have what the head names?
    fn check(&self, offset: u64, kind: LogKind, head: &LogHead) -> Result<(), Error> {
        use LogKind as K;
        let nr_cpus = self.header.topology.nr_cpus();
        let cpu = |cpu: u64, at: usize| match (cpu as usize) < nr_cpus {
            true => Ok(()),
            false => Err(Error::format(
                offset + at as u64,
                format!("CPU {cpu}"),
                format!("one below {nr_cpus}, as many as the machine has"),
            )),
        };
        let slot = |slot: u64, least: u64| match slot >= least && (slot as usize) < self.header.nr_groups {
            true => Ok(()),
            false => Err(Error::format(
                offset + HEAD as u64 - 32,
                format!("group {slot}"),
                format!("one from {least} to below {}", self.header.nr_groups),
            )),
        };
        cpu(head.cpu.into(), 8)?;
        let has_task = head.flags & LOG_HAS_TASK != 0;
        match kind {
            K::Dispatch
            | K::Tick
            | K::Timer
            | K::Taken
            | K::Busy
            | K::Idle
            | K::ScanTook
            | K::Running
            | K::Stopping
            | K::Enqueue
            | K::MayMove
            | K::MayRun => cpu(head.args[0], HEAD - 32)?,
            K::Group if head.args[0] > 0 => slot(head.args[0], 1)?,
            K::GroupInit | K::GroupExit | K::GroupShares => slot(head.args[0], 1)?,
            _ => {}
        }
        if !has_task && matches!(kind, K::Select | K::Enqueue | K::MayMove | K::MayRun | K::Affinity) {
            return Err(Error::format(
                offset + 6,
                format!("a {} without a task", kind.name()),
                "one with its task",
            ));
        }
        Ok(())
    }
}

/// Bytes that a record of this head takes.
fn record_size(kind: LogKind, head: &LogHead) -> usize {
    let answer = if kind.answer_bytes() > 0 { ANSWER } else { 0 };
    let task = (Logged::layout().task as usize).next_multiple_of(LOG_UNIT);
    let has = |flag| usize::from(head.flags & flag != 0);
    HEAD + answer + (has(LOG_HAS_TASK) + has(LOG_HAS_WAKER)) * task + head.nr_notes as usize * LOG_UNIT
}

/// A whole record of these parts: what a scheduler writes that runs in user space, such as a test.
pub fn record_bytes(
    mut head: LogHead,
    kind: LogKind,
    answer: &[u8],
    task: Option<&[u8]>,
    waker: Option<&[u8]>,
    notes: &[Note],
) -> Vec<u8> {
    head.kind = kind as u16;
    head.nr_notes = notes.len() as u32;
    head.flags |= if task.is_some() { LOG_HAS_TASK } else { 0 };
    head.flags |= if waker.is_some() { LOG_HAS_WAKER } else { 0 };
    head.size = record_size(kind, &head) as u32;
    let mut bytes = head.as_bytes().to_vec();
    let mut part = |part: &[u8], length: usize| {
        bytes.extend(part);
        bytes.resize(bytes.len() - part.len() + length.next_multiple_of(LOG_UNIT), 0);
    };
    if kind.answer_bytes() > 0 {
        part(answer, ANSWER);
    }
    [task, waker].into_iter().flatten().for_each(|task| part(task, task.len()));
    bytes.extend(notes.as_bytes());
    bytes
}
