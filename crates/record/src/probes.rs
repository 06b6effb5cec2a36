// SPDX-License-Identifier: GPL-2.0-or-later
//! Messages over pipes and eventfds, as BPF programs tell them (bpf/messages.bpf.c), and the lines that they
//! become: the same as those that [`crate::messages`] makes of system calls.
//!
//! Records lie in a file in about the order of time. A line needs the end of its write, which is told if fewer
//! bytes than asked were written. It is waited for [`WAIT_NS`]; a write that takes longer is taken at its word.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};

#[cfg(feature = "bpf")]
mod live;
#[cfg(not(feature = "bpf"))]
mod none;

#[cfg(feature = "bpf")]
pub(crate) use live::Probes;
#[cfg(not(feature = "bpf"))]
pub(crate) use none::Probes;

/// How long a write is kept back for its return.
const WAIT_NS: u64 = 200_000_000;

/// The bytes of a write that are told at its end.
const UNKNOWN_BYTES: u32 = u32::MAX;

/// The length of `struct told`.
pub(crate) const RECORD_BYTES: usize = 56;

/// What a record tells: `enum kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    PipeWrite,
    PipeRead,
    EventfdWrite,
    EventfdRead,
    /// The task's last write wrote this number of bytes.
    Wrote,
}

impl Kind {
    fn of(number: u32) -> Option<Kind> {
        use Kind::{EventfdRead, EventfdWrite, PipeRead, PipeWrite, Wrote};
        [PipeWrite, PipeRead, EventfdWrite, EventfdRead, Wrote].get(number as usize).copied()
    }

    /// The name of its event; `None` if it has no line.
    fn event(self) -> Option<&'static str> {
        match self {
            Kind::PipeWrite => Some("pipe_write"),
            Kind::PipeRead => Some("pipe_read"),
            Kind::EventfdWrite => Some("eventfd_write"),
            Kind::EventfdRead => Some("eventfd_read"),
            Kind::Wrote => None,
        }
    }

    fn is_pipe(self) -> bool {
        matches!(self, Kind::PipeWrite | Kind::PipeRead)
    }

    fn is_write(self) -> bool {
        matches!(self, Kind::PipeWrite | Kind::EventfdWrite)
    }
}

/// `struct told`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    time_ns: u64,
    channel: u64,
    pid: u32,
    tid: u32,
    cpu: u32,
    kind: Kind,
    bytes: u32,
    slots: u32,
    comm: String,
}

impl Told {
    /// Returns what a record says; `None` if its kind is not known.
    fn parse(record: &[u8; RECORD_BYTES]) -> Option<Told> {
        let long = |at: usize| u64::from_ne_bytes(record[at..at + 8].try_into().expect("8 bytes"));
        let int = |at: usize| u32::from_ne_bytes(record[at..at + 4].try_into().expect("4 bytes"));
        let comm = record[40..].split(|&byte| byte == 0).next().unwrap_or_default();
        let comm = String::from_utf8_lossy(comm).replace(char::is_control, "?");
        Some(Told {
            time_ns: long(0),
            channel: long(8),
            pid: int(16),
            tid: int(20),
            cpu: int(24),
            kind: Kind::of(int(28))?,
            bytes: int(32),
            slots: int(36),
            comm,
        })
    }
}

/// What was told during a recording.
#[derive(Debug)]
pub(crate) struct Probed {
    input: BufReader<File>,
    /// The recording's begin and end.
    span_ns: (u64, u64),
    page_bytes: u64,
    /// Records that did not fit into the ring.
    pub(crate) lost: u64,
    /// What a record cost the task that caused it; `None` if it was not measured.
    pub(crate) cost_ns: Option<u64>,
    /// Read, and not taken; the newest time of these.
    ahead: VecDeque<Told>,
    newest_ns: u64,
    at_end: bool,
    /// The numbers of channels.
    pipes: HashMap<u64, u32>,
    eventfds: HashMap<u64, u32>,
    nr_channels: u32,
}

impl Probed {
    /// Reads the records of `file` from its begin on.
    pub(crate) fn new(
        mut file: File,
        lost: u64,
        cost_ns: Option<u64>,
        span_ns: (u64, u64),
        page_bytes: u64,
    ) -> io::Result<Probed> {
        file.rewind()?;
        Ok(Probed {
            input: BufReader::with_capacity(1 << 18, file),
            span_ns,
            page_bytes,
            lost,
            cost_ns,
            ahead: VecDeque::new(),
            newest_ns: 0,
            at_end: false,
            pipes: HashMap::new(),
            eventfds: HashMap::new(),
            nr_channels: 0,
        })
    }

