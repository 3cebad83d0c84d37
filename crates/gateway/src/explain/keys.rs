//! The keys of the configuration, from its schema.

use std::sync::LazyLock;

use serde_json::Value;

use super::Explanation;

/// The schema's keys, each with its path: `[]` stands for an item, `<name>` for a key that one chooses.
static KEYS: LazyLock<Vec<(String, Value)>> = LazyLock::new(|| {
    let mut keys = Vec::new();
    walk("", &fairlane_config::schema(), &mut keys);
    keys
});

fn walk(path: &str, schema: &Value, keys: &mut Vec<(String, Value)>) {
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        keys.push((path.clone(), property.clone()));
        walk(&path, property, keys);
        walk(&format!("{path}[]"), &property["items"], keys);
        walk(&format!("{path}.<name>"), &property["additionalProperties"], keys);
        for named in property["patternProperties"].as_object().into_iter().flat_map(|map| map.values()) {
            walk(&format!("{path}.<name>"), named, keys);
        }
    }
}

pub(super) fn paths() -> Vec<String> {
    KEYS.iter().map(|(path, _)| path.clone()).collect()
}

/// The key at a path, or all keys whose paths end so. Those that say the same are told once.
pub(super) fn explain(name: &str) -> Vec<Explanation> {
    let wanted = plain(name);
    if wanted.is_empty() {
        return Vec::new();
    }
    let whole: Vec<_> = KEYS.iter().filter(|(path, _)| plain(path) == wanted).collect();
    let found = match whole[..] {
        [] => KEYS.iter().filter(|(path, _)| plain(path).ends_with(&format!(".{wanted}"))).collect(),
        _ => whole,
    };
    let mut told: Vec<(Vec<&str>, &Value)> = Vec::new();
    for (path, schema) in found {
        match told.iter_mut().find(|(_, other)| other["description"] == schema["description"]) {
            Some((paths, _)) => paths.push(path),
            None => told.push((vec![path], schema)),
        }
    }
    told.into_iter().map(|(paths, schema)| key(&paths, schema)).collect()
}

/// A path without the numbers and names of items: `backends[0].url` is `backends.url`.
fn plain(path: &str) -> String {
    let mut plain = String::new();
    let mut in_item = false;
    for c in path.chars() {
        match c {
            '[' => in_item = true,
            ']' => in_item = false,
            _ if !in_item => plain.push(c),
            _ => {}
        }
    }
    plain.replace(".<name>", "")
}

fn key(paths: &[&str], schema: &Value) -> Explanation {
    let description = schema["description"].as_str().unwrap_or_default();
    let mut paragraphs: Vec<String> = description.split("\n\n").map(str::to_owned).collect();
    let choices = schema["anyOf"].as_array().into_iter().flatten();
    let choices: Vec<_> = choices
        .filter_map(|choice| {
            let meaning = choice["description"].as_str()?.split("\n\n").next()?;
            Some(format!("`{}`: {meaning}", choice["const"].as_str()?))
        })
        .collect();
    if !choices.is_empty() {
        paragraphs.push(choices.join("\n"));
    }
    if let Some(keys) = schema["properties"].as_object() {
        let keys: Vec<_> = keys.keys().map(|key| format!("`{key}`")).collect();
        paragraphs.push(format!("Keys: {}.", keys.join(", ")));
    }
    if let [_, others @ ..] = paths
        && !others.is_empty()
    {
        paragraphs.push(format!("Also as:\n{}", others.join("\n")));
    }
    Explanation {
        name: paths.first().copied().unwrap_or_default().to_owned(),
        what: "key of the configuration".to_owned(),
        paragraphs,
    }
}
