// SPDX-License-Identifier: GPL-2.0-or-later
//! The event queue: ordered by (time, class, number), so that ties have an explicit order.
//!
//! A CPU has at most one end of a segment, one tick and, nearly always, one interrupt pending. So each CPU has a leaf
//! in a tournament tree: the earliest of the three. An inner node is the lesser of its two children, and the root is
//! the next event of all. Setting a leaf rewrites the nodes above it without a branch that depends on times; re-timing
//! an SMT sibling does the same. The number of levels is a multiple of 3, so that there are four sizes of trees only.
//! Tasks' timers, of which there may be 100,000, are in a separate heap, and the policy's timer is one number, as is
//! the next timer of bandwidth control. The earliest of these is kept (`others`), and `next` compares it with the root.
//!
//! An entry is one number: 50 bits of time, 2 of class, 12 of CPU. Example with 4 CPUs: CPU 2's segment ends at 5 ns
//! and CPU 0's at 7 ns, when an interrupt arrives at CPU 0 too. The leaves are (7, segment, 0), never, (5, segment, 2),
//! never; the nodes above are (7, segment, 0) and (5, segment, 2); the root is the latter. When it has fired and is not
//! set again, the root becomes (7, segment, 0), and after that (7, interrupt, 0).
//!
//! An event that fired stays in place until the next one is asked for: most handlers set the same one again, which then
//! costs one walk to the root instead of two.

/// The longest run, about 13 days, so that no sum of times overflows. No event fires later.
pub(crate) const TIME_NS_MAX: u64 = (1 << 50) - 2;

const NUMBER_BITS: u32 = 12;
const CLASS_BITS: u32 = 2;
/// Nodes of the largest tree. An index below this number that is halved, or whose lowest bit changes, stays below it:
/// the compiler sees that, and checks no index on the way to the root.
const NODES: usize = 2 << NUMBER_BITS;
/// A tree has a multiple of this number of levels below its root.
const LEVELS: u32 = 3;
const NEVER: u64 = u64::MAX;

/// Classes, in the order in which simultaneous events happen. The policy's timer comes last, but for those of bandwidth
/// control.
const SEGMENT_END: u64 = 0;
const IPI: u64 = 1;
const TIMER: u64 = 2;
const TICK: u64 = 3;

/// What happens. Simultaneous events happen in this order, and by number inside a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The segment that this CPU executes ends.
    SegmentEnd(u32),
    /// An interrupt from another CPU arrives at this CPU.
    Ipi(u32),
    /// The timer or device of this task fires, or the task starts.
    Timer(u32),
    /// The tick of this CPU.
    Tick(u32),
    /// The policy's own timer.
    PolicyTimer,
    /// A timer of bandwidth control.
    QuotaTimer,
}

impl Event {
    /// The event as one number: what it is, and of which CPU or task.
    #[inline(always)]
    fn code(self) -> u64 {
        let (what, number) = match self {
            Event::SegmentEnd(cpu) => (0, cpu),
            Event::Ipi(cpu) => (1, cpu),
            Event::Timer(task) => (2, task),
            Event::Tick(cpu) => (3, cpu),
            Event::PolicyTimer => (4, 0),
            Event::QuotaTimer => (5, 0),
        };
        what << 32 | u64::from(number)
    }

    /// The event of this code; `None` for `NOTHING`.
    #[inline(always)]
    fn of(code: u64) -> Option<Event> {
        let number = code as u32;
        match code >> 32 {
            0 => Some(Event::SegmentEnd(number)),
            1 => Some(Event::Ipi(number)),
            2 => Some(Event::Timer(number)),
            3 => Some(Event::Tick(number)),
            4 => Some(Event::PolicyTimer),
            5 => Some(Event::QuotaTimer),
            _ => None,
        }
    }
}

/// No event's code.
const NOTHING: u64 = u64::MAX;

/// A time beyond the last one means never, because no run gets there.
fn key(time_ns: u64, class: u64, number: u32) -> u64 {
    (time_ns.min(TIME_NS_MAX + 1) << CLASS_BITS | class) << NUMBER_BITS | u64::from(number)
}

fn time_ns(key: u64) -> u64 {
    key >> (CLASS_BITS + NUMBER_BITS)
}

/// The time and the code of a CPU's entry: codes of its events begin with their class.
#[inline(always)]
fn at(key: u64) -> (u64, u64) {
    let (class, number) = (key >> NUMBER_BITS & ((1 << CLASS_BITS) - 1), key & ((1 << NUMBER_BITS) - 1));
    (time_ns(key), class << 32 | number)
}

