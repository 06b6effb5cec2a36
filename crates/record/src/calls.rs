// SPDX-License-Identifier: GPL-2.0-or-later
//! System calls that use pipes, eventfds and POSIX message queues, and those that open, copy and close descriptors:
//! which of the kernel's events are recorded of them, and what these say.

use std::collections::HashMap;
use std::path::Path;

use wakelab_trace::PerfLine;

use crate::descriptors::{ChannelId, Descriptor, Descriptors, Kind};

/// The subsystem of the events of single system calls.
const SUBSYSTEM: &str = "syscalls";
/// How the names of events begin.
const ENTER: &str = "sys_enter_";
const EXIT: &str = "sys_exit_";

/// O_CLOEXEC and its other names (SOCK_CLOEXEC, EFD_CLOEXEC, ...), on every architecture but Alpha, PA-RISC and SPARC.
const CLOEXEC: u64 = 0o2_000_000;
/// CLOSE_RANGE_CLOEXEC of close_range: it marks the descriptors instead of closing them.
const RANGE_CLOEXEC: u64 = 4;

/// Commands of fcntl (include/uapi/linux/fcntl.h).
const F_DUPFD: u64 = 0;
const F_SETFD: u64 = 2;
const F_DUPFD_CLOEXEC: u64 = 1030;
const F_SETPIPE_SZ: u64 = 1031;

/// Whether an exec closes the descriptor that a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnExec {
    /// It does if this argument has this bit.
    If(&'static str, u64),
    Closes,
    Stays,
}

/// A message of a queue counts as one byte, whatever its length, because a queue has room for a number of messages.
const MESSAGE_BYTES: u64 = 1;

