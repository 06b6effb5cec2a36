// SPDX-License-Identifier: GPL-2.0-or-later
//! A header with everything that it includes: conditionals decided, declarations in order.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::model::{Enum, Struct};
use crate::parse;
use crate::token::{self, Kind, Token};
use crate::value::{self, Names, evaluate};

/// What a header, and the headers that it includes, declare.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    /// The files, in the order in which they were read; a build depends on them.
    pub files: Vec<PathBuf>,
    /// Structs and unions in order.
    pub structs: Vec<Struct>,
    /// Enumerations in order.
    pub enums: Vec<Enum>,
    /// Comments of constants, by the constant's name.
    docs: BTreeMap<String, String>,
    /// Names of integer types that C code defines.
    pub(crate) typedefs: BTreeSet<String>,
    pub(crate) names: Names,
    folders: Vec<PathBuf>,
}

/// An `#if` that is still open.
struct Conditional {
    /// Whether the lines that follow are part of the program.
    is_active: bool,
    /// Whether one of its branches was taken.
    was_taken: bool,
    /// Whether all of it is inside a part that is left out.
    is_dead: bool,
}

impl Headers {
    /// Reads `roots` and what they include from their own folders and `folders`, with `defines` in force.
    ///
    /// # Errors
    /// If a file cannot be read, or contains something that cannot be mirrored.
    pub fn read(roots: &[PathBuf], folders: &[PathBuf], defines: &[(&str, i128)]) -> Result<Headers, Error> {
        let mut headers = Headers { folders: folders.to_vec(), ..Headers::default() };
        for &(name, number) in defines {
            let token =
                Token { kind: Kind::Number(number), line: 0, before: String::new(), after: String::new() };
            headers.names.defines.insert(name.to_owned(), vec![token]);
        }
        roots.iter().try_for_each(|root| headers.file(root))?;
        Ok(headers)
    }

    /// Returns a struct or union by its name.
    pub fn find(&self, name: &str) -> Option<&Struct> {
        self.structs.iter().find(|found| found.name == name)
    }

    /// Returns an enumeration by its name.
    pub fn find_enum(&self, name: &str) -> Option<&Enum> {
        self.enums.iter().find(|found| found.name == name)
    }

    /// Returns the value of a `#define`d constant, or of a value of an enumeration.
    ///
    /// # Errors
    /// If there is none of this name, or it is not an integer.
    pub fn constant(&self, name: &str) -> Result<i128, Error> {
        let file = self.files.first().cloned().unwrap_or_default();
        if let Some(value) = self.names.values.get(name) {
            return Ok(*value);
        }
        let tokens = self.names.defines.get(name);
        let tokens = tokens.ok_or_else(|| Error::new(&file, 0, format!("found no #define of {name}")))?;
        evaluate(tokens, &self.names).map_err(|text| Error::new(&file, 0, format!("{name}: {text}")))
    }

    /// Returns the comment of a `#define`d constant.
    pub fn constant_doc(&self, name: &str) -> &str {
        self.docs.get(name).map_or("", String::as_str)
    }

    fn file(&mut self, path: &Path) -> Result<(), Error> {
        if self.files.iter().any(|file| file == path) {
            return Ok(());
        }
        self.files.push(path.to_owned());
        let text = fs::read_to_string(path).map_err(|error| Error::new(path, 0, error.to_string()))?;
        let mut open: Vec<Conditional> = Vec::new();
        let mut pending: Vec<Token> = Vec::new();
        for token in token::tokens(path, &text)? {
            let Kind::Directive(text) = &token.kind else {
                if open.iter().all(|conditional| conditional.is_active) {
                    pending.push(token);
                }
                continue;
            };
            // Declarations before a directive are read with the names that are defined there.
            let is_conditional = self.conditional(path, token.line, text, &mut open)?;
            if !is_conditional && open.iter().all(|conditional| conditional.is_active) {
                if text.starts_with("#include") {
                    parse::declarations(self, path, &std::mem::take(&mut pending))?;
                }
                self.directive(path, &token, text)?;
            }
        }
        match open.pop() {
            Some(_) => Err(Error::new(path, 0, "found an #if without its #endif")),
            None => parse::declarations(self, path, &pending),
        }
    }

