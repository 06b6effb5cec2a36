// SPDX-License-Identifier: GPL-2.0-or-later
//! What `wakelab.sweep` drives: a sweep with its journal and the queue of its runs on the one side, and a worker that
//! runs chunks of them on the other. Both are plain objects; where workers run is up to wakelab/_sweep.py.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use wakelab_ask::{Job, Journal, Scenarios, Sweep, SweepPlan, SweepQueue, SweepSummary, read_row, write_row};

use crate::answers::{PyTable, pre};
use crate::{exception, refused};

/// A chunk of runs as text, and how many there are.
type Chunk = (String, usize);

struct State {
    sweep: Sweep,
    queue: SweepQueue,
    journal: Option<Journal>,
}

/// A sweep: its rows, its gains, and what it comes to.
#[pyclass(name = "Sweep", module = "wakelab", frozen)]
pub(crate) struct PySweep(Mutex<State>);

impl PySweep {
    fn state(&self) -> PyResult<MutexGuard<'_, State>> {
        self.0.lock().map_err(refused)
    }
}

/// Calls `add` for each row of a text, which has one in each line.
fn each_row(text: &str, mut add: impl FnMut(wakelab_ask::Row) -> PyResult<()>) -> PyResult<()> {
    text.lines().try_for_each(|line| add(read_row(line).map_err(exception)?))
}

#[pymethods]
impl PySweep {
    /// Reads the text of a sweep's file; `name` stands in errors.
    #[new]
    fn new(text: &str, name: &str) -> PyResult<PySweep> {
        let sweep = Sweep::new(SweepPlan::new(text, name).map_err(exception)?);
        let queue = SweepQueue::new(&sweep);
        Ok(PySweep(Mutex::new(State { sweep, queue, journal: None })))
    }

    /// Turns JSON with the keys of a sweep's file into the text of such a file.
    #[staticmethod]
    fn _text_of_json(json: &str) -> PyResult<String> {
        SweepPlan::text_of_json(json).map_err(exception)
    }

    /// Opens the journal beside `output`, or begins one, and takes its rows.
    fn _open(&self, output: PathBuf) -> PyResult<()> {
        let mut state = self.state()?;
        let State { sweep, queue, journal } = &mut *state;
        *journal = Some(Journal::open(&output, sweep).map_err(exception)?);
        queue.begin_again(sweep);
        Ok(())
    }

    /// Returns what workers need.
    fn _pack(&self) -> PyResult<String> {
        self.state()?.sweep.plan.pack().map_err(exception)
    }

    /// Plans all runs that are missing, whatever was under way. Returns how many there are.
    fn _begin_again(&self) -> PyResult<usize> {
        let mut state = self.state()?;
        let State { sweep, queue, .. } = &mut *state;
        queue.begin_again(sweep);
        Ok(queue.known() - sweep.len())
    }

    /// Takes the next runs for one of `workers`; `None` if none is waiting.
    fn _chunk(&self, target_s: f64, workers: usize) -> PyResult<Option<Chunk>> {
        let jobs = self.state()?.queue.take_chunk(target_s * 1e9, workers);
        if jobs.is_empty() {
            return Ok(None);
        }
        Ok(Some((serde_json::to_string(&jobs).map_err(refused)?, jobs.len())))
    }

    /// Adds what a worker returned for a chunk: rows, and how long each took. Runs of the chunk that have no row wait
    /// again. Returns how many rows are new.
    fn _done(&self, chunk: &str, rows: &str, run_ns: Vec<u64>) -> PyResult<usize> {
        let jobs: Vec<Job> = serde_json::from_str(chunk).map_err(refused)?;
        let mut state = self.state()?;
        let State { sweep, queue, journal } = &mut *state;
        let (mut new, mut times) = (0, run_ns.into_iter());
        each_row(rows, |row| {
            if let Some(run_ns) = times.next() {
                queue.measure(row.job.case, run_ns as f64);
            }
            if sweep.has(row.job) {
                return Ok(());
            }
            if let Some(journal) = journal {
                journal.add(&row).map_err(exception)?;
            }
            new += usize::from(queue.done(sweep, row));
            Ok(())
        })?;
        queue.give_back(jobs.into_iter().filter(|job| !sweep.has(*job)));
        Ok(new)
    }

