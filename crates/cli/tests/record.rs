// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab record`. Most of it needs root and perf; elsewhere these tests say that they are skipped.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use wakelab_trace::{Options, Recording};

/// Longer than anything takes that does not hang.
const LIMIT: Duration = Duration::from_secs(60);

fn wakelab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wakelab"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// `wakelab record -o FILE ARGUMENTS`.
fn record(file: &Path, arguments: &[&str]) -> Command {
    let mut command = wakelab(&["record", "-o"]);
    command.arg(file).args(arguments);
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns a folder for recordings, or says why there can be none here.
fn folder() -> Option<TempDir> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output =
        record(&folder.path().join("try"), &["--for", "0.01"]).output().expect("the command was built");
    if output.status.code() == Some(2) {
        eprintln!("skipped: {}", stderr(&output).trim());
        return None;
    }
    assert!(output.status.success(), "{}", stderr(&output));
    fs::remove_file(folder.path().join("try")).expect("it was written");
    Some(folder)
}

fn names(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).expect("it is there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn read(path: &Path) -> Recording {
    wakelab_trace::read(path, &Options::default()).expect("a recording")
}

#[test]
fn what_is_missing_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("file");
    let output =
        record(&file, &["--for", "1"]).env("PATH", "/nonexistent").output().expect("the command was built");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).starts_with("wakelab: cannot run perf: it is not in PATH; install perf (Debian: ")
    );
    assert_eq!(stderr(&output).lines().count(), 1);
    assert!(names(&folder).is_empty());
}

/// In a control group without real-time bandwidth, perf starts to write and then ends.
#[test]
fn a_perf_that_may_not_be_a_real_time_task_is_a_normal_one() {
    let Some(folder) = folder() else { return };
    let programs = tempfile::tempdir().expect("a temporary folder");
    let perf = programs.path().join("perf");
    let path = std::env::var("PATH").expect("PATH");
    fs::write(
        &perf,
        "#!/bin/sh\n\
         for argument; do case $argument in --realtime=*) refused=yes;; --output=*) out=${argument#*=};; esac; done\n\
         [ -z \"$refused\" ] || { echo half > \"$out\"; exit 1; }\n\
         PATH=${PATH#*:} exec perf \"$@\"\n",
    )
    .and_then(|()| fs::set_permissions(&perf, fs::Permissions::from_mode(0o755)))
    .expect("a program");
    let path = format!("{}:{path}", programs.path().display());
    let file = folder.path().join("a.rec.gz");
    let output = record(&file, &["--for", "0.01"]).env("PATH", path).output().expect("the command was built");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(names(&folder), ["a.rec.gz"]);
}

#[test]
fn a_command_is_recorded_and_keeps_its_output_and_its_exit_code() {
    let Some(folder) = folder() else { return };
    let file = folder.path().join("a.rec.gz");
    let output =
        record(&file, &["--", "sh", "-c", "echo out; exit 7"]).output().expect("the command was built");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "out\n");
    assert!(stderr(&output).contains("exit status: 7"), "{}", stderr(&output));
    assert_eq!(names(&folder), ["a.rec.gz"]);

    let output = record(&file, &["--no-flow", "--", "sleep", "0.1"]).output().expect("the command was built");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(names(&folder), ["a.rec.gz", "a.rec.gz.old"]);
    let recording = read(&file);
    let header = recording.header.as_ref().expect("a header");
    assert_eq!(header.command, "sleep 0.1");
    assert_eq!(header.kernel, fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux").trim());
    let sleep = recording.workload.tasks.iter().filter(|task| task.name == "sleep");
    assert_eq!(sleep.count(), 1, "from its birth to its end");
    assert!(recording.duration_ns >= 100_000_000, "{}", recording.duration_ns);
    assert!(header.recorder.is_empty() || recording.recorder_ns > 0);
    assert_eq!(
        read(&folder.path().join("a.rec.gz.old")).header.expect("a header").command,
        "sh -c 'echo out; exit 7'"
    );
}

