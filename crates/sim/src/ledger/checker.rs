// SPDX-License-Identifier: GPL-2.0-or-later
//! The checker: verifies the house's invariants on every run, in release builds too.
//!
//! It keeps its own books, separate from the engine's, and is told of transitions. It answers one question: is
//! something wrong? It does O(1) work per event.
//!
//! - Every runnable task is on its way, queued exactly once, or running on exactly one CPU; none is left at the end.
//!   A task that sleeps in a queue (kernel/delayed.rs) is neither runnable nor running, and keeps no CPU from idling.
//! - A task runs only on CPUs on which it is allowed.
//! - Time never goes backwards; each nanosecond of each CPU is accounted exactly once.
//! - No work is lost: at the end of an event, a CPU that idles with work in its queue has a kick on its way, and the
//!   kick does not take for ever.
//! - No claim leaks: a CPU that idles with nothing queued, nothing claimed and no kick on its way has its idle bit set.
//! - The policy counts each task where the host has it, and has charged it the same CPU time.

use wakelab_machine::Machine;

use crate::ids::UNITS;

/// A kick that takes longer than this number of ticks, and longer than any kernel path, is lost.
const KICK_TICKS_MAX: u64 = 4;

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Not started, or waiting for something.
    Away,
    /// Woken, not queued yet.
    OnItsWay,
    Queued(u32),
    Running(u32),
    /// Asleep, but still in a queue: neither runnable nor running.
    Delayed(u32),
    Exited,
}

/// Of one CPU: half a cache line.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct CpuBooks {
    /// The time up to which its time is accounted.
    accounted_ns: u64,
    /// Since when it idles with work queued; `BUSY` if it does not.
    stalled_since_ns: u64,
    queued: u32,
    /// Kicks sent and not arrived.
    kicks: u32,
    /// Idle bits claimed for wake-ups that have not queued yet.
    claims: u32,
    running: bool,
    idle: bool,
    suspect: bool,
}

impl CpuBooks {
    const IDLE: CpuBooks = CpuBooks {
        accounted_ns: 0,
        stalled_since_ns: BUSY,
        queued: 0,
        kicks: 0,
        claims: 0,
        running: false,
        idle: true,
        suspect: false,
    };
}

/// It does not idle with work queued.
const BUSY: u64 = u64::MAX;

pub(crate) struct Checker {
    now_ns: u64,
    tasks: Vec<Place>,
    cpus: Vec<CpuBooks>,
    /// CPUs to check when the event is over.
    suspects: Vec<u32>,
    runnable: u64,
    /// The number of CPUs that idle with work queued.
    nr_stalled: u32,
    /// While CPUs idle with work queued, each event checks the kick of one CPU: the last one.
    turn: usize,
    /// Longest time that a kick may take.
    patience_ns: u64,
    failure: Option<(u64, String)>,
}

impl Checker {
    pub(crate) fn new(nr_cpus: usize, nr_tasks: usize, patience_ns: u64) -> Checker {
        Checker {
            now_ns: 0,
            tasks: vec![Place::Away; nr_tasks],
            cpus: vec![CpuBooks::IDLE; nr_cpus],
            suspects: Vec::new(),
            runnable: 0,
            nr_stalled: 0,
            turn: 0,
            patience_ns,
            failure: None,
        }
    }

