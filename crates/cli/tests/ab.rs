// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab ab` with a fake loader and a fake kernel: tests/input/fake-loader.sh changes a directory tree as the kernel
//! changes /sys. The measured command prints what it finds there, so that gains can be computed by hand.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

const LOADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/input/fake-loader.sh");
const POLICY: &str = "linux-4.15+idle=smt-balance";

/// A kernel with sched_ext and nothing attached.
struct Fake {
    sysfs: tempfile::TempDir,
}

impl Fake {
    fn new() -> Fake {
        let fake = Fake { sysfs: tempfile::tempdir().expect("a temporary folder") };
        let tree = fake.path("kernel/sched_ext");
        fs::create_dir_all(&tree).expect("a folder");
        fs::write(tree.join("state"), "disabled\n").expect("a file");
        fs::write(tree.join("enable_seq"), "7\n").expect("a file");
        fake
    }

    fn path(&self, name: &str) -> PathBuf {
        self.sysfs.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("it is there")
    }

    /// `wakelab ab ARGUMENTS -- sh -c SCRIPT`, with a loader that fails in the way that `mode` names.
    fn command(&self, mode: &str, arguments: &[&str], script: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wakelab"));
        command
            .arg("ab")
            .arg("--sysfs")
            .arg(self.sysfs.path())
            .args(["--loader", LOADER])
            .args(arguments)
            .args(["--", "sh", "-c", script])
            .env("FAKE_SYSFS", self.sysfs.path())
            .env("FAKE_LOADER", mode);
        command
    }

    fn ab(&self, mode: &str, arguments: &[&str], script: &str) -> Output {
        let output = self.command(mode, arguments, script).output().expect("the command was built");
        // The kernel's own scheduler runs in any case.
        assert_eq!(self.text("kernel/sched_ext/state"), "disabled\n");
        output
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// Checks that there is no table, this exit code, and one message that begins with `message`.
fn assert_refused(output: &Output, code: i32, message: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), stdout(output).as_str()), (Some(code), ""), "{stderr}");
    let last = stderr.split("wakelab: ").last().unwrap_or_default();
    assert!(last.starts_with(message), "{stderr}");
}

/// Prints the next number of a list, one list for each side: under the kernel 100, 90 and 110, under the policy 110,
/// 102 and 124.
const NUMBERS: &str = r#"
side=$(cat "$FAKE_SYSFS/kernel/sched_ext/state")
turn=$(($(cat "$FAKE_SYSFS/$side" 2>/dev/null || echo 0) + 1))
echo $turn > "$FAKE_SYSFS/$side"
case $side in disabled) set -- 100 90 110 ;; enabled) set -- 110 102 124 ;; esac
shift $((turn - 1))
echo "warming up: 1 msg/s"
echo "result: $1 msg/s"
"#;

/// A script that waits until the loader has done its part, once.
const WAIT: &str = r#"[ "$(cat "$FAKE_SYSFS/kernel/sched_ext/state")" = enabled ] || exit 0
touch "$FAKE_SYSFS/running"
until [ -e "$FAKE_SYSFS/go" ]; do sleep 0.01; done"#;

const METRIC: [&str; 3] = ["--metric", r"([0-9]+) msg/s", "--higher-is-better"];

/// Differences 10, 12 and 14 of a mean of 100: gain 12 %, s = 2, t(2) = 4.302653, half = 4.302653 x 2 / sqrt(3) =
/// 4.968275.
#[test]
fn a_gain_by_hand() {
    let fake = Fake::new();
    let options = ["--policy", POLICY, "--runs", "3", "--until", "0", "--warmup", "0", "--seed", "5"];
    let arguments = [&options[..], &METRIC, &["--loader-arg=--slice-us", "--loader-arg=500"]].concat();
    let output = fake.ab("", &arguments, NUMBERS);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let row = text.lines().find(|line| line.starts_with("metric ")).expect("a row");
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words, ["metric", "100.0", "112.0", "(+12.0%", "±5.0)", "*"], "{text}");
    for part in ["3 runs each, order by seed 5", "wall time", "context switches", "±"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let loaded = format!("--policy {POLICY} --slice-us 500\n").repeat(3);
    assert_eq!(fake.text("loaded"), loaded);
}

