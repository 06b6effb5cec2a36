// SPDX-License-Identifier: GPL-2.0-or-later
//! Logs of a host in memory that drives a live policy at random: every answer must be the same when it is asked again.

use std::collections::BTreeMap;
use std::mem::offset_of;

use wakelab_log::{
    Document, Error, Header, LOG_CUT, Log, LogHead, Logged, NoteKind, Race, Writer, rebuild, record_bytes,
    verify,
};
use wakelab_machine::{Cpu, Topology};
use wakelab_policy::{
    Answer, Cover, CpuState, Decision, Dispatch, DispatchDo, Enqueue, Event, EventKind, Moved, Need,
    PolicySpec, Tables, leaves,
};

/// Offset of the event in a head.
const EVENT: usize = offset_of!(LogHead, event);

const NR_CPUS: usize = 8;
const NR_TASKS: usize = 14;
const NR_GROUPS: usize = 5;
const TICK_NS: u64 = 4_000_000;

/// 2 LLCs of 2 cores of 2 threads.
fn topology() -> Topology {
    let cpu = |number: u32| Cpu {
        core: number / 2,
        cluster: None,
        llc: number / 4,
        node: number / 4,
        capacity: 1024,
    };
    Topology { cpus: (0..NR_CPUS as u32).map(cpu).collect(), node_distance: vec![vec![10, 20], vec![20, 10]] }
}

/// Where a task is, as the host knows it.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Asleep,
    Queued(u32),
    Running(u32),
}

/// A host that records what it asks.
struct Host {
    live: Logged,
    log: Writer<Vec<u8>>,
    seq: [u64; NR_CPUS],
    now_ns: u64,
    places: [Place; NR_TASKS],
    random: u64,
    max_notes: usize,
    /// The address that the log gives for tasks, if it is not the real one.
    tasks_at: Option<u32>,
}

impl Host {
    fn new(spec: &PolicySpec, seed: u64) -> Host {
        let tables = Tables::build(&topology(), spec).unwrap();
        let live = Logged::new(spec, &tables, TICK_NS, NR_GROUPS, NR_TASKS).unwrap();
        let header = Header::new(spec, &topology(), TICK_NS, NR_GROUPS);
        let mut host = Host {
            live,
            log: Writer::new(Vec::new(), &header).unwrap(),
            seq: [0; NR_CPUS],
            now_ns: 1_000_000_000,
            places: [Place::Asleep; NR_TASKS],
            random: seed,
            max_notes: 1000,
            tasks_at: None,
        };
        for slot in 1..NR_GROUPS as u32 {
            let parent = if slot > 2 { 1 } else { 0 };
            host.tell(
                event(
                    EventKind::GroupInit,
                    0,
                    Event { slot, weight: 512 * slot, parent, ..Event::default() },
                ),
                None,
            );
        }
        for task in 0..NR_TASKS {
            let begun = Event { value: 100 + task as u64, weight: 1024, flags: 1, ..Event::default() };
            host.tell(event(EventKind::TaskInit, 0, begun), Some(task));
            if task % 3 > 0 {
                let slot = 1 + task as u32 % (NR_GROUPS as u32 - 1);
                host.tell(event(EventKind::Group, 0, Event { slot, ..Event::default() }), Some(task));
            }
        }
        for cpu in 0..NR_CPUS as u32 {
            host.live.set_idle(cpu, true);
            host.tell(on(EventKind::Idle, cpu), None);
        }
        host
    }

