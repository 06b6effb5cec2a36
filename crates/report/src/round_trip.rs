// SPDX-License-Identifier: GPL-2.0-or-later
//! How well a run is reproduced by its own recording: exported, imported, and replayed on the same machine with the
//! same policy and seed.

use serde::Serialize;
use wakelab_lab::{RoundTrip, Trip, TripFacts};

use crate::document::SCHEMA_VERSION;
use crate::grid::{Cell, Grid, Row};
use crate::style::Style;

/// Round trips for programs: docs/schema/round-trip.schema.json.
#[derive(Debug, Serialize)]
pub struct RoundTripDocument<'a> {
    schema_version: u32,
    kind: &'static str,
    policy: &'a str,
    seed: u64,
    trips: &'a [RoundTrip],
}

/// Returns the document for programs.
pub fn round_trip_document<'a>(policy: &'a str, seed: u64, trips: &'a [RoundTrip]) -> RoundTripDocument<'a> {
    RoundTripDocument { schema_version: SCHEMA_VERSION, kind: "round_trip", policy, seed, trips }
}

/// Returns a table with a row for each workload and machine. Ends in a newline.
pub fn round_trip_text(policy: &str, seed: u64, trips: &[RoundTrip], style: &Style) -> String {
    let heads = ["free:\nswitches", "free:\nexact", "switches", "exact", "makespan", "switches", "wake-ups"];
    let heads = heads.map(|head| head.replace("\\\n", "\n")).into();
    let rows: Vec<Row> = trips
        .iter()
        .map(|trip| {
            let RoundTrip { free, costed, .. } = trip;
            let cells = [
                free.original.switches.to_string(),
                exact(free),
                costed.original.switches.to_string(),
                exact(costed),
                change(costed, |facts| facts.elapsed_ns),
                change(costed, |facts| facts.switches),
                change(costed, |facts| facts.wakeups),
            ];
            let cells = cells.map(|text| Cell { text, color: None }).into();
            (format!("{} on {}", trip.workload, trip.machine), "", cells)
        })
        .collect();
    let mut out = format!("{policy}, seed {seed}\n\n");
    out.push_str(&Grid { title: "", heads, rows }.text(style));
    let nr_exact = trips.iter().filter(|trip| trip.free.exact).count();
    out.push('\n');
    out.push_str(&style.wrap(&format!(
        "{nr_exact} of {} exact where nothing costs anything. With all costs: percent by which the replay has more or less.",
        trips.len()
    )));
    out
}

fn exact(trip: &Trip) -> String {
    match trip.first_difference {
        None if trip.exact => "yes".to_owned(),
        Some(found) => format!("until {:.3} ms", found.time_ns as f64 / 1e6),
        None => "no".to_owned(),
    }
}

fn change(trip: &Trip, of: fn(&TripFacts) -> u64) -> String {
    let (before, after) = (of(&trip.original), of(&trip.replay));
    if before == after {
        return "=".to_owned();
    }
    if before == 0 {
        return format!("+{after}");
    }
    format!("{:+.2}%", (after as f64 - before as f64) / before as f64 * 100.0)
}
