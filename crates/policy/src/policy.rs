// SPDX-License-Identifier: GPL-2.0-or-later
//! One instance of the policy's C state, and its entry points.
//!
//! The instance has its own zeroed pages, of which a small machine touches few. All calls take `&mut self`, so the
//! C code never runs twice at a time on one instance. It has no globals, so instances do not affect each other.
#![allow(unsafe_code)]

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::{NonNull, null_mut};
use std::slice;

use memmap2::MmapMut;
use wakelab_machine::{Distance, Topology};

use crate::ffi::{self, Instance};
use crate::{
    Answer, Block, CpuState, Decision, Dispatch, Enqueue, EnqueueIn, EnqueueWhy, Error, Event, Group,
    GroupCpu, MAX_CPUS, Move, MoveIn, Need, Params, PolicySpec, Run, Seen, SelectIn, Sleep, Tables, Task,
    Tick, Timer,
};

/// The length of a cache line.
const LINE_BYTES: usize = 64;

/// One instance of a policy on one machine, with the memory host's idle mask.
///
/// Every method that takes a CPU panics if the machine does not have it.
#[derive(Debug)]
pub struct Policy {
    state: NonNull<Instance>,
    /// What C has seen of the last call: a part of the instance.
    seen: NonNull<Seen>,
    /// The pages in which the instance lies.
    _pages: MmapMut,
    params: Params,
    tables: Tables,
}

// SAFETY: the instance is owned memory without ties to a thread; it is written through `&mut self` only.
unsafe impl Send for Policy {}

impl Policy {
    /// Returns the policy `spec` on `topology`, under a host whose tick has the period `tick_ns`.
    pub fn new(spec: &PolicySpec, topology: &Topology, tick_ns: u64) -> Result<Policy, Error> {
        Policy::with_tables(spec, Tables::build(topology, spec)?, tick_ns)
    }

    /// Like [`Policy::new`], with existing tables.
    pub fn with_tables(spec: &PolicySpec, tables: Tables, tick_ns: u64) -> Result<Policy, Error> {
        Policy::with_groups(spec, tables, tick_ns, 0)
    }

    /// Like [`Policy::with_tables`], with records of task groups in slots below `nr_groups`. Slot 0 is the root's.
    ///
    /// # Errors
    /// Also if `nr_groups` exceeds [`MAX_GROUPS`](crate::MAX_GROUPS).
    pub fn with_groups(
        spec: &PolicySpec,
        tables: Tables,
        tick_ns: u64,
        nr_groups: usize,
    ) -> Result<Policy, Error> {
        let params = spec.params_on(&tables, tick_ns, nr_groups)?;
        // SAFETY: the call only computes.
        let size =
            unsafe { ffi::wl_native_instance_size(tables.nr_cpus() as u32, params.nr_groups) } as usize;
        // Fresh pages come zeroed from the system, and only those that are used are ever touched. An ordinary block is
        // that of an earlier run, of which the allocator would write all 8 MB.
        let Ok(mut pages) = MmapMut::map_anon(size) else { handle_alloc_error(layout(size)) };
        let state = NonNull::from(&mut pages[..]).cast::<u8>();
        // SAFETY: the call only computes an address.
        let seen = unsafe { ffi::wl_native_seen(state.as_ptr().cast()) };
        let seen = NonNull::new(seen.cast_mut()).expect("a part of the instance");
        let policy = Policy { state: state.cast(), seen, _pages: pages, params, tables };
        // SAFETY: the memory is initialised (zero) and of this size, and there is no other reference to it.
        let bytes = unsafe { slice::from_raw_parts_mut(state.as_ptr(), size) };
        policy.tables.write_image(&params, MAX_CPUS, bytes)?;
        // SAFETY: params and topology are filled in and the rest is zero, as wl_init() requires.
        unsafe { ffi::wl_native_init(policy.raw()) };
        Ok(policy)
    }

    /// The machine's levels that this policy uses.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Axes and tunables, as the C code uses them.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The policy's record of a CPU, for checkers.
    pub fn cpu(&self, cpu: u32) -> CpuState {
        self.check(cpu);
        let mut out = CpuState::default();
        // SAFETY: live objects; the call only reads the policy.
        unsafe { ffi::wl_native_cpu(self.raw(), cpu, &mut out) };
        out
    }

    /// The idle CPUs of a block ([`crate::Blocks::block_of`]), for checkers. Only `idle=nearest` keeps them.
    ///
    /// # Panics
    /// If `block` is not below [`MAX_CPUS`].
    pub fn block(&self, block: u16) -> Block {
        assert!(usize::from(block) < MAX_CPUS, "block {block}");
        let mut out = Block::default();
        // SAFETY: live objects; the call only reads the policy.
        unsafe { ffi::wl_native_block(self.raw(), block.into(), &mut out) };
        out
    }

