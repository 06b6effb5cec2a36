// SPDX-License-Identifier: GPL-2.0-or-later
//! The fields of the kernel's scheduling events, as text: what comes after `sched:sched_switch: `.
//!
//! Two notations exist. The kernel's own has keys (`prev_comm=a prev_pid=1 ...`). perf's sched_switch plugin, where it is
//! installed, writes `a:1 [120] S ==> b:2 [120]` for sched_switch and `a:1 [120] CPU:003` for the wake-ups. A comm may
//! hold blanks, colons and brackets in both.

use winnow::ascii::{digit1, space0};
use winnow::combinator::{opt, preceded};
use winnow::error::{ContextError, StrContext, StrContextValue};
use winnow::token::{rest, take_until, take_while};
use winnow::{Parser, Result};

use crate::event::{SwitchedOut, TaskName, What};

/// Parses the fields of the event `name`, without its subsystem. The error says what was expected.
///
/// Events that say nothing about waiting become [`What::Other`] unread.
pub(crate) fn parse<'a>(name: &str, mut fields: &'a str) -> std::result::Result<What<'a>, String> {
    let input = &mut fields;
    match name {
        "sched_switch" if input.starts_with("prev_comm=") => switch.parse_next(input),
        "sched_switch" => plugin_switch.parse_next(input),
        "sched_waking" => waking.parse_next(input),
        "sched_wakeup" => wakeup.parse_next(input),
        "sched_wakeup_new" => wakeup_new.parse_next(input),
        "sched_process_fork" => fork.parse_next(input),
        "sched_migrate_task" => migrate.parse_next(input),
        "sched_stat_runtime" => runtime.parse_next(input),
        _ => Ok(What::Other),
    }
    .map_err(|error| format!("{name} with {}", expected_by(&error)))
}

fn expected_by(error: &ContextError) -> String {
    let expected = error.context().find_map(|context| match context {
        StrContext::Expected(value) => Some(value.to_string()),
        _ => None,
    });
    expected.unwrap_or_else(|| "its fields".to_owned())
}

/// `parser`, whose failure says that `what` was expected.
fn expect<'a, O>(
    what: &'static str,
    parser: impl Parser<&'a str, O, ContextError>,
) -> impl Parser<&'a str, O, ContextError> {
    parser.context(StrContext::Expected(StrContextValue::Description(what)))
}

/// The text up to `key`, and past it.
fn comm_before<'a>(key: &'static str) -> impl Parser<&'a str, &'a str, ContextError> {
    (take_until(0.., key), key).map(|(comm, _)| comm)
}

/// A task id or a CPU number.
fn id(input: &mut &str) -> Result<u32> {
    digit1.parse_to().parse_next(input)
}

fn prio(input: &mut &str) -> Result<i32> {
    (opt('-'), digit1).take().parse_to().parse_next(input)
}

/// `comm=NAME pid=N`, under other keys for other events.
fn task<'a>(
    comm_key: &'static str,
    id_key: &'static str,
) -> impl Parser<&'a str, TaskName<'a>, ContextError> {
    preceded(comm_key, (comm_before(id_key), id)).map(|(comm, tid)| TaskName { comm, tid, prio: None })
}

fn switch<'a>(input: &mut &'a str) -> Result<What<'a>> {
    let mut prev = expect("prev_comm= prev_pid=", task("prev_comm=", " prev_pid=")).parse_next(input)?;
    prev.prio = Some(expect("prev_prio=", preceded(" prev_prio=", prio)).parse_next(input)?);
    let why = expect("prev_state= and letters", preceded(" prev_state=", state)).parse_next(input)?;
    let mut next =
        expect("==> next_comm= next_pid=", task(" ==> next_comm=", " next_pid=")).parse_next(input)?;
    next.prio = Some(expect("next_prio=", preceded(" next_prio=", prio)).parse_next(input)?);
    expect("nothing after next_prio=", end_of_field).parse_next(input)?;
    Ok(What::Switch { prev, why, next })
}

fn plugin_switch<'a>(input: &mut &'a str) -> Result<What<'a>> {
    let prev = expect("prev_comm= or comm:pid [prio]", plugin_task).parse_next(input)?;
    let why = expect("state letters after [prio]", preceded(' ', state)).parse_next(input)?;
    let next = expect("==> comm:pid [prio]", preceded(" ==> ", plugin_task)).parse_next(input)?;
    expect("nothing after [prio]", end_of_field).parse_next(input)?;
    Ok(What::Switch { prev, why, next })
}

