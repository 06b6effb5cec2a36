// SPDX-License-Identifier: GPL-2.0-or-later
//! The types that CTF's metadata declare, and how a value of a type is read from a packet, bit by bit.

use std::rc::Rc;

/// The most fields of a type, counted with those inside. LTTng's largest event has a few dozen.
pub(crate) const FIELDS_MAX: u64 = 10_000;

/// A name, by its number among the names of the metadata.
pub(crate) type Name = u32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Int {
    /// From 1 to 64.
    pub(crate) bits: u32,
    pub(crate) align: u64,
    pub(crate) is_signed: bool,
    pub(crate) is_big_endian: bool,
    /// It is a character.
    pub(crate) is_text: bool,
    /// It tells the time.
    pub(crate) is_clock: bool,
}

/// From a number to a number, with both.
pub(crate) type Range = (i128, i128);

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Int(Int),
    /// A number with a fraction, of this many bits, aligned so. None is of interest.
    Float(u64, u64),
    /// Up to a NUL byte.
    Text,
    /// A number, and names for ranges of it.
    Enum(Int, Vec<(Name, Range)>),
    /// Fields, and the alignment.
    Struct(Vec<(Name, Rc<Type>)>, u64),
    /// The one of these with the value of the field of this name in one of its ranges.
    Variant(Name, Vec<(Vec<Range>, Rc<Type>)>),
    Array(Rc<Type>, u64),
    /// As many as the field of this name tells.
    Sequence(Rc<Type>, Name),
}

impl Type {
    pub(crate) fn align(&self) -> u64 {
        match self {
            Type::Int(int) | Type::Enum(int, _) => int.align,
            Type::Float(_, align) => *align,
            Type::Text => 8,
            Type::Struct(_, align) => *align,
            Type::Variant(..) => 1,
            Type::Array(of, _) | Type::Sequence(of, _) => of.align(),
        }
    }

    /// Returns the number of fields with those inside.
    pub(crate) fn fields(&self) -> u64 {
        let add = |sum: u64, field: &Rc<Type>| sum.saturating_add(field.fields());
        match self {
            Type::Struct(fields, _) => fields.iter().map(|(_, field)| field).fold(1, add),
            Type::Variant(_, options) => options.iter().map(|(_, option)| option).fold(1, add),
            Type::Array(of, _) | Type::Sequence(of, _) => of.fields().saturating_add(1),
            _ => 1,
        }
    }
}

/// A value that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(i64),
    /// The first byte in the packet, and the one after the last.
    Text(usize, usize),
}

/// The values of a record, by name, in the order in which they stand there.
pub(crate) type Values = Vec<(Name, Value)>;

/// Why a value cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// Reads a packet from the left.
pub(crate) struct Bits<'a> {
    pub(crate) data: &'a [u8],
    /// The number of the next bit.
    pub(crate) at: u64,
    /// The number of bits.
    pub(crate) end: u64,
    /// The clock: its last value, which values of fewer bits continue.
    pub(crate) clock: u64,
}

