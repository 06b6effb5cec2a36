// SPDX-License-Identifier: GPL-2.0-or-later
//! What a silent guest was doing: an NMI makes its kernel print each task's stack and panic. Of that, the tasks that
//! ran or were stuck are reported, a line each.

/// Arguments of the guest's kernel: an NMI without a reason panics, which prints all tasks and each CPU's stack.
pub(crate) const KERNEL_ARGUMENTS: &str = "unknown_nmi_panic panic_print=0x41";

/// What QEMU reads on a serial console that is shared with its monitor (`-serial mon:stdio`): to the monitor, an NMI
/// to all CPUs.
pub(crate) const SEND_NMI: &[u8] = b"\x01cnmi\n";

/// Number of functions of a stack that are reported.
const FRAMES: usize = 6;

/// What each CPU was at, then the tasks that did not sleep, and the loader and sched_ext's helpers whatever they did:
/// `R spin 61: a < b < c`, innermost function first. `console` is what the kernel printed, line by line.
pub(crate) fn tasks(console: &[String]) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    // Functions of the last one told that were told so far; none if what follows is not of interest.
    let mut frames = None;
    for line in console.iter().map(|line| line.trim()) {
        if let Some(cpu) = line.strip_prefix("NMI backtrace for cpu ") {
            told.push(format!("CPU {cpu}"));
            // The interrupted function comes after the NMI's own functions, if those are printed.
            frames = None;
        } else if let Some(task) = line.strip_prefix("task:") {
            frames = head(task).map(|head| {
                told.push(head);
                0
            });
        } else if let Some(last) = told.last_mut() {
            let at = line.strip_prefix("RIP: ");
            if at.is_some() && last.starts_with("CPU ") && frames.is_none() {
                frames = Some(0);
            }
            // A program's own code has only an address: 0033:0x5278c2.
            let name = match at {
                Some(at) => Some(at.split_once(':').map_or(at, |(_, name)| name)),
                None => line.contains('+').then_some(line),
            };
            let name = name.map(|name| name.split_once('+').map_or(name, |(name, _)| name));
            // `? name+0x..` is a guess of the kernel's, from what lies on the stack.
            if let (Some(count), Some(name)) = (frames.as_mut(), name.filter(|name| !name.contains(' ')))
                && *count < FRAMES
            {
                last.push_str(if *count == 0 { ": " } else { " < " });
                last.push_str(name);
                *count += 1;
            }
        }
    }
    told
}

/// `R spin 61` of the rest of a line `task:spin            state:R  running task     stack:0     pid:61 ...`.
fn head(task: &str) -> Option<String> {
    let (name, rest) = task.split_once(" state:")?;
    let name = name.trim_end();
    let state = rest.chars().next()?;
    let pid = rest.split_whitespace().find_map(|word| word.strip_prefix("pid:"))?;
    let is_told = matches!(state, 'R' | 'D') || name.starts_with("scx_") || name.starts_with("sched_ext");
    is_told.then(|| format!("{state} {name} {pid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.12.117 printed it.
    const CONSOLE: &str = "\
NMI backtrace for cpu 0
CPU: 0 UID: 0 PID: 48 Comm: init Not tainted 6.12.117 #1
Call Trace:
 <TASK>
 nmi_panic+0x2f/0x40
 asm_exc_nmi+0x79/0xc2
RIP: 0033:0x5278c2
Code: 48 89 df e8 04 ff ff ff
 </TASK>
NMI backtrace for cpu 1
RIP: 0010:_raw_spin_lock+0x12/0x20
Call Trace:
 <TASK>
 try_to_wake_up+0x2b/0x80
 </TASK>
task:kthreadd        state:S stack:0     pid:2     tgid:2     ppid:0      flags:0x00004000
Call Trace:
 <TASK>
 __schedule+0x463/0x970
 </TASK>
task:kworker/0:1     state:D stack:0     pid:9     tgid:9     ppid:2      flags:0x00004000
Call Trace:
 <TASK>
 __schedule+0x463/0x970
 schedule+0x2b/0x80
 ? kthread_is_per_cpu+0x30/0x30
 percpu_down_write+0xd6/0x100
 </TASK>
task:spin            state:R  running task     stack:0     pid:61    tgid:61    ppid:1      flags:0x00000000
Call Trace:
 <TASK>
 ? ktime_get+0x32/0xb0
 </TASK>
task:scx_wakelab     state:S stack:0     pid:70    tgid:70    ppid:1      flags:0x00004000
Call Trace:
 <TASK>
 a+0x1/0x2
 b+0x1/0x2
 c+0x1/0x2
 d+0x1/0x2
 e+0x1/0x2
 f+0x1/0x2
 g+0x1/0x2
 </TASK>";

    #[test]
    fn cpus_and_tasks_that_do_not_sleep_are_told_with_their_stacks() {
        let console: Vec<String> = CONSOLE.lines().map(str::to_owned).collect();
        let expected = [
            "CPU 0: 0x5278c2",
            "CPU 1: _raw_spin_lock < try_to_wake_up",
            "D kworker/0:1 9: __schedule < schedule < percpu_down_write",
            "R spin 61",
            "S scx_wakelab 70: a < b < c < d < e < f",
        ];
        assert_eq!(tasks(&console), expected);
    }
}
