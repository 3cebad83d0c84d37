//! What the strings of a JSON text say, without making them.
//!
//! The text has been checked before: here nothing is refused, and what could not be there is read as something harmless.

use std::borrow::Cow;

use memchr::memchr2;

/// Between the quotes of a string, as it stands in the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quoted<'a> {
    /// With its escapes.
    pub(super) raw: &'a str,
    /// Bytes without them.
    pub(super) len: usize,
}

/// A stretch of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit<'a> {
    /// As it stands.
    Run(&'a str),
    /// An escape.
    Char(char),
}

impl<'a> Quoted<'a> {
    /// The string at the start of `text`, behind its opening quote, and how much of `text` it takes with its closing one.
    pub(super) fn read(text: &'a str) -> (Self, usize) {
        let bytes = text.as_bytes();
        let (mut at, mut saved) = (0, 0);
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            // Escapes come in crowds where a whole alphabet is escaped: the next byte is looked at first.
            let found = match rest.first() {
                Some(b'\\' | b'"') => Some(0),
                _ => memchr2(b'"', b'\\', rest),
            };
            let Some(found) = found else {
                return (Self { raw: text, len: bytes.len() - saved }, bytes.len());
            };
            at += found;
            if bytes.get(at) == Some(&b'"') {
                let raw = text.get(..at).unwrap_or_default();
                return (Self { raw, len: at - saved }, at + 1);
            }
            let (char_len, escape_len) = escape_lens(bytes.get(at..).unwrap_or_default());
            at += escape_len;
            saved += escape_len - char_len;
        }
    }

    pub(super) const fn has_escapes(&self) -> bool {
        self.raw.len() != self.len
    }

    /// The string in stretches: what is no text (half of a pair of surrogates) is U+FFFD.
    pub(super) fn units(&self) -> impl Iterator<Item = Unit<'a>> {
        let mut rest = self.raw;
        std::iter::from_fn(move || {
            let end = memchr::memchr(b'\\', rest.as_bytes()).unwrap_or(rest.len());
            let (unit, len) = if rest.is_empty() {
                return None;
            } else if end > 0 {
                (Unit::Run(rest.get(..end).unwrap_or_default()), end)
            } else {
                let (char, len) = escape(rest.as_bytes());
                (Unit::Char(char), len)
            };
            rest = rest.get(len..).unwrap_or_default();
            Some(unit)
        })
    }

    /// The string itself.
    pub(super) fn text(&self) -> Cow<'a, str> {
        if !self.has_escapes() {
            return Cow::Borrowed(self.raw);
        }
        let mut text = String::with_capacity(self.len);
        for unit in self.units() {
            match unit {
                Unit::Run(run) => text.push_str(run),
                Unit::Char(char) => text.push(char),
            }
        }
        Cow::Owned(text)
    }

    /// Whether the string is `name`, escapes or not.
    pub(super) fn is(&self, name: &str) -> bool {
        self.len == name.len() && self.text() == name
    }
}

/// Bytes of what an escape stands for, and of the escape. Half a pair of surrogates is taken for U+FFFD.
fn escape_lens(text: &[u8]) -> (usize, usize) {
    match text.get(1) {
        Some(b'u') => match code_unit(text) {
            ..0x80 => (1, 6),
            0x80..0x800 => (2, 6),
            0xd800..0xdc00 if is_low(text.get(6..)) => (4, 12),
            _ => (3.min(text.len()), 6.min(text.len())),
        },
        Some(_) => (1, 2),
        None => (1, 1),
    }
}

/// What an escape stands for, and its bytes.
fn escape(text: &[u8]) -> (char, usize) {
    let (_, len) = escape_lens(text);
    let char = match text.get(1) {
        Some(b'u') => {
            let unit = code_unit(text);
            let code = if len == 12 {
                0x1_0000 + ((unit - 0xd800) << 10) + (code_unit(text.get(6..).unwrap_or_default()) - 0xdc00)
            } else {
                unit
            };
            char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(other) => char::from(*other),
        None => '\\',
    };
    (char, len)
}

/// Whether `text` starts with the escape of the second half of a pair.
fn is_low(text: Option<&[u8]>) -> bool {
    text.is_some_and(|text| text.starts_with(b"\\u") && (0xdc00..0xe000).contains(&code_unit(text)))
}

/// The number in `\uXXXX`.
fn code_unit(text: &[u8]) -> u32 {
    const HEX: [u8; 256] = hex_digits();
    let Some([a, b, c, d]) = text.get(2..6) else { return 0xfffd };
    let digit = |byte: u8| u32::from(HEX[usize::from(byte)]);
    digit(*a) << 12 | digit(*b) << 8 | digit(*c) << 4 | digit(*d)
}

const fn hex_digits() -> [u8; 256] {
    let mut digits = [0; 256];
    let mut value: u8 = 0;
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
        Quoted::read(json.strip_prefix('"').unwrap())
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
            (r#""\ud83dA""#, "\u{fffd}A"),
        ] {
            let (quoted, taken) = read(json);
            assert_eq!(
                (&*quoted.text(), quoted.len, taken),
                (expected, expected.len(), json.len() - 1),
                "{json}"
            );
        }
    }

    #[test]
    fn a_string_ends_at_its_quote() {
        let (quoted, taken) = read(r#""a\"b", "c""#);
        assert_eq!((quoted.raw, quoted.len, taken), (r#"a\"b"#, 3, 5));
        assert!(quoted.is("a\"b") && !quoted.is("a\"") && !quoted.is("a\"bc"));
        let (quoted, _) = read(r#""typ\u0065""#);
        assert!(quoted.is("type"));
    }

    #[test]
    fn what_is_cut_short_is_read_without_a_panic() {
        let whole = r#"ab\ud83d\ude00\n\\"#;
        for end in 0..=whole.len() {
            let (quoted, taken) = Quoted::read(&whole[..end]);
            assert_eq!(taken, end);
            assert!(quoted.len <= end && quoted.text().len() <= end + 3, "{quoted:?}");
        }
    }

    proptest! {
        #[test]
        fn strings_read_as_they_were_written(string: String, ascii: bool) {
            let mut json = serde_json::to_string(&string).unwrap();
            if ascii {
                let mut units = [0; 2];
                json = json.chars().fold(String::new(), |mut escaped, char| {
                    if char.is_ascii() { escaped.push(char) } else {
                        for unit in char.encode_utf16(&mut units) { escaped += &format!("\\u{unit:04x}"); }
                    }
                    escaped
                });
            }
            let (quoted, taken) = read(&json);
            prop_assert_eq!(taken, json.len() - 1);
            prop_assert_eq!(quoted.len, string.len());
            prop_assert!(quoted.is(&string));
            prop_assert_eq!(quoted.text(), string);
        }
    }
}
