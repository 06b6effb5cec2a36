// SPDX-License-Identifier: GPL-2.0-or-later
//! A recording by others that may not be shipped. It is read where it lies beside the project; elsewhere the test says
//! that it is skipped.

use std::path::Path;

use wakelab_trace::{Options, read};

use crate::executor::execute;

/// `trace-cmd report` text from a board of six CPUs: sh, sshd and rt-app for 6.7 s. Its states are numbers, and it has
/// no flags.
#[test]
fn juno() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/juno-ssh.ftrace.txt");
    if !path.exists() {
        eprintln!("skipped: {} is not there", path.display());
        return;
    }
    let recording = read(&path, &Options { strict: true, ..Options::default() }).expect("all is explained");
    let explained = &recording.explained;
    assert_eq!((recording.nr_cpus, recording.workload.tasks.len(), recording.events), (6, 50, 2941));
    assert_eq!((explained.waits, explained.unexplained), (1044, 0));
    // rt-app's thread with a period of 16 ms and growing work.
    assert_eq!(explained.loops["ramp"].open, 1);
    // Writes to a disk; each follows the end of the one before.
    assert_eq!(explained.loops["usb-storage"].closed, 1);
    let ends_ns = execute(&recording.workload).expect("all tasks end");
    assert!(ends_ns.iter().all(|&end_ns| end_ns <= recording.duration_ns));
}
