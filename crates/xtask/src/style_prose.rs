// SPDX-License-Identifier: GPL-2.0-or-later
//! The house's English, as far as a program can judge it: phrases that make a reader stop, and the width of prose.
//! CONTRIBUTING.md has the whole guide.

/// Columns of a line of Markdown outside tables and code; where a link leads does not count.
const MARKDOWN_COLUMNS: usize = 120;

/// What not to write, and what to write instead.
const PHRASES: &[(&str, &str)] = &[
    ("so many", "N, or 'that many'"),
    ("so long", "for that long, 'as long as', or SECONDS"),
    ("so often", "N times"),
    ("anew", "again"),
    ("whoever", "the task, CPU or caller that"),
    ("of its own", "its own, or separate"),
    ("of their own", "their own, or separate"),
    ("put down to", "attributed to"),
    ("is to be had", "exists"),
];

/// Begins of documentation comments that say less than they could.
const BEGINS: &[(&str, &str)] = &[("/// Answers ", "Returns"), ("/// Says whether ", "Whether")];

/// Appends the phrases in `text` that the house does not use. Pages of results are mostly what commands printed.
pub(crate) fn check_phrases(file: &str, text: &str, findings: &mut Vec<String>) {
    if file.starts_with("docs/results/") || file == "crates/xtask/src/style_prose.rs" {
        return;
    }
    for (index, line) in text.lines().enumerate() {
        let mut found = |what: &str, instead: &str| {
            findings.push(format!("{file}:{}: '{what}': write {instead}", index + 1));
        };
        let lower = line.to_lowercase();
        PHRASES
            .iter()
            .filter(|(phrase, _)| has_phrase(&lower, phrase))
            .for_each(|(what, instead)| found(what, instead));
        let begin = line.trim_start();
        BEGINS
            .iter()
            .filter(|(what, _)| begin.starts_with(what))
            .for_each(|(what, instead)| found(what, instead));
    }
    if file.ends_with(".rs") {
        check_one_word_docs(file, text, findings);
    }
}

/// Whether the words stand in a line; not as a part of other words. Both are lower case.
fn has_phrase(line: &str, phrase: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(phrase).any(|(at, _)| {
        !is_part(line[..at].chars().next_back()) && !is_part(line[at + phrase.len()..].chars().next())
    })
}

/// Documentation of one word repeats the name that it stands above.
fn check_one_word_docs(file: &str, text: &str, findings: &mut Vec<String>) {
    let lines: Vec<&str> = text.lines().collect();
    let doc = |at: usize| Some(lines.get(at)?.trim_start().strip_prefix("///")?.trim());
    for index in 0..lines.len() {
        let is_one_word = doc(index).is_some_and(|text| !text.is_empty() && !text.contains(' '));
        let stands_alone = doc(index.wrapping_sub(1)).is_none() && doc(index + 1).is_none();
        if is_one_word && stands_alone {
            findings.push(format!("{file}:{}: documentation of one word: say what it is", index + 1));
        }
    }
}

/// Appends the lines of a Markdown page that are too wide. A line without a space cannot be wrapped.
pub(crate) fn check_width(file: &str, text: &str, findings: &mut Vec<String>) {
    // It is written whole by a command.
    if file == "docs/results/experiments.md" {
        return;
    }
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let is_code = in_code || line.starts_with("    ") || line.starts_with("<!--");
        let is_fixed = line.trim_start().starts_with(['|', '#']) || !line.trim().contains(' ');
        let columns = without_targets(line).chars().count();
        if !is_code && !is_fixed && columns > MARKDOWN_COLUMNS {
            findings.push(format!("{file}:{}: {columns} columns, more than {MARKDOWN_COLUMNS}", index + 1));
        }
    }
}

/// Appends the links of a Markdown page that lead to no file. `exists` is asked for paths relative to the page.
pub(crate) fn check_links(file: &str, text: &str, exists: impl Fn(&str) -> bool, findings: &mut Vec<String>) {
    for (index, line) in text.lines().enumerate() {
        for target in line.split("](").skip(1).filter_map(|rest| rest.split_once(')')) {
            let path = target.0.split('#').next().unwrap_or_default();
            if !path.is_empty() && !path.contains(':') && !exists(path) {
                findings.push(format!("{file}:{}: a link to {path}, which does not exist", index + 1));
            }
        }
    }
}

/// Returns the line without the targets of its links.
fn without_targets(line: &str) -> String {
    let (mut out, mut rest) = (String::new(), line);
    while let Some((before, after)) = rest.split_once("](") {
        out.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phrases(file: &str, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        check_phrases(file, text, &mut found);
        found
    }

    #[test]
    fn each_phrase_is_found() {
        for (phrase, instead) in PHRASES {
            let text = format!("fine\n * It does {phrase} here.\n");
            assert!(
                phrases("a.h", &text).contains(&format!("a.h:2: '{phrase}': write {instead}")),
                "{phrase}"
            );
        }
        assert_eq!(phrases("a.md", "So many of them.\n").len(), 1);
    }

    #[test]
    fn parts_of_words_are_no_phrases() {
        assert_eq!(phrases("a.rs", "// also manyfold; renewanew; so_many\n"), Vec::<String>::new());
    }

    #[test]
    fn results_are_left_alone() {
        assert_eq!(phrases("docs/results/a.md", "so many\n"), Vec::<String>::new());
    }

    #[test]
    fn documentation_says_more_than_one_word() {
        assert_eq!(
            phrases("a.rs", "/// Which.\nx: u32,\n"),
            ["a.rs:1: documentation of one word: say what it is"]
        );
        assert_eq!(phrases("a.rs", "/// Which of the\n/// CPUs.\nx: u32,\n"), Vec::<String>::new());
        for (begin, _) in BEGINS {
            assert_eq!(phrases("a.rs", &format!("    {begin}it.\n")).len(), 1, "{begin}");
        }
    }

    #[test]
    fn a_dead_link_is_found() {
        let mut found = Vec::new();
        let text = "[a](there.md) [b](gone.md#part)\n[c](https://x.y/z) [d](#here)\n";
        check_links("a.md", text, |path| path == "there.md", &mut found);
        assert_eq!(found, ["a.md:1: a link to gone.md, which does not exist"]);
    }

    #[test]
    fn wide_prose_is_found() {
        let found = |text: &str| {
            let mut found = Vec::new();
            check_width("a.md", text, &mut found);
            found
        };
        let wide = format!("a {}\n", "x".repeat(119));
        assert_eq!(found(&wide), ["a.md:1: 121 columns, more than 120"]);
        assert_eq!(found(&wide[1..]), Vec::<String>::new());
        for fixed in [format!("```\n{wide}```\n"), format!("| {wide}"), format!("    {wide}")] {
            assert_eq!(found(&fixed), Vec::<String>::new(), "{fixed}");
        }
        let link = format!("a [b]({}) c\n", "x".repeat(130));
        assert_eq!(found(&link), Vec::<String>::new());
        assert_eq!(found(&format!("{link}{wide}")).len(), 1);
    }
}
