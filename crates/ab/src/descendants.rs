// SPDX-License-Identifier: GPL-2.0-or-later
//! The processes below this one: found in /proc, and ended.
//!
//! A process that is a child subreaper (PR_SET_CHILD_SUBREAPER, prctl(2)) becomes the parent of every orphan below it.
//! So what a command leaves behind stays below this process, whichever sessions and process groups it made.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid};

use crate::error::{AbError, system};
use crate::interrupt::{GRACE, POLL};

/// After SIGKILL a process ends as soon as it leaves the kernel.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// A process as its line in /proc/PID/stat shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: Pid,
    parent: Pid,
    is_zombie: bool,
}

/// Ends every process below this one but `keep` and what is below that: by `signal`, then by SIGKILL what has not ended
/// after [`GRACE`]. Returns how many there were.
///
/// # Errors
/// [`AbError::LeftRunning`] if some cannot be ended, because they belong to another user for instance.
pub(crate) fn end_descendants(keep: Option<Pid>, signal: Signal) -> Result<usize, AbError> {
    let mut seen = BTreeSet::new();
    let begin = Instant::now();
    loop {
        let running = running_descendants(keep).map_err(system("look for what is left running"))?;
        if running.is_empty() {
            return Ok(seen.len());
        }
        let elapsed = begin.elapsed();
        if elapsed > GRACE + KILL_LIMIT {
            return Err(AbError::LeftRunning { count: running.len() });
        }
        for pid in running {
            // The only parent that could reap it meanwhile is below this process too. Only a new process gets the first
            // signal, so that no process is asked to end twice.
            let is_new = seen.insert(pid);
            if elapsed > GRACE {
                let _ = kill(pid, Signal::SIGKILL);
            } else if is_new {
                let _ = kill(pid, signal);
            }
        }
        thread::sleep(POLL);
    }
}

/// Finds what runs below this process, and reaps the children of this process that have ended, but for `keep`.
fn running_descendants(keep: Option<Pid>) -> io::Result<Vec<Pid>> {
    let processes = processes()?;
    let below = below(&processes, getpid(), keep);
    for zombie in below.iter().filter(|process| process.is_zombie && process.parent == getpid()) {
        match waitpid(zombie.pid, Some(WaitPidFlag::WNOHANG)) {
            Ok(_) | Err(Errno::ECHILD) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(below.iter().filter(|process| !process.is_zombie).map(|process| process.pid).collect())
}

/// Returns the processes below `root`, without `keep` and those below it.
fn below(processes: &[Process], root: Pid, keep: Option<Pid>) -> Vec<Process> {
    let mut parents = BTreeSet::from([root]);
    let mut found: Vec<Process> = Vec::new();
    loop {
        let more: Vec<Process> = processes
            .iter()
            .filter(|process| parents.contains(&process.parent) && Some(process.pid) != keep)
            .filter(|process| !parents.contains(&process.pid))
            .copied()
            .collect();
        if more.is_empty() {
            return found;
        }
        parents.extend(more.iter().map(|process| process.pid));
        found.extend(more);
    }
}

/// Returns all processes that /proc shows.
fn processes() -> io::Result<Vec<Process>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        match fs::read(format!("/proc/{pid}/stat")) {
            Ok(stat) => found.extend(parse_stat(pid, &String::from_utf8_lossy(&stat))),
            // It ended meanwhile.
            Err(error)
                if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ESRCH) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Reads `PID (NAME) STATE PARENT ...`, as in proc_pid_stat(5). The name may hold blanks and brackets.
fn parse_stat(pid: i32, stat: &str) -> Option<Process> {
    let mut words = stat.rsplit_once(") ")?.1.split(' ');
    let (state, parent) = (words.next()?, words.next()?.parse().ok()?);
    Some(Process {
        pid: Pid::from_raw(pid),
        parent: Pid::from_raw(parent),
        is_zombie: matches!(state, "Z" | "X"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32) -> Process {
        Process { pid: Pid::from_raw(pid), parent: Pid::from_raw(parent), is_zombie: false }
    }

    #[test]
    fn a_name_may_hold_anything() {
        assert_eq!(parse_stat(12, "12 (a) S 1 (b) R 7 12 12 0 -1"), Some(process(12, 7)));
        let zombie = Process { is_zombie: true, ..process(12, 7) };
        assert_eq!(parse_stat(12, "12 (sh) Z 7 12"), Some(zombie));
        assert_eq!(parse_stat(12, "12 (sh) Z"), None);
    }

    #[test]
    fn what_is_kept_keeps_what_is_below_it() {
        let processes =
            [process(9, 8), process(2, 1), process(3, 2), process(4, 2), process(5, 4), process(8, 1)];
        let found = |keep: Option<i32>| -> Vec<i32> {
            let mut pids: Vec<i32> = below(&processes, Pid::from_raw(2), keep.map(Pid::from_raw))
                .iter()
                .map(|process| process.pid.as_raw())
                .collect();
            pids.sort_unstable();
            pids
        };
        assert_eq!(found(None), [3, 4, 5]);
        assert_eq!(found(Some(4)), [3]);
    }

    #[test]
    fn this_process_is_in_proc() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(processes().unwrap().iter().any(|process| process.pid.as_raw() == own));
    }
}
