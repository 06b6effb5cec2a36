// SPDX-License-Identifier: GPL-2.0-or-later
//! Headers and the Rust and C assertions written for them: small headers in this file, and policy/ itself.

use std::fs;
use std::path::PathBuf;

use wakelab_mirror::rust::{Names, Writer};
use wakelab_mirror::{Error, Headers, Type, check, words};

/// Reads a header with this text. `name` keeps the files of tests apart.
fn read(name: &str, text: &str) -> Result<Headers, Error> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("test.h");
    fs::write(&file, text).unwrap();
    Headers::read(&[file], &[], &[("WL_MAX_CPUS", 128)])
}

/// Returns the error for a header with this text: the line, and the words.
fn refusal(name: &str, text: &str) -> (u32, String) {
    let error = read(name, text).unwrap_err();
    (error.line, error.text)
}

#[test]
fn places_are_those_of_c() {
    let text = "#define WORDS (WL_MAX_CPUS / 64)\n\
        struct wl_in { u8 a; u32 b; };\n\
        struct wl_out {\n\
        \tu16 head;\n\
        \tstruct wl_in pair[2], last; /* both */\n\
        \tu64 words[WORDS] WL_ALIGN_LINE;\n\
        \tunion { u8 bytes[3]; u16 half; };\n\
        \tstruct { s32 x; u64 y; } own;\n\
        } WL_ALIGN_LINE;\n";
    let headers = read("places", text).unwrap();
    let out = headers.find("wl_out").unwrap();
    let places: Vec<_> =
        out.fields.iter().map(|field| (field.name.as_str(), field.offset, field.size)).collect();
    let expected =
        [("head", 0, 2), ("pair", 4, 16), ("last", 20, 8), ("words", 64, 16), ("", 80, 4), ("own", 88, 16)];
    assert_eq!(places, expected);
    assert_eq!((out.size, out.align), (128, 64));
    assert_eq!(out.fields[1].doc, "both");
    let assertions = check::assertions(&headers, &["WORDS"]).unwrap();
    for line in [
        "_Static_assert(sizeof(struct wl_out) == 128,",
        "_Static_assert(__builtin_offsetof(struct wl_out, half) == 80,",
        "_Static_assert(__builtin_offsetof(struct wl_out, own.y) == 96,",
        "_Static_assert(WORDS == 2,",
    ] {
        assert!(assertions.contains(line), "{line} is not in\n{assertions}");
    }
}

#[test]
fn values_and_comments_of_enumerations() {
    let text = "/* Kinds of it. */\n\
        enum wl_kind_axis {\n\
        \tWL_KIND_FIRST_ONE, /* foo.h: the first */\n\
        \t/*\n\t * \"2nd\": the\n\t * second\n\t */\n\
        \tWL_KIND_SECOND,\n\
        \tWL_KIND_4_15,\n\
        \tWL_NR_KIND,\n\
        };\n\
        enum wl_far { WL_FAR_A = 3, WL_FAR_B = WL_FAR_A * 2 + 1 };\n";
    let headers = read("values", text).unwrap();
    let kind = headers.find_enum("wl_kind_axis").unwrap();
    assert_eq!((kind.doc.as_str(), kind.prefix(), kind.choices().len()), ("Kinds of it.", "WL_KIND_", 3));
    let names: Vec<_> =
        kind.choices().iter().map(|value| (words::word(kind, value), words::variant(kind, value))).collect();
    let expected = [("first-one", "FirstOne"), ("2nd", "Second"), ("4.15", "Linux4_15")];
    assert_eq!(names, expected.map(|(word, variant)| (word.to_owned(), variant.to_owned())));
    assert_eq!(words::Comment::of(&kind.values[0].doc).file.as_deref(), Some("foo.h"));
    assert_eq!(words::Comment::of(&kind.values[1].doc).text, "the second");
    assert_eq!(headers.constant("WL_FAR_B").unwrap(), 7);
    let mut writer = Writer::new(&headers, Names::default());
    writer.enumeration("wl_kind_axis", "", &|_| String::new()).unwrap();
    // Rust's enumerations count from 0 only.
    let error = writer.enumeration("wl_far", "", &|_| String::new()).unwrap_err();
    assert_eq!(error.text, "found WL_FAR_A = 3; expected values counted from 0");
    assert!(
        writer
            .finish()
            .contains("pub const WORDS: &'static [&'static str] = &[\"first-one\", \"2nd\", \"4.15\"")
    );
}

