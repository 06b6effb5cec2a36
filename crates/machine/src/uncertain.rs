// SPDX-License-Identifier: GPL-2.0-or-later
//! Figures that may be others: the range in which each plausibly lies, and the machine with all of them drawn at once.
//!
//! The range of a figure, or of a part of a table, is by the first of these rules that fits:
//!
//! 1. *range*: the machine file says it, `range = [400, 900]`;
//! 2. *estimate*: half to twice a figure that is an estimate, as sensitivity has it ([`Machine::estimates`]);
//! 3. *source*: from 1/1.2 to 1.2 times a figure that was measured, because what is published is a median, of another
//!    machine of that kind, under another load. Class medians of line transfers differ by that much between machines of
//!    one maker and generation (44 to 48 ns in a socket, 118 to 141 ns between sockets).
//!
//! Each part of a table is a separate figure: that a line from the next core is slow says little about one from another
//! socket.
//!
//! Sizes, the tick's period and definitions are exact unless they are estimates. As in sensitivity, it is the loss that
//! is scaled of `smt_speed`, the excess of `write_traffic_percent`, and the exit latency of idle states. An estimate of
//! `smt_speed` stops where all threads of a core together do no more than one.
//!
//! The range of a figure that `base` provides, and of which that preset's file has a range, is the wider of that range
//! and rule 2, because the range was meant for another machine.
//!
//! A position of 0 to 65,535 draws a value: from the low end of the range at 0 to the figure itself in the middle, and
//! on to the high end. So half of all draws are below the figure, whatever its range. Drawn values that would make no
//! machine together are moved to the nearest that do: no distance costs less than a nearer one, and a tick's work stays
//! below its period.

use std::fmt;

use crate::costs::{COSTS, Cost, FULL_SPEED, Figure, Limits, ORDERED};
use crate::sensitivity::{Factor, fill, is_marked};
use crate::show::show_figure;
use crate::{Distance, Machine};

/// How far an estimate may be off, as a ratio.
const ESTIMATE: Factor = Factor { numerator: 2, denominator: 1 };
/// How far a measured figure may be off.
const SOURCE: Factor = Factor { numerator: 6, denominator: 5 };
/// The position of the figure itself.
const MIDDLE: i128 = 1 << 15;
/// The position of the high end.
const LAST: i128 = (1 << 16) - 1;

/// The rule that a range follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeRule {
    /// The machine file has the range.
    Range,
    /// Half to twice an estimate.
    Estimate,
    /// 1/1.2 to 1.2 times a measured figure.
    Source,
}

impl RangeRule {
    /// The rule in one word.
    pub fn name(self) -> &'static str {
        match self {
            RangeRule::Range => "range",
            RangeRule::Estimate => "estimate",
            RangeRule::Source => "source",
        }
    }
}

/// A figure, or a part of a table, with its range. [`Machine::uncertain`] finds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncertain {
    key: &'static str,
    /// The only part that is meant, by name.
    part: Option<&'static str>,
    /// Places in the figure's numbers.
    places: Vec<usize>,
    rule: RangeRule,
    low: Figure,
    high: Figure,
}

/// Writes `wakeup_ns` or `line_transfer_ps.cpu`.
impl fmt::Display for Uncertain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            None => f.pad(self.key),
            Some(part) => f.pad(&format!("{}.{part}", self.key)),
        }
    }
}

impl Uncertain {
    /// The figure's key in the machine file.
    pub fn key(&self) -> &'static str {
        self.key
    }

    /// The rule that the range follows.
    pub fn rule(&self) -> RangeRule {
        self.rule
    }

    /// The unit of the figure.
    pub fn unit(&self) -> &'static str {
        Cost::of(self.key).unit
    }

    /// Returns the low end, the figure itself and the high end, as tables of costs show them; of a table only the parts
    /// that are meant.
    pub fn range_words(&self, machine: &Machine) -> [String; 3] {
        let present = machine.topology.distances_present();
        let own = (Cost::of(self.key).get)(&machine.costs);
        [&self.low, &own, &self.high].map(|figure| match self.places[..] {
            [place] => numbers(figure)[place].to_string(),
            _ => show_figure(figure.clone(), &present, machine.topology.max_threads()),
        })
    }
}

