// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask vm bench`: what the scheduler costs on a live kernel, beside the kernel's own; writes
//! docs/results/live-bench.md.
//!
//! The page itself says what emulation can show, and how it is measured. The guest's side is vm/bench.sh. A part that
//! was not asked for keeps its tables.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use wakelab_policy::{AxisValue, PolicySpec};

use crate::command;
use crate::vm_guest::{Accel, Guest, Tally, build_guest_work, build_loader};

/// Arguments of `cargo xtask vm bench`.
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Only this part; can be given more than once (default: all).
    #[arg(long, value_name = "PART")]
    part: Vec<Part>,
    /// Only the policy of this name, or those whose name contains this, beside the kernel's own scheduler; can be given
    /// more than once. Of a part's table only these rows are written.
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Runs for each figure.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..))]
    runs: u32,
    /// A few short runs, printed and not written to docs/.
    #[arg(long)]
    quick: bool,
    /// Give up on a part after SECONDS.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    limit: u64,
}

/// What is measured in one boot.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Guest instructions for a hackbench message and for a wake-up.
    Path,
    /// Guest instructions of a search for an idle CPU, and of the kernel's default one.
    Search,
    /// Time of hackbench, and latency of wake-ups, against the kernel's own scheduler.
    Time,
    /// Makespan of bursts of computing.
    Burst,
    /// CPU time of task groups.
    Shares,
    /// What pods of Kubernetes leave to kernel workers and system services.
    Pods,
}

/// The kernel's own scheduler, and one of sched_ext without hooks, as vm/bench.sh names them.
const KERNEL: &str = "eevdf";
const EMPTY: &str = "empty";
/// The kernel's own scheduler and the default policy with their work in a cgroup, as vm/bench.sh names them.
const KERNEL_GROUPED: &str = "eevdf@cgroup";
const GROUPED: &str = "wakelab@cgroup";
const SMP_8: &str = "8,sockets=2,cores=2,threads=2";

/// What an axis is changed in.
const BASE: &str = "linux-4.15";

/// [`BASE`] with every other value of an axis.
fn changed(axis: &str) -> Vec<String> {
    let axis = PolicySpec::axes().iter().find(|its| its.name == axis).expect("an axis of policies");
    let base = PolicySpec::named().iter().find(|named| named.name == BASE).expect("a named policy");
    let with = |value: &AxisValue| format!("{BASE}+{}={}", axis.name, value.name);
    let is_other = |text: &String| text.parse::<PolicySpec>().is_ok_and(|spec| spec != base.spec);
    axis.values.iter().map(with).filter(is_other).collect()
}

/// Policies that have every value of the axes idle and affine, and both kinds of queue; and the default one.
fn placement() -> Vec<String> {
    let ours = ["linux-6.12".to_owned(), "wakelab".to_owned()];
    [vec![BASE.to_owned()], changed("idle"), changed("affine"), ours.to_vec()].concat()
}

/// The searches alone, and after wake-affine.
fn searches() -> Vec<String> {
    let all: Vec<String> = [BASE.to_owned()].into_iter().chain(changed("idle")).collect();
    let alone = all.iter().map(|spec| format!("{spec}+affine=off"));
    alone.chain(all.iter().cloned()).chain(["linux-6.12".to_owned()]).collect()
}

