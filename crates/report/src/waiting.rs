// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the waiting went: the time in which the judged tasks were runnable and did not run, by what they waited for.
//!
//! The causes add up to the whole ([`wakelab_sim::Waits`]). *Idle CPU elsewhere* is another view of the same time, and
//! a part of it. Runs that were made without these books have no table.

use wakelab_machine::printable;
use wakelab_sim::{Cause, Outcome, Waits, Who};
use wakelab_stats::{Direction, Unit};

use crate::comparison::{Comparison, MetricResult, over_the_first};
use crate::grid::Grid;
use crate::table::metric_grid;

/// The number of names of the table of those that others waited behind.
const NAMES_SHOWN: usize = 5;
/// The share of a change that its largest cause must have to be told, and the change that must be exceeded.
pub(crate) const CARRIES_MIN: f64 = 0.5;
pub(crate) const CHANGE_MIN: f64 = 0.05;

/// A kind of cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Own,
    Others,
    KernelThreads,
    Interrupts,
    IdleExit,
    Throttled,
    WakeUp,
    Schedule,
}

impl Kind {
    pub(crate) const ALL: [Kind; 8] = [
        Kind::Own,
        Kind::Others,
        Kind::KernelThreads,
        Kind::Interrupts,
        Kind::IdleExit,
        Kind::Throttled,
        Kind::WakeUp,
        Kind::Schedule,
    ];

    /// The kind of a cause, for judged tasks.
    pub(crate) fn of(cause: Cause, who: &[Who]) -> Kind {
        match cause {
            Cause::Behind(other) => match &who[other as usize] {
                Who { judged: true, .. } => Kind::Own,
                Who { name, .. } if wakelab_trace::is_kernel_thread(name) => Kind::KernelThreads,
                _ => Kind::Others,
            },
            Cause::Interrupt => Kind::Interrupts,
            Cause::IdleExit => Kind::IdleExit,
            Cause::Throttled => Kind::Throttled,
            Cause::WakeUp => Kind::WakeUp,
            Cause::Schedule => Kind::Schedule,
        }
    }

    /// The name in JSON, without its unit.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Own => "waiting_own",
            Kind::Others => "waiting_others",
            Kind::KernelThreads => "waiting_kernel_threads",
            Kind::Interrupts => "waiting_interrupts",
            Kind::IdleExit => "waiting_idle_exit",
            Kind::Throttled => "waiting_throttled",
            Kind::WakeUp => "waiting_wakeup",
            Kind::Schedule => "waiting_schedule",
        }
    }

    /// The row of a table; `service`: some tasks are judged and others are not.
    pub(crate) fn label(self, service: bool) -> &'static str {
        match self {
            Kind::Own if service => "behind the service itself",
            Kind::Own => "behind other tasks",
            Kind::Others => "behind others' tasks",
            Kind::KernelThreads => "behind kernel threads",
            Kind::Interrupts => "for timers, devices and ticks",
            Kind::IdleExit => "for an idle exit",
            Kind::Throttled => "for a quota",
            Kind::WakeUp => "for the wake-up itself",
            Kind::Schedule => "for notification, schedule()",
        }
    }
}

/// The label of the whole.
pub(crate) const WAITING: &str = "waiting";
/// The label of the other view.
pub(crate) const IDLE_ELSEWHERE: &str = "idle CPU elsewhere";

/// The sum in nanoseconds of the waits of the judged tasks that a filter takes.
fn sum_ns(outcome: &Outcome, takes: impl Fn(Cause, &Waits) -> bool) -> Option<f64> {
    let waits = outcome.waits.as_ref()?;
    let causes = waits.by_name.iter().flat_map(|name| &name.causes);
    Some(causes.filter(|(cause, _)| takes(*cause, waits)).map(|(_, ns)| ns).sum::<u64>() as f64)
}

fn kind_ns(outcome: &Outcome, kind: Kind) -> Option<f64> {
    sum_ns(outcome, |cause, waits| Kind::of(cause, &waits.who) == kind)
}

fn idle_elsewhere_ns(outcome: &Outcome) -> Option<f64> {
    let names = &outcome.waits.as_ref()?.by_name;
    Some(names.iter().map(|name| name.idle_elsewhere_ns).sum::<u64>() as f64)
}

