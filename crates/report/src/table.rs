// SPDX-License-Identifier: GPL-2.0-or-later
//! The comparison for people, in the manner of mmtests' compare-kernels: a row for each metric, a column for each
//! policy, the first policy as the baseline. Gains stand in round brackets, with a star where they matter; changes that
//! are neither good nor bad stand in square brackets. Further tables show what each task group received, where the time
//! went, and why each CPU was chosen.
//!
//! If the columns are wider than the page, the table is cut into several, each with the baseline first.

use wakelab_machine::{Machine, printable};
use wakelab_sim::{Ending, HostProfile, TimeKind};
use wakelab_stats::{Direction, Gain, Unit, mean};

use crate::comparison::{Comparison, MetricOfPolicy, MetricResult, PolicyResult};
use crate::gain_text::{gain_words, is_same_for_every_seed, percent_words, points_words};
use crate::grid::{Cell, Grid, Row};
use crate::replay_error::ReplayedOn;
use crate::slowest::slowest_text;
use crate::style::{GAIN, LOSS, Style, paint};
use crate::verdict::{Verdict, exceeds_spread};

/// Number of task groups that a page shows; the JSON has all.
const GROUPS_SHOWN: usize = 24;

/// Changes by more percent than this are shown on a short page, even if they are neither better nor worse.
const MOVED_PERCENT: f64 = 10.0;

/// One of the lists of shares of a policy.
type SharesOf = for<'a> fn(&'a PolicyResult<'_>) -> &'a [(String, f64)];

/// Says how a run with this limit ended, if it did not complete.
pub(crate) fn ending_words(ending: &Ending, limit_ns: u64) -> Option<String> {
    match ending {
        Ending::Completed => None,
        Ending::LimitReached => Some(format!("did not end within {}", duration(limit_ns))),
        Ending::Deadlock { waiting } => Some(format!("ended in a deadlock, {waiting} tasks waiting")),
    }
}

