// SPDX-License-Identifier: GPL-2.0-or-later
//! What a recording tells about the machine that made it.
//!
//! The exit from idle is learnt: each wake-up of a task, from another CPU, onto a CPU that is idle then. From the
//! wake-up (sched_waking) to the switch-in pass the placement and the queueing, the interrupt's way, and the exit from
//! idle, which depends on how long the CPU has been idle. Given the first two from a machine file, the third is the
//! median of what is left.
//!
//! Worked example: a machine file has placing and queueing 600 ns, flight 200 ns, and idle states from 0 and from
//! 20,000 ns of idleness on. Wake-ups of CPUs that had been idle for 5,000 ns take 1,800, 2,800 and 9,000 ns: the first
//! state's exit is 2,800 - 800 = 2,000 ns. A state with fewer than [`FEWEST`] wake-ups takes the next shallower one's
//! figure, or the next deeper one's. Where `wakelab record` has measured the states, its figures are scaled instead: if
//! it measured 1,000 and 4,000 ns for the first two, the second state's exit is 8,000 ns. So are the figures of states
//! with few of all wake-ups ([`UNUSUAL`]).
//!
//! How single exits differ from that median is learnt, too: exits.rs.
//!
//! What a wake-up costs its waker shows between messages: between.rs. A recording without messages has what
//! `wakelab record` measured, and what three events of the recorder cost. The least is the median from sched_waking to
//! sched_wakeup on the waker's CPU. An import takes that time off the waker's work, so a replay must charge it again.
//! The waker is charged inside that time, when the wakee is queued, and its account (sched_stat_runtime) tells when:
//! what follows is the rest (`wakeup_exit_ns`).
//!
//! So is the time that a task goes on after it has woken another one on its own CPU, and before it gives way to it: it
//! finishes its system call, where the kernel cannot be preempted. From the wake-up to the switch pass the placement,
//! the queueing, and this time; its figure is the median of what is left. Only switches from the waker, still runnable,
//! to the wakee count, and of these only those within [`CALL_NS_MAX`]: others were made by a tick. One that yields does
//! not count either.
//!
//! A task of another CPU that gives way to a wakee is interrupted, and goes on for a while, too. Its figure is the
//! median from the wake-up to the switch, less placing, queueing and the interrupt. A switch counts if it is from a
//! task that is still runnable, within [`CALL_NS_MAX`].
//!
//! What a waker pays for the interrupt to an idle CPU (`ipi_send_ns`) shows in its next event: from sched_waking to
//! that, a task takes longer if the wakee's CPU idled than if it queued the wakee on its own CPU. The difference of the
//! means counts, for events of one kind, because what the waker does between differs by kind.
//!
//! Worked example: 500 wakers of idle CPUs log that they sent a message 10,100 ns after sched_waking, and 27 wakers on
//! their own CPU 2,700 ns after: the interrupt costs 7,400 ns.
//!
//! What a switch costs, and the call before a sleep (`sleep_ns`), shows there, too. What follows the scheduler's last
//! account of a sleeper (`dequeue_ns`), and what a CPU does before it idles (`balance_ns`), shows in how tasks leave
//! their CPU.
//!
//! Interrupts that wake a task, and ticks, are learnt where their entries and exits are recorded.
//!
//! After an interrupt on an idle CPU has woken a task, it goes on, and leaves, before the CPU looks for a task: the
//! median from such a wake-up to the switch-in, less placing and queueing. Where all of the interrupt was learnt, that
//! part is in it, and is taken off.
//!
//! Worked example: a task is switched in 9,000 ns after an interrupt has woken it on an idle CPU. Placing and queueing
//! take 600 ns: the interrupt goes on for 8,400 ns.
//!
//! A fork cannot have cost more than the CPU time that its parent took since it was switched in or forked before, and
//! an exit no more than what the task took since it was switched in. The tenth percentiles of these bound what the base
//! machine has, because programs that make threads one after the other do so for far less than a process costs.
//!
//! Worked example: a machine file has 35,000 ns for a fork. A program forks 8,000 threads, most of them 9,000 ns after
//! the one before, a tenth of them 8,000 or less: a fork costs 8,000.
//!
//! What the recording does not show, `wakelab record` may have measured (measured.rs): a recording on one CPU has no
//! wake-up of another one.
//!
//! It fails where the recorder delays wake-ups, and where CPUs poll while idle.

