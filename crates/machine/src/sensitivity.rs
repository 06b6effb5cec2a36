// SPDX-License-Identifier: GPL-2.0-or-later
//! Sensitivity: which figures of a machine are estimates, and the same machine with one of them scaled.
//!
//! A source that begins with `estimate` makes the whole figure one. In any other source `PART: estimate` marks a part
//! of a table: `core-to-core-latency (MIT), ..; cpu: estimate, L1 hit of 4 cycles`. Parts are distances, limits of
//! bandwidth, and idle states by their place, the shallowest being `0`.
//!
//! Times, sizes and limits are scaled as they are. Of a speed that others take away (`smt_speed`) and of written bytes
//! (`write_traffic_percent`) what exceeds the ideal is scaled: with 604 of 1024 left to a thread, half the loss leaves
//! 814. Of idle states the exit latencies are scaled, not when they begin. What would no longer be a machine stops at
//! the bound: a tick's work below its period, a near distance at the price of the next farther one, percentages at 100.

use std::fmt;
use std::ops::RangeInclusive;

use crate::check::{MAX_BANDWIDTH_MB_PER_S, MAX_COST_NS, MAX_TRANSFER_PS, range};
use crate::costs::FULL_SPEED;
use crate::{Costs, Distance, Machine};

/// An estimated figure, or the estimated part of one. Found by [`Machine::estimates`].
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

    /// Which part of it; `None`: all of it.
    pub fn part(&self) -> Option<&'static str> {
        self.part.map(|(name, _)| name)
    }
}

/// `wakeup_ns`, `line_transfer_ps.cpu`.
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
    /// The figures that are estimates, in the order of [`Machine::cost_rows`]; those excepted that halving and doubling
    /// leaves as they are, as 0 is.
    pub fn estimates(&self) -> Vec<Estimate> {
        let moves = |estimate: &Estimate| {
            [(1, 2), (2, 1)].iter().any(|&(n, d)| self.scaled(estimate, n, d).costs != self.costs)
        };
        let mut found = Vec::new();
        for row in self.cost_rows() {
            if row.source.trim_start().starts_with("estimate") {
                found.push(Estimate { key: row.key, part: None });
                continue;
            }
            let marked = |name: &str| row.source.split([';', '(']).any(|said| marks(said, name));
            let parts = self.parts(row.key).into_iter().filter(|(name, _)| marked(name));
            found.extend(parts.map(|part| Estimate { key: row.key, part: Some(part) }));
        }
        found.retain(moves);
        found
    }

    /// The same machine with that figure times `numerator` / `denominator`, rounded to the nearest, within what
    /// [`Machine::check`] takes. Its source says so.
    ///
    /// # Panics
    /// If `denominator` is 0.
    #[must_use]
    pub fn scaled(&self, estimate: &Estimate, numerator: u32, denominator: u32) -> Machine {
        let mut machine = self.clone();
        let Estimate { key, part } = *estimate;
        machine.scale(key, part.map(|(_, place)| place), Factor { numerator, denominator });
        if let Some(source) = machine.sources.get_mut(key) {
            *source = format!("{estimate} times {numerator}/{denominator}; {source}");
        }
        machine
    }

    /// Names and places of a table's parts that this machine has; none if the figure is no table.
    fn parts(&self, key: &str) -> Vec<(&'static str, usize)> {
        match key {
            "line_transfer_ps" | "ipi_flight_ns" | "remote_bandwidth_percent" => {
                self.topology.distances_present().iter().map(|d| (d.name(), d.index())).collect()
            }
            "bandwidth_mb_per_s" => self
                .costs
                .bandwidth_mb_per_s
                .named()
                .iter()
                .enumerate()
                .map(|(i, &(name, _))| (name, i))
                .collect(),
            "idle_states" => PLACES.into_iter().zip(0..self.costs.idle_states.len()).collect(),
            _ => Vec::new(),
        }
    }

    fn scale(&mut self, key: &str, part: Option<usize>, by: Factor) {
        let present: Vec<usize> = self.topology.distances_present().iter().map(|d| d.index()).collect();
        let costs = &mut self.costs;
        let wanted = |place: usize| part.is_none_or(|part| part == place);
        match key {
            "line_transfer_ps" => {
                scale_rising(&mut costs.line_transfer_ps, &present, wanted, by, MAX_TRANSFER_PS);
                fill(&mut costs.line_transfer_ps, &present);
            }
            "ipi_flight_ns" => {
                scale_rising(&mut costs.ipi_flight_ns, &present, wanted, by, MAX_COST_NS);
                fill(&mut costs.ipi_flight_ns, &present);
            }
            "remote_bandwidth_percent" => {
                let table = &mut costs.remote_bandwidth_percent;
                let mut nearer = 100;
                for &place in present.iter().filter(|&&place| place >= Distance::Numa1.index()) {
                    let percent = if wanted(place) { by.times(table[place], 1..=100) } else { table[place] };
                    nearer = percent.min(nearer);
                    table[place] = nearer;
                }
                fill(table, &present);
            }
            "bandwidth_mb_per_s" => {
                for (place, (_, limit)) in costs.bandwidth_mb_per_s.named_mut().into_iter().enumerate() {
                    // 0 is no limit, and stays none.
                    if wanted(place) && *limit > 0 {
                        *limit = by.times(*limit, 1..=MAX_BANDWIDTH_MB_PER_S);
                    }
                }
            }
            "idle_states" => {
                let mut latencies: Vec<u64> =
                    costs.idle_states.iter().map(|state| state.exit_latency_ns).collect();
                let places: Vec<usize> = (0..latencies.len()).collect();
                scale_rising(&mut latencies, &places, wanted, by, MAX_COST_NS);
                costs
                    .idle_states
                    .iter_mut()
                    .zip(latencies)
                    .for_each(|(state, ns)| state.exit_latency_ns = ns);
            }
            "smt_speed" => {
                for speed in &mut costs.smt_speed {
                    let loss = by.times((FULL_SPEED - *speed).into(), 0..=u64::from(FULL_SPEED) - 1);
                    *speed = FULL_SPEED - loss as u32;
                }
            }
            "write_traffic_percent" => {
                let most = *range("write_traffic_percent").end() - 100;
                costs.write_traffic_percent = 100 + by.times(costs.write_traffic_percent - 100, 0..=most);
            }
            _ => scale_scalar(costs, key, by),
        }
    }
}

