// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line as it was typed. What it means is worked out in resolve.rs.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use wakelab_machine::Term;

use crate::ab::AbArgs;
use crate::bench::BenchArgs;
use crate::verify::VerifyArgs;

/// Which CPU should a waking task run on? Compares scheduling policies on machines that you need not own.
#[derive(Parser)]
#[command(
    name = "wakelab",
    version,
    max_term_width = 100,
    after_help = "Examples:\n  \
        wakelab compare fixtures/hackbench.perf.txt --machine xeon-2s22c2t \\\n          \
            --policy linux-4.15 --policy linux-4.15+idle=smt-balance\n  \
        wakelab machines power9-2s22c4t\n\n\
        Exit codes: 0 done, 1 something went wrong, 2 the input or the arguments are bad."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a recording or a workload under several policies and compare them.
    Compare(CompareArgs),
    /// Run a recording or a workload once, and show where the time went.
    Run(RunArgs),
    /// Show what each term of the cost model does to a result, by leaving it out.
    Ablate(AblateArgs),
    /// Export a run, import the export, replay it, and show how well the replay is the run again.
    RoundTrip(RoundTripArgs),
    /// Run published experiments and show what was published beside what is predicted.
    Experiments(ExperimentsArgs),
    /// Map where policies help and where they hurt, over machines and loads.
    Map(MapArgs),
    /// Run a command alternately under the kernel's own scheduler and policies on this machine, and compare them.
    Ab(AbArgs),
    /// Ask the native policy again what a log of scx_wakelab has: every answer must be the same.
    Verify(VerifyArgs),
    /// List the machines, draw one with what things cost on it and who says so, or see what its estimates decide.
    Machines(MachinesArgs),
    /// List the policies and their axes, or describe one.
    Policies(ListArgs),
    /// List the workload models, or describe one with its parameters.
    Workloads(ListArgs),
    /// Measure how many simulated events a second this machine manages.
    Bench(BenchArgs),
}

/// What is run.
#[derive(Args)]
pub(crate) struct InputArgs {
    /// A recording if a file of that name exists, else a workload: NAME[:key=value,...]
    #[arg(value_name = "INPUT")]
    pub(crate) input: Option<String>,
    /// A recording, whatever its name
    #[arg(long, value_name = "FILE", conflicts_with_all = ["input", "workload"])]
    pub(crate) recording: Option<PathBuf>,
    /// A workload, NAME or FILE.toml[:key=value,...], even if a file of that name exists
    #[arg(long, value_name = "WORKLOAD", conflicts_with = "input")]
    pub(crate) workload: Option<String>,
    /// The machine of the recording: CPU time becomes work, and what the kernel did of it is taken off
    #[arg(long, value_name = "MACHINE")]
    pub(crate) recorded_on: Option<String>,
    /// What wakes the recording's tasks of this name (or its beginning and `*`) from outside comes at times of its own;
    /// may be given again [default: who seems to follow a clock]
    #[arg(long, value_name = "COMM")]
    pub(crate) open_loop: Vec<String>,
    /// What wakes them from outside comes so long after they went to sleep; may be given again
    #[arg(long, value_name = "COMM")]
    pub(crate) closed_loop: Vec<String>,
    /// Replay the recording so often, each run beginning when the one before has ended
    #[arg(long, value_name = "N", value_parser = repeat())]
    pub(crate) repeat: Option<NonZeroU32>,
    /// Refuse a recording in which anything cannot be explained
    #[arg(long)]
    pub(crate) strict: bool,
}

/// With which seeds and how long, and on how many threads of this machine.
#[derive(Args)]
pub(crate) struct SeedsArgs {
    /// Number of seeds; comparisons are paired by seed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) seeds: u32,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Threads that run seeds side by side; the results do not depend on it [default: one a CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub(crate) threads: Option<u32>,
}

