// SPDX-License-Identifier: GPL-2.0-or-later
//! The BPF programs of messages, loaded into the kernel, and the thread that empties their ring into a file.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, RingBufferBuilder};

use crate::cost;

static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/messages.bpf.o"));

/// How often the thread looks whether it is to end; a ring that is half full wakes it.
const LOOK: Duration = Duration::from_millis(200);
/// Pairs of samples, with the programs and without.
const PAIRS: usize = 5;

/// Programs that are loaded, and do nothing until they are attached.
pub(crate) struct Probes {
    object: Object,
    links: Vec<Link>,
    ends: Arc<AtomicBool>,
    reader: Option<JoinHandle<io::Result<File>>>,
}

impl Probes {
    /// Loads the programs, with a ring of a power of two of bytes, into the kernel.
    pub(crate) fn load(ring_bytes: u32) -> io::Result<Probes> {
        libbpf_rs::set_print(None);
        let object = load(ring_bytes).map_err(io::Error::other)?;
        let ends = Arc::new(AtomicBool::new(false));
        let mut probes = Probes { object, links: Vec::new(), ends, reader: None };
        probes.reader = Some(probes.read()?);
        Ok(probes)
    }

    /// Starts the thread that empties the ring.
    fn read(&self) -> io::Result<JoinHandle<io::Result<File>>> {
        let ring = self.object.maps().find(|map| map.name() == "ring").expect("the object has it");
        let ring = libbpf_rs::MapHandle::try_from(&ring).map_err(io::Error::other)?;
        let ends = Arc::clone(&self.ends);
        thread::Builder::new().name("wl-probes".to_owned()).spawn(move || {
            let out = RefCell::new(BufWriter::new(tempfile::tempfile()?));
            let failed = RefCell::new(None);
            let take = |record: &[u8]| match out.borrow_mut().write_all(record) {
                Ok(()) => 0,
                Err(error) => {
                    *failed.borrow_mut() = Some(error);
                    -1
                }
            };
            let mut builder = RingBufferBuilder::new();
            builder.add(&ring, take).map_err(io::Error::other)?;
            let ring = builder.build().map_err(io::Error::other)?;
            // As the recorder's perf: it must come to its buffer in time.
            let _ = rustix::process::setpriority_process(None, -20);
            loop {
                let is_last = ends.load(Ordering::Acquire);
                if !is_last {
                    // A signal ends a wait, which does no harm.
                    let _ = ring.poll(LOOK);
                }
                // Most records wake nobody.
                let _ = ring.consume();
                if let Some(error) = failed.borrow_mut().take() {
                    return Err(error);
                }
                if is_last {
                    break;
                }
            }
            drop(ring);
            out.into_inner().into_inner().map_err(io::IntoInnerError::into_error)
        })
    }

    /// Attaches all programs, if they are not attached.
    pub(crate) fn attach(&mut self) -> io::Result<()> {
        if self.links.is_empty() {
            let links: libbpf_rs::Result<Vec<Link>> =
                self.object.progs_mut().map(|program| program.attach()).collect();
            self.links = links.map_err(io::Error::other)?;
        }
        Ok(())
    }

    pub(crate) fn detach(&mut self) {
        self.links.clear();
    }

    /// Returns what one record costs the task that causes it; `None` if it is below the noise.
    pub(crate) fn measure(&mut self) -> io::Result<Option<u64>> {
        cost::sample_ns()?;
        let mut added = Vec::with_capacity(PAIRS);
        for _ in 0..PAIRS {
            let without_ns = cost::sample_ns()?;
            self.attach()?;
            let with_ns = cost::sample_ns();
            self.detach();
            added.push(with_ns? - without_ns);
        }
        added.sort_unstable();
        // Of each round trip: two writes and two reads.
        let each_ns = added[PAIRS / 2] / (4 * cost::ROUNDS).cast_signed() as i64;
        Ok(u64::try_from(each_ns).ok().filter(|ns| *ns > 0))
    }

    /// Ends the programs. Returns the records, and how many did not fit into the ring.
    pub(crate) fn end(mut self) -> io::Result<(File, u64)> {
        self.detach();
        self.ends.store(true, Ordering::Release);
        let reader = self.reader.take().expect("it runs until here");
        let file = reader.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))?;
        let lost = self.object.maps().find(|map| map.name() == "lost").expect("the object has it");
        let value = lost.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(io::Error::other)?;
        let count = value.and_then(|value| value.try_into().ok()).map_or(0, u64::from_ne_bytes);
        Ok((file, count))
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.detach();
        self.ends.store(true, Ordering::Release);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn load(ring_bytes: u32) -> libbpf_rs::Result<Object> {
    // A copy is aligned as an ELF file must be.
    let file = PROGRAMS.to_vec();
    let mut open = ObjectBuilder::default().open_memory(&file)?;
    for mut map in open.maps_mut().filter(|map| map.name() == "ring") {
        map.set_max_entries(ring_bytes)?;
    }
    open.load()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write, pipe};

    use nix::unistd::geteuid;

    use super::*;
    use crate::clock::now_ns;
    use crate::probes::Probed;

    /// What a thread writes and reads is told, with the right numbers and in the right order, and nothing once the
    /// programs are detached.
    #[test]
    fn messages_of_a_pipe_are_told() {
        if !geteuid().is_root() {
            return eprintln!("skipped: it needs root");
        }
        let mut probes = Probes::load(1 << 20).expect("programs that the kernel takes");
        let (mut from, mut to) = pipe().expect("a pipe");
        probes.attach().expect("tracepoints");
        let begin_ns = now_ns().expect("a clock");
        let tid = nix::unistd::gettid().to_string();
        let mut buffer = [0; 64];
        for bytes in [6, 1, 40] {
            to.write_all(&buffer[..bytes]).expect("it has room");
            from.read_exact(&mut buffer[..bytes]).expect("it was written");
        }
        let end_ns = now_ns().expect("a clock");
        probes.detach();
        to.write_all(&[0; 9]).expect("it has room");
        let (file, lost) = probes.end().expect("its file");
        assert_eq!(lost, 0);
        let mut probed = Probed::new(file, lost, None, (begin_ns, end_ns), 4096).expect("its file");
        let mut found = Vec::new();
        while let Some((_, line)) = probed.next(u64::MAX).expect("its file") {
            if line.contains(&format!("/{tid} ")) {
                let (_, said) = line.split_once("wakelab:pipe_").expect("an event of a pipe");
                let (verb, rest) = said.split_once(':').expect("fields");
                let bytes = rest.split_once("bytes=").and_then(|(_, rest)| rest.split(' ').next());
                found.push(format!("{verb} {}", bytes.expect("the bytes")));
            }
        }
        assert_eq!(found, ["write 6", "read 6", "write 1", "read 1", "write 40", "read 40"]);
    }
}