    /// Returns a random number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    fn call(&mut self, event: Event, task: Option<usize>, waker: Option<usize>, asked: Answer) -> Answer {
        let kind = event.kind().unwrap();
        self.now_ns += 1 + self.below(200_000);
        let event = Event { now_ns: self.now_ns, ..event };
        let cpu = event.this_cpu as usize;
        let mut head = LogHead {
            seq: self.seq[cpu],
            task: task.map_or(0, |task| 100 + task as u64),
            task_at: task.map_or(0, |task| self.live.task_at(task) as u32),
            waker_at: waker.map_or(0, |task| self.live.task_at(task) as u32),
            event,
            ..LogHead::default()
        };
        self.seq[cpu] += 1;
        let bytes = |host: &Host, task: Option<usize>| task.map(|task| host.live.task(task).to_vec());
        let has_task = kind.is_question();
        let (before, waker_before) = (bytes(self, task.filter(|_| has_task)), bytes(self, waker));
        let mut answer = asked;
        let (mut notes, cut) = self.live.live(&event, task, waker, self.max_notes, &mut answer);
        head.flags = if cut { LOG_CUT } else { 0 };
        if let Some(at) = self.tasks_at {
            let bytes = Logged::BYTES.1 as u32;
            let places = (task.map(|_| head.task_at), waker.map(|_| head.waker_at));
            for (place, moved) in [(places.0, at), (places.1, at + bytes)] {
                let Some(place) = place else { continue };
                let reads = notes.iter_mut().filter(|note| note.kind == NoteKind::Read as u32);
                reads.filter(|note| note.what.wrapping_sub(place) < bytes).for_each(|note| {
                    note.what = note.what - place + moved;
                });
            }
            (head.task_at, head.waker_at) = (at, at + bytes);
        }
        let notes = if has_task { notes } else { Vec::new() };
        let record = record_bytes(head, &answer, before.as_deref(), waker_before.as_deref(), &notes);
        self.log.record(&record).unwrap();
        answer
    }

    fn tell(&mut self, event: Event, task: Option<usize>) {
        self.call(event, task, None, Answer::default());
    }

    /// Asks with an empty answer.
    fn ask(&mut self, event: Event, task: Option<usize>, waker: Option<usize>) -> Answer {
        self.call(event, task, waker, Answer::default())
    }

    fn running_on(&self, cpu: u32) -> Option<usize> {
        self.places.iter().position(|place| *place == Place::Running(cpu))
    }

    fn queued_on(&self, cpu: u32) -> Option<usize> {
        self.places.iter().position(|place| *place == Place::Queued(cpu))
    }

    fn enqueue(&mut self, task: usize, cpu: u32, why: u32, this_cpu: u32) {
        let asked = event(EventKind::Enqueue, this_cpu, Event { cpu, flags: why, ..Event::default() });
        let queue = self.ask(asked, Some(task), None).get::<Enqueue>().cpu as u32;
        self.live.set_idle(queue, false);
        self.places[task] = Place::Queued(queue);
    }

    fn select(&mut self, task: usize, cpu: u32, waker: Option<usize>) {
        let prev_cpu = self.below(NR_CPUS as u64) as i32;
        let flags = self.below(2) as u32;
        let asked = event(EventKind::Select, cpu, Event { prev_cpu, flags, ..Event::default() });
        let answer = self.ask(asked, Some(task), waker);
        let decision: Decision = answer.get();
        if decision.scan_timed != 0 {
            self.call(Event { value: 3000, ..on(EventKind::ScanTook, cpu) }, None, None, answer);
        }
        self.enqueue(task, decision.cpu as u32, 0, cpu);
    }

    fn stop(&mut self, task: usize, cpu: u32, runnable: u32) {
        self.tell(Event { flags: runnable, ..on(EventKind::Stopping, cpu) }, Some(task));
    }

    /// Lets one thing happen.
    fn step(&mut self) {
        let cpu = self.below(NR_CPUS as u64) as u32;
        let task = self.below(NR_TASKS as u64) as usize;
        match (self.below(10), self.places[task], self.running_on(cpu)) {
            (0..4, Place::Asleep, waker) => self.select(task, cpu, waker),
            (4..7, _, None) => self.dispatch(cpu),
            (7, _, Some(task)) => {
                self.stop(task, cpu, 0);
                self.tell(event(EventKind::Quiescent, cpu, Event::default()), Some(task));
                self.places[task] = Place::Asleep;
                self.dispatch(cpu);
            }
            (8, _, Some(task)) => {
                self.stop(task, cpu, 1);
                self.enqueue(task, cpu, 2, cpu);
                self.dispatch(cpu);
            }
            (9, _, Some(_)) => {
                let weight = 100 + self.below(4000) as u32;
                self.tell(event(EventKind::Weight, cpu, Event { weight, ..Event::default() }), Some(task));
                self.tell(on(EventKind::Timer, cpu), None);
            }
            (_, _, running) => {
                self.now_ns += TICK_NS;
                self.ask(on(EventKind::Tick, cpu), running, None);
            }
        }
    }

    fn dispatch(&mut self, cpu: u32) {
        let mut asked = self.ask(on(EventKind::Dispatch, cpu), None, None);
        let dispatch: Dispatch = asked.get();
        if dispatch.what() == DispatchDo::Pull
            && let Some(task) = self.queued_on(dispatch.cpu as u32)
        {
            let mut before = Answer::default();
            before.set(&dispatch);
            let answer = self.call(on(EventKind::MayMove, cpu), Some(task), None, before);
            if answer.get::<Moved>().out.r#move != 0 {
                self.places[task] = Place::Queued(cpu);
            }
            asked = self.ask(on(EventKind::Dispatch, cpu), None, None);
        }
        let Some(task) = self.queued_on(cpu) else {
            if asked.get::<Dispatch>().what() == DispatchDo::Nothing {
                self.live.set_idle(cpu, true);
                self.tell(on(EventKind::Idle, cpu), None);
            }
            return;
        };
        if asked.get::<Dispatch>().overdue != 0 {
            self.ask(on(EventKind::Overdue, cpu), Some(task), None);
        }
        self.ask(on(EventKind::MayRun, cpu), Some(task), None);
        self.live.set_idle(cpu, false);
        self.tell(on(EventKind::Busy, cpu), None);
        self.tell(on(EventKind::Running, cpu), Some(task));
        self.places[task] = Place::Running(cpu);
    }

    fn log(mut self, steps: usize) -> Vec<u8> {
        (0..steps).for_each(|_| self.step());
        self.log.end(0).unwrap()
    }
}

