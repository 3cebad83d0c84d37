//! The schema as such: what editors and strict validators want of it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod support;

use fairlane_config::{Format, keys_schema, schema};
use serde_json::{Value, json};

/// Calls `check` with the path and schema of every key, of a configuration and of a file of keys, and whether it is
/// required.
fn for_every_key(mut check: impl FnMut(&str, &Value, bool)) {
    for_every_key_of(&schema(), "", &mut check);
    for_every_key_of(&keys_schema(), "(keys)", &mut check);
}

fn for_every_key_of(schema: &Value, path: &str, check: &mut impl FnMut(&str, &Value, bool)) {
    let required: Vec<_> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}/{key}");
        check(&path, property, required.contains(&key.as_str()));
        for_every_key_of(property, &path, check);
        for_every_key_of(&property["items"], &path, check);
        for_every_key_of(&property["additionalProperties"], &path, check);
        for form in property["patternProperties"].as_object().into_iter().flatten() {
            for_every_key_of(form.1, &path, check);
        }
    }
}

#[test]
fn it_is_a_valid_draft_07_schema() {
    for schema in [schema(), keys_schema()] {
        assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
        assert!(jsonschema::meta::is_valid(&schema));
    }
}

#[test]
fn every_key_is_explained() {
    let mut seen = 0;
    for_every_key(|path, property, required| {
        seen += 1;
        let (meaning, facts) = described(property);
        assert!(meaning.ends_with(['.', ')']), "{path}: {meaning}");
        assert!(property["title"].as_str().is_some_and(|title| !title.is_empty()), "{path} has no title");
        let examples = property["examples"].as_array();
        assert!(examples.is_some_and(|examples| !examples.is_empty()), "{path} has no example");
        // What a hover does not show of itself is told in words, and in the same words as the keywords.
        if property.get("properties").is_some() {
            assert_eq!(facts, "", "{path}: its keys tell");
            return;
        }
        match property.get("default") {
            _ if required => assert!(facts.starts_with("Required."), "{path}: {facts}"),
            Some(default) if default == "" => {
                assert!(facts.starts_with("Default: empty."), "{path}: {facts}")
            }
            Some(default) => {
                let shown = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
                assert!(facts.starts_with(&format!("Default: `{shown}`.")), "{path}: {facts}");
            }
            None => assert!(facts.starts_with("Default: "), "{path}: {facts}"),
        }
        if property["type"] == "integer" {
            let bounds = [&property["minimum"], &property["maximum"]].map(|bound| bound.as_u64().unwrap());
            let range = format!("from {} to {}.", bounds[0], bounds[1]);
            assert!(facts.replace(',', "").contains(&range), "{path}: {facts}, not {range}");
        }
        for variant in property["anyOf"].as_array().into_iter().flatten() {
            let (choice, rest) = described(variant);
            assert!(choice.ends_with('.'), "{path} has a choice that is not explained: {variant}");
            if variant["title"] != "From the environment" {
                assert!(variant["const"].is_string(), "{path}: {variant}");
                // An editor shows only the description of the choice that was made.
                assert_eq!(property["description"], rest, "{path}: {variant}");
            }
        }
        assert!(property.get("enum").is_none(), "{path}: choices without a description of each");
    });
    assert!(seen > 100, "{seen}");
}

/// What each number counts, by a part of its key: a description must say it.
const UNITS: [(&str, &str); 18] = [
    ("_ms", "milliseconds"),
    ("bytes_per_token", "bytes"),
    ("_bytes", "bytes"),
    ("_prefix", "bits"),
    ("max_connections", "connections"),
    ("requests_per_second", "requests per second"),
    ("requests_per_minute", "requests per minute"),
    ("requests_per_hour", "requests per hour"),
    ("requests_per_day", "requests per day"),
    ("tokens_per_", "tokens per "),
    ("token_burst_capacity", "tokens"),
    ("burst_capacity", "requests"),
    ("max_tenants", "tenants"),
    ("max_in_flight", "attempts"),
    ("max_buckets", "buckets"),
    ("default_output", "tokens"),
    ("failures", "answers"),
    ("weight", "weight"),
];

/// Bounds on requests that wait.
const REQUESTS: [&str; 4] =
    ["max_held", "max_held_per_tenant", "max_queue_depth_per_tenant", "max_total_queued"];

