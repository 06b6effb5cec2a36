// SPDX-License-Identifier: GPL-2.0-or-later
//! Keywords of Python with the names and meanings of the command's options: `recorded_on` is `--recorded-on`.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::str::FromStr;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use wakelab_ask::{Ask, Import, LONGER_MAX, Source};
use wakelab_lab::{Kernel, consecutive_seeds};
use wakelab_machine::{CostChange, Term};
use wakelab_sim::{HostProfile, LIMIT_EVENTS};
use wakelab_trace::{Span, WhatIf};

use crate::objects::{PyRecording, PyWorkload, machine_choice, text};
use crate::refused;

/// The range of counts that the command accepts.
const SEEDS_MAX: u32 = 10_000;
/// Simulated nanoseconds after which a run is stopped, unless `limit_s` says otherwise.
const LIMIT_NS: u64 = 600_000_000_000;
const LIMIT_S_MAX: f64 = 100_000.0;

/// The keywords that nothing has taken yet.
pub(crate) struct Options<'py> {
    left: BTreeMap<String, Bound<'py, PyAny>>,
    known: Vec<&'static str>,
}

impl<'py> Options<'py> {
    pub(crate) fn new(options: Option<&Bound<'py, PyDict>>) -> PyResult<Options<'py>> {
        let mut left = BTreeMap::new();
        for (name, value) in options.into_iter().flatten() {
            if !value.is_none() {
                left.insert(name.extract()?, value);
            }
        }
        Ok(Options { left, known: Vec::new() })
    }

    fn take(&mut self, name: &'static str) -> Option<Bound<'py, PyAny>> {
        self.known.push(name);
        self.left.remove(name)
    }

    fn get<T>(&mut self, name: &'static str, default: T) -> PyResult<T>
    where
        T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
    {
        let Some(value) = self.take(name) else { return Ok(default) };
        value.extract().map_err(|error: PyErr| PyTypeError::new_err(format!("{name}: {error}")))
    }

    /// A text, or several.
    pub(crate) fn texts(&mut self, name: &'static str) -> PyResult<Vec<String>> {
        self.take(name).map_or(Ok(Vec::new()), |value| strings(&value))
    }

    fn parsed<T: FromStr<Err: std::fmt::Display>>(&mut self, name: &'static str) -> PyResult<Vec<T>> {
        let texts = self.texts(name)?;
        let parse = |text: &String| {
            text.parse::<T>().map_err(|error| PyValueError::new_err(format!("{name}={text:?}: {error}")))
        };
        texts.iter().map(parse).collect()
    }

    fn span(&mut self) -> PyResult<Option<Span>> {
        let text = self.get::<Option<String>>("time", None)?;
        let parse = |text: String| {
            text.parse().map_err(|error| PyValueError::new_err(format!("time={text:?}: {error}")))
        };
        text.map(parse).transpose()
    }

    pub(crate) fn import(&mut self) -> PyResult<Import> {
        let recorded_on = self.take("recorded_on").map(|value| machine_choice(&value)).transpose()?;
        Ok(Import {
            recorded_on,
            of: self.texts("of")?,
            open_loop: self.texts("open_loop")?,
            closed_loop: self.texts("closed_loop")?,
            recorded_waits_only: self.get("recorded_waits_only", false)?,
            recorded_times: self.get("recorded_times", false)?,
            repeat: self.get::<Option<NonZeroU32>>("repeat", None)?,
            time: self.span()?,
            strict: self.get("strict", false)?,
        })
    }

    pub(crate) fn what_if(&mut self) -> PyResult<WhatIf> {
        Ok(WhatIf {
            weights: self.parsed("weight")?,
            quotas: self.parsed("quota")?,
            nice: self.parsed("nice")?,
            slices: self.parsed("slice")?,
            cpus: self.parsed("cpus")?,
            faster: self.parsed("faster")?,
        })
    }

    /// The input with its options. Those of a [`PyRecording`] are its own.
    pub(crate) fn ask(&mut self, input: &Bound<'py, PyAny>) -> PyResult<Ask> {
        let mut asks = self.asks_of(std::slice::from_ref(input))?;
        Ok(asks.remove(0))
    }

    /// Several inputs, with the same options.
    pub(crate) fn asks(&mut self, inputs: &Bound<'py, PyAny>) -> PyResult<Vec<Ask>> {
        self.asks_of(&several(inputs, |input| Ok(input.clone()))?)
    }

    fn asks_of(&mut self, inputs: &[Bound<'py, PyAny>]) -> PyResult<Vec<Ask>> {
        let (what_if, cost) = (self.what_if()?, self.parsed::<CostChange>("cost")?);
        // A recording has its options, so that further ones are refused, unless there are other inputs.
        let has_own = inputs.iter().all(|input| input.cast::<PyRecording>().is_ok());
        let import = if has_own { Import::default() } else { self.import()? };
        let ask = |input: &Bound<'py, PyAny>| {
            let (source, import) = match (input.cast::<PyRecording>(), input.cast::<PyWorkload>()) {
                (Ok(recording), _) => {
                    let recording = recording.get();
                    (Source::Recording(recording.path().to_owned()), recording.import().clone())
                }
                (_, Ok(workload)) => (Source::Given(workload.get().0.clone()), import.clone()),
                _ => (Source::Any(text(input)?), import.clone()),
            };
            Ok(Ask { source: Some(source), import, what_if: what_if.clone(), cost: cost.clone() })
        };
        inputs.iter().map(ask).collect()
    }

    pub(crate) fn kernel(&mut self) -> PyResult<Kernel> {
        let host = match self.get("host", "mainline".to_owned())?.as_str() {
            "mainline" => HostProfile::Mainline,
            "sched_ext" => HostProfile::SchedExt,
            other => return Err(refused(format!("host={other:?}; expected mainline or sched_ext"))),
        };
        let limit_ns = match self.get::<Option<f64>>("limit_s", None)? {
            None => LIMIT_NS,
            Some(s) if s > 0.0 && s <= LIMIT_S_MAX => ((s * 1e9).round() as u64).max(1),
            Some(s) => {
                return Err(refused(format!(
                    "limit_s={s}; expected seconds above 0 and at most {LIMIT_S_MAX}"
                )));
            }
        };
        Ok(Kernel { host, limit_ns, limit_events: self.get("limit_events", LIMIT_EVENTS)? })
    }

    /// `seeds`, how many, from `seed` on; or a list of seeds.
    pub(crate) fn seeds(&mut self) -> PyResult<Vec<u64>> {
        let first = self.get("seed", 1u64)?;
        let count: u32 = self.get("seeds", 5)?;
        if !(1..=SEEDS_MAX).contains(&count) {
            return Err(refused(format!("seeds={count}; expected a number from 1 to {SEEDS_MAX}")));
        }
        Ok(consecutive_seeds(first, count))
    }

    /// The one seed of a run.
    pub(crate) fn seed(&mut self) -> PyResult<u64> {
        self.get("seed", 1)
    }

    /// The number of seeds, if it is given.
    pub(crate) fn seeds_if_given(&mut self) -> PyResult<Option<u32>> {
        self.get("seeds", None)
    }

    pub(crate) fn threads(&mut self) -> PyResult<Option<NonZeroUsize>> {
        self.get("threads", None)
    }

    pub(crate) fn without(&mut self) -> PyResult<Vec<Term>> {
        self.parsed("without")
    }

    pub(crate) fn flag(&mut self, name: &'static str) -> PyResult<bool> {
        self.get(name, false)
    }

    pub(crate) fn text(&mut self, name: &'static str) -> PyResult<Option<String>> {
        self.get(name, None)
    }

    pub(crate) fn count(&mut self, name: &'static str) -> PyResult<usize> {
        self.get(name, 0)
    }

    /// The number of draws of machine figures.
    pub(crate) fn draws(&mut self) -> PyResult<Option<usize>> {
        match self.get::<Option<usize>>("uncertainty", None)? {
            Some(draws) if !draws.is_power_of_two() || !(8..=16_384).contains(&draws) => {
                Err(refused(format!("uncertainty={draws}; expected a power of two from 8 to 16384")))
            }
            draws => Ok(draws),
        }
    }

    /// By how much runs are longer than their experiment's file says.
    pub(crate) fn longer(&mut self) -> PyResult<u64> {
        match self.get("longer", 1)? {
            times @ 1..=LONGER_MAX => Ok(times),
            times => Err(refused(format!("longer={times}; expected a number from 1 to {LONGER_MAX}"))),
        }
    }

    /// Refuses keywords that nothing has taken.
    pub(crate) fn finish(self, of: &str) -> PyResult<()> {
        let Some(name) = self.left.keys().next() else { return Ok(()) };
        let meant = wakelab_ask::did_you_mean(name, self.known.iter().copied());
        Err(PyTypeError::new_err(format!("{of}() got an unexpected keyword argument '{name}'{meant}")))
    }
}

/// A text, or the texts of a sequence.
pub(crate) fn strings(value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    match value.cast::<PyString>() {
        Ok(text) => Ok(vec![text.extract()?]),
        Err(_) => value.try_iter()?.map(|text| Ok(text?.str()?.to_string())).collect(),
    }
}

/// A thing, or the things of a list or a tuple.
pub(crate) fn several<'py, T>(
    value: &Bound<'py, PyAny>,
    one: impl Fn(&Bound<'py, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    let is_sequence =
        value.is_instance_of::<pyo3::types::PyList>() || value.is_instance_of::<pyo3::types::PyTuple>();
    if is_sequence { value.try_iter()?.map(|value| one(&value?)).collect() } else { Ok(vec![one(value)?]) }
}
