// SPDX-License-Identifier: GPL-2.0-or-later
//! The machines that wakelab knows by name: the files of `machines/`, built in. One of them, `host`, has costs only:
//! its topology is that of the machine that wakelab runs on.

use crate::file::read_machine;
use crate::{Machine, MachineError};

/// Name of the machine that is read from sysfs.
pub(crate) const HOST: &str = "host";

/// Names, descriptions and texts of `machines/*.toml`, sorted by name, `host` last.
const FILES: &[(&str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/machines.rs"));

/// Names and descriptions.
const PRESETS: [(&str, &str); FILES.len()] = {
    let mut presets = [("", ""); FILES.len()];
    let mut i = 0;
    while i < presets.len() {
        presets[i] = (FILES[i].0, FILES[i].1);
        i += 1;
    }
    presets
};

/// The machines known by name, each with a line for people; sorted by name, `host` last.
pub fn presets() -> &'static [(&'static str, &'static str)] {
    &PRESETS
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _, _)| *name)
}

/// The preset of this name, `host` excepted; `None` if there is none.
pub(crate) fn built_in(name: &str) -> Option<Result<Machine, MachineError>> {
    let (_, _, text) = FILES.iter().find(|(known, _, _)| *known == name && name != HOST)?;
    Some(read_machine(text, name, &format!("machines/{name}.toml")))
}

/// File name and text of the costs of `host`.
pub(crate) fn host_costs() -> (&'static str, &'static str) {
    ("machines/host.toml", FILES[FILES.len() - 1].2)
}
