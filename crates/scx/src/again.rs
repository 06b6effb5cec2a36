// SPDX-License-Identifier: GPL-2.0-only
//! Which failed starts are tried again.
//!
//! The kernel frees the task records of a scheduler that was stopped in a worker. While that worker is at a record it
//! holds the CPU's `bpf_task_storage_busy`; if it is preempted there, no record can be made on that CPU
//! (kernel/bpf/bpf_task_storage.c), and a start on it fails. The next moment it would succeed. The same code is
//! returned when memory is short, so the number of tries is limited.

use std::time::Duration;

/// How often a start is tried again.
const MOST_TRIES: u32 = 5;
/// The pause before the first of them; each next pause is twice as long, so that all take 3.1 s.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// How the kernel's message begins if init_task() returned -ENOMEM; the task's name follows.
const NO_RECORD: &str = "ops.init_task() failed (-12)";

/// Returns the pause before the next try of a start that failed with this message of the kernel, after this number of
/// `tries`; `None` if it is not to be tried again.
pub(crate) fn pause(message: &str, tries: u32) -> Option<Duration> {
    (message.starts_with(NO_RECORD) && tries < MOST_TRIES).then(|| FIRST_PAUSE * 2_u32.pow(tries))
}

/// Says why the start is tried again: for the `tries`th time.
pub(crate) fn say(message: &str, tries: u32) {
    eprintln!(
        "scx_wakelab: {message}: the kernel may still be freeing the records of a scheduler that was stopped; trying \
         again ({tries} of {MOST_TRIES})"
    );
}

/// Returns the text of a message that the BPF side has recorded.
pub(crate) fn text(message: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = message.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_record_is_tried_again_and_not_for_ever() {
        let said = "ops.init_task() failed (-12) for ksoftirqd/1[22]";
        let pauses: Vec<_> = (0..7).map(|tries| pause(said, tries)).collect();
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(pauses, [ms(100), ms(200), ms(400), ms(800), ms(1600), None, None]);
        for other in [
            "",
            "ops.init_task() failed (-1) for sh[7]",
            "ops.init_task() failed (-123) for sh[7]",
            "scx_ops_enable() failed (-12)",
            "cannot start the timer: -12",
        ] {
            assert_eq!(pause(other, 0), None, "{other}");
        }
    }

    #[test]
    fn a_message_ends_at_its_first_zero() {
        let c = |bytes: &[u8]| bytes.iter().map(|&b| b as std::ffi::c_char).collect::<Vec<_>>();
        assert_eq!(text(&c(b"a (-12)\0rest")), "a (-12)");
        assert_eq!(text(&c(b"whole")), "whole");
    }
}
