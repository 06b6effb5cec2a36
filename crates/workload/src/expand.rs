// SPDX-License-Identifier: GPL-2.0-or-later
//! From a workload file and settings to a [`Workload`].
//!
//! 1. Parameters get their values, then each `let` in order.
//! 2. Arrays (channels, signals, gates, locks, barriers, groups, tasks) get their sizes; their elements are numbered
//!    array after array, the last index fastest. An array whose `if` is 0 has no elements.
//! 3. Each task's program is written out: `for` is unrolled, `if` is decided, `repeat` and `share` become loops. In it
//!    `self` is the task's own number. A `fork` makes the task that has it the parent.
//!
//! Whatever the file says, at most [`OPS_MAX`] steps are taken and [`TASKS_MAX`] elements of a kind are made.

use crate::check::{LINES_MAX, MEMORY_BYTES_MAX, OPS_MAX, TASKS_MAX, TIME_NS_MAX, WEIGHT_MAX};
use crate::error::{WorkloadError, list};
use crate::expr::{Expr, ExprError, Range, Reference, Scope, Value};
use crate::file::{
    Allowed, BarrierTemplate, ChannelTemplate, GroupTemplate, LockTemplate, PlainTemplate, Spin,
    TaskTemplate, WorkloadFile,
};
use crate::groups::{SHARES_MIN, depth};
use crate::program::{Barrier, Channel, DEFAULT_FOOTPRINT_BYTES, End, Group, Lock, Op, Task, Workload};
use crate::steps::{Step, StepKind};

#[path = "expand_op.rs"]
mod op;

type Result<T> = std::result::Result<T, WorkloadError>;

/// A CPU number in a workload file is below this; the machine may have fewer.
const CPUS_MAX: u64 = 1 << 16;
/// So is a node's.
const NODES_MAX: u64 = 1 << 16;

impl WorkloadFile {
    /// Expands the file with some parameters set, the others at their defaults; `spec` is what errors in the settings
    /// quote. The result has passed [`Workload::check`].
    ///
    /// # Errors
    /// Parameters that do not exist or values that are not allowed; expressions that overflow or divide by zero;
    /// more tasks or operations than are possible; whatever [`Workload::check`] refuses.
    pub fn expand(&self, spec: &str, settings: &[(String, String)]) -> Result<Workload> {
        let names = self.names(spec, settings)?;
        let mut expansion =
            Expansion { file: self, names, steps: 0, parents: Vec::new(), arrays: Arrays::default() };
        let workload = expansion.run()?;
        workload.check().map_err(|source| WorkloadError::Check { file: self.source.file.clone(), source })?;
        Ok(workload)
    }