/// The pending events of one CPU, or `NEVER`.
#[derive(Clone, Copy)]
struct Pending {
    segment_end: u64,
    /// The first of the next two, because nearly every event sets a segment's end and nothing else.
    other: u64,
    ipi: u64,
    tick: u64,
}

const NOTHING_PENDING: Pending = Pending { segment_end: NEVER, other: NEVER, ipi: NEVER, tick: NEVER };

pub(crate) struct EventQueue {
    /// The event that fired last, if it was not set again since; else `NOTHING`.
    fired: u64,
    /// The earliest of all timers.
    others: u64,
    cpus: Vec<Pending>,
    /// Node 1 is the root, 2 i and 2 i + 1 are the children of i, and CPU c is leaf `leaves + c`.
    tree: Box<[u64; NODES]>,
    leaves: usize,
    /// Levels below the root.
    levels: u32,
    /// Pending interrupts to a CPU that already has one: (CPU, entry), in no order.
    later_ipis: Vec<(u32, u64)>,
    timers: Timers,
    policy_timer: u64,
    quota_timer: u64,
}

impl EventQueue {
    /// For at most 4,096 CPUs.
    pub(crate) fn new(nr_cpus: u32, nr_tasks: u32) -> EventQueue {
        assert!(nr_cpus <= 1 << NUMBER_BITS, "{nr_cpus} CPUs do not fit an entry");
        let levels = nr_cpus.next_power_of_two().ilog2().next_multiple_of(LEVELS).max(LEVELS);
        let tree = vec![NEVER; NODES].into_boxed_slice();
        EventQueue {
            fired: NOTHING,
            others: NEVER,
            cpus: vec![NOTHING_PENDING; nr_cpus as usize],
            tree: tree.try_into().expect("as long as that"),
            leaves: 1 << levels,
            levels,
            later_ipis: Vec::new(),
            timers: Timers::new(nr_tasks),
            policy_timer: NEVER,
            quota_timer: NEVER,
        }
    }

    #[inline]
    pub(crate) fn set_segment_end(&mut self, cpu: u32, time_ns: u64) {
        self.is_set(Event::SegmentEnd(cpu));
        self.cpus[cpu as usize].segment_end = key(time_ns, SEGMENT_END, cpu);
        self.play_leaf(cpu);
    }

    #[inline]
    pub(crate) fn cancel_segment_end(&mut self, cpu: u32) {
        if self.cpus[cpu as usize].segment_end != NEVER {
            self.is_set(Event::SegmentEnd(cpu));
            self.cpus[cpu as usize].segment_end = NEVER;
            self.play(cpu);
        }
    }

    pub(crate) fn set_tick(&mut self, cpu: u32, time_ns: u64) {
        self.is_set(Event::Tick(cpu));
        self.cpus[cpu as usize].tick = key(time_ns, TICK, cpu);
        self.play(cpu);
    }

    pub(crate) fn cancel_tick(&mut self, cpu: u32) {
        self.is_set(Event::Tick(cpu));
        self.cpus[cpu as usize].tick = NEVER;
        self.play(cpu);
    }

    pub(crate) fn set_timer(&mut self, task: u32, time_ns: u64) {
        self.is_set(Event::Timer(task));
        self.timers.set(task, time_ns.min(TIME_NS_MAX + 1));
        self.find_others();
    }

    pub(crate) fn set_policy_timer(&mut self, time_ns: u64) {
        self.is_set(Event::PolicyTimer);
        self.policy_timer = key(time_ns, TICK, (1 << NUMBER_BITS) - 1);
        self.find_others();
    }

    /// `None`: never.
    pub(crate) fn set_quota_timer(&mut self, time_ns: Option<u64>) {
        self.is_set(Event::QuotaTimer);
        self.quota_timer = time_ns.map_or(NEVER, |time_ns| key(time_ns, TICK, (1 << NUMBER_BITS) - 1));
        self.find_others();
    }

    /// Any number of interrupts may be in flight to one CPU.
    pub(crate) fn push_ipi(&mut self, cpu: u32, time_ns: u64) {
        if self.fired == Event::Ipi(cpu).code() {
            self.remove(self.fired);
            self.fired = NOTHING;
        }
        let new = key(time_ns, IPI, cpu);
        let first = &mut self.cpus[cpu as usize].ipi;
        if *first == NEVER {
            *first = new;
            self.play(cpu);
            return;
        }
        let later = new.max(*first);
        *first = new.min(*first);
        self.later_ipis.push((cpu, later));
        self.play(cpu);
    }

