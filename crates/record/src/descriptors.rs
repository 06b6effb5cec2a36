// SPDX-License-Identifier: GPL-2.0-or-later
//! Which descriptors of which process are open on which pipe, eventfd or message queue, followed from call to call.
//!
//! The kernel's events name descriptors, not files, and do not tell the two descriptors of a new pipe. They follow from
//! a rule of POSIX: the kernel takes the lowest numbers that are free. So a table holds all descriptors of a process,
//! whatever they are open on. It begins with what /proc showed before the recording. A fork copies it, an exec closes
//! what has FD_CLOEXEC.
//!
//! Worked example. 0 to 2 are open, and 4; a pipe then has 3 and 5. The process forks; the child closes 5 and reads
//! from 3, the parent closes 3 and writes to 5: both calls are on the same pipe.
//!
//! What goes unseen (a descriptor that comes in a message, or with CLONE_PIDFD; events that were lost) makes a table
//! wrong, but each call that returns a descriptor mends it: what it returns was free, and all lower numbers were not.
//! Where no table is known, a pipe stays unknown, and its calls are left out.
//!
//! It fails where threads share a process but not its table (CLONE_FILES without CLONE_THREAD, or the reverse), and
//! where two threads of a process open files in the same microsecond: the later one may get the lower number.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// A pipe, an eventfd or a message queue of a recording, from 0.
pub(crate) type ChannelId = usize;

/// What a channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Pipe,
    Eventfd,
    /// A POSIX message queue.
    Queue,
}

/// A pipe, an eventfd or a message queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Channel {
    pub(crate) kind: Kind,
    /// What a pipe holds, if a call has told it.
    pub(crate) capacity_bytes: Option<u64>,
}

/// An open descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// The channel on which it is open; `None`: it is open on something else.
    pub(crate) channel: Option<ChannelId>,
    /// An exec closes it.
    pub(crate) close_on_exec: bool,
}

/// The descriptors of a process.
pub(crate) type Table = BTreeMap<u32, Descriptor>;

/// The descriptors of all processes.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    channels: Vec<Channel>,
    /// By process.
    tables: HashMap<u32, Rc<Table>>,
    /// The tables that new tasks have if they are processes, and not threads, by task.
    copies: HashMap<u32, Rc<Table>>,
    /// Pipes and eventfds of processes without a table.
    pub(crate) unknown: u64,
}

impl Descriptors {
    /// Adds a channel that is not open yet.
    pub(crate) fn add_channel(&mut self, kind: Kind) -> ChannelId {
        self.channels.push(Channel { kind, capacity_bytes: None });
        self.channels.len() - 1
    }

    pub(crate) fn channel(&self, id: ChannelId) -> Channel {
        self.channels[id]
    }

    /// Sets what a process has open.
    pub(crate) fn set(&mut self, process: u32, table: Table) {
        self.tables.insert(process, Rc::new(table));
    }

    /// The table of a process; `None` if it is not known.
    fn table(&mut self, process: u32) -> Option<&mut Table> {
        if !self.tables.contains_key(&process) {
            let copy = self.copies.remove(&process)?;
            self.tables.insert(process, copy);
        }
        self.tables.get_mut(&process).map(Rc::make_mut)
    }

    /// Returns the channel on which a descriptor is open.
    pub(crate) fn open_on(&mut self, process: u32, fd: u32) -> Option<ChannelId> {
        self.table(process)?.get(&fd)?.channel
    }

    /// A call has returned the descriptor `fd`, the lowest free one that is not below `from`.
    pub(crate) fn opened(&mut self, process: u32, from: u32, fd: u32, descriptor: Descriptor) {
        let Some(table) = self.table(process) else { return };
        let taken = Descriptor { channel: None, close_on_exec: true };
        for lower in from..fd {
            table.entry(lower).or_insert(taken);
        }
        table.insert(fd, descriptor);
    }

    /// A call has opened two descriptors, the lowest free ones: both ends of a pipe, or of something else.
    pub(crate) fn opened_two(&mut self, process: u32, kind: Option<Kind>, close_on_exec: bool) {
        if self.table(process).is_none() {
            self.unknown += u64::from(kind.is_some());
            return;
        }
        let channel = kind.map(|kind| self.add_channel(kind));
        let Some(table) = self.table(process) else { return };
        for _ in 0..2 {
            table.insert(lowest_free(table), Descriptor { channel, close_on_exec });
        }
    }

    /// The descriptor `new` of a process is now open on what `old` is open on.
    pub(crate) fn duplicated(&mut self, process: u32, old: u32, new: u32, close_on_exec: bool) {
        let channel = self.open_on(process, old);
        if let Some(table) = self.table(process).filter(|_| old != new) {
            table.insert(new, Descriptor { channel, close_on_exec });
        }
    }

    pub(crate) fn closed(&mut self, process: u32, first: u32, last: u32) {
        if let Some(table) = self.table(process) {
            table.retain(|fd, _| !(first..=last).contains(fd));
        }
    }

