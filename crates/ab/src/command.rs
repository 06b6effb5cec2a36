// SPDX-License-Identifier: GPL-2.0-or-later
//! One run of the command: start it, wait for it, and count what it used.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::error::{AbError, system};
use crate::interrupt::Interrupt;
use crate::output::Output;

/// A run that ended.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    /// Time from just before the start to the end of the program.
    pub(crate) elapsed_ns: u64,
    pub(crate) usage: Usage,
    pub(crate) output: Output,
}

/// CPU time and context switches of the program and of all descendants that were waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
}

/// Runs the command to its end, without input and in its own process group.
pub(crate) fn run(arguments: &[String], interrupt: &Interrupt) -> Result<Finished, AbError> {
    let (program, rest) = arguments.split_first().expect("a plan has a command");
    let output = Output::new()?;
    let mut command = Command::new(program);
    output.attach_to(command.args(rest).process_group(0))?;

    let before = Usage::of_children()?;
    let start = Instant::now();
    let mut child =
        command.spawn().map_err(|source| AbError::NoCommand { program: program.clone(), source })?;
    let ended = wait_for_end(child.id(), interrupt);
    let elapsed = start.elapsed();
    ended.map_err(system("wait for the command"))?;
    let status = child.wait().map_err(system("wait for the command"))?;
    let usage = Usage::of_children()?.since(before);
    Ok(Finished { status, elapsed_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX), usage, output })
}

/// Waits until the child process `pid` has ended, without reaping it: a process id cannot be reused before that. Until
/// then `interrupt` ends the child's process group.
pub(crate) fn wait_for_end(pid: u32, interrupt: &Interrupt) -> io::Result<()> {
    let pid = Pid::from_raw(i32::try_from(pid).expect("process ids are positive ints"));
    interrupt.enter(pid);
    let ended = loop {
        match waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
            Err(nix::errno::Errno::EINTR) => {}
            other => break other,
        }
    };
    interrupt.leave();
    ended.map(drop).map_err(io::Error::from)
}

impl Usage {
    fn of_children() -> Result<Usage, AbError> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(system("ask for the resource usage"))?;
        let ns = |time: nix::sys::time::TimeVal| u64::try_from(time.num_microseconds()).unwrap_or(0) * 1000;
        let count = |value: i64| u64::try_from(value).unwrap_or(0);
        Ok(Usage {
            user_ns: ns(usage.user_time()),
            system_ns: ns(usage.system_time()),
            voluntary: count(usage.voluntary_context_switches()),
            involuntary: count(usage.involuntary_context_switches()),
        })
    }

    fn since(self, before: Usage) -> Usage {
        Usage {
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
        }
    }
}

/// Returns how a program ended, in words.
pub(crate) fn status_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    fn shell(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).into()
    }

    #[test]
    fn output_and_status() {
        let mut run = run(&shell("echo one; echo two >&2; exit 7"), &Interrupt::default()).unwrap();
        assert_eq!(status_words(run.status), "exit code 7");
        assert_eq!(run.output.last_lines().unwrap(), "\n  one\n  two");
        assert!(run.elapsed_ns > 0);
    }

    /// Each of five sleeps is a voluntary switch at least; the shell's own children count.
    #[test]
    fn switches_of_descendants_count() {
        let run = run(&shell("for i in 1 2 3 4 5; do sleep 0.001; done"), &Interrupt::default()).unwrap();
        assert!(run.usage.voluntary >= 5, "{:?}", run.usage);
    }

    #[test]
    fn a_stop_ends_the_command_and_its_children() {
        let interrupt = Interrupt::default();
        thread::scope(|scope| {
            scope.spawn(|| {
                while interrupt.current().is_none() {
                    thread::sleep(Duration::from_millis(5));
                }
                interrupt.stop();
            });
            let run = run(&shell("sleep 1000 & wait"), &interrupt).unwrap();
            assert_eq!(status_words(run.status), "signal 15");
        });
        assert!(interrupt.is_stopped());
        // A command that starts later is ended at once.
        let run = run(&shell("sleep 1000"), &interrupt).unwrap();
        assert_eq!(status_words(run.status), "signal 9");
    }

    #[test]
    fn a_command_that_does_not_heed_the_stop_is_killed() {
        let interrupt = Interrupt::default();
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let script = format!("trap '' TERM; touch {}; while :; do sleep 0.05; done", ready.display());
        thread::scope(|scope| {
            scope.spawn(|| {
                while !ready.exists() {
                    thread::sleep(Duration::from_millis(5));
                }
                interrupt.stop();
            });
            assert_eq!(status_words(run(&shell(&script), &interrupt).unwrap().status), "signal 9");
        });
    }

    #[test]
    fn a_command_that_begins_after_the_stop_is_killed() {
        let interrupt = Interrupt::default();
        interrupt.stop();
        let script = "trap '' TERM; while :; do sleep 0.05; done";
        assert_eq!(status_words(run(&shell(script), &interrupt).unwrap().status), "signal 9");
    }

    #[test]
    fn no_such_program() {
        let error = run(&["/no/such/program".to_owned()], &Interrupt::default()).err().unwrap();
        assert!(error.to_string().starts_with("cannot run /no/such/program: "), "{error}");
    }
}
