// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask dispatch`: writes into policy/idle.h which file and which function each value of the axis `idle` has.
//!
//! The enumeration in policy/params.h is the list. A value `WL_IDLE_FOO` whose comment opens with `idle_foo.h:` is
//! searched for by `wl_search_foo()` of that file. The first value is left out: the switch's default names it. So a new
//! design is a file and a line in params.h, and this command does the rest; `cargo xtask style` checks that it ran.

use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use wakelab_mirror::words::Comment;
use wakelab_mirror::{Enum, Headers};

use crate::command::root;

const AXIS: &str = "wl_idle_axis";
const FILE: &str = "policy/idle.h";
const INCLUDES: &str = "/* The designs' files; `cargo xtask dispatch` writes these lines. */\n";
const CASES: &str = "	/* `cargo xtask dispatch` writes the cases. */\n";

#[derive(Args)]
pub(crate) struct DispatchArgs {
    /// Fail if policy/idle.h is stale instead of writing it
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &DispatchArgs) -> Result<()> {
    let path = root().join(FILE);
    let before = std::fs::read_to_string(&path).with_context(|| format!("cannot read {FILE}"))?;
    let after = fresh(&root().join("policy"), &before)?;
    if before == after {
        return Ok(());
    }
    if args.check {
        anyhow::bail!("{FILE} lacks a design of params.h: run cargo xtask dispatch");
    }
    std::fs::write(&path, after).with_context(|| format!("cannot write {FILE}"))?;
    println!("dispatch: {FILE} has changed");
    Ok(())
}

/// Adds a finding if policy/idle.h and policy/params.h do not agree.
pub(crate) fn check(findings: &mut Vec<String>) -> Result<()> {
    let text = std::fs::read_to_string(root().join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
    if fresh(&root().join("policy"), &text)? != text {
        findings.push(format!("{FILE}: lacks a design of params.h: run cargo xtask dispatch"));
    }
    Ok(())
}

/// `text` of idle.h with the lines that params.h asks for.
fn fresh(policy: &Path, text: &str) -> Result<String> {
    let headers = Headers::read(&[policy.join("params.h")], &[policy.to_path_buf()], &[])?;
    let axis = headers.find_enum(AXIS).with_context(|| format!("params.h has no enum {AXIS}"))?;
    let text = replace(text, INCLUDES, "\n", &includes(axis)?)?;
    replace(&text, CASES, "\tdefault:", &cases(axis))
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

/// `text` with what stands between `begin` and the next `end` replaced.
fn replace(text: &str, begin: &str, end: &str, with: &str) -> Result<String> {
    let at = text.find(begin).with_context(|| format!("{FILE} lacks the line {begin:?}"))? + begin.len();
    let length = if text[at..].starts_with(end) {
        0
    } else {
        text[at..].find(&format!("\n{end}")).with_context(|| format!("{FILE}: no {end:?} after {begin:?}"))?
            + 1
    };
    Ok(format!("{}{with}{}", &text[..at], &text[at + length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: &str = "/* How. */\nenum wl_idle_axis {\n\t/* idle_a.h: The first. */\n\tWL_IDLE_A,\n\t\
                          /* idle_b_c.h: Another. */\n\tWL_IDLE_B_C,\n\tWL_NR_IDLE,\n};\n";

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
        let written = fresh(folder.path(), &text).unwrap();
        assert_eq!(written, expected);
        assert_eq!(fresh(folder.path(), &written).unwrap(), written);
    }

    #[test]
    fn a_design_without_a_file_is_refused() {
        let folder = folder(&PARAMS.replace("idle_b_c.h: ", ""));
        let error = fresh(folder.path(), INCLUDES).unwrap_err();
        assert_eq!(error.to_string(), "WL_IDLE_B_C's comment names no file");
    }

    #[test]
    fn the_files_in_this_repository_agree() {
        let mut findings = Vec::new();
        check(&mut findings).unwrap();
        assert_eq!(findings, Vec::<String>::new());
    }
}