use std::collections::BTreeMap;

use wakelab_machine::{Costs, Distance, Machine};

use crate::beside::{self, Kinds};
use crate::between::{self, EVENTS_OF_WAKE, FEWEST, Pairs, usual_mean};
use crate::event::What;
use crate::exits;
use crate::measured::{Measured, WakeKind};
use crate::program::scaled;
use crate::quantile::quantile;

/// Where the states were measured, a state with less than one in UNUSUAL of the wake-ups is not learnt from them: such
/// wake-ups come in unusual moments, in which all takes longer. So do sleeps that leave a CPU idle which seldom is.
const UNUSUAL: usize = 10;

/// The fewest wake-ups of idle CPUs, and of the waker's own, whose wakers tell more than what was measured: what a
/// waker does next differs, too.
const FEWEST_BESIDE_MEASURED: usize = 100;

/// The longest rest of a system call that counts: the kernel's shortest tick is 1 ms.
pub(crate) const CALL_NS_MAX: u64 = 100_000;

/// What a recording tells about its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learnt {
    /// Wake-ups from another CPU onto an idle one.
    pub idle_wakes: Vec<IdleWake>,
    /// Wake-ups that the waker's CPU carried out itself: from sched_waking to sched_wakeup.
    pub queueing_ns: Vec<u64>,
    /// The same wake-ups: from sched_waking to the account of the waker, if it has one before sched_wakeup.
    pub accounting_ns: Vec<u64>,
    /// Wake-ups on the waker's CPU after which it gave way to its wakee: from the wake-up to the switch.
    pub preempting_ns: Vec<u64>,
    /// Wake-ups by an interrupt of an idle CPU, which then ran the task: from the last wake-up there to the switch-in.
    pub leaving_interrupt_ns: Vec<u64>,
    /// Wake-ups from another CPU for which a task there gave way: from the wake-up to the switch.
    pub interrupting_ns: Vec<u64>,
    /// Wake-ups by tasks: how long until the waker's next event, by its kind.
    pub after_wakes: BTreeMap<Next, AfterWakes>,
    /// Interrupts in a task's time that woke tasks, all of them on the same CPU, and were no tick.
    pub interrupts: Vec<WakingInterrupt>,
    /// Ticks in a task's time that woke no task: from entry to exit.
    pub ticks_ns: Vec<u64>,
    /// From the beginning of a tick in a task's time to that of the next one on its CPU.
    pub between_ticks_ns: Vec<u64>,
    /// What tasks did from one message event to the next.
    pub between: Pairs,
    /// What tasks did beside busy and idle siblings.
    pub beside: Kinds,
    /// From the scheduler's last account of a task that goes to sleep to the switch to another task, and to idle.
    pub leaving_ns: [Vec<u64>; 2],
    /// From a switch-in to the next event on its CPU: of switches between threads of a process, or from idle, and
    /// between processes.
    pub after_switches_ns: [Vec<u64>; 2],
    /// The CPU time of parents before a fork, since they were switched in or forked before.
    pub before_forks_ns: Vec<u64>,
    /// CPU times of tasks from their switch-in to an exec.
    pub before_execs_ns: Vec<u64>,
    /// The CPU time of tasks that exit, since they were switched in last.
    pub before_exits_ns: Vec<u64>,
    /// What `wakelab record` measured.
    pub measured: Measured,
    /// What each event of the recorder costs, which is in the other figures and not in those that were measured.
    pub event_cost_ns: u64,
}

