// SPDX-License-Identifier: GPL-2.0-or-later
//! A CPU executes *segments*, one at a time, each of one kind and each with an effect at its end.
//!
//! Work is kept in 1/1024 ns, so that the speed of an SMT thread is exact integer arithmetic: a segment with r left on
//! a CPU of speed s (1024 = the machine's fastest core alone) ends after ceil(r / s) ns. Speed is capacity x the core's
//! SMT speed for so many executing threads. When a sibling starts or stops executing, the other threads' segments are
//! settled at the old speed and re-timed at the new one. A segment that streams through memory has a rate, too:
//! stream.rs.
//!
//! Only a task's own segments (work, cache refill, fork, exit) can be interrupted. Interrupts that come during any
//! other segment wait until the kernel is done with what it does, as with interrupts disabled.
//!
//! The last part of a segment may be of another kind than the rest, its *tail*: a wake-up and the wait for a lock in
//! it, a switch and the counters that it updates. One event then ends both.
//!
//! Worked example: 1,000 ns of work on a thread alone; after 400 ns its sibling starts, and the speed of two threads is
//! 600. 1,024,000 - 400 x 1024 = 614,400 are left, and end after 1,024 ns more, at 1,424 ns. Of these 1,424 ns of CPU
//! time 1,000 are work and 424 slowdown.

use std::collections::VecDeque;

use wakelab_machine::CoreCache;
use wakelab_policy::{Decision, Dispatch};

use crate::engine::Engine;
use crate::observer::Observer;
use crate::search::SearchCost;
use crate::stream::Pace;

/// No task, no CPU.
pub(crate) const NONE: u32 = u32::MAX;
/// 1 ns in the unit of work.
pub(crate) const UNITS: u64 = 1024;

/// What a CPU's time goes to; see [`crate::TimeUse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Work,
    Memory,
    CacheRefill,
    Data,
    Protocol,
    Spin,
    Futex,
    RunqueueLock,
    Atomic,
    Switch,
    Wakeup,
    Select,
    Balance,
    Ipi,
    Interrupt,
    Tick,
    ForkExit,
    IdleExit,
    Idle,
}

impl Kind {
    pub(crate) const COUNT: usize = 19;
}

/// What a CPU is doing: which effect the end of its segment has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Nothing. No end.
    Idle,
    /// Leaves its idle state; then what is pending.
    IdleExit,
    /// The current task's own segment.
    Task,
    /// A kernel path without an effect of its own at the end: what is pending comes next.
    Kernel,
    /// A placement decision: then its wake-up.
    Select,
    /// A placement decision at exec: then the task stays or goes.
    SelectExec,
    /// Takes its task off: then that queues elsewhere.
    Push,
    /// A wake-up: then the wakee queues.
    Wakeup,
    /// Sends an interrupt: then it is in flight.
    SendIpi,
    /// Handles interrupts from other CPUs: then the wake list.
    HandleIpi,
    /// A timer's or device's interrupt: then its wake-up.
    Interrupt,
    /// A tick: then what the policy answered.
    Tick,
    /// The policy's timer: then what it answered.
    PolicyTimer,
    /// Balancing inside schedule(): then the pull, and asking again.
    Balance,
    /// Balancing inside a tick: the same.
    TickBalance,
}

/// A wake-up on its way through the kernel.
#[derive(Clone, Copy)]
pub(crate) struct Wakeup {
    pub(crate) wakee: u32,
    /// `WL_WAKE_*`.
    pub(crate) flags: u32,
    /// Where it goes.
    pub(crate) cpu: u32,
    pub(crate) claimed: bool,
}

/// What the kernel path that a CPU is in still has to do.
#[derive(Clone, Copy)]
pub(crate) enum Todo {
    /// Send an interrupt to this CPU. Comes before everything else.
    Send(u32),
    /// Queue a wakee whose wake-up another CPU left to this one.
    Queue(Wakeup),
    /// Wake this task, with `WL_WAKE_*`.
    Wake(u32, u32),
}

