// SPDX-License-Identifier: GPL-2.0-or-later
//! Computes how many steps an expansion takes at least, so that a file with too many steps is refused before it takes
//! memory.
//!
//! The bounds of a range are known beforehand unless they depend on an index or on `self`. A loop over an unknown range
//! counts as no round. `5 tasks x (for of 3 rounds x 2 operations)` takes 5 x (1 + 1 + 3 x (1 + 2)) = 55 steps.

use std::collections::BTreeSet;

use super::{Expansion, Result};
use crate::expr::{Expr, Range};
use crate::file::{PlainTemplate, TaskTemplate};
use crate::limits::OPS_MAX;
use crate::steps::{Step, StepKind};

impl Expansion<'_> {
    /// Refuses a file whose tasks have more than [`OPS_MAX`] steps, as far as its ranges tell.
    pub(super) fn refuse_too_many_steps(&self) -> Result<()> {
        let mut total = 0_u64;
        for (array, template) in self.arrays.tasks.arrays.iter().zip(&self.file.tasks) {
            let each = self.least_steps(&template.program).saturating_add(1);
            total = total.saturating_add(array.count().saturating_mul(each));
            if total > OPS_MAX {
                let message = format!(
                    "'{}' brings the operations to at least {total}; expected at most {OPS_MAX}: {}",
                    array.name,
                    self.advise_for_task(template),
                );
                return self.fail(template.array.offset, message);
            }
        }
        Ok(())
    }

    /// Returns how many steps any expansion of these steps takes at least.
    fn least_steps(&self, steps: &[Step]) -> u64 {
        let of = |step: &Step| match &step.kind {
            StepKind::For { range, body } => {
                let rounds = self.bounds(range).map_or(0, |(_, length)| length);
                rounds.saturating_mul(self.least_steps(body).saturating_add(1))
            }
            StepKind::If { then, otherwise, .. } => self.least_steps(then).min(self.least_steps(otherwise)),
            StepKind::Repeat { body, .. }
            | StepKind::Share { body, .. }
            | StepKind::WhenReady { body, .. } => self.least_steps(body),
            StepKind::Fork { .. } | StepKind::Op(_) => 0,
        };
        steps.iter().fold(0, |sum: u64, step| sum.saturating_add(1).saturating_add(of(step)))
    }

    /// Advises how to make an array smaller: names the parameters that its size depends on.
    pub(super) fn advise_for_array(&self, array: &PlainTemplate) -> String {
        self.advise(&array.each.iter().collect::<Vec<_>>())
    }

    fn advise_for_task(&self, template: &TaskTemplate) -> String {
        let mut ranges: Vec<&Range> = template.array.each.iter().collect();
        add_ranges(&template.program, &mut ranges);
        self.advise(&ranges)
    }

    fn advise(&self, ranges: &[&Range]) -> String {
        let mut used = BTreeSet::new();
        let mut open: Vec<&Expr> = ranges.iter().flat_map(|range| [&range.first, &range.end]).collect();
        while let Some(expr) = open.pop() {
            expr.for_each_name(&mut |name| {
                // Each name is visited once, so that the loop ends even if lets refer to each other.
                if used.insert(name.to_owned()) {
                    open.extend(
                        self.file.lets.iter().filter(|(known, _)| known == name).map(|(_, value)| value),
                    );
                }
            });
        }
        let params = self.file.description.params.iter().map(|param| param.name.as_str());
        let params: Vec<&str> = params.filter(|name| used.contains(*name)).collect();
        if params.is_empty() {
            "use smaller ranges".to_owned()
        } else {
            format!("lower {}", params.join(" or "))
        }
    }
}

/// Appends the ranges of every `for` in these steps.
fn add_ranges<'f>(steps: &'f [Step], ranges: &mut Vec<&'f Range>) {
    for step in steps {
        match &step.kind {
            StepKind::For { range, body } => {
                ranges.push(range);
                add_ranges(body, ranges);
            }
            StepKind::If { then, otherwise, .. } => {
                add_ranges(then, ranges);
                add_ranges(otherwise, ranges);
            }
            StepKind::Repeat { body, .. }
            | StepKind::Share { body, .. }
            | StepKind::WhenReady { body, .. } => add_ranges(body, ranges),
            StepKind::Fork { .. } | StepKind::Op(_) => {}
        }
    }
}
