// SPDX-License-Identifier: GPL-2.0-or-later
//! The file of a sweep, and the cases that it means.
//!
//! ```toml
//! workload = "hackbench:groups={tasks/40},loops=100"  # or a recording; {tasks} is the load times the CPUs
//! machine = "epyc-7742-2s@pack:{sockets} l3:{llcs} core:8 pu:2"
//! policy = ["linux-4.15", "linux-6.12", "wakelab"]    # the first is the baseline
//! cost = ["wakeup={wakeup}"]                          # none if left out
//! host = "mainline"                                   # or "sched_ext"
//! limit_s = 600
//!
//! [parameters]                    # each is a list, or a range
//! sockets = [1, 2]
//! llcs = [1, 2, 4]
//! load = ["1/4", "1", "4"]        # tasks for each CPU, where the workload has {tasks}
//! wakeup = { from = 250, to = 2000, log = true }      # in a full design with `steps`
//!
//! [design]                        # every combination if left out
//! kind = "halton"                 # or "full", "random"
//! points = 200
//! seed = 1
//!
//! [seeds]
//! first = 1
//! min = 3                         # of each case and policy
//! max = 30                        # the same as min if left out: no seeds are added
//! narrow_percent = 1.0            # seeds are added while the interval of a gain is wider than this to either side
//! metric = "wakeup_latency_p99_ns"    # of that gain; the result if left out
//! ```
//!
//! `{name}` stands for a parameter in every text.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wakelab_experiment::fill_template;
use wakelab_lab::{Kernel, Load, TaskTemplate};
use wakelab_machine::{CostChange, Machine};
use wakelab_policy::PolicySpec;
use wakelab_sim::{HostProfile, LIMIT_EVENTS, Scenario};
use wakelab_trace::WhatIf;
use wakelab_workload::Workload;

use super::design::{Axis, Design, Range, points};
use crate::error::{AskError, bad_input};
use crate::input::{Ask, Source, change, input, machine, policy, with_costs, workload};
use crate::map::{HOST, check_metric};

/// The parameter that says how many tasks there are for each CPU.
const LOAD: &str = "load";
const TASKS: &str = "{tasks";
const SEEDS_MAX: u32 = 10_000;
const LIMIT_S: f64 = 600.0;
const LIMIT_S_MAX: f64 = 100_000.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SweepFile {
    workload: String,
    machine: String,
    policy: Vec<String>,
    #[serde(default)]
    cost: Vec<String>,
    #[serde(default)]
    host: Option<HostProfile>,
    #[serde(default)]
    limit_s: Option<f64>,
    #[serde(default)]
    parameters: BTreeMap<String, Values>,
    #[serde(default)]
    design: Design,
    #[serde(default)]
    seeds: Seeds,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a list of values, or a range { from, to, log, steps }")]
enum Values {
    List(Vec<Value>),
    Range(Range),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a text or a number")]
enum Value {
    Text(String),
    Whole(i64),
    Real(f64),
}

/// The table `[seeds]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Seeds {
    pub(crate) first: u64,
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
    pub(crate) narrow_percent: Option<f64>,
    pub(crate) metric: Option<String>,
}

impl Default for Seeds {
    fn default() -> Seeds {
        Seeds { first: 1, min: 3, max: None, narrow_percent: None, metric: None }
    }
}

/// A point of the design with everything filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepCase {
    /// The values of the parameters, in the order of their names.
    pub values: Vec<String>,
    /// The machine as a user would name it.
    pub machine: String,
    /// The workload, with its number of tasks.
    pub workload: String,
    /// The policies; the first is the baseline.
    pub policies: Vec<String>,
    costs: Vec<String>,
}

/// A sweep that can run: all names are known.
#[derive(Clone, Debug)]
pub struct SweepPlan {
    /// The text of the file.
    pub text: String,
    /// The names of the parameters.
    pub parameters: Vec<String>,
    /// The cases, in the order of the design.
    pub cases: Vec<SweepCase>,
    /// The policies as the file names them.
    pub policies: Vec<String>,
    /// Points whose load is too small for one unit of the workload.
    pub left_out: usize,
    pub(crate) seeds: Seeds,
    kernel: Kernel,
    specs: BTreeMap<String, PolicySpec>,
    machines: BTreeMap<String, Arc<Machine>>,
    recordings: BTreeMap<String, Arc<Workload>>,
}

/// What another process needs beside the text: what this one has read from files.
#[derive(Serialize, Deserialize)]
struct Packed {
    text: String,
    machines: BTreeMap<String, Arc<Machine>>,
    recordings: BTreeMap<String, Arc<Workload>>,
}

