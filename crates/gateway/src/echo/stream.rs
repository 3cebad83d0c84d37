//! Event streams, sent at a steady pace.

use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;
use serde::Serialize;
use tokio::time::{Instant, Sleep, sleep_until};

use super::text::pieces;
use crate::body::{Body, BoxError};

/// Events that are made as they are sent.
pub(super) struct Stream {
    events: Box<dyn Iterator<Item = Bytes> + Send>,
}

/// What one event of a stream says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// A choice begins.
    Start(u32),
    /// A choice says a piece of the text.
    Say(u32, &'a str),
    /// A choice ends.
    End(u32),
    /// After all choices.
    Close,
}

/// The order of a stream's events: all choices begin, then say each piece in turn, then end.
pub(super) struct Script {
    text: String,
    pieces: Vec<Range<usize>>,
    choices: u32,
}

/// An event without a name.
pub(super) fn data(value: &impl Serialize) -> Bytes {
    event_of(Vec::from(b"data: "), value)
}

/// An event with one.
pub(super) fn event(name: &str, value: &impl Serialize) -> Bytes {
    let mut line = Vec::with_capacity(256);
    line.extend_from_slice(b"event: ");
    line.extend_from_slice(name.as_bytes());
    line.extend_from_slice(b"\ndata: ");
    event_of(line, value)
}

fn event_of(mut line: Vec<u8>, value: &impl Serialize) -> Bytes {
    if let Err(error) = serde_json::to_writer(&mut line, value) {
        // What is sent here has string keys only and cannot fail; if it ever does, the client must see it.
        tracing::error!(error = &error as &dyn std::error::Error, "an event could not be written");
    }
    line.extend_from_slice(b"\n\n");
    line.into()
}

// === impl Script ===

impl Script {
    pub(super) fn new(text: String, choices: u32) -> Self {
        let mut end = 0;
        let pieces = pieces(&text).map(|piece| {
            let start = end;
            end += piece.len();
            start..end
        });
        Self { pieces: pieces.collect(), text, choices }
    }

    /// A stream whose every step is turned into an event, or several.
    pub(super) fn play(self, mut tell: impl FnMut(Step<'_>) -> Bytes + Send + 'static) -> Stream {
        let mut at = 0_usize;
        Stream {
            events: Box::new(std::iter::from_fn(move || {
                let step = self.step(at)?;
                at += 1;
                Some(tell(step))
            })),
        }
    }

    fn step(&self, at: usize) -> Option<Step<'_>> {
        let choices = usize::try_from(self.choices.max(1)).ok()?;
        let (turn, choice) = (at / choices, u32::try_from(at % choices).ok()?);
        match turn.checked_sub(1) {
            None => Some(Step::Start(choice)),
            Some(said) => match self.pieces.get(said) {
                Some(piece) => Some(Step::Say(choice, &self.text[piece.clone()])),
                None if said == self.pieces.len() => Some(Step::End(choice)),
                None => (at == (self.pieces.len() + 2) * choices).then_some(Step::Close),
            },
        }
    }
}

// === impl Stream ===

impl Stream {
    pub(super) fn into_body(self, interval: Duration) -> Body {
        Paced { events: self.events, interval, next: None }.boxed_unsync()
    }
}

struct Paced {
    events: Box<dyn Iterator<Item = Bytes> + Send>,
    interval: Duration,
    /// When the next event is due; none before the first, and none without an interval.
    next: Option<Pin<Box<Sleep>>>,
}

// === impl Paced ===

impl HttpBody for Paced {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if let Some(next) = &mut this.next {
            ready!(next.as_mut().poll(cx));
        }
        if !this.interval.is_zero() {
            let due = Instant::now() + this.interval;
            match &mut this.next {
                Some(next) => next.as_mut().reset(due),
                None => this.next = Some(Box::pin(sleep_until(due))),
            }
        }
        Poll::Ready(this.events.next().map(|event| Ok(Frame::data(event))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_take_turns() {
        let script = Script::new("abcdef".into(), 2);
        let steps: Vec<_> = (0..12).map_while(|at| script.step(at)).collect();
        assert_eq!(
            steps,
            [
                Step::Start(0),
                Step::Start(1),
                Step::Say(0, "abcd"),
                Step::Say(1, "abcd"),
                Step::Say(0, "ef"),
                Step::Say(1, "ef"),
                Step::End(0),
                Step::End(1),
                Step::Close,
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn events_keep_their_pace() {
        let start = Instant::now();
        let stream = Script::new("abcd".into(), 1).play(|step| Bytes::from(format!("{step:?};")));
        let sent = stream.into_body(Duration::from_secs(2)).collect().await.unwrap().to_bytes();
        assert_eq!(sent, "Start(0);Say(0, \"abcd\");End(0);Close;");
        // Four events, and the end, each two seconds after the one before.
        assert_eq!(start.elapsed().as_secs(), 8);
    }
}
