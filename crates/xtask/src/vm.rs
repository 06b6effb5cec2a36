// SPDX-License-Identifier: GPL-2.0-or-later
//! The test kernel, and the scheduler on it under emulation (vm/README.md).
//!
//! `kernel` builds Linux 6.12 with sched_ext once and keeps it in the cache. `smoke` boots it with 8 CPUs, loads policies
//! that have every value of every axis among them, runs work under each, and counts what the guest reports on its serial console.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};

use crate::clang::bpf_clang;
use crate::command::{self, Skipped, find_program};

/// Arguments of `cargo xtask vm`.
#[derive(Args)]
pub(crate) struct VmArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Build the test kernel, or say where it is; waits for a build that already runs.
    Kernel,
    /// Load policies on the test kernel, run work under each, unload, and count.
    Smoke(SmokeArgs),
}

#[derive(Args)]
struct SmokeArgs {
    /// Only policies whose name contains this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Give up after so many seconds in the guest.
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    limit: u64,
}

/// `cargo xtask vm`.
pub(crate) fn run(args: VmArgs) -> Result<()> {
    match args.what {
        What::Kernel => {
            let image = kernel()?;
            println!("kernel: {}", image.display());
            Ok(())
        }
        What::Smoke(args) => smoke(&args),
    }
}

// ---------------------------------------------------------------- the kernel

const SOURCE_PACKAGE: &str = "linux-source-6.12";
const CONFIG: &str = "vm/kernel.config";
const SOURCE_TAR: &str = "/usr/src/linux-source-6.12.tar.xz";

/// What building the kernel takes: a package, and the program or header that shows that it is there.
const KERNEL_NEEDS: &[(&str, &str)] = &[
    ("gcc", "gcc"),
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("pahole", "pahole"),
    ("xz-utils", "xz"),
    ("libssl-dev", "/usr/include/openssl/ssl.h"),
    ("libelf-dev", "/usr/include/gelf.h"),
    (SOURCE_PACKAGE, SOURCE_TAR),
];

/// What booting it takes.
const GUEST_NEEDS: &[(&str, &str)] = &[
    ("qemu-system-x86", "qemu-system-x86_64"),
    ("busybox-static", "busybox"),
    ("rt-tests", "hackbench"),
    ("cpio", "cpio"),
];

fn demand(what: &str, needs: &[(&str, &str)]) -> Result<()> {
    let there = |probe: &str| match probe.starts_with('/') {
        true => Path::new(probe).exists(),
        false => find_program(&[probe]).is_some(),
    };
    let missing: Vec<&str> =
        needs.iter().filter(|(_, probe)| !there(probe)).map(|(package, _)| *package).collect();
    if !missing.is_empty() {
        bail!(
            "{what} needs packages that are missing: {} (cargo xtask setup installs them)",
            missing.join(" ")
        );
    }
    Ok(())
}

/// Whether [`kernel`] would find the test kernel already built.
pub(crate) fn kernel_is_cached() -> Result<bool> {
    Ok(Path::new(SOURCE_TAR).exists() && kernel_folder()?.join("bzImage").exists())
}

/// Where the test kernel is kept, by what it is made of: the source package's version and the configuration.
fn kernel_folder() -> Result<PathBuf> {
    let version = command::text(Command::new("dpkg-query").args(["-W", "-f=${Version}", SOURCE_PACKAGE]))?;
    let hash = command::text(Command::new("sha256sum").arg(command::root().join(CONFIG)))?;
    let hash = hash.get(..16).context("sha256sum printed no hash")?;
    Ok(command::cache()?.join("kernel").join(format!("{version}-{hash}")))
}

