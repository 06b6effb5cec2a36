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
use crate::what::{self, Expected, Fields, Key, state_of_bits, what};

/// Parses the fields of the event `name`, without its subsystem. The error says what was expected.
///
/// Events that say nothing about waiting become [`What::Other`] unread.
pub(crate) fn parse<'a>(name: &str, fields: &'a str) -> Result<What<'a>, String> {
    let scan = &mut Scan::new(fields);
    match name {
        "sched_switch" if !fields.starts_with("prev_comm=") => plugin_switch(scan),
        "sched_switch" => keyed(name, fields).or_else(|expected| plugin_switch(scan).map_err(|_| expected)),
        "sched_waking" | "sched_wakeup" | "sched_wakeup_new" if !fields.starts_with("comm=") => {
            plugin_woken(name, scan).ok_or("comm= or comm:pid [prio] CPU:cpu")
        }
        "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => {
            keyed(name, fields).or_else(|expected| plugin_woken(name, scan).ok_or(expected))
        }
        _ => keyed(name, fields),
    }
    .map_err(|expected| format!("{name} with {expected}"))
}

/// Reads `dst_root=1 dst_id=7 dst_level=1 dst_path=/a pid=7 comm=x`. A path may hold anything, so the last id counts.
pub(crate) fn moved(fields: &str) -> Option<What<'_>> {
    let (hierarchy, rest) = fields.strip_prefix("dst_root=")?.split_once(' ')?;
    let (_, rest) = rest.split_once("dst_path=")?;
    let (path, rest) = rest.rsplit_once(" pid=")?;
    let (tid, _) = rest.split_once(" comm=")?;
    Some(What::Moved { tid: tid.parse().ok()?, hierarchy: hierarchy.parse().ok()?, path })
}

/// Reads an event of another subsystem.
pub(crate) fn of_other<'a>(subsystem: &str, name: &str, fields: &'a str) -> What<'a> {
    what::of_other(subsystem, name, &mut Keyed { scan: Scan::new(fields), at_begin: true })
}

/// Reads the kernel's own notation.
fn keyed<'a>(name: &str, fields: &'a str) -> Result<What<'a>, Expected> {
    what(name, &mut Keyed { scan: Scan::new(fields), at_begin: true })
}

/// The rest of an event's fields with keys.
struct Keyed<'a> {
    scan: Scan<'a>,
    at_begin: bool,
}

impl Keyed<'_> {
    /// Goes past a key. The first one has no blank before it.
    #[inline]
    fn eat(&mut self, key: Key) -> bool {
        let at_begin = std::mem::take(&mut self.at_begin);
        self.scan.eat(if at_begin { &key.text[1..] } else { key.text })
    }

    /// Goes past a key that may be anywhere.
    fn go_past(&mut self, key: Key) -> bool {
        self.eat(key) || self.scan.until(key.text).is_some()
    }
}

