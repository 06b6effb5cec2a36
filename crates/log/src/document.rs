// SPDX-License-Identifier: GPL-2.0-or-later
//! The result of verifying, as JSON (docs/schema/verify.schema.json).

use serde::Serialize;
use wakelab_policy::EventKind;

use crate::{Counts, Log, Rebuilt, Verified};

/// The whole document.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "explained in the schema")]
pub struct Document {
    pub schema_version: u32,
    pub kind: &'static str,
    pub policy: String,
    pub cpus: usize,
    pub tick_ns: u64,
    pub groups: usize,
    pub records: usize,
    pub lost: u64,
    pub has_end: bool,
    pub cut_at: Option<u64>,
    pub from_reads: Questions,
    pub from_events: Option<FromEvents>,
    pub differences: Vec<DifferenceDocument>,
}

/// Numbers of questions, and of those with the same answer.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "explained in the schema")]
pub struct Questions {
    pub asked: u64,
    pub agreed: u64,
    pub not_verified: u64,
    pub by_question: Vec<ByQuestion>,
}

/// The same numbers for one kind of question.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "explained in the schema")]
pub struct ByQuestion {
    pub question: &'static str,
    pub asked: u64,
    pub agreed: u64,
    pub not_verified: u64,
}

/// The comparison with answers from rebuilt state.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "explained in the schema")]
pub struct FromEvents {
    #[serde(flatten)]
    pub questions: Questions,
    pub agreed_percent: Option<f64>,
    pub races: Vec<RaceDocument>,
}

/// The number of answers that differ because of one kind of race.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "explained in the schema")]
pub struct RaceDocument {
    pub race: &'static str,
    pub meaning: &'static str,
    pub answers: u64,
}

/// One difference.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "explained in the schema")]
pub struct DifferenceDocument {
    pub record: usize,
    pub byte: u64,
    pub cpu: u32,
    pub time_ns: u64,
    pub question: &'static str,
    pub task: Option<u64>,
    pub field: String,
    pub live: String,
    pub native: String,
}

impl Document {
    /// Returns the document of a log and of what was found in it.
    pub fn new(log: &Log<'_>, verified: &Verified, rebuilt: Option<&Rebuilt>) -> Document {
        let differences = verified.differences.iter().map(|found| DifferenceDocument {
            record: found.record,
            byte: found.offset,
            cpu: found.cpu,
            time_ns: found.now_ns,
            question: found.kind.name(),
            task: (found.task != 0).then_some(found.task),
            field: found.field.clone(),
            live: found.live.clone(),
            native: found.native.clone(),
        });
        Document {
            schema_version: 1,
            kind: "verify",
            policy: log.header.policy.clone(),
            cpus: log.header.topology.nr_cpus(),
            tick_ns: log.header.tick_ns,
            groups: log.header.nr_groups,
            records: log.len(),
            lost: log.lost(),
            has_end: log.has_end(),
            cut_at: log.cut_at(),
            from_reads: questions(&verified.kinds),
            from_events: rebuilt.map(|rebuilt| {
                let races = rebuilt.races.iter().map(|(race, answers)| RaceDocument {
                    race: race.name(),
                    meaning: race.meaning(),
                    answers: *answers,
                });
                FromEvents {
                    questions: questions(&rebuilt.kinds),
                    agreed_percent: rebuilt.agreed_percent(),
                    races: races.collect(),
                }
            }),
            differences: differences.collect(),
        }
    }
}

fn questions(kinds: &[(EventKind, Counts)]) -> Questions {
    let by_question = kinds.iter().map(|(kind, counts)| ByQuestion {
        question: kind.name(),
        asked: counts.questions,
        agreed: counts.agreed,
        not_verified: counts.cut,
    });
    let sum = |of: &dyn Fn(&Counts) -> u64| kinds.iter().map(|(_, counts)| of(counts)).sum();
    Questions {
        asked: sum(&|counts| counts.questions),
        agreed: sum(&|counts| counts.agreed),
        not_verified: sum(&|counts| counts.cut),
        by_question: by_question.collect(),
    }
}
