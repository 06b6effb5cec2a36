// SPDX-License-Identifier: GPL-2.0-or-later
//! One run of the command: started, waited for, and what it used.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::error::{AbError, system};
use crate::interrupt::Interrupt;

/// So many of the last lines of what a program said are shown.
const SAID_LINES: usize = 10;

/// A run that ended.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    /// From just before the start to the end of the program.
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

/// What a program writes goes to files, so that nobody has to read while it runs.
pub(crate) struct Output {
    stdout: File,
    stderr: File,
}

impl Output {
    pub(crate) fn new() -> Result<Output, AbError> {
        let file = || tempfile::tempfile().map_err(system("create a temporary file"));
        Ok(Output { stdout: file()?, stderr: file()? })
    }

    /// Lets the program write there.
    pub(crate) fn give_to(&self, command: &mut Command) -> Result<(), AbError> {
        let clone = |file: &File| file.try_clone().map_err(system("share a temporary file"));
        command.stdin(Stdio::null()).stdout(clone(&self.stdout)?).stderr(clone(&self.stderr)?);
        Ok(())
    }

    /// Everything so far, standard output first. What is no UTF-8 is replaced.
    pub(crate) fn text(&mut self) -> Result<String, AbError> {
        let mut read = || -> io::Result<String> {
            let mut bytes = Vec::new();
            for file in [&mut self.stdout, &mut self.stderr] {
                file.rewind()?;
                file.read_to_end(&mut bytes)?;
            }
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().map_err(system("read what a program wrote"))
    }

    /// The last lines, each after a line break and some blanks.
    pub(crate) fn said(&mut self) -> Result<String, AbError> {
        let text = self.text()?;
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(SAID_LINES)..];
        Ok(last.iter().map(|line| format!("\n  {}", line.trim_end())).collect())
    }
}

/// Runs the command to its end, with no input and in a process group of its own.
pub(crate) fn run(arguments: &[String], interrupt: &Interrupt) -> Result<Finished, AbError> {
    let (program, rest) = arguments.split_first().expect("a plan has a command");
    let output = Output::new()?;
    let mut command = Command::new(program);
    output.give_to(command.args(rest).process_group(0))?;

    let before = Usage::of_children()?;
    let start = Instant::now();
    let mut child =
        command.spawn().map_err(|source| AbError::NoCommand { program: program.clone(), source })?;
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("process ids are positive ints"));
    interrupt.enter(pid);
    // Its end, without reaping it: until `leave` its number must stay its own.
    let ended = loop {
        match waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
            Err(nix::errno::Errno::EINTR) => {}
            other => break other,
        }
    };
    let elapsed = start.elapsed();
    interrupt.leave();
    ended.map_err(system("wait for the command"))?;
    let status = child.wait().map_err(system("wait for the command"))?;
    let usage = Usage::of_children()?.since(before);
    Ok(Finished { status, elapsed_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX), usage, output })
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

/// How a program ended, in words.
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
        assert_eq!(run.output.text().unwrap(), "one\ntwo\n");
        assert_eq!(run.output.said().unwrap(), "\n  one\n  two");
        assert!(run.elapsed_ns > 0);
    }

    #[test]
    fn the_last_lines_are_shown() {
        let mut run = run(&shell("seq 1 30; echo"), &Interrupt::default()).unwrap();
        let expected: String = (21..=30).map(|line| format!("\n  {line}")).collect();
        assert_eq!(run.output.said().unwrap(), expected);
    }

    /// A hundred sleeps are a hundred voluntary switches and more; the shell's own children count.
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
        // Whoever comes later is ended at once.
        let run = run(&shell("sleep 1000"), &interrupt).unwrap();
        assert_eq!(status_words(run.status), "signal 15");
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
    fn no_such_program() {
        let error = run(&["/no/such/program".to_owned()], &Interrupt::default()).err().unwrap();
        assert!(error.to_string().starts_with("cannot run /no/such/program: "), "{error}");
    }
}