/// The design of groups=shares as it was published.
const PUBLISHED_SHARES: &str = "linux-2.6.24+groups=shares";

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Path => "path",
            Part::Search => "search",
            Part::Time => "time",
            Part::Burst => "burst",
            Part::Shares => "shares",
            Part::Pods => "pods",
        }
    }

    /// QEMU's `-smp`, and how its CPUs are emulated.
    fn machine(self) -> (&'static str, Accel) {
        match self {
            Part::Path | Part::Pods => ("2", Accel::Icount { shift: 0 }),
            Part::Search | Part::Burst => (SMP_8, Accel::Icount { shift: 0 }),
            // The machine of the step fair (vm_test.rs).
            Part::Shares => ("8,sockets=1,cores=8,threads=1", Accel::Icount { shift: 0 }),
            Part::Time => ("2", Accel::Multi),
        }
    }

    fn policies(self) -> Vec<String> {
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        // The base is among the policies already.
        let groups = || changed("groups");
        match self {
            Part::Path => {
                [named(&[KERNEL, EMPTY]), placement(), named(&[KERNEL_GROUPED, GROUPED]), groups()].concat()
            }
            Part::Burst => [named(&[KERNEL, EMPTY]), placement(), groups()].concat(),
            Part::Search => searches(),
            Part::Time => {
                [named(&[EMPTY]), placement(), named(&[KERNEL_GROUPED, GROUPED]), groups()].concat()
            }
            Part::Shares => [named(&[KERNEL, PUBLISHED_SHARES, BASE]), groups()].concat(),
            Part::Pods => named(&[KERNEL, "wakelab"]),
        }
    }

    /// The lines of /plan for one policy.
    fn plan(self, spec: &str, args: &BenchArgs) -> Vec<String> {
        let runs = if args.quick { 3 } else { args.runs };
        let length = |full: u32| if args.quick { full / 4 } else { full };
        match self {
            Part::Path => vec![
                format!("path {spec} {} {runs}", length(20)),
                format!("wake {spec} {} {runs}", length(100)),
            ],
            Part::Search => vec![format!("search {spec}")],
            Part::Time => vec![
                format!("time {spec} {} {runs}", length(400)),
                format!("latency {spec} {} {runs}", length(400)),
            ],
            Part::Burst => BURSTS
                .iter()
                .map(|(tasks, ms, rounds)| {
                    format!("burst {spec} {tasks} {ms} {}", if args.quick { 1 } else { *rounds })
                })
                .collect(),
            Part::Shares => vec![format!("shares {spec} {}", length(20_000))],
            Part::Pods => vec![format!("pods {spec} {}", length(100))],
        }
    }
}

/// Tasks, CPU time of each in ms, and rounds of which the mean is taken.
const BURSTS: [(u32, u32, u32); 4] = [(8, 20, 8), (16, 20, 8), (8, 100, 4), (16, 100, 4)];

/// A report of the guest: its kind, the policy, and the values.
struct Sample {
    what: String,
    spec: String,
    values: Vec<String>,
}

impl Sample {
    fn number(&self, at: usize) -> Option<f64> {
        self.values.get(at)?.parse().ok()
    }

    /// The value of NAME=VALUE.
    fn named(&self, name: &str) -> Result<&str> {
        let found = self.values.iter().find_map(|value| value.strip_prefix(name)?.strip_prefix('='));
        found.with_context(|| format!("no {name} in {:?}", self.values))
    }
}

/// `cargo xtask vm bench`.
pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    let parts = if args.part.is_empty() { Part::value_variants().to_vec() } else { args.part.clone() };
    let mut programs = vec![build_loader()?, build_guest_work()?];
    if parts.contains(&Part::Pods) {
        // For a real-time task, and to bind tasks to CPUs (vm/lib.sh).
        programs.push(command::find_program(&["perl"]).context("no perl (perl-base)")?);
    }
    for part in parts {
        let samples = measure(part, args, &programs)?;
        let table = match part {
            Part::Path => path_table(&samples),
            Part::Search => search_table(&samples),
            Part::Time => time_table(&samples),
            Part::Burst => burst_table(&samples),
            Part::Shares => shares_table(&samples),
            Part::Pods => pods_table(&samples),
        }?;
        println!("\n{table}");
        if !args.quick {
            let path = command::root().join("docs/results/live-bench.md");
            let page =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let old = if args.only.is_empty() { "" } else { between(&page, part.name())?.1 };
            fs::write(&path, replaced(&page, part.name(), &merged(old, &table))?)
                .with_context(|| format!("cannot write {}", path.display()))?;
            println!("bench: wrote the part {} of {}", part.name(), path.display());
        }
    }
    Ok(())
}

