// SPDX-License-Identifier: GPL-2.0-or-later
//! What `wakelab machines host --measure` found, as a table and as JSON.

use serde::Serialize;
use wakelab_machine::printable;
use wakelab_measure::{Figures, Spread};

use crate::style::Style;

/// Body of [`crate::list::measured`].
#[derive(Debug, Serialize)]
pub struct Measured<'a> {
    pub(crate) machine: &'a str,
    pub(crate) base: &'a str,
    pub(crate) figures: &'a Figures,
}

/// Returns the figures, a line each, and below them what was not measured and comes from `base`.
pub fn measured_text(figures: &Figures, base: &str, style: &Style) -> String {
    let mut lines: Vec<[String; 6]> =
        vec![["", "median", "low", "high", "samples", "how"].map(str::to_owned)];
    let mut line = |quantity: &str, spread: &Spread, how: &str| {
        let Spread { low, median, high, samples } = spread;
        let numbers = [*median, *low, *high].map(|number| number.to_string());
        let samples = if *samples == 0 { String::new() } else { samples.to_string() };
        let [median, low, high] = numbers;
        lines.push([
            printable(quantity).into_owned(),
            median,
            low,
            high,
            samples,
            printable(how).into_owned(),
        ]);
    };
    for row in figures.rows.iter().filter(|row| row.is_cost) {
        line(&row.quantity, &row.spread, &row.how);
    }
    for (busy, speed) in (1..).zip(&figures.speeds) {
        line(&format!("smt_speed, {busy} busy"), speed, "1/1024 of a thread alone");
    }
    for state in &figures.idle_states {
        line(&format!("idle_states, after {} ns", state.after_ns), &state.exit, &state.how);
    }
    for row in figures.rows.iter().filter(|row| !row.is_cost) {
        line(&format!("({})", row.quantity), &row.spread, &row.how);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3, 4].map(width);
    let mut out = String::new();
    for [quantity, median, low, high, samples, how] in &lines {
        let [w0, w1, w2, w3, w4] = widths;
        let text = format!("{quantity:w0$}  {median:>w1$}  {low:>w2$}  {high:>w3$}  {samples:>w4$}  {how}");
        out.push_str(text.trim_end());
        out.push('\n');
    }
    out.push('\n');
    out.push_str(&style.wrap(
        "low and high: 10th and 90th percentile. In brackets: measured, but no figure of machine files.",
    ));
    if !figures.missing.is_empty() {
        out.push_str(&format!("\nnot measured, and from {} in the machine file:\n", printable(base)));
    }
    for missing in &figures.missing {
        out.push_str(&style.wrap(&format!("  {}", printable(missing))));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_figure() {
        let figures = wakelab_measure::core_to_core(
            ",,\n40,,\n42,50,\n",
            "c.csv",
            &wakelab_machine::Machine::from_toml(
                "description = \"d\"\n[topology]\nsockets = 1\ncores_per_llc = 3\n[costs]\nbase = \"smp-8\"\n",
                "m.toml",
            )
            .unwrap()
            .topology,
        );
        let mut figures = figures.unwrap();
        figures.missing.push("what is missing".into());
        let text = measured_text(&figures, "smp-8", &Style::default());
        let expected = "                      median    low   high  samples  how\n\
                        line_transfer_ps.llc   42000  40000  50000        3  core-to-core-latency, pairs of CPUs\n\n\
                        low and high: 10th and 90th percentile. In brackets: measured, but no figure of machine files.\n\n\
                        not measured, and from smp-8 in the machine file:\n  what is missing\n";
        assert_eq!(text, expected);
    }
}
