//! What the strings of a JSON text say, without making them.

use std::borrow::Cow;

use super::scan::NotJson;

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
        let end = plain(text);
        match text.split_at_checked(end) {
            Some((raw, [b'"', ..])) => Ok((Self { raw, len: end }, end + 1)),
            _ => Self::read_on(text, end),
        }
    }

    /// The same, where something else than the closing quote is first found `at` a place.
    fn read_on(text: &'a [u8], mut at: usize) -> Result<(Self, usize), NotJson> {
        let mut saved = 0;
        loop {
            match text.get(at) {
                Some(b'"') => {
                    let raw = text.get(..at).unwrap_or_default();
                    return Ok((Self { raw, len: at - saved }, at + 1));
                }
                Some(b'\\') => {
                    let escape = Escape::read(text.get(at..).unwrap_or_default())?;
                    at += escape.len;
                    saved += escape.len - escape.char_len();
                    // Escapes come in crowds where a whole alphabet is escaped.
                    if text.get(at) != Some(&b'\\') {
                        at += plain(text.get(at..).unwrap_or_default());
                    }
                }
                // The end, or a control character.
                _ => return Err(NotJson),
            }
        }
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

/// Bytes that stand for themselves at the start of `text`: all before a quote, a backslash or a control character.
#[inline]
fn plain(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x80 * ONES;
    // The lowest top bit that is set is that of the first byte of `word` that is less than `bound`.
    let below = |word: u64, bound: u64| word.wrapping_sub(bound * ONES) & !word;
    let (words, rest) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let quote = below(word ^ (u64::from(b'"') * ONES), 1);
        let backslash = below(word ^ (u64::from(b'\\') * ONES), 1);
        let special = (below(word, 0x20) | quote | backslash) & TOPS;
        if special != 0 {
            return 8 * index + special.trailing_zeros() as usize / 8;
        }
    }
    let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
    8 * words.len() + end.unwrap_or(rest.len())
}

/// One escape.
#[derive(Clone, Copy, Debug)]
struct Escape {
    /// What it stands for, if that is a character.
    code: u32,
    /// Bytes it takes.
    len: usize,
}

impl Escape {
    /// The one at the start of `text`.
    #[inline]
    fn read(text: &[u8]) -> Result<Self, NotJson> {
        let code = match text.get(1).ok_or(NotJson)? {
            b'u' => return Self::numbered(text),
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 0xc,
            same @ (b'"' | b'\\' | b'/') => *same,
            _ => return Err(NotJson),
        };
        Ok(Self { code: code.into(), len: 2 })
    }

    /// `\uXXXX`, or two of them that are one character.
    #[inline]
    fn numbered(text: &[u8]) -> Result<Self, NotJson> {
        let code = code_unit(text)?;
        if (0xd800..0xdc00).contains(&code)
            && let Some(second) = text.get(6..).filter(|second| second.starts_with(b"\\u"))
        {
            let low = code_unit(second)?;
            if (0xdc00..0xe000).contains(&low) {
                return Ok(Self { code: 0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00), len: 12 });
            }
        }
        Ok(Self { code, len: 6 })
    }

    const fn char(self) -> char {
        match char::from_u32(self.code) {
            Some(char) => char,
            None => char::REPLACEMENT_CHARACTER,
        }
    }

    #[inline]
    const fn char_len(self) -> usize {
        match self.code {
            ..0x80 => 1,
            0x80..0x800 => 2,
            // U+FFFD, that half a pair is taken for, has three as well.
            0x800..0x1_0000 => 3,
            _ => 4,
        }
    }
}

/// The number in `\uXXXX`.
#[inline]
fn code_unit(text: &[u8]) -> Result<u32, NotJson> {
    const HEX: [u32; 256] = hex_digits();
    let Some([a, b, c, d]) = text.get(2..6) else { return Err(NotJson) };
    let digit = |byte: u8| HEX[usize::from(byte)];
    let code = digit(*a) << 12 | digit(*b) << 8 | digit(*c) << 4 | digit(*d);
    if code > 0xffff { Err(NotJson) } else { Ok(code) }
}

/// What each byte is as a digit; a number too large for four of them where it is none.
const fn hex_digits() -> [u32; 256] {
    let mut digits = [0x1_0000; 256];
    let mut value = 0;
    while value < 16 {
        let byte = b"0123456789abcdef"[value as usize];
        digits[byte as usize] = value;
        digits[byte.to_ascii_uppercase() as usize] = value;
        value += 1;
    }
    digits
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
}
