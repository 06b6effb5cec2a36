// SPDX-License-Identifier: GPL-2.0-or-later
//! What the kernel counts while the command runs: perf events of its tasks, and the time that all tasks wait for CPUs.
//!
//! perf events (perf_event_open(2)) are opened on this thread as disabled, inherited, and enabled by exec. So they
//! count the command and all its descendants from its exec on, and do not count this process. The thread that starts
//! the command opens them just before.
//!
//! `sched_waking` fires in the waker, so that it counts the wake-ups that the command's tasks made. The run-queue wait
//! is the eighth number of each CPU's line of /proc/schedstat (Documentation/scheduler/sched-stats.rst), over all tasks
//! on the machine: the time from being runnable to running. The kernel's core keeps it, both under its own scheduler
//! and under sched_ext.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use perf_event::events::{Event, Hardware, Software, Tracepoint};
use perf_event::{Builder, Counter};

use crate::runs::MissingMetric;

/// What was counted during one run; `None` means not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counted {
    pub(crate) migrations: Option<f64>,
    pub(crate) wakeups: Option<f64>,
    pub(crate) runqueue_wait_ns: Option<f64>,
    pub(crate) runqueue_switches: Option<f64>,
    pub(crate) cycles: Option<f64>,
    pub(crate) instructions: Option<f64>,
    pub(crate) cache_references: Option<f64>,
    pub(crate) cache_misses: Option<f64>,
}

/// Where the kernel shows its counters.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    pub(crate) schedstat: PathBuf,
    /// The folder of tracepoint sched_waking.
    pub(crate) waking: PathBuf,
}

impl Default for Sources {
    fn default() -> Sources {
        Sources {
            schedstat: "/proc/schedstat".into(),
            waking: "/sys/kernel/tracing/events/sched/sched_waking".into(),
        }
    }
}

/// Counters around one run.
pub(crate) struct Counters {
    migrations: io::Result<Counter>,
    wakeups: io::Result<Counter>,
    cycles: io::Result<Counter>,
    instructions: io::Result<Counter>,
    cache_references: io::Result<Counter>,
    cache_misses: io::Result<Counter>,
    schedstat_path: PathBuf,
    schedstat: io::Result<Schedstat>,
}

impl Counters {
    /// Opens counters for the next program that this thread starts.
    pub(crate) fn start(sources: &Sources) -> Counters {
        Counters {
            migrations: open(Software::CPU_MIGRATIONS),
            wakeups: tracepoint(&sources.waking).and_then(open),
            cycles: open(Hardware::CPU_CYCLES),
            instructions: open(Hardware::INSTRUCTIONS),
            cache_references: open(Hardware::CACHE_REFERENCES),
            cache_misses: open(Hardware::CACHE_MISSES),
            schedstat_path: sources.schedstat.clone(),
            // Last, because it counts all tasks, and the opening of the others must not count.
            schedstat: Schedstat::read(&sources.schedstat),
        }
    }

    /// Returns what has been counted since the start.
    pub(crate) fn finish(self) -> Counted {
        let waited = self.schedstat.ok().and_then(|before| {
            let after = Schedstat::read(&self.schedstat_path).ok()?;
            Some((after.wait_ns.checked_sub(before.wait_ns)?, after.switches.checked_sub(before.switches)?))
        });
        Counted {
            migrations: value(self.migrations),
            wakeups: value(self.wakeups),
            runqueue_wait_ns: waited.map(|(wait_ns, _)| wait_ns as f64),
            runqueue_switches: waited.map(|(_, switches)| switches as f64),
            cycles: value(self.cycles),
            instructions: value(self.instructions),
            cache_references: value(self.cache_references),
            cache_misses: value(self.cache_misses),
        }
    }

    /// Returns what this machine does not count, and why.
    pub(crate) fn missing(&self) -> Vec<MissingMetric> {
        let of = |name, error: &io::Error| MissingMetric { name, why: words(error) };
        let counters = [
            ("migrations", &self.migrations),
            ("wakeups", &self.wakeups),
            ("cycles", &self.cycles),
            ("instructions", &self.instructions),
            ("cache_references", &self.cache_references),
            ("cache_misses", &self.cache_misses),
        ];
        let mut missing: Vec<MissingMetric> = counters
            .into_iter()
            .filter_map(|(name, counter)| counter.as_ref().err().map(|error| of(name, error)))
            .collect();
        if let Err(error) = &self.schedstat {
            let path = self.schedstat_path.display();
            let why = match error.kind() {
                ErrorKind::NotFound => format!("no {path}: a kernel without CONFIG_SCHEDSTATS"),
                _ => format!("{path}: {error}"),
            };
            missing.push(MissingMetric { name: "runqueue_wait_ns", why });
        }
        missing
    }
}

fn open(event: impl Event) -> io::Result<Counter> {
    Builder::new(event)
        .include_kernel()
        .include_hv()
        .inherit(true)
        .enabled(false)
        .enable_on_exec(true)
        .build()
}