impl SweepPlan {
    /// Reads the text of a sweep; `file` is its name in errors.
    ///
    /// # Errors
    /// What is wrong in it, with file and line where they are known.
    pub fn new(text: &str, file: &str) -> Result<SweepPlan, AskError> {
        SweepPlan::with(text, file, BTreeMap::new(), BTreeMap::new())
    }

    /// Turns the JSON of a sweep, with the keys of its file, into the text of its file.
    ///
    /// # Errors
    /// What is no JSON, or has no form in a file, such as null.
    pub fn text_of_json(json: &str) -> Result<String, AskError> {
        let value: serde_json::Value = serde_json::from_str(json)?;
        toml::to_string(&value).map_err(bad_input)
    }

    /// Returns everything that another process needs to run parts of this sweep.
    ///
    /// # Errors
    /// None that is known.
    pub fn pack(&self) -> Result<String, AskError> {
        // `host` is another machine there, and files are not there. What follows a name is a shape or a factor.
        let is_known = |name: &str| {
            let base = name.split(['@', '*']).next().unwrap_or(name);
            base != HOST && wakelab_machine::presets().iter().any(|(known, _)| *known == base)
        };
        let machines = self.machines.iter().filter(|(name, _)| !is_known(name));
        let machines = machines.map(|(name, machine)| (name.clone(), Arc::clone(machine))).collect();
        let packed = Packed { text: self.text.clone(), machines, recordings: self.recordings.clone() };
        Ok(serde_json::to_string(&packed)?)
    }

    /// Reads what [`SweepPlan::pack`] wrote.
    ///
    /// # Errors
    /// Something else.
    pub fn unpack(text: &str) -> Result<SweepPlan, AskError> {
        let packed: Packed = serde_json::from_str(text)?;
        SweepPlan::with(&packed.text, "sweep", packed.machines, packed.recordings)
    }

    fn with(
        text: &str,
        file: &str,
        machines: BTreeMap<String, Arc<Machine>>,
        recordings: BTreeMap<String, Arc<Workload>>,
    ) -> Result<SweepPlan, AskError> {
        let parsed: SweepFile = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = 1 + text[..at].bytes().filter(|byte| *byte == b'\n').count();
            bad_input(format!("{file}:{line}: {}", error.message().trim().replace('\n', ", ")))
        })?;
        check(&parsed).map_err(|error| bad_input(format!("{file}: {error}")))?;
        let axes = axes(&parsed)?;
        let limit_ns = (parsed.limit_s.unwrap_or(LIMIT_S) * 1e9).round() as u64;
        let host = parsed.host.unwrap_or(HostProfile::Mainline);
        let mut plan = SweepPlan {
            text: text.to_owned(),
            parameters: axes.iter().map(|(name, _)| name.clone()).collect(),
            cases: Vec::new(),
            policies: parsed.policy.clone(),
            left_out: 0,
            seeds: parsed.seeds.clone(),
            kernel: Kernel { host, limit_ns, limit_events: LIMIT_EVENTS },
            specs: BTreeMap::new(),
            machines,
            recordings,
        };
        for values in points(&parsed.design, &axes)? {
            plan.add(&parsed, values).map_err(|error| bad_input(format!("{file}: {error}")))?;
        }
        if plan.cases.is_empty() {
            return Err(bad_input(format!("{file}: no machine has enough CPUs for any of the loads")));
        }
        // Expanding every workload takes long, and a wrong name is wrong in the first one.
        plan.scenarios(0)?;
        Ok(plan)
    }

    /// Fills a point in, and looks up what it names.
    fn add(&mut self, file: &SweepFile, values: Vec<String>) -> Result<(), AskError> {
        let mut own: BTreeMap<String, String> =
            self.parameters.iter().cloned().zip(values.iter().cloned()).collect();
        let template = open_places(&file.workload);
        own.extend(template.iter().map(|place| (place.clone(), format!("{{{place}}}"))));
        let mut used = BTreeSet::new();
        let mut fill = |text: &String| {
            fill_template(text, &own, &mut used).map_err(|message| bad_input(message.to_string()))
        };
        let machine = fill(&file.machine)?;
        let mut workload = fill(&file.workload)?;
        let policies = file.policy.iter().map(&mut fill).collect::<Result<Vec<_>, _>>()?;
        let costs = file.cost.iter().map(&mut fill).collect::<Result<Vec<_>, _>>()?;
        if !template.is_empty() {
            used.insert(LOAD.to_owned());
        }
        if let Some(name) = self.parameters.iter().find(|name| !used.contains(*name)) {
            return Err(bad_input(format!("no text has the parameter '{name}'; expected {{{name}}} in one")));
        }
        self.look_up(&machine, &policies)?;
        if !template.is_empty() {
            let open: TaskTemplate = workload.parse().map_err(bad_input)?;
            let load: Load = own.get(LOAD).map_or("", String::as_str).parse().map_err(bad_input)?;
            match open.fill(load.tasks(self.machines[&machine].topology.nr_cpus())) {
                Some(filled) => workload = filled,
                None => {
                    self.left_out += 1;
                    return Ok(());
                }
            }
        } else if !self.recordings.contains_key(&workload) && is_recording(&workload) {
            let ask = Ask { source: Some(Source::Any(workload.clone())), ..Ask::default() };
            self.recordings.insert(workload.clone(), input(&ask)?.0);
        }
        self.cases.push(SweepCase { values, machine, workload, policies, costs });
        Ok(())
    }

    fn look_up(&mut self, name: &str, policies: &[String]) -> Result<(), AskError> {
        if !self.machines.contains_key(name) {
            self.machines.insert(name.to_owned(), machine(name, &[])?);
        }
        for name in policies {
            if !self.specs.contains_key(name) {
                self.specs.insert(name.clone(), policy(name, &|_| {})?);
            }
        }
        Ok(())
    }

    /// The number of CPUs of a case's machine.
    pub fn nr_cpus(&self, case: usize) -> usize {
        self.machines[&self.cases[case].machine].topology.nr_cpus()
    }

    /// Returns the scenarios of a case, one for each policy.
    ///
    /// # Errors
    /// A workload or a cost that is wrong.
    pub fn scenarios(&self, case: usize) -> Result<Vec<Scenario>, AskError> {
        let case = &self.cases[case];
        let costs = case.costs.iter().map(|cost| cost.parse()).collect::<Result<Vec<CostChange>, _>>();
        let machine = with_costs(&self.machines[&case.machine], &costs.map_err(bad_input)?)?;
        let workload = match self.recordings.get(&case.workload) {
            Some(recorded) => {
                let mut fitted = Arc::clone(recorded);
                change(&WhatIf::default(), &mut fitted, &machine, true)?;
                fitted
            }
            None => workload(&case.workload)?,
        };
        let specs: Vec<PolicySpec> = case.policies.iter().map(|name| self.specs[name].clone()).collect();
        Ok(wakelab_lab::scenarios(&machine, &workload, &specs, self.kernel))
    }

    /// The most seeds of a case.
    pub(crate) fn seeds_max(&self) -> u32 {
        self.seeds.max.unwrap_or(self.seeds.min)
    }
}

