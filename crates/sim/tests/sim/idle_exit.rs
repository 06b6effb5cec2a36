// SPDX-License-Identifier: GPL-2.0-or-later
//! The idle state that a CPU leaves is its core's.

use wakelab_machine::{ExitSpread, IdleState};

use crate::common::{HOSTS, bound, compute, machine, outcome, scenario, sleep};

/// A shallow state is left in 10 ns, a deep one, entered after 1,000 ns, in 500. CPU 0 sleeps from 10 to 50,010; its
/// sibling is busy for a while from 10 on. Busy until the end: shallow. Until 500 ns before: shallow. Until 40,000 ns
/// before, or if there is no sibling: deep.
#[test]
fn a_busy_sibling_keeps_the_core_shallow() {
    for host in HOSTS {
        for (threads, sibling_ns, expected_ns) in
            [(2, Some(90_000), 10), (2, Some(49_500), 10), (2, Some(10_000), 500), (1, None, 500)]
        {
            let mut machine = machine(1, 1, threads);
            machine.costs.idle_states = vec![
                IdleState { after_ns: 0, exit_latency_ns: 10, ..IdleState::default() },
                IdleState { after_ns: 1_000, exit_latency_ns: 500, ..IdleState::default() },
            ];
            let mut tasks = vec![bound(&[0], vec![sleep(50_000), compute(100)])];
            tasks.extend(sibling_ns.map(|work_ns| bound(&[1], vec![compute(work_ns)])));
            let starts_ns = 10 * tasks.len() as u64;
            let run = outcome(&scenario(machine, tasks, host));
            assert_eq!(run.time.idle_exit_ns, starts_ns + expected_ns, "{host:?} {sibling_ns:?}");
        }
    }
}

/// Exits from a state of 1,000 ns take 500 up to percentile 25, 1,000 at 50, and 4,000 from 75 on, so the mean is
/// (500 + 750 + 2,500 + 4,000) / 4 = 1,937 ns. CPU 0 is idle before its task starts, and for 300 sleeps. The same seed
/// gives the same sum; others give others, whose mean is that of 301 exits within 5 %.
#[test]
fn exits_differ_as_their_distribution_says() {
    let thirds = [50, 100, 400].map(|percent| [percent; 1_000]).concat();
    let exit_percent = ExitSpread::of(thirds).unwrap();
    for host in HOSTS {
        let mut machine = machine(1, 1, 1);
        machine.costs.idle_states =
            vec![IdleState { exit_latency_ns: 1_000, exit_percent, ..IdleState::default() }];
        let steps = (0..300).flat_map(|_| [sleep(5_000), compute(100)]).collect();
        let scenario = scenario(machine, vec![bound(&[0], steps)], host);
        let exits_ns = |seed| wakelab_sim::run(&scenario, seed).unwrap().time.idle_exit_ns;
        let sums_ns: Vec<u64> = (1..=20).map(exits_ns).collect();
        assert_eq!(exits_ns(1), sums_ns[0], "{host:?}");
        assert!(sums_ns.iter().any(|&ns| ns != sums_ns[0]), "{host:?}");
        let mean_ns = sums_ns.iter().sum::<u64>() / 20;
        assert!(mean_ns.abs_diff(301 * 1_937) * 20 < 301 * 1_937, "{host:?}: {mean_ns}");
    }
}

/// The deep state leaves the caches cold: 25 us of work take 20 % longer. CPU 0 sleeps for 50 us, and works for 10 us
/// and for 30: 2 us longer, and 3. After a short sleep, nothing takes longer.
#[test]
fn work_after_a_deep_state_takes_longer() {
    for host in HOSTS {
        let mut machine = machine(1, 1, 1);
        machine.costs.idle_states = vec![
            IdleState { after_ns: 0, exit_latency_ns: 10, ..IdleState::default() },
            IdleState { after_ns: 1_000, exit_latency_ns: 500, cold_percent: 20, ..IdleState::default() },
        ];
        let slow = [sleep(50_000), compute(10_000), compute(30_000), sleep(500), compute(1_000)];
        let run = outcome(&scenario(machine, vec![bound(&[0], slow.to_vec())], host));
        assert_eq!((run.time.cache_refill_ns, run.time.work_ns), (5_000, 41_000), "{host:?}");
        assert_eq!(run.elapsed_ns, 10 + 50_500 + 45_000 + 510 + 1_000, "{host:?}");
    }
}

/// Of 25 us of slow work, the first task does 20. The next one does the rest, and is 0.5 us slower by that.
#[test]
fn the_next_task_is_slow_for_the_rest() {
    for host in HOSTS {
        let mut machine = machine(1, 1, 1);
        machine.costs.idle_states =
            vec![IdleState { after_ns: 0, exit_latency_ns: 0, cold_percent: 10, ..IdleState::default() }];
        let task = || bound(&[0], vec![compute(20_000)]);
        let run = outcome(&scenario(machine, vec![task(), task()], host));
        assert_eq!((run.time.cache_refill_ns, run.time.work_ns), (2_500, 40_000), "{host:?}");
    }
}
