// SPDX-License-Identifier: GPL-2.0-or-later
//! The rules of the house that no compiler checks: licence lines, the lengths of files and functions, no circles of
//! imports, no globals in policy/, no dead C, nothing left over, plain English, and the C style.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{self, find_program, output, root};
use crate::setup::CLANG_FORMAT;
use crate::{import_circles, lists, style_c, style_prose, style_rust};

const LINES_MAX: usize = 700;
/// Formatters wrap code and leave comments alone.
const RUST_COLUMNS: usize = 120;
const C_COLUMNS: usize = 100;
const C_TAB: usize = 8;
const SOURCE: &[&str] = &["rs", "c", "h", "sh", "toml", "py", "pyi"];
const CODE: &[&str] = &["rs", "c", "h", "sh", "py", "pyi"];
const PROSE: &[&str] = &["md"];

/// Checks all tracked files; lists every finding before it fails.
pub(crate) fn run() -> Result<()> {
    let listing = output(Command::new("git").current_dir(root()).args(["ls-files", "-z"]))?;
    let files: Vec<String> = String::from_utf8(listing)?
        .split('\0')
        .filter(|file| !file.is_empty() && root().join(file).is_file())
        .map(str::to_owned)
        .collect();
    let (mut findings, mut code) = (Vec::new(), Vec::new());
    for file in files.iter().filter(|file| has_extension(file, SOURCE) || has_extension(file, PROSE)) {
        let text =
            std::fs::read_to_string(root().join(file)).with_context(|| format!("cannot read {file}"))?;
        check_file(file, &text, &mut findings)?;
        if has_extension(file, &["c", "h", "rs"]) {
            code.push((file.clone(), text));
        }
    }
    style_c::check_dead(&code, &mut findings);
    lists::check(&mut findings)?;
    findings.extend(import_circles::findings(code.iter().map(|(file, text)| (file.as_str(), text.as_str()))));
    for finding in &findings {
        eprintln!("style: {finding}");
    }
    check_c_format(&files)?;
    if !findings.is_empty() {
        bail!("{} findings of style", findings.len());
    }
    println!("style: {} files keep the rules", files.len());
    Ok(())
}

fn has_extension(file: &str, extensions: &[&str]) -> bool {
    Path::new(file).extension().and_then(|e| e.to_str()).is_some_and(|e| extensions.contains(&e))
}

/// Appends what every rule finds in one file.
fn check_file(file: &str, text: &str, findings: &mut Vec<String>) -> Result<()> {
    style_prose::check_phrases(file, text, findings);
    if has_extension(file, PROSE) {
        style_prose::check_width(file, text, findings);
        let folder = root().join(file).parent().map(Path::to_path_buf).unwrap_or_default();
        style_prose::check_links(file, text, |path| folder.join(path).exists(), findings);
        return Ok(());
    }
    check_text(file, text, findings);
    if has_extension(file, &["c", "h"]) {
        style_c::check_functions(file, text, findings);
    }
    if has_extension(file, &["rs"]) {
        style_rust::check_functions(file, text, findings)?;
    }
    Ok(())
}

/// Appends what is wrong with the lines of a source file.
fn check_text(file: &str, text: &str, findings: &mut Vec<String>) {
    if !text.lines().take(3).any(|line| line.contains("SPDX-License-Identifier: GPL-2.0")) {
        findings.push(format!("{file}:1: no SPDX-License-Identifier line"));
    }
    if has_extension(file, CODE) && text.lines().count() > LINES_MAX {
        findings.push(format!("{file}: {} lines, more than {LINES_MAX}", text.lines().count()));
    }
    for (index, line) in text.lines().enumerate() {
        let at = |what: &str| format!("{file}:{}: {what}", index + 1);
        if has_extension(file, CODE) && leftovers().iter().any(|word| has_word(line, word)) {
            findings.push(at("a leftover or a stub"));
        }
        if is_wide_comment(file, line) {
            findings.push(at("a comment that is too wide"));
        }
        if file.starts_with("policy/") && is_mutable_global(line) {
            findings.push(at("a mutable global in policy/: state is passed in"));
        }
    }
}

/// Whether `word` stands in `line` and is not a part of a longer word, as three letters of mktemp's template are.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric());
    line.match_indices(word)
        .any(|(at, _)| !part(line[..at].chars().next_back()) && !part(line[at + word.len()..].chars().next()))
}

