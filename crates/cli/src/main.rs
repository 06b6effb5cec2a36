// SPDX-License-Identifier: GPL-2.0-or-later
//! The `wakelab` command: arguments in, tables or JSON out. Everything else is in the library crates.

mod ab;
mod args;
mod bench;
mod bench_plot;
mod changed;
mod compare;
mod events;
mod experiments;
mod list;
mod load;
mod map;
mod print;
mod resolve;
mod round_trip;
mod runner;
mod verify;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, Command};
use crate::resolve::BadInput;

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Compare(args) => compare::run(&args),
        Command::Ab(args) => ab::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Run(args) => compare::run_one(&args),
        Command::Ablate(args) => changed::ablate(&args),
        Command::RoundTrip(args) => round_trip::run(&args),
        Command::Experiments(args) => experiments::run(&args),
        Command::Map(args) => map::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Machines(args) => list::machines(&args),
        Command::Policies(args) => list::policies(&args),
        Command::Workloads(args) => list::workloads(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of a pipe has seen enough.
        Err(error) if print::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wakelab: {error:#}");
            let own = ab::exit_code(&error);
            ExitCode::from(own.unwrap_or(if error.is::<BadInput>() { 2 } else { 1 }))
        }
    }
}
