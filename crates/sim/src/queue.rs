// SPDX-License-Identifier: GPL-2.0-or-later
//! The event queue: one indexed heap, ordered by (time, class, number), so that ties have an explicit order.
//!
//! What there is at most one of has a slot of its own: the end of a CPU's segment, a CPU's tick, a task's timer. Setting a
//! slot again moves its entry in place, which is what re-timing an SMT sibling does. Interrupts in flight take slots
//! from a free list. A heap entry is one 16-byte number, and the heap has four children a node.
//!
//! An event that fired stays where it is until the next one is asked for: most handlers set the same slot again, which
//! then costs one sift instead of two.

const ABSENT: u32 = u32::MAX;
const CLASS_SHIFT: u32 = 28;
const NUMBER_MASK: u32 = (1 << CLASS_SHIFT) - 1;
const ARITY: usize = 4;

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
}

/// Time, class and number, and slot, in one number, so that comparing two is one comparison without a branch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u128);

impl Entry {
    fn new(time_ns: u64, tie: u32, slot: u32) -> Entry {
        Entry(u128::from(time_ns) << 64 | u128::from(tie) << 32 | u128::from(slot))
    }

    fn time_ns(self) -> u64 {
        (self.0 >> 64) as u64
    }

    fn tie(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn slot(self) -> u32 {
        self.0 as u32
    }
}

pub(crate) struct EventQueue {
    heap: Vec<Entry>,
    /// Slot to index in `heap`.
    index_of: Vec<u32>,
    /// Slots of interrupts that are not in flight.
    free: Vec<u32>,
    /// The slot that fired last, if its entry still stands in the heap.
    fired: u32,
    nr_cpus: u32,
    nr_tasks: u32,
}

impl EventQueue {
    pub(crate) fn new(nr_cpus: u32, nr_tasks: u32) -> EventQueue {
        let slots = 2 * nr_cpus + nr_tasks + 1;
        EventQueue {
            heap: Vec::with_capacity(slots as usize),
            index_of: vec![ABSENT; slots as usize],
            free: Vec::new(),
            fired: ABSENT,
            nr_cpus,
            nr_tasks,
        }
    }

    pub(crate) fn set_segment_end(&mut self, cpu: u32, time_ns: u64) {
        self.set(cpu, cpu, time_ns);
    }

    pub(crate) fn cancel_segment_end(&mut self, cpu: u32) {
        self.cancel(cpu);
    }

    pub(crate) fn set_tick(&mut self, cpu: u32, time_ns: u64) {
        self.set(self.nr_cpus + cpu, 3 << CLASS_SHIFT | cpu, time_ns);
    }

    pub(crate) fn cancel_tick(&mut self, cpu: u32) {
        self.cancel(self.nr_cpus + cpu);
    }

    pub(crate) fn set_timer(&mut self, task: u32, time_ns: u64) {
        self.set(2 * self.nr_cpus + task, 2 << CLASS_SHIFT | task, time_ns);
    }

    pub(crate) fn set_policy_timer(&mut self, time_ns: u64) {
        self.set(2 * self.nr_cpus + self.nr_tasks, 4 << CLASS_SHIFT, time_ns);
    }

    /// Any number of interrupts may be in flight to one CPU.
    pub(crate) fn push_ipi(&mut self, cpu: u32, time_ns: u64) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.index_of.push(ABSENT);
            self.index_of.len() as u32 - 1
        });
        self.set(slot, 1 << CLASS_SHIFT | cpu, time_ns);
    }

    /// The next event and its time, earliest first; `None` if there is none.
    pub(crate) fn next(&mut self) -> Option<(u64, Event)> {
        if self.fired != ABSENT {
            let slot = self.fired;
            self.fired = ABSENT;
            self.remove(slot);
            if slot > 2 * self.nr_cpus + self.nr_tasks {
                self.free.push(slot);
            }
        }
        let first = *self.heap.first()?;
        self.fired = first.slot();
        let number = first.tie() & NUMBER_MASK;
        let event = match first.tie() >> CLASS_SHIFT {
            0 => Event::SegmentEnd(number),
            1 => Event::Ipi(number),
            2 => Event::Timer(number),
            3 => Event::Tick(number),
            _ => Event::PolicyTimer,
        };
        Some((first.time_ns(), event))
    }

    /// Whether nothing is pending but the event that fired last.
    pub(crate) fn is_empty_but_for_fired(&self) -> bool {
        self.heap.len() == usize::from(self.fired != ABSENT)
    }

    fn set(&mut self, slot: u32, tie: u32, time_ns: u64) {
        if self.fired == slot {
            self.fired = ABSENT;
        }
        let entry = Entry::new(time_ns, tie, slot);
        match self.index_of[slot as usize] {
            ABSENT => {
                self.heap.push(entry);
                self.sift_up(self.heap.len() - 1, entry);
            }
            index => {
                let index = index as usize;
                if entry < self.heap[index] {
                    self.sift_up(index, entry);
                } else {
                    self.sift_down(index, entry);
                }
            }
        }
    }

    fn cancel(&mut self, slot: u32) {
        if self.index_of[slot as usize] != ABSENT && self.fired != slot {
            self.remove(slot);
        }
    }

    fn remove(&mut self, slot: u32) {
        let index = self.index_of[slot as usize] as usize;
        self.index_of[slot as usize] = ABSENT;
        let Some(last) = self.heap.pop() else { return };
        if last.slot() == slot {
            return;
        }
        if last < self.heap[index] {
            self.sift_up(index, last);
        } else {
            self.sift_down(index, last);
        }
    }

    fn place(&mut self, index: usize, entry: Entry) {
        self.heap[index] = entry;
        self.index_of[entry.slot() as usize] = index as u32;
    }

    fn sift_up(&mut self, mut index: usize, entry: Entry) {
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

    fn sift_down(&mut self, mut index: usize, entry: Entry) {
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
                (5, Event::Tick(0)),
            ]
        );
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
        assert!(queue.is_empty_but_for_fired());
        assert_eq!(queue.next(), None);
        assert!(queue.is_empty_but_for_fired());
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

    proptest! {
        /// Against an ordered set: set, cancel and fire in any order.
        #[test]
        fn behaves_as_an_ordered_set(actions in prop::collection::vec((0u32..4, 0u32..8, 0u64..50), 1..200)) {
            let mut queue = EventQueue::new(8, 8);
            let mut model: BTreeSet<(u64, u32, u32)> = BTreeSet::new();
            for (action, number, time) in actions {
                match action {
                    0 => {
                        model.retain(|&(_, class, n)| (class, n) != (0, number));
                        model.insert((time, 0, number));
                        queue.set_segment_end(number, time);
                    }
                    1 => {
                        model.retain(|&(_, class, n)| (class, n) != (2, number));
                        model.insert((time, 2, number));
                        queue.set_timer(number, time);
                    }
                    2 => {
                        model.retain(|&(_, class, n)| (class, n) != (0, number));
                        queue.cancel_segment_end(number);
                    }
                    _ => {
                        let expected = model.pop_first().map(|(time, class, n)| {
                            (time, if class == 0 { Event::SegmentEnd(n) } else { Event::Timer(n) })
                        });
                        prop_assert_eq!(queue.next(), expected);
                    }
                }
            }
        }
    }
}
