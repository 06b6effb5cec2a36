// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads the topology of a machine from the XML that hwloc's `lstopo --of xml` writes, for example on another machine.
//!
//! Both formats are read. In hwloc 1 (`<topology>`), NUMA nodes contain what is near them, caches are `Cache` with a
//! depth, and distances are children of the object that they describe. In hwloc 2 (`<topology version="2.0">`), NUMA
//! nodes are children of what they are near to, caches are `L3Cache` and so on, and distances and kinds of CPUs follow
//! the tree. In both, a PU's place in the tree says to which core, cache and package the CPU belongs, and a node's
//! `cpuset` says which CPUs are near it.
//!
//! | taken | from |
//! |---|---|
//! | CPUs | `PU`, by `os_index`; of hwloc 1 those in `online_cpuset`. CPUs that a cgroup forbids are part of the machine |
//! | cores | `Core` |
//! | clusters | `Group` of subtype `Cluster`; if there is none, L2 caches that several cores share, as Linux does on x86 |
//! | last-level caches | the outermost cache that is not for instructions; else the die, the package |
//! | nodes | the `NUMANode`s that are near a CPU; a CPU belongs to the one that is near fewest CPUs. Other nodes have memory only |
//! | distances of nodes | the matrix `NUMALatency`, or hwloc 1's `latency`: what ACPI's SLIT says |
//! | capacity | `LinuxCapacity` of `cpukind`; where kinds differ in `CoreType` only, their highest frequencies |
//! | sizes of caches and lines | the caches of CPU 0 |
//!
//! What is missing is replaced as for `host`, and the machine's description says so. All other costs are those of
//! `host`.

use std::collections::BTreeMap;

use roxmltree::{Document, Node, ParsingOptions};

use crate::check::{LOCAL_DISTANCE, MAX_CAPACITY, check_size, check_topology};
use crate::costs::{Cost, Figure, Limits};
use crate::error::{Part, line_of};
use crate::parts::Parts;
use crate::presets::host_costs;
use crate::{MAX_CPUS, Machine, MachineError, Topology, file};

/// Largest file in bytes; hwloc writes a tenth of that for a thousand CPUs.
const MAX_BYTES: usize = 16 << 20;
/// Most elements and texts: more than hwloc writes for [`MAX_CPUS`] CPUs. This bounds the tree at about 200 MiB.
const MAX_XML_NODES: u32 = 1_000_000;
/// Most PUs, NUMA nodes and kinds of CPUs, online or not: each may have a list of [`MAX_CPUS`] CPUs.
const MAX_PARTS: usize = MAX_CPUS;

/// Distances between nodes if the file does not state them: in one package, and between packages.
const GUESSED_DISTANCE: (u32, u32) = (12, 21);

/// Most objects inside each other; machines have a dozen.
const MAX_DEPTH: usize = 64;

pub(crate) fn read_hwloc(text: &str, name: &str, file: &str) -> Result<Machine, MachineError> {
    let fault = |line, what: &str, expected: &str| MachineError::File {
        file: file.to_owned(),
        line,
        what: what.to_owned(),
        expected: expected.to_owned(),
    };
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Err(fault(1, "the file is empty", "hwloc's XML"));
    }
    // hwloc only needs its DOCTYPE line. Entities would expand: 15 KB of them to gigabytes.
    if let Some(byte) = text.find("<!ENTITY") {
        return Err(fault(line_of(text, byte), "an XML entity", "hwloc's XML, which declares none"));
    }
    if text.len() > MAX_BYTES {
        return Err(fault(1, &format!("{} bytes", text.len()), &format!("at most {MAX_BYTES}, hwloc's XML")));
    }
    let options = ParsingOptions { allow_dtd: true, nodes_limit: MAX_XML_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|e| {
        let message = e.to_string();
        let what = message.rsplit_once(" at ").map_or(message.as_str(), |(what, _)| what);
        fault(e.pos().row as usize, what, "hwloc's XML, as `lstopo --of xml` writes it")
    })?;
    read(document.root_element(), name)
        .map_err(|found| fault(line_of(text, found.byte), &found.what, &found.expected))
}

/// What is wrong, and at which byte of the text.
struct Fault {
    byte: usize,
    what: String,
    expected: String,
}

impl Fault {
    fn new(byte: usize, what: impl Into<String>, expected: impl Into<String>) -> Fault {
        Fault { byte, what: what.into(), expected: expected.into() }
    }
}

