// SPDX-License-Identifier: GPL-2.0-or-later
//! A guest: a kernel, an initramfs, and an emulated machine without network. Packs it, boots it, reads its serial
//! console.
//!
//! The console's lines of the form `@@ WHAT ...` are the guest's report, and [`Tally`] counts the steps in it; all
//! other lines are for people. vm/lib.sh is the other side.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::clang::bpf_clang;
use crate::command::{self, find_program};
use crate::vm_hang;
use crate::vm_kernel::{demand, kernel};
use crate::vm_served::{LEAST_PERCENT, Served};

/// What booting a guest takes: a package, and the program that shows that it is there.
const GUEST_NEEDS: &[(&str, &str)] = &[
    ("qemu-system-x86", "qemu-system-x86_64"),
    ("busybox-static", "busybox"),
    ("rt-tests", "hackbench"),
    ("cpio", "cpio"),
];

/// A guest that uses this much CPU time of this machine without a word has hung; wall time means nothing on a busy
/// machine. Twice what a guest of two CPUs uses while it waits for the longest that it waits for anything
/// (await 120 in vm/test.sh and lib.sh), so that what it gives up itself it can say.
const SILENCE: Duration = Duration::from_secs(480);

/// A guest that idles for ever uses no CPU time. No guest is silent for this much wall time.
const SILENCE_ON_THE_WALL: Duration = Duration::from_secs(900);

/// Time in which a guest that is asked what its tasks do prints it: some hundred lines, on a busy machine.
const LAST_WORDS: Duration = Duration::from_secs(60);

/// Scripts of vm/ that guests' inits source.
const SHARED_SCRIPTS: [&str; 3] = ["lib.sh", "long.sh", "limits.sh"];

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds a program of this workspace without shared libraries, and returns its path. Settings are the same for all
/// programs, so that they share their dependencies.
fn build_static(package: &str, arguments: &[&str], program: &str) -> Result<PathBuf> {
    let mut cargo = command::cargo();
    cargo
        .args(["build", "--quiet", "--release", "--package", package])
        .args(arguments)
        .args(["--target", TARGET])
        .env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=static")
        // It is packed into an initramfs at each run: small counts, fast does not.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "none")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    if package == "wakelab-scx" {
        let elf = command::text(Command::new("gcc").arg("-print-file-name=libelf.a"))?;
        let libraries =
            Path::new(&elf).parent().filter(|path| path.is_absolute()).context("no libelf.a (libelf-dev)")?;
        cargo.env("BPF_CLANG", bpf_clang()?).env("LIBBPF_SYS_LIBRARY_PATH", libraries);
    }
    command::run(&mut cargo).with_context(|| format!("building {program}"))?;
    Ok(command::target_folder()?.join(TARGET).join("release").join(program))
}

/// Builds `scx_wakelab` without shared libraries, and returns its path.
pub(crate) fn build_loader() -> Result<PathBuf> {
    build_static("wakelab-scx", &["--features", "static"], "scx_wakelab")
}

/// Builds `wakelab` as the tests do, and returns its path.
pub(crate) fn build_wakelab() -> Result<PathBuf> {
    command::run(command::cargo().args(["build", "--quiet", "--package", "wakelab-cli"]))
        .context("building wakelab")?;
    Ok(command::target_folder()?.join("debug/wakelab"))
}

/// Builds `wakelab-guest` without shared libraries, and returns its path.
pub(crate) fn build_guest_work() -> Result<PathBuf> {
    build_static("wakelab-guest", &[], "wakelab-guest")
}

/// How the guest's CPUs are emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accel {
    /// A thread of the host for each CPU: races, and no time that means anything on a busy host.
    Multi,
    /// Virtual time: all CPUs take turns on one thread, and the clock advances by `2^shift` ns an instruction,
    /// whichever CPU executes it. Two runs are the same to the byte. While all CPUs idle, the clock jumps to the next
    /// timer.
    Icount {
        /// 0 to 10.
        shift: u32,
    },
}