impl Machine {
    /// Returns all figures that have a range, in the order of the machine file. Leaves out those whose range is one
    /// value, such as 0.
    pub fn uncertain(&self) -> Vec<Uncertain> {
        let mut found = Vec::new();
        for cost in COSTS {
            let own = (cost.get)(&self.costs);
            let parts = self.parts(cost);
            let source = self.sources.get(cost.key).map_or("", String::as_str).trim_start();
            let is_estimate = source.starts_with("estimate");
            if parts.is_empty() {
                let places = (0..numbers(&own).len()).collect();
                found.extend(match self.ranges.get(cost.key) {
                    Some(&range) => Some(self.of_range(cost, None, places, range)),
                    None if is_estimate => Some(self.of_rule(cost, None, places, RangeRule::Estimate)),
                    None if is_measured(cost, source) => {
                        Some(self.of_rule(cost, None, places, RangeRule::Source))
                    }
                    None => None,
                });
                continue;
            }
            let marked =
                |name: &str| !is_estimate && source.split([';', '(']).any(|said| is_marked(said, name));
            for (name, place) in parts {
                let of_rule = |rule| self.of_rule(cost, Some(name), vec![place], rule);
                if let Some(&range) = self.ranges.get(&format!("{}.{name}", cost.key)) {
                    found.push(self.of_range(cost, Some(name), vec![place], range));
                } else if is_estimate || marked(name) {
                    found.push(of_rule(RangeRule::Estimate));
                } else if is_measured(cost, source) {
                    found.push(of_rule(RangeRule::Source));
                }
            }
        }
        found.retain(|uncertain| {
            let own = numbers(&(Cost::of(uncertain.key).get)(&self.costs));
            let [low, high] = [&uncertain.low, &uncertain.high].map(numbers);
            uncertain.places.iter().any(|&place| low[place] != own[place] || high[place] != own[place])
        });
        found
    }

    /// Returns the machine with each of these figures at its position in its range.
    #[must_use]
    pub fn drawn<'a>(&self, draw: impl IntoIterator<Item = (&'a Uncertain, u16)>) -> Machine {
        let mut machine = self.clone();
        for (uncertain, position) in draw {
            let cost = Cost::of(uncertain.key);
            let own = numbers(&(cost.get)(&self.costs));
            let [low, high] = [&uncertain.low, &uncertain.high].map(numbers);
            let figure = (cost.get)(&machine.costs);
            let mut values = numbers(&figure);
            for &place in &uncertain.places {
                values[place] = between(low[place], own[place], high[place], position);
            }
            (cost.set)(&mut machine.costs, with_numbers(figure, &values));
        }
        machine.settle();
        machine
    }

    /// Removes the ranges that a file gave of a figure which has been replaced.
    pub(crate) fn forget_ranges(&mut self, key: &str) {
        self.ranges.retain(|name, _| name.split('.').next() != Some(key));
    }

    /// A range that the machine file has. Of speeds it is that of the last, with all threads busy, and the others lose
    /// in proportion.
    fn of_range(
        &self,
        cost: &'static Cost,
        part: Option<&'static str>,
        places: Vec<usize>,
        range: [u64; 2],
    ) -> Uncertain {
        let own = (cost.get)(&self.costs);
        let [low, high] = range.map(|end| {
            let mut values = numbers(&own);
            if let Figure::Speeds(speeds) = &own {
                let full = u64::from(FULL_SPEED);
                let last = u64::from(speeds[self.topology.max_threads().clamp(1, speeds.len()) - 1]);
                for value in values.iter_mut().filter(|value| **value < full && last < full) {
                    *value = full.saturating_sub((full - *value) * (full - end) / (full - last)).max(1);
                }
            } else {
                places.iter().for_each(|&place| values[place] = end);
            }
            with_numbers(own.clone(), &values)
        });
        Uncertain { key: cost.key, part, places, rule: RangeRule::Range, low, high }
    }

    fn of_rule(
        &self,
        cost: &'static Cost,
        part: Option<&'static str>,
        places: Vec<usize>,
        rule: RangeRule,
    ) -> Uncertain {
        let factor = if rule == RangeRule::Estimate { ESTIMATE } else { SOURCE };
        let inverse = Factor { numerator: factor.denominator, denominator: factor.numerator };
        // All parts are scaled, because a part that is scaled alone stops at its neighbours.
        let [mut low, mut high] = [inverse, factor].map(|by| self.scaled_figure(cost, None, by));
        if let Figure::Speeds(_) = low {
            // More loss is less speed.
            std::mem::swap(&mut low, &mut high);
            let slowest: Vec<u64> = numbers(&low)
                .into_iter()
                .zip(numbers(&(cost.get)(&self.costs)))
                .zip(1..)
                .map(|((low, own), threads)| low.max(u64::from(FULL_SPEED) / threads).min(own))
                .collect();
            low = with_numbers(low, &slowest);
        }
        Uncertain { key: cost.key, part, places, rule, low, high }
    }

    /// Moves figures that contradict each other to the nearest that do not.
    fn settle(&mut self) {
        let present: Vec<usize> =
            self.topology.distances_present().iter().map(|distance| distance.index()).collect();
        for cost in COSTS {
            let figure = (cost.get)(&self.costs);
            let mut values = numbers(&figure);
            let places: Vec<usize> = match (&cost.limits, &figure) {
                (Limits::Rising(_) | Limits::Falling, Figure::ByDistance(_)) => present.clone(),
                (_, Figure::IdleStates(states)) => (0..states.len()).collect(),
                _ => continue,
            };
            let falls = matches!(cost.limits, Limits::Falling);
            for pair in places.windows(2) {
                let nearer = values[pair[0]];
                values[pair[1]] =
                    if falls { values[pair[1]].min(nearer) } else { values[pair[1]].max(nearer) };
            }
            if matches!(figure, Figure::ByDistance(_)) {
                fill(&mut values, &places);
            }
            (cost.set)(&mut self.costs, with_numbers(figure, &values));
        }
        for (less, more, gap) in ORDERED {
            let most = self.costs.number(more).saturating_sub(gap);
            let value = self.costs.number(less).min(most);
            (Cost::of(less).set)(&mut self.costs, Figure::Number(value));
        }
    }
}

