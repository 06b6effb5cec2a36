// SPDX-License-Identifier: GPL-2.0-or-later
//! The scheduler that the kernel runs, and the loader that changes it.
//!
//! The kernel shows it in /sys/kernel/sched_ext (Documentation/scheduler/sched-ext.rst): `state`, `root/ops` (the name
//! of the attached scheduler), `switch_all` (whether it schedules all normal tasks) and `enable_seq` (the number of
//! times that a scheduler was attached since boot). A policy that is attached before and after a run, with the same
//! number, was attached all the time. The kernel counts a scheduler a moment after its state is `enabled`
//! (kernel/sched/ext.c, `scx_ops_enable()`), so an attachment is over only when the number has changed, too.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::command::status_words;
use crate::error::{AbError, system};
use crate::interrupt::{Interrupt, POLL};
use crate::output::Output;

/// The beginning of the name that `scx_wakelab` gives its scheduler; a version follows.
const OPS_NAME: &str = "wakelab";

/// Loading and attaching takes well under a second on a machine, and a minute under emulation.
const ATTACH_LIMIT: Duration = Duration::from_secs(180);
/// Detaching takes well under a second too, and longer under emulation.
const DETACH_LIMIT: Duration = Duration::from_secs(60);

/// The kernel's sched_ext, as /sys shows it.
#[derive(Clone, Debug)]
pub(crate) struct SchedExt {
    folder: PathBuf,
}

/// What was attached at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Attached {
    state: String,
    ops: String,
    /// Number of schedulers attached since boot; `None` if this kernel does not count them.
    enable_seq: Option<String>,
}

impl SchedExt {
    pub(crate) fn new(sysfs: &Path) -> SchedExt {
        SchedExt { folder: sysfs.join("kernel/sched_ext") }
    }

    /// Checks that no sched_ext scheduler is attached.
    pub(crate) fn demand_free(&self) -> Result<(), AbError> {
        let now = self.now()?;
        match now.state == "disabled" {
            true => Ok(()),
            false => Err(AbError::Occupied { ops: now.ops, state: now.state }),
        }
    }

    /// Whether the kernel's own scheduler runs; on a kernel without sched_ext there is no other.
    pub(crate) fn is_free(&self) -> Result<bool, AbError> {
        match self.now() {
            Ok(now) => Ok(now.state == "disabled"),
            Err(AbError::NoSchedExt { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Waits until no scheduler of wakelab's is attached.
    pub(crate) fn wait_until_detached(&self) -> Result<(), AbError> {
        let begin = Instant::now();
        loop {
            let now = match self.now() {
                Err(AbError::NoSchedExt { .. }) => return Ok(()),
                now => now?,
            };
            if now.state == "disabled" || (now.state == "enabled" && !now.ops.starts_with(OPS_NAME)) {
                return Ok(());
            }
            if begin.elapsed() > DETACH_LIMIT {
                return Err(AbError::NotDetached { state: now.state, after_s: DETACH_LIMIT.as_secs() });
            }
            thread::sleep(POLL);
        }
    }

    /// Whether the scheduler has all normal tasks, not only those of the class SCHED_EXT (SCX_OPS_SWITCH_PARTIAL).
    fn schedules_all(&self) -> Result<bool, AbError> {
        Ok(read(&self.folder.join("switch_all"))?.as_deref() != Some("0"))
    }

    fn now(&self) -> Result<Attached, AbError> {
        let state = self.folder.join("state");
        let Some(state) = read(&state)? else {
            return Err(AbError::NoSchedExt { path: state.display().to_string() });
        };
        // The folder of a scheduler is there only while one is attached.
        let ops = read(&self.folder.join("root/ops"))?.unwrap_or_default();
        Ok(Attached { state, ops, enable_seq: read(&self.folder.join("enable_seq"))? })
    }
}

/// Returns a file's text without its line break; `None` if there is no such file.
fn read(path: &Path) -> Result<Option<String>, AbError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim_end().to_owned())),
        // The folder of a scheduler that is detached may disappear between open and read.
        Err(error)
            if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ENODEV) =>
        {
            Ok(None)
        }
        Err(error) => Err(system(format!("read {}", path.display()))(error)),
    }
}

/// The program that loads a policy.
#[derive(Clone, Debug)]
pub struct LoaderCommand {
    /// `scx_wakelab`, or a program that takes its arguments.
    pub program: PathBuf,
    /// Arguments after `--policy SPEC`.
    pub arguments: Vec<String>,
}

impl LoaderCommand {
    /// Checks that the loader can be run.
    pub(crate) fn check(&self) -> Result<(), AbError> {
        let no_loader = |source| AbError::NoLoader { path: self.program.display().to_string(), source };
        let output = Command::new(&self.program).arg("--version").output().map_err(no_loader)?;
        match output.status.success() {
            true => Ok(()),
            false => Err(no_loader(io::Error::other(format!(
                "`--version` ended with {}",
                status_words(output.status)
            )))),
        }
    }
}

