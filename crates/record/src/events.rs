// SPDX-License-Identifier: GPL-2.0-or-later
//! Which events are recorded: those that a replay uses, if the kernel has them.

use std::path::{Path, PathBuf};

use crate::calls;
use crate::error::RecordError;

/// Events that are recorded or left out together, because each group costs time and room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Switches, wake-ups, births, ends, migrations, and moves to other control groups. They are always recorded.
    Sched,
    /// Interrupts and timers: they tell wake-ups by an interrupt from wake-ups by the interrupted task.
    Irq,
    /// Messages over sockets and POSIX message queues, those that wake nobody included.
    Flow,
    /// Calls of sched_yield, which look like preemptions otherwise. While they are recorded, every system call of the
    /// machine takes the kernel's slow path.
    Yield,
    /// Calls of futex, which tell who holds a mutex that two tasks want. They slow system calls down as those of
    /// [`Group::Yield`] do.
    Futex,
    /// Messages over pipes and eventfds: calls that read, write, open, copy and close descriptors. They are turned into
    /// lines about messages alone, but all such calls of the machine are recorded, those on files and sockets included.
    Pipe,
}

/// Without these there is nothing to replay.
const NEEDED: [&str; 2] = ["sched:sched_switch", "sched:sched_waking"];

/// All events, with their groups.
const EVENTS: [(Group, &str); 26] = [
    (Group::Sched, "sched:sched_switch"),
    (Group::Sched, "sched:sched_waking"),
    (Group::Sched, "sched:sched_wakeup"),
    (Group::Sched, "sched:sched_wakeup_new"),
    (Group::Sched, "sched:sched_process_fork"),
    (Group::Sched, "sched:sched_process_exec"),
    (Group::Sched, "sched:sched_process_exit"),
    (Group::Sched, "sched:sched_process_free"),
    (Group::Sched, "sched:sched_migrate_task"),
    (Group::Sched, "sched:sched_stat_runtime"),
    (Group::Sched, "cgroup:cgroup_attach_task"),
    (Group::Irq, "irq:softirq_entry"),
    (Group::Irq, "irq:softirq_exit"),
    (Group::Irq, "irq:irq_handler_entry"),
    (Group::Irq, "irq:irq_handler_exit"),
    (Group::Irq, "timer:hrtimer_expire_entry"),
    (Group::Irq, "timer:hrtimer_expire_exit"),
    (Group::Irq, "timer:timer_expire_entry"),
    (Group::Irq, "timer:timer_expire_exit"),
    (Group::Irq, "irq_vectors:local_timer_entry"),
    (Group::Irq, "irq_vectors:local_timer_exit"),
    (Group::Flow, "sock:sk_data_ready"),
    (Group::Flow, "sock:sock_recv_length"),
    (Group::Flow, "sock:sock_send_length"),
    (Group::Yield, "syscalls:sys_enter_sched_yield"),
    (Group::Futex, "syscalls:sys_enter_futex"),
];

/// The events of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Those that perf records, as `SUBSYSTEM:EVENT`.
    pub(crate) events: Vec<&'static str>,
    /// Events of system calls that tell of messages over pipes, eventfds and message queues.
    pub(crate) calls: Vec<String>,
    /// Those that this kernel does not have.
    pub(crate) absent: Vec<&'static str>,
    /// Those that were not wanted.
    pub(crate) left_out: Vec<&'static str>,
}

/// Returns what the kernel has of all events but the groups `without`. `folders`: where its events may be shown.
pub(crate) fn select(folders: &[PathBuf], without: &[Group]) -> Result<Selection, RecordError> {
    let folder = folders.iter().find(|folder| folder.join("sched").is_dir()).ok_or_else(|| {
        let shown: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        RecordError::NoTracefs { tried: shown.join(" or ") }
    })?;
    let has = |group| !without.contains(&group);
    let wanted = calls::Wanted { descriptors: has(Group::Pipe), queues: has(Group::Flow) };
    let calls = calls::events(folder, wanted);
    let mut selection = Selection { events: Vec::new(), calls, absent: Vec::new(), left_out: Vec::new() };
    for (group, event) in EVENTS {
        let list = if without.contains(&group) && group != Group::Sched {
            &mut selection.left_out
        } else if is_there(folder, event) {
            &mut selection.events
        } else {
            &mut selection.absent
        };
        list.push(event);
    }
    match NEEDED.into_iter().find(|event| !selection.events.contains(event)) {
        Some(event) => Err(RecordError::NoEvent { event }),
        None => Ok(selection),
    }
}

fn is_there(folder: &Path, event: &str) -> bool {
    folder.join(event.replace(':', "/")).is_dir()
}

/// Where kernels show their events.
pub(crate) fn event_folders() -> Vec<PathBuf> {
    ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"].map(PathBuf::from).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_lacks_is_left_out() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let folders = [root.path().join("none"), root.path().to_owned()];
        let select = |without: &[Group]| select(&folders, without);
        assert!(select(&[]).unwrap_err().to_string().contains("none or "));
        let add = |event: &str| std::fs::create_dir_all(root.path().join(event)).expect("a folder");
        add("sched/sched_switch");
        assert!(select(&[]).unwrap_err().to_string().contains("no event sched:sched_waking"));
        add("sched/sched_waking");
        add("sock/sk_data_ready");
        let all = select(&[]).expect("what is needed");
        assert_eq!(all.events, ["sched:sched_switch", "sched:sched_waking", "sock:sk_data_ready"]);
        assert_eq!((all.absent.len(), all.left_out.len()), (23, 0));
        add("syscalls/sys_enter_close");
        assert_eq!(select(&[]).expect("what is needed").calls, ["syscalls:sys_enter_close"]);
        let less = select(&[Group::Flow, Group::Yield, Group::Futex, Group::Sched, Group::Pipe])
            .expect("what is needed");
        assert!(less.calls.is_empty());
        assert_eq!(less.events, ["sched:sched_switch", "sched:sched_waking"]);
        assert_eq!((less.absent.len(), less.left_out.len()), (19, 5));
    }
}
