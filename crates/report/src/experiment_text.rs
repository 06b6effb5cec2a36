// SPDX-License-Identifier: GPL-2.0-or-later
//! Experiments for people: a table for each, scores beside those of guesses, and the controls.

use crate::drift::unsteady_text;
use crate::experiment::{ControlResult, ExperimentResult, Experiments, RowResult, Sign};
use crate::gain_text::points_words;
use crate::grid::{Cell, Grid, Row};
use crate::score::{Guess, ModelScore, Score};
use crate::style::{GAIN, LOSS, Style, paint};
use crate::table::{host_name, seeds};
use crate::uncertainty::{range_words, spread_cells};
use wakelab_machine::printable;
use wakelab_stats::Gain;

pub(crate) const NOTES: &str = "\
Gains in percent, positive is better; after ± half the 95 % interval: seed spread, not model error.
`.`: not published, or not known here. noise: combined published standard deviations.
sign: right, WRONG, either (the published change is within its noise), - (nothing to compare with), in brackets: not scored.
";

pub(crate) const DRAW_NOTES: &str = "\
90 % of draws: the range of the gain with the model's figures drawn from their ranges, all at once; chance: how much of its
variance is of the seeds; sign holds: in how many draws without that.
with model error: the range in which 90 % of published gains should lie: that of the draws, the publication's noise, and what
the model lacks, learned from the misses of other publications.
undecided: the sign of the gain holds in less than 80 % of the draws (docs/guide/uncertainty.md).
";

impl Experiments<'_> {
    /// Returns all tables as text, ending in a newline.
    pub fn text(&self, style: &Style) -> String {
        let mut out = String::new();
        for result in &self.results {
            out.push_str(&result.text(style));
            out.push('\n');
        }
        if self.results.len() > 1 && self.pooled.rows > 0 {
            out.push_str(&format!("all experiments\n{}\n", score_text(&self.pooled)));
        }
        out.push_str(NOTES);
        if self.pooled.model.is_some() || self.results.iter().any(ExperimentResult::has_draws) {
            out.push_str(DRAW_NOTES);
        }
        out
    }
}

impl ExperimentResult<'_> {
    /// Whether the model's figures were drawn.
    pub(crate) fn has_draws(&self) -> bool {
        self.rows.iter().any(|row| row.spread.is_some())
    }

    pub(crate) fn text(&self, style: &Style) -> String {
        let experiment = self.runs.experiment;
        let mut out = format!("{}: {}\n", printable(&experiment.name), printable(&experiment.title));
        self.about().iter().for_each(|line| out.push_str(&format!("  {line}\n")));
        if !self.rows.is_empty() {
            out.push('\n');
            out.push_str(&row_grid(&self.rows).text(style));
            let unsteady = unsteady_text(&self.rows);
            if !unsteady.is_empty() {
                out.push_str(&format!("\n{unsteady}"));
            }
        }
        if self.score.rows > 0 {
            out.push('\n');
            out.push_str(&score_text(&self.score));
        }
        if !self.controls.is_empty() {
            out.push_str("\ncontrols\n");
            for control in &self.controls {
                out.push_str(&control_text(control, style));
            }
        }
        out
    }

    /// Returns what was run, a line each.
    pub(crate) fn about(&self) -> Vec<String> {
        let experiment = self.runs.experiment;
        let case = self.rows.first().map(|row| {
            let case = row.runs.case;
            let [before, after] = &case.policies;
            let (host, seeds) = (host_name(experiment.host), seeds(&self.runs.seeds));
            format!("{}, host {host}, {before} -> {after}, {seeds}", case.machine)
        });
        let fitted = experiment.fitted.iter().map(|fitted| {
            format!("fitted to \"before\": {} = {}; {}", fitted.param, fitted.value, fitted.how)
        });
        let other = self.runs.has_other_length;
        let other = other.then(|| "of another length: only gains compare with what was published".to_owned());
        case.into_iter().chain(fitted).chain(other).collect()
    }
}

