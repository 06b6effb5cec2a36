// SPDX-License-Identifier: GPL-2.0-or-later
//! Files that the command writes. A file appears when it is complete, or not at all: it has no name until then, so that
//! not even a signal leaves a part of it behind.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Result;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
use rustix::io::Errno;
use wakelab_lab::LabError;

use crate::error::bad_input;

/// The number of temporary names to try for the moment between linking a file and renaming it.
const NAMES_MAX: u32 = 1000;

/// A file that is being written.
pub(crate) struct OutputFile {
    option: &'static str,
    /// The path as the user wrote it.
    path: PathBuf,
    place: Place,
}

enum Place {
    /// A device or a pipe, which cannot be replaced.
    Existing(File),
    /// A file without a name in the folder of `target`.
    Nameless { file: File, target: PathBuf },
    /// A file with a name, if the file system has none without. [`tempfile`] removes it, and so does a signal that ends
    /// the command.
    Named { file: tempfile::NamedTempFile, target: PathBuf },
}

impl OutputFile {
    /// Prepares to write `path`, the argument of `option`. Refuses before anything runs what cannot work: a folder that
    /// does not exist or cannot be written to, and any of the `inputs`.
    pub(crate) fn create(option: &'static str, path: &Path, inputs: &[&Path]) -> Result<OutputFile> {
        let refuse = |error: io::Error| bad_input(format!("{option} {}: {error}", path.display()));
        let found = path.metadata().ok();
        if let Some(found) = &found {
            let is_same = |input: &&Path| {
                input.metadata().is_ok_and(|input| (input.dev(), input.ino()) == (found.dev(), found.ino()))
            };
            if found.is_file() && inputs.iter().any(is_same) {
                return Err(bad_input(format!(
                    "{option} {}: is an input; expected another file",
                    path.display()
                )));
            }
        }
        keep_running_at_size_limit();
        let place = place(path, found).map_err(refuse)?;
        Ok(OutputFile { option, path: path.to_owned(), place })
    }

    /// The file to write to.
    pub(crate) fn writer(&mut self) -> &mut File {
        match &mut self.place {
            Place::Existing(file) | Place::Nameless { file, .. } => file,
            Place::Named { file, .. } => file.as_file_mut(),
        }
    }

    /// Writes all of the file.
    pub(crate) fn write(mut self, bytes: &[u8]) -> Result<()> {
        match self.writer().write_all(bytes) {
            Ok(()) => self.finish(),
            Err(error) => Err(self.failure(error)),
        }
    }

    /// Lets the lab write all of the file.
    pub(crate) fn export(mut self, write: impl FnOnce(&mut File) -> Result<(), LabError>) -> Result<()> {
        let written = write(self.writer());
        self.check(written)?;
        self.finish()
    }

    /// Gives the file its name, replacing what was there.
    pub(crate) fn finish(self) -> Result<()> {
        let OutputFile { option, path, place } = self;
        let done = match place {
            Place::Existing(mut file) => file.flush(),
            Place::Nameless { file, target } => name_file(&file, &target),
            Place::Named { file, target } => file.persist(target).map(drop).map_err(|error| error.error),
        };
        done.map_err(|error| failure(option, &path, &error))
    }

    /// Returns a result of the lab, and names the file if a write to it failed.
    pub(crate) fn check<T>(&self, result: Result<T, LabError>) -> Result<T> {
        match result {
            Err(LabError::Write(error)) => Err(self.failure(error)),
            other => Ok(other?),
        }
    }

    /// The error for a write that failed.
    fn failure(&self, error: io::Error) -> anyhow::Error {
        failure(self.option, &self.path, &error)
    }
}

fn failure(option: &str, path: &Path, error: &io::Error) -> anyhow::Error {
    anyhow::anyhow!("{option} {}: {error}", path.display())
}

/// A path for a picture.
pub(crate) fn svg_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().and_then(|suffix| suffix.to_str()) {
        Some(suffix) if suffix.eq_ignore_ascii_case("svg") => Ok(path),
        _ => Err("pictures are written as SVG only; expected a name that ends in .svg".to_owned()),
    }
}

fn place(path: &Path, found: Option<Metadata>) -> io::Result<Place> {
    if found.as_ref().is_some_and(|found| !found.is_file() && !found.is_dir()) {
        return Ok(Place::Existing(File::options().write(true).open(path)?));
    }
    if found.as_ref().is_some_and(Metadata::is_dir) {
        return Err(Errno::ISDIR.into());
    }
    // A symbolic link stays, and the file that it points to is replaced.
    let target = if found.is_some() { path.canonicalize()? } else { path.to_owned() };
    let folder =
        target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
    if found.is_some() {
        // Fails for a file that the user may not write.
        File::options().write(true).open(&target)?;
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = match openat(CWD, &folder, flags, Mode::from_raw_mode(0o666)) {
        Ok(file) if Path::new("/proc/self/fd").exists() => File::from(file),
        Ok(_) | Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => return named(&folder, target, found),
        Err(error) => return Err(error.into()),
    };
    if let Some(found) = found {
        file.set_permissions(found.permissions())?;
    }
    Ok(Place::Nameless { file, target })
}

fn named(folder: &Path, target: PathBuf, found: Option<Metadata>) -> io::Result<Place> {
    let permissions = found.map_or_else(|| PermissionsExt::from_mode(0o666), |found| found.permissions());
    let file = tempfile::Builder::new().prefix(".wakelab-").permissions(permissions).tempfile_in(folder)?;
    let path = file.path().to_owned();
    // Without a handler the file may be left behind, which is no reason not to write it.
    let _ = ctrlc::set_handler(move || {
        let _ = std::fs::remove_file(&path);
        std::process::exit(130);
    });
    Ok(Place::Named { file, target })
}

/// Links a file without a name to `target`. A link cannot replace a file, so if the name is taken, the file is linked
/// to another name and renamed.
fn name_file(file: &File, target: &Path) -> io::Result<()> {
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    let link = |to: &Path| linkat(CWD, source.as_str(), CWD, to, AtFlags::SYMLINK_FOLLOW);
    match link(target) {
        Err(Errno::EXIST) => {}
        other => return Ok(other?),
    }
    for number in 0..NAMES_MAX {
        let detour = target.with_file_name(format!(".wakelab-{}-{number}", std::process::id()));
        match link(&detour) {
            Err(Errno::EXIST) => continue,
            other => other?,
        }
        return std::fs::rename(&detour, target).inspect_err(|_| {
            let _ = std::fs::remove_file(&detour);
        });
    }
    Err(Errno::EXIST.into())
}

/// Makes a file that grows beyond the limit of the process (`ulimit -f`) an error of the write, instead of the end of
/// the command.
fn keep_running_at_size_limit() {
    let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    // If it cannot be registered, the signal ends the command, and the file without a name disappears.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, flag);
}