/// Boots the machine of a part. Returns what was measured.
fn measure(part: Part, args: &BenchArgs, programs: &[PathBuf]) -> Result<Vec<Sample>> {
    let all = part.policies();
    let is_meant = |text: &String, spec: &str| {
        if all.contains(text) { spec == text } else { spec.contains(text) }
    };
    let chosen = |spec: &&String| {
        *spec == KERNEL || args.only.is_empty() || args.only.iter().any(|text| is_meant(text, spec))
    };
    let plan: Vec<String> = all.iter().filter(chosen).flat_map(|spec| part.plan(spec, args)).collect();
    let (smp, accel) = part.machine();
    let guest = Guest {
        name: "bench",
        smp,
        accel,
        memory: "1G",
        // In virtual time the counters of all CPUs are one; the kernel need not test that, nor avoid them. In real
        // time it would take the HPET as its clock, at each look a lock of the emulator, and a policy looks often.
        // With ticks at the same time each of 8 CPUs that take turns would have one in 8 ms (vm_test.rs).
        kernel_arguments: match part {
            Part::Shares => "tsc=reliable skew_tick=1",
            _ => "tsc=reliable",
        },
        programs: programs.to_vec(),
        init: "bench.sh",
        files: vec![("plan", plan.join("\n") + "\n")],
        limit: Duration::from_secs(args.limit),
    };
    let start = Instant::now();
    let mut tally = Tally::new(part.name());
    let mut samples = Vec::new();
    let ran = guest.run(|line| match tally.line(line) {
        Some(("result", rest)) => {
            println!("  {rest}");
            let mut words = rest.split_whitespace().map(str::to_owned);
            if let (Some(what), Some(spec)) = (words.next(), words.next()) {
                samples.push(Sample { what, spec, values: words.collect() });
            }
        }
        Some(_) => tally.unknown(line),
        None => {}
    });
    tally.guest_ended(ran, &[]);
    tally.finish(&format!("{} s in the guest", start.elapsed().as_secs()))?;
    Ok(samples)
}

// ---------------------------------------------------------------- statistics

/// Returns the mean and the half width of its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mean {
    value: f64,
    half: f64,
}

/// The quantile 0.975 of Student's distribution of 1, 2, ... degrees of freedom; beyond, that of the last is a little
/// wide.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

fn mean(values: &[f64]) -> Result<Mean> {
    ensure!(values.len() > 1, "{} runs give no interval", values.len());
    let n = values.len() as f64;
    let value = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|x| (x - value).powi(2)).sum::<f64>() / (n - 1.0);
    Ok(Mean { value, half: STUDENT[(values.len() - 2).min(STUDENT.len() - 1)] * (variance / n).sqrt() })
}

/// Returns the geometric mean of the quotients of pairs, and its 95 % interval.
fn ratio(pairs: &[(f64, f64)]) -> Result<String> {
    let logs: Vec<f64> = pairs.iter().map(|(base, other)| (other / base).ln()).collect();
    let Mean { value, half } = mean(&logs)?;
    Ok(format!("{:.3} [{:.3}, {:.3}]", value.exp(), (value - half).exp(), (value + half).exp()))
}

/// Returns the policies in the order in which they were measured.
fn specs<'a>(samples: &'a [Sample], what: &str) -> Vec<&'a str> {
    let mut specs: Vec<&str> = Vec::new();
    for sample in samples.iter().filter(|sample| sample.what == what) {
        if !specs.contains(&sample.spec.as_str()) {
            specs.push(&sample.spec);
        }
    }
    specs
}

/// The values that `of` makes of the samples of one kind and policy, in the order of the runs.
fn series(
    samples: &[Sample],
    what: &str,
    spec: &str,
    of: impl Fn(&Sample) -> Option<f64>,
) -> Result<Vec<f64>> {
    samples
        .iter()
        .filter(|sample| sample.what == what && sample.spec == spec)
        .map(|sample| {
            of(sample)
                .filter(|value| value.is_finite())
                .with_context(|| format!("{what} of {spec}: not numbers: {:?}", sample.values))
        })
        .collect()
}

