// SPDX-License-Identifier: GPL-2.0-or-later
//! The fields of the kernel's scheduling events, as text: what comes after `sched_switch: `.
//!
//! Two notations exist. The kernel's own has keys (`prev_comm=a prev_pid=1 ...`). The sched_switch plugin of perf and
//! trace-cmd, where it is installed, writes `a:1 [120] S ==> b:2 [120]` for sched_switch and `a:1 [120] CPU:003` for
//! the wake-ups. trace-cmd without its plugin writes keys, no `==>`, and the task's state as a number. A comm may hold
//! blanks, colons and brackets in all of them.

use crate::event::{SwitchedOut, TaskName, What};
use crate::scan::Scan;

/// What was expected.
type Expected = &'static str;

/// Parses the fields of the event `name`, without its subsystem. The error says what was expected.
///
/// Events that say nothing about waiting become [`What::Other`] unread.
pub(crate) fn parse<'a>(name: &str, fields: &'a str) -> Result<What<'a>, String> {
    let scan = &mut Scan::new(fields);
    match name {
        "sched_switch" if fields.starts_with("prev_comm=") => switch(scan),
        "sched_switch" => plugin_switch(scan),
        "sched_waking" => waking(scan),
        "sched_wakeup" => Ok(woken(scan)?.map_or(What::Other, |(task, cpu)| What::Wakeup { task, cpu })),
        "sched_wakeup_new" => {
            Ok(woken(scan)?.map_or(What::Other, |(task, cpu)| What::WakeupNew { task, cpu }))
        }
        "sched_process_fork" => fork(scan),
        "sched_process_exec" => exec(scan),
        "sched_migrate_task" => migrate(scan),
        "sched_stat_runtime" => runtime(scan),
        "sched_process_exit" => Ok(What::Exit),
        "local_timer_entry" => Ok(What::Tick),
        _ => Ok(What::Other),
    }
    .map_err(|expected| format!("{name} with {expected}"))
}

/// `KEY NAME KEY N`.
fn task<'a>(
    scan: &mut Scan<'a>,
    comm_key: &str,
    id_key: &str,
    expected: Expected,
) -> Result<TaskName<'a>, Expected> {
    let found = scan.eat(comm_key).then_some(()).and_then(|()| {
        let comm = scan.until(id_key)?;
        Some(TaskName { comm, tid: scan.id()?, prio: None })
    });
    found.ok_or(expected)
}

fn prio(scan: &mut Scan<'_>, key: &str, expected: Expected) -> Result<Option<i32>, Expected> {
    scan.eat(key).then(|| scan.signed()).flatten().map(Some).ok_or(expected)
}

fn id(scan: &mut Scan<'_>, key: &str, expected: Expected) -> Result<u32, Expected> {
    scan.eat(key).then(|| scan.id()).flatten().ok_or(expected)
}

fn end(scan: &Scan<'_>, expected: Expected) -> Result<(), Expected> {
    scan.at_end_of_field().then_some(()).ok_or(expected)
}

fn switch<'a>(scan: &mut Scan<'a>) -> Result<What<'a>, Expected> {
    let mut prev = task(scan, "prev_comm=", " prev_pid=", "prev_comm= prev_pid=")?;
    prev.prio = prio(scan, " prev_prio=", "prev_prio=")?;
    const STATE: Expected = "prev_state= and letters or a number";
    let why =
        scan.eat(" prev_state=").then(|| state(scan, prev.comm)).flatten().filter(|_| scan.at_end_of_field());
    let why = why.ok_or(STATE)?;
    scan.eat(" ==>");
    let mut next = task(scan, " next_comm=", " next_pid=", "==> next_comm= next_pid=")?;
    next.prio = prio(scan, " next_prio=", "next_prio=")?;
    end(scan, "nothing after next_prio=")?;
    Ok(What::Switch { prev, why, next })
}