/// What every event touches comes first.
#[repr(C, align(64))]
pub(crate) struct Cpu {
    /// Left of the segment, in 1/1024 ns, as of `since_ns`; of a stream (kind memory) its traffic (stream.rs).
    pub(crate) remaining: u64,
    pub(crate) since_ns: u64,
    /// The segment's tail, in 1/1024 ns.
    pub(crate) tail: u64,
    /// In 1/1024.
    pub(crate) speed: u32,
    pub(crate) kind: Kind,
    /// The kind of the tail.
    pub(crate) tail_kind: Kind,
    pub(crate) doing: Doing,
    /// Counts among its core's executing threads.
    pub(crate) executing: bool,
    /// Has a share of the memory's bandwidth.
    pub(crate) streams: bool,
    /// The policy was told that it is busy: its current context is not the idle task.
    pub(crate) busy: bool,
    /// The current task, or `NONE`: idle, or between two tasks.
    pub(crate) curr: u32,
    pub(crate) need_resched: bool,
    /// Inside schedule(): what it will run is not decided yet.
    pub(crate) scheduling: bool,
    /// Interrupts may be pending: the next two, or `timers`.
    pub(crate) interrupted: bool,
    pub(crate) ipi_pending: bool,
    pub(crate) tick_pending: bool,
    pub(crate) policy_timer_pending: bool,
    /// Handles a timer's or device's interrupt, or wakes whom it was for.
    pub(crate) in_interrupt: bool,
    pub(crate) core: u32,
    pub(crate) capacity: u32,
    pub(crate) llc: u32,
    /// Whose context is loaded: the last task, or `NONE` for idle.
    pub(crate) context: u32,
    /// The previous task, put back in its queue by this schedule(), or `NONE`.
    pub(crate) put_back: u32,
    /// Pulls in this schedule() or tick.
    pub(crate) pulls: u32,
    /// Claims of wake-ups that have not queued yet.
    pub(crate) claims: u32,
    pub(crate) todo: VecDeque<Todo>,
    pub(crate) wakeup: Wakeup,
    /// What the next switch costs more than its fixed part.
    pub(crate) extra_switch_ns: u64,
    /// The phase of its tick.
    pub(crate) tick_phase_ns: u64,
    /// Work done, by kind, in 1/1024 ns.
    pub(crate) done: [u64; Kind::COUNT],
    /// Tasks whose timer or device interrupts wait to be handled.
    pub(crate) timers: VecDeque<u32>,
    /// mainline: wake-ups that other CPUs left to this one.
    pub(crate) wake_list: Vec<Wakeup>,
    pub(crate) decision: Decision,
    /// What it costs, by part.
    pub(crate) search_cost: SearchCost,
    pub(crate) dispatch: Dispatch,
    /// When the placement decision began.
    pub(crate) select_since_ns: u64,
    /// What the policy answered to the tick: a CPU to kick (and whether it claimed it), or `NONE`; whether to balance
    /// now; what its reads, writes and updates cost.
    pub(crate) tick_kick: u32,
    pub(crate) tick_claimed: bool,
    pub(crate) tick_balance: bool,
    pub(crate) tick_lines_ns: u64,
    /// Of its stream, if it streams.
    pub(crate) pace: Pace,
}

impl Cpu {
    pub(crate) fn new(core: u32, capacity: u32, llc: u32, tick_phase_ns: u64) -> Cpu {
        Cpu {
            remaining: 0,
            since_ns: 0,
            speed: UNITS as u32,
            kind: Kind::Idle,
            tail_kind: Kind::Idle,
            tail: 0,
            doing: Doing::Idle,
            executing: false,
            streams: false,
            busy: false,
            curr: NONE,
            need_resched: false,
            scheduling: false,
            interrupted: false,
            ipi_pending: false,
            tick_pending: false,
            policy_timer_pending: false,
            in_interrupt: false,
            core,
            capacity,
            llc,
            context: NONE,
            put_back: NONE,
            pulls: 0,
            claims: 0,
            extra_switch_ns: 0,
            tick_phase_ns,
            wakeup: Wakeup { wakee: NONE, flags: 0, cpu: NONE, claimed: false },
            todo: VecDeque::new(),
            timers: VecDeque::new(),
            wake_list: Vec::new(),
            decision: Decision::default(),
            search_cost: SearchCost::default(),
            dispatch: Dispatch::default(),
            select_since_ns: 0,
            tick_kick: NONE,
            tick_claimed: false,
            tick_balance: false,
            tick_lines_ns: 0,
            pace: Pace::default(),
            done: [0; Kind::COUNT],
        }
    }

    /// Sets the next segment.
    pub(crate) fn set(&mut self, doing: Doing, kind: Kind, units: u64) {
        self.doing = doing;
        self.kind = kind;
        self.remaining = units;
        self.tail = 0;
    }

    /// Makes the segment that was just set longer, by a tail of this kind.
    pub(crate) fn add_tail(&mut self, kind: Kind, units: u64) {
        debug_assert_eq!(self.tail, 0, "a segment has one tail");
        self.remaining += units;
        self.tail = units;
        self.tail_kind = kind;
    }

    /// Whether the idle task is its context, and nothing else is being chosen.
    pub(crate) fn is_idle(&self) -> bool {
        !self.busy && !self.scheduling
    }
}

/// A core: its CPUs, how many of them execute something, and since when none does.
pub(crate) struct Core {
    pub(crate) cpus: Vec<u32>,
    executing: u32,
    idle_since_ns: u64,
    pub(crate) caches: CoreCache,
}

