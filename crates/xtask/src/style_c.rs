// SPDX-License-Identifier: GPL-2.0-or-later
//! C functions that are too long, and C declarations that nothing names. The C sources follow clang-format, so a
//! function's body begins and ends with a brace in the first column.

use std::collections::BTreeMap;

use crate::style_rust::FUNCTION_LINES_MAX;

/// What begins a function that only its own translation unit can call.
const PRIVATE: &[&str] = &["static ", "WL_INLINE ", "WL_FN ", "WL_FN_OWN "];

/// Appends every function of `file` that is too long, from its first line to its closing brace.
pub(crate) fn check_functions(file: &str, text: &str, findings: &mut Vec<String>) {
    for function in functions(&without_comments(text)) {
        let Function { name, line, lines, .. } = function;
        if lines > FUNCTION_LINES_MAX {
            findings
                .push(format!("{file}:{line}: {name}() has {lines} lines, more than {FUNCTION_LINES_MAX}"));
        }
    }
}

/// Appends every private function and every macro that no line of `sources` (path, text) names but its own definition.
/// `sources` are all C files and the Rust files, which name what they hand to a compiler.
pub(crate) fn check_dead(sources: &[(String, String)], findings: &mut Vec<String>) {
    let (mut defined, mut named) = (Vec::new(), BTreeMap::<String, isize>::new());
    for (file, text) in sources {
        let text = without_comments(text);
        for word in words(&text) {
            *named.entry(word.to_owned()).or_default() += 1;
        }
        if file.ends_with(".rs") {
            continue;
        }
        for (name, line) in macros(&text) {
            defined.push((name.to_owned(), file, line));
        }
        for function in functions(&text).into_iter().filter(|function| function.is_private) {
            defined.push((function.name, file, function.line));
        }
        for name in guarded(&text) {
            *named.entry(name.to_owned()).or_default() -= 1;
        }
    }
    for (name, _, _) in &defined {
        *named.entry(name.clone()).or_default() -= 1;
    }
    for (name, file, line) in defined {
        if named[&name] <= 0 && !name.ends_with("_H") {
            findings.push(format!("{file}:{line}: nothing names {name}"));
        }
    }
}

struct Function {
    name: String,
    /// The line on which its declaration begins, from 1.
    line: usize,
    lines: usize,
    is_private: bool,
}

/// The functions defined in a text without comments.
fn functions(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (open, _) in lines.iter().enumerate().filter(|(_, line)| **line == "{") {
        let Some(close) = lines[open..].iter().position(|line| *line == "}") else { continue };
        let is_end =
            |line: &&str| line.trim().is_empty() || line.starts_with(['#', '}']) || line.ends_with(';');
        let first = lines[..open].iter().rposition(is_end).map_or(0, |at| at + 1);
        let signature = lines[first..open].join(" ");
        let Some((before, _)) = signature.split_once('(') else { continue };
        let name = words(before).last().unwrap_or_default().to_owned();
        let is_private = PRIVATE.iter().any(|word| signature.starts_with(word));
        found.push(Function { name, line: first + 1, lines: open + close - first + 1, is_private });
    }
    found
}

/// The macros defined in a text, with their lines from 1.
fn macros(text: &str) -> impl Iterator<Item = (&str, usize)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let name = words(line.strip_prefix("#define ")?).next()?;
        Some((name, index + 1))
    })
}

/// The names that are defined on the line after a question whether they are: the question does not use them.
fn guarded(text: &str) -> impl Iterator<Item = &str> {
    text.lines().zip(text.lines().skip(1)).filter_map(|(line, next)| {
        let name = line.strip_prefix("#ifndef ")?.trim();
        (words(next.strip_prefix("#define ")?).next()? == name).then_some(name)
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(move |c| !is_part(c)).filter(|word| !word.is_empty())
}

/// The text with its comments blanked; line breaks stay where they are.
fn without_comments(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while !rest.is_empty() {
        let (taken, is_comment) = match rest.as_bytes() {
            [b'/', b'*', ..] => (rest.find("*/").map_or(rest.len(), |at| at + 2), true),
            [b'/', b'/', ..] => (rest.find('\n').unwrap_or(rest.len()), true),
            [b'"', ..] => (string_length(rest), false),
            _ => (rest.chars().next().map_or(1, char::len_utf8), false),
        };
        let (part, after) = rest.split_at(taken);
        match is_comment {
            true => out.extend(part.chars().filter(|c| *c == '\n')),
            false => out.push_str(part),
        }
        rest = after;
    }
    out
}

/// Bytes of the string that `text` begins with, its quotes included.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, lines: usize) -> String {
        format!(
            "WL_INLINE u32 {name}(struct wl_policy *p,\n\t\tu32 cpu)\n{{\n{}}}\n",
            "\tg();\n".repeat(lines - 4)
        )
    }

    #[test]
    fn a_long_function_is_found() {
        let mut found = Vec::new();
        check_functions("a.h", &format!("{}\n{}", function("fits", 70), function("long", 71)), &mut found);
        assert_eq!(found, ["a.h:72: long() has 71 lines, more than 70"]);
    }

    fn dead(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<_> = files.iter().map(|(f, t)| ((*f).to_owned(), (*t).to_owned())).collect();
        let mut found = Vec::new();
        check_dead(&sources, &mut found);
        found
    }

    #[test]
    fn a_function_that_nothing_calls_is_found() {
        let header = "/* wl_dead() is named here. */\nstatic u32 wl_dead(u32 x)\n{\n\treturn x;\n}\n";
        assert_eq!(dead(&[("a.h", header)]), ["a.h:2: nothing names wl_dead"]);
        assert_eq!(dead(&[("a.h", header), ("b.c", "u32 y = wl_dead(1);\n")]), Vec::<String>::new());
        // What others may call is not judged.
        assert_eq!(dead(&[("a.c", "int wl_entry(u32 x)\n{\n\treturn x;\n}\n")]), Vec::<String>::new());
    }

    #[test]
    fn a_macro_that_nothing_names_is_found() {
        assert_eq!(
            dead(&[("a.h", "#ifndef A_H\n#define A_H\n#define WL_NR 3\n#endif\n")]),
            ["a.h:3: nothing names WL_NR"]
        );
        assert_eq!(
            dead(&[("a.h", "#ifndef WL_MAX\n#define WL_MAX 3\n#endif\n")]),
            ["a.h:2: nothing names WL_MAX"]
        );
        assert_eq!(dead(&[("a.h", "#define WL_NR 3\n"), ("b.h", "#if WL_NR > 2\n")]), Vec::<String>::new());
        assert_eq!(
            dead(&[("a.h", "#define WL_NR 3\n"), ("b.rs", "define(\"WL_NR\")")]),
            Vec::<String>::new()
        );
        // A host defines it, and another file asks for it.
        assert_eq!(dead(&[("a.c", "#define OWN\n"), ("b.h", "#ifndef OWN\nint x;\n")]), Vec::<String>::new());
        // Either branch of a condition defines it, one line uses it.
        assert_eq!(dead(&[("a.h", "#define F 1\n#else\n#define F 2\n#endif\nF\n")]), Vec::<String>::new());
    }

    #[test]
    fn strings_are_no_comments() {
        assert_eq!(without_comments("a /* b\nc */ d // e\n\"/* \\\" */\" f"), "a \n d \n\"/* \\\" */\" f");
    }
}
