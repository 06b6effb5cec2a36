// SPDX-License-Identifier: GPL-2.0-only
//! The skeleton that build.rs generates from src/bpf/own_groups.bpf.c.

// Generated code: it follows no lint of ours, and maps memory that BPF programs share.
#![allow(unsafe_code, missing_docs, unreachable_pub, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/own_groups_skel.rs"));
