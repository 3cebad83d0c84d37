//! The chunk that only the gateway asked for.

use std::convert::Infallible;

use bytes::Bytes;
use http::header;
use http_body::{Body, Frame, SizeHint};

use super::{EVENTS, JSON, Outcomes, Script, chunks, headers, next, read, usage, watch};
use crate::{request::Api, usage::Outcome};

const TEXT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n";
const EXTRA: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn hide(stream: &str) -> (String, Outcome) {
    read(watch(Api::Chat, true), EVENTS, [stream.as_bytes()])
}

#[test]
fn only_a_chunk_that_has_nothing_but_usage_is_kept_back() {
    let both = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":1}}\n\n";
    let neither = "data: {\"choices\":[],\"prompt_filter_results\":[{}],\"usage\":null}\n\n";
    let alone = "data: {\"usage\":{\"prompt_tokens\":1}}\n\n";
    let unreadable = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":\"?\"}}\n\n";
    let reversed = "data: {\"usage\":{\"prompt_tokens\":1},\"choices\":[]}\n\n";
    for shown in [TEXT, both, neither, alone, DONE, ": comment\n\n", "\n\n\n"] {
        assert_eq!(hide(shown).0, shown);
    }
    for hidden in [EXTRA, unreadable, reversed] {
        assert_eq!(hide(&[TEXT, hidden, DONE].concat()).0, [TEXT, DONE].concat());
    }
}

#[test]
fn several_are_kept_back() {
    assert_eq!(hide(&[EXTRA, TEXT, EXTRA, EXTRA, DONE, EXTRA].concat()).0, [TEXT, DONE].concat());
}

#[test]
fn one_that_nothing_ends_is_kept_back() {
    for end in ["", "\n"] {
        let stream = [TEXT, EXTRA.trim_end(), end].concat();
        let (text, outcome) = hide(&stream);
        assert_eq!((text.as_str(), outcome.usage), (TEXT, usage(1, 1, 2)));
    }
    let begun = [TEXT, "data: {\"choices\":[],\"usa"].concat();
    assert_eq!(hide(&begun).0, begun);
}

#[test]
fn one_whose_line_end_comes_apart_leaves_nothing_behind() {
    let crlf = |text: &str| text.replace('\n', "\r\n");
    let (text, extra, done) = (crlf(TEXT), crlf(EXTRA), crlf(DONE));
    let stream = [text.as_str(), &extra, &done].concat();
    let cut = text.len() + extra.len() - 1;
    let (seen, _) =
        read(watch(Api::Chat, true), EVENTS, [&stream.as_bytes()[..cut], &stream.as_bytes()[cut..]]);
    assert_eq!(seen, [text, done].concat());
}

#[test]
fn whole_events_pass_at_once_and_uncopied() {
    let chunk = Bytes::from([TEXT, TEXT, &EXTRA[..20]].concat());
    let frames = [Ok::<_, Infallible>(Frame::data(chunk.clone()))];
    let mut body = watch(Api::Chat, true).body(&mut headers(EVENTS), Script::new(frames), |_| {});
    let first = next(&mut body).unwrap().unwrap().into_data().unwrap();
    assert_eq!((first.as_ptr(), first.len()), (chunk.as_ptr(), 2 * TEXT.len()));
}

#[test]
fn an_event_that_has_choices_passes_before_it_ends() {
    let cut = TEXT.find("content").unwrap();
    let parts = [&TEXT.as_bytes()[..cut], &TEXT.as_bytes()[cut..]];
    let mut body = watch(Api::Chat, true).body(&mut headers(EVENTS), chunks::<Infallible>(parts), |_| {});
    assert_eq!(next(&mut body).unwrap().unwrap().into_data().unwrap(), parts[0]);
    assert_eq!(next(&mut body).unwrap().unwrap().into_data().unwrap(), parts[1]);
}

#[test]
fn trailers_come_last() {
    let trailers = headers("x");
    let frames = [
        Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"data: half"))),
        Ok(Frame::trailers(trailers.clone())),
    ];
    let mut body = watch(Api::Chat, true).body(&mut headers(EVENTS), Script::new(frames), |_| {});
    assert_eq!(next(&mut body).unwrap().unwrap().into_data().unwrap(), "data: half");
    assert_eq!(next(&mut body).unwrap().unwrap().into_trailers().unwrap(), trailers);
    assert!(next(&mut body).is_none());
}

#[test]
fn a_stream_that_breaks_off_gives_out_what_it_held() {
    let frames =
        [Ok(Frame::data(Bytes::from([TEXT, "data: {\"choices\":["].concat()))), Err("gone".to_owned())];
    let outcomes = Outcomes::default();
    let mut body = watch(Api::Chat, true).body(&mut headers(EVENTS), Script::new(frames), outcomes.settle());
    assert_eq!(next(&mut body).unwrap().unwrap().into_data().unwrap(), TEXT);
    assert_eq!(next(&mut body).unwrap().unwrap().into_data().unwrap(), "data: {\"choices\":[");
    assert_eq!(next(&mut body).unwrap().unwrap_err(), "gone");
    assert_eq!(outcomes.only().observed_output, 1);
}

#[test]
fn a_length_is_promised_only_where_it_holds() {
    struct Sized;
    impl Body for Sized {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            std::task::Poll::Ready(None)
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(100)
        }
    }
    let promised = |hide, content_type| {
        let mut headers = headers(content_type);
        headers.insert(header::CONTENT_LENGTH, 100.into());
        let body = watch(Api::Chat, hide).body(&mut headers, Sized, |_| {});
        (body.size_hint().exact(), body.size_hint().upper(), headers.contains_key(header::CONTENT_LENGTH))
    };
    assert_eq!(promised(false, EVENTS), (Some(100), Some(100), true));
    assert_eq!(promised(true, JSON), (Some(100), Some(100), true));
    assert_eq!(promised(true, EVENTS), (None, Some(100), false));
}