fn plugin_switch<'a>(scan: &mut Scan<'a>) -> Result<What<'a>, Expected> {
    let prev = plugin_task(scan).ok_or("prev_comm= or comm:pid [prio]")?;
    let why = scan.eat(" ").then(|| state(scan, prev.comm)).flatten().ok_or("state letters after [prio]")?;
    let next = scan.eat(" ==> ").then(|| plugin_task(scan)).flatten().ok_or("==> comm:pid [prio]")?;
    end(scan, "nothing after [prio]")?;
    Ok(What::Switch { prev, why, next })
}

/// `comm:pid [prio]`.
fn plugin_task<'a>(scan: &mut Scan<'a>) -> Option<TaskName<'a>> {
    let (comm, tid) = scan.until(" [")?.rsplit_once(':')?;
    let prio = Some(scan.signed()?);
    scan.eat("]").then_some(TaskName { comm, tid: tid.parse().ok()?, prio })
}

/// Letters of the task's state, with `|` between them: `R` and, when preempted, `R+` or `R`. The last switch of a task
/// has X or Z; older kernels wrote x. Or the bits themselves.
fn state(scan: &mut Scan<'_>, comm: &str) -> Option<SwitchedOut> {
    if let Some(digits) = scan.digits() {
        return Some(state_of_bits(crate::scan::number(digits)?, comm));
    }
    let letters = scan.while_ascii(|byte| byte.is_ascii_alphabetic() || byte == b'|' || byte == b'+');
    if letters.is_empty() {
        None
    } else if letters.contains(['X', 'Z', 'x']) {
        Some(SwitchedOut::Exited)
    } else if letters.starts_with('R') {
        Some(SwitchedOut::Runnable)
    } else {
        Some(SwitchedOut::Blocked)
    }
}

/// The bits of a task's state, of any kernel (include/linux/sched.h and include/trace/events/sched.h).
///
/// - 0x10 and 0x20: dead and zombie, in whichever order.
/// - 0x40: dead (TASK_DEAD) before Linux 4.14, parked since. Only kernel threads of one CPU are parked (`cpuhp/1`).
/// - 0x100 and above alone: preempted. The mark is the bit above all states: 0x100 since 4.14, 0x400 to 0x1000 before.
///   Before 4.4 the state stood beside it. 0x402 is TASK_IDLE, which waits, from 4.2 to 4.13.
fn state_of_bits(bits: u64, comm: &str) -> SwitchedOut {
    const IDLE: u64 = 0x402;
    const PARKED_OR_DEAD: u64 = 0x40;
    match bits {
        0 => SwitchedOut::Runnable,
        IDLE => SwitchedOut::Blocked,
        PARKED_OR_DEAD if comm.contains('/') => SwitchedOut::Blocked,
        _ if bits & 0x70 != 0 => SwitchedOut::Exited,
        _ if bits >= 0x100 => SwitchedOut::Runnable,
        _ => SwitchedOut::Blocked,
    }
}

/// A wake-up's task and CPU in either notation; `None` if it woke nobody (`success=0`, on older kernels).
fn woken<'a>(scan: &mut Scan<'a>) -> Result<Option<(TaskName<'a>, u32)>, Expected> {
    let keyed = scan.rest.starts_with("comm=");
    let task = if keyed {
        let mut task = task(scan, "comm=", " pid=", "comm= pid=")?;
        task.prio = prio(scan, " prio=", "prio=")?;
        task
    } else {
        plugin_task(scan).ok_or("comm= or comm:pid [prio]")?
    };
    let success = if scan.eat(" success=") { scan.id() } else { None };
    let cpu = if keyed {
        id(scan, " target_cpu=", "target_cpu=")?
    } else {
        scan.blanks();
        id(scan, "CPU:", "CPU:")?
    };
    end(scan, "nothing after the CPU")?;
    Ok((success != Some(0)).then_some((task, cpu)))
}

/// Our own exports append ` sync=1`, which no kernel says.
fn waking<'a>(scan: &mut Scan<'a>) -> Result<What<'a>, Expected> {
    let woken = woken(scan)?;
    let sync = scan.rest == " sync=1";
    Ok(woken.map_or(What::Other, |(task, last_cpu)| What::Waking { task, last_cpu, sync }))
}

