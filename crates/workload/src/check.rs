// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether a workload can run at all, whatever it came from: a file, a recording, or JSON.
//!
//! What passes here has indices in range, balanced loops, a tree of parents each of which forks each child once,
//! messages that fit into their channels, locks that are given back by who took them (held.rs), barriers that so many
//! tasks come to, and no endless loop that takes no time. It may still deadlock: the simulator finds that out.

use thiserror::Error;
use wakelab_machine::printable;

use crate::groups::check_shares;
use crate::held::Held;
use crate::limits::{
    LINES_MAX, LOOP_DEPTH_MAX, MEMORY_BYTES_MAX, OPS_MAX, TASKS_MAX, TIME_NS_MAX, WEIGHT_MAX,
};
use crate::program::{Barrier, Channel, End, Lock, Op, Task, Workload};

/// What is wrong with a workload.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CheckError {
    /// The whole of it.
    #[error("{}", printable(.0))]
    Workload(String),
    /// A channel.
    #[error("channel {channel}: {message}")]
    Channel {
        /// Its index.
        channel: usize,
        /// What is wrong and what was expected.
        message: String,
    },
    /// A lock.
    #[error("lock {lock}: {message}")]
    Lock {
        /// Its index.
        lock: usize,
        /// What is wrong and what was expected.
        message: String,
    },
    /// A barrier.
    #[error("barrier {barrier}: {message}")]
    Barrier {
        /// Its index.
        barrier: usize,
        /// What is wrong and what was expected.
        message: String,
    },
    /// A task group.
    #[error("group {group} ({}): {message}", printable(.name))]
    Group {
        /// Its index.
        group: usize,
        /// Its name.
        name: String,
        /// What is wrong and what was expected.
        message: String,
    },
    /// A task.
    #[error("task {task} ({}): {message}", printable(.name))]
    Task {
        /// Its index.
        task: usize,
        /// Its name.
        name: String,
        /// What is wrong and what was expected.
        message: String,
    },
    /// One operation of a task.
    #[error("task {task} ({}), operation {op}: {message}", printable(.name))]
    Op {
        /// The task's index.
        task: usize,
        /// Its name.
        name: String,
        /// The operation's index, from 0.
        op: usize,
        /// What is wrong and what was expected.
        message: String,
    },
}

impl Workload {
    /// Refuses what cannot run. Time is linear in the number of operations.
    ///
    /// # Errors
    /// The first thing found wrong, by task and operation.
    pub fn check(&self) -> Result<(), CheckError> {
        self.check_counts()?;
        for (index, channel) in self.channels.iter().enumerate() {
            check_channel(channel).map_err(|message| CheckError::Channel { channel: index, message })?;
        }
        for (index, lock) in self.locks.iter().enumerate() {
            let Lock { spin_ns, .. } = *lock;
            check_spin(spin_ns).map_err(|message| CheckError::Lock { lock: index, message })?;
        }
        self.check_groups()?;
        let mut forked = vec![false; self.tasks.len()];
        for (index, task) in self.tasks.iter().enumerate() {
            let name = || task.name.clone();
            self.check_task(task).map_err(|message| CheckError::Task {
                task: index,
                name: name(),
                message,
            })?;
            self.check_program(index, task, &mut forked).map_err(|(op, message)| CheckError::Op {
                task: index,
                name: name(),
                op,
                message,
            })?;
        }
        self.check_barriers()?;
        self.check_parents(&forked)
    }

    /// Refuses more objects than [`crate::limits`] allow: a number alone must not cost memory.
    fn check_counts(&self) -> Result<(), CheckError> {
        let fail = |message: String| Err(CheckError::Workload(message));
        if self.tasks.is_empty() {
            return fail("it has no tasks".to_owned());
        }
        let ops: u64 = self.tasks.iter().map(|task| task.program.len() as u64).sum();
        for (kind, count, most) in [
            ("tasks", self.tasks.len() as u64, TASKS_MAX),
            ("operations", ops, OPS_MAX),
            ("channels", self.channels.len() as u64, TASKS_MAX),
            ("signals", self.signals.into(), OPS_MAX),
            ("gates", self.gates.into(), TASKS_MAX),
            ("locks", self.locks.len() as u64, TASKS_MAX),
            ("barriers", self.barriers.len() as u64, TASKS_MAX),
        ] {
            if count > most {
                return fail(format!("{count} {kind}; expected at most {most}"));
            }
        }
        match self.end {
            End::After { duration_ns } if !(1..=TIME_NS_MAX).contains(&duration_ns) => {
                fail(format!("it ends after {duration_ns} ns; expected 1 to {TIME_NS_MAX}"))
            }
            _ => Ok(()),
        }
    }

