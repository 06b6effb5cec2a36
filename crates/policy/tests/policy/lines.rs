// SPDX-License-Identifier: GPL-2.0-or-later
//! host_lines.h: which reads are hits, and which misses.

use std::collections::BTreeSet;

use proptest::prelude::*;
use wakelab_machine::Distance;
use wakelab_policy::{Policy, SelectIn, Task};

use crate::host::{machine, policy, reads};

/// A search on `reader` that reads the line of `cpu` and no other: hit or miss.
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

/// The header's example, and a third CPU.
#[test]
fn a_write_by_another_cpu_makes_the_next_read_a_miss() {
    let mut policy = policy("linux-4.15", &machine(1, None, 4, 1));
    assert!(!read(&mut policy, 1, 0), "the first read");
    assert_eq!(policy.seen().misses, reads(&[(Distance::Llc, 1)]));
    assert!(read(&mut policy, 1, 0), "nobody wrote it since");
    assert_eq!(policy.seen().hits, reads(&[(Distance::Llc, 1)]));
    policy.busy(0, 1_000);
    assert!(!read(&mut policy, 1, 0), "CPU 0 did");
    assert!(!read(&mut policy, 2, 0), "CPU 2 never had it");
    assert!(read(&mut policy, 1, 0), "others' reads take nothing away");
    assert!(read(&mut policy, 0, 0), "who wrote it has it");
    policy.busy(0, 2_000);
    assert!(read(&mut policy, 1, 0), "told twice: nothing was written");
}

/// Lines of other kinds: counters, which belong to smt-balance alone, and what an LLC shares.
#[test]
fn counters_and_flags_are_lines_too() {
    let mut policy = policy("linux-4.15+idle=smt-balance", &machine(1, None, 2, 2));
    policy.busy(2, 0);
    assert_eq!(policy.seen().updated(), [0], "CPUs 0 and 2 are core 0");
    policy.busy(1, 0);
    assert_eq!(policy.seen().updated(), [1]);
    policy.busy(1, 0);
    assert!(policy.seen().updated().is_empty(), "told twice");
    policy.idle(1, 10);
    assert_eq!(policy.seen().updated(), [1]);
    // has_idle_cores is set from the start: that is all it has to look at.
    assert_eq!(policy.seen().misses, reads(&[(Distance::Llc, 1)]));
    policy.busy(1, 20);
    policy.idle(1, 30);
    assert_eq!(policy.seen().hits, reads(&[(Distance::Llc, 1)]));

    let mut scan = crate::host::policy("linux-4.15", &machine(1, None, 2, 2));
    scan.busy(2, 0);
    assert!(scan.seen().updated().is_empty(), "scan keeps no counters");
}

/// 130 CPUs: a set of holders has three words.
const CPUS: u32 = 130;

#[derive(Clone, Copy, Debug)]
enum Step {
    Read { reader: u32, cpu: u32 },
    Write { cpu: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    // Few of them, so that they meet, from each word.
    let cpu = || prop::sample::select(vec![0, 1, 63, 64, 65, 127, 128, 129]);
    prop_oneof![
        3 => (cpu(), cpu()).prop_map(|(reader, cpu)| Step::Read { reader, cpu }),
        1 => cpu().prop_map(|cpu| Step::Write { cpu }),
    ]
}

proptest! {
    /// As sets of holders, written down plainly.
    #[test]
    fn hits_are_those_of_sets_of_holders(steps in prop::collection::vec(step(), 1..200)) {
        let mut policy = policy("linux-4.15", &machine(1, None, CPUS, 1));
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
                    holders[cpu as usize] = BTreeSet::from([cpu]);
                }
            }
        }
    }
}