    /// Runs that are done, and those that are known to be needed.
    fn _tally(&self) -> PyResult<(usize, usize)> {
        let state = self.state()?;
        Ok((state.sweep.len(), state.queue.known()))
    }

    /// Writes the result, whole or not at all, and removes the journal.
    fn _finish(&self) -> PyResult<()> {
        let mut state = self.state()?;
        match state.journal.take() {
            Some(journal) => journal.finish(&state.sweep).map_err(exception),
            None => Ok(()),
        }
    }

    /// The gain of each policy in each case, as `--gains` writes it.
    #[getter]
    fn gains(&self) -> PyResult<PyTable> {
        Ok(PyTable { name: "gains", tables: vec![self.state()?.sweep.gains()] })
    }

    /// The rows, one for each run.
    #[getter]
    fn table(&self) -> PyResult<PyTable> {
        Ok(PyTable { name: "sweep", tables: vec![self.state()?.sweep.table()] })
    }

    /// Returns the JSON of `wakelab sweep --format json`.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string_pretty(&SweepSummary::new(&self.state()?.sweep)).map_err(refused)
    }

    /// Returns what `wakelab sweep` prints.
    fn text(&self) -> PyResult<String> {
        Ok(SweepSummary::new(&self.state()?.sweep).text())
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.table()?.__arrow_c_stream__(py, requested_schema)
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.state()?.sweep.len())
    }

    fn __str__(&self) -> PyResult<String> {
        self.text()
    }

    fn _repr_html_(&self) -> PyResult<String> {
        Ok(pre(&self.text()?))
    }
}

/// Runs chunks of a sweep, wherever it is.
#[pyclass(name = "SweepWorker", module = "wakelab._native", frozen)]
pub(crate) struct PySweepWorker {
    sweep: Sweep,
    /// The scenarios of the latest case, because its runs follow each other.
    latest: Mutex<Option<(usize, Scenarios)>>,
}

#[pymethods]
impl PySweepWorker {
    /// Reads what `Sweep._pack` wrote.
    #[new]
    fn new(py: Python<'_>, packed: &str) -> PyResult<PySweepWorker> {
        let plan = py.detach(|| SweepPlan::unpack(packed)).map_err(exception)?;
        Ok(PySweepWorker { sweep: Sweep::new(plan), latest: Mutex::new(None) })
    }

    /// Runs a chunk until its end, or until a run ends after `limit_s`. Returns rows as text, one in each line, and how
    /// long each run took.
    fn run(&self, py: Python<'_>, chunk: &str, limit_s: f64) -> PyResult<(String, Vec<u64>)> {
        let jobs: Vec<Job> = serde_json::from_str(chunk).map_err(refused)?;
        py.detach(|| self.run_jobs(&jobs, limit_s)).map_err(exception)
    }
}

impl PySweepWorker {
    fn run_jobs(&self, jobs: &[Job], limit_s: f64) -> Result<(String, Vec<u64>), wakelab_ask::AskError> {
        let plan = &self.sweep.plan;
        let begin = Instant::now();
        let (mut rows, mut run_ns) = (String::new(), Vec::new());
        // Another chunk of this process may have the cache; then this one makes its own.
        let mut latest = self.latest.try_lock().ok().and_then(|mut kept| kept.take());
        for &job in jobs {
            let run_begin = Instant::now();
            if latest.as_ref().is_none_or(|(case, _)| *case != job.case) {
                latest = Some((job.case, plan.scenarios_or_error(job.case)));
            }
            let Some((_, scenarios)) = &latest else { break };
            rows.push_str(&write_row(&plan.run(&self.sweep.columns, scenarios, job))?);
            run_ns.push(run_begin.elapsed().as_nanos() as u64);
            if begin.elapsed().as_secs_f64() > limit_s {
                break;
            }
        }
        if let Ok(mut kept) = self.latest.try_lock() {
            *kept = latest;
        }
        Ok((rows, run_ns))
    }
}
