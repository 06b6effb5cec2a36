// SPDX-License-Identifier: GPL-2.0-or-later
//! What the rows with a published gain came to when they were last run: `experiments/results.tsv`, a line each. The
//! score of all rows together is made from it, although they are run at different times, and the model's error is
//! learned from it (crates/stats/src/model_error.rs). After an empty line it has a second table: the negative controls,
//! and whether they held.
//!
//! A row's own publication has no say in its model's error, because errors of one publication are alike, and because
//! nothing about a row may be learned from its own result.

use wakelab_experiment::RESULTS;
use wakelab_stats::{model_error, outside, round_percent, with_noise};

use crate::error::ReportError;
use crate::score::{Model, Pair};

/// The columns; the last six are empty if nothing was drawn.
const HEAD: &str = "publication\texperiment\trow\tpublished\tnoise\tgain\tcertain\tdrawn_gain\tlow\thigh\tdraws\tchance\tundecided";
const COLUMNS: usize = 13;
const CONTROLS_HEAD: &str = "experiment\tcontrol\tholds";

/// A row of a publication that was run. Gains and noise are in percent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordedRow {
    pub(crate) publication: String,
    pub(crate) experiment: String,
    pub(crate) id: String,
    pub(crate) published: f64,
    pub(crate) noise: f64,
    pub(crate) gain: f64,
    /// The interval of the gain over the seeds has no 0 in it.
    pub(crate) certain: bool,
    /// Of the last run with draws of the model's figures.
    pub(crate) drawn: Option<RecordedDraws>,
}

/// A negative control that was run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordedControl {
    pub(crate) experiment: String,
    pub(crate) id: String,
    pub(crate) holds: bool,
}

/// What draws of the model's figures said of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordedDraws {
    /// The gain with the figures as they are, of the same run.
    pub(crate) gain: f64,
    /// The range of 90 % of the draws.
    pub(crate) range: [f64; 2],
    pub(crate) draws: usize,
    /// How much of the spread is of the seeds, in percent, if that is known.
    pub(crate) chance: Option<f64>,
    pub(crate) undecided: bool,
}

impl RecordedDraws {
    /// Returns the range with the publication's noise.
    fn with_noise(&self, noise: f64) -> [f64; 2] {
        with_noise(self.gain, self.range, noise)
    }
}

/// Recorded rows and controls, in the order of the experiments' names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    pub(crate) rows: Vec<RecordedRow>,
    pub(crate) controls: Vec<RecordedControl>,
}

