//! Loading again for a gateway that runs: what only a restart changes stays, and is told by name.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod support;

use std::{fs, path::Path};

use fairlane_config::{
    Fixed, Format, Inspected, Kind, Loader, Origin, Overrides, Report, Severity, Validated, model::Storage,
    restart_only, schema,
};
use serde_json::{Value, json};
use support::{SECRETS, environment};

const HEAD: &str =
    "backends: [{ name: a, url: 'builtin:echo', models: ['*'] }]\napi_keys: { mode: permissive }\n";

/// A gateway of a fleet, whose every key has a value of its own or its default.
const FLEET: &str = "
identity: { hash_key: '${TOKEN}' }
rate_limiting:
  limits: { global: { requests_per_second: 1 } }
  storage: redis
  redis: { url: 'rediss://gateway:${REDIS_PASSWORD}@one' }
";

fn inspect(loader: &Loader<'_>, text: &str, format: Format) -> Result<Inspected, Report> {
    loader.inspect_bytes(text.as_bytes(), format, Path::new("test"))
}

/// What a gateway that has started with this text keeps.
fn running(text: &str) -> Fixed {
    let loaded = inspect(&Loader::new(&environment()), &format!("{HEAD}{text}"), Format::Yaml);
    loaded.unwrap_or_else(|report| panic!("{report}")).fixed()
}

/// Loads a text in YAML for a gateway that has started with another one.
fn reload(before: &str, after: &str) -> Result<Inspected, Report> {
    let environment = environment();
    inspect(&Loader::new(&environment).keeping(running(before)), &format!("{HEAD}{after}"), Format::Yaml)
}

fn reloaded(before: &str, after: &str) -> Validated {
    reload(before, after).unwrap_or_else(|report| panic!("{report}")).into_config()
}

/// What is told of a reload.
fn told(before: &str, after: &str) -> String {
    reloaded(before, after).warnings().to_string()
}

// === each key ===

/// Every key, with another value than that of the fleet's gateway, and what is told of it.
fn changes(ca_file: &str) -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("server.listen", json!("0.0.0.0:7000"), "it stays 127.0.0.1:8080"),
        ("server.admin_listen", json!("127.0.0.1:7001"), "it stays 127.0.0.1:9090"),
        ("log.format", json!("json"), "it stays text"),
        ("identity.hash_key", json!("${ALICE_KEY}"), "it stays as it is"),
        ("rate_limiting.enabled", json!(false), "it stays true"),
        ("rate_limiting.storage", json!("memory"), "it stays redis"),
        (
            "rate_limiting.redis.url",
            json!("rediss://gateway:${BOB_KEY}@two"),
            "it stays rediss://gateway:***@one:6379",
        ),
        ("rate_limiting.redis.mode", json!("cluster"), "it stays standalone"),
        ("rate_limiting.redis.key_prefix", json!("other"), "it stays fairlane"),
        ("rate_limiting.redis.timeout_ms", json!(70), "it stays 50"),
        ("rate_limiting.redis.outage", json!("fail_open"), "it stays fail_closed"),
        ("rate_limiting.redis.ca_file", json!(ca_file), "it stays unset"),
        ("rate_limiting.max_buckets", json!(77), "it stays 1000000"),
    ]
}

/// The fleet's configuration with one value changed.
fn fleet_with(path: &str, value: Value) -> Value {
    let mut config = json!({
        "backends": [{ "name": "a", "url": "builtin:echo", "models": ["*"] }],
        "api_keys": { "mode": "permissive" },
        "identity": { "hash_key": "${TOKEN}" },
        "rate_limiting": {
            "limits": { "global": { "requests_per_second": 1 } },
            "storage": "redis",
            "redis": { "url": "rediss://gateway:${REDIS_PASSWORD}@one" },
        },
    });
    let place = path.split('.').fold(&mut config, |section, key| &mut section[key]);
    *place = value;
    config
}

