// SPDX-License-Identifier: GPL-2.0-or-later
//! A way to stop trials from another thread, such as that of a signal handler.
//!
//! The thread that runs the trials sleeps until the command ends, so that it does not disturb what is measured. A stop
//! therefore ends the command: it signals the command's process group.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// A process that has not ended this long after SIGTERM is killed.
pub(crate) const GRACE: Duration = Duration::from_secs(3);
/// Pause between two looks at a process or at the kernel that something is expected of. Never used during a run.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Shared between the trials and the thread that stops them.
#[derive(Debug)]
pub struct Interrupt {
    stopped: AtomicBool,
    /// The command's process group, until its id may belong to another process.
    group: Mutex<Option<Pid>>,
    /// Time that the group has after SIGTERM; `None`: as long as it needs.
    grace: Option<Duration>,
}

impl Default for Interrupt {
    fn default() -> Interrupt {
        Interrupt { stopped: AtomicBool::new(false), group: Mutex::new(None), grace: Some(GRACE) }
    }
}

impl Interrupt {
    /// Returns an interrupt that never kills: for [`crate::supervise`], whose worker needs time to give the machine
    /// back.
    pub fn without_kill() -> Interrupt {
        Interrupt { grace: None, ..Interrupt::default() }
    }

    /// Ends the running command, so that the trials end with [`crate::AbError::Interrupted`]. Returns when the command
    /// has ended. Do not call it in a signal handler itself: it locks and sleeps.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        let Some(group) = self.signal(None, Signal::SIGTERM) else { return };
        let Some(grace) = self.grace else { return };
        let start = Instant::now();
        while start.elapsed() < grace {
            thread::sleep(POLL);
            if self.current() != Some(group) {
                return;
            }
        }
        self.signal(Some(group), Signal::SIGKILL);
    }

    /// Whether [`Interrupt::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Makes a stop end this process group from now on.
    pub(crate) fn enter(&self, group: Pid) {
        *self.lock() = Some(group);
        // A stop that came before did not see it, and does not wait for its end. It has only just begun.
        if self.is_stopped() {
            let signal = if self.grace.is_some() { Signal::SIGKILL } else { Signal::SIGTERM };
            self.signal(Some(group), signal);
        }
    }

    /// Forgets the process group: it has ended and is about to be reaped.
    pub(crate) fn leave(&self) {
        *self.lock() = None;
    }

    pub(crate) fn current(&self) -> Option<Pid> {
        *self.lock()
    }

    /// Signals the group that runs, unless it is another than `only`. The lock keeps the group from being reaped
    /// meanwhile.
    fn signal(&self, only: Option<Pid>, signal: Signal) -> Option<Pid> {
        let group = self.lock();
        let found = (*group).filter(|&found| only.is_none_or(|only| only == found))?;
        // It fails only if no process of the group is left.
        let _ = killpg(found, signal);
        Some(found)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Pid>> {
        self.group.lock().expect("no thread panics while it holds this lock")
    }
}
