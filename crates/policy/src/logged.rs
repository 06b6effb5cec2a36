// SPDX-License-Identifier: GPL-2.0-or-later
//! The policy in the layout of a BPF build, driven by records of a log: safe Rust over logged.c.
//!
//! What a record is made of is in log_record.h; the file that they come from is read by the crate wakelab-log.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::{NonNull, null_mut};
use std::slice;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::logged_names::place_name;
use crate::{Error, PolicySpec, Tables};

/// Records are made of units of so many bytes: `WL_LOG_UNIT`.
pub const LOG_UNIT: usize = 16;
/// `WL_LOG_CUT`: the policy read more than the record has room for.
pub const LOG_CUT: u16 = 1;
/// `WL_LOG_HAS_TASK`: the task's record is part of it.
pub const LOG_HAS_TASK: u16 = 2;
/// `WL_LOG_HAS_WAKER`: the waker's is.
pub const LOG_HAS_WAKER: u16 = 4;

/// Declares `enum wl_log_kind` with names for reports.
macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// What a record tells or asks: `enum wl_log_kind`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum LogKind {
            $($(#[$doc])* $variant,)*
        }

        impl LogKind {
            /// All, in the order of log_record.h.
            pub const ALL: &'static [LogKind] = &[$(LogKind::$variant,)*];

            /// The word used in reports.
            pub fn name(self) -> &'static str {
                match self {
                    $(LogKind::$variant => $text,)*
                }
            }
        }
    };
}

kinds! {
    /// The last record of a log: how many were lost.
    End = "end",
    /// Where should a task run?
    Select = "select",
    /// A task joins a queue.
    Enqueue = "enqueue",
    /// A CPU needs something to run.
    Dispatch = "dispatch",
    /// May a task be pulled?
    MayMove = "may-move",
    /// Should a queued task run now?
    MayRun = "may-run",
    /// A tick.
    Tick = "tick",
    /// The host's periodic timer.
    Timer = "timer",
    /// A CPU left its idle task.
    Busy = "busy",
    /// A CPU went to its idle task.
    Idle = "idle",
    /// A task was switched in.
    Running = "running",
    /// A task is switched out.
    Stopping = "stopping",
    /// A task is not runnable any more, or leaves its queue.
    Quiescent = "quiescent",
    /// A task's record begins.
    TaskInit = "task-init",
    /// A task may run on other CPUs.
    Affinity = "affinity",
    /// A task has another weight.
    Weight = "weight",
    /// A task belongs to another group.
    Group = "group",
    /// A task is gone.
    Exit = "exit",
    /// A group begins.
    GroupInit = "group-init",
    /// A group is gone.
    GroupExit = "group-exit",
    /// A group has other shares.
    GroupShares = "group-shares",
    /// How long a search took.
    ScanTook = "scan-took",
    /// A task of a higher class runs on a CPU, and others wait.
    Taken = "taken",
}

impl LogKind {
    /// The one with C's value `raw`, if there is one.
    pub fn from_raw(raw: u16) -> Option<LogKind> {
        LogKind::ALL.get(usize::from(raw)).copied()
    }

    /// Bytes of its answer; 0: it has none.
    pub fn answer_bytes(self) -> usize {
        // SAFETY: only computes.
        unsafe { wl_logged_answer_bytes(u32::from(self as u16)) as usize }
    }

    /// Is it a question, whose answer can be compared?
    pub fn is_question(self) -> bool {
        (LogKind::Select..=LogKind::Tick).contains(&self)
    }
}

/// `struct wl_log_head`: how a record begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct LogHead {
    /// Of the whole record, in bytes.
    pub size: u32,
    /// [`LogKind`].
    pub kind: u16,
    /// [`LOG_CUT`] and others.
    pub flags: u16,
    /// Where it happened.
    pub cpu: u32,
    /// Notes that are part of it.
    pub nr_notes: u32,
    /// Counts the CPU's records, lost ones too.
    pub seq: u64,
    /// As the policy was told.
    pub now_ns: u64,
    /// The task's id.
    pub task: u64,
    /// Where the task's record was.
    pub task_at: u32,
    /// And the waker's.
    pub waker_at: u32,
    /// What they mean depends on the kind: log_record.h.
    pub args: [u64; 4],
}

/// `struct wl_note`: a value that the policy read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Note {
    /// Of what: depends on the kind.
    pub what: u32,
    /// One of [`Note::READ`], [`Note::GROUP`], [`Note::GROUP_CPU`], [`Note::CLAIM`].
    pub kind: u32,
    /// What was there.
    pub value: u64,
}