/// Each command that reads recordings reads this one.
#[test]
fn a_recording_is_checked_compared_and_fitted() {
    let Some(folder) = folder() else { return };
    let file = folder.path().join("plain.txt");
    let output = record(&file, &["--", "sh", "-c", "for i in 1 2 3; do sleep 0.01; done"]).output();
    assert!(output.expect("the command was built").status.success());
    let shown = file.to_str().expect("temporary paths are UTF-8");
    for arguments in [
        &["check", shown, "--seeds", "1"][..],
        &["compare", shown, "--machine", "smp-8", "--policy", "linux-4.15", "--seeds", "1"],
        &["run", shown, "--machine", "smp-8", "--policy", "linux-4.15"],
        &["fit", shown],
    ] {
        let output = wakelab(arguments).output().expect("the command was built");
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    }
    // The shell and what it forked; all sleep but the shell.
    let recording = read(&file);
    if recording.header.as_ref().is_some_and(|header| header.command_pid.is_some()) {
        let mut service: Vec<&str> = recording
            .workload
            .tasks
            .iter()
            .filter(|task| task.judged)
            .map(|task| task.name.as_str())
            .collect();
        service.sort_unstable();
        assert_eq!(service, ["sh", "sleep", "sleep", "sleep"]);
    }
    let text = fs::read_to_string(&file).expect("text");
    assert!(text.starts_with("# wakelab-record: wakelab "));
    assert!(text.lines().last().expect("lines").starts_with("# wakelab-end: "));
    // Other tests may record meanwhile.
    let recorder = recording.header.map(|header| header.recorder).unwrap_or_default();
    let measures = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let process = words.next().and_then(|ids| ids.split('/').next()?.parse().ok());
        name.starts_with("wl-cost") && process.is_some_and(|process| recorder.contains(&process))
    };
    assert!(!text.lines().any(measures), "what measures the cost is not in the recording");
}

/// A recorder at work: `wakelab record -- sleep 1000`, with perf and the command as its children.
struct Recorder {
    child: Child,
    perf: PathBuf,
    command: String,
}

impl Recorder {
    fn start(file: &Path) -> Recorder {
        let mut child = record(file, &["--", "sleep", "1000"])
            .stderr(Stdio::null())
            .spawn()
            .expect("the command was built");
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let begin = Instant::now();
        loop {
            assert!(child.try_wait().expect("it is our child").is_none(), "it ended too early");
            assert!(begin.elapsed() < LIMIT, "the command does not start");
            let pids = fs::read_to_string(&children).unwrap_or_default();
            let named = |name: &str| {
                let comm = |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                pids.split_whitespace().find(|pid| comm(pid).trim() == name).map(str::to_owned)
            };
            if let (Some(perf), Some(command)) = (named("perf"), named("sleep")) {
                return Recorder { child, perf: format!("/proc/{perf}/stat").into(), command };
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn signal(pid: &str, signal: &str) {
        let killed = Command::new("kill").args([signal, pid]).status().expect("kill exists");
        assert!(killed.success());
    }

    fn perf_runs(&self) -> bool {
        fs::read_to_string(&self.perf).is_ok_and(|stat| !stat.contains(") Z "))
    }
}

#[test]
fn a_signal_ends_the_recording_and_it_is_written() {
    let Some(folder) = folder() else { return };
    let file = folder.path().join("b.rec.gz");
    let mut recorder = Recorder::start(&file);
    Recorder::signal(&recorder.child.id().to_string(), "-TERM");
    assert!(recorder.child.wait().expect("it is our child").success());
    assert!(!recorder.perf_runs());
    assert_eq!(names(&folder), ["b.rec.gz"]);
    assert_eq!(read(&file).header.expect("a header").command, "sleep 1000");
}

#[test]
fn perf_ends_with_a_recorder_that_is_killed() {
    let Some(folder) = folder() else { return };
    let mut recorder = Recorder::start(&folder.path().join("c.rec.gz"));
    Recorder::signal(&recorder.child.id().to_string(), "-KILL");
    assert!(!recorder.child.wait().expect("it is our child").success());
    // The recorded command goes on, as it does under perf.
    Recorder::signal(&recorder.command, "-TERM");
    let begin = Instant::now();
    while recorder.perf_runs() {
        assert!(begin.elapsed() < LIMIT, "perf is still there");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(names(&folder).is_empty());
}