/// The kind of the event that follows a wake-up on the waker's CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Next {
    /// The waker's account.
    Runtime,
    /// The waker leaves its CPU.
    Switch,
    /// A message was queued, sent or received.
    Message,
    /// Another wake-up.
    Waking,
    /// Any other.
    Other,
}

impl Next {
    pub(crate) fn of(what: &What<'_>) -> Next {
        match what {
            What::Runtime { .. } => Next::Runtime,
            What::Switch { .. } => Next::Switch,
            What::DataReady { .. } | What::Sent { .. } | What::Received { .. } => Next::Message,
            What::Waking { .. } => Next::Waking,
            _ => Next::Other,
        }
    }
}

/// An interrupt that woke tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakingInterrupt {
    /// From entry to exit.
    pub took_ns: u64,
    /// How many it woke.
    pub wakes: u32,
}

/// From wake-ups to the wakers' next events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AfterWakes {
    /// The wakee went to another CPU, which idled.
    pub idle_ns: Vec<u64>,
    /// The waker queued the wakee on its own CPU.
    pub local_ns: Vec<u64>,
}

impl AfterWakes {
    pub(crate) fn add(&mut self, sends: bool, took_ns: u64) {
        if sends { self.idle_ns.push(took_ns) } else { self.local_ns.push(took_ns) }
    }

    /// The difference of the usual means.
    fn more_ns(&self) -> Option<u64> {
        Some(usual_mean(&self.idle_ns)?.saturating_sub(usual_mean(&self.local_ns)?))
    }
}

/// Returns the median of enough samples.
fn median(samples_ns: &[u64]) -> Option<u64> {
    quantile(samples_ns.iter().copied(), 50).filter(|_| samples_ns.len() >= FEWEST)
}

/// Returns the period that kernels are built with (kernel/Kconfig.hz: 1000, 300, 250 and 100 Hz) and that is within a
/// twentieth of the usual time between interrupts of a CPU's timer; `None` if there is none, because the timer has
/// other users, or the CPU idled.
fn tick_period_ns(usual_ns: u64) -> Option<u64> {
    let is_near = |period_ns: &u64| usual_ns.abs_diff(*period_ns) * 20 <= *period_ns;
    [1_000_000, 3_333_333, 4_000_000, 10_000_000].into_iter().find(is_near)
}

/// A wake-up of a task from another CPU onto an idle one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleWake {
    /// How long the CPU had been idle.
    pub idled_ns: u64,
    /// From the wake-up to the switch-in.
    pub latency_ns: u64,
}

impl Learnt {
    /// Returns the same without what recording cost, `event_cost_ns` for each event: those that are always inside.
    pub fn without_recorder(&self, event_cost_ns: u64) -> Learnt {
        let less = |samples_ns: &[u64], events: u64| {
            samples_ns.iter().map(|ns| ns.saturating_sub(events * event_cost_ns)).collect::<Vec<u64>>()
        };
        let mut learnt = self.clone();
        // sched_waking; the other one's cost comes after the time that it names.
        learnt.queueing_ns = less(&self.queueing_ns, 1);
        learnt.accounting_ns = less(&self.accounting_ns, 1);
        // sched_waking, sched_wakeup and sched_stat_runtime.
        learnt.preempting_ns = less(&self.preempting_ns, 3);
        learnt.interrupting_ns = less(&self.interrupting_ns, 3);
        // sched_waking and sched_wakeup.
        learnt.leaving_interrupt_ns = less(&self.leaving_interrupt_ns, 2);
        learnt.idle_wakes.iter_mut().for_each(|wake| {
            wake.latency_ns = wake.latency_ns.saturating_sub(2 * event_cost_ns);
        });
        // sched_stat_runtime; with sched_switch where the task slept.
        learnt.leaving_ns = [0, 1].map(|next| less(&self.leaving_ns[next], 1));
        // sched_switch, because the time that it names is before it is written.
        learnt.after_switches_ns = [0, 1].map(|kind| less(&self.after_switches_ns[kind], 1));
        learnt.between.values_mut().for_each(|between| between.without_recorder(event_cost_ns));
        learnt.event_cost_ns = 0;
        for (next, after) in &mut learnt.after_wakes {
            // A wake-up that is followed by its waker's account had none inside.
            let inside = EVENTS_OF_WAKE - u64::from(*next == Next::Runtime);
            // An idle CPU queues the wakee itself, and logs sched_wakeup.
            (after.idle_ns, after.local_ns) = (less(&after.idle_ns, 1), less(&after.local_ns, inside));
        }
        // The entry, and each wake-up's two events.
        learnt.interrupts.iter_mut().for_each(|interrupt| {
            let events = 1 + 2 * u64::from(interrupt.wakes);
            interrupt.took_ns = interrupt.took_ns.saturating_sub(events * event_cost_ns);
        });
        // The entry, and those of a timer inside.
        learnt.ticks_ns = less(&self.ticks_ns, 3);
        learnt
    }

