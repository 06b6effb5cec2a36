// SPDX-License-Identifier: GPL-2.0-or-later
//! The Parquet table of slices, read back by the library's reader.

use std::sync::Arc;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use wakelab_lab::{Timeline, observe_timeline};
use wakelab_machine::Machine;
use wakelab_report::Comparison;
use wakelab_sim::{HostProfile, Outcome, Scenario};
use wakelab_trace::kernel_events::Left;
use wakelab_workload::Workload;

#[test]
fn each_slice_has_a_row() {
    let scenario = |policy: &str| Scenario {
        machine: Machine::preset("smp-8").expect("a preset").into(),
        workload: Arc::new(Workload::parse_spec("hackbench:groups=1,fds=4,loops=5").expect("a workload")),
        policy: policy.parse().expect("a policy"),
        host: HostProfile::Mainline,
        limit_ns: 1_000_000_000,
        limit_events: wakelab_sim::LIMIT_EVENTS,
    };
    let names = ["linux-4.15", "linux-6.12"].map(str::to_owned);
    let scenarios = names.each_ref().map(|name| scenario(name));
    let runs = scenarios.each_ref().map(|scenario| observe_timeline(scenario, 3).expect("it runs"));
    let (outcomes, timelines): (Vec<Vec<Outcome>>, Vec<Timeline>) =
        runs.into_iter().map(|(outcome, timeline)| (vec![outcome], timeline)).unzip();
    let compared = Comparison::new(&scenarios, &names, &outcomes).expect("two policies");
    let mut file = tempfile::tempfile().expect("a temporary file");
    compared.write_slices(&timelines, &mut file).expect("it is written");

    let reader = SerializedFileReader::new(file).expect("a table");
    let mut rows = reader.get_row_iter(None).expect("rows");
    for (name, timeline) in names.iter().zip(&timelines) {
        for slice in &timeline.slices {
            let row = rows.next().expect("as many rows as slices").expect("a row");
            assert_eq!((row.get_string(0).unwrap().as_str(), row.get_string(1).unwrap()), ("smp-8", name));
            assert_eq!(row.get_ulong(2).unwrap(), 3);
            assert_eq!(row.get_long(3).unwrap() as u64, slice.begin_ns);
            assert_eq!(row.get_long(4).unwrap() as u64, slice.end_ns - slice.begin_ns);
            assert_eq!(row.get_int(5).unwrap() as u32, slice.cpu);
            assert_eq!(row.get_int(6).unwrap() as u32, slice.task + 1);
            assert_eq!(row.get_string(7).unwrap(), &scenarios[0].workload.tasks[slice.task as usize].name);
            let state = slice.left.map(|left| match left {
                Left::Runnable => "R",
                Left::Blocked => "S",
                Left::Exited => "X",
            });
            assert_eq!(row.get_string(9).ok().map(String::as_str), state);
            assert_eq!(row.get_long(10).unwrap() as u64, slice.wait_ns);
            let wake = slice.wake.map(|wake| &timeline.wakes[wake as usize]);
            assert_eq!(row.get_int(12).ok().map(|cpu| cpu as u32), wake.map(|wake| wake.cpu));
        }
    }
    assert!(rows.next().is_none());
}
