// SPDX-License-Identifier: GPL-2.0-or-later
//! Changes to tasks and task groups, by hand.

use wakelab_workload::Measure;

use super::*;

fn workload(names: &[&str]) -> Workload {
    let mut workload = Workload::empty("w", Measure::Makespan);
    workload.tasks = names.iter().map(|name| Task::new(*name, 1, Vec::new())).collect();
    for task in &mut workload.tasks {
        task.allowed = bound_cpu(&task.name).map(|cpu| vec![cpu]);
    }
    workload
}

fn what_if(nice: &[&str], cpus: &[&str]) -> WhatIf {
    WhatIf {
        nice: nice.iter().map(|text| text.parse().expect("a nice value")).collect(),
        cpus: cpus.iter().map(|text| text.parse().expect("a list")).collect(),
        ..WhatIf::default()
    }
}

#[test]
fn less_work_by_hand() {
    let mut workload = workload(&["a1", "a2", "b"]);
    let ops = [
        Op::Compute { work_ns: 1_000, spread_percent: 7 },
        Op::Send { channel: 0, bytes: 9, work_ns: 3 },
        Op::Sleep { delay_ns: 50, source: wakelab_workload::Source::Timer },
    ];
    workload.tasks.iter_mut().for_each(|task| task.program = ops.to_vec());
    let faster = ["a*=20%", "a2=99%"].map(|text| text.parse().expect("less work")).into();
    let changed = WhatIf { faster, ..WhatIf::default() }.apply_to_model(&mut workload).expect("it fits");
    let works = |task: &Task| match task.program[..] {
        [Op::Compute { work_ns, spread_percent: 7 }, Op::Send { bytes: 9, work_ns: sent, .. }, last] => {
            assert_eq!(last, ops[2]);
            (work_ns, sent)
        }
        _ => panic!("{task:?}"),
    };
    assert_eq!(workload.tasks.iter().map(works).collect::<Vec<_>>(), [(800, 2), (10, 0), (1_000, 3)]);
    assert_eq!(changed.notes()[0], "what if: 1 task called a* with 20% less CPU work");
    for bad in ["a", "a=20", "a=0%", "a=100%", "=5%", "a=1.5%"] {
        assert!(bad.parse::<FasterChange>().is_err(), "{bad}");
    }
    let faster = vec!["nobody=5%".parse().expect("less work")];
    let refused = WhatIf { faster, ..WhatIf::default() }.apply_to_model(&mut workload).unwrap_err();
    assert_eq!(refused.0, "--faster nobody=5%");
}

#[test]
fn quotas_of_groups() {
    let mut workload = workload(&["a"]);
    let quota = Some(Quota { quota_ns: 5_000_000, period_ns: 10_000_000 });
    let group = |name: &str| Group { name: name.to_owned(), parent: None, shares: 1024, quota };
    workload.groups = ["/a", "/b", "/c"].map(group).into();
    let quotas = ["/a=30000/100000", "b=max"].map(|text| text.parse().expect("a quota")).into();
    let changed = WhatIf { quotas, ..WhatIf::default() }.apply(&mut workload, 1).expect("it fits");
    assert_eq!(
        changed.notes(),
        [
            "what if: 1 task group called /a with the quota 30000/100000",
            "what if: 1 task group called b with the quota max"
        ]
    );
    let to_30 = Some(Quota { quota_ns: 30_000_000, period_ns: 100_000_000 });
    assert_eq!(workload.groups.iter().map(|group| group.quota).collect::<Vec<_>>(), [to_30, None, quota]);
    for bad in ["/a", "=max", "/a=50", "/a=1/2/3", "/a=50000/5"] {
        let error = bad.parse::<QuotaChange>().expect_err(bad);
        assert!(error.contains("expected CGROUP=QUOTA_US/PERIOD_US"), "{error}");
    }
}

#[test]
fn slices_of_tasks() {
    let mut workload = workload(&["a1", "a2", "b"]);
    workload.tasks[2].slice_ns = Some(5_000_000);
    let slices = ["a*=0.4ms", "a2=1us", "b=base"].map(|text| text.parse().expect("a slice")).into();
    let changed = WhatIf { slices, ..WhatIf::default() }.apply(&mut workload, 1).expect("it fits");
    let slices: Vec<Option<u32>> = workload.tasks.iter().map(|task| task.slice_ns).collect();
    assert_eq!(slices, [Some(400_000), Some(100_000), None]);
    assert_eq!(
        changed.notes(),
        [
            "what if: 1 task called a* with the slice 400us",
            "what if: 1 task called a2 with the slice 100us",
            "what if: 1 task called b with the slice base",
        ]
    );
    let shown = |text: &str| text.parse::<SliceChange>().expect("a slice").to_string();
    assert_eq!(
        (shown("a=3ms"), shown("a=700us"), shown("a=1000ms")),
        ("a=3ms".into(), "a=700us".into(), "a=100ms".into())
    );
    for bad in ["a", "a=", "=3ms", "a=3", "a=ms", "a=-1ms", "a=1e3us", "a=1.1.1ms", "a=nanms"] {
        assert!(bad.parse::<SliceChange>().is_err(), "{bad}");
    }
}

