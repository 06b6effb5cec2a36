// SPDX-License-Identifier: GPL-2.0-or-later
//! A comparison as CSV, of a run by the simulator: each row is what the outcome says.

use std::sync::Arc;

use wakelab_machine::Machine;
use wakelab_report::Comparison;
use wakelab_sim::{HostProfile, Scenario, run};
use wakelab_workload::Workload;

#[test]
fn each_value_has_a_row() {
    let mut workload = Workload::parse_spec("pingpong:pairs=2,loops=20").expect("a workload");
    for (task, name) in workload.tasks.iter_mut().zip(["a,b", "c"].into_iter().cycle()) {
        (task.name, task.judged) = (name.to_owned(), true);
    }
    let scenario = Scenario {
        machine: Machine::preset("smp-8").expect("a preset").into(),
        workload: Arc::new(workload),
        policy: "linux-6.12".parse().expect("a policy"),
        host: HostProfile::Mainline,
        limit_ns: 1_000_000_000,
        limit_events: wakelab_sim::LIMIT_EVENTS,
    };
    let outcomes = [vec![run(&scenario, 7).expect("it runs"), run(&scenario, 8).expect("it runs")]];
    let scenarios = [scenario];
    let compared = Comparison::new(&scenarios, &["linux-6.12".to_owned()], &outcomes).expect("one policy");
    let csv = compared.csv();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "machine,policy,seed,task,metric,unit,value");
    let has = |line: String| assert!(lines.contains(&line.as_str()), "no {line}:\n{csv}");
    for outcome in &outcomes[0] {
        let place = format!("smp-8,linux-6.12,{}", outcome.seed);
        has(format!("{place},,time_idle_ns,ns,{}", outcome.time.idle_ns));
        has(format!("{place},,wakeup_latency_max_ns,ns,{}", outcome.wakeup_latency.max_ns));
        let name = outcome.by_name.iter().find(|name| name.name == "a,b").expect("it ran");
        has(format!("{place},\"a,b\",cpu_time_ns,ns,{}", name.cpu_time_ns));
        let (reason, count) = outcome.reasons.first_key_value().expect("a decision");
        has(format!("{place},,decisions_{reason},count,{count}"));
    }
    // No row is there twice.
    let keys = lines.iter().map(|line| line.rsplit_once(',').expect("a value").0);
    let distinct: std::collections::BTreeSet<&str> = keys.clone().collect();
    assert_eq!(distinct.len(), keys.count());
}