    /// The values of all parameters.
    fn names(&self, spec: &str, settings: &[(String, String)]) -> Result<Names<'_>> {
        let fail = |message: String| Err(WorkloadError::Spec { spec: spec.to_owned(), message });
        let params = &self.description.params;
        for (index, (key, _)) in settings.iter().enumerate() {
            if !params.iter().any(|param| param.name == *key) {
                let known = list(params.iter().map(|param| &param.name));
                return fail(format!("no parameter '{key}'; there are {known}"));
            }
            if settings[..index].iter().any(|(earlier, _)| earlier == key) {
                return fail(format!("parameter '{key}' is given twice"));
            }
        }
        let mut names = Names { title: self.description.name.clone(), values: Vec::new() };
        let mut separator = ':';
        for param in params {
            let text = settings
                .iter()
                .find(|(key, _)| *key == param.name)
                .map_or(&param.default, |(_, value)| value);
            let (value, canonical) = match &param.allowed {
                Allowed::Range { min, max } => match text.replace('_', "").parse::<u64>() {
                    Ok(value)
                        if (*min..=*max).contains(&value)
                            && text.bytes().all(|b| b.is_ascii_digit() || b == b'_') =>
                    {
                        (Named::Int(i64::try_from(value).unwrap_or(i64::MAX)), value.to_string())
                    }
                    _ => {
                        return fail(format!("{}={text}: expected a number from {min} to {max}", param.name));
                    }
                },
                Allowed::Choices(choices) => match choices.iter().position(|choice| choice == text) {
                    Some(at) => (Named::Choice(choices, at), text.clone()),
                    None => return fail(format!("{}={text}: expected one of {}", param.name, list(choices))),
                },
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

/// All names that mean something now: parameters, lets, then indices, innermost last.
struct Names<'f> {
    /// The workload's name: the file's, and what differs from the defaults.
    title: String,
    values: Vec<(&'f str, Named<'f>)>,
}

enum Named<'f> {
    Int(i64),
    /// All choices, and which one it is.
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

/// An array of channels, signals, gates, locks, barriers, groups or tasks.
struct Array<'f> {
    name: &'f str,
    /// First index and number of indices, for each dimension.
    dims: Vec<(i64, u64)>,
    /// The number of its first element.
    base: u64,
}

#[derive(Default)]
struct Arrays<'f> {
    channels: Vec<Array<'f>>,
    signals: Vec<Array<'f>>,
    gates: Vec<Array<'f>>,
    locks: Vec<Array<'f>>,
    barriers: Vec<Array<'f>>,
    groups: Vec<Array<'f>>,
    tasks: Vec<Array<'f>>,
}