    /// Returns `base` with the figures that the recording tells, and their sources. `recording` is its name.
    pub fn machine(&self, base: &Machine, recording: &str) -> Machine {
        let mut machine = base.clone();
        beside::learn(&self.beside, &mut machine, recording);
        self.learn_send(&mut machine, recording);
        self.learn_wakeup(&mut machine, recording);
        self.learn_preempt_delay(&mut machine, recording);
        self.learn_remote_preempt_delay(&mut machine, recording);
        self.learn_interrupts(&mut machine, recording);
        self.learn_switch(&mut machine, recording);
        self.bound_switch(&mut machine, recording);
        self.learn_sleep(&mut machine, recording);
        self.bound_forks(&mut machine, recording);
        let costs = &mut machine.costs;
        let flight_ns = costs.ipi_flight_ns[farthest(base)];
        let measured = self.measured.idle_states(costs, flight_ns);
        let was_measured = measured.is_some();
        if let Some(states) = measured {
            costs.idle_states = states;
            machine.sources.insert(
                "idle_states".to_owned(),
                format!("measured at the end of {recording}, less the rest"),
            );
        }
        let before_ns = remote_wake_ns(costs, flight_ns);
        let begins: Vec<u64> = costs.idle_states.iter().map(|state| state.after_ns).collect();
        let exits: Vec<Option<Exit>> = (0..begins.len())
            .map(|state| {
                let next = begins.get(state + 1).copied().unwrap_or(u64::MAX);
                let seen = self.latencies_ns(begins[state]..next);
                let is_usual = seen.len() >= self.idle_wakes.len() / UNUSUAL;
                let median_ns = median(&seen).filter(|_| is_usual || !was_measured)?;
                Some(Exit { ns: median_ns.saturating_sub(before_ns), samples: seen.len() as u64 })
            })
            .collect();
        let told = |state: usize| exits[state].map(|exit| (exit, costs.idle_states[state].exit_latency_ns));
        let Some(first) = (0..exits.len()).find_map(told) else { return machine };
        let mut shallower = first;
        let mut all = Vec::with_capacity(exits.len());
        for (state, told_state) in costs.idle_states.iter().enumerate() {
            let measured_ns = told_state.exit_latency_ns;
            shallower = told(state).unwrap_or(shallower);
            let (exit, of_ns) = shallower;
            let untold = || match (was_measured, of_ns) {
                (false, _) => exit,
                (true, 0) => Exit { ns: measured_ns, samples: 1 },
                (true, of_ns) => Exit { ns: scaled(exit.ns, measured_ns, of_ns), samples: 1 },
            };
            all.push(exits[state].unwrap_or_else(untold));
        }
        for (state, exit_ns) in costs.idle_states.iter_mut().zip(rising(&all)) {
            state.exit_latency_ns = exit_ns;
        }
        let told: Vec<bool> = exits.iter().map(Option::is_some).collect();
        let medians = match exits::learn(&mut costs.idle_states, &told, &self.idle_wakes, before_ns) {
            true => "medians and percentiles",
            false => "medians",
        };
        let source = format!(
            "measured: {medians} of {} wake-ups of idle CPUs from other CPUs in {recording}, less placing, queueing, sending, \
             flight and handling",
            self.idle_wakes.len()
        );
        machine.sources.insert("idle_states".to_owned(), source);
        machine
    }

