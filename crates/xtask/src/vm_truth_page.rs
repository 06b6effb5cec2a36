// SPDX-License-Identifier: GPL-2.0-or-later
//! The page of `cargo xtask vm truth`, and the figures on it.

use std::fmt::Write;

use serde_json::Value;

use crate::truth::{median, off_percent, percent, spread_percent, value, wrapped};
use crate::vm_truth::{KERNEL, Kind, PROGRAMS, Program};

/// What the recordings are.
pub(crate) struct Made {
    pub(crate) kind: Kind,
    /// The kernel's release.
    pub(crate) kernel: String,
    pub(crate) repeats: u64,
    /// The kernel's own scheduler, and policies with arguments of the loader.
    pub(crate) schedulers: Vec<String>,
    pub(crate) programs: Vec<String>,
}

/// A program with the answers of `wakelab check`, by scheduler and repeat.
pub(crate) struct Measured {
    pub(crate) program: &'static Program,
    pub(crate) itself: Vec<Vec<Value>>,
    /// Predictions from the recordings under the kernel's own scheduler, which has none itself.
    pub(crate) predicted: Vec<Vec<Value>>,
}

/// How a figure is printed.
#[derive(Clone, Copy)]
enum Unit {
    Ms,
    Us,
    Number,
}

/// The figures of `wakelab check` that the page shows, with the words for them.
const FIGURES: [(&str, &str, Unit); 9] = [
    ("done_ns", "done after", Unit::Ms),
    ("cpu_ns", "CPU time", Unit::Ms),
    ("wakeups", "wake-ups", Unit::Number),
    ("switches", "switches", Unit::Number),
    ("migrations", "migrations", Unit::Number),
    ("wakeup_latency_p50_ns", "latency p50", Unit::Us),
    ("wakeup_latency_p99_ns", "latency p99", Unit::Us),
    ("run_delay_p50_ns", "run delay p50", Unit::Us),
    ("run_delay_p99_ns", "run delay p99", Unit::Us),
];

impl Unit {
    fn text(self, value: f64) -> String {
        match self {
            Unit::Ms => format!("{:.0} ms", value / 1e6),
            Unit::Us if value < 9.95e3 => format!("{:.1} us", value / 1e3),
            Unit::Us => format!("{:.0} us", value / 1e3),
            Unit::Number => format!("{value:.0}"),
        }
    }
}

impl Made {
    /// Policies with their places among the schedulers.
    fn policies(&self) -> impl Iterator<Item = (usize, &str)> {
        self.schedulers.iter().map(String::as_str).enumerate().skip(1)
    }
}

/// What a table calls a scheduler.
fn title(scheduler: &str) -> String {
    if scheduler == KERNEL { "the kernel's own".to_owned() } else { format!("`{scheduler}`") }
}

/// By how many percent a figure changes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Change {
    truly: f64,
    predicted: f64,
}

impl Change {
    fn is_right(self) -> bool {
        self.truly * self.predicted > 0.0
    }
}

impl Measured {
    fn recorded(&self, side: usize, figure: &str) -> Vec<f64> {
        let of = |check: &Value| value(check, figure, "recorded");
        self.itself[side].iter().filter_map(of).filter(|&value| value > 0.0).collect()
    }

    fn null_percent(&self, side: usize, figure: &str) -> Option<f64> {
        spread_percent(&self.recorded(side, figure))
    }

    fn self_percent(&self, side: usize, figure: &str) -> Option<f64> {
        errors(&self.itself[side], figure)
    }

    fn predicted_percent(&self, side: usize, figure: &str) -> Option<f64> {
        errors(&self.predicted[side], figure)
    }

    /// What the error would be if the policy changed nothing.
    fn no_change_percent(&self, side: usize, figure: &str) -> Option<f64> {
        Some(off_percent(median(self.recorded(0, figure))?, median(self.recorded(side, figure))?))
    }

    /// How a policy changes a figure; `None` if that is not more than the null error. What is predicted counts from the
    /// replay, as in `wakelab compare`, because both leave out the same.
    fn change(&self, side: usize, figure: &str) -> Option<Change> {
        let null = self.null_percent(0, figure)?.max(self.null_percent(side, figure)?);
        let (from, truth) = (median(self.recorded(0, figure))?, median(self.recorded(side, figure))?);
        let predicted = truth * (1.0 + self.predicted_percent(side, figure)? / 100.0);
        let replayed = from * (1.0 + self.self_percent(0, figure)? / 100.0);
        let is_change = off_percent(truth.max(from), truth.min(from)) > null;
        is_change
            .then(|| Change { truly: off_percent(truth, from), predicted: off_percent(predicted, replayed) })
    }