/// Whether a figure that is no estimate was measured, and so has a spread.
fn is_measured(cost: &Cost, source: &str) -> bool {
    cost.unit != "bytes"
        && cost.key != "tick_period_ns"
        && !source.is_empty()
        && !source.starts_with("definition")
}

/// Returns the numbers that a range is about: of idle states the exit latencies.
fn numbers(figure: &Figure) -> Vec<u64> {
    match figure {
        Figure::Number(value) => vec![*value],
        Figure::ByDistance(table) => table.to_vec(),
        Figure::Speeds(speeds) => speeds.iter().map(|&speed| speed.into()).collect(),
        Figure::IdleStates(states) => states.iter().map(|state| state.exit_latency_ns).collect(),
        Figure::Bandwidth(limits) => limits.named().iter().map(|(_, limit)| *limit).collect(),
    }
}

/// The figure with these numbers instead.
fn with_numbers(figure: Figure, values: &[u64]) -> Figure {
    match figure {
        Figure::Number(_) => Figure::Number(values[0]),
        Figure::ByDistance(_) => {
            let mut table = [0; Distance::COUNT];
            table.copy_from_slice(values);
            Figure::ByDistance(table)
        }
        // Speeds are at most 1,024.
        Figure::Speeds(_) => Figure::Speeds(values.iter().map(|&speed| speed as u32).collect()),
        Figure::IdleStates(mut states) => {
            states.iter_mut().zip(values).for_each(|(state, &ns)| state.exit_latency_ns = ns);
            Figure::IdleStates(states)
        }
        Figure::Bandwidth(mut limits) => {
            limits.named_mut().into_iter().zip(values).for_each(|((_, limit), &value)| *limit = value);
            Figure::Bandwidth(limits)
        }
    }
}

