// SPDX-License-Identifier: GPL-2.0-or-later
//! The positions of draws: which draw has which figure low and which high.
//!
//! Few draws must tell many figures apart, so they are not independent. Draws are as many as a power of two, N. Each
//! figure has a column of Sylvester's Hadamard matrix: in half of the draws the figure lies in the lower half of its
//! range, in the others in the upper half, and any two columns agree in exactly half of the draws. So the mean result
//! of a figure's low draws differs from that of its high draws by that figure's own effect, and the others cancel out.
//! Columns of the matrix's second half come first: no two of them together look like a third, so that up to N/2
//! figures are not confused with pairs of figures either. More than N - 1 figures share columns, and those that share
//! one cannot be told apart.
//!
//! Within its half, a figure takes N/2 evenly spaced positions in a random order (a Latin hypercube), so that each
//! figure alone is spread over its range as evenly as N draws can be.
//!
//! Worked example, 4 draws of 2 figures with columns 2 and 3: `+ + - -` and `+ - - +` (signs of parity of draw AND
//! column). The first figure is low in draws 0 and 1, the second in 0 and 3.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::shuffle::shuffle;

/// Positions are numbers of 16 bits.
const POSITIONS: usize = 1 << 16;

/// Returns the positions by draw, then by figure. The same seed gives the same positions.
///
/// # Panics
/// `draws` is no power of two from 2 to 2^15.
pub(crate) fn positions(draws: usize, figures: usize, seed: u64) -> Vec<Vec<u16>> {
    assert!(draws.is_power_of_two() && (2..POSITIONS).contains(&draws), "{draws} draws");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let half = draws / 2;
    let mut columns: Vec<usize> = (half..draws).collect();
    shuffle(&mut columns, &mut random);
    let mut rest: Vec<usize> = (1..half).collect();
    shuffle(&mut rest, &mut random);
    columns.extend(rest);
    let mut positions = vec![vec![0; figures]; draws];
    for figure in 0..figures {
        let column = columns[figure % columns.len()];
        let mut ranks: [Vec<usize>; 2] = [(0..half).collect(), (half..draws).collect()];
        ranks.iter_mut().for_each(|ranks| shuffle(ranks, &mut random));
        let mut taken = [0; 2];
        for (draw, positions) in positions.iter_mut().enumerate() {
            let side = (draw & column).count_ones() as usize % 2;
            let rank = ranks[side][taken[side]];
            taken[side] += 1;
            // The middle of the rank's cell.
            positions[figure] = ((2 * rank + 1) * POSITIONS / (2 * draws)) as u16;
        }
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each figure takes each of the evenly spaced positions once.
    #[test]
    fn each_figure_is_spread_evenly() {
        for draws in [2, 4, 16, 64] {
            let positions = positions(draws, 40, 7);
            for figure in 0..40 {
                let mut taken: Vec<usize> = positions.iter().map(|draw| draw[figure].into()).collect();
                taken.sort_unstable();
                let even: Vec<usize> =
                    (0..draws).map(|rank| (2 * rank + 1) * POSITIONS / (2 * draws)).collect();
                assert_eq!(taken, even, "{draws} draws");
            }
        }
    }

    /// Of 64 draws, any two of 63 figures are on the same side in 32; and of 32 figures none is the product of two.
    #[test]
    fn figures_cancel_out() {
        let positions = positions(64, 63, 1);
        let side = |draw: usize, figure: usize| positions[draw][figure] >= 1 << 15;
        let same = |a: usize, b: usize| (0..64).filter(|&draw| side(draw, a) == side(draw, b)).count();
        for a in 0..63 {
            assert!((0..a).all(|b| same(a, b) == 32), "{a}");
        }
        for (a, b, c) in (0..32).flat_map(|a| (0..a).flat_map(move |b| (0..b).map(move |c| (a, b, c)))) {
            let product = (0..64).filter(|&draw| (side(draw, a) != side(draw, b)) == side(draw, c)).count();
            assert_eq!(product, 32, "{a} {b} {c}");
        }
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(positions(16, 9, 3), positions(16, 9, 3));
        assert_ne!(positions(16, 9, 3), positions(16, 9, 4));
    }
}
