// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads the topology of a running machine from sysfs, as Linux's scheduler sees it.
//!
//! These files are read, below the root (normally `/sys`):
//! - `devices/system/cpu/online`: the CPUs. If their numbers have gaps, they get others, in the same order. A
//!   [`Machine`] must not have gaps, because recordings name CPUs by number;
//! - `devices/system/cpu/cpuN/topology/core_cpus_list` (before Linux 5.3 `thread_siblings_list`): the core;
//! - `.../topology/cluster_cpus_list`: the cluster; where the kernel reports none, cores that share a second-level
//!   cache;
//! - `.../cache/indexM/{level,type,shared_cpu_list}`: the last-level cache, which is the one of the highest level;
//! - `.../cpu_capacity`: the capacity, where cores differ;
//! - `devices/cpu_atom/cpus` and `.../acpi_cppc/highest_perf`: the same of Intel's hybrids, where Linux reports no
//!   capacity;
//! - `devices/system/node/nodeN/{cpulist,distance}`: the nodes. Those without CPUs are left out.
//!
//! What is missing is replaced as Linux does it (a core of one thread, the package as last-level cache, one node), and
//! the machine's description says so.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::check::{LOCAL_DISTANCE, MAX_CAPACITY, check_topology};
use crate::costs_file::SourcedCosts;
use crate::parts::Parts;
use crate::presets::{HOST, host_costs};
use crate::{Machine, MachineError, Topology, cpulist, file};

/// The CPUs of a machine that are online.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnlineCpus {
    /// Their topology; the CPUs are numbered from 0 without gaps.
    pub topology: Topology,
    /// The kernel's number of each, ascending.
    pub numbers: Vec<u32>,
}

impl OnlineCpus {
    /// Reads them from the sysfs at `root`.
    ///
    /// # Errors
    /// If a file is missing for which there is no substitute, or files contradict each other.
    pub fn read(root: &Path) -> Result<OnlineCpus, MachineError> {
        let mut sysfs = Sysfs::open(root)?;
        Ok(OnlineCpus { topology: sysfs.topology()?, numbers: sysfs.online })
    }
}

/// Reads the machine whose sysfs is at `root`.
pub(crate) fn read_host(root: &Path) -> Result<Machine, MachineError> {
    let mut sysfs = Sysfs::open(root)?;
    sysfs.refuse_gaps()?;
    let topology = sysfs.topology()?;
    let (costs_file, text) = host_costs();
    let costs = file::read_costs(text, &topology, costs_file)?;
    let mut description =
        format!("{} CPUs, from {}; costs are estimates", topology.nr_cpus(), root.display());
    for guess in &sysfs.guesses {
        description.push_str("; ");
        description.push_str(guess);
    }
    let SourcedCosts { costs, sources, ranges, .. } = costs;
    Ok(Machine { name: HOST.to_owned(), description, topology, costs, sources, ranges })
}

struct Sysfs {
    root: PathBuf,
    /// The kernel's numbers of the CPUs, ascending. Everywhere else below, a CPU is an index of this list.
    online: Vec<u32>,
    /// What was missing, and what replaces it.
    guesses: Vec<&'static str>,
}

impl Sysfs {
    fn open(root: &Path) -> Result<Sysfs, MachineError> {
        let mut sysfs = Sysfs { root: root.join("devices/system"), online: Vec::new(), guesses: Vec::new() };
        let path = sysfs.online_path();
        let Some(text) = read(&path)? else {
            return Err(sysfs.fault(&path, "no such file", "sysfs, with a list of CPUs there"));
        };
        sysfs.online = sysfs.list(&path, &text)?;
        if sysfs.online.is_empty() {
            return Err(sysfs.fault(&path, "no CPU is online", "at least one"));
        }
        Ok(sysfs)
    }

    fn online_path(&self) -> PathBuf {
        self.root.join("cpu/online")
    }

    /// Fails if a CPU with a lower number than one that is online is offline.
    fn refuse_gaps(&self) -> Result<(), MachineError> {
        let Some((expected, _)) = (0..).zip(&self.online).find(|(expected, cpu)| expected != *cpu) else {
            return Ok(());
        };
        Err(self.fault(
            &self.online_path(),
            format!("CPU {expected} is offline, and {} is online", cpulist::format(&self.online)),
            "CPU numbers without gaps: bring it online, or describe the machine in a file",
        ))
    }

