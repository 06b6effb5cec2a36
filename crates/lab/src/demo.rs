// SPDX-License-Identifier: GPL-2.0-or-later
//! A recording inside the program, so that examples can be run everywhere.

/// The name of the built-in recording.
pub const DEMO_NAME: &str = "demo";

/// The text of `perf script` from a recording of hackbench: 21 processes on 2 CPUs, 59 ms (fixtures/README.md).
pub fn demo_recording() -> &'static [u8] {
    include_bytes!("../../../fixtures/hackbench.perf.txt")
}
