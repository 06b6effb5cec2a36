// SPDX-License-Identifier: GPL-2.0-or-later
//! Templates: `{name}` in a text stands for a parameter's value.

use std::collections::{BTreeMap, BTreeSet};

/// Fills in the parameters. Adds the names of those that the text has to `used`.
///
/// # Errors
/// Fails, in words, for a brace without its partner and for an unknown name.
pub fn fill(
    text: &str,
    params: &BTreeMap<String, String>,
    used: &mut BTreeSet<String>,
) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find(['{', '}']) {
        let close = rest[open..].find('}').filter(|_| rest[open..].starts_with('{'));
        let Some(close) = close else { return Err(format!("a brace without its partner in '{text}'")) };
        let name = &rest[open + 1..open + close];
        let Some(value) = params.get(name) else {
            let known: Vec<&str> = params.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(format!("no parameter '{name}' for '{text}'; there are: {known}"));
        };
        used.insert(name.to_owned());
        out.push_str(&rest[..open]);
        out.push_str(value);
        rest = &rest[open + close + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_values() {
        let params: BTreeMap<_, _> =
            [("a".to_owned(), "1".to_owned()), ("b-c".to_owned(), "x".to_owned())].into();
        let mut used = BTreeSet::new();
        assert_eq!(fill("n:p={a},q={a},r={b-c}", &params, &mut used).unwrap(), "n:p=1,q=1,r=x");
        assert_eq!(used.into_iter().collect::<Vec<_>>(), ["a", "b-c"]);
        for bad in ["{d}", "{a", "a}", "}{", "{}"] {
            assert!(fill(bad, &params, &mut BTreeSet::new()).is_err(), "{bad}");
        }
        assert_eq!(fill("none", &params, &mut BTreeSet::new()).unwrap(), "none");
    }
}
