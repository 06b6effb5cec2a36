// SPDX-License-Identifier: GPL-2.0-or-later
//! A few policies that represent all of them, for tests that cannot run thousands of combinations.
//!
//! Most errors in a combination need a certain value of one axis, or of two. So a set is enough in which every value
//! occurs, or every pair of values of two axes. The named policies are in each set; what they do not cover is filled
//! greedily: a policy takes the first uncovered value or pair, and then on each other axis the value that covers most.
//!
//! Axes that only matter with certain values of another axis are one axis here, with the combinations that differ: a
//! form of `scan` with another idle search would decide as any other form does.

use std::collections::BTreeSet;

use crate::named::NAMED;
use crate::{Axis, PolicySpec};

/// The policy that every policy of a set starts from. Unused axes keep its values.
const BASE: &str = "linux-4.15";

/// A value for each of several axes that are chosen together: axis and value.
type Choice = Vec<(&'static str, &'static str)>;
/// An index into [`together`], and an index of one of that entry's choices.
type Item = (usize, usize);

/// What the policies of a set cover together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// Every value of every axis.
    Values,
    /// Every value of every axis together with every value of every other, where both are used; and every form of idle
    /// search with every form of wake-affine.
    Pairs,
}

impl PolicySpec {
    /// Returns the named policies, and as few more as the greedy choice needs to cover all axes. Every call returns the
    /// same.
    pub fn cover(cover: Cover) -> Vec<PolicySpec> {
        let axes: Vec<Vec<Choice>> = together().iter().map(|axes| choices(axes)).collect();
        let mut open = open_at_first(&axes, cover);
        open.retain(|&(a, b)| counts(&[a, b], &axes));
        let mut rows: Vec<Vec<usize>> = NAMED.iter().map(|named| row_of(&named.spec, &axes)).collect();
        rows.iter().for_each(|row| close(&mut open, row));
        loop {
            if cover == Cover::Values {
                let seen: BTreeSet<_> = rows.iter().flat_map(|row| words(row, &axes)).collect();
                open.retain(|((axis, choice), _)| {
                    axes[*axis][*choice].iter().any(|word| !seen.contains(word))
                });
            }
            let Some(&(first, second)) = open.first() else { break };
            let row = greedy_row(&axes, &open, [first, second], rows.len());
            close(&mut open, &row);
            rows.push(row);
        }
        rows.iter().map(|row| spec_of(row, &axes)).collect()
    }
}

/// Returns the axes that are chosen together: one that is always used, with the axes that only some of its values use.
fn together() -> Vec<Vec<&'static Axis>> {
    let leading = PolicySpec::axes().iter().filter(|axis| axis.with.is_none());
    let with = |first: &'static Axis| {
        let others =
            PolicySpec::axes().iter().filter(|axis| axis.with.is_some_and(|(its, _)| its == first.name));
        [first].into_iter().chain(others).collect()
    };
    leading.map(with).collect()
}

/// Returns all choices on axes that are chosen together, without those that decide like another.
fn choices(axes: &[&'static Axis]) -> Vec<Choice> {
    let mut all: Vec<Choice> = vec![Vec::new()];
    for axis in axes {
        let with = |choice: Choice| {
            axis.values.iter().map(move |value| [&choice[..], &[(axis.name, value.name)]].concat())
        };
        all = all.into_iter().flat_map(with).collect();
    }
    all.retain(|choice| axes.iter().all(|axis| is_looked_at(axis, choice)));
    all
}

/// Returns false if the axis in `choice` is unused, and has another value than [`BASE`].
fn is_looked_at(axis: &Axis, choice: &Choice) -> bool {
    let Some((other, values)) = axis.with else { return true };
    let value_of = |name: &str| choice.iter().find(|(its, _)| *its == name).map(|(_, value)| *value);
    let own = value_of(axis.name).map(|value| (axis.name, value));
    value_of(other).is_some_and(|value| values.contains(&value))
        || own.is_some_and(|own| base().choices().contains(&own))
}

fn base() -> &'static PolicySpec {
    &NAMED.iter().find(|named| named.name == BASE).expect("it is in the list").spec
}