/// `comm:pid [prio]`.
fn plugin_task<'a>(input: &mut &'a str) -> Result<TaskName<'a>> {
    let (comm, tid) = take_until(0.., " [")
        .verify_map(|name: &str| {
            let (comm, tid) = name.rsplit_once(':')?;
            Some((comm, tid.parse().ok()?))
        })
        .parse_next(input)?;
    let (_, prio, _) = (" [", prio, ']').parse_next(input)?;
    Ok(TaskName { comm, tid, prio: Some(prio) })
}

/// Letters of the task's state, with `|` between them. `R` and, when preempted, `R+` or `R`. The last switch of a task
/// has X or Z; older kernels wrote x.
fn state(input: &mut &str) -> Result<SwitchedOut> {
    let letters =
        take_while(1.., |c: char| c.is_ascii_alphabetic() || c == '|' || c == '+').parse_next(input)?;
    Ok(if letters.contains(['X', 'Z', 'x']) {
        SwitchedOut::Exited
    } else if letters.starts_with('R') {
        SwitchedOut::Runnable
    } else {
        SwitchedOut::Blocked
    })
}

/// A wake-up's task and CPU in either notation; `None` if it woke nobody (`success=0`, on older kernels).
fn woken<'a>(input: &mut &'a str) -> Result<Option<(TaskName<'a>, u32)>> {
    let keyed = input.starts_with("comm=");
    let task = if keyed {
        let mut task = expect("comm= pid=", task("comm=", " pid=")).parse_next(input)?;
        task.prio = Some(expect("prio=", preceded(" prio=", prio)).parse_next(input)?);
        task
    } else {
        expect("comm= or comm:pid [prio]", plugin_task).parse_next(input)?
    };
    let success = opt(preceded(" success=", id)).parse_next(input)?;
    let cpu = if keyed {
        expect("target_cpu=", preceded(" target_cpu=", id)).parse_next(input)?
    } else {
        expect("CPU:", preceded((space0, "CPU:"), id)).parse_next(input)?
    };
    expect("nothing after the CPU", end_of_field).parse_next(input)?;
    Ok((success != Some(0)).then_some((task, cpu)))
}

fn waking<'a>(input: &mut &'a str) -> Result<What<'a>> {
    let woken = woken.parse_next(input)?;
    Ok(woken.map_or(What::Other, |(task, last_cpu)| What::Waking { task, last_cpu }))
}

fn wakeup<'a>(input: &mut &'a str) -> Result<What<'a>> {
    let woken = woken.parse_next(input)?;
    Ok(woken.map_or(What::Other, |(task, cpu)| What::Wakeup { task, cpu }))
}

fn wakeup_new<'a>(input: &mut &'a str) -> Result<What<'a>> {
    let woken = woken.parse_next(input)?;
    Ok(woken.map_or(What::Other, |(task, _)| What::WakeupNew { task }))
}

fn fork<'a>(input: &mut &'a str) -> Result<What<'a>> {
    let parent = expect("comm= pid=", task("comm=", " pid=")).parse_next(input)?;
    let child = expect("child_comm= child_pid=", task(" child_comm=", " child_pid=")).parse_next(input)?;
    expect("nothing after child_pid=", end_of_field).parse_next(input)?;
    Ok(What::Fork { parent, child })
}

fn migrate<'a>(input: &mut &'a str) -> Result<What<'a>> {
    let mut task = expect("comm= pid=", task("comm=", " pid=")).parse_next(input)?;
    task.prio = Some(expect("prio=", preceded(" prio=", prio)).parse_next(input)?);
    let from_cpu = expect("orig_cpu=", preceded(" orig_cpu=", id)).parse_next(input)?;
    let to_cpu = expect("dest_cpu=", preceded(" dest_cpu=", id)).parse_next(input)?;
    expect("nothing after dest_cpu=", end_of_field).parse_next(input)?;
    Ok(What::Migrate { task, from_cpu, to_cpu })
}

fn runtime<'a>(input: &mut &'a str) -> Result<What<'a>> {
    let task = expect("comm= pid=", task("comm=", " pid=")).parse_next(input)?;
    let ran_ns = expect("runtime=", preceded(" runtime=", digit1.parse_to())).parse_next(input)?;
    expect("[ns] after runtime=", (" [ns]", end_of_field)).parse_next(input)?;
    Ok(What::Runtime { task, ran_ns })
}

