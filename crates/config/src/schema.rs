//! The JSON schema: one for editors, and the stricter one that the loader checks values against.
//!
//! Both come from the model. They differ in two things only. In a file a string may be a reference to the
//! environment, so the published schema lets any string with `${` pass where the strict one wants, say, a
//! duration; and the strict one names in `format` the reader of a value, which editors could not run.
//! Both use draft-07, since many editors lag behind newer drafts.

mod published;
mod title;

use std::sync::LazyLock;

use jsonschema::{Draft, Validator};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::{
    diagnostic::{KeyPath, Step},
    model::GatewayConfig,
    values::schema::FORMATS,
};

/// The JSON schema (draft-07) of a configuration file, for editors and other tools.
///
/// Its `$id` names the version of the gateway whose files it describes. Every description is one paragraph of meaning
/// and, after an empty line, one with the default, the range and the form, which editors show nowhere else.
#[must_use]
pub fn schema() -> Value {
    published::from(strict(), "config")
}

/// The JSON schema (draft-07) of a file of keys, as `api_keys.file` names it, in the form of [`schema`].
#[must_use]
pub fn keys_schema() -> Value {
    published::from(keys_of(&STRICT), "keys")
}

/// The schema of values whose references to the environment have been replaced.
pub(crate) fn strict() -> Value {
    // Everything in place, no `$ref`: hovers and paths stay simple, and the model has no cycles.
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<GatewayConfig>().to_value();
    tidy(&mut schema, None, None);
    schema
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    /// A configuration.
    Configuration,
    /// The file of `api_keys.file`: further keys.
    Keys,
}

/// Where the keys are in a configuration.
const KEYS: &str = "/properties/api_keys/properties/keys";

static STRICT: LazyLock<Value> = LazyLock::new(strict);
static STRICT_KEYS: LazyLock<Value> = LazyLock::new(|| keys_of(&STRICT));
static STRICT_VALIDATOR: LazyLock<Result<Validator, String>> = LazyLock::new(|| {
    let options =
        FORMATS.iter().fold(jsonschema::options().with_draft(Draft::Draft7), |options, (name, read)| {
            options.with_format(*name, |text: &str| read(text).is_ok())
        });
    options.should_validate_formats(true).build(&STRICT).map_err(|error| error.to_string())
});
static PUBLISHED_VALIDATOR: LazyLock<Result<Validator, String>> = LazyLock::new(|| published(&schema()));
static PUBLISHED_KEYS_VALIDATOR: LazyLock<Result<Validator, String>> =
    LazyLock::new(|| published(&keys_schema()));

fn published(schema: &Value) -> Result<Validator, String> {
    jsonschema::options().with_draft(Draft::Draft7).build(schema).map_err(|error| error.to_string())
}

/// The schema of a file of keys, from that of a configuration.
fn keys_of(schema: &Value) -> Value {
    let mut keys = schema.pointer(KEYS).cloned().unwrap_or_default();
    // In a file that is nothing but keys they are not left out.
    if let Some(keys) = keys.as_object_mut() {
        keys.remove("default");
    }
    json!({
        "$schema": schema["$schema"],
        "title": "Fairlane keys",
        "description": "Further keys, for `api_keys.file` of a Fairlane configuration.",
        "type": "object",
        "properties": { "keys": keys },
        "required": ["keys"],
        "additionalProperties": false,
    })
}

/// The validator of values whose references to the environment have been replaced.
pub(crate) fn strict_validator() -> Result<&'static Validator, &'static str> {
    STRICT_VALIDATOR.as_ref().map_err(String::as_str)
}