/// The bzImage, built if it is not in the cache.
fn kernel() -> Result<PathBuf> {
    if !Path::new(SOURCE_TAR).exists() && !is_packaged(SOURCE_PACKAGE) {
        return Err(Skipped(format!(
            "the test kernel is built from Debian's package {SOURCE_PACKAGE}, which this distribution does not have"
        ))
        .into());
    }
    demand("the test kernel", KERNEL_NEEDS)?;
    let folder = kernel_folder()?;
    let image = folder.join("bzImage");
    if image.exists() {
        return Ok(image);
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;

    // flock holds the lock as long as the build lives: a second caller waits here and then finds the image.
    println!("kernel: building it in {}, 10 to 20 minutes on two cores", folder.display());
    let script = r#"[ -e "$3/bzImage" ] || exec nice -n 19 sh "$0" "$1" "$2" "$3""#;
    let mut build = Command::new("flock")
        .arg(folder.join("lock"))
        .args(["sh", "-c", script])
        .arg(command::root().join("vm/build-kernel.sh"))
        .arg(SOURCE_TAR)
        .arg(command::root().join(CONFIG))
        .arg(&folder)
        .spawn()
        .context("cannot run flock")?;
    let start = Instant::now();
    let mut minutes = 0;
    let status = loop {
        if let Some(status) = build.try_wait()? {
            break status;
        }
        thread::sleep(Duration::from_millis(500));
        if start.elapsed().as_secs() / 60 > minutes {
            minutes = start.elapsed().as_secs() / 60;
            println!("kernel: building, {minutes} min");
        }
    };
    if !status.success() || !image.exists() {
        bail!("building the kernel failed: {status}; see {}", folder.join("build.log").display());
    }
    Ok(image)
}

/// Whether apt knows a package. Without apt, a package is something to be installed by hand: that is not a reason to skip.
fn is_packaged(package: &str) -> bool {
    match Command::new("apt-cache").args(["show", "--no-all-versions", package]).output() {
        Ok(output) => output.status.success() && !output.stdout.is_empty(),
        Err(_) => false,
    }
}

// ---------------------------------------------------------------- the loader and the guest's files

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds `scx_wakelab` without shared libraries and gives its path.
fn build_loader() -> Result<PathBuf> {
    let clang = bpf_clang()?;
    let elf = command::text(Command::new("gcc").arg("-print-file-name=libelf.a"))?;
    let libraries =
        Path::new(&elf).parent().filter(|path| path.is_absolute()).context("no libelf.a (libelf-dev)")?;
    let mut cargo = command::cargo();
    cargo
        .args(["build", "--quiet", "--release", "--package", "wakelab-scx", "--features", "static"])
        .args(["--target", TARGET])
        .env("BPF_CLANG", clang)
        .env("LIBBPF_SYS_LIBRARY_PATH", libraries)
        .env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=static")
        // It is packed into an initramfs at each run: small counts, fast does not.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "none")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    command::run(&mut cargo).context("building scx_wakelab")?;
    Ok(command::target_folder()?.join(TARGET).join("release/scx_wakelab"))
}

/// Packs the guest: busybox, hackbench and its libraries, the loader, vm/init.sh, and which policies to run.
fn pack_initramfs(loader: &Path, policies: &[String], folder: &Path) -> Result<PathBuf> {
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
    let program = |name: &str| find_program(&[name]).with_context(|| format!("no {name}"));
    copy(&program("busybox")?, "bin/busybox")?;
    std::os::unix::fs::symlink("busybox", root.join("bin/sh"))?;
    let hackbench = program("hackbench")?;
    copy(&hackbench, "bin/hackbench")?;
    // ldd prints `name => path (address)` and, for the dynamic loader, `path (address)`.
    let libraries = command::text(Command::new("ldd").arg(&hackbench))?;
    for path in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
        copy(Path::new(path), path)?;
    }
    copy(loader, "bin/scx_wakelab")?;
    copy(&command::root().join("vm/init.sh"), "init")?;
    fs::write(root.join("policies"), policies.join("\n") + "\n")?;

    let archive = folder.join("initramfs.gz");
    let script = r#"cd "$0" && find . | cpio --quiet -o -H newc | gzip -1 > "$1""#;
    command::run(Command::new("sh").args(["-c", script]).arg(&root).arg(&archive))?;
    Ok(archive)
}

// ---------------------------------------------------------------- the guest

/// A guest that has said nothing for so long has hung: the slowest step under emulation takes a fraction of it.
const SILENCE: Duration = Duration::from_secs(240);