/// An emulated machine and what is in it.
pub(crate) struct Guest<'a> {
    /// Folder below target/vm that its files are packed in; two guests of one name do not run at the same time.
    pub(crate) name: &'a str,
    /// QEMU's `-smp`: `8,sockets=2,cores=2,threads=2`.
    pub(crate) smp: &'a str,
    /// How its CPUs are emulated.
    pub(crate) accel: Accel,
    /// QEMU's `-m`: `1G`.
    pub(crate) memory: &'a str,
    /// Arguments of the kernel, after those that all guests have.
    pub(crate) kernel_arguments: &'a str,
    /// Programs of the host that the guest needs besides busybox and hackbench: they come to /bin, with the shared
    /// libraries that they name.
    pub(crate) programs: Vec<PathBuf>,
    /// The guest's init, a shell script of vm/; [`SHARED_SCRIPTS`] are beside it, as /lib.sh and so on.
    pub(crate) init: &'a str,
    /// Small files: name from the guest's root, and content.
    pub(crate) files: Vec<(&'a str, String)>,
    /// When to give up.
    pub(crate) limit: Duration,
}

impl Guest<'_> {
    /// Packs the guest, boots it, and gives each line of its serial console to `line` until it powers off. Fails if it
    /// does not power off in time.
    pub(crate) fn run(&self, line: impl FnMut(&str)) -> Result<()> {
        self.run_with(&[], None, line)
    }

    /// As [`Guest::run`]; the guest also has a disk, /dev/vda, of `bytes`, and what it writes there is then in the
    /// file.
    pub(crate) fn run_with_disk(&self, path: &Path, bytes: u64, line: impl FnMut(&str)) -> Result<()> {
        self.run_inside(&[], path, bytes, line)
    }

    /// As [`Guest::run_with_disk`]; the words before QEMU's command start it where it should run.
    pub(crate) fn run_inside(
        &self,
        words: &[&OsStr],
        path: &Path,
        bytes: u64,
        line: impl FnMut(&str),
    ) -> Result<()> {
        let _ = fs::remove_file(path);
        fs::File::create(path).and_then(|file| file.set_len(bytes)).context("cannot make the disk")?;
        self.run_with(words, Some(path), line)
    }

    fn run_with(&self, words: &[&OsStr], disk: Option<&Path>, mut line: impl FnMut(&str)) -> Result<()> {
        demand("the guest", GUEST_NEEDS)?;
        let image = kernel()?;
        let initramfs = self.pack()?;
        let start = Instant::now();
        let mut machine = self.boot(words, &image, &initramfs, disk)?;
        let console = machine.qemu.stdout.take().context("no serial console")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(console).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                    break;
                }
            }
        });
        let (mut heard, mut used_then) = (Instant::now(), machine.cpu_time()?);
        let mut served = Served::new(machine.qemu.id());
        loop {
            served.look();
            match lines.recv_timeout(Duration::from_secs(1)) {
                Ok(text) => {
                    (heard, used_then) = (Instant::now(), machine.cpu_time()?);
                    if self.accel == Accel::Multi && text.starts_with("@@ failed ") {
                        line(&format!("@@ served {}", served.least_percent()));
                    }
                    if !text.is_empty() {
                        line(&text);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    let used = machine.cpu_time()?.saturating_sub(used_then);
                    let why = if start.elapsed() >= self.limit {
                        format!("not done after {} s", self.limit.as_secs())
                    } else if used >= SILENCE {
                        format!("said nothing while it used {} s of CPU time", SILENCE.as_secs())
                    } else if heard.elapsed() >= SILENCE_ON_THE_WALL {
                        format!("said nothing for {} s", SILENCE_ON_THE_WALL.as_secs())
                    } else {
                        continue;
                    };
                    for task in machine.tasks(&lines) {
                        line(&task);
                    }
                    bail!(why);
                }
            }
        }
    }

    /// Makes the initramfs: busybox, hackbench, the programs asked for, the init script and the files.
    fn pack(&self) -> Result<PathBuf> {
        let folder = command::target_folder()?.join("vm").join(self.name);
        let root = folder.join("root");
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("bin"))?;
        for name in ["dev", "proc", "sys", "tmp"] {
            fs::create_dir_all(root.join(name))?;
        }
        let copy = |from: &Path, to: &str| -> Result<()> {
            let to = root.join(to.trim_start_matches('/'));
            fs::create_dir_all(to.parent().context("no folder")?)?;
            fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
            Ok(())
        };
        let found = |name: &str| find_program(&[name]).with_context(|| format!("no {name}"));
        let mut programs = vec![found("busybox")?, found("hackbench")?];
        programs.extend_from_slice(&self.programs);
        for program in &programs {
            let name =
                program.file_name().and_then(|name| name.to_str()).context("a program without a name")?;
            copy(program, &format!("bin/{name}"))?;
            for library in shared_libraries(program)? {
                copy(Path::new(&library), &library)?;
            }
        }
        std::os::unix::fs::symlink("busybox", root.join("bin/sh"))?;
        let scripts = command::root().join("vm");
        copy(&scripts.join(self.init), "init")?;
        for shared in SHARED_SCRIPTS {
            copy(&scripts.join(shared), shared)?;
        }
        for (name, content) in &self.files {
            fs::write(root.join(name), content)?;
        }
        let archive = folder.join("initramfs.gz");
        let script = r#"cd "$0" && find . | cpio --quiet -o -H newc | gzip -1 > "$1""#;
        command::run(Command::new("sh").args(["-c", script]).arg(&root).arg(&archive))?;
        Ok(archive)
    }

    fn boot(&self, words: &[&OsStr], image: &Path, initramfs: &Path, disk: Option<&Path>) -> Result<Machine> {
        let mut qemu = command_of(words, "qemu-system-x86_64");
        match self.accel {
            Accel::Multi => qemu.args(["-accel", "tcg,thread=multi", "-cpu", "max,vendor=GenuineIntel"]),
            // Nothing of the host may get in: neither its random numbers nor its clock.
            Accel::Icount { shift } => qemu
                .args(["-accel", "tcg,thread=single", "-icount", &format!("shift={shift},sleep=off")])
                .args(["-cpu", "max,vendor=GenuineIntel,-rdrand,-rdseed"])
                .args(["-rtc", "base=2026-01-01,clock=vm", "-seed", "1", "-nic", "none"]),
        };
        // What the kernel says is read by the guest itself, so that it does not cut the guest's lines in two; a panic
        // shows.
        let arguments = format!(
            "console=ttyS0 loglevel=1 panic=-1 {} {}rcupdate.rcu_cpu_stall_timeout=60{} {}",
            vm_hang::KERNEL_ARGUMENTS,
            if self.kernel_arguments.contains("tsc=") { "" } else { "tsc=unstable " },
            if self.accel == Accel::Multi { "" } else { " nokaslr" },
            self.kernel_arguments
        );
        qemu.args(["-smp", self.smp, "-m", self.memory])
            .args([
                "-nodefaults",
                "-no-user-config",
                "-display",
                "none",
                "-serial",
                "mon:stdio",
                "-no-reboot",
            ])
            .arg("-kernel")
            .arg(image)
            .arg("-initrd")
            .arg(initramfs)
            .args(["-append", arguments.trim_end()]);
        if let Some(path) = disk {
            qemu.args(["-drive", &format!("if=virtio,format=raw,cache=unsafe,file={}", path.display())]);
        }
        qemu.stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // An interrupt from the terminal goes to xtask, which then ends the guest.
            .process_group(0);
        Ok(Machine { qemu: qemu.spawn().context("cannot run qemu-system-x86_64")? })
    }
}

