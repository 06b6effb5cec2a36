// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab ablate`: leaves out terms of the cost model.

use anyhow::Result;
use clap::Args;
use wakelab_lab::AblationPlan;
use wakelab_machine::Term;
use wakelab_report::Ablation;

use crate::args::{Format, FormatArg, GridArgs, SeedsArgs, term};
use crate::progress::Bar;
use crate::{input, print};

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab ablate hackbench:groups=2 pingpong --machine xeon-2s22c2t --machine power9-2s22c4t\n  \
    wakelab ablate pingpong:pairs=8 --machine xeon-2s22c2t --term idle-exit --term ipis --seeds 10\n\n\
    Terms affect each other, so their effects need not add up.")]
pub(crate) struct AblateArgs {
    #[command(flatten)]
    grid: GridArgs,
    #[command(flatten)]
    seeds: SeedsArgs,
    /// Term of the cost model to leave out. Repeatable [default: each term in turn]
    #[arg(long, value_name = "TERM", value_parser = term())]
    term: Vec<Term>,
    #[command(flatten)]
    format: FormatArg,
}

/// Runs every workload on every machine with all terms and without each, and prints what each term does.
pub(crate) fn run(args: &AblateArgs) -> Result<()> {
    let plan = AblationPlan {
        policy: input::policy(&args.grid.policy)?,
        machines: input::machines(&args.grid.machine)?,
        workloads: input::workloads(&args.grid.workloads)?,
        kernel: input::kernel(&args.grid.kernel),
        terms: if args.term.is_empty() { Term::ALL.to_vec() } else { args.term.clone() },
        seeds: input::seeds(&args.seeds),
    };
    let cases = wakelab_lab::ablate(&plan, &Bar::new().runner(&args.seeds.threads))?;
    let terms: Vec<(&str, &str)> = plan.terms.iter().map(|term| (term.name(), term.about())).collect();
    let ablation = Ablation::new(&args.grid.policy, &terms, &cases)?;
    match args.format.format {
        Format::Json => print::json(&ablation.document()),
        Format::Text => print::text(&ablation.text(&print::style())),
    }
}
