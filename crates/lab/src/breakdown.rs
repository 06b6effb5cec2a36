// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the instructions and cache misses of a run go, by part of the simulator, from what callgrind counted.
//!
//! Callgrind (valgrind) executes a program on a simulated CPU and counts, so its figures do not depend on the machine's
//! load. It writes each instruction's costs under the source file that the debug information names, also inside inlined
//! functions. [`Part::of_file`] maps files to parts. Instructions of Rust's library that were inlined belong to no file
//! of ours; they count with the code of ours before them in the same function, because that is where they were inlined.
//!
//! Format: <https://valgrind.org/docs/manual/cl-format.html>. `fl=`, `fi=` and `fe=` name a file, `fn=` a function,
//! both as `(number) name` at first and `(number)` later. A line of numbers is positions and then costs in the order of
//! the line `events:`, trailing zeros left out. After `calls=` comes a line with the callee's costs, which are in the
//! callee's own lines too.

use std::collections::HashMap;

use serde::Serialize;

/// A part of the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Placement, queueing and balancing: policy/ and the calls to it.
    Policy,
    /// Which CPU has which cache line, and what reads, writes and transfers cost.
    Lines,
    /// The event queue.
    Queue,
    /// Setting, settling and timing segments of CPU time.
    Segments,
    /// The kernel's paths: wake-ups, schedule(), switches, interrupts.
    Kernel,
    /// What tasks do next: operations, channels, locks.
    Programs,
    /// The checker.
    Checker,
    /// Sums and histograms.
    Accounting,
    /// The allocator.
    Allocation,
    /// Clearing and copying memory by the C library.
    Copying,
    /// Everything else: mainly the tables and records that a run makes at its start.
    Rest,
}

impl Part {
    /// All parts, in the order of tables.
    pub const ALL: [Part; 11] = [
        Part::Policy,
        Part::Lines,
        Part::Queue,
        Part::Segments,
        Part::Kernel,
        Part::Programs,
        Part::Checker,
        Part::Accounting,
        Part::Allocation,
        Part::Copying,
        Part::Rest,
    ];

    /// The name in tables.
    pub fn label(self) -> &'static str {
        match self {
            Part::Policy => "policy",
            Part::Lines => "lines and costs",
            Part::Queue => "event queue",
            Part::Segments => "segments",
            Part::Kernel => "kernel paths",
            Part::Programs => "programs",
            Part::Checker => "checker",
            Part::Accounting => "accounting",
            Part::Allocation => "allocation",
            Part::Copying => "clearing, copying",
            Part::Rest => "the rest",
        }
    }

    /// The part to which a source file of the project belongs; `None` for any other file. The first match counts.
    fn of_file(path: &str) -> Option<Part> {
        const FILES: [(&str, Part); 16] = [
            ("policy/host/", Part::Lines),
            ("sim/src/kernel/prices.rs", Part::Lines),
            ("sim/src/kernel/host.rs", Part::Policy),
            ("sim/src/hardware/line.rs", Part::Lines),
            ("sim/src/hardware/cache.rs", Part::Lines),
            ("machine/src/", Part::Lines),
            ("sim/src/hardware/queue.rs", Part::Queue),
            ("sim/src/hardware/", Part::Segments),
            ("sim/src/ledger/checker.rs", Part::Checker),
            ("sim/src/ledger/", Part::Accounting),
            ("hdrhistogram", Part::Accounting),
            ("sim/src/programs/", Part::Programs),
            ("sim/src/kernel/", Part::Kernel),
            ("sim/src/engine.rs", Part::Kernel),
            ("/policy/", Part::Policy),
            ("crates/", Part::Rest),
        ];
        FILES.iter().find(|(file, _)| path.contains(file)).map(|&(_, part)| part)
    }

    /// The part of a function of a library.
    fn of_function(name: &str) -> Option<Part> {
        let is = |words: &[&str]| words.iter().any(|word| name.contains(word));
        if is(&["malloc", "calloc", "realloc", "free", "__rust_alloc", "__rust_dealloc"]) {
            Some(Part::Allocation)
        } else if is(&["memset", "memcpy", "memmove", "memcmp", "bcmp"]) {
            Some(Part::Copying)
        } else {
            None
        }
    }
}

/// What callgrind counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PartCosts {
    /// Instructions executed.
    pub instructions: u64,
    /// Fetches of instructions that missed the first-level cache.
    pub l1_instruction_misses: u64,
    /// Reads and writes that missed the first-level cache.
    pub l1_data_misses: u64,
    /// Accesses of any kind that missed the last-level cache.
    pub last_level_misses: u64,
    /// Mispredicted branches and indirect jumps.
    pub mispredictions: u64,
}

impl PartCosts {
    /// The costs of `self` less those of `other`; 0 where `other` has more.
    #[must_use]
    pub fn less(self, other: PartCosts) -> PartCosts {
        PartCosts {
            instructions: self.instructions.saturating_sub(other.instructions),
            l1_instruction_misses: self.l1_instruction_misses.saturating_sub(other.l1_instruction_misses),
            l1_data_misses: self.l1_data_misses.saturating_sub(other.l1_data_misses),
            last_level_misses: self.last_level_misses.saturating_sub(other.last_level_misses),
            mispredictions: self.mispredictions.saturating_sub(other.mispredictions),
        }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: PartCosts) -> PartCosts {
        PartCosts {
            instructions: self.instructions + other.instructions,
            l1_instruction_misses: self.l1_instruction_misses + other.l1_instruction_misses,
            l1_data_misses: self.l1_data_misses + other.l1_data_misses,
            last_level_misses: self.last_level_misses + other.last_level_misses,
            mispredictions: self.mispredictions + other.mispredictions,
        }
    }

