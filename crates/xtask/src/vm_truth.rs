// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask vm truth`: how true predictions of `scx_wakelab` are. Boots the test kernel, which is Linux's own,
//! records programs there under the kernel's own scheduler and under policies that are loaded (vm/truth.sh), and brings
//! the recordings here. Replays each as it was made, and predicts each policy from the recordings under the kernel's
//! own scheduler. vm_truth_page.rs writes the page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::command;
use crate::truth::{Files, built_wakelab};
use crate::truth_cgroup::Groups;
use crate::vm_guest::{Accel, Guest, Tally, build_guest_work, build_loader};
use crate::vm_truth_page::{Made, Measured, page};

/// Arguments of `cargo xtask vm truth`.
#[derive(Args)]
pub(crate) struct TruthArgs {
    /// Programs by name; all of them if none is named.
    #[arg(value_name = "PROGRAM", value_parser = PROGRAMS.each_ref().map(|program| program.name))]
    programs: Vec<String>,
    /// A policy that is recorded beside the kernel's own scheduler; repeatable.
    #[arg(long, value_name = "SPEC", default_values = ["wakelab", "linux-6.12", "linux-4.15"])]
    policy: Vec<String>,
    /// One guest instead of both.
    #[arg(long, value_enum)]
    guest: Option<Kind>,
    /// Recordings of each program under each scheduler; more tell the null error better and take longer.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=20))]
    repeats: u32,
    /// Give up a guest after SECONDS of wall time.
    #[arg(long, value_name = "SECONDS", default_value_t = 5400)]
    limit: u64,
    #[command(flatten)]
    files: Files,
}

/// A guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// One CPU in virtual time: a nanosecond an instruction, whatever this machine does meanwhile. With more CPUs, each
    /// would be the slower the more of them are busy, which no model of a machine has.
    One,
    /// Two CPUs, each a thread of this machine, in the control group with the largest weight there is.
    Two,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::One => "one",
            Kind::Two => "two",
        }
    }
}

/// A program that is recorded.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// For the page.
    pub(crate) what: &'static str,
    /// For sh, on one line.
    command: &'static str,
}

pub(crate) static PROGRAMS: [Program; 8] = [
    Program {
        name: "hackbench",
        what: "20 senders and 20 receivers over sockets",
        command: "exec hackbench -g 1 -l 50",
    },
    Program { name: "hackbench-pipe", what: "the same over pipes", command: "exec hackbench -p -g 1 -l 50" },
    Program {
        name: "sched-pipe",
        what: "two processes that pass one message to and fro",
        command: "exec perf bench sched pipe -l 1500",
    },
    Program {
        name: "schbench",
        what: "a thread that wakes three others, each of which computes for 0.3 ms",
        command: "exec wakelab-guest schbench --messages 1 --workers 3 --rounds 150 --compute-us 300",
    },
    Program {
        name: "pipeline",
        what: "three programs in a pipe",
        command: "seq 40000 | gzip -1 | sha256sum > /dev/null",
    },
    Program {
        name: "forks",
        what: "two shells that start one short program after another",
        command: "run() { for i in $(seq 40); do /bin/busybox true; done; }; run & run; wait",
    },
    Program {
        name: "hogs",
        what: "three tasks that compute, beside two workers that sleep and compute for 0.2 ms",
        command: "wakelab-guest burst --tasks 3 --cpu-ms 150 & \
                  wakelab-guest schbench --messages 1 --workers 2 --rounds 150 --compute-us 200; wait",
    },
    Program {
        name: "weights",
        what: "two control groups of weights 100 and 300, with three tasks that compute in each",
        command: "(echo 0 > /sys/fs/cgroup/light/cgroup.procs; exec wakelab-guest burst --tasks 3 --cpu-ms 100) & \
                  (echo 0 > /sys/fs/cgroup/heavy/cgroup.procs; exec wakelab-guest burst --tasks 3 --cpu-ms 100); wait",
    },
];

/// The kernel's own scheduler, among those that are recorded.
pub(crate) const KERNEL: &str = "kernel";
/// The policy that it is.
const KERNELS_POLICY: &str = "linux-6.12";
/// Size of the disk that the guest writes the recordings to, in bytes.
const DISK_BYTES: u64 = 1 << 30;
/// What the recordings in a folder are.
const MADE: &str = "made.json";

/// `cargo xtask vm truth`.
pub(crate) fn run(args: &TruthArgs) -> Result<()> {
    let wakelab = built_wakelab()?;
    let folder = args.files.folder("truth-guest")?;
    let mut guests = Vec::new();
    for kind in Kind::value_variants().iter().filter(|kind| args.guest.is_none_or(|one| one == **kind)) {
        let below = folder.join(kind.name());
        if args.files.from.is_none() {
            fs::create_dir_all(&below)?;
            record(args, *kind, &wakelab, &below)?;
        }
        let made = read_made(*kind, &below)?;
        let mut measured = Vec::new();
        for program in args.programs().filter(|program| made.programs.iter().any(|name| name == program.name))
        {
            let one = replay(&wakelab, program, &below, &made)?;
            print!("{}", one.text(&made));
            measured.push(one);
        }
        guests.push((made, measured));
    }
    args.files.clear(&folder)?;
    args.files.write("truth-guest", &page(&guests))
}

impl TruthArgs {
    /// The programs that are asked for.
    fn programs(&self) -> impl Iterator<Item = &'static Program> {
        let is_asked = |program: &&Program| {
            self.programs.is_empty() || self.programs.iter().any(|name| name == program.name)
        };
        PROGRAMS.iter().filter(is_asked)
    }

    fn schedulers(&self) -> Vec<&str> {
        std::iter::once(KERNEL).chain(self.policy.iter().map(String::as_str)).collect()
    }
}

