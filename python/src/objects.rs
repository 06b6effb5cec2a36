// SPDX-License-Identifier: GPL-2.0-or-later
//! What a comparison is made of. All of it is immutable, and can be pickled, so that it can go to other processes.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use wakelab_ask::{Import, MachineChoice, Source};
use wakelab_machine::Machine;
use wakelab_policy::PolicySpec;
use wakelab_workload::Workload;

use crate::exception;
use crate::options::{Options, strings};
use crate::refused;

/// A machine: its topology, and what things cost there.
#[pyclass(name = "Machine", module = "wakelab", frozen, eq)]
#[derive(Clone, PartialEq)]
pub(crate) struct PyMachine(pub(crate) Arc<Machine>);

#[pymethods]
impl PyMachine {
    /// Looks a machine up, as `--machine` does.
    #[new]
    fn new(name: &str) -> PyResult<PyMachine> {
        wakelab_ask::machine(name, &[]).map(PyMachine).map_err(exception)
    }

    /// Reads the text of a machine file.
    #[staticmethod]
    #[pyo3(signature = (text, name = "machine"))]
    fn from_toml(text: &str, name: &str) -> PyResult<PyMachine> {
        let machine = Machine::from_toml(text, &format!("{name}.toml")).map_err(refused)?;
        Ok(PyMachine(Arc::new(Machine { name: name.to_owned(), ..machine })))
    }

    /// Returns the names of all machines.
    #[staticmethod]
    fn names() -> Vec<&'static str> {
        wakelab_machine::presets().iter().map(|(name, _)| *name).collect()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn description(&self) -> &str {
        &self.0.description
    }

    /// The number of CPUs.
    #[getter]
    fn cpus(&self) -> usize {
        self.0.topology.nr_cpus()
    }

    /// Returns the costs: for each its key, its value as text, its unit and its source.
    fn costs(&self) -> Vec<(String, String, String, String)> {
        let rows = self.0.cost_rows();
        let text = |row: wakelab_machine::CostRow| {
            (row.key.to_string(), row.value.to_string(), row.unit.to_string(), row.source.to_string())
        };
        rows.into_iter().map(text).collect()
    }

    /// Returns this machine with costs replaced, as `--cost` does.
    #[pyo3(signature = (*costs))]
    fn with_costs(&self, costs: &Bound<'_, PyTuple>) -> PyResult<PyMachine> {
        let texts = strings(costs)?;
        let costs = texts.iter().map(|text| text.parse()).collect::<Result<Vec<_>, _>>().map_err(refused)?;
        wakelab_ask::with_costs(&self.0, &costs).map(PyMachine).map_err(exception)
    }

    /// Returns the figures that have a range: for each its name, its unit, the low end, the figure itself and the high
    /// end as texts, and the rule of the range.
    fn uncertain(&self) -> Vec<(String, &'static str, String, String, String, &'static str)> {
        let one = |figure: wakelab_machine::Uncertain| {
            let [low, value, high] = figure.range_words(&self.0);
            (figure.to_string(), figure.unit(), low, value, high, figure.rule().name())
        };
        self.0.uncertain().into_iter().map(one).collect()
    }

    /// Returns this machine with figures at places in their ranges, from 0 (the low end) to 1; 0.5: the figure itself.
    fn drawn(&self, places: std::collections::BTreeMap<String, f64>) -> PyResult<PyMachine> {
        let known = self.0.uncertain();
        let mut drawn = Vec::new();
        for (name, place) in &places {
            let Some(figure) = known.iter().find(|figure| figure.to_string() == *name) else {
                let names: Vec<String> = known.iter().map(ToString::to_string).collect();
                return Err(refused(format!("figure '{name}'; expected one of {}", names.join(", "))));
            };
            if !(0.0..=1.0).contains(place) {
                return Err(refused(format!("{name}={place}; expected a place from 0 to 1")));
            }
            drawn.push((figure.clone(), (place * f64::from(u16::MAX)).round() as u16));
        }
        let pairs = drawn.iter().map(|(figure, place)| (figure, *place));
        Ok(PyMachine(Arc::new(self.0.drawn(pairs))))
    }

    /// Returns the text of a machine file.
    fn to_toml(&self) -> PyResult<String> {
        self.0.to_toml().map_err(refused)
    }

    fn __repr__(&self) -> String {
        format!("Machine({:?}, {} CPUs)", self.0.name, self.cpus())
    }