/// Returns the name of a policy in a table.
fn title(spec: &str) -> String {
    match spec {
        KERNEL => "EEVDF, the kernel's own".into(),
        KERNEL_GROUPED => "EEVDF, in a cgroup".into(),
        EMPTY => "sched_ext without hooks".into(),
        GROUPED => "`wakelab`, in a cgroup".into(),
        spec => format!("`{spec}`"),
    }
}

// ---------------------------------------------------------------- tables

fn path_table(samples: &[Sample]) -> Result<String> {
    let per = |sample: &Sample| Some(sample.number(1)? / sample.number(2)?);
    let switches = |sample: &Sample| Some(sample.number(3)? / sample.number(2)?);
    let mut out = String::from(
        "| scheduler | instructions a message | to EEVDF's | switches a message | instructions a wake-up | to EEVDF's |\n\
         |---|---|---|---|---|---|\n",
    );
    let base = series(samples, "path", KERNEL, per)?;
    let base_wake = series(samples, "wake", KERNEL, per)?;
    let pairs = |base: &[f64], own: &[f64]| base.iter().copied().zip(own.iter().copied()).collect::<Vec<_>>();
    for spec in specs(samples, "path") {
        let messages = series(samples, "path", spec, per)?;
        let wakes = series(samples, "wake", spec, per)?;
        let (message, wake) = (mean(&messages)?, mean(&wakes)?);
        writeln!(
            out,
            "| {} | {:.0} ± {:.0} | {} | {:.2} | {:.0} ± {:.0} | {} |",
            title(spec),
            message.value,
            message.half,
            ratio(&pairs(&base, &messages))?,
            mean(&series(samples, "path", spec, switches)?)?.value,
            wake.value,
            wake.half,
            ratio(&pairs(&base_wake, &wakes))?,
        )?;
    }
    writeln!(out, "\n{} runs each.", base.len())?;
    Ok(out)
}

fn search_table(samples: &[Sample]) -> Result<String> {
    let mut out = String::from(
        "| policy | searches | instructions | default searches | instructions | quotient |\n|---|---|---|---|---|---|\n",
    );
    for sample in samples.iter().filter(|sample| sample.what == "search") {
        // policy N times A ns, default M times B ns, clock C ns
        let at = |at: usize| sample.number(at).with_context(|| format!("not a search: {:?}", sample.values));
        let (n, own, default_n, default) = (at(1)?, at(3)?, at(6)?, at(8)?);
        writeln!(
            out,
            "| {} | {n} | {own} | {default_n} | {default} | {:.2} |",
            title(&sample.spec),
            own / default
        )?;
    }
    Ok(out)
}

/// Where the values of EEVDF's hackbench begin in a pair's, and those of the other one. Each has NS MESSAGES SWITCHES
/// INTERRUPTS IDLE_MS (vm/bench.sh).
const BASE_AT: usize = 1;
const OWN_AT: usize = 6;

fn time_table(samples: &[Sample]) -> Result<String> {
    let mut out = String::from(
        "| scheduler | hackbench's time to EEVDF's | pairs | switches a message; EEVDF's | interrupts a message; EEVDF's | idle, %; EEVDF's | schbench's p99 to EEVDF's | pairs |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for spec in specs(samples, "time") {
        let pairs = |what, base: usize, own: usize| -> Result<Vec<(f64, f64)>> {
            let base = series(samples, what, spec, |sample| sample.number(base))?;
            Ok(base.into_iter().zip(series(samples, what, spec, |sample| sample.number(own))?).collect())
        };
        let (time, latency) = (pairs("time", BASE_AT, OWN_AT)?, pairs("latency", 1, 2)?);
        let quotient = |value: usize, by: usize| -> Result<f64> {
            let of = |sample: &Sample| Some(sample.number(value)? / sample.number(by)?);
            Ok(mean(&series(samples, "time", spec, of)?)?.value)
        };
        let switches = |at: usize| quotient(at + 2, at + 1);
        let interrupts = |at: usize| quotient(at + 3, at + 1);
        // Two CPUs; ms idled by ns.
        let idle_percent = |at: usize| Ok::<f64, anyhow::Error>(quotient(at + 4, at)? * 1e6 * 100.0 / 2.0);
        writeln!(
            out,
            "| {} | {} | {} | {:.4}; {:.4} | {:.4}; {:.4} | {:.1}; {:.1} | {} | {} |",
            title(spec),
            ratio(&time)?,
            time.len(),
            switches(OWN_AT)?,
            switches(BASE_AT)?,
            interrupts(OWN_AT)?,
            interrupts(BASE_AT)?,
            idle_percent(OWN_AT)?,
            idle_percent(BASE_AT)?,
            ratio(&latency)?,
            latency.len()
        )?;
    }
    Ok(out)
}

