// SPDX-License-Identifier: GPL-2.0-or-later
//! The BPF build of the policy, loaded into this machine's kernel: its memory, its programs, its size.
//!
//! Layouts come from the object's BTF through the generated skeleton, so they cannot drift from the C source.

use std::fmt;
use std::io::{Error, ErrorKind};
use std::mem::{MaybeUninit, size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, PrintLevel, ProgramInput, libbpf_sys};

#[allow(unsafe_code, missing_docs, unreachable_pub, clippy::all)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/parity.skel.rs"));
}

pub(crate) use skeleton::types;

/// The number of events in one run of `parity_run` (PARITY_BATCH).
pub(crate) const BATCH: usize = 4096;
/// The number of task records (PARITY_TASKS).
pub(crate) const TASKS: usize = 1024;
/// The number of affinity masks of a batch (PARITY_MASKS).
pub(crate) const MASKS: usize = 256;
/// The number of words of a mask in the BPF build.
pub(crate) const MASK_WORDS: usize = 16;
/// The number of slots of task groups, including the root's, for which the loaded object has room.
pub(crate) const GROUPS: u32 = 11;
/// The number of CPUs in the BPF build (WL_MAX_CPUS).
pub(crate) const MAX_CPUS: u32 = 1024;
/// The most instructions that the verifier may walk for one program; its own limit is 1,000,000.
pub(crate) const VERIFIED_INSNS_MAX: u32 = 500_000;

/// The kernel refuses bpf(): not root, or a container that withholds it. The text is the whole message.
#[derive(Debug)]
pub(crate) struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// A deliberate fault of the BPF side (`FAULT_*` in parity.bpf.c), which proves that a comparison can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Fault {
    None = 0,
    Cpu = 1,
    Reason = 2,
    Reads = 3,
    State = 4,
    Counter = 5,
    Claim = 6,
    Group = 7,
    Total = 8,
}

/// The loaded object.
pub(crate) struct Kernel {
    skeleton: skeleton::ParitySkel<'static>,
}

/// The verifier's work on a program.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct ProgramSize {
    pub(crate) name: &'static str,
    pub(crate) verified_insns: u32,
    pub(crate) jited_bytes: u32,
}

impl Kernel {
    /// Loads the programs. Fails with [`Refused`] if the kernel refuses bpf().
    pub(crate) fn load(fault: Fault) -> Result<Kernel> {
        probe()?;
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| eprint!("{text}"))));
        // The object borrows this storage for ever: a few bytes for each load.
        let storage = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open =
            skeleton::ParitySkelBuilder::default().open(storage).context("cannot open the BPF object")?;
        let constants = open.maps.rodata_data.as_deref_mut().context("the BPF object has no .rodata")?;
        constants.parity_fault = fault as u32;
        open.maps.wl_groups.set_max_entries(GROUPS)?;
        open.maps.wl_group_cpus.set_max_entries(GROUPS * MAX_CPUS)?;
        let skeleton = open.load().context("the kernel's verifier refuses the policy (its log is above)")?;
        Ok(Kernel { skeleton })
    }

    /// The programs' memory, shared with the kernel.
    pub(crate) fn memory(&mut self) -> &mut types::bss {
        self.skeleton.maps.bss_data.as_deref_mut().expect("libbpf maps .bss of every loaded object")
    }

    /// Empties all memory.
    pub(crate) fn clear(&mut self) {
        let memory: *mut types::bss = self.memory();
        // SAFETY: the types of .bss are integers and arrays of them, for which all zeroes is a value, and `memory`
        // is this program's only reference. Assigning a value instead would build megabytes on the stack.
        #[allow(unsafe_code)]
        unsafe {
            memory.write_bytes(0, 1);
        }
    }

    /// The policy's state as bytes, for [`wakelab_policy::Tables::write_image`].
    pub(crate) fn policy_bytes(&mut self) -> &mut [u8] {
        let policy: *mut types::wl_policy = &mut self.memory().wl_memory.policy;
        // SAFETY: the struct is integers, arrays of them and explicit padding, so every byte of it may be read and
        // any may be written; the slice has its length and takes over its only reference.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts_mut(policy.cast(), size_of::<types::wl_policy>())
        }
    }

    /// Sets the start values of every CPU, for parameters and topology that were written to memory.
    pub(crate) fn init(&self) -> Result<()> {
        run(&self.skeleton.progs.parity_init, &mut [])
    }

    /// Returns a group's record.
    pub(crate) fn group(&self, slot: u32) -> Result<types::wl_group> {
        entry(&self.skeleton.maps.wl_groups, slot)
    }

    /// Returns a group's record of a CPU, on a machine with `nr_cpus` CPUs.
    pub(crate) fn group_cpu(&self, slot: u32, cpu: u32, nr_cpus: u32) -> Result<types::wl_group_cpu> {
        entry(&self.skeleton.maps.wl_group_cpus, slot * nr_cpus + cpu)
    }

    /// Makes the BPF build answer the first `nr_events` of `memory().events`.
    pub(crate) fn run_events(&mut self, nr_events: usize) -> Result<()> {
        self.memory().nr_events = u32::try_from(nr_events).context("more events than a batch has")?;
        run(&self.skeleton.progs.parity_run, &mut [])
    }

    /// Runs one thread's part of the hammer, as `memory().hammer_args[thread]` says. Two threads call it at once.
    pub(crate) fn hammer(&self, thread: u32) -> Result<()> {
        let mut context = [0; 8];
        context[..4].copy_from_slice(&thread.to_ne_bytes());
        run(&self.skeleton.progs.parity_hammer, &mut context)
    }

    /// Runs the timed loop, as `memory().bench_args` says.
    pub(crate) fn bench(&self) -> Result<()> {
        run(&self.skeleton.progs.parity_bench, &mut [])
    }

    /// Returns the verifier's figures for every program.
    pub(crate) fn sizes(&self) -> Result<Vec<ProgramSize>> {
        let programs = &self.skeleton.progs;
        [
            ("parity_init", programs.parity_init.as_fd()),
            ("parity_run", programs.parity_run.as_fd()),
            ("parity_hammer", programs.parity_hammer.as_fd()),
            ("parity_bench", programs.parity_bench.as_fd()),
        ]
        .into_iter()
        .map(|(name, fd)| size(name, fd))
        .collect()
    }
}

