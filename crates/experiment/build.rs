// SPDX-License-Identifier: GPL-2.0-or-later
//! Lists the files of `experiments/`, sorted by name, so that a new experiment needs no line anywhere else.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new("../../experiments");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    let mut list = String::from("&[\n");
    for path in files {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        println!("cargo::rerun-if-changed={}", path.display());
        list.push_str(&format!("    ({stem:?}, {:?}),\n", fs::read_to_string(&path)?));
    }
    list.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("experiments.rs"), list)
}
