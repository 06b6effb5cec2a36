// SPDX-License-Identifier: GPL-2.0-or-later
//! The policy in the layout of a BPF build, driven by events of a log: safe Rust over logged.c.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::{NonNull, null_mut};
use std::slice;

use wakelab_policy::{Answer, Error, Event, Need, PolicySpec, Tables, name_at};

use crate::mirror::{
    Found, MAX_CPUS, Note, NoteKind, WL_GROUP_BYTES, WL_GROUP_CPU_BYTES, WL_GROUP_CPU_FIELDS,
    WL_GROUP_FIELDS, WL_POLICY_BYTES, WL_POLICY_FIELDS, WL_TASK_BYTES, WL_TASK_FIELDS,
};

/// What the replay of a question found besides its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Index in the record of the first note that this policy did not ask for.
    pub unused: Option<usize>,
    /// The number of this policy's reads for which the record has no note.
    pub nr_missing: u32,
    /// The first such read, without a value.
    pub missing: Note,
}

#[repr(C)]
struct Instance {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn wl_logged_size(nr_cpus: u32, nr_groups: u32, nr_tasks: u32) -> u64;
    fn wl_logged_init(l: *mut Instance);
    fn wl_logged_task_at(l: *mut Instance, task: u32) -> u64;
    fn wl_logged_groups_at(l: *mut Instance, of_cpus: u32) -> u64;
    fn wl_logged_set_idle(l: *mut Instance, cpu: u32, idle: u32);
    fn wl_logged_is_idle(l: *mut Instance, cpu: u32) -> u32;
    fn wl_logged_apply(
        l: *mut Instance,
        event: *const Event,
        task: u32,
        waker: u32,
        notes: *mut Note,
        used: *mut u8,
        max_notes: u32,
        answer: *mut Answer,
        found: *mut Found,
    );
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
    /// Bytes of the policy's state and of a task's record. A log of a build with other sizes cannot be replayed.
    pub const BYTES: (usize, usize) = (WL_POLICY_BYTES, WL_TASK_BYTES);

