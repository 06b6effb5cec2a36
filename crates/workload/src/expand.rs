// SPDX-License-Identifier: GPL-2.0-or-later
//! Expands a workload file and settings to a [`Workload`].
//!
//! 1. Parameters get their values, then each `let` in order.
//! 2. Arrays (channels, signals, gates, locks, barriers, groups, tasks) get their sizes; their elements are numbered
//!    array after array, the last index fastest. An array whose `if` is 0 has no elements.
//! 3. Each task's program is written out: `for` is unrolled, `if` is decided, `repeat` and `share` become loops. There
//!    `self` is the task's own number. A `fork` makes the task whose program has it the parent.
//!
//! A file that needs more than [`OPS_MAX`] steps or [`TASKS_MAX`] elements of a kind is refused. If its ranges tell the
//! number, this is found by arithmetic before anything is expanded (size.rs); otherwise when the number is reached.

use std::ops::RangeInclusive;

use crate::error::{WorkloadError, list, unknown};
use crate::expr::{Expr, ExprError, Scope, Value};
use crate::file::{
    Allowed, BarrierTemplate, ChannelTemplate, GroupTemplate, LockTemplate, Param, Spin, TaskTemplate,
    WorkloadFile,
};
use crate::groups::depth;
use crate::limits::{
    CPUS_MAX, LINES_MAX, MEMORY_BYTES_MAX, OPS_MAX, SHARES_MIN, SLICES_NS, TASKS_MAX, TIME_NS_MAX, WEIGHT_MAX,
};
use crate::program::{Barrier, Channel, End, Group, Lock, Op, Quota, Task, Workload};
use crate::steps::{Step, StepKind};

use self::arrays::Arrays;

mod arrays;
mod op;
mod size;

type Result<T> = std::result::Result<T, WorkloadError>;

impl WorkloadFile {
    /// Expands the file with some parameters set and the others at their defaults. Errors in the settings quote `spec`.
    /// The result has passed [`Workload::check`].
    ///
    /// # Errors
    /// Fails for parameters that do not exist and values that are not allowed, for expressions that overflow or divide
    /// by zero, for more tasks or operations than the limits, and for whatever [`Workload::check`] refuses.
    pub fn expand(&self, spec: &str, settings: &[(String, String)]) -> Result<Workload> {
        let names = self.names(spec, settings)?;
        let mut expansion =
            Expansion { file: self, names, steps: 0, parents: Vec::new(), arrays: Arrays::default() };
        let workload = expansion.run()?;
        workload.check().map_err(|source| WorkloadError::Check { file: self.source.file.clone(), source })?;
        Ok(workload)
    }

    /// Returns the values of all parameters, and the workload's name.
    fn names(&self, spec: &str, settings: &[(String, String)]) -> Result<Names<'_>> {
        let fail = |message: String| Err(WorkloadError::Spec { spec: spec.to_owned(), message });
        let params = &self.description.params;
        for (index, (key, _)) in settings.iter().enumerate() {
            if !params.iter().any(|param| param.name == *key) {
                return fail(unknown(
                    &format!("parameter '{key}'"),
                    key,
                    params.iter().map(|param| param.name.as_str()),
                ));
            }
            if settings[..index].iter().any(|(earlier, _)| earlier == key) {
                return fail(format!("parameter '{key}' is given twice"));
            }
        }
        let mut names = Names { title: self.description.name.clone(), values: Vec::new() };
        let mut separator = ':';
        for param in params {
            let given = settings.iter().find(|(key, _)| *key == param.name);
            let text = given.map_or(&param.default, |(_, value)| value);
            let (value, canonical) = match value_of(param, text) {
                Ok(value) => value,
                Err(expected) => return fail(format!("{}={text}: expected {expected}", param.name)),
            };
            if canonical != param.default {
                names.title.push_str(&format!("{separator}{}={canonical}", param.name));
                separator = ',';
            }
            names.values.push((&param.name, value));
        }
        Ok(names)
    }
}

