// SPDX-License-Identifier: GPL-2.0-or-later
//! One recording, from the first look at the machine until perf has completed its data.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, geteuid, gettid};
use wakelab_machine::Machine;
use wakelab_trace::{Header, Measured, header};

use crate::calls::Calls;
use crate::clock;
use crate::cost::{self, Added};
use crate::error::{RecordError, system};
use crate::events::{Group, Selection, event_folders, select};
use crate::facts;
use crate::open_files::descriptors;
use crate::perf::{Order, Program, Recorder, status_words};
use crate::probes::{Probed, Probes};
use crate::stop::{Stop, Woken};
use crate::tasks::{self, Tasks, look_at_descendants, tasks, threads};
use crate::wakes;

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The command to record, with its arguments; empty: whatever the machine does.
    pub command: Vec<String>,
    /// Tasks that the recording is about, beside the command and its descendants, by name, or by the beginning of the
    /// name and `*`.
    pub service: Vec<String>,
    /// When the recording ends, if the command has not ended before.
    pub limit: Option<Duration>,
    /// Groups of events to leave out.
    pub without: Vec<Group>,
    /// Whether to measure what wake-ups cost on this machine, at the end.
    pub measure: bool,
    /// The size of perf's buffer for each CPU: a power of two; `None` for one that suits the machine.
    pub buffer_mb: Option<u32>,
    /// Where perf's data go, in a file without a name.
    pub folder: PathBuf,
    /// perf, by its name or path.
    pub perf: OsString,
    /// A program and arguments that, with the id of this process and a command behind them, call
    /// [`crate::exec_with_parent`].
    pub launcher: Vec<OsString>,
    /// The caller's name and version, for the header.
    pub made_by: String,
}

/// A recording that has ended and is not written yet.
#[derive(Debug)]
pub struct Taken {
    /// How the command ended; `None` if there was none, or if the recorder ended it.
    pub status: Option<ExitStatus>,
    /// What the user must know, a sentence each.
    pub warnings: Vec<String>,
    pub(crate) header: Header,
    /// More lines of the header.
    pub(crate) facts: String,
    /// perf's data.
    pub(crate) data: File,
    /// The recording's end, on the recorder's clock. Later events measure the cost of an event.
    pub(crate) end_ns: u64,
    /// What tells of messages over pipes, eventfds and message queues, if they were recorded.
    pub(crate) calls: Option<Calls>,
    /// Messages over pipes and eventfds, if BPF programs told them.
    pub(crate) probed: Option<Probed>,
    pub(crate) added: Option<Added>,
    pub(crate) program: Program,
}

/// When the first look at the command's tasks is taken, after its start. A program like `taskset` has begun the next
/// one by then.
const FIRST_LOOK: Duration = Duration::from_millis(2);

/// Each look is later than the one before by this factor, because most tasks inherit what was seen of the first ones,
/// and each look takes time from the command.
const LOOKS_APART: u32 = 4;

/// What happened while events were on.
struct Ran {
    begin_ns: u64,
    /// How the command ended, if it ended by itself.
    status: Option<ExitStatus>,
    end_ns: u64,
    /// The command's process.
    command_pid: Option<u32>,
    /// The thread that waited for the command.
    waiter: Option<u32>,
    /// The command's tasks, as they were seen while it ran.
    seen: Tasks,
}

