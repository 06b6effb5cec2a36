// SPDX-License-Identifier: GPL-2.0-or-later
//! Protobuf: a message is a sequence of fields, each after a key that has the field's number and how its value is
//! written. Numbers have 7 bits a byte; the highest bit tells that more follow.

/// The bytes from the first to the one after the last.
pub(crate) type Span = (usize, usize);

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    /// A text, a message or packed numbers.
    Bytes(Span),
}

/// The rest of a message, which is part of `bytes`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

/// A message that breaks the rules at this byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) usize);

impl<'a> Message<'a> {
    pub(crate) fn new(bytes: &'a [u8], (begin, end): Span) -> Self {
        let end = end.min(bytes.len());
        Message { bytes, at: begin.min(end), end }
    }

    /// Reads the next field; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Value)>, Broken> {
        if self.at == self.end {
            return Ok(None);
        }
        let begin = self.at;
        let key = self.number()?;
        let value = match key & 7 {
            0 => Value::Number(self.number()?),
            1 => Value::Number(self.fixed(8)?),
            5 => Value::Number(self.fixed(4)?),
            2 => {
                let length = self.number()?;
                let from = self.at;
                let length = usize::try_from(length).ok().filter(|&length| length <= self.end - from);
                self.at += length.ok_or(Broken(begin))?;
                Value::Bytes((from, self.at))
            }
            _ => return Err(Broken(begin)),
        };
        Ok(Some((key >> 3, value)))
    }

    /// Reads one of packed numbers; `None` at the end.
    pub(crate) fn packed(&mut self) -> Result<Option<u64>, Broken> {
        if self.at == self.end { Ok(None) } else { self.number().map(Some) }
    }

    fn number(&mut self) -> Result<u64, Broken> {
        let begin = self.at;
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let byte = *self.bytes[..self.end].get(self.at).ok_or(Broken(begin))?;
            self.at += 1;
            // The tenth byte has one bit of the number.
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Broken(begin))
    }

    fn fixed(&mut self, length: usize) -> Result<u64, Broken> {
        let bytes = self.bytes[..self.end].get(self.at..self.at + length).ok_or(Broken(self.at))?;
        self.at += length;
        Ok(crate::raw::store::number(bytes, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_all_kinds() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 2, b'a', b'b', 0x1d, 1, 0, 0, 0, 0x21, 2, 0, 0, 0, 0, 0, 0, 0];
        let mut message = Message::new(&bytes, (0, bytes.len()));
        assert_eq!(message.next(), Ok(Some((1, Value::Number(150)))));
        assert_eq!(message.next(), Ok(Some((2, Value::Bytes((5, 7))))));
        assert_eq!(message.next(), Ok(Some((3, Value::Number(1)))));
        assert_eq!(message.next(), Ok(Some((4, Value::Number(2)))));
        assert_eq!(message.next(), Ok(None));
        for broken in [&[0x08][..], &[0x08, 0xff], &[0x12, 9, 0], &[0x0b, 0], &[0x1d, 0, 0], &[0x80; 11]] {
            assert!(Message::new(broken, (0, broken.len())).next().is_err(), "{broken:?}");
        }
        let minus_one = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(Message::new(&minus_one, (0, 10)).packed(), Ok(Some(u64::MAX)));
    }
}
