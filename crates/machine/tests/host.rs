// SPDX-License-Identifier: GPL-2.0-or-later
//! `host`: fake sysfs trees in temporary folders, and the machine that the tests run on.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use wakelab_machine::{Distance, Machine, OnlineCpus};

/// Returns a folder that looks like /sys, from pairs of a path below devices/system and a text.
fn sysfs(files: &[(String, String)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join("devices/system").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn file(path: impl Into<String>, text: impl Into<String>) -> (String, String) {
    (path.into(), text.into() + "\n")
}

/// The files of one CPU as Linux has them since 5.16.
fn cpu(cpu: u32, core: &str, cluster: &str, llc: &str, package: &str) -> Vec<(String, String)> {
    let at = |name: &str| format!("cpu/cpu{cpu}/{name}");
    vec![
        file(at("topology/core_cpus_list"), core),
        file(at("topology/cluster_cpus_list"), cluster),
        file(at("topology/die_cpus_list"), package),
        file(at("cache/index0/level"), "1"),
        file(at("cache/index0/type"), "Data"),
        file(at("cache/index0/shared_cpu_list"), core),
        file(at("cache/index1/level"), "1"),
        file(at("cache/index1/type"), "Instruction"),
        file(at("cache/index1/shared_cpu_list"), core),
        file(at("cache/index2/level"), "3"),
        file(at("cache/index2/type"), "Unified"),
        file(at("cache/index2/shared_cpu_list"), llc),
    ]
}

fn read(root: &TempDir) -> Machine {
    let machine = Machine::from_sysfs(root.path()).unwrap();
    machine.check().unwrap();
    machine
}

/// Returns the message without the root of the tree.
fn refused(files: &[(String, String)]) -> String {
    let root = sysfs(files);
    let message = Machine::from_sysfs(root.path()).unwrap_err().to_string();
    message.replace(&format!("{}/devices/system/", root.path().display()), "")
}

/// 2 nodes x 2 clusters x 2 cores, numbered consecutively. Node 1 is called 8, and node 252 has memory only.
fn with_clusters() -> Vec<(String, String)> {
    let mut files = vec![file("cpu/online", "0-7")];
    for n in 0..8u32 {
        let cluster = format!("{}-{}", n / 2 * 2, n / 2 * 2 + 1);
        let package = if n < 4 { "0-3" } else { "4-7" };
        files.extend(cpu(n, &n.to_string(), &cluster, package, package));
    }
    files.extend([
        file("node/node0/cpulist", "0-3"),
        file("node/node0/distance", "10 40 80"),
        file("node/node8/cpulist", "4-7"),
        file("node/node8/distance", "40 10 80"),
        file("node/node252/cpulist", ""),
        file("node/node252/distance", "80 80 10"),
    ]);
    files
}

#[test]
fn clusters_and_a_node_without_cpus() {
    let machine = read(&sysfs(&with_clusters()));
    let topology = &machine.topology;
    assert_eq!((topology.nr_cpus(), topology.nr_nodes(), topology.max_threads()), (8, 2, 1));
    assert_eq!(topology.node_distance, [[10, 40], [40, 10]]);
    assert_eq!(topology.cluster_cpus(5), [4, 5]);
    assert_eq!(topology.llc_cpus(5), [4, 5, 6, 7]);
    assert_eq!(topology.distance(4, 5), Distance::Cluster);
    assert_eq!(topology.distance(5, 6), Distance::Llc);
    assert_eq!(topology.distance(3, 4), Distance::Numa1);
    assert_eq!(machine.name, "host");
    assert!(
        machine.description.starts_with("8 CPUs, from /")
            && machine.description.ends_with("; costs are estimates")
    );
    assert!(machine.sources.values().all(|source| source.starts_with("estimate: ")));
}

/// CPUs 1, 4 and 6 are offline. Some of the kernel's lists still have them.
#[test]
fn cpus_that_are_online_are_numbered_without_gaps() {
    let mut files = with_clusters();
    files[0] = file("cpu/online", "0,2-3,5,7");
    let online = OnlineCpus::read(sysfs(&files).path()).unwrap();
    assert_eq!(online.numbers, [0, 2, 3, 5, 7]);
    let cpus = &online.topology.cpus;
    assert_eq!(
        cpus.iter().map(|cpu| (cpu.llc, cpu.node)).collect::<Vec<_>>(),
        [(0, 0), (0, 0), (0, 0), (1, 1), (1, 1)]
    );
    assert_eq!(cpus[1].cluster, cpus[2].cluster);
    assert_ne!(cpus[0].cluster, cpus[1].cluster);
    assert_eq!(online.topology.node_distance, [[10, 40], [40, 10]]);
    let whole = sysfs(&with_clusters());
    let (online, machine) = (OnlineCpus::read(whole.path()).unwrap(), read(&whole));
    assert_eq!((online.topology, online.numbers), (machine.topology, (0..8).collect()));
}

#[test]
fn smt_siblings_numbered_as_x86_does_and_clusters_that_are_cores() {
    let mut files = vec![file("cpu/online", "0-3")];
    for n in 0..4u32 {
        let core = format!("{},{}", n % 2, n % 2 + 2);
        files.extend(cpu(n, &core, &core, "0-3", "0-3"));
    }
    files.extend([file("node/node0/cpulist", "0-3"), file("node/node0/distance", "10")]);
    let topology = read(&sysfs(&files)).topology;
    assert_eq!(topology.siblings(3), [1, 3]);
    assert_eq!(topology.distances_present(), [Distance::Cpu, Distance::Smt, Distance::Llc]);
    assert!(topology.cpus.iter().all(|cpu| cpu.cluster.is_none()));
}

/// 2 LLCs of 4 cores with 2 threads, numbered consecutively. `l2` returns the CPUs that share a CPU's second-level
/// cache; `cluster` returns its cluster_cpus_list, if it has one.
fn with_l2(l2: impl Fn(u32) -> String, cluster: impl Fn(u32) -> Option<String>) -> Vec<(String, String)> {
    let mut files = vec![file("cpu/online", "0-15")];
    for n in 0..16u32 {
        let core = format!("{}-{}", n / 2 * 2, n / 2 * 2 + 1);
        let llc = if n < 8 { "0-7" } else { "8-15" };
        files.extend(
            cpu(n, &core, &cluster(n).unwrap_or_default(), llc, llc)
                .into_iter()
                .filter(|(path, _)| cluster(n).is_some() || !path.ends_with("cluster_cpus_list")),
        );
        files.push(file(format!("cpu/cpu{n}/cache/index3/level"), "2"));
        files.push(file(format!("cpu/cpu{n}/cache/index3/type"), "Unified"));
        files.push(file(format!("cpu/cpu{n}/cache/index3/shared_cpu_list"), l2(n)));
    }
    files
}

fn of(n: u32, size: u32) -> String {
    format!("{}-{}", n / size * size, n / size * size + size - 1)
}

#[test]
fn a_shared_l2_is_a_cluster_where_the_kernel_reports_none() {
    // A kernel before 5.16 has no cluster_cpus_list. A later one without information of clusters lists the core there.
    for cluster in [|_| None, |n| Some(of(n, 2))] {
        let topology = read(&sysfs(&with_l2(|n| of(n, 4), cluster))).topology;
        assert_eq!(topology.cluster_cpus(6), [4, 5, 6, 7]);
        assert_eq!(topology.llc_cpus(6), [0, 1, 2, 3, 4, 5, 6, 7]);
    }
    // What the kernel reports takes precedence.
    let topology = read(&sysfs(&with_l2(|n| of(n, 2), |n| Some(of(n, 4))))).topology;
    assert_eq!(topology.cluster_cpus(1), [0, 1, 2, 3]);
}

#[test]
fn an_l2_of_a_core_of_a_thread_or_of_the_whole_llc_is_no_cluster() {
    for size in [1, 2, 8, 16] {
        for cluster in [|_| None, |n| Some(of(n, 2))] {
            let topology = read(&sysfs(&with_l2(|n| of(n, size), cluster))).topology;
            assert!(topology.cpus.iter().all(|cpu| cpu.cluster.is_none()), "L2 of {size}");
        }
    }
}

#[test]
fn a_cache_over_two_nodes_ends_at_the_node() {
    let mut files = with_clusters();
    for (path, text) in &mut files {
        if path.ends_with("index2/shared_cpu_list") {
            *text = "0-7\n".into();
        }
    }
    let topology = read(&sysfs(&files)).topology;
    assert_eq!(topology.llc_cpus(0), [0, 1, 2, 3]);
}

#[test]
fn capacities() {
    let mut files = with_clusters();
    for n in 0..8 {
        files.push(file(format!("cpu/cpu{n}/cpu_capacity"), if n < 4 { "446" } else { "1024" }));
    }
    let topology = read(&sysfs(&files)).topology;
    assert_eq!(topology.cpus[3].capacity, 446);
    assert_eq!(topology.cpus[4].capacity, 1024);
}

#[test]
fn capacities_of_an_intel_hybrid() {
    let capacity = |files: &[(String, String)]| -> Vec<u32> {
        let topology = read(&sysfs(files)).topology;
        topology.cpus.iter().map(|cpu| cpu.capacity).collect()
    };
    let mut files = with_clusters();
    for n in 0..8 {
        // One of the large cores boosts further than the others.
        let perf = [64, 66, 64, 64, 40, 40, 40, 40][n];
        files.push(file(format!("cpu/cpu{n}/acpi_cppc/highest_perf"), perf.to_string()));
    }
    // AMD's cores differ in CPPC, too, but not in capacity.
    assert_eq!(capacity(&files), [1024; 8]);
    files.push(file("../cpu_atom/cpus", "4-7"));
    assert_eq!(capacity(&files), [1024, 1024, 1024, 1024, 620, 620, 620, 620]);
    // What Linux reports comes first.
    files.push(file("cpu/cpu0/cpu_capacity", "512"));
    assert_eq!(capacity(&files)[..2], [512, 1024]);
}

#[test]
fn missing_files_are_replaced_and_said() {
    let machine = read(&sysfs(&[file("cpu/online", "0-3")]));
    assert_eq!(machine.topology.nr_cpus(), 4);
    assert_eq!(machine.topology.distances_present(), [Distance::Cpu, Distance::Llc]);
    assert!(
        machine.description.ends_with(
            "; costs are estimates; nodes are missing in sysfs: one; cores are missing in sysfs: one a CPU; caches are \
             missing in sysfs: the package stands for the LLC"
        ),
        "{}",
        machine.description
    );

    // An old kernel: other names, no caches, two packages.
    let mut files = vec![file("cpu/online", "0-3")];
    for n in 0..4 {
        files.push(file(format!("cpu/cpu{n}/topology/thread_siblings_list"), n.to_string()));
        files
            .push(file(format!("cpu/cpu{n}/topology/core_siblings_list"), if n < 2 { "0-1" } else { "2-3" }));
    }
    let topology = read(&sysfs(&files)).topology;
    assert_eq!(topology.llc_cpus(2), [2, 3]);
    assert_eq!(topology.distance(1, 2), Distance::Node);
}

#[test]
fn trees_that_contradict_themselves() {
    let change = |path: &str, text: &str| {
        let mut files = with_clusters();
        let (_, old) = files.iter_mut().find(|(p, _)| p == path).unwrap();
        *old = text.into();
        refused(&files)
    };
    assert_eq!(
        change("cpu/online", "0-2,4-7"),
        "cpu/online:1: CPU 3 is offline, and 0-2,4-7 is online; expected CPU numbers without gaps: bring it online, or \
         describe the machine in a file"
    );
    assert_eq!(
        change("cpu/online", "zero"),
        "cpu/online:1: `zero` in a list of CPUs; expected a list as `0-3,8`"
    );
    assert_eq!(change("cpu/online", ""), "cpu/online:1: no CPU is online; expected at least one");
    assert_eq!(
        change("cpu/cpu1/cache/index2/shared_cpu_list", "0-1"),
        "cpu/cpu1/cache/index2/shared_cpu_list:1: `0-1`, but CPU 0 says `0-3`; expected one list for all CPUs of a cache"
    );
    assert_eq!(
        change("cpu/cpu1/topology/core_cpus_list", "2"),
        "cpu/cpu1/topology/core_cpus_list:1: `2`; expected the CPUs of CPU 1's core, itself included"
    );
    assert_eq!(
        change("cpu/cpu1/cache/index2/level", "three"),
        "cpu/cpu1/cache/index2/level:1: `three`; expected a number"
    );
    assert_eq!(
        change("node/node8/cpulist", "3-7"),
        "node/node8/cpulist:1: CPU 3 is in two nodes; expected each CPU in one node"
    );
    assert_eq!(
        change("node/node8/cpulist", "5-7"),
        "node:1: CPU 4 is in no node; expected each CPU in one node"
    );
    assert_eq!(
        change("node/node8/distance", "40 10"),
        "node/node8/distance:1: `40 10`; expected 3 distances, one to each node"
    );
    assert!(
        change("node/node8/distance", "41 10 80")
            .contains("but node 1 at 41 from node 0; expected a symmetric matrix")
    );
    assert_eq!(refused(&[]), "cpu/online:1: no such file; expected sysfs, with a list of CPUs there");
}

#[test]
fn the_machine_that_the_tests_run_on() {
    let machine = Machine::load("host").unwrap();
    machine.check().unwrap();
    let online = fs::read_to_string(Path::new("/sys/devices/system/cpu/online")).unwrap();
    let last: usize = online.trim().rsplit(['-', ',']).next().unwrap().parse().unwrap();
    assert_eq!(machine.topology.nr_cpus(), last + 1);
    assert_eq!(
        Machine::from_toml(&machine.to_toml().unwrap(), "host.toml").unwrap().topology,
        machine.topology
    );
}
