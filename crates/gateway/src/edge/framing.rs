//! Follows HTTP/1 framing on the raw bytes, beside hyper's parser.
//!
//! hyper removes a `Content-Length` that stands beside `Transfer-Encoding`, so that a request with both cannot be
//! told from its fields any more. The two say different things about where the request ends, and the next server may believe
//! the other one (request smuggling, RFC 9112 section 6.1). This follower reads the same bytes, keeps nothing of them, and says which
//! request had both.
//!
//! It need only be right on what hyper accepts: where hyper finds an error it closes the connection, and no
//! further request comes. On everything hyper accepts it must find the same ends, which a property test checks. After
//! a conflict it stops, as hyper does.

use memchr::memchr;

const CONTENT_LENGTH: &[u8] = b"content-length";
const TRANSFER_ENCODING: &[u8] = b"transfer-encoding";

/// A follower of one connection's requests.
#[derive(Debug)]
pub(super) struct Framing {
    at: At,
    head: Head,
    heads: u64,
    conflict: Option<u64>,
}

/// Where in a message the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Before a request line; empty lines may come first.
    Start,
    RequestLine,
    /// At the first byte of a field, or of the empty line that ends the head.
    LineStart,
    LineName {
        field: Field,
        matched: usize,
    },
    LengthValue(Digits),
    LineRest,
    Length(u64),
    ChunkStart,
    ChunkSize(u64),
    /// Behind the digits of a chunk size: white space or an extension, up to the line's end.
    ChunkSizeRest(u64),
    ChunkSizeEnd(u64),
    Chunk(u64),
    /// The CRLF behind a chunk, of which so many bytes are still due.
    ChunkEnd(u8),
    TrailerStart,
    Trailer,
    TrailerLineEnd,
    End,
    /// Nothing more to follow.
    Stopped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    ContentLength,
    TransferEncoding,
}

