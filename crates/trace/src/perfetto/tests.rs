// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of Perfetto's files: a small one made by hand, and a real one.

use std::fs::File;
use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::*;
use crate::event::Context;
use crate::format;
use crate::raw::same::{assert_fixture, shared};

/// A message that is being written.
#[derive(Clone, Default)]
struct Out(Vec<u8>);

impl Out {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn number(mut self, field: u64, number: u64) -> Self {
        self.varint(field << 3);
        self.varint(number);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn message(self, field: u64, message: &Out) -> Self {
        self.bytes(field, &message.0)
    }

    fn packed(self, field: u64, numbers: &[u64]) -> Self {
        let mut list = Out::default();
        numbers.iter().for_each(|&number| list.varint(number));
        self.bytes(field, &list.0)
    }
}

/// A task's name and its id.
type Task<'a> = (&'a [u8], u64);

const BEGIN_NS: u64 = 5_000_000_000;

fn event(time_ns: u64, tid: u64, field: u64, message: &Out) -> Out {
    Out::default().number(1, BEGIN_NS + time_ns).number(2, tid).message(field, message)
}

fn switch(time_ns: u64, prev: Task<'_>, state: u64, next: Task<'_>) -> Out {
    let task = |out: Out, from: u64, task: Task<'_>| out.bytes(from, task.0).number(from + 1, task.1);
    let message = task(Out::default(), 1, prev).number(3, 120).number(4, state);
    event(time_ns, prev.1, 4, &task(message, 5, next).number(7, 120))
}

fn waking(time_ns: u64, tid: u64, (comm, wakee): Task<'_>, cpu: u64) -> Out {
    let message = Out::default().bytes(1, comm).number(2, wakee).number(3, 120).number(4, 1).number(5, cpu);
    event(time_ns, tid, 20, &message)
}

fn bundle(cpu: u64, events: &[Out]) -> Out {
    events.iter().fold(Out::default().number(1, cpu), |bundle, event| bundle.message(2, event))
}

