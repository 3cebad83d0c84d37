//! Passing over JSON that is not looked into.
//!
//! Most of a body goes through here, so these functions pass places from hand to hand and keep nothing: what is rare is
//! apart, and the rest stays in registers.

use super::{
    nest::Nest,
    number,
    scan::NotJson,
    string::{escaped_end, first_special},
};

/// What is found behind the end.
const END: u8 = 0;

/// The first byte at or behind `at` that is no white space, and its place. At the end it is a byte that means nothing in
/// JSON.
#[inline]
pub(super) fn peek(json: &[u8], at: usize) -> (u8, usize) {
    match json.get(at) {
        // Most bodies have no white space.
        Some(&found) if found > b' ' => (found, at),
        _ => behind_space(json, at),
    }
}

#[inline(never)]
fn behind_space(json: &[u8], mut at: usize) -> (u8, usize) {
    while let Some(&found) = json.get(at) {
        if !matches!(found, b' ' | b'\n' | b'\r' | b'\t') {
            return (found, at);
        }
        at += 1;
    }
    (END, at)
}

/// Behind the string whose text begins at `at`.
#[inline]
pub(super) fn string(json: &[u8], at: usize) -> Result<usize, NotJson> {
    let text = json.get(at..).ok_or(NotJson)?;
    match first_special(text) {
        (end, b'"') => Ok(at + end + 1),
        (end, _) => escaped_end(text, end).map(|(end, _)| at + end + 1),
    }
}

/// Behind the number or word that starts with the byte `first`, which is at `at`.
pub(super) fn bare(json: &[u8], at: usize, first: u8) -> Result<usize, NotJson> {
    let rest = json.get(at..).unwrap_or_default();
    let word: &[u8] = match first {
        b'-' | b'0'..=b'9' => return number::len(rest).map(|len| at + len).ok_or(NotJson),
        b't' => b"true",
        b'f' => b"false",
        b'n' => b"null",
        _ => return Err(NotJson),
    };
    if rest.starts_with(word) { Ok(at + word.len()) } else { Err(NotJson) }
}

/// Behind the list or object whose opening bracket is at `at`.
pub(super) fn nested(json: &[u8], mut at: usize) -> Result<usize, NotJson> {
    let mut nest = Nest::default();
    let mut first;
    loop {
        (first, at) = peek(json, at);
        if nest.top() == Some(false) {
            // A name, and its colon.
            if first != b'"' {
                return Err(NotJson);
            }
            let (b':', colon) = peek(json, string(json, at + 1)?) else { return Err(NotJson) };
            (first, at) = peek(json, colon + 1);
        }
        // A value.
        match first {
            b'"' => at = string(json, at + 1)?,
            b'{' | b'[' => {
                let is_list = first == b'[';
                let (next, place) = peek(json, at + 1);
                if next != closing(is_list) {
                    nest.push(is_list);
                    at = place;
                    continue;
                }
                at = place + 1;
            }
            b'0'..=b'9' if nest.top() == Some(true) => {
                let (count, taken) = number::row(json.get(at..).unwrap_or_default());
                at += taken;
                if count > 0 {
                    continue;
                }
                at = bare(json, at, first)?;
            }
            _ => at = bare(json, at, first)?,
        }
        // What is complete with it.
        loop {
            let Some(is_list) = nest.top() else { return Ok(at) };
            let (next, place) = peek(json, at);
            at = place + 1;
            if next == b',' {
                break;
            }
            if next != closing(is_list) {
                return Err(NotJson);
            }
            nest.pop();
        }
    }
}

/// What closes a list or an object.
#[inline]
const fn closing(is_list: bool) -> u8 {
    if is_list { b']' } else { b'}' }
}
