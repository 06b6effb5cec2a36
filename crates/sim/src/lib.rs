// SPDX-License-Identifier: GPL-2.0-or-later
//! The simulated kernel: clock, CPUs, runqueues, blocking, and the cost of everything. It decides nothing itself: it
//! asks the policy (crates/policy), as sched_ext or Linux's own scheduler would. engine.rs has the parts.
//!
//! [`run`] is a pure function: no threads, no output, no globals, no floating point. The same scenario and seed give
//! the same bytes on every machine and in every build. A checker beside the engine verifies the house's invariants on
//! every run, in release builds too.

mod engine;
#[cfg(test)]
mod engine_tests;
mod error;
mod finish;
mod hardware;
mod ids;
mod kernel;
mod ledger;
mod observer;
mod outcome;
mod programs;
mod rng;
mod scenario;
mod time_use;
mod validate;
mod waits;

// The builders of test scenarios, shared by tests/ and the tests inside, name this crate from outside.
#[cfg(test)]
extern crate self as wakelab_sim;

use engine::Engine;
pub use error::SimError;
use observer::Unobserved;
pub use observer::{Activity, Observer, WaitSums};
pub use outcome::{
    Counts, Ending, GroupTime, Histogram, NameOutcome, Outcome, Progress, Reads, SearchTime, SearchTimes,
};
pub use scenario::{HostProfile, LIMIT_EVENTS, Scenario};
pub use time_use::{TimeKind, TimeUse};
pub use waits::{Cause, NameWaits, Passed, Placed, Wait, Waits, Who};

/// Runs a scenario.
///
/// # Errors
/// The scenario cannot run, or the checker found an invariant broken.
pub fn run(scenario: &Scenario, seed: u64) -> Result<Outcome, SimError> {
    run_with(scenario, seed, &mut Unobserved)
}

/// Like [`run`], with an observer.
///
/// # Errors
/// Like [`run`].
pub fn run_observed(
    scenario: &Scenario,
    seed: u64,
    observer: &mut dyn Observer,
) -> Result<Outcome, SimError> {
    run_with(scenario, seed, observer)
}

/// Like [`run`], and attributes each wait of a task to what it waited for: [`Outcome::waits`], with the `longest`
/// longest waits one by one.
///
/// # Errors
/// Like [`run`]; also if the causes of a wait do not add up to it.
pub fn run_explained(scenario: &Scenario, seed: u64, longest: usize) -> Result<Outcome, SimError> {
    let mut books = waits::Books::new(scenario, longest);
    let observer: &mut dyn Observer = &mut books;
    let outcome = run_with(scenario, seed, observer)?;
    Ok(Outcome { waits: Some(books.waits()), ..outcome })
}

fn run_with<O: Observer + ?Sized>(
    scenario: &Scenario,
    seed: u64,
    observer: &mut O,
) -> Result<Outcome, SimError> {
    scenario.check()?;
    let distances = scenario.machine.topology.distances();
    Engine::new(scenario, &distances, seed, observer)?.run(scenario.limit_ns, seed)
}
