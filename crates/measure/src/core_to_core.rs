// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads what `core-to-core-latency --csv` prints: a row and a column for each CPU, with one-way transfers of a cache
//! line between two CPUs in nanoseconds. Only one half of the matrix is filled unless the tool's benchmark has a
//! direction; empty cells are not measured.
//!
//! ```text
//! ,,
//! 6.9,,
//! 20.3,19.9,
//! ```

use std::collections::BTreeMap;

use wakelab_machine::{Distance, MachineError, Topology};

use crate::figures::Figures;
use crate::spread::Spread;

/// No line takes longer, in ns.
const MOST_NS: f64 = 100_000.0;

/// The transfers of the text as figures of a machine of this topology.
///
/// # Errors
/// Rows or cells that are not such a matrix of this machine.
pub fn core_to_core(text: &str, file: &str, topology: &Topology) -> Result<Figures, MachineError> {
    let nr_cpus = topology.nr_cpus();
    let fault = |line: usize, what: String, expected: String| MachineError::File {
        file: file.to_owned(),
        line,
        what,
        expected,
    };
    let mut by_distance: BTreeMap<Distance, Vec<u64>> = BTreeMap::new();
    let mut rows = 0;
    for (row, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        if cells.len() != nr_cpus || row >= nr_cpus {
            let what = match row {
                row if row >= nr_cpus => format!("row {} of the matrix", row + 1),
                _ => format!("a row of {}", cells.len()),
            };
            return Err(fault(row + 1, what, format!("{nr_cpus}, one for each CPU of the machine")));
        }
        rows = row + 1;
        for (column, cell) in cells.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
            let ns = cell.parse::<f64>().ok().filter(|ns| (0.0..=MOST_NS).contains(ns));
            let (Some(ns), true) = (ns, row != column) else {
                let expected = match row == column {
                    true => "nothing where a CPU meets itself".to_owned(),
                    false => format!("nanoseconds up to {MOST_NS}, or nothing"),
                };
                return Err(fault(row + 1, format!("`{cell}` in column {}", column + 1), expected));
            };
            let distance = topology.distance(row as u32, column as u32);
            by_distance.entry(distance).or_default().push((ns * 1000.0).round() as u64);
        }
    }
    if rows != nr_cpus {
        return Err(fault(
            rows.max(1),
            format!("{rows} rows"),
            format!("{nr_cpus}, one for each CPU of the machine"),
        ));
    }
    let mut figures = Figures::default();
    for (distance, values) in by_distance {
        if let Some(spread) = Spread::of(values) {
            figures.part("line_transfer_ps", distance.name(), spread, "core-to-core-latency, pairs of CPUs");
        }
    }
    if figures.rows.is_empty() {
        return Err(fault(1, "a matrix without a figure".into(), "nanoseconds between CPUs".into()));
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use wakelab_machine::Machine;

    use super::*;

    /// Two cores of two threads each: CPUs 0 and 1, 2 and 3.
    fn topology() -> Topology {
        let text = "description = \"d\"\n[topology]\nsockets = 1\ncores_per_llc = 2\nthreads_per_core = 2\n\
                    numbering = \"consecutive\"\n[costs]\nbase = \"xeon-2s22c2t\"\n";
        Machine::from_toml(text, "m.toml").unwrap().topology
    }

    fn refused(text: &str) -> String {
        core_to_core(text, "c.csv", &topology()).unwrap_err().to_string()
    }

    #[test]
    fn medians_of_classes_by_hand() {
        let figures = core_to_core(",,,\n7.5,,,\n40,41,,\n44.5,43,8.25,\n", "c.csv", &topology()).unwrap();
        let shown: Vec<_> = figures
            .rows
            .iter()
            .map(|row| (row.quantity.as_str(), row.spread.low, row.spread.median, row.spread.high))
            .collect();
        assert_eq!(
            shown,
            [("line_transfer_ps.smt", 7_500, 7_875, 8_250), ("line_transfer_ps.llc", 40_000, 42_000, 44_500)]
        );
        // Both directions count.
        let both = core_to_core(",7,,\n9,,,\n,,,\n,,,\n", "c.csv", &topology()).unwrap();
        assert_eq!(both.rows[0].spread, Spread { low: 7_000, median: 8_000, high: 9_000, samples: 2 });
    }

    #[test]
    fn what_is_no_such_matrix() {
        assert_eq!(refused(""), "c.csv:1: 0 rows; expected 4, one for each CPU of the machine");
        assert_eq!(refused(",,\n"), "c.csv:1: a row of 3; expected 4, one for each CPU of the machine");
        assert_eq!(refused(",,,\n7,,,\n"), "c.csv:2: 2 rows; expected 4, one for each CPU of the machine");
        assert_eq!(
            refused(",,,\n,,,\n,,,\n,,,\n,,,\n"),
            "c.csv:5: row 5 of the matrix; expected 4, one for each CPU of the machine"
        );
        assert_eq!(
            refused(",,,\nfast,,,\n"),
            "c.csv:2: `fast` in column 1; expected nanoseconds up to 100000, or nothing"
        );
        assert!(refused(",,,\n-1,,,\n").starts_with("c.csv:2: `-1` in column 1; "));
        assert!(refused(",,,\nNaN,,,\n").starts_with("c.csv:2: `NaN` in column 1; "));
        assert_eq!(refused("3,,,\n"), "c.csv:1: `3` in column 1; expected nothing where a CPU meets itself");
        assert_eq!(
            refused(",,,\n,,,\n,,,\n,,,\n"),
            "c.csv:1: a matrix without a figure; expected nanoseconds between CPUs"
        );
    }
}
