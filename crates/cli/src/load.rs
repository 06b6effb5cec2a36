// SPDX-License-Identifier: GPL-2.0-or-later
//! Loads in tasks a CPU, and workloads whose number of tasks is left open: `{tasks}` or `{tasks/4}`.

use std::str::FromStr;

/// Tasks a CPU, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    numerator: u64,
    denominator: u64,
}

impl Load {
    /// Tasks of so many CPUs, rounded down.
    pub(crate) fn tasks(self, nr_cpus: usize) -> u64 {
        nr_cpus as u64 * self.numerator / self.denominator
    }
}

impl FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Load, String> {
        const MAX: u64 = 1000;
        let (numerator, denominator) = text.split_once('/').unwrap_or((text, "1"));
        let part = |part: &str| part.parse::<u64>().ok().filter(|part| (1..=MAX).contains(part));
        match (part(numerator), part(denominator)) {
            (Some(numerator), Some(denominator)) => Ok(Load { numerator, denominator }),
            _ => Err(format!("load '{text}'; expected tasks a CPU, as 2 or 1/4, each number 1 to {MAX}")),
        }
    }
}

/// A workload's text with the place of its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskTemplate {
    before: String,
    /// Tasks that come with each unit of the parameter.
    divisor: u64,
    after: String,
}

impl TaskTemplate {
    /// The workload with so many tasks, or somewhat fewer; `None` if they are too few for one unit.
    pub(crate) fn fill(&self, tasks: u64) -> Option<String> {
        let units = tasks / self.divisor;
        (units > 0).then(|| format!("{}{units}{}", self.before, self.after))
    }
}

impl FromStr for TaskTemplate {
    type Err = String;

    fn from_str(text: &str) -> Result<TaskTemplate, String> {
        let parse = || {
            let (before, rest) = text.split_once("{tasks")?;
            let (divisor, after) = rest.split_once('}')?;
            let divisor = match divisor {
                "" => 1,
                divisor => divisor.strip_prefix('/')?.parse().ok().filter(|&divisor| divisor > 0)?,
            };
            if [before, after].iter().any(|part| part.contains(['{', '}'])) {
                return None;
            }
            Some(TaskTemplate { before: before.to_owned(), divisor, after: after.to_owned() })
        };
        parse().ok_or_else(|| {
            format!(
                "workload '{text}'; expected one {{tasks}} in it, or {{tasks/N}} where N tasks come together"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_fractions() {
        let tasks = |load: &str, cpus| load.parse::<Load>().unwrap().tasks(cpus);
        assert_eq!([tasks("1/8", 88), tasks("1/8", 12), tasks("4", 8), tasks("3/2", 5)], [11, 1, 32, 7]);
        for bad in ["", "0", "1/0", "-1", "0.5", "1/2/3", "1001", "x"] {
            assert!(bad.parse::<Load>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_number_of_tasks_is_filled_in() {
        let fill = |text: &str, tasks| text.parse::<TaskTemplate>().unwrap().fill(tasks);
        assert_eq!(fill("spin:tasks={tasks},x=1", 5).as_deref(), Some("spin:tasks=5,x=1"));
        assert_eq!(fill("hackbench:groups={tasks/4}", 11).as_deref(), Some("hackbench:groups=2"));
        assert_eq!(fill("hackbench:groups={tasks/4}", 3), None);
        for bad in [
            "spin",
            "{tasks",
            "{tasks/0}",
            "{tasks/x}",
            "{tasks}{tasks}",
            "{task}",
            "a{b}{tasks}",
            "{tasks4}",
        ] {
            assert!(bad.parse::<TaskTemplate>().is_err(), "{bad}");
        }
    }
}
