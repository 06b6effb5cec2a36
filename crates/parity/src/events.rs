// SPDX-License-Identifier: GPL-2.0-or-later
//! Events and answers in a form that both builds share, and where two answers differ.
//!
//! An answer becomes a row of numbers with a row of names: the fields of its struct of policy.h. The native structs
//! and those of the BPF object have the same field names, so one list serves both.

use std::fmt;

use wakelab_policy as native;

use crate::kernel::types;

/// One event as the BPF program reads it; which fields count depends on `kind`.
pub(crate) type Event = types::parity_event;

/// "No task" in an event (PARITY_NO_TASK).
pub(crate) const NO_TASK: u32 = u32::MAX;

/// `enum parity_kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    TaskInit,
    Affinity,
    Select,
    ScanTook,
    Enqueue,
    Dispatch,
    MayMove,
    MayRun,
    Tick,
    Timer,
    Busy,
    Idle,
    Running,
    Stopping,
    Quiescent,
    Weight,
    Exit,
    IdleMask,
    GroupInit,
    GroupExit,
    GroupShares,
    TaskGroup,
    Taken,
}

/// The fields of a struct: numbers first, then arrays of [`ARRAY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    numbers: &'static [&'static str],
    arrays: &'static [&'static str],
    words: [u64; WORDS],
}

/// Length of every array in an answer: by distance, or by level.
const ARRAY: usize = 8;
/// Room for the longest struct.
const WORDS: usize = 88;

impl Words {
    /// The answer of an event that has none.
    pub(crate) const NONE: Words = Words { numbers: &[], arrays: &[], words: [0; WORDS] };

    /// Appends `prefix.field: native A, BPF B` for every field that differs.
    pub(crate) fn differences(&self, prefix: &str, bpf: &Words, into: &mut Vec<String>) {
        for (at, (native, bpf)) in self.words.iter().zip(&bpf.words).enumerate() {
            if native != bpf {
                into.push(format!(
                    "{prefix}.{}: native {}, BPF {}",
                    self.name(at),
                    native.cast_signed(),
                    bpf.cast_signed()
                ));
            }
        }
    }

    fn name(&self, at: usize) -> String {
        match at.checked_sub(self.numbers.len()) {
            None => self.numbers[at].to_owned(),
            Some(at) => format!("{}[{}]", self.arrays[at / ARRAY], at % ARRAY),
        }
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.numbers.iter().enumerate() {
            write!(f, "{}{name} {}", if at > 0 { ", " } else { "" }, self.words[at].cast_signed())?;
        }
        for (at, name) in self.arrays.iter().enumerate() {
            write!(f, ", {name} {:?}", &self.words[self.numbers.len() + at * ARRAY..][..ARRAY])?;
        }
        Ok(())
    }
}

/// For each struct a module with `native()` and `bpf()`, which put its fields into [`Words`].
macro_rules! structs {
    ($($module:ident: $native:ty, $bpf:ty;
       [$($number:ident $(.$field:ident)*)*] [$($array:ident $(.$part:ident)*)*])*) => {
        $(pub(crate) mod $module {
            use super::{ARRAY, WORDS, Words, native, types};

            const NUMBERS: &[&str] = &[$(concat!(stringify!($number) $(, ".", stringify!($field))*)),*];
            const ARRAYS: &[&str] = &[$(stringify!($array)),*];
            const _: () = assert!(NUMBERS.len() + ARRAYS.len() * ARRAY <= WORDS);

            pub(crate) fn native(value: &$native) -> Words {
                structs!(@words value [$($number $(.$field)*)*] [$($array $(.$part)*)*])
            }

            pub(crate) fn bpf(value: &$bpf) -> Words {
                structs!(@words value [$($number $(.$field)*)*] [$($array $(.$part)*)*])
            }
        })*
    };
    (@words $value:ident [$($number:ident $(.$field:ident)*)*] [$($array:ident $(.$part:ident)*)*]) => {{
        let mut words = [0; WORDS];
        // Through i64, so that a negative CPU stays negative.
        let numbers: &[u64] = &[$($value.$number$(.$field)* as i64 as u64),*];
        words[..numbers.len()].copy_from_slice(numbers);
        let arrays: &[[u64; ARRAY]] = &[$($value.$array$(.$part)*.map(|word| word as u64)),*];
        words[numbers.len()..][..arrays.len() * ARRAY].copy_from_slice(arrays.as_flattened());
        Words { numbers: NUMBERS, arrays: ARRAYS, words }
    }};
}

