// SPDX-License-Identifier: GPL-2.0-or-later
//! Files that are not text: recognised by their first bytes, with the command that makes readable text of them.
//!
//! A command names the user's own file as its input and a file that does not exist yet as its output, so that it can be
//! pasted and overwrites nothing.

use crate::unpack::Packing;
use crate::{TraceError, perf_data, trace_dat};

/// Bytes of a file's beginning that [`recognise`] looks at: up to the end of a tar header's magic.
pub(crate) const HEAD_BYTES: usize = 512;

/// A binary format that has a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    TraceDat,
    Perfetto,
    PerfData,
}

/// Returns the binary format of a file that begins with `head`; `None` if it has none that can be read.
pub(crate) fn binary(head: &[u8]) -> Option<Binary> {
    if head.starts_with(trace_dat::MAGIC) {
        return Some(Binary::TraceDat);
    }
    if head.starts_with(perf_data::MAGIC) {
        return Some(Binary::PerfData);
    }
    is_perfetto(head).then_some(Binary::Perfetto)
}

/// What to do with a file that is not text.
enum Advice {
    /// Unpack it with this command, which writes to its standard output. The packed file's name ends as told.
    Unpack(&'static str, &'static str),
    /// Convert it: the command before the input's name, between both names, and what ends the output's name.
    Convert(&'static str, &'static str, &'static str),
    /// Anything else, in words.
    Words(&'static str),
}

const PERF: Advice = Advice::Convert("perf script --ns -F +pid --show-lost-events -i", " >", "perf.txt");
const CTF: Advice = Advice::Words("name the folder that it is in, which has a file `metadata`");
const ONCE: Advice = Advice::Words("it is packed twice; unpack it once before");
const CTF_NAME: &str = "a part of a trace in the Common Trace Format (LTTng)";

/// How files of each kind begin, what they are, and what to do with them.
const KINDS: [(&[u8], &str, Advice); 10] = [
    (b"2ELIFREP", "perf's binary format of a machine of the other byte order", PERF),
    // A packed recording is unpacked; these are recognised in what it holds.
    (Packing::Gzip.magic(), "gzip data in packed data", ONCE),
    (Packing::Xz.magic(), "xz data in packed data", ONCE),
    (Packing::Zstd.magic(), "zstd data in packed data", ONCE),
    (b"BZh", "bzip2 data", Advice::Unpack("bzip2", ".bz2")),
    (b"PK\x03\x04", "a zip archive", Advice::Words("unpack it, and read the recording in it")),
    // The magic numbers of a stream and of packetised metadata, little endian.
    (b"\xc1\x1f\xfc\xc1", CTF_NAME, CTF),
    (b"\x57\x1d\xd1\x75", CTF_NAME, CTF),
    (b"/* CTF 1.", CTF_NAME, CTF),
    (b"\xff\xfe", "text in UTF-16", Advice::Convert("iconv -f UTF-16 -t UTF-8", " >", "utf-8.txt")),
];

/// The refusal of a file that begins with `head` and is not text; `None` if it may be text. `file` is its name.
pub(crate) fn recognise(head: &[u8], file: &str) -> Option<TraceError> {
    let foreign = |found: &str, advice: &Advice| TraceError::Foreign {
        file: file.to_owned(),
        found: found.to_owned(),
        advice: advice.text(file),
    };
    if let Some((_, found, advice)) = KINDS.iter().find(|(magic, ..)| head.starts_with(magic)) {
        return Some(foreign(found, advice));
    }
    None
}

/// Whether a file is a tar archive, which may have a trace in the Common Trace Format.
pub(crate) fn is_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar")
}

/// The refusal of a folder without a trace.
pub(crate) fn folder(file: &str) -> TraceError {
    let advice = Advice::Words("name the recording in it");
    TraceError::Foreign { file: file.to_owned(), found: "a folder".to_owned(), advice: advice.text(file) }
}

/// Perfetto's protobuf: packets one after the other, each after its key (field 1, with a length) and its length. Text
/// may begin with a newline, which is the same byte as the key, but then it has no control characters.
fn is_perfetto(head: &[u8]) -> bool {
    const KEY: u8 = 0x0a;
    let mut at = 0;
    for (index, &byte) in head.iter().enumerate().skip(1).take(5) {
        at |= usize::from(byte & 0x7f) << (7 * (index - 1));
        if byte & 0x80 == 0 {
            let next = head.get(index + 1 + at);
            let is_text = head.iter().all(|&byte| byte >= b'\t');
            return head[0] == KEY && next.is_none_or(|&next| next == KEY) && !is_text;
        }
    }
    false
}

impl Advice {
    fn text(&self, file: &str) -> String {
        let input = shell_word(file);
        match self {
            Advice::Unpack(command, suffix) => {
                let unpacked = file.strip_suffix(suffix).map(|name| unused(name, "unpacked"));
                let output = shell_word(&unpacked.unwrap_or_else(|| new_name(file, "unpacked")));
                format!("unpack it: {command} -dc {input} > {output}")
            }
            Advice::Convert(before, between, suffix) => {
                let output = shell_word(&new_name(file, suffix));
                format!("make text of it: {before} {input}{between} {output}")
            }
            Advice::Words(words) => (*words).to_owned(),
        }
    }
}

/// A name for a new file beside `file` that ends with `suffix`. No file of that name exists.
pub(crate) fn new_name(file: &str, suffix: &str) -> String {
    // What comes through a pipe has no name to derive another one from.
    let is_pipe = file == "-" || file.starts_with("/dev/") || file.starts_with("/proc/");
    let stem = if is_pipe { "recording" } else { file };
    unused(&format!("{stem}.{suffix}"), suffix)
}

/// `name`, or if it exists already, `name.2.suffix`, `name.3.suffix` and so on.
fn unused(name: &str, suffix: &str) -> String {
    let others = (2..).map(|number| format!("{name}.{number}.{suffix}"));
    let mut names = std::iter::once(name.to_owned()).chain(others);
    names.find(|name| std::fs::symlink_metadata(name).is_err()).unwrap_or_default()
}

/// `text` as one word of a shell's command.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./+:@%=,~".contains(c) || !c.is_ascii();
    if !text.is_empty() && !text.starts_with(['-', '~']) && text.chars().all(is_plain) {
        return text.to_owned();
    }
    // A name that begins with `-` would be taken for an option.
    let here = if text.starts_with('-') { "./" } else { "" };
    format!("'{here}{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(head: &[u8], file: &str) -> String {
        recognise(head, file).expect("no text").to_string()
    }

