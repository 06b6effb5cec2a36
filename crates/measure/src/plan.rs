// SPDX-License-Identifier: GPL-2.0-or-later
//! What is measured on a machine: a list of steps of equal time.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use wakelab_machine::{Distance, Topology};

use crate::idle::{self, State};
use crate::pairs::{Class, classes};
use crate::throughput::{self, Work};
use crate::{futexes, interrupts, lines, pipes};

/// Pairs of a distance that are measured; all pairs of 8 CPUs are 28.
const PAIRS: usize = 28;
/// Pairs of a distance whose hand-overs and interrupts are measured.
const FEW_PAIRS: usize = 3;
/// Cores whose threads are measured beside each other.
const CORES: usize = 3;

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Updates,
    FutexCalls,
    Wakes,
    Sends { bytes: u64 },
    Processes,
    Lines { distance: Distance, cpus: (u32, u32) },
    Futexes { distance: Distance, cpus: (u32, u32) },
    Pipes { distance: Distance, cpus: (u32, u32) },
    Interrupts { distance: Distance, cpus: (u32, u32) },
    Idle { at: usize, cpus: (u32, u32) },
    Threads { cpus: Vec<u32>, work: Work },
    Copies { limit: &'static str, cpus: Vec<u32> },
    RemoteCopies { distance: Distance, cpus: (u32, u32) },
}

/// The steps, the CPUs that take part, and what they cannot measure.
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// Idle states of the CPU that is woken.
    pub(crate) states: Vec<State>,
    /// Distance over which idle CPUs are woken.
    pub(crate) idle_distance: Option<Distance>,
    pub(crate) missing: Vec<String>,
    /// The CPU of steps on one CPU.
    pub(crate) cpu: u32,
    /// Bytes of each array of a copy with this number of threads.
    caches_bytes: u64,
}

/// What the steps found, by the name of the quantity.
#[derive(Default)]
pub(crate) struct Samples {
    pub(crate) values: BTreeMap<String, Vec<u64>>,
    /// Of each idle state: how often its CPU entered it, of how many sleeps.
    pub(crate) entered: BTreeMap<usize, (u64, u64)>,
    /// Of each idle state: by how many percent work after it takes longer.
    pub(crate) cold_percent: BTreeMap<usize, Vec<u64>>,
}

impl Plan {
    /// Plans for these CPUs of a machine, of which there must be one. `caches_bytes` are those of the LLCs together.
    pub(crate) fn new(root: &Path, topology: &Topology, cpus: &[u32], caches_bytes: u64) -> Plan {
        let cpu = cpus[0];
        let mut plan = Plan {
            steps: vec![Step::Updates, Step::FutexCalls, Step::Wakes, Step::Processes],
            states: Vec::new(),
            idle_distance: None,
            missing: Vec::new(),
            cpu,
            caches_bytes,
        };
        plan.steps.extend([1, pipes::LONG_BYTES].map(|bytes| Step::Sends { bytes }));
        let own = (Distance::Cpu, (cpu, cpu));
        plan.handovers(own.0, own.1);
        let classes = classes(topology, cpus, PAIRS);
        plan.pairs(&classes);
        plan.idle(root, &classes);
        plan.threads(topology, cpus);
        plan.copies(topology, cpus, &classes);
        plan
    }

    fn handovers(&mut self, distance: Distance, cpus: (u32, u32)) {
        self.steps.extend([Step::Futexes { distance, cpus }, Step::Pipes { distance, cpus }]);
    }

    fn pairs(&mut self, classes: &[Class]) {
        if classes.is_empty() {
            self.missing.push("one CPU can be used: nothing between CPUs is measured".into());
        }
        for Class { distance, pairs, .. } in classes {
            self.steps.extend(pairs.iter().map(|&cpus| Step::Lines { distance: *distance, cpus }));
            for &cpus in pairs.iter().take(FEW_PAIRS) {
                self.handovers(*distance, cpus);
                self.steps.push(Step::Interrupts { distance: *distance, cpus });
            }
        }
    }

    fn idle(&mut self, root: &Path, classes: &[Class]) {
        // The sibling of a busy thread is in no deep state, so another core is woken if there is one.
        let class = classes.iter().find(|class| class.distance > Distance::Smt).or(classes.first());
        let Some(Class { distance, pairs, .. }) = class else { return };
        let cpus = pairs[0];
        self.states = idle::states(root, cpus.1);
        self.idle_distance = Some(*distance);
        if self.states.is_empty() {
            self.missing.push("idle_states: sysfs has no cpuidle states".into());
        }
        self.steps.extend((0..self.states.len()).map(|at| Step::Idle { at, cpus }));
    }

