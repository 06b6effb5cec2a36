// SPDX-License-Identifier: GPL-2.0-or-later
//! From what was timed to the figures of a machine file. A user cannot time the parts of a kernel's path one by one, so
//! some figures are differences:
//!
//! ```text
//! wakeup_ns          = a call that wakes - a call that finds nobody (futex_ns)
//! switch_thread_ns   = a hand-over on one CPU - two calls - wakeup_ns - the base's sleep_ns and dequeue_ns
//! switch_process_ns  = switch_thread_ns + (a hand-over through a pipe to a process - to a thread)
//! ipi_flight_ns      = a round trip of an interrupt - the base's ipi_send_ns and ipi_handle_ns - a line's way back
//! exit of a state    = a wake-up from it - (a hand-over on one CPU - a call) - ipi_send_ns - ipi_flight_ns
//!                      - ipi_handle_ns
//! ```
//!
//! A hand-over has a wake-up in it. If that took longer alone, other work disturbed it, and it is the base's.
//!
//! The range of a difference goes from the low end less the high end to the high end less the low end. Figures that the
//! base gives are taken to lie between half and twice their value.

use wakelab_machine::{Costs, Distance, MAX_COLD_PERCENT};

use crate::figures::{Figures, IdleFigure};
use crate::pipes::LONG_BYTES;
use crate::plan::{Plan, Samples};
use crate::sizes::Sizes;
use crate::spread::Spread;

/// The figures of these samples; others are the base's.
pub(crate) fn figures(plan: &Plan, samples: Samples, sizes: Sizes, base: &Costs) -> Figures {
    let mut figures = Figures { missing: plan.missing.clone(), ..Figures::default() };
    let samples = &samples;
    sizes_of_caches(sizes, &mut figures);
    let lines = lines(samples, &mut figures);
    switches(samples, base, &mut figures);
    loopback(samples, &mut figures);
    let at_sender = estimate(base.ipi_send_ns).plus(estimate(base.ipi_handle_ns));
    let flights = flights(samples, &lines, at_sender, &mut figures);
    let flight = flights.iter().find(|(d, _)| Some(*d) == plan.idle_distance).map(|(_, flight)| *flight);
    let hand_over = samples.spread("futex_handover_ns.cpu").zip(samples.spread("futex_ns"));
    let path = hand_over.map(|(handover, call)| {
        handover.less(call).plus(at_sender).plus(flight.unwrap_or(Spread::known(0, 0, 0)))
    });
    idle_states(plan, samples, path, &mut figures);
    figures.speeds = (1..).map_while(|busy| samples.spread(&format!("smt_speed.{busy}"))).collect();
    memory(samples, &mut figures);
    for (quantity, how) in [
        ("futex_handover_ns", "futex hand-over, one way, both CPUs idle otherwise"),
        ("pipe_handover_ns", "pipe hand-over between threads, one way"),
        ("process_handover_ns", "pipe hand-over to a process, one way"),
        ("interrupt_round_trip_ns", "membarrier with a thread there, less that alone"),
    ] {
        for (distance, spread) in samples.by_distance(quantity) {
            figures.beside(format!("{quantity}.{}", distance.name()), spread, how);
        }
    }
    figures
}

impl Samples {
    fn spread(&self, quantity: &str) -> Option<Spread> {
        Spread::of(self.values.get(quantity)?.clone())
    }

    /// A table by distance, nearest first.
    fn by_distance(&self, key: &str) -> Vec<(Distance, Spread)> {
        let part = |d: Distance| Some((d, self.spread(&format!("{key}.{}", d.name()))?));
        Distance::ALL.into_iter().filter_map(part).collect()
    }
}

/// A figure of the base.
fn estimate(value: u64) -> Spread {
    Spread::known(value / 2, value, 2 * value)
}

fn sizes_of_caches(sizes: Sizes, figures: &mut Figures) {
    for (key, size) in [
        ("line_bytes", sizes.line_bytes),
        ("core_cache_bytes", sizes.core_bytes),
        ("llc_cache_bytes", sizes.llc_bytes),
    ] {
        if let Some(size) = size {
            figures.number(key, Spread::known(size, size, size), "sysfs");
        }
    }
}

/// Lines that go between CPUs, which are returned, and updates of the own.
fn lines(samples: &Samples, figures: &mut Figures) -> Vec<(Distance, Spread)> {
    let lines = rising(samples.by_distance("line_transfer_ps"));
    for (distance, line) in &lines {
        let how = "half of a round trip by compare-and-exchange, batches of 1,000 on pairs of CPUs";
        figures.part("line_transfer_ps", distance.name(), *line, how);
    }
    if let Some(update) = samples.spread("atomic_ps") {
        figures.number("atomic_ps", update, "fetch-and-add on the CPU's own line, batches of 10,000");
    }
    lines
}

