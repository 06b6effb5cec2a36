// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes runs in Perfetto's protobuf, for its UI and its trace processor.
//!
//! Scheduling and wake-ups are ftrace's events, in bundles of one CPU each, so that arrows from wakers and states of
//! threads come from the UI itself. The policy's decisions are track events: instants on the track of the task that a
//! CPU was chosen for, with the reason and the reads by distance. Several runs go into one file as several machines
//! (`machine_id`), each with its own CPUs, tasks and name; all begin at time 0.
//!
//! Packets are collected, and written in compressed packets. Task n of the workload has the id n + 1. A process has the
//! id of its first task, because the UI takes that one for the main thread.
//!
//! Worked example, for one switch at 5000 ns on CPU 3:
//! ```text
//! TracePacket { ftrace_events { cpu: 3 event { timestamp: 5000 pid: 7 common_flags: 1 sched_switch { prev_comm: "a"
//!   prev_pid: 7 prev_prio: 120 prev_state: 1 next_comm: "swapper" next_pid: 0 next_prio: 120 } } } machine_id: 1 }
//! ```

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use wakelab_machine::Distance;
use wakelab_workload::{Source, TaskIndex, Workload};

use crate::kernel_events::{At, Choice, KernelEvent, Left, Named, Sink};

/// Numbers of fields, by message (protos/perfetto/trace in Perfetto's source).
mod field {
    pub(super) const TRACE_PACKET: u64 = 1;
    pub(super) const PACKET_FTRACE: u64 = 1;
    pub(super) const PACKET_PROCESS_TREE: u64 = 2;
    pub(super) const PACKET_CLOCKS: u64 = 6;
    pub(super) const PACKET_TIMESTAMP: u64 = 8;
    pub(super) const PACKET_SEQUENCE: u64 = 10;
    pub(super) const PACKET_TRACK_EVENT: u64 = 11;
    pub(super) const PACKET_SEQUENCE_FLAGS: u64 = 13;
    pub(super) const PACKET_SYSTEM_INFO: u64 = 45;
    pub(super) const PACKET_COMPRESSED: u64 = 50;
    pub(super) const PACKET_TRACK: u64 = 60;
    pub(super) const PACKET_MACHINE: u64 = 98;
    pub(super) const BUNDLE_CPU: u64 = 1;
    pub(super) const BUNDLE_EVENT: u64 = 2;
    pub(super) const EVENT_TIMESTAMP: u64 = 1;
    pub(super) const EVENT_PID: u64 = 2;
    pub(super) const EVENT_FLAGS: u64 = 5;
    pub(super) const PRINT: u64 = 3;
    pub(super) const SWITCH: u64 = 4;
    pub(super) const WAKEUP: u64 = 17;
    pub(super) const WAKING: u64 = 20;
    pub(super) const SOFTIRQ_ENTRY: u64 = 24;
    pub(super) const SOFTIRQ_EXIT: u64 = 25;
    pub(super) const IRQ_ENTRY: u64 = 36;
    pub(super) const IRQ_EXIT: u64 = 37;
    pub(super) const WAKEUP_NEW: u64 = 114;
    pub(super) const EXEC: u64 = 237;
    pub(super) const EXIT: u64 = 238;
    pub(super) const FORK: u64 = 239;
    pub(super) const MIGRATE: u64 = 491;
}

/// Packets are compressed when they have this many bytes together. More compress a little better.
const CHUNK_BYTES: usize = 1 << 18;
/// Events of a CPU become a packet when they have this many bytes.
const BUNDLE_BYTES: usize = 1 << 14;

/// The flags of an ftrace event: interrupts are off; in a hard interrupt.
const IRQS_OFF: u64 = 0x01;
const HARDIRQ: u64 = 0x08;
/// The number of the timer among the soft interrupts.
const SOFTIRQ_TIMER: u64 = 1;
/// Bits of a task's state.
const STATE_SLEEPS: u64 = 0x01;
const STATE_DEAD: u64 = 0x10;
/// Sequence flags: what was said before does not count; what was said before is needed.
const SEQUENCE_BEGINS: u64 = 1;
const SEQUENCE_GOES_ON: u64 = 2;
const TRACK_EVENT_INSTANT: u64 = 3;
/// The clocks that begin at 0 together.
const CLOCKS: [u64; 3] = [1, 3, 6];