fn write_yaml(value: &Value, indent: usize, text: &mut String) {
    for (key, value) in value.as_object().unwrap() {
        let blanks = " ".repeat(indent);
        if value.is_object() {
            text.push_str(&format!("{blanks}{key}:\n"));
            write_yaml(value, indent + 2, text);
        } else {
            text.push_str(&format!("{blanks}{key}: {value}\n"));
        }
    }
}

fn write_toml(value: &Value, path: &str, text: &mut String) {
    for (key, value) in value.as_object().unwrap() {
        if value.is_object() {
            write_toml(value, &format!("{path}{key}."), text);
        } else if key != "backends" {
            text.push_str(&format!("{path}{key} = {value}\n"));
        }
    }
}

fn write(value: &Value, format: Format) -> String {
    let mut text = String::new();
    match format {
        Format::Toml => {
            write_toml(value, "", &mut text);
            text.push_str("[[backends]]\nname = 'a'\nurl = 'builtin:echo'\nmodels = ['*']\n");
        }
        Format::Json => text = serde_json::to_string_pretty(value).unwrap(),
        _ => write_yaml(value, 0, &mut text),
    }
    text
}

#[test]
fn each_key_stays_and_is_told_by_name_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    fs::write(&ca_file, "-----BEGIN CERTIFICATE-----\n").unwrap();
    let changes = changes(ca_file.to_str().unwrap());
    assert!(changes.iter().map(|(path, ..)| *path).eq(restart_only()));

    let before = running(FLEET);
    let environment = environment();
    let loader = Loader::new(&environment).keeping(before);
    for (path, value, stays) in changes {
        for format in [Format::Yaml, Format::Toml, Format::Json] {
            let text = write(&fleet_with(path, value.clone()), format);
            let loaded = inspect(&loader, &text, format).unwrap_or_else(|report| panic!("{report}"));

            let report = loaded.config().warnings();
            let problems: Vec<_> =
                report.diagnostics().iter().filter(|problem| problem.kind == Kind::NeedsRestart).collect();
            let [problem] = problems[..] else { panic!("{path}: {report}") };
            assert_eq!(problem.path.to_string(), path);
            assert_eq!(problem.severity, Severity::Warning);
            assert_eq!(problem.message, format!("this changes only at a restart; until then {stays}"));
            let place = problem.position().unwrap();
            let line = text.lines().nth(place.line as usize - 1).unwrap();
            let at: String = line.chars().skip(place.column as usize - 1).collect();
            assert!(at.starts_with(&value.to_string()), "{path}: {at}");

            let logged = format!("test:{}:{}: warning: needs a restart: {path}", place.line, place.column);
            assert!(report.redacted().any(|line| line == logged), "{report:?}");
            for shown in [report.to_string(), report.drawn(false), report.to_json().to_string()] {
                assert!(SECRETS.iter().all(|secret| !shown.contains(secret)), "{shown}");
            }

            // What is in effect is what was.
            let pointer = format!("/{}", path.replace('.', "/"));
            let effective = |config: &Validated| config.effective().pointer(&pointer).cloned();
            assert_eq!(effective(loaded.config()), effective(&reloaded(FLEET, FLEET)), "{path}");
            assert_eq!(loaded.origin(&problem.path), Origin::Running);
        }
    }
}

#[test]
fn every_key_of_redis_and_no_live_one_is_said_to_need_a_restart() {
    const SENTENCE: &str = "Changes only at a restart";
    fn walk(schema: &Value, path: &str, found: &mut Vec<String>) {
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            if property["properties"].is_null()
                && property["description"].as_str().unwrap().contains(SENTENCE)
            {
                found.push(path.clone());
            }
            walk(property, &path, found);
        }
    }
    let mut said = Vec::new();
    walk(&schema(), "", &mut said);
    said.sort();
    let mut keys: Vec<_> = restart_only().collect();
    keys.sort_unstable();
    assert_eq!(said, keys);

    let schema = schema();
    let redis = &schema["properties"]["rate_limiting"]["properties"]["redis"]["properties"];
    let of_redis: Vec<_> =
        redis.as_object().unwrap().keys().map(|key| format!("rate_limiting.redis.{key}")).collect();
    assert!(of_redis.len() >= 6 && of_redis.iter().all(|key| keys.contains(&key.as_str())), "{of_redis:?}");
}

