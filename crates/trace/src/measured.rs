// SPDX-License-Identifier: GPL-2.0-or-later
//! What `wakelab record` measured of the machine, at the end of a recording: a line of the header for each kind of
//! wake-up, with the quartiles of each figure (lower quartile, median, upper quartile).
//! ```text
//!     # wakelab-wake: kind=local idle-ns=0 samples=300 waker-ns=1282/1302/1362 latency-ns=2629/2629/2629 ..
//!     # wakelab-wake: kind=idle idle-ns=100000 samples=60 waker-ns=5830/6010/6180 latency-ns=23374/29854/33019 ..
//!     # wakelab-wakes-busy-percent: 3
//! ```
//! `waker-ns` is what a system call took longer because it woke a task. `latency-ns` of *idle* is how much later the
//! wakee ran than after a hand-over on one CPU, whose time is the `latency-ns` of *local*. `warm-ns` is what some work
//! of the wakee takes, and `cold-ns` how much longer its first work took than the same work again. Older recordings
//! have no `warm-ns`; their work was another one. The last line has the share of time in which others used the CPU that
//! should have idled.

/// What is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeKind {
    /// A task on the waker's CPU.
    Local,
    /// A task on another CPU, which idles.
    Idle,
}

/// What wake-ups of one kind cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredWake {
    /// What was woken.
    pub kind: WakeKind,
    /// For how long the CPU had been idle.
    pub idle_ns: u64,
    /// The number of samples.
    pub samples: u64,
    /// The waker's time for a wake-up: quartiles.
    pub waker_ns: [u64; 3],
    /// From the wake-up until the wakee runs, more than on the waker's CPU: quartiles. For [`WakeKind::Local`], the
    /// time of a hand-over.
    pub latency_ns: [u64; 3],
    /// The wakee's additional time for its first work: quartiles.
    pub cold_ns: [u64; 3],
    /// Its time for the same work again: quartiles. Zeros if it was not measured.
    pub warm_ns: [u64; 3],
}

/// All that was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// What wake-ups cost.
    pub wakes: Vec<MeasuredWake>,
    /// The share of time in which others used the CPU that should have idled; `None` if it is not known.
    pub busy_percent: Option<u32>,
}

impl MeasuredWake {
    /// The key of its line in the header.
    pub const KEY: &'static str = "wake";

    /// Returns the value of its line.
    pub fn words(&self) -> String {
        let kind = match self.kind {
            WakeKind::Local => "local",
            WakeKind::Idle => "idle",
        };
        let three = |[low, median, high]: [u64; 3]| format!("{low}/{median}/{high}");
        format!(
            "kind={kind} idle-ns={} samples={} waker-ns={} latency-ns={} cold-ns={} warm-ns={}",
            self.idle_ns,
            self.samples,
            three(self.waker_ns),
            three(self.latency_ns),
            three(self.cold_ns),
            three(self.warm_ns),
        )
    }

    /// Reads the value of a line; `None` if it says something else. Words with other keys are skipped.
    pub(crate) fn parse(value: &str) -> Option<MeasuredWake> {
        let field = |name: &str| {
            let mut words = value.split(' ').filter_map(|word| word.split_once('='));
            words.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let number = |name: &str| field(name)?.parse::<u64>().ok();
        let three = |name: &str| {
            let parts: Vec<u64> =
                field(name)?.split('/').map(|part| part.parse().ok()).collect::<Option<_>>()?;
            <[u64; 3]>::try_from(parts).ok()
        };
        let kind = match field("kind")? {
            "local" => WakeKind::Local,
            "idle" => WakeKind::Idle,
            _ => return None,
        };
        Some(MeasuredWake {
            kind,
            idle_ns: number("idle-ns")?,
            samples: number("samples")?,
            waker_ns: three("waker-ns")?,
            latency_ns: three("latency-ns")?,
            cold_ns: three("cold-ns")?,
            warm_ns: three("warm-ns").unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let wake = MeasuredWake {
            kind: WakeKind::Idle,
            idle_ns: 100_000,
            samples: 60,
            waker_ns: [1, 2, 3],
            latency_ns: [4, 5, 6],
            cold_ns: [7, 8, 9],
            warm_ns: [10, 11, 12],
        };
        assert_eq!(MeasuredWake::parse(&wake.words()), Some(wake));
        let local = MeasuredWake { kind: WakeKind::Local, ..wake };
        assert_eq!(MeasuredWake::parse(&format!("{} weather=fine", local.words())), Some(local));
    }

    #[test]
    fn other_lines_say_nothing() {
        let words = "kind=idle idle-ns=1 samples=2 waker-ns=1/2/3 latency-ns=4/5/6 cold-ns=7/8/9";
        assert!(MeasuredWake::parse(words).is_some());
        for (from, to) in
            [("idle ", "far "), ("1/2/3", "1/2"), ("1/2/3", "1/2/x"), ("samples=2 ", ""), ("4/5/6", "-4/5/6")]
        {
            assert_eq!(MeasuredWake::parse(&words.replace(from, to)), None, "{from}");
        }
    }
}
