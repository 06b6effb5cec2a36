// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes small recordings in the manner of `perf script --ns -F +pid`. Times are nanoseconds since the first event.

use std::fmt::Write;

use wakelab_trace::{Options, Recording, TraceError, read_from};
use wakelab_workload::{Op, Source};

/// The recorder's clock at the first event.
const BEGIN_NS: u64 = 1_860_000_000_000;

/// A recording being written. Task 0 is the idle task, the others are called `t1`, `t2` and so on.
#[derive(Default)]
pub(crate) struct Script {
    /// The text so far.
    pub(crate) text: String,
}

/// The comm of a task.
pub(crate) fn comm(tid: u32) -> String {
    if tid == 0 { "swapper/0".to_owned() } else { format!("t{tid}") }
}

impl Script {
    /// Any event; `current` is the task that it names at the beginning of the line.
    pub(crate) fn event(
        &mut self,
        cpu: u32,
        time_ns: u64,
        current: u32,
        event: &str,
        fields: &str,
    ) -> &mut Self {
        let (seconds, fraction) =
            ((BEGIN_NS + time_ns) / 1_000_000_000, (BEGIN_NS + time_ns) % 1_000_000_000);
        let name = if current == 0 { "swapper".to_owned() } else { comm(current) };
        writeln!(
            self.text,
            "{name:>16} {current:>5}/{current:<5} [{cpu:03}] {seconds:>5}.{fraction:09}: {event:>20}: {fields}"
        )
        .expect("strings take everything");
        self
    }

    /// A sched_switch event.
    pub(crate) fn switch(&mut self, cpu: u32, time_ns: u64, prev: u32, state: &str, next: u32) -> &mut Self {
        let fields = format!(
            "prev_comm={} prev_pid={prev} prev_prio=120 prev_state={state} ==> next_comm={} next_pid={next} next_prio=120",
            comm(prev),
            comm(next)
        );
        self.event(cpu, time_ns, prev, "sched:sched_switch", &fields)
    }

    /// sched_waking by `current`.
    pub(crate) fn waking(&mut self, cpu: u32, time_ns: u64, current: u32, wakee: u32) -> &mut Self {
        let fields = format!("comm={} pid={wakee} prio=120 target_cpu=000", comm(wakee));
        self.event(cpu, time_ns, current, "sched:sched_waking", &fields)
    }

    /// sched_wakeup on the waker's CPU.
    pub(crate) fn wakeup(&mut self, cpu: u32, time_ns: u64, current: u32, wakee: u32) -> &mut Self {
        let fields = format!("comm={} pid={wakee} prio=120 target_cpu=001", comm(wakee));
        self.event(cpu, time_ns, current, "sched:sched_wakeup", &fields)
    }

    /// sched_process_fork and sched_wakeup_new.
    pub(crate) fn fork(&mut self, cpu: u32, time_ns: u64, parent: u32, child: u32) -> &mut Self {
        let fields =
            format!("comm={} pid={parent} child_comm={} child_pid={child}", comm(parent), comm(child));
        self.event(cpu, time_ns, parent, "sched:sched_process_fork", &fields)
            .wakeup_new(cpu, time_ns, parent, child)
    }

    /// sched_wakeup_new alone.
    pub(crate) fn wakeup_new(&mut self, cpu: u32, time_ns: u64, parent: u32, child: u32) -> &mut Self {
        let fields = format!("comm={} pid={child} prio=120 target_cpu=001", comm(child));
        self.event(cpu, time_ns, parent, "sched:sched_wakeup_new", &fields)
    }

    /// sched_stat_runtime of `task`.
    pub(crate) fn runtime(
        &mut self,
        cpu: u32,
        time_ns: u64,
        current: u32,
        task: u32,
        ran_ns: u64,
    ) -> &mut Self {
        let fields = format!("comm={} pid={task} runtime={ran_ns} [ns]", comm(task));
        self.event(cpu, time_ns, current, "sched:sched_stat_runtime", &fields)
    }

    /// A line as it is.
    pub(crate) fn line(&mut self, line: &str) -> &mut Self {
        self.text.push_str(line);
        self.text.push('\n');
        self
    }

    /// Reads it, gaps allowed.
    pub(crate) fn read(&self) -> Recording {
        read_text(&self.text, &Options { strict: false, ..Options::default() })
            .expect("the recording is well formed")
    }

    /// Reads it without gaps.
    pub(crate) fn explained(&self) -> Recording {
        self.read_strictly().expect("all is explained")
    }

    /// Reads it without gaps. The error is the text of the refusal.
    pub(crate) fn read_strictly(&self) -> Result<Recording, String> {
        read_text(&self.text, &Options { strict: true, ..Options::default() })
            .map_err(|error| error.to_string())
    }
}

/// Reads a recording that errors call `f`.
pub(crate) fn read_text(text: &str, options: &Options) -> Result<Recording, TraceError> {
    read_from(text.as_bytes(), "f", "script", options)
}

/// Work without spread.
pub(crate) fn compute(work_ns: u64) -> Op {
    Op::Compute { work_ns, spread_percent: 0 }
}

/// A signal that is not sync.
pub(crate) fn signal(signal: u32) -> Op {
    Op::Signal { signal, sync: false }
}

/// A wait for a signal.
pub(crate) fn wait(signal: u32) -> Op {
    Op::Wait { signal }
}

/// A sleep of unknown source.
pub(crate) fn sleep(delay_ns: u64) -> Op {
    Op::Sleep { delay_ns, source: Source::Unknown }
}

/// The program of the task with this name.
pub(crate) fn program<'a>(recording: &'a Recording, name: &str) -> &'a [Op] {
    let task = recording.workload.tasks.iter().find(|task| task.name == name);
    &task.unwrap_or_else(|| panic!("no task {name}")).program
}
