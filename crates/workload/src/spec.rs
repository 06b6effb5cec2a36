// SPDX-License-Identifier: GPL-2.0-or-later
//! `NAME[:key=value,...]`: from what a user types to a [`Workload`].

use std::path::Path;

use crate::error::{WorkloadError, list};
use crate::file::{Description, WorkloadFile};
use crate::program::Workload;

/// The workloads that come with wakelab: name and file.
const PRESETS: [(&str, &str); 14] = [
    ("hackbench", include_str!("../../../workloads/hackbench.toml")),
    ("kernbench", include_str!("../../../workloads/kernbench.toml")),
    ("lock-server", include_str!("../../../workloads/lock-server.toml")),
    ("oltp", include_str!("../../../workloads/oltp.toml")),
    ("openmp", include_str!("../../../workloads/openmp.toml")),
    ("pbzip2", include_str!("../../../workloads/pbzip2.toml")),
    ("pgbench", include_str!("../../../workloads/pgbench.toml")),
    ("pingpong", include_str!("../../../workloads/pingpong.toml")),
    ("pixz", include_str!("../../../workloads/pixz.toml")),
    ("schbench", include_str!("../../../workloads/schbench.toml")),
    ("spin", include_str!("../../../workloads/spin.toml")),
    ("spin-groups", include_str!("../../../workloads/spin-groups.toml")),
    ("stream", include_str!("../../../workloads/stream.toml")),
    ("uperf", include_str!("../../../workloads/uperf.toml")),
];

/// Names of the workloads that come with wakelab.
pub fn presets() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// What a workload is and what can be set; `name` is a preset or the path of a `.toml` file.
///
/// # Errors
/// No such preset or file, or a file that is wrong.
pub fn describe(name: &str) -> Result<Description, WorkloadError> {
    Ok(open(name, name)?.description().clone())
}

impl Workload {
    /// The workload that a spec names: `hackbench`, `hackbench:groups=16,ipc=pipe`, `dir/mine.toml:tasks=3`.
    ///
    /// # Errors
    /// No such preset or file, a file that is wrong (with line and column), unknown parameters (the error lists those
    /// that exist), values that are not allowed.
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

/// Name and settings. A path may contain colons before its `.toml`.
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
        let text = std::fs::read_to_string(Path::new(name))
            .map_err(|source| WorkloadError::Read { file: name.to_owned(), source })?;
        return WorkloadFile::parse(name, &text);
    }
    match PRESETS.iter().find(|(preset, _)| *preset == name) {
        Some((_, text)) => WorkloadFile::parse(&format!("workloads/{name}.toml"), text),
        None => Err(WorkloadError::Spec {
            spec: spec.to_owned(),
            message: format!(
                "no workload '{name}'; there are {}, or the path of a .toml file",
                list(presets())
            ),
        }),
    }
}
