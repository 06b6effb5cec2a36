// SPDX-License-Identifier: GPL-2.0-or-later
//! C assertions that a compiler computes the same layouts, lengths and values as this crate.

use std::fmt::Write;

use crate::model::{Struct, Type};
use crate::{Error, Headers};

/// Returns a header to include after those that were read, in a build with the same defines.
///
/// # Errors
/// If one of `constants` is not an integer.
pub fn assertions(headers: &Headers, constants: &[&str]) -> Result<String, Error> {
    let mut out = String::from("/* Written by crates/mirror: C's layout and numbers are those of Rust. */\n");
    for made in headers.structs.iter().filter(|made| made.has_tag) {
        let tag = format!("{} {}", if made.is_union { "union" } else { "struct" }, made.name);
        assert_equal(&mut out, &format!("sizeof({tag})"), made.size as i128);
        offsets(&mut out, headers, &tag, "", 0, made);
    }
    for value in headers.enums.iter().flat_map(|found| &found.values) {
        assert_equal(&mut out, &value.name, value.number);
    }
    for name in constants {
        assert_equal(&mut out, name, headers.constant(name)?);
    }
    Ok(out)
}

fn assert_equal(out: &mut String, what: &str, value: i128) {
    writeln!(out, "_Static_assert({what} == {value}, \"{what} is not {value}\");").expect("a string");
}

/// The fields of `made`, which begins `base` bytes into `tag`, and whose fields C reaches there by `path`.
fn offsets(out: &mut String, headers: &Headers, tag: &str, path: &str, base: usize, made: &Struct) {
    for field in &made.fields {
        let name = format!("{path}{}", field.name);
        let at = base + field.offset;
        if !field.name.is_empty() {
            assert_equal(out, &format!("__builtin_offsetof({tag}, {name})"), at as i128);
        }
        if let Type::Struct(of) = &field.of
            && let Some(inner) = headers.find(of).filter(|inner| !inner.has_tag)
        {
            let path = if field.name.is_empty() { path.to_owned() } else { format!("{name}.") };
            offsets(out, headers, tag, &path, at, inner);
        }
    }
}
