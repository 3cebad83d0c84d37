//! What the schema finds wrong, in words.

use std::{borrow::Cow, collections::BTreeSet};

use jsonschema::{
    ValidationError, Validator,
    error::ValidationErrorKind,
    paths::{Location, LocationSegment},
};
use serde_json::Value;

use crate::{
    diagnostic::{Diagnostic, KeyPath, Kind, Step},
    model::KEY_PREFIX_PATTERN,
    schema::{self, Document},
    suggest,
    tree::{self, Node},
    values::{address, parse_duration, schema::FORMATS, secret},
};

/// Checks a file as it stands against its schema and puts every error in words.
pub(crate) fn published(root: &Node, document: Document) -> Vec<Diagnostic> {
    check(root, document, document.published_validator())
}

/// Checks a configuration whose references to the environment have been replaced.
pub(crate) fn strict(root: &Node) -> Vec<Diagnostic> {
    check(root, Document::Configuration, schema::strict_validator())
}

fn check(root: &Node, document: Document, validator: Result<&Validator, &str>) -> Vec<Diagnostic> {
    let validator = match validator {
        Ok(validator) => validator,
        Err(error) => {
            let message = format!("the schema itself is wrong, which is a bug of Fairlane: {error}");
            return vec![Diagnostic::error(Kind::BadValue, KeyPath::root(), message)];
        }
    };
    if matches!(root.value, tree::Value::Null) {
        let (message, help) = match document {
            Document::Configuration => ("the configuration is empty", "it needs at least `backends`"),
            Document::Keys => ("the file of keys is empty", "it needs `keys`, if only as `keys: []`"),
        };
        return vec![Diagnostic::error(Kind::MissingKey, KeyPath::root(), message).at(root.at).help(help)];
    }
    let json = root.to_json();
    let mut told = BTreeSet::new();
    let mut found = Vec::new();
    for error in validator.iter_errors(&json) {
        for diagnostic in describe(root, document, &error) {
            // One value may break several rules of its schema (a pattern and a format): the first says enough.
            if told.insert(diagnostic.path.clone()) {
                found.push(diagnostic);
            }
        }
    }
    found
}

fn describe(root: &Node, document: Document, error: &ValidationError<'_>) -> Vec<Diagnostic> {
    let path = key_path(error.instance_path());
    let place = root.place(&path);
    let schema = document.schema_at(&path);
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            unexpected.iter().map(|key| unknown_key(root, &path, key, schema)).collect()
        }
        ValidationErrorKind::Required { property } => {
            let key = property.as_str().unwrap_or_default();
            let missing = path.key(key);
            let about = document.schema_at(&missing).and_then(|schema| schema.get("description")?.as_str());
            let diagnostic =
                Diagnostic::error(Kind::MissingKey, missing, format!("`{key}` is missing")).at(place);
            vec![match about {
                Some(about) => diagnostic.help(format!("add it: {}", first_sentence(about))),
                None => diagnostic,
            }]
        }
        _ => vec![bad_value(error, &path, schema.unwrap_or(&Value::Null)).at(place)],
    }
}

fn unknown_key(root: &Node, parent: &KeyPath, key: &str, schema: Option<&Value>) -> Diagnostic {
    let path = parent.key(key);
    let place = root.place_of_key(parent, key);
    let diagnostic = Diagnostic::error(Kind::UnknownKey, path, "there is no such key here").at(place);
    // Where keys are free they still have a form, that of an identity of the dimension.
    if let Some(forms) = schema.and_then(|schema| schema.get("patternProperties")?.as_object()) {
        let due = match forms.keys().next().map(String::as_str) {
            Some(address::PATTERN) => {
                "a key here is an address, such as 192.0.2.7, or a CIDR, such as 10.0.0.0/8"
            }
            _ => "a key here is the name of a model, or the beginning of names and a final `*`",
        };
        return Diagnostic { kind: Kind::BadValue, message: due.to_owned(), ..diagnostic };
    }
    let known = || {
        let properties = schema.and_then(|schema| schema.get("properties")?.as_object());
        properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str))
    };
    if let Some(help) = about_tokens(key, known()) {
        return diagnostic.help(help);
    }
    let elsewhere = schema::sections_with(key);
    if let Some(close) = suggest::closest(key, known()) {
        diagnostic.help(format!("did you mean `{close}`?"))
    } else if let [section] = &elsewhere[..] {
        let section = match section.steps() {
            [] => "at the top".to_owned(),
            _ => format!("in `{section}`"),
        };
        diagnostic.help(format!("`{key}` belongs {section}"))
    } else {
        diagnostic.help(format!("the keys here are {}", list(known())))
    }
}