    fn threads(&mut self, topology: &Topology, cpus: &[u32]) {
        let most = topology.max_threads();
        if most == 1 {
            self.missing.push("smt_speed: no core has two threads".into());
            return;
        }
        let siblings = |cpu: &u32| topology.siblings(*cpu);
        let whole = |core: &Vec<u32>| core.len() == most && core.iter().all(|cpu| cpus.contains(cpu));
        let cores: Vec<Vec<u32>> = cpus
            .iter()
            .filter(|cpu| siblings(cpu)[0] == **cpu)
            .map(siblings)
            .filter(whole)
            .take(CORES)
            .collect();
        if cores.is_empty() {
            self.missing.push("smt_speed: of no core all threads can be used".into());
        }
        for core in cores {
            self.steps.extend(Work::ALL.map(|work| Step::Threads { cpus: core.clone(), work }));
        }
    }

    fn copies(&mut self, topology: &Topology, cpus: &[u32], classes: &[Class]) {
        // A thread a core.
        let first_of = |part: Vec<u32>| -> Vec<u32> {
            part.into_iter()
                .filter(|cpu| {
                    cpus.contains(cpu)
                        && topology.siblings(*cpu).iter().find(|c| cpus.contains(c)) == Some(cpu)
                })
                .collect()
        };
        let first = topology.cpus[self.cpu as usize];
        let (cluster, llc, node) = (
            first_of(topology.cluster_cpus(self.cpu)),
            first_of(topology.llc_cpus(self.cpu)),
            first_of(topology.node_cpus(self.cpu)),
        );
        let mut add = |limit, cpus: Vec<u32>| self.steps.push(Step::Copies { limit, cpus });
        add("core", vec![self.cpu]);
        if first.cluster.is_some() {
            add("cluster", cluster);
        }
        if llc.len() < node.len() {
            add("llc", llc);
        }
        add("node", node);
        if topology.nr_nodes() > 1 {
            add("machine", first_of(cpus.to_vec()));
        }
        for Class { distance, pairs, .. } in classes.iter().filter(|class| class.distance > Distance::Node) {
            let steps =
                pairs.iter().take(FEW_PAIRS).map(|&cpus| Step::RemoteCopies { distance: *distance, cpus });
            self.steps.extend(steps);
        }
    }

    /// Makes a step and adds what it found.
    pub(crate) fn run(&self, step: &Step, time: Duration, samples: &mut Samples) -> io::Result<()> {
        let cpu = self.cpu;
        let found = match step {
            Step::Updates => lines::updates_ps(cpu, time)?,
            Step::FutexCalls => futexes::calls_ns(cpu, time)?,
            Step::Wakes => futexes::wakes_ns(cpu, time)?,
            Step::Sends { bytes } => pipes::sends_ns(cpu, *bytes, time)?,
            Step::Processes => pipes::between_processes_ns(cpu, time)?,
            Step::Lines { cpus, .. } => lines::transfers_ps(*cpus, time)?,
            Step::Futexes { cpus, .. } => futexes::handovers_ns(*cpus, time)?,
            Step::Pipes { cpus, .. } => pipes::handovers_ns(*cpus, time)?,
            Step::Interrupts { cpus, .. } => interrupts::round_trips_ns(*cpus, time)?,
            Step::Idle { at, cpus } => {
                let sleep_ns = idle::sleep_ns(&self.states, *at);
                let exits = idle::exits(*cpus, &self.states[*at], sleep_ns, time)?;
                samples.entered.insert(*at, (exits.entered, exits.wakes_ns.len() as u64));
                samples.cold_percent.insert(*at, exits.cold_percent);
                exits.wakes_ns
            }
            Step::Threads { cpus, work } => {
                let speeds = throughput::speeds(cpus, *work, time)?;
                for (busy, speed) in (1..).zip(speeds) {
                    samples.values.entry(format!("smt_speed.{busy}")).or_default().push(speed);
                }
                return Ok(());
            }
            Step::Copies { cpus, .. } => self.copied(cpus, cpus, time)?,
            Step::RemoteCopies { cpus: (at, home), .. } => {
                let own = self.copied(&[*at], &[*at], time / 2)?;
                let far = self.copied(&[*at], &[*home], time / 2)?;
                far.iter().zip(own).map(|(far, own)| (far * 100 / own.max(1)).clamp(1, 100)).collect()
            }
        };
        samples.values.entry(step.quantity()).or_default().extend(found);
        Ok(())
    }