fn burst_table(samples: &[Sample]) -> Result<String> {
    let mut out = String::from("| scheduler |");
    for (tasks, ms, _) in BURSTS {
        write!(out, " {tasks} x {ms} ms | to EEVDF's |")?;
    }
    out += "\n|---|";
    out += &"---|---|".repeat(BURSTS.len());
    out += "\n";
    let makespan = |spec: &str, (tasks, ms, _): (u32, u32, u32)| -> Result<f64> {
        let of = |sample: &Sample| {
            (sample.number(0)? == f64::from(tasks) && sample.number(1)? == f64::from(ms))
                .then(|| sample.number(2))?
        };
        samples
            .iter()
            .filter(|sample| sample.what == "burst" && sample.spec == spec)
            .find_map(of)
            .with_context(|| format!("no makespan of {tasks} x {ms} ms under {spec}"))
    };
    for spec in specs(samples, "burst") {
        write!(out, "| {} |", title(spec))?;
        for burst in BURSTS {
            let own = makespan(spec, burst)?;
            write!(out, " {:.1} ms | {:.3} |", own / 1e6, own / makespan(KERNEL, burst)?)?;
        }
        out += "\n";
    }
    Ok(out)
}

fn shares_table(samples: &[Sample]) -> Result<String> {
    let mut out = String::from(
        "| scheduler | 8 spinners | 4 spinners | 3 spinners | greatest deviation, points | CPU time used, % |\n|---|---|---|---|---|---|\n",
    );
    for sample in samples.iter().filter(|sample| sample.what == "shares") {
        write!(out, "| {} |", title(&sample.spec))?;
        for name in ["eight", "four", "three", "off", "busy"] {
            write!(out, " {} |", sample.named(name)?)?;
        }
        out += "\n";
    }
    Ok(out)
}

/// What is measured in milliseconds beside pods: the work and the figure.
const BESIDE_PODS: [(&str, &str); 4] =
    [("workers", "p50_ns"), ("workers", "max_ns"), ("compute", "p50_ns"), ("compute", "max_ns")];

fn pods_table(samples: &[Sample]) -> Result<String> {
    let mut out = String::from(
        "| scheduler | kernel workers, median | longest | a service's 0.1 ms, median | longest | \
         a busy service, % of the CPU | its longest wait |\n|---|---|---|---|---|---|---|\n",
    );
    let kinds = [("compute", "pods compute"), ("pipe", "pods use a pipe")];
    for (kind, meaning) in kinds {
        for spec in specs(samples, "pods") {
            let number = |work: &str, name: &str| -> Result<f64> {
                let is_it = |sample: &&Sample| {
                    sample.spec == spec
                        && sample.values.first().is_some_and(|word| word == kind)
                        && sample.values.get(1).is_some_and(|word| word == work)
                };
                let sample =
                    samples.iter().find(is_it).with_context(|| format!("{spec}, {kind}: no {work}"))?;
                sample.named(name)?.parse().with_context(|| format!("{work}: {name} is not a number"))
            };
            write!(out, "| {}; {meaning} |", title(spec))?;
            for (work, name) in BESIDE_PODS {
                write!(out, " {:.2} ms |", number(work, name)? / 1e6)?;
            }
            let part = 100.0 * number("spin", "cpu_ns")? / number("spin", "wall_ns")?;
            writeln!(out, " {part:.1} | {:.0} ms |", number("spin", "longest_wait_ns")? / 1e6)?;
        }
    }
    Ok(out)
}

