// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask truth`: how true replays are. Records the programs of truth/ several times on all CPUs and on CPU 0
//! alone, in turn; replays each recording as it was made, and as a prediction of the other; and prints the errors
//! beside the differences between recordings of the same kind (the null error) and what simpler rules predict. Each
//! recording is replayed once more from its scheduler events alone (truth_bare.rs).
//!
//! Rules: *no change* predicts what was recorded. The *utilisation law* predicts, on one CPU, the CPU time of all tasks
//! if that is more than what was recorded, and on N CPUs the CPU time divided by N plus the recorded idle time.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use crate::clang::bpf_clang;
use crate::command::{self, Skipped};
use crate::truth_bare;
use crate::truth_cgroup::Groups;

/// Arguments of `cargo xtask truth`.
#[derive(Args)]
pub(crate) struct TruthArgs {
    /// Programs of truth/; all of them if none is named.
    #[arg(value_name = "PROGRAM")]
    programs: Vec<String>,
    /// Recordings of each program on each set of CPUs; more tell the null error better and take longer.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=20))]
    repeats: u32,
    #[command(flatten)]
    files: Files,
}

/// Where recordings and pages are.
#[derive(Args)]
pub(crate) struct Files {
    /// Write the page to FILE instead of docs/results.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Keep the recordings in FOLDER.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Replay the recordings in FOLDER, which --keep left there, instead of making new ones.
    #[arg(long, value_name = "FOLDER", conflicts_with = "keep")]
    pub(crate) from: Option<PathBuf>,
}

impl Files {
    /// Returns the folder of the recordings, which exists.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = match self.keep.as_ref().or(self.from.as_ref()) {
            Some(folder) => folder.clone(),
            None => std::env::temp_dir().join(format!("wakelab-{name}-{}", std::process::id())),
        };
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Removes the folder, unless it is to be kept.
    pub(crate) fn clear(&self, folder: &Path) -> Result<()> {
        if self.keep.is_none() && self.from.is_none() {
            std::fs::remove_dir_all(folder)?;
        }
        Ok(())
    }

    /// Writes the page, and says where.
    pub(crate) fn write(&self, name: &str, page: &str) -> Result<()> {
        let in_docs = || command::root().join(format!("docs/results/{name}.md"));
        let output = self.output.clone().unwrap_or_else(in_docs);
        std::fs::write(&output, page)?;
        println!("{}", output.display());
        Ok(())
    }
}

/// Builds the lab with the programs that record messages over pipes, and returns the path of its command.
pub(crate) fn built_wakelab() -> Result<PathBuf> {
    let mut build = command::cargo();
    build.args(["build", "--quiet", "--release", "--package", "wakelab-cli", "--features", "bpf"]);
    command::run(build.env("BPF_CLANG", bpf_clang()?))?;
    Ok(command::target_folder()?.join("release/wakelab"))
}

/// The figures of `wakelab check` that the page shows, with the words for them.
const FIGURES: [(&str, &str); 9] = [
    (DONE, "done after"),
    ("cpu_ns", "CPU time"),
    ("wakeups", "wake-ups"),
    ("switches", "switches"),
    ("wakeup_latency_p50_ns", "latency p50"),
    ("wakeup_latency_p95_ns", "latency p95"),
    ("wakeup_latency_p99_ns", "latency p99"),
    ("run_delay_p50_ns", "run delay p50"),
    ("run_delay_p99_ns", "run delay p99"),
];
const DONE: &str = "done_ns";
/// Columns of prose in docs/.
const WIDTH: usize = 120;

/// One recording, and what the commands said of it.
struct Recording {
    path: PathBuf,
    /// `wakelab check` of itself.
    itself: Value,
    /// The same of its scheduler events.
    bare: Value,
}

/// A program on all CPUs and on one.
struct Program {
    name: String,
    on: [Vec<Recording>; 2],
    /// Predictions of the other set of CPUs, one for each recording.
    predicted: [Vec<Value>; 2],
    /// The same, with all wake-ups at their recorded times.
    open: [Vec<Value>; 2],
}