impl Field {
    const fn name(self) -> &'static [u8] {
        match self {
            Self::ContentLength => CONTENT_LENGTH,
            Self::TransferEncoding => TRANSFER_ENCODING,
        }
    }

    /// Which of the two a line is, if it is one.
    fn named(line: &[u8]) -> Option<Self> {
        let field = match line.first()? {
            b'c' | b'C' => Self::ContentLength,
            b't' | b'T' => Self::TransferEncoding,
            _ => return None,
        };
        let (name, rest) = line.split_at_checked(field.name().len())?;
        (rest.first() == Some(&b':') && name.eq_ignore_ascii_case(field.name())).then_some(field)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Digits {
    None,
    Some(u64),
    /// White space behind the digits.
    Ended(u64),
}

#[derive(Clone, Copy, Debug, Default)]
struct Head {
    length: Option<u64>,
    has_length: bool,
    has_encoding: bool,
    invalid: bool,
}

impl Framing {
    pub(super) fn new() -> Self {
        Self { at: At::Start, head: Head::default(), heads: 0, conflict: None }
    }

    /// Heads that have ended so far.
    pub(super) fn heads(&self) -> u64 {
        self.heads
    }

    /// Which request, counted from zero, has both lengths.
    pub(super) fn conflict(&self) -> Option<u64> {
        self.conflict
    }

    pub(super) fn is_in_head(&self) -> bool {
        matches!(
            self.at,
            At::RequestLine | At::LineStart | At::LineName { .. } | At::LengthValue(_) | At::LineRest
        )
    }

    /// Whether every request that began has ended.
    pub(super) fn is_between(&self) -> bool {
        self.at == At::Start
    }

    /// Follows the next bytes of the connection.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            // Runs of bytes that say nothing are skipped as a whole, all else goes byte by byte.
            match self.at {
                At::Start if !matches!(byte, b'\r' | b'\n') => {
                    self.head = Head::default();
                    self.at = At::RequestLine;
                }
                At::RequestLine | At::LineRest => match line_end(bytes) {
                    Some(end) => {
                        self.at = At::LineStart;
                        bytes = &bytes[end + 1..];
                    }
                    None => return,
                },
                At::LineStart if bytes.starts_with(b"\r\n") => {
                    self.at = self.end_of_head();
                    bytes = &bytes[2..];
                }
                At::LengthValue(digits) => {
                    self.at = self.step_length(digits, byte);
                    bytes = rest;
                }
                // A field that is here whole is told by its name at once.
                At::LineStart if !matches!(byte, b'\r' | b'\n') => match line_end(bytes) {
                    Some(end) => match Field::named(&bytes[..end]) {
                        Some(field) => {
                            self.at = self.field(field);
                            bytes = &bytes[field.name().len() + 1..];
                        }
                        None => bytes = &bytes[end + 1..],
                    },
                    None => {
                        self.step(byte);
                        bytes = rest;
                    }
                },
                At::Length(left) => {
                    let (left, rest) = skip(left, bytes);
                    self.at = if left == 0 { At::Start } else { At::Length(left) };
                    bytes = rest;
                }
                At::Chunk(left) => {
                    let (left, rest) = skip(left, bytes);
                    self.at = if left == 0 { At::ChunkEnd(2) } else { At::Chunk(left) };
                    bytes = rest;
                }
                At::Stopped => return,
                _ => {
                    self.step(byte);
                    bytes = rest;
                }
            }
        }
    }

    fn step(&mut self, byte: u8) {
        self.at = match self.at {
            At::LineStart => match byte {
                // A lone CR is an error to hyper; with the LF the head ends.
                b'\r' => At::LineStart,
                b'\n' => self.end_of_head(),
                b'c' | b'C' => At::LineName { field: Field::ContentLength, matched: 1 },
                b't' | b'T' => At::LineName { field: Field::TransferEncoding, matched: 1 },
                _ => At::LineRest,
            },
            At::LineName { field, matched } => self.step_name(field, matched, byte),
            At::ChunkStart => match hex(byte) {
                Some(digit) => At::ChunkSize(digit),
                None => At::Stopped,
            },
            At::ChunkSize(size) => match (byte, hex(byte)) {
                (_, Some(digit)) => match size.checked_mul(16) {
                    Some(shifted) => At::ChunkSize(shifted | digit),
                    None => At::Stopped,
                },
                (b'\r', _) => At::ChunkSizeEnd(size),
                (b' ' | b'\t' | b';', _) => At::ChunkSizeRest(size),
                _ => At::Stopped,
            },
            At::ChunkSizeRest(size) => match byte {
                b'\r' => At::ChunkSizeEnd(size),
                b'\n' => At::Stopped,
                _ => At::ChunkSizeRest(size),
            },
            At::ChunkSizeEnd(size) => match (byte, size) {
                (b'\n', 0) => At::TrailerStart,
                (b'\n', size) => At::Chunk(size),
                _ => At::Stopped,
            },
            At::ChunkEnd(2) => At::ChunkEnd(1),
            At::ChunkEnd(_) => At::ChunkStart,
            // Trailers end with CRLF only, unlike heads: a lone LF belongs to the line.
            At::TrailerStart if byte == b'\r' => At::End,
            At::TrailerStart | At::Trailer => {
                if byte == b'\r' {
                    At::TrailerLineEnd
                } else {
                    At::Trailer
                }
            }
            At::TrailerLineEnd => At::TrailerStart,
            At::End => At::Start,
            // An empty line before a request, and what `feed` sees to.
            at @ (At::Start
            | At::RequestLine
            | At::LineRest
            | At::LengthValue(_)
            | At::Length(_)
            | At::Chunk(_)
            | At::Stopped) => at,
        };
    }

    fn step_name(&mut self, field: Field, matched: usize, byte: u8) -> At {
        match (field.name().get(matched), byte) {
            (_, b'\n') => At::LineStart,
            (Some(expected), byte) if byte.to_ascii_lowercase() == *expected => {
                At::LineName { field, matched: matched + 1 }
            }
            (None, b':') => self.field(field),
            _ => At::LineRest,
        }
    }

    /// Behind the colon of a field.
    fn field(&mut self, field: Field) -> At {
        match field {
            Field::ContentLength => {
                self.head.has_length = true;
                At::LengthValue(Digits::None)
            }
            Field::TransferEncoding => {
                self.head.has_encoding = true;
                At::LineRest
            }
        }
    }

    fn step_length(&mut self, digits: Digits, byte: u8) -> At {
        let next = match (digits, byte) {
            (Digits::None, b' ' | b'\t') => Some(Digits::None),
            (Digits::None, b'0'..=b'9') => Some(Digits::Some(u64::from(byte - b'0'))),
            (Digits::Some(value), b'0'..=b'9') => value
                .checked_mul(10)
                .and_then(|value| value.checked_add(u64::from(byte - b'0')))
                .map(Digits::Some),
            (Digits::Some(value) | Digits::Ended(value), b' ' | b'\t' | b'\r') => Some(Digits::Ended(value)),
            (Digits::Some(value) | Digits::Ended(value), b'\n') => {
                self.head.invalid |= self.head.length.is_some_and(|other| other != value);
                self.head.length = Some(value);
                return At::LineStart;
            }
            _ => None,
        };
        if let Some(digits) = next {
            return At::LengthValue(digits);
        }
        // Not a number. hyper refuses it, or overlooks it beside `Transfer-Encoding`, which is a conflict.
        self.head.invalid = true;
        if byte == b'\n' { At::LineStart } else { At::LineRest }
    }

    fn end_of_head(&mut self) -> At {
        let head = self.head;
        let number = self.heads;
        self.heads += 1;
        if head.has_length && head.has_encoding {
            self.conflict = Some(number);
            return At::Stopped;
        }
        match head.length {
            _ if head.invalid => At::Stopped,
            _ if head.has_encoding => At::ChunkStart,
            None | Some(0) => At::Start,
            Some(length) => At::Length(length),
        }
    }
}

/// Where the line ends.
///
/// Most lines are so short that calling a search built for long ones would cost more than looking: eight bytes at a time are
/// compared at once (a byte of `word` is a line feed where one of `differ` is zero; see H. S. Warren, "Hacker's Delight",
/// section 6-1).
fn line_end(bytes: &[u8]) -> Option<usize> {
    const SHORT: usize = 64;
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let (words, _) = bytes.as_chunks::<8>();
    let near = &words[..words.len().min(SHORT / 8)];
    for (at, word) in near.iter().enumerate() {
        let differ = u64::from_le_bytes(*word) ^ (ONES * 0x0a);
        let zero = differ.wrapping_sub(ONES) & !differ & (ONES << 7);
        if zero != 0 {
            return Some(8 * at + zero.trailing_zeros() as usize / 8);
        }
    }
    let looked = 8 * near.len();
    memchr(b'\n', &bytes[looked..]).map(|end| looked + end)
}

/// Skips up to `left` bytes; returns how many are still due, and the bytes behind.
fn skip(left: u64, bytes: &[u8]) -> (u64, &[u8]) {
    let step = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
    (left - step as u64, &bytes[step..])
}

fn hex(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}