/// The line ends here, or a blank and further fields follow: vendors' kernels append some.
fn end_of_field(input: &mut &str) -> Result<()> {
    rest.verify(|rest: &str| rest.is_empty() || rest.starts_with(' ')).void().parse_next(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(comm: &str, tid: u32, prio: i32) -> TaskName<'_> {
        TaskName { comm, tid, prio: Some(prio) }
    }

    #[test]
    fn both_notations_of_a_switch_say_the_same() {
        let expected = Ok(What::Switch {
            prev: name("kworker/0:1", 7, 120),
            why: SwitchedOut::Blocked,
            next: name("Web Content", 12, 139),
        });
        let keyed = "prev_comm=kworker/0:1 prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=Web Content next_pid=12 next_prio=139";
        assert_eq!(parse("sched_switch", keyed), expected);
        assert_eq!(parse("sched_switch", "kworker/0:1:7 [120] S ==> Web Content:12 [139]"), expected);
    }

    #[test]
    fn both_notations_of_a_wakeup_say_the_same() {
        let expected = Ok(What::Wakeup { task: name("a b", 7, 0), cpu: 3 });
        assert_eq!(parse("sched_wakeup", "comm=a b pid=7 prio=0 target_cpu=003"), expected);
        assert_eq!(parse("sched_wakeup", "comm=a b pid=7 prio=0 success=1 target_cpu=003"), expected);
        assert_eq!(parse("sched_wakeup", "a b:7 [0] success=1 CPU:003"), expected);
        assert_eq!(parse("sched_wakeup", "a b:7 [0] CPU:003"), expected);
        assert_eq!(parse("sched_wakeup", "a b:7 [0] success=0 CPU:003"), Ok(What::Other));
        assert_eq!(
            parse("sched_waking", "comm=x pid=7 prio=-1 target_cpu=003"),
            Ok(What::Waking { task: name("x", 7, -1), last_cpu: 3 })
        );
    }

    #[test]
    fn the_other_events() {
        let (a, b) =
            (TaskName { comm: "a", tid: 1, prio: None }, TaskName { comm: "b c", tid: 2, prio: None });
        assert_eq!(
            parse("sched_process_fork", "comm=a pid=1 child_comm=b c child_pid=2"),
            Ok(What::Fork { parent: a, child: b })
        );
        assert_eq!(
            parse("sched_migrate_task", "comm=a pid=1 prio=120 orig_cpu=0 dest_cpu=11"),
            Ok(What::Migrate { task: name("a", 1, 120), from_cpu: 0, to_cpu: 11 })
        );
        let runtime = Ok(What::Runtime { task: a, ran_ns: 98765 });
        assert_eq!(parse("sched_stat_runtime", "comm=a pid=1 runtime=98765 [ns]"), runtime);
        assert_eq!(parse("sched_stat_runtime", "comm=a pid=1 runtime=98765 [ns] vruntime=1 [ns]"), runtime);
    }

    #[test]
    fn states_tell_waiting_from_preemption_and_exit() {
        for (letters, why) in [
            ("R", SwitchedOut::Runnable),
            ("R+", SwitchedOut::Runnable),
            ("S", SwitchedOut::Blocked),
            ("D|K", SwitchedOut::Blocked),
            ("I", SwitchedOut::Blocked),
            ("P", SwitchedOut::Blocked),
            ("t", SwitchedOut::Blocked),
            ("X", SwitchedOut::Exited),
            ("Z", SwitchedOut::Exited),
            ("x", SwitchedOut::Exited),
        ] {
            assert_eq!(state.parse(letters).ok(), Some(why), "{letters}");
        }
    }

    #[test]
    fn a_wrong_field_is_named() {
        let cut = "prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=b next_p";
        assert_eq!(parse("sched_switch", cut), Err("sched_switch with ==> next_comm= next_pid=".to_owned()));
        let state =
            "prev_comm=a prev_pid=7 prev_prio=120 prev_state=0x80 ==> next_comm=b next_pid=1 next_prio=120";
        assert_eq!(parse("sched_switch", state), Err("sched_switch with prev_state= and letters".to_owned()));
        let huge = "comm=a pid=99999999999 prio=120 target_cpu=001";
        assert_eq!(parse("sched_waking", huge), Err("sched_waking with comm= pid=".to_owned()));
        let glued = "comm=a pid=9 prio=120 target_cpu=001x";
        assert_eq!(parse("sched_waking", glued), Err("sched_waking with nothing after the CPU".to_owned()));
        assert_eq!(
            parse("sched_switch", "a S b"),
            Err("sched_switch with prev_comm= or comm:pid [prio]".to_owned())
        );
        assert_eq!(parse("sched_stat_wait", "whatever"), Ok(What::Other));
    }
}
