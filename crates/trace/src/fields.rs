// SPDX-License-Identifier: GPL-2.0-or-later
//! The fields of the kernel's scheduling events as text, which follow `sched_switch: ` and the like.
//!
//! Two notations exist. The kernel's own has keys (`prev_comm=a prev_pid=1 ...`). The sched_switch plugin of perf and
//! trace-cmd, where it is installed, writes `a:1 [120] S ==> b:2 [120]` for sched_switch and `a:1 [120] CPU:003` for
//! the wake-ups. trace-cmd without its plugin writes keys, no `==>`, and the task's state as a number. A comm may hold
//! blanks, colons, brackets, and what looks like a key; crates/trace/src/text.rs says how its end is found.

use crate::event::{SwitchedOut, TaskName, What};
use crate::scan::Scan;
use crate::text::MAX_COMM_BYTES;

/// A description of what was expected.
type Expected = &'static str;

/// Parses the fields of the event `name`, without its subsystem. The error says what was expected.
///
/// Events that say nothing about waiting become [`What::Other`] unread.
pub(crate) fn parse<'a>(name: &str, fields: &'a str) -> Result<What<'a>, String> {
    let scan = &mut Scan::new(fields);
    match name {
        "sched_switch" if fields.starts_with("prev_comm=") => {
            switch(scan).or_else(|expected| plugin_switch(&mut Scan::new(fields)).map_err(|_| expected))
        }
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

/// Reads a name after `comm_key` and an id after `id_key`.
fn task<'a>(
    scan: &mut Scan<'a>,
    comm_key: &str,
    id_key: &str,
    expected: Expected,
) -> Result<TaskName<'a>, Expected> {
    let found = scan.eat(comm_key).then_some(()).and_then(|()| {
        let comm = comm(scan, id_key)?;
        Some(TaskName { comm, tid: scan.id()?, prio: None })
    });
    found.ok_or(expected)
}

/// Reads a task's name up to `key` and goes past it: the last one that begins within the length of the kernel's names.
/// Only our own exports have longer names, and these have no newlines.
fn comm<'a>(scan: &mut Scan<'a>, key: &str) -> Option<&'a str> {
    let long = |scan: &mut Scan<'a>| scan.until(key).filter(|comm| !comm.contains('\n'));
    scan.until_last_within(MAX_COMM_BYTES, key).or_else(|| long(scan))
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
    let (prev, why) = plugin_task(scan, |scan, comm| {
        let why = scan.eat(" ").then(|| state(scan, comm)).flatten()?;
        scan.eat(" ==> ").then_some(why)
    })
    .ok_or("prev_comm= or comm:pid [prio] and state letters")?;
    let (next, ()) =
        plugin_task(scan, |scan, _| scan.at_end_of_field().then_some(())).ok_or("==> comm:pid [prio]")?;
    Ok(What::Switch { prev, why, next })
}

/// Reads `comm:pid [prio]`, and what `after` reads behind it, given the scan and the comm. Of several places where this
/// fits, the last one counts that leaves a comm no longer than the kernel's names.
fn plugin_task<'a, T>(
    scan: &mut Scan<'a>,
    after: impl Fn(&mut Scan<'a>, &str) -> Option<T>,
) -> Option<(TaskName<'a>, T)> {
    let mut found = None;
    let mut place = *scan;
    while place.until(" [").is_some() {
        let text = &scan.rest[..scan.rest.len() - place.rest.len() - " [".len()];
        let mut rest = place;
        let task = text.rsplit_once(':').and_then(|(comm, tid)| {
            let prio = Some(rest.signed()?);
            let task = TaskName { comm, tid: tid.parse().ok()?, prio };
            let after = rest.eat("]").then(|| after(&mut rest, comm)).flatten()?;
            Some((task, after))
        });
        let Some((task, after)) = task else { continue };
        let is_long = task.comm.len() > MAX_COMM_BYTES;
        if is_long && (found.is_some() || task.comm.contains('\n')) {
            break;
        }
        found = Some((rest, (task, after)));
        if is_long {
            break;
        }
    }
    let (rest, found) = found?;
    *scan = rest;
    Some(found)
}

/// Reads a task's state: letters with `|` between them, or the bits themselves. A preempted task has `R+` or `R`. The
/// last switch of a task has X or Z, or x on older kernels.
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

/// Returns the meaning of the bits of a task's state on any kernel (include/linux/sched.h and
/// include/trace/events/sched.h).
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

