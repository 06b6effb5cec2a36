// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads `[costs]` of a machine file: each figure with its source. Figures that the file leaves out come from `base`: a
//! preset, `host` for a generic machine's costs, or the path of another machine file (base.rs).
//!
//! A figure may have a range, `range = [400, 900]`, in which it plausibly lies; a table has one for each part of which
//! it is known, `range = { llc = [40_000, 90_000] }`. Ranges by other rules are in uncertain.rs.
//!
//! The keys are those of the table of costs (costs.rs), and the shape of a figure decides what its value looks like. A
//! figure from `base` is only an estimate on this machine, even if it was measured on that one, and its source says so.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use toml::Spanned;

use crate::base::{Base, Origin};
use crate::check::limits_of;
use crate::costs::{COSTS, Cost, Figure, Shape};
use crate::error::Located;
use crate::{Bandwidth, Costs, Distance, IdleState, Topology};

/// The key that names the machine which the other figures come from.
const BASE: &str = "base";

/// `[costs]` as the file has it.
pub(crate) struct CostsFile {
    base: Option<Spanned<String>>,
    given: BTreeMap<&'static str, Given>,
}

/// A figure, its source, and its place in the file.
struct Given {
    value: Value,
    source: String,
    ranges: Ranges,
    span: Range<usize>,
}

enum Value {
    Plain(Figure),
    ByDistance(ByDistance),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sourced<T> {
    value: T,
    source: String,
    #[serde(default)]
    range: Ranges,
}

/// The ranges of a figure: one of all of it, or one of each part.
#[derive(Default)]
struct Ranges(Vec<(Option<String>, [u64; 2])>);

impl<'de> Deserialize<'de> for Ranges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ranges, D::Error> {
        struct RangesVisitor;
        impl<'de> Visitor<'de> for RangesVisitor {
            type Value = Ranges;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("[LOW, HIGH], or of a table one for each part, such as { llc = [LOW, HIGH] }")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Ranges, A::Error> {
                let range = Deserialize::deserialize(SeqAccessDeserializer::new(seq))?;
                Ok(Ranges(vec![(None, range)]))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ranges, A::Error> {
                let mut parts = Vec::new();
                while let Some((part, range)) = map.next_entry()? {
                    parts.push((Some(part), range));
                }
                Ok(Ranges(parts))
            }
        }
        deserializer.deserialize_any(RangesVisitor)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ByDistance {
    cpu: Option<u64>,
    smt: Option<u64>,
    cluster: Option<u64>,
    llc: Option<u64>,
    node: Option<u64>,
    numa1: Option<u64>,
    numa2: Option<u64>,
    numa3: Option<u64>,
}

impl ByDistance {
    fn given(&self) -> [Option<u64>; Distance::COUNT] {
        [self.cpu, self.smt, self.cluster, self.llc, self.node, self.numa1, self.numa2, self.numa3]
    }
}

/// A key of `[costs]`; `None` is [`BASE`].
struct Key(Option<&'static Cost>);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("the name of a cost, or `base`")
            }

            fn visit_str<E: Error>(self, key: &str) -> Result<Key, E> {
                if key == BASE {
                    return Ok(Key(None));
                }
                let cost = COSTS.iter().find(|cost| cost.key == key);
                cost.map(|cost| Key(Some(cost))).ok_or_else(|| E::custom(unknown_key(key)))
            }
        }
        deserializer.deserialize_identifier(KeyVisitor)
    }
}

fn unknown_key(key: &str) -> String {
    match crate::nearest(key, COSTS.iter().map(|cost| cost.key).chain([BASE])) {
        Some(near) => format!("unknown cost `{key}`, expected `{near}`"),
        None => {
            let known: Vec<&str> = COSTS.iter().map(|cost| cost.key).chain([BASE]).collect();
            format!("unknown cost `{key}`, expected one of {}", known.join(", "))
        }
    }
}