/// A loader whose scheduler is attached. Dropped, it is stopped as [`Loader::stop`] does.
pub(crate) struct Loader {
    child: Child,
    output: Output,
    sched_ext: SchedExt,
    /// As it was before the loader started, until its scheduler is attached.
    attached: Attached,
}

impl Loader {
    /// Starts the loader and waits until the kernel says that its scheduler is attached.
    pub(crate) fn start(
        command: &LoaderCommand,
        policy: &str,
        sched_ext: &SchedExt,
        interrupt: &Interrupt,
    ) -> Result<Loader, AbError> {
        let before = sched_ext.now()?;
        let output = Output::new()?;
        let mut start = Command::new(&command.program);
        // Its own process group, because Ctrl-C must not end it before the command's run is over.
        start.args(["--policy", policy]).args(&command.arguments).process_group(0);
        output.attach_to(&mut start)?;
        let child = start
            .spawn()
            .map_err(|source| AbError::NoLoader { path: command.program.display().to_string(), source })?;
        let mut loader = Loader { child, output, sched_ext: sched_ext.clone(), attached: before };

        let begin = Instant::now();
        loop {
            let now = sched_ext.now()?;
            let is_counted = now.enable_seq.is_none() || now.enable_seq != loader.attached.enable_seq;
            if now.state == "enabled" && now.ops.starts_with(OPS_NAME) && is_counted {
                if !sched_ext.schedules_all()? {
                    let why = "it schedules only tasks of the class SCHED_EXT, and the command is not one"
                        .to_owned();
                    return Err(AbError::NotAttached { policy: policy.to_owned(), why });
                }
                loader.attached = now;
                return Ok(loader);
            }
            let why = if interrupt.is_stopped() {
                return Err(AbError::Interrupted);
            } else if let Some(status) = loader.ended()? {
                format!("it ended with {}", status_words(status))
            } else if begin.elapsed() > ATTACH_LIMIT {
                format!("after {} s the kernel's state is `{}`", ATTACH_LIMIT.as_secs(), now.state)
            } else {
                thread::sleep(POLL);
                continue;
            };
            let why = format!("{why}{}", loader.output.last_lines()?);
            return Err(AbError::NotAttached { policy: policy.to_owned(), why });
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("process ids are positive ints"))
    }

    /// Returns what happened if the scheduler has not been attached all the time.
    pub(crate) fn lost(&mut self) -> Result<Option<String>, AbError> {
        if let Some(status) = self.ended()? {
            return self.how_it_ended(status).map(Some);
        }
        let now = self.sched_ext.now()?;
        if now == self.attached {
            return Ok(None);
        }
        // The kernel has just detached it, and the loader is about to say why. Whether it has ended by now or ends a
        // moment later, the answer is the same.
        if let Some(status) = self.wait(DETACH_LIMIT / 10)? {
            return self.how_it_ended(status).map(Some);
        }
        let what = match now.state == "enabled" && now.ops == self.attached.ops {
            true => "the policy was attached again during the run".to_owned(),
            false => format!("state `{}`, scheduler `{}` at the end of the run", now.state, now.ops),
        };
        Ok(Some(format!("{what}{}", self.output.last_lines()?)))
    }

    fn how_it_ended(&mut self, status: ExitStatus) -> Result<String, AbError> {
        Ok(format!("the loader ended with {}{}", status_words(status), self.output.last_lines()?))
    }

    /// Stops the loader by SIGINT and waits until the kernel's own scheduler is back. Returns what went wrong before,
    /// if the loader reports something.
    pub(crate) fn stop(mut self) -> Result<Option<String>, AbError> {
        let status = self.end()?;
        self.sched_ext.wait_until_detached()?;
        if status.success() {
            return Ok(None);
        }
        self.how_it_ended(status).map(Some)
    }

    /// Ends the program if it has not ended yet: by SIGINT, then by SIGKILL.
    fn end(&mut self) -> Result<ExitStatus, AbError> {
        if let Some(status) = self.ended()? {
            return Ok(status);
        }
        // It is not reaped before `wait`, so that no other process can have its id.
        let _ = kill(self.pid(), Signal::SIGINT);
        if let Some(status) = self.wait(DETACH_LIMIT)? {
            return Ok(status);
        }
        self.child.kill().map_err(system("kill the loader"))?;
        self.child.wait().map_err(system("wait for the loader"))
    }

    /// Waits at most `limit` for the program's end.
    fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>, AbError> {
        let begin = Instant::now();
        loop {
            let ended = self.ended()?;
            if ended.is_some() || begin.elapsed() > limit {
                return Ok(ended);
            }
            thread::sleep(POLL);
        }
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>, AbError> {
        self.child.try_wait().map_err(system("look after the loader"))
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // A caller that drops it without `stop` has an error to report already.
        let _ = self.end();
    }
}