#[test]
fn every_number_and_every_time_has_its_unit() {
    let mut seen = [0, 0];
    for_every_key(|path, property, _| {
        let key = path.rsplit('/').next().unwrap();
        let (meaning, facts) = described(property);
        if property["type"] == "integer" {
            seen[0] += 1;
            let unit = UNITS.iter().find(|(part, _)| key.contains(part)).map(|(_, unit)| *unit);
            let unit = unit.or_else(|| REQUESTS.contains(&key).then_some("requests"));
            let unit = unit.unwrap_or_else(|| panic!("{path}: say what it counts, and add it here"));
            // A weight counts nothing: it is a share.
            let words: &[&str] = if unit == "weight" { &["weight", "share"] } else { &[unit] };
            let meaning = meaning.to_lowercase();
            assert!(words.iter().any(|word| meaning.contains(word)), "{path}: {meaning} has no {unit}");
        }
        if property["pattern"].as_str().is_some_and(|pattern| pattern.contains("ms)?$")) {
            seen[1] += 1;
            assert!(facts.contains("A duration with its units: `200ms`"), "{path}: {facts}");
        }
    });
    assert!(seen[0] > 50 && seen[1] >= 10, "{seen:?}");
}

#[test]
fn every_kind_of_entry_has_a_title() {
    for pointer in [
        "/properties/backends/items",
        "/properties/api_keys/properties/keys/items",
        "/properties/identity/properties/tiers/additionalProperties",
        "/properties/rate_limiting/properties/fair_queuing/properties/weights/items",
        "/properties/rate_limiting/properties/limits/properties/per_user/properties/overrides/additionalProperties",
    ] {
        let schema = schema();
        let entry = schema.pointer(pointer).unwrap_or_else(|| panic!("{pointer}"));
        assert!(entry["title"].is_string() && entry["description"].is_string(), "{pointer}");
    }
}

/// Who finds a schema in a folder must be able to tell for which gateway it is.
#[test]
fn it_names_the_version() {
    assert_eq!(schema()["$id"], concat!("urn:fairlane:config:", env!("CARGO_PKG_VERSION")));
    assert_eq!(keys_schema()["$id"], concat!("urn:fairlane:keys:", env!("CARGO_PKG_VERSION")));
}

/// The two paragraphs of a description: what the key means, and what may stand there.
fn described(property: &Value) -> (&str, &str) {
    let description = property["description"].as_str().unwrap_or_default();
    description.split_once("\n\n").unwrap_or((description, ""))
}

#[test]
fn defaults_and_examples_are_valid() {
    for_every_key(|path, property, _| {
        let validator = jsonschema::draft7::new(property).unwrap();
        let examples = property["examples"].as_array().into_iter().flatten();
        for value in examples.chain(property.get("default")) {
            assert!(validator.is_valid(value), "{path}: {value}");
        }
    });
}

#[test]
fn it_has_nothing_that_editors_stumble_over() {
    fn walk(value: &Value, path: &str) {
        match value {
            Value::Object(object) => {
                // Under `properties` the names are those of the configuration.
                let is_schema = !path.ends_with("/properties");
                // Nor are those of an example keywords.
                for (keyword, value) in object.iter().filter(|(keyword, _)| *keyword != "examples") {
                    if is_schema {
                        assert!(!keyword.starts_with("x-"), "{path}/{keyword}");
                        assert_ne!(keyword, "format", "{path}");
                        assert!(
                            !["nullable", "$ref", "oneOf"].contains(&keyword.as_str()),
                            "{path}/{keyword}"
                        );
                        assert!(keyword != "default" || !value.is_null(), "{path}");
                    }
                    walk(value, &format!("{path}/{keyword}"));
                }
                if is_schema && object.contains_key("properties") {
                    assert_eq!(object["additionalProperties"], json!(false), "{path}");
                }
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, path)),
            _ => {}
        }
    }
    walk(&schema(), "");
    walk(&keys_schema(), "");
}

