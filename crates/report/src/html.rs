// SPDX-License-Identifier: GPL-2.0-or-later
//! A comparison as one HTML file, which needs nothing else: verdicts, rows, what was recorded beside its replay, curves
//! of latencies, where time went, and a timeline of two runs (html/timeline.js).
//!
//! The tables are those of the text. Every text from outside (names of tasks, machines and policies) is escaped.

use std::fmt::Write;

use wakelab_lab::Timeline;
use wakelab_machine::printable;
use wakelab_sim::{Histogram, Outcome};

use crate::check::Check;
use crate::comparison::Comparison;
use crate::html_data::pack;
use crate::html_page::{self, grid_html};
use crate::html_plot::{curves, merged};
use crate::style::Style;
use crate::svg::escaped;
use crate::verdict::{Decided, Verdict};

const SCRIPTS: [&str; 3] = [
    include_str!("../html/timeline-data.js"),
    include_str!("../html/timeline-draw.js"),
    include_str!("../html/timeline.js"),
];

/// Names of the service that have curves.
const NAMES_PLOTTED: usize = 3;
/// Colours of the legend.
const COLOURS: usize = 6;

/// What a page has beside the comparison.
#[derive(Clone, Copy, Debug)]
pub struct PageParts<'a> {
    /// What each policy did with the first seed.
    pub timelines: &'a [Timeline],
    /// The recording beside its own replay, if there is one.
    pub check: Option<&'a Check>,
    /// How to make the page again.
    pub command: &'a str,
}

