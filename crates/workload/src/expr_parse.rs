// SPDX-License-Identifier: GPL-2.0-or-later
//! Parses the expressions, references and ranges of workload files, with winnow.
//!
//! Operators, the weakest first: `||`, `&&`, one comparison (`== != < <= > >=`), `+ -`, `* / %`, a sign or `!`; then
//! numbers (`1_000`), words (`'pipe'`), names, brackets, and the functions `min(a, b)`, `max(a, b)` and
//! `if(condition, then, else)`. A hyphen before a letter is part of a name: `send-work-ns` is one name, `a - b` is a
//! difference. `data[g, i]` is a reference, and `i in 0..fds` a range.

use winnow::LocatingSlice;
use winnow::combinator::{
    alt, cut_err, delimited, eof, fail, not, opt, preceded, repeat, separated, terminated,
};
use winnow::error::{StrContext, StrContextValue};
use winnow::prelude::*;
use winnow::token::{literal, one_of, take_while};

use crate::expr::{Expr, ExprError, Function, Kind, Operator, Range, Reference};

/// Longest expression in bytes. This bounds the depth of the tree.
const LENGTH_MAX: usize = 1000;
/// Deepest nesting of brackets. This bounds the parser's recursion.
const DEPTH_MAX: usize = 32;

type Input<'a> = LocatingSlice<&'a str>;

/// Parses an expression that starts at `base` in its file.
pub(crate) fn parse_expr(text: &str, base: usize) -> Result<Expr, ExprError> {
    parse_all(any_of_or, text, base)
}

/// Parses a reference that starts at `base` in its file.
pub(crate) fn parse_reference(text: &str, base: usize) -> Result<Reference, ExprError> {
    parse_all(reference, text, base)
}

/// Parses a range that starts at `base` in its file.
pub(crate) fn parse_range(text: &str, base: usize) -> Result<Range, ExprError> {
    parse_all(range, text, base)
}

/// Converts offsets from the start of the expression to offsets from the start of the file.
trait Rebase {
    fn rebase(&mut self, base: usize);
}

impl Rebase for Expr {
    fn rebase(&mut self, base: usize) {
        self.offset += base;
        match &mut self.kind {
            Kind::Int(_) | Kind::Word(_) | Kind::Name(_) => {}
            Kind::Negate(inner) | Kind::Not(inner) => inner.rebase(base),
            Kind::Binary(_, left, right) => {
                left.rebase(base);
                right.rebase(base);
            }
            Kind::Call(_, arguments) => arguments.iter_mut().for_each(|argument| argument.rebase(base)),
        }
    }
}

impl Rebase for Reference {
    fn rebase(&mut self, base: usize) {
        self.offset += base;
        self.indices.iter_mut().for_each(|index| index.rebase(base));
    }
}

impl Rebase for Range {
    fn rebase(&mut self, base: usize) {
        self.first.rebase(base);
        self.end.rebase(base);
    }
}

fn parse_all<'a, T: Rebase>(
    parser: impl Parser<Input<'a>, T, winnow::error::ErrMode<winnow::error::ContextError>>,
    text: &'a str,
    base: usize,
) -> Result<T, ExprError> {
    if text.len() > LENGTH_MAX {
        let message = format!("an expression of {} bytes; at most {LENGTH_MAX} are allowed", text.len());
        return Err(ExprError { offset: base, message });
    }
    let mut depth = 0_usize;
    for (offset, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            let message = format!("more than {DEPTH_MAX} nested brackets");
            return Err(ExprError { offset: base + offset, message });
        }
    }
    let end = eof.context(expected("an operator or the end"));
    let mut parsed =
        delimited(blank, parser, (blank, cut_err(end))).parse(LocatingSlice::new(text)).map_err(|error| {
            let wanted: Vec<String> = error
                .inner()
                .context()
                .filter_map(|context| match context {
                    StrContext::Expected(value) => Some(value.to_string()),
                    _ => None,
                })
                .collect();
            let wanted = wanted.first().map_or("an expression", String::as_str);
            let offset =
                (0..=error.offset().min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
            let found: String = text[offset..].chars().take(12).collect();
            let found = if found.is_empty() { "the end".to_owned() } else { format!("'{found}'") };
            ExprError { offset: base + offset, message: format!("expected {wanted}, found {found}") }
        })?;
    parsed.rebase(base);
    Ok(parsed)
}

