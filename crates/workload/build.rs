// SPDX-License-Identifier: GPL-2.0-or-later
//! Lists the files of `workloads/`, sorted by name, so that a new workload needs no line anywhere else.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new("../../workloads");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            files.push((name, path));
        }
    }
    files.sort();
    let mut list = String::from("&[\n");
    for (name, path) in files {
        println!("cargo::rerun-if-changed={}", path.display());
        list.push_str(&format!("    ({name:?}, {:?}),\n", fs::read_to_string(&path)?));
    }
    list.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("workloads.rs"), list)
}
