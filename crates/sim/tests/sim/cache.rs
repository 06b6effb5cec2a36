// SPDX-License-Identifier: GPL-2.0-or-later
//! Cache refill: which task fetches what, by the rule of cache.rs.

use wakelab_machine::{Distance, Machine};
use wakelab_workload::{Op, Task};

use crate::common::{HOSTS, bound, compute, machine, outcome, scenario, sleep};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Caches of 1 MiB per core (256 KiB in two tests) and 4 MiB per LLC. A line of 64 bytes takes 1 ns from the own LLC, 2
/// ns from another core of it (3 ns in a cluster of it), 4 ns from another LLC. 64 KiB are 1,024 lines.
fn cached(llcs: u32, cores: u32, threads: u32) -> Machine {
    let mut machine = machine(llcs, cores, threads);
    machine.costs.core_cache_bytes = MIB;
    machine.costs.llc_cache_bytes = 4 * MIB;
    machine.costs.line_transfer_ps = [0, 0, 3_000, 2_000, 0, 4_000, 4_000, 4_000];
    machine.costs.llc_hit_ps = 1_000;
    machine
}

fn with_footprint(footprint_bytes: u64, task: Task) -> Task {
    Task { footprint_bytes, ..task }
}

const WAIT: Op = Op::Wait { signal: 0 };
const SIGNAL: Op = Op::Signal { signal: 0, sync: false };

/// The worked example of cache.rs, of 256 KiB. A and B ran on CPU 0 before. A runs; B fetches the 64 KiB that do not
/// fit beside A's, and wakes A, which preempts it (B is new, and has its start debit) and fetches the 64 KiB that B
/// pushed out; B fetches as many again, and exits.
#[test]
fn what_others_pushed_out_is_fetched_again() {
    for host in HOSTS {
        let a = with_footprint(192 * KIB, bound(&[0], vec![compute(100), WAIT, compute(100)]));
        let b = with_footprint(128 * KIB, bound(&[0], vec![compute(100), SIGNAL]));
        let mut machine = cached(1, 1, 1);
        machine.costs.core_cache_bytes = 256 * KIB;
        let run = outcome(&scenario(machine, vec![a, b], host));
        assert_eq!(run.time.cache_refill_ns, 3 * 1024, "{host:?}");
        assert_eq!(run.elapsed_ns, 300 + 3 * 1024, "{host:?}");
    }
}

/// In 1 MiB, 256 and 64 KiB fit beside each other.
#[test]
fn sets_that_fit_together_stay() {
    for host in HOSTS {
        let a = with_footprint(256 * KIB, bound(&[0], vec![compute(100), WAIT, compute(100)]));
        let b = with_footprint(64 * KIB, bound(&[0], vec![compute(100), SIGNAL]));
        let run = outcome(&scenario(cached(1, 1, 1), vec![a, b], host));
        assert_eq!((run.time.cache_refill_ns, run.elapsed_ns), (0, 300), "{host:?}");
    }
}

/// B's 3 MiB push out everything that the core has of A, 1 MiB of A's 2: 16,384 lines. B fetches as much, twice.
#[test]
fn no_more_than_the_caches_hold() {
    for host in HOSTS {
        let a = with_footprint(2 * MIB, bound(&[0], vec![compute(100), WAIT, compute(100)]));
        let b = with_footprint(3 * MIB, bound(&[0], vec![compute(100), SIGNAL]));
        let run = outcome(&scenario(cached(1, 1, 1), vec![a, b], host));
        assert_eq!(run.time.cache_refill_ns, 3 * 16_384, "{host:?}");
    }
}

/// A task that is interrupted by ticks, or sleeps while no other task runs, fetches nothing.
#[test]
fn a_task_that_comes_back_first_fetches_nothing() {
    for host in HOSTS {
        let program = vec![compute(5_000_000), sleep(10_000_000), compute(100)];
        let run = outcome(&scenario(cached(1, 1, 1), vec![with_footprint(MIB, bound(&[0], program))], host));
        assert!(run.counts.ticks > 3, "{host:?}");
        assert_eq!(run.time.cache_refill_ns, 0, "{host:?}");
    }
}

/// CPUs 0 and 1 are threads of a core of 256 KiB. A on CPU 0 (192 KiB) and B on CPU 1 (128 KiB) run in turn, three
/// times each: every time but the first 64 KiB are missing.
#[test]
fn smt_threads_share_the_core_s_caches() {
    for host in HOSTS {
        let again =
            |first_ns| vec![compute(first_ns), sleep(100_000), compute(100), sleep(100_000), compute(100)];
        let a = with_footprint(192 * KIB, bound(&[0], again(100)));
        let b = with_footprint(128 * KIB, Task { start_ns: 1_000, ..bound(&[1], again(50_000)) });
        let mut machine = cached(1, 1, 2);
        machine.costs.core_cache_bytes = 256 * KIB;
        let run = outcome(&scenario(machine, vec![a, b], host));
        assert_eq!(run.time.cache_refill_ns, 5 * 1024, "{host:?}");
    }
}

/// From another core of the LLC: the core's part, 1 MiB of 2, 16,384 lines of 2 ns. From another LLC: all 2 MiB, 32,768
/// lines of 4 ns. To the sibling of the thread that it left: nothing.
#[test]
fn after_a_move_everything_is_fetched_from_there() {
    for host in HOSTS {
        for (cpu, distance, ns) in
            [(1, Distance::Smt, 0), (2, Distance::Llc, 2 * 16_384), (4, Distance::Numa1, 4 * 32_768)]
        {
            let mut moved = with_footprint(2 * MIB, bound(&[cpu], vec![compute(100)]));
            moved.last_cpu = Some(0);
            let run = outcome(&scenario(cached(2, 2, 2), vec![moved], host));
            assert_eq!(run.time.cache_refill_ns, ns, "{host:?} {distance:?}");
            assert_eq!(run.migrations[distance.index()], 1);
        }
    }
}
