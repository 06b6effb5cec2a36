// SPDX-License-Identifier: GPL-2.0-or-later
//! Executes programs: each operation becomes segments, waits and wake-ups.
//!
//! An operation has up to three stages, so that a task can be interrupted, preempted or made to wait inside it and go
//! on where it was. A task that was woken tries its operation again. All tasks that one operation wakes are woken in
//! one kernel path: the waker gives way, and handles interrupts, after the last of them.

use std::ops::Range;

use wakelab_machine::Distance;
use wakelab_policy::{WAKE_FORK, WAKE_SYNC};
use wakelab_workload::Op;

use crate::channel::{Channel, Message};
use crate::cpu::{Doing, Kind, Todo, UNITS};
use crate::engine::{Engine, Signal};
use crate::error::SimError;
use crate::observer::Observer;
use crate::task::{Life, Round, Stage};

/// Rounds left of a loop that is shared out: it is entered anew for each. A loop of one task never has so many left.
const SHARED: u64 = u64::MAX;

/// What an operation came to.
pub(crate) enum Progress {
    /// The next operation, or the next stage, can be executed at once.
    Continue,
    /// The CPU has something else to do first, which is set.
    Set,
}

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// The CPU goes on with its current task.
    pub(crate) fn resume(&mut self, cpu: u32) {
        let curr = self.cpus[cpu as usize].curr;
        let task = &self.tasks[curr as usize];
        let (kind, units) = if task.refill > 0 {
            (Kind::CacheRefill, task.refill)
        } else if task.stage == Stage::Spin && self.need_not_spin(curr) {
            self.tasks[curr as usize].remaining = 0;
            (Kind::Spin, 0)
        } else {
            (task.kind, task.remaining)
        };
        if units > 0 {
            let task = &self.tasks[curr as usize];
            let (tail, tail_kind) = (task.tail.min(task.remaining), task.tail_kind);
            let c = &mut self.cpus[cpu as usize];
            c.set(Doing::Task, kind, units);
            if kind != Kind::CacheRefill {
                c.tail = tail;
                c.tail_kind = tail_kind;
            }
        } else {
            self.advance(cpu, curr);
        }
    }

    /// The end of a segment of the task's own.
    pub(crate) fn task_segment_over(&mut self, cpu: u32) {
        let c = &self.cpus[cpu as usize];
        let task = &mut self.tasks[c.curr as usize];
        if c.kind == Kind::CacheRefill {
            task.refill = 0;
        } else {
            task.remaining = 0;
            task.tail = 0;
        }
        self.resume(cpu);
    }

    /// Executes operations until one takes time, waits, or wakes somebody.
    fn advance(&mut self, cpu: u32, task: u32) {
        self.executes(task);
        let program = self.tasks[task as usize].program;
        while self.take_step() {
            let op = match program.get(self.tasks[task as usize].pc as usize) {
                Some(&op) => op,
                None if self.workload.tasks[task as usize].cut_off => return self.is_cut_off(cpu),
                None => Op::Exit,
            };
            if let Progress::Set = self.execute(cpu, task, op) {
                return;
            }
        }
    }

    fn execute(&mut self, cpu: u32, task: u32, op: Op) -> Progress {
        let stage = self.tasks[task as usize].stage;
        match (op, stage) {
            (Op::Compute { work_ns, spread_percent }, _) => {
                let t = &mut self.tasks[task as usize];
                let work_ns = if spread_percent == 0 {
                    work_ns
                } else {
                    let part = |percent: u32| {
                        work_ns / 100 * u64::from(percent) + work_ns % 100 * u64::from(percent) / 100
                    };
                    t.random.between(part(100 - spread_percent), part(100 + spread_percent))
                };
                t.pc += 1;
                self.segment(cpu, task, Kind::Work, work_ns)
            }
            (Op::Send { channel, bytes, work_ns }, Stage::Begin) => {
                self.tasks[task as usize].stage = Stage::Middle;
                let tail = self.sending_ns(channel, bytes, cpu);
                self.segment_with_tail(cpu, task, (Kind::Work, work_ns), tail)
            }
            (Op::Send { channel, bytes, .. }, _) => self.send(cpu, task, channel, bytes),
            (Op::Recv { channel, work_ns }, Stage::Begin) => self.receive(cpu, task, channel, work_ns),
            (Op::Recv { channel, .. }, _) => self.received(cpu, task, channel),
            (Op::Poll { first, count, work_ns }, Stage::Begin) => {
                self.poll(cpu, task, first..first + count, work_ns)
            }
            (Op::Poll { .. }, _) => self.done(task),
            (Op::WhenReady { channel }, _) if self.channels[channel as usize].is_ready() => {
                self.begin_loop(task, Some(1))
            }
            (Op::WhenReady { .. }, _) => self.skip_loop(task),
            (Op::Sleep { delay_ns, .. }, Stage::Begin) => {
                self.tasks[task as usize].stage = Stage::Middle;
                self.queue.set_timer(task, self.now_ns + delay_ns);
                self.wait(cpu)
            }
            (Op::Sleep { .. }, _) => self.done(task),
            (Op::SleepUntil { time_ns, .. }, Stage::Begin) if time_ns > self.now_ns => {
                self.tasks[task as usize].stage = Stage::Middle;
                self.queue.set_timer(task, time_ns);
                self.wait(cpu)
            }
            (Op::SleepUntil { .. }, _) => self.done(task),
            (Op::Memory { .. }, Stage::Begin) => self.begin_stream(cpu, task, op),
            (Op::Memory { .. }, _) => self.done(task),
            (Op::Exec, _) => self.exec(cpu, task),
            (Op::Lock { lock }, _) => self.lock(cpu, task, lock),
            (Op::Unlock { lock }, _) => self.unlock(cpu, task, lock),
            (Op::Barrier { barrier }, _) => self.barrier(cpu, task, barrier),
            (Op::Fork { .. }, Stage::Begin) => {
                self.tasks[task as usize].stage = Stage::Middle;
                self.segment(cpu, task, Kind::ForkExit, self.costs.fork_ns)
            }
            (Op::Fork { task: child }, _) => self.fork(cpu, task, child),
            (Op::Join, _) if self.tasks[task as usize].children > 0 => {
                self.tasks[task as usize].joining = true;
                self.wait(cpu)
            }
            (Op::Join, _) => self.done(task),
            (Op::Signal { .. }, _) => self.raise(cpu, task),
            (Op::Wait { signal }, _) => self.wait_for_signal(cpu, task, signal),
            (Op::OpenGate { gate }, _) => {
                let gate = &mut self.gates[gate as usize];
                gate.open = true;
                let waiting = std::mem::take(&mut gate.waiting);
                self.cpus[cpu as usize].todo.extend(waiting.into_iter().map(|wakee| Todo::Wake(wakee, 0)));
                self.done_waking(cpu, task)
            }
            (Op::WaitGate { gate }, _) if !self.gates[gate as usize].open => {
                self.gates[gate as usize].waiting.push(task);
                self.wait(cpu)
            }
            (Op::WaitGate { .. }, _) => self.done(task),
            (Op::LoopBegin { times }, _) => self.begin_loop(task, times),
            (Op::LoopShared { barrier, times }, _) => self.loop_shared(cpu, task, barrier, times),
            (Op::LoopEnd, _) => self.end_loop(task),
            (Op::Yield, _) => {
                let t = &mut self.tasks[task as usize];
                t.pc += 1;
                t.slice_ns = 0;
                self.cpus[cpu as usize].need_resched = true;
                self.next(cpu);
                Progress::Set
            }
            (Op::MarkBegin, _) => {
                self.tally.mark_begin(self.now_ns);
                self.done(task)
            }
            (Op::MarkEnd, _) => {
                self.tally.mark_end(self.now_ns);
                self.done(task)
            }
            (Op::Count { units }, _) => {
                self.tally.units += units;
                self.done(task)
            }
            (Op::SetShares { group, shares }, _) => {
                self.set_shares(cpu, group, shares);
                self.done(task)
            }
            (Op::MoveTo { group }, _) => {
                self.move_to_group(task, group);
                self.done(task)
            }
            (Op::Exit, Stage::Begin) => {
                self.tasks[task as usize].stage = Stage::Middle;
                self.segment(cpu, task, Kind::ForkExit, self.costs.exit_ns)
            }
            (Op::Exit, Stage::Middle) => {
                self.observer.exit(self.now_ns, cpu, task);
                self.tell_parent(cpu, task)
            }
            (Op::Exit, _) => {
                self.alive -= 1;
                self.block(cpu, Life::Exited);
                Progress::Set
            }
        }
    }

    /// The current task is seen no more.
    fn is_cut_off(&mut self, cpu: u32) {
        self.alive -= 1;
        self.block(cpu, Life::Exited);
    }

    /// Whether what a spinning task waits for came while it did not execute.
    fn need_not_spin(&self, task: u32) -> bool {
        let t = &self.tasks[task as usize];
        match self.workload.tasks[task as usize].program[t.pc as usize] {
            Op::Lock { lock } => self.locks[lock as usize].is_free(),
            Op::Barrier { barrier } => self.barriers[barrier as usize].is_over(t.round),
            _ => false,
        }
    }

    /// The program did what no program may: the run fails.
    pub(crate) fn broken_program(&mut self, cpu: u32, task: u32, what: String) -> Progress {
        let name = self.workload.tasks[task as usize].name.clone();
        let op = self.tasks[task as usize].pc;
        self.failure.get_or_insert(SimError::Program { task, name, op, what });
        self.wait(cpu)
    }

    /// The task executes something of its own.
    pub(crate) fn segment(&mut self, cpu: u32, task: u32, kind: Kind, work_ns: u64) -> Progress {
        self.segment_with_tail(cpu, task, (kind, work_ns), (kind, 0))
    }

    /// The task executes something of its own, and something else after it, in one segment.
    fn segment_with_tail(&mut self, cpu: u32, task: u32, head: (Kind, u64), tail: (Kind, u64)) -> Progress {
        if head.1 + tail.1 == 0 {
            return Progress::Continue;
        }
        let t = &mut self.tasks[task as usize];
        t.kind = head.0;
        t.remaining = (head.1 + tail.1) * UNITS;
        (t.tail_kind, t.tail) = (tail.0, tail.1 * UNITS);
        let c = &mut self.cpus[cpu as usize];
        c.set(Doing::Task, head.0, head.1 * UNITS);
        c.add_tail(tail.0, t.tail);
        Progress::Set
    }

    /// What sending costs beside the task's work. A loopback socket: the protocol's work for both ends, as the softirq
    /// that delivers the message runs where it was sent, before it is there. Others: taking over the channel's own
    /// cache lines.
    fn sending_ns(&self, channel: u32, bytes: u32, cpu: u32) -> (Kind, u64) {
        let channel = &self.channels[channel as usize];
        if channel.is_loopback() {
            let bytes_ns = (u64::from(bytes) * self.costs.loopback_ps_per_byte).div_ceil(1000);
            return (Kind::Protocol, self.costs.loopback_ns + bytes_ns);
        }
        let (last_cpu, lines) = channel.send_lines();
        (Kind::Data, last_cpu.map_or(0, |last_cpu| self.lines_ns(lines, last_cpu, cpu)))
    }

    /// Fetching a message out of the caches of the core where it was written, with the kernel's lines around it.
    fn data_ns(&self, message: Message, recv_lines: u64, cpu: u32) -> u64 {
        match self.distances.between(message.cpu, cpu) {
            _ if !self.costs.charge_data => 0,
            Distance::Cpu | Distance::Smt => 0,
            distance => {
                let lines_ns = self.lines_ns(recv_lines, message.cpu, cpu);
                lines_ns + self.costs.transfer_ns(u64::from(message.bytes), distance)
            }
        }
    }

    /// Lines that `cpu` needs one after the other, as each says where the next is, out of the caches of `from`; nothing
    /// within a core.
    fn lines_ns(&self, lines: u64, from: u32, cpu: u32) -> u64 {
        match self.distances.between(from, cpu) {
            _ if !self.costs.charge_data => 0,
            Distance::Cpu | Distance::Smt => 0,
            distance => (lines * self.costs.line_transfer_ps[distance.index()]).div_ceil(1000),
        }
    }

    /// The operation is done, and was nothing to anybody else.
    pub(crate) fn done(&mut self, task: u32) -> Progress {
        let t = &mut self.tasks[task as usize];
        t.pc += 1;
        t.stage = Stage::Begin;
        Progress::Continue
    }

    /// The operation is done, but for waking those who are listed.
    pub(crate) fn done_waking(&mut self, cpu: u32, task: u32) -> Progress {
        self.done(task);
        if self.cpus[cpu as usize].todo.is_empty() {
            return Progress::Continue;
        }
        self.next(cpu);
        Progress::Set
    }

    pub(crate) fn wait(&mut self, cpu: u32) -> Progress {
        self.block(cpu, Life::Blocked);
        Progress::Set
    }

    pub(crate) fn will_wake(&mut self, cpu: u32, wakee: Option<u32>, sync: bool) {
        if let Some(wakee) = wakee {
            let flags = if sync { WAKE_SYNC } else { 0 };
            self.cpus[cpu as usize].todo.push_back(Todo::Wake(wakee, flags));
        }
    }

    fn send(&mut self, cpu: u32, task: u32, channel: u32, bytes: u32) -> Progress {
        let channel = &mut self.channels[channel as usize];
        let t = &mut self.tasks[task as usize];
        if !channel.put(Message { bytes, cpu }) {
            channel.wait_to_write(task, bytes, t.retries);
            t.retries = true;
            return self.wait(cpu);
        }
        t.retries = false;
        let (sync, reader, writer) = (channel.sync(), channel.reader_to_wake(), channel.writer_to_wake());
        self.stop_polling(reader);
        self.will_wake(cpu, reader, sync);
        self.will_wake(cpu, writer, sync);
        self.done_waking(cpu, task)
    }

    /// Waits in all of the channels at once.
    fn poll(&mut self, cpu: u32, task: u32, channels: Range<u32>, work_ns: u64) -> Progress {
        let channels = &mut self.channels[channels.start as usize..channels.end as usize];
        if channels.iter().any(Channel::is_ready) {
            self.tasks[task as usize].stage = Stage::Middle;
            return self.segment(cpu, task, Kind::Work, work_ns);
        }
        channels.iter_mut().for_each(|channel| channel.wait_to_read(task, false));
        self.wait(cpu)
    }

    /// A reader that is woken in one channel, and polls, waits in none of the others any more.
    fn stop_polling(&mut self, reader: Option<u32>) {
        let Some(reader) = reader else { return };
        let op = self.workload.tasks[reader as usize].program.get(self.tasks[reader as usize].pc as usize);
        if let Some(&Op::Poll { first, count, .. }) = op {
            let polled = &mut self.channels[first as usize..(first + count) as usize];
            polled.iter_mut().for_each(|channel| channel.stop_reading(reader));
        }
    }

    fn receive(&mut self, cpu: u32, task: u32, channel: u32, work_ns: u64) -> Progress {
        let channel = &mut self.channels[channel as usize];
        let t = &mut self.tasks[task as usize];
        let Some(message) = channel.take(cpu) else {
            channel.wait_to_read(task, t.retries);
            t.retries = true;
            return self.wait(cpu);
        };
        t.retries = false;
        t.bytes = message.bytes;
        t.stage = Stage::Middle;
        let recv_lines = channel.recv_lines();
        let data_ns = self.data_ns(message, recv_lines, cpu);
        self.segment_with_tail(cpu, task, (Kind::Work, work_ns), (Kind::Data, data_ns))
    }

    /// The message is copied: its room is free.
    fn received(&mut self, cpu: u32, task: u32, channel: u32) -> Progress {
        let channel = &mut self.channels[channel as usize];
        channel.release(self.tasks[task as usize].bytes);
        let (sync, writer) = (channel.sync(), channel.writer_to_wake());
        self.will_wake(cpu, writer, sync);
        self.done_waking(cpu, task)
    }

    fn fork(&mut self, cpu: u32, task: u32, child: u32) -> Progress {
        self.alive += 1;
        self.init_record(child);
        self.tasks[child as usize].cpu = cpu;
        self.tasks[child as usize].ran = false;
        self.tasks[task as usize].children += 1;
        self.observer.fork(self.now_ns, cpu, task, child);
        self.cpus[cpu as usize].todo.push_back(Todo::Wake(child, WAKE_FORK));
        self.done_waking(cpu, task)
    }

    /// Raises a signal, and those that follow it directly: as far as a recording can tell, wake-ups at one point of a
    /// task's work are those of one system call.
    fn raise(&mut self, cpu: u32, task: u32) -> Progress {
        let workload = self.workload;
        let program = &workload.tasks[task as usize].program;
        while let Some(&Op::Signal { signal, sync }) = program.get(self.tasks[task as usize].pc as usize) {
            let before = std::mem::replace(&mut self.signals[signal as usize], Signal::Raised);
            if let Signal::Awaited(waiter) = before {
                self.will_wake(cpu, Some(waiter), sync);
            }
            self.done(task);
        }
        if self.cpus[cpu as usize].todo.is_empty() {
            return Progress::Continue;
        }
        self.next(cpu);
        Progress::Set
    }

    fn wait_for_signal(&mut self, cpu: u32, task: u32, signal: u32) -> Progress {
        match self.signals[signal as usize] {
            Signal::Raised => self.done(task),
            Signal::Unset => {
                self.signals[signal as usize] = Signal::Awaited(task);
                self.wait(cpu)
            }
            Signal::Awaited(other) => {
                let what = format!("task {other} waits for signal {signal} already; expected one waiter");
                self.broken_program(cpu, task, what)
            }
        }
    }

    fn begin_loop(&mut self, task: u32, times: Option<u64>) -> Progress {
        let t = &mut self.tasks[task as usize];
        let body = t.pc + 1;
        if times != Some(0) {
            t.enter(Round { body, rounds: times.map(|times| times - 1) });
            return self.done(task);
        }
        self.skip_loop(task)
    }

    /// One round of a shared loop; at its end the task comes back to take another.
    pub(crate) fn begin_shared_round(&mut self, task: u32) -> Progress {
        let t = &mut self.tasks[task as usize];
        t.enter(Round { body: t.pc, rounds: Some(SHARED) });
        self.done(task)
    }

    /// The task goes on after the loop that begins where it is.
    pub(crate) fn skip_loop(&mut self, task: u32) -> Progress {
        let t = &mut self.tasks[task as usize];
        let mut depth = 1;
        t.pc += 1;
        while depth > 0 {
            match t.program.get(t.pc as usize) {
                Some(Op::LoopBegin { .. } | Op::LoopShared { .. } | Op::WhenReady { .. }) => depth += 1,
                Some(Op::LoopEnd) => depth -= 1,
                Some(_) => {}
                None => break,
            }
            t.pc += 1;
        }
        Progress::Continue
    }

    fn end_loop(&mut self, task: u32) -> Progress {
        let t = &mut self.tasks[task as usize];
        match t.innermost.as_mut() {
            Some(Round { body, rounds: Some(SHARED) }) => {
                t.pc = *body;
                t.leave();
                Progress::Continue
            }
            Some(Round { body, rounds }) if *rounds != Some(0) => {
                *rounds = rounds.map(|rounds| rounds - 1);
                t.pc = *body;
                Progress::Continue
            }
            _ => {
                t.leave();
                self.done(task)
            }
        }
    }

    /// exit() wakes a parent that waits for its last child; as a process's wait() does with `sync`, and joining a
    /// thread does not.
    fn tell_parent(&mut self, cpu: u32, task: u32) -> Progress {
        self.tasks[task as usize].stage = Stage::End;
        let spec = &self.workload.tasks[task as usize];
        let Some(parent) = spec.parent else { return Progress::Continue };
        let p = &mut self.tasks[parent as usize];
        p.children -= 1;
        if p.children > 0 || !std::mem::replace(&mut p.joining, false) {
            return Progress::Continue;
        }
        let sync = self.workload.tasks[parent as usize].process != spec.process;
        self.will_wake(cpu, Some(parent), sync);
        self.next(cpu);
        Progress::Set
    }
}
