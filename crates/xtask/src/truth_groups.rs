// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask truth-groups`: how true what-ifs about weights, nice values and slices are. Records programs that
//! compete for CPUs with some weights, nice values or slices and with others, predicts each from the other, and prints
//! the errors beside the differences between recordings of the same kind (the null error).
//!
//! Other programs use the machine meanwhile. So all that compete are in one control group with the largest weight there
//! is, and figures are relative to each other: a program's *share* is its CPU time by the time from the common
//! beginning to its end, and *done* is that time. The work is the same in every recording, so a share follows from the
//! division of the CPU alone. A slice does not change shares, but how often programs are preempted, and how long they
//! wait for a CPU.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;

use crate::command::{self, Skipped};
use crate::truth::{Files, built_wakelab, kernel_words, median, off_percent, value, wrapped};
use crate::truth_cases::{CASES, Case, Program};
use crate::truth_cgroup::{BASE, Groups};

/// Arguments of `cargo xtask truth-groups`.
#[derive(Args)]
pub(crate) struct TruthGroupsArgs {
    /// Cases by name; all of them if none is named.
    #[arg(value_name = "CASE", value_parser = CASES.each_ref().map(|case| case.name))]
    cases: Vec<String>,
    /// Recordings of each case on each side; more tell the null error better and take longer.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=20))]
    repeats: u32,
    #[command(flatten)]
    files: Files,
}

/// What is measured of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// CPU time by the time from the common beginning to its end, in percent.
    Share,
    /// That time, in ms.
    Done,
    /// How many times it left a CPU though it could run.
    Preemptions,
    /// How long it waited for a CPU, each time, on the median and in the worst twentieth; in ms.
    Delay,
    LongDelay,
}

pub(crate) const SHARES: [Figure; 2] = [Figure::Share, Figure::Done];
pub(crate) const SWITCHES: [Figure; 2] = [Figure::Preemptions, Figure::Delay];
pub(crate) const DELAYS: [Figure; 2] = [Figure::Delay, Figure::LongDelay];

impl Figure {
    /// What the page calls it.
    fn words(self) -> &'static str {
        match self {
            Figure::Share => "share, %",
            Figure::Done => "done, ms",
            Figure::Preemptions => "preemptions",
            Figure::Delay => "run delay p50, ms",
            Figure::LongDelay => "run delay p95, ms",
        }
    }

    fn decimals(self) -> usize {
        match self {
            Figure::Share => 1,
            Figure::Done | Figure::Preemptions => 0,
            Figure::Delay | Figure::LongDelay => 3,
        }
    }

    /// The figure of a program. `what`: recorded or replayed.
    fn of(self, check: &Value, name: &str, what: &str) -> Option<f64> {
        let tasks = check["tasks"].as_array()?;
        let of =
            |comm: &str, figure: &str| value(tasks.iter().find(|tasks| tasks["comm"] == comm)?, figure, what);
        let took_ns = || Some(of(name, "done_ns")? - of(GATE, "done_ns")?);
        Some(match self {
            Figure::Share => of(name, "cpu_ns")? / took_ns()? * 100.0,
            Figure::Done => took_ns()? / 1e6,
            Figure::Preemptions => of(name, "preemptions")?,
            Figure::Delay => of(name, "run_delay_p50_ns")? / 1e6,
            Figure::LongDelay => of(name, "run_delay_p95_ns")? / 1e6,
        })
    }
}

/// The bar for weights and nice values, and here for slices.
const BAR_PERCENT: f64 = 5.0;
/// Tasks of truth/groups/compete.py that do not compete: its first one, and the one that ends when the others begin.
const PARENT: &str = "truth";
const GATE: &str = "gate";

/// A case with its recordings' and predictions' answers of `wakelab check`, by side and repeat.
struct Measured {
    case: &'static Case,
    itself: [Vec<Value>; 2],
    /// Predictions from this side of the other one.
    predicted: [Vec<Value>; 2],
}

