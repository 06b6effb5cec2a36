// SPDX-License-Identifier: GPL-2.0-or-later
//! A machine's domain levels as flat tables, as policy/topology.h describes them, computed once for every host.
//!
//! A level is a partition of the CPUs. Levels nest, so all of them can order the CPUs in the same way: by the lowest
//! CPU of the outermost domain, then of the next inner one, and so on. In that order the groups of a domain are
//! consecutive, and a domain has the same range of `cpus` at every level; inside one domain, `cpus` is ascending.

use wakelab_machine::{Distance, Topology};
use zerocopy::IntoBytes;

use crate::blocks::Blocks;
use crate::fields::Place;
use crate::mirror::{
    LEVEL_PLACES, LEVEL_SIZE, LOCAL_DISTANCE, MAX_THREADS, POLICY_PLACES, TOPO_PLACES, TOPO_SIZE,
};
use crate::{Balance, Error, MAX_CPUS, MAX_LEVELS, Params, PolicySpec, Queue};

/// `cluster_of` of a CPU without a cluster.
const NO_CLUSTER: u16 = 0xffff;

/// Capacity of the fastest CPU.
const FULL_CAPACITY: u16 = 1024;
/// Capacity of a number that no CPU has.
const NO_CPU: u16 = 0;

/// Nodes farther apart than this do not take part in wake-affine or fork placement (Linux's RECLAIM_DISTANCE).
const WAKE_AFFINE_DISTANCE_MAX: u32 = 30;

/// The distance between sockets of AMD's EPYC, up to which Linux since 5.4 lets wake-affine and fork placement cross on
/// these machines (node_reclaim_distance). We know of no other machine that states it; Intel's state 20, 21 and 31.
const EPYC_DISTANCE: u32 = 32;

/// One level: `struct wl_level`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// What its domains share; level 0 has [`Distance::Cpu`].
    pub kind: Distance,
    /// The percentage by which loads may differ before balancing acts: 110 for SMT, 117 inside an LLC, 125 beyond
    /// (Linux's sd_init).
    pub imbalance_pct: u32,
    /// Whether its domains have a counter of busy CPUs.
    pub has_counters: bool,
    /// The index of its first domain's counter.
    pub counter_base: u32,
    /// Whether wake-ups, forks and execs may cross it.
    pub wake_affine: bool,
    /// ACPI's distance of its farthest nodes: 10 inside a node; access times grow in proportion.
    pub distance: u32,
    /// CPU to the number of its domain.
    pub dom_of: Vec<u16>,
    /// Domain to the index of its first CPU in `cpus`.
    pub first: Vec<u16>,
    /// Domain to its number of CPUs.
    pub weight: Vec<u16>,
    /// Domain to its first group, a domain of the level below.
    pub child: Vec<u16>,
    /// Domain to its number of groups.
    pub nr_child: Vec<u16>,
    /// All CPUs, by domain, then by number.
    pub cpus: Vec<u16>,
    /// CPU to its index in `cpus`.
    pub pos: Vec<u16>,
}

impl Level {
    /// The CPUs of a domain, ascending.
    pub fn domain(&self, domain: usize) -> &[u16] {
        let first = self.first[domain] as usize;
        &self.cpus[first..first + self.weight[domain] as usize]
    }
}

/// All levels: `struct wl_topo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    /// Level 0 first.
    pub levels: Vec<Level>,
    /// The highest level whose CPUs share the LLC.
    pub llc_level: usize,
    /// 1 if level 1 is SMT, else 0.
    pub smt_level: usize,
    /// The cluster of each CPU, 0xffff if it has none.
    pub cluster_of: Vec<u16>,
    /// The speed of each CPU, 1024 for the fastest; 1024 for all if the policy ignores capacities.
    pub capacity: Vec<u16>,
    /// The blocks whose bitmaps `idle=nearest` keeps; `None` if an LLC is too large for them.
    pub blocks: Option<Blocks>,
}

/// A partition: its kind, the distance of its farthest nodes, and for each CPU the lowest CPU of its domain.
struct Partition {
    kind: Distance,
    distance: u32,
    lowest: Vec<u32>,
}

