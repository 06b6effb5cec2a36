// SPDX-License-Identifier: GPL-2.0-or-later
//! The `wakelab` command: arguments in, tables or JSON out. Everything else is in the library crates.
//!
//! Each command has its own file, with its arguments and its `run`. args.rs has the groups of arguments that several
//! commands share, and input.rs turns them into machines, workloads, policies and scenarios.

mod ab;
mod ablate;
mod args;
mod bench;
mod bench_breakdown;
mod bench_plot;
mod check;
mod compare;
mod error;
mod experiments;
mod fit;
mod input;
mod machines;
mod map;
mod measure;
mod output;
mod policies;
mod print;
mod progress;
mod record;
mod round_trip;
mod run;
mod score;
mod sensitivity;
mod shell;
mod sweep;
mod tune;
mod verify;
mod view;
mod why;
mod workloads;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Which CPU should a waking task run on? Compares scheduling policies on machines that you need not own.
#[derive(Parser)]
#[command(
    name = "wakelab",
    version,
    max_term_width = 100,
    after_help = "Examples:\n  \
        wakelab compare demo --machine xeon-2s22c2t \\\n    \
            --policy linux-4.15 --policy linux-4.15+idle=smt-balance\n  \
        wakelab machines power9-2s22c4t\n\n\
        `demo` is a built-in recording.\n\n\
        Exit codes: 0 success, 1 failure, 2 bad input or bad arguments."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Record what this machine's scheduler does, into one file that the other commands read
    Record(record::RecordArgs),
    /// Run a recording or a workload under several policies and compare the results
    Compare(compare::CompareArgs),
    /// Show which axis, part of the machine or what-if makes the difference between two sides
    Why(why::WhyArgs),
    /// Run a recording or a workload once and show where the time went
    Run(run::RunArgs),
    /// Show a file of --perfetto in Perfetto's UI, or a page of --report in the browser
    View(view::ViewArgs),
    /// Replay a recording on the machine that made it, and show recorded and replayed figures side by side
    Check(check::CheckArgs),
    /// Print a machine file with what a recording tells of the machine that made it
    Fit(fit::FitArgs),
    /// Show how much each term of the cost model contributes to a result, by leaving it out
    Ablate(ablate::AblateArgs),
    /// Export a run, import the export, replay it, and show how closely the replay repeats the run
    RoundTrip(round_trip::RoundTripArgs),
    /// Run published experiments and show the published results beside the predicted ones
    Experiments(experiments::ExperimentsArgs),
    /// Map where policies help and where they hurt, over machines and loads
    Map(map::MapArgs),
    /// Run many cases, machines, workloads, policies and seeds, into a table
    Sweep(sweep::SweepArgs),
    /// Print one number for a policy: how much better than a baseline it is, over inputs, machines and metrics
    Score(score::ScoreArgs),
    /// Look for the best axes and tunables of a policy; needs the Python package
    Tune(tune::TuneArgs),
    /// Run a command on this machine alternately under the kernel's own scheduler and policies, and compare them
    Ab(ab::AbArgs),
    /// Replay a log of scx_wakelab through the native policy and check that every decision matches
    Verify(verify::VerifyArgs),
    /// List the machines; show the topology and costs of one; or test how its estimated costs affect a result
    Machines(machines::MachinesArgs),
    /// List the policies and their axes, or describe a policy, an axis, or a value of an axis
    Policies(policies::PoliciesArgs),
    /// List the workload models, or describe one with its parameters
    Workloads(workloads::WorkloadsArgs),
    /// Measure how many simulated events this machine processes per second
    Bench(bench::BenchArgs),
    /// Print a script that completes wakelab's commands and options in a shell
    Completions(shell::CompletionsArgs),
    /// Print the manual page of wakelab or of one of its commands
    Man(shell::ManArgs),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return error::print_usage(&error),
    };
    let result = match arguments.command {
        Command::Record(args) => record::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Why(args) => why::run(&args),
        Command::Run(args) => run::run(&args),
        Command::View(args) => view::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Fit(args) => fit::run(&args),
        Command::Ablate(args) => ablate::run(&args),
        Command::RoundTrip(args) => round_trip::run(&args),
        Command::Experiments(args) => experiments::run(&args),
        Command::Map(args) => map::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Score(args) => score::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Ab(args) => ab::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Machines(args) => machines::run(&args),
        Command::Policies(args) => policies::run(&args),
        Command::Workloads(args) => workloads::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Completions(args) => shell::completions(&args, Arguments::command()),
        Command::Man(args) => shell::man(&args, Arguments::command()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error::report(&error),
    }
}
