// SPDX-License-Identifier: GPL-2.0-or-later
//! The elements of SVG that the project's figures consist of.

use std::fmt::Write;

/// Writes a grey line between two points.
pub fn line(body: &mut String, (x1, x2): (f64, f64), (y1, y2): (f64, f64)) {
    // Writing to a string cannot fail, here and below.
    let _ =
        writeln!(body, "<line x1=\"{x1:.1}\" x2=\"{x2:.1}\" y1=\"{y1:.1}\" y2=\"{y2:.1}\" stroke=\"#ddd\"/>");
}

/// Writes a text at a point; `anchor` is `start`, `middle` or `end`.
pub fn label(body: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let _ =
        writeln!(body, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", escaped(text));
}

/// Returns a text that may stand inside an element.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns the whole file, with a white ground.
pub fn document(width: f64, height: f64, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <!-- SPDX-License-Identifier: GPL-2.0-or-later -->\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_break_out() {
        let mut body = String::new();
        label(&mut body, 1.0, 2.0, "start", "a<b>&c");
        assert_eq!(body, "<text x=\"1.0\" y=\"2.0\" text-anchor=\"start\">a&lt;b&gt;&amp;c</text>\n");
    }
}
