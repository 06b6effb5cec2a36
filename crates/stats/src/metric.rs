// SPDX-License-Identifier: GPL-2.0-or-later
//! The units of metrics, and which direction is better.

use serde::Serialize;

/// Which direction of a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither is better: the metric only explains others. Its gain is its change, positive for more, and is never
    /// marked.
    Neutral,
}

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Times in nanoseconds.
    Ns,
    /// A rate per second.
    PerS,
    /// Percent of a whole.
    Percent,
    /// A count of events.
    Count,
    /// A number that a command printed; only the command knows its unit.
    Plain,
}
