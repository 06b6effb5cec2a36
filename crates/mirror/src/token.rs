// SPDX-License-Identifier: GPL-2.0-or-later
//! A header as tokens, each with the comments that belong to it.

use std::path::Path;

use crate::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An identifier or keyword.
    Word(String),
    Number(i128),
    /// A string or character literal.
    Text(String),
    /// Punctuation, one character at a time.
    Sign(char),
    /// A preprocessor line without its comments.
    Directive(String),
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) line: u32,
    /// The comment that ends on the line before it.
    pub(crate) before: String,
    /// The comment that begins after it on its line.
    pub(crate) after: String,
}

struct Reader<'a> {
    file: &'a Path,
    rest: &'a str,
    line: u32,
    tokens: Vec<Token>,
    /// The last comment that shares no line with a token and belongs to none yet, and the line where it ends.
    pending: Option<(String, u32)>,
}

/// Splits a header into tokens.
pub(crate) fn tokens(file: &Path, text: &str) -> Result<Vec<Token>, Error> {
    let mut reader = Reader { file, rest: text, line: 1, tokens: Vec::new(), pending: None };
    while let Some(next) = reader.rest.chars().next() {
        reader.token(next)?;
    }
    Ok(reader.tokens)
}

impl<'a> Reader<'a> {
    fn token(&mut self, next: char) -> Result<(), Error> {
        if next.is_whitespace() {
            self.take(next.len_utf8());
        } else if self.rest.starts_with("/*") || self.rest.starts_with("//") {
            self.comment()?;
        } else if next == '#' {
            self.directive()?;
        } else if next.is_ascii_alphabetic() || next == '_' {
            let word = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_').to_owned();
            self.push(Kind::Word(word));
        } else if next.is_ascii_digit() {
            let text = self.take_while(|c| c.is_ascii_alphanumeric()).to_owned();
            let number = integer(&text)
                .ok_or_else(|| self.error(format!("found the number {text}; expected an integer")))?;
            self.push(Kind::Number(number));
        } else if next == '"' || next == '\'' {
            let text = self.literal(next)?;
            self.push(Kind::Text(text));
        } else {
            self.take(next.len_utf8());
            self.push(Kind::Sign(next));
        }
        Ok(())
    }

    fn error(&self, text: String) -> Error {
        Error::new(self.file, self.line, text)
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        self.line += taken.matches('\n').count() as u32;
        taken
    }

    fn take_while(&mut self, is: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !is(c)).unwrap_or(self.rest.len());
        self.take(end)
    }

    fn push(&mut self, kind: Kind) {
        let line = self.line;
        // An earlier comment describes what follows it, not this token.
        let before = self.pending.take().filter(|(_, end)| end + 1 == line).map(|(text, _)| text);
        self.tokens.push(Token { kind, line, before: before.unwrap_or_default(), after: String::new() });
    }

    fn comment(&mut self) -> Result<(), Error> {
        let begin = self.line;
        let text = self.comment_text()?;
        match self.tokens.last_mut() {
            Some(token) if token.line == begin => token.after = text,
            _ => self.pending = Some((text, self.line)),
        }
        if self.pending.as_ref().is_some_and(|(text, _)| text.starts_with("---")) {
            self.pending = None;
        }
        Ok(())
    }

    fn comment_text(&mut self) -> Result<String, Error> {
        if self.rest.starts_with("//") {
            return Ok(self.take_while(|c| c != '\n')[2..].trim().to_owned());
        }
        let end = self.rest.find("*/").ok_or_else(|| self.error("found a comment without an end".into()))?;
        let text = &self.take(end + 2)[2..end];
        Ok(plain(text))
    }

    /// Reads a preprocessor line with its continuations; a comment in it belongs to it.
    fn directive(&mut self) -> Result<(), Error> {
        let line = self.line;
        let mut text = String::new();
        let mut after = String::new();
        while let Some(next) = self.rest.chars().next() {
            if self.rest.starts_with("/*") || self.rest.starts_with("//") {
                after = self.comment_text()?;
            } else if self.rest.starts_with("\\\n") {
                self.take(2);
                text.push(' ');
            } else if next == '\n' {
                break;
            } else {
                text.push_str(self.take(next.len_utf8()));
            }
        }
        self.push(Kind::Directive(text.trim().to_owned()));
        let token = self.tokens.last_mut().expect("just pushed");
        (token.line, token.after) = (line, after);
        Ok(())
    }

    fn literal(&mut self, quote: char) -> Result<String, Error> {
        let mut end = 1;
        let bytes = self.rest.as_bytes();
        while bytes.get(end).is_some_and(|&byte| byte != quote as u8) {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        if end >= bytes.len() {
            return Err(self.error("found a literal without an end".into()));
        }
        Ok(self.take(end + 1)[1..end].to_owned())
    }
}

/// The words of a comment: without the stars at line beginnings, and with its lines joined; an empty line stays.
pub(crate) fn plain(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim().trim_start_matches('*').trim());
    let mut joined = String::new();
    for line in lines {
        match line {
            "" if !joined.is_empty() && !joined.ends_with('\n') => joined.push_str("\n\n"),
            "" => {}
            line => {
                if !joined.is_empty() && !joined.ends_with('\n') {
                    joined.push(' ');
                }
                joined.push_str(line);
            }
        }
    }
    joined.trim_end().to_owned()
}

/// A C integer constant with its suffixes.
fn integer(text: &str) -> Option<i128> {
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(hex) => i128::from_str_radix(hex, 16).ok(),
        None if digits.len() > 1 && digits.starts_with('0') => i128::from_str_radix(digits, 8).ok(),
        None => digits.parse().ok(),
    }
}
