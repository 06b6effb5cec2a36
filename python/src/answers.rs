// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab.compare`, `run`, `check`, `why` and `map`, and what they return.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use wakelab_ask::{CheckAsk, Checked, Compared, Explained, MapAsk, Question, WhyAsk};
use wakelab_lab::{LabError, Runner, Silent, export_perfetto};
use wakelab_report::svg::escaped;
use wakelab_report::{Column, PageParts, SignMap, Style, write_parquet};

use crate::objects::{PyRecording, machine_choice, policy_name, text};
use crate::options::{Options, several};
use crate::progress::detached;
use crate::{arrow, exception, refused};

/// The loads of a map that names none, as in the command.
const LOADS: [&str; 6] = ["1/8", "1/4", "1/2", "1", "2", "4"];

/// Plain text of a width; `None`: as wide as it is.
pub(crate) fn style(width: Option<usize>) -> Style {
    Style { color: false, width }
}

/// Returns text for a notebook.
pub(crate) fn pre(text: &str) -> String {
    format!("<pre style=\"line-height: 1.25\">{}</pre>", escaped(text))
}

/// Writes a file whole, or not at all.
fn write_file(path: &PathBuf, bytes: &[u8]) -> PyResult<()> {
    let mut part = path.clone().into_os_string();
    part.push(".part");
    std::fs::write(&part, bytes)?;
    Ok(std::fs::rename(&part, path)?)
}

/// A table of Arrow: `pyarrow.table`, `polars.DataFrame`, pandas and DuckDB take it.
#[pyclass(name = "Table", module = "wakelab", frozen)]
pub(crate) struct PyTable {
    pub(crate) name: &'static str,
    pub(crate) tables: Vec<Vec<Column>>,
}

#[pymethods]
impl PyTable {
    #[pyo3(signature = (requested_schema = None))]
    pub(crate) fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol lets a producer return its own schema.
        let _ = requested_schema;
        arrow::stream(py, self.tables.clone())
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.tables.iter().take(1).flatten().map(|column| column.name.clone()).collect()
    }

    /// Writes the table as Parquet.
    fn to_parquet(&self, path: PathBuf) -> PyResult<()> {
        let mut bytes = Vec::new();
        write_parquet(self.name, self.tables.clone(), &mut bytes)?;
        write_file(&path, &bytes)
    }
}

/// Runs of several policies side by side.
#[pyclass(name = "Comparison", module = "wakelab", frozen)]
pub(crate) struct PyComparison(Compared);

#[pymethods]
impl PyComparison {
    /// Returns the JSON of `wakelab compare --format json`; `with_scenario`: as with `--with-scenario`.
    #[pyo3(signature = (with_scenario = false))]
    fn to_json(&self, with_scenario: bool) -> PyResult<String> {
        self.0.json(with_scenario).map_err(exception)
    }

    /// Returns the table of `wakelab compare`; `all`: the rows that did not move, too.
    #[pyo3(signature = (width = None, all = false))]
    fn text(&self, width: Option<usize>, all: bool) -> PyResult<String> {
        let comparison = self.0.comparison().map_err(exception)?;
        let style = style(width);
        let mut text = if all { comparison.text(&style) } else { comparison.text_of_moved(&style) };
        if let Some(recording) = &self.0.question.recording {
            text.push('\n');
            text.push_str(&style.wrap_lines(&wakelab_ask::explanation(recording, &self.0.question.changed)));
        }
        Ok(text)
    }

    /// Returns all values of all runs as CSV.
    fn to_csv(&self) -> PyResult<String> {
        Ok(self.0.comparison().map_err(exception)?.csv())
    }

    /// The policies that head the columns.
    #[getter]
    fn policies(&self) -> Vec<String> {
        self.0.question.policy_names.clone()
    }

    #[getter]
    fn seeds(&self) -> Vec<u64> {
        self.0.question.seeds.clone()
    }

