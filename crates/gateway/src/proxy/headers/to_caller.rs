//! Towards the caller.

use http::header::{ALT_SVC, Entry};
use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use super::{Names, drop_headers, is_hop_by_hop};

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

/// Turns a backend's headers into those that the caller sees.
pub(in crate::proxy) fn to_caller(headers: &mut HeaderMap) {
    let (mut dropped, mut renamed) = (Names::new(), Names::new());
    for name in headers.keys() {
        if is_hop_by_hop(name.as_str()) || name == ALT_SVC {
            dropped.push(name.clone());
        } else if is_renamed(name.as_str()) {
            renamed.push(name.clone());
        }
    }
    drop_headers(headers, &mut dropped, |_| false);
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
    use super::super::testing::{Lines, lines, map};
    use super::*;

    fn check_to_caller(from: &Lines, to: &Lines) {
        let mut headers = map(from);
        to_caller(&mut headers);
        assert_eq!(lines(&headers), lines(&map(to)));
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
