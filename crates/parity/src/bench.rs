// SPDX-License-Identifier: GPL-2.0-or-later
//! Nanoseconds per search in the kernel, by machine size, load and idle design.
//!
//! A figure is the median of repetitions. Each repetition is a loop of many searches inside one BPF program, less the
//! same loop without the search. Designs take turns within a repetition, so that a slow phase of the machine affects
//! all of them.

use anyhow::Result;
use wakelab_policy::{Event, EventKind, PolicySpec, Tables};

use crate::episodes::install;
use crate::hammer::tell;
use crate::kernel::{Kernel, types};
use crate::native::IDLE_MASK;
use crate::random::Random;
use crate::topology::BENCH;

/// The target time of a repetition: long compared with a clock read, and short compared with a time slice, so that most
/// repetitions, and so the median, are not interrupted.
const REPETITION_NS: u64 = 500_000;
const REPETITIONS: usize = 41;
/// Searches whose reads are counted.
const COUNTED: u32 = 2_000;

const BENCH_OVERHEAD: u32 = 0;
const BENCH_SEARCH: u32 = 1;
const BENCH_COUNT: u32 = 2;
const BENCH_ALONE: u32 = 3;

/// A column: an idle design, and how far it may scan.
#[derive(Clone, Debug)]
struct Column {
    name: String,
    spec: PolicySpec,
    /// Average idle time of the searching CPU, which limits `scan`'s second step.
    avg_idle_ns: u64,
}

/// Every value of the axis `idle`, and `scan` at its limit. `rotor` and `affine` do not matter here, because there is
/// one search per wake-up, and this is prev.
fn columns() -> Vec<Column> {
    let idle =
        PolicySpec::axes().iter().find(|axis| axis.name == "idle").expect("policies search for idle CPUs");
    let spec = |value: &str| format!("linux-4.15+idle={value}").parse().expect("a value of the axis");
    let of =
        |value: &'static str| Column { name: value.to_owned(), spec: spec(value), avg_idle_ns: 1_000_000 };
    let mut columns: Vec<Column> = idle.values.iter().map(|value| of(value.name)).collect();
    columns.insert(1, Column { name: "scan, at its limit of 4".to_owned(), avg_idle_ns: 0, ..of("scan") });
    columns
}

/// The part of a wake-up that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Part {
    /// The whole `wl_select()`.
    Select,
    /// The idle search in it, from the look at target on.
    Search,
}

impl Part {
    pub(crate) const ALL: [Part; 2] = [Part::Select, Part::Search];

    fn program(self) -> u32 {
        match self {
            Part::Select => BENCH_SEARCH,
            Part::Search => BENCH_ALONE,
        }
    }
}

/// How much of the machine is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    AllBusy,
    OneIdle,
    HalfIdle,
}

const LOADS: [Load; 3] = [Load::AllBusy, Load::OneIdle, Load::HalfIdle];

impl Load {
    fn name(self) -> &'static str {
        match self {
            Load::AllBusy => "all busy",
            Load::OneIdle => "one idle",
            Load::HalfIdle => "half idle",
        }
    }
}

/// A figure, and what it was computed from.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Figure {
    pub(crate) nr_cpus: usize,
    pub(crate) machine: String,
    pub(crate) load: &'static str,
    pub(crate) design: String,
    pub(crate) part: Part,
    /// Median over repetitions, overhead subtracted; picoseconds, so that it is an integer.
    pub(crate) median_ps: u64,
    /// Lower and upper quartile of the repetitions.
    pub(crate) quartiles_ps: [u64; 2],
    /// Median of the overhead that was subtracted.
    pub(crate) overhead_ps: u64,
    /// Reads of other CPUs' and groups' state, per 1,000 searches.
    pub(crate) reads_per_1000: u64,
    /// Searches per 1,000 that found an idle CPU.
    pub(crate) found_per_1000: u64,
    pub(crate) repetitions: usize,
    pub(crate) searches_per_repetition: u32,
}

/// Times every machine of [`BENCH`]. Calls `note` before each machine.
pub(crate) fn bench(kernel: &mut Kernel, seed: u64, note: &mut dyn FnMut(&str)) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (index, shape) in BENCH.iter().enumerate() {
        note(&format!("timing searches on {shape}"));
        for load in LOADS {
            let setup = Setup::new(index, load, seed);
            figures.extend(setup.time(kernel)?);
        }
    }
    Ok(figures)
}

/// One machine under one load.
struct Setup {
    index: usize,
    load: Load,
    nr_cpus: usize,
    busy: Vec<u32>,
    idle: Vec<u32>,
}

/// The repetitions of one column.
#[derive(Default)]
struct Samples {
    rounds: u32,
    search_ps: Vec<u64>,
    overhead_ps: Vec<u64>,
    reads: u64,
    found: u64,
}

impl Setup {
    /// The idle CPU is in socket 0, and so are all wakers, so they can find it. With half of the CPUs idle, they are
    /// random.
    fn new(index: usize, load: Load, seed: u64) -> Setup {
        let topology = BENCH[index].topology();
        let mut cpus: Vec<u32> = (0..topology.cpus.len() as u32).collect();
        Random::new(seed, index as u64).shuffle(&mut cpus);
        let in_socket = |cpu: &u32| topology.cpus[*cpu as usize].llc == 0;
        let idle: Vec<u32> = match load {
            Load::AllBusy => Vec::new(),
            Load::OneIdle => cpus.iter().copied().filter(in_socket).take(1).collect(),
            Load::HalfIdle => cpus.iter().copied().take(cpus.len() / 2).collect(),
        };
        let busy = cpus.into_iter().filter(|cpu| !idle.contains(cpu)).collect();
        Setup { index, load, nr_cpus: topology.cpus.len(), busy, idle }
    }

