// SPDX-License-Identifier: GPL-2.0-only
//! The command line: the policy, the machine, and what to report.

use std::path::PathBuf;

use anyhow::Result;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Parser};
use wakelab_policy::PolicySpec;

use crate::MOST_CGROUPS;

const EXAMPLES: &str = "\
Examples:
  scx_wakelab                                   the policy wakelab, until Ctrl-C
  scx_wakelab --policy linux-6.12 --stats 5     another policy; prints what it decides every five seconds
  scx_wakelab --policy linux-6.12 --idle nearest --groups exact
                                                a policy with two axes overridden
  scx_wakelab --machine rack.toml --verbose     the machine from a file, where /sys hides clusters or caches
  scx_wakelab --monitor 5                       prints what the running scheduler decides every five seconds
  scx_wakelab --partial                         schedules only tasks of the class SCHED_EXT: chrt --ext 0 COMMAND";

/// Schedules this machine by a wakelab policy through sched_ext, until SIGINT; then Linux uses its own scheduler again.
#[derive(Parser)]
#[command(name = "scx_wakelab", version, disable_version_flag = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Policy: a named one, optionally with axes overridden, like `linux-4.15+idle=smt-balance`.
    #[arg(long, value_name = "SPEC", default_value = "wakelab")]
    policy: PolicySpec,
    #[command(flatten)]
    choices: Choices,
    /// Shortest time for which a task runs before another gets its turn. A longer slice means fewer switches and longer
    /// waits; one turn of all tasks of a CPU takes eight slices, as in Linux.
    #[arg(long, value_name = "MICROSECONDS", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    slice_us: Option<u64>,
    /// Take the topology from a machine file or preset instead of /sys; it must have this machine's CPUs.
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: Option<String>,
    /// Take the topology from the tree below this directory, which has the layout of /sys.
    #[arg(long, value_name = "FOLDER", default_value = "/sys", hide = true)]
    pub(crate) sysfs: PathBuf,
    /// Greatest number of cgroups to distinguish; the others count in their parents. 0 ignores cgroups. By default
    /// 1000 where there are cgroups with a CPU controller, twice as many each time that there are more, and 0 while
    /// there are none, which costs less.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(..=i64::from(MOST_CGROUPS)))]
    pub(crate) cgroups: Option<u32>,
    /// Schedule only tasks of the class SCHED_EXT; Linux's own scheduler keeps all others.
    #[arg(long)]
    pub(crate) partial: bool,
    /// Say how fast CPUs should run: as fast as they are utilized, or, with `off`, at full speed always. Only the
    /// governor schedutil listens; with `auto` it is told if a CPU has it.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) perf: Perf,
    /// Print every SECONDS what was decided and why. 0 only counts, for --monitor.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub(crate) stats: Option<u64>,
    /// Schedule nothing; print every SECONDS what the running scx_wakelab decided.
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(1..=86_400),
        conflicts_with_all = ["stats", "log", "partial", "list_policies"]
    )]
    pub(crate) monitor: Option<u64>,
    /// Format of --stats and --monitor: a table, or one line of JSON.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: Format,
    /// Explain each number that --stats prints.
    #[arg(long)]
    pub(crate) help_stats: bool,
    /// Write every decision, with everything that the policy read, to FILE; `wakelab verify FILE` checks it.
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Size of the buffer for records that are not written yet, in MiB (a power of two). A larger buffer loses fewer
    /// records.
    #[arg(long, value_name = "MIB", default_value = "32", value_parser = megabytes, requires = "log")]
    pub(crate) log_buffer: u32,
    /// For wake-ups of each task whose id N divides, log another CPU than the policy's answer; 0: never. Proves that
    /// verifying can fail.
    #[arg(long, value_name = "N", default_value_t = 0, hide = true)]
    pub(crate) log_fault: u32,
    /// Size of the kernel's dump after an error, in bytes; a larger dump has more tasks. 0 is the kernel's default.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) exit_dump_len: u32,
    /// Also print the machine's levels as the policy sees them, the verifier's work, and at the end whether all
    /// accounts balance.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Compare the policy with WHAT, for measurements (docs/results/live-bench.md).
    #[arg(long, value_name = "WHAT", hide = true)]
    pub(crate) bench: Option<Bench>,
    /// List the named policies, and enough others to have every value of every axis.
    #[arg(long)]
    pub(crate) list_policies: bool,
    /// Print the manual page of section 8 in roff, for packages.
    #[arg(long, hide = true)]
    pub(crate) man: bool,
    /// Misbehave, to test what follows (bpf/break.bpf.h); refused unless WAKELAB_ALLOW_BREAK is also set.
    #[arg(long = "break", value_name = "HOW", hide = true)]
    pub(crate) break_by: Option<Break>,
    /// Print the version.
    #[arg(long, short = 'V', action = clap::ArgAction::Version)]
    version: (),
}

