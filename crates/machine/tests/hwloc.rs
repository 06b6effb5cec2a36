// SPDX-License-Identifier: GPL-2.0-or-later
//! Machines from hwloc's XML: files that lstopo wrote (tests/hwloc/), and smaller ones for cases that those do not
//! have.

use std::fs;

use proptest::prelude::*;
use wakelab_machine::Distance::{Cluster, Cpu, Llc, Node, Numa1, Numa2, Smt};
use wakelab_machine::Machine;

const CLUSTERS: [&str; 2] = [include_str!("hwloc/clusters-v1.xml"), include_str!("hwloc/clusters-v2.xml")];
const SYNTHETIC: [&str; 2] = [include_str!("hwloc/synthetic-v1.xml"), include_str!("hwloc/synthetic-v2.xml")];
const VIRTUAL_MACHINE: &str = include_str!("hwloc/virtual-machine-v2.xml");

fn read(text: &str) -> Machine {
    let machine = Machine::from_hwloc(text, "some/where/box.xml").unwrap();
    machine.check().unwrap();
    assert_eq!(machine.name, "box");
    machine
}

fn refused(text: &str) -> String {
    Machine::from_hwloc(text, "box.xml").unwrap_err().to_string()
}

/// Returns a file of hwloc 2 with `inside` in the machine, from line 2 on, and `after` behind it.
fn version_2(inside: &str, after: &str) -> String {
    format!(
        "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" cpuset=\"0xf\">\n{inside}</object>\n{after}</topology>\n"
    )
}

fn numa(index: u32, cpuset: &str) -> String {
    format!("<object type=\"NUMANode\" os_index=\"{index}\" cpuset=\"{cpuset}\"/>\n")
}

/// Returns cores of one PU each, one a line.
fn cores(cpus: impl IntoIterator<Item = u32>) -> String {
    let core = |cpu| format!("<object type=\"Core\"><object type=\"PU\" os_index=\"{cpu}\"/></object>\n");
    cpus.into_iter().map(core).collect()
}

#[test]
fn clusters_and_distances_in_both_formats() {
    let machines = CLUSTERS.map(read);
    for machine in &machines {
        let topology = &machine.topology;
        assert_eq!((topology.nr_cpus(), topology.nr_nodes(), topology.max_threads()), (8, 2, 1));
        assert_eq!(topology.node_distance, [[10, 21], [21, 10]]);
        assert_eq!(topology.cluster_cpus(5), [4, 5]);
        assert_eq!(topology.llc_cpus(5), [4, 5, 6, 7]);
        assert_eq!(topology.distances_present(), [Cpu, Cluster, Llc, Numa1]);
        // 32 KiB L1 data and 512 KiB L2; instructions do not count.
        assert_eq!(machine.costs.core_cache_bytes, 557_056);
        assert_eq!((machine.costs.llc_cache_bytes, machine.costs.line_bytes), (8_388_608, 64));
        assert_eq!(machine.sources["llc_cache_bytes"], "hwloc: last-level cache of CPU 0");
        assert!(machine.sources["wakeup_ns"].starts_with("estimate: "));
        assert_eq!(machine.description, "8 CPUs: from hwloc; costs are estimates");
    }
    // Only hwloc 2 knows kinds of CPUs.
    let capacities: [Vec<u32>; 2] =
        machines.map(|machine| machine.topology.cpus.iter().map(|cpu| cpu.capacity).collect());
    assert_eq!(capacities, [vec![1024; 8], vec![446, 446, 1024, 1024, 446, 446, 1024, 1024]]);
}