impl Tables {
    /// Returns the levels of `topology` that `spec` uses.
    pub fn build(topology: &Topology, spec: &PolicySpec) -> Result<Tables, Error> {
        let traits = spec.traits();
        let mut tables = Tables::with_cluster_level(topology, traits.has_clusters != 0)?;
        if traits.has_capacities != 0 {
            let capacities = topology.cpus.iter().map(|cpu| cpu.capacity as u16);
            tables.capacity = capacities.collect();
        }
        // A policy that does not read counters should not pay for them.
        tables.levels.iter_mut().for_each(|level| level.has_counters &= traits.keeps_counters != 0);
        if is_since_5_4(spec) {
            tables.levels.iter_mut().for_each(|level| level.wake_affine |= level.distance == EPYC_DISTANCE);
        }
        Ok(tables)
    }

    /// Whether a search of `spec` on this machine may ask for the time that it took (`scan_timed`).
    pub fn times_scans(&self, spec: &PolicySpec) -> bool {
        let inner = self.levels[self.llc_level.min(1)].kind;
        spec.axes_as_params().traits_on(inner).times_scans != 0
    }

    /// Like [`Tables::build`], with or without the level of clusters, whatever a policy says; all capacities are equal.
    pub fn with_cluster_level(topology: &Topology, clusters: bool) -> Result<Tables, Error> {
        let nr_cpus = topology.cpus.len();
        if nr_cpus == 0 || nr_cpus > MAX_CPUS {
            return Err(Error::CpuCount { nr_cpus, max_cpus: MAX_CPUS });
        }
        topology.check().map_err(|error| Error::Topology(error.to_string()))?;
        if topology.max_threads() > MAX_THREADS {
            let threads = topology.max_threads();
            return Err(Error::Topology(format!(
                "a core of {threads} threads, expected at most {MAX_THREADS}"
            )));
        }

        let mut kept = vec![Partition {
            kind: Distance::Cpu,
            distance: LOCAL_DISTANCE,
            lowest: (0..nr_cpus as u32).collect(),
        }];
        for partition in partitions(topology, clusters) {
            // A level that groups nothing is dropped, because it spans the same CPUs as the level below.
            if partition.lowest != kept[kept.len() - 1].lowest {
                kept.push(partition);
            }
        }
        let mut order: Vec<u32> = (0..nr_cpus as u32).collect();
        order.sort_by_key(|&cpu| {
            let outer: Vec<u32> = kept.iter().rev().map(|partition| partition.lowest[cpu as usize]).collect();
            outer
        });
        let mut levels: Vec<Level> = kept.iter().map(|partition| level(partition, &order)).collect();
        for index in 1..levels.len() {
            let (below, above) = levels.split_at_mut(index);
            add_groups(&below[index - 1], &mut above[0]);
        }
        let llc_level = levels.iter().rposition(|level| level.kind <= Distance::Llc).unwrap_or(0);
        let mut counter_base = 0;
        for level in levels.iter_mut().take(llc_level).skip(1) {
            level.has_counters = true;
            level.counter_base = counter_base;
            counter_base += level.first.len() as u32;
        }
        assert!(levels.len() <= MAX_LEVELS && llc_level <= 3, "CPU, SMT, CLS, LLC, NODE and three more");
        Ok(Tables {
            llc_level,
            smt_level: usize::from(levels.get(1).is_some_and(|level| level.kind == Distance::Smt)),
            cluster_of: cluster_of(topology),
            capacity: vec![FULL_CAPACITY; nr_cpus],
            blocks: Blocks::build(topology),
            levels,
        })
    }

    /// Number of CPUs; if their numbers have gaps, one more than the highest number.
    pub fn nr_cpus(&self) -> usize {
        self.cluster_of.len()
    }

    /// Number of CPUs that there are, whatever numbers they have.
    pub fn nr_present(&self) -> usize {
        self.capacity.iter().filter(|&&capacity| capacity != NO_CPU).count()
    }

