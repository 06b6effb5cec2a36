// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs for the timeline of an HTML report, packed so that a million slices take less than five megabytes.
//!
//! The slices of a run are sorted by CPU and then by time, and stand in columns, one after the other:
//!
//! 1. the number of slices of each CPU;
//! 2. for each slice, the gap since the slice before it on its CPU, and the time it takes;
//! 3. its state: an index into a table of how its wait began, why this CPU was chosen, and how the slice ends;
//! 4. its task, as a rank: 0 is a task that the CPU runs for the first time, 1 the task that it ran last, 2 the one
//!    that it ran last before that other one; then the tasks of rank 0;
//! 5. the wait before it, unless it gave way before: then it waited since its task's last slice;
//! 6. where it was woken, if it was: the CPU, as a rank among those where its task was woken; then those of rank 0;
//! 7. its waker, if that is not the task that ran there then.
//!
//! Numbers have 7 bits a byte, the lowest first; a column has the first bytes of all its numbers, then the second bytes
//! of those that are larger, and so on. All that is deflated, and written in base64. html/timeline-data.js unpacks it.
//! What takes space are times that no rule foretells: how long slices take, and waits.
//!
//! Times are in units of 1 ns; in runs of many slices, of 100 ns, which nobody can see and which take half of the
//! space.
//!
//! Worked example, two slices on CPU 0, task 0 from 5 to 9 ns, and task 1, woken by it there, from 12 to 20 ns after a
//! wait of 4: counts `2`, gaps `5 3`, times `4 8`, states `0 1`, ranks of tasks `0 0`, new tasks `0 1`, waits `0 4`,
//! ranks of CPUs `0`, new CPUs `0`, and no waker, because task 0 ran on CPU 0 at 8 ns.

use std::collections::BTreeMap;
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde::Serialize;
use wakelab_lab::{Slice, Timeline, Waker};
use wakelab_sim::Scenario;
use wakelab_trace::kernel_events::Left;
use wakelab_workload::{Source, Workload};

/// Runs with more slices than this have coarse times.
const FINE_SLICES_MAX: usize = 200_000;
const COARSE_NS: u64 = 100;

/// How the wait before a slice began. html/timeline-data.js has the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Began {
    /// The task gave way: it waited since its last slice.
    GaveWay,
    /// The task began, or the time of its wait is known and nothing else.
    Otherwise,
    ByIdle,
    ByTimer,
    ByDevice,
    ByUnknown,
    /// By the task that ran on the waker's CPU then.
    ByTask,
    ByParent,
    /// By a task that is named, because another one or none ran there.
    ByNamedTask,
    ByNamedParent,
}

/// What the page needs to know of all runs.
#[derive(Serialize)]
pub(crate) struct RunsDocument<'a> {
    runs: Vec<RunDocument<'a>>,
    /// The names of tasks, those with the most CPU time first.
    comms: Vec<&'a str>,
    /// By task: the index of its name, and 1 if it is of the service.
    tasks: Vec<(usize, u8)>,
    /// How the wait before a slice began, the reason of its placement, and how it ends.
    states: Vec<State>,
}

/// The reason is empty where there is none.
type State = (u8, &'static str, u8);

#[derive(Serialize)]
struct RunDocument<'a> {
    name: &'a str,
    cpus: usize,
    slices: usize,
    unit_ns: u64,
    end_ns: u64,
}

/// Returns the document of all runs, and the packed slices of each. All scenarios have the same tasks.
pub(crate) fn pack<'a>(
    scenarios: &'a [Scenario],
    names: &'a [String],
    timelines: &[Timeline],
) -> (RunsDocument<'a>, Vec<String>) {
    let mut states = Vec::new();
    let mut runs = Vec::new();
    let mut packed = Vec::new();
    for ((scenario, name), timeline) in scenarios.iter().zip(names).zip(timelines) {
        let cpus = scenario.machine.topology.nr_cpus();
        let unit_ns = if timeline.slices.len() > FINE_SLICES_MAX { COARSE_NS } else { 1 };
        packed.push(STANDARD.encode(deflated(&columns(timeline, cpus, unit_ns, &mut states))));
        let (slices, end_ns) = (timeline.slices.len(), timeline.end_ns);
        runs.push(RunDocument { name, cpus, slices, unit_ns, end_ns });
    }
    let workload = &*scenarios[0].workload;
    let comms = comms(workload, timelines);
    let place: BTreeMap<&str, usize> = comms.iter().enumerate().map(|(place, comm)| (*comm, place)).collect();
    let tasks = workload.tasks.iter().map(|task| (place[task.name.as_str()], u8::from(task.judged)));
    (RunsDocument { runs, tasks: tasks.collect(), comms, states }, packed)
}

