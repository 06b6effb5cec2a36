// SPDX-License-Identifier: GPL-2.0-only
//! What `--stats` and `--monitor` report: the table of counters, the struct made from it, its difference from an
//! earlier one, its text and, by serde, its JSON (docs/schema/stats.schema.json). scx_stats' derive describes it to
//! tools that do not know this scheduler.

use std::collections::BTreeMap;
use std::fmt;

use scx_stats_derive::Stats;
use serde::{Deserialize, Serialize};
use wakelab_machine::Distance;

/// Counts by name, without zeros. The structs spell the type out, because scx_stats' derive knows types by name only.
pub(crate) type Counts = BTreeMap<String, u64>;

/// The table of what the BPF side counts, for the macro `$with`: the name in JSON and in `--help-stats`, the field of
/// `struct cpu_stats` (bpf/stats.bpf.h), and what it counts. A new counter takes a line here, its field there, and a
/// property in docs/schema/stats.schema.json.
macro_rules! counters {
    ($with:ident) => {
        $with! {
            numbers {
                decisions = selects, "wake-ups and forks that the policy placed";
                decision_ns = select_ns, "time of all decisions; only with --stats";
                searches = searches, "decisions that searched past the target and the previous CPU";
                search_ns = search_ns, "time of these decisions; only with --stats";
                lost_claims = lost_claims, "idle CPUs that another wake-up took first";
                switches_in = switches_in, "times that a task began to run";
                migrations = migrations, "of these, times on another CPU than before";
                enqueues = enqueues, "times that a task was queued";
                preemptions = preempts, "wake-ups that preempted the running task";
                dispatches = dispatches, "times that a CPU asked for a task";
                pull_races = pull_races, "pulls that failed because another CPU took the task";
                rescued = rescued, "tasks moved on because they could not run where they were queued";
                throttled = throttled, "times that a task was put aside because its cgroup had used up cpu.max";
                global_queue = global, "tasks sent to the global queue because the policy's answer could not be used";
            }
            named {
                reasons = reason by Reason, "decisions by reason";
                wake_affine = affine_reason by AffineReason, "decisions by the answer of wake-affine";
                reads = select_reads by Distance, "reads of CPUs' state in all decisions, by distance; only with --stats";
                migrations_by_distance = moved by Distance, "migrations by distance; only with --stats";
                pulls_tried = pull_tries by BalanceWhy, "tries to pull, by the reason to balance";
                tasks_pulled = pulled by BalanceWhy, "tasks pulled, by the reason to balance";
            }
            times {
                searches_from_ns = search_times, "searches by time: from N ns to 2 N ns; only with --stats";
            }
            // Only --bench search counts and prints these.
            bench { timed timed_ns turned clock_ns }
        }
    };
}
pub(crate) use counters;