    /// The number of busy CPUs of a domain, for checkers; `None` at a level without counters.
    ///
    /// # Panics
    /// If there is no such domain.
    pub fn busy_count(&self, level: usize, domain: usize) -> Option<u32> {
        let table = &self.tables.levels[level];
        assert!(domain < table.first.len(), "domain {domain} of {}", table.first.len());
        // SAFETY: live object; the call only reads.
        table
            .has_counters
            .then(|| unsafe { ffi::wl_native_busy_count(self.raw(), level as u32, domain as u32) })
    }

    /// Whether the bit of an LLC, by its number among the domains of its level, says that the LLC has an idle CPU. Only
    /// `idle=nearest` keeps such bits.
    pub fn idle_llc(&self, llc: usize) -> bool {
        let nr = self.tables.levels[self.tables.llc_level].first.len();
        assert!(llc < nr, "LLC {llc} of {nr}");
        // SAFETY: live object; the call only reads.
        unsafe { ffi::wl_native_idle_llc(self.raw(), llc as u32) != 0 }
    }

    /// All of the policy's state and the idle mask, for comparing two instances.
    pub fn state(&self) -> &[u8] {
        // SAFETY: returns a constant.
        let size = unsafe { ffi::wl_native_state_size() } as usize;
        // SAFETY: the memory was zeroed as a whole and is not smaller; nothing writes while the borrow lasts.
        unsafe { slice::from_raw_parts(self.state.as_ptr().cast(), size) }
    }

    /// What the last select, enqueue, dispatch, tick, busy or idle read, and updated atomically. No decision depends on
    /// it.
    pub fn seen(&self) -> &Seen {
        // SAFETY: a pointer into the instance, which is not written while the borrow lasts.
        unsafe { self.seen.as_ref() }
    }

    /// Sets what a read of a line costs in picoseconds, by distance: a hit and a miss; and how many lines a look at a
    /// CPU reads. [`Seen::ps`] sums it up; at first reads cost nothing. No decision depends on it.
    pub fn set_read_prices(
        &mut self,
        hit_ps: &[u64; Distance::COUNT],
        miss_ps: &[u64; Distance::COUNT],
        lines_of_cpu: u32,
    ) {
        // SAFETY: live objects; C reads as many numbers as there are distances.
        unsafe { ffi::wl_native_set_prices(self.raw(), hit_ps.as_ptr(), miss_ps.as_ptr(), lines_of_cpu) };
    }

    /// Makes the call that the event describes. Writes `answer`, and reads it where event.h says so.
    ///
    /// # Panics
    /// If the event names what the machine does not have, or needs a task and there is none.
    pub fn apply(
        &mut self,
        event: &Event,
        task: Option<&mut Task>,
        waker: Option<&mut Task>,
        answer: &mut Answer,
    ) {
        if let Err(misfit) = event.check(self.tables.nr_cpus(), self.params.nr_groups as usize) {
            panic!("{}; expected {}", misfit.found, misfit.expected);
        }
        let needs_task = event.kind().is_some_and(|kind| kind.call().task == Need::Always);
        assert!(task.is_some() || !needs_task, "kind {} of a task", event.kind);
        let pointer = |task: Option<&mut Task>| task.map_or(null_mut(), |task| task as *mut Task);
        // SAFETY: live objects, or null where C allows it; the two tasks are distinct borrows.
        unsafe { ffi::wl_native_apply(self.raw(), event, pointer(task), pointer(waker), answer) };
    }

    /// Asks where the task should run. `waker` is the task current on `this_cpu`, if there is one.
    ///
    /// # Panics
    /// If `this_cpu` does not exist. `prev_cpu` may be anything.
    pub fn select(&mut self, input: &SelectIn, wakee: &mut Task, waker: Option<&mut Task>) -> Decision {
        let mut out = Decision::default();
        self.select_to(input, wakee, waker, &mut out);
        out
    }

    /// Like [`Policy::select`], with a place for the answer.
    pub fn select_to(
        &mut self,
        input: &SelectIn,
        wakee: &mut Task,
        waker: Option<&mut Task>,
        out: &mut Decision,
    ) {
        self.check(input.this_cpu as u32);
        let waker = waker.map_or(null_mut(), |task| task as *mut Task);
        *out = Decision::default();
        // SAFETY: all pointers are to live objects or null where C allows it.
        unsafe { ffi::wl_native_select(self.raw(), input, wakee, waker, out) };
    }

