// SPDX-License-Identifier: GPL-2.0-or-later
//! The machines that wakelab knows by name: the files of `machines/`, built in, and the machine it runs on.

use crate::file::read_machine;
use crate::{Machine, MachineError};

/// Name of the machine that is read from sysfs.
pub(crate) const HOST: &str = "host";

/// Names and descriptions, in the order in which they are listed; `host` is last.
const PRESETS: [(&str, &str); 2] = [
    ("smp-8", "8 CPUs: 1 socket x 8 cores, no SMT, one LLC; desktop class"),
    (HOST, "the machine that wakelab runs on, from sysfs; its costs are estimates"),
];

/// `machines/NAME.toml`.
const FILES: [(&str, &str); 1] = [("smp-8", include_str!("../../../machines/smp-8.toml"))];

/// The machines known by name, each with a line for people. `host` is one of them.
pub fn presets() -> &'static [(&'static str, &'static str)] {
    &PRESETS
}

/// The preset of this name, `host` excepted; `None` if there is none.
pub(crate) fn built_in(name: &str) -> Option<Result<Machine, MachineError>> {
    let (_, text) = FILES.iter().find(|(known, _)| *known == name)?;
    Some(read_machine(text, name, &format!("machines/{name}.toml")))
}
