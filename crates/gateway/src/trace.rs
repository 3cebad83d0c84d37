//! The names a request goes by across services: `x-request-id` and `traceparent`, passed on or made.

use http::{HeaderMap, HeaderName, HeaderValue};

/// The id that answers, logs and backends know a request by.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The same, where Anthropic's client library looks for it.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
/// W3C Trace Context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Longer ids are replaced: they are copied into logs and answers.
const MAX_ID_BYTES: usize = 128;

/// Leaves exactly one sound `x-request-id` and `traceparent` in a request, and returns the id.
pub(crate) fn name_request(headers: &mut HeaderMap) -> HeaderValue {
    if !single(headers, &TRACEPARENT).is_some_and(is_traceparent) {
        headers.insert(TRACEPARENT, made_traceparent());
    }
    if let Some(id) = single(headers, &X_REQUEST_ID).filter(|id| is_id(id)) {
        return id.clone();
    }
    let id = hex(fastrand::u128(..));
    headers.insert(X_REQUEST_ID, id.clone());
    id
}

/// Puts the id on an answer under both names.
pub(crate) fn name_answer(headers: &mut HeaderMap, id: HeaderValue) {
    headers.insert(REQUEST_ID, id.clone());
    headers.insert(X_REQUEST_ID, id);
}

fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
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

fn write_hex(text: &mut [u8], mut number: u128) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in text.iter_mut().rev() {
        *byte = DIGITS[usize::from((number & 15) as u8)];
        number >>= 4;
    }
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