fn check(file: &SweepFile) -> Result<(), AskError> {
    let Seeds { min, max, narrow_percent, metric, .. } = &file.seeds;
    let max = max.unwrap_or(*min);
    if !(1..=SEEDS_MAX).contains(min) || !(*min..=SEEDS_MAX).contains(&max) {
        return Err(bad_input(format!(
            "[seeds]: min {min}, max {max}; expected 1 to {SEEDS_MAX}, min first"
        )));
    }
    if (max > *min) != narrow_percent.is_some_and(|percent| percent > 0.0) {
        return Err(bad_input(
            "[seeds]: expected `max` above `min` and `narrow_percent` above 0 together, or neither",
        ));
    }
    metric.as_deref().map_or(Ok(()), check_metric)?;
    if file.policy.is_empty() {
        return Err(bad_input("no policy; expected one or more"));
    }
    match file.limit_s {
        Some(limit) if !(limit > 0.0 && limit <= LIMIT_S_MAX) => {
            Err(bad_input(format!("limit_s {limit}; expected seconds above 0 and at most {LIMIT_S_MAX}")))
        }
        _ => Ok(()),
    }
}

fn axes(file: &SweepFile) -> Result<Vec<(String, Axis)>, AskError> {
    let text = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        Value::Whole(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
    };
    let axis = |(name, values): (&String, &Values)| {
        let axis = match values {
            Values::List(values) if values.is_empty() => {
                return Err(bad_input(format!("parameter '{name}': no values; expected one or more")));
            }
            Values::List(values) => Axis::List(values.iter().map(text).collect()),
            Values::Range(range) => {
                range.check(name)?;
                Axis::Range(range.clone())
            }
        };
        Ok((name.clone(), axis))
    };
    file.parameters.iter().map(axis).collect()
}

/// The places for the number of tasks in a workload: `tasks` or `tasks/4`.
fn open_places(workload: &str) -> Vec<String> {
    let places = workload.match_indices(TASKS).filter_map(|(at, _)| workload[at + 1..].split('}').next());
    places.map(str::to_owned).collect()
}

fn is_recording(name: &str) -> bool {
    let path = Path::new(name);
    let is_model = wakelab_workload::presets().any(|preset| preset == name) || name.contains(".toml");
    !is_model && (path.exists() || name == wakelab_lab::DEMO_NAME)
}
