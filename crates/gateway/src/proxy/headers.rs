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
use std::net::IpAddr;

use bytes::Bytes;
use http::header::{
    ALT_SVC, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, Entry, HOST, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

pub(super) const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The headers that concern one connection only (RFC 9110, section 7.6.1), beside those `Connection` names.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    PROXY_CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

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

fn drop_hop_by_hop(headers: &mut HeaderMap) {
    // Rare enough (most callers send `keep-alive`, which names nothing to drop) to pay for the copies.
    let mut named: SmallVec<[HeaderName; 4]> = SmallVec::new();
    for value in headers.get_all(CONNECTION) {
        for token in value.as_bytes().split(|byte| *byte == b',') {
            match HeaderName::from_bytes(token.trim_ascii()) {
                Ok(name) if name != KEEP_ALIVE => named.push(name),
                _ => {}
            }
        }
    }
    for name in &named {
        headers.remove(name);
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Turns a caller's headers into those that any backend may see. Host and credential are added per backend.
pub(super) fn to_backend(headers: &mut HeaderMap, peer: Option<IpAddr>, request_id: Option<HeaderValue>) {
    drop_hop_by_hop(headers);
    for name in [AUTHORIZATION, X_API_KEY, CONTENT_LENGTH, EXPECT] {
        headers.remove(name);
    }
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
    if write!(list, "{}", peer.to_canonical()).is_ok()
        && let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(list))
    {
        headers.insert(X_FORWARDED_FOR, value);
    }
}

/// Turns a backend's headers into those that the caller sees.
pub(super) fn to_caller(headers: &mut HeaderMap) {
    drop_hop_by_hop(headers);
    headers.remove(ALT_SVC);
    let renamed: SmallVec<[HeaderName; 8]> =
        headers.keys().filter(|name| is_renamed(name.as_str())).cloned().collect();
    for name in renamed {
        let Some(to) = backend_name(&name) else { continue };
        let Entry::Occupied(entry) = headers.entry(name) else { continue };
        let values: SmallVec<[HeaderValue; 2]> = entry.remove_entry_mult().1.collect();
        for value in values {
            // `x-request-id` and `request-id` often say the same.
            if !headers.get_all(&to).iter().any(|there| *there == value) {
                headers.append(&to, value);
            }
        }
    }
}

fn is_renamed(name: &str) -> bool {
    RENAMED
        .iter()
        .any(|start| name.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')))
}

fn backend_name(name: &HeaderName) -> Option<HeaderName> {
    let name = name.as_str();
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
