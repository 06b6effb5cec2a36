// SPDX-License-Identifier: GPL-2.0-or-later
//! Lists the files of `machines/` with their descriptions, sorted by name and `host` last. So a new machine needs no
//! line anywhere else. The list holds the texts, not their paths, because checkouts may share a target folder.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new("../../machines");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<(bool, String, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            println!("cargo::rerun-if-changed={}", path.display());
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            files.push((name == "host", name, path));
        }
    }
    files.sort();
    let mut list = String::from("&[\n");
    for (_, name, path) in files {
        let text = fs::read_to_string(&path)?;
        let description = description(&text).unwrap_or_else(|| {
            panic!("{}: expected a line `description = \"..\"` without escapes", path.display())
        });
        list.push_str(&format!("    ({name:?}, {description:?}, {text:?}),\n"));
    }
    list.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("machines.rs"), list)
}

/// The file's description, if it is a plain string on its own line.
fn description(text: &str) -> Option<&str> {
    let value = text.lines().find_map(|line| line.strip_prefix("description = \""))?;
    value.strip_suffix('"').filter(|value| !value.contains(['"', '\\']))
}