fn loopback(samples: &Samples, figures: &mut Figures) {
    let Some(short) = samples.spread("send_ns.1") else { return };
    let how = "a send of 1 byte over loopback TCP to a receiver that does not wait";
    figures.number("loopback_ns", short, how);
    if let Some(long) = samples.spread(&format!("send_ns.{LONG_BYTES}")) {
        let each = long.less(short).times(1000, LONG_BYTES - 1);
        figures.number("loopback_ps_per_byte", each, "the same of 16 KiB, less that of 1 byte");
    }
}

/// Interrupts on their way, which are returned. `at_sender`: what the base has of sending and handling one.
fn flights(
    samples: &Samples,
    lines: &[(Distance, Spread)],
    at_sender: Spread,
    figures: &mut Figures,
) -> Vec<(Distance, Spread)> {
    let flights = samples.by_distance("interrupt_round_trip_ns").into_iter().map(|(distance, trip)| {
        let back = lines.iter().find(|(d, _)| *d == distance).map(|(_, line)| line.times(1, 1000));
        (distance, trip.less(at_sender.plus(back.unwrap_or(Spread::known(0, 0, 0)))))
    });
    let flights = rising(flights.collect());
    for (distance, flight) in &flights {
        let how = "membarrier with a thread there, less that alone, the base's ipi_send_ns and ipi_handle_ns, and \
                   a line";
        figures.part("ipi_flight_ns", distance.name(), *flight, how);
    }
    flights
}

fn memory(samples: &Samples, figures: &mut Figures) {
    for limit in ["core", "cluster", "llc", "node", "machine"] {
        if let Some(copied) = samples.spread(&format!("bandwidth_mb_per_s.{limit}")) {
            let how = "copies of arrays larger than the caches, a thread a core, reads and writes";
            figures.part("bandwidth_mb_per_s", limit, copied.at_least(1), how);
        }
    }
    let mut most = 100;
    for (distance, percent) in samples.by_distance("remote_bandwidth_percent") {
        let Spread { low, median, high, samples } = percent;
        let percent = Spread { low: low.min(most), median: median.min(most), high: high.min(most), samples };
        most = percent.median;
        let how = "copies in another node's memory beside those in the own";
        figures.part("remote_bandwidth_percent", distance.name(), percent, how);
    }
}

/// System calls, wake-ups and switches, from a hand-over on one CPU and its parts.
fn switches(samples: &Samples, base: &Costs, figures: &mut Figures) {
    let Some(call) = samples.spread("futex_ns") else { return };
    figures.number("futex_ns", call, "a futex call that finds nobody, batches of 1,000");
    let parts = samples.spread("wake_call_ns").zip(samples.spread("futex_handover_ns.cpu"));
    let Some((wake, handover)) = parts else { return };
    let wakeup = wake.less(call);
    let known = call.plus(call).plus(wakeup);
    if known.median >= handover.median {
        figures.missing(format!(
            "wakeup_ns, switch_thread_ns, switch_process_ns: a wake-up took {} ns, and a whole hand-over {} ns: other \
             work disturbed it",
            wakeup.median, handover.median
        ));
        return;
    }
    let how = "a futex call that wakes a thread on its own CPU, 16 in a row, less futex_ns";
    figures.number("wakeup_ns", wakeup, how);
    let switch = handover.less(known).less(estimate(base.sleep_ns + base.dequeue_ns));
    figures.number(
        "switch_thread_ns",
        switch,
        "a futex hand-over on one CPU, less two of futex_ns and wakeup_ns",
    );
    let process = samples.spread("process_handover_ns.cpu").zip(samples.spread("pipe_handover_ns.cpu"));
    if let Some((process, thread)) = process {
        let switch = switch.plus(process.less(thread)).at_least(switch.median);
        let how =
            "switch_thread_ns and by how much a pipe to another process, cat, takes longer than to a thread";
        figures.number("switch_process_ns", switch, how);
    }
}

/// A table whose values do not fall with distance: each is at least the one before.
fn rising(table: Vec<(Distance, Spread)>) -> Vec<(Distance, Spread)> {
    let mut least = 0;
    let one = |(distance, spread): (Distance, Spread)| {
        let spread = spread.at_least(least);
        least = spread.median;
        (distance, spread)
    };
    table.into_iter().map(one).collect()
}

