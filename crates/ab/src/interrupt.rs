// SPDX-License-Identifier: GPL-2.0-or-later
//! A way to stop trials from another thread: that of a signal's handler.
//!
//! The thread that runs trials sleeps until the command ends, so that it disturbs nothing that is measured; so the stop
//! has to end the command. It has a process group of its own, which is signalled as a whole.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// A command that has not ended so long after SIGTERM is killed.
const GRACE: Duration = Duration::from_secs(3);

/// Shared between the trials and whoever stops them.
#[derive(Debug, Default)]
pub struct Interrupt {
    stopped: AtomicBool,
    /// The command's process group, as long as it cannot have been given to another process.
    group: Mutex<Option<Pid>>,
}

impl Interrupt {
    /// Ends the command that runs and lets the trials end with [`crate::AbError::Interrupted`]; returns when the
    /// command has ended. Not for a signal handler itself: it locks and sleeps.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        let Some(group) = self.signal(None, Signal::SIGTERM) else { return };
        let start = Instant::now();
        while start.elapsed() < GRACE {
            thread::sleep(Duration::from_millis(20));
            if self.current() != Some(group) {
                return;
            }
        }
        self.signal(Some(group), Signal::SIGKILL);
    }

    /// Whether anybody called [`Interrupt::stop`].
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// From now on a stop ends this process group.
    pub(crate) fn enter(&self, group: Pid) {
        *self.lock() = Some(group);
        // A stop that came before did not see it.
        if self.is_stopped() {
            self.signal(Some(group), Signal::SIGTERM);
        }
    }

    /// The process group has ended, and is about to be reaped.
    pub(crate) fn leave(&self) {
        *self.lock() = None;
    }

    pub(crate) fn current(&self) -> Option<Pid> {
        *self.lock()
    }

    /// Signals the group that runs, or nothing if it is not `only`. The lock keeps the group from being reaped
    /// meanwhile.
    fn signal(&self, only: Option<Pid>, signal: Signal) -> Option<Pid> {
        let group = self.lock();
        let found = (*group).filter(|&found| only.is_none_or(|only| only == found))?;
        // The only failure is that nobody is left to be signalled.
        let _ = killpg(found, signal);
        Some(found)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Pid>> {
        self.group.lock().expect("no thread panics while it holds this lock")
    }
}
