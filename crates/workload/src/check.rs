// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks whether a workload can run at all, no matter whether it comes from a file, a recording or JSON.
//!
//! In a workload that passes, indices are in range and loops are balanced. Tasks form a forest in which each parent
//! forks each child once. Messages fit into their channels, locks are released by the task that took them (held.rs),
//! enough tasks come to each barrier, and every endless loop takes time. The workload may still deadlock; the simulator
//! detects that.

use thiserror::Error;
use wakelab_machine::printable;

use crate::groups::check_shares;
use crate::held::Held;
use crate::limits::{
    LINES_MAX, LOOP_DEPTH_MAX, MEMORY_BYTES_MAX, OPS_MAX, SLICES_NS, TASKS_MAX, TIME_NS_MAX, WEIGHT_MAX,
};
use crate::program::{Barrier, Channel, ChannelIndex, End, Lock, Op, Task, Workload};

/// What is wrong with a workload.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CheckError {
    /// The workload as a whole.
    #[error("{}", printable(.0))]
    Workload(String),
    /// A channel.
    #[error("channel {channel}: {message}")]
    Channel {
        /// Index of the channel.
        channel: usize,
        /// What is wrong and what was expected.
        message: String,
    },
    /// A lock.
    #[error("lock {lock}: {message}")]
    Lock {
        /// Index of the lock.
        lock: usize,
        /// What is wrong and what was expected.
        message: String,
    },
    /// A barrier.
    #[error("barrier {barrier}: {message}")]
    Barrier {
        /// Index of the barrier.
        barrier: usize,
        /// What is wrong and what was expected.
        message: String,
    },
    /// A task group.
    #[error("group {group} ({}): {message}", printable(.name))]
    Group {
        /// Index of the group.
        group: usize,
        /// Its name.
        name: String,
        /// What is wrong and what was expected.
        message: String,
    },
    /// A task.
    #[error("task {task} ({}): {message}", printable(.name))]
    Task {
        /// Index of the task.
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
        /// Index of the operation in the task's program.
        op: usize,
        /// What is wrong and what was expected.
        message: String,
    },
}