impl<'de> Deserialize<'de> for CostsFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CostsFile, D::Error> {
        struct CostsVisitor;
        impl<'de> Visitor<'de> for CostsVisitor {
            type Value = CostsFile;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a table of costs")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CostsFile, A::Error> {
                let mut file = CostsFile { base: None, given: BTreeMap::new() };
                while let Some(Key(cost)) = map.next_key()? {
                    match cost {
                        None => file.base = Some(map.next_value()?),
                        Some(cost) => {
                            file.given.insert(cost.key, read_given(cost.shape, &mut map)?);
                        }
                    }
                }
                Ok(file)
            }
        }
        deserializer.deserialize_map(CostsVisitor)
    }
}

/// Reads the next value of the map, a figure of that shape.
fn read_given<'de, A: MapAccess<'de>>(shape: Shape, map: &mut A) -> Result<Given, A::Error> {
    fn of<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
        map: &mut A,
        value: impl FnOnce(T) -> Value,
    ) -> Result<Given, A::Error> {
        let figure: Spanned<Sourced<T>> = map.next_value()?;
        let span = figure.span();
        let figure = figure.into_inner();
        let Sourced { value: read, source, range: ranges } = figure;
        Ok(Given { value: value(read), source, ranges, span })
    }
    match shape {
        Shape::Number => of(map, |value: u64| Value::Plain(Figure::Number(value))),
        Shape::Speeds => of(map, |value: Vec<u32>| Value::Plain(Figure::Speeds(value))),
        Shape::IdleStates => of(map, |value: Vec<IdleState>| Value::Plain(Figure::IdleStates(value))),
        Shape::Bandwidth => of(map, |value: Bandwidth| Value::Plain(Figure::Bandwidth(value))),
        Shape::ByDistance => of(map, Value::ByDistance),
    }
}

/// Costs, their sources, and the place of each in the file.
pub(crate) struct SourcedCosts {
    pub(crate) costs: Costs,
    pub(crate) sources: BTreeMap<String, String>,
    /// By key, or by `KEY.PART`.
    pub(crate) ranges: BTreeMap<String, [u64; 2]>,
    pub(crate) spans: BTreeMap<&'static str, Range<usize>>,
}

/// Costs that files may lack, because recordings and machine files exist that were written before them. Nothing is
/// charged for them then.
const NEWER: [&str; 6] = [
    "dequeue_ns",
    "interrupt_exit_ns",
    "preempt_delay_ns",
    "remote_preempt_delay_ns",
    "sleep_ns",
    "wakeup_exit_ns",
];

/// The costs of a machine with this topology.
pub(crate) fn read(
    file: Spanned<CostsFile>,
    topology: &Topology,
    origin: &Origin<'_>,
) -> Result<SourcedCosts, Located> {
    let whole = file.span();
    let CostsFile { base, mut given } = file.into_inner();
    let base = base.map(|name| Base::open(name, topology, origin)).transpose()?;
    let present = topology.distances_present();
    let mut read = SourcedCosts {
        costs: Costs::free(1),
        sources: BTreeMap::new(),
        ranges: BTreeMap::new(),
        spans: BTreeMap::new(),
    };
    for cost in COSTS {
        let key = cost.key;
        let (figure, source, span) = match (given.remove(key), &base) {
            (Some(given), _) => {
                let figure = given.figure(key, &present)?;
                read.ranges.extend(given.ranges(cost, &figure, topology)?);
                (figure, given.source, given.span)
            }
            (None, Some(base)) => {
                read.ranges.extend(base.ranges(cost));
                base.figure(cost, &present)?
            }
            (None, None) if NEWER.contains(&key) => {
                let source = "estimate: not in the file, which is older than this cost";
                ((cost.get)(&Costs::free(1)), source.to_owned(), whole.clone())
            }
            (None, None) => {
                return Err(Located::new(
                    whole,
                    format!("[costs] has no `{key}`"),
                    "every cost, or `base = \"MACHINE\"`, which the others come from",
                ));
            }
        };
        (cost.set)(&mut read.costs, figure);
        read.sources.insert(key.to_owned(), source);
        read.spans.insert(key, span);
    }
    Ok(read)
}