    /// Handles a conditional. Returns false if the directive is not one.
    fn conditional(
        &self,
        path: &Path,
        line: u32,
        text: &str,
        open: &mut Vec<Conditional>,
    ) -> Result<bool, Error> {
        let (word, rest) = split(text);
        let without = || Error::new(path, line, format!("found {text} without its #if"));
        match word {
            "#ifdef" | "#ifndef" | "#if" => {
                let is_dead = open.iter().any(|conditional| !conditional.is_active);
                let is = !is_dead
                    && match word {
                        "#ifdef" => self.names.defines.contains_key(rest),
                        "#ifndef" => !self.names.defines.contains_key(rest),
                        _ => self.is_true(path, line, rest)?,
                    };
                open.push(Conditional { is_active: is, was_taken: is, is_dead });
            }
            "#elif" | "#else" => {
                let last = open.last_mut().ok_or_else(without)?;
                let may = !last.is_dead && !last.was_taken;
                last.is_active = may && (word == "#else" || self.is_true(path, line, rest)?);
                last.was_taken |= last.is_active;
            }
            "#endif" => {
                open.pop().ok_or_else(without)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn is_true(&self, path: &Path, line: u32, text: &str) -> Result<bool, Error> {
        let tokens = token::tokens(path, text)?;
        evaluate(&tokens, &self.names).map(|value| value != 0).map_err(|text| Error::new(path, line, text))
    }

    fn directive(&mut self, path: &Path, token: &Token, text: &str) -> Result<(), Error> {
        let (word, rest) = split(text);
        match word {
            "#include" => {
                let name = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                let name = name.ok_or_else(|| {
                    Error::new(path, token.line, format!("found #include {rest}; expected a header of ours"))
                })?;
                let own = path.parent().map(Path::to_owned);
                let found = own.iter().chain(&self.folders).map(|folder| folder.join(name));
                let found = found.into_iter().find(|file| file.is_file()).ok_or_else(|| {
                    Error::new(path, token.line, format!("found no file {name} to include"))
                })?;
                self.file(&found)
            }
            "#define" => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                let (name, body) = rest.split_at(end);
                // A macro with arguments is only used in functions.
                let body = if body.starts_with('(') { "" } else { body };
                self.names.defines.insert(name.to_owned(), token::tokens(path, body).unwrap_or_default());
                let doc = if token.after.is_empty() { &token.before } else { &token.after };
                self.docs.insert(name.to_owned(), doc.clone());
                Ok(())
            }
            "#undef" => {
                self.names.defines.remove(rest);
                Ok(())
            }
            _ => Err(Error::new(path, token.line, format!("found {}", value::text(&token.kind)))),
        }
    }
}

/// Splits a directive into its word and the rest.
fn split(text: &str) -> (&str, &str) {
    let end = text[1..].find(|c: char| !c.is_ascii_alphanumeric()).map_or(text.len(), |at| at + 1);
    (&text[..end], text[end..].trim())
}

/// Returns the comment at the beginning of a file, after its SPDX line, as written except for the stars.
///
/// # Errors
/// If the file cannot be read, or does not begin with a comment.
pub fn opening_comment(path: &Path) -> Result<String, Error> {
    let text = fs::read_to_string(path).map_err(|error| Error::new(path, 0, error.to_string()))?;
    let rest = text.split_once("*/\n").map(|(_, rest)| rest.trim_start());
    let comment = rest.and_then(|rest| rest.strip_prefix("/*")).and_then(|rest| rest.split_once("*/"));
    let Some((comment, _)) = comment else {
        return Err(Error::new(
            path,
            2,
            "found no comment behind the SPDX line; expected the file's description",
        ));
    };
    let line = |line: &str| {
        let line = line.strip_prefix(" *").unwrap_or(line);
        line.strip_prefix(' ').unwrap_or(line).trim_end().replace('\t', "    ")
    };
    let lines: Vec<String> = comment.lines().map(line).collect();
    Ok(lines.join("\n").trim_matches('\n').trim_end().to_owned())
}
