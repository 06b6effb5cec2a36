// SPDX-License-Identifier: GPL-2.0-or-later
//! Policies by name: one choice on each axis, and tunables.
//!
//! As text, a policy is a name and any number of overrides: `linux-4.15+idle=smt-balance+latency-ns=6000000`. As data
//! it is its axes, so that a stored scenario keeps its meaning when the meaning of a name is refined.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use wakelab_machine::Distance;

use crate::aliases::{self, ALIASES, Alias};
use crate::mirror::AXES;
use crate::named::{NAMED, NamedPolicy};
use crate::{Cluster, Error, Groups, MAX_GROUPS, Params, PolicySpec, Queue, Tables};

/// One value of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisValue {
    /// The word in `AXIS=VALUE`.
    pub name: &'static str,
    /// One line for people.
    pub description: &'static str,
    /// The design's own description: the comment at the beginning of its file in policy/. Empty if it has no file.
    pub text: &'static str,
}

/// One axis of a policy, for listing the possible choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The word in `AXIS=VALUE`.
    pub name: &'static str,
    /// One line for people.
    pub description: &'static str,
    /// Another axis, and its values that use this axis; no other value does. `None`: this axis is always used.
    pub with: Option<(&'static str, &'static [&'static str])>,
    /// The possible values.
    pub values: &'static [AxisValue],
}

/// Overrides of tunables. `None` is the kernel's default for the machine's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Tunables {
    /// The time in which each runnable task of a CPU runs once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<u64>,
    /// The shortest slice when many tasks share a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_granularity_ns: Option<u64>,
    /// How far behind the running task a waking task must be to preempt it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wakeup_granularity_ns: Option<u64>,
    /// A CPU whose mean idle period is shorter does not pull; a task that ran within this time is cache-hot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration_cost_ns: Option<u64>,
    /// `groups=shares`: the time from a pass that changed a weight to the next pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares_min_ns: Option<u64>,
    /// `groups=shares`: the longest time between passes, while none changes a weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares_max_ns: Option<u64>,
    /// A task that has waited for longer goes before all others (policy/wait.h); 0: none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_max_ns: Option<u64>,
}

/// A tunable: its name, its description, its least value, and how to reach it.
struct Tunable {
    name: &'static str,
    description: &'static str,
    least: u64,
    at: fn(&mut Tunables) -> &mut Option<u64>,
}

/// One second: the kernel's own limit for these sysctls, and far from where any product in run_queue.h overflows.
const TUNABLE_MAX_NS: u64 = 1_000_000_000;

/// `wait-max-ns` behind a watchdog, and with `groups=exact`: a tenth of `scx_wakelab`'s watchdog.
const WAIT_MAX_NS: u64 = 1_000_000_000;

const TUNABLES: [Tunable; 7] = [
    Tunable {
        name: "latency-ns",
        description: "The time in which each runnable task of a CPU runs once; 6 ms (cfs-2007: 20), scaled by the machine's size.",
        least: 1,
        at: |tunables| &mut tunables.latency_ns,
    },
    Tunable {
        name: "min-granularity-ns",
        description: "The shortest slice when many tasks share a CPU; with queue=fair, every slice; with groups=exact, how long a task is spared among its own group, at least a tick; 0.75 ms (cfs-2007: 4), scaled by the machine's size.",
        least: 1,
        at: |tunables| &mut tunables.min_granularity_ns,
    },
    Tunable {
        name: "wakeup-granularity-ns",
        description: "How far behind a waking task must be to preempt; 1 ms (cfs-2007: 10), scaled by the machine's size.",
        least: 0,
        at: |tunables| &mut tunables.wakeup_granularity_ns,
    },
    Tunable {
        name: "migration-cost-ns",
        description: "A CPU whose mean idle period is shorter does not pull, and a task that ran within this time is not pulled; 0.5 ms.",
        least: 0,
        at: |tunables| &mut tunables.migration_cost_ns,
    },
    Tunable {
        name: "shares-min-ns",
        description: "With groups=shares, the time until weights are computed again if any changed; 8 ms.",
        least: 100_000,
        at: |tunables| &mut tunables.shares_min_ns,
    },
    Tunable {
        name: "shares-max-ns",
        description: "With groups=shares, the longest time until then, while none changes; 128 ms.",
        least: 100_000,
        at: |tunables| &mut tunables.shares_max_ns,
    },
    Tunable {
        name: "wait-max-ns",
        description: "A runnable task that has waited for longer goes first; 0: none does; 1 s under sched_ext and with groups=exact, else 0 as in Linux.",
        least: 0,
        at: |tunables| &mut tunables.wait_max_ns,
    },
];

