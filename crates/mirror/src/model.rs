// SPDX-License-Identifier: GPL-2.0-or-later
//! What headers declare, with the layout that C gives it.

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
    /// A number of elements.
    Array(Box<Type>, usize),
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its C name. Empty for an anonymous struct or union, whose members C reaches without one.
    pub name: String,
    /// Its comments.
    pub doc: String,
    /// Its type.
    pub of: Type,
    /// Where it begins in its struct, in bytes.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
    /// The enumeration that its comment names: whose values it has.
    pub values: Option<String>,
}

/// A struct or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struct {
    /// Its C name; for one declared inside another, that of the other with the field's.
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
    /// Its comments.
    pub doc: String,
    /// The number.
    pub number: i128,
    /// The line where it stands.
    pub line: u32,
}

/// An enumeration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enum {
    /// Its C name.
    pub name: String,
    /// The comment before it.
    pub doc: String,
    /// All values in order, a closing `WL_NR_..` included.
    pub values: Vec<Value>,
}

impl Enum {
    /// The values but for a `WL_NR_..` that counts them.
    pub fn choices(&self) -> &[Value] {
        match self.values.split_last() {
            Some((last, rest)) if last.name.starts_with("WL_NR_") => rest,
            _ => &self.values,
        }
    }

    /// How the names of all choices begin, up to and with an underscore: `WL_IDLE_`.
    pub fn prefix(&self) -> &str {
        let Some(first) = self.choices().first() else { return "" };
        let shared =
            |end: usize| self.choices().iter().all(|value| value.name.starts_with(&first.name[..end]));
        let ends = first.name.match_indices('_').map(|(at, _)| at + 1);
        &first.name[..ends.filter(|&end| shared(end)).max().unwrap_or(0)]
    }
}