/// `cargo xtask truth-groups`.
pub(crate) fn run(args: &TruthGroupsArgs) -> Result<()> {
    let wakelab = built_wakelab()?;
    let folder = args.files.folder("truth-groups")?;
    let mut measured = Vec::new();
    for case in
        CASES.iter().filter(|case| args.cases.is_empty() || args.cases.iter().any(|name| name == case.name))
    {
        match measure(&wakelab, case, &folder, args) {
            Ok(one) => {
                print!("{}", one.text());
                measured.push(one);
            }
            Err(error) if error.is::<Skipped>() => eprintln!("{}: {error}", case.name),
            Err(error) => return Err(error),
        }
    }
    args.files.clear(&folder)?;
    if measured.is_empty() {
        return Err(Skipped("no case could be recorded".to_owned()).into());
    }
    args.files.write("truth-groups", &page(&measured, args)?)
}

/// Records both sides of a case in turn, and predicts each from the other.
fn measure(wakelab: &Path, case: &'static Case, folder: &Path, args: &TruthGroupsArgs) -> Result<Measured> {
    let nr_cpus = std::thread::available_parallelism()?.get();
    if nr_cpus < case.cpus {
        return Err(Skipped(format!("needs {} CPUs", case.cpus)).into());
    }
    let cpus: Vec<String> = (nr_cpus - case.cpus..nr_cpus).map(|cpu| cpu.to_string()).collect();
    let cpus = cpus.join(",");
    let path = |side: usize, repeat| folder.join(format!("{}.{side}.{repeat}.rec.gz", case.name));
    if args.files.from.is_none() {
        // A wrapper that is called python3 would start dozens of tasks.
        let python = "import sys; print(sys.executable)";
        let python = command::text(Command::new("python3").args(["-c", python]))
            .map_err(|_| Skipped("needs python3".to_owned()))?;
        for repeat in 0..args.repeats {
            for side in 0..2 {
                record(wakelab, &python, case, side, &cpus, &path(side, repeat))?;
            }
        }
    }
    let (mut itself, mut predicted) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for side in 0..2 {
        for repeat in 0..args.repeats {
            let (here, there) = (path(side, repeat), path(1 - side, repeat));
            itself[side].push(check(wakelab, case, &cpus, &here, &case.slices(side), &here)?);
            predicted[side].push(check(wakelab, case, &cpus, &here, &case.options(1 - side), &there)?);
        }
    }
    Ok(Measured { case, itself, predicted })
}

fn record(wakelab: &Path, python: &str, case: &Case, side: usize, cpus: &str, path: &Path) -> Result<()> {
    let mut groups = Groups::new()?;
    groups.make_below(case.groups.iter().map(|(path, weights)| (*path, weights[side])))?;
    let programs = case.programs.iter();
    let programs = programs.map(|one| {
        format!("{}:{}:{}:{}:{}", one.name, one.group, one.nice[side], one.slice_us[side], one.work)
    });
    let mut command = Command::new(wakelab);
    command.args(["record", "--no-measure", "-o"]).arg(path).args(["--", python]);
    command.arg(command::root().join("truth/groups/compete.py")).arg(cpus).arg(groups.folder());
    command::output(command.args(programs)).map(drop)
}

/// What `wakelab check` says of a replay of `from` with some changes, beside `truth`. A recording does not tell the
/// CPUs and the slice that a task has chosen for itself while it was made, so they are told.
fn check(
    wakelab: &Path,
    case: &Case,
    cpus: &str,
    from: &Path,
    changes: &[String],
    truth: &Path,
) -> Result<Value> {
    let mut command = Command::new(wakelab);
    command.arg("check").arg(from).arg("--against").arg(truth).args(["--format", "json"]).args(changes);
    for name in case.names().into_iter().chain([PARENT, GATE]) {
        command.arg("--cpus").arg(format!("{name}={cpus}"));
    }
    serde_json::from_slice(&command::output(&mut command)?).context("no JSON from wakelab check")
}