    /// The errors of one program, for people who wait.
    pub(crate) fn text(&self, made: &Made) -> String {
        let mut out = format!("{}\n", self.program.name);
        let mut line = |title: String, of: &dyn Fn(&str) -> Option<f64>| {
            let _ = write!(out, "  {title:<40}");
            for (figure, label, _) in FIGURES {
                let _ = write!(out, "  {label} {}", percent(of(figure)));
            }
            out.push('\n');
        };
        for (side, scheduler) in made.schedulers.iter().enumerate() {
            line(format!("{scheduler} replayed"), &|figure| self.self_percent(side, figure));
            if side > 0 {
                line(format!("{scheduler} predicted"), &|figure| self.predicted_percent(side, figure));
            }
        }
        out
    }
}

/// The median of the errors of some checks.
fn errors(checks: &[Value], figure: &str) -> Option<f64> {
    median(checks.iter().filter_map(|check| value(check, figure, "error_percent")).collect())
}

/// The page for docs/: guests with their programs.
pub(crate) fn page(guests: &[(Made, Vec<Measured>)]) -> String {
    let mut out = String::new();
    if let Some((made, _)) = guests.first() {
        out = head(made);
    }
    for program in &PROGRAMS {
        if guests.iter().any(|(made, _)| made.programs.iter().any(|name| name == program.name)) {
            let _ = writeln!(out, "- {}: {}", program.name, program.what);
        }
    }
    for (made, measured) in guests {
        guest(&mut out, measured, made);
    }
    out.lines().map(wrapped).collect()
}

/// What all guests have in common.
fn head(made: &Made) -> String {
    format!(
        "<!-- SPDX-License-Identifier: GPL-2.0-or-later -->\n# How true predictions of `scx_wakelab` are\n\n\
         Written by `cargo xtask vm truth`, in guests of QEMU whose kernel, Linux {}, has no patches \
         ([vm/](../../vm/README.md)). Their CPUs are emulated and slow, so only relative figures mean something.\n\n\
         Each program was recorded by `wakelab record` under the kernel's own scheduler and under `scx_wakelab` with some \
         policies, in turn, in one boot of each guest. Each recording was replayed as it was made, by `wakelab check \
         --host sched_ext --policy SPEC`, or `--host mainline --policy linux-6.12` for the kernel's own scheduler. Each \
         policy was predicted from the recordings under the kernel's own scheduler alone, by `wakelab check RECORDING \
         --against TRUTH --host sched_ext --policy SPEC`.\n\n\
         Errors are in percent of what was recorded, medians over recordings; `x12` is 12 times as much. *Null* is the \
         difference between two recordings of the same kind: no prediction can be better. *Right* counts the \
         predictions that change a figure to the right side, where it changed by more than the null error; a predicted \
         change is from the replay under the kernel's own scheduler, as in `wakelab compare`, because neither replay has \
         the recorder's tasks. *No change* predicts what was recorded under the kernel's own scheduler.\n\nThe programs:\n\n",
        made.kernel,
    )
}

/// The part of one guest.
fn guest(out: &mut String, measured: &[Measured], made: &Made) {
    out.push_str(match made.kind {
        Kind::One => {
            "\n## One CPU\n\nIn virtual time: each instruction takes a nanosecond, whatever else the machine does. Policies \
             differ by their queues alone: who runs next, and for how long. The recorder has no other CPU; what it takes \
             there, which replays leave out, is most of what they are done too early.\n"
        }
        Kind::Two => {
            "\n## Two CPUs\n\nEach is a thread of a machine of two CPUs, which others used, too; the guest was in a control \
             group with the largest weight there is. A guest's CPU that waits for one of the machine looks like a task \
             that takes longer. With few recordings, the null error can be small by chance; then noise counts as a \
             change.\n"
        }
    });
    let policies: String = made.policies().map(|(_, spec)| format!(" --policy '{spec}'")).collect();
    let programs = if made.programs.len() == PROGRAMS.len() { Vec::new() } else { made.programs.clone() };
    let _ = write!(
        out,
        "\nRecorded {} times by `cargo xtask vm truth --guest {} --repeats {}{policies}{}`.\n",
        made.repeats,
        made.kind.name(),
        made.repeats,
        programs.iter().map(|name| format!(" {name}")).collect::<String>(),
    );
    directions(out, measured, made);
    for (side, scheduler) in made.schedulers.iter().enumerate() {
        let title = format!("Replayed as recorded under {}", title(scheduler));
        table(out, &title, measured, |one, figure| {
            (one.self_percent(side, figure), one.null_percent(side, figure))
        });
    }
    for (side, scheduler) in made.policies() {
        let title = format!("Predicted from the kernel's own: {}", title(scheduler));
        table(out, &title, measured, |one, figure| {
            (one.predicted_percent(side, figure), one.null_percent(side, figure))
        });
    }
    recorded(out, measured, made);
}

