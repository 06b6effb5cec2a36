// SPDX-License-Identifier: GPL-2.0-or-later
//! What-ifs on the costs of a machine: one figure replaced, as `NAME=VALUE`.
//!
//! The names are those of `wakelab machines NAME`, with their unit (`wakeup_ns`) or without it (`wakeup`). The value is
//! in that unit. A figure with parts takes one value for all of them, or for one part: `ipi_flight.llc=500`. Of idle
//! states it is the exit latency that is replaced, `idle_states=0` or `idle_states.1=2000`; of SMT speeds, all of them
//! are: `smt_speed=1024,700`.

use std::fmt;
use std::str::FromStr;

use crate::costs::{COSTS, Cost, Figure, Shape};
use crate::{Distance, Machine, MachineError};

/// One cost replaced: `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostChange {
    key: &'static str,
    part: Option<String>,
    values: Vec<u64>,
}

impl FromStr for CostChange {
    type Err = String;

    fn from_str(text: &str) -> Result<CostChange, String> {
        let expected = "expected NAME=VALUE with a whole number, such as wakeup=0 or ipi_flight.llc=500";
        let (name, value) = text.split_once('=').ok_or(expected)?;
        let (name, part) = match name.split_once('.') {
            Some((name, part)) => (name, Some(part.to_owned())),
            None => (name, None),
        };
        let cost = find(name).ok_or_else(|| unknown(name))?;
        let values: Result<Vec<u64>, _> = value.split(',').map(str::parse).collect();
        let values = values.map_err(|_| expected)?;
        if values.len() > 1 && cost.shape != Shape::Speeds {
            return Err(format!("`{}` takes one value; {expected}", cost.key));
        }
        if part.is_some() && matches!(cost.shape, Shape::Number | Shape::Speeds) {
            return Err(format!("`{}` has no parts; {expected}", cost.key));
        }
        Ok(CostChange { key: cost.key, part, values })
    }
}

impl fmt::Display for CostChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key)?;
        if let Some(part) = &self.part {
            write!(f, ".{part}")?;
        }
        let values: Vec<String> = self.values.iter().map(u64::to_string).collect();
        write!(f, "={}", values.join(","))
    }
}

/// The cost with this key, with or without its unit.
fn find(name: &str) -> Option<&'static Cost> {
    const UNITS: [&str; 5] = ["_ns", "_ps", "_bytes", "_percent", "_mb_per_s"];
    let is_it = |cost: &&Cost| {
        cost.key == name
            || UNITS.iter().any(|unit| cost.key.strip_suffix(unit).is_some_and(|bare| bare == name))
    };
    COSTS.iter().find(is_it)
}

fn unknown(name: &str) -> String {
    let keys = || COSTS.iter().map(|cost| cost.key);
    match crate::nearest(name, keys()) {
        Some(near) => {
            format!("unknown cost `{name}`, did you mean `{near}`? `wakelab machines NAME` prints all")
        }
        None => format!("unknown cost `{name}`, expected one of {}", keys().collect::<Vec<_>>().join(", ")),
    }
}

impl CostChange {
    /// The key of the cost.
    pub fn key(&self) -> &'static str {
        self.key
    }

    /// Whether both replace the same figure, or the same part of it.
    pub fn is_of_same(&self, other: &CostChange) -> bool {
        (self.key, &self.part) == (other.key, &other.part)
    }
}

impl Machine {
    /// Returns the machine with this cost replaced. Its name and the source of the cost say so.
    ///
    /// # Errors
    /// A part that the cost lacks, or a value that makes no machine.
    pub fn with_cost(&self, change: &CostChange) -> Result<Machine, MachineError> {
        let mut machine = self.clone();
        let cost = Cost::of(change.key);
        let figure = changed(change, (cost.get)(&self.costs)).map_err(|parts| MachineError::Invalid {
            what: format!("--cost {change}: `{}` has no such part", change.key),
            expected: format!("one of {}", parts.join(", ")),
        })?;
        (cost.set)(&mut machine.costs, figure);
        machine.forget_ranges(change.key);
        machine.name = format!("{}+{change}", self.name);
        let source = machine.sources.entry(change.key.to_owned()).or_default();
        *source = format!("estimate: what if {change}; {source}");
        machine.check().map_err(|error| MachineError::Invalid {
            what: format!("--cost {change}: {error}"),
            expected: "a value that a machine file may have".to_owned(),
        })?;
        Ok(machine)
    }
}