/// Returns a command with words before it.
fn command_of(words: &[&OsStr], program: &str) -> Command {
    let Some((first, others)) = words.split_first() else { return Command::new(program) };
    let mut command = Command::new(first);
    command.args(others).arg(program);
    command
}

/// Returns the full paths of a program's shared libraries.
fn shared_libraries(program: &Path) -> Result<Vec<String>> {
    // ldd prints `name => path (address)` and, for the dynamic loader, `path (address)`; of a static program it says
    // so, on either stream, and may exit with 1.
    let output = Command::new("ldd").arg(program).output().context("cannot run ldd")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text
        .lines()
        .filter(|line| line.ends_with(')'))
        .flat_map(str::split_whitespace)
        .filter(|word| word.starts_with('/'))
        .map(str::to_owned)
        .collect())
}

/// A running QEMU, which is ended when this is dropped.
struct Machine {
    qemu: Child,
}

impl Machine {
    /// What the guest's tasks are doing, a line each ([`vm_hang::tasks`]). The guest ends by it.
    fn tasks(&mut self, console: &Receiver<String>) -> Vec<String> {
        if let Some(monitor) = &mut self.qemu.stdin {
            // A guest that cannot be asked prints nothing.
            let _ = monitor.write_all(vm_hang::SEND_NMI);
        }
        let deadline = Instant::now() + LAST_WORDS;
        let mut said = Vec::new();
        while let Ok(line) = console.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            said.push(line);
        }
        vm_hang::tasks(&said)
    }

    /// Returns the CPU time that all threads of the emulator have used.
    fn cpu_time(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.qemu.id())).unwrap_or_default();
        cpu_time_of(&stat).context("cannot tell what QEMU used")
    }
}

