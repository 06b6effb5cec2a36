// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs scenarios with figures drawn from their ranges, all at once: those of the machine, and those of the workload.
//!
//! A draw gives each figure a position in its range ([`wakelab_machine::Uncertain`]), the same for all scenarios of a
//! set, so that they can be paired: the policies of a draw run on one machine. On machines of different ranges a figure
//! has the same position in each. What is kept of an outcome is up to the caller, because there are many.
//!
//! Each draw has its own seeds, the same for all scenarios of its set: n seeds of the first draw are followed by those
//! that are greater by n, and so on. So chance is another in each draw, and that of their mean shrinks with their
//! number.
//!
//! A workload that is a file's has figures, too: the parameters of which the file says how far they may be off. A
//! recording has none, nor has a workload that was changed after it was read.

use std::sync::Arc;

use serde::Serialize;
use wakelab_machine::{Machine, Uncertain, between};
use wakelab_sim::{Outcome, Scenario};
use wakelab_workload::{Allowed, Setting, ValueRange, Workload, settings, with_settings};

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
    /// Parameters of the workload that were fitted; they have a range whatever the file says.
    pub fitted: Vec<String>,
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
    /// Its key in the machine file, and the part of a table: `line_transfer_ps.llc`; or the workload's parameter:
    /// `hackbench.footprint-bytes`.
    pub figure: String,
    /// Its unit.
    pub unit: &'static str,
    /// The low end of its range.
    pub low: String,
    /// Its value in the machine file.
    pub value: String,
    /// The high end.
    pub high: String,
    /// The rule of its range: `range`, `estimate`, `source` or `fitted`.
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

/// A parameter of a workload that is drawn.
struct UncertainParam {
    name: String,
    low: u64,
    value: u64,
    high: u64,
    rule: &'static str,
    help: String,
}

/// Returns the figures of a workload, in the file's order; none if it is no longer what its name says.
fn of_workload(workload: &Workload, fitted: &[String]) -> Vec<UncertainParam> {
    let spec = &workload.name;
    let Ok((settings, _)) = settings(spec) else { return Vec::new() };
    if !workload.is_as_named() {
        return Vec::new();
    }
    let uncertain = |setting: Setting| {
        let is_fitted = fitted.contains(&setting.param.name);
        let range = if is_fitted { ValueRange::Source } else { setting.param.range? };
        let Allowed::Range { min, max } = setting.param.allowed else { return None };
        let value: u64 = setting.value.parse().ok()?;
        let [low, high] = range.around(value).map(|end| end.clamp(min, max));
        let (name, help) = (setting.param.name, setting.param.help);
        let rule = if is_fitted { "fitted" } else { range.name() };
        (low < high).then_some(UncertainParam { name, low, value, high, rule, help })
    };
    settings.into_iter().filter_map(uncertain).collect()
}

/// The figures of a scenario, each with its index among the names of its set.
struct OfScenario {
    machine: Vec<(Uncertain, usize)>,
    workload: Vec<(UncertainParam, usize)>,
}

/// The figures of a set, and where each of its scenarios has them.
struct Figures<'a> {
    names: Vec<String>,
    shown: Vec<DrawnFigure>,
    of_scenario: Vec<OfScenario>,
    set: &'a DrawSet<'a>,
}

