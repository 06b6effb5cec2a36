// SPDX-License-Identifier: GPL-2.0-or-later
//! Operations of loops.

use wakelab_workload::Op;

use crate::programs::Programs;
use crate::programs::next::Next;
use crate::programs::task::Round;

/// The remaining rounds of a loop that tasks share: each round enters it again. No other loop has this many left.
const SHARED: u64 = u64::MAX;

impl Programs<'_> {
    /// Enters the loop that begins here; `None`: it never ends.
    #[inline]
    pub(super) fn begin_loop(&mut self, task: u32, times: Option<u64>) -> Next {
        let t = &mut self.tasks[task as usize];
        let body = t.pc + 1;
        if times != Some(0) {
            t.enter(Round { body, rounds: times.map(|times| times - 1) });
            return self.done(task);
        }
        self.skip_loop(task)
    }

    /// Enters one round of a shared loop; at its end the task comes back to take another.
    pub(super) fn begin_shared_round(&mut self, task: u32) -> Next {
        let t = &mut self.tasks[task as usize];
        t.enter(Round { body: t.pc, rounds: Some(SHARED) });
        self.done(task)
    }

    /// Continues after the loop that begins here.
    pub(super) fn skip_loop(&mut self, task: u32) -> Next {
        let t = &mut self.tasks[task as usize];
        let mut depth = 1;
        let mut pc = t.pc + 1;
        while depth > 0 {
            match t.program.get(pc as usize) {
                Some(Op::LoopBegin { .. } | Op::LoopShared { .. } | Op::WhenReady { .. }) => depth += 1,
                Some(Op::LoopEnd) => depth -= 1,
                Some(_) => {}
                None => break,
            }
            pc += 1;
        }
        t.stand_at(&self.quick, pc);
        Next::Continue
    }

    /// Starts the next round, or leaves the loop.
    #[inline(always)]
    pub(super) fn end_loop(&mut self, task: u32) -> Next {
        let t = &mut self.tasks[task as usize];
        match t.innermost.as_mut() {
            Some(Round { body, rounds: Some(SHARED) }) => {
                let body = *body;
                t.stand_at(&self.quick, body);
                t.leave();
                Next::Continue
            }
            Some(Round { body, rounds }) if *rounds != Some(0) => {
                *rounds = rounds.map(|rounds| rounds - 1);
                let body = *body;
                t.stand_at(&self.quick, body);
                Next::Continue
            }
            _ => {
                t.leave();
                self.done(task)
            }
        }
    }
}
