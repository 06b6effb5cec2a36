// SPDX-License-Identifier: GPL-2.0-or-later
//! Fields of C's structs as tables, in order to compare, name and print what is in memory.
//!
//! The build script writes the tables from policy/*.h; a mirrored struct's own table is `FIELDS`.

use std::fmt;

/// A field of a struct.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its C name. Empty for an anonymous part, whose fields count as fields of what contains it.
    pub name: &'static str,
    /// Its offset in bytes.
    pub offset: usize,
    /// Bytes of one element.
    pub size: usize,
    /// Number of elements; 1 if it is not an array.
    pub len: usize,
    /// The type of an element.
    pub of: Of,
}

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub enum Of {
    /// An unsigned number.
    Unsigned,
    /// A signed number.
    Signed,
    /// A value of an enumeration, with the words of its values.
    Word(&'static [&'static str]),
    /// A struct, with its fields.
    Struct(&'static [Field]),
}

/// A number in a struct, at any depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Its path: `next_balance_ns[3]`, `first.slot`.
    pub name: String,
    /// Its offset in bytes from the beginning of the outermost struct.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
    is_signed: bool,
    words: &'static [&'static str],
}

impl Field {
    /// Whether it is unused room.
    pub fn is_unused(&self) -> bool {
        self.name.starts_with("unused")
    }

    /// A struct of one array goes by the name of the field that has its type: `reads[2]`, not `reads.at[2]`.
    fn inner(&self) -> (&'static [Field], usize) {
        match self.of {
            Of::Struct(fields) => (fields, fields.len()),
            _ => (&[], 0),
        }
    }
}

/// Returns all numbers of a struct, in order, except unused ones.
pub fn leaves(fields: &'static [Field]) -> Vec<Leaf> {
    let mut found = Vec::new();
    fields.iter().for_each(|field| add_leaves(field, "", 0, &mut found));
    found
}

fn add_leaves(field: &Field, path: &str, base: usize, found: &mut Vec<Leaf>) {
    if field.is_unused() {
        return;
    }
    for index in 0..field.len {
        let offset = base + field.offset + index * field.size;
        let subscript = if field.len > 1 { format!("[{index}]") } else { String::new() };
        let name = format!("{path}{}{subscript}", field.name);
        let (is_signed, words) = match field.of {
            Of::Struct(_) => {
                let (inner, number) = field.inner();
                for part in inner {
                    match number {
                        1 => add_leaves(&Field { name: "", ..*part }, &name, offset, found),
                        _ if name.is_empty() => add_leaves(part, "", offset, found),
                        _ => add_leaves(part, &format!("{name}."), offset, found),
                    }
                }
                continue;
            }
            Of::Unsigned => (false, &[][..]),
            Of::Signed => (true, &[][..]),
            Of::Word(words) => (false, words),
        };
        found.push(Leaf { name, offset, size: field.size, is_signed, words });
    }
}

/// Returns the path of what is at `offset` in a struct: `cpu[3].nr_queued`. For an element of an array of numbers it is
/// the array's path.
pub fn name_at(fields: &'static [Field], offset: usize) -> String {
    let next = fields.partition_point(|field| field.offset <= offset);
    let Some(field) = next.checked_sub(1).map(|at| &fields[at]) else { return String::new() };
    let (inner, number) = field.inner();
    let index = ((offset - field.offset) / field.size).min(field.len - 1);
    if inner.is_empty() {
        return field.name.to_owned();
    }
    let subscript = if field.len > 1 { format!("[{index}]") } else { String::new() };
    let rest = name_at(inner, offset - field.offset - index * field.size);
    let dot = if field.name.is_empty() || number == 1 && field.len == 1 { "" } else { "." };
    let rest = if number == 1 && field.len == 1 { String::new() } else { rest };
    format!("{}{subscript}{dot}{rest}", field.name)
}

impl Leaf {
    /// Returns its value in the struct's bytes. A negative number has the upper bits set.
    ///
    /// # Panics
    /// If `bytes` are too short.
    pub fn value(&self, bytes: &[u8]) -> u64 {
        let mut value = [0; 8];
        value[..self.size].copy_from_slice(&bytes[self.offset..self.offset + self.size]);
        // C runs on this machine; all BPF hosts that we have are little-endian.
        let value = u64::from_le_bytes(value);
        let unused = 64 - 8 * self.size as u32;
        if self.is_signed { ((value << unused).cast_signed() >> unused).cast_unsigned() } else { value }
    }

    /// Returns its value as text: the word of an enumeration's value, else the number.
    pub fn text(&self, bytes: &[u8]) -> String {
        let value = self.value(bytes);
        match self.words.get(value as usize) {
            Some(word) => (*word).to_owned(),
            None if self.is_signed => value.cast_signed().to_string(),
            None => value.to_string(),
        }
    }
}

impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A number of bytes that depends on the greatest number of CPUs of a build.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) bytes: usize,
    pub(crate) per_cpu: usize,
}

impl Place {
    pub(crate) const fn with(self, max_cpus: usize) -> usize {
        self.bytes + self.per_cpu * max_cpus
    }
}
