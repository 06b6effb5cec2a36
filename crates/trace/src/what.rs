// SPDX-License-Identifier: GPL-2.0-or-later
//! What each of the kernel's events says about scheduling. This is the same in every format; how a format finds the
//! fields of an event is its own matter ([`Fields`]).

use crate::event::{FutexCall, SwitchedOut, TaskName, What};

/// A description of what was expected.
pub(crate) type Expected = &'static str;

/// A field of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// Its name in the event's format.
    pub(crate) name: &'static str,
    /// What is before its value in the event's text.
    pub(crate) text: &'static str,
}

/// The field of this name; the text may call it otherwise.
macro_rules! key {
    ($name:literal) => {
        key!($name, $name)
    };
    ($name:literal, $in_text:literal) => {
        Key { name: $name, text: concat!(" ", $in_text, "=") }
    };
}

/// The fields of one event. They are asked for in the order in which the kernel's text has them.
pub(crate) trait Fields<'a> {
    /// Returns a task's name and its id.
    fn task(&mut self, comm: Key, tid: Key) -> Option<(&'a str, u32)>;

    /// Returns a number.
    fn number(&mut self, key: Key) -> Option<i64>;

    /// Returns a number that only some recorders write.
    fn number_if_any(&mut self, key: Key) -> Option<i64>;

    /// Returns a number which further fields may precede.
    fn number_after(&mut self, key: Key) -> Option<i64>;

    /// Returns an address in the kernel, or flags: a number in base 16, which further fields may precede.
    fn address_after(&mut self, key: Key) -> Option<u64>;

    /// Returns the meaning of the state of the task `comm`, which is switched out.
    fn state(&mut self, key: Key, comm: &str) -> Option<SwitchedOut>;

    /// Goes past a text that may hold anything, up to the last field called `next`. Returns false if it is not there.
    fn skip_text(&mut self, key: Key, next: Key) -> bool;

    /// Goes from the task that was switched out to the one that was switched in.
    fn skip_arrow(&mut self);

    /// Whether nothing of the last number is left.
    fn at_end(&self) -> bool;
}

/// Returns what the event `name`, without its subsystem, says. The error says what was expected.
///
/// Events that say nothing about waiting become [`What::Other`] unread.
#[inline]
pub(crate) fn what<'a>(name: &str, fields: &mut impl Fields<'a>) -> Result<What<'a>, Expected> {
    match name {
        "sched_switch" => switch(fields),
        "sched_waking" => waking(fields),
        "sched_wakeup" => Ok(woken(fields)?.map_or(What::Other, |(task, cpu)| What::Wakeup { task, cpu })),
        "sched_wakeup_new" => {
            Ok(woken(fields)?.map_or(What::Other, |(task, cpu)| What::WakeupNew { task, cpu }))
        }
        "sched_process_fork" => fork(fields),
        "sched_process_exec" => exec(fields),
        "sched_migrate_task" => migrate(fields),
        "sched_stat_runtime" => runtime(fields),
        "sched_process_exit" => Ok(What::Exit),
        "local_timer_entry" => Ok(What::Tick),
        "sk_data_ready" => Ok(What::DataReady { to: fields.address_after(key!("skaddr")) }),
        "sock_send_length" => socket_call(fields).map(|(from, bytes)| What::Sent { from, bytes }),
        "sock_recv_length" => socket_call(fields).map(|(socket, bytes)| What::Received { socket, bytes }),
        "pipe_write" | "eventfd_write" | "mq_write" => {
            let (channel, bytes) = channel_call(fields)?;
            let capacity_bytes = size(fields.number_if_any(key!("capacity")));
            Ok(What::Writes { channel, bytes: (name != "eventfd_write").then_some(bytes), capacity_bytes })
        }
        "pipe_read" | "eventfd_read" | "mq_read" => {
            channel_call(fields).map(|(channel, bytes)| What::Read { channel, bytes })
        }
        _ => Ok(What::Other),
    }
}

/// Returns what an event of a subsystem that [`what`] does not read says. One that cannot be read says nothing, because
/// recorders print system calls differently.
#[inline]
pub(crate) fn of_other<'a>(subsystem: &str, name: &str, fields: &mut impl Fields<'a>) -> What<'a> {
    match (subsystem, name) {
        ("irq_vectors", "local_timer_entry") => What::Tick,
        ("syscalls", "sys_enter_sched_yield") => What::Yield,
        ("syscalls", "sys_enter_futex") => futex(fields).unwrap_or(What::Other),
        _ => What::Other,
    }
}

