// SPDX-License-Identifier: GPL-2.0-or-later
//! The cases of `cargo xtask truth-groups`.

use crate::truth_groups::{DELAYS, Figure, SHARES, SWITCHES};

/// Programs that compete, on two sides: with some weights, nice values and slices, and with others.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// As many CPUs as this, the last ones of the machine.
    pub(crate) cpus: usize,
    pub(crate) figures: [Figure; 2],
    pub(crate) programs: &'static [Program],
    /// Groups below the group of all that compete, with their `cpu.weight` on both sides, parents first.
    pub(crate) groups: &'static [(&'static str, [u32; 2])],
}

pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) group: &'static str,
    pub(crate) nice: [i32; 2],
    /// 0 is the slice of all tasks.
    pub(crate) slice_us: [u32; 2],
    /// As truth/groups/compete.py reads it.
    pub(crate) work: &'static str,
}

const SPIN: &str = "spin=25000000";
const SHORT_SPIN: &str = "spin=12000000";

const fn program(name: &'static str, group: &'static str, nice: [i32; 2], work: &'static str) -> Program {
    Program { name, group, nice, slice_us: [0, 0], work }
}

/// A program that asks for a slice.
const fn slicing(name: &'static str, slice_us: [u32; 2], work: &'static str) -> Program {
    Program { slice_us, ..fair(name, "/n", work) }
}

const fn fair(name: &'static str, group: &'static str, work: &'static str) -> Program {
    program(name, group, [0, 0], work)
}

pub(crate) static CASES: [Case; 12] = [
    Case {
        name: "weights-2",
        what: "two groups of one program",
        cpus: 1,
        figures: SHARES,
        programs: &[fair("one", "/a", SPIN), fair("two", "/b", SPIN)],
        groups: &[("/a", [100, 300]), ("/b", [100, 100])],
    },
    Case {
        name: "weights-many",
        what: "a group of three programs beside a group of one",
        cpus: 1,
        figures: SHARES,
        programs: &[
            fair("many", "/a", SHORT_SPIN),
            fair("many", "/a", SHORT_SPIN),
            fair("many", "/a", SHORT_SPIN),
            fair("single", "/b", SPIN),
        ],
        groups: &[("/a", [100, 400]), ("/b", [100, 100])],
    },
    Case {
        name: "weights-nested",
        what: "two groups in one, beside another",
        cpus: 1,
        figures: SHARES,
        programs: &[
            fair("inner-1", "/a/x", SHORT_SPIN),
            fair("inner-2", "/a/y", SHORT_SPIN),
            fair("outer", "/b", SPIN),
        ],
        groups: &[("/a", [100, 250]), ("/a/x", [100, 100]), ("/a/y", [100, 200]), ("/b", [100, 100])],
    },
    Case {
        name: "weights-pulse",
        what: "a program that pauses beside one that does not; with the small weight it gets less than it asks for",
        cpus: 1,
        figures: SHARES,
        programs: &[fair("pulse", "/a", "pulse=150000/80"), fair("steady", "/b", SPIN)],
        groups: &[("/a", [100, 20]), ("/b", [100, 100])],
    },
    Case {
        name: "weights-2-cpus",
        what: "a group of three programs beside a group of one, on two CPUs",
        cpus: 2,
        figures: SHARES,
        programs: &[
            fair("many", "/a", SPIN),
            fair("many", "/a", SPIN),
            fair("many", "/a", SPIN),
            fair("single", "/b", SPIN),
        ],
        groups: &[("/a", [100, 600]), ("/b", [100, 100])],
    },
    Case {
        name: "nice-2",
        what: "two programs of one group",
        cpus: 1,
        figures: SHARES,
        programs: &[fair("one", "/n", SPIN), program("two", "/n", [0, 5], SPIN)],
        groups: &[("/n", [100, 100])],
    },
    Case {
        name: "nice-4",
        what: "four programs of one group",
        cpus: 1,
        figures: SHARES,
        programs: &[
            program("minus", "/n", [0, -4], SHORT_SPIN),
            fair("zero", "/n", SHORT_SPIN),
            program("three", "/n", [0, 3], SHORT_SPIN),
            program("eight", "/n", [0, 8], SHORT_SPIN),
        ],
        groups: &[("/n", [100, 100])],
    },
    Case {
        name: "nice-pulse",
        what: "a program that pauses beside one that does not, in one group; as a nice one it gets less than it asks for",
        cpus: 1,
        figures: SHARES,
        programs: &[program("pulse", "/n", [0, 8], "pulse=150000/80"), fair("steady", "/n", SPIN)],
        groups: &[("/n", [100, 100])],
    },
    Case {
        name: "slice-both",
        what: "two programs that ask for a long slice, or for none",
        cpus: 1,
        figures: SWITCHES,
        programs: &[slicing("one", [0, 20_000], SPIN), slicing("two", [0, 20_000], SPIN)],
        groups: &[("/n", [100, 100])],
    },
    Case {
        name: "slice-one",
        what: "a program that asks for a long slice, or for none, beside two others",
        cpus: 1,
        figures: SWITCHES,
        programs: &[
            slicing("long", [0, 40_000], SHORT_SPIN),
            fair("usual", "/n", SHORT_SPIN),
            fair("usual", "/n", SHORT_SPIN),
        ],
        groups: &[("/n", [100, 100])],
    },
    Case {
        name: "slice-pulse",
        what: "a program that pauses asks for a short slice beside two that do not",
        cpus: 1,
        figures: DELAYS,
        programs: &[
            slicing("pulse", [0, 200], "pulse=20000/200"),
            fair("steady", "/n", SPIN),
            fair("steady", "/n", SPIN),
        ],
        groups: &[("/n", [100, 100])],
    },
    Case {
        name: "slice-beside",
        what: "a program that pauses beside two that ask for a long slice, or for none",
        cpus: 1,
        figures: DELAYS,
        programs: &[
            fair("pulse", "/n", "pulse=20000/200"),
            slicing("steady", [0, 20_000], SPIN),
            slicing("steady", [0, 20_000], SPIN),
        ],
        groups: &[("/n", [100, 100])],
    },
];