fn read(root: Node, name: &str) -> Result<Machine, Fault> {
    if root.tag_name().name() != "topology" {
        return Err(Fault::new(
            start_of(root),
            format!("<{}>", root.tag_name().name()),
            "<topology>, the root of hwloc's XML as `lstopo --of xml` writes it",
        ));
    }
    let found = Found::new(root)?;
    let mut guesses = Vec::new();
    let topology = topology(root, &found, &mut guesses)?;

    let (costs_file, text) = host_costs();
    let sourced = file::read_costs(text, &topology, costs_file)
        .map_err(|e| Fault::new(start_of(root), e.to_string(), "costs for it"))?;
    let (mut costs, mut sources, mut ranges) = (sourced.costs, sourced.sources, sourced.ranges);
    let caches = &found.pus[0].caches;
    let last = caches.iter().max_by_key(|cache| cache.depth);
    let inner = caches.iter().filter(|cache| Some(cache.depth) != last.map(|c| c.depth) && cache.depth <= 2);
    for (key, value, what) in [
        (
            "core_cache_bytes",
            inner.map(|cache| cache.bytes).fold(0, u64::saturating_add),
            "L1 data and L2 of CPU 0",
        ),
        ("llc_cache_bytes", last.map_or(0, |cache| cache.bytes), "last-level cache of CPU 0"),
        ("line_bytes", last.map_or(0, |cache| cache.line_bytes), "line of CPU 0's last-level cache"),
    ] {
        let cost = Cost::of(key);
        if value > 0 && matches!(&cost.limits, Limits::Number(range) if range.contains(&value)) {
            (cost.set)(&mut costs, Figure::Number(value));
            sources.insert(key.to_owned(), format!("hwloc: {what}"));
            ranges.remove(key);
        }
    }

    let model = found.model.map_or(String::new(), |model| format!("{model}, "));
    let mut description = format!("{} CPUs: {model}from hwloc; costs are estimates", topology.nr_cpus());
    for guess in guesses {
        description.push_str("; ");
        description.push_str(guess);
    }
    Ok(Machine { name: name.to_owned(), description, topology, costs, sources, ranges })
}

/// What the tree of objects says.
struct Found<'a> {
    /// The CPUs that are online, by number.
    pus: Vec<Pu>,
    numa: Vec<Numa>,
    /// Whether any object is a cluster.
    has_clusters: bool,
    model: Option<&'a str>,
}

/// A CPU and the objects that it is in, numbered in the order of the file.
#[derive(Clone, Default)]
struct Pu {
    /// Where it begins in the text.
    byte: usize,
    package: Option<u32>,
    die: Option<u32>,
    cluster: Option<u32>,
    core: Option<u32>,
    caches: Vec<Cache>,
}

#[derive(Clone, Copy)]
struct Cache {
    number: u32,
    depth: u32,
    bytes: u64,
    line_bytes: u64,
}

struct Numa {
    os_index: u32,
    /// CPUs near the node, ascending.
    cpus: Vec<u32>,
}

impl<'a> Found<'a> {
    fn new(root: Node<'a, 'a>) -> Result<Found<'a>, Fault> {
        let mut objects = Objects::default();
        // Objects that the current one is in, with what a CPU there would be in.
        let mut path: Vec<(Node, Pu)> = Vec::new();
        for (number, node) in (0..).zip(root.descendants().filter(Node::is_element)) {
            if node.tag_name().name() == "info" && node.attribute("name") == Some("CPUModel") {
                let model = node.attribute("value").map(str::trim).filter(|text| !text.is_empty());
                objects.model = objects.model.or(model);
            }
            if node.tag_name().name() != "object" {
                continue;
            }
            while path.last().is_some_and(|(outer, _)| Some(*outer) != node.parent()) {
                path.pop();
            }
            let mut here = path.last().map_or_else(Pu::default, |(_, outer)| outer.clone());
            here.byte = start_of(node);
            objects.add(node, number, &mut here)?;
            path.push((node, here));
            if path.len() > MAX_DEPTH {
                return Err(Fault::new(
                    start_of(node),
                    format!("{MAX_DEPTH} objects inside each other"),
                    "fewer",
                ));
            }
        }
        objects.into_found(root)
    }
}

/// The objects seen so far on a walk over the tree.
#[derive(Default)]
struct Objects<'a> {
    /// By CPU number, offline CPUs included.
    pus: BTreeMap<u32, Pu>,
    numa: Vec<Numa>,
    /// CPUs that are online, if the file lists them.
    online: Option<Vec<u32>>,
    has_clusters: bool,
    model: Option<&'a str>,
}