fn open_at_first(axes: &[Vec<Choice>], cover: Cover) -> BTreeSet<(Item, Item)> {
    let items = |axis: usize| (0..axes[axis].len()).map(move |choice| (axis, choice));
    let all = || (0..axes.len()).flat_map(items);
    match cover {
        Cover::Values => all().map(|item| (item, item)).collect(),
        Cover::Pairs => all().flat_map(|a| all().filter(move |b| a.0 < b.0).map(move |b| (a, b))).collect(),
    }
}

/// Returns a policy with the items in `wanted` that covers many others. Among equals the choice rotates with `turn`.
fn greedy_row(
    axes: &[Vec<Choice>],
    open: &BTreeSet<(Item, Item)>,
    wanted: [Item; 2],
    turn: usize,
) -> Vec<usize> {
    let mut row: Vec<Option<usize>> = vec![None; axes.len()];
    wanted.iter().for_each(|&(axis, choice)| row[axis] = Some(choice));
    for axis in 0..axes.len() {
        if row[axis].is_some() {
            continue;
        }
        let closes = |choice: usize| {
            let item = (axis, choice);
            let chosen = row.iter().enumerate().filter_map(|(axis, choice)| Some((axis, (*choice)?)));
            chosen.chain([item]).filter(|&other| open.contains(&(item.min(other), item.max(other)))).count()
        };
        let len = axes[axis].len();
        let chosen: Vec<Item> =
            row.iter().enumerate().filter_map(|(axis, at)| Some((axis, (*at)?))).collect();
        let may = |choice: &usize| counts(&[&chosen[..], &[(axis, *choice)]].concat(), axes);
        // max_by_key takes the last of equals.
        row[axis] = (0..len).map(|step| (turn + step) % len).filter(may).max_by_key(|&choice| closes(choice));
    }
    row.into_iter().map(|choice| choice.expect("every axis has values")).collect()
}

/// Whether a policy with these choices uses all of them. Axes that it does not use have the value of [`BASE`].
fn counts(items: &[Item], axes: &[Vec<Choice>]) -> bool {
    let items: BTreeSet<Item> = items.iter().copied().collect();
    let words: Choice = items.iter().flat_map(|&(axis, at)| axes[axis][at].iter().copied()).collect();
    let own = policy(&words).canonical().choices();
    words.iter().all(|word| own.contains(word))
}

fn close(open: &mut BTreeSet<(Item, Item)>, row: &[usize]) {
    for a in row.iter().copied().enumerate() {
        for b in row.iter().copied().enumerate() {
            open.remove(&(a, b));
        }
    }
}

fn row_of(spec: &PolicySpec, axes: &[Vec<Choice>]) -> Vec<usize> {
    let own = spec.choices();
    let is_own = |choice: &Choice| choice.iter().all(|pair| own.contains(pair));
    let at =
        |choices: &Vec<Choice>| choices.iter().position(is_own).expect("a named policy sets no unused axis");
    axes.iter().map(at).collect()
}

/// The axes and values of a policy.
fn words(row: &[usize], axes: &[Vec<Choice>]) -> Choice {
    axes.iter().zip(row).flat_map(|(choices, &at)| choices[at].iter().copied()).collect()
}

fn spec_of(row: &[usize], axes: &[Vec<Choice>]) -> PolicySpec {
    policy(&words(row, axes))
}