    /// The longest time in nanoseconds that a kick may take: some ticks, and more than any path of the sender.
    /// `lines_of_cpu`: the lines that a look at another CPU reads.
    pub(crate) fn patience_ns(machine: &Machine, lines_of_cpu: u32) -> u64 {
        let (topology, costs) = (&machine.topology, &machine.costs);
        let line_ps: u64 = costs.line_transfer_ps.iter().sum();
        let reads_ns = (u64::from(lines_of_cpu) * line_ps * (topology.nr_cpus() as u64 + 8)).div_ceil(1000);
        let locks_ns = 2 * costs.runqueue_lock_ns * topology.nr_cpus() as u64;
        let farthest_ps = costs.line_transfer_ps.iter().max().unwrap_or(&0);
        let counters_ns = (2 * (costs.atomic_ps + farthest_ps) * topology.nr_cpus() as u64).div_ceil(1000);
        let path_ns = costs.wakeup_ns
            + costs.balance_ns
            + costs.switch_process_ns
            + costs.ipi_send_ns
            + 2 * reads_ns
            + locks_ns
            + counters_ns;
        let capacity = topology.cpus.iter().map(|cpu| cpu.capacity).min().unwrap_or(1);
        let slowest = u64::from((capacity * costs.smt_speed.last().unwrap_or(&1) / UNITS as u32).max(1));
        let flight_ns = costs.ipi_flight_ns.iter().max().unwrap_or(&0);
        KICK_TICKS_MAX * (costs.tick_period_ns + path_ns * UNITS / slowest + flight_ns)
    }

    /// The error, and the time since when; only the first one is kept.
    pub(crate) fn failure(&self) -> Option<&(u64, String)> {
        self.failure.as_ref()
    }

    /// Something is wrong. `what` says it in words, from copies of what it names: a value whose address is taken would
    /// go through memory on the way that finds nothing wrong, too.
    #[cold]
    #[inline(never)]
    pub(crate) fn fail(&mut self, what: impl FnOnce() -> String) {
        self.failure.get_or_insert_with(|| (self.now_ns, what()));
    }

    /// The clock is now at `now_ns`; checks the patience of one more CPU.
    #[inline]
    pub(crate) fn clock(&mut self, now_ns: u64) {
        if now_ns < self.now_ns {
            let before_ns = self.now_ns;
            self.fail(move || format!("time went back from {before_ns} to {now_ns} ns"));
        }
        self.now_ns = now_ns;
        if self.nr_stalled > 0 {
            // No division, because on a large machine some CPU nearly always has a kick on its way.
            self.turn = if self.turn + 1 < self.cpus.len() { self.turn + 1 } else { 0 };
            self.check_patience(self.turn);
        }
    }

    fn check_patience(&mut self, cpu: usize) {
        let since_ns = self.cpus[cpu].stalled_since_ns;
        if self.now_ns.saturating_sub(since_ns) > self.patience_ns {
            self.fail(move || {
                format!("CPU {cpu} idles since {since_ns} ns with work in its queue: a kick was lost")
            });
        }
    }

    /// The CPU's time from `from_ns` to `to_ns` is accounted.
    pub(crate) fn account(&mut self, cpu: u32, from_ns: u64, to_ns: u64) {
        let books = &mut self.cpus[cpu as usize];
        let expected = std::mem::replace(&mut books.accounted_ns, to_ns);
        if expected != from_ns || to_ns != self.now_ns {
            self.fail(move || format!(
                "CPU {cpu}: time accounted from {from_ns} to {to_ns} ns, it was accounted to {expected} ns"
            ));
        }
    }

    /// A wake-up or a start of the task begins.
    pub(crate) fn wake(&mut self, task: u32) {
        self.runnable += 1;
        let from = match self.tasks[task as usize] {
            delayed @ Place::Delayed(_) => delayed,
            _ => Place::Away,
        };
        self.move_task(task, from, Place::OnItsWay);
    }

    /// It joins the queue of `cpu`.
    pub(crate) fn enqueue(&mut self, task: u32, cpu: u32) {
        match self.tasks[task as usize] {
            Place::OnItsWay => {}
            Place::Running(from) => self.cpus[from as usize].running = false,
            other => self.fail(move || format!("task {task} is queued on CPU {cpu}, but it was {other:?}")),
        }
        self.tasks[task as usize] = Place::Queued(cpu);
        self.cpus[cpu as usize].queued += 1;
        self.suspect(cpu);
    }

    /// Balancing moves it.
    pub(crate) fn migrate(&mut self, task: u32, from: u32, to: u32) {
        self.move_task(task, Place::Queued(from), Place::Queued(to));
        self.cpus[from as usize].queued -= 1;
        self.cpus[to as usize].queued += 1;
        self.suspect(from);
        self.suspect(to);
    }

