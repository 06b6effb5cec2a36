// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask lists`: writes the lists that follow from other files, so that a new design is not written in them.
//!
//! - policy/idle.h: which file and which function each value of the axis `idle` has. The enumeration in
//!   policy/params.h is the source: a value `WL_IDLE_FOO` whose comment opens with `idle_foo.h:` is searched for by
//!   `wl_search_foo()` of that file. The first value is left out, because the switch's default names it.
//! - crates/policy/tests/policy/main.rs: a module for each file of its folder.
//!
//! `cargo xtask style` fails while a list is stale.

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;
use wakelab_mirror::words::Comment;
use wakelab_mirror::{Enum, Headers};

use crate::command::root;

const AXIS: &str = "wl_idle_axis";
const SEARCHES: &str = "policy/idle.h";
const TESTS: &str = "crates/policy/tests/policy/main.rs";
const INCLUDES: &str = "/* The designs' files; `cargo xtask lists` writes these lines. */\n";
const CASES: &str = "\t/* `cargo xtask lists` writes the cases. */\n";
const MODULES: &str = "// The files of this folder; `cargo xtask lists` writes these lines.\n";

#[derive(Args)]
pub(crate) struct ListsArgs {
    /// Fail if a list is stale instead of writing it
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &ListsArgs) -> Result<()> {
    for (file, text) in stale()? {
        if args.check {
            bail!("{file}: a list is stale: run cargo xtask lists");
        }
        std::fs::write(root().join(file), text).with_context(|| format!("cannot write {file}"))?;
        println!("lists: {file} has changed");
    }
    Ok(())
}

/// Adds a finding for each file with a stale list.
pub(crate) fn check(findings: &mut Vec<String>) -> Result<()> {
    findings
        .extend(stale()?.iter().map(|(file, _)| format!("{file}: a list is stale: run cargo xtask lists")));
    Ok(())
}

/// The files whose lists are stale, with their text of today.
fn stale() -> Result<Vec<(&'static str, String)>> {
    let read = |file: &str| {
        std::fs::read_to_string(root().join(file)).with_context(|| format!("cannot read {file}"))
    };
    let (searches, tests) = (read(SEARCHES)?, read(TESTS)?);
    let folder = root().join(TESTS).parent().map(Path::to_path_buf).context("a file has a folder")?;
    let fresh = [
        (SEARCHES, fresh_searches(&root().join("policy"), &searches)?, searches),
        (TESTS, replace(TESTS, &tests, MODULES, None, &modules(&folder)?)?, tests),
    ];
    Ok(fresh
        .into_iter()
        .filter(|(_, fresh, old)| fresh != old)
        .map(|(file, fresh, _)| (file, fresh))
        .collect())
}

/// A `mod` line for each Rust file of the folder but main.rs, in alphabetical order.
fn modules(folder: &Path) -> Result<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let module = name.to_str().and_then(|name| name.strip_suffix(".rs"));
        names.extend(module.filter(|&module| module != "main").map(|module| format!("mod {module};\n")));
    }
    names.sort();
    Ok(names.concat())
}

/// Returns `text` of idle.h with the lines that params.h asks for.
pub(crate) fn fresh_searches(policy: &Path, text: &str) -> Result<String> {
    let headers = Headers::read(&[policy.join("params.h")], &[policy.to_path_buf()], &[])?;
    let axis = headers.find_enum(AXIS).with_context(|| format!("params.h has no enum {AXIS}"))?;
    let text = replace(SEARCHES, text, INCLUDES, Some("\n"), &includes(axis)?)?;
    replace(SEARCHES, &text, CASES, Some("\tdefault:"), &cases(axis))
}

/// The `#include` lines, in alphabetical order.
fn includes(axis: &Enum) -> Result<String> {
    let file = |value: &wakelab_mirror::Value| {
        Comment::of(&value.doc).file.with_context(|| format!("{}'s comment names no file", value.name))
    };
    let mut files = axis.choices().iter().map(file).collect::<Result<Vec<_>>>()?;
    files.sort();
    files.dedup();
    Ok(files.iter().map(|file| format!("#include \"{file}\"\n")).collect())
}

/// The cases of the switch, in the order of params.h.
fn cases(axis: &Enum) -> String {
    let name = |value: &wakelab_mirror::Value| value.name[axis.prefix().len()..].to_ascii_lowercase();
    let case = |value: &wakelab_mirror::Value| {
        format!("\tcase {}:\n\t\treturn wl_search_{}(p, s, t, out);\n", value.name, name(value))
    };
    axis.choices().iter().skip(1).map(case).collect()
}

/// `text` of `file` with what stands between `begin` and the next line that starts with `end` (the text's end if
/// `None`) replaced.
fn replace(file: &str, text: &str, begin: &str, end: Option<&str>, with: &str) -> Result<String> {
    let at = text.find(begin).with_context(|| format!("{file} lacks the line {begin:?}"))? + begin.len();
    let rest = &text[at..];
    let length = match end {
        None => rest.len(),
        Some(end) if rest.starts_with(end) => 0,
        Some(end) => {
            rest.find(&format!("\n{end}")).with_context(|| format!("{file}: no {end:?} after {begin:?}"))? + 1
        }
    };
    Ok(format!("{}{with}{}", &text[..at], &rest[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: &str = "/* How. */\nenum wl_idle_axis {\n\t/* idle_a.h: The first. */\n\tWL_IDLE_A,\n\t\
                          /* idle_b_c.h: Another. */\n\tWL_IDLE_B_C,\n};\n";

    fn folder(params: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("params.h"), params).unwrap();
        folder
    }

    #[test]
    fn each_value_but_the_first_gets_a_case_and_each_its_file() {
        let folder = folder(PARAMS);
        let text = format!("a\n{INCLUDES}#include \"old.h\"\n\nb\n{CASES}\tdefault:\n\t\treturn 0;\n");
        let expected = format!(
            "a\n{INCLUDES}#include \"idle_a.h\"\n#include \"idle_b_c.h\"\n\nb\n{CASES}\tcase WL_IDLE_B_C:\n\t\t\
             return wl_search_b_c(p, s, t, out);\n\tdefault:\n\t\treturn 0;\n"
        );
        let written = fresh_searches(folder.path(), &text).unwrap();
        assert_eq!(written, expected);
        assert_eq!(fresh_searches(folder.path(), &written).unwrap(), written);
    }

    #[test]
    fn a_design_without_a_file_is_refused() {
        let folder = folder(&PARAMS.replace("idle_b_c.h: ", ""));
        let error = fresh_searches(folder.path(), INCLUDES).unwrap_err();
        assert_eq!(error.to_string(), "WL_IDLE_B_C's comment names no file");
    }

    #[test]
    fn each_file_of_a_folder_but_main_is_a_module() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.rs", "a.rs", "main.rs", "c.txt"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(modules(folder.path()).unwrap(), "mod a;\nmod b;\n");
    }

    #[test]
    fn the_lists_in_this_repository_are_fresh() {
        let mut findings = Vec::new();
        check(&mut findings).unwrap();
        assert_eq!(findings, Vec::<String>::new());
    }
}
