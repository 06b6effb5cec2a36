// SPDX-License-Identifier: GPL-2.0-or-later
//! Sensitivity: finds which figures of a machine are estimates, and scales one of them.
//!
//! A figure whose source begins with `estimate` is an estimate. In any other source, `PART: estimate` marks one part of
//! a table: `core-to-core-latency (MIT), ..; cpu: estimate, L1 hit of 4 cycles`. Parts are distances, limits of
//! bandwidth, and idle states by their place, where `0` is the shallowest.
//!
//! Times, sizes and limits are scaled as they are. For `smt_speed` and `write_traffic_percent`, only the difference
//! from the ideal is scaled: if 604 of 1024 are left to a thread, half the loss leaves 814. For idle states, the exit
//! latencies are scaled, but not the times at which the states begin. Scaling stops where the result would no longer be
//! a machine: a tick's work stays below its period, a near distance costs no more than the next farther one, and
//! percentages stay at most 100.

use std::fmt;
use std::ops::RangeInclusive;

use crate::check::MAX_BANDWIDTH_MB_PER_S;
use crate::costs::{COSTS, Cost, FULL_SPEED, Figure, Limits, MAX_COST_NS, ORDERED};
use crate::{Distance, Machine};

/// An estimated figure, or the estimated part of a figure. [`Machine::estimates`] finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    key: &'static str,
    /// Name and place of a part of a table.
    part: Option<(&'static str, usize)>,
}

impl Estimate {
    /// The figure's key in the machine file.
    pub fn key(&self) -> &'static str {
        self.key
    }

    /// The estimated part of the figure; `None` if the whole figure is an estimate.
    pub fn part(&self) -> Option<&'static str> {
        self.part.map(|(name, _)| name)
    }
}

/// Writes `wakeup_ns` or `line_transfer_ps.cpu`.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            None => f.pad(self.key),
            Some((part, _)) => f.pad(&format!("{}.{part}", self.key)),
        }
    }
}

const PLACES: [&str; 16] =
    ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"];

impl Machine {
    /// Returns the figures that are estimates, in the order of [`Machine::cost_rows`]. Leaves out those that neither
    /// halving nor doubling changes, such as 0.
    pub fn estimates(&self) -> Vec<Estimate> {
        let moves = |estimate: &Estimate| {
            [(1, 2), (2, 1)].iter().any(|&(n, d)| self.scaled(estimate, n, d).costs != self.costs)
        };
        let mut found = Vec::new();
        for cost in COSTS {
            let key = cost.key;
            let source = self.sources.get(key).map_or("", String::as_str);
            if source.trim_start().starts_with("estimate") {
                found.push(Estimate { key, part: None });
                continue;
            }
            let marked = |name: &str| source.split([';', '(']).any(|said| is_marked(said, name));
            let parts = self.parts(cost).into_iter().filter(|(name, _)| marked(name));
            found.extend(parts.map(|part| Estimate { key, part: Some(part) }));
        }
        found.retain(moves);
        found
    }

    /// Returns the machine with that figure times `numerator` / `denominator`, rounded to the nearest integer and
    /// bounded by what [`Machine::check`] accepts. The figure's source says so.
    ///
    /// # Panics
    /// If `denominator` is 0.
    #[must_use]
    pub fn scaled(&self, estimate: &Estimate, numerator: u32, denominator: u32) -> Machine {
        let mut machine = self.clone();
        let Estimate { key, part } = *estimate;
        let cost = Cost::of(key);
        let part = part.map(|(_, place)| place);
        (cost.set)(&mut machine.costs, self.scaled_figure(cost, part, Factor { numerator, denominator }));
        if let Some(source) = machine.sources.get_mut(key) {
            *source = format!("{estimate} times {numerator}/{denominator}; {source}");
        }
        machine
    }

    /// Returns the names and places of a table's parts that this machine has; none if the figure is no table.
    pub(crate) fn parts(&self, cost: &Cost) -> Vec<(&'static str, usize)> {
        match (cost.get)(&self.costs) {
            Figure::ByDistance(_) => {
                self.topology.distances_present().iter().map(|d| (d.name(), d.index())).collect()
            }
            Figure::Bandwidth(limits) => {
                limits.named().iter().enumerate().map(|(place, &(name, _))| (name, place)).collect()
            }
            Figure::IdleStates(states) => PLACES.into_iter().zip(0..states.len()).collect(),
            Figure::Number(_) | Figure::Speeds(_) => Vec::new(),
        }
    }

