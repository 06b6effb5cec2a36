// SPDX-License-Identifier: GPL-2.0-or-later
//! The comparison for people, in the manner of mmtests' compare-kernels: a row a metric, a column a policy, the first
//! the baseline; gain in percent and its interval in brackets, a star where it matters. Below: what each task group
//! received, where the time went, and why each CPU was chosen.
//!
//! Where the columns are wider than the page, the table is cut into several, each with the baseline first.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};
use wakelab_sim::{Ending, HostProfile, TimeUse};

use crate::comparison::{Comparison, MetricOfPolicy, MetricResult, PolicyResult};
use crate::metric::time_uses;
use wakelab_stats::Unit;
use wakelab_stats::{Gain, mean};

/// How text is laid out. The caller knows the terminal and the environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Marked gains in green, marked losses in red.
    pub color: bool,
    /// Columns of the page; `None`: as many as it takes.
    pub width: Option<usize>,
}

pub(crate) const GREEN: &str = "\x1b[32m";
pub(crate) const RED: &str = "\x1b[31m";
const BOLD: &str = "\x1b[1m";
const RESET: &str = "\x1b[0m";

/// A page shows so many task groups; the JSON has all.
const GROUPS_SHOWN: usize = 24;

/// One of the lists of shares of a policy.
type SharesOf = for<'a> fn(&'a PolicyResult<'_>) -> &'a [(String, f64)];

/// A cell and its colour, if it has one.
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) color: Option<&'static str>,
}

