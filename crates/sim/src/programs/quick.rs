// SPDX-License-Identifier: GPL-2.0-or-later
//! Operations in a dense form, for what tasks do most.
//!
//! An [`Op`] has 40 bytes, and each task's program is in separate memory. The programs of a few hundred tasks alone so
//! fill a CPU's first cache, and each step of a task waited for its operation. Here an operation has 16 bytes, programs
//! stand one after the other, and a task's record has the operation at which the task stands.
//!
//! Only programs with loops are kept in this form, because what is executed once is not worth a copy: a recording's
//! programs have no loops, and may have millions of operations. Theirs are translated one by one, as are those of tasks
//! that poll, in whose programs parts change places.

use wakelab_workload::Op;

/// An operation. What does not fit, or is rare, is `Other`: its [`Op`] says what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quick {
    /// Work of this length.
    Work {
        work_ns: u32,
    },
    /// Work of a random length: one of `count`, from `low_ns` on.
    Spread {
        low_ns: u32,
        count: u32,
    },
    Send {
        channel: u32,
        bytes: u32,
        work_ns: u32,
    },
    Recv {
        channel: u32,
        work_ns: u32,
    },
    LoopEnd,
    Count {
        units: u32,
    },
    Other,
}

const _: () = assert!(std::mem::size_of::<Quick>() == 16);

impl Quick {
    /// The operation, or the end of a program.
    pub(super) fn of(op: Option<&Op>) -> Quick {
        op.and_then(Quick::try_of).unwrap_or(Quick::Other)
    }

    fn try_of(op: &Op) -> Option<Quick> {
        let short = |number: u64| u32::try_from(number).ok();
        Some(match *op {
            Op::Compute { work_ns, spread_percent: 0 } => Quick::Work { work_ns: short(work_ns)? },
            Op::Compute { work_ns, spread_percent } => {
                let (low_ns, high_ns) = spread(work_ns, spread_percent);
                Quick::Spread { low_ns: short(low_ns)?, count: short(high_ns - low_ns + 1)? }
            }
            Op::Send { channel, bytes, work_ns } => Quick::Send { channel, bytes, work_ns: short(work_ns)? },
            Op::Recv { channel, work_ns } => Quick::Recv { channel, work_ns: short(work_ns)? },
            Op::LoopEnd => Quick::LoopEnd,
            Op::Count { units } => Quick::Count { units: short(units)? },
            _ => Quick::Other,
        })
    }

    /// Appends a program and its end.
    pub(super) fn append(all: &mut Vec<Quick>, program: &[Op]) {
        all.extend(program.iter().map(|op| Quick::of(Some(op))));
        all.push(Quick::Other);
    }
}

/// The shortest and the longest work, in nanoseconds.
pub(super) fn spread(work_ns: u64, spread_percent: u32) -> (u64, u64) {
    let part = |percent: u32| {
        let percent = u64::from(percent);
        work_ns / 100 * percent + work_ns % 100 * percent / 100
    };
    (part(100 - spread_percent), part(100 + spread_percent))
}

/// Whether a program is worth a copy: it has a loop.
pub(super) fn repeats(program: &[Op]) -> bool {
    program.contains(&Op::LoopEnd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_stays_as_it_is() {
        let long_ns = u64::from(u32::MAX);
        let of = |op: Op| Quick::of(Some(&op));
        let compute = |work_ns, spread_percent| Op::Compute { work_ns, spread_percent };
        assert_eq!(of(compute(long_ns, 0)), Quick::Work { work_ns: u32::MAX });
        assert_eq!(of(compute(long_ns + 1, 0)), Quick::Other);
        assert_eq!(of(compute(1_000, 10)), Quick::Spread { low_ns: 900, count: 201 });
        assert_eq!(of(compute(2 * long_ns, 1)), Quick::Other, "the shortest does not fit");
        assert_eq!(of(compute(long_ns, 60)), Quick::Other, "nor does the number of lengths");
        assert_eq!(of(compute(7, 100)), Quick::Spread { low_ns: 0, count: 15 });
        assert_eq!(of(Op::Recv { channel: 3, work_ns: long_ns + 1 }), Quick::Other);
        assert_eq!(of(Op::Count { units: long_ns + 1 }), Quick::Other);
        assert_eq!(Quick::of(None), Quick::Other);
    }
}
