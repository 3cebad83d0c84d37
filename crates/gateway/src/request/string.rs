//! What the strings of a JSON text say, without making them.

use std::borrow::Cow;

use super::{
    escape::{Escape, named},
    scan::NotJson,
};

const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = 0x80 * ONES;
const BACKSLASHES: u64 = b'\\' as u64 * ONES;

/// Between the quotes of a string, as it stands in the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quoted<'a> {
    /// With its escapes.
    pub(super) raw: &'a [u8],
    /// Bytes without them. Half a pair of surrogates is taken for U+FFFD.
    pub(super) len: usize,
}

/// A stretch of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit<'a> {
    /// As it stands.
    Run(&'a [u8]),
    /// An escape.
    Char(char),
}

impl<'a> Quoted<'a> {
    /// The string at the start of `text`, behind its opening quote, and how much of `text` it takes with its closing one.
    #[inline]
    pub(super) fn read(text: &'a [u8]) -> Result<(Self, usize), NotJson> {
        let (end, saved) = match first_special(text) {
            (end, b'"') => (end, 0),
            (end, _) => escaped_end(text, end)?,
        };
        let raw = text.get(..end).unwrap_or_default();
        Ok((Self { raw, len: end - saved }, end + 1))
    }

    /// The string whose text begins `at` a place, and the place behind its closing quote.
    #[inline]
    pub(super) fn at(json: &'a [u8], at: usize) -> Result<(Self, usize), NotJson> {
        let (quoted, taken) = Self::read(json.get(at..).ok_or(NotJson)?)?;
        Ok((quoted, at + taken))
    }

    pub(super) const fn has_escapes(&self) -> bool {
        self.raw.len() != self.len
    }

    /// The string in stretches.
    pub(super) fn units(&self) -> impl Iterator<Item = Unit<'a>> {
        let mut rest = self.raw;
        std::iter::from_fn(move || {
            let (unit, len) = match memchr::memchr(b'\\', rest) {
                None if rest.is_empty() => return None,
                None => (Unit::Run(rest), rest.len()),
                Some(0) => {
                    let escape = Escape::read(rest).ok()?;
                    (Unit::Char(escape.char()), escape.len)
                }
                Some(end) => (Unit::Run(rest.get(..end)?), end),
            };
            rest = rest.get(len..).unwrap_or_default();
            Some(unit)
        })
    }

    /// The string itself.
    pub(super) fn text(&self) -> Cow<'a, [u8]> {
        if !self.has_escapes() {
            return Cow::Borrowed(self.raw);
        }
        let mut text = Vec::with_capacity(self.len);
        for unit in self.units() {
            match unit {
                Unit::Run(run) => text.extend_from_slice(run),
                Unit::Char(char) => text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        Cow::Owned(text)
    }

    /// Whether the string is `name`, escapes or not.
    #[inline]
    pub(super) fn is(&self, name: &str) -> bool {
        self.len == name.len() && *self.text() == *name.as_bytes()
    }
}

/// The first quote, backslash or control character in `text`, and how many bytes stand for themselves before it. At the
/// end it is a control character.
#[inline]
pub(super) fn first_special(text: &[u8]) -> (usize, u8) {
    let mut rest = text;
    while let Some((word, behind)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        // The lowest of these is right; those above it may not be, and do not matter.
        let control_or_quote = (word ^ (0x02 * ONES)).wrapping_sub(0x21 * ONES);
        let backslash = (word ^ BACKSLASHES).wrapping_sub(ONES);
        let special = (control_or_quote | backslash) & !word & TOPS;
        if special != 0 {
            let bits = special.trailing_zeros() & !7;
            return (text.len() - rest.len() + bits as usize / 8, byte_at(word, bits));
        }
        rest = behind;
    }
    last_special(text, text.len() - rest.len())
}

/// The same from `at` on, where there are too few bytes for a word.
#[cold]
#[inline(never)]
fn last_special(text: &[u8], mut at: usize) -> (usize, u8) {
    while let Some(&byte) = text.get(at) {
        if matches!(byte, b'"' | b'\\' | 0..0x20) {
            return (at, byte);
        }
        at += 1;
    }
    (at, 0)
}

/// All of them in a word, each by the top bit of its byte.
#[inline]
const fn specials(word: u64) -> u64 {
    let neither_control_nor_quote = ((word ^ (0x02 * ONES)) & !TOPS) + 0x5f * ONES;
    let no_backslash = ((word ^ BACKSLASHES) & !TOPS) + 0x7f * ONES;
    !((neither_control_nor_quote & no_backslash) | word) & TOPS
}

/// The byte that begins at a bit.
#[inline]
const fn byte_at(word: u64, bit: u32) -> u8 {
    (word >> bit).to_le_bytes()[0]
}

/// Where the string ends that `text` is with what follows it, and how many bytes less it has without its escapes. Before
/// `at` there is none.
///
/// Words are read at places that do not depend on what is found in them, so that one need not wait for the other.
#[inline(never)]
pub(super) fn escaped_end(text: &[u8], mut at: usize) -> Result<(usize, usize), NotJson> {
    let mut saved = 0;
    'words: while let Some(word) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*word);
        let mut specials = specials(word);
        while specials != 0 {
            let bit = specials.trailing_zeros() & !7;
            let place = at + bit as usize / 8;
            match byte_at(word, bit) {
                b'"' => return Ok((place, saved)),
                b'\\' => {}
                _ => return Err(NotJson),
            }
            let rest = text.get(place..).unwrap_or_default();
            if named(rest).is_none() {
                let more;
                (at, more) = numbers(text, place)?;
                saved += more;
                continue 'words;
            }
            saved += 1;
            if bit == 56 {
                at += 9;
                continue 'words;
            }
            specials &= !(0x8080 << bit);
        }
        at += 8;
    }
    let (end, more) = last_escapes(text, at)?;
    Ok((end, saved + more))
}

