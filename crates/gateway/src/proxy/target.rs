//! Where a backend is.

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Uri};

use crate::echo::EchoSettings;

/// What a backend's address means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A server reached over HTTP or HTTPS.
    Http(HttpTarget),
    /// The embedded backend, reached without a socket.
    Echo(EchoSettings),
}

/// A server's base address, taken apart once so that no request has to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpTarget {
    pub(super) scheme: Scheme,
    pub(super) authority: Authority,
    /// Without a trailing slash; empty for the root.
    pub(super) base_path: String,
    pub(super) host: HeaderValue,
}

/// An address that cannot be that of a backend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTarget {
    /// Not an absolute address.
    #[error("not an absolute http or https address")]
    NotAbsolute,
    /// Neither `http` nor `https`.
    #[error("the scheme is neither http nor https")]
    Scheme,
    /// A user name or password; credentials have their own setting, where they stay out of logs.
    #[error("an address must not carry a user name or password")]
    UserInfo,
    /// A query; it would have to be mixed with each request's own.
    #[error("an address must not carry a query")]
    Query,
}

/// The address of the embedded backend.
const BUILTIN_ECHO: &str = "builtin:echo";

// === impl Target ===

impl Target {
    /// Reads an address: `http://…`, `https://…`, or `builtin:echo`.
    ///
    /// # Errors
    ///
    /// [`InvalidTarget`] says what is wrong with it.
    pub fn parse(url: &str) -> Result<Self, InvalidTarget> {
        if url == BUILTIN_ECHO {
            return Ok(Self::Echo(EchoSettings::default()));
        }
        HttpTarget::parse(url).map(Self::Http)
    }
}

// === impl HttpTarget ===

impl HttpTarget {
    /// Reads an `http` or `https` address. Its path, if it has one, is put before each request's path.
    ///
    /// # Errors
    ///
    /// [`InvalidTarget`] says what is wrong with it.
    pub fn parse(url: &str) -> Result<Self, InvalidTarget> {
        let uri: Uri = url.parse().map_err(|_| InvalidTarget::NotAbsolute)?;
        let parts = uri.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(InvalidTarget::NotAbsolute);
        };
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(InvalidTarget::Scheme);
        }
        if authority.as_str().contains('@') {
            return Err(InvalidTarget::UserInfo);
        }
        let path = parts.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
        if path.query().is_some() {
            return Err(InvalidTarget::Query);
        }
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| InvalidTarget::NotAbsolute)?;
        let base_path = path.path().trim_end_matches('/').to_owned();
        Ok(Self { scheme, authority, base_path, host })
    }

    pub(super) fn is_https(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// What a request for a path is addressed to here: the path in plain text, with scheme and host before it where the
    /// connection may turn out to be HTTP/2.
    ///
    /// A base path that ends in `/v1` and a path that starts with it share that segment, so that both
    /// `https://host` and the `https://host/v1` that client libraries are given lead to the same place.
    pub(super) fn uri(&self, path: &PathAndQuery) -> Result<Uri, http::Error> {
        let path = self.path(path)?;
        if !self.is_https() {
            return Ok(path.into());
        }
        Ok(self.absolute(path)?)
    }

    /// Where connections go.
    pub(super) fn root(&self) -> Uri {
        self.absolute(PathAndQuery::from_static("/")).unwrap_or_default()
    }

    fn path(&self, path: &PathAndQuery) -> Result<PathAndQuery, http::Error> {
        if self.base_path.is_empty() {
            return Ok(path.clone());
        }
        let tail = path.as_str();
        let tail = match tail.strip_prefix("/v1") {
            Some(rest) if rest.starts_with('/') && self.base_path.ends_with("/v1") => rest,
            _ => tail,
        };
        let mut joined = bytes::BytesMut::with_capacity(self.base_path.len() + tail.len());
        joined.extend_from_slice(self.base_path.as_bytes());
        joined.extend_from_slice(tail.as_bytes());
        Ok(PathAndQuery::from_maybe_shared(joined.freeze())?)
    }

    fn absolute(&self, path: PathAndQuery) -> Result<Uri, http::uri::InvalidUriParts> {
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(path);
        Uri::from_parts(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(base: &str, path: &'static str) -> String {
        HttpTarget::parse(base).unwrap().uri(&PathAndQuery::from_static(path)).unwrap().to_string()
    }

    #[test]
    fn base_path_is_put_before_the_request_path() {
        assert_eq!(joined("http://h:1", "/v1/models?x=1"), "/v1/models?x=1");
        assert_eq!(joined("http://h:1/", "/v1/models"), "/v1/models");
        assert_eq!(joined("http://h:1/a", "/v1/models"), "/a/v1/models");
        assert_eq!(joined("https://h/a/b/", "/v1/models?x=1"), "https://h/a/b/v1/models?x=1");
    }

    #[test]
    fn a_shared_version_segment_is_not_doubled() {
        assert_eq!(joined("https://h/v1", "/v1/models"), "https://h/v1/models");
        assert_eq!(joined("https://h/api/v1/", "/v1/models"), "https://h/api/v1/models");
        assert_eq!(joined("https://h/v1", "/v1beta/models"), "https://h/v1/v1beta/models");
        assert_eq!(joined("https://h/openai-v1", "/v2/models"), "https://h/openai-v1/v2/models");
    }

    #[test]
    fn addresses_that_cannot_be_a_backend_are_refused() {
        let error = |url| HttpTarget::parse(url).unwrap_err();
        assert_eq!(error("/v1"), InvalidTarget::NotAbsolute);
        assert_eq!(error("host:80"), InvalidTarget::NotAbsolute);
        assert_eq!(error("ftp://h"), InvalidTarget::Scheme);
        assert_eq!(error("http://u:p@h"), InvalidTarget::UserInfo);
        assert_eq!(error("http://h/?q=1"), InvalidTarget::Query);
    }

    #[test]
    fn the_embedded_backend_has_an_address() {
        assert!(matches!(Target::parse("builtin:echo"), Ok(Target::Echo(_))));
    }
}
