// SPDX-License-Identifier: GPL-2.0-or-later
//! Turns events of system calls into lines about messages: `wakelab:pipe_write` and `wakelab:eventfd_write` where a
//! call begins to write, `wakelab:pipe_read` and `wakelab:eventfd_read` where a call has read; `wakelab:mq_write` and
//! `wakelab:mq_read` for a message of a queue, which counts as one byte. All other calls leave no line.
//!
//! ```text
//! a 7/7 [000] 1.000: sys_enter_write: fd: 0x4  ->  1.000: wakelab:pipe_write: channel=0 bytes=6
//! a 7/7 [000] 1.001: sys_exit_write: 0x6
//! b 8/8 [001] 1.002: sys_enter_read: fd: 0x3
//! b 8/8 [001] 1.003: sys_exit_read: 0x6  ->  1.003: wakelab:pipe_read: channel=0 bytes=6
//! ```
//!
//! The line of a call that writes needs its end, which tells the bytes. So lines are kept back until that has come, but
//! not longer than [`WAIT_NS`]: of a call that has waited that long, the bytes are those that it was asked to write. If
//! its event does not tell these (writev), the line stands at its end.

use std::collections::{HashMap, VecDeque};

use wakelab_trace::{PerfLine, perf_line_time_ns};

use crate::calls::{Calls, Said};
use crate::descriptors::{ChannelId, Kind};

/// How long lines are kept back for the end of a call.
const WAIT_NS: u64 = 200_000_000;

/// A line on its way out.
#[derive(Debug)]
enum Slot {
    Line(Vec<u8>),
    /// That of a call that writes, without its last part.
    Write {
        begin: String,
        asked_bytes: Option<u64>,
        since_ns: u64,
        tid: u32,
    },
    /// A call that wrote nothing.
    Empty,
}

/// Lines of a recording.
#[derive(Debug)]
pub(crate) struct Messages {
    /// `None` if no calls are recorded.
    calls: Option<Calls>,
    slots: VecDeque<Slot>,
    /// The number of the first slot.
    first: usize,
    /// The slot of each task's call that writes.
    writes: HashMap<u32, (usize, ChannelId)>,
    now_ns: u64,
}

impl Messages {
    pub(crate) fn new(calls: Option<Calls>) -> Messages {
        Messages { calls, slots: VecDeque::new(), first: 0, writes: HashMap::new(), now_ns: 0 }
    }

    /// Takes a line, in the order of time.
    pub(crate) fn put(&mut self, line: Vec<u8>) {
        let Some(calls) = &mut self.calls else { return self.slots.push_back(Slot::Line(line)) };
        let text = String::from_utf8_lossy(&line);
        self.now_ns = perf_line_time_ns(&text).unwrap_or(self.now_ns);
        let parsed = PerfLine::parse(&text);
        let Some((parsed, tid)) = parsed.and_then(|parsed| Some((parsed, parsed.tid?))) else {
            return self.slots.push_back(Slot::Line(line));
        };
        let said = calls.event(&parsed);
        let begin = |calls: &Calls, verb: &str, id: ChannelId| {
            let kind = match calls.descriptors.channel(id).kind {
                Kind::Pipe => "pipe",
                Kind::Eventfd => "eventfd",
                Kind::Queue => "mq",
            };
            format!("{} wakelab:{kind}_{verb}: channel={id} bytes=", parsed.before.trim_end())
        };
        match said {
            Said::OtherEvent => self.slots.push_back(Slot::Line(line)),
            Said::Nothing => {}
            Said::Writes(channel, asked_bytes) => {
                self.writes.insert(tid, (self.first + self.slots.len(), channel));
                let begin = begin(calls, "write", channel);
                self.slots.push_back(Slot::Write { begin, asked_bytes, since_ns: self.now_ns, tid });
            }
            Said::Ended { bytes, read } => {
                if let Some((number, channel)) = self.writes.remove(&tid) {
                    let end = end(calls, channel, bytes);
                    let slot = number.checked_sub(self.first).and_then(|at| self.slots.get_mut(at));
                    match slot {
                        Some(slot) => slot.finish((bytes > 0).then_some(&end)),
                        None if bytes > 0 => {
                            let line = begin(calls, "write", channel) + &end;
                            self.slots.push_back(Slot::Line(line.into_bytes()));
                        }
                        None => {}
                    }
                }
                if let Some(channel) = read {
                    let line = begin(calls, "read", channel) + &end(calls, channel, bytes);
                    self.slots.push_back(Slot::Line(line.into_bytes()));
                }
            }
        }
    }

    /// Takes the first line out, if it is complete. `at_end`: no line will follow.
    pub(crate) fn next(&mut self, at_end: bool) -> Option<Vec<u8>> {
        loop {
            if let Slot::Write { since_ns, .. } = self.slots.front()?
                && !at_end
                && since_ns + WAIT_NS > self.now_ns
            {
                return None;
            }
            let number = self.first;
            self.first += 1;
            match self.slots.pop_front()? {
                Slot::Line(line) => return Some(line),
                Slot::Write { mut begin, asked_bytes: Some(bytes), tid, .. } => {
                    let written = self.writes.get(&tid).filter(|(of, _)| *of == number);
                    let Some((_, channel)) = written.copied() else { continue };
                    // Its end adds nothing then.
                    self.writes.remove(&tid);
                    begin += &self.calls.as_ref().map_or(String::new(), |calls| end(calls, channel, bytes));
                    return Some(begin.into_bytes());
                }
                Slot::Write { asked_bytes: None, .. } | Slot::Empty => {}
            }
        }
    }

