// SPDX-License-Identifier: GPL-2.0-or-later
//! Expands operations that stay single operations: expressions become numbers, and names become indices.

use super::{Expansion, Result};
use crate::expr::{Expr, Reference};
use crate::limits::{MEMORY_BYTES_MAX, NODES_MAX, SHARES_MIN, TIME_NS_MAX, WEIGHT_MAX};
use crate::program::{Home, Op};
use crate::steps::{HomeTemplate, OpTemplate};

impl Expansion<'_> {
    /// Expands an operation that stays a single operation.
    pub(super) fn op(&self, op: &OpTemplate) -> Result<Op> {
        let work = |expr: &Expr| self.within(expr, 0, TIME_NS_MAX, "work");
        let channel = |reference: &Reference| self.resolve(&self.arrays.channels, reference);
        let signal = |reference: &Reference| self.resolve(&self.arrays.signals, reference);
        let gate = |reference: &Reference| self.resolve(&self.arrays.gates, reference);
        let lock = |reference: &Reference| self.resolve(&self.arrays.locks, reference);
        Ok(match op {
            OpTemplate::Compute { work_ns, spread_percent } => Op::Compute {
                work_ns: work(work_ns)?,
                spread_percent: self.within(spread_percent, 0, 100, "spread-percent")? as u32,
            },
            OpTemplate::Send { channel: to, bytes, work_ns } => Op::Send {
                channel: channel(to)?,
                bytes: self.within(bytes, 1, u64::from(u32::MAX), "bytes")? as u32,
                work_ns: work(work_ns)?,
            },
            OpTemplate::Recv { channel: from, work_ns } => {
                Op::Recv { channel: channel(from)?, work_ns: work(work_ns)? }
            }
            OpTemplate::Poll { channels, work_ns } => {
                let (first, count) = self.whole(&self.arrays.channels, channels)?;
                Op::Poll { first, count, work_ns: work(work_ns)? }
            }
            OpTemplate::Sleep { delay_ns, source } => {
                Op::Sleep { delay_ns: self.within(delay_ns, 0, TIME_NS_MAX, "sleep-ns")?, source: *source }
            }
            OpTemplate::SleepUntil { time_ns, source } => Op::SleepUntil {
                time_ns: self.within(time_ns, 0, TIME_NS_MAX, "sleep-until-ns")?,
                source: *source,
            },
            OpTemplate::Memory { work_ns, read_bytes, write_bytes, home, llc_percent } => Op::Memory {
                work_ns: work(work_ns)?,
                read_bytes: self.within(read_bytes, 0, MEMORY_BYTES_MAX, "read-bytes")?,
                write_bytes: self.within(write_bytes, 0, MEMORY_BYTES_MAX, "write-bytes")?,
                home: match home {
                    HomeTemplate::FirstTouch => Home::FirstTouch,
                    HomeTemplate::Node(node) => {
                        Home::Node(self.within(node, 0, NODES_MAX - 1, "home")? as u32)
                    }
                },
                llc_percent: self.within(llc_percent, 0, 100, "llc-percent")? as u32,
            },
            OpTemplate::Lock { lock: taken } => Op::Lock { lock: lock(taken)? },
            OpTemplate::Unlock { lock: given } => Op::Unlock { lock: lock(given)? },
            OpTemplate::Barrier { barrier } => {
                Op::Barrier { barrier: self.resolve(&self.arrays.barriers, barrier)? }
            }
            OpTemplate::Signal { signal: raised, sync } => {
                Op::Signal { signal: signal(raised)?, sync: self.at(sync.truth(&self.names))? }
            }
            OpTemplate::Wait { signal: awaited } => Op::Wait { signal: signal(awaited)? },
            OpTemplate::OpenGate { gate: opened } => Op::OpenGate { gate: gate(opened)? },
            OpTemplate::WaitGate { gate: awaited } => Op::WaitGate { gate: gate(awaited)? },
            OpTemplate::Count { units } => {
                Op::Count { units: self.within(units, 0, u64::from(u32::MAX), "count")? }
            }
            OpTemplate::SetShares { group, shares } => Op::SetShares {
                group: self.resolve(&self.arrays.groups, group)?,
                shares: self.within(shares, u64::from(SHARES_MIN), u64::from(WEIGHT_MAX), "shares")? as u32,
            },
            OpTemplate::MoveTo { group } => Op::MoveTo {
                group: match group {
                    None => None,
                    Some(group) => Some(self.resolve(&self.arrays.groups, group)?),
                },
            },
            OpTemplate::Plain(op) => *op,
        })
    }
}
