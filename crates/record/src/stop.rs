// SPDX-License-Identifier: GPL-2.0-or-later
//! A way to end a recording from another thread, such as that of a signal handler; and what the recorder waits for.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

/// Shared between the recorder and the thread that stops it.
#[derive(Debug, Default)]
pub struct Stop {
    seen: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    stops: u32,
    command_ended: bool,
}

/// Why a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    CommandEnded,
    Stopped,
    TimeIsUp,
}

impl Stop {
    /// Ends the recording, which is then written. A second call ends the recorded command by force, or gives up
    /// writing. Do not call it in a signal handler itself: it locks.
    pub fn stop(&self) {
        self.lock().stops += 1;
        self.changed.notify_all();
    }

    pub(crate) fn command_ended(&self) {
        self.lock().command_ended = true;
        self.changed.notify_all();
    }

    /// The number of calls of [`Stop::stop`].
    pub(crate) fn stops(&self) -> u32 {
        self.lock().stops
    }

    /// Waits for the command's end, for another stop than the first `stops`, or until a time.
    pub(crate) fn wait(&self, stops: u32, until: Option<Instant>) -> Woken {
        let mut seen = self.lock();
        loop {
            if seen.command_ended {
                return Woken::CommandEnded;
            }
            if seen.stops > stops {
                return Woken::Stopped;
            }
            seen = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => self.changed.wait(seen).expect(NO_PANIC),
                Some(left) if left.is_zero() => return Woken::TimeIsUp,
                Some(left) => self.changed.wait_timeout(seen, left).expect(NO_PANIC).0,
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect(NO_PANIC)
    }
}

const NO_PANIC: &str = "no thread panics while it holds this lock";

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_wait_ends_for_its_reason() {
        let stop = Stop::default();
        let soon = || Some(Instant::now() + Duration::from_millis(1));
        assert_eq!(stop.wait(0, soon()), Woken::TimeIsUp);
        stop.stop();
        assert_eq!(stop.wait(0, None), Woken::Stopped);
        assert_eq!(stop.wait(1, soon()), Woken::TimeIsUp);
        std::thread::scope(|scope| {
            scope.spawn(|| stop.command_ended());
            assert_eq!(stop.wait(1, None), Woken::CommandEnded);
        });
    }
}
