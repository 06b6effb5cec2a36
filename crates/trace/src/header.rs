// SPDX-License-Identifier: GPL-2.0-or-later
//! What `wakelab record` writes above the events: comments of the form `# wakelab-KEY: VALUE`, a line for each fact.
//!
//! `# os release : 6.18.44`, of `perf script --header`, tells the kernel, too.
//!
//! perf and every other reader of its text skip them. A reader of wakelab's keeps what it uses, and skips keys that it
//! does not know, so that later versions can add some:
//! ```text
//!     # wakelab-record: wakelab 0.1.0, perf version 6.1.187        the first line, which also tells the format
//!     # wakelab-kernel: 6.18.44
//!     # wakelab-boot-options: console=ttyS0 quiet
//!     # wakelab-command: hackbench -g 2
//!     # wakelab-command-pid: 18375                               the task that the command began as
//!     # wakelab-service: hackbench                               a name of tasks that the recording is about
//!     # wakelab-machine: description = "2 CPUs"                    a line of a machine file
//!     # wakelab-recorder: 18373,18374                              the tasks that recorded
//!     # wakelab-event-cost-ns: 310
//!     # wakelab-wake: kind=local idle-ns=0 ..                    what a wake-up costs (measured.rs)
//!     # wakelab-sched-base-slice-ns: 1400000                   a tunable of the scheduler (the recorder adds it)
//!     # wakelab-task: pid=18 comm=migration/0 cpus=0               a task that may not run everywhere
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use wakelab_machine::{Machine, MachineError};
use wakelab_workload::SLICES_NS;

use crate::event::Told;
use crate::measured::{Measured, MeasuredWake};

/// How every line begins.
const BEGIN: &str = "# wakelab-";
/// The key of the first line.
const RECORD: &str = "record";
/// The key of the kernel's release.
const KERNEL: &str = "kernel";
/// How `perf script --header` tells the kernel's release.
const PERF_RELEASE: &str = "# os release :";
/// The key of what is said of one task.
pub const TASK: &str = "task";
/// The key of the CPU time that others used while the machine was measured.
const BUSY: &str = "wakes-busy-percent";
/// Longest value: a line must be shorter than any reader's limit.
const MAX_VALUE_BYTES: usize = 16_000;

/// Keys of the kernel's tunables of scheduling, and what policies call them.
const TUNABLES: [(&str, &str); 5] = [
    (BASE_SLICE, "min-granularity-ns"),
    ("sched-min-granularity-ns", "min-granularity-ns"),
    ("sched-latency-ns", "latency-ns"),
    ("sched-wakeup-granularity-ns", "wakeup-granularity-ns"),
    ("sched-migration-cost-ns", "migration-cost-ns"),
];
/// The key of the slice of tasks that ask for none (Linux 6.6 and later).
pub const BASE_SLICE: &str = "sched-base-slice-ns";

/// Options on a kernel's command line that change where wakees go.
const PATCHES: [Patch; 1] = [Patch {
    option: "sched_vcpu_pack",
    what: "leaves a wakee on its previous CPU and a new task on its parent's, unless another task waits there",
    axes: "+affine=off+form=packed+fork=parent",
}];

/// A kernel that is not mainline.
struct Patch {
    /// The option that switches it on, unless it is 0.
    option: &'static str,
    what: &'static str,
    /// What comes nearest to it here, to be added to a policy's name. docs/guide/recordings.md says how it was found.
    axes: &'static str,
}

/// What `wakelab record` wrote about a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The programs that recorded, with their versions.
    pub made_by: String,
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// The kernel's command line.
    pub boot_options: String,
    /// The kernel's tunables of scheduling that policies have, too, in ns, by the policy's name for them.
    pub tunables: BTreeMap<&'static str, u64>,
    /// The recorded command, as a shell would take it; empty if there was none.
    pub command: String,
    /// The id of the command's first task; `None` if there was no command, or if its id is not that of the events.
    pub command_pid: Option<u32>,
    /// Further tasks that the recording is about, by name, or by the beginning of the name and `*`.
    pub service: Vec<String>,
    /// The text of a machine file.
    pub machine: String,
    /// The ids of the tasks that recorded.
    pub recorder: BTreeSet<u32>,
    /// What one event cost, in ns of the CPU time of the task that caused it; `None` if it was not measured.
    pub event_cost_ns: Option<u64>,
    /// What a line about a message over a pipe or eventfd cost, likewise, if BPF programs told them; `None`: as much as
    /// an event.
    pub message_cost_ns: Option<u64>,
    /// What was measured of the machine.
    pub measured: Measured,
}