/// Records until the command ends, until the limit, or until a stop.
///
/// # Errors
/// No perf, no root, no events, no such command; or perf fails.
pub fn record(plan: &Plan, stop: &Stop) -> Result<Taken, RecordError> {
    let program = Program { path: plan.perf.clone(), launcher: plan.launcher.clone() };
    let version = program.version()?;
    if !geteuid().is_root() {
        return Err(RecordError::NotRoot);
    }
    let mut warnings = Vec::new();
    let Source { machine, buffer_mb, mut probes, selection, pipes } = source(plan, &mut warnings)?;
    let data = tempfile::tempfile_in(&plan.folder)
        .map_err(system(format!("make a temporary file in {}", plan.folder.display())))?;
    let before = tasks(Path::new("/proc"));
    let mut groups = facts::cgroups();
    let began_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let calls = (!selection.calls.is_empty()).then(|| Calls::new(descriptors(Path::new("/proc"), pipes)));

    let order = Order { events: &selection.events, calls: &selection.calls, buffer_mb, data: &data };
    let mut recorder = Recorder::start(&program, &order)?;
    let mut own: BTreeSet<u32> = threads(std::process::id()).into_iter().collect();
    own.extend(threads(recorder.pid()));
    probes.as_mut().map_or(Ok(()), Probes::attach).map_err(system("attach BPF programs"))?;
    let ran = run(&plan.command, plan.limit, stop, &mut recorder)?;
    probes.iter_mut().for_each(Probes::detach);
    own.extend(threads(recorder.pid()));
    own.extend(ran.waiter);
    let after = tasks(Path::new("/proc"));
    let added = cost::measure(&mut recorder)
        .map_err(|error| warnings.push(format!("the cost of an event was not measured: {error}")))
        .ok();
    recorder.end()?;
    let probed = probes.map(|probes| end_probes(probes, &ran, &mut warnings)).transpose()?;
    let measured = measured(plan, machine.as_ref().map(|(machine, _)| machine), &mut warnings);

    let ids_known = facts::ids_are_the_kernels();
    if !ids_known {
        warnings.push(
            "in a container the ids of tasks are not those of the events, so the recorder is known by its name alone, and \
             affinities are unknown"
                .to_owned(),
        );
    }
    warnings.extend(absent(&selection));
    let header = Header {
        made_by: format!("{}, {version}", plan.made_by),
        kernel: facts::text("/proc/sys/kernel/osrelease").unwrap_or_default(),
        boot_options: facts::text("/proc/cmdline").unwrap_or_default(),
        tunables: BTreeMap::new(),
        command: facts::shell_words(&plan.command),
        command_pid: ran.command_pid.filter(|_| ids_known),
        service: plan.service.clone(),
        machine: machine.map_or_else(String::new, |(_, text)| text),
        recorder: if ids_known { own } else { BTreeSet::new() },
        event_cost_ns: None,
        message_cost_ns: probed.as_ref().and_then(|probed| probed.cost_ns),
        measured,
    };
    warnings.extend(header.patched_kernel());
    let mut lines = how(plan, buffer_mb, &selection, &ran, began_s);
    let base_slice_ns = facts::base_slice_ns().or_else(|| tasks::usual_slice_ns(&before));
    lines.push_str(&facts::settings(base_slice_ns));
    // Those of the beginning count; some may have been made since.
    facts::cgroups().into_iter().for_each(|(path, values)| _ = groups.entry(path).or_insert(values));
    lines.push_str(&facts::cgroup_lines(&groups));
    let told = || tasks::lines(&before, &ran.seen, &after, &facts::online(), base_slice_ns);
    lines.push_str(&ids_known.then(told).unwrap_or_default());
    let (status, end_ns) = (ran.status, ran.end_ns);
    Ok(Taken { status, warnings, header, facts: lines, data, end_ns, calls, probed, added, program })
}

/// What is recorded from.
struct Source {
    machine: Option<(Machine, String)>,
    buffer_mb: u32,
    probes: Option<Probes>,
    selection: Selection,
    /// Calls that use pipes are among the events.
    pipes: bool,
}

/// Looks at the machine, loads programs, and chooses events.
fn source(plan: &Plan, warnings: &mut Vec<String>) -> Result<Source, RecordError> {
    let machine = machine(warnings);
    // A machine that cannot be described may have any number of CPUs.
    let nr_cpus = machine.as_ref().map_or(usize::MAX, |(machine, _)| machine.topology.nr_cpus());
    let buffer_mb = plan.buffer_mb.unwrap_or_else(|| usual_buffer_mb(nr_cpus, facts::memory_mb()));
    let probes = probes(plan, buffer_mb, warnings);
    // What programs of ours tell of pipes, events of system calls need not.
    let mut without = plan.without.clone();
    without.extend(probes.is_some().then_some(Group::Pipe));
    let selection = select(&event_folders(), &without)?;
    Ok(Source { machine, buffer_mb, probes, selection, pipes: !without.contains(&Group::Pipe) })
}