    /// Returns the same machine for a host whose CPUs have these numbers, ascending. A number between them that no CPU
    /// has is a separate domain at each level, in no domain with a CPU, and has capacity 0.
    ///
    /// # Errors
    /// A number exceeds those of policies' CPUs.
    ///
    /// # Panics
    /// If `numbers` has not one number for each CPU, or does not ascend.
    pub fn numbered(&self, numbers: &[u32]) -> Result<Tables, Error> {
        assert_eq!(numbers.len(), self.nr_cpus(), "a number for each CPU");
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        let nr_cpus = numbers.last().map_or(0, |&last| last as usize + 1);
        if nr_cpus > MAX_CPUS {
            return Err(Error::CpuCount { nr_cpus, max_cpus: MAX_CPUS });
        }
        let numbers: Vec<u16> = numbers.iter().map(|&number| number as u16).collect();
        let gaps: Vec<u16> =
            (0..nr_cpus as u16).filter(|number| numbers.binary_search(number).is_err()).collect();
        let spread = |of_cpu: &[u16], of_gap: &dyn Fn(usize) -> u16| {
            let mut all = vec![0; nr_cpus];
            numbers.iter().zip(of_cpu).for_each(|(&number, &value)| all[number as usize] = value);
            gaps.iter().enumerate().for_each(|(gap, &number)| all[number as usize] = of_gap(gap));
            all
        };
        let (mut levels, mut counter_base) = (Vec::new(), 0);
        for (index, level) in self.levels.iter().enumerate() {
            let mut level = level.numbered(&numbers, &gaps, &spread);
            if index > 0 {
                let below: &Level = &levels[index - 1];
                let alone = below.first.len() - gaps.len();
                level.child.extend((0..gaps.len()).map(|gap| (alone + gap) as u16));
                level.nr_child.extend(gaps.iter().map(|_| 1));
            }
            if level.has_counters {
                level.counter_base = counter_base;
                counter_base += level.first.len() as u32;
            }
            levels.push(level);
        }
        let blocks = self.blocks.as_ref().map(|blocks| {
            let free = blocks.block_of.iter().max().map_or(0, |last| last + 1);
            Blocks {
                slots: blocks.slots,
                block_of: spread(&blocks.block_of, &|gap| free + gap as u16),
                slot_of: spread(&blocks.slot_of, &|_| 0),
            }
        });
        Ok(Tables {
            levels,
            blocks,
            cluster_of: spread(&self.cluster_of, &|_| NO_CLUSTER),
            capacity: spread(&self.capacity, &|_| NO_CPU),
            ..*self
        })
    }

    /// Returns the distance between two CPUs, as the policy counts its reads.
    ///
    /// # Panics
    /// If either CPU does not exist.
    pub fn distance(&self, a: u32, b: u32) -> Distance {
        let (a, b) = (a as usize, b as usize);
        let shared = self.levels.iter().find(|level| level.dom_of[a] == level.dom_of[b]);
        let kind = shared.map_or(Distance::Numa3, |level| level.kind);
        if kind > Distance::Cluster
            && self.cluster_of[a] == self.cluster_of[b]
            && self.cluster_of[a] != NO_CLUSTER
        {
            Distance::Cluster
        } else {
            kind
        }
    }

    /// The number of bytes that [`Tables::write_image`] needs.
    pub fn image_len(max_cpus: usize) -> usize {
        place(POLICY_PLACES, "topo").with(max_cpus) + TOPO_SIZE.with(max_cpus)
    }

    /// For each CPU, the lowest CPU of its LLC.
    fn llc_first(&self) -> Vec<u16> {
        let llc = &self.levels[self.llc_level];
        llc.dom_of.iter().map(|&domain| llc.domain(domain.into())[0]).collect()
    }

    /// Writes `params` and these tables in the layout of the head of `struct wl_policy`, for a host whose `WL_MAX_CPUS`
    /// is `max_cpus` (a power of two). Fails if the machine does not fit. `image` must be zero; what comes after the
    /// head is not changed.
    ///
    /// # Panics
    /// If `image` is shorter than [`Tables::image_len`].
    pub fn write_image(&self, params: &Params, max_cpus: usize, image: &mut [u8]) -> Result<(), Error> {
        if self.nr_cpus() > max_cpus {
            return Err(Error::CpuCount { nr_cpus: self.nr_cpus(), max_cpus });
        }
        if params.traits().keeps_blocks != 0 && self.blocks.is_none() {
            return Err(Error::NoBlocks);
        }
        let blocks = self.blocks.clone().unwrap_or_default();
        let begin = place(POLICY_PLACES, "params").with(max_cpus);
        image[begin..begin + size_of::<Params>()].copy_from_slice(params.as_bytes());
        let begin = place(POLICY_PLACES, "topo").with(max_cpus);
        let mut topo = Image { bytes: &mut image[begin..], places: TOPO_PLACES, max_cpus };
        topo.u32("nr_cpus", self.nr_cpus() as u32);
        topo.u32("nr_levels", self.levels.len() as u32);
        topo.u32("llc_level", self.llc_level as u32);
        topo.u32("smt_level", self.smt_level as u32);
        let mut capacities = self.capacity.iter().filter(|&&capacity| capacity != NO_CPU);
        let first = capacities.next();
        topo.u32("unequal", u32::from(capacities.any(|capacity| Some(capacity) != first)));
        topo.u32("slots", blocks.slots);
        topo.u16s("cluster_of", &self.cluster_of);
        topo.u16s("capacity", &self.capacity);
        topo.u16s("llc_first", &self.llc_first());
        topo.u16s("block_of", &blocks.block_of);
        topo.u16s("slot_of", &blocks.slot_of);
        let begin = begin + place(TOPO_PLACES, "level").with(max_cpus);
        for (number, level) in self.levels.iter().enumerate() {
            let begin = begin + number * LEVEL_SIZE.with(max_cpus);
            level.write(&mut Image { bytes: &mut image[begin..], places: LEVEL_PLACES, max_cpus });
        }
        Ok(())
    }
}