/// CPU time from the text of /proc/PID/stat (proc_pid_stat(5): fields 14 and 15, in hundredths of a second on Linux).
/// Returns 0 if the process is gone.
fn cpu_time_of(stat: &str) -> Option<Duration> {
    let Some((_, fields)) = stat.rsplit_once(')') else { return Some(Duration::ZERO) };
    let mut fields = fields.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 10))
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// How a report ends if the kernel has ejected the scheduler (stop_loader in vm/lib.sh).
const EJECTED: &str = "the scheduler was ejected";

/// The steps of a guest's report: `@@ ok STEP TENTHS` and `@@ failed STEP TEXT` are counted, `@@ note TEXT` and
/// `@@ section TEXT` printed, `@@ ready MACHINE` is the first and `@@ end` the last. Reports of other kinds are the
/// caller's.
///
/// A step is *void* if the kernel ejected the scheduler while this machine gave the guest less than [`LEAST_PERCENT`]
/// of the CPU time that it wanted (`@@ served PERCENT`, from [`Guest::run`]). So are those after it in the guest. A
/// void step has neither passed nor failed, and is to be done again.
pub(crate) struct Tally {
    /// The command's name, for what is printed.
    name: &'static str,
    passed: u32,
    failed: u32,
    /// Names of steps that reported.
    seen: Vec<String>,
    ended: bool,
    /// In percent, what the guest got of what it wanted; 100 if that is not known.
    served: u32,
    is_void: bool,
}

impl Tally {
    /// Returns a tally of nothing.
    pub(crate) fn new(name: &'static str) -> Tally {
        Tally { name, passed: 0, failed: 0, seen: Vec::new(), ended: false, served: 100, is_void: false }
    }

    /// Counts a step, and prints it.
    pub(crate) fn step(&mut self, name: &str, error: Option<&str>) {
        match error {
            None => {
                self.passed += 1;
                println!("  ok      {name}");
            }
            Some(error) => {
                self.failed += 1;
                println!("  FAILED  {name}: {error}");
            }
        }
    }

