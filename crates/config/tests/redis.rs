//! Where the buckets of a fleet are: the URL of Redis, its defaults, and that its password is never shown.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod support;

use std::{fs, path::Path, sync::LazyLock};

use fairlane_config::{
    Format, Loader, RedisUrl, Report, Validated,
    model::{Outage, RedisMode, Storage},
};
use proptest::prelude::*;
use serde_json::Value;

const BACKEND: &str =
    "backends: [{ name: a, url: 'builtin:echo', models: ['*'] }]\napi_keys: { mode: permissive }\n";

/// Loads a configuration with limits and a section `rate_limiting` of these further keys.
fn load(limiting: &str, variables: &[(&str, &str)]) -> Result<Validated, Report> {
    let environment = |wanted: &str| {
        let found = variables.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| (*value).to_owned())
    };
    let text = format!(
        "{BACKEND}rate_limiting: {{ limits: {{ global: {{ requests_per_second: 1 }} }}, {limiting} }}\n"
    );
    Loader::new(&environment).load_bytes(text.as_bytes(), Format::Yaml, Path::new("test"))
}

const HASH_KEY: (&str, &str) = ("FAIRLANE_HASH_KEY", "hash-key");

#[test]
fn buckets_are_in_memory_unless_redis_is_asked_for() {
    let config = load("", &[]).unwrap();
    assert_eq!(config.rate_limiting.storage, Storage::Memory);

    let config = load("storage: redis", &[HASH_KEY]).unwrap();
    assert!(config.warnings().is_empty(), "{}", config.warnings());
    let redis = &config.rate_limiting.redis;
    assert_eq!(config.rate_limiting.storage, Storage::Redis);
    assert_eq!(redis.url.to_string(), "redis://127.0.0.1:6379");
    assert_eq!((redis.mode, redis.outage), (RedisMode::Standalone, Outage::FailClosed));
    assert_eq!((redis.key_prefix.as_str(), redis.timeout_ms.get()), ("fairlane", 50));
    assert_eq!(redis.ca_file, None);
}

#[test]
fn the_url_comes_from_the_environment_unless_the_file_says_otherwise() {
    let shown = |limiting: &str, url: &str| {
        let config = load(limiting, &[HASH_KEY, ("REDIS_URL", url)]);
        config.map(|config| config.rate_limiting.redis.url.to_string()).map_err(|report| report.to_string())
    };
    assert_eq!(shown("storage: redis", "rediss://h/3").as_deref(), Ok("rediss://h:6379/3"));
    assert_eq!(shown("storage: redis", "").as_deref(), Ok("redis://127.0.0.1:6379"));
    let in_file = "storage: redis, redis: { url: 'redis://file' }";
    assert_eq!(shown(in_file, "rediss://h/3").as_deref(), Ok("redis://file:6379"));
    // What the environment has for others is no matter while the buckets are in memory.
    assert_eq!(shown("storage: memory", "no URL at all").as_deref(), Ok("redis://127.0.0.1:6379"));

    assert_eq!(
        shown("storage: redis", "no URL at all"),
        Err("test:3:16: error: rate_limiting.redis.url: the URL of Redis begins with redis://, rediss://, \
             redis+sentinel:// or rediss+sentinel:// (it comes from REDIS_URL)"
            .to_owned())
    );
    assert_eq!(
        shown("storage: redis", "redis://a,b"),
        Err("test:3:16: error: rate_limiting.redis.url: the URL names several servers, and `mode` is standalone \
             (it comes from REDIS_URL)\n  \
             help: set `mode` to cluster; sentinels are written redis+sentinel://host1:26379,host2:26379/name"
            .to_owned())
    );
}