macro_rules! define_metrics {
    (
        numbers { $($number:ident = $number_field:ident, $number_desc:literal;)* }
        named { $($named:ident = $named_field:ident by $by:ident, $named_desc:literal;)* }
        times { $($times:ident = $times_field:ident, $times_desc:literal;)* }
        bench { $($bench:ident)* }
    ) => {
        /// Counts since the scheduler was attached; in a difference, those of its interval.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Stats)]
        #[stat(top, _om_prefix = "wakelab_", desc = "what scx_wakelab decided, and what came of it")]
        pub(crate) struct Metrics {
            #[stat(desc = "version of this structure")]
            pub(crate) schema_version: u64,
            #[stat(_om_skip, desc = "`stats`")]
            pub(crate) kind: String,
            #[stat(_om_skip, desc = "policy that schedules")]
            pub(crate) policy: String,
            #[stat(desc = "CPUs of the machine")]
            pub(crate) cpus: u64,
            #[stat(desc = "length of the interval of these counts")]
            pub(crate) interval_ns: u64,
            #[stat(desc = "1: everything was counted; 0: what only --stats counts is 0 or empty")]
            pub(crate) detailed: u64,
            $(#[stat(desc = $number_desc)] pub(crate) $number: u64,)*
            $(#[stat(desc = $named_desc)] pub(crate) $named: BTreeMap<String, u64>,)*
            $(#[stat(desc = $times_desc)] pub(crate) $times: BTreeMap<u64, u64>,)*
            #[stat(desc = "cgroups by path; only with --stats")]
            pub(crate) groups: BTreeMap<String, GroupMetrics>,
        }

        impl Metrics {
            /// Returns what was counted since `earlier`. A scheduler that was started again in between counts from 0.
            pub(crate) fn since(&self, earlier: &Metrics) -> Metrics {
                if self.interval_ns < earlier.interval_ns {
                    return self.clone();
                }
                Metrics {
                    interval_ns: self.interval_ns - earlier.interval_ns,
                    $($number: self.$number.saturating_sub(earlier.$number),)*
                    $($named: more(&self.$named, &earlier.$named),)*
                    $($times: more(&self.$times, &earlier.$times),)*
                    groups: self.groups_since(earlier),
                    ..self.clone()
                }
            }
        }
    };
}

counters!(define_metrics);

/// A cgroup with everything below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Stats)]
#[stat(
    _om_prefix = "wakelab_cgroup_",
    _om_label = "cgroup",
    desc = "what a cgroup received, and what it was entitled to"
)]
pub(crate) struct GroupMetrics {
    #[stat(desc = "cpu.weight, 1024 for 100")]
    pub(crate) shares: u64,
    #[stat(desc = "time of its tasks, running or waiting; sampled")]
    pub(crate) runnable_ns: u64,
    #[stat(desc = "CPU time due to it by the shares of all that was runnable; sampled")]
    pub(crate) entitled_ns: u64,
    #[stat(desc = "CPU time received, by its cpu.stat")]
    pub(crate) received_ns: u64,
}

/// Version of the JSON.
pub(crate) const SCHEMA_VERSION: u64 = 1;

impl Metrics {
    /// Returns the groups that ran or waited since `earlier`, with what they received in that time.
    fn groups_since(&self, earlier: &Metrics) -> BTreeMap<String, GroupMetrics> {
        self.groups
            .iter()
            .map(|(path, group)| (path.clone(), group.since(earlier.groups.get(path))))
            .filter(|(_, group)| group.runnable_ns + group.entitled_ns + group.received_ns > 0)
            .collect()
    }
}

impl GroupMetrics {
    fn since(&self, earlier: Option<&GroupMetrics>) -> GroupMetrics {
        let Some(earlier) = earlier else { return self.clone() };
        GroupMetrics {
            shares: self.shares,
            runnable_ns: self.runnable_ns.saturating_sub(earlier.runnable_ns),
            entitled_ns: self.entitled_ns.saturating_sub(earlier.entitled_ns),
            received_ns: self.received_ns.saturating_sub(earlier.received_ns),
        }
    }
}

fn more<K: Ord + Clone>(now: &BTreeMap<K, u64>, earlier: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    now.iter()
        .map(|(key, count)| (key.clone(), count.saturating_sub(earlier.get(key).copied().unwrap_or(0))))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// The mean, rounded to the nearest integer; 0 if there is nothing.
pub(crate) fn mean(sum: u64, n: u64) -> u64 {
    (sum + n / 2).checked_div(n).unwrap_or(0)
}

/// The table of `--stats`.
impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.interval_ns as f64 / 1e9;
        writeln!(f, "{}: {seconds:.1} s, {} CPUs", self.policy, self.cpus)?;
        let mean_ns = |sum, n| match self.detailed {
            0 => String::new(),
            _ => format!("  mean {} ns", mean(sum, n)),
        };
        writeln!(f, "decisions {}{}", self.decisions, mean_ns(self.decision_ns, self.decisions))?;
        line(f, "reason", by_count(&self.reasons))?;
        line(f, "wake-affine", by_count(&self.wake_affine))?;
        if self.detailed > 0 {
            let remote: u64 =
                self.reads.iter().filter(|(name, _)| *name != Distance::Cpu.name()).map(|(_, n)| n).sum();
            let a_decision = remote as f64 / self.decisions.max(1) as f64;
            line(f, &format!("remote reads {a_decision:.2} a decision"), by_distance(&self.reads))?;
        }
        writeln!(
            f,
            "searches {}{}  lost claims {}",
            self.searches,
            mean_ns(self.search_ns, self.searches),
            self.lost_claims
        )?;
        if self.detailed > 0 {
            let times = self.searches_from_ns.iter().map(|(from, count)| (format!("{from}.."), *count));
            line(f, "ns", times.collect())?;
        }
        writeln!(
            f,
            "switches in {}  migrations {}  enqueues {}  preemptions {}  dispatches {}",
            self.switches_in, self.migrations, self.enqueues, self.preemptions, self.dispatches
        )?;
        if self.detailed > 0 {
            line(f, "migrations", by_distance(&self.migrations_by_distance))?;
        }
        line(f, "pulls tried", by_count(&self.pulls_tried))?;
        line(f, "tasks pulled", by_count(&self.tasks_pulled))?;
        writeln!(
            f,
            "  lost races {}  rescued {}  throttled {}  global queue {}",
            self.pull_races, self.rescued, self.throttled, self.global_queue
        )?;
        if !self.groups.is_empty() {
            self.groups_table(f)?;
        }
        Ok(())
    }
}

