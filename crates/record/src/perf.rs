// SPDX-License-Identifier: GPL-2.0-or-later
//! perf as a child process: started with its events off, told by a pipe to turn them on and off, and ended by SIGINT.
//!
//! perf answers each command on a second pipe (`--control`, since perf 5.10). It opens the pipes and its data file by
//! their names in /proc, so none of them is inherited by the recorded command.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use crate::error::{RecordError, system};
use crate::parent;

/// Pause between two looks at a perf that has not answered yet. It is never used while something is recorded.
const POLL_MS: u16 = 20;
/// Most lines of perf's messages that an error repeats.
const LINES_SAID: usize = 5;

/// How to call perf.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: OsString,
    /// See [`parent::command`].
    pub(crate) launcher: Vec<OsString>,
}

impl Program {
    /// Returns what `perf --version` says.
    pub(crate) fn version(&self) -> Result<String, RecordError> {
        let program = self.path.to_string_lossy().into_owned();
        let output = Command::new(&self.path).arg("--version").env("LC_ALL", "C").output();
        match output {
            Ok(output) if output.status.success() => {
                Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
            }
            // Ubuntu has a script of this name that says for which kernel perf is missing.
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("`--version` failed");
                Err(RecordError::NoPerf { program, why: first.trim().to_owned() })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(RecordError::NoPerf { program, why: "it is not in PATH".to_owned() })
            }
            Err(error) => Err(RecordError::NoPerf { program, why: error.to_string() }),
        }
    }
}

/// What perf records.
pub(crate) struct Order<'a> {
    pub(crate) events: &'a [&'static str],
    /// Events of system calls, without those of perf itself: each of its calls that write events would cause more.
    pub(crate) calls: &'a [String],
    /// The size of each CPU's buffer.
    pub(crate) buffer_mb: u32,
    /// Where perf's data go.
    pub(crate) data: &'a File,
}

/// A `perf record` that runs. Dropped, it is killed.
pub(crate) struct Recorder {
    child: Child,
    commands: PipeWriter,
    answers: PipeReader,
    messages: File,
}

impl Recorder {
    /// Starts perf with all events off, as a real-time task if that is permitted. As a normal task it comes too late
    /// to its buffers, whatever its nice value, if the programs that it records are in a group that weighs more:
    /// two thirds of the events of `hackbench` in a group with a hundred times the shares of perf's session were
    /// lost.
    pub(crate) fn start(program: &Program, order: &Order<'_>) -> Result<Recorder, RecordError> {
        if geteuid().is_root()
            && let Ok(recorder) = Recorder::begin(program, order, true)
        {
            return Ok(recorder);
        }
        Recorder::begin(program, order, false)
    }

