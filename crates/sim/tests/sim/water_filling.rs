// SPDX-License-Identifier: GPL-2.0-or-later
//! What each group is entitled to, computed without policy/: weighted max-min shares of the CPUs as a fluid.
//!
//! The least E / S of the root's children (groups with shares S, tasks outside any group with their weights) is made as
//! large as possible, then the next, and so on. A runnable task gets at most one CPU, a CPU gives at most one CPU of
//! time, and a task gets time only of allowed CPUs. Then the same is done inside each group, with what the group got.
//!
//! Tasks of one entity and one mask are alike, and so are CPUs of the same masks. A flow network (entity -> mask ->
//! kind of CPU) says whether demands can be met. If they cannot, its least cut is the set of entities that is short,
//! and gives a lower level (Newton's method on the level). The last cut that is met exactly is a bottleneck: its
//! entities are settled, and the others go on. Flows are integers, with 2^32 per CPU.

/// One CPU.
const UNIT: f64 = (1u64 << 32) as f64;

/// Groups, tasks and masks of a machine, as indices into each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct System {
    pub(crate) nr_cpus: usize,
    /// Parent and shares; a parent comes before its children.
    pub(crate) groups: Vec<(Option<usize>, u64)>,
    /// Group, weight and mask.
    pub(crate) tasks: Vec<(Option<usize>, u64, usize)>,
    /// The CPUs of each mask.
    pub(crate) masks: Vec<Vec<u32>>,
}

/// Something with a share of its parent: a group, or a task beside groups.
struct Entity {
    group: Option<usize>,
    parent: Option<usize>,
    weight: f64,
    /// Runnable tasks below, by mask.
    counts: Vec<u64>,
    settled: Option<u64>,
}

impl Entity {
    fn cap(&self) -> u64 {
        self.counts.iter().sum::<u64>() << 32
    }

    fn demand(&self, level: f64) -> u64 {
        self.settled.unwrap_or_else(|| (self.weight * level * UNIT).min(self.cap() as f64) as u64)
    }
}

impl System {
    /// CPUs of time that each group is entitled to while only the tasks in `runnable` can run.
    pub(crate) fn entitlements(&self, runnable: &[bool]) -> Vec<f64> {
        let mut result = vec![0.0; self.groups.len()];
        let depth =
            |group: Option<usize>| std::iter::successors(group, |&group| self.groups[group].0).count();
        let deepest = (0..self.groups.len()).map(|group| depth(Some(group))).max().unwrap_or(0);
        let kinds = self.cpu_kinds();
        for level in 1..=deepest {
            let mut entities = self.entities(level, runnable, &depth, &result);
            self.fill(&mut entities, &kinds, &result);
            for entity in &entities {
                if let Some(group) = entity.group {
                    result[group] = entity.settled.unwrap_or(0) as f64 / UNIT;
                }
            }
        }
        result
    }

    /// Groups down to this depth, except those that their children replace; and the tasks beside them.
    fn entities(
        &self,
        level: usize,
        runnable: &[bool],
        depth: &dyn Fn(Option<usize>) -> usize,
        result: &[f64],
    ) -> Vec<Entity> {
        let has_children = |group: usize| self.groups.iter().any(|&(parent, _)| parent == Some(group));
        let mut entities: Vec<Entity> = Vec::new();
        let mut of_group = vec![None; self.groups.len()];
        for (task, &(group, weight, mask)) in self.tasks.iter().enumerate() {
            if !runnable[task] {
                continue;
            }
            // The ancestor at this depth, or the group itself if it is not so deep.
            let mut at = group;
            while depth(at) > level {
                at = at.and_then(|group| self.groups[group].0);
            }
            // A task beside child groups has a separate share, one level below its group.
            let is_alone = depth(at) < level && at.is_none_or(has_children);
            let entity = match at {
                Some(group) if !is_alone => *of_group[group].get_or_insert_with(|| {
                    let (parent, shares) = self.groups[group];
                    entities.push(Entity {
                        group: Some(group),
                        parent,
                        weight: shares as f64,
                        counts: vec![0; self.masks.len()],
                        settled: (depth(at) < level).then(|| (result[group] * UNIT) as u64),
                    });
                    entities.len() - 1
                }),
                _ => {
                    entities.push(Entity {
                        group: None,
                        parent: at,
                        weight: weight as f64,
                        counts: vec![0; self.masks.len()],
                        settled: None,
                    });
                    entities.len() - 1
                }
            };
            entities[entity].counts[mask] += 1;
        }
        // Inside a group, weights are parts of what the group got, so that all groups fill at one level.
        let sums: Vec<f64> = (0..self.groups.len())
            .map(|group| entities.iter().filter(|e| e.parent == Some(group)).map(|e| e.weight).sum())
            .collect();
        for entity in entities.iter_mut().filter(|entity| entity.settled.is_none()) {
            if let Some(parent) = entity.parent {
                entity.weight *= result[parent] / sums[parent];
            }
        }
        entities
    }

