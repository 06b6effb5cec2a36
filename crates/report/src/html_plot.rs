// SPDX-License-Identifier: GPL-2.0-or-later
//! Curves of latencies by percentile, as SVG inside a page: the scale of percentiles is that of the distance to 100 %,
//! so that 99 % and 99.9 % are as far apart as 90 % and 99 %; latencies have a logarithmic scale.

use std::collections::BTreeMap;
use std::fmt::Write;

use wakelab_sim::Histogram;
use wakelab_stats::percentile;

use crate::svg::escaped;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 26.0;
/// The percentiles that have a line, in thousandths of a percent.
const MARKS: [(u32, &str); 4] = [(50_000, "50 %"), (90_000, "90 %"), (99_000, "99 %"), (99_900, "99.9 %")];
/// Points of a curve.
const POINTS: u32 = 120;
/// The end of the scale: 99.99 %.
const NINES_MAX: f64 = 4.0;

/// Returns one histogram of several.
pub(crate) fn merged<'a>(all: impl Iterator<Item = &'a Histogram>) -> Histogram {
    let mut sum = Histogram::default();
    let mut buckets = BTreeMap::new();
    for one in all {
        for &(value, count) in &one.buckets {
            *buckets.entry(value).or_insert(0) += count;
        }
        sum.count += one.count;
        sum.max_ns = sum.max_ns.max(one.max_ns);
        sum.sum_ns += one.sum_ns;
    }
    Histogram { buckets: buckets.into_iter().collect(), ..sum }
}

/// Returns a figure with a curve for each histogram that has values; `None` if none has. Colours are those of the page
/// by the index of the curve.
pub(crate) fn curves(title: &str, series: &[(&str, Histogram)]) -> Option<String> {
    let drawn: Vec<(usize, &Histogram)> =
        series.iter().map(|(_, histogram)| histogram).enumerate().filter(|(_, h)| h.count > 0).collect();
    let decades = |value: u64| (value.max(1) as f64).log10();
    let low =
        drawn.iter().filter_map(|(_, h)| h.buckets.first()).map(|b| decades(b.0).floor()).reduce(f64::min)?;
    let high = drawn.iter().map(|(_, h)| decades(h.max_ns).ceil()).fold(low + 1.0, f64::max);
    let x = |nines: f64| LEFT + nines / NINES_MAX * (WIDTH - LEFT - RIGHT);
    let y = |decade: f64| HEIGHT - BOTTOM - (decade - low) / (high - low) * (HEIGHT - TOP - BOTTOM);
    let mut body = String::new();
    let title = escaped(title);
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(body, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">");
    let _ = writeln!(body, "<text x=\"4\" y=\"14\" font-weight=\"600\">{title}</text>");
    for (milli_percent, text) in MARKS {
        let left = x(nines(milli_percent));
        let _ = writeln!(
            body,
            "<line class=\"grid\" x1=\"{left:.1}\" x2=\"{left:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/><text x=\"{left:.1}\" \
             y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
            HEIGHT - BOTTOM,
            HEIGHT - 9.0
        );
    }
    for decade in low as u32..=high as u32 {
        let down = y(f64::from(decade));
        let _ = writeln!(
            body,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{down:.1}\" y2=\"{down:.1}\"/><text x=\"{:.1}\" \
             y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 4.0,
            down + 4.0,
            power_text(decade)
        );
    }
    for (index, histogram) in drawn {
        let point = |step: u32| {
            let nines = NINES_MAX * f64::from(step) / f64::from(POINTS);
            let milli_percent = ((1.0 - 10_f64.powf(-nines)) * 100_000.0).round() as u32;
            let ns = percentile(&histogram.buckets, histogram.count, histogram.max_ns, milli_percent)?;
            Some(format!("{:.1},{:.1}", x(nines), y(decades(ns))))
        };
        let points: Vec<String> = (0..=POINTS).filter_map(point).collect();
        let _ = writeln!(
            body,
            "<polyline class=\"curve\" stroke=\"var(--task-{})\" points=\"{}\"/>",
            index % 6,
            points.join(" ")
        );
    }
    body.push_str("</svg>\n");
    Some(body)
}

/// Returns how often a percentile brings the distance to 100 % down to a tenth.
fn nines(milli_percent: u32) -> f64 {
    -(1.0 - f64::from(milli_percent) / 100_000.0).log10()
}

/// Returns a power of ten of nanoseconds in words.
fn power_text(decade: u32) -> String {
    let (unit, from) = match decade {
        0..3 => ("ns", 0),
        3..6 => ("µs", 3),
        6..9 => ("ms", 6),
        _ => ("s", 9),
    };
    format!("{} {unit}", 10_u64.pow(decade - from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(buckets: &[(u64, u64)]) -> Histogram {
        let count = buckets.iter().map(|(_, count)| count).sum();
        let max_ns = buckets.last().map_or(0, |(value, _)| *value);
        Histogram { buckets: buckets.to_vec(), count, max_ns, sum_ns: 0 }
    }

    #[test]
    fn histograms_add_up() {
        let sum = merged([of(&[(10, 1), (20, 2)]), of(&[(20, 3), (1000, 4)])].iter());
        assert_eq!(sum, of(&[(10, 1), (20, 5), (1000, 4)]));
    }

    /// Half of the values are 10 ns and half 1 ms: the curve steps at 50 %, from the lowest line to the highest.
    #[test]
    fn a_curve_steps_where_the_values_do() {
        let figure = curves("t", &[("a", of(&[])), ("b", of(&[(10, 50), (1_000_000, 50)]))]).expect("values");
        assert!(figure.contains("stroke=\"var(--task-1)\"") && !figure.contains("--task-0"), "{figure}");
        let points = figure.split("points=\"").nth(1).expect("a curve");
        let downs: Vec<&str> =
            points.split(['"', ' ']).take(121).map(|p| p.split(',').nth(1).unwrap()).collect();
        // log10(2) = 0.30 of 4 nines is step 9 of 120.
        assert_eq!((downs[0], downs[8], downs[10], downs[120]), ("204.0", "204.0", "24.0", "24.0"));
        assert_eq!(curves("t", &[("a", of(&[]))]), None);
    }
}