impl Case {
    /// The programs' names, each once.
    fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = self.programs.iter().map(|program| program.name).collect();
        names.dedup();
        names
    }

    /// The options that turn a recording of one side into the other one, `side`.
    fn options(&self, side: usize) -> Vec<String> {
        let differ = |both: [i64; 2]| both[0] != both[1];
        let groups = self.groups.iter().filter(|(_, weights)| differ(weights.map(i64::from)));
        let weights = groups.map(|(path, weights)| ("--weight", format!("{BASE}{path}={}", weights[side])));
        let programs = self.programs.iter().filter(|program| differ(program.nice.map(i64::from)));
        let nices = programs.map(|program| ("--nice", format!("{}={}", program.name, program.nice[side])));
        let all = weights.chain(nices).flat_map(|(option, value)| [option.to_owned(), value]);
        all.chain(self.slices(side)).collect()
    }

    /// The options that tell the slices of one side.
    fn slices(&self, side: usize) -> Vec<String> {
        let mut programs: Vec<&Program> =
            self.programs.iter().filter(|one| one.slice_us[0] != one.slice_us[1]).collect();
        programs.dedup_by_key(|program| program.name);
        let slice = |program: &&Program| match program.slice_us[side] {
            0 => format!("{}=base", program.name),
            us => format!("{}={us}us", program.name),
        };
        programs.iter().map(slice).flat_map(|value| ["--slice".to_owned(), value]).collect()
    }

    /// Says what the two sides are.
    fn sides(&self) -> [String; 2] {
        [0, 1].map(|side| {
            let options = self.options(side);
            let values: Vec<&str> =
                options.iter().skip(1).step_by(2).map(|value| value.trim_start_matches(BASE)).collect();
            values.join(", ")
        })
    }
}

/// One row of the page: a figure on the side that is predicted.
struct Row {
    recorded: f64,
    predicted: f64,
    error: f64,
    null: f64,
}

impl Measured {
    /// Both figures of a program, predicted from `side`.
    fn rows(&self, side: usize, name: &str) -> Option<[Row; 2]> {
        let row = |figure: Figure| {
            let of = |checks: &[Value], what: &str| -> Option<Vec<f64>> {
                checks.iter().map(|check| figure.of(check, name, what)).collect()
            };
            let truth = of(&self.itself[1 - side], "recorded")?;
            let predicted = of(&self.predicted[side], "replayed")?;
            let pairs = truth.iter().enumerate().flat_map(|(index, &a)| {
                truth[index + 1..].iter().map(move |&b| off_percent(a.max(b), a.min(b)))
            });
            let null = median(pairs.collect())?;
            let errors =
                predicted.iter().zip(&truth).map(|(&predicted, &truth)| off_percent(predicted, truth));
            let error = median(errors.collect())?;
            Some(Row { recorded: median(truth)?, predicted: median(predicted)?, error, null })
        };
        let [first, second] = self.case.figures;
        Some([row(first)?, row(second)?])
    }

    /// All rows: the side that they are predicted from, the name, both figures.
    fn all_rows(&self) -> Vec<(usize, &'static str, [Row; 2])> {
        let mut all = Vec::new();
        for side in 0..2 {
            let of = |name| Some((side, name, self.rows(side, name)?));
            all.extend(self.case.names().into_iter().filter_map(of));
        }
        all
    }

    /// The errors of one case, for people who wait.
    fn text(&self) -> String {
        let sides = self.case.sides();
        let mut out = format!("{}\n", self.case.name);
        for (side, name, rows) in self.all_rows() {
            let _ = write!(out, "  to {:<24} {name:<8}", sides[1 - side]);
            for (figure, row) in self.case.figures.into_iter().zip(rows) {
                let (words, decimals) = (figure.words(), figure.decimals());
                let Row { recorded, predicted, error, null } = row;
                let _ = write!(
                    out,
                    "  {words}: {recorded:.decimals$} recorded, {predicted:.decimals$} predicted ({error:+.1} %, null {null:.1})"
                );
            }
            out.push('\n');
        }
        out
    }
}

