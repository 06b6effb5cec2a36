// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo xtask experiments`: runs published experiments in full and writes docs/results/experiments.md, and what the
//! rows came to into experiments/results.tsv. With names it renews their sections only; each says when it was run.
//! Words that changed without a run are copied by experiment_texts.rs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::command::{cargo, output, root, run as run_command, today};
use crate::experiment_texts;

/// The sections of experiments begin after this one.
const ALL: &str = "\n## All experiments together\n";
const SECTION: &str = "\n## ";
/// Begins the line of a section that says when it was run.
const RUN_ON: &str = "Run on ";
/// Begins a section's text of misses (crates/report/src/experiment_page.rs).
pub(crate) const MISSES: &str = "\n*What does not fit";
/// Stands between that and the date of the run that the text speaks of.
pub(crate) const MISSES_OF: &str = " (in the run of ";

#[derive(Args)]
pub(crate) struct ExperimentsArgs {
    /// Experiments whose sections are renewed (default: the whole page)
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// With --uncertainty: only the rows whose id contains TEXT. Repeatable
    #[arg(long, value_name = "TEXT", requires = "uncertainty")]
    rows: Vec<String>,
    /// Number of seeds (default: as each file says)
    #[arg(long, value_name = "N")]
    seeds: Option<u32>,
    /// Threads that run seeds side by side
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    /// Draws of the model's figures: only learns how far rows may be off, and leaves all sections as they are
    #[arg(long, value_name = "DRAWS")]
    uncertainty: Option<u32>,
    /// Run nothing: copy the words of all files, which explain figures, to the page
    #[arg(long, conflicts_with_all = ["names", "rows", "seeds", "threads", "uncertainty"])]
    texts: bool,
}

pub(crate) fn run(args: &ExperimentsArgs) -> Result<()> {
    let path = root().join("docs/results/experiments.md");
    let old = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    if args.texts {
        write(&path, &experiment_texts::renewed(&old)?)?;
        println!("experiments: wrote the words of {}", path.display());
        return Ok(());
    }
    let results = root().join("experiments/results.tsv");
    let mut command = cargo();
    command.args(["run", "--release", "--quiet", "--package", "wakelab-cli", "--", "experiments"]);
    command.args(&args.names).args(["--format", "markdown", "--results"]).arg(&results);
    command.args(args.rows.iter().flat_map(|text| ["--rows", text]));
    let numbers = [("--seeds", args.seeds), ("--threads", args.threads), ("--uncertainty", args.uncertainty)];
    for (name, value) in numbers {
        if let Some(value) = value {
            command.arg(format!("{name}={value}"));
        }
    }
    let new = String::from_utf8(output(&mut command)?).context("wakelab writes UTF-8")?;
    let page = if args.uncertainty.is_some() {
        renewed(&old, &new, None)?
    } else if args.names.is_empty() {
        dated(&new, &today()?)
    } else {
        renewed(&old, &new, Some(&today()?))?
    };
    write(&path, &page)?;
    println!("experiments: wrote {} and {}", path.display(), results.display());
    Ok(())
}

/// Writes the page, and names what is to be read again.
fn write(path: &Path, page: &str) -> Result<()> {
    for title in outdated(page)? {
        println!(
            "experiments: what does not fit in `{title}` is told of another run; read it again, and set misses_of"
        );
    }
    fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))
}

/// Splits a page into what stands before the sections of experiments, and these.
pub(crate) fn sections(page: &str) -> Result<(&str, Vec<&str>)> {
    let Some(all) = page.find(ALL) else { bail!("a page without the section of all experiments") };
    let after = all + ALL.len();
    let begin = page[after..].find(SECTION).map_or(page.len(), |at| after + at);
    let mut found = Vec::new();
    let mut rest = &page[begin..];
    while !rest.is_empty() {
        let end = rest[SECTION.len()..].find(SECTION).map_or(rest.len(), |at| at + SECTION.len());
        found.push(&rest[..end]);
        rest = &rest[end..];
    }
    Ok((&page[..begin], found))
}

/// Returns the title of a section.
pub(crate) fn title(section: &str) -> &str {
    section[SECTION.len()..].lines().next().unwrap_or_default()
}

