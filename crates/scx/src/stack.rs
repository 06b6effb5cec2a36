// SPDX-License-Identifier: GPL-2.0-only
//! How much of BPF's stack of 512 bytes the programs leave free, on the deepest chain of calls; and that none prints.
//!
//! The kernel adds up the frames of each chain of calls, each rounded up to 16 bytes, and refuses a program whose chain
//! takes more than 512. How large a frame is depends on the compiler, so that a program that just fits here may be
//! refused elsewhere. What a function takes is what its instructions reach below the frame pointer. The kernel counts
//! only what a policy can reach; here all policies count.

use std::collections::BTreeMap;

/// BPF's stack.
const STACK_BYTES: u32 = 512;

/// Functions by name: the bytes of a frame, and what is called.
type Functions = BTreeMap<String, (u32, Vec<String>)>;

fn u16_at(bytes: &[u8], at: usize) -> usize {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()).into()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
}

/// A section of an ELF object.
struct Section<'a> {
    kind: u32,
    link: usize,
    info: usize,
    data: &'a [u8],
}

fn sections(elf: &[u8]) -> Vec<Section<'_>> {
    let (table, size, count) = (u64_at(elf, 40), u16_at(elf, 58), u16_at(elf, 60));
    let section = |number: usize| {
        let header = &elf[table + number * size..];
        let (kind, start, length) = (u32_at(header, 4), u64_at(header, 24), u64_at(header, 32));
        // SHT_NOBITS has no data.
        let data = if kind == 8 { &[][..] } else { &elf[start..start + length] };
        Section { kind, link: u32_at(header, 40) as usize, info: u32_at(header, 44) as usize, data }
    };
    (0..count).map(section).collect()
}

/// A symbol that is a function: where it is, and how long.
struct Symbol {
    name: String,
    section: usize,
    start: usize,
    length: usize,
}

/// The bytes that an instruction reaches below the frame pointer; an address that is taken of it reaches as far as it
/// points. `copies`: the registers that are copies of the frame pointer.
fn reach(code: &[u8], copies: &mut u16) -> u32 {
    let (opcode, to, from) = (code[0], code[1] & 15, code[1] >> 4);
    let below = |value: i32| u32::try_from(-value).unwrap_or(0);
    let offset = below(i16::from_le_bytes([code[2], code[3]]).into());
    let was_copy = *copies >> to & 1 != 0;
    // All but stores, jumps and calls write a register.
    if !matches!(opcode & 7, 2 | 3 | 5 | 6) {
        *copies &= !(1 << to);
    }
    match opcode {
        // r1 = r10
        0xbf if from == 10 => {
            *copies |= 1 << to;
            0
        }
        // r1 += -16
        0x07 if was_copy => below(u32_at(code, 4) as i32),
        // Loads have the address in the second register, stores in the first one.
        _ if opcode & 7 == 1 && from == 10 => offset,
        _ if matches!(opcode & 7, 2 | 3) && to == 10 => offset,
        _ => 0,
    }
}

/// The functions of an object, by name.
fn functions(elf: &[u8]) -> Functions {
    let sections = sections(elf);
    // SHT_SYMTAB
    let table = sections.iter().find(|section| section.kind == 2).expect("a table of symbols");
    let names = sections[table.link].data;
    let name = |at: usize| {
        let length = names[at..].iter().position(|&byte| byte == 0).unwrap();
        String::from_utf8_lossy(&names[at..at + length]).into_owned()
    };
    let symbols: Vec<(u8, Symbol)> = table
        .data
        .chunks_exact(24)
        .map(|entry| {
            let symbol = Symbol {
                name: name(u32_at(entry, 0) as usize),
                section: u16_at(entry, 6),
                start: u64_at(entry, 8),
                length: u64_at(entry, 16),
            };
            (entry[4] & 15, symbol)
        })
        .collect();
    // STT_FUNC, with code in this object.
    let is_function = |(kind, symbol): &&(u8, Symbol)| *kind == 2 && symbol.length > 0;
    let all: Vec<&Symbol> = symbols.iter().filter(is_function).map(|(_, symbol)| symbol).collect();
    let at = |section: usize, place: usize| {
        all.iter().position(|symbol| symbol.section == section && symbol.start == place)
    };
    // What SHT_REL says about calls: by section and place, the symbol.
    let mut relocated = BTreeMap::new();
    for section in sections.iter().filter(|section| section.kind == 9) {
        for entry in section.data.chunks_exact(16) {
            relocated.insert((section.info, u64_at(entry, 0)), u32_at(entry, 12) as usize);
        }
    }
    let function = |symbol: &Symbol| {
        let (mut frame, mut copies, mut calls) = (0, 0, Vec::new());
        let code = &sections[symbol.section].data[symbol.start..symbol.start + symbol.length];
        for (place, code) in code.chunks_exact(8).enumerate() {
            frame = frame.max(reach(code, &mut copies));
            // A call of a function of this object: BPF_PSEUDO_CALL.
            if code[0] != 0x85 || code[1] >> 4 != 1 {
                continue;
            }
            let place = symbol.start + place * 8;
            let next = |from: usize| (from as i64 + (i64::from(u32_at(code, 4) as i32) + 1) * 8) as usize;
            let called = match relocated.get(&(symbol.section, place)) {
                // A section's symbol: the offset in it is in the instruction.
                Some(&number) if symbols[number].0 == 3 => at(symbols[number].1.section, next(0)),
                Some(&number) => at(symbols[number].1.section, symbols[number].1.start),
                None => at(symbol.section, next(place)),
            };
            calls.extend(called.map(|number| all[number].name.clone()));
        }
        (symbol.name.clone(), (frame, calls))
    };
    all.iter().map(|symbol| function(symbol)).collect()
}

