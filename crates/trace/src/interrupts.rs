// SPDX-License-Identifier: GPL-2.0-or-later
//! Tells interrupts from tasks, where a recording allows it.
//!
//! A plain `perf sched record` does not allow it, so everything is [`Context::Unknown`]. Brackets and flags allow it.
//!
//! Brackets: if irq, irq_vectors, ipi or timer events were recorded too, a CPU is inside an interrupt between an entry
//! and its exit, and the kind of the entry tells the source. A soft interrupt counts, unless it is one of the
//! network's: a task that sends over loopback runs those itself on its way out of the system call, so it is the waker.
//! But if the soft interrupt follows right after a device's handler, the device is the source. No CPU switches tasks
//! inside an interrupt, so an entry without exit, whose exit was lost, ends at the next switch.
//!
//! Flags: ftrace marks events inside hard and soft interrupts. A hard interrupt without brackets is of unknown kind. A
//! soft one without brackets may have been caused by the current task or not ([`Context::Soft`]).

use wakelab_workload::Source;

use crate::event::Context;

/// The interrupts that each CPU is in.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    /// The state of each CPU.
    cpus: Vec<Cpu>,
    seen: bool,
}

#[derive(Debug, Default)]
struct Cpu {
    /// Open brackets, from the outermost to the innermost.
    inside: Vec<Bracket>,
    /// The event before was the end of a device's handler.
    after_device: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bracket {
    kind: Kind,
    /// The source; `None` if the current task is the cause.
    source: Option<Source>,
    since_ns: u64,
}

/// The kind of a bracket: an exit closes the last entry of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Vector,
    Handler,
    Soft,
    Hrtimer,
    Timer,
}

/// No kernel nests interrupts more deeply than this; deeper nesting means that exits were lost.
const MAX_NESTING: usize = 16;

/// The index of ftrace's flag for interrupts.
const IRQ_FLAG: usize = 2;

impl Interrupts {
    /// Returns what the CPU executes now, by its brackets and by the event's flags, if it has any.
    pub(crate) fn context(&self, cpu: u32, flags: Option<&str>) -> Context {
        let inside = self.cpus.get(cpu as usize).map_or(&[][..], |cpu| &cpu.inside);
        // A known source tells most: a timer inside an unknown vector says more than the vector.
        let known = |source: &Source| *source != Source::Unknown;
        let sources = || inside.iter().filter_map(|bracket| bracket.source);
        let source = sources().find(known).or_else(|| sources().next());
        let flag = flags.and_then(|flags| flags.as_bytes().get(IRQ_FLAG));
        match (source, flag) {
            (Some(source), _) => Context::Interrupt(source),
            (None, Some(b'h' | b'H' | b'z' | b'Z')) => Context::Interrupt(Source::Unknown),
            (None, Some(b's')) if !inside.iter().any(|bracket| bracket.kind == Kind::Soft) => Context::Soft,
            (None, None) if !self.seen => Context::Unknown,
            (None, _) => Context::Task,
        }
    }

    /// Returns since when the CPU is in an interrupt; `None` if it is in none, or if only flags tell.
    pub(crate) fn since_ns(&self, cpu: u32) -> Option<u64> {
        self.cpus.get(cpu as usize).and_then(Cpu::since_ns)
    }

    /// Notes an event by its subsystem (`irq`), name (`softirq_entry`) and fields. If the event ends an interrupt,
    /// returns when that interrupt began.
    pub(crate) fn event(
        &mut self,
        cpu: u32,
        time_ns: u64,
        subsystem: &str,
        name: &str,
        fields: &str,
    ) -> Option<u64> {
        if self.cpus.len() <= cpu as usize {
            self.cpus.resize_with(cpu as usize + 1, Cpu::default);
        }
        let cpu = &mut self.cpus[cpu as usize];
        let after_device = std::mem::take(&mut cpu.after_device);
        if name == "sched_switch" {
            cpu.inside.clear();
            return None;
        }
        if name == "softirq_raise" {
            cpu.after_device = after_device;
            return None;
        }
        let ((kind, mut source), enters) = bracket(subsystem, name, fields)?;
        self.seen = true;
        if enters {
            if kind == Kind::Soft && source.is_none() && after_device {
                source = Some(Source::Device);
            }
            if cpu.inside.len() == MAX_NESTING {
                cpu.inside.clear();
            }
            cpu.inside.push(Bracket { kind, source, since_ns: time_ns });
            return None;
        }
        cpu.after_device = kind == Kind::Handler;
        let since_ns = cpu.since_ns();
        if let Some(at) = cpu.inside.iter().rposition(|open| open.kind == kind) {
            cpu.inside.truncate(at);
        }
        since_ns.filter(|_| cpu.since_ns().is_none())
    }
}