    fn learn_wakeup(&self, machine: &mut Machine, recording: &str) {
        let count = self.queueing_ns.len();
        let Some(queueing_ns) = median(&self.queueing_ns) else { return };
        let told = between::wake_ns(&self.between).map(|(count, wake_ns)| {
            let source = format!(
                "measured in {recording}: {count} messages that woke a task took so much more than others, less placing"
            );
            (wake_ns, source)
        });
        let measured = || {
            let source =
                format!("measured at the end of {recording}: a wake-up on the waker's CPU, less placing");
            Some((self.measured_wake_ns()?, source))
        };
        let told = told.or_else(measured).filter(|&(wake_ns, _)| wake_ns > queueing_ns);
        let (wake_ns, source) = told.unwrap_or_else(|| {
            let source = format!(
                "measured: median of {count} wake-ups in {recording} from sched_waking to sched_wakeup, less placing"
            );
            (queueing_ns, source)
        });
        let (wake_ns, source) = match self.most_of_wake(machine) {
            Some((most_ns, what)) if most_ns < wake_ns => (
                most_ns,
                format!("bounded in {recording}: {what} from sched_waking to the waker's next event"),
            ),
            _ => (wake_ns, source),
        };
        machine.costs.wakeup_ns = wake_ns.saturating_sub(machine.costs.select_ns);
        machine.sources.insert("wakeup_ns".to_owned(), source);
        let Some(account_ns) = median(&self.accounting_ns) else { return };
        machine.costs.wakeup_exit_ns = wake_ns.saturating_sub(account_ns).min(machine.costs.wakeup_ns);
        let count = self.accounting_ns.len();
        let source = format!(
            "measured: median of {count} wake-ups in {recording} from sched_waking to the account of the current task; \
             this is the rest"
        );
        machine.sources.insert("wakeup_exit_ns".to_owned(), source);
    }

    /// Returns the most that a wake-up can cost its waker, and what tells it: the time until its next event. Where the
    /// wakee's CPU idled, an interrupt is in that time.
    fn most_of_wake(&self, machine: &Machine) -> Option<(u64, String)> {
        let after = &self.after_wakes;
        let of_local = |after: &AfterWakes| Some((usual_mean(&after.local_ns)?, after.local_ns.len()));
        if let Some((most_ns, count)) = after.values().filter_map(of_local).min() {
            return Some((most_ns, format!("mean of {count} wake-ups on the waker's CPU")));
        }
        let idle_ns = || after.values().flat_map(|after| after.idle_ns.iter().copied());
        let count = idle_ns().count();
        let with_send_ns = quantile(idle_ns(), 25).filter(|_| count >= FEWEST)?;
        let most_ns = with_send_ns.saturating_sub(machine.costs.ipi_send_ns);
        Some((most_ns, format!("lower quartile of {count} wake-ups of idle CPUs, less the interrupt,")))
    }

    /// Returns what a wake-up on the waker's CPU costs, with the recorder's events.
    fn measured_wake_ns(&self) -> Option<u64> {
        let mut local = self.measured.wakes.iter().filter(|wake| wake.kind == WakeKind::Local);
        Some(self.measured.usual(local.next()?.waker_ns) + EVENTS_OF_WAKE * self.event_cost_ns)
    }

