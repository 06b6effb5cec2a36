// SPDX-License-Identifier: GPL-2.0-or-later
//! The test kernel (vm/README.md): Linux 6.12 with sched_ext, built once from Debian's source package and kept in the
//! cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::command::{self, Skipped, find_program};

const SOURCE_PACKAGE: &str = "linux-source-6.12";
const CONFIG: &str = "vm/kernel.config";
const SOURCE_TAR: &str = "/usr/src/linux-source-6.12.tar.xz";

/// Packages that building the kernel needs, each with the program or header that shows that it is installed.
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

/// Fails with the names of missing packages that `what` needs; `needs` are pairs of a package and the program or file
/// that shows it.
pub(crate) fn demand(what: &str, needs: &[(&str, &str)]) -> Result<()> {
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

/// Returns the folder of the test kernel, which depends on the source package's version and the configuration.
fn kernel_folder() -> Result<PathBuf> {
    let version = command::text(Command::new("dpkg-query").args(["-W", "-f=${Version}", SOURCE_PACKAGE]))?;
    let hash = command::text(Command::new("sha256sum").arg(command::root().join(CONFIG)))?;
    let hash = hash.get(..16).context("sha256sum printed no hash")?;
    Ok(command::cache()?.join("kernel").join(format!("{version}-{hash}")))
}

/// Returns the path of the bzImage, which is built if it is not in the cache.
pub(crate) fn kernel() -> Result<PathBuf> {
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

    // flock holds the lock while the build lives: a second caller waits here and then finds the image.
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

/// Whether apt knows a package. Without apt it can be installed by hand, which is no reason to skip.
fn is_packaged(package: &str) -> bool {
    match Command::new("apt-cache").args(["show", "--no-all-versions", package]).output() {
        Ok(output) => output.status.success() && !output.stdout.is_empty(),
        Err(_) => false,
    }
}