/// Returns the text before, between and after the marks of a part.
fn between<'a>(page: &'a str, part: &str) -> Result<(&'a str, &'a str, &'a str)> {
    let (begin, end) = (format!("<!-- part: {part} -->\n"), format!("<!-- end of part: {part} -->"));
    let Some(at) = page.find(&begin) else { bail!("docs/results/live-bench.md has no `{}`", begin.trim()) };
    let (before, rest) = page.split_at(at + begin.len());
    let Some(at) = rest.find(&end) else { bail!("docs/results/live-bench.md has no `{end}`") };
    let (old, after) = rest.split_at(at);
    Ok((before, old, after))
}

/// Returns the page with another table between a part's marks.
fn replaced(page: &str, part: &str, table: &str) -> Result<String> {
    let (before, _, after) = between(page, part)?;
    Ok(format!("{before}{table}{after}"))
}

/// A table with the rows of a new one: rows are known by their first cell. If there was none of these columns, the new
/// one.
fn merged(old: &str, new: &str) -> String {
    let title = |line: &str| line.split('|').nth(1).unwrap_or_default().trim().to_owned();
    if old.lines().next() != new.lines().next() {
        return new.into();
    }
    let is_row = |line: &&str| line.starts_with('|');
    let mut rows: Vec<&str> = old.lines().filter(is_row).collect();
    // The head, two lines, is the same.
    for row in new.lines().filter(is_row).skip(2) {
        match rows.iter_mut().skip(2).find(|known| title(known) == title(row)) {
            Some(known) => *known = row,
            None => rows.push(row),
        }
    }
    let rest: Vec<&str> = new.lines().filter(|line| !is_row(line)).collect();
    [rows, rest].concat().iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(text: &str) -> Sample {
        let mut words = text.split(' ').map(str::to_owned);
        Sample { what: words.next().unwrap(), spec: words.next().unwrap(), values: words.collect() }
    }

    #[test]
    fn an_interval_by_hand() {
        // 1, 2, 3: mean 2, variance 1, standard error 1 / sqrt 3, quantile of 2 degrees 4.303.
        let Mean { value, half } = mean(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(value, 2.0);
        assert!((half - 4.303 / 3f64.sqrt()).abs() < 1e-9);
        assert!(mean(&[1.0]).is_err());
        // Pairs in the proportion of 1 to 2 throughout.
        assert_eq!(ratio(&[(1.0, 2.0), (3.0, 6.0)]).unwrap(), "2.000 [2.000, 2.000]");
    }

    #[test]
    fn instructions_are_divided_by_messages_and_wakeups() {
        let lines = [
            "path eevdf 0 8000 2 1",
            "path eevdf 1 12000 3 3",
            "wake eevdf 0 1000 10",
            "wake eevdf 1 1000 10",
            "path p 0 10000 2 2",
            "path p 1 15000 3 3",
            "wake p 0 500 10",
            "wake p 1 500 10",
        ];
        let table = path_table(&lines.map(sample)).unwrap();
        let rows: Vec<&str> = table.lines().skip(2).collect();
        let first = "| EEVDF, the kernel's own | 4000 ± 0 | 1.000 [1.000, 1.000] | 0.75 | 100 ± 0 | 1.000 [1.000, 1.000] |";
        assert_eq!(rows[0], first);
        assert_eq!(
            rows[1],
            "| `p` | 5000 ± 0 | 1.250 [1.250, 1.250] | 1.00 | 50 ± 0 | 0.500 [0.500, 0.500] |"
        );
        assert!(path_table(&[sample("path eevdf 0 x 2 1"), sample("path eevdf 1 1 2 1")]).is_err());
    }

    #[test]
    fn other_tables() {
        let search =
            search_table(&[sample("search p policy 10 times 90 ns, default 9 times 100 ns, clock 3 ns")]);
        assert!(search.unwrap().ends_with("| `p` | 10 | 90 | 9 | 100 | 0.90 |\n"));
        // EEVDF: 1 s for 100 messages, 20 switches, 10 interrupts and 100 ms idle; p: 2 s, 10, 30 and 1000 ms.
        let time = "1000000000 100 20 10 100 2000000000 100 10 30 1000";
        let lines = [
            format!("time p 0 {time}"),
            format!("time p 1 {time}"),
            "latency p 0 4 2".into(),
            "latency p 1 4 2".into(),
        ];
        let time = time_table(&lines.each_ref().map(|line| sample(line))).unwrap();
        let row = "| `p` | 2.000 [2.000, 2.000] | 2 | 0.1000; 0.2000 | 0.3000; 0.1000 | 25.0; 5.0 | 0.500 [0.500, 0.500] | 2 |\n";
        assert!(time.ends_with(row), "{time}");
        let shares = "shares p shares cpus=8 ms=5 eight=33.4 four=33.3 three=33.3 off=0.10 busy=99.9";
        let shares = shares_table(&[sample(shares)]).unwrap();
        assert!(shares.ends_with("| `p` | 33.4 | 33.3 | 33.3 | 0.10 | 99.9 |\n"), "{shares}");
        let lines = [
            "workers rounds=9 p50_ns=1500000 p99_ns=2 max_ns=40000000",
            "compute rounds=9 p50_ns=2000000 max_ns=9900000",
            "spin threads=1 wall_ns=1000 cpu_ns=38 longest_wait_ns=25000000",
        ];
        let both = ["compute", "pipe"].map(|kind| lines.map(|line| sample(&format!("pods p {kind} {line}"))));
        let pods = pods_table(&both.into_iter().flatten().collect::<Vec<_>>()).unwrap();
        let values = "1.50 ms | 40.00 ms | 2.00 ms | 9.90 ms | 3.8 | 25 ms";
        assert!(pods.ends_with(&format!("| `p`; pods use a pipe | {values} |\n")), "{pods}");
    }

    #[test]
    fn makespans_stand_beside_the_kernels() {
        let mut lines = Vec::new();
        for (tasks, ms, _) in BURSTS {
            lines.push(sample(&format!("burst eevdf {tasks} {ms} 20000000")));
            lines.push(sample(&format!("burst p {tasks} {ms} 21000000")));
        }
        let table = burst_table(&lines).unwrap();
        assert!(table.ends_with(&format!("| `p` |{}\n", " 21.0 ms | 1.050 |".repeat(4))), "{table}");
        lines.pop();
        assert!(burst_table(&lines).is_err());
    }

    #[test]
    fn rows_are_replaced_by_their_first_cell() {
        let old = "| p | n |\n|---|---|\n| a | 1 |\n| `b` | 2 |\n\n20 runs each.\n";
        let new = "| p | n |\n|---|---|\n| `b` | 3 |\n| c | 4 |\n\n20 runs each.\n";
        let both = "| p | n |\n|---|---|\n| a | 1 |\n| `b` | 3 |\n| c | 4 |\n\n20 runs each.\n";
        assert_eq!(merged(old, new), both);
        assert_eq!(merged("", new), new);
        assert_eq!(merged("Not measured yet.\n", new), new);
        assert_eq!(merged("| p |\n|---|\n| a |\n", new), new);
    }

    #[test]
    fn only_one_part_of_the_page_is_replaced() {
        let page = "a\n<!-- part: x -->\nold\n<!-- end of part: x -->\nb\n";
        assert_eq!(replaced(page, "x", "new\n").unwrap(), page.replace("old", "new"));
        assert!(replaced(page, "y", "").is_err());
        let docs = include_str!("../../../docs/results/live-bench.md");
        for part in Part::value_variants() {
            replaced(docs, part.name(), "").unwrap();
        }
    }
}