impl Metrics {
    fn groups_table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.groups.keys().map(|path| path.chars().count()).max().unwrap_or(0).max(6);
        let percent = |ns: u64| 100.0 * ns as f64 / (self.interval_ns * self.cpus).max(1) as f64;
        writeln!(
            f,
            "{:<width$}  shares   tasks  entitled  received   (percent of all CPUs' time)",
            "cgroup"
        )?;
        for (path, group) in &self.groups {
            let tasks = group.runnable_ns as f64 / self.interval_ns.max(1) as f64;
            let (entitled, received) = (percent(group.entitled_ns), percent(group.received_ns));
            writeln!(
                f,
                "{path:<width$}  {:>6}  {tasks:>6.1}  {entitled:>8.2}  {received:>8.2}  {:>+6.2}",
                group.shares,
                received - entitled
            )?;
        }
        Ok(())
    }
}

/// Counts with the largest first; equal ones by name.
fn by_count(counts: &Counts) -> Vec<(String, u64)> {
    let mut sorted: Vec<(String, u64)> = counts.iter().map(|(name, n)| (name.clone(), *n)).collect();
    sorted.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    sorted
}

/// Counts with the nearest distance first.
fn by_distance(counts: &Counts) -> Vec<(String, u64)> {
    let named = Distance::ALL.iter().map(|distance| distance.name());
    named.filter_map(|name| counts.get(name).map(|n| (name.to_owned(), *n))).collect()
}

/// Writes ` title name number name number`.
fn line(f: &mut fmt::Formatter<'_>, title: &str, counts: Vec<(String, u64)>) -> fmt::Result {
    write!(f, "  {title}")?;
    for (name, count) in counts {
        write!(f, "  {name} {count}")?;
    }
    writeln!(f)
}

#[cfg(test)]
mod tests {
    use scx_stats::ToJson;

    use super::*;

    fn counts(of: &[(&str, u64)]) -> Counts {
        of.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect()
    }