structs! {
    decision: native::Decision, types::wl_decision;
    [cpu reason affine_reason claimed target lost_claims scan_timed searched] [reads.at step_reads.at]
    enqueue: native::Enqueue, types::wl_enqueue_out;
    [cpu preempt key slice_ns] [reads.at]
    dispatch: native::Dispatch, types::wl_dispatch_out;
    [what cpu why level max_load max_tasks pick keep_slice_ns push_cpu] [reads.at]
    may_move: native::Move, types::wl_move_out;
    [r#move stop key slice_ns] []
    may_run: native::Run, types::wl_run_out;
    [run] []
    tick: native::Tick, types::wl_tick_out;
    [resched balance_due kick_cpu] [reads.at]
    timer: native::Timer, types::wl_timer_out;
    [next_ns kick_cpu] [reads.at]
    task: native::Task, types::wl_task;
    [vtime sum_exec_ns run_start_ns slice_ns slice_used_ns deadline lag flip_stamp_ns last_wakee wakee_flips weight
     place cpu recent_cpu nr_allowed id util_stamp_ns util util_slept flags group hweight nr_moved] []
    cpu: native::CpuState, types::wl_cpu;
    [state nr_queued nr_running curr_weight load min_vtime curr_vtime curr_start_ns vtime_sum balance_marked
     curr_renewed idle_since_ns avg_idle_ns avg_scan_ns rotor newly_idle_left tried.cpu tried.level tried.why taken_turns
     buddies.next buddies.next_vtime buddies.last buddies.last_vtime scan_llc.has_idle_cores scan_llc.nr_idle_scan
     scan_llc.due_ns nearest_llc.idle_blocks nearest_llc.core_blocks nearest_llc.wanted_until_ns nearest_llc.nr_blocks
     util_stamp_ns util push.to push.why push.due_ns total fair.charged fair.deadline nearest.picked_ns
     exact.first.v exact.first.slot exact.first.weight exact.has_first exact.curr_slot exact.best.v exact.best.slot
     exact.best.weight exact.has_best exact.pull_from exact.probe exact.idle_pulls exact.probe_far exact_llc.clock.v
     exact_llc.clock.rate_v exact_llc.clock.rate_us exact_llc.clock.rate exact_llc.waiting exact_llc.others_wait]
    [next_balance_ns balance_failed exact.walk_reads.at]
    block: native::Block, types::wl_block;
    [idle present cores recent before recent_period number] []
    group: native::Group, types::wl_group;
    [shares parent depth counts_as stale_weight generation exact.home exact.waking] []
    group_cpu: native::GroupCpu, types::wl_group_cpu;
    [load nr counted weight generation exact_others.summed_ns exact_others.advanced_ns exact_others.waiting
     exact_others.running exact_others.capped exact.part exact.others exact.mark exact.clock.v exact.clock.rate_v
     exact.clock.rate_us exact.clock.rate exact.waiting exact.running] []
}

/// What the native build answered to an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) event: Event,
    /// The answer; for a move also the budget that is left, else empty.
    pub(crate) answer: Words,
    pub(crate) budget: Words,
    /// The records of task and waker after the event, if it names them.
    pub(crate) task: Words,
    pub(crate) waker: Words,
}

impl Step {
    /// Every field in which the BPF build answered otherwise; empty if it agrees.
    pub(crate) fn differences(&self, kind: Kind, bpf: &types::parity_answer) -> Vec<String> {
        let mut found = Vec::new();
        let answer = match kind {
            Kind::Select => decision::bpf(&bpf.decision),
            Kind::Enqueue => enqueue::bpf(&bpf.enqueue),
            Kind::Dispatch => dispatch::bpf(&bpf.dispatch),
            Kind::MayMove => may_move::bpf(&bpf.r#move),
            Kind::MayRun => may_run::bpf(&bpf.run),
            Kind::Tick => tick::bpf(&bpf.tick),
            Kind::Timer | Kind::Taken => timer::bpf(&bpf.timer),
            _ => Words::NONE,
        };
        self.answer.differences("answer", &answer, &mut found);
        if kind == Kind::MayMove {
            self.budget.differences("budget", &dispatch::bpf(&bpf.dispatch), &mut found);
        }
        if self.event.task != NO_TASK {
            self.task.differences("task", &task::bpf(&bpf.task), &mut found);
        }
        if kind == Kind::Select && self.event.waker != NO_TASK {
            self.waker.differences("waker", &task::bpf(&bpf.waker), &mut found);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of a struct's fields, gaps left out, as its Debug form shows them.
    fn fields(value: &impl fmt::Debug) -> Vec<String> {
        let text = format!("{value:#?}");
        let lines = text.lines().filter_map(|line| line.strip_prefix("    "));
        let names =
            lines.filter(|line| !line.starts_with([' ', ']', '}'])).filter_map(|line| line.split_once(':'));
        let names = names.map(|(name, _)| name.to_owned());
        names.filter(|name| !name.starts_with("unused") && !name.starts_with("__pad")).collect()
    }

    fn listed(words: &Words) -> Vec<String> {
        let mut names: Vec<String> =
            words.numbers.iter().chain(words.arrays).map(|&name| name.to_owned()).collect();
        // Of a field that is a struct itself, the first part.
        let first = |name: &str| name.trim_start_matches("r#").split('.').next().map(str::to_owned);
        names = names.iter().filter_map(|name| first(name)).collect();
        names.dedup();
        names
    }

    /// A field that policy.h gains later would otherwise never be compared.
    #[test]
    fn every_field_is_compared() {
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names
        };
        macro_rules! check {
            ($($module:ident $bpf:ident $except:expr;)*) => {
                $({
                    let value = types::$bpf::default();
                    let mut names = fields(&value);
                    names.retain(|name| !$except.contains(&name.as_str()));
                    assert_eq!(sorted(names), sorted(listed(&$module::bpf(&value))), stringify!($bpf));
                })*
            };
        }
        let none: [&str; 0] = [];
        check! {
            decision wl_decision none;
            enqueue wl_enqueue_out none;
            dispatch wl_dispatch_out none;
            may_move wl_move_out none;
            may_run wl_run_out none;
            tick wl_tick_out none;
            timer wl_timer_out none;
            task wl_task ["allowed"];
            cpu wl_cpu none;
            block wl_block none;
            group wl_group none;
            group_cpu wl_group_cpu none;
        }
    }

    #[test]
    fn differences_name_the_field_and_both_values() {
        let native = wakelab_policy::Decision { cpu: 3, ..Default::default() };
        let mut bpf = types::wl_decision { cpu: -1, ..Default::default() };
        bpf.step_reads.at[2] = 5;
        let mut found = Vec::new();
        decision::native(&native).differences("answer", &decision::bpf(&bpf), &mut found);
        assert_eq!(found, ["answer.cpu: native 3, BPF -1", "answer.step_reads[2]: native 0, BPF 5"]);
    }
}
