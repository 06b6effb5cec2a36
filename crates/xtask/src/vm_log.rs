// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask vm log`: runs work under `scx_wakelab --log` on the test kernel (vm/log.sh), and verifies the logs.
//!
//! Every answer must be the same when the question is asked again from what was read; from the state that the events
//! alone make, at least [`LEAST_PERCENT`] of them. A log of a build with wrong answers on purpose must fail.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;

use crate::command;
use crate::vm_guest::{Accel, Guest, Tally, build_guest_work, build_loader, build_wakelab};

/// Arguments of `cargo xtask vm log`.
#[derive(Args)]
pub(crate) struct LogArgs {
    /// A policy; repeatable.
    #[arg(long, value_name = "SPEC", default_values = ["linux-4.15+idle=smt-balance", "linux-6.12", "wakelab"])]
    policy: Vec<String>,
    /// With all CPUs at once on threads of this machine, not in virtual time: more races.
    #[arg(long)]
    multi: bool,
    /// Give up after SECONDS of wall time.
    #[arg(long, value_name = "SECONDS", default_value_t = 280)]
    limit: u64,
}

/// Least part of the answers that must be the same from events alone, in percent.
const LEAST_PERCENT: f64 = 95.0;
/// Size of the disk that the guest writes the logs to, in bytes.
const DISK_BYTES: u64 = 2 << 30;

/// `cargo xtask vm log`.
pub(crate) fn run(args: &LogArgs) -> Result<()> {
    let loader = build_loader()?;
    let verifier = build_wakelab()?;
    let folder = command::target_folder()?.join("vm/logs");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    let disk = folder.join("disk.tar");
    let mut policies: Vec<String> = args.policy.clone();
    // Each wake-up of every seventh task is logged with another CPU.
    policies.push(format!("{} --log-fault 7", args.policy[0]));
    let guest = Guest {
        name: "log",
        smp: "8,sockets=2,cores=2,threads=2",
        accel: if args.multi { Accel::Multi } else { Accel::Icount { shift: 0 } },
        memory: "2G",
        kernel_arguments: "",
        programs: vec![loader, build_guest_work()?],
        init: "log.sh",
        files: vec![("policies", policies.join("\n") + "\n")],
        limit: Duration::from_secs(args.limit),
    };
    let start = Instant::now();
    let mut tally = Tally::new("log");
    let ran = guest.run_with_disk(&disk, DISK_BYTES, |line| match tally.line(line) {
        Some(("policy", spec)) => println!("{spec}"),
        Some(_) => tally.unknown(line),
        None => {}
    });
    let seconds = start.elapsed().as_secs();
    let has_logs = ran.is_ok();
    tally.guest_ended(ran, &["load", "work", "unload"]);
    if has_logs {
        command::run(Command::new("tar").arg("-C").arg(&folder).arg("-xf").arg(&disk))?;
        std::fs::remove_file(&disk)?;
        for (number, policy) in policies.iter().enumerate() {
            println!("{policy}");
            let must_agree = number < args.policy.len();
            let found = check(&verifier, &folder.join(format!("log.{number}")), must_agree)?;
            tally.step("verify", found.as_deref());
        }
    }
    tally.finish(&format!("{seconds} s in the guest"))
}

/// Verifies one log. Returns what is wrong with it.
fn check(verifier: &Path, log: &Path, must_agree: bool) -> Result<Option<String>> {
    let output = Command::new(verifier).arg("verify").arg(log).args(["--format", "json"]).output()?;
    let code = output.status.code();
    if !matches!(code, Some(0 | 1)) {
        return Ok(Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let found: Value = serde_json::from_slice(&output.stdout).context("no JSON from wakelab verify")?;
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let (reads, events) = (&found["from_reads"], &found["from_events"]);
    let percent = events["agreed_percent"].as_f64().unwrap_or(0.0);
    println!(
        "          {} records, {} lost; from reads {} of {} alike, {} not verified; from events {percent:.2} %",
        number(&found["records"]),
        number(&found["lost"]),
        number(&reads["agreed"]),
        number(&reads["asked"]),
        number(&reads["not_verified"]),
    );
    for race in events["races"].as_array().into_iter().flatten() {
        println!("          {:>9}  {}", number(&race["answers"]), race["meaning"].as_str().unwrap_or(""));
    }
    let differ = number(&reads["asked"]) - number(&reads["agreed"]) - number(&reads["not_verified"]);
    if number(&reads["asked"]) < 1000 {
        return Ok(Some(format!("only {} questions", number(&reads["asked"]))));
    }
    Ok(match (must_agree, differ, code) {
        (true, 0, Some(0)) if percent < LEAST_PERCENT => {
            Some(format!("{percent:.2} % from events, expected {LEAST_PERCENT} at least"))
        }
        (true, 0, Some(0)) | (false, 1.., Some(1)) => None,
        (true, ..) => Some(format!("{differ} answers differ, the first: {}", found["differences"][0])),
        (false, ..) => Some("the answers that are wrong on purpose were not found".to_owned()),
    })
}
