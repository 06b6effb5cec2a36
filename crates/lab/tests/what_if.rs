// SPDX-License-Identifier: GPL-2.0-or-later
//! What-ifs whose results are known by hand: two tasks that only compute, 300 ms each, recorded on a CPU each.
//!
//! With the weights a and b on one CPU, the first gets a / (a + b) of the CPU until it has its 300 ms, after 300 ms x
//! (a + b) / a. The other then has 300 ms x b / a, and ends after 600 ms. All costs are left out. A tick of 4 ms
//! decides which task runs, so ends may be off by two ticks.

use std::sync::Arc;

use wakelab_lab::{Kernel, Runner, Silent, observe_replays, recorded_machine, replay_on_itself, scenarios};
use wakelab_machine::{Machine, Term};
use wakelab_sim::{HostProfile, LIMIT_EVENTS};
use wakelab_trace::{Options, WhatIf, read_from};

const WORK_MS: f64 = 300.0;
const TWO_TICKS_MS: f64 = 8.0;
const KERNEL: Kernel =
    Kernel { host: HostProfile::Mainline, limit_ns: 10_000_000_000, limit_events: LIMIT_EVENTS };
const POLICIES: [&str; 3] = ["linux-4.15", "linux-6.12", "wakelab"];

/// t1 runs on CPU 0, t2 on CPU 1, both for the whole recording.
const RECORDING: &str = "\
         swapper     0/0     [000]    10.000000000: sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=t1 next_pid=1 next_prio=120
         swapper     0/0     [001]    10.000000000: sched:sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=t2 next_pid=2 next_prio=120
              t1     1/1     [000]    10.300000000: sched:sched_switch: prev_comm=t1 prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
              t2     2/2     [001]    10.300000000: sched:sched_switch: prev_comm=t2 prev_pid=2 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
";

/// When t1 and t2 were done, in milliseconds.
fn done_ms(nr_cpus: u32, policy: &str, nice: &[&str], cpus: &[&str]) -> [f64; 2] {
    let what_if = WhatIf {
        nice: nice.iter().map(|text| text.parse().expect("COMM=N")).collect(),
        cpus: cpus.iter().map(|text| text.parse().expect("a list")).collect(),
        ..WhatIf::default()
    };
    replayed_ms(nr_cpus, policy, RECORDING, &what_if)
}

/// The same of any recording of t1 and t2.
fn replayed_ms(nr_cpus: u32, policy: &str, text: &str, what_if: &WhatIf) -> [f64; 2] {
    let recording = read_from(text.as_bytes(), "r", "r", &Options::default()).expect("a recording");
    let mut workload = recording.workload;
    what_if.apply(&mut workload, nr_cpus).expect("there are such tasks and CPUs");
    let toml = format!(
        "description = \"d\"\n[topology]\nsockets = 1\ncores_per_llc = {nr_cpus}\n[costs]\nbase = \"smp-8\"\n"
    );
    let machine = Machine::from_toml(&toml, "m").expect("a machine of one LLC");
    let machine = Term::ALL.iter().fold(machine, |machine, &term| machine.without(term));
    let policy = policy.parse().expect("a policy");
    let of = scenarios(&Arc::new(machine), &Arc::new(workload), &[policy], KERNEL);
    let seen = observe_replays(&of[0], &[1], &Runner::new(None, &Silent)).expect("it runs");
    ["t1", "t2"].map(|comm| seen[0].seen.by_comm[comm].done_ns as f64 / 1e6)
}

