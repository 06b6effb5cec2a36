// SPDX-License-Identifier: GPL-2.0-or-later
//! The control group in which `cargo xtask truth` and `truth-groups` run what they measure. Other programs use the
//! machine meanwhile, so it has the largest weight there is. Without it, programs of several sessions would be in
//! several autogroups, whose weights on a CPU follow what ran there before, which no recording tells.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::command::Skipped;

/// The group of all that compete, below the root.
pub(crate) const BASE: &str = "/wakelab-truth";
/// Its `cpu.weight`, the largest one.
const BASE_WEIGHT: u32 = 10_000;
/// The control groups of [`BASE`], which end with this.
pub(crate) struct Groups {
    /// [`BASE`] as a folder.
    folder: PathBuf,
    is_version_1: bool,
    /// The folders made, parents first.
    made: Vec<PathBuf>,
}

impl Groups {
    /// Makes the group of all that compete.
    ///
    /// # Errors
    /// [`Skipped`] without root or without the controller `cpu`.
    pub(crate) fn new() -> Result<Groups> {
        let [version_1, version_2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].map(Path::new);
        let is_version_1 = version_1.join("cpu.shares").exists();
        let root = if is_version_1 { version_1 } else { version_2 };
        let controllers = fs::read_to_string(version_2.join("cgroup.controllers")).unwrap_or_default();
        if !is_version_1 && !controllers.split_whitespace().any(|name| name == "cpu") {
            return Err(Skipped("there is no controller `cpu` in /sys/fs/cgroup".to_owned()).into());
        }
        let folder = root.join(&BASE[1..]);
        let mut groups = Groups { folder: folder.clone(), is_version_1, made: Vec::new() };
        groups.allow_below(root)?;
        groups.make(&folder, BASE_WEIGHT).map_err(|error| Skipped(format!("{error:#} (root is needed)")))?;
        Ok(groups)
    }

    /// Returns the folder of the group of all that compete.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes groups below it: paths with their weights, parents first.
    pub(crate) fn make_below(&mut self, groups: impl Iterator<Item = (&'static str, u32)>) -> Result<()> {
        self.allow_below(&self.folder)?;
        for (path, weight) in groups {
            let folder = self.folder.join(&path[1..]);
            self.make(&folder, weight)?;
        }
        Ok(())
    }

    /// Returns the words before a command that make it run in the group of all that compete.
    pub(crate) fn inside(&self) -> [&OsStr; 4] {
        let enter = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
        ["sh".as_ref(), "-c".as_ref(), enter.as_ref(), self.folder.as_os_str()]
    }

    fn make(&mut self, folder: &Path, weight: u32) -> Result<()> {
        if !folder.exists() {
            fs::create_dir(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            self.made.push(folder.to_owned());
        }
        let (file, value) = match self.is_version_1 {
            true => ("cpu.shares", weight * 1024 / 100),
            false => ("cpu.weight", weight),
        };
        let file = folder.join(file);
        fs::write(&file, value.to_string()).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Version 2: groups below `folder` get the controller.
    fn allow_below(&self, folder: &Path) -> Result<()> {
        if self.is_version_1 {
            return Ok(());
        }
        fs::write(folder.join("cgroup.subtree_control"), "+cpu")
            .with_context(|| format!("cannot give groups below {} the controller `cpu`", folder.display()))
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        // They are empty, because all that competed has ended. What cannot be removed stays.
        self.made.iter().rev().for_each(|folder| drop(fs::remove_dir(folder)));
    }
}