/// `cargo xtask truth`.
pub(crate) fn run(args: &TruthArgs) -> Result<()> {
    let wakelab = built_wakelab()?;
    let folder = args.files.folder("truth")?;
    let nr_cpus = std::thread::available_parallelism()?.get();
    if nr_cpus < 2 {
        return Err(Skipped("the machine has one CPU".to_owned()).into());
    }
    let mut programs = Vec::new();
    for script in scripts(&args.programs)? {
        match measure(&wakelab, &script, &folder, nr_cpus, args) {
            Ok(program) => {
                print!("{}", program.text());
                programs.push(program);
            }
            Err(error) if error.is::<Skipped>() => eprintln!("{error}"),
            Err(error) => return Err(error),
        }
    }
    args.files.clear(&folder)?;
    if programs.is_empty() {
        return Err(Skipped("no program could be recorded".to_owned()).into());
    }
    args.files.write("truth", &page(&programs, args, nr_cpus)?)
}

/// The scripts of truth/ by name, or those that are asked for.
fn scripts(names: &[String]) -> Result<Vec<PathBuf>> {
    let folder = command::root().join("truth");
    let mut all = command::files_in(&folder, "sh")?;
    all.retain(|path| stem(path) != "lib");
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|path| stem(path) == **name)) {
        let known: Vec<String> = all.iter().map(|path| stem(path)).collect();
        bail!("no program {unknown}; expected one of {}", known.join(", "));
    }
    all.retain(|path| names.is_empty() || names.contains(&stem(path)));
    Ok(all)
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Records a program on all CPUs and on one in turn, and replays the recordings.
fn measure(
    wakelab: &Path,
    script: &Path,
    folder: &Path,
    nr_cpus: usize,
    args: &TruthArgs,
) -> Result<Program> {
    let name = stem(script);
    let checked = Command::new("sh").arg(script).arg("check").output()?;
    if args.files.from.is_none() && !checked.status.success() {
        let why = String::from_utf8_lossy(&checked.stdout).trim().to_owned();
        return Err(Skipped(format!("{name}: {why}")).into());
    }
    let cpus = [format!("0-{}", nr_cpus - 1), "0".to_owned()];
    let mut on = [Vec::new(), Vec::new()];
    for repeat in 0..args.repeats {
        for (side, cpus) in cpus.iter().enumerate() {
            let path = folder.join(format!("{name}.{side}.{repeat}.rec.gz"));
            if args.files.from.is_none() {
                record(wakelab, script, &path, cpus)?;
            }
            let itself = predict(wakelab, &path, cpus, &path, &[])?;
            let scheduler = folder.join(format!("{name}.{side}.{repeat}.bare.txt"));
            truth_bare::strip(&path, &scheduler)?;
            let bare = predict(wakelab, &scheduler, cpus, &scheduler, &[])?;
            std::fs::remove_file(&scheduler)?;
            on[side].push(Recording { path, itself, bare });
        }
    }
    let (mut predicted, mut open) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for side in 0..2 {
        for (from, truth) in on[side].iter().zip(&on[1 - side]) {
            let to = &cpus[1 - side];
            predicted[side].push(predict(wakelab, &from.path, to, &truth.path, &[])?);
            open[side].push(predict(wakelab, &from.path, to, &truth.path, &["--recorded-times"])?);
        }
    }
    Ok(Program { name, on, predicted, open })
}

