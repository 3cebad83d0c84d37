//! What of a prompt is text: a walk over the part of a body that holds it.
//!
//! The walk does not judge. A member counts whether its name stands once or twice and in whatever case, so that the size is
//! at least that of any reading of the prompt; what a backend would not understand, it will refuse itself.

use super::{keys::Member, string::Quoted};

/// Deeper than any prompt; below it everything counts as text, as it stands.
const MAX_DEPTH: usize = 24;

/// Text of a prompt.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text<'a> {
    /// A string.
    Quoted(Quoted<'a>),
    /// JSON that the model gets to see as it stands.
    Json(&'a str),
}

/// Whatever is told of a prompt.
pub(super) trait Sink {
    /// Text.
    fn text(&mut self, text: Text<'_>);
    /// The id of a token.
    fn id(&mut self);
    /// A picture, a sound or a file.
    fn media(&mut self);
}

/// Tells `sink` of a prompt, `json` being JSON that has been checked before.
pub(super) fn walk(json: &str, sink: &mut impl Sink) {
    Walk { json, at: 0, sink }.value(Role::Text, 0);
}

/// Tells `sink` of JSON that is shown to the model as it stands: a string by what it says.
pub(super) fn show(json: &str, sink: &mut impl Sink) {
    Walk { json, at: 0, sink }.shown();
}

/// How many prompts there are in one of [`Field::Prompts`](super::keys::Field::Prompts): a string is one, so is a list of
/// ids.
pub(super) fn prompts(json: &str) -> u64 {
    struct Nobody;
    impl Sink for Nobody {
        fn text(&mut self, _: Text<'_>) {}
        fn id(&mut self) {}
        fn media(&mut self) {}
    }
    let mut walk = Walk { json, at: 0, sink: &mut Nobody };
    let mut prompts = 0;
    if walk.peek() == Some(b'[') {
        walk.at += 1;
        while let Some(first) = walk.next_in(b']') {
            prompts += u64::from(matches!(first, b'"' | b'['));
            walk.skip();
        }
    }
    prompts.max(1)
}

/// What the strings of a value are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Text.
    Text,
    /// Names of other things, but for members that say they are text.
    Parts,
}

struct Walk<'a, 's, S> {
    json: &'a str,
    at: usize,
    sink: &'s mut S,
}

impl<'a, S: Sink> Walk<'a, '_, S> {
    fn value(&mut self, role: Role, depth: usize) {
        match self.peek() {
            Some(b'"') => {
                let quoted = self.string();
                if role == Role::Text {
                    self.sink.text(Text::Quoted(quoted));
                }
            }
            Some(b'[' | b'{') if depth >= MAX_DEPTH => {
                let json = self.skip();
                self.sink.text(Text::Json(json));
            }
            Some(b'[') => {
                self.at += 1;
                while let Some(first) = self.next_in(b']') {
                    if matches!(first, b'-' | b'0'..=b'9') {
                        self.literal();
                        if role == Role::Text {
                            self.sink.id();
                        }
                    } else {
                        self.value(role, depth + 1);
                    }
                }
            }
            Some(b'{') => self.object(depth + 1),
            _ => self.literal(),
        }
    }

    fn object(&mut self, depth: usize) {
        self.at += 1;
        let mut has_media = false;
        while self.next_in(b'}').is_some() {
            match Member::of(&self.name()) {
                Member::Parts => self.value(Role::Parts, depth),
                Member::Json => self.shown(),
                Member::Source if self.peek() == Some(b'{') => has_media |= self.source(depth + 1),
                // The source of a piece of text is its address.
                Member::Text | Member::Source => self.value(Role::Text, depth),
                Member::Media => has_media |= self.skip() != "null",
                Member::Aside => {
                    self.skip();
                }
            }
        }
        // A part is one medium, in however many ways it is given.
        if has_media {
            self.sink.media();
        }
    }

    /// Whether the source that starts here is a medium, and not text or parts that have been told by now.
    fn source(&mut self, depth: usize) -> bool {
        self.at += 1;
        let (mut data, mut is_text, mut has_parts) = (None::<Quoted<'_>>, false, false);
        while self.next_in(b'}').is_some() {
            let name = self.name();
            match self.peek() {
                Some(b'"') if name.is("type") => is_text |= self.string().is("text"),
                Some(b'"') if name.is("data") => {
                    let given = self.string();
                    data = Some(data.map_or(given, |data| if data.len < given.len { given } else { data }));
                }
                Some(b'"' | b'[' | b'{') if name.is("content") => {
                    has_parts = true;
                    self.value(Role::Text, depth);
                }
                _ => {
                    self.skip();
                }
            }
        }
        if let Some(data) = data.filter(|_| is_text) {
            self.sink.text(Text::Quoted(data));
        }
        !is_text && !has_parts
    }

    fn shown(&mut self) {
        match self.peek() {
            Some(b'"') => {
                let quoted = self.string();
                self.sink.text(Text::Quoted(quoted));
            }
            Some(b'[' | b'{') => {
                let json = self.skip();
                self.sink.text(Text::Json(json));
            }
            _ => self.literal(),
        }
    }

    // === What JSON is made of. Each step takes at least a byte, if there is one. ===

    /// The first byte of what comes next.
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.json.as_bytes().get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                found => return found.copied(),
            }
        }
    }

    /// The first byte of the next element or member, or none behind the last, whose `end` is taken.
    fn next_in(&mut self, end: u8) -> Option<u8> {
        if self.peek() == Some(b',') {
            self.at += 1;
        }
        let first = self.peek()?;
        if first == end {
            self.at += 1;
            return None;
        }
        Some(first)
    }

    /// The name of a member, and its colon.
    fn name(&mut self) -> Quoted<'a> {
        let name = self.string();
        if self.peek() == Some(b':') {
            self.at += 1;
        }
        name
    }

    /// The string here.
    fn string(&mut self) -> Quoted<'a> {
        let (quoted, taken) = Quoted::read(self.json.get(self.at + 1..).unwrap_or_default());
        self.at = (self.at + 1 + taken).min(self.json.len());
        quoted
    }

    /// Passes over a number, a `true` or the like.
    fn literal(&mut self) {
        let rest = self.json.as_bytes().get(self.at..).unwrap_or_default();
        let end =
            rest.iter().position(|byte| matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t'));
        self.at += end.unwrap_or(rest.len()).max(1);
    }

    /// Passes over a value, however deep it is, and returns it as it stands.
    fn skip(&mut self) -> &'a str {
        self.peek();
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                None => break,
                Some(b'"') => {
                    self.string();
                }
                Some(b'[' | b'{') => {
                    depth += 1;
                    self.at += 1;
                }
                Some(b']' | b'}') => {
                    depth = depth.saturating_sub(1);
                    self.at += 1;
                }
                Some(b',' | b':') => self.at += 1,
                Some(_) => self.literal(),
            }
            if depth == 0 {
                break;
            }
        }
        self.json.get(start..self.at).unwrap_or_default()
    }
}