/// What a call does with descriptors. Names are those of arguments in its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Reads from a descriptor.
    Read(&'static str),
    /// Writes to a descriptor; the second argument is the number of bytes.
    Write(&'static str, &'static str),
    /// Reads from the first descriptor and writes to the second.
    Move(&'static str, &'static str),
    /// Returns a new descriptor.
    Open(OnExec),
    Eventfd(OnExec),
    Pipe(OnExec),
    /// Returns a new descriptor of a message queue, which an exec closes.
    Queue,
    /// Sends a message to a queue.
    Send(&'static str),
    /// Receives a message from a queue.
    Receive(&'static str),
    /// Opens two descriptors that are no pipe.
    OpenTwo(OnExec),
    /// Returns a copy of a descriptor, which has the lowest number.
    Dup,
    /// Makes a copy of a descriptor with the number that it returns.
    DupTo,
    Fcntl,
    Close,
    CloseRange,
}

const IF_FLAG: OnExec = OnExec::If("flags", CLOEXEC);

/// The calls that are recorded.
const CALLS: [(&str, Effect); 47] = [
    ("read", Effect::Read("fd")),
    ("readv", Effect::Read("fd")),
    ("write", Effect::Write("fd", "count")),
    ("writev", Effect::Write("fd", "")),
    ("vmsplice", Effect::Write("fd", "")),
    ("tee", Effect::Write("fdout", "")),
    ("splice", Effect::Move("fd_in", "fd_out")),
    ("sendfile64", Effect::Move("in_fd", "out_fd")),
    ("pipe", Effect::Pipe(OnExec::Stays)),
    ("pipe2", Effect::Pipe(IF_FLAG)),
    ("eventfd", Effect::Eventfd(OnExec::Stays)),
    ("eventfd2", Effect::Eventfd(IF_FLAG)),
    ("socketpair", Effect::OpenTwo(OnExec::If("type", CLOEXEC))),
    ("dup", Effect::Dup),
    ("dup2", Effect::DupTo),
    ("dup3", Effect::DupTo),
    ("fcntl", Effect::Fcntl),
    ("close", Effect::Close),
    ("close_range", Effect::CloseRange),
    ("open", Effect::Open(IF_FLAG)),
    ("openat", Effect::Open(IF_FLAG)),
    // Its flags are in memory. Nearly all programs that use it set O_CLOEXEC.
    ("openat2", Effect::Open(OnExec::Closes)),
    ("open_by_handle_at", Effect::Open(IF_FLAG)),
    ("creat", Effect::Open(OnExec::Stays)),
    ("socket", Effect::Open(OnExec::If("type", CLOEXEC))),
    ("accept", Effect::Open(OnExec::Stays)),
    ("accept4", Effect::Open(IF_FLAG)),
    ("epoll_create", Effect::Open(OnExec::Stays)),
    ("epoll_create1", Effect::Open(IF_FLAG)),
    ("timerfd_create", Effect::Open(IF_FLAG)),
    ("signalfd", Effect::Open(OnExec::Stays)),
    ("signalfd4", Effect::Open(IF_FLAG)),
    ("inotify_init", Effect::Open(OnExec::Stays)),
    ("inotify_init1", Effect::Open(IF_FLAG)),
    ("fanotify_init", Effect::Open(OnExec::If("flags", 1))),
    ("memfd_create", Effect::Open(OnExec::If("flags", 1))),
    ("memfd_secret", Effect::Open(IF_FLAG)),
    ("pidfd_open", Effect::Open(OnExec::Closes)),
    ("pidfd_getfd", Effect::Open(OnExec::Closes)),
    ("perf_event_open", Effect::Open(OnExec::If("flags", 8))),
    ("userfaultfd", Effect::Open(IF_FLAG)),
    ("io_uring_setup", Effect::Open(OnExec::Closes)),
    ("bpf", Effect::Open(OnExec::Closes)),
    ("mq_open", Effect::Queue),
    ("mq_timedsend", Effect::Send("mqdes")),
    ("mq_timedreceive", Effect::Receive("mqdes")),
    ("landlock_create_ruleset", Effect::Open(OnExec::Closes)),
];

/// Which calls are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// All but those of queues.
    pub(crate) descriptors: bool,
    /// Those that open message queues, send and receive. Few programs make them, so they cost nothing else.
    pub(crate) queues: bool,
}

impl Effect {
    fn is_of_queue(self) -> bool {
        matches!(self, Effect::Queue | Effect::Send(_) | Effect::Receive(_))
    }
}

/// Returns the events of these calls that the kernel has, in `folder`. Kernels lack the older ones of two calls.
pub(crate) fn events(folder: &Path, wanted: Wanted) -> Vec<String> {
    let is_wanted = |effect: Effect| if effect.is_of_queue() { wanted.queues } else { wanted.descriptors };
    let all = CALLS.into_iter().filter(|(_, effect)| is_wanted(*effect)).flat_map(|(name, effect)| {
        let enter = !matches!(effect, Effect::Open(OnExec::Stays | OnExec::Closes) | Effect::Queue);
        let exit = !matches!(effect, Effect::Close | Effect::CloseRange);
        [(ENTER, enter), (EXIT, exit)]
            .into_iter()
            .filter(|(_, is_used)| *is_used)
            .map(move |(side, _)| format!("{side}{name}"))
    });
    all.filter(|event| folder.join(SUBSYSTEM).join(event).is_dir())
        .map(|event| format!("{SUBSYSTEM}:{event}"))
        .collect()
}

/// A call that has not ended.
#[derive(Clone, Debug)]
struct Pending {
    effect: Effect,
    /// The values of its arguments, as the event has them.
    arguments: String,
    /// What it writes to.
    writes: Option<ChannelId>,
}

/// What an event says of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It is no event of a call.
    OtherEvent,
    Nothing,
    /// A task begins to write to a channel. The number is that of the bytes, if the event tells it.
    Writes(ChannelId, Option<u64>),
    /// A call has ended that wrote `bytes`, if it wrote to a channel, and that took them from the channel `read`.
    Ended {
        bytes: u64,
        read: Option<ChannelId>,
    },
}

/// Follows the calls of all tasks.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub(crate) descriptors: Descriptors,
    /// By task.
    pending: HashMap<u32, Pending>,
}

impl Calls {
    pub(crate) fn new(descriptors: Descriptors) -> Calls {
        Calls { descriptors, pending: HashMap::new() }
    }