/// An event on a CPU, with the arguments of another.
fn event(kind: EventKind, this_cpu: u32, arguments: Event) -> Event {
    Event { kind: kind as u32, this_cpu, ..arguments }
}

/// An event about the CPU on which it happens.
fn on(kind: EventKind, cpu: u32) -> Event {
    event(kind, cpu, Event { cpu, ..Event::default() })
}

/// The offset of the first record of a kind.
fn first(log: &Log<'_>, kind: EventKind) -> usize {
    log.records().find(|record| record.kind == kind).unwrap().offset as usize
}

#[test]
fn every_policy_answers_alike_from_its_records_and_from_its_events() {
    let mut seen = BTreeMap::new();
    for (seed, spec) in PolicySpec::cover(Cover::Values).into_iter().enumerate() {
        // So short that some tasks are overdue.
        let spec = spec.with("wait-max-ns", "5000000").unwrap();
        let bytes = Host::new(&spec, 88172645463325252 + seed as u64).log(1500);
        let log = Log::parse(&bytes).unwrap();
        assert!(log.has_end() && log.lost() == 0 && log.cut_at().is_none());
        let verified = verify(&log).unwrap();
        assert_eq!(verified.differences, [], "{spec}");
        let total = verified.total();
        assert!(total.questions > 1000 && total.agreed == total.questions, "{spec}: {total:?}");
        for (kind, counts) in &verified.kinds {
            *seen.entry(*kind).or_insert(0) += counts.questions;
        }
        let rebuilt = rebuild(&log).unwrap();
        assert_eq!(rebuilt.races, [], "{spec}");
        assert_eq!(rebuilt.total(), (total.questions, total.questions), "{spec}");
    }
    for kind in EventKind::ALL.iter().filter(|kind| kind.is_question()) {
        assert!(seen.get(kind).is_some_and(|number| *number > 20), "{}: {seen:?}", kind.name());
    }
}

