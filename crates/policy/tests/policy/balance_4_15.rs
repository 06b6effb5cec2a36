// SPDX-License-Identifier: GPL-2.0-or-later
//! balance_4_15.h.

use wakelab_policy::{BalanceWhy, Dispatch, DispatchDo, EnqueueWhy, Task};

use crate::host::{Host, MS, machine, policy};

fn host(nodes: u32, cores: u32, threads: u32) -> Host {
    Host::new(policy("linux-4.15", &machine(nodes, None, cores, threads)))
}

/// Ticks on CPU 0 every ms; the CPU that is kicked looks for all. Returns the first answer that says something.
fn first_answer(host: &mut Host, until_ms: u64) -> Option<(u64, i32, Dispatch)> {
    (host.now_ns / MS + 1..=until_ms).find_map(|ms| {
        host.now_ns = ms * MS;
        let kicked = host.policy.tick(0, None, host.now_ns).kick_cpu;
        let answer = host.policy.dispatch(u32::try_from(kicked).ok()?, host.now_ns);
        let says = answer.what() == DispatchDo::Pull || answer.push_cpu >= 0;
        says.then_some((ms, kicked, answer))
    })
}

/// The header's example: CPU c and c + 2 share a core. CPU 1 is due in the LLC after 3 ms, because it is the second of
/// 4, and then every 4 ms as long as something is found: at 4, 8, 12 and 16 ms.
#[test]
fn tasks_that_share_a_core_spread_after_failed_tries() {
    let mut host = host(1, 2, 2);
    let _tasks = (host.running(1024, 0), host.running(1024, 2));
    let (ms, kicked, answer) = first_answer(&mut host, 100).unwrap();
    assert_eq!((ms, kicked, answer.what(), answer.push_cpu), (16, 1, DispatchDo::Nothing, 0));
    let mut off = Host::new(policy("linux-4.15+push=off", &machine(1, None, 2, 2)));
    let _tasks = (off.running(1024, 0), off.running(1024, 2));
    assert!(first_answer(&mut off, 100).is_none());
}

/// Three cores; CPU c and c + 3 share one. A task runs on CPU 1, and two share core 0. CPU 2, the third of 6, is due at
/// 5 ms, and then every 6 ms. At 17 ms one of the two sleeps: that try finds nothing to do, so the next one is 12 ms
/// later, and the first of four in a row.
#[test]
fn a_try_that_finds_nothing_to_do_ends_the_row() {
    let mut host = host(1, 3, 2);
    let _others = (host.running(1024, 0), host.running(1024, 1));
    let mut sleeps = host.running(1024, 3);
    assert!(first_answer(&mut host, 16).is_none(), "tries at 5 and 11 ms have failed");
    host.policy.stopping(&mut sleeps, 3, host.now_ns, false);
    host.policy.quiescent(&mut sleeps, host.now_ns);
    host.vacate(&[3]);
    assert!(first_answer(&mut host, 17).is_none());
    let _again = host.running(1024, 3);
    let (ms, _, answer) = first_answer(&mut host, 100).unwrap();
    assert_eq!((ms, answer.push_cpu), (47, 0), "tries at 29, 35, 41 and 47 ms have failed");
}

/// After a push the interval is doubled: the next try is at 24 ms. If the task was moved, it takes four tries again; if
/// not, two.
#[test]
fn a_push_that_succeeds_ends_the_row() {
    for (moves, at_ms) in [(true, 36), (false, 28)] {
        let mut host = host(1, 2, 2);
        let (mut pushed, _stays) = (host.running(1024, 0), host.running(1024, 2));
        assert_eq!(first_answer(&mut host, 16).unwrap().2.push_cpu, 0);
        if moves {
            host.policy.stopping(&mut pushed, 0, host.now_ns, true);
            assert_eq!(host.policy.enqueue(&mut pushed, 0, EnqueueWhy::SliceEnd, host.now_ns).cpu, 1);
            host.policy.quiescent(&mut pushed, host.now_ns);
            host.running(1024, 0);
        }
        assert_eq!(first_answer(&mut host, 100).unwrap().0, at_ms);
    }
}

#[test]
fn an_overloaded_group_comes_before_one_with_more_load() {
    // Nodes of 4 CPUs. Node 1 runs three heavy tasks, node 2 five light ones on four CPUs.
    let mut host = host(3, 4, 1);
    host.occupy(&[0]);
    for cpu in [4, 5, 6] {
        host.running(4096, cpu);
    }
    for cpu in 8..12 {
        host.running(1024, cpu);
    }
    let _waits: [Task; 2] = [host.queued(4096, 4), host.queued(1024, 8)];
    let pull = host.policy.dispatch(0, 0);
    // Averages are 0, 4096, 1280 and 1792; node 2 has nothing above the average, so a mean task it is: 4 + 1 tasks are
    // more than two above none.
    assert_eq!((pull.what(), pull.why(), pull.cpu), (DispatchDo::Pull, BalanceWhy::NewlyIdle, 4));
    assert_eq!(
        (pull.level, pull.max_load),
        (2, 7168),
        "node 1 has 2 tasks more than node 0, so it is overloaded, too"
    );
    host.running(1024, 1);
    host.running(1024, 2);
    host.running(1024, 3);
    // Node 1 has 4 tasks, node 0 has 3: only node 2 is overloaded.
    let pull = host.policy.dispatch(0, 0);
    assert_eq!((pull.what(), pull.cpu, pull.max_load), (DispatchDo::Pull, 8, 1024));
}

/// Node 1: two tasks on CPU 4, and CPUs 5 to 7 idle; node 0: CPU 1 runs a task.
#[test]
fn a_newly_idle_cpu_goes_by_loads_and_one_that_idles_by_idle_cpus() {
    let mut host = host(2, 4, 1);
    host.running(1024, 1);
    let _others = (host.running(1024, 4), host.queued(1024, 4));
    host.occupy(&[0]);
    let pull = host.policy.dispatch(0, 0);
    // Averages are 256, 512 and 384: 512 may move, less than a task; but the groups differ by a task, which is 256 per
    // capacity, and 512 + 256 is no less than 256 + 2 * 256.
    assert_eq!((pull.what(), pull.cpu, pull.max_load), (DispatchDo::Pull, 4, 1024));
    // An idle CPU needs two idle CPUs more in its group: 0, 2 and 3 against 5, 6 and 7. So
    // CPU 7 finds it, because of those in the LLC of CPU 4 its first interval ends first.
    host.vacate(&[0]);
    let (_, cpu, pull) = first_answer(&mut host, 100).unwrap();
    assert_eq!((cpu, pull.what(), pull.cpu, pull.level), (7, DispatchDo::Pull, 4, 1));
}