impl<'a> Objects<'a> {
    /// Adds the object `node`, and adds it to `here`, the objects that a CPU inside it is in.
    fn add(&mut self, node: Node, number: u32, here: &mut Pu) -> Result<(), Fault> {
        let kind = node
            .attribute("type")
            .ok_or_else(|| Fault::new(start_of(node), "an object without `type`", "hwloc's types"))?;
        match kind {
            "Machine" | "System" => {
                if let Some(set) = node.attribute("online_cpuset") {
                    self.online = Some(cpus_of(node, set)?);
                }
            }
            "Package" | "Socket" => here.package = Some(number),
            "Die" => here.die = Some(number),
            "Group" if is_cluster(node) => {
                here.cluster = Some(number);
                self.has_clusters = true;
            }
            "Core" => here.core = Some(number),
            "NUMANode" => self.add_numa(node)?,
            "PU" => self.add_pu(node, here)?,
            _ => here.caches.extend(cache(node, kind, number)?),
        }
        Ok(())
    }

    fn add_numa(&mut self, node: Node) -> Result<(), Fault> {
        let set = node.attribute("cpuset").ok_or_else(|| {
            Fault::new(start_of(node), "a NUMANode without `cpuset`", "the CPUs that it is near to")
        })?;
        refuse_many(node, "NUMANodes", self.numa.len())?;
        self.numa.push(Numa { os_index: required(node, "os_index")?, cpus: cpus_of(node, set)? });
        Ok(())
    }

    fn add_pu(&mut self, node: Node, here: &Pu) -> Result<(), Fault> {
        let cpu: u32 = required(node, "os_index")?;
        refuse_many(node, "PUs", self.pus.len())?;
        if self.pus.insert(cpu, here.clone()).is_some() {
            return Err(Fault::new(start_of(node), format!("PU {cpu} is there twice"), "each once"));
        }
        Ok(())
    }

    /// Leaves offline CPUs out. Refuses CPU numbers with gaps.
    fn into_found(mut self, root: Node) -> Result<Found<'a>, Fault> {
        if let Some(online) = self.online {
            self.pus.retain(|cpu, _| online.binary_search(cpu).is_ok());
        }
        let numbers: Vec<u32> = self.pus.keys().copied().collect();
        check_size(numbers.len() as u64)
            .map_err(|fault| Fault::new(start_of(root), fault.what, fault.expected))?;
        if let Some((missing, _)) = (0..).zip(&numbers).find(|(expected, cpu)| expected != *cpu) {
            return Err(Fault::new(
                start_of(root),
                format!("no PU {missing}, and PU {} is there", numbers[numbers.len() - 1]),
                "PU numbers without gaps: bring CPUs online, and use `lstopo --disallowed` where a cgroup hides them",
            ));
        }
        let pus = self.pus.into_values().collect();
        Ok(Found { pus, numa: self.numa, has_clusters: self.has_clusters, model: self.model })
    }
}

/// Reads a cache of data, or of data and instructions; `None` for other objects.
fn cache(node: Node, kind: &str, number: u32) -> Result<Option<Cache>, Fault> {
    // hwloc 2: `L3Cache`, and `L1iCache` for instructions. hwloc 1: `Cache` with `depth`.
    let level = kind.strip_prefix('L').and_then(|rest| rest.strip_suffix("Cache"));
    let depth = match level.map(str::parse) {
        Some(Ok(depth)) => depth,
        _ if kind == "Cache" => required(node, "depth")?,
        _ => return Ok(None),
    };
    const INSTRUCTIONS: &str = "2";
    if node.attribute("cache_type") == Some(INSTRUCTIONS) {
        return Ok(None);
    }
    let bytes = optional(node, "cache_size")?.unwrap_or(0);
    let line_bytes = optional(node, "cache_linesize")?.unwrap_or(0);
    Ok(Some(Cache { number, depth, bytes, line_bytes }))
}

fn is_cluster(group: Node) -> bool {
    group.attribute("subtype") == Some("Cluster")
        || group.children().any(|info| {
            info.has_tag_name("info")
                && info.attribute("name") == Some("Type")
                && info.attribute("value") == Some("Cluster")
        })
}

