// SPDX-License-Identifier: GPL-2.0-or-later
//! Properties of a policy that concern its host: `struct wl_traits`, which policy/traits.h fills and explains.
#![allow(unsafe_code)]

use crate::ffi;
use crate::{Params, PolicySpec, Traits};

impl Params {
    /// Returns the traits of a policy with these parameters. `inner` is the kind of the innermost level inside the LLC,
    /// above single CPUs, or [`wakelab_machine::Distance::Cpu`] if there is none; only `times_scans` depends on it.
    pub(crate) fn traits_on(&self, inner: wakelab_machine::Distance) -> Traits {
        let mut out = Traits::default();
        // SAFETY: live objects.
        unsafe { ffi::wl_native_traits(self, inner as u32, &mut out) };
        out
    }

    /// Returns the traits that do not depend on the machine: all but `times_scans` ([`crate::Tables::times_scans`]).
    pub fn traits(&self) -> Traits {
        self.traits_on(wakelab_machine::Distance::Cpu)
    }
}

impl PolicySpec {
    /// Returns the traits, on a host without task groups, that do not depend on the machine: all but `times_scans`
    /// ([`crate::Tables::times_scans`]).
    pub fn traits(&self) -> Traits {
        self.axes_as_params().traits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example_of_traits_h() {
        let traits = "wakelab".parse::<PolicySpec>().unwrap().traits();
        assert_eq!((traits.claims, traits.keeps_blocks, traits.reads_waker, traits.straight), (1, 1, 1, 1));
        assert_eq!((traits.times_scans, traits.keeps_counters, traits.enqueue_stops), (0, 0, 1));
    }

    #[test]
    fn linux_since_5_5_reads_three_lines_of_a_cpu() {
        let lines = |text: &str| text.parse::<PolicySpec>().unwrap().traits().lines_of_cpu;
        for old in ["linux-2.6.24", "linux-4.15", "linux-5.2", "linux-4.15+balance=load"] {
            assert_eq!(lines(old), 1, "{old}");
        }
        for new in
            ["linux-5.12", "linux-5.2+balance=5.12", "linux-6.12", "linux-6.12+balance=load", "wakelab"]
        {
            assert_eq!(lines(new), 3, "{new}");
        }
    }

    #[test]
    fn groups_that_decide_leave_the_queue_no_say() {
        let traits = |text: &str, nr_groups| {
            let axes = text.parse::<PolicySpec>().unwrap().axes_as_params();
            let traits = Params { nr_groups, ..axes }.traits();
            (traits.straight, traits.enqueue_stops)
        };
        assert_eq!(traits("linux-4.15", 2), (0, 0));
        assert_eq!(traits("linux-6.12", 2), (1, 1));
        assert_eq!(traits("linux-6.12+groups=exact", 2), (0, 0));
        assert_eq!(traits("linux-6.12+groups=exact", 0), (1, 1), "a host without groups");
    }
}
