// SPDX-License-Identifier: GPL-2.0-or-later
//! Facts about the machine that no event tells and that may explain a result: for the header.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use wakelab_trace::header;

use crate::tasks::Tasks;

/// Returns a file's text without blanks at its ends; `None` if it cannot be read.
pub(crate) fn text(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The machine's CPUs, as a list.
pub(crate) fn online() -> String {
    text("/sys/devices/system/cpu/online").unwrap_or_default()
}

/// Whether this process sees the ids that the kernel's events name. It does not inside a container.
pub(crate) fn ids_are_the_kernels() -> bool {
    // PROC_PID_INIT_INO of include/linux/proc_ns.h: the first namespace of process ids.
    fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name == Path::new("pid:[4026531836]"))
}

/// Returns the header's lines about how the CPUs run and how the kernel schedules.
pub(crate) fn settings() -> String {
    let cpu = |file: &str| format!("/sys/devices/system/cpu/{file}");
    let sched = |file: &str| format!("/sys/kernel/debug/sched/{file}");
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
    say("autogroup", "/proc/sys/kernel/sched_autogroup_enabled".to_owned());
    say("sched-features", sched("features"));
    for file in
        ["base_slice_ns", "latency_ns", "min_granularity_ns", "wakeup_granularity_ns", "migration_cost_ns"]
    {
        say(&format!("sched-{}", file.replace('_', "-")), sched(file));
    }
    lines
}

/// Returns the header's lines about the control groups of all these tasks, and of the groups above them: their shares
/// and limits of CPU time.
pub(crate) fn cgroups(all: [&Tasks; 2]) -> String {
    let Some((root, version_1)) = text("/proc/mounts").as_deref().and_then(cpu_mount) else {
        return String::new();
    };
    let mut paths = BTreeSet::from(["/"]);
    for task in all.into_iter().flat_map(Tasks::values) {
        let mut path = task.cgroup.as_str();
        while !path.is_empty() && paths.insert(path) {
            path = path.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }
    let files: &[&str] = if version_1 {
        &["cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us"]
    } else {
        &["cpu.weight", "cpu.max", "cpu.idle"]
    };
    let mut lines = String::new();
    for path in paths {
        let folder = root.join(path.trim_start_matches('/'));
        let values: Vec<String> = files
            .iter()
            .filter_map(|file| Some(format!("{file}={}", text(folder.join(file))?.replace(' ', "/"))))
            .collect();
        if !values.is_empty() {
            lines.push_str(&header::line("cgroup", &format!("{} {}", header::word(path), values.join(" "))));
        }
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
    fn words_of_a_shell() {
        let words = ["sh", "-c", "echo 'a'", ""].map(str::to_owned);
        assert_eq!(shell_words(&words), r"sh -c 'echo '\''a'\''' ''");
    }
}
