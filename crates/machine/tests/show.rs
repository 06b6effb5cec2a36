// SPDX-License-Identifier: GPL-2.0-or-later
//! The tree of a machine and the list of its costs, as users see them.

use wakelab_machine::{Cpu, ExitSpread, IdleState, Machine};

#[test]
fn a_tree_with_one_cache_a_node() {
    assert_eq!(
        Machine::preset("xeon-2s22c2t").unwrap().tree(),
        "\
xeon-2s22c2t: 88 CPUs
├─ node 0: CPUs 0-21,44-65
│  └─ LLC 0: CPUs 0-21,44-65
│     └─ 22 x core: CPUs 0,44 | 1,45 | .. | 21,65
└─ node 1: CPUs 22-43,66-87
   └─ LLC 1: CPUs 22-43,66-87
      └─ 22 x core: CPUs 22,66 | 23,67 | .. | 43,87
node distances
    0:  10  21
    1:  21  10
"
    );
}

#[test]
fn a_tree_with_many_caches_a_node() {
    let tree = Machine::preset("power9-2s22c4t").unwrap().tree();
    let lines: Vec<&str> = tree.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "power9-2s22c4t: 176 CPUs",
            "├─ node 0: CPUs 0-87",
            "│  └─ 11 x LLC: CPUs 0-7 | 8-15 | .. | 80-87",
            "│     └─ 2 x core: CPUs 0-3 | 4-7",
        ]
    );
}

#[test]
fn cores_without_smt_are_one_range() {
    assert_eq!(
        Machine::preset("smp-8").unwrap().tree(),
        "\
smp-8: 8 CPUs
└─ node 0: CPUs 0-7
   └─ LLC 0: CPUs 0-7
      └─ 8 x core: CPUs 0-7
"
    );
}

#[test]
fn unequal_parts_are_drawn_one_by_one() {
    let mut machine = Machine::preset("smp-8").unwrap();
    let cpu = |core, cluster, capacity| Cpu { core, cluster: Some(cluster), llc: 0, node: 0, capacity };
    machine.topology.cpus = vec![
        cpu(0, 0, 1024),
        cpu(0, 0, 1024),
        cpu(1, 1, 512),
        cpu(2, 1, 512),
        cpu(3, 2, 512),
        cpu(4, 2, 512),
        cpu(5, 3, 512),
        cpu(6, 3, 1024),
    ];
    assert_eq!(
        machine.tree(),
        "\
smp-8: 8 CPUs
└─ node 0: CPUs 0-7
   └─ LLC 0: CPUs 0-7
      ├─ cluster 0: CPUs 0-1
      │  └─ core 0: CPUs 0-1, capacity 1024
      ├─ 2 x cluster: CPUs 2-3 | 4-5
      │  └─ 2 x core: CPUs 2-3, capacity 512
      └─ cluster 3: CPUs 6-7
         ├─ core 5: CPUs 6, capacity 512
         └─ core 6: CPUs 7, capacity 1024
"
    );
}

#[test]
fn costs_are_listed_with_their_sources() {
    let rows = Machine::preset("xeon-2s22c2t").unwrap().cost_rows();
    let row = |key: &str| rows.iter().find(|row| row.key == key).unwrap();
    assert_eq!(rows.len(), 37);
    assert_eq!((row("smt_speed").value.as_str(), row("smt_speed").unit), ("1024, 604", "1/1024"));
    assert_eq!(
        (row("line_transfer_ps").value.as_str(), row("line_transfer_ps").unit),
        ("cpu 1300, smt 7600, llc 44000, numa1 118000", "ps")
    );
    assert!(
        row("line_transfer_ps")
            .source
            .starts_with("core-to-core-latency (MIT), Xeon E5-2695 v4, class medians")
    );
    assert_eq!(
        row("idle_states").value,
        "2000 after 0, 10000 after 20000, 40000 after 100000, 133000 after 400000"
    );
    assert_eq!((row("wakeup_ns").value.as_str(), row("wakeup_ns").unit), ("500", "ns"));
    let mut cold = Machine::preset("smp-2").unwrap();
    cold.costs.idle_states =
        vec![IdleState { after_ns: 0, exit_latency_ns: 9, cold_percent: 20, ..IdleState::default() }];
    assert!(cold.cost_rows().iter().any(|row| row.value == "9 after 0 (cold 20 %)"));
    cold.costs.idle_states[0].exit_percent = ExitSpread::of((60..=160).collect()).unwrap();
    assert!(cold.cost_rows().iter().any(|row| row.value == "9 after 0 (cold 20 %; 65 to 159 %)"));
}