/// A header says that t1 may run on CPUs that neither an event nor the recorded machine has.
#[test]
fn a_recording_replays_on_itself_whatever_cpus_it_names() {
    let text = format!("# wakelab-record: perf\n# wakelab-task: pid=1 cpus=1-7\n{RECORDING}");
    let recording = read_from(text.as_bytes(), "r", "r", &Options::default()).expect("a recording");
    let machine = Arc::new(recorded_machine(&recording).expect("a machine of two CPUs"));
    let policy = "linux-6.12".parse().expect("a policy");
    let scenario = replay_on_itself(&recording, &machine, policy, KERNEL);
    let t1 = scenario.workload.tasks.iter().find(|task| task.name == "t1").expect("it was recorded");
    assert_eq!((machine.topology.nr_cpus(), &t1.allowed), (2, &Some(vec![1])));
    observe_replays(&scenario, &[1], &Runner::new(None, &Silent)).expect("it runs");
}

fn assert_near(found: [f64; 2], expected: [f64; 2], what: &str) {
    for (found, expected) in found.into_iter().zip(expected) {
        assert!((found - expected).abs() <= TWO_TICKS_MS, "{what}: {found} ms, expected {expected}");
    }
}

#[test]
fn nice_values_divide_a_cpu_by_their_weights() {
    for policy in POLICIES {
        let both_ms = 2.0 * WORK_MS;
        assert_near(done_ms(1, policy, &[], &[]), [both_ms, both_ms], policy);
        // Nice 5: 335 beside 1024.
        let first_ms = WORK_MS * (1024.0 + 335.0) / 1024.0;
        assert_near(done_ms(1, policy, &["t2=5"], &[]), [first_ms, both_ms], policy);
        // Nice -5: 3121 beside 1024.
        let first_ms = WORK_MS * (3121.0 + 1024.0) / 3121.0;
        assert_near(done_ms(1, policy, &["t2=-5"], &[]), [both_ms, first_ms], policy);
        // The same change for both is none.
        assert_eq!(done_ms(1, policy, &["t*=0"], &[]), done_ms(1, policy, &[], &[]), "{policy}");
    }
}

/// t1 is in the group /a/b, t2 in /c, whose weights are recorded: 50 for /a, 10 for /a/b, and 200 for /c.
#[test]
fn weights_of_groups_divide_a_cpu() {
    let text = format!(
        "# wakelab-record: wakelab\n# wakelab-cgroup: /a cpu.weight=50\n# wakelab-cgroup: /a/b cpu.weight=10\n\
         # wakelab-cgroup: /c cpu.weight=200\n# wakelab-task: pid=1 comm=t1 at=begin cgroup=/a/b\n\
         # wakelab-task: pid=2 comm=t2 at=begin cgroup=/c\n{RECORDING}"
    );
    for policy in POLICIES {
        let done_ms = |weights: &[&str]| {
            let weights = weights.iter().map(|text| text.parse().expect("CGROUP=N")).collect();
            replayed_ms(1, policy, &text, &WhatIf { weights, ..WhatIf::default() })
        };
        let both_ms = 2.0 * WORK_MS;
        let first_ms = WORK_MS * 250.0 / 200.0;
        assert_near(done_ms(&[]), [both_ms, first_ms], policy);
        assert_near(done_ms(&["/a=600"]), [WORK_MS * 800.0 / 600.0, both_ms], policy);
        assert_near(done_ms(&["*=10"]), [both_ms, both_ms], policy);
        // Nothing competes inside /a.
        assert_near(done_ms(&["a/b=10000"]), [both_ms, first_ms], policy);
    }
}

/// t1 is in /a, which has 20 ms in each 100 ms: its 300 ms take 15 periods, the first of which may have begun before.
/// With 30 ms in each 50 ms they take 10 periods, and without a limit 300 ms, on a CPU each.
#[test]
fn quotas_of_groups_are_replayed_and_changed() {
    let header = "# wakelab-record: wakelab\n# wakelab-cgroup: /a cpu.weight=100 cpu.max=20000/100000\n\
                  # wakelab-task: pid=1 comm=t1 at=begin cgroup=/a\n";
    let text = format!("{header}{RECORDING}");
    let t1_ms = |quotas: &[&str]| {
        let quotas = quotas.iter().map(|text| text.parse().expect("a quota")).collect();
        replayed_ms(2, "linux-6.12", &text, &WhatIf { quotas, ..WhatIf::default() })[0]
    };
    for (quota, from_ms, to_ms) in
        [(&[][..], 1320.0, 1525.0), (&["/a=30000/50000"], 420.0, 535.0), (&["/*=max"], 299.0, 308.0)]
    {
        let ms = t1_ms(quota);
        assert!((from_ms..to_ms).contains(&ms), "{quota:?}: {ms}");
    }
}

