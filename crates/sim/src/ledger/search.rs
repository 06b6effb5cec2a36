// SPDX-License-Identifier: GPL-2.0-or-later
//! Idle searches: how long they take, whole and by step.
//!
//! The policy reports where a step of its search begins (`wl_line_step`); what it reads until the next step begins
//! belongs to that step. A search is everything from the look at target on, including the fixed part of the placement
//! decision (`select_ns`), but not wake-affine, which comes before. The time that the decision took is divided among
//! its parts by price: a decision beside busy SMT siblings takes longer, and so does each of its steps.
//!
//! Worked example: `select_ns` 100, a miss inside the LLC 40. Wake-affine reads 1 CPU, the front 2, the idle-core step
//! 4, the idle-CPU step 3: all missed. The decision takes 100 + 400 = 500 ns; the whole search 500 - 40 = 460, the
//! idle-core step 160, the idle-CPU step 120. At half speed all are twice that.

use wakelab_policy::{Seen, Step};

use crate::ids::PS_PER_NS;
use crate::outcome::{SearchTime, SearchTimes};

/// The costs of the parts of one decision at full speed, in ps.
#[derive(Clone, Copy, Default)]
pub(crate) struct SearchCost {
    decision_ps: u64,
    whole_ps: u64,
    step_ps: [u64; Step::COUNT],
    step_reads: [u64; Step::COUNT],
    /// Bit s: step s ran. 0: the decision did not search.
    ran: u32,
}

impl SearchCost {
    /// Returns the cost of a decision. The waits of its writes (`taken_ps`) belong to the search, because wake-affine
    /// writes nothing. They belong to no step, because they come after all of them.
    pub(crate) fn new(seen: &Seen, fixed_ps: u64, taken_ps: u64) -> SearchCost {
        let mut cost = SearchCost { decision_ps: fixed_ps + seen.ps + taken_ps, ..SearchCost::default() };
        let mut end_ps = seen.ps;
        let mut end_reads = seen.hits.total() + seen.misses.total();
        for began in seen.steps().iter().rev() {
            cost.step_ps[began.step() as usize] += end_ps - began.ps;
            cost.step_reads[began.step() as usize] += end_reads - u64::from(began.reads);
            cost.ran |= 1 << began.step() as u32;
            (end_ps, end_reads) = (began.ps, u64::from(began.reads));
        }
        cost.whole_ps = cost.decision_ps - end_ps;
        cost
    }

    fn ran_step(&self, step: Step) -> bool {
        self.ran >> step as u32 & 1 != 0
    }
}

/// The steps with separate sums: what is left of the whole is the front, which every search has.
const REPORTED: [Step; 3] = [Step::Core, Step::Cpu, Step::Rest];

/// Sums over all searches.
#[derive(Default)]
pub(crate) struct SearchTally {
    whole: Sum,
    steps: [Sum; Step::COUNT],
    idle_cpu_after_core: Sum,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    searches: u64,
    ps: u64,
    reads: u64,
}

impl Sum {
    fn add(&mut self, ps: u64, reads: u64) {
        self.searches += 1;
        self.ps += ps;
        self.reads += reads;
    }

    fn sums(self) -> SearchTime {
        SearchTime { searches: self.searches, time_ns: self.ps / PS_PER_NS, reads: self.reads }
    }
}

impl SearchTally {
    /// A decision took `elapsed_ns`.
    pub(crate) fn add(&mut self, cost: &SearchCost, elapsed_ns: u64) {
        if cost.ran == 0 {
            return;
        }
        let (elapsed_ps, decision_ps) = (elapsed_ns * PS_PER_NS, cost.decision_ps.max(1));
        // Times of searches are below a millisecond, so that the product nearly always fits.
        let share = |ps: u64| match elapsed_ps.checked_mul(ps) {
            Some(product) => product / decision_ps,
            None => (u128::from(elapsed_ps) * u128::from(ps) / u128::from(decision_ps)) as u64,
        };
        let reads = |step: usize| cost.step_reads[step];
        self.whole.add(share(cost.whole_ps), (0..Step::COUNT).map(reads).sum());
        if cost.ran_step(Step::Core) && cost.ran_step(Step::Cpu) {
            let cpu = Step::Cpu as usize;
            self.idle_cpu_after_core.add(share(cost.step_ps[cpu]), reads(cpu));
        }
        for step in REPORTED {
            if cost.ran_step(step) {
                self.steps[step as usize].add(share(cost.step_ps[step as usize]), reads(step as usize));
            }
        }
    }

    pub(crate) fn sums(&self) -> SearchTimes {
        let step = |step: Step| self.steps[step as usize].sums();
        SearchTimes {
            whole: self.whole.sums(),
            idle_core: step(Step::Core),
            idle_cpu: step(Step::Cpu),
            idle_cpu_after_core: self.idle_cpu_after_core.sums(),
            rest: step(Step::Rest),
        }
    }
}
