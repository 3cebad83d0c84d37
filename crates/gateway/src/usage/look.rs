//! What is looked for in an answer, by what the answer is.

use http::{HeaderMap, header};

use super::{
    Usage, Watch,
    alike::Alike,
    anthropic, glance, openai,
    shape::Shape,
    skim::{Choices, Found, Skim},
    sse::{EventData, EventParser},
    tally::Tally,
};
use crate::request::Api;

/// Looks at an answer as it passes.
#[derive(Debug)]
pub(super) enum Look {
    /// At a stream of events.
    Events(EventParser, Events),
    /// At one JSON document.
    Document(Skim),
    /// At the length alone: it is text, but compressed.
    Encoded(u64),
    /// At nothing: it is neither JSON nor events.
    Nothing,
}

/// What the events of a stream have said.
#[derive(Debug)]
pub(super) struct Events {
    shape: &'static Shape,
    /// Reads the present event, if that needs more than a glance.
    skim: Option<Skim>,
    /// What most of them begin with.
    alike: Alike,
    usage: Option<Tally>,
    /// Bytes of output text since the latest usage that counts any output.
    output_bytes: u64,
}

// === impl Look ===

impl Look {
    pub(super) fn at(watch: &Watch, headers: &HeaderMap) -> Self {
        let content_type = headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes());
        let is_stream = content_type.is_some_and(|value| contains(value, b"text/event-stream"));
        // Some backends do not say what they send. If that is no JSON, it is soon seen.
        let is_document = content_type.is_none_or(|value| contains(value, b"json"));
        let encodings = headers.get_all(header::CONTENT_ENCODING);
        let encoded =
            encodings.iter().any(|value| !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"));
        let (document, events) = match watch.api {
            Api::Messages | Api::CountTokens => (&anthropic::DOCUMENT, &anthropic::DELTAS),
            Api::Completions => (&openai::DOCUMENT, &openai::TEXTS),
            _ => (&openai::DOCUMENT, &openai::DELTAS),
        };
        match () {
            () if encoded && (is_stream || is_document) => Self::Encoded(0),
            () if encoded => Self::Nothing,
            () if is_stream => Self::Events(EventParser::default(), Events::new(events)),
            () if is_document => Self::Document(Skim::new(document)),
            () => Self::Nothing,
        }
    }

    /// Looks at the next bytes.
    pub(super) fn pass(&mut self, chunk: &[u8]) {
        let glanced = match self {
            Self::Events(parser, events) => parser.read_whole(chunk, events),
            _ => false,
        };
        if !glanced {
            self.read(chunk);
        }
    }

    /// Does it thoroughly. Apart, so that what most events get stays small.
    #[inline(never)]
    fn read(&mut self, chunk: &[u8]) {
        match self {
            Self::Events(parser, events) => {
                let mut rest = chunk;
                while !rest.is_empty() {
                    let step = parser.read(rest, events);
                    if step.ended {
                        events.end_event();
                    }
                    rest = rest.get(step.len..).unwrap_or_default();
                }
            }
            Self::Document(skim) => {
                skim.feed(chunk);
            }
            Self::Encoded(bytes) => *bytes = bytes.saturating_add(chunk.len() as u64),
            Self::Nothing => {}
        }
    }

    /// The usage that was told, and the bytes of output that were seen and that it does not cover.
    pub(super) fn result(&mut self) -> (Option<Usage>, u64) {
        match self {
            Self::Events(_, events) => {
                // An event that nothing ends may be the last there is.
                events.end_event();
                (events.usage.map(Tally::usage), events.output_bytes)
            }
            Self::Document(skim) => {
                let found = skim.found();
                (found.usage.map(Tally::usage), if found.usage.is_some() { 0 } else { found.output_bytes })
            }
            // A crude measure: compression and the JSON around the text about cancel each other out.
            Self::Encoded(bytes) => (None, *bytes),
            Self::Nothing => (None, 0),
        }
    }
}

fn contains(value: &[u8], part: &[u8]) -> bool {
    value.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}

// === impl Events ===

impl Events {
    pub(super) fn new(shape: &'static Shape) -> Self {
        Self { shape, skim: None, alike: Alike::default(), usage: None, output_bytes: 0 }
    }

    /// Takes in what the present event said, and tells whether it is a chunk for the usage and nothing else.
    pub(super) fn end_event(&mut self) -> bool {
        let Some(skim) = self.skim.take() else { return false };
        let Found { usage, has_usage, choices, output_bytes } = skim.found();
        self.output_bytes = self.output_bytes.saturating_add(output_bytes);
        if let Some(usage) = usage {
            self.usage.get_or_insert_default().raise(usage);
            // A backend that tells the prompt first and the output last has not counted what came between.
            if usage.output > 0 {
                self.output_bytes = 0;
            }
        }
        has_usage && choices == Choices::Empty
    }

    /// Whether the present event, as far as it has come, may turn out to be one for the usage and nothing else.
    pub(super) fn may_be_usage(&self) -> bool {
        self.skim.as_ref().is_none_or(|skim| skim.found().choices != Choices::Some)
    }
}

impl EventData for Events {
    fn events(&mut self, chunk: &[u8]) -> bool {
        // Thousands of events have no usage; these are not read, only searched.
        let Some(output_bytes) = glance::read(self.shape, &mut self.alike, chunk) else {
            return false;
        };
        self.output_bytes = self.output_bytes.saturating_add(output_bytes);
        true
    }

    fn whole(&mut self, data: &[u8]) {
        if !self.events(data) {
            self.piece(data);
        }
    }

    fn piece(&mut self, piece: &[u8]) {
        self.skim.get_or_insert_with(|| Skim::new(self.shape)).feed(piece);
    }
}
