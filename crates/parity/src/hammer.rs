// SPDX-License-Identifier: GPL-2.0-or-later
//! Two threads on one BPF state, and what they must conserve.
//!
//! Each thread flips its own CPUs between busy and idle (they interleave, so both threads hammer every group's
//! counter), searches from them for idle CPUs anywhere, and queues, runs and stops its own tasks. When both are done:
//! - a group's counter is the number of its CPUs whose state is busy, and no other counter has changed;
//! - every CPU's token is where it belongs: in the idle mask, or with the CPU itself while it is busy. None was
//!   doubled, so no claim was given to two searches; none was lost, so no CPU seems busy for ever;
//! - with idle=nearest, a CPU that looks idle has its bit, and a block with a bit or a wholly idle core is in its LLC's
//!   summary, and an LLC with such a block has its bit, so no idle CPU is hidden from searches;
//! - once all tasks are gone, no CPU counts any task, running or queued, and no load, and neither does a task group.

use std::fmt;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use wakelab_policy::{CpuActivity, Event, EventKind, PolicySpec, Tables};

use crate::episodes::install;
use crate::events::for_bpf;
use crate::kernel::{GROUPS, Kernel, types};
use crate::native::IDLE_MASK;
use crate::random::Random;
use crate::topology::Shape;

/// `HAMMER_THREADS` in hammer.h.
const THREADS: u32 = 2;
const TASKS_PER_THREAD: u32 = 64;
/// Rounds of a call. There are several calls, so that the threads meet in many ways.
const ROUNDS: u32 = 10_000;
const CALLS: u32 = 3;

const CPU_BUSY: u32 = CpuActivity::Busy as u32;

/// Small machines, so that the threads meet often; with cores, a cluster level above them, and two LLCs.
const SHAPES: [Shape; 2] = [
    Shape { nodes: 1, llcs: 2, clusters: 0, cores: 4, threads: 4 },
    Shape { nodes: 2, llcs: 1, clusters: 2, cores: 8, threads: 2 },
];

/// What the threads did.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(crate) struct Hammered {
    pub(crate) runs: u64,
    pub(crate) flips: u64,
    pub(crate) searches: u64,
    pub(crate) claims: u64,
    /// Claims that the other thread won, which show that the threads did meet.
    pub(crate) lost_claims: u64,
    pub(crate) task_steps: u64,
    pub(crate) elapsed_ms: u64,
}

/// Two threads left a wrong state.
#[derive(Debug)]
pub(crate) struct NotConserved {
    pub(crate) seed: u64,
    pub(crate) policy: String,
    pub(crate) machine: String,
    /// The errors, one line each.
    pub(crate) lines: Vec<String>,
}

impl fmt::Display for NotConserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "two threads broke the state of {} on {}:", self.policy, self.machine)?;
        for line in self.lines.iter().take(20) {
            writeln!(f, "    {line}")?;
        }
        write!(
            f,
            "  again: cargo xtask parity --no-bench --seed {} (threads interleave differently each time)",
            self.seed
        )
    }
}

impl std::error::Error for NotConserved {}

/// Hammers each of `policies` on each machine.
///
/// # Errors
/// [`NotConserved`] at the first machine and policy with an error.
pub(crate) fn hammer(kernel: &mut Kernel, seed: u64, policies: &[PolicySpec]) -> Result<Hammered> {
    let mut total = Hammered::default();
    let begin = Instant::now();
    for (index, spec) in policies.iter().enumerate() {
        for (machine, shape) in SHAPES.iter().enumerate() {
            let topology = shape.topology();
            let tables = Tables::build(&topology, spec)?;
            install(kernel, spec, &tables, 4_000_000, GROUPS)?;
            let random = Random::new(seed, (index * SHAPES.len() + machine) as u64);
            let wrong = hammer_one(kernel, spec, &tables, random, &mut total)?;
            if !wrong.is_empty() {
                let (policy, machine) = (spec.to_string(), shape.to_string());
                return Err(NotConserved { seed, policy, machine, lines: wrong }.into());
            }
            total.runs += 1;
        }
    }
    total.elapsed_ms = begin.elapsed().as_millis() as u64;
    Ok(total)
}