impl<'a> Fields<'a> for Keyed<'a> {
    /// Reads a name up to the id's key: the last one that begins within the length of the kernel's names. Only our own
    /// exports have longer names, and these have no newlines.
    #[inline]
    fn task(&mut self, comm: Key, tid: Key) -> Option<(&'a str, u32)> {
        if !self.eat(comm) {
            return None;
        }
        let long = |scan: &mut Scan<'a>| scan.until(tid.text).filter(|comm| !comm.contains('\n'));
        let comm = self.scan.until_last_within(MAX_COMM_BYTES, tid.text).or_else(|| long(&mut self.scan))?;
        Some((comm, self.scan.id()?))
    }

    #[inline]
    fn number(&mut self, key: Key) -> Option<i64> {
        if !self.eat(key) {
            return None;
        }
        let negative = self.scan.eat("-");
        let value = i64::try_from(self.scan.number()?).ok()?;
        Some(if negative { -value } else { value })
    }

    fn number_if_any(&mut self, key: Key) -> Option<i64> {
        self.number(key)
    }

    fn number_after(&mut self, key: Key) -> Option<i64> {
        self.go_past(key).then(|| self.scan.signed()).flatten().map(i64::from)
    }

    fn address_after(&mut self, key: Key) -> Option<u64> {
        if !self.go_past(key) {
            return None;
        }
        self.scan.eat("0x");
        hex(&mut self.scan)
    }

    fn state(&mut self, key: Key, comm: &str) -> Option<SwitchedOut> {
        self.eat(key).then(|| state(&mut self.scan, comm)).flatten()
    }

    /// A file's name may be long and hold anything, so the last key counts.
    fn skip_text(&mut self, key: Key, next: Key) -> bool {
        let Some(at) = self.scan.rest.rfind(next.text).filter(|_| self.eat(key)) else { return false };
        let skipped = at.checked_sub(key.text.len() - 1);
        self.scan.rest = skipped.map_or("", |skipped| &self.scan.rest[skipped..]);
        skipped.is_some()
    }

    fn skip_arrow(&mut self) {
        self.scan.eat(" ==>");
    }

    fn at_end(&self) -> bool {
        self.scan.at_end_of_field()
    }
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

/// Reads the task and the CPU of the wake-up `name`.
fn plugin_woken<'a>(name: &str, scan: &mut Scan<'a>) -> Option<What<'a>> {
    let (task, (success, cpu)) = plugin_task(scan, |scan, _| {
        let success = if scan.eat(" success=") { scan.id() } else { None };
        scan.blanks();
        let cpu = scan.eat("CPU:").then(|| scan.id()).flatten()?;
        scan.at_end_of_field().then_some((success, cpu))
    })?;
    Some(match name {
        _ if success == Some(0) => What::Other,
        "sched_waking" => What::Waking { task, last_cpu: cpu, sync: scan.rest == " sync=1" },
        "sched_wakeup" => What::Wakeup { task, cpu },
        _ => What::WakeupNew { task, cpu },
    })
}

fn hex(scan: &mut Scan<'_>) -> Option<u64> {
    u64::from_str_radix(scan.while_ascii(|byte| byte.is_ascii_hexdigit()), 16).ok()
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
    fn socket_events() {
        // As perf script prints them on Linux 6.18; with skaddr, as readers of binary files deliver it.
        assert_eq!(
            parse("sk_data_ready", "family=1 protocol=0 func=unix_stream_sendmsg"),
            Ok(What::DataReady { to: None })
        );
        assert_eq!(
            parse("sk_data_ready", "family=1 protocol=0 func=x skaddr=0xffff888104"),
            Ok(What::DataReady { to: Some(0x00ff_ff88_8104) })
        );
        let fields = "sk address = 0xffff88810430c000, family = 0x1 protocol = 0x0, length = 100, error = 0, flags = 0x0";
        let socket = 0xffff_8881_0430_c000;
        assert_eq!(parse("sock_recv_length", fields), Ok(What::Received { socket, bytes: 100 }));
        assert_eq!(parse("sock_send_length", fields), Ok(What::Sent { from: socket, bytes: 100 }));
        for (length, flags) in [(0, "0x0"), (-11, "0x40"), (100, "0x2")] {
            let none =
                format!("sk address = 0xa, family = AF_INET, length = {length}, error = 0, flags = {flags}");
            assert_eq!(
                parse("sock_recv_length", &none),
                Ok(What::Received { socket: 10, bytes: 0 }),
                "{none}"
            );
        }
        assert_eq!(
            parse("sock_recv_length", "sk address = 0xa, family = AF_INET"),
            Err("sock_recv_length with length = and a number".to_owned())
        );
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
        let fields = "dst_root=1 dst_id=70 dst_level=2 dst_path=/a b/c pid=x pid=9 comm=d e";
        assert_eq!(moved(fields), Some(What::Moved { tid: 9, hierarchy: 1, path: "/a b/c pid=x" }));
        assert_eq!(moved("dst_root=1 dst_path=/a comm=d"), None);
    }
}
