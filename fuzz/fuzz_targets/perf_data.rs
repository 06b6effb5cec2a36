// SPDX-License-Identifier: GPL-2.0-or-later
//! Looks for input that makes the reader of perf's files panic, hang or take too much memory.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wakelab_trace::{Options, read_from};

fuzz_target!(|data: &[u8]| {
    // So that no time is lost with other formats.
    let magic: &[u8] = b"PERFILE2";
    let mut file = magic.to_vec();
    file.extend(data.iter().skip(magic.len()));
    let _ = read_from(&file[..], "x", "x", &Options::default());
});
