//! What this program is when it runs itself: the backend, and the peers that the gateway is measured against.

use std::convert::Infallible;
use std::future::Future;
use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, Uri, header, uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::BoxError;

/// The first argument of a program that is to play a role.
const FLAG: &str = "--role";

/// An answer of the size of a short completion.
const ANSWER: &str = concat!(
    r#"{"id":"chatcmpl-0123456789abcdef","object":"chat.completion","created":1760000000,"model":"gpt-4o-mini","#,
    r#""choices":[{"index":0,"message":{"role":"assistant","content":"The lanes are served by weight."},"#,
    r#""finish_reason":"stop"}],"usage":{"prompt_tokens":180,"completion_tokens":8,"total_tokens":188}}"#,
);

/// What a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Reads a request and answers it.
    Backend,
    /// Forwards requests and streams answers, and does nothing else.
    BareProxy {
        /// Where to.
        backend: SocketAddr,
    },
    /// Reads requests and never answers, but for `GET /held`, which tells how many.
    BareHolder,
}

// === impl Role ===

impl Role {
    /// The role that a command line gives.
    pub(crate) fn of(arguments: &[String]) -> Option<Self> {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match *words {
            [FLAG, "backend"] => Some(Self::Backend),
            [FLAG, "bare-proxy", backend] => Some(Self::BareProxy { backend: backend.parse().ok()? }),
            [FLAG, "bare-holder"] => Some(Self::BareHolder),
            _ => None,
        }
    }

    /// The command line that gives it.
    pub(crate) fn arguments(self) -> Vec<String> {
        let words = match self {
            Self::Backend => vec!["backend".to_owned()],
            Self::BareProxy { backend } => vec!["bare-proxy".to_owned(), backend.to_string()],
            Self::BareHolder => vec!["bare-holder".to_owned()],
        };
        std::iter::once(FLAG.to_owned()).chain(words).collect()
    }

    /// Plays it until the standard input ends, which it does with the parent.
    pub(crate) fn run(self) -> Result<(), BoxError> {
        // The runtime that the gateway has, too.
        let runtime = tokio::runtime::Runtime::new()?;
        let (gone, parent) = oneshot::channel();
        std::thread::spawn(move || {
            // An error ends it as well as an end does.
            _ = std::io::stdin().read(&mut [0]);
            _ = gone.send(());
        });
        runtime.block_on(async {
            tokio::select! {
                served = self.serve() => served,
                _ = parent => Ok(()),
            }
        })
    }

    async fn serve(self) -> Result<(), BoxError> {
        match self {
            Self::Backend => listen(service_fn(answer)).await,
            Self::BareProxy { backend } => {
                let authority = uri::Authority::try_from(backend.to_string())?;
                let mut connector = HttpConnector::new();
                connector.set_nodelay(true);
                let client = Client::builder(TokioExecutor::new()).build(connector);
                listen(service_fn(move |request| forward(client.clone(), authority.clone(), request))).await
            }
            Self::BareHolder => {
                let held = Arc::new(AtomicUsize::new(0));
                listen(service_fn(move |request| hold(Arc::clone(&held), request))).await
            }
        }
    }
}

/// Serves on a free port, and tells which.
async fn listen<S>(service: S) -> Result<(), BoxError>
where
    S: HttpService<Incoming, Future: Future + Send, Error: Into<BoxError>> + Clone + Send + 'static,
    S::ResBody: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listen={}", listener.local_addr()?);
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let connection = http1::Builder::new().serve_connection(TokioIo::new(socket), service.clone());
        tokio::spawn(async move {
            // A caller that leaves is no matter.
            _ = connection.await;
        });
    }
}

async fn read(mut body: Incoming) -> hyper::Result<()> {
    while let Some(frame) = body.frame().await {
        frame?;
    }
    Ok(())
}

async fn answer(request: Request<Incoming>) -> hyper::Result<Response<Full<Bytes>>> {
    read(request.into_body()).await?;
    let mut response = Response::new(Full::new(Bytes::from_static(ANSWER.as_bytes())));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

async fn forward(
    client: Client<HttpConnector, Incoming>,
    backend: uri::Authority,
    mut request: Request<Incoming>,
) -> Result<Response<Incoming>, BoxError> {
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    parts.scheme = Some(uri::Scheme::HTTP);
    parts.authority = Some(backend);
    *request.uri_mut() = Uri::from_parts(parts)?;
    Ok(client.request(request).await?)
}

async fn hold(held: Arc<AtomicUsize>, request: Request<Incoming>) -> hyper::Result<Response<Full<Bytes>>> {
    if request.method() == Method::GET {
        let count = held.load(Ordering::Relaxed);
        return Ok(Response::new(Full::from(format!(r#"{{"held":{count}}}"#))));
    }
    read(request.into_body()).await?;
    held.fetch_add(1, Ordering::Relaxed);
    let Ok(never) = std::future::pending::<Result<_, Infallible>>().await;
    Ok(never)
}
