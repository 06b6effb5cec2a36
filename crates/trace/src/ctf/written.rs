// SPDX-License-Identifier: GPL-2.0-or-later
//! For tests: a small trace as LTTng writes it, with two CPUs, packed metadata, both forms of an event's header, fields
//! that are skipped, a clock that passes 2^27, events left out, and a name that is cut inside a character.

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 64; align = 8; signed = false; } := unsigned long;
typealias integer { size = 5; align = 1; signed = false; } := uint5_t;
trace {
	major = 1; minor = 8;
	uuid = "01020304-0506-0708-090a-0b0c0d0e0f10";
	byte_order = le;
	packet.header := struct { uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; };
};
env { domain = "kernel"; kernel_release = "6.12.9"; tracer_name = "lttng-modules"; };
clock { name = "monotonic"; freq = 1000000000; offset = 1700000000000000000; };
typealias integer { size = 27; align = 1; signed = false; map = clock.monotonic.value; } := uint27_clock_t;
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := uint64_clock_t;
struct packet_context {
	uint64_clock_t timestamp_begin;
	uint64_clock_t timestamp_end;
	uint64_t content_size;
	uint64_t packet_size;
	unsigned long events_discarded;
	uint32_t cpu_id;
};
struct event_header_compact {
	enum : uint5_t { compact = 0 ... 30, extended = 31 } id;
	variant <id> {
		struct { uint27_clock_t timestamp; } compact;
		struct { uint32_t id; uint64_clock_t timestamp; } extended;
	} v;
} align(8);
stream { id = 0; event.header := struct event_header_compact; packet.context := struct packet_context; };
event {
	name = "sched_switch"; id = 1; stream_id = 0;
	fields := struct {
		integer { size = 8; align = 8; signed = 0; encoding = UTF8; base = 10; } _prev_comm[16];
		integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; } _prev_tid;
		integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; } _prev_prio;
		integer { size = 64; align = 8; signed = 1; encoding = none; base = 10; } _prev_state;
		integer { size = 8; align = 8; signed = 0; encoding = UTF8; base = 10; } _next_comm[16];
		integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; } _next_tid;
		integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; } _next_prio;
	};
};
event {
	name = "sched_waking"; id = 2; stream_id = 0;
	fields := struct {
		integer { size = 8; align = 8; signed = 0; encoding = UTF8; base = 10; } _comm[16];
		integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; } _tid;
		integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; } _prio;
		integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; } _target_cpu;
	};
};
event {
	name = "sched_process_fork"; id = 40; stream_id = 0;
	fields := struct {
		integer { size = 8; align = 8; signed = 0; encoding = UTF8; base = 10; } _parent_comm[16];
		integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; } _parent_tid;
		integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; } _parent_pid;
		integer { size = 8; align = 8; signed = 0; encoding = UTF8; base = 10; } _child_comm[16];
		integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; } _child_tid;
		integer { size = 8; align = 8; signed = 0; encoding = none; base = 10; } __vtids_length;
		integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; } _vtids[ __vtids_length ];
		integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; } _child_pid;
	};
};
event {
	name = "irq_softirq_entry"; id = 3; stream_id = 0;
	fields := struct { integer { size = 32; align = 8; signed = 0; encoding = none; base = 10; } _vec; };
};
event {
	name = "irq_softirq_exit"; id = 4; stream_id = 0;
	fields := struct { integer { size = 32; align = 8; signed = 0; encoding = none; base = 10; } _vec; };
};
event { name = "syscall_entry_open"; id = 700; stream_id = 0; fields := struct { string _filename; uint32_t _flags; }; };
"#;

const UUID: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

/// Returns the metadata in two packets, as LTTng writes them.
pub(crate) fn metadata() -> Vec<u8> {
    let (one, two) = METADATA.as_bytes().split_at(1000);
    let mut all = Vec::new();
    for part in [one, two] {
        let content_bits = 8 * (37 + part.len() as u32);
        let packet_bytes = (37 + part.len()).next_multiple_of(256);
        let begin = all.len();
        all.extend(0x75d1_1d57u32.to_le_bytes());
        all.extend(UUID);
        all.extend([0; 4]);
        all.extend(content_bits.to_le_bytes());
        all.extend((8 * packet_bytes as u32).to_le_bytes());
        all.extend([0, 0, 0, 1, 8]);
        all.extend(part);
        all.resize(begin + packet_bytes, 0);
    }
    all
}

