// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask test`: the quick tier of everything, stage by stage, each with a printed budget.
//!
//! The test kernel is built in the background, at low priority, while the rest compiles. What of the stage `vm` is in
//! virtual time takes one CPU and depends on nothing else, so it runs beside the other stages. A stage that this
//! machine cannot run is announced and counted as skipped, never passed over in silence. Budgets are printed, not
//! enforced: no test depends on time.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::beside::Beside;
use crate::clang::{CLANG_VERSIONS, bpf_clang};
use crate::command::{self, Skipped, cache, cargo, find_program, root, run as run_command};
use crate::setup::{BROWSERS, run_setup};
use crate::{docs, experiments, instructions, package, python, style, vm_kernel};

/// Arguments of `cargo xtask test`.
#[derive(Args)]
pub(crate) struct TestArgs {
    /// Run only these stages (--list names them).
    #[arg(long, value_delimiter = ',', value_name = "STAGE")]
    only: Vec<String>,
    /// Skip these stages, and say so.
    #[arg(long, value_delimiter = ',', value_name = "STAGE")]
    skip: Vec<String>,
    /// List the stages and their budgets.
    #[arg(long)]
    list: bool,
}

struct Stage {
    name: &'static str,
    /// Minutes on 2 cores with nothing cached, and with everything cached.
    budget_min: (u32, u32),
    what: &'static str,
    run: fn(&mut Shared) -> Result<()>,
}

/// Minutes of all stages on 2 cores with nothing cached, and with everything cached. The second, with its parts, is
/// what a new clone took, with guests beside the stages: 51 minutes. The first is from before guests ran there.
const TOTAL_MIN: (u32, u32) = (68, 52);

/// What stages hand to each other.
#[derive(Default)]
struct Shared {
    kernel_build: Option<Child>,
    /// The guests in virtual time, from when there is a kernel.
    guests: Option<Beside>,
}

const STAGES: &[Stage] = &[
    Stage { name: "setup", budget_min: (2, 1), what: "packages; starts the kernel build", run: setup },
    Stage {
        name: "style",
        budget_min: (1, 1),
        what: "rules of the house, rustfmt, clang-format",
        run: check_style,
    },
    Stage { name: "unit", budget_min: (12, 10), what: "tests of all crates without BPF, debug", run: unit },
    Stage { name: "page", budget_min: (1, 1), what: "a page of a result, in Chromium", run: page },
    Stage { name: "release", budget_min: (4, 3), what: "tests of the lab in release builds", run: release },
    Stage {
        name: "docs",
        budget_min: (5, 5),
        what: "output in README.md and docs/ is what the commands print",
        run: check_docs,
    },
    Stage {
        name: "python",
        budget_min: (10, 7),
        what: "the package for Python beside the command, on processes, Ray and Dask",
        run: python,
    },
    Stage {
        name: "experiments",
        budget_min: (1, 1),
        what: "negative controls, and signs that few seeds show",
        run: experiments,
    },
    Stage { name: "determinism", budget_min: (2, 2), what: "same JSON, debug and release", run: determinism },
    Stage {
        name: "policy-c",
        budget_min: (4, 4),
        what: "policy/ by gcc and clang, with sanitizers",
        run: policy_c,
    },
    Stage {
        name: "bench",
        budget_min: (1, 1),
        what: "the benchmarks run; instructions of an event are as committed",
        run: bench,
    },
    Stage { name: "clippy", budget_min: (5, 2), what: "clippy -D warnings, all crates", run: clippy },
    Stage {
        name: "bpf-units",
        budget_min: (3, 2),
        what: "unit tests of crates/parity, crates/scx and the recorder with BPF",
        run: bpf_units,
    },
    Stage { name: "parity", budget_min: (4, 2), what: "native = BPF, in this kernel", run: parity },
    Stage { name: "deny", budget_min: (3, 1), what: "licences and sources of dependencies", run: deny },
    Stage {
        name: "package",
        budget_min: (2, 1),
        what: "the Debian package and Arch's: installed, run, removed",
        run: package,
    },
    Stage { name: "vm", budget_min: (8, 8), what: "the scheduler on a 6.12 kernel", run: vm },
];

