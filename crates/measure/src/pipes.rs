// SPDX-License-Identifier: GPL-2.0-or-later
//! Hand-overs through pipes, between threads and, by way of `cat`, between processes; and what a message through a
//! loopback socket costs its sender.

use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::pin;
use crate::timing::batches_ns;

/// Hand-overs to and fro, or messages, of a batch.
const ROUNDS: u64 = 100;
/// Bytes of a long message, which fit into the buffers of a socket.
pub(crate) const LONG_BYTES: u64 = 16 << 10;

/// Hand-overs between threads, one way, in ns, by batch.
pub(crate) fn handovers_ns(cpus: (u32, u32), time: Duration) -> io::Result<Vec<u64>> {
    let ((mut there, mut to), (mut back, mut from)) = (pipe()?, pipe()?);
    let first = move || rounds(&mut to, &mut back, time);
    let second = move || {
        let mut byte = [0];
        // Ends when the first thread drops its end.
        while there.read_exact(&mut byte).is_ok() && from.write_all(&byte).is_ok() {}
    };
    pin::pair(cpus, first, second)?
}

/// Hand-overs between this process and another on the same CPU, one way, in ns, by batch.
pub(crate) fn between_processes_ns(cpu: u32, time: Duration) -> io::Result<Vec<u64>> {
    let ((there, mut to), (mut back, from)) = (pipe()?, pipe()?);
    pin::on(cpu, move || {
        // The child inherits the affinity of this thread.
        let mut child = Command::new("cat").stdin(there).stdout(from).stderr(Stdio::null()).spawn()?;
        let found = rounds(&mut to, &mut back, time);
        drop(to);
        child.wait()?;
        found
    })?
}

fn rounds(to: &mut PipeWriter, back: &mut PipeReader, time: Duration) -> io::Result<Vec<u64>> {
    let (mut byte, mut failed) = ([0], Ok(()));
    let found = batches_ns(time, 2 * ROUNDS, || {
        for _ in 0..ROUNDS {
            if failed.is_ok() {
                failed = to.write_all(&byte).and_then(|()| back.read_exact(&mut byte));
            }
        }
    });
    failed.map(|()| found)
}

/// Sends of messages of `bytes` bytes over loopback TCP, in ns, by batch. The receiver does not wait for them.
pub(crate) fn sends_ns(cpu: u32, bytes: u64, time: Duration) -> io::Result<Vec<u64>> {
    pin::on(cpu, move || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let mut sender = TcpStream::connect(listener.local_addr()?)?;
        sender.set_nodelay(true)?;
        let (mut receiver, _) = listener.accept()?;
        let (message, mut arrived) = (vec![0; bytes as usize], vec![0; bytes as usize]);
        let (begin, mut found) = (std::time::Instant::now(), Vec::new());
        while found.len() < ROUNDS as usize || (begin.elapsed() < time && found.len() < 10_000) {
            let from = std::time::Instant::now();
            sender.write_all(&message)?;
            found.push(crate::timing::ns(from.elapsed()));
            receiver.read_exact(&mut arrived)?;
        }
        // The first ones open the window of the connection.
        Ok(found.split_off(found.len() / 10))
    })?
}