impl Comparison<'_> {
    /// Returns the verdicts and all tables as text, ending in a newline.
    pub fn text(&self, style: &Style) -> String {
        self.layout(style, true)
    }

    /// Returns the same without the rows that did not move, and without the tables that explain them. With one column
    /// nothing can move, so that all is there.
    pub fn text_of_moved(&self, style: &Style) -> String {
        self.layout(style, (1..self.policies.len()).all(|policy| self.repeats_first(policy)))
    }

    fn layout(&self, style: &Style, all: bool) -> String {
        let mut out = style.wrap(&self.title());
        for warning in self.endings() {
            out.push_str(&paint(style, LOSS, style.wrap(&format!("!! {warning}")).trim_end()));
            out.push('\n');
        }
        let columns = self.columns_shown();
        out.push_str(&self.verdict_text(style));
        let rows = self.rows(all);
        if columns.len() > 1 {
            out.push_str(&reading_key(style, self.seeds.len(), "seed", &rows));
        }
        out.push_str(&self.results(&rows, &columns, style));
        let uncertainty = self.uncertainty_text(&rows, &columns, style);
        if !uncertainty.is_empty() {
            out.push('\n');
            out.push_str(&uncertainty);
        }
        let waits = [self.waiting_grid(), self.behind_grid(), self.blocked_grid(), self.waiting_of_grid()];
        let explaining = waits.into_iter().chain([self.time_grid(), self.reason_grid(), self.affine_grid()]);
        let grids = [self.service_grid(), self.group_grid()];
        for grid in grids.into_iter().chain(explaining.filter(|_| all)) {
            if !grid.rows.is_empty() {
                out.push('\n');
                out.push_str(&grid.with_columns(&columns).text(style));
            }
        }
        for policy in &self.policies {
            for outcome in policy.outcomes {
                let Some(waits) = &outcome.waits else { continue };
                let title =
                    format!("The longest waits under {}, seed {}", printable(&policy.name), outcome.seed);
                let waits = slowest_text(&title, waits, style);
                if !waits.is_empty() {
                    out.push('\n');
                    out.push_str(&waits);
                }
            }
        }
        if !all {
            let left_out = self.rows(true).len() - rows.len();
            out.push('\n');
            out.push_str(&style.wrap(&format!(
                "--all shows {left_out} more rows, where time and waiting went, and why each CPU was chosen"
            )));
        }
        out
    }

    /// Returns the columns that are shown: all but those that repeat the first.
    pub(crate) fn columns_shown(&self) -> Vec<usize> {
        (0..self.policies.len()).filter(|&policy| !self.repeats_first(policy)).collect()
    }

    /// Returns the rows that are defined; `all`: those that did not move, too.
    pub(crate) fn rows(&self, all: bool) -> Vec<MetricResult> {
        let has_service = self.is_of_service();
        let there: Vec<&MetricResult> = self.metrics.iter().filter(|metric| is_shown(metric)).collect();
        // A row stands above its parts.
        let is_of_moved = |row: usize| {
            let parts = there[row + 1..].iter().take_while(|metric| metric.label.starts_with(' '));
            [there[row]].into_iter().chain(parts.copied()).any(|metric| is_moved(metric, has_service))
        };
        (0..there.len()).filter(|&row| all || is_of_moved(row)).map(|row| there[row].clone()).collect()
    }

    /// Returns the lines that say how to read the gains; none if there is one column.
    pub(crate) fn reading_lines(&self, style: &Style) -> String {
        let is_alone = self.columns_shown().len() < 2;
        if is_alone { String::new() } else { reading_key(style, self.seeds.len(), "seed", &self.metrics) }
    }

    /// Returns the verdict on each policy but the first, a paragraph each; the result if there is one column.
    fn verdict_text(&self, style: &Style) -> String {
        let baseline = self.column_name(0);
        let baseline = printable(&baseline);
        let paragraph = |verdict: Verdict| {
            let head = style.wrap(&format!("{} against {baseline}:", printable(&verdict.policy)));
            let sentences = verdict.sentences.iter().map(|sentence| style.wrap(&format!("  {sentence}")));
            head + &sentences.collect::<String>()
        };
        let only = self.only_result().map(|result| style.wrap(&format!("{baseline}: {result}")));
        only.into_iter().chain(self.verdicts().into_iter().map(paragraph)).collect()
    }

    /// Returns the table of metrics, with the error of replays where that was measured.
    fn results(&self, rows: &[MetricResult], columns: &[usize], style: &Style) -> String {
        let grid = self.rows_grid(rows, columns);
        if grid.rows.is_empty() {
            return String::new();
        }
        let Some(errors) = &self.replay_errors else { return format!("\n{}", grid.text(style)) };
        let ReplayedOn { machine, policy } = &errors.of;
        let machine = printable(machine);
        let star = if columns.len() > 1 { "; * exceeds it, too" } else { "" };
        let mut out = style.wrap(&format!(
            "replay error: how far a replay on {machine} under {policy} is from the recording{star}"
        ));
        out.push('\n');
        out.push_str(&grid.text_with_first(2, style));
        if rows.iter().any(|row| errors.percent(&row.name).is_none()) {
            out.push_str(&style.wrap("replay error -: not measured, so how far a replay is off is unknown"));
        }
        out
    }

    /// Returns a row for each metric, with the error of replays beside the first column where that was measured.
    pub(crate) fn rows_grid(&self, rows: &[MetricResult], columns: &[usize]) -> Grid {
        let mut grid = metric_grid(rows, self.heads()).with_columns(columns);
        if let Some(errors) = &self.replay_errors {
            grid.heads.insert(1, "replay\nerror".to_owned());
            for ((_, _, cells), metric) in grid.rows.iter_mut().zip(rows) {
                cells.insert(1, errors.cell(&metric.name));
            }
        }
        grid
    }

    /// Whether a policy other than the first made the same runs as the first, in everything that is measured.
    pub(crate) fn repeats_first(&self, policy: usize) -> bool {
        policy > 0
            && self.policies[policy].outcomes == self.policies[0].outcomes
            && self.scenarios[policy].host == self.scenarios[0].host
    }

    pub(crate) fn title(&self) -> String {
        let first = &self.scenarios[0];
        let host = if self.one_host() { format!(", host {}", host_name(first.host)) } else { String::new() };
        let mut machines: Vec<&Machine> = Vec::new();
        for scenario in self.scenarios {
            if !machines.contains(&&*scenario.machine) {
                machines.push(&scenario.machine);
            }
        }
        let words = |machine: &&Machine| {
            let cpus = match machine.topology.cpus.len() {
                1 => "1 CPU".to_owned(),
                several => format!("{several} CPUs"),
            };
            format!("{} ({cpus})", printable(&machine.name))
        };
        let machines: Vec<String> = machines.iter().map(words).collect();
        let name = printable(&first.workload.name);
        format!("{name} on {}{host}, {}", machines.join(", "), seeds(&self.seeds))
    }

    fn one_host(&self) -> bool {
        self.scenarios.iter().all(|scenario| scenario.host == self.scenarios[0].host)
    }

    /// Returns what to say about runs that did not complete.
    pub(crate) fn endings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (policy, scenario) in self.policies.iter().zip(self.scenarios) {
            for outcome in policy.outcomes {
                let what = ending_words(&outcome.ending, scenario.limit_ns);
                warnings.extend(what.map(|what| format!("{}, seed {}: {what}", policy.name, outcome.seed)));
            }
        }
        if !warnings.is_empty() {
            warnings.push(
                "Runs that did not complete did other work: no makespan or rate, and nothing is marked."
                    .to_owned(),
            );
        }
        warnings
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        let (one_host, one_machine) = (self.one_host(), self.has_one_machine());
        let of_policy = |(policy, scenario): (&PolicyResult<'_>, &wakelab_sim::Scenario)| {
            let mut name = head(&policy.name);
            if !one_machine {
                name = format!("{}\n{name}", head(&scenario.machine.name));
            }
            if one_host { name } else { format!("{name}\n({})", host_name(scenario.host)) }
        };
        self.policies.iter().zip(self.scenarios).map(of_policy).collect()
    }

    /// A row for each task group: the mean over the runs. A group within another is counted in both.
    pub(crate) fn group_grid(&self) -> Grid {
        let groups = &self.scenarios[0].workload.groups;
        let received_s = |policy: &PolicyResult<'_>, group: usize| {
            let ns: Vec<f64> =
                policy.outcomes.iter().map(|outcome| outcome.groups[group].cpu_time_ns as f64).collect();
            mean(&ns) / 1e9
        };
        let rows = groups
            .iter()
            .enumerate()
            .take(GROUPS_SHOWN)
            .map(|(index, group)| {
                let cell = |policy| Cell { text: format!("{:.3}", received_s(policy, index)), color: None };
                (group.name.clone(), "s", self.policies.iter().map(cell).collect())
            })
            .collect();
        Grid { title: "CPU time by task group, in seconds", heads: self.heads(), rows }
    }

    pub(crate) fn time_grid(&self) -> Grid {
        let rows = TimeKind::ALL
            .into_iter()
            .enumerate()
            .filter(|(index, _)| self.policies.iter().any(|policy| policy.time_percent[*index].1 > Some(0.0)))
            .map(|(index, kind)| {
                let cells =
                    self.policies.iter().map(|policy| percent_cell(policy.time_percent[index].1)).collect();
                (kind.label().to_owned(), "%", cells)
            })
            .collect();
        Grid { title: "Where the time went, in percent of all CPU time", heads: self.heads(), rows }
    }

    pub(crate) fn reason_grid(&self) -> Grid {
        let title = "Why each CPU was chosen, in percent of placement decisions";
        self.share_grid(title, |policy| &policy.reasons_percent)
    }

    pub(crate) fn affine_grid(&self) -> Grid {
        let title = "Why each search began where it did (wake-affine), in percent";
        self.share_grid(title, |policy| &policy.affine_reasons_percent)
    }

    /// Shares by name, the baseline's largest first.
    fn share_grid(&self, title: &'static str, shares: SharesOf) -> Grid {
        let of = |policy: &PolicyResult<'_>, name: &str| {
            shares(policy).iter().find(|(known, _)| known == name).map_or(0.0, |(_, share)| *share)
        };
        let mut names: Vec<&str> = self
            .policies
            .iter()
            .flat_map(|policy| shares(policy).iter().map(|(name, _)| name.as_str()))
            .collect();
        names.sort_unstable();
        names.dedup();
        let baseline = |name: &str| of(&self.policies[0], name);
        names.sort_by(|a, b| baseline(b).total_cmp(&baseline(a)));
        let rows = names
            .into_iter()
            .map(|name| {
                let cells = self.policies.iter().map(|policy| percent_cell(Some(of(policy, name)))).collect();
                (name.to_owned(), "%", cells)
            })
            .collect();
        Grid { title, heads: self.heads(), rows }
    }
}

