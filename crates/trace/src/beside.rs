// SPDX-License-Identifier: GPL-2.0-or-later
//! Work that depends on who runs beside it, told from work that does not: how fast a thread of a core is while another
//! thread of that core is busy.
//!
//! A recording shows a program do the same thing many times: from one event of a task to its next one of some kinds, on
//! one CPU. Some of these pieces of work begin while a sibling is busy, others while all siblings idle, and during each
//! piece that may change. A piece with `alone_ns` of CPU time without a busy sibling and `beside_ns` with one is
//! `alone_ns` + s x `beside_ns` of work, if a thread has the speed s beside another one. What a program has to do does
//! not depend on what the sibling does when it begins, so s is the speed with which both kinds have the same mean:
//! ```text
//!     mean(alone | idle) + s mean(beside | idle) = mean(alone | busy) + s mean(beside | busy)
//! ```
//! Only the beginning sorts a piece, because a long piece is more likely to meet a busy sibling.
//!
//! Worked example: pieces that begin beside an idle sibling take 1,000 ns alone. Those that begin beside a busy one
//! take 1,200 ns beside it and then 280 alone: 1,000 = 280 + s x 1,200, so s is 0.6.
//!
//! Pieces are compared by task name and by the kinds of their events, and what all kinds tell is joined
//! ([`speed`]). Pieces of more than [`LONGEST`] times the median work of their kind are left out, because interrupts
//! and the host are in them; so are kinds of pieces that are short ([`SHORTEST_NS`]).
//!
//! It fails where a program does other things while its sibling is busy: if large requests keep both busy, they look
//! like slow ones. Pieces in which more than one sibling was busy do not count.

use std::collections::BTreeMap;

use serde::Serialize;
use wakelab_machine::{Cpu, Machine, Topology};

use crate::between::Mark;
use crate::quantile::quantile;
use crate::rescale::UNITS;

/// The fewest pieces of a kind, with each beginning, that tell anything.
const FEWEST: usize = 50;
/// The shortest mean work of pieces that tell. In shorter ones the kernel's work counts too much, and that depends on
/// how busy the machine is.
const SHORTEST_NS: f64 = 15_000.0;
/// Most pieces of one kind of piece that are kept. Of more, every second, fourth.. is.
const KEPT: usize = 4096;
/// The longest piece that counts, in medians.
const LONGEST: f64 = 4.0;
/// The largest half of a 95 % interval with which a speed is believed.
const SURE: f64 = 0.15;
/// Most names that a source lists.
const NAMES: usize = 4;
/// CPUs that leave each other less of their speed than this share something.
const APART: f64 = 0.9;
/// The least variance of a kind, so that weights stay finite.
const LEAST_VARIANCE: f64 = 1e-24;
/// Rounds after which the speed and the pieces that are left out agree.
const ROUNDS: usize = 8;

/// An event that begins or ends a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edge {
    /// The task is switched in on a CPU that was busy.
    In,
    /// It is switched in on a CPU that idled.
    InFromIdle,
    /// It goes to sleep.
    Sleep,
    /// A message event.
    Message(Mark),
    /// It wakes a task.
    Waking,
    /// It calls futex(2).
    Futex,
    /// It forks, executes another program, yields or exits.
    Life,
}

/// CPU time of a piece of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// While no sibling was busy.
    pub alone_ns: u64,
    /// While one was.
    pub beside_ns: u64,
    /// One was when the piece began.
    pub begins_beside: bool,
}

/// Pieces of one kind. Memory is bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    kept: Vec<Piece>,
    /// One of 2^shift is kept.
    shift: u32,
    seen: u64,
}

impl Pieces {
    /// Adds a piece.
    pub(crate) fn add(&mut self, piece: Piece) {
        if self.seen.trailing_zeros() >= self.shift {
            if self.kept.len() == KEPT {
                let every_second = self.kept.iter().copied().step_by(2).collect();
                self.kept = every_second;
                self.shift += 1;
            }
            self.kept.push(piece);
        }
        self.seen += 1;
    }

    /// Adds those of another task.
    pub(crate) fn join(&mut self, other: Pieces) {
        other.kept.into_iter().for_each(|piece| self.add(piece));
    }
}

/// Pieces by task name and the kinds of both events.
pub type Kinds = BTreeMap<(String, Edge, Edge), Pieces>;

/// Adds the pieces of another recording.
pub fn join(kinds: &mut Kinds, others: Kinds) {
    for (kind, pieces) in others {
        kinds.entry(kind).or_default().join(pieces);
    }
}