/// Returns the value at a position: straight from `low` to `own`, and from there to `high`, rounded to the nearest.
pub fn between(low: u64, own: u64, high: u64, position: u16) -> u64 {
    let (low, own, high) = (i128::from(low), i128::from(own), i128::from(high));
    let part = |from: i128, to: i128, along: i128, of: i128| {
        from + ((to - from) * along * 2 + of).div_euclid(of * 2)
    };
    let position = i128::from(position);
    let value = if position < MIDDLE {
        part(low, own, position, MIDDLE)
    } else {
        part(own, high, position - MIDDLE, LAST - MIDDLE)
    };
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    fn named<'a>(all: &'a [Uncertain], name: &str) -> &'a Uncertain {
        all.iter().find(|uncertain| uncertain.to_string() == name).unwrap_or_else(|| panic!("{name}"))
    }

    #[test]
    fn positions_by_hand() {
        let at = |position| between(250, 500, 1000, position);
        // 16,384 is half of the way from 250 to 500; 49,152 just over half of that from 500 to 1000.
        assert_eq!([0, 16_384, 32_768, 49_152, 65_535].map(at), [250, 375, 500, 750, 1000]);
        // A range may be on one side only, and may go down.
        assert_eq!([0, 32_768, 65_535].map(|position| between(5, 5, 9, position)), [5, 5, 9]);
        assert_eq!([0, 16_384, 65_535].map(|position| between(9, 5, 1, position)), [9, 7, 1]);
    }

    #[test]
    fn each_rule_has_its_range() {
        let mut machine = Machine::preset("xeon-2s22c2t").unwrap();
        let all = machine.uncertain();
        let words = |name: &str| named(&all, name).range_words(&machine).map(|word| word.to_owned());
        assert_eq!(words("wakeup_ns"), ["250", "500", "1000"]);
        assert_eq!(named(&all, "wakeup_ns").rule(), RangeRule::Estimate);
        // 36.7 and 52.8 ns of 44.
        assert_eq!(named(&all, "line_transfer_ps.llc").rule(), RangeRule::Source);
        assert_eq!(words("line_transfer_ps.llc"), ["36667", "44000", "52800"]);
        assert_eq!(words("line_transfer_ps.numa1"), ["98333", "118000", "141600"]);
        assert_eq!(words("line_transfer_ps.cpu"), ["650", "1300", "2600"]);
        // A loss of 420 of 1024, times 1.2 and divided by it.
        assert_eq!(words("smt_speed"), ["1024, 520", "1024, 604", "1024, 674"]);
        assert!(
            all.iter().all(|uncertain| uncertain.key != "line_bytes" && uncertain.key != "preempt_delay_ns")
        );
        machine.ranges.insert("wakeup_ns".into(), [450, 2_000]);
        machine.ranges.insert("line_transfer_ps.llc".into(), [40_000, 90_000]);
        machine.ranges.insert("smt_speed".into(), [512, 604]);
        let all = machine.uncertain();
        let words = |name: &str| named(&all, name).range_words(&machine);
        assert_eq!(words("wakeup_ns"), ["450", "500", "2000"]);
        assert_eq!(words("line_transfer_ps.llc"), ["40000", "44000", "90000"]);
        assert_eq!(words("smt_speed"), ["1024, 512", "1024, 604", "1024, 604"]);
        // Half the speed of two threads that do 1.25 of one would be less than one.
        let other = Machine::preset("epyc-7742-2s").unwrap();
        assert_eq!(named(&other.uncertain(), "smt_speed").range_words(&other)[0], "1024, 512");
    }

    /// The middle is the machine itself, and every draw is a machine, also where all ends contradict each other.
    #[test]
    fn every_draw_is_a_machine() {
        for (name, _) in presets().iter().filter(|(name, _)| *name != presets::HOST) {
            let machine = Machine::preset(name).unwrap();
            let all = machine.uncertain();
            assert!(all.len() > 20, "{name}: {}", all.len());
            let middle = machine.drawn(all.iter().map(|uncertain| (uncertain, 1 << 15)));
            assert_eq!(middle.costs, machine.costs, "{name}");
            for pattern in 0..64_usize {
                let position = |at: usize| ((at * 2_654_435_761 + pattern * 40_503) % 65_536) as u16;
                let ends = |at: usize| if (pattern >> (at % 6)) & 1 == 0 { 0 } else { u16::MAX };
                for positions in [&position as &dyn Fn(usize) -> u16, &ends] {
                    let draw = all.iter().enumerate().map(|(at, uncertain)| (uncertain, positions(at)));
                    let drawn = machine.drawn(draw);
                    drawn.check().unwrap_or_else(|error| panic!("{name}: {error}"));
                    assert_ne!(drawn.costs, machine.costs);
                }
            }
        }
    }

    #[test]
    fn contradictions_are_settled() {
        let machine = Machine::preset("xeon-2s22c2t").unwrap();
        let all = machine.uncertain();
        let drawn =
            machine.drawn([(named(&all, "switch_thread_ns"), 65_535), (named(&all, "switch_process_ns"), 0)]);
        assert_eq!((drawn.costs.switch_thread_ns, drawn.costs.switch_process_ns), (500, 500));
    }
}