    /// Learns what an interrupt to an idle CPU costs its waker.
    fn learn_send(&self, machine: &mut Machine, recording: &str) {
        let measured_ns = self.measured_send_ns();
        let fewest = if measured_ns.is_some() { FEWEST_BESIDE_MEASURED } else { FEWEST };
        let of_both = |after: &AfterWakes| {
            Some((after.idle_ns.len().min(after.local_ns.len()), after.idle_ns.len(), after.more_ns()?))
        };
        let both = self.after_wakes.values().filter_map(of_both);
        let (send_ns, source) = match both.filter(|&(fewer, ..)| fewer >= fewest).max() {
            Some((_, count, more_ns)) => (
                more_ns,
                format!(
                    "measured: the waker's next event comes so much later after {count} wake-ups of idle CPUs in {recording} \
                     than after those on its own CPU"
                ),
            ),
            None => match measured_ns {
                Some(more_ns) => (
                    more_ns,
                    format!("measured at the end of {recording}: a wake-up of an idle CPU, less a local one"),
                ),
                None => return,
            },
        };
        machine.costs.ipi_send_ns = send_ns;
        machine.sources.insert("ipi_send_ns".to_owned(), source);
    }

    /// Returns what a wake-up of an idle CPU costs its waker more than a local one: the median over all idlenesses.
    fn measured_send_ns(&self) -> Option<u64> {
        let of = |kind: WakeKind| {
            let wakes = self.measured.wakes.iter().filter(move |wake| wake.kind == kind);
            quantile(wakes.map(|wake| self.measured.usual(wake.waker_ns)), 50)
        };
        Some(of(WakeKind::Idle)?.saturating_sub(of(WakeKind::Local)?))
    }

    /// Learns interrupts that wake, and ticks.
    fn learn_interrupts(&self, machine: &mut Machine, recording: &str) {
        let costs = &mut machine.costs;
        let wake_ns = costs.select_ns + costs.wakeup_ns;
        let mut source = |key: &str, samples_ns: &[u64], what: &str| {
            let text = format!("measured: median of {} {what} in {recording}", samples_ns.len());
            machine.sources.insert(key.to_owned(), text);
        };
        if let Some(median_ns) = median(&self.leaving_interrupt_ns) {
            costs.interrupt_exit_ns = median_ns.saturating_sub(wake_ns);
            let what = "wake-ups by interrupts of idle CPUs";
            source("interrupt_exit_ns", &self.leaving_interrupt_ns, what);
        }
        let without_wakes = |interrupt: &WakingInterrupt| {
            interrupt.took_ns.saturating_sub(u64::from(interrupt.wakes) * wake_ns)
        };
        let interrupts_ns: Vec<u64> = self.interrupts.iter().map(without_wakes).collect();
        if let Some(median_ns) = median(&interrupts_ns) {
            costs.interrupt_ns = median_ns;
            source("interrupt_ns", &interrupts_ns, "interrupts that woke tasks, less the wake-ups,");
        }
        if let Some(period_ns) = median(&self.between_ticks_ns).and_then(tick_period_ns) {
            costs.tick_period_ns = period_ns;
            source("tick_period_ns", &self.between_ticks_ns, "times between ticks");
        }
        if let Some(median_ns) = median(&self.ticks_ns) {
            costs.tick_ns = median_ns.min(costs.tick_period_ns - 1);
            source("tick_ns", &self.ticks_ns, "ticks");
        }
    }

    /// Bounds what forks, execs and exits cost.
    fn bound_forks(&self, machine: &mut Machine, recording: &str) {
        let Costs { fork_ns, exec_ns, exit_ns, .. } = &mut machine.costs;
        let all = [
            ("fork_ns", fork_ns, &self.before_forks_ns, "parents' CPU times before forks"),
            ("exec_ns", exec_ns, &self.before_execs_ns, "runs of tasks before an exec"),
            ("exit_ns", exit_ns, &self.before_exits_ns, "last runs of tasks that exited"),
        ];
        for (key, cost_ns, samples_ns, what) in all {
            let Some(bound_ns) = bound_ns(samples_ns, 10, *cost_ns) else { continue };
            *cost_ns = bound_ns;
            let text = format!("bounded: tenth percentile of {} {what} in {recording}", samples_ns.len());
            machine.sources.insert(key.to_owned(), text);
        }
    }

