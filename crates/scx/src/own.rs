// SPDX-License-Identifier: GPL-2.0-only
//! The loader of the BPF side for the policy `wakelab` alone, without cgroups: the same code as in plain.rs, for its
//! skeleton.

#[path = "groups.rs"]
mod groups;
#[path = "no_log.rs"]
mod log;
#[path = "scheduler.rs"]
pub(crate) mod scheduler;
#[path = "stats.rs"]
mod stats;

use crate::own_skel::{OpenOwnSkel as OpenSkel, OwnSkel as Skel, OwnSkelBuilder as SkelBuilder, types};

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use libbpf_rs::skel::SkelBuilder as _;

    use super::SkelBuilder;
    use crate::own_groups_skel::OwnGroupsSkelBuilder;

    /// The axes of parameters, Rust's or C's: all but `cluster`, which the machine decides about.
    macro_rules! axes {
        ($params:expr) => {{
            let p = $params;
            [
                p.idle,
                p.scan_form,
                p.rotor,
                p.affine,
                p.affine_form,
                p.factor,
                p.affine_loads,
                p.groups,
                p.queue,
                p.parity,
                p.capacity,
                p.balance,
                p.push,
                p.fork,
            ]
        }};
    }

    #[test]
    fn the_axes_are_those_of_wakelab() {
        let known = axes!(crate::own_policy().params(8, 4_000_000).unwrap());
        let (mut object, mut other) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        let own = SkelBuilder::default().open(&mut object).unwrap();
        let own = own.maps.rodata_data.as_deref().unwrap().axis_params;
        let groups = OwnGroupsSkelBuilder::default().open(&mut other).unwrap();
        let groups = groups.maps.rodata_data.as_deref().unwrap().axis_params;
        assert_eq!((axes!(own), axes!(groups)), (known, known));
        assert_eq!((own.nr_groups, groups.nr_groups), (0, 1));
    }
}
