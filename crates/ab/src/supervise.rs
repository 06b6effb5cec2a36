// SPDX-License-Identifier: GPL-2.0-or-later
//! Two processes, so that the machine is given back whichever of them is killed.
//!
//! The *supervisor* is the process that the user started. It starts the *worker*, which runs the trials, and sleeps
//! until the worker ends. If the supervisor is killed, the kernel sends SIGTERM to the worker (PR_SET_PDEATHSIG,
//! prctl(2)), which then stops as at any SIGTERM: it ends the command and the loader. If the worker is killed, its
//! children become those of the supervisor, which is a child subreaper, and which then ends them. SIGKILL to both at
//! once leaves a loader running; the worker's own process group and its own name make that unlikely.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};

use crate::command::{status_words, wait_for_end};
use crate::descendants::end_descendants;
use crate::error::{AbError, system};
use crate::interrupt::Interrupt;
use crate::kernel::SchedExt;

/// Starts `worker`, which calls [`join_supervisor`] and [`crate::run`], and waits for its end. A stop of `interrupt`
/// is handed on to it as SIGTERM. `sysfs` is where the kernel shows sched_ext: `/sys`.
///
/// Makes this process a child subreaper, and ends every process below it before it returns.
///
/// # Errors
/// The worker cannot be started; a signal killed it; the machine cannot be given back.
pub fn supervise(mut worker: Command, sysfs: &Path, interrupt: &Interrupt) -> Result<ExitStatus, AbError> {
    prctl::set_child_subreaper(true).map_err(system("become a child subreaper"))?;
    let mut child =
        worker.stdin(Stdio::null()).process_group(0).spawn().map_err(system("start the worker process"))?;
    let ended = wait_for_end(child.id(), interrupt);
    ended.map_err(system("wait for the worker process"))?;
    let status = child.wait().map_err(system("wait for the worker process"))?;
    // The loader detaches its scheduler at SIGINT. A worker that ended by itself has left nothing.
    let count = end_descendants(None, Signal::SIGINT)?;
    if status.signal().is_none() && count == 0 {
        return Ok(status);
    }
    SchedExt::new(sysfs).wait_until_detached()?;
    Err(AbError::WorkerKilled { status: status_words(status), count })
}

/// Lets this process get SIGTERM when its parent, the supervisor, ends. To be called by the worker's main thread, once
/// SIGTERM is caught.
///
/// # Errors
/// The supervisor `supervisor_pid` is not the parent: it has ended already.
pub fn join_supervisor(supervisor_pid: i32) -> Result<(), AbError> {
    prctl::set_pdeathsig(Signal::SIGTERM).map_err(system("ask for a signal at the parent's end"))?;
    // A parent that ended before that call sends nothing.
    if getppid() != Pid::from_raw(supervisor_pid) {
        return Err(AbError::Interrupted);
    }
    // `killall -9 wakelab` is to find the supervisor alone.
    prctl::set_name(c"wl-ab-worker").map_err(system("name the worker process"))
}
