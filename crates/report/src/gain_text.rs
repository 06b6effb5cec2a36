// SPDX-License-Identifier: GPL-2.0-or-later
//! Gains in words: percent up to ± 50 %, beyond that how many times better or worse.
//!
//! A gain in percent of a baseline misleads where it is large: "-3893 %" is 40 times as slow, and "+83 %" is 6 times as
//! fast. A ratio says both. It is the larger of the two means over the smaller.

use wakelab_stats::{Direction, Gain};

/// A gain beyond plus and minus this many percent is printed as a ratio.
const RATIO_MIN_PERCENT: f64 = 50.0;
/// A smaller half interval prints as 0.00: every seed gave the same.
const SAME_PERCENT: f64 = 0.005;

/// Returns a gain with digits that fit its interval, as comparisons print it: `+5.4% ±3.6`, `x2.4 worse ±3.3`, or
/// `+0.0%` where it is the same for every seed. `-` if there is no gain.
pub(crate) fn gain_words(gain: &Gain, direction: Direction) -> String {
    let Some(percent) = gain.gain_percent else { return "-".to_owned() };
    if let Some(ratio) = Ratio::new(gain, direction) {
        let without_interval = match ratio.times {
            times if times < 1.0 => 2,
            times if times < 10.0 => 1,
            _ => 0,
        };
        let decimals = ratio.half.filter(|half| *half >= SAME_PERCENT).map_or(without_interval, decimals);
        return ratio.words(decimals);
    }
    percent_of(gain, percent)
}

/// Returns a gain of `percent` with digits that fit its interval.
fn percent_of(gain: &Gain, percent: f64) -> String {
    match half_interval(gain) {
        None => format!("{percent:+.2}%"),
        // Adding 0 turns a negative zero into a positive one.
        Some(half) if half < SAME_PERCENT => format!("{:+.1}%", (percent * 10.0).round() / 10.0 + 0.0),
        Some(half) => {
            let decimals = decimals(half);
            format!("{percent:+.decimals$}% ±{half:.decimals$}")
        }
    }
}

/// Returns a gain as part of a sentence, which says which way it goes: `5.4 % ±3.6 worse`, `x2.4 worse ±3.3`.
pub(crate) fn gain_sentence(gain: &Gain, direction: Direction) -> String {
    let Some(percent) = gain.gain_percent else { return "not known".to_owned() };
    // An interval as wide as the ratio says less than one in percent.
    let is_clear = |ratio: Ratio| ratio.half.is_none_or(|half| half < ratio.times);
    if direction == Direction::Neutral || Ratio::new(gain, direction).is_some_and(is_clear) {
        return gain_words(gain, direction);
    }
    let way = if percent < 0.0 { "worse" } else { "better" };
    let words = percent_of(gain, percent);
    format!("{} {way}", words.trim_start_matches(['+', '-']).replacen('%', " %", 1))
}

/// Returns a gain with two decimals, for tables whose unit is percent: `+5.38 ±3.63`, or `x2.45 worse ±3.34`. `-` if
/// there is no gain.
pub(crate) fn percent_words(gain: &Gain, direction: Direction) -> String {
    Ratio::new(gain, direction).map_or_else(|| points_words(gain), |ratio| ratio.words(2))
}

/// Returns percent or percent points with two decimals, whatever their size: `+5.38 ±3.63`.
pub(crate) fn points_words(gain: &Gain) -> String {
    match (gain.gain_percent, half_interval(gain)) {
        (Some(percent), Some(half)) => format!("{percent:+.2} ±{half:.2}"),
        (Some(percent), None) => format!("{percent:+.2}"),
        (None, _) => "-".to_owned(),
    }
}

/// Whether the interval is so narrow that every seed gave the same, as far as is printed.
pub(crate) fn is_same_for_every_seed(gain: &Gain) -> bool {
    half_interval(gain).is_some_and(|half| half < SAME_PERCENT)
}

pub(crate) fn half_interval(gain: &Gain) -> Option<f64> {
    gain.ci_percent.map(|[low, high]| (high - low) / 2.0)
}

/// Returns the number of decimals that gives a half interval two digits, three at most for a small one.
fn decimals(half: f64) -> usize {
    match half {
        _ if half >= 10.0 => 0,
        _ if half >= 1.0 => 1,
        _ => 2,
    }
}

/// How many times better or worse.
struct Ratio {
    times: f64,
    /// Half the 95 % interval of `times`.
    half: Option<f64>,
    /// ` better`, ` worse`, or nothing for a neutral metric.
    verdict: &'static str,
}

