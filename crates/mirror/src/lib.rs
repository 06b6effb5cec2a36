// SPDX-License-Identifier: GPL-2.0-or-later
//! For build scripts: reads the policy's C headers, writes the Rust side of what they declare, and compiles them.
//!
//! policy/*.h is the one place where structs, enumerations and constants of the policy are written. Build scripts (of
//! crates/policy and crates/log) call this crate: [`Headers::read`] parses a header with all that it includes,
//! [`rust`] writes `repr(C)` structs, enumerations with names, and tables of fields; [`check`] writes C assertions that
//! every size, offset and value is what this crate computed. Rust's own assertions are part of what [`rust`] writes, so
//! that C, Rust and this crate agree at build time, or nothing is built.
//!
//! It is a build script's library, not a command that writes files into the repository, because a build then cannot use
//! a mirror that is out of date. It needs no clang, unlike bindgen, because the lab builds with any C compiler.
//!
//! The subset of C: structs and unions (nested and anonymous ones too) of integers, arrays and each other,
//! enumerations, `#define`d integers, conditionals. Functions, typedefs, function-like macros and assertions are
//! skipped. Anything else is an error with file and line.
//!
//! Comments are read too. A comment on the line where a field or value ends describes it, and so does one on the lines
//! directly before. `enum wl_reason` in a field's comment names the enumeration whose values the field has.

pub mod check;
mod compiler;
mod error;
mod headers;
mod model;
mod parse;
pub mod rust;
pub mod script;
mod token;
mod value;
pub mod words;

pub use compiler::compiler;
pub use error::Error;
pub use headers::{Headers, opening_comment};
pub use model::{Enum, Field, Struct, Type, Value};