/// `cargo xtask test`.
pub(crate) fn run(args: &TestArgs) -> Result<()> {
    for name in args.only.iter().chain(&args.skip) {
        if !STAGES.iter().any(|stage| stage.name == name) {
            bail!(
                "no stage {name:?}; there are: {}",
                STAGES.iter().map(|s| s.name).collect::<Vec<_>>().join(", ")
            );
        }
    }
    if args.list {
        for stage in STAGES {
            println!(
                "{:12} {:2} min cold, {:2} min warm  {}",
                stage.name, stage.budget_min.0, stage.budget_min.1, stage.what
            );
        }
        return Ok(());
    }
    let mut shared = Shared::default();
    let mut rows = Vec::new();
    let is_wanted = |stage: &Stage| args.only.is_empty() || args.only.iter().any(|name| name == stage.name);
    let is_skipped = |stage: &Stage| args.skip.iter().any(|name| name == stage.name);
    let has_guests = STAGES.iter().any(|stage| stage.name == "vm" && is_wanted(stage) && !is_skipped(stage));
    for stage in STAGES {
        if !is_wanted(stage) {
            continue;
        }
        // Not beside setup, which installs the emulator.
        if has_guests && stage.name != "setup" && shared.guests.is_none() && vm_kernel::kernel_is_cached()? {
            shared.guests = Some(start_guests()?);
        }
        println!(
            "==== {}: {} (budget {} min cold, {} min warm)",
            stage.name, stage.what, stage.budget_min.0, stage.budget_min.1
        );
        let begin = Instant::now();
        let result = if is_skipped(stage) {
            Err(Skipped("left out by --skip".into()).into())
        } else {
            (stage.run)(&mut shared)
        };
        let verdict = match &result {
            Ok(()) => "passed".to_owned(),
            Err(error) if error.is::<Skipped>() => format!("SKIPPED: {error:#}"),
            Err(error) => format!("FAILED: {error:#}"),
        };
        println!("==== {}: {verdict} ({})", stage.name, minutes(begin.elapsed()));
        rows.push((stage, result, begin.elapsed()));
    }
    summary(&rows)
}

fn summary(rows: &[(&Stage, Result<()>, Duration)]) -> Result<()> {
    println!("\n{:12} {:>8} {:>10}  result", "stage", "took", "cold/warm");
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (stage, result, took) in rows {
        let verdict = match result {
            Ok(()) => {
                passed += 1;
                "passed".to_owned()
            }
            Err(error) if error.is::<Skipped>() => {
                skipped += 1;
                format!("{error:#}")
            }
            Err(error) => {
                failed += 1;
                format!("FAILED: {error:#}")
            }
        };
        let budget = format!("{}/{} min", stage.budget_min.0, stage.budget_min.1);
        println!("{:12} {:>8} {:>10}  {verdict}", stage.name, minutes(*took), budget);
    }
    let total: Duration = rows.iter().map(|row| row.2).sum();
    println!("{:12} {:>8} {:>10}", "total", minutes(total), format!("{}/{} min", TOTAL_MIN.0, TOTAL_MIN.1));
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 {
        bail!("{failed} of {} stages failed", rows.len());
    }
    Ok(())
}

