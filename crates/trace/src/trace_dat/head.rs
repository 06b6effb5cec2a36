// SPDX-License-Identifier: GPL-2.0-or-later
//! What a trace-cmd file says about itself.
//!
//! Version 6 has its parts in a fixed order. Version 7 has sections anywhere in the file, found by options, and packs
//! some of them. The parts are the same: trace-cmd's manual pages trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5) describe
//! them.

use crate::raw::emitter::Emitter;
use crate::raw::layout::Layout;
use crate::raw::release::Release;
use crate::raw::store::{Reading, Store};
use crate::trace_dat::MAGIC;
use crate::trace_dat::pages::{Chunked, Data, Shape, unpack};
use crate::{MAX_CPUS, TraceError};

/// Larger than any page of a ring buffer: of 64 KiB, or several of these joined.
const PAGE_BYTES_MAX: u32 = 1 << 20;

/// What a file says about itself.
pub(crate) struct Head {
    pub(crate) emitter: Emitter,
    pub(crate) clock: Clock,
    pub(crate) release: Release,
    /// Where the events of each CPU are.
    pub(crate) cpus: Vec<(u32, Data)>,
}

/// How the file's times become nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    /// For the processor's counter: nanoseconds are the product, less this many bits.
    factor: Option<(u32, u32)>,
    offset_ns: i64,
}

impl Clock {
    pub(crate) fn ns(self, time: u64) -> u64 {
        let ns = match self.factor {
            Some((factor, bits)) => {
                (u128::from(time) * u128::from(factor)).checked_shr(bits).unwrap_or(0) as u64
            }
            None => time,
        };
        ns.saturating_add_signed(self.offset_ns)
    }
}

/// Names of the file's parts, by the option of version 7 that tells where they are.
const HEADER_INFO: u16 = 16;
const FTRACE_EVENTS: u16 = 17;
const EVENT_FORMATS: u16 = 18;
const CMDLINES: u16 = 21;

/// Options of both versions.
const BUFFER: u16 = 3;
const TRACECLOCK: u16 = 4;
const UNAME: u16 = 5;
const OFFSET: u16 = 7;
const TSC2NSEC: u16 = 14;

/// What was read so far.
#[derive(Default)]
struct Parts {
    emitter: Emitter,
    clock: Clock,
    release: Release,
    clock_name: String,
    page_bytes: u32,
    /// The layout of a page's header.
    page: Layout,
    is_big_endian: bool,
    packing: Option<&'static str>,
    cpus: Vec<(u32, u64, u64)>,
    has_buffer: bool,
}

/// Reads the head of a file that begins with [`MAGIC`].
pub(crate) fn read(store: &Store) -> Result<Head, TraceError> {
    let mut reading = Reading { store, at: MAGIC.len() as u64, is_big_endian: false };
    let version_at = reading.at;
    let version = reading.name("the version of a trace-cmd file")?;
    let mut parts = Parts::default();
    parts.emitter.seen.file = store.name().to_owned();
    reading.is_big_endian = reading.u8("the byte order")? == 1;
    parts.is_big_endian = reading.is_big_endian;
    parts.emitter.is_big_endian = parts.is_big_endian;
    reading.u8("the length of a long")?;
    parts.set_page_bytes(&mut reading)?;
    match version.as_str() {
        "6" => parts.version_6(reading)?,
        "7" => parts.version_7(reading)?,
        other => {
            let expected = "a trace-cmd file of version 6 or 7";
            return Err(store.error(version_at, expected, &format!("version {other}")));
        }
    }
    parts.head(store)
}

/// Reads the layouts of events at `at`: perf puts the first parts of a trace-cmd file into its files.
pub(crate) fn layouts(store: &Store, at: u64) -> Result<Emitter, TraceError> {
    let mut reading = Reading { store, at, is_big_endian: false };
    let magic = reading.part(MAGIC.len() as u64, "the layouts of events")?;
    if magic != MAGIC {
        return Err(store.error(at, "the layouts of events", "other bytes"));
    }
    let mut parts = Parts::default();
    parts.emitter.seen.file = store.name().to_owned();
    reading.name("the version of the layouts")?;
    if reading.u8("the byte order")? == 1 {
        return Err(store.error(at, "a recording of little byte order", "the other one"));
    }
    reading.u8("the length of a long")?;
    parts.set_page_bytes(&mut reading)?;
    parts.page_header(&mut reading)?;
    parts.ftrace_events(&mut reading)?;
    parts.event_formats(&mut reading)?;
    Ok(parts.emitter)
}

