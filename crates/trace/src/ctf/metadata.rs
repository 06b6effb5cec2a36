// SPDX-License-Identifier: GPL-2.0-or-later
//! What a CTF trace says about itself, in the language TSDL (CTF 1.8): how its packets and events look.
//!
//! ```text
//!     stream { id = 0; event.header := struct event_header_compact; packet.context := struct packet_context; };
//!     event { name = "sched_waking"; id = 7; stream_id = 0; fields := struct { ... _comm[16]; ... _tid; }; };
//! ```
//! LTTng writes it in packets, whose heads are taken out before. Types may be named, and names hold in the blocks
//! where they stand. LTTng puts an underscore before each name; it is taken off.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::ctf::tokens::{Token, What, tokens};
use crate::ctf::types::{FIELDS_MAX, Int, Name, Range, Type};

/// The deepest nesting of blocks.
const NESTING_MAX: u32 = 32;

/// The most types and fields in all.
const ALL_FIELDS_MAX: u64 = 1 << 22;

/// What is wrong, and the byte of the metadata where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) at: usize,
    pub(crate) expected: String,
    pub(crate) found: String,
}

type Result<T> = std::result::Result<T, Wrong>;

/// The events and packets of a kind of stream.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) packet_context: Option<Rc<Type>>,
    pub(crate) event_header: Option<Rc<Type>>,
    pub(crate) event_context: Option<Rc<Type>>,
}

/// An event.
#[derive(Debug, Default)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) context: Option<Rc<Type>>,
    pub(crate) fields: Option<Rc<Type>>,
}

/// What the metadata say.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    names: FxHashMap<String, Name>,
    pub(crate) is_big_endian: bool,
    pub(crate) packet_header: Option<Rc<Type>>,
    /// Ticks of the clock in a second.
    pub(crate) clock_hz: u64,
    /// As `uname -r` prints it; empty if it is not told.
    pub(crate) kernel_release: String,
    pub(crate) streams: FxHashMap<u64, Stream>,
    /// By the stream's id, and theirs.
    pub(crate) events: FxHashMap<(u64, u64), Event>,
}

impl Metadata {
    pub(crate) fn parse(text: &str) -> Result<Metadata> {
        let tokens = tokens(text).map_err(|at| Wrong {
            at,
            expected: "a word, a number, a text or a sign".to_owned(),
            found: crate::error::excerpt(&text[at..]),
        })?;
        let mut parser = Parser {
            end: text.len(),
            tokens: &tokens,
            next: 0,
            nesting: 0,
            fields: 0,
            scopes: vec![FxHashMap::default()],
            metadata: Metadata {
                clock_hz: 1_000_000_000,
                is_big_endian: is_big_endian(&tokens),
                ..Metadata::default()
            },
        };
        while parser.next < tokens.len() {
            parser.top()?;
        }
        Ok(parser.metadata)
    }

    /// Returns the number of a name; `None` if no field has it.
    pub(crate) fn name(&self, name: &str) -> Option<Name> {
        self.names.get(name).copied()
    }
}

/// Whether the block `trace` says so. Types before it follow it.
fn is_big_endian(tokens: &[Token<'_>]) -> bool {
    let mut depth = 0;
    let mut is_trace = false;
    for (index, token) in tokens.iter().enumerate() {
        match token.what {
            What::Sign("{") => depth += 1,
            What::Sign("}") => depth -= 1,
            What::Word(word) if depth == 0 => is_trace = word == "trace",
            What::Word("byte_order") if depth == 1 && is_trace => {
                return matches!(
                    tokens.get(index + 2),
                    Some(Token { what: What::Word("be" | "network"), .. })
                );
            }
            _ => {}
        }
    }
    false
}

/// A value of an attribute.
enum Attribute<'a> {
    Number(i128),
    Words(&'a str),
}

struct Parser<'a, 't> {
    end: usize,
    tokens: &'t [Token<'a>],
    next: usize,
    nesting: u32,
    /// The types and fields so far.
    fields: u64,
    /// Named types, of the outermost block first. Types of `struct x` and the like are named so.
    scopes: Vec<FxHashMap<String, Rc<Type>>>,
    metadata: Metadata,
}

