// SPDX-License-Identifier: GPL-2.0-or-later
//! The tasks of a machine as /proc shows them before and after a recording, and those of a recorded command while it
//! runs: what no event says of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use wakelab_trace::header;

/// A task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Task {
    process: u32,
    comm: String,
    nice: i32,
    policy: u32,
    rt_priority: u32,
    /// The CPUs where it may run, as a list; empty if it is unknown.
    cpus: String,
    cgroup: String,
    /// The number and the nice value of its autogroup, if it has one.
    autogroup: Option<(u32, i32)>,
    /// The slice that a fair task has, which may be its own; `None` before Linux 6.12, and for kernel threads: one that
    /// has not run for a while has an old slice of all tasks.
    slice_ns: Option<u32>,
}

/// All tasks, by their ids.
pub(crate) type Tasks = BTreeMap<u32, Task>;

/// The most processes of which one look at a command reads the tasks, which takes about 10 ms.
const MOST: usize = 256;

/// Returns the tasks that `proc` (normally `/proc`) shows now. Those that end meanwhile may be missing.
pub(crate) fn tasks(proc: &Path) -> Tasks {
    let mut tasks = Tasks::new();
    numbered(proc).into_iter().for_each(|process| add_process(proc, process, &mut tasks));
    tasks
}

/// Adds the tasks of `process` and of its descendants to those that were seen before, or replaces them. A command that
/// binds itself to CPUs (`taskset`) is seen by this alone, because it is in no look before or after it.
///
/// Descendants are found by their parents' ids, in ascending order: a child that is born when the ids begin again at
/// the lowest is not.
pub(crate) fn look_at_descendants(proc: &Path, process: u32, tasks: &mut Tasks) {
    let mut found = BTreeSet::from([process]);
    for other in numbered(proc).into_iter().filter(|other| *other > process) {
        let stat = fs::read_to_string(proc.join(format!("{other}/stat"))).unwrap_or_default();
        if parent(&stat).is_some_and(|parent| found.contains(&parent)) && found.len() < MOST {
            found.insert(other);
        }
    }
    found.into_iter().for_each(|process| add_process(proc, process, tasks));
}

/// Reads the parent's id of proc_pid_stat(5).
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(") ")?.1.split_whitespace().nth(1)?.parse().ok()
}

fn add_process(proc: &Path, process: u32, tasks: &mut Tasks) {
    let folder = proc.join(process.to_string());
    // Threads share a cgroup, but for threaded cgroups, which have no use here that is known.
    let cgroup = fs::read_to_string(folder.join("cgroup")).unwrap_or_default();
    let cgroup = cpu_cgroup(&cgroup).map(|(_, path)| path).unwrap_or_default();
    let autogroup = fs::read_to_string(folder.join("autogroup")).ok().and_then(|text| autogroup(&text));
    for tid in numbered(&folder.join("task")) {
        let folder = folder.join(format!("task/{tid}"));
        let read =
            |file: &str| fs::read(folder.join(file)).map(|text| String::from_utf8_lossy(&text).into_owned());
        let (Ok(stat), Ok(status)) = (read("stat"), read("status")) else { continue };
        if let Some(task) = task(process, &stat, &status, cgroup) {
            let sched = (!is_kernel_thread(&stat)).then(|| read("sched").ok()).flatten();
            let slice_ns = sched.and_then(|text| slice_ns(&text));
            tasks.insert(tid, Task { autogroup, slice_ns, ..task });
        }
    }
}

/// Returns the ids of a process's threads.
pub(crate) fn threads(process: u32) -> Vec<u32> {
    numbered(&Path::new("/proc").join(process.to_string()).join("task"))
}

