//! What of a file is a secret: what its schema says to be one, and everything of which it says nothing.

use std::collections::HashSet;

use serde_json::Value as Json;

use super::{KeyPath, Span, Step, excerpt::Show};
use crate::{
    schema::Document,
    tree::{Node, Value},
};

/// Gives every key and every scalar of a file, each with whether it may be shown.
pub(super) fn tokens(root: &Node, document: Document, add: &mut impl FnMut(Span, Show)) {
    let names = names(root, document);
    Walk { document, names, add }.node(root, &KeyPath::root());
}

/// Users and teams of the keys: a tenant of such a name is no API key.
fn names(root: &Node, document: Document) -> HashSet<&str> {
    let keys = root.find(&document.keys()).map_or(&[][..], Node::items);
    keys.iter().flat_map(|key| ["user", "team"].map(|name| key.get(name)?.text())).flatten().collect()
}

struct Walk<'a, F> {
    document: Document,
    names: HashSet<&'a str>,
    add: &'a mut F,
}

impl<F: FnMut(Span, Show)> Walk<'_, F> {
    fn node(&mut self, node: &Node, path: &KeyPath) {
        match &node.value {
            Value::Map(entries) => {
                let schema = self.document.schema_at(path);
                for entry in entries.as_slice() {
                    let path = path.key(&entry.key);
                    if let Some(span) = entry.key_at {
                        (self.add)(
                            span,
                            if has_key(schema, &entry.key) { Show::Plain } else { Show::Masked },
                        );
                    }
                    self.node(&entry.node, &path);
                }
            }
            Value::List(items) => {
                for (n, item) in items.iter().enumerate() {
                    self.node(item, &path.index(n));
                }
            }
            scalar => {
                let schema = self.document.schema_at(path);
                let is_plain = schema.is_some_and(|schema| self.may_be_shown(scalar, path, schema));
                if let Some(span) = node.at {
                    // Between the lines of one there may be comments.
                    let is_plain = is_plain && span.start.line == span.end.line;
                    (self.add)(span, if is_plain { Show::Plain } else { Show::Masked });
                }
            }
        }
    }

    fn may_be_shown(&self, value: &Value, path: &KeyPath, schema: &Json) -> bool {
        let kinds = &schema["type"];
        let takes_scalars = !(kinds == "object" || kinds == "array");
        match value {
            Value::Null | Value::Bool(_) => true,
            Value::Text(text) if is_reference(text) => true,
            _ if schema["writeOnly"] == true || !takes_scalars => false,
            Value::Text(text) => {
                let is_tenant = matches!(path.steps().last(), Some(Step::Key(key)) if key == "tenant");
                // A URL may hold a password, also where none is allowed.
                !text.contains('@') && (!is_tenant || self.names.contains(text.as_str()))
            }
            _ => true,
        }
    }
}

/// Whether a text is nothing but a reference to the environment, without a default.
fn is_reference(text: &str) -> bool {
    let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
}

/// Whether a section has a key of this name, or keys of any name.
fn has_key(schema: Option<&Json>, key: &str) -> bool {
    let Some(schema) = schema else { return false };
    schema["properties"].get(key).is_some()
        || schema["additionalProperties"].is_object()
        || schema["patternProperties"].is_object()
}
