//! Which headers cross the proxy, and under which name.
//!
//! Towards a backend: hop-by-hop headers, the caller's `Authorization` and `x-api-key`, `Host`, `Content-Length` and
//! `Expect` are dropped; `Host` and the credential are the backend's; the peer is added to `x-forwarded-for`, and
//! the caller's `Host` becomes `x-forwarded-host` if there is none. All else, cookies too, passes unchanged.
//!
//! Towards the caller: hop-by-hop headers are dropped, and so is `Alt-Svc`, which would send the caller past the
//! gateway. What speaks about the backend's limits rather than the gateway's, and the backend's request id, is
//! renamed to `x-backend-` and the name without a leading `x-`:
//!
//! | from the backend | to the caller |
//! |---|---|
//! | `x-ratelimit-*` | `x-backend-ratelimit-*` |
//! | `ratelimit`, `ratelimit-*` | `x-backend-ratelimit`, `x-backend-ratelimit-*` |
//! | `anthropic-ratelimit-*` | `x-backend-anthropic-ratelimit-*` |
//! | `x-request-id`, `request-id` | `x-backend-request-id` |
//! | `x-fair-queue-*`, `x-deferred-admission-*` (a further Fairlane) | `x-backend-fair-queue-*`, … |
//!
//! `Retry-After`, `retry-after-ms` and `x-should-retry` pass as they are: they tell the caller when it is worth
//! trying again, whoever refused.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use http::header::{CONNECTION, Entry, HOST};
use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

pub(super) const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What is renamed on its way to the caller, by the beginning of its name.
const RENAMED: [&str; 7] = [
    "x-ratelimit",
    "ratelimit",
    "anthropic-ratelimit",
    "x-request-id",
    "request-id",
    "x-fair-queue",
    "x-deferred-admission",
];

/// Names to be taken out of a map, or renamed in it.
///
/// They are found in one pass over what is there: looking each possible name up would hash two dozen of them per
/// message, nearly all in vain.
type Names = SmallVec<[HeaderName; 8]>;

/// Whether a header concerns one connection only (RFC 9110, section 7.6.1).
fn is_hop_by_hop(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// Whether a header is the gateway's own affair, or made anew for each backend.
fn is_for_gateway(name: &str) -> bool {
    matches!(name, "authorization" | "x-api-key" | "content-length" | "expect")
}

/// Drops those that `doomed` names, and with `Connection` those that it names.
fn drop_headers(headers: &mut HeaderMap, doomed: impl Fn(&str) -> bool) {
    let mut names: Names = headers.keys().filter(|name| doomed(name.as_str())).cloned().collect();
    if names.contains(&CONNECTION) {
        for value in headers.get_all(CONNECTION) {
            let tokens = value.as_bytes().split(|byte| *byte == b',');
            names.extend(tokens.filter_map(|token| HeaderName::from_bytes(token.trim_ascii()).ok()));
        }
    }
    for name in &names {
        headers.remove(name);
    }
}

/// Turns a caller's headers into those that any backend may see. Host and credential are added per backend.
pub(super) fn to_backend(headers: &mut HeaderMap, peer: Option<IpAddr>, request_id: Option<HeaderValue>) {
    drop_headers(headers, |name| is_hop_by_hop(name) || is_for_gateway(name));
    if let Some(host) = headers.remove(HOST)
        && let Entry::Vacant(vacant) = headers.entry(X_FORWARDED_HOST)
    {
        vacant.insert(host);
    }
    if let Some(id) = request_id {
        headers.insert(X_REQUEST_ID, id);
    }
    if let Some(peer) = peer {
        add_forwarded_for(headers, peer);
    }
}

/// Adds the peer at the right end, in one line: some servers read only one of several.
fn add_forwarded_for(headers: &mut HeaderMap, peer: IpAddr) {
    let mut list = Vec::with_capacity(48);
    for value in headers.get_all(X_FORWARDED_FOR) {
        list.extend_from_slice(value.as_bytes());
        list.extend_from_slice(b", ");
    }
    // A canonical address: a v4 peer of a v6 socket is told as what it is.
    let written = match peer.to_canonical() {
        IpAddr::V4(peer) => {
            write_v4(&mut list, peer);
            true
        }
        IpAddr::V6(peer) => write!(list, "{peer}").is_ok(),
    };
    if written && let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(list)) {
        headers.insert(X_FORWARDED_FOR, value);
    }
}

