// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask docs`: runs the commands whose output stands in docs/, and writes their output of today there.
//!
//! A block looks like this, and everything between its marks is replaced:
//! ```text
//! <!-- output of: wakelab ablate pingpong --machine smp-8 -->
//! (a fenced block of text)
//! <!-- end of output -->
//! ```
//! The command is `wakelab ...`, or `cargo test ...` with environment variables before it: then the block is what the
//! tests print.

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::command::{cargo, root, text};

const BEGIN: &str = "<!-- output of: ";
const END: &str = "<!-- end of output -->";

#[derive(Args)]
pub(crate) struct DocsArgs {
    /// Only these files of docs/ (default: all that have such blocks)
    files: Vec<String>,
}

pub(crate) fn run(args: &DocsArgs) -> Result<()> {
    let mut files = Vec::new();
    for folder in ["guide", "design", "results"] {
        for entry in std::fs::read_dir(root().join("docs").join(folder))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                files.push(path);
            }
        }
    }
    files.sort();
    let asked = |path: &Path| {
        args.files.is_empty()
            || args.files.iter().any(|name| path.file_name().is_some_and(|own| own == name.as_str()))
    };
    for path in files.into_iter().filter(|path| asked(path)) {
        let before = std::fs::read_to_string(&path)?;
        let after = renewed(&before, printed).with_context(|| format!("{}", path.display()))?;
        if after != before {
            std::fs::write(&path, after)?;
            println!("docs: {} has changed", path.display());
        }
    }
    Ok(())
}

/// What a command writes to stdout.
fn printed(words: &[&str]) -> Result<String> {
    let variables = words.iter().take_while(|word| word.contains('=')).count();
    let mut command = cargo();
    command.envs(words[..variables].iter().filter_map(|word| word.split_once('=')));
    match &words[variables..] {
        ["wakelab", arguments @ ..] => {
            command.args(["run", "--release", "--quiet", "--package", "wakelab-cli", "--"]).args(arguments);
            text(&mut command)
        }
        ["cargo", "test", arguments @ ..] => {
            command.args(["test", "--quiet"]).args(arguments);
            command.args(["--", "--nocapture", "--test-threads", "1"]);
            Ok(of_tests(&text(&mut command)?))
        }
        _ => bail!("'{}' is neither wakelab nor cargo test", words.join(" ")),
    }
}

/// The lines that tests printed, without those of the harness.
fn of_tests(stdout: &str) -> String {
    let is_harness = |line: &str| {
        line.is_empty()
            || line.starts_with("running ")
            || line.starts_with("test result: ")
            || line.chars().all(|c| c == '.')
    };
    stdout.lines().filter(|line| !is_harness(line)).collect::<Vec<_>>().join("\n")
}

/// The text with each block's output replaced by what `run` answers to the words of its command.
fn renewed(text: &str, run: impl Fn(&[&str]) -> Result<String>) -> Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let line_end = rest[at..].find('\n').context("a mark without an end of line")? + at;
        let arguments = rest[at + BEGIN.len()..line_end]
            .strip_suffix(" -->")
            .with_context(|| format!("'{}' does not end in ' -->'", &rest[at..line_end]))?;
        let Some(end) = rest[line_end..].find(END) else { bail!("'{BEGIN}{arguments}' has no '{END}'") };
        let words: Vec<&str> = arguments.split_whitespace().collect();
        out.push_str(&rest[..=line_end]);
        out.push_str(&format!("```text\n{}\n```\n", run(&words)?.trim_end()));
        rest = &rest[line_end + end..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_replaced_and_nothing_else() {
        let text = "a\n<!-- output of: wakelab x --y 1 -->\n```text\nold\n```\n<!-- end of output -->\nb\n";
        let run = |words: &[&str]| Ok(format!("{}\n", words.join("|")));
        let new = "a\n<!-- output of: wakelab x --y 1 -->\n```text\nwakelab|x|--y|1\n```\n<!-- end of output -->\nb\n";
        assert_eq!(renewed(text, run).unwrap(), new);
        assert_eq!(renewed(new, run).unwrap(), new);
        assert_eq!(renewed("no blocks\n", run).unwrap(), "no blocks\n");
    }

    #[test]
    fn the_harness_is_left_out_of_what_tests_print() {
        let stdout = "\nrunning 2 tests\nA 1.5 %\n.B ... 2\n..\n\ntest result: ok. 2 passed; 0 failed\n\n";
        assert_eq!(of_tests(stdout), "A 1.5 %\n.B ... 2");
    }

    #[test]
    fn other_commands_are_refused() {
        assert!(printed(&["X=1", "ls"]).is_err());
    }

    #[test]
    fn blocks_without_an_end_are_refused() {
        let run = |_: &[&str]| Ok(String::new());
        assert!(renewed("<!-- output of: wakelab x -->\n", run).is_err());
        assert!(renewed("<!-- output of: wakelab x\n<!-- end of output -->\n", run).is_err());
    }
}