#[test]
fn tasks_stay_on_their_cpus() {
    for policy in POLICIES {
        let both_ms = 2.0 * WORK_MS;
        assert_near(done_ms(2, policy, &[], &[]), [WORK_MS, WORK_MS], policy);
        assert_near(done_ms(2, policy, &[], &["1"]), [both_ms, both_ms], policy);
        assert_near(done_ms(2, policy, &[], &["t1=1", "t*=0"]), [WORK_MS, WORK_MS], policy);
        assert_near(done_ms(2, policy, &[], &["t*=0-1", "t1=0", "t2=0"]), [both_ms, both_ms], policy);
    }
}

/// Nice values have no effect where each task has a separate CPU.
#[test]
fn weights_do_nothing_without_competition() {
    for policy in POLICIES {
        assert_near(done_ms(2, policy, &["t2=19"], &[]), [WORK_MS, WORK_MS], policy);
    }
}

/// A workload with less work is the same, to the byte, as `--faster` on the one with more.
#[test]
fn faster_agrees_with_less_work_in_the_workload() {
    let spec = |work_us: u32| {
        let text = format!("openmp:loops=20,work-us={work_us},imbalance-percent=10,spread-percent=0");
        wakelab_workload::Workload::parse_spec(&text).expect("a workload")
    };
    let mut faster = spec(100);
    let name = faster.tasks[0].name.clone();
    let change = format!("{name}=20%").parse().expect("COMM=N%");
    WhatIf { faster: vec![change], ..WhatIf::default() }
        .apply_to_model(&mut faster)
        .expect("there is the task");
    let less = spec(80);
    assert_eq!(faster.tasks, less.tasks);
    let machine = Arc::new(Machine::preset("smp-8").expect("a preset"));
    for policy in POLICIES {
        let run = |workload: &wakelab_workload::Workload| {
            let policies = [policy.parse().expect("a policy")];
            let all = scenarios(&machine, &Arc::new(workload.clone()), &policies, KERNEL);
            wakelab_sim::run(&all[0], 3).expect("it runs")
        };
        assert_eq!(run(&faster), run(&less), "{policy}");
        assert_ne!(run(&faster), run(&spec(100)), "{policy}");
    }
}

/// A machine file with another cost is the same, to the byte, as `--cost` on the one without.
#[test]
fn a_replaced_cost_agrees_with_a_machine_file() {
    let file = |costs: &str| {
        let text = format!(
            "description = \"d\"\n[topology]\nsockets = 1\ncores_per_llc = 4\n[costs]\nbase = \"smp-8\"\n{costs}"
        );
        Machine::from_toml(&text, "m").expect("a machine")
    };
    let replaced = file("").with_cost(&"wakeup=0".parse().expect("a cost")).expect("it fits");
    let other = file("wakeup_ns = { value = 0, source = \"a what-if\" }\n");
    let workload =
        Arc::new(wakelab_workload::Workload::parse_spec("hackbench:groups=1").expect("a workload"));
    for policy in POLICIES {
        let run = |machine: &Machine| {
            let policies = [policy.parse().expect("a policy")];
            let all = scenarios(&Arc::new(machine.clone()), &workload, &policies, KERNEL);
            wakelab_sim::run(&all[0], 3).expect("it runs")
        };
        assert_eq!(run(&replaced), run(&other), "{policy}");
        assert_ne!(run(&replaced), run(&file("")), "{policy}");
    }
}
