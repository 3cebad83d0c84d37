//! Random documents, against a reader that builds them.

use proptest::{collection::vec, prelude::*};
use serde_json::{Map, Value, json};

use super::*;

/// More of them: `PROPTEST_CASES=100000`.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        "[a-z]{1,6}",
        Just("content".to_owned()),
        Just("text".to_owned()),
        Just("input".to_owned()),
        Just("source".to_owned()),
        Just("type".to_owned()),
        Just("data".to_owned()),
        Just("image_url".to_owned()),
        Just("tool_calls".to_owned()),
        ".{0,3}",
    ];
    leaf.prop_recursive(5, 60, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            vec((key.clone(), inner), 0..5).prop_map(Value::from_iter),
        ]
    })
}

/// A JSON text of `value`: with more or less room, with or without letters beyond ASCII.
fn write(value: &Value, pretty: bool, ascii: bool) -> String {
    let json =
        if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) }.unwrap();
    if !ascii {
        return json;
    }
    json.chars().fold(String::new(), |mut escaped, char| {
        let mut units = [0; 2];
        if char.is_ascii() {
            escaped.push(char);
        } else {
            char.encode_utf16(&mut units).iter().for_each(|unit| escaped += &format!("\\u{unit:04X}"));
        }
        escaped
    })
}

/// The text of a value, by the rules of the walk but from a document that is built, with no case or depth in it.
fn text_bytes(value: &Value, is_text: bool) -> usize {
    match value {
        Value::String(text) if is_text => text.len(),
        Value::Array(elements) => elements.iter().map(|element| text_bytes(element, is_text)).sum(),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| match key.as_str() {
                "content" | "text" => text_bytes(value, true),
                "tool_calls" => text_bytes(value, false),
                "source" => match value.as_object() {
                    Some(source) => {
                        let content = source.get("content").filter(|content| {
                            content.is_string() || content.is_array() || content.is_object()
                        });
                        let data = source
                            .get("data")
                            .and_then(Value::as_str)
                            .filter(|_| source.get("type") == Some(&json!("text")));
                        content.map_or(0, |content| text_bytes(content, true)) + data.map_or(0, str::len)
                    }
                    None => text_bytes(value, true),
                },
                _ => 0,
            })
            .sum(),
        _ => 0,
    }
}

/// Without what counts as it stands, whose length depends on how it is written.
fn without_shown(value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(without_shown),
        Value::Object(members) => {
            members.remove("input");
            members.values_mut().for_each(without_shown);
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn text_is_as_long_as_a_reader_finds_it(value in any_value(), pretty: bool, ascii: bool) {
        let mut prompt = json!([value]);
        without_shown(&mut prompt);
        let body = write(&json!({ "model": "m", "messages": prompt }), pretty, ascii);
        let counted = count_bytes(Api::Chat, &body).unwrap().prompt.text_bytes;
        prop_assert_eq!(counted, text_bytes(&prompt, true) as u64, "{}", body);
    }

    #[test]
    fn a_schema_counts_as_it_stands(value in any_value(), ascii: bool) {
        let json = write(&value, false, ascii);
        let body = format!("{{\"tools\": {json} }}");
        let expected = match &value {
            Value::String(text) => text.len(),
            Value::Array(_) | Value::Object(_) => json.len(),
            _ => 0,
        };
        prop_assert_eq!(count_bytes(Api::Chat, &body).unwrap().prompt.text_bytes, expected as u64);
    }

    #[test]
    fn what_is_sent_is_the_same_but_for_the_usage(
        mut members in vec(("[a-z]{1,8}", any_value()), 0..6),
        options in prop::option::of(prop_oneof![
            Just(Value::Null),
            vec(("[a-z]{1,8}", any_value()), 0..3).prop_map(Value::from_iter),
        ]),
        asked in prop::option::of(prop_oneof![Just(Value::Null), Just(json!(false)), Just(json!(true))]),
        pretty: bool,
        ascii: bool,
    ) {
        const READ: [&str; 8] = ["model", "stream", "messages", "tools", "functions", "n", "user", "content"];
        members.retain(|(key, _)| !READ.contains(&key.as_str()));
        let mut document: Map<String, Value> = members.into_iter().collect();
        document.insert("stream".into(), true.into());
        if let Some(mut options) = options {
            if let (Some(options), Some(asked)) = (options.as_object_mut(), asked) {
                options.insert("include_usage".into(), asked);
            }
            document.insert("stream_options".into(), options);
        }
        let body = Bytes::from(write(&Value::Object(document.clone()), pretty, ascii));
        let is_asked = document.get("stream_options").and_then(|options| options.get("include_usage")) == Some(&json!(true));
        match count(Api::Chat, Estimator::Bytes, &body).unwrap().usage {
            StreamUsage::Unasked => prop_assert!(false, "a stream"),
            StreamUsage::Asked => prop_assert!(is_asked),
            StreamUsage::Hidden(splice) => {
                prop_assert!(!is_asked);
                let parts = splice.apply(&body);
                prop_assert!(body.starts_with(&parts[0]) && body.ends_with(&parts[2]), "byte for byte elsewhere");
                let sent: Value = serde_json::from_slice(&parts.concat()).unwrap();
                // As it is read: a fraction may have lost its last digit.
                let mut document: Map<String, Value> = serde_json::from_slice(&body).unwrap();
                let options = document.entry("stream_options").or_insert(Value::Null);
                if options.is_null() {
                    *options = json!({});
                }
                options["include_usage"] = json!(true);
                prop_assert_eq!(sent, Value::Object(document));
            }
        }
    }

    #[test]
    fn no_body_is_too_odd(
        pieces in vec(prop_oneof![
            Just("{"), Just("}"), Just("["), Just("]"), Just(","), Just(":"), Just("\""), Just("\\"), Just("\\u"), Just("d8"),
            Just("\"messages\":"), Just("\"content\":"), Just("\"source\":"), Just("\"stream_options\":"), Just("null"),
            Just("1e999"), Just("-"), Just("é"), Just(" "), Just("\"stream\":true"),
        ], 0..24),
        whole: bool,
    ) {
        let text = pieces.concat();
        let body = if whole { text } else { format!("{{\"messages\":[{text}]}}") };
        // Read or refused, but always one of them.
        drop(count_bytes(Api::Chat, &body));
        drop(count(Api::Other, Estimator::Tiktoken, &Bytes::from(body)));
    }
}
