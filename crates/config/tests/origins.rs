//! Where each value in effect comes from.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod support;

use fairlane_config::{Format, Inspected, Loader, Origin, Overrides};
use serde_json::{Value, json};
use support::{SECRETS, corpus, files};

fn inspect(name: &str) -> Inspected {
    Loader::new(&support::environment()).inspect(&corpus().join(name)).unwrap()
}

/// The entry of a path in the form for programs.
fn entry(shown: &Value, path: &str) -> Value {
    let entries = shown["values"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["path"] == path);
    entry.unwrap_or_else(|| panic!("no {path} in {shown:#}")).clone()
}

#[test]
fn every_value_has_an_origin() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fairlane.yaml");
    std::fs::write(
        folder.path().join("keys.toml"),
        "[[keys]]\nid = \"k2\"\nkey = \"${BOB_KEY}\"\nuser = \"bob\"\n",
    )
    .unwrap();
    let text = r#"backends: [{ name: a, url: "builtin:echo", models: ["*"] }]
server: { drain_timeout: "${UNSET:-7s}", max_connections: 5, listen: 127.0.0.1:1 }
api_keys: { file: keys.toml, keys: [{ id: k1, key: "${ALICE_KEY}", user: alice }] }
rate_limiting: { limits: { per_user: { requests_per_second: 1, overrides: { bob: { requests_per_second: 2 }, alice: { requests_per_second: 3 } } } } }
"#;
    std::fs::write(&file, text).unwrap();
    let environment = |name: &str| match name {
        "ALICE_KEY" => Some(SECRETS[0].to_owned()),
        "BOB_KEY" => Some(SECRETS[1].to_owned()),
        "FAIRLANE_ADMIN_TOKEN" => Some(SECRETS[3].to_owned()),
        "FAIRLANE_ADMIN_LISTEN" => Some("127.0.0.1:2".to_owned()),
        _ => None,
    };
    let flags = Overrides { listen: Some("127.0.0.1:3".to_owned()), ..Overrides::default() };
    let inspected = Loader::new(&environment).overrides(flags).inspect(&file).unwrap();
    let shown = inspected.to_json();
    let check = |path: &str, expected: Value| {
        let found = entry(&shown, path);
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&found[key], value, "{path}: {found}");
        }
    };
    let here = file.to_str().unwrap();
    check(
        "server.listen",
        json!({ "value": "127.0.0.1:3", "origin": "flag", "flag": "--listen", "file": null }),
    );
    check(
        "server.admin_listen",
        json!({ "origin": "environment", "variables": ["FAIRLANE_ADMIN_LISTEN"], "file": null }),
    );
    check(
        "admin.token",
        json!({ "value": "***", "origin": "environment", "variables": ["FAIRLANE_ADMIN_TOKEN"] }),
    );
    check(
        "server.max_connections",
        json!({ "value": 5, "origin": "file", "file": here, "line": 2, "column": 59 }),
    );
    // The variable is not set: the value is what the file says.
    check("server.drain_timeout", json!({ "value": "7s", "origin": "file", "line": 2 }));
    check(
        "server.max_body_bytes",
        json!({ "origin": "default", "file": null, "line": null, "variables": [], "flag": null }),
    );
    check("identity.hash_key", json!({ "value": "", "origin": "default" }));
    check(
        "api_keys.keys[0].key",
        json!({ "value": "***", "origin": "environment", "variables": ["ALICE_KEY"], "file": here, "line": 3 }),
    );
    check("api_keys.keys[0].enabled", json!({ "value": true, "origin": "default" }));
    let keys = folder.path().join("keys.toml");
    check(
        "api_keys.keys[1].id",
        json!({ "value": "k2", "origin": "file", "file": keys.to_str().unwrap(), "line": 2, "column": 6 }),
    );
    check("rate_limiting.enabled", json!({ "value": true, "origin": "default" }));
    // Users are numbered where they are shown, alice first.
    check(
        "rate_limiting.limits.per_user.overrides.\"***1\".requests_per_second",
        json!({ "value": 3, "origin": "file", "line": 4, "column": 140 }),
    );
    check(
        "rate_limiting.limits.per_user.overrides.\"***2\".requests_per_second",
        json!({ "value": 2, "origin": "file", "line": 4, "column": 105 }),
    );

    let yaml = inspected.to_yaml();
    for line in [
        "listen: \"127.0.0.1:3\"                         # flag: --listen",
        "max_body_bytes: 10485760                      # default",
    ] {
        assert!(yaml.contains(line), "no `{line}` in:\n{yaml}");
    }
    assert!(yaml.contains(&format!("# environment: ALICE_KEY ({here}:3)")), "{yaml}");
    // The comments change nothing.
    let without = support::independent_text(&yaml, Format::Yaml);
    assert_eq!(without, inspected.config().effective());
}

#[test]
fn no_origin_shows_a_secret_or_an_identity() {
    for file in files("good").into_iter().chain(files("warn")) {
        let inspected = Loader::new(&support::environment()).inspect(&file).unwrap();
        for output in
            [inspected.to_yaml(), inspected.to_json().to_string(), format!("{:?}", inspected.config())]
        {
            for secret in SECRETS.iter().chain(&["alice-secret", "written-"]) {
                assert!(!output.contains(secret), "{}: {output}", file.display());
            }
        }
    }
}

#[test]
fn an_origin_can_be_asked_for() {
    let inspected = inspect("good/variables.yaml");
    let path = ["log", "level"].iter().map(|key| fairlane_config::Step::Key((*key).to_owned())).collect();
    assert!(matches!(inspected.origin(&path), Origin::File { position, .. } if position.line == 4));
    assert_eq!(inspected.origin(&fairlane_config::KeyPath::root().key("nowhere")), Origin::Default);
    assert_eq!(inspected.into_config().log.level, fairlane_config::model::LogLevel::Debug);
}