    pub(crate) fn set_close_on_exec(&mut self, process: u32, first: u32, last: u32, close_on_exec: bool) {
        if let Some(table) = self.table(process).filter(|_| first <= last) {
            table.range_mut(first..=last).for_each(|(_, of)| of.close_on_exec = close_on_exec);
        }
    }

    pub(crate) fn set_capacity(&mut self, id: ChannelId, capacity_bytes: u64) {
        self.channels[id].capacity_bytes = Some(capacity_bytes);
    }

    /// A task of a process has made another one: a thread of the same process, or a process.
    pub(crate) fn forked(&mut self, process: u32, child: u32) {
        self.table(process);
        self.tables.remove(&child);
        match self.tables.get(&process) {
            Some(table) => self.copies.insert(child, Rc::clone(table)),
            None => self.copies.remove(&child),
        };
    }

    /// A process executes another program.
    pub(crate) fn executed(&mut self, process: u32) {
        if let Some(table) = self.table(process) {
            table.retain(|_, of| !of.close_on_exec);
        }
    }
}

/// The lowest number that no descriptor has.
fn lowest_free(table: &Table) -> u32 {
    (0..)
        .zip(table.keys())
        .find(|(number, fd)| number != *fd)
        .map_or(table.len() as u32, |(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Descriptor = Descriptor { channel: None, close_on_exec: false };

    /// Process 7 with these descriptors open on files.
    fn with_open(fds: &[u32]) -> Descriptors {
        let mut descriptors = Descriptors::default();
        descriptors.set(7, fds.iter().map(|&fd| (fd, FILE)).collect());
        descriptors
    }

    #[test]
    fn a_pipe_has_the_lowest_free_descriptors_and_a_child_inherits_them() {
        let mut all = with_open(&[0, 1, 2, 4]);
        all.opened_two(7, Some(Kind::Pipe), false);
        let pipe = all.open_on(7, 3).expect("its end for reading");
        assert_eq!((all.open_on(7, 5), all.open_on(7, 4), all.open_on(7, 6)), (Some(pipe), None, None));
        all.forked(7, 9);
        all.closed(7, 3, 3);
        all.closed(9, 5, 5);
        assert_eq!((all.open_on(7, 3), all.open_on(7, 5)), (None, Some(pipe)));
        assert_eq!((all.open_on(9, 3), all.open_on(9, 5)), (Some(pipe), None));
        // The child's next pipe is another one, and takes what it has closed.
        all.opened_two(9, Some(Kind::Pipe), false);
        assert!(all.open_on(9, 5).is_some_and(|other| other != pipe));
        assert_eq!(all.open_on(7, 5), Some(pipe));
    }

    #[test]
    fn an_id_that_is_given_again_is_another_process() {
        let mut all = with_open(&[]);
        all.opened_two(7, Some(Kind::Pipe), false);
        all.forked(7, 9);
        assert!(all.open_on(9, 0).is_some());
        all.closed(7, 0, 1);
        all.forked(7, 9);
        assert_eq!(all.open_on(9, 0), None);
    }

    #[test]
    fn an_exec_closes_what_is_marked() {
        let mut all = with_open(&[0]);
        all.opened_two(7, Some(Kind::Pipe), true);
        all.duplicated(7, 1, 0, false);
        all.set_close_on_exec(7, 2, 2, false);
        all.executed(7);
        assert!(all.open_on(7, 0).is_some() && all.open_on(7, 2).is_some());
        assert_eq!(all.open_on(7, 1), None);
    }

    #[test]
    fn what_a_call_returns_mends_the_table() {
        // 3 came in a message, unseen. The file that is opened then has 4, so that the pipe has 5 and 6.
        let mut all = with_open(&[0, 1, 2]);
        all.opened(7, 0, 4, FILE);
        all.opened_two(7, Some(Kind::Pipe), false);
        assert_eq!((all.open_on(7, 3), all.open_on(7, 4)), (None, None));
        assert!(all.open_on(7, 5).is_some() && all.open_on(7, 6).is_some());
        // F_DUPFD asks for 10 or above, so that nothing is known of 7 to 9.
        all.opened(7, 10, 10, FILE);
        all.opened_two(7, None, false);
        all.opened_two(7, Some(Kind::Pipe), false);
        assert_eq!((all.open_on(7, 7), all.open_on(7, 8)), (None, None));
        assert!(all.open_on(7, 9).is_some() && all.open_on(7, 11).is_some());
    }

    #[test]
    fn without_a_table_nothing_is_known() {
        let mut all = Descriptors::default();
        all.opened_two(7, Some(Kind::Pipe), false);
        all.opened_two(7, None, false);
        all.forked(7, 8);
        all.opened(8, 0, 3, FILE);
        assert_eq!((all.open_on(7, 0), all.open_on(8, 3), all.unknown), (None, None, 1));
    }
}
