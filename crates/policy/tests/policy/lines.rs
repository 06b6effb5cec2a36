// SPDX-License-Identifier: GPL-2.0-or-later
//! host/lines.h: which reads are hits, and which misses; what writes wait for.

use std::collections::BTreeSet;

use proptest::prelude::*;
use wakelab_machine::Distance;
use wakelab_policy::{EnqueueWhy, Policy, SelectIn, Taken, Task};

use crate::host::{Host, machine, policy, reads};

/// A search on `reader` that reads only the line of `cpu`. Returns whether the read was a hit.
fn read(policy: &mut Policy, reader: u32, cpu: u32) -> bool {
    let mut task = Task::default();
    policy.task_init(&mut task, 1, 1024, 0);
    policy.set_affinity(&mut task, Some(&[cpu]));
    let input = SelectIn { this_cpu: reader as i32, prev_cpu: cpu as i32, ..SelectIn::default() };
    let decision = policy.select(&input, &mut task, None);
    let seen = policy.seen();
    let (hits, misses) = (seen.hits.total(), seen.misses.total());
    assert_eq!((hits + misses, decision.reads.total()), (1, 1));
    misses == 0
}

/// The lines that the last call updated, and the distance of the farthest other holder of each.
fn updated(policy: &Policy) -> Vec<(u32, u32)> {
    policy.seen().updated().collect()
}

fn taken(from: Distance, had: Distance) -> Taken {
    Taken { from: from.index() as u32, had: had.index() as u32 }
}

const NONE: Taken = Taken { from: 0, had: 0 };

/// The first half of the header's example, and a third CPU.
#[test]
fn a_write_by_another_cpu_makes_the_next_read_a_miss() {
    let mut policy = policy("linux-4.15", &machine(1, None, 4, 1));
    assert!(!read(&mut policy, 1, 0), "the first read");
    assert_eq!(policy.seen().misses, reads(&[(Distance::Llc, 1)]));
    assert!(read(&mut policy, 1, 0), "no CPU wrote it since");
    assert_eq!(policy.seen().hits, reads(&[(Distance::Llc, 1)]));
    policy.busy(0, 1_000);
    assert!(!read(&mut policy, 1, 0), "CPU 0 did");
    assert!(!read(&mut policy, 2, 0), "CPU 2 never had it");
    assert!(read(&mut policy, 1, 0), "others' reads take nothing away");
    assert!(read(&mut policy, 0, 0), "who wrote it has it");
    policy.busy(0, 2_000);
    assert!(read(&mut policy, 1, 0), "told twice: nothing was written");
}

/// The header's example: CPUs 0 and 1 share an LLC, CPU 9 is of the other socket.
#[test]
fn a_write_waits_for_the_farthest_of_the_others() {
    let mut policy = policy("linux-4.15", &machine(2, None, 8, 1));
    read(&mut policy, 1, 0);
    assert_eq!(policy.seen().taken, NONE, "a read takes nothing");
    policy.busy(0, 1_000);
    assert_eq!(policy.seen().taken, taken(Distance::Llc, Distance::Cpu));
    read(&mut policy, 1, 0);
    read(&mut policy, 9, 0);
    read(&mut policy, 0, 0);
    policy.idle(0, 2_000);
    assert_eq!(policy.seen().taken, taken(Distance::Numa1, Distance::Cpu), "from CPU 9; CPU 1 is nearer");
    policy.busy(0, 3_000);
    assert_eq!(policy.seen().taken, NONE, "it had the line alone");
}

/// To queue a task, a CPU takes the runqueue's lock, and so fetches the line for writing. CPU 0 runs. CPU 1 has read
/// the line before: it takes it from CPU 0. CPU 9 fetches it from CPU 1, which is as far away as the line's owner, so
/// there is no further wait. CPU 1 fetches it back, at the price of a transfer from CPU 0, although CPU 9 has it. CPU 0
/// takes it back from CPU 1.
#[test]
fn queueing_fetches_the_line_for_writing() {
    let mut policy = policy("linux-4.15", &machine(2, None, 8, 1));
    let mut tasks: [Task; 3] = Default::default();
    for (id, task) in (1..).zip(&mut tasks) {
        policy.task_init(task, id, 1024, 0);
    }
    let [first, second, third] = &mut tasks;
    policy.busy(0, 0);
    read(&mut policy, 1, 0);
    policy.enqueue_from(1, first, 0, EnqueueWhy::Wakeup, 0);
    assert_eq!(policy.seen().hits.at[Distance::Llc.index()], 1);
    assert_eq!(policy.seen().taken, taken(Distance::Llc, Distance::Cpu));
    policy.enqueue_from(9, second, 0, EnqueueWhy::Wakeup, 0);
    assert_eq!(policy.seen().taken, NONE);
    policy.enqueue_from(1, third, 0, EnqueueWhy::Wakeup, 0);
    assert_eq!(policy.seen().misses.at[Distance::Llc.index()], 2, "the line and `overloaded`");
    assert_eq!(policy.seen().taken, taken(Distance::Numa1, Distance::Llc));
    policy.running(first, 0, 10);
    assert_eq!(policy.seen().taken, taken(Distance::Llc, Distance::Cpu));
    policy.stopping(first, 0, 20, false);
    assert_eq!(policy.seen().taken, NONE, "no other CPU held it in between");
}