/// One line of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderLine<'a> {
    /// What it is about.
    pub key: &'a str,
    /// What it says, escaped.
    pub value: &'a str,
}

/// Returns a line of a header, with its newline. Characters that would break it are escaped.
pub fn line(key: &str, value: &str) -> String {
    let mut text = format!("{BEGIN}{key}: ");
    let end = text.len() + MAX_VALUE_BYTES;
    for c in value.chars() {
        if text.len() >= end {
            text.push_str("...");
            break;
        }
        match c {
            '\\' => text.push_str("\\\\"),
            c if c.is_control() => text.extend(c.escape_default()),
            c => text.push(c),
        }
    }
    // Editors take blanks off the ends of lines.
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// Returns a name without blanks, for a value that has several words.
pub fn word(name: &str) -> String {
    let escaped = |c: char| c == '\\' || c.is_whitespace() || c.is_control();
    name.chars().map(|c| if escaped(c) { '?' } else { c }).collect()
}

/// Whether a text is the first line of a header that says something, so that events of perf follow.
pub(crate) fn is_first(text: &str) -> bool {
    HeaderLine::parse(text).is_some_and(|line| line.key == RECORD || text.starts_with(PERF_RELEASE))
}

impl<'a> HeaderLine<'a> {
    /// Takes a comment apart; returns `None` if it is another kind of line.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        if let Some(release) = text.strip_prefix(PERF_RELEASE) {
            return Some(HeaderLine::of_kernel(release.trim()));
        }
        let (key, value) = text.strip_prefix(BEGIN)?.split_once(':')?;
        Some(HeaderLine { key, value: value.trim() })
    }

    /// Returns the line that tells the kernel's release.
    pub(crate) fn of_kernel(release: &'a str) -> Self {
        HeaderLine { key: KERNEL, value: release }
    }

    /// What it says of a task: `pid=18 comm=migration/0 at=begin,end cpus=0 slice_ns=3000000 cgroup=/ autogroup=2`, in
    /// any order, and words with other keys. `None` if it says neither CPUs nor a slice nor a group.
    pub(crate) fn told(&self) -> Option<Told<'a>> {
        let field = |name: &str| {
            let mut words = self.value.split(' ').filter_map(|word| word.split_once('='));
            words.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let tid = field("pid").and_then(|tid| tid.parse().ok()).filter(|_| self.key == TASK)?;
        let (cpus, cgroup) = (field("cpus"), field("cgroup").filter(|path| path.starts_with('/')));
        let slice_ns = field("slice_ns").and_then(|ns| ns.parse().ok()).filter(|ns| SLICES_NS.contains(ns));
        let nice = field("autogroup_nice").and_then(|nice| nice.parse().ok()).unwrap_or(0);
        let session = field("autogroup").and_then(|number| number.parse().ok()).map(|number| (number, nice));
        let from_before = !matches!(field("at"), Some("end" | "between"));
        (cpus.is_some() || slice_ns.is_some() || cgroup.is_some()).then_some(Told {
            cpus,
            slice_ns,
            cgroup,
            session,
            from_before,
            ..Told::nothing(tid)
        })
    }

    /// Whether [`Header::add`] can read the value.
    pub(crate) fn is_readable(&self) -> bool {
        match self.key {
            "recorder" => tids(self.value).is_some(),
            "event-cost-ns" => self.value.parse::<u64>().is_ok(),
            BUSY => self.value.parse::<u32>().is_ok(),
            "command-pid" => self.value.parse::<u32>().is_ok(),
            _ => true,
        }
    }
}

/// The ids of a list like `18373,18374`.
fn tids(list: &str) -> Option<BTreeSet<u32>> {
    list.split(',').map(|tid| tid.parse().ok()).collect()
}

/// Undoes what [`line`] escapes, but for control characters.
fn plain(value: &str) -> String {
    value.replace("\\\\", "\\")
}

