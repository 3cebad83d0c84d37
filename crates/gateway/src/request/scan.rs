//! Reading JSON where it stands, without building it: a body is read at the speed of its bytes, however many strings,
//! escapes and numbers it is made of.
//!
//! Exactly what JSON is passes, to any depth and without recursion. What strings are made of beyond their escapes is left
//! alone: whether it is UTF-8 is seen to where a string is used.

use super::{number, skip, string::Quoted};

/// What is read is no JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotJson;

/// A place in a JSON text. After an error it is of no use.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    pub(super) const fn new(json: &'a [u8]) -> Self {
        Self { json, at: 0 }
    }

    /// The next byte that is no white space, which is not taken; zero at the end.
    #[inline]
    pub(super) fn peek(&mut self) -> u8 {
        let found;
        (found, self.at) = skip::peek(self.json, self.at);
        found
    }

    /// Takes the opening bracket that was seen; whether anything stands before the one that closes it, which is taken
    /// otherwise.
    #[inline]
    pub(super) fn open(&mut self, close: u8) -> bool {
        self.at += 1;
        let is_empty = self.peek() == close;
        self.at += usize::from(is_empty);
        !is_empty
    }

    /// Takes what follows an element or member: whether another one does.
    #[inline]
    pub(super) fn more(&mut self, close: u8) -> Result<bool, NotJson> {
        let found = self.peek();
        self.at += 1;
        match found {
            b',' => Ok(true),
            found if found == close => Ok(false),
            _ => Err(NotJson),
        }
    }

    /// Takes the name of a member, and its colon.
    #[inline]
    pub(super) fn name(&mut self) -> Result<Quoted<'a>, NotJson> {
        let (b'"', at) = skip::peek(self.json, self.at) else { return Err(NotJson) };
        let (name, end) = Quoted::at(self.json, at + 1)?;
        let (b':', at) = skip::peek(self.json, end) else { return Err(NotJson) };
        self.at = at + 1;
        Ok(name)
    }

    /// Takes the string whose opening quote was seen.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Quoted<'a>, NotJson> {
        let quoted;
        (quoted, self.at) = Quoted::at(self.json, self.at + 1)?;
        Ok(quoted)
    }

    /// Takes any value, and returns it as it stands.
    #[inline]
    pub(super) fn skip(&mut self) -> Result<&'a [u8], NotJson> {
        self.taking(|scan| {
            let first = scan.peek();
            if matches!(first, b'[' | b'{') {
                scan.at = skip::nested(scan.json, scan.at)?;
                Ok(())
            } else {
                scan.simple(first)
            }
        })
    }

    /// What `take` takes, as it stands.
    #[inline]
    pub(super) fn taking(
        &mut self,
        take: impl FnOnce(&mut Self) -> Result<(), NotJson>,
    ) -> Result<&'a [u8], NotJson> {
        self.peek();
        let start = self.at;
        take(self)?;
        Ok(self.json.get(start..self.at).unwrap_or_default())
    }

    /// Takes a whole number that needs no closer look, and the comma behind it.
    #[inline]
    pub(super) fn small_number(&mut self) -> bool {
        let taken = number::small(self.rest());
        self.at += taken;
        taken > 0
    }

    /// Takes whole numbers with a comma behind each, as many as need no closer look, and tells how many: the ids of tokens
    /// come by the thousand.
    #[inline]
    pub(super) fn small_numbers(&mut self) -> usize {
        if !self.small_number() {
            return 0;
        }
        let (count, taken) = number::row(self.rest());
        self.at += taken;
        1 + count
    }

    /// Whether there is nothing more.
    pub(super) fn is_at_end(&mut self) -> bool {
        self.peek();
        self.at >= self.json.len()
    }

    /// Takes what has no parts, and starts with `first`, which was seen.
    #[inline]
    pub(super) fn simple(&mut self, first: u8) -> Result<(), NotJson> {
        self.at = if first == b'"' {
            skip::string(self.json, self.at + 1)?
        } else {
            skip::bare(self.json, self.at, first)?
        };
        Ok(())
    }

    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.json.get(self.at..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use serde::de::IgnoredAny;

    use super::*;

    fn is_json(text: &[u8]) -> bool {
        let mut scan = Scan::new(text);
        scan.skip().is_ok() && scan.is_at_end()
    }

    #[track_caller]
    fn check(text: &str) {
        let expected = serde_json::from_str::<IgnoredAny>(text).is_ok();
        assert_eq!(is_json(text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn json_is_what_others_take_for_it() {
        for text in [
            "",
            " ",
            "{}",
            "[]",
            " [ ] ",
            "{ }",
            "[,]",
            "[1,]",
            "[1 2]",
            "{,}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{1:1}",
            "[}",
            "{]",
            "[[]",
            "[]]",
            "{\"a\":[}",
            "{\"a\":{\"b\":[1,{\"c\":null}]}}",
            "[{}",
            "nul",
            "null",
            "nulll",
            "true",
            "false",
            "[true,false,null]",
            "tru",
            "NaN",
            "\"",
            "\"a",
            "\"a\"",
            "\"a\" \"b\"",
            "\"\\\"",
            "\"\\\"\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "\"\\u1234\"",
            "\"\\ud800\"",
            "\"\\ud800\\u12\"",
            "\"\\ud800\\udc0\"",
            "\"\\ud800\\n\"",
            "\"\t\"",
            "\"\u{7f}\"",
            "\"\u{0}\"",
            "\"\u{1f}aaaaaaaa\"",
            "\"aaaaaaaaaaa\u{1f}\"",
            "\"\\",
            "\"\\u",
            "-",
            "-0",
            "0",
            "00",
            "01",
            "-01",
            "10",
            "1.",
            "1.0",
            ".5",
            "1e",
            "1e5",
            "1e+5",
            "1E-05",
            "1e+",
            "1.5e3.",
            "1.e5",
            "+1",
            "--1",
            "1e99999",
            "123456789012345678901234567890",
            "[1,22,333,4444,55555,666666,7777777,88888888,999999999]",
            "[0,00,1]",
            "[0, 0 ,0]",
            "[1.5,2]",
            "[12345678,1]",
            "[1;2]",
            "\u{feff}{}",
            "{\"a\":1}{",
            "[1:2]",
            "{\"a\",1}",
        ] {
            check(text);
        }
    }

    #[test]
    fn depth_is_no_matter() {
        for deep in ["[".repeat(10_000) + &"]".repeat(10_000), "{\"a\":[".repeat(5_000) + &"]}".repeat(5_000)]
        {
            assert!(is_json(deep.as_bytes()));
            assert!(!is_json(&deep.as_bytes()[..deep.len() - 1]));
            assert!(!is_json((deep.clone() + "]").as_bytes()));
        }
        let crossed = "[".repeat(100) + "{\"a\":1]" + &"]".repeat(99) + "}";
        assert!(!is_json(crossed.as_bytes()));
    }

    #[test]
    fn small_numbers_are_those_that_need_no_look() {
        for (text, taken) in [
            ("1,      ", Some(2)),
            ("1234567,", Some(8)),
            ("0,1,2,3,", Some(2)),
            ("12345678,", None),
            ("01,     ", None),
            ("1 ,     ", None),
            ("1]      ", None),
            (",       ", None),
            ("-1,     ", None),
            ("1.5,    ", None),
            ("1e5,    ", None),
            ("/,      ", None),
            (":,      ", None),
            ("?,      ", None),
            ("1\u{b1},     ", None),
            ("1,2", None),
        ] {
            let mut scan = Scan::new(text.as_bytes());
            assert_eq!(scan.small_number().then_some(scan.at), taken, "{text}");
        }
        for byte in 0..=u8::MAX {
            let mut scan = Scan { json: &[byte, b',', b'1', b'1', b'1', b'1', b'1', b'1'], at: 0 };
            assert_eq!(scan.small_number(), byte.is_ascii_digit(), "{byte}");
        }
    }

    proptest! {
        #[test]
        fn any_pieces_are_json_or_not(
            pieces in vec(prop_oneof![
                Just("{"), Just("}"), Just("["), Just("]"), Just(","), Just(":"), Just("\""), Just("\"a\""), Just("\"a\":"),
                Just("\\"), Just("\\u"), Just("00e9"), Just("0"), Just("12"), Just("-"), Just("."), Just("e"), Just("+"),
                Just("null"), Just("true"), Just(" "), Just("\n"), Just("\u{e9}"), Just("\u{1}"), Just("[1,"), Just("{}"),
            ], 0..12),
        ) {
            let text = pieces.concat();
            prop_assert_eq!(is_json(text.as_bytes()), serde_json::from_str::<IgnoredAny>(&text).is_ok(), "{}", text);
        }

        #[test]
        fn a_byte_more_or_less_is_noticed_as_others_do(
            document in "(\\[|\\{\"a\":)(\"[a-z\\\\\\\\nu\u{e9}]{0,20}\"|-?[0-9]{1,9}(\\.[0-9]{1,3})?(e[0-9])?|null|\\{\\}|\\[\\]|,){1,6}(\\]|\\})",
            at: prop::sample::Index, byte: u8, what in 0..3,
        ) {
            let mut bytes = document.into_bytes();
            let at = at.index(bytes.len());
            match what {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
            prop_assert_eq!(is_json(&bytes), serde_json::from_slice::<IgnoredAny>(&bytes).is_ok(), "{:?}", String::from_utf8_lossy(&bytes));
        }
    }
}