fn record(wakelab: &Path, script: &Path, path: &Path, cpus: &str) -> Result<()> {
    let groups = Groups::new()?;
    let [enter, arguments @ ..] = groups.inside();
    let verb = |verb: &str| {
        let mut command = Command::new(enter);
        command.args(arguments).arg("sh").arg(script).arg(verb).env("TRUTH_CPUS", cpus);
        command
    };
    let names = command::text(&mut verb("names"))?;
    command::run(&mut verb("prepare"))?;
    let recorded = command::output(
        Command::new(wakelab)
            .arg("record")
            .arg("-o")
            .arg(path)
            .args(names.split_whitespace().flat_map(|name| ["--of", name]))
            .arg("--")
            .args(groups.inside())
            .args(["taskset", "-c", cpus, "sh"])
            .arg(script)
            .arg("run")
            .env("TRUTH_CPUS", cpus),
    );
    command::run(&mut verb("finish"))?;
    recorded.map(drop)
}

/// What `wakelab check` says of a replay of `from` on `cpus`, beside `truth`. A recording does not tell the CPUs that
/// taskset gave its tasks, so they are told for replays of what was recorded, too.
fn predict(wakelab: &Path, from: &Path, cpus: &str, truth: &Path, options: &[&str]) -> Result<Value> {
    let mut command = Command::new(wakelab);
    command.arg("check").arg(from).args(["--cpus", cpus, "--against"]).arg(truth).args(options);
    let text = command::output(command.args(["--format", "json"]))?;
    serde_json::from_slice(&text).context("no JSON from wakelab check")
}

/// A value of a metric: `recorded`, `replayed` or `error_percent`.
pub(crate) fn value(check: &Value, figure: &str, what: &str) -> Option<f64> {
    let metrics = check["metrics"].as_array()?;
    metrics.iter().find(|metric| metric["name"] == figure)?[what].as_f64()
}

pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

pub(crate) fn off_percent(predicted: f64, truth: f64) -> f64 {
    (predicted / truth - 1.0) * 100.0
}

/// How far values of the same kind are from each other: the median over pairs.
pub(crate) fn spread_percent(values: &[f64]) -> Option<f64> {
    let pairs = values
        .iter()
        .enumerate()
        .flat_map(|(index, &a)| values[index + 1..].iter().map(move |&b| off_percent(a.max(b), a.min(b))));
    median(pairs.collect())
}

impl Program {
    fn recorded(&self, side: usize, figure: &str) -> Vec<f64> {
        let of = |recording: &Recording| value(&recording.itself, figure, "recorded");
        self.on[side].iter().filter_map(of).filter(|&value| value > 0.0).collect()
    }

    /// How far recordings of the same kind are from each other.
    fn null_percent(&self, side: usize, figure: &str) -> Option<f64> {
        spread_percent(&self.recorded(side, figure))
    }

    fn self_percent(&self, side: usize, figure: &str) -> Option<f64> {
        let of = |recording: &Recording| value(&recording.itself, figure, "error_percent");
        median(self.on[side].iter().filter_map(of).collect())
    }

    fn bare_percent(&self, side: usize, figure: &str) -> Option<f64> {
        median(
            self.on[side]
                .iter()
                .filter_map(|recording| value(&recording.bare, figure, "error_percent"))
                .collect(),
        )
    }

    fn predicted_percent(&self, side: usize, figure: &str) -> Option<f64> {
        median(
            self.predicted[side].iter().filter_map(|check| value(check, figure, "error_percent")).collect(),
        )
    }

    fn open_percent(&self, side: usize, figure: &str) -> Option<f64> {
        median(self.open[side].iter().filter_map(|check| value(check, figure, "error_percent")).collect())
    }

    fn no_change_percent(&self, side: usize, figure: &str) -> Option<f64> {
        let (from, truth) = (median(self.recorded(side, figure))?, median(self.recorded(1 - side, figure))?);
        Some(off_percent(from, truth))
    }

    /// The utilisation law for the end.
    fn law_percent(&self, side: usize, nr_cpus: usize) -> Option<f64> {
        let (done_ns, cpu_ns) = (median(self.recorded(side, DONE))?, median(self.recorded(side, "cpu_ns"))?);
        let predicted = match side {
            0 => done_ns.max(cpu_ns),
            _ => cpu_ns / nr_cpus as f64 + (done_ns - cpu_ns).max(0.0),
        };
        Some(off_percent(predicted, median(self.recorded(1 - side, DONE))?))
    }

