// SPDX-License-Identifier: GPL-2.0-or-later
//! What all HTML pages share: one file with its style inside, which needs nothing else; tables; and the pages of
//! experiments and maps.
//!
//! Every text from outside (names of tasks, machines and policies) is escaped.

use std::fmt::Write;

use wakelab_machine::printable;

use crate::experiment::{ControlResult, ExperimentResult, Experiments};
use crate::experiment_text::{NOTES, row_grid, score_text, simulated_gain};
use crate::grid::{Cell, Grid};
use crate::mechanism::change_grids;
use crate::sign_map::{KEY, SignMap};
use crate::style::{GAIN, LOSS};
use crate::svg::escaped;

const CSS: &str = include_str!("../html/report.css");

/// Returns a whole page. `body` and `scripts` are HTML, `command` says how to make the page again.
pub(crate) fn page(title: &str, body: &str, command: &str, scripts: &str) -> String {
    let title = escaped(&printable(title));
    let command = escaped(command);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>\n{CSS}</style>\n</head>\n\
         <body>\n<main>\n<h1>{title}</h1>\n{body}<p class=\"faint\">Made by <code>{command}</code></p>\n</main>\n\
         {scripts}</body>\n</html>\n"
    )
}

/// Returns a grid as a table; nothing if it has no rows.
pub(crate) fn grid_html(grid: &Grid) -> String {
    if grid.rows.is_empty() {
        return String::new();
    }
    let heads: String =
        grid.heads.iter().map(|head| format!("<th scope=\"col\">{}</th>", escaped(head))).collect();
    let caption =
        if grid.title.is_empty() { String::new() } else { format!("<caption>{}</caption>", grid.title) };
    let mut out = format!(
        "<div class=\"wide\"><table>{caption}\n<thead><tr><th></th><th></th>{heads}</tr></thead>\n<tbody>\n"
    );
    for (label, unit, cells) in &grid.rows {
        let cells: String = cells.iter().map(cell_html).collect();
        let label = escaped(&printable(label));
        // Writing to a string cannot fail.
        let _ = writeln!(out, "<tr><th scope=\"row\">{label}</th><td>{unit}</td>{cells}</tr>");
    }
    out + "</tbody></table></div>\n"
}

fn cell_html(cell: &Cell) -> String {
    let class = match cell.color {
        Some(color) if color == GAIN => " class=\"gain\"",
        Some(color) if color == LOSS => " class=\"loss\"",
        _ => "",
    };
    format!("<td{class}>{}</td>", escaped(&printable(cell.text.trim())))
}

/// Returns a paragraph.
fn paragraph(class: &str, text: &str) -> String {
    format!("<p class=\"{class}\">{}</p>\n", escaped(&printable(text)))
}

impl Experiments<'_> {
    /// Returns published beside simulated results as a page.
    pub fn html(&self, command: &str) -> String {
        let mut body: String = self.failures().iter().map(|line| paragraph("verdict worse", line)).collect();
        body += &NOTES.lines().map(|line| paragraph("faint", line)).collect::<String>();
        body += "<h2>All experiments together</h2>\n";
        body += &format!("<pre>{}</pre>\n", escaped(&score_text(&self.pooled)));
        self.results.iter().for_each(|result| body += &result.html());
        page("Published experiments, simulated", &body, command, "")
    }
}

impl ExperimentResult<'_> {
    fn html(&self) -> String {
        let experiment = self.runs.experiment;
        let mut out = format!("<h2>{}</h2>\n", escaped(&printable(&experiment.title)));
        out += &self.about().iter().map(|line| paragraph("faint", line.trim())).collect::<String>();
        out += &grid_html(&row_grid(&self.rows));
        if self.score.rows > 0 {
            out += &format!("<pre>{}</pre>\n", escaped(&score_text(&self.score)));
        }
        out += &self.controls.iter().map(control_html).collect::<String>();
        let grids = change_grids(&self.shown_cases());
        if !grids.is_empty() {
            out += "<details><summary>What changed most, before -&gt; after</summary>\n";
            out += &grids.iter().map(grid_html).collect::<String>();
            out += "</details>\n";
        }
        out
    }
}

fn control_html(result: &ControlResult<'_>) -> String {
    let (class, holds) = if result.holds { ("gain", "holds") } else { ("verdict worse", "DOES NOT HOLD") };
    let found = simulated_gain(&result.simulated.gain).text;
    let ControlResult { control, runs, .. } = result;
    let text = format!(
        "control {}: {holds}: expected {}, found {found} %. {} on {}, {} to {}: {}",
        control.id,
        control.expect.name(),
        runs.case.workload,
        runs.case.machine,
        runs.case.policies[0],
        runs.case.policies[1],
        control.because
    );
    paragraph(class, &text)
}

impl SignMap {
    /// Returns the maps as a page.
    pub fn html(&self, command: &str) -> String {
        let mut body = String::new();
        if !self.axes().over_best {
            // Inside a page, a picture needs no name of its format.
            let picture = self.svg().replacen(" xmlns=\"http://www.w3.org/2000/svg\"", " class=\"map\"", 1);
            body += &format!("<div class=\"wide\">{picture}</div>\n");
        }
        for policy in self.mapped() {
            body += &format!("<h2>{}</h2>\n", escaped(&printable(&self.axes().policies[policy])));
            body += &self.findings(policy).iter().map(|line| paragraph("", line)).collect::<String>();
            body += &grid_html(&self.grid(policy));
        }
        body += &KEY.iter().map(|line| paragraph("faint", line)).collect::<String>();
        page(&self.title(), &body, command, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_is_text() {
        let cell = Cell { text: " 1 <2 ".to_owned(), color: Some(GAIN) };
        let grid = Grid {
            title: "",
            heads: vec!["a&b".to_owned()],
            rows: vec![("<script>".to_owned(), "ms", vec![cell])],
        };
        let page = page("t<i>", &grid_html(&grid), "wakelab 'x<y'", "");
        for part in [
            "<h1>t&lt;i&gt;</h1>",
            "a&amp;b",
            "&lt;script&gt;",
            "<td class=\"gain\">1 &lt;2</td>",
            "'x&lt;y'",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert_eq!(grid_html(&Grid { rows: Vec::new(), ..grid }), "");
    }
}