impl Comparison<'_> {
    /// Returns the comparison as a page.
    pub fn html(&self, parts: &PageParts<'_>) -> String {
        let only = self
            .only_result()
            .map(|result| format!("<section class=\"verdict\">\n<p>{}</p>\n</section>\n", escaped(&result)));
        let verdicts = self.verdicts();
        let verdicts = verdicts.iter().map(|verdict| self.verdict_html(verdict));
        self.page(&only.into_iter().chain(verdicts).collect::<String>(), parts)
    }

    /// Returns a page that begins with `answer`.
    pub(crate) fn page(&self, answer: &str, parts: &PageParts<'_>) -> String {
        let mut page = String::new();
        let plain = Style::default();
        for warning in self.endings() {
            page += &format!("<p class=\"verdict worse\">{}</p>\n", escaped(&warning));
        }
        page += answer;
        let columns = self.columns_shown();
        // One column cannot move.
        let alone = columns.len() == 1;
        page += if alone { "<h2>Result</h2>\n" } else { "<h2>What moved</h2>\n" };
        page += &grid_html(&self.rows_grid(&self.rows(alone), &columns));
        page += &self.key_html(&plain);
        page += &self.uncertainty_html(&columns);
        page += &self.timeline_html(parts.timelines);
        if let Some(check) = parts.check {
            page += &format!("<h2>Recorded, and replayed</h2>\n<p>{}</p>\n", escaped(&check.sentence()));
            page += &grid_html(&check.service_grid());
        }
        page += &self.curves_html();
        page += "<h2>Where waiting and time went</h2>\n";
        let waits = [self.waiting_grid(), self.behind_grid(), self.blocked_grid(), self.waiting_of_grid()];
        for grid in waits.into_iter().chain([self.time_grid(), self.reason_grid(), self.affine_grid()]) {
            page += &grid_html(&grid.with_columns(&columns));
        }
        page += "<h2>Everything</h2>\n<details><summary>All rows</summary>\n";
        page += &grid_html(&self.rows_grid(&self.rows(true), &columns));
        for grid in [self.service_grid(), self.group_grid()] {
            page += &grid_html(&grid.with_columns(&columns));
        }
        page += "</details>\n";
        html_page::page(&self.title(), &page, parts.command, &scripts(self, parts.timelines))
    }

    pub(crate) fn verdict_html(&self, verdict: &Verdict) -> String {
        let class = match verdict.decided {
            Decided::Better => " better",
            Decided::Worse => " worse",
            Decided::NoDifference | Decided::Undecided | Decided::Identical | Decided::Unknown => "",
        };
        let head = format!("{} against {}", printable(&verdict.policy), printable(&self.column_name(0)));
        let sentences: String =
            verdict.sentences.iter().map(|sentence| format!("<p>{}</p>\n", escaped(sentence))).collect();
        format!(
            "<section class=\"verdict{class}\">\n<strong>{}</strong>\n{sentences}</section>\n",
            escaped(&head)
        )
    }

    /// How gains spread over draws of the model's figures, and which figures decide; nothing if that was not asked
    /// for.
    fn uncertainty_html(&self, columns: &[usize]) -> String {
        let Some(uncertainty) = self.uncertainty.as_ref().filter(|_| columns.len() > 1) else {
            return String::new();
        };
        let about = uncertainty.about();
        let mut out = format!(
            "<h2>If the model's figures are others</h2>\n<p class=\"faint\">{}</p>\n",
            escaped(&about)
        );
        out += &grid_html(&self.uncertainty_grid(&self.rows(false), columns));
        for (grid, column) in uncertainty.deciding_grids().iter().zip(1..) {
            if columns.contains(&column) {
                let of = printable(&self.column_name(column)).into_owned();
                out += &format!("<h3>Which figures decide: {}</h3>\n", escaped(&of));
                out += &match grid.rows.is_empty() {
                    true => "<p>None of them alone, as far as these draws can tell.</p>\n".to_owned(),
                    false => grid_html(grid),
                };
            }
        }
        out
    }

    /// How to read the gains, and the error of replays.
    fn key_html(&self, style: &Style) -> String {
        let mut lines = self.reading_lines(style);
        if let Some(errors) = &self.replay_errors {
            lines += &format!(
                "replay error: how far a replay on {} under {} is from the recording\n",
                printable(&errors.of.machine),
                errors.of.policy
            );
        }
        lines.lines().fold(String::new(), |mut out, line| {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "<p class=\"faint\">{}</p>", escaped(line));
            out
        })
    }

    /// Curves of latencies: for each of the largest names of the service, or for all tasks.
    fn curves_html(&self) -> String {
        let heads = self.column_names();
        let figure = |title: &str, of: &dyn Fn(&Outcome) -> Option<&Histogram>| {
            let series: Vec<(&str, Histogram)> = self
                .policies
                .iter()
                .zip(&heads)
                .map(|(policy, head)| (head.as_str(), merged(policy.outcomes.iter().filter_map(of))))
                .collect();
            curves(title, &series)
        };
        let mut figures = Vec::new();
        for name in self.names_by_cpu_time().into_iter().take(NAMES_PLOTTED) {
            let of = |outcome: &'_ Outcome| outcome.by_name.iter().position(|known| known.name == name);
            let name = printable(name);
            figures.push(figure(&format!("{name}: wake-up latency"), &|outcome| {
                of(outcome).map(|index| &outcome.by_name[index].wakeup_latency)
            }));
            figures.push(figure(&format!("{name}: run delay"), &|outcome| {
                of(outcome).map(|index| &outcome.by_name[index].run_delay)
            }));
        }
        if figures.is_empty() {
            figures.push(figure("all tasks: wake-up latency", &|outcome| Some(&outcome.wakeup_latency)));
            figures.push(figure("all tasks: queue delay", &|outcome| Some(&outcome.queue_delay)));
        }
        let figures: String = figures.into_iter().flatten().collect();
        if figures.is_empty() {
            return String::new();
        }
        let legend: String = heads
            .iter()
            .enumerate()
            .map(|(index, head)| {
                let colour = index % COLOURS;
                let head = escaped(&printable(head));
                format!("<span><i style=\"background:var(--task-{colour})\"></i>{head}</span>\n")
            })
            .collect();
        format!(
            "<h2>How long tasks waited</h2>\n<p class=\"faint\">Each curve has the runs of all seeds; a lower curve is \
             better.</p>\n<p class=\"legend\">{legend}</p>\n<div class=\"plots\">\n{figures}</div>\n"
        )
    }

    fn timeline_html(&self, timelines: &[Timeline]) -> String {
        let options: String = self
            .column_names()
            .iter()
            .enumerate()
            .map(|(index, name)| format!("<option value=\"{index}\">{}</option>", escaped(&printable(name))))
            .collect();
        let panels = ["upper", "lower"].into_iter().take(timelines.len());
        let run = |id: &str| {
            format!(
                "<div class=\"run\"><label>Run: <select id=\"{id}-run\">{options}</select></label>\n\
                 <canvas id=\"{id}\" tabindex=\"0\" style=\"height:38vh;min-height:220px\" role=\"application\" \
                 aria-label=\"Timeline of the {id} run. Arrows move, plus and minus zoom, 0 shows everything.\"></canvas>\n\
                 <div class=\"tip\" id=\"{id}-tip\" hidden></div></div>\n"
            )
        };
        let of = |id: &str| if timelines.len() == 1 { String::new() } else { format!(", {id} run") };
        let worst =
            |id: &str| format!("<div><h3>Longest waits{}</h3><ol id=\"{id}-worst\"></ol></div>\n", of(id));
        let (runs, worst): (String, String) = panels.map(|id| (run(id), worst(id))).unzip();
        let seed = self.seeds[0];
        let what = if timelines.len() == 1 { "The run has" } else { "Both runs replay the same work with" };
        TIMELINE
            .replace("{what}", what)
            .replace("{seed}", &seed.to_string())
            .replace("{runs}", &runs)
            .replace("{worst}", &worst)
    }
}

