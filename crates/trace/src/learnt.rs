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
//! figure, or the next deeper one's.
//!
//! Placing and queueing are learnt, too, where sched_wakeup is recorded beside sched_waking: the median from one to the
//! other on the waker's CPU. An import takes that time off the waker's work, so a replay must charge it again.
//!
//! So is the time that a task goes on after it has woken another one on its own CPU, and before it gives way to it: it
//! finishes its system call, where the kernel cannot be preempted. From the wake-up to the switch pass the placement,
//! the queueing, and this time; its figure is the median of what is left. Only switches from the waker, still runnable,
//! to the wakee count, and of these only those within [`CALL_NS_MAX`]: others were made by a tick.
//!
//! It fails where the recorder delays wake-ups, and where CPUs poll while idle.

use wakelab_machine::{Distance, Machine};

use crate::quantile::quantile;

/// The fewest wake-ups that teach a figure.
const FEWEST: usize = 20;

/// The longest rest of a system call that counts: the kernel's shortest tick is 1 ms.
pub(crate) const CALL_NS_MAX: u64 = 100_000;

/// What a recording tells about its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learnt {
    /// Wake-ups from another CPU onto an idle one.
    pub idle_wakes: Vec<IdleWake>,
    /// Wake-ups that the waker's CPU carried out itself: from sched_waking to sched_wakeup.
    pub queueing_ns: Vec<u64>,
    /// Wake-ups on the waker's CPU after which it gave way to its wakee: from the wake-up to the switch.
    pub preempting_ns: Vec<u64>,
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
    /// Returns `base` with the figures that the recording tells, and their sources. `recording` is its name.
    pub fn machine(&self, base: &Machine, recording: &str) -> Machine {
        let mut machine = base.clone();
        self.learn_wakeup(&mut machine, recording);
        self.learn_preempt_delay(&mut machine, recording);
        let costs = &mut machine.costs;
        let farthest = base.topology.distances_present().into_iter().map(Distance::index).max().unwrap_or(0);
        let before_ns = costs.select_ns + costs.wakeup_ns + costs.ipi_send_ns + costs.ipi_flight_ns[farthest];
        let begins: Vec<u64> = costs.idle_states.iter().map(|state| state.after_ns).collect();
        let mut exits: Vec<Option<u64>> = (0..begins.len())
            .map(|state| {
                let next = begins.get(state + 1).copied().unwrap_or(u64::MAX);
                self.median_latency_ns(begins[state]..next)
                    .map(|latency_ns| latency_ns.saturating_sub(before_ns))
            })
            .collect();
        let Some(first) = exits.iter().flatten().next().copied() else { return machine };
        let mut shallower = first;
        for (state, exit) in costs.idle_states.iter_mut().zip(&mut exits) {
            // A deeper state does not wake faster.
            shallower = exit.unwrap_or(shallower).max(shallower);
            state.exit_latency_ns = shallower;
        }
        let source = format!(
            "measured: medians of {} wake-ups of idle CPUs from other CPUs in {recording}, less placing, queueing and flight",
            self.idle_wakes.len()
        );
        machine.sources.insert("idle_states".to_owned(), source);
        machine
    }

    fn learn_wakeup(&self, machine: &mut Machine, recording: &str) {
        let median = quantile(self.queueing_ns.iter().copied(), 50);
        let Some(median) = median.filter(|_| self.queueing_ns.len() >= FEWEST) else { return };
        machine.costs.wakeup_ns = median.saturating_sub(machine.costs.select_ns);
        let source = format!(
            "measured: median of {} wake-ups in {recording} from sched_waking to sched_wakeup, less placing",
            self.queueing_ns.len()
        );
        machine.sources.insert("wakeup_ns".to_owned(), source);
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

    fn median_latency_ns(&self, idled_ns: std::ops::Range<u64>) -> Option<u64> {
        let fits = self.idle_wakes.iter().filter(|wake| idled_ns.contains(&wake.idled_ns));
        let latencies: Vec<u64> = fits.map(|wake| wake.latency_ns).collect();
        if latencies.len() < FEWEST { None } else { quantile(latencies, 50) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wakes(of: &[(u64, u64)]) -> Learnt {
        let wake = |&(idled_ns, latency_ns): &(u64, u64)| IdleWake { idled_ns, latency_ns };
        Learnt { idle_wakes: of.iter().map(wake).collect(), ..Learnt::default() }
    }

    fn exits(machine: &Machine) -> Vec<u64> {
        machine.costs.idle_states.iter().map(|state| state.exit_latency_ns).collect()
    }

    #[test]
    fn exits_are_medians_less_what_comes_before() {
        let base = Machine::preset("smp-2").unwrap();
        let costs = &base.costs;
        let before_ns = costs.select_ns
            + costs.wakeup_ns
            + costs.ipi_send_ns
            + costs.ipi_flight_ns[Distance::Llc.index()];
        assert_eq!(costs.idle_states.len(), 3, "the preset's states");
        let deep_ns = costs.idle_states[2].after_ns;
        let mut of = Vec::new();
        for index in 0..21 {
            of.push((0, before_ns + 1_000 + index * 100));
            of.push((deep_ns, before_ns + 500));
        }
        // The middle state has no samples, and the deepest wakes no faster than the shallowest: 1,000 + 10 x 100.
        assert_eq!(exits(&wakes(&of).machine(&base, "r")), [2_000, 2_000, 2_000]);
    }

    #[test]
    fn queueing_is_the_median_less_placing() {
        let base = Machine::preset("smp-2").unwrap();
        let queueing_ns: Vec<u64> = (0..21).map(|index| base.costs.select_ns + 1_000 + index * 100).collect();
        let preempting_ns = vec![base.costs.select_ns + 2_500; 20];
        let machine = Learnt { queueing_ns, preempting_ns, ..Learnt::default() }.machine(&base, "r");
        assert_eq!(machine.costs.wakeup_ns, 2_000);
        assert_eq!(machine.costs.preempt_delay_ns, 500, "the rest, with the learnt queueing taken off");
    }

    #[test]
    fn a_waker_goes_on_for_the_median_less_placing_and_queueing() {
        let base = Machine::preset("smp-2").unwrap();
        let before_ns = base.costs.select_ns + base.costs.wakeup_ns;
        let preempting_ns: Vec<u64> = (0..21).map(|index| before_ns + 2_000 + index * 100).collect();
        let machine = Learnt { preempting_ns, ..Learnt::default() }.machine(&base, "r");
        assert_eq!(machine.costs.preempt_delay_ns, 3_000);
        assert!(machine.sources["preempt_delay_ns"].starts_with("measured: median of 21 "));
    }

    #[test]
    fn few_wake_ups_teach_nothing() {
        let base = Machine::preset("smp-2").unwrap();
        assert_eq!(wakes(&[(0, 9_000); FEWEST - 1]).machine(&base, "r"), base);
    }
}
