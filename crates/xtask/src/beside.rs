// SPDX-License-Identifier: GPL-2.0-or-later
//! Commands that run beside stages of `cargo xtask test`, one after the other. What they print is shown when they are
//! waited for, so that it does not get between the lines of the stages.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};

use crate::command;

/// Commands that run beside this program.
pub(crate) struct Beside {
    log: PathBuf,
    runs: JoinHandle<Result<()>>,
}

impl Beside {
    /// Starts commands, each after the one before, whatever became of that. `name` is that of their log, in target/.
    pub(crate) fn start(name: &str, commands: Vec<Command>) -> Result<Beside> {
        let log = command::target_folder()?.join(format!("{name}.log"));
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        let runs = thread::spawn(move || {
            let run = |mut command: Command| {
                let (stdout, stderr) = (output.try_clone()?, output.try_clone()?);
                command::run(command.stdin(Stdio::null()).stdout(stdout).stderr(stderr))
            };
            let results: Vec<Result<()>> = commands.into_iter().map(run).collect();
            command::together(results)
        });
        Ok(Beside { log, runs })
    }

    /// Waits for all of them, and prints what they printed.
    ///
    /// # Errors
    /// The first failure, else the first that this machine cannot run.
    pub(crate) fn end(self) -> Result<()> {
        let result = self.runs.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked")));
        print!("{}", std::fs::read_to_string(&self.log).with_context(|| self.log.display().to_string())?);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn all_run_in_order_and_the_first_failure_counts() {
        let commands = ["echo one; exit 77", "echo two; exit 3", "echo three; exit 4"].map(shell).into();
        let beside = Beside::start("beside-test", commands).unwrap();
        let log = beside.log.clone();
        let error = beside.end().unwrap_err().to_string();
        assert!(error.contains("exit 3"), "{error}");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "one\ntwo\nthree\n");
        assert!(Beside::start("beside-test", vec![shell("true")]).unwrap().end().is_ok());
    }
}