/// Writes what `Display` would, without its machinery: every request comes by here.
fn write_v4(list: &mut Vec<u8>, peer: Ipv4Addr) {
    for (at, octet) in peer.octets().into_iter().enumerate() {
        if at > 0 {
            list.push(b'.');
        }
        if octet >= 100 {
            list.push(b'0' + octet / 100);
        }
        if octet >= 10 {
            list.push(b'0' + octet / 10 % 10);
        }
        list.push(b'0' + octet % 10);
    }
}

/// Turns a backend's headers into those that the caller sees.
pub(super) fn to_caller(headers: &mut HeaderMap) {
    drop_headers(headers, |name| is_hop_by_hop(name) || name == "alt-svc");
    let renamed: Names = headers.keys().filter(|name| is_renamed(name.as_str())).cloned().collect();
    for name in renamed {
        let Some(to) = backend_name(name.as_str()) else { continue };
        let Entry::Occupied(entry) = headers.entry(name) else { continue };
        let values: SmallVec<[HeaderValue; 1]> = entry.remove_entry_mult().1.collect();
        for value in values {
            match headers.entry(&to) {
                Entry::Vacant(vacant) => {
                    vacant.insert(value);
                }
                // `x-request-id` and `request-id` often say the same.
                Entry::Occupied(there) if there.iter().any(|there| *there == value) => {}
                Entry::Occupied(mut there) => there.append(value),
            }
        }
    }
}

fn is_renamed(name: &str) -> bool {
    // Few names begin like one of these.
    matches!(name.as_bytes().first(), Some(b'x' | b'r' | b'a'))
        && RENAMED.iter().any(|start| {
            name.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        })
}

/// The names of which every answer of a common API has some, so that they need not be put together.
static COMMON: [(&str, HeaderName); 8] = [
    ("x-request-id", HeaderName::from_static("x-backend-request-id")),
    ("request-id", HeaderName::from_static("x-backend-request-id")),
    ("x-ratelimit-limit-requests", HeaderName::from_static("x-backend-ratelimit-limit-requests")),
    ("x-ratelimit-limit-tokens", HeaderName::from_static("x-backend-ratelimit-limit-tokens")),
    ("x-ratelimit-remaining-requests", HeaderName::from_static("x-backend-ratelimit-remaining-requests")),
    ("x-ratelimit-remaining-tokens", HeaderName::from_static("x-backend-ratelimit-remaining-tokens")),
    ("x-ratelimit-reset-requests", HeaderName::from_static("x-backend-ratelimit-reset-requests")),
    ("x-ratelimit-reset-tokens", HeaderName::from_static("x-backend-ratelimit-reset-tokens")),
];