impl Core {
    pub(crate) fn new(cpus: Vec<u32>) -> Core {
        Core { cpus, executing: 0, idle_since_ns: 0, caches: CoreCache::default() }
    }

    /// How long the whole core has idled: its idle state is that of its busiest thread.
    pub(crate) fn idled_ns(&self, now_ns: u64) -> u64 {
        if self.executing > 0 { 0 } else { now_ns - self.idle_since_ns }
    }
}

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// Accounts the CPU's time up to now.
    pub(crate) fn settle(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        let elapsed_ns = self.now_ns - c.since_ns;
        if elapsed_ns == 0 {
            return;
        }
        if c.kind == Kind::Memory {
            self.settle_stream(cpu, elapsed_ns);
        } else {
            let full = elapsed_ns * u64::from(c.speed);
            let mut done = if c.doing == Doing::Idle {
                full
            } else {
                let done = full.min(c.remaining);
                c.remaining -= done;
                done
            };
            if c.tail > c.remaining {
                // The head is done, and so much of the tail.
                let tail = c.tail - c.remaining;
                c.done[c.tail_kind as usize] += tail;
                c.tail -= tail;
                done -= tail;
            }
            c.done[c.kind as usize] += done;
        }
        let c = &mut self.cpus[cpu as usize];
        self.checker.accounted(cpu, c.since_ns, self.now_ns);
        c.since_ns = self.now_ns;
    }

    /// Executes what was set: segments without length at once, until one takes time or the CPU idles.
    pub(crate) fn go(&mut self, cpu: u32) {
        loop {
            let c = &self.cpus[cpu as usize];
            if c.doing == Doing::Idle {
                self.queue.cancel_segment_end(cpu);
                self.set_executing(cpu, false);
                if self.cpus[cpu as usize].streams {
                    self.arm_stream(cpu);
                }
                let c = &mut self.cpus[cpu as usize];
                c.speed = UNITS as u32;
                c.since_ns = self.now_ns;
                self.checker.idles(cpu, true);
                return;
            }
            if c.remaining > 0 {
                self.arm(cpu);
                return;
            }
            self.step(cpu);
            if !self.take_step() {
                return;
            }
        }
    }

    /// Sets the end of the segment that was set.
    pub(crate) fn arm(&mut self, cpu: u32) {
        let c = &self.cpus[cpu as usize];
        let executes = c.doing != Doing::IdleExit;
        // Else its speed is the right one: a sibling that starts or stops sees to it.
        if c.executing != executes {
            self.set_executing(cpu, executes);
            self.cpus[cpu as usize].speed = if executes { self.speed(cpu) } else { UNITS as u32 };
        }
        let c = &mut self.cpus[cpu as usize];
        c.since_ns = self.now_ns;
        let (is_stream, remaining, speed) = (c.kind == Kind::Memory, c.remaining, c.speed);
        if is_stream || c.streams {
            self.arm_stream(cpu);
        }
        if !is_stream {
            self.queue.set_segment_end(cpu, self.now_ns + duration_ns(remaining, speed));
        }
    }

    /// A sibling's start or stop changes the speed of every executing thread of the core.
    fn set_executing(&mut self, cpu: u32, executing: bool) {
        let c = &mut self.cpus[cpu as usize];
        if c.executing == executing {
            return;
        }
        c.executing = executing;
        let core = c.core as usize;
        if executing {
            self.cores[core].executing += 1;
        } else {
            self.cores[core].executing -= 1;
            self.cores[core].idle_since_ns = self.now_ns;
        }
        for at in 0..self.cores[core].cpus.len() {
            let sibling = self.cores[core].cpus[at];
            if sibling == cpu || !self.cpus[sibling as usize].executing {
                continue;
            }
            self.settle(sibling);
            let speed = self.speed(sibling);
            let s = &mut self.cpus[sibling as usize];
            s.speed = speed;
            if s.kind == Kind::Memory {
                self.stream_speed_changed(sibling);
                continue;
            }
            // A segment that is just over, its event still to come, keeps its end.
            if s.remaining > 0 {
                self.queue.set_segment_end(sibling, self.now_ns + duration_ns(s.remaining, speed));
            }
        }
    }

    /// Of an executing CPU.
    pub(crate) fn speed(&self, cpu: u32) -> u32 {
        let c = &self.cpus[cpu as usize];
        let threads = self.cores[c.core as usize].executing.max(1) as usize;
        (c.capacity * self.costs.smt_speed[threads - 1] / UNITS as u32).max(1)
    }
}

/// How long `units` of work take at `speed`.
fn duration_ns(units: u64, speed: u32) -> u64 {
    if speed == UNITS as u32 { units.div_ceil(UNITS) } else { units.div_ceil(u64::from(speed)) }
}
