// SPDX-License-Identifier: GPL-2.0-or-later
//! The fields of answers that are compared: those in event.h's tables, and which of them decide.

use std::sync::LazyLock;

use wakelab_policy::{EventKind, Leaf, leaves};

/// Fields that say how an answer was found, and not what is done. All other fields decide.
const MEASURES: [&str; 10] = [
    "lost_claims",
    "scan_timed",
    "searched",
    "reads",
    "step_reads",
    "key",
    "slice_ns",
    "max_load",
    "max_tasks",
    "keep_slice_ns",
];

/// A field of an answer.
pub(crate) struct Field {
    /// Its name, without the part of the answer that it is in.
    pub(crate) name: String,
    /// Its numbers.
    numbers: Vec<Leaf>,
    /// Whether it says what is done, and not how the answer was found.
    pub(crate) decides: bool,
}

/// The fields of a question's answer.
pub(crate) fn of(kind: EventKind) -> &'static [Field] {
    static FIELDS: LazyLock<Vec<Vec<Field>>> =
        LazyLock::new(|| EventKind::ALL.iter().map(|kind| fields(*kind)).collect());
    &FIELDS[kind as usize]
}

fn fields(kind: EventKind) -> Vec<Field> {
    let mut found: Vec<Field> = Vec::new();
    for leaf in leaves(kind.call().answer) {
        // The budget of a pull before the question is not an answer, and what the pull found before cannot change.
        let (part, name) = leaf.name.split_once('.').unwrap_or(("", &leaf.name));
        let name = name.split('[').next().unwrap_or(name).to_owned();
        let is_budget = ["max_load", "max_tasks", "reads"].contains(&name.as_str());
        if part == "before" || (part == "after" && !is_budget) {
            continue;
        }
        match found.iter_mut().find(|field| field.name == name) {
            Some(field) => field.numbers.push(leaf),
            None => {
                let decides = !MEASURES.contains(&name.as_str());
                found.push(Field { name, numbers: vec![leaf], decides });
            }
        }
    }
    found
}

impl Field {
    /// Whether this field is the same in two answers.
    pub(crate) fn is_equal(&self, a: &[u8], b: &[u8]) -> bool {
        self.numbers.iter().all(|number| number.value(a) == number.value(b))
    }

    /// Its value in words; an array's numbers one after the other.
    pub(crate) fn text(&self, answer: &[u8]) -> String {
        self.numbers.iter().map(|number| number.text(answer)).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measure_is_a_field_and_every_question_has_one_that_decides() {
        let questions = || EventKind::ALL.iter().filter(|kind| kind.is_question());
        for name in MEASURES {
            assert!(questions().any(|kind| of(*kind).iter().any(|field| field.name == name)), "{name}");
        }
        for kind in questions() {
            assert!(of(*kind).iter().any(|field| field.decides), "{}", kind.name());
        }
    }

    #[test]
    fn of_a_pull_the_budget_that_is_left_and_the_answer_are_compared() {
        let names: Vec<&str> = of(EventKind::MayMove).iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["max_load", "max_tasks", "reads", "move", "stop", "key", "slice_ns"]);
    }
}