fn expected(what: &'static str) -> StrContext {
    StrContext::Expected(StrContextValue::Description(what))
}

fn blank(input: &mut Input<'_>) -> ModalResult<()> {
    take_while(0.., |c: char| c.is_ascii_whitespace()).void().parse_next(input)
}

/// Parses `what`, then blanks.
fn token<'a>(
    what: &'static str,
) -> impl Parser<Input<'a>, (), winnow::error::ErrMode<winnow::error::ContextError>> {
    (literal(what), blank).void()
}

fn name(input: &mut Input<'_>) -> ModalResult<String> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    let hyphenated = ('-', one_of(letter), take_while(0.., part)).void();
    (one_of(letter), take_while(0.., part), repeat::<_, _, (), _, _>(0.., hyphenated))
        .take()
        .map(str::to_owned)
        .parse_next(input)
}

fn number(input: &mut Input<'_>) -> ModalResult<i64> {
    let mut digits = (one_of('0'..='9'), take_while(0.., |c: char| c.is_ascii_digit() || c == '_')).take();
    let start = *input;
    match digits.parse_next(input)?.replace('_', "").parse() {
        Ok(value) => Ok(value),
        Err(_) => {
            *input = start;
            cut_err(fail.context(expected("a number below 2^63"))).parse_next(input)
        }
    }
}

fn word(input: &mut Input<'_>) -> ModalResult<String> {
    let inner = take_while(0.., |c: char| c != '\'' && c != '\n').map(str::to_owned);
    delimited('\'', inner, cut_err('\''.context(expected("a closing '")))).parse_next(input)
}

fn arguments(input: &mut Input<'_>) -> ModalResult<Vec<Expr>> {
    let comma = token(",");
    delimited(token("("), separated(1.., any_of_or, comma), cut_err(')'.context(expected("',' or ')'"))))
        .parse_next(input)
}

fn call_or_name(input: &mut Input<'_>) -> ModalResult<Kind> {
    let start = *input;
    let name = name.parse_next(input)?;
    let wanted = match name.as_str() {
        "min" => Some((Function::Min, 2)),
        "max" => Some((Function::Max, 2)),
        "sqrt" => Some((Function::Sqrt, 1)),
        "if" => Some((Function::If, 3)),
        _ => None,
    };
    if opt(not('(')).parse_next(input)?.is_some() {
        return Ok(Kind::Name(name));
    }
    let Some((function, count)) = wanted else {
        *input = start;
        return cut_err(fail.context(expected("a function: min, max, sqrt or if"))).parse_next(input);
    };
    let arguments = arguments.parse_next(input)?;
    if arguments.len() != count {
        *input = start;
        let what = match count {
            1 => "one argument",
            2 => "two arguments",
            _ => "three arguments: if(condition, then, else)",
        };
        return cut_err(fail.context(expected(what))).parse_next(input);
    }
    Ok(Kind::Call(function, arguments))
}

fn primary(input: &mut Input<'_>) -> ModalResult<Expr> {
    let bracketed = delimited(
        token("("),
        cut_err(any_of_or),
        cut_err((blank, ')').context(expected("an operator or ')'"))),
    );
    let leaf = alt((number.map(Kind::Int), word.map(Kind::Word), call_or_name))
        .with_span()
        .map(|(kind, span)| Expr { offset: span.start, kind });
    let what = "a number, a name, a 'word' or '('";
    terminated(alt((bracketed, leaf)).context(expected(what)), blank).parse_next(input)
}

fn signed(input: &mut Input<'_>) -> ModalResult<Expr> {
    let sign = opt(terminated(one_of(['-', '!']), blank)).with_span().parse_next(input)?;
    let (Some(sign), span) = sign else { return primary.parse_next(input) };
    let inner = Box::new(cut_err(primary).parse_next(input)?);
    let kind = if sign == '-' { Kind::Negate(inner) } else { Kind::Not(inner) };
    Ok(Expr { offset: span.start, kind })
}

