// SPDX-License-Identifier: GPL-2.0-or-later
//! The simulated hardware: a clock with the pending events, CPUs that execute segments, cores, caches and memory. It
//! knows neither tasks nor the kernel.

pub(crate) mod cache;
pub(crate) mod cpu;
pub(crate) mod line;
pub(crate) mod memory;
pub(crate) mod queue;
pub(crate) mod segment;
mod segments;
pub(crate) mod speed;
pub(crate) mod stream;

use wakelab_machine::{Costs, Machine};

use crate::hardware::cpu::{Core, Cpu};
use crate::hardware::memory::Memory;
use crate::hardware::queue::EventQueue;
use crate::ids::dense;
use crate::rng::{Purpose, Stream as Random};
use crate::time_use::TimeKind;

/// A machine that executes segments.
pub(crate) struct Hardware<'a> {
    pub(crate) costs: &'a Costs,
    pub(crate) now_ns: u64,
    pub(crate) queue: EventQueue,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) cores: Vec<Core>,
    /// Work done by all CPUs, by kind, in 1/1024 ns.
    pub(crate) done: [u128; TimeKind::COUNT],
    pub(crate) memory: Memory,
    /// What decides how long exits from idle take, by CPU; none if they do not differ.
    exits: Vec<Random>,
}

impl<'a> Hardware<'a> {
    /// The machine at time 0, every CPU idle.
    pub(crate) fn new(machine: &'a Machine, nr_tasks: usize, seed: u64) -> Hardware<'a> {
        let topology = &machine.topology;
        let core_of: Vec<u32> = dense(topology.cpus.iter().map(|cpu| cpu.core));
        let mut core_cpus = vec![Vec::new(); core_of.iter().max().map_or(0, |&last| last as usize + 1)];
        for (cpu, &core) in core_of.iter().enumerate() {
            core_cpus[core as usize].push(cpu as u32);
        }
        let cpus = topology.cpus.iter().zip(&core_of);
        let exits_vary = machine.costs.idle_states.iter().any(|state| state.exit_percent.varies());
        let nr_exits = if exits_vary { core_of.len() as u32 } else { 0 };
        Hardware {
            costs: &machine.costs,
            now_ns: 0,
            queue: EventQueue::new(topology.nr_cpus() as u32, nr_tasks as u32),
            cpus: cpus.map(|(cpu, &core)| Cpu::new(core, cpu.capacity, cpu.llc)).collect(),
            done: [0; TimeKind::COUNT],
            cores: core_cpus.into_iter().map(Core::new).collect(),
            memory: Memory::new(machine),
            exits: (0..nr_exits).map(|cpu| Random::new(seed, Purpose::IdleExit, cpu)).collect(),
        }
    }
}
