// SPDX-License-Identifier: GPL-2.0-or-later
//! Project chores: `cargo xtask test` passes everything; the other commands are its stages, one by one.
//!
//! This crate builds with nothing but Rust: whatever needs clang, libelf or a kernel runs as a child process.

mod beside;
#[cfg(test)]
mod ci_tests;
mod clang;
mod command;
mod docs;
mod experiment_texts;
mod experiments;
mod fuzz;
#[cfg(test)]
mod guide_tests;
mod import_circles;
mod instructions;
mod lists;
mod package;
mod page_figures;
mod parity;
mod picture;
mod python;
mod setup;
mod style;
mod style_c;
mod style_prose;
mod style_rust;
mod test;
mod truth;
mod truth_bare;
mod truth_cases;
mod truth_cgroup;
mod truth_groups;
mod vm;
mod vm_ab;
mod vm_bench;
mod vm_guest;
mod vm_hang;
mod vm_kernel;
mod vm_log;
mod vm_served;
mod vm_smoke;
mod vm_test;
mod vm_truth;
mod vm_truth_page;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Project chores of wakelab.
#[derive(Parser)]
#[command(name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Install what the tests need (apt, as root), or name it.
    Setup(setup::SetupArgs),
    /// Pass all tests: the quick tier of everything, the VM included, with a time budget per stage.
    Test(test::TestArgs),
    /// Check the rules of the house that no compiler checks.
    Style,
    /// Write the lists that follow from other files: the idle searches in policy/idle.h, the modules of policy tests.
    Lists(lists::ListsArgs),
    /// Write the output of commands that README.md and docs/ show, or check that it is fresh.
    Docs(docs::DocsArgs),
    /// Run the notebooks in docs/notebooks and write their outputs into them, or check that those are fresh.
    Notebooks(python::NotebooksArgs),
    /// Build docs/ with its notebooks as a site: target/site.
    Site,
    /// Run all published experiments in full, and write docs/results/experiments.md.
    Experiments(experiments::ExperimentsArgs),
    /// Feed the readers of recordings with damaged input, and write docs/results/fuzz.md (nightly, cargo-fuzz).
    Fuzz(fuzz::FuzzArgs),
    /// Compare the instructions of a simulated event with the committed figures, or write them.
    Instructions(instructions::InstructionsArgs),
    /// Measure what a page of a result costs: time, size, opening and panning in Chromium (docs/guide/timelines.md).
    PageFigures(page_figures::PageFiguresArgs),
    /// Make a Debian package, and a source archive with a PKGBUILD for Arch: target/package.
    Package(package::PackageArgs),
    /// Prove that the native and the BPF build of the policy decide alike, and time searches in the kernel.
    Parity(parity::ParityArgs),
    /// Measure how true replays are, on recordings that it makes, and write docs/results/truth.md (root, perf).
    Truth(truth::TruthArgs),
    /// Measure how true `--weight` and `--nice` are, and write docs/results/truth-groups.md (root, perf).
    TruthGroups(truth_groups::TruthGroupsArgs),
    /// Build the test kernel, and run the scheduler on it under emulation.
    Vm(vm::VmArgs),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().chore {
        Chore::Setup(args) => setup::run(&args),
        Chore::Test(args) => test::run(&args),
        Chore::Style => style::run(),
        Chore::Lists(args) => lists::run(&args),
        Chore::Docs(args) => docs::run(&args),
        Chore::Notebooks(args) => python::notebooks(&args),
        Chore::Site => python::site(),
        Chore::Experiments(args) => experiments::run(&args),
        Chore::Fuzz(args) => fuzz::run(&args),
        Chore::Instructions(args) => instructions::run(&args),
        Chore::Package(args) => package::run(&args),
        Chore::PageFigures(args) => page_figures::run(&args),
        Chore::Parity(args) => parity::run(args),
        Chore::Truth(args) => truth::run(&args),
        Chore::TruthGroups(args) => truth_groups::run(&args),
        Chore::Vm(args) => vm::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            match error.downcast_ref::<command::Skipped>() {
                Some(_) => ExitCode::from(command::SKIPPED),
                None => ExitCode::FAILURE,
            }
        }
    }
}