/// Of each figure: the errors of predictions, what no change would have, and how many changes go to the right side.
fn directions(out: &mut String, measured: &[Measured], made: &Made) {
    out.push_str("\n### What a policy changes\n\nMedians over programs, without sign.\n\n| figure |");
    for (_, scheduler) in made.policies() {
        let _ = write!(out, " {}: error | no change | right |", title(scheduler));
    }
    let _ = write!(out, "\n|---|{}\n", "---|---|---|".repeat(made.schedulers.len() - 1));
    let (mut right, mut all) = (0, 0);
    let mut wrong = vec![Vec::new(); made.schedulers.len()];
    for (figure, label, _) in FIGURES {
        let _ = write!(out, "| {label} |");
        for (side, _) in made.policies() {
            let absolute = |of: &dyn Fn(&Measured) -> Option<f64>| {
                percent(median(measured.iter().filter_map(of).map(f64::abs).collect()))
            };
            let changes: Vec<(&str, Change)> = measured
                .iter()
                .filter_map(|one| Some((one.program.name, one.change(side, figure)?)))
                .collect();
            let good = changes.iter().filter(|(_, change)| change.is_right()).count();
            (right, all) = (right + good, all + changes.len());
            for (name, Change { truly, predicted }) in changes.iter().filter(|(_, one)| !one.is_right()) {
                wrong[side].push(format!("{label} of {name} ({truly:+.0} %, predicted {predicted:+.0})"));
            }
            let _ = write!(
                out,
                " {} | {} | {good} of {} |",
                absolute(&|one| one.predicted_percent(side, figure)).trim_start_matches('+'),
                absolute(&|one| one.no_change_percent(side, figure)).trim_start_matches('+'),
                changes.len(),
            );
        }
        out.push('\n');
    }
    let _ = write!(
        out,
        "\nTogether {right} of {all} changes go to the right side. To the wrong side, with the true change:\n"
    );
    for (side, scheduler) in made.policies() {
        let all = if wrong[side].is_empty() { "none".to_owned() } else { wrong[side].join(", ") };
        let _ = write!(out, "\n- {}: {all}", title(scheduler));
    }
    out.push('\n');
}

/// A table of `error (null)` by program and figure, with the medians of both.
fn table(
    out: &mut String,
    title: &str,
    measured: &[Measured],
    of: impl Fn(&Measured, &str) -> (Option<f64>, Option<f64>),
) {
    header(out, title, "program");
    for one in measured {
        let _ = write!(out, "| {} |", one.program.name);
        for (figure, ..) in FIGURES {
            let (error, null) = of(one, figure);
            let _ = write!(out, " {} ({}) |", percent(error), percent(null).trim_start_matches('+'));
        }
        out.push('\n');
    }
    out.push_str("| **median, without sign** |");
    for (figure, ..) in FIGURES {
        let (errors, nulls): (Vec<_>, Vec<_>) = measured.iter().map(|one| of(one, figure)).unzip();
        let middle = |values: Vec<Option<f64>>| {
            percent(median(values.into_iter().flatten().map(f64::abs).collect()))
                .trim_start_matches('+')
                .to_owned()
        };
        let _ = write!(out, " **{}** ({}) |", middle(errors), middle(nulls));
    }
    out.push('\n');
}

/// What was recorded: the medians.
fn recorded(out: &mut String, measured: &[Measured], made: &Made) {
    header(out, "Recorded, medians", "program | scheduler");
    for one in measured {
        for (side, scheduler) in made.schedulers.iter().enumerate() {
            let _ = write!(out, "| {} | {} |", one.program.name, title(scheduler));
            for (figure, _, unit) in FIGURES {
                let value = median(one.recorded(side, figure));
                let _ = write!(out, " {} |", value.map_or_else(|| "0".to_owned(), |value| unit.text(value)));
            }
            out.push('\n');
        }
    }
}

