// SPDX-License-Identifier: GPL-2.0-or-later
//! Proof that the comparisons can fail: the same checks on BPF programs with deliberate faults.

use anyhow::{Result, bail};

use crate::episodes::{self, Mismatch};
use crate::hammer::{self, NotConserved};
use crate::kernel::{Fault, Kernel};

/// Faults that the comparison must find, each with the word by which its report must name it.
const COMPARED: [(Fault, &str); 5] = [
    (Fault::Cpu, "answer.cpu"),
    (Fault::Reason, "answer.reason"),
    (Fault::Reads, "answer.reads"),
    (Fault::State, ".rotor"),
    (Fault::Group, ".part"),
];

/// Faults that hammering must find.
const HAMMERED: [(Fault, &str); 3] =
    [(Fault::Counter, "counter 0"), (Fault::Claim, "leaked"), (Fault::Total, "total")];

/// Checks that every fault is found and named. Returns the findings in words.
pub(crate) fn self_test(seed: u64) -> Result<String> {
    for (fault, word) in COMPARED {
        let mut kernel = Kernel::load(fault)?;
        let result = episodes::compare(&mut kernel, seed, 0, None);
        match result.as_ref().map_err(|error| error.downcast_ref::<Mismatch>()) {
            Err(Some(mismatch)) if mismatch.differences.iter().any(|line| line.contains(word)) => {}
            Err(Some(mismatch)) => bail!("fault {fault:?} was found, but not as {word}: {mismatch}"),
            Err(None) => return result.map(|_| String::new()),
            Ok(_) => bail!("the BPF build is wrong on purpose ({fault:?}), and comparing did not find it"),
        }
    }
    for (fault, word) in HAMMERED {
        let mut kernel = Kernel::load(fault)?;
        let policies = ["linux-4.15+idle=smt-balance".parse()?];
        let result = hammer::hammer(&mut kernel, seed, &policies);
        match result.as_ref().map_err(|error| error.downcast_ref::<NotConserved>()) {
            Err(Some(found)) if found.lines.iter().any(|line| line.contains(word)) => {}
            Err(Some(found)) => bail!("fault {fault:?} was found, but not as {word}: {found}"),
            Err(None) => return result.map(|_| String::new()),
            Ok(_) => bail!("the BPF build is wrong on purpose ({fault:?}), and hammering did not find it"),
        }
    }
    Ok(format!(
        "self-test: {} faults made on purpose were found, each for what it is",
        COMPARED.len() + HAMMERED.len()
    ))
}