fn hammer_one(
    kernel: &mut Kernel,
    spec: &PolicySpec,
    tables: &Tables,
    mut random: Random,
    total: &mut Hammered,
) -> Result<Vec<String>> {
    let nr_cpus = tables.nr_cpus() as u32;
    let tasks: Vec<u32> = (0..THREADS * TASKS_PER_THREAD).collect();
    let begins = |&task: &u32| {
        let id = 1 + u64::from(task);
        (Event { value: id, weight: 1024, ..event(EventKind::TaskInit) }, Some(task))
    };
    tell(kernel, tasks.iter().map(begins))?;
    // A binary tree of groups below the root, and tasks in all of them.
    let group =
        |slot| Event { slot, parent: (slot - 1) / 2, weight: 512 * slot, ..event(EventKind::GroupInit) };
    tell(kernel, (1..GROUPS).map(|slot| (group(slot), None)))?;
    let joins = |&task: &u32| (Event { slot: task % GROUPS, ..event(EventKind::Group) }, Some(task));
    tell(kernel, tasks.iter().map(joins))?;
    tell(kernel, (0..nr_cpus).map(|cpu| (Event { cpu, ..event(EventKind::Idle) }, None)))?;
    let in_mask = |cpu| Event { kind: IDLE_MASK, cpu, value: 1, ..Event::default() };
    tell(kernel, (0..nr_cpus).map(|cpu| (in_mask(cpu), None)))?;

    for thread in 0..THREADS as usize {
        kernel.memory().hammer_args[thread] = types::parity_hammer_args {
            seed: random.any() | 1, // xorshift stays at 0
            now_ns: 1_000_000,
            nr_threads: THREADS,
            nr_rounds: ROUNDS,
            nr_cpus,
            ..Default::default()
        };
    }
    let mut doubled = 0;
    for _ in 0..CALLS {
        let shared: &Kernel = kernel;
        thread::scope(|scope| {
            let threads = [0, 1].map(|thread| scope.spawn(move || shared.hammer(thread)));
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().expect("no panic in a thread that makes one call"))
        })
        .context("hammering")?;
        for args in &kernel.memory().hammer_args {
            total.flips += args.flips;
            total.searches += args.searches;
            total.claims += args.claims;
            total.lost_claims += args.lost_claims;
            total.task_steps += args.moves;
            doubled += args.doubled;
        }
    }

    let mut wrong = Vec::new();
    if doubled > 0 {
        wrong.push(format!("{doubled} idle CPUs were claimed twice"));
    }
    check_tokens(kernel, nr_cpus, &mut wrong);
    check_counters(kernel, tables, &mut wrong);
    check_blocks(kernel, spec, tables, &mut wrong);
    let now_ns = kernel.memory().hammer_args.iter().map(|args| args.now_ns).max().unwrap_or(0);
    let sleeps = Event { now_ns, ..event(EventKind::Quiescent) };
    tell(kernel, tasks.iter().map(|&task| (sleeps, Some(task))))?;
    check_nothing_runs(kernel, spec, nr_cpus, &mut wrong)?;
    Ok(wrong)
}

fn check_tokens(kernel: &mut Kernel, nr_cpus: u32, wrong: &mut Vec<String>) {
    let memory = kernel.memory();
    for cpu in 0..nr_cpus as usize {
        let in_mask = (memory.wl_memory.idle_mask[cpu / 64] >> (cpu % 64)) & 1;
        let with_cpu = u64::from(memory.hammer_cpu[cpu].token);
        if in_mask + with_cpu != 1 {
            let state = memory.wl_memory.policy.cpu[cpu].state;
            wrong.push(format!(
                "CPU {cpu} (state {state}): {} claims of it leaked",
                1 - (in_mask + with_cpu).cast_signed()
            ));
        }
    }
}

fn check_counters(kernel: &mut Kernel, tables: &Tables, wrong: &mut Vec<String>) {
    let state = &kernel.memory().wl_memory.policy;
    let mut expected = vec![0; state.counter.len()];
    for level in tables.levels.iter().filter(|level| level.has_counters) {
        for (cpu, &domain) in level.dom_of.iter().enumerate() {
            expected[level.counter_base as usize + domain as usize] +=
                u32::from(state.cpu[cpu].state == CPU_BUSY);
        }
    }
    for (index, (counter, &expected)) in state.counter.iter().zip(&expected).enumerate() {
        if counter.busy != expected {
            wrong
                .push(format!("counter {index} is {}, {expected} CPUs are busy", counter.busy.cast_signed()));
        }
    }
}