fn fork<'a>(scan: &mut Scan<'a>) -> Result<What<'a>, Expected> {
    let parent = task(scan, "comm=", " pid=", "comm= pid=")?;
    let child = task(scan, " child_comm=", " child_pid=", "child_comm= child_pid=")?;
    end(scan, "nothing after child_pid=")?;
    Ok(What::Fork { parent, child })
}

/// `filename=/bin/a pid=7 old_pid=7`: of whom the fields say only the id, and the current task is the one.
fn exec<'a>(scan: &mut Scan<'a>) -> Result<What<'a>, Expected> {
    let name = task(scan, "filename=", " pid=", "filename= pid=")?;
    end(scan, "nothing after pid=")?;
    Ok(What::Exec { tid: name.tid })
}

fn migrate<'a>(scan: &mut Scan<'a>) -> Result<What<'a>, Expected> {
    let mut task = task(scan, "comm=", " pid=", "comm= pid=")?;
    task.prio = prio(scan, " prio=", "prio=")?;
    let from_cpu = id(scan, " orig_cpu=", "orig_cpu=")?;
    let to_cpu = id(scan, " dest_cpu=", "dest_cpu=")?;
    end(scan, "nothing after dest_cpu=")?;
    Ok(What::Migrate { task, from_cpu, to_cpu })
}