impl Workload {
    /// Refuses what cannot run. Time is linear in the number of operations.
    ///
    /// # Errors
    /// The first fault, with its task and operation.
    pub fn check(&self) -> Result<(), CheckError> {
        self.check_counts()?;
        for (index, channel) in self.channels.iter().enumerate() {
            let answered =
                channel.answered_in.map_or(Ok(()), |at| check_index("channel", at, self.channels.len()));
            answered
                .and_then(|()| check_channel(channel))
                .map_err(|message| CheckError::Channel { channel: index, message })?;
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

    /// Refuses more objects than [`crate::limits`] allow, because a mere number must not cost memory.
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

    /// Refuses barriers that wait for more tasks than come to them.
    fn check_barriers(&self) -> Result<(), CheckError> {
        // For each barrier: how many tasks come to it, and the last of them, counted from 1.
        let mut comers = vec![(0_u32, 0_usize); self.barriers.len()];
        for (index, task) in self.tasks.iter().enumerate() {
            for op in &task.program {
                if let Op::Barrier { barrier } | Op::SleepAtBarrier { barrier } = *op
                    && comers[barrier as usize].1 != index + 1
                {
                    comers[barrier as usize].0 += 1;
                    comers[barrier as usize].1 = index + 1;
                }
            }
        }
        for (index, (barrier, (tasks, _))) in self.barriers.iter().zip(comers).enumerate() {
            let Barrier { parties, spin_ns, .. } = *barrier;
            let fail = |message: String| Err(CheckError::Barrier { barrier: index, message });
            if parties == 0 {
                return fail("it has 0 parties; expected at least 1".to_owned());
            }
            if tasks > 0 && parties > tasks {
                return fail(format!(
                    "it has {parties} parties; expected at most {tasks}, the tasks that come to it"
                ));
            }
            check_spin(spin_ns).map_err(|message| CheckError::Barrier { barrier: index, message })?;
        }
        Ok(())
    }

    fn check_task(&self, task: &Task) -> Result<(), String> {
        if let Some(slice_ns) = task.slice_ns.filter(|slice_ns| !SLICES_NS.contains(slice_ns)) {
            return Err(format!(
                "slice_ns {slice_ns}; expected {} to {}",
                SLICES_NS.start(),
                SLICES_NS.end()
            ));
        }
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
            return Err(format!("group {group}; expected an index below {}", self.groups.len()));
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

    /// Walks through a program once. An error carries the operation's index.
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
                // A task that comes too late or finds no message runs no round.
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

    /// Refuses a fork of `child` by `parent` unless it is the only one, outside of loops, and by the child's parent.
    fn check_fork(
        &self,
        parent: usize,
        child: usize,
        loops: &Loops,
        forked: &mut [bool],
    ) -> Result<(), String> {
        match self.tasks.get(child) {
            None => {
                let nr_tasks = self.tasks.len();
                return Err(format!("forks task {child}; expected an index below {nr_tasks}"));
            }
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
        match *op {
            Op::Compute { work_ns, spread_percent } => {
                if spread_percent > 100 {
                    return Err(format!("a spread of {spread_percent} percent; expected 0 to 100"));
                }
                check_time("work", work_ns)
            }
            Op::Send { channel, bytes, work_ns } => {
                self.check_message(channel, bytes)?;
                check_time("work", work_ns)
            }
            Op::Recv { channel, work_ns } => {
                check_index("channel", channel, self.channels.len())?;
                check_time("work", work_ns)
            }
            Op::Poll { first, count, work_ns } => {
                if count == 0 {
                    return Err("polls no channel; expected at least 1".to_owned());
                }
                check_index("channel", first.saturating_add(count - 1), self.channels.len())?;
                check_time("work", work_ns)
            }
            Op::WhenReady { channel } => check_index("channel", channel, self.channels.len()),
            Op::Sleep { delay_ns, .. } => check_time("a sleep", delay_ns),
            Op::SleepUntil { time_ns, .. } => check_time("a time", time_ns),
            Op::Memory { work_ns, read_bytes, write_bytes, llc_percent, .. } => {
                if llc_percent > 100 {
                    return Err(format!("{llc_percent} percent from the LLC; expected 0 to 100"));
                }
                if read_bytes.max(write_bytes) > MEMORY_BYTES_MAX {
                    return Err(format!("more than {MEMORY_BYTES_MAX} bytes in one operation"));
                }
                check_time("work", work_ns)
            }
            Op::Lock { lock } | Op::Unlock { lock } => check_index("lock", lock, self.locks.len()),
            Op::Barrier { barrier } | Op::SleepAtBarrier { barrier } | Op::LoopShared { barrier, .. } => {
                check_index("barrier", barrier, self.barriers.len())
            }
            Op::Signal { signal, .. } | Op::Wait { signal } => {
                check_index("signal", signal, self.signals as usize)
            }
            Op::OpenGate { gate } | Op::WaitGate { gate } => check_index("gate", gate, self.gates as usize),
            Op::SetShares { group, shares } => {
                check_index("group", group, self.groups.len())?;
                check_shares(shares)
            }
            Op::MoveTo { group: Some(group) } => check_index("group", group, self.groups.len()),
            Op::MoveTo { group: None }
            | Op::Fork { .. }
            | Op::Join
            | Op::LoopBegin { .. }
            | Op::LoopEnd
            | Op::Yield
            | Op::Exec
            | Op::MarkBegin
            | Op::MarkEnd
            | Op::BeginBatch
            | Op::Count { .. }
            | Op::BeginExit
            | Op::Exit => Ok(()),
        }
    }

    fn check_message(&self, channel: ChannelIndex, bytes: u32) -> Result<(), String> {
        check_index("channel", channel, self.channels.len())?;
        let Channel { capacity_bytes, overhead_bytes, .. } = self.channels[channel as usize];
        let needed = u64::from(bytes).saturating_add(overhead_bytes);
        if needed > capacity_bytes {
            return Err(format!(
                "a message that takes {needed} bytes never fits into channel {channel} of {capacity_bytes} bytes"
            ));
        }
        Ok(())
    }

    /// Refuses tasks that their parent does not fork, and tasks that are their own ancestor.
    fn check_parents(&self, forked: &[bool]) -> Result<(), CheckError> {
        let fail = |task: usize, message: String| {
            Err(CheckError::Task { task, name: self.tasks[task].name.clone(), message })
        };
        for (index, task) in self.tasks.iter().enumerate() {
            let Some(parent) = task.parent else { continue };
            if parent as usize >= self.tasks.len() {
                return fail(
                    index,
                    format!("its parent is task {parent}; expected an index below {}", self.tasks.len()),
                );
            }
            if !forked[index] {
                return fail(index, format!("its parent, task {parent}, never forks it"));
            }
        }
        // For each task: the walk towards the root that met it first, counted from 1. A walk that meets itself is a
        // cycle.
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
    /// Open loops, innermost last.
    open: Vec<Loop>,
}

struct Loop {
    /// Index of the operation that begins it.
    begin: usize,
    /// Number of rounds; `None` if the loop is endless.
    times: Option<u64>,
    takes_time: bool,
}

impl Loops {
    /// Records that the innermost loop takes time, if `op` does.
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

    /// Ends the innermost loop. An error carries the index of the operation at fault.
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

fn check_index(what: &str, index: u32, count: usize) -> Result<(), String> {
    if (index as usize) < count {
        return Ok(());
    }
    Err(format!("{what} {index}; expected an index below {count}"))
}

fn check_time(what: &str, ns: u64) -> Result<(), String> {
    if ns <= TIME_NS_MAX {
        return Ok(());
    }
    Err(format!("{what} of {ns} ns; expected at most {TIME_NS_MAX}"))
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
            "{send_lines} send-lines; expected 0 with loopback, because the protocol's cost includes them"
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
        return Err(format!(
            "overhead of {overhead_bytes} bytes a message; expected at most the capacity, {capacity_bytes}"
        ));
    }
    if wake_room_bytes > capacity_bytes {
        return Err(format!(
            "wakes writers at {wake_room_bytes} free bytes; expected at most the capacity, {capacity_bytes}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