impl<'a> Figures<'a> {
    fn new(set: &'a DrawSet<'a>) -> Figures<'a> {
        let mut figures = Figures { names: Vec::new(), shown: Vec::new(), of_scenario: Vec::new(), set };
        for scenario in set.scenarios {
            let machine = &*scenario.machine;
            let own = machine.uncertain().into_iter();
            let machine = own
                .map(|uncertain| {
                    let index = figures.index(uncertain.to_string(), |_| shown(&uncertain, machine));
                    (uncertain, index)
                })
                .collect();
            let spec = &scenario.workload.name;
            let workload = of_workload(&scenario.workload, &set.fitted)
                .into_iter()
                .map(|param| {
                    let file = spec.split_once(':').map_or(&spec[..], |(file, _)| file);
                    let index =
                        figures.index(format!("{file}.{}", param.name), |name| shown_param(name, &param));
                    (param, index)
                })
                .collect();
            figures.of_scenario.push(OfScenario { machine, workload });
        }
        figures
    }

    /// Returns the index of a figure, which is new or known.
    fn index(&mut self, name: String, shown: impl FnOnce(&str) -> DrawnFigure) -> usize {
        let known = self.names.iter().position(|known| *known == name);
        known.unwrap_or_else(|| {
            self.shown.push(shown(&name));
            self.names.push(name);
            self.names.len() - 1
        })
    }

    /// Returns a scenario with the figures of a draw.
    fn drawn(&self, scenario: usize, positions: &[u16]) -> Result<Scenario, LabError> {
        let (unchanged, own) = (&self.set.scenarios[scenario], &self.of_scenario[scenario]);
        let draw = own.machine.iter().map(|(uncertain, index)| (uncertain, positions[*index]));
        let machine = Arc::new(unchanged.machine.drawn(draw));
        if own.workload.is_empty() {
            return Ok(Scenario { machine, ..unchanged.clone() });
        }
        let values: Vec<(String, String)> = own
            .workload
            .iter()
            .map(|(param, index)| {
                let value = between(param.low, param.value, param.high, positions[*index]);
                (param.name.clone(), value.to_string())
            })
            .collect();
        let spec = with_settings(&unchanged.workload.name, &values);
        let drawn = Workload::parse_spec(&spec).map_err(|error| LabError::Plan(error.to_string()))?;
        Ok(Scenario { machine, workload: Arc::new(drawn), ..unchanged.clone() })
    }
}

fn shown_param(name: &str, param: &UncertainParam) -> DrawnFigure {
    let unit = match param.name.rsplit('-').next() {
        Some("ns") => "ns",
        Some("us") => "us",
        Some("ms") => "ms",
        Some("bytes") => "bytes",
        Some("kb") => "KB",
        Some("percent") => "%",
        _ => "",
    };
    DrawnFigure {
        figure: name.to_owned(),
        unit,
        low: param.low.to_string(),
        value: param.value.to_string(),
        high: param.high.to_string(),
        rule: param.rule,
        source: param.help.clone(),
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
                let offset = (draw * seeds.len()) as u64;
                let own = seeds.iter().map(|seed| seed.wrapping_add(offset));
                jobs.extend(own.map(|seed| Job { set, draw, scenario, seed }));
            }
        }
    }
    let results = runner.in_parallel(jobs.len(), |at| {
        let Job { set, draw, scenario, seed } = jobs[at];
        let changed = figures[set].drawn(scenario, &positions[set][draw])?;
        wakelab_sim::run(&changed, seed).map(|outcome| keep(set, scenario, &outcome)).map_err(|error| {
            let name = format!("{}, draw {draw} of its figures", describe(&sets[set].scenarios[scenario]));
            LabError::Run { name, seed, error }
        })
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
        drawn[job.set].kept[job.draw][job.scenario].push(result?);
    }
    Ok(drawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(workload: &Workload, fitted: &[&str]) -> Vec<(String, [u64; 3], &'static str)> {
        let fitted: Vec<String> = fitted.iter().map(|name| (*name).to_owned()).collect();
        let words = |param: UncertainParam| (param.name, [param.low, param.value, param.high], param.rule);
        of_workload(workload, &fitted).into_iter().map(words).collect()
    }

    /// Of uperf, working sets and the work of writing are estimates, and reading is as measured unless it is given.
    #[test]
    fn a_workload_has_figures_as_its_file_says() {
        let workload = Workload::parse_spec("uperf:threads=8,work-ns=1200,spread-percent=60").unwrap();
        let all = figures(&workload, &["work-ns"]);
        let expected = [
            ("send-work-ns", [300, 600, 1200], "estimate"),
            ("work-ns", [1000, 1200, 1440], "fitted"),
            ("footprint-bytes", [32_768, 65_536, 131_072], "estimate"),
            ("spread-percent", [30, 60, 100], "estimate"),
        ];
        let expected = expected.map(|(name, values, rule)| (name.to_owned(), values, rule));
        assert_eq!(all, expected, "100 % is the most");
        let mut changed = workload;
        changed.tasks[0].weight = 7;
        assert_eq!(figures(&changed, &[]), [], "it is no longer what its name says");
    }
}