impl Recorded {
    /// Returns the rows that wakelab was built with.
    ///
    /// # Panics
    /// Never: a test reads them.
    pub fn built_in() -> Recorded {
        Recorded::parse("experiments/results.tsv", RESULTS).expect("a test reads it")
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// A line that is wrong, with its number.
    pub fn parse(file: &str, text: &str) -> Result<Recorded, ReportError> {
        let wrong = |line: usize, message: &str| ReportError::Results {
            file: file.to_owned(),
            line: line + 1,
            message: message.to_owned(),
        };
        let mut all = Recorded::default();
        let mut lines = text.lines().enumerate();
        if lines.next().is_some_and(|(_, head)| head != HEAD) {
            return Err(wrong(0, "unknown columns"));
        }
        for (at, line) in lines.by_ref().take_while(|(_, line)| !line.is_empty()) {
            all.rows.push(row(line).ok_or_else(|| wrong(at, "expected a row with its figures"))?);
        }
        if let Some((at, _)) = lines.next().filter(|(_, head)| *head != CONTROLS_HEAD) {
            return Err(wrong(at, "unknown columns"));
        }
        for (at, line) in lines {
            all.controls
                .push(control(line).ok_or_else(|| wrong(at, "expected a control and whether it holds"))?);
        }
        Ok(all)
    }

    /// Returns the text of the file.
    pub fn text(&self) -> String {
        let mut out = format!("{HEAD}\n");
        for row in &self.rows {
            let drawn = row.drawn.as_ref().map_or_else(
                || "\t\t\t\t\t".to_owned(),
                |drawn| {
                    let [low, high] = drawn.range;
                    let (gain, draws, undecided) = (drawn.gain, drawn.draws, drawn.undecided);
                    let chance = drawn.chance.map_or_else(String::new, |share| format!("{share:.0}"));
                    format!("{gain:.2}\t{low:.2}\t{high:.2}\t{draws}\t{chance}\t{undecided}")
                },
            );
            let RecordedRow { publication, experiment, id, published, noise, gain, certain, .. } = row;
            out.push_str(&format!(
                "{publication}\t{experiment}\t{id}\t{published:.2}\t{noise:.2}\t{gain:.2}\t{certain}\t{drawn}\n"
            ));
        }
        out.push_str(&format!("\n{CONTROLS_HEAD}\n"));
        for RecordedControl { experiment, id, holds } in &self.controls {
            out.push_str(&format!("{experiment}\t{id}\t{holds}\n"));
        }
        out
    }

    /// Puts the rows of an experiment that was run in the place of those known; `is_part`: of those with the same ids
    /// only. A row keeps its draws if it has no new ones. New draws leave a known gain, which is of more seeds than
    /// draws have, as a rule.
    pub(crate) fn replace(&mut self, experiment: &str, mut rows: Vec<RecordedRow>, is_part: bool) {
        for row in &mut rows {
            let Some(known) = self.rows.iter().find(|known| known.id == row.id) else { continue };
            match row.drawn {
                Some(_) => (row.gain, row.certain) = (known.gain, known.certain),
                None => row.drawn = known.drawn.clone(),
            }
        }
        if is_part {
            let known = self.rows.iter().filter(|known| known.experiment == experiment);
            let mut all: Vec<RecordedRow> = known.cloned().collect();
            for row in rows {
                match all.iter_mut().find(|known| known.id == row.id) {
                    Some(known) => *known = row,
                    None => all.push(row),
                }
            }
            rows = all;
        }
        self.rows.retain(|known| known.experiment != experiment);
        let at = self.rows.partition_point(|known| *known.experiment < *experiment);
        self.rows.splice(at..at, rows);
    }

    /// Puts the controls of an experiment that were run in the place of those known.
    pub(crate) fn replace_controls(&mut self, experiment: &str, controls: Vec<RecordedControl>) {
        self.controls.retain(|known| known.experiment != experiment);
        let at = self.controls.partition_point(|known| *known.experiment < *experiment);
        self.controls.splice(at..at, controls);
    }

    /// Returns the model's error of rows of a publication in percentage points, from the rows of all others.
    pub(crate) fn model_error(&self, publication: &str) -> Option<f64> {
        let others = self.rows.iter().filter(|row| row.publication != publication);
        let distance =
            |row: &RecordedRow| Some(outside(row.published, row.drawn.as_ref()?.with_noise(row.noise)));
        model_error(&others.filter_map(distance).collect::<Vec<_>>()).map(round_percent)
    }

    /// Returns the rows for a score. Each range has the error that other publications say.
    pub(crate) fn pairs(&self) -> Vec<Pair> {
        let pair = |row: &RecordedRow| {
            let RecordedRow { published, noise, gain: predicted, certain, .. } = *row;
            let error = self.model_error(&row.publication);
            let model = row.drawn.as_ref().map(|drawn| {
                let whole = error.map(|error| widened(drawn.gain, drawn.range, noise, error));
                let is_inside = |[low, high]: [f64; 2]| (low..=high).contains(&published);
                Model {
                    undecided: drawn.undecided,
                    by_chance: drawn.chance.is_some_and(|share| share > 50.0),
                    inside: is_inside(drawn.range),
                    inside_with_error: whole.map(is_inside),
                }
            });
            Pair { published, noise, predicted, certain, model }
        };
        self.rows.iter().map(pair).collect()
    }
}

/// Returns a range of draws with the publication's noise and the model's error.
pub(crate) fn widened(gain: f64, range: [f64; 2], noise: f64, error: f64) -> [f64; 2] {
    let [low, high] = with_noise(gain, range, noise);
    [low - error, high + error].map(round_percent)
}

fn row(line: &str) -> Option<RecordedRow> {
    let cells: [&str; COLUMNS] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
    let [
        publication,
        experiment,
        id,
        published,
        noise,
        gain,
        certain,
        drawn_gain,
        low,
        high,
        draws,
        chance,
        undecided,
    ] = cells;
    let number = |cell: &str| cell.parse::<f64>().ok().filter(|number| number.is_finite());
    let drawn = match drawn_gain {
        "" => None,
        _ => Some(RecordedDraws {
            gain: number(drawn_gain)?,
            range: [number(low)?, number(high)?],
            draws: draws.parse().ok()?,
            chance: if chance.is_empty() { None } else { Some(number(chance)?) },
            undecided: undecided.parse().ok()?,
        }),
    };
    Some(RecordedRow {
        publication: publication.to_owned(),
        experiment: experiment.to_owned(),
        id: id.to_owned(),
        published: number(published)?,
        noise: number(noise)?,
        gain: number(gain)?,
        certain: certain.parse().ok()?,
        drawn,
    })
}

fn control(line: &str) -> Option<RecordedControl> {
    let [experiment, id, holds] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
    Some(RecordedControl { experiment: experiment.to_owned(), id: id.to_owned(), holds: holds.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A control of experiment `of`.
    fn control(of: &str, holds: bool) -> RecordedControl {
        RecordedControl { experiment: of.to_owned(), id: format!("{of}/control=x"), holds }
    }

    /// A row of publication `of` whose draws leave a published gain of 10 `outside` points below it.
    fn recorded(of: &str, number: u32, outside: f64) -> RecordedRow {
        let range = [0.0, 10.0 - outside];
        RecordedRow {
            publication: of.to_owned(),
            experiment: of.to_owned(),
            id: format!("{of}/{number}"),
            published: 10.0,
            noise: 0.0,
            gain: 1.0,
            certain: true,
            drawn: Some(RecordedDraws { gain: 0.0, range, draws: 64, chance: Some(25.0), undecided: false }),
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        let mut rows: Vec<RecordedRow> = vec![recorded("a", 1, 2.0), recorded("b", 1, -3.0)];
        rows[1].drawn = None;
        rows.push(recorded("c", 1, 4.0));
        rows[2].drawn.as_mut().unwrap().chance = None;
        let all = Recorded { rows, controls: vec![control("a", true), control("c", false)] };
        let text = all.text();
        assert_eq!(Recorded::parse("x.tsv", &text).unwrap(), all);
        assert_eq!(Recorded::parse("x.tsv", "").unwrap(), Recorded::default());
        let (rows, _) = text.split_once("\n\n").unwrap();
        let of_rows = Recorded { controls: Vec::new(), ..all.clone() };
        assert_eq!(Recorded::parse("x.tsv", rows).unwrap(), of_rows, "without the second table");
        let error = |text: &str| Recorded::parse("x.tsv", text).unwrap_err().to_string();
        assert_eq!(error(&format!("{rows}\nb\tb\n")), "x.tsv:5: expected a row with its figures");
        assert_eq!(error(&format!("{rows}\n\nb\tb\n")), "x.tsv:6: unknown columns");
        assert_eq!(error(&format!("{text}b\tb\n")), "x.tsv:9: expected a control and whether it holds");
        assert_eq!(error("publication\n"), "x.tsv:1: unknown columns");
        Recorded::built_in();
    }

    /// Of `a` ten rows miss by 1 to 10 points, of `b` ten by 5. For `b` the 10th of ten counts, 10; for `a` it is 5, so
    /// that the five rows that miss by more are outside.
    #[test]
    fn a_publication_has_no_say_in_its_own_error() {
        let rows = (1..=10).map(|miss| recorded("a", miss, f64::from(miss)));
        let rows = rows.chain((1..=10).map(|number| recorded("b", number, 5.0))).collect();
        let all = Recorded { rows, ..Recorded::default() };
        assert_eq!([all.model_error("a"), all.model_error("b")], [Some(5.0), Some(10.0)]);
        assert_eq!(all.model_error("c"), Some(9.0), "the 19th of twenty");
        let inside =
            all.pairs().iter().filter(|pair| pair.model.unwrap().inside_with_error == Some(true)).count();
        assert_eq!(inside, 15);
        assert_eq!(Recorded::default().model_error("a"), None);
    }

    #[test]
    fn rows_replace_those_of_their_experiment() {
        let rows = vec![recorded("a", 1, 2.0), recorded("c", 1, 2.0), recorded("c", 2, 2.0)];
        let mut all = Recorded { rows, controls: vec![control("a", true), control("c", false)] };
        let without_draws = |of, gain| RecordedRow { gain, drawn: None, ..recorded(of, 1, 2.0) };
        all.replace("b", vec![without_draws("b", 3.0)], false);
        all.replace("c", vec![without_draws("c", 4.0)], false);
        let found: Vec<_> = all.rows.iter().map(|row| (&*row.id, row.gain, row.drawn.is_some())).collect();
        assert_eq!(found, [("a/1", 1.0, true), ("b/1", 3.0, false), ("c/1", 4.0, true)]);
        // A part leaves the other rows; draws leave the gain, unless none is known.
        let drawn = RecordedRow { gain: 7.0, ..recorded("a", 1, 3.0) };
        all.replace("a", vec![RecordedRow { gain: 7.0, ..recorded("a", 2, 2.0) }], true);
        all.replace("a", vec![drawn.clone()], true);
        let of_a = &all.rows[..2];
        assert_eq!((of_a[0].gain, &of_a[0].drawn), (1.0, &drawn.drawn));
        assert_eq!((&*of_a[1].id, of_a[1].gain), ("a/2", 7.0));
        all.replace_controls("b", vec![control("b", false)]);
        all.replace_controls("c", vec![control("c", true)]);
        assert_eq!(all.controls, [control("a", true), control("b", false), control("c", true)]);
    }
}