fn minutes(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

fn setup(shared: &mut Shared) -> Result<()> {
    // What is missing here makes single stages skip; they say so themselves.
    if let Err(error) = run_setup(false) {
        println!("setup: {error:#}");
    }
    if vm_kernel::kernel_is_cached()? {
        println!("setup: the test kernel is cached");
        return Ok(());
    }
    let log = std::fs::File::create(
        cache().inspect(|path| drop(std::fs::create_dir_all(path)))?.join("kernel.log"),
    )?;
    let child = Command::new("nice")
        .args(["-n", "19"])
        .arg(std::env::current_exe()?)
        .args(["vm", "kernel"])
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("cannot start the kernel build")?;
    println!("setup: building the test kernel in the background");
    shared.kernel_build = Some(child);
    Ok(())
}

fn check_style(_: &mut Shared) -> Result<()> {
    run_command(cargo().args(["fmt", "--all", "--check"]))?;
    style::run()
}

/// All crates that build without clang and libelf. One command builds what they share once.
const WITHOUT_BPF: &[&str] = &["--workspace", "--exclude", "wakelab-parity", "--exclude", "wakelab-scx"];

/// The recorder with the BPF programs of messages, which is no part of a usual build.
const RECORD_BY_BPF: [&str; 4] = ["--package", "wakelab-record", "--features", "bpf"];

fn unit(_: &mut Shared) -> Result<()> {
    run_command(cargo().args(["test", "--quiet"]).args(WITHOUT_BPF))
}

/// Opens a page of `wakelab compare --report` in a browser.
fn page(_: &mut Shared) -> Result<()> {
    if find_program(BROWSERS).is_none() {
        return Err(Skipped("Chromium is not installed".into()).into());
    }
    // Of all crates, because cargo builds them with other features for one alone.
    run_command(cargo().args(["test", "--quiet"]).args(WITHOUT_BPF).args(["--test", "report"]))
}

fn release(_: &mut Shared) -> Result<()> {
    run_command(cargo().args(["test", "--quiet", "--release", "-p", "wakelab-sim", "-p", "wakelab-policy"]))
}

const FIXTURE: &str = "fixtures/hackbench.perf.txt";
const COMPARE: &[&str] = &[
    "compare",
    FIXTURE,
    "--machine",
    "xeon-2s22c2t",
    "--policy",
    "linux-4.15",
    "--policy",
    "linux-4.15+idle=smt-balance",
];

/// README.md's first command is among those whose output is checked.
fn check_docs(_: &mut Shared) -> Result<()> {
    docs::check_all()
}

/// The same JSON from debug and release builds, on 1 and 2 threads, from a recording and from a model.
fn determinism(_: &mut Shared) -> Result<()> {
    let model = ["compare", "hackbench:groups=1,loops=5", "--machine", "smp-8", "--policy", "linux-4.15"];
    for what in [COMPARE, &model] {
        let json = |profile: &[&str], threads: &str| {
            command::output(cargo().args(["run", "--quiet"]).args(profile).arg("--").args(what).args([
                "--seeds",
                "4",
                "--format",
                "json",
                "--threads",
                threads,
            ]))
        };
        let first = json(&["--release"], "1")?;
        for (profile, threads) in [(&["--release"][..], "2"), (&[][..], "1"), (&[][..], "2")] {
            if json(profile, threads)? != first {
                bail!(
                    "{} differs between release, 1 thread and {profile:?}, {threads} threads",
                    what.join(" ")
                );
            }
        }
        println!("determinism: {} bytes of JSON, four times the same: {}", first.len(), what.join(" "));
    }
    Ok(())
}

fn python(_: &mut Shared) -> Result<()> {
    python::test()
}

fn experiments(_: &mut Shared) -> Result<()> {
    experiments::quick()
}

/// The C code built by each compiler with its sanitizers, under the tests of crates/policy.
fn policy_c(_: &mut Shared) -> Result<()> {
    let target = command::target_folder()?.join("policy-c");
    let test = |name: &str, compiler: &Path, runner: Option<(String, String)>| {
        let mut command = cargo();
        command
            .env("CC", compiler)
            .env("WAKELAB_WERROR", "1")
            .env("WAKELAB_SANITIZE", "1")
            .env("CARGO_TARGET_DIR", target.join(name))
            .args(["test", "--quiet", "-p", "wakelab-policy", "-p", "wakelab-log", "--lib", "--tests"])
            .envs(runner);
        command
    };
    let gcc = find_program(&["gcc"]).ok_or_else(|| Skipped("no gcc".into()))?;
    let runtime = command::text(Command::new(&gcc).arg("-print-file-name=libasan.so"))?;
    let preload = format!("env LD_PRELOAD={runtime}");
    let runner = (runner_variable()?, preload);
    // All of policy/ is one unit of C, so that a compiler has one CPU to do.
    let by_clang =
        bpf_clang().and_then(|clang| Beside::start("policy-c", vec![test("clang-sanitizer", &clang, None)]));
    println!("policy-c: gcc-sanitizers");
    let by_gcc = run_command(&mut test("gcc-sanitizers", &gcc, Some(runner)));
    println!("policy-c: clang-sanitizer");
    command::together([by_gcc, by_clang.and_then(Beside::end)])
}

/// The variable by which cargo is told what to start test programs with, for this machine's own target.
fn runner_variable() -> Result<String> {
    let version = command::text(Command::new("rustc").arg("-vV"))?;
    let host =
        version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc -vV names no host")?;
    Ok(format!("CARGO_TARGET_{}_RUNNER", host.to_uppercase().replace('-', "_")))
}

fn bench(_: &mut Shared) -> Result<()> {
    run_command(cargo().args(["bench", "--quiet", "-p", "wakelab-sim", "--", "--test"]))?;
    instructions::check()
}

fn clippy(_: &mut Shared) -> Result<()> {
    let lint = |packages: &[&str], clang: Option<&Path>| {
        let mut command = cargo();
        command.args(["clippy", "--quiet", "--all-targets"]).args(packages).args(["--", "-D", "warnings"]);
        command.envs(clang.map(|clang| ("BPF_CLANG", clang)));
        run_command(&mut command)
    };
    match bpf_clang() {
        Ok(clang) => {
            lint(&["--workspace"], Some(&clang))?;
            lint(&RECORD_BY_BPF, Some(&clang))
        }
        Err(error) => lint(WITHOUT_BPF, None).and(Err(error)),
    }
}

/// The unit tests of the crates that hold BPF; loading it is the work of the stages parity and vm.
fn bpf_units(_: &mut Shared) -> Result<()> {
    let first = bpf_clang()?;
    // How much of the stack is free depends on the compiler. The first one comes last, because later stages use its
    // build.
    for name in CLANG_VERSIONS {
        match find_program(&[name]) {
            Some(clang) if clang != first => {
                println!("bpf-units: the stack, by {name}");
                let mut command = cargo();
                command.env("BPF_CLANG", clang);
                run_command(command.args(["test", "--quiet", "--package", "wakelab-scx", "stack"]))?;
            }
            Some(_) => {}
            None => println!("bpf-units: the stack, by {name}: skipped, because it is not installed"),
        }
    }
    let mut command = cargo();
    command.env("BPF_CLANG", &first);
    run_command(command.args([
        "test",
        "--quiet",
        "--package",
        "wakelab-parity",
        "--package",
        "wakelab-scx",
    ]))?;
    let mut command = cargo();
    command.env("BPF_CLANG", &first);
    run_command(command.args(["test", "--quiet"]).args(RECORD_BY_BPF))?;
    openmetrics(&first)
}

/// The exporter of scx beside the statistics of `scx_wakelab`.
fn openmetrics(clang: &Path) -> Result<()> {
    let python = python::with_packages("openmetrics", &["prometheus_client>=0.21,<1"])?;
    let mut command = cargo();
    command.env("BPF_CLANG", clang).env("WAKELAB_OPENMETRICS_PYTHON", python);
    run_command(command.args(["test", "--quiet", "--package", "wakelab-scx", "exporter"]))
}

fn parity(_: &mut Shared) -> Result<()> {
    run_command(Command::new(std::env::current_exe()?).current_dir(root()).arg("parity"))
}

const DENY_VERSION: &str = "0.20.2";

fn deny(_: &mut Shared) -> Result<()> {
    let folder = cache()?.join(format!("cargo-deny-{DENY_VERSION}"));
    let program = folder.join("bin/cargo-deny");
    if !program.is_file() {
        // Unoptimised: it runs for a second, and its own release profile builds for eight minutes.
        let mut install = cargo();
        install.env("CARGO_PROFILE_DEV_DEBUG", "none");
        install.args(["install", "--quiet", "--locked", "--debug", "--root"]).arg(&folder);
        run_command(install.args(["--version", DENY_VERSION, "cargo-deny"]))?;
    }
    // Not advisories: their database needs a network.
    run_command(Command::new(program).current_dir(root()).args(["check", "bans", "licenses", "sources"]))
}

fn package(_: &mut Shared) -> Result<()> {
    package::test()
}

fn vm(shared: &mut Shared) -> Result<()> {
    if let Some(mut build) = shared.kernel_build.take() {
        println!("vm: waiting for the kernel build");
        build.wait().context("the kernel build")?;
    }
    let guests = shared.guests.take().map_or_else(start_guests, Ok)?;
    println!(
        "vm: left out: fair, fuzz, stress-loads and soak, which take minutes (cargo xtask vm test --only fair)"
    );
    // These run what is packed, where a package can be made.
    let packed: &[&str] = if package::can_make() { &["--package"] } else { &[] };
    let run = |arguments: &[&str]| run_command(&mut vm_command(&[arguments, packed].concat())?);
    let of_package = [run(&["ab"]), run(&["test", "--guest", "two-llcs"])];
    let beside = guests.end();
    // Real time and its races need the whole machine.
    let races = run_command(&mut vm_command(&["test", "--guest", "races"])?);
    command::together(of_package.into_iter().chain([beside, races]))
}

/// Starts the guests in virtual time that need nothing but the kernel and the loader. Their limits of wall time are
/// wide, because the other stages leave them less than a CPU.
fn start_guests() -> Result<Beside> {
    let steps = "pinned,affinity,forks,cgroups,real-time,partial,waits,stats,again,yield,stall";
    let limited = |arguments: &[&str]| vm_command(&[arguments, &["--limit", "3000"]].concat());
    let commands = vec![limited(&["smoke", "--icount"])?, limited(&["test", "--only", steps])?];
    println!("vm: guests in virtual time run beside the stages from here on");
    Beside::start("vm-guests", commands)
}

/// `cargo xtask vm` with these arguments.
fn vm_command(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.current_dir(root()).arg("vm").args(arguments);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_of_stages_fit_the_total() {
        let cold: u32 = STAGES.iter().map(|stage| stage.budget_min.0).sum();
        let warm: u32 = STAGES.iter().map(|stage| stage.budget_min.1).sum();
        assert!(cold <= TOTAL_MIN.0 && warm <= TOTAL_MIN.1, "{cold} cold, {warm} warm");
    }
}