    /// The next event and its time, earliest first; `None` if there is none.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<(u64, Event)> {
        if self.fired != NOTHING {
            self.remove(self.fired);
        }
        let first = self.tree[1];
        let (time_ns, code) = if first < self.others { at(first) } else { self.next_of_all() };
        self.fired = code;
        Event::of(code).map(|event| (time_ns, event))
    }

    /// The time and the code of the next event, if that is perhaps a timer. The policy's timer and the last CPU's tick
    /// may have the same key, and the tick comes first.
    #[inline(never)]
    fn next_of_all(&self) -> (u64, u64) {
        let first = self.tree[1];
        let timer = self.timers.first();
        let timer_key = self.timer_key();
        let kernel_timer = self.policy_timer.min(self.quota_timer);
        let (key, event) = if first < timer_key && first <= kernel_timer {
            return at(first);
        } else if let Some((_, task)) = timer
            && timer_key < kernel_timer
        {
            (timer_key, Event::Timer(task))
        } else if self.policy_timer <= self.quota_timer {
            (self.policy_timer, Event::PolicyTimer)
        } else {
            (self.quota_timer, Event::QuotaTimer)
        };
        (time_ns(key), if key == NEVER { NOTHING } else { event.code() })
    }

    fn timer_key(&self) -> u64 {
        self.timers.first().map_or(NEVER, |(time_ns, _)| key(time_ns, TIMER, 0))
    }

    /// A timer changed.
    fn find_others(&mut self) {
        self.others = self.timer_key().min(self.policy_timer).min(self.quota_timer);
    }

    /// Whether nothing is pending except perhaps the policy's timer.
    pub(crate) fn has_policy_timer_at_most(&self) -> bool {
        self.tree[1] == NEVER && self.timers.first().is_none() && self.quota_timer == NEVER
    }

    /// The event is set again: if it was the last to fire, it must not be removed.
    #[inline(always)]
    fn is_set(&mut self, event: Event) {
        if self.fired == event.code() {
            self.fired = NOTHING;
        }
    }

    /// An event, by its code, fired and was not set again.
    #[inline(never)]
    fn remove(&mut self, code: u64) {
        let number = code as u32;
        if code == Event::SegmentEnd(number).code() {
            self.cpus[number as usize].segment_end = NEVER;
            self.play(number);
        } else if code == Event::Ipi(number).code() {
            self.cpus[number as usize].ipi = self.take_later_ipi(number);
            self.play(number);
        } else if code == Event::Tick(number).code() {
            self.cpus[number as usize].tick = NEVER;
            self.play(number);
        } else {
            if code == Event::Timer(number).code() {
                self.timers.remove(number);
            } else if code == Event::PolicyTimer.code() {
                self.policy_timer = NEVER;
            } else {
                self.quota_timer = NEVER;
            }
            self.find_others();
        }
    }

    fn take_later_ipi(&mut self, cpu: u32) -> u64 {
        let of_cpu = self.later_ipis.iter().enumerate().filter(|(_, later)| later.0 == cpu);
        match of_cpu.min_by_key(|(_, later)| later.1).map(|(at, _)| at) {
            Some(at) => self.later_ipis.swap_remove(at).1,
            None => NEVER,
        }
    }

    /// Any of the CPU's events changed.
    #[inline(never)]
    fn play(&mut self, cpu: u32) {
        let pending = &mut self.cpus[cpu as usize];
        pending.other = pending.ipi.min(pending.tick);
        self.play_leaf(cpu);
    }

    /// The end of the CPU's segment changed: rewrites its leaf and the nodes above.
    #[inline(always)]
    fn play_leaf(&mut self, cpu: u32) {
        let pending = &self.cpus[cpu as usize];
        let winner = pending.segment_end.min(pending.other);
        let leaf = (self.leaves + cpu as usize) % NODES;
        self.tree[leaf] = winner;
        // No loop, because in a loop the compiler makes branches of these comparisons, which nobody can predict.
        match self.levels {
            0..=3 => self.climb::<3>(leaf, winner),
            4..=6 => self.climb::<6>(leaf, winner),
            7..=9 => self.climb::<9>(leaf, winner),
            _ => self.climb::<12>(leaf, winner),
        }
    }

    /// Rewrites the nodes above a leaf, which is `LEVELS` below the root.
    #[inline(always)]
    fn climb<const LEVELS: u32>(&mut self, mut node: usize, mut winner: u64) {
        for _ in 0..LEVELS {
            winner = winner.min(self.tree[node ^ 1]);
            node /= 2;
            self.tree[node] = winner;
        }
    }
}

