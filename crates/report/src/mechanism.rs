// SPDX-License-Identifier: GPL-2.0-or-later
//! What changed between the two policies of an experiment's cases: where the time went, why CPUs were chosen, what was
//! read, and how far tasks migrated. Only the largest changes are kept, the largest first.

use wakelab_machine::Distance;
use wakelab_sim::{Outcome, TimeKind};

use crate::experiment::CaseRuns;
use crate::grid::{Cell, Grid, Row};
use crate::metric::{migration_label, percent};
use wakelab_stats::mean;

/// A kind of fact that may change between two policies.
struct Topic {
    title: &'static str,
    unit: &'static str,
    /// What a value is of, in words that follow it.
    of: &'static str,
    /// Maximum number of its facts that are shown.
    facts_max: usize,
    /// Smaller changes are not shown.
    change_min: f64,
    facts: fn(&Outcome) -> Vec<(String, f64)>,
}

const TOPICS: [Topic; 5] = [
    Topic {
        title: "Where the time went, in percent of all CPU time",
        unit: "%",
        of: "% of all CPU time",
        facts_max: 7,
        change_min: 0.05,
        facts: times,
    },
    Topic {
        title: "Why each CPU was chosen, in percent of placement decisions",
        unit: "%",
        of: "% of placement decisions",
        facts_max: 6,
        change_min: 0.05,
        facts: |outcome| shares(&outcome.reasons),
    },
    Topic {
        title: "Why each search began where it did (wake-affine), in percent",
        unit: "%",
        of: "% of wake-affine's decisions",
        facts_max: 4,
        change_min: 0.05,
        facts: |outcome| shares(&outcome.affine_reasons),
    },
    Topic {
        title: "Reads of other CPUs' state by placement decisions, each",
        unit: "",
        of: "reads a placement decision",
        facts_max: 4,
        change_min: 0.01,
        facts: reads,
    },
    Topic {
        title: "Migrations, per 100 switches to a task",
        unit: "",
        of: "migrations per 100 switches",
        facts_max: 5,
        change_min: 0.05,
        facts: migrations,
    },
];

/// The means over the seeds, before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Change {
    before: f64,
    after: f64,
}

impl Change {
    fn size(self) -> f64 {
        (self.after - self.before).abs()
    }
}

/// One fact: its name and its change in each case.
type Fact = (String, Vec<Change>);

/// Returns a table for each topic in which anything changed, with a column for each case.
pub(crate) fn change_grids(cases: &[(&str, &CaseRuns<'_>)]) -> Vec<Grid> {
    let runs: Vec<&CaseRuns<'_>> = cases.iter().map(|(_, case)| *case).collect();
    TOPICS
        .iter()
        .map(|topic| Grid {
            title: topic.title,
            heads: cases.iter().map(|(head, _)| (*head).to_owned()).collect(),
            rows: topic.changes(&runs).into_iter().map(|fact| row(topic, fact)).collect(),
        })
        .filter(|grid| !grid.rows.is_empty())
        .collect()
}

/// Returns the largest changes of one case as part of a sentence; empty if nothing changed.
pub(crate) fn change_words(case: &CaseRuns<'_>) -> String {
    let of = |topic: &Topic| {
        let facts = topic.changes(&[case]);
        let words = |(name, changes): &Fact| {
            let [before, after] = [changes[0].before, changes[0].after].map(short);
            format!("{} {before} to {after}", name.trim())
        };
        let words: Vec<String> = facts.iter().take(3).map(words).collect();
        (!words.is_empty()).then(|| format!("{} ({})", words.join(", "), topic.of))
    };
    TOPICS.iter().filter_map(of).collect::<Vec<_>>().join("; ")
}

fn row(topic: &Topic, (name, changes): Fact) -> Row {
    let cell = |change: &Change| Cell {
        text: format!("{} -> {}", short(change.before), short(change.after)),
        color: None,
    };
    (name, topic.unit, changes.iter().map(cell).collect())
}

fn short(value: f64) -> String {
    format!("{value:.2}")
}

impl Topic {
    /// Returns what changed in any of the cases, the largest change first.
    fn changes(&self, cases: &[&CaseRuns<'_>]) -> Vec<Fact> {
        let mut facts: Vec<Fact> = Vec::new();
        for (column, case) in cases.iter().enumerate() {
            for side in 0..2 {
                for (name, value) in self.means(&case.outcomes[side]) {
                    let at = facts.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                        facts.push((name, vec![Change::default(); cases.len()]));
                        facts.len() - 1
                    });
                    let change = &mut facts[at].1[column];
                    *(if side == 0 { &mut change.before } else { &mut change.after }) = value;
                }
            }
        }
        let largest = |fact: &Fact| fact.1.iter().map(|change| change.size()).fold(0.0, f64::max);
        facts.retain(|fact| largest(fact) >= self.change_min);
        // Stable: facts of the same size stay in their topic's order.
        facts.sort_by(|a, b| largest(b).total_cmp(&largest(a)));
        facts.truncate(self.facts_max);
        facts
    }

    /// Returns the mean of each fact over the runs. A run that lacks a fact counts as 0.
    fn means(&self, outcomes: &[Outcome]) -> Vec<(String, f64)> {
        let mut all: Vec<(String, Vec<f64>)> = Vec::new();
        for (run, outcome) in outcomes.iter().enumerate() {
            for (name, value) in (self.facts)(outcome) {
                let at = all.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                    all.push((name, vec![0.0; outcomes.len()]));
                    all.len() - 1
                });
                all[at].1[run] = value;
            }
        }
        all.into_iter().map(|(name, values)| (name, mean(&values))).collect()
    }
}

fn times(outcome: &Outcome) -> Vec<(String, f64)> {
    let total = outcome.time.total_ns();
    let share = |kind: TimeKind| Some((kind.label().to_owned(), percent(outcome.time.ns(kind), total)?));
    TimeKind::ALL.into_iter().filter_map(share).collect()
}

fn shares(counts: &std::collections::BTreeMap<String, u64>) -> Vec<(String, f64)> {
    let total = counts.values().sum();
    counts.iter().filter_map(|(name, count)| Some((name.clone(), percent(*count, total)?))).collect()
}

fn reads(outcome: &Outcome) -> Vec<(String, f64)> {
    let selects = outcome.counts.selects;
    let of = |distance: Distance| {
        let reads = outcome.select_reads[distance.index()];
        (selects > 0).then(|| (format!("at {}", distance.name()), reads as f64 / selects as f64))
    };
    Distance::ALL.into_iter().filter_map(of).collect()
}

fn migrations(outcome: &Outcome) -> Vec<(String, f64)> {
    let of = |distance: Distance| {
        let moved = outcome.migrations[distance.index()];
        Some((migration_label(distance).to_owned(), percent(moved, outcome.counts.switches_in)?))
    };
    Distance::ALL.into_iter().filter(|distance| *distance != Distance::Cpu).filter_map(of).collect()
}
