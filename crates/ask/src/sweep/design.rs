// SPDX-License-Identifier: GPL-2.0-or-later
//! Which points of a space of parameters a sweep visits.
//!
//! - *full*: every combination; a range needs a number of `steps`.
//! - *random*: points drawn with a seed, each parameter by itself.
//! - *halton*: Halton's sequence, whose points lie more evenly than random ones, so that fewer of them cover the space:
//!   the n-th point has in dimension d the digits of n in the d-th prime base, mirrored at the point. A shift that is
//!   drawn with the seed moves all points, so that several seeds give independent designs.
//!
//! Worked example: in base 2 the numbers 1, 2, 3 and 4 are 1, 10, 11 and 100, and become 0.1, 0.01, 0.11 and 0.001,
//! which is 1/2, 1/4, 3/4 and 1/8.
//!
//! Points that fill the same texts in are visited once, so that a random design may have fewer cases than points.
//! Halton's sequence fails in many dimensions, where neighbours are related; 20 are the most here.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::Deserialize;

use crate::error::{AskError, bad_input};

const PRIMES: [u64; 20] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71];
/// The most cases of a sweep.
const CASES_MAX: u64 = 10_000_000;
/// Digits of a value from a range that has fractions.
const DIGITS: i32 = 4;

/// How points are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Full,
    Random,
    Halton,
}

/// The table `[design]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Design {
    pub(crate) kind: Kind,
    pub(crate) points: Option<u64>,
    #[serde(default = "one")]
    pub(crate) seed: u64,
}

fn one() -> u64 {
    1
}

impl Default for Design {
    fn default() -> Design {
        Design { kind: Kind::Full, points: None, seed: 1 }
    }
}

/// The values of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Axis {
    /// These texts.
    List(Vec<String>),
    /// Numbers from a range.
    Range(Range),
}

/// Numbers from one end to the other, both included.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Range {
    from: f64,
    to: f64,
    /// Whether equal steps are equal factors.
    #[serde(default)]
    log: bool,
    /// The number of values in a full design.
    steps: Option<u32>,
}

impl Range {
    pub(crate) fn check(&self, name: &str) -> Result<(), AskError> {
        let is_fine = self.from < self.to && self.from.is_finite() && self.to.is_finite();
        if !is_fine || (self.log && self.from <= 0.0) || self.steps.is_some_and(|steps| steps < 2) {
            return Err(bad_input(format!(
                "parameter '{name}': {} to {}; expected numbers with `from` below `to`, above 0 if `log` is set, and 2 \
                 steps or more",
                self.from, self.to
            )));
        }
        Ok(())
    }

    /// The text of the value at a place from 0 to 1.
    fn at(&self, place: f64) -> String {
        let value = match self.log {
            true => self.from * (self.to / self.from).powf(place),
            false => self.from + (self.to - self.from) * place,
        };
        if self.from.fract() == 0.0 && self.to.fract() == 0.0 {
            return format!("{}", value.round());
        }
        // Fewer digits than the mathematics library gets right, so that every machine writes the same text.
        let scale = 10f64.powi(DIGITS - 1 - value.abs().max(f64::MIN_POSITIVE).log10().floor() as i32);
        format!("{}", (value * scale).round() / scale)
    }
}

impl Axis {
    /// The values of a full design.
    fn all(&self, name: &str) -> Result<Vec<String>, AskError> {
        match self {
            Axis::List(values) => Ok(values.clone()),
            Axis::Range(range) => {
                let steps = range.steps.ok_or_else(|| {
                    bad_input(format!("parameter '{name}': a full design needs the number of its `steps`"))
                })?;
                Ok((0..steps).map(|step| range.at(f64::from(step) / f64::from(steps - 1))).collect())
            }
        }
    }

    /// The value at a place from 0 to below 1.
    fn at(&self, place: f64) -> String {
        match self {
            Axis::List(values) => {
                values[((place * values.len() as f64) as usize).min(values.len() - 1)].clone()
            }
            Axis::Range(range) => range.at(place),
        }
    }
}

/// Returns the points of a design: for each the values in the order of the axes.
pub(crate) fn points(design: &Design, axes: &[(String, Axis)]) -> Result<Vec<Vec<String>>, AskError> {
    let refuse = |what: &str| Err(bad_input(format!("[design]: {what}")));
    match (design.kind, design.points) {
        (Kind::Full, Some(_)) => refuse("a full design has every combination; expected no `points`"),
        (Kind::Full, None) => full(axes),
        (_, None) => refuse("expected the number of `points`"),
        (_, Some(points)) if !(1..=CASES_MAX).contains(&points) => {
            refuse(&format!("{points} points; expected 1 to {CASES_MAX}"))
        }
        (Kind::Halton, _) if axes.len() > PRIMES.len() => {
            refuse(&format!("{} parameters; expected {} at most for halton", axes.len(), PRIMES.len()))
        }
        (kind, Some(points)) => Ok(drawn(kind, points, design.seed, axes)),
    }
}