    /// Takes an event, in the order of time.
    pub(crate) fn event(&mut self, line: &PerfLine<'_>) -> Said {
        let (Some(tid), Some(process)) = (line.tid, line.process) else {
            return if line.subsystem == SUBSYSTEM { Said::Nothing } else { Said::OtherEvent };
        };
        match (line.subsystem, line.name) {
            ("sched", "sched_process_fork") => {
                let child = line.fields.rsplit_once("child_pid=").and_then(|(_, child)| child.parse().ok());
                if let Some(child) = child {
                    self.descriptors.forked(process, child);
                }
                Said::OtherEvent
            }
            ("sched", "sched_process_exec") => {
                self.descriptors.executed(process);
                Said::OtherEvent
            }
            (SUBSYSTEM, name) => {
                let effect =
                    |name: &str| CALLS.iter().find(|(call, _)| *call == name).map(|&(_, effect)| effect);
                if let Some(effect) = name.strip_prefix(ENTER).and_then(effect) {
                    self.enter(tid, process, effect, line.fields)
                } else if let Some(effect) = name.strip_prefix(EXIT).and_then(effect) {
                    let returned = returned(line.fields);
                    let entered = self.pending.remove(&tid).filter(|call| call.effect == effect);
                    returned.map_or(Said::Nothing, |value| self.exit(process, effect, entered, value))
                } else if name.starts_with(ENTER) || name.starts_with(EXIT) {
                    // sched_yield, which is recorded for other reasons.
                    Said::OtherEvent
                } else {
                    Said::Nothing
                }
            }
            _ => Said::OtherEvent,
        }
    }

    fn enter(&mut self, tid: u32, process: u32, effect: Effect, arguments: &str) -> Said {
        let fd = |name: &str| argument(arguments, name).and_then(|fd| u32::try_from(fd).ok());
        let writes = match effect {
            Effect::Write(name, _) | Effect::Move(_, name) | Effect::Send(name) => {
                fd(name).and_then(|fd| self.descriptors.open_on(process, fd))
            }
            // The kernel closes a descriptor first, and the number can be given again before the call ends.
            Effect::Close => {
                if let Some(fd) = fd("fd") {
                    self.descriptors.closed(process, fd, fd);
                }
                None
            }
            Effect::CloseRange => {
                self.close_range(process, arguments);
                None
            }
            _ => None,
        };
        self.pending.insert(tid, Pending { effect, arguments: arguments.to_owned(), writes });
        let asked = match effect {
            Effect::Write(_, count) => argument(arguments, count),
            Effect::Send(_) => Some(MESSAGE_BYTES),
            _ => None,
        };
        writes.map_or(Said::Nothing, |channel| Said::Writes(channel, asked))
    }

    fn close_range(&mut self, process: u32, arguments: &str) {
        let number = |name: &str| argument(arguments, name);
        let (Some(first), Some(last)) = (number("fd"), number("max_fd")) else { return };
        let Ok(first) = u32::try_from(first) else { return };
        let last = u32::try_from(last).unwrap_or(u32::MAX);
        if number("flags").is_some_and(|flags| flags & RANGE_CLOEXEC != 0) {
            self.descriptors.set_close_on_exec(process, first, last, true);
        } else {
            self.descriptors.closed(process, first, last);
        }
    }

