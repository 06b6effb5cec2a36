// SPDX-License-Identifier: GPL-2.0-or-later
//! Programs that end with the recorder, even if that is killed by SIGKILL and can do nothing about it.
//!
//! The kernel sends a process a signal when its parent ends, if it has asked for that (PR_SET_PDEATHSIG, prctl(2)), and
//! remembers the request over exec. So the recorder starts itself again, and the copy asks and becomes perf.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};

/// Becomes the program `words`, which SIGKILL ends when the parent `parent_pid` ends. Returns only if that fails.
pub fn exec_with_parent(parent_pid: i32, words: &[OsString]) -> io::Error {
    let Some((program, arguments)) = words.split_first() else {
        return io::Error::new(io::ErrorKind::InvalidInput, "no program was given");
    };
    if let Err(error) = prctl::set_pdeathsig(Signal::SIGKILL) {
        return error.into();
    }
    // A parent that ended before that call sends nothing.
    if getppid() != Pid::from_raw(parent_pid) {
        return io::Error::other("the recorder has ended");
    }
    Command::new(program).args(arguments).exec()
}

/// Returns the command for a program that ends with this process. `launcher` are a program and arguments before the
/// process id; that program calls [`exec_with_parent`] with what follows after `--`. An empty launcher starts it
/// directly.
pub(crate) fn command(launcher: &[OsString], program: &OsString) -> Command {
    let mut command = match launcher.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(std::process::id().to_string()).arg("--").arg(program);
            command
        }
        None => Command::new(program),
    };
    // Ctrl-C is for the recorder, which then ends the program in order. The user's settings may change perf's output.
    command.process_group(0).env("PERF_CONFIG", "/dev/null").env("LC_ALL", "C");
    command
}
