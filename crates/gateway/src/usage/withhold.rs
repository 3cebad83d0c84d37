//! Keeps a chunk from the caller that only the gateway asked for.
//!
//! With `stream_options.include_usage`, OpenAI's API sends one chunk more, which has the usage and no choices. A caller that
//! did not ask for it may not expect a chunk without choices, and does not get it. All other bytes are the backend's, the
//! `"usage": null` of the other chunks among them: clients read that as they read its absence, and taking it out would mean
//! to write every chunk anew.
//!
//! What comes of an event is passed on when the event has ended, or as soon as it is known not to be that chunk. No caller
//! gets an event later for that: one that has not ended is nothing to act on.

use std::{collections::VecDeque, mem};

use bytes::Bytes;

use super::{look::Events, sse::EventParser};

/// An event longer than this is not held back any longer. The chunk in question has some hundred bytes.
const LONGEST_HELD: usize = 64 * 1024;

/// Takes chunks, and gives out what of them is for the caller.
#[derive(Debug, Default)]
pub(super) struct Withhold {
    /// The present event, as far as it has come and may still be the one that is kept back.
    held: Vec<u8>,
    /// Some of the present event has been passed on, so that the rest has to be, too.
    released: bool,
    /// The latest event was kept back.
    kept_back: bool,
    /// For the caller.
    ready: VecDeque<Bytes>,
}

// === impl Withhold ===

impl Withhold {
    /// Whether the next chunk of the stream can pass as it is. Otherwise it is to be pushed.
    pub(super) fn passes(&self, parser: &mut EventParser, events: &mut Events, chunk: &Bytes) -> bool {
        self.is_empty() && self.is_between_events() && parser.read_whole(chunk, events)
    }

    /// Takes the next chunk of the stream.
    pub(super) fn push(&mut self, parser: &mut EventParser, events: &mut Events, chunk: &Bytes) {
        // Where what can be passed on begins, and how far the chunk was read.
        let (mut from, mut at) = (0, 0);
        if self.is_between_events() && parser.ends_late(chunk) {
            at = 1;
            if self.kept_back {
                from = 1;
            }
        }
        while at < chunk.len() {
            let start = at;
            let step = parser.read(&chunk[start..], events);
            at += step.len;
            if step.ended {
                self.kept_back = events.end_event() && !self.released;
                if self.kept_back {
                    self.held = Vec::new();
                    self.pass(chunk, from, start);
                    from = at;
                } else {
                    self.release();
                }
                self.released = false;
            } else if !self.released && events.may_be_usage() && self.held.len() + step.len <= LONGEST_HELD {
                self.pass(chunk, from, start);
                self.held.extend_from_slice(&chunk[start..]);
                from = at;
            } else {
                self.release();
                self.released = true;
            }
        }
        self.pass(chunk, from, at);
    }

    /// The stream has ended: what is held of its last event is for the caller, unless that is the chunk in question.
    pub(super) fn end(&mut self, events: &mut Events) {
        if events.end_event() {
            self.held = Vec::new();
        }
        self.release();
    }

    /// The stream broke off: what was held is for the caller, who would have had it.
    pub(super) fn release(&mut self) {
        if !self.held.is_empty() {
            self.ready.push_back(mem::take(&mut self.held).into());
        }
    }

    /// What is for the caller next.
    pub(super) fn pop(&mut self) -> Option<Bytes> {
        self.ready.pop_front()
    }

    /// Whether there is nothing left to give out.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.ready.is_empty()
    }

    /// The most bytes there are left to give out.
    pub(super) fn len(&self) -> usize {
        self.held.len() + self.ready.iter().map(Bytes::len).sum::<usize>()
    }

    fn is_between_events(&self) -> bool {
        self.held.is_empty() && !self.released
    }

    fn pass(&mut self, chunk: &Bytes, from: usize, to: usize) {
        if from < to {
            self.ready.push_back(chunk.slice(from..to));
        }
    }
}
