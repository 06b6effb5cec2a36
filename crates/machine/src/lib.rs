// SPDX-License-Identifier: GPL-2.0-or-later
//! What a machine is: CPUs, what they share, and what things cost.

mod base;
mod check;
mod cold;
mod core_cache;
mod costs;
mod costs_file;
mod counts;
mod cpulist;
mod error;
mod exits;
mod file;
mod host;
mod hwloc;
mod mix;
mod nearest;
mod parts;
mod presets;
mod printable;
mod sensitivity;
mod shape;
mod show;
mod term;
mod topology;
mod uncertain;
mod what_if;
mod write;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use base::Origin;
use serde::{Deserialize, Serialize};

pub use cold::{COLD_WORK_NS, Cold};
pub use core_cache::CoreCache;
pub use costs::{Bandwidth, Costs, IdleState, MAX_COLD_PERCENT};
pub use cpulist::{format as cpu_list, parse as parse_cpu_list};
pub use error::MachineError;
pub use exits::{EXIT_DRAWS, ExitSpread, NR_PERCENTILES, at_percentiles};
pub use host::OnlineCpus;
pub use nearest::nearest;
pub use presets::presets;
pub use printable::{printable, printable_lines};
pub use sensitivity::Estimate;
pub use show::CostRow;
pub use term::Term;
pub use topology::{Cpu, Distance, Distances, MAX_CPUS, Topology};
pub use uncertain::{RangeRule, Uncertain, between};
pub use what_if::CostChange;

/// A machine as the simulator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Preset name, or the file's stem.
    pub name: String,
    /// Description of one line.
    pub description: String,
    /// CPUs and nodes.
    pub topology: Topology,
    /// What things cost.
    pub costs: Costs,
    /// Where each figure of `costs` is from, by its key in the file. A figure without a source is an `estimate`.
    pub sources: BTreeMap<String, String>,
    /// The range that the file gives of a figure, by its key, or of a part of a table, by `KEY.PART`. Other figures
    /// have a range by rule ([`Machine::uncertain`]).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ranges: BTreeMap<String, [u64; 2]>,
}

/// The largest N of `MACHINE*N`.
const TIMES_MAX: u32 = 1024;
/// Largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

impl Machine {
    /// Loads the machine that a user names: by a preset's name, by `host`, or by the path of a machine file or of
    /// hwloc's XML. `NAME*N` is [`Machine::times`], and `NAME@pack:2 core:8` has another shape (shape.rs).
    pub fn load(name_or_path: &str) -> Result<Machine, MachineError> {
        if let (name, Some(times)) = Machine::split_times(name_or_path)? {
            return Machine::load(name)?.times(times);
        }
        if let Some((base, shape)) = shape::split(name_or_path) {
            return shape::machine(&Machine::load(base)?, shape);
        }
        if presets().iter().any(|(name, _)| *name == name_or_path) {
            return Machine::preset(name_or_path);
        }
        let path = Path::new(name_or_path);
        let is_path =
            path.extension().is_some_and(|e| e == "toml" || e == "xml") || path.components().count() > 1;
        if !is_path && !path.is_file() {
            return Err(unknown(name_or_path));
        }
        let text = read_text(name_or_path)?;
        // No TOML begins with `<`.
        if text.trim_start_matches('\u{feff}').trim_start().starts_with('<')
            || path.extension().is_some_and(|e| e == "xml")
        {
            return Machine::from_hwloc(&text, name_or_path);
        }
        file::read_machine(&text, &stem(name_or_path), name_or_path, &Origin::file(path, None))
    }

    /// Returns the machine that [`presets`] lists under this name; `host` reads `/sys`.
    pub fn preset(name: &str) -> Result<Machine, MachineError> {
        if name == presets::HOST {
            return Machine::from_sysfs(Path::new("/sys"));
        }
        presets::built_in(name).unwrap_or_else(|| Err(unknown(name)))
    }