/// The defaults that are promised, one by one.
#[test]
fn defaults_are_as_documented() {
    let config = support::yaml("backends: [{ name: a, url: 'http://h', models: ['*'] }]").unwrap();
    let mut effective = config.effective();
    effective["backends"][0]
        .as_object_mut()
        .unwrap()
        .retain(|key, _| !["name", "url", "models"].contains(&key.as_str()));
    let expected = json!({
        "server": {
            "listen": "127.0.0.1:8080", "admin_listen": "127.0.0.1:9090", "trusted_proxies": [],
            "max_body_bytes": 10485760, "max_connections": 10000, "max_connections_per_client": 1000,
            "max_header_bytes": 65536, "max_buffered_bytes": 268435456,
            "timeouts": { "first_byte": "10s", "header": "10s", "body_progress": "30s", "keep_alive": "75s" },
            "ipv4_prefix": 32, "ipv6_prefix": 64, "paths": [], "drain_timeout": "30s",
        },
        "admin": { "token": "" },
        "backends": [{
            "api_key": "", "auth": "bearer", "weight": 1,
            "health": { "path": null, "interval": "10s", "failures": 3 },
        }],
        "log": { "format": "text", "level": "info" },
        "timeouts": {
            "connect": "5s",
            "request": {
                "standard": { "total": "3m" },
                "streaming": { "first_byte": "1m", "idle": "30s", "total": "10m" },
            },
        },
        "identity": { "hash_key": "", "tiers": {} },
        "api_keys": { "mode": "blocking", "keys": [], "file": null },
        "rate_limiting": {
            "enabled": false, "storage": "memory",
            "redis": {
                "url": "redis://127.0.0.1:6379", "mode": "standalone", "key_prefix": "fairlane", "timeout_ms": 50,
                "outage": "fail_closed",
            },
            "whitelist": [], "bypass_keys": [], "max_buckets": 1000000,
            "limits": {},
            "tokens": { "default_output": 512, "bytes_per_token": 4, "estimator": "bytes" },
            "fair_queuing": {
                "enabled": false, "tenant_dimension": "user", "default_weight": 1, "weights": [],
                "max_queue_depth_per_tenant": 32, "max_total_queued": 4096, "max_tenants": 1024,
                "max_in_flight": 8, "max_wait_ms": 5000,
            },
            "deferred_admission": {
                "enabled": false, "max_held": 1024, "max_held_per_tenant": 32, "max_wait_ms": 5000,
            },
        },
    });
    assert_eq!(effective, expected);
}

/// Keys that an example cannot show in effect: a certificate would have to be there.
const NOT_SHOWN: [&str; 1] = ["ca_file"];

/// Sections whose values are samples.
const SAMPLES: [&str; 6] = ["backends", "tiers", "keys", "limits", "weights", "enabled"];

/// All values of an example at a place of the schema: a list or a map of sections may have several.
fn shown<'a>(values: &[&'a Value], key: &str) -> Vec<&'a Value> {
    values.iter().filter_map(|value| value.get(key)).collect()
}

fn compare_with_defaults(schema: &Value, values: &[&Value], is_sample: bool, path: &str) {
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{key}");
        let is_sample = is_sample || SAMPLES.contains(&key.as_str());
        let here = shown(values, key);
        assert!(!here.is_empty() || NOT_SHOWN.contains(&key.as_str()), "full.yaml does not show {path}");
        if let Some(default) = property.get("default").filter(|_| !is_sample) {
            // `3m` and `180s` are one duration.
            let same = |value: &Value| match (value.as_str(), default.as_str()) {
                (Some(value), Some(default)) => {
                    value == default
                        || fairlane_config::parse_duration(value)
                            .is_ok_and(|d| fairlane_config::parse_duration(default) == Ok(d))
                }
                _ => value == default,
            };
            assert!(
                here.iter().all(|value| same(value)),
                "full.yaml shows {path} as {here:?}, by default {default}"
            );
        }
        compare_with_defaults(property, &here, is_sample, &path);
        let items: Vec<&Value> = here.iter().flat_map(|list| list.as_array().into_iter().flatten()).collect();
        compare_with_defaults(&property["items"], &items, is_sample, &path);
        let entries: Vec<&Value> =
            here.iter().flat_map(|map| map.as_object().into_iter().flat_map(|map| map.values())).collect();
        compare_with_defaults(&property["additionalProperties"], &entries, is_sample, &path);
    }
}

#[test]
fn the_full_example_shows_every_key_with_its_default() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/full.yaml");
    let mut schema = schema();
    // Of the limits it is enough that each key is shown somewhere.
    let limits = schema.pointer_mut("/properties/rate_limiting/properties/limits/properties").unwrap();
    for limit in limits.as_object_mut().unwrap().values_mut() {
        limit.as_object_mut().unwrap().remove("properties");
    }
    let key = schema.pointer_mut("/properties/api_keys/properties/keys/items/properties/rate_limit").unwrap();
    key.as_object_mut().unwrap().remove("properties");
    let text = std::fs::read_to_string(path).unwrap();
    // The section of Redis is a comment: beside `storage: memory` it would have no effect.
    let with_redis = text.replace("\n  # redis:", "\n  redis:").replace("\n  #   ", "\n    ");
    let example = support::independent_text(&with_redis, Format::Yaml);
    compare_with_defaults(&schema, &[&example], false, "");
    for key in ["second", "minute", "hour", "day"].map(|period| format!("requests_per_{period}:")) {
        assert!(text.contains(&key), "full.yaml does not show {key}");
    }
    for key in ["minute", "hour", "day"].map(|period| format!("tokens_per_{period}:")) {
        assert!(text.contains(&key), "full.yaml does not show {key}");
    }
    assert!(text.contains(" token_burst_capacity:"));
    assert!(text.contains(" burst_capacity:") && text.contains("overrides:") && text.contains("ca_file:"));
}