impl Header {
    /// Writes the lines that [`Header::add`] reads.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut say = |key: &str, value: &str| out.write_all(line(key, value).as_bytes());
        say(RECORD, &self.made_by)?;
        say(KERNEL, &self.kernel)?;
        say("boot-options", &self.boot_options)?;
        say("command", &self.command)?;
        if let Some(pid) = self.command_pid {
            say("command-pid", &pid.to_string())?;
        }
        self.service.iter().try_for_each(|name| say("service", name))?;
        for text in self.machine.lines() {
            say("machine", text)?;
        }
        if !self.recorder.is_empty() {
            let tids: Vec<String> = self.recorder.iter().map(u32::to_string).collect();
            say("recorder", &tids.join(","))?;
        }
        for wake in &self.measured.wakes {
            say(MeasuredWake::KEY, &wake.words())?;
        }
        if let Some(percent) = self.measured.busy_percent {
            say(BUSY, &percent.to_string())?;
        }
        let costs = [("event-cost-ns", self.event_cost_ns), ("message-cost-ns", self.message_cost_ns)];
        costs.into_iter().try_for_each(|(key, cost_ns)| match cost_ns {
            Some(cost_ns) => say(key, &cost_ns.to_string()),
            None => Ok(()),
        })
    }

    /// Adds what a line says. Keys that are not known say nothing.
    pub(crate) fn add(&mut self, line: &HeaderLine<'_>) {
        let value = line.value;
        match line.key {
            RECORD => self.made_by = plain(value),
            KERNEL => self.kernel = plain(value),
            "boot-options" => self.boot_options = plain(value),
            "command" => self.command = plain(value),
            "command-pid" => self.command_pid = value.parse().ok(),
            "service" => self.service.push(plain(value)),
            "machine" => {
                self.machine.push_str(&plain(value));
                self.machine.push('\n');
            }
            "recorder" => self.recorder.extend(tids(value).unwrap_or_default()),
            "event-cost-ns" => self.event_cost_ns = value.parse().ok(),
            "message-cost-ns" => self.message_cost_ns = value.parse().ok(),
            MeasuredWake::KEY => self.measured.wakes.extend(MeasuredWake::parse(value)),
            key if key.starts_with("sched-") => {
                if let Some((_, name)) = TUNABLES.iter().find(|(its, _)| *its == key) {
                    self.tunables.extend(value.parse().ok().map(|ns: u64| (*name, ns)));
                }
            }
            BUSY => self.measured.busy_percent = value.parse().ok(),
            _ => {}
        }
    }

    /// The machine that made the recording; `None` if the header does not say.
    ///
    /// # Errors
    /// A text that is no machine file. `file` is the recording's name.
    pub fn machine(&self, file: &str) -> Result<Option<Machine>, MachineError> {
        if self.machine.is_empty() {
            return Ok(None);
        }
        let machine = Machine::from_toml(&self.machine, &format!("the header of {file}"))?;
        Ok(Some(Machine { name: "recorded".to_owned(), ..machine }))
    }

    /// A sentence about a kernel that places wakees unlike mainline.
    pub fn patched_kernel(&self) -> Option<String> {
        let (Patch { option, what, .. }, value) = self.patch()?;
        Some(format!("the recorded kernel is not mainline: with the boot option {option}={value} it {what}"))
    }

    /// The axes of the policy that comes nearest to the patch of the kernel, to be added to the name of the policy
    /// nearest to its version; empty for a kernel without a known patch.
    pub fn patched_axes(&self) -> &'static str {
        self.patch().map_or("", |(patch, _)| patch.axes)
    }

    /// The patch and its option's value.
    fn patch(&self) -> Option<(&'static Patch, &str)> {
        let options = self.boot_options.split_whitespace();
        options.filter_map(|option| option.split_once('=')).find_map(|(name, value)| {
            let patch = PATCHES.iter().find(|patch| patch.option == name && value != "0")?;
            Some((patch, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::WakeKind;

    fn header() -> Header {
        let wake = MeasuredWake {
            kind: WakeKind::Local,
            idle_ns: 0,
            samples: 60,
            waker_ns: [1, 2, 3],
            latency_ns: [4; 3],
            latency_percentiles_ns: None,
            cold_ns: [0; 3],
            warm_ns: [0; 3],
        };
        Header {
            made_by: "wakelab 0.1.0, perf version 6.1.187".to_owned(),
            kernel: "6.18.44-fc".to_owned(),
            boot_options: "quiet sched_vcpu_pack=15".to_owned(),
            tunables: BTreeMap::new(),
            command: r"sh -c 'printf \\n'".to_owned(),
            command_pid: Some(11),
            service: vec!["sh".to_owned(), "Web*".to_owned()],
            machine: Machine::preset("smp-2").expect("a preset").to_toml().expect("a file"),
            recorder: [7, 9].into(),
            event_cost_ns: Some(310),
            message_cost_ns: Some(120),
            measured: Measured { wakes: vec![wake; 2], busy_percent: Some(3) },
        }
    }

    fn read(text: &str) -> Header {
        let mut header = Header::default();
        for line in text.lines() {
            let line = HeaderLine::parse(line).expect("a line of a header");
            assert!(line.is_readable(), "{line:?}");
            header.add(&line);
        }
        header
    }

    #[test]
    fn what_is_written_is_read() {
        let bare = Header {
            recorder: BTreeSet::new(),
            command_pid: None,
            event_cost_ns: None,
            message_cost_ns: None,
            ..header()
        };
        for header in [header(), bare] {
            let mut text = Vec::new();
            header.write(&mut text).expect("vectors take everything");
            let text = String::from_utf8(text).expect("text");
            assert!(is_first(text.lines().next().expect("a line")));
            let read = read(&text);
            let trimmed = |machine: &str| machine.lines().map(str::trim).collect::<Vec<_>>().join("\n");
            assert_eq!(trimmed(&read.machine), trimmed(&header.machine));
            assert_eq!(Header { machine: header.machine.clone(), ..read.clone() }, header);
            let machine = read.machine("f").expect("a machine file").expect("a machine");
            assert_eq!(machine.topology, Machine::preset("smp-2").expect("a preset").topology);
        }
        assert_eq!(Header::default().machine("f").expect("nothing to read"), None);
    }

    #[test]
    fn a_value_stays_on_its_line() {
        assert_eq!(line("command", "a\nb \u{1b}[1m "), "# wakelab-command: a\\nb \\u{1b}[1m\n");
        assert!(line("command", &"x".repeat(1 << 20)).len() < MAX_VALUE_BYTES + 100);
        assert_eq!(word("Web Content\n"), "Web?Content?");
    }

    #[test]
    fn lines_of_later_versions_are_skipped() {
        assert_eq!(read("# wakelab-weather: fine\n"), Header::default());
        assert_eq!(HeaderLine::parse("# comm 7 [001] 1.0: x:"), None);
        let unreadable = |text| !HeaderLine::parse(text).expect("a line").is_readable();
        assert!(unreadable("# wakelab-recorder: 7,x") && unreadable("# wakelab-event-cost-ns: -1"));
        assert!(unreadable("# wakelab-command-pid: x"));
    }

    #[test]
    fn perf_tells_the_kernel_too() {
        assert_eq!(read("# os release : 6.12.9-amd64\n").kernel, "6.12.9-amd64");
        assert_eq!(HeaderLine::parse("# perf version : 6.1.187"), None);
    }

    #[test]
    fn tunables_have_the_policy_s_names() {
        let text = "# wakelab-sched-base-slice-ns: 2800000\n# wakelab-sched-migration-cost-ns: 500000\n\
                    # wakelab-sched-features: PLACE_LAG NO_X\n# wakelab-sched-latency-ns: x\n";
        let expected = BTreeMap::from([("migration-cost-ns", 500_000), ("min-granularity-ns", 2_800_000)]);
        assert_eq!(read(text).tunables, expected);
    }

    #[test]
    fn what_is_said_of_tasks() {
        let told = |text| HeaderLine::parse(text).and_then(|line| line.told());
        let pinned = Told { cpus: Some("0,2-3"), ..Told::nothing(18) };
        assert_eq!(told("# wakelab-task: pid=18 comm=a=b nice=0 cpus=0,2-3"), Some(pinned));
        assert_eq!(told("# wakelab-task: pid=18 comm=a"), None);
        let sliced = Told { slice_ns: Some(3_000_000), ..Told::nothing(18) };
        assert_eq!(told("# wakelab-task: pid=18 slice_ns=3000000"), Some(sliced));
        assert_eq!(told("# wakelab-task: pid=18 slice_ns=30"), None);
        let grouped =
            Told { cgroup: Some("/a"), session: Some((7, -3)), from_before: false, ..Told::nothing(18) };
        let text = "# wakelab-task: pid=18 comm=a at=end cgroup=/a autogroup=7 autogroup_nice=-3";
        assert_eq!(told(text), Some(grouped));
        assert_eq!(told("# wakelab-recorder: pid=18 cpus=0"), None);
    }

    #[test]
    fn a_patched_kernel_is_named() {
        assert!(header().patched_kernel().expect("a patch").contains("sched_vcpu_pack=15"));
        assert_eq!(header().patched_axes(), "+affine=off+form=packed+fork=parent");
        for options in ["quiet", "sched_vcpu_pack=0", "x=sched_vcpu_pack=1"] {
            let header = Header { boot_options: options.to_owned(), ..Header::default() };
            assert_eq!((header.patched_kernel(), header.patched_axes()), (None, ""), "{options}");
        }
    }
}
