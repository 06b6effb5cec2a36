// SPDX-License-Identifier: GPL-2.0-or-later
//! The two builds compared on the same events, in many short episodes: each is a policy on a random machine under a
//! random kernel.
//!
//! The native build goes first, because the next events depend on its answers; the BPF build then gets the same events
//! in batches. Every answer and every task's record is compared, and all of the state after each batch.

use std::fmt;

use anyhow::{Context, Result};
use wakelab_machine::Distance;
use wakelab_policy::{Cover, Decision, EventKind, Policy, PolicySpec, Reason, Tables, WL_POLICY_FIELDS};
use zerocopy::IntoBytes;

use crate::events::{STATE, differences, for_bpf};
use crate::kernel::{GROUPS, Kernel, MAX_CPUS, bytes};
use crate::model::Model;
use crate::native::Native;
use crate::random::Random;
use crate::topology;

/// Decisions in an episode: enough to fill a machine and to empty it again.
const EPISODE_DECISIONS: u64 = 500;

/// What was compared.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(crate) struct Comparison {
    pub(crate) episodes: u64,
    pub(crate) policies: usize,
    pub(crate) events: u64,
    pub(crate) decisions: u64,
    /// Decisions by reason, all reasons.
    pub(crate) by_reason: Vec<(&'static str, u64)>,
    /// Reads of those decisions by distance, all distances.
    pub(crate) reads: Vec<(&'static str, u64)>,
    pub(crate) lost_claims: u64,
}

impl Comparison {
    fn add(&mut self, decision: &Decision) {
        self.by_reason[decision.reason as usize].1 += 1;
        for ((_, total), &reads) in self.reads.iter_mut().zip(&decision.reads.at) {
            *total += u64::from(reads);
        }
        self.lost_claims += u64::from(decision.lost_claims);
    }
}

/// The builds disagree.
#[derive(Debug)]
pub(crate) struct Mismatch {
    pub(crate) seed: u64,
    pub(crate) episode: u64,
    pub(crate) policy: String,
    pub(crate) machine: String,
    /// Number of the event in the episode, or `None` if only the state at the end of a batch differs.
    pub(crate) event: Option<u64>,
    pub(crate) what: String,
    pub(crate) differences: Vec<String>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "native and BPF build differ")?;
        writeln!(f, "  policy   {}", self.policy)?;
        writeln!(f, "  machine  {}", self.machine)?;
        match self.event {
            Some(event) => writeln!(f, "  event    {event} of episode {}, seed {}", self.episode, self.seed)?,
            None => writeln!(f, "  event    none by itself; episode {}, seed {}", self.episode, self.seed)?,
        }
        writeln!(f, "  {}", self.what)?;
        for line in self.differences.iter().take(20) {
            writeln!(f, "    {line}")?;
        }
        write!(f, "  again: cargo xtask parity --no-bench --seed {} --episode {}", self.seed, self.episode)
    }
}

impl std::error::Error for Mismatch {}

/// Every value of every axis with every value of every other. All combinations would be thousands.
pub(crate) fn policies() -> Vec<PolicySpec> {
    PolicySpec::cover(Cover::Pairs)
}

/// Writes parameters and topology into the BPF state, and lets it set its start values.
pub(crate) fn install(
    kernel: &mut Kernel,
    spec: &PolicySpec,
    tables: &Tables,
    tick_ns: u64,
    nr_groups: u32,
) -> Result<()> {
    let params = spec.params_on(tables, tick_ns, nr_groups as usize)?;
    kernel.clear();
    tables.write_image(&params, MAX_CPUS as usize, kernel.policy_bytes())?;
    kernel.init()
}

