//! The server's side of the wire.

use std::{io, sync::Arc};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, task::JoinSet};

use super::{Seen, Shared, reply::Content};

/// Serves until it is aborted; then every connection ends with it.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let number = shared.change(|state| {
            state.opened += 1;
            state.opened
        });
        // The first chunk must leave before there is a second.
        _ = stream.set_nodelay(true);
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(|request| answer(&shared, request, number));
            _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            shared.change(|state| state.closed.insert(number));
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(
    shared: &Shared,
    request: Request<Incoming>,
    connection: usize,
) -> Result<Response<Content>, io::Error> {
    let (head, body) = request.into_parts();
    // Read whole before anything else: only then does hyper notice that the other side has gone.
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let path = head.uri.path_and_query().map_or_else(|| head.uri.to_string(), ToString::to_string);
    let seen = Seen { method: head.method, path, headers: head.headers, body, connection };
    let (reply, otherwise) = shared.change(|state| {
        state.seen.push(seen.clone());
        (state.next.pop_front(), Arc::clone(&state.otherwise))
    });
    reply.unwrap_or_else(|| otherwise(&seen)).response().await
}
