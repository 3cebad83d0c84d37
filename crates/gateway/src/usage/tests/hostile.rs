//! Backends that send anything.

use std::convert::Infallible;

use bytes::Bytes;
use http_body::Frame;
use proptest::prelude::*;

use super::{EVENTS, JSON, Outcomes, Script, Unheard, headers, next, read, usage, watch};
use crate::request::Api;

/// The most that a watched body keeps of what was sent, beside the chunk at hand.
const KEPT: usize = 64 * 1024;

#[test]
fn a_line_of_a_mebibyte_is_read_through() {
    let text = "x".repeat(1 << 20);
    let event = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}],\"usage\":{{\"prompt_tokens\":7}}}}\n\n"
    );
    for hide in [false, true] {
        let (seen, outcome) = read(watch(Api::Chat, hide), EVENTS, event.as_bytes().chunks(4096));
        assert!(seen == event);
        assert_eq!((outcome.usage, outcome.observed_output), (usage(7, 0, 7), 1 << 18));
    }
}

/// An event that never ends, and might be the one that is kept back: it passes when it is too long for that.
#[test]
fn an_endless_event_is_held_no_longer_than_the_bound() {
    let start = Bytes::from_static(b"data: {\"choices\":[],\"x\":\"");
    let more = Bytes::from(vec![b'x'; 1000]);
    let sent = std::iter::once(start).chain(std::iter::repeat_n(more, 1000));
    let script = Script::new(sent.map(|chunk| Ok::<_, Infallible>(Frame::data(chunk))));
    let mut body = watch(Api::Chat, true).body(&mut headers(EVENTS), script, |_| {});
    let mut sizes = Vec::new();
    while let Some(Ok(frame)) = next(&mut body) {
        sizes.push(frame.into_data().unwrap().len());
    }
    assert!((KEPT - 1000..=KEPT).contains(&sizes[0]), "{}", sizes[0]);
    assert!(sizes[1..].iter().all(|&size| size == 1000));
    assert_eq!(sizes.iter().sum::<usize>(), 1_000_025);
}

#[test]
fn a_usage_without_end_is_none() {
    let long = format!("{{\"usage\":{{\"x\":\"{}\",\"prompt_tokens\":7}}}}", "x".repeat(20_000));
    assert_eq!(read(watch(Api::Chat, false), JSON, long.as_bytes().chunks(100)).1.usage, None);
    assert_eq!(
        read(watch(Api::Chat, false), JSON, ["{\"usage\":{\"prompt_tokens\":7".as_bytes()]).1.usage,
        None
    );
}

#[test]
fn nesting_without_end_is_followed_without_a_stack() {
    let deep = "[".repeat(1 << 20);
    let document = format!("{{\"a\":{deep}");
    assert_eq!(read(watch(Api::Chat, false), JSON, document.as_bytes().chunks(4096)).1.usage, None);
    let closed = format!("{{\"a\":{deep}{},\"usage\":{{\"prompt_tokens\":7}}}}", "]".repeat(1 << 20));
    assert_eq!(read(watch(Api::Chat, false), JSON, closed.as_bytes().chunks(4096)).1.usage, usage(7, 0, 7));
}

#[test]
fn a_watched_body_is_small() {
    // A connection holds one of these for every answer under way.
    assert!(size_of::<Unheard<Script>>() <= 512, "{}", size_of::<Unheard<Script>>());
}

/// Everything that means something, in any order.
fn debris() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "data:",
        "data: ",
        "event: x",
        "\n",
        "\r",
        "\r\n",
        "\n\n",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\",
        "\\u",
        "\\u00e4",
        ":",
        ",",
        " ",
        "\"usage\"",
        "\"usage\":{",
        "\"choices\":[",
        "\"delta\":",
        "\"delta\":{\"content\":\"x\"}",
        "\"response\":{",
        "\"prompt_tokens\":1",
        "null",
        "\u{FEFF}",
        "é",
    ])
    .prop_map(|piece| piece.as_bytes().to_vec());
    let bytes = prop::collection::vec(any::<u8>(), 0..8);
    prop::collection::vec(prop_oneof![6 => piece, 1 => bytes], 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn debris_passes_unchanged(bytes in debris(), size in 1_usize..50, json: bool) {
        let content_type = if json { JSON } else { EVENTS };
        for api in [Api::Chat, Api::Completions, Api::Messages] {
            let outcomes = Outcomes::default();
            let sent = bytes.chunks(size).map(|part| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(part))));
            let mut body = watch(api, false).body(&mut headers(content_type), Script::new(sent), outcomes.settle());
            let mut seen = Vec::new();
            while let Some(Ok(frame)) = next(&mut body) {
                seen.extend_from_slice(&frame.into_data().unwrap());
            }
            prop_assert_eq!(&seen, &bytes);
            prop_assert!(outcomes.only().observed_output <= bytes.len() as u64);
        }
    }

    /// With hiding, a caller gets whole stretches of the stream, in order, however it is cut.
    #[test]
    fn debris_is_hidden_alike_however_it_is_cut(bytes in debris(), size in 1_usize..50) {
        let hidden = |size: usize| {
            let sent = bytes.chunks(size).map(|part| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(part))));
            let mut body = watch(Api::Chat, true).body(&mut headers(EVENTS), Script::new(sent), |_| {});
            let mut seen = Vec::new();
            while let Some(Ok(frame)) = next(&mut body) {
                seen.extend_from_slice(&frame.into_data().unwrap());
            }
            seen
        };
        let (whole, cut) = (hidden(bytes.len().max(1)), hidden(size));
        let mut rest = bytes.iter();
        prop_assert!(cut.iter().all(|byte| rest.any(|sent| sent == byte)), "not a part of what was sent");
        prop_assert!(cut.len() >= whole.len());
    }
}