    fn __str__(&self) -> String {
        format!("{}\n{}", self.0.description, self.0.tree())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String, String))> {
        let make = py.get_type::<PyMachine>().getattr("from_toml")?;
        Ok((make, (self.to_toml()?, self.0.name.clone())))
    }
}

/// A policy: a name, and choices of axes and tunables.
#[pyclass(name = "Policy", module = "wakelab", frozen, eq)]
#[derive(Clone, PartialEq)]
pub(crate) struct PyPolicy {
    pub(crate) name: String,
    spec: PolicySpec,
}

#[pymethods]
impl PyPolicy {
    /// Parses `NAME[+axis=value...]`; further choices may be keywords, `_` for `-`.
    #[new]
    #[pyo3(signature = (name, **choices))]
    fn new(py: Python<'_>, name: &str, choices: Option<&Bound<'_, PyDict>>) -> PyResult<PyPolicy> {
        let mut name = name.to_owned();
        for (axis, value) in choices.into_iter().flatten() {
            let axis = axis.extract::<String>()?.replace('_', "-");
            name.push_str(&format!("+{axis}={}", value.str()?));
        }
        let notes = std::sync::Mutex::new(Vec::new());
        let note = |line: &str| {
            if let Ok(mut notes) = notes.lock() {
                notes.push(line.to_owned());
            }
        };
        let spec = wakelab_ask::policy(&name, &note).map_err(exception)?;
        crate::warn(py, &notes.into_inner().unwrap_or_default())?;
        Ok(PyPolicy { name, spec })
    }

    /// Returns the policy that decides the same, with the usual value on all axes that this one does not use.
    fn canonical(&self) -> PyPolicy {
        let spec = self.spec.canonical();
        PyPolicy { name: spec.to_string(), spec }
    }

    /// Returns each axis with the policy's value.
    fn choices(&self) -> PyResult<Vec<(&'static str, String)>> {
        let stored = serde_json::to_value(&self.spec).map_err(refused)?;
        let value = |axis: &wakelab_policy::Axis| Some((axis.name, stored[axis.name].as_str()?.to_owned()));
        Ok(PolicySpec::axes().iter().filter_map(value).collect())
    }

    /// Returns where another policy has made another choice: the axis or tunable, this policy's choice, the other's.
    fn differences(&self, other: &PyPolicy) -> Vec<(&'static str, String, String)> {
        self.spec.differences(&other.spec)
    }

    /// Returns this policy with another's choice on an axis, or its tunable.
    fn with_choice_of(&self, other: &PyPolicy, name: &str) -> PyResult<PyPolicy> {
        let spec = self.spec.clone().with_choice_of(&other.spec, name).map_err(refused)?;
        Ok(PyPolicy { name: spec.to_string(), spec })
    }

    /// Returns the names of all policies, and those of kernels.
    #[staticmethod]
    fn names() -> Vec<&'static str> {
        let aliases = PolicySpec::aliases().iter().map(|alias| alias.name);
        PolicySpec::named().iter().map(|policy| policy.name).chain(aliases).collect()
    }

    /// Returns each axis with its values.
    #[staticmethod]
    fn axes() -> Vec<(&'static str, Vec<&'static str>)> {
        let values = |axis: &wakelab_policy::Axis| axis.values.iter().map(|value| value.name).collect();
        PolicySpec::axes().iter().map(|axis| (axis.name, values(axis))).collect()
    }

    /// Returns the names of the tunables.
    #[staticmethod]
    fn tunables() -> Vec<&'static str> {
        PolicySpec::tunables().map(|(name, _)| name).collect()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn __repr__(&self) -> String {
        format!("Policy({:?})", self.name)
    }

    fn __str__(&self) -> String {
        self.name.clone()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyAny>, (String,)) {
        (py.get_type::<PyPolicy>().into_any(), (self.name.clone(),))
    }
}

/// What tasks do.
#[pyclass(name = "Workload", module = "wakelab", frozen, eq)]
#[derive(Clone, PartialEq)]
pub(crate) struct PyWorkload(pub(crate) Arc<Workload>);

