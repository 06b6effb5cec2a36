// SPDX-License-Identifier: GPL-2.0-or-later
//! Mutexes: the worked example of crates/trace/src/flows/locks.rs, and what is none.

use wakelab_trace::Recording;
use wakelab_trace::flows::{FlowCount, FlowKind};
use wakelab_workload::Op;

use crate::executor::execute;
use crate::script::{Script, compute, program};

const LOCK: Op = Op::Lock { lock: 0 };
const UNLOCK: Op = Op::Unlock { lock: 0 };
const ADDRESS: u64 = 0x1000;

impl Script {
    /// The current task waits for the mutex at `address`, or wakes one that does.
    pub(crate) fn futex(
        &mut self,
        cpu: u32,
        time_ns: u64,
        current: u32,
        address: u64,
        waits: bool,
    ) -> &mut Self {
        let (op, value) = if waits { (0, 2) } else { (1, 1) };
        let fields = format!("uaddr: {address:#x}, op: {op:#010x}, val: {value:#010x}, utime: 0x00000000");
        self.event(cpu, time_ns, current, "syscalls:sys_enter_futex", &fields)
    }
}

/// ROUNDS times in 130 ns: t1 on CPU 0 gives back the mutex at 100. t2 on CPU 1 waited for it since 90, runs from 102
/// on, and gives it back at 110, if it does.
fn contended(rounds: u64, gives_back: bool) -> Recording {
    contended_as_seen(rounds, gives_back, true)
}

/// The same, where the switch to t2 is seen, or told by an account of its run time.
fn contended_as_seen(rounds: u64, gives_back: bool, switch_seen: bool) -> Recording {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 0, "R", 2);
    for round in 0..rounds {
        let at = |time_ns: u64| 130 * round + time_ns;
        script.futex(1, at(90), 2, ADDRESS, true).switch(1, at(90), 2, "S", 0);
        script.futex(0, at(100), 1, ADDRESS, false).waking(0, at(100), 1, 2);
        if switch_seen {
            script.switch(1, at(102), 0, "R", 2);
        }
        if gives_back {
            script.futex(1, at(110), 2, ADDRESS, false);
        }
        script.runtime(1, at(112), 2, 2, 10);
    }
    let end = 130 * rounds;
    script.switch(0, end, 1, "X", 0).switch(1, end, 2, "X", 0);
    script.explained()
}

#[test]
fn a_holder_has_it_until_it_wakes_and_since_others_waited() {
    let recording = contended(10, true);
    let flow = recording.explained.flows[&FlowKind::Mutex];
    assert_eq!(flow, FlowCount { pairs: 1, wakeups: 10, added: 10 });
    assert!(recording.workload.locks.iter().all(|lock| lock.recorded) && recording.workload.locks.len() == 1);
    // It took it 8 before it gave it back, which is after t2's wait: so just before that.
    let first = [compute(90), LOCK, compute(10), UNLOCK];
    let others = [compute(120), LOCK, compute(10), UNLOCK].repeat(9);
    assert_eq!(program(&recording, "t1"), [&first[..], &others, &[compute(30)]].concat());
    // t2 works for 8 with it.
    let first = [compute(90), LOCK, compute(8), UNLOCK];
    let others = [compute(110), LOCK, compute(8), UNLOCK].repeat(9);
    assert_eq!(program(&recording, "t2"), [&first[..], &others, &[compute(20)]].concat());
}

/// As above, but t1 has it again when t2 comes at 102: t2 waits again at 105, is woken at 108, runs from 109 on, and
/// gives it back at 115. What it did from 102 to 105 is not its work with it.
#[test]
fn what_was_done_in_vain_is_left_out() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 0, "R", 2);
    for round in 0..10 {
        let at = |time_ns: u64| 130 * round + time_ns;
        script.futex(1, at(90), 2, ADDRESS, true).switch(1, at(90), 2, "S", 0);
        script.futex(0, at(100), 1, ADDRESS, false).waking(0, at(100), 1, 2).switch(1, at(102), 0, "R", 2);
        script.futex(1, at(105), 2, ADDRESS, true).switch(1, at(105), 2, "S", 0);
        script.futex(0, at(108), 1, ADDRESS, false).waking(0, at(108), 1, 2).switch(1, at(109), 0, "R", 2);
        script.futex(1, at(115), 2, ADDRESS, false);
    }
    script.switch(0, 1_300, 1, "X", 0).switch(1, 1_300, 2, "X", 0);
    let workload = script.explained().workload;
    assert_eq!((workload.locks.len(), workload.locks[0].retry_ns), (1, 3));
    let t2 = workload.tasks.iter().find(|task| task.name == "t2").expect("t2");
    let first = [compute(90), LOCK, compute(6), UNLOCK];
    let others = [compute(105), LOCK, compute(6), UNLOCK].repeat(9);
    assert_eq!(t2.program, [&first[..], &others, &[compute(15)]].concat());
}