    /// Reports how long the whole [`Policy::select`] on `cpu` took, for a decision with `scan_timed`.
    pub fn scan_took(&mut self, cpu: u32, decision: &Decision, elapsed_ns: u64) {
        self.check(cpu);
        // SAFETY: live objects.
        unsafe { ffi::wl_native_scan_took(self.raw(), cpu, decision, elapsed_ns) };
    }

    /// Queues the task on `cpu`. The call happens on that CPU.
    pub fn enqueue(&mut self, task: &mut Task, cpu: u32, why: EnqueueWhy, now_ns: u64) -> Enqueue {
        self.enqueue_from(cpu, task, cpu, why, now_ns)
    }

    /// Queues the task on `cpu`. The call happens on `this_cpu`.
    pub fn enqueue_from(
        &mut self,
        this_cpu: u32,
        task: &mut Task,
        cpu: u32,
        why: EnqueueWhy,
        now_ns: u64,
    ) -> Enqueue {
        let mut out = Enqueue::default();
        self.enqueue_to(&EnqueueIn { cpu, why: why as u32, this_cpu, unused: 0, now_ns }, task, &mut out);
        out
    }

    /// Like [`Policy::enqueue_from`], with a place for the answer.
    pub fn enqueue_to(&mut self, input: &EnqueueIn, task: &mut Task, out: &mut Enqueue) {
        self.check(input.cpu);
        self.check(input.this_cpu);
        // SAFETY: live objects.
        unsafe { ffi::wl_native_enqueue(self.raw(), task, input, out) };
    }

    /// Asks what `cpu` should do next. Call it again after each pull, until the answer is not a pull.
    pub fn dispatch(&mut self, cpu: u32, now_ns: u64) -> Dispatch {
        let mut out = Dispatch::default();
        self.dispatch_to(cpu, now_ns, &mut out);
        out
    }

    /// Like [`Policy::dispatch`], with a place for the answer.
    pub fn dispatch_to(&mut self, cpu: u32, now_ns: u64, out: &mut Dispatch) {
        self.check(cpu);
        // SAFETY: live objects.
        unsafe { ffi::wl_native_dispatch(self.raw(), cpu, now_ns, out) };
    }

    /// Asks, during the pull `dispatch` to `cpu`, whether this task may be moved. It is queued on `dispatch.cpu`.
    pub fn may_move(&mut self, task: &mut Task, cpu: u32, now_ns: u64, dispatch: &mut Dispatch) -> Move {
        self.check(cpu);
        let input = MoveIn { cpu, unused: 0, now_ns };
        let mut out = Move::default();
        // SAFETY: live objects.
        unsafe { ffi::wl_native_may_move(self.raw(), task, &input, dispatch, &mut out) };
        out
    }

    /// Asks, with [`crate::Pick::Eligible`], whether this task, queued on `cpu`, should run there now.
    pub fn may_run(&mut self, task: &mut Task, cpu: u32, now_ns: u64) -> Run {
        self.check(cpu);
        let mut out = Run::default();
        // SAFETY: live objects.
        unsafe { ffi::wl_native_may_run(self.raw(), task, cpu, now_ns, &mut out) };
        out
    }

    /// A task arrived on `cpu` and preempts there: before [`Policy::may_run_told`] about those that wait. Returns
    /// whether these tell what `cpu` runs next; not if a task may be overdue, or if the CPU is to balance first.
    pub fn chooses(&mut self, cpu: u32, now_ns: u64) -> bool {
        self.check(cpu);
        // SAFETY: a live object.
        unsafe { ffi::wl_native_chooses(self.raw(), cpu, now_ns) != 0 }
    }

    /// Asks [`Policy::may_run`] about a task of this key, slice and weight; `None`: these do not tell.
    pub fn may_run_told(
        &mut self,
        cpu: u32,
        key: u64,
        slice_ns: u64,
        weight: u32,
        now_ns: u64,
    ) -> Option<bool> {
        self.check(cpu);
        // SAFETY: a live object.
        let told = unsafe { ffi::wl_native_may_run_told(self.raw(), cpu, key, slice_ns, weight, now_ns) };
        // WL_RUN_NO, WL_RUN_YES
        [false, true].into_iter().zip(0..).find(|(_, number)| *number == told).map(|(runs, _)| runs)
    }

