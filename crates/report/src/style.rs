// SPDX-License-Identifier: GPL-2.0-or-later
//! How text is laid out: its width, and its colours.

use anstyle::{Ansi256Color, Color};

/// How text is laid out. The caller knows the terminal and the environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether marked gains are blue and marked losses orange.
    pub color: bool,
    /// Columns of the page; `None`: unlimited.
    pub width: Option<usize>,
}

/// Blue and orange, which colour-blind people can tell apart, on a dark and on a light background.
pub(crate) const GAIN: anstyle::Style = foreground(33);
pub(crate) const LOSS: anstyle::Style = foreground(208);
pub(crate) const BOLD: anstyle::Style = anstyle::Style::new().bold();

const fn foreground(index: u8) -> anstyle::Style {
    anstyle::Style::new().fg_color(Some(Color::Ansi256(Ansi256Color(index))))
}

/// Columns below which text is not wrapped further.
const WIDTH_MIN: usize = 20;

impl Style {
    /// Returns a paragraph wrapped at the width of the page. Further lines have the indentation of the first and two
    /// blanks more. Ends in a newline.
    pub fn wrap(&self, text: &str) -> String {
        let text = text.trim_end();
        let Some(width) = self.width else { return format!("{text}\n") };
        let blanks = text.len() - text.trim_start().len();
        let indent = format!("{}  ", &text[..blanks]);
        let options = textwrap::Options::new(width.max(WIDTH_MIN))
            .initial_indent(&text[..blanks])
            .subsequent_indent(&indent)
            .break_words(false);
        format!("{}\n", textwrap::fill(&text[blanks..], options))
    }

    /// Returns each line of a text wrapped as by [`Style::wrap`].
    pub fn wrap_lines(&self, text: &str) -> String {
        text.lines().map(|line| self.wrap(line)).collect()
    }
}

pub(crate) fn paint(style: &Style, color: anstyle::Style, text: &str) -> String {
    if style.color { format!("{color}{text}{color:#}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_indentation() {
        let narrow = Style { color: false, width: Some(24) };
        assert_eq!(narrow.wrap("  one two three four five six"), "  one two three four\n    five six\n");
        assert_eq!(narrow.wrap_lines("a b\n\nc"), "a b\n\nc\n");
        assert_eq!(Style::default().wrap("one two three four five six"), "one two three four five six\n");
    }
}
