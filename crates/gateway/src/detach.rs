//! Lets go of the connection's read buffer.
//!
//! hyper hands out header names and values, the path and the body as slices of the buffer it reads into. A held request that
//! keeps them keeps the whole buffer, and hyper, which goes on watching the connection, has to take another one.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri, uri::PathAndQuery};

use crate::forward::Understood;

/// Copies what a request needs into memory of its own, as little as there is of it.
pub(crate) fn detach(request: &mut Request<Box<Understood>>) {
    // One that was copied together already counts as long as it is there; a copy of it would not.
    if !request.body().is_joined {
        request.body_mut().body = Bytes::copy_from_slice(&request.body().body);
    }
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
    use std::{net::Ipv4Addr, time::Duration};

    use futures_util::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tokio::time::Instant;

    use super::*;
    use crate::{
        answer::Dialect,
        body::BoxError,
        edge::{Room, read_body},
        request::{Api, Reading},
    };

    /// A request whose body came in these pieces.
    async fn understood(pieces: &[&'static str], room: &Room) -> Request<Box<Understood>> {
        let pieces =
            pieces.iter().map(|piece| Ok::<_, BoxError>(Frame::data(Bytes::from_static(piece.as_bytes()))));
        let body = StreamBody::new(stream::iter(pieces.collect::<Vec<_>>()));
        let body = read_body(body, 1_000, Duration::from_secs(1), room).await.unwrap();
        Request::new(Box::new(Understood {
            ask: None,
            body: body.bytes,
            is_joined: body.is_joined,
            reading: Reading::default(),
            api: Api::Embeddings,
            peer: Ipv4Addr::LOCALHOST.into(),
            arrived: Instant::now(),
            id: HeaderValue::from_static("id"),
            dialect: Dialect::default(),
            is_exempt: false,
        }))
    }

    #[tokio::test]
    async fn a_body_that_was_copied_together_keeps_its_room_and_is_not_copied_again() {
        let room = Room::new(1_000);
        let mut request = understood(&["one", "two"], &room).await;
        let (place, used) = (request.body().body.as_ptr(), room.used());
        detach(&mut request);
        assert_eq!((&*request.body().body, room.used()), (&b"onetwo"[..], used), "it is still there");
        assert_eq!(request.body().body.as_ptr(), place);
        drop(request);
        assert_eq!(room.used(), 0);
    }

    #[tokio::test]
    async fn one_that_came_in_one_piece_is_copied() {
        let room = Room::new(1_000);
        let mut request = understood(&["one"], &room).await;
        let place = request.body().body.as_ptr();
        detach(&mut request);
        assert_eq!(&*request.body().body, b"one");
        assert_ne!(request.body().body.as_ptr(), place);
    }

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