/// Compares at least `decisions` decisions, with all policies in turn; or one episode, `only`.
///
/// # Errors
/// [`Mismatch`] at the first difference.
pub(crate) fn compare(
    kernel: &mut Kernel,
    seed: u64,
    decisions: u64,
    only: Option<u64>,
) -> Result<Comparison> {
    let policies = policies();
    let episodes = decisions.div_ceil(EPISODE_DECISIONS).max(policies.len() as u64);
    let range = only.map_or(0..episodes, |episode| episode..episode + 1);
    let mut total = Comparison {
        policies: policies.len().min(range.clone().count()),
        by_reason: Reason::ALL.iter().map(|reason| (reason.name(), 0)).collect(),
        reads: Distance::ALL.iter().map(|distance| (distance.name(), 0)).collect(),
        ..Comparison::default()
    };
    for episode in range {
        let policy = &policies[(episode % policies.len() as u64) as usize];
        Episode::new(kernel, seed, episode, policy)?.run(kernel, &mut total)?;
        total.episodes += 1;
    }
    Ok(total)
}

struct Episode {
    seed: u64,
    number: u64,
    policy: String,
    machine: String,
    model: Model,
    tables: Tables,
    events_done: u64,
}

impl Episode {
    fn new(kernel: &mut Kernel, seed: u64, number: u64, policy: &PolicySpec) -> Result<Episode> {
        let mut random = Random::new(seed, number);
        let (topology, machine) = topology::random(&mut random);
        let mut spec = policy.clone();
        if random.chance(25) {
            spec.tunables.latency_ns = Some(1 + random.magnitude(29));
            spec.tunables.min_granularity_ns = Some(1 + random.magnitude(25));
            spec.tunables.wakeup_granularity_ns = Some(random.magnitude(25));
            spec.tunables.migration_cost_ns = Some(random.magnitude(25));
        }
        if random.chance(75) {
            spec.tunables.wait_max_ns = Some(random.magnitude(27));
        }
        let tick_ns = random.pick(&[1_000_000, 4_000_000, 10_000_000]);
        let tables = Tables::build(&topology, &spec).with_context(|| format!("machine {machine}"))?;
        let nr_groups = if random.chance(75) { GROUPS } else { 0 };
        install(kernel, &spec, &tables, tick_ns, nr_groups)?;
        let native = Native::new(Policy::with_groups(&spec, tables.clone(), tick_ns, nr_groups as usize)?);
        let model = Model::new(native, random);
        Ok(Episode { seed, number, policy: spec.to_string(), machine, model, tables, events_done: 0 })
    }

    fn run(mut self, kernel: &mut Kernel, total: &mut Comparison) -> Result<()> {
        // A machine on which nothing can be decided any more would never reach the number.
        for _ in 0..100 * EPISODE_DECISIONS {
            self.model.step();
            if self.model.batch_is_full() {
                self.compare_batch(kernel, total)?;
            }
            if self.model.native.decisions >= EPISODE_DECISIONS {
                break;
            }
        }
        self.compare_batch(kernel, total)?;
        total.events += self.events_done;
        total.decisions += self.model.native.decisions;
        Ok(())
    }

    fn compare_batch(&mut self, kernel: &mut Kernel, total: &mut Comparison) -> Result<()> {
        let (steps, masks) = self.model.native.take();
        let memory = kernel.memory();
        memory.masks[..masks.len()].copy_from_slice(&masks);
        for (event, step) in memory.events.iter_mut().zip(&steps) {
            *event = for_bpf(&step.event, step.task, step.waker, step.mask);
        }
        kernel.run_events(steps.len())?;
        for (at, step) in steps.iter().enumerate() {
            let differences = step.differences(&kernel.memory().answers[at]);
            if !differences.is_empty() {
                return Err(self.mismatch(Some(self.events_done + at as u64), step.text(), differences));
            }
            if step.event.kind() == Some(EventKind::Select) {
                total.add(&step.answer.get());
            }
        }
        let mut differences = self.state_differences(kernel);
        self.group_differences(kernel, &mut differences)?;
        if !differences.is_empty() {
            let last = self.events_done + steps.len() as u64;
            let what = format!("state after event {last}, in which {} events agreed", steps.len());
            return Err(self.mismatch(None, what, differences));
        }
        self.events_done += steps.len() as u64;
        Ok(())
    }