/// The same, byte by byte where there are too few for a word.
#[cold]
#[inline(never)]
fn last_escapes(text: &[u8], mut at: usize) -> Result<(usize, usize), NotJson> {
    let mut saved = 0;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        match last_special(rest, 0) {
            (0, b'"') => return Ok((at, saved)),
            (0, b'\\') => {
                let escape = Escape::read(rest)?;
                at += escape.len;
                saved += escape.len - escape.char_len();
            }
            (0, _) => return Err(NotJson),
            (plain, _) => at += plain,
        }
    }
}

/// Behind the escapes with numbers that follow one another from `at` on, of which there is one at least, and how many bytes
/// less they have as characters: they come in crowds where a whole alphabet is escaped.
#[inline]
fn numbers(text: &[u8], mut at: usize) -> Result<(usize, usize), NotJson> {
    let mut saved = 0;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let escape = Escape::numbered(rest)?;
        at += escape.len;
        saved += escape.len - escape.char_len();
        if !text.get(at..).is_some_and(|rest| rest.starts_with(b"\\u")) {
            return Ok((at, saved));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(json: &str) -> (Quoted<'_>, usize) {
        Quoted::read(json.strip_prefix('"').unwrap().as_bytes()).unwrap()
    }

    fn text<'a>(quoted: &Quoted<'a>) -> Cow<'a, str> {
        match quoted.text() {
            Cow::Borrowed(text) => Cow::Borrowed(std::str::from_utf8(text).unwrap()),
            Cow::Owned(text) => Cow::Owned(String::from_utf8(text).unwrap()),
        }
    }

    #[test]
    fn escapes_count_by_what_they_stand_for() {
        for (json, expected) in [
            (r#""""#, ""),
            (r#""plain""#, "plain"),
            (r#""\u00e9""#, "é"),
            (r#""\u00E9 \u20ac""#, "é €"),
            (r#""\ud83d\ude00!""#, "😀!"),
            (r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r#""\\""#, "\\"),
            (r#""\\\"""#, "\\\""),
            ("\"a\\u0000b\"", "a\0b"),
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\ud83d\u0041""#, "\u{fffd}A"),
            (r#""\ud83d\n""#, "\u{fffd}\n"),
        ] {
            let (quoted, taken) = read(json);
            let found = (&*text(&quoted), quoted.len, taken);
            assert_eq!(found, (expected, expected.len(), json.len() - 1), "{json}");
        }
    }

    #[test]
    fn a_string_ends_at_its_quote() {
        let (quoted, taken) = read(r#""a\"b", "c""#);
        assert_eq!((quoted.raw, quoted.len, taken), (&br#"a\"b"#[..], 3, 5));
        assert!(quoted.is("a\"b") && !quoted.is("a\"") && !quoted.is("a\"bc") && !quoted.is("a\"c"));
        let (quoted, _) = read(r#""typ\u0065""#);
        assert!(quoted.is("type"));
    }

    #[test]
    fn what_is_cut_short_is_no_string() {
        let whole = br#"ab\ud83d\ude00\n\\ and more than eight"#;
        for end in 0..=whole.len() {
            assert_eq!(Quoted::read(&whole[..end]), Err(NotJson), "{end}");
        }
    }

    proptest! {
        #[test]
        fn strings_read_as_they_were_written(string: String, ascii: bool) {
            let mut json = serde_json::to_string(&string).unwrap();
            if ascii {
                json = json.chars().fold(String::new(), |mut escaped, char| {
                    let mut units = [0; 2];
                    if char.is_ascii() {
                        escaped.push(char);
                    } else {
                        char.encode_utf16(&mut units).iter().for_each(|unit| escaped += &format!("\\u{unit:04x}"));
                    }
                    escaped
                });
            }
            let (quoted, taken) = read(&json);
            prop_assert_eq!(taken, json.len() - 1);
            prop_assert_eq!(quoted.len, string.len());
            prop_assert!(quoted.is(&string));
            prop_assert_eq!(text(&quoted), string);
        }
    }
    proptest! {
        #[test]
        fn strings_are_what_others_take_for_them(
            text in "([a-z ]|\u{e9}|\u{20ac}|\\\\[nrtbf/\\\\\"]|\\\\u[0-9a-fA-F]{4}|\\\\u[dD][89abcdef][0-9]{2}){0,40}",
            odd in prop_oneof![6 => Just(""), 1 => Just("\""), 1 => Just("\\"), 1 => Just("\\u12"), 1 => Just("\u{1}"), 1 => Just("\\x")],
            at: prop::sample::Index,
            padding in 0_usize..12,
        ) {
            let mut at = at.index(text.len() + 1);
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            let (before, behind) = text.split_at(at);
            let text = format!("{before}{odd}{behind}\"{}", " ".repeat(padding));
            let json = format!("\"{text}");
            let expected = serde_json::Deserializer::from_str(&json).into_iter::<serde::de::IgnoredAny>().next();
            let read = Quoted::read(text.as_bytes());
            prop_assert_eq!(read.is_ok(), expected.is_some_and(|string| string.is_ok()), "{}", json);
            if let Ok((quoted, taken)) = read {
                prop_assert_eq!((quoted.raw.len() + 1, quoted.text().len()), (taken, quoted.len));
            }
        }
    }
}