const TIMELINE: &str = "<h2>Timeline</h2>\n\
<p>Each row is a CPU, or a task; colours are names of tasks. {what} seed {seed}. Where the axis is \
<em>work done</em>, the same place of runs has the same share of the service's CPU time behind it.</p>\n\
<p class=\"help faint\">Drag or arrow keys: move. Wheel or + and -: zoom. Shift and wheel, or up and down: rows. Click: \
mark a task in both runs, with arrows from its wakers. 0: everything.</p>\n\
<div class=\"controls\">\n\
<fieldset><legend>Axis</legend><label><input type=\"radio\" name=\"axis\" value=\"work\" checked>work done</label> \
<label><input type=\"radio\" name=\"axis\" value=\"time\">time</label></fieldset>\n\
<fieldset><legend>Rows</legend><label><input type=\"radio\" name=\"rows\" value=\"cpus\" checked>CPUs</label> \
<label><input type=\"radio\" name=\"rows\" value=\"tasks\">tasks</label></fieldset>\n\
<button id=\"whole\">Show everything</button></div>\n\
<p class=\"legend\" id=\"names\"></p>\n{runs}<p id=\"status\" role=\"status\" style=\"white-space:pre-line\"></p>\n\
<div class=\"worst\">\n{worst}</div>\n";

/// Returns the data and the code of the timeline.
fn scripts(comparison: &Comparison<'_>, timelines: &[Timeline]) -> String {
    let names = comparison.column_names();
    let (document, packed) = pack(comparison.scenarios, &names, timelines);
    // No text in it can end the element, because "<" is written as an escape.
    let json =
        serde_json::to_string(&document).expect("it has texts and numbers only").replace('<', "\\u003c");
    let mut out = format!("<script id=\"runs\" type=\"application/json\">{json}</script>\n");
    for (index, slices) in packed.iter().enumerate() {
        out += &format!("<script id=\"slices-{index}\" type=\"text/plain\">{slices}</script>\n");
    }
    out + "<script type=\"module\">\n" + &SCRIPTS.concat() + "</script>\n"
}
