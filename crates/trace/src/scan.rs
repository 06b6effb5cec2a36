// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads a line of text from left to right, without copying. Both text formats are parsed with it.

/// Numbers of that many digits always fit into 64 bits.
const MAX_DIGITS: usize = 19;

/// The rest of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan<'a> {
    pub(crate) rest: &'a str,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(rest: &'a str) -> Self {
        Scan { rest }
    }

    /// Goes past `literal` if it comes next.
    #[inline]
    pub(crate) fn eat(&mut self, literal: &str) -> bool {
        match self.rest.strip_prefix(literal) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Goes past blanks; returns whether there were any.
    #[inline]
    pub(crate) fn blanks(&mut self) -> bool {
        let length = self.rest.bytes().take_while(|&byte| byte == b' ' || byte == b'\t').count();
        self.rest = &self.rest[length..];
        length > 0
    }

    /// Returns the next bytes that are ASCII and `wanted`, which may be none, and goes past them.
    #[inline]
    pub(crate) fn while_ascii(&mut self, wanted: impl Fn(u8) -> bool) -> &'a str {
        let length = self.rest.bytes().take_while(|&byte| byte.is_ascii() && wanted(byte)).count();
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    /// Returns decimal digits and goes past them; `None` if there are none.
    #[inline]
    pub(crate) fn digits(&mut self) -> Option<&'a str> {
        let digits = self.while_ascii(|byte| byte.is_ascii_digit());
        (!digits.is_empty()).then_some(digits)
    }

    /// Returns a number and goes past it; `None` if there is none or if it is too large.
    #[inline]
    pub(crate) fn number(&mut self) -> Option<u64> {
        let (mut value, mut length) = (0, 0);
        for &byte in self.rest.as_bytes() {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            if length == MAX_DIGITS {
                return number(self.digits()?);
            }
            value = value * 10 + u64::from(digit);
            length += 1;
        }
        self.rest = &self.rest[length..];
        (length > 0).then_some(value)
    }

    /// Returns a number below 2^32, a task id or a CPU.
    #[inline]
    pub(crate) fn id(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// Returns a number of either sign.
    pub(crate) fn signed(&mut self) -> Option<i32> {
        let negative = self.eat("-");
        let value = i64::try_from(self.number()?).ok()?;
        i32::try_from(if negative { -value } else { value }).ok()
    }

    /// Returns the text up to the first `key`, which must begin with a blank, and goes past the key.
    #[inline]
    pub(crate) fn until(&mut self, key: &str) -> Option<&'a str> {
        let bytes = self.rest.as_bytes();
        let mut from = 0;
        loop {
            let at = from + memchr::memchr(b' ', &bytes[from..])?;
            if bytes[at..].starts_with(key.as_bytes()) {
                let text = &self.rest[..at];
                self.rest = &self.rest[at + key.len()..];
                return Some(text);
            }
            from = at + 1;
        }
    }

    /// Like [`Scan::until`], but up to the last `key` that begins at most `limit` bytes from here.
    #[inline]
    pub(crate) fn until_last_within(&mut self, limit: usize, key: &str) -> Option<&'a str> {
        let bytes = &self.rest.as_bytes()[..self.rest.len().min(limit + 1)];
        let keys = memchr::memrchr_iter(b' ', bytes);
        let at = keys.into_iter().find(|&at| self.rest.as_bytes()[at..].starts_with(key.as_bytes()))?;
        let text = &self.rest[..at];
        self.rest = &self.rest[at + key.len()..];
        Some(text)
    }

    /// Whether nothing follows, or a blank and further fields, which some vendors' kernels append.
    pub(crate) fn at_end_of_field(&self) -> bool {
        self.rest.is_empty() || self.rest.starts_with(' ')
    }
}

/// Returns `text` without the blanks at its beginning.
#[inline]
pub(crate) fn trim_blanks_before(text: &str) -> &str {
    let blanks = text.bytes().take_while(|&byte| byte == b' ').count();
    &text[blanks..]
}

/// Returns `text` without the blanks at its end.
#[inline]
pub(crate) fn trim_blanks_after(text: &str) -> &str {
    let blanks = text.bytes().rev().take_while(|&byte| byte == b' ').count();
    &text[..text.len() - blanks]
}

/// Returns the value of decimal digits; `None` if it is 2^64 or more.
pub(crate) fn number(digits: &str) -> Option<u64> {
    if digits.len() <= MAX_DIGITS {
        return Some(digits.bytes().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')));
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_they_end() {
        let mut scan = Scan::new("42 -7 18446744073709551615 18446744073709551616");
        assert_eq!((scan.number(), scan.blanks(), scan.signed()), (Some(42), true, Some(-7)));
        assert_eq!((scan.blanks(), scan.number()), (true, Some(u64::MAX)));
        assert_eq!((scan.blanks(), scan.number(), scan.number()), (true, None, None));
        assert_eq!(Scan::new("4294967296").id(), None);
        assert_eq!(Scan::new("0042x").id(), Some(42));
        assert_eq!(Scan::new("-2147483648").signed(), Some(i32::MIN));
        assert_eq!(Scan::new("2147483648").signed(), None);
        assert_eq!(Scan::new("-x").signed(), None);
    }

    #[test]
    fn text_up_to_a_key() {
        let mut scan = Scan::new("a pid b pid=7");
        assert_eq!((scan.until(" pid="), scan.rest), (Some("a pid b"), "7"));
        assert_eq!((scan.until(" pid="), scan.rest), (None, "7"));
        assert_eq!((trim_blanks_before("  é a "), trim_blanks_after(" a é  ")), ("é a ", " a é"));
        assert_eq!((trim_blanks_before("  "), trim_blanks_after("  ")), ("", ""));
        let mut scan = Scan::new("x pid=5 pid=7 pid=9");
        assert_eq!((scan.until_last_within(8, " pid="), scan.rest), (Some("x pid=5"), "7 pid=9"));
        assert_eq!((scan.until_last_within(0, " pid="), scan.rest), (None, "7 pid=9"));
        let mut scan = Scan::new("é pid=1");
        assert_eq!((scan.until(" pid="), scan.at_end_of_field()), (Some("é"), false));
    }
}
