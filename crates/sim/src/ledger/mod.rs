// SPDX-License-Identifier: GPL-2.0-or-later
//! The books of a run: sums, the checker, idle while runnable, and the observer. Nothing here changes what happens.

pub(crate) mod by_name;
pub(crate) mod checker;
pub(crate) mod delays;
pub(crate) mod idle_runnable;
pub(crate) mod progress;
pub(crate) mod search;
pub(crate) mod tally;

use crate::ledger::checker::Checker;
use crate::ledger::idle_runnable::IdleRunnable;
use crate::ledger::tally::Tally;

/// Everything that watches a run.
pub(crate) struct Ledger<'a, O: ?Sized> {
    pub(crate) tally: Tally,
    pub(crate) checker: Checker,
    pub(crate) idle_runnable: IdleRunnable,
    pub(crate) observer: &'a mut O,
}