/// The idle states: what was measured of those that the CPU entered in more than half of the sleeps, and what the
/// kernel's driver says of the others.
fn idle_states(plan: &Plan, samples: &Samples, path: Option<Spread>, figures: &mut Figures) {
    let Some(path) = path else { return };
    for (at, state) in plan.states.iter().enumerate() {
        let wakes = samples.values.get(&format!("idle_wake_ns.{at}")).cloned().and_then(Spread::of);
        let Some((wakes, &(entered, sleeps))) = wakes.zip(samples.entered.get(&at)) else { continue };
        figures.beside(
            format!("idle_wake_ns.{at}"),
            wakes,
            &format!("from a futex call until a thread runs, out of {}", state.name),
        );
        let (exit, how) = if 2 * entered > sleeps {
            (wakes.less(path), format!("exit from {}, less the path of a wake-up", state.name))
        } else {
            let line = format!(
                "idle_states.{at}: {} was entered in {entered} of {sleeps} sleeps: the exit is that of the kernel's driver",
                state.name
            );
            figures.missing(line);
            let exit = Spread::known(state.latency_ns / 2, state.latency_ns, state.latency_ns * 6 / 5);
            (exit, format!("the kernel's driver says so of {}", state.name))
        };
        let cold = samples.cold_percent.get(&at).cloned().and_then(Spread::of);
        let cold_percent = cold.map_or(0, |cold| cold.median.min(u64::from(MAX_COLD_PERCENT)) as u32);
        figures.idle_states.push(IdleFigure { after_ns: state.after_ns, exit, cold_percent, how });
    }
    figures.sort_idle_states();
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wakelab_machine::Machine;

    use super::*;

    fn derived(values: &[(&str, &[u64])]) -> Figures {
        let machine = Machine::preset("xeon-2s22c2t").unwrap();
        let all: Vec<u32> = (0..88).collect();
        let plan = Plan::new(Path::new("/nonexistent"), &machine.topology, &all, 0);
        let mut base = machine.costs;
        (base.sleep_ns, base.dequeue_ns, base.ipi_send_ns, base.ipi_handle_ns) = (0, 0, 100, 200);
        let mut samples = Samples::default();
        for (quantity, found) in values {
            samples.values.insert((*quantity).to_owned(), found.to_vec());
        }
        figures(&plan, samples, Sizes { line_bytes: Some(64), ..Sizes::default() }, &base)
    }

    #[test]
    fn differences_by_hand() {
        let figures = derived(&[
            ("futex_ns", &[200]),
            ("wake_call_ns", &[900, 1000, 1100]),
            ("futex_handover_ns.cpu", &[2000]),
            ("pipe_handover_ns.cpu", &[3000]),
            ("process_handover_ns.cpu", &[3600]),
            ("send_ns.1", &[5000]),
            ("send_ns.16384", &[5000 + 16_383]),
            ("line_transfer_ps.smt", &[9_000]),
            ("line_transfer_ps.llc", &[8_000]),
            ("interrupt_round_trip_ns.llc", &[1_308]),
        ]);
        let median = |quantity: &str| figures.of(quantity).map(|spread| spread.median);
        assert_eq!(median("wakeup_ns"), Some(800));
        // 2,000 - 2 x 200 - 800.
        assert_eq!(
            figures.of("switch_thread_ns"),
            Some(Spread { low: 700, median: 800, high: 900, samples: 1 })
        );
        assert_eq!(median("switch_process_ns"), Some(1400));
        assert_eq!((median("loopback_ns"), median("loopback_ps_per_byte")), (Some(5000), Some(1000)));
        // No distance costs less than a nearer one.
        assert_eq!(
            (median("line_transfer_ps.smt"), median("line_transfer_ps.llc")),
            (Some(9_000), Some(9_000))
        );
        // 1,308 less 100 and 200 and a line of 9; with half and twice of these two.
        let flight = figures.of("ipi_flight_ns.llc").unwrap();
        assert_eq!((flight.low, flight.median, flight.high), (699, 999, 1149));
        assert_eq!(median("line_bytes"), Some(64));
        assert_eq!(median("core_cache_bytes"), None);
        let beside = figures.rows.iter().find(|row| row.quantity == "pipe_handover_ns.cpu").unwrap();
        assert!(!beside.is_cost);
    }

    #[test]
    fn a_wake_up_that_was_disturbed_is_the_base_s() {
        let figures =
            derived(&[("futex_ns", &[200]), ("wake_call_ns", &[2000]), ("futex_handover_ns.cpu", &[2000])]);
        assert_eq!((figures.of("wakeup_ns"), figures.of("switch_thread_ns")), (None, None));
        let line = "wakeup_ns, switch_thread_ns, switch_process_ns: a wake-up took 1800 ns, and a whole hand-over \
                    2000 ns: other work disturbed it";
        assert!(figures.missing.contains(&line.to_owned()), "{:?}", figures.missing);
    }

    #[test]
    fn percentages_do_not_rise_and_speeds_end_with_the_last() {
        let figures = derived(&[
            ("remote_bandwidth_percent.numa1", &[60]),
            ("remote_bandwidth_percent.numa2", &[70]),
            ("smt_speed.1", &[1024]),
            ("smt_speed.2", &[600, 640]),
        ]);
        assert_eq!(figures.of("remote_bandwidth_percent.numa2").unwrap().median, 60);
        assert_eq!(figures.speeds.iter().map(|speed| speed.median).collect::<Vec<_>>(), [1024, 620]);
    }
}