/// A call of futex(2): `uaddr: 0x55e6705642a0, op: 0x00000080, val: 0x00000002, utime: ...` in base 16.
fn futex<'a>(fields: &mut impl Fields<'a>) -> Option<What<'a>> {
    // include/uapi/linux/futex.h
    const PRIVATE: u64 = 128;
    const CLOCK_REALTIME: u64 = 256;
    const HELD_WITH_WAITERS: u64 = 2;
    let address = fields.address_after(Key { name: "uaddr", text: " uaddr: " })?;
    let op = fields.address_after(Key { name: "op", text: ", op: " })?;
    let value = fields.address_after(Key { name: "val", text: ", val: " })?;
    let call = match op & !(PRIVATE | CLOCK_REALTIME) {
        // FUTEX_WAIT
        0 if value == HELD_WITH_WAITERS => FutexCall::WaitForMutex,
        // FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI, FUTEX_LOCK_PI2
        0 | 6 | 9 | 11 | 13 => {
            let until = fields.address_after(Key { name: "utime", text: ", utime: " });
            if until.is_some_and(|until| until != 0) { FutexCall::WaitUntil } else { FutexCall::Wait }
        }
        // FUTEX_WAKE, FUTEX_REQUEUE, FUTEX_CMP_REQUEUE, FUTEX_WAKE_OP, FUTEX_UNLOCK_PI, FUTEX_WAKE_BITSET,
        // FUTEX_CMP_REQUEUE_PI
        1 | 3 | 4 | 5 | 7 | 10 | 12 => FutexCall::Wake,
        _ => return None,
    };
    Some(What::Futex { address, is_private: op & PRIVATE != 0, call })
}

fn id<'a>(fields: &mut impl Fields<'a>, key: Key, expected: Expected) -> Result<u32, Expected> {
    fields.number(key).and_then(|id| u32::try_from(id).ok()).ok_or(expected)
}

/// A task with its priority.
fn task<'a>(
    fields: &mut impl Fields<'a>,
    (comm, tid, prio): (Key, Key, Key),
    (expected, expected_prio): (Expected, Expected),
) -> Result<TaskName<'a>, Expected> {
    let (comm, tid) = fields.task(comm, tid).ok_or(expected)?;
    let prio = fields.number(prio).and_then(|prio| i32::try_from(prio).ok()).ok_or(expected_prio)?;
    Ok(TaskName { comm, tid, prio: Some(prio) })
}

fn end<'a>(fields: &impl Fields<'a>, expected: Expected) -> Result<(), Expected> {
    fields.at_end().then_some(()).ok_or(expected)
}

fn switch<'a>(fields: &mut impl Fields<'a>) -> Result<What<'a>, Expected> {
    const STATE: Expected = "prev_state= and letters or a number";
    let prev_keys = (key!("prev_comm"), key!("prev_pid"), key!("prev_prio"));
    let prev = task(fields, prev_keys, ("prev_comm= prev_pid=", "prev_prio="))?;
    let why = fields.state(key!("prev_state"), prev.comm).ok_or(STATE)?;
    end(fields, STATE)?;
    fields.skip_arrow();
    let next_keys = (key!("next_comm"), key!("next_pid"), key!("next_prio"));
    let next = task(fields, next_keys, ("==> next_comm= next_pid=", "next_prio="))?;
    end(fields, "nothing after next_prio=")?;
    Ok(What::Switch { prev, why, next })
}

const TASK: (Key, Key, Key) = (key!("comm"), key!("pid"), key!("prio"));
const TASK_EXPECTED: (Expected, Expected) = ("comm= pid=", "prio=");

/// The task and the CPU of a wake-up; `None` if it woke no task (`success=0`, on older kernels).
fn woken<'a>(fields: &mut impl Fields<'a>) -> Result<Option<(TaskName<'a>, u32)>, Expected> {
    let task = task(fields, TASK, TASK_EXPECTED)?;
    let success = fields.number_if_any(key!("success"));
    let cpu = id(fields, key!("target_cpu"), "target_cpu=")?;
    end(fields, "nothing after the CPU")?;
    Ok((success != Some(0)).then_some((task, cpu)))
}

/// Our own exports append `sync=1`, which no kernel writes.
fn waking<'a>(fields: &mut impl Fields<'a>) -> Result<What<'a>, Expected> {
    let woken = woken(fields)?;
    let sync = fields.number_if_any(key!("sync")) == Some(1);
    Ok(woken.map_or(What::Other, |(task, last_cpu)| What::Waking { task, last_cpu, sync }))
}

