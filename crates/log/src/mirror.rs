// SPDX-License-Identifier: GPL-2.0-or-later
//! The structs of host/log_record.h and the layout of a BPF build, written by the build script (build.rs).
#![allow(missing_docs, reason = "what needs no comment in a header needs none here")]

use std::mem::offset_of;

use wakelab_policy::{Field, Of};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

include!(concat!(env!("OUT_DIR"), "/mirror.rs"));