    /// The sets of masks that have a CPU, and the number of CPUs with each set.
    fn cpu_kinds(&self) -> Vec<(Vec<bool>, u64)> {
        let mut kinds: Vec<(Vec<bool>, u64)> = Vec::new();
        for cpu in 0..self.nr_cpus as u32 {
            let masks: Vec<bool> = self.masks.iter().map(|mask| mask.contains(&cpu)).collect();
            match kinds.iter_mut().find(|kind| kind.0 == masks) {
                Some(kind) => kind.1 += 1,
                None => kinds.push((masks, 1)),
            }
        }
        kinds
    }

    fn fill(&self, entities: &mut [Entity], kinds: &[(Vec<bool>, u64)], result: &[f64]) {
        while entities.iter().any(|entity| entity.settled.is_none()) {
            // High enough for every entity to have all that its tasks can use.
            let open = || entities.iter().filter(|entity| entity.settled.is_none());
            let mut level = open().map(|e| e.cap() as f64 / UNIT / e.weight * 1.0001).fold(0.0, f64::max);
            let mut short: Vec<bool> = entities.iter().map(|_| true).collect();
            while let Some((set, limit)) = self.shortage(entities, kinds, result, level) {
                let demand = |level: f64| {
                    entities
                        .iter()
                        .zip(&set)
                        .filter(|(_, short)| **short)
                        .map(|(e, _)| e.demand(level))
                        .sum::<u64>()
                };
                // The greatest level below at which the set's demands fit.
                let (mut low, mut high) = (0.0, level);
                for _ in 0..100 {
                    let middle = (low + high) / 2.0;
                    if demand(middle) <= limit { low = middle } else { high = middle }
                }
                assert!(low < level, "the level falls");
                level = low;
                short = set;
            }
            for (entity, short) in entities.iter_mut().zip(short) {
                let demand = entity.demand(level);
                if entity.settled.is_none() && (short || demand == entity.cap()) {
                    entity.settled = Some(demand);
                }
            }
        }
    }

    /// Finds a set of entities whose demands at this level exceed the most that they can get. Returns both.
    fn shortage(
        &self,
        entities: &[Entity],
        kinds: &[(Vec<bool>, u64)],
        result: &[f64],
        level: f64,
    ) -> Option<(Vec<bool>, u64)> {
        for (group, got) in result.iter().enumerate() {
            let inside = |entity: &Entity| entity.parent == Some(group) && *got > 0.0;
            let demand: u64 = entities.iter().filter(|e| inside(e)).map(|e| e.demand(level)).sum();
            let limit = (got * UNIT) as u64;
            if demand > limit + 1024 {
                return Some((entities.iter().map(inside).collect(), limit));
            }
        }
        // Nodes: source, sink, entities, masks, kinds of CPU.
        let (nr_entities, nr_masks) = (entities.len(), self.masks.len());
        let mut network = Network::new(2 + nr_entities + nr_masks + kinds.len());
        let mut wanted = 0;
        for (at, entity) in entities.iter().enumerate() {
            wanted += entity.demand(level);
            network.edge(0, 2 + at, entity.demand(level));
            for (mask, &count) in entity.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                network.edge(2 + at, 2 + nr_entities + mask, count << 32);
            }
        }
        for (at, (masks, count)) in kinds.iter().enumerate() {
            let node = 2 + nr_entities + nr_masks + at;
            network.edge(node, 1, count << 32);
            for mask in (0..nr_masks).filter(|&mask| masks[mask]) {
                network.edge(2 + nr_entities + mask, node, u64::MAX >> 8);
            }
        }
        let flow = network.flow();
        // Settled demands were rounded, so a difference of this size does not matter.
        if flow + 1024 * nr_entities as u64 >= wanted {
            return None;
        }
        let reached = network.reached();
        let set: Vec<bool> = (0..nr_entities).map(|at| reached[2 + at]).collect();
        let outside: u64 =
            entities.iter().zip(&set).filter(|(_, short)| !**short).map(|(e, _)| e.demand(level)).sum();
        Some((set, flow - outside))
    }
}