    /// What each policy but the first comes to: `policy`, `decided` and `sentences`.
    #[getter]
    fn verdicts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all = PyList::empty(py);
        for verdict in self.0.comparison().map_err(exception)?.verdicts() {
            let one = PyDict::new(py);
            let decided = serde_json::to_value(verdict.decided).map_err(refused)?;
            one.set_item("policy", verdict.policy)?;
            one.set_item("decided", decided.as_str())?;
            one.set_item("sentences", verdict.sentences)?;
            all.append(one)?;
        }
        Ok(all)
    }

    /// Returns a metric: for each policy its `mean`, its `values` by seed, `gain_percent` and `ci_percent`.
    fn metric<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let comparison = self.0.comparison().map_err(exception)?;
        let known = || comparison.metrics.iter().map(|metric| metric.name.as_str());
        let Some(metric) = comparison.metrics.iter().find(|metric| metric.name == name) else {
            let all: Vec<&str> = known().collect();
            let meant = wakelab_ask::did_you_mean(name, known());
            return Err(refused(format!("metric '{name}'; expected one of {}{meant}", all.join(", "))));
        };
        let all = PyList::empty(py);
        for (policy, of) in self.0.question.policy_names.iter().zip(&metric.policies) {
            let one = PyDict::new(py);
            one.set_item("policy", policy)?;
            one.set_item("mean", of.mean)?;
            one.set_item("values", of.values.clone())?;
            one.set_item("gain_percent", of.gain.gain_percent)?;
            one.set_item("ci_percent", of.gain.ci_percent)?;
            all.append(one)?;
        }
        Ok(all)
    }

    /// All values of all runs, as [`PyComparison::to_csv`] has them.
    #[getter]
    fn tidy(&self) -> PyResult<PyTable> {
        Ok(PyTable { name: "tidy", tables: vec![self.0.comparison().map_err(exception)?.tidy()] })
    }

    /// Runs everything once more with the first seed, and returns the time slices.
    fn slices(&self, py: Python<'_>) -> PyResult<PyTable> {
        let tables = py.detach(|| {
            let timelines = self.0.timelines(&Runner::new(None, &Silent))?;
            Ok(self.0.comparison()?.slices(&timelines).collect())
        });
        Ok(PyTable { name: "slices", tables: tables.map_err(exception)? })
    }

    /// Writes the page of `wakelab compare --report`.
    fn report(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let page = py.detach(|| {
            let timelines = self.0.timelines(&Runner::new(None, &Silent))?;
            let command = format!("wakelab.compare(...).report({:?})", path.display().to_string());
            let parts = PageParts { timelines: &timelines, check: self.0.check(), command: &command };
            Ok(self.0.comparison()?.html(&parts))
        });
        write_file(&path, page.map_err(exception)?.as_bytes())
    }

    /// Writes the trace of `wakelab compare --perfetto`.
    fn perfetto(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let bytes = py.detach(|| {
            let mut bytes = Vec::new();
            let names = self.0.comparison()?.column_names();
            let Question { scenarios, seeds, .. } = &self.0.question;
            export_perfetto(scenarios, &names, seeds[0], &mut bytes)?;
            Ok(bytes)
        });
        write_file(&path, &bytes.map_err(exception)?)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.tidy()?.__arrow_c_stream__(py, requested_schema)
    }

    fn __str__(&self) -> PyResult<String> {
        self.text(None, false)
    }

    fn _repr_html_(&self) -> PyResult<String> {
        let comparison = self.0.comparison().map_err(exception)?;
        let mut html = String::new();
        for verdict in comparison.verdicts() {
            let words =
                verdict.sentences.iter().map(|sentence| escaped(sentence)).collect::<Vec<_>>().join("<br>");
            html += &format!("<p><b>{}</b>: {words}</p>", escaped(&verdict.policy));
        }
        Ok(html + &pre(&comparison.text_of_moved(&Style::default())))
    }
}