#[test]
fn threads_and_caches_without_distances_in_both_formats() {
    let machines = SYNTHETIC.map(read);
    for machine in &machines {
        let topology = &machine.topology;
        assert_eq!((topology.nr_cpus(), topology.nr_nodes(), topology.max_threads()), (32, 4, 2));
        assert_eq!(topology.siblings(5), [4, 5]);
        assert_eq!(topology.llc_cpus(5), [4, 5, 6, 7]);
        assert_eq!(topology.node_cpus(9), (8..16).collect::<Vec<u32>>());
        assert_eq!(
            topology.node_distance,
            [[10, 12, 21, 21], [12, 10, 21, 21], [21, 21, 10, 12], [21, 21, 12, 10]]
        );
        assert_eq!(topology.distances_present(), [Cpu, Smt, Llc, Node, Numa1, Numa2]);
        assert!(
            machine.description.ends_with("; distances of nodes are missing: 12 in a package, 21 beyond"),
            "{}",
            machine.description
        );
    }
    assert_eq!(machines[0].topology, machines[1].topology);
}

#[test]
fn a_virtual_machine_with_devices() {
    let machine = read(VIRTUAL_MACHINE);
    assert_eq!(machine.description, "2 CPUs: AMD EPYC, from hwloc; costs are estimates");
    assert_eq!(machine.topology.distances_present(), [Cpu, Llc]);
    assert_eq!(machine.costs.llc_cache_bytes, 33_554_432);
}

#[test]
fn found_by_path_and_by_content() {
    let folder = tempfile::tempdir().unwrap();
    let load = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        Machine::load(path.to_str().unwrap())
    };
    assert_eq!(load("a.xml", CLUSTERS[1]).unwrap().name, "a");
    assert_eq!(load("b.txt", &format!("\u{feff}\n{}", version_2(&cores(0..2), ""))).unwrap().name, "b");
    let error = load("c.xml", "description = \"TOML\"\n").unwrap_err().to_string();
    assert!(error.contains("c.xml:1: ") && error.contains("; expected hwloc's XML"), "{error}");
    let machine = load("d.xml", CLUSTERS[1]).unwrap();
    let written = Machine::from_toml(&machine.to_toml().unwrap(), "d.toml").unwrap();
    assert_eq!((written.topology, written.costs), (machine.topology, machine.costs));
}

#[test]
fn offline_cpus_and_normalised_latencies_of_hwloc_1() {
    // CPUs 0 and 1 have a node each; CPU 2 is offline. hwloc 1 divided the distances by that of a node from itself.
    let text = "<topology>\n<object type=\"System\" online_cpuset=\"0x00000003\">\n\
        <distances nbobjs=\"2\" relative_depth=\"1\" latency_base=\"10.000000\">\n\
        <latency value=\"1.000000\"/><latency value=\"2.100000\"/><latency value=\"2.100000\"/><latency value=\"1.000000\"/>\n\
        </distances>\n\
        <object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x00000005\"><object type=\"Socket\">\n\
        <object type=\"Cache\" depth=\"1\" cache_type=\"2\" cache_size=\"4\"><object type=\"Cache\" depth=\"2\" cache_type=\"0\">\n\
        <object type=\"Core\"><object type=\"PU\" os_index=\"0\"/></object></object></object>\n\
        <object type=\"Core\"><object type=\"PU\" os_index=\"2\"/></object></object></object>\n\
        <object type=\"NUMANode\" os_index=\"1\" cpuset=\"0x00000002\">\n\
        <object type=\"Core\"><object type=\"PU\" os_index=\"1\"/></object></object>\n</object></topology>\n";
    let machine = read(text);
    assert_eq!(machine.topology.nr_cpus(), 2);
    assert_eq!(machine.topology.node_distance, [[10, 21], [21, 10]]);
    assert!(machine.description.ends_with("; caches are missing: the die or package stands for the LLC"));

    let gap = text.replace("0x00000003", "0x00000005");
    assert_eq!(
        refused(&gap),
        "box.xml:1: no PU 1, and PU 2 is there; expected PU numbers without gaps: bring CPUs online, and use `lstopo \
         --disallowed` where a cgroup hides them"
    );
}