/// Greatest flow from node 0 to node 1: shortest paths first (Edmonds and Karp), which is enough for some hundred
/// nodes.
struct Network {
    /// By node: numbers of its edges; the reverse edge is the number with its last bit flipped.
    from: Vec<Vec<usize>>,
    /// Where an edge leads, and how much room is left.
    edges: Vec<(usize, u64)>,
}

impl Network {
    fn new(nodes: usize) -> Network {
        Network { from: vec![Vec::new(); nodes], edges: Vec::new() }
    }

    fn edge(&mut self, from: usize, to: usize, capacity: u64) {
        self.from[from].push(self.edges.len());
        self.edges.push((to, capacity));
        self.from[to].push(self.edges.len());
        self.edges.push((from, 0));
    }

    /// Distance of each node from the source along edges with room.
    fn distances(&self) -> Vec<u32> {
        let mut distance = vec![u32::MAX; self.from.len()];
        let mut queue = std::collections::VecDeque::from([0]);
        distance[0] = 0;
        while let Some(node) = queue.pop_front() {
            for &edge in &self.from[node] {
                let (to, room) = self.edges[edge];
                if room > 0 && distance[to] == u32::MAX {
                    distance[to] = distance[node] + 1;
                    queue.push_back(to);
                }
            }
        }
        distance
    }

    fn push(&mut self, node: usize, most: u64, distance: &[u32], next: &mut [usize]) -> u64 {
        if node == 1 {
            return most;
        }
        while next[node] < self.from[node].len() {
            let edge = self.from[node][next[node]];
            let (to, room) = self.edges[edge];
            if room > 0 && distance[to] == distance[node] + 1 {
                let pushed = self.push(to, most.min(room), distance, next);
                if pushed > 0 {
                    self.edges[edge].1 -= pushed;
                    self.edges[edge ^ 1].1 += pushed;
                    return pushed;
                }
            }
            next[node] += 1;
        }
        0
    }

    fn flow(&mut self) -> u64 {
        let mut flow = 0;
        loop {
            let distance = self.distances();
            if distance[1] == u32::MAX {
                return flow;
            }
            let mut next = vec![0; self.from.len()];
            loop {
                let pushed = self.push(0, u64::MAX, &distance, &mut next);
                if pushed == 0 {
                    break;
                }
                flow += pushed;
            }
        }
    }

    /// After `flow`: the nodes on the source's side of the least cut.
    fn reached(&self) -> Vec<bool> {
        self.distances().iter().map(|&distance| distance < u32::MAX).collect()
    }
}

/// Groups of (parent, shares), tasks of (group, weight, mask); all tasks are runnable.
fn entitled(
    nr_cpus: usize,
    groups: &[(Option<usize>, u64)],
    tasks: &[(Option<usize>, u64, usize)],
    masks: &[&[u32]],
) -> Vec<f64> {
    let mut all = vec![(0..nr_cpus as u32).collect::<Vec<u32>>()];
    all.extend(masks.iter().map(|mask| mask.to_vec()));
    let system = System { nr_cpus, groups: groups.to_vec(), tasks: tasks.to_vec(), masks: all };
    system.entitlements(&vec![true; tasks.len()])
}

/// `count` tasks of nice 0.
fn tasks(group: usize, count: usize, mask: usize) -> Vec<(Option<usize>, u64, usize)> {
    vec![(Some(group), 1024, mask); count]
}

#[track_caller]
fn assert_near(got: &[f64], expected: &[f64]) {
    assert_eq!(got.len(), expected.len());
    let is_near = got.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 1e-5);
    assert!(is_near, "{got:?}, expected {expected:?}");
}

/// Groups of 8, 4 and 3 tasks on 8 CPUs: no group is short of tasks (8/3 < 3), so each gets a third.
#[test]
fn equal_shares_of_8_cpus() {
    let all = [tasks(0, 8, 0), tasks(1, 4, 0), tasks(2, 3, 0)].concat();
    assert_near(&entitled(8, &[(None, 1024); 3], &all, &[]), &[8.0 / 3.0; 3]);
}