fn fork<'a>(fields: &mut impl Fields<'a>) -> Result<What<'a>, Expected> {
    let named = |(comm, tid)| TaskName { comm, tid, prio: None };
    let parent = fields.task(key!("parent_comm", "comm"), key!("parent_pid", "pid"));
    let parent = parent.map(named).ok_or("comm= pid=")?;
    let child = fields.task(key!("child_comm"), key!("child_pid"));
    let child = child.map(named).ok_or("child_comm= child_pid=")?;
    end(fields, "nothing after child_pid=")?;
    Ok(What::Fork { parent, child })
}

/// The first id is that of the current task.
fn exec<'a>(fields: &mut impl Fields<'a>) -> Result<What<'a>, Expected> {
    const EXPECTED: Expected = "filename= pid= old_pid=";
    let pid = key!("pid");
    fields.skip_text(key!("filename"), pid).then_some(()).ok_or(EXPECTED)?;
    let tid = id(fields, pid, EXPECTED)?;
    id(fields, key!("old_pid"), EXPECTED)?;
    end(fields, "nothing after old_pid=")?;
    Ok(What::Exec { tid })
}

fn migrate<'a>(fields: &mut impl Fields<'a>) -> Result<What<'a>, Expected> {
    let task = task(fields, TASK, TASK_EXPECTED)?;
    let from_cpu = id(fields, key!("orig_cpu"), "orig_cpu=")?;
    let to_cpu = id(fields, key!("dest_cpu"), "dest_cpu=")?;
    end(fields, "nothing after dest_cpu=")?;
    Ok(What::Migrate { task, from_cpu, to_cpu })
}

fn runtime<'a>(fields: &mut impl Fields<'a>) -> Result<What<'a>, Expected> {
    let (comm, tid) = fields.task(TASK.0, TASK.1).ok_or("comm= pid=")?;
    let ran_ns = fields.number(key!("runtime")).and_then(|ran_ns| u64::try_from(ran_ns).ok());
    let ran_ns = ran_ns.ok_or("runtime=")?;
    end(fields, "[ns] after runtime=")?;
    Ok(What::Runtime { task: TaskName { comm, tid, prio: None }, ran_ns })
}

/// The socket and the number of bytes, 0 where the call failed or peeked (MSG_PEEK, 2). The text is `sk address = 0xff,
/// family = AF_INET ... length = 100, error = 0, flags = 0x0`; perf 6.1 prints an error as the length.
fn socket_call<'a>(fields: &mut impl Fields<'a>) -> Result<(u64, u64), Expected> {
    const PEEK: u64 = 2;
    let address = Key { name: "sk", text: " sk address = " };
    let length = Key { name: "ret", text: " length = " };
    let flags = Key { name: "flags", text: " flags = " };
    let socket = fields.address_after(address).ok_or("sk address = and a number")?;
    let bytes = fields.number_after(length).ok_or("length = and a number")?;
    let flags = fields.address_after(flags).ok_or("flags = and a number")?;
    Ok((socket, if flags & PEEK == 0 { u64::try_from(bytes).unwrap_or(0) } else { 0 }))
}

fn size(number: Option<i64>) -> Option<u64> {
    number.and_then(|number| u64::try_from(number).ok())
}

/// The pipe or the eventfd and the number of bytes, in a line of `wakelab record`: `channel=25 bytes=4096`.
fn channel_call<'a>(fields: &mut impl Fields<'a>) -> Result<(u64, u64), Expected> {
    let channel = size(fields.number(key!("channel"))).ok_or("channel=")?;
    let bytes = size(fields.number(key!("bytes"))).ok_or("bytes=")?;
    Ok((channel, bytes))
}

/// Returns the meaning of the bits of a task's state on any kernel (include/linux/sched.h and
/// include/trace/events/sched.h).
///
/// - 0x10 and 0x20: dead and zombie, in whichever order.
/// - 0x40: dead (TASK_DEAD) before Linux 4.14, parked since. Only kernel threads of one CPU are parked (`cpuhp/1`).
/// - 0x100 and above alone: preempted. The mark is the bit above all states: 0x100 since 4.14, 0x400 to 0x1000 before.
///   Before 4.4 the state stood beside it. 0x402 is TASK_IDLE, which waits, from 4.2 to 4.13.
pub(crate) fn state_of_bits(bits: u64, comm: &str) -> SwitchedOut {
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