impl Cpu {
    fn since_ns(&self) -> Option<u64> {
        self.inside.iter().find(|bracket| bracket.source.is_some()).map(|bracket| bracket.since_ns)
    }
}

/// Returns the bracket that the event `name` opens (true) or closes (false); `subsystem` is empty where the format does
/// not tell it.
fn bracket(subsystem: &str, name: &str, fields: &str) -> Option<((Kind, Option<Source>), bool)> {
    let (stem, enters) = match name.strip_suffix("_entry") {
        Some(stem) => (stem, true),
        None => (name.strip_suffix("_exit")?, false),
    };
    let bracket = match (subsystem, stem) {
        ("irq_vectors" | "", "local_timer") => (Kind::Vector, Some(Source::Timer)),
        // Requests of other CPUs, and interrupts of the platform.
        ("irq_vectors", _)
        | (
            "",
            "reschedule"
            | "call_function"
            | "call_function_single"
            | "x86_platform_ipi"
            | "irq_work"
            | "error_apic"
            | "thermal_apic"
            | "threshold_apic"
            | "deferred_error_apic"
            | "spurious_apic",
        )
        | ("ipi" | "", "ipi") => (Kind::Vector, Some(Source::Unknown)),
        ("irq" | "", "irq_handler") => (Kind::Handler, Some(Source::Device)),
        ("irq" | "", "softirq") if fields.contains("[action=NET_") => (Kind::Soft, None),
        ("irq" | "", "softirq") if fields.contains("TIMER]") => (Kind::Soft, Some(Source::Timer)),
        ("irq" | "", "softirq") if fields.contains("=BLOCK]") || fields.contains("=IRQ_POLL]") => {
            (Kind::Soft, Some(Source::Device))
        }
        ("irq" | "", "softirq") => (Kind::Soft, Some(Source::Unknown)),
        ("timer" | "", "hrtimer_expire") => (Kind::Hrtimer, Some(Source::Timer)),
        ("timer" | "", "timer_expire") => (Kind::Timer, Some(Source::Timer)),
        _ => return None,
    };
    Some((bracket, enters))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMER: Context = Context::Interrupt(Source::Timer);
    const DEVICE: Context = Context::Interrupt(Source::Device);
    const UNKNOWN: Context = Context::Interrupt(Source::Unknown);

    #[test]
    fn without_brackets_or_flags_nothing_is_known() {
        let mut interrupts = Interrupts::default();
        interrupts.event(0, 0, "sched", "sched_switch", "");
        interrupts.event(0, 0, "syscalls", "sys_enter_read", "");
        assert_eq!(interrupts.context(0, None), Context::Unknown);
    }

    #[test]
    fn brackets_nest_and_belong_to_a_cpu() {
        let mut interrupts = Interrupts::default();
        interrupts.event(0, 0, "irq", "irq_handler_entry", "irq=5 name=virtio0");
        assert_eq!(interrupts.context(0, None), DEVICE);
        assert_eq!(interrupts.context(1, None), Context::Task);
        interrupts.event(0, 0, "irq", "irq_handler_exit", "irq=5 ret=handled");
        assert_eq!(interrupts.context(0, None), Context::Task);

        interrupts.event(0, 0, "irq", "softirq_entry", "vec=1 [action=TIMER]");
        interrupts.event(0, 0, "timer", "timer_expire_entry", "timer=1");
        interrupts.event(0, 0, "timer", "timer_expire_exit", "timer=1");
        assert_eq!(interrupts.context(0, None), TIMER);
        interrupts.event(0, 0, "irq", "softirq_exit", "vec=1 [action=TIMER]");
        assert_eq!(interrupts.context(0, None), Context::Task);
    }

    #[test]
    fn a_task_that_sends_over_loopback_wakes_by_itself() {
        let mut interrupts = Interrupts::default();
        interrupts.event(0, 0, "irq", "softirq_entry", "vec=3 [action=NET_RX]");
        assert_eq!(interrupts.context(0, None), Context::Task);
        assert_eq!(interrupts.context(0, Some("..s1.")), Context::Task);
        interrupts.event(0, 0, "irq_vectors", "local_timer_entry", "vector=236");
        assert_eq!(interrupts.context(0, None), TIMER);
    }

    #[test]
    fn a_packet_that_a_device_brings_is_the_devices_doing() {
        let mut interrupts = Interrupts::default();
        interrupts.event(0, 0, "", "irq_handler_entry", "irq=5 name=eth0");
        interrupts.event(0, 0, "", "softirq_raise", "vec=3 [action=NET_RX]");
        interrupts.event(0, 0, "", "irq_handler_exit", "irq=5 ret=handled");
        interrupts.event(0, 0, "", "softirq_entry", "vec=3 [action=NET_RX]");
        assert_eq!(interrupts.context(0, Some("..s1.")), DEVICE);
        interrupts.event(0, 0, "", "softirq_exit", "vec=3 [action=NET_RX]");
        interrupts.event(0, 0, "", "softirq_entry", "vec=3 [action=NET_RX]");
        assert_eq!(interrupts.context(0, Some("..s1.")), Context::Task);
    }

    #[test]
    fn a_lost_exit_ends_at_the_next_switch() {
        let mut interrupts = Interrupts::default();
        interrupts.event(0, 0, "timer", "hrtimer_expire_entry", "hrtimer=1");
        interrupts.event(0, 0, "sched", "sched_switch", "");
        assert_eq!(interrupts.context(0, None), Context::Task);
    }

    #[test]
    fn an_interrupt_lasts_from_its_first_entry_to_its_last_exit() {
        let mut interrupts = Interrupts::default();
        assert_eq!(interrupts.event(0, 10, "", "irq_handler_entry", "irq=5"), None);
        assert_eq!(interrupts.event(0, 12, "", "hrtimer_expire_entry", "hrtimer=1"), None);
        assert_eq!((interrupts.since_ns(0), interrupts.since_ns(1)), (Some(10), None));
        assert_eq!(interrupts.event(0, 15, "", "hrtimer_expire_exit", "hrtimer=1"), None);
        assert_eq!(interrupts.event(0, 20, "", "irq_handler_exit", "irq=5"), Some(10));
        assert_eq!(interrupts.since_ns(0), None);
        // A soft interrupt that the task causes itself is none.
        assert_eq!(interrupts.event(0, 30, "", "sched_waking", ""), None);
        assert_eq!(interrupts.event(0, 31, "", "softirq_entry", "vec=3 [action=NET_RX]"), None);
        assert_eq!(interrupts.event(0, 35, "", "softirq_exit", "vec=3 [action=NET_RX]"), None);
    }

    #[test]
    fn flags_tell_where_brackets_are_missing() {
        let mut interrupts = Interrupts::default();
        interrupts.event(0, 0, "", "sched_switch", "");
        assert_eq!(interrupts.context(0, Some("d.h2.")), UNKNOWN);
        assert_eq!(interrupts.context(0, Some("dNH2")), UNKNOWN);
        assert_eq!(interrupts.context(0, Some("d.s2.")), Context::Soft);
        assert_eq!(interrupts.context(0, Some("d..2.")), Context::Task);
        // Inside an interrupt from another CPU a timer says more.
        interrupts.event(0, 0, "", "reschedule_entry", "vector=253");
        assert_eq!(interrupts.context(0, Some("d.h2.")), UNKNOWN);
        interrupts.event(0, 0, "", "hrtimer_expire_entry", "hrtimer=1");
        assert_eq!(interrupts.context(0, Some("d.h2.")), TIMER);
    }
}
