// SPDX-License-Identifier: GPL-2.0-or-later
//! Lists of machines, policies, workloads and experiments as JSON: docs/schema/list.schema.json.

use serde::Serialize;
use wakelab_experiment::Experiment;
use wakelab_machine::Machine;
use wakelab_measure::Figures;
use wakelab_policy::{Alias, Axis, NamedPolicy, PolicySpec};
use wakelab_workload::Description;

use crate::document::SCHEMA_VERSION;
use crate::measured::Measured;

/// A document with its version and kind around it.
#[derive(Debug, Serialize)]
pub struct Listing<T> {
    schema_version: u32,
    kind: &'static str,
    #[serde(flatten)]
    body: T,
}

fn listing<T>(kind: &'static str, body: T) -> Listing<T> {
    Listing { schema_version: SCHEMA_VERSION, kind, body }
}

/// A name and one line.
#[derive(Debug, Serialize)]
pub struct Entry<'a> {
    name: &'a str,
    description: &'a str,
}

fn entries<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<Entry<'a>> {
    pairs.into_iter().map(|(name, description)| Entry { name, description }).collect()
}

/// Body of [`machines`].
#[derive(Debug, Serialize)]
pub struct Machines<'a> {
    machines: Vec<Entry<'a>>,
}

/// Returns the machines known by name: names and descriptions.
pub fn machines<'a>(presets: &[(&'a str, &'a str)]) -> Listing<Machines<'a>> {
    listing("machines", Machines { machines: entries(presets.iter().copied()) })
}

/// Body of [`machine`].
#[derive(Debug, Serialize)]
pub struct OneMachine<'a> {
    machine: &'a Machine,
}

/// Returns one machine as a scenario holds it.
pub fn machine(machine: &Machine) -> Listing<OneMachine<'_>> {
    listing("machine", OneMachine { machine })
}

/// Returns what was measured of a machine, and the base of the rest.
pub fn measured<'a>(machine: &'a str, base: &'a str, figures: &'a Figures) -> Listing<Measured<'a>> {
    listing("measured", Measured { machine, base, figures })
}

/// Body of [`policies`].
#[derive(Debug, Serialize)]
pub struct Policies<'a> {
    policies: Vec<PolicyEntry<'a>>,
    aliases: Vec<AliasEntry<'a>>,
    axes: Vec<AxisEntry<'a>>,
    tunables: Vec<Entry<'a>>,
}

/// A policy: its name, its axes, and where a named one differs from its kernel.
#[derive(Debug, Serialize)]
pub struct PolicyEntry<'a> {
    name: String,
    description: Option<&'a str>,
    policy: &'a PolicySpec,
    approximations: &'a [&'a str],
}

/// A kernel that stands for a policy, and where it differs from that.
#[derive(Debug, Serialize)]
struct AliasEntry<'a> {
    name: &'a str,
    description: &'a str,
    policy: &'a str,
    differences: &'a [&'a str],
}

#[derive(Debug, Serialize)]
struct AxisEntry<'a> {
    name: &'a str,
    description: &'a str,
    values: Vec<Entry<'a>>,
}

fn axis_entry(axis: &Axis) -> AxisEntry<'_> {
    let values = entries(axis.values.iter().map(|value| (value.name, value.description)));
    AxisEntry { name: axis.name, description: axis.description, values }
}

/// Returns all policies with a name, and all values of their axes and tunables.
pub fn policies() -> Listing<Policies<'static>> {
    let policies = PolicySpec::named()
        .iter()
        .map(|named: &NamedPolicy| PolicyEntry {
            name: named.name.to_owned(),
            description: Some(named.description),
            policy: &named.spec,
            approximations: named.approximations,
        })
        .collect();
    let alias = |alias: &'static Alias| AliasEntry {
        name: alias.name,
        description: alias.description,
        policy: alias.policy,
        differences: alias.differences,
    };
    let aliases = PolicySpec::aliases().iter().map(alias).collect();
    let axes = PolicySpec::axes().iter().map(axis_entry).collect();
    listing("policies", Policies { policies, aliases, axes, tunables: entries(PolicySpec::tunables()) })
}

/// Body of [`policy`].
#[derive(Debug, Serialize)]
pub struct OnePolicy<'a> {
    #[serde(flatten)]
    entry: PolicyEntry<'a>,
}

/// Returns one policy by its axes, with description and approximations if it has a name.
pub fn policy(spec: &PolicySpec) -> Listing<OnePolicy<'_>> {
    let named = PolicySpec::named().iter().find(|named| named.spec == *spec);
    let entry = PolicyEntry {
        name: spec.to_string(),
        description: named.map(|named| named.description),
        policy: spec,
        approximations: named.map_or(&[], |named| named.approximations),
    };
    listing("policy", OnePolicy { entry })
}

/// Body of [`workloads`].
#[derive(Debug, Serialize)]
pub struct Workloads<'a> {
    workloads: Vec<Entry<'a>>,
}

/// Returns the workloads known by name: names and summaries.
pub fn workloads(descriptions: &[Description]) -> Listing<Workloads<'_>> {
    let pairs =
        descriptions.iter().map(|description| (description.name.as_str(), description.summary.as_str()));
    listing("workloads", Workloads { workloads: entries(pairs) })
}

/// Body of [`workload`].
#[derive(Debug, Serialize)]
pub struct OneWorkload<'a> {
    workload: &'a Description,
}

/// Returns one workload with its parameters.
pub fn workload(description: &Description) -> Listing<OneWorkload<'_>> {
    listing("workload", OneWorkload { workload: description })
}

/// Body of [`experiments`].
#[derive(Debug, Serialize)]
pub struct ExperimentList<'a> {
    experiments: Vec<Entry<'a>>,
}

/// Returns the published experiments: names and titles.
pub fn experiments(all: &[Experiment]) -> Listing<ExperimentList<'_>> {
    let pairs = all.iter().map(|experiment| (experiment.name.as_str(), experiment.title.as_str()));
    listing("experiment_list", ExperimentList { experiments: entries(pairs) })
}