/// The page for docs/.
fn page(measured: &[Measured], args: &TruthGroupsArgs) -> Result<String> {
    let command = if args.cases.is_empty() { String::new() } else { format!(" {}", args.cases.join(" ")) };
    let mut out = format!(
        "<!-- SPDX-License-Identifier: GPL-2.0-or-later -->\n# How true what-ifs about weights, nice values and slices are\n\n\
         Written by `cargo xtask truth-groups{command} --repeats {0}` on {1}. The programs are those of \
         [truth/groups/compete.py](../../truth/groups/compete.py); each case was recorded {0} times with some weights, \
         nice values or slices and {0} times with others, in turn, and each side was predicted from the other one by \
         `--weight`, `--nice` and `--slice`. All programs of a case were in one control group, `{BASE}`, with the largest weight there is, \
         because other programs used the machine, too; without it, programs of several sessions would be in several \
         groups, and nice values have no effect across groups. Programs on one CPU were bound to it.\n\n\
         A *share* is the CPU time of the programs of one name, by the time from the common beginning to the end of the \
         last of them. *Done* is that time; it also has what the same work takes more or less CPU time \
         in one recording than in another. Slices do not change shares; where they differ, the page has the number of \
         preemptions and the time that programs waited for a CPU. Errors are in percent of what was recorded, medians over recordings. *Null* \
         is the difference between two recordings of the same kind: no prediction can be better.\n",
        args.repeats,
        kernel_words()?,
    );
    summary(&mut out, measured);
    for one in measured {
        let Case { name, what, .. } = one.case;
        let [first, second] = one.case.sides();
        let _ = write!(out, "\n## {name}\n\n{what}: `{first}` and `{second}`.\n\n| predicted | program |",);
        for figure in one.case.figures {
            let _ = write!(out, " {} recorded | predicted | error (null) |", figure.words());
        }
        out.push_str("\n|---|---|---|---|---|---|---|---|\n");
        for (side, name, rows) in one.all_rows() {
            let _ = write!(out, "| {} | {name} |", one.case.sides()[1 - side]);
            for (figure, row) in one.case.figures.into_iter().zip(rows) {
                let decimals = figure.decimals();
                let Row { recorded, predicted, error, null } = row;
                let _ = write!(
                    out,
                    " {recorded:.decimals$} | {predicted:.decimals$} | {error:+.1} ({null:.1}) |"
                );
            }
            out.push('\n');
        }
    }
    Ok(out.lines().map(wrapped).collect())
}

/// The errors by case, without sign: a table for each pair of figures.
fn summary(out: &mut String, measured: &[Measured]) {
    let _ = writeln!(
        out,
        "\n## In short\n\nMedians over programs and both directions, without sign, in percent, and the number of figures \
         that are within {BAR_PERCENT:.0} % or the null error.",
    );
    for figures in [SHARES, SWITCHES, DELAYS] {
        let cases = || measured.iter().filter(|one| one.case.figures == figures);
        if cases().next().is_none() {
            continue;
        }
        let [first, second] = figures.map(|figure| figure.words().split(',').next().unwrap_or_default());
        let _ = write!(
            out,
            "\n| case | {first} | null | {second} | null | within |\n|---|---|---|---|---|---|\n"
        );
        let mut all = Vec::new();
        for one in cases() {
            let rows: Vec<[Row; 2]> = one.all_rows().into_iter().map(|(.., rows)| rows).collect();
            summary_line(out, one.case.name, &rows);
            all.extend(rows);
        }
        summary_line(out, "**all**", &all);
    }
}