fn tracepoint(folder: &Path) -> io::Result<Tracepoint> {
    let path = folder.join("id");
    let text = fs::read_to_string(&path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    let id = text
        .trim()
        .parse()
        .map_err(|_| io::Error::other(format!("{}: expected a number", path.display())))?;
    Ok(Tracepoint::with_id(id))
}

/// Returns the count. A counter that shared its register with others is scaled to the whole time.
fn value(counter: io::Result<Counter>) -> Option<f64> {
    let data = counter.ok()?.read_full().ok()?;
    let (enabled, running) = (data.time_enabled()?, data.time_running()?);
    if enabled.is_zero() {
        // Never enabled, because the command never reached its exec.
        return None;
    }
    (!running.is_zero()).then(|| data.count() as f64 * (enabled.as_secs_f64() / running.as_secs_f64()))
}

/// Returns an error of perf_event_open(2) in words.
fn words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(nix::libc::ENOENT | nix::libc::EOPNOTSUPP | nix::libc::ENODEV) => {
            "this machine has no such counter".to_owned()
        }
        Some(nix::libc::EACCES | nix::libc::EPERM) => {
            "not permitted: run as root, or lower /proc/sys/kernel/perf_event_paranoid".to_owned()
        }
        Some(nix::libc::ENOSYS) => "a kernel without CONFIG_PERF_EVENTS".to_owned(),
        _ => error.to_string(),
    }
}

/// Sums over all CPUs of /proc/schedstat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Schedstat {
    wait_ns: u64,
    switches: u64,
}

impl Schedstat {
    fn read(path: &Path) -> io::Result<Schedstat> {
        let text = fs::read_to_string(path)?;
        Schedstat::parse(&text).ok_or_else(|| io::Error::other("expected a line `cpuN` with nine numbers"))
    }

    /// Reads lines of `cpuN` and nine numbers; the last three are time running, time waiting, and time slices.
    fn parse(text: &str) -> Option<Schedstat> {
        let mut sum: Option<Schedstat> = None;
        for line in text.lines().filter(|line| line.starts_with("cpu")) {
            let numbers: Option<Vec<u64>> =
                line.split_whitespace().skip(1).map(|word| word.parse().ok()).collect();
            let &[.., _running, wait_ns, switches] = numbers?.as_slice() else { return None };
            let so_far = sum.unwrap_or(Schedstat { wait_ns: 0, switches: 0 });
            sum = Some(Schedstat {
                wait_ns: so_far.wait_ns.checked_add(wait_ns)?,
                switches: so_far.switches.checked_add(switches)?,
            });
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_by_hand() {
        // Version 15's shape; domain lines have a mask first.
        let text = "version 15\ntimestamp 4294937296\ncpu0 0 0 0 0 0 0 1000 70 5\ndomain0 3 1 2 3\n\
                    cpu1 0 0 7 0 0 0 2000 30 6\n";
        assert_eq!(Schedstat::parse(text), Some(Schedstat { wait_ns: 100, switches: 11 }));
        assert_eq!(Schedstat::parse("version 15\n"), None);
        assert_eq!(Schedstat::parse("cpu0 1 x 3 4 5 6 7 8 9\n"), None);
        assert_eq!(Schedstat::parse("cpu0 1 2\n"), None);
    }

    #[test]
    fn what_is_missing_is_said() {
        let sources = Sources { schedstat: "/no/schedstat".into(), waking: "/no/tracefs".into() };
        let missing = Counters::start(&sources).missing();
        let why =
            |name| missing.iter().find(|missing| missing.name == name).map(|missing| missing.why.as_str());
        assert_eq!(why("runqueue_wait_ns"), Some("no /no/schedstat: a kernel without CONFIG_SCHEDSTATS"));
        assert!(why("wakeups").is_some_and(|why| why.starts_with("/no/tracefs/id: ")), "{missing:?}");
    }

    /// Where migrations can be counted, those of a command that moves itself are: taskset to one CPU, then to another.
    #[test]
    fn migrations_of_the_command_and_its_children() {
        let counters = Counters::start(&Sources::default());
        if counters.missing().iter().any(|missing| missing.name == "migrations") {
            return;
        }
        let allowed = fs::read_to_string("/proc/self/status").unwrap();
        let list = allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
        let cpus: Vec<&str> = list.split([',', '-']).collect();
        let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
        let script = format!(
            "for i in 1 2 3; do taskset -pc {first} $$; taskset -pc {last} $$; done; taskset -c {first} taskset -c {last} true"
        );
        let status = std::process::Command::new("sh").args(["-c", &script]).output().unwrap().status;
        let counted = counters.finish();
        if !status.success() || first == last {
            return;
        }
        // The shell itself was moved at least five times: before the first move it may have been there already.
        assert!(counted.migrations >= Some(5.0), "{counted:?}");
    }
}
