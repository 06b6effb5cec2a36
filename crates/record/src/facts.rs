// SPDX-License-Identifier: GPL-2.0-or-later
//! Facts about the machine that no event tells and that may explain a result: for the header.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use wakelab_trace::{groups, header};

use crate::tasks::cpu_cgroup;

/// Returns a file's text without blanks at its ends; `None` if it cannot be read.
pub(crate) fn text(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The machine's memory in megabytes; 0 if it is unknown.
pub(crate) fn memory_mb() -> u64 {
    let total_kb = |text: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    text("/proc/meminfo").as_deref().and_then(total_kb).unwrap_or(0) / 1024
}

/// The machine's CPUs, as a list.
pub(crate) fn online() -> String {
    text("/sys/devices/system/cpu/online").unwrap_or_default()
}

/// Whether this process sees the ids that the kernel's events name. It does not inside a container.
pub(crate) fn ids_are_the_kernels() -> bool {
    is_first_of_ids(Path::new("/proc/self/ns"))
}

/// Whether `namespaces`, a process's folder of them, has the first namespace of process ids, or none: a kernel without
/// `CONFIG_PID_NS` has one kind of ids.
fn is_first_of_ids(namespaces: &Path) -> bool {
    match fs::read_link(namespaces.join("pid")) {
        // PROC_PID_INIT_INO of include/linux/proc_ns.h.
        Ok(name) => name == Path::new("pid:[4026531836]"),
        Err(error) => error.kind() == io::ErrorKind::NotFound && namespaces.is_dir(),
    }
}

/// Where the kernel shows its tunables of scheduling, unless it is locked down.
const SCHED: &str = "/sys/kernel/debug/sched";

/// Returns the slice of tasks that ask for none, if the kernel shows it.
pub(crate) fn base_slice_ns() -> Option<u32> {
    text(format!("{SCHED}/base_slice_ns"))?.parse().ok()
}

/// Returns the header's lines about how the CPUs run and how the kernel schedules.
pub(crate) fn settings(base_slice_ns: Option<u32>) -> String {
    let cpu = |file: &str| format!("/sys/devices/system/cpu/{file}");
    let sched = |file: &str| format!("{SCHED}/{file}");
    let mut lines = String::new();
    let mut say = |key: &str, path: String| {
        if let Some(text) = text(path).filter(|text| !text.is_empty()) {
            lines.push_str(&header::line(key, &text.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
    };
    say("cpu0-governor", cpu("cpu0/cpufreq/scaling_governor"));
    say("cpu0-driver", cpu("cpu0/cpufreq/scaling_driver"));
    say("cpu0-min-khz", cpu("cpu0/cpufreq/scaling_min_freq"));
    say("cpu0-max-khz", cpu("cpu0/cpufreq/scaling_max_freq"));
    say("idle-driver", cpu("cpuidle/current_driver"));
    say("idle-governor", cpu("cpuidle/current_governor"));
    say(groups::AUTOGROUP, "/proc/sys/kernel/sched_autogroup_enabled".to_owned());
    say("sched-features", sched("features"));
    for file in ["latency_ns", "min_granularity_ns", "wakeup_granularity_ns", "migration_cost_ns"] {
        say(&format!("sched-{}", file.replace('_', "-")), sched(file));
    }
    let base_slice = base_slice_ns.map(|ns| header::line(header::BASE_SLICE, &ns.to_string()));
    lines + &base_slice.unwrap_or_default()
}

/// The most control groups of which a header tells.
const GROUPS_MAX: usize = 4_096;

/// Returns the control groups that share CPU time, by path: their shares and limits. A task may be moved to any of
/// them.
pub(crate) fn cgroups() -> BTreeMap<String, String> {
    let Some((root, version_1)) = text("/proc/mounts").as_deref().and_then(cpu_mount) else {
        return BTreeMap::new();
    };
    let files: &[&str] = if version_1 {
        &["cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.idle"]
    } else {
        &["cpu.weight", "cpu.max", "cpu.idle"]
    };
    let mut found = BTreeMap::new();
    let mut folders = VecDeque::from([root.clone()]);
    while let Some(folder) = folders.pop_front().filter(|_| found.len() < GROUPS_MAX) {
        let values: Vec<String> = files
            .iter()
            .filter_map(|file| Some(format!("{file}={}", text(folder.join(file))?.replace(' ', "/"))))
            .collect();
        if let Ok(path) = folder.strip_prefix(&root)
            && !values.is_empty()
        {
            found.insert(format!("/{}", path.display()), values.join(" "));
        }
        // A group may end while it is read.
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.extend(below.map(|entry| entry.path()));
    }
    found
}

/// Returns the header's lines about control groups.
pub(crate) fn cgroup_lines(all: &BTreeMap<String, String>) -> String {
    let own = text("/proc/self/cgroup").unwrap_or_default();
    let hierarchy = cpu_cgroup(&own).map(|(hierarchy, _)| header::line(groups::HIERARCHY, hierarchy));
    let mut lines = hierarchy.unwrap_or_default();
    for (path, values) in all {
        lines.push_str(&header::line(groups::GROUP, &format!("{} {values}", header::word(path))));
    }
    lines
}

/// Returns where the groups that share CPU time are mounted, and whether they are of version 1.
fn cpu_mount(mounts: &str) -> Option<(PathBuf, bool)> {
    let mounted = |kind: &str, option: &str| {
        mounts.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [_, path, its_kind, options, ..] = words[..] else { return None };
            let fits = its_kind == kind && (option.is_empty() || options.split(',').any(|its| its == option));
            fits.then(|| PathBuf::from(path))
        })
    };
    mounted("cgroup", "cpu").map(|path| (path, true)).or_else(|| Some((mounted("cgroup2", "")?, false)))
}

/// Returns a command as a shell would take it.
pub(crate) fn shell_words(command: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+=%:,./@".contains(c);
    let quoted = |word: &String| match word.chars().all(is_plain) && !word.is_empty() {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    command.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_groups_are_mounted() {
        let v2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        assert_eq!(cpu_mount(v2), Some((PathBuf::from("/sys/fs/cgroup"), false)));
        let both = format!("{v2}cgroup /c/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n");
        assert_eq!(cpu_mount(&both), Some((PathBuf::from("/c/cpu,cpuacct"), true)));
        assert_eq!(cpu_mount("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn ids_of_a_kernel_without_namespaces() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let with = |name: &str| {
            let namespaces = folder.path().join(name);
            fs::create_dir(&namespaces).expect("a folder");
            std::os::unix::fs::symlink(name, namespaces.join("pid")).expect("a link");
            is_first_of_ids(&namespaces)
        };
        assert!(with("pid:[4026531836]") && !with("pid:[4026532281]"));
        assert!(is_first_of_ids(folder.path()), "it has no namespaces of process ids");
        assert!(!is_first_of_ids(&folder.path().join("none")), "/proc is not mounted");
    }

    #[test]
    fn words_of_a_shell() {
        let words = ["sh", "-c", "echo 'a'", ""].map(str::to_owned);
        assert_eq!(shell_words(&words), r"sh -c 'echo '\''a'\''' ''");
    }
}
