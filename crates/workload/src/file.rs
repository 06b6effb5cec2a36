// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads workload files: TOML becomes a template. docs/guide/workloads.md describes the format. steps.rs reads the
//! programs, and expand.rs evaluates the template.
//!
//! The TOML tree is walked by hand, not by serde, because every value must keep its place in the file: if an expression
//! overflows when it is evaluated, the error names the line and column of its operator.

use serde::Serialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{SourceText, WorkloadError, list, unknown};
use crate::expr::{Expr, ExprError, Range, Reference};
use crate::expr_parse::{parse_expr, parse_range, parse_reference};
use crate::limits::{FILE_BYTES_MAX, NAME_BYTES_MAX};
use crate::program::Measure;
use crate::steps::Step;

/// A value of the TOML tree, with its place in the file.
pub(crate) type Node<'a> = Spanned<DeValue<'a>>;
pub(crate) type Result<T> = std::result::Result<T, WorkloadError>;

/// A workload file, parsed but not expanded.
#[derive(Clone, Debug)]
pub struct WorkloadFile {
    pub(crate) source: SourceText,
    pub(crate) description: Description,
    pub(crate) lets: Vec<(String, Expr)>,
    pub(crate) channels: Vec<ChannelTemplate>,
    pub(crate) signals: Vec<PlainTemplate>,
    pub(crate) gates: Vec<PlainTemplate>,
    pub(crate) locks: Vec<LockTemplate>,
    pub(crate) barriers: Vec<BarrierTemplate>,
    pub(crate) groups: Vec<GroupTemplate>,
    pub(crate) tasks: Vec<TaskTemplate>,
    pub(crate) end_after_ns: Option<Expr>,
    pub(crate) measure: Measure,
}

/// What a workload is, and which parameters it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The name in the file.
    pub name: String,
    /// Summary of one line.
    pub summary: String,
    /// Some more lines: how the model works, and where its figures are from.
    pub text: String,
    /// The parameters, in the file's order.
    pub params: Vec<Param>,
    /// The parameters that make a run twice as long if they are doubled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lengthen: Vec<String>,
}

/// One parameter of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Param {
    /// The key in `NAME:key=value`. A unit comes last in it.
    pub name: String,
    /// The value if the parameter is not given.
    pub default: String,
    /// Help of one line.
    pub help: String,
    /// The values that the parameter may have.
    pub allowed: Allowed,
    /// How far the value may be off; `None`: not at all, because it says what is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<ValueRange>,
}

/// How far a value may be off that stands for something real.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueRange {
    /// From half to twice the value, because it is an estimate, or was measured on a machine of another kind.
    Estimate,
    /// From 1/1.2 to 1.2 times the value, because it was measured or published.
    Source,
}

impl ValueRange {
    /// The rule in one word.
    pub fn name(self) -> &'static str {
        match self {
            ValueRange::Estimate => "estimate",
            ValueRange::Source => "source",
        }
    }

    /// Returns both ends of the range of a value.
    pub fn around(self, value: u64) -> [u64; 2] {
        let rounded = |numerator: u64, denominator: u64| {
            let scaled = u128::from(value) * u128::from(numerator) + u128::from(denominator / 2);
            u64::try_from(scaled / u128::from(denominator)).unwrap_or(u64::MAX)
        };
        match self {
            ValueRange::Estimate => [rounded(1, 2), rounded(2, 1)],
            ValueRange::Source => [rounded(5, 6), rounded(6, 5)],
        }
    }
}

/// The values that a parameter may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Allowed {
    /// A number from `min` to `max`.
    Range {
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
    },
    /// One of these words.
    Choices(Vec<String>),
}

#[derive(Clone, Debug)]
pub(crate) struct PlainTemplate {
    pub(crate) name: String,
    pub(crate) offset: usize,
    pub(crate) condition: Option<Expr>,
    pub(crate) each: Vec<Range>,
}

#[derive(Clone, Debug)]
pub(crate) struct ChannelTemplate {
    pub(crate) array: PlainTemplate,
    pub(crate) capacity_bytes: Expr,
    pub(crate) overhead_bytes: Expr,
    pub(crate) wake_room_bytes: Expr,
    pub(crate) wakes_all_writers: Expr,
    pub(crate) sync: Expr,
    pub(crate) loopback: Expr,
    pub(crate) send_lines: Expr,
    pub(crate) recv_lines: Expr,
}