/// Two CPUs. The packets are in no order of time; one bundle is in the compact form and packed, and events were lost
/// before another.
fn small() -> Vec<u8> {
    let (idle, shell, sleep): (Task<'_>, Task<'_>, Task<'_>) =
        ((b"swapper", 0), (b"sh\xc3", 10), (b"sleep", 11));
    let new_task = Out::default().number(1, 11).bytes(2, shell.0).number(3, 17).number(4, u64::MAX);
    let soft = |field, vector| (field, Out::default().number(1, vector));
    let (enter, leave) = (soft(24, 1), soft(25, 1));
    let first = bundle(
        0,
        &[
            switch(0, idle, 0, shell),
            event(500, 10, 235, &new_task),
            waking(1000, 10, sleep, 1),
            switch(5000, shell, 1, idle),
            event(8000, 0, enter.0, &enter.1),
            waking(9000, 0, shell, 0),
            event(9100, 0, leave.0, &leave.1),
            switch(9500, idle, 0, shell),
        ],
    );
    let later = bundle(0, &[switch(30_000, shell, 16, idle)]).number(3, 1);
    let compact = Out::default()
        .bytes(5, sleep.0)
        .bytes(5, b"swapper/1")
        .packed(1, &[BEGIN_NS + 2000, 6000, 7000])
        .packed(2, &[0, 1, 0])
        .packed(3, &[11, 0, 11])
        .packed(4, &[120, 120, 120])
        .packed(6, &[0, 1, 0])
        .packed(7, &[BEGIN_NS + 3000])
        .packed(8, &[10])
        .packed(9, &[0])
        .packed(10, &[120])
        .packed(11, &[0])
        .packed(12, &[0]);
    let compact = Out::default().number(1, 1).message(4, &compact);
    let end = bundle(1, &[switch(40_000, sleep, 16, idle)]);
    let packet = |bundle: &Out| Out::default().number(8, 7).message(1, bundle).number(10, 1);
    let mut packer = ZlibEncoder::new(Vec::new(), Compression::default());
    let inner = Out::default().message(1, &packet(&compact)).message(1, &packet(&end));
    let packed = packer.write_all(&inner.0).and_then(|()| packer.finish()).expect("vectors take everything");
    let process = Out::default().number(1, 10).number(2, 1);
    let thread = Out::default().number(1, 11).bytes(2, b"sleep").number(3, 10);
    let tree = Out::default().message(1, &process).message(2, &thread);
    let names = Out::default().bytes(1, b"Linux").bytes(3, b"6.12.9");
    let packets = [
        Out::default().message(2, &tree).number(10, 1),
        packet(&later),
        packet(&first),
        Out::default().bytes(50, &packed),
        Out::default().message(45, &Out::default().message(1, &names)),
    ];
    packets.iter().fold(Out::default(), |file, packet| file.message(1, packet)).0
}

#[test]
fn a_small_file() {
    let mut reader = Reader::new(Store::of_memory(small(), "f", None)).expect("an index");
    let mut story = Vec::new();
    while let Some(item) = reader.next_item().expect("an item") {
        match item {
            Item::Lost { count, .. } => story.push(format!("lost {count}")),
            Item::Event(event) => {
                let what = match event.what {
                    What::Switch { prev, why, next } => format!("{} {why:?} {}", prev.comm, next.comm),
                    What::Waking { task, last_cpu, .. } => format!("{} {last_cpu}", task.comm),
                    What::Fork { parent, child } => format!("{} forks {}", parent.tid, child.tid),
                    other => format!("{other:?}"),
                };
                let by = match event.context {
                    Context::Task | Context::Unknown => format!("{:?}", event.current.tid),
                    other => format!("{other:?}"),
                };
                story.push(format!("{} {} {by}: {what}", event.time_ns - BEGIN_NS, event.cpu));
            }
            _ => {}
        }
    }
    assert_eq!(
        story,
        [
            "0 0 Some(0): swapper Runnable sh?",
            "500 0 Some(10): 10 forks 11",
            "1000 0 Some(10): sleep 1",
            // The first compact switch of a CPU does not tell what ran before.
            "2000 1 None: Other",
            "3000 1 Some(11): sleep 0",
            "5000 0 Some(10): sh? Blocked swapper",
            "8000 0 Interrupt(Timer): Other",
            "8000 1 Some(11): sleep Blocked swapper/1",
            "9000 0 Interrupt(Timer): sh? 0",
            "9100 0 Some(0): Other",
            "9500 0 Some(0): swapper Runnable sh?",
            "15000 1 Some(0): swapper/1 Runnable sleep",
            "lost 1",
            "30000 0 Some(10): sh? Exited swapper",
            "40000 1 Some(11): sleep Exited swapper",
        ]
    );
}

#[test]
fn the_fixture_is_the_small_file() {
    assert_fixture("small.perfetto-trace", &small());
}

#[test]
fn what_is_wrong_is_named_with_its_byte() {
    let refusal =
        |bytes: Vec<u8>| Reader::new(Store::of_memory(bytes, "f", None)).err().map(|error| error.to_string());
    let mut cut = small();
    cut.truncate(100);
    let expected = "f: byte 76: expected 234 bytes of a packet, found the end of the file at byte 100";
    assert_eq!(refusal(cut).as_deref(), Some(expected));
    let mut other = small();
    other[0] = 0x12;
    let expected = "f: byte 0: expected a packet (the byte 0x0a), found 0x12";
    assert_eq!(refusal(other).as_deref(), Some(expected));
}

/// A telephone, for 16 seconds. The packets of the first seconds come after those of the next ones.
#[test]
fn a_telephone() {
    let Some(path) = shared("galaxy-s20.perfetto-trace") else { return };
    let mut reader = format::reader_of_file(File::open(path).expect("a file"), "f").expect("a recording");
    let (mut events, mut switches, mut wakeups, mut forks) = (0, 0, 0, 0);
    while let Some(item) = reader.next_item().expect("an item") {
        let Item::Event(event) = item else { continue };
        events += 1;
        switches += u32::from(matches!(event.what, What::Switch { .. }));
        wakeups += u32::from(matches!(event.what, What::Wakeup { .. }));
        forks += u32::from(matches!(event.what, What::Fork { .. }));
    }
    assert_eq!((events, switches, wakeups, forks), (35_877, 15_267, 8_743, 4));
}
