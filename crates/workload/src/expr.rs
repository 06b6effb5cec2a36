// SPDX-License-Identifier: GPL-2.0-or-later
//! Integer expressions of workload files: their trees and their values. expr_parse.rs parses them.
//!
//! Values are 64-bit signed integers or words (`'pipe'`, only for `==` and `!=`). Comparisons give 1 or 0; `&&`, `||`
//! and `if(condition, then, else)` evaluate no more than they need. Overflow and division by zero are errors at the
//! operator; division rounds towards zero.

use crate::error::{list, unknown};

/// An expression. Offsets are bytes from the start of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expr {
    pub(crate) offset: usize,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Int(i64),
    Word(String),
    Name(String),
    Negate(Box<Expr>),
    Not(Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
    Call(Function, Vec<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Min,
    Max,
    Sqrt,
    If,
}

/// `name` or `name[expression, ...]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) offset: usize,
    pub(crate) name: String,
    pub(crate) indices: Vec<Expr>,
}

/// `name in first..end`: from `first` up to, but not including, `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) name: String,
    pub(crate) first: Expr,
    pub(crate) end: Expr,
}

/// What is wrong with an expression, and where in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExprError {
    pub(crate) offset: usize,
    pub(crate) message: String,
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Int(i64),
    /// A word, and all words that its parameter can have.
    Word {
        text: &'a str,
        choices: &'a [String],
    },
}

/// What names mean at the place of an expression.
pub(crate) trait Scope {
    fn lookup(&self, name: &str) -> Option<Value<'_>>;
    /// Returns all names, for error texts.
    fn names(&self) -> Vec<&str>;
}

impl Expr {
    /// Returns the expression `value`.
    pub(crate) fn literal(value: i64, offset: usize) -> Expr {
        Expr { offset, kind: Kind::Int(value) }
    }