pub(crate) fn row_grid(rows: &[RowResult<'_>]) -> Grid {
    let has_draws = rows.iter().any(|row| row.spread.is_some());
    let of_draws =
        if has_draws { &["90 % of\ndraws", "\nchance", "sign\nholds", "with model\nerror"][..] } else { &[] };
    let heads = [
        "published\nbefore",
        "\nafter",
        "\nnoise %",
        "simulated\nbefore",
        "\nafter",
        "published\ngain %",
        "simulated\ngain %",
        "\nsign",
    ];
    let heads = heads.iter().chain(of_draws).map(|head| (*head).to_owned()).collect();
    Grid { title: "", heads, rows: rows.iter().map(|row| table_row(row, has_draws)).collect() }
}

/// The unit of a row stands behind its id, because any unit may occur.
fn table_row(result: &RowResult<'_>, has_draws: bool) -> Row {
    let row = result.row;
    let [before, after] = result.simulated.means;
    let (sign, color) = match result.sign {
        Sign::Right => ("right", Some(GAIN)),
        Sign::Wrong => ("WRONG", Some(LOSS)),
        Sign::WithinNoise => ("either", None),
        Sign::Unknown => ("-", None),
    };
    let undecided = result.spread.as_ref().is_some_and(|spread| spread.undecided);
    let (sign, color) = if undecided { ("undecided", None) } else { (sign, color) };
    let sign = if row.score || result.sign == Sign::Unknown { sign.to_owned() } else { format!("({sign})") };
    let plain = |text: String| Cell { text, color: None };
    let noise =
        if result.noise_percent > 0.0 { format!("{:.2}", result.noise_percent) } else { ".".to_owned() };
    let gain = match undecided {
        true => plain("undecided".to_owned()),
        false => simulated_gain(&result.simulated.gain),
    };
    let mut cells = vec![
        plain(figure(row.before)),
        plain(figure(row.after)),
        plain(noise),
        plain(figure(before)),
        plain(figure(after)),
        plain(result.published_gain_percent.map_or_else(|| ".".to_owned(), |gain| format!("{gain:+.2}"))),
        gain,
        Cell { text: sign, color },
    ];
    if has_draws {
        let [_, range, chance, held] = spread_cells(None, result.spread.as_ref());
        let whole = result.range_with_error.map_or_else(|| "-".to_owned(), range_words);
        cells.extend([range, chance, held, plain(whole)]);
    }
    (format!("{} {}", row.id, row.measure.unit()), "", cells)
}

/// A star would only repeat what the interval says, and a ratio would not compare with the published percent.
pub(crate) fn simulated_gain(gain: &Gain) -> Cell {
    Cell { text: points_words(gain), color: None }
}

/// Returns a figure with four digits; `.` if there is none.
pub(crate) fn figure(value: Option<f64>) -> String {
    value.map_or_else(
        || ".".to_owned(),
        |value| {
            let digits = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
            format!("{value:.*}", (3.0 - digits).clamp(0.0, 9.0) as usize)
        },
    )
}

/// Returns the score in a few lines.
pub(crate) fn score_text(score: &Score) -> String {
    let mut out = format!(
        "  signs right: {} of {} rows beyond their noise ({} %); over all {} scored rows {} %\n  \
         signs right where the prediction exceeds its own interval: {} of {}\n  rank correlation: {}\n",
        score.signs_right,
        score.rows_beyond_noise,
        number(score.signs_percent, 0),
        score.rows,
        number(score.all_rows_percent, 0),
        score.certain_signs_right,
        score.rows_certain,
        number(score.spearman, 2),
    );
    out.push_str(&format!(
        "  absolute error in points: mean {}, median {}\n",
        number(score.mean_absolute_error, 2),
        number(score.median_absolute_error, 2)
    ));
    let guess = |name: &str, guess: &Option<Guess>| {
        guess.as_ref().map_or_else(String::new, |guess| {
            format!(
                "  guessing {name} ({:+.2} %): mean {}, median {}, signs {} %\n",
                guess.gain_percent,
                number(guess.mean_absolute_error, 2),
                number(guess.median_absolute_error, 2),
                number(guess.signs_percent, 0)
            )
        })
    };
    out.push_str(&guess("the best constant", &score.best_constant));
    out.push_str(&guess("no change", &score.no_change));
    out.push_str(&format!("  mean error / that of the best constant: {}\n", number(score.error_ratio, 2)));
    if let Some(model) = &score.model {
        out.push_str(&model_text(model));
    }
    out
}

/// Returns what draws of the machines' figures score, each with its bar.
fn model_text(model: &ModelScore) -> String {
    let with_error = match model.rows_with_error {
        0 => String::new(),
        rows => format!(
            "    with the model's error, learned from other publications: {} of {rows} ({} %; bar 85 %)\n",
            model.inside_with_error,
            number(model.inside_with_error_percent, 0)
        ),
    };
    format!(
        "  with the model's figures drawn from their ranges:\n    \
         published gain inside the range of 90 % of draws: {} of {} rows ({} %)\n{with_error}    \
         signs right of the decided: {} of {} rows beyond their noise ({} %; bar 90 %)\n    \
         undecided: {} of {} rows ({} %; bar at most 15 %)\n    \
         of these beyond their noise: {} of {} ({} %); more than half chance of the seeds: {}\n",
        model.inside_range,
        model.rows,
        number(model.inside_range_percent, 0),
        model.decided_signs_right,
        model.decided_beyond_noise,
        number(model.decided_signs_percent, 0),
        model.undecided,
        model.rows,
        number(model.undecided_percent, 0),
        model.undecided_beyond_noise,
        model.undecided_beyond_noise + model.decided_beyond_noise,
        number(model.undecided_beyond_noise_percent, 0),
        model.undecided_by_chance,
    )
}

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

fn control_text(result: &ControlResult<'_>, style: &Style) -> String {
    let control = result.control;
    let case = result.runs.case;
    let verdict =
        if result.holds { paint(style, GAIN, "holds") } else { paint(style, LOSS, "DOES NOT HOLD") };
    format!(
        "  {}: {verdict}: expected {}, found {} %\n    {} on {}, {} -> {}: {}\n",
        control.id,
        control.expect.name(),
        simulated_gain(&result.simulated.gain).text,
        case.workload,
        case.machine,
        case.policies[0],
        case.policies[1],
        control.because
    )
}