fn topology(root: Node, found: &Found, guesses: &mut Vec<&'static str>) -> Result<Topology, Fault> {
    let pus = &found.pus;
    // Objects get odd numbers, and what replaces missing objects gets even ones.
    let core: Vec<u32> =
        (0..).zip(pus).map(|(cpu, pu)| pu.core.map_or(2 * cpu, |core| 2 * core + 1)).collect();
    if pus.iter().any(|pu| pu.core.is_none()) {
        guesses.push("cores are missing: one a CPU");
    }
    let llc_of = |pu: &Pu| pu.caches.iter().max_by_key(|cache| cache.depth).copied();
    let llc: Vec<u32> = pus
        .iter()
        .map(|pu| llc_of(pu).map(|cache| cache.number).or(pu.die).or(pu.package).unwrap_or(0))
        .collect();
    if pus.iter().any(|pu| llc_of(pu).is_none()) {
        guesses.push("caches are missing: the die or package stands for the LLC");
    }
    let cluster: Vec<u32> = (0..pus.len())
        .map(|cpu| {
            let l2 = || pus[cpu].caches.iter().find(|cache| cache.depth == 2).map(|cache| cache.number);
            let shared = if found.has_clusters { pus[cpu].cluster } else { l2() };
            shared.map_or(2 * core[cpu], |cluster| 2 * cluster + 1)
        })
        .collect();
    let (node, nodes) = nodes(root, found)?;
    if nodes.is_empty() {
        guesses.push("nodes are missing: one");
    } else if nodes.len() < found.numa.len() {
        guesses.push("nodes without CPUs are left out");
    }
    let (distances_at, node_distance) = match distances(root, found)? {
        _ if nodes.len() < 2 => (start_of(root), vec![vec![LOCAL_DISTANCE]]),
        Some((byte, all)) => {
            (byte, nodes.iter().map(|&a| nodes.iter().map(|&b| all[a][b]).collect()).collect())
        }
        None => {
            guesses.push("distances of nodes are missing: 12 in a package, 21 beyond");
            let package_of = |at: usize| {
                (0..pus.len()).find(|&cpu| node[cpu] == at as u32).and_then(|cpu| pus[cpu].package)
            };
            let guess = |a: usize, b: usize| match (a == b, package_of(a) == package_of(b)) {
                (true, _) => LOCAL_DISTANCE,
                (false, true) => GUESSED_DISTANCE.0,
                (false, false) => GUESSED_DISTANCE.1,
            };
            let matrix = (0..nodes.len()).map(|a| (0..nodes.len()).map(|b| guess(a, b)).collect()).collect();
            (start_of(root), matrix)
        }
    };
    let capacity = capacities(root, pus.len(), guesses)?;
    let mut topology =
        Parts { core, cluster: Some(cluster), llc, node, capacity }.into_topology(node_distance);
    check_topology(&topology).map_err(|fault| {
        let byte = match fault.part {
            Part::Cpu(cpu) => pus[cpu].byte,
            Part::NodeRow(_) => distances_at,
            Part::Topology | Part::Cost(_) => start_of(root),
        };
        Fault::new(byte, fault.what, fault.expected)
    })?;
    topology.renumber();
    Ok(topology)
}

/// Returns the node of each CPU, numbered from 0 by `os_index`, and the places of these nodes in `found.numa`. If the
/// file has no nodes, all CPUs are in node 0, and there are no places.
fn nodes(root: Node, found: &Found) -> Result<(Vec<u32>, Vec<usize>), Fault> {
    let nr_cpus = found.pus.len();
    if found.numa.is_empty() {
        return Ok((vec![0; nr_cpus], Vec::new()));
    }
    // The node that is near most CPUs comes first, so that nodes near fewer CPUs overwrite it.
    let mut order: Vec<usize> = (0..found.numa.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse((found.numa[at].cpus.len(), found.numa[at].os_index)));
    let mut of_cpu = vec![None; nr_cpus];
    for at in order {
        for &cpu in &found.numa[at].cpus {
            if let Some(node) = of_cpu.get_mut(cpu as usize) {
                *node = Some(at);
            }
        }
    }
    let mut chosen = Vec::new();
    for (cpu, at) in of_cpu.into_iter().enumerate() {
        chosen.push(at.ok_or_else(|| {
            Fault::new(
                found.pus[cpu].byte,
                format!("PU {cpu} is near no NUMANode"),
                "each PU in a node's `cpuset`",
            )
        })?);
    }
    let mut used = chosen.clone();
    used.sort_by_key(|&at| found.numa[at].os_index);
    used.dedup();
    for pair in used.windows(2) {
        let index = found.numa[pair[0]].os_index;
        if index == found.numa[pair[1]].os_index {
            return Err(Fault::new(
                start_of(root),
                format!("two NUMANodes have `os_index` {index}"),
                "each its own",
            ));
        }
    }
    let row_of: BTreeMap<usize, u32> = used.iter().copied().zip(0..).collect();
    Ok((chosen.iter().map(|at| row_of[at]).collect(), used))
}

