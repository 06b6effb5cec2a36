// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab record`: what this machine's scheduler does, in one file that the other commands read.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::TypedValueParser;
use flate2::Compression;
use flate2::write::GzEncoder;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use wakelab_record::{Group, Plan, RecordError, Stop, Taken, Written, exec_with_parent};

use crate::args::seconds_as_ns;
use crate::error::{RecordedCommandFailed, bad_input};
use crate::output::OutputFile;
use crate::print;

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    sudo wakelab record -- hackbench -g 2\n  \
    sudo wakelab record -o service.rec.gz --for 5      # while the service runs\n  \
    sudo wakelab record --of postgres -- pgbench -T 5  # the servers that pgbench asks were there before\n  \
    wakelab check service.rec.gz\n\n\
    It needs root and perf. The file is text, packed with gzip if its name ends in .gz; it has the names of all tasks and \
    the kernel's command line. Ctrl-C ends the recording, and the file is written. docs/guide/recordings.md says what is \
    recorded and what it costs.\n\n\
    Exit codes: 0 success, 1 failure, 2 bad arguments, no root or no perf, 3 COMMAND failed and the file is complete.")]
pub(crate) struct RecordArgs {
    /// File to write. If it exists, it is kept as FILE.old, and an older FILE.old is replaced
    #[arg(long, short, value_name = "FILE", default_value = "wakelab.rec.gz")]
    output: PathBuf,
    /// End the recording after SECONDS, which may have decimals, and then COMMAND by SIGTERM if it still runs; a larger
    /// value records more
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds_as_ns)]
    limit_ns: Option<u64>,
    /// Note that the recording is about the tasks named COMM (or PREFIX*), too: `wakelab check` and `wakelab compare`
    /// judge them beside COMMAND and all tasks that descend from it. Give it if a server that was there before does
    /// COMMAND's work. Repeatable [default without COMMAND: all tasks but kernel threads and the recorder]
    #[arg(long, value_name = "COMM")]
    of: Vec<String>,
    /// Record whatever the machine does, until Ctrl-C or for the time of --for
    #[arg(long, short = 'a', conflicts_with = "command")]
    system_wide: bool,
    /// Leave out interrupts and timers. Wake-ups by them are attributed to the interrupted task then
    #[arg(long)]
    no_irq: bool,
    /// Leave out messages over sockets and POSIX message queues, and those over pipes and eventfds that BPF tells, if
    /// this program was built with it. What woke nobody must be inferred then
    #[arg(long)]
    no_flow: bool,
    /// Record messages over pipes and eventfds where BPF does not tell them. What woke nobody must be inferred without
    /// it. Every call of the machine that reads, writes, opens or closes a descriptor is recorded for it, so that
    /// programs with many of them run slower
    #[arg(long)]
    pipes: bool,
    /// Leave out calls of sched_yield. A yield counts as a preemption then. Calls of sched_yield or futex slow all
    /// system calls down while they are recorded
    #[arg(long)]
    no_yield: bool,
    /// Leave out calls of futex. Who holds which mutex is not known then: each wait for one in the recording happens in
    /// its replays, and no other
    #[arg(long)]
    no_futex: bool,
    /// Do not measure what wake-ups cost on this machine, which takes half a second at the end
    #[arg(long)]
    no_measure: bool,
    /// Buffer of each CPU in megabytes, a power of two; a larger one loses fewer events and takes more memory. By
    /// default 64, or less where all CPUs' together would take more than 1 GB or a 32nd of the memory, but at least 8
    #[arg(long, value_name = "MB", value_parser = buffer_mb())]
    buffer_mb: Option<u32>,
    /// Process id of the recorder, for the copy of this program that becomes perf
    #[arg(long, value_name = "PID", hide = true)]
    parent: Option<i32>,
    /// Command to record, with its arguments, from its start to its end. The tasks of all other programs are recorded,
    /// too
    #[arg(value_name = "COMMAND", last = true)]
    command: Vec<String>,
}