/// What lies around the policy.
#[derive(Args)]
pub(crate) struct KernelArgs {
    /// Which kernel's paths lie around the policy
    #[arg(long, value_enum, default_value_t = Host::Mainline)]
    pub(crate) host: Host,
    /// Stop a run after so many simulated seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) limit_s: u64,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab compare fixtures/hackbench.perf.txt --machine xeon-2s22c2t \\\n          \
        --policy linux-4.15 --policy linux-4.15+idle=smt-balance\n  \
    wakelab compare hackbench:groups=16 --machine power9-2s22c4t \\\n          \
        --policy linux-4.15 --policy linux-4.15+idle=smt-balance --seeds 10\n  \
    wakelab compare pingpong:pairs=8 --machine host --policy linux-4.15 --format json > result.json\n\n\
    A recording is the text of `perf script` from `perf sched record`, or ftrace text: of `trace-cmd report`, the \
    kernel's `trace` file, or `wakelab run --events`.")]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Run the scenario and seeds of an earlier result (JSON) again, as they stand
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "input", "recording", "workload", "recorded_on", "open_loop", "closed_loop", "repeat", "machine", "policy", "host", "seeds", "seed", "limit_s",
        "without",
    ])]
    pub(crate) scenario: Option<PathBuf>,
    /// A machine of `wakelab machines`, `host` for this one, or a file
    #[arg(long, short, value_name = "MACHINE", required_unless_present = "scenario")]
    pub(crate) machine: Option<String>,
    /// A policy, NAME[+axis=value...]; the first is the baseline
    #[arg(long, short, value_name = "POLICY", required_unless_present = "scenario")]
    pub(crate) policy: Vec<String>,
    #[command(flatten)]
    pub(crate) kernel: KernelArgs,
    #[command(flatten)]
    pub(crate) seeds: SeedsArgs,
    /// Leave out a term of the cost model; may be given again
    #[arg(long, value_name = "TERM", value_parser = term())]
    pub(crate) without: Vec<Term>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab run hackbench:groups=4 --machine xeon-2s22c2t --policy linux-4.15\n  \
    wakelab run pingpong:pairs=8 --machine power9-2s22c4t --policy linux-4.15 --without idle-exit\n  \
    wakelab run pingpong:pairs=8 --machine smp-8 --policy linux-4.15 --events pingpong.ftrace.txt\n\n\
    The JSON is that of `wakelab compare` with one policy and one seed.")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// A machine of `wakelab machines`, `host` for this one, or a file
    #[arg(long, short, value_name = "MACHINE")]
    pub(crate) machine: String,
    /// A policy, NAME[+axis=value...]
    #[arg(long, short, value_name = "POLICY")]
    pub(crate) policy: String,
    #[command(flatten)]
    pub(crate) kernel: KernelArgs,
    /// The seed
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Leave out a term of the cost model; may be given again
    #[arg(long, value_name = "TERM", value_parser = term())]
    pub(crate) without: Vec<Term>,
    /// Write what the run did to this file, as ftrace text; docs/guide/recordings.md
    #[arg(long, value_name = "FILE")]
    pub(crate) events: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab ablate hackbench:groups=2 pingpong --machine xeon-2s22c2t --machine power9-2s22c4t\n  \
    wakelab ablate pingpong:pairs=8 --machine xeon-2s22c2t --term idle-exit --term ipis --seeds 10\n\n\
    Terms act on each other, so their effects need not add up to anything.")]