    fn time(&self, kernel: &mut Kernel) -> Result<Vec<Figure>> {
        let mut samples: Vec<Samples> = Vec::new();
        let columns = columns();
        let timed = || columns.iter().flat_map(|column| Part::ALL.map(|part| (column, part)));
        for (column, part) in timed() {
            self.enter(kernel, column)?;
            let pilot = 1_000;
            let pilot_ns = run(kernel, part.program(), pilot)?.elapsed_ns.max(1);
            let rounds = (u64::from(pilot) * REPETITION_NS / pilot_ns).clamp(100, 100_000) as u32;
            let counted = run(kernel, BENCH_COUNT, COUNTED)?;
            samples.push(Samples {
                rounds,
                reads: counted.reads,
                found: counted.found,
                ..Samples::default()
            });
        }
        for _ in 0..REPETITIONS {
            for ((column, part), samples) in timed().zip(&mut samples) {
                self.enter(kernel, column)?;
                run(kernel, part.program(), samples.rounds / 10)?; // warms caches
                let overhead = run(kernel, BENCH_OVERHEAD, samples.rounds)?;
                let search = run(kernel, part.program(), samples.rounds)?;
                let each = |ns: u64| ns * 1_000 / u64::from(samples.rounds);
                samples.overhead_ps.push(each(overhead.elapsed_ns));
                samples.search_ps.push(each(search.elapsed_ns.saturating_sub(overhead.elapsed_ns)));
            }
        }
        Ok(timed().zip(samples).map(|((column, part), samples)| self.figure(column, part, samples)).collect())
    }

    fn figure(&self, column: &Column, part: Part, mut samples: Samples) -> Figure {
        samples.search_ps.sort_unstable();
        samples.overhead_ps.sort_unstable();
        let per_1000 = |count: u64| count * 1_000 / u64::from(COUNTED);
        Figure {
            nr_cpus: self.nr_cpus,
            machine: BENCH[self.index].to_string(),
            load: self.load.name(),
            design: column.name.clone(),
            part,
            median_ps: quantile(&samples.search_ps, 2),
            quartiles_ps: [quantile(&samples.search_ps, 1), quantile(&samples.search_ps, 3)],
            overhead_ps: quantile(&samples.overhead_ps, 2),
            reads_per_1000: per_1000(samples.reads),
            found_per_1000: per_1000(samples.found),
            repetitions: REPETITIONS,
            searches_per_repetition: samples.rounds,
        }
    }

    /// Puts the BPF state into this load, under this column's policy.
    fn enter(&self, kernel: &mut Kernel, column: &Column) -> Result<()> {
        let spec = &column.spec;
        let topology = BENCH[self.index].topology();
        let tables = Tables::build(&topology, spec)?;
        install(kernel, spec, &tables, 4_000_000, 0)?;
        let on = |kind: EventKind, cpu: u32| (Event { cpu, ..Event::new(kind, cpu, 1_000_000) }, None);
        let task = |task: u32| {
            let event =
                Event { value: 1 + u64::from(task), weight: 1024, ..Event::new(EventKind::TaskInit, 0, 0) };
            (event, Some(task))
        };
        let busy = self.busy.iter().map(|&cpu| on(EventKind::Busy, cpu));
        let in_mask = |cpu: u32| (Event { kind: IDLE_MASK, cpu, value: 1, ..Event::default() }, None);
        let idle = self.idle.iter().flat_map(|&cpu| [on(EventKind::Idle, cpu), in_mask(cpu)]);
        tell(kernel, [task(0), task(1)].into_iter().chain(busy).chain(idle))?;

        let memory = kernel.memory();
        memory.wl_memory.policy.cpu.iter_mut().for_each(|cpu| cpu.avg_idle_ns = column.avg_idle_ns);
        let wakers: Vec<u32> =
            self.busy.iter().copied().filter(|&cpu| topology.cpus[cpu as usize].llc == 0).collect();
        memory.bench_waker[..wakers.len()].copy_from_slice(&wakers);
        memory.bench_args.nr_wakers = wakers.len() as u32;
        memory.bench_args.restore_cpu = self.idle.first().copied().unwrap_or(u32::MAX);
        memory.bench_args.now_ns = 1_000_000;
        Ok(())
    }
}

fn run(kernel: &mut Kernel, what: u32, nr_rounds: u32) -> Result<types::parity_bench_args> {
    let args = &mut kernel.memory().bench_args;
    args.what = what;
    args.nr_rounds = nr_rounds;
    kernel.bench()?;
    Ok(kernel.memory().bench_args)
}

/// The quartile number `quarter` of sorted samples, the nearest one.
fn quantile(sorted: &[u64], quarter: usize) -> u64 {
    sorted[(sorted.len() - 1) * quarter / 4]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_samples() {
        let sorted: Vec<u64> = (0..=8).map(|n| n * 10).collect();
        assert_eq!([1, 2, 3].map(|quarter| quantile(&sorted, quarter)), [20, 40, 60]);
        assert_eq!(quantile(&[5], 3), 5);
    }

    #[test]
    fn loads_idle_as_many_cpus_as_they_say_and_wakers_are_left() {
        for (index, shape) in BENCH.iter().enumerate() {
            let topology = shape.topology();
            let setups = LOADS.map(|load| Setup::new(index, load, 1));
            assert_eq!(setups.each_ref().map(|setup| setup.idle.len()), [0, 1, topology.cpus.len() / 2]);
            let wakes = |&cpu: &u32| topology.cpus[cpu as usize].llc == 0;
            assert!(setups.iter().all(|setup| setup.busy.iter().any(wakes)));
        }
    }
}