type Matrix = Vec<Vec<u32>>;

/// Returns the distances between all of `found.numa`, in its order, and where they are in the text; `None` if the file
/// has none.
fn distances(root: Node, found: &Found) -> Result<Option<(usize, Matrix)>, Fault> {
    let nr_nodes = found.numa.len();
    for element in root.descendants().filter(Node::is_element) {
        let byte = start_of(element);
        let (indexes, values) = match element.tag_name().name() {
            "distances2" => {
                let is_latency = match element.attribute("name") {
                    Some(name) => name == "NUMALatency",
                    // Files of hwloc 2.0 have no names. Kind: 1 from the operating system, 4 latency.
                    None => required::<u32>(element, "kind")? & 4 != 0,
                };
                if element.attribute("type") != Some("NUMANode") || !is_latency {
                    continue;
                }
                let indexes: Vec<u64> = texts(element, "indexes")?;
                (Some(indexes), texts(element, "u64values")?)
            }
            "distances" => {
                let latencies = element.children().filter(|child| child.has_tag_name("latency"));
                let base: f64 = optional(element, "latency_base")?.unwrap_or(1.0);
                let mut values = Vec::new();
                for latency in latencies {
                    values.push((required::<f64>(latency, "value")? * base).round() as u64);
                }
                (None, values)
            }
            _ => continue,
        };
        if indexes.as_ref().map_or(values.len() != nr_nodes * nr_nodes, |i| i.len() * i.len() != values.len())
        {
            // In hwloc 1, this may be a matrix of other objects.
            if indexes.is_none() {
                continue;
            }
            return Err(Fault::new(
                byte,
                format!("{} distances", values.len()),
                "one for each pair of `indexes`",
            ));
        }
        return matrix(found, indexes, &values, byte).map(|matrix| Some((byte, matrix)));
    }
    Ok(None)
}

/// Sorts the rows and columns of `values` into the order of `found.numa`. Their order is that of `indexes`, which are
/// values of `os_index`; without `indexes` the order is the same.
fn matrix(found: &Found, indexes: Option<Vec<u64>>, values: &[u64], byte: usize) -> Result<Matrix, Fault> {
    let nr_nodes = found.numa.len();
    let places: Vec<usize> = match &indexes {
        None => (0..nr_nodes).collect(),
        Some(indexes) => {
            let place = |numa: &Numa| {
                indexes.iter().position(|&index| index == u64::from(numa.os_index)).ok_or_else(|| {
                    Fault::new(
                        byte,
                        format!("no distances of node {}", numa.os_index),
                        "a row for each NUMANode",
                    )
                })
            };
            found.numa.iter().map(place).collect::<Result<_, _>>()?
        }
    };
    let width = indexes.map_or(nr_nodes, |indexes| indexes.len());
    // hwloc 1 may have divided by the distance of a node from itself.
    let local = values.first().copied().unwrap_or(0);
    let scaled = |value: u64| match local {
        0 => u32::try_from(value).unwrap_or(u32::MAX),
        local => u32::try_from(value.saturating_mul(LOCAL_DISTANCE.into()) / local).unwrap_or(u32::MAX),
    };
    Ok(places.iter().map(|&a| places.iter().map(|&b| scaled(values[a * width + b])).collect()).collect())
}