impl Bits<'_> {
    pub(crate) fn align(&mut self, align: u64) {
        self.at = self.at.next_multiple_of(align.max(1));
    }

    fn skip(&mut self, bits: u64) -> Result<(), Broken> {
        self.at = self.at.checked_add(bits).filter(|&at| at <= self.end).ok_or(Broken)?;
        Ok(())
    }

    fn int(&mut self, int: &Int) -> Result<i64, Broken> {
        self.align(int.align);
        let (from, bits) = (self.at, u64::from(int.bits));
        self.skip(bits)?;
        let mut value = 0u64;
        if from.is_multiple_of(8) && bits.is_multiple_of(8) {
            let bytes = &self.data[(from / 8) as usize..(self.at / 8) as usize];
            value = crate::raw::store::number(bytes, int.is_big_endian);
        } else {
            // Little-endian bits fill a byte from its lowest bit on, big-endian ones from its highest.
            for bit in 0..bits {
                let place = from + bit;
                let byte = u64::from(self.data[(place / 8) as usize]);
                value = match int.is_big_endian {
                    true => value << 1 | byte >> (7 - place % 8) & 1,
                    false => value | (byte >> (place % 8) & 1) << bit,
                };
            }
        }
        if int.is_signed {
            let shift = 64 - int.bits;
            return Ok(((value << shift) as i64) >> shift);
        }
        if int.is_clock {
            self.advance_clock(value, int.bits);
        }
        Ok(value as i64)
    }

    /// Sets the clock to the next time that ends with these bits.
    fn advance_clock(&mut self, value: u64, bits: u32) {
        let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        let next = self.clock & !mask | value;
        self.clock = if next < self.clock && bits < 64 { next.wrapping_add(mask + 1) } else { next };
    }

    /// Reads a value of a type, with what is inside, and appends them to `values`. `outer` are values before it.
    pub(crate) fn read(
        &mut self,
        of: &Type,
        name: Name,
        outer: &Values,
        values: &mut Values,
    ) -> Result<(), Broken> {
        match of {
            Type::Int(int) | Type::Enum(int, _) => {
                let value = self.int(int)?;
                values.push((name, Value::Number(value)));
            }
            Type::Float(bits, align) => {
                self.align(*align);
                self.skip(*bits)?;
            }
            Type::Text => {
                self.align(8);
                let begin = (self.at / 8) as usize;
                let rest = self.data.get(begin..(self.end / 8) as usize).ok_or(Broken)?;
                let length = memchr::memchr(0, rest).ok_or(Broken)?;
                values.push((name, Value::Text(begin, begin + length)));
                self.skip(8 * (length as u64 + 1))?;
            }
            Type::Struct(fields, align) => {
                self.align(*align);
                fields.iter().try_for_each(|(name, field)| self.read(field, *name, outer, values))?;
            }
            Type::Variant(tag, options) => {
                let Some(Value::Number(tag)) = find(*tag, values, outer) else { return Err(Broken) };
                let has = |ranges: &[Range]| {
                    ranges.iter().any(|(from, to)| (*from..=*to).contains(&i128::from(tag)))
                };
                let (_, option) = options.iter().find(|(ranges, _)| has(ranges)).ok_or(Broken)?;
                self.read(option, name, outer, values)?;
            }
            Type::Array(of, length) => self.array(of, *length, name, outer, values)?,
            Type::Sequence(of, length) => {
                let Some(Value::Number(length)) = find(*length, values, outer) else { return Err(Broken) };
                let length = u64::try_from(length).map_err(|_| Broken)?;
                self.array(of, length, name, outer, values)?;
            }
        }
        Ok(())
    }

    fn array(
        &mut self,
        of: &Type,
        length: u64,
        name: Name,
        outer: &Values,
        values: &mut Values,
    ) -> Result<(), Broken> {
        self.align(of.align());
        if let Type::Int(int) = of
            && u64::from(int.bits).is_multiple_of(int.align)
        {
            let begin = self.at;
            self.skip(length.checked_mul(int.bits.into()).ok_or(Broken)?)?;
            if int.is_text && int.bits == 8 && begin.is_multiple_of(8) {
                let begin = (begin / 8) as usize;
                let text = &self.data[begin..(self.at / 8) as usize];
                let length = memchr::memchr(0, text).unwrap_or(text.len());
                values.push((name, Value::Text(begin, begin + length)));
            }
            return Ok(());
        }
        for _ in 0..length {
            let (begin, known) = (self.at, values.len());
            self.read(of, name, outer, values)?;
            // What is inside is of no interest, but is needed while it is read.
            values.truncate(known);
            if self.at == begin {
                // Elements without bits may be any number.
                break;
            }
        }
        Ok(())
    }
}

/// Returns the value of this name that was read last.
fn find(name: Name, values: &Values, outer: &Values) -> Option<Value> {
    let of = |values: &Values| values.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| *value);
    of(values).or_else(|| of(outer))
}
