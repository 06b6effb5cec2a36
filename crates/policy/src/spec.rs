// SPDX-License-Identifier: GPL-2.0-or-later
//! Policies by name: one choice on each axis, and tunables.
//!
//! Text is a named policy and any number of overrides, `linux-4.15+idle=smt-balance+latency-ns=6000000`. As data a
//! policy is its axes, so that a stored scenario means the same when a name's meaning is refined.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::named::{NAMED, NamedPolicy};
use crate::{Error, MAX_GROUPS, Params};

/// One value of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisValue {
    /// The word in `AXIS=VALUE`.
    pub name: &'static str,
    /// One line for people.
    pub description: &'static str,
}

/// One axis of a policy, for listing what is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The word in `AXIS=VALUE`.
    pub name: &'static str,
    /// One line for people.
    pub description: &'static str,
    /// What may be chosen.
    pub values: &'static [AxisValue],
}

/// Declares the enumeration of an axis. Its values are those of policy.h, counted from 0 in order.
macro_rules! axis {
    ($name:ident, $axis:literal, $description:literal, { $($variant:ident = $text:literal, $about:literal;)* }) => {
        #[doc = $description]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name {
            $(#[doc = $about] #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            const AXIS: Axis = Axis {
                name: $axis,
                description: $description,
                values: &[$(AxisValue { name: $text, description: $about },)*],
            };
            const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The word in `AXIS=VALUE`.
            pub fn name(self) -> &'static str {
                Self::AXIS.values[self as usize].name
            }

            fn parse(value: &str) -> Result<$name, Error> {
                Self::ALL.iter().copied().find(|choice| choice.name() == value).ok_or_else(|| Error::UnknownValue {
                    axis: $axis,
                    value: value.to_string(),
                    choices: list(Self::AXIS.values.iter().map(|value| value.name)),
                })
            }
        }
    };
}

