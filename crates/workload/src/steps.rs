// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads the programs of workload files. An operation is a word, or a table with one key that names the operation.

use toml::de::DeTable;

use crate::error::{WorkloadError, list, unknown};
use crate::expr::{Expr, Range, Reference};
use crate::expr_parse::parse_range;
use crate::file::{Fields, Node, Reader, Result};
use crate::program::{Op, Source};

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) offset: usize,
    pub(crate) kind: StepKind,
}

#[derive(Clone, Debug)]
pub(crate) enum StepKind {
    Op(OpTemplate),
    Fork {
        task: Reference,
    },
    /// `None`: for ever.
    Repeat {
        times: Option<Expr>,
        body: Vec<Step>,
    },
    /// A loop whose rounds are shared out among the tasks of a barrier.
    Share {
        times: Expr,
        among: Reference,
        body: Vec<Step>,
    },
    For {
        range: Range,
        body: Vec<Step>,
    },
    /// Executes the body once if there is a message.
    WhenReady {
        channel: Reference,
        body: Vec<Step>,
    },
    If {
        condition: Expr,
        then: Vec<Step>,
        otherwise: Vec<Step>,
    },
}

/// Operations that expand to themselves.
#[derive(Clone, Debug)]
pub(crate) enum OpTemplate {
    Compute {
        work_ns: Expr,
        spread_percent: Expr,
    },
    Send {
        channel: Reference,
        bytes: Expr,
        work_ns: Expr,
    },
    Recv {
        channel: Reference,
        work_ns: Expr,
    },
    /// Waits for a message in any channel of an array.
    Poll {
        channels: Reference,
        work_ns: Expr,
    },
    Sleep {
        delay_ns: Expr,
        source: Source,
    },
    SleepUntil {
        time_ns: Expr,
        source: Source,
    },
    Memory {
        work_ns: Expr,
        read_bytes: Expr,
        write_bytes: Expr,
        home: HomeTemplate,
        llc_percent: Expr,
    },
    Lock {
        lock: Reference,
    },
    Unlock {
        lock: Reference,
    },
    Barrier {
        barrier: Reference,
    },
    Signal {
        signal: Reference,
        sync: Expr,
    },
    Wait {
        signal: Reference,
    },
    OpenGate {
        gate: Reference,
    },
    WaitGate {
        gate: Reference,
    },
    Count {
        units: Expr,
    },
    SetShares {
        group: Reference,
        shares: Expr,
    },
    /// Moves the task; `None` moves it out of all groups.
    MoveTo {
        group: Option<Reference>,
    },
    Plain(Op),
}

/// The node whose memory a task streams through.
#[derive(Clone, Debug)]
pub(crate) enum HomeTemplate {
    FirstTouch,
    Node(Expr),
}

