// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes a machine as a machine file, so that users can start their own file from `host` or any other machine.

use toml::{Table, Value};

use crate::costs::{COSTS, Figure};
use crate::{Costs, Distance, IdleState, Machine, MachineError};

impl Machine {
    /// Returns the text of a machine file, with one line for each CPU, and each cost's meaning above it.
    /// [`Machine::from_toml`] reads it back as the same topology and costs. Fails if a figure is too large for TOML,
    /// which [`Machine::check`] excludes, or if a switch leaves out a term ([`Machine::without`]), because files have
    /// no key for that.
    pub fn to_toml(&self) -> Result<String, MachineError> {
        let Costs { reads_may_hit, charge_reads, charge_writes, charge_data, charge_atomics, .. } =
            self.costs;
        if !(reads_may_hit && charge_reads && charge_writes && charge_data && charge_atomics) {
            return Err(MachineError::Invalid {
                what: "a machine without one of its cost terms".into(),
                expected: "one with all of them: machine files have figures, not switches".into(),
            });
        }
        let mut text = format!("description = {}\n\n", Value::from(self.description.as_str()));
        text.push_str(&self.topology_toml());
        text.push_str("\n[costs]\n");
        for cost in COSTS {
            let key = cost.key;
            push_comment(&mut text, cost.description());
            let value = toml_value((cost.get)(&self.costs))?;
            let source = Value::from(self.sources.get(key).map_or("unknown", String::as_str));
            let range = self.range_toml(key);
            text.push_str(&format!("{key} = {{ value = {value}, source = {source}{range} }}\n"));
        }
        Ok(text)
    }

    /// Returns the part `[topology]` of a machine file, with one line for each CPU.
    pub fn topology_toml(&self) -> String {
        let mut text = String::from("[topology]\ncpus = [\n");
        for (number, cpu) in self.topology.cpus.iter().enumerate() {
            let cluster = cpu.cluster.map_or(String::new(), |id| format!("cluster = {id}, "));
            text.push_str(&format!(
                "    {{ cpu = {number}, core = {}, {cluster}llc = {}, node = {}, capacity = {} }},\n",
                cpu.core, cpu.llc, cpu.node, cpu.capacity
            ));
        }
        text.push_str("]\nnode_distance = [\n");
        for row in &self.topology.node_distance {
            text.push_str(&format!("    {row:?},\n"));
        }
        text.push_str("]\n");
        text
    }

    /// The ranges of a figure as its line has them, after a comma; nothing if there are none.
    fn range_toml(&self, key: &str) -> String {
        if let Some(range) = self.ranges.get(key) {
            return format!(", range = {range:?}");
        }
        let part = |name: &str| name.strip_prefix(key)?.strip_prefix('.').map(str::to_owned);
        let parts: Vec<String> = self
            .ranges
            .iter()
            .filter_map(|(name, range)| Some(format!("{} = {range:?}", part(name)?)))
            .collect();
        if parts.is_empty() { String::new() } else { format!(", range = {{ {} }}", parts.join(", ")) }
    }
}

/// The value of a figure as a machine file writes it.
fn toml_value(figure: Figure) -> Result<Value, MachineError> {
    Ok(match figure {
        Figure::Number(value) => integer(value)?,
        Figure::ByDistance(values) => table(Distance::ALL.map(|d| (d.name(), values[d.index()])))?,
        Figure::Bandwidth(limits) => table(limits.named())?,
        Figure::Speeds(speeds) => numbers(speeds),
        Figure::IdleStates(states) => Value::Array(states.iter().map(idle_state).collect::<Result<_, _>>()?),
    })
}

fn idle_state(state: &IdleState) -> Result<Value, MachineError> {
    let IdleState { after_ns, exit_latency_ns, cold_percent, exit_percent } = *state;
    let cold = (cold_percent > 0).then_some(("cold_percent", cold_percent.into()));
    let times = [("after_ns", after_ns), ("exit_latency_ns", exit_latency_ns)];
    let mut table = table(times.into_iter().chain(cold))?;
    if let (Value::Table(entries), true) = (&mut table, exit_percent.varies()) {
        entries.insert("exit_percent".to_owned(), numbers(exit_percent.percents()));
    }
    Ok(table)
}

fn numbers(values: impl IntoIterator<Item = u32>) -> Value {
    Value::Array(values.into_iter().map(|value| Value::Integer(value.into())).collect())
}

fn table(entries: impl IntoIterator<Item = (&'static str, u64)>) -> Result<Value, MachineError> {
    let entries = entries.into_iter().map(|(name, value)| Ok((name.to_owned(), integer(value)?)));
    Ok(Value::Table(entries.collect::<Result<Table, MachineError>>()?))
}

fn integer(value: u64) -> Result<Value, MachineError> {
    i64::try_from(value).map(Value::Integer).map_err(|_| MachineError::Invalid {
        what: format!("a cost of {value}"),
        expected: "less than 2^63".into(),
    })
}

/// Appends a text as comments of at most 100 columns.
fn push_comment(text: &mut String, comment: &str) {
    const WIDTH: usize = 100;
    let mut line = String::from("#");
    for word in comment.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line.truncate(1);
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}
