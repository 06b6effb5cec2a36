// SPDX-License-Identifier: GPL-2.0-or-later
//! Import of recordings as text, in bytes per second: reader and causal model together. `cargo bench -p wakelab-trace`.
//!
//! The recordings are made of the fixtures: each is repeated, shifted by its own length, until the file has 100 MB, or
//! `WAKELAB_IMPORT_BYTES`. One file has the format of `perf script`, and one the same events in ftrace's format. Each
//! repetition forks its own tasks, so there are thousands. Before each measurement, an import in a separate process
//! prints what the file holds and how much memory the import took.

use std::env;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use wakelab_trace::{Options, read};

const FILE_BYTES: u64 = 100_000_000;
/// The variable that sets another size, in bytes; larger files show whether memory stays bounded.
const FILE_BYTES_VARIABLE: &str = "WAKELAB_IMPORT_BYTES";

/// An event's line around its time.
struct Line<'a> {
    /// `comm pid/tid`.
    task: &'a str,
    /// Its digits, as in `001`.
    cpu: &'a str,
    time_ns: u64,
    /// `sched:sched_switch: ...`, with the blanks before it.
    event: &'a str,
}

impl<'a> Line<'a> {
    /// Parses a line of a fixture, which has nine digits of fraction and no bracket in the comm.
    fn parse(text: &'a str) -> Line<'a> {
        let parse = || {
            let (task, rest) = text.split_once('[')?;
            let (cpu, rest) = rest.split_once(']')?;
            let (time, event) = rest.split_once(':')?;
            let (seconds, fraction) = time.trim().split_once('.')?;
            let time_ns = seconds.parse::<u64>().ok()? * 1_000_000_000 + fraction.parse::<u64>().ok()?;
            Some(Line { task, cpu, time_ns, event })
        };
        parse().unwrap_or_else(|| panic!("an event of a fixture: {text}"))
    }

    fn perf(&self, time_ns: u64) -> String {
        let (seconds, fraction) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        format!("{}[{}] {seconds:5}.{fraction:09}:{}\n", self.task, self.cpu, self.event)
    }

    fn ftrace(&self, time_ns: u64) -> String {
        let (seconds, fraction) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        let task = self.task.trim_end();
        let (comm, ids) = task.rsplit_once(' ').expect("comm and ids");
        let (process, tid) = ids.split_once('/').expect("process and id");
        // perf's way to say that an exiting task has no id any more; ftrace keeps it.
        let tid = if tid == "-1" { process } else { tid };
        let (_, event) = self.event.split_once("sched:").expect("an event of the scheduler");
        let comm = comm.trim();
        format!(
            "{comm:>16}-{tid:<7} ({process:>7}) [{}] d..2. {seconds:5}.{fraction:09}: {event}\n",
            self.cpu
        )
    }
}

fn file_bytes() -> u64 {
    let Ok(text) = env::var(FILE_BYTES_VARIABLE) else { return FILE_BYTES };
    text.parse().unwrap_or_else(|_| panic!("{FILE_BYTES_VARIABLE}={text}: expected a number of bytes"))
}

/// Writes the recording `name` of [`file_bytes`] or a little more.
fn generate(name: &str, fixture: &str, write: impl Fn(&Line<'_>, u64) -> String) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let lines: Vec<Line<'_>> = fixture.lines().map(Line::parse).collect();
    let (first, last) = (&lines[0], &lines[lines.len() - 1]);
    let period_ns = last.time_ns - first.time_ns + 1_000_000;
    let mut file = BufWriter::new(File::create(&path).expect("a file"));
    let (mut written, mut shift_ns, wanted) = (0, 0, file_bytes());
    while written < wanted {
        for line in &lines {
            let text = write(line, line.time_ns + shift_ns);
            file.write_all(text.as_bytes()).expect("a line");
            written += text.len() as u64;
        }
        shift_ns += period_ns;
    }
    file.flush().expect("the rest");
    path
}

/// The variable that names the file to import in the separate process that shows how much memory that takes.
const MEMORY_OF: &str = "WAKELAB_IMPORT_MEMORY_OF";

/// The most memory that this process ever had, if the system tells.
fn peak_kib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok())
}

/// One import of the file, and what there is to say about it.
fn describe(path: &Path) -> String {
    let recording = read(path, &Options::default()).expect("a recording");
    let tasks = &recording.workload.tasks;
    let operations: usize = tasks.iter().map(|task| task.program.len()).sum();
    format!(
        "{} events, {} tasks, {operations} operations, peak of resident memory {} KiB",
        recording.events,
        tasks.len(),
        peak_kib().map_or_else(|| "unknown".to_owned(), |kib| kib.to_string()),
    )
}

fn bench(criterion: &mut Criterion) {
    if let Some(path) = env::var_os(MEMORY_OF) {
        print!("{}", describe(Path::new(&path)));
        return;
    }
    let mut group = criterion.benchmark_group("import");
    group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(10));
    for fixture in ["hackbench", "pgbench"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/{fixture}.perf.txt"));
        let text = fs::read_to_string(path).expect("a fixture");
        let perf = generate(&format!("{fixture}.perf.txt"), &text, |line, time_ns| line.perf(time_ns));
        let ftrace = generate(&format!("{fixture}.ftrace.txt"), &text, |line, time_ns| line.ftrace(time_ns));
        for (format, path) in [("perf", perf), ("ftrace", ftrace)] {
            let bytes = fs::metadata(&path).expect("the file").len();
            let itself = env::current_exe().expect("this program");
            let output = Command::new(itself).env(MEMORY_OF, &path).output().expect("a process");
            println!("{fixture}, {format}: {bytes} bytes, {}", String::from_utf8_lossy(&output.stdout));
            group.throughput(Throughput::Bytes(bytes));
            group.bench_function(format!("{fixture}/{format}"), |bencher| {
                bencher.iter(|| read(black_box(&path), &Options::default()));
            });
            fs::remove_file(path).expect("the file");
        }
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
