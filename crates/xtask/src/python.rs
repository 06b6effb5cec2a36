// SPDX-License-Identifier: GPL-2.0-or-later
//! The Python package: its wheel in a virtual environment of the cache, its tests beside the command, the notebooks,
//! and the site.
//!
//! That environment has what python/pyproject.toml names under `test` and `docs`. All of them stay from one run to the
//! next.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::command::{Skipped, cache, cargo, find_program, root, run, target_folder};

/// The virtual environment with the package of this tree.
struct Environment {
    bin: PathBuf,
    /// The command with which the package is compared.
    wakelab: PathBuf,
}

/// Makes a virtual environment of the cache, if there is none. Returns its folder of programs.
fn environment(name: &str) -> Result<PathBuf> {
    let python = find_program(&["python3"]).ok_or_else(|| Skipped("no python3".into()))?;
    let folder = cache()?.join(name);
    let bin = folder.join("bin");
    if !bin.join("python").is_file() {
        run(Command::new(python).args(["-m", "venv"]).arg(&folder))?;
    }
    Ok(bin)
}

/// Returns the Python of a virtual environment of the cache that has these packages.
pub(crate) fn with_packages(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let python = environment(name)?.join("python");
    let mut pip = Command::new(&python);
    run(pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet"]).args(packages))?;
    Ok(python)
}

impl Environment {
    /// Builds the command and the wheel, and installs the wheel with what its tests need.
    fn new() -> Result<Environment> {
        let bin = environment("python")?;
        run(cargo().args(["build", "--quiet", "--release", "-p", "wakelab-cli"]))?;
        let target = target_folder()?;
        let environment = Environment { bin, wakelab: target.join("release/wakelab") };
        environment.pip(&["maturin>=1.9,<2"])?;
        let wheels = target.join("wheels");
        let _ = std::fs::remove_dir_all(&wheels);
        let mut build = environment.program("maturin");
        build.args(["build", "--quiet", "--release", "--locked", "--out"]).arg(&wheels);
        run(build.args(["--manifest-path", "python/Cargo.toml"]))?;
        let wheel = std::fs::read_dir(&wheels)?.next().context("maturin made no wheel")??.path();
        let wheel = wheel.display().to_string();
        environment.pip(&[&format!("{wheel}[test,docs]")])?;
        // The version is the same from one build to the next.
        environment.pip(&["--force-reinstall", "--no-deps", &wheel])?;
        Ok(environment)
    }

    /// A program of the environment, in the project's folder.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.bin.join(name));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = [self.bin.clone()].into_iter().chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(folders).unwrap_or(path));
        command.env("WAKELAB", &self.wakelab).env("VIRTUAL_ENV", self.bin.parent().unwrap_or(&self.bin));
        command.current_dir(root());
        command
    }

    fn pip(&self, arguments: &[&str]) -> Result<()> {
        let mut command = self.program("python");
        command.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet"]);
        run(command.args(arguments))
    }
}

/// Builds the wheel, runs all tests of the package and the notebooks, and builds the site. `-ra` names what a test
/// skips, and why.
pub(crate) fn test() -> Result<()> {
    let environment = Environment::new()?;
    run(environment.program("python").args(["-m", "mypy", "--config-file", "python/pyproject.toml"]))?;
    run(environment.program("python").args(["-m", "pytest", "-q", "-ra", "python/tests"]))?;
    run_notebooks(&environment, true)?;
    build_site(&environment)
}

/// Arguments of `cargo xtask notebooks`.
#[derive(Args)]
pub(crate) struct NotebooksArgs {
    /// Write nothing; fail if a notebook shows something else now
    #[arg(long)]
    check: bool,
}

/// `cargo xtask notebooks`.
pub(crate) fn notebooks(args: &NotebooksArgs) -> Result<()> {
    run_notebooks(&Environment::new()?, args.check)
}

/// `cargo xtask site`.
pub(crate) fn site() -> Result<()> {
    build_site(&Environment::new()?)
}

fn run_notebooks(environment: &Environment, check: bool) -> Result<()> {
    let mut command = environment.program("python");
    command.arg("docs/notebooks/run.py").args(check.then_some("--check"));
    run(&mut command)
}

fn build_site(environment: &Environment) -> Result<()> {
    let folder = target_folder()?.join("site");
    let mut build = environment.program("mkdocs");
    build.env("NO_MKDOCS_2_WARNING", "1").args(["build", "--quiet", "--site-dir"]).arg(&folder);
    run(&mut build)?;
    println!("python: the site is in {}", folder.display());
    Ok(())
}
