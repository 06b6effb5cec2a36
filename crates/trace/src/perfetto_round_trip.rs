// SPDX-License-Identifier: GPL-2.0-or-later
//! The Perfetto file of any run says the same as its ftrace text, which ftrace_round_trip.rs checks.

use std::io;

use proptest::prelude::*;
use wakelab_machine::Distance;
use wakelab_workload::{Measure, Op, Source, Task, Workload};

use crate::event::{EventSource, Item, What};
use crate::format::reader;
use crate::ftrace_write::FtraceText;
use crate::kernel_events::{At, Choice, KernelEvent, KernelEvents, Left, Sink};
use crate::perfetto_write::{PerfettoFile, PerfettoRun};

const CPUS: u32 = 3;

fn workload() -> Workload {
    let task = |name: &str, process| Task::new(name, process, Vec::<Op>::new());
    let tasks = vec![task("a", 40), task("b", 40), task("Web Content", 7), task("größe\nb", 7)];
    Workload { tasks, ..Workload::empty("w", Measure::Makespan) }
}

/// Both formats of one run.
struct Both<'a>(FtraceText<Vec<u8>>, PerfettoRun<&'a mut Vec<u8>>);

impl<'a> Sink for Both<'a> {
    type Out = (Vec<u8>, PerfettoFile<&'a mut Vec<u8>>);

    fn event(&mut self, at: At, event: KernelEvent<'_>) {
        self.0.event(at, event);
        self.1.event(at, event);
    }

    fn finish(self) -> io::Result<Self::Out> {
        Ok((self.0.finish()?, self.1.finish()?))
    }
}

/// An event: time, CPU, current task, context and what it says.
type Said = (u64, u32, Option<u32>, String);

/// What a file says. Perfetto has no event for run times and for our markers, and names every idle task alike.
fn said(bytes: &[u8]) -> Result<Vec<Said>, String> {
    let mut source: Box<dyn EventSource + '_> = reader(bytes, "f").map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    while let Some(item) = source.next_item().map_err(|error| error.to_string())? {
        let Item::Event(event) = item else { continue };
        let mut what = format!("{:?} {:?}", event.context, event.what);
        (0..CPUS).for_each(|cpu| what = what.replace(&format!("swapper/{cpu}"), "swapper"));
        if !matches!(event.what, What::Other | What::Runtime { .. }) {
            all.push((event.time_ns, event.cpu, event.current.tid, what));
        }
    }
    // Events of one moment on different CPUs are in no order.
    all.sort_by_key(|&(time_ns, cpu, ..)| (time_ns, cpu));
    Ok(all)
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Wake,
    Start,
    Interrupt(Source),
    Wakeup(bool),
    Fork,
    Exit,
    Migrate,
    Decide,
    Switch(Left),
}

fn call() -> impl Strategy<Value = Call> {
    let left = prop_oneof![Just(Left::Runnable), Just(Left::Blocked), Just(Left::Exited)];
    prop_oneof![
        3 => Just(Call::Wake),
        1 => Just(Call::Start),
        2 => prop_oneof![Just(Source::Timer), Just(Source::Device)].prop_map(Call::Interrupt),
        1 => any::<bool>().prop_map(Call::Wakeup),
        1 => Just(Call::Fork),
        1 => Just(Call::Exit),
        1 => Just(Call::Migrate),
        1 => Just(Call::Decide),
        5 => left.prop_map(Call::Switch),
    ]
}

const CHOICE: Choice = Choice {
    cpu: 1,
    reason: "idle-core",
    affine_reason: "none",
    target: Some(0),
    reads: [1; Distance::COUNT],
    lost_claims: 1,
};

proptest! {
    #[test]
    fn both_formats_say_the_same(calls in prop::collection::vec((call(), 0..CPUS, 0..4u32, 1..3_000_000_000u64), 1..60)) {
        let workload = workload();
        let mut bytes = Vec::new();
        let run = PerfettoRun::new(PerfettoFile::new(&mut bytes), "m", &workload, CPUS);
        let both = Both(FtraceText::new(Vec::new(), &workload), run);
        let mut events = KernelEvents::new(both, &workload, CPUS);
        let mut current = [None; CPUS as usize];
        let mut now_ns = 0;
        for (call, cpu, task, after_ns) in calls {
            now_ns += after_ns;
            let other = (task + 1) % 4;
            match call {
                Call::Wake => events.wake(now_ns, cpu, task, false),
                Call::Start => events.start(now_ns, task),
                Call::Interrupt(source) => {
                    events.interrupt_enter(now_ns, cpu, source);
                    now_ns += 1;
                    events.wake(now_ns, cpu, task, false);
                    now_ns += 1;
                    events.interrupt_exit(now_ns, cpu);
                }
                Call::Wakeup(is_new) if is_new => events.wakeup_new(now_ns, cpu, 2, task),
                Call::Wakeup(_) => events.wakeup(now_ns, cpu, 1, task),
                Call::Fork => events.fork(now_ns, cpu, task, other),
                Call::Exit => events.exit(now_ns, cpu, task),
                Call::Migrate => events.migrate(now_ns, cpu, task, 1, 2),
                Call::Decide => events.decision(now_ns, cpu, task, &CHOICE),
                Call::Switch(left) => {
                    if current.contains(&Some(task)) {
                        continue;
                    }
                    if let Some(prev) = current[cpu as usize].replace(task) {
                        events.switch_out(now_ns, cpu, prev, left);
                    }
                    events.switch_in(now_ns, cpu, task);
                }
            }
        }
        let (text, file) = events.finish(now_ns).expect("memory takes everything");
        file.finish().expect("memory takes everything");
        let (perfetto, text) = (said(&bytes), said(&text));
        // A recording without a switch is refused, in the words of its format.
        prop_assert_eq!(perfetto.is_ok(), text.is_ok(), "{:?} {:?}", &perfetto, &text);
        if let Ok(perfetto) = perfetto {
            prop_assert_eq!(perfetto, text.unwrap_or_default());
        }
    }
}

#[test]
fn two_runs_are_two_machines() {
    let workload = workload();
    let mut bytes = Vec::new();
    let mut file = PerfettoFile::new(&mut bytes);
    for name in ["first", "second"] {
        let mut events = KernelEvents::new(PerfettoRun::new(file, name, &workload, CPUS), &workload, CPUS);
        events.switch_in(5, 1, 2);
        events.decision(6, 1, 3, &CHOICE);
        file = events.finish(9).expect("memory takes everything");
    }
    file.finish().expect("memory takes everything");
    let refused = reader(&bytes[..], "f").err().map(|error| error.to_string());
    let expected = "f: byte 7: expected events of one machine, found those of the machines 0 and 1";
    assert_eq!(refused.as_deref(), Some(expected));
}
