// SPDX-License-Identifier: GPL-2.0-or-later
//! The machines that wakelab knows by name: the files of `machines/`, built in. One of them, `host`, has costs only:
//! its topology is that of the machine that wakelab runs on.

use crate::base::Origin;
use crate::file::read_machine;
use crate::{Machine, MachineError};

/// Name of the machine whose topology is read from sysfs.
pub(crate) const HOST: &str = "host";

/// Names, descriptions and texts of `machines/*.toml`, sorted by name, `host` last.
const FILES: &[(&str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/machines.rs"));

/// Names and descriptions, in the same order.
const PRESETS: [(&str, &str); FILES.len()] = {
    let mut presets = [("", ""); FILES.len()];
    let mut i = 0;
    while i < presets.len() {
        presets[i] = (FILES[i].0, FILES[i].1);
        i += 1;
    }
    presets
};

/// Returns the names of the presets, each with a description of one line; sorted by name, `host` last.
pub fn presets() -> &'static [(&'static str, &'static str)] {
    &PRESETS
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _, _)| *name)
}

/// Returns the preset of this name; `None` for `host` and for unknown names.
pub(crate) fn built_in(name: &str) -> Option<Result<Machine, MachineError>> {
    let (_, _, text) = FILES.iter().find(|(known, _, _)| *known == name && name != HOST)?;
    Some(read_machine(text, name, &format!("machines/{name}.toml"), &Origin::default()))
}

/// File name and text of the costs of `host`.
pub(crate) fn host_costs() -> (&'static str, &'static str) {
    ("machines/host.toml", FILES[FILES.len() - 1].2)
}
