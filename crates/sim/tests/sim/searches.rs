// SPDX-License-Identifier: GPL-2.0-or-later
//! Time in idle searches and their steps.

use wakelab_machine::{Distance, Machine};
use wakelab_sim::{HostProfile, Outcome, SearchTime};
use wakelab_workload::{Op, Task};

use crate::common::{bound, compute, machine, outcome, scenario, task};

/// A read costs 1 ns on the own CPU, 10 in the core, 40 in the LLC, and is never a hit; the fixed part costs 100.
fn priced() -> Machine {
    let mut machine = machine(1, 2, 2);
    machine.costs.reads_may_hit = false;
    machine.costs.select_ns = 100;
    for (distance, ps) in [(Distance::Cpu, 1_000), (Distance::Smt, 10_000), (Distance::Llc, 40_000)] {
        machine.costs.line_transfer_ps[distance.index()] = ps;
    }
    machine.costs.tick_period_ns = 100_000_000;
    machine
}

/// CPUs 0 and 1 are a core, 2 and 3 another. The task that CPU 0 wakes, at 10 us, last ran on CPU 2.
fn wake_once(policy: &str, machine: Machine, others: &[u32]) -> Outcome {
    let wakee = Task { allowed: Some(vec![0, 2, 3]), ..task(2, vec![Op::Wait { signal: 0 }]) };
    let mut tasks = vec![wakee, bound(&[0], vec![compute(10_000), Op::Signal { signal: 0, sync: false }])];
    tasks.extend(others.iter().map(|&cpu| Task { start_ns: 500, ..bound(&[cpu], vec![compute(1_000_000)]) }));
    let mut scenario = scenario(machine, tasks, HostProfile::Mainline);
    scenario.policy = policy.parse().unwrap();
    outcome(&scenario)
}

fn once(time_ns: u64, reads: u64) -> SearchTime {
    SearchTime { searches: 1, time_ns, reads }
}

/// CPU 2 is busy: target, 40; has_idle_cores, of CPU 0 itself, 1; step 1 reads 2 and 3, then 0 and 1, 80 + 1 + 10, and
/// finds both cores busy; step 2 reads 2 and 3, 80, and takes CPU 3. With the fixed part 100 + 40 + 1 + 91 + 80 = 312.
/// After step 1 it clears has_idle_cores, which CPU 2 read when it last turned idle: 40 more, which are the search's
/// and no step's.
#[test]
fn each_step_has_its_reads() {
    let run = wake_once("linux-4.15+affine=off", priced(), &[2]);
    let times = run.search_times;
    assert_eq!(run.reasons["idle-cpu"], 1);
    assert_eq!(
        [times.whole, times.rest, times.idle_core, times.idle_cpu, times.idle_cpu_after_core],
        [once(352, 8), once(1, 1), once(91, 4), once(80, 2), once(80, 2)]
    );
    assert_eq!(run.time.select_ns, 352);
    assert_eq!(
        (run.counts.searches, run.counts.search_reads),
        (1 + 1, 6 + 2),
        "all but those of CPU 0 itself; and the wakee's start"
    );
}

/// The same with CPU 1 busy too, where two busy threads run at half speed: everything takes twice as long.
#[test]
fn a_busy_sibling_makes_all_steps_longer() {
    let mut machine = priced();
    machine.costs.smt_speed = vec![1024, 512];
    let times = wake_once("linux-4.15+affine=off", machine, &[1, 2]).search_times;
    assert_eq!(
        [times.whole, times.rest, times.idle_core, times.idle_cpu],
        [once(704, 8), once(2, 1), once(182, 4), once(160, 2)]
    );
}

/// An idle target ends the search at once: 100 + 40. No step is reached.
#[test]
fn a_search_that_target_ends_has_no_steps() {
    let times = wake_once("linux-4.15+affine=off", priced(), &[]).search_times;
    assert_eq!(times.whole, once(140, 1));
    assert_eq!([times.rest, times.idle_core, times.idle_cpu], [SearchTime::default(); 3]);
}

/// Wake-affine reads before the search begins: `always` looks at the loads of CPU 0 and CPU 2, 1 + 40.
#[test]
fn what_wake_affine_reads_is_not_the_searchs() {
    let run = wake_once("linux-4.15", priced(), &[2]);
    let off = wake_once("linux-4.15+affine=off", priced(), &[2]);
    assert_eq!(run.search_times.idle_core, off.search_times.idle_core);
    assert_eq!(run.search_times.whole, off.search_times.whole);
    assert_eq!(run.time.select_ns - off.time.select_ns, 41);
}

/// A descent has one step; a placement after fork has none.
#[test]
fn other_designs_have_their_own() {
    let times = wake_once("linux-4.15+idle=smt-balance+affine=off", priced(), &[2]).search_times;
    assert_eq!((times.whole.searches, times.rest.searches), (1, 1));
    assert_eq!(times.whole.time_ns - times.rest.time_ns, 140, "target and the fixed part");
    assert_eq!((times.idle_core.searches, times.idle_cpu.searches), (0, 0));
}
