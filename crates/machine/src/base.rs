// SPDX-License-Identifier: GPL-2.0-or-later
//! `base = "MACHINE"` of a machine file: where the costs come from that the file leaves out.
//!
//! A base is a preset, `host`, which has the costs of a generic machine, or a path that ends in `.toml`, seen from the
//! folder of the file that names it. Such a file may have a base itself. A file that is its own base, also by way of
//! others, is refused.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;

use crate::check::limits_of;
use crate::costs::{Cost, Figure, Limits, Shape};
use crate::costs_file::{SourcedCosts, parts_of, plain_value};
use crate::error::Located;
use crate::presets::{self, HOST};
use crate::{Distance, Machine, Topology, file};

/// Where a text is from: the files that led to it, the outermost first. Empty if it is from no file; it can have no
/// path as its base then.
#[derive(Clone, Default)]
pub(crate) struct Origin<'a> {
    outer: Option<&'a Origin<'a>>,
    path: Option<PathBuf>,
}

impl<'a> Origin<'a> {
    /// The origin of the text of this file, which `outer` named.
    pub(crate) fn file(path: &Path, outer: Option<&'a Origin<'a>>) -> Origin<'a> {
        Origin { outer, path: Some(path.to_owned()) }
    }

    /// The files from this one outwards.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        std::iter::successors(Some(self), |origin| origin.outer).filter_map(|origin| origin.path.as_deref())
    }

    /// Whether this file is one of those that led here.
    fn has(&self, path: &Path) -> bool {
        let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let wanted = whole(path);
        self.paths().any(|path| whole(path) == wanted)
    }
}

/// The machine that `base` names.
pub(crate) struct Base {
    machine: Machine,
    present: Vec<Distance>,
    span: Range<usize>,
}

impl Base {
    /// Opens the base of a file whose machine has this topology.
    pub(crate) fn open(
        name: Spanned<String>,
        topology: &Topology,
        origin: &Origin<'_>,
    ) -> Result<Base, Located> {
        let span = name.span();
        let name = name.into_inner();
        let refuse = |error: &dyn std::fmt::Display, expected: &str| {
            Located::new(span.clone(), format!("`base`: {error}"), expected)
        };
        if name == HOST {
            let machine = generic(topology).map_err(|error| refuse(&error, "another base"))?;
            // The file has a value for each distance that there is.
            return Ok(Base { machine, present: Distance::ALL.to_vec(), span });
        }
        let machine = match presets::built_in(&name) {
            Some(machine) => machine.map_err(|error| refuse(&error, "a preset"))?,
            None if Path::new(&name).extension().is_some_and(|extension| extension == "toml") => {
                from_file(&name, origin, &span)?
            }
            None => {
                let known = presets::names().collect::<Vec<_>>().join(", ");
                let expected = format!("one of {known}, or the path of a .toml file");
                return Err(Located::new(span, format!("`base` is `{name}`"), expected));
            }
        };
        Ok(Base { present: machine.topology.distances_present(), machine, span })
    }

    /// The base's figure, and a source that says where it is from.
    pub(crate) fn figure(
        &self,
        cost: &Cost,
        present: &[Distance],
    ) -> Result<(Figure, String, Range<usize>), Located> {
        let Base { machine, span, .. } = self;
        let unknown = present.iter().find(|distance| !self.present.contains(distance));
        if let (Shape::ByDistance, Some(distance)) = (cost.shape, unknown) {
            return Err(Located::new(
                span.clone(),
                format!("`{}` of {} has no value for `{}`", cost.key, machine.name, distance.name()),
                format!("`{}` in this file, for each distance of this machine", cost.key),
            ));
        }
        let there = machine.sources.get(cost.key).map_or("", String::as_str);
        let source = format!("estimate: as on {}, from there: {there}", machine.name);
        Ok(((cost.get)(&machine.costs), source, span.clone()))
    }

    /// The base's ranges of a figure, widened to what an estimate has.
    pub(crate) fn ranges(&self, cost: &Cost) -> Vec<(String, [u64; 2])> {
        let (machine, own) = (&self.machine, (cost.get)(&self.machine.costs));
        let parts = parts_of(&own, &machine.topology);
        let of = |name: String, value: u64| {
            let [low, high] = *machine.ranges.get(&name)?;
            let limits = limits_of(cost);
            let wider = match cost.limits {
                Limits::Speeds => [low, high],
                _ => [
                    low.min(value / 2).max(*limits.start()),
                    high.max(value.saturating_mul(2)).min(*limits.end()),
                ],
            };
            Some((name, wider))
        };
        if parts.is_empty() {
            return of(cost.key.to_owned(), plain_value(&own, &machine.topology)).into_iter().collect();
        }
        parts.into_iter().filter_map(|(part, value)| of(format!("{}.{part}", cost.key), value)).collect()
    }
}

/// The machine of this topology with the costs of `host`.
fn generic(topology: &Topology) -> Result<Machine, crate::MachineError> {
    let (costs_file, text) = presets::host_costs();
    let SourcedCosts { costs, sources, ranges, .. } = file::read_costs(text, topology, costs_file)?;
    let description = String::new();
    Ok(Machine { name: HOST.to_owned(), description, topology: topology.clone(), costs, sources, ranges })
}

/// The machine of the file at this path, seen from the file that names it.
fn from_file(name: &str, origin: &Origin<'_>, span: &Range<usize>) -> Result<Machine, Located> {
    let Some(from) = &origin.path else {
        return Err(Located::new(
            span.clone(),
            format!("`base` is the path `{name}` in a text that is not read from a file"),
            "the name of a preset",
        ));
    };
    let path = from.parent().unwrap_or(Path::new("")).join(name);
    if origin.has(&path) {
        let what = format!("`base` leads back to {}", path.display());
        return Err(Located::new(span.clone(), what, "a file that does not have this one as its base"));
    }
    let shown = path.display().to_string();
    let machine = crate::read_text(&shown).and_then(|text| {
        file::read_machine(&text, &crate::stem(&shown), &shown, &Origin::file(&path, Some(origin)))
    });
    machine.map_err(|error| {
        Located::new(span.clone(), format!("`base`: {error}"), "a machine file that can be read")
    })
}
