// SPDX-License-Identifier: GPL-2.0-or-later
//! The extension module `wakelab._native`: names and options of Python turned into what crates/ask asks, and its
//! answers as Python objects. Nothing is decided or computed here. While something simulates, other Python threads run.

mod answers;
mod arrow;
mod experiments;
mod objects;
mod options;
mod progress;
mod score;
mod sweep;

use pyo3::exceptions::{PyRuntimeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use wakelab_ask::AskError;

/// The exception for an error: `ValueError` if other input would help, and `RuntimeError` otherwise. The message is the
/// command's.
pub(crate) fn exception(error: AskError) -> PyErr {
    match error.is_input() {
        true => PyValueError::new_err(error.to_string()),
        false => PyRuntimeError::new_err(error.to_string()),
    }
}

/// The exception for wrong input.
pub(crate) fn refused(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Warns of what the command notes on stderr.
pub(crate) fn warn(py: Python<'_>, notes: &[String]) -> PyResult<()> {
    for note in notes {
        let text = std::ffi::CString::new(note.as_str()).map_err(refused)?;
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 2)?;
    }
    Ok(())
}

/// What the package shows is in wakelab/__init__.py.
#[pymodule(gil_used = false)]
mod _native {
    use super::*;

    #[pymodule_export]
    use answers::{
        PyCheck, PyComparison, PyMap, PyTable, PyWhy, again, check_native, compare_native, map_native,
        run_native, why_native,
    };
    #[pymodule_export]
    use experiments::{PyExperiments, experiments_native};
    #[pymodule_export]
    use objects::{PyMachine, PyPolicy, PyRecording, PyWorkload};
    #[pymodule_export]
    use score::{PyScore, PyScorer, score_native};
    #[pymodule_export]
    use sweep::{PySweep, PySweepWorker};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