impl Note {
    /// A read of the policy's state, at this distance from its begin.
    pub const READ: u32 = 0;
    /// A look for the record of a group, by slot.
    pub const GROUP: u32 = 1;
    /// A look for the record of a group on a CPU.
    pub const GROUP_CPU: u32 = 2;
    /// An attempt to claim a CPU.
    pub const CLAIM: u32 = 3;
}

/// `struct wl_logged_found`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct FoundC {
    nr_notes: u32,
    first_unused: u32,
    nr_missing: u32,
    cut: u32,
    missing: Note,
}

/// What came out of replaying a question, besides its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The first note that this policy did not ask for, by its place in the record.
    pub unused: Option<usize>,
    /// Reads of this policy that the record has no value of.
    pub nr_missing: u32,
    /// The first of them, without a value.
    pub missing: Note,
}

/// The sizes of what a log consists of, in bytes. A log of a build with others cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the C names")]
pub struct LoggedLayout {
    pub policy: u32,
    pub task: u32,
    pub group: u32,
    pub group_cpu: u32,
}

#[repr(C)]
struct Instance {
    _private: [u8; 0],
}

unsafe extern "C" {
    static wl_logged_layout: [u32; 15];
    fn wl_logged_size(nr_cpus: u32, nr_groups: u32, nr_tasks: u32) -> u64;
    fn wl_logged_init(l: *mut Instance);
    fn wl_logged_answer_bytes(kind: u32) -> u32;
    fn wl_logged_task_at(l: *mut Instance, task: u32) -> u64;
    fn wl_logged_groups_at(l: *mut Instance, of_cpus: u32) -> u64;
    fn wl_logged_set_idle(l: *mut Instance, cpu: u32, idle: u32);
    fn wl_logged_is_idle(l: *mut Instance, cpu: u32) -> u32;
    fn wl_logged_apply(
        l: *mut Instance,
        head: *const LogHead,
        task: u32,
        waker: u32,
        notes: *mut Note,
        used: *mut u8,
        max_notes: u32,
        answer: *mut u8,
        found: *mut FoundC,
    );
}

fn layout_of_c() -> &'static [u32; 15] {
    // SAFETY: a constant array of that many elements.
    unsafe { &wl_logged_layout }
}

/// One instance, with the memory of its groups and of `nr_tasks` tasks.
#[derive(Debug)]
pub struct Logged {
    state: NonNull<Instance>,
    layout: Layout,
    nr_cpus: usize,
    nr_groups: usize,
    nr_tasks: usize,
}

// SAFETY: the instance is owned memory without ties to a thread; it is written through `&mut self` only.
unsafe impl Send for Logged {}

impl Logged {
    /// `WL_MAX_CPUS` of a BPF build.
    pub const MAX_CPUS: usize = 1024;

    /// The sizes that a log of this version has.
    pub fn layout() -> LoggedLayout {
        let c = layout_of_c();
        LoggedLayout { policy: c[1], task: c[2], group: c[3], group_cpu: c[4] }
    }

    /// The policy `spec` on a machine with these tables, under a host with a tick of `tick_ns`, `nr_groups` slots of
    /// groups (the root's included; 0: none) and room for `nr_tasks` records of tasks.
    ///
    /// # Errors
    /// If the machine or the number of groups is too large, or the policy cannot be used there.
    pub fn new(
        spec: &PolicySpec,
        tables: &Tables,
        tick_ns: u64,
        nr_groups: usize,
        nr_tasks: usize,
    ) -> Result<Logged, Error> {
        let nr_cpus = tables.nr_cpus();
        if nr_cpus > Self::MAX_CPUS {
            return Err(Error::CpuCount { nr_cpus, max_cpus: Self::MAX_CPUS });
        }
        let params = spec.params_with_groups(nr_cpus, tick_ns, nr_groups)?;
        // SAFETY: only computes.
        let size = unsafe { wl_logged_size(nr_cpus as u32, params.nr_groups, nr_tasks as u32) } as usize;
        let layout = Layout::from_size_align(size, 64).expect("an instance is a few megabytes");
        // SAFETY: the layout's size is not zero.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(state) = NonNull::new(memory) else { handle_alloc_error(layout) };
        let logged = Logged { state: state.cast(), layout, nr_cpus, nr_groups, nr_tasks };
        // SAFETY: the memory is initialised (zero), of this size, and nobody else has it.
        let bytes = unsafe { slice::from_raw_parts_mut(state.as_ptr(), size) };
        tables.write_image(&params, Self::MAX_CPUS, bytes)?;
        // SAFETY: params and topology are in place, the rest is zero.
        unsafe { wl_logged_init(logged.raw()) };
        Ok(logged)
    }

