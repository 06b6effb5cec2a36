// SPDX-License-Identifier: GPL-2.0-or-later
//! The rows of a sweep as a table: the case and its parameters, machine, workload, policy and seed, how the run ended,
//! and a column for each metric, null where it is not defined. Times are whole nanoseconds.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use wakelab_report::{Column, Values, write_parquet};
use wakelab_stats::Gain;

use super::{Row, Sweep};

/// Columns whose names no parameter has.
const CASE: &str = "case";

/// Texts of which equal ones are kept once.
#[derive(Default)]
struct Texts(BTreeMap<String, Arc<str>>);

impl Texts {
    fn get(&mut self, text: &str) -> Option<Arc<str>> {
        if !self.0.contains_key(text) {
            self.0.insert(text.to_owned(), Arc::from(text));
        }
        self.0.get(text).cloned()
    }
}

impl Sweep {
    /// Writes all rows as Parquet.
    ///
    /// # Errors
    /// A write that fails.
    pub fn write_parquet(&self, out: impl Write + Send) -> std::io::Result<()> {
        write_parquet("sweep", [self.table()], out)
    }

    /// Returns all rows in order.
    pub fn table(&self) -> Vec<Column> {
        let rows: Vec<&Row> = self.rows().collect();
        let mut texts = Texts::default();
        let mut columns = self.of_cases(&mut texts, rows.iter().map(|row| (row.job.case, row.job.policy)));
        columns.push(Column::required("seed", Values::Seeds(rows.iter().map(|row| row.job.seed).collect())));
        let mut optional = |name: &str, of: &dyn Fn(&Row) -> Option<String>| {
            let values = rows.iter().map(|row| of(row).and_then(|text| texts.get(&text))).collect();
            Column::optional(name, Values::Texts(values))
        };
        columns.push(optional("ending", &|row| row.ending.clone()));
        columns.push(optional("error", &|row| row.error.clone()));
        columns.push(optional("result", &|row| row.result.clone()));
        for (at, column) in self.columns.iter().enumerate() {
            let values = rows.iter().map(|row| row.values.get(at).copied().flatten());
            let values = match column.is_time {
                true => Values::Longs(values.map(|value| value.map(|ns| ns.round() as u64)).collect()),
                false => Values::Doubles(values.collect()),
            };
            columns.push(Column::optional(&column.name, values));
        }
        columns
    }

    /// Returns the gain of each policy but the first in each case.
    pub fn gains(&self) -> Vec<Column> {
        let cases = 0..self.plan.cases.len();
        let pairs: Vec<(usize, usize)> =
            cases.flat_map(|case| (1..self.plan.policies.len()).map(move |policy| (case, policy))).collect();
        let gains: Vec<(u32, Gain)> =
            pairs.iter().map(|&(case, policy)| self.gain_of(case, policy)).collect();
        let mut columns = self.of_cases(&mut Texts::default(), pairs.iter().copied());
        let end = |at: usize| gains.iter().map(|(_, gain)| gain.ci_percent.map(|ci| ci[at])).collect();
        let metrics = pairs.iter().map(|&(case, _)| self.metric_name(case).map(Arc::from)).collect();
        columns.push(Column::optional("metric", Values::Texts(metrics)));
        let seeds = gains.iter().map(|(seeds, _)| Some(*seeds)).collect();
        columns.push(Column::required("seeds", Values::Ints(seeds)));
        let means = gains.iter().map(|(_, gain)| gain.gain_percent).collect();
        columns.push(Column::optional("gain_percent", Values::Doubles(means)));
        columns.push(Column::optional("low_percent", Values::Doubles(end(0))));
        columns.push(Column::optional("high_percent", Values::Doubles(end(1))));
        let marked = gains.iter().map(|(_, gain)| Some(u32::from(gain.marked))).collect();
        columns.push(Column::required("marked", Values::Ints(marked)));
        columns
    }

    /// The number of seeds of a case, and the gain of a policy with all of them. Nothing is marked unless all runs
    /// completed.
    pub(crate) fn gain_of(&self, case: usize, policy: usize) -> (u32, Gain) {
        let seeds = self.seeds_of(case);
        let gain = self.gain(case, policy, seeds);
        let completed = self.rows[case].values().all(Row::is_completed);
        (seeds, Gain { marked: gain.marked && completed, ..gain })
    }

    pub(crate) fn metric_name(&self, case: usize) -> Option<&str> {
        Some(&self.columns[self.metric(case)?].name)
    }

    /// The columns that say which case and policy a row is of.
    fn of_cases(&self, texts: &mut Texts, rows: impl Iterator<Item = (usize, usize)> + Clone) -> Vec<Column> {
        let plan = &self.plan;
        let cases = rows.clone().map(|(case, _)| Some(case as u64)).collect();
        let mut columns = vec![Column::required(CASE, Values::Longs(cases))];
        for (at, name) in plan.parameters.iter().enumerate() {
            let all: Vec<&str> = plan.cases.iter().map(|case| case.values[at].as_str()).collect();
            let numbers: Option<Vec<f64>> = all.iter().map(|text| text.parse().ok()).collect();
            let values = match numbers {
                Some(numbers) => Values::Doubles(rows.clone().map(|(case, _)| Some(numbers[case])).collect()),
                None => Values::Texts(rows.clone().map(|(case, _)| texts.get(all[case])).collect()),
            };
            columns.push(Column::required(name, values));
        }
        let mut text = |name: &str, of: &dyn Fn(usize, usize) -> String| {
            let values = rows.clone().map(|(case, policy)| texts.get(&of(case, policy))).collect();
            Column::required(name, Values::Texts(values))
        };
        columns.push(text("machine", &|case, _| plan.cases[case].machine.clone()));
        columns.push(text("workload", &|case, _| plan.cases[case].workload.clone()));
        columns.push(text("policy", &|case, policy| plan.cases[case].policies[policy].clone()));
        let cpus = rows.map(|(case, _)| Some(plan.nr_cpus(case) as u32)).collect();
        columns.push(Column::required("cpus", Values::Ints(cpus)));
        columns
    }
}