/// The title and the first lines of a table of all figures.
fn header(out: &mut String, title: &str, first: &str) {
    let _ = write!(out, "\n### {title}\n\n| {first} |");
    for (_, label, _) in FIGURES {
        let _ = write!(out, " {label} |");
    }
    let columns = first.split('|').count() + FIGURES.len();
    let _ = write!(out, "\n|{}\n", "---|".repeat(columns));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(done: f64, replayed: f64, migrations: f64) -> Value {
        let metric = |name: &str, recorded: f64, replayed: f64| {
            let error = (recorded > 0.0).then(|| off_percent(replayed, recorded));
            serde_json::json!({ "name": name, "recorded": recorded, "replayed": replayed, "error_percent": error })
        };
        serde_json::json!({ "metrics": [
            metric("done_ns", done, replayed), metric("cpu_ns", 150e6, 150e6), metric("migrations", migrations, 0.0),
        ] })
    }

    /// Under the kernel's own 100 and 110 ms, under a policy 200 and 190, predicted as 180 and 209; under another one
    /// 50 and 60, predicted as 125 and 120.
    fn measured() -> Measured {
        let ms = |recorded: f64, replayed: f64| check(recorded * 1e6, replayed * 1e6, 0.0);
        Measured {
            program: &PROGRAMS[0],
            itself: vec![
                vec![ms(100.0, 110.0), ms(110.0, 121.0)],
                vec![ms(200.0, 190.0), ms(190.0, 180.5)],
                vec![check(50e6, 50e6, 3.0), check(60e6, 60e6, 5.0)],
            ],
            predicted: vec![
                Vec::new(),
                vec![ms(200.0, 180.0), ms(190.0, 209.0)],
                vec![ms(50.0, 125.0), ms(60.0, 120.0)],
            ],
        }
    }

    fn made() -> Made {
        Made {
            kind: Kind::One,
            kernel: "6.12.1".to_owned(),
            repeats: 2,
            schedulers: [KERNEL, "a", "b"].map(str::to_owned).into(),
            programs: vec!["hackbench".to_owned()],
        }
    }

    #[test]
    fn figures_by_hand() {
        let one = measured();
        let near = |value: Option<f64>, expected: f64| {
            let value = value.expect("a value");
            assert!((value - expected).abs() < 0.01, "{value}, expected {expected}");
        };
        near(one.null_percent(0, "done_ns"), 10.0);
        near(one.self_percent(0, "done_ns"), 10.0);
        near(one.self_percent(1, "done_ns"), -5.0);
        // The median of -10 and +10 %, and of +150 and +100.
        near(one.predicted_percent(1, "done_ns"), 0.0);
        near(one.predicted_percent(2, "done_ns"), 125.0);
        near(one.no_change_percent(1, "done_ns"), -46.15);
        // From 105 to 195, and from 105 to 55; predicted as 195 and 55 * 2.25, where 105 is replayed as 115.5.
        let right = one.change(1, "done_ns").expect("a change");
        near(Some(right.truly), 85.71);
        near(Some(right.predicted), 68.83);
        let wrong = one.change(2, "done_ns").expect("a change");
        near(Some(wrong.truly), -47.62);
        near(Some(wrong.predicted), 7.14);
        assert!(right.is_right() && !wrong.is_right());
        assert_eq!(one.change(1, "cpu_ns"), None, "it did not change");
        assert_eq!(one.change(2, "migrations"), None, "there were none under the kernel's own");
    }

    #[test]
    fn a_page_has_everything() {
        let text = page(&[(made(), vec![measured()])]);
        for line in [
            "| done after | 0 | 46 | 1 of 1 | 125 | 91 | 0 of 1 |",
            "Together 1 of 2 changes go to the right side.",
            "- `b`: done after of hackbench (-48 %, predicted +7)",
            "| hackbench | +10 (10) | +0 (0) | - (-) |",
            "| **median, without sign** | **125** (20) |",
            "| hackbench | `b` | 55 ms | 150 ms | 0 | 0 | 4 | 0 |",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(text.lines().all(|line| line.starts_with('|') || line.len() <= 120));
    }
}