impl Parts {
    fn head(self, store: &Store) -> Result<Head, TraceError> {
        if !self.has_buffer || !self.emitter.has_layouts() {
            return Err(store.error(0, "the layouts of events and the buffer's place", "none"));
        }
        let missing = || store.error(0, "a header_page with timestamp, commit and data", "none");
        let place = |name| self.page.place(name).ok_or_else(missing);
        let ((data, _), (commit, commit_bytes), (time, _)) =
            (place("data")?, place("commit")?, place("timestamp")?);
        let shape = Shape {
            page_bytes: self.page_bytes as usize,
            time,
            commit,
            commit_bytes,
            data,
            is_big_endian: self.is_big_endian,
        };
        if !shape.is_possible() {
            return Err(store.error(0, "a header_page with its fields before the data", "other places"));
        }
        // The others count nanoseconds.
        let ticks = ["counter", "x86-tsc", "ppc-tb"];
        if ticks.contains(&self.clock_name.as_str()) && self.clock.factor.is_none() {
            let found = format!("the clock {}; record with: trace-cmd record -C mono", self.clock_name);
            return Err(store.error(0, "a clock of nanoseconds", &found));
        }
        let data = |at, bytes| match self.packing {
            None => Data::Plain { shape, at, end: at + bytes },
            // The length is without the number of chunks.
            Some(packing) => Data::Packed { shape, chunks: Chunked::new(packing, at, at + bytes + 4) },
        };
        let mut cpus = Vec::new();
        let mut left = store.bytes();
        for (cpu, at, bytes) in self.cpus {
            store.check(at, bytes, &format!("events of CPU {cpu}"))?;
            // So that no part is read for many CPUs.
            left = left.checked_sub(bytes).ok_or_else(|| {
                store.error(at, "separate places for the events of each CPU", "more than the file holds")
            })?;
            if bytes > 0 {
                cpus.push((cpu, data(at, bytes)));
            }
        }
        Ok(Head { emitter: self.emitter, clock: self.clock, release: self.release, cpus })
    }

    fn version_6(&mut self, mut reading: Reading<'_>) -> Result<(), TraceError> {
        self.page_header(&mut reading)?;
        self.ftrace_events(&mut reading)?;
        self.event_formats(&mut reading)?;
        for part in ["the kernel's symbols", "the formats of trace_printk"] {
            let bytes = reading.u32(part)?;
            reading.skip(bytes.into(), part)?;
        }
        self.names(&mut reading)?;
        let cpus = self.cpu_count(&mut reading)?;
        let mut at = reading.at;
        let mut kind = reading.name("`options`, or the kind of data")?;
        if kind.trim() == "options" {
            loop {
                let id = reading.u16("an option")?;
                if id == 0 {
                    break;
                }
                let bytes = reading.u32("the length of an option")?;
                let next = reading.at + u64::from(bytes);
                reading.store.check(reading.at, bytes.into(), "an option")?;
                self.option(id, reading.at, bytes, reading.store)?;
                reading.at = next;
            }
            at = reading.at;
            kind = reading.name("the kind of data")?;
        }
        if kind != "flyrecord" {
            let found = format!("`{}`", wakelab_machine::printable(kind.trim()));
            return Err(reading.store.error(at, "events in binary form (`flyrecord`)", &found));
        }
        self.has_buffer = true;
        for cpu in 0..cpus {
            let at = reading.u64("the place of a CPU's events")?;
            self.cpus.push((cpu, at, reading.u64("the length of a CPU's events")?));
        }
        Ok(())
    }

    fn version_7(&mut self, mut reading: Reading<'_>) -> Result<(), TraceError> {
        let name_at = reading.at;
        let name = reading.name("the name of a packing")?;
        reading.name("the version of a packing")?;
        self.packing = match name.as_str() {
            "none" => None,
            "zstd" => Some("zstd"),
            "zlib" => Some("zlib"),
            other => {
                let found = format!("`{}`", wakelab_machine::printable(other));
                return Err(reading.store.error(name_at, "data packed with zstd or zlib", &found));
            }
        };
        let mut options_at = reading.u64("the place of the options")?;
        while options_at != 0 {
            let before = options_at;
            options_at = self.options_7(reading.store, options_at)?;
            // So that a circle ends. Sections of options are written one after the other.
            if options_at != 0 && options_at <= before {
                return Err(reading.store.error(
                    before,
                    "the next options behind these",
                    "a place before them",
                ));
            }
        }
        Ok(())
    }