#[pymethods]
impl PyWorkload {
    /// Parses `NAME[:key=value,...]` or `FILE.toml[:key=value,...]`; parameters may be keywords.
    #[new]
    #[pyo3(signature = (spec, **parameters))]
    fn new(spec: &str, parameters: Option<&Bound<'_, PyDict>>) -> PyResult<PyWorkload> {
        let mut spec = spec.to_owned();
        for (key, value) in parameters.into_iter().flatten() {
            spec.push(if spec.contains(':') { ',' } else { ':' });
            spec.push_str(&format!("{}={}", key.extract::<String>()?, value.str()?));
        }
        wakelab_ask::workload(&spec).map(PyWorkload).map_err(exception)
    }

    /// Reads what [`PyWorkload::to_json`] wrote.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<PyWorkload> {
        let workload: Workload = serde_json::from_str(text).map_err(refused)?;
        workload.check().map_err(refused)?;
        Ok(PyWorkload(Arc::new(workload)))
    }

    /// Returns the names of all workload models.
    #[staticmethod]
    fn names() -> Vec<&'static str> {
        wakelab_workload::presets().collect()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The number of tasks.
    #[getter]
    fn tasks(&self) -> usize {
        self.0.tasks.len()
    }

    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&*self.0).map_err(refused)
    }

    fn __repr__(&self) -> String {
        format!("Workload({:?}, {} tasks)", self.0.name, self.tasks())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<PyWorkload>().getattr("from_json")?, (self.to_json()?,)))
    }
}

/// A recording, and how to read it.
#[pyclass(name = "Recording", module = "wakelab", frozen)]
#[derive(Clone)]
pub(crate) struct PyRecording {
    path: PathBuf,
    /// The options as given, for copies in other processes.
    options: Option<Arc<Py<PyDict>>>,
    import: Import,
}

impl PyRecording {
    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    pub(crate) fn import(&self) -> &Import {
        &self.import
    }
}

#[pymethods]
impl PyRecording {
    /// A recording by its path, or `demo`; the options are those of the command.
    #[new]
    #[pyo3(signature = (path, **options))]
    fn new(path: PathBuf, options: Option<Bound<'_, PyDict>>) -> PyResult<PyRecording> {
        let mut given = Options::new(options.as_ref())?;
        let import = given.import()?;
        given.finish("Recording")?;
        Ok(PyRecording { path, import, options: options.map(|options| Arc::new(options.unbind())) })
    }

    #[getter(path)]
    fn path_text(&self) -> String {
        self.path.display().to_string()
    }

    /// The machine that made it, as far as it tells.
    fn machine(&self, py: Python<'_>) -> PyResult<PyMachine> {
        let (path, import) = (self.path.clone(), self.import.clone());
        let read = py.detach(|| wakelab_ask::recorded(&path, &import, None));
        read.map(|(_, machine)| PyMachine(machine)).map_err(exception)
    }

    /// What its tasks did, as a model that runs on any machine.
    fn workload(&self, py: Python<'_>) -> PyResult<PyWorkload> {
        let ask = wakelab_ask::Ask {
            source: Some(Source::Recording(self.path.clone())),
            import: self.import.clone(),
            ..Default::default()
        };
        let read = py.detach(|| wakelab_ask::input(&ask));
        read.map(|(workload, _)| PyWorkload(workload)).map_err(exception)
    }

    fn __repr__(&self) -> String {
        format!("Recording({:?})", self.path.display().to_string())
    }

    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> ((PathBuf,), Bound<'py, PyDict>) {
        let options = self.options.as_ref().map(|options| options.bind(py).clone());
        ((self.path.clone(),), options.unwrap_or_else(|| PyDict::new(py)))
    }
}

/// A machine by its name or as an object.
pub(crate) fn machine_choice(value: &Bound<'_, PyAny>) -> PyResult<MachineChoice> {
    if let Ok(machine) = value.cast::<PyMachine>() {
        return Ok(MachineChoice::Given(Arc::clone(&machine.get().0)));
    }
    Ok(MachineChoice::Name(text(value)?))
}

/// A policy by its name or as an object.
pub(crate) fn policy_name(value: &Bound<'_, PyAny>) -> PyResult<String> {
    match value.cast::<PyPolicy>() {
        Ok(policy) => Ok(policy.get().name.clone()),
        Err(_) => text(value),
    }
}

/// Text, or a path.
pub(crate) fn text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    match value.cast::<PyString>() {
        Ok(text) => text.extract(),
        Err(_) => {
            let path: PathBuf = value.extract()?;
            path.into_os_string().into_string().map_err(|_| refused("a path that is no UTF-8"))
        }
    }
}