    fn learn_preempt_delay(&self, machine: &mut Machine, recording: &str) {
        let costs = &mut machine.costs;
        let latencies = self.preempting_ns.iter().copied();
        let Some(median) = quantile(latencies, 50).filter(|_| self.preempting_ns.len() >= FEWEST) else {
            return;
        };
        costs.preempt_delay_ns = median.saturating_sub(costs.select_ns + costs.wakeup_ns);
        let source = format!(
            "measured: median of {} wake-ups in {recording} after which the waker gave way, less placing and queueing",
            self.preempting_ns.len()
        );
        machine.sources.insert("preempt_delay_ns".to_owned(), source);
    }

    fn learn_remote_preempt_delay(&self, machine: &mut Machine, recording: &str) {
        let farthest = farthest(machine);
        let costs = &mut machine.costs;
        let Some(median_ns) = median(&self.interrupting_ns) else { return };
        let before_ns = remote_wake_ns(costs, costs.ipi_flight_ns[farthest]);
        costs.remote_preempt_delay_ns = median_ns.saturating_sub(before_ns);
        let source = format!(
            "measured: median of {} wake-ups in {recording} for which a task of another CPU gave way, less placing, queueing, \
             sending, flight and handling",
            self.interrupting_ns.len()
        );
        machine.sources.insert("remote_preempt_delay_ns".to_owned(), source);
    }

    /// Learns what a switch costs. Where only one kind of switch was seen, the other one keeps its difference.
    fn learn_switch(&self, machine: &mut Machine, recording: &str) {
        let costs = &mut machine.costs;
        let apart_ns = costs.switch_process_ns.saturating_sub(costs.switch_thread_ns);
        let [thread, process] = [0, 1].map(|kind| between::switch_ns(&self.between, kind));
        let (count, (thread_ns, process_ns)) = match (thread, process) {
            (Some((threads, thread_ns)), Some((processes, process_ns))) => {
                (threads + processes, (thread_ns, process_ns))
            }
            (Some((count, ns)), None) => (count, (ns, ns + apart_ns)),
            (None, Some((count, ns))) => (count, (ns.saturating_sub(apart_ns), ns)),
            (None, None) => return,
        };
        (costs.switch_thread_ns, costs.switch_process_ns) = (thread_ns, process_ns);
        let source = format!(
            "measured in {recording}: {count} messages after a preemption took so much more than others"
        );
        for key in ["switch_thread_ns", "switch_process_ns"] {
            machine.sources.insert(key.to_owned(), source.clone());
        }
    }

    /// Bounds what a switch costs by what follows it. A message after a preemption may take longer than others because
    /// the preemption has moved the task, or because a tick has made it. A switch to a thread of the same process costs
    /// no more than one to another process.
    fn bound_switch(&self, machine: &mut Machine, recording: &str) {
        let Costs { switch_thread_ns, switch_process_ns, .. } = &mut machine.costs;
        let both =
            [("switch_thread_ns", &mut *switch_thread_ns), ("switch_process_ns", &mut *switch_process_ns)];
        for ((key, cost_ns), samples_ns) in both.into_iter().zip(&self.after_switches_ns) {
            let Some(bound_ns) = bound_ns(samples_ns, 50, *cost_ns) else { continue };
            *cost_ns = bound_ns;
            let count = samples_ns.len();
            let text = format!(
                "bounded: median of {count} times in {recording} from such a switch to the next event"
            );
            machine.sources.insert(key.to_owned(), text);
        }
        if *switch_thread_ns > *switch_process_ns {
            *switch_thread_ns = *switch_process_ns;
            let source = format!("bounded: a switch to another process of {recording}");
            machine.sources.insert("switch_thread_ns".to_owned(), source);
        }
    }