/// Returns the head of a policy's column. Overrides stand below the name, so that columns stay narrow.
pub(crate) fn head(policy: &str) -> String {
    policy.replace('+', "\n+").replace(" --", "\n--")
}

/// Returns the lines that say how to read the gains of a table. `pair` is what gains are paired by: a seed or a block.
pub(crate) fn reading_key(style: &Style, pairs: usize, pair: &str, metrics: &[MetricResult]) -> String {
    let gains =
        || metrics.iter().flat_map(|metric| metric.policies.iter().skip(1).map(|policy| &policy.gain));
    let mut key = "(gain) over the first column: + is better, - is worse".to_owned();
    key.push_str(match (pairs, pair) {
        (1, "block") => "; one run each: no intervals, and nothing is marked",
        (1, _) => "; one seed: no intervals, and nothing is marked",
        (_, "block") => ", ± 95 % interval: spread over runs; * exceeds both 1 % and its interval",
        _ => ", ± 95 % interval over seeds, not model error; * exceeds both 1 % and its interval",
    });
    let mut out = style.wrap(&key);
    if metrics.iter().any(|metric| metric.direction == Direction::Neutral) {
        out.push_str(&style.wrap("[change]: neither better nor worse; it helps to explain the rest"));
    }
    if gains().any(is_same_for_every_seed) {
        out.push_str(&style.wrap(&format!("without ±: the same for every {pair}")));
    }
    out
}

