// SPDX-License-Identifier: GPL-2.0-or-later
//! Experiment files: what they mean, and which errors they give, with the line.

use wakelab_experiment::{Experiment, Measure, Plan, Selection, presets};

/// A file with two parameters of rows and one fitted parameter. The first row is on line 15.
const GOOD: &str = r#"title = "t"
text = "x"
machine = "smp-8"
workload = "hackbench:groups={groups},loops={loops},fds={fds}"
policy_before = "linux-4.15"
policy_after = "linux-4.15+idle={idle}"
measure = { kind = "makespan" }
seeds = 3
params = { fds = 2, idle = "smt-balance" }
quick = { loops = 1 }
[[fitted]]
param = "loops"
value = 7
how = "by hand"
[[row]]
id = "mine/groups=1"
params = { groups = 1 }
before = 2.0
after = 1.0
[[row]]
id = "mine/cost"
params = { groups = 1 }
measure = { kind = "decision" }
[[row]]
id = "mine/groups=2"
params = { groups = 2 }
robust = true
[[control]]
id = "mine/control=same"
params = { groups = 1, idle = "scan" }
policy_after = "linux-4.15"
expect = "no_change"
because = "b"
"#;

fn parse(text: &str) -> Result<Experiment, String> {
    Experiment::parse("mine", "mine.toml", text).map_err(|error| error.to_string())
}

fn plan(text: &str, selection: Selection) -> Result<Plan, String> {
    Plan::new(parse(text)?, selection).map_err(|error| error.to_string())
}

/// Returns the file with the only occurrence of a text replaced.
fn with(old: &str, new: &str) -> String {
    assert_eq!(GOOD.matches(old).count(), 1, "{old}");
    GOOD.replace(old, new)
}

