// SPDX-License-Identifier: GPL-2.0-or-later
//! Text from outside, made safe to print on a terminal.
//!
//! Files and kernels supply names, descriptions and quoted lines. A terminal obeys the control characters in them: they
//! can recolour it, rewrite earlier lines, or set its title, and bidirectional overrides show text in another order
//! than the file's. So such text is printed through [`printable`] or [`printable_lines`], which write those characters
//! as escapes. JSON and SVG escape by their own rules and need neither.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns `text` for one line of a terminal: control characters (C0, DEL, C1), line separators and bidirectional
/// controls become escapes such as `\n`, `\x1b` or `\u{202e}`. Everything else stays, backslashes too, so the escapes
/// cannot be undone reliably.
pub fn printable(text: &str) -> Cow<'_, str> {
    escape(text, is_unsafe)
}

/// Returns `text` as [`printable`] does, but keeps its line feeds.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| c != '\n' && is_unsafe(c))
}

fn escape(text: &str, wanted: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&wanted) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !wanted(c) => safe.push(c),
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            // Writing to a string cannot fail.
            '\0'..='\x7f' => _ = write!(safe, "\\x{:02x}", u32::from(c)),
            c => _ = write!(safe, "\\u{{{:x}}}", u32::from(c)),
        }
    }
    Cow::Owned(safe)
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Arabic letter mark, left-to-right and right-to-left marks.
            '\u{61c}' | '\u{200e}' | '\u{200f}'
            // Line and paragraph separators; embeddings and overrides.
            | '\u{2028}'..='\u{202e}'
            // Isolates.
            | '\u{2066}'..='\u{2069}'
            // A byte order mark inside a text.
            | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_text_stays_and_is_not_copied() {
        for text in ["", "postgres: worker 3", "Обработчик", "日本語 👩‍💻", r"C:\temp", "naïve \"quotes\""]
        {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn every_control_character_is_escaped() {
        for c in (0..=0x9f).filter_map(char::from_u32).filter(|c| c.is_control()) {
            let safe = printable(c.encode_utf8(&mut [0; 4])).into_owned();
            assert!(safe.starts_with('\\') && safe.chars().all(|c| c.is_ascii_graphic()), "{c:?}: {safe}");
        }
    }

    #[test]
    fn escapes_say_which_character_it_was() {
        assert_eq!(printable("\x1b[31mred\x07"), r"\x1b[31mred\x07");
        assert_eq!(printable("a\u{202e}b\u{9b}c\u{2066}"), r"a\u{202e}b\u{9b}c\u{2066}");
        assert_eq!(printable("a\tb\r\nc\0"), r"a\tb\r\nc\x00");
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(printable_lines("one\n\x1btwo\n"), "one\n\\x1btwo\n");
    }
}
