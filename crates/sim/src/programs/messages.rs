// SPDX-License-Identifier: GPL-2.0-or-later
//! Operations on channels: send, receive, poll.

use std::ops::Range;

use wakelab_machine::Distance;
use wakelab_workload::Op;

use crate::hardware::segment::Segment;
use crate::programs::Programs;
use crate::programs::channel::{Channel, Message};
use crate::programs::next::{Here, Next, Wakee, Wakees};
use crate::programs::task::Stage;
use crate::time_use::TimeKind;

impl Programs<'_> {
    /// Works on a message, then puts it in: wakes one reader, and a writer if room is left.
    #[inline(always)]
    pub(super) fn send(&mut self, here: &Here, channel: u32, bytes: u32, work_ns: u64) -> Next {
        let t = &mut self.tasks[here.task as usize];
        if t.stage == Stage::Begin {
            t.stage = Stage::Middle;
            let tail = self.sending_ns(channel, bytes, here.cpu);
            return Next::run(Segment::with_tail((TimeKind::Work, work_ns), tail));
        }
        if !self.channels[channel as usize].put(Message { bytes, cpu: here.cpu }) {
            if let Some(leaving) = self.leave(here.task) {
                return leaving;
            }
            let t = &mut self.tasks[here.task as usize];
            self.channels[channel as usize].wait_to_write(here.task, bytes, t.retries);
            t.retries = true;
            return Next::Wait;
        }
        let t = &mut self.tasks[here.task as usize];
        t.retries = false;
        if !t.owes.is_empty() {
            t.owes.retain(|&(_, answer)| answer != channel);
        }
        let channel = &mut self.channels[channel as usize];
        let (sync, reader, writer) = (channel.sync(), channel.reader_to_wake(), channel.writer_to_wake());
        self.stop_polling(reader);
        self.pass(here.task);
        Next::wake_two(reader, writer, sync)
    }

    /// The kind and the nanoseconds of the cost of sending in addition to the task's work. For a loopback socket: the
    /// protocol's work for both ends, because the softirq that delivers the message runs on the sender's CPU. For any
    /// other channel: taking over the channel's own cache lines.
    #[inline(always)]
    fn sending_ns(&self, channel: u32, bytes: u32, cpu: u32) -> (TimeKind, u64) {
        let channel = &self.channels[channel as usize];
        if channel.is_loopback() {
            let bytes_ns = (u64::from(bytes) * self.costs.loopback_ps_per_byte).div_ceil(1000);
            return (TimeKind::Protocol, self.costs.loopback_ns + bytes_ns);
        }
        let (last_cpu, lines) = channel.send_lines();
        let lines_ns = match last_cpu {
            Some(last_cpu) => self.lines_ns(lines, last_cpu, cpu),
            None => 0,
        };
        (TimeKind::Data, lines_ns)
    }

    /// Takes a message out, or waits for one; then copies it, which frees its room.
    #[inline(always)]
    pub(super) fn receive(&mut self, here: &Here, channel: u32, work_ns: u64) -> Next {
        let t = &mut self.tasks[here.task as usize];
        let queue = &mut self.channels[channel as usize];
        if t.stage != Stage::Begin {
            let was_full = queue.is_full_for_writers();
            queue.release(t.bytes);
            let sync = queue.sync();
            let writer = if was_full { queue.writer_to_wake() } else { None };
            if writer.is_some() && queue.wakes_other_writers() {
                let all = writer.into_iter().chain(queue.other_writers());
                let wakees = all.map(|task| Wakee::new(task, sync)).collect();
                self.pass(here.task);
                return Next::Wake(wakees);
            }
            self.pass(here.task);
            return Next::wake_two(writer, None, sync);
        }
        if t.in_rounds
            && let Some(next) = self.follow_round(here.task, channel)
        {
            return next;
        }
        let t = &mut self.tasks[here.task as usize];
        let queue = &mut self.channels[channel as usize];
        let Some(message) = queue.take(here.cpu) else {
            return self.wait_for_message(here.task, channel);
        };
        t.retries = false;
        if t.in_rounds
            && let Some(answer) = queue.answered_in()
        {
            t.owes.push((channel, answer));
        }
        t.bytes = message.bytes;
        t.stage = Stage::Middle;
        let recv_lines = queue.recv_lines();
        let slept = std::mem::take(&mut t.slept);
        let loop_ns = if slept { self.workload.tasks[here.task as usize].after_sleep_ns } else { 0 };
        let work_ns = work_ns + loop_ns;
        let data_ns = self.data_ns(message, recv_lines, here.cpu);
        Next::run(Segment::with_tail((TimeKind::Work, work_ns), (TimeKind::Data, data_ns)))
    }

    /// Makes room in the first elastic channel where a writer waits, and returns that writer. This is for the moment at
    /// which nothing else could ever happen.
    pub(crate) fn relent(&mut self) -> Option<u32> {
        self.channels.iter_mut().find_map(Channel::relent)
    }

    /// Waits in all of the channels at once, until one has a message.
    pub(super) fn poll(&mut self, task: u32, channels: Range<u32>, work_ns: u64) -> Next {
        if self.tasks[task as usize].stage != Stage::Begin {
            return self.done(task);
        }
        let channels = &mut self.channels[channels.start as usize..channels.end as usize];
        if channels.iter().any(Channel::is_ready) {
            self.tasks[task as usize].stage = Stage::Middle;
            return Next::run_ns(TimeKind::Work, work_ns);
        }
        channels.iter_mut().for_each(|channel| channel.wait_to_read(task, false));
        Next::Wait
    }

    /// A task finds no message in `channel`.
    pub(super) fn wait_for_message(&mut self, task: u32, channel: u32) -> Next {
        let polls = self.workload.tasks[task as usize].polls;
        if polls && self.bring_forward(task) {
            return Next::Continue;
        }
        if let Some(leaving) = self.leave(task) {
            return leaving;
        }
        let t = &mut self.tasks[task as usize];
        let in_front = std::mem::replace(&mut t.retries, true);
        t.slept = polls;
        if polls {
            self.wait_in_all(task, in_front);
        } else {
            self.channels[channel as usize].wait_to_read(task, in_front);
        }
        Next::Wait
    }

    /// A reader that is woken in one channel and polls leaves the lists of the other channels.
    #[inline(always)]
    fn stop_polling(&mut self, reader: Option<u32>) {
        let Some(reader) = reader.filter(|_| self.polls) else { return };
        if !self.tasks[reader as usize].waits_in.is_empty() {
            return self.stop_waiting_in_all(reader);
        }
        if let Some(&Op::Poll { first, count, .. }) = self.op(reader) {
            let polled = &mut self.channels[first as usize..(first + count) as usize];
            polled.iter_mut().for_each(|channel| channel.stop_reading(reader));
        }
    }

    /// Enters the body once if the channel has a message.
    pub(super) fn when_ready(&mut self, task: u32, channel: u32) -> Next {
        if self.channels[channel as usize].is_ready() {
            self.begin_loop(task, Some(1))
        } else {
            self.skip_loop(task)
        }
    }

    /// Nanoseconds to fetch a message, with the kernel's lines around it, from the caches of the core that wrote it.
    #[inline(always)]
    fn data_ns(&self, message: Message, recv_lines: u64, cpu: u32) -> u64 {
        match self.distances.between(message.cpu, cpu) {
            _ if !self.costs.charge_data => 0,
            Distance::Cpu | Distance::Smt => 0,
            distance => {
                let lines_ns = (recv_lines * self.costs.line_transfer_ps[distance.index()]).div_ceil(1000);
                lines_ns + self.costs.transfer_ns(u64::from(message.bytes), distance)
            }
        }
    }

    /// Nanoseconds to fetch lines from the caches of `from` one after the other, because each says where the next one
    /// is; 0 within a core.
    #[inline(always)]
    fn lines_ns(&self, lines: u64, from: u32, cpu: u32) -> u64 {
        if lines == 0 || !self.costs.charge_data {
            return 0;
        }
        match self.distances.between(from, cpu) {
            Distance::Cpu | Distance::Smt => 0,
            distance => (lines * self.costs.line_transfer_ps[distance.index()]).div_ceil(1000),
        }
    }
}

/// Wakees of one channel operation fit into the list without an allocation.
const _: () = assert!(std::mem::size_of::<Wakees>() <= 32);