    /// Reads a section of options, and returns the place of the next one; 0 if there is none.
    fn options_7(&mut self, store: &Store, at: u64) -> Result<u64, TraceError> {
        let section = self.section(store, at, 0)?;
        let mut options = Reading { store: &section, at: 0, is_big_endian: self.is_big_endian };
        let mut sections = Vec::new();
        let next = loop {
            let id = options.u16("an option")?;
            let bytes = options.u32("the length of an option")?;
            let place = options.at;
            options.store.check(place, bytes.into(), "an option")?;
            match id {
                0 => break options.u64("the place of the next options")?,
                HEADER_INFO | FTRACE_EVENTS | EVENT_FORMATS | CMDLINES => {
                    sections.push((id, options.u64("the place of a section")?));
                }
                BUFFER => self.buffer_7(&mut options)?,
                _ => self.option(id, place, bytes, &section)?,
            }
            options.at = place + u64::from(bytes);
        };
        for (id, at) in sections {
            let section = self.section(store, at, id)?;
            let mut reading = Reading { store: &section, at: 0, is_big_endian: self.is_big_endian };
            match id {
                HEADER_INFO => self.page_header(&mut reading)?,
                FTRACE_EVENTS => self.ftrace_events(&mut reading)?,
                EVENT_FORMATS => self.event_formats(&mut reading)?,
                _ => self.names(&mut reading)?,
            }
        }
        Ok(next)
    }

    /// Returns what a section of version 7 holds.
    fn section(&self, store: &Store, at: u64, expected: u16) -> Result<Store, TraceError> {
        let mut header = Reading { store, at, is_big_endian: self.is_big_endian };
        let id = header.u16("a section")?;
        if id != expected {
            return Err(store.error(at, &format!("section {expected}"), &format!("section {id}")));
        }
        let is_packed = header.u16("the flags of a section")? & 1 != 0;
        header.u32("the name of a section")?;
        let bytes = header.u64("the length of a section")?;
        if !is_packed {
            let data = header.part(bytes, "a section")?;
            return Ok(Store::of_memory(data, store.name(), Some(at)));
        }
        let packed = header.u32("the packed length of a section")?;
        let unpacked = header.u32("the length of a section")?;
        let data = header.part(packed.into(), "a packed section")?;
        let data = unpack(self.packing.unwrap_or_default(), &data, unpacked)
            .map_err(|found| store.error(at, "a packed section", &found))?;
        Ok(Store::of_memory(data, store.name(), Some(at)))
    }

    /// Reads where the events of a buffer are. Other buffers than the main one have a name.
    fn buffer_7(&mut self, options: &mut Reading<'_>) -> Result<(), TraceError> {
        options.u64("the place of a buffer")?;
        if !options.name("the name of a buffer")?.is_empty() {
            return Ok(());
        }
        self.has_buffer = true;
        self.clock_name = options.name("the clock of a buffer")?;
        self.set_page_bytes(options)?;
        let cpus = self.cpu_count(options)?;
        for _ in 0..cpus {
            let cpu = options.u32("a CPU")?;
            let at = options.u64("the place of a CPU's events")?;
            self.cpus.push((cpu, at, options.u64("the length of a CPU's events")?));
        }
        Ok(())
    }