#[test]
fn nodes_of_other_memory_and_nodes_in_one_cache() {
    // Nodes 0 and 1 divide an L3 (sub-NUMA clustering). Node 2 is memory near all CPUs, behind a memory-side cache, and
    // comes first in the matrix.
    let inside = format!(
        "<object type=\"MemCache\">{}</object>\n<object type=\"L3Cache\" depth=\"3\" cache_size=\"1000\">\n\
         <object type=\"Group\">{}{}</object><object type=\"Group\">{}{}</object></object>\n",
        numa(2, "0xf...f"),
        numa(0, "0x00000003"),
        cores(0..2),
        numa(1, "0x0000000c"),
        cores(2..4),
    );
    let distances = "<distances2 type=\"NUMANode\" nbobjs=\"3\" kind=\"5\" name=\"NUMALatency\" indexing=\"os\">\n\
        <indexes length=\"6\">2 0 1 </indexes>\n<u64values length=\"9\">10 28 29 </u64values><u64values length=\"9\">28 10 12 \
        29 12 10 </u64values></distances2>\n";
    let machine = read(&version_2(&inside, distances));
    assert_eq!(machine.topology.node_distance, [[10, 12], [12, 10]]);
    assert_eq!(machine.topology.llc_cpus(3), [2, 3]);
    assert!(machine.description.ends_with("; nodes without CPUs are left out"), "{}", machine.description);

    let error = refused(&version_2(&inside, &distances.replace("28 10 12", "28 10 13")));
    assert!(
        error.starts_with("box.xml:13: node 0 is at distance 13 from node 1, but node 1 at 12"),
        "{error}"
    );
    let error = refused(&version_2(&inside, &distances.replace("2 0 1", "2 0 3")));
    assert_eq!(error, "box.xml:13: no distances of node 1; expected a row for each NUMANode");
    let error = refused(&version_2(&inside, &distances.replace("2 0 1", "2 0")));
    assert_eq!(error, "box.xml:13: 9 distances; expected one for each pair of `indexes`");
    let error = refused(&version_2(&inside, &distances.replace("28 29", "-28 29")));
    assert_eq!(error, "box.xml:15: `-28` in <u64values>; expected numbers without sign");
}

#[test]
fn kinds_of_cores() {
    // Two cores with an L2 each and two that share one, as on hybrid x86: those are a cluster.
    let inside = format!(
        "<object type=\"L3Cache\" depth=\"3\"><object type=\"L2Cache\" depth=\"2\">{}</object>\n\
         <object type=\"L2Cache\" depth=\"2\">{}</object>\n<object type=\"L2Cache\" depth=\"2\">{}</object></object>\n",
        cores([0]),
        cores([1]),
        cores([2, 3]),
    );
    let kind = |cpuset: &str, name: &str, frequency: u32| {
        format!(
            "<cpukind cpuset=\"{cpuset}\"><info name=\"FrequencyMaxMHz\" value=\"{frequency}\"/>{name}</cpukind>\n"
        )
    };
    let core = "<info name=\"CoreType\" value=\"IntelCore\"/>";
    let atom = "<info name=\"CoreType\" value=\"IntelAtom\"/>";
    let machine = read(&version_2(&inside, &(kind("0x3", core, 5_000) + &kind("0xc", atom, 4_000))));
    let capacities =
        |machine: &Machine| machine.topology.cpus.iter().map(|cpu| cpu.capacity).collect::<Vec<_>>();
    assert_eq!(machine.topology.cluster_cpus(3), [2, 3]);
    assert_eq!(machine.topology.distance(0, 1), Llc);
    // 1024 x 4000 / 5000 = 819.2.
    assert_eq!(capacities(&machine), [1024, 1024, 819, 819]);
    assert!(machine.description.ends_with("; capacities are those of the highest frequencies"));
    // Cores of one type whose highest frequencies differ a little do not make a hybrid machine.
    let machine = read(&version_2(&inside, &(kind("0x3", core, 5_000) + &kind("0xc", core, 4_800))));
    assert_eq!(capacities(&machine), [1024; 4]);
    let kinds = format!("<cpukind cpuset=\"0x3\">{core}</cpukind><cpukind cpuset=\"0xc\">{atom}</cpukind>\n");
    let machine = read(&version_2(&inside, &kinds));
    assert_eq!(capacities(&machine), [1024; 4]);
    assert!(
        machine.description.ends_with("; kinds of CPUs differ by unknown speeds: all have full capacity")
    );
}