/// Moves figures of CPUs to other numbers; the second function has the figure of each gap.
type Spread<'a> = dyn Fn(&[u16], &dyn Fn(usize) -> u16) -> Vec<u16> + 'a;

impl Level {
    /// The level with other numbers of its CPUs; each of the `gaps` is a separate domain, after all others. Their
    /// groups are not set yet.
    fn numbered(&self, numbers: &[u16], gaps: &[u16], spread: &Spread<'_>) -> Level {
        let (cpus, domains) = (self.cpus.len(), self.first.len());
        let mut made = self.clone();
        made.dom_of = spread(&self.dom_of, &|gap| (domains + gap) as u16);
        made.pos = spread(&self.pos, &|gap| (cpus + gap) as u16);
        made.cpus = self.cpus.iter().map(|&cpu| numbers[cpu as usize]).chain(gaps.iter().copied()).collect();
        made.first.extend((cpus..cpus + gaps.len()).map(|at| at as u16));
        made.weight.extend(gaps.iter().map(|_| 1));
        made
    }

    fn write(&self, to: &mut Image<'_>) {
        to.u32("kind", self.kind as u32);
        to.u32("nr_doms", self.first.len() as u32);
        to.u32("imbalance_pct", self.imbalance_pct);
        to.u32("has_counters", u32::from(self.has_counters));
        to.u32("counter_base", self.counter_base);
        to.u32("wake_affine", u32::from(self.wake_affine));
        to.u32("distance", self.distance);
        to.u16s("dom_of", &self.dom_of);
        to.u16s("first", &self.first);
        to.u16s("weight", &self.weight);
        to.u16s("child", &self.child);
        to.u16s("nr_child", &self.nr_child);
        to.u16s("cpus", &self.cpus);
        to.u16s("pos", &self.pos);
    }
}

/// Returns every level that Linux would have, smallest first, including those that group nothing.
fn partitions(topology: &Topology, clusters: bool) -> Vec<Partition> {
    let cpus = &topology.cpus;
    let node = |cpu: usize| cpus[cpu].node as usize;
    let mut made = vec![Partition {
        kind: Distance::Smt,
        distance: LOCAL_DISTANCE,
        lowest: lowest(cpus.len(), |a, b| cpus[a].core == cpus[b].core),
    }];
    if clusters {
        made.push(Partition {
            kind: Distance::Cluster,
            distance: LOCAL_DISTANCE,
            lowest: lowest(cpus.len(), |a, b| match (cpus[a].cluster, cpus[b].cluster) {
                (Some(x), Some(y)) => x == y,
                _ => cpus[a].core == cpus[b].core,
            }),
        });
    }
    made.push(Partition {
        kind: Distance::Llc,
        distance: LOCAL_DISTANCE,
        lowest: lowest(cpus.len(), |a, b| cpus[a].llc == cpus[b].llc),
    });
    made.push(Partition {
        kind: Distance::Node,
        distance: LOCAL_DISTANCE,
        lowest: lowest(cpus.len(), |a, b| node(a) == node(b)),
    });

    let matrix = &topology.node_distance;
    let mut remote: Vec<u32> = Vec::new();
    for (a, row) in matrix.iter().enumerate() {
        remote.extend(row.iter().enumerate().filter(|&(b, _)| b != a).map(|(_, &distance)| distance));
    }
    remote.sort_unstable();
    remote.dedup();
    for (kind, reach) in [Distance::Numa1, Distance::Numa2, Distance::Numa3].into_iter().zip(remote) {
        made.push(Partition {
            kind,
            distance: reach,
            lowest: lowest(cpus.len(), |a, b| node(a) == node(b) || matrix[node(a)][node(b)] <= reach),
        });
    }
    made
}

