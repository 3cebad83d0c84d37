//! Which headers cross the proxy, and under which name.
//!
//! Towards a backend: hop-by-hop headers, the caller's `Authorization` and `x-api-key`, `Host`, `Content-Length` and
//! `Expect` are dropped; `Host` and the credential are the backend's. All else passes unchanged, except:
//!
//! - `x-forwarded-for` becomes one line: the addresses that were there, without empty elements, and at the right end
//!   the peer of the caller's connection. That is the address the request came from, be it the caller's or that of a
//!   trusted proxy in front: who of the list is the caller is for its reader to say. A v4 peer of a v6 socket is
//!   written as v4.
//! - `x-forwarded-host`, if there is none, is the host the caller asked for: its URI's authority, which is where HTTP/2
//!   has it, or else its `Host`.
//! - `x-request-id` is the gateway's.
//! - Several `cookie` fields, as HTTP/2 allows, become the one that HTTP/1 knows (RFC 9113, section 8.2.3).
//!
//! `Connection` cannot drop what the gateway itself sets: these three, and `traceparent`.
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

mod to_backend;
mod to_caller;

use http::header::CONNECTION;
use http::{HeaderMap, HeaderName};
use smallvec::SmallVec;

pub(super) use to_backend::{Sender, to_backend};
pub(super) use to_caller::to_caller;

pub(super) const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

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

/// Drops those of these names, and with `Connection` those that it names, unless they are `kept`.
fn drop_headers(headers: &mut HeaderMap, names: &mut Names, kept: impl Fn(&str) -> bool) {
    if names.contains(&CONNECTION) {
        for value in headers.get_all(CONNECTION) {
            let tokens = value.as_bytes().split(|byte| *byte == b',');
            let named = tokens.filter_map(|token| HeaderName::from_bytes(token.trim_ascii()).ok());
            names.extend(named.filter(|name| !kept(name.as_str())));
        }
    }
    for name in &*names {
        headers.remove(name);
    }
}

#[cfg(test)]
mod testing {
    use http::{HeaderMap, HeaderValue};

    pub(super) type Lines = [(&'static str, &'static str)];

    pub(super) fn map(lines: &Lines) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    pub(super) fn lines(headers: &HeaderMap) -> Vec<(String, String)> {
        let mut lines: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        lines.sort();
        lines
    }
}