    /// By how many percent a figure truly changes, and by how many it is predicted to; `None` if it does not change by
    /// more than the null error.
    fn changes_percent(&self, side: usize, figure: &str) -> Option<(f64, f64)> {
        let null = self.null_percent(0, figure)?.max(self.null_percent(1, figure)?);
        let truth = median(self.recorded(1 - side, figure))?;
        let from = median(self.recorded(side, figure))?;
        let predicted = truth * (1.0 + self.predicted_percent(side, figure)? / 100.0);
        let is_change = off_percent(truth.max(from), truth.min(from)) > null;
        is_change.then(|| (off_percent(truth, from), off_percent(predicted, from)))
    }

    /// The errors of one program, for people who wait.
    fn text(&self) -> String {
        let mut out = format!("{}\n", self.name);
        for (side, title) in ["all CPUs", "CPU 0"].iter().enumerate() {
            let _ = write!(out, "  {title:<9}");
            for (figure, label) in FIGURES {
                let _ = write!(out, "  {label} {}", percent(self.self_percent(side, figure)));
            }
            out.push('\n');
        }
        out
    }
}

pub(crate) fn percent(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() >= 999.5 => format!("x{:.0}", value / 100.0 + 1.0),
        Some(value) => format!("{value:+.0}"),
    }
}

/// Says on what a page was measured.
pub(crate) fn kernel_words() -> Result<String> {
    let nr_cpus = std::thread::available_parallelism()?;
    let kernel = command::text(Command::new("uname").arg("-r"))?;
    let line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let packs = line.split_whitespace().find(|word| word.starts_with("sched_vcpu_pack"));
    let packs = packs.map(|word| format!(" (not mainline: booted with {word})")).unwrap_or_default();
    Ok(format!("{nr_cpus} CPUs, Linux {kernel}{packs}"))
}

/// The page for docs/.
fn page(programs: &[Program], args: &TruthArgs, nr_cpus: usize) -> Result<String> {
    let command =
        if args.programs.is_empty() { String::new() } else { format!(" {}", args.programs.join(" ")) };
    let mut out = format!(
        "<!-- SPDX-License-Identifier: GPL-2.0-or-later -->\n# How true replays are\n\n\
         Written by `cargo xtask truth{command} --repeats {}` on {}. The programs are in \
         [truth/](../../truth/README.md); each was recorded {} times on all CPUs and on CPU 0 alone, in turn, in \
         one control group with the largest weight there is, because other programs used the machine, too.\n\n\
         Errors are in percent of what was recorded, medians over recordings; `x12` is 12 times as much. *Null* is the \
         difference between two recordings of the same kind: no prediction can be better.\n",
        args.repeats,
        kernel_words()?,
        args.repeats,
    );
    let all = format!("{nr_cpus} CPUs");
    for (side, title) in [all.as_str(), "1 CPU"].iter().enumerate() {
        table(&mut out, &format!("Replayed as recorded, {title}"), programs, |program, figure| {
            (program.self_percent(side, figure), program.null_percent(side, figure))
        });
    }
    for (side, title) in [format!("{nr_cpus} CPUs to 1"), format!("1 CPU to {nr_cpus}")].iter().enumerate() {
        table(&mut out, &format!("Predicted: from {title}"), programs, |program, figure| {
            (program.predicted_percent(side, figure), program.null_percent(1 - side, figure))
        });
    }
    out.push_str(
        "\n## From the scheduler's events alone\n\nThe same recordings without messages, calls of futex(2), interrupts, \
         and what `wakelab record` measured and noted, but for the kernel\'s release, which perf notes, too: what `perf \
         sched record` has. Its patch is not known, and the service is what takes most of the CPU time.\n",
    );
    for (side, title) in [all.as_str(), "1 CPU"].iter().enumerate() {
        table(&mut out, &format!("Scheduler's events alone, {title}"), programs, |program, figure| {
            (program.bare_percent(side, figure), program.null_percent(side, figure))
        });
    }
    baselines(&mut out, programs, nr_cpus);
    Ok(out.lines().map(wrapped).collect())
}

