// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's state for each CPU, as plain data.

use std::collections::VecDeque;

use wakelab_machine::Cold;
use wakelab_policy::{Decision, Dispatch, Reads};

use crate::ids::NONE;
use crate::ledger::search::SearchCost;

/// A wake-up in progress.
#[derive(Clone, Copy)]
pub(crate) struct Wakeup {
    pub(crate) wakee: u32,
    /// The flags of the wake-up, `WL_WAKE_*`.
    pub(crate) flags: u32,
    /// The CPU that was chosen.
    pub(crate) cpu: u32,
    /// Whether the decision claimed that CPU.
    pub(crate) claimed: bool,
}

/// Something that the kernel path on a CPU still has to do.
#[derive(Clone, Copy)]
pub(crate) enum Todo {
    /// Send an interrupt to this CPU. This comes before everything else.
    Send(u32),
    /// Queue a wakee whose wake-up another CPU left to this one.
    Queue(Wakeup),
    /// Wake this task, with `WL_WAKE_*`.
    Wake(u32, u32),
    /// Leave the interrupt that woke a task, and the idle loop.
    LeaveInterrupt,
}

/// A runqueue's clock: no wake-up has read it for the next schedule() (clock.rs).
pub(crate) const READ_AGAIN: u64 = u64::MAX;

/// One CPU as the kernel sees it. The fields that every event touches come first, and those that few touch last.
#[repr(C, align(64))]
pub(crate) struct Cpu {
    /// The current task; `NONE` while the CPU idles, or between two tasks.
    pub(crate) curr: u32,
    /// The last task whose context was loaded, or `NONE` for the idle task's.
    pub(crate) context: u32,
    /// Whether the policy knows the CPU as busy, that is, its context is not the idle task's.
    pub(crate) busy: bool,
    pub(crate) need_resched: bool,
    /// Whether it is inside schedule(), with the next task not chosen yet.
    pub(crate) scheduling: bool,
    /// Whether interrupts may be pending: the next fields up to `policy_timer_pending`, `timers` or `released`.
    pub(crate) interrupted: bool,
    pub(crate) ipi_pending: bool,
    pub(crate) tick_pending: bool,
    pub(crate) policy_timer_pending: bool,
    /// Whether it handles a timer's or device's interrupt, or wakes its task.
    pub(crate) in_interrupt: bool,
    /// With `need_resched`: when the current task has finished its system call and gives way.
    pub(crate) resched_at_ns: u64,
    /// It does so at the end of its system call, in which it woke another task.
    pub(crate) resched_after_call: bool,
    /// The runqueue's clock of the next schedule(), or `READ_AGAIN`.
    pub(crate) clock_ns: u64,
    /// The part of the current task's segment that comes after that, in 1/1024 ns.
    pub(crate) held_back: u64,
    /// What it does slowly next, because it has idled, in 1/1024 ns.
    pub(crate) cold: Cold,
    /// The previous task, which this schedule() put back in its queue, or `NONE`.
    pub(crate) put_back: u32,
    /// The number of pulls in this schedule() or tick.
    pub(crate) pulls: u32,
    /// The number of claims by wake-ups that have not queued their task yet.
    pub(crate) claims: u32,
    /// The cost of the next switch in addition to its fixed part.
    pub(crate) extra_switch_ns: u64,
    /// When the decision began.
    pub(crate) select_since_ns: u64,
    /// When the wake-up's first decision began.
    pub(crate) wakeup_since_ns: u64,

    pub(crate) todo: VecDeque<Todo>,
    pub(crate) wakeup: Wakeup,
    /// The offset of its ticks.
    pub(crate) tick_phase_ns: u64,
    pub(crate) decision: Decision,
    /// What the decision read that was in no cache near.
    pub(crate) select_misses: Reads,
    /// The cost of the decision, by part.
    pub(crate) search_cost: SearchCost,
    pub(crate) dispatch: Dispatch,
    /// Tasks whose timer or device interrupts wait to be handled.
    pub(crate) timers: VecDeque<u32>,
    /// mainline: wake-ups that other CPUs left to this one.
    pub(crate) wake_list: Vec<Wakeup>,
    pub(crate) tick: TickAnswer,
    /// CPUs on which groups are no longer throttled: a timer of bandwidth control fired here.
    pub(crate) released: Vec<u32>,
    /// Tasks of throttled groups that would run here.
    pub(crate) parked: Vec<u32>,
}

/// What the end of a tick carries out.
#[derive(Clone, Copy)]
pub(crate) struct TickAnswer {
    /// The CPU to wake from idle, or `NONE`.
    pub(crate) kick: u32,
    /// Whether to balance now.
    pub(crate) balance: bool,
    /// What the policy's reads, writes and updates cost.
    pub(crate) lines_ns: u64,
}

impl Cpu {
    /// An idle CPU.
    pub(crate) fn new(tick_phase_ns: u64) -> Cpu {
        Cpu {
            curr: NONE,
            context: NONE,
            busy: false,
            need_resched: false,
            clock_ns: READ_AGAIN,
            resched_at_ns: 0,
            resched_after_call: false,
            held_back: 0,
            cold: Cold::default(),
            scheduling: false,
            interrupted: false,
            ipi_pending: false,
            tick_pending: false,
            policy_timer_pending: false,
            released: Vec::new(),
            parked: Vec::new(),
            in_interrupt: false,
            put_back: NONE,
            pulls: 0,
            claims: 0,
            todo: VecDeque::new(),
            wakeup: Wakeup { wakee: NONE, flags: 0, cpu: NONE, claimed: false },
            extra_switch_ns: 0,
            tick_phase_ns,
            timers: VecDeque::new(),
            wake_list: Vec::new(),
            decision: Decision::default(),
            select_misses: Reads::default(),
            search_cost: SearchCost::default(),
            select_since_ns: 0,
            wakeup_since_ns: 0,
            dispatch: Dispatch::default(),
            tick: TickAnswer { kick: NONE, balance: false, lines_ns: 0 },
        }
    }

    /// The clock of its runqueue is read.
    #[inline(always)]
    pub(crate) fn read_clock(&mut self, now_ns: u64) {
        if self.clock_ns != READ_AGAIN {
            self.clock_ns = now_ns;
        }
    }

    /// It carries out what it was told: it reschedules. When another task is told to, that is due at once.
    pub(crate) fn reschedules(&mut self) {
        (self.need_resched, self.resched_at_ns, self.resched_after_call) = (false, 0, false);
    }

    /// Whether the idle task is its context, and no other task is being chosen.
    pub(crate) fn is_idle(&self) -> bool {
        !self.busy && !self.scheduling
    }
}