#[derive(Clone, Debug)]
pub(crate) struct LockTemplate {
    pub(crate) array: PlainTemplate,
    pub(crate) spin_ns: Spin,
    pub(crate) handoff: Expr,
}

#[derive(Clone, Debug)]
pub(crate) struct BarrierTemplate {
    pub(crate) array: PlainTemplate,
    pub(crate) parties: Expr,
    pub(crate) spin_ns: Spin,
}

#[derive(Clone, Debug)]
pub(crate) struct GroupTemplate {
    pub(crate) array: PlainTemplate,
    pub(crate) parent: Option<Reference>,
    pub(crate) shares: Expr,
    pub(crate) quota_us: Option<Expr>,
    pub(crate) period_us: Expr,
}

/// How long a task spins for a lock or a barrier.
#[derive(Clone, Debug)]
pub(crate) enum Spin {
    Forever,
    For(Expr),
}

#[derive(Clone, Debug)]
pub(crate) struct TaskTemplate {
    pub(crate) array: PlainTemplate,
    pub(crate) start_ns: Expr,
    pub(crate) process: Option<Expr>,
    pub(crate) weight: Expr,
    pub(crate) slice_ns: Option<Expr>,
    pub(crate) allowed: Option<Vec<Expr>>,
    pub(crate) pin: Option<Expr>,
    pub(crate) last_cpu: Option<Expr>,
    pub(crate) footprint_bytes: Option<Expr>,
    pub(crate) judged: Expr,
    pub(crate) group: Option<Reference>,
    pub(crate) program: Vec<Step>,
}

impl WorkloadFile {
    /// Parses the text of a workload file. Errors name it `file`.
    ///
    /// # Errors
    /// Fails, with line and column, for text that is not TOML, unknown or missing keys, malformed expressions, and more
    /// than 1 MiB.
    pub fn parse(file: &str, text: &str) -> Result<WorkloadFile> {
        let source = SourceText { file: file.to_owned(), text: text.to_owned() };
        if text.len() as u64 > FILE_BYTES_MAX {
            let message = format!("the file has more than {FILE_BYTES_MAX} bytes; expected a workload file");
            return Err(source.error(0, message));
        }
        let tree = DeTable::parse(&source.text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            source.error(offset, error.message().trim().replace('\n', ", "))
        })?;
        let reader = Reader { source: &source };
        let mut top = Fields::new(&reader, tree.get_ref(), tree.span().start, "the file");
        let name = reader.text(top.required("name")?)?;
        let summary = reader.text(top.required("summary")?)?;
        let text = top.optional("text").map(|node| reader.text(node)).transpose()?.unwrap_or_default();
        let params = top.each_table("params", |fields| reader.param(fields))?;
        let lets = top.each_table("let", |fields| {
            Ok((reader.name(fields.required("name")?)?, reader.expr(fields.required("value")?)?))
        })?;
        let channels = top.each_table("channels", |fields| reader.channel(fields))?;
        let signals = top.each_table("signals", |fields| reader.array(fields))?;
        let gates = top.each_table("gates", |fields| reader.array(fields))?;
        let locks = top.each_table("locks", |fields| reader.lock(fields))?;
        let barriers = top.each_table("barriers", |fields| reader.barrier(fields))?;
        let groups = top.each_table("groups", |fields| reader.group(fields))?;
        let tasks = top.each_table("tasks", |fields| reader.task(fields))?;
        let end_after_ns = top.optional("end-after-ns").map(|node| reader.expr(node)).transpose()?;
        let measure = reader.choice(top.required("measure")?, &MEASURES)?;
        let lengthen = top.optional("lengthen").map(|node| reader.lengthen(node, &params)).transpose()?;
        let lengthen = lengthen.unwrap_or_default();
        top.finish()?;
        reader.unique_params(&params)?;
        let description = Description {
            name,
            summary,
            text,
            params: params.into_iter().map(|(_, p)| p).collect(),
            lengthen,
        };
        drop(tree);
        Ok(WorkloadFile {
            source,
            description,
            lets,
            channels,
            signals,
            gates,
            locks,
            barriers,
            groups,
            tasks,
            end_after_ns,
            measure,
        })
    }

    /// Returns what the workload is, and which parameters it has.
    pub fn description(&self) -> &Description {
        &self.description
    }
}

/// The keys of one table. Keys that no reader asks for are unknown keys.
pub(crate) struct Fields<'t, 'r> {
    reader: &'r Reader<'r>,
    table: &'t DeTable<'t>,
    offset: usize,
    what: &'static str,
    known: Vec<&'static str>,
}