    /// Two seconds of two CPUs.
    fn metrics() -> Metrics {
        Metrics {
            schema_version: SCHEMA_VERSION,
            kind: "stats".to_owned(),
            policy: "wakelab".to_owned(),
            cpus: 2,
            interval_ns: 2_000_000_000,
            detailed: 1,
            decisions: 8,
            decision_ns: 2004,
            reasons: counts(&[("idle-core", 3), ("target-idle", 5)]),
            wake_affine: counts(&[("prev", 8)]),
            reads: counts(&[("cpu", 8), ("smt", 2), ("numa1", 4)]),
            searches: 3,
            search_ns: 1500,
            searches_from_ns: [(256, 1), (512, 2)].into(),
            switches_in: 20,
            migrations: 4,
            migrations_by_distance: counts(&[("llc", 3), ("smt", 1)]),
            groups: [(
                "/a".to_owned(),
                GroupMetrics {
                    shares: 1024,
                    runnable_ns: 6_000_000_000,
                    entitled_ns: 1_000_000_000,
                    received_ns: 1_100_000_000,
                },
            )]
            .into(),
            ..Metrics::default()
        }
    }

    #[test]
    fn the_table_has_means_and_parts() {
        let text = metrics().to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "wakelab: 2.0 s, 2 CPUs");
        // 2004 / 8 = 250.5, and halves are rounded up.
        assert_eq!(lines[1], "decisions 8  mean 251 ns");
        assert_eq!(lines[2], "  reason  target-idle 5  idle-core 3");
        // (2 + 4) / 8 decisions; the nearest first.
        assert_eq!(lines[4], "  remote reads 0.75 a decision  cpu 8  smt 2  numa1 4");
        assert_eq!(lines[5], "searches 3  mean 500 ns  lost claims 0");
        assert_eq!(lines[6], "  ns  256.. 1  512.. 2");
        assert_eq!(lines[8], "  migrations  smt 1  llc 3");
        // Of 2 CPUs in 2 s: 1 s is 25 %, 1.1 s is 27.5 %; 6 s of tasks are three of them.
        assert_eq!(lines[13], "/a        1024     3.0     25.00     27.50   +2.50");
    }

    #[test]
    fn a_difference_has_what_was_counted_since() {
        let (earlier, mut now) = (metrics(), metrics());
        now.interval_ns += 1_000_000_000;
        now.decisions += 2;
        now.reasons.insert("prev-idle".to_owned(), 2);
        now.groups.get_mut("/a").unwrap().received_ns += 500_000_000;
        now.groups
            .insert("/b".to_owned(), GroupMetrics { shares: 512, runnable_ns: 7, ..Default::default() });
        let since = now.since(&earlier);
        assert_eq!((since.interval_ns, since.decisions, since.searches), (1_000_000_000, 2, 0));
        assert_eq!(since.reasons, counts(&[("prev-idle", 2)]));
        assert_eq!(since.groups["/a"].received_ns, 500_000_000);
        assert_eq!(since.groups["/b"].runnable_ns, 7);
        // A group with nothing new is not shown.
        assert!(!earlier.since(&earlier).groups.contains_key("/a"));
        // Started again: all of its counts are new.
        assert_eq!(earlier.since(&now), earlier);
    }

    #[test]
    fn without_details_nothing_is_claimed_about_them() {
        let text = Metrics { detailed: 0, groups: BTreeMap::new(), ..metrics() }.to_string();
        assert!(!text.contains("mean") && !text.contains("remote reads") && !text.contains("  ns"), "{text}");
    }

    #[test]
    fn the_schema_names_every_field() {
        let schema: serde_json::Value =
            serde_json::from_str(include_str!("../../../docs/schema/stats.schema.json")).unwrap();
        let keys = |value: &serde_json::Value| -> Vec<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        let json = metrics().to_json().unwrap();
        assert_eq!(keys(&schema["properties"]), keys(&json));
        assert_eq!(keys(&schema["$defs"]["group"]["properties"]), keys(&json["groups"]["/a"]));
        assert_eq!(schema["properties"]["schema_version"]["const"], SCHEMA_VERSION);
        let required = |value: &serde_json::Value| -> Vec<String> {
            let mut names: Vec<String> = serde_json::from_value(value["required"].clone()).unwrap();
            names.sort();
            names
        };
        assert_eq!(required(&schema), keys(&json));
        assert_eq!(required(&schema["$defs"]["group"]), keys(&json["groups"]["/a"]));
    }
}