    /// A call ends. `entered` is `None` if its beginning was not recorded.
    fn exit(&mut self, process: u32, effect: Effect, entered: Option<Pending>, value: i64) -> Said {
        let arguments = entered.as_ref().map_or("", |call| call.arguments.as_str());
        let number = |name: &str| argument(arguments, name).and_then(|value| u32::try_from(value).ok());
        if let Effect::Read(_) | Effect::Write(..) | Effect::Move(..) | Effect::Send(_) | Effect::Receive(_) =
            effect
        {
            let bytes = match u64::try_from(value) {
                Ok(_) if effect.is_of_queue() => MESSAGE_BYTES,
                value => value.unwrap_or(0),
            };
            let read = match effect {
                Effect::Read(fd) | Effect::Move(fd, _) | Effect::Receive(fd) if bytes > 0 => {
                    number(fd).and_then(|fd| self.descriptors.open_on(process, fd))
                }
                _ => None,
            };
            let writes = entered.is_some_and(|call| call.writes.is_some());
            return if writes || read.is_some() { Said::Ended { bytes, read } } else { Said::Nothing };
        }
        let Ok(value) = u32::try_from(value) else { return Said::Nothing };
        let closes = |on_exec: OnExec| match on_exec {
            OnExec::If(name, bit) => argument(arguments, name).is_some_and(|flags| flags & bit != 0),
            OnExec::Closes => true,
            OnExec::Stays => false,
        };
        let all = &mut self.descriptors;
        match effect {
            // bpf returns 0 where it opens nothing; calls that are marked alike never return it in practice.
            Effect::Open(on_exec) if value > 0 || on_exec != OnExec::Closes => {
                let descriptor = Descriptor { channel: None, close_on_exec: closes(on_exec) };
                all.opened(process, 0, value, descriptor);
            }
            Effect::Eventfd(on_exec) => {
                let channel = Some(all.add_channel(Kind::Eventfd));
                all.opened(process, 0, value, Descriptor { channel, close_on_exec: closes(on_exec) });
            }
            Effect::Queue => {
                let channel = Some(all.add_channel(Kind::Queue));
                all.opened(process, 0, value, Descriptor { channel, close_on_exec: true });
            }
            Effect::Pipe(on_exec) => all.opened_two(process, Some(Kind::Pipe), closes(on_exec)),
            Effect::OpenTwo(on_exec) => all.opened_two(process, None, closes(on_exec)),
            Effect::Dup => {
                if let Some(old) = number("fildes") {
                    let channel = all.open_on(process, old);
                    all.opened(process, 0, value, Descriptor { channel, close_on_exec: false });
                }
            }
            Effect::DupTo => {
                let close_on_exec = argument(arguments, "flags").is_some_and(|flags| flags & CLOEXEC != 0);
                if let Some(old) = number("oldfd") {
                    all.duplicated(process, old, value, close_on_exec);
                }
            }
            Effect::Fcntl => self.fcntl(process, arguments, value),
            _ => {}
        }
        Said::Nothing
    }

    fn fcntl(&mut self, process: u32, arguments: &str, value: u32) {
        let number = |name: &str| argument(arguments, name);
        let fd = number("fd").and_then(|fd| u32::try_from(fd).ok());
        let (Some(fd), Some(command), Some(given)) = (fd, number("cmd"), number("arg")) else { return };
        let all = &mut self.descriptors;
        match command {
            F_DUPFD | F_DUPFD_CLOEXEC => {
                let channel = all.open_on(process, fd);
                let descriptor = Descriptor { channel, close_on_exec: command == F_DUPFD_CLOEXEC };
                all.opened(process, u32::try_from(given).unwrap_or(value), value, descriptor);
            }
            F_SETFD => all.set_close_on_exec(process, fd, fd, given & 1 != 0),
            F_SETPIPE_SZ => {
                if let Some(channel) = all.open_on(process, fd) {
                    all.set_capacity(channel, value.into());
                }
            }
            _ => {}
        }
    }
}

/// Returns the argument `name` of `fd: 0x00000005, buf: 0x7ffd00, count: 0x00000064`. Some kernels print texts, too,
/// which may hold anything, so that the last one counts.
fn argument(arguments: &str, name: &str) -> Option<u64> {
    let value = |part| str::strip_prefix(part, name)?.strip_prefix(": 0x");
    let digits = arguments.rsplit(", ").find_map(value).filter(|_| !name.is_empty())?;
    u64::from_str_radix(digits.trim_end(), 16).ok()
}