impl<'a> Parser<'a, '_> {
    fn peek(&self) -> Option<What<'a>> {
        self.tokens.get(self.next).map(|token| token.what)
    }

    fn wrong<T>(&self, expected: &str) -> Result<T> {
        let token = self.tokens.get(self.next);
        let found = match token.map(|token| token.what) {
            None => "the end".to_owned(),
            Some(What::Word(text) | What::Text(text) | What::Sign(text)) => crate::error::excerpt(text),
            Some(What::Number(number)) => number.to_string(),
        };
        let at = token.map_or(self.end, |token| token.at);
        Err(Wrong { at, expected: expected.to_owned(), found })
    }

    fn eat(&mut self, what: What<'_>) -> bool {
        let is_next = self.peek() == Some(what);
        self.next += usize::from(is_next);
        is_next
    }

    fn sign(&mut self, sign: &str) -> Result<()> {
        if self.eat(What::Sign(sign)) { Ok(()) } else { self.wrong(&format!("`{sign}`")) }
    }

    fn word_if_any(&mut self) -> Option<&'a str> {
        let Some(What::Word(word)) = self.peek() else { return None };
        self.next += 1;
        Some(word)
    }

    fn word(&mut self, expected: &str) -> Result<&'a str> {
        self.word_if_any().map_or_else(|| self.wrong(expected), Ok)
    }

    fn number(&mut self) -> Result<i128> {
        let Some(What::Number(number)) = self.peek() else { return self.wrong("a number") };
        self.next += 1;
        Ok(number)
    }

    /// Returns the number of a name.
    fn name(&mut self, name: &str) -> Name {
        let name = name.trim_start_matches('_');
        let next = self.metadata.names.len() as Name;
        *self.metadata.names.entry(name.to_owned()).or_insert(next)
    }

    fn enter(&mut self) -> Result<()> {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return self.wrong(&format!("at most {NESTING_MAX} blocks in each other"));
        }
        Ok(())
    }

    /// One declaration outside of all blocks.
    fn top(&mut self) -> Result<()> {
        let block = match self.peek() {
            Some(What::Word(word @ ("trace" | "stream" | "event" | "clock" | "env" | "callsite"))) => word,
            _ => return self.declaration(),
        };
        self.next += 1;
        self.sign("{")?;
        self.scopes.push(FxHashMap::default());
        let mut types = FxHashMap::default();
        let mut attributes = FxHashMap::default();
        while !self.eat(What::Sign("}")) {
            self.entry(&mut types, &mut attributes)?;
        }
        self.scopes.pop();
        self.sign(";")?;
        self.block(block, types, &attributes)
    }

    /// One line of a block: a declaration, `key = value;` or `key := type;`.
    fn entry(
        &mut self,
        types: &mut FxHashMap<String, Rc<Type>>,
        attributes: &mut FxHashMap<String, Attribute<'a>>,
    ) -> Result<()> {
        const DECLARES: [&str; 5] = ["typealias", "typedef", "struct", "variant", "enum"];
        if matches!(self.peek(), Some(What::Word(word)) if DECLARES.contains(&word)) {
            return self.declaration();
        }
        let mut key = self.word("a key")?.to_owned();
        while self.eat(What::Sign(".")) {
            key.push('.');
            key.push_str(self.word("the rest of a key")?);
        }
        if self.eat(What::Sign(":=")) {
            let of = self.whole_type()?;
            types.insert(key, of);
        } else {
            self.sign("=")?;
            let value = self.attribute()?;
            attributes.insert(key, value);
        }
        self.sign(";")
    }

    fn attribute(&mut self) -> Result<Attribute<'a>> {
        match self.peek() {
            Some(What::Number(number)) => {
                self.next += 1;
                Ok(Attribute::Number(number))
            }
            Some(What::Text(text)) => {
                self.next += 1;
                Ok(Attribute::Words(text))
            }
            _ => {
                // Of `clock.monotonic.value` the first word is enough.
                let first = self.word("a value")?;
                while self.eat(What::Sign(".")) {
                    self.word("the rest of a value")?;
                }
                Ok(Attribute::Words(first))
            }
        }
    }

    /// Takes what a block says.
    fn block(
        &mut self,
        block: &str,
        mut types: FxHashMap<String, Rc<Type>>,
        attributes: &FxHashMap<String, Attribute<'a>>,
    ) -> Result<()> {
        let number = |key: &str| match attributes.get(key) {
            Some(Attribute::Number(number)) => u64::try_from(*number).ok(),
            _ => None,
        };
        let words = |key: &str| match attributes.get(key) {
            Some(Attribute::Words(words)) => Some(*words),
            _ => None,
        };
        match block {
            "trace" => self.metadata.packet_header = types.remove("packet.header"),
            "clock" => {
                let clock_hz = number("freq").unwrap_or(1_000_000_000);
                if clock_hz == 0 {
                    return self.wrong("a clock that ticks");
                }
                self.metadata.clock_hz = clock_hz;
            }
            "stream" => {
                let stream = Stream {
                    packet_context: types.remove("packet.context"),
                    event_header: types.remove("event.header"),
                    event_context: types.remove("event.context"),
                };
                self.metadata.streams.insert(number("id").unwrap_or(0), stream);
            }
            "env" => self.metadata.kernel_release = words("kernel_release").unwrap_or_default().to_owned(),
            "event" => {
                let event = Event {
                    name: words("name").unwrap_or_default().to_owned(),
                    context: types.remove("context"),
                    fields: types.remove("fields"),
                };
                let id = (number("stream_id").unwrap_or(0), number("id").unwrap_or(0));
                self.metadata.events.insert(id, event);
            }
            _ => {}
        }
        Ok(())
    }

    /// `typealias type := name;`, `typedef type name;` or a type alone, which has a name.
    fn declaration(&mut self) -> Result<()> {
        if self.eat(What::Word("typealias")) {
            let of = self.whole_type()?;
            self.sign(":=")?;
            let mut name = self.word("a type's name")?.to_owned();
            while let Some(word) = self.word_if_any() {
                name.push(' ');
                name.push_str(word);
            }
            self.declare(name, of);
        } else if self.eat(What::Word("typedef")) {
            let (name, of) = self.declared(&[])?;
            self.declare(name.to_owned(), of);
        } else {
            self.whole_type()?;
        }
        self.sign(";")
    }

    fn declare(&mut self, name: String, of: Rc<Type>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, of);
        }
    }

    fn known(&self, name: &str) -> Result<Rc<Type>> {
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        found
            .map_or_else(|| self.wrong(&format!("the type `{name}` declared before")), |of| Ok(Rc::clone(of)))
    }

    /// A type and the name of what has it: `unsigned long x`, or `uint8_t uuid[16]`. `before` are the fields before it.
    fn declared(&mut self, before: &[(Name, Rc<Type>)]) -> Result<(&'a str, Rc<Type>)> {
        let (mut of, name) = match self.special(before)? {
            Some(of) => (of, self.word("a field's name")?),
            None => {
                let mut words = vec![self.word("a type")?];
                while let Some(word) = self.word_if_any() {
                    words.push(word);
                }
                let Some(name) = words.pop().filter(|_| !words.is_empty()) else {
                    return self.wrong("a field's name");
                };
                (self.known(&words.join(" "))?, name)
            }
        };
        let mut lengths = Vec::new();
        while self.eat(What::Sign("[")) {
            lengths.push(match self.peek() {
                Some(What::Number(_)) => Err(self.number()?),
                _ => Ok(self.reference()?),
            });
            self.sign("]")?;
        }
        for length in lengths.into_iter().rev() {
            of = Rc::new(match length {
                Ok(name) => Type::Sequence(of, name),
                Err(number) => match u64::try_from(number) {
                    Ok(length) => Type::Array(of, length),
                    Err(_) => return self.wrong("a length of 0 or more"),
                },
            });
        }
        Ok((name, of))
    }

    /// The name of a field elsewhere, of which the last part is enough: `stream.event.header.id`.
    fn reference(&mut self) -> Result<Name> {
        let mut name = self.word("a field's name")?;
        while self.eat(What::Sign(".")) {
            name = self.word("a field's name")?;
        }
        Ok(self.name(name))
    }

    /// A type alone.
    fn whole_type(&mut self) -> Result<Rc<Type>> {
        if let Some(of) = self.special(&[])? {
            return Ok(of);
        }
        let mut name = self.word("a type")?.to_owned();
        while let Some(word) = self.word_if_any() {
            name.push(' ');
            name.push_str(word);
        }
        self.known(&name)
    }

    /// A type that begins with a word of the language; `None` if the next word is another.
    fn special(&mut self, before: &[(Name, Rc<Type>)]) -> Result<Option<Rc<Type>>> {
        let Some(What::Word(word)) = self.peek() else { return Ok(None) };
        let parse = match word {
            "integer" => Self::integer,
            "floating_point" => Self::floating_point,
            "string" => Self::string,
            "struct" => Self::structure,
            "enum" => Self::enumeration,
            "variant" => {
                self.next += 1;
                return self.variant(before).map(Some);
            }
            _ => return Ok(None),
        };
        self.next += 1;
        self.enter()?;
        let of = parse(self)?;
        self.nesting -= 1;
        Ok(Some(of))
    }

    /// `{ key = value; ... }`
    fn attributes(&mut self) -> Result<FxHashMap<String, Attribute<'a>>> {
        let (mut types, mut attributes) = (FxHashMap::default(), FxHashMap::default());
        self.sign("{")?;
        while !self.eat(What::Sign("}")) {
            self.entry(&mut types, &mut attributes)?;
        }
        Ok(attributes)
    }

    fn integer(&mut self) -> Result<Rc<Type>> {
        let attributes = self.attributes()?;
        let number = |key: &str| match attributes.get(key) {
            Some(Attribute::Number(number)) => u64::try_from(*number).ok(),
            _ => None,
        };
        let words = |key: &str| match attributes.get(key) {
            Some(Attribute::Words(words)) => *words,
            _ => "",
        };
        let bits =
            number("size").and_then(|bits| u32::try_from(bits).ok()).filter(|bits| (1..=64).contains(bits));
        let Some(bits) = bits else { return self.wrong("an integer of 1 to 64 bits before this") };
        let align = number("align").unwrap_or(if bits.is_multiple_of(8) { 8 } else { 1 });
        let align = self.aligned(align)?;
        let is_signed = number("signed") == Some(1) || matches!(words("signed"), "true" | "TRUE");
        let is_big_endian = match words("byte_order") {
            "be" | "network" => true,
            "le" => false,
            _ => self.metadata.is_big_endian,
        };
        let is_text = matches!(words("encoding"), "UTF8" | "ASCII" | "utf8" | "ascii");
        let is_clock = words("map") == "clock";
        Ok(Rc::new(Type::Int(Int { bits, align, is_signed, is_big_endian, is_text, is_clock })))
    }

    fn aligned(&self, align: u64) -> Result<u64> {
        match align.is_power_of_two() && align <= 4096 {
            true => Ok(align),
            false => self.wrong("an alignment of a power of 2 up to 4096 before this"),
        }
    }

    fn floating_point(&mut self) -> Result<Rc<Type>> {
        let attributes = self.attributes()?;
        let number = |key: &str| match attributes.get(key) {
            Some(Attribute::Number(number)) => u64::try_from(*number).unwrap_or(0),
            _ => 0,
        };
        let bits = number("exp_dig").saturating_add(number("mant_dig"));
        let align = self.aligned(number("align").max(1))?;
        if bits > 128 {
            return self.wrong("a number of at most 128 bits before this");
        }
        Ok(Rc::new(Type::Float(bits, align)))
    }

    fn string(&mut self) -> Result<Rc<Type>> {
        if self.peek() == Some(What::Sign("{")) {
            self.attributes()?;
        }
        Ok(Rc::new(Type::Text))
    }

    /// What comes after `struct`.
    fn structure(&mut self) -> Result<Rc<Type>> {
        let name = self.word_if_any().map(|name| format!("struct {name}"));
        if !self.eat(What::Sign("{")) {
            let Some(name) = name else { return self.wrong("a struct's name or `{`") };
            return self.known(&name);
        }
        self.scopes.push(FxHashMap::default());
        let mut fields: Vec<(Name, Rc<Type>)> = Vec::new();
        while !self.eat(What::Sign("}")) {
            if matches!(self.peek(), Some(What::Word("typealias" | "typedef"))) {
                self.declaration()?;
                continue;
            }
            let (name, of) = self.declared(&fields)?;
            self.sign(";")?;
            let name = self.name(name);
            fields.push((name, of));
        }
        self.scopes.pop();
        let mut align = fields.iter().map(|(_, of)| of.align()).max().unwrap_or(1);
        if self.eat(What::Word("align")) {
            self.sign("(")?;
            let least = self.number()?;
            align = align.max(self.aligned(u64::try_from(least).unwrap_or(0))?);
            self.sign(")")?;
        }
        self.counted(Type::Struct(fields, align), name)
    }

    /// Counts a type's fields, and declares it if it has a name.
    fn counted(&mut self, of: Type, name: Option<String>) -> Result<Rc<Type>> {
        let fields = of.fields();
        self.fields = self.fields.saturating_add(fields);
        if fields > FIELDS_MAX || self.fields > ALL_FIELDS_MAX {
            return self
                .wrong(&format!("at most {FIELDS_MAX} fields of a type, and {ALL_FIELDS_MAX} in all"));
        }
        let of = Rc::new(of);
        name.into_iter().for_each(|name| self.declare(name, Rc::clone(&of)));
        Ok(of)
    }

    /// What comes after `enum`.
    fn enumeration(&mut self) -> Result<Rc<Type>> {
        let name = self.word_if_any().map(|name| format!("enum {name}"));
        let int = if self.eat(What::Sign(":")) {
            self.whole_type()?
        } else if self.peek() != Some(What::Sign("{")) {
            let Some(name) = name else { return self.wrong("an enum's name, `:` or `{`") };
            return self.known(&name);
        } else {
            self.known("int")?
        };
        let Type::Int(int) = &*int else { return self.wrong("an integer before this") };
        let int = int.clone();
        self.sign("{")?;
        let mut labels: Vec<(Name, Range)> = Vec::new();
        while !self.eat(What::Sign("}")) {
            let label = match self.peek() {
                Some(What::Word(label) | What::Text(label)) => label,
                _ => return self.wrong("a label"),
            };
            self.next += 1;
            let label = self.name(label);
            let from = match self.eat(What::Sign("=")) {
                true => self.number()?,
                false => labels.last().map_or(0, |(_, (_, to))| to + 1),
            };
            let to = if self.eat(What::Sign("...")) { self.number()? } else { from };
            labels.push((label, (from, to)));
            if !self.eat(What::Sign(",")) && self.peek() != Some(What::Sign("}")) {
                return self.wrong("`,` or `}`");
            }
        }
        self.fields += labels.len() as u64;
        self.counted(Type::Enum(int, labels), name)
    }

    /// What comes after `variant`: one of several types, which an enum among the fields before it chooses.
    fn variant(&mut self, before: &[(Name, Rc<Type>)]) -> Result<Rc<Type>> {
        self.enter()?;
        if matches!(self.peek(), Some(What::Word(_))) {
            return self.wrong("`<`, because named variants are not read");
        }
        self.sign("<")?;
        let tag = self.reference()?;
        self.sign(">")?;
        let of_tag = before.iter().rev().find(|(name, _)| *name == tag).map(|(_, of)| Rc::clone(of));
        let Some(Type::Enum(_, labels)) = of_tag.as_deref() else {
            return self.wrong("an enum of the variant's name among the fields before this");
        };
        self.sign("{")?;
        let mut options: Vec<(Vec<Range>, Rc<Type>)> = Vec::new();
        while !self.eat(What::Sign("}")) {
            let (name, of) = self.declared(&[])?;
            self.sign(";")?;
            let name = self.name(name);
            let ranges = labels.iter().filter(|(label, _)| *label == name).map(|(_, range)| *range);
            options.push((ranges.collect(), of));
        }
        self.nesting -= 1;
        self.counted(Type::Variant(tag, options), None)
    }
}
