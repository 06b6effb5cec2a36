// SPDX-License-Identifier: GPL-2.0-or-later
//! Machines with several times as many cores.

use wakelab_machine::{Distance, MAX_CPUS, Machine};

/// Two threads a core, 22 cores in each of two sockets: the second round has CPUs 88 to 175.
#[test]
fn twice_as_many_cores_in_each_llc() {
    let (one, two) =
        (Machine::load("xeon-2s22c2t").expect("a preset"), Machine::load("xeon-2s22c2t*2").expect("doubled"));
    assert_eq!((two.name.as_str(), two.topology.nr_cpus()), ("xeon-2s22c2t*2", 176));
    assert_eq!((&two.costs, &two.topology.cpus[..88]), (&one.costs, &one.topology.cpus[..]));
    assert_eq!(two.topology.llc_cpus(0).len(), 2 * one.topology.llc_cpus(0).len());
    assert_eq!(two.topology.distance(0, 88), Distance::Llc);
    let sibling = one.topology.siblings(0)[1];
    assert_eq!(two.topology.siblings(88), [88, sibling + 88]);
    assert_eq!(two.topology.distances_present(), one.topology.distances_present());
}

#[test]
fn clusters_are_not_shared_by_rounds() {
    let (one, three) = (Machine::load("kunpeng920-1n24c"), Machine::load("kunpeng920-1n24c*3"));
    let (one, three) = (one.expect("a preset").topology, three.expect("tripled").topology);
    assert_eq!((one.nr_cpus(), three.nr_cpus()), (24, 72));
    assert_eq!(three.cluster_cpus(24), one.cluster_cpus(0).iter().map(|cpu| cpu + 24).collect::<Vec<_>>());
}

#[test]
fn what_is_no_number_is_refused() {
    for name in ["smp-8*", "smp-8*0", "smp-8*-1", "smp-8*x", "smp-8*1025"] {
        let error = Machine::load(name).expect_err(name).to_string();
        assert!(error.contains(name) && error.contains("MACHINE*N"), "{error}");
    }
    let too_many = format!("smp-8*{}", MAX_CPUS / 8 + 1);
    assert!(Machine::load(&too_many).is_err(), "more CPUs than the policy's tables have");
    assert!(Machine::load("smp-9*2").expect_err("no such machine").to_string().contains("smp-9"));
}
