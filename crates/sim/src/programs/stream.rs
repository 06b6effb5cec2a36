// SPDX-License-Identifier: GPL-2.0-or-later
//! The operation that streams through memory (hardware/stream.rs executes it).

use wakelab_workload::{Home, Op};

use crate::hardware::segment::Stream;
use crate::hardware::stream::BYTE;
use crate::ids::{NONE, UNITS};
use crate::programs::Programs;
use crate::programs::next::{Here, Next};
use crate::programs::task::Stage;
use crate::time_use::TimeKind;

impl Programs<'_> {
    pub(super) fn stream(&mut self, here: Here, op: Op) -> Next {
        let t = &mut self.tasks[here.task as usize];
        let Op::Memory { work_ns, read_bytes, write_bytes, home, llc_percent } = op else {
            return Next::Continue;
        };
        if t.stage != Stage::Begin {
            return self.done(here.task);
        }
        t.stage = Stage::Middle;
        let percent = self.costs.write_traffic_percent;
        let traffic = (read_bytes + (write_bytes * percent).div_ceil(100)) * BYTE;
        let Some(&node) = self.nodes.get(here.cpu as usize).filter(|_| traffic > 0) else {
            return Next::run_ns(TimeKind::Work, work_ns);
        };
        let home = match home {
            Home::Node(node) => node,
            Home::FirstTouch => {
                if t.home == NONE {
                    t.home = node;
                }
                t.home
            }
        };
        let work = work_ns * UNITS;
        Next::Stream(Stream { work, work_left: work, traffic, home, llc_percent })
    }
}
