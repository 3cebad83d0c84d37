//! Requests that hyper accepts and a proxy must not.

use http::header::{HOST, TRANSFER_ENCODING};
use http::uri::Authority;
use http::{HeaderValue, Method, Request, Version};

use super::Connection;

/// Why a request is refused with 400 although it could be parsed.
///
/// Each is a request which the next server could take for another one, or for another host, than we do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// A tunnel was asked for.
    #[error("the method CONNECT is not supported")]
    Connect,
    /// HTTP/1.1 without a `Host` field, HTTP/2 without `:authority` and `Host`.
    #[error("the request names no host")]
    MissingHost,
    /// More than one `Host` field.
    #[error("the request has more than one Host header")]
    SeveralHosts,
    /// A `Host` field or an authority that is empty, carries user information or characters no host has.
    #[error("the host of the request is not valid")]
    InvalidHost,
    /// An absolute request target, or `:authority`, that names another host than `Host`.
    #[error("the request target and the Host header name different hosts")]
    HostMismatch,
    /// `Content-Length` beside `Transfer-Encoding`.
    #[error("the request has both Content-Length and Transfer-Encoding")]
    LengthAndEncoding,
    /// A transfer coding other than `chunked`, which nobody here would undo.
    #[error("the only transfer encoding supported is chunked")]
    TransferCoding,
    /// Where the request begins and ends could not be followed on the wire.
    #[error("the request could not be delimited")]
    Framing,
}

/// Refuses what must not be passed on. To be called before anything else looks at the request.
///
/// HTTP/1.0 may leave `Host` out. Framing is judged by what the edge saw on the wire (hyper removes a
/// `Content-Length` that stands beside `Transfer-Encoding`); a request that did not come through
/// [`serve`](super::serve) is judged by its fields alone.
///
/// # Errors
///
/// The first [`Malformed`] found.
pub fn vet<B>(request: &Request<B>) -> Result<(), Malformed> {
    if request.method() == Method::CONNECT {
        return Err(Malformed::Connect);
    }
    if let Some(connection) = request.extensions().get::<Connection>() {
        connection.framing()?;
    }
    for coding in request.headers().get_all(TRANSFER_ENCODING) {
        if !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
            return Err(Malformed::TransferCoding);
        }
    }
    vet_host(request)
}

fn vet_host<B>(request: &Request<B>) -> Result<(), Malformed> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Malformed::SeveralHosts);
    }
    if host.is_some_and(|host| !is_host(host.as_bytes())) {
        return Err(Malformed::InvalidHost);
    }
    match (request.uri().authority(), host) {
        (Some(authority), _) if !is_host(authority.as_str().as_bytes()) => Err(Malformed::InvalidHost),
        (Some(authority), Some(host)) if !same_host(authority, host, request.uri().scheme_str()) => {
            Err(Malformed::HostMismatch)
        }
        // RFC 9112 section 3.2: in HTTP/1.1 the field is due even if the target names the host.
        (_, None) if request.version() == Version::HTTP_11 => Err(Malformed::MissingHost),
        (None, None) if request.version() != Version::HTTP_10 => Err(Malformed::MissingHost),
        _ => Ok(()),
    }
}

/// Whether every byte may stand in `uri-host [":" port]` (RFC 9110 section 7.2, RFC 3986 section 3.2.2).
fn is_host(host: &[u8]) -> bool {
    let (name, port) = split_port(host);
    !name.is_empty()
        && port.iter().all(u8::is_ascii_digit)
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(byte))
}

/// Splits off the port, which is empty if there is none; the colons of an IPv6 literal stand in brackets.
fn split_port(host: &[u8]) -> (&[u8], &[u8]) {
    match host.iter().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(at) if host[at] == b':' => (&host[..at], &host[at + 1..]),
        _ => (host, b""),
    }
}

fn same_host(authority: &Authority, host: &HeaderValue, scheme: Option<&str>) -> bool {
    if authority.as_str().as_bytes() == host.as_bytes() {
        return true;
    }
    let default_port: &[u8] = if scheme == Some("https") { b"443" } else { b"80" };
    let normal = |host| {
        let (name, port) = split_port(host);
        (name, if port.is_empty() { default_port } else { port })
    };
    let (name, port) = normal(authority.as_str().as_bytes());
    let (other_name, other_port) = normal(host.as_bytes());
    name.eq_ignore_ascii_case(other_name) && port == other_port
}