/// Returns a parameter's value, and the text that the workload's name has for it. The error says what was expected.
fn value_of<'f>(param: &'f Param, text: &str) -> std::result::Result<(Named<'f>, String), String> {
    match &param.allowed {
        Allowed::Range { min, max } => {
            let digits = text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
            match text.replace('_', "").parse::<u64>() {
                Ok(value) if digits && (*min..=*max).contains(&value) => {
                    Ok((Named::Int(i64::try_from(value).unwrap_or(i64::MAX)), value.to_string()))
                }
                _ => Err(format!("a number from {min} to {max}")),
            }
        }
        Allowed::Choices(choices) => match choices.iter().position(|choice| choice == text) {
            Some(at) => Ok((Named::Choice(choices, at), text.to_owned())),
            None => Err(format!("one of {}", list(choices))),
        },
    }
}

/// All names that are defined now: parameters, then lets, then indices, innermost last.
struct Names<'f> {
    /// The workload's name: the file's, with the parameters that differ from their defaults.
    title: String,
    values: Vec<(&'f str, Named<'f>)>,
}

enum Named<'f> {
    Int(i64),
    /// All choices, and the index of the chosen one.
    Choice(&'f [String], usize),
}

impl Names<'_> {
    fn text(&self, name: &str) -> String {
        let Some(Value::Int(value)) = self.lookup(name) else { return name.to_owned() };
        value.to_string()
    }
}

impl Scope for Names<'_> {
    fn lookup(&self, name: &str) -> Option<Value<'_>> {
        self.values.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| match *value {
            Named::Int(value) => Value::Int(value),
            Named::Choice(choices, at) => Value::Word { text: &choices[at], choices },
        })
    }

    fn names(&self) -> Vec<&str> {
        self.values.iter().map(|(name, _)| *name).collect()
    }
}

struct Expansion<'f> {
    file: &'f WorkloadFile,
    names: Names<'f>,
    arrays: Arrays<'f>,
    /// For each task, the one that forks it.
    parents: Vec<Option<u32>>,
    /// Steps taken so far.
    steps: u64,
}

impl<'f> Expansion<'f> {
    fn run(&mut self) -> Result<Workload> {
        let file = self.file;
        for (name, value) in &file.lets {
            let number = self.at(value.integer(&self.names))?;
            self.define(name, number, value.offset)?;
        }
        self.place_arrays()?;
        self.refuse_too_many_steps()?;
        self.parents = vec![None; self.arrays.tasks.total as usize];
        let mut workload = Workload::empty(std::mem::take(&mut self.names.title), file.measure);
        workload.signals = self.arrays.signals.total as u32;
        workload.gates = self.arrays.gates.total as u32;
        if let Some(after) = &file.end_after_ns {
            match self.at(after.within(&self.names, 0, TIME_NS_MAX, "end-after-ns"))? {
                0 => {}
                duration_ns => workload.end = End::After { duration_ns },
            }
        }
        workload.channels =
            self.elements(&file.channels, |arrays| &arrays.channels, |e, channel, _| e.channel(channel))?;
        workload.locks = self.elements(&file.locks, |arrays| &arrays.locks, |e, lock, _| e.lock(lock))?;
        workload.barriers =
            self.elements(&file.barriers, |arrays| &arrays.barriers, |e, barrier, _| e.barrier(barrier))?;
        workload.groups = self.groups()?;
        workload.tasks = self.elements(
            &file.tasks,
            |arrays| &arrays.tasks,
            |expansion, task, number| {
                expansion.names.values.push(("self", Named::Int(i64::from(number))));
                let task = expansion.task(task, number)?;
                expansion.names.values.pop();
                Ok(task)
            },
        )?;
        for (task, parent) in workload.tasks.iter_mut().zip(&self.parents) {
            task.parent = *parent;
        }
        Ok(workload)
    }

    fn at<T>(&self, result: std::result::Result<T, ExprError>) -> Result<T> {
        result.map_err(|error| self.file.source.error(error.offset, error.message))
    }

    fn fail<T>(&self, offset: usize, message: impl Into<String>) -> Result<T> {
        Err(self.file.source.error(offset, message))
    }

    /// Defines a name. Refuses one that would hide another.
    fn define(&mut self, name: &'f str, value: i64, offset: usize) -> Result<()> {
        if name == "self" || self.names.lookup(name).is_some() {
            return self.fail(offset, format!("the name '{name}' already means something else"));
        }
        self.names.values.push((name, Named::Int(value)));
        Ok(())
    }

    /// Counts one more step. Every loop of the expansion calls this.
    fn count_step(&mut self, offset: usize) -> Result<()> {
        self.steps += 1;
        if self.steps > OPS_MAX {
            return self.fail(offset, format!("more than {OPS_MAX} operations: use smaller ranges"));
        }
        Ok(())
    }

