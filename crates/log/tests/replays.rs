// SPDX-License-Identifier: GPL-2.0-or-later
//! Logs made by a host in memory, which drives a live policy at random: all that it was asked must be answered alike.

use std::collections::BTreeMap;

use wakelab_log::{Document, Error, Header, Log, Race, Writer, rebuild, record_bytes, verify};
use wakelab_machine::{Cpu, Topology};
use wakelab_policy::{
    Cover, DispatchDo, LOG_CUT, LogHead, LogKind, Logged, Note, PolicySpec, Tables, task_fields,
};

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

/// A host that writes down what it asks.
struct Host {
    live: Logged,
    log: Writer<Vec<u8>>,
    seq: [u64; NR_CPUS],
    now_ns: u64,
    places: [Place; NR_TASKS],
    random: u64,
    max_notes: usize,
    /// Where tasks are said to be, if not where they are.
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
        for slot in 1..NR_GROUPS as u64 {
            let parent = if slot > 2 { 1 } else { 0 };
            host.tell(LogKind::GroupInit, 0, None, [slot, 512 * slot, parent]);
        }
        for task in 0..NR_TASKS {
            host.tell(LogKind::TaskInit, 0, Some(task), [1024, 1, 0]);
            if task % 3 > 0 {
                host.tell(LogKind::Group, 0, Some(task), [1 + task as u64 % (NR_GROUPS as u64 - 1), 0, 0]);
            }
        }
        for cpu in 0..NR_CPUS as u64 {
            host.live.set_idle(cpu as u32, true);
            host.tell(LogKind::Idle, cpu as u32, None, [cpu, 0, 0]);
        }
        host
    }

    /// Below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    fn call(
        &mut self,
        kind: LogKind,
        cpu: u32,
        task: Option<usize>,
        waker: Option<usize>,
        args: [u64; 3],
        asked: &[u8],
    ) -> Vec<u8> {
        let id = |task: usize| 100 + task as u64;
        self.now_ns += 1 + self.below(200_000);
        let head = LogHead {
            kind: kind as u16,
            cpu,
            seq: self.seq[cpu as usize],
            now_ns: self.now_ns,
            task: task.map_or(0, id),
            task_at: task.map_or(0, |task| self.live.task_at(task) as u32),
            waker_at: waker.map_or(0, |task| self.live.task_at(task) as u32),
            args: [args[0], args[1], args[2], 0],
            ..LogHead::default()
        };
        self.seq[cpu as usize] += 1;
        let bytes = |host: &Host, task: Option<usize>| task.map(|task| host.live.task(task).to_vec());
        let has_task = kind.is_question();
        let (before, waker_before) = (bytes(self, task.filter(|_| has_task)), bytes(self, waker));
        let mut answer = vec![0; kind.answer_bytes()];
        answer[..asked.len()].copy_from_slice(asked);
        let (notes, cut) = self.live.live(&head, task, waker, self.max_notes, &mut answer);
        let mut head = LogHead { flags: if cut { LOG_CUT } else { 0 }, ..head };
        let mut notes = notes;
        if let Some(at) = self.tasks_at {
            let bytes = Logged::layout().task;
            let places = (task.map(|_| head.task_at), waker.map(|_| head.waker_at));
            for (place, moved) in [(places.0, at), (places.1, at + bytes)] {
                let Some(place) = place else { continue };
                let reads = notes.iter_mut().filter(|note| note.kind == Note::READ);
                reads.filter(|note| note.what.wrapping_sub(place) < bytes).for_each(|note| {
                    note.what = note.what - place + moved;
                });
            }
            (head.task_at, head.waker_at) = (at, at + bytes);
        }
        let notes = if has_task { notes } else { Vec::new() };
        let record = record_bytes(head, kind, &answer, before.as_deref(), waker_before.as_deref(), &notes);
        self.log.record(&record).unwrap();
        answer
    }

    fn tell(&mut self, kind: LogKind, cpu: u32, task: Option<usize>, args: [u64; 3]) {
        self.call(kind, cpu, task, None, args, &[]);
    }

    fn running_on(&self, cpu: u32) -> Option<usize> {
        self.places.iter().position(|place| *place == Place::Running(cpu))
    }

    fn queued_on(&self, cpu: u32) -> Option<usize> {
        self.places.iter().position(|place| *place == Place::Queued(cpu))
    }

    fn enqueue(&mut self, task: usize, cpu: u32, why: u64, this_cpu: u32) {
        let answer = self.call(LogKind::Enqueue, this_cpu, Some(task), None, [cpu.into(), why, 0], &[]);
        let queue = number(&answer, 0) as u32;
        self.live.set_idle(queue, false);
        self.places[task] = Place::Queued(queue);
    }

    /// One thing happens.
    fn step(&mut self) {
        let cpu = self.below(NR_CPUS as u64) as u32;
        let task = self.below(NR_TASKS as u64) as usize;
        match (self.below(10), self.places[task], self.running_on(cpu)) {
            (0..4, Place::Asleep, waker) => {
                let prev = self.below(NR_CPUS as u64);
                let flags = self.below(2);
                let answer = self.call(LogKind::Select, cpu, Some(task), waker, [prev, flags, 0], &[]);
                if number(&answer, 24) != 0 {
                    self.call(LogKind::ScanTook, cpu, None, None, [cpu.into(), 3000, 0], &answer);
                }
                self.enqueue(task, number(&answer, 0) as u32, 0, cpu);
            }
            (4..7, _, None) => self.dispatch(cpu),
            (7, _, Some(task)) => {
                self.tell(LogKind::Stopping, cpu, Some(task), [cpu.into(), 0, 0]);
                self.tell(LogKind::Quiescent, cpu, Some(task), [0; 3]);
                self.places[task] = Place::Asleep;
                self.dispatch(cpu);
            }
            (8, _, Some(task)) => {
                self.tell(LogKind::Stopping, cpu, Some(task), [cpu.into(), 1, 0]);
                self.enqueue(task, cpu, 2, cpu);
                self.dispatch(cpu);
            }
            (9, _, Some(_)) => {
                let weight = 100 + self.below(4000);
                self.tell(LogKind::Weight, cpu, Some(task), [weight, 0, 0]);
                self.tell(LogKind::Timer, cpu, None, [cpu.into(), 0, 0]);
            }
            (_, _, running) => {
                self.now_ns += TICK_NS;
                self.call(LogKind::Tick, cpu, running, None, [cpu.into(), 0, 0], &[]);
            }
        }
    }

    fn dispatch(&mut self, cpu: u32) {
        let mut asked = self.call(LogKind::Dispatch, cpu, None, None, [cpu.into(), 0, 0], &[]);
        if number(&asked, 0) == DispatchDo::Pull as u64
            && let Some(task) = self.queued_on(number(&asked, 4) as u32)
        {
            let answer = self.call(LogKind::MayMove, cpu, Some(task), None, [cpu.into(), 0, 0], &asked);
            if number(&answer, 160) != 0 {
                self.places[task] = Place::Queued(cpu);
            }
            asked = self.call(LogKind::Dispatch, cpu, None, None, [cpu.into(), 0, 0], &[]);
        }
        let Some(task) = self.queued_on(cpu) else {
            if number(&asked, 0) == DispatchDo::Nothing as u64 {
                self.live.set_idle(cpu, true);
                self.tell(LogKind::Idle, cpu, None, [cpu.into(), 0, 0]);
            }
            return;
        };
        self.call(LogKind::MayRun, cpu, Some(task), None, [cpu.into(), 0, 0], &[]);
        self.live.set_idle(cpu, false);
        self.tell(LogKind::Busy, cpu, None, [cpu.into(), 0, 0]);
        self.tell(LogKind::Running, cpu, Some(task), [cpu.into(), 0, 0]);
        self.places[task] = Place::Running(cpu);
    }

    fn log(mut self, steps: usize) -> Vec<u8> {
        (0..steps).for_each(|_| self.step());
        self.log.end(0).unwrap()
    }
}

