// SPDX-License-Identifier: GPL-2.0-or-later
//! What each term of the cost model does to a result: the same runs with one term left out, paired by seed.
//!
//! A case is a workload on a machine under a policy. Its baseline has all terms. The gain of "without X" is the
//! improvement of the result if X costs nothing. It is not a share of the whole, because terms act on each other: a
//! wake-up that costs nothing comes earlier and finds another state of the machine. So the gains of all terms need not
//! add up to anything.

use serde::Serialize;
use wakelab_lab::AblationCase;
use wakelab_machine::printable;
use wakelab_policy::PolicySpec;
use wakelab_sim::{HostProfile, Scenario};

use crate::comparison::MetricOfPolicy;
use crate::document::{CONFIDENCE_PERCENT, INTERVAL, ResultDocument, SCHEMA_VERSION};
use crate::error::ReportError;
use crate::grid::{Cell, Grid};
use crate::result::{ResultMetric, check_seeds};
use crate::style::{BOLD, Style, paint};
use crate::table::{gain_cell, host_name, seeds};
use wakelab_stats::{Direction, Unit};

/// The effects of all terms on all cases.
#[derive(Clone, Debug)]
pub struct Ablation<'a> {
    /// The policy's name in tables.
    policy: &'a str,
    /// Names and descriptions.
    terms: Vec<(&'a str, &'a str)>,
    seeds: Vec<u64>,
    cases: Vec<Case<'a>>,
}

#[derive(Clone, Debug)]
struct Case<'a> {
    scenario: &'a Scenario,
    result: ResultMetric,
    with_all: MetricOfPolicy,
    without: Vec<MetricOfPolicy>,
}

impl<'a> Ablation<'a> {
    /// Compares the cases, whose lists `without` have the order of `terms`, names and descriptions. `policy` is the
    /// name of their policy.
    ///
    /// # Errors
    /// No case or no seed; a case with more or fewer lists than terms; other seeds than the first case's.
    pub fn new(
        policy: &'a str,
        terms: &[(&'a str, &'a str)],
        cases: &'a [AblationCase],
    ) -> Result<Ablation<'a>, ReportError> {
        let first = cases.first().ok_or(ReportError::Empty)?;
        let seeds: Vec<u64> = first.with_all.iter().map(|outcome| outcome.seed).collect();
        if seeds.is_empty() {
            return Err(ReportError::Empty);
        }
        let mut done = Vec::with_capacity(cases.len());
        for case in cases {
            if case.without.len() != terms.len() {
                let (scenarios, outcomes) = (terms.len(), case.without.len());
                return Err(ReportError::Lengths { scenarios, names: scenarios, outcomes });
            }
            check_seeds(&seeds, "all terms", &case.with_all, policy)?;
            for (runs, (term, _)) in case.without.iter().zip(terms) {
                check_seeds(&seeds, "all terms", runs, term)?;
            }
            let result = ResultMetric::new(case.scenario.workload.measure);
            done.push(Case {
                scenario: &case.scenario,
                with_all: result.of(&case.with_all),
                without: case.without.iter().map(|runs| result.over(&case.with_all, runs)).collect(),
                result,
            });
        }
        Ok(Ablation { policy, terms: terms.to_vec(), seeds, cases: done })
    }

    /// Returns the indices of the terms that change no value of any case.
    fn without_effect(&self) -> Vec<usize> {
        let same = |case: &Case<'_>, term: usize| case.without[term].values == case.with_all.values;
        (0..self.terms.len()).filter(|&term| self.cases.iter().all(|case| same(case, term))).collect()
    }

    /// Returns a table for each workload, with a column for each machine. Ends in a newline.
    pub fn text(&self, style: &Style) -> String {
        let idle = self.without_effect();
        let mut out = String::new();
        let mut rest: Vec<&Case<'_>> = self.cases.iter().collect();
        while let Some(first) = rest.first().copied() {
            let group = |case: &&Case<'_>| case.scenario.workload.name == first.scenario.workload.name;
            let (cases, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(group);
            rest = others;
            let (workload, host) = (&first.scenario.workload.name, host_name(first.scenario.host));
            let policy = self.policy;
            let title = format!("{workload}, {policy}, host {host}, {}", seeds(&self.seeds));
            out.push_str(&paint(style, BOLD, style.wrap(&printable(&title)).trim_end()));
            out.push_str("\n\n");
            out.push_str(&self.grid(&cases, &idle).text(style));
            out.push('\n');
        }
        if !idle.is_empty() {
            let names: Vec<&str> = idle.iter().map(|&term| self.terms[term].0).collect();
            out.push_str(&style.wrap(&format!("No effect on any of them: {}.", names.join(", "))));
        }
        let key = "Percent by which the result is better (+) or worse (-) without the term.";
        if self.seeds.len() == 1 {
            out.push_str(&style.wrap(&format!("{key} One seed: no intervals, and nothing is marked.")));
        } else {
            out.push_str(&style.wrap(&format!("{key} ± 95 % interval: seed spread, not model error.")));
            out.push_str(&style.wrap("* more than 1 % and more than its interval."));
        }
        out
    }

    fn grid(&self, cases: &[&Case<'_>], idle: &[usize]) -> Grid {
        let heads = cases.iter().map(|case| case.scenario.machine.name.clone()).collect();
        let base = cases[0].result.row(cases.iter().map(|case| &case.with_all));
        let mut rows = vec![base];
        for (term, (name, _)) in self.terms.iter().enumerate().filter(|(term, _)| !idle.contains(term)) {
            let cell = |case: &&Case<'_>| gain_cell(&case.without[term].gain, case.result.direction);
            let cells: Vec<Cell> = cases.iter().map(cell).collect();
            rows.push((format!("without {name}"), "%", cells));
        }
        Grid { title: "", heads, rows }
    }

    /// Returns the document for programs: docs/schema/ablation.schema.json.
    pub fn document(&self) -> AblationDocument<'_> {
        // All cases have one policy, one host and one limit.
        let Scenario { policy, host, limit_ns, .. } = self.cases[0].scenario;
        AblationDocument {
            schema_version: SCHEMA_VERSION,
            kind: "ablation",
            interval: INTERVAL,
            confidence_percent: CONFIDENCE_PERCENT,
            name: self.policy,
            policy,
            host: *host,
            limit_ns: *limit_ns,
            seeds: &self.seeds,
            terms: self.terms.iter().map(|&(name, description)| TermDocument { name, description }).collect(),
            cases: self.cases.iter().map(|case| case.document(&self.seeds, &self.terms)).collect(),
        }
    }
}

