// SPDX-License-Identifier: GPL-2.0-or-later
//! Outputs are complete or absent: files that cannot be written, signals, full devices, symbolic links, own inputs.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const EVENTS: [&str; 7] =
    ["run", "pingpong:pairs=1,loops=5", "--machine", "smp-2", "--policy", "linux-4.15", "--events"];
const MAP: [&str; 12] = [
    "map",
    "pingpong:pairs={tasks/2},loops=5",
    "--machine",
    "smp-2",
    "--load",
    "1",
    "--policy",
    "linux-4.15",
    "--policy",
    "linux-5.2",
    "--seeds",
    "1",
];

fn wakelab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_wakelab"))
}

fn output(arguments: &[&str]) -> Output {
    wakelab().args(arguments).output().expect("the command was built")
}

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").expect("Linux has /dev/full").into()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("it is there");
    entries.map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned()).collect()
}

#[track_caller]
fn assert_refused(output: &Output, message: &str) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains(message), "{told}");
    assert!(output.stdout.is_empty(), "nothing ran");
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_anything_runs() {
    let missing = "/nonexistent/events.txt";
    assert_refused(
        &output(&[&EVENTS[..], &[missing]].concat()),
        "--events /nonexistent/events.txt: No such file",
    );
    let plot = |path| output(&[&MAP[..], &["--plot", path]].concat());
    assert_refused(&plot("/nonexistent/map.svg"), "--plot /nonexistent/map.svg: No such file");
    assert_refused(&plot("map.png"), "expected a name that ends in .svg");
    let bench = ["bench", "--grow", "--seconds", "0", "--plot", "/nonexistent/growth.svg"];
    assert_refused(&output(&bench), "--plot /nonexistent/growth.svg: No such file");
}

#[test]
fn a_plot_comes_with_its_table() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("map.svg");
    let output = output(&[&MAP[..], &["--plot", path.to_str().expect("UTF-8")]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!output.stdout.is_empty());
    assert!(fs::read_to_string(&path).expect("it was drawn").starts_with("<svg"));
    assert_eq!(names(folder.path()), ["map.svg"]);
}

#[test]
fn a_replaced_file_keeps_its_mode_and_its_symbolic_link() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, link) = (folder.path().join("events.txt"), folder.path().join("link.txt"));
    fs::write(&file, "old").expect("a temporary file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is ours");
    std::os::unix::fs::symlink("events.txt", &link).expect("a link");
    let output = output(&[&EVENTS[..], &[link.to_str().expect("UTF-8")]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(link.symlink_metadata().expect("it is there").is_symlink());
    assert!(fs::read_to_string(&file).expect("it is there").starts_with("# tracer: nop\n"));
    assert_eq!(file.metadata().expect("it is there").permissions().mode() & 0o777, 0o600);
    assert_eq!(names(folder.path()).len(), 2);
}

#[test]
fn an_input_is_never_replaced() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("events.txt");
    let shown = path.to_str().expect("UTF-8");
    assert!(output(&[&EVENTS[..], &[shown]].concat()).status.success());
    let before = fs::read(&path).expect("it was written");
    let again = ["run", shown, "--machine", "smp-2", "--policy", "linux-4.15", "--events", shown];
    assert_refused(&output(&again), "is an input");
    assert_eq!(fs::read(&path).expect("it is still there"), before);
}

/// SIGINT arrives while events are being written.
#[test]
fn a_signal_leaves_no_file_behind() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("events.txt");
    let arguments =
        ["run", "hackbench:groups=20,loops=30000", "--machine", "smp-8", "--policy", "linux-4.15"];
    let mut child = wakelab()
        .args(arguments)
        .arg("--events")
        .arg(&path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command was built");
    let descriptors = format!("/proc/{}/fd", child.id());
    let is_writing = || {
        let targets = fs::read_dir(&descriptors).into_iter().flatten().flatten();
        let mut targets = targets.filter_map(|entry| fs::read_link(entry.path()).ok());
        targets.any(|target| target.starts_with(folder.path()))
    };
    while !is_writing() {
        assert!(child.try_wait().expect("it is our child").is_none(), "it ended too early");
        std::thread::yield_now();
    }
    // Not SIGINT: a shell that starts the tests in the background makes them ignore it.
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill exists");
    assert!(killed.success());
    assert!(!child.wait().expect("it is our child").success());
    assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
}

#[test]
fn a_full_stdout_is_a_failure_and_a_full_stderr_no_panic() {
    for arguments in [&["--help"][..], &["machines"], &["completions", "bash"], &["man"]] {
        let output = wakelab().args(arguments).stdout(full()).output().expect("the command was built");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("standard output"), "{arguments:?}");
    }
    let status = wakelab().args(["machines", "nope"]).stderr(full()).status().expect("the command was built");
    assert_eq!(status.code(), Some(2));
}

#[test]
fn the_demo_and_standard_input_are_recordings() {
    let replay = |input: &str, stdin: Stdio| {
        // What a pipe tells of its machine comes too late to convert its CPU time.
        let arguments =
            ["run", input, "--recorded-on", "smp-2", "--machine", "smp-2", "--policy", "linux-4.15"];
        let output = wakelab().args(arguments).stdin(stdin).output().expect("the command was built");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("tables are UTF-8")
    };
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hackbench.perf.txt");
    let from_file = replay(fixture, Stdio::null());
    let rows = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(rows(&replay("demo", Stdio::null())), rows(&from_file));
    let file = File::open(fixture).expect("it is there").into();
    assert_eq!(rows(&replay("-", file)), rows(&from_file));
}

#[test]
fn every_command_has_a_manual_page_and_every_shell_a_script() {
    let page = String::from_utf8(output(&["man", "compare"]).stdout).expect("roff is UTF-8");
    assert!(page.contains("wakelab\\-compare") && page.contains("baseline"), "{page}");
    for shell in ["bash", "zsh", "fish"] {
        let script = output(&["completions", shell]);
        assert!(script.status.success());
        assert!(String::from_utf8_lossy(&script.stdout).contains("round-trip"), "{shell}");
    }
}
