// SPDX-License-Identifier: GPL-2.0-or-later
//! For tests: writes a small trace-cmd file of version 6. Two CPUs, two tasks; interrupts, lost events, a long time
//! between two events, and a name that is cut inside a character.

use crate::raw::written::{layouts, record};

const PAGE_BYTES: usize = 4096;

/// Which bytes come first in a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

/// A file, and the numbers in it.
struct Out {
    bytes: Vec<u8>,
    order: Order,
}

impl Out {
    fn number(&mut self, number: u64, bytes: usize) {
        match self.order {
            Order::Little => self.bytes.extend(&number.to_le_bytes()[..bytes]),
            Order::Big => self.bytes.extend(&number.to_be_bytes()[8 - bytes..]),
        }
    }

    fn text(&mut self, text: &str) {
        self.bytes.extend(text.as_bytes());
    }

    fn sized(&mut self, text: &str) {
        self.number(text.len() as u64, 8);
        self.text(text);
    }
}

/// A page of the ring buffer.
struct Page {
    out: Out,
    begin_ns: u64,
    now_ns: u64,
}

impl Page {
    fn new(order: Order, begin_ns: u64) -> Self {
        Page { out: Out { bytes: Vec::new(), order }, begin_ns, now_ns: begin_ns }
    }

    fn entry(&mut self, kind: u64, since: u64) {
        let word = match self.out.order {
            Order::Little => since << 5 | kind,
            Order::Big => kind << 27 | since,
        };
        self.out.number(word, 4);
    }

    fn event(&mut self, time_ns: u64, data: &[u8]) -> &mut Self {
        let mut since = time_ns - self.now_ns;
        if since >= 1 << 27 {
            self.entry(30, since & ((1 << 27) - 1));
            self.out.number(since >> 27, 4);
            since = 0;
        }
        // Long events have a separate word for their length.
        if data.len() > 28 * 4 {
            self.entry(0, since);
            self.out.number(data.len() as u64 + 4, 4);
        } else {
            self.entry(data.len() as u64 / 4, since);
        }
        self.out.bytes.extend(data);
        self.now_ns = time_ns;
        self
    }

    /// A whole page. If `lost`, that many events were lost before it.
    fn finish(&mut self, lost: Option<u64>) -> Vec<u8> {
        let mut page = Out { bytes: Vec::new(), order: self.out.order };
        page.number(self.begin_ns, 8);
        let missed = if lost.is_some() { 3 << 30 } else { 0 };
        page.number(self.out.bytes.len() as u64 | missed, 8);
        page.bytes.append(&mut self.out.bytes);
        if let Some(lost) = lost {
            page.number(lost, 8);
        }
        page.bytes.resize(PAGE_BYTES, 0);
        page.bytes
    }
}

/// The pages of both CPUs.
fn pages(order: Order) -> [Vec<u8>; 2] {
    const IRQ: u8 = 0x08;
    let is_big_endian = order == Order::Big;
    let event = |name, flags, tid, values: &[(&str, &str)]| record(is_big_endian, name, flags, tid, values);
    let switch = |flags, prev: (&str, u32), state, next: (&str, u32)| {
        let values = [
            ("prev_comm", prev.0),
            ("prev_pid", &prev.1.to_string()),
            ("prev_prio", "120"),
            ("prev_state", state),
            ("next_comm", next.0),
            ("next_pid", &next.1.to_string()),
            ("next_prio", "120"),
        ];
        event("sched_switch", flags, prev.1, &values)
    };
    let waking = |flags, by, (comm, tid): (&str, u32), cpu| {
        let values = [("comm", comm), ("pid", &tid.to_string()), ("prio", "120"), ("target_cpu", cpu)];
        event("sched_waking", flags, by, &values)
    };
    let (idle_0, idle_1) = (("swapper/0", 0), ("swapper/1", 0));
    // The name is cut in the middle of its last character.
    let (shell, sleep) = (("sh", 10), ("sleep-sleep-sl\u{e9}", 11));
    let mut first = Page::new(order, 1_000_000_000);
    first
        .event(1_000_000_000, &switch(0, idle_0, "0", shell))
        .event(1_000_001_000, &waking(0, 10, sleep, "1"))
        .event(1_000_005_000, &switch(0, shell, "1", idle_0))
        .event(1_000_009_000, &waking(IRQ, 0, shell, "0"))
        .event(1_000_009_500, &switch(0, idle_0, "0", shell))
        .event(1_000_012_000, &event("irq_handler_entry", 0, 10, &[("irq", "5")]))
        .event(1_000_013_000, &event("irq_handler_exit", 0, 10, &[("irq", "5")]))
        .event(1_000_020_000, &switch(0, shell, "16", idle_0));
    let mut second = Page::new(order, 1_000_002_000);
    second
        .event(1_000_002_000, &switch(0, idle_1, "0", sleep))
        .event(1_000_008_000, &switch(0, sleep, "1", idle_1));
    let mut third = Page::new(order, 1_300_000_000);
    third
        .event(1_300_000_000, &waking(IRQ, 0, sleep, "1"))
        .event(1_300_000_500, &switch(0, idle_1, "0", sleep))
        .event(1_900_100_000, &switch(0, sleep, "16", idle_1));
    [first.finish(None), [second.finish(None), third.finish(Some(3))].concat()]
}

/// The whole file.
pub(crate) fn small(order: Order) -> Vec<u8> {
    let mut out = Out { bytes: super::MAGIC.to_vec(), order };
    out.text("6\0");
    out.bytes.extend([u8::from(order == Order::Big), 8]);
    out.number(PAGE_BYTES as u64, 4);
    out.text("header_page\0");
    out.sized(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
         \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
         \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
         \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n",
    );
    out.text("header_event\0");
    out.sized("# compressed entry header\n\ttype_len    :    5 bits\n");
    // Ftrace's own events: none.
    out.number(0, 4);
    let layouts = layouts();
    let subsystems = ["irq", "sched"];
    out.number(subsystems.len() as u64, 4);
    for subsystem in subsystems {
        out.text(&format!("{subsystem}\0"));
        let of_it: Vec<_> = layouts.iter().filter(|(of, _)| *of == subsystem).collect();
        out.number(of_it.len() as u64, 4);
        of_it.iter().for_each(|(_, text)| out.sized(text));
    }
    // Symbols, and formats of trace_printk.
    out.number(0, 4);
    out.number(0, 4);
    out.sized("10 sh\n");
    let pages = pages(order);
    out.number(pages.len() as u64, 4);
    out.text("options  \0");
    let clock = "[local] global counter\n";
    out.number(4, 2);
    out.number(clock.len() as u64, 4);
    out.text(clock);
    let names = "Linux host 6.12.9 x86_64\0";
    out.number(5, 2);
    out.number(names.len() as u64, 4);
    out.text(names);
    out.number(0, 2);
    out.text("flyrecord\0");
    let mut at = PAGE_BYTES as u64;
    for data in &pages {
        out.number(at, 8);
        out.number(data.len() as u64, 8);
        at += data.len() as u64;
    }
    assert!(out.bytes.len() <= PAGE_BYTES);
    out.bytes.resize(PAGE_BYTES, 0);
    out.bytes.extend(pages.concat());
    out.bytes
}