#[test]
fn a_url_is_taken_apart() {
    let url: RedisUrl = "rediss+sentinel://fair%40lane:p%3Aa%2fs%25s:%C3%BC@Sentinel1,[::1]:5000/my-master/7"
        .parse()
        .unwrap();
    assert!(url.is_tls());
    assert_eq!((url.user(), url.password().unwrap().expose()), (Some("fair@lane"), "p:a/s%s:ü"));
    let servers: Vec<_> = url.servers().iter().map(|server| (server.host(), server.port())).collect();
    assert_eq!(servers, [("sentinel1", 26379), ("::1", 5000)]);
    assert_eq!((url.master(), url.database()), (Some("my-master"), Some(7)));
    assert_eq!(url.to_string(), "rediss+sentinel://fair%40lane:***@sentinel1:26379,[::1]:5000/my-master/7");

    // The default user; a password as it comes, but for what ends the host.
    let url: RedisUrl = "redis://:p@ss,w:rd@h".parse().unwrap();
    assert_eq!((url.user(), url.password().unwrap().expose()), (None, "p@ss,w:rd"));
    assert_eq!((url.is_tls(), url.master(), url.database()), (false, None, None));
    assert_eq!(url.to_string(), "redis://:***@h:6379");
    assert!("redis://h/".parse::<RedisUrl>().is_ok_and(|url| url.database().is_none()));
}

#[test]
fn what_is_no_url_of_redis_is_refused() {
    for text in [
        "",
        "h",
        "redis:",
        "redis:h",
        "redis://",
        "redis:///",
        "redis://:6379",
        "redis://h:",
        "redis://h:0",
        "redis://h:65536",
        "redis://h:x",
        "redis://a,",
        "redis://,a",
        "redis://a,,b",
        "redis://h/x",
        "redis://h/-1",
        "redis://h/+1",
        "redis://h/1/2",
        "redis://h/99999999999",
        "redis://h?x",
        "redis://h#x",
        "redis://a b",
        "redis://@h",
        "redis://u@h",
        "redis://u:@h",
        "redis://:@h",
        "redis://u:%@h",
        "redis://u:%4@h",
        "redis://u:%ff@h",
        "redis://u:%+1@h",
        "redis://u:a/b@h",
        "redis://::1",
        "redis://[::1",
        "redis://[h]",
        "REDIS://h",
        "redis+sentinel://h",
        "redis+sentinel://h/",
        "redis+sentinel:///m",
        "redis+sentinel://h/m/x",
        "redis+sentinel://h/m/1/2",
        "redis+sentinel://h/m*",
        "sentinel://h/m",
        "unix:///tmp/redis.sock",
        "redis+unix:///a",
        "http://h",
        "redis://h\u{7}",
    ] {
        assert!(text.parse::<RedisUrl>().is_err(), "{text}");
    }
}

#[test]
fn a_relative_file_of_authorities_starts_at_the_folder_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ca.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    let path = folder.path().join("fairlane.yaml");
    let text = "identity: { hash_key: a }\nrate_limiting: { storage: redis, redis: { url: 'rediss://h', ca_file: ca.pem } }\n";
    fs::write(&path, format!("{BACKEND}{text}")).unwrap();
    let config = support::load(&path).unwrap();
    assert_eq!(config.rate_limiting.redis.ca_file, Some(folder.path().join("ca.pem")));
}

#[test]
fn the_password_is_never_shown() {
    let urls = ["redis://:s3cret@h", "rediss://user:s3cret@a,b", "redis+sentinel://u:s3cret@h/m"];
    for (url, mode) in urls.into_iter().zip(["standalone", "cluster", "sentinel"]) {
        let from_variable = format!("storage: redis, redis: {{ mode: {mode}, url: '${{URL}}' }}");
        let config = load(&from_variable, &[HASH_KEY, ("URL", url)]).unwrap();
        assert!(config.warnings().is_empty(), "{}", config.warnings());
        assert_eq!(config.rate_limiting.redis.url.password().unwrap().expose(), "s3cret");
        for shown in [
            config.effective().to_string(),
            config.effective_yaml(),
            format!("{config:?}"),
            format!("{config:#?}"),
            format!("{:?}", config.rate_limiting.redis.url),
        ] {
            assert!(!shown.contains("s3cret") && shown.contains(":***@"), "{shown}");
        }
        // In the file it is accepted with a word, which does not repeat it.
        let written = format!("storage: redis, redis: {{ mode: {mode}, url: '{url}' }}");
        let report = load(&written, &[HASH_KEY]).unwrap().warnings().to_string();
        assert!(
            report.contains("the password is written in the file") && !report.contains("s3cret"),
            "{report}"
        );
    }
    assert_ne!(
        load("storage: redis", &[HASH_KEY, ("REDIS_URL", "redis://:a@h")]).unwrap(),
        load("storage: redis", &[HASH_KEY, ("REDIS_URL", "redis://:b@h")]).unwrap()
    );
}

