// SPDX-License-Identifier: GPL-2.0-or-later
//! What a reader of a result must know about its recording, in sentences for a terminal.

use std::fmt::Display;

use wakelab_machine::printable;
use wakelab_workload::Op;

use crate::event::Place;
use crate::flows::{FlowCount, FlowKind};
use crate::loops::{LoopCount, fits};
use crate::{Explained, Gap, Header, Recording, Service};

impl Recording {
    /// Returns a line that must precede every result, if fewer than half of the waits are attributed, if more than a
    /// twentieth of the CPU time is contradicted or missing, or if all events of a CPU are.
    pub fn warning(&self) -> Option<String> {
        let Explained { waits, unexplained, unaccounted_ns, unseen_ns, .. } = self.explained;
        let mut reasons = Vec::new();
        if unexplained > waits / 2 {
            reasons.push(format!(
                "what ended a wait is known for only {} of {waits} waits ({})",
                waits - unexplained,
                percent(waits - unexplained, waits),
            ));
        }
        let much = |part: u64, whole: u64| part > whole / 20;
        reasons.extend(unaccounted(self).filter(|_| much(unaccounted_ns, self.busy_ns)));
        reasons.extend(unseen(self).filter(|_| much(unseen_ns, self.busy_ns + unseen_ns)));
        let silent: u64 = self.explained.silent_cpus.values().sum();
        // One may be the last thing that happened: the recording ended before the task ran.
        reasons.extend(silent_cpus(&self.explained).filter(|_| silent > 1));
        (!reasons.is_empty())
            .then(|| format!("WARNING: results of this recording cannot be trusted: {}", reasons.join("; ")))
    }

    /// Returns what the recording holds, what could not be attributed, and what the importer had to assume: a line
    /// each, printable on a terminal. The first line is a heading.
    pub fn notes(&self) -> Vec<String> {
        let explained = &self.explained;
        let mut notes = vec![format!(
            "recording: {}, {}, {}, {:.3} s",
            count(self.events, "event"),
            count(self.workload.tasks.len() as u64, "task"),
            count(u64::from(self.nr_cpus), "CPU"),
            self.duration_ns as f64 / 1e9,
        )];
        if self.runs > 1 {
            notes.push(format!(
                "replayed {} times; each run begins when the run before it has ended",
                self.runs
            ));
        }
        notes.extend(self.header.as_ref().into_iter().flat_map(|header| made(header, self)));
        notes.extend(service(self));
        notes.extend(groups(self));
        notes.push(waits(explained));
        notes.extend(flows(explained));
        notes.extend(explained.gaps.iter().map(|(gap, seen)| match gap {
            Gap::LostEvents => format!(
                "gap: lost {} in {}, first {}",
                count(explained.lost_events, "event"),
                count(seen.count, "place"),
                first(seen.first)
            ),
            gap => format!("gap: {gap}: {}, first {}", count(seen.count, "time"), first(seen.first)),
        }));
        let missing = [unaccounted(self), unseen(self), silent_cpus(explained), silent_idle(explained)];
        notes.extend(missing.into_iter().flatten().map(|what| format!("missing: {what}")));
        notes.extend(loops(explained));
        notes.extend(assumptions(explained));
        notes.extend(bound(explained));
        notes
    }
}

/// How it was made, as its header says.
fn made(header: &Header, recording: &Recording) -> Vec<String> {
    let of = if header.command.is_empty() { String::new() } else { format!(": {}", header.command) };
    let by = if header.made_by.is_empty() { String::new() } else { format!(" by {}", header.made_by) };
    let mut notes = vec![printable(&format!("recorded{by} on Linux {}{of}", header.kernel)).into_owned()];
    notes.extend(header.patched_kernel().map(|sentence| printable(&sentence).into_owned()));
    if recording.recorder_ns > 0 {
        notes.push(format!(
            "the recorder's own tasks, with {:.3} ms of CPU time, are left out",
            recording.recorder_ns as f64 / 1e6
        ));
    }
    if header.event_cost_ns.is_some() {
        let cost_ns = recording.learnt.event_cost_ns;
        let all_ns = u128::from(cost_ns) * u128::from(recording.events);
        notes.push(format!(
            "recording took {cost_ns} ns for each event, {} of the tasks' CPU time, which {}",
            percent(u64::try_from(all_ns).unwrap_or(u64::MAX), recording.busy_ns),
            match recording.event_cost_ns {
                Some(_) => "is taken off their work",
                None => "is work here, because the recording has it, too",
            }
        ));
    }
    notes
}

/// The task groups.
fn groups(recording: &Recording) -> Option<String> {
    let Recording { workload, runs, .. } = recording;
    let (all, once) = (workload.groups.len() as u64, workload.tasks.len() / *runs as usize);
    let tasks = || workload.tasks.iter().take(once);
    let inside = tasks().filter(|task| task.group.is_some()).count() as u64;
    let moves = tasks().flat_map(|task| &task.program).filter(|op| matches!(op, Op::MoveTo { .. })).count();
    (all > 0).then(|| {
        format!(
            "{}, with {} at first and {} later",
            count(all, "task group"),
            count(inside, "task"),
            count(moves as u64, "move")
        )
    })
}

