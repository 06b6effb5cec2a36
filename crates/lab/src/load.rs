// SPDX-License-Identifier: GPL-2.0-or-later
//! Loads in tasks for each CPU, and workloads whose number of tasks is left open: `{tasks}` or `{tasks/4}`.

use std::fmt;
use std::str::FromStr;

/// The number of tasks for each CPU, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    numerator: u64,
    denominator: u64,
}

impl Load {
    /// The number of tasks on `nr_cpus` CPUs, rounded down.
    pub fn tasks(self, nr_cpus: usize) -> u64 {
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
            _ => Err(format!(
                "load '{text}'; expected the number of tasks for each CPU, such as 2 or 1/4, with numbers from 1 to {MAX}"
            )),
        }
    }
}

/// The text of a workload with a place for the number of tasks: `pingpong:pairs={tasks/2}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskTemplate {
    before: String,
    /// The number of tasks in each unit of the parameter.
    divisor: u64,
    after: String,
}

impl TaskTemplate {
    /// The text of the workload with at most `tasks` tasks; `None` if they are too few for one unit.
    pub fn fill(&self, tasks: u64) -> Option<String> {
        let units = tasks / self.divisor;
        (units > 0).then(|| format!("{}{units}{}", self.before, self.after))
    }
}

impl fmt::Display for TaskTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TaskTemplate { before, divisor, after } = self;
        match divisor {
            1 => write!(f, "{before}{{tasks}}{after}"),
            _ => write!(f, "{before}{{tasks/{divisor}}}{after}"),
        }
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
                "workload '{text}'; expected {{tasks}} in it once, or {{tasks/N}} if each unit has N tasks"
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
        for text in ["spin:tasks={tasks},x=1", "hackbench:groups={tasks/4}"] {
            assert_eq!(text.parse::<TaskTemplate>().unwrap().to_string(), text);
        }
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