/// Reads the task and the CPU of a wake-up in either notation; `None` if it woke no task (`success=0`, on older
/// kernels).
fn woken<'a>(scan: &mut Scan<'a>) -> Result<Option<(TaskName<'a>, u32)>, Expected> {
    let mut plugin = *scan;
    if !scan.rest.starts_with("comm=") {
        return plugin_woken(scan).ok_or("comm= or comm:pid [prio] CPU:cpu");
    }
    keyed_woken(scan).or_else(|expected| {
        let woken = plugin_woken(&mut plugin).ok_or(expected)?;
        *scan = plugin;
        Ok(woken)
    })
}

fn keyed_woken<'a>(scan: &mut Scan<'a>) -> Result<Option<(TaskName<'a>, u32)>, Expected> {
    let mut task = task(scan, "comm=", " pid=", "comm= pid=")?;
    task.prio = prio(scan, " prio=", "prio=")?;
    let success = if scan.eat(" success=") { scan.id() } else { None };
    let cpu = id(scan, " target_cpu=", "target_cpu=")?;
    end(scan, "nothing after the CPU")?;
    Ok((success != Some(0)).then_some((task, cpu)))
}

fn plugin_woken<'a>(scan: &mut Scan<'a>) -> Option<Option<(TaskName<'a>, u32)>> {
    let (task, (success, cpu)) = plugin_task(scan, |scan, _| {
        let success = if scan.eat(" success=") { scan.id() } else { None };
        scan.blanks();
        let cpu = scan.eat("CPU:").then(|| scan.id()).flatten()?;
        scan.at_end_of_field().then_some((success, cpu))
    })?;
    Some((success != Some(0)).then_some((task, cpu)))
}

/// Reads a sched_waking. Our own exports append ` sync=1`, which no kernel writes.
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

/// Reads `filename=/bin/a pid=7 old_pid=7`. The first id is that of the current task. A file's name may be long and
/// hold anything, so the last ` pid=` counts.
fn exec<'a>(scan: &mut Scan<'a>) -> Result<What<'a>, Expected> {
    const EXPECTED: Expected = "filename= pid= old_pid=";
    let at = scan.rest.rfind(" pid=").filter(|_| scan.rest.starts_with("filename=")).ok_or(EXPECTED)?;
    scan.rest = &scan.rest[at..];
    let tid = id(scan, " pid=", EXPECTED)?;
    id(scan, " old_pid=", EXPECTED)?;
    end(scan, "nothing after old_pid=")?;
    Ok(What::Exec { tid })
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
    fn names_that_look_like_fields() {
        for comm in [
            "x pid=5",
            " pid=",
            "",
            "x prev_pid=5",
            "x pid=5 prio=1",
            "a:1 [0] R ==> b",
            "comm=",
            "a\nb",
            "a [0",
        ] {
            let keyed = format!(
                "prev_comm={comm} prev_pid=7 prev_prio=120 prev_state=S ==> next_comm={comm} next_pid=8 next_prio=120"
            );
            let plugin = format!("{comm}:7 [120] S ==> {comm}:8 [120]");
            let (prev, next) = (name(comm, 7, 120), name(comm, 8, 120));
            let switch = Ok(What::Switch { prev, why: SwitchedOut::Blocked, next });
            assert_eq!(parse("sched_switch", &keyed), switch, "{keyed}");
            assert_eq!(parse("sched_switch", &plugin), switch, "{plugin}");
            let waking = Ok(What::Waking { task: prev, last_cpu: 3, sync: false });
            let keyed = format!("comm={comm} pid=7 prio=120 target_cpu=003");
            assert_eq!(parse("sched_waking", &keyed), waking, "{keyed}");
            let plugin = format!("{comm}:7 [120] CPU:003");
            assert_eq!(parse("sched_waking", &plugin), waking, "{plugin}");
            let fork = format!("comm={comm} pid=1 child_comm={comm} child_pid=2");
            let named = |tid| TaskName { comm, tid, prio: None };
            assert_eq!(
                parse("sched_process_fork", &fork),
                Ok(What::Fork { parent: named(1), child: named(2) })
            );
            let exec = format!("filename={comm} pid=9 pid=7 old_pid=7");
            assert_eq!(parse("sched_process_exec", &exec), Ok(What::Exec { tid: 7 }), "{exec}");
        }
    }

    #[test]
    fn longer_names_are_ours_and_have_no_newline() {
        let ours = "comm=a name longer than the kernel's pid=7 prio=120 target_cpu=003";
        let task = name("a name longer than the kernel's", 7, 120);
        assert_eq!(parse("sched_waking", ours), Ok(What::Waking { task, last_cpu: 3, sync: false }));
        let broken = ours.replace("longer than", "longer\nthan");
        assert_eq!(parse("sched_waking", &broken), Err("sched_waking with comm= pid=".to_owned()));
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
            Err("sched_switch with prev_comm= or comm:pid [prio] and state letters".to_owned())
        );
        assert_eq!(parse("sched_stat_wait", "whatever"), Ok(What::Other));
    }
}