/// A label, a unit, and a cell a column.
pub(crate) type Row = (String, &'static str, Vec<Cell>);

/// A table of text: heads of the columns, and rows.
pub(crate) struct Grid {
    pub(crate) title: &'static str,
    pub(crate) heads: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

impl Comparison<'_> {
    /// All tables as text, ending in a newline.
    pub fn text(&self, style: &Style) -> String {
        let mut out = self.title();
        out.push('\n');
        for warning in self.endings() {
            out.push_str(&paint(style, RED, &format!("!! {warning}")));
            out.push('\n');
        }
        let grids = [
            metric_grid(&self.metrics, self.heads()),
            self.group_grid(),
            self.time_grid(),
            self.reason_grid(),
            self.affine_grid(),
        ];
        for grid in grids {
            if !grid.rows.is_empty() {
                out.push('\n');
                out.push_str(&grid.text(style));
            }
        }
        out.push_str(self.footnote());
        out
    }

    fn title(&self) -> String {
        let first = &self.scenarios[0];
        let host = if self.one_host() { format!(", host {}", host_name(first.host)) } else { String::new() };
        let (name, machine) = (&first.workload.name, &first.machine.name);
        let cpus = first.machine.topology.cpus.len();
        format!("{name} on {machine} ({cpus} CPUs){host}, {}", seeds(&self.seeds))
    }

    fn one_host(&self) -> bool {
        self.scenarios.iter().all(|scenario| scenario.host == self.scenarios[0].host)
    }

    /// What to say about runs that did not complete.
    fn endings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (policy, scenario) in self.policies.iter().zip(self.scenarios) {
            for outcome in policy.outcomes {
                let what = match &outcome.ending {
                    Ending::Completed => continue,
                    Ending::LimitReached => format!("did not end within {}", duration(scenario.limit_ns)),
                    Ending::Deadlock { waiting } => format!("ended in a deadlock, {waiting} tasks waiting"),
                };
                warnings.push(format!("{}, seed {}: {what}", policy.name, outcome.seed));
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

    fn footnote(&self) -> &'static str {
        if self.policies.len() == 1 {
            ""
        } else if self.seeds.len() == 1 {
            "\nGains over the first policy; positive is better. One seed: no intervals, and nothing is marked.\n"
        } else {
            "\nGains over the first policy, paired by seed; positive is better. ± 95 % interval: seed spread, not model error.\n\
             * more than 1 % and more than its interval.\n"
        }
    }

    fn heads(&self) -> Vec<String> {
        let one_host = self.one_host();
        let of_policy = |(policy, scenario): (&PolicyResult<'_>, &wakelab_sim::Scenario)| {
            let name = head(&policy.name);
            if one_host { name } else { format!("{name}\n({})", host_name(scenario.host)) }
        };
        self.policies.iter().zip(self.scenarios).map(of_policy).collect()
    }

    /// The mean over the runs, a row a task group; groups in a group are counted in both.
    fn group_grid(&self) -> Grid {
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

    fn time_grid(&self) -> Grid {
        let rows = time_uses(&TimeUse::default())
            .into_iter()
            .enumerate()
            .filter(|(index, _)| self.policies.iter().any(|policy| policy.time_percent[*index].1 > Some(0.0)))
            .map(|(index, use_)| {
                let cells =
                    self.policies.iter().map(|policy| percent_cell(policy.time_percent[index].1)).collect();
                (use_.label.to_owned(), "%", cells)
            })
            .collect();
        Grid { title: "Where the time went, in percent of all CPU time", heads: self.heads(), rows }
    }

    fn reason_grid(&self) -> Grid {
        let title = "Why each CPU was chosen, in percent of placement decisions";
        self.share_grid(title, |policy| &policy.reasons_percent)
    }

    fn affine_grid(&self) -> Grid {
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

impl Grid {
    /// The grid, cut into as many tables as the page needs.
    pub(crate) fn text(&self, style: &Style) -> String {
        let mut out = String::new();
        if !self.title.is_empty() {
            out.push_str(&paint(style, BOLD, self.title));
            out.push('\n');
        }
        let mut next = 1;
        loop {
            let mut end = self.heads.len();
            let mut lines = self.lines(next, end);
            let fits = |lines: &[String]| {
                style.width.is_none_or(|width| lines.iter().all(|line| line.chars().count() <= width))
            };
            while end > next + 1 && !fits(&lines) {
                end -= 1;
                lines = self.lines(next, end);
            }
            self.paint_cells(style, &mut lines, next, end);
            for line in lines {
                out.push_str(&line);
                out.push('\n');
            }
            if end >= self.heads.len() {
                return out;
            }
            next = end;
            out.push('\n');
        }
    }

    /// The baseline's column and those from `next` up to and not including `end`.
    fn lines(&self, next: usize, end: usize) -> Vec<String> {
        let columns = || std::iter::once(0).chain(next..end);
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        let heads = [String::new(), String::new()]
            .into_iter()
            .chain(columns().map(|column| self.heads[column].clone()));
        table.set_header(heads);
        for (label, unit, cells) in &self.rows {
            let cells = columns().map(|column| cells[column].text.clone());
            table.add_row([label.clone(), (*unit).to_owned()].into_iter().chain(cells));
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_constraint(ColumnConstraint::ContentWidth);
            column.set_padding(if index == 0 { (0, 1) } else { (1, 1) });
            if index > 1 {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// Puts colours around the cells that have one. Rows are the last lines, cells stand in them in order.
    fn paint_cells(&self, style: &Style, lines: &mut [String], next: usize, end: usize) {
        if !style.color {
            return;
        }
        let first = lines.len() - self.rows.len();
        for (line, (label, _, cells)) in lines[first..].iter_mut().zip(&self.rows) {
            let mut from = label.len();
            for column in std::iter::once(0).chain(next..end) {
                let text = cells[column].text.trim();
                let Some(at) = line[from..].find(text).map(|at| at + from) else { continue };
                from = at + text.len();
                if let Some(color) = cells[column].color {
                    line.replace_range(at..from, &format!("{color}{text}{RESET}"));
                    from += color.len() + RESET.len();
                }
            }
        }
    }
}

/// Head of a policy's column: overrides below the name, so that columns stay narrow.
pub(crate) fn head(policy: &str) -> String {
    policy.replace('+', "\n+")
}

pub(crate) fn paint(style: &Style, color: &str, text: &str) -> String {
    if style.color { format!("{color}{text}{RESET}") } else { text.to_owned() }
}

/// A row a metric, a column a policy; the first without gains.
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
            .map(|metric| (value_text(metric, &metric.policies[index]), gain_text(&metric.policies[index])))
            .collect();
        let gain_width = parts.iter().map(|(_, gain)| gain.chars().count()).max().unwrap_or(0);
        for (((value, gain), metric), row) in parts.into_iter().zip(&shown).zip(&mut rows) {
            let found = &metric.policies[index].gain;
            let star = if found.marked { "*" } else { " " };
            let text = if index == 0 { value } else { format!("{value} {gain:>gain_width$} {star}") };
            let color = if found.gain_percent > Some(0.0) { GREEN } else { RED };
            row.2.push(Cell { text, color: found.marked.then_some(color) });
        }
    }
    Grid { title: "", heads, rows }
}

/// Metrics that are defined somewhere; parts of another metric only where they are not 0 everywhere.
fn is_shown(metric: &MetricResult) -> bool {
    let mut means = metric.policies.iter().filter_map(|policy| policy.mean);
    if metric.label.starts_with(' ') {
        means.any(|mean| mean != 0.0)
    } else {
        means.next().is_some() || is_result(metric)
    }
}

/// The first row is shown even if no run completed: its absence is news.
fn is_result(metric: &MetricResult) -> bool {
    matches!(metric.name.as_str(), "makespan_ns" | "rate_per_s")
}

/// By what values are divided, the unit for people, and the number of decimals: four digits of the largest mean.
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

pub(crate) fn gain_text(found: &MetricOfPolicy) -> String {
    match (found.gain.gain_percent, found.gain.ci_percent) {
        (Some(gain), Some([low, high])) => format!("({gain:+.2}% ±{:.2})", (high - low) / 2.0),
        (Some(gain), None) => format!("({gain:+.2}%)"),
        (None, _) => "(-)".to_owned(),
    }
}

/// A gain in percent with its interval and its star, coloured if marked. The last two characters are the star's.
pub(crate) fn gain_cell(found: &Gain) -> Cell {
    let star = if found.marked { " *" } else { "  " };
    let text = match (found.gain_percent, found.ci_percent) {
        (Some(gain), Some([low, high])) => format!("{gain:+.2} ±{:.2}{star}", (high - low) / 2.0),
        (Some(gain), None) => format!("{gain:+.2}{star}"),
        (None, _) => format!("-{star}"),
    };
    let color = if found.gain_percent > Some(0.0) { GREEN } else { RED };
    Cell { text, color: found.marked.then_some(color) }
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
    if ns.is_multiple_of(1_000_000_000) { format!("{} s", ns / 1_000_000_000) } else { format!("{ns} ns") }
}
