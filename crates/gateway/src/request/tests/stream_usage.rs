//! Asking for the usage of a stream on the caller's behalf.

use super::*;

/// What is sent for `body`, if it is changed.
#[track_caller]
fn sent(body: &str) -> Option<String> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    match count(Api::Chat, Estimator::Bytes, &body).unwrap().usage {
        StreamUsage::Unasked => panic!("a stream: {body:?}"),
        StreamUsage::Asked => None,
        StreamUsage::Hidden(splice) => {
            let parts = splice.apply(&body);
            for part in [&parts[0], &parts[2]] {
                let within = body.as_ptr_range();
                assert!(part.is_empty() || within.contains(&part.as_ptr()), "nothing is copied");
            }
            Some(String::from_utf8(parts.concat()).unwrap())
        }
    }
}

#[test]
fn a_stream_is_made_to_tell_its_usage() {
    for (body, expected) in [
        (r#"{"stream":true}"#, r#"{"stream_options":{"include_usage":true},"stream":true}"#),
        (" \n{ \"stream\" :true} ", " \n{\"stream_options\":{\"include_usage\":true}, \"stream\" :true} "),
        (
            r#"{"stream_options": null , "stream":true}"#,
            r#"{"stream_options": {"include_usage":true} , "stream":true}"#,
        ),
        (
            r#"{"stream":true,"stream_options":{}}"#,
            r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
        ),
        (
            r#"{"stream":true,"stream_options":{ }}"#,
            r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
        ),
        (
            r#"{"stream":true,"stream_options":{ "include_obfuscation": false }}"#,
            r#"{"stream":true,"stream_options":{"include_usage":true, "include_obfuscation": false }}"#,
        ),
        (
            r#"{"x":"{\"stream_options\":1}","stream_options":{"a":1,"include_usage" : false},"stream":true}"#,
            r#"{"x":"{\"stream_options\":1}","stream_options":{"a":1,"include_usage" : true},"stream":true}"#,
        ),
        (
            r#"{"stream_options":{"include_usage":null},"stream":true}"#,
            r#"{"stream_options":{"include_usage":true},"stream":true}"#,
        ),
        (
            r#"{"stream\u005foptions":{"include\u005fusage":false},"stream":true}"#,
            r#"{"stream\u005foptions":{"include\u005fusage":true},"stream":true}"#,
        ),
    ] {
        assert_eq!(sent(body).as_deref(), Some(expected), "{body}");
    }
}

#[test]
fn a_caller_who_asks_is_left_alone() {
    assert_eq!(sent(r#"{"stream":true,"stream_options":{"include_usage":true}}"#), None);
    assert_eq!(sent(r#"{"stream_options":{"x":{},"include_usage": true },"stream":true}"#), None);
}

#[test]
fn only_streams_that_need_it_are_changed() {
    for (api, body) in [
        (Api::Chat, r#"{"stream":false}"#),
        (Api::Chat, r#"{"stream":false,"stream_options":7}"#),
        (Api::Completions, r#"{}"#),
        (Api::Responses, r#"{"stream":true,"stream_options":{"include_obfuscation":false}}"#),
        (Api::Messages, r#"{"stream":true}"#),
        (Api::Other, r#"{"stream":true}"#),
    ] {
        assert_eq!(count_bytes(api, body).unwrap().usage, StreamUsage::Unasked, "{api:?} {body}");
    }
    let changed = count_bytes(Api::Completions, r#"{"stream":true}"#).unwrap().usage;
    assert!(matches!(changed, StreamUsage::Hidden(_)));
}

#[test]
fn options_that_two_readers_could_read_differently_are_refused() {
    for (options, param) in [
        (r#""stream_options":true"#, "stream_options"),
        (r#""stream_options":[]"#, "stream_options"),
        (r#""stream_options":"{}""#, "stream_options"),
        (r#""stream_options":{},"stream_options":{}"#, "stream_options"),
        (r#""Stream_Options":{}"#, "stream_options"),
        (r#""stream_options":{"include_usage":"true"}"#, "stream_options.include_usage"),
        (r#""stream_options":{"include_usage":1}"#, "stream_options.include_usage"),
        (r#""stream_options":{"include_usage":{}}"#, "stream_options.include_usage"),
        (r#""stream_options":{"include_usage":true,"include_usage":false}"#, "stream_options.include_usage"),
        (r#""stream_options":{"include_usage":true,"INCLUDE_USAGE":false}"#, "stream_options.include_usage"),
        (r#""stream_options":{"Include_Usage":true}"#, "stream_options.include_usage"),
    ] {
        assert_eq!(
            refused_for(Api::Chat, &format!("{{\"stream\":true,{options}}}")),
            Some(param),
            "{options}"
        );
    }
}

#[test]
fn a_splice_never_reaches_beyond_a_body() {
    let splice = Splice::new(5..9, "x");
    assert_eq!(splice.apply(&Bytes::from_static(b"1234567")).concat(), b"12345x");
    assert_eq!(splice.apply(&Bytes::new()).concat(), b"x");
}
