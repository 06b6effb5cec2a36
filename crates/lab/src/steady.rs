// SPDX-License-Identifier: GPL-2.0-or-later
//! Steady parts of runs, and runs that are made longer until their rates are known well enough.

use std::sync::Arc;

use wakelab_sim::{Ending, Outcome, Scenario};
use wakelab_stats::Steady;
use wakelab_workload::{Workload, settings, with_settings};

use crate::error::LabError;

/// The longest runs, as a multiple of those that were asked for.
const TIMES_MAX: u64 = 32;

/// Returns the steady part of a run that completed, in spans of its [`wakelab_sim::Progress`], if it has one.
pub fn steady_part(outcome: &Outcome) -> Option<Steady> {
    let done: Vec<f64> = outcome.progress.units.iter().map(|&units| units as f64).collect();
    Steady::of(&done).filter(|_| outcome.ending == Ending::Completed)
}

/// Runs scenarios, and again with twice the length, until each run has a steady part whose interval is at most
/// `percent` of its rate, or until they are 32 times as long. Returns the scenarios that ran last, and their outcomes.
///
/// # Errors
/// A run that fails, or a workload that cannot be made longer.
pub fn run_until_steady<E: From<LabError>>(
    scenarios: Vec<Scenario>,
    percent: f64,
    run: impl Fn(&[Scenario]) -> Result<Vec<Vec<Outcome>>, E>,
) -> Result<(Vec<Scenario>, Vec<Vec<Outcome>>), E> {
    let is_known =
        |outcome: &Outcome| steady_part(outcome).is_some_and(|steady| steady.half_percent <= percent);
    let mut outcomes = run(&scenarios)?;
    let (mut longest, mut times) = (scenarios, 1);
    while times < TIMES_MAX && !outcomes.iter().flatten().all(is_known) {
        times *= 2;
        let twice = |scenario: &Scenario| -> Result<Scenario, LabError> {
            Ok(Scenario { workload: longer(&scenario.workload, 2)?, ..scenario.clone() })
        };
        let longer = longest.iter().map(twice).collect::<Result<Vec<_>, _>>()?;
        let found = run(&longer)?;
        // A run that its limit stopped has no rate.
        if found.iter().flatten().any(|outcome| outcome.ending != Ending::Completed) {
            break;
        }
        (longest, outcomes) = (longer, found);
    }
    Ok((longest, outcomes))
}

/// Returns the workload with its `lengthen` parameters multiplied.
///
/// # Errors
/// A workload that cannot be made longer.
pub(crate) fn longer(workload: &Workload, times: u64) -> Result<Arc<Workload>, LabError> {
    let spec = &workload.name;
    let refuse =
        |what: &str| LabError::Plan(format!("{spec}: {what}; expected one whose file has `lengthen`"));
    let (settings, lengthen) = settings(spec).map_err(|_| refuse("no workload file"))?;
    if !workload.is_as_named() {
        return Err(refuse("a workload that was changed after it was read"));
    }
    let multiplied = |name: &String| {
        let setting = settings.iter().find(|setting| setting.param.name == *name);
        let value: u64 = setting.and_then(|setting| setting.value.parse().ok()).unwrap_or(0);
        (name.clone(), value.saturating_mul(times).to_string())
    };
    let values: Vec<(String, String)> = lengthen.iter().map(multiplied).collect();
    if values.is_empty() {
        return Err(refuse("a workload of fixed length"));
    }
    let spec = with_settings(spec, &values);
    Workload::parse_spec(&spec).map(Arc::new).map_err(|error| LabError::Plan(error.to_string()))
}

#[cfg(test)]
mod tests {
    use wakelab_machine::Machine;
    use wakelab_sim::{HostProfile, LIMIT_EVENTS};

    use super::*;

    fn scenario(spec: &str) -> Scenario {
        Scenario {
            machine: Arc::new(Machine::preset("smp-8").unwrap()),
            workload: Arc::new(Workload::parse_spec(spec).unwrap()),
            policy: "linux-4.15".parse().unwrap(),
            host: HostProfile::Mainline,
            limit_ns: 1 << 40,
            limit_events: LIMIT_EVENTS,
        }
    }

    fn outcomes(scenarios: &[Scenario]) -> Result<Vec<Vec<Outcome>>, LabError> {
        let run = |scenario| vec![wakelab_sim::run(scenario, 1).unwrap()];
        Ok(scenarios.iter().map(run).collect())
    }

    /// 16 endless tasks on 8 CPUs are steady at once, so a duration that is too short for 100 spans is doubled.
    #[test]
    fn a_run_becomes_as_long_as_needed() {
        let start = vec![scenario("spin:tasks=16,duration-ms=1,burst-ns=20000")];
        let (ran, found) = run_until_steady(start, 2.0, outcomes).unwrap();
        let steady = steady_part(&found[0][0]).expect("a steady part");
        assert!(steady.half_percent <= 2.0);
        // 8 CPUs do a burst each 20 us.
        let rate = steady.mean * 1e9 / found[0][0].progress.span_ns as f64;
        assert!((rate / 400_000.0 - 1.0).abs() < 0.03, "{rate}");
        let spec = ran[0].workload.name.strip_prefix("spin:tasks=16,burst-ns=20000,duration-ms=");
        let longer: u64 = spec.expect("only the duration changes").parse().unwrap();
        assert!(longer > 1 && longer.is_power_of_two(), "{longer}");
    }

    #[test]
    fn a_workload_that_was_changed_is_refused() {
        let mut changed = scenario("spin:tasks=16,duration-ms=1");
        Arc::make_mut(&mut changed.workload).tasks[0].weight = 7;
        let error = run_until_steady(vec![changed], 2.0, outcomes).unwrap_err();
        assert!(error.to_string().contains("changed after it was read"), "{error}");
    }
}
