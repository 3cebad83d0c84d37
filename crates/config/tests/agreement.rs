//! Whatever a file says, the schema alone and the loader agree on it, but for what no schema can say.
//!
//! Good files are broken at random places; each result goes to the schema as JSON and to the loader as JSON and as YAML.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod support;

use std::sync::LazyLock;

use fairlane_config::{Format, Kind, Report, Step};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use support::{SCHEMA, files, independent, load_text};

static SEEDS: LazyLock<Vec<Value>> =
    LazyLock::new(|| files("good").iter().map(|file| independent(file)).collect());

static KEYS_SCHEMA: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| jsonschema::draft7::new(&fairlane_config::keys_schema()).unwrap());

/// Every key of the schema, to be put where it may not belong.
static KEYS: LazyLock<Vec<String>> = LazyLock::new(|| {
    fn walk(schema: &Value, keys: &mut Vec<String>) {
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            keys.push(key.clone());
            walk(property, keys);
            walk(&property["items"], keys);
        }
    }
    let mut keys = Vec::new();
    walk(&fairlane_config::schema(), &mut keys);
    keys
});

#[derive(Clone, Debug)]
enum Mutation {
    Replace(Value),
    Remove,
    AddKey(String, Value),
    AddItem(Value),
}

/// Texts that are a value of some key, or nearly one.
const TEXTS: &[&str] = &[
    "",
    "*",
    "a",
    "a*",
    "*a",
    "text",
    "json",
    "info",
    "user",
    "api_key",
    "memory",
    "redis",
    "bytes",
    "tiktoken",
    "cluster",
    "sentinel",
    "fail_open",
    "redis://a:6379",
    "rediss://u:p@a,b:7000",
    "redis://a:6379/99999",
    "redis+sentinel://a/m/1",
    "redis+sentinel://a",
    "{tag}",
    "bearer",
    "x-api-key",
    "blocking",
    "30s",
    "0s",
    "1.5s",
    "1h1m",
    "10",
    "127.0.0.1:8080",
    "127.0.0.1:0",
    "300.1.1.1:80",
    "[::1]:1",
    "10.0.0.0/8",
    "10.0.0.1/8",
    "10.0.0.0/33",
    "::1",
    "http://a",
    "https://a:99999/b",
    "builtin:echo",
    "builtin:echo?latency_ms=x",
    "/path",
    "path",
    "2030-01-01T00:00:00Z",
    "2030-02-30T00:00:00Z",
    "2030-01-01",
    "${ALICE_KEY}",
    "${UNSET}",
    "${UNSET:-30s}",
    "${PORT}",
    "${EMPTY}",
    "$",
    "$$",
    "$${x}",
    "${",
    "a b",
    "\n",
    "ü",
    "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
    "yes",
    "null",
    "1e3",
    "<<",
    "~",
];

/// Values near the edges of what some key accepts.
fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        8 => proptest::sample::select(TEXTS).prop_map(Value::from),
        2 => any::<String>().prop_map(Value::from),
        3 => proptest::sample::select(vec![0i64, 1, 2, -1, 32, 33, 128, 129, 1000, 1001, 60_000, 60_001, 8191, 8192, 86_400_001, 1_000_000_000_001]).prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => proptest::sample::select(vec![0.5, 1.0, -0.0, 1e3, 1e12, 1e13, 1e300]).prop_map(Value::from),
        2 => any::<bool>().prop_map(Value::from),
        2 => Just(Value::Null),
        1 => Just(json!([])),
        1 => Just(json!({})),
        1 => Just(json!({ "requests_per_second": 1 })),
        1 => Just(json!({ "tokens_per_day": 1, "token_burst_capacity": 2 })),
        1 => Just(json!(["*"])),
    ]
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let key = prop_oneof![
        4 => (0..KEYS.len()).prop_map(|n| KEYS[n].clone()),
        1 => "[a-z_$<*/.:0-9]{0,8}",
    ];
    prop_oneof![
        6 => value().prop_map(Mutation::Replace),
        2 => Just(Mutation::Remove),
        3 => (key, value()).prop_map(|(key, value)| Mutation::AddKey(key, value)),
        1 => value().prop_map(Mutation::AddItem),
    ]
}

/// All values within a value, as JSON pointers.
fn places(value: &Value, place: &str, found: &mut Vec<String>) {
    found.push(place.to_owned());
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                places(value, &format!("{place}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            for (n, value) in items.iter().enumerate() {
                places(value, &format!("{place}/{n}"), found);
            }
        }
        _ => {}
    }
}

