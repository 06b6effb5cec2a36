// SPDX-License-Identifier: GPL-2.0-or-later
//! Words, numbers, texts and signs of CTF's metadata.

/// One of them, with the byte of the metadata where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) at: usize,
    pub(crate) what: What<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What<'a> {
    Word(&'a str),
    Number(i128),
    /// What is between quotation marks, as it is written there.
    Text(&'a str),
    /// One or more characters, such as `{` or `:=`.
    Sign(&'a str),
}

/// Signs of more than one character.
const LONG_SIGNS: [&str; 3] = ["...", ":=", "->"];

/// Takes text apart; the error is the byte where it goes wrong.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, usize> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        let rest = &text[at..];
        let (what, length) = if next.is_whitespace() {
            (None, next.len_utf8())
        } else if rest.starts_with("/*") {
            (None, rest.find("*/").ok_or(at)? + 2)
        } else if rest.starts_with("//") {
            (None, rest.find('\n').unwrap_or(rest.len()))
        } else if next == '"' {
            let length = text_bytes(rest).ok_or(at)?;
            (Some(What::Text(&rest[1..length - 1])), length)
        } else if next.is_ascii_digit() || next == '-' && rest[1..].starts_with(|c: char| c.is_ascii_digit())
        {
            let length = 1 + word_bytes(&rest[1..]);
            (Some(What::Number(number(&rest[..length]).ok_or(at)?)), length)
        } else if next.is_ascii_alphabetic() || next == '_' {
            let length = word_bytes(rest);
            (Some(What::Word(&rest[..length])), length)
        } else {
            let long = LONG_SIGNS.iter().find(|sign| rest.starts_with(**sign));
            let length = long.map_or(next.len_utf8(), |sign| sign.len());
            (Some(What::Sign(&rest[..length])), length)
        };
        all.extend(what.map(|what| Token { at, what }));
        at += length;
    }
    Ok(all)
}

fn word_bytes(text: &str) -> usize {
    text.bytes().take_while(|&byte| byte.is_ascii_alphanumeric() || byte == b'_').count()
}

/// Returns the length of a text with its quotation marks. A backslash makes one part of the text.
fn text_bytes(text: &str) -> Option<usize> {
    let mut escaped = true;
    for (at, byte) in text.bytes().enumerate() {
        if byte == b'"' && !escaped {
            return Some(at + 1);
        }
        escaped = byte == b'\\' && !escaped;
    }
    None
}

/// Reads a number in base 10, 16 (`0x1f`) or 8 (`017`), with what C may write behind it.
fn number(text: &str) -> Option<i128> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let digits = digits.trim_end_matches(['u', 'U', 'l', 'L']);
    let value = if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        i128::from_str_radix(hex, 16)
    } else if digits.len() > 1 && digits.starts_with('0') {
        i128::from_str_radix(digits, 8)
    } else {
        digits.parse()
    };
    value.ok().filter(|value| *value <= u64::MAX.into()).map(|value| sign * value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds() {
        let text = "/* x */ a_1 := -0x1F; // y\n\"q \\\" r\" 0 ... 017 env.b -> <c>";
        let found: Vec<What<'_>> =
            tokens(text).expect("tokens").into_iter().map(|token| token.what).collect();
        let sign = What::Sign;
        let expected = [
            What::Word("a_1"),
            sign(":="),
            What::Number(-31),
            sign(";"),
            What::Text("q \\\" r"),
            What::Number(0),
            sign("..."),
            What::Number(15),
            What::Word("env"),
            sign("."),
            What::Word("b"),
            sign("->"),
            sign("<"),
            What::Word("c"),
            sign(">"),
        ];
        assert_eq!(found, expected);
        for (text, at) in [("a /* b", 2), ("a \"b", 2), ("  1x", 2), ("36893488147419103232", 0)] {
            assert_eq!(tokens(text), Err(at), "{text}");
        }
    }
}