/// The bytes of the deepest chain from a function on, and its functions.
fn deepest(all: &Functions, name: &str) -> (u32, Vec<String>) {
    let (frame, calls) = &all[name];
    let below = calls.iter().map(|called| deepest(all, called)).max().unwrap_or_default();
    let chain = [vec![format!("{name} {frame}")], below.1].concat();
    (frame.max(&1).next_multiple_of(16) + below.0, chain)
}

/// The deepest chain of an object, from hooks whose names begin so.
fn chain(elf: &[u8], hooks: &str) -> (u32, Vec<String>) {
    let all = functions(elf);
    let hooks = all.keys().filter(|name| name.starts_with(hooks));
    hooks.map(|name| deepest(&all, name)).max().expect("an object has hooks")
}

macro_rules! object {
    ($name:literal) => {
        ($name, &include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o"))[..])
    };
}

/// The programs of our own policy have a reserve for other compilers.
#[test]
fn our_own_policy_leaves_64_bytes_free() {
    for (name, elf) in [object!("own"), object!("own_groups")] {
        let (bytes, chain) = chain(elf, "wakelab_");
        println!("{name}: {bytes} bytes: {}", chain.join(" > "));
        assert!(bytes + 64 <= STACK_BYTES, "{name}: {bytes} bytes: {}", chain.join(" > "));
    }
}

/// These programs have the code of all policies. That of a log would take more than there is, along a chain of frames
/// that no single policy fills.
#[test]
fn the_other_programs_take_no_more_than_they_did() {
    let logged = object!("logged");
    for ((name, elf), hooks, most) in
        // With 16 bytes more, the kernel refuses `linux-4.15 --log` for wakelab_select_cpu.
        [
            (object!("bpf"), "wakelab_", STACK_BYTES),
            (logged, "wakelab_", 576),
            (logged, "wakelab_select", 528),
        ]
    {
        let (bytes, chain) = chain(elf, hooks);
        println!("{name}: {bytes} bytes: {}", chain.join(" > "));
        assert!(bytes <= most, "{name}: {bytes} bytes: {}", chain.join(" > "));
    }
}

/// No program calls bpf_trace_printk (6). A kernel that loads one which does notes tasks' names at each switch from
/// then on (kernel.bpf.h).
#[test]
fn no_program_prints() {
    for (name, elf) in [object!("own"), object!("own_groups"), object!("bpf"), object!("logged")] {
        // SHT_PROGBITS has code, and data, which is no call of a helper by chance.
        for section in sections(elf).iter().filter(|section| section.kind == 1) {
            let prints = |code: &[u8]| code[0] == 0x85 && code[1] == 0 && u32_at(code, 4) == 6;
            assert!(!section.data.chunks_exact(8).any(prints), "{name} prints");
        }
    }
}

#[test]
fn what_a_function_reaches_is_read_from_its_code() {
    let reaches = |code: &[[u8; 8]]| {
        let mut copies = 0;
        code.iter().map(|code| reach(code, &mut copies)).max()
    };
    // *(u64 *)(r10 - 8) = r1; r2 = *(u32 *)(r10 - 24)
    assert_eq!(
        reaches(&[[0x7b, 0x1a, 0xf8, 0xff, 0, 0, 0, 0], [0x61, 0xa2, 0xe8, 0xff, 0, 0, 0, 0]]),
        Some(24)
    );
    // r2 = r10; r2 += -40
    let copy = [0xbf, 0xa2, 0, 0, 0, 0, 0, 0];
    let add = [0x07, 0x02, 0, 0, 0xd8, 0xff, 0xff, 0xff];
    assert_eq!(reaches(&[copy, add]), Some(40));
    // r2 = r10; r2 = r1; r2 += -40
    assert_eq!(reaches(&[copy, [0xbf, 0x12, 0, 0, 0, 0, 0, 0], add]), Some(0));
}
