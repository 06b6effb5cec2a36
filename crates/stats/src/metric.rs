// SPDX-License-Identifier: GPL-2.0-or-later
//! What a metric counts in, and which way is better.

use serde::Serialize;

/// Which way is better.
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

/// What a metric counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Per second.
    PerS,
    /// Percent.
    Percent,
    /// A count of events.
    Count,
    /// A number printed by a command, which alone knows the unit.
    Plain,
}