pub(crate) struct AblateArgs {
    /// Workloads: NAME or FILE.toml[:key=value,...]
    #[arg(value_name = "WORKLOAD", required = true)]
    pub(crate) workloads: Vec<String>,
    /// A machine of `wakelab machines`, `host` for this one, or a file; may be given again
    #[arg(long, short, value_name = "MACHINE", required = true)]
    pub(crate) machine: Vec<String>,
    /// A policy, NAME[+axis=value...]
    #[arg(long, short, value_name = "POLICY", default_value = "linux-4.15")]
    pub(crate) policy: String,
    #[command(flatten)]
    pub(crate) kernel: KernelArgs,
    #[command(flatten)]
    pub(crate) seeds: SeedsArgs,
    /// A term of the cost model to leave out; may be given again [default: each of them]
    #[arg(long, value_name = "TERM", value_parser = term())]
    pub(crate) term: Vec<Term>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab round-trip hackbench:groups=1,loops=10 pingpong:pairs=2,loops=100 --machine smp-8")]
pub(crate) struct RoundTripArgs {
    /// Workloads: NAME or FILE.toml[:key=value,...]
    #[arg(value_name = "WORKLOAD", required = true)]
    pub(crate) workloads: Vec<String>,
    /// A machine of `wakelab machines`, `host` for this one, or a file; may be given again
    #[arg(long, short, value_name = "MACHINE", required = true)]
    pub(crate) machine: Vec<String>,
    /// A policy, NAME[+axis=value...]
    #[arg(long, short, value_name = "POLICY", default_value = "linux-4.15")]
    pub(crate) policy: String,
    #[command(flatten)]
    pub(crate) kernel: KernelArgs,
    /// The seed
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Threads that run pairs side by side; the results do not depend on it [default: one a CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub(crate) threads: Option<u32>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab machines power9-2s22c4t\n  \
    wakelab machines xeon-2s22c2t --sensitivity hackbench:groups=2 --policy linux-4.15\n  \
    wakelab machines xeon-2s22c2t --sensitivity hackbench:groups=2 \\\n          \
        --policy linux-4.15 --policy linux-4.15+idle=smt-balance")]
pub(crate) struct MachinesArgs {
    /// Describe this one
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Show how the result of this workload moves when each estimated figure of the machine is halved and doubled
    #[arg(long, value_name = "WORKLOAD", requires = "name")]
    pub(crate) sensitivity: Option<String>,
    /// With --sensitivity: the policy, NAME[+axis=value...]; given twice, how the second's gain over the first moves
    #[arg(long, short, value_name = "POLICY", default_value = "linux-4.15", requires = "sensitivity")]
    pub(crate) policy: Vec<String>,
    #[command(flatten, next_help_heading = "With --sensitivity")]
    pub(crate) kernel: KernelArgs,
    #[command(flatten, next_help_heading = "With --sensitivity")]
    pub(crate) seeds: SeedsArgs,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// 1 to 10,000.
fn repeat() -> impl TypedValueParser<Value = NonZeroU32> {
    clap::value_parser!(u32).range(1..=10_000).try_map(NonZeroU32::try_from)
}

/// Terms of the cost model, each with its line in the help.
fn term() -> impl TypedValueParser<Value = Term> {
    let values = Term::ALL.map(|term| PossibleValue::new(term.name()).help(term.about()));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Term>())
}

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab map hackbench:groups={tasks/4},fds=2 --policy linux-4.15 --policy linux-4.15+idle=smt-balance\n  \
    wakelab map pingpong:pairs={tasks/2},loops=100 --machine smp-8 --machine xeon-2s22c2t --load 1/4 --load 1 \\\n          \
        --policy linux-4.15 --policy linux-4.15+idle=smt-balance --plot map.svg\n  \
    wakelab map hackbench:groups={tasks/40},loops=100 --metric wakeup_latency_p99_ns \\\n          \
        --policy linux-4.15 --policy wakelab")]
pub(crate) struct MapArgs {
    /// A workload, NAME or FILE.toml:key=value,...; {tasks} in it stands for the number of tasks, {tasks/N} for that of
    /// what has N tasks each
    #[arg(value_name = "WORKLOAD")]
    pub(crate) workload: String,
    /// A machine of `wakelab machines`, `host` for this one, or a file; may be given again [default: all but host]
    #[arg(long, short, value_name = "MACHINE")]
    pub(crate) machine: Vec<String>,
    /// Tasks a CPU, as 2 or 1/4; may be given again
    #[arg(long, value_name = "LOAD", default_values = ["1/8", "1/4", "1/2", "1", "2", "4"])]
    pub(crate) load: Vec<String>,
    /// A policy, NAME[+axis=value...]; the first is the baseline, each other has a map
    #[arg(long, short, value_name = "POLICY", required = true)]
    pub(crate) policy: Vec<String>,
    #[command(flatten)]
    pub(crate) kernel: KernelArgs,
    #[command(flatten)]
    pub(crate) seeds: SeedsArgs,
    /// Map this metric instead of what the workload is judged by: a name in the JSON of `wakelab compare`
    #[arg(long, value_name = "METRIC")]
    pub(crate) metric: Option<String>,
    /// One map: the last policy over whichever of the others is best in each cell
    #[arg(long)]
    pub(crate) over_best: bool,
    /// Draw the maps into this file, as SVG
    #[arg(long, value_name = "FILE", conflicts_with = "over_best")]
    pub(crate) plot: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab experiments --list\n  \
    wakelab experiments hackbench uperf --seeds 3\n  \
    wakelab experiments controls\n  \
    wakelab experiments --format json > experiments.json\n\n\
    \"before\" may be fitted, \"after\" is a prediction: docs/guide/experiment-files.md.")]
pub(crate) struct ExperimentsArgs {
    /// Experiments of `wakelab experiments --list`, files, or `controls` for the negative controls of all [default:
    /// all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// List the experiments
    #[arg(long, conflicts_with_all = ["names", "seeds", "seed", "threads", "quick"])]
    pub(crate) list: bool,
    /// Number of seeds [default: as each experiment's file says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) seeds: Option<u32>,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Threads that run seeds side by side; the results do not depend on it [default: one a CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub(crate) threads: Option<u32>,
    /// Only the controls and the rows whose sign is robust, shortened as the files say, so that only gains compare; a
    /// failure is exit code 1
    #[arg(long)]
    pub(crate) quick: bool,
    /// How to print the results
    #[arg(long, value_enum, default_value_t = PageFormat::Text)]
    pub(crate) format: PageFormat,
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Describe this one
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// How results are printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables for people
    Text,
    /// JSON, as docs/schema describes it
    Json,
}

/// How results that have a page in docs/ are printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PageFormat {
    /// Tables for people
    Text,
    /// JSON, as docs/schema describes it
    Json,
    /// The page in docs/, with what changed between the policies
    Markdown,
}

/// The host profile (docs/design/contract.md).
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Host {
    /// Linux's own scheduler around the policy
    Mainline,
    /// A sched_ext kernel (6.12 or later) around the policy, as scx_wakelab has it
    #[value(name = "sched_ext", alias = "sched-ext")]
    SchedExt,
}
