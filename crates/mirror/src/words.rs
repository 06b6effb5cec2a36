// SPDX-License-Identifier: GPL-2.0-or-later
//! Names and descriptions from C names and their comments.
//!
//! A comment may begin with what does not follow from the name, in the forms `FILE.h: text`, `"word": text` and
//! `FILE.h, "word": text`; the comment of an axis' field also with `"word" with AXIS=VALUE, VALUE: text`,
//! and that of a kind of event with `takes FIELD, FIELD; answers STRUCT: text`.

use crate::model::{Enum, Value};

/// A comment in its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comment {
    /// The header that holds the design.
    pub file: Option<String>,
    /// The word that reports and arguments use.
    pub word: Option<String>,
    /// Another axis, and its values with which this axis is used; it is ignored with all others.
    pub with: Option<(String, Vec<String>)>,
    /// The arguments that a kind of event takes.
    pub takes: Vec<String>,
    /// The struct that answers it.
    pub answers: Option<String>,
    /// The rest of the comment.
    pub text: String,
}

impl Comment {
    /// Splits a comment into its parts.
    pub fn of(doc: &str) -> Comment {
        let mut comment = Comment::default();
        let mut rest = doc;
        let end =
            rest.find(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '_').unwrap_or(0);
        if end > 0 && (rest[end..].starts_with(".h:") || rest[end..].starts_with(".h, \"")) {
            comment.file = Some(rest[..end + 2].to_owned());
            rest = rest[end + 2..].trim_start_matches([',', ':', ' ']);
        }
        if let Some((word, behind)) = rest.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
            comment.word = Some(word.to_owned());
            rest = behind.trim_start();
        }
        if let Some((with, behind)) = rest.strip_prefix("with ").and_then(|rest| rest.split_once(':'))
            && let Some((axis, values)) = with.split_once('=')
        {
            comment.with = Some((axis.to_owned(), values.split(", ").map(str::to_owned).collect()));
            rest = behind;
        }
        if let Some((takes, behind)) = rest.strip_prefix("takes ").and_then(|rest| rest.split_once(':')) {
            let (takes, answers) =
                takes.split_once("; answers ").map_or((takes, None), |(a, b)| (a, Some(b)));
            comment.takes = takes.split(", ").map(str::to_owned).collect();
            comment.answers = answers.map(str::to_owned);
            rest = behind;
        }
        comment.text = rest.trim_start_matches(':').trim().to_owned();
        comment
    }
}

/// Returns the word for a value: from its comment, or its name in lower case with hyphens (a name of only numbers: with
/// dots).
pub fn word(of: &Enum, value: &Value) -> String {
    let comment = Comment::of(&value.doc);
    comment.word.unwrap_or_else(|| {
        let name = &value.name[of.prefix().len()..];
        let is_version = name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
        name.to_ascii_lowercase().replace('_', if is_version { "." } else { "-" })
    })
}

/// Returns the Rust name of a value: `SmtBalance`; for a kernel's version `Linux4_15`.
pub fn variant(of: &Enum, value: &Value) -> String {
    let name = &value.name[of.prefix().len()..];
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return format!("Linux{name}");
    }
    camel(name)
}

/// Converts `wl_select_in` to `SelectIn`.
pub fn camel(name: &str) -> String {
    let name = name.strip_prefix("wl_").unwrap_or(name);
    name.split('_').filter(|part| !part.is_empty()).fold(String::new(), |mut all, part| {
        all += &part[..1].to_ascii_uppercase();
        all += &part[1..].to_ascii_lowercase();
        all
    })
}

/// Returns a name as Rust accepts it: `r#move`.
pub fn identifier(name: &str) -> String {
    const KEYWORDS: [&str; 12] =
        ["as", "box", "fn", "in", "loop", "match", "mod", "move", "mut", "ref", "type", "where"];
    if KEYWORDS.contains(&name) { format!("r#{name}") } else { name.to_owned() }
}

/// Returns a comment as lines of Rust documentation with this indent. Nothing in it becomes a link or a tag.
pub fn doc(text: &str, indent: &str) -> String {
    let escaped = text.replace('[', "\\[").replace(']', "\\]").replace('<', "\\<").replace('*', "\\*");
    let lines = escaped.lines().map(|line| format!("{indent}/// {line}").trim_end().to_owned() + "\n");
    lines.collect()
}