    /// The field that counts an event of callgrind's, if one does.
    fn field(&mut self, event: &str) -> Option<&mut u64> {
        match event {
            "Ir" => Some(&mut self.instructions),
            "I1mr" => Some(&mut self.l1_instruction_misses),
            "D1mr" | "D1mw" => Some(&mut self.l1_data_misses),
            "ILmr" | "DLmr" | "DLmw" => Some(&mut self.last_level_misses),
            "Bcm" | "Bim" => Some(&mut self.mispredictions),
            _ => None,
        }
    }
}

/// Costs by part, in the order of [`Part::ALL`].
pub type CostsByPart = [PartCosts; Part::ALL.len()];

/// Whether a function of the project was seen with its file: without debug information everything is `Rest`.
pub fn has_parts(costs: &CostsByPart) -> bool {
    costs[..Part::Copying as usize].iter().any(|part| part.instructions > 0)
}

/// Sums a file that callgrind wrote (with `--dump-instr=yes`, so that instructions are in order).
pub fn costs_by_part(text: &str) -> CostsByPart {
    let mut reader = Reader::default();
    text.lines().for_each(|line| reader.line(line));
    reader.costs
}

#[derive(Default)]
struct Reader<'a> {
    events: Vec<&'a str>,
    positions: usize,
    files: HashMap<&'a str, &'a str>,
    functions: HashMap<&'a str, &'a str>,
    /// The part of the file in which we are, or of the last file of ours in this function.
    part: Option<Part>,
    /// The part of the function, for what comes before any file of ours.
    function: Option<Part>,
    /// The next line repeats costs of a callee.
    is_callee: bool,
    costs: CostsByPart,
}

impl<'a> Reader<'a> {
    fn line(&mut self, line: &'a str) {
        if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            if !std::mem::take(&mut self.is_callee) {
                self.cost(line);
            }
        } else if let Some(events) = line.strip_prefix("events: ") {
            self.events = events.split_whitespace().collect();
        } else if let Some(positions) = line.strip_prefix("positions: ") {
            self.positions = positions.split_whitespace().count();
        } else if line.starts_with("calls=") {
            self.is_callee = true;
        } else if let Some((key, name)) = line.split_once('=') {
            self.name(key, name);
        }
    }

    fn name(&mut self, key: &str, name: &'a str) {
        match key {
            "fl" | "fi" | "fe" => {
                let path = known(&mut self.files, name);
                if key == "fl" {
                    self.part = None;
                }
                self.part = Part::of_file(path).or(self.part);
            }
            // Names of callees are only learnt.
            "cfi" | "cfl" => drop(known(&mut self.files, name)),
            "cfn" => drop(known(&mut self.functions, name)),
            "fn" => {
                let name = known(&mut self.functions, name);
                self.function = Part::of_function(name);
            }
            _ => {}
        }
    }

    fn cost(&mut self, line: &str) {
        let part = self.part.or(self.function).unwrap_or(Part::Rest);
        let costs = &mut self.costs[part as usize];
        let numbers = line.split_whitespace().skip(self.positions);
        for (event, number) in self.events.iter().zip(numbers) {
            if let (Some(sum), Ok(count)) = (costs.field(event), number.parse::<u64>()) {
                *sum += count;
            }
        }
    }
}

/// The name of `(number) name` or, later, of `(number)`.
fn known<'a>(names: &mut HashMap<&'a str, &'a str>, text: &'a str) -> &'a str {
    match text.split_once(' ') {
        Some((number, name)) if number.starts_with('(') => {
            names.insert(number, name);
            name
        }
        _ => names.get(text).copied().unwrap_or(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
version: 1
positions: instr line
events: Ir I1mr ILmr Dr D1mr DLmr Bc Bcm

fl=(1) /w/crates/sim/src/hardware/queue.rs
fn=(1) next
0x10 5 10 1
fi=(2) /rustc/abc/library/core/src/cmp.rs
+4 9 3
fi=(3) /w/policy/host/lines.h
+4 9 2 0 0 2 1 1
cfn=(2) memset
calls=4 0x99 0
* 9 400
fe=(1)
+1 7 1
fl=(4) ./string/memset.S
fn=(2)
0x99 1 400 0 0 9 9
fl=(5) /w/policy/balance.h
fn=(3) wl_find_pull
0x200 4 8 0 0 0 0 0 3 2
fl=(6) ???
fn=(4) start
0x300 0 6
";

    fn of(part: Part) -> PartCosts {
        costs_by_part(FILE)[part as usize]
    }

    /// 10 of the queue, 3 of the library inlined there, and 1 after the line's; the callee's 400 count once.
    #[test]
    fn costs_go_to_the_part_of_their_file() {
        let queue = PartCosts { instructions: 14, l1_instruction_misses: 1, ..PartCosts::default() };
        assert_eq!(of(Part::Queue), queue);
        let lines =
            PartCosts { instructions: 2, l1_data_misses: 1, last_level_misses: 1, ..PartCosts::default() };
        assert_eq!(of(Part::Lines), lines);
        let copying = PartCosts { instructions: 400, l1_data_misses: 9, ..PartCosts::default() };
        assert_eq!(of(Part::Copying), copying);
        let policy = PartCosts { instructions: 8, mispredictions: 2, ..PartCosts::default() };
        assert_eq!(of(Part::Policy), policy);
        assert_eq!(of(Part::Rest).instructions, 6);
        assert!(has_parts(&costs_by_part(FILE)));
    }

    #[test]
    fn without_source_files_everything_is_the_rest() {
        let costs = costs_by_part("events: Ir\npositions: line\nfl=(1) ???\nfn=(1) run\n0 70\n");
        assert_eq!(costs[Part::Rest as usize].instructions, 70);
        assert!(!has_parts(&costs));
    }
}