fn full(axes: &[(String, Axis)]) -> Result<Vec<Vec<String>>, AskError> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    for (name, axis) in axes {
        let values = axis.all(name)?;
        if all.len() as u64 * values.len() as u64 > CASES_MAX {
            return Err(bad_input(format!(
                "more than {CASES_MAX} combinations; expected fewer values, or a design of points"
            )));
        }
        let with = |point: &Vec<String>, value: &String| [&point[..], std::slice::from_ref(value)].concat();
        all = all.iter().flat_map(|point| values.iter().map(move |value| with(point, value))).collect();
    }
    Ok(all)
}

fn drawn(kind: Kind, points: u64, seed: u64, axes: &[(String, Axis)]) -> Vec<Vec<String>> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut unit = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let shifts: Vec<f64> = axes.iter().map(|_| unit()).collect();
    let mut place = |point: u64, dimension: usize| match kind {
        Kind::Halton => (mirrored(point + 1, PRIMES[dimension]) + shifts[dimension]).fract(),
        _ => unit(),
    };
    let mut seen = std::collections::BTreeSet::new();
    let mut all = Vec::new();
    for point in 0..points {
        let values: Vec<String> =
            axes.iter().enumerate().map(|(dimension, (_, axis))| axis.at(place(point, dimension))).collect();
        if seen.insert(values.clone()) {
            all.push(values);
        }
    }
    all
}

/// The digits of a number in a base, mirrored at the point.
fn mirrored(mut number: u64, base: u64) -> f64 {
    let (mut value, mut weight) = (0.0, 1.0);
    while number > 0 {
        weight /= base as f64;
        value += weight * (number % base) as f64;
        number /= base;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(values: &[&str]) -> Axis {
        Axis::List(values.iter().map(|value| (*value).to_owned()).collect())
    }

    fn design(kind: Kind, points: Option<u64>) -> Design {
        Design { kind, points, seed: 1 }
    }

    #[test]
    fn digits_are_mirrored_by_hand() {
        assert_eq!([1, 2, 3, 4].map(|number| mirrored(number, 2)), [0.5, 0.25, 0.75, 0.125]);
        assert!((mirrored(5, 3) - (2.0 / 3.0 + 1.0 / 9.0)).abs() < 1e-15);
    }

    #[test]
    fn a_full_design_has_every_combination() {
        let range = Range { from: 1.0, to: 100.0, log: true, steps: Some(3) };
        let axes = [("a".to_owned(), list(&["x", "y"])), ("b".to_owned(), Axis::Range(range))];
        let all = points(&design(Kind::Full, None), &axes).unwrap();
        let words: Vec<String> = all.iter().map(|point| point.join(" ")).collect();
        assert_eq!(words, ["x 1", "x 10", "x 100", "y 1", "y 10", "y 100"]);
        assert_eq!(points(&design(Kind::Full, None), &[]).unwrap(), [[""; 0]]);
    }

    /// 64 points of Halton's sequence hit each of 8 values about 8 times; random ones do not.
    #[test]
    fn halton_is_even_and_a_seed_repeats() {
        let axes = [("a".to_owned(), Axis::Range(Range { from: 0.0, to: 8e6, log: false, steps: None }))];
        let spread = |kind| {
            let mut counts = [0i32; 8];
            for point in points(&design(kind, Some(64)), &axes).unwrap() {
                counts[(point[0].parse::<f64>().unwrap() / 1e6).min(7.0) as usize] += 1;
            }
            counts.iter().map(|count| (count - 8).abs()).max().unwrap()
        };
        assert!(spread(Kind::Halton) <= 1 && spread(Kind::Random) > 1);
        let twice = [1, 1].map(|_| points(&design(Kind::Random, Some(9)), &axes).unwrap());
        assert_eq!(twice[0], twice[1]);
        let other = points(&Design { seed: 2, ..design(Kind::Random, Some(9)) }, &axes).unwrap();
        assert_ne!(twice[0], other);
    }

    #[test]
    fn values_from_ranges_have_few_digits() {
        let range = Range { from: 0.5, to: 20.0, log: false, steps: None };
        assert_eq!([0.0, 0.123456, 1.0].map(|place| range.at(place)), ["0.5", "2.907", "20"]);
    }

    #[test]
    fn wrong_designs_are_refused() {
        let range = ("a".to_owned(), Axis::Range(Range { from: 0.0, to: 1.0, log: false, steps: None }));
        for wrong in [
            design(Kind::Full, None),
            design(Kind::Full, Some(3)),
            design(Kind::Random, None),
            design(Kind::Halton, Some(0)),
        ] {
            assert!(points(&wrong, std::slice::from_ref(&range)).is_err(), "{wrong:?}");
        }
        assert!(Range { from: 0.0, to: 1.0, log: true, steps: None }.check("a").is_err());
        assert!(Range { from: 2.0, to: 1.0, log: false, steps: None }.check("a").is_err());
    }
}
