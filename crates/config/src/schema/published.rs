//! The schema as it is published: what editors are told beyond what the loader checks.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::children;

/// What an editor is told about strings with a reference to the environment.
const REFERENCE: &str = r"\$\{";

/// Where a value stands, as far as its description must tell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The value of a key that must be given.
    Required,
    /// The value of a key that may be left out.
    Optional,
    /// An entry of a list or a map, or the whole file.
    Entry,
}

/// Makes the published schema from the strict one. `name` is what a file of it is.
pub(super) fn from(mut schema: Value, name: &str) -> Value {
    publish(&mut schema, Place::Entry);
    if let Some(root) = schema.as_object_mut() {
        // A name for the schema of this version. It is no address: every release brings its schemas along, and no editor
        // needs a network for them.
        let id = format!("urn:fairlane:{name}:{}", env!("CARGO_PKG_VERSION"));
        root.insert("$id".to_owned(), json!(id));
    }
    schema
}

/// Lets references to the environment stand for any string, drops the names of readers, and adds to descriptions what
/// editors leave out.
fn publish(schema: &mut Value, place: Place) {
    let Some(object) = schema.as_object_mut() else { return };
    let facts = facts(object, place);
    if let Some(Value::String(description)) = object.get_mut("description").filter(|_| !facts.is_empty()) {
        let _ok = write!(description, "\n\n{facts}");
    }
    object.remove("format");
    if let Some(Value::String(pattern)) = object.get_mut("pattern") {
        *pattern = format!("({pattern})|{REFERENCE}");
    }
    if let Some(Value::Array(mut variants)) = object.remove("oneOf") {
        // Of a value that is one of these, editors show the description of that one alone: it repeats that of the key.
        let key = object.get("description").and_then(Value::as_str).unwrap_or_default();
        for variant in &mut variants {
            if let Some(Value::String(description)) = variant.get_mut("description") {
                let _ok = write!(description, "\n\n{key}");
            }
        }
        variants.push(json!({
            "type": "string",
            "pattern": REFERENCE,
            "title": "From the environment",
            "description": "One of these values, from a variable of the environment: `${NAME}` or `${NAME:-default}`.",
        }));
        object.insert("anyOf".to_owned(), Value::Array(variants));
    }
    let required = object.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    for (key, property) in children(object) {
        let place = match key {
            None => Place::Entry,
            Some(key) if required.iter().any(|name| name == key) => Place::Required,
            Some(_) => Place::Optional,
        };
        publish(property, place);
    }
}

/// The default, the range and the form of the value of a key, in words.
fn facts(schema: &Map<String, Value>, place: Place) -> String {
    // A section has none of its own: its keys tell.
    if place == Place::Entry || schema.contains_key("properties") {
        return String::new();
    }
    let mut facts = String::new();
    if schema.get("deprecated").is_some_and(|deprecated| *deprecated == true) {
        facts.push_str("Deprecated. ");
    }
    facts.push_str(&match schema.get("default") {
        _ if place == Place::Required => "Required.".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "Default: empty.".to_owned(),
        Some(Value::String(text)) => format!("Default: `{text}`."),
        Some(default) => format!("Default: `{default}`."),
        None if is(schema, "null") => "Default: `null`.".to_owned(),
        None if is(schema, "object") => "Default: empty.".to_owned(),
        None => "Default: none.".to_owned(),
    });
    if let (Some(least), Some(most)) = (schema.get("minimum"), schema.get("maximum")) {
        let _ok = write!(facts, " A whole number from {} to {}.", grouped(least), grouped(most));
    }
    match schema.get("format").and_then(Value::as_str) {
        Some("fairlane-duration") => {
            facts.push_str(" A duration with its units: `200ms`, `30s`, `1m30s`, `2h`.")
        }
        Some("fairlane-timestamp") => facts.push_str(" A time with its zone: `2027-01-31T12:00:00Z`."),
        _ => {}
    }
    facts
}

/// Whether a value may be of a type.
fn is(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|one| one == kind),
        one => one.is_some_and(|one| one == kind),
    }
}

/// A long number in groups of three digits.
fn grouped(number: &Value) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paragraphs(mut property: Value) -> String {
        property["description"] = json!("How many.");
        let schema = json!({ "properties": { "key": property } });
        from(schema, "test")["properties"]["key"]["description"].as_str().unwrap_or_default().to_owned()
    }

    #[test]
    fn what_editors_leave_out_is_a_paragraph_of_its_own() {
        let number = json!({ "type": "integer", "minimum": 1, "maximum": 86_400_000, "default": 5000 });
        assert_eq!(paragraphs(number), "How many.\n\nDefault: `5000`. A whole number from 1 to 86,400,000.");
        assert_eq!(paragraphs(json!({ "type": ["string", "null"] })), "How many.\n\nDefault: `null`.");
        assert_eq!(paragraphs(json!({ "type": "object", "properties": {} })), "How many.");
    }

    #[test]
    fn a_key_on_its_way_out_says_so() {
        let old = json!({ "type": "boolean", "default": true, "deprecated": true });
        assert_eq!(paragraphs(old), "How many.\n\nDeprecated. Default: `true`.");
    }
}
