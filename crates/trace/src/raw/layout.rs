// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the kernel puts the fields of its events. It says so itself, in a text for each event
//! (`/sys/kernel/tracing/events/sched/sched_switch/format`), which trace-cmd and perf copy into their files:
//! ```text
//! name: sched_switch
//! ID: 316
//! format:
//!         field:unsigned short common_type;       offset:0;       size:2; signed:0;
//!         field:char prev_comm[16];       offset:8;       size:16;        signed:1;
//! ```
//! Places differ between kernels, so none of them is written here.

use crate::event::SwitchedOut;
use crate::raw::store::number;
use crate::what::{Fields, Key, state_of_bits};

/// The layout of one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The number by which records name it.
    pub(crate) id: u32,
    pub(crate) subsystem: String,
    pub(crate) name: String,
    fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    name: String,
    offset: usize,
    size: usize,
    signed: bool,
    kind: Kind,
}

/// How a field holds its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    /// Text in the field, up to a NUL byte.
    Text,
    /// The place of a text: its offset in the record in the lower half, its length in the upper half.
    TextAt,
    /// The same, with an offset from the end of the field.
    TextBehind,
}

impl Layout {
    /// Parses the kernel's text; returns `None` if it is none.
    pub(crate) fn parse(text: &str, subsystem: &str) -> Option<Layout> {
        let mut layout = Layout { subsystem: subsystem.to_owned(), ..Layout::default() };
        let mut id = None;
        for line in text.lines() {
            let line = line.trim();
            if let Some(name) = line.strip_prefix("name:") {
                layout.name = name.trim().to_owned();
            } else if let Some(number) = line.strip_prefix("ID:") {
                id = number.trim().parse().ok();
            } else if line.starts_with("field") {
                layout.fields.push(field(line)?);
            } else if line.starts_with("print fmt") {
                break;
            }
        }
        layout.id = id?;
        (!layout.name.is_empty()).then_some(layout)
    }

    /// Returns the offset and the size of the field `name`.
    pub(crate) fn place(&self, name: &str) -> Option<(usize, usize)> {
        self.field(name).map(|field| (field.offset, field.size))
    }

    fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns the number in the field `name` of a record.
    pub(crate) fn number(&self, name: &str, data: &[u8], is_big_endian: bool) -> Option<i64> {
        self.field(name)?.number(data, is_big_endian)
    }

    /// Makes readable text of the names in a record, byte by byte: the kernel cuts them anywhere.
    pub(crate) fn mend_names(&self, data: &mut [u8], is_big_endian: bool) {
        for field in self.fields.iter().filter(|field| field.kind != Kind::Number) {
            let Some((begin, end)) = field.text(data, is_big_endian) else { continue };
            mend_name(&mut data[begin..end]);
        }
    }
}

/// Makes readable text of a name, byte by byte.
pub(crate) fn mend_name(name: &mut [u8]) {
    if name.is_ascii() {
        return;
    }
    let mut at = 0;
    let invalid = |chunk: std::str::Utf8Chunk<'_>| {
        let from = at + chunk.valid().len();
        at = from + chunk.invalid().len();
        (from, at)
    };
    let invalid: Vec<(usize, usize)> = name.utf8_chunks().map(invalid).collect();
    invalid.into_iter().for_each(|(from, to)| name[from..to].fill(b'?'));
}