axis!(Idle, "idle", "How an idle CPU is searched for a waking task.", {
    Scan = "scan", "Scan the LLC: an idle core, then an idle CPU within a limit, then an idle sibling.";
    SmtBalance = "smt-balance", "Descend by counters of busy CPUs, one random comparison a level.";
    Narrow = "narrow", "`scan`, form 5.2, whose idle-CPU step leaves out what the idle-core step found busy.";
    Nearest = "nearest", "Exact, by words of idle CPUs: an idle core, then an idle CPU, each near target first; another LLC if the wait is worth it.";
});
axis!(ScanForm, "form", "Which kernel's form of `scan`.", {
    Linux2_6_24 = "2.6.24", "No scan: the first idle CPU of the core, then of the LLC, unless tasks wait on the target already.";
    Linux3_10 = "3.10", "The first wholly idle group, from the LLC's cores down to the core's threads, without limits.";
    Linux4_15 = "4.15", "No recent CPU; the limit of the idle-CPU step follows average idle and scan times.";
    Linux5_2 = "5.2", "As 4.15, and the CPU that the task used before the previous one is looked at first.";
    Merged = "merged", "Linux 5.12: one walk for an idle core and an idle CPU, limited by times.";
    Util = "util", "Linux 6.12: the same walk, limited by the LLC's utilization (SIS_UTIL).";
});
axis!(Rotor, "rotor", "Where `smt-balance` takes its random numbers from.", {
    Published = "published", "One counter a CPU, as published; its even stride misses half of an even number of cores.";
    Mixed = "mixed", "The same counter, mixed.";
});
axis!(Affine, "affine", "Whether a wakee may be pulled to its waker's CPU.", {
    Off = "off", "Never: the search starts at the previous CPU.";
    Always = "always", "Whenever loads allow it.";
    Flips = "flips", "As `always`, but not by a waker of many, if the wakee wakes many too.";
    Wide = "wide", "Today's rules: not if one of the two wakes many; idle CPUs first, then loads.";
});
axis!(AffineForm, "affine-form", "Which kernel's form of `affine=always`.", {
    Linux3_10 = "3.10", "The load rules.";
    Linux4_15 = "4.15", "The load rules, and pull to an idle CPU or to a sync waker that runs alone.";
});
axis!(Factor, "factor", "How many flips are many, with `affine=flips`.", {
    Node = "node", "As many as the NUMA node has CPUs.";
    Llc = "llc", "As many as share the LLC.";
    Machine = "machine", "As many as the machine has.";
});
axis!(Cluster, "cluster", "Whether clusters of cores are a level of their own.", {
    Off = "off", "No: inside an LLC cores are compared directly.";
    Spread = "spread", "Yes: tasks spread over clusters first, by balancing, fork and exec (Linux 5.16).";
    SpreadAndPack = "spread-and-pack", "As spread, and wake-ups look into the target's cluster first (Linux 6.7).";
});
axis!(Groups, "groups", "How task groups weigh on CPUs.", {
    TaskWeight = "task-weight", "Linux 2.6.24: their shares on each CPU; balancing by task weights, within a limit a group.";
    Shares = "shares", "On each CPU what part of their load is there, computed at intervals; balancing by group weights.";
    Exact = "exact", "Ours: whoever's group has received least for its shares runs; the axis queue has no say.";
});
axis!(Queue, "queue", "Order of a CPU's queue, slices, wake-up preemption and sleeper credit.", {
    Cfs2007 = "cfs-2007", "Linux 2.6.24: sleepers get twice the credit, and waking tasks preempt seldom.";
    Cfs2013 = "cfs-2013", "Linux around 3.10: as cfs-2018, and a task whose wake-up preempts runs next (buddies).";
    Cfs2018 = "cfs-2018", "Linux's fair scheduler around 4.15, with weighted virtual time.";
    Fair = "fair", "Linux 6.12: eligible tasks by virtual deadline (EEVDF).";
});
axis!(Capacity, "capacity", "Whether CPUs of unequal speed are told apart.", {
    Ignored = "ignored", "No: all CPUs count alike.";
    Aware = "aware", "Wake-ups look for a CPU that the task fits; balancing compares load per capacity.";
});

axis!(Push, "push", "Whether a task that runs may be moved (active balancing).", {
    Off = "off", "No: balancing moves queued tasks only.";
    On = "on", "After failed tries: from a core that is shared to an idle one, or to a CPU that it fits.";
});

/// Overrides of tunables; `None` is the kernel's default for the machine's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Tunables {
    /// One turn of all runnable tasks of a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<u64>,
    /// The least slice when many tasks share a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_granularity_ns: Option<u64>,
    /// How far behind a waking task must be to preempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wakeup_granularity_ns: Option<u64>,
    /// A CPU whose idle periods are shorter on average does not pull; a task that ran later than that ago is hot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration_cost_ns: Option<u64>,
    /// `groups=shares`: from computing weights to computing them again, if any changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares_min_ns: Option<u64>,
    /// The same at most, if none changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares_max_ns: Option<u64>,
}

/// A tunable: its name, what it is, its least value, and how to reach it.
struct Tunable {
    name: &'static str,
    description: &'static str,
    least: u64,
    at: fn(&mut Tunables) -> &mut Option<u64>,
}

/// A second: the kernel's own limit for these sysctls, and far from where any product in run_queue.h overflows.
const TUNABLE_MAX_NS: u64 = 1_000_000_000;

