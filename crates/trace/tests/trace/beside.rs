// SPDX-License-Identifier: GPL-2.0-or-later
//! How much slower a thread is beside another busy thread of its core, learnt from recordings of simulated machines, of
//! which it is known.

use wakelab_machine::Machine;
use wakelab_trace::{Options, Recording, beside, read_from};
use wakelab_workload::{End, Op, Source, Workload};

use crate::round_trip::export;

/// Two cores of two threads, which have this speed beside each other.
fn machine(smt_speed: u32) -> Machine {
    let text = format!(
        "description = \"two cores of two threads\"\n\
         [topology]\nsockets = 1\ncores_per_llc = 2\nthreads_per_core = 2\nnumbering = \"linux-x86\"\n\
         [costs]\nbase = \"xeon-2s22c2t\"\nsmt_speed = {{ value = [1024, {smt_speed}], source = \"test\" }}\n"
    );
    Machine::from_toml(&text, "t").expect("a machine")
}

fn recorded(on: &Machine, workload: &str) -> Recording {
    read(on, Workload::parse_spec(workload).expect("a workload"))
}

fn read(on: &Machine, workload: Workload) -> Recording {
    let (_, text) = export(on, workload);
    let options = Options { topology: Some(on.topology.clone()), ..Options::default() };
    read_from(&text[..], "export", "export", &options).expect("it reads")
}

/// Six tasks of each of two names on four CPUs, which compute and sleep for a moment.
fn busy() -> Workload {
    let mut workload = Workload::parse_spec("spin:tasks=12").expect("a workload");
    for (index, task) in workload.tasks.iter_mut().enumerate() {
        let (name, work_ns) = [("long", 900_000), ("short", 300_000)][index % 2];
        task.name = name.to_owned();
        let once = [
            Op::Compute { work_ns, spread_percent: 50 },
            Op::Sleep { delay_ns: 20_000, source: Source::Timer },
        ];
        task.program = once.repeat(200);
    }
    workload.end = End::AllExited;
    workload
}

/// Queries of a database take tens of microseconds, its clients less. A run of 1.5 s has too few of them to tell 860.
#[test]
fn the_speed_beside_a_busy_thread_is_learnt() {
    for smt_speed in [560, 720, 860] {
        let recording = recorded(&machine(smt_speed), "pgbench:duration-ms=2000");
        let learnt = recording.learnt.machine(&machine(1000), "r");
        let learnt_speed = learnt.costs.smt_speed[1];
        assert!(learnt_speed.abs_diff(smt_speed) <= 50, "{smt_speed}, learnt {learnt_speed}");
        assert!(learnt.sources["smt_speed"].starts_with("measured: "), "{}", learnt.sources["smt_speed"]);
    }
}

/// Where all threads are busy all the time, nothing is learnt; a second recording, on one thread of each core, tells
/// what tasks do alone.
#[test]
fn a_second_recording_tells_what_one_cannot() {
    let truth = machine(640);
    let mut workload = busy();
    let mut all = read(&truth, workload.clone());
    let speed = |recording: &Recording| beside::speed(recording.learnt.beside.values());
    assert_eq!(speed(&all), None);
    workload.tasks.iter_mut().for_each(|task| task.allowed = Some(vec![0, 1]));
    let alone = read(&truth, workload);
    assert_eq!(speed(&alone), None);
    beside::join(&mut all.learnt.beside, alone.learnt.beside);
    let told = speed(&all).expect("both kinds of beginning");
    assert!((told.speed - 0.625).abs() < 0.03, "{told:?}");
}