#[test]
fn a_bare_machine() {
    let machine =
        read(&version_2("<object type=\"PU\" os_index=\"1\"/><object type=\"PU\" os_index=\"0\"/>", ""));
    assert_eq!(machine.topology.distances_present(), [Cpu, Llc]);
    assert_eq!(
        machine.description,
        "2 CPUs: from hwloc; costs are estimates; cores are missing: one a CPU; caches are missing: the die or package \
         stands for the LLC; nodes are missing: one"
    );
}

#[test]
fn sets_of_many_words() {
    let inside = |set: &str| version_2(&(numa(0, set) + &cores(0..70)), "");
    for set in ["0x3f,0xffffffff,0xffffffff", "0xf...f", "0xf...f,0xffffffff", "3f,ffffffff,ffffffff"] {
        assert_eq!(read(&inside(set)).topology.nr_cpus(), 70, "{set}");
    }
    assert_eq!(
        refused(&inside("0x3f,,0xffffffff")),
        "box.xml:35: PU 32 is near no NUMANode; expected each PU in a node's `cpuset`"
    );
    assert_eq!(
        refused(&inside("0x3f;1")),
        "box.xml:2: the set `0x3f;1`; expected words as `0x0000000f,0xffffffff`"
    );
    let error = refused(&inside(&("0x1".to_owned() + &",".repeat(128))));
    assert_eq!(error, "box.xml:2: a CPU above 4095; expected fewer CPUs");
}

#[test]
fn files_that_are_no_machine() {
    assert_eq!(refused(" \n"), "box.xml:1: the file is empty; expected hwloc's XML");
    assert_eq!(
        refused("<?xml version=\"1.0\"?>\n<html></html>"),
        "box.xml:2: <html>; expected <topology>, the root of hwloc's XML as `lstopo --of xml` writes it"
    );
    let error = refused("<topology>\n<object type=\"PU\">\n</topology>");
    assert!(error.starts_with("box.xml:3: ") && error.ends_with("as `lstopo --of xml` writes it"), "{error}");
    assert_eq!(refused("<topology/>"), "box.xml:1: 0 CPUs; expected 1 to 4096 CPUs");
    assert_eq!(
        refused("<topology>\n<object/></topology>"),
        "box.xml:2: an object without `type`; expected hwloc's types"
    );
    assert_eq!(
        refused(&version_2("<object type=\"PU\"/>", "")),
        "box.xml:2: <object> without `os_index`; expected a number"
    );
    assert_eq!(
        refused(&version_2("<object type=\"PU\" os_index=\"first\"/>", "")),
        "box.xml:2: `os_index` is `first`; expected a number"
    );
    assert_eq!(
        refused(&version_2(&(cores(0..2) + &cores(1..2)), "")),
        "box.xml:4: PU 1 is there twice; expected each once"
    );
    assert_eq!(
        refused(&version_2(&("<object type=\"NUMANode\" os_index=\"0\"/>\n".to_owned() + &cores(0..2)), "")),
        "box.xml:2: a NUMANode without `cpuset`; expected the CPUs that it is near to"
    );
    assert_eq!(
        refused(&version_2(&(numa(0, "0x1") + &numa(0, "0x2") + &cores(0..2)), "")),
        "box.xml:1: two NUMANodes have `os_index` 0; expected each its own"
    );
    assert_eq!(refused(&version_2(&cores(0..4097), "")), "box.xml:4098: more than 4096 PUs; expected fewer");
}