/// Returns the bytes of a value in the object's memory.
pub(crate) fn bytes<T: Record>(value: &T) -> &[u8] {
    // SAFETY: a Record is integers, arrays of them and explicit padding, all of it written once: every byte may be
    // read while the borrow lasts.
    #[allow(unsafe_code)]
    unsafe {
        std::slice::from_raw_parts((&raw const *value).cast(), size_of::<T>())
    }
}

/// A struct or union of integers: any bytes are a value.
pub(crate) trait Record: Copy {}
impl Record for types::wl_answer {}
impl Record for types::wl_decision {}
impl Record for types::wl_task {}
impl Record for types::wl_cpu {}
impl Record for types::wl_block {}
impl Record for types::wl_group {}
impl Record for types::wl_group_cpu {}

/// Returns an entry of a map whose values have type `T`.
fn entry<T: Record>(map: &libbpf_rs::Map<'_>, index: u32) -> Result<T> {
    let bytes = map.lookup(&index.to_ne_bytes(), MapFlags::ANY)?.context("the map has room for it")?;
    ensure!(bytes.len() == size_of::<T>(), "an entry has {} bytes", bytes.len());
    // SAFETY: any bytes are a Record, and there are as many bytes as it has.
    #[allow(unsafe_code)]
    let entry = unsafe { bytes.as_ptr().cast::<T>().read_unaligned() };
    Ok(entry)
}

fn run(program: &libbpf_rs::ProgramMut<'_>, context: &mut [u8]) -> Result<()> {
    let context_in = if context.is_empty() { None } else { Some(context) };
    let input = ProgramInput { context_in, ..ProgramInput::default() };
    let name = program.name().to_string_lossy().into_owned();
    let output = program.test_run(input).with_context(|| format!("the kernel does not run {name}"))?;
    if output.return_value != 0 {
        bail!("{name} returned {}", output.return_value.cast_signed());
    }
    Ok(())
}

fn size(name: &'static str, fd: BorrowedFd<'_>) -> Result<ProgramSize> {
    // SAFETY: bpf_prog_info is integers and user pointers, for which zero means "not asked for"; `length` is its size.
    #[allow(unsafe_code)]
    let (status, info) = unsafe {
        let mut info: libbpf_sys::bpf_prog_info = zeroed();
        let mut length = size_of::<libbpf_sys::bpf_prog_info>() as u32;
        let info_ptr = (&raw mut info).cast();
        (libbpf_sys::bpf_obj_get_info_by_fd(fd.as_raw_fd(), info_ptr, &mut length), info)
    };
    if status != 0 {
        bail!("the kernel tells nothing about {name}: {}", Error::last_os_error());
    }
    Ok(ProgramSize { name, verified_insns: info.verified_insns, jited_bytes: info.jited_prog_len })
}

/// Asks the kernel for a minimal program, so that a refusal can be distinguished from a bad program.
fn probe() -> Result<()> {
    let program = [
        libbpf_sys::bpf_insn { code: 0xb7, ..Default::default() }, // r0 = 0
        libbpf_sys::bpf_insn { code: 0x95, ..Default::default() }, // exit
    ];
    let mut options = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as u64,
        prog_flags: libbpf_sys::BPF_F_SLEEPABLE, // as all syscall programs are
        ..Default::default()
    };
    // SAFETY: the program is two valid instructions, name and licence are C strings, the options state their size,
    // and all of them live through the call.
    #[allow(unsafe_code)]
    let fd = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_SYSCALL,
            c"wakelab_probe".as_ptr(),
            c"GPL".as_ptr(),
            program.as_ptr(),
            program.len() as u64,
            &mut options,
        )
    };
    if fd < 0 {
        let error = Error::from_raw_os_error(-fd);
        return match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::Unsupported => {
                let text = format!("bpf() is refused here ({error}): this needs root, outside of a sandbox");
                Err(Refused(text).into())
            }
            _ => Err(error).context("this kernel runs no syscall programs (Linux 5.14 has them)"),
        };
    }
    // SAFETY: the kernel has just made this descriptor for us, and no other code has it.
    #[allow(unsafe_code)]
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        bail!("this kernel has no /sys/kernel/btf/vmlinux: loops over a range cannot be loaded");
    }
    Ok(())
}
