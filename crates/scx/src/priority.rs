// SPDX-License-Identifier: GPL-2.0-only
//! A real-time priority for the moment in which the kernel attaches the scheduler.
//!
//! The kernel moves all tasks to the scheduler one by one, including the thread that attaches it. On kernels without
//! commit b06ccbabe250 ("sched_ext: Fix starvation of scx_enable() under fair-class saturation", CVE-2026-43392; 6.12
//! and later, until March 2026) this thread is then below all tasks that were not moved yet. If those leave no CPU
//! idle, it never continues, and the machine hangs half-way. A real-time task is not moved.

use std::io;

/// Calls `work` as a SCHED_FIFO task of the lowest priority, and then restores this thread's own. If that is not
/// permitted, reports it, and calls `work` all the same.
pub(crate) fn as_real_time<T>(work: impl FnOnce() -> T) -> T {
    let raised = now().and_then(|before| set(libc::SCHED_FIFO, 1).map(|()| before));
    if let Err(error) = &raised {
        eprintln!(
            "scx_wakelab: not a real-time task while it attaches ({error}): with all CPUs busy, a kernel without the \
             fix of CVE-2026-43392 can hang"
        );
    }
    let result = work();
    if let Ok((policy, priority)) = raised
        && let Err(error) = set(policy, priority)
    {
        eprintln!("scx_wakelab: remains a real-time task: {error}");
    }
    result
}

/// Returns the scheduling policy and real-time priority of this thread, see sched(7).
fn now() -> io::Result<(i32, i32)> {
    let mut param = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is this thread; `param` lives, and is only written.
    #[allow(unsafe_code)]
    let (policy, error) = unsafe { (libc::sched_getscheduler(0), libc::sched_getparam(0, &raw mut param)) };
    if policy < 0 || error < 0 { Err(io::Error::last_os_error()) } else { Ok((policy, param.sched_priority)) }
}

/// Sets the scheduling policy and real-time priority of this thread.
fn set(policy: i32, priority: i32) -> io::Result<()> {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: 0 is this thread; `param` lives, and is only read.
    #[allow(unsafe_code)]
    let error = unsafe { libc::sched_setscheduler(0, policy, &raw const param) };
    if error < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_is_real_time_meanwhile_and_what_it_was_afterwards() {
        let before = now().unwrap();
        let (meanwhile, result) = as_real_time(|| (now().unwrap(), 7));
        // Without CAP_SYS_NICE the thread keeps its own.
        assert!(meanwhile == (libc::SCHED_FIFO, 1) || meanwhile == before, "{meanwhile:?}");
        assert_eq!((now().unwrap(), result), (before, 7));
    }
}