/// A line that is only a comment, and wider than its language's lines may be. Rows of tables cannot be wrapped.
fn is_wide_comment(file: &str, line: &str) -> bool {
    let text = line.trim_start();
    let columns =
        || line.chars().fold(0, |at, c| if c == '\t' { at / C_TAB * C_TAB + C_TAB } else { at + 1 });
    if has_extension(file, &["rs"]) {
        text.starts_with("//") && !text.contains("! | ") && columns() > RUST_COLUMNS
    } else {
        let is_comment = ["/*", "* ", "//"].iter().any(|begin| text.starts_with(begin));
        has_extension(file, &["c", "h"]) && is_comment && columns() > C_COLUMNS
    }
}

/// Words that must not land. Put together here so that this file does not contain them.
fn leftovers() -> [String; 6] {
    [
        ["todo", "!("].concat(),
        ["unimplemented", "!("].concat(),
        ["#[", "ignore"].concat(),
        ["FIX", "ME"].concat(),
        ["TO", "DO"].concat(),
        ["XX", "X"].concat(),
    ]
}

/// A definition at the start of a line that is neither constant nor a function, type or macro.
fn is_mutable_global(line: &str) -> bool {
    let starts_definition = ["static ", "u8 ", "u16 ", "u32 ", "u64 ", "s32 ", "s64 ", "int ", "struct "]
        .iter()
        .any(|word| line.starts_with(word));
    starts_definition
        && !line.contains("const ")
        && !line.contains('(')
        && (line.ends_with(';') && !line.ends_with("};") || line.contains(" = "))
}

fn check_c_format(files: &[String]) -> Result<()> {
    let Some(clang_format) = find_program(CLANG_FORMAT) else {
        println!("style: skipped the C style: no {}", CLANG_FORMAT.join(", "));
        return Ok(());
    };
    let sources: Vec<&String> = files.iter().filter(|file| has_extension(file, &["c", "h"])).collect();
    if sources.is_empty() {
        return Ok(());
    }
    command::run(Command::new(clang_format).current_dir(root()).args(["--dry-run", "-Werror"]).args(sources))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(file: &str, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        check_text(file, text, &mut found);
        found
    }

    const SPDX: &str = "// SPDX-License-Identifier: GPL-2.0-or-later\n";

    #[test]
    fn a_clean_file_passes() {
        assert_eq!(findings("a.rs", &format!("{SPDX}fn f() {{}}\n")), Vec::<String>::new());
    }

    #[test]
    fn a_missing_licence_line_is_found() {
        assert_eq!(findings("a.rs", "fn f() {}\n"), ["a.rs:1: no SPDX-License-Identifier line"]);
    }

    #[test]
    fn a_long_file_is_found() {
        let text = format!("{SPDX}{}", "x\n".repeat(LINES_MAX));
        assert_eq!(findings("a.rs", &text), ["a.rs: 701 lines, more than 700"]);
    }

    #[test]
    fn wide_comments_are_found() {
        let rust = |width: usize| format!("{SPDX}//{}\n", "x".repeat(width - 2));
        assert_eq!(findings("a.rs", &rust(120)), Vec::<String>::new());
        assert_eq!(findings("a.rs", &rust(121)), ["a.rs:2: a comment that is too wide"]);
        // A tab is as wide as the way to the next multiple of 8: 8 + 92 = 100.
        let c = |width: usize| format!("{SPDX}\t/* {} */\n", "x".repeat(width - 6));
        assert_eq!(findings("a.h", &c(92)), Vec::<String>::new());
        assert_eq!(findings("a.h", &c(93)), ["a.h:2: a comment that is too wide"]);
    }

    #[test]
    fn a_stub_is_found_with_its_line() {
        let text = format!("{SPDX}{}();\n", ["todo", "!("].concat());
        assert_eq!(findings("a.rs", &text), ["a.rs:2: a leftover or a stub"]);
    }

    #[test]
    fn a_template_of_mktemp_is_no_leftover() {
        assert!(!has_word("mktemp -d /tmp/a.XXXXXX", &leftovers()[5]));
        assert!(has_word(&format!("# {}: later", leftovers()[5]), &leftovers()[5]));
    }

    #[test]
    fn globals_are_found_in_policy_only() {
        let text = format!("{SPDX}static u32 count;\nstruct wl_topo state;\n");
        assert_eq!(findings("policy/a.h", &text).len(), 2);
        assert_eq!(findings("crates/a.h", &text).len(), 0);
        let fine = format!(
            "{SPDX}static const u32 table[] = {{1}};\nstatic inline u32 f(void);\nstruct wl_topo {{\n}};\n"
        );
        assert_eq!(findings("policy/a.h", &fine), Vec::<String>::new());
    }
}