/// Parses a left-associative chain: `next (operator next)*`.
fn chain<'a>(
    input: &mut Input<'a>,
    mut operators: impl FnMut(&mut Input<'a>) -> ModalResult<Operator>,
    mut next: impl FnMut(&mut Input<'a>) -> ModalResult<Expr>,
    at_most_one: bool,
) -> ModalResult<Expr> {
    let mut left = next(input)?;
    loop {
        let found =
            opt(terminated(|input: &mut Input<'a>| operators(input), blank)).with_span().parse_next(input)?;
        let (Some(operator), span) = found else { return Ok(left) };
        let right = cut_err(|input: &mut Input<'a>| next(input)).parse_next(input)?;
        left = Expr { offset: span.start, kind: Kind::Binary(operator, Box::new(left), Box::new(right)) };
        if at_most_one {
            return Ok(left);
        }
    }
}

fn product(input: &mut Input<'_>) -> ModalResult<Expr> {
    let operators = |input: &mut Input<'_>| {
        alt(('*'.value(Operator::Multiply), '/'.value(Operator::Divide), '%'.value(Operator::Remainder)))
            .parse_next(input)
    };
    chain(input, operators, signed, false)
}

fn sum(input: &mut Input<'_>) -> ModalResult<Expr> {
    let operators = |input: &mut Input<'_>| {
        alt(('+'.value(Operator::Add), '-'.value(Operator::Subtract))).parse_next(input)
    };
    chain(input, operators, product, false)
}

fn comparison(input: &mut Input<'_>) -> ModalResult<Expr> {
    let operators = |input: &mut Input<'_>| {
        alt((
            "==".value(Operator::Equal),
            "!=".value(Operator::NotEqual),
            "<=".value(Operator::LessEqual),
            ">=".value(Operator::GreaterEqual),
            "<".value(Operator::Less),
            ">".value(Operator::Greater),
        ))
        .parse_next(input)
    };
    chain(input, operators, sum, true)
}

fn all_of(input: &mut Input<'_>) -> ModalResult<Expr> {
    chain(input, |input| "&&".value(Operator::And).parse_next(input), comparison, false)
}

fn any_of_or(input: &mut Input<'_>) -> ModalResult<Expr> {
    chain(input, |input| "||".value(Operator::Or).parse_next(input), all_of, false)
}

fn reference(input: &mut Input<'_>) -> ModalResult<Reference> {
    let (name, span) = terminated(name, blank).with_span().context(expected("a name")).parse_next(input)?;
    let close = cut_err(']'.context(expected("',' or ']'")));
    let indices =
        opt(delimited(token("["), separated(1.., any_of_or, token(",")), close)).parse_next(input)?;
    Ok(Reference { offset: span.start, name, indices: indices.unwrap_or_default() })
}

fn range(input: &mut Input<'_>) -> ModalResult<Range> {
    let name = terminated(name, blank).context(expected("a name, as in 'i in 0..fds'")).parse_next(input)?;
    cut_err(token("in")).context(expected("'in', as in 'i in 0..fds'")).parse_next(input)?;
    let first = cut_err(any_of_or).parse_next(input)?;
    let end = cut_err(preceded(token("..").context(expected("an operator or '..'")), any_of_or))
        .parse_next(input)?;
    Ok(Range { name, first, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_and_ranges() {
        let found = parse_reference("data[g, i + 1]", 100).unwrap();
        assert_eq!((found.name.as_str(), found.offset, found.indices.len()), ("data", 100, 2));
        assert_eq!(found.indices[1].offset, 110);
        assert_eq!(parse_reference("ready", 0).unwrap().indices, []);
        assert!(parse_reference("data[1", 0).unwrap_err().message.contains("',' or ']'"));
        let range = parse_range("i in 0..fds * 2", 0).unwrap();
        assert_eq!((range.name.as_str(), range.first.offset, range.end.offset), ("i", 5, 12));
        assert!(parse_range("i 0..3", 0).unwrap_err().message.contains("'in'"));
        assert!(parse_range("i in 0", 0).unwrap_err().message.contains("'..'"));
    }
}
