// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds the files of a CTF trace: in a folder, or in a tar of it.
//!
//! LTTng makes a folder for each session, with `kernel` in it, which has the trace. Further folders (`index`, `ust`)
//! are not needed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::TraceError;
use crate::ctf::Reader;
use crate::raw::store::Store;

/// The file that makes a folder a trace.
const METADATA: &str = "metadata";

/// The most that all files of a tar may have.
const TAR_BYTES_MAX: u64 = 1 << 30;

/// Returns the folder with the metadata of the kernel's trace: this one, `kernel` in it, or in the only folder in it.
pub(crate) fn metadata_folder(path: &Path) -> Option<PathBuf> {
    let is_trace = |path: &Path| path.join(METADATA).is_file();
    let here = |path: &Path| [path.to_owned(), path.join("kernel")].into_iter().find(|path| is_trace(path));
    here(path).or_else(|| {
        let mut folders = path.read_dir().ok()?.filter_map(|entry| here(&entry.ok()?.path()));
        folders.next().filter(|_| folders.next().is_none())
    })
}

/// Returns the reader of the trace in a folder that has metadata; errors call it `name`.
pub(crate) fn reader_of_folder(folder: &Path, name: &str) -> Result<Reader, TraceError> {
    let io_error = |source| TraceError::Io { file: name.to_owned(), source };
    let open = |path: &Path| {
        let shown = path.display().to_string();
        let file = File::open(path).map_err(|source| TraceError::Io { file: shown.clone(), source })?;
        Store::of_file(file, &shown)
    };
    let mut paths = Vec::new();
    for entry in folder.read_dir().map_err(io_error)? {
        let path = entry.map_err(io_error)?.path();
        if path.is_file() && is_stream(&path) {
            paths.push(path);
        }
    }
    paths.sort();
    let files = paths.iter().map(|path| open(path)).collect::<Result<_, _>>()?;
    Reader::new(&open(&folder.join(METADATA))?, files, name)
}

/// Whether a file may have packets.
fn is_stream(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    !name.starts_with('.') && name != METADATA && !name.ends_with(".idx")
}

/// Returns the reader of the trace in a tar; errors call it `name`.
pub(crate) fn reader_of_tar(input: impl Read, name: &str) -> Result<Reader, TraceError> {
    let io_error = |source| TraceError::Io { file: name.to_owned(), source };
    let foreign = |advice: &str| TraceError::Foreign {
        file: name.to_owned(),
        found: "a tar archive".to_owned(),
        advice: advice.to_owned(),
    };
    let mut archive = tar::Archive::new(input);
    let mut folders = BTreeMap::<PathBuf, Vec<(PathBuf, Vec<u8>)>>::new();
    let mut left = TAR_BYTES_MAX;
    for entry in archive.entries().map_err(io_error)? {
        let mut entry = entry.map_err(io_error)?;
        let path = entry.path().map_err(io_error)?.into_owned();
        if !entry.header().entry_type().is_file() || !(is_stream(&path) || path.ends_with(METADATA)) {
            continue;
        }
        let mut data = Vec::new();
        (&mut entry).take(left + 1).read_to_end(&mut data).map_err(io_error)?;
        let Some(rest) = left.checked_sub(data.len() as u64) else {
            return Err(foreign("it has more than 1024 MiB; unpack it, and name the folder in it"));
        };
        left = rest;
        folders.entry(path.parent().unwrap_or(Path::new("")).to_owned()).or_default().push((path, data));
    }
    let is_trace = |files: &[(PathBuf, Vec<u8>)]| files.iter().any(|(path, _)| path.ends_with(METADATA));
    folders.retain(|_, files| is_trace(files));
    // LTTng's traces of programs stand beside the kernel's.
    if folders.len() > 1 {
        folders.retain(|folder, _| folder.ends_with("kernel"));
    }
    let Some((_, mut files)) = folders.pop_first().filter(|_| folders.is_empty()) else {
        return Err(foreign("unpack it, and read the recording in it"));
    };
    files.sort();
    let store = |(path, data): (PathBuf, Vec<u8>)| {
        Store::of_memory(data, &format!("{name}: {}", path.display()), None)
    };
    let (metadata, streams): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|(path, _)| path.ends_with(METADATA));
    let metadata = metadata.into_iter().next().map(store).ok_or_else(|| foreign("it has no metadata"))?;
    Reader::new(&metadata, streams.into_iter().map(store).collect(), name)
}
