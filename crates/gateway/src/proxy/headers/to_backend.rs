//! Towards a backend.

use std::net::IpAddr;

use http::header::{COOKIE, Entry, HOST};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use super::{Names, drop_headers, is_hop_by_hop};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What the gateway knows of a request beyond its headers, and tells the backend.
#[derive(Debug, Default)]
pub(in crate::proxy) struct Sender {
    pub(in crate::proxy) peer: Option<IpAddr>,
    pub(in crate::proxy) authority: Option<Authority>,
    pub(in crate::proxy) request_id: Option<HeaderValue>,
}

/// Whether a header is the gateway's own affair, or made anew for each backend.
fn is_for_gateway(name: &str) -> bool {
    matches!(name, "authorization" | "x-api-key" | "content-length" | "expect")
}

/// Whether the gateway sets a header, or makes one of the others of it.
fn is_of_gateway(name: &str) -> bool {
    matches!(name, "x-forwarded-for" | "x-forwarded-host" | "x-request-id" | "traceparent" | "host")
}

/// Turns a caller's headers into those that any backend may see. Host and credential are added per backend.
pub(in crate::proxy) fn to_backend(headers: &mut HeaderMap, sender: Sender) {
    let mut dropped = Names::new();
    let mut cookies = false;
    for name in headers.keys() {
        if is_hop_by_hop(name.as_str()) || is_for_gateway(name.as_str()) {
            dropped.push(name.clone());
        }
        cookies |= name == COOKIE;
    }
    drop_headers(headers, &mut dropped, is_of_gateway);
    if cookies {
        join_cookies(headers);
    }
    let host = headers.remove(HOST);
    if let Some(host) = sender.authority.as_ref().and_then(host_of).or(host)
        && let Entry::Vacant(vacant) = headers.entry(X_FORWARDED_HOST)
    {
        vacant.insert(host);
    }
    if let Some(id) = sender.request_id {
        headers.insert(X_REQUEST_ID, id);
    }
    if let Some(peer) = sender.peer {
        add_forwarded_for(headers, peer);
    }
}

/// The host and port of an authority, without the credentials that may be in front of them.
fn host_of(authority: &Authority) -> Option<HeaderValue> {
    let text = authority.as_str();
    let host = text.rsplit_once('@').map_or(text, |(_, host)| host);
    HeaderValue::from_str(host).ok()
}

/// Makes one of several `cookie` fields.
fn join_cookies(headers: &mut HeaderMap) {
    let Entry::Occupied(mut cookies) = headers.entry(COOKIE) else { return };
    if cookies.iter().nth(1).is_none() {
        return;
    }
    let fields = cookies.iter().map(HeaderValue::as_bytes).collect::<Vec<_>>().join(&b"; "[..]);
    let Ok(mut joined) = HeaderValue::try_from(fields) else { return };
    joined.set_sensitive(cookies.iter().any(HeaderValue::is_sensitive));
    cookies.insert(joined);
}

/// Adds the peer at the right end, in one line: some servers read only one of several.
fn add_forwarded_for(headers: &mut HeaderMap, peer: IpAddr) {
    let mut list: SmallVec<[u8; 128]> = SmallVec::new();
    let entry = headers.entry(X_FORWARDED_FOR);
    if let Entry::Occupied(there) = &entry {
        let addresses = there.iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
        for address in addresses.map(<[u8]>::trim_ascii).filter(|address| !address.is_empty()) {
            list.extend_from_slice(address);
            list.extend_from_slice(b", ");
        }
    }
    write_address(&mut list, peer.to_canonical());
    let Ok(value) = HeaderValue::from_bytes(&list) else { return };
    match entry {
        Entry::Occupied(mut there) => drop(there.insert(value)),
        Entry::Vacant(vacant) => drop(vacant.insert(value)),
    }
}

/// Writes what `Display` would; for the common kind without its machinery, since every request comes by here.
fn write_address(list: &mut SmallVec<[u8; 128]>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            let mut digits = itoa::Buffer::new();
            for (at, octet) in address.octets().into_iter().enumerate() {
                if at > 0 {
                    list.push(b'.');
                }
                list.extend_from_slice(digits.format(octet).as_bytes());
            }
        }
        IpAddr::V6(address) => list.extend_from_slice(address.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Lines, lines, map};
    use super::*;

    fn check_to_backend(from: &Lines, to: &Lines) {
        check_to_backend_at(None, from, to);
    }

    fn check_to_backend_at(authority: Option<&'static str>, from: &Lines, to: &Lines) {
        let mut headers = map(from);
        let sender = Sender {
            peer: Some("10.0.0.7".parse().unwrap()),
            authority: authority.map(Authority::from_static),
            request_id: Some(HeaderValue::from_static("id-1")),
        };
        to_backend(&mut headers, sender);
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
    fn empty_elements_of_the_forwarded_are_left_out() {
        for (there, with_peer) in [
            ("7.7.7.7,, 6.6.6.6", "7.7.7.7, 6.6.6.6, 10.0.0.7"),
            (" , 7.7.7.7 ,\t", "7.7.7.7, 10.0.0.7"),
            ("", "10.0.0.7"),
        ] {
            check_to_backend(
                &[("x-forwarded-for", there)],
                &[("x-forwarded-for", with_peer), ("x-request-id", "id-1")],
            );
        }
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
    fn the_authority_goes_before_the_host_and_behind_what_was_forwarded() {
        let made = [("x-forwarded-for", "10.0.0.7"), ("x-request-id", "id-1")];
        for (authority, from, host) in [
            ("h2.example:8443", ("accept", "*/*"), "h2.example:8443"),
            ("user:secret@h2.example", ("accept", "*/*"), "h2.example"),
            ("h2.example", ("host", "other"), "h2.example"),
            ("h2.example", ("x-forwarded-host", "outer"), "outer"),
        ] {
            let mut to = vec![("x-forwarded-host", host)];
            to.extend(made);
            to.extend(Some(from).filter(|(name, _)| *name == "accept"));
            check_to_backend_at(Some(authority), &[from], &to);
        }
    }

    #[test]
    fn cookies_in_pieces_are_put_together() {
        let mut headers = map(&[("cookie", "a=1"), ("accept", "*/*"), ("cookie", "b=2; c=3")]);
        let mut secret = HeaderValue::from_static("d=4");
        secret.set_sensitive(true);
        headers.append(COOKIE, secret);
        to_backend(&mut headers, Sender::default());
        assert_eq!(lines(&headers), lines(&map(&[("accept", "*/*"), ("cookie", "a=1; b=2; c=3; d=4")])));
        assert!(headers[COOKIE].is_sensitive());
    }

    #[test]
    fn connection_cannot_drop_what_the_gateway_sets() {
        check_to_backend(
            &[
                ("connection", "x-request-id, X-Forwarded-For, x-forwarded-host, host"),
                ("connection", "Traceparent, cookie"),
                ("x-request-id", "a"),
                ("x-forwarded-for", "b"),
                ("traceparent", "c"),
                ("cookie", "d"),
                ("host", "gateway.example"),
            ],
            &[
                ("x-request-id", "id-1"),
                ("x-forwarded-for", "b, 10.0.0.7"),
                ("x-forwarded-host", "gateway.example"),
                ("traceparent", "c"),
            ],
        );
    }
}
