//! A pass over JSON that comes in pieces, for the few things that matter here.
//!
//! It finds the usage, which must be at its own place (an answer may echo what the caller wrote, and that may have a
//! `usage` in it), measures the text of the output, and sees whether a chunk has choices. It keeps no more of a document
//! than one usage object, and so takes documents of any length. It trusts the backend to write JSON: of anything else it
//! reads nothing, or nonsense, but never fails.

use memchr::memchr2;

use super::{shape::Shape, tally::Tally};

/// A usage object longer than this is none. They have a few hundred bytes.
const LONGEST_USAGE: usize = 16 * 1024;

/// Reads one document: a whole answer, or the data of one event.
#[derive(Debug)]
pub(super) struct Skim {
    shape: &'static Shape,
    place: Place,
    /// How many objects and arrays are open.
    depth: u32,
    /// What was read of the latest string.
    string: Text,
    /// The top-level member that is being read.
    member: Member,
    /// The depth of the key whose value is output.
    output_at: Option<u32>,
    /// The depth of the key whose value is no output though it lies within some.
    muted_at: Option<u32>,
    /// Strings behind the latest key are no output.
    label: bool,
    /// What was read of the usage object that has begun.
    usage: Vec<u8>,
    /// The depth at which it began.
    usage_at: Option<u32>,
    found: Found,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The usage, the largest of each count.
    pub(super) usage: Option<Tally>,
    /// Whether there was a usage object, readable or not.
    pub(super) has_usage: bool,
    /// What `choices` holds.
    pub(super) choices: Choices,
    /// Bytes of text in the output.
    pub(super) output_bytes: u64,
}

/// What the top-level `choices` of a document hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Choices {
    /// There are none, or they have not come yet.
    #[default]
    Unknown,
    /// An empty array.
    Empty,
    /// Something.
    Some,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the document.
    Start,
    /// Outside of strings.
    Between,
    /// In a string.
    String,
    /// Behind a backslash.
    Escape,
    /// In the digits of `\uXXXX`: how many there were, and their value.
    Unicode(u8, u32),
    /// Behind a string, which is a key if a colon follows.
    AfterString,
    /// Behind the key of the usage.
    BeforeUsage,
    /// Behind what matters.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Choices,
    Wrapper,
    Other,
}

/// The latest string.
#[derive(Debug, Default)]
struct Text {
    /// Its beginning, which is all of it for every key that matters.
    start: [u8; 24],
    /// How much of that is used; beyond it if the string is longer or has escapes.
    used: usize,
    /// Its length in bytes of UTF-8, escapes resolved.
    bytes: u64,
}

// === impl Skim ===

impl Skim {
    pub(super) const fn new(shape: &'static Shape) -> Self {
        Self {
            shape,
            place: Place::Start,
            depth: 0,
            string: Text { start: [0; 24], used: 0, bytes: 0 },
            member: Member::Other,
            output_at: None,
            muted_at: None,
            label: false,
            usage: Vec::new(),
            usage_at: None,
            found: Found { usage: None, has_usage: false, choices: Choices::Unknown, output_bytes: 0 },
        }
    }

    /// Reads the value of a key whose value is output, and nothing after it.
    pub(super) const fn of_output(shape: &'static Shape) -> Self {
        let mut skim = Self::new(shape);
        skim.place = Place::Between;
        skim.output_at = Some(0);
        skim
    }

    /// What was found up to now.
    pub(super) const fn found(&self) -> Found {
        self.found
    }

    /// Reads on, and tells how far; all of it unless the document ended within.
    pub(super) fn feed(&mut self, piece: &[u8]) -> usize {
        let mut at = 0;
        let mut usage_from = 0;
        while let Some(rest) = piece.get(at..).filter(|rest| !rest.is_empty()) {
            match self.place {
                Place::Start => match skip_space(rest) {
                    (space, Some(b'{')) => {
                        (self.place, self.depth) = (Place::Between, 1);
                        at += space + 1;
                    }
                    (space, None) => at += space,
                    (_, Some(_)) => self.place = Place::Over,
                },
                Place::Between => {
                    let Some(offset) = structure(rest) else {
                        at = piece.len();
                        continue;
                    };
                    at += offset + 1;
                    self.structure(rest[offset]);
                    if self.usage_at == Some(self.depth) {
                        self.usage_ends(&piece[usage_from..at]);
                    }
                }
                Place::String => {
                    let run = memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                    self.string.push(&rest[..run]);
                    match rest.get(run) {
                        Some(b'"') => self.place = Place::AfterString,
                        Some(_) => self.place = Place::Escape,
                        None => {}
                    }
                    at += run + 1;
                }
                Place::Escape => {
                    if rest[0] == b'u' {
                        self.place = Place::Unicode(0, 0);
                    } else {
                        self.string.push_escaped(1);
                        self.place = Place::String;
                    }
                    at += 1;
                }
                Place::Unicode(digits, value) => at += self.unicode(rest[0], digits, value),
                Place::AfterString => {
                    let (space, next) = skip_space(rest);
                    at += space;
                    match next {
                        Some(b':') => {
                            self.key();
                            at += 1;
                        }
                        Some(_) => self.string_ends(),
                        None => {}
                    }
                }
                Place::BeforeUsage => {
                    let (space, next) = skip_space(rest);
                    at += space;
                    if next.is_some() {
                        self.place = Place::Between;
                    }
                    if next == Some(b'{') {
                        self.found.has_usage = true;
                        self.usage.clear();
                        (self.usage_at, usage_from) = (Some(self.depth), at);
                        self.depth += 1;
                        at += 1;
                    }
                }
                Place::Over => break,
            }
        }
        if self.usage_at.is_some() {
            self.keep(piece.get(usage_from..).unwrap_or_default());
        }
        at.min(piece.len())
    }

