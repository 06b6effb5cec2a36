// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes a machine as a machine file: the way from `host`, whose costs are estimates, to a file with better ones.

use toml::{Table, Value};

use crate::{Bandwidth, Costs, Distance, Machine, MachineError};

impl Machine {
    /// The text of a machine file with one line a CPU, which [`Machine::from_toml`] reads back as the same topology and
    /// costs. Errors if a figure is too large for TOML, which no checked machine has, and if a term was left out by a
    /// switch ([`Machine::without`]), for which files have no key.
    pub fn to_toml(&self) -> Result<String, MachineError> {
        let Costs { reads_may_hit, charge_reads, charge_writes, charge_data, charge_atomics, .. } =
            self.costs;
        if !(reads_may_hit && charge_reads && charge_writes && charge_data && charge_atomics) {
            return Err(MachineError::Invalid {
                what: "a machine without one of its cost terms".into(),
                expected: "one with all of them: machine files have figures, not switches".into(),
            });
        }
        let mut text =
            format!("description = {}\n\n[topology]\ncpus = [\n", Value::from(self.description.as_str()));
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
        text.push_str("]\n\n[costs]\n");
        for (key, value) in figures(&self.costs)? {
            let source = Value::from(self.sources.get(key).map_or("unknown", String::as_str));
            text.push_str(&format!("{key} = {{ value = {value}, source = {source} }}\n"));
        }
        Ok(text)
    }
}

fn figures(costs: &Costs) -> Result<Vec<(&'static str, Value)>, MachineError> {
    let integer = |value: u64| {
        i64::try_from(value).map(Value::Integer).map_err(|_| MachineError::Invalid {
            what: format!("a cost of {value}"),
            expected: "less than 2^63".into(),
        })
    };
    let by_distance = |values: &[u64; Distance::COUNT]| {
        let mut table = Table::new();
        for distance in Distance::ALL {
            table.insert(distance.name().to_owned(), integer(values[distance.index()])?);
        }
        Ok::<_, MachineError>(Value::Table(table))
    };
    let bandwidth = |limits: &Bandwidth| {
        let mut table = Table::new();
        for (key, limit) in limits.named() {
            table.insert(key.to_owned(), integer(limit)?);
        }
        Ok::<_, MachineError>(Value::Table(table))
    };
    let mut states = Vec::new();
    for state in &costs.idle_states {
        let mut table = Table::new();
        table.insert("after_ns".to_owned(), integer(state.after_ns)?);
        table.insert("exit_latency_ns".to_owned(), integer(state.exit_latency_ns)?);
        states.push(Value::Table(table));
    }
    Ok(vec![
        ("smt_speed", Value::Array(costs.smt_speed.iter().map(|&s| Value::Integer(s.into())).collect())),
        ("line_transfer_ps", by_distance(&costs.line_transfer_ps)?),
        ("wakeup_ns", integer(costs.wakeup_ns)?),
        ("select_ns", integer(costs.select_ns)?),
        ("balance_ns", integer(costs.balance_ns)?),
        ("switch_thread_ns", integer(costs.switch_thread_ns)?),
        ("switch_process_ns", integer(costs.switch_process_ns)?),
        ("ipi_send_ns", integer(costs.ipi_send_ns)?),
        ("ipi_flight_ns", by_distance(&costs.ipi_flight_ns)?),
        ("ipi_handle_ns", integer(costs.ipi_handle_ns)?),
        ("idle_states", Value::Array(states)),
        ("line_bytes", integer(costs.line_bytes)?),
        ("lines_in_flight", integer(costs.lines_in_flight)?),
        ("core_cache_bytes", integer(costs.core_cache_bytes)?),
        ("llc_cache_bytes", integer(costs.llc_cache_bytes)?),
        ("llc_hit_ps", integer(costs.llc_hit_ps)?),
        ("atomic_ps", integer(costs.atomic_ps)?),
        ("runqueue_lock_ns", integer(costs.runqueue_lock_ns)?),
        ("loopback_ns", integer(costs.loopback_ns)?),
        ("loopback_ps_per_byte", integer(costs.loopback_ps_per_byte)?),
        ("futex_ns", integer(costs.futex_ns)?),
        ("exec_ns", integer(costs.exec_ns)?),
        ("push_ns", integer(costs.push_ns)?),
        ("bandwidth_mb_per_s", bandwidth(&costs.bandwidth_mb_per_s)?),
        ("write_traffic_percent", integer(costs.write_traffic_percent)?),
        ("remote_bandwidth_percent", by_distance(&costs.remote_bandwidth_percent)?),
        ("tick_period_ns", integer(costs.tick_period_ns)?),
        ("tick_ns", integer(costs.tick_ns)?),
        ("interrupt_ns", integer(costs.interrupt_ns)?),
        ("fork_ns", integer(costs.fork_ns)?),
        ("exit_ns", integer(costs.exit_ns)?),
    ])
}
