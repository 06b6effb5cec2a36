// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs for the timeline of an HTML report, packed so that a million slices take a few megabytes.
//!
//! The slices of a run are sorted by CPU and then by time, and stand in columns, one after the other: the number of
//! slices of each CPU; then for each slice the gap since the slice before it on its CPU, the time it takes, its task,
//! the wait before it, its waker, the waker's CPU, the reason of the placement, and how it ends. Numbers have 7 bits a
//! byte. All that is deflated, and written in base64. html/timeline-data.js unpacks it.
//!
//! Times are in units of 1 ns; in runs of many slices, of 100 ns, which nobody can see and which take half of the
//! space.
//!
//! Worked example, two slices on one CPU, task 0 from 5 to 9 ns, and task 1, woken by it there, from 12 to 20 ns after
//! a wait of 4: counts `2`, gaps `5 3`, times `4 8`, tasks `0 1`, waits `0 4`, wakers `0 5`, CPUs `0 0`, reasons `0 1`,
//! ends `1 3`.

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
/// The code of the first task among wakers, as in html/timeline-data.js.
const FIRST_WAKER_TASK: u64 = 5;

/// What the page needs to know of all runs.
#[derive(Serialize)]
pub(crate) struct RunsDocument<'a> {
    runs: Vec<RunDocument<'a>>,
    /// The names of tasks, those with the most CPU time first.
    comms: Vec<&'a str>,
    /// By task: the index of its name, and 1 if it is of the service.
    tasks: Vec<(usize, u8)>,
    /// The reasons of placements; the first is none.
    reasons: Vec<&'static str>,
}

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
    let mut reasons = vec![""];
    let mut runs = Vec::new();
    let mut packed = Vec::new();
    for ((scenario, name), timeline) in scenarios.iter().zip(names).zip(timelines) {
        let cpus = scenario.machine.topology.nr_cpus();
        let unit_ns = if timeline.slices.len() > FINE_SLICES_MAX { COARSE_NS } else { 1 };
        packed.push(STANDARD.encode(deflated(&columns(timeline, cpus, unit_ns, &mut reasons))));
        let (slices, end_ns) = (timeline.slices.len(), timeline.end_ns);
        runs.push(RunDocument { name, cpus, slices, unit_ns, end_ns });
    }
    let workload = &*scenarios[0].workload;
    let comms = comms(workload, timelines);
    let place: BTreeMap<&str, usize> = comms.iter().enumerate().map(|(place, comm)| (*comm, place)).collect();
    let tasks = workload.tasks.iter().map(|task| (place[task.name.as_str()], u8::from(task.judged)));
    (RunsDocument { runs, tasks: tasks.collect(), comms, reasons }, packed)
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

fn columns(timeline: &Timeline, cpus: usize, unit_ns: u64, reasons: &mut Vec<&'static str>) -> Vec<u8> {
    let mut slices: Vec<&Slice> = timeline.slices.iter().collect();
    // Stable: slices of a CPU stay in the order of time.
    slices.sort_by_key(|slice| slice.cpu);
    let mut columns: [Vec<u64>; 9] = Default::default();
    columns[0] = vec![0; cpus];
    let mut last = (u32::MAX, 0);
    for slice in slices {
        let [begin, end] = [slice.begin_ns, slice.end_ns].map(|ns| ns / unit_ns);
        let before = if last.0 == slice.cpu { last.1 } else { 0 };
        last = (slice.cpu, end);
        let wake = slice.wake.map(|wake| &timeline.wakes[wake as usize]);
        let reason = wake.map_or("", |wake| wake.reason);
        let reason = reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
            reasons.push(reason);
            reasons.len() - 1
        });
        columns[0][slice.cpu as usize] += 1;
        let row = [
            begin - before,
            end - begin,
            slice.task.into(),
            slice.wait_ns / unit_ns,
            wake.map_or(0, |wake| waker_code(wake.by)),
            wake.map_or(0, |wake| wake.cpu.into()),
            reason as u64,
            end_code(slice.left),
        ];
        for (column, value) in columns[1..].iter_mut().zip(row) {
            column.push(value);
        }
    }
    let mut bytes = Vec::new();
    columns.iter().flatten().for_each(|&number| push(&mut bytes, number));
    bytes
}

fn waker_code(by: Waker) -> u64 {
    match by {
        Waker::Idle => 1,
        Waker::Interrupt(Source::Timer) => 2,
        Waker::Interrupt(Source::Device) => 3,
        Waker::Interrupt(Source::Unknown) => 4,
        Waker::Task(task) => FIRST_WAKER_TASK + 2 * u64::from(task),
        Waker::Parent(task) => FIRST_WAKER_TASK + 2 * u64::from(task) + 1,
    }
}

fn end_code(left: Option<Left>) -> u64 {
    match left {
        Some(Left::Runnable) => 0,
        Some(Left::Blocked) => 1,
        Some(Left::Exited) => 2,
        None => 3,
    }
}

fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
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
        let mut reasons = vec![""];
        let columns = columns(&timeline, 1, 1, &mut reasons);
        assert_eq!(columns, [2, 5, 3, 4, 8, 0, 1, 0, 4, 0, 5, 0, 0, 0, 1, 1, 3]);
        assert_eq!(reasons, ["", "prev-idle"]);
    }
}
