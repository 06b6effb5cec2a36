// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads wult's `datapoints.csv`: a row for each wake-up from an idle state by a timer's interrupt. `WakeLatency` is
//! the time from the interrupt until the CPU executes again, `SilentTime` how long it slept before, both in
//! microseconds, and `ReqCState` the state that the kernel asked for. Other columns are ignored.
//!
//! Where the kernel enters a state with interrupts on, the handler runs first, so that `IntrLatency`, if it is there,
//! is the shorter of the two: the shorter one counts.

use std::collections::BTreeMap;

use wakelab_machine::MachineError;

use crate::figures::{Figures, IdleFigure};
use crate::spread::Spread;

/// No exit and no sleep takes longer, in us.
const MOST_US: f64 = 1_000_000.0;
/// A state of fewer datapoints is not one that the kernel chose on purpose.
const LEAST: usize = 3;
const COLUMNS: &str = "wult's columns WakeLatency, SilentTime and ReqCState";
/// Polls, and does not count beside other states.
const POLL: &str = "POLL";

/// The idle states of the text as figures.
///
/// # Errors
/// A table without wult's columns, rows of another length, and cells that are no such times.
pub fn wult(text: &str, file: &str) -> Result<Figures, MachineError> {
    let fault = |line: usize, what: String, expected: String| MachineError::File {
        file: file.to_owned(),
        line,
        what,
        expected,
    };
    let mut lines = text.lines().enumerate();
    let header: Vec<&str> = lines.next().map_or("", |(_, line)| line).split(',').map(str::trim).collect();
    let column = |name: &str| header.iter().position(|column| *column == name);
    let needed =
        |name: &str| column(name).ok_or_else(|| fault(1, format!("no column `{name}`"), COLUMNS.into()));
    let (wake, silent, state) = (needed("WakeLatency")?, needed("SilentTime")?, needed("ReqCState")?);
    let handler = column("IntrLatency");
    let mut by_state: BTreeMap<String, (Vec<u64>, Vec<u64>)> = BTreeMap::new();
    for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        if cells.len() != header.len() {
            let expected = format!("{}, as many as the header has", header.len());
            return Err(fault(at + 1, format!("{} cells", cells.len()), expected));
        }
        let time_ns = |column: usize| {
            let us = cells[column].parse::<f64>().ok().filter(|us| (0.0..=MOST_US).contains(us));
            us.map(|us| (us * 1000.0).round() as u64).ok_or_else(|| {
                let what = format!("`{}` as {}", cells[column], header[column]);
                fault(at + 1, what, format!("microseconds up to {MOST_US}"))
            })
        };
        if cells[state].is_empty() {
            return Err(fault(at + 1, "an empty ReqCState".into(), "the name of an idle state".into()));
        }
        let mut exit_ns = time_ns(wake)?;
        if let Some(handler) = handler {
            exit_ns = exit_ns.min(time_ns(handler)?);
        }
        let (exits, sleeps) = by_state.entry(cells[state].to_owned()).or_default();
        exits.push(exit_ns);
        sleeps.push(time_ns(silent)?);
    }
    let (several, mut figures) = (by_state.len() > 1, Figures::default());
    for (name, (exits, sleeps)) in by_state {
        if several && name == POLL {
            continue;
        }
        if exits.len() < LEAST {
            figures.missing(format!(
                "idle state {name}: {} datapoints of wult, and {LEAST} are needed",
                exits.len()
            ));
            continue;
        }
        if let (Some(exit), Some(sleep)) = (Spread::of(exits), Spread::of(sleeps)) {
            let how = format!("wult, exits from {name}");
            figures.idle_states.push(IdleFigure { after_ns: sleep.low, exit, cold_percent: 0, how });
        }
    }
    if figures.idle_states.is_empty() {
        return Err(fault(
            1,
            "no idle state with enough datapoints".into(),
            format!("at least {LEAST} of a state"),
        ));
    }
    figures.sort_idle_states();
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "WakeLatency,SilentTime,IntrLatency,ReqCState,CC6%\n";

    fn refused(text: &str) -> String {
        wult(text, "w.csv").unwrap_err().to_string()
    }

    #[test]
    fn exits_by_state_by_hand() {
        let text = format!(
            "{HEADER}40,900,44,C6,9\n42,1000,43,C6,9\n50,1100,49,C6,9\n2,100,3,C1,0\n2.5,30,1.5,C1,0\n4,20,5,C1,0\n\
             1,1,1,POLL,0\n1,1,1,C1E,0\n"
        );
        let figures = wult(&text, "w.csv").unwrap();
        let shown: Vec<_> = figures
            .idle_states
            .iter()
            .map(|s| (s.after_ns, s.exit.low, s.exit.median, s.exit.high))
            .collect();
        // The first state begins at once; C1's exits are 2, 1.5 and 4 us, C6's 40, 42 and 49.
        assert_eq!(shown, [(0, 1_500, 2_000, 4_000), (900_000, 40_000, 42_000, 49_000)]);
        assert_eq!(figures.missing, ["idle state C1E: 1 datapoints of wult, and 3 are needed"]);
    }

    #[test]
    fn what_is_no_such_table() {
        let columns = "wult's columns WakeLatency, SilentTime and ReqCState";
        assert_eq!(refused(""), format!("w.csv:1: no column `WakeLatency`; expected {columns}"));
        assert_eq!(
            refused("WakeLatency,SilentTime\n"),
            format!("w.csv:1: no column `ReqCState`; expected {columns}")
        );
        assert_eq!(
            refused(&format!("{HEADER}1,2,3,C1\n")),
            "w.csv:2: 4 cells; expected 5, as many as the header has"
        );
        assert_eq!(
            refused(&format!("{HEADER}\n1,2,3,C1,0\n1,-2,3,C1,0\n")),
            "w.csv:4: `-2` as SilentTime; expected microseconds up to 1000000"
        );
        assert!(refused(&format!("{HEADER}NaN,2,3,C1,0\n")).starts_with("w.csv:2: `NaN` as WakeLatency; "));
        assert!(refused(&format!("{HEADER}1,2,3,,0\n")).starts_with("w.csv:2: an empty ReqCState; "));
        assert_eq!(
            refused(HEADER),
            "w.csv:1: no idle state with enough datapoints; expected at least 3 of a state"
        );
    }
}