/// Each of these would expand to far more than its text: entities to gigabytes, sets of all CPUs to 16 KiB each.
#[test]
fn small_files_that_ask_for_much_memory() {
    let entities = format!(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE topology [\n<!ENTITY a \"{}\">\n<!ENTITY b \"{}\">\n]>\n\
         <topology version=\"2.0\"><object type=\"&b;\"/></topology>",
        "x".repeat(5000),
        "&a;".repeat(250)
    );
    assert_eq!(refused(&entities), "box.xml:3: an XML entity; expected hwloc's XML, which declares none");
    let nodes = "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0xf...f\"/>\n".repeat(5000);
    assert_eq!(refused(&version_2(&nodes, "")), "box.xml:4098: more than 4096 NUMANodes; expected fewer");
    let kinds = "<cpukind cpuset=\"0xf...f\"/>".repeat(5000);
    assert_eq!(
        refused(&version_2(&(numa(0, "0x3") + &cores(0..2)), &kinds)),
        "box.xml:6: more than 4096 cpukinds; expected fewer"
    );
    let long = version_2(&" ".repeat(16 << 20), "");
    assert!(refused(&long).ends_with(" bytes; expected at most 16777216, hwloc's XML"));
    let many = version_2(&"<a/>".repeat(1_000_001), "");
    assert!(refused(&many).starts_with("box.xml:"), "{}", refused(&many));
}

/// Errors print the file's words only with escapes.
#[test]
fn escapes_in_errors() {
    let strange = version_2("<object type=\"PU\" os_index=\"&#x9b;31m&#x202e;\"/>", "");
    assert_eq!(refused(&strange), r"box.xml:2: `os_index` is `\u{9b}31m\u{202e}`; expected a number");
}

#[test]
fn files_that_mean_harm() {
    let deep = "<object type=\"Group\">".repeat(100_000) + &"</object>".repeat(100_000);
    let error = refused(&version_2(&deep, ""));
    assert!(error.starts_with("box.xml:2: ") && error.contains("; expected "), "{error}");
    let error = refused(&version_2(&("<object type=\"Group\">".repeat(70) + &"</object>".repeat(70)), ""));
    assert_eq!(error, "box.xml:2: 64 objects inside each other; expected fewer");

    // Entities that grow exponentially with their number.
    let mut bomb = String::from("<!DOCTYPE topology [<!ENTITY e0 \"lol\">");
    for i in 1..30 {
        bomb.push_str(&format!("<!ENTITY e{i} \"&e{};&e{};\">", i - 1, i - 1));
    }
    let error = refused(&format!("{bomb}]>\n<topology>&e29;</topology>"));
    assert!(error.contains("; expected hwloc's XML"), "{error}");
}

proptest! {
    #[test]
    fn a_damaged_file_is_read_or_refused_with_a_line(
        file in prop::sample::select(vec![CLUSTERS[0], CLUSTERS[1], SYNTHETIC[1], VIRTUAL_MACHINE]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0u8..5, any::<prop::sample::Index>()), 1..6),
    ) {
        let mut text = file.to_owned().into_bytes();
        for (at, how, other) in damage {
            if text.is_empty() {
                break;
            }
            let (at, other) = (at.index(text.len()), other.index(text.len()));
            match how {
                0 => text[at] = text[other],
                1 => { text.remove(at); }
                2 => text.insert(at, b"09-fx,\"<>&"[other % 10]),
                // A piece of it again: objects twice, ends without beginnings.
                3 => {
                    let piece = text[at.min(other)..at.max(other)].to_vec();
                    text.splice(at..at, piece);
                }
                _ => { text.drain(at..(at + other % 400).min(text.len())); }
            }
        }
        let text = String::from_utf8(text).unwrap();
        match Machine::from_hwloc(&text, "m.xml") {
            Ok(machine) => prop_assert!(machine.check().is_ok()),
            Err(error) => {
                let error = error.to_string();
                let line: usize = error.split(':').nth(1).unwrap().parse().unwrap();
                prop_assert!(line >= 1 && line <= 1 + text.matches('\n').count(), "{}", error);
                prop_assert!(error.starts_with("m.xml:") && error.contains("; expected "), "{}", error);
            }
        }
    }
}
