// SPDX-License-Identifier: GPL-2.0-or-later
//! The longest waits of a run, one by one: which task, when, behind whom, why it was placed there, and what was idle.

use serde::Serialize;
use wakelab_machine::{cpu_list, printable};
use wakelab_sim::{Cause, Wait, Waits};

use crate::style::{BOLD, Style, paint};
use crate::waiting::{Kind, words_of_ns};

/// The longest waits of a run, for programs.
#[derive(Debug, Serialize)]
pub struct SlowWaits<'a>(Vec<SlowWait<'a>>);

#[derive(Debug, Serialize)]
struct SlowWait<'a> {
    task: u32,
    comm: &'a str,
    since_ns: u64,
    waited_ns: u64,
    /// Where it then ran.
    cpu: u32,
    idle_elsewhere_ns: u64,
    causes: Vec<SlowCause<'a>>,
    woken_by: Option<&'a str>,
    placed: Option<SlowPlaced<'a>>,
}

#[derive(Debug, Serialize)]
struct SlowCause<'a> {
    cause: &'static str,
    /// The name of the task that had the CPU.
    behind: Option<&'a str>,
    ns: u64,
}

#[derive(Debug, Serialize)]
struct SlowPlaced<'a> {
    by_cpu: u32,
    cpu: u32,
    reason: &'a str,
    reads: u64,
    idle_cpus: &'a [u32],
}

impl<'a> SlowWaits<'a> {
    /// Everything that the books have of the longest waits.
    pub fn new(waits: &'a Waits) -> SlowWaits<'a> {
        SlowWaits(waits.longest.iter().map(|wait| SlowWait::new(wait, waits)).collect())
    }
}

impl<'a> SlowWait<'a> {
    fn new(wait: &'a Wait, waits: &'a Waits) -> SlowWait<'a> {
        let name = |who: u32| waits.who[who as usize].name.as_str();
        let cause = |&(cause, ns): &(Cause, u64)| SlowCause {
            cause: Kind::of(cause, &waits.who).name(),
            behind: match cause {
                Cause::Behind(other) => Some(name(other)),
                _ => None,
            },
            ns,
        };
        let placed = wait.placed.as_ref().map(|placed| SlowPlaced {
            by_cpu: placed.by_cpu,
            cpu: placed.cpu,
            reason: placed.reason,
            reads: placed.reads,
            idle_cpus: &placed.idle,
        });
        SlowWait {
            task: wait.task,
            comm: name(wait.who),
            since_ns: wait.since_ns,
            waited_ns: wait.waited_ns,
            cpu: wait.cpu,
            idle_elsewhere_ns: wait.idle_elsewhere_ns,
            causes: wait.causes.iter().map(cause).collect(),
            woken_by: wait.woken_by.map(name),
            placed,
        }
    }
}

/// Returns the longest waits as text, a paragraph each; empty if there are none.
pub fn slowest_text(title: &str, waits: &Waits, style: &Style) -> String {
    if waits.longest.is_empty() {
        return String::new();
    }
    let mut out = paint(style, BOLD, style.wrap(title).trim_end());
    out.push('\n');
    for (number, wait) in waits.longest.iter().enumerate() {
        let [head, causes, placed] = lines(wait, waits);
        out.push_str(&style.wrap(&format!("{}. {head}", number + 1)));
        out.push_str(&style.wrap(&format!("  {causes}")));
        out.push_str(&style.wrap(&format!("  {placed}")));
    }
    out
}

fn lines(wait: &Wait, waits: &Waits) -> [String; 3] {
    let name = |who: u32| printable(&waits.who[who as usize].name).into_owned();
    let head = format!(
        "{} (task {}) waited for {}, from {} on, and then ran on CPU {}",
        name(wait.who),
        wait.task,
        words_of_ns(wait.waited_ns as f64),
        words_of_ns(wait.since_ns as f64),
        wait.cpu
    );
    let part = |&(cause, ns): &(Cause, u64)| {
        let what = match cause {
            Cause::Behind(other) => format!("behind {}", name(other)),
            other => Kind::of(other, &waits.who).label(true).to_owned(),
        };
        let percent = (ns * 100 + wait.waited_ns / 2) / wait.waited_ns.max(1);
        format!("{what} {} ({percent} %)", words_of_ns(ns as f64))
    };
    let mut causes = wait.causes.iter().map(part).collect::<Vec<_>>().join(", ");
    if wait.idle_elsewhere_ns > 0 {
        let beside = words_of_ns(wait.idle_elsewhere_ns as f64);
        causes.push_str(&format!("; an idle CPU elsewhere for {beside} of it"));
    }
    let woken = wait.woken_by.map_or_else(String::new, |waker| format!("woken by {}; ", name(waker)));
    let placed = match &wait.placed {
        None if wait.woken_by.is_some() => "no decision: only one CPU was possible".to_owned(),
        None => "not placed again: it had to give way, or had one CPU only".to_owned(),
        Some(placed) => {
            let idle = match placed.idle.is_empty() {
                true => "no CPU was idle".to_owned(),
                false => format!("idle then: {}", cpu_list(&placed.idle)),
            };
            let plural = if placed.reads == 1 { "" } else { "s" };
            format!(
                "CPU {} placed it on CPU {} ({}, {} read{plural}); {idle}",
                placed.by_cpu, placed.cpu, placed.reason, placed.reads
            )
        }
    };
    [head, causes, format!("{woken}{placed}")]
}
