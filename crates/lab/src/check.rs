// SPDX-License-Identifier: GPL-2.0-or-later
//! Replays of a recording, seen through the same eyes as the recording: each replay's events go through the model of
//! recordings, so that every figure has one definition.

use std::sync::Arc;

use wakelab_machine::{Machine, MachineError};
use wakelab_policy::PolicySpec;
use wakelab_sim::{Ending, Scenario};
use wakelab_trace::{Learnt, Observations, Recording, Watch, fold};

use crate::error::LabError;
use crate::export::observe_events;
use crate::runner::Runner;
use crate::scenario::{Kernel, describe};

/// The machine that made a recording, as far as the recording tells: the machine in the header of `wakelab record`, or
/// CPUs of one LLC with the costs of the preset `smp-8`. The exits from idle are those that the recording shows. The
/// costs of the kernel's paths contain what recording them cost.
///
/// # Errors
/// A header with a machine that cannot be read, or with fewer CPUs than the events have.
pub fn recorded_machine(recording: &Recording) -> Result<Machine, MachineError> {
    machine_that_made(recording, &recording.learnt)
}

/// The same without what recording cost, if the recording says what that was.
///
/// # Errors
/// Those of [`recorded_machine`].
pub fn machine_without_recorder(recording: &Recording) -> Result<Machine, MachineError> {
    let learnt = &recording.learnt;
    machine_that_made(recording, &learnt.without_recorder(learnt.event_cost_ns))
}

fn machine_that_made(recording: &Recording, learnt: &Learnt) -> Result<Machine, MachineError> {
    let name = &recording.workload.name;
    let told = recording.header.as_ref().map(|header| header.machine(name)).transpose()?.flatten();
    if let Some(base) = told {
        if base.topology.nr_cpus() < recording.nr_cpus as usize {
            return Err(MachineError::Invalid {
                what: format!("{name}: the header's machine has {} CPUs", base.topology.nr_cpus()),
                expected: format!("{} or more, as in the events", recording.nr_cpus),
            });
        }
        return Ok(learnt.machine(&base, name));
    }
    let text = format!(
        "description = \"what the recording tells of its machine\"\n\
         [topology]\nsockets = 1\ncores_per_llc = {}\n\
         [costs]\nbase = \"smp-8\"\n",
        recording.nr_cpus
    );
    let base = Machine::from_toml(&text, "recorded").expect("a machine of one LLC is valid");
    Ok(learnt.machine(&base, name))
}

/// The replay of a recording on the machine that made it. Its tasks may name CPUs that no event has, and that this
/// machine may lack; they keep the others.
pub fn replay_on_itself(
    recording: &Recording,
    machine: &Arc<Machine>,
    policy: PolicySpec,
    kernel: Kernel,
) -> Scenario {
    let mut workload = recording.workload.clone();
    fold(&mut workload, machine.topology.nr_cpus() as u32);
    let Kernel { host, limit_ns, limit_events } = kernel;
    let (machine, workload) = (Arc::clone(machine), Arc::new(workload));
    Scenario { machine, workload, policy, host, limit_ns, limit_events }
}

/// What a replay shows.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Its seed.
    pub seed: u64,
    /// Its events, as those of a recording.
    pub seen: Observations,
    /// How it ended.
    pub ending: Ending,
}

/// What the replays of `scenario` show, one for each seed.
///
/// # Errors
/// A scenario that cannot be run, the first run that fails, or events that no recording can have.
pub fn observe_replays(
    scenario: &Scenario,
    seeds: &[u64],
    runner: &Runner<'_>,
) -> Result<Vec<Replay>, LabError> {
    scenario.check().map_err(|error| LabError::Scenario { name: describe(scenario), error })?;
    let all = runner.in_parallel(seeds.len(), |job| observe(scenario, seeds[job]));
    all.into_iter().collect()
}

/// Runs a scenario, and watches its events meanwhile.
fn observe(scenario: &Scenario, seed: u64) -> Result<Replay, LabError> {
    let name = describe(scenario);
    let (outcome, watch) = observe_events(scenario, seed, Watch::new(&scenario.workload, &name))?;
    let seen = watch.observations().map_err(|error| LabError::Import { name, message: error.to_string() })?;
    Ok(Replay { seed, seen, ending: outcome.ending })
}

#[cfg(test)]
mod tests {
    use wakelab_trace::Options;

    use super::*;

    const EVENTS: &str = "a 7/7 [002] 1.000000000: sched:sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=R ==> \
                          next_comm=b next_pid=8 next_prio=120\n";

    fn machine(header: &str) -> Result<Machine, String> {
        let text = format!("{header}{EVENTS}");
        let recording = wakelab_trace::read_from(text.as_bytes(), "f", "f", &Options::default());
        recorded_machine(&recording.expect("a recording")).map_err(|error| error.to_string())
    }

    #[test]
    fn the_header_tells_the_machine() {
        let flat = machine("").expect("a machine");
        assert_eq!((flat.topology.nr_cpus(), flat.topology.cpus[2].llc), (3, 0));
        let header = |cpus: u32| {
            let topology = format!(
                "sockets = 1\n# wakelab-machine: llcs_per_node = {cpus}\n# wakelab-machine: cores_per_llc = 1"
            );
            format!(
                "# wakelab-record: wakelab\n# wakelab-machine: description = \"d\"\n# wakelab-machine: [topology]\n\
                 # wakelab-machine: {topology}\n# wakelab-machine: [costs]\n# wakelab-machine: base = \"power9-2s22c4t\"\n"
            )
        };
        let told = machine(&header(3)).expect("a machine");
        assert_eq!((told.name.as_str(), told.topology.cpus[2].llc), ("recorded", 2));
        let few = machine(&header(2)).unwrap_err();
        assert!(few.contains("the header's machine has 2 CPUs") && few.contains("3 or more"), "{few}");
        assert!(machine("# wakelab-record: w\n# wakelab-machine: [topology\n").is_err());
    }
}
