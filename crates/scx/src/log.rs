// SPDX-License-Identifier: GPL-2.0-only
//! `--log FILE`: writes the records in the BPF side's ring buffer to a file.
//!
//! The BPF side does not wake the loader, because that wake-up would be another decision to log; the loader reads the
//! buffer often enough. Records that find no room in the ring buffer are lost; the BPF side counts them, and the loader
//! reports them.

use std::cell::RefCell;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use libbpf_rs::{RingBuffer, RingBufferBuilder};
use wakelab_log::{Header, Writer};
use wakelab_machine::Topology;
use wakelab_policy::PolicySpec;

use super::{OpenSkel, Skel};
use crate::arguments::Arguments;
use crate::print::say;

/// A log that is being written.
pub(crate) struct Log {
    ring: RingBuffer<'static>,
    state: Rc<RefCell<State>>,
    path: PathBuf,
}

struct State {
    /// `None` after a write has failed.
    writer: Option<Writer<BufWriter<File>>>,
    failed: Option<std::io::Error>,
}

impl Log {
    /// Sets the size of the ring buffer, before the BPF side is loaded.
    pub(crate) fn prepare(skel: &mut OpenSkel<'_>, args: &Arguments) -> Result<()> {
        skel.maps.log_ring.set_max_entries(args.log_buffer << 20).context("cannot size the log's buffer")?;
        let rodata = skel.maps.rodata_data.as_deref_mut().context("the skeleton has no .rodata")?;
        rodata.log_fault = args.log_fault;
        Ok(())
    }

    /// Opens the file, when the BPF side is attached and has reported its tick. `start` counts attachments: when a CPU
    /// comes or goes the machine is another one, and its log is another file.
    pub(crate) fn begin(
        skel: &Skel<'_>,
        args: &Arguments,
        spec: &PolicySpec,
        topology: &Topology,
        start: usize,
    ) -> Result<Log> {
        let mut path = args.log.clone().context("--log names no file")?;
        if start > 0 {
            path.as_mut_os_string().push(format!(".{start}"));
        }
        let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let params = &skel.maps.bss_data.as_deref().context("the skeleton has no .bss")?.policy.params;
        let header = Header::new(spec, topology, params.tick_ns, params.nr_groups as usize);
        let writer = Writer::new(BufWriter::with_capacity(1 << 20, file), &header)
            .with_context(|| format!("cannot write {}", path.display()))?;
        let state = Rc::new(RefCell::new(State { writer: Some(writer), failed: None }));
        let mut ring = RingBufferBuilder::new();
        let to = Rc::clone(&state);
        ring.add(&skel.maps.log_ring, move |bytes| to.borrow_mut().write(bytes))?;
        Ok(Log { ring: ring.build()?, state, path })
    }

    /// The interval at which the loader reads the buffer.
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_millis(2)
    }

    /// Writes the records in the ring buffer.
    pub(crate) fn drain(&self) -> Result<()> {
        self.ring.consume()?;
        let mut state = self.state.borrow_mut();
        match state.failed.take() {
            Some(error) => Err(error).with_context(|| format!("cannot write {}", self.path.display())),
            None => Ok(()),
        }
    }

    /// Writes the rest, and the numbers of records and of lost records. The BPF side is detached.
    pub(crate) fn end(self, skel: &Skel<'_>, nr_cpus: usize) -> Result<()> {
        self.drain()?;
        let buffers = &skel.maps.bss_data.as_deref().context("the skeleton has no .bss")?.log_buffers;
        let lost: u64 = buffers[..nr_cpus].iter().map(|buffer| buffer.lost).sum();
        let Some(writer) = self.state.borrow_mut().writer.take() else { return Ok(()) };
        let records = writer.records();
        writer.end(lost).with_context(|| format!("cannot write {}", self.path.display()))?;
        say(format_args!("log: {records} records in {}, {lost} lost", self.path.display()))?;
        Ok(())
    }
}

impl State {
    /// Writes a complete record. After a failure, records stay in the ring buffer and are lost.
    fn write(&mut self, bytes: &[u8]) -> i32 {
        let Some(writer) = &mut self.writer else { return -1 };
        match writer.record(bytes) {
            Ok(()) => 0,
            Err(error) => {
                self.failed = Some(error);
                self.writer = None;
                -1
            }
        }
    }
}