/// The name under which the caller sees a renamed header.
fn backend_name(name: &str) -> Option<HeaderName> {
    if let Some((_, to)) = COMMON.iter().find(|(from, _)| *from == name) {
        return Some(to.clone());
    }
    let mut to: SmallVec<[u8; 64]> = SmallVec::from_slice(b"x-backend-");
    to.extend_from_slice(name.strip_prefix("x-").unwrap_or(name).as_bytes());
    HeaderName::from_bytes(&to).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn lines(headers: &HeaderMap) -> Vec<(String, String)> {
        let mut lines: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        lines.sort();
        lines
    }

    fn check_to_backend(from: &[(&'static str, &'static str)], to: &[(&'static str, &'static str)]) {
        let mut headers = map(from);
        to_backend(&mut headers, Some("10.0.0.7".parse().unwrap()), Some(HeaderValue::from_static("id-1")));
        assert_eq!(lines(&headers), lines(&map(to)));
    }

    fn check_to_caller(from: &[(&'static str, &'static str)], to: &[(&'static str, &'static str)]) {
        let mut headers = map(from);
        to_caller(&mut headers);
        assert_eq!(lines(&headers), lines(&map(to)));
    }

    #[test]
    fn a_backend_sees_neither_credential_nor_hop_by_hop() {
        check_to_backend(
            &[
                ("authorization", "Bearer canary"),
                ("x-api-key", "canary"),
                ("connection", "close, X-Secret-Hop , keep-alive"),
                ("x-secret-hop", "1"),
                ("keep-alive", "timeout=5"),
                ("te", "trailers"),
                ("trailer", "x"),
                ("transfer-encoding", "chunked"),
                ("upgrade", "h2c"),
                ("proxy-authorization", "Basic canary"),
                ("proxy-connection", "close"),
                ("content-length", "3"),
                ("expect", "100-continue"),
                ("host", "gateway.example"),
                ("cookie", "a=b"),
                ("accept", "*/*"),
            ],
            &[
                ("accept", "*/*"),
                ("cookie", "a=b"),
                ("x-forwarded-host", "gateway.example"),
                ("x-forwarded-for", "10.0.0.7"),
                ("x-request-id", "id-1"),
            ],
        );
    }

    #[test]
    fn the_peer_is_added_at_the_right_end() {
        check_to_backend(
            &[
                ("x-forwarded-for", "1.1.1.1, 2.2.2.2"),
                ("x-forwarded-for", "3.3.3.3"),
                ("x-forwarded-host", "outer"),
                ("host", "inner"),
                ("x-request-id", "theirs"),
            ],
            &[
                ("x-forwarded-for", "1.1.1.1, 2.2.2.2, 3.3.3.3, 10.0.0.7"),
                ("x-forwarded-host", "outer"),
                ("x-request-id", "id-1"),
            ],
        );
    }

    #[test]
    fn addresses_are_written_as_they_are_displayed() {
        for text in ["0.0.0.0", "1.20.255.100", "99.9.10.109", "2001:db8::1", "::ffff:192.0.2.1"] {
            let peer: IpAddr = text.parse().unwrap();
            let mut headers = HeaderMap::new();
            add_forwarded_for(&mut headers, peer);
            assert_eq!(headers[X_FORWARDED_FOR], peer.to_canonical().to_string());
        }
    }

    #[test]
    fn connection_cannot_drop_what_the_gateway_adds() {
        check_to_backend(
            &[
                ("connection", "x-request-id, x-forwarded-for"),
                ("x-request-id", "a"),
                ("x-forwarded-for", "b"),
            ],
            &[("x-request-id", "id-1"), ("x-forwarded-for", "10.0.0.7")],
        );
    }

    #[test]
    fn limits_and_ids_of_a_backend_are_renamed() {
        check_to_caller(
            &[
                ("x-ratelimit-limit-requests", "10"),
                ("ratelimit", "\"a\";r=1"),
                ("ratelimit-policy", "\"a\";q=1"),
                ("anthropic-ratelimit-tokens-remaining", "5"),
                ("x-request-id", "r1"),
                ("request-id", "r1"),
                ("x-fair-queue-position", "3"),
                ("x-deferred-admission-wait-ms", "4"),
                ("retry-after", "7"),
                ("retry-after-ms", "6500"),
                ("ratelimited", "kept"),
            ],
            &[
                ("x-backend-ratelimit-limit-requests", "10"),
                ("x-backend-ratelimit", "\"a\";r=1"),
                ("x-backend-ratelimit-policy", "\"a\";q=1"),
                ("x-backend-anthropic-ratelimit-tokens-remaining", "5"),
                ("x-backend-request-id", "r1"),
                ("x-backend-fair-queue-position", "3"),
                ("x-backend-deferred-admission-wait-ms", "4"),
                ("retry-after", "7"),
                ("retry-after-ms", "6500"),
                ("ratelimited", "kept"),
            ],
        );
    }

    #[test]
    fn several_values_stay_several() {
        check_to_caller(
            &[("ratelimit", "a"), ("ratelimit", "b"), ("set-cookie", "1"), ("set-cookie", "2")],
            &[
                ("x-backend-ratelimit", "a"),
                ("x-backend-ratelimit", "b"),
                ("set-cookie", "1"),
                ("set-cookie", "2"),
            ],
        );
    }

    #[test]
    fn a_caller_sees_no_hop_by_hop_and_no_way_past_the_gateway() {
        check_to_caller(
            &[("connection", "x-hop"), ("x-hop", "1"), ("keep-alive", "5"), ("alt-svc", "h3"), ("date", "d")],
            &[("date", "d")],
        );
    }
}