/// Compares policies, machines and what-ifs.
#[pyfunction(name = "compare")]
#[pyo3(signature = (input, machine, policy, *, check = true, **options))]
pub(crate) fn compare_native(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    machine: &Bound<'_, PyAny>,
    policy: &Bound<'_, PyAny>,
    check: bool,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<PyComparison> {
    let (machines, policies) = (several(machine, machine_choice)?, several(policy, policy_name)?);
    let mut options = Options::new(options)?;
    let (ask, kernel, seeds) = (options.ask(input)?, options.kernel()?, options.seeds()?);
    let (without, threads, draws) = (options.without()?, options.threads()?, options.draws()?);
    options.finish("compare")?;
    detached(py, threads, |runner, note| {
        let machines = (&machines[..], &without[..]);
        let question = wakelab_ask::question(&ask, machines, &policies, kernel, seeds, true, note)?;
        question.check()?;
        let recording = question.recording.as_ref().filter(|_| check);
        let replayed = wakelab_ask::replayed(&ask, recording, false, kernel, &question.seeds, runner, note)?;
        Compared::run(question, replayed, (draws, None), runner)
    })
    .map(PyComparison)
}

/// Repeats an earlier result from its JSON.
#[pyfunction]
#[pyo3(signature = (path, *, threads = None))]
pub(crate) fn again(
    py: Python<'_>,
    path: PathBuf,
    threads: Option<std::num::NonZeroUsize>,
) -> PyResult<PyComparison> {
    detached(py, threads, |runner, _| {
        let (question, replayed) = wakelab_ask::again(&path)?;
        question.check()?;
        Compared::run(question, replayed, (None, None), runner)
    })
    .map(PyComparison)
}

/// Runs one input once.
#[pyfunction(name = "run")]
#[pyo3(signature = (input, machine, policy, **options))]
pub(crate) fn run_native(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    machine: &Bound<'_, PyAny>,
    policy: &Bound<'_, PyAny>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<PyComparison> {
    let (machine, policy) = (machine_choice(machine)?, policy_name(policy)?);
    let mut options = Options::new(options)?;
    let (ask, kernel, seed) = (options.ask(input)?, options.kernel()?, options.seed()?);
    let (without, slowest) = (options.without()?, options.count("slowest")?);
    options.finish("run")?;
    detached(py, None, |_, note| {
        let machines = (std::slice::from_ref(&machine), &without[..]);
        let policies = std::slice::from_ref(&policy);
        let question = wakelab_ask::question(&ask, machines, policies, kernel, vec![seed], false, note)?;
        question.check()?;
        let outcome = wakelab_sim::run_explained(&question.scenarios[0], seed, slowest)
            .map_err(|error| LabError::Run { name: format!("policy {policy}"), seed, error })?;
        Ok(Compared { question, outcomes: vec![vec![outcome]], replayed: None, drawn: None })
    })
    .map(PyComparison)
}

/// A recording beside its own replay.
#[pyclass(name = "Check", module = "wakelab", frozen)]
pub(crate) struct PyCheck(Checked);

#[pymethods]
impl PyCheck {
    /// Returns the JSON of `wakelab check --format json`.
    fn to_json(&self) -> PyResult<String> {
        self.0.json().map_err(exception)
    }

    /// The verdict in a sentence.
    #[getter]
    fn verdict(&self) -> String {
        self.0.check.verdict()
    }

    #[pyo3(signature = (width = None))]
    fn text(&self, width: Option<usize>) -> String {
        self.0.check.text(&style(width))
    }

    fn __str__(&self) -> String {
        self.text(None)
    }

    fn _repr_html_(&self) -> String {
        pre(&self.text(None))
    }
}

/// Replays a recording on the machine that made it.
#[pyfunction(name = "check")]
#[pyo3(signature = (recording, machine = None, policy = None, *, against = None, **options))]
pub(crate) fn check_native(
    py: Python<'_>,
    recording: &Bound<'_, PyAny>,
    machine: Option<&Bound<'_, PyAny>>,
    policy: Option<&Bound<'_, PyAny>>,
    against: Option<PathBuf>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<PyCheck> {
    let (machine, policy) = (machine.map(machine_choice).transpose()?, policy.map(policy_name).transpose()?);
    let mut options = Options::new(options)?;
    let (path, import) = match recording.cast::<PyRecording>() {
        Ok(recording) => (recording.get().path().to_owned(), recording.get().import().clone()),
        Err(_) => (PathBuf::from(text(recording)?), options.import()?),
    };
    let (what_if, kernel, seeds) = (options.what_if()?, options.kernel()?, options.seeds()?);
    let threads = options.threads()?;
    options.finish("check")?;
    detached(py, threads, |runner, note| {
        let ask = CheckAsk {
            recording: &path,
            import: &import,
            machine: machine.as_ref(),
            against,
            what_if: &what_if,
            policy: policy.as_deref(),
            kernel,
            seeds,
        };
        wakelab_ask::check(&ask, runner, note)
    })
    .map(PyCheck)
}

/// Two sides of a comparison, axis by axis.
#[pyclass(name = "Why", module = "wakelab", frozen)]
pub(crate) struct PyWhy(Explained);

#[pymethods]
impl PyWhy {
    /// Returns the JSON of `wakelab why --format json`.
    fn to_json(&self) -> PyResult<String> {
        self.0.json().map_err(exception)
    }

    /// The verdict in sentences.
    #[getter]
    fn sentences(&self) -> PyResult<Vec<String>> {
        Ok(self.0.why().map_err(exception)?.sentences())
    }

    #[pyo3(signature = (width = None))]
    fn text(&self, width: Option<usize>) -> PyResult<String> {
        Ok(self.0.why().map_err(exception)?.text(&style(width)))
    }

    fn __str__(&self) -> PyResult<String> {
        self.text(None)
    }

    fn _repr_html_(&self) -> PyResult<String> {
        Ok(pre(&self.text(None)?))
    }
}

/// Returns which axis makes the difference between two sides.
#[pyfunction(name = "why")]
#[pyo3(signature = (input, machine, policy, *, metric = None, check = true, **options))]
pub(crate) fn why_native(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    machine: &Bound<'_, PyAny>,
    policy: &Bound<'_, PyAny>,
    metric: Option<String>,
    check: bool,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<PyWhy> {
    let (machines, policies) = (several(machine, machine_choice)?, several(policy, policy_name)?);
    let mut options = Options::new(options)?;
    let (ask, kernel, seeds) = (options.ask(input)?, options.kernel()?, options.seeds()?);
    let (slowest, threads) = (options.count("slowest")?, options.threads()?);
    options.finish("why")?;
    detached(py, threads, |runner, note| {
        let (machines, policies) = (&machines[..], &policies[..]);
        let ask = WhyAsk { ask: &ask, machines, policies, metric, no_check: !check, slowest, kernel, seeds };
        wakelab_ask::why(&ask, runner, note)
    })
    .map(PyWhy)
}

/// Where policies help and where they hurt.
#[pyclass(name = "Map", module = "wakelab", frozen)]
pub(crate) struct PyMap(SignMap);

#[pymethods]
impl PyMap {
    /// Returns the JSON of `wakelab map --format json`.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string_pretty(&self.0.document()).map_err(refused)
    }

    /// Returns the drawing of `wakelab map --plot`.
    fn svg(&self) -> String {
        self.0.svg()
    }

    #[pyo3(signature = (width = None))]
    fn text(&self, width: Option<usize>) -> String {
        self.0.text(&style(width))
    }

    fn __str__(&self) -> String {
        self.text(None)
    }

    fn _repr_html_(&self) -> String {
        self.0.svg()
    }
}

/// Runs a workload over machines and loads.
#[pyfunction(name = "map")]
#[pyo3(signature = (workload, policy, machine = None, *, load = None, **options))]
pub(crate) fn map_native(
    py: Python<'_>,
    workload: &str,
    policy: &Bound<'_, PyAny>,
    machine: Option<&Bound<'_, PyAny>>,
    load: Option<&Bound<'_, PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<PyMap> {
    let policies = several(policy, policy_name)?;
    let machines = machine.map_or(Ok(Vec::new()), |machine| several(machine, machine_choice))?;
    let default = || LOADS.map(str::to_owned).to_vec();
    let loads =
        load.map_or_else(|| Ok(default()), |load| several(load, |load| Ok(load.str()?.to_string())))?;
    let mut options = Options::new(options)?;
    let (kernel, seeds, threads) = (options.kernel()?, options.seeds()?, options.threads()?);
    let (metric, over_best) = (options.text("metric")?, options.flag("over_best")?);
    options.finish("map")?;
    detached(py, threads, |runner, note| {
        let (machines, loads, policies) = (&machines[..], &loads[..], &policies[..]);
        let ask = MapAsk { workload, machines, loads, policies, kernel, seeds, metric, over_best };
        wakelab_ask::map(ask, note)?.run(runner)
    })
    .map(PyMap)
}
