// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs scenarios on machines whose figures are drawn from their ranges, all at once.
//!
//! A draw gives each figure a position in its range ([`wakelab_machine::Uncertain`]), the same for all scenarios of a
//! set, so that they can be paired: the policies of a draw run on one machine. On machines of different ranges a figure
//! has the same position in each. What is kept of an outcome is up to the caller, because there are many.

use std::sync::Arc;

use serde::Serialize;
use wakelab_machine::{Machine, Uncertain};
use wakelab_sim::{Outcome, Scenario};

use crate::design;
use crate::error::LabError;
use crate::runner::Runner;
use crate::scenario::describe;

/// Scenarios that are compared with each other, on the same draws.
#[derive(Clone, Debug)]
pub struct DrawSet<'a> {
    /// The scenarios, on the machines as they are.
    pub scenarios: &'a [Scenario],
    /// The seeds of each scenario's runs.
    pub seeds: Vec<Vec<u64>>,
}

/// How many draws, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws {
    /// A power of two from 2 to 2^15.
    pub number: usize,
    /// The seed of the positions.
    pub seed: u64,
}

/// A figure that is drawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DrawnFigure {
    /// Its key in the machine file, and the part of a table: `line_transfer_ps.llc`.
    pub figure: String,
    /// Its unit.
    pub unit: &'static str,
    /// The low end of its range.
    pub low: String,
    /// Its value in the machine file.
    pub value: String,
    /// The high end.
    pub high: String,
    /// The rule of its range: `range`, `estimate` or `source`.
    pub rule: &'static str,
    /// Where the value is from.
    pub source: String,
}

/// What was kept of the runs of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn<T> {
    /// The figures that were drawn, in the order of the machine file.
    pub figures: Vec<DrawnFigure>,
    /// The position of each figure in its range, from 0 to 65,535, by draw.
    pub positions: Vec<Vec<u16>>,
    /// What was kept, by draw, scenario and seed.
    pub kept: Vec<Vec<Vec<T>>>,
}

/// The figures of a set, and where each of its machines has them.
struct Figures<'a> {
    names: Vec<String>,
    shown: Vec<DrawnFigure>,
    /// By scenario: each of its machine's figures with its index among the names.
    of_scenario: Vec<Vec<(Uncertain, usize)>>,
    set: &'a DrawSet<'a>,
}

impl<'a> Figures<'a> {
    fn new(set: &'a DrawSet<'a>) -> Figures<'a> {
        let mut figures = Figures { names: Vec::new(), shown: Vec::new(), of_scenario: Vec::new(), set };
        for scenario in set.scenarios {
            let machine = &*scenario.machine;
            let own = machine.uncertain().into_iter().map(|uncertain| {
                let name = uncertain.to_string();
                let known = figures.names.iter().position(|known| *known == name);
                let index = known.unwrap_or_else(|| {
                    figures.names.push(name);
                    figures.shown.push(shown(&uncertain, machine));
                    figures.names.len() - 1
                });
                (uncertain, index)
            });
            let own = own.collect();
            figures.of_scenario.push(own);
        }
        figures
    }

    /// Returns a scenario on its machine with the figures of a draw.
    fn drawn(&self, scenario: usize, positions: &[u16]) -> Scenario {
        let unchanged = &self.set.scenarios[scenario];
        let draw = self.of_scenario[scenario].iter().map(|(uncertain, index)| (uncertain, positions[*index]));
        Scenario { machine: Arc::new(unchanged.machine.drawn(draw)), ..unchanged.clone() }
    }
}

fn shown(uncertain: &Uncertain, machine: &Machine) -> DrawnFigure {
    let [low, value, high] = uncertain.range_words(machine);
    DrawnFigure {
        figure: uncertain.to_string(),
        unit: uncertain.unit(),
        low,
        value,
        high,
        rule: uncertain.rule().name(),
        source: machine.sources.get(uncertain.key()).cloned().unwrap_or_default(),
    }
}

/// One run: a scenario of a set on a draw, with a seed.
struct Job {
    set: usize,
    draw: usize,
    scenario: usize,
    seed: u64,
}

/// Runs all scenarios of all sets on all draws, and keeps `keep(set, scenario, outcome)` of each run. Results are in
/// the order of the sets.
///
/// # Errors
/// The first run that failed.
///
/// # Panics
/// A set has no list of seeds for a scenario, or the number of draws is no power of two from 2 to 2^15.
pub fn draw<T: Send>(
    sets: &[DrawSet<'_>],
    draws: Draws,
    runner: &Runner<'_>,
    keep: impl Fn(usize, usize, &Outcome) -> T + Sync,
) -> Result<Vec<Drawn<T>>, LabError> {
    let figures: Vec<Figures<'_>> = sets.iter().map(Figures::new).collect();
    let positions: Vec<Vec<Vec<u16>>> = figures
        .iter()
        .map(|figures| design::positions(draws.number, figures.names.len(), draws.seed))
        .collect();
    let mut jobs = Vec::new();
    for (set, of) in sets.iter().enumerate() {
        assert_eq!(of.seeds.len(), of.scenarios.len(), "a list of seeds for each scenario");
        for draw in 0..draws.number {
            for (scenario, seeds) in of.seeds.iter().enumerate() {
                jobs.extend(seeds.iter().map(|&seed| Job { set, draw, scenario, seed }));
            }
        }
    }
    let results = runner.in_parallel(jobs.len(), |at| {
        let Job { set, draw, scenario, seed } = jobs[at];
        let changed = figures[set].drawn(scenario, &positions[set][draw]);
        wakelab_sim::run(&changed, seed).map(|outcome| keep(set, scenario, &outcome))
    });
    let mut drawn: Vec<Drawn<T>> = figures
        .into_iter()
        .zip(positions)
        .map(|(figures, positions)| Drawn {
            kept: positions
                .iter()
                .map(|_| figures.set.scenarios.iter().map(|_| Vec::new()).collect())
                .collect(),
            figures: figures.shown,
            positions,
        })
        .collect();
    for (job, result) in jobs.iter().zip(results) {
        let Job { set, draw, scenario, seed } = *job;
        let failed = |error| {
            let name = format!("{}, draw {draw} of its figures", describe(&sets[set].scenarios[scenario]));
            LabError::Run { name, seed, error }
        };
        drawn[set].kept[draw][scenario].push(result.map_err(failed)?);
    }
    Ok(drawn)
}
