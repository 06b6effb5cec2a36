// SPDX-License-Identifier: GPL-2.0-or-later
//! The scheduling policy core of `policy/`, built natively, behind a safe API.
//!
//! A [`PolicySpec`] names a policy. [`Tables`] are a machine's domain levels as that policy sees them. A [`Policy`] is
//! one instance of the C state: hosts tell it what happens, and ask it where tasks go. There may be any number of
//! instances. `policy/policy.h` says what each call means, `docs/design/contract.md` what policy and host promise each
//! other.
//!
//! ```
//! use wakelab_policy::{EnqueueWhy, Policy, PolicySpec, Reason, SelectIn, Task};
//! # use wakelab_machine::{Cpu, Topology};
//! # let cpu = |core| Cpu { core, cluster: None, llc: 0, node: 0, capacity: 1024 };
//! # let topology = Topology { cpus: vec![cpu(0), cpu(1)], node_distance: vec![vec![10]] };
//! let spec: PolicySpec = "linux-4.15+idle=smt-balance".parse()?;
//! let mut policy = Policy::new(&spec, &topology, 1_000_000)?;
//! let mut task = Task::default();
//! policy.task_init(&mut task, 1, 1024, 0);
//! policy.set_idle_mask(1, true);
//! let decision = policy.select(&SelectIn { this_cpu: 1, prev_cpu: 1, ..SelectIn::default() }, &mut task, None);
//! assert_eq!((decision.cpu, decision.reason(), decision.claimed), (1, Reason::TargetIdle, 1));
//! let queued = policy.enqueue(&mut task, 1, EnqueueWhy::Wakeup, 0);
//! assert_eq!(queued.cpu, 1);
//! # Ok::<(), wakelab_policy::Error>(())
//! ```

mod aliases;
mod answers;
mod blocks;
mod cover;
mod error;
mod events;
mod ffi;
mod fields;
mod mirror;
mod named;
mod policy;
mod spec;
mod tables;
mod traits;

pub use aliases::Alias;
pub use answers::HWEIGHT_ONE;
pub use blocks::Blocks;
pub use cover::Cover;
pub use error::Error;
pub use events::{Answer, Call, Misfit, Need};
pub use fields::{Field, Leaf, Of, leaves, name_at};
pub use mirror::*;
pub use named::NamedPolicy;
pub use policy::Policy;
pub use spec::{Axis, AxisValue, Tunables};
pub use tables::{Level, Tables};