/// A group with two tasks can use two CPUs; the others share the six that are left. Shares of 1 and 3 on what two
/// cannot use.
#[test]
fn what_a_small_group_cannot_use_goes_to_the_others() {
    let all = [tasks(0, 2, 0), tasks(1, 8, 0), tasks(2, 8, 0)].concat();
    assert_near(&entitled(8, &[(None, 1024); 3], &all, &[]), &[2.0, 3.0, 3.0]);
    let unequal = [(None, 4096), (None, 1024), (None, 3072)];
    assert_near(&entitled(8, &unequal, &all, &[]), &[2.0, 1.5, 4.5]);
    // Fewer tasks than CPUs: every task has one.
    let few = [tasks(0, 1, 0), tasks(1, 3, 0)].concat();
    assert_near(&entitled(8, &[(None, 1), (None, 1000)], &few, &[]), &[1.0, 3.0]);
}

/// Two CPUs. Group 0 may run only on CPU 0, groups 1 and 2 anywhere: 2/3 each, because that fits. With four groups
/// bound to CPU 0 that CPU is the bottleneck, 1/4 each, and the free group has the other.
#[test]
fn affinity_makes_bottlenecks() {
    let all = [tasks(0, 1, 1), tasks(1, 1, 0), tasks(2, 1, 0)].concat();
    assert_near(&entitled(2, &[(None, 1024); 3], &all, &[&[0]]), &[2.0 / 3.0; 3]);
    let bound = [tasks(0, 1, 1), tasks(1, 2, 1), tasks(2, 1, 1), tasks(3, 5, 1), tasks(4, 3, 0)].concat();
    let expected = [0.25, 0.25, 0.25, 0.25, 1.0];
    assert_near(&entitled(2, &[(None, 1024); 5], &bound, &[&[0]]), &expected);
}

/// A group with a task bound to CPU 0, where another group has its only task, and a task that is free: it gets its part
/// through the free one. Three CPUs: group 0 has one bound and one free task, group 1 one bound, group 2 five free. The
/// level is 1: group 1 can have all of CPU 0, group 0 takes one of the other CPUs, and group 2 takes one.
#[test]
fn a_group_takes_its_part_where_it_costs_least() {
    let all = [tasks(0, 1, 1), tasks(0, 1, 0), tasks(1, 1, 1), tasks(2, 5, 0)].concat();
    assert_near(&entitled(3, &[(None, 1024); 3], &all, &[&[0]]), &[1.0, 1.0, 1.0]);
}

/// Group 0 has children 1 (one task) and 2 (four), equal; group 3 has eight tasks. Eight CPUs: 0 and 3 get 4 each; of
/// that child 1 can use 1, and its sibling has 3. A task beside child groups counts as one of them.
#[test]
fn what_a_child_cannot_use_goes_to_its_siblings() {
    let groups = [(None, 1024), (Some(0), 1024), (Some(0), 1024), (None, 1024)];
    let all = [tasks(1, 1, 0), tasks(2, 4, 0), tasks(3, 8, 0)].concat();
    assert_near(&entitled(8, &groups, &all, &[]), &[4.0, 1.0, 3.0, 4.0]);
    // One CPU: half for 0; a third of it for its own task, child 1 and child 2 each.
    let beside = [tasks(0, 1, 0), all].concat();
    assert_near(&entitled(1, &groups, &beside, &[]), &[0.5, 0.5 / 3.0, 0.5 / 3.0, 0.5]);
}

/// A task outside any group weighs what a group's shares weigh. Tasks that do not run do not count.
#[test]
fn tasks_of_the_root_and_sleepers() {
    let mut all = [tasks(0, 2, 0), tasks(1, 2, 0)].concat();
    all.push((None, 2048, 0));
    assert_near(&entitled(1, &[(None, 1024); 2], &all, &[]), &[0.25, 0.25]);
    let system = System { nr_cpus: 1, groups: vec![(None, 1024); 2], tasks: all, masks: vec![vec![0]] };
    assert_near(&system.entitlements(&[false, false, true, true, true]), &[0.0, 1.0 / 3.0]);
    assert_near(&system.entitlements(&[false; 5]), &[0.0, 0.0]);
}
