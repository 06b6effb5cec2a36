// SPDX-License-Identifier: GPL-2.0-or-later
//! The machines that wakelab knows by name: the files of `machines/`, built in, and the machine it runs on.

use crate::file::read_machine;
use crate::{Machine, MachineError};

/// Name of the machine that is read from sysfs.
pub(crate) const HOST: &str = "host";

/// Names and descriptions, in the order in which they are listed; `host` is last.
const PRESETS: [(&str, &str); 11] = [
    ("xeon-2s22c2t", "88 CPUs: 2 sockets x 22 cores x 2 threads, LLC per socket; Xeon E5-2699 v4"),
    ("xeon-x5650-2s", "12 CPUs: 2 sockets x 6 cores, SMT off (assumed), LLC per socket; Xeon X5650"),
    ("power9-2s22c4t", "176 CPUs: 2 sockets x 22 cores x 4 threads, LLC per pair of cores (8 CPUs); POWER9"),
    (
        "kunpeng920-1n24c",
        "24 CPUs: 1 node x 24 cores in clusters of 4, one LLC; a quarter of kunpeng920-4n96c",
    ),
    (
        "kunpeng920-4n96c",
        "96 CPUs: 2 sockets x 2 nodes x 24 cores in clusters of 4, LLC per node; Kunpeng 920",
    ),
    ("epyc-7742-2s", "256 CPUs: 2 sockets x 64 cores x 2 threads, LLC per 4 cores (8 CPUs); EPYC 7742"),
    ("epyc-9654-2s", "384 CPUs: 2 sockets x 96 cores x 2 threads, LLC per 8 cores (16 CPUs); EPYC 9654"),
    ("smp-8", "8 CPUs: 1 socket x 8 cores, no SMT, one LLC; desktop class"),
    ("smp-2", "2 CPUs: 1 socket x 2 cores, no SMT, one LLC; the smallest machine that balances"),
    ("snapdragon-865", "8 CPUs: 4 little + 3 big + 1 prime cores, no SMT, one LLC; Snapdragon 865"),
    (HOST, "the machine that wakelab runs on, from sysfs; its costs are estimates"),
];

/// `machines/NAME.toml`.
const FILES: [(&str, &str); 10] = [
    ("xeon-2s22c2t", include_str!("../../../machines/xeon-2s22c2t.toml")),
    ("xeon-x5650-2s", include_str!("../../../machines/xeon-x5650-2s.toml")),
    ("power9-2s22c4t", include_str!("../../../machines/power9-2s22c4t.toml")),
    ("kunpeng920-1n24c", include_str!("../../../machines/kunpeng920-1n24c.toml")),
    ("kunpeng920-4n96c", include_str!("../../../machines/kunpeng920-4n96c.toml")),
    ("epyc-7742-2s", include_str!("../../../machines/epyc-7742-2s.toml")),
    ("epyc-9654-2s", include_str!("../../../machines/epyc-9654-2s.toml")),
    ("smp-8", include_str!("../../../machines/smp-8.toml")),
    ("smp-2", include_str!("../../../machines/smp-2.toml")),
    ("snapdragon-865", include_str!("../../../machines/snapdragon-865.toml")),
];

/// Costs of `host`, file name first.
pub(crate) const HOST_COSTS: (&str, &str) =
    ("machines/host-costs.toml", include_str!("../../../machines/host-costs.toml"));

/// The machines known by name, each with a line for people. `host` is one of them.
pub fn presets() -> &'static [(&'static str, &'static str)] {
    &PRESETS
}

/// The preset of this name, `host` excepted; `None` if there is none.
pub(crate) fn built_in(name: &str) -> Option<Result<Machine, MachineError>> {
    let (_, text) = FILES.iter().find(|(known, _)| *known == name)?;
    Some(read_machine(text, name, &format!("machines/{name}.toml")))
}