#[test]
fn the_document_has_every_run() {
    let fake = Fake::new();
    let options = ["--policy", POLICY, "--runs", "3", "--until", "0", "--warmup", "0", "--format", "json"];
    let output = fake.ab("", &[&options[..], &METRIC].concat(), NUMBERS);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["sides"].to_string(), format!(r#"["kernel","{POLICY}"]"#));
    let metric = &document["metrics"][0];
    assert_eq!((&metric["name"], &metric["unit"]), (&"metric".into(), &"plain".into()));
    assert_eq!(metric["sides"][0]["values"].to_string(), "[100,90,110]");
    assert_eq!(metric["sides"][1]["values"].to_string(), "[110,102,124]");
    assert_eq!(metric["sides"][1]["ci_percent"].to_string(), "[7.031725,16.968275]");
    assert_eq!(document["stopped_by"], "runs");
    let order = document["order"].as_array().expect("a list");
    assert_eq!(order.len(), 3);
    for block in order {
        assert!([serde_json::json!([0, 1]), serde_json::json!([1, 0])].contains(block), "{block}");
    }
}

/// Every run prints the same number, so the interval is as narrow as possible; fewer than five blocks are never enough.
#[test]
fn narrow_intervals_end_the_runs() {
    let fake = Fake::new();
    let options = ["--policy", POLICY, "--policy", "kernel", "--warmup", "2", "--format", "json"];
    let script = r#"echo run >> "$FAKE_SYSFS/runs"; echo 5 msg/s"#;
    let output = fake.ab("", &[&options[..], &METRIC].concat(), script);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&document["stopped_by"], &document["sides"][1]), (&"interval".into(), &"kernel".into()));
    assert_eq!(document["order"].as_array().map(Vec::len), Some(5));
    assert_eq!(fake.text("runs").lines().count(), 2 + 5 * 2);
    assert_eq!(fake.text("loaded").lines().count(), 5);
}

#[test]
fn without_a_policy_it_is_the_kernel_against_wakelab() {
    let fake = Fake::new();
    let output = fake.ab("", &["--runs", "1", "--warmup", "0"], "true");
    let text = stdout(&output);
    assert!(text.contains("wakelab") && text.contains("kernel"), "{text}");
    assert!(text.contains("no intervals, and nothing is marked"), "{text}");
    assert_eq!(fake.text("loaded").lines().count(), 1);
}

/// The kernel against itself needs no sched_ext, no loader and no root.
#[test]
fn a_kernel_against_itself() {
    let output = Command::new(env!("CARGO_BIN_EXE_wakelab"))
        .args([
            "ab",
            "--policy",
            "kernel",
            "--runs",
            "2",
            "--loader",
            "/no/such/loader",
            "--sysfs",
            "/no/such/tree",
        ])
        .args(["--format", "json", "--", "true"])
        .output()
        .expect("the command was built");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["sides"].to_string(), r#"["kernel","kernel"]"#);
    assert_eq!(document["metrics"][0]["name"], "wall_time_ns");
}

#[test]
fn a_scheduler_that_is_ejected_makes_its_run_void() {
    for (mode, why) in [
        ("ejected-once", "the loader ended with exit code 1"),
        ("outlived-once", "the loader ended with exit code 1"),
        ("again-once", "the policy was attached again during the run"),
        ("unclean-once", "the loader ended with exit code 1"),
    ] {
        let fake = Fake::new();
        let output =
            fake.ab(mode, &["--policy", POLICY, "--runs", "2", "--warmup", "0", "--format", "json"], WAIT);
        assert_eq!(output.status.code(), Some(0), "{mode}: {}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let void = document["void"].as_array().expect("a list");
        assert_eq!(void.len(), 1, "{mode}: {document}");
        assert_eq!(void[0]["side"], 1);
        let told = void[0]["why"].as_str().expect("text");
        assert!(told.starts_with(why), "{mode}: {told}");
        // The block was run again, so there are as many values as asked for.
        assert_eq!(document["metrics"][0]["sides"][1]["values"].as_array().map(Vec::len), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("is void, and its block is run again"));
    }
}

/// The kernel says `enabled` before it counts the scheduler, which is no second attachment. The command outlasts that.
#[test]
fn a_scheduler_that_is_counted_late() {
    let fake = Fake::new();
    let options = ["--policy", POLICY, "--runs", "2", "--until", "0", "--warmup", "0", "--format", "json"];
    let output = fake.ab("late", &options, "sleep 1");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["void"].to_string(), "[]");
}