    /// Returns the indices of the CPUs of a kernel's list that are online. Some lists have offline CPUs.
    fn indices(&self, list: &[u32]) -> Vec<u32> {
        let index = |cpu: &u32| self.online.binary_search(cpu).ok().map(|index| index as u32);
        list.iter().filter_map(index).collect()
    }

    fn topology(&mut self) -> Result<Topology, MachineError> {
        let nr_cpus = self.online.len() as u32;
        let (node_of, node_distance) = self.nodes(nr_cpus)?;
        let all: Vec<u32> = (0..nr_cpus).collect();

        let core =
            self.partition(nr_cpus, "core", &["topology/core_cpus_list", "topology/thread_siblings_list"])?;
        let core = core.unwrap_or_else(|| self.guess(all.clone(), "cores are missing in sysfs: one a CPU"));
        let llc = match self.cache(nr_cpus, None)? {
            Some(llc) => llc,
            None => {
                let package = ["die_cpus_list", "package_cpus_list", "core_siblings_list"];
                let files: Vec<String> = package.iter().map(|file| format!("topology/{file}")).collect();
                let files: Vec<&str> = files.iter().map(String::as_str).collect();
                let package =
                    self.partition(nr_cpus, "package", &files)?.unwrap_or_else(|| vec![0; all.len()]);
                self.guess(package, "caches are missing in sysfs: the package stands for the LLC")
            }
        };
        let cluster = self.clusters(nr_cpus, &core, &llc)?;
        let capacity = self.capacities(nr_cpus)?;
        let mut topology = Parts { core, cluster, llc, node: node_of, capacity }.into_topology(node_distance);
        check_topology(&topology).map_err(|fault| self.fault(&self.root, fault.what, fault.expected))?;
        topology.renumber();
        Ok(topology)
    }

    /// Returns the capacity of each CPU.
    fn capacities(&self, nr_cpus: u32) -> Result<Vec<u32>, MachineError> {
        let reported: Result<Vec<Option<u32>>, _> =
            (0..nr_cpus).map(|cpu| self.number(cpu, "cpu_capacity")).collect();
        let reported = reported?;
        if reported.iter().all(Option::is_none)
            && let Some(capacity) = self.hybrid(nr_cpus)?
        {
            return Ok(capacity);
        }
        Ok(reported.into_iter().map(|capacity| capacity.unwrap_or(MAX_CAPACITY)).collect())
    }

    /// Returns the capacities of a machine with two kinds of cores, if it is one of Intel's: each kind's highest
    /// performance, as CPPC has it. Cores of a kind differ only in how far they may boost, which is no capacity.
    fn hybrid(&self, nr_cpus: u32) -> Result<Option<Vec<u32>>, MachineError> {
        let path = self.root.join("../cpu_atom/cpus");
        let Some(text) = read(&path)? else { return Ok(None) };
        let small = self.indices(&self.list(&path, &text)?);
        let is_small = |cpu: u32| small.contains(&cpu);
        let mut highest = [0; 2];
        for cpu in 0..nr_cpus {
            let Some(perf) = self.number(cpu, "acpi_cppc/highest_perf")? else { return Ok(None) };
            let kind = &mut highest[usize::from(is_small(cpu))];
            *kind = perf.max(*kind);
        }
        let most = highest[0].max(highest[1]).max(1);
        let capacity =
            |cpu| (highest[usize::from(is_small(cpu))] * MAX_CAPACITY / most).clamp(1, MAX_CAPACITY);
        Ok(Some((0..nr_cpus).map(capacity).collect()))
    }