impl Document {
    /// The strict schema.
    pub(crate) fn schema(self) -> &'static Value {
        match self {
            Self::Configuration => &STRICT,
            Self::Keys => &STRICT_KEYS,
        }
    }

    /// The validator of a file as it stands.
    pub(crate) fn published_validator(self) -> Result<&'static Validator, &'static str> {
        let validator = match self {
            Self::Configuration => &PUBLISHED_VALIDATOR,
            Self::Keys => &PUBLISHED_KEYS_VALIDATOR,
        };
        validator.as_ref().map_err(String::as_str)
    }

    /// Where the keys are.
    pub(crate) fn keys(self) -> KeyPath {
        KeyPath::of(match self {
            Self::Configuration => "api_keys.keys",
            Self::Keys => "keys",
        })
    }

    /// The strict schema of the value at a path, if there can be one.
    pub(crate) fn schema_at(self, path: &KeyPath) -> Option<&'static Value> {
        path.steps().iter().try_fold(self.schema(), |schema, step| match step {
            Step::Index(_) => schema.get("items"),
            Step::Key(key) => schema
                .get("properties")
                .and_then(|properties| properties.get(key))
                .or_else(|| schema.get("additionalProperties").filter(|free| free.is_object()))
                .or_else(|| schema.get("patternProperties")?.as_object()?.values().next()),
        })
    }
}

/// All keys of the model, each with the path of the section that it belongs to.
pub(crate) fn sections_with(key: &str) -> Vec<KeyPath> {
    fn walk(schema: &Value, path: &KeyPath, key: &str, found: &mut Vec<KeyPath>) {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        if properties.contains_key(key) {
            found.push(path.clone());
        }
        for (name, property) in properties {
            walk(property, &path.key(name), key, found);
        }
    }
    let mut found = Vec::new();
    walk(&STRICT, &KeyPath::root(), key, &mut found);
    found
}

/// Takes out what misleads editors, and fills in what they show.
///
/// `shown` is what the example of the section around it has for this key.
fn tidy(schema: &mut Value, key: Option<&str>, shown: Option<&Value>) {
    let Some(object) = schema.as_object_mut() else { return };
    // Rust's integer formats are unknown to validators, and the bounds say it all.
    if object.get("format").and_then(Value::as_str).is_some_and(|format| !format.starts_with("fairlane-")) {
        object.remove("format");
    }
    // A `null` default stops some editors from offering the section; that of a section repeats those of its keys.
    if object.get("default").is_some_and(|default| default.is_null() || default.is_object()) {
        object.remove("default");
    }
    if object.remove("nullable").is_none() {
        strip_null(object);
    }
    if object.contains_key("properties") {
        object.insert("additionalProperties".to_owned(), json!(false));
    }
    one_line(object.get_mut("description"));
    for variant in object.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten() {
        one_line(variant.get_mut("description"));
    }
    // The title of a type is for what has no key: the entries of a list or map.
    if let Some(key) = key {
        object.insert("title".to_owned(), json!(title::of(key)));
    }
    if !object.contains_key("examples")
        && let Some(example) = example(object, shown)
    {
        object.insert("examples".to_owned(), json!([example]));
    }
    let section = object.get("examples").and_then(|examples| examples.get(0)).cloned();
    for (name, property) in children(object) {
        tidy(property, name, section.as_ref().zip(name).and_then(|(section, name)| section.get(name)));
    }
}

/// An example where none is given: the default, what the section shows, or a list of what an entry may be.
fn example(object: &Map<String, Value>, shown: Option<&Value>) -> Option<Value> {
    let default = object.get("default").filter(|default| **default != json!([]));
    default.or(shown).cloned().or_else(|| Some(json!([object.get("items")?.pointer("/examples/0")?])))
}

fn one_line(description: Option<&mut Value>) {
    if let Some(Value::String(text)) = description {
        *text = text.replace('\n', " ");
    }
}

/// Takes `null` out of the types: absent is written by leaving out, and `null` is for the keys that say so.
fn strip_null(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(variants)) = object.get_mut("anyOf") {
        variants.retain(|variant| variant.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = &mut variants[..] {
            let only = std::mem::take(only);
            object.remove("anyOf");
            for (keyword, value) in only {
                object.entry(keyword).or_insert(value);
            }
        }
    }
}

/// The schemas of the values within a value, each with its key if that is fixed.
fn children(object: &mut Map<String, Value>) -> Vec<(Option<&str>, &mut Value)> {
    let mut found = Vec::new();
    for (keyword, value) in object.iter_mut() {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                found.extend(properties.iter_mut().map(|(key, property)| (Some(key.as_str()), property)));
            }
            ("patternProperties", Value::Object(properties)) => {
                found.extend(properties.values_mut().map(|property| (None, property)));
            }
            ("items" | "additionalProperties", value) => found.push((None, value)),
            _ => {}
        }
    }
    found
}