fn mutate(config: &mut Value, place: usize, mutation: Mutation) {
    let mut all = Vec::new();
    places(config, "", &mut all);
    let place = &all[place % all.len()];
    let (parent, last) = place.rsplit_once('/').unwrap_or(("", ""));
    match mutation {
        Mutation::Replace(value) => *config.pointer_mut(place).unwrap() = value,
        Mutation::Remove => match config.pointer_mut(parent).unwrap() {
            Value::Object(entries) => {
                entries.remove(&last.replace("~1", "/").replace("~0", "~"));
            }
            Value::Array(items) => {
                if let Ok(n) = last.parse::<usize>() {
                    items.remove(n);
                }
            }
            _ => {}
        },
        Mutation::AddKey(key, value) => {
            if let Value::Object(entries) = config.pointer_mut(place).unwrap() {
                entries.insert(key, value);
            }
        }
        Mutation::AddItem(value) => {
            if let Value::Array(items) = config.pointer_mut(place).unwrap() {
                items.push(value);
            }
        }
    }
}

/// Whether a loader may say all this of a file that the schema accepts.
fn is_beyond_the_schema(report: &Report, config: &Value) -> bool {
    let has_reference = config.to_string().contains("${");
    report.diagnostics().iter().all(|problem| match problem.kind {
        Kind::Conflict | Kind::Variable | Kind::Unreadable | Kind::NoEffect | Kind::Risk => true,
        // A value from the environment, or an address, a URL or a day that has the form and does not exist.
        Kind::BadValue | Kind::OutOfRange => {
            let among = |keys: &[&str]| {
                problem
                    .path
                    .steps()
                    .iter()
                    .any(|step| matches!(step, Step::Key(key) if keys.contains(&key.as_str())))
            };
            has_reference
                || among(&[
                    "listen",
                    "admin_listen",
                    "trusted_proxies",
                    "whitelist",
                    "url",
                    "expires_at",
                    "per_client",
                ])
        }
        _ => false,
    })
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(400)
}