    /// Returns the node of each CPU, and the distances between nodes that have CPUs.
    fn nodes(&mut self, nr_cpus: u32) -> Result<(Vec<u32>, Vec<Vec<u32>>), MachineError> {
        let single = (vec![0; nr_cpus as usize], vec![vec![LOCAL_DISTANCE]]);
        // A row of `distance` has an entry for each node that is online, in the order of their numbers.
        let ids = numbered(&self.root.join("node"), "node")?;
        if ids.is_empty() {
            return Ok(self.guess(single, "nodes are missing in sysfs: one"));
        }
        let mut node_of = vec![None; nr_cpus as usize];
        let mut rows: Vec<(usize, Vec<u32>)> = Vec::new();
        for (column, id) in ids.iter().enumerate() {
            let folder = self.root.join(format!("node/node{id}"));
            let path = folder.join("cpulist");
            let cpus = self.list(&path, &read(&path)?.unwrap_or_default())?;
            let mut has_cpus = false;
            for cpu in self.indices(&cpus) {
                has_cpus = true;
                if node_of[cpu as usize].replace(rows.len() as u32).is_some() {
                    return Err(self.fault(
                        &path,
                        format!("CPU {} is in two nodes", self.number_of(cpu)),
                        "each CPU in one node",
                    ));
                }
            }
            if !has_cpus {
                continue;
            }
            let path = folder.join("distance");
            let text = read(&path)?.unwrap_or_default();
            let row: Result<Vec<u32>, _> = text.split_whitespace().map(str::parse).collect();
            match row {
                Ok(row) if row.len() == ids.len() => rows.push((column, row)),
                _ => {
                    let expected = format!("{} distances, one to each node", ids.len());
                    return Err(self.fault(&path, format!("`{}`", text.trim()), expected));
                }
            }
        }
        let mut of_cpu = Vec::new();
        for (cpu, node) in node_of.into_iter().enumerate() {
            match node {
                Some(node) => of_cpu.push(node),
                None => {
                    let path = self.root.join("node");
                    return Err(self.fault(
                        &path,
                        format!("CPU {} is in no node", self.number_of(cpu as u32)),
                        "each CPU in one node",
                    ));
                }
            }
        }
        let columns: Vec<usize> = rows.iter().map(|(column, _)| *column).collect();
        let matrix =
            rows.iter().map(|(_, row)| columns.iter().map(|&column| row[column]).collect()).collect();
        Ok((of_cpu, matrix))
    }

    /// Returns for each CPU the first CPU of its cluster; `None` if there are no clusters. A kernel before 5.16, or one
    /// whose firmware says nothing, reports no clusters, or each core as a cluster. Then the cores that share a
    /// second-level cache are a cluster, unless all cores of an LLC share it. A cache of a single core is no cluster;
    /// neither is one of a single thread, which virtual machines have.
    fn clusters(&self, nr_cpus: u32, core: &[u32], llc: &[u32]) -> Result<Option<Vec<u32>>, MachineError> {
        let reported = self.partition(nr_cpus, "cluster", &["topology/cluster_cpus_list"])?;
        if reported.as_ref().is_some_and(|reported| !is_within(reported, core)) {
            return Ok(reported);
        }
        let shared = self.cache(nr_cpus, Some(2))?;
        Ok(shared.filter(|l2| is_within(core, l2) && !is_within(l2, core) && is_within(l2, llc)))
    }

    /// Returns for each CPU the first CPU that shares its cache of the `wanted` level, or its last-level cache; `None`
    /// if some CPU has no such cache.
    fn cache(&self, nr_cpus: u32, wanted: Option<u32>) -> Result<Option<Vec<u32>>, MachineError> {
        let mut files = Vec::new();
        for cpu in 0..nr_cpus {
            let folder = self.cpu(cpu, "cache");
            let mut last: Option<(u32, PathBuf)> = None;
            for index in numbered(&folder, "index")? {
                let index = folder.join(format!("index{index}"));
                let kind = read(&index.join("type"))?.unwrap_or_default();
                let level = self.number_at(&index.join("level"))?;
                let shared = index.join("shared_cpu_list");
                if let (Some(level), true, true) = (level, kind.trim() != "Instruction", shared.exists())
                    && wanted.is_none_or(|wanted| wanted == level)
                    && last.as_ref().is_none_or(|(highest, _)| level > *highest)
                {
                    last = Some((level, shared));
                }
            }
            match last {
                Some((_, path)) => files.push(path),
                None => return Ok(None),
            }
        }
        self.partition_from("cache", &files).map(Some)
    }