    /// No barrier waits for more tasks than there are that come to it.
    fn check_barriers(&self) -> Result<(), CheckError> {
        // Of each barrier how many tasks come there, and the last of them, from 1.
        let mut comers = vec![(0_u32, 0_usize); self.barriers.len()];
        for (index, task) in self.tasks.iter().enumerate() {
            for op in &task.program {
                if let Op::Barrier { barrier } = *op
                    && comers[barrier as usize].1 != index + 1
                {
                    comers[barrier as usize].0 += 1;
                    comers[barrier as usize].1 = index + 1;
                }
            }
        }
        for (index, (barrier, (tasks, _))) in self.barriers.iter().zip(comers).enumerate() {
            let Barrier { parties, spin_ns } = *barrier;
            let fail = |message: String| Err(CheckError::Barrier { barrier: index, message });
            if parties == 0 {
                return fail("it has 0 parties; expected at least 1".to_owned());
            }
            if tasks > 0 && parties > tasks {
                return fail(format!("it has {parties} parties; tasks that come to it: {tasks}"));
            }
            check_spin(spin_ns).map_err(|message| CheckError::Barrier { barrier: index, message })?;
        }
        Ok(())
    }

    fn check_task(&self, task: &Task) -> Result<(), String> {
        if task.weight == 0 || task.weight > WEIGHT_MAX {
            return Err(format!("weight {}; expected 1 to {WEIGHT_MAX}", task.weight));
        }
        if task.start_ns > TIME_NS_MAX {
            return Err(format!("starts at {} ns; expected at most {TIME_NS_MAX}", task.start_ns));
        }
        if task.footprint_bytes > MEMORY_BYTES_MAX {
            return Err(format!(
                "a footprint of {} bytes; expected at most {MEMORY_BYTES_MAX}",
                task.footprint_bytes
            ));
        }
        if let Some(group) = task.group
            && group as usize >= self.groups.len()
        {
            return Err(format!("group {group} of {}", self.groups.len()));
        }
        if let Some(allowed) = &task.allowed {
            if allowed.is_empty() {
                return Err("no CPU is allowed".to_owned());
            }
            if !allowed.is_sorted_by(|a, b| a < b) {
                return Err("the allowed CPUs are not in ascending order".to_owned());
            }
        }
        Ok(())
    }

    /// Walks a program once; an error has the operation's index.
    fn check_program(&self, index: usize, task: &Task, forked: &mut [bool]) -> Result<(), (usize, String)> {
        let mut loops = Loops::default();
        let mut held = Held::default();
        for (at, op) in task.program.iter().enumerate() {
            let located = |message: String| (at, message);
            self.check_op(op).map_err(located)?;
            loops.pass(op);
            held.step(op).map_err(located)?;
            match *op {
                Op::LoopBegin { times } => {
                    if times.is_none() && self.end == End::AllExited {
                        let message = "an endless loop, but the run ends when all tasks have exited";
                        return Err((at, message.to_owned()));
                    }
                    loops.begin(at, times).map_err(located)?;
                }
                // A task that comes too late, or finds no message, runs no round.
                Op::LoopShared { .. } | Op::WhenReady { .. } => loops.begin(at, Some(0)).map_err(located)?,
                Op::LoopEnd => loops.end(at)?,
                Op::Fork { task: child } => {
                    self.check_fork(index, child as usize, &loops, forked).map_err(located)?;
                }
                _ => {}
            }
        }
        if let Some(open) = loops.open.last() {
            return Err((open.begin, "a loop that does not end".to_owned()));
        }
        held.end().map_err(|message| (task.program.len(), message))
    }