#[test]
fn tasks_may_seem_to_be_inside_the_policy() {
    // A note has the lower half of a place's offset from the policy. This place is beyond the CPUs that exist.
    let mut host = Host::new(&"linux-6.12".parse().unwrap(), 7);
    host.tasks_at = Some(Logged::BYTES.0 as u32 - 4096);
    let bytes = host.log(1500);
    let log = Log::parse(&bytes).unwrap();
    assert_eq!(verify(&log).unwrap().differences, []);
    assert_eq!(rebuild(&log).unwrap().races, []);
}

#[test]
fn another_answer_is_named() {
    let mut bytes = Host::new(&"linux-4.15".parse().unwrap(), 1).log(200);
    let log = Log::parse(&bytes).unwrap();
    let record = log.records().find(|record| record.kind == EventKind::Select).unwrap();
    let (at, number, task) = (record.offset as usize, record.number, record.head.task);
    let cpu = bytes[at + 80];
    bytes[at + 80] = cpu + 1;
    let log = Log::parse(&bytes).unwrap();
    let differences = verify(&log).unwrap().differences;
    assert_eq!(differences.len(), 1);
    let difference = &differences[0];
    assert_eq!((difference.record, difference.offset as usize, difference.task), (number, at, task));
    assert_eq!((difference.field.as_str(), difference.native.clone()), ("cpu", cpu.to_string()));
    assert_eq!(difference.live, (cpu + 1).to_string());
}

#[test]
fn a_read_of_something_else_is_named_on_both_sides() {
    let mut bytes = Host::new(&"linux-4.15".parse().unwrap(), 1).log(200);
    let log = Log::parse(&bytes).unwrap();
    let record = log.records().find(|record| record.kind == EventKind::Select).unwrap();
    let size = record.head.size as usize;
    // The last note becomes a claim of a CPU that does not exist.
    let at = record.offset as usize + size - 16;
    bytes[at..at + 8].copy_from_slice(&[99, 0, 0, 0, 3, 0, 0, 0]);
    let log = Log::parse(&bytes).unwrap();
    let fields: Vec<(String, String)> =
        verify(&log).unwrap().differences.into_iter().map(|d| (d.field, d.native)).collect();
    assert!(
        fields.iter().any(|(field, native)| field == "claim of CPU 99" && native == "not read"),
        "{fields:?}"
    );
    assert!(
        fields.iter().any(|(field, native)| field != "claim of CPU 99" && native.starts_with("read")),
        "{fields:?}"
    );
}

#[test]
fn what_does_not_fit_a_record_is_not_verified_but_counted() {
    let mut host = Host::new(&"linux-4.15".parse().unwrap(), 5);
    host.max_notes = 3;
    let bytes = host.log(300);
    let verified = verify(&Log::parse(&bytes).unwrap()).unwrap();
    let total = verified.total();
    assert!(total.cut > 50 && total.agreed + total.cut == total.questions, "{total:?}");
    assert_eq!(verified.differences, []);
}

#[test]
fn lost_records_are_counted_and_explain_what_is_rebuilt_otherwise() {
    let bytes = Host::new(&"linux-6.12".parse().unwrap(), 3).log(600);
    let log = Log::parse(&bytes).unwrap();
    let mut writer = Writer::new(Vec::new(), &log.header).unwrap();
    let mut lost = 0;
    for record in log.records() {
        if record.kind == EventKind::Running {
            lost += 1;
            continue;
        }
        let begin = record.offset as usize;
        writer.record(&bytes[begin..begin + record.head.size as usize]).unwrap();
    }
    let bytes = writer.end(0).unwrap();
    // The last records of a CPU leave no gap when they are lost.
    let gaps = Log::parse(&bytes).unwrap().lost();
    assert!(gaps <= lost && gaps + NR_CPUS as u64 >= lost, "{gaps} of {lost}");
    let end = bytes.len() - size_of::<LogHead>();
    let mut bytes = bytes;
    let at = end + EVENT + offset_of!(Event, value);
    bytes[at..at + 8].copy_from_slice(&lost.to_le_bytes());
    let log = Log::parse(&bytes).unwrap();
    assert_eq!(log.lost(), lost);
    assert_eq!(verify(&log).unwrap().differences, []);
    let rebuilt = rebuild(&log).unwrap();
    let (questions, agreed) = rebuilt.total();
    let raced: u64 = rebuilt.races.iter().map(|(_, number)| number).sum();
    assert_eq!(questions - agreed, raced);
    assert!(agreed < questions, "without any task running");
    assert!(rebuilt.races.iter().any(|(race, _)| *race == Race::Queue || *race == Race::Vtime));
}