/// Loads the programs that tell of messages over pipes and eventfds, if they are built in and wanted; says why not.
fn probes(plan: &Plan, buffer_mb: u32, warnings: &mut Vec<String>) -> Option<Probes> {
    if plan.without.contains(&Group::Flow) {
        return None;
    }
    Probes::load(buffer_mb << 20)
        .map_err(|error| {
            let why = format!("messages over pipes and eventfds are not told by BPF: {error}");
            // A program without them says nothing of what it never does.
            warnings.extend((error.kind() != io::ErrorKind::Unsupported).then_some(why));
        })
        .ok()
}

/// Ends the programs, and takes what they told.
fn end_probes(mut probes: Probes, ran: &Ran, warnings: &mut Vec<String>) -> Result<Probed, RecordError> {
    let cost_ns = probes.measure().unwrap_or_else(|error| {
        warnings.push(format!("the cost of a message's record was not measured: {error}"));
        None
    });
    let page_bytes = rustix::param::page_size() as u64;
    let probed = probes.end().and_then(|(file, lost)| {
        let span_ns = (ran.begin_ns, ran.end_ns);
        Probed::new(file, lost, cost_ns, span_ns, page_bytes)
    });
    probed.map_err(system("read what BPF programs told"))
}

/// Says which events the kernel does not have.
fn absent(selection: &Selection) -> Option<String> {
    let absent = &selection.absent;
    (!absent.is_empty()).then(|| format!("this kernel does not have {}", absent.join(", ")))
}

/// Returns this machine with its text; `None`, with a warning, if it cannot be described.
fn machine(warnings: &mut Vec<String>) -> Option<(Machine, String)> {
    let described = Machine::preset("host").and_then(|machine| {
        let text = machine.to_toml()?;
        // The meaning of each figure is in every machine file, and is not needed here.
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let text = lines.fold(String::new(), |all, line| all + line + "\n");
        Ok((machine, text))
    });
    described
        .map_err(|error| warnings.push(format!("the recording does not describe the machine: {error}")))
        .ok()
}

/// Returns what wake-ups cost here; nothing, with a warning, if that could not be measured.
fn measured(plan: &Plan, machine: Option<&Machine>, warnings: &mut Vec<String>) -> Measured {
    if !plan.measure {
        return Measured::default();
    }
    let cpus = machine.map_or((0, None), |machine| wakes::pair(&machine.topology));
    let measured = wakes::measure(cpus);
    measured.unwrap_or_else(|error| {
        warnings.push(format!("what a wake-up costs was not measured: {error}"));
        Measured::default()
    })
}

/// Returns the size of each CPU's buffer if none was asked for: the largest power of two up to 64 MB with which all
/// together take at most 1 GB and a 32nd of the memory, at least 8 MB. Two busy CPUs fill 64 MB in half a second if all
/// their messages are recorded, 1.5 million events a second of 80 bytes.
fn usual_buffer_mb(nr_cpus: usize, memory_mb: u64) -> u32 {
    let each_mb = (memory_mb / 32).min(1024) / nr_cpus.max(1) as u64;
    [64, 32, 16].into_iter().find(|mb| u64::from(*mb) <= each_mb).unwrap_or(8)
}

