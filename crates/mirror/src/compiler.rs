// SPDX-License-Identifier: GPL-2.0-or-later
//! The C compiler for policy/, with the flags of every native build.
//!
//! `WAKELAB_WERROR` turns warnings into errors: our CI sets it, so that a newer compiler's warning never breaks a
//! user's build. `WAKELAB_SANITIZE` builds the C code with sanitizers: with gcc for undefined behaviour and addresses,
//! with clang only for undefined behaviour (by a trap, which needs no runtime). gcc's address sanitizer must be loaded
//! first, which only a runner can do: see the stage policy-c of `cargo xtask test`.

use std::env;
use std::path::Path;

/// Returns a build of policy/ for the build script that calls this; `out` has the generated headers. It prints lines
/// for cargo.
pub fn compiler(policy: &Path, out: &Path) -> cc::Build {
    for variable in ["WAKELAB_WERROR", "WAKELAB_SANITIZE"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let mut build = cc::Build::new();
    // The policy is the hottest code of a simulation, so it is optimised in debug builds too.
    build.include(policy).include(out).std("gnu11").opt_level(2);
    build.flag("-ffreestanding").flag("-Wall").flag("-Wextra");
    if env::var_os("WAKELAB_WERROR").is_some() {
        build.flag("-Werror");
    }
    if env::var_os("WAKELAB_SANITIZE").is_some() {
        sanitize(&mut build);
    }
    build
}

fn sanitize(build: &mut cc::Build) {
    if build.get_compiler().is_like_clang() {
        build.flag("-fsanitize=undefined").flag("-fsanitize-trap=undefined");
        return;
    }
    for flag in ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"] {
        build.flag(flag);
    }
    // rustc does not link the compiler's default libraries, so gcc's runtimes are named here.
    for library in ["-lasan", "-lubsan"] {
        println!("cargo:rustc-link-arg={library}");
    }
}