/// An idle CPU is taken to switch to a woken task at once, until an account of the task tells better.
#[test]
fn calls_move_with_the_switch_in_before_them() {
    let [seen, told] = [true, false].map(|seen| contended_as_seen(10, true, seen).workload);
    assert_eq!(told.tasks, seen.tasks);
}

/// A t1 that comes 1,000 later finds it free, and t2 waits for nobody.
#[test]
fn waits_vanish_if_the_holder_comes_later() {
    let mut workload = contended(10, true).workload;
    workload.tasks[0].program[0] = compute(5_000);
    assert_eq!(execute(&workload), Ok(vec![5_000 + 10 + 9 * 130 + 30, 98 + 9 * 118 + 20]));
}

/// t2 waits again and again, and never gives anything back: it takes what t1 makes.
#[test]
fn what_is_never_given_back_is_no_mutex() {
    let recording = contended(10, false);
    assert!(!recording.explained.flows.contains_key(&FlowKind::Mutex));
    assert!(recording.workload.locks.is_empty());
}

/// As above, but t2 is woken by t1 twice more in each round, for something else.
#[test]
fn a_mutex_among_other_waits_keeps_its_signals() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 0, "R", 2);
    for round in 0..10 {
        let at = |time_ns: u64| 130 * round + time_ns;
        for other in [30, 60] {
            script.switch(1, at(other), 2, "S", 0).waking(0, at(other + 5), 1, 2);
            script.switch(1, at(other + 6), 0, "R", 2);
        }
        script.futex(1, at(90), 2, ADDRESS, true).switch(1, at(90), 2, "S", 0);
        script.futex(0, at(100), 1, ADDRESS, false).waking(0, at(100), 1, 2);
        script.switch(1, at(102), 0, "R", 2).futex(1, at(110), 2, ADDRESS, false);
    }
    script.switch(0, 1_300, 1, "X", 0).switch(1, 1_300, 2, "X", 0);
    assert!(script.explained().workload.locks.is_empty());
}

#[test]
fn a_few_waits_show_no_mutex() {
    assert!(contended(7, true).workload.locks.is_empty());
}

/// t1 and t2 take turns; each holds the mutex, and t1 yields before it gives it back. In the fifth round t1 yields
/// twice more, and nobody waited for it then. t2 works for twice its usual time then, so that it takes the mutex once
/// more.
#[test]
fn a_task_that_yields_in_its_holds_yields_in_others() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 0, "R", 2);
    let yields = |script: &mut Script, at: u64| {
        script.event(0, at, 1, "syscalls:sys_enter_sched_yield", "");
    };
    let mut end = 0;
    for round in 0..10 {
        let at = |time_ns: u64| end + time_ns;
        script.futex(1, at(10), 2, ADDRESS, true).switch(1, at(10), 2, "S", 0);
        yields(&mut script, at(16));
        script.futex(0, at(20), 1, ADDRESS, false).waking(0, at(20), 1, 2).switch(1, at(20), 0, "R", 2);
        script.futex(1, at(30), 2, ADDRESS, false);
        if round == 4 {
            yields(&mut script, at(50));
            yields(&mut script, at(70));
            end += 50;
        }
        end += 50;
    }
    script.switch(0, end, 1, "X", 0).switch(1, end, 2, "X", 0);
    let recording = script.explained();
    let flow = recording.explained.flows[&FlowKind::Mutex];
    assert_eq!(flow, FlowCount { pairs: 1, wakeups: 10, added: 13 });
    let hold = [LOCK, compute(6), Op::Yield, compute(4), UNLOCK];
    let t1 = program(&recording, "t1");
    assert_eq!(t1[..6], [&[compute(10)][..], &hold].concat()[..]);
    assert_eq!(t1.windows(5).filter(|ops| *ops == hold).count(), 12, "{t1:?}");
    execute(&recording.workload).expect("no task waits for ever");
}

