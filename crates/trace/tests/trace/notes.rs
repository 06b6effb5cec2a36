// SPDX-License-Identifier: GPL-2.0-or-later
//! The notes on a recording: nothing that bears on the result is only in the JSON.

use std::num::NonZeroU32;

use wakelab_trace::{Gap, Options, Recording};

use crate::script::{Script, read_text};

/// t1 works and wakes t2, which sleeps.
fn script() -> Script {
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .switch(1, 0, 0, "R", 2)
        .switch(1, 10, 2, "S", 0)
        .waking(0, 60, 1, 2)
        .switch(1, 70, 0, "R", 2)
        .switch(1, 80, 2, "S", 0)
        .waking(1, 90, 0, 2)
        .switch(1, 95, 0, "R", 2)
        .switch(0, 100, 1, "S", 0);
    script
}

fn told(recording: &Recording, sentence: &str) -> bool {
    recording.notes().iter().any(|note| note.contains(sentence))
}

#[test]
fn a_recording_that_is_whole() {
    let recording = script().explained();
    assert_eq!(recording.warning(), None);
    assert_eq!(
        recording.notes(),
        [
            "recording: 9 events, 2 tasks, 2 CPUs, 0.000 s",
            "service: all tasks but kernel threads, the recorder, and those of little CPU time (2 tasks)",
            "2 waits: 1 (50.0 %) attributed to a task, 1 (50.0 %) to time or to events from outside, 0 (0.0 %) not attributed; \
             1 had not ended and are dropped",
            "closed loop (woken a fixed time after going to sleep): t2 (1 task, 1 sleep)",
            "wake-ups by interrupts are attributed to the interrupted task, because this recording does not distinguish them",
        ]
    );
}

#[test]
fn a_recording_that_explains_little_is_marked() {
    let script = script();
    let lines: Vec<&str> = script.text.lines().filter(|line| !line.contains("waking")).collect();
    let recording = read_text(&(lines.join("\n") + "\n"), &Options::default()).expect("well formed");
    let warning = recording.warning().expect("no wait is explained");
    assert!(
        warning.contains("cannot be trusted: what ended a wait is known for only 0 of 2 waits (0.0 %)"),
        "{warning}"
    );
    // Two of three waits are enough for a result without this line.
    let text = script.text.replacen("sched_waking: comm=t2 pid=2", "sched_waking: comm=t3 pid=3", 1);
    let most = read_text(&text, &Options::default()).expect("well formed");
    assert_eq!((most.explained.unexplained, most.explained.waits, most.warning()), (1, 3, None));
}

#[test]
fn the_number_of_lost_events_is_told() {
    let mut script = script();
    script.line("            perf  8739/8739  [000]  1860.775370000: PERF_RECORD_LOST lost 200");
    script.line("CPU:1 [LOST 7 EVENTS]");
    assert!(told(&script.read(), "gap: lost 207 events in 2 places, first in line 10"));
}

#[test]
fn events_that_the_kernel_overwrote_are_lost() {
    let text = "\
# tracer: nop
#
# entries-in-buffer/entries-written: 1/9000000   #P:2
          <idle>-0       [000] d..2.   100.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=1 next_prio=120
";
    let recording = read_text(text, &Options::default()).expect("well formed");
    assert_eq!(recording.explained.lost_events, 8_999_999);
    assert!(told(&recording, "gap: lost 8999999 events in 1 place, first in line 3"));
}

#[test]
fn lost_events_stay_a_gap_where_ids_are_foreign() {
    let mut script = Script::default();
    let switch = "prev_comm=t100 prev_pid=100 prev_prio=120 prev_state=S ==> next_comm=t101 next_pid=101 next_prio=120";
    script.waking(0, 0, 1, 2).line("CPU:1 [LOST 7 EVENTS]").event(0, 10, 1, "sched:sched_switch", switch);
    let recording = script.read();
    assert!(recording.explained.foreign_ids && told(&recording, "the recorder's task ids differ"));
    assert_eq!(recording.explained.gaps[&Gap::LostEvents].count, 1);
    assert!(script.read_strictly().unwrap_err().ends_with("the recorder lost events"));
}

#[test]
fn assumptions_are_told() {
    let only_wakeup = Script { text: script().text.replace("sched_waking", "sched_wakeup") };
    assert!(told(&only_wakeup.read(), "wakers are uncertain"));
    let realtime = Script { text: script().text.replace("_prio=120", "_prio=40") };
    assert!(told(&realtime.read(), "2 real-time tasks are simulated as fair tasks of nice -20"));
    let threads =
        Script { text: script().text.replace("1/1 ", "1 ").replace("2/2 ", "2 ").replace("0/0 ", "0 ") };
    assert!(told(&threads.read(), "each thread counts as a separate process"));
}

