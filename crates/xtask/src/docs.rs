// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask docs`: the output of commands that README.md and docs/ show, written or checked.
//!
//! A block looks like this, and everything between its marks is replaced:
//! ```text
//! <!-- output of: wakelab ablate pingpong --machine smp-8 -->
//! (a fenced block of text)
//! <!-- end of output -->
//! ```
//! The command is `wakelab ...`, or `cargo test ...` with environment variables before it; for tests, the block has
//! what they print. `slow output of` marks a command that takes minutes: `--check` leaves its block alone.
//! `first 20 lines of` leaves out the rest of a long output. [`FILES`] are whole files that a command writes, and
//! [`PICTURE`] is a picture of one of them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::command::{cargo, files_in, root, target_folder, text};
use crate::picture::{self, PICTURE};

const MARK: &str = "<!-- ";
const END: &str = "<!-- end of output -->";

/// Files in docs/guide, and the commands that write them. The last word is the file's name.
const FILES: [&str; 1] = ["wakelab compare demo --machine xeon-2s22c2t --policy linux-4.15 --policy \
    linux-4.15+idle=smt-balance --report example-report.html"];

#[derive(Args)]
pub(crate) struct DocsArgs {
    /// Only these pages and files, by file name [default: README.md and all of docs/]
    files: Vec<String>,
    /// Write nothing; fail if a block differs from what its command prints now. Slow commands are not run.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &DocsArgs) -> Result<()> {
    let asked = |path: &Path| {
        args.files.is_empty()
            || args.files.iter().any(|name| path.file_name().is_some_and(|own| own == name.as_str()))
    };
    let pages: Vec<PathBuf> = pages()?.into_iter().filter(|path| asked(path)).collect();
    let files: Vec<&str> = FILES.into_iter().filter(|command| asked(Path::new(name_of(command)))).collect();
    let picture = asked(Path::new(PICTURE));
    if args.check { check(&pages, &files, picture) } else { write(&pages, &files, picture) }
}

/// Fails if a block of a fast command is stale.
pub(crate) fn check_all() -> Result<()> {
    check(&pages()?, &FILES, true)
}

/// Returns the name of the file that a command writes.
fn name_of(command: &str) -> &str {
    command.rsplit(' ').next().unwrap_or(command)
}

/// Returns where a file of docs/ is, what it has, and what its command writes now.
fn file(command: &str) -> Result<(PathBuf, Vec<u8>, Vec<u8>)> {
    let name = name_of(command);
    let path = root().join("docs/guide").join(name);
    let folder = target_folder()?.join("docs");
    std::fs::create_dir_all(&folder)?;
    let mut cargo = cargo();
    // The command is part of what it writes, so that it has the name of the file and no folder.
    cargo.current_dir(&folder).args(["run", "--release", "--quiet", "--package", "wakelab-cli"]);
    cargo.arg("--manifest-path").arg(root().join("Cargo.toml")).arg("--");
    text(cargo.args(command.split_whitespace().skip(1)))?;
    let now = std::fs::read(folder.join(name))?;
    Ok((path.clone(), std::fs::read(path).unwrap_or_default(), now))
}

/// Returns where the picture is, what it has, and the page that it should show.
fn picture_and_page() -> Result<(PathBuf, Vec<u8>, Vec<u8>)> {
    let folder = root().join("docs/guide");
    let path = folder.join(PICTURE);
    Ok((
        path.clone(),
        std::fs::read(path).unwrap_or_default(),
        std::fs::read(folder.join(name_of(FILES[0])))?,
    ))
}

/// Returns README.md and the Markdown pages of docs/.
fn pages() -> Result<Vec<PathBuf>> {
    let mut pages = vec![root().join("README.md")];
    for folder in ["", "guide", "design", "results"] {
        pages.extend(files_in(&root().join("docs").join(folder), "md")?);
    }
    pages.sort();
    Ok(pages)
}

fn write(pages: &[PathBuf], files: &[&str], picture: bool) -> Result<()> {
    for command in files {
        let (path, before, after) = file(command)?;
        if after != before {
            std::fs::write(&path, after)?;
            println!("docs: {} has changed", path.display());
        }
    }
    let (path, before, page) = picture_and_page()?;
    if picture && !picture::is_of(&before, &page) {
        std::fs::write(&path, picture::take(&page, &target_folder()?.join("docs"))?)?;
        println!("docs: {} has changed", path.display());
    }
    for path in pages {
        let before = std::fs::read_to_string(path)?;
        let after = renewed(&before, |block, _| block.output().map(Some))
            .with_context(|| format!("{}", path.display()))?;
        if after != before {
            std::fs::write(path, after)?;
            println!("docs: {} has changed", path.display());
        }
    }
    Ok(())
}

fn check(pages: &[PathBuf], files: &[&str], picture: bool) -> Result<()> {
    let (mut fresh, mut slow, mut stale) = (0, 0, 0);
    for command in files {
        let (path, before, after) = file(command)?;
        if after == before {
            fresh += 1;
        } else {
            stale += 1;
            let same = before.iter().zip(&after).take_while(|(old, new)| old == new).count();
            eprintln!("docs: {}: stale from byte {same} on; '{command}' writes it", path.display());
        }
    }
    let (path, before, page) = picture_and_page()?;
    if picture && picture::is_of(&before, &page) {
        fresh += 1;
    } else if picture {
        stale += 1;
        eprintln!("docs: {}: stale, because it shows another {}", path.display(), name_of(FILES[0]));
    }
    for path in pages {
        let name = path.strip_prefix(root()).unwrap_or(path).display();
        renewed(&std::fs::read_to_string(path)?, |block, before| {
            if block.is_slow {
                slow += 1;
                return Ok(None);
            }
            let now = block.output()?;
            match first_difference(before, &fenced(&now)) {
                None => fresh += 1,
                Some((old, new)) => {
                    stale += 1;
                    eprintln!("docs: {name}: stale output of '{}':", block.command);
                    eprintln!("  the page has   {old}\n  it prints now  {new}");
                }
            }
            Ok(None)
        })
        .with_context(|| format!("{name}"))?;
    }
    println!("docs: {fresh} blocks and files are fresh, {slow} slow ones were not checked");
    if stale > 0 {
        bail!("{stale} blocks or files are stale: cargo xtask docs PAGE writes them");
    }
    Ok(())
}

