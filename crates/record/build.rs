// SPDX-License-Identifier: GPL-2.0-or-later
//! Compiles the BPF side of the feature `bpf`. Needs clang; `BPF_CLANG` names it if it is not `clang`.

fn main() {
    #[cfg(feature = "bpf")]
    bpf::build();
}

#[cfg(feature = "bpf")]
mod bpf {
    use std::path::Path;

    use libbpf_cargo::SkeletonBuilder;

    /// The object goes where src/probes/live.rs includes it from.
    pub(super) fn build() {
        println!("cargo:rerun-if-changed=src/bpf");
        println!("cargo:rerun-if-env-changed=BPF_CLANG");
        let variable = |name: &str| std::env::var(name).ok();
        let out = variable("OUT_DIR").expect("cargo sets OUT_DIR");
        let mut builder = SkeletonBuilder::new();
        builder
            .source("src/bpf/messages.bpf.c")
            .obj(Path::new(&out).join("messages.bpf.o"))
            .clang(variable("BPF_CLANG").unwrap_or_else(|| "clang".to_owned()))
            .clang_args(["-Wall", "-Werror"]);
        if let Err(error) = builder.build() {
            panic!("cannot compile messages.bpf.c, which needs clang 18 or newer (BPF_CLANG): {error:#}");
        }
    }
}