/// When the governor is told how fast CPUs should run.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Perf {
    Auto,
    On,
    Off,
}

/// How statistics are printed.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Tables, for people.
    Text,
    /// One JSON object per line, as docs/schema/stats.schema.json describes it.
    Json,
}

/// What `cargo xtask vm bench` compares a policy with.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Bench {
    /// No policy: a scheduler without hooks, which costs what sched_ext itself costs.
    Empty,
    /// The kernel's default search for an idle CPU, at every other wake-up; prints the time that both took.
    Search,
}

/// Deliberate faults.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Break {
    /// Tasks named `stall-victim` are never queued, so that the kernel's watchdog must eject the scheduler.
    Stall,
    /// The first two tries to start find no memory for a task's record.
    FirstStarts,
    /// No try finds it.
    Starts,
}

impl Break {
    /// Does a start fail that was tried again this number of times before?
    pub(crate) fn fails_start(self, tries: u32) -> bool {
        self == Break::Starts || (self == Break::FirstStarts && tries < 2)
    }
}

impl Arguments {
    /// Returns the policy with the axes and the slice that have separate flags.
    pub(crate) fn spec(&self) -> Result<PolicySpec> {
        let mut spec = self.policy.clone();
        for (axis, value) in &self.choices.0 {
            spec = spec.with(axis, value)?;
        }
        if let Some(slice_us) = self.slice_us {
            spec.tunables.min_granularity_ns = Some(slice_us * 1000);
            spec.tunables.latency_ns = Some(8 * slice_us * 1000);
        }
        Ok(spec)
    }
}

