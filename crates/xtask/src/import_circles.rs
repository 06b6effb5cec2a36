// SPDX-License-Identifier: GPL-2.0-or-later
//! Circles of imports: no module of these crates may import another one that imports it, directly or by way of others.
//! A module is a file, and an import is a `use` of `crate::` or `super::` at the beginning of a line, so that imports
//! inside a file's own test module do not count.

use std::collections::{BTreeMap, BTreeSet};

/// Crates without circles.
const CRATES: [&str; 3] = ["crates/cli/src/", "crates/lab/src/", "crates/sim/src/"];

/// Imports by module. Modules are paths such as `kernel::wake`; the root is the empty path.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The circles in files given as (path from the project's root, text); one finding for each crate that has any.
pub(crate) fn findings<'a>(files: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Vec<String> {
    let circle = |root: &str| {
        let own = files.clone().filter_map(|(path, text)| Some((module_of(path.strip_prefix(root)?)?, text)));
        let circle = find_circle(&imports(&own.collect()))?;
        Some(format!("a circle of imports in {root}: {}", circle.join(" -> ")))
    };
    CRATES.into_iter().filter_map(circle).collect()
}

/// `kernel/wake.rs` is `kernel::wake`, `kernel/mod.rs` is `kernel`, `lib.rs` and `main.rs` are the root.
fn module_of(path: &str) -> Option<String> {
    let path = path.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    Some(if matches!(path, "lib" | "main") { String::new() } else { path.replace('/', "::") })
}

fn imports(texts: &BTreeMap<String, &str>) -> Imports {
    let imported = |module: &String, text: &str| {
        let mut paths = BTreeSet::new();
        for statement in uses(text) {
            paths.extend(expand(&statement).iter().filter_map(|path| target(module, path, texts)));
        }
        paths.remove(module);
        paths
    };
    texts.iter().map(|(module, text)| (module.clone(), imported(module, text))).collect()
}

/// What each `use` statement at the beginning of a line names, without spaces.
fn uses(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let start = ["use ", "pub use ", "pub(crate) use "].iter().find_map(|start| line.strip_prefix(start));
        let Some(start) = start else { continue };
        let mut statement = start.to_owned();
        while !statement.contains(';') {
            let Some(line) = lines.next() else { break };
            statement.push_str(line);
        }
        found.push(statement.split(';').next().unwrap_or_default().replace(char::is_whitespace, ""));
    }
    found
}

/// `a::{b,c::{d,e}}` is `a::b`, `a::c::d` and `a::c::e`.
fn expand(path: &str) -> Vec<String> {
    let Some(open) = path.find('{') else { return vec![path.to_owned()] };
    let inside = path[open + 1..].strip_suffix('}').unwrap_or(&path[open + 1..]);
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for letter in inside.chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        match (letter, depth) {
            (',', 0) => parts.push(String::new()),
            _ => parts.last_mut().expect("never empty").push(letter),
        }
    }
    // A comma at the end leaves an empty part.
    let parts = parts.iter().filter(|part| !part.is_empty());
    parts.flat_map(|part| expand(part)).map(|part| format!("{}{part}", &path[..open])).collect()
}

/// The module that a path names, or that has the item that it names; `None` if it is of another crate.
fn target(module: &str, path: &str, texts: &BTreeMap<String, &str>) -> Option<String> {
    let mut names: Vec<&str> = match path.strip_prefix("crate::") {
        Some(rest) => rest.split("::").collect(),
        None => {
            let rest = path.strip_prefix("super::")?;
            let mut names: Vec<&str> = module.split("::").collect();
            names.pop();
            names.extend(rest.split("::"));
            names
        }
    };
    while !names.is_empty() && !texts.contains_key(&names.join("::")) {
        names.pop();
    }
    Some(names.join("::"))
}

/// The modules of one circle, the first one again at the end.
fn find_circle(imports: &Imports) -> Option<Vec<String>> {
    let mut clean = BTreeSet::new();
    imports.keys().find_map(|module| walk(module, imports, &mut Vec::new(), &mut clean))
}

fn walk(
    module: &String,
    imports: &Imports,
    way: &mut Vec<String>,
    clean: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if clean.contains(module) {
        return None;
    }
    way.push(module.clone());
    if let Some(first) = way[..way.len() - 1].iter().position(|before| before == module) {
        return Some(way[first..].to_vec());
    }
    let circle = imports.get(module)?.iter().find_map(|next| walk(next, imports, way, clean));
    if circle.is_none() {
        way.pop();
        clean.insert(module.clone());
    }
    circle
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        findings(files.iter().copied())
    }

    #[test]
    fn a_circle_is_found_through_folders_braces_and_super() {
        let files = [
            ("crates/sim/src/lib.rs", "mod a;\nuse crate::a::b::B;\n"),
            ("crates/sim/src/a/mod.rs", "use crate::{\n    c::C,\n    d::{D, E},\n};\n"),
            ("crates/sim/src/a/b.rs", "use super::A;\n"),
            ("crates/sim/src/c.rs", "use std::fmt;\n"),
            ("crates/sim/src/d.rs", "use crate::a::b;\n"),
        ];
        assert_eq!(found(&files), ["a circle of imports in crates/sim/src/: a::b -> a -> d -> a::b"]);
    }

    #[test]
    fn tests_inside_a_file_and_other_crates_do_not_count() {
        let files = [
            ("crates/sim/src/a.rs", "use crate::b::B;\n"),
            ("crates/sim/src/b.rs", "mod tests {\n    use crate::a::A;\n}\n"),
            ("crates/cli/src/b.rs", "use crate::a::A;\n"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }
}
