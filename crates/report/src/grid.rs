// SPDX-License-Identifier: GPL-2.0-or-later
//! A table of text: rows of cells, cut into several tables if the page is too narrow for all columns.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};
use wakelab_machine::{printable, printable_lines};

use crate::style::{BOLD, Style, paint};

/// A cell and its colour, if it has one.
#[derive(Clone)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) color: Option<anstyle::Style>,
}

/// A label, a unit, and a cell for each column.
pub(crate) type Row = (String, &'static str, Vec<Cell>);

/// A table of text: heads of the columns, and rows.
pub(crate) struct Grid {
    pub(crate) title: &'static str,
    pub(crate) heads: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

impl Grid {
    /// Keeps only these columns, by index.
    pub(crate) fn with_columns(mut self, columns: &[usize]) -> Grid {
        self.heads = columns.iter().map(|&column| self.heads[column].clone()).collect();
        for (_, _, cells) in &mut self.rows {
            *cells = columns.iter().map(|&column| cells[column].clone()).collect();
        }
        self
    }

    /// Returns the grid, cut into as many tables as the page needs. Each has the first column.
    pub(crate) fn text(&self, style: &Style) -> String {
        self.text_with_first(1, style)
    }

    /// Returns the same with the `first` columns in each table.
    pub(crate) fn text_with_first(&self, first: usize, style: &Style) -> String {
        let mut out = String::new();
        if !self.title.is_empty() {
            out.push_str(&paint(style, BOLD, style.wrap(self.title).trim_end()));
            out.push('\n');
        }
        let mut next = first;
        loop {
            let mut end = self.heads.len();
            let mut lines = self.lines(first, next, end);
            let fits = |lines: &[String]| {
                style.width.is_none_or(|width| lines.iter().all(|line| line.chars().count() <= width))
            };
            while end > next + 1 && !fits(&lines) {
                end -= 1;
                lines = self.lines(first, next, end);
            }
            self.paint_cells(style, &mut lines, (0..first).chain(next..end));
            for line in lines {
                out.push_str(&line);
                out.push('\n');
            }
            if end >= self.heads.len() {
                return out;
            }
            next = end;
            out.push('\n');
        }
    }

    /// Returns the lines of a table of the `first` columns and those from `next` up to but not including `end`.
    fn lines(&self, first: usize, next: usize, end: usize) -> Vec<String> {
        let columns = || (0..first).chain(next..end);
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        let heads = [String::new(), String::new()]
            .into_iter()
            .chain(columns().map(|column| printable_lines(&self.heads[column]).into_owned()));
        table.set_header(heads);
        for (label, unit, cells) in &self.rows {
            let cells = columns().map(|column| cells[column].text.clone());
            table.add_row([printable(label).into_owned(), (*unit).to_owned()].into_iter().chain(cells));
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_constraint(ColumnConstraint::ContentWidth);
            column.set_padding(if index == 0 { (0, 1) } else { (1, 1) });
            if index > 1 {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// Puts colours around the cells that have one. Rows are the last lines, cells stand in them in order.
    fn paint_cells(&self, style: &Style, lines: &mut [String], columns: impl Iterator<Item = usize> + Clone) {
        if !style.color {
            return;
        }
        let first = lines.len() - self.rows.len();
        for (line, (label, _, cells)) in lines[first..].iter_mut().zip(&self.rows) {
            let mut from = printable(label).len();
            for column in columns.clone() {
                let text = cells[column].text.trim();
                let Some(at) = line[from..].find(text).map(|at| at + from) else { continue };
                from = at + text.len();
                if let Some(color) = cells[column].color {
                    let painted = paint(style, color, text);
                    line.replace_range(at..from, &painted);
                    from = at + painted.len();
                }
            }
        }
    }
}