const ABSENT: u32 = u32::MAX;
const ARITY: usize = 4;

/// Tasks' timers, at most one each: an indexed heap whose nodes have four children, ordered by (time, task).
struct Timers {
    /// Time and task in one number, so that comparing two is one comparison without a branch.
    heap: Vec<u128>,
    /// Task to index in `heap`.
    index_of: Vec<u32>,
}

fn task_of(entry: u128) -> usize {
    entry as u32 as usize
}

impl Timers {
    fn new(nr_tasks: u32) -> Timers {
        Timers { heap: Vec::new(), index_of: vec![ABSENT; nr_tasks as usize] }
    }

    /// Time and task of the first.
    fn first(&self) -> Option<(u64, u32)> {
        self.heap.first().map(|&entry| ((entry >> 32) as u64, entry as u32))
    }

    fn set(&mut self, task: u32, time_ns: u64) {
        let entry = u128::from(time_ns) << 32 | u128::from(task);
        match self.index_of[task as usize] {
            ABSENT => {
                self.heap.push(entry);
                self.sift_up(self.heap.len() - 1, entry);
            }
            index => self.sift(index as usize, entry),
        }
    }

    fn remove(&mut self, task: u32) {
        let index = std::mem::replace(&mut self.index_of[task as usize], ABSENT) as usize;
        let Some(last) = self.heap.pop() else { return };
        if index < self.heap.len() {
            self.sift(index, last);
        }
    }

    /// Puts the entry in the place of the one at `index`, which is no longer needed.
    fn sift(&mut self, index: usize, entry: u128) {
        if entry < self.heap[index] {
            self.sift_up(index, entry);
        } else {
            self.sift_down(index, entry);
        }
    }

    fn place(&mut self, index: usize, entry: u128) {
        self.heap[index] = entry;
        self.index_of[task_of(entry)] = index as u32;
    }

    fn sift_up(&mut self, mut index: usize, entry: u128) {
        while index > 0 {
            let parent = (index - 1) / ARITY;
            if entry > self.heap[parent] {
                break;
            }
            let moved = self.heap[parent];
            self.place(index, moved);
            index = parent;
        }
        self.place(index, entry);
    }