fn runtime<'a>(scan: &mut Scan<'a>) -> Result<What<'a>, Expected> {
    let task = task(scan, "comm=", " pid=", "comm= pid=")?;
    let ran_ns = scan.eat(" runtime=").then(|| scan.number()).flatten().ok_or("runtime=")?;
    let end = scan.eat(" [ns]") && scan.at_end_of_field();
    end.then_some(What::Runtime { task, ran_ns }).ok_or("[ns] after runtime=")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(comm: &str, tid: u32, prio: i32) -> TaskName<'_> {
        TaskName { comm, tid, prio: Some(prio) }
    }

    #[test]
    fn both_notations_of_a_switch_say_the_same() {
        let expected = Ok(What::Switch {
            prev: name("kworker/0:1", 7, 120),
            why: SwitchedOut::Blocked,
            next: name("Web Content", 12, 139),
        });
        let keyed = "prev_comm=kworker/0:1 prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=Web Content next_pid=12 next_prio=139";
        assert_eq!(parse("sched_switch", keyed), expected);
        assert_eq!(parse("sched_switch", "kworker/0:1:7 [120] S ==> Web Content:12 [139]"), expected);
    }

    #[test]
    fn both_notations_of_a_wakeup_say_the_same() {
        let expected = Ok(What::Wakeup { task: name("a b", 7, 0), cpu: 3 });
        assert_eq!(parse("sched_wakeup", "comm=a b pid=7 prio=0 target_cpu=003"), expected);
        assert_eq!(parse("sched_wakeup", "comm=a b pid=7 prio=0 success=1 target_cpu=003"), expected);
        assert_eq!(parse("sched_wakeup", "a b:7 [0] success=1 CPU:003"), expected);
        assert_eq!(parse("sched_wakeup", "a b:7 [0] CPU:003"), expected);
        assert_eq!(parse("sched_wakeup", "a b:7 [0] success=0 CPU:003"), Ok(What::Other));
        assert_eq!(
            parse("sched_waking", "comm=x pid=7 prio=-1 target_cpu=003"),
            Ok(What::Waking { task: name("x", 7, -1), last_cpu: 3, sync: false })
        );
    }

    #[test]
    fn the_other_events() {
        let (a, b) =
            (TaskName { comm: "a", tid: 1, prio: None }, TaskName { comm: "b c", tid: 2, prio: None });
        assert_eq!(
            parse("sched_process_fork", "comm=a pid=1 child_comm=b c child_pid=2"),
            Ok(What::Fork { parent: a, child: b })
        );
        assert_eq!(
            parse("sched_migrate_task", "comm=a pid=1 prio=120 orig_cpu=0 dest_cpu=11"),
            Ok(What::Migrate { task: name("a", 1, 120), from_cpu: 0, to_cpu: 11 })
        );
        let runtime = Ok(What::Runtime { task: a, ran_ns: 98765 });
        assert_eq!(parse("sched_stat_runtime", "comm=a pid=1 runtime=98765 [ns]"), runtime);
        assert_eq!(parse("sched_stat_runtime", "comm=a pid=1 runtime=98765 [ns] vruntime=1 [ns]"), runtime);
    }

    #[test]
    fn states_tell_waiting_from_preemption_and_exit() {
        for (letters, why) in [
            ("R", SwitchedOut::Runnable),
            ("R+", SwitchedOut::Runnable),
            ("S", SwitchedOut::Blocked),
            ("D|K", SwitchedOut::Blocked),
            ("I", SwitchedOut::Blocked),
            ("P", SwitchedOut::Blocked),
            ("t", SwitchedOut::Blocked),
            ("X", SwitchedOut::Exited),
            ("Z", SwitchedOut::Exited),
            ("x", SwitchedOut::Exited),
        ] {
            assert_eq!(state(&mut Scan::new(letters), "a"), Some(why), "{letters}");
        }
    }

    #[test]
    fn states_as_bits() {
        for (bits, comm, why) in [
            (0, "a", SwitchedOut::Runnable),
            (1, "a", SwitchedOut::Blocked),
            (2, "a", SwitchedOut::Blocked),
            (0x80, "a", SwitchedOut::Blocked),
            (130, "a", SwitchedOut::Blocked),
            // The Juno recording: trace-cmd itself ends.
            (64, "trace-cmd", SwitchedOut::Exited),
            (64, "cpuhp/1", SwitchedOut::Blocked),
            (16, "a", SwitchedOut::Exited),
            (32, "a", SwitchedOut::Exited),
            (256, "a", SwitchedOut::Runnable),
            (4096, "a", SwitchedOut::Runnable),
            (1025, "a", SwitchedOut::Runnable),
            (1026, "a", SwitchedOut::Blocked),
        ] {
            assert_eq!(state(&mut Scan::new(&bits.to_string()), comm), Some(why), "{bits} {comm}");
        }
    }

    #[test]
    fn trace_cmd_without_its_plugin() {
        let expected =
            Ok(What::Switch { prev: name("a b", 7, 120), why: SwitchedOut::Blocked, next: name("c", 8, 0) });
        let fields = "prev_comm=a b prev_pid=7 prev_prio=120 prev_state=1 next_comm=c next_pid=8 next_prio=0";
        assert_eq!(parse("sched_switch", fields), expected);
    }

    #[test]
    fn exec_and_our_own_sync() {
        assert_eq!(
            parse("sched_process_exec", "filename=/bin/a b pid=7 old_pid=7"),
            Ok(What::Exec { tid: 7 })
        );
        assert_eq!(
            parse("sched_waking", "comm=x pid=7 prio=120 target_cpu=003 sync=1"),
            Ok(What::Waking { task: name("x", 7, 120), last_cpu: 3, sync: true })
        );
    }

    #[test]
    fn a_wrong_field_is_named() {
        let cut = "prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=b next_p";
        assert_eq!(parse("sched_switch", cut), Err("sched_switch with ==> next_comm= next_pid=".to_owned()));
        let state =
            "prev_comm=a prev_pid=7 prev_prio=120 prev_state=0x80 ==> next_comm=b next_pid=1 next_prio=120";
        assert_eq!(
            parse("sched_switch", state),
            Err("sched_switch with prev_state= and letters or a number".to_owned())
        );
        let huge = "comm=a pid=99999999999 prio=120 target_cpu=001";
        assert_eq!(parse("sched_waking", huge), Err("sched_waking with comm= pid=".to_owned()));
        let glued = "comm=a pid=9 prio=120 target_cpu=001x";
        assert_eq!(parse("sched_waking", glued), Err("sched_waking with nothing after the CPU".to_owned()));
        assert_eq!(
            parse("sched_switch", "a S b"),
            Err("sched_switch with prev_comm= or comm:pid [prio]".to_owned())
        );
        assert_eq!(parse("sched_stat_wait", "whatever"), Ok(What::Other));
    }
}
