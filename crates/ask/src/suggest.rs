// SPDX-License-Identifier: GPL-2.0-or-later
//! "Did you mean": the known name that is most similar to a mistyped one.

/// Returns the end of an error about `typed`: `; did you mean 'NAME'?`, or nothing if no known name is similar.
pub fn did_you_mean<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match wakelab_machine::nearest(typed, known) {
        Some(name) if name != typed => format!("; did you mean '{name}'?"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested() {
        let known = ["hackbench", "pingpong", "pgbench"];
        assert_eq!(did_you_mean("hackbensh", known), "; did you mean 'hackbench'?");
        assert_eq!(did_you_mean("pgbnch", known), "; did you mean 'pgbench'?");
        assert_eq!(did_you_mean("xyz", known), "");
        assert_eq!(did_you_mean("x", []), "");
    }
}
