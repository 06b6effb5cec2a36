// SPDX-License-Identifier: GPL-2.0-or-later
//! Turns `NAME[:key=value,...]`, which a user types, into a [`Workload`].

use std::fs::File;
use std::io::{self, ErrorKind, Read};

use crate::error::{WorkloadError, list};
use crate::file::{Description, Param, WorkloadFile};
use crate::limits::FILE_BYTES_MAX;
use crate::program::Workload;

/// The workloads that come with wakelab, sorted by name: name and text of each file of `workloads/`.
const PRESETS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/workloads.rs"));

/// Returns the names of the workloads that come with wakelab.
pub fn presets() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// Returns what a workload is and which parameters it has. `name` is a preset or the path of a `.toml` file.
///
/// # Errors
/// Fails if there is no such preset or file, or the file is wrong.
pub fn describe(name: &str) -> Result<Description, WorkloadError> {
    Ok(open(name, name)?.description().clone())
}

/// A parameter of a spec, with its value there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The parameter.
    pub param: Param,
    /// The value in the spec, or the default.
    pub value: String,
}

/// Returns all parameters of the workload that a spec names, and which of them make a run longer.
///
/// # Errors
/// Fails if there is no such preset or file, or the file is wrong.
pub fn settings(spec: &str) -> Result<(Vec<Setting>, Vec<String>), WorkloadError> {
    let (name, settings) = split(spec);
    let given: Vec<(&str, &str)> =
        settings.unwrap_or_default().split(',').filter_map(|setting| setting.split_once('=')).collect();
    let Description { params, lengthen, .. } = describe(name)?;
    let value = |param: Param| {
        let found = given.iter().rev().find(|(key, _)| key.trim() == param.name);
        Setting { value: found.map_or(param.default.clone(), |(_, value)| value.trim().to_owned()), param }
    };
    Ok((params.into_iter().map(value).collect(), lengthen))
}

/// Returns the spec with these parameters replaced: `hackbench:groups=2` with `loops` 40 is
/// `hackbench:groups=2,loops=40`.
pub fn with_settings(spec: &str, values: &[(String, String)]) -> String {
    let (name, settings) = split(spec);
    let is_kept = |setting: &&str| {
        let key = setting.split('=').next().unwrap_or_default().trim();
        !key.is_empty() && values.iter().all(|(name, _)| name != key)
    };
    let kept = settings.unwrap_or_default().split(',').filter(is_kept).map(str::to_owned);
    let all: Vec<String> = kept.chain(values.iter().map(|(name, value)| format!("{name}={value}"))).collect();
    if all.is_empty() { name.to_owned() } else { format!("{name}:{}", all.join(",")) }
}

impl Workload {
    /// Whether it is what its name says as a spec: neither a recording, nor changed after it was read.
    pub fn is_as_named(&self) -> bool {
        Workload::parse_spec(&self.name).is_ok_and(|named| named == *self)
    }

    /// Returns the workload that a spec names: `hackbench`, `hackbench:groups=16,ipc=pipe`, `dir/mine.toml:tasks=3`.
    ///
    /// # Errors
    /// Fails if there is no such preset or file, if the file is wrong (with line and column), for unknown parameters
    /// (the error names those that exist), and for values that are not allowed.
    pub fn parse_spec(spec: &str) -> Result<Workload, WorkloadError> {
        let (name, settings) = split(spec);
        let fail = |message: String| Err(WorkloadError::Spec { spec: spec.to_owned(), message });
        let mut pairs = Vec::new();
        for setting in settings.unwrap_or_default().split(',').filter(|_| settings.is_some()) {
            match setting.split_once('=') {
                Some((key, value)) if !key.trim().is_empty() && !value.trim().is_empty() => {
                    pairs.push((key.trim().to_owned(), value.trim().to_owned()));
                }
                _ => return fail(format!("expected key=value,... after the name, found '{setting}'")),
            }
        }
        open(name, spec)?.expand(spec, &pairs)
    }
}

/// Splits a spec into name and settings. A path may contain colons before its `.toml`.
fn split(spec: &str) -> (&str, Option<&str>) {
    let colon = match spec.find(".toml:") {
        Some(at) => Some(at + ".toml".len()),
        None if spec.ends_with(".toml") => None,
        None => spec.find(':'),
    };
    match colon {
        Some(at) => (&spec[..at], Some(&spec[at + 1..])),
        None => (spec, None),
    }
}

fn open(name: &str, spec: &str) -> Result<WorkloadFile, WorkloadError> {
    if name.ends_with(".toml") {
        return WorkloadFile::parse(name, &read_text(name)?);
    }
    match PRESETS.iter().find(|(preset, _)| *preset == name) {
        Some((_, text)) => WorkloadFile::parse(&format!("workloads/{name}.toml"), text),
        None => {
            let message = format!("unknown name; there are {}, or the path of a .toml file", list(presets()));
            Err(WorkloadError::Spec { spec: spec.to_owned(), message })
        }
    }
}

/// The text of a workload file.
fn read_text(file: &str) -> Result<String, WorkloadError> {
    let fault = |source: io::Error| WorkloadError::Read { file: file.to_owned(), source };
    let mut bytes = Vec::new();
    File::open(file).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)).map_err(fault)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let message = format!("more than {FILE_BYTES_MAX} bytes; expected a workload file");
        return Err(fault(io::Error::new(ErrorKind::InvalidData, message)));
    }
    String::from_utf8(bytes).map_err(|error| fault(io::Error::new(ErrorKind::InvalidData, error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_replace_each_other() {
        let loops = |value: &str| [("loops".to_owned(), value.to_owned())];
        assert_eq!(with_settings("hackbench", &loops("40")), "hackbench:loops=40");
        assert_eq!(with_settings("hackbench:loops=2,groups=3", &loops("40")), "hackbench:groups=3,loops=40");
        assert_eq!(with_settings("a:b/x.toml:loops=2", &loops("4")), "a:b/x.toml:loops=4");
        assert_eq!(with_settings("hackbench", &[]), "hackbench");
        let (found, lengthen) = settings("hackbench:groups=3").unwrap();
        let value =
            |name: &str| found.iter().find(|found| found.param.name == name).map(|found| &found.value[..]);
        assert_eq!([value("groups"), value("loops"), value("none")], [Some("3"), Some("100"), None]);
        assert_eq!(lengthen, ["loops"]);
    }
}