/// Returns the names of all tasks by CPU time in the first run, the largest first.
fn comms<'a>(workload: &'a Workload, timelines: &[Timeline]) -> Vec<&'a str> {
    let mut ran_ns: BTreeMap<&str, u64> = workload.tasks.iter().map(|task| (task.name.as_str(), 0)).collect();
    for slice in timelines.iter().take(1).flat_map(|timeline| &timeline.slices) {
        let name = workload.tasks[slice.task as usize].name.as_str();
        *ran_ns.entry(name).or_default() += slice.end_ns - slice.begin_ns;
    }
    let mut names: Vec<(&str, u64)> = ran_ns.into_iter().collect();
    // Stable: names of the same time stay in alphabetical order.
    names.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    names.into_iter().map(|(name, _)| name).collect()
}

fn columns(timeline: &Timeline, cpus: usize, unit_ns: u64, states: &mut Vec<State>) -> Vec<u8> {
    let mut slices: Vec<&Slice> = timeline.slices.iter().collect();
    // Stable: slices of a CPU stay in the order of time.
    slices.sort_by_key(|slice| slice.cpu);
    let rows = Rows::new(&slices, cpus, unit_ns);
    let gave_way = since_last_slice(&slices);
    let [mut gaps, mut times, mut state_of, mut waits, mut woken_at, mut named]: [Vec<u64>; 6] =
        Default::default();
    let mut last = (u32::MAX, 0);
    for (slice, gave_way) in slices.iter().zip(gave_way) {
        let [begin, end] = [slice.begin_ns, slice.end_ns].map(|ns| ns / unit_ns);
        let before = if last.0 == slice.cpu { last.1 } else { 0 };
        last = (slice.cpu, end);
        gaps.push(begin - before);
        times.push(end - begin);
        let woken = (slice.begin_ns - slice.wait_ns) / unit_ns;
        let wake = slice.wake.map(|wake| &timeline.wakes[wake as usize]);
        let (began, by) = match wake {
            None if gave_way => (Began::GaveWay, None),
            None => (Began::Otherwise, None),
            Some(wake) => began(wake.by, rows.task_at(wake.cpu, woken)),
        };
        let reason = wake.map_or("", |wake| wake.reason);
        state_of.push(index_of(states, (began as u8, reason, end_code(slice.left))));
        if began != Began::GaveWay {
            waits.push(begin - woken);
        }
        woken_at.extend(wake.map(|wake| u64::from(wake.cpu)));
        named.extend(by.map(u64::from));
    }
    let tasks = || slices.iter().map(|slice| slice.task);
    let of_cpus = ranks(slices.iter().map(|slice| slice.cpu).zip(tasks().map(u64::from)));
    let woken = tasks().zip(&slices).filter(|(_, slice)| slice.wake.is_some()).map(|(task, _)| task);
    let of_wakers = ranks(woken.zip(woken_at.iter().copied()));
    let mut bytes = Vec::new();
    for column in [&rows.counts, &gaps, &times, &state_of].into_iter().chain(&of_cpus).chain([&waits]) {
        push(&mut bytes, column);
    }
    for column in of_wakers.iter().chain([&named]) {
        push(&mut bytes, column);
    }
    bytes
}

/// Returns the place of a state in the table, and adds it if it is new.
fn index_of(states: &mut Vec<State>, state: State) -> u64 {
    let known = states.iter().position(|known| *known == state);
    known.unwrap_or_else(|| {
        states.push(state);
        states.len() - 1
    }) as u64
}

/// The slices of a run by CPU, with times in units of the page.
struct Rows<'a> {
    slices: &'a [&'a Slice],
    counts: Vec<u64>,
    /// The index of the first slice of each CPU.
    first: Vec<usize>,
    unit_ns: u64,
}

impl<'a> Rows<'a> {
    fn new(slices: &'a [&'a Slice], cpus: usize, unit_ns: u64) -> Rows<'a> {
        let first: Vec<usize> =
            (0..=cpus).map(|cpu| slices.partition_point(|slice| (slice.cpu as usize) < cpu)).collect();
        let counts = first.windows(2).map(|pair| (pair[1] - pair[0]) as u64).collect();
        Rows { slices, counts, first, unit_ns }
    }

    /// Returns the task of the last slice that began on a CPU by then, if it has not ended before.
    fn task_at(&self, cpu: u32, time: u64) -> Option<u32> {
        let row = &self.slices[self.first[cpu as usize]..self.first[cpu as usize + 1]];
        let after = row.partition_point(|slice| slice.begin_ns / self.unit_ns <= time);
        let slice = row.get(after.checked_sub(1)?)?;
        (slice.end_ns / self.unit_ns >= time).then_some(slice.task)
    }
}