    /// Learns what a sleep costs beside the switch, before the scheduler's account and after it.
    fn learn_sleep(&self, machine: &mut Machine, recording: &str) {
        let costs = &mut machine.costs;
        let mut told = |key: &str, source: String| {
            machine.sources.insert(key.to_owned(), format!("measured in {recording}: {source}"));
        };
        let [to_task_ns, to_idle_ns] = &self.leaving_ns;
        let is_usual = to_idle_ns.len() >= to_task_ns.len() / UNUSUAL;
        if let (Some(task_ns), Some(idle_ns), true) =
            (usual_mean(to_task_ns), usual_mean(to_idle_ns), is_usual)
        {
            costs.balance_ns = idle_ns.saturating_sub(task_ns);
            let samples = to_idle_ns.len();
            told(
                "balance_ns",
                format!(
                    "{samples} tasks that went to sleep were switched out so much later if their CPU went idle"
                ),
            );
        }
        if let Some(median_ns) = median(to_task_ns) {
            costs.dequeue_ns = median_ns;
            let samples = to_task_ns.len();
            told(
                "dequeue_ns",
                format!("median of {samples} from the last account of a sleeper to the switch"),
            );
        }
        let switches_ns = [costs.switch_thread_ns, costs.switch_process_ns];
        if let Some((count, more_ns)) = between::sleep_ns(&self.between, switches_ns) {
            costs.sleep_ns = more_ns.saturating_sub(costs.dequeue_ns);
            let more = "messages after a sleep took so much more than others, less the rest of it";
            told("sleep_ns", format!("{count} {more}"));
        }
    }

    fn latencies_ns(&self, idled_ns: std::ops::Range<u64>) -> Vec<u64> {
        let fits = self.idle_wakes.iter().filter(|wake| idled_ns.contains(&wake.idled_ns));
        fits.map(|wake| wake.latency_ns).collect()
    }
}

/// Returns a percentile of enough samples, if it is less than `cost_ns`, so that this is too much.
fn bound_ns(samples_ns: &[u64], percent: usize, cost_ns: u64) -> Option<u64> {
    let bound_ns = quantile(samples_ns.iter().copied(), percent)?;
    (samples_ns.len() >= FEWEST && bound_ns < cost_ns).then_some(bound_ns)
}

/// The index of the farthest distance that a machine has.
fn farthest(machine: &Machine) -> usize {
    machine.topology.distances_present().into_iter().map(Distance::index).max().unwrap_or(0)
}

/// The time from a wake-up to the end of the interrupt that it sends to another CPU.
fn remote_wake_ns(costs: &Costs, flight_ns: u64) -> u64 {
    costs.select_ns + costs.wakeup_ns + costs.ipi_send_ns + flight_ns + costs.ipi_handle_ns
}

/// The exit from an idle state, and the number of wake-ups that tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exit {
    ns: u64,
    samples: u64,
}

/// Returns exits that do not fall with depth: where they do, those states get the mean of all their samples.
///
/// Worked example: 17 us by 1 sample and 14 us by 2 are both 15; if 30 us follow, they stay.
fn rising(exits: &[Exit]) -> Vec<u64> {
    let mut groups: Vec<(Exit, usize)> = Vec::new();
    for &exit in exits {
        let mut group = (exit, 1);
        while let Some(&(before, states)) = groups.last()
            && before.ns > group.0.ns
        {
            let samples = before.samples + group.0.samples;
            let sum = u128::from(before.ns) * u128::from(before.samples)
                + u128::from(group.0.ns) * u128::from(group.0.samples);
            let ns = (sum / u128::from(samples.max(1))) as u64;
            group = (Exit { ns, samples }, states + group.1);
            groups.pop();
        }
        groups.push(group);
    }
    groups.iter().flat_map(|(exit, states)| std::iter::repeat_n(exit.ns, *states)).collect()
}

#[cfg(test)]
#[path = "learnt_tests.rs"]
mod tests;
