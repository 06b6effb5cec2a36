// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads a machine file.
//!
//! ```toml
//! description = "one line"
//!
//! [topology]                  # the regular form: how many of what inside what
//! sockets = 2
//! nodes_per_socket = 1        # 1 if left out
//! llcs_per_node = 1           # 1 if left out
//! cores_per_llc = 22          # or clusters_per_llc and cores_per_cluster
//! threads_per_core = 2        # 1 if left out
//! numbering = "linux-x86"     # or "consecutive"; needed where a core has several threads
//! capacity = 1024             # or one a CPU, [1024, 512, ..]; 1024 if left out
//! node_distance = [[10, 21], [21, 10]]    # needed if there are several nodes
//!
//! [costs]                     # every key of `Costs`, each with a source; costs_file.rs reads them
//! base = "smp-8"              # where figures left out here come from (base.rs); without it all are needed
//! wakeup_ns = { value = 500, source = "estimate: .." }
//! line_transfer_ps = { value = { cpu = 0, smt = 7_600, llc = 44_000, numa1 = 118_000 }, source = ".." }
//! ```
//!
//! An irregular machine lists its CPUs instead of counts, in any order:
//! `cpus = [{ cpu = 0, core = 0, cluster = 0, llc = 0, node = 0, capacity = 512 }, ..]`. `cluster` and `capacity` are
//! optional. Parts may have any numbers there, and are renumbered in the order of their first CPU. Nodes keep their
//! numbers, because those are rows of `node_distance`.
//!
//! Tables by distance need a value for every distance that the machine has. Nothing reads the entries for other
//! distances; each gets the value of the next nearer distance.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use toml::Spanned;

use crate::base::Origin;
use crate::check::{LOCAL_DISTANCE, MAX_CAPACITY, check_costs, check_size, check_topology};
use crate::costs_file::{self, CostsFile, SourcedCosts};
use crate::counts::{Counts, Numbering};
use crate::error::{Fault, Located, Part};
use crate::{Cpu, Machine, MachineError, Topology};

/// Largest machine file in bytes; one that lists 4,096 CPUs has a tenth of that.
const MAX_BYTES: usize = 4 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineFile {
    description: String,
    topology: Spanned<TopologyFile>,
    costs: Spanned<CostsFile>,
}

/// A file without a topology: the costs of `host`, whose topology comes from sysfs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CostsOnlyFile {
    #[serde(rename = "description")]
    _description: String,
    costs: Spanned<CostsFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopologyFile {
    sockets: Option<Spanned<u32>>,
    nodes_per_socket: Option<Spanned<u32>>,
    llcs_per_node: Option<Spanned<u32>>,
    clusters_per_llc: Option<Spanned<u32>>,
    cores_per_llc: Option<Spanned<u32>>,
    cores_per_cluster: Option<Spanned<u32>>,
    threads_per_core: Option<Spanned<u32>>,
    numbering: Option<Spanned<Numbering>>,
    capacity: Option<Spanned<Capacity>>,
    cpus: Option<Spanned<Vec<Spanned<CpuFile>>>>,
    node_distance: Option<Spanned<Vec<Spanned<Vec<u32>>>>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct CpuFile {
    cpu: u32,
    core: u32,
    cluster: Option<u32>,
    llc: u32,
    node: u32,
    capacity: Option<u32>,
}

enum Capacity {
    Same(u32),
    Each(Vec<u32>),
}

impl<'de> Deserialize<'de> for Capacity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CapacityVisitor;
        impl<'de> Visitor<'de> for CapacityVisitor {
            type Value = Capacity;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                write!(f, "1 to {MAX_CAPACITY}, or a list of that for each CPU")
            }

            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Capacity, E> {
                u32::try_from(value)
                    .map(Capacity::Same)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(value), &self))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Capacity, A::Error> {
                let mut each = Vec::new();
                while let Some(capacity) = seq.next_element()? {
                    each.push(capacity);
                }
                Ok(Capacity::Each(each))
            }
        }
        deserializer.deserialize_any(CapacityVisitor)
    }
}

/// Reads a whole machine file. `name` becomes the machine's name; messages name `file`.
pub(crate) fn read_machine(
    text: &str,
    name: &str,
    file: &str,
    origin: &Origin<'_>,
) -> Result<Machine, MachineError> {
    refuse_large(text, file)?;
    if text.trim().is_empty() {
        let found = Located::new(0..0, "the file is empty", "`description`, [topology] and [costs]");
        return Err(found.in_file(text, file));
    }
    parse(text)
        .and_then(|parsed: MachineFile| {
            let (topology, places) = topology(parsed.topology)?;
            let sourced = costs_file::read(parsed.costs, &topology, origin)?;
            check_costs(&topology, &sourced.costs).map_err(|f| located(f, &places, &sourced.spans))?;
            Ok(Machine {
                name: name.to_owned(),
                description: parsed.description,
                topology,
                costs: sourced.costs,
                sources: sourced.sources,
                ranges: sourced.ranges,
            })
        })
        .map_err(|located| located.in_file(text, file))
}

