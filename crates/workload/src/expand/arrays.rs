// SPDX-License-Identifier: GPL-2.0-or-later
//! Arrays of objects in a workload file: their sizes, the numbers of their elements, and references to elements.

use super::{Expansion, Named, Result};
use crate::error::unknown;
use crate::expr::{Range, Reference};
use crate::file::{
    BarrierTemplate, ChannelTemplate, GroupTemplate, LockTemplate, PlainTemplate, TaskTemplate, WorkloadFile,
};
use crate::limits::{GROUPS_MAX, TASKS_MAX};

/// An array of channels, signals, gates, locks, barriers, groups or tasks.
pub(super) struct Array<'f> {
    pub(super) name: &'f str,
    /// First index and number of indices, for each dimension.
    dims: Vec<(i64, u64)>,
    /// Number of the first element.
    base: u64,
}

impl Array<'_> {
    /// Number of elements.
    pub(super) fn count(&self) -> u64 {
        self.dims.iter().fold(1, |count, (_, length)| count.saturating_mul(*length))
    }
}

/// All arrays of one kind of object.
#[derive(Default)]
pub(super) struct Kind<'f> {
    /// `channels`, `tasks`, ..; for error texts.
    kind: &'static str,
    pub(super) arrays: Vec<Array<'f>>,
    /// Number of elements of all arrays.
    pub(super) total: u64,
}

/// The arrays of a file.
#[derive(Default)]
pub(super) struct Arrays<'f> {
    pub(super) channels: Kind<'f>,
    pub(super) signals: Kind<'f>,
    pub(super) gates: Kind<'f>,
    pub(super) locks: Kind<'f>,
    pub(super) barriers: Kind<'f>,
    pub(super) groups: Kind<'f>,
    pub(super) tasks: Kind<'f>,
}

/// What the file says about an object, apart from its array.
pub(super) trait Template {
    fn array(&self) -> &PlainTemplate;
}

impl Template for PlainTemplate {
    fn array(&self) -> &PlainTemplate {
        self
    }
}

macro_rules! templates {
    ($($template:ident),*) => {
        $(impl Template for $template {
            fn array(&self) -> &PlainTemplate {
                &self.array
            }
        })*
    };
}

templates!(BarrierTemplate, ChannelTemplate, GroupTemplate, LockTemplate, TaskTemplate);

impl<'f> Expansion<'f> {
    /// Computes the sizes of all arrays.
    pub(super) fn place_arrays(&mut self) -> Result<()> {
        let WorkloadFile { channels, signals, gates, locks, barriers, groups, tasks, .. } = self.file;
        self.arrays = Arrays {
            channels: self.place("channels", channels, TASKS_MAX)?,
            signals: self.place("signals", signals, TASKS_MAX)?,
            gates: self.place("gates", gates, TASKS_MAX)?,
            locks: self.place("locks", locks, TASKS_MAX)?,
            barriers: self.place("barriers", barriers, TASKS_MAX)?,
            groups: self.place("groups", groups, GROUPS_MAX)?,
            tasks: self.place("tasks", tasks, TASKS_MAX)?,
        };
        Ok(())
    }

