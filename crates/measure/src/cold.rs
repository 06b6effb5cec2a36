// SPDX-License-Identifier: GPL-2.0-or-later
//! How much slower a CPU works once it has idled. A thread that was woken there does the same work twice: the first
//! time takes longer, because what the CPU held in caches, TLB and branch predictors is gone. The second time is
//! *warm*.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Instant;

use crate::timing::ns;

/// The work reads this many bytes, a cache line at a time.
const WORK_BYTES: usize = 64 * 1024;
const LINE_BYTES: usize = 64;

/// Different system calls, each once, because code that runs again is in the caches already.
pub struct ColdWork {
    memory: Vec<u8>,
    file: fs::File,
    sockets: (UnixStream, UnixStream),
    datagrams: (UnixDatagram, UnixDatagram),
}

/// How long the work took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Took {
    /// The second time, in ns.
    pub warm_ns: u64,
    /// How much longer the first time took, in ns.
    pub more_ns: u64,
}

impl ColdWork {
    /// Prepares the work, and does it once.
    ///
    /// # Errors
    /// What the system refuses: sockets, or to read files of /proc.
    pub fn new() -> io::Result<ColdWork> {
        let work = ColdWork {
            memory: vec![1; WORK_BYTES],
            file: fs::File::open("/proc/self/exe")?,
            sockets: UnixStream::pair()?,
            datagrams: UnixDatagram::pair()?,
        };
        work.carry_out()?;
        Ok(work)
    }

    /// Does the work twice.
    ///
    /// # Errors
    /// As [`ColdWork::new`].
    pub fn twice(&self) -> io::Result<Took> {
        let began = Instant::now();
        self.carry_out()?;
        let first_ns = ns(began.elapsed());
        self.carry_out()?;
        let warm_ns = ns(began.elapsed()).saturating_sub(first_ns);
        Ok(Took { warm_ns, more_ns: first_ns.saturating_sub(warm_ns) })
    }

    fn carry_out(&self) -> io::Result<()> {
        let sum: u64 = self.memory.iter().step_by(LINE_BYTES).map(|&byte| u64::from(byte)).sum();
        std::hint::black_box(sum);
        let mut message = [0; 64];
        (&self.sockets.0).write_all(&message)?;
        (&self.sockets.1).read_exact(&mut message)?;
        self.datagrams.0.send(&message)?;
        self.datagrams.1.recv(&mut message)?;
        self.file.read_at(&mut message, 0)?;
        std::hint::black_box(self.file.metadata()?);
        std::hint::black_box(self.file.try_clone()?);
        std::hint::black_box(fs::metadata("/")?);
        std::hint::black_box(fs::read_link("/proc/self")?);
        std::hint::black_box(self.sockets.0.peer_addr()?);
        std::hint::black_box(fs::read("/proc/self/statm")?);
        Ok(())
    }
}

impl Took {
    /// By how many percent the first time took longer.
    pub(crate) fn more_percent(self) -> u64 {
        self.more_ns * 100 / self.warm_ns.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_time_tells_what_the_first_lost() {
        assert_eq!(Took { warm_ns: 15_000, more_ns: 3_000 }.more_percent(), 20);
        let took = ColdWork::new().unwrap().twice().unwrap();
        assert!(took.warm_ns > 0);
    }
}
