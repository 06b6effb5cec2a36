// SPDX-License-Identifier: GPL-2.0-or-later
//! A short measurement of the machine that the test runs on. Only its structure is looked at, no time.

use std::cell::Cell;
use std::time::Duration;

use wakelab_machine::{Distance, Machine};
use wakelab_measure::{Progress, machine_file, measure};

#[derive(Default)]
struct Counted {
    steps: Cell<usize>,
    done: Cell<usize>,
    ends: Cell<usize>,
}

impl Progress for Counted {
    fn begin(&self, steps: usize) {
        self.steps.set(steps);
    }

    fn step_done(&self) {
        self.done.set(self.done.get() + 1);
    }

    fn end(&self) {
        self.ends.set(self.ends.get() + 1);
    }
}

#[test]
fn this_machine_becomes_a_file_that_is_read_back() {
    let host = Machine::preset("host").unwrap();
    let progress = Counted::default();
    let figures = measure(&host, Duration::from_millis(50), &progress).unwrap();
    assert!(progress.steps.get() > 6 && progress.done.get() == progress.steps.get());
    assert_eq!(progress.ends.get(), 1);
    let of = |quantity: &str| figures.rows.iter().find(|row| row.quantity == quantity);
    for quantity in ["atomic_ps", "futex_ns", "pipe_handover_ns.cpu", "bandwidth_mb_per_s.core"] {
        let spread = of(quantity).unwrap_or_else(|| panic!("{quantity}: {figures:?}")).spread;
        assert!(spread.low <= spread.median && spread.median <= spread.high, "{quantity}: {spread:?}");
        assert!(spread.samples > 0 && spread.median > 0, "{quantity}: {spread:?}");
    }
    let several = host.topology.distances_present().iter().any(|distance| *distance != Distance::Cpu);
    let lines = figures.rows.iter().any(|row| row.quantity.starts_with("line_transfer_ps."));
    let alone = figures.missing.iter().any(|line| line.starts_with("one CPU can be used"));
    assert!(lines || alone || !several, "{figures:?}");
    let text = machine_file(&host, "host", "this machine", &figures);
    let machine = Machine::from_toml(&text, "here.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(machine.topology, host.topology);
    assert_eq!(machine.costs.futex_ns, of("futex_ns").unwrap().spread.median);
    assert!(machine.sources["futex_ns"].starts_with("measured"));
    assert!(machine.sources["fork_ns"].starts_with("estimate: as on host"));
}