/// `--idle nearest` and so on: a flag for each axis, as wakelab_policy lists them. Holds what was given, by axis.
struct Choices(Vec<(&'static str, String)>);

impl Args for Choices {
    fn augment_args(command: Command) -> Command {
        PolicySpec::axes().iter().fold(command, |command, axis| {
            let values =
                axis.values.iter().map(|value| PossibleValue::new(value.name).help(value.description));
            command.arg(
                Arg::new(axis.name)
                    .long(axis.name)
                    .value_name("VALUE")
                    .help(axis.description)
                    .help_heading("Axes that override the policy's")
                    .hide_possible_values(false)
                    .value_parser(PossibleValuesParser::new(values)),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Choices::augment_args(command)
    }
}

impl FromArgMatches for Choices {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Choices, clap::Error> {
        let given = |name: &'static str| -> Result<Option<(&'static str, String)>, clap::Error> {
            let value = matches
                .try_get_one::<String>(name)
                .map_err(|error| clap::Error::raw(ErrorKind::InvalidValue, error.to_string()))?;
            Ok(value.map(|value| (name, value.clone())))
        };
        let mut choices = Vec::new();
        for axis in PolicySpec::axes() {
            choices.extend(given(axis.name)?);
        }
        Ok(Choices(choices))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Choices::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Parses the size of a ring buffer: a power of two.
fn megabytes(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(number @ 1..=1024u32) if number.is_power_of_two() => Ok(number),
        _ => Err(format!("`{text}`: expected a power of two from 1 to 1024")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(arguments: &[&str]) -> String {
        let arguments = ["scx_wakelab"].iter().chain(arguments);
        Arguments::try_parse_from(arguments).unwrap().spec().unwrap().to_string()
    }

    /// Read with the types with which scx_loader reads it.
    #[test]
    fn the_modes_of_scx_loader_are_flags_of_ours_and_differ() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/service/scx_loader.toml");
        let config = scx_loader::config::parse_config_file(file).unwrap();
        assert_eq!(config.scheds.len(), 1);
        let ours = &config.scheds["scx_wakelab"];
        let modes = [
            &ours.auto_mode,
            &ours.gaming_mode,
            &ours.lowlatency_mode,
            &ours.powersave_mode,
            &ours.server_mode,
        ];
        let specs = modes.map(|flags| {
            let flags = flags.as_ref().expect("flags for each mode");
            spec(&flags.iter().map(String::as_str).collect::<Vec<_>>())
        });
        let [auto, gaming, low_latency, power_save, server] = &specs;
        assert_eq!([auto, server], ["wakelab", "wakelab"]);
        let different = std::collections::BTreeSet::from([auto, gaming, low_latency, power_save]);
        assert_eq!(different.len(), 4, "{specs:?}");
        // If this fails, scx_loader knows us: the file and docs/design/live-open.md say otherwise.
        assert!(scx_loader::SupportedSched::try_from("scx_wakelab").is_err());
    }

    #[test]
    fn every_axis_has_a_flag_that_overrides_the_policy() {
        assert_eq!(spec(&[]), "wakelab");
        for axis in PolicySpec::axes() {
            for value in axis.values {
                let flag = format!("--{}", axis.name);
                let same: PolicySpec = format!("wakelab+{}={}", axis.name, value.name).parse().unwrap();
                assert_eq!(spec(&[&flag, value.name]), same.to_string());
            }
        }
        // The flag wins over the policy.
        assert_eq!(
            spec(&["--policy", "linux-4.15+idle=scan", "--idle", "nearest"]),
            "linux-4.15+idle=nearest"
        );
    }

    #[test]
    fn a_slice_is_an_eighth_of_a_turn() {
        assert_eq!(spec(&["--slice-us", "500"]), "wakelab+latency-ns=4000000+min-granularity-ns=500000");
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_choices() {
        let error = |arguments: &[&str]| {
            let arguments = ["scx_wakelab"].iter().chain(arguments);
            let Err(error) = Arguments::try_parse_from(arguments) else { panic!("accepted") };
            assert_eq!(error.exit_code(), 2);
            error.to_string()
        };
        let text = error(&["--groups", "equal"]);
        assert!(text.contains("task-weight, shares, load, queues, exact"), "{text}");
        let text = error(&["--monitor", "0"]);
        assert!(text.contains("1..=86400"), "{text}");
        let text = error(&["--monitor", "1", "--stats", "1"]);
        assert!(text.contains("cannot be used with"), "{text}");
        let text = error(&["--cgroups", "4096"]);
        assert!(text.contains("0..4096") || text.contains("4095"), "{text}");
    }

    #[test]
    fn the_configurations_that_are_shipped_are_understood() {
        let unit = include_str!("../service/scx_wakelab.service");
        assert!(unit.contains("EnvironmentFile=-/etc/default/scx_wakelab"));
        let mut found = 0;
        let defaults = include_str!("../service/scx_wakelab.default");
        for line in defaults
            .lines()
            .filter_map(|line| line.trim_start_matches('#').strip_prefix("SCX_WAKELAB_FLAGS="))
        {
            let words = line.trim_matches('"').split_whitespace();
            Arguments::try_parse_from(std::iter::once("scx_wakelab").chain(words)).unwrap().spec().unwrap();
            found += 1;
        }
        // `auto_mode = ["--policy", "wakelab"]`
        let modes = include_str!("../service/scx_loader.toml");
        for line in modes.lines().filter(|line| line.contains("_mode = [")) {
            let words = line.split('"').skip(1).step_by(2);
            Arguments::try_parse_from(std::iter::once("scx_wakelab").chain(words)).unwrap().spec().unwrap();
            found += 1;
        }
        assert!(found >= 6, "{found}");
    }

    #[test]
    fn a_buffer_is_a_power_of_two() {
        assert_eq!(megabytes("64"), Ok(64));
        assert_eq!(megabytes("48"), Err("`48`: expected a power of two from 1 to 1024".to_owned()));
        assert!(megabytes("2048").is_err() && megabytes("x").is_err());
    }
}
