// SPDX-License-Identifier: GPL-2.0-or-later
//! Compiles policy/ with whatever C compiler there is.
//!
//! `WAKELAB_WERROR` turns warnings into errors: our CI sets it, so that a newer compiler's warning never breaks
//! a user's build. `WAKELAB_SANITIZE` builds the C code with sanitizers: undefined behaviour and addresses with gcc,
//! undefined behaviour alone (by a trap, which needs no runtime) with clang. gcc's address sanitizer must be loaded
//! before all else, which only a runner can do: see the stage policy-c of `cargo xtask test`.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=../../policy");
    for file in
        ["native.c", "logged.c", "log_record.h", "host_memory.h", "host_lines.h", "host_groups.h", "build.rs"]
    {
        println!("cargo:rerun-if-changed={file}");
    }
    for variable in ["WAKELAB_WERROR", "WAKELAB_SANITIZE"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let sanitize = env::var_os("WAKELAB_SANITIZE").is_some();

    let mut build = cc::Build::new();
    // The policy is the hottest code of a simulation, so it is optimised in debug builds too.
    build.file("native.c").file("logged.c").include("../../policy").std("gnu11").opt_level(2);
    build.flag("-ffreestanding").flag("-Wall").flag("-Wextra");
    if env::var_os("WAKELAB_WERROR").is_some() {
        build.flag("-Werror");
    }
    if sanitize && build.get_compiler().is_like_clang() {
        build.flag("-fsanitize=undefined").flag("-fsanitize-trap=undefined");
    } else if sanitize {
        for flag in ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"] {
            build.flag(flag);
        }
        // rustc links without the compiler's default libraries, so the runtimes (gcc's) are named.
        for library in ["-lasan", "-lubsan"] {
            println!("cargo:rustc-link-arg={library}");
        }
    }
    build.compile("wakelab_policy");
}
