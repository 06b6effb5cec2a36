// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs on changed machines against runs on the machine itself: `wakelab ablate` leaves out terms of the cost model,
//! `wakelab machines NAME --sensitivity` scales estimated figures.

use std::sync::Arc;

use anyhow::Result;
use wakelab_machine::{Machine, Term};
use wakelab_report::{Ablation, AblationRuns, FigureRuns, Sensitivity, Style};
use wakelab_sim::{Outcome, Scenario};

use crate::args::{AblateArgs, Format, MachinesArgs};
use crate::resolve::{bad_input, machine, policies, scenarios, seeds, workload};
use crate::{print, runner};

/// Scenarios to run, each with a name for errors. A change that changes nothing is not run again.
#[derive(Default)]
struct Batch {
    scenarios: Vec<Scenario>,
    names: Vec<String>,
}

impl Batch {
    /// Answers the place of the scenario's outcomes.
    fn add(&mut self, scenario: Scenario, change: &str) -> Result<usize> {
        let name = format!(
            "{} on {}{change}, policy {}",
            scenario.workload.name, scenario.machine.name, scenario.policy
        );
        scenario.check().map_err(|error| bad_input(format!("{name}: {error}")))?;
        self.scenarios.push(scenario);
        self.names.push(name);
        Ok(self.scenarios.len() - 1)
    }

    /// The same scenario, which is at `base`, on another machine.
    fn add_changed(&mut self, base: usize, machine: Arc<Machine>, change: &str) -> Result<usize> {
        let unchanged = &self.scenarios[base];
        if machine.costs == unchanged.machine.costs && machine.topology == unchanged.machine.topology {
            return Ok(base);
        }
        let scenario = Scenario { machine, ..unchanged.clone() };
        self.add(scenario, change)
    }

    fn run(&self, seeds: &[u64], threads: Option<u32>) -> Result<Vec<Vec<Outcome>>> {
        let threads = runner::threads(threads)?;
        runner::run_all(&self.scenarios, seeds, threads).map_err(|failure| {
            let name = &self.names[failure.scenario];
            failure.told(name)
        })
    }
}

/// `wakelab ablate`.
pub(crate) fn ablate(args: &AblateArgs) -> Result<()> {
    let terms: &[Term] = if args.term.is_empty() { &Term::ALL } else { &args.term };
    let policy = policies(std::slice::from_ref(&args.policy))?;
    let machines = args.machine.iter().map(|name| machine(name, &[])).collect::<Result<Vec<_>>>()?;
    let workloads = args.workloads.iter().map(|spec| workload(spec)).collect::<Result<Vec<_>>>()?;
    let mut batch = Batch::default();
    // Places of the runs with all terms, and without each.
    let mut cases: Vec<(usize, Vec<usize>)> = Vec::new();
    for workload in &workloads {
        for machine in &machines {
            for scenario in scenarios(machine, workload, &policy, &args.kernel) {
                let base = batch.add(scenario, "")?;
                let without = |term: &Term| {
                    batch.add_changed(base, machine.without(*term).into(), &format!(" without {term}"))
                };
                cases.push((base, terms.iter().map(without).collect::<Result<_>>()?));
            }
        }
    }
    let outcomes = batch.run(&seeds(&args.seeds), args.seeds.threads)?;
    let runs: Vec<AblationRuns<'_>> = cases
        .iter()
        .map(|(base, without)| AblationRuns {
            scenario: &batch.scenarios[*base],
            policy: &args.policy,
            with_all: &outcomes[*base],
            without: without.iter().map(|&at| outcomes[at].as_slice()).collect(),
        })
        .collect();
    let terms: Vec<(&str, &str)> = terms.iter().map(|term| (term.name(), term.about())).collect();
    let ablation = Ablation::new(&terms, &runs)?;
    match args.format {
        Format::Json => print::json(&ablation.document()),
        Format::Text => print::text(&ablation.text(&style())),
    }
}

/// `wakelab machines NAME --sensitivity WORKLOAD`.
pub(crate) fn sensitivity(args: &MachinesArgs, name: &str, spec: &str) -> Result<()> {
    if args.policy.len() > 2 {
        return Err(bad_input(format!(
            "{} policies; expected one, or two whose gain is looked at",
            args.policy.len()
        )));
    }
    let base_machine = machine(name, &[])?;
    let base = scenarios(&base_machine, &workload(spec)?, &policies(&args.policy)?, &args.kernel);
    let nr_policies = base.len();
    let mut batch = Batch::default();
    for scenario in base {
        batch.add(scenario, "")?;
    }
    let estimates = base_machine.estimates();
    let sources = base_machine.cost_rows();
    // Places of the runs with each figure halved and doubled, a policy each.
    let mut places: Vec<[Vec<usize>; 2]> = Vec::new();
    for estimate in &estimates {
        let mut changed = |numerator, denominator, word: &str| {
            let machine = Arc::new(base_machine.scaled(estimate, numerator, denominator));
            let change = format!(" with {estimate} {word}");
            (0..nr_policies)
                .map(|at| batch.add_changed(at, machine.clone(), &change))
                .collect::<Result<Vec<_>>>()
        };
        places.push([changed(1, 2, "halved")?, changed(2, 1, "doubled")?]);
    }
    let outcomes = batch.run(&seeds(&args.seeds), args.seeds.threads)?;
    let of = |places: &Vec<usize>| places.iter().map(|&at| outcomes[at].as_slice()).collect();
    let figures = estimates
        .iter()
        .zip(&places)
        .map(|(estimate, [halved, doubled])| {
            let row = sources.iter().find(|row| row.key == estimate.key());
            FigureRuns {
                figure: estimate.to_string(),
                source: row.map_or_else(String::new, |row| row.source.to_string()),
                halved: of(halved),
                doubled: of(doubled),
            }
        })
        .collect();
    let sensitivity =
        Sensitivity::new(&batch.scenarios[..nr_policies], &args.policy, &outcomes[..nr_policies], figures)?;
    match args.format {
        Format::Json => print::json(&sensitivity.document()),
        Format::Text => print::text(&sensitivity.text(&style())),
    }
}

fn style() -> Style {
    Style { color: print::colored(), width: print::width() }
}