impl Reader<'_> {
    pub(crate) fn steps(&self, node: &Node<'_>) -> Result<Vec<Step>> {
        self.strings(node)?.iter().map(|step| self.step(step)).collect()
    }

    fn step(&self, node: &Node<'_>) -> Result<Step> {
        let offset = node.span().start;
        if let Some(word) = node.get_ref().as_str() {
            let Some((_, op)) = PLAIN_STEPS.iter().find(|(known, _)| *known == word) else {
                let message = if STEP_KEYS.contains(&word) {
                    format!("'{word}' needs a value: {{ {word} = ... }}")
                } else {
                    let words = PLAIN_STEPS.iter().map(|(known, _)| *known);
                    unknown(&format!("operation '{word}'"), word, words.chain(STEP_KEYS))
                };
                return Err(self.source.error(offset, message));
            };
            return Ok(Step { offset, kind: StepKind::Op(OpTemplate::Plain(*op)) });
        }
        let table = node
            .get_ref()
            .as_table()
            .ok_or_else(|| self.expected(node, "an operation: a table or a word"))?;
        let Some(word) = STEP_KEYS.iter().find(|key| table.contains_key(**key)) else {
            return Err(self.no_operation(table, offset));
        };
        let mut fields = Fields::new(self, table, offset, "the operation");
        let subject = fields.required(word)?;
        let kind = match *word {
            "fork" => StepKind::Fork { task: self.reference(subject)? },
            "repeat" => {
                let endless = subject.get_ref().as_str() == Some("forever");
                let times = if endless { None } else { Some(self.expr(subject)?) };
                StepKind::Repeat { times, body: self.steps(fields.required("do")?)? }
            }
            "share" => StepKind::Share {
                times: self.expr(subject)?,
                among: self.reference(fields.required("among")?)?,
                body: self.steps(fields.required("do")?)?,
            },
            "for" => StepKind::For {
                range: self.parsed(subject, "a string, as in \"i in 0..fds\"", parse_range)?,
                body: self.steps(fields.required("do")?)?,
            },
            "when-ready" => StepKind::WhenReady {
                channel: self.reference(subject)?,
                body: self.steps(fields.required("do")?)?,
            },
            "if" => StepKind::If {
                condition: self.expr(subject)?,
                then: self.steps(fields.required("do")?)?,
                otherwise: fields
                    .optional("else")
                    .map(|node| self.steps(node))
                    .transpose()?
                    .unwrap_or_default(),
            },
            _ => StepKind::Op(self.op(word, subject, &mut fields)?),
        };
        fields.finish()?;
        Ok(Step { offset, kind })
    }

    /// Returns the error for a table without any of [`STEP_KEYS`]. It takes the table's first key for a misspelt one.
    fn no_operation(&self, table: &DeTable<'_>, offset: usize) -> WorkloadError {
        match table.keys().min_by_key(|key| key.span().start) {
            Some(key) => {
                let word = key.get_ref();
                let message = unknown(&format!("operation '{word}'"), word, STEP_KEYS);
                self.source.error(key.span().start, message)
            }
            None => {
                let message = format!("an empty table; expected an operation: one of {}", list(STEP_KEYS));
                self.source.error(offset, message)
            }
        }
    }

    /// Reads the operation that is named by the key `word`, one of [`STEP_KEYS`], with the value `subject`.
    fn op(&self, word: &str, subject: &Node<'_>, fields: &mut Fields<'_, '_>) -> Result<OpTemplate> {
        Ok(match word {
            "compute-ns" => OpTemplate::Compute {
                work_ns: self.expr(subject)?,
                spread_percent: fields.expr_or("spread-percent", 0)?,
            },
            "send" => OpTemplate::Send {
                channel: self.reference(subject)?,
                bytes: self.expr(fields.required("bytes")?)?,
                work_ns: fields.expr_or("work-ns", 0)?,
            },
            "recv" => {
                OpTemplate::Recv { channel: self.reference(subject)?, work_ns: fields.expr_or("work-ns", 0)? }
            }
            "poll" => OpTemplate::Poll {
                channels: self.reference(subject)?,
                work_ns: fields.expr_or("work-ns", 0)?,
            },
            "sleep-ns" => {
                OpTemplate::Sleep { delay_ns: self.expr(subject)?, source: self.source_of(fields)? }
            }
            "sleep-until-ns" => {
                OpTemplate::SleepUntil { time_ns: self.expr(subject)?, source: self.source_of(fields)? }
            }
            "memory-ns" => OpTemplate::Memory {
                work_ns: self.expr(subject)?,
                read_bytes: fields.expr_or("read-bytes", 0)?,
                write_bytes: fields.expr_or("write-bytes", 0)?,
                home: match fields.optional("home") {
                    None => HomeTemplate::FirstTouch,
                    Some(node) if node.get_ref().as_str() == Some("first-touch") => HomeTemplate::FirstTouch,
                    Some(node) => HomeTemplate::Node(self.expr(node)?),
                },
                llc_percent: fields.expr_or("llc-percent", 0)?,
            },
            "lock" => OpTemplate::Lock { lock: self.reference(subject)? },
            "unlock" => OpTemplate::Unlock { lock: self.reference(subject)? },
            "barrier" => OpTemplate::Barrier { barrier: self.reference(subject)? },
            "signal" => {
                OpTemplate::Signal { signal: self.reference(subject)?, sync: fields.expr_or("sync", 0)? }
            }
            "wait" => OpTemplate::Wait { signal: self.reference(subject)? },
            "open-gate" => OpTemplate::OpenGate { gate: self.reference(subject)? },
            "wait-gate" => OpTemplate::WaitGate { gate: self.reference(subject)? },
            "set-shares" => OpTemplate::SetShares {
                group: self.reference(subject)?,
                shares: self.expr(fields.required("shares")?)?,
            },
            "move-to" if subject.get_ref().as_str() == Some("/") => OpTemplate::MoveTo { group: None },
            "move-to" => OpTemplate::MoveTo { group: Some(self.reference(subject)?) },
            _ => OpTemplate::Count { units: self.expr(subject)? },
        })
    }

    /// Reads what ends a sleep.
    fn source_of(&self, fields: &mut Fields<'_, '_>) -> Result<Source> {
        fields.optional("source").map_or(Ok(Source::Timer), |node| self.choice(node, &SOURCES))
    }
}

const SOURCES: [(&str, Source); 3] =
    [("timer", Source::Timer), ("device", Source::Device), ("unknown", Source::Unknown)];

/// Operations without arguments: words.
const PLAIN_STEPS: [(&str, Op); 8] = [
    ("join", Op::Join),
    ("exec", Op::Exec),
    ("yield", Op::Yield),
    ("mark-begin", Op::MarkBegin),
    ("mark-end", Op::MarkEnd),
    ("begin-batch", Op::BeginBatch),
    ("begin-exit", Op::BeginExit),
    ("exit", Op::Exit),
];

/// Keys that name an operation with arguments.
const STEP_KEYS: [&str; 23] = [
    "compute-ns",
    "send",
    "recv",
    "poll",
    "when-ready",
    "sleep-ns",
    "sleep-until-ns",
    "memory-ns",
    "fork",
    "signal",
    "wait",
    "open-gate",
    "wait-gate",
    "lock",
    "unlock",
    "barrier",
    "count",
    "set-shares",
    "move-to",
    "repeat",
    "share",
    "for",
    "if",
];