    /// It leaves the queue of `cpu` and runs there.
    pub(crate) fn run(&mut self, task: u32, cpu: u32, allowed: bool) {
        self.move_task(task, Place::Queued(cpu), Place::Running(cpu));
        if !allowed {
            self.fail(move || format!("task {task} runs on CPU {cpu}, where it is not allowed"));
        }
        let books = &mut self.cpus[cpu as usize];
        books.queued = books.queued.saturating_sub(1);
        if std::mem::replace(&mut books.running, true) {
            self.fail(move || format!("task {task} runs on CPU {cpu} beside another task"));
        }
    }

    /// It stops running on `cpu` and is not runnable.
    pub(crate) fn block(&mut self, task: u32, cpu: u32, exited: bool) {
        self.runnable -= 1;
        self.move_task(task, Place::Running(cpu), if exited { Place::Exited } else { Place::Away });
        self.cpus[cpu as usize].running = false;
    }

    /// Its group is throttled where it would be queued, or where it is: it is not runnable until [`Checker::wake`].
    pub(crate) fn park(&mut self, task: u32) {
        self.runnable -= 1;
        match std::mem::replace(&mut self.tasks[task as usize], Place::Away) {
            Place::OnItsWay => {}
            Place::Running(cpu) => self.cpus[cpu as usize].running = false,
            Place::Queued(cpu) => {
                self.cpus[cpu as usize].queued -= 1;
                self.suspect(cpu);
            }
            other => self.fail(move || format!("task {task} is parked, but it was {other:?}")),
        }
    }

    /// It stops running on `cpu` and is not runnable, but stays in the queue.
    pub(crate) fn delay(&mut self, task: u32, cpu: u32) {
        self.runnable -= 1;
        self.move_task(task, Place::Running(cpu), Place::Delayed(cpu));
        self.cpus[cpu as usize].running = false;
    }

    /// It leaves the queue of `cpu`, in which it slept. `woken`: a wake-up of it has begun.
    pub(crate) fn leave(&mut self, task: u32, cpu: u32, woken: bool) {
        if !woken {
            self.move_task(task, Place::Delayed(cpu), Place::Away);
        } else if self.tasks[task as usize] != Place::OnItsWay {
            let place = self.tasks[task as usize];
            self.fail(move || {
                format!("task {task} is woken in the queue of CPU {cpu}, but it was {place:?}")
            });
        }
    }

    /// The CPU begins to idle, or stops idling.
    pub(crate) fn set_idle(&mut self, cpu: u32, idle: bool) {
        let books = &mut self.cpus[cpu as usize];
        books.idle = idle;
        if idle && books.running {
            self.fail(move || format!("CPU {cpu} idles while a task runs there"));
        }
        self.suspect(cpu);
    }

    /// A CPU or the clock begins to notify the CPU.
    pub(crate) fn kick_sent(&mut self, cpu: u32) {
        self.cpus[cpu as usize].kicks += 1;
    }

    /// The notification reached it.
    pub(crate) fn kick_arrived(&mut self, cpu: u32) {
        match self.cpus[cpu as usize].kicks.checked_sub(1) {
            Some(kicks) => self.cpus[cpu as usize].kicks = kicks,
            None => self.fail(move || format!("CPU {cpu} got a kick that was not sent")),
        }
        self.suspect(cpu);
    }

    /// A decision claimed the idle CPU.
    pub(crate) fn begin_claim(&mut self, cpu: u32) {
        self.cpus[cpu as usize].claims += 1;
    }

    /// The wake-up that claimed it has queued, there or elsewhere.
    pub(crate) fn end_claim(&mut self, cpu: u32) {
        self.cpus[cpu as usize].claims -= 1;
        self.suspect(cpu);
    }

