// SPDX-License-Identifier: GPL-2.0-or-later
//! Looks for input that makes the reader of LTTng's traces panic, hang or take too much memory: a tar of a trace. What
//! is changed is mostly inside its files, because the heads of a tar have checksums.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wakelab_trace::{Options, read_from};

fuzz_target!(|data: &[u8]| {
    // So that no time is lost with other formats.
    const MAGIC: std::ops::Range<usize> = 257..262;
    if data.get(MAGIC) == Some(b"ustar") {
        let _ = read_from(data, "x", "x", &Options::default());
    }
});
