// SPDX-License-Identifier: GPL-2.0-or-later
//! Kernels that people run, each with the nearest policy that we have and how that kernel differs from it.
//!
//! The differences concern what a policy models: the idle search, wake-affine, the queue, and how CPUs are compared.
//! They come in addition to the approximations of the policy that an alias begins with.

/// A kernel by its version, and the policy that comes nearest to it.
#[derive(Clone, Copy, Debug)]
pub struct Alias {
    /// The first word of a policy.
    pub name: &'static str,
    /// One line: the release, the distribution that ships it, and the policy that it stands for.
    pub description: &'static str,
    /// The policy that it stands for.
    pub policy: &'static str,
    /// How that kernel differs from this policy, one sentence for each difference.
    pub differences: &'static [&'static str],
}

/// Returns the newest of `names` that stands for a kernel not newer than `release`, such as 6.8.0-45-generic; the
/// oldest if all are newer. `None` if `release` begins with no version.
pub(crate) fn newest_until<'a>(names: impl Iterator<Item = &'a str>, release: &str) -> Option<&'a str> {
    let wanted = version(release)?;
    let known = names.filter_map(|name| Some((version(name.strip_prefix("linux-")?)?, name)));
    let mut known: Vec<(Vec<u32>, &str)> = known.collect();
    known.sort();
    let newest = known.iter().rev().find(|(version, _)| *version <= wanted);
    newest.or_else(|| known.first()).map(|(_, name)| *name)
}

/// The numbers that a release begins with: 6, 8 and 0 of 6.8.0-45-generic.
fn version(release: &str) -> Option<Vec<u32>> {
    let end = release.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(release.len());
    release[..end].split('.').map(|number| number.parse().ok()).collect()
}

/// All aliases, oldest kernel first.
pub(crate) static ALIASES: [Alias; 8] = [
    Alias {
        name: "linux-5.4",
        description: "Linux 5.4 (November 2019; Ubuntu 20.04): linux-5.2",
        policy: "linux-5.2",
        differences: &[
            "The search, wake_wide and CFS are those of 5.2.",
            "5.4 lets wake-ups and forks cross the sockets of AMD's EPYC, which are 32 apart; this policy does so up to 30.",
            "With unequal capacities, 5.4 checks whether the wakee fits this CPU and the previous one (wake_cap); this policy takes all CPUs as equal.",
        ],
    },
    Alias {
        name: "linux-5.10",
        description: "Linux 5.10 (December 2020; Debian 11): linux-5.2 with capacities, 5.12's balancing and load averages",
        policy: "linux-5.2+affine-loads=average+capacity=aware+balance=5.12",
        differences: &[
            "The idle search still has separate steps for a core, a CPU and a sibling; 5.12 merged them.",
            "Since 5.6, a kernel thread bound to a CPU may put its wakee on its own CPU; here it may not.",
            "Since 5.7, tasks look for a CPU of sufficient capacity (select_idle_capacity), as here.",
        ],
    },
    Alias {
        name: "linux-5.14",
        description: "Linux 5.14 (August 2021): linux-5.12, whose limit of a search is aged",
        policy: "linux-5.12+form=aged",
        differences: &[
            "The walk starts at target; here behind it, as since 5.15.",
            "Core scheduling (5.14) is absent.",
            "RHEL 9's kernel has this version number, but many changes of later schedulers: it is not this policy.",
        ],
    },
    Alias {
        name: "linux-5.15",
        description: "Linux 5.15 (October 2021; Ubuntu 22.04): linux-5.12, whose limit of a search is aged",
        policy: "linux-5.12+form=aged",
        differences: &[
            "Idle cgroups (cpu.idle, 5.15) are absent.",
            "The cluster level came one release later, in 5.16.",
        ],
    },
    Alias {
        name: "linux-6.1",
        description: "Linux 6.1 (December 2022; Debian 12): linux-5.12, search limited by utilization, clusters, 6.12's balancing",
        policy: "linux-5.12+form=util+cluster=spread+balance=6.12",
        differences: &[
            "The search is limited by the LLC's utilization since 6.0 (SIS_UTIL), and spreads over clusters since 5.16.",
            "The queue is CFS: EEVDF came in 6.6.",
        ],
    },
    Alias {
        name: "linux-6.6",
        description: "Linux 6.6 (October 2023): linux-6.12 with 6.6's queue, without packing into clusters",
        policy: "linux-6.12+groups=queues+cluster=spread+queue=fair-2023",
        differences: &[
            "The first release with EEVDF. A task that sleeps leaves its queue at once: delayed dequeue came in 6.12.",
            "The queue is fair-2023, so what is said below of wakees and of tasks that are picked again is not true of it.",
            "Wake-ups look into target's cluster first only since 6.7.",
            "A task cannot ask for a slice: that came in 6.12.",
        ],
    },
    Alias {
        name: "linux-6.8",
        description: "Linux 6.8 (March 2024; Ubuntu 24.04): linux-6.12 with 6.6's queue",
        policy: "linux-6.12+groups=queues+queue=fair-2023",
        differences: &[
            "A task that sleeps leaves its queue at once: delayed dequeue came in 6.12.",
            "The queue is fair-2023, so what is said below of wakees and of tasks that are picked again is not true of it.",
            "A task cannot ask for a slice: that came in 6.12.",
        ],
    },
    Alias {
        name: "linux-6.17",
        description: "Linux 6.17 (September 2025): linux-6.12 with the queue of 6.17",
        policy: "linux-6.12+groups=queues+queue=fair-2025",
        differences: &[
            "The queue is fair-2025, so what is said below of sleepers, wakees and tasks that are picked again is not true of it.",
            "A task that yields forfeits the rest of its slice, as since 6.18; in 6.17 its deadline moves by a slice.",
            "Placing and balancing are those of linux-6.12: what changed there since is not modelled.",
        ],
    },
];

#[cfg(test)]
mod tests {
    use crate::PolicySpec;

    #[test]
    fn a_kernel_has_the_newest_policy_that_is_not_newer() {
        for (release, name) in [
            ("6.18.44-fc-v657", "linux-6.17"),
            ("6.16.3", "linux-6.12"),
            ("6.12", "linux-6.12"),
            ("6.12-rc1", "linux-6.12"),
            ("6.8.0-45-generic", "linux-6.8"),
            ("6.7.1", "linux-6.6"),
            ("5.3.18", "linux-5.2"),
            ("4.18.0-553.el8_10.x86_64", "linux-4.15"),
            ("2.6.32-754.el6", "linux-2.6.24"),
            ("2.4.37", "linux-2.6.24"),
        ] {
            assert_eq!(PolicySpec::of_kernel(release), Some(name), "{release}");
        }
        assert_eq!((PolicySpec::of_kernel(""), PolicySpec::of_kernel("next-20261101")), (None, None));
    }
}