#[test]
fn an_order_that_changes_changes_the_assertions() {
    let order = |name: &str, text: &str| check::assertions(&read(name, text).unwrap(), &[]).unwrap();
    let (one, other) = (order("order_a", "enum e { A, B };"), order("order_b", "enum e { B, A };"));
    assert!(one.contains("(A == 0,") && one.contains("(B == 1,"));
    assert!(other.contains("(A == 1,") && other.contains("(B == 0,"));
}

#[test]
fn functions_macros_and_conditionals_are_stepped_over() {
    let text = "#ifndef GUARD\n#define GUARD\n\
        typedef __UINT32_TYPE__ u32;\n\
        _Static_assert(1 + 1 == 2, \"sums\");\n\
        struct wl_later;\n\
        static inline __attribute__((unused)) u32 f(u32 a)\n{\n\treturn a ? '}' : \"{\"[0];\n}\n\
        int g(struct wl_later *p, u32 cpu);\n\
        #define wl_macro(a) \\\n\t({ (a); })\n\
        #if defined(NOWHERE) && WL_MAX_CPUS > 64\n#include <nowhere.h>\n\
        #elif WL_MAX_CPUS == 128\n#define ROOM 5\n#else\n#error none\n#endif\n\
        struct wl_room { u32 of[ROOM]; };\n#endif\n";
    let headers = read("functions", text).unwrap();
    let of = Type::Array(Box::new(Type::Integer { bytes: 4, signed: false }), 5);
    assert_eq!(headers.find("wl_room").unwrap().fields[0].of, of);
    assert_eq!(headers.structs.len(), 1);
}

#[test]
fn what_cannot_be_mirrored_is_refused_by_line() {
    let refused = |name, text| refusal(name, text);
    let (line, text) = refused("pointer", "struct wl_a {\n\tu32 *at;\n};\n");
    assert_eq!((line, text.as_str()), (2, "found `*`; expected a field's name"));
    let (line, text) = refused("bits", "struct wl_a {\n\tu32 x : 3;\n};\n");
    assert_eq!(line, 2);
    assert!(text.starts_with("found `:`; expected `;`"), "{text}");
    let (line, text) = refused("type", "\n\nstruct wl_a { long x; };\n");
    assert_eq!(
        (line, text.as_str()),
        (3, "found `long`; expected u8 to u64, s8 to s64, a struct or a union")
    );
    let (line, text) = refused("length", "struct wl_a {\n\tu32 x[NOT_DEFINED];\n};\n");
    assert_eq!((line, text.as_str()), (2, "found NOT_DEFINED, which has no value"));
    let (line, text) = refused("variable", "int x = 3;\n");
    assert_eq!(line, 1);
    assert!(
        text.contains("expected a struct, a union, an enum, a typedef, an assertion or a function"),
        "{text}"
    );
    assert_eq!(refused("order", "struct wl_a { struct wl_b b; };\n").0, 1);
    assert_eq!(
        refused("missing", "\n#include \"nowhere.h\"\n"),
        (2, "found no file nowhere.h to include".into())
    );
    assert_eq!(refused("open", "#ifdef X\n").1, "found an #if without its #endif");
    assert_eq!(refused("directive", "#pragma once\n").1, "found `#pragma once`");
}

#[test]
fn the_headers_have_what_hosts_ask_for() {
    let policy = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../policy");
    for max_cpus in [1024, 4096] {
        let roots = [policy.join("state.h")];
        let headers =
            Headers::read(&roots, std::slice::from_ref(&policy), &[("WL_MAX_CPUS", max_cpus)]).unwrap();
        let task = headers.find("wl_task").unwrap();
        let allowed = task.fields.last().unwrap();
        assert_eq!((allowed.name.as_str(), allowed.size as i128), ("allowed", max_cpus / 8));
        assert_eq!(headers.find("wl_cpu").unwrap().align, 64);
        // Each value of an axis is described.
        for axis in headers.enums.iter().filter(|found| found.name.ends_with("_axis")) {
            assert!(axis.choices().iter().all(|value| !value.doc.is_empty()), "{}", axis.name);
        }
    }
}