    fn within(&self, expr: &Expr, min: u64, max: u64, what: &str) -> Result<u64> {
        self.at(expr.within(&self.names, min, max, what))
    }

    fn cpu(&self, expr: &Expr, what: &str) -> Result<u32> {
        Ok(self.within(expr, 0, CPUS_MAX - 1, what)? as u32)
    }

    fn channel(&self, template: &ChannelTemplate) -> Result<Channel> {
        Ok(Channel {
            capacity_bytes: self.within(&template.capacity_bytes, 1, TIME_NS_MAX, "capacity-bytes")?,
            overhead_bytes: self.within(&template.overhead_bytes, 0, TIME_NS_MAX, "overhead-bytes")?,
            wake_room_bytes: self.within(&template.wake_room_bytes, 0, TIME_NS_MAX, "wake-room-bytes")?,
            wakes_all_writers: self.at(template.wakes_all_writers.truth(&self.names))?,
            wakes_when_full: false,
            elastic: false,
            answered_in: None,
            sync: self.at(template.sync.truth(&self.names))?,
            loopback: self.at(template.loopback.truth(&self.names))?,
            send_lines: self.within(&template.send_lines, 0, u64::from(LINES_MAX), "send-lines")? as u32,
            recv_lines: self.within(&template.recv_lines, 0, u64::from(LINES_MAX), "recv-lines")? as u32,
        })
    }

    fn lock(&self, template: &LockTemplate) -> Result<Lock> {
        let handoff = self.at(template.handoff.truth(&self.names))?;
        Ok(Lock { spin_ns: self.spin(&template.spin_ns)?, handoff, recorded: false, retry_ns: 0 })
    }

    fn barrier(&self, template: &BarrierTemplate) -> Result<Barrier> {
        let parties = self.within(&template.parties, 1, TASKS_MAX, "parties")? as u32;
        Ok(Barrier { parties, spin_ns: self.spin(&template.spin_ns)?, recorded: false })
    }

    fn groups(&mut self) -> Result<Vec<Group>> {
        let file = self.file;
        let mut places = Vec::new();
        let groups = self.elements(
            &file.groups,
            |arrays| &arrays.groups,
            |expansion, group, _| {
                places.push(group.parent.as_ref().map_or(group.array.offset, |parent| parent.offset));
                expansion.group(group)
            },
        )?;
        for (index, &offset) in places.iter().enumerate() {
            if depth(&groups, index as u32).is_none() {
                let message = format!("group '{}' would be its own ancestor", groups[index].name);
                return self.fail(offset, message);
            }
        }
        Ok(groups)
    }

    /// Expands a group. The name of an array's element has its indices: `worker[0, 3]`.
    fn group(&self, template: &GroupTemplate) -> Result<Group> {
        let mut name = template.array.name.clone();
        let indices: Vec<String> =
            template.array.each.iter().map(|range| self.names.text(&range.name)).collect();
        if !indices.is_empty() {
            name.push_str(&format!("[{}]", indices.join(", ")));
        }
        let parent = template.parent.as_ref();
        let parent = parent.map(|parent| self.resolve(&self.arrays.groups, parent)).transpose()?;
        let shares = self.within(&template.shares, u64::from(SHARES_MIN), u64::from(WEIGHT_MAX), "shares")?;
        let us = |expr, range: RangeInclusive<u64>, what| {
            Ok(1000 * self.within(expr, range.start() / 1000, range.end() / 1000, what)?)
        };
        let quota = template.quota_us.as_ref().map(|quota_us| {
            Ok(Quota {
                quota_ns: us(quota_us, Quota::QUOTA_NS, "quota-us")?,
                period_ns: us(&template.period_us, Quota::PERIOD_NS, "period-us")?,
            })
        });
        Ok(Group { name, parent, shares: shares as u32, quota: quota.transpose()? })
    }

    fn spin(&self, spin: &Spin) -> Result<u64> {
        match spin {
            Spin::Forever => Ok(u64::MAX),
            Spin::For(time) => self.within(time, 0, TIME_NS_MAX, "spin-ns"),
        }
    }