/// The worked example's rounds without what the two do in every fourth one, where neither waited: their holds are found
/// by the work between two others.
#[test]
fn what_is_done_again_and_again_is_done_in_between() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 0, "R", 2);
    for round in 0..20 {
        let at = |time_ns: u64| 130 * round + time_ns;
        if round % 4 == 3 {
            continue;
        }
        script.futex(1, at(90), 2, ADDRESS, true).switch(1, at(90), 2, "S", 0);
        script.futex(0, at(100), 1, ADDRESS, false).waking(0, at(100), 1, 2);
        script.switch(1, at(100), 0, "R", 2).futex(1, at(110), 2, ADDRESS, false);
    }
    script.switch(0, 2_600, 1, "X", 0).switch(1, 2_600, 2, "X", 0);
    let recording = script.explained();
    let flow = recording.explained.flows[&FlowKind::Mutex];
    assert_eq!(flow, FlowCount { pairs: 1, wakeups: 15, added: 15 + 2 * 4 });
    let round = [compute(120), LOCK, compute(10), UNLOCK];
    let holds = program(&recording, "t1").windows(4).filter(|ops| **ops == round).count();
    assert_eq!(holds, 18, "{:?}", program(&recording, "t1"));
}

/// On one CPU, t1 loses it four times in a round, once with the mutex. Only then t2 comes for it, waits, and holds it
/// for 10. So t1 does a quarter of its work with the mutex, 10 at a time: it takes it every 40 of its 1,610 in a round.
#[test]
fn preemptions_tell_how_often_a_mutex_is_held() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1);
    for round in 0..10 {
        let at = |time_ns: u64| 2_000 * round + time_ns;
        for slice in 0..3 {
            script.switch(0, at(500 * slice + 400), 1, "R", 2).switch(0, at(500 * slice + 500), 2, "R", 1);
        }
        script.switch(0, at(1_900), 1, "R", 2);
        script.futex(0, at(1_910), 2, ADDRESS, true).switch(0, at(1_910), 2, "S", 1);
        script.futex(0, at(1_915), 1, ADDRESS, false).waking(0, at(1_915), 1, 2);
        script.switch(0, at(1_920), 1, "R", 2);
        script.futex(0, at(1_930), 2, ADDRESS, false).switch(0, at(2_000), 2, "R", 1);
    }
    script.switch(0, 20_000, 1, "X", 2).switch(0, 20_000, 2, "X", 0);
    let recording = script.explained();
    let flow = recording.explained.flows[&FlowKind::Mutex];
    assert_eq!(flow, FlowCount { pairs: 1, wakeups: 10, added: 10 + 9 * 39 });
    let t1 = program(&recording, "t1");
    assert!(t1.windows(3).filter(|ops| **ops == [LOCK, compute(10), UNLOCK]).count() > 340, "{t1:?}");
    execute(&recording.workload).expect("no task waits for ever");
}

/// Two tasks that take two mutexes in opposite orders, one inside the other, would wait for each other.
#[test]
fn mutexes_in_a_circle_keep_their_signals() {
    let mut script = Script::default();
    script.switch(0, 0, 0, "R", 1).switch(1, 0, 0, "R", 2);
    let mut at = 0;
    for _ in 0..10 {
        for (waits, holds) in [(1, 2), (2, 1)] {
            for address in [ADDRESS, 2 * ADDRESS] {
                let address = if waits == 1 { address } else { 3 * ADDRESS - address };
                // It waits for one, and for the other one while it has that, and gives back both at the end.
                script.futex(waits - 1, at + 10, waits, address, true);
                script.switch(waits - 1, at + 10, waits, "S", 0);
                script.futex(holds - 1, at + 20, holds, address, false);
                script.waking(holds - 1, at + 20, holds, waits);
                script.switch(waits - 1, at + 20, 0, "R", waits);
                at += 20;
            }
            script.futex(waits - 1, at + 5, waits, ADDRESS, false);
            script.futex(waits - 1, at + 6, waits, 2 * ADDRESS, false);
            at += 10;
        }
    }
    script.switch(0, at, 1, "X", 0).switch(1, at, 2, "X", 0);
    let recording = script.explained();
    assert!(recording.workload.locks.is_empty());
    assert_eq!(recording.workload.signals, 40);
    execute(&recording.workload).expect("no task waits for ever");
}
