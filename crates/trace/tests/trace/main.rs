// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of whole recordings, in one program: hand-made ones, refused ones, generated and mutated ones, and the
//! fixtures.

mod barriers;
mod beside;
mod bound;
mod causal;
mod damaged_bytes;
mod executor;
mod fixtures;
mod flows;
mod ftrace;
mod handshakes;
mod header;
mod interpreter;
mod loops;
mod mutations;
mod mutexes;
mod names;
mod notes;
mod pipes;
mod refusals;
mod rescale;
mod round_trip;
mod schedules;
mod script;
mod shared;
mod sockets;
mod window;