fn capacities(root: Node, nr_cpus: usize, guesses: &mut Vec<&'static str>) -> Result<Vec<u32>, Fault> {
    let mut kinds = Vec::new();
    for kind in root.children().filter(|child| child.has_tag_name("cpukind")) {
        let info = |name: &str| {
            kind.children().find(|i| i.has_tag_name("info") && i.attribute("name") == Some(name))
        };
        let number = |name: &str| info(name).map(|node| required::<u64>(node, "value")).transpose();
        let set = kind.attribute("cpuset").ok_or_else(|| {
            Fault::new(start_of(kind), "a cpukind without `cpuset`", "the CPUs of that kind")
        })?;
        let core_type = info("CoreType").and_then(|node| node.attribute("value"));
        let speeds = (number("LinuxCapacity")?, number("FrequencyMaxMHz")?);
        refuse_many(kind, "cpukinds", kinds.len())?;
        kinds.push((cpus_of(kind, set)?, core_type, speeds));
    }
    let capacity_known = kinds.iter().all(|(_, _, (capacity, _))| capacity.is_some());
    let frequency_known = kinds.iter().all(|(_, _, (_, frequency))| frequency.is_some());
    let differ = kinds.windows(2).any(|pair| pair[0].1 != pair[1].1);
    let mut speeds = vec![0; nr_cpus];
    for (cpus, _, (capacity, frequency)) in &kinds {
        let speed = if capacity_known { *capacity } else { frequency.filter(|_| frequency_known && differ) };
        for &cpu in cpus {
            if let Some(slot) = speeds.get_mut(cpu as usize) {
                *slot = speed.unwrap_or(0);
            }
        }
    }
    let fastest = speeds.iter().copied().max().unwrap_or(0);
    if speeds.contains(&0) {
        if differ {
            guesses.push("kinds of CPUs differ by unknown speeds: all have full capacity");
        }
        return Ok(vec![MAX_CAPACITY; nr_cpus]);
    }
    if !capacity_known {
        guesses.push("capacities are those of the highest frequencies");
    }
    let part =
        |speed: u64| (u128::from(speed) * u128::from(MAX_CAPACITY) / u128::from(fastest)).max(1) as u32;
    Ok(speeds.into_iter().map(part).collect())
}

/// Refuses one more part if there are [`MAX_PARTS`] already.
fn refuse_many(node: Node, kind: &str, count: usize) -> Result<(), Fault> {
    if count < MAX_PARTS {
        return Ok(());
    }
    Err(Fault::new(start_of(node), format!("more than {MAX_PARTS} {kind}"), "fewer"))
}

/// Returns the byte of the text at which the element begins.
fn start_of(node: Node) -> usize {
    node.range().start
}

/// Reads an attribute that is a number; `None` if the element does not have it.
fn optional<T: std::str::FromStr>(node: Node, name: &str) -> Result<Option<T>, Fault> {
    let Some(text) = node.attribute(name) else { return Ok(None) };
    text.trim()
        .parse()
        .map(Some)
        .map_err(|_| Fault::new(start_of(node), format!("`{name}` is `{text}`"), "a number"))
}

fn required<T: std::str::FromStr>(node: Node, name: &str) -> Result<T, Fault> {
    optional(node, name)?.ok_or_else(|| {
        Fault::new(start_of(node), format!("<{}> without `{name}`", node.tag_name().name()), "a number")
    })
}

/// Reads the numbers in all children of that name, one after another.
fn texts(node: Node, name: &str) -> Result<Vec<u64>, Fault> {
    let mut numbers = Vec::new();
    for child in node.children().filter(|child| child.has_tag_name(name)) {
        for word in child.text().unwrap_or_default().split_whitespace() {
            numbers.push(word.parse().map_err(|_| {
                Fault::new(start_of(child), format!("`{word}` in <{name}>"), "numbers without sign")
            })?);
        }
    }
    Ok(numbers)
}

/// Reads the CPUs of a set as hwloc writes it: words of 32 bits in hexadecimal, the last CPUs first, as in
/// `0x0000000f,,0xffffffff`. An empty word is 0. A first word `0xf...f` stands for all CPUs beyond the other words.
fn cpus_of(node: Node, set: &str) -> Result<Vec<u32>, Fault> {
    let fault = || Fault::new(start_of(node), format!("the set `{set}`"), "words as `0x0000000f,0xffffffff`");
    let mut words: Vec<&str> = set.split(',').map(str::trim).collect();
    let unbounded = words.first() == Some(&"0xf...f");
    if unbounded {
        words.remove(0);
    }
    let mut cpus = Vec::new();
    for (at, word) in words.iter().rev().enumerate().filter(|(_, word)| !word.is_empty()) {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        let bits = u32::from_str_radix(digits, 16).map_err(|_| fault())?;
        if bits != 0 && at >= MAX_CPUS / 32 {
            return Err(Fault::new(start_of(node), format!("a CPU above {}", MAX_CPUS - 1), "fewer CPUs"));
        }
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| at as u32 * 32 + bit));
    }
    if unbounded {
        cpus.extend(words.len() as u32 * 32..MAX_CPUS as u32);
    }
    Ok(cpus)
}