#[test]
fn rows_that_differ_in_the_measure_share_a_case() {
    let text = with("params = { groups = 1, idle = \"scan\" }", "params = { groups = 1 }");
    let plan = plan(&text, Selection::All).unwrap();
    let cases: Vec<_> =
        plan.cases.iter().map(|case| (case.workload.as_str(), &case.rows, &case.controls)).collect();
    assert_eq!(
        cases,
        [
            ("hackbench:groups=1,loops=7,fds=2", &vec![0, 1], &vec![]),
            ("hackbench:groups=2,loops=7,fds=2", &vec![2], &vec![]),
            ("hackbench:groups=1,loops=7,fds=2", &vec![], &vec![0]),
        ]
    );
    assert_eq!(plan.cases[0].policies, ["linux-4.15", "linux-4.15+idle=smt-balance"]);
    assert_eq!(plan.cases[2].policies, ["linux-4.15", "linux-4.15"]);
    assert!(plan.cases[2].other_seeds && !plan.cases[0].other_seeds);
    let [before, after] = &plan.cases[0].scenarios;
    assert_eq!(
        (&before.machine, &before.workload, before.limit_ns),
        (&after.machine, &after.workload, 600_000_000_000)
    );
    assert_ne!(before.policy, after.policy);
    assert_eq!(plan.experiment.rows[1].measure, Measure::Decision {});
    // Some rows only, of which one shares a case with another; no controls.
    let kept = |texts: &[&str]| {
        let mut part = plan.clone();
        part.keep_rows(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        part.cases.into_iter().map(|case| (case.rows, case.controls)).collect::<Vec<_>>()
    };
    let id = &plan.experiment.rows[1].id;
    assert_eq!(kept(&[id]), [(vec![1], vec![])]);
    assert_eq!(kept(&["nowhere", "mine/"]), [(vec![0, 1], vec![]), (vec![2], vec![])]);
    assert_eq!(kept(&["nowhere"]), []);
}

/// A quick run has the robust row and the control, with one loop.
#[test]
fn a_quick_run_is_shorter() {
    let text = with("params = { groups = 1, idle = \"scan\" }", "params = { groups = 1 }");
    let quick = plan(&text, Selection::Quick).unwrap();
    let workloads: Vec<&str> = quick.cases.iter().map(|case| case.workload.as_str()).collect();
    assert_eq!(workloads, ["hackbench:groups=2,loops=1,fds=2", "hackbench:groups=1,loops=1,fds=2"]);
    let controls = plan(&text, Selection::Controls).unwrap();
    assert_eq!(controls.cases.len(), 1);
    assert_eq!(controls.cases[0].workload, "hackbench:groups=1,loops=7,fds=2");
    // If no row is robust, the first is run.
    let none = plan(&text.replace("robust = true\n", ""), Selection::Quick).unwrap();
    assert_eq!(none.cases[0].rows, [0]);
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let fitted = "[[fitted]]\nparam = \"loops\"\nvalue = 7\nhow = \"by hand\"\n";
    let more = |name: &str| format!("[[fitted]]\nparam = \"{name}\"\nvalue = 1\nhow = \"h\"\n");
    let cases = [
        (with("title = \"t\"", "title = 1"), "mine.toml:1: invalid type: integer `1`, expected a string"),
        (with("seeds = 3", "seeds = 0"), "mine.toml:8: seeds = 0; expected 1 to 10000"),
        (
            with("seeds = 3", "seeds = 3\nmisses_of = 2026-11-28T10:00:00"),
            "mine.toml:9: misses_of = 2026-11-28T10:00:00; expected a date such as 2026-11-28",
        ),
        (with("title = \"t\"\n", ""), "mine.toml:1: missing field `title`"),
        (with("text = \"x\"", "txt = \"x\""), "mine.toml:2: unknown field `txt`"),
        (
            with(fitted, &format!("{fitted}{}{}", more("a"), more("b"))),
            "mine.toml:19: a third fitted parameter; expected at most two",
        ),
        (
            with("fds = 2, idle", "loops = 2, idle"),
            "mine.toml:11: 'loops' is both fitted and given in params",
        ),
        (
            with("params = { groups = 2 }", "params = { groups = 2, loops = 9 }"),
            "mine.toml:24: 'loops' is fitted, so it is one for all rows",
        ),
        (with("mine/groups=2", "other/groups=2"), "mine.toml:24: id 'other/groups=2'; expected 'mine/'"),
        (with("mine/groups=2", "mine/groups=1"), "mine.toml:24: id 'mine/groups=1' is there twice"),
        (with("before = 2.0\n", ""), "mine.toml:15: mine/groups=1: a published 'after' without a 'before'"),
        (
            with("before = 2.0", "before = 0.0"),
            "mine.toml:15: mine/groups=1: published values are numbers above 0",
        ),
        (
            with("before = 2.0", "before = nan"),
            "mine.toml:15: mine/groups=1: published values are numbers above 0",
        ),
        (
            with("after = 1.0", "after = 1.0\ngain_percent = 3.0"),
            "mine.toml:15: mine/groups=1: 'gain_percent' is for",
        ),
        (
            with("{ kind = \"decision\" }", "{ kind = \"decison\" }"),
            "mine.toml:23: unknown variant `decison`",
        ),
        (
            with("{ kind = \"decision\" }", "{ kind = \"decision\", x = 1 }"),
            "mine.toml:23: unknown field `x`",
        ),
        (
            with("{ kind = \"decision\" }", "{ kind = \"latency\", percentile = 101 }"),
            "mine.toml:23: percentile 101; expected above 0 and at most 100",
        ),
        (with("robust = true", "robust = 1"), "mine.toml:27: invalid type: integer `1`, expected a boolean"),
        (with("expect = \"no_change\"", "expect = \"nothing\""), "mine.toml:32: unknown variant `nothing`"),
        (with("fds = 2", "fds = 2.5"), "mine.toml:9: expected a whole number or a word"),
    ];
    for (text, expected) in cases {
        let error = parse(&text).expect_err(expected);
        assert!(error.starts_with(expected), "expected {expected}\nfound    {error}");
    }
}

#[test]
fn what_does_not_exist_is_told_with_its_line() {
    let cases = [
        (with("smp-8", "smp-9"), "mine.toml:3: "),
        (with("hackbench:groups", "hackbensh:groups"), "mine.toml:4: workload 'hackbensh"),
        (with("loops={loops}", "loops={lops}"), "mine.toml:4: no parameter 'lops'"),
        (with("loops={loops}", "loops={loops"), "mine.toml:4: no parameter 'loops,fds={fds'"),
        (with("idle = \"smt-balance\" }", "idle = \"x\" }"), "mine.toml:6: policy 'linux-4.15+idle=x': "),
        (
            with("params = { groups = 2 }", "params = { groups = 2, x = 9 }"),
            "mine.toml:24: no template has the parameter 'x'; expected {x} in the workload",
        ),
        // The control has a parameter that its policy does not have.
        (GOOD.to_owned(), "mine.toml:28: no template has the parameter 'idle'"),
    ];
    for (text, expected) in cases {
        let error = plan(&text, Selection::All).expect_err(expected);
        assert!(error.starts_with(expected), "expected {expected}\nfound    {error}");
    }
}

/// The machines, workloads and policies of all files exist.
#[test]
fn all_presets_can_be_run() {
    for name in presets() {
        for selection in [Selection::All, Selection::Controls, Selection::Quick] {
            let experiment = Experiment::load(name).unwrap();
            Plan::new(experiment, selection).unwrap_or_else(|error| panic!("{error}"));
        }
    }
    let error = Experiment::load("hackbensh").unwrap_err().to_string();
    assert!(
        error.starts_with("no experiment 'hackbensh'; there are ") && error.contains("hackbench"),
        "{error}"
    );
    assert!(
        Experiment::load("no/such.toml").unwrap_err().to_string().starts_with("cannot read no/such.toml: ")
    );
}