/// Reads a file that has only `[costs]`, for a topology from elsewhere.
pub(crate) fn read_costs(text: &str, topology: &Topology, file: &str) -> Result<SourcedCosts, MachineError> {
    parse(text)
        .and_then(|parsed: CostsOnlyFile| {
            let sourced = costs_file::read(parsed.costs, topology, &Origin::default())?;
            check_costs(topology, &sourced.costs)
                .map_err(|f| located(f, &Places::default(), &sourced.spans))?;
            Ok(sourced)
        })
        .map_err(|located| located.in_file(text, file))
}

/// Refuses a text of more than [`MAX_BYTES`], because its tree takes some 50 times as much memory.
fn refuse_large(text: &str, file: &str) -> Result<(), MachineError> {
    if text.len() <= MAX_BYTES {
        return Ok(());
    }
    let found =
        Located::new(0..0, format!("{} bytes", text.len()), format!("at most {MAX_BYTES}, a machine file"));
    Err(found.in_file(text, file))
}

fn parse<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, Located> {
    toml::from_str(text).map_err(|e| {
        let message = e.message().trim().replace('\n', ", ");
        // serde's messages say what was expected; syntax errors of TOML do not.
        match message.split_once(", expected ") {
            Some((what, expected)) => Located::new(e.span().unwrap_or(0..0), what, expected),
            None => Located::new(e.span().unwrap_or(0..0), message, "a machine file (machines/README.md)"),
        }
    })
}

/// Where the parts of a topology are in the file.
#[derive(Default)]
struct Places {
    topology: Range<usize>,
    /// By CPU number; empty for a machine given by counts.
    cpus: Vec<Range<usize>>,
    node_rows: Vec<Range<usize>>,
}

fn located(fault: Fault, places: &Places, costs: &BTreeMap<&'static str, Range<usize>>) -> Located {
    let span = match fault.part {
        Part::Topology => None,
        Part::Cpu(cpu) => places.cpus.get(cpu),
        Part::NodeRow(row) => places.node_rows.get(row),
        Part::Cost(key) => costs.get(key),
    };
    Located::new(span.unwrap_or(&places.topology).clone(), fault.what, fault.expected)
}

fn topology(file: Spanned<TopologyFile>) -> Result<(Topology, Places), Located> {
    let mut places = Places { topology: file.span(), ..Places::default() };
    let file = file.into_inner();
    let mut cpus = match &file.cpus {
        Some(list) => listed_cpus(&file, list, &mut places)?,
        None => counted_cpus(&file, &places)?,
    };
    set_capacities(&mut cpus, file.capacity)?;
    let node_distance = match file.node_distance {
        Some(rows) => {
            let rows = rows.into_inner();
            places.node_rows = rows.iter().map(Spanned::span).collect();
            rows.into_iter().map(Spanned::into_inner).collect()
        }
        None if cpus.iter().all(|c| c.node == 0) => vec![vec![LOCAL_DISTANCE]],
        None => {
            return Err(Located::new(
                places.topology,
                "several nodes and no `node_distance`",
                "the matrix of ACPI's SLIT, e.g. [[10, 21], [21, 10]]",
            ));
        }
    };
    let mut topology = Topology { cpus, node_distance };
    check_topology(&topology).map_err(|fault| located(fault, &places, &BTreeMap::new()))?;
    topology.renumber();
    Ok((topology, places))
}