/// A speed beside a busy sibling.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Speed {
    /// In parts of the speed alone.
    pub speed: f64,
    /// Half of its 95 % interval, if pieces are independent of each other.
    pub within: f64,
    /// Pieces that began beside an idle sibling.
    pub idle: usize,
    /// Pieces that began beside a busy one.
    pub busy: usize,
}

/// What pieces of one kind tell.
#[derive(Clone, Copy, Debug)]
struct Told {
    speed: f64,
    variance: f64,
    idle: usize,
    busy: usize,
}

/// Returns the number of values, their mean and their variance.
fn moments(values: impl Iterator<Item = f64> + Clone) -> (usize, f64, f64) {
    let count = values.clone().count();
    let mean = values.clone().sum::<f64>() / count as f64;
    let variance = values.map(|value| (value - mean).powi(2)).sum::<f64>() / (count as f64 - 1.0);
    (count, mean, variance)
}

impl Piece {
    fn work(&self, speed: f64) -> f64 {
        self.alone_ns as f64 + speed * self.beside_ns as f64
    }
}

impl Pieces {
    /// Returns what they tell, if they are enough, and long enough. The speed decides which are far longer than others,
    /// and left out.
    fn told_at(&self, speed: f64) -> Option<Told> {
        let works = self.kept.iter().map(|piece| piece.work(speed) as u64);
        let most = LONGEST * quantile(works, 50).unwrap_or(0) as f64;
        let usual = |beside: bool| {
            let begins = move |piece: &&Piece| piece.begins_beside == beside;
            self.kept.iter().filter(begins).filter(move |piece| piece.work(speed) <= most)
        };
        let of = |beside: bool, ns: fn(&Piece) -> u64| moments(usual(beside).map(|piece| ns(piece) as f64)).1;
        let [idle, busy] = [false, true].map(|beside| moments(usual(beside).map(|piece| piece.work(speed))));
        if idle.0.min(busy.0) < FEWEST || idle.1.min(busy.1) < SHORTEST_NS {
            return None;
        }
        let more_beside_ns = of(true, |piece| piece.beside_ns) - of(false, |piece| piece.beside_ns);
        let less_alone_ns = of(false, |piece| piece.alone_ns) - of(true, |piece| piece.alone_ns);
        let variance = (idle.2 / idle.0 as f64 + busy.2 / busy.0 as f64) / more_beside_ns.powi(2);
        (more_beside_ns > 0.0).then(|| Told {
            speed: (less_alone_ns / more_beside_ns).clamp(0.0, 2.0),
            variance: variance.max(LEAST_VARIANCE),
            idle: idle.0,
            busy: busy.0,
        })
    }

    /// Returns what they tell, once the speed and the pieces that are left out agree.
    fn told(&self) -> Option<Told> {
        let mut told = self.told_at(1.0)?;
        for _ in 0..ROUNDS {
            told = self.told_at(told.speed)?;
        }
        Some(told)
    }
}

/// Returns the speed beside a busy sibling that pieces of all kinds tell together; `None` if none tells one.
pub fn speed<'a>(all: impl Iterator<Item = &'a Pieces>) -> Option<Speed> {
    joined(&all.filter_map(Pieces::told).collect::<Vec<Told>>())
}

/// Returns what all kinds tell together. One kind tells nothing: threads of OpenMP that spin at a barrier look slow
/// beside each other, and nothing shows it but other kinds.
///
/// Kinds differ in more than chance, because programs and the kernel do other things beside a busy sibling. So each
/// counts by the inverse of the variance inside it and that between kinds together (R. DerSimonian and N. Laird,
/// Meta-analysis in clinical trials, 1986).
fn joined(told: &[Told]) -> Option<Speed> {
    let with = |between: f64| {
        let weights = || told.iter().map(|of| 1.0 / (of.variance + between));
        let sum: f64 = weights().sum();
        let speed = weights().zip(told).map(|(weight, of)| weight * of.speed).sum::<f64>() / sum;
        (speed, sum, weights().map(|weight| weight * weight).sum::<f64>())
    };
    let (speed, sum, squares) = with(0.0);
    let off: f64 = told.iter().map(|of| (of.speed - speed).powi(2) / of.variance).sum();
    let spare = off - (told.len() as f64 - 1.0);
    let between = (spare / (sum - squares / sum)).max(0.0);
    let (speed, sum, _) = with(between);
    (told.len() > 1).then(|| Speed {
        speed,
        within: 1.96 / sum.sqrt(),
        idle: told.iter().map(|of| of.idle).sum(),
        busy: told.iter().map(|of| of.busy).sum(),
    })
}

