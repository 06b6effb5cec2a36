// SPDX-License-Identifier: GPL-2.0-or-later
//! Nanoseconds per event over the number of CPUs, as SVG: a line for each policy, both axes logarithmic.

use std::fmt::Write;

use wakelab_report::svg::{document, escaped, label, line};

use wakelab_lab::BenchResult;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 50.0;
/// Okabe and Ito's colours, which colour-blind people can distinguish.
const COLORS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// Positions on an axis from `low` to `high`, both powers of two.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Axis {
        let low = values.clone().fold(f64::MAX, f64::min).log2().floor();
        let high = values.fold(f64::MIN, f64::max).log2().ceil().max(low + 1.0);
        Axis { low, high, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        self.from + (value.log2() - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        (self.low as i32..=self.high as i32).map(|exponent| f64::from(exponent).exp2())
    }
}

pub(crate) fn svg(results: &[BenchResult]) -> String {
    let x = Axis::over(results.iter().map(|row| f64::from(row.cpus)), LEFT, WIDTH - RIGHT);
    let y = Axis::over(results.iter().map(|row| row.ns_per_event), HEIGHT - BOTTOM, TOP);
    let mut body = String::new();
    for tick in x.ticks() {
        let at = x.at(tick);
        line(&mut body, (at, at), (TOP, HEIGHT - BOTTOM));
        label(&mut body, at, HEIGHT - BOTTOM + 18.0, "middle", &format!("{tick}"));
    }
    for tick in y.ticks() {
        let at = y.at(tick);
        line(&mut body, (LEFT, WIDTH - RIGHT), (at, at));
        label(&mut body, LEFT - 8.0, at + 4.0, "end", &format!("{tick}"));
    }
    label(&mut body, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12.0, "middle", "CPUs");
    label(&mut body, 8.0, 18.0, "start", "ns of CPU time per simulated wake-up, switch in or switch out");
    let mut policies: Vec<&str> = Vec::new();
    for row in results {
        if !policies.contains(&row.policy.as_str()) {
            policies.push(&row.policy);
        }
    }
    for (number, policy) in policies.into_iter().enumerate() {
        let color = COLORS[number % COLORS.len()];
        let rows = results.iter().filter(|row| row.policy == policy);
        let points: Vec<String> = rows
            .map(|row| format!("{:.1},{:.1}", x.at(f64::from(row.cpus)), y.at(row.ns_per_event)))
            .collect();
        let points = points.join(" ");
        // Writing to a string cannot fail.
        let _ = writeln!(
            body,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>"
        );
        let left = LEFT + 8.0 + 260.0 * number as f64;
        let _ = writeln!(body, "<text x=\"{left}\" y=\"40\" fill=\"{color}\">{}</text>", escaped(policy));
    }
    document(WIDTH, HEIGHT, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From 64 to 4,096 there are 6 doublings: 512 is in the middle. 300 is between 256 and 512.
    #[test]
    fn axes_are_logarithmic_and_end_at_powers_of_two() {
        let axis = Axis::over([64.0, 4096.0].into_iter(), 0.0, 600.0);
        assert_eq!([axis.at(64.0), axis.at(512.0), axis.at(4096.0)], [0.0, 300.0, 600.0]);
        let axis = Axis::over([300.0].into_iter(), 0.0, 1.0);
        assert_eq!(axis.ticks().collect::<Vec<_>>(), [256.0, 512.0]);
    }
}
