//! The kinds of values, one by one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use std::{sync::LazyLock, time::Duration};

use fairlane_config::{
    AddressRange, BackendUrl, KeyDigest, ModelPattern, Name, Secret, format_duration, parse_duration,
    parse_timestamp,
};
use proptest::prelude::*;
use serde_json::Value;

#[test]
fn durations() {
    let millis = |text: &str| parse_duration(text).map(|duration| duration.as_millis()).ok();
    for (text, expected) in [
        ("1ms", 1),
        ("200ms", 200),
        ("30s", 30_000),
        ("90s", 90_000),
        ("1m30s", 90_000),
        ("2h", 7_200_000),
        ("1h1m1s1ms", 3_661_001),
        (
            "9999h999999m99999999s99999999999ms",
            9999 * 3_600_000 + 999_999 * 60_000 + 99_999_999_000 + 99_999_999_999,
        ),
    ] {
        assert_eq!(millis(text), Some(expected), "{text}");
    }
    for text in [
        "", "s", "5", "0s", "00s", "05s", "1.5s", "-1s", "+1s", "1 s", "1s ", "1d", "1sec", "1s1m", "1s1s",
        "10000h", "1S", "１s", "1ms1s",
    ] {
        assert_eq!(millis(text), None, "{text}");
    }
}

#[test]
fn urls() {
    let shown =
        |text: &str| text.parse::<BackendUrl>().map(|url| url.to_string()).map_err(|error| error.to_string());
    for (text, expected) in [
        ("http://h", "http://h"),
        ("http://h:80/", "http://h"),
        ("https://h:443/a/", "https://h/a"),
        ("https://h:80", "https://h:80"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("http://[::1]", "http://[::1]"),
        ("builtin:echo", "builtin:echo?latency_ms=0&chunk_ms=0"),
        ("builtin:echo?", "builtin:echo?latency_ms=0&chunk_ms=0"),
        ("builtin:echo?chunk_ms=2&latency_ms=1", "builtin:echo?latency_ms=1&chunk_ms=2"),
    ] {
        assert_eq!(shown(text).as_deref(), Ok(expected), "{text}");
    }
    for text in [
        "",
        "h",
        "//h",
        "HTTP//h",
        "http:h",
        "http://",
        "http:///a",
        "http://:80",
        "http://h:",
        "http://h:0",
        "http://h:65536",
        "http://h:+1",
        "http://a b",
        "http://h/a b",
        "http://h?x",
        "http://h#x",
        "http://u@h",
        "http://[::1",
        "http://[::1]x",
        "http://[h]",
        "http://::1",
        "ftp://h",
        "builtin:other",
        "builtin:echo?latency_ms",
        "builtin:echo?latency_ms=-1",
        "builtin:echo?latency_ms=86400001",
        "builtin:echo?x=1",
    ] {
        assert!(shown(text).is_err(), "{text}");
    }
}

#[test]
fn models() {
    let pattern = |text: &str| text.parse::<ModelPattern>().unwrap();
    assert!(pattern("*").matches("") && pattern("*").matches("anything"));
    assert!(pattern("gpt-*").matches("gpt-") && !pattern("gpt-*").matches("gpt"));
    assert!(pattern("gpt").matches("gpt") && !pattern("gpt").matches("gpt-4"));
    for (a, b, expected) in
        [("*", "x", true), ("a*", "ab*", true), ("a*", "b*", false), ("ab", "a*", true), ("a", "b", false)]
    {
        assert_eq!(pattern(a).overlaps(&pattern(b)), expected, "{a} {b}");
        assert_eq!(pattern(b).overlaps(&pattern(a)), expected, "{b} {a}");
    }
    for text in ["", "**", "a*b", "*a"] {
        assert!(text.parse::<ModelPattern>().is_err(), "{text}");
    }
}

#[test]
fn address_ranges() {
    let shown = |text: &str| text.parse::<AddressRange>().map(|range| range.to_string()).ok();
    for (text, expected) in [
        ("192.0.2.7", "192.0.2.7"),
        ("192.0.2.7/32", "192.0.2.7"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("2001:DB8::/32", "2001:db8::/32"),
        ("::1", "::1"),
    ] {
        assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
    }
    for text in ["", "x", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0", "::1/64", "10.0.0.0/08 "] {
        assert_eq!(shown(text), None, "{text}");
    }
}

#[test]
fn timestamps() {
    assert!(parse_timestamp("2027-01-31T12:00:00Z").is_ok());
    assert!(parse_timestamp("2027-01-31T12:00:00.5+01:00").is_ok());
    for text in ["", "2027-01-31", "2027-02-30T00:00:00Z", "2027-01-31T25:00:00Z", "tomorrow"] {
        assert!(parse_timestamp(text).is_err(), "{text}");
    }
}

#[test]
fn secrets_do_not_show_themselves() {
    let digest: KeyDigest = "ab".repeat(32).parse().unwrap();
    assert_eq!(digest.as_bytes(), &[0xab; 32]);
    assert_eq!(
        format!("{digest:?} {:?} {:?}", Secret::new("x"), Name::new("x")),
        "KeyDigest(***) Secret(***) Name(***)"
    );
    let shown = serde_json::to_string(&(&digest, Secret::new("x"), Secret::new(""), Name::new("x"))).unwrap();
    assert_eq!(shown, r#"["***","***","","***"]"#);
    for text in ["", "ab", &"ag".repeat(32), &"ab".repeat(33), &"é".repeat(32)] {
        assert!(text.parse::<KeyDigest>().is_err(), "{text}");
    }
}

/// The forms that the schema lets pass, from the place of a key that has them.
fn schema_accepts(pointer: &str, text: &str) -> bool {
    static SCHEMA: LazyLock<Value> = LazyLock::new(fairlane_config::schema);
    jsonschema::draft7::new(SCHEMA.pointer(pointer).unwrap()).unwrap().is_valid(&text.into())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn a_duration_is_read_as_it_is_written(millis in 1..99_999_999_999u64) {
        let duration = Duration::from_millis(millis);
        let text = format_duration(duration);
        prop_assert_eq!(parse_duration(&text).unwrap(), duration, "{}", text);
    }

    #[test]
    fn reader_and_schema_agree_on_durations(text in "[0-9]{0,3}(h|m|s|ms|d|)[0-9]{0,12}(m|s|ms|h|)") {
        let accepted = schema_accepts("/properties/server/properties/drain_timeout", &text);
        prop_assert_eq!(parse_duration(&text).is_ok(), accepted, "{}", text);
    }

    #[test]
    fn reader_and_schema_agree_on_models(text in "[a*]{0,4}") {
        let accepted = schema_accepts("/properties/backends/items/properties/models/items", &text);
        prop_assert_eq!(text.parse::<ModelPattern>().is_ok(), accepted, "{}", text);
    }

    /// What a reader takes, its schema takes; the reverse is for addresses that do not exist.
    #[test]
    fn no_reader_takes_more_than_its_schema(text in "[0-9a-f:./\\[\\]htps@?T+Z-]{0,24}|builtin:echo[?]?[a-z_=0-9&]{0,20}") {
        if text.parse::<BackendUrl>().is_ok() {
            prop_assert!(schema_accepts("/properties/backends/items/properties/url", &text), "{}", text);
        }
        if text.parse::<AddressRange>().is_ok() {
            prop_assert!(schema_accepts("/properties/server/properties/trusted_proxies/items", &text), "{}", text);
        }
    }
}
