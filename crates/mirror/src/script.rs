// SPDX-License-Identifier: GPL-2.0-or-later
//! The frame of a build script: its directories, the files that it writes, and its exit code.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

use crate::rust::{Names, Writer};
use crate::{Headers, check};

/// A constant to mirror: its C name, its Rust name and its Rust type.
pub type Constant = (&'static str, &'static str, &'static str);

/// Directories of a build script.
#[derive(Clone, Debug)]
pub struct Places {
    /// The crate that is built.
    pub here: PathBuf,
    /// Where the script writes to.
    pub out: PathBuf,
    /// policy/ of the repository.
    pub policy: PathBuf,
}

/// Runs a build script, and again whenever policy/ or one of `files` (relative to the crate) changes. Prints its error,
/// which cargo shows.
pub fn run(files: &[&str], build: fn(&Places) -> Result<(), Box<dyn Error>>) -> ExitCode {
    match places().and_then(|places| {
        for file in files {
            println!("cargo:rerun-if-changed={file}");
        }
        println!("cargo:rerun-if-changed={}", places.policy.display());
        build(&places)
    }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn places() -> Result<Places, Box<dyn Error>> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let policy = here.join("../../policy").canonicalize()?;
    Ok(Places { here, out, policy })
}

impl Places {
    /// Writes mirror.rs, with `constants` and what `write` adds, and mirror_check.h, the assertions that C agrees.
    ///
    /// # Errors
    /// If a constant is missing, `write` fails, or a file cannot be written.
    pub fn mirror(
        &self,
        headers: &Headers,
        names: Names<'_>,
        constants: &[Constant],
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), crate::Error>,
    ) -> Result<(), Box<dyn Error>> {
        let mut writer = Writer::new(headers, names);
        for (c, name, of) in constants {
            writer.constant(c, name, of)?;
        }
        write(&mut writer)?;
        fs::write(self.out.join("mirror.rs"), writer.finish())?;
        let constants: Vec<&str> = constants.iter().map(|(c, ..)| *c).collect();
        fs::write(self.out.join("mirror_check.h"), check::assertions(headers, &constants)?)?;
        Ok(())
    }
}
