// SPDX-License-Identifier: GPL-2.0-or-later
//! push.h. One LLC of 2 cores x 2 threads, CPU c and c + 2 sharing a core, unless said otherwise.

use wakelab_policy::{DispatchDo, EnqueueWhy, Task};

use crate::host::{Host, MS, machine, policy};

fn host(spec: &str) -> Host {
    Host::new(policy(spec, &machine(1, None, 2, 2)))
}

/// Returns the CPU that a tick on the task's CPU kicks.
fn kicked(host: &mut Host, task: &mut Task) -> i32 {
    host.policy.tick(task.cpu as u32, Some(task), host.now_ns).kick_cpu
}

/// Returns the CPU to which the task goes when it is put back now.
fn put_back(host: &mut Host, task: &mut Task) -> i32 {
    let cpu = task.cpu as u32;
    host.policy.stopping(task, cpu, host.now_ns, true);
    host.policy.enqueue(task, cpu, EnqueueWhy::SliceEnd, host.now_ns).cpu
}

/// The header's example.
#[test]
fn the_fourth_try_pushes() {
    let mut host = host("linux-6.12+balance=load");
    let (mut a, mut b) = (host.running(1024, 0), host.running(1024, 2));
    for (tick_ms, pushes) in [(0, -1), (4, -1), (8, -1), (12, 0)] {
        host.now_ns = tick_ms * MS;
        assert_eq!(kicked(&mut host, &mut a), 1, "at {tick_ms} ms");
        assert_eq!(kicked(&mut host, &mut b), -1, "CPU 1 has had its try");
        let dispatch = host.policy.dispatch(1, host.now_ns);
        assert_eq!((dispatch.what(), dispatch.push_cpu), (DispatchDo::Nothing, pushes), "at {tick_ms} ms");
        assert_eq!(host.policy.dispatch(1, host.now_ns).push_cpu, -1, "a mark is used up");
        host.now_ns += 3 * MS;
        assert_eq!(kicked(&mut host, &mut a), -1, "not due");
    }
    assert_eq!(put_back(&mut host, &mut a), 1);
    host.switch_in(&mut a, 1);
    host.vacate(&[0]);
    host.now_ns = 40 * MS;
    assert_eq!((kicked(&mut host, &mut a), kicked(&mut host, &mut b)), (-1, -1), "no two tasks share a core");
}

#[test]
fn a_promise_is_kept_only_if_it_still_makes_sense() {
    let promised = |change: &dyn Fn(&mut Host, &mut Task)| {
        let mut host = host("linux-6.12+balance=load");
        let (mut a, _b) = (host.running(1024, 0), host.running(1024, 2));
        for turn in 0..4 {
            host.now_ns = turn * 4 * MS;
            kicked(&mut host, &mut a);
            host.policy.dispatch(1, host.now_ns);
        }
        change(&mut host, &mut a);
        put_back(&mut host, &mut a)
    };
    assert_eq!(promised(&|_, _| ()), 1);
    assert_eq!(promised(&|host, _| host.occupy(&[1])), 0, "the target is busy by now");
    assert_eq!(
        promised(&|host, a| host.policy.set_affinity(a, Some(&[0, 2]))),
        0,
        "not allowed there any more"
    );
    let slept = promised(&|host, a| {
        host.policy.quiescent(a, host.now_ns);
        host.policy.enqueue(a, 0, EnqueueWhy::Wakeup, host.now_ns);
        host.policy.running(a, 0, host.now_ns);
    });
    assert_eq!(slept, 0, "it slept meanwhile");
}

#[test]
fn no_cpu_is_asked_without_need() {
    let mut host = host("linux-6.12+push=off+balance=load");
    let (mut a, _b) = (host.running(1024, 0), host.running(1024, 2));
    assert_eq!(kicked(&mut host, &mut a), -1, "push=off");
    let mut host = self::host("linux-6.12+balance=load");
    let mut a = host.running(1024, 0);
    assert_eq!(kicked(&mut host, &mut a), -1, "it has its core for itself");
    let _others = (host.running(1024, 2), host.running(1024, 1));
    host.now_ns = 10 * MS;
    assert_eq!(kicked(&mut host, &mut a), -1, "CPU 3 idles, but shares its core");
    // All cores are shared, and the task goes to the other node only if it is allowed there.
    let mut host = Host::new(policy("linux-6.12+balance=load", &machine(2, None, 1, 2)));
    let (mut a, _b) = (host.running(1024, 0), host.running(1024, 2));
    assert_eq!(kicked(&mut host, &mut a), 1, "beyond the LLC");
    let (mut a, _b) = (host.running(1024, 0), host.running(1024, 2));
    host.policy.set_affinity(&mut a, Some(&[0, 2]));
    host.now_ns = 10 * MS;
    assert_eq!(kicked(&mut host, &mut a), -1);
}

#[test]
fn a_task_that_does_not_fit_moves_to_a_bigger_cpu() {
    let mut topology = machine(1, None, 4, 1);
    topology.cpus[..2].iter_mut().for_each(|cpu| cpu.capacity = 400);
    let mut host = Host::new(policy("linux-6.12+balance=load", &topology));
    let mut small = host.running(1024, 0);
    (small.util, small.util_slept) = (300 << 16, 300 << 16);
    assert_eq!(kicked(&mut host, &mut small), -1, "384000 < 409600: it fits");
    let mut task = host.running(1024, 1);
    task.util = 390 << 16;
    for turn in 0..4u64 {
        host.now_ns = turn * 4 * MS;
        assert_eq!(kicked(&mut host, &mut task), 2);
        let dispatch = host.policy.dispatch(2, host.now_ns);
        assert_eq!(dispatch.push_cpu, if turn == 3 { 1 } else { -1 });
    }
    assert_eq!(put_back(&mut host, &mut task), 2);
}