/// A line of the page with its newline; prose is broken at the house's width.
pub(crate) fn wrapped(line: &str) -> String {
    let mut out = String::new();
    let mut length = 0;
    let breaks = !line.starts_with(['|', '#', '<']);
    for word in line.split(' ') {
        let sep = if length == 0 {
            ""
        } else if breaks && length + 1 + word.len() > WIDTH {
            "\n"
        } else {
            " "
        };
        length = if sep == "\n" { word.len() } else { length + sep.len() + word.len() };
        out.push_str(sep);
        out.push_str(word);
    }
    out + "\n"
}

/// A table of `error (null)` by program and figure, with the medians of both.
fn table(
    out: &mut String,
    title: &str,
    programs: &[Program],
    of: impl Fn(&Program, &str) -> (Option<f64>, Option<f64>),
) {
    let _ = write!(out, "\n## {title}\n\n| program |");
    FIGURES.iter().for_each(|(_, label)| {
        let _ = write!(out, " {label} |");
    });
    let _ = write!(out, "\n|---|{}\n", "---|".repeat(FIGURES.len()));
    for program in programs {
        let _ = write!(out, "| {} |", program.name);
        for (figure, _) in FIGURES {
            let (error, null) = of(program, figure);
            let _ = write!(out, " {} ({}) |", percent(error), percent(null).trim_start_matches('+'));
        }
        out.push('\n');
    }
    out.push_str("| **median, without sign** |");
    for (figure, _) in FIGURES {
        let pairs: Vec<_> = programs.iter().map(|program| of(program, figure)).collect();
        let error = median(pairs.iter().filter_map(|pair| pair.0.map(f64::abs)).collect());
        let null = median(pairs.iter().filter_map(|pair| pair.1).collect());
        let bare = |value| percent(value).trim_start_matches('+').to_owned();
        let _ = write!(out, " **{}** ({}) |", bare(error), bare(null));
    }
    out.push('\n');
}

