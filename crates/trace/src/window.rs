// SPDX-License-Identifier: GPL-2.0-or-later
//! A part of a recording: what begins at one time and ends at another, as `perf script --time` has it.
//!
//! The model sees a recording that began and ended there, with all that the recording says of itself and of its tasks.
//! Of what happened before, it learns which tasks descend from the recorded command, and in which control groups and on
//! which CPUs tasks may run. Reading stops at the end, so a part from the beginning takes no longer than that part, and
//! memory grows with the part alone.
//!
//! It fails where a task's nice value changed before the part and no event of the part tells it.

use std::str::FromStr;

use crate::TraceError;
use crate::event::{Event, What};
use crate::text::time_ns;

/// A part of a recording, in nanoseconds since its first event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where it begins.
    pub from_ns: u64,
    /// Where it ends; `None` is the recording's end.
    pub to_ns: Option<u64>,
}

/// A text that is no [`Span`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected START,STOP in seconds since the first event, such as 10,20.5 or 10, or ,20.5, with START before STOP, found \
     `{0}`"
)]
pub struct SpanError(String);

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Span, SpanError> {
        let refuse = || SpanError(text.to_owned());
        let (from, to) = text.split_once(',').ok_or_else(refuse)?;
        let from_ns = if from.is_empty() { 0 } else { nanoseconds(from).ok_or_else(refuse)? };
        let to_ns = if to.is_empty() { None } else { Some(nanoseconds(to).ok_or_else(refuse)?) };
        let says_something = !(from.is_empty() && to.is_empty());
        let in_order = to_ns.is_none_or(|to_ns| from_ns < to_ns);
        if says_something && in_order { Ok(Span { from_ns, to_ns }) } else { Err(refuse()) }
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = |ns: u64| ns as f64 / 1e9;
        write!(to, "{},", seconds(self.from_ns))?;
        self.to_ns.map_or(Ok(()), |to_ns| write!(to, "{}", seconds(to_ns)))
    }
}

/// Reads seconds with at most nine decimals.
fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if are_digits(whole) && are_digits(fraction) { time_ns(whole, fraction) } else { None }
}

/// Where an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Before,
    Inside,
    After,
}

/// A part of a recording while it is read.
#[derive(Debug)]
pub(crate) struct Window {
    span: Span,
    first_ns: Option<u64>,
    /// From the first event to the last.
    length_ns: u64,
    switches: u64,
}

impl Window {
    pub(crate) fn new(span: Span) -> Self {
        Window { span, first_ns: None, length_ns: 0, switches: 0 }
    }

    /// Returns where an event stands.
    pub(crate) fn part(&mut self, event: &Event<'_>) -> Part {
        let first_ns = *self.first_ns.get_or_insert(event.time_ns);
        self.length_ns = event.time_ns.saturating_sub(first_ns);
        if self.span.to_ns.is_some_and(|to_ns| self.length_ns >= to_ns) {
            return Part::After;
        }
        if self.length_ns < self.span.from_ns {
            return Part::Before;
        }
        self.switches += u64::from(matches!(event.what, What::Switch { .. }));
        Part::Inside
    }

    /// Refuses a part without context switches.
    pub(crate) fn check(&self, file: &str) -> Result<(), TraceError> {
        if self.switches > 0 {
            return Ok(());
        }
        Err(TraceError::EmptyPart { file: file.to_owned(), span: self.span, length_ns: self.length_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        let span = |from_ns, to_ns| Ok(Span { from_ns, to_ns });
        assert_eq!("1,2.5".parse::<Span>(), span(1_000_000_000, Some(2_500_000_000)));
        assert_eq!("0.000000001,".parse::<Span>(), span(1, None));
        assert_eq!(",3".parse::<Span>(), span(0, Some(3_000_000_000)));
        for wrong in
            ["", ",", "1", "2,1", "1,1", "a,2", "-1,2", "1.0000000001,2", "99999999999,", "1,2,3", ".5,1"]
        {
            assert_eq!(wrong.parse::<Span>(), Err(SpanError(wrong.to_owned())), "{wrong}");
        }
        for text in ["1,2.5", "0.25,", "0,3"] {
            assert_eq!(text.parse::<Span>().expect("a span").to_string(), text);
        }
    }
}