/// Returns the names of a folder that are numbers, in order.
pub(crate) fn numbered(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Reads proc_pid_stat(5), where the name stands in brackets and may hold anything, and proc_pid_status(5). Returns
/// `None` for a task that has exited: it does nothing any more, and with version 1 of control groups it is in the root.
fn task(process: u32, stat: &str, status: &str, cgroup: &str) -> Option<Task> {
    let (before, after) = stat.rsplit_once(") ")?;
    let comm = before.split_once('(')?.1;
    let words: Vec<&str> = after.split_whitespace().collect();
    if matches!(words.first(), Some(&("Z" | "X"))) {
        return None;
    }
    // Fields 19, 40 and 41; `after` begins with field 3.
    let field = |number: usize| words.get(number - 3).copied();
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    Some(Task {
        process,
        comm: comm.to_owned(),
        nice: field(19)?.parse().ok()?,
        rt_priority: field(40)?.parse().ok()?,
        policy: field(41)?.parse().ok()?,
        cpus: cpus.unwrap_or_default().trim().to_owned(),
        cgroup: cgroup.to_owned(),
        autogroup: None,
        slice_ns: None,
    })
}

/// Reads `/autogroup-7 nice 0`. A process without an autogroup has an empty file.
fn autogroup(text: &str) -> Option<(u32, i32)> {
    let (number, nice) = text.trim().strip_prefix("/autogroup-")?.split_once(" nice ")?;
    Some((number.parse().ok()?, nice.parse().ok()?))
}

/// Whether the flags in proc_pid_stat(5) have PF_KTHREAD of include/linux/sched.h.
fn is_kernel_thread(stat: &str) -> bool {
    let flags = stat.rsplit_once(") ").and_then(|(_, after)| after.split(' ').nth(6)?.parse().ok());
    flags.is_some_and(|flags: u64| flags & 0x0020_0000 != 0)
}

/// Reads the slice of a task in /proc/PID/sched: `se.slice     :     1400000`.
fn slice_ns(sched: &str) -> Option<u32> {
    let value = sched.lines().find_map(|line| line.strip_prefix("se.slice")?.trim().strip_prefix(':'))?;
    value.trim().parse().ok()
}

/// Returns the slice that most tasks have: that of tasks that ask for none. No task says whether its slice is its own.
pub(crate) fn usual_slice_ns(tasks: &Tasks) -> Option<u32> {
    let mut counts = BTreeMap::new();
    for slice_ns in tasks.values().filter_map(|task| task.slice_ns) {
        *counts.entry(slice_ns).or_insert(0u32) += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(slice_ns, _)| slice_ns)
}

/// Returns the group in a process's `cgroup` file that shares CPU time, and the number of its hierarchy: that of
/// version 1's controller `cpu`, or that of version 2.
pub(crate) fn cpu_cgroup(text: &str) -> Option<(&str, &str)> {
    let lines = || {
        text.lines().filter_map(|line| {
            let (hierarchy, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            Some((hierarchy, controllers, path))
        })
    };
    let of_version_1 = lines().find(|(_, controllers, _)| controllers.split(',').any(|name| name == "cpu"));
    let found = of_version_1.or_else(|| lines().find(|(_, controllers, _)| controllers.is_empty()));
    found.map(|(hierarchy, _, path)| (hierarchy, path))
}

/// Returns the header's lines about the tasks that were there at the beginning, at the end, or both, and of those that
/// were seen only between. `online` are the machine's CPUs, as a list: a task that may run on all of them is not
/// pinned. A task whose slice is not `base_slice_ns` has asked for it.
pub(crate) fn lines(
    begin: &Tasks,
    between: &Tasks,
    end: &Tasks,
    online: &str,
    base_slice_ns: Option<u32>,
) -> String {
    let mut all: BTreeMap<u32, (&Task, &str)> =
        between.iter().map(|(tid, task)| (*tid, (task, "between"))).collect();
    all.extend(end.iter().map(|(tid, task)| (*tid, (task, "end"))));
    for (tid, task) in begin {
        // An id may have been given to another task meanwhile; then the first one counts.
        let same = end.get(tid).is_some_and(|at_end| at_end.process == task.process);
        all.insert(*tid, (task, if same { "begin,end" } else { "begin" }));
    }
    let of = |(tid, (task, at)): (&u32, &(&Task, &str))| {
        let Task { process, comm, nice, policy, rt_priority, cpus, cgroup, autogroup, slice_ns } = task;
        let policy = match policy {
            0 => "other".to_owned(),
            1 => format!("fifo rt_priority={rt_priority}"),
            2 => format!("rr rt_priority={rt_priority}"),
            3 => "batch".to_owned(),
            5 => "idle".to_owned(),
            6 => "deadline".to_owned(),
            7 => "ext".to_owned(),
            other => other.to_string(),
        };
        let pinned = if covers(cpus, online) { String::new() } else { format!(" cpus={cpus}") };
        let (comm, cgroup) = (header::word(comm), header::word(cgroup));
        let own = slice_ns.filter(|_| base_slice_ns.is_some() && *slice_ns != base_slice_ns);
        let slice = own.map(|ns| format!(" slice_ns={ns}")).unwrap_or_default();
        let autogroup = match autogroup {
            None => String::new(),
            Some((number, 0)) => format!(" autogroup={number}"),
            Some((number, nice)) => format!(" autogroup={number} autogroup_nice={nice}"),
        };
        header::line(
            header::TASK,
            &format!(
                "pid={tid} process={process} comm={comm} at={at} nice={nice} policy={policy}{pinned}{slice} cgroup={cgroup}{autogroup}"
            ),
        )
    };
    all.iter().map(of).collect()
}

/// Whether a list of CPUs has all CPUs of another. A list that is empty or cannot be read is taken for one of all.
fn covers(list: &str, all: &str) -> bool {
    let (Some(list), Some(all)) = (ranges(list), ranges(all)) else { return true };
    let has = |cpu: u32| list.iter().any(|(first, last)| (*first..=*last).contains(&cpu));
    all.into_iter().all(|(first, last)| (first..=last).all(has))
}

fn ranges(list: &str) -> Option<Vec<(u32, u32)>> {
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    list.trim().split(',').map(range).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const STAT: &str = "18 (migration/0 (x)) S 2 0 0 0 -1 69238848 0 0 0 0 0 7 0 0 -100 -5 1 0 22 0 0 \
                        18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 17 0 99 1 0 0 0";
    const STATUS: &str = "Name:\tmigration/0\nCpus_allowed:\t1\nCpus_allowed_list:\t0\n";

    fn migration() -> Task {
        task(18, STAT, STATUS, "/").expect("the format of Linux")
    }

    #[test]
    fn a_task_of_proc() {
        let expected = Task {
            process: 18,
            comm: "migration/0 (x)".to_owned(),
            nice: -5,
            policy: 1,
            rt_priority: 99,
            cpus: "0".to_owned(),
            cgroup: "/".to_owned(),
            autogroup: None,
            slice_ns: None,
        };
        assert_eq!(migration(), expected);
        assert_eq!(task(18, "18 (x", STATUS, "/"), None);
    }

    #[test]
    fn an_exited_task_is_none() {
        let zombie = STAT.replacen(") S ", ") Z ", 1);
        assert_eq!(task(18, &zombie, STATUS, "/"), None);
    }

    #[test]
    fn only_pinned_tasks_have_cpus() {
        let free = Task { cpus: "0-63".to_owned(), policy: 0, autogroup: Some((7, -2)), ..migration() };
        let begin = Tasks::from([(18, migration()), (20, free.clone())]);
        let end = Tasks::from([(18, migration()), (20, Task { process: 9, ..free.clone() }), (21, free)]);
        let between = Tasks::from([(21, migration()), (22, migration())]);
        let text = lines(&begin, &between, &end, "0-3", Some(1_400_000));
        let line = |tid: u32| {
            let begins = format!("# wakelab-task: pid={tid} ");
            text.lines().find_map(|line| line.strip_prefix(&begins)).expect("a line").to_owned()
        };
        assert_eq!(
            line(18),
            "process=18 comm=migration/0?(x) at=begin,end nice=-5 policy=fifo rt_priority=99 cpus=0 cgroup=/"
        );
        assert!(line(20).contains(" at=begin ") && !line(20).contains("cpus="), "{text}");
        assert!(line(21).contains(" at=end ") && line(21).contains(" policy=other "), "{text}");
        assert!(line(21).ends_with(" cgroup=/ autogroup=7 autogroup_nice=-2"), "{text}");
        assert!(line(22).contains(" at=between ") && line(22).contains(" cpus=0 "), "{text}");
    }

    #[test]
    fn slices_that_differ_from_most_are_own() {
        let text = "policy   :    0\nprio     :  120\nse.slice        :          400000\n";
        assert!(is_kernel_thread(STAT) && !is_kernel_thread("7 (a) S 1 7 7 0 -1 4194304 0"));
        assert_eq!((slice_ns(text), slice_ns("se.slicer : 1\nse.slice : x\n")), (Some(400_000), None));
        let with = |slice_ns| Task { slice_ns, policy: 0, ..migration() };
        let slices = [Some(1_400_000), Some(400_000), Some(1_400_000), None, None, None];
        let tasks: Tasks = (1..).zip(slices.map(with)).collect();
        assert_eq!((usual_slice_ns(&tasks), usual_slice_ns(&Tasks::new())), (Some(1_400_000), None));
        let count = |base| lines(&tasks, &Tasks::new(), &tasks, "0", base).matches(" slice_ns=").count();
        assert_eq!((count(Some(1_400_000)), count(None)), (1, 0));
        assert!(lines(&tasks, &Tasks::new(), &tasks, "0", Some(1_400_000)).contains("pid=2 "));
    }

    #[test]
    fn lists_cover_lists() {
        assert!(covers("0-3", "0-3") && covers("0,1-127", "0-63") && covers("", "0-3"));
        assert!(!covers("0-2", "0-3") && !covers("1,3", "0-3"));
    }

    #[test]
    fn the_group_that_shares_cpu_time() {
        assert_eq!(cpu_cgroup("7:pids:/p\n3:cpu,cpuacct:/a:b\n0::/u\n"), Some(("3", "/a:b")));
        assert_eq!(cpu_cgroup("2:cpuset:/s\n0::/u\n"), Some(("0", "/u")));
        assert_eq!(cpu_cgroup(""), None);
    }

    #[test]
    fn the_group_of_a_session() {
        assert_eq!(autogroup("/autogroup-7 nice 0\n"), Some((7, 0)));
        assert_eq!(autogroup("/autogroup-12 nice -5\n"), Some((12, -5)));
        assert_eq!(autogroup(""), None);
    }

    #[test]
    fn descendants_are_found_with_their_affinity() {
        let mut child = Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().expect("a shell");
        let mut seen = Tasks::new();
        while !seen.values().any(|task| task.comm == "sleep") {
            look_at_descendants(Path::new("/proc"), child.id(), &mut seen);
        }
        let sleep = seen.iter().find(|(_, task)| task.comm == "sleep").map(|(tid, _)| *tid).expect("seen");
        assert_eq!(seen[&sleep].cpus, tasks(Path::new("/proc"))[&child.id()].cpus);
        assert!(!seen.contains_key(&std::process::id()));
        let kill = Command::new("kill").args([sleep, child.id()].map(|pid| pid.to_string())).status();
        assert!(kill.expect("kill").success());
        child.wait().expect("it was started");
    }

    #[test]
    fn this_process_is_there() {
        let tasks = tasks(Path::new("/proc"));
        assert!(tasks.contains_key(&std::process::id()));
        assert!(threads(std::process::id()).contains(&std::process::id()));
    }
}
