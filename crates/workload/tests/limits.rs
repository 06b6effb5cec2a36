// SPDX-License-Identifier: GPL-2.0-or-later
//! A few bytes cannot ask for much memory or time: counts are refused by arithmetic, wherever they come from.

use wakelab_workload::{
    HELD_LOCKS_MAX, Measure, OPS_MAX, Op, TASKS_MAX, Task, Workload, WorkloadError, WorkloadFile, describe,
};

const HEAD: &str = "name = \"w\"\nsummary = \"s\"\nmeasure = \"makespan\"\n";

fn expand(body: &str) -> Result<Workload, WorkloadError> {
    WorkloadFile::parse("w.toml", &format!("{HEAD}{body}"))?.expand("w", &[])
}

fn refused(body: &str) -> String {
    expand(body).map(|workload| workload.tasks.len()).unwrap_err().to_string()
}

#[test]
fn a_range_that_makes_too_many_objects() {
    for (kind, table, count, most) in [
        ("tasks", "program = []", "4194303", TASKS_MAX),
        ("channels", "capacity-bytes = 1", "1_048_577", TASKS_MAX),
        ("signals", "", "9_000_000_000", TASKS_MAX),
        ("gates", "", "1_048_577", TASKS_MAX),
        ("locks", "", "1_048_577", TASKS_MAX),
        ("barriers", "parties = 1", "1_048_577", TASKS_MAX),
        ("groups", "", "4096", 4095),
    ] {
        let found = refused(&format!("[[{kind}]]\nname = \"x\"\neach = [\"i in 0..{count}\"]\n{table}\n"));
        let plain = count.replace('_', "");
        let expected = format!(
            "w.toml:5:8: 'x' brings the {kind} to {plain}; expected at most {most}: use smaller ranges"
        );
        assert_eq!(found, expected);
    }
}

#[test]
fn parameters_to_lower_are_named() {
    let found = Workload::parse_spec("hackbench:groups=50000").unwrap_err().to_string();
    let expected = "'sender' brings the tasks to 2000001; expected at most 1048576: lower groups or fds";
    assert!(found.starts_with("workloads/hackbench.toml:") && found.ends_with(expected), "{found}");
    let found = Workload::parse_spec("hackbench:groups=50000,fds=10").unwrap_err().to_string();
    assert!(
        found.contains(" brings the operations to at least ") && found.ends_with(": lower groups or fds"),
        "{found}"
    );
}

/// 1,000 tasks of 20,000 operations each are refused before the first is made.
#[test]
fn operations_are_counted_before_they_are_made() {
    let found = refused(
        "[[tasks]]\nname = \"t\"\neach = [\"i in 0..1000\"]\n\
         program = [{ for = \"j in 0..10_000\", do = [{ compute-ns = 1 }] }]",
    );
    // Each task takes a step for itself, one for the loop, and two a round.
    let expected =
        "'t' brings the operations to at least 20002000; expected at most 16777216: use smaller ranges";
    assert!(found.ends_with(expected), "{found}");
}

/// Bounds that depend on an index are unknown beforehand; the steps are counted as they are taken.
#[test]
fn operations_that_depend_on_an_index_are_counted_as_they_are_made() {
    let found = refused(
        "[[tasks]]\nname = \"t\"\neach = [\"i in 1..2\"]\n\
         program = [{ for = \"j in 0..i * 20_000_000\", do = [] }]",
    );
    assert_eq!(found, format!("w.toml:7:12: more than {OPS_MAX} operations: use smaller ranges"));
}

/// 300 CPUs for each of 60,000 tasks: 18,000,000 entries.
#[test]
fn lists_of_cpus_count() {
    let cpus = vec!["1"; 300].join(", ");
    let found = refused(&format!(
        "[[tasks]]\nname = \"t\"\neach = [\"i in 0..60_000\"]\nallowed = [{cpus}]\nprogram = []"
    ));
    assert!(found.contains("more than 16777216 operations"), "{found}");
}