/// A value of a field.
#[derive(Clone, Copy)]
enum Field<'a> {
    Comm(&'a [u8]),
    I32(i32),
    I64(i64),
    U8(u8),
    Text(&'a str),
}
use Field::{Comm, I32, I64, Text, U8};

/// Returns a packet of `cpu` with events: their time, id and fields.
fn packet(cpu: u32, left_out: u64, events: &[(u64, u32, &[Field<'_>])]) -> Vec<u8> {
    let mut body = Vec::new();
    let mut before_ns = events[0].0;
    for (time_ns, id, fields) in events {
        // The short form has the id in 5 bits and the time in 27.
        if *id < 31 && time_ns - before_ns < 1 << 27 {
            body.extend(((*time_ns as u32) << 5 | id).to_le_bytes());
        } else {
            body.push(31);
            body.extend(id.to_le_bytes());
            body.extend(time_ns.to_le_bytes());
        }
        before_ns = *time_ns;
        for field in *fields {
            match field {
                Comm(comm) => {
                    body.extend(*comm);
                    body.resize(body.len() + 16 - comm.len(), 0);
                }
                I32(number) => body.extend(number.to_le_bytes()),
                I64(number) => body.extend(number.to_le_bytes()),
                U8(number) => body.push(*number),
                Text(text) => body.extend([text.as_bytes(), &[0]].concat()),
            }
        }
    }
    const HEAD_BYTES: usize = 24 + 44;
    let bytes = HEAD_BYTES + body.len();
    let packet_bytes = bytes.next_multiple_of(512);
    let mut all = Vec::new();
    all.extend(0xc1fc_1fc1u32.to_le_bytes());
    all.extend(UUID);
    all.extend(0u32.to_le_bytes());
    for number in [events[0].0, before_ns, 8 * bytes as u64, 8 * packet_bytes as u64, left_out] {
        all.extend(number.to_le_bytes());
    }
    all.extend(cpu.to_le_bytes());
    all.extend(body);
    all.resize(packet_bytes, 0);
    all
}

/// Returns the stream files of CPU 0 and CPU 1.
pub(crate) fn streams() -> [Vec<u8>; 2] {
    let idle = [Comm(b"swapper/0"), I32(0), I32(20)];
    let a = [Comm(b"a"), I32(7), I32(20)];
    // The kernel cut it in the middle of its eighth character.
    let b = [
        Comm("\u{41e}\u{431}\u{440}\u{430}\u{431}\u{43e}\u{442}\u{447}".as_bytes().split_at(15).0),
        I32(8),
        I32(-50),
    ];
    let switch = |from: [Field<'static>; 3], state: i64, to: [Field<'static>; 3]| {
        [&from[..], &[I64(state)], &to[..]].concat()
    };
    let fork = [Comm(b"a"), I32(7), I32(7), Comm(b"a"), I32(8), U8(2), I32(8), I32(1), I32(7)];
    let waking = |task: [Field<'static>; 3], cpu: i32| [&task[..], &[I32(cpu)]].concat();
    // 2^27 ns are passed between the events, and the third one comes long after.
    let begin = (1 << 40) + (1 << 27) - 500;
    let one = packet(
        0,
        0,
        &[
            (begin, 700, &[Text("/etc/passwd"), I32(1)]),
            (begin + 100, 1, &switch(idle, 0, a)),
            (begin + 600, 40, &fork),
            (begin + 700, 2, &waking(b, 1)),
            (begin + (1 << 28), 1, &switch(a, 1, idle)),
        ],
    );
    let later = begin + (1 << 29);
    let two =
        packet(0, 3, &[(later, 3, &[I32(1)]), (later + 10, 2, &waking(a, 0)), (later + 20, 4, &[I32(1)])]);
    let other = packet(
        1,
        0,
        &[
            (begin + 800, 1, &switch(idle, 0, b)),
            (begin + 5000, 2, &waking(a, 0)),
            (begin + 9000, 1, &switch(b, 32, idle)),
        ],
    );
    [[one, two].concat(), other]
}
