// SPDX-License-Identifier: GPL-2.0-or-later
//! Barriers: the worked example of crates/trace/src/flows/barriers.rs, and what is none.

use wakelab_trace::flows::FlowKind;
use wakelab_workload::Op;

use crate::executor::execute;
use crate::script::{Script, compute, program};

const BARRIER: Op = Op::Barrier { barrier: 0 };

/// t1, t2 and t3 run on CPUs 0, 1 and 2.
fn three_run() -> Script {
    let mut script = Script::default();
    for cpu in 0..3 {
        script.switch(cpu, 0, 0, "R", cpu + 1);
    }
    script
}

/// In each phase of 30 they work for WORKS_NS; the last one wakes those that sleep.
fn phases(works_ns: &[[u64; 3]]) -> Script {
    phases_with_spins(works_ns, |_| false)
}

/// The same; in the phases that `spins` names, the first one spins until the last one comes.
fn phases_with_spins(works_ns: &[[u64; 3]], spins: impl Fn(usize) -> bool) -> Script {
    let mut script = three_run();
    let mut begin_ns = 0;
    for (phase, works_ns) in works_ns.iter().enumerate() {
        let mut in_order: Vec<(u64, u32)> = works_ns.iter().copied().zip(0..).collect();
        in_order.sort_unstable();
        let (sleepers, last) = (&in_order[usize::from(spins(phase))..2], in_order[2].1);
        for &(work_ns, cpu) in sleepers {
            script.switch(cpu, begin_ns + work_ns, cpu + 1, "S", 0);
        }
        begin_ns += 30;
        for &(_, cpu) in sleepers {
            script.waking(last, begin_ns, last + 1, cpu + 1);
        }
        for &(_, cpu) in sleepers {
            script.switch(cpu, begin_ns, 0, "R", cpu + 1);
        }
    }
    for cpu in 0..3 {
        script.switch(cpu, begin_ns + 5, cpu + 1, "X", 0);
    }
    script
}

#[test]
fn tasks_that_wait_for_each_other_have_a_barrier() {
    let works_ns = [[10, 20, 30], [20, 30, 10]].repeat(5);
    let recording = phases(&works_ns).explained();
    let flow = recording.explained.flows[&FlowKind::Barrier];
    assert_eq!((flow.pairs, flow.wakeups, flow.added), (1, 20, 0));
    assert_eq!(recording.workload.barriers.len(), 1);
    assert_eq!(recording.workload.barriers[0].parties, 3);
    let of = |works_ns: [u64; 2]| {
        let phases = works_ns.map(|work_ns| [compute(work_ns), BARRIER]).concat().repeat(5);
        [phases, vec![compute(5)]].concat()
    };
    assert_eq!(program(&recording, "t1"), of([10, 20]));
    assert_eq!(program(&recording, "t2"), of([20, 30]));
    assert_eq!(program(&recording, "t3"), of([30, 10]));
    // If t1 is slower by 1,000 in the first phase, all are.
    let mut workload = recording.workload.clone();
    assert_eq!(execute(&workload), Ok(vec![305; 3]));
    workload.tasks[0].program[0] = compute(1_010);
    assert_eq!(execute(&workload), Ok(vec![305 + 980; 3]));
}

/// t3 always is the last: it may as well be the master of two workers.
#[test]
fn a_master_that_wakes_its_workers_waits_for_nobody() {
    let recording = phases(&[[10, 20, 30]; 10]).explained();
    assert!(!recording.explained.flows.contains_key(&FlowKind::Barrier));
    assert!(recording.workload.barriers.is_empty());
    execute(&recording.workload).expect("no task waits for ever");
}

/// In the last phase t1 spins until t2 and t3 have come: it arrives when it is over.
#[test]
fn who_spins_arrives_at_the_release() {
    let mut works_ns = [[10, 20, 30], [20, 30, 10]].repeat(5);
    works_ns.push([10, 20, 30]);
    let last = works_ns.len() - 1;
    let recording = phases_with_spins(&works_ns, |phase| phase == last).explained();
    let flow = recording.explained.flows[&FlowKind::Barrier];
    assert_eq!((flow.pairs, flow.wakeups, flow.added), (1, 21, 1));
    let t1 = program(&recording, "t1");
    assert_eq!(t1[t1.len() - 3..], [compute(30), BARRIER, compute(5)]);
    execute(&recording.workload).expect("no task waits for ever");
}

/// In each phase all work for 1,000 and spin for 4,000, but for the last one, whose CPU lets it wait for 5,500 before.
/// What was done before the first phase is not known.
#[test]
fn a_spin_before_a_sleep_is_no_work() {
    let mut script = three_run();
    for phase in 0..30 {
        let begin_ns = 6_500 * phase;
        let last = (phase % 3) as u32;
        let late = ((phase + 1) % 3) as u32;
        for cpu in (0..3).filter(|&cpu| cpu != last) {
            script.switch(cpu, begin_ns + 5_000, cpu + 1, "S", 0);
        }
        // In the first phase nobody is late, so that its last one has worked for longer.
        if phase > 0 {
            script.switch(last, begin_ns + 5_500, 0, "R", last + 1);
        }
        for cpu in (0..3).filter(|&cpu| cpu != last) {
            script.waking(last, begin_ns + 6_500, last + 1, cpu + 1);
        }
        for cpu in (0..3).filter(|&cpu| cpu != last && cpu != late) {
            script.switch(cpu, begin_ns + 6_500, 0, "R", cpu + 1);
        }
    }
    let recording = script.explained();
    assert_eq!(recording.workload.barriers[0].spin_ns, 4_000);
    assert_eq!(program(&recording, "t2")[2..6], [compute(1_000), BARRIER, compute(1_000), BARRIER]);
    assert_eq!(recording.explained.left_out_ns, 58 * 4_000);
    execute(&recording.workload).expect("no task waits for ever");
}

