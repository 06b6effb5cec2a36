// SPDX-License-Identifier: GPL-2.0-or-later
//! Declarations: structs with their layout, enumerations with their values. Functions and typedefs are skipped.

use std::path::Path;

use crate::Error;
use crate::headers::Headers;
use crate::model::{Enum, Field, Struct, Type, Value};
use crate::token::{Kind, Token};
use crate::value::{self, evaluate};

/// What aligns a struct or a field to a cache line (base.h).
const ALIGN_LINE: &str = "WL_ALIGN_LINE";
const LINE: usize = 64;

/// Reads the declarations in a file, or in a part of it, into `headers`.
pub(crate) fn declarations(headers: &mut Headers, file: &Path, tokens: &[Token]) -> Result<(), Error> {
    let mut parser = Parser { headers, file, tokens, at: 0 };
    while parser.at < tokens.len() {
        parser.declaration()?;
    }
    Ok(())
}

struct Parser<'a> {
    headers: &'a mut Headers,
    file: &'a Path,
    tokens: &'a [Token],
    at: usize,
}

impl Parser<'_> {
    fn kind(&self, ahead: usize) -> Option<&Kind> {
        self.tokens.get(self.at + ahead).map(|token| &token.kind)
    }

    fn is_word(&self, ahead: usize, word: &str) -> bool {
        matches!(self.kind(ahead), Some(Kind::Word(found)) if found == word)
    }

    fn is_sign(&self, ahead: usize, sign: char) -> bool {
        self.kind(ahead) == Some(&Kind::Sign(sign))
    }

    fn error(&self, text: impl Into<String>) -> Error {
        let line = self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |token| token.line);
        Error::new(self.file, line, text)
    }

    fn found(&self, expected: &str) -> Error {
        let found = self.kind(0).map_or("the end of the file".to_owned(), value::text);
        self.error(format!("found {found}; expected {expected}"))
    }

    fn word(&mut self, expected: &str) -> Result<String, Error> {
        match self.kind(0) {
            Some(Kind::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.found(expected)),
        }
    }

    fn sign(&mut self, sign: char) -> Result<(), Error> {
        if !self.is_sign(0, sign) {
            return Err(self.found(&format!("`{sign}`")));
        }
        self.at += 1;
        Ok(())
    }

    /// The comment after the token that was just read.
    fn after(&self) -> &str {
        &self.tokens[self.at - 1].after
    }

    fn declaration(&mut self) -> Result<(), Error> {
        let is_definition = self.is_sign(2, '{');
        if self.is_word(0, "enum") && is_definition {
            return self.enumeration();
        }
        if (self.is_word(0, "struct") || self.is_word(0, "union")) && is_definition {
            let doc = self.tokens[self.at].before.clone();
            let is_union = self.is_word(0, "union");
            self.at += 1;
            let name = self.word("a name")?;
            self.body(name, doc, is_union, true)?;
            return self.sign(';');
        }
        if (self.is_word(0, "struct") || self.is_word(0, "union")) && self.is_sign(2, ';') {
            self.at += 3;
            return Ok(());
        }
        self.step_over()
    }

    /// Skips a typedef, an assertion, a prototype or a function.
    fn step_over(&mut self) -> Result<(), Error> {
        let begin = self.at;
        let is_typedef = self.is_word(0, "typedef");
        let mut has_arguments = false;
        while let Some(kind) = self.kind(0) {
            match kind {
                Kind::Sign('(') => {
                    has_arguments = true;
                    self.balanced('(', ')')?;
                    continue;
                }
                Kind::Sign('{') if has_arguments && !is_typedef => {
                    self.balanced('{', '}')?;
                    return Ok(());
                }
                Kind::Sign(';') if is_typedef => {
                    if let Some(Kind::Word(name)) =
                        self.tokens[self.at - 1..].first().map(|token| &token.kind)
                    {
                        self.headers.typedefs.insert(name.clone());
                    }
                    self.at += 1;
                    return Ok(());
                }
                Kind::Sign(';') if has_arguments => {
                    self.at += 1;
                    return Ok(());
                }
                Kind::Sign(';' | '{' | '=') => break,
                _ => self.at += 1,
            }
        }
        self.at = begin;
        Err(self.found("a struct, a union, an enum, a typedef, an assertion or a function"))
    }

    fn balanced(&mut self, open: char, close: char) -> Result<(), Error> {
        let begin = self.at;
        let mut depth = 0;
        while self.at < self.tokens.len() {
            depth += i32::from(self.is_sign(0, open)) - i32::from(self.is_sign(0, close));
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
        self.at = begin;
        Err(self.error(format!("found `{open}` without its `{close}`")))
    }

    fn enumeration(&mut self) -> Result<(), Error> {
        let doc = self.tokens[self.at].before.clone();
        self.at += 1;
        let name = self.word("a name")?;
        self.sign('{')?;
        let mut values: Vec<Value> = Vec::new();
        let mut next = 0;
        while !self.is_sign(0, '}') {
            let (before, line) =
                self.tokens.get(self.at).map_or_else(Default::default, |t| (t.before.clone(), t.line));
            let value = self.word("a value's name")?;
            if self.is_sign(0, '=') {
                self.at += 1;
                let begin = self.at;
                while self.kind(0).is_some() && !self.is_sign(0, ',') && !self.is_sign(0, '}') {
                    self.at += 1;
                }
                next = self.evaluate(begin)?;
            }
            let mut after = self.after().to_owned();
            if self.is_sign(0, ',') {
                self.at += 1;
                if after.is_empty() {
                    after = self.after().to_owned();
                }
            } else if !self.is_sign(0, '}') {
                return Err(self.found("`,` or `}`"));
            }
            self.headers.names.values.insert(value.clone(), next);
            values.push(Value { name: value, doc: joined(&before, &after), number: next, line });
            next += 1;
        }
        self.sign('}')?;
        self.sign(';')?;
        self.headers.enums.push(Enum { name, doc, values });
        Ok(())
    }

    /// The value of the tokens from `begin` up to the current one.
    fn evaluate(&self, begin: usize) -> Result<i128, Error> {
        evaluate(&self.tokens[begin..self.at], &self.headers.names).map_err(|text| self.error(text))
    }

    /// Reads a struct from its brace on, and adds it to the list.
    fn body(&mut self, name: String, doc: String, is_union: bool, has_tag: bool) -> Result<(), Error> {
        self.sign('{')?;
        let mut made = Struct { name, doc, is_union, has_tag, fields: Vec::new(), size: 0, align: 1 };
        while !self.is_sign(0, '}') {
            self.fields(&mut made)?;
        }
        self.sign('}')?;
        if self.is_word(0, ALIGN_LINE) {
            self.at += 1;
            made.align = made.align.max(LINE);
        }
        made.size = made.size.next_multiple_of(made.align);
        self.headers.structs.push(made);
        Ok(())
    }

    /// Reads one declaration of one or several fields.
    fn fields(&mut self, into: &mut Struct) -> Result<(), Error> {
        let before = self.tokens.get(self.at).map_or_else(String::new, |token| token.before.clone());
        let (of, is_anonymous) = self.base_type(into, &before)?;
        let first = into.fields.len();
        loop {
            let name = match self.kind(0) {
                Some(Kind::Sign(';')) if is_anonymous => String::new(),
                _ => self.word("a field's name")?,
            };
            let mut lengths = Vec::new();
            let mut is_aligned = false;
            let mut after = self.after().to_owned();
            loop {
                if self.is_sign(0, '[') {
                    self.at += 1;
                    let begin = self.at;
                    while self.kind(0).is_some() && !self.is_sign(0, ']') {
                        self.at += 1;
                    }
                    let length = self.evaluate(begin)?;
                    let length = usize::try_from(length).ok().filter(|&length| length > 0);
                    lengths.push(length.ok_or_else(|| self.error("found an array without elements"))?);
                    self.sign(']')?;
                } else if self.is_word(0, ALIGN_LINE) {
                    self.at += 1;
                    is_aligned = true;
                } else {
                    break;
                }
            }
            let of =
                lengths.into_iter().rev().fold(of.clone(), |of, length| Type::Array(Box::new(of), length));
            let is_last = self.is_sign(0, ';');
            if !is_last && !self.is_sign(0, ',') {
                return Err(self.found("`;`, `,`, an array's length or WL_ALIGN_LINE"));
            }
            self.at += 1;
            if after.is_empty() {
                after = self.after().to_owned();
            }
            self.place(into, name, joined(&before, &after), of, is_aligned)?;
            if is_last {
                break;
            }
        }
        // A comment after the last of several fields describes all of them.
        let doc = into.fields.last().map_or_else(String::new, |field| field.doc.clone());
        let values = into.fields.last().and_then(|field| field.values.clone());
        for field in &mut into.fields[first..] {
            if field.doc.is_empty() {
                (field.doc, field.values) = (doc.clone(), values.clone());
            }
        }
        Ok(())
    }

    /// Reads the type before a field's name. Also returns whether the field needs no name.
    fn base_type(&mut self, parent: &Struct, doc: &str) -> Result<(Type, bool), Error> {
        let word = self.word("a field's type")?;
        let integer = |bytes, signed| Ok((Type::Integer { bytes, signed }, false));
        match word.as_str() {
            "u8" => integer(1, false),
            "u16" => integer(2, false),
            "u32" => integer(4, false),
            "u64" => integer(8, false),
            "s8" => integer(1, true),
            "s16" => integer(2, true),
            "s32" => integer(4, true),
            "s64" => integer(8, true),
            "struct" | "union" if self.is_sign(0, '{') => {
                let begin = self.at;
                self.balanced('{', '}')?;
                let field = match self.kind(0) {
                    Some(Kind::Word(field)) => field.clone(),
                    _ => format!("part{}", parent.fields.len()),
                };
                let is_anonymous = self.is_sign(0, ';');
                let name = format!("{}_{field}", parent.name);
                self.at = begin;
                self.body(name.clone(), doc.to_owned(), word == "union", false)?;
                Ok((Type::Struct(name), is_anonymous))
            }
            "struct" | "union" => {
                let name = self.word("a struct's name")?;
                if self.headers.find(&name).is_none() {
                    self.at -= 1;
                    return Err(self.found("a struct that is declared further up"));
                }
                Ok((Type::Struct(name), false))
            }
            _ => {
                self.at -= 1;
                Err(self.found("u8 to u64, s8 to s64, a struct or a union"))
            }
        }
    }

    /// Computes the offset of a field.
    fn place(
        &self,
        into: &mut Struct,
        name: String,
        doc: String,
        of: Type,
        is_aligned: bool,
    ) -> Result<(), Error> {
        let (size, mut align) = self.layout(&of)?;
        if is_aligned {
            align = align.max(LINE);
        }
        let offset = if into.is_union { 0 } else { into.size.next_multiple_of(align) };
        into.size = into.size.max(offset + size);
        into.align = into.align.max(align);
        let values = doc.split_once("enum ").map(|(_, rest)| {
            rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or("").to_owned()
        });
        into.fields.push(Field { name, doc, of, offset, size, values });
        Ok(())
    }

    /// Returns size and alignment in bytes.
    fn layout(&self, of: &Type) -> Result<(usize, usize), Error> {
        match of {
            Type::Integer { bytes, .. } => Ok((*bytes, *bytes)),
            Type::Struct(name) => {
                let found =
                    self.headers.find(name).ok_or_else(|| self.error(format!("found no struct {name}")))?;
                Ok((found.size, found.align))
            }
            Type::Array(of, length) => {
                let (size, align) = self.layout(of)?;
                Ok((size * length, align))
            }
        }
    }
}

/// Joins the comments before and after.
fn joined(before: &str, after: &str) -> String {
    match (before, after) {
        ("", text) | (text, "") => text.to_owned(),
        (before, after) => format!("{before}\n\n{after}"),
    }
}
