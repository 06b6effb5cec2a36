// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the BPF side against policy/, with the headers that scx_cargo ships, and generates its skeleton.
//!
//! Needs clang 18 or newer; `BPF_CLANG` names it if it is not `clang`.

use std::path::Path;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    // Read at run time, because a target folder that several clones share may hold a build script compiled in another
    // clone.
    let here = std::env::var("CARGO_MANIFEST_DIR").context("cargo sets CARGO_MANIFEST_DIR")?;
    let policy = Path::new(&here).join("../../policy");
    let policy = policy.canonicalize().with_context(|| format!("no {}", policy.display()))?;
    println!("cargo:rerun-if-changed={}", policy.display());
    // The scheduler; the one that logs, separate so that scheduling without a log costs nothing more; and those for our
    // own policy.
    for (source, name) in
        [("main", "bpf"), ("logged", "logged"), ("own", "own"), ("own_groups", "own_groups")]
    {
        scx_cargo::BpfBuilder::new()?
            .add_include_path(policy.to_str().context("the path of policy/ is not UTF-8")?)
            .enable_skel(&format!("src/bpf/{source}.bpf.c"), name)
            .build()?;
    }
    Ok(())
}
