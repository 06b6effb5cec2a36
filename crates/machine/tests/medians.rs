// SPDX-License-Identifier: GPL-2.0-or-later
//! Compares `line_transfer_ps` of the presets with the measurements that they name: medians by class of
//! core-to-core-latency's matrices. The data are not part of the repository. If they are not beside it, the test says
//! so and checks nothing.

use std::fs;
use std::path::{Path, PathBuf};

use wakelab_machine::Distance::{self, Cluster, Llc, Node, Numa1, Smt};
use wakelab_machine::Machine;

fn matrix(name: &str) -> Option<PathBuf> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/costs").join(format!("{name}.csv"));
    if !path.is_file() {
        eprintln!("{} is not there: {name} is not checked", path.display());
        return None;
    }
    Some(path)
}

/// Returns the median over the pairs of CPUs of a class, in ns. Row a of the file has the pairs (a, b) with b < a.
fn median_ns(path: &Path, class: impl Fn(u32, u32) -> bool) -> f64 {
    let text = fs::read_to_string(path).unwrap();
    let mut values: Vec<f64> = Vec::new();
    for (a, row) in (0..).zip(text.lines()) {
        for (b, cell) in (0..).zip(row.split(',')).filter(|(_, cell)| !cell.trim().is_empty()) {
            if class(a, b) {
                values.push(cell.trim().parse().unwrap());
            }
        }
    }
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// Checks that the preset's figure is `share` of the median, within 1 %.
fn check(preset: &str, distance: Distance, median_ns: f64, share: f64) {
    let figure_ns = Machine::preset(preset).unwrap().costs.line_transfer_ps[distance.index()] as f64 / 1000.0;
    let expected_ns = median_ns * share;
    assert!(
        (figure_ns / expected_ns - 1.0).abs() < 0.01,
        "{preset}, {}: {figure_ns} ns in the file, {expected_ns:.1} ns measured",
        distance.name()
    );
}

#[test]
fn epyc_7742() {
    let Some(path) = matrix("epyc-7742-2s") else { return };
    let topology = Machine::preset("epyc-7742-2s").unwrap().topology;
    for distance in [Smt, Llc, Node, Numa1] {
        check("epyc-7742-2s", distance, median_ns(&path, |a, b| topology.distance(a, b) == distance), 1.0);
    }
}

#[test]
fn kunpeng_920() {
    // A 920-6426 has 32 cores a die, and the measured machine two dies.
    let Some(path) = matrix("kunpeng-920-6426") else { return };
    for preset in ["kunpeng920-1n24c", "kunpeng920-4n96c"] {
        check(preset, Cluster, median_ns(&path, |a, b| a / 4 == b / 4), 1.0);
        check(preset, Llc, median_ns(&path, |a, b| a / 4 != b / 4 && a / 32 == b / 32), 1.0);
    }
    check("kunpeng920-4n96c", Numa1, median_ns(&path, |a, b| a / 32 != b / 32), 1.0);
}

#[test]
fn xeon_x5650() {
    // Measured with SMT on: CPUs c and c + 12 share a core.
    let Some(path) = matrix("xeon-x5650-2s") else { return };
    let socket = |cpu: u32| cpu % 12 / 6;
    check("xeon-x5650-2s", Llc, median_ns(&path, |a, b| a % 12 != b % 12 && socket(a) == socket(b)), 1.0);
    check("xeon-x5650-2s", Numa1, median_ns(&path, |a, b| socket(a) != socket(b)), 1.0);
}

#[test]
fn power9_from_power7() {
    let Some(path) = matrix("power7-2s") else { return };
    check("power9-2s22c4t", Node, median_ns(&path, |a, b| a / 8 == b / 8), 0.8);
    check("power9-2s22c4t", Numa1, median_ns(&path, |a, b| a / 8 != b / 8), 0.8);
}