    /// Calls `see` with each name in the expression.
    pub(crate) fn for_each_name(&self, see: &mut impl FnMut(&str)) {
        match &self.kind {
            Kind::Int(_) | Kind::Word(_) => {}
            Kind::Name(name) => see(name),
            Kind::Negate(inner) | Kind::Not(inner) => inner.for_each_name(see),
            Kind::Binary(_, left, right) => {
                left.for_each_name(see);
                right.for_each_name(see);
            }
            Kind::Call(_, arguments) => arguments.iter().for_each(|argument| argument.for_each_name(see)),
        }
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T, ExprError> {
        Err(ExprError { offset: self.offset, message: message.into() })
    }

    /// Returns the value as an integer.
    pub(crate) fn integer(&self, scope: &dyn Scope) -> Result<i64, ExprError> {
        match self.value(scope)? {
            Value::Int(value) => Ok(value),
            Value::Word { text, .. } => self.fail(format!("expected a number, found the word '{text}'")),
        }
    }

    /// Whether the value is not 0.
    pub(crate) fn truth(&self, scope: &dyn Scope) -> Result<bool, ExprError> {
        Ok(self.integer(scope)? != 0)
    }

    /// Returns the value as an integer from `min` to `max`.
    pub(crate) fn within(&self, scope: &dyn Scope, min: u64, max: u64, what: &str) -> Result<u64, ExprError> {
        let value = self.integer(scope)?;
        match u64::try_from(value) {
            Ok(value) if (min..=max).contains(&value) => Ok(value),
            _ => self.fail(format!("{what} is {value}; expected {min} to {max}")),
        }
    }

    fn value<'a>(&'a self, scope: &'a dyn Scope) -> Result<Value<'a>, ExprError> {
        match &self.kind {
            Kind::Int(value) => Ok(Value::Int(*value)),
            Kind::Word(text) => Ok(Value::Word { text, choices: &[] }),
            Kind::Name(name) => match scope.lookup(name) {
                Some(value) => Ok(value),
                None => {
                    let mut message = unknown(&format!("name '{name}'"), name, scope.names());
                    if name.contains('-') {
                        message.push_str(" (a minus needs a space after it)");
                    }
                    self.fail(message)
                }
            },
            Kind::Negate(inner) => match inner.integer(scope)?.checked_neg() {
                Some(value) => Ok(Value::Int(value)),
                None => self.fail("overflow: the result does not fit into 64 bits"),
            },
            Kind::Not(inner) => Ok(Value::Int(i64::from(!inner.truth(scope)?))),
            Kind::Binary(operator, left, right) => self.binary(*operator, left, right, scope).map(Value::Int),
            Kind::Call(function, arguments) => match (function, arguments.as_slice()) {
                (Function::Min, [a, b]) => Ok(Value::Int(a.integer(scope)?.min(b.integer(scope)?))),
                (Function::Max, [a, b]) => Ok(Value::Int(a.integer(scope)?.max(b.integer(scope)?))),
                (Function::Sqrt, [a]) => {
                    let value = a.integer(scope)?;
                    if value < 0 {
                        return self.fail(format!("the square root of {value}"));
                    }
                    Ok(Value::Int(value.isqrt()))
                }
                (Function::If, [condition, then, otherwise]) => {
                    if condition.truth(scope)? {
                        then.value(scope)
                    } else {
                        otherwise.value(scope)
                    }
                }
                _ => self.fail("wrong number of arguments"),
            },
        }
    }

    fn binary(
        &self,
        operator: Operator,
        left: &Expr,
        right: &Expr,
        scope: &dyn Scope,
    ) -> Result<i64, ExprError> {
        if matches!(operator, Operator::Equal | Operator::NotEqual) {
            let equal = self.equal(left.value(scope)?, right.value(scope)?)?;
            return Ok(i64::from(equal == (operator == Operator::Equal)));
        }
        let a = left.integer(scope)?;
        match operator {
            Operator::Or if a != 0 => return Ok(1),
            Operator::And if a == 0 => return Ok(0),
            _ => {}
        }
        let b = right.integer(scope)?;
        let result = match operator {
            Operator::Or | Operator::And => Some(i64::from(b != 0)),
            Operator::Equal => Some(i64::from(a == b)),
            Operator::NotEqual => Some(i64::from(a != b)),
            Operator::Less => Some(i64::from(a < b)),
            Operator::LessEqual => Some(i64::from(a <= b)),
            Operator::Greater => Some(i64::from(a > b)),
            Operator::GreaterEqual => Some(i64::from(a >= b)),
            Operator::Add => a.checked_add(b),
            Operator::Subtract => a.checked_sub(b),
            Operator::Multiply => a.checked_mul(b),
            Operator::Divide | Operator::Remainder if b == 0 => return self.fail("division by zero"),
            Operator::Divide => a.checked_div(b),
            Operator::Remainder => a.checked_rem(b),
        };
        match result {
            Some(value) => Ok(value),
            None => self.fail("overflow: the result does not fit into 64 bits"),
        }
    }

    fn equal(&self, left: Value<'_>, right: Value<'_>) -> Result<bool, ExprError> {
        match (left, right) {
            (Value::Int(a), Value::Int(b)) => Ok(a == b),
            (Value::Word { text: a, choices: of_a }, Value::Word { text: b, choices: of_b }) => {
                // A misspelt choice would never be equal, and nothing would tell.
                for (text, choices) in [(a, of_b), (b, of_a)] {
                    if !choices.is_empty() && !choices.iter().any(|choice| choice == text) {
                        return self.fail(format!("'{text}' is no choice here; there are {}", list(choices)));
                    }
                }
                Ok(a == b)
            }
            _ => self.fail("a number is compared with a word"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr_parse::parse_expr;

    struct Names(Vec<String>);

    impl Scope for Names {
        fn lookup(&self, name: &str) -> Option<Value<'_>> {
            match name {
                "fds" => Some(Value::Int(20)),
                "send-work-ns" => Some(Value::Int(1500)),
                "big" => Some(Value::Int(i64::MAX)),
                "ipc" => Some(Value::Word { text: "pipe", choices: &self.0 }),
                _ => None,
            }
        }
        fn names(&self) -> Vec<&str> {
            vec!["fds", "send-work-ns", "big", "ipc"]
        }
    }

    fn eval(text: &str) -> Result<i64, String> {
        let scope = Names(vec!["socket".into(), "pipe".into()]);
        let at = |error: ExprError| format!("{}: {}", error.offset, error.message);
        parse_expr(text, 0).map_err(at)?.integer(&scope).map_err(at)
    }

    #[test]
    fn arithmetic_by_hand() {
        for (text, value) in [
            ("7", 7),
            (" 1_000 ", 1000),
            ("2 + 3 * 4", 14),
            ("(2 + 3) * 4", 20),
            ("20 - 5 - 3", 12),
            ("100 / 7 / 2", 7),
            ("17 % 5 * 2", 4),
            ("-fds + 1", -19),
            ("fds-1", 19),
            ("send-work-ns * 2", 3000),
            ("1 < 2", 1),
            ("2 * 3 == 6 && 1 != 1", 0),
            ("0 || fds >= 20", 1),
            ("!fds", 0),
            ("!(fds > 20)", 1),
            ("min(3, 4) + max(3, 4)", 7),
            ("sqrt(10922)", 104),
            ("sqrt(fds * 5) - sqrt(0)", 10),
            ("sqrt(big)", 3_037_000_499),
            ("if(ipc == 'pipe', 65536, 212992)", 65536),
            ("if(ipc != 'pipe', 1 / 0, 5)", 5),
            ("0 && 1 / 0", 0),
            ("1 || 1 / 0", 1),
        ] {
            assert_eq!(eval(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn errors_say_where_and_what() {
        for (text, error) in [
            ("", "0: expected a number, a name, a 'word' or '(', found the end"),
            ("1 +", "3: expected a number, a name, a 'word' or '(', found the end"),
            ("1 2", "2: expected an operator or the end, found '2'"),
            ("(1 2)", "3: expected an operator or ')', found '2)'"),
            ("min(1)", "0: expected two arguments, found 'min(1)'"),
            ("cbrt(1)", "0: expected a function: min, max, sqrt or if, found 'cbrt(1)'"),
            ("1 + sqrt(1, 2)", "4: expected one argument, found 'sqrt(1, 2)'"),
            ("sqrt(fds - 21)", "0: the square root of -1"),
            ("'pip", "4: expected a closing ', found the end"),
            ("99999999999999999999", "0: expected a number below 2^63, found '999999999999'"),
            ("1 < 2 < 3", "6: expected an operator or the end, found '< 3'"),
            ("7 / (fds - 20)", "2: division by zero"),
            ("7 % 0", "2: division by zero"),
            ("big + 1", "4: overflow: the result does not fit into 64 bits"),
            ("-big - 2", "5: overflow: the result does not fit into 64 bits"),
            ("(-big - 1) / -1", "11: overflow: the result does not fit into 64 bits"),
            ("fd", "0: unknown name 'fd'; did you mean 'fds'?"),
            (
                "a-b",
                "0: unknown name 'a-b'; there are fds, send-work-ns, big and ipc (a minus needs a space after it)",
            ),
            ("ipc == 'pip'", "4: 'pip' is no choice here; there are socket and pipe"),
            ("ipc == 1", "4: a number is compared with a word"),
            ("ipc + 1", "0: expected a number, found the word 'pipe'"),
        ] {
            assert_eq!(eval(text), Err(error.to_owned()), "{text}");
        }
        assert!(eval(&"1+".repeat(501)).unwrap_err().contains("at most 1000"));
        assert!(eval(&"(".repeat(33)).unwrap_err().starts_with("32: more than 32 nested"));
    }

    #[test]
    fn deep_but_allowed_expressions_work() {
        assert_eq!(eval(&format!("{}1{}", "(".repeat(32), ")".repeat(32))), Ok(1));
        assert_eq!(eval(&format!("1{}", "+1".repeat(499))), Ok(500));
    }
}