    /// Returns for each CPU the first CPU of its part, from the first of `files` that all CPUs have; `None` if there is
    /// no such file.
    fn partition(&self, nr_cpus: u32, what: &str, files: &[&str]) -> Result<Option<Vec<u32>>, MachineError> {
        for file in files {
            let paths: Vec<PathBuf> = (0..nr_cpus).map(|cpu| self.cpu(cpu, file)).collect();
            if paths.iter().all(|path| path.exists()) {
                return self.partition_from(what, &paths).map(Some);
            }
        }
        Ok(None)
    }

    /// Returns for each CPU the first CPU of its list. The lists must agree: each contains its own CPU, and all CPUs of
    /// a list have the same list.
    fn partition_from(&self, what: &str, paths: &[PathBuf]) -> Result<Vec<u32>, MachineError> {
        let mut lists = Vec::new();
        for (cpu, path) in paths.iter().enumerate() {
            let list = self.list(path, &read(path)?.unwrap_or_default())?;
            let of = self.indices(&list);
            if !of.contains(&(cpu as u32)) {
                return Err(self.fault(
                    path,
                    format!("`{}`", cpulist::format(&list)),
                    format!("the CPUs of CPU {}'s {what}, itself included", self.number_of(cpu as u32)),
                ));
            }
            lists.push(of);
        }
        for (cpu, list) in lists.iter().enumerate() {
            let first = list[0] as usize;
            if lists[first] != *list {
                return Err(self.fault(
                    &paths[cpu],
                    format!(
                        "`{}`, but CPU {} says `{}`",
                        self.numbers_of(list),
                        self.number_of(first as u32),
                        self.numbers_of(&lists[first])
                    ),
                    format!("one list for all CPUs of a {what}"),
                ));
            }
        }
        Ok(lists.iter().map(|list| list[0]).collect())
    }

    /// The kernel's number of a CPU.
    fn number_of(&self, cpu: u32) -> u32 {
        self.online[cpu as usize]
    }

    fn numbers_of(&self, list: &[u32]) -> String {
        cpulist::format(&list.iter().map(|&cpu| self.number_of(cpu)).collect::<Vec<_>>())
    }

    fn cpu(&self, cpu: u32, file: &str) -> PathBuf {
        self.root.join(format!("cpu/cpu{}/{file}", self.number_of(cpu)))
    }

    fn number(&self, cpu: u32, file: &str) -> Result<Option<u32>, MachineError> {
        self.number_at(&self.cpu(cpu, file))
    }

    fn number_at(&self, path: &Path) -> Result<Option<u32>, MachineError> {
        let Some(text) = read(path)? else { return Ok(None) };
        match text.trim().parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(self.fault(path, format!("`{}`", text.trim()), "a number")),
        }
    }

    fn list(&self, path: &Path, text: &str) -> Result<Vec<u32>, MachineError> {
        cpulist::parse(text).map_err(|what| self.fault(path, what, "a list as `0-3,8`"))
    }

    fn guess<T>(&mut self, value: T, said: &'static str) -> T {
        self.guesses.push(said);
        value
    }

    /// Returns the error for what was found in a file of sysfs. These files have one line.
    fn fault(&self, path: &Path, what: impl Into<String>, expected: impl Into<String>) -> MachineError {
        MachineError::File {
            file: path.display().to_string(),
            line: 1,
            what: what.into(),
            expected: expected.into(),
        }
    }
}

/// Whether each part of `inner` lies in one part of `outer`. Both name each CPU's part by any number.
fn is_within(inner: &[u32], outer: &[u32]) -> bool {
    let mut outer_of = BTreeMap::new();
    inner.iter().zip(outer).all(|(inner, outer)| outer_of.entry(inner).or_insert(outer) == &outer)
}

/// The text of a file, or `None` if there is no such file.
fn read(path: &Path) -> Result<Option<String>, MachineError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(MachineError::Read { file: path.display().to_string(), reason: e.to_string() }),
    }
}

/// The numbers of a folder's entries `PREFIX0`, `PREFIX1`, .., ascending; none if there is no such folder.
fn numbered(folder: &Path, prefix: &str) -> Result<Vec<u32>, MachineError> {
    let fault =
        |e: std::io::Error| MachineError::Read { file: folder.display().to_string(), reason: e.to_string() };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(fault(e)),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry.map_err(fault)?.file_name();
        if let Some(Ok(number)) = name.to_str().and_then(|name| name.strip_prefix(prefix)).map(str::parse) {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}