    /// Asks, with [`Dispatch::overdue`], whether this task, queued on `cpu`, has waited for too long, and for longer
    /// than those asked about before.
    pub fn overdue(&mut self, task: &mut Task, cpu: u32, now_ns: u64) -> Run {
        self.check(cpu);
        let mut out = Run::default();
        // SAFETY: live objects.
        unsafe { ffi::wl_native_overdue(self.raw(), task, cpu, now_ns, &mut out) };
        out
    }

    /// Reports a tick on the busy `cpu`. `task` is the running task, if it is the policy's.
    pub fn tick(&mut self, cpu: u32, task: Option<&mut Task>, now_ns: u64) -> Tick {
        self.check(cpu);
        let task = task.map_or(null_mut(), |task| task as *mut Task);
        let mut out = Tick::default();
        // SAFETY: live objects, or null where C allows it.
        unsafe { ffi::wl_native_tick(self.raw(), cpu, task, now_ns, &mut out) };
        out
    }

    /// Reports that the host's periodic timer fired on `cpu`.
    pub fn timer(&mut self, cpu: u32, now_ns: u64) -> Timer {
        self.check(cpu);
        let mut out = Timer::default();
        // SAFETY: live objects.
        unsafe { ffi::wl_native_timer(self.raw(), cpu, now_ns, &mut out) };
        out
    }

    /// Reports that a task of a higher class has run on `cpu` for a tick or longer, and that tasks may wait there.
    pub fn taken(&mut self, cpu: u32, now_ns: u64) -> Timer {
        self.check(cpu);
        let mut out = Timer::default();
        // SAFETY: live objects.
        unsafe { ffi::wl_native_taken(self.raw(), cpu, now_ns, &mut out) };
        out
    }

    /// Starts a group in a free slot. `parent` is a slot in use, or 0 for the root.
    ///
    /// # Panics
    /// If there is no such slot, or `slot` is the root's.
    pub fn group_init(&mut self, slot: u32, parent: u32, shares: u32) {
        self.check_slot(slot);
        assert!(slot > 0 && parent < self.params.nr_groups, "group {slot} in {parent}");
        // SAFETY: live object.
        unsafe { ffi::wl_native_group_init(self.raw(), slot, parent, shares) };
    }