fn weights(texts: &[&str], groups: &[&str]) -> Result<(Vec<u32>, Vec<String>), String> {
    let mut workload = workload(&["a"]);
    let group = |name: &&str| Group { name: (*name).to_owned(), parent: None, shares: 1024, quota: None };
    workload.groups = groups.iter().map(group).collect();
    let weights = texts.iter().map(|text| text.parse().expect("CGROUP=N")).collect();
    let changed = WhatIf { weights, ..WhatIf::default() }.apply(&mut workload, 1);
    let changed = changed.map_err(|(option, error)| format!("{option}: {error}"))?;
    Ok((workload.groups.iter().map(|group| group.shares).collect(), changed.notes()))
}

#[test]
fn weights_of_groups() {
    let (shares, notes) = weights(&["/a*=300", "a/b=50", "*=1"], &["/a", "/a/b", "/c"]).expect("they fit");
    assert_eq!(shares, [3072, 512, 10]);
    assert_eq!(
        notes,
        [
            "what if: 1 task group called /a* with the weight 300",
            "what if: 1 task group called a/b with the weight 50",
            "what if: 1 task group with the weight 1",
        ]
    );
    let refused = |texts: &[&str], groups: &[&str]| weights(texts, groups).expect_err("it is refused");
    assert_eq!(
        refused(&["/b=5"], &["/a", "/c"]),
        "--weight /b=5: no task was in a group called `/b`; expected one of /a, /c, or a beginning and *"
    );
    assert_eq!(
        refused(&["/b=5"], &[]),
        "--weight /b=5: no task was in a group called `/b`; expected a recording with task groups, as `wakelab \
         record` makes it"
    );
    assert_eq!(
        refused(&["/a=5", "/a=6"], &["/a"]),
        "--weight /a=6: is given twice for `/a`; expected it once"
    );
    for bad in ["/a", "/a=", "=5", "/a=0", "/a=10001", "/a=x"] {
        assert!(bad.parse::<WeightChange>().is_err(), "{bad}");
    }
}

#[test]
fn worked_example() {
    let mut workload = workload(&["a1", "a2", "migration/1", "b"]);
    let changed = what_if(&["a*=5", "a1=0"], &["2-3"]).apply(&mut workload, 4).expect("it fits");
    let weights: Vec<u32> = workload.tasks.iter().map(|task| task.weight).collect();
    assert_eq!(weights, [1024, 335, 1024, 1024]);
    let allowed: Vec<Option<&[u32]>> = workload.tasks.iter().map(|task| task.allowed.as_deref()).collect();
    let both = Some(&[2, 3][..]);
    assert_eq!(allowed, [both, both, Some(&[3][..]), both]);
    assert_eq!(
        changed.notes(),
        [
            "what if: 1 task called a* at nice 5",
            "what if: 1 task called a1 at nice 0",
            "what if: 4 tasks only on CPUs 2-3; 1 of them was bound to another CPU",
        ]
    );
}

#[test]
fn cpus_replace_what_was_allowed() {
    let mut workload = workload(&["a", "b"]);
    workload.tasks[0].allowed = Some(vec![3]);
    workload.tasks[0].last_cpu = Some(3);
    let changed = what_if(&[], &["a=0-1"]).apply(&mut workload, 4).expect("it fits");
    assert_eq!(workload.tasks[0].allowed, Some(vec![0, 1]));
    assert_eq!((workload.tasks[0].last_cpu, &workload.tasks[1].allowed), (Some(1), &None));
    assert_eq!(changed.notes(), ["what if: 1 task called a only on CPUs 0-1"]);
}

#[test]
fn a_name_may_hold_an_equals_sign() {
    let mut workload = workload(&["a=b"]);
    what_if(&["a=b=-20"], &["a=b=1"]).apply(&mut workload, 2).expect("it fits");
    assert_eq!((workload.tasks[0].weight, &workload.tasks[0].allowed), (88761, &Some(vec![1])));
}

#[test]
fn what_cannot_be_done_is_refused() {
    let apply = |nice: &[&str], cpus: &[&str]| {
        let refused = what_if(nice, cpus).apply(&mut workload(&["a"]), 2);
        let (option, error) = refused.expect_err("it is refused");
        format!("{option}: {error}")
    };
    assert_eq!(
        apply(&["b=5"], &[]),
        "--nice b=5: no task is called `b`; expected the name of a task, or its beginning and *"
    );
    assert_eq!(apply(&["a=5", "a=6"], &[]), "--nice a=6: is given twice for `a`; expected it once");
    assert_eq!(apply(&[], &["0-2"]), "--cpus 0-2: names CPU 2; the machine has CPUs 0 to 1");
    for bad in ["a", "a=", "=5", "a=20", "a=-21", "a=x"] {
        assert!(bad.parse::<NiceChange>().is_err(), "{bad}");
    }
    for bad in ["", "a=", "=1", "1-", "2-1", "x", "a=5000"] {
        assert!(bad.parse::<CpusChange>().is_err(), "{bad}");
    }
}
