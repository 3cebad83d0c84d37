//! The escapes within the strings of a JSON text.

use super::scan::NotJson;

/// One escape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Escape {
    /// What it stands for, if that is a character.
    code: u32,
    /// Bytes it takes.
    pub(super) len: usize,
}

/// What the escape at the start of `text` stands for, if it is one of two bytes.
#[inline]
pub(super) fn named(text: &[u8]) -> Option<u8> {
    const CODES: [u8; 256] = named_escapes();
    let code = CODES[usize::from(*text.get(1)?)];
    (code != 0).then_some(code)
}

/// What each byte stands for behind a backslash; zero for nothing, and for what a number follows.
const fn named_escapes() -> [u8; 256] {
    let mut codes = [0; 256];
    let mut index = 0;
    while index < 8 {
        codes[b"\"\\/bfnrt"[index] as usize] = b"\"\\/\x08\x0c\n\r\t"[index];
        index += 1;
    }
    codes
}

impl Escape {
    /// The one at the start of `text`.
    #[inline]
    pub(super) fn read(text: &[u8]) -> Result<Self, NotJson> {
        match named(text) {
            Some(code) => Ok(Self { code: code.into(), len: 2 }),
            None => Self::numbered(text),
        }
    }

    /// `\uXXXX`, or two of them that are one character.
    #[inline]
    pub(super) fn numbered(text: &[u8]) -> Result<Self, NotJson> {
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

    pub(super) const fn char(self) -> char {
        match char::from_u32(self.code) {
            Some(char) => char,
            None => char::REPLACEMENT_CHARACTER,
        }
    }

    #[inline]
    pub(super) const fn char_len(self) -> usize {
        match self.code {
            ..0x80 => 1,
            0x80..0x800 => 2,
            // U+FFFD, that half a pair is taken for, has three as well.
            0x800..0x1_0000 => 3,
            _ => 4,
        }
    }
}

/// The number in `\uXXXX`, if that is what `text` starts with.
#[inline]
fn code_unit(text: &[u8]) -> Result<u32, NotJson> {
    const HEX: [u32; 256] = hex_digits();
    let Some([b'\\', b'u', a, b, c, d]) = text.first_chunk() else { return Err(NotJson) };
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