    /// Where the policy counts the task: 0 nowhere, 1 in the queue of `cpu`, 2 running on `cpu`, 3 asleep in its queue
    /// (enum wl_task_place).
    pub(crate) fn policy_counts(&mut self, task: u32, place: u32, cpu: i32) {
        let cpu = cpu as u32;
        let agrees = match self.tasks[task as usize] {
            Place::Away | Place::Exited => place == 0,
            Place::OnItsWay => false,
            Place::Queued(at) => place == 1 && at == cpu,
            Place::Running(at) => place == 2 && at == cpu,
            Place::Delayed(at) => place == 3 && at == cpu,
        };
        if !agrees {
            let counted = match place {
                0 => Place::Away,
                1 => Place::Queued(cpu),
                3 => Place::Delayed(cpu),
                _ => Place::Running(cpu),
            };
            let place = self.tasks[task as usize];
            self.fail(move || format!("the policy counts task {task} as {counted:?}, it is {place:?}"));
        }
    }

    fn move_task(&mut self, task: u32, from: Place, to: Place) {
        let place = std::mem::replace(&mut self.tasks[task as usize], to);
        if place != from {
            self.fail(move || format!("task {task} goes from {from:?} to {to:?}, but it was {place:?}"));
        }
    }

    fn suspect(&mut self, cpu: u32) {
        let books = &mut self.cpus[cpu as usize];
        let matters = books.idle || books.stalled_since_ns != BUSY;
        if matters && !std::mem::replace(&mut books.suspect, true) {
            self.suspects.push(cpu);
        }
    }

    /// The event is over: checks the CPUs to which something happened. `idle_bit` reads the idle mask.
    #[inline]
    pub(crate) fn event_over(&mut self, idle_bit: impl Fn(u32) -> bool) {
        if !self.suspects.is_empty() {
            self.look_at_suspects(idle_bit);
        }
    }

    fn look_at_suspects(&mut self, idle_bit: impl Fn(u32) -> bool) {
        while let Some(cpu) = self.suspects.pop() {
            self.check_idle(cpu, &idle_bit);
        }
    }

    fn check_idle(&mut self, cpu: u32, idle_bit: &impl Fn(u32) -> bool) {
        let books = &mut self.cpus[cpu as usize];
        books.suspect = false;
        let stalled = books.idle && books.queued > 0;
        let since_ns = &mut books.stalled_since_ns;
        self.nr_stalled += u32::from(stalled);
        self.nr_stalled -= u32::from(*since_ns != BUSY);
        *since_ns = if stalled { self.now_ns.min(*since_ns) } else { BUSY };
        let alone = books.idle && books.kicks == 0;
        if alone && stalled {
            let queued = books.queued;
            self.fail(move || {
                format!("CPU {cpu} idles with {queued} tasks in its queue, and no kick is on its way")
            });
        } else if alone && books.claims == 0 && !idle_bit(cpu) {
            self.fail(move || format!("CPU {cpu} idles, but its idle bit is not set: a claim leaked"));
        }
    }

