// SPDX-License-Identifier: GPL-2.0-or-later
//! The metrics of a run, in the order of the table.

use wakelab_stats::{Direction, Unit};

use crate::command::Usage;
use crate::counters::Counted;
use crate::runs::{MissingMetric, TrialMetric};

/// All that was measured of one run.
pub(crate) struct Measured {
    /// The number that the command printed, if `--metric` asks for one.
    pub(crate) metric: Option<f64>,
    pub(crate) elapsed_ns: u64,
    pub(crate) usage: Usage,
    pub(crate) counted: Counted,
    /// Number of processes that the command left running; they were ended after the run.
    pub(crate) left_running: usize,
}

struct Definition {
    name: &'static str,
    label: &'static str,
    unit: Unit,
    direction: Direction,
    value: fn(&Measured) -> Option<f64>,
}

const fn define(
    name: &'static str,
    label: &'static str,
    unit: Unit,
    direction: Direction,
    value: fn(&Measured) -> Option<f64>,
) -> Definition {
    Definition { name, label, unit, direction, value }
}

/// All metrics except the number that the command prints. Less wall time, CPU time and wait for CPUs is better; the
/// other metrics explain these.
const DEFINITIONS: [Definition; 15] = [
    define("wall_time_ns", "wall time", Unit::Ns, Direction::Lower, |run| Some(run.elapsed_ns as f64)),
    define("cpu_time_ns", "CPU time", Unit::Ns, Direction::Lower, |run| {
        Some((run.usage.user_ns + run.usage.system_ns) as f64)
    }),
    define("cpu_time_user_ns", "  user", Unit::Ns, Direction::Neutral, |run| Some(run.usage.user_ns as f64)),
    define("cpu_time_system_ns", "  system", Unit::Ns, Direction::Neutral, |run| {
        Some(run.usage.system_ns as f64)
    }),
    define("context_switches", "context switches", Unit::Count, Direction::Neutral, |run| {
        Some((run.usage.voluntary + run.usage.involuntary) as f64)
    }),
    define("context_switches_voluntary", "  voluntary", Unit::Count, Direction::Neutral, |run| {
        Some(run.usage.voluntary as f64)
    }),
    define("context_switches_involuntary", "  involuntary", Unit::Count, Direction::Neutral, |run| {
        Some(run.usage.involuntary as f64)
    }),
    define("migrations", "migrations", Unit::Count, Direction::Neutral, |run| run.counted.migrations),
    define("wakeups", "wake-ups", Unit::Count, Direction::Neutral, |run| run.counted.wakeups),
    define("runqueue_wait_ns", "runqueue wait", Unit::Ns, Direction::Lower, |run| {
        run.counted.runqueue_wait_ns
    }),
    define("runqueue_wait_per_switch_ns", "  per switch", Unit::Ns, Direction::Lower, |run| {
        let counted = &run.counted;
        Some(counted.runqueue_wait_ns? / counted.runqueue_switches.filter(|&switches| switches > 0.0)?)
    }),
    define("cycles", "cycles", Unit::Count, Direction::Neutral, |run| run.counted.cycles),
    define("instructions", "instructions", Unit::Count, Direction::Neutral, |run| run.counted.instructions),
    define("cache_references", "cache references", Unit::Count, Direction::Neutral, |run| {
        run.counted.cache_references
    }),
    define("cache_misses", "cache misses", Unit::Count, Direction::Neutral, |run| run.counted.cache_misses),
];

/// Returns the metrics of `blocks[block][side]`, without those that are missing.
pub(crate) fn metrics(
    blocks: &[Vec<Measured>],
    own: Option<Direction>,
    missing: &[MissingMetric],
) -> Vec<TrialMetric> {
    let sides = blocks.first().map_or(0, Vec::len);
    let values = |value: &dyn Fn(&Measured) -> Option<f64>| -> Vec<Vec<Option<f64>>> {
        (0..sides).map(|side| blocks.iter().map(|block| value(&block[side])).collect()).collect()
    };
    let own = own.map(|direction| TrialMetric {
        name: "metric",
        label: "metric",
        unit: Unit::Plain,
        direction,
        values: values(&|run| run.metric),
    });
    let is_missing = |definition: &&Definition| {
        // A part is missing with its whole.
        !missing.iter().any(|missing| definition.name.starts_with(missing.name.trim_end_matches("_ns")))
    };
    let others = DEFINITIONS.iter().filter(is_missing).map(|definition| TrialMetric {
        name: definition.name,
        label: definition.label,
        unit: definition.unit,
        direction: definition.direction,
        values: values(&definition.value),
    });
    own.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_in_the_glossary() {
        let glossary = include_str!("../../../docs/guide/glossary.md");
        let explains = |label: &str| glossary.contains(&format!("**{}**", label.trim()));
        let missing: Vec<&str> =
            DEFINITIONS.iter().map(|definition| definition.label).filter(|label| !explains(label)).collect();
        assert_eq!(missing, Vec::<&str>::new(), "not in docs/guide/glossary.md");
    }
}
