// SPDX-License-Identifier: GPL-2.0-or-later
//! Rust source: `repr(C)` structs, enumerations with words, tables of fields, and assertions that Rust agrees.
//!
//! The source refers to `Field` and `Of` (crates/policy/src/fields.rs) and to zerocopy by their short names; the file
//! that includes it must have them in scope.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::model::{Enum, Field, Struct, Type};
use crate::words::{self, Comment};
use crate::{Error, Headers};

/// Rust names of C declarations, and paths of those that exist elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'a> {
    /// C names, and the Rust names that do not follow from them.
    pub irregular: &'a [(&'a str, &'a str)],
    /// C names of structs that are mirrored already, and the paths of their mirrors.
    pub foreign: &'a [(&'a str, &'a str)],
}

/// Rust source that is being written.
#[derive(Debug)]
pub struct Writer<'a> {
    headers: &'a Headers,
    names: Names<'a>,
    out: String,
    done: BTreeSet<String>,
}

impl<'a> Writer<'a> {
    /// A writer for what `headers` declare, with nothing written yet.
    pub fn new(headers: &'a Headers, names: Names<'a>) -> Writer<'a> {
        Writer { headers, names, out: String::new(), done: BTreeSet::new() }
    }

    /// Returns the source.
    pub fn finish(self) -> String {
        self.out
    }

    /// Appends source that the caller has written.
    pub fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Returns the Rust name of a struct or an enumeration.
    pub fn name(&self, c: &str) -> String {
        let named = self.names.irregular.iter().chain(self.names.foreign).find(|(name, _)| *name == c);
        let plain = || words::camel(c.strip_suffix("_out").or(c.strip_suffix("_axis")).unwrap_or(c));
        named.map_or_else(plain, |(_, name)| (*name).to_owned())
    }

    fn is_foreign(&self, c: &str) -> bool {
        self.names.foreign.iter().any(|(name, _)| *name == c)
    }

    fn error(&self, text: String) -> Error {
        Error { file: self.headers.files.first().cloned().unwrap_or_default(), line: 0, text }
    }

    fn find(&self, c: &str) -> Result<&'a Struct, Error> {
        self.headers.find(c).ok_or_else(|| self.error(format!("found no struct {c}")))
    }

    /// Returns an enumeration by its C name.
    ///
    /// # Errors
    /// If there is none, or its values do not count from 0 in steps of 1.
    pub fn find_enum(&self, c: &str) -> Result<&'a Enum, Error> {
        let found = self.headers.find_enum(c).ok_or_else(|| self.error(format!("found no enum {c}")))?;
        match found.values.iter().enumerate().find(|(at, value)| value.number != *at as i128) {
            Some((_, value)) => {
                let text = format!("found {} = {}; expected values counted from 0", value.name, value.number);
                Err(Error { line: value.line, ..self.error(text) })
            }
            None => Ok(found),
        }
    }

    /// Writes a constant: `pub const NAME: TYPE`.
    ///
    /// # Errors
    /// If C has no such constant.
    pub fn constant(&mut self, c: &str, name: &str, of: &str) -> Result<(), Error> {
        let value = self.headers.constant(c)?;
        let doc = self.headers.constant_doc(c);
        let doc = if doc.is_empty() { format!("`{c}`.") } else { format!("`{c}`: {doc}") };
        self.out += &words::doc(&doc, "");
        writeln!(self.out, "pub const {name}: {of} = {value};\n").expect("a string");
        Ok(())
    }

    /// Writes an enumeration with its values' words. `derives` are derived in addition to the usual traits; `attribute`
    /// returns the attributes of the value with this word.
    ///
    /// # Errors
    /// As [`Writer::find_enum`].
    pub fn enumeration(
        &mut self,
        c: &str,
        derives: &str,
        attribute: &dyn Fn(&str) -> String,
    ) -> Result<(), Error> {
        let found = self.find_enum(c)?;
        let name = self.name(c);
        let all: Vec<(String, String, String)> = found
            .choices()
            .iter()
            .map(|value| {
                let text = Comment::of(&value.doc).text;
                let word = words::word(found, value);
                let doc = if text.is_empty() { format!("`{word}`.") } else { text };
                (words::variant(found, value), word, doc)
            })
            .collect();
        let out = &mut self.out;
        let doc =
            if found.doc.is_empty() { format!("`enum {c}`.") } else { format!("`enum {c}`: {}", found.doc) };
        *out += &words::doc(&doc, "");
        *out += &format!("#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash{derives})]\n");
        *out += &format!("#[repr(u32)]\npub enum {name} {{\n");
        for (at, (variant, word, doc)) in all.iter().enumerate() {
            *out += &words::doc(doc, "    ");
            *out += &format!("{}    {variant} = {at},\n", attribute(word));
        }
        *out += &format!(
            "}}\n\nimpl {name} {{\n    /// How many there are.\n    pub const COUNT: usize = {};\n    /// All, in the \
             order of C.\n    pub const ALL: &'static [{name}] = &[",
            all.len()
        );
        all.iter().for_each(|(variant, ..)| *out += &format!("{name}::{variant}, "));
        *out +=
            "];\n    /// Their words, in the same order.\n    pub const WORDS: &'static [&'static str] = &[";
        all.iter().for_each(|(_, word, _)| *out += &format!("{word:?}, "));
        *out += &format!(
            "];\n\n    /// The word in reports and arguments.\n    pub fn name(self) -> &'static str {{\n        \
             Self::WORDS[self as usize]\n    }}\n\n    /// The one with C's value `raw`, if there is one.\n    pub fn \
             get(raw: u32) -> Option<{name}> {{\n        Self::ALL.get(raw as usize).copied()\n    }}\n\n    /// The \
             one with C's value `raw`.\n    ///\n    /// # Panics\n    /// If C has no such value.\n    pub fn \
             from_raw(raw: u32) -> {name} {{\n        Self::ALL[raw as usize]\n    }}\n}}\n\n"
        );
        Ok(())
    }

    /// Writes a struct, after the structs that it contains.
    ///
    /// # Errors
    /// If there is none, or it contains a union, which Rust's side does not support.
    pub fn structure(&mut self, c: &str) -> Result<(), Error> {
        if self.is_foreign(c) || !self.done.insert(format!("struct {c}")) {
            return Ok(());
        }
        let found = self.find(c)?;
        if found.is_union {
            return Err(
                self.error(format!("found union {c}; expected a struct, as Rust must know what is there"))
            );
        }
        for field in &found.fields {
            if let Type::Struct(inner) = element(&field.of).0 {
                self.structure(inner)?;
            }
        }
        self.table(c)?;
        let name = self.name(c);
        let doc = if found.doc.is_empty() {
            format!("`struct {c}`.")
        } else {
            format!("`struct {c}`: {}", found.doc)
        };
        let mut out = words::doc(&doc, "");
        out += "#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]\n";
        let align = if found.align > 8 { format!(", align({})", found.align) } else { String::new() };
        out += &format!("#[repr(C{align})]\npub struct {name} {{\n");
        let mut end = 0;
        for field in &found.fields {
            if field.name.is_empty() {
                return Err(
                    self.error(format!("found an anonymous part of struct {c}; expected one with a name"))
                );
            }
            gap(&mut out, end, field.offset);
            let doc = if field.doc.is_empty() { format!("`{}`.", field.name) } else { field.doc.clone() };
            out += &words::doc(&doc, "    ");
            out += &format!("    pub {}: {},\n", words::identifier(&field.name), self.rust_type(&field.of));
            end = field.offset + field.size;
        }
        gap(&mut out, end, found.size);
        out += "}\n\n";
        out += &format!(
            "impl Default for {name} {{\n    fn default() -> {name} {{\n        {name}::new_zeroed()\n    }}\n}}\n\n\
             impl {name} {{\n    /// Its fields, in order.\n    pub const FIELDS: &'static [Field] = {};\n}}\n\n",
            table_name(c)
        );
        out += &format!("const _: () = {{\n    assert!(size_of::<{name}>() == {});\n", found.size);
        for field in &found.fields {
            let field_name = words::identifier(&field.name);
            out += &format!("    assert!(offset_of!({name}, {field_name}) == {});\n", field.offset);
        }
        self.out += &(out + "};\n\n");
        Ok(())
    }

    /// Writes the table of a struct's fields, `WL_CPU_FIELDS`, after those of the structs that it contains.
    ///
    /// # Errors
    /// If there is no such struct.
    pub fn table(&mut self, c: &str) -> Result<(), Error> {
        if self.is_foreign(c) || !self.done.insert(format!("table {c}")) {
            return Ok(());
        }
        let found = self.find(c)?;
        for field in &found.fields {
            if let Type::Struct(inner) = element(&field.of).0 {
                self.table(inner)?;
            }
        }
        let mut out = format!("/// The fields of `{c}`.\npub const {}: &[Field] = &[\n", table_name(c));
        for field in &found.fields {
            out += &self.entry(field)?;
        }
        self.out += &(out + "];\n\n");
        Ok(())
    }

    fn entry(&self, field: &Field) -> Result<String, Error> {
        let (of, len) = element(&field.of);
        let of_text = match of {
            Type::Struct(inner) => format!("Of::Struct({})", self.table_path(inner)),
            // The enumeration of a design may be in a header that is not read here.
            Type::Integer { signed, .. } => {
                match field.values.as_ref().filter(|c| self.headers.find_enum(c).is_some()) {
                    Some(values) => {
                        let found = self.find_enum(values)?;
                        let words: Vec<String> =
                            found.choices().iter().map(|value| words::word(found, value)).collect();
                        format!("Of::Word(&{words:?})")
                    }
                    None if *signed => "Of::Signed".to_owned(),
                    None => "Of::Unsigned".to_owned(),
                }
            }
            Type::Array(..) => unreachable!("element() ends at no array"),
        };
        Ok(format!(
            "    Field {{ name: {:?}, offset: {}, size: {}, len: {len}, of: {of_text} }},\n",
            field.name,
            field.offset,
            field.size / len.max(1),
        ))
    }

    fn table_path(&self, c: &str) -> String {
        match self.is_foreign(c) {
            true => format!("{}::FIELDS", self.name(c)),
            false => table_name(c),
        }
    }

    fn rust_type(&self, of: &Type) -> String {
        match of {
            Type::Integer { bytes, signed } => format!("{}{}", if *signed { 'i' } else { 'u' }, bytes * 8),
            Type::Struct(c) => self.name(c),
            Type::Array(of, len) => format!("[{}; {len}]", self.rust_type(of)),
        }
    }
}

/// Returns the element type of a field, and the number of elements. Arrays of arrays count as one.
fn element(of: &Type) -> (&Type, usize) {
    match of {
        Type::Array(of, len) => {
            let (inner, inner_len) = element(of);
            (inner, len * inner_len)
        }
        other => (other, 1),
    }
}

fn table_name(c: &str) -> String {
    format!("{}_FIELDS", c.to_ascii_uppercase())
}

/// Writes the padding that C leaves.
fn gap(out: &mut String, from: usize, to: usize) {
    if to > from {
        *out += &format!("    #[doc(hidden)]\n    pub gap_{from}: [u8; {}],\n", to - from);
    }
}