/// Returns the first lines that differ.
fn first_difference<'a>(old: &'a str, new: &'a str) -> Option<(&'a str, &'a str)> {
    if old == new {
        return None;
    }
    let (mut old, mut new) = (old.lines(), new.lines());
    loop {
        match (old.next(), new.next()) {
            (None, None) => return Some(("(other line ends)", "(other line ends)")),
            (a, b) if a != b => return Some((a.unwrap_or("(nothing)"), b.unwrap_or("(nothing)"))),
            _ => {}
        }
    }
}

/// What a mark says.
#[derive(Debug, PartialEq)]
struct Block<'a> {
    command: &'a str,
    is_slow: bool,
    /// The number of lines that the block shows; `None` for all.
    lines: Option<usize>,
}

impl<'a> Block<'a> {
    /// Returns the block that a comment's text begins, or `None` if it is another comment.
    fn parse(text: &'a str) -> Option<Block<'a>> {
        let (begin, command) = text.split_once(" of: ")?;
        let (is_slow, lines) = match begin.split(' ').collect::<Vec<_>>()[..] {
            ["output"] => (false, None),
            ["slow", "output"] => (true, None),
            ["first", lines, "lines"] => (false, Some(lines.parse().ok()?)),
            _ => return None,
        };
        Some(Block { command, is_slow, lines })
    }

    fn output(&self) -> Result<String> {
        let text = printed(&self.command.split_whitespace().collect::<Vec<_>>())?;
        Ok(match self.lines {
            Some(lines) => text.lines().take(lines).collect::<Vec<_>>().join("\n"),
            None => text,
        })
    }
}

fn fenced(output: &str) -> String {
    format!("```text\n{}\n```\n", output.trim_end())
}

/// Returns what a command writes to stdout.
fn printed(words: &[&str]) -> Result<String> {
    let variables = words.iter().take_while(|word| word.contains('=')).count();
    let mut command = cargo();
    command.env_remove("COLUMNS").envs(words[..variables].iter().filter_map(|word| word.split_once('=')));
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

/// Returns the lines that tests printed, without those of the test harness.
fn of_tests(stdout: &str) -> String {
    let is_harness = |line: &str| {
        line.is_empty()
            || line.starts_with("running ")
            || line.starts_with("test result: ")
            || line.chars().all(|c| c == '.')
    };
    stdout.lines().filter(|line| !is_harness(line)).collect::<Vec<_>>().join("\n")
}

/// Returns the text with each block replaced by the output that `run` returns for it; where `run` returns `None`, the
/// block stays. `run` also gets the block as it is.
fn renewed(text: &str, mut run: impl FnMut(&Block<'_>, &str) -> Result<Option<String>>) -> Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(MARK) {
        let line_end = rest[at..].find('\n').map_or(rest.len(), |length| at + length + 1);
        let line = rest[at + MARK.len()..line_end].trim_end();
        out.push_str(&rest[..line_end]);
        rest = &rest[line_end..];
        let Some(block) = Block::parse(line.strip_suffix(" -->").unwrap_or(line)) else { continue };
        if !line.ends_with(" -->") {
            bail!("'{line}' does not end in ' -->'");
        }
        let Some(end) = rest.find(END) else { bail!("'{line}' has no '{END}'") };
        match run(&block, &rest[..end])? {
            Some(output) => out.push_str(&fenced(&output)),
            None => out.push_str(&rest[..end]),
        }
        rest = &rest[end..];
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
        let run = |block: &Block<'_>, _: &str| Ok(Some(format!("{}\n", block.command.replace(' ', "|"))));
        let new = "a\n<!-- output of: wakelab x --y 1 -->\n```text\nwakelab|x|--y|1\n```\n<!-- end of output -->\nb\n";
        assert_eq!(renewed(text, run).unwrap(), new);
        assert_eq!(renewed(new, run).unwrap(), new);
        assert_eq!(
            renewed("<!-- a comment -->\nno blocks\n", run).unwrap(),
            "<!-- a comment -->\nno blocks\n"
        );
        assert_eq!(renewed(text, |_, _| Ok(None)).unwrap(), text);
    }

    #[test]
    fn a_mark_says_what_is_run_and_shown() {
        let block = |command, is_slow, lines| Some(Block { command, is_slow, lines });
        assert_eq!(Block::parse("output of: wakelab x"), block("wakelab x", false, None));
        assert_eq!(Block::parse("slow output of: wakelab x"), block("wakelab x", true, None));
        assert_eq!(Block::parse("first 7 lines of: wakelab x"), block("wakelab x", false, Some(7)));
        assert_eq!(Block::parse("the output of: wakelab x"), None);
        assert_eq!(Block::parse("end of output"), None);
    }

    #[test]
    fn a_stale_block_is_named_by_its_first_line_that_differs() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(("b", "c")));
        assert_eq!(first_difference("a\n", "a\nc\n"), Some(("(nothing)", "c")));
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
        let run = |_: &Block<'_>, _: &str| Ok(None);
        assert!(renewed("<!-- output of: wakelab x -->\n", run).is_err());
        assert!(renewed("<!-- output of: wakelab x\n<!-- end of output -->\n", run).is_err());
    }
}