/// Which tasks it is about.
fn service(recording: &Recording) -> Vec<String> {
    let mut notes = Vec::new();
    if let Service::Told { names, .. } = &recording.service {
        let seen: Vec<&str> = recording.of_service(&recording.observed).map(|(comm, _)| comm).collect();
        let is_missing = |pattern: &&String| !seen.iter().any(|comm| fits(pattern, comm));
        let missing: Vec<&str> = names.iter().filter(is_missing).map(String::as_str).collect();
        if !missing.is_empty() {
            notes.push(printable(&format!("no task is called {}", missing.join(" or "))).into_owned());
        }
    }
    let of_service = || recording.workload.tasks.iter().filter(|task| task.judged);
    let judged = of_service().count() / recording.runs as usize;
    if judged > 0 {
        let service = &recording.service;
        let rest_goes_on = of_service().any(|task| task.awaited) && of_service().any(|task| !task.awaited);
        let done = if rest_goes_on { ", done when the command is" } else { "" };
        let tasks = count(judged as u64, "task");
        notes.push(printable(&format!("service: {service} ({tasks}){done}")).into_owned());
    }
    notes
}

fn first(place: Place) -> String {
    match place {
        Place::Line(line) => format!("in line {line}"),
        Place::Byte(byte) => format!("at byte {byte}"),
    }
}

/// What the kinds of pairs add to the recorded waits.
fn flows(explained: &Explained) -> Vec<String> {
    let line = |(kind, flow): (&FlowKind, &FlowCount)| {
        let (pair, item) = match kind {
            FlowKind::Socket | FlowKind::Pipe => ("pair of sender and receiver", "message"),
            FlowKind::Request => ("pair of client and server", "question"),
            FlowKind::Response => ("pair of client and server", "answer"),
            FlowKind::Barrier => ("barrier", "arrival"),
            FlowKind::Mutex => ("mutex", "hold"),
            FlowKind::Handshake => ("pair of spinning waker and wakee", "meeting"),
            FlowKind::Stream | FlowKind::Signal => ("pair of producer and consumer", "item"),
        };
        let from = match kind {
            FlowKind::Socket => "sockets",
            FlowKind::Pipe => "pipes and queues",
            FlowKind::Mutex | FlowKind::Handshake => "futexes",
            _ => "inferred",
        };
        let (first, rest) = pair.split_at(pair.find(' ').unwrap_or(pair.len()));
        let plural = match kind {
            _ if flow.pairs == 1 => "",
            FlowKind::Mutex => "es",
            _ => "s",
        };
        format!(
            "{}: {} {first}{plural}{rest} with {}, and {} that woke nobody",
            from,
            flow.pairs,
            count(flow.wakeups, "wake-up"),
            count(flow.added, item),
        )
    };
    let says = |(kind, flow): &(&FlowKind, &FlowCount)| {
        flow.added > 0 || matches!(kind, FlowKind::Barrier | FlowKind::Mutex | FlowKind::Handshake)
    };
    explained.flows.iter().filter(says).map(line).collect()
}

/// CPU time that the scheduler's account contradicts.
fn unaccounted(recording: &Recording) -> Option<String> {
    let ns = recording.explained.unaccounted_ns;
    // Time stolen from a virtual machine and time of interrupts are not accounted either, in every recording.
    (ns > recording.busy_ns / 50).then(|| {
        format!(
            "{:.3} ms of CPU time ({}) are more than sched_stat_runtime accounts to the tasks: the clock jumped, or \
             others ran",
            ns as f64 / 1e6,
            percent(ns, recording.busy_ns)
        )
    })
}

/// Time of CPUs in which it is not known what ran.
fn unseen(recording: &Recording) -> Option<String> {
    let ns = recording.explained.unseen_ns;
    (ns > 0).then(|| {
        format!(
            "what ran for {:.3} ms of CPU time ({} of all that is known) was not seen",
            ns as f64 / 1e6,
            percent(ns, recording.busy_ns)
        )
    })
}

/// CPUs that ran tasks and have no events.
fn silent_cpus(explained: &Explained) -> Option<String> {
    let cpus: Vec<String> = explained.silent_cpus.keys().map(u32::to_string).collect();
    (!cpus.is_empty()).then(|| {
        let wakeups: u64 = explained.silent_cpus.values().sum();
        format!(
            "all events of CPU {}, where {} of {} show that tasks ran",
            cpus.join(", "),
            wakeups,
            count(explained.wakeups, "wake-up")
        )
    })
}

/// CPUs whose idle tasks have no events.
fn silent_idle(explained: &Explained) -> Option<String> {
    let cpus: Vec<String> = explained.silent_idle.keys().map(u32::to_string).collect();
    let left: u64 = explained.silent_idle.values().sum();
    (!cpus.is_empty()).then(|| {
        format!(
            "all events of the idle task of CPU {}, which was left {} for other tasks: a wake-up by an interrupt there \
             is only seen by its task running",
            cpus.join(", "),
            count(left, "time"),
        )
    })
}