/// Returns what a call returned, which is `0x64` or, for an error, `0xfffffffffffffff7`.
fn returned(fields: &str) -> Option<i64> {
    let digits = fields.trim().strip_prefix("0x")?;
    u64::from_str_radix(digits, 16).ok().map(u64::cast_signed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptors::Table;

    /// Takes an event of process `process`, which has one task.
    fn event(calls: &mut Calls, process: u32, event: &str, fields: &str) -> Said {
        let text = format!("     a b {process}/{process} [001] 1.000000001: {event}: {fields}");
        calls.event(&PerfLine::parse(&text).expect("an event"))
    }

    fn call(calls: &mut Calls, process: u32, name: &str, arguments: &str, value: &str) -> [Said; 2] {
        let enter = event(calls, process, &format!("syscalls:sys_enter_{name}"), arguments);
        [enter, event(calls, process, &format!("syscalls:sys_exit_{name}"), value)]
    }

    /// Process 7, with the descriptors 0 to 2.
    fn calls() -> Calls {
        let mut descriptors = Descriptors::default();
        let file = Descriptor { channel: None, close_on_exec: false };
        descriptors.set(7, (0..3).map(|fd| (fd, file)).collect::<Table>());
        Calls::new(descriptors)
    }

    #[test]
    fn arguments_and_results() {
        let text = "dfd: 0xffffff9c, filename: 0x7f \"a, flags: 0x7\", flags: 0x00080000, mode: 0x00000000";
        assert_eq!((argument(text, "flags"), argument(text, "mode")), (Some(0x80000), Some(0)));
        assert_eq!((argument(text, "fd"), argument(text, "")), (None, None));
        assert_eq!(
            (returned("0x64"), returned("0xfffffffffffffff5"), returned("x")),
            (Some(100), Some(-11), None)
        );
    }

    #[test]
    fn a_shell_connects_two_programs() {
        // pipe, fork, dup2, exec, as dash does `echo | cat`: 3 and 4 are the pipe.
        let mut all = calls();
        call(&mut all, 7, "pipe2", "fildes: 0x7ffd, flags: 0x00000000", "0x0");
        assert_eq!(
            event(&mut all, 7, "sched:sched_process_fork", "comm=a pid=7 child_comm=a child_pid=8"),
            Said::OtherEvent
        );
        event(&mut all, 7, "syscalls:sys_enter_close", "fd: 0x00000004");
        event(&mut all, 8, "syscalls:sys_enter_close", "fd: 0x00000003");
        call(&mut all, 8, "dup2", "oldfd: 0x00000004, newfd: 0x00000001", "0x1");
        event(&mut all, 8, "syscalls:sys_enter_close", "fd: 0x00000004");
        event(&mut all, 8, "sched:sched_process_exec", "filename=/bin/echo pid=8 old_pid=8");
        let written = call(&mut all, 8, "write", "fd: 0x00000001, buf: 0x7f, count: 0x00000006", "0x6");
        assert_eq!(written, [Said::Writes(0, Some(6)), Said::Ended { bytes: 6, read: None }]);
        let read = call(&mut all, 7, "read", "fd: 0x00000003, buf: 0x7f, count: 0x00001000", "0x6");
        assert_eq!(read, [Said::Nothing, Said::Ended { bytes: 6, read: Some(0) }]);
        // The end of the file, a file, and a terminal.
        assert_eq!(
            call(&mut all, 7, "read", "fd: 0x00000003, buf: 0x7f, count: 0x00001000", "0x0")[1],
            Said::Nothing
        );
        call(&mut all, 7, "openat", "dfd: 0xffffff9c, filename: 0x7f, flags: 0x00080000, mode: 0x0", "0x4");
        assert_eq!(
            call(&mut all, 7, "read", "fd: 0x00000004, buf: 0x7f, count: 0x1", "0x1")[1],
            Said::Nothing
        );
        assert_eq!(
            call(&mut all, 7, "write", "fd: 0x00000001, buf: 0x7f, count: 0x1", "0x1")[1],
            Said::Nothing
        );
    }

    #[test]
    fn copies_sizes_and_failures() {
        let mut all = calls();
        call(&mut all, 7, "pipe2", "fildes: 0x7ffd, flags: 0x00080000", "0x0");
        call(&mut all, 7, "fcntl", "fd: 0x00000004, cmd: 0x00000407, arg: 0x00100000", "0x100000");
        assert_eq!(all.descriptors.channel(0).capacity_bytes, Some(1 << 20));
        call(&mut all, 7, "fcntl", "fd: 0x00000004, cmd: 0x00000000, arg: 0x0000000a", "0xa");
        event(&mut all, 7, "sched:sched_process_exec", "filename=/bin/a pid=7 old_pid=7");
        // The copy has stayed open, the pipe's own descriptors have not.
        assert_eq!(
            call(&mut all, 7, "write", "fd: 0x0000000a, buf: 0x7f, count: 0x1", "0xfffffffffffffff5"),
            [Said::Writes(0, Some(1)), Said::Ended { bytes: 0, read: None }]
        );
        assert_eq!(
            call(&mut all, 7, "read", "fd: 0x00000003, buf: 0x7f, count: 0x1", "0x1")[1],
            Said::Nothing
        );
        call(&mut all, 7, "close_range", "fd: 0x00000003, max_fd: 0xffffffff, flags: 0x0", "0x0");
        call(&mut all, 7, "pipe2", "fildes: 0x7ffd, flags: 0x00000000", "0xffffffffffffffe8");
        call(&mut all, 7, "eventfd2", "count: 0x0, flags: 0x00080000", "0x3");
        assert_eq!(all.descriptors.channel(1).kind, Kind::Eventfd);
        let moved = call(
            &mut all,
            7,
            "splice",
            "fd_in: 0x00000003, off_in: 0x0, fd_out: 0x00000001, len: 0x8",
            "0x8",
        );
        assert_eq!(moved[1], Said::Ended { bytes: 8, read: Some(1) });
    }

    #[test]
    fn a_queue_is_shared_by_a_fork() {
        let mut all = calls();
        event(&mut all, 7, "syscalls:sys_exit_mq_open", "0x3");
        event(&mut all, 7, "sched:sched_process_fork", "comm=a pid=7 child_comm=a child_pid=8");
        let arguments =
            "mqdes: 0x00000003, u_msg_ptr: 0x7f, msg_len: 0x00000040, msg_prio: 0x0, timeout: 0x0";
        let sent = call(&mut all, 7, "mq_timedsend", arguments, "0x0");
        assert_eq!(sent, [Said::Writes(0, Some(1)), Said::Ended { bytes: 1, read: None }]);
        let received = call(&mut all, 8, "mq_timedreceive", arguments, "0x40");
        assert_eq!(received, [Said::Nothing, Said::Ended { bytes: 1, read: Some(0) }]);
        // It would have waited (EAGAIN).
        let sent = call(&mut all, 7, "mq_timedsend", arguments, "0xfffffffffffffff5");
        assert_eq!(sent[1], Said::Ended { bytes: 0, read: None });
        event(&mut all, 8, "sched:sched_process_exec", "filename=/bin/a pid=8 old_pid=8");
        assert_eq!(call(&mut all, 8, "mq_timedreceive", arguments, "0x40")[1], Said::Nothing);
    }

    #[test]
    fn other_events_are_left_alone() {
        let mut all = calls();
        assert_eq!(event(&mut all, 7, "sched:sched_switch", "x"), Said::OtherEvent);
        assert_eq!(event(&mut all, 7, "syscalls:sys_enter_sched_yield", ""), Said::OtherEvent);
        // Its beginning came before the recording.
        assert_eq!(event(&mut all, 7, "syscalls:sys_exit_read", "0x1"), Said::Nothing);
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["sys_enter_read", "sys_exit_read", "sys_enter_close", "sys_exit_close", "sys_enter_kill"]
        {
            std::fs::create_dir_all(folder.path().join("syscalls").join(name)).expect("a folder");
        }
        let expected = ["syscalls:sys_enter_read", "syscalls:sys_exit_read", "syscalls:sys_enter_close"];
        let wanted = |descriptors, queues| Wanted { descriptors, queues };
        assert_eq!(events(folder.path(), wanted(true, false)), expected);
        for name in ["sys_exit_mq_open", "sys_enter_mq_timedsend", "sys_exit_mq_timedsend"] {
            std::fs::create_dir_all(folder.path().join("syscalls").join(name)).expect("a folder");
        }
        let of_queues = [
            "syscalls:sys_exit_mq_open",
            "syscalls:sys_enter_mq_timedsend",
            "syscalls:sys_exit_mq_timedsend",
        ];
        assert_eq!(events(folder.path(), wanted(false, true)), of_queues);
        assert_eq!(events(folder.path(), wanted(true, true)), [&expected[..], &of_queues].concat());
    }
}