/// Boots a guest, which records, and unpacks what it made.
fn record(args: &TruthArgs, kind: Kind, wakelab: &Path, folder: &Path) -> Result<()> {
    let perf = command::find_program(&["perf"]).context("no perf (Debian: linux-perf)")?;
    let programs = vec![stripped(wakelab)?, perf, build_loader()?, build_guest_work()?];
    let plan: String = args.programs().map(|one| format!("{} {}\n", one.name, one.command)).collect();
    let guest = Guest {
        name: "truth",
        smp: if kind == Kind::One { "1" } else { "2" },
        accel: if kind == Kind::One { Accel::Icount { shift: 0 } } else { Accel::Multi },
        memory: "2G",
        kernel_arguments: if kind == Kind::One { "tsc=reliable" } else { "" },
        programs,
        init: "truth.sh",
        files: vec![
            ("plan", plan),
            ("schedulers", args.schedulers().join("\n") + "\n"),
            ("repeats", args.repeats.to_string()),
        ],
        limit: Duration::from_secs(args.limit),
    };
    let disk = folder.join("disk.tar");
    let start = Instant::now();
    let mut tally = Tally::new("truth");
    let mut release = String::new();
    let groups = Groups::new().map_err(|error| eprintln!("without a control group: {error:#}")).ok();
    let words = groups.as_ref().map(Groups::inside);
    let words = words.as_ref().map_or(&[][..], |words| &words[..]);
    let ran = guest.run_inside(words, &disk, DISK_BYTES, |line| {
        if let Some(kernel) = line.strip_prefix("@@ ready ").and_then(|rest| rest.split(' ').nth(1)) {
            kernel.clone_into(&mut release);
        }
        match tally.line(line) {
            Some(("recording", said)) => println!("          {said}"),
            Some(_) => tally.unknown(line),
            None => {}
        }
    });
    let has_recordings = ran.is_ok();
    tally.guest_ended(ran, &["record"]);
    if has_recordings {
        unpack(args, folder, &disk, &release)?;
    }
    // If a step failed, --from has what was recorded.
    tally.finish(&format!("{} s in the guest", start.elapsed().as_secs()))
}

/// Unpacks the guest's recordings, and notes what they are.
fn unpack(args: &TruthArgs, folder: &Path, disk: &Path, release: &str) -> Result<()> {
    command::run(Command::new("tar").arg("-C").arg(folder).arg("-xf").arg(disk))?;
    fs::remove_file(disk)?;
    let names: Vec<&str> = args.programs().map(|program| program.name).collect();
    let made = json!({
        "kernel": release, "repeats": args.repeats, "schedulers": args.schedulers(), "programs": names,
    });
    fs::write(folder.join(MADE), serde_json::to_string_pretty(&made)?)?;
    Ok(())
}

/// The program without what only debuggers read: it is packed into an initramfs.
fn stripped(program: &Path) -> Result<PathBuf> {
    let folder = command::target_folder()?.join("vm/truth-bin");
    fs::create_dir_all(&folder)?;
    let stripped = folder.join("wakelab");
    command::run(Command::new("strip").arg("-o").arg(&stripped).arg(program))?;
    Ok(stripped)
}

fn read_made(kind: Kind, folder: &Path) -> Result<Made> {
    let path = folder.join(MADE);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let made: Value = serde_json::from_str(&text)?;
    let list = |key: &str| -> Vec<String> {
        made[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    Ok(Made {
        kind,
        kernel: made["kernel"].as_str().context("no kernel")?.to_owned(),
        repeats: made["repeats"].as_u64().context("no repeats")?,
        schedulers: list("schedulers"),
        programs: list("programs"),
    })
}

/// Replays the recordings of a program, and predicts each policy from those under the kernel's own scheduler.
fn replay(wakelab: &Path, program: &'static Program, folder: &Path, made: &Made) -> Result<Measured> {
    let path = |side: usize, repeat: u64| folder.join(format!("{}.{side}.{repeat}.rec.gz", program.name));
    let (mut itself, mut predicted) = (Vec::new(), Vec::new());
    for (side, scheduler) in made.schedulers.iter().enumerate() {
        let (mut own, mut from_kernel) = (Vec::new(), Vec::new());
        for repeat in 0..made.repeats {
            let here = path(side, repeat);
            if !here.exists() || !path(0, repeat).exists() {
                eprintln!("{} is missing", here.display());
                continue;
            }
            own.push(check(wakelab, scheduler, &here, &here)?);
            if side > 0 {
                from_kernel.push(check(wakelab, scheduler, &path(0, repeat), &here)?);
            }
        }
        itself.push(own);
        predicted.push(from_kernel);
    }
    Ok(Measured { program, itself, predicted })
}

/// What `wakelab check` says of a replay of `from` under a scheduler, beside `truth`.
fn check(wakelab: &Path, scheduler: &str, from: &Path, truth: &Path) -> Result<Value> {
    let spec = scheduler.split(' ').next().unwrap_or_default();
    let (policy, host) = if spec == KERNEL { (KERNELS_POLICY, "mainline") } else { (spec, "sched_ext") };
    let mut command = Command::new(wakelab);
    command.arg("check").arg(from).arg("--against").arg(truth).args(["--format", "json"]);
    command.args(["--policy", policy, "--host", host]);
    let text = command::output(&mut command)?;
    match serde_json::from_slice::<Value>(&text) {
        Ok(value) if value["metrics"].is_array() => Ok(value),
        _ => bail!("no figures from wakelab check {}", from.display()),
    }
}
