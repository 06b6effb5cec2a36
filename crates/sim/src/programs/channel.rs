// SPDX-License-Identifier: GPL-2.0-or-later
//! Pipes and sockets: bounded, first in, first out.
//!
//! The rule of waiting is Linux's: a task that is woken leaves the list, and tries again when it runs. Until then it
//! owns nothing, and another task may be faster. If it then finds nothing, it waits at the *front* of the list, so that
//! waiting tasks keep the order in which they came.
//!
//! Putting a message in wakes one waiting reader. Freeing room wakes one waiting writer, and so does a woken writer
//! that leaves enough room; where the channel wakes all writers, freeing room wakes all. A pipe's reader wakes a writer
//! only if the pipe was full, as pipe_read() does. So no reader sleeps beside a
//! message that no task will take, and no writer beside room of `wake_room_bytes`.

use std::collections::VecDeque;

use wakelab_workload::Channel as Spec;

use crate::ids::NONE;

#[derive(Clone, Copy)]
struct Writer {
    task: u32,
    bytes: u64,
}

/// A message, and the CPU in whose caches it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) bytes: u32,
    pub(crate) cpu: u32,
}

pub(crate) struct Channel {
    spec: Spec,
    messages: VecDeque<Message>,
    used_bytes: u64,
    /// The CPU that put a message in or took one out last, or `NONE`.
    last_cpu: u32,
    readers: VecDeque<u32>,
    writers: VecDeque<Writer>,
    answers: Option<u32>,
}

impl Channel {
    pub(crate) fn new(spec: Spec) -> Channel {
        Channel {
            spec,
            messages: VecDeque::new(),
            used_bytes: 0,
            last_cpu: NONE,
            readers: VecDeque::new(),
            writers: VecDeque::new(),
            answers: None,
        }
    }

    /// The channel in which its reader answers before it waits again.
    pub(crate) fn answered_in(&self) -> Option<u32> {
        self.spec.answered_in
    }

    /// The channel whose messages are answered here.
    pub(crate) fn answers(&self) -> Option<u32> {
        self.answers
    }

    pub(crate) fn set_answers(&mut self, question: u32) {
        self.answers = Some(question);
    }

    pub(crate) fn sync(&self) -> bool {
        self.spec.sync
    }

    pub(crate) fn is_loopback(&self) -> bool {
        self.spec.loopback
    }

    /// The part of the capacity that a message takes, in bytes.
    fn footprint(&self, bytes: u32) -> u64 {
        u64::from(bytes) + self.spec.overhead_bytes
    }

    fn free_bytes(&self) -> u64 {
        self.spec.capacity_bytes - self.used_bytes
    }

    /// Puts a message in if it fits.
    pub(crate) fn put(&mut self, message: Message) -> bool {
        let footprint = self.footprint(message.bytes);
        if footprint > self.free_bytes() {
            return false;
        }
        self.used_bytes += footprint;
        self.last_cpu = message.cpu;
        self.messages.push_back(message);
        true
    }

    /// Takes the first message out, on `cpu`. Its room stays taken until [`Channel::release`], when the reader has
    /// copied it.
    pub(crate) fn take(&mut self, cpu: u32) -> Option<Message> {
        let message = self.messages.pop_front()?;
        self.last_cpu = cpu;
        Some(message)
    }

    /// The CPU that holds the channel's own cache lines, if it was used, and the number of them that a sender takes
    /// over.
    pub(crate) fn send_lines(&self) -> (Option<u32>, u64) {
        ((self.last_cpu != NONE).then_some(self.last_cpu), u64::from(self.spec.send_lines))
    }

    /// The number of lines that come with a message in addition to its bytes.
    pub(crate) fn recv_lines(&self) -> u64 {
        u64::from(self.spec.recv_lines)
    }

    /// The room of a message that was taken is free.
    pub(crate) fn release(&mut self, bytes: u32) {
        self.used_bytes -= self.footprint(bytes);
    }

    /// A reader waits; in front if it was woken in vain.
    pub(crate) fn wait_to_read(&mut self, task: u32, in_front: bool) {
        if in_front { self.readers.push_front(task) } else { self.readers.push_back(task) }
    }

    /// A writer waits; in front if it was woken in vain.
    pub(crate) fn wait_to_write(&mut self, task: u32, bytes: u32, in_front: bool) {
        let writer = Writer { task, bytes: self.footprint(bytes) };
        if in_front { self.writers.push_front(writer) } else { self.writers.push_back(writer) }
    }

    /// Whether a reader would find a message.
    pub(crate) fn is_ready(&self) -> bool {
        !self.messages.is_empty()
    }

    /// A reader stops waiting: it found a message in another channel.
    pub(crate) fn stop_reading(&mut self, task: u32) {
        self.readers.retain(|&reader| reader != task);
    }

    /// The reader to wake after a message was put in.
    pub(crate) fn reader_to_wake(&mut self) -> Option<u32> {
        self.readers.pop_front()
    }

    /// The first writer that waits, if the channel is elastic.
    pub(crate) fn elastic_writer(&self) -> Option<u32> {
        self.writers.front().filter(|_| self.spec.elastic).map(|writer| writer.task)
    }

    /// Makes room for the first writer that waits, if the channel is elastic, and returns that writer.
    pub(crate) fn relent(&mut self) -> Option<u32> {
        if !self.spec.elastic {
            return None;
        }
        let writer = self.writers.pop_front()?;
        self.spec.capacity_bytes = self.spec.capacity_bytes.max(self.used_bytes + writer.bytes);
        Some(writer.task)
    }

