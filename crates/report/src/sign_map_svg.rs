// SPDX-License-Identifier: GPL-2.0-or-later
//! A [`SignMap`] as heat maps, one below the other: blue where a policy helps, orange where it hurts, and stronger for
//! a larger gain or loss; white where the gain is not marked.

use std::fmt::Write;

use crate::sign_map::SignMap;
use crate::svg::{document, escaped, label};

const LEFT: f64 = 170.0;
const CELL_WIDTH: f64 = 62.0;
const CELL_HEIGHT: f64 = 20.0;
/// Above the cells of each map: its title and the heads of its columns.
const HEAD: f64 = 44.0;
const GAP: f64 = 14.0;
/// Above the first map: title and legend.
const TOP: f64 = 48.0;
/// Okabe and Ito's blue and vermilion, which colour-blind people can tell apart.
const HELPS: &str = "#0072b2";
const HURTS: &str = "#d55e00";
/// The colour is strongest from this gain or loss on.
const FULL_PERCENT: f64 = 20.0;
/// Width of a character of text, on average; somewhat more than most fonts have.
const CHARACTER_WIDTH: f64 = 7.0;
/// What the colours mean, each with an example of a gain and whether it is marked.
const LEGEND: [(f64, bool, &str); 3] = [
    (FULL_PERCENT, true, "helps"),
    (-FULL_PERCENT, true, "hurts"),
    (0.4, false, "grey: at most 1 % or its interval"),
];

impl SignMap {
    /// Returns the maps as an SVG file.
    pub fn svg(&self) -> String {
        let axes = self.axes();
        let map_height = HEAD + CELL_HEIGHT * axes.machines.len() as f64 + GAP;
        let nr_maps = axes.policies.len() - 1;
        let mut body = String::new();
        let title = format!("{}, gain in percent over {}", axes.workload, axes.policies[0]);
        label(&mut body, 8.0, 18.0, "start", &title);
        let legend_end = legend(&mut body, 26.0);
        let longest = axes.policies[1..].iter().chain([&title]).map(|text| text.chars().count()).max();
        let text_end = 8.0 + CHARACTER_WIDTH * longest.unwrap_or(0) as f64;
        let cells_end = LEFT + CELL_WIDTH * axes.loads.len() as f64;
        let width = cells_end.max(text_end).max(legend_end) + 20.0;
        for policy in 1..axes.policies.len() {
            self.one(&mut body, policy, TOP + map_height * (policy - 1) as f64);
        }
        document(width, TOP + map_height * nr_maps as f64, &body)
    }

    fn one(&self, body: &mut String, policy: usize, top: f64) {
        let axes = self.axes();
        // Writing to a string cannot fail, here and below.
        let title = escaped(&axes.policies[policy]);
        let _ = writeln!(body, "<text x=\"8\" y=\"{:.1}\" font-weight=\"bold\">{title}</text>", top + 18.0);
        label(body, LEFT - 8.0, top + HEAD - 6.0, "end", "tasks a CPU");
        for (load, name) in axes.loads.iter().enumerate() {
            let x = LEFT + CELL_WIDTH * (load as f64 + 0.5);
            label(body, x, top + HEAD - 6.0, "middle", name);
        }
        for (machine, (name, cpus)) in axes.machines.iter().enumerate() {
            let y = top + HEAD + CELL_HEIGHT * machine as f64;
            label(body, LEFT - 8.0, y + 14.0, "end", &format!("{name} ({cpus})"));
            for load in 0..axes.loads.len() {
                if let Some((gain, marked)) = self.gain(policy, machine, load) {
                    cell(body, LEFT + CELL_WIDTH * load as f64, y, gain, marked);
                }
            }
        }
    }
}

/// Writes the legend in one line, and returns where it ends.
fn legend(body: &mut String, y: f64) -> f64 {
    let mut x = 8.0;
    for (gain, marked, meaning) in LEGEND {
        cell(body, x, y, gain, marked);
        label(body, x + CELL_WIDTH + 6.0, y + 14.0, "start", meaning);
        x += CELL_WIDTH + 12.0 + CHARACTER_WIDTH * meaning.len() as f64;
    }
    x
}

fn cell(body: &mut String, x: f64, y: f64, gain: f64, marked: bool) {
    let color = if gain > 0.0 { HELPS } else { HURTS };
    let strength = if marked { (gain.abs() / FULL_PERCENT).clamp(0.1, 1.0) } else { 0.0 };
    let _ = writeln!(
        body,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{CELL_WIDTH}\" height=\"{CELL_HEIGHT}\" fill=\"{color}\" \
         fill-opacity=\"{strength:.2}\" stroke=\"#ddd\"/>"
    );
    let ink = match () {
        () if !marked => "#999",
        () if strength > 0.6 => "white",
        () => "black",
    };
    let _ = writeln!(
        body,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{ink}\">{gain:+.1}</text>",
        x + CELL_WIDTH / 2.0,
        y + 14.0
    );
}