/// A row for each metric, a column for each policy; the first without gains.
pub(crate) fn metric_grid(metrics: &[MetricResult], heads: Vec<String>) -> Grid {
    let shown: Vec<&MetricResult> = metrics.iter().filter(|metric| is_shown(metric)).collect();
    let mut rows: Vec<Row> = shown
        .iter()
        .map(|metric| {
            let (_, unit, _) = scale(metric);
            (metric.label.clone(), unit, Vec::new())
        })
        .collect();
    for index in 0..heads.len() {
        let parts: Vec<(String, String)> = shown
            .iter()
            .map(|metric| (value_text(metric, &metric.policies[index]), gain_text(metric, index)))
            .collect();
        let gain_width = parts.iter().map(|(_, gain)| gain.chars().count()).max().unwrap_or(0);
        for (((value, gain), metric), row) in parts.into_iter().zip(&shown).zip(&mut rows) {
            let found = &metric.policies[index].gain;
            let star = if found.marked { "*" } else { " " };
            let text = if index == 0 { value } else { format!("{value} {gain:>gain_width$} {star}") };
            row.2.push(Cell { text, color: color(found) });
        }
    }
    Grid { title: "", heads, rows }
}

/// Whether a metric is defined for any policy. A part of another metric is shown only if it is not 0 everywhere.
fn is_shown(metric: &MetricResult) -> bool {
    let mut means = metric.policies.iter().filter_map(|policy| policy.mean);
    if metric.label.starts_with(' ') {
        means.any(|mean| mean != 0.0)
    } else {
        means.next().is_some() || is_result(metric)
    }
}

/// Whether a short page has a row: a result, the steady rate, wake-ups and preemptions a unit (a gain that a storm of
/// preemptions buys is none), the latencies at p50 and p99, those of the service if there is one, and
/// what is marked, or moved beyond its interval and by more than a tenth.
fn is_moved(metric: &MetricResult, has_service: bool) -> bool {
    const OF_SERVICE: [&str; 3] = ["service_cpu_ns", "judged_latency_p50_ns", "judged_latency_p99_ns"];
    const OF_ALL: [&str; 5] = [
        "steady_rate_per_s",
        "wakeups_per_unit",
        "preemptions_per_unit",
        "wakeup_latency_p50_ns",
        "wakeup_latency_p99_ns",
    ];
    let is_far = |gain: &Gain| {
        gain.marked
            || exceeds_spread(gain) && gain.gain_percent.is_some_and(|percent| percent.abs() > MOVED_PERCENT)
    };
    let name = metric.name.as_str();
    metric.name != "makespan_ns" && is_result(metric)
        || if has_service { OF_SERVICE.contains(&name) } else { OF_ALL.contains(&name) || is_result(metric) }
        || metric.policies.iter().any(|policy| is_far(&policy.gain))
}

