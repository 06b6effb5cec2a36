// SPDX-License-Identifier: GPL-2.0-or-later
//! What was measured: figures of a machine file, and other quantities beside them.

use serde::Serialize;

use crate::spread::Spread;

/// A measured quantity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// A key of machine files, and after a dot the part of a table; or another quantity, if `is_cost` is false.
    pub quantity: String,
    /// Median and range.
    #[serde(flatten)]
    pub spread: Spread,
    /// How it was measured.
    pub how: String,
    /// Whether it is a figure of the machine file.
    pub is_cost: bool,
}

/// An idle state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdleFigure {
    /// The CPU is in this state once it has idled for this long.
    pub after_ns: u64,
    /// Its exit, in ns.
    pub exit: Spread,
    /// By how many percent the first 25 us of work take longer after it; 0 if not measured.
    pub cold_percent: u32,
    /// How it was measured.
    pub how: String,
}

/// Figures, and what could not be measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// The quantities, those of a table together and nearest first.
    pub rows: Vec<Row>,
    /// Speeds of a thread with 1, 2, .. threads of its core busy, in 1/1024; empty if not measured.
    pub speeds: Vec<Spread>,
    /// Idle states, shallowest first; empty if not measured.
    pub idle_states: Vec<IdleFigure>,
    /// What could not be measured, and why, a line each. It comes from the base.
    pub missing: Vec<String>,
}

impl Figures {
    /// Adds a figure of one number.
    pub(crate) fn number(&mut self, key: &str, spread: Spread, how: &str) {
        self.push(key.to_owned(), spread, how, true);
    }

    /// Adds a part of a table.
    pub(crate) fn part(&mut self, key: &str, part: &str, spread: Spread, how: &str) {
        self.push(format!("{key}.{part}"), spread, how, true);
    }

    /// Adds a quantity that machine files do not have.
    pub(crate) fn beside(&mut self, quantity: String, spread: Spread, how: &str) {
        self.push(quantity, spread, how, false);
    }

    fn push(&mut self, quantity: String, spread: Spread, how: &str, is_cost: bool) {
        self.rows.push(Row { quantity, spread, how: how.to_owned(), is_cost });
    }

    /// Adds what could not be measured.
    pub(crate) fn missing(&mut self, line: String) {
        self.missing.push(line);
    }

    /// The spread of a quantity.
    #[cfg(test)]
    pub(crate) fn of(&self, quantity: &str) -> Option<Spread> {
        self.rows.iter().find(|row| row.quantity == quantity).map(|row| row.spread)
    }

    /// Takes over what `other` has, in the place of what is here.
    pub fn replace(&mut self, other: Figures) {
        let table = |row: &Row| row.quantity.split('.').next().unwrap_or_default().to_owned();
        for row in &other.rows {
            self.rows.retain(|own| table(own) != table(row));
        }
        self.rows.extend(other.rows);
        if !other.speeds.is_empty() {
            self.speeds = other.speeds;
        }
        if !other.idle_states.is_empty() {
            self.idle_states = other.idle_states;
        }
        self.missing.extend(other.missing);
    }

    /// Puts the idle states in the order of the sleeps that they are for, the first from the start, and none with a
    /// shorter exit than the one before.
    pub(crate) fn sort_idle_states(&mut self) {
        self.idle_states.sort_by_key(|state| (state.after_ns, state.exit.median));
        let (mut least, mut coldest) = (0, 0);
        for (at, state) in self.idle_states.iter_mut().enumerate() {
            if at == 0 {
                state.after_ns = 0;
            }
            state.exit = state.exit.at_least(least);
            least = state.exit.median;
            state.cold_percent = state.cold_percent.max(coldest);
            coldest = state.cold_percent;
        }
        self.idle_states.dedup_by_key(|state| state.after_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(median: u64) -> Spread {
        Spread { low: median - 1, median, high: median + 1, samples: 9 }
    }

    #[test]
    fn idle_states_are_in_order() {
        let state = |after_ns, median| IdleFigure {
            after_ns,
            exit: exit(median),
            cold_percent: 0,
            how: String::new(),
        };
        let mut figures = Figures {
            idle_states: vec![state(900, 30), state(20, 40), state(300, 50)],
            ..Figures::default()
        };
        figures.sort_idle_states();
        let shown: Vec<_> = figures.idle_states.iter().map(|s| (s.after_ns, s.exit.median)).collect();
        assert_eq!(shown, [(0, 40), (300, 50), (900, 50)]);
    }

    #[test]
    fn a_tool_replaces_whole_tables() {
        let mut figures = Figures::default();
        figures.part("line_transfer_ps", "smt", exit(5), "measured");
        figures.part("line_transfer_ps", "llc", exit(50), "measured");
        figures.number("futex_ns", exit(300), "measured");
        let mut other = Figures::default();
        other.part("line_transfer_ps", "llc", exit(44), "the tool");
        other.missing("a line".into());
        figures.replace(other);
        let shown: Vec<_> =
            figures.rows.iter().map(|row| (row.quantity.as_str(), row.spread.median)).collect();
        assert_eq!(shown, [("futex_ns", 300), ("line_transfer_ps.llc", 44)]);
        assert_eq!(figures.missing, ["a line"]);
        assert_eq!(figures.of("futex_ns"), Some(exit(300)));
    }
}
