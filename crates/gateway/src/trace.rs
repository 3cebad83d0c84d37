//! The names a request goes by across services: `x-request-id` and `traceparent`, passed on or made.

use http::{HeaderMap, HeaderName, HeaderValue, header::Entry};

/// The id that answers, logs and backends know a request by.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The same, where Anthropic's client library looks for it.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
/// W3C Trace Context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Longer ids are replaced: they are copied into answers and logs.
const MAX_ID_BYTES: usize = 128;

/// Leaves exactly one sound `x-request-id` and `traceparent` in a request, and returns the id.
pub(crate) fn name_request(headers: &mut HeaderMap) -> HeaderValue {
    keep_or_make(headers, TRACEPARENT, is_traceparent, made_traceparent);
    keep_or_make(headers, X_REQUEST_ID, is_id, || hex(fastrand::u128(..))).clone()
}

/// Leaves one value under `name`: the one that is there, if it is the only one and sound, or one that is made.
fn keep_or_make(
    headers: &mut HeaderMap,
    name: HeaderName,
    is_sound: fn(&HeaderValue) -> bool,
    make: impl FnOnce() -> HeaderValue,
) -> &HeaderValue {
    match headers.entry(name) {
        Entry::Occupied(mut there) => {
            let several = there.iter().nth(1).is_some();
            if several || !is_sound(there.get()) {
                there.insert(make());
            }
            there.into_mut()
        }
        Entry::Vacant(vacant) => vacant.insert(make()),
    }
}

/// Puts the id on an answer under both names.
pub(crate) fn name_answer(headers: &mut HeaderMap, id: HeaderValue) {
    headers.insert(REQUEST_ID, id.clone());
    headers.insert(X_REQUEST_ID, id);
}

fn is_id(id: &HeaderValue) -> bool {
    let bytes = id.as_bytes();
    (1..=MAX_ID_BYTES).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
}

/// `version-trace-parent-flags` in lower-case hexadecimal digits, neither id all zero.
fn is_traceparent(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    let shape = |(at, byte): (usize, &u8)| match at {
        2 | 35 | 52 => *byte == b'-',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    };
    bytes.len() == 55
        && bytes.iter().enumerate().all(shape)
        && bytes.get(..2) != Some(b"ff")
        && bytes.get(3..35).is_some_and(|id| id.iter().any(|digit| *digit != b'0'))
        && bytes.get(36..52).is_some_and(|id| id.iter().any(|digit| *digit != b'0'))
}

/// A new trace, not sampled: whether to record is for a caller to say.
fn made_traceparent() -> HeaderValue {
    let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
    // All zero is no id.
    write_hex(&mut text[3..35], fastrand::u128(1..));
    write_hex(&mut text[36..52], u128::from(fastrand::u64(1..)));
    HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static(""))
}

fn hex(number: u128) -> HeaderValue {
    let mut text = [0; 32];
    write_hex(&mut text, number);
    HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static(""))
}

/// Writes the last digits of a number, as many as there is room for: a multiple of eight.
fn write_hex(text: &mut [u8], mut number: u128) {
    for digits in text.rchunks_exact_mut(8) {
        digits.copy_from_slice(&hex_digits((number & 0xffff_ffff) as u32));
        number >>= 32;
    }
}

/// The eight digits of a word, made at once: each half byte moves to a byte of its own, and those above nine skip the
/// characters between `9` and `a`.
fn hex_digits(word: u32) -> [u8; 8] {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    let mut spread = u64::from(word);
    spread = (spread | spread << 16) & 0x0000_ffff_0000_ffff;
    spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
    spread = (spread | spread << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let letters = (spread + EACH * 6) >> 4 & EACH;
    (spread + EACH * u64::from(b'0') + letters * u64::from(b'a' - b'9' - 1)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sound_id_is_kept_and_any_other_replaced() {
        let named = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(X_REQUEST_ID, HeaderValue::from_static(value));
            }
            let id = name_request(&mut headers);
            assert_eq!(headers.get_all(&X_REQUEST_ID).iter().count(), 1);
            assert_eq!(headers[&X_REQUEST_ID], id);
            id
        };
        assert_eq!(named(&["abc-1"]), "abc-1");
        assert_eq!(named(&[]).len(), 32);
        assert_eq!(named(&["a b"]).len(), 32);
        assert_eq!(named(&["one", "two"]).len(), 32);
        assert_ne!(named(&[]), named(&[]));
    }

    #[test]
    fn digits_are_those_of_the_number() {
        let mut number = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210;
        for _ in 0..64 {
            assert_eq!(hex(number), format!("{number:032x}"));
            number = number.rotate_left(7) ^ 0x5a;
        }
        let mut short = *b"<--------________>";
        write_hex(&mut short[1..17], number);
        assert_eq!(short, *format!("<{:016x}>", number & u128::from(u64::MAX)).as_bytes());
    }

    #[test]
    fn a_trace_is_passed_on_or_begun() {
        let sound = HeaderValue::from_static("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let mut headers = HeaderMap::new();
        headers.insert(TRACEPARENT, sound.clone());
        name_request(&mut headers);
        assert_eq!(headers[&TRACEPARENT], sound);
        for unsound in ["", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", "garbage"] {
            headers.insert(TRACEPARENT, HeaderValue::from_static(unsound));
            name_request(&mut headers);
            assert!(is_traceparent(&headers[&TRACEPARENT]) && headers[&TRACEPARENT] != unsound);
        }
    }
}