/// Whether a policy is that of Linux 5.4 or later, by how it balances.
fn is_since_5_4(spec: &PolicySpec) -> bool {
    match spec.balance {
        Balance::Linux5_12 | Balance::Linux6_12 => true,
        Balance::Linux4_15 => false,
        Balance::Load => !matches!(spec.queue, Queue::Cfs2007 | Queue::Cfs2018),
    }
}

/// For each CPU, the lowest CPU that is in its domain according to `together`.
fn lowest(nr_cpus: usize, together: impl Fn(usize, usize) -> bool) -> Vec<u32> {
    let mut heads: Vec<usize> = Vec::new();
    let mut of = Vec::with_capacity(nr_cpus);
    for cpu in 0..nr_cpus {
        let head = heads.iter().copied().find(|&head| together(head, cpu)).unwrap_or_else(|| {
            heads.push(cpu);
            cpu
        });
        of.push(head as u32);
    }
    of
}

/// Returns the tables of one level, without its groups, from the order of all CPUs by their domains.
fn level(partition: &Partition, order: &[u32]) -> Level {
    let nr_cpus = order.len();
    let mut made = Level {
        kind: partition.kind,
        imbalance_pct: match partition.kind {
            Distance::Cpu | Distance::Smt => 110,
            Distance::Cluster | Distance::Llc => 117,
            _ => 125,
        },
        has_counters: false,
        counter_base: 0,
        wake_affine: partition.distance <= WAKE_AFFINE_DISTANCE_MAX,
        distance: partition.distance,
        dom_of: vec![0; nr_cpus],
        first: Vec::new(),
        weight: Vec::new(),
        child: Vec::new(),
        nr_child: Vec::new(),
        cpus: order.iter().map(|&cpu| cpu as u16).collect(),
        pos: vec![0; nr_cpus],
    };
    let same = |a: u16, b: u16| partition.lowest[a as usize] == partition.lowest[b as usize];
    let mut first = 0;
    for domain in made.cpus.chunk_by_mut(|&a, &b| same(a, b)) {
        domain.sort_unstable();
        for (index, &cpu) in domain.iter().enumerate() {
            made.dom_of[cpu as usize] = made.first.len() as u16;
            made.pos[cpu as usize] = (first + index) as u16;
        }
        made.first.push(first as u16);
        made.weight.push(domain.len() as u16);
        first += domain.len();
    }
    made
}

/// Adds a level's groups: of the domains below, those that begin where its domains do.
fn add_groups(below: &Level, level: &mut Level) {
    let group_at = |index: u16| below.dom_of[below.cpus[index as usize] as usize];
    for (&first, &weight) in level.first.iter().zip(&level.weight) {
        let child = group_at(first);
        level.child.push(child);
        level.nr_child.push(group_at(first + (weight - 1)) + 1 - child);
    }
}

/// Returns each CPU's cluster, numbered from 0 in the order of their lowest CPU.
fn cluster_of(topology: &Topology) -> Vec<u16> {
    let mut ids: Vec<u32> = Vec::new();
    let mut number = |id: u32| {
        ids.iter().position(|&known| known == id).unwrap_or_else(|| {
            ids.push(id);
            ids.len() - 1
        }) as u16
    };
    topology.cpus.iter().map(|cpu| cpu.cluster.map_or(NO_CLUSTER, &mut number)).collect()
}

/// Returns the place of a field.
fn place(places: &[(&str, Place)], name: &str) -> Place {
    let found = places.iter().find(|(its, _)| *its == name);
    found.unwrap_or_else(|| panic!("topology.h has no field {name}")).1
}

/// The bytes of a C struct. Fields are written by name, in the machine's byte order.
struct Image<'a> {
    bytes: &'a mut [u8],
    places: &'static [(&'static str, Place)],
    max_cpus: usize,
}

impl Image<'_> {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn u32(&mut self, name: &str, value: u32) {
        self.put(place(self.places, name).with(self.max_cpus), &value.to_ne_bytes());
    }

    /// Writes an array whose first entries are `values`.
    fn u16s(&mut self, name: &str, values: &[u16]) {
        self.put(place(self.places, name).with(self.max_cpus), values.as_bytes());
    }
}
