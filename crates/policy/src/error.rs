// SPDX-License-Identifier: GPL-2.0-or-later
//! Errors in a policy's name, or in the machine for which it is built.

use thiserror::Error as ThisError;

/// Why a policy could not be made.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum Error {
    /// The first word names no policy.
    #[error(
        "unknown policy `{name}`; expected one of: {choices}, and overrides as in `linux-4.15+idle=smt-balance`"
    )]
    UnknownPolicy {
        /// What was given.
        name: String,
        /// What is possible.
        choices: String,
    },
    /// More task groups than the policy has slots for.
    #[error("{nr_groups} slots of task groups, the root's included; at most {max_groups} are possible")]
    GroupCount {
        /// What was asked for.
        nr_groups: usize,
        /// What is possible.
        max_groups: usize,
    },
    /// An override names neither an axis nor a tunable.
    #[error("unknown axis `{axis}` in `{text}`; expected one of: {choices}")]
    UnknownAxis {
        /// What was given.
        axis: String,
        /// The whole override.
        text: String,
        /// What is possible.
        choices: String,
    },
    /// An axis has no such value.
    #[error("axis `{axis}` has no value `{value}`; expected one of: {choices}")]
    UnknownValue {
        /// The axis.
        axis: &'static str,
        /// What was given.
        value: String,
        /// What is possible.
        choices: String,
    },
    /// An override without `=`.
    #[error("`{text}` is not an override; expected AXIS=VALUE with an axis of: {choices}")]
    NoValue {
        /// What was given.
        text: String,
        /// The axes.
        choices: String,
    },
    /// The same axis or tunable twice in one policy.
    #[error("`{axis}` is given twice in `{text}`; expected it once")]
    GivenTwice {
        /// The axis or tunable.
        axis: String,
        /// The whole policy.
        text: String,
    },
    /// A tunable's value is not a number, or is outside its range.
    #[error("tunable `{tunable}` cannot be `{value}`; expected nanoseconds from {least} to {most}")]
    BadTunable {
        /// The tunable.
        tunable: &'static str,
        /// What was given.
        value: String,
        /// The least that is possible.
        least: u64,
        /// The most that is possible.
        most: u64,
    },
    /// `idle=nearest` on an LLC that does not fit its words.
    #[error(
        "idle=nearest cannot be used here: an LLC does not fit 64 words of 64 bits; expected at most 4096 CPUs per LLC, at most 2048 if the number of threads per core is not a power of two"
    )]
    NoBlocks,
    /// The tick's period is outside its range.
    #[error("a tick of {tick_ns} ns is impossible; expected 1 to 1000000000")]
    BadTick {
        /// What was given.
        tick_ns: u64,
    },
    /// The machine is too large for the host.
    #[error("the machine has {nr_cpus} CPUs; expected 1 to {max_cpus}")]
    CpuCount {
        /// CPUs that the machine has.
        nr_cpus: usize,
        /// CPUs that the host has room for.
        max_cpus: usize,
    },
    /// The machine's shape is impossible.
    #[error("impossible topology: {0}")]
    Topology(String),
}
