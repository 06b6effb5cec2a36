// SPDX-License-Identifier: GPL-2.0-or-later
//! The metrics of a run: names, units, which direction is better, and how to compute them from an outcome.
//!
//! What a user of the machine notices has a direction: the time or rate of the work, latencies, delays, and idle CPUs
//! while tasks wait. The other metrics are neutral, because they only explain those: more migrations or a higher
//! utilisation can come with a gain or with a loss.

use wakelab_lab::steady_part;
use wakelab_machine::Distance;
use wakelab_sim::{Ending, Histogram, Outcome, SearchTime, TimeUse};
use wakelab_stats::{Direction, Unit, round_percent};
use wakelab_workload::Measure;

use crate::percentile::percentile_ns;

/// Computes a metric from an outcome.
pub(crate) type Value = Box<dyn Fn(&Outcome) -> Option<f64>>;

/// One row: a name with its unit last, a label for people, and the value of an outcome. `None`: not defined there.
pub(crate) struct Metric {
    pub(crate) name: String,
    pub(crate) label: String,
    pub(crate) unit: Unit,
    pub(crate) direction: Direction,
    pub(crate) value: Value,
}

const PERCENTILES: [(u32, &str); 4] = [(500, "p50"), (950, "p95"), (990, "p99"), (999, "p99.9")];