    /// Whether room that becomes free now wakes a writer: it does not if a channel that wakes writers only when it was
    /// full has woken one already, because that wakes the next one.
    pub(crate) fn is_full_for_writers(&self) -> bool {
        let is_full = |first: &Writer| self.free_bytes() < first.bytes.max(self.spec.wake_room_bytes);
        !self.spec.wakes_when_full || self.writers.front().is_none_or(is_full)
    }

    /// The writer to wake after room became free, or was left over.
    pub(crate) fn writer_to_wake(&mut self) -> Option<u32> {
        let first = self.writers.front()?;
        if self.free_bytes() < first.bytes.max(self.spec.wake_room_bytes) {
            return None;
        }
        self.writers.pop_front().map(|writer| writer.task)
    }

    /// Whether writers still wait, after one was woken because room became free, that are woken with it.
    #[inline(always)]
    pub(crate) fn wakes_other_writers(&self) -> bool {
        self.spec.wakes_all_writers && !self.writers.is_empty()
    }

    /// Those writers.
    pub(crate) fn other_writers(&mut self) -> impl Iterator<Item = u32> {
        self.writers.drain(..).map(|writer| writer.task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(capacity_bytes: u64, overhead_bytes: u64, wake_room_bytes: u64) -> Channel {
        Channel::new(Spec { capacity_bytes, overhead_bytes, wake_room_bytes, sync: true, ..Spec::default() })
    }

    fn bytes(bytes: u32) -> Message {
        Message { bytes, cpu: 0 }
    }

    #[test]
    fn holds_what_fits_with_overhead() {
        let mut pipe = channel(300, 50, 0);
        assert!(pipe.put(bytes(100)));
        assert!(pipe.put(bytes(100)), "2 x 150 = 300");
        assert!(!pipe.put(bytes(0)), "the overhead alone does not fit");
        assert_eq!(pipe.take(0), Some(bytes(100)));
        assert!(!pipe.put(bytes(100)), "taken, but its room is not free yet");
        pipe.release(100);
        assert!(pipe.put(bytes(100)));
    }

    #[test]
    fn waiters_keep_their_order() {
        let mut pipe = channel(100, 0, 0);
        pipe.wait_to_read(1, false);
        pipe.wait_to_read(2, false);
        assert_eq!(pipe.reader_to_wake(), Some(1));
        pipe.wait_to_read(3, false);
        pipe.wait_to_read(1, true);
        assert_eq!(
            [pipe.reader_to_wake(), pipe.reader_to_wake(), pipe.reader_to_wake()],
            [Some(1), Some(2), Some(3)]
        );
    }

    #[test]
    fn writers_wait_for_their_size_and_the_wake_room() {
        let mut pipe = channel(100, 0, 50);
        assert!(pipe.put(bytes(40)) && pipe.put(bytes(40)) && pipe.put(bytes(20)));
        pipe.wait_to_write(7, 10, false);
        pipe.wait_to_write(8, 60, false);
        let taken = pipe.take(0).unwrap();
        pipe.release(taken.bytes);
        assert_eq!(pipe.writer_to_wake(), None, "40 free: fits, but below the wake room");
        let taken = pipe.take(0).unwrap();
        pipe.release(taken.bytes);
        assert_eq!(pipe.writer_to_wake(), Some(7), "80 free");
        assert_eq!(pipe.writer_to_wake(), Some(8), "80 free until 7 runs: 60 fits");
        assert_eq!(pipe.writer_to_wake(), None);
    }

    /// Two pages of two messages. The first page that is read wakes the first writer, the second one nobody: the first
    /// writer wakes the next one.
    #[test]
    fn a_reader_of_a_pipe_wakes_one_writer_when_the_pipe_was_full() {
        for wakes_when_full in [true, false] {
            let spec = Spec {
                capacity_bytes: 4,
                wake_room_bytes: 2,
                wakes_when_full,
                sync: true,
                ..Spec::default()
            };
            let mut pipe = Channel::new(spec);
            (0..4).for_each(|_| assert!(pipe.put(bytes(1))));
            for task in [7, 8] {
                pipe.wait_to_write(task, 1, false);
            }
            let mut read = || {
                let message = pipe.take(0).expect("a message");
                let was_full = pipe.is_full_for_writers();
                pipe.release(message.bytes);
                if was_full { pipe.writer_to_wake() } else { None }
            };
            assert_eq!([read(), read()], [None, Some(7)]);
            assert_eq!(read(), (!wakes_when_full).then_some(8));
            assert!(pipe.put(bytes(1)));
            assert_eq!(pipe.writer_to_wake(), wakes_when_full.then_some(8), "task 7 wakes it");
        }
    }

    #[test]
    fn a_socket_wakes_all_its_writers_at_once() {
        let spec =
            Spec { capacity_bytes: 100, wake_room_bytes: 50, wakes_all_writers: true, ..Spec::default() };
        let mut socket = Channel::new(spec);
        assert!(socket.put(bytes(60)) && socket.put(bytes(40)));
        for task in [7, 8, 9] {
            socket.wait_to_write(task, 60, false);
        }
        socket.release(40);
        assert_eq!(socket.writer_to_wake(), None, "40 free");
        socket.release(60);
        assert_eq!(socket.writer_to_wake(), Some(7));
        assert!(socket.wakes_other_writers());
        let others: Vec<u32> = socket.other_writers().collect();
        assert_eq!(others, [8, 9], "though only one of them fits");
        assert!(!socket.wakes_other_writers());
    }
}
