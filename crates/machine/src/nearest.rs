// SPDX-License-Identifier: GPL-2.0-or-later
//! "Did you mean": finds the known word that is nearest to an unknown one.

/// Least similarity (Jaro, 0 to 1) at which a word is offered. clap uses the same, so names and options behave alike.
const SIMILARITY_MIN: f64 = 0.7;

/// Returns the word of `known` most similar to `word`, the first of several; `None` if none is similar.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut best = None;
    let mut best_similarity = SIMILARITY_MIN;
    for candidate in known {
        let similarity = strsim::jaro(word, candidate);
        if similarity > best_similarity {
            (best, best_similarity) = (Some(candidate), similarity);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_words_find_their_neighbour() {
        let known = ["send", "recv", "repeat", "compute-ns", "sleep-ns"];
        for (word, expected) in [
            ("recieve", Some("recv")),
            ("repaet", Some("repeat")),
            ("sleep_ns", Some("sleep-ns")),
            ("computens", Some("compute-ns")),
            ("zzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}