    /// Takes the next line with its time, if it is not later than `until_ns`.
    pub(crate) fn next(&mut self, until_ns: u64) -> io::Result<Option<(u64, String)>> {
        loop {
            while !self.at_end
                && self.ahead.front().is_none_or(|first| self.newest_ns <= first.time_ns + WAIT_NS)
            {
                self.read()?;
            }
            let Some(first) = self.ahead.front().filter(|first| first.time_ns <= until_ns) else {
                return Ok(None);
            };
            let time_ns = first.time_ns;
            let told = self.ahead.pop_front().expect("it was there");
            let is_inside = (self.span_ns.0..=self.span_ns.1).contains(&time_ns);
            if let Some(line) = self.line(&told).filter(|_| is_inside) {
                return Ok(Some((time_ns, line)));
            }
        }
    }

    /// Reads a record. One of a write's end changes the write.
    fn read(&mut self) -> io::Result<()> {
        let mut record = [0; RECORD_BYTES];
        match self.input.read_exact(&mut record) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.at_end = true;
                return Ok(());
            }
            read => read?,
        }
        let Some(told) = Told::parse(&record) else { return Ok(()) };
        self.newest_ns = self.newest_ns.max(told.time_ns);
        if told.kind == Kind::Wrote {
            let mut ahead = self.ahead.iter_mut().rev();
            if let Some(write) = ahead.find(|before| before.tid == told.tid && before.kind.is_write()) {
                write.bytes = told.bytes;
            }
        } else {
            self.ahead.push_back(told);
        }
        Ok(())
    }

    /// Returns the line of a record; `None` if it has none.
    fn line(&mut self, told: &Told) -> Option<String> {
        let is_known = told.bytes > 0 && told.bytes != UNKNOWN_BYTES;
        let event = told.kind.event().filter(|_| is_known)?;
        let numbers = if told.kind.is_pipe() { &mut self.pipes } else { &mut self.eventfds };
        let next = &mut self.nr_channels;
        let channel = *numbers.entry(told.channel).or_insert_with(|| {
            *next += 1;
            *next - 1
        });
        let (s, ns) = (told.time_ns / 1_000_000_000, told.time_ns % 1_000_000_000);
        let Told { comm, pid, tid, cpu, bytes, slots, .. } = told;
        let mut line = format!(
            "{comm:>16} {pid:>7}/{tid:<7} [{cpu:03}] {s:>5}.{ns:09}: wakelab:{event}: channel={channel} bytes={bytes}"
        );
        if *slots > 0 {
            let _ = write!(line, " capacity={}", u64::from(*slots) * self.page_bytes);
        }
        line.push('\n');
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A record of task 8 of process 7 on CPU 1.
    fn record(time_ns: u64, channel: u64, kind: Kind, bytes: u32) -> Vec<u8> {
        let slots = if matches!(kind, Kind::EventfdWrite | Kind::EventfdRead) { 0 } else { 16 };
        let mut record = [time_ns, channel].map(u64::to_ne_bytes).concat();
        record.extend([7, 8, 1, kind as u32, bytes, slots].map(u32::to_ne_bytes).concat());
        record.extend(*b"a b\0garbage\0\0\0\0\0");
        record
    }

    /// The lines of these records, from `wakelab:` on, with their times.
    fn lines(records: &[Vec<u8>]) -> Vec<(u64, String)> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&records.concat()).expect("room");
        let mut probed = Probed::new(file, 0, None, (5, u64::MAX), 4096).expect("a file");
        let mut lines = Vec::new();
        while let Some((time_ns, line)) = probed.next(u64::MAX).expect("it is read") {
            assert!(
                line.starts_with(&format!("             a b       7/8       [001]     0.{time_ns:09}: "))
            );
            lines.push((time_ns, line.split_once("wakelab:").expect("its event").1.trim_end().to_owned()));
        }
        lines
    }

    #[test]
    fn a_message_has_a_line_where_it_is_written_and_one_where_it_is_read() {
        let records = [
            record(10, 900, Kind::PipeWrite, 6),
            record(12, 900, Kind::PipeRead, 6),
            record(13, 900, Kind::EventfdWrite, 8),
        ];
        let expected = [
            (10, "pipe_write: channel=0 bytes=6 capacity=65536"),
            (12, "pipe_read: channel=0 bytes=6 capacity=65536"),
            (13, "eventfd_write: channel=1 bytes=8"),
        ];
        assert_eq!(lines(&records), expected.map(|(time_ns, line)| (time_ns, line.to_owned())));
    }

    #[test]
    fn a_write_that_fails_has_none_and_another_tells_what_it_wrote() {
        let records = [
            record(10, 900, Kind::PipeWrite, 6),
            record(11, 900, Kind::Wrote, 0),
            record(12, 900, Kind::PipeWrite, UNKNOWN_BYTES),
            record(14, 900, Kind::Wrote, 4_096),
            record(15, 900, Kind::PipeWrite, UNKNOWN_BYTES),
        ];
        assert_eq!(lines(&records), [(12, "pipe_write: channel=0 bytes=4096 capacity=65536".to_owned())]);
    }

    #[test]
    fn what_came_before_the_recording_and_a_torn_end_are_left_out() {
        let mut records = [record(4, 900, Kind::PipeWrite, 6), record(10, 900, Kind::PipeWrite, 6)];
        records[1].pop();
        assert!(lines(&records).is_empty());
    }
}
