// SPDX-License-Identifier: GPL-2.0-or-later
//! What `wakelab record` measured of the machine, at the end of a recording: a line of the header for each kind of
//! wake-up, with the quartiles of each figure (lower quartile, median, upper quartile).
//! ```text
//!     # wakelab-wake: kind=local idle-ns=0 samples=300 waker-ns=1282/1302/1362 latency-ns=2629/2629/2629 ..
//!     # wakelab-wake: kind=idle idle-ns=100000 samples=240 waker-ns=5830/6010/6180 latency-ns=23374/29854/33019 ..
//!     # wakelab-wakes-busy-percent: 3
//! ```
//! `waker-ns` is what a system call took longer because it woke a task. `latency-ns` of *idle* is how much later the
//! wakee ran than after a hand-over on one CPU, whose time is the `latency-ns` of *local*. `latency-percentiles-ns` is
//! the same at the percentiles of [`wakelab_machine::ExitSpread`]; older recordings lack it. `warm-ns` is what some
//! work of the wakee takes, and `cold-ns` how much longer its first work took than the same work again. Older ones
//! have no `warm-ns`; their work was another one. The last line has the share of time in which others used the CPU that
//! should have idled.

use wakelab_machine::{Costs, IdleState, MAX_COLD_PERCENT, NR_PERCENTILES};

use crate::exits;
use crate::program::scaled;

/// If others used more of the CPU that should have idled, medians say how busy it was.
const BUSY_PERCENT: u32 = 25;

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
    /// The same at the percentiles of [`wakelab_machine::ExitSpread`].
    pub latency_percentiles_ns: Option<[u64; NR_PERCENTILES]>,
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
        let all = |values: &[u64]| values.iter().map(u64::to_string).collect::<Vec<_>>().join("/");
        let latencies =
            self.latency_percentiles_ns.map(|all_ns| format!(" latency-percentiles-ns={}", all(&all_ns)));
        format!(
            "kind={kind} idle-ns={} samples={} waker-ns={} latency-ns={}{} cold-ns={} warm-ns={}",
            self.idle_ns,
            self.samples,
            all(&self.waker_ns),
            all(&self.latency_ns),
            latencies.unwrap_or_default(),
            all(&self.cold_ns),
            all(&self.warm_ns),
        )
    }

    /// Reads the value of a line; `None` if it says something else. Words with other keys are skipped.
    pub(crate) fn parse(value: &str) -> Option<MeasuredWake> {
        let field = |name: &str| {
            let mut words = value.split(' ').filter_map(|word| word.split_once('='));
            words.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let number = |name: &str| field(name)?.parse::<u64>().ok();
        let all = |name: &str| -> Option<Vec<u64>> {
            field(name)?.split('/').map(|part| part.parse().ok()).collect()
        };
        let three = |name: &str| <[u64; 3]>::try_from(all(name)?).ok();
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
            latency_percentiles_ns: all("latency-percentiles-ns").and_then(|all_ns| all_ns.try_into().ok()),
            cold_ns: three("cold-ns")?,
            warm_ns: three("warm-ns").unwrap_or_default(),
        })
    }
}

impl Measured {
    /// Did others use the CPU that should have idled?
    fn was_busy(&self) -> bool {
        self.busy_percent.unwrap_or(0) > BUSY_PERCENT
    }

    /// Returns the lower quartile if others used the CPU that should have idled, and the median otherwise.
    pub(crate) fn usual(&self, quartiles: [u64; 3]) -> u64 {
        quartiles[usize::from(!self.was_busy())]
    }

    /// Returns the exits from idle that were measured. A state begins at the geometric mean of its idleness and the one
    /// before. Exits differ as measured, unless others used the CPU.
    pub(crate) fn idle_states(&self, costs: &Costs, flight_ns: u64) -> Option<Vec<IdleState>> {
        let mut idle: Vec<_> = self.wakes.iter().filter(|wake| wake.kind == WakeKind::Idle).collect();
        idle.sort_by_key(|wake| wake.idle_ns);
        idle.dedup_by_key(|wake| wake.idle_ns);
        let before_ns = costs.ipi_send_ns + flight_ns + costs.ipi_handle_ns;
        let mut states: Vec<IdleState> = Vec::new();
        let mut previous_ns = 0;
        for wake in &idle {
            let exit_ns = self.usual(wake.latency_ns).saturating_sub(before_ns);
            let shallower = states.last().copied().unwrap_or_default();
            let after_ns =
                u64::try_from((u128::from(previous_ns) * u128::from(wake.idle_ns)).isqrt()).ok()?;
            states.push(IdleState {
                after_ns,
                exit_latency_ns: exit_ns.max(shallower.exit_latency_ns),
                cold_percent: self.cold_percent(wake).max(shallower.cold_percent),
                ..IdleState::default()
            });
            previous_ns = wake.idle_ns;
        }
        if !self.was_busy() {
            exits::measured(&mut states, &idle, before_ns);
        }
        (!states.is_empty()).then_some(states)
    }

    /// Returns how much longer the wakee's first work took, in percent.
    fn cold_percent(&self, wake: &MeasuredWake) -> u32 {
        let percent = scaled(100, self.usual(wake.cold_ns), self.usual(wake.warm_ns).max(1));
        if wake.warm_ns == [0; 3] { 0 } else { percent.min(u64::from(MAX_COLD_PERCENT)) as u32 }
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
            latency_percentiles_ns: Some([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
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
