// SPDX-License-Identifier: GPL-2.0-or-later
//! The example of docs/guide/add-a-design.md, added to a copy of policy/ and compiled.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::{find_program, root};
use crate::lists;

/// Returns the blocks of C of a page.
fn c_blocks(page: &str) -> Vec<&str> {
    page.split("```c\n").skip(1).filter_map(|rest| rest.split_once("```")).map(|(block, _)| block).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(fs::copy(&path, &target).unwrap()),
        }
    }
}

#[test]
fn the_example_design_compiles() {
    let page = fs::read_to_string(root().join("docs/guide/add-a-design.md")).unwrap();
    let [design, value] = c_blocks(&page)[..] else { panic!("the page has a file and a value") };
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy");
    copy(&root().join("policy"), &policy);

    fs::write(policy.join("idle_first.h"), design).unwrap();
    let mut params = fs::read_to_string(policy.join("params.h")).unwrap();
    let axis = params.find("enum wl_idle_axis {").unwrap();
    let end = axis + params[axis..].find("};").unwrap();
    params.insert_str(end, value);
    fs::write(policy.join("params.h"), params).unwrap();
    let idle = fs::read_to_string(policy.join("idle.h")).unwrap();
    let idle = lists::fresh_searches(&policy, &idle).unwrap();
    assert!(idle.contains("wl_search_first(p, s, t, out)"), "{idle}");
    fs::write(policy.join("idle.h"), idle).unwrap();

    // What crates/policy compiles, less its exported wrappers.
    let source = folder.path().join("check.c");
    fs::write(
        &source,
        "#include \"host/memory.h\"\n#include \"host/lines.h\"\n#include \"host/groups.h\"\n#include \"core.h\"\n",
    )
    .unwrap();
    let output = Command::new(find_program(&["cc", "gcc", "clang"]).expect("a C compiler"))
        .args(["-std=gnu11", "-ffreestanding", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"])
        .arg("-Wno-unused-function")
        .arg("-I")
        .arg(&policy)
        .arg(&source)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
