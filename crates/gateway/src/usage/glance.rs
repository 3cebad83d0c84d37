//! What most events of a stream get: a search, and a look at the few bytes of output that are found.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::{
    shape::{Output, Shape},
    skim::{Skim, is_label},
};

static DELTA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"delta\""));
static TEXT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"text\""));
static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"usage\""));

/// Whether events, or the data of one, may have a usage object in them. A usage that is `null` is none: some backends write
/// one into every chunk.
pub(super) fn may_have_usage(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(behind) = behind(&USAGE, rest) {
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
    let finder = match shape.output {
        Output::Deltas => &*DELTA,
        Output::Texts => &*TEXT,
        Output::Document => return 0,
    };
    let (mut bytes, mut rest) = (0_u64, text);
    while let Some(value) = value_behind(finder, &mut rest) {
        let (found, read) = plain_output(value).unwrap_or_else(|| output(shape, value));
        bytes = bytes.saturating_add(found);
        rest = value.get(read..).unwrap_or_default();
    }
    bytes
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

/// The same for output as it is in nearly every event: a string, or an object that has nothing within but strings and
/// words. Of anything else, or with white space in unusual places, it is `None`.
fn plain_output(value: &[u8]) -> Option<(u64, usize)> {
    if value.first()? == &b'"' {
        return string(value);
    }
    if !value.starts_with(b"{") {
        return None;
    }
    let (mut bytes, mut at) = (0, 1);
    if value.get(1)? == &b'}' {
        return Some((0, 2));
    }
    loop {
        let (_, key) = string(value.get(at..)?)?;
        let name = value.get(at + 1..at + key - 1)?;
        at += key;
        if value.get(at)? != &b':' || name == b"logprobs" {
            return None;
        }
        at += 1 + usize::from(value.get(at + 1)? == &b' ');
        match value.get(at)? {
            b'"' => {
                let (text, length) = string(value.get(at..)?)?;
                bytes += if is_label(name) { 0 } else { text };
                at += length;
            }
            b'a'..=b'z' | b'0'..=b'9' | b'-' => {
                at += value.get(at..)?.iter().position(|byte| matches!(byte, b',' | b'}'))?;
            }
            _ => return None,
        }
        match value.get(at)? {
            b',' => at += 1 + usize::from(value.get(at + 1)? == &b' '),
            b'}' => return Some((bytes, at + 1)),
            _ => return None,
        }
    }
}

/// How many bytes the string stands for that `value` begins with, and how many it takes. `\u` is left to others.
fn string(value: &[u8]) -> Option<(u64, usize)> {
    let text = value.strip_prefix(b"\"")?;
    let (mut at, mut escapes) = (0, 0);
    loop {
        // Words are shorter than what it takes to begin a faster search.
        at += text.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
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