/// What there is to know of a key for tokens that a limit does not have. `known` are the keys that it has.
fn about_tokens<'a>(key: &str, mut known: impl Iterator<Item = &'a str> + Clone) -> Option<&'static str> {
    let counts_tokens = known.clone().any(|known| known == "tokens_per_minute");
    let is_limit = known.any(|known| known == "burst_capacity");
    match key {
        "tokens_per_second" if counts_tokens => Some("tokens are limited per minute, hour and day"),
        "tokens_per_second"
        | "tokens_per_minute"
        | "tokens_per_hour"
        | "tokens_per_day"
        | "token_burst_capacity"
            if is_limit =>
        {
            Some(
                "here only requests are counted: limit tokens per_api_key, per_user, per_team or per_model, or in the \
                 `rate_limit` of a key",
            )
        }
        _ => None,
    }
}

/// A value that its own schema refuses.
fn bad_value(error: &ValidationError<'_>, path: &KeyPath, schema: &Value) -> Diagnostic {
    let say = |kind, message: String| Diagnostic::error(kind, path.clone(), message);
    let instance = error.instance();
    let choices = choices(schema);
    if !choices.is_empty() {
        let diagnostic = say(
            Kind::BadValue,
            match choices[..] {
                [only] => format!("only `{only}` is known here"),
                _ => format!("one of {} is due", list(choices.iter().copied())),
            },
        );
        return match instance.as_str().and_then(|text| suggest::closest(text, choices)) {
            Some(close) => diagnostic.help(format!("did you mean `{close}`?")),
            None => diagnostic,
        };
    }
    match error.kind() {
        ValidationErrorKind::Type { .. } => wrong_type(instance, path, schema),
        ValidationErrorKind::Minimum { .. } | ValidationErrorKind::Maximum { .. } => {
            let bound =
                |keyword| schema.get(keyword).map_or(Cow::Borrowed("?"), |b: &Value| b.to_string().into());
            say(Kind::OutOfRange, format!("{instance} is not in {}..={}", bound("minimum"), bound("maximum")))
        }
        ValidationErrorKind::MinItems { .. } => say(Kind::OutOfRange, "at least one entry is due".to_owned()),
        ValidationErrorKind::MinLength { .. } if instance.as_str() == Some("") => {
            say(Kind::OutOfRange, "this must not be empty".to_owned())
        }
        _ => match reason(instance, schema) {
            Some(reason) => say(Kind::BadValue, reason),
            None => say(Kind::BadValue, "this value is not what is due".to_owned()),
        },
    }
}

