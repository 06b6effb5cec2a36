// SPDX-License-Identifier: GPL-2.0-or-later
//! Which of the differences between two scenarios makes the difference between their results.
//!
//! The differences are *axes*. Besides both sides, three kinds of mixtures run: each axis alone added to the first
//! side, each alone taken from the second, and those that the Shapley value of the axes needs. That value is the mean,
//! over all orders in which the axes can be added one by one, of what an axis changes when it is added; the values of
//! all axes add up to the whole difference. For up to 6 axes it is exact. For more it is the mean over [`ORDERS`]
//! orders, which are drawn with a fixed seed, each with its reverse.
//!
//! An axis that changes nothing, neither alone nor when it is taken away (identical runs), is left out of the orders.
//! What such axes change together is measured: [`WhyOutcomes::live`] has the others.
//!
//! Worked example: alone, axis a gains 6 and axis b 2, both together 10. In the order a, b the axes gain 6 and 4; in
//! the order b, a they gain 2 (b) and 8 (a). The values are 7 for a and 3 for b.
//!
//! It fails where a mixture is no scenario, such as the caches of one machine with the CPUs of another.

use std::collections::BTreeMap;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use wakelab_sim::{Outcome, Scenario};

use crate::error::LabError;
use crate::runner::Runner;
use crate::scenario::describe;
use crate::shuffle::shuffle;

/// The most axes for which the values are exact, and the most at all.
const EXACT_MAX: usize = 6;
const AXES_MAX: usize = 24;
/// The number of orders for more axes. Half of them are drawn, the others are their reverses.
const ORDERS: usize = 16;
/// The seed from which orders are drawn.
const ORDERS_SEED: u64 = 1;

/// A set of axes: bit `1 << n` is the axis `n`.
pub type Axes = u32;

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The name: of a policy's axis or tunable, of a part of the machine, of an option.
    pub name: String,
    /// The choice of the first side.
    pub from: String,
    /// The choice of the second side.
    pub to: String,
}

/// Makes the scenario in which these axes have the choice of the second side.
pub type Mix<'a> = dyn Fn(Axes) -> Result<Scenario, LabError> + 'a;

/// All runs of a comparison axis by axis.
#[derive(Clone, Debug)]
pub struct WhyOutcomes {
    /// The differences.
    pub axes: Vec<Axis>,
    /// Those that change something, by index.
    pub live: Vec<usize>,
    /// Orders of the live axes, if not all orders count.
    pub orders: Option<Vec<Vec<usize>>>,
    /// The scenarios of both sides.
    pub sides: [Scenario; 2],
    /// One outcome for each seed.
    pub runs: BTreeMap<Axes, Vec<Outcome>>,
}

impl WhyOutcomes {
    /// The set of all axes.
    pub fn all(&self) -> Axes {
        all(self.axes.len())
    }

    /// The set of those that change something.
    pub fn all_live(&self) -> Axes {
        self.live.iter().map(|axis| 1 << axis).sum()
    }
}

fn all(axes: usize) -> Axes {
    (1 << axes) - 1
}

/// Runs both sides and their mixtures with every seed.
///
/// # Errors
/// No axis or too many, a mixture that cannot be run, or a run that fails.
pub fn why(
    axes: Vec<Axis>,
    mix: &Mix<'_>,
    seeds: &[u64],
    runner: &Runner<'_>,
) -> Result<WhyOutcomes, LabError> {
    if axes.is_empty() || axes.len() > AXES_MAX {
        let found = axes.len();
        return Err(LabError::Plan(format!("{found} differences; expected 1 to {AXES_MAX} to go through")));
    }
    let full = all(axes.len());
    let sides = [mix(0)?, mix(full)?];
    let mut book =
        Book { mix, seeds, runner, scenarios: Vec::new(), place: BTreeMap::new(), runs: Vec::new() };
    let single = |axis: usize| 1 << axis;
    let one_by_one = (0..axes.len()).flat_map(|axis| [single(axis), full & !single(axis)]);
    book.run([0, full].into_iter().chain(one_by_one))?;
    let changes = |axis: &usize| {
        book.of(0) != book.of(single(*axis)) || book.of(full) != book.of(full & !single(*axis))
    };
    let live: Vec<usize> = (0..axes.len()).filter(changes).collect();
    let orders = (live.len() > EXACT_MAX).then(|| orders(&live));
    let wanted = match &orders {
        None => subsets(&live),
        Some(orders) => orders.iter().flat_map(|order| beginnings(order)).collect(),
    };
    book.run(wanted.into_iter())?;
    let runs = book.place.keys().map(|&set| (set, book.of(set).clone())).collect();
    Ok(WhyOutcomes { axes, live, orders, sides, runs })
}

/// What has run.
struct Book<'a> {
    mix: &'a Mix<'a>,
    seeds: &'a [u64],
    runner: &'a Runner<'a>,
    /// No two of them make the same decisions by what they say.
    scenarios: Vec<Scenario>,
    /// The scenario of each set.
    place: BTreeMap<Axes, usize>,
    runs: Vec<Vec<Outcome>>,
}

impl Book<'_> {
    fn of(&self, set: Axes) -> &Vec<Outcome> {
        &self.runs[self.place[&set]]
    }

    /// Runs the sets that have not run, those with the same scenario once.
    fn run(&mut self, sets: impl Iterator<Item = Axes>) -> Result<(), LabError> {
        let mut new = Vec::new();
        for set in sets {
            if self.place.contains_key(&set) {
                continue;
            }
            let mut scenario = (self.mix)(set)?;
            scenario.policy = scenario.policy.canonical();
            let known = self.scenarios.iter().position(|known| *known == scenario);
            let place = known.unwrap_or_else(|| {
                new.push(scenario.clone());
                self.scenarios.push(scenario);
                self.scenarios.len() - 1
            });
            self.place.insert(set, place);
        }
        for scenario in &new {
            scenario.check().map_err(|error| LabError::Scenario { name: describe(scenario), error })?;
        }
        let runs = self.runner.run_all_explained(&new, self.seeds, 0).map_err(|failure| {
            let name = describe(&new[failure.scenario]);
            failure.named(name)
        })?;
        self.runs.extend(runs);
        Ok(())
    }
}

/// All sets of these axes.
fn subsets(axes: &[usize]) -> Vec<Axes> {
    axes.iter().fold(vec![0], |sets, axis| {
        let with: Vec<Axes> = sets.iter().map(|set| set | 1 << axis).collect();
        [sets, with].concat()
    })
}

/// The sets that grow by one axis after the other, the empty one first.
fn beginnings(order: &[usize]) -> Vec<Axes> {
    let grow = |set: &mut Axes, axis: &usize| {
        *set |= 1 << axis;
        Some(*set)
    };
    std::iter::once(0).chain(order.iter().scan(0, grow)).collect()
}

/// Random orders, each with its reverse.
fn orders(axes: &[usize]) -> Vec<Vec<usize>> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(ORDERS_SEED);
    let mut drawn = Vec::with_capacity(ORDERS);
    while drawn.len() < ORDERS {
        let mut order = axes.to_vec();
        shuffle(&mut order, &mut random);
        let reverse = order.iter().rev().copied().collect();
        drawn.extend([order, reverse]);
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_by_hand() {
        assert_eq!(subsets(&[0, 2]), [0, 1, 4, 5]);
        assert_eq!(beginnings(&[2, 0]), [0, 4, 5]);
        let orders = orders(&[0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(orders.len(), ORDERS);
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6]);
        }
        assert_ne!(orders[0], orders[2]);
    }
}
