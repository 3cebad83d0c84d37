//! What most events of a stream get: a search, and a look at the few bytes of output that are found.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::{
    alike::{Alike, Known, Spot},
    shape::{Output, Shape},
    skim::{Skim, is_label},
};

static DELTA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"delta\""));
static TEXT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"text\""));
static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"usage\""));

/// The least that is seen of a usage object.
const SHORTEST_USAGE: usize = "\"usage\":{".len();

/// Bytes of output text in events, or in the data of one. `None` if they may have a usage object in them, so that they have
/// to be read.
#[inline]
pub(super) fn read(shape: &'static Shape, alike: &mut Alike, text: &[u8]) -> Option<u64> {
    if let Some(Known { output_bytes: known, rest }) = alike.read(text) {
        if rest.is_empty() {
            return Some(known);
        }
        if may_have_usage(rest) {
            return None;
        }
        return Some(known.saturating_add(output_bytes(shape, rest)));
    }
    if may_have_usage(text) {
        return None;
    }
    let (bytes, spot) = search(shape, text);
    if let Some(spot) = spot {
        alike.learn(text, spot);
    }
    Some(bytes)
}

/// Whether events, or the data of one, may have a usage object in them. A usage that is `null` is none: some backends write
/// one into every chunk.
pub(super) fn may_have_usage(text: &[u8]) -> bool {
    let mut rest = text;
    while rest.len() >= SHORTEST_USAGE
        && let Some(behind) = behind(&USAGE, rest)
    {
        match behind {
            // No value but `null` begins like this; or it is no key.
            [b':', b'n', ..] | [b':', b' ', b'n', ..] | [b',' | b'}' | b']', ..] => {}
            _ => return true,
        }
        rest = behind;
    }
    false
}

/// Bytes of output text in events, or in the data of one.
pub(super) fn output_bytes(shape: &'static Shape, text: &[u8]) -> u64 {
    search(shape, text).0
}

/// The same, and where that is if it is one string.
fn search(shape: &'static Shape, text: &[u8]) -> (u64, Option<Spot>) {
    let finder = match shape.output {
        Output::Deltas => &*DELTA,
        Output::Texts => &*TEXT,
        Output::Document => return (0, None),
    };
    let (mut bytes, mut spot, mut rest, mut values) = (0_u64, None, text, 0);
    while let Some(value) = value_behind(finder, &mut rest) {
        values += 1;
        let read = if let Some(plain) = plain_output(value) {
            bytes = bytes.saturating_add(plain.bytes);
            let start = text.len() - value.len();
            spot = plain.text.filter(|_| values == 1).map(|(from, to)| Spot {
                start: start + from,
                end: start + to,
                value_end: start + plain.len,
            });
            plain.len
        } else {
            spot = None;
            let (found, read) = output(shape, value);
            bytes = bytes.saturating_add(found);
            read
        };
        rest = value.get(read..).unwrap_or_default();
    }
    (bytes, spot)
}

/// What stands behind the next such key; `rest` is what stands behind the key itself.
fn value_behind<'a>(key: &Finder<'_>, rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    loop {
        *rest = behind(key, rest)?;
        if let Some(value) = rest.trim_ascii_start().strip_prefix(b":") {
            return Some(value.trim_ascii_start());
        }
    }
}

/// What stands behind the first place where this is found.
fn behind<'a>(text: &Finder<'_>, rest: &'a [u8]) -> Option<&'a [u8]> {
    rest.get(text.find(rest)? + text.needle().len()..)
}

/// Bytes of text in any output that `value` begins with, and the length of that in JSON.
fn output(shape: &'static Shape, value: &[u8]) -> (u64, usize) {
    match value.first() {
        Some(b'"' | b'{' | b'[') => {
            let mut skim = Skim::of_output(shape);
            let read = skim.feed(value);
            (skim.found().output_bytes, read)
        }
        _ => (0, 0),
    }
}

/// Output as it is in nearly every event.
struct Plain {
    /// Bytes of text.
    bytes: u64,
    /// Its length in JSON.
    len: usize,
    /// Where its text is, with the quotes, if that is one string.
    text: Option<(usize, usize)>,
}

/// The same for output as it is in nearly every event: a string, or an object that has nothing within but strings and
/// words. Of anything else, or with white space in unusual places, it is `None`.
fn plain_output(value: &[u8]) -> Option<Plain> {
    if value.first()? == &b'"' {
        let (bytes, len) = string(value)?;
        return Some(Plain { bytes, len, text: Some((0, len)) });
    }
    if !value.starts_with(b"{") {
        return None;
    }
    let mut plain = Plain { bytes: 0, len: 1, text: None };
    if value.get(1)? == &b'}' {
        return Some(Plain { len: 2, ..plain });
    }
    let mut texts = 0;
    loop {
        let at = &mut plain.len;
        let (_, key) = string(value.get(*at..)?)?;
        let name = value.get(*at + 1..*at + key - 1)?;
        *at += key;
        if value.get(*at)? != &b':' || name == b"logprobs" {
            return None;
        }
        *at += 1 + usize::from(value.get(*at + 1)? == &b' ');
        match value.get(*at)? {
            b'"' => {
                let (bytes, length) = string(value.get(*at..)?)?;
                if !is_label(name) {
                    texts += 1;
                    plain.bytes += bytes;
                    plain.text = (texts == 1).then_some((*at, *at + length));
                }
                *at += length;
            }
            b'a'..=b'z' | b'0'..=b'9' | b'-' => {
                *at += value.get(*at..)?.iter().position(|byte| matches!(byte, b',' | b'}'))?;
            }
            _ => return None,
        }
        match value.get(*at)? {
            b',' => *at += 1 + usize::from(value.get(*at + 1)? == &b' '),
            b'}' => {
                *at += 1;
                return Some(plain);
            }
            _ => return None,
        }
    }
}

/// How many bytes the string stands for that `value` begins with, and how many it takes. `\u` is left to others.
#[inline]
pub(super) fn string(value: &[u8]) -> Option<(u64, usize)> {
    let text = value.strip_prefix(b"\"")?;
    let (mut at, mut escapes) = (0, 0);
    loop {
        at += quote_or_backslash(text.get(at..)?)?;
        if text.get(at)? == &b'"' {
            return Some(((at - escapes) as u64, at + 2));
        }
        if text.get(at + 1)? == &b'u' {
            return None;
        }
        escapes += 1;
        at += 2;
    }
}

/// Where the first quote or backslash is. Words are shorter than what it takes to begin a faster search.
#[inline]
fn quote_or_backslash(text: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut rest = text;
    while let Some((word, behind)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        // Both are ASCII. The lowest top bit that is set is that of the first such byte.
        let is = |byte: u8| (word ^ (u64::from(byte) * ONES)).wrapping_sub(ONES);
        let found = (is(b'"') | is(b'\\')) & !word & (0x80 * ONES);
        if found != 0 {
            return Some(text.len() - rest.len() + found.trailing_zeros() as usize / 8);
        }
        rest = behind;
    }
    let found = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    Some(text.len() - rest.len() + found)
}
