// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs without the lock of the interpreter.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Mutex;

use pyo3::prelude::*;
use wakelab_ask::AskError;
use wakelab_lab::{Progress, Runner};

use crate::{exception, warn};

/// Keeps what there is to tell until the interpreter's lock is held again.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Told {
    fn note(&self, line: &str) {
        self.0.lock().expect("nothing panics while it holds this lock").push(line.to_owned());
    }
}

impl Progress for Told {
    fn begin(&self, _runs: usize) {}
    fn run_done(&self) {}
    fn end(&self) {}

    fn fewer_threads(&self, running: usize, wanted: usize, error: &io::Error) {
        self.note(&format!("going on with {running} of {wanted} threads: cannot start another: {error}"));
    }
}

/// Calls `run` without the interpreter's lock, and turns its notes into warnings.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    threads: Option<NonZeroUsize>,
    run: impl FnOnce(&Runner<'_>, &dyn Fn(&str)) -> Result<T, AskError> + Send,
) -> PyResult<T> {
    let told = Told::default();
    let result = py.detach(|| run(&Runner::new(threads, &told), &|line| told.note(line)));
    warn(py, &told.0.into_inner().expect("nothing panicked"))?;
    result.map_err(exception)
}