    /// Computes the sizes of the arrays of one kind. Refuses more than `most` elements altogether.
    fn place(&self, kind: &'static str, templates: &'f [impl Template], most: u64) -> Result<Kind<'f>> {
        let mut placed = Kind { kind, arrays: Vec::new(), total: 0 };
        for template in templates.iter().map(Template::array) {
            if placed.arrays.iter().any(|array| array.name == template.name) {
                return self.fail(template.offset, format!("a second '{}' among the {kind}", template.name));
            }
            let mut dims =
                template.each.iter().map(|range| self.bounds(range)).collect::<Result<Vec<_>>>()?;
            let wanted = match &template.condition {
                Some(condition) => self.at(condition.truth(&self.names))?,
                None => true,
            };
            if !wanted {
                // One empty dimension, so that an array without dimensions can be empty too.
                dims = vec![(0, 0)];
            }
            let array = Array { name: &template.name, dims, base: placed.total };
            placed.total = placed.total.saturating_add(array.count());
            if placed.total > most {
                let message = format!(
                    "'{}' brings the {kind} to {}; expected at most {most}: {}",
                    template.name,
                    placed.total,
                    self.advise_for_array(template),
                );
                return self.fail(template.offset, message);
            }
            placed.arrays.push(array);
        }
        Ok(placed)
    }

    /// Returns the first index of a range and the number of its indices.
    pub(super) fn bounds(&self, range: &Range) -> Result<(i64, u64)> {
        let first = self.at(range.first.integer(&self.names))?;
        let end = self.at(range.end.integer(&self.names))?;
        let length = i128::from(end) - i128::from(first);
        Ok((first, u64::try_from(length.max(0)).unwrap_or(u64::MAX)))
    }

    /// Calls `make` for each element of all arrays of a kind, in order, with its indices defined, and returns the
    /// results. `make` gets the element's template and number.
    pub(super) fn elements<T: Template, U>(
        &mut self,
        templates: &'f [T],
        kind: for<'a> fn(&'a Arrays<'f>) -> &'a Kind<'f>,
        mut make: impl FnMut(&mut Self, &'f T, u32) -> Result<U>,
    ) -> Result<Vec<U>> {
        let mut made = Vec::with_capacity(kind(&self.arrays).total as usize);
        for (index, template) in templates.iter().enumerate() {
            let dims = kind(&self.arrays).arrays[index].dims.clone();
            self.for_each_element(template.array(), &dims, |expansion| {
                let number = made.len() as u32;
                made.push(make(expansion, template, number)?);
                Ok(())
            })?;
        }
        Ok(made)
    }

    /// Calls `make` for each element of an array, in order, with its indices defined.
    fn for_each_element(
        &mut self,
        template: &'f PlainTemplate,
        dims: &[(i64, u64)],
        mut make: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        if dims.iter().any(|(_, length)| *length == 0) {
            return Ok(());
        }
        let depth = self.names.values.len();
        for (range, (first, _)) in template.each.iter().zip(dims) {
            self.define(&range.name, *first, template.offset)?;
        }
        let mut position = vec![0_u64; dims.len()];
        loop {
            self.count_step(template.offset)?;
            make(self)?;
            let Some(dim) = (0..dims.len()).rev().find(|&dim| position[dim] + 1 < dims[dim].1) else { break };
            position[dim] += 1;
            position[dim + 1..].fill(0);
            for (index, (first, _)) in dims.iter().enumerate().skip(dim) {
                self.names.values[depth + index].1 = Named::Int(first + position[index] as i64);
            }
        }
        self.names.values.truncate(depth);
        Ok(())
    }

    /// Returns the array of that name. Refuses one that its condition leaves out.
    fn array<'a>(&self, of: &'a Kind<'f>, reference: &Reference) -> Result<&'a Array<'f>> {
        let Some(array) = of.arrays.iter().find(|array| array.name == reference.name) else {
            let what = format!("'{}' among the {}", reference.name, of.kind);
            let message = unknown(&what, &reference.name, of.arrays.iter().map(|array| array.name));
            return self.fail(reference.offset, message);
        };
        if array.dims == [(0, 0)] {
            let message = format!("these parameters leave '{}' out", reference.name);
            return self.fail(reference.offset, message);
        }
        Ok(array)
    }

    /// Returns the first element of an array, and how many it has. Refuses a reference to a single element.
    pub(super) fn whole(&self, of: &Kind<'f>, reference: &Reference) -> Result<(u32, u32)> {
        let array = self.array(of, reference)?;
        if !reference.indices.is_empty() {
            let message = format!("expected all of '{}', without indices", reference.name);
            return self.fail(reference.offset, message);
        }
        Ok((array.base as u32, array.count() as u32))
    }

    /// Returns the number of the element that a reference names.
    pub(super) fn resolve(&self, of: &Kind<'f>, reference: &Reference) -> Result<u32> {
        let array = self.array(of, reference)?;
        if array.dims.len() != reference.indices.len() {
            let (wanted, found) = (array.dims.len(), reference.indices.len());
            return self
                .fail(reference.offset, format!("'{}' has {wanted} indices, found {found}", reference.name));
        }
        let mut number = 0_u64;
        for (expr, (first, length)) in reference.indices.iter().zip(&array.dims) {
            let index = self.at(expr.integer(&self.names))?;
            let position = u64::try_from(i128::from(index) - i128::from(*first)).unwrap_or(u64::MAX);
            if position >= *length {
                let end = i128::from(*first) + i128::from(*length);
                let message = format!("index {index} of '{}' is not in {first}..{end}", reference.name);
                return self.fail(expr.offset, message);
            }
            number = number * length + position;
        }
        Ok((array.base + number) as u32)
    }
}
