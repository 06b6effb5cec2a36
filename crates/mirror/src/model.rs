// SPDX-License-Identifier: GPL-2.0-or-later
//! The declarations in headers, with the layout that C gives them.

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// An integer of this many bytes.
    Integer {
        /// 1, 2, 4 or 8.
        bytes: usize,
        /// Whether it is signed.
        signed: bool,
    },
    /// A struct or union by its C name.
    Struct(String),
    /// An array with this number of elements.
    Array(Box<Type>, usize),
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its C name. Empty for an anonymous struct or union, whose members C reaches directly.
    pub name: String,
    /// The comments before and after it.
    pub doc: String,
    /// Its type.
    pub of: Type,
    /// Its offset in its struct, in bytes.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
    /// The enumeration that its comment names, whose values it has.
    pub values: Option<String>,
}

/// A struct or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struct {
    /// Its C name. A struct declared inside another has the outer one's name and the field's.
    pub name: String,
    /// The comment before it.
    pub doc: String,
    /// Whether it is a union.
    pub is_union: bool,
    /// Whether C knows it by its name.
    pub has_tag: bool,
    /// Its fields in order.
    pub fields: Vec<Field>,
    /// Its size in bytes.
    pub size: usize,
    /// Its alignment in bytes.
    pub align: usize,
}

/// A value of an enumeration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Its C name.
    pub name: String,
    /// The comments before and after it.
    pub doc: String,
    /// Its integer value.
    pub number: i128,
    /// The line on which it is declared.
    pub line: u32,
}

/// An enumeration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enum {
    /// Its C name.
    pub name: String,
    /// The comment before it.
    pub doc: String,
    /// All values in order, including a closing `WL_NR_..`.
    pub values: Vec<Value>,
}

impl Enum {
    /// Returns the values without a closing `WL_NR_..`, which counts them.
    pub fn choices(&self) -> &[Value] {
        match self.values.split_last() {
            Some((last, rest)) if last.name.starts_with("WL_NR_") => rest,
            _ => &self.values,
        }
    }

    /// Returns what the names of all choices begin with, up to and including an underscore: `WL_IDLE_`.
    pub fn prefix(&self) -> &str {
        let Some(first) = self.choices().first() else { return "" };
        let shared =
            |end: usize| self.choices().iter().all(|value| value.name.starts_with(&first.name[..end]));
        let ends = first.name.match_indices('_').map(|(at, _)| at + 1);
        &first.name[..ends.filter(|&end| shared(end)).max().unwrap_or(0)]
    }
}
