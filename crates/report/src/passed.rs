// SPDX-License-Identifier: GPL-2.0-or-later
//! Whose waiting matters: what the judged tasks depended on while they were blocked. A task that waits for an
//! answer pays for the waiting of the task that gives it ([`wakelab_sim::Passed`]).
//!
//! The rows of the first table add up: work, waiting and outside to the time blocked, and causes to the waiting.

use std::collections::BTreeMap;

use wakelab_machine::printable;
use wakelab_sim::{Outcome, Passed, Waits};
use wakelab_stats::Direction;

use crate::comparison::{Comparison, MetricResult};
use crate::grid::Grid;
use crate::table::metric_grid;
use crate::waiting::{CARRIES_MIN, CHANGE_MIN, Kind, words_of_ns};

/// The number of names that are shown.
const NAMES_SHOWN: usize = 5;

/// The label of the whole.
pub(crate) const BLOCKED: &str = "blocked";
/// The labels of its parts, and their names in JSON.
pub(crate) const PARTS: [(&str, &str); 3] = [
    ("blocked_work_ns", "  on work of others"),
    ("blocked_outside_ns", "  on timers, devices, outside"),
    ("blocked_waiting_ns", "  on waiting of others"),
];

fn passed(outcome: &Outcome) -> Option<&Passed> {
    Some(&outcome.waits.as_ref()?.passed)
}

/// The time that blocked tasks of a run paid for causes of one kind.
fn kind_ns(waits: &Waits, kind: Kind) -> u64 {
    let causes = waits.passed.causes.iter();
    causes.filter(|(cause, _)| Kind::of(*cause, &waits.who) == kind).map(|(_, ns)| ns).sum()
}

/// The waiting of the tasks of one name that blocked tasks of a run paid for.
fn waiting_of_ns(outcome: &Outcome, name: &str) -> Option<f64> {
    let waits = outcome.waits.as_ref()?;
    let of_name = waits.passed.by_who.iter().filter(|(who, _)| waits.who[*who as usize].name == name);
    Some(of_name.map(|(_, ns)| ns).sum::<u64>() as f64)
}

impl Comparison<'_> {
    /// Returns how long tasks were blocked, its parts, and the causes of the waiting that they paid for; nothing if
    /// the runs did not account for it.
    pub(crate) fn blocked(&self) -> Vec<MetricResult> {
        let part = |name: &str, label: &str, direction, ns: &dyn Fn(&Passed) -> u64| {
            self.waiting_metric(name.to_owned(), label.to_owned(), direction, |outcome| {
                passed(outcome).map(|passed| ns(passed) as f64)
            })
        };
        let of: [fn(&Passed) -> u64; 3] = [|p| p.work_ns, |p| p.outside_ns, |p| p.waiting_ns];
        let mut all = vec![part("blocked_ns", BLOCKED, Direction::Neutral, &Passed::blocked_ns)];
        for ((name, label), ns) in PARTS.into_iter().zip(of) {
            all.push(part(name, label, Direction::Neutral, &ns));
        }
        let service = self.has_others();
        for kind in Kind::ALL {
            let (name, label) =
                (format!("blocked_{}_ns", kind.name()), format!("    {}", kind.label(service)));
            all.push(self.waiting_metric(name, label, Direction::Neutral, |outcome| {
                outcome.waits.as_ref().map(|waits| kind_ns(waits, kind) as f64)
            }));
        }
        all.retain(|metric| metric.policies.iter().any(|policy| policy.mean.is_some()));
        all
    }

    /// Returns the table of what blocked tasks depended on; no rows without accounts, or if none was blocked.
    pub(crate) fn blocked_grid(&self) -> Grid {
        let title = match self.has_others() {
            true => "What the service depended on while it was blocked, a run",
            false => "What tasks depended on while they were blocked, a run",
        };
        let found = self.blocked();
        let is_blocked = |metric: &&MetricResult| metric.policies.iter().any(|p| p.mean > Some(0.0));
        let rows: Vec<MetricResult> = match found.first().filter(is_blocked) {
            Some(_) => found.clone(),
            None => Vec::new(),
        };
        Grid { title, ..metric_grid(&rows, self.heads()) }
    }

    /// Returns whose waiting was paid for most under any of the policies.
    pub(crate) fn waiting_of_grid(&self) -> Grid {
        let mut metrics: Vec<MetricResult> =
            self.names_of_waits().into_iter().map(|name| self.waiting_of(&name)).collect();
        let largest =
            |metric: &MetricResult| metric.policies.iter().filter_map(|p| p.mean).fold(0.0, f64::max);
        metrics.retain(|metric| largest(metric) > 0.0);
        metrics.sort_by(|a, b| largest(b).total_cmp(&largest(a)).then_with(|| a.label.cmp(&b.label)));
        metrics.truncate(NAMES_SHOWN);
        Grid { title: "Whose waiting that was, a run", ..metric_grid(&metrics, self.heads()) }
    }

    fn waiting_of(&self, name: &str) -> MetricResult {
        let label = format!("of {}", printable(name));
        self.waiting_metric(String::new(), label, Direction::Neutral, |outcome| waiting_of_ns(outcome, name))
    }

    /// Returns whose waiting the judged tasks paid for under a policy, and how much in a run, by name.
    pub(crate) fn waiting_of_names(&self, policy: usize) -> BTreeMap<String, u64> {
        let names = self.names_of_waits().into_iter();
        let of = |name: String| {
            let ns = self.waiting_of(&name).policies[policy].mean?;
            (ns > 0.0).then_some((name, ns.round() as u64))
        };
        names.filter_map(of).collect()
    }

    /// Returns how the waiting changed that blocked tasks paid for, and whose it is; `None` if it hardly changed.
    pub fn blocked_sentence(&self, policy: usize) -> Option<String> {
        let all = self.blocked();
        let whole = all.iter().find(|metric| metric.name == PARTS[2].0)?;
        let [from, to] = [whole.policies[0].mean?, whole.policies[policy].mean?];
        let gain = &whole.policies[policy].gain;
        let is_beyond = gain.ci_percent.is_none_or(|[low, high]| low > 0.0 || high < 0.0);
        if !is_beyond || (to - from).abs() < CHANGE_MIN * from.max(to) {
            return None;
        }
        let changes = self.names_of_waits().into_iter().filter_map(|name| {
            let found = self.waiting_of(&name);
            Some((found.policies[policy].mean? - found.policies[0].mean?, name))
        });
        let (change, name) = changes.max_by(|a, b| (a.0 / (to - from)).total_cmp(&(b.0 / (to - from))))?;
        let whose = if self.has_others() { "the service" } else { "tasks" };
        let [from_words, to_words] = [from, to].map(words_of_ns);
        let share = change / (to - from);
        let most = match share {
            all if all >= 0.995 => format!("; all of the change is waiting of {}", printable(&name)),
            part if part >= CARRIES_MIN => {
                format!("; {:.0} % of the change is waiting of {}", part * 100.0, printable(&name))
            }
            _ => String::new(),
        };
        Some(format!(
            "While {whose} waited for others' answers, these were runnable and did not run for {to_words} instead of \
             {from_words} a run{most}."
        ))
    }
}
