// SPDX-License-Identifier: GPL-2.0-or-later
//! What the tests need from the distribution: installed by apt as root, or named in one clear line.

use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use crate::clang::bpf_clang;
use crate::command::{self, find_program};

/// Arguments of `cargo xtask setup`.
#[derive(Args)]
pub(crate) struct SetupArgs {
    /// Only say what is missing; exit code 1 if anything is.
    #[arg(long)]
    check: bool,
}

/// A package, and what shows that it is there.
struct Need {
    package: &'static str,
    what_for: &'static str,
    probe: Probe,
}

enum Probe {
    Clang,
    Program(&'static [&'static str]),
    File(&'static [&'static str]),
}

impl Probe {
    fn holds(&self) -> bool {
        match self {
            Probe::Clang => bpf_clang().is_ok(),
            Probe::Program(names) => find_program(names).is_some(),
            Probe::File(paths) => paths.iter().any(|path| std::path::Path::new(path).exists()),
        }
    }
}

/// Names of clang-format in the version whose output the tree follows.
pub(crate) const CLANG_FORMAT: &[&str] = &["clang-format-19"];

/// Names of the browser that opens pages in tests, as in crates/cli/tests/report.rs.
pub(crate) const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

const NEEDS: &[Need] = &[
    Need { package: "gcc", what_for: "building policy/ and linking", probe: Probe::Program(&["gcc", "cc"]) },
    Need { package: "clang-19", what_for: "BPF and sanitizers", probe: Probe::Clang },
    Need { package: "clang-format-19", what_for: "the C style check", probe: Probe::Program(CLANG_FORMAT) },
    Need {
        package: "libclang-rt-19-dev",
        what_for: "sanitizers with clang",
        probe: Probe::File(&["/usr/lib/llvm-19/lib/clang/19/lib/linux"]),
    },
    Need {
        package: "libclang-19-dev",
        what_for: "bindgen in the scx crates",
        probe: Probe::File(&["/usr/lib/llvm-19/lib/libclang.so", "/usr/lib/llvm-18/lib/libclang.so"]),
    },
    Need { package: "make", what_for: "libbpf and the kernel", probe: Probe::Program(&["make"]) },
    Need { package: "pkg-config", what_for: "libbpf", probe: Probe::Program(&["pkg-config", "pkgconf"]) },
    Need { package: "libelf-dev", what_for: "libbpf", probe: Probe::File(&["/usr/include/libelf.h"]) },
    Need { package: "zlib1g-dev", what_for: "libbpf", probe: Probe::File(&["/usr/include/zlib.h"]) },
    Need { package: "libzstd-dev", what_for: "static libelf", probe: Probe::File(&["/usr/include/zstd.h"]) },
    Need {
        package: "libssl-dev",
        what_for: "the kernel build",
        probe: Probe::File(&["/usr/include/openssl/ssl.h"]),
    },
    Need { package: "flex", what_for: "the kernel build", probe: Probe::Program(&["flex"]) },
    Need { package: "bison", what_for: "the kernel build", probe: Probe::Program(&["bison"]) },
    Need { package: "bc", what_for: "the kernel build", probe: Probe::Program(&["bc"]) },
    Need { package: "xz-utils", what_for: "the kernel build", probe: Probe::Program(&["xz"]) },
    Need { package: "cpio", what_for: "the guest's initramfs", probe: Probe::Program(&["cpio"]) },
    Need { package: "dpkg-dev", what_for: "the Debian package", probe: Probe::Program(&["dpkg-shlibdeps"]) },
    Need { package: "pahole", what_for: "the kernel's BTF", probe: Probe::Program(&["pahole"]) },
    Need {
        package: "qemu-system-x86",
        what_for: "the guest",
        probe: Probe::Program(&["qemu-system-x86_64"]),
    },
    Need {
        package: "busybox-static",
        what_for: "the guest",
        probe: Probe::File(&["/bin/busybox", "/usr/bin/busybox"]),
    },
    Need {
        package: "python3-venv",
        what_for: "the Python package and its tests",
        probe: Probe::Program(&["python3"]),
    },
    Need { package: "chromium", what_for: "pages of results", probe: Probe::Program(BROWSERS) },
    Need { package: "rt-tests", what_for: "hackbench in the guest", probe: Probe::Program(&["hackbench"]) },
    Need { package: "stress-ng", what_for: "stress in the guest", probe: Probe::Program(&["stress-ng"]) },
    Need {
        package: "linux-source-6.12",
        what_for: "the test kernel",
        probe: Probe::File(&["/usr/src/linux-source-6.12.tar.xz"]),
    },
];

/// Installs what is missing, or says what is.
pub(crate) fn run_setup(check: bool) -> Result<()> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !need.probe.holds()).collect();
    if missing.is_empty() {
        println!("setup: everything is there");
        return Ok(());
    }
    for need in &missing {
        println!("setup: missing {} ({})", need.package, need.what_for);
    }
    let names: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let command_line = format!("apt-get install -y --no-install-recommends {}", names.join(" "));
    if check {
        bail!("as root: {command_line}");
    }
    if find_program(&["apt-get"]).is_none() || !is_root() {
        bail!("not root, or no apt; as root: {command_line}");
    }
    command::run(Command::new("apt-get").args(["-qq", "update"]))?;
    // One by one: a package that a distribution does not have must not keep the others away.
    let mut absent = Vec::new();
    for name in names {
        let result = command::run(
            Command::new("apt-get")
                .env("DEBIAN_FRONTEND", "noninteractive")
                .args(["-qq", "-y", "-o", "Dpkg::Use-Pty=0", "install", "--no-install-recommends", name])
                .stdout(std::process::Stdio::null()),
        );
        if result.is_err() {
            absent.push(name);
        }
    }
    if !absent.is_empty() {
        bail!("apt has no {}: the stages that need it will be skipped", absent.join(", "));
    }
    Ok(())
}

/// `cargo xtask setup`.
pub(crate) fn run(args: &SetupArgs) -> Result<()> {
    run_setup(args.check)
}

pub(crate) fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