struct Expansion<'f> {
    file: &'f WorkloadFile,
    names: Names<'f>,
    arrays: Arrays<'f>,
    /// Of each task the one that forks it.
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
        let channels = file.channels.iter().map(|channel| &channel.array);
        let (arrays, _) = self.place("channels", channels)?;
        self.arrays.channels = arrays;
        let (arrays, signals) = self.place("signals", file.signals.iter())?;
        self.arrays.signals = arrays;
        let (arrays, gates) = self.place("gates", file.gates.iter())?;
        self.arrays.gates = arrays;
        let (arrays, _) = self.place("locks", file.locks.iter().map(|lock| &lock.array))?;
        self.arrays.locks = arrays;
        let (arrays, _) = self.place("barriers", file.barriers.iter().map(|barrier| &barrier.array))?;
        self.arrays.barriers = arrays;
        let (arrays, _) = self.place("groups", file.groups.iter().map(|group| &group.array))?;
        self.arrays.groups = arrays;
        let (arrays, tasks) = self.place("tasks", file.tasks.iter().map(|task| &task.array))?;
        self.arrays.tasks = arrays;
        self.parents = vec![None; tasks as usize];

        let mut workload = Workload {
            name: std::mem::take(&mut self.names.title),
            tasks: Vec::new(),
            channels: Vec::new(),
            signals: signals as u32,
            gates: gates as u32,
            locks: Vec::new(),
            barriers: Vec::new(),
            groups: Vec::new(),
            end: End::AllExited,
            measure: file.measure,
        };
        if let Some(after) = &file.end_after_ns {
            match self.at(after.within(&self.names, 0, TIME_NS_MAX, "end-after-ns"))? {
                0 => {}
                duration_ns => workload.end = End::After { duration_ns },
            }
        }
        for (index, template) in file.channels.iter().enumerate() {
            let dims = self.arrays.channels[index].dims.clone();
            self.each(&template.array, &dims, |expansion| {
                workload.channels.push(expansion.channel(template)?);
                Ok(())
            })?;
        }
        for (index, template) in file.locks.iter().enumerate() {
            let dims = self.arrays.locks[index].dims.clone();
            self.each(&template.array, &dims, |expansion| {
                workload.locks.push(expansion.lock(template)?);
                Ok(())
            })?;
        }
        for (index, template) in file.barriers.iter().enumerate() {
            let dims = self.arrays.barriers[index].dims.clone();
            self.each(&template.array, &dims, |expansion| {
                workload.barriers.push(expansion.barrier(template)?);
                Ok(())
            })?;
        }
        workload.groups = self.groups()?;
        for (index, template) in file.tasks.iter().enumerate() {
            let dims = self.arrays.tasks[index].dims.clone();
            self.each(&template.array, &dims, |expansion| {
                let number = workload.tasks.len() as u32;
                expansion.names.values.push(("self", Named::Int(i64::from(number))));
                workload.tasks.push(expansion.task(template, number)?);
                expansion.names.values.pop();
                Ok(())
            })?;
        }
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

    /// Gives a name a meaning; hiding another one is refused.
    fn define(&mut self, name: &'f str, value: i64, offset: usize) -> Result<()> {
        if name == "self" || self.names.lookup(name).is_some() {
            return self.fail(offset, format!("the name '{name}' means something else already"));
        }
        self.names.values.push((name, Named::Int(value)));
        Ok(())
    }

    /// One more step; all loops of the expansion pass here.
    fn step(&mut self, offset: usize) -> Result<()> {
        self.steps += 1;
        if self.steps > OPS_MAX {
            return self.fail(offset, format!("more than {OPS_MAX} operations; make the workload smaller"));
        }
        Ok(())
    }

    /// First index and number of indices of a range.
    fn bounds(&self, range: &Range) -> Result<(i64, u64)> {
        let first = self.at(range.first.integer(&self.names))?;
        let end = self.at(range.end.integer(&self.names))?;
        let length = i128::from(end) - i128::from(first);
        Ok((first, u64::try_from(length.max(0)).unwrap_or(u64::MAX)))
    }

    /// Sizes of arrays of one kind, and how many elements they have together.
    fn place(
        &self,
        kind: &str,
        templates: impl Iterator<Item = &'f PlainTemplate>,
    ) -> Result<(Vec<Array<'f>>, u64)> {
        let mut arrays: Vec<Array<'f>> = Vec::new();
        let mut total = 0_u64;
        for template in templates {
            if arrays.iter().any(|array| array.name == template.name) {
                return self.fail(template.offset, format!("a second '{}' among the {kind}", template.name));
            }
            let mut dims =
                template.each.iter().map(|range| self.bounds(range)).collect::<Result<Vec<_>>>()?;
            let wanted = match &template.condition {
                Some(condition) => self.at(condition.truth(&self.names))?,
                None => true,
            };
            if !wanted {
                // A dimension of its own, so that an array without dimensions can be empty too.
                dims = vec![(0, 0)];
            }
            let count = dims.iter().fold(1_u64, |count, (_, length)| count.saturating_mul(*length));
            if count > TASKS_MAX || total + count > TASKS_MAX {
                let message = format!("'{}' makes more than {TASKS_MAX} {kind}", template.name);
                return self.fail(template.offset, message);
            }
            arrays.push(Array { name: &template.name, dims, base: total });
            total += count;
        }
        Ok((arrays, total))
    }

    /// Calls `make` for each element of an array, in order, with its indices defined.
    fn each(
        &mut self,
        template: &'f PlainTemplate,
        dims: &[(i64, u64)],
        mut make: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        if dims.iter().any(|(_, length)| *length == 0) {
            return Ok(());
        }
        let depth = self.names.values.len();
        for (range, (first, _)) in template.each.iter().zip(dims) {
            self.define(&range.name, *first, template.offset)?;
        }
        let mut position = vec![0_u64; dims.len()];
        loop {
            self.step(template.offset)?;
            make(self)?;
            let Some(dim) = (0..dims.len()).rev().find(|&dim| position[dim] + 1 < dims[dim].1) else { break };
            position[dim] += 1;
            position[dim + 1..].fill(0);
            for (index, (first, _)) in dims.iter().enumerate().skip(dim) {
                self.names.values[depth + index].1 = Named::Int(first + position[index] as i64);
            }
        }
        self.names.values.truncate(depth);
        Ok(())
    }

    /// The array of that name, unless its condition leaves it out.
    fn array<'a>(&self, kind: &str, arrays: &'a [Array<'f>], reference: &Reference) -> Result<&'a Array<'f>> {
        let Some(array) = arrays.iter().find(|array| array.name == reference.name) else {
            let known = list(arrays.iter().map(|array| array.name));
            return self.fail(
                reference.offset,
                format!("no '{}' among the {kind}; there are {known}", reference.name),
            );
        };
        if array.dims == [(0, 0)] {
            return self
                .fail(reference.offset, format!("there is no '{}' with these parameters", reference.name));
        }
        Ok(array)
    }

    /// The first element of an array, and how many it has; the reference names no single one.
    fn whole(&self, kind: &str, arrays: &[Array<'f>], reference: &Reference) -> Result<(u32, u32)> {
        let array = self.array(kind, arrays, reference)?;
        if !reference.indices.is_empty() {
            let message = format!("expected all of '{}', without indices", reference.name);
            return self.fail(reference.offset, message);
        }
        let count = array.dims.iter().map(|(_, length)| length).product::<u64>();
        Ok((array.base as u32, count as u32))
    }

    fn resolve(&self, kind: &str, arrays: &[Array<'f>], reference: &Reference) -> Result<u32> {
        let array = self.array(kind, arrays, reference)?;
        if array.dims.len() != reference.indices.len() {
            let (wanted, found) = (array.dims.len(), reference.indices.len());
            return self
                .fail(reference.offset, format!("'{}' has {wanted} indices, found {found}", reference.name));
        }
        let mut number = 0_u64;
        for (expr, (first, length)) in reference.indices.iter().zip(&array.dims) {
            let index = self.at(expr.integer(&self.names))?;
            let position = u64::try_from(i128::from(index) - i128::from(*first)).unwrap_or(u64::MAX);
            if position >= *length {
                let end = i128::from(*first) + i128::from(*length);
                let message = format!("index {index} of '{}' is not in {first}..{end}", reference.name);
                return self.fail(expr.offset, message);
            }
            number = number * length + position;
        }
        Ok((array.base + number) as u32)
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
            sync: self.at(template.sync.truth(&self.names))?,
            loopback: self.at(template.loopback.truth(&self.names))?,
            send_lines: self.within(&template.send_lines, 0, u64::from(LINES_MAX), "send-lines")? as u32,
            recv_lines: self.within(&template.recv_lines, 0, u64::from(LINES_MAX), "recv-lines")? as u32,
        })
    }

    fn lock(&self, template: &LockTemplate) -> Result<Lock> {
        let handoff = self.at(template.handoff.truth(&self.names))?;
        Ok(Lock { spin_ns: self.spin(&template.spin_ns)?, handoff })
    }

    fn barrier(&self, template: &BarrierTemplate) -> Result<Barrier> {
        let parties = self.within(&template.parties, 1, TASKS_MAX, "parties")? as u32;
        Ok(Barrier { parties, spin_ns: self.spin(&template.spin_ns)? })
    }

    fn groups(&mut self) -> Result<Vec<Group>> {
        let file = self.file;
        let mut groups: Vec<Group> = Vec::new();
        let mut places = Vec::new();
        for (index, template) in file.groups.iter().enumerate() {
            let dims = self.arrays.groups[index].dims.clone();
            self.each(&template.array, &dims, |expansion| {
                places.push(template.parent.as_ref().map_or(template.array.offset, |parent| parent.offset));
                groups.push(expansion.group(template)?);
                Ok(())
            })?;
        }
        for (index, &offset) in places.iter().enumerate() {
            if depth(&groups, index as u32).is_none() {
                let message = format!("group '{}' would be its own ancestor", groups[index].name);
                return self.fail(offset, message);
            }
        }
        Ok(groups)
    }

    /// Elements of arrays are told apart by their indices: `worker[0, 3]`.
    fn group(&self, template: &GroupTemplate) -> Result<Group> {
        let mut name = template.array.name.clone();
        let indices: Vec<String> =
            template.array.each.iter().map(|range| self.names.text(&range.name)).collect();
        if !indices.is_empty() {
            name.push_str(&format!("[{}]", indices.join(", ")));
        }
        let parent = template.parent.as_ref();
        let parent = parent.map(|parent| self.resolve("groups", &self.arrays.groups, parent)).transpose()?;
        let shares = self.within(&template.shares, u64::from(SHARES_MIN), u64::from(WEIGHT_MAX), "shares")?;
        Ok(Group { name, parent, shares: shares as u32 })
    }

    fn spin(&self, spin: &Spin) -> Result<u64> {
        match spin {
            Spin::Forever => Ok(u64::MAX),
            Spin::For(time) => self.within(time, 0, TIME_NS_MAX, "spin-ns"),
        }
    }

    fn task(&mut self, template: &'f TaskTemplate, number: u32) -> Result<Task> {
        let allowed = match (&template.allowed, &template.pin) {
            (Some(cpus), _) => {
                let mut allowed =
                    cpus.iter().map(|cpu| self.cpu(cpu, "a CPU")).collect::<Result<Vec<u32>>>()?;
                allowed.sort_unstable();
                allowed.dedup();
                Some(allowed)
            }
            (None, Some(pin)) if self.at(pin.integer(&self.names))? >= 0 => Some(vec![self.cpu(pin, "pin")?]),
            (None, _) => None,
        };
        let process = match &template.process {
            None => number,
            Some(process) => self.within(process, 0, u64::from(u32::MAX), "process")? as u32,
        };
        let last_cpu = match &template.last_cpu {
            Some(cpu) if self.at(cpu.integer(&self.names))? >= 0 => Some(self.cpu(cpu, "last-cpu")?),
            _ => None,
        };
        let start_ns = self.within(&template.start_ns, 0, TIME_NS_MAX, "start-ns")?;
        let weight = self.within(&template.weight, 1, u64::from(WEIGHT_MAX), "weight")? as u32;
        let mut program = Vec::new();
        self.program(&template.program, number, &mut program)?;
        program.shrink_to_fit();
        let name = template.array.name.clone();
        let footprint_bytes = match &template.footprint_bytes {
            None => DEFAULT_FOOTPRINT_BYTES,
            Some(bytes) => self.within(bytes, 0, MEMORY_BYTES_MAX, "footprint-bytes")?,
        };
        let judged = self.at(template.judged.truth(&self.names))?;
        let group = template.group.as_ref();
        let group = group.map(|group| self.resolve("groups", &self.arrays.groups, group)).transpose()?;
        Ok(Task {
            name,
            parent: None,
            start_ns,
            process,
            weight,
            allowed,
            last_cpu,
            footprint_bytes,
            judged,
            cut_off: false,
            group,
            program,
        })
    }

    fn program(&mut self, steps: &'f [Step], number: u32, out: &mut Vec<Op>) -> Result<()> {
        for step in steps {
            self.step(step.offset)?;
            let op = match &step.kind {
                StepKind::For { range, body } => {
                    let (first, length) = self.bounds(range)?;
                    let depth = self.names.values.len();
                    if length > 0 {
                        self.define(&range.name, first, step.offset)?;
                    }
                    for position in 0..length {
                        self.step(step.offset)?;
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
                    let barrier = self.resolve("barriers", &self.arrays.barriers, among)?;
                    out.push(Op::LoopShared { barrier, times });
                    self.program(body, number, out)?;
                    Op::LoopEnd
                }
                StepKind::WhenReady { channel, body } => {
                    let channel = self.resolve("channels", &self.arrays.channels, channel)?;
                    out.push(Op::WhenReady { channel });
                    self.program(body, number, out)?;
                    Op::LoopEnd
                }
                StepKind::Fork { task } => {
                    let child = self.resolve("tasks", &self.arrays.tasks, task)?;
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