    /// The run is over. `finished`: no task may be runnable any more.
    pub(crate) fn run_over(&mut self, end_ns: u64, finished: bool, idle_bit: impl Fn(u32) -> bool) {
        self.event_over(&idle_bit);
        for cpu in 0..self.cpus.len() {
            self.check_idle(cpu as u32, &idle_bit);
            self.check_patience(cpu);
            let accounted_ns = self.cpus[cpu].accounted_ns;
            if accounted_ns != end_ns {
                self.fail(move || {
                    format!("CPU {cpu}: time accounted to {accounted_ns} ns, the run ended at {end_ns} ns")
                });
            }
        }
        if finished && self.runnable > 0 {
            let runnable = self.runnable;
            self.fail(move || format!("the run is over and {runnable} tasks are still runnable"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checker() -> Checker {
        Checker::new(2, 2, 100)
    }

    fn finding(checker: &Checker) -> &str {
        checker.failure().map_or("", |(_, what)| what)
    }

    #[test]
    fn a_clean_life_passes() {
        let mut checker = checker();
        checker.wake(0);
        checker.kick_sent(1);
        checker.enqueue(0, 1);
        checker.event_over(|_| false);
        checker.clock(10);
        checker.kick_arrived(1);
        checker.set_idle(1, false);
        checker.account(1, 0, 10);
        checker.run(0, 1, true);
        checker.clock(20);
        checker.account(1, 10, 20);
        checker.block(0, 1, true);
        checker.set_idle(1, true);
        checker.account(0, 0, 20);
        checker.run_over(20, true, |_| true);
        assert_eq!(finding(&checker), "");
    }

    #[test]
    fn a_sleeper_in_a_queue_keeps_no_cpu_from_idling_and_wakes_or_leaves() {
        let mut checker = checker();
        for task in 0..2 {
            checker.wake(task);
            checker.set_idle(0, false);
            checker.enqueue(task, 0);
            checker.run(task, 0, true);
            checker.delay(task, 0);
            checker.policy_counts(task, 3, 0);
        }
        checker.wake(0);
        checker.leave(0, 0, true);
        checker.enqueue(0, 0);
        checker.run(0, 0, true);
        checker.block(0, 0, true);
        checker.set_idle(0, true);
        checker.run_over(0, true, |_| true);
        checker.leave(1, 0, false);
        assert_eq!(finding(&checker), "");
        checker.leave(1, 0, false);
        assert!(finding(&checker).contains("goes from Delayed(0) to Away"));
    }

    #[test]
    fn each_breach_is_found() {
        type Breach = fn(&mut Checker);
        let breaches: [(Breach, &str); 13] = [
            (
                |c| {
                    c.clock(5);
                    c.clock(4)
                },
                "time went back",
            ),
            (
                |c| {
                    c.clock(9);
                    c.account(0, 3, 9)
                },
                "time accounted from 3",
            ),
            (
                |c| {
                    c.wake(0);
                    c.wake(0)
                },
                "goes from Away to OnItsWay",
            ),
            (
                |c| {
                    c.wake(0);
                    c.enqueue(0, 0);
                    c.enqueue(0, 1)
                },
                "but it was Queued(0)",
            ),
            (
                |c| {
                    c.wake(0);
                    c.enqueue(0, 0);
                    c.run(0, 1, true)
                },
                "goes from Queued(1)",
            ),
            (
                |c| {
                    c.wake(0);
                    c.enqueue(0, 0);
                    c.run(0, 0, false)
                },
                "not allowed",
            ),
            (
                |c| {
                    for task in 0..2 {
                        c.wake(task);
                        c.enqueue(task, 0);
                        c.run(task, 0, true);
                    }
                },
                "beside another",
            ),
            (
                |c| {
                    c.wake(0);
                    c.enqueue(0, 0);
                    c.event_over(|_| false)
                },
                "no kick is on its way",
            ),
            (
                |c| {
                    c.wake(0);
                    c.kick_sent(0);
                    c.enqueue(0, 0);
                    c.event_over(|_| false);
                    c.clock(99);
                    c.clock(101);
                    c.clock(101);
                },
                "a kick was lost",
            ),
            (|c| c.kick_arrived(0), "was not sent"),
            (
                |c| {
                    c.set_idle(0, true);
                    c.event_over(|_| false)
                },
                "a claim leaked",
            ),
            (
                |c| {
                    c.wake(0);
                    c.run_over(0, true, |_| true)
                },
                "still runnable",
            ),
            (
                |c| {
                    c.wake(0);
                    c.enqueue(0, 1);
                    c.policy_counts(0, 1, 0)
                },
                "the policy counts task 0 as Queued(0)",
            ),
        ];
        for (breach, expected) in breaches {
            let mut checker = checker();
            breach(&mut checker);
            assert!(finding(&checker).contains(expected), "{expected}: {:?}", checker.failure());
        }
    }

    #[test]
    fn a_claim_in_flight_is_no_leak() {
        let mut checker = checker();
        checker.set_idle(0, true);
        checker.begin_claim(0);
        checker.event_over(|_| false);
        assert_eq!(finding(&checker), "");
        checker.end_claim(0);
        checker.event_over(|_| false);
        assert!(finding(&checker).contains("a claim leaked"));
    }
}