/// A bit of a busy CPU is left for searches to clear, and proves nothing.
fn check_blocks(kernel: &mut Kernel, spec: &PolicySpec, tables: &Tables, wrong: &mut Vec<String>) {
    let Some(blocks) = tables.blocks.as_ref().filter(|_| spec.traits().keeps_blocks != 0) else { return };
    let state = &kernel.memory().wl_memory.policy;
    let llc = &tables.levels[tables.llc_level];
    for (cpu, (&block, &slot)) in blocks.block_of.iter().zip(&blocks.slot_of).enumerate() {
        let words = &state.block[block as usize];
        let summary = &state.cpu[llc.domain(llc.dom_of[cpu] as usize)[0] as usize];
        let looks_idle = state.cpu[cpu].state != CPU_BUSY && state.cpu[cpu].nr_queued == 0;
        if looks_idle && words.idle >> slot & 1 == 0 {
            wrong.push(format!("CPU {cpu} idles, block {block} does not say so"));
        }
        let number = llc.dom_of[cpu] as usize;
        if summary.nearest_llc.idle_blocks != 0 && state.idle_llcs[number / 64] >> (number % 64) & 1 == 0 {
            wrong.push(format!("LLC {number} has an idle CPU, its bit does not say so"));
        }
        if words.idle != 0 && summary.nearest_llc.idle_blocks >> words.number & 1 == 0 {
            wrong.push(format!("block {block} has an idle CPU, its LLC does not say so"));
        }
        let core = ((1u128 << blocks.slots) - 1) as u64;
        let first = u32::from(slot) / blocks.slots * blocks.slots;
        let has_core = (words.idle | !words.present) >> first & core == core;
        if blocks.slots > 1 && has_core && summary.nearest_llc.core_blocks >> words.number & 1 == 0 {
            wrong.push(format!("block {block} has an idle core, its LLC does not say so"));
        }
    }
}

/// Checks the counts when all tasks are gone. If two threads changed a group's load at once, what it counts in its
/// parent may be old until its next task; so sums are compared with what children say that they count.
fn check_nothing_runs(
    kernel: &mut Kernel,
    spec: &PolicySpec,
    nr_cpus: u32,
    wrong: &mut Vec<String>,
) -> Result<()> {
    for number in 0..nr_cpus {
        let mut children = [(0u64, 0u32); GROUPS as usize];
        let records: Vec<_> =
            (1..GROUPS).map(|slot| kernel.group_cpu(slot, number, nr_cpus)).collect::<Result<_>>()?;
        for (slot, record) in (1..GROUPS).zip(&records) {
            let parent = &mut children[(slot as usize - 1) / 2];
            parent.0 += u64::from(record.counted);
            parent.1 += u32::from(record.counted != 0);
        }
        for (slot, record) in (1..).zip(&records) {
            let (load, nr) = children[slot];
            if (record.load, record.nr, record.exact.waiting, record.exact.running) != (load, nr, 0, 0) {
                wrong.push(format!(
                    "group {slot} on CPU {number}, all tasks gone, counts load {} of {} and not {load} of {nr}, {} \
                     waiting, {} running",
                    record.load.cast_signed(),
                    record.nr.cast_signed(),
                    record.exact.waiting.cast_signed(),
                    record.exact.running.cast_signed()
                ));
            }
        }
        let cpu = &kernel.memory().wl_memory.policy.cpu[number as usize];
        let total = children[0].0;
        let load = if spec.traits().load_has_groups != 0 { total } else { 0 };
        if (cpu.nr_queued, cpu.nr_running, cpu.exact_llc.waiting, cpu.load, cpu.total)
            != (0, 0, 0, load, total)
        {
            let (queued, running) = (cpu.nr_queued.cast_signed(), cpu.nr_running.cast_signed());
            wrong.push(format!(
                "CPU {number}, all tasks gone, counts {queued} queued, {running} running, {} waiting in its LLC, load {} \
                 and not {load}, total {} and not {total}",
                cpu.exact_llc.waiting.cast_signed(),
                cpu.load.cast_signed(),
                cpu.total.cast_signed()
            ));
        }
    }
    Ok(())
}

/// Tells events to the BPF build only.
pub(crate) fn tell(kernel: &mut Kernel, events: impl Iterator<Item = (Event, Option<u32>)>) -> Result<()> {
    let mut count = 0;
    for (event, task) in events {
        kernel.memory().events[count] = for_bpf(&event, task, None, 0);
        count += 1;
    }
    kernel.run_events(count)
}

fn event(kind: EventKind) -> Event {
    Event::new(kind, 0, 1_000_000)
}