/// Records, and writes the file.
pub(crate) fn run(args: &RecordArgs) -> Result<()> {
    if let Some(parent) = args.parent {
        let words: Vec<OsString> = args.command.iter().map(OsString::from).collect();
        return Err(exec_with_parent(parent, &words)).context("cannot start perf");
    }
    if args.command.is_empty() && args.limit_ns.is_none() && !args.system_wide {
        return Err(bad_input(
            "what to record is missing: expected `-- COMMAND`, --for SECONDS, or --system-wide until Ctrl-C",
        ));
    }
    let stop = Arc::new(Stop::default());
    let at_signal = Arc::clone(&stop);
    ctrlc::set_handler(move || at_signal.stop()).context("cannot catch SIGINT")?;
    let mut output = OutputFile::create("--output", &args.output, &[])?;
    let taken = wakelab_record::record(&plan(args)?, &stop)?;
    let (status, warnings) = (taken.status, taken.warnings.clone());
    let written = write(taken, &args.output, output.writer(), &stop)?;
    keep_old(&args.output).with_context(|| format!("cannot keep the old {}", args.output.display()))?;
    output.finish()?;
    tell(args, &warnings, &written);
    match status {
        Some(status) if !status.success() => Err(RecordedCommandFailed(format!(
            "{} failed ({status}); {} is complete",
            args.command.join(" "),
            args.output.display()
        ))
        .into()),
        _ => Ok(()),
    }
}

fn plan(args: &RecordArgs) -> Result<Plan> {
    let without = [
        (args.no_irq, Group::Irq),
        (args.no_flow, Group::Flow),
        (args.no_yield, Group::Yield),
        (args.no_futex, Group::Futex),
        (!args.pipes, Group::Pipe),
    ];
    let this = std::env::current_exe().context("cannot find this program")?;
    Ok(Plan {
        command: args.command.clone(),
        service: args.of.clone(),
        limit: args.limit_ns.map(Duration::from_nanos),
        without: without.into_iter().filter(|(out, _)| *out).map(|(_, group)| group).collect(),
        measure: !args.no_measure,
        buffer_mb: args.buffer_mb,
        folder: folder(&args.output),
        perf: "perf".into(),
        launcher: vec![this.into(), "record".into(), "--parent".into()],
        made_by: concat!("wakelab ", env!("CARGO_PKG_VERSION")).to_owned(),
    })
}

/// Where perf's data go, which may be large: the folder of `TMPDIR` if it is set, else that of the output.
fn folder(output: &Path) -> PathBuf {
    let is_device = output.metadata().is_ok_and(|found| !found.is_file());
    if is_device || std::env::var_os("TMPDIR").is_some() {
        return std::env::temp_dir();
    }
    let target = output.canonicalize().unwrap_or_else(|_| output.to_owned());
    let parent = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

/// Writes the text, packed if the name says so.
fn write(taken: Taken, path: &Path, file: &mut File, stop: &Stop) -> Result<Written> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{spinner} perf script: {pos} events");
    let bar = bar.with_style(style.expect("the template is a constant that parses"));
    let mut watch = |events| bar.set_position(events);
    let written = if path.extension().is_some_and(|suffix| suffix == "gz") {
        let mut packer = GzEncoder::new(BufWriter::new(file), Compression::fast());
        let written = taken.write(&mut packer, stop, &mut watch)?;
        packer.finish().and_then(|mut file| file.flush()).map_err(RecordError::Write)?;
        written
    } else {
        let mut file = BufWriter::new(file);
        let written = taken.write(&mut file, stop, &mut watch)?;
        file.flush().map_err(RecordError::Write)?;
        written
    };
    bar.finish_and_clear();
    Ok(written)
}

/// Renames the file that is there, as perf does.
fn keep_old(path: &Path) -> io::Result<()> {
    if !path.is_file() {
        return Ok(());
    }
    let target = path.canonicalize()?;
    let mut old = target.clone().into_os_string();
    old.push(".old");
    std::fs::rename(target, old)
}

/// Prints what the user must know.
fn tell(args: &RecordArgs, warnings: &[String], written: &Written) {
    let path = args.output.display();
    let cost = written.event_cost_ns.map(|ns| format!("; recording took about {ns} ns for each event"));
    print::note(&format!(
        "{path}: {} events, {} lost{}",
        written.events,
        written.lost,
        cost.unwrap_or_default()
    ));
    if written.lost > 0 {
        print::note("events were lost: use a larger --buffer-mb, or leave events out with --no-flow");
    }
    if written.unknown_channels > 0 {
        print::note(&format!(
            "messages over {} pipes and eventfds are missing: their processes began while the recorder started",
            written.unknown_channels
        ));
    }
    warnings.iter().for_each(|warning| print::note(warning));
}

/// Parses the size of perf's buffer.
fn buffer_mb() -> impl TypedValueParser<Value = u32> {
    clap::value_parser!(u32)
        .range(1..=1024)
        .try_map(|mb| if mb.is_power_of_two() { Ok(mb) } else { Err("expected a power of two, such as 16") })
}