/// Whether a piece of a source says `PART: estimate`.
fn marks(said: &str, part: &str) -> bool {
    said.trim_start()
        .strip_prefix(part)
        .and_then(|rest| rest.trim_start().strip_prefix(':'))
        .is_some_and(|rest| rest.trim_start().starts_with("estimate"))
}

#[derive(Clone, Copy)]
struct Factor {
    numerator: u32,
    denominator: u32,
}

impl Factor {
    fn times(self, value: u64, within: RangeInclusive<u64>) -> u64 {
        let denominator = u128::from(self.denominator);
        let scaled = (u128::from(value) * u128::from(self.numerator) + denominator / 2) / denominator;
        u64::try_from(scaled).unwrap_or(u64::MAX).clamp(*within.start(), *within.end())
    }
}

/// Scales the wanted places of a table that does not fall from one of `places` to the next, and must not afterwards.
fn scale_rising(table: &mut [u64], places: &[usize], wanted: impl Fn(usize) -> bool, by: Factor, max: u64) {
    let before = table.to_vec();
    let unwanted = |place: &&usize| !wanted(**place);
    for (i, &place) in places.iter().enumerate().filter(|(_, place)| wanted(**place)) {
        let least = places[..i].iter().rfind(unwanted).map_or(0, |&near| before[near]);
        let most = places[i + 1..].iter().find(unwanted).map_or(max, |&far| before[far]);
        table[place] = by.times(before[place], least..=most);
    }
}

/// Gives each entry beside `places` the value of the entry before it, as files that leave it out are read.
fn fill(table: &mut [u64], places: &[usize]) {
    for place in (1..table.len()).filter(|place| !places.contains(place)) {
        table[place] = table[place - 1];
    }
}

fn scale_scalar(costs: &mut Costs, key: &str, by: Factor) {
    let (mut least, mut most) = range(key).into_inner();
    match key {
        "tick_ns" => most = most.min(costs.tick_period_ns - 1),
        "tick_period_ns" => least = least.max(costs.tick_ns + 1),
        "switch_thread_ns" => most = most.min(costs.switch_process_ns),
        "switch_process_ns" => least = least.max(costs.switch_thread_ns),
        _ => {}
    }
    if let Some(figure) = costs.scalar_mut(key) {
        *figure = by.times(*figure, least..=most);
    }
}
