// SPDX-License-Identifier: GPL-2.0-or-later
//! The enumerations of policy.h that answers carry, with names for reports.

/// Declares an enumeration with the values that C counts from 0, in order.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// All of them, in the order of policy.h.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The word used in reports.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }

            /// The one with C's value `raw`.
            ///
            /// # Panics
            /// If policy.h has no such value.
            pub fn from_raw(raw: u32) -> $name {
                Self::ALL[raw as usize]
            }
        }
    };
}

names! {
    /// Why a CPU was chosen: `enum wl_reason`.
    Reason {
        /// No decision was made.
        None = "none",
        /// One CPU allowed: nothing to choose.
        OnlyAllowed = "only-allowed",
        /// Wake-affine's choice was idle.
        TargetIdle = "target-idle",
        /// The previous CPU was idle and shares target's LLC.
        PrevIdle = "prev-idle",
        /// The CPU before the previous one was idle.
        RecentIdle = "recent-idle",
        /// `scan`, step 1; `nearest`: an idle core of another block of CPUs.
        IdleCore = "idle-core",
        /// `scan`, step 2; `nearest`: an idle CPU of another block.
        IdleCpu = "idle-cpu",
        /// `scan`, step 3.
        IdleSibling = "idle-sibling",
        /// `smt-balance`: an idle CPU of a group with more room.
        BalanceMoved = "balance-moved",
        /// `smt-balance`: an idle CPU in target's own group.
        BalanceStayed = "balance-stayed",
        /// The search found no idle CPU: queued on target.
        NoneIdle = "none-idle",
        /// Fork or exec: stayed in the local group.
        ForkLocal = "fork-local",
        /// Fork or exec: the idlest CPU of the idlest group.
        ForkIdlest = "fork-idlest",
        /// Unequal capacities: an idle CPU that the task fits.
        Fits = "fits",
        /// Unequal capacities: it fits no idle CPU, the biggest one.
        Biggest = "biggest",
        /// `nearest`: an idle core of target's block.
        NearCore = "near-core",
        /// `nearest`: an idle CPU of target's block.
        NearCpu = "near-cpu",
        /// `nearest`: an idle CPU of another LLC.
        FarCpu = "far-cpu",
    }
}

names! {
    /// Why wake-affine chose its target: `enum wl_affine_reason`.
    AffineReason {
        /// The wake-up happens on the previous CPU.
        SameCpu = "same-cpu",
        /// `affine=off`.
        Disabled = "disabled",
        /// The wakee may not run on this CPU.
        NotAllowed = "not-allowed",
        /// No domain with wake-affine spans both.
        NoDomain = "no-domain",
        /// Pulled: this CPU is idle.
        ThisIdle = "this-idle",
        /// Pulled: sync, and the waker runs alone.
        SyncAlone = "sync-alone",
        /// Pulled: nothing else on this CPU.
        ZeroLoad = "zero-load",
        /// Pulled: this CPU is loaded less.
        Load = "load",
        /// Pulled: both together are below this CPU's mean load per task.
        MeanLoad = "mean-load",
        /// Not pulled.
        Prev = "prev",
        /// Fork, exec, or nothing to choose.
        NotAsked = "not-asked",
        /// Not pulled: one of the two wakes many.
        TooWide = "too-wide",
        /// Not pulled: the previous CPU is idle.
        PrevIdle = "prev-idle",
    }
}

names! {
    /// Why a task joins a queue: `enum wl_enqueue_why`.
    EnqueueWhy {
        /// It was woken.
        Wakeup = "wakeup",
        /// It is new.
        Fork = "fork",
        /// It ran its slice, or was preempted: still runnable.
        SliceEnd = "slice-end",
        /// Its queue changed: affinity, hotplug, a policy just attached.
        Moved = "moved",
    }
}

names! {
    /// What a CPU should do next: `enum wl_dispatch_do`.
    DispatchDo {
        /// Run the head of the own queue; if it is empty, keep the previous task or idle.
        Own = "own",
        /// Move tasks from another CPU's queue, then ask again.
        Pull = "pull",
        /// The own queue is empty and nothing is worth pulling.
        Nothing = "nothing",
    }
}

names! {
    /// How the host chooses from a queue: `enum wl_pick`.
    Pick {
        /// The first task that may run there.
        Head = "head",
        /// The first of which [`crate::Policy::may_run`] says yes.
        Eligible = "eligible",
        /// The last of which it says yes, all being asked.
        Last = "last",
    }
}

names! {
    /// Why balancing was tried: `enum wl_balance_why`.
    BalanceWhy {
        /// It was not.
        None = "none",
        /// The CPU was about to go idle.
        NewlyIdle = "newly-idle",
        /// A level's interval had passed, or the CPU was kicked.
        Periodic = "periodic",
    }
}