// === what is a change ===

#[test]
fn nothing_is_told_where_nothing_changes() {
    assert_eq!(told("", ""), "");
    assert_eq!(told(FLEET, FLEET), "");
    // What is absent has its default, and one value may be written in several ways.
    let written_out = "
server: { listen: '127.0.0.1:${PORT}', admin_listen: '127.0.0.1:9090' }
log: { format: text }
rate_limiting: { enabled: false, storage: memory, max_buckets: 1e6 }
";
    assert_eq!(told("", written_out), "");
    assert_eq!(told(written_out, ""), "");
    let otherwise = FLEET.replace("@one'", "@ONE:6379/', timeout_ms: 50.0, mode: standalone");
    assert_eq!(told(FLEET, &otherwise), "");
}

#[test]
fn all_else_changes_at_once() {
    let after = "
server: { max_body_bytes: 5, drain_timeout: 1s }
admin: { token: '${TOKEN}' }
log: { level: debug }
timeouts: { connect: 1s }
identity: { tiers: { gold: { weight: 4 } } }
rate_limiting: { enabled: true, limits: { global: { requests_per_second: 9 } }, fair_queuing: { max_wait_ms: 9 } }
";
    let kept = reloaded("", after);
    let fresh = inspect(&Loader::new(&environment()), &format!("{HEAD}{after}"), Format::Yaml).unwrap();
    assert_eq!(kept, *fresh.config());
    assert_eq!(kept.warnings(), fresh.config().warnings());
}

#[test]
fn a_key_that_is_gone_is_told_without_a_place() {
    let before = "server: { listen: '127.0.0.1:7000', admin_listen: null }\nlog: { format: json }\n";
    let config = reloaded(before, "");
    assert_eq!(
        config.warnings().to_string(),
        "test: warning: server.listen: this changes only at a restart; until then it stays 127.0.0.1:7000\n\
         test: warning: server.admin_listen: this changes only at a restart; until then it stays off\n\
         test: warning: log.format: this changes only at a restart; until then it stays json"
    );
    let logged: Vec<_> = config.warnings().redacted().collect();
    assert_eq!(
        logged,
        [
            "test: warning: needs a restart: server.listen",
            "test: warning: needs a restart: server.admin_listen",
            "test: warning: needs a restart: log.format",
        ]
    );
    assert_eq!((config.server.listen.port(), config.server.admin_listen), (7000, None));
}

#[test]
fn whether_anything_is_limited_changes_at_once_while_the_buckets_are_in_memory() {
    let off = "rate_limiting: { enabled: false, limits: { global: { requests_per_second: 1 } } }";
    let on = "rate_limiting: { limits: { global: { requests_per_second: 1 } } }";
    assert_eq!(told(off, on), "");
    assert!(reloaded(off, on).rate_limiting.enabled);

    let fleet_off = FLEET.replace("storage", "enabled: false\n  storage");
    let config = reloaded(&fleet_off, FLEET);
    assert!(!config.rate_limiting.enabled);
    // The limits alone switch it on: there is no place where the file does.
    assert_eq!(
        config.warnings().to_string(),
        "test: warning: rate_limiting.enabled: this changes only at a restart; until then it stays false"
    );

    // What a gateway runs with decides, and not what the file would have it run with.
    let config = reloaded(on, &fleet_off);
    assert!(!config.rate_limiting.enabled && config.rate_limiting.storage == Storage::Memory);
}

