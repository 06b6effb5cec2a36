// SPDX-License-Identifier: GPL-2.0-or-later
//! Compiles src/bpf/parity.bpf.c, and with it all of policy/, for BPF, and generates Rust types from its BTF.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use libbpf_cargo::SkeletonBuilder;

const SOURCE: &str = "src/bpf/parity.bpf.c";

fn main() -> Result<()> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?).join("parity.skel.rs");
    let root = here.join("../..");
    let clang = clang();
    let version = Command::new(&clang).arg("--version").output().with_context(|| {
        format!("cannot run {}: install clang 18 or newer, or set BPF_CLANG to its path", clang.display())
    })?;
    let version = String::from_utf8_lossy(&version.stdout);
    println!("cargo::rustc-env=PARITY_CLANG_VERSION={}", version.lines().next().unwrap_or("unknown"));

    SkeletonBuilder::new()
        .source(here.join(SOURCE))
        .clang(&clang)
        .clang_args([
            "-mcpu=v3".into(),
            "-Wall".into(),
            "-Werror".into(),
            "-I".into(),
            root.join("policy").into_os_string(),
        ])
        .reference_obj(true) // a file, not a megabyte of source
        .build_and_generate(&out)?;

    println!("cargo::rerun-if-changed=src/bpf");
    println!("cargo::rerun-if-changed=../../policy");
    Ok(())
}

/// `$BPF_CLANG`, or the first that runs; `cargo xtask parity` checks the version.
fn clang() -> PathBuf {
    println!("cargo::rerun-if-env-changed=BPF_CLANG");
    if let Some(path) = env::var_os("BPF_CLANG") {
        return path.into();
    }
    let names = ["clang-19", "clang-18", "clang-20", "clang-21", "clang-22", "clang"];
    let runs = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    names.iter().find(runs).unwrap_or(&"clang").into()
}