/// Predictions beside those of simpler rules.
fn baselines(out: &mut String, programs: &[Program], nr_cpus: usize) {
    let _ = write!(
        out,
        "\n## Beside simpler rules\n\nMedians over programs and both directions, without sign. *No change* predicts \
         what was recorded. The *utilisation law* predicts the CPU time of all tasks on one CPU, if that is more than \
         was recorded, and on {nr_cpus} the CPU time divided by {nr_cpus}, plus the recorded idle time. The *open \
         loop* is a replay in which all wake-ups come at their recorded times (`--recorded-times`). *Direction* \
         counts the predictions that change a figure to the right side, where it changed by more than the null \
         error.\n\n| figure | wakelab | no change | utilisation law | open loop | direction |\n|---|---|---|---|---|---|\n"
    );
    let both = |of: &dyn Fn(&Program, usize) -> Option<f64>| {
        let all = programs.iter().flat_map(|program| [of(program, 0), of(program, 1)]);
        percent(median(all.flatten().map(f64::abs).collect())).trim_start_matches('+').to_owned()
    };
    let mut wrong = [Vec::new(), Vec::new()];
    for (figure, label) in FIGURES {
        let mut directions = Vec::new();
        for program in programs {
            for (side, wrong) in wrong.iter_mut().enumerate() {
                let Some((truly, predicted)) = program.changes_percent(side, figure) else { continue };
                directions.push(truly * predicted > 0.0);
                if truly * predicted <= 0.0 {
                    wrong.push(format!(
                        "{label} of {} ({truly:+.1} %, predicted {predicted:+.1})",
                        program.name
                    ));
                }
            }
        }
        let law = if figure == DONE {
            both(&|program, side| program.law_percent(side, nr_cpus))
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "| {label} | {} | {} | {law} | {} | {} of {} |",
            both(&|program, side| program.predicted_percent(side, figure)),
            both(&|program, side| program.no_change_percent(side, figure)),
            both(&|program, side| program.open_percent(side, figure)),
            directions.iter().filter(|&&right| right).count(),
            directions.len(),
        );
    }
    for (wrong, from_to) in wrong.iter().zip([format!("{nr_cpus} CPUs to 1"), format!("1 CPU to {nr_cpus}")])
    {
        let all = if wrong.is_empty() { "none".to_owned() } else { wrong.join(", ") };
        let _ = write!(out, "\nTo the wrong side, from {from_to}, with the true change: {all}.\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(done: f64, replayed: f64) -> Value {
        let metric = |name: &str, recorded: f64, replayed: f64| {
            serde_json::json!({
                "name": name, "recorded": recorded, "replayed": replayed,
                "error_percent": off_percent(replayed, recorded),
            })
        };
        serde_json::json!({ "metrics": [metric(DONE, done, replayed), metric("cpu_ns", 150.0, 150.0)] })
    }

    /// On two CPUs 100 and 110, on one 200 and 190; predicted are 180 and 198 for one, and 90 for two.
    fn program() -> Program {
        let recordings = |done: [f64; 2]| {
            let of = |done: f64| Recording {
                path: PathBuf::new(),
                itself: checked(done, done * 1.1),
                bare: checked(done, done * 0.8),
            };
            done.map(of).into()
        };
        Program {
            name: "p".to_owned(),
            on: [recordings([100.0, 110.0]), recordings([200.0, 190.0])],
            predicted: [vec![checked(200.0, 180.0), checked(190.0, 198.0)], vec![checked(100.0, 90.0)]],
            open: [vec![checked(200.0, 100.0)], vec![checked(100.0, 130.0)]],
        }
    }

    #[test]
    fn errors_by_hand() {
        let program = program();
        let near = |value: Option<f64>, expected: f64| {
            let value = value.expect("a value");
            assert!((value - expected).abs() < 0.01, "{value}, expected {expected}");
        };
        near(program.null_percent(0, DONE), 10.0);
        near(program.self_percent(1, DONE), 10.0);
        near(program.bare_percent(1, DONE), -20.0);
        // The median of -10 % and +4.21 %.
        near(program.predicted_percent(0, DONE), -2.89);
        near(program.no_change_percent(0, DONE), -46.15);
        // 150 of CPU time on one CPU; on two, 75 and 195 - 150 of idle time.
        near(program.law_percent(0, 2), -23.08);
        near(program.law_percent(1, 2), 14.29);
        // From 105 to 195, predicted 189.36; and from 195 to 105, predicted 94.5.
        let changes = [0, 1].map(|side| program.changes_percent(side, DONE).unzip());
        near(changes[0].0, 85.71);
        near(changes[0].1, 80.34);
        near(changes[1].0, -46.15);
        near(changes[1].1, -51.54);
        assert_eq!(program.changes_percent(0, "cpu_ns"), None, "it did not change");
    }

    #[test]
    fn prose_is_broken_and_tables_are_not() {
        let words = "word ".repeat(40);
        assert!(wrapped(words.trim()).lines().all(|line| line.len() <= WIDTH));
        assert_eq!(wrapped(&format!("| {words}|")).lines().count(), 1);
    }

    #[test]
    fn a_page_has_all_programs() {
        let mut out = String::new();
        table(&mut out, "t", &[program(), program()], |program, figure| {
            (program.self_percent(0, figure), program.null_percent(0, figure))
        });
        assert_eq!(out.matches("\n| p | +10 (10) | +0 (0) | - (-) |").count(), 2, "{out}");
        assert!(out.contains("| **median, without sign** | **10** (10) | **0** (0) |"), "{out}");
        let mut out = String::new();
        baselines(&mut out, &[program()], 2);
        assert!(out.contains("| done after | 6 | 66 | 19 | 40 | 2 of 2 |"), "{out}");
    }
}
