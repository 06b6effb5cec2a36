// SPDX-License-Identifier: GPL-2.0-or-later
//! Tells interrupts from tasks, where a recording brackets interrupts.
//!
//! `perf sched record` does not: then everything is [`Context::Unknown`]. If irq, irq_vectors or timer events were
//! recorded too, a CPU is inside an interrupt between an entry and its exit. A soft interrupt counts unless it is one
//! of the network's: a task that sends over loopback runs those itself, on its way out of the system call, and the
//! wake-up in it is its own doing.
//!
//! No CPU switches tasks inside an interrupt, so an entry whose exit was lost ends at the next switch.

use std::collections::BTreeMap;

use wakelab_workload::Source;

use crate::event::Context;

/// What interrupt, if any, each CPU is in.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    /// By CPU, from the outermost to the innermost.
    inside: BTreeMap<u32, Vec<Bracket>>,
    seen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bracket {
    kind: Kind,
    /// `None`: the current task's own doing.
    source: Option<Source>,
}

/// Which entry belongs to which exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Vector,
    Handler,
    Soft,
    Hrtimer,
    Timer,
}

/// Deeper nesting than any kernel has means lost exits.
const MAX_NESTING: usize = 16;

impl Interrupts {
    /// In what the CPU is now.
    pub(crate) fn context(&self, cpu: u32) -> Context {
        if !self.seen {
            return Context::Unknown;
        }
        let source =
            self.inside.get(&cpu).and_then(|brackets| brackets.iter().find_map(|bracket| bracket.source));
        source.map_or(Context::Task, Context::Interrupt)
    }

    /// An event with its subsystem, e.g. `irq:softirq_entry`, and its fields.
    pub(crate) fn event(&mut self, cpu: u32, subsystem: &str, name: &str, fields: &str) {
        if name == "sched_switch" {
            self.inside.remove(&cpu);
            return;
        }
        let Some((bracket, enters)) = bracket(subsystem, name, fields) else { return };
        self.seen = true;
        let brackets = self.inside.entry(cpu).or_default();
        if enters {
            if brackets.len() == MAX_NESTING {
                brackets.clear();
            }
            brackets.push(bracket);
        } else if let Some(at) = brackets.iter().rposition(|open| open.kind == bracket.kind) {
            brackets.truncate(at);
        }
    }
}

fn bracket(subsystem: &str, name: &str, fields: &str) -> Option<(Bracket, bool)> {
    let (stem, enters) = match name.strip_suffix("_entry") {
        Some(stem) => (stem, true),
        None => (name.strip_suffix("_exit")?, false),
    };
    let (kind, source) = match (subsystem, stem) {
        ("irq_vectors", "local_timer") => (Kind::Vector, Some(Source::Timer)),
        ("irq_vectors", _) => (Kind::Vector, Some(Source::Device)),
        ("irq", "irq_handler") => (Kind::Handler, Some(Source::Device)),
        ("irq", "softirq") if fields.contains("[action=NET_") => (Kind::Soft, None),
        ("irq", "softirq") if fields.contains("TIMER]") => (Kind::Soft, Some(Source::Timer)),
        ("irq", "softirq") => (Kind::Soft, Some(Source::Device)),
        ("timer", "hrtimer_expire") => (Kind::Hrtimer, Some(Source::Timer)),
        ("timer", "timer_expire") => (Kind::Timer, Some(Source::Timer)),
        _ => return None,
    };
    Some((Bracket { kind, source }, enters))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMER: Context = Context::Interrupt(Source::Timer);
    const DEVICE: Context = Context::Interrupt(Source::Device);

    #[test]
    fn without_brackets_nothing_is_known() {
        let mut interrupts = Interrupts::default();
        interrupts.event(0, "sched", "sched_switch", "");
        interrupts.event(0, "syscalls", "sys_enter_read", "");
        assert_eq!(interrupts.context(0), Context::Unknown);
    }

    #[test]
    fn brackets_nest_and_belong_to_a_cpu() {
        let mut interrupts = Interrupts::default();
        interrupts.event(0, "irq", "irq_handler_entry", "irq=5 name=virtio0");
        assert_eq!(interrupts.context(0), DEVICE);
        assert_eq!(interrupts.context(1), Context::Task);
        interrupts.event(0, "irq", "irq_handler_exit", "irq=5 ret=handled");
        assert_eq!(interrupts.context(0), Context::Task);

        interrupts.event(0, "irq", "softirq_entry", "vec=1 [action=TIMER]");
        interrupts.event(0, "timer", "timer_expire_entry", "timer=1");
        interrupts.event(0, "timer", "timer_expire_exit", "timer=1");
        assert_eq!(interrupts.context(0), TIMER);
        interrupts.event(0, "irq", "softirq_exit", "vec=1 [action=TIMER]");
        assert_eq!(interrupts.context(0), Context::Task);
    }

    #[test]
    fn a_task_that_sends_over_loopback_wakes_by_itself() {
        let mut interrupts = Interrupts::default();
        interrupts.event(0, "irq", "softirq_entry", "vec=3 [action=NET_RX]");
        assert_eq!(interrupts.context(0), Context::Task);
        interrupts.event(0, "irq_vectors", "local_timer_entry", "vector=236");
        assert_eq!(interrupts.context(0), TIMER);
    }

    #[test]
    fn a_lost_exit_ends_at_the_next_switch() {
        let mut interrupts = Interrupts::default();
        interrupts.event(0, "timer", "hrtimer_expire_entry", "hrtimer=1");
        interrupts.event(0, "sched", "sched_switch", "");
        assert_eq!(interrupts.context(0), Context::Task);
    }
}