#[test]
fn numbers_in_json_cost_nothing() {
    let small =
        Workload { tasks: vec![Task::new("t", 0, vec![])], ..Workload::empty("w", Measure::Makespan) };
    let json = serde_json::to_string(&small).unwrap();
    for (field, count, error) in [
        ("gates", 300_000_000, "300000000 gates; expected at most 1048576"),
        ("gates", 1 << 31, "2147483648 gates; expected at most 1048576"),
        ("signals", u32::MAX, "4294967295 signals; expected at most 16777216"),
    ] {
        let text = json.replace(&format!("\"{field}\":0"), &format!("\"{field}\":{count}"));
        let workload: Workload = serde_json::from_str(&text).unwrap();
        assert_eq!(workload.check().unwrap_err().to_string(), error);
    }
}

/// Each lock that is taken is compared with all locks held, so their number is limited.
#[test]
fn a_task_holds_few_locks_at_a_time() {
    let nest = |depth: u32| {
        let program: Vec<Op> = (0..depth)
            .map(|lock| Op::Lock { lock })
            .chain((0..depth).map(|lock| Op::Unlock { lock }))
            .collect();
        let locks = vec![Default::default(); depth as usize];
        Workload { tasks: vec![Task::new("t", 0, program)], locks, ..Workload::empty("w", Measure::Makespan) }
    };
    assert_eq!(nest(HELD_LOCKS_MAX as u32).check(), Ok(()));
    let found = nest(HELD_LOCKS_MAX as u32 + 1).check().unwrap_err().to_string();
    assert_eq!(found, "task 0 (t), operation 64: holds more than 64 locks");
}

#[test]
fn large_files_and_long_names() {
    let long = format!("{HEAD}# {}", "x".repeat(1 << 20));
    let found = WorkloadFile::parse("w.toml", &long).unwrap_err().to_string();
    assert_eq!(found, "w.toml:1:1: the file has more than 1048576 bytes; expected a workload file");
    let name = "n".repeat(65);
    let found = refused(&format!("[[tasks]]\nname = \"{name}\"\nprogram = []"));
    assert_eq!(found, "w.toml:5:8: a name of 65 bytes; expected at most 64");
}

/// A device without end is read only up to the limit.
#[cfg(target_os = "linux")]
#[test]
fn endless_files() {
    let folder = std::env::temp_dir().join(format!("wakelab-workload-limits-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("zero.toml");
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    let found = describe(path.to_str().unwrap()).unwrap_err().to_string();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(found.ends_with("more than 1048576 bytes; expected a workload file"), "{found}");
}

/// Errors print a file's words only with escapes.
#[test]
fn escapes_in_errors() {
    let found = refused("[[tasks]]\nname = \"a\\u001b[31mb\"\nprogram = []");
    assert!(found.contains(r"'a\x1b[31mb' is no name"), "{found}");
    let found = refused("[[tasks]]\nname = \"a\"\nprogram = [\"\\u001b[2J\\u202e\"]");
    assert!(found.contains(r"unknown operation '\x1b[2J\u{202e}'"), "{found}");
    let found = Workload::parse_spec("\x1b]0;title\x07:n=1").unwrap_err().to_string();
    assert!(found.starts_with(r"workload '\x1b]0;title\x07:n=1': unknown name;"), "{found}");
    let named = Workload {
        tasks: vec![Task { weight: 0, ..Task::new("\x1b[1m", 0, vec![]) }],
        ..Workload::empty("w", Measure::Rate)
    };
    assert_eq!(named.check().unwrap_err().to_string(), r"task 0 (\x1b[1m): weight 0; expected 1 to 262144");
}

#[test]
fn misspelt_operations_are_named_with_their_neighbour() {
    for (step, error) in [
        ("{ recieve = \"c\" }", "w.toml:6:14: unknown operation 'recieve'; did you mean 'recv'?"),
        (
            "{ recv = \"c\", wrok-ns = 1 }",
            "w.toml:6:26: unknown key 'wrok-ns' in the operation; did you mean 'work-ns'?",
        ),
        ("\"yeild\"", "w.toml:6:12: unknown operation 'yeild'; did you mean 'yield'?"),
        ("\"send\"", "w.toml:6:12: 'send' needs a value: { send = ... }"),
    ] {
        assert_eq!(refused(&format!("[[tasks]]\nname = \"t\"\nprogram = [{step}]")), error);
    }
}
