// SPDX-License-Identifier: GPL-2.0-or-later
//! The service by task name, as `perf sched latency` has it: when the last task of a name was done, its CPU time, and
//! how long its tasks waited. Only the names with the most CPU time are shown; the JSON has all.

use wakelab_machine::printable;
use wakelab_sim::{NameOutcome, Outcome};
use wakelab_stats::{Direction, Unit};

use crate::comparison::{Comparison, MetricResult, over_the_first};
use crate::grid::Grid;
use crate::percentile::percentile_ns;
use crate::table::metric_grid;

/// The number of names that a page shows.
const NAMES_SHOWN: usize = 3;

/// A figure of the tasks of one name, in nanoseconds.
type Figure = fn(&NameOutcome) -> Option<u64>;

const FIGURES: [(&str, Direction, Figure); 5] = [
    ("done after", Direction::Lower, |name| name.done_ns),
    ("CPU time", Direction::Neutral, |name| Some(name.cpu_time_ns)),
    ("wake-up latency p50", Direction::Lower, |name| percentile_ns(&name.wakeup_latency, 500)),
    ("wake-up latency p99", Direction::Lower, |name| percentile_ns(&name.wakeup_latency, 990)),
    ("run delay p99", Direction::Lower, |name| percentile_ns(&name.run_delay, 990)),
];

impl Comparison<'_> {
    /// Rows for each of the largest names; none without a service.
    pub(crate) fn service_grid(&self) -> Grid {
        let metrics: Vec<MetricResult> = self
            .names_by_cpu_time()
            .into_iter()
            .take(NAMES_SHOWN)
            .flat_map(|name| FIGURES.map(|figure| self.figure(name, figure)))
            .filter(|metric| metric.policies.iter().any(|policy| policy.mean.is_some()))
            .collect();
        Grid { title: "The service by task name", ..metric_grid(&metrics, self.heads()) }
    }

    /// Returns the names of the judged tasks by CPU time under the first policy with the first seed, the largest first.
    pub(crate) fn names_by_cpu_time(&self) -> Vec<&str> {
        let Some(first) = self.policies[0].outcomes.first() else { return Vec::new() };
        let mut names: Vec<&NameOutcome> = first.by_name.iter().collect();
        names.sort_by(|a, b| b.cpu_time_ns.cmp(&a.cpu_time_ns).then_with(|| a.name.cmp(&b.name)));
        names.into_iter().map(|name| name.name.as_str()).collect()
    }

    fn figure(&self, name: &str, (label, direction, figure): (&str, Direction, Figure)) -> MetricResult {
        let value = |outcome: &Outcome| {
            let of_name = outcome.by_name.iter().find(|known| known.name == name)?;
            figure(of_name).map(|ns| ns as f64)
        };
        // How far replays are off by name is not known here.
        let may_mark = self.replay_errors.is_none() && self.is_complete();
        let values = self.policies.iter().map(|policy| policy.outcomes.iter().map(value).collect()).collect();
        MetricResult {
            name: String::new(),
            label: format!("{} {label}", printable(name)),
            unit: Unit::Ns,
            direction,
            policies: over_the_first(values, direction, may_mark),
        }
    }
}
