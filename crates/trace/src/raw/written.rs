// SPDX-License-Identifier: GPL-2.0-or-later
//! For tests: layouts as the kernel prints them, and records of these events.

/// A field: how it is declared, its offset, its size, and whether it has a sign.
type Field = (&'static str, usize, usize, bool);

const COMMON: [Field; 4] = [
    ("unsigned short common_type", 0, 2, false),
    ("unsigned char common_flags", 2, 1, false),
    ("unsigned char common_preempt_count", 3, 1, false),
    ("int common_pid", 4, 4, true),
];

/// Events by subsystem, name, number and fields.
const EVENTS: [(&str, &str, u16, &[Field]); 4] = [
    ("irq", "irq_handler_entry", 7, &[("int irq", 8, 4, true)]),
    ("irq", "irq_handler_exit", 8, &[("int irq", 8, 4, true)]),
    (
        "sched",
        "sched_switch",
        316,
        &[
            ("char prev_comm[16]", 8, 16, true),
            ("pid_t prev_pid", 24, 4, true),
            ("int prev_prio", 28, 4, true),
            ("long prev_state", 32, 8, true),
            ("char next_comm[16]", 40, 16, true),
            ("pid_t next_pid", 56, 4, true),
            ("int next_prio", 60, 4, true),
        ],
    ),
    (
        "sched",
        "sched_waking",
        317,
        &[
            ("char comm[16]", 8, 16, true),
            ("pid_t pid", 24, 4, true),
            ("int prio", 28, 4, true),
            ("int target_cpu", 32, 4, true),
        ],
    ),
];

/// How trace-cmd prints a sched_waking. For sched_switch it has its own text.
const WAKING_TEXT: &str =
    "\"comm=%s pid=%d prio=%d target_cpu=%03d\", REC->comm, REC->pid, REC->prio, REC->target_cpu";

/// Returns the text of each layout, with its subsystem.
pub(crate) fn layouts() -> Vec<(&'static str, String)> {
    let line = |&(declared, offset, size, signed): &Field| {
        format!("\tfield:{declared};\toffset:{offset};\tsize:{size};\tsigned:{};\n", u8::from(signed))
    };
    EVENTS
        .iter()
        .map(|(subsystem, name, id, fields)| {
            let print = match *name {
                "sched_waking" => WAKING_TEXT,
                "sched_switch" => "\"prev_comm=%s\", REC->prev_comm",
                _ => "\"irq=%d\", REC->irq",
            };
            let common: String = COMMON.iter().map(line).collect();
            let fields: String = fields.iter().map(line).collect();
            (*subsystem, format!("name: {name}\nID: {id}\nformat:\n{common}\n{fields}\nprint fmt: {print}\n"))
        })
        .collect()
}

/// Returns a record of the event `name` while the task `tid` was current. Texts are cut to their field.
pub(crate) fn record(
    is_big_endian: bool,
    name: &str,
    flags: u8,
    tid: u32,
    values: &[(&str, &str)],
) -> Vec<u8> {
    let (_, _, id, fields) = EVENTS.iter().find(|(_, known, ..)| *known == name).expect("an event");
    let put = |data: &mut Vec<u8>, &(declared, offset, size, _): &Field, value: &str| {
        data.resize(data.len().max(offset + size), 0);
        let field = &mut data[offset..offset + size];
        if declared.starts_with("char ") {
            let length = value.len().min(size - 1);
            field[..length].copy_from_slice(&value.as_bytes()[..length]);
            return;
        }
        let number: u64 = value.parse().expect("a number");
        match is_big_endian {
            true => field.copy_from_slice(&number.to_be_bytes()[8 - size..]),
            false => field.copy_from_slice(&number.to_le_bytes()[..size]),
        }
    };
    let mut data = Vec::new();
    let common = [id.to_string(), flags.to_string(), "0".to_owned(), tid.to_string()];
    COMMON.iter().zip(&common).for_each(|(field, value)| put(&mut data, field, value));
    for field in *fields {
        let name = field.0.rsplit(' ').next().and_then(|name| name.split('[').next());
        let value = values.iter().find(|(known, _)| Some(*known) == name).expect("a value of each field").1;
        put(&mut data, field, value);
    }
    data
}
