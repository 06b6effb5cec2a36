// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks whether a scenario can run at all: the machine, the workload, and the two together.

use wakelab_workload::{Home, Op};

use crate::error::SimError;
use crate::scenario::Scenario;

impl Scenario {
    /// Refuses a scenario that cannot run. [`crate::run`] does so first.
    ///
    /// # Errors
    /// The first fault found. The policy is not checked: it is built when the run begins.
    pub fn check(&self) -> Result<(), SimError> {
        self.machine.check()?;
        self.workload.check()?;
        let nr_cpus = self.machine.topology.nr_cpus() as u32;
        let nr_nodes = self.machine.topology.nr_nodes() as u32;
        for (number, task) in self.workload.tasks.iter().enumerate() {
            let allowed = task.allowed.iter().flatten().map(|&cpu| ("allowed", cpu));
            let last_cpu = task.last_cpu.iter().map(|&cpu| ("last_cpu", cpu));
            if let Some((field, cpu)) = allowed.chain(last_cpu).find(|&(_, cpu)| cpu >= nr_cpus) {
                let (task, name) = (number as u32, task.name.clone());
                return Err(SimError::CpuBeyondMachine { task, name, field, cpu, last: nr_cpus - 1 });
            }
            for (op, step) in task.program.iter().enumerate() {
                if let Op::Memory { home: Home::Node(node), .. } = *step
                    && node >= nr_nodes
                {
                    let (task, name, op) = (number as u32, task.name.clone(), op as u32);
                    return Err(SimError::NodeBeyondMachine { task, name, op, node, last: nr_nodes - 1 });
                }
            }
        }
        Ok(())
    }
}