fn wrong_type(instance: &Value, path: &KeyPath, schema: &Value) -> Diagnostic {
    let due = match schema.get("type") {
        Some(Value::Array(types)) => {
            types.iter().filter_map(Value::as_str).map(type_name).collect::<Vec<_>>().join(" or ")
        }
        Some(Value::String(only)) => type_name(only).to_owned(),
        _ => "another value".to_owned(),
    };
    let due_is = |kind: &str| schema.get("type").is_some_and(|t| t == kind);
    let (found, help) = match instance {
        Value::Null => ("nothing", Some("give it a value, or remove the key")),
        Value::Number(_) if schema.get("format").is_some_and(|format| format == "fairlane-duration") => {
            ("a number", Some("write a duration with its unit, such as 200ms or 30s"))
        }
        Value::Bool(_) | Value::Number(_) if due.contains("a string") => {
            (if instance.is_number() { "a number" } else { "true or false" }, Some("put it in quotes"))
        }
        Value::Bool(_) => ("true or false", None),
        Value::Number(number) if number.is_f64() && due_is("integer") => ("a fraction", None),
        Value::Number(_) => ("a number", None),
        Value::String(text) if text.contains("${") => (
            "a string",
            Some(
                "a variable of the environment is always a string, so it cannot stand here; write the value out",
            ),
        ),
        Value::String(text) if due_is("integer") && text.parse::<u64>().is_ok() => {
            ("a string", Some("write it without quotes"))
        }
        Value::String(text) if due_is("integer") && in_millis(path) && parse_duration(text).is_ok() => {
            ("a string", Some("write the number of milliseconds, without a unit"))
        }
        Value::String(text) if due_is("boolean") && matches!(text.as_str(), "yes" | "no" | "on" | "off") => {
            ("a string", Some("write true or false"))
        }
        Value::String(_) => ("a string", None),
        Value::Array(_) => ("a list", None),
        Value::Object(_) => ("a section with keys", None),
    };
    let help = match (help, instance) {
        (None, Value::String(_) | Value::Number(_)) if due_is("array") => Some("write it as a list: [ … ]"),
        (help, _) => help,
    };
    let diagnostic =
        Diagnostic::error(Kind::WrongType, path.clone(), format!("{due} is due, and here is {found}"));
    match help {
        Some(help) => diagnostic.help(help),
        None => diagnostic,
    }
}

/// Whether the key says that its number is one of milliseconds.
fn in_millis(path: &KeyPath) -> bool {
    matches!(path.steps().last(), Some(Step::Key(key)) if key.ends_with("_ms"))
}

fn type_name(kind: &str) -> &str {
    match kind {
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "string" => "a string",
        "array" => "a list",
        "object" => "a section with keys",
        "null" => "null",
        other => other,
    }
}

/// Why a string is refused: by its reader, else by what its schema says of the form.
fn reason(instance: &Value, schema: &Value) -> Option<String> {
    let text = instance.as_str()?;
    let read = |format: &str| FORMATS.iter().find(|(name, _)| *name == format).map(|(_, read)| read(text));
    if let Some(Err(error)) = schema.get("format").and_then(Value::as_str).and_then(read) {
        return Some(error.to_string());
    }
    Some(
        match schema.get("pattern")?.as_str()? {
            r"^/[!-~]*$" => "a path begins with `/` and has no blanks",
            r#"^/[!-"$->@-~]*$"# => "a path begins with `/` and has no blanks, no `?` and no `#`",
            KEY_PREFIX_PATTERN => {
                "a prefix is 1 to 64 visible ASCII characters without `{` and `}`, between which a cluster would \
                 read the place of every key"
            }
            r"^[!-~]+$" | secret::PATTERN => "only visible ASCII characters without blanks are allowed here",
            secret::DIGEST_PATTERN => "a SHA-256 digest has 64 hexadecimal digits",
            _ => return schema.get("examples").map(|examples| format!("this is written such as {examples}")),
        }
        .to_owned(),
    )
}

fn choices(schema: &Value) -> Vec<&str> {
    let variants = schema.get("oneOf").and_then(Value::as_array);
    variants.into_iter().flatten().filter_map(|variant| variant.get("const")?.as_str()).collect()
}

fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text.trim_end_matches('.'), |(first, _)| first)
}

fn key_path(location: &Location) -> KeyPath {
    location
        .segments()
        .map(|segment| match segment {
            LocationSegment::Property(key) => Step::Key(key.into_owned()),
            LocationSegment::Index(index) => Step::Index(index),
        })
        .collect()
}
