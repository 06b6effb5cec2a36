// SPDX-License-Identifier: GPL-2.0-or-later
//! Looks for input that makes the reader of the text formats panic, hang or take too much memory.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wakelab_trace::{Options, read_from};

fuzz_target!(|data: &[u8]| {
    let _ = read_from(data, "x", "x", &Options::default());
});