    fn begin(program: &Program, order: &Order<'_>, realtime: bool) -> Result<Recorder, RecordError> {
        // perf renames a file that is not empty, and a perf that was refused real time has left its header.
        order.data.set_len(0).map_err(system("empty the file of events"))?;
        let pipe = || std::io::pipe().map_err(system("make a pipe"));
        let ((commands_out, commands), (answers, answers_in)) = (pipe()?, pipe()?);
        let messages = tempfile::tempfile().map_err(system("make a temporary file"))?;
        let control = format!("fifo:{},{}", shown(commands_out.as_raw_fd()), shown(answers_in.as_raw_fd()));
        let mut command = parent::command(&program.launcher, &program.path);
        command.args([
            "record",
            "--all-cpus",
            "--no-buildid",
            "--no-buildid-cache",
            "--count=1",
            "--delay=-1",
        ]);
        if realtime {
            // The lowest priority of SCHED_FIFO.
            command.arg("--realtime=1");
        }
        command.arg(format!("--mmap-pages={}M", order.buffer_mb));
        // The recorder must know which events came after its end: those that measure the cost of an event.
        command.args(["--clockid=CLOCK_MONOTONIC", "--event", &order.events.join(",")]);
        if !order.calls.is_empty() {
            // It is about the events of the last option.
            command.args(["--event", &order.calls.join(","), "--exclude-perf"]);
        }
        command.arg(format!("--control={control}"));
        command.arg(format!("--output={}", path(order.data).display()));
        let child = spawn(program, command.stdin(Stdio::null()).stdout(Stdio::null()), &messages)?;
        favour(&child);
        let mut recorder = Recorder { child, commands, answers, messages };
        // perf answers once it has opened the pipes, so they must stay open until then.
        recorder.tell("disable")?;
        drop((commands_out, answers_in));
        Ok(recorder)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Turns all events on (`enable`) or off (`disable`), and waits until that is done.
    pub(crate) fn tell(&mut self, command: &str) -> Result<(), RecordError> {
        if self.commands.write_all(format!("{command}\n").as_bytes()).is_err() {
            // Nobody reads the pipe, so perf has ended.
            let status = self.child.wait().map_err(system("wait for perf"))?;
            return Err(failed("perf record", status, &mut self.messages));
        }
        let mut answer = [0; 64];
        loop {
            let mut fds = [PollFd::new(self.answers.as_fd(), PollFlags::POLLIN)];
            let ready = match poll(&mut fds, PollTimeout::from(POLL_MS)) {
                Err(nix::errno::Errno::EINTR) => 0,
                ready => ready.map_err(system("wait for perf"))?,
            };
            if ready > 0 {
                // `ack`, a newline and a NUL byte.
                let length = self.answers.read(&mut answer).map_err(system("read from perf's pipe"))?;
                if answer[..length].starts_with(b"ack") {
                    return Ok(());
                }
            }
            if let Some(status) = self.child.try_wait().map_err(system("look after perf"))? {
                return Err(failed("perf record", status, &mut self.messages));
            }
        }
    }

    /// Ends perf, which completes its data.
    pub(crate) fn end(mut self) -> Result<(), RecordError> {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("process ids are positive ints"));
        // It is not reaped before `wait`, so no other process can have its id.
        kill(pid, Signal::SIGINT).map_err(system("end perf"))?;
        let status = self.child.wait().map_err(system("wait for perf"))?;
        // perf ends itself by the signal that ended the recording.
        if status.success() || status.signal() == Some(Signal::SIGINT as i32) {
            return Ok(());
        }
        Err(failed("perf record", status, &mut self.messages))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // A recorder that has ended is reaped already, and both calls do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A `perf script` that runs. Dropped, it is killed.
pub(crate) struct Script {
    child: Child,
    messages: File,
}

impl Script {
    /// Starts to print the events of `data`. Returns also what perf prints.
    pub(crate) fn start(program: &Program, data: &File) -> Result<(Script, ChildStdout), RecordError> {
        let messages = tempfile::tempfile().map_err(system("make a temporary file"))?;
        let mut command = parent::command(&program.launcher, &program.path);
        command.args(["script", "--ns", "--fields=+pid", "--show-lost-events"]);
        command.arg(format!("--input={}", path(data).display()));
        let mut child = spawn(program, command.stdin(Stdio::null()).stdout(Stdio::piped()), &messages)?;
        let stdout = child.stdout.take().expect("it is piped");
        Ok((Script { child, messages }, stdout))
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Result<(), RecordError> {
        let status = self.child.wait().map_err(system("wait for perf"))?;
        if status.success() { Ok(()) } else { Err(failed("perf script", status, &mut self.messages)) }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(program: &Program, command: &mut Command, messages: &File) -> Result<Child, RecordError> {
    let messages = messages.try_clone().map_err(system("use a temporary file"))?;
    command.stderr(messages).spawn().map_err(|source| RecordError::NoPerf {
        program: program.path.to_string_lossy().into_owned(),
        why: source.to_string(),
    })
}

/// Gives perf the highest weight of a normal task, for the case that it is one. As one of 40 tasks on 2 CPUs it came
/// too late to its buffers: 900,000 of 6 million events of hackbench over sockets were lost.
fn favour(child: &Child) {
    const HIGHEST: i32 = -20;
    // Where that is forbidden, events may be lost, which is told.
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::setpriority_process(Some(pid), HIGHEST);
    }
}

/// Where another process finds an open file of this one.
fn shown(descriptor: RawFd) -> String {
    format!("/proc/{}/fd/{descriptor}", std::process::id())
}

fn path(file: &File) -> PathBuf {
    Path::new(&shown(file.as_raw_fd())).to_owned()
}

/// Returns the error of a perf that ended, with the first lines that it said.
fn failed(what: &'static str, status: ExitStatus, messages: &mut File) -> RecordError {
    let mut text = Vec::new();
    let _ = messages.rewind().and_then(|()| messages.take(1 << 16).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(LINES_SAID);
    let mut said: String = lines.map(|line| format!("\n  {line}")).collect();
    if text.contains("unknown option `control") {
        said.push_str("\n  wakelab needs perf 5.10 or newer; perf works with older kernels, too");
    }
    RecordError::PerfFailed { what, status: status_words(status), said }
}

/// Returns how a program ended, in words.
pub(crate) fn status_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