#[test]
fn a_claim_by_another_cpu_is_named() {
    // A wake-up finds its target idle. Live, another CPU had claimed it: the answer is another CPU.
    let mut host = Host::new(&"linux-4.15".parse().unwrap(), 9);
    host.live.set_idle(2, false);
    let asked = event(EventKind::Select, 2, Event { prev_cpu: 2, ..Event::default() });
    host.ask(asked, Some(0), None);
    let bytes = host.log.end(0).unwrap();
    let rebuilt = rebuild(&Log::parse(&bytes).unwrap()).unwrap();
    assert_eq!(rebuilt.races, [(Race::Claim, 1)]);
}

#[test]
fn a_log_that_ends_early_is_read_to_there() {
    let bytes = Host::new(&"linux-4.15".parse().unwrap(), 1).log(50);
    let whole = Log::parse(&bytes).unwrap();
    let last = whole.records().last().unwrap();
    let within = last.offset as usize + 9;
    let log = Log::parse(&bytes[..within]).unwrap();
    assert_eq!((log.len(), log.cut_at()), (whole.len() - 1, Some(last.offset)));
    assert!(!log.has_end());
}

#[test]
fn what_is_no_log_is_refused_with_its_place() {
    let bytes = Host::new(&"linux-4.15".parse().unwrap(), 1).log(50);
    let log = Log::parse(&bytes).unwrap();
    let (select, busy) = (first(&log, EventKind::Select), first(&log, EventKind::Busy));
    let refused = |at: usize, with: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        Log::parse(&bytes).unwrap_err()
    };
    let place = |error: &Error| match error {
        Error::Format { offset, .. } => *offset as usize,
        Error::Policy(_) => panic!("{error}"),
    };
    assert_eq!(place(&refused(0, b"ELF")), 0);
    assert_eq!(refused(8, &[9]).to_string(), "byte 8: version 9; expected version 3");
    assert_eq!(place(&refused(16, b"[")), 16);
    // Of a record: its size, kind, CPU, the CPU that it is about.
    assert_eq!(place(&refused(select, &[1])), select);
    let [kind, this_cpu, cpu] =
        [offset_of!(Event, kind), offset_of!(Event, this_cpu), offset_of!(Event, cpu)];
    assert_eq!(place(&refused(select + EVENT + kind, &[99])), select + EVENT + kind);
    assert_eq!(place(&refused(select + EVENT + this_cpu, &[8])), select + EVENT + this_cpu);
    assert_eq!(place(&refused(busy + EVENT + cpu, &[8])), busy + EVENT + cpu);
    let error = refused(busy + EVENT + this_cpu, &[8]).to_string();
    assert!(error.ends_with("CPU 8; expected one below 8, as many as the machine has"), "{error}");
    assert_eq!(place(&Log::parse(&bytes[..12]).unwrap_err()), 12);
    assert_eq!(place(&Log::parse(&bytes[..20]).unwrap_err()), 20);
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(place(&Log::parse(&longer).unwrap_err()), bytes.len());
}

/// A log of these records on 8 CPUs, under linux-4.15.
fn log_of(records: &[Vec<u8>]) -> Vec<u8> {
    let header = Header::new(&"linux-4.15".parse().unwrap(), &topology(), TICK_NS, NR_GROUPS);
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    records.iter().for_each(|record| writer.record(record).unwrap());
    writer.end(0).unwrap()
}

#[test]
fn a_record_with_a_task_that_has_no_id_is_refused() {
    let task = vec![0; Logged::BYTES.1];
    for kind in
        EventKind::ALL.iter().copied().filter(|kind| kind.is_question() && kind.call().task != Need::None)
    {
        let head = LogHead { event: on(kind, 1), ..LogHead::default() };
        let bytes = log_of(&[record_bytes(head, &Answer::default(), Some(&task), None, &[])]);
        let error = Log::parse(&bytes).unwrap_err().to_string();
        let expected = format!("a {} with a task whose id is 0; expected the task's id", kind.name());
        assert!(error.ends_with(&expected), "{error}");
    }
}

