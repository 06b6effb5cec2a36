// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads an experiment's file. docs/guide/experiment-files.md describes the format.
//!
//! Rules that keep experiments honest are checked here: at most two parameters are fitted, none of them for a single
//! row, and rows share their machine, workload and policies except for the parameters that they fill in.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::value::Datetime;
use wakelab_sim::HostProfile;

use crate::error::ExperimentError;
use crate::measure::Measure;

/// Most parameters that may be fitted to the published "before", for all rows together.
const FITTED_MAX: usize = 2;

/// A published experiment: a workload on a machine, under two policies, and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The file's stem, and the first part of each row's id.
    pub name: String,
    /// The file as the user named it, for errors.
    pub(crate) file: String,
    /// The publication that the rows are from. The model's error for a row is learned from other publications.
    pub publication: String,
    /// Title of one line.
    pub title: String,
    /// What was measured, and how it is modelled here.
    pub text: String,
    /// Why the policies differ, in words. The command prints figures beside it.
    pub mechanism: String,
    /// Why some rows have the wrong sign, and what else does not fit.
    pub misses: String,
    /// Date of the run of whose figures `misses` speaks.
    pub misses_of: Option<Datetime>,
    /// Templates with names of parameters, which each row fills in.
    pub(crate) templates: Templates,
    /// The kernel model that runs the policies.
    pub host: HostProfile,
    /// A run is stopped after this many simulated seconds.
    pub limit_s: u64,
    /// Seeds of a full run.
    pub seeds: u32,
    /// Parameters of all rows.
    pub(crate) params: BTreeMap<String, String>,
    /// Parameters that make a run shorter, for a quick check.
    pub(crate) quick: BTreeMap<String, String>,
    /// Parameters fitted to the published "before".
    pub fitted: Vec<Fitted>,
    /// Rows, in the file's order.
    pub rows: Vec<Row>,
    /// Negative controls, in the file's order.
    pub controls: Vec<Control>,
}

/// The templates that a row's or a control's parameters fill in, each with its line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Templates {
    pub(crate) machine: At<String>,
    pub(crate) workload: At<String>,
    pub(crate) policy_before: At<String>,
    pub(crate) policy_after: At<String>,
}

/// A value and its line in the file, counted from 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) line: usize,
}

/// A parameter fitted to the published "before".
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fitted {
    /// Name in the templates.
    pub param: String,
    /// Value, as text.
    pub value: String,
    /// How it was fitted, and to what.
    pub how: String,
}

/// One published comparison. Values are in the measure's unit; `None` if the value is not known.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// File and parameters, e.g. `uperf/threads=48`.
    pub id: String,
    /// Its line in the file, from 1.
    pub(crate) line: usize,
    /// Parameters in addition to the experiment's.
    pub params: BTreeMap<String, String>,
    /// What is compared.
    pub measure: Measure,
    /// Published value under the first policy.
    pub before: Option<f64>,
    /// Published value under the second policy.
    pub after: Option<f64>,
    /// Standard deviation of `before`, in percent of it.
    pub before_stdev_percent: Option<f64>,
    /// Standard deviation of `after`, in percent of it.
    pub after_stdev_percent: Option<f64>,
    /// The published gain, if only the gain was published.
    pub gain_percent: Option<f64>,
    /// Whether the row counts in the score.
    pub score: bool,
    /// Whether the simulated gain is so far from zero that a few seeds of a quick run show its sign.
    pub robust: bool,
}

/// A control: two policies whose comparison has a known result.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// File and parameters, as in a row.
    pub id: String,
    /// Its line in the file, from 1.
    pub(crate) line: usize,
    /// Parameters in addition to the experiment's.
    pub params: BTreeMap<String, String>,
    /// What is compared.
    pub measure: Measure,
    pub(crate) templates: Templates,
    /// How the second policy must compare with the first.
    pub expect: Expect,
    /// Why this result is known.
    pub because: String,
}

/// How a control's second policy compares with its first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// The same seed gives the same run.
    Same,
    /// Other seeds give a gain whose interval includes zero.
    NoChange,
    /// A gain whose interval lies above zero.
    Gain,
    /// A gain whose interval lies below zero.
    Loss,
}