fn summary_line(out: &mut String, name: &str, rows: &[[Row; 2]]) {
    let of = |figure: usize, pick: fn(&Row) -> f64| {
        median(rows.iter().map(|both| pick(&both[figure]).abs()).collect()).unwrap_or(f64::NAN)
    };
    let [error, null]: [fn(&Row) -> f64; 2] = [|row| row.error, |row| row.null];
    let is_within = |row: &&Row| row.error.abs() <= row.null.max(BAR_PERCENT);
    let within = rows.iter().flatten().filter(is_within).count();
    let _ = writeln!(
        out,
        "| {name} | {:.1} | {:.1} | {:.1} | {:.1} | {within} of {} |",
        of(0, error),
        of(0, null),
        of(1, error),
        of(1, null),
        rows.len() * 2,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `one` has 300 ms of CPU time and ends at 450 ms, `two` 200 ms and 550 ms; all begin at 50 ms.
    fn checked(recorded: f64, replayed: f64) -> Value {
        let tasks = |comm: &str, done: f64, cpu: f64| {
            let metric = |name: &str, ms: f64| serde_json::json!({ "name": name, "recorded": ms * recorded * 1e6, "replayed": ms * replayed * 1e6 });
            serde_json::json!({ "comm": comm, "metrics": [metric("done_ns", done), metric("cpu_ns", cpu)] })
        };
        serde_json::json!({ "tasks": [tasks("one", 450.0, 300.0), tasks("two", 550.0, 200.0), tasks(GATE, 50.0, 1.0)] })
    }

    fn case(name: &str) -> &'static Case {
        CASES.iter().find(|case| case.name == name).expect("a case")
    }

    #[test]
    fn shares_and_ends_by_hand() {
        let check = checked(1.0, 2.0);
        let of = |name: &str, what: &str| SHARES.map(|figure| figure.of(&check, name, what));
        assert_eq!(of("one", "recorded"), [Some(75.0), Some(400.0)]);
        assert_eq!(of("two", "replayed"), [Some(40.0), Some(1000.0)]);
        assert_eq!(of("three", "recorded"), [None, None]);
        // The side that is predicted took 400 and 440 ms; predicted are 480 and 440.
        let measured = Measured {
            case: case("weights-2"),
            itself: [vec![], vec![checked(1.0, 1.0), checked(1.1, 1.0)]],
            predicted: [vec![checked(1.0, 1.2), checked(1.1, 1.1)], vec![]],
        };
        let [share, done] = measured.rows(0, "one").expect("rows");
        assert_eq!((share.recorded, share.predicted, share.error), (75.0, 75.0, 0.0));
        assert!(
            (done.error - 10.0).abs() < 0.01 && (done.null - 10.0).abs() < 0.01,
            "{} {}",
            done.error,
            done.null
        );
        let mut out = String::new();
        summary(&mut out, &[measured]);
        assert!(out.contains("| weights-2 | 0.0 | 0.0 | 10.0 | 10.0 | 4 of 4 |"), "{out}");
    }

    #[test]
    fn only_what_differs_is_changed() {
        let [first, second] = case("weights-nested").sides();
        assert_eq!((first.as_str(), second.as_str()), ("/a=100, /a/y=100", "/a=250, /a/y=200"));
        assert_eq!(case("weights-2").options(1), ["--weight", "/wakelab-truth/a=300"]);
        assert_eq!(case("nice-2").options(1), ["--nice", "two=5"]);
        assert_eq!(case("slice-beside").options(1), ["--slice", "steady=20000us"]);
        assert_eq!(case("slice-both").options(0), ["--slice", "one=base", "--slice", "two=base"]);
        assert_eq!(case("weights-many").names(), ["many", "single"]);
    }

    /// Both sides must differ, and names that `--nice` changes must not be those of several programs.
    #[test]
    fn cases_can_be_predicted() {
        for case in &CASES {
            assert!(!case.options(0).is_empty(), "{}", case.name);
            for program in case.programs {
                assert!(case.groups.iter().any(|(path, _)| *path == program.group), "{}", case.name);
                let same = case.programs.iter().filter(|other| other.name == program.name);
                assert!(
                    same.clone()
                        .all(|other| (other.nice, other.slice_us) == (program.nice, program.slice_us)),
                    "{}",
                    case.name
                );
            }
        }
    }
}