    /// Several copies, each with new arrays, because the places of pages differ.
    fn copied(&self, cpus: &[u32], homes: &[u32], time: Duration) -> io::Result<Vec<u64>> {
        let bytes = throughput::array_bytes(self.caches_bytes, cpus.len(), time);
        (0..3).map(|_| throughput::copied_mb_per_s(cpus, homes, bytes, time / 3)).collect()
    }
}

impl Step {
    /// The quantity that the step measures.
    pub(crate) fn quantity(&self) -> String {
        match self {
            Step::Updates => "atomic_ps".into(),
            Step::FutexCalls => "futex_ns".into(),
            Step::Wakes => "wake_call_ns".into(),
            Step::Sends { bytes } => format!("send_ns.{bytes}"),
            Step::Processes => "process_handover_ns.cpu".into(),
            Step::Lines { distance, .. } => format!("line_transfer_ps.{}", distance.name()),
            Step::Futexes { distance, .. } => format!("futex_handover_ns.{}", distance.name()),
            Step::Pipes { distance, .. } => format!("pipe_handover_ns.{}", distance.name()),
            Step::Interrupts { distance, .. } => format!("interrupt_round_trip_ns.{}", distance.name()),
            Step::Idle { at, .. } => format!("idle_wake_ns.{at}"),
            Step::Threads { .. } => "smt_speed".into(),
            Step::Copies { limit, .. } => format!("bandwidth_mb_per_s.{limit}"),
            Step::RemoteCopies { distance, .. } => format!("remote_bandwidth_percent.{}", distance.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use wakelab_machine::Machine;

    use super::*;

    fn plan(machine: &str, cpus: &[u32]) -> Plan {
        let topology = Machine::preset(machine).unwrap().topology;
        Plan::new(Path::new("/nonexistent"), &topology, cpus, 0)
    }

    fn quantities(plan: &Plan) -> BTreeSet<String> {
        plan.steps.iter().map(Step::quantity).collect()
    }

    #[test]
    fn every_distance_has_steps() {
        let all: Vec<u32> = (0..88).collect();
        let plan = plan("xeon-2s22c2t", &all);
        let found = quantities(&plan);
        for distance in ["smt", "llc", "numa1"] {
            for quantity in
                ["line_transfer_ps", "futex_handover_ns", "pipe_handover_ns", "interrupt_round_trip_ns"]
            {
                assert!(found.contains(&format!("{quantity}.{distance}")), "{quantity}.{distance}");
            }
        }
        assert!(
            found.contains("remote_bandwidth_percent.numa1") && found.contains("bandwidth_mb_per_s.machine")
        );
        assert!(!found.contains("bandwidth_mb_per_s.llc"), "it is the node's");
        assert_eq!(plan.steps.iter().filter(|step| step.quantity() == "line_transfer_ps.llc").count(), PAIRS);
        assert_eq!(plan.missing, ["idle_states: sysfs has no cpuidle states"]);
        // Core 0 of CPUs 0 and 44, and a thread a core in copies.
        let threads = plan.steps.iter().find_map(|step| match step {
            Step::Threads { cpus, .. } => Some(cpus.clone()),
            _ => None,
        });
        assert_eq!(threads, Some(vec![0, 44]));
        let node = plan.steps.iter().find_map(|step| match step {
            Step::Copies { limit: "node", cpus } => Some(cpus.clone()),
            _ => None,
        });
        assert_eq!(node, Some((0..22).collect()));
    }

    #[test]
    fn clusters_and_several_caches_a_node() {
        let found = quantities(&plan("kunpeng920-1n24c", &(0..24).collect::<Vec<_>>()));
        assert!(found.contains("bandwidth_mb_per_s.cluster") && found.contains("line_transfer_ps.cluster"));
        let found = quantities(&plan("epyc-7713-2s", &(0..256).collect::<Vec<_>>()));
        assert!(found.contains("bandwidth_mb_per_s.llc"));
    }

    #[test]
    fn what_one_cpu_and_no_siblings_leave_out() {
        let one = plan("smp-8", &[3]);
        assert_eq!(
            one.missing,
            ["one CPU can be used: nothing between CPUs is measured", "smt_speed: no core has two threads"]
        );
        assert!(one.steps.iter().all(|step| !matches!(step, Step::Lines { .. } | Step::Idle { .. })));
        let halves = plan("xeon-2s22c2t", &[0, 1]);
        assert!(halves.missing.contains(&"smt_speed: of no core all threads can be used".to_owned()));
    }
}