    /// Ends a group that has neither tasks nor children.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn group_exit(&mut self, slot: u32) {
        self.check_slot(slot);
        // SAFETY: live object.
        unsafe { ffi::wl_native_group_exit(self.raw(), slot) };
    }

    /// Changes a group's shares. The call happens on `cpu`.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn group_shares(&mut self, cpu: u32, slot: u32, shares: u32) {
        self.check(cpu);
        self.check_slot(slot);
        // SAFETY: live object.
        unsafe { ffi::wl_native_group_shares(self.raw(), cpu, slot, shares) };
    }

    /// Moves the task to the group in `slot`; 0 is the root.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn task_group(&mut self, task: &mut Task, slot: u32, now_ns: u64) {
        assert!(slot == 0 || slot < self.params.nr_groups, "group {slot} of {}", self.params.nr_groups);
        // SAFETY: live objects.
        unsafe { ffi::wl_native_task_group(self.raw(), task, slot, now_ns) };
    }

    /// The policy's record of a group, for checkers.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn group(&self, slot: u32) -> Group {
        self.check_slot(slot);
        let mut out = Group::default();
        // SAFETY: live objects; the call only reads the policy.
        unsafe { ffi::wl_native_group(self.raw(), slot, &mut out) };
        out
    }

    /// The policy's record of a group and CPU, for checkers.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn group_cpu(&self, slot: u32, cpu: u32) -> GroupCpu {
        self.check(cpu);
        self.check_slot(slot);
        let mut out = GroupCpu::default();
        // SAFETY: live objects; the call only reads the policy.
        unsafe { ffi::wl_native_group_cpu(self.raw(), slot, cpu, &mut out) };
        out
    }

    /// Reports that `cpu` switched from its idle task to another.
    pub fn busy(&mut self, cpu: u32, now_ns: u64) {
        self.check(cpu);
        // SAFETY: live object.
        unsafe { ffi::wl_native_busy(self.raw(), cpu, now_ns) };
    }

    /// Reports that `cpu` switched to its idle task.
    pub fn idle(&mut self, cpu: u32, now_ns: u64) {
        self.check(cpu);
        // SAFETY: live object.
        unsafe { ffi::wl_native_idle(self.raw(), cpu, now_ns) };
    }

    /// Reports that the task was switched in on `cpu`.
    pub fn running(&mut self, task: &mut Task, cpu: u32, now_ns: u64) {
        self.check(cpu);
        // SAFETY: live objects.
        unsafe { ffi::wl_native_running(self.raw(), task, cpu, now_ns) };
    }

    /// Reports that the task is switched out on `cpu`. `runnable`: it could still run.
    pub fn stopping(&mut self, task: &mut Task, cpu: u32, now_ns: u64, runnable: bool) {
        self.check(cpu);
        // SAFETY: live objects.
        unsafe { ffi::wl_native_stopping(self.raw(), task, cpu, now_ns, u32::from(runnable)) };
    }

    /// Asks whether this task, which runs and waits for something, stays in its CPU's queue. Only for hosts whose
    /// queues can hold sleeping tasks, and if the policy has the trait `delays`; others use [`Policy::stopping`].
    pub fn sleep(&mut self, task: &mut Task, now_ns: u64) -> Sleep {
        let mut out = Sleep::default();
        // SAFETY: live objects.
        unsafe { ffi::wl_native_sleep(self.raw(), task, now_ns, &mut out) };
        out
    }

    /// Reports that the task, which runs on this CPU, gives the CPU up (sched_yield) and is about to be put back.
    pub fn yields(&mut self, task: &mut Task, cpu: u32, now_ns: u64) {
        // SAFETY: live objects.
        unsafe { ffi::wl_native_yield(self.raw(), task, cpu, now_ns) };
    }

    /// Reports that the task is no longer runnable, or leaves its queue to be queued again.
    pub fn quiescent(&mut self, task: &mut Task, now_ns: u64) {
        // SAFETY: live objects.
        unsafe { ffi::wl_native_quiescent(self.raw(), task, now_ns) };
    }

    /// Starts a task's record. Every CPU is allowed until [`Policy::set_affinity`] says otherwise.
    pub fn task_init(&mut self, task: &mut Task, id: u64, weight: u32, flags: u32) {
        // SAFETY: live objects.
        unsafe { ffi::wl_native_task_init(self.raw(), task, id, weight, flags) };
    }

    /// Changes the task's weight, from `now_ns` on.
    pub fn task_weight(&mut self, task: &mut Task, weight: u32, now_ns: u64) {
        // SAFETY: live objects.
        unsafe { ffi::wl_native_task_weight(self.raw(), task, weight, now_ns) };
    }

    /// The task asks for a slice of 0.1 to 100 ms; 0: for none any more. Changes nothing if the policy lacks the trait
    /// `own_slices`.
    pub fn task_slice(&mut self, task: &mut Task, slice_ns: u32) {
        // SAFETY: live objects.
        unsafe { ffi::wl_native_task_slice(self.raw(), task, slice_ns) };
    }

    /// Ends the task's record.
    pub fn task_exit(&mut self, task: &mut Task, now_ns: u64) {
        // SAFETY: live objects.
        unsafe { ffi::wl_native_task_exit(self.raw(), task, now_ns) };
    }

    /// Sets the CPUs on which the task may run. `None` or an empty list allows all.
    pub fn set_affinity(&mut self, task: &mut Task, allowed: Option<&[u32]>) {
        task.allowed.fill(0);
        for &cpu in allowed.unwrap_or(&[]) {
            self.check(cpu);
            task.allowed[cpu as usize / 64] |= 1 << (cpu % 64);
        }
        // SAFETY: live objects.
        unsafe { ffi::wl_native_task_affinity(self.raw(), task) };
    }

    /// Sets a CPU's bit in the host's idle mask: `idle` while the CPU is idle, nothing is queued there and no task is
    /// on its way.
    pub fn set_idle_mask(&mut self, cpu: u32, idle: bool) {
        self.check(cpu);
        // SAFETY: live object, and the CPU exists.
        unsafe { ffi::wl_native_set_idle_mask(self.raw(), cpu, u32::from(idle)) };
    }

    /// Whether the idle mask has `cpu`: it is idle, and no search has claimed it.
    pub fn idle_mask(&self, cpu: u32) -> bool {
        self.check(cpu);
        // SAFETY: live object, and the CPU exists; the call only reads.
        unsafe { ffi::wl_native_idle_mask(self.raw(), cpu) != 0 }
    }

    fn check_slot(&self, slot: u32) {
        assert!(slot < self.params.nr_groups, "group {slot} of {}", self.params.nr_groups);
    }

    fn raw(&self) -> *mut Instance {
        self.state.as_ptr()
    }

    fn check(&self, cpu: u32) {
        assert!(
            (cpu as usize) < self.tables.nr_cpus(),
            "CPU {cpu} of a machine with {}",
            self.tables.nr_cpus()
        );
    }
}

/// The layout of an instance of `size` bytes.
fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, LINE_BYTES).expect("an instance is a few megabytes")
}
