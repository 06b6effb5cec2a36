// SPDX-License-Identifier: GPL-2.0-or-later
//! Recordings as others make them: the scheduler's events alone, without messages, calls of futex(2), interrupts, and
//! what `wakelab record` measured and noted, but for the kernel's release, which perf notes in every file, and which
//! `perf script --header` prints.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// What `perf sched record` records of what `wakelab record` does.
const EVENTS: [&str; 7] = [
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_stat_runtime",
    "sched_process_fork",
    "sched_migrate_task",
];

/// Writes the scheduler's events of the packed recording `from` to `to`.
pub(crate) fn strip(from: &Path, to: &Path) -> Result<()> {
    let mut unpack = Command::new("gzip").arg("-dc").arg(from).stdout(Stdio::piped()).spawn()?;
    let text = BufReader::new(unpack.stdout.take().context("gzip writes to a pipe")?);
    let mut out = BufWriter::new(File::create(to)?);
    for line in text.split(b'\n') {
        let line = line?;
        if let Some(release) = line.strip_prefix(b"# wakelab-kernel: ") {
            out.write_all(b"# os release : ")?;
            out.write_all(release)?;
            out.write_all(b"\n")?;
        } else if is_bare(&line) {
            out.write_all(&line)?;
            out.write_all(b"\n")?;
        }
    }
    out.flush()?;
    ensure!(unpack.wait()?.success(), "gzip cannot unpack {}", from.display());
    Ok(())
}

/// Whether a line of `perf script` is one of the scheduler's events.
fn is_bare(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    let event = line.split_once(" sched:").and_then(|(_, rest)| rest.split_once(':'));
    !line.starts_with('#') && event.is_some_and(|(event, _)| EVENTS.contains(&event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_scheduler_remains() {
        let kept = "  sh 3/3 [000] 1.000000001:  sched:sched_switch: prev_comm=sh prev_pid=3";
        assert!(is_bare(kept.as_bytes()));
        for other in [
            "# wakelab-kernel: 6.18",
            "# sched:sched_switch: 1",
            "  sh 3/3 [000] 1.000000001:  sched:sched_process_exec: filename=/bin/sh pid=3 old_pid=3",
            "  sh 3/3 [000] 1.000000001:  irq:softirq_entry: vec=7 [action=SCHED]",
        ] {
            assert!(!is_bare(other.as_bytes()), "{other}");
        }
    }
}
