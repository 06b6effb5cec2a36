// SPDX-License-Identifier: GPL-2.0-or-later
//! How runs end, and what is refused.

use wakelab_sim::{Ending, Scenario, SimError, run};
use wakelab_workload::{End, Home, Op, Task};

use crate::common::{HOSTS, MS, bound, compute, machine, outcome, recv, scenario, send, sleep, task};

#[test]
fn a_deadlock_is_reported() {
    for host in HOSTS {
        let tasks =
            vec![task(0, vec![compute(10), recv(0)]), task(0, vec![recv(1)]), task(0, vec![compute(30)])];
        let run = outcome(&scenario(machine(1, 4, 1), tasks, host));
        assert_eq!((run.ending, run.elapsed_ns), (Ending::Deadlock { waiting: 2 }, 30), "{host:?}");
    }
}

/// A reader needs a message in channel 1 from a writer that waits for room in channel 0, which another one has filled.
#[test]
fn an_elastic_channel_takes_one_message_more_than_it_holds() {
    for (elastic, ending) in [(false, Ending::Deadlock { waiting: 2 }), (true, Ending::Completed)] {
        for host in HOSTS {
            let fills = task(0, vec![send(0); 10]);
            let writes = task(1, vec![compute(30), send(0), send(1)]);
            let reads = task(2, [vec![recv(1)], vec![recv(0); 11]].concat());
            let mut scenario = scenario(machine(1, 4, 1), vec![fills, writes, reads], host);
            scenario.workload_mut().channels[0].elastic = elastic;
            let run = outcome(&scenario);
            assert_eq!((&run.ending, run.elapsed_ns), (&ending, 30), "{host:?}");
        }
    }
}

/// The same, while a fourth task sleeps for half a second, which can wake neither. It runs once more after 2 ms; its
/// CPU idles then, and finds that the others wait for each other.
#[test]
fn an_elastic_channel_does_not_stop_tasks_while_others_sleep() {
    for host in HOSTS {
        let fills = task(0, vec![send(0); 10]);
        let writes = task(1, vec![compute(30), send(0), send(1)]);
        let reads = task(2, [vec![recv(1)], vec![recv(0); 11]].concat());
        let sleeps = task(3, vec![sleep(2 * MS), compute(10), sleep(500 * MS)]);
        let mut scenario = scenario(machine(1, 4, 1), vec![fills, writes, reads, sleeps], host);
        let workload = scenario.workload_mut();
        workload.channels[0].elastic = true;
        for task in &mut workload.tasks {
            task.judged = true;
        }
        workload.tasks[3].judged = false;
        let run = outcome(&scenario);
        assert_eq!(run.ending, Ending::Completed, "{host:?}");
        assert_eq!(run.by_name[0].done_ns, Some(2 * MS + 10), "{host:?}");
    }
}

/// A reader that sleeps will make room: its writer waits as long.
#[test]
fn an_elastic_channel_holds_no_more_while_its_reader_sleeps() {
    for host in HOSTS {
        let writes = task(0, vec![send(0); 11]);
        let reads = task(1, [vec![sleep(2 * MS), compute(10), sleep(2 * MS)], vec![recv(0); 11]].concat());
        let mut scenario = scenario(machine(1, 2, 1), vec![writes, reads], host);
        let workload = scenario.workload_mut();
        workload.channels[0].elastic = true;
        workload.tasks[0].judged = true;
        workload.tasks[1].judged = false;
        assert_eq!(outcome(&scenario).by_name[0].done_ns, Some(4 * MS + 10), "{host:?}");
    }
}

#[test]
fn the_limit_stops_a_run() {
    for host in HOSTS {
        let mut scenario = scenario(machine(1, 1, 1), vec![task(0, vec![compute(50 * MS)])], host);
        scenario.limit_ns = 20 * MS;
        let run = outcome(&scenario);
        assert_eq!((run.ending, run.elapsed_ns), (Ending::LimitReached, 20 * MS), "{host:?}");
        assert_eq!(run.task_cpu_time_ns, [20 * MS]);
        scenario.limit_ns = 50 * MS;
        assert_eq!(outcome(&scenario).ending, Ending::Completed, "it ends in time");
    }
}

/// A loop of 1 ns: the run would take 50 million events.
#[test]
fn the_limit_of_events_fails_a_run() {
    let program = vec![Op::LoopBegin { times: None }, compute(1), Op::LoopEnd];
    let mut scenario = scenario(machine(1, 1, 1), vec![task(0, program)], HOSTS[0]);
    scenario.workload_mut().end = End::After { duration_ns: 50 * MS };
    scenario.limit_events = 1_000;
    let error = run(&scenario, 1).unwrap_err();
    assert!(matches!(error, SimError::TooManyEvents { events: 1_000, .. }), "{error}");
    assert!(error.to_string().ends_with("expected a shorter run, or a larger --limit-events"), "{error}");
}