/// The first row is shown even if no run completed, because that is news.
fn is_result(metric: &MetricResult) -> bool {
    matches!(metric.name.as_str(), "makespan_ns" | "done_ns" | "rate_per_s")
}

/// Returns what values are divided by, the unit for people, and the number of decimals, for four digits of the largest
/// mean.
pub(crate) fn scale(metric: &MetricResult) -> (f64, &'static str, usize) {
    let largest =
        metric.policies.iter().filter_map(|policy| policy.mean).fold(0.0, |a: f64, b| a.max(b.abs()));
    let (divisor, unit) = match metric.unit {
        Unit::Ns if largest >= 1e9 => (1e9, "s"),
        Unit::Ns if largest >= 1e6 => (1e6, "ms"),
        Unit::Ns if largest >= 1e3 => (1e3, "us"),
        Unit::Ns => (1.0, "ns"),
        Unit::PerS => (1.0, "/s"),
        Unit::Percent => (1.0, "%"),
        Unit::Count | Unit::Plain => (1.0, ""),
    };
    let digits = largest / divisor;
    let decimals = match digits {
        _ if digits >= 1000.0 => 0,
        _ if digits >= 100.0 => 1,
        _ if digits >= 10.0 => 2,
        _ => 3,
    };
    (divisor, unit, decimals)
}

pub(crate) fn value_text(metric: &MetricResult, found: &MetricOfPolicy) -> String {
    let (divisor, _, decimals) = scale(metric);
    found.mean.map_or_else(|| "-".to_owned(), |mean| format!("{:.decimals$}", mean / divisor))
}

/// Returns the gain of one policy in round brackets, or that it is undecided; or the change of a neutral metric in
/// square brackets.
fn gain_text(metric: &MetricResult, policy: usize) -> String {
    let found = &metric.policies[policy];
    let undecided = metric.direction != Direction::Neutral && found.is_undecided();
    let words = if undecided { "undecided".to_owned() } else { gain_words(&found.gain, metric.direction) };
    match metric.direction {
        Direction::Neutral => format!("[{words}]"),
        Direction::Lower | Direction::Higher => format!("({words})"),
    }
}

/// A gain in percent with its interval and its star, coloured if marked. The last two characters are the star's.
pub(crate) fn gain_cell(found: &Gain, direction: Direction) -> Cell {
    starred(percent_words(found, direction), found)
}

/// The same for a change in percent points, or in percent where a ratio would not compare with what stands beside it.
pub(crate) fn points_cell(found: &Gain) -> Cell {
    starred(points_words(found), found)
}

fn starred(words: String, found: &Gain) -> Cell {
    let star = if found.marked { " *" } else { "  " };
    Cell { text: words + star, color: color(found) }
}

fn color(found: &Gain) -> Option<anstyle::Style> {
    let color = if found.gain_percent > Some(0.0) { GAIN } else { LOSS };
    found.marked.then_some(color)
}

fn percent_cell(percent: Option<f64>) -> Cell {
    let text = match percent {
        None => "-".to_owned(),
        Some(percent) if percent > 0.0 && percent < 0.005 => "<0.01".to_owned(),
        Some(percent) => format!("{percent:.2}"),
    };
    Cell { text, color: None }
}

pub(crate) fn host_name(host: HostProfile) -> &'static str {
    match host {
        HostProfile::SchedExt => "sched_ext",
        HostProfile::Mainline => "mainline",
    }
}

pub(crate) fn seeds(seeds: &[u64]) -> String {
    match seeds {
        [one] => format!("seed {one}"),
        [first, .., last] if seeds.is_sorted() && last - first == seeds.len() as u64 - 1 => {
            format!("{} seeds from {first} to {last}", seeds.len())
        }
        _ => format!("{} seeds", seeds.len()),
    }
}

fn duration(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let fits = units.into_iter().find(|(unit_ns, _)| ns.is_multiple_of(*unit_ns));
    let (unit_ns, name) = fits.unwrap_or((1, "ns"));
    format!("{} {name}", ns / unit_ns)
}
