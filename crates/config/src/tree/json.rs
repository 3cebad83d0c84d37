//! JSON.
//!
//! The grammar is `serde_json`'s; places come from where each raw value lies in the text.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Number, value::RawValue};

use super::{Entries, Entry, Lines, MOST_DEPTH, Node, Parsed, Value, number, syntax, too_deep};
use crate::diagnostic::{Diagnostic, KeyPath, Position, Span};

pub(super) fn parse(text: &str) -> Result<Parsed, Diagnostic> {
    if text.trim().is_empty() {
        return Ok(Parsed {
            root: Node::new(Span::point(Position::START), Value::Null),
            problems: Vec::new(),
        });
    }
    // The whole text first: its errors have places in the file.
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default().to_owned();
        let at = Position::new(error.line().max(1), error.column().max(1));
        syntax(message).at(Span::point(at))
    })?;
    let mut reader = Reader { text, lines: Lines::new(text), problems: Vec::new() };
    let root = reader.value(text.trim_matches([' ', '\t', '\r', '\n']), &KeyPath::root(), 0)?;
    Ok(Parsed { root, problems: reader.problems })
}

struct Reader<'a> {
    text: &'a str,
    lines: Lines<'a>,
    problems: Vec<Diagnostic>,
}

impl<'a> Reader<'a> {
    /// Where a part of the text begins.
    fn offset(&self, part: &str) -> usize {
        part.as_ptr().addr().saturating_sub(self.text.as_ptr().addr())
    }

    fn value(&mut self, raw: &'a str, path: &KeyPath, depth: usize) -> Result<Node, Diagnostic> {
        let start = self.offset(raw);
        let at = self.lines.span(start..start + raw.len());
        if depth > MOST_DEPTH {
            return Err(too_deep().at(at));
        }
        let value = match raw.as_bytes().first() {
            Some(b'{') => {
                let members: Members<'a> = read(raw, at)?;
                let mut entries = Entries::default();
                let mut end = self.offset(raw);
                for (key, member) in members.0 {
                    // Between the previous value and this one there is but one string: the key.
                    let gap = self.text.get(end..).and_then(|rest| rest.find('"')).unwrap_or(0);
                    let member = member.get();
                    let start = end + gap;
                    let before_value = self.text.get(start..self.offset(member)).unwrap_or_default();
                    let length = before_value.rfind('"').map_or(0, |quote| quote + 1);
                    let key_at = self.lines.span(start..start + length);
                    end = self.offset(member) + member.len();
                    let node = self.value(member, &path.key(&key), depth + 1)?;
                    if let Err(duplicate) = entries.insert(Entry { key, key_at: Some(key_at), node }) {
                        self.problems.push(duplicate.report(path));
                    }
                }
                Value::Map(entries)
            }
            Some(b'[') => {
                let items: Vec<&'a RawValue> = read(raw, at)?;
                let items = items.iter().enumerate();
                Value::List(
                    items
                        .map(|(n, item)| self.value(item.get(), &path.index(n), depth + 1))
                        .collect::<Result<_, _>>()?,
                )
            }
            Some(b'"') => Value::Text(read(raw, at)?),
            Some(b't' | b'f') => Value::Bool(read(raw, at)?),
            Some(b'n') | None => Value::Null,
            Some(_) => {
                let integer = raw.bytes().skip(usize::from(raw.starts_with('-'))).all(|b| b.is_ascii_digit());
                let number: Option<Number> = if integer {
                    number::from_integer(raw.parse().ok(), raw)
                } else {
                    raw.parse().ok().and_then(number::from_float)
                };
                Value::Number(number.ok_or_else(|| syntax("this number is too large").at(at))?)
            }
        };
        Ok(Node::new(at, value))
    }
}

fn read<'a, T: Deserialize<'a>>(raw: &'a str, at: Span) -> Result<T, Diagnostic> {
    serde_json::from_str(raw).map_err(|_| syntax("this value cannot be read").at(at))
}

/// The members of an object in the order of the text, duplicates included.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect<'a>(PhantomData<&'a ()>);

        impl<'de: 'a, 'a> Visitor<'de> for Collect<'a> {
            type Value = Members<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Collect(PhantomData))
    }
}
