// SPDX-License-Identifier: GPL-2.0-or-later
//! Scenarios on a machine and on changed copies of it. A change that changes nothing is not run again.

use std::sync::Arc;

use wakelab_machine::Machine;
use wakelab_sim::{Outcome, Scenario};

use crate::error::LabError;
use crate::runner::Runner;
use crate::scenario::describe;

/// Scenarios to run, each with a name for errors.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) scenarios: Vec<Scenario>,
    names: Vec<String>,
}

impl Batch {
    /// Checks and adds a scenario. Returns its index. `change` follows its name in errors.
    pub(crate) fn add(&mut self, scenario: Scenario, change: &str) -> Result<usize, LabError> {
        let name = format!("{}{change}", describe(&scenario));
        if let Err(error) = scenario.check() {
            return Err(LabError::Scenario { name, error });
        }
        self.scenarios.push(scenario);
        self.names.push(name);
        Ok(self.scenarios.len() - 1)
    }

    /// Adds the scenario at index `base` on another machine. Returns its index, which is `base` if nothing changed.
    pub(crate) fn add_changed(
        &mut self,
        base: usize,
        machine: Arc<Machine>,
        change: &str,
    ) -> Result<usize, LabError> {
        let unchanged = &self.scenarios[base];
        if machine.costs == unchanged.machine.costs && machine.topology == unchanged.machine.topology {
            return Ok(base);
        }
        let scenario = Scenario { machine, ..unchanged.clone() };
        self.add(scenario, change)
    }

    /// Returns outcomes by scenario, then by seed.
    pub(crate) fn run(&self, seeds: &[u64], runner: &Runner<'_>) -> Result<Vec<Vec<Outcome>>, LabError> {
        runner.run_all(&self.scenarios, seeds).map_err(|failure| {
            let name = self.names[failure.scenario].clone();
            failure.named(name)
        })
    }
}