/// The u32 at `offset`.
fn number(bytes: &[u8], offset: usize) -> u64 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().unwrap()).into()
}

/// Where the first record of a kind begins.
fn first(log: &Log<'_>, kind: LogKind) -> usize {
    log.records().find(|record| record.kind == kind).unwrap().offset as usize
}

#[test]
fn every_policy_answers_alike_from_its_records_and_from_its_events() {
    let mut seen = BTreeMap::new();
    for (seed, spec) in PolicySpec::cover(Cover::Values).iter().enumerate() {
        let bytes = Host::new(spec, 88172645463325252 + seed as u64).log(1500);
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
    for kind in LogKind::ALL.iter().filter(|kind| kind.is_question()) {
        assert!(seen.get(kind).is_some_and(|number| *number > 20), "{}: {seen:?}", kind.name());
    }
}

#[test]
fn tasks_may_seem_to_be_inside_the_policy() {
    // What a note says of a place is the lower half of its distance from the policy. This one is beyond the CPUs that
    // there are.
    let mut host = Host::new(&"linux-6.12".parse().unwrap(), 7);
    host.tasks_at = Some(Logged::layout().policy - 4096);
    let bytes = host.log(1500);
    let log = Log::parse(&bytes).unwrap();
    assert_eq!(verify(&log).unwrap().differences, []);
    assert_eq!(rebuild(&log).unwrap().races, []);
}

#[test]
fn another_answer_is_named() {
    let mut bytes = Host::new(&"linux-4.15".parse().unwrap(), 1).log(200);
    let log = Log::parse(&bytes).unwrap();
    let record = log.records().find(|record| record.kind == LogKind::Select).unwrap();
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
    let record = log.records().find(|record| record.kind == LogKind::Select).unwrap();
    let size = record.head.size as usize;
    // The last note, which becomes a claim of a CPU that there is none of.
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
        if record.kind == LogKind::Running {
            lost += 1;
            continue;
        }
        let begin = record.offset as usize;
        writer.record(&bytes[begin..begin + record.head.size as usize]).unwrap();
    }
    let bytes = writer.end(0).unwrap();
    // The last records of a CPU leave no gap.
    let gaps = Log::parse(&bytes).unwrap().lost();
    assert!(gaps <= lost && gaps + NR_CPUS as u64 >= lost, "{gaps} of {lost}");
    let end = bytes.len() - size_of::<LogHead>();
    let mut bytes = bytes;
    bytes[end + 48..end + 56].copy_from_slice(&lost.to_le_bytes());
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
    // A wake-up finds its target idle. Live, somebody had claimed it: the answer is another CPU.
    let mut host = Host::new(&"linux-4.15".parse().unwrap(), 9);
    host.live.set_idle(2, false);
    host.call(LogKind::Select, 2, Some(0), None, [2, 0, 0], &[]);
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
    let (select, busy) = (first(&log, LogKind::Select), first(&log, LogKind::Busy));
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
    assert_eq!(refused(8, &[9]).to_string(), "byte 8: version 9; expected version 1");
    assert_eq!(place(&refused(16, b"[")), 16);
    // Of a record: its size, kind, CPU, the CPU of its argument.
    assert_eq!(place(&refused(select, &[1])), select);
    assert_eq!(place(&refused(select + 4, &[99])), select + 4);
    assert_eq!(place(&refused(select + 8, &[8])), select + 8);
    assert_eq!(place(&refused(busy + 48, &[8])), busy + 48);
    let error = refused(busy + 8, &[8]).to_string();
    assert!(error.ends_with("CPU 8; expected one below 8, as many as the machine has"), "{error}");
    assert_eq!(place(&Log::parse(&bytes[..12]).unwrap_err()), 12);
    assert_eq!(place(&Log::parse(&bytes[..20]).unwrap_err()), 20);
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(place(&Log::parse(&longer).unwrap_err()), bytes.len());
}

#[test]
fn ids_are_where_task_records_have_them() {
    let (at, _) = task_fields().iter().find(|(_, name)| *name == "id").unwrap();
    let host = Host::new(&"linux-4.15".parse().unwrap(), 1);
    assert_eq!(number(host.live.task(3), *at), 103);
}

#[test]
fn documents_are_as_the_schema_says() {
    let schema = include_str!("../../../docs/schema/verify.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    assert!(jsonschema::meta::is_valid(&schema));
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut bytes = Host::new(&"linux-4.15".parse().unwrap(), 1).log(300);
    let at = first(&Log::parse(&bytes).unwrap(), LogKind::Select);
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
