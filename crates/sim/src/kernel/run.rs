// SPDX-License-Identifier: GPL-2.0-or-later
//! The current task executes its program, one step after the other, until a step takes time, waits or wakes.

use wakelab_policy::WAKE_FORK;

use crate::engine::Engine;
use crate::error::SimError;
use crate::hardware::segment::Segment;
use crate::ids::{NONE, UNITS};
use crate::kernel::cpu::Todo;
use crate::kernel::thread::Life;
use crate::observer::Observer;
use crate::programs::next::{Here, Next, SpinEnd, Wakee, Wakees};
use crate::time_use::TimeKind;

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// The CPU continues with its current task: first its cache refill, then the segment that was interrupted.
    pub(crate) fn resume(&mut self, cpu: u32) {
        let curr = self.kernel.cpus[cpu as usize].curr;
        let thread = &mut self.kernel.threads[curr as usize];
        if thread.refill > 0 {
            let refill = Segment::of_units(TimeKind::CacheRefill, thread.refill);
            self.hardware.cpus[cpu as usize].set_task_segment(refill);
            return;
        }
        if thread.left.kind == TimeKind::Spin && self.programs.spin_is_over(curr) {
            thread.left.units = 0;
        }
        if thread.left.units > 0 {
            let left = std::mem::replace(&mut thread.left, Segment::EMPTY);
            self.start_segment(cpu, curr, left);
        } else if self.kernel.cpus[cpu as usize].resched_after_call && self.programs.has_left_call(curr) {
            // A waker that is to give way does so at the end of its system call, if that is earlier than usual.
            self.schedule(cpu);
        } else {
            self.advance(cpu, curr);
        }
    }

    /// The CPU begins a segment of its current task. If it has idled, the task fetches first what the caches lost.
    #[inline(always)]
    fn start_work(&mut self, cpu: u32, task: u32, segment: Segment) {
        if segment.kind == TimeKind::Work {
            let refill = self.kernel.cpus[cpu as usize].cold.take(segment.units);
            if refill > 0 {
                let thread = &mut self.kernel.threads[task as usize];
                (thread.refill, thread.left) = (refill, segment);
                return self.resume(cpu);
            }
        }
        self.start_segment(cpu, task, segment);
    }

    /// The CPU executes what is left of its current task's segment.
    #[inline(always)]
    fn start_segment(&mut self, cpu: u32, task: u32, mut left: Segment) {
        if self.kernel.cpus[cpu as usize].need_resched {
            left = self.rest_of_call(cpu, left);
        }
        let c = &mut self.hardware.cpus[cpu as usize];
        c.set_task_segment(left);
        match left.kind {
            TimeKind::Memory => c.pace.stream = self.kernel.threads[task as usize].stream,
            TimeKind::Spin => self.programs.set_spinning(task, cpu),
            _ => {}
        }
    }

    /// The part of a segment until the current task gives way. Holds back the rest, if it is plain work, or a fork or
    /// an exec.
    fn rest_of_call(&mut self, cpu: u32, left: Segment) -> Segment {
        let k = &mut self.kernel.cpus[cpu as usize];
        let units = k.resched_at_ns.saturating_sub(self.hardware.now_ns).saturating_mul(UNITS);
        let is_split = matches!(left.kind, TimeKind::Work | TimeKind::ForkExit);
        if !is_split || left.tail > 0 || left.units <= units {
            return left;
        }
        k.held_back = left.units - units;
        Segment { units, ..left }
    }

    /// The CPU, which is settled, is interrupted in its current task's segment: keeps what is left of it.
    pub(crate) fn save_segment(&mut self, cpu: u32) {
        let c = &self.hardware.cpus[cpu as usize];
        let curr = self.kernel.cpus[cpu as usize].curr;
        let thread = &mut self.kernel.threads[curr as usize];
        match c.kind {
            TimeKind::CacheRefill => {
                thread.refill = c.remaining;
                return;
            }
            TimeKind::Memory => thread.stream = c.pace.stream,
            TimeKind::Spin => self.programs.set_spinning(curr, NONE),
            _ => {}
        }
        thread.left = c.left();
        thread.left.units += std::mem::take(&mut self.kernel.cpus[cpu as usize].held_back);
    }

    /// Handles the end of the current task's segment.
    #[inline(always)]
    pub(crate) fn finish_segment(&mut self, cpu: u32) {
        let k = &mut self.kernel.cpus[cpu as usize];
        let kind = self.hardware.cpus[cpu as usize].kind;
        let is_refill = kind == TimeKind::CacheRefill;
        let held_back = std::mem::take(&mut k.held_back);
        if is_refill {
            self.kernel.threads[k.curr as usize].refill = 0;
        } else if held_back > 0 {
            self.kernel.threads[k.curr as usize].left = Segment::of_units(kind, held_back);
        }
        if k.need_resched {
            if kind == TimeKind::Spin {
                // It gives way before it looks what its spin has come to.
                self.programs.set_spinning(k.curr, NONE);
            }
            self.run_pending(cpu);
        } else if is_refill || held_back > 0 {
            self.resume(cpu);
        } else {
            let curr = k.curr;
            self.advance(cpu, curr);
        }
    }

    /// Executes operations until one takes time, waits, or wakes another task.
    #[inline(never)]
    fn advance(&mut self, cpu: u32, task: u32) {
        self.last_task = task;
        let here = Here { cpu, task, now_ns: self.hardware.now_ns };
        while self.take_step() {
            let next = self.programs.step(&here);
            match next {
                // These own nothing. Without forget(), each step would check for something to drop.
                Next::Continue => std::mem::forget(next),
                Next::Run(segment) => {
                    std::mem::forget(next);
                    if self.ledger.tally.progress.counts_work() && segment.kind == TimeKind::Work {
                        self.ledger.tally.progress.add_work(here.now_ns, task, segment.units / UNITS);
                    }
                    return self.start_work(cpu, task, segment);
                }
                Next::Wait => {
                    std::mem::forget(next);
                    return self.block(cpu, Life::Blocked);
                }
                Next::Wake(wakees) => return self.wake_all(cpu, wakees),
                Next::Count { units } => {
                    std::mem::forget(next);
                    self.ledger.tally.count(here.now_ns, units);
                }
                other => {
                    if !self.carry_out(here, other) {
                        return;
                    }
                }
            }
        }
    }

    /// The current task gives up its CPU.
    fn yields(&mut self, cpu: u32, task: u32) {
        let now_ns = self.hardware.now_ns;
        self.kernel.cpus[cpu as usize].read_clock(now_ns);
        let record = &mut self.kernel.records[task as usize];
        let writes_ns = self.kernel.host.yields(record, cpu, now_ns);
        self.kernel.cpus[cpu as usize].extra_switch_ns += writes_ns;
        self.kernel.threads[task as usize].slice_ns = 0;
        self.kernel.cpus[cpu as usize].need_resched = true;
        self.run_pending(cpu);
    }

    /// Carries out a step of a kind that is rare. Returns whether the task continues at once.
    #[inline(never)]
    fn carry_out(&mut self, here: Here, next: Next) -> bool {
        let Here { cpu, task, now_ns } = here;
        match next {
            Next::Continue | Next::Run(_) | Next::Wait | Next::Wake(_) | Next::Count { .. } => {
                unreachable!("advance() carries these out")
            }
            Next::Stream(stream) => {
                self.kernel.threads[task as usize].stream = stream;
                self.start_segment(cpu, task, Segment::of_units(TimeKind::Memory, stream.traffic));
                return false;
            }
            Next::Sleep { until_ns } => {
                self.hardware.queue.set_timer(task, until_ns);
                self.block(cpu, Life::Blocked);
                return false;
            }
            Next::EndSpins(ends) => ends.into_iter().for_each(|end| self.end_spin(end)),
            Next::Yield => {
                self.yields(cpu, task);
                return false;
            }
            Next::Exec => {
                if self.kernel.profile.places_exec() {
                    self.start_exec(cpu, task);
                    return false;
                }
            }
            Next::Fork { child } => {
                self.fork(cpu, task, child);
                return false;
            }
            Next::MarkBegin => {
                if self.ledger.tally.begin_ns.is_none() {
                    self.ledger.observer.begin(now_ns);
                }
                self.ledger.tally.mark_begin(now_ns);
            }
            Next::MarkEnd => self.ledger.tally.mark_end(now_ns),
            Next::BeginBatch => self.kernel.threads[task as usize].batch_since_ns = now_ns,
            Next::SetShares { group, shares } => self.set_shares(cpu, group, shares),
            Next::MoveTo { group } => self.move_to_group(cpu, task, group),
            Next::Exit(wakees) => {
                self.ledger.observer.exit(now_ns, cpu, task);
                if !wakees.is_empty() {
                    self.wake_all(cpu, wakees);
                    return false;
                }
            }
            Next::Gone => {
                self.kernel.alive -= 1;
                let spec = &self.workload.tasks[task as usize];
                if spec.judged {
                    self.ledger.tally.judged_gone(task, spec.awaited, now_ns);
                }
                self.block(cpu, Life::Exited);
                return false;
            }
            Next::Broken(what) => {
                let name = self.workload.tasks[task as usize].name.clone();
                let op = self.programs.pc(task);
                self.failure.get_or_insert(SimError::Program { task, name, op, what });
                self.block(cpu, Life::Blocked);
                return false;
            }
        }
        true
    }

    #[inline(always)]
    fn wake_all(&mut self, cpu: u32, wakees: Wakees) {
        let todo = &mut self.kernel.cpus[cpu as usize].todo;
        // What run_pending() would begin with.
        if let &[Wakee { task, flags }] = wakees.as_slice()
            && todo.is_empty()
        {
            return self.start_wakeup(cpu, task, flags);
        }
        for wakee in wakees.as_slice() {
            todo.push_back(Todo::Wake(wakee.task, wakee.flags));
        }
        self.run_pending(cpu);
    }

    fn fork(&mut self, cpu: u32, task: u32, child: u32) {
        self.kernel.alive += 1;
        self.init_record(child);
        let thread = &mut self.kernel.threads[child as usize];
        thread.cpu = cpu;
        thread.ran = false;
        self.ledger.observer.fork(self.hardware.now_ns, cpu, task, child);
        self.kernel.cpus[cpu as usize].todo.push_back(Todo::Wake(child, WAKE_FORK));
        self.run_pending(cpu);
    }

    /// A spinning task got what it spins for, and continues after the transfer of the line.
    fn end_spin(&mut self, end: SpinEnd) {
        self.settle(end.cpu);
        let segment = Segment::of_units(end.kind, end.cost_ns * UNITS);
        self.hardware.cpus[end.cpu as usize].set_task_segment(segment);
        self.arm(end.cpu);
    }
}
