//! What is found in a document without reading it.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{
    glance::{self, may_have_usage},
    openai,
    shape::Shape,
    skim::{Choices, Found, Skim},
};

fn skim<'a>(shape: &'static Shape, pieces: impl IntoIterator<Item = &'a [u8]>) -> Found {
    let mut skim = Skim::new(shape);
    for piece in pieces {
        skim.feed(piece);
    }
    skim.found()
}

/// The slow and obvious way to measure the output of an event.
fn output_bytes(value: &Value, key: &str, within: bool) -> u64 {
    match value {
        Value::String(text) if within => text.len() as u64,
        Value::Array(values) => values.iter().map(|value| output_bytes(value, key, within)).sum(),
        Value::Object(members) => members
            .iter()
            .filter(|(name, value)| {
                !(within && (*name == "logprobs" || (*name == "type" && value.is_string())))
            })
            .map(|(name, value)| output_bytes(value, key, within || name == key))
            .sum(),
        _ => 0,
    }
}

/// Any JSON, made of what matters and what looks like it.
fn value() -> impl Strategy<Value = Value> {
    let text = "(usage|delta|text|[a-z\"\\\\\n{}:é中😀\u{1}]{0,6})";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        let name = prop_oneof![
            prop::sample::select(vec!["usage", "delta", "choices", "response", "logprobs", "type"])
                .prop_map(str::to_owned),
            "[a-z\"é]{0,5}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn it_finds_what_a_parser_finds(value in value(), pretty: bool, size in 1_usize..20) {
        let value = json!({ "a": value });
        // Inner strings of an array have no label of their own, and keep the one before.
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let found = skim(&openai::DELTAS, text.as_bytes().chunks(size));
        prop_assert_eq!(found, skim(&openai::DELTAS, [text.as_bytes()]));
        let labelled = text.contains("\"type\"");
        if !labelled {
            prop_assert_eq!(found.output_bytes, output_bytes(&value, "delta", false), "{}", text);
        }
        // The glance that most events get sees the same.
        prop_assert_eq!(found.output_bytes, glance::output_bytes(&openai::DELTAS, text.as_bytes()), "{}", text);
    }

    #[test]
    fn it_finds_usage_and_choices(value in value(), before: bool, wrapped: bool, size in 1_usize..20) {
        let usage = json!({ "input_tokens": 3, "output_tokens": 4, "x": { "total_tokens": 99, "y": [&value] } });
        let mut object = json!({ "choices": [], "m": value });
        let text = match (wrapped, before) {
            (false, true) => format!("{{\"usage\":{usage},{}", &object.to_string()[1..]),
            (false, false) => {
                object["usage"] = usage;
                object.to_string()
            }
            (true, _) => json!({ "response": { "m": object["m"], "usage": usage }, "choices": [[]] }).to_string(),
        };
        let found = skim(&openai::DELTAS, text.as_bytes().chunks(size));
        let counts = found.usage.map(|counts| (counts.prompt, counts.output, counts.total));
        prop_assert_eq!(counts, Some((3, 4, 0)), "{}", text);
        prop_assert!(found.has_usage && may_have_usage(text.as_bytes()));
        prop_assert_eq!(found.choices, if wrapped { Choices::Some } else { Choices::Empty });
    }
}

#[test]
fn a_glance_sees_what_skimming_sees() {
    for (delta, bytes) in [
        (r#""abc""#, 3),
        (r#""""#, 0),
        (r#""a\n\"b\\""#, 5),
        (r#""\u00e4b""#, 3),
        ("null", 0),
        ("{}", 0),
        (r#"{"content":"abc"}"#, 3),
        (r#"{"role": "assistant", "content": "abc", "refusal": null, "n": -1, "t": true}"#, 3),
        (r#"{"type":"text_delta","text":"a\tb"}"#, 3),
        (r#"{ "content" : "abc" }"#, 3),
        (r#"{"content":null,"tool_calls":[{"id":"call","function":{"arguments":"{}"}}]}"#, 2),
        (r#"{"logprobs":"no","content":"abc"}"#, 3),
        (r#"["a","b"]"#, 2),
    ] {
        for document in [
            format!("{{\"a\":\"delta\",\"delta\":{delta},\"b\":\"c\"}}"),
            format!("{{\"a\": [{{\"delta\": {delta}}}, \"b\"]}}"),
        ] {
            let glanced = glance::output_bytes(&openai::DELTAS, document.as_bytes());
            let skimmed = skim(&openai::DELTAS, [document.as_bytes()]).output_bytes;
            assert_eq!((glanced, skimmed), (bytes, bytes), "{document}");
        }
    }
}

#[test]
fn null_is_no_usage_worth_a_look() {
    assert!(!may_have_usage(b"{\"usage\":null,\"a\":\"usage\"}"));
    assert!(!may_have_usage(b"{\"usage\": null,\"a\":[\"usage\",\"usage\"]}"));
    assert!(may_have_usage(b"{\"usage\" : null"), "too seldom to be worth a look");
    assert!(may_have_usage(b"{\"usage\":null,\"response\":{\"usage\": {}}}"));
    assert!(!may_have_usage(b"{\"a\":\"\\\"usage\\\":{\"}"));
}

#[test]
fn escapes_count_as_what_they_stand_for() {
    let bytes = |text: &str| {
        let document = format!("{{\"delta\":\"{text}\"}}");
        skim(&openai::DELTAS, document.as_bytes().chunks(1)).output_bytes
    };
    assert_eq!(bytes(r#"\n\"\\\/"#), 4);
    assert_eq!(bytes(r"\u0041\u00e4\u4E2D"), 1 + 2 + 3);
    assert_eq!(bytes(r"\ud83d\ude00"), 4);
    assert_eq!(bytes(r"\u00"), 0, "broken off");
}

#[test]
fn runs_without_structure_are_passed_over_block_by_block() {
    for length in [0, 1, 31, 32, 33, 63, 64, 65, 200] {
        let document = format!("{{\"a\":[{}],\"delta\":\"1234\"}}", "7".repeat(length));
        assert_eq!(skim(&openai::DELTAS, [document.as_bytes()]).output_bytes, 4, "{length}");
    }
}
