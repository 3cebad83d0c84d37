//! An outcome is reported once, at whatever point an answer ends.

use bytes::Bytes;
use http_body::{Body, Frame};

use super::{EVENTS, JSON, Outcomes, Script, chunks, headers, next, samples::all, watch};
use crate::{
    request::Api,
    usage::{Ended, Outcome},
};

/// Reads `frames` of a body and gives it up.
fn give_up<B: Body<Data = Bytes> + Unpin>(mut body: B, frames: usize) {
    for _ in 0..frames {
        assert!(matches!(next(&mut body), Some(Ok(_))));
    }
}

#[test]
fn a_caller_may_leave_after_any_chunk() {
    for sample in all() {
        for hide in [false, true] {
            let parts: Vec<_> = sample.stream.as_bytes().chunks(40).collect();
            for left_after in 0..parts.len() {
                let outcomes = Outcomes::default();
                let script = chunks::<String>(parts.iter().copied());
                let mut body = watch(sample.api, hide).body(&mut headers(EVENTS), script, outcomes.settle());
                for _ in 0..left_after {
                    drop(next(&mut body));
                }
                let so_far = outcomes.len();
                drop(body);
                let outcome = outcomes.only();
                assert_eq!(so_far == 0, outcome.ended == Ended::Dropped, "{}: {outcome:?}", sample.name);
            }
        }
    }
}

#[test]
fn one_who_never_reads_leaves_too() {
    let outcomes = Outcomes::default();
    drop(watch(Api::Chat, false).body(
        &mut headers(EVENTS),
        chunks::<String>([b"x".as_slice()]),
        outcomes.settle(),
    ));
    assert_eq!(outcomes.only(), Outcome { usage: None, observed_output: 0, ended: Ended::Dropped });
}

#[test]
fn what_was_seen_before_leaving_is_told() {
    let text = b"data: {\"choices\":[{\"delta\":{\"content\":\"12345678\"}}]}\n\n".as_slice();
    for frames in 0..5 {
        let outcomes = Outcomes::default();
        let body = watch(Api::Chat, false).body(
            &mut headers(EVENTS),
            chunks::<String>([text; 5]),
            outcomes.settle(),
        );
        give_up(body, frames);
        assert_eq!(outcomes.only().observed_output, 2 * frames as u64);
    }
}

#[test]
fn one_who_leaves_at_done_has_seen_the_usage() {
    let stream = all().swap_remove(0).stream;
    let outcomes = Outcomes::default();
    let script = chunks::<String>([stream.as_bytes(), b": more\n\n"]);
    give_up(watch(Api::Chat, false).body(&mut headers(EVENTS), script, outcomes.settle()), 1);
    let outcome = outcomes.only();
    assert_eq!((outcome.usage.map(|usage| usage.total), outcome.ended), (Some(15), Ended::Dropped));
}

#[test]
fn the_last_frame_of_a_body_that_knows_its_end_is_the_end() {
    for hide in [false, true] {
        for (content_type, text) in
            [(JSON, "{\"usage\":{\"prompt_tokens\":7}}"), (EVENTS, "data: {\"usage\":{\"prompt_tokens\":7}}")]
        {
            let outcomes = Outcomes::default();
            let mut script = chunks::<String>([text.as_bytes()]);
            script.knows_end = true;
            let mut body = watch(Api::Chat, hide).body(&mut headers(content_type), script, outcomes.settle());
            assert!(!body.is_end_stream());
            assert_eq!(next(&mut body).unwrap().unwrap().into_data().unwrap(), text);
            assert!(body.is_end_stream());
            let outcome = outcomes.only();
            assert_eq!((outcome.usage.map(|usage| usage.total), outcome.ended), (Some(7), Ended::Complete));
            drop(body);
            outcomes.only();
        }
    }
}

#[test]
fn an_empty_answer_is_complete_unread() {
    let outcomes = Outcomes::default();
    let mut script = chunks::<String>([]);
    script.knows_end = true;
    drop(watch(Api::Chat, true).body(&mut headers(EVENTS), script, outcomes.settle()));
    assert_eq!(outcomes.only().ended, Ended::Complete);
}

#[test]
fn a_backend_may_fail_after_any_chunk() {
    for sample in all() {
        for hide in [false, true] {
            let parts: Vec<_> = sample.stream.as_bytes().chunks(64).collect();
            for failed_after in 0..=parts.len() {
                let outcomes = Outcomes::default();
                let sent =
                    parts[..failed_after].iter().map(|part| Ok(Frame::data(Bytes::copy_from_slice(part))));
                let script = Script::new(sent.chain([Err("gone".to_owned())]));
                let mut body = watch(sample.api, hide).body(&mut headers(EVENTS), script, outcomes.settle());
                let mut frames = Vec::new();
                while let Some(Ok(frame)) = next(&mut body) {
                    frames.extend_from_slice(&frame.into_data().unwrap());
                }
                assert_eq!(outcomes.only().ended, Ended::Failed);
                if !hide {
                    assert_eq!(frames, parts[..failed_after].concat());
                }
            }
        }
    }
}
