// SPDX-License-Identifier: GPL-2.0-or-later
//! The words of experiments/*.toml on docs/results/experiments.md: replaces them without a run.
//!
//! A section of the page has, in this order, the title, the date of its run, the file's `text`, the figures, the
//! largest change, the file's `mechanism`, the tables of what changed, and the file's `misses`
//! (crates/report/src/experiment_page.rs). All but the words of the file comes from the run.

use std::fs;

use anyhow::{Context, Result, ensure};
use toml::{Table, Value};

use crate::command::{files_in, root};
use crate::experiments::{MISSES, MISSES_OF, dated_section, run_date, sections, title};

/// Begins and ends a block of figures.
const FIGURES: &str = "\n```text\n";
const FIGURES_END: &str = "\n```\n";
/// Begins the line that a run writes about the largest change.
const LARGEST: &str = "\n*Mechanism.*";
/// Begins the tables of what changed.
const CHANGES: &str = "\nWhat changed most, ";

/// Returns the page with the words of all files in experiments/.
pub(crate) fn renewed(page: &str) -> Result<String> {
    let mut files = Vec::new();
    for path in files_in(&root().join("experiments"), "toml")? {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        files.push(text.parse::<Table>().with_context(|| path.display().to_string())?);
    }
    with_words(page, &files)
}

fn with_words(page: &str, files: &[Table]) -> Result<String> {
    let (head, sections) = sections(page)?;
    let mut out = head.to_owned();
    for section in sections {
        let file = files.iter().find(|file| words(file, "title") == title(section));
        let file = file.with_context(|| format!("no file has the title `{}`", title(section)))?;
        out.push_str(&section_with_words(section, file)?);
    }
    Ok(out)
}

/// Returns a text of a file, or an empty one.
fn words<'a>(file: &'a Table, key: &str) -> &'a str {
    file.get(key).and_then(Value::as_str).unwrap_or_default().trim()
}

fn section_with_words(section: &str, file: &Table) -> Result<String> {
    let (_, rest) = section.split_once(FIGURES).context("a section without figures")?;
    let (figures, rest) = rest.split_once(FIGURES_END).context("figures without an end")?;
    let rest = rest.split(MISSES).next().unwrap_or_default();
    let (words_between, changes) = rest.split_at(rest.find(CHANGES).unwrap_or(rest.len()));
    let mut out = format!("\n## {}\n\n{}\n", title(section), words(file, "text"));
    if let Some(run) = run_date(section) {
        out = dated_section(&out, run);
    }
    out.push_str(&format!("{FIGURES}{figures}{FIGURES_END}"));
    if let Some(largest) = words_between.strip_prefix(LARGEST) {
        let line = largest.lines().next().unwrap_or_default();
        out.push_str(&format!("{LARGEST}{line}\n"));
    }
    if !words(file, "mechanism").is_empty() {
        out.push_str(&format!("\n{}\n", words(file, "mechanism")));
    }
    out.push_str(changes);
    if !words(file, "misses").is_empty() {
        let of = file.get("misses_of").map(|date| format!("{MISSES_OF}{date})")).unwrap_or_default();
        out.push_str(&format!("{MISSES}{of}.*\n{}\n", words(file, "misses")));
    }
    ensure!(!out.contains("\n\n\n"), "`{}` has an empty text", title(section));
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_from_the_file_and_figures_from_the_page() {
        let page = |text: &str, mechanism: &str, misses: &str| {
            format!(
                "head\n\n## All experiments together\n\nscore\n\n## A\n\nRun on 2026-11-28.\n\n{text}\n\n```text\n1\n```\n\n\
                 *Mechanism.* From the run.\n{mechanism}\nWhat changed most, before -> after:\n\n```text\n2\n```\n{misses}"
            )
        };
        let file: Table =
            "title = 'A'\ntext = 'new'\nmechanism = 'so'\nmisses = 'all'\nmisses_of = 2026-11-28"
                .parse()
                .unwrap();
        let expected = page("new", "\nso\n", "\n*What does not fit (in the run of 2026-11-28).*\nall\n");
        for old in
            [page("old", "", ""), page("old", "\nno\n", "\n*What does not fit.*\nnone\n"), expected.clone()]
        {
            assert_eq!(with_words(&old, std::slice::from_ref(&file)).unwrap(), expected);
        }
        assert!(with_words(&expected, &[]).is_err());
    }

    #[test]
    fn the_page_has_the_words_of_the_files() {
        let page = fs::read_to_string(root().join("docs/results/experiments.md")).unwrap();
        assert!(renewed(&page).unwrap() == page, "`cargo xtask experiments --texts` renews them");
    }
}