    #[test]
    fn each_kind_is_named_with_a_command_for_this_file() {
        assert_eq!(
            refusal(b"2ELIFREP\x68\0", "x"),
            "x: expected a recording, found perf's binary format of a machine of the other byte order; make text of it: \
             perf script --ns -F +pid --show-lost-events -i x > x.perf.txt"
        );
        // The beginning of a recording by a telephone.
        let telephone = b"\x0a\x6d\x40\xc5\x98\xb9\xd4\xe7\x39\x32\xdc\x80\x80\x00";
        assert_eq!(binary(telephone), Some(Binary::Perfetto));
        assert!(refusal(b"BZh9", "a/x.bz2").ends_with("; unpack it: bzip2 -dc a/x.bz2 > a/x"));
        assert!(refusal(b"BZh9", "x").ends_with("; unpack it: bzip2 -dc x > x.unpacked"));
        assert!(
            refusal(b"\xfd7zXZ\0\0\x04", "x").contains("found xz data in packed data; it is packed twice")
        );
        assert!(refusal(b"\xc1\x1f\xfc\xc1\0", "x").contains("Common Trace Format"));
        let mut tar = [0; HEAD_BYTES];
        tar[257..262].copy_from_slice(b"ustar");
        assert!(is_tar(&tar) && recognise(&tar, "x").is_none() && !is_tar(&tar[..261]));
    }

    #[test]
    fn text_is_not_taken_for_anything_else() {
        for text in [
            &b""[..],
            b"\n",
            b"\n# comment",
            b"\n\nx",
            b"# tracer: nop",
            b"  a 1 [0] 1.1: b:",
            b"version = 6",
        ] {
            assert!(recognise(text, "x").is_none(), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn no_command_overwrites_a_file() {
        let folder = std::env::temp_dir().join(format!("wakelab-magic-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = |name: &str| folder.join(name).display().to_string();
        for name in ["a", "a.perf.txt", "b.bz2", "b"] {
            std::fs::write(path(name), "").expect("a file");
        }
        let (perf, bzip2) = (refusal(b"2ELIFREP", &path("a")), refusal(b"BZh9", &path("b.bz2")));
        std::fs::remove_dir_all(&folder).expect("removed");
        assert!(perf.ends_with("/a.perf.txt.2.perf.txt"), "{perf}");
        assert!(bzip2.ends_with("/b.2.unpacked"), "{bzip2}");
    }

    #[test]
    fn names_are_words_of_the_shell() {
        assert_eq!(shell_word("a/b-1.txt"), "a/b-1.txt");
        assert_eq!(shell_word("my file"), "'my file'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word("-x"), "'./-x'");
        assert_eq!(new_name("/dev/stdin", "perf.txt"), "recording.perf.txt");
    }
}
