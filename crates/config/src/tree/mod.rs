//! A file as a tree of values, each with its place: what YAML, TOML and JSON have in common.

mod entries;
mod json;
mod lines;
mod number;
mod toml;
mod yaml;

use std::path::Path;

use serde_json::{Map, Number};

use crate::diagnostic::{Diagnostic, KeyPath, Kind, Source, Span, Step};

/// How deep values may be nested: the schema needs less than ten levels.
const MOST_DEPTH: usize = 64;

/// The form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// YAML 1.2, core schema.
    Yaml,
    /// TOML 1.0.
    Toml,
    /// JSON.
    Json,
}

impl Format {
    /// The form that the ending of the file's name tells.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "yaml" | "yml" => Some(Self::Yaml),
            "toml" => Some(Self::Toml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// A value and its place (absent for what does not come from the file).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Option<Span>,
    pub(crate) value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    /// A text whose variables could not be resolved: reported, and not to be judged any further.
    Unresolved,
    List(Vec<Node>),
    Map(Entries),
}

pub(crate) use entries::{Entries, Entry};
pub(crate) use lines::Lines;

/// What a text gives: a tree, and problems that do not keep the rest from being checked.
pub(crate) struct Parsed {
    pub(crate) root: Node,
    pub(crate) problems: Vec<Diagnostic>,
}

/// Reads a text as a tree, or tells why it is none.
pub(crate) fn parse(text: &str, format: Format) -> Result<Parsed, Diagnostic> {
    match format {
        Format::Yaml => yaml::parse(text),
        Format::Toml => toml::parse(text),
        Format::Json => json::parse(text),
    }
}

/// Whether YAML reads a plain scalar as this string, and as nothing else.
pub(crate) fn is_plain_text(text: &str) -> bool {
    matches!(yaml::plain(text), Ok(Value::Text(_)))
}

fn syntax(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Kind::Syntax, KeyPath::root(), message)
}

fn too_deep() -> Diagnostic {
    syntax(format!("values are nested more than {MOST_DEPTH} levels deep"))
}

impl Node {
    pub(crate) fn new(at: Span, value: Value) -> Self {
        Self { at: Some(at), value }
    }

    /// Says of everything here that it is in another file.
    pub(crate) fn move_to(&mut self, source: Source) {
        self.at = self.at.map(|span| span.within(source));
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.move_to(source)),
            Value::Map(entries) => entries.iter_mut().for_each(|entry| {
                entry.key_at = entry.key_at.map(|span| span.within(source));
                entry.node.move_to(source);
            }),
            _ => {}
        }
    }

    /// A value that does not come from the file.
    pub(crate) fn made(value: Value) -> Self {
        Self { at: None, value }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        if let Value::Map(entries) = &self.value { entries.as_slice() } else { &[] }
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        if let Value::Map(entries) = &self.value { entries.get(key) } else { None }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    pub(crate) fn items(&self) -> &[Node] {
        if let Value::List(items) = &self.value { items } else { &[] }
    }

    /// The text here, if it is one and known.
    pub(crate) fn text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    /// The value at a path.
    pub(crate) fn find(&self, path: &KeyPath) -> Option<&Node> {
        path.steps().iter().try_fold(self, |node, step| match step {
            Step::Key(key) => node.get(key),
            Step::Index(index) => node.items().get(*index),
        })
    }

    /// The place of a path: of the value, or, for what is absent, of the nearest value around it.
    pub(crate) fn place(&self, path: &KeyPath) -> Option<Span> {
        let mut node = self;
        // What is absent everywhere is not this whole file, which begins here.
        let mut place = self.at.map(|span| Span { end: span.start, ..span });
        for step in path.steps() {
            let next = match step {
                Step::Key(key) => node.get(key),
                Step::Index(index) => node.items().get(*index),
            };
            let Some(next) = next else { break };
            place = next.at.or(place);
            node = next;
        }
        place
    }

    /// The place of a key.
    pub(crate) fn place_of_key(&self, parent: &KeyPath, key: &str) -> Option<Span> {
        self.find(parent)?.entry(key)?.key_at
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Number(value) => Json::Number(value.clone()),
            Value::Text(text) => Json::String(text.clone()),
            Value::Unresolved => Json::String(String::new()),
            Value::List(items) => items.iter().map(Node::to_json).collect(),
            Value::Map(entries) => {
                let entries = entries.as_slice().iter();
                Json::Object(entries.map(|e| (e.key.clone(), e.node.to_json())).collect::<Map<_, _>>())
            }
        }
    }

    /// Takes the items of a list out of a map.
    pub(crate) fn take_items(&mut self, key: &str) -> Vec<Node> {
        let Value::Map(entries) = &mut self.value else { return Vec::new() };
        match entries.get_mut(key).map(|node| &mut node.value) {
            Some(Value::List(items)) => std::mem::take(items),
            _ => Vec::new(),
        }
    }

    /// Adds items to the list at a path of keys, which is made if it is not there; where something else is, it is left.
    pub(crate) fn append(&mut self, path: &[&str], added: Vec<Node>) {
        match (&mut self.value, path) {
            (Value::List(items), []) => items.extend(added),
            (Value::Map(entries), [key, rest @ ..]) => {
                let nothing = match rest {
                    [] => Value::List(Vec::new()),
                    _ => Value::Map(Entries::default()),
                };
                entries.get_or_insert_with(key, || Node::made(nothing)).append(rest, added);
            }
            _ => {}
        }
    }

    /// Puts a value at a path of keys, making the maps on the way; where something else is in the way, it is left.
    pub(crate) fn put(&mut self, path: &[&str], node: Node) {
        let Value::Map(entries) = &mut self.value else { return };
        let [key, rest @ ..] = path else { return };
        let place = entries.get_or_insert_with(key, || Node::made(Value::Map(Entries::default())));
        if rest.is_empty() {
            *place = node;
        } else {
            place.put(rest, node);
        }
    }
}
