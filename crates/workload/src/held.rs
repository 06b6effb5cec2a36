// SPDX-License-Identifier: GPL-2.0-or-later
//! Tracks which locks a task holds, in one walk through its program.
//!
//! Taking a lock twice, or giving back one that is not held, would stop a run, so both are refused here. A round of a
//! loop must end with the same locks held as it began with, because otherwise the second round would begin differently
//! from the first.

use crate::limits::HELD_LOCKS_MAX;
use crate::program::Op;

/// The locks held at one place of a program, and those held where each open loop began.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Locks in the order in which they were taken.
    locks: Vec<u32>,
    loops: Vec<Vec<u32>>,
}

impl Held {
    /// Applies the next operation. Loops must be balanced.
    pub(crate) fn step(&mut self, op: &Op) -> Result<(), String> {
        match *op {
            Op::Lock { lock } => {
                if self.locks.contains(&lock) {
                    return Err(format!("takes lock {lock}, which it holds already"));
                }
                if self.locks.len() == HELD_LOCKS_MAX {
                    return Err(format!("holds more than {HELD_LOCKS_MAX} locks"));
                }
                self.locks.push(lock);
            }
            Op::Unlock { lock } => match self.locks.iter().position(|&held| held == lock) {
                Some(at) => {
                    self.locks.remove(at);
                }
                None => return Err(format!("gives back lock {lock}, which it does not hold")),
            },
            Op::LoopBegin { .. } | Op::LoopShared { .. } | Op::WhenReady { .. } => {
                let mut now = self.locks.clone();
                now.sort_unstable();
                self.loops.push(now);
            }
            Op::LoopEnd => {
                let mut now = self.locks.clone();
                now.sort_unstable();
                if self.loops.pop().is_some_and(|begun| begun != now) {
                    return Err("the loop ends with other locks held than when it began".to_owned());
                }
            }
            Op::Exit => self.end()?,
            _ => {}
        }
        Ok(())
    }

    /// Ends the program. Refuses locks that are still held.
    pub(crate) fn end(&self) -> Result<(), String> {
        self.locks.first().map_or(Ok(()), |lock| Err(format!("ends while it holds lock {lock}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Op = Op::LoopBegin { times: Some(2) };

    fn walk(ops: &[Op]) -> Result<(), String> {
        let mut held = Held::default();
        ops.iter().try_for_each(|op| held.step(op))?;
        held.end()
    }

    fn lock(lock: u32) -> Op {
        Op::Lock { lock }
    }

    fn unlock(lock: u32) -> Op {
        Op::Unlock { lock }
    }

    #[test]
    fn what_is_balanced() {
        for ops in [
            vec![lock(0), unlock(0), lock(0), unlock(0)],
            // Not nested: 0 is given back before 1.
            vec![lock(0), lock(1), unlock(0), unlock(1)],
            vec![lock(0), BEGIN, lock(1), unlock(1), Op::LoopEnd, unlock(0)],
            // Given back and taken again: each round begins and ends with both locks held, in whatever order.
            vec![lock(0), lock(1), BEGIN, unlock(0), lock(0), Op::LoopEnd, unlock(1), unlock(0), Op::Exit],
        ] {
            assert_eq!(walk(&ops), Ok(()), "{ops:?}");
        }
    }

    #[test]
    fn what_is_not() {
        for (ops, error) in [
            (vec![lock(3), lock(3)], "takes lock 3, which it holds already"),
            (vec![unlock(2)], "gives back lock 2, which it does not hold"),
            (vec![lock(1), unlock(1), unlock(1)], "gives back lock 1, which it does not hold"),
            (vec![lock(1)], "ends while it holds lock 1"),
            (vec![lock(1), Op::Exit, unlock(1)], "ends while it holds lock 1"),
            (
                vec![BEGIN, lock(0), Op::LoopEnd, unlock(0)],
                "the loop ends with other locks held than when it began",
            ),
            (
                vec![lock(0), BEGIN, unlock(0), Op::LoopEnd],
                "the loop ends with other locks held than when it began",
            ),
        ] {
            assert_eq!(walk(&ops), Err(error.to_owned()), "{ops:?}");
        }
    }
}
