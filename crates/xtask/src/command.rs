// SPDX-License-Identifier: GPL-2.0-or-later
//! Running other programs: where the project is, where its cache is, and what an exit code means.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, bail};

/// Exit code of a stage that this machine cannot run, as automake's and the kernel's test runners use it.
pub(crate) const SKIPPED: u8 = 77;

/// A stage cannot run on this machine; the text says why in one line.
#[derive(Debug)]
pub(crate) struct Skipped(pub(crate) String);

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skipped: {}", self.0)
    }
}

impl std::error::Error for Skipped {}

/// The project's root folder. `cargo xtask` says where; what was compiled in may be another clone that shares the
/// target folder.
pub(crate) fn root() -> PathBuf {
    let mut path = PathBuf::from(
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into()),
    );
    path.pop();
    path.pop();
    path
}

/// The files of a folder whose names end in `.extension`, in the order of the alphabet.
pub(crate) fn files_in(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut all = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    all.retain(|path| path.extension().is_some_and(|end| end == extension));
    all.sort();
    Ok(all)
}

/// Where things that outlive a clone are kept: `$WAKELAB_CACHE`, or `~/.cache/wakelab`.
pub(crate) fn cache() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("WAKELAB_CACHE") {
        return Ok(PathBuf::from(path));
    }
    let home = std::env::var_os("HOME").context("neither WAKELAB_CACHE nor HOME is set")?;
    Ok(Path::new(&home).join(".cache/wakelab"))
}

/// cargo, the one that runs this program.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The first of `names` that can be executed, from `$PATH`.
pub(crate) fn find_program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).collect();
    names.iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file()))
}

/// Runs a command to its end; anything but success is an error, exit code 77 is [`Skipped`].
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = status(command)?;
    match status.code() {
        Some(0) => Ok(()),
        Some(code) if code == i32::from(SKIPPED) => {
            Err(Skipped(format!("{} cannot run on this machine", show(command))).into())
        }
        _ => bail!("{} failed: {status}", show(command)),
    }
}

/// Returns what several runs came to: the first failure, else the first run that was skipped. So one that this machine
/// cannot do does not hide another one's failure.
pub(crate) fn together(results: impl IntoIterator<Item = Result<()>>) -> Result<()> {
    let mut skipped = Ok(());
    for result in results {
        match result {
            Err(error) if error.is::<Skipped>() => skipped = skipped.and(Err(error)),
            result => result?,
        }
    }
    skipped
}

/// Runs a command and gives what it wrote to stdout.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("cannot run {}", show(command)))?;
    if !output.status.success() {
        bail!("{} failed: {}\n{}", show(command), output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// As [`output`], as trimmed text.
pub(crate) fn text(command: &mut Command) -> Result<String> {
    Ok(String::from_utf8_lossy(&output(command)?).trim().to_owned())
}

/// The date in UTC, as 2026-11-27.
pub(crate) fn today() -> Result<String> {
    text(Command::new("date").args(["--utc", "+%Y-%m-%d"]))
}

/// Where cargo builds.
pub(crate) fn target_folder() -> Result<PathBuf> {
    let metadata = text(cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let start =
        metadata.find("\"target_directory\":\"").context("cargo metadata names no target_directory")? + 20;
    let length = metadata[start..].find('"').context("cargo metadata is cut off")?;
    Ok(PathBuf::from(&metadata[start..start + length]))
}

fn status(command: &mut Command) -> Result<ExitStatus> {
    command.status().with_context(|| format!("cannot run {}", show(command)))
}

fn show(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}