impl Ratio {
    /// `None` if percent say it well enough.
    fn new(gain: &Gain, direction: Direction) -> Option<Ratio> {
        let percent = gain.gain_percent.filter(|percent| percent.abs() > RATIO_MIN_PERCENT)?;
        let growth = match direction {
            Direction::Lower => -percent,
            Direction::Higher | Direction::Neutral => percent,
        };
        // The value over the baseline.
        let times = 1.0 + growth / 100.0;
        let half = half_interval(gain).map(|half| half / 100.0);
        let verdict = match direction {
            Direction::Neutral => "",
            Direction::Lower | Direction::Higher if percent > 0.0 => " better",
            Direction::Lower | Direction::Higher => " worse",
        };
        if times > 1.0 || direction == Direction::Neutral {
            return (times > 0.0).then_some(Ratio { times, half, verdict });
        }
        // The baseline over the value: d(1/t) = dt / t^2. A value of 0 has no such ratio.
        (times > 0.0).then(|| Ratio {
            times: 1.0 / times,
            half: half.map(|half| half / (times * times)),
            verdict,
        })
    }

    fn words(&self, decimals: usize) -> String {
        let Ratio { times, half, verdict } = self;
        match half.filter(|half| *half >= SAME_PERCENT) {
            Some(half) => format!("x{times:.decimals$}{verdict} ±{half:.decimals$}"),
            None => format!("x{times:.decimals$}{verdict}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain(percent: f64, half: f64) -> Gain {
        Gain {
            gain_percent: Some(percent),
            ci_percent: Some([percent - half, percent + half]),
            marked: false,
        }
    }

    #[test]
    fn digits_follow_the_interval() {
        let words = |percent, half| gain_words(&gain(percent, half), Direction::Lower);
        assert_eq!(words(-5.384, 3.627), "-5.4% ±3.6");
        assert_eq!(words(-3.061, 17.22), "-3% ±17");
        assert_eq!(words(-0.061, 0.064), "-0.06% ±0.06");
        assert_eq!(words(0.0, 0.0), "+0.0%", "the same for every seed");
        assert_eq!(words(-0.189, 0.004), "-0.2%");
        assert_eq!(words(-0.01, 0.0), "+0.0%");
        let one_seed = Gain { gain_percent: Some(12.345), ..Gain::default() };
        assert_eq!(gain_words(&one_seed, Direction::Lower), "+12.35%");
        assert_eq!(gain_words(&Gain::default(), Direction::Lower), "-");
    }

    #[test]
    fn sentences_say_which_way_it_goes() {
        let words = |percent, half| gain_sentence(&gain(percent, half), Direction::Lower);
        assert_eq!(words(-5.384, 3.627), "5.4 % ±3.6 worse");
        assert_eq!(words(12.0, 0.0), "12.0 % better");
        assert_eq!(words(-144.73, 100.0), "x2.4 worse ±1.0");
        assert_eq!(words(99.3, 29.0), "99 % ±29 better", "x143 ±5918 says nothing");
        assert_eq!(gain_sentence(&Gain::default(), Direction::Lower), "not known");
        assert_eq!(gain_sentence(&gain(12.0, 0.0), Direction::Neutral), "+12.0%");
    }

    /// 3,893 % worse where less is better: 39.93 times the baseline; 1,460 % of it are 14.6 baselines.
    #[test]
    fn large_changes_are_ratios() {
        let words = |percent, half, direction| gain_words(&gain(percent, half), direction);
        assert_eq!(words(-3893.0, 1460.0, Direction::Lower), "x40 worse ±15");
        assert_eq!(words(-144.73, 333.93, Direction::Lower), "x2.4 worse ±3.3");
        // 80 % less: a fifth. Half an interval of 2 % of the baseline: 0.02 / 0.2^2 = 0.5.
        assert_eq!(words(80.0, 2.0, Direction::Lower), "x5.00 better ±0.50");
        assert_eq!(words(80.0, 0.0, Direction::Higher), "x1.8 better");
        assert_eq!(words(-60.0, 0.0, Direction::Higher), "x2.5 worse");
        assert_eq!(words(-60.0, 0.0, Direction::Neutral), "x0.40");
        assert_eq!(words(100.0, 0.0, Direction::Lower), "+100.0%", "the value is 0");
        assert_eq!(words(50.0, 0.0, Direction::Lower), "+50.0%");
        assert_eq!(words(99.352, 0.0, Direction::Lower), "x154 better");
        assert_eq!(percent_words(&gain(-144.73, 333.93), Direction::Lower), "x2.45 worse ±3.34");
        assert_eq!(points_words(&gain(-144.73, 333.93)), "-144.73 ±333.93");
    }
}