/// Returns the CPUs of a machine given by counts.
fn counted_cpus(file: &TopologyFile, places: &Places) -> Result<Vec<Cpu>, Located> {
    let missing = |key: &str| {
        Located::new(
            places.topology.clone(),
            format!("[topology] has no `{key}`"),
            "counts, or a list `cpus`",
        )
    };
    let positive = |key: &str, count: &Option<Spanned<u32>>| match count {
        Some(count) if *count.get_ref() == 0 => {
            Err(Located::new(count.span(), format!("`{key}` is 0"), "at least 1"))
        }
        Some(count) => Ok(Some(*count.get_ref())),
        None => Ok(None),
    };
    let sockets = positive("sockets", &file.sockets)?.ok_or_else(|| missing("sockets"))?;
    let nodes_per_socket = positive("nodes_per_socket", &file.nodes_per_socket)?.unwrap_or(1);
    let clusters_per_llc = positive("clusters_per_llc", &file.clusters_per_llc)?;
    let (key, cores, other_key, other) = if clusters_per_llc.is_some() {
        ("cores_per_cluster", &file.cores_per_cluster, "cores_per_llc", &file.cores_per_llc)
    } else {
        ("cores_per_llc", &file.cores_per_llc, "cores_per_cluster", &file.cores_per_cluster)
    };
    if let Some(other) = other {
        return Err(Located::new(
            other.span(),
            format!(
                "`{other_key}` in a machine {} clusters",
                if clusters_per_llc.is_some() { "with" } else { "without" }
            ),
            format!("`{key}`, with `clusters_per_llc` only where LLCs have clusters"),
        ));
    }
    let counts = Counts {
        nodes: sockets.saturating_mul(nodes_per_socket),
        llcs_per_node: positive("llcs_per_node", &file.llcs_per_node)?.unwrap_or(1),
        clusters_per_llc,
        cores: positive(key, cores)?.ok_or_else(|| missing(key))?,
        threads: positive("threads_per_core", &file.threads_per_core)?.unwrap_or(1),
    };
    check_size(counts.nr_cpus()).map_err(|fault| located(fault, places, &BTreeMap::new()))?;
    let numbering = match &file.numbering {
        Some(numbering) => *numbering.get_ref(),
        None if counts.threads == 1 => Numbering::Consecutive,
        None => {
            return Err(Located::new(
                places.topology.clone(),
                "cores with several threads and no `numbering`",
                "\"linux-x86\" (first threads of all cores first) or \"consecutive\" (threads of a core adjacent)",
            ));
        }
    };
    Ok(counts.expand(numbering, MAX_CAPACITY))
}

/// Returns the CPUs of a machine given by a list.
fn listed_cpus(
    file: &TopologyFile,
    list: &Spanned<Vec<Spanned<CpuFile>>>,
    places: &mut Places,
) -> Result<Vec<Cpu>, Located> {
    for (key, span) in [
        ("sockets", file.sockets.as_ref().map(Spanned::span)),
        ("nodes_per_socket", file.nodes_per_socket.as_ref().map(Spanned::span)),
        ("llcs_per_node", file.llcs_per_node.as_ref().map(Spanned::span)),
        ("clusters_per_llc", file.clusters_per_llc.as_ref().map(Spanned::span)),
        ("cores_per_llc", file.cores_per_llc.as_ref().map(Spanned::span)),
        ("cores_per_cluster", file.cores_per_cluster.as_ref().map(Spanned::span)),
        ("threads_per_core", file.threads_per_core.as_ref().map(Spanned::span)),
        ("numbering", file.numbering.as_ref().map(Spanned::span)),
        ("capacity", file.capacity.as_ref().map(Spanned::span)),
    ] {
        if let Some(span) = span {
            return Err(Located::new(
                span,
                format!("`{key}` beside a list of CPUs"),
                "counts or `cpus`, not both",
            ));
        }
    }
    let at_topology =
        |fault| located(fault, &Places { topology: list.span(), ..Places::default() }, &BTreeMap::new());
    check_size(list.get_ref().len() as u64).map_err(at_topology)?;
    let nr_cpus = list.get_ref().len();
    let mut by_number: Vec<Option<&Spanned<CpuFile>>> = vec![None; nr_cpus];
    for entry in list.get_ref() {
        let cpu = entry.get_ref().cpu;
        let Some(slot) = by_number.get_mut(cpu as usize) else {
            return Err(Located::new(
                entry.span(),
                format!("CPU {cpu} in a list of {nr_cpus}"),
                format!("each of 0 to {} once", nr_cpus - 1),
            ));
        };
        if slot.replace(entry).is_some() {
            return Err(Located::new(entry.span(), format!("CPU {cpu} is listed twice"), "each CPU once"));
        }
    }
    // There are as many entries as CPUs, none twice and none out of range, so every slot is taken.
    let entries: Vec<&Spanned<CpuFile>> = by_number.into_iter().flatten().collect();
    places.cpus = entries.iter().map(|e| e.span()).collect();
    Ok(entries
        .iter()
        .map(|entry| {
            let e = entry.get_ref();
            let capacity = e.capacity.unwrap_or(MAX_CAPACITY);
            Cpu { core: e.core, cluster: e.cluster, llc: e.llc, node: e.node, capacity }
        })
        .collect())
}

fn set_capacities(cpus: &mut [Cpu], capacity: Option<Spanned<Capacity>>) -> Result<(), Located> {
    let Some(capacity) = capacity else { return Ok(()) };
    let span = capacity.span();
    match capacity.into_inner() {
        Capacity::Same(capacity) => cpus.iter_mut().for_each(|cpu| cpu.capacity = capacity),
        Capacity::Each(each) if each.len() == cpus.len() => {
            cpus.iter_mut().zip(each).for_each(|(cpu, capacity)| cpu.capacity = capacity);
        }
        Capacity::Each(each) => {
            return Err(Located::new(
                span,
                format!("`capacity` has {} entries", each.len()),
                format!("one for each of {} CPUs, or one number for all", cpus.len()),
            ));
        }
    }
    Ok(())
}