/// In two of three phases one task spins, so that all the others are woken in a third of them.
#[test]
fn a_team_may_spin_more_often_than_it_sleeps() {
    let works_ns = [[10, 20, 30], [20, 30, 10]].repeat(15);
    let recording = phases_with_spins(&works_ns, |phase| phase % 3 > 0).explained();
    let flow = recording.explained.flows[&FlowKind::Barrier];
    assert_eq!((flow.pairs, flow.wakeups, flow.added), (1, 10 * 2 + 20, 20));
    execute(&recording.workload).expect("no task waits for ever");
}

/// As in the worked example, with the calls of futex(2). t3, or t2, wakes one task at 30 and the other at 36; that one
/// goes to sleep at 33 only, 2 after its call.
#[test]
fn one_call_is_one_release() {
    let mut script = three_run();
    for phase in 0..10 {
        let at = |time_ns: u64| 40 * phase + time_ns;
        let (last, late) = if phase % 2 == 0 { (2, 1) } else { (1, 2) };
        let wait = |script: &mut Script, cpu: u32, time_ns: u64| {
            let fields = "uaddr: 0x1000, op: 0x00000080, val: 0x00000005, utime: 0x00000000";
            script.event(cpu, time_ns, cpu + 1, "syscalls:sys_enter_futex", fields);
            script.switch(cpu, time_ns + 2, cpu + 1, "S", 0);
        };
        wait(&mut script, 0, at(10));
        script.futex(last, at(29), last + 1, 0x1000, false).waking(last, at(30), last + 1, 1);
        script.switch(0, at(30), 0, "R", 1);
        wait(&mut script, late, at(31));
        script.waking(last, at(36), last + 1, late + 1).switch(late, at(40), 0, "R", late + 1);
    }
    for cpu in 0..3 {
        script.switch(cpu, 405, cpu + 1, "X", 0);
    }
    let recording = script.explained();
    let flow = recording.explained.flows[&FlowKind::Barrier];
    assert_eq!((flow.pairs, flow.wakeups, flow.added), (1, 20, 0));
    assert!(recording.workload.barriers[0].recorded);
    let t2 = program(&recording, "t2");
    let barriers = t2.iter().filter(|op| **op == BARRIER).count();
    assert_eq!((barriers, &t2[..2]), (10, &[compute(31), BARRIER][..]), "it arrives at its call");
    execute(&recording.workload).expect("no task waits for ever");
}

/// As in the worked example, but from the tenth phase on t1 sleeps again while the call that woke it goes on, and is
/// woken by it once more.
#[test]
fn one_call_may_wake_a_member_twice() {
    let mut script = three_run();
    for phase in 0..20 {
        let at = |time_ns: u64| 40 * phase + time_ns;
        let (last, late) = if phase % 2 == 0 { (2, 1) } else { (1, 2) };
        script.switch(0, at(10), 1, "S", 0).switch(late, at(20), late + 1, "S", 0);
        script.futex(last, at(29), last + 1, 0x1000, false).waking(last, at(30), last + 1, 1);
        script.switch(0, at(30), 0, "R", 1);
        let twice = phase >= 10;
        if twice {
            script.switch(0, at(32), 1, "S", 0);
        }
        script.waking(last, at(34), last + 1, late + 1).switch(late, at(36), 0, "R", late + 1);
        if twice {
            script.waking(last, at(36), last + 1, 1).switch(0, at(36), 0, "R", 1);
        }
    }
    for cpu in 0..3 {
        script.switch(cpu, 805, cpu + 1, "X", 0);
    }
    let recording = script.explained();
    let flow = recording.explained.flows[&FlowKind::Barrier];
    assert_eq!((flow.pairs, flow.wakeups, flow.added), (1, 50, 0));
    let barriers = program(&recording, "t1").iter().filter(|op| **op == BARRIER).count();
    assert_eq!(barriers, 20);
    execute(&recording.workload).expect("no task waits for ever");
}

/// Two tasks that wake each other twice by one call are no team of three.
#[test]
fn two_tasks_are_no_team() {
    let mut script = three_run();
    for phase in 0..20 {
        let at = |time_ns: u64| 40 * phase + time_ns;
        let (last, first) = if phase % 2 == 0 { (1, 0) } else { (0, 1) };
        script.switch(first, at(10), first + 1, "S", 0);
        script.futex(last, at(29), last + 1, 0x1000, false).waking(last, at(30), last + 1, first + 1);
        script.switch(first, at(30), 0, "R", first + 1).switch(first, at(32), first + 1, "S", 0);
        script.waking(last, at(34), last + 1, first + 1).switch(first, at(34), 0, "R", first + 1);
    }
    let recording = script.explained();
    assert_eq!(recording.explained.flows.get(&FlowKind::Barrier).map(|flow| flow.pairs), None);
}