#[test]
fn a_scheduler_that_is_ejected_again_and_again_ends_it() {
    let fake = Fake::new();
    let output = fake.ab("ejected", &["--policy", POLICY, "--warmup", "0"], WAIT);
    assert_refused(&output, 1, &format!("3 runs were void, the last of them under {POLICY}: "));
    assert!(String::from_utf8_lossy(&output.stderr).contains("runnable task stall (worker[42]"));
}

#[test]
fn a_loader_that_does_not_attach() {
    let fake = Fake::new();
    let output = fake.ab("refused", &["--policy", POLICY], "true");
    assert_refused(&output, 1, &format!("the loader did not attach {POLICY}: it ended with exit code 1"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the verifier says no"));
    let output = fake.ab("partial", &["--policy", POLICY], "true");
    assert_refused(
        &output,
        1,
        &format!("the loader did not attach {POLICY}: it schedules only tasks of the class"),
    );
}

#[test]
fn a_command_that_fails_has_an_exit_code_of_its_own() {
    let fake = Fake::new();
    let script = r#"echo "no luck"; [ "$(cat "$FAKE_SYSFS/kernel/sched_ext/state")" = disabled ]"#;
    let output = fake.ab("", &["--policy", POLICY], script);
    assert_refused(&output, 3, &format!("the command failed under {POLICY}: exit code 1\n  no luck"));
    let output = fake.ab("", &["--policy", POLICY], "kill -9 $$");
    assert_refused(&output, 3, "the command failed under kernel: signal 9");
}

#[test]
fn refusals() {
    let fake = Fake::new();
    let with = |arguments: &[&str]| fake.ab("", arguments, "echo 12 apples");
    assert_refused(&with(&["--policy", "windows"]), 2, "--policy windows: unknown policy");
    assert_refused(&with(&["--metric", "[0-9]+ apples"]), 2, "--metric [0-9]+ apples: expected a group");
    assert_refused(&with(&["--metric", "([0-9]+"]), 2, "--metric: regex parse error");
    let pears = "the command's output under kernel has no line that `([0-9]+) pears` matches";
    assert_refused(&with(&["--metric", "([0-9]+) pears"]), 2, pears);
    assert_refused(&with(&["--metric", "12 (a)pples"]), 2, "the command's output under kernel");

    fs::write(fake.path("kernel/sched_ext/state"), "enabled\n").expect("a file");
    fs::create_dir(fake.path("kernel/sched_ext/root")).expect("a folder");
    fs::write(fake.path("kernel/sched_ext/root/ops"), "lavd\n").expect("a file");
    for policy in [POLICY, "kernel"] {
        let output = fake.command("", &["--policy", policy], "true").output().expect("the command was built");
        assert_refused(&output, 2, "a sched_ext scheduler is already running: lavd (state `enabled`)");
    }
    fs::remove_dir_all(fake.path("kernel")).expect("it is there");
    let output = fake.command("", &[], "true").output().expect("the command was built");
    assert_refused(&output, 2, "this kernel has no sched_ext, which needs Linux 6.12");

    let fake = Fake::new();
    let output = Command::new(env!("CARGO_BIN_EXE_wakelab"))
        .args(["ab", "--loader", "/no/such/loader", "--sysfs"])
        .arg(fake.sysfs.path())
        .args(["--", "true"])
        .output()
        .expect("the command was built");
    assert_refused(&output, 2, "cannot run the loader /no/such/loader: ");
    let output = Command::new(env!("CARGO_BIN_EXE_wakelab"))
        .args(["ab", "--policy", "kernel", "--", "/no/such/program"])
        .output()
        .expect("the command was built");
    assert_refused(&output, 2, "cannot run /no/such/program: ");
}

/// The command, its children and the loader end, and nothing is printed.
#[test]
fn a_signal_gives_the_machine_back() {
    for signal in ["INT", "TERM"] {
        let fake = Fake::new();
        let script = r#"[ "$(cat "$FAKE_SYSFS/kernel/sched_ext/state")" = enabled ] || exit 0
            sleep 1000 & echo $! > "$FAKE_SYSFS/child"; mv "$FAKE_SYSFS/child" "$FAKE_SYSFS/running"; wait"#;
        let child = fake
            .command("", &["--policy", POLICY], script)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command was built");
        wait_until(|| fake.path("running").exists());
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().expect("kill").success());
        let output = child.wait_with_output().expect("it ends");
        assert_refused(&output, 130, "interrupted; the kernel's own scheduler runs");
        assert_eq!(fake.text("kernel/sched_ext/state"), "disabled\n");
        assert!(!is_alive(fake.text("running").trim()), "the command's child still runs");
    }
}

/// SIGKILL to the process that the user started, and to the process below it that runs the trials: the kernel's own
/// scheduler comes back, and neither the loader nor a process of the command is left.
#[test]
fn a_kill_gives_the_machine_back() {
    for victim in ["supervisor", "worker"] {
        let fake = Fake::new();
        let script = r#"[ "$(cat "$FAKE_SYSFS/kernel/sched_ext/state")" = enabled ] || exit 0
            setsid sleep 1000 & echo $! > "$FAKE_SYSFS/child"; echo $PPID > "$FAKE_SYSFS/worker"
            mv "$FAKE_SYSFS/child" "$FAKE_SYSFS/running"; wait"#;
        let mut child = fake
            .command("", &["--policy", POLICY], script)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command was built");
        wait_until(|| fake.path("running").exists());
        let worker = fake.text("worker").trim().to_owned();
        let pid = if victim == "worker" { worker.clone() } else { child.id().to_string() };
        assert_ne!(worker, child.id().to_string());
        assert!(Command::new("kill").args(["-9", &pid]).status().expect("kill").success());
        wait_until(|| fake.text("kernel/sched_ext/state") == "disabled\n");
        wait_until(|| !is_alive(fake.text("running").trim()) && !is_alive(&worker));
        wait_until(|| !is_alive(fake.text("loader").trim()));
        let status = child.wait().expect("it ends");
        if victim == "worker" {
            let mut stderr = String::new();
            child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("UTF-8");
            assert_eq!(status.code(), Some(1), "{stderr}");
            assert!(
                stderr.starts_with("wakelab: the process that ran the trials ended with signal 9"),
                "{stderr}"
            );
        }
    }
}

/// Two sleeps are left in each of four runs, one of them in another session: they are ended and counted.
#[test]
fn what_the_command_leaves_running_is_ended() {
    let fake = Fake::new();
    let script =
        r#"sleep 1077 & echo $! >> "$FAKE_SYSFS/left"; setsid sleep 1077 & echo $! >> "$FAKE_SYSFS/left""#;
    let options = ["--policy", POLICY, "--runs", "2", "--warmup", "0"];
    let output = fake.ab("", &options, script);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fake.text("left").lines().count(), 8);
    assert!(!fake.text("left").lines().any(is_alive), "a sleep goes on");
    let told = "the command left 8 processes running, in 4 of 4 runs; each was ended after its run";
    assert!(stdout(&output).contains(told), "{}", stdout(&output));

    let output = fake.ab("", &[&options[..], &["--format", "json"]].concat(), script);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["left_running"], serde_json::json!({ "processes": 8, "runs": 4 }));
}

/// The command writes 4 MB, with the number in the middle.
#[test]
fn a_long_output_is_searched() {
    let fake = Fake::new();
    let script = "head -c 2000000 /dev/zero | tr '\\0' 'x'; echo; echo 7 msg/s; yes | head -c 2000000";
    let options = ["--policy", "kernel", "--runs", "1", "--warmup", "0", "--format", "json"];
    let output = fake.ab("", &[&options[..], &METRIC].concat(), script);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["metrics"][0]["sides"][0]["values"].to_string(), "[7]");
}

fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process exists and is not a zombie.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}
