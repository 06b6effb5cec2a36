// SPDX-License-Identifier: GPL-2.0-or-later
//! The structs, enumerations, axes and constants of policy/*.h, written by the build script (build/main.rs).
#![allow(missing_docs, reason = "what needs no comment in a header needs none here")]

use std::mem::offset_of;

use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::events::{Call, Need};
use crate::fields::{Field, Of, Place};
use crate::spec::{Axis, AxisValue, Tunables};

include!(concat!(env!("OUT_DIR"), "/mirror.rs"));