    fn state_differences(&self, kernel: &mut Kernel) -> Vec<String> {
        let policy = &self.model.native.policy;
        let bpf = kernel.memory();
        let mut found = Vec::new();
        let mut differ = |name: String, native: u32, bpf: u32| {
            if native != bpf {
                found.push(format!("{name}: native {native}, BPF {bpf}"));
            }
        };
        let state = &bpf.wl_memory.policy;
        differ("overloaded".into(), overloaded(policy.state()), state.overloaded);
        for (number, level) in self.tables.levels.iter().enumerate().filter(|(_, level)| level.has_counters) {
            for domain in 0..level.first.len() {
                let native = policy.busy_count(number, domain).expect("the level has counters");
                let bpf = state.counter[level.counter_base as usize + domain].busy;
                differ(format!("counter of domain {domain}, level {number}"), native, bpf);
            }
        }
        for llc in 0..self.tables.levels[self.tables.llc_level].first.len() {
            let bit = state.idle_llcs[llc / 64] >> (llc % 64) & 1;
            differ(format!("idle bit of LLC {llc}"), u32::from(policy.idle_llc(llc)), bit as u32);
        }
        for cpu in 0..self.tables.nr_cpus() as u32 {
            let word = bpf.wl_memory.idle_mask[cpu as usize / 64];
            let bit = (word >> (cpu % 64)) & 1;
            differ(format!("idle mask of CPU {cpu}"), u32::from(policy.idle_mask(cpu)), bit as u32);
        }
        for cpu in 0..self.tables.nr_cpus() as u32 {
            let (native, bpf) = (policy.cpu(cpu), &state.cpu[cpu as usize]);
            differences(&STATE.cpu, &format!("cpu[{cpu}]"), native.as_bytes(), bytes(bpf), &mut found);
        }
        let blocks = self.tables.blocks.as_ref().map_or(&[][..], |blocks| &blocks.block_of);
        for block in 0..blocks.iter().max().map_or(0, |&last| last + 1) {
            let (native, bpf) = (policy.block(block), &state.block[block as usize]);
            differences(&STATE.block, &format!("block[{block}]"), native.as_bytes(), bytes(bpf), &mut found);
        }
        found
    }

    fn group_differences(&self, kernel: &Kernel, found: &mut Vec<String>) -> Result<()> {
        let policy = &self.model.native.policy;
        let nr_cpus = self.tables.nr_cpus() as u32;
        for slot in 0..policy.params().nr_groups {
            let record = policy.group(slot);
            let bpf = kernel.group(slot)?;
            differences(&STATE.group, &format!("group {slot}"), record.as_bytes(), bytes(&bpf), found);
            // A group that never existed has changed nothing.
            let cpus = if record.generation > 0 { nr_cpus } else { 0 };
            for cpu in 0..cpus {
                let (native, bpf) = (policy.group_cpu(slot, cpu), kernel.group_cpu(slot, cpu, nr_cpus)?);
                let name = format!("group {slot} on CPU {cpu}");
                differences(&STATE.group_cpu, &name, native.as_bytes(), bytes(&bpf), found);
            }
        }
        Ok(())
    }

    fn mismatch(&self, event: Option<u64>, what: String, differences: Vec<String>) -> anyhow::Error {
        let (policy, machine) = (self.policy.clone(), self.machine.clone());
        Mismatch { seed: self.seed, episode: self.number, policy, machine, event, what, differences }.into()
    }
}

/// `overloaded` of the native `struct wl_policy`.
fn overloaded(state: &[u8]) -> u32 {
    let field = WL_POLICY_FIELDS.iter().find(|field| field.name == "overloaded").expect("policy.h has it");
    u32::from_ne_bytes(*state[field.offset..].first_chunk().expect("counters and CPUs come behind it"))
}
