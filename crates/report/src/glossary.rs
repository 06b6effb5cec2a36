// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests that docs/guide/glossary.md explains every word that a comparison prints.

use wakelab_machine::Distance;
use wakelab_policy::{AffineReason, Reason};
use wakelab_sim::TimeKind;
use wakelab_workload::Measure;

use crate::metric::{metrics, migration_label};
use crate::passed::{BLOCKED, PARTS};
use crate::waiting::{IDLE_ELSEWHERE, Kind, WAITING};

const GLOSSARY: &str = include_str!("../../../docs/guide/glossary.md");

fn assert_explained(words: impl Iterator<Item = String>) {
    let missing: Vec<String> = words.filter(|word| !GLOSSARY.contains(&format!("**{word}**"))).collect();
    assert_eq!(missing, Vec::<String>::new(), "not in docs/guide/glossary.md");
}

/// A percentile or a maximum is explained once for all rows, so `queue delay p50` are two words.
#[test]
fn every_row_is_explained() {
    let measures = [Measure::Makespan, Measure::Rate, Measure::WakeupLatency];
    let all = measures.into_iter().flat_map(|measure| [false, true].map(|service| metrics(measure, service)));
    let labels = all.flatten().map(|metric| metric.label.trim().to_owned());
    assert_explained(labels.flat_map(|label| match label.rsplit_once(' ') {
        Some((row, last)) if last == "max" || last.starts_with("p9") || last == "p50" => {
            vec![row.to_owned(), last.to_owned()]
        }
        _ => vec![label],
    }));
}

#[test]
fn every_reason_and_every_use_of_time_is_explained() {
    assert_explained(Reason::ALL.iter().map(|reason| reason.name().to_owned()));
    assert_explained(AffineReason::ALL.iter().map(|reason| reason.name().to_owned()));
    assert_explained(TimeKind::ALL.into_iter().map(|kind| kind.label().to_owned()));
    assert_explained(Distance::ALL.into_iter().map(|distance| migration_label(distance).to_owned()));
}

#[test]
fn every_cause_of_waiting_is_explained() {
    let labels = |kind: Kind| [true, false].map(|service| kind.label(service).to_owned());
    assert_explained(Kind::ALL.into_iter().flat_map(labels));
    assert_explained([WAITING, IDLE_ELSEWHERE, BLOCKED].into_iter().map(str::to_owned));
    assert_explained(PARTS.into_iter().map(|(_, label)| label.trim().to_owned()));
}

/// An explanation follows each word.
#[test]
fn no_word_stands_alone() {
    for line in GLOSSARY.lines().filter(|line| line.trim_start().starts_with("- **")) {
        assert!(line.contains("**: ") || line.contains("** ("), "{line}");
    }
}
