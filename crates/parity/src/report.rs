// SPDX-License-Identifier: GPL-2.0-or-later
//! The results: as text, as JSON, and as docs/design/parity.md.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::bench::{Figure, Part};
use crate::episodes::Comparison;
use crate::hammer::Hammered;
use crate::kernel::{ProgramSize, VERIFIED_INSNS_MAX};
use crate::topology::BENCH;

const DOCS: &str = "docs/design/parity.md";
const DOCS_TEMPLATE: &str = include_str!("docs.md.in");
/// The command that writes the figures.
const DOCS_COMMAND: &str = "cargo xtask parity --bench-only --write-docs";

/// The machine that the figures come from.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Where {
    kernel: String,
    cpu: String,
    nr_cpus_online: usize,
    /// Other load: the average number of runnable tasks over the last minute, before the run.
    load_average: String,
    virtual_machine: bool,
    compiler: &'static str,
    date: String,
}

/// Everything, as `--format json` prints it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    schema_version: u32,
    seed: u64,
    r#where: Where,
    pub(crate) programs: Vec<ProgramSize>,
    pub(crate) comparison: Option<Comparison>,
    pub(crate) hammer: Option<Hammered>,
    pub(crate) searches: Vec<Figure>,
}

impl Report {
    pub(crate) fn new(seed: u64, programs: Vec<ProgramSize>) -> Report {
        let searches = Vec::new();
        Report {
            schema_version: 1,
            seed,
            r#where: Where::here(),
            programs,
            comparison: None,
            hammer: None,
            searches,
        }
    }

    pub(crate) fn programs_text(&self) -> String {
        let mut text =
            format!("loaded in Linux {}; instructions that the verifier walked:\n", self.r#where.kernel);
        text += &self.programs_table();
        text.trim_end().to_owned()
    }

    fn programs_table(&self) -> String {
        let mut rows = vec![vec!["program".into(), "verified".into(), "limit".into(), "native bytes".into()]];
        rows.extend(self.programs.iter().map(|program| {
            let figures = [program.verified_insns, VERIFIED_INSNS_MAX, program.jited_bytes];
            [program.name.to_owned()].into_iter().chain(figures.map(|figure| figure.to_string())).collect()
        }));
        table(&rows, 1)
    }

    pub(crate) fn comparison_text(&self) -> String {
        let Some(found) = &self.comparison else { return String::new() };
        let mut text = format!(
            "parity: {} decisions among {} events agree, in {} episodes over {} policies (seed {}; every pair of values of two axes)",
            found.decisions, found.events, found.episodes, found.policies, self.seed
        );
        let list = |counts: &[(&str, u64)]| {
            let seen = counts.iter().filter(|(_, count)| *count > 0);
            seen.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
        };
        let never: Vec<&str> =
            found.by_reason.iter().filter(|(_, count)| *count == 0).map(|(name, _)| *name).collect();
        let _ = write!(text, "\n  reasons: {}", list(&found.by_reason));
        let _ = write!(text, "\n  never: {}", never.join(", "));
        let _ =
            write!(text, "\n  reads by distance: {}; claims lost: {}", list(&found.reads), found.lost_claims);
        text
    }

    pub(crate) fn hammer_text(&self) -> String {
        let Some(did) = &self.hammer else { return String::new() };
        format!(
            "two threads: {} runs, each policy on two machines, conserved all counters; {} flips, {} searches, {} claims, {} of them lost, {} steps of \
             tasks in {} ms",
            did.runs, did.flips, did.searches, did.claims, did.lost_claims, did.task_steps, did.elapsed_ms
        )
    }

    pub(crate) fn searches_text(&self) -> String {
        format!(
            "nanoseconds per idle search: median (lower to upper quartile)\n{}\nnanoseconds per wl_select(), and reads\n{}",
            self.searches_table(Part::Search),
            self.searches_table(Part::Select)
        )
        .trim_end()
        .to_owned()
    }

    /// A row for each machine and load, a column for each design.
    fn searches_table(&self, part: Part) -> String {
        let mut designs: Vec<&str> = Vec::new();
        let searches: Vec<&Figure> = self.searches.iter().filter(|figure| figure.part == part).collect();
        for figure in &searches {
            if !designs.contains(&figure.design.as_str()) {
                designs.push(&figure.design);
            }
        }
        let mut rows = vec![vec!["CPUs".to_owned(), "load".to_owned()]];
        rows[0].extend(designs.iter().map(|design| (*design).to_owned()));
        for row in searches.chunks(designs.len().max(1)) {
            let mut cells = vec![row[0].nr_cpus.to_string(), row[0].load.to_owned()];
            cells.extend(row.iter().map(|figure| cell(figure)));
            rows.push(cells);
        }
        table(&rows, 2)
    }

    /// Writes docs/design/parity.md. Returns its path in the project.
    pub(crate) fn write_docs(&self) -> Result<&'static str> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(DOCS);
        std::fs::write(&path, self.docs()).with_context(|| format!("cannot write {DOCS}"))?;
        Ok(DOCS)
    }