/// The figure with its new value. An error has the parts that there are.
fn changed(change: &CostChange, figure: Figure) -> Result<Figure, Vec<String>> {
    let value = change.values[0];
    let place = |parts: Vec<String>| match &change.part {
        None => Ok(None),
        Some(wanted) => parts.iter().position(|part| part == wanted).map(Some).ok_or(parts),
    };
    let is_wanted = |wanted: Option<usize>, at: usize| wanted.is_none_or(|wanted| wanted == at);
    Ok(match figure {
        Figure::Number(_) => Figure::Number(value),
        Figure::Speeds(_) => {
            Figure::Speeds(change.values.iter().map(|&value| value.min(u64::from(u32::MAX)) as u32).collect())
        }
        Figure::ByDistance(mut table) => {
            let wanted = place(Distance::ALL.map(|distance| distance.name().to_owned()).into())?;
            let all = table.iter_mut().enumerate().filter(|(at, _)| is_wanted(wanted, *at));
            all.for_each(|(_, number)| *number = value);
            Figure::ByDistance(table)
        }
        Figure::IdleStates(mut states) => {
            let wanted = place((0..states.len()).map(|at| at.to_string()).collect())?;
            let all = states.iter_mut().enumerate().filter(|(at, _)| is_wanted(wanted, *at));
            all.for_each(|(_, state)| state.exit_latency_ns = value);
            Figure::IdleStates(states)
        }
        Figure::Bandwidth(mut limits) => {
            let wanted = place(limits.named().map(|(name, _)| name.to_owned()).into())?;
            let all = limits.named_mut().into_iter().enumerate().filter(|(at, _)| is_wanted(wanted, *at));
            all.for_each(|(_, (_, limit))| *limit = value);
            Figure::Bandwidth(limits)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Result<Machine, String> {
        let change: CostChange = text.parse()?;
        Machine::preset("xeon-2s22c2t").unwrap().with_cost(&change).map_err(|error| error.to_string())
    }

    #[test]
    fn a_cost_has_its_name_with_and_without_its_unit() {
        for name in ["wakeup", "wakeup_ns"] {
            let machine = with(&format!("{name}=7")).unwrap();
            assert_eq!((machine.costs.wakeup_ns, machine.name.as_str()), (7, "xeon-2s22c2t+wakeup_ns=7"));
            assert!(machine.sources["wakeup_ns"].starts_with("estimate: what if wakeup_ns=7; "));
        }
        let other =
            Machine { costs: Machine::preset("xeon-2s22c2t").unwrap().costs, ..with("wakeup=7").unwrap() };
        assert_ne!(other.costs, with("wakeup=7").unwrap().costs);
    }

    #[test]
    fn parts_are_changed_alone_or_together() {
        let base = Machine::preset("xeon-2s22c2t").unwrap();
        let exits = |machine: &Machine| -> Vec<u64> {
            machine.costs.idle_states.iter().map(|state| state.exit_latency_ns).collect()
        };
        assert!(exits(&with("idle_states=0").unwrap()).iter().all(|&exit| exit == 0));
        let first = with("idle_states.0=1").unwrap();
        assert_eq!((exits(&first)[0], &exits(&first)[1..]), (1, &exits(&base)[1..]));
        assert_eq!(with("ipi_flight=0").unwrap().costs.ipi_flight_ns, [0; Distance::COUNT]);
        assert_eq!(with("smt_speed=1024,800").unwrap().costs.smt_speed, [1024, 800]);
        assert_eq!(with("bandwidth.node=9").unwrap().costs.bandwidth_mb_per_s.node, 9);
    }

    #[test]
    fn what_is_no_cost_is_refused_with_what_there_is() {
        let refused = |text: &str, words: &str| {
            let error = with(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        };
        refused("wakeup", "expected NAME=VALUE");
        refused("wakeup=-1", "whole number");
        refused("wakeup=1,2", "takes one value");
        refused("wakeup.llc=1", "has no parts");
        refused("wakup=1", "did you mean `wakeup_ns`");
        refused("ipi_flight.far=1", "one of cpu, smt, cluster, llc");
        refused("tick_period=1", "--cost tick_period_ns=1");
        refused("smt_speed=1024", "smt_speed");
    }
}
