// SPDX-License-Identifier: GPL-2.0-or-later
//! Turns an experiment into scenarios. Rows that differ only in what they measure share a case, which is run once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wakelab_machine::Machine;
use wakelab_policy::PolicySpec;
use wakelab_sim::{LIMIT_EVENTS, Scenario};
use wakelab_workload::Workload;

use crate::error::ExperimentError;
use crate::file::{At, Expect, Experiment, Templates};

/// Which part of an experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All rows and controls.
    All,
    /// Only the controls.
    Controls,
    /// The controls, and the rows with a robust sign (the first row if there are none), with the file's quick
    /// parameters.
    Quick,
}

/// The cases of an experiment that are to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The experiment.
    pub experiment: Experiment,
    /// Cases. Each is run once for each policy and seed.
    pub cases: Vec<Case>,
}

/// A machine and a workload under two policies.
#[derive(Clone, Debug)]
pub struct Case {
    /// The machine's name, with parameters filled in.
    pub machine: String,
    /// The workload, with parameters filled in.
    pub workload: String,
    /// The policies before and after, with parameters filled in.
    pub policies: [String; 2],
    /// Scenarios before and after, ready to run.
    pub scenarios: [Scenario; 2],
    /// Whether the second policy runs with other seeds than the first.
    pub other_seeds: bool,
    /// Indices of the rows that use this case.
    pub rows: Vec<usize>,
    /// Indices of the controls that use this case.
    pub controls: Vec<usize>,
}

/// Templates with parameters filled in.
#[derive(PartialEq)]
struct Names {
    machine: String,
    workload: String,
    policies: [String; 2],
    other_seeds: bool,
}

impl Plan {
    /// Looks up machines, workloads and policies.
    ///
    /// # Errors
    /// Fails if one of them does not exist or is wrong, or if no template has a parameter. The error names the line.
    pub fn new(experiment: Experiment, selection: Selection) -> Result<Plan, ExperimentError> {
        let mut cases: Vec<Case> = Vec::new();
        for index in experiment.selected_rows(selection) {
            let row = &experiment.rows[index];
            let names = experiment.fill_in(&experiment.templates, &row.params, row.line, false, selection)?;
            let at = experiment.find_or_add_case(&mut cases, names, &experiment.templates, row.line)?;
            cases[at].rows.push(index);
        }
        for (index, control) in experiment.controls.iter().enumerate() {
            let other_seeds = control.expect == Expect::NoChange;
            let names = experiment.fill_in(
                &control.templates,
                &control.params,
                control.line,
                other_seeds,
                selection,
            )?;
            let at = experiment.find_or_add_case(&mut cases, names, &control.templates, control.line)?;
            cases[at].controls.push(index);
        }
        Ok(Plan { experiment, cases })
    }

    /// Keeps the rows whose id contains one of `texts`, and no controls.
    pub fn keep_rows(&mut self, texts: &[String]) {
        let is_meant = |row: &usize| {
            let id = &self.experiment.rows[*row].id;
            texts.iter().any(|text| id.contains(text.as_str()))
        };
        for case in &mut self.cases {
            case.rows.retain(is_meant);
            case.controls.clear();
        }
        self.cases.retain(|case| !case.rows.is_empty());
    }
}

impl Experiment {
    fn selected_rows(&self, selection: Selection) -> Vec<usize> {
        match selection {
            Selection::All => (0..self.rows.len()).collect(),
            Selection::Controls => Vec::new(),
            Selection::Quick => {
                let robust: Vec<usize> = (0..self.rows.len()).filter(|&at| self.rows[at].robust).collect();
                if robust.is_empty() { (0..self.rows.len().min(1)).collect() } else { robust }
            }
        }
    }

    fn fail<T>(&self, line: usize, message: impl Into<String>) -> Result<T, ExperimentError> {
        Err(ExperimentError::File { file: self.file.clone(), line, message: message.into() })
    }

    /// Fills in the templates. Parameters override each other: quick ones the row's, the row's the fitted, and those
    /// the experiment's.
    fn fill_in(
        &self,
        templates: &Templates,
        own: &BTreeMap<String, String>,
        line: usize,
        other_seeds: bool,
        selection: Selection,
    ) -> Result<Names, ExperimentError> {
        let mut params = self.params.clone();
        params.extend(self.fitted.iter().map(|fitted| (fitted.param.clone(), fitted.value.clone())));
        params.extend(own.clone());
        if selection == Selection::Quick {
            params.extend(self.quick.clone());
        }
        let mut used = BTreeSet::new();
        let mut fill = |template: &At<String>| {
            crate::template::fill(&template.value, &params, &mut used)
                .or_else(|message| self.fail(template.line, message))
        };
        let names = Names {
            machine: fill(&templates.machine)?,
            workload: fill(&templates.workload)?,
            policies: [fill(&templates.policy_before)?, fill(&templates.policy_after)?],
            other_seeds,
        };
        match own.keys().find(|name| !used.contains(*name)) {
            Some(name) => self.fail(
                line,
                format!("no template has the parameter '{name}'; expected {{{name}}} in the workload"),
            ),
            None => Ok(names),
        }
    }

    /// Returns the index of the case with these names in `cases`, and adds the case if there is none.
    fn find_or_add_case(
        &self,
        cases: &mut Vec<Case>,
        names: Names,
        templates: &Templates,
        line: usize,
    ) -> Result<usize, ExperimentError> {
        let same = |case: &Case| {
            (&case.machine, &case.workload, &case.policies, case.other_seeds)
                == (&names.machine, &names.workload, &names.policies, names.other_seeds)
        };
        if let Some(at) = cases.iter().position(same) {
            return Ok(at);
        }
        let machine = Machine::load(&names.machine)
            .or_else(|error| self.fail(templates.machine.line, error.to_string()))?;
        let workload = Workload::parse_spec(&names.workload)
            .or_else(|error| self.fail(templates.workload.line, error.to_string()))?;
        let policy = |name: &String, line: usize| {
            name.parse::<PolicySpec>().or_else(|error| self.fail(line, format!("policy '{name}': {error}")))
        };
        let policies = [
            policy(&names.policies[0], templates.policy_before.line)?,
            policy(&names.policies[1], templates.policy_after.line)?,
        ];
        let (machine, workload) = (Arc::new(machine), Arc::new(workload));
        let scenarios = policies.map(|policy| Scenario {
            machine: machine.clone(),
            workload: workload.clone(),
            policy,
            host: self.host,
            limit_ns: self.limit_s.saturating_mul(1_000_000_000),
            limit_events: LIMIT_EVENTS,
        });
        for scenario in &scenarios {
            scenario.check().or_else(|error| self.fail(line, error.to_string()))?;
        }
        let Names { machine, workload, policies, other_seeds } = names;
        cases.push(Case {
            machine,
            workload,
            policies,
            scenarios,
            other_seeds,
            rows: Vec::new(),
            controls: Vec::new(),
        });
        Ok(cases.len() - 1)
    }
}