/// How the waits of the recording ended.
fn waits(explained: &Explained) -> String {
    let Explained { waits, by_task, from_outside, unexplained, open_at_end, .. } = *explained;
    let part = |part: u64, what: &str| format!("{part} ({}) {what}", percent(part, waits));
    let dropped = if open_at_end > 0 {
        format!("; {open_at_end} had not ended and are dropped")
    } else {
        String::new()
    };
    format!(
        "{}: {}, {}, {}{dropped}",
        count(waits, "wait"),
        part(by_task, "attributed to a task"),
        part(from_outside, "to time or to events from outside"),
        part(unexplained, "not attributed"),
    )
}

/// What the recording does not tell, and what is assumed instead.
fn assumptions(explained: &Explained) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |applies: bool, text: String| notes.extend(applies.then_some(text));
    note(
        !explained.interrupts_known,
        "wake-ups by interrupts are attributed to the interrupted task, because this recording does not distinguish them"
            .to_owned(),
    );
    note(
        explained.soft_interrupt_wakes > 0,
        format!(
            "{} in soft interrupts of unknown kind attributed to the interrupted task",
            are(explained.soft_interrupt_wakes, "wake-up")
        ),
    );
    note(
        !explained.wakers_known,
        "wakers are uncertain: this recording has no sched_waking events, and a sched_wakeup event may stand on the CPU of \
         the woken task"
            .to_owned(),
    );
    note(
        explained.foreign_ids,
        "the recorder's task ids differ from those in the events (perf in a container does this); only those in the events \
         are used"
            .to_owned(),
    );
    note(
        !explained.processes_known,
        "each thread counts as a separate process, because this recording does not say which threads share one"
            .to_owned(),
    );
    note(
        explained.realtime_tasks > 0,
        format!("{} simulated as fair tasks of nice -20", are(explained.realtime_tasks, "real-time task")),
    );
    note(
        explained.limited_groups > 0,
        format!(
            "{} a quota of CPU time (cpu.max)",
            match explained.limited_groups {
                1 => "1 task group has".to_owned(),
                several => format!("{several} task groups have"),
            }
        ),
    );
    note(
        explained.switch_ins_inferred > 0,
        format!(
            "{} inferred from the run time that followed",
            are(explained.switch_ins_inferred, "missing switch-in")
        ),
    );
    note(
        explained.overhead_clamped_ns > 0,
        format!(
            "{:.3} ms of the kernel's overhead could not be taken off the tasks' work, because there was not as much work",
            explained.overhead_clamped_ns as f64 / 1e6
        ),
    );
    note(
        explained.left_out_ns > 0,
        format!(
            "{:.3} ms of work is left out, because a replay does it again where it has to: spins at barriers, and wake-ups for a \
             mutex that was taken again",
            explained.left_out_ns as f64 / 1e6
        ),
    );
    notes
}

/// Tasks that are bound to a CPU because they stayed there.
fn bound(explained: &Explained) -> Option<String> {
    let all = are(explained.bound_tasks, "task");
    (explained.bound_tasks > 0).then(|| {
        format!(
            "{all} bound to one CPU each, because tasks that may run elsewhere do not stay on a busy CPU while others idle \
             (--cpus says where they may run)"
        )
    })
}

/// The names of tasks in open loops and in closed loops.
fn loops(explained: &Explained) -> impl Iterator<Item = String> {
    let names = |open: bool| {
        let of = |(comm, loops): (&String, &LoopCount)| {
            let (tasks, sleeps) =
                if open { (loops.open, loops.open_sleeps) } else { (loops.closed, loops.closed_sleeps) };
            let told = if loops.told { ", as requested" } else { "" };
            (tasks > 0).then(|| {
                format!("{} ({}, {}{told})", printable(comm), count(tasks, "task"), count(sleeps, "sleep"))
            })
        };
        explained.loops.iter().filter_map(of).collect::<Vec<_>>().join(", ")
    };
    let lines = [
        ("open loop (woken at recorded times)", names(true)),
        ("closed loop (woken a fixed time after going to sleep)", names(false)),
    ];
    lines.into_iter().filter(|(_, names)| !names.is_empty()).map(|(what, names)| format!("{what}: {names}"))
}

/// `1 event`, `2 events`.
fn count(count: impl Display + PartialEq<u64>, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// `1 event is`, `2 events are`.
fn are(number: u64, noun: &str) -> String {
    format!("{} {}", count(number, noun), if number == 1 { "is" } else { "are" })
}

/// With one digit, rounded down, so that only all is 100 %.
fn percent(part: u64, whole: u64) -> String {
    let permille = (u128::from(part) * 1000).checked_div(u128::from(whole)).unwrap_or(0);
    format!("{}.{} %", permille / 10, permille % 10)
}