#[test]
fn what_stays_once_stays_until_the_restart() {
    let environment = environment();
    let loader = Loader::new(&environment);
    let mut fixed = running("");
    for port in ["7000", "7001"] {
        let text = format!("{HEAD}server: {{ listen: '127.0.0.1:{port}' }}\n");
        let loaded = inspect(&loader.clone().keeping(fixed), &text, Format::Yaml).unwrap();
        assert_eq!(loaded.config().server.listen.port(), 8080);
        assert_eq!(loaded.config().warnings().diagnostics().len(), 1);
        fixed = loaded.fixed();
    }
    assert_eq!(
        inspect(&loader.keeping(fixed), HEAD, Format::Yaml).unwrap().config().warnings().to_string(),
        ""
    );
}

#[test]
fn flags_go_before_the_file_here_too() {
    let environment = environment();
    let flags = Overrides { listen: Some("127.0.0.1:6000".to_owned()), admin_listen: Some("off".to_owned()) };
    let loader = Loader::new(&environment).overrides(flags);
    let before = inspect(&loader, HEAD, Format::Yaml).unwrap().fixed();
    let text = format!("{HEAD}server: {{ listen: '0.0.0.0:7000', admin_listen: '127.0.0.1:7001' }}\n");

    let loaded = inspect(&loader.keeping(before.clone()), &text, Format::Yaml).unwrap();
    assert_eq!(loaded.config().warnings().to_string(), "");
    assert_eq!((loaded.config().server.listen.port(), loaded.config().server.admin_listen), (6000, None));

    // And without them the gateway still listens where they told it to.
    let loaded = inspect(&Loader::new(&environment).keeping(before), &text, Format::Yaml).unwrap();
    assert_eq!(loaded.config().warnings().diagnostics().len(), 2);
    assert_eq!((loaded.config().server.listen.port(), loaded.config().server.admin_listen), (6000, None));
}

// === what is refused ===

#[test]
fn a_file_has_to_go_with_what_stays() {
    let before = "server: { admin_listen: '0.0.0.0:9090' }\nadmin: { token: '${TOKEN}' }\n";
    let report = reload(before, "server: { admin_listen: '127.0.0.1:9090' }\n").unwrap_err();
    assert_eq!(
        report.to_string(),
        "test:3:25: warning: server.admin_listen: this changes only at a restart; until then it stays 0.0.0.0:9090\n\
         test:3:25: error: server.admin_listen: an admin plane that others can reach needs `admin.token` \
         (with the values that the gateway keeps until a restart)\n  \
         help: set `admin.token` (by default it is the variable FAIRLANE_ADMIN_TOKEN), or listen on 127.0.0.1"
    );
    let logged: Vec<_> = report.redacted().collect();
    assert_eq!(
        logged,
        ["test:3:25: warning: needs a restart: server.admin_listen", "test:3:25: error: conflicting values",]
    );
    // The other way round the gateway would do, but could not start again.
    let report = reload("", "server: { admin_listen: '0.0.0.0:9090' }\n").unwrap_err();
    assert!(report.to_string().contains("needs `admin.token`\n"), "{report}");
    assert_eq!(report.diagnostics().len(), 1, "{report}");
}

#[test]
fn what_is_no_value_is_refused_although_it_would_not_be_used() {
    for (text, kind) in [
        ("server: { listen: nowhere }", Kind::BadValue),
        ("server: { listen: '${UNSET}' }", Kind::Variable),
        ("rate_limiting: { max_buckets: 0 }", Kind::OutOfRange),
        ("rate_limiting: { storage: redis }", Kind::Conflict),
        ("rate_limiting: { redis: { key_prefix: '${BLANK}' } }", Kind::BadValue),
    ] {
        let report = reload("", text).unwrap_err();
        assert_eq!(report.diagnostics()[0].kind, kind, "{text}: {report}");
    }
}