const TUNABLES: [Tunable; 6] = [
    Tunable {
        name: "latency-ns",
        description: "One turn of all runnable tasks of a CPU; 6 ms (cfs-2007: 20), scaled by the machine's size.",
        least: 1,
        at: |tunables| &mut tunables.latency_ns,
    },
    Tunable {
        name: "min-granularity-ns",
        description: "The least slice when many tasks share a CPU; with queue=fair, every slice; 0.75 ms (cfs-2007: 4), scaled by the machine's size.",
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
        description: "CPUs that idle for less do not pull, tasks that ran so lately stay; 0.5 ms.",
        least: 0,
        at: |tunables| &mut tunables.migration_cost_ns,
    },
    Tunable {
        name: "shares-min-ns",
        description: "With groups=shares, from computing weights to the next time if any changed; 8 ms.",
        least: 100_000,
        at: |tunables| &mut tunables.shares_min_ns,
    },
    Tunable {
        name: "shares-max-ns",
        description: "With groups=shares, the same at most while none changes; 128 ms.",
        least: 100_000,
        at: |tunables| &mut tunables.shares_max_ns,
    },
];

/// A policy: one choice on each axis, and its tunables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PolicySpec {
    /// The idle search.
    pub idle: Idle,
    /// Its form, if it is `scan`.
    pub form: ScanForm,
    /// Its random numbers, if it is `smt-balance`.
    pub rotor: Rotor,
    /// Wake-affine.
    pub affine: Affine,
    /// Its form, if it is `always`.
    pub affine_form: AffineForm,
    /// How many flips are many, if it is `flips`.
    pub factor: Factor,
    /// The cluster level.
    pub cluster: Cluster,
    /// Task groups.
    pub groups: Groups,
    /// The run queue.
    pub queue: Queue,
    /// Unequal capacities.
    pub capacity: Capacity,
    /// Active balancing.
    pub push: Push,
    /// Overrides of the kernel's defaults.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tunables: Tunables,
}

impl PolicySpec {
    /// All policies with a name.
    pub fn named() -> &'static [NamedPolicy] {
        &NAMED
    }

    /// What may follow the name as `AXIS=VALUE`.
    pub fn axes() -> &'static [Axis] {
        const AXES: [Axis; 11] = [
            Idle::AXIS,
            ScanForm::AXIS,
            Rotor::AXIS,
            Affine::AXIS,
            AffineForm::AXIS,
            Factor::AXIS,
            Cluster::AXIS,
            Groups::AXIS,
            Queue::AXIS,
            Capacity::AXIS,
            Push::AXIS,
        ];
        &AXES
    }

    /// What may follow the name as `TUNABLE=NANOSECONDS`: names and descriptions.
    pub fn tunables() -> impl Iterator<Item = (&'static str, &'static str)> {
        TUNABLES.iter().map(|tunable| (tunable.name, tunable.description))
    }

    /// As [`PolicySpec::params`], for a host with records of task groups in slots below `nr_groups`.
    ///
    /// # Errors
    /// Also if `nr_groups` exceeds [`MAX_GROUPS`].
    pub fn params_with_groups(
        &self,
        nr_cpus: usize,
        tick_ns: u64,
        nr_groups: usize,
    ) -> Result<Params, Error> {
        if nr_groups > MAX_GROUPS {
            return Err(Error::GroupCount { nr_groups, max_groups: MAX_GROUPS });
        }
        Ok(Params { nr_groups: nr_groups as u32, ..self.params(nr_cpus, tick_ns)? })
    }

    /// The struct that the C code wants, for a machine of so many CPUs under a host with this tick.
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
            tick_ns,
            ..self.axes_as_params()
        })
    }

    /// The same struct with the axes alone; all else is 0.
    pub(crate) fn axes_as_params(&self) -> Params {
        Params {
            idle: self.idle as u32,
            scan_form: self.form as u32,
            rotor: self.rotor as u32,
            affine: self.affine as u32,
            affine_form: self.affine_form as u32,
            factor: self.factor as u32,
            cluster: self.cluster as u32,
            groups: self.groups as u32,
            queue: self.queue as u32,
            capacity: self.capacity as u32,
            push: self.push as u32,
            ..Params::default()
        }
    }

    /// Each axis with the chosen value, in the order of [`PolicySpec::axes`].
    pub(crate) fn choices(&self) -> [(&'static str, &'static str); 11] {
        [
            (Idle::AXIS.name, self.idle.name()),
            (ScanForm::AXIS.name, self.form.name()),
            (Rotor::AXIS.name, self.rotor.name()),
            (Affine::AXIS.name, self.affine.name()),
            (AffineForm::AXIS.name, self.affine_form.name()),
            (Factor::AXIS.name, self.factor.name()),
            (Cluster::AXIS.name, self.cluster.name()),
            (Groups::AXIS.name, self.groups.name()),
            (Queue::AXIS.name, self.queue.name()),
            (Capacity::AXIS.name, self.capacity.name()),
            (Push::AXIS.name, self.push.name()),
        ]
    }

    /// The same policy with another choice on an axis, or another tunable.
    ///
    /// # Errors
    /// If there is no such axis or tunable, or not with this value.
    pub fn with(mut self, axis: &str, value: &str) -> Result<PolicySpec, Error> {
        self.set(axis, value, &format!("{axis}={value}"))?;
        Ok(self)
    }

    fn set(&mut self, axis: &str, value: &str, text: &str) -> Result<(), Error> {
        match axis {
            "idle" => self.idle = Idle::parse(value)?,
            "form" => self.form = ScanForm::parse(value)?,
            "rotor" => self.rotor = Rotor::parse(value)?,
            "affine" => self.affine = Affine::parse(value)?,
            "affine-form" => self.affine_form = AffineForm::parse(value)?,
            "factor" => self.factor = Factor::parse(value)?,
            "cluster" => self.cluster = Cluster::parse(value)?,
            "groups" => self.groups = Groups::parse(value)?,
            "queue" => self.queue = Queue::parse(value)?,
            "capacity" => self.capacity = Capacity::parse(value)?,
            "push" => self.push = Push::parse(value)?,
            _ => {
                let Some(tunable) = TUNABLES.iter().find(|tunable| tunable.name == axis) else {
                    return Err(Error::UnknownAxis {
                        axis: axis.to_string(),
                        text: text.to_string(),
                        choices: all_axes(),
                    });
                };
                *(tunable.at)(&mut self.tunables) = Some(tunable.parse(value)?);
            }
        }
        Ok(())
    }
}

