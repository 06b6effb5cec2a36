// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab score`: one number for a policy, over inputs, machines and metrics.

use anyhow::{Result, ensure};
use clap::Args;
use wakelab_ask::{Ask, ScoreAsk, Scorer, Source, Weighted};

use crate::args::{Format, FormatArg, ImportArgs, KernelArgs, SeedsArgs};
use crate::progress::Bar;
use crate::{input, print};

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab score demo --machine smp-8 --policy wakelab\n  \
    wakelab score service.rec.gz hackbench:groups=4 --machine recorded --machine 'recorded*2' \\\n    \
        --policy wakelab+latency-ns=3000000 --baseline wakelab --metric p99=2 --metric result --fail-below 98\n\n\
    The score is 100 times the geometric mean of how many times better than the baseline the policy is, over all \
    inputs, machines, metrics and seeds: 100 is the baseline, 110 is 10 % better. docs/guide/score.md has the formula.")]
pub(crate) struct ScoreArgs {
    /// Recordings and workloads: paths of recordings, `demo`, or NAME[:key=value,...]
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<String>,
    #[command(flatten)]
    import: ImportArgs,
    /// Machine to simulate: a name from `wakelab machines`, `host` for this machine, or a file (.toml, or lstopo's
    /// .xml); `recorded` is the machine that made the recording. Repeatable; each input runs on each machine
    #[arg(long, short, value_name = "MACHINE", required = true)]
    machine: Vec<String>,
    /// Policy to score: NAME[+axis=value...]
    #[arg(long, short, value_name = "POLICY")]
    policy: String,
    /// Policy that has the score 100
    #[arg(long, value_name = "POLICY", default_value = "linux-6.12")]
    baseline: String,
    /// Metric: `result` (the first row of `wakelab compare`), `throughput`, `migrations`, a percentile of wake-up
    /// latency such as p50 or p99, or a name of the JSON. A larger WEIGHT makes it count more. Repeatable
    #[arg(long, value_name = "METRIC[=WEIGHT]", default_values = ["result", "p99"])]
    metric: Vec<Weighted>,
    #[command(flatten)]
    kernel: KernelArgs,
    #[command(flatten)]
    seeds: SeedsArgs,
    /// Exit with code 1 if the score is below SCORE, after it is printed; a larger value asks for more
    #[arg(long, value_name = "SCORE")]
    fail_below: Option<f64>,
    #[command(flatten)]
    format: FormatArg,
}

/// Scores a policy, and prints the number, or all that it rests on.
pub(crate) fn run(args: &ScoreArgs) -> Result<()> {
    let import = input::import(&args.import);
    let ask = |name: &String| Ask {
        source: Some(Source::Any(name.clone())),
        import: import.clone(),
        ..Ask::default()
    };
    let inputs: Vec<Ask> = args.inputs.iter().map(ask).collect();
    let ask = ScoreAsk {
        inputs: &inputs,
        machines: &input::choices(&args.machine),
        baseline: &args.baseline,
        metrics: args.metric.clone(),
        kernel: input::kernel(&args.kernel),
    };
    let seeds = input::seeds(&args.seeds);
    let runner = Bar::new();
    let runner = runner.runner(&args.seeds.threads);
    let scored = Scorer::new(ask, &print::note)?.score(&args.policy, &seeds, &runner, &print::note)?;
    match args.format.format {
        Format::Json => print::json(&scored)?,
        Format::Text => print::text(&format!("{:.2}\n", scored.score))?,
    }
    if let Some(least) = args.fail_below {
        ensure!(scored.score >= least, "the score {:.2} is below {least}", scored.score);
    }
    Ok(())
}