/// Sets the speed of threads of a core that are busy together, and where it comes from, if the pieces tell it well.
/// What more threads leave to each keeps its ratio to what two do. All threads together do no less than one alone. Of a
/// machine without such threads only the source says what was measured.
pub(crate) fn learn(kinds: &Kinds, machine: &mut Machine, recording: &str) {
    let Some(told) = well_told(kinds) else { return };
    let beside = if has_threads(&machine.topology) {
        scale(&mut machine.costs.smt_speed, told.speed);
        "another busy thread of their core"
    } else {
        "the other CPU of their LLC while that was busy"
    };
    let of_name = |(name, of): (String, Speed)| format!("{name} {:.2} ± {:.2}", of.speed, of.within);
    let names: Vec<String> = by_name(kinds).into_iter().map(of_name).collect();
    let names = if names.len() > 1 { format!(" ({})", names.join(", ")) } else { String::new() };
    let source = format!(
        "measured: {} pieces of work in {recording} that began beside {beside}, and {} that did not: {:.3} ± {:.3} of the \
         speed alone{names}",
        told.busy, told.idle, told.speed, told.within
    );
    machine.sources.insert("smt_speed".to_owned(), source);
}

/// Returns a sentence if CPUs that are no threads of one core slow each other as threads do.
pub fn hidden_threads(kinds: &Kinds, topology: &Topology) -> Option<String> {
    let told = well_told(kinds).filter(|told| told.speed + told.within < APART)?;
    (!has_threads(topology)).then(|| {
        format!(
            "beside a busy CPU of their LLC, tasks have {:.2} ± {:.2} of their speed; if these CPUs are threads of one core, \
             a machine file with threads_per_core = 2 says so (--machine)",
            told.speed, told.within
        )
    })
}

/// Returns the CPUs that may slow each CPU: those of its core, or of its LLC if that has two CPUs and cores have one.
pub(crate) fn siblings(topology: &Topology) -> Vec<Vec<u32>> {
    let threads = has_threads(topology);
    let group = |cpu: &Cpu| if threads { cpu.core } else { cpu.llc };
    let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (cpu, of) in topology.cpus.iter().enumerate() {
        groups.entry(group(of)).or_default().push(cpu as u32);
    }
    let of_cpu = |(cpu, of): (usize, &Cpu)| -> Vec<u32> {
        let all = &groups[&group(of)];
        let counts = threads || all.len() == 2;
        all.iter().copied().filter(|&other| counts && other != cpu as u32).collect()
    };
    topology.cpus.iter().enumerate().map(of_cpu).collect()
}

/// Whether a core has several threads.
fn has_threads(topology: &Topology) -> bool {
    (0..topology.nr_cpus() as u32).any(|cpu| topology.siblings(cpu).len() > 1)
}

fn well_told(kinds: &Kinds) -> Option<Speed> {
    speed(kinds.values()).filter(|told| told.within <= SURE * told.speed)
}

/// Sets the speed of two threads, and scales those of more.
fn scale(speeds: &mut [u32], speed: f64) {
    let alone = UNITS as u32;
    let of_two = f64::from(speeds.get(1).copied().unwrap_or(alone));
    let mut most = alone;
    for (busy, its) in (1..).zip(speeds).skip(1) {
        let scaled = f64::from(*its) / of_two * speed * f64::from(alone);
        let least = alone.div_ceil(busy).min(most);
        *its = (scaled.round() as u32).clamp(least, most);
        most = *its;
    }
}

