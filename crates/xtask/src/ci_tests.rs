// SPDX-License-Identifier: GPL-2.0-or-later
//! .ci/source-times, in clones of a small repository.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::UNIX_EPOCH;

use crate::command::root;

/// A time long before now, in seconds.
const LONG_AGO: u64 = 1_000_000_000;

fn git(folder: &Path, arguments: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments).current_dir(folder);
    let output = git.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Clones `from` to `to`, which is removed before, and runs the script there.
fn clone(from: &Path, to: &Path, target: &Path) {
    let _ = fs::remove_dir_all(to);
    git(from, &["clone", "--quiet", ".", to.to_str().unwrap()]);
    source_times(to, target);
}

fn source_times(clone: &Path, target: &Path) {
    let script = root().join(".ci/source-times");
    assert!(Command::new(script).arg(target).current_dir(clone).status().unwrap().success());
}

/// Whether each of the paths has the time [`LONG_AGO`].
fn old<const N: usize>(clone: &Path, names: [&str; N]) -> [bool; N] {
    names.map(|name| {
        let time = fs::metadata(clone.join(name)).unwrap().modified().unwrap();
        time.duration_since(UNIX_EPOCH).unwrap().as_secs() == LONG_AGO
    })
}

/// Changes all times that the script knows.
fn make_old(target: &Path) {
    let path = target.join("source-times");
    let text = fs::read_to_string(&path).unwrap();
    let (place, rest) = text.split_once('\n').unwrap();
    let old = rest.lines().map(|line| format!("{LONG_AGO} {}\n", line.split_once(' ').unwrap().1));
    fs::write(path, format!("{place}\n{}", old.collect::<String>())).unwrap();
}

#[test]
fn a_new_clone_keeps_the_times_of_what_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to, target] = ["from", "to", "target"].map(|name| folder.path().join(name));
    write(&from, "same/a b.txt", "1");
    write(&from, "other/changes", "1");
    write(&from, "other/stays", "1");
    write(&from, "gone/stays", "1");
    write(&from, "gone/goes", "1");
    git(&from, &["init", "--quiet"]);
    git(&from, &["add", "."]);
    git(&from, &["commit", "--quiet", "-m", "1"]);
    clone(&from, &to, &target);
    let all = ["same", "same/a b.txt", "other/stays", "gone/stays", "other", "other/changes", "gone"];
    assert_eq!(old(&to, all), [false; 7], "the first time");

    make_old(&target);
    write(&from, "other/changes", "2");
    fs::remove_file(from.join("gone/goes")).unwrap();
    git(&from, &["commit", "--quiet", "-a", "-m", "2"]);
    clone(&from, &to, &target);
    assert_eq!(old(&to, all), [true, true, true, true, false, false, false]);
    // What is changed in the clone later has its own time.
    write(&to, "same/a b.txt", "2");
    git(&to, &["commit", "--quiet", "-a", "-m", "3"]);
    source_times(&to, &target);
    assert_eq!(old(&to, ["same/a b.txt", "other/stays"]), [false, true]);

    // A change that is taken back is a change of what the last run had.
    git(&from, &["revert", "--no-edit", "HEAD"]);
    clone(&from, &to, &target);
    assert_eq!(old(&to, all), [true, true, true, true, false, false, false]);

    make_old(&target);
    let elsewhere = folder.path().join("elsewhere");
    clone(&from, &elsewhere, &target);
    assert_eq!(old(&elsewhere, all), [false; 7], "another place");
}