    /// Takes one line of the serial console. Returns a report of a kind unknown here as its name and the rest.
    pub(crate) fn line<'a>(&mut self, line: &'a str) -> Option<(&'a str, &'a str)> {
        let Some(report) = line.strip_prefix("@@ ") else {
            println!("  | {line}");
            return None;
        };
        let (what, rest) = report.split_once(' ').unwrap_or((report, ""));
        match what {
            "ready" => println!("{}: the guest is up: {rest}", self.name),
            "section" => println!("{rest}"),
            "note" => println!("          {rest}"),
            "served" => self.served = rest.parse().unwrap_or(100),
            "ok" | "failed" if self.is_void => println!("  void    {rest}"),
            "failed" if rest.ends_with(EJECTED) && self.served < LEAST_PERCENT => {
                println!(
                    "  void    {rest} (this machine gave the guest {} % of what it wanted)",
                    self.served
                );
                self.is_void = true;
            }
            "ok" => {
                let (step, tenths) = rest.split_once(' ').unwrap_or((rest, "0"));
                self.seen.push(step.to_owned());
                let tenths: u32 = tenths.parse().unwrap_or(0);
                self.step(&format!("{step:<12} {:>3}.{} s", tenths / 10, tenths % 10), None);
            }
            "failed" => {
                let (step, error) = rest.split_once(' ').unwrap_or((rest, ""));
                self.seen.push(step.to_owned());
                self.step(step, Some(error));
            }
            "end" => self.ended = true,
            _ => return Some((what, rest)),
        }
        None
    }

    /// Fails because of a report of an unknown kind.
    pub(crate) fn unknown(&mut self, line: &str) {
        self.step("console", Some(&format!("unknown report `{line}`")));
    }

    /// After a guest: returns those of its steps that are to be done again, because a step was void.
    pub(crate) fn take_void<'a>(&mut self, steps: &[&'a str]) -> Vec<&'a str> {
        if !std::mem::take(&mut self.is_void) {
            return Vec::new();
        }
        self.ended = false;
        self.served = 100;
        let seen = std::mem::take(&mut self.seen);
        steps.iter().copied().filter(|step| !seen.iter().any(|seen| seen == step)).collect()
    }

    /// Fails if the guest did not get to its end, or if one of its steps did not report.
    pub(crate) fn guest_ended(&mut self, ran: Result<()>, steps: &[&str]) {
        let ended = std::mem::take(&mut self.ended);
        let seen = std::mem::take(&mut self.seen);
        if let Err(error) = ran {
            self.step("guest", Some(&format!("{error:#}")));
        } else if !ended {
            self.step("guest", Some("ended before its report did"));
        }
        for step in steps.iter().filter(|step| !seen.iter().any(|seen| seen == *step)) {
            self.step(step, Some("was not done"));
        }
    }

    /// Prints the sum as `NAME: N passed, N failed, TEXT`. Fails if a step failed.
    pub(crate) fn finish(self, text: &str) -> Result<()> {
        println!("{}: {} passed, {} failed, {text}", self.name, self.passed, self.failed);
        match self.failed {
            0 => Ok(()),
            failed => bail!("{failed} steps failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_and_other_reports_given_back() {
        let mut tally = Tally::new("test");
        assert_eq!(tally.line("a message for people"), None);
        assert_eq!(tally.line("@@ ok load 12"), None);
        assert_eq!(tally.line("@@ failed unload exit code 1"), None);
        assert_eq!(tally.line("@@ ready 8 6.12"), None);
        assert_eq!(tally.line("@@ policy linux-6.12"), Some(("policy", "linux-6.12")));
        assert_eq!((tally.passed, tally.failed, tally.ended), (1, 1, false));
        assert_eq!(tally.line("@@ end"), None);
        tally.guest_ended(Ok(()), &["load", "unload"]);
        assert!(tally.finish("").is_err(), "a step failed");
    }

    #[test]
    fn a_step_of_a_guest_that_got_no_cpu_time_is_void() {
        let mut tally = Tally::new("test");
        let steps = ["reload", "fuzz", "stress-loads"];
        for line in ["@@ ok reload 10", "@@ served 9", "@@ failed fuzz the scheduler was ejected"] {
            tally.line(line);
        }
        tally.line("@@ failed kernel-log disabled");
        tally.line("@@ ok stress-loads 10");
        tally.line("@@ end");
        assert_eq!(tally.take_void(&steps), ["fuzz", "stress-loads"]);
        assert_eq!((tally.passed, tally.failed), (1, 0));
        // The second time it is the scheduler's fault, and another failure is one whatever the guest got.
        for line in ["@@ served 10", "@@ failed fuzz the scheduler was ejected"] {
            tally.line(line);
        }
        for line in ["@@ served 1", "@@ failed stress-loads exit code 1", "@@ end"] {
            tally.line(line);
        }
        assert!(tally.take_void(&steps[1..]).is_empty());
        tally.guest_ended(Ok(()), &steps[1..]);
        assert_eq!((tally.passed, tally.failed), (1, 2));
    }

    #[test]
    fn a_guest_that_does_not_reach_its_end_has_failed() {
        let outcome = |lines: &[&str], steps: &[&str], ran: Result<()>| {
            let mut tally = Tally::new("test");
            for line in lines {
                tally.line(line);
            }
            tally.guest_ended(ran, steps);
            tally.finish("").is_ok()
        };
        assert!(outcome(&["@@ ok load 1", "@@ end"], &["load"], Ok(())));
        assert!(!outcome(&["@@ ok load 1"], &["load"], Ok(())), "no end");
        assert!(!outcome(&["@@ ok load 1", "@@ end"], &["load", "kill"], Ok(())), "a step is missing");
        assert!(!outcome(&["@@ ok load 1", "@@ end"], &["load"], Err(anyhow::anyhow!("hung"))));
    }

    #[test]
    fn cpu_time_is_user_and_system_time() {
        // As proc_pid_stat(5) has it; a name may hold blanks and brackets.
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 100 0 3 0 250 50 11 12 20 0 1 0 99 0 0";
        assert_eq!(cpu_time_of(stat), Some(Duration::from_secs(3)));
        assert_eq!(cpu_time_of(""), Some(Duration::ZERO));
        assert_eq!(cpu_time_of("7 (a) S 1"), None);
        let own = fs::read_to_string("/proc/self/stat").unwrap();
        assert!(cpu_time_of(&own).is_some());
    }

    #[test]
    fn a_program_of_this_system_names_its_libraries() {
        let libraries = shared_libraries(&std::env::current_exe().unwrap()).unwrap();
        assert!(libraries.iter().all(|path| Path::new(path).is_file()), "{libraries:?}");
        assert!(libraries.iter().any(|path| path.contains("libc.so")), "{libraries:?}");
    }
}