    /// Reads what is not a string.
    fn structure(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.string.clear();
                self.place = Place::String;
            }
            b'{' | b'[' => {
                if self.member == Member::Choices {
                    match self.depth {
                        1 => self.found.choices = Choices::Empty,
                        2 => self.found.choices = Choices::Some,
                        _ => {}
                    }
                }
                self.depth = self.depth.saturating_add(1);
            }
            _ => {
                self.depth = self.depth.saturating_sub(1);
                self.leave(self.depth);
                if self.depth == 0 {
                    self.place = Place::Over;
                }
            }
        }
    }

    /// Whatever belonged to a key at `depth`, or deeper, is behind.
    fn leave(&mut self, depth: u32) {
        self.output_at = self.output_at.filter(|&at| at < depth);
        self.muted_at = self.muted_at.filter(|&at| at < depth);
    }

    /// The latest string is a key.
    fn key(&mut self) {
        self.place = Place::Between;
        if self.usage_at.is_some() {
            return;
        }
        self.leave(self.depth);
        let name = self.string.known();
        let of_usage = name == b"usage";
        if self.depth == 1 {
            self.member = match name {
                b"choices" => Member::Choices,
                name if name == self.shape.wrapper => Member::Wrapper,
                _ => Member::Other,
            };
        }
        if of_usage && (self.depth == 1 || (self.depth == 2 && self.member == Member::Wrapper)) {
            self.place = Place::BeforeUsage;
        }
        if self.output_at.is_none() {
            if self.shape.is_output(name, self.depth) {
                self.output_at = Some(self.depth);
                self.label = false;
            }
        } else {
            self.label = is_label(name);
            if name == b"logprobs" && self.muted_at.is_none() {
                self.muted_at = Some(self.depth);
            }
        }
    }

    /// The latest string is a value.
    fn string_ends(&mut self) {
        self.place = if self.depth == 0 { Place::Over } else { Place::Between };
        if self.output_at.is_some() && self.muted_at.is_none() && !self.label {
            self.found.output_bytes = self.found.output_bytes.saturating_add(self.string.bytes);
        }
    }

    /// Reads a digit of an escape, if it is one, and tells whether it was.
    fn unicode(&mut self, byte: u8, digits: u8, value: u32) -> usize {
        let Some(digit) = char::from(byte).to_digit(16) else {
            self.place = Place::String;
            return 0;
        };
        let value = value << 4 | digit;
        self.place = Place::Unicode(digits + 1, value);
        if digits == 3 {
            self.string.push_escaped(match value {
                0..0x80 => 1,
                // Half of a pair, which has four bytes.
                0x80..0x800 | 0xD800..0xE000 => 2,
                _ => 3,
            });
            self.place = Place::String;
        }
        1
    }

    fn usage_ends(&mut self, last: &[u8]) {
        let counts = if self.usage.is_empty() {
            (self.shape.read_usage)(last)
        } else {
            self.keep(last);
            (self.shape.read_usage)(&self.usage)
        };
        self.usage_at = None;
        if let Some(counts) = counts {
            self.found.usage.get_or_insert_default().raise(counts);
        }
    }

    /// Keeps a piece of the usage object. Of one that is too long only so much that it cannot be read.
    fn keep(&mut self, piece: &[u8]) {
        let room = LONGEST_USAGE.saturating_sub(self.usage.len());
        self.usage.extend_from_slice(&piece[..piece.len().min(room)]);
    }
}

// === impl Text ===

impl Text {
    fn clear(&mut self) {
        (self.used, self.bytes) = (0, 0);
    }

    fn push(&mut self, run: &[u8]) {
        self.bytes = self.bytes.saturating_add(run.len() as u64);
        let end = self.used.saturating_add(run.len());
        if let Some(room) = self.start.get_mut(self.used..end) {
            room.copy_from_slice(run);
        }
        self.used = end;
    }

    /// An escape that stands for so many bytes. No key that matters has any.
    fn push_escaped(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.used = usize::MAX;
    }

    /// The string, if it may be a key that matters; otherwise nothing.
    fn known(&self) -> &[u8] {
        self.start.get(..self.used).unwrap_or_default()
    }
}

/// Whether the strings behind this key label the output and are no part of it.
pub(super) fn is_label(key: &[u8]) -> bool {
    matches!(
        key,
        b"type"
            | b"role"
            | b"id"
            | b"object"
            | b"status"
            | b"call_id"
            | b"item_id"
            | b"finish_reason"
            | b"stop_reason"
            | b"stop_sequence"
            | b"signature"
            | b"encrypted_content"
            | b"data"
    )
}

/// How much white space `bytes` begin with, and what follows it.
fn skip_space(bytes: &[u8]) -> (usize, Option<u8>) {
    let space =
        bytes.iter().position(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).unwrap_or(bytes.len());
    (space, bytes.get(space).copied())
}

/// Where the first quote, brace or bracket is.
fn structure(bytes: &[u8]) -> Option<usize> {
    /// So many bytes are looked at together. Long runs of numbers (embeddings) have nothing to find.
    const BLOCK: usize = 32;
    // `[` and `{`, and `]` and `}`, differ in this one bit.
    let is_structure = |byte: u8| byte == b'"' || matches!(byte | 0x20, b'{' | b'}');
    let near = bytes.iter().take(BLOCK).position(|&byte| is_structure(byte));
    if near.is_some() || bytes.len() <= BLOCK {
        return near;
    }
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let passed = blocks
        .iter()
        .position(|block| block.iter().fold(false, |any, &byte| any | is_structure(byte)))
        .unwrap_or(blocks.len());
    let start = passed * BLOCK;
    bytes[start..].iter().position(|&byte| is_structure(byte)).map(|offset| start + offset)
}