/// Returns the date with which a text begins.
fn date(text: &str) -> Option<&str> {
    text.split(|char: char| !char.is_ascii_digit() && char != '-').next()
}

/// Returns the date of a section's run.
pub(crate) fn run_date(section: &str) -> Option<&str> {
    section.lines().find_map(|line| line.strip_prefix(RUN_ON)).and_then(date)
}

/// Returns the titles of the sections whose text of misses speaks of another run than that of their figures.
fn outdated(page: &str) -> Result<Vec<&str>> {
    let is_outdated = |section: &str| {
        let Some((_, misses)) = section.split_once(MISSES) else { return false };
        run_date(section) != misses.strip_prefix(MISSES_OF).and_then(date)
    };
    Ok(sections(page)?.1.into_iter().filter(|section| is_outdated(section)).map(title).collect())
}

/// Returns a section with a line below its title that says when it was run.
pub(crate) fn dated_section(section: &str, when: &str) -> String {
    let end = SECTION.len() + title(section).len();
    format!("{}\n\n{RUN_ON}{when}.{}", &section[..end], &section[end..])
}

fn dated(page: &str, when: &str) -> String {
    let (head, sections) = sections(page).expect("wakelab writes all sections");
    sections.iter().fold(head.to_owned(), |out, section| out + &dated_section(section, when))
}

/// Returns the old page with the new page's head, and its sections in the place of those with the same titles. A
/// section that is new stands at the end. Without a date only the head is new.
fn renewed(old: &str, new: &str, when: Option<&str>) -> Result<String> {
    let (head, new) = sections(new)?;
    let (_, mut all) = sections(old)?;
    let dated: Vec<String> =
        when.map_or_else(Vec::new, |when| new.iter().map(|section| dated_section(section, when)).collect());
    for section in &dated {
        match all.iter_mut().find(|known| title(known) == title(section)) {
            Some(known) => *known = section,
            None => all.push(section),
        }
    }
    Ok(format!("{head}{}", all.concat()))
}

/// The fast part: the negative controls and the rows whose sign is robust, with few seeds and short runs.
pub(crate) fn quick() -> Result<()> {
    let mut command = cargo();
    command.args(["run", "--release", "--quiet", "--package", "wakelab-cli", "--", "experiments"]);
    run_command(command.args(["--quick", "--seeds", "8"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(head: &str, sections: &[&str]) -> String {
        format!("{head}\n{ALL}\nscore of {head}\n{}", sections.concat())
    }

    #[test]
    fn texts_of_misses_speak_of_the_last_run() {
        let section = |run: &str, misses: &str| {
            page("p", &[&format!("\n## A\n\nRun on {run}.\n\na\n\n*What does not fit{misses}.* All.\n")])
        };
        let of = " (in the run of 2026-11-28)";
        assert_eq!(outdated(&section("2026-11-28", of)).unwrap(), [""; 0]);
        assert_eq!(outdated(&section("2026-11-29", of)).unwrap(), ["A"]);
        assert_eq!(outdated(&section("2026-11-28", "")).unwrap(), ["A"]);
        assert_eq!(outdated(&page("p", &["\n## A\n\nRun on 2026-11-28.\n\na\n"])).unwrap(), [""; 0]);
        let ours = fs::read_to_string(root().join("docs/results/experiments.md")).unwrap();
        assert_eq!(outdated(&ours).unwrap(), [""; 0]);
    }

    #[test]
    fn a_section_takes_its_old_place() {
        let old = page("old", &["\n## A\n\nRun on x.\n\na\n", "\n## B\n\nb\n"]);
        let new = page("new", &["\n## B\n\nbetter\n", "\n## C\n\nc\n"]);
        let expected = page(
            "new",
            &["\n## A\n\nRun on x.\n\na\n", "\n## B\n\nRun on y.\n\nbetter\n", "\n## C\n\nRun on y.\n\nc\n"],
        );
        assert_eq!(renewed(&old, &new, Some("y")).unwrap(), expected);
        assert_eq!(renewed(&old, &new, None).unwrap(), old.replace("old", "new"));
        assert_eq!(
            dated(&page("new", &["\n## B\n\nb\n"]), "y"),
            page("new", &["\n## B\n\nRun on y.\n\nb\n"])
        );
        assert!(renewed("nothing", &new, None).is_err());
    }
}