/// Scalars of this form that both readers take for what YAML 1.2 says.
fn scalar(form: &'static str) -> impl Strategy<Value = String> {
    let has_signed_base = |text: &str| {
        let unsigned = text.trim_start_matches(['-', '+']);
        unsigned.len() < text.len() && (unsigned.starts_with("0x") || unsigned.starts_with("0o"))
    };
    // A number beyond all floats is none that the other reader's values could hold: it makes a text of it.
    let is_beyond = |text: &str| text.parse::<f64>().is_ok_and(f64::is_infinite);
    form.prop_filter("YAML 1.1", move |text| !has_signed_base(text) && !is_beyond(text))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn schema_and_loader_agree(
        seed in 0..SEEDS.len(),
        mutations in proptest::collection::vec((any::<usize>(), mutation()), 0..4),
    ) {
        let mut config = SEEDS[seed].clone();
        for (place, mutation) in mutations {
            mutate(&mut config, place, mutation);
        }
        let text = serde_json::to_string_pretty(&config).unwrap();
        // The schema's verdict is on what a reader makes of the text, not on our own tree of it.
        let read: Value = serde_json::from_str(&text).unwrap();
        let accepted = SCHEMA.is_valid(&read);
        let json = load_text(&text, Format::Json);
        match &json {
            Ok(_) => prop_assert!(accepted, "the loader accepts what the schema refuses: {text}"),
            Err(report) if accepted => prop_assert!(is_beyond_the_schema(report, &config), "{report}\n{text}"),
            Err(_) => {}
        }
        // JSON is YAML, except that `<<` means something there, and that some characters must not stand unescaped.
        let is_plain = !text.contains("\"<<\"") && text.chars().all(|c| c == '\n' || (' '..='\u{7e}').contains(&c)) && !text.contains('\\');
        if is_plain {
            let yaml = load_text(&text, Format::Yaml);
            prop_assert_eq!(json.is_ok(), yaml.is_ok(), "{}", text);
            if let (Err(json), Err(yaml)) = (json, yaml) {
                prop_assert_eq!(json.to_string(), yaml.to_string(), "{}", text);
            }
        }
    }

    /// Keys are judged alike wherever they are: in the configuration, or some of them in a file of keys.
    #[test]
    fn a_file_of_keys_gets_the_verdict_of_the_configuration(
        seed in 0..SEEDS.len(),
        mutations in proptest::collection::vec((any::<usize>(), mutation()), 0..4),
        own in 0..3usize,
    ) {
        let mut config = SEEDS[seed].clone();
        prop_assume!(config["api_keys"].is_object());
        config["api_keys"].as_object_mut().unwrap().remove("file");
        for (place, mutation) in mutations {
            mutate(&mut config, place, mutation);
        }
        let Some(keys) = config.pointer_mut("/api_keys/keys").and_then(Value::as_array_mut) else { return Ok(()) };
        let mut all = keys.clone();
        let moved = all.split_off(own.min(all.len()));
        let whole = load_text(&config.to_string(), Format::Json);

        let folder = tempfile::tempdir().unwrap();
        let file = json!({ "keys": moved });
        let name = folder.path().join("keys.json");
        std::fs::write(&name, file.to_string()).unwrap();
        config["api_keys"]["keys"] = all.into();
        config["api_keys"]["file"] = name.to_str().unwrap().into();
        let split = load_text(&config.to_string(), Format::Json);
        prop_assert_eq!(whole.is_ok(), split.is_ok(), "{}\n{}", config, file);
        match (whole, split) {
            (Ok(whole), Ok(split)) => prop_assert_eq!(&whole.api_keys.keys, &split.api_keys.keys),
            (Err(whole), Err(split)) => {
                let said = |report: &Report| {
                    let mut said: Vec<_> =
                        report.diagnostics().iter().map(|d| (d.kind, d.message.clone())).collect();
                    said.sort();
                    said
                };
                prop_assert_eq!(said(&whole), said(&split), "{}\n{}", config, file);
                let accepted = KEYS_SCHEMA.is_valid(&file);
                let in_file = |d: &&fairlane_config::Diagnostic| split.file_of(d) == name;
                let beyond = split.diagnostics().iter().filter(in_file).all(|d| {
                    !matches!(d.kind, Kind::UnknownKey | Kind::MissingKey | Kind::WrongType | Kind::Syntax)
                });
                prop_assert!(!accepted || beyond, "{split}\n{file}");
            }
            _ => {}
        }
    }

    /// Plain scalars are of the same type to us and to another reader of YAML. (It takes `1_0` and `+0x1` for numbers, as
    /// YAML 1.1 had it: no underscores here, and no signs before a base.)
    #[test]
    fn scalars_have_one_type(scalar in scalar("true|[Ff]alse|TRUE|null|~|[.]inf|[-+]?[0-9.oxe]{1,6}|0x[0-9a-f]{1,3}|[-+.0-9eE]{1,6}|[0-9]{1,20}")) {
        for (key, section) in [("max_connections", "server"), ("token", "admin"), ("enabled", "rate_limiting")] {
            let text = format!("backends: [{{ name: a, url: \"builtin:echo\", models: [m] }}]\n{section}:\n  {key}: {scalar}\n");
            let options = serde_saphyr::options! { strict_booleans: true };
            let Ok(read) = serde_saphyr::from_str_with_options::<Value>(&text, options) else { continue };
            let ours = load_text(&text, Format::Yaml);
            prop_assert_eq!(ours.is_ok(), SCHEMA.is_valid(&read), "{} {:?}", text, read);
        }
    }

    /// What is in effect, written out and loaded again, is the same configuration.
    #[test]
    fn what_is_in_effect_loads_again(seed in 0..SEEDS.len(), place in any::<usize>(), number in 1..1000u64) {
        let mut config = SEEDS[seed].clone();
        mutate(&mut config, place, Mutation::Replace(number.into()));
        // Masks are no identities: leave out what is masked.
        if let Value::Object(root) = &mut config {
            root.retain(|key, _| !["api_keys", "admin", "identity", "rate_limiting"].contains(&key.as_str()));
        }
        let Ok(first) = load_text(&config.to_string(), Format::Json) else { return Ok(()) };
        let mut shown = first.effective();
        shown["backends"].as_array_mut().unwrap().iter_mut().for_each(|backend| {
            backend.as_object_mut().unwrap().retain(|key, value| key != "api_key" || value != "***");
        });
        let again = load_text(&shown.to_string(), Format::Json).unwrap();
        prop_assert_eq!(&again.server, &first.server);
        prop_assert_eq!(&again.timeouts, &first.timeouts);
        prop_assert_eq!(again.backends.len(), first.backends.len());
        let as_yaml = load_text(&first.effective_yaml(), Format::Yaml).unwrap();
        prop_assert_eq!(as_yaml.effective(), first.effective());
    }
}

/// A negative control: the comparison above can fail.
#[test]
fn a_loader_that_accepts_all_would_be_found_out() {
    let mut refused = 0;
    for seed in SEEDS.iter() {
        let mut config = seed.clone();
        mutate(&mut config, 1, Mutation::AddKey("no_such_key".to_owned(), Value::Object(Map::new())));
        mutate(&mut config, 0, Mutation::AddKey("no_such_key".to_owned(), Value::Null));
        refused += usize::from(!SCHEMA.is_valid(&config));
    }
    assert_eq!(refused, SEEDS.len());
}