/// A message that is being written.
#[derive(Clone, Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn number(mut self, field: u64, number: u64) -> Message {
        self.varint(field << 3);
        self.varint(number);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Message {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn text(self, field: u64, text: &str) -> Message {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, message: &Message) -> Message {
        self.bytes(field, &message.0)
    }
}

/// A Perfetto file that is being written. The first error is kept for the end, and nothing is written after it.
pub struct PerfettoFile<W> {
    out: W,
    /// Packets that are not written yet.
    packets: Message,
    runs: u64,
    error: Option<io::Error>,
}

impl<W: Write> PerfettoFile<W> {
    /// Begins a file without runs.
    pub fn new(out: W) -> Self {
        PerfettoFile { out, packets: Message::default(), runs: 0, error: None }
    }

    fn packet(&mut self, packet: &Message) {
        self.packets = std::mem::take(&mut self.packets).message(field::TRACE_PACKET, packet);
        if self.packets.0.len() >= CHUNK_BYTES {
            self.write();
        }
    }

    fn write(&mut self) {
        let packets = std::mem::take(&mut self.packets);
        if packets.0.is_empty() || self.error.is_some() {
            return;
        }
        let mut packer = ZlibEncoder::new(Vec::new(), Compression::default());
        let result = packer.write_all(&packets.0).and_then(|()| packer.finish()).and_then(|packed| {
            let packet = Message::default().bytes(field::PACKET_COMPRESSED, &packed);
            self.out.write_all(&Message::default().message(field::TRACE_PACKET, &packet).0)
        });
        self.error = result.err();
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// The first error of any write.
    pub fn finish(mut self) -> io::Result<()> {
        self.write();
        match self.error {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }
}

/// One run in a file.
pub struct PerfettoRun<W> {
    file: PerfettoFile<W>,
    /// The number of the machine; the first run has 0, the host, of which files need not speak.
    machine: u64,
    tasks: Vec<Named>,
    /// By task: its process, as the id of the process's first task.
    leaders: Vec<TaskIndex>,
    /// By task: its track was described.
    described: Vec<bool>,
    /// By CPU: events that are not in a packet yet.
    bundles: Vec<Message>,
}

impl<W: Write> PerfettoRun<W> {
    /// Begins a run that the UI calls `name`.
    pub fn new(file: PerfettoFile<W>, name: &str, workload: &Workload, nr_cpus: u32) -> Self {
        let tasks = Named::all(workload);
        let mut first = std::collections::BTreeMap::new();
        let leaders =
            (0..).zip(&tasks).map(|(task, named)| *first.entry(named.process).or_insert(task)).collect();
        let machine = file.runs;
        let mut run = PerfettoRun {
            file: PerfettoFile { runs: machine + 1, ..file },
            machine,
            described: vec![false; tasks.len()],
            tasks,
            leaders,
            bundles: vec![Message::default(); nr_cpus as usize],
        };
        run.begin(name, nr_cpus);
        run
    }

    /// Says what the machine is, and which tasks and processes it has.
    fn begin(&mut self, name: &str, nr_cpus: u32) {
        let clocks = CLOCKS.iter().fold(Message::default(), |clocks, &clock| {
            clocks.message(1, &Message::default().number(1, clock).number(2, 0))
        });
        let packet = Message::default().message(field::PACKET_CLOCKS, &clocks);
        self.packet(packet.number(field::PACKET_SEQUENCE_FLAGS, SEQUENCE_BEGINS));
        let system = Message::default().number(8, nr_cpus.into()).text(17, name);
        self.packet(Message::default().message(field::PACKET_SYSTEM_INFO, &system));
        let mut tree = Message::default();
        for (task, named) in self.tasks.iter().enumerate() {
            let (tid, process) = (task as u64 + 1, u64::from(self.leaders[task]) + 1);
            if tid == process {
                let process = Message::default().number(1, tid).text(3, &named.comm).number(9, 1);
                tree = tree.message(1, &process);
            } else {
                let thread = Message::default().number(1, tid).text(2, &named.comm).number(3, process);
                tree = tree.message(2, &thread);
            }
        }
        let tree = Message::default().message(field::PACKET_PROCESS_TREE, &tree);
        self.packet(tree.number(field::PACKET_TIMESTAMP, 0));
    }

    fn packet(&mut self, packet: Message) {
        let packet = packet.number(field::PACKET_SEQUENCE, self.machine + 1);
        let packet =
            if self.machine == 0 { packet } else { packet.number(field::PACKET_MACHINE, self.machine) };
        self.file.packet(&packet);
    }

    fn task(&self, message: Message, from: u64, task: Option<TaskIndex>) -> Message {
        match task {
            Some(task) => {
                let Named { comm, prio, .. } = &self.tasks[task as usize];
                message.text(from, comm).number(from + 1, u64::from(task) + 1).number(from + 2, *prio as u64)
            }
            None => message.text(from, "swapper").number(from + 1, 0).number(from + 2, 120),
        }
    }

    /// Returns the field and the message of an event; `None` for one that Perfetto has no event for.
    fn message(&self, event: &KernelEvent<'_>) -> Option<(u64, Message)> {
        let new = Message::default;
        Some(match *event {
            KernelEvent::Switch { prev, next } => {
                let message = self.task(new(), 1, prev.map(|(prev, _)| prev));
                let state = match prev.map_or(Left::Runnable, |(_, left)| left) {
                    Left::Runnable => 0,
                    Left::Blocked => STATE_SLEEPS,
                    Left::Exited => STATE_DEAD,
                };
                (field::SWITCH, self.task(message.number(4, state), 5, next))
            }
            KernelEvent::Waking { task, last_cpu, .. } => {
                let message = self.task(new(), 1, Some(task)).number(4, 1);
                (field::WAKING, message.number(5, last_cpu.into()))
            }
            KernelEvent::Wakeup { task, cpu, is_new } => {
                let message = self.task(new(), 1, Some(task)).number(4, 1);
                (if is_new { field::WAKEUP_NEW } else { field::WAKEUP }, message.number(5, cpu.into()))
            }
            KernelEvent::Interrupt { source: Source::Timer, enters } => {
                let event = if enters { field::SOFTIRQ_ENTRY } else { field::SOFTIRQ_EXIT };
                (event, new().number(1, SOFTIRQ_TIMER))
            }
            KernelEvent::Interrupt { source: Source::Device, enters: true } => {
                (field::IRQ_ENTRY, new().number(1, 0).text(2, "wakelab"))
            }
            KernelEvent::Interrupt { source: Source::Device, enters: false } => {
                (field::IRQ_EXIT, new().number(1, 0).number(2, 1))
            }
            KernelEvent::Fork { parent, child } => {
                let [from, to] = [parent, child].map(|task| &self.tasks[task as usize].comm);
                let message = new().text(1, from).number(2, u64::from(parent) + 1);
                (field::FORK, message.text(3, to).number(4, u64::from(child) + 1))
            }
            KernelEvent::Exec { task } => {
                let tid = u64::from(task) + 1;
                (field::EXEC, new().text(1, &self.tasks[task as usize].comm).number(2, tid).number(3, tid))
            }
            KernelEvent::Exit { task } => {
                let Named { comm, prio, .. } = &self.tasks[task as usize];
                let process = u64::from(self.leaders[task as usize]) + 1;
                let message = new().text(1, comm).number(2, u64::from(task) + 1).number(3, process);
                (field::EXIT, message.number(4, *prio as u64))
            }
            KernelEvent::Migrate { task, from, to } => {
                let message = self.task(new(), 1, Some(task)).number(4, from.into());
                (field::MIGRATE, message.number(5, to.into()))
            }
            // So that nothing is cut off: instants of the first process, in atrace's words.
            KernelEvent::Begin => (field::PRINT, new().text(2, "I|1|wakelab: begin\n")),
            KernelEvent::End => (field::PRINT, new().text(2, "I|1|wakelab: end\n")),
            KernelEvent::Decision { .. }
            | KernelEvent::Interrupt { source: Source::Unknown, .. }
            | KernelEvent::Runtime { .. } => return None,
        })
    }

    /// Writes a decision as an instant on the track of the task, described before its first one.
    fn decision(&mut self, time_ns: u64, task: TaskIndex, choice: &Choice) {
        // Tracks of different machines have different numbers.
        let track = (self.machine + 1) << 32 | (u64::from(task) + 1);
        if !std::mem::replace(&mut self.described[task as usize], true) {
            let process = u64::from(self.leaders[task as usize]) + 1;
            let thread = Message::default().number(1, process).number(2, u64::from(task) + 1);
            let thread = thread.text(5, &self.tasks[task as usize].comm);
            let descriptor = Message::default().number(1, track).message(4, &thread);
            let packet = Message::default().message(field::PACKET_TRACK, &descriptor);
            self.packet(packet.number(field::PACKET_SEQUENCE_FLAGS, SEQUENCE_GOES_ON));
        }
        let number = |name: &str, number: u32| Message::default().text(10, name).number(3, number.into());
        let mut event = Message::default()
            .number(9, TRACK_EVENT_INSTANT)
            .number(11, track)
            .text(22, "wakelab")
            .text(23, choice.reason)
            .message(4, &number("cpu", choice.cpu))
            .message(4, &Message::default().text(10, "affine_reason").text(6, choice.affine_reason));
        if let Some(target) = choice.target {
            event = event.message(4, &number("target", target));
        }
        if choice.lost_claims > 0 {
            event = event.message(4, &number("lost_claims", choice.lost_claims));
        }
        for (distance, &reads) in Distance::ALL.iter().zip(&choice.reads).filter(|(_, reads)| **reads > 0) {
            event = event.message(4, &number(&format!("reads_{}", distance.name()), reads));
        }
        let packet = Message::default().message(field::PACKET_TRACK_EVENT, &event);
        let packet = packet.number(field::PACKET_TIMESTAMP, time_ns);
        self.packet(packet.number(field::PACKET_SEQUENCE_FLAGS, SEQUENCE_GOES_ON));
    }

    /// Makes a packet of the events of a CPU.
    fn flush(&mut self, cpu: usize) {
        let events = std::mem::take(&mut self.bundles[cpu]);
        if !events.0.is_empty() {
            let mut bundle = Message::default().number(field::BUNDLE_CPU, cpu as u64);
            bundle.0.extend(events.0);
            self.packet(Message::default().message(field::PACKET_FTRACE, &bundle));
        }
    }
}

impl<W: Write> Sink for PerfettoRun<W> {
    type Out = PerfettoFile<W>;

    fn event(&mut self, at: At, event: KernelEvent<'_>) {
        if let KernelEvent::Decision { task, choice } = event {
            return self.decision(at.time_ns, task, choice);
        }
        let Some((number, message)) = self.message(&event) else { return };
        let tid = at.current.map_or(0, |task| u64::from(task) + 1);
        let flags = if at.in_interrupt { IRQS_OFF | HARDIRQ } else { IRQS_OFF };
        let event = Message::default()
            .number(field::EVENT_TIMESTAMP, at.time_ns)
            .number(field::EVENT_PID, tid)
            .number(field::EVENT_FLAGS, flags)
            .message(number, &message);
        let cpu = at.cpu as usize;
        self.bundles[cpu] = std::mem::take(&mut self.bundles[cpu]).message(field::BUNDLE_EVENT, &event);
        if self.bundles[cpu].0.len() >= BUNDLE_BYTES {
            self.flush(cpu);
        }
    }

    fn finish(mut self) -> io::Result<PerfettoFile<W>> {
        (0..self.bundles.len()).for_each(|cpu| self.flush(cpu));
        Ok(self.file)
    }
}
