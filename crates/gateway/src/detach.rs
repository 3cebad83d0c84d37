//! Lets go of the connection's read buffer.
//!
//! hyper hands out header names and values, the path and the body as slices of the buffer it reads into. A held request that
//! keeps them keeps the whole buffer, and hyper, which goes on watching the connection, has to take another one.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri, uri::PathAndQuery};

use crate::forward::Understood;

/// Copies what a request needs into memory of its own, as little as there is of it.
pub(crate) fn detach(request: &mut Request<Box<Understood>>) {
    request.body_mut().body = Bytes::copy_from_slice(&request.body().body);
    *request.headers_mut() = copied(request.headers());
    if let Some(uri) = copied_uri(request.uri()) {
        *request.uri_mut() = uri;
    }
}

/// All values in one allocation; names are copied only where they are no standard ones.
fn copied(headers: &HeaderMap) -> HeaderMap {
    let bytes = headers.values().map(HeaderValue::len).sum();
    let mut values = BytesMut::with_capacity(bytes);
    let mut own = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        values.extend_from_slice(value.as_bytes());
        let copy = HeaderValue::from_maybe_shared(values.split().freeze());
        let (Ok(name), Ok(mut copy)) = (HeaderName::from_bytes(name.as_ref()), copy) else { continue };
        copy.set_sensitive(value.is_sensitive());
        own.append(name, copy);
    }
    own
}

fn copied_uri(uri: &Uri) -> Option<Uri> {
    let path = Bytes::copy_from_slice(uri.path_and_query()?.as_str().as_bytes());
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = PathAndQuery::from_maybe_shared(path).ok();
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_the_same() {
        let mut headers = HeaderMap::new();
        headers.append("x-own", HeaderValue::from_static("one"));
        headers.append("x-own", HeaderValue::from_bytes(b"tw\xf6").unwrap());
        headers.append("accept", HeaderValue::from_static(""));
        assert_eq!(copied(&headers), headers);
        for uri in ["/v1/x?y=%20", "http://h:1/a", "/"] {
            let uri: Uri = uri.parse().unwrap();
            assert_eq!(copied_uri(&uri).unwrap(), uri);
        }
    }
}