impl Case<'_> {
    fn document<'b>(&'b self, seeds: &[u64], terms: &[(&'b str, &'b str)]) -> CaseDocument<'b> {
        let machine = &self.scenario.machine;
        let result = |found| ResultDocument::new(seeds, found);
        CaseDocument {
            workload: &self.scenario.workload.name,
            machine: &machine.name,
            cpus: machine.topology.nr_cpus(),
            metric: &self.result.name,
            unit: self.result.unit,
            direction: self.result.direction,
            with_all: result(&self.with_all),
            without: terms
                .iter()
                .zip(&self.without)
                .map(|(&(term, _), found)| WithoutDocument { term, result: result(found) })
                .collect(),
        }
    }
}

/// An ablation for programs; serialise it with serde_json.
#[derive(Debug, Serialize)]
pub struct AblationDocument<'a> {
    schema_version: u32,
    kind: &'static str,
    interval: &'static str,
    confidence_percent: u32,
    name: &'a str,
    policy: &'a PolicySpec,
    host: HostProfile,
    limit_ns: u64,
    seeds: &'a [u64],
    terms: Vec<TermDocument<'a>>,
    cases: Vec<CaseDocument<'a>>,
}

#[derive(Debug, Serialize)]
struct TermDocument<'a> {
    name: &'a str,
    description: &'a str,
}

#[derive(Debug, Serialize)]
struct CaseDocument<'a> {
    workload: &'a str,
    machine: &'a str,
    cpus: usize,
    metric: &'a str,
    unit: Unit,
    direction: Direction,
    with_all: ResultDocument,
    without: Vec<WithoutDocument<'a>>,
}

#[derive(Debug, Serialize)]
struct WithoutDocument<'a> {
    term: &'a str,
    #[serde(flatten)]
    result: ResultDocument,
}