/// Returns the header's lines about how the recording was made.
fn how(plan: &Plan, buffer_mb: u32, selection: &Selection, ran: &Ran, began_s: u64) -> String {
    let ended = match (plan.command.is_empty(), ran.status) {
        (true, _) => "no command".to_owned(),
        (false, Some(status)) => status_words(status),
        (false, None) => "ended by the recorder".to_owned(),
    };
    [
        ("began-unix-s", began_s.to_string()),
        ("command-status", ended),
        ("events", selection.events.join(" ")),
        ("events-of-calls", selection.calls.join(" ")),
        ("events-left-out", selection.left_out.join(" ")),
        ("events-not-in-kernel", selection.absent.join(" ")),
        ("buffer-mb", buffer_mb.to_string()),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(key, value)| header::line(key, &value))
    .collect()
}

/// Turns events on, runs the command if there is one, and turns them off.
fn run(
    command: &[String],
    limit: Option<Duration>,
    stop: &Stop,
    recorder: &mut Recorder,
) -> Result<Ran, RecordError> {
    recorder.tell("enable")?;
    let begin_ns = now_ns()?;
    let until = limit.map(|limit| Instant::now() + limit);
    let Some((program, arguments)) = command.split_first() else {
        stop.wait(0, until);
        recorder.tell("disable")?;
        let seen = Tasks::new();
        return Ok(Ran { begin_ns, status: None, end_ns: now_ns()?, command_pid: None, waiter: None, seen });
    };
    let mut child = Command::new(program)
        .args(arguments)
        .spawn()
        .map_err(|why| RecordError::NoCommand { program: program.clone(), why })?;
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("process ids are positive ints"));
    let mut seen = Tasks::new();
    let (woken, disabled, end_ns, waiter) = thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            wait_for_end(pid);
            stop.command_ended();
            u32::try_from(gettid().as_raw()).ok()
        });
        let woken = watch(child.id(), until, stop, &mut seen);
        let disabled = recorder.tell("disable");
        let end_ns = now_ns();
        if woken != Woken::CommandEnded {
            end_command(pid, stop);
        }
        (woken, disabled, end_ns, waiter.join().unwrap_or_default())
    });
    let status = child.wait().map_err(system("wait for the command"))?;
    disabled?;
    let status = Some(status).filter(|_| woken == Woken::CommandEnded);
    Ok(Ran { begin_ns, status, end_ns: end_ns?, command_pid: Some(child.id()), waiter, seen })
}

/// Waits for the command's end, for a stop, or until a time, and looks at the command's tasks now and then.
fn watch(command_pid: u32, until: Option<Instant>, stop: &Stop, seen: &mut Tasks) -> Woken {
    let began = Instant::now();
    let mut look = FIRST_LOOK;
    loop {
        let look_at = began + look;
        let ends_first = until.is_some_and(|until| until <= look_at);
        let woken = stop.wait(0, Some(until.filter(|_| ends_first).unwrap_or(look_at)));
        if woken != Woken::TimeIsUp || ends_first {
            return woken;
        }
        look_at_descendants(Path::new("/proc"), command_pid, seen);
        look *= LOOKS_APART;
    }
}

/// Ends the command: by SIGTERM, and at a further stop by SIGKILL. It is not reaped before the caller does that, so no
/// other process can have its id.
fn end_command(pid: Pid, stop: &Stop) {
    let stops = stop.stops();
    let _ = kill(pid, Signal::SIGTERM);
    if stop.wait(stops, None) != Woken::CommandEnded {
        let _ = kill(pid, Signal::SIGKILL);
        while stop.wait(u32::MAX, None) != Woken::CommandEnded {}
    }
}

/// Waits until the child process `pid` has ended, without reaping it.
fn wait_for_end(pid: Pid) {
    // It fails only if there is no such child, which has then ended as well.
    while waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(Errno::EINTR) {}
}

/// The time on perf's clock.
fn now_ns() -> Result<u64, RecordError> {
    clock::now_ns().map_err(system("read the clock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_suit_the_machine() {
        let sizes = [(2, 24_000), (16, 64_000), (16, 16_000), (384, 1_500_000), (1, 0), (usize::MAX, 24_000)];
        assert_eq!(sizes.map(|(cpus, memory_mb)| usual_buffer_mb(cpus, memory_mb)), [64, 64, 16, 8, 8, 8]);
    }
}
