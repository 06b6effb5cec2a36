// SPDX-License-Identifier: GPL-2.0-or-later
//! The reader returns the items that the writer wrote, for any run.

use proptest::prelude::*;
use wakelab_workload::{DEFAULT_FOOTPRINT_BYTES, End, Measure, Source, Task, Workload};

use crate::event::{Context, Item, SwitchedOut, TaskName, Told, What};
use crate::format::reader;
use crate::ftrace_write::FtraceText;
use crate::kernel_events::{KernelEvents, Left};

const CPUS: u32 = 3;

fn task(name: &str, weight: u32, allowed: Option<Vec<u32>>, footprint_bytes: u64) -> Task {
    Task {
        name: name.to_owned(),
        parent: None,
        start_ns: 0,
        process: 40,
        weight,
        slice_ns: (footprint_bytes == 7).then_some(300_000),
        allowed,
        last_cpu: None,
        footprint_bytes,
        judged: false,
        awaited: false,
        cut_off: false,
        polls: false,
        after_sleep_ns: 0,
        group: None,
        program: Vec::new(),
    }
}

fn workload() -> Workload {
    Workload {
        name: "w".to_owned(),
        tasks: vec![
            task("a", 1024, None, DEFAULT_FOOTPRINT_BYTES),
            task("Web Content", 335, Some(vec![0, 1, 2, 5]), 7),
            task("x-1 [y]: z=1", 88761, Some(vec![2]), 0),
            task("größe\nb", 15, None, 1 << 40),
        ],
        channels: Vec::new(),
        signals: 0,
        gates: 0,
        locks: Vec::new(),
        barriers: Vec::new(),
        groups: Vec::new(),
        end: End::AllExited,
        measure: Measure::Makespan,
    }
}

/// As the writer is told of it, and as the reader shall see it.
const NAMES: [(&str, i32); 4] = [("a", 120), ("Web Content", 125), ("x-1 [y]: z=1", 100), ("größe?b", 139)];

fn name(task: u32) -> TaskName<'static> {
    let (comm, prio) = NAMES[task as usize];
    TaskName { comm, tid: task + 1, prio: Some(prio) }
}

fn idle(cpu: u32) -> TaskName<'static> {
    TaskName { comm: ["swapper/0", "swapper/1", "swapper/2"][cpu as usize], tid: 0, prio: Some(120) }
}