impl Comparison<'_> {
    /// Returns the whole waiting, its causes, and the other view; nothing if the runs did not account for it.
    pub(crate) fn waiting(&self) -> Vec<MetricResult> {
        let service = self.has_others();
        let whole = self.waiting_metric("waiting_ns".into(), WAITING.into(), Direction::Lower, |outcome| {
            sum_ns(outcome, |_, _| true)
        });
        let mut all = vec![whole];
        for kind in Kind::ALL {
            let (name, label) = (format!("{}_ns", kind.name()), format!("  {}", kind.label(service)));
            all.push(self.waiting_metric(name, label, Direction::Neutral, |outcome| kind_ns(outcome, kind)));
        }
        let name = "waiting_idle_elsewhere_ns".to_owned();
        all.push(self.waiting_metric(name, IDLE_ELSEWHERE.into(), Direction::Neutral, idle_elsewhere_ns));
        all.retain(|metric| metric.policies.iter().any(|policy| policy.mean.is_some()));
        all
    }

    pub(crate) fn waiting_metric(
        &self,
        name: String,
        label: String,
        direction: Direction,
        value: impl Fn(&Outcome) -> Option<f64>,
    ) -> MetricResult {
        let values: Vec<Vec<Option<f64>>> =
            self.policies.iter().map(|policy| policy.outcomes.iter().map(&value).collect()).collect();
        // How far replays are off in this is not known.
        let may_mark = self.replay_errors.is_none() && self.is_complete();
        let policies = over_the_first(values, direction, may_mark);
        MetricResult { name, label, unit: Unit::Ns, direction, policies }
    }

    /// Whether some tasks are judged and others are not.
    pub(crate) fn has_others(&self) -> bool {
        let tasks = &self.scenarios[0].workload.tasks;
        tasks.iter().any(|task| task.judged) && tasks.iter().any(|task| !task.judged)
    }

    /// Returns the table of causes; no rows without accounts.
    pub(crate) fn waiting_grid(&self) -> Grid {
        let title = match self.has_others() {
            true => "Where the waiting of the service went, a run",
            false => "Where the waiting went, a run",
        };
        Grid { title, ..metric_grid(&self.waiting(), self.heads()) }
    }

    /// Returns behind which names the judged tasks waited longest under any of the policies.
    pub(crate) fn behind_grid(&self) -> Grid {
        let mut metrics: Vec<MetricResult> =
            self.names_of_waits().into_iter().map(|name| self.behind(&name)).collect();
        let largest = |metric: &MetricResult| {
            metric.policies.iter().filter_map(|policy| policy.mean).fold(0.0, f64::max)
        };
        metrics.retain(|metric| largest(metric) > 0.0);
        metrics.sort_by(|a, b| largest(b).total_cmp(&largest(a)).then_with(|| a.label.cmp(&b.label)));
        metrics.truncate(NAMES_SHOWN);
        Grid { title: "Behind whom they waited, a run", ..metric_grid(&metrics, self.heads()) }
    }

    /// Returns all names of tasks, if the runs accounted for waits.
    pub(crate) fn names_of_waits(&self) -> Vec<String> {
        let first = self.policies[0].outcomes.first().and_then(|outcome| outcome.waits.as_ref());
        let mut names: Vec<String> =
            first.map(|waits| waits.who.iter().map(|who| who.name.clone()).collect()).unwrap_or_default();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn behind(&self, name: &str) -> MetricResult {
        let label = format!("behind {}", printable(name));
        self.waiting_metric(String::new(), label, Direction::Neutral, |outcome| {
            sum_ns(outcome, |cause, waits| match cause {
                Cause::Behind(other) => waits.who[other as usize].name == name,
                _ => false,
            })
        })
    }

    /// Returns behind which names the judged tasks of a policy waited, and for how long in a run, by name.
    pub(crate) fn behind_ns(&self, policy: usize) -> Vec<(String, f64)> {
        let names = self.names_of_waits().into_iter();
        let of = |name: String| {
            let ns = self.behind(&name).policies[policy].mean?;
            (ns > 0.0).then_some((name, ns))
        };
        names.filter_map(of).collect()
    }

    /// Returns the sentence of the verdict on waiting: how much it changed, and which cause has most of the change.
    /// `None` if it hardly changed, or if no cause has.
    pub(crate) fn waiting_sentence(&self, policy: usize) -> Option<String> {
        let all = self.waiting();
        let (whole, rest) = all.split_first()?;
        let change = |metric: &MetricResult| {
            Some([metric.policies[0].mean?, metric.policies[policy].mean?]).map(|[from, to]| to - from)
        };
        let [from, to] = [whole.policies[0].mean?, whole.policies[policy].mean?];
        let gain = &whole.policies[policy].gain;
        let is_beyond = gain.ci_percent.is_none_or(|[low, high]| low > 0.0 || high < 0.0);
        if !is_beyond || (to - from).abs() < CHANGE_MIN * from.max(to) {
            return None;
        }
        let causes = rest.iter().filter(|metric| metric.label != IDLE_ELSEWHERE);
        let share = |metric: &MetricResult| change(metric).map(|change| change / (to - from));
        let shares: Vec<(f64, &MetricResult)> =
            causes.filter_map(|metric| Some((share(metric)?, metric))).collect();
        let (largest, metric) = shares.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        if largest < CARRIES_MIN {
            return None;
        }
        let whose = if self.has_others() { "The service waited" } else { "Tasks waited" };
        let way = if to > from { "longer" } else { "less long" };
        let elsewhere = rest.iter().find(|metric| metric.label == IDLE_ELSEWHERE);
        let beside = elsewhere
            .and_then(share)
            .filter(|share| *share >= CARRIES_MIN)
            .map_or("", |_| ", most of it while a CPU stood idle elsewhere");
        let part = if largest >= 0.995 { "all".to_owned() } else { format!("{:.0} %", largest * 100.0) };
        let [from, to] = [from, to].map(words_of_ns);
        let cause = metric.label.trim();
        Some(format!(
            "{whose} {way} in all, {to} instead of {from} a run; {part} of the change is waiting {cause}{beside}."
        ))
    }
}

/// Returns a time with a unit that fits.
pub(crate) fn words_of_ns(ns: f64) -> String {
    let (divisor, unit) = match ns.abs() {
        ns if ns >= 1e9 => (1e9, "s"),
        ns if ns >= 1e6 => (1e6, "ms"),
        ns if ns >= 1e3 => (1e3, "us"),
        _ => (1.0, "ns"),
    };
    let value = ns / divisor;
    let decimals = match value.abs() {
        _ if divisor == 1.0 => 0,
        value if value >= 100.0 => 1,
        value if value >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$} {unit}")
}