struct Guest {
    qemu: Child,
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

fn boot(image: &Path, initramfs: &Path) -> Result<Guest> {
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args([
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max,vendor=GenuineIntel",
        "-smp",
        "8,sockets=2,cores=2,threads=2",
        "-m",
        "1G",
    ])
    .args(["-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot"])
    .arg("-kernel")
    .arg(image)
    .arg("-initrd")
    .arg(initramfs)
    // What the kernel says is read by the guest itself, so that it does not cut the guest's lines in two; a panic shows.
    .args(["-append", "console=ttyS0 loglevel=1 panic=-1 tsc=unstable rcupdate.rcu_cpu_stall_timeout=60"])
    .stdin(Stdio::null())
    .stdout(Stdio::piped())
    // An interrupt from the terminal goes to xtask, which then ends the guest.
    .process_group(0);
    Ok(Guest { qemu: qemu.spawn().context("cannot run qemu-system-x86_64")? })
}

/// What the guest has said so far.
#[derive(Default)]
struct Tally {
    passed: u32,
    failed: u32,
    policies: usize,
    ended: bool,
}

impl Tally {
    fn step(&mut self, name: &str, error: Option<&str>) {
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

    /// One line of the serial console; vm/init.sh says what its lines mean.
    fn line(&mut self, line: &str) {
        let Some(report) = line.strip_prefix("@@ ") else {
            println!("  | {line}");
            return;
        };
        let (what, rest) = report.split_once(' ').unwrap_or((report, ""));
        match what {
            "ready" => println!("smoke: the guest is up: {rest}"),
            "policy" => {
                self.policies += 1;
                println!("{rest}");
            }
            "safety" => println!("safety"),
            "topology" => {
                let error = (rest != TOPOLOGY).then(|| format!("detected `{rest}`, not `{TOPOLOGY}`"));
                self.step("topology", error.as_deref());
            }
            "ok" => {
                let (step, tenths) = rest.split_once(' ').unwrap_or((rest, "0"));
                let tenths: u32 = tenths.parse().unwrap_or(0);
                self.step(&format!("{step:<12} {:>3}.{} s", tenths / 10, tenths % 10), None);
            }
            "failed" => {
                let (step, error) = rest.split_once(' ').unwrap_or((rest, ""));
                self.step(step, Some(error));
            }
            "end" => self.ended = true,
            _ => self.step("console", Some(&format!("unknown report `{line}`"))),
        }
    }
}

/// What the loader must detect in the guest: `-smp 8,sockets=2,cores=2,threads=2`.
const TOPOLOGY: &str = "8 CPUs, 4 cores of 2, 2 LLCs of 4, 1 node";

fn smoke(args: &SmokeArgs) -> Result<()> {
    demand("the guest", GUEST_NEEDS)?;
    let image = kernel()?;
    let start = Instant::now();
    let loader = build_loader()?;
    let listed = command::text(Command::new(&loader).arg("--list-policies"))?;
    let policies: Vec<String> =
        listed.lines().filter(|name| name.contains(&args.only)).map(str::to_owned).collect();
    if policies.is_empty() {
        bail!("no policy contains `{}`", args.only);
    }
    let folder = command::target_folder()?.join("vm");
    let initramfs = pack_initramfs(&loader, &policies, &folder)?;
    println!(
        "smoke: {} policies, loader and initramfs after {} s",
        policies.len(),
        start.elapsed().as_secs()
    );

    let start = Instant::now();
    let mut guest = boot(&image, &initramfs)?;
    let console = guest.qemu.stdout.take().context("no serial console")?;
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(console).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                break;
            }
        }
    });

    let mut tally = Tally::default();
    let limit = Duration::from_secs(args.limit);
    loop {
        let left = limit.saturating_sub(start.elapsed()).min(SILENCE);
        match lines.recv_timeout(left) {
            Ok(line) if line.is_empty() => {}
            Ok(line) => tally.line(&line),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if start.elapsed() >= limit => {
                tally.step("guest", Some(&format!("not done after {} s", args.limit)));
                break;
            }
            Err(RecvTimeoutError::Timeout) => {
                tally.step("guest", Some(&format!("said nothing for {} s", SILENCE.as_secs())));
                break;
            }
        }
    }
    drop(guest);
    if !tally.ended {
        tally.step("guest", Some("ended before its report did"));
    } else if tally.policies != policies.len() {
        tally.step("guest", Some(&format!("ran {} of {} policies", tally.policies, policies.len())));
    }
    println!(
        "smoke: {} passed, {} failed, {} s in the guest",
        tally.passed,
        tally.failed,
        start.elapsed().as_secs()
    );
    match tally.failed {
        0 => Ok(()),
        failed => bail!("{failed} steps failed"),
    }
}