    /// Pipes and eventfds that are not known, because the process that made them was not.
    pub(crate) fn unknown(&self) -> u64 {
        self.calls.as_ref().map_or(0, |calls| calls.descriptors.unknown)
    }
}

impl Slot {
    /// Completes the line of a call that writes, or takes it out.
    fn finish(&mut self, end: Option<&String>) {
        if let Slot::Write { begin, .. } = self {
            *self = match end {
                Some(end) => Slot::Line((std::mem::take(begin) + end).into_bytes()),
                None => Slot::Empty,
            };
        }
    }
}

/// The end of a line, from the number of bytes on.
fn end(calls: &Calls, id: ChannelId, bytes: u64) -> String {
    let capacity_bytes = calls.descriptors.channel(id).capacity_bytes;
    let capacity = capacity_bytes.map_or(String::new(), |bytes| format!(" capacity={bytes}"));
    format!("{bytes}{capacity}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptors::{Descriptor, Descriptors};

    /// Process 7 with both ends of channel 0 on descriptor 3.
    fn messages(kind: Kind) -> Messages {
        let mut descriptors = Descriptors::default();
        let channel = Some(descriptors.add_channel(kind));
        descriptors.set(7, [(3, Descriptor { channel, close_on_exec: false })].into());
        Messages::new(Some(Calls::new(descriptors)))
    }

    fn event(time_ns: u64, tid: u32, event: &str, fields: &str) -> String {
        format!(
            "   a b 7/{tid} [001] {}.{:09}:  {event}: {fields}\n",
            time_ns / 1_000_000_000,
            time_ns % 1_000_000_000
        )
    }

    /// Puts lines, and returns those that come out at each.
    fn out(messages: &mut Messages, lines: &[String]) -> Vec<String> {
        let next = |messages: &mut Messages, at_end| {
            let lines: Vec<u8> = std::iter::from_fn(|| messages.next(at_end)).flatten().collect();
            String::from_utf8(lines).expect("text")
        };
        let mut all = Vec::new();
        for line in lines {
            messages.put(line.clone().into_bytes());
            all.push(next(messages, false));
        }
        all.push(next(messages, true));
        all
    }

    const WRITE: &str = "syscalls:sys_enter_write";
    const WROTE: &str = "syscalls:sys_exit_write";
    const SIX: &str = "fd: 0x00000003, buf: 0x7f, count: 0x00000006";

    #[test]
    fn a_call_that_writes_stands_where_it_begins_and_one_that_reads_where_it_ends() {
        let switch = event(11, 7, "sched:sched_switch", "x");
        let lines = [
            event(10, 7, WRITE, SIX),
            switch.clone(),
            event(12, 8, "syscalls:sys_enter_read", "fd: 0x00000003, buf: 0x7f, count: 0x00001000"),
            event(13, 7, WROTE, "0x4"),
            event(14, 8, "syscalls:sys_exit_read", "0x4"),
        ];
        let written = "   a b 7/7 [001] 0.000000010: wakelab:pipe_write: channel=0 bytes=4\n";
        let read = "   a b 7/8 [001] 0.000000014: wakelab:pipe_read: channel=0 bytes=4\n";
        let expected = ["", "", "", &format!("{written}{switch}"), read, ""];
        assert_eq!(out(&mut messages(Kind::Pipe), &lines), expected);
    }

    #[test]
    fn a_call_that_fails_leaves_no_line() {
        let lines = [event(10, 7, WRITE, SIX), event(13, 7, WROTE, "0xfffffffffffffff5")];
        assert_eq!(out(&mut messages(Kind::Pipe), &lines), ["", "", ""]);
    }

    #[test]
    fn a_call_that_waits_long_is_taken_at_its_word() {
        let late = event(10 + WAIT_NS, 8, "sched:sched_switch", "x");
        let lines = [event(10, 7, WRITE, SIX), late.clone(), event(20 + WAIT_NS, 7, WROTE, "0x6")];
        let written = "   a b 7/7 [001] 0.000000010: wakelab:eventfd_write: channel=0 bytes=6\n";
        assert_eq!(out(&mut messages(Kind::Eventfd), &lines), ["", &format!("{written}{late}"), "", ""]);
        // The bytes of writev are known at its end only.
        let lines = [
            event(10, 7, "syscalls:sys_enter_writev", "fd: 0x00000003, vec: 0x7f, vlen: 0x00000002"),
            late.clone(),
            event(20 + WAIT_NS, 7, "syscalls:sys_exit_writev", "0x6"),
        ];
        let written = "   a b 7/7 [001] 0.200000020: wakelab:pipe_write: channel=0 bytes=6\n";
        assert_eq!(out(&mut messages(Kind::Pipe), &lines), ["", &late, written, ""]);
    }

    #[test]
    fn lost_ends_do_no_harm() {
        // The end of the first call was lost.
        let lines = [event(10, 7, WRITE, SIX), event(20, 7, WRITE, SIX), event(21, 7, WROTE, "0x6")];
        let written = "   a b 7/7 [001] 0.000000020: wakelab:pipe_write: channel=0 bytes=6\n";
        assert_eq!(out(&mut messages(Kind::Pipe), &lines), ["", "", "", written]);
    }

    #[test]
    fn without_calls_all_lines_go_through() {
        let lines = [event(10, 7, WRITE, SIX), "# x\n".to_owned()];
        assert_eq!(out(&mut Messages::new(None), &lines), [&lines[0], &lines[1], ""]);
    }
}