impl Expect {
    /// Returns the name that files use.
    pub fn name(self) -> &'static str {
        match self {
            Expect::Same => "same",
            Expect::NoChange => "no_change",
            Expect::Gain => "gain",
            Expect::Loss => "loss",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentFile {
    title: String,
    publication: Option<String>,
    text: String,
    #[serde(default)]
    mechanism: String,
    #[serde(default)]
    misses: String,
    misses_of: Option<Spanned<Datetime>>,
    machine: Spanned<String>,
    #[serde(default = "mainline")]
    host: HostProfile,
    workload: Spanned<String>,
    policy_before: Spanned<String>,
    policy_after: Spanned<String>,
    measure: Measure,
    #[serde(default = "limit_s")]
    limit_s: u64,
    seeds: Spanned<u32>,
    #[serde(default)]
    params: BTreeMap<String, Setting>,
    #[serde(default)]
    quick: BTreeMap<String, Setting>,
    #[serde(default)]
    fitted: Vec<Spanned<FittedFile>>,
    #[serde(default)]
    row: Vec<Spanned<RowFile>>,
    #[serde(default)]
    control: Vec<Spanned<ControlFile>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FittedFile {
    param: String,
    value: Setting,
    how: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowFile {
    id: String,
    #[serde(default)]
    params: BTreeMap<String, Setting>,
    measure: Option<Measure>,
    before: Option<f64>,
    after: Option<f64>,
    before_stdev_percent: Option<f64>,
    after_stdev_percent: Option<f64>,
    gain_percent: Option<f64>,
    #[serde(default = "yes")]
    score: bool,
    #[serde(default)]
    robust: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ControlFile {
    id: String,
    #[serde(default)]
    params: BTreeMap<String, Setting>,
    measure: Option<Measure>,
    machine: Option<Spanned<String>>,
    workload: Option<Spanned<String>>,
    policy_before: Option<Spanned<String>>,
    policy_after: Option<Spanned<String>>,
    expect: Expect,
    because: String,
}

/// A parameter's value: a number or a word.
#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "expected a whole number or a word")]
enum Setting {
    Number(i64),
    Word(String),
}

fn mainline() -> HostProfile {
    HostProfile::Mainline
}

fn limit_s() -> u64 {
    600
}

fn yes() -> bool {
    true
}

fn words(settings: BTreeMap<String, Setting>) -> BTreeMap<String, String> {
    settings.into_iter().map(|(name, setting)| (name, word(setting))).collect()
}

fn word(setting: Setting) -> String {
    match setting {
        Setting::Number(number) => number.to_string(),
        Setting::Word(word) => word,
    }
}

/// A file's name and text, for errors.
struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn line(&self, offset: usize) -> usize {
        self.text.as_bytes()[..offset.min(self.text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
    }

    fn at<T>(&self, spanned: Spanned<T>) -> At<T> {
        At { line: self.line(spanned.span().start), value: spanned.into_inner() }
    }

    /// Refuses more fitted parameters than [`FITTED_MAX`], and those that `params` also gives.
    fn fitted(
        &self,
        files: Vec<Spanned<FittedFile>>,
        params: &BTreeMap<String, String>,
    ) -> Result<Vec<Fitted>, ExperimentError> {
        let mut fitted = Vec::new();
        for (number, file) in files.into_iter().enumerate() {
            let At { value: FittedFile { param, value, how }, line } = self.at(file);
            if number == FITTED_MAX {
                return self
                    .fail(line, "a third fitted parameter; expected at most two for all rows together");
            }
            if params.contains_key(&param) {
                return self.fail(line, format!("'{param}' is both fitted and given in params"));
            }
            fitted.push(Fitted { param, value: word(value), how });
        }
        Ok(fitted)
    }

    fn fail<T>(&self, line: usize, message: impl Into<String>) -> Result<T, ExperimentError> {
        Err(ExperimentError::File { file: self.file.to_owned(), line, message: message.into() })
    }
}

impl Experiment {
    /// Reads the text of a file. `name` is the file's stem; errors name it `file`. [`crate::Plan::new`] looks up
    /// machines, workloads and policies.
    ///
    /// # Errors
    /// Fails if the file is wrong, and names the line.
    pub fn parse(name: &str, file: &str, text: &str) -> Result<Experiment, ExperimentError> {
        let source = Source { file, text };
        let read: ExperimentFile = match toml::from_str(text) {
            Ok(read) => read,
            Err(error) => {
                let line = source.line(error.span().map_or(0, |span| span.start));
                return source.fail(line, error.message());
            }
        };
        let templates = Templates {
            machine: source.at(read.machine),
            workload: source.at(read.workload),
            policy_before: source.at(read.policy_before),
            policy_after: source.at(read.policy_after),
        };
        let seeds = source.at(read.seeds);
        if !(1..=10_000).contains(&seeds.value) {
            return source.fail(seeds.line, format!("seeds = {}; expected 1 to 10000", seeds.value));
        }
        let misses_of = read.misses_of.map(|date| source.at(date));
        if let Some(date) = misses_of.as_ref().filter(|date| date.value.time.is_some()) {
            return source
                .fail(date.line, format!("misses_of = {}; expected a date such as 2026-11-28", date.value));
        }
        let params = words(read.params);
        let fitted = source.fitted(read.fitted, &params)?;
        let mut experiment = Experiment {
            name: name.to_owned(),
            file: file.to_owned(),
            publication: read.publication.unwrap_or_else(|| name.to_owned()),
            title: read.title,
            text: read.text.trim().to_owned(),
            mechanism: read.mechanism.trim().to_owned(),
            misses: read.misses.trim().to_owned(),
            misses_of: misses_of.map(|date| date.value),
            templates,
            host: read.host,
            limit_s: read.limit_s,
            seeds: seeds.value,
            params,
            quick: words(read.quick),
            fitted,
            rows: Vec::new(),
            controls: Vec::new(),
        };
        let mut ids = BTreeSet::new();
        for row in read.row {
            let row = experiment.read_row(&source, source.at(row), &read.measure)?;
            experiment.check_id(&source, &row.id, row.line, &mut ids)?;
            experiment.rows.push(row);
        }
        for control in read.control {
            let control = experiment.read_control(&source, source.at(control), &read.measure)?;
            experiment.check_id(&source, &control.id, control.line, &mut ids)?;
            experiment.controls.push(control);
        }
        if experiment.rows.is_empty() && experiment.controls.is_empty() {
            return source.fail(1, "neither a [[row]] nor a [[control]]; expected at least one");
        }
        Ok(experiment)
    }

    fn check_id(
        &self,
        source: &Source<'_>,
        id: &str,
        line: usize,
        ids: &mut BTreeSet<String>,
    ) -> Result<(), ExperimentError> {
        if !id.strip_prefix(self.name.as_str()).is_some_and(|rest| rest.len() > 1 && rest.starts_with('/')) {
            return source.fail(line, format!("id '{id}'; expected '{}/' and its parameters", self.name));
        }
        if !ids.insert(id.to_owned()) {
            return source.fail(line, format!("id '{id}' is there twice"));
        }
        Ok(())
    }

    fn read_row(
        &self,
        source: &Source<'_>,
        row: At<RowFile>,
        measure: &Measure,
    ) -> Result<Row, ExperimentError> {
        let At { value: row, line } = row;
        let params = words(row.params);
        self.check_params(source, line, &params)?;
        let fail = |message: &str| source.fail(line, format!("{}: {message}", row.id));
        if row.after.is_some() && row.before.is_none() {
            return fail("a published 'after' without a 'before'");
        }
        if row.after.is_some() && row.gain_percent.is_some() {
            return fail("'gain_percent' is for rows without an 'after': the gain follows from the two");
        }
        let values = [row.before, row.after, row.before_stdev_percent, row.after_stdev_percent];
        if values.into_iter().flatten().any(|value| !(value.is_finite() && value >= 0.0))
            || row.before == Some(0.0)
        {
            return fail("published values are numbers above 0");
        }
        if row.gain_percent.is_some_and(|gain| !gain.is_finite()) {
            return fail("'gain_percent' is no number");
        }
        Ok(Row {
            measure: row.measure.unwrap_or_else(|| measure.clone()),
            id: row.id,
            line,
            params,
            before: row.before,
            after: row.after,
            before_stdev_percent: row.before_stdev_percent,
            after_stdev_percent: row.after_stdev_percent,
            gain_percent: row.gain_percent,
            score: row.score,
            robust: row.robust,
        })
    }

    fn read_control(
        &self,
        source: &Source<'_>,
        control: At<ControlFile>,
        measure: &Measure,
    ) -> Result<Control, ExperimentError> {
        let At { value: control, line } = control;
        let params = words(control.params);
        self.check_params(source, line, &params)?;
        let or = |own: Option<Spanned<String>>, all: &At<String>| {
            own.map_or_else(|| all.clone(), |own| source.at(own))
        };
        Ok(Control {
            id: control.id,
            line,
            params,
            measure: control.measure.unwrap_or_else(|| measure.clone()),
            templates: Templates {
                machine: or(control.machine, &self.templates.machine),
                workload: or(control.workload, &self.templates.workload),
                policy_before: or(control.policy_before, &self.templates.policy_before),
                policy_after: or(control.policy_after, &self.templates.policy_after),
            },
            expect: control.expect,
            because: control.because.trim().to_owned(),
        })
    }

    fn check_params(
        &self,
        source: &Source<'_>,
        line: usize,
        params: &BTreeMap<String, String>,
    ) -> Result<(), ExperimentError> {
        match self.fitted.iter().find(|fitted| params.contains_key(&fitted.param)) {
            Some(fitted) => source.fail(
                line,
                format!(
                    "'{}' is fitted, so it is one for all rows; expected other parameters here",
                    fitted.param
                ),
            ),
            None => Ok(()),
        }
    }
}