/// `field:char prev_comm[16];  offset:8;  size:16;  signed:1;`; very old kernels do not tell the sign, and write
/// `field special:`.
fn field(line: &str) -> Option<Field> {
    let mut parts = line.split(';').map(str::trim);
    let declared = parts.next()?.split_once(':')?.1;
    let mut numbers = [None; 3];
    for part in parts {
        let (key, value) = part.split_once(':').unwrap_or_default();
        let keys = ["offset", "size", "signed"];
        if let Some(at) = keys.iter().position(|known| *known == key) {
            numbers[at] = value.parse::<u32>().ok();
        }
    }
    let before_array = declared.split('[').next()?;
    // In `__data_loc char[] filename`, the name comes after the brackets.
    let word = declared.rsplit([' ', '\t', '*']).next()?;
    let name = if declared.ends_with(']') { before_array.rsplit([' ', '\t', '*']).next()? } else { word };
    let is_array = declared.ends_with(']');
    let kind = if declared.starts_with("__data_loc") {
        Kind::TextAt
    } else if declared.starts_with("__rel_loc") {
        Kind::TextBehind
    } else if is_array && declared.starts_with("char ") {
        Kind::Text
    } else {
        Kind::Number
    };
    let [offset, size, signed] = numbers;
    let to_usize = |number: u32| usize::try_from(number).ok();
    Some(Field {
        name: name.to_owned(),
        offset: to_usize(offset?)?,
        size: to_usize(size?)?,
        signed: signed == Some(1),
        kind,
    })
}

impl Field {
    fn bytes<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        data.get(self.offset..self.offset.checked_add(self.size)?)
    }

    fn number(&self, data: &[u8], is_big_endian: bool) -> Option<i64> {
        let bytes = self.bytes(data)?;
        if !matches!(bytes.len(), 1 | 2 | 4 | 8) {
            return None;
        }
        let value = number(bytes, is_big_endian);
        if !self.signed {
            return i64::try_from(value).ok();
        }
        let shift = 64 - 8 * bytes.len() as u32;
        Some(((value << shift) as i64) >> shift)
    }

    /// Returns the first byte and the byte after the last one of the field's text.
    fn text(&self, data: &[u8], is_big_endian: bool) -> Option<(usize, usize)> {
        let (begin, length) = match self.kind {
            Kind::Number => return None,
            Kind::Text => (self.offset, self.size),
            Kind::TextAt | Kind::TextBehind => {
                let place = number(self.bytes(data)?, is_big_endian);
                let from = if self.kind == Kind::TextBehind { self.offset + self.size } else { 0 };
                (from + (place & 0xffff) as usize, (place >> 16 & 0xffff) as usize)
            }
        };
        let bytes = data.get(begin..begin.checked_add(length)?)?;
        let length = memchr::memchr(0, bytes).unwrap_or(length);
        Some((begin, begin + length))
    }
}

/// One record of an event.
pub(crate) struct Record<'a, 'l> {
    pub(crate) layout: &'l Layout,
    /// Its bytes, with readable names.
    pub(crate) data: &'a [u8],
    pub(crate) is_big_endian: bool,
}

impl<'a> Fields<'a> for Record<'a, '_> {
    fn task(&mut self, comm: Key, tid: Key) -> Option<(&'a str, u32)> {
        let (begin, end) = self.layout.field(comm.name)?.text(self.data, self.is_big_endian)?;
        let comm = std::str::from_utf8(&self.data[begin..end]).ok()?;
        Some((comm, u32::try_from(self.number(tid)?).ok()?))
    }

    fn number(&mut self, key: Key) -> Option<i64> {
        self.layout.number(key.name, self.data, self.is_big_endian)
    }

    fn number_if_any(&mut self, key: Key) -> Option<i64> {
        self.number(key)
    }

    fn number_after(&mut self, key: Key) -> Option<i64> {
        self.number(key)
    }

    fn address_after(&mut self, key: Key) -> Option<u64> {
        let field = self.layout.field(key.name)?;
        Some(number(field.bytes(self.data)?, self.is_big_endian))
    }

    fn state(&mut self, key: Key, comm: &str) -> Option<SwitchedOut> {
        Some(state_of_bits(self.number(key)? as u64, comm))
    }

    fn skip_text(&mut self, _key: Key, _next: Key) -> bool {
        true
    }

    fn skip_arrow(&mut self) {}

    fn at_end(&self) -> bool {
        true
    }
}
