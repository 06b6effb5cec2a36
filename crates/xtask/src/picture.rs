// SPDX-License-Identifier: GPL-2.0-or-later
//! The picture in README.md of the committed page: taken in Chromium, and marked with the page that it shows.
//!
//! A text chunk of the PNG file has the CRC-32 of the page. So a check needs no browser, and says that the picture is
//! stale as soon as the page is another one.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::command::{Skipped, find_program, output};
use crate::setup::BROWSERS;

/// Its name beside the page.
pub(crate) const PICTURE: &str = "example-report.png";
const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// The first chunk, which has the size of the picture.
const HEADER_BYTES: usize = 25;
/// Leaves the timeline alone, with tasks as rows.
const TIMELINE_ALONE: &str = "<style>main > :not(.controls, #names, .run) { display: none; } body { padding: 8px; } \
    .run canvas { height: 330px !important; }</style>\n<script type=\"module\">const wait = () => \
    document.body.dataset.openMs ? document.querySelector(\"input[value=tasks]\").click() : setTimeout(wait, 20);\n\
    wait();</script>\n</body>";

/// Whether a picture was taken of this page.
pub(crate) fn is_of(png: &[u8], page: &[u8]) -> bool {
    let mark = mark(page);
    png.windows(mark.len()).any(|part| part == mark)
}

/// Takes a picture of a page's timeline; `folder` is for temporary files.
///
/// # Errors
/// [`Skipped`] without Chromium.
pub(crate) fn take(page: &[u8], folder: &Path) -> Result<Vec<u8>> {
    let browser = find_program(BROWSERS)
        .ok_or_else(|| Skipped(format!("{PICTURE} shows another page, and Chromium is not installed")))?;
    let (copy, picture) = (folder.join("picture.html"), folder.join(PICTURE));
    std::fs::write(&copy, String::from_utf8_lossy(page).replace("</body>", TIMELINE_ALONE))?;
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let screenshot = format!("--screenshot={}", picture.display());
    output(
        Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .args(["--virtual-time-budget=20000", "--window-size=1168,826", &profile, &screenshot])
            .arg(format!("file://{}", copy.display())),
    )?;
    let taken = std::fs::read(&picture).with_context(|| format!("{} was not written", picture.display()))?;
    std::fs::remove_file(&picture)?;
    marked(&taken, page)
}

/// Puts the mark behind the first chunk.
fn marked(png: &[u8], page: &[u8]) -> Result<Vec<u8>> {
    ensure!(png.starts_with(SIGNATURE) && png.len() > SIGNATURE.len() + HEADER_BYTES, "this is no PNG file");
    let (head, rest) = png.split_at(SIGNATURE.len() + HEADER_BYTES);
    Ok([head, &mark(page), rest].concat())
}

/// The text chunk: its length, its type, a keyword and a text with a zero between them, and a checksum.
fn mark(page: &[u8]) -> Vec<u8> {
    let body = format!("tEXtSource\0a page with CRC-32 {:08x}", crc32fast::hash(page)).into_bytes();
    let (length, sum) = ((body.len() - 4) as u32, crc32fast::hash(&body));
    [&length.to_be_bytes()[..], &body, &sum.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checksum of "123456789" is the one that every description of CRC-32 names.
    #[test]
    fn a_mark_is_a_text_chunk() {
        let mark = mark(b"123456789");
        assert_eq!(&mark[..4], [0, 0, 0, 34]);
        assert_eq!(&mark[4..42], b"tEXtSource\0a page with CRC-32 cbf43926");
        assert_eq!(mark.len(), 46);
    }

    #[test]
    fn a_picture_belongs_to_one_page() {
        let png = [SIGNATURE, &[0; HEADER_BYTES], b"the rest"].concat();
        let marked = marked(&png, b"page").unwrap();
        assert!(is_of(&marked, b"page"));
        assert!(!is_of(&marked, b"other page") && !is_of(&png, b"page"));
        assert!(marked.starts_with(&png[..33]) && marked.ends_with(b"the rest"));
        assert!(super::marked(b"GIF89a", b"page").is_err());
    }
}