impl Tunables {
    /// The kernel's defaults.
    pub(crate) const NONE: Tunables = Tunables {
        latency_ns: None,
        min_granularity_ns: None,
        wakeup_granularity_ns: None,
        migration_cost_ns: None,
        shares_min_ns: None,
        shares_max_ns: None,
        wait_max_ns: None,
    };

    pub(crate) fn is_default(&self) -> bool {
        *self == Tunables::NONE
    }
}

impl PolicySpec {
    /// All policies with a name.
    pub fn named() -> &'static [NamedPolicy] {
        &NAMED
    }

    /// Kernels that stand for a policy. Their names may be used like a policy's.
    pub fn aliases() -> &'static [Alias] {
        &ALIASES
    }

    /// Returns the name of the policy for a kernel's release, such as 6.8.0-45-generic: the newest that is not newer
    /// than the kernel, or the oldest. `None` if the release begins with no version.
    pub fn of_kernel(release: &str) -> Option<&'static str> {
        let names = NAMED.iter().map(|policy| policy.name).chain(ALIASES.iter().map(|alias| alias.name));
        aliases::newest_until(names, release)
    }

    /// The axes that may follow the name as `AXIS=VALUE`.
    pub fn axes() -> &'static [Axis] {
        &AXES
    }

    /// Returns the other axis, and its value, because of which the policy does not use `axis`.
    pub fn overrides(&self, axis: &Axis) -> Option<(&'static str, &'static str)> {
        let (other, values) = axis.with?;
        self.choices().into_iter().find(|(its, value)| *its == other && !values.contains(value))
    }

    /// Returns the policy that decides the same, but has the values of linux-4.15 on all axes that it does not use.
    pub fn canonical(&self) -> PolicySpec {
        let base = by_name("linux-4.15").expect("it is in the list").choices();
        let ignored = AXES.iter().filter(|axis| self.overrides(axis).is_some());
        ignored.fold(self.clone(), |spec, axis| {
            let (_, value) = base.into_iter().find(|(name, _)| *name == axis.name).expect("it has all axes");
            spec.with(axis.name, value).expect("a value of the axis")
        })
    }

    /// Returns a sentence for each axis that the policy `text` sets but does not use, on a machine with `unequal` CPUs
    /// or with equal ones. Empty if `text` is not a policy.
    pub fn ignored(text: &str, unequal: bool) -> Vec<String> {
        let Ok(spec) = text.parse::<PolicySpec>() else { return Vec::new() };
        let by_capacity = unequal && spec.traits().has_capacities != 0;
        let words = text.split('+').skip(1).filter_map(|word| Some((word, word.split_once('=')?.0)));
        let sentence = |(word, name): (&str, &str)| {
            let axis = AXES.iter().find(|axis| axis.name == name)?;
            if let Some((other, value)) = spec.overrides(axis) {
                return Some(format!("{word} has no effect with {other}={value}"));
            }
            let by_capacity = by_capacity && name == "idle";
            by_capacity.then(|| {
                format!("on CPUs of unequal speed capacity=aware replaces the search of {word}; only its bookkeeping remains")
            })
        };
        words.filter_map(sentence).collect()
    }

    /// The tunables that may follow the name as `TUNABLE=NANOSECONDS`: names and descriptions.
    pub fn tunables() -> impl Iterator<Item = (&'static str, &'static str)> {
        TUNABLES.iter().map(|tunable| (tunable.name, tunable.description))
    }

    /// Like [`PolicySpec::params`], for a host with this machine, and with records of task groups in slots below
    /// `nr_groups`. A machine without clusters gets `cluster=off`, which decides the same there, and costs nothing.
    ///
    /// # Errors
    /// Also if `nr_groups` exceeds [`MAX_GROUPS`].
    pub fn params_on(&self, tables: &Tables, tick_ns: u64, nr_groups: usize) -> Result<Params, Error> {
        if nr_groups > MAX_GROUPS {
            return Err(Error::GroupCount { nr_groups, max_groups: MAX_GROUPS });
        }
        let params = self.params(tables.nr_present(), tick_ns)?;
        let has_clusters = tables.levels.iter().any(|level| level.kind == Distance::Cluster);
        let cluster = if has_clusters { params.cluster } else { Cluster::Off as u32 };
        Ok(Params { nr_groups: nr_groups as u32, cluster, ..params })
    }

    /// Returns the policy for a host that ejects a scheduler under which a task waits for too long: with a bound on
    /// waiting, unless it sets one. Linux's own scheduler has neither a watchdog nor a bound.
    pub fn behind_watchdog(mut self) -> PolicySpec {
        self.tunables.wait_max_ns.get_or_insert(WAIT_MAX_NS);
        self
    }

    /// Returns the parameters for C, on a machine of `nr_cpus` CPUs under a host whose tick has the period `tick_ns`.
    ///
    /// # Errors
    /// If the tick or a tunable is out of range.
    pub fn params(&self, nr_cpus: usize, tick_ns: u64) -> Result<Params, Error> {
        if !(1..=TUNABLE_MAX_NS).contains(&tick_ns) {
            return Err(Error::BadTick { tick_ns });
        }
        let mut tunables = self.tunables;
        for tunable in &TUNABLES {
            if let Some(value) = *(tunable.at)(&mut tunables) {
                tunable.check(value, || value.to_string())?;
            }
        }
        let [latency_ns, min_granularity_ns, wakeup_granularity_ns] = self.queue.defaults_ns(nr_cpus);
        Ok(Params {
            latency_ns: tunables.latency_ns.unwrap_or(latency_ns),
            min_granularity_ns: tunables.min_granularity_ns.unwrap_or(min_granularity_ns),
            wakeup_granularity_ns: tunables.wakeup_granularity_ns.unwrap_or(wakeup_granularity_ns),
            migration_cost_ns: tunables.migration_cost_ns.unwrap_or(500_000),
            shares_min_ns: tunables.shares_min_ns.unwrap_or(8_000_000),
            shares_max_ns: tunables.shares_max_ns.unwrap_or(128_000_000),
            wait_max_ns: tunables.wait_max_ns.unwrap_or(if self.groups == Groups::Exact {
                WAIT_MAX_NS
            } else {
                0
            }),
            tick_ns,
            ..self.axes_as_params()
        })
    }

    /// Returns the same policy with another choice on an axis, or another tunable.
    ///
    /// # Errors
    /// If there is no such axis or tunable, or it has no such value.
    pub fn with(mut self, axis: &str, value: &str) -> Result<PolicySpec, Error> {
        self.set(axis, value, &format!("{axis}={value}"))?;
        Ok(self)
    }

    /// Returns where `other` has made another choice: axes and tunables by name, and both choices in words.
    pub fn differences(&self, other: &PolicySpec) -> Vec<(&'static str, String, String)> {
        let axes = self.choices().into_iter().zip(other.choices());
        let axes = axes.filter(|(own, its)| own != its);
        let mut found: Vec<(&'static str, String, String)> =
            axes.map(|(own, its)| (own.0, own.1.to_owned(), its.1.to_owned())).collect();
        let (mut own, mut its) = (self.tunables, other.tunables);
        for tunable in &TUNABLES {
            let values = [*(tunable.at)(&mut own), *(tunable.at)(&mut its)];
            if values[0] != values[1] {
                let [from, to] =
                    values.map(|value| value.map_or_else(|| "default".to_owned(), |ns| ns.to_string()));
                found.push((tunable.name, from, to));
            }
        }
        found
    }

    /// Returns this policy with the choice of `other` on one axis, or its tunable.
    ///
    /// # Errors
    /// There is no such axis or tunable.
    pub fn with_choice_of(mut self, other: &PolicySpec, name: &str) -> Result<PolicySpec, Error> {
        if let Some((axis, value)) = other.choices().into_iter().find(|(axis, _)| *axis == name) {
            return self.with(axis, value);
        }
        let Some(tunable) = TUNABLES.iter().find(|tunable| tunable.name == name) else {
            return Err(Error::UnknownAxis {
                axis: name.to_owned(),
                text: name.to_owned(),
                choices: all_axes(),
            });
        };
        let mut tunables = other.tunables;
        *(tunable.at)(&mut self.tunables) = *(tunable.at)(&mut tunables);
        Ok(self)
    }

    fn set(&mut self, axis: &str, value: &str, text: &str) -> Result<(), Error> {
        if let Some(axis) = AXES.iter().find(|its| its.name == axis) {
            let is_set = self.choose(axis.name, axis.number(value)?);
            assert!(is_set, "{} is an axis", axis.name);
            return Ok(());
        }
        let Some(tunable) = TUNABLES.iter().find(|tunable| tunable.name == axis) else {
            return Err(Error::UnknownAxis {
                axis: axis.to_string(),
                text: text.to_string(),
                choices: all_axes(),
            });
        };
        *(tunable.at)(&mut self.tunables) = Some(tunable.parse(value)?);
        Ok(())
    }
}

