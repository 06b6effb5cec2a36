// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab machines host --measure`, and the files of other tools that measure machines.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use wakelab_machine::{Machine, MachineError, cpu_list, presets};
use wakelab_measure::{Figures, MeasureError, Progress, core_to_core, machine_file, measure, wult};
use wakelab_report::{list, measured_text};

use crate::args::MachineFormat;
use crate::error::bad_input;
use crate::progress::Bar;
use crate::{input, print};

/// The machine that can be measured.
const HOST: &str = "host";

#[derive(Args)]
#[group(id = "of_measure", args = ["measure", "core_to_core", "wult"], multiple = true, requires = "name")]
pub(crate) struct MeasureArgs {
    /// Measure this machine, which NAME must be (`host`), as a user: cache lines, hand-overs, interrupts, exits from
    /// idle, threads of a core, memory. --format toml writes a machine file, with a range of each figure
    #[arg(long)]
    measure: bool,
    /// About how long to measure; the more CPUs, the more there is to measure
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400), requires = "measure")]
    budget_s: u32,
    /// Take cache line transfers from what core-to-core-latency --csv printed
    #[arg(long, value_name = "FILE", conflicts_with = "sensitivity")]
    core_to_core: Option<PathBuf>,
    /// Take exits from idle states from wult's datapoints.csv
    #[arg(long, value_name = "FILE", conflicts_with = "sensitivity")]
    wult: Option<PathBuf>,
    /// Machine that the other costs come from: a name from `wakelab machines` [default: NAME, or `host` if that is a
    /// file]
    #[arg(long, value_name = "NAME", requires = "of_measure")]
    base: Option<String>,
}

impl MeasureArgs {
    /// Whether there is something to measure or to read.
    pub(crate) fn is_asked(&self) -> bool {
        self.measure || self.core_to_core.is_some() || self.wult.is_some()
    }
}

/// A bar of steps.
struct Steps(Bar);

impl Progress for Steps {
    fn begin(&self, steps: usize) {
        wakelab_lab::Progress::begin(&self.0, steps);
    }

    fn step_done(&self) {
        wakelab_lab::Progress::run_done(&self.0);
    }

    fn end(&self) {
        wakelab_lab::Progress::end(&self.0);
    }
}

/// Measures, reads, and prints what was found, or the machine file.
pub(crate) fn run(args: &MeasureArgs, name: &str, format: MachineFormat) -> Result<()> {
    if args.measure && name != HOST {
        return Err(bad_input(format!("--measure measures this machine; expected `{HOST}`, not `{name}`")));
    }
    let known = presets().iter().any(|(preset, _)| *preset == name);
    let base = args.base.as_deref().unwrap_or(if known { name } else { HOST });
    let machine = input::machine(name, &[])?;
    let machine = with_base(&machine, base)?;
    // A wrong file is found before anything is measured.
    let mut read = Vec::new();
    if let Some(path) = &args.core_to_core {
        read.push(
            core_to_core(&text(path)?, &path.display().to_string(), &machine.topology).map_err(bad_input)?,
        );
    }
    if let Some(path) = &args.wult {
        read.push(wult(&text(path)?, &path.display().to_string()).map_err(bad_input)?);
    }
    let mut figures = Figures::default();
    if args.measure {
        let bar = Steps(Bar::with("{bar:40} {pos}/{len} steps, {eta} left"));
        figures = measure(&machine, Duration::from_secs(args.budget_s.into()), &bar)?;
    }
    read.into_iter().for_each(|read| figures.replace(read));
    let description = description(&machine);
    let file = machine_file(&machine, base, &description, &figures);
    // What is printed is a machine in any format.
    Machine::from_toml(&file, "the measured machine").map_err(MeasureError::Machine)?;
    match format {
        MachineFormat::Toml => print::text(&file),
        MachineFormat::Json => print::json(&list::measured(name, base, &figures)),
        MachineFormat::Text => {
            print::text(&format!("{description}\n\n{}", measured_text(&figures, base, &print::style())))
        }
    }
}

/// The machine with the costs of a preset.
fn with_base(machine: &Machine, base: &str) -> Result<Machine> {
    Machine::preset(base).map_err(|error| bad_input(format!("--base: {error}")))?;
    let file = machine_file(machine, base, &machine.description, &Figures::default());
    let based = Machine::from_toml(&file, machine.name.as_str());
    let based =
        based.map_err(|error| bad_input(format!("--base {base} does not fit this machine: {error}")))?;
    Ok(Machine { name: machine.name.clone(), ..based })
}

fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| {
        bad_input(MachineError::Read { file: path.display().to_string(), reason: error.to_string() })
    })
}

/// The CPUs of a machine, and of this one the processor's name.
fn description(machine: &Machine) -> String {
    let cpus: Vec<u32> = (0..machine.topology.nr_cpus() as u32).collect();
    let mut text = format!("CPUs {}", cpu_list(&cpus));
    if machine.name == HOST {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        if let Some((_, model)) = model {
            text.push_str(&format!(" of {}", model.trim()));
        }
    } else {
        text.push_str(&format!(" of {}", machine.name));
    }
    text.push_str(", measured; what is not is an estimate from the base");
    text
}