    /// Task `parent` forks `child`: once, outside of loops, and as its parent.
    fn check_fork(
        &self,
        parent: usize,
        child: usize,
        loops: &Loops,
        forked: &mut [bool],
    ) -> Result<(), String> {
        match self.tasks.get(child) {
            None => return Err(format!("forks task {child} of {}", self.tasks.len())),
            Some(task) if task.parent != Some(parent as u32) => {
                return Err(format!("forks task {child}, which has another parent"));
            }
            Some(_) if forked[child] => return Err(format!("forks task {child} a second time")),
            Some(_) => {}
        }
        if loops.open.iter().any(|open| open.times != Some(1)) {
            return Err(format!("forks task {child} inside a loop; a task is forked once"));
        }
        forked[child] = true;
        Ok(())
    }

    fn check_op(&self, op: &Op) -> Result<(), String> {
        let index = |what: &str, index: u32, count: usize| {
            if (index as usize) < count { Ok(()) } else { Err(format!("{what} {index} of {count}")) }
        };
        let time = |what: &str, ns: u64| {
            if ns <= TIME_NS_MAX { Ok(()) } else { Err(format!("{what} of {ns} ns; at most {TIME_NS_MAX}")) }
        };
        match *op {
            Op::Compute { work_ns, spread_percent } => {
                if spread_percent > 100 {
                    return Err(format!("a spread of {spread_percent} percent; expected 0 to 100"));
                }
                time("work", work_ns)
            }
            Op::Send { channel, bytes, work_ns } => {
                index("channel", channel, self.channels.len())?;
                let Channel { capacity_bytes, overhead_bytes, .. } = self.channels[channel as usize];
                let needed = u64::from(bytes).saturating_add(overhead_bytes);
                if needed > capacity_bytes {
                    return Err(format!(
                        "a message that takes {needed} bytes never fits into channel {channel} of {capacity_bytes}"
                    ));
                }
                time("work", work_ns)
            }
            Op::Recv { channel, work_ns } => {
                index("channel", channel, self.channels.len())?;
                time("work", work_ns)
            }
            Op::Poll { first, count, work_ns } => {
                if count == 0 {
                    return Err("polls no channel; expected at least 1".to_owned());
                }
                index("channel", first.saturating_add(count - 1), self.channels.len())?;
                time("work", work_ns)
            }
            Op::WhenReady { channel } => index("channel", channel, self.channels.len()),
            Op::Sleep { delay_ns, .. } => time("a sleep", delay_ns),
            Op::SleepUntil { time_ns, .. } => time("a time", time_ns),
            Op::Memory { work_ns, read_bytes, write_bytes, llc_percent, .. } => {
                if llc_percent > 100 {
                    return Err(format!("{llc_percent} percent from the LLC; expected 0 to 100"));
                }
                if read_bytes.max(write_bytes) > MEMORY_BYTES_MAX {
                    return Err(format!("more than {MEMORY_BYTES_MAX} bytes in one operation"));
                }
                time("work", work_ns)
            }
            Op::Lock { lock } | Op::Unlock { lock } => index("lock", lock, self.locks.len()),
            Op::Barrier { barrier } | Op::LoopShared { barrier, .. } => {
                index("barrier", barrier, self.barriers.len())
            }
            Op::Signal { signal, .. } | Op::Wait { signal } => index("signal", signal, self.signals as usize),
            Op::OpenGate { gate } | Op::WaitGate { gate } => index("gate", gate, self.gates as usize),
            Op::SetShares { group, shares } => {
                index("group", group, self.groups.len())?;
                check_shares(shares)
            }
            Op::MoveTo { group: Some(group) } => index("group", group, self.groups.len()),
            Op::MoveTo { group: None }
            | Op::Fork { .. }
            | Op::Join
            | Op::LoopBegin { .. }
            | Op::LoopEnd
            | Op::Yield
            | Op::Exec
            | Op::MarkBegin
            | Op::MarkEnd
            | Op::Count { .. }
            | Op::Exit => Ok(()),
        }
    }

