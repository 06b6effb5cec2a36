// SPDX-License-Identifier: GPL-2.0-or-later
//! Integer expressions of C: array lengths, values of enumerations, `#define`d constants, `#if`.

use std::collections::BTreeMap;

use crate::token::{Kind, Token};

/// Definitions of names: `#define`d text as tokens, and values of enumerations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) defines: BTreeMap<String, Vec<Token>>,
    pub(crate) values: BTreeMap<String, i128>,
}

/// Returns the value of an expression, or the reason why it has none.
pub(crate) fn evaluate(tokens: &[Token], names: &Names) -> Result<i128, String> {
    let mut reader = Reader { tokens, at: 0, names, depth: 0 };
    reader.whole()
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    names: &'a Names,
    depth: u32,
}

/// Binary operators by precedence, the loosest first.
const LEVELS: [&[&str]; 8] = [
    &["||"],
    &["&&"],
    &["|"],
    &["&"],
    &["==", "!="],
    &["<<", ">>", "<=", ">=", "<", ">"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Reader<'_> {
    fn whole(&mut self) -> Result<i128, String> {
        let value = self.level(0)?;
        match self.tokens.get(self.at) {
            None => Ok(value),
            Some(token) => Err(format!("found {}; expected the end of an expression", text(&token.kind))),
        }
    }

    fn level(&mut self, level: usize) -> Result<i128, String> {
        let Some(operators) = LEVELS.get(level) else { return self.operand() };
        let mut value = self.level(level + 1)?;
        while let Some(operator) = operators.iter().find(|operator| self.is_at(operator)) {
            self.at += operator.len();
            let right = self.level(level + 1)?;
            value = apply(operator, value, right)
                .ok_or_else(|| format!("{value} {operator} {right} has no value"))?;
        }
        Ok(value)
    }

    /// Whether this operator comes next, and not a longer one.
    fn is_at(&self, operator: &str) -> bool {
        let sign = |at: usize| match self.tokens.get(at).map(|token| &token.kind) {
            Some(Kind::Sign(sign)) => Some(*sign),
            _ => None,
        };
        let longer = match operator {
            "|" | "&" | "<" | ">" => {
                sign(self.at + 1).is_some_and(|next| matches!(next, '|' | '&' | '<' | '>' | '='))
            }
            _ => false,
        };
        !longer && operator.chars().enumerate().all(|(index, c)| sign(self.at + index) == Some(c))
    }

    fn operand(&mut self) -> Result<i128, String> {
        let token =
            self.tokens.get(self.at).ok_or("found nothing; expected a number, a name or a parenthesis")?;
        self.at += 1;
        match &token.kind {
            Kind::Number(number) => Ok(*number),
            Kind::Sign('-') => Ok(-self.operand()?),
            Kind::Sign('+') => self.operand(),
            Kind::Sign('~') => Ok(!self.operand()?),
            Kind::Sign('!') => Ok(i128::from(self.operand()? == 0)),
            Kind::Sign('(') => {
                let value = self.level(0)?;
                self.expect(')')?;
                Ok(value)
            }
            Kind::Word(word) if word == "defined" => self.defined(),
            Kind::Word(word) => self.named(word),
            other => Err(format!("found {}; expected a number, a name or a parenthesis", text(other))),
        }
    }

    fn expect(&mut self, sign: char) -> Result<(), String> {
        match self.tokens.get(self.at).map(|token| &token.kind) {
            Some(Kind::Sign(found)) if *found == sign => {
                self.at += 1;
                Ok(())
            }
            other => Err(format!("found {}; expected {sign}", other.map_or("nothing".into(), text))),
        }
    }

    fn defined(&mut self) -> Result<i128, String> {
        let in_parentheses = self.expect('(').is_ok();
        let Some(Kind::Word(word)) = self.tokens.get(self.at).map(|token| &token.kind) else {
            return Err("found no name behind `defined`".into());
        };
        self.at += 1;
        if in_parentheses {
            self.expect(')')?;
        }
        Ok(i128::from(self.names.defines.contains_key(word)))
    }

    fn named(&self, word: &str) -> Result<i128, String> {
        if let Some(value) = self.names.values.get(word) {
            return Ok(*value);
        }
        let tokens =
            self.names.defines.get(word).ok_or_else(|| format!("found {word}, which has no value"))?;
        if self.depth > 32 {
            return Err(format!("{word} is defined by itself"));
        }
        Reader { tokens, at: 0, names: self.names, depth: self.depth + 1 }.whole()
    }
}

fn apply(operator: &str, a: i128, b: i128) -> Option<i128> {
    let truth = |is: bool| Some(i128::from(is));
    match operator {
        "||" => truth(a != 0 || b != 0),
        "&&" => truth(a != 0 && b != 0),
        "|" => Some(a | b),
        "&" => Some(a & b),
        "==" => truth(a == b),
        "!=" => truth(a != b),
        "<=" => truth(a <= b),
        ">=" => truth(a >= b),
        "<" => truth(a < b),
        ">" => truth(a > b),
        "<<" => a.checked_shl(u32::try_from(b).ok()?),
        ">>" => a.checked_shr(u32::try_from(b).ok()?),
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "/" => a.checked_div(b),
        _ => a.checked_rem(b),
    }
}

/// Returns a token as it was written.
pub(crate) fn text(kind: &Kind) -> String {
    match kind {
        Kind::Word(text) | Kind::Directive(text) => format!("`{text}`"),
        Kind::Number(number) => format!("`{number}`"),
        Kind::Text(text) => format!("\"{text}\""),
        Kind::Sign(sign) => format!("`{sign}`"),
    }
}
