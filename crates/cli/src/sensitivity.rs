// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab machines NAME --sensitivity WORKLOAD`: scales the estimated figures of a machine.

use anyhow::Result;
use clap::Args;
use wakelab_lab::SensitivityPlan;
use wakelab_report::Sensitivity;

use crate::args::{Format, KernelArgs, SeedsArgs};
use crate::error::bad_input;
use crate::progress::Bar;
use crate::{input, print};

/// Arguments that are refused without `--sensitivity`, because they have no meaning then.
#[derive(Args)]
#[group(
    id = "of_sensitivity",
    args = ["host", "limit_ns", "seeds", "seed", "threads"],
    requires = "sensitivity",
    multiple = true
)]
pub(crate) struct SensitivityArgs {
    /// Policy: NAME[+axis=value...]. Give two to see how the second's gain over the first changes
    #[arg(long, short, value_name = "POLICY", default_value = "linux-4.15", requires = "sensitivity")]
    policy: Vec<String>,
    #[command(flatten)]
    kernel: KernelArgs,
    #[command(flatten)]
    seeds: SeedsArgs,
}

/// Runs `spec` on the machine and on copies with each estimated figure halved and doubled, and prints the effects.
pub(crate) fn run(args: &SensitivityArgs, machine: &str, spec: &str, format: Format) -> Result<()> {
    if args.policy.len() > 2 {
        return Err(bad_input(format!(
            "{} policies; expected one, or two to compare the second with the first",
            args.policy.len()
        )));
    }
    let plan = SensitivityPlan {
        machine: input::machine(machine, &[])?,
        workload: input::workload(spec)?,
        policies: input::policies(&args.policy)?,
        kernel: input::kernel(&args.kernel),
        seeds: input::seeds(&args.seeds),
    };
    let outcomes = wakelab_lab::sense(&plan, &Bar::new().runner(&args.seeds.threads))?;
    let sensitivity = Sensitivity::new(&args.policy, &outcomes)?;
    match format {
        Format::Json => print::json(&sensitivity.document()),
        Format::Text => print::text(&sensitivity.text(&print::style())),
    }
}