/// All four threads of two cores are busy. CPU 1 searches, and reads the counters of both cores; it was the last to
/// hold its own. CPU 0's next update of core 0's counter takes it from CPU 1, and the one after that from no CPU.
#[test]
fn an_update_takes_the_line_from_its_readers() {
    let mut host = Host::new(policy("linux-4.15+idle=smt-balance", &machine(1, None, 2, 2)));
    for cpu in [2, 0, 3, 1] {
        host.policy.busy(cpu, 0);
        host.policy.set_idle_mask(cpu, false);
    }
    host.policy.idle(0, 10);
    assert_eq!(updated(&host.policy), [(0, 0)], "CPU 0 counted last");
    host.policy.busy(0, 20);
    let mut task = host.sleeper(1024, 1);
    let input = SelectIn { this_cpu: 1, prev_cpu: 1, now_ns: 30, ..SelectIn::default() };
    host.policy.select(&input, &mut task, None);
    host.policy.idle(0, 40);
    assert_eq!(updated(&host.policy), [(0, Distance::Llc.index() as u32)]);
    host.policy.busy(0, 50);
    assert_eq!(updated(&host.policy), [(0, 0)]);
    host.policy.idle(2, 60);
    assert_eq!(updated(&host.policy), [(0, Distance::Smt.index() as u32)], "from CPU 0");
}

/// Lines of other kinds: counters, which only smt-balance has, and lines that an LLC shares.
#[test]
fn counters_and_flags_are_lines_too() {
    let mut policy = policy("linux-4.15+idle=smt-balance", &machine(1, None, 2, 2));
    policy.busy(2, 0);
    assert_eq!(updated(&policy), [(0, 0)], "CPUs 0 and 2 are core 0");
    policy.busy(1, 0);
    assert_eq!(updated(&policy), [(1, 0)]);
    policy.busy(1, 0);
    assert_eq!(updated(&policy), [], "told twice");
    policy.idle(1, 10);
    assert_eq!(updated(&policy), [(1, 0)]);
    // has_idle_cores is set from the start, so it only reads that.
    assert_eq!(policy.seen().misses, reads(&[(Distance::Llc, 1)]));
    policy.busy(1, 20);
    policy.idle(1, 30);
    assert_eq!(policy.seen().hits, reads(&[(Distance::Llc, 1)]));

    let mut scan = crate::host::policy("linux-4.15", &machine(1, None, 2, 2));
    scan.busy(2, 0);
    assert_eq!(updated(&scan), [], "scan keeps no counters");
}

/// Two sockets of 65 CPUs: a set of holders has three words.
const CPUS: u32 = 130;

#[derive(Clone, Copy, Debug)]
enum Step {
    Read { reader: u32, cpu: u32 },
    Write { cpu: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    // A few CPUs in each word, so that they meet.
    let cpu = || prop::sample::select(vec![0, 1, 63, 64, 65, 127, 128, 129]);
    prop_oneof![
        3 => (cpu(), cpu()).prop_map(|(reader, cpu)| Step::Read { reader, cpu }),
        1 => cpu().prop_map(|cpu| Step::Write { cpu }),
    ]
}

proptest! {
    /// The same as sets of holders, in plain form.
    #[test]
    fn hits_and_waits_are_those_of_sets_of_holders(steps in prop::collection::vec(step(), 1..200)) {
        let mut policy = policy("linux-4.15", &machine(2, None, CPUS / 2, 1));
        let mut holders = vec![BTreeSet::new(); CPUS as usize];
        let mut busy = vec![false; CPUS as usize];
        for step in steps {
            match step {
                Step::Read { reader, cpu } => {
                    let expected = !holders[cpu as usize].insert(reader);
                    prop_assert_eq!(read(&mut policy, reader, cpu), expected, "{:?}", step);
                }
                Step::Write { cpu } => {
                    busy[cpu as usize] ^= true;
                    if busy[cpu as usize] { policy.busy(cpu, 0) } else { policy.idle(cpu, 0) }
                    let others = std::mem::replace(&mut holders[cpu as usize], BTreeSet::from([cpu]));
                    let distance = |other: u32| match () {
                        () if other == cpu => Distance::Cpu,
                        () if other / 65 == cpu / 65 => Distance::Llc,
                        () => Distance::Numa1,
                    };
                    let farthest = others.into_iter().map(distance).max().unwrap_or(Distance::Cpu);
                    prop_assert_eq!(policy.seen().taken, taken(farthest, Distance::Cpu), "{:?}", step);
                }
            }
        }
    }
}