/// Returns [`BASE`] with other values on some axes.
fn policy(words: &Choice) -> PolicySpec {
    words.iter().fold(base().clone(), |spec, (axis, value)| {
        spec.with(axis, value).expect("axes and values come from their list")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the choices on any two of the axes, or axes chosen together, that a policy uses. With more of them it
    /// uses no more and no fewer: whether it uses an axis is up to one other ([`Axis::with`]).
    fn choices_on_two() -> Vec<Choice> {
        let axes: Vec<Vec<Choice>> = together().iter().map(|axes| choices(axes)).collect();
        let after = |at: usize| axes[at + 1..].iter().flatten();
        let on_two = |at: usize| {
            axes[at].iter().flat_map(move |one| after(at).map(move |other| [&one[..], other].concat()))
        };
        let mut all: Vec<Choice> = (0..axes.len()).flat_map(on_two).collect();
        all.retain(|choice| {
            let own = policy(choice).canonical().choices();
            choice.iter().all(|word| own.contains(word))
        });
        all
    }

    #[test]
    fn no_policy_of_a_cover_has_an_axis_that_it_never_looks_at() {
        for cover in [Cover::Values, Cover::Pairs] {
            let specs = PolicySpec::cover(cover);
            assert!(specs.iter().all(|spec| spec.canonical() == *spec));
            assert!(specs.iter().any(|spec| spec.choices().contains(&("groups", "exact"))));
        }
    }

    #[test]
    fn axes_that_are_chosen_together_are_all_axes() {
        let mut names: Vec<&str> = together().concat().iter().map(|axis| axis.name).collect();
        let mut all: Vec<&str> = PolicySpec::axes().iter().map(|axis| axis.name).collect();
        names.sort_unstable();
        all.sort_unstable();
        assert_eq!(names, all);
    }

    #[test]
    fn combinations_leave_out_unused_axes() {
        let axis = |name: &str| PolicySpec::axes().iter().find(|axis| axis.name == name).unwrap();
        let len = |name: &str| axis(name).values.len();
        // scan uses all forms, smt-balance both rotors, and the other searches use neither.
        assert_eq!(choices(&together()[0]).len(), len("form") + len("rotor") + len("idle") - 2);
        // off is 1 choice; always has its forms, flips has forms with factors, wide is 1.
        let affine = 1 + len("affine-form") + len("affine-form") * len("factor") + 1;
        assert_eq!(choices(&together()[1]).len(), affine);
        let alone: Vec<usize> = together()[2..].iter().map(|axes| choices(axes).len()).collect();
        let mut values: Vec<usize> = together()[2..].iter().map(|axes| axes[0].values.len()).collect();
        // Four of the queues, those that rest on lag, have parity on and off.
        values[3] += 4;
        assert_eq!((together()[5][0].name, alone), ("queue", values));
    }

    #[test]
    fn pairs_of_values_of_any_policy_are_in_a_policy_of_the_cover() {
        let covered: Vec<_> = PolicySpec::cover(Cover::Pairs).iter().map(PolicySpec::choices).collect();
        let mut pairs = BTreeSet::new();
        for choice in choices_on_two() {
            for a in &choice {
                pairs.extend(choice.iter().map(|b| (*a, *b)));
            }
        }
        for (a, b) in pairs {
            assert!(covered.iter().any(|own| own.contains(&a) && own.contains(&b)), "{a:?} with {b:?}");
        }
        // The two axes with most choices need as many policies as they have pairs. Nine more are enough for the pairs
        // of other axes that the greedy choice left over; eight were until the queues had ten choices, not six.
        let least = choices(&together()[0]).len() * choices(&together()[1]).len();
        assert!((least..=least + NAMED.len() + 9).contains(&covered.len()), "{}", covered.len());
    }

    #[test]
    fn every_value_is_in_a_small_cover() {
        let cover = PolicySpec::cover(Cover::Values);
        for axis in PolicySpec::axes() {
            for value in axis.values {
                let has = |spec: &PolicySpec| spec.choices().contains(&(axis.name, value.name));
                assert!(cover.iter().any(has), "{}={}", axis.name, value.name);
            }
        }
        // A policy has one idle search, and no named policy has form=aged, packed, node or node-4, narrow, two-choices,
        // none, or smt-balance with either rotor. These nine have room for all that no named policy has on other axes.
        assert!(cover.len() <= NAMED.len() + 9, "{}: {cover:?}", cover.len());
    }

    #[test]
    fn covers_are_the_same_each_time_have_the_named_and_nothing_twice() {
        for cover in [Cover::Values, Cover::Pairs] {
            let specs = PolicySpec::cover(cover);
            assert_eq!(specs, PolicySpec::cover(cover));
            assert!(NAMED.iter().all(|named| specs.contains(&named.spec)));
            assert!(specs.iter().enumerate().all(|(at, spec)| !specs[..at].contains(spec)));
        }
    }
}