impl Axis {
    /// The number of a value, by its word.
    fn number(&self, value: &str) -> Result<usize, Error> {
        self.values.iter().position(|its| its.name == value).ok_or_else(|| Error::UnknownValue {
            axis: self.name,
            value: value.to_string(),
            choices: list(self.values.iter().map(|value| value.name)),
        })
    }
}

impl Queue {
    /// Returns the kernel's defaults of latency, min_granularity and wakeup_granularity on `nr_cpus` CPUs, in ns.
    ///
    /// Sources: kernel/sched/fair.c of 3.10 to 6.18 (base_slice is 0.7 ms since 6.15), get_update_sysctl_factor() with
    /// SCHED_TUNABLESCALING_LOG; kernel/sched_fair.c and sched_init_granularity() of 2.6.24. No kernel scales
    /// migration_cost.
    fn defaults_ns(self, nr_cpus: usize) -> [u64; 3] {
        let nr_cpus = nr_cpus.max(1);
        match self {
            Queue::Cfs2007 => {
                let factor = u64::from(1 + nr_cpus.ilog2());
                let capped = |ns: u64| (ns * factor).min(200_000_000);
                [capped(20_000_000), capped(4_000_000), 10_000_000 * factor]
            }
            Queue::Cfs2018 | Queue::Fair | Queue::Fair2023 | Queue::Fair2024 | Queue::Fair2025 => {
                let slice_ns = if self == Queue::Fair2025 { 700_000 } else { 750_000 };
                let factor = u64::from(1 + nr_cpus.min(8).ilog2());
                [6_000_000, slice_ns, 1_000_000].map(|ns| ns * factor)
            }
        }
    }
}