/// A run of fixed length continues when all tasks have exited, and is complete when the time is over.
#[test]
fn a_fixed_duration_is_kept() {
    for host in HOSTS {
        for (program, cpu_ns) in [
            (vec![compute(3 * MS)], 3 * MS),
            (vec![Op::LoopBegin { times: None }, compute(MS), sleep(MS), Op::LoopEnd], 5 * MS),
        ] {
            let mut scenario = scenario(machine(1, 1, 1), vec![task(0, program)], host);
            scenario.workload_mut().end = End::After { duration_ns: 10 * MS };
            let run = outcome(&scenario);
            assert_eq!((run.ending, run.elapsed_ns), (Ending::Completed, 10 * MS), "{host:?}");
            assert_eq!(run.time.work_ns, cpu_ns);
            scenario.limit_ns = 9 * MS;
            assert_eq!(
                outcome(&scenario).ending,
                if cpu_ns < 4 * MS { Ending::Completed } else { Ending::LimitReached }
            );
        }
    }
}

/// exit takes 30, and two tasks share a CPU for 10 + 20: 30 + 60 if both exit, 30 + 30 if the recording does not show
/// how one of them continues.
#[test]
fn a_task_that_is_cut_off_does_not_exit() {
    for host in HOSTS {
        let mut machine = machine(1, 1, 1);
        machine.costs.exit_ns = 30;
        let cut_off = Task { cut_off: true, ..task(0, vec![compute(10)]) };
        let tasks = vec![cut_off, task(0, vec![compute(20)])];
        let run = outcome(&scenario(machine, tasks, host));
        assert_eq!((run.ending, run.elapsed_ns), (Ending::Completed, 60), "{host:?}");
        assert_eq!((run.time.work_ns, run.time.fork_exit_ns), (30, 30));
    }
}

fn refused(change: impl Fn(&mut Scenario)) -> String {
    let mut scenario = scenario(machine(1, 2, 1), vec![task(0, vec![compute(10)])], HOSTS[0]);
    change(&mut scenario);
    run(&scenario, 1).unwrap_err().to_string()
}

#[test]
fn impossible_scenarios_are_refused() {
    let program = |ops: &[Op]| {
        let ops = ops.to_vec();
        refused(move |s| s.workload_mut().tasks[0].program = ops.clone())
    };
    assert_eq!(
        refused(|s| s.workload_mut().tasks[0].allowed = Some(vec![0, 2])),
        "task 0 (t): allowed names CPU 2; the machine has CPUs 0 to 1"
    );
    assert_eq!(
        refused(|s| s.workload_mut().tasks[0].last_cpu = Some(9)),
        "task 0 (t): last_cpu names CPU 9; the machine has CPUs 0 to 1"
    );
    let beyond =
        Op::Memory { work_ns: 1, read_bytes: 1, write_bytes: 0, home: Home::Node(1), llc_percent: 0 };
    assert_eq!(
        refused(|scenario| scenario.workload_mut().tasks[0].program.push(beyond)),
        "task 0 (t), operation 1: names node 1; the machine has nodes 0 to 0"
    );
    let empty = refused(|s| s.workload_mut().tasks[0].allowed = Some(vec![]));
    assert_eq!(empty, "impossible workload: task 0 (t): no CPU is allowed");
    assert!(
        program(&[Op::LoopEnd])
            .starts_with("impossible workload: task 0 (t), operation 0: the end of a loop")
    );
    assert!(program(&[compute(1), recv(3)]).contains("operation 1: channel 3; expected an index below 3"));
    assert!(program(&[Op::Wait { signal: 8 }]).contains("signal 8; expected an index below 8"));
    assert!(program(&[Op::WaitGate { gate: 2 }]).contains("gate 2; expected an index below 2"));
    assert!(refused(|s| s.machine_mut().costs.smt_speed = vec![]).starts_with("impossible machine: "));
    assert!(refused(|s| s.machine_mut().topology.cpus.clear()).starts_with("impossible machine: "));
}

#[test]
fn a_signal_has_one_waiter() {
    let wait = vec![Op::Wait { signal: 3 }];
    let scenario = scenario(machine(1, 2, 1), vec![bound(&[0], wait.clone()), bound(&[1], wait)], HOSTS[0]);
    let error = run(&scenario, 1).unwrap_err();
    assert!(matches!(error, SimError::Program { task: 1, .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "task 1 (t), operation 0: task 0 waits for signal 3 already; expected one waiter"
    );
}

/// Two tasks yield to each other for ever on a machine where that costs nothing.
#[test]
fn time_that_stands_still_is_noticed() {
    for host in HOSTS {
        let rounds = Op::LoopBegin { times: Some(u64::MAX) };
        let yields: Task = bound(&[0], vec![rounds, Op::Yield, Op::LoopEnd]);
        let scenario = scenario(machine(1, 1, 1), vec![yields.clone(), yields], host);
        let error = run(&scenario, 1).unwrap_err();
        assert!(matches!(error, SimError::NoProgress { at_ns: 0, .. }), "{host:?}: {error}");
    }
}