    /// Every task with a parent is forked by it, and no task is its own ancestor.
    fn check_parents(&self, forked: &[bool]) -> Result<(), CheckError> {
        let fail = |task: usize, message: String| {
            Err(CheckError::Task { task, name: self.tasks[task].name.clone(), message })
        };
        for (index, task) in self.tasks.iter().enumerate() {
            let Some(parent) = task.parent else { continue };
            if parent as usize >= self.tasks.len() {
                return fail(index, format!("its parent is task {parent} of {}", self.tasks.len()));
            }
            if !forked[index] {
                return fail(index, format!("its parent, task {parent}, never forks it"));
            }
        }
        // Of each task the walk towards the root that met it first, from 1. A walk that meets itself is a cycle.
        let mut met_by = vec![0_usize; self.tasks.len()];
        for start in 0..self.tasks.len() {
            let walk = start + 1;
            let mut next = Some(start);
            while let Some(at) = next {
                if met_by[at] == walk {
                    return fail(at, "it is its own ancestor".to_owned());
                }
                if met_by[at] != 0 {
                    break;
                }
                met_by[at] = walk;
                next = self.tasks[at].parent.map(|parent| parent as usize);
            }
        }
        Ok(())
    }
}

/// The loops that are open at one place of a program.
#[derive(Default)]
struct Loops {
    /// Innermost last.
    open: Vec<Loop>,
}

struct Loop {
    /// Index of the operation that begins it.
    begin: usize,
    /// Rounds; `None`: endless.
    times: Option<u64>,
    takes_time: bool,
}

impl Loops {
    /// Notes that the innermost loop takes time if `op` does.
    fn pass(&mut self, op: &Op) {
        if op_takes_time(op)
            && let Some(innermost) = self.open.last_mut()
        {
            innermost.takes_time = true;
        }
    }

    fn begin(&mut self, at: usize, times: Option<u64>) -> Result<(), String> {
        if self.open.len() == LOOP_DEPTH_MAX {
            return Err(format!("more than {LOOP_DEPTH_MAX} nested loops"));
        }
        self.open.push(Loop { begin: at, times, takes_time: false });
        Ok(())
    }

    /// Ends the innermost loop; an error has the index of the operation at fault.
    fn end(&mut self, at: usize) -> Result<(), (usize, String)> {
        let Some(ended) = self.open.pop() else {
            return Err((at, "the end of a loop that did not begin".to_owned()));
        };
        if ended.times.is_none() && !ended.takes_time {
            return Err((ended.begin, "an endless loop that takes no time".to_owned()));
        }
        // A loop of no rounds takes no time, whatever its body does.
        if ended.takes_time
            && ended.times != Some(0)
            && let Some(outer) = self.open.last_mut()
        {
            outer.takes_time = true;
        }
        Ok(())
    }
}

fn op_takes_time(op: &Op) -> bool {
    match *op {
        Op::Compute { work_ns, .. }
        | Op::Send { work_ns, .. }
        | Op::Recv { work_ns, .. }
        | Op::Poll { work_ns, .. } => work_ns > 0,
        Op::Sleep { delay_ns, .. } => delay_ns > 0,
        Op::Memory { work_ns, read_bytes, write_bytes, .. } => work_ns + read_bytes + write_bytes > 0,
        _ => false,
    }
}

fn check_spin(spin_ns: u64) -> Result<(), String> {
    if spin_ns <= TIME_NS_MAX || spin_ns == u64::MAX {
        return Ok(());
    }
    Err(format!("spins for {spin_ns} ns; expected at most {TIME_NS_MAX}, or {} for always", u64::MAX))
}

fn check_channel(channel: &Channel) -> Result<(), String> {
    let Channel { capacity_bytes, overhead_bytes, wake_room_bytes, loopback, send_lines, .. } = *channel;
    if loopback && send_lines > 0 {
        return Err(format!(
            "a sender's {send_lines} lines; expected none with loopback, whose protocol's cost has them"
        ));
    }
    if send_lines.max(channel.recv_lines) > LINES_MAX {
        return Err(format!(
            "{} lines to send and {} to receive a message; expected at most {LINES_MAX}",
            send_lines, channel.recv_lines
        ));
    }
    if capacity_bytes == 0 || capacity_bytes > TIME_NS_MAX {
        return Err(format!("capacity of {capacity_bytes} bytes; expected 1 to {TIME_NS_MAX}"));
    }
    if overhead_bytes > capacity_bytes {
        return Err(format!("overhead of {overhead_bytes} bytes a message, capacity of {capacity_bytes}"));
    }
    if wake_room_bytes > capacity_bytes {
        return Err(format!("wakes writers at {wake_room_bytes} free bytes, capacity of {capacity_bytes}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
