// SPDX-License-Identifier: GPL-2.0-or-later
//! Statistics for all comparisons, of simulated runs and of runs on a live kernel: gains over a baseline with their
//! intervals, the steady part of a run, percentiles of histograms, and units of metrics. The crate depends on no other
//! crate of wakelab.

mod gain;
mod metric;
mod model_error;
mod percentile;
mod rank;
mod spread;
mod steady;

pub use gain::{DrawGain, Gain, draw_gain, half_interval, mean, paired_gain, paired_move, round_percent};
pub use metric::{Direction, Unit};
pub use model_error::{model_error, outside, with_noise};
pub use percentile::percentile;
pub use rank::spearman;
pub use spread::{Deciding, Spread, deciding};
pub use steady::Steady;