/// Returns all metrics, in the order of the table. `service`: the workload is judged by some of its tasks, so that a
/// makespan is theirs, and that of all tasks comes last of what has a direction.
pub(crate) fn metrics(measure: Measure, service: bool) -> Vec<Metric> {
    let service = service && measure == Measure::Makespan;
    let mut all = vec![match measure {
        Measure::Makespan if service => metric("done_ns", "done after", Unit::Ns, Direction::Lower, makespan),
        Measure::Makespan => metric("makespan_ns", "makespan", Unit::Ns, Direction::Lower, makespan),
        Measure::Rate => metric("rate_per_s", "rate", Unit::PerS, Direction::Higher, rate),
        Measure::WakeupLatency => {
            metric("judged_latency_p99_ns", "judged latency p99", Unit::Ns, Direction::Lower, |outcome| {
                percentile_ns(&outcome.judged_latency, 990).map(|ns| ns as f64)
            })
        }
    }];
    all.extend(rates(measure));
    // p99 is the result where the workload is judged by it.
    let judged: Vec<(u32, &'static str)> = PERCENTILES
        .into_iter()
        .filter(|&(permille, _)| measure != Measure::WakeupLatency || permille != 990)
        .collect();
    if service {
        all.push(metric("service_cpu_ns", "CPU time", Unit::Ns, Direction::Neutral, |outcome| {
            Some(outcome.by_name.iter().map(|name| name.cpu_time_ns).sum::<u64>() as f64)
        }));
    }
    let of_judged = if service { "service latency" } else { "judged latency" };
    all.extend(latencies("judged_latency", of_judged, &judged, |outcome| &outcome.judged_latency));
    all.extend(latencies("wakeup_latency", "wake-up latency", &PERCENTILES, |outcome| {
        &outcome.wakeup_latency
    }));
    all.push(metric("wakeup_latency_max_ns", "wake-up latency max", Unit::Ns, Direction::Lower, |outcome| {
        (outcome.wakeup_latency.count > 0).then_some(outcome.wakeup_latency.max_ns as f64)
    }));
    let median_and_tail = [PERCENTILES[0], PERCENTILES[2]];
    all.extend(latencies("queue_delay", "queue delay", &median_and_tail, |outcome| &outcome.queue_delay));
    all.push(metric(
        "idle_while_runnable_ns",
        "idle while runnable",
        Unit::Ns,
        Direction::Lower,
        |outcome| Some(outcome.idle_while_runnable_ns as f64),
    ));
    if service {
        let label = "makespan of all tasks";
        all.push(metric("makespan_ns", label, Unit::Ns, Direction::Lower, |outcome| {
            (outcome.ending == Ending::Completed).then_some(outcome.elapsed_ns as f64)
        }));
    }
    all.extend(neutral());
    all
}

/// What is neither better nor worse, and explains the rest.
fn neutral() -> Vec<Metric> {
    let mut all = vec![metric("throttled_ns", "throttled", Unit::Ns, Direction::Neutral, |outcome| {
        let throttled = || outcome.groups.iter().filter_map(|group| group.throttled_ns);
        throttled().next().map(|_| throttled().sum::<u64>() as f64)
    })];
    all.push(metric("migrations", "migrations", Unit::Count, Direction::Neutral, |outcome| {
        Some(outcome.migrations.iter().sum::<u64>() as f64)
    }));
    for distance in Distance::ALL.into_iter().filter(|distance| *distance != Distance::Cpu) {
        let name = format!("migrations_{}", distance.name());
        let label = format!("  {}", migration_label(distance));
        all.push(metric(&name, &label, Unit::Count, Direction::Neutral, move |outcome| {
            Some(outcome.migrations[distance.index()] as f64)
        }));
    }
    all.push(metric(
        "reads_per_decision",
        "reads per decision",
        Unit::Count,
        Direction::Neutral,
        |outcome| ratio(remote_reads(outcome), outcome.counts.selects),
    ));
    all.push(metric("reads_per_search", "reads per search", Unit::Count, Direction::Neutral, |outcome| {
        ratio(outcome.counts.search_reads, outcome.counts.searches)
    }));
    all.extend(search_times());
    all.push(metric(
        "scheduler_time_percent",
        "scheduler time",
        Unit::Percent,
        Direction::Neutral,
        |outcome| percent(scheduler_ns(&outcome.time), outcome.time.total_ns()),
    ));
    all.push(metric("utilisation_percent", "utilisation", Unit::Percent, Direction::Neutral, |outcome| {
        let total = outcome.time.total_ns();
        percent(total - outcome.time.idle_ns.min(total), total)
    }));
    all
}

/// What the steady part of a run says, and what a unit of work takes in wake-ups and preemptions.
fn rates(measure: Measure) -> Vec<Metric> {
    let first = match measure {
        Measure::Rate => {
            metric("whole_rate_per_s", "rate of the whole run", Unit::PerS, Direction::Higher, whole_rate)
        }
        Measure::Makespan | Measure::WakeupLatency => {
            metric("steady_rate_per_s", "steady rate", Unit::PerS, Direction::Higher, steady_rate)
        }
    };
    let neutral = |name, label, unit, value: fn(&Outcome) -> Option<f64>| {
        metric(name, label, unit, Direction::Neutral, value)
    };
    vec![
        first,
        neutral("steady_part_percent", "steady part", Unit::Percent, |outcome| {
            let nr_spans = outcome.progress.units.len();
            let kept = steady_part(outcome).map_or(0, |found| found.end - found.start);
            percent(kept as u64, nr_spans as u64)
        }),
        neutral("steady_interval_percent", "steady interval", Unit::Percent, |outcome| {
            steady_part(outcome).map(|found| found.half_percent)
        }),
        neutral("wakeups_per_unit", "wake-ups a unit", Unit::Count, |outcome| {
            ratio_of_units(outcome, outcome.measured_wakeups)
        }),
        neutral("preemptions_per_unit", "preemptions a unit", Unit::Count, |outcome| {
            ratio_of_units(outcome, outcome.measured_preemptions)
        }),
    ]
}

/// Returns the units a second in the steady part.
pub(crate) fn steady_rate(outcome: &Outcome) -> Option<f64> {
    let progress = &outcome.progress;
    steady_part(outcome).map(|found| found.mean * 1e9 / progress.span_ns as f64 / progress.unit as f64)
}

/// Returns how often something happened for each unit of work, both in the measured part.
fn ratio_of_units(outcome: &Outcome, count: u64) -> Option<f64> {
    let done: u64 = outcome.progress.units.iter().sum();
    (done > 0).then(|| count as f64 * outcome.progress.unit as f64 / done as f64)
}

fn metric(
    name: &str,
    label: &str,
    unit: Unit,
    direction: Direction,
    value: impl Fn(&Outcome) -> Option<f64> + 'static,
) -> Metric {
    Metric { name: name.to_owned(), label: label.to_owned(), unit, direction, value: Box::new(value) }
}

fn latencies(
    name: &'static str,
    label: &'static str,
    percentiles: &[(u32, &'static str)],
    histogram: fn(&Outcome) -> &Histogram,
) -> Vec<Metric> {
    percentiles
        .iter()
        .map(|&(permille, word)| {
            let name = format!("{name}_{}_ns", word.replace('.', "_"));
            metric(&name, &format!("{label} {word}"), Unit::Ns, Direction::Lower, move |outcome| {
                percentile_ns(histogram(outcome), permille).map(|value| value as f64)
            })
        })
        .collect()
}

/// The mean time of an idle search, and that of its steps over the searches that reached them.
fn search_times() -> impl Iterator<Item = Metric> {
    type Time = fn(&Outcome) -> SearchTime;
    let whole: Time = |outcome| outcome.search_times.whole;
    let idle_core: Time = |outcome| outcome.search_times.idle_core;
    let idle_cpu: Time = |outcome| outcome.search_times.idle_cpu;
    let times = [
        ("idle_search_ns", "idle search", whole),
        ("idle_core_step_ns", "  idle-core step", idle_core),
        ("idle_cpu_step_ns", "  idle-CPU step", idle_cpu),
    ];
    times.into_iter().map(|(name, label, time)| {
        metric(name, label, Unit::Ns, Direction::Neutral, move |outcome| {
            let time = time(outcome);
            ratio(time.time_ns, time.searches)
        })
    })
}

pub(crate) fn migration_label(distance: Distance) -> &'static str {
    match distance {
        Distance::Cpu => "same CPU",
        Distance::Smt => "within a core",
        Distance::Cluster => "within a cluster",
        Distance::Llc => "within an LLC",
        Distance::Node => "within a node",
        Distance::Numa1 => "to another node",
        Distance::Numa2 => "to a node farther away",
        Distance::Numa3 => "to the farthest nodes",
    }
}

/// Only a run that completed has a makespan.
pub(crate) fn makespan(outcome: &Outcome) -> Option<f64> {
    (outcome.ending == Ending::Completed).then_some(outcome.makespan_ns as f64)
}

/// Returns the units a second in the steady part; of the whole run if no part of it is steady.
pub(crate) fn rate(outcome: &Outcome) -> Option<f64> {
    steady_rate(outcome).or_else(|| whole_rate(outcome))
}

/// Returns the units a second between the moments when these parts of all units were done, in percent.
pub(crate) fn rate_within(outcome: &Outcome, [from, to]: [u8; 2]) -> Option<f64> {
    let progress = &outcome.progress;
    let all: u64 = progress.units.iter().sum();
    let done = |percent: u8| all as f64 * f64::from(percent) / 100.0;
    // Within a span, progress is taken for even.
    let spans_until = |percent: u8| {
        let mut left = done(percent);
        for (span, &units) in progress.units.iter().enumerate() {
            if left <= units as f64 {
                return span as f64 + if units > 0 { left / units as f64 } else { 0.0 };
            }
            left -= units as f64;
        }
        progress.units.len() as f64
    };
    let spans = spans_until(to) - spans_until(from);
    let is_known = outcome.ending == Ending::Completed && all > 0 && spans > 0.0;
    is_known.then(|| (done(to) - done(from)) * 1e9 / (spans * progress.span_ns as f64 * progress.unit as f64))
}

/// Returns the seconds that all units would take at the rate of this part of them, in percent.
pub(crate) fn seconds_within(outcome: &Outcome, within: [u8; 2]) -> Option<f64> {
    let all = outcome.progress.units.iter().sum::<u64>() as f64 / outcome.progress.unit as f64;
    rate_within(outcome, within).map(|rate| all / rate)
}

/// Returns by how much the rate of the second half of this part of a run exceeds that of its first half, in percent. A
/// part that is steady has about 0.
pub(crate) fn drift_within(outcome: &Outcome, [from, to]: [u8; 2]) -> Option<f64> {
    let middle = from.midpoint(to);
    let [first, second] = [[from, middle], [middle, to]].map(|half| rate_within(outcome, half));
    Some(round_percent((second? / first? - 1.0) * 100.0))
}

fn whole_rate(outcome: &Outcome) -> Option<f64> {
    if outcome.ending != Ending::Completed || outcome.makespan_ns == 0 {
        return None;
    }
    Some(outcome.units as f64 * 1e9 / outcome.makespan_ns as f64)
}

/// Returns how often placement decisions read the state of other CPUs than the searching one.
fn remote_reads(outcome: &Outcome) -> u64 {
    outcome.select_reads.iter().skip(Distance::Smt.index()).sum()
}

pub(crate) fn ratio(a: u64, b: u64) -> Option<f64> {
    (b > 0).then(|| a as f64 / b as f64)
}

/// Returns `part` in percent of `whole`; `None` if there is no whole.
pub(crate) fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}

fn scheduler_ns(time: &TimeUse) -> u64 {
    time.switch_ns + time.wakeup_ns + time.select_ns + time.balance_ns + time.ipi_ns + time.tick_ns
}

#[cfg(test)]
mod tests {
    use wakelab_sim::Progress;

    use super::*;

    /// 100 units in 7 ms, 20 a ms in the middle. A fifth was done after 2 ms, four fifths after 5: 60 units in 3 ms. A
    /// tenth was done after 1 ms, half after 3.5.
    #[test]
    fn the_rate_of_a_part_by_hand() {
        let progress = Progress { span_ns: 1_000_000, unit: 1, units: vec![10, 10, 20, 20, 20, 10, 10] };
        let run = Outcome { progress, ..Outcome::default() };
        assert_eq!(rate_within(&run, [20, 80]), Some(20_000.0));
        assert_eq!(rate_within(&run, [10, 50]), Some(16_000.0));
        assert_eq!(rate_within(&Outcome::default(), [10, 50]), None, "nothing was done");
        assert_eq!(seconds_within(&run, [10, 50]), Some(0.00625), "100 units at 16 a ms");
        assert_eq!(seconds_within(&Outcome::default(), [10, 50]), None);
        // 10 units in 1 ms, then 80 in 5 ms until 90 were done: from 10 to 50 in 2.5 ms, to 90 in 2.5.
        assert_eq!(drift_within(&run, [10, 90]), Some(0.0));
        // Until a tenth was done 10 a ms, and from there to a fifth, too; then 20.
        assert_eq!(drift_within(&run, [10, 30]), Some(100.0));
        assert_eq!(drift_within(&Outcome::default(), [10, 50]), None);
        assert_eq!(rate_within(&Outcome { ending: Ending::LimitReached, ..run }, [10, 50]), None);
    }
}