#[test]
fn names_are_printable() {
    let text = script().text.replace("t2 ", "\x1b[31m ");
    let recording = read_text(&text, &Options::default()).expect("well formed");
    assert!(recording.explained.loops.contains_key("\x1b[31m"));
    assert!(told(&recording, r"\x1b[31m (1 task, 1 sleep)") && !told(&recording, "\x1b"));
}

#[test]
fn more_runs_than_memory_holds_are_refused() {
    let options = Options { repeat: NonZeroU32::new(u32::MAX), ..Options::default() };
    let error = read_text(&script().text, &options).unwrap_err().to_string();
    assert!(
        error.starts_with("f: 4294967295 runs of 2 tasks with ")
            && error.contains("expected at most 1048576 tasks and 8388608 operations in all runs, which is "),
        "{error}"
    );
}

#[test]
fn a_jump_of_the_clock_is_told() {
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .runtime(0, 10, 1, 1, 10)
        .runtime(0, 110, 1, 1, 10)
        .switch(0, 110, 1, "S", 0);
    let recording = script.explained();
    // 100 ns have passed, of which the task ran for 10.
    assert_eq!((recording.busy_ns, recording.explained.unaccounted_ns), (110, 90));
    let sentence = "0.000 ms of CPU time (81.8 %) are more than sched_stat_runtime accounts to the tasks";
    assert!(told(&recording, sentence));
    assert!(recording.warning().expect("most of the time is missing").contains(sentence));
    let whole =
        Script { text: script.text.replacen("runtime=10", "runtime=100", 2).replacen("=100", "=10", 1) };
    let whole = whole.explained();
    assert_eq!((whole.explained.unaccounted_ns, whole.warning()), (0, None));
}

#[test]
fn time_between_unseen_switches_is_told() {
    let mut script = Script::default();
    script
        .switch(0, 0, 0, "R", 1)
        .runtime(0, 60, 1, 1, 60)
        .runtime(0, 100, 2, 2, 10)
        .switch(0, 110, 2, "S", 0);
    let recording = script.read();
    // t2 ran for 10 before 100, and t1 until 60 at least.
    assert_eq!((recording.busy_ns, recording.explained.unseen_ns), (80, 30));
    let sentence = "what ran for 0.000 ms of CPU time (37.5 % of all that is known) was not seen";
    assert!(
        told(&recording, sentence) && recording.warning().is_some_and(|warning| warning.contains(sentence))
    );
}

#[test]
fn a_task_on_two_cpus_leaves_the_time_of_one_unseen() {
    let mut script = Script::default();
    script.switch(1, 0, 0, "R", 1).switch(0, 40, 0, "R", 1).switch(0, 50, 1, "S", 0).switch(1, 70, 0, "R", 2);
    assert_eq!(script.read().explained.unseen_ns, 70);
}

#[test]
fn a_cpu_whose_idle_task_has_no_events_is_told() {
    let mut script = Script::default();
    script.switch(1, 0, 1, "S", 0).runtime(1, 30, 2, 2, 10).switch(1, 40, 2, "S", 0).runtime(1, 70, 1, 1, 10);
    let recording = script.read();
    assert_eq!(recording.explained.silent_idle, [(1, 2)].into());
    assert!(told(
        &recording,
        "missing: all events of the idle task of CPU 1, which was left 2 times for other tasks"
    ));
    assert_eq!(recording.warning(), None, "most can still be told");
    script.switch(1, 90, 1, "S", 0).waking(1, 95, 0, 2);
    assert!(script.read().explained.silent_idle.is_empty());
}

#[test]
fn a_cpu_without_events_is_told() {
    let mut script = Script::default();
    script.switch(1, 0, 0, "R", 1).waking(1, 10, 1, 2).waking(1, 20, 1, 3);
    // Each may have run on CPU 0 before the recording only.
    assert!(script.read().explained.silent_cpus.is_empty());
    script.waking(1, 30, 1, 2);
    let once = script.read();
    assert!(told(&once, "missing: all events of CPU 0, where 1 of 3 wake-ups show that tasks ran"));
    assert_eq!(once.warning(), None, "the recording may have ended");
    let warning = script.waking(1, 40, 1, 3).read().warning().expect("t2 and t3 have run on CPU 0");
    assert!(warning.ends_with("all events of CPU 0, where 2 of 4 wake-ups show that tasks ran"), "{warning}");
    script.switch(0, 50, 0, "R", 2);
    assert!(script.read().explained.silent_cpus.is_empty());
}