    /// CPUs of the machine.
    pub fn nr_cpus(&self) -> usize {
        self.nr_cpus
    }

    /// The bytes of a task's record.
    ///
    /// # Panics
    /// If there is no such task.
    pub fn task(&self, task: usize) -> &[u8] {
        let at = self.task_at(task);
        // SAFETY: a record inside the instance, which was zeroed as a whole; nobody writes while the borrow lasts.
        unsafe {
            slice::from_raw_parts(self.state.as_ptr().cast::<u8>().add(at), Self::layout().task as usize)
        }
    }

    /// Writes a task's record.
    ///
    /// # Panics
    /// If there is no such task, or `bytes` are not as many as a record has.
    pub fn set_task(&mut self, task: usize, bytes: &[u8]) {
        let at = self.task_at(task);
        assert_eq!(bytes.len(), Self::layout().task as usize);
        // SAFETY: as in task(); `&mut self` keeps others out. The record is integers only.
        let record =
            unsafe { slice::from_raw_parts_mut(self.state.as_ptr().cast::<u8>().add(at), bytes.len()) };
        record.copy_from_slice(bytes);
    }

    /// Where a task's record is, as a note's `what`.
    ///
    /// # Panics
    /// If there is no such task.
    pub fn task_at(&self, task: usize) -> usize {
        assert!(task < self.nr_tasks, "task {task} of {}", self.nr_tasks);
        // SAFETY: only computes.
        unsafe { wl_logged_task_at(self.raw(), task as u32) as usize }
    }

    /// Where the records of groups are, and those of groups on CPUs (slot * CPUs + CPU), as a note's `what`.
    pub fn groups_at(&self) -> (usize, usize) {
        // SAFETY: only computes.
        unsafe { (wl_logged_groups_at(self.raw(), 0) as usize, wl_logged_groups_at(self.raw(), 1) as usize) }
    }

    /// The idle mask that live searches claim from.
    pub fn set_idle(&mut self, cpu: u32, idle: bool) {
        self.check_cpu(cpu);
        // SAFETY: live object, and the CPU exists.
        unsafe { wl_logged_set_idle(self.raw(), cpu, u32::from(idle)) };
    }

    /// Whether the mask has `cpu`.
    pub fn is_idle(&self, cpu: u32) -> bool {
        self.check_cpu(cpu);
        // SAFETY: live object, and the CPU exists; only reads.
        unsafe { wl_logged_is_idle(self.raw(), cpu) != 0 }
    }

    /// Tells or asks this instance what `head` says, from its own state, and returns what was read, or the first
    /// `max_notes` of it and true. `answer` holds the answer then; what is read of it is told in log_record.h.
    ///
    /// # Panics
    /// If the head names a CPU, slot or task that does not exist, or a kind that needs one has none.
    pub fn live(
        &mut self,
        head: &LogHead,
        task: Option<usize>,
        waker: Option<usize>,
        max_notes: usize,
        answer: &mut [u8],
    ) -> (Vec<Note>, bool) {
        let mut notes = vec![Note::default(); max_notes];
        let found = self.apply(head, task, waker, &mut notes, None, answer);
        notes.truncate(found.nr_notes as usize);
        (notes, found.cut != 0)
    }

    /// Asks what `head` says, every read being answered from `notes`.
    ///
    /// # Panics
    /// As [`Logged::live`].
    pub fn replay(
        &mut self,
        head: &LogHead,
        task: Option<usize>,
        waker: Option<usize>,
        notes: &mut [Note],
        answer: &mut [u8],
    ) -> Replayed {
        // One more, so that there is something to point to where there are no notes: it tells a replay.
        let mut used = vec![0; notes.len() + 1];
        let found = self.apply(head, task, waker, notes, Some(&mut used), answer);
        let unused = (found.first_unused < found.nr_notes).then_some(found.first_unused as usize);
        Replayed { unused, nr_missing: found.nr_missing, missing: found.missing }
    }

    fn apply(
        &mut self,
        head: &LogHead,
        task: Option<usize>,
        waker: Option<usize>,
        notes: &mut [Note],
        used: Option<&mut [u8]>,
        answer: &mut [u8],
    ) -> FoundC {
        self.check(head, task, waker, answer);
        let number = |task: Option<usize>| task.map_or(u32::MAX, |task| task as u32);
        let mut found = FoundC::default();
        // SAFETY: all pointers are to live objects of the sizes given, which check() compared with what the kind needs.
        unsafe {
            wl_logged_apply(
                self.raw(),
                head,
                number(task),
                number(waker),
                notes.as_mut_ptr(),
                used.map_or(null_mut(), |used| used.as_mut_ptr()),
                notes.len() as u32,
                answer.as_mut_ptr(),
                &mut found,
            );
        }
        found
    }