    /// Splits `NAME*N` into the name and the number. A name without a number stays whole, and so does the path of a
    /// file.
    ///
    /// # Errors
    /// Something else than a number from 1 to 1,024 behind the star.
    pub fn split_times(name: &str) -> Result<(&str, Option<u32>), MachineError> {
        let Some((base, times)) = name.rsplit_once('*').filter(|_| !Path::new(name).is_file()) else {
            return Ok((name, None));
        };
        let times = times.parse().ok().filter(|times| (1..=TIMES_MAX).contains(times));
        times.map(|times| (base, Some(times))).ok_or_else(|| MachineError::Invalid {
            what: format!("{name}: what follows the star is no number from 1 to {TIMES_MAX}"),
            expected: "MACHINE*N, such as host*2".to_owned(),
        })
    }

    /// Returns a machine with `times` times as many cores in each LLC, at the same costs: its first CPUs are those of
    /// this machine, and each further round has the next cores.
    ///
    /// # Errors
    /// More than [`MAX_CPUS`] CPUs.
    pub fn times(&self, times: u32) -> Result<Machine, MachineError> {
        let next = |id: fn(&Cpu) -> Option<u32>| {
            self.topology.cpus.iter().filter_map(id).max().map_or(0, |highest| highest + 1)
        };
        let (cores, clusters) = (next(|cpu| Some(cpu.core)), next(|cpu| cpu.cluster));
        let round = |round: u32| {
            self.topology.cpus.iter().map(move |cpu| Cpu {
                core: cpu.core + round * cores,
                cluster: cpu.cluster.map(|cluster| cluster + round * clusters),
                ..*cpu
            })
        };
        let topology = Topology { cpus: (0..times).flat_map(round).collect(), ..self.topology.clone() };
        topology.check()?;
        let description = format!("{times} times as many cores in each LLC as {}", self.name);
        Ok(Machine { name: format!("{}*{times}", self.name), description, topology, ..self.clone() })
    }

    /// Reads the machine whose sysfs is mounted at `root`, with generic costs.
    pub fn from_sysfs(root: &Path) -> Result<Machine, MachineError> {
        host::read_host(root)
    }

    /// Reads the text of a machine file (format: machines/README.md). Messages name `file_name`, and its stem becomes
    /// the machine's name. The costs may have a preset as their base, but no file: [`Machine::load`] reads those.
    pub fn from_toml(text: &str, file_name: &str) -> Result<Machine, MachineError> {
        file::read_machine(text, &stem(file_name), file_name, &Origin::default())
    }

    /// Reads the text of what `lstopo --of xml` writes (hwloc 1 and 2), with generic costs. `file_name` is used as in
    /// [`Machine::from_toml`].
    pub fn from_hwloc(text: &str, file_name: &str) -> Result<Machine, MachineError> {
        hwloc::read_hwloc(text, &stem(file_name), file_name)
    }

    /// Refuses an impossible machine. Machines from files and presets are checked already, deserialised ones are not.
    pub fn check(&self) -> Result<(), MachineError> {
        check::check_topology(&self.topology)?;
        Ok(check::check_costs(&self.topology, &self.costs)?)
    }
}

/// A file's name without folder and extension.
fn stem(file_name: &str) -> String {
    Path::new(file_name).file_stem().map_or(file_name.into(), |stem| stem.to_string_lossy().into_owned())
}

/// The text of a machine file.
fn read_text(file: &str) -> Result<String, MachineError> {
    let fault = |reason: String| MachineError::Read { file: file.to_owned(), reason };
    let mut bytes = Vec::new();
    let opened = File::open(file).and_then(|f| f.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
    opened.map_err(|e| fault(e.to_string()))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(fault(format!("more than {MAX_FILE_BYTES} bytes; expected a machine file")));
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        MachineError::File {
            file: file.to_owned(),
            line: 1 + e.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count(),
            what: format!("byte {at} is not UTF-8"),
            expected: "a text file, in TOML or hwloc's XML".into(),
        }
    })
}

fn unknown(name: &str) -> MachineError {
    let known: Vec<&str> = presets().iter().map(|(name, _)| *name).collect();
    MachineError::Unknown { name: name.to_owned(), known: known.join(", ") }
}