impl Given {
    fn figure(&self, key: &str, present: &[Distance]) -> Result<Figure, Located> {
        if self.source.trim().is_empty() {
            return Err(Located::new(
                self.span.clone(),
                format!("`{key}` has an empty source"),
                "where it is from, or \"estimate: ..\"",
            ));
        }
        let given = match &self.value {
            Value::Plain(figure) => return Ok(figure.clone()),
            Value::ByDistance(table) => table.given(),
        };
        let mut table = [0; Distance::COUNT];
        let mut nearer = 0;
        for distance in Distance::ALL {
            match given[distance.index()] {
                Some(value) => nearer = value,
                None if present.contains(&distance) => {
                    let names: Vec<&str> = present.iter().map(|d| d.name()).collect();
                    return Err(Located::new(
                        self.span.clone(),
                        format!("`{key}` has no value for `{}`", distance.name()),
                        format!("one for each distance of this machine: {}", names.join(", ")),
                    ));
                }
                None => {}
            }
            table[distance.index()] = nearer;
        }
        Ok(Figure::ByDistance(table))
    }

    /// The ranges with their keys, each with the figure in it.
    fn ranges(
        &self,
        cost: &Cost,
        figure: &Figure,
        topology: &Topology,
    ) -> Result<Vec<(String, [u64; 2])>, Located> {
        let key = cost.key;
        let parts = parts_of(figure, topology);
        let refuse = |what: String, expected: String| Err(Located::new(self.span.clone(), what, expected));
        let mut ranges = Vec::new();
        for (part, range) in &self.ranges.0 {
            let names = || parts.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
            let (name, value) = match part {
                None if parts.is_empty() => (key.to_owned(), plain_value(figure, topology)),
                None => {
                    let expected = format!("one for each part that has one, of {}", names());
                    return refuse(format!("`{key}` is a table and has one `range`"), expected);
                }
                Some(part) => match parts.iter().find(|(name, _)| name == part) {
                    Some((_, value)) => (format!("{key}.{part}"), *value),
                    None if parts.is_empty() => {
                        let what = format!("`{key}` has a `range` of `{part}` and no parts");
                        return refuse(what, "`range = [LOW, HIGH]`".into());
                    }
                    None => {
                        return refuse(
                            format!("`{key}` has a `range` of `{part}`"),
                            format!("one of {}", names()),
                        );
                    }
                },
            };
            let [low, high] = *range;
            if !(low..=high).contains(&value) {
                let what = format!("the `range` of `{name}` is {low} to {high}");
                return refuse(what, format!("one with {value}, the figure, in it"));
            }
            let limits = limits_of(cost);
            if let Some(end) = [low, high].into_iter().find(|end| !limits.contains(end)) {
                let what = format!("the `range` of `{name}` goes to {end}");
                return refuse(what, format!("{} to {}", limits.start(), limits.end()));
            }
            ranges.push((name, [low, high]));
        }
        Ok(ranges)
    }
}

/// The parts of a table that a machine has, with their values; none if the figure is no table.
pub(crate) fn parts_of(figure: &Figure, topology: &Topology) -> Vec<(String, u64)> {
    match figure {
        Figure::ByDistance(table) => {
            let present = topology.distances_present();
            present.iter().map(|d| (d.name().to_owned(), table[d.index()])).collect()
        }
        Figure::Bandwidth(limits) => {
            limits.named().iter().map(|(name, limit)| ((*name).to_owned(), *limit)).collect()
        }
        Figure::IdleStates(states) => {
            states.iter().enumerate().map(|(at, state)| (at.to_string(), state.exit_latency_ns)).collect()
        }
        Figure::Number(_) | Figure::Speeds(_) => Vec::new(),
    }
}

/// The value of a figure without parts: of speeds the one with all threads of a core busy.
pub(crate) fn plain_value(figure: &Figure, topology: &Topology) -> u64 {
    match figure {
        Figure::Number(value) => *value,
        Figure::Speeds(speeds) => speeds.get(topology.max_threads() - 1).map_or(0, |&speed| speed.into()),
        _ => unreachable!("a table has parts"),
    }
}