impl<'t, 'r> Fields<'t, 'r> {
    pub(crate) fn new(
        reader: &'r Reader<'r>,
        table: &'t DeTable<'t>,
        offset: usize,
        what: &'static str,
    ) -> Self {
        Fields { reader, table, offset, what, known: Vec::new() }
    }

    pub(crate) fn optional(&mut self, key: &'static str) -> Option<&'t Node<'t>> {
        self.known.push(key);
        self.table.get(key)
    }

    pub(crate) fn required(&mut self, key: &'static str) -> Result<&'t Node<'t>> {
        let (offset, what) = (self.offset, self.what);
        self.optional(key)
            .ok_or_else(|| self.reader.source.error(offset, format!("{what} lacks the key '{key}'")))
    }

    /// Reads an expression; `default` if the key is absent.
    pub(crate) fn expr_or(&mut self, key: &'static str, default: i64) -> Result<Expr> {
        let offset = self.offset;
        self.optional(key).map_or(Ok(Expr::literal(default, offset)), |node| self.reader.expr(node))
    }

    /// Reads an array of tables, each by `read`.
    fn each_table<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&mut Fields<'t, 'r>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let reader = self.reader;
        let Some(node) = self.optional(key) else { return Ok(Vec::new()) };
        let array = node.get_ref().as_array().ok_or_else(|| reader.expected(node, "an array of tables"))?;
        array
            .iter()
            .map(|entry| {
                let table = entry.get_ref().as_table().ok_or_else(|| reader.expected(entry, "a table"))?;
                let mut fields = Fields::new(reader, table, entry.span().start, key);
                let value = read(&mut fields)?;
                fields.finish()?;
                Ok(value)
            })
            .collect()
    }

    /// Refuses the first key that no reader asked for.
    pub(crate) fn finish(self) -> Result<()> {
        let strange =
            self.table.keys().filter(|key| !self.known.iter().any(|known| *known == key.get_ref().as_ref()));
        match strange.min_by_key(|key| key.span().start) {
            None => Ok(()),
            Some(key) => {
                let what = format!("key '{}' in {}", key.get_ref(), self.what);
                let message = unknown(&what, key.get_ref(), self.known.iter().copied());
                Err(self.reader.source.error(key.span().start, message))
            }
        }
    }
}

pub(crate) struct Reader<'s> {
    pub(crate) source: &'s SourceText,
}