/// Returns for each slice whether its task waited since its last slice.
fn since_last_slice(slices: &[&Slice]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..slices.len()).collect();
    order.sort_by_key(|&index| slices[index].begin_ns);
    let mut ended_ns = BTreeMap::new();
    let mut found = vec![false; slices.len()];
    for index in order {
        let slice = slices[index];
        let last_ns = ended_ns.insert(slice.task, slice.end_ns);
        found[index] = last_ns == Some(slice.begin_ns - slice.wait_ns);
    }
    found
}

/// Returns the rank of each value among those that its key had before, the last first; then the values of rank 0, which
/// are new to their keys.
fn ranks(pairs: impl Iterator<Item = (u32, u64)>) -> [Vec<u64>; 2] {
    let mut known = BTreeMap::<u32, Vec<u64>>::new();
    let [mut ranks, mut new] = [Vec::new(), Vec::new()];
    for (key, value) in pairs {
        let values = known.entry(key).or_default();
        match values.iter().rposition(|known| *known == value) {
            Some(place) => {
                ranks.push((values.len() - place) as u64);
                values.remove(place);
            }
            None => {
                ranks.push(0);
                new.push(value);
            }
        }
        values.push(value);
    }
    [ranks, new]
}

/// Returns how a wake-up is told, `there` being the task that ran on the waker's CPU, and the waker if it must be
/// named.
fn began(by: Waker, there: Option<u32>) -> (Began, Option<u32>) {
    match by {
        Waker::Idle => (Began::ByIdle, None),
        Waker::Interrupt(Source::Timer) => (Began::ByTimer, None),
        Waker::Interrupt(Source::Device) => (Began::ByDevice, None),
        Waker::Interrupt(Source::Unknown) => (Began::ByUnknown, None),
        Waker::Task(task) if there == Some(task) => (Began::ByTask, None),
        Waker::Parent(task) if there == Some(task) => (Began::ByParent, None),
        Waker::Task(task) => (Began::ByNamedTask, Some(task)),
        Waker::Parent(task) => (Began::ByNamedParent, Some(task)),
    }
}

fn end_code(left: Option<Left>) -> u8 {
    match left {
        Some(Left::Runnable) => 0,
        Some(Left::Blocked) => 1,
        Some(Left::Exited) => 2,
        None => 3,
    }
}

/// Appends a column: the lowest 7 bits of all numbers, the next ones of those that have more, and so on. The highest
/// bit of a byte says that there are more.
fn push(bytes: &mut Vec<u8>, column: &[u64]) {
    let mut numbers = column.to_vec();
    while !numbers.is_empty() {
        let more = |number: &u64| u8::from(*number >= 0x80) << 7;
        bytes.extend(numbers.iter().map(|number| (number & 0x7f) as u8 | more(number)));
        numbers.retain_mut(|number| {
            *number >>= 7;
            *number > 0
        });
    }
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut packer = DeflateEncoder::new(Vec::new(), Compression::best());
    let written = packer.write_all(bytes).and_then(|()| packer.finish());
    written.expect("memory takes everything")
}

#[cfg(test)]
mod tests {
    use wakelab_lab::Wake;

    use super::*;

    #[test]
    fn worked_example() {
        let slice = |task, (begin_ns, end_ns), wait_ns, wake, left| Slice {
            cpu: 0,
            task,
            begin_ns,
            end_ns,
            wait_ns,
            wake,
            left,
        };
        let timeline = Timeline {
            slices: vec![
                slice(0, (5, 9), 0, None, Some(Left::Blocked)),
                slice(1, (12, 20), 4, Some(0), None),
            ],
            wakes: vec![Wake {
                time_ns: 8,
                cpu: 0,
                by: Waker::Task(0),
                task: 1,
                chosen: Some(0),
                reason: "prev-idle",
            }],
            end_ns: 20,
        };
        let mut states = Vec::new();
        let columns = columns(&timeline, 1, 1, &mut states);
        assert_eq!(columns, [2, 5, 3, 4, 8, 0, 1, 0, 0, 0, 1, 0, 4, 0, 0]);
        assert_eq!(states, [(1, "", 1), (6, "prev-idle", 3)]);
    }

    #[test]
    fn numbers_have_their_bytes_apart() {
        let mut bytes = Vec::new();
        push(&mut bytes, &[1, 128, 300, 127, 16_384]);
        assert_eq!(bytes, [1, 0x80, 0x80 | 44, 127, 0x80, 1, 2, 0x80, 1]);
    }

    #[test]
    fn values_that_come_again_have_ranks() {
        let of_a = [(7, 40), (7, 50), (7, 50), (7, 40)];
        assert_eq!(ranks(of_a.into_iter()), [vec![0, 0, 1, 2], vec![40, 50]]);
        assert_eq!(ranks([(7, 40), (8, 40), (7, 40)].into_iter()), [vec![0, 0, 1], vec![40, 40]]);
    }
}