/// What the file gives is told from what the environment gives.
#[test]
fn only_a_password_in_the_file_is_warned_of() {
    for (url, is_written) in [
        ("redis://u:${PW}@h", false),
        ("redis://${USER_AND_PW}@h", false),
        ("redis://u:${PW:-}@h", false),
        ("redis://h:6379", false),
        ("${URL}", false),
        ("redis://u:${PW:-pw}@h", true),
        ("redis://${NAME}:pw@${HOST}:6379", true),
        ("redis://u:p${PW}@h", true),
        ("${URL:-redis://u:pw@h}", true),
    ] {
        let variables = [
            HASH_KEY,
            ("URL", "redis://u:pw@h"),
            ("PW", "pw"),
            ("USER_AND_PW", "u:pw"),
            ("NAME", "u"),
            ("HOST", "h"),
        ];
        // In `${PW:-}` the variable is set, too.
        let config = load(&format!("storage: redis, redis: {{ url: '{url}' }}"), &variables).unwrap();
        assert_eq!(!config.warnings().is_empty(), is_written, "{url}: {}", config.warnings());
    }
}

fn schema_accepts(text: &str) -> bool {
    static SCHEMA: LazyLock<Value> = LazyLock::new(fairlane_config::schema);
    let place = "/properties/rate_limiting/properties/redis/properties/url";
    jsonschema::draft7::new(SCHEMA.pointer(place).unwrap()).unwrap().is_valid(&text.into())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn what_is_shown_of_a_url_is_read_as_the_same_but_for_the_password(
        scheme in "rediss?",
        credentials in "(([a-z%+]{0,3}|%20):[a-z,:@+]{1,5}@)?",
        servers in "[a-z]{1,3}(:[1-9][0-9]{0,3})?(,[a-z]{1,3}|,\\[::1\\]:7){0,2}",
        master in "(/[a-zA-Z0-9._-]{1,8})?",
        database in "(/[0-9]{1,4})?",
    ) {
        let sentinel = if master.is_empty() { "" } else { "+sentinel" };
        let text = format!("{scheme}{sentinel}://{credentials}{servers}{master}{database}");
        let Ok(url) = text.parse::<RedisUrl>() else {
            prop_assert!(credentials.contains('%'), "{}", text);
            return Ok(());
        };
        let shown = url.to_string();
        prop_assert!(schema_accepts(&text) && schema_accepts(&shown), "{} {}", text, shown);
        let again: RedisUrl = shown.parse().unwrap();
        prop_assert_eq!(again.to_string(), shown);
        prop_assert_eq!(
            (again.is_tls(), again.user(), again.servers(), again.master(), again.database()),
            (url.is_tls(), url.user(), url.servers(), url.master(), url.database())
        );
        prop_assert_eq!(again.password().is_some(), !credentials.is_empty());
        prop_assert_eq!(url.with_password().expose().parse(), Ok(url));
    }

    #[test]
    fn the_reader_takes_no_more_than_the_schema(text in "rediss?(\\+sentinel)?://[a-z0-9:@/,.\\[\\]%?# -]{0,16}|[ -~]{0,24}") {
        match text.parse::<RedisUrl>() {
            Ok(_) => prop_assert!(schema_accepts(&text), "{}", text),
            // Nothing of the text, in which anything may be a password.
            Err(error) => {
                let rest = text.split_once("://").map_or(text.as_str(), |(_, rest)| rest);
                prop_assert!(rest.len() < 6 || !error.to_string().contains(rest), "{} {}", text, error);
            }
        }
    }
}
