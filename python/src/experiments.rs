// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab.experiments`.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use wakelab_ask::{ExperimentsAsk, Published};
use wakelab_report::Style;

use crate::answers::{pre, style};
use crate::exception;
use crate::options::{Options, several};
use crate::progress::detached;

/// Published experiments beside what the lab predicts.
#[pyclass(name = "Experiments", module = "wakelab", frozen)]
pub(crate) struct PyExperiments(Published);

#[pymethods]
impl PyExperiments {
    fn to_json(&self) -> PyResult<String> {
        self.0.json().map_err(exception)
    }

    #[pyo3(signature = (width = None))]
    fn text(&self, width: Option<usize>) -> String {
        self.0.with(|experiments| experiments.text(&style(width)))
    }

    /// Returns what failed: controls, and signs that few seeds show.
    fn failures(&self) -> Vec<String> {
        self.0.with(|experiments| experiments.failures())
    }

    fn __str__(&self) -> String {
        self.text(None)
    }

    fn _repr_html_(&self) -> String {
        pre(&self.0.with(|experiments| experiments.text(&Style::default())))
    }
}

/// Runs published experiments; no name: all.
#[pyfunction(name = "experiments")]
#[pyo3(signature = (names = None, **options))]
pub(crate) fn experiments_native(
    py: Python<'_>,
    names: Option<&Bound<'_, PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<PyExperiments> {
    let names = names.map_or(Ok(Vec::new()), |names| several(names, crate::objects::text))?;
    let mut options = Options::new(options)?;
    let (quick, first_seed, seeds) = (options.flag("quick")?, options.seed()?, options.seeds_if_given()?);
    let rows = options.texts("rows")?;
    let (threads, draws, longer) = (options.threads()?, options.draws()?, options.longer()?);
    options.finish("experiments")?;
    detached(py, threads, |runner, _| {
        wakelab_ask::experiments(
            &ExperimentsAsk {
                names: &names,
                rows: &rows,
                quick,
                longer,
                first_seed,
                seeds,
                draws,
                recorded: None,
            },
            runner,
        )
    })
    .map(PyExperiments)
}