    /// Returns the policy `spec` on a machine with these tables, under a host whose tick has the period `tick_ns`, with
    /// `nr_groups` slots of groups (including the root's; 0: none) and room for `nr_tasks` records of tasks.
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
        if nr_cpus > MAX_CPUS {
            return Err(Error::CpuCount { nr_cpus, max_cpus: MAX_CPUS });
        }
        let params = spec.params_on(tables, tick_ns, nr_groups)?;
        // SAFETY: the call only computes.
        let size = unsafe { wl_logged_size(nr_cpus as u32, params.nr_groups, nr_tasks as u32) } as usize;
        let layout = Layout::from_size_align(size, 64).expect("an instance is a few megabytes");
        // SAFETY: the layout's size is not zero.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(state) = NonNull::new(memory) else { handle_alloc_error(layout) };
        let logged = Logged { state: state.cast(), layout, nr_cpus, nr_groups, nr_tasks };
        // SAFETY: the memory is initialised (zero) and of this size, and there is no other reference to it.
        let bytes = unsafe { slice::from_raw_parts_mut(state.as_ptr(), size) };
        tables.write_image(&params, MAX_CPUS, bytes)?;
        // SAFETY: params and topology are filled in, and the rest is zero.
        unsafe { wl_logged_init(logged.raw()) };
        Ok(logged)
    }

    /// The number of CPUs of the machine.
    pub fn nr_cpus(&self) -> usize {
        self.nr_cpus
    }

    /// The bytes of a task's record.
    ///
    /// # Panics
    /// If there is no such task.
    pub fn task(&self, task: usize) -> &[u8] {
        let at = self.task_at(task);
        // SAFETY: a record inside the instance, which was zeroed as a whole; nothing writes it while the borrow lasts.
        unsafe { slice::from_raw_parts(self.state.as_ptr().cast::<u8>().add(at), WL_TASK_BYTES) }
    }

    /// Writes a task's record.
    ///
    /// # Panics
    /// If there is no such task, or `bytes` has another length than a record.
    pub fn set_task(&mut self, task: usize, bytes: &[u8]) {
        let at = self.task_at(task);
        assert_eq!(bytes.len(), WL_TASK_BYTES);
        // SAFETY: as in task(); `&mut self` excludes other references. The record has only integers.
        let record =
            unsafe { slice::from_raw_parts_mut(self.state.as_ptr().cast::<u8>().add(at), bytes.len()) };
        record.copy_from_slice(bytes);
    }

    /// The place of a task's record, as in a note's `what`.
    ///
    /// # Panics
    /// If there is no such task.
    pub fn task_at(&self, task: usize) -> usize {
        assert!(task < self.nr_tasks, "task {task} of {}", self.nr_tasks);
        // SAFETY: the call only computes.
        unsafe { wl_logged_task_at(self.raw(), task as u32) as usize }
    }

    /// The places of the records of groups, and of those of groups on CPUs (slot * CPUs + CPU), as in a note's `what`.
    pub fn groups_at(&self) -> (usize, usize) {
        // SAFETY: the calls only compute.
        unsafe { (wl_logged_groups_at(self.raw(), 0) as usize, wl_logged_groups_at(self.raw(), 1) as usize) }
    }

    /// Sets a bit of the idle mask, in which live searches claim.
    pub fn set_idle(&mut self, cpu: u32, idle: bool) {
        self.check_cpu(cpu);
        // SAFETY: live object, and the CPU exists.
        unsafe { wl_logged_set_idle(self.raw(), cpu, u32::from(idle)) };
    }

    /// Whether the mask has `cpu`.
    pub fn is_idle(&self, cpu: u32) -> bool {
        self.check_cpu(cpu);
        // SAFETY: live object, and the CPU exists; the call only reads.
        unsafe { wl_logged_is_idle(self.raw(), cpu) != 0 }
    }

    /// Applies `event` to this instance, from its own state. Returns what was read, or the first `max_notes` of it and
    /// true. `answer` then holds the answer; event.h says what is read of it.
    ///
    /// # Panics
    /// If the event names a CPU, slot or task that does not exist, or a kind that needs one has none.
    pub fn live(
        &mut self,
        event: &Event,
        task: Option<usize>,
        waker: Option<usize>,
        max_notes: usize,
        answer: &mut Answer,
    ) -> (Vec<Note>, bool) {
        let mut notes = vec![Note::default(); max_notes];
        let found = self.apply(event, task, waker, &mut notes, None, answer);
        notes.truncate(found.nr_notes as usize);
        (notes, found.cut != 0)
    }

    /// Asks the question in `event`; every read is answered from `notes`.
    ///
    /// # Panics
    /// As [`Logged::live`].
    pub fn replay(
        &mut self,
        event: &Event,
        task: Option<usize>,
        waker: Option<usize>,
        notes: &mut [Note],
        answer: &mut Answer,
    ) -> Replayed {
        // One more byte, so that the pointer is not null if there are no notes: a null pointer means live.
        let mut used = vec![0; notes.len() + 1];
        let found = self.apply(event, task, waker, notes, Some(&mut used), answer);
        let unused = (found.first_unused < found.nr_notes).then_some(found.first_unused as usize);
        Replayed { unused, nr_missing: found.nr_missing, missing: found.missing }
    }

    fn apply(
        &mut self,
        event: &Event,
        task: Option<usize>,
        waker: Option<usize>,
        notes: &mut [Note],
        used: Option<&mut [u8]>,
        answer: &mut Answer,
    ) -> Found {
        self.check(event, task, waker);
        let number = |task: Option<usize>| task.map_or(u32::MAX, |task| task as u32);
        let mut found = Found::default();
        // SAFETY: all pointers are to live objects of the sizes given, and check() has made sure that the event fits
        // them.
        unsafe {
            wl_logged_apply(
                self.raw(),
                event,
                number(task),
                number(waker),
                notes.as_mut_ptr(),
                used.map_or(null_mut(), |used| used.as_mut_ptr()),
                notes.len() as u32,
                answer,
                &mut found,
            );
        }
        found
    }

    /// Checks what C does not check itself.
    fn check(&self, event: &Event, task: Option<usize>, waker: Option<usize>) {
        if let Err(misfit) = event.check(self.nr_cpus, self.nr_groups) {
            panic!("{}; expected {}", misfit.found, misfit.expected);
        }
        for task in [task, waker].into_iter().flatten() {
            assert!(task < self.nr_tasks, "task {task} of {}", self.nr_tasks);
        }
        let needs_task = event.kind().is_some_and(|kind| kind.call().task == Need::Always);
        assert!(task.is_some() || !needs_task, "kind {} of a task", event.kind);
    }

    fn check_cpu(&self, cpu: u32) {
        assert!((cpu as usize) < self.nr_cpus, "CPU {cpu} of a machine with {}", self.nr_cpus);
    }

    /// Returns the place of a note of this instance in words: `cpu[3].nr_queued`, `group[2].shares`, `task.place`.
    pub fn name(&self, note: &Note) -> String {
        let what = note.what as usize;
        let nr_cpus = self.nr_cpus.max(1);
        match NoteKind::get(note.kind) {
            Some(NoteKind::Group) => format!("group[{what}]"),
            Some(NoteKind::GroupCpu) => format!("group[{}].cpu[{}]", what / nr_cpus, what % nr_cpus),
            Some(NoteKind::Claim) => format!("claim of CPU {what}"),
            _ => self.place(what),
        }
    }

    /// Returns the place at offset `what` in the instance, in words.
    fn place(&self, what: usize) -> String {
        let (groups, group_cpus) = self.groups_at();
        let tasks = if self.nr_tasks > 0 { self.task_at(0) } else { usize::MAX };
        if what >= tasks {
            return format!("task.{}", name_at(WL_TASK_FIELDS, (what - tasks) % WL_TASK_BYTES));
        }
        if what >= group_cpus {
            let (index, offset) =
                ((what - group_cpus) / WL_GROUP_CPU_BYTES, (what - group_cpus) % WL_GROUP_CPU_BYTES);
            let (slot, cpu) = (index / self.nr_cpus, index % self.nr_cpus);
            return format!("group[{slot}].cpu[{cpu}].{}", name_at(WL_GROUP_CPU_FIELDS, offset));
        }
        if what >= groups {
            let (slot, offset) = ((what - groups) / WL_GROUP_BYTES, (what - groups) % WL_GROUP_BYTES);
            return format!("group[{slot}].{}", name_at(WL_GROUP_FIELDS, offset));
        }
        if what >= WL_POLICY_BYTES { "host".to_owned() } else { name_at(WL_POLICY_FIELDS, what) }
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