    fn sift_down(&mut self, mut index: usize, entry: u128) {
        loop {
            let first = index * ARITY + 1;
            if first >= self.heap.len() {
                break;
            }
            let children = &self.heap[first..(first + ARITY).min(self.heap.len())];
            let (mut least, mut moved) = (first, children[0]);
            for (at, &child) in children.iter().enumerate().skip(1) {
                let is_less = child < moved;
                least = if is_less { first + at } else { least };
                moved = if is_less { child } else { moved };
            }
            if moved > entry {
                break;
            }
            self.place(index, moved);
            index = least;
        }
        self.place(index, entry);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn drain(queue: &mut EventQueue) -> Vec<(u64, Event)> {
        std::iter::from_fn(|| queue.next()).collect()
    }

    #[test]
    fn ties_go_by_class_then_number() {
        let mut queue = EventQueue::new(4, 4);
        queue.set_tick(0, 5);
        queue.set_timer(2, 5);
        queue.set_timer(1, 5);
        queue.push_ipi(3, 5);
        queue.push_ipi(2, 5);
        queue.set_segment_end(1, 5);
        queue.set_segment_end(0, 5);
        queue.set_policy_timer(4);
        assert_eq!(
            drain(&mut queue),
            [
                (4, Event::PolicyTimer),
                (5, Event::SegmentEnd(0)),
                (5, Event::SegmentEnd(1)),
                (5, Event::Ipi(2)),
                (5, Event::Ipi(3)),
                (5, Event::Timer(1)),
                (5, Event::Timer(2)),
                (5, Event::Tick(0)),
            ]
        );
    }

    /// The last tick and the policy's timer have the same number.
    #[test]
    fn the_policys_timer_is_the_last_of_all() {
        let mut queue = EventQueue::new(4096, 1);
        queue.set_policy_timer(5);
        queue.set_tick(4095, 5);
        queue.set_timer(0, 5);
        let last = [(5, Event::Timer(0)), (5, Event::Tick(4095)), (5, Event::PolicyTimer)];
        assert_eq!(drain(&mut queue), last);
    }

    #[test]
    fn setting_again_moves_and_cancelling_removes() {
        let mut queue = EventQueue::new(2, 0);
        queue.set_segment_end(0, 10);
        queue.set_segment_end(1, 20);
        queue.set_segment_end(1, 5);
        assert_eq!(queue.next(), Some((5, Event::SegmentEnd(1))));
        queue.set_segment_end(1, 12);
        queue.cancel_segment_end(0);
        assert_eq!(queue.next(), Some((12, Event::SegmentEnd(1))));
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn an_event_set_for_now_while_one_fires_comes_next() {
        let mut queue = EventQueue::new(2, 0);
        queue.set_tick(0, 7);
        queue.set_tick(1, 9);
        assert_eq!(queue.next(), Some((7, Event::Tick(0))));
        queue.set_segment_end(0, 7);
        assert_eq!(queue.next(), Some((7, Event::SegmentEnd(0))));
        assert_eq!(queue.next(), Some((9, Event::Tick(1))));
        assert_eq!(queue.next(), None);
    }

    /// An interrupt that is sent while another one arrives, and one that overtakes.
    #[test]
    fn interrupts_to_one_cpu_neither_wait_nor_vanish() {
        let mut queue = EventQueue::new(2, 0);
        for time_ns in [30, 10, 20] {
            queue.push_ipi(1, time_ns);
        }
        queue.push_ipi(0, 20);
        assert_eq!(queue.next(), Some((10, Event::Ipi(1))));
        queue.push_ipi(1, 15);
        let rest = [15, 20, 20, 30].into_iter().zip([1, 0, 1, 1].map(Event::Ipi));
        assert_eq!(drain(&mut queue), rest.collect::<Vec<_>>());
    }

    #[test]
    fn the_policys_timer_alone_is_told_apart() {
        let mut queue = EventQueue::new(1, 1);
        queue.set_policy_timer(3);
        queue.set_timer(0, 4);
        assert_eq!(queue.next(), Some((3, Event::PolicyTimer)));
        assert!(!queue.has_policy_timer_at_most());
        queue.set_policy_timer(5);
        assert_eq!(queue.next(), Some((4, Event::Timer(0))));
        assert_eq!(queue.next(), Some((5, Event::PolicyTimer)));
        assert!(queue.has_policy_timer_at_most());
    }

    /// 2^64 - 1 ns would not fit an entry's 50 bits.
    #[test]
    fn beyond_the_last_time_is_after_everything() {
        let mut queue = EventQueue::new(1, 1);
        queue.set_segment_end(0, u64::MAX);
        queue.set_timer(0, u64::MAX - 1);
        queue.set_tick(0, TIME_NS_MAX);
        let times: Vec<u64> = drain(&mut queue).into_iter().map(|(time_ns, _)| time_ns).collect();
        assert_eq!(times, [TIME_NS_MAX, TIME_NS_MAX + 1, TIME_NS_MAX + 1]);
    }

    const CPUS: u32 = 5;

    proptest! {
        /// Against an ordered multiset: set, cancel, send and fire in any order. The last number is a policy's timer.
        #[test]
        fn behaves_as_an_ordered_set(actions in prop::collection::vec((0u32..9, 0..CPUS, 0u64..50), 1..300)) {
            let mut queue = EventQueue::new(CPUS, CPUS);
            // Time, class, number, and what distinguishes interrupts.
            let mut model: BTreeSet<(u64, u32, u32, usize)> = BTreeSet::new();
            for (at, (action, number, time_ns)) in actions.into_iter().enumerate() {
                let mut replace = |class: u32, number: u32, with: bool| {
                    model.retain(|&(_, c, n, _)| (c, n) != (class, number));
                    if with {
                        model.insert((time_ns, class, number, 0));
                    }
                };
                match action {
                    0 => { replace(0, number, true); queue.set_segment_end(number, time_ns) }
                    1 => { replace(0, number, false); queue.cancel_segment_end(number) }
                    2 => { replace(2, number, true); queue.set_timer(number, time_ns) }
                    3 => { replace(3, number, true); queue.set_tick(number, time_ns) }
                    4 => { replace(3, number, false); queue.cancel_tick(number) }
                    5 => { replace(4, 0, true); queue.set_policy_timer(time_ns) }
                    6 => { model.insert((time_ns, 1, number, at)); queue.push_ipi(number, time_ns) }
                    _ => {
                        let expected = model.pop_first().map(|(time_ns, class, n, _)| (time_ns, match class {
                            0 => Event::SegmentEnd(n),
                            1 => Event::Ipi(n),
                            2 => Event::Timer(n),
                            3 => Event::Tick(n),
                            _ => Event::PolicyTimer,
                        }));
                        prop_assert_eq!(queue.next(), expected);
                    }
                }
            }
        }
    }
}
