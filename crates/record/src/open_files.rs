// SPDX-License-Identifier: GPL-2.0-or-later
//! Which pipes, eventfds and message queues the processes of a machine have open, as /proc shows them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::descriptors::{ChannelId, Descriptor, Descriptors, Kind, Table};
use crate::tasks::numbered;

/// O_CLOEXEC in the `flags` of proc_pid_fdinfo(5), on every architecture but Alpha, PA-RISC and SPARC.
const CLOSE_ON_EXEC: u32 = 0o2_000_000;

/// Where message queues are files (mq_overview(7)).
const QUEUES: &str = "/dev/mqueue";

/// Reads the descriptors of all processes that `proc` (normally `/proc`) shows now. Those that change meanwhile may be
/// wrong. Without `pipes`, only message queues count, and no process is looked at if there are none, because a machine
/// may have a million descriptors.
pub(crate) fn descriptors(proc: &Path, pipes: bool) -> Descriptors {
    let mut all = Descriptors::default();
    let mut ids = BTreeMap::new();
    let queues = fs::metadata(QUEUES).ok().map(|queues| queues.dev());
    let any_counts = pipes || fs::read_dir(QUEUES).is_ok_and(|mut queues| queues.next().is_some());
    for process in numbered(proc) {
        let folder = proc.join(process.to_string());
        let mut table = Table::new();
        if !any_counts {
            all.set(process, table);
            continue;
        }
        for fd in numbered(&folder.join("fd")) {
            let Ok(target) = fs::read_link(folder.join(format!("fd/{fd}"))) else { continue };
            let info = fs::read_to_string(folder.join(format!("fdinfo/{fd}"))).unwrap_or_default();
            let queue = || queue(&folder.join(format!("fd/{fd}")), queues?);
            let channel = target.to_str().and_then(|target| channel(target, &info)).or_else(queue);
            let channel = channel.map(|(kind, name)| id(&mut all, &mut ids, kind, name));
            table.insert(fd, Descriptor { channel, close_on_exec: flags(&info) & CLOSE_ON_EXEC != 0 });
        }
        all.set(process, table);
    }
    all
}

/// What the kernel calls a pipe, an eventfd or a queue, among those of its kind.
type Name = u64;

/// The id of a channel, which several processes may have open.
fn id(
    all: &mut Descriptors,
    ids: &mut BTreeMap<(Kind, Name), ChannelId>,
    kind: Kind,
    name: Name,
) -> ChannelId {
    *ids.entry((kind, name)).or_insert_with(|| all.add_channel(kind))
}

/// Returns what a descriptor is open on, if it is a channel: `pipe:[INODE]`, or an eventfd, whose number is in `info`
/// (since Linux 5.2).
fn channel(target: &str, info: &str) -> Option<(Kind, Name)> {
    if let Some(inode) = target.strip_prefix("pipe:[") {
        return Some((Kind::Pipe, inode.strip_suffix(']')?.parse().ok()?));
    }
    let number = info.lines().find_map(|line| line.strip_prefix("eventfd-id:"));
    (target == "anon_inode:[eventfd]").then_some((Kind::Eventfd, number?.trim().parse().ok()?))
}

/// Returns the message queue on which the link `fd` of /proc is open, if it is one: a file of the device `queues`.
fn queue(fd: &Path, queues: u64) -> Option<(Kind, Name)> {
    let file = fs::metadata(fd).ok().filter(|file| file.dev() == queues && file.is_file())?;
    Some((Kind::Queue, file.ino()))
}

/// The flags with which a descriptor was opened.
fn flags(info: &str) -> u32 {
    let octal = info.lines().find_map(|line| line.strip_prefix("flags:"));
    octal.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn what_proc_says_of_a_descriptor() {
        let info = "pos:\t0\nflags:\t02000002\nmnt_id:\t15\neventfd-count: 0\neventfd-id: 7\n";
        assert_eq!(channel("pipe:[4711]", "flags:\t00\n"), Some((Kind::Pipe, 4711)));
        assert_eq!(channel("anon_inode:[eventfd]", info), Some((Kind::Eventfd, 7)));
        assert_eq!(channel("anon_inode:[eventfd]", "flags:\t00\n"), None);
        assert_eq!((channel("/dev/null", info), channel("socket:[1]", info)), (None, None));
        assert_eq!(
            (flags(info) & CLOSE_ON_EXEC, flags("flags:\t0100000\n") & CLOSE_ON_EXEC),
            (CLOSE_ON_EXEC, 0)
        );
    }

    #[test]
    fn a_file_of_their_device_is_a_queue() {
        let file = tempfile::tempfile().expect("a file");
        let link = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let found = file.metadata().expect("an open file");
        assert_eq!(queue(&link, found.dev()), Some((Kind::Queue, found.ino())));
        assert_eq!(queue(&link, found.dev() + 1), None);
        assert_eq!(
            queue(Path::new("/proc/self/fd"), fs::metadata("/proc/self/fd").expect("proc").dev()),
            None
        );
    }

    #[test]
    fn both_ends_of_a_pipe_of_this_process_are_one_channel() {
        let (out, into) = std::io::pipe().expect("a pipe");
        let mut all = descriptors(Path::new("/proc"), true);
        let mut of = |fd: i32| all.open_on(std::process::id(), u32::try_from(fd).expect("a descriptor"));
        let channel = of(out.as_raw_fd()).expect("its end for reading");
        assert_eq!(of(into.as_raw_fd()), Some(channel));
        assert_eq!(all.channel(channel).kind, Kind::Pipe);
    }
}
