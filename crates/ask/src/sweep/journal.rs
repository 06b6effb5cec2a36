// SPDX-License-Identifier: GPL-2.0-or-later
//! The runs of a sweep that is under way, on disk: a file beside the result, with the text of the sweep in its first
//! line and a row in each further one. A row is written whole, at once, when its run has ended, so that a process that
//! is killed loses only the runs under way. What a write left unfinished has no end of line and is cut off.
//!
//! One process at a time has a journal.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::{Row, Sweep, read_row, write_row};
use crate::error::{AskError, bad_input};

/// Follows the name of the result.
const SUFFIX: &str = ".runs";

#[derive(PartialEq, Serialize, Deserialize)]
struct Head {
    wakelab: String,
    sweep: String,
    metrics: Vec<String>,
}

/// The file.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    output: PathBuf,
}

impl Journal {
    /// Opens the journal of the result `output`, or begins one, and puts its rows into `sweep`.
    ///
    /// # Errors
    /// A result that is there already; the journal of another sweep, or of another version of wakelab; a journal that
    /// another process has; or a file that cannot be read or written.
    pub fn open(output: &Path, sweep: &mut Sweep) -> Result<Journal, AskError> {
        let mut path = output.as_os_str().to_owned();
        path.push(SUFFIX);
        let path = PathBuf::from(path);
        let refuse = |error: &dyn std::fmt::Display| bad_input(format!("{}: {error}", path.display()));
        if output.exists() && !path.exists() {
            let output = output.display();
            return Err(bad_input(format!("{output}: is there already; expected the name of a new file")));
        }
        let options = OpenOptions::new().read(true).append(true).create(true).to_owned();
        let mut file = options.open(&path).map_err(|error| refuse(&error))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| refuse(&"another process is at this sweep"))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(|error| refuse(&error))?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64).map_err(|error| refuse(&error))?;
        file.seek(SeekFrom::End(0)).map_err(|error| refuse(&error))?;
        let text = std::str::from_utf8(&text[..whole]).map_err(|error| refuse(&error))?;
        let head = Head {
            wakelab: env!("CARGO_PKG_VERSION").to_owned(),
            sweep: sweep.plan.text.clone(),
            metrics: sweep.columns.iter().map(|column| column.name.clone()).collect(),
        };
        let mut lines = text.lines();
        match lines.next() {
            None => {
                let line = serde_json::to_string(&head)? + "\n";
                file.write_all(line.as_bytes()).map_err(|error| refuse(&error))?;
            }
            Some(line) if serde_json::from_str::<Head>(line).is_ok_and(|known| known == head) => {}
            Some(_) => {
                let what =
                    "has the runs of another sweep, or of another version; remove it, or choose another name";
                return Err(refuse(&what));
            }
        }
        for (number, line) in lines.enumerate() {
            let row = read_row(line).map_err(|error| refuse(&format!("line {}: {error}", number + 2)))?;
            sweep.put(row);
        }
        Ok(Journal { file, path, output: output.to_owned() })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// A write that fails.
    pub fn add(&mut self, row: &Row) -> Result<(), AskError> {
        let line = write_row(row)?;
        self.file.write_all(line.as_bytes()).map_err(|error| self.failure(&error))
    }

    /// Writes the result, whole or not at all, and removes the journal.
    ///
    /// # Errors
    /// A write that fails.
    pub fn finish(self, sweep: &Sweep) -> Result<(), AskError> {
        let mut part = self.path.clone().into_os_string();
        part.push(".part");
        let write = || {
            let file = File::create(&part)?;
            sweep.write_parquet(&file)?;
            file.sync_all()?;
            std::fs::rename(&part, &self.output)?;
            std::fs::remove_file(&self.path)
        };
        write().map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &std::io::Error) -> AskError {
        AskError::Write(format!("{}: {error}", self.output.display()))
    }
}