#[test]
fn forged_numbers_of_records_and_slots_do_not_overflow() {
    let mut task = vec![0; Logged::BYTES.1];
    let id = offset_of!(wakelab_policy::Task, id);
    task[id] = 7;
    let note = |kind: NoteKind, what, value| wakelab_log::Note { what, kind: kind as u32, value };
    // A slot whose record would be beyond 4 GB, and a read that seems to be in it.
    let notes = [note(NoteKind::Group, u32::MAX, 1 << 32 | 64), note(NoteKind::Read, 80, 1)];
    let head = LogHead { seq: u64::MAX, task: 7, event: on(EventKind::Enqueue, 1), ..LogHead::default() };
    let bytes = log_of(&[
        record_bytes(head, &Answer::default(), Some(&task), None, &notes),
        record_bytes(head, &Answer::default(), Some(&task), None, &notes),
    ]);
    let log = Log::parse(&bytes).unwrap();
    assert_eq!(log.lost(), u64::MAX - 2);
    assert!(!verify(&log).unwrap().differences.is_empty());
    rebuild(&log).unwrap();
}

#[test]
fn a_forged_read_of_the_cpu_to_pull_from_is_any_other_read() {
    // groups=exact pulls from the CPU that a read names, less 1.
    let bytes = Host::new(&"linux-6.12+groups=exact".parse().unwrap(), 11).log(1500);
    let mut forged_bytes = bytes.clone();
    let log = Log::parse(&bytes).unwrap();
    let fields = leaves(CpuState::FIELDS);
    let pull_from = fields.iter().find(|leaf| leaf.name.ends_with("pull_from")).unwrap().offset;
    let cpu_0 = wakelab_log::WL_POLICY_FIELDS.iter().find(|field| field.name == "cpu").unwrap().offset as u32;
    let mut forged = 0;
    for record in log.records().filter(|record| record.kind == EventKind::Dispatch) {
        let at = cpu_0 + record.head.event.cpu * size_of::<CpuState>() as u32 + pull_from as u32;
        let begin = record.offset as usize + record.head.size as usize - record.notes().len() * 16;
        for (index, _) in record.notes().iter().enumerate().filter(|(_, note)| note.what == at) {
            let value = begin + index * 16 + 8;
            forged_bytes[value..value + 8].copy_from_slice(&0x8000_0000_u64.to_le_bytes());
            forged += 1;
        }
    }
    assert!(forged > 0);
    verify(&Log::parse(&forged_bytes).unwrap()).unwrap();
}

#[test]
fn a_log_cut_behind_its_header_is_refused_and_an_empty_one_is_not() {
    let whole = log_of(&[]);
    assert!(Log::parse(&whole).unwrap().is_empty());
    let end = whole.len() - size_of::<LogHead>();
    for cut in [end, end + 9] {
        let error = Log::parse(&whole[..cut]).unwrap_err().to_string();
        let expected = format!("byte {cut}: the end of the file, without a whole record; expected records");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn documents_are_as_the_schema_says() {
    let schema = include_str!("../../../docs/schema/verify.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    assert!(jsonschema::meta::is_valid(&schema));
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut bytes = Host::new(&"linux-4.15".parse().unwrap(), 1).log(300);
    let at = first(&Log::parse(&bytes).unwrap(), EventKind::Select);
    bytes[at + 80] += 1;
    let log = Log::parse(&bytes).unwrap();
    let (verified, rebuilt) = (verify(&log).unwrap(), rebuild(&log).unwrap());
    for rebuilt in [Some(&rebuilt), None] {
        let document = serde_json::to_value(Document::new(&log, &verified, rebuilt)).unwrap();
        let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
        assert_eq!(document["differences"].as_array().unwrap().len(), 1);
    }
}