impl Queue {
    /// The kernel's defaults of latency, min_granularity and wakeup_granularity on so many CPUs.
    ///
    /// kernel/sched/fair.c of 3.10 to 6.5: get_update_sysctl_factor() with SCHED_TUNABLESCALING_LOG.
    /// kernel/sched_fair.c and sched_init_granularity() of 2.6.24. migration_cost is the one that no kernel scales.
    fn defaults_ns(self, nr_cpus: usize) -> [u64; 3] {
        let nr_cpus = nr_cpus.max(1);
        match self {
            Queue::Cfs2007 => {
                let factor = u64::from(1 + nr_cpus.ilog2());
                let capped = |ns: u64| (ns * factor).min(200_000_000);
                [capped(20_000_000), capped(4_000_000), 10_000_000 * factor]
            }
            Queue::Cfs2013 | Queue::Cfs2018 | Queue::Fair => {
                let factor = u64::from(1 + nr_cpus.min(8).ilog2());
                [6_000_000, 750_000, 1_000_000].map(|ns| ns * factor)
            }
        }
    }
}

impl Tunable {
    fn parse(&self, value: &str) -> Result<u64, Error> {
        // Digits only: u64's own parser would take a plus sign.
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
        let Some(named) = NAMED.iter().find(|named| named.name == name) else {
            return Err(Error::UnknownPolicy {
                name: name.to_string(),
                choices: list(NAMED.iter().map(|named| named.name)),
            });
        };
        let mut spec = named.spec.clone();
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

impl fmt::Display for PolicySpec {
    /// The nearest name, then what differs from it.
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

fn is_default(tunables: &Tunables) -> bool {
    *tunables == Tunables::default()
}