#[test]
fn files_of_kept_values_may_be_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fairlane.yaml");
    let text =
        |ca_file: &str| format!("{HEAD}{}", FLEET.replace("@one'", &format!("@one', ca_file: {ca_file}")));
    for name in ["old.pem", "new.pem"] {
        fs::write(folder.path().join(name), "-----BEGIN CERTIFICATE-----\n").unwrap();
    }
    fs::write(&path, text("old.pem")).unwrap();
    let environment = environment();
    let loader = Loader::new(&environment);
    let before = loader.inspect(&path).unwrap();
    fs::write(&path, text("new.pem")).unwrap();
    fs::remove_file(folder.path().join("old.pem")).unwrap();

    let after = loader.keeping(before.fixed()).inspect(&path).unwrap();
    assert_eq!(after.config().rate_limiting.redis.ca_file, Some(folder.path().join("old.pem")));
    assert!(after.config().warnings().to_string().ends_with("until then it stays old.pem"));
}

// === around it ===

#[test]
fn a_reload_is_drawn_with_each_key_under_its_line_and_no_secret() {
    let after = "
server: { listen: '0.0.0.0:7000' }
identity: { hash_key: '${ALICE_KEY}' }
rate_limiting:
  limits: { global: { requests_per_second: 1 } }
  storage: redis
  redis:
    url: 'rediss://gateway:${BOB_KEY}@two'
    timeout_ms: 70
";
    let drawn = reloaded(FLEET, after).warnings().drawn(false);
    assert!(SECRETS.iter().all(|secret| !drawn.contains(secret)), "{drawn}");
    insta::assert_snapshot!("drawn", drawn);
}

#[test]
fn what_is_kept_shows_no_secret() {
    let fixed = running(FLEET);
    let loader = format!("{:?}", Loader::new(&environment()).keeping(fixed.clone()));
    for shown in [format!("{fixed:?}"), loader] {
        assert!(shown.contains("identity.hash_key"), "{shown}");
        assert!(SECRETS.iter().all(|secret| !shown.contains(secret)), "{shown}");
    }
}

#[test]
fn keys_change_at_once_wherever_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fairlane.yaml");
    let keys = folder.path().join("keys.yaml");
    let backends =
        "backends: [{ name: a, url: 'builtin:echo', models: ['*'] }]\napi_keys: { file: keys.yaml }\n";
    fs::write(&path, backends).unwrap();
    fs::write(&keys, "keys: [{ id: k1, key: '${ALICE_KEY}', user: alice }]\n").unwrap();
    let environment = environment();
    let loader = Loader::new(&environment);
    let before = loader.inspect(&path).unwrap();
    assert_eq!(before.config().files().collect::<Vec<_>>(), [&path, &keys]);

    fs::write(&path, format!("{backends}log: {{ format: json }}\n")).unwrap();
    fs::write(&keys, "keys: [{ id: k2, key: '${BOB_KEY}', user: bob }]\n").unwrap();
    let after = loader.keeping(before.fixed()).inspect(&path).unwrap();
    assert_eq!(after.config().api_keys.keys[0].id, "k2");
    assert!(after.config().warnings().to_string().ends_with("until then it stays text"));
    assert_eq!(after.config().files().count(), 2);
}

#[test]
fn a_report_tells_of_the_file_of_keys_whatever_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fairlane.yaml");
    let keys = folder.path().join("keys.yaml");
    let text = "backends: [{ name: a, url: 'builtin:echo', models: ['*'] }]\napi_keys: { file: keys.yaml }\n";
    let refused = |text: &str| {
        fs::write(&path, text).unwrap();
        support::load(&path).unwrap_err()
    };
    // It is not there; it is no YAML; it is well, and the configuration is not.
    assert_eq!(refused(text).keys_file(), Some(&*keys));
    fs::write(&keys, "keys: [").unwrap();
    assert_eq!(refused(text).keys_file(), Some(&*keys));
    fs::write(&keys, "keys: []").unwrap();
    assert_eq!(refused(&format!("{text}servr: {{}}\n")).keys_file(), Some(&*keys));
    assert_eq!(refused("servr: {}\n").keys_file(), None);
    assert_eq!(refused("api_keys: { file: [").keys_file(), None);
}