    /// An option of either version.
    fn option(&mut self, id: u16, at: u64, bytes: u32, store: &Store) -> Result<(), TraceError> {
        let mut reading = Reading { store, at, is_big_endian: self.is_big_endian };
        match id {
            TRACECLOCK => {
                // `[local] global counter`: the one in brackets.
                let text = reading.part(bytes.into(), "the clock")?;
                let text = String::from_utf8_lossy(&text);
                if let Some((clock, _)) = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
                    self.clock_name = clock.to_owned();
                }
            }
            UNAME => {
                // `Linux HOST 6.12.1 x86_64`
                let text = reading.part(bytes.into(), "the kernel's release")?;
                let text = String::from_utf8_lossy(&text);
                self.release.note(text.split(' ').nth(2).unwrap_or_default());
            }
            OFFSET => {
                let text = reading.part(bytes.into(), "the offset of the clock")?;
                let text = String::from_utf8_lossy(&text);
                let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
                let parsed = match text.strip_prefix("0x") {
                    Some(digits) => i64::from_str_radix(digits, 16),
                    None => text.parse(),
                };
                self.clock.offset_ns = parsed.map_err(|_| {
                    store.error(at, "an offset of the clock in ns", &wakelab_machine::printable(text))
                })?;
            }
            TSC2NSEC if bytes >= 8 => {
                let factor = reading.u32("the factor of the clock")?;
                self.clock.factor = Some((factor, reading.u32("the shift of the clock")?));
            }
            _ => {}
        }
        Ok(())
    }

    fn set_page_bytes(&mut self, reading: &mut Reading<'_>) -> Result<(), TraceError> {
        let at = reading.at;
        self.page_bytes = reading.u32("the length of a page")?;
        if !(64..=PAGE_BYTES_MAX).contains(&self.page_bytes) {
            let expected = format!("pages of 64 to {PAGE_BYTES_MAX} bytes");
            return Err(reading.store.error(at, &expected, &self.page_bytes.to_string()));
        }
        Ok(())
    }

    fn cpu_count(&self, reading: &mut Reading<'_>) -> Result<u32, TraceError> {
        let at = reading.at;
        let cpus = reading.u32("the number of CPUs")?;
        if cpus > MAX_CPUS {
            let expected = format!("at most {MAX_CPUS} CPUs");
            return Err(reading.store.error(at, &expected, &cpus.to_string()));
        }
        Ok(cpus)
    }

    fn page_header(&mut self, reading: &mut Reading<'_>) -> Result<(), TraceError> {
        for name in ["header_page", "header_event"] {
            let at = reading.at;
            let found = reading.name(name)?;
            if found != name {
                let found = format!("`{}`", wakelab_machine::printable(&found));
                return Err(reading.store.error(at, name, &found));
            }
            let bytes = reading.u64(name)?;
            let text = reading.part(bytes, name)?;
            if name == "header_page" {
                // It has the fields of an event's layout, without the number and the name.
                let text = format!("name: {name}\nID: 0\n{}", String::from_utf8_lossy(&text));
                let layout = Layout::parse(&text, "");
                self.page =
                    layout.ok_or_else(|| reading.store.error(at, "the layout of a page", "other text"))?;
            }
        }
        Ok(())
    }

    fn ftrace_events(&mut self, reading: &mut Reading<'_>) -> Result<(), TraceError> {
        let events = reading.u32("the number of ftrace's events")?;
        (0..events).try_for_each(|_| self.layout(reading, "ftrace"))
    }

    fn event_formats(&mut self, reading: &mut Reading<'_>) -> Result<(), TraceError> {
        for _ in 0..reading.u32("the number of subsystems")? {
            let subsystem = reading.name("the name of a subsystem")?;
            for _ in 0..reading.u32("the number of events")? {
                self.layout(reading, &subsystem)?;
            }
        }
        Ok(())
    }

    fn layout(&mut self, reading: &mut Reading<'_>, subsystem: &str) -> Result<(), TraceError> {
        let at = reading.at;
        let bytes = reading.u64("the length of an event's layout")?;
        let text = reading.part(bytes, "the layout of an event")?;
        match Layout::parse(&String::from_utf8_lossy(&text), subsystem) {
            Some(layout) => self.emitter.add(layout),
            None if subsystem == "sched" => {
                return Err(reading.store.error(at, "the layout of an event", "other text"));
            }
            None => {}
        }
        Ok(())
    }

    /// Reads lines of a task's id, a blank and the task's name.
    fn names(&mut self, reading: &mut Reading<'_>) -> Result<(), TraceError> {
        let bytes = reading.u64("the length of the tasks' names")?;
        let text = reading.part(bytes, "the names of tasks")?;
        for line in String::from_utf8_lossy(&text).lines() {
            if let Some((tid, comm)) = line.split_once(' ')
                && let Ok(tid) = tid.parse()
            {
                self.emitter.seen.names.insert(tid, comm.to_owned());
            }
        }
        Ok(())
    }
}