    /// Returns the scaled figure. If `part` is the place of a part, only that part is scaled.
    pub(crate) fn scaled_figure(&self, cost: &Cost, part: Option<usize>, by: Factor) -> Figure {
        let wanted = |place: usize| part.is_none_or(|part| part == place);
        let present = || self.topology.distances_present().iter().map(|d| d.index()).collect::<Vec<_>>();
        match (&cost.limits, (cost.get)(&self.costs)) {
            (Limits::Number(range), Figure::Number(value)) => {
                Figure::Number(by.times(value, self.narrowed(cost.key, range)))
            }
            (Limits::Excess(most), Figure::Number(value)) => {
                Figure::Number(100 + by.times(value - 100, 0..=most - 100))
            }
            (Limits::Rising(most), Figure::ByDistance(mut table)) => {
                let present = present();
                scale_rising(&mut table, &present, wanted, by, *most);
                fill(&mut table, &present);
                Figure::ByDistance(table)
            }
            (Limits::Falling, Figure::ByDistance(mut table)) => {
                let present = present();
                scale_falling(&mut table, &present, wanted, by);
                fill(&mut table, &present);
                Figure::ByDistance(table)
            }
            (_, Figure::Bandwidth(mut limits)) => {
                for (place, (_, limit)) in limits.named_mut().into_iter().enumerate() {
                    // 0 means no limit, and stays 0.
                    if wanted(place) && *limit > 0 {
                        *limit = by.times(*limit, 1..=MAX_BANDWIDTH_MB_PER_S);
                    }
                }
                Figure::Bandwidth(limits)
            }
            (_, Figure::IdleStates(mut states)) => {
                let mut latencies: Vec<u64> = states.iter().map(|state| state.exit_latency_ns).collect();
                let places: Vec<usize> = (0..latencies.len()).collect();
                scale_rising(&mut latencies, &places, wanted, by, MAX_COST_NS);
                states.iter_mut().zip(latencies).for_each(|(state, ns)| state.exit_latency_ns = ns);
                Figure::IdleStates(states)
            }
            (_, Figure::Speeds(mut speeds)) => {
                for speed in &mut speeds {
                    let loss = by.times((FULL_SPEED - *speed).into(), 0..=u64::from(FULL_SPEED) - 1);
                    *speed = FULL_SPEED - loss as u32;
                }
                Figure::Speeds(speeds)
            }
            (limits, figure) => unreachable!("`{}`: {limits:?} of {figure:?}", cost.key),
        }
    }

    /// Returns the range of a figure, narrowed by the figures that it must stay below or above.
    fn narrowed(&self, key: &str, range: &RangeInclusive<u64>) -> RangeInclusive<u64> {
        let (mut least, mut most) = (*range.start(), *range.end());
        for (less, more, gap) in ORDERED {
            if key == less {
                most = most.min(self.costs.number(more) - gap);
            } else if key == more {
                least = least.max(self.costs.number(less) + gap);
            }
        }
        least..=most
    }
}

/// Whether a piece of a source says `PART: estimate`.
pub(crate) fn is_marked(said: &str, part: &str) -> bool {
    said.trim_start()
        .strip_prefix(part)
        .and_then(|rest| rest.trim_start().strip_prefix(':'))
        .is_some_and(|rest| rest.trim_start().starts_with("estimate"))
}

#[derive(Clone, Copy)]
pub(crate) struct Factor {
    pub(crate) numerator: u32,
    pub(crate) denominator: u32,
}

impl Factor {
    fn times(self, value: u64, within: RangeInclusive<u64>) -> u64 {
        let denominator = u128::from(self.denominator);
        let scaled = (u128::from(value) * u128::from(self.numerator) + denominator / 2) / denominator;
        u64::try_from(scaled).unwrap_or(u64::MAX).clamp(*within.start(), *within.end())
    }
}

/// Scales the wanted places of a table that does not fall from one of `places` to the next. The result does not fall
/// either.
fn scale_rising(table: &mut [u64], places: &[usize], wanted: impl Fn(usize) -> bool, by: Factor, max: u64) {
    let before = table.to_vec();
    let unwanted = |place: &&usize| !wanted(**place);
    for (i, &place) in places.iter().enumerate().filter(|(_, place)| wanted(**place)) {
        let least = places[..i].iter().rfind(unwanted).map_or(0, |&near| before[near]);
        let most = places[i + 1..].iter().find(unwanted).map_or(max, |&far| before[far]);
        table[place] = by.times(before[place], least..=most);
    }
}

/// Scales the wanted places of a table of percentages. From the first distance to another node on, the result does not
/// rise.
fn scale_falling(table: &mut [u64], places: &[usize], wanted: impl Fn(usize) -> bool, by: Factor) {
    let mut nearer = 100;
    for &place in places.iter().filter(|&&place| place >= Distance::Numa1.index()) {
        let percent = if wanted(place) { by.times(table[place], 1..=100) } else { table[place] };
        nearer = percent.min(nearer);
        table[place] = nearer;
    }
}

/// Gives each entry that is not in `places` the value of the entry before it, as the reader of machine files does.
pub(crate) fn fill(table: &mut [u64], places: &[usize]) {
    for place in (1..table.len()).filter(|place| !places.contains(place)) {
        table[place] = table[place - 1];
    }
}