    fn docs(&self) -> String {
        let place = &self.r#where;
        let machines: String =
            BENCH.iter().map(|shape| format!("- {} CPUs: {shape}\n", shape.topology().cpus.len())).collect();
        let repetitions = self.searches.first().map_or(0, |figure| figure.repetitions);
        let overhead = |pick: fn(u64, u64) -> u64| {
            self.searches.iter().map(|figure| figure.overhead_ps).reduce(pick).unwrap_or(0)
        };
        let fields = [
            ("command", DOCS_COMMAND.to_owned()),
            ("date", place.date.clone()),
            ("kernel", place.kernel.clone()),
            ("cpu", place.cpu.clone()),
            ("cpus", place.nr_cpus_online.to_string()),
            ("virtual_machine", if place.virtual_machine { " of a virtual machine" } else { "" }.to_owned()),
            ("load", place.load_average.clone()),
            ("compiler", place.compiler.to_owned()),
            ("searches", self.searches_table(Part::Search)),
            ("selects", self.searches_table(Part::Select)),
            ("repetitions", repetitions.to_string()),
            ("least", nanoseconds(overhead(u64::min))),
            ("most", nanoseconds(overhead(u64::max))),
            ("machines", machines),
            ("programs", self.programs_table()),
        ];
        let fill = |text: String, (name, value): &(&str, String)| text.replace(&format!("@{name}@"), value);
        fields.iter().fold(DOCS_TEMPLATE.to_owned(), fill)
    }
}

fn cell(figure: &Figure) -> String {
    let [lower, upper] = figure.quartiles_ps.map(nanoseconds);
    let reads = format!("{}.{}", figure.reads_per_1000 / 1_000, figure.reads_per_1000 % 1_000 / 100);
    let time = format!("{} ({lower} to {upper})", nanoseconds(figure.median_ps));
    if figure.part == Part::Search { time } else { format!("{time}, {reads} reads") }
}

/// Formats picoseconds as nanoseconds, with a decimal if it is significant.
fn nanoseconds(ps: u64) -> String {
    match ps {
        0..100_000 => format!("{}.{}", ps / 1_000, ps % 1_000 / 100),
        _ => (ps / 1_000).to_string(),
    }
}

/// Lays out columns as wide as their widest cell: the first `left` aligned left, the others right.
fn table(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let _ = if column < left {
                write!(line, "{cell:<width$}  ")
            } else {
                write!(line, "{cell:>width$}  ")
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

impl Where {
    fn here() -> Where {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let date = Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
        Where {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpu: field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            load_average: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
            nr_cpus_online: std::thread::available_parallelism().map_or(1, usize::from),
            virtual_machine: field("flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            compiler: env!("PARITY_CLANG_VERSION"),
            date: date.map_or_else(
                |_| "unknown date".into(),
                |out| String::from_utf8_lossy(&out.stdout).trim().into(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_figures_keep_a_decimal() {
        assert_eq!(nanoseconds(18_349), "18.3");
        assert_eq!(nanoseconds(0), "0.0");
        assert_eq!(nanoseconds(3_400_900), "3400");
    }

    #[test]
    fn docs_have_no_field_left_open() {
        let docs = Report::new(1, Vec::new()).docs();
        assert!(docs.contains("88 CPUs: 2 nodes"), "{docs}");
        assert!(!docs.contains('@'), "{docs}");
    }

    #[test]
    fn tables_align() {
        let rows = [vec!["a".to_owned(), "long".to_owned()], vec!["bcd".to_owned(), "1".to_owned()]];
        assert_eq!(table(&rows, 1), "a    long\nbcd     1\n");
    }
}