    fn task(&mut self, template: &'f TaskTemplate, number: u32) -> Result<Task> {
        let mut program = Vec::new();
        self.program(&template.program, number, &mut program)?;
        program.shrink_to_fit();
        let mut task = Task::new(template.array.name.clone(), number, program);
        task.allowed = self.allowed(template)?;
        if let Some(process) = &template.process {
            task.process = self.within(process, 0, u64::from(u32::MAX), "process")? as u32;
        }
        if let Some(cpu) = &template.last_cpu
            && self.at(cpu.integer(&self.names))? >= 0
        {
            task.last_cpu = Some(self.cpu(cpu, "last-cpu")?);
        }
        task.start_ns = self.within(&template.start_ns, 0, TIME_NS_MAX, "start-ns")?;
        task.weight = self.within(&template.weight, 1, u64::from(WEIGHT_MAX), "weight")? as u32;
        if let Some(slice) = &template.slice_ns {
            let (least, most) = SLICES_NS.into_inner();
            task.slice_ns = Some(self.within(slice, least.into(), most.into(), "slice-ns")? as u32);
        }
        if let Some(bytes) = &template.footprint_bytes {
            task.footprint_bytes = self.within(bytes, 0, MEMORY_BYTES_MAX, "footprint-bytes")?;
        }
        task.judged = self.at(template.judged.truth(&self.names))?;
        let group = template.group.as_ref();
        task.group = group.map(|group| self.resolve(&self.arrays.groups, group)).transpose()?;
        Ok(task)
    }

    /// Returns the CPUs of `allowed`, or the one of `pin`; `None` means all CPUs.
    fn allowed(&mut self, template: &'f TaskTemplate) -> Result<Option<Vec<u32>>> {
        if let Some(cpus) = &template.allowed {
            let mut allowed = Vec::with_capacity(cpus.len());
            for cpu in cpus {
                self.count_step(cpu.offset)?;
                allowed.push(self.cpu(cpu, "a CPU")?);
            }
            allowed.sort_unstable();
            allowed.dedup();
            allowed.shrink_to_fit();
            return Ok(Some(allowed));
        }
        match &template.pin {
            Some(pin) if self.at(pin.integer(&self.names))? >= 0 => Ok(Some(vec![self.cpu(pin, "pin")?])),
            _ => Ok(None),
        }
    }

    fn program(&mut self, steps: &'f [Step], number: u32, out: &mut Vec<Op>) -> Result<()> {
        for step in steps {
            self.count_step(step.offset)?;
            let op = match &step.kind {
                StepKind::For { range, body } => {
                    let (first, length) = self.bounds(range)?;
                    let depth = self.names.values.len();
                    if length > 0 {
                        self.define(&range.name, first, step.offset)?;
                    }
                    for position in 0..length {
                        self.count_step(step.offset)?;
                        self.names.values[depth].1 = Named::Int(first + position as i64);
                        self.program(body, number, out)?;
                    }
                    self.names.values.truncate(depth);
                    continue;
                }
                StepKind::If { condition, then, otherwise } => {
                    let taken = if self.at(condition.truth(&self.names))? { then } else { otherwise };
                    self.program(taken, number, out)?;
                    continue;
                }
                StepKind::Repeat { times, body } => {
                    let times = match times {
                        None => None,
                        Some(times) => Some(self.within(times, 0, i64::MAX as u64, "repeat")?),
                    };
                    out.push(Op::LoopBegin { times });
                    self.program(body, number, out)?;
                    Op::LoopEnd
                }
                StepKind::Share { times, among, body } => {
                    let times = self.within(times, 0, i64::MAX as u64, "share")?;
                    let barrier = self.resolve(&self.arrays.barriers, among)?;
                    out.push(Op::LoopShared { barrier, times });
                    self.program(body, number, out)?;
                    Op::LoopEnd
                }
                StepKind::WhenReady { channel, body } => {
                    let channel = self.resolve(&self.arrays.channels, channel)?;
                    out.push(Op::WhenReady { channel });
                    self.program(body, number, out)?;
                    Op::LoopEnd
                }
                StepKind::Fork { task } => {
                    let child = self.resolve(&self.arrays.tasks, task)?;
                    if self.parents[child as usize].replace(number).is_some() {
                        return self
                            .fail(task.offset, format!("task '{}' is forked a second time", task.name));
                    }
                    Op::Fork { task: child }
                }
                StepKind::Op(op) => self.op(op)?,
            };
            out.push(op);
        }
        Ok(())
    }
}