/// Returns the speeds of the tasks of each name whose pieces tell it well, those with most pieces first; at most
/// [`NAMES`].
fn by_name(kinds: &Kinds) -> Vec<(String, Speed)> {
    let mut names: Vec<&String> = kinds.keys().map(|(name, ..)| name).collect();
    names.dedup();
    let of_name = |name: &String| {
        let its = kinds.iter().filter(|((other, ..), _)| other == name).map(|(_, of)| of);
        let told = speed(its).filter(|told| told.within <= SURE * told.speed)?;
        Some((name.clone(), told))
    };
    let mut told: Vec<(String, Speed)> = names.into_iter().filter_map(of_name).collect();
    told.sort_by_key(|(_, told)| std::cmp::Reverse(told.idle.min(told.busy)));
    told.truncate(NAMES);
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(of: &[(usize, Piece)]) -> Pieces {
        let mut all = Pieces::default();
        of.iter().for_each(|&(count, piece)| (0..count).for_each(|_| all.add(piece)));
        all
    }

    /// The worked example, in longer pieces.
    fn example() -> [Pieces; 2] {
        let alone = Piece { alone_ns: 20_000, ..Piece::default() };
        let beside = Piece { alone_ns: 5_600, beside_ns: 24_000, begins_beside: true };
        let pieces = pieces(&[(FEWEST, alone), (FEWEST, beside)]);
        [pieces.clone(), pieces]
    }

    #[test]
    fn means_of_both_beginnings_are_the_same_work() {
        let told = speed(example().iter()).expect("a speed");
        assert!((told.speed - 0.6).abs() < 1e-9 && told.within < 1e-9, "{told:?}");
        assert_eq!((told.idle, told.busy), (2 * FEWEST, 2 * FEWEST));
        assert_eq!(speed(example()[..1].iter()), None, "one kind");
    }

    #[test]
    fn few_or_short_pieces_tell_nothing() {
        let alone = Piece { alone_ns: 20_000, ..Piece::default() };
        assert_eq!(speed([(); 2].map(|()| pieces(&[(1_000, alone)])).iter()), None, "none beside a busy one");
        let short = Piece { alone_ns: 10_000, ..Piece::default() };
        let beside = Piece { beside_ns: 15_000, begins_beside: true, ..Piece::default() };
        let both = [(); 2].map(|()| pieces(&[(FEWEST, short), (FEWEST, beside)]));
        assert_eq!(speed(both.iter()), None);
    }

    /// An interrupt of 1 ms in one piece of fifty changes nothing.
    #[test]
    fn far_longer_pieces_are_left_out() {
        let mut all = example();
        all[0].add(Piece { alone_ns: 1_000_000, ..Piece::default() });
        assert!((speed(all.iter()).expect("a speed").speed - 0.6).abs() < 1e-9);
    }

    /// Kinds that tell 0.5 and 0.7, each with a variance of 0.01, differ by chance and more: 2 x 0.1^2 / 0.01 is 2,
    /// where chance alone makes 1. The variance between them is (2 - 1) / (200 - 20,000 / 200) = 0.01, so each has a
    /// weight of 50: 0.6, within 1.96 / 10.
    #[test]
    fn kinds_that_differ_say_how_sure_it_is() {
        let kind = |speed: f64| Told { speed, variance: 0.01, idle: 50, busy: 60 };
        let told = joined(&[kind(0.5), kind(0.7)]).expect("a speed");
        assert!((told.speed - 0.6).abs() < 1e-9 && (told.within - 0.196).abs() < 1e-9, "{told:?}");
        assert_eq!((told.idle, told.busy), (100, 120));
    }

    #[test]
    fn memory_is_bounded() {
        let mut all = Pieces::default();
        for alone_ns in 0..3 * KEPT as u64 {
            all.add(Piece { alone_ns, ..Piece::default() });
        }
        let every_fourth: Vec<u64> = (0..3 * KEPT as u64).step_by(4).collect();
        assert_eq!(all.kept.iter().map(|piece| piece.alone_ns).collect::<Vec<_>>(), every_fourth);
    }

    /// Two threads at 0.6 instead of 700/1024: others in the same ratio, but not so slow that four do less than one.
    #[test]
    fn more_threads_keep_their_ratio() {
        let mut speeds = [1024, 700, 600, 280];
        scale(&mut speeds, 0.6);
        assert_eq!(speeds, [1024, 614, 527, 256]);
        scale(&mut speeds, 1.2);
        assert_eq!(speeds[1], 1024);
    }

    fn machine(threads: u32) -> Machine {
        let text = format!(
            "description = \"t\"\n[topology]\nsockets = 1\ncores_per_llc = {}\nthreads_per_core = {threads}\n\
             numbering = \"consecutive\"\n[costs]\nbase = \"xeon-2s22c2t\"\n",
            2 / threads
        );
        Machine::from_toml(&text, "t").expect("a machine")
    }

    #[test]
    fn two_cpus_of_an_llc_may_be_threads_that_nobody_tells() {
        let [one, other] = example();
        let kind = |to: Edge| ("t".to_owned(), Edge::In, to);
        let kinds = Kinds::from([(kind(Edge::Sleep), one), (kind(Edge::Waking), other)]);
        let (mut threads, mut cores) = (machine(2), machine(1));
        assert_eq!(
            (siblings(&threads.topology), siblings(&cores.topology)),
            (vec![vec![1], vec![0]], vec![vec![1], vec![0]])
        );
        assert_eq!(hidden_threads(&kinds, &threads.topology), None);
        assert!(hidden_threads(&kinds, &cores.topology).expect("a note").contains("0.60 ± 0.00"));
        let before = cores.costs.smt_speed.clone();
        learn(&kinds, &mut threads, "r");
        learn(&kinds, &mut cores, "r");
        assert_eq!((threads.costs.smt_speed[1], cores.costs.smt_speed), (614, before));
        assert!(cores.sources["smt_speed"].contains("the other CPU of their LLC"));
    }
}