impl Reader<'_> {
    pub(crate) fn expected(&self, node: &Node<'_>, what: &str) -> WorkloadError {
        self.source.error(node.span().start, format!("expected {what}, found {}", kind(node.get_ref())))
    }

    pub(crate) fn text(&self, node: &Node<'_>) -> Result<String> {
        node.get_ref().as_str().map(str::to_owned).ok_or_else(|| self.expected(node, "a string"))
    }

    /// Reads a word of a closed set, and returns what it stands for.
    pub(crate) fn choice<T: Copy>(&self, node: &Node<'_>, words: &[(&str, T)]) -> Result<T> {
        let text = self.text(node)?;
        words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning).ok_or_else(|| {
            let known = list(words.iter().map(|(word, _)| word));
            self.source.error(node.span().start, format!("expected one of {known}, found '{text}'"))
        })
    }

    /// Reads a name that expressions can use.
    fn name(&self, node: &Node<'_>) -> Result<String> {
        let text = self.text(node)?;
        match parse_reference(&text, 0) {
            Ok(reference) if reference.name == text && text.len() <= NAME_BYTES_MAX => Ok(text),
            Ok(reference) if reference.name == text => Err(self.source.error(
                node.span().start,
                format!("a name of {} bytes; expected at most {NAME_BYTES_MAX}", text.len()),
            )),
            _ => Err(self.source.error(
                node.span().start,
                format!("'{text}' is no name: expected letters, digits and _, and hyphens before letters"),
            )),
        }
    }

    fn unsigned(&self, node: &Node<'_>) -> Result<u64> {
        let integer = node.get_ref().as_integer().ok_or_else(|| self.expected(node, "an integer"))?;
        match i64::from_str_radix(integer.as_str(), integer.radix())
            .ok()
            .and_then(|value| u64::try_from(value).ok())
        {
            Some(value) => Ok(value),
            None => Err(self.source.error(node.span().start, "expected an integer from 0 to 2^63 - 1")),
        }
    }

    /// Returns where the contents of a string begin; where the string begins if it is written with escapes.
    fn inside(&self, node: &Node<'_>, contents: &str) -> usize {
        let span = node.span();
        let raw = self.source.text.get(span.clone()).unwrap_or_default();
        let quotes = if raw.starts_with("\"\"\"") || raw.starts_with("'''") { 3 } else { 1 };
        match raw.get(quotes..) {
            Some(rest) if rest.starts_with(contents) => span.start + quotes,
            _ => span.start,
        }
    }

    pub(crate) fn parsed<T>(
        &self,
        node: &Node<'_>,
        what: &str,
        parse: impl Fn(&str, usize) -> std::result::Result<T, ExprError>,
    ) -> Result<T> {
        let text = node.get_ref().as_str().ok_or_else(|| self.expected(node, what))?;
        parse(text, self.inside(node, text)).map_err(|error| self.source.error(error.offset, error.message))
    }

    /// Reads a string with an expression, an integer, or a boolean.
    pub(crate) fn expr(&self, node: &Node<'_>) -> Result<Expr> {
        match node.get_ref() {
            DeValue::Integer(_) => {
                Ok(Expr::literal(i64::try_from(self.unsigned(node)?).unwrap_or(i64::MAX), node.span().start))
            }
            DeValue::Boolean(value) => Ok(Expr::literal(i64::from(*value), node.span().start)),
            _ => self.parsed(node, "an integer or a string with an expression", parse_expr),
        }
    }

    pub(crate) fn reference(&self, node: &Node<'_>) -> Result<Reference> {
        self.parsed(node, "a string with a name, as in \"data[g, i]\"", parse_reference)
    }

    pub(crate) fn strings<'t>(&self, node: &'t Node<'t>) -> Result<&'t [Node<'t>]> {
        Ok(node.get_ref().as_array().ok_or_else(|| self.expected(node, "an array"))?)
    }

    fn param(&self, fields: &mut Fields<'_, '_>) -> Result<(usize, Param)> {
        let at = fields.required("name")?;
        let name = self.name(at)?;
        let default = fields.required("default")?;
        let help = self.text(fields.required("help")?)?;
        if let Some(choices) = fields.optional("choices") {
            let choices = self
                .strings(choices)?
                .iter()
                .map(|choice| self.text(choice))
                .collect::<Result<Vec<String>>>()?;
            let text = self.text(default)?;
            if !choices.contains(&text) {
                let message = format!("the default '{text}' is none of the choices {}", list(&choices));
                return Err(self.source.error(default.span().start, message));
            }
            return Ok((
                at.span().start,
                Param { name, default: text, help, allowed: Allowed::Choices(choices), range: None },
            ));
        }
        let min = fields.optional("min").map(|node| self.unsigned(node)).transpose()?.unwrap_or(0);
        let max = self.unsigned(fields.required("max")?)?;
        let value = self.unsigned(default)?;
        if !(min..=max).contains(&value) {
            let message = format!("the default {value} is not from {min} to {max}");
            return Err(self.source.error(default.span().start, message));
        }
        let allowed = Allowed::Range { min, max };
        let range = fields.optional("range").map(|node| self.choice(node, &RANGES)).transpose()?;
        Ok((at.span().start, Param { name, default: value.to_string(), help, allowed, range }))
    }

    /// Reads names of parameters that are numbers.
    fn lengthen(&self, node: &Node<'_>, params: &[(usize, Param)]) -> Result<Vec<String>> {
        let number = |node: &Node<'_>| {
            let name = self.text(node)?;
            let is_it = |param: &Param| param.name == name && matches!(param.allowed, Allowed::Range { .. });
            if params.iter().any(|(_, param)| is_it(param)) {
                return Ok(name);
            }
            let message = format!("expected a parameter that is a number, found '{name}'");
            Err(self.source.error(node.span().start, message))
        };
        self.strings(node)?.iter().map(number).collect()
    }

    fn unique_params(&self, params: &[(usize, Param)]) -> Result<()> {
        for (index, (offset, param)) in params.iter().enumerate() {
            if params[..index].iter().any(|(_, earlier)| earlier.name == param.name) {
                return Err(self.source.error(*offset, format!("a second parameter '{}'", param.name)));
            }
        }
        Ok(())
    }

    /// Reads the keys that all arrays of objects have.
    fn array(&self, fields: &mut Fields<'_, '_>) -> Result<PlainTemplate> {
        let node = fields.required("name")?;
        let name = self.name(node)?;
        let condition = fields.optional("if").map(|node| self.expr(node)).transpose()?;
        let each = match fields.optional("each") {
            None => Vec::new(),
            Some(node) => self
                .strings(node)?
                .iter()
                .map(|range| self.parsed(range, "a string", parse_range))
                .collect::<Result<_>>()?,
        };
        Ok(PlainTemplate { name, offset: node.span().start, condition, each })
    }

    fn channel(&self, fields: &mut Fields<'_, '_>) -> Result<ChannelTemplate> {
        Ok(ChannelTemplate {
            array: self.array(fields)?,
            capacity_bytes: self.expr(fields.required("capacity-bytes")?)?,
            overhead_bytes: fields.expr_or("overhead-bytes", 0)?,
            wake_room_bytes: fields.expr_or("wake-room-bytes", 0)?,
            wakes_all_writers: fields.expr_or("wakes-all-writers", 0)?,
            sync: fields.expr_or("sync", 1)?,
            loopback: fields.expr_or("loopback", 0)?,
            send_lines: fields.expr_or("send-lines", 0)?,
            recv_lines: fields.expr_or("recv-lines", 0)?,
        })
    }

    fn lock(&self, fields: &mut Fields<'_, '_>) -> Result<LockTemplate> {
        Ok(LockTemplate {
            array: self.array(fields)?,
            spin_ns: self.spin(fields)?,
            handoff: fields.expr_or("handoff", 0)?,
        })
    }

    fn barrier(&self, fields: &mut Fields<'_, '_>) -> Result<BarrierTemplate> {
        Ok(BarrierTemplate {
            array: self.array(fields)?,
            parties: self.expr(fields.required("parties")?)?,
            spin_ns: self.spin(fields)?,
        })
    }

    fn group(&self, fields: &mut Fields<'_, '_>) -> Result<GroupTemplate> {
        Ok(GroupTemplate {
            array: self.array(fields)?,
            parent: fields.optional("parent").map(|node| self.reference(node)).transpose()?,
            shares: fields.expr_or("shares", 1024)?,
            quota_us: fields.optional("quota-us").map(|node| self.expr(node)).transpose()?,
            period_us: fields.expr_or("period-us", 100_000)?,
        })
    }

    fn spin(&self, fields: &mut Fields<'_, '_>) -> Result<Spin> {
        let offset = fields.offset;
        match fields.optional("spin-ns") {
            None => Ok(Spin::For(Expr::literal(0, offset))),
            Some(node) if node.get_ref().as_str() == Some("forever") => Ok(Spin::Forever),
            Some(node) => Ok(Spin::For(self.expr(node)?)),
        }
    }

    fn task(&self, fields: &mut Fields<'_, '_>) -> Result<TaskTemplate> {
        let allowed = match fields.optional("allowed") {
            None => None,
            Some(node) => Some(self.strings(node)?.iter().map(|cpu| self.expr(cpu)).collect::<Result<_>>()?),
        };
        let pin = match fields.optional("pin") {
            Some(node) if allowed.is_some() => {
                let message = "expected either 'allowed' or 'pin', found both";
                return Err(self.source.error(node.span().start, message));
            }
            node => node.map(|node| self.expr(node)).transpose()?,
        };
        Ok(TaskTemplate {
            array: self.array(fields)?,
            start_ns: fields.expr_or("start-ns", 0)?,
            process: fields.optional("process").map(|node| self.expr(node)).transpose()?,
            weight: fields.expr_or("weight", 1024)?,
            slice_ns: fields.optional("slice-ns").map(|node| self.expr(node)).transpose()?,
            allowed,
            pin,
            last_cpu: fields.optional("last-cpu").map(|node| self.expr(node)).transpose()?,
            footprint_bytes: fields.optional("footprint-bytes").map(|node| self.expr(node)).transpose()?,
            judged: fields.expr_or("judged", 0)?,
            group: fields.optional("group").map(|node| self.reference(node)).transpose()?,
            program: self.steps(fields.required("program")?)?,
        })
    }
}

const MEASURES: [(&str, Measure); 3] =
    [("makespan", Measure::Makespan), ("rate", Measure::Rate), ("wakeup-latency", Measure::WakeupLatency)];

const RANGES: [(&str, ValueRange); 2] = [("estimate", ValueRange::Estimate), ("source", ValueRange::Source)];

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}