impl Tunable {
    fn parse(&self, value: &str) -> Result<u64, Error> {
        // Digits only, because u64's own parser would accept a plus sign.
        let digits = value.bytes().all(|byte| byte.is_ascii_digit());
        let number = value.parse().ok().filter(|_| digits).ok_or_else(|| self.error(value.to_string()))?;
        self.check(number, || value.to_string())?;
        Ok(number)
    }

    fn check(&self, number: u64, value: impl Fn() -> String) -> Result<(), Error> {
        if (self.least..=TUNABLE_MAX_NS).contains(&number) { Ok(()) } else { Err(self.error(value())) }
    }

    fn error(&self, value: String) -> Error {
        Error::BadTunable { tunable: self.name, value, least: self.least, most: TUNABLE_MAX_NS }
    }
}

impl FromStr for PolicySpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<PolicySpec, Error> {
        let mut words = text.split('+');
        let name = words.next().unwrap_or("");
        let mut spec = match ALIASES.iter().find(|alias| alias.name == name) {
            Some(alias) => alias.policy.parse()?,
            None => by_name(name)?,
        };
        let mut given: Vec<&str> = Vec::new();
        for word in words {
            let Some((axis, value)) = word.split_once('=') else {
                return Err(Error::NoValue { text: word.to_string(), choices: all_axes() });
            };
            if given.contains(&axis) {
                return Err(Error::GivenTwice { axis: axis.to_string(), text: text.to_string() });
            }
            given.push(axis);
            spec.set(axis, value, word)?;
        }
        Ok(spec)
    }
}

/// Returns the policy with this name.
fn by_name(name: &str) -> Result<PolicySpec, Error> {
    let named = NAMED.iter().find(|named| named.name == name);
    named.map(|named| named.spec.clone()).ok_or_else(|| {
        let aliases = ALIASES.iter().map(|alias| alias.name);
        Error::UnknownPolicy {
            name: name.to_string(),
            choices: list(NAMED.iter().map(|named| named.name).chain(aliases)),
        }
    })
}

impl fmt::Display for PolicySpec {
    /// Writes the nearest name, then the differences from it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let differs = |named: &&NamedPolicy| {
            self.choices().iter().zip(named.spec.choices()).filter(|(own, its)| **own != *its).count()
        };
        let nearest = NAMED.iter().min_by_key(differs).expect("there are names");
        f.write_str(nearest.name)?;
        for (own, its) in self.choices().into_iter().zip(nearest.spec.choices()) {
            if own != its {
                write!(f, "+{}={}", own.0, own.1)?;
            }
        }
        let mut tunables = self.tunables;
        for tunable in &TUNABLES {
            if let Some(value) = *(tunable.at)(&mut tunables) {
                write!(f, "+{}={value}", tunable.name)?;
            }
        }
        Ok(())
    }
}

fn list(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn all_axes() -> String {
    list(PolicySpec::axes().iter().map(|axis| axis.name).chain(TUNABLES.iter().map(|tunable| tunable.name)))
}