fn without_prio(name: TaskName<'_>) -> TaskName<'_> {
    TaskName { prio: None, ..name }
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Wake(bool),
    Start,
    Enter(Source),
    Leave,
    Stopped,
    Wakeup,
    WakeupNew,
    Fork,
    Exec,
    Exit,
    Migrate,
    Switch(Left, bool),
}

fn call() -> impl Strategy<Value = Call> {
    let source = prop_oneof![Just(Source::Timer), Just(Source::Device), Just(Source::Unknown)];
    let left = prop_oneof![Just(Left::Runnable), Just(Left::Blocked), Just(Left::Exited)];
    prop_oneof![
        3 => any::<bool>().prop_map(Call::Wake),
        1 => Just(Call::Start),
        2 => source.prop_map(Call::Enter),
        2 => Just(Call::Leave),
        1 => Just(Call::Stopped),
        1 => Just(Call::Wakeup),
        1 => Just(Call::WakeupNew),
        1 => Just(Call::Fork),
        1 => Just(Call::Exec),
        1 => Just(Call::Exit),
        1 => Just(Call::Migrate),
        5 => (left, any::<bool>()).prop_map(|(left, to_idle)| Call::Switch(left, to_idle)),
    ]
}

/// `time cpu current context what`.
fn line(
    time_ns: u64,
    cpu: u32,
    current: Option<u32>,
    context: Context,
    what: What<'_>,
) -> (u64, u32, u32, Context, String) {
    (time_ns, cpu, current.map_or(0, |task| task + 1), context, format!("{what:?}"))
}

proptest! {
    #[test]
    fn what_is_written_is_read(calls in prop::collection::vec((call(), 0..CPUS, 0..4u32, 0..4u32, 0..3_000_000_000u64), 0..60)) {
        let workload = workload();
        let mut writer = KernelEvents::new(FtraceText::new(Vec::new(), &workload), &workload, CPUS);
        let mut expected = vec![line(0, 0, None, Context::Task, What::Other)];
        let mut now_ns = 0;
        let mut current = [None; CPUS as usize];
        let mut inside = [None; CPUS as usize];
        let mut last_cpu = [0; 4];
        for (call, cpu, task, other, after_ns) in calls {
            now_ns += after_ns;
            let on = current[cpu as usize];
            let context = inside[cpu as usize].map_or(Context::Task, Context::Interrupt);
            // Where the writer sets no flag, only a bracket tells.
            let unflagged = match context {
                Context::Interrupt(Source::Unknown) => Context::Task,
                context => context,
            };
            let mut note = |context, what| expected.push(line(now_ns, cpu, on, context, what));
            match call {
                Call::Wake(sync) => {
                    writer.wake(now_ns, cpu, task, sync);
                    note(context, What::Waking { task: name(task), last_cpu: last_cpu[task as usize], sync });
                }
                Call::Start => {
                    let cpu = last_cpu[task as usize];
                    let (on, outer) = (current[cpu as usize], inside[cpu as usize]);
                    let mut note = |context, what| expected.push(line(now_ns, cpu, on, context, what));
                    writer.start(now_ns, task);
                    // Inside the interrupt that the CPU is in already, if that is known.
                    let context = match outer {
                        Some(source) if source != Source::Unknown => Context::Interrupt(source),
                        _ => Context::Interrupt(Source::Timer),
                    };
                    let after = Context::Interrupt(outer.unwrap_or(Source::Unknown));
                    note(context, What::Other);
                    note(context, What::Waking { task: name(task), last_cpu: cpu, sync: false });
                    note(after, What::Other);
                }
                Call::Enter(source) => {
                    if inside[cpu as usize].is_some() {
                        continue;
                    }
                    writer.interrupt_enter(now_ns, cpu, source);
                    if source != Source::Unknown {
                        note(Context::Interrupt(source), What::Other);
                    }
                    inside[cpu as usize] = Some(source);
                }
                Call::Leave => {
                    writer.interrupt_exit(now_ns, cpu);
                    if let Some(Source::Timer | Source::Device) = inside[cpu as usize].take() {
                        // The exit itself is outside, though flagged to be inside.
                        note(Context::Interrupt(Source::Unknown), What::Other);
                    }
                }
                Call::Stopped => {
                    writer.stopped(now_ns, cpu, task, after_ns);
                    // The scheduler's own time is no interrupt's, whatever the writer was told.
                    note(unflagged, What::Runtime { task: without_prio(name(task)), ran_ns: after_ns });
                }
                Call::Wakeup => {
                    writer.wakeup(now_ns, cpu, 1, task);
                    note(context, What::Wakeup { task: name(task), cpu: 1 });
                }
                Call::WakeupNew => {
                    writer.wakeup_new(now_ns, cpu, 2, task);
                    last_cpu[task as usize] = 2;
                    note(context, What::WakeupNew { task: name(task), cpu: 2 });
                }
                Call::Fork => {
                    writer.fork(now_ns, cpu, task, other);
                    last_cpu[other as usize] = cpu;
                    let (parent, child) = (without_prio(name(task)), without_prio(name(other)));
                    note(unflagged, What::Fork { parent, child });
                }
                Call::Exec => {
                    writer.exec(now_ns, cpu, task);
                    note(unflagged, What::Exec { tid: task + 1 });
                }
                Call::Exit => {
                    writer.exit(now_ns, cpu, task);
                    note(unflagged, What::Exit);
                }
                Call::Migrate => {
                    writer.migrate(now_ns, cpu, task, 1, 2);
                    note(unflagged, What::Migrate { task: name(task), from_cpu: 1, to_cpu: 2 });
                }
                Call::Switch(left, to_idle) => {
                    let runs_already = !to_idle && current.contains(&Some(task));
                    if runs_already || (on.is_none() && to_idle) {
                        continue;
                    }
                    if let Some(prev) = on {
                        writer.switch_out(now_ns, cpu, prev, left);
                    }
                    let next = if to_idle { None } else { Some(task) };
                    if let Some(next) = next {
                        writer.switch_in(now_ns, cpu, next);
                        last_cpu[next as usize] = cpu;
                    }
                    let why = match (on, left) {
                        (None, _) | (_, Left::Runnable) => SwitchedOut::Runnable,
                        (_, Left::Blocked) => SwitchedOut::Blocked,
                        (_, Left::Exited) => SwitchedOut::Exited,
                    };
                    let (prev, next_name) = (on.map_or(idle(cpu), name), next.map_or(idle(cpu), name));
                    // No CPU switches inside an interrupt: the writer is not told so, nor is the reader.
                    note(Context::Task, What::Switch { prev, why, next: next_name });
                    if let Some(Source::Timer | Source::Device) = inside[cpu as usize] {
                        inside[cpu as usize] = None;
                        writer.interrupt_exit(now_ns, cpu);
                        expected.push(line(now_ns, cpu, next, Context::Interrupt(Source::Unknown), What::Other));
                    }
                    current[cpu as usize] = next;
                }
            }
        }
        let context = match inside[0] {
            Some(source) if source != Source::Unknown => Context::Interrupt(source),
            _ => Context::Task,
        };
        expected.push(line(now_ns, 0, current[0], context, What::Other));
        let text = writer.finish(now_ns).expect("memory takes everything");

        let mut source = reader(&text[..], "f").expect("ftrace");
        let mut told = Vec::new();
        let mut read = Vec::new();
        let end = loop {
            match source.next_item() {
                Ok(Some(Item::Event(event))) => {
                    let current = event.current;
                    prop_assert_eq!(current.process, Some(if current.tid == Some(0) { 0 } else { 40 }));
                    let tid = current.tid.expect("an id");
                    read.push((event.time_ns, event.cpu, tid, event.context, format!("{:?}", event.what)));
                }
                Ok(Some(Item::Told(about))) => {
                    let Told { tid, cpus, slice_ns, footprint_bytes, judged, awaited, .. } = about;
                    told.push((tid, cpus.map(str::to_owned), footprint_bytes.unwrap_or(0)));
                    prop_assert!(!judged && !awaited);
                    prop_assert_eq!(slice_ns, (tid == 2).then_some(300_000));
                }
                Ok(Some(item)) => prop_assert!(false, "{item:?}"),
                end => break end.map(|_| ()),
            }
        };
        // A recording without a switch is refused, but only at its end.
        prop_assert_eq!(end.is_ok(), read.iter().any(|(.., what)| what.starts_with("Switch")));
        prop_assert_eq!(read, expected);
        let cpus = |list: &str| Some(list.to_owned());
        prop_assert_eq!(
            told,
            [(1, None, DEFAULT_FOOTPRINT_BYTES), (2, cpus("0-2,5"), 7), (3, cpus("2"), 0), (4, None, 1 << 40)]
        );
    }
}