    /// What C does not look at itself.
    fn check(&self, head: &LogHead, task: Option<usize>, waker: Option<usize>, answer: &[u8]) {
        let kind = LogKind::from_raw(head.kind).expect("a kind of record");
        self.check_cpu(head.cpu);
        for task in [task, waker].into_iter().flatten() {
            assert!(task < self.nr_tasks, "task {task} of {}", self.nr_tasks);
        }
        assert!(answer.len() >= kind.answer_bytes(), "{} bytes for {}", answer.len(), kind.name());
        use LogKind as K;
        match kind {
            K::Enqueue | K::MayMove | K::MayRun | K::Running | K::Stopping => {
                self.check_cpu(head.args[0] as u32);
                assert!(task.is_some(), "{} of a task", kind.name());
            }
            K::Dispatch | K::Tick | K::Timer | K::Taken | K::Busy | K::Idle | K::ScanTook => {
                self.check_cpu(head.args[0] as u32);
            }
            K::Select | K::Quiescent | K::TaskInit | K::Affinity | K::Weight | K::Exit => {
                assert!(task.is_some(), "{} of a task", kind.name());
            }
            K::Group => {
                assert!(task.is_some(), "{} of a task", kind.name());
                assert!(head.args[0] == 0 || (head.args[0] as usize) < self.nr_groups);
            }
            K::GroupInit | K::GroupExit | K::GroupShares => {
                assert!((head.args[0] as usize) < self.nr_groups, "group {}", head.args[0]);
            }
            K::End => {}
        }
    }

    fn check_cpu(&self, cpu: u32) {
        assert!((cpu as usize) < self.nr_cpus, "CPU {cpu} of a machine with {}", self.nr_cpus);
    }

    /// What a note of this instance is of, in words: `cpu[3].nr_queued`, `group[2].shares`, `task.place`.
    pub fn name(&self, note: &Note) -> String {
        let what = note.what as usize;
        let nr_cpus = self.nr_cpus.max(1);
        match note.kind {
            Note::GROUP => format!("group[{what}]"),
            Note::GROUP_CPU => format!("group[{}].cpu[{}]", what / nr_cpus, what % nr_cpus),
            Note::CLAIM => format!("claim of CPU {what}"),
            _ => place_name(&self.places(), what),
        }
    }

    fn places(&self) -> Places {
        let c = layout_of_c().map(|value| value as usize);
        let (groups, group_cpus) = self.groups_at();
        Places {
            cpus: c[7],
            counters: c[9],
            blocks: c[10],
            loaded: c[11],
            overloaded: c[12],
            policy_end: c[1],
            groups,
            group_cpus,
            tasks: if self.nr_tasks > 0 { self.task_at(0) } else { usize::MAX },
            task_bytes: c[2],
            nr_cpus: self.nr_cpus,
        }
    }

    fn raw(&self) -> *mut Instance {
        self.state.as_ptr()
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        // SAFETY: allocated in new() with this layout, and not used after this.
        unsafe { dealloc(self.state.as_ptr().cast(), self.layout) };
    }
}

/// Where the parts of an instance begin.
pub(crate) struct Places {
    pub(crate) cpus: usize,
    pub(crate) counters: usize,
    pub(crate) blocks: usize,
    pub(crate) loaded: usize,
    pub(crate) overloaded: usize,
    pub(crate) policy_end: usize,
    pub(crate) groups: usize,
    pub(crate) group_cpus: usize,
    pub(crate) tasks: usize,
    pub(crate) task_bytes: usize,
    pub(crate) nr_cpus: usize,
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;
    use crate::{CpuState, Dispatch, Group, GroupCpu, Move, Task};

    #[test]
    fn the_layout_is_that_of_c() {
        let c = layout_of_c();
        assert_eq!(c[0] as usize, Logged::MAX_CPUS);
        assert_eq!(c[3] as usize, size_of::<Group>());
        assert_eq!(c[4] as usize, size_of::<GroupCpu>());
        assert_eq!(c[5] as usize, size_of::<LogHead>());
        assert_eq!(c[6] as usize, 2 * size_of::<Dispatch>() + size_of::<Move>());
        assert_eq!(c[8] as usize, size_of::<CpuState>());
        // The mask is the last field, and as long as the build has CPUs.
        assert_eq!(c[2] as usize, offset_of!(Task, allowed) + Logged::MAX_CPUS / 8);
        assert_eq!(c[13] as usize, offset_of!(Task, id));
        assert_eq!(c[14] as usize, LogKind::ALL.len());
        assert_eq!(size_of::<Note>(), LOG_UNIT);
    }
}
