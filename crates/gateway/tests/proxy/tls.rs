//! Backends behind TLS.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use fairlane_gateway::proxy::{Backend, ForwardError, Proxy, ProxyError, Timeouts};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::backend::{backend, post, proxy_within, soon, text};

/// A file that is gone with its owner.
struct CaFile(PathBuf);

impl CaFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fairlane-{}-{name}.pem", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for CaFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

/// Starts an HTTPS server for one connection that answers with the version and authority it was asked with, and
/// tells its address and certificate.
async fn serve(protocols: &[&[u8]]) -> (String, String) {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::from_pem_slice(certified.signing_key.serialize_pem().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        // A client that does not trust the certificate hangs up here.
        let Ok(stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await else { return };
        let service = hyper::service::service_fn(async |request: Request<Incoming>| {
            let host = request.headers().get("host").map(|host| host.to_str().unwrap().to_owned());
            let authority = host.or_else(|| request.uri().authority().map(ToString::to_string)).unwrap();
            let (name, _) = authority.split_once(':').unwrap();
            let answer = format!("{:?} {name}", request.version());
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(answer))))
        });
        auto::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), service)
            .await
            .unwrap_or_default();
    });
    (url, certified.cert.pem())
}

fn trusting(url: &str, ca: &CaFile) -> Backend {
    Backend { ca_file: Some(ca.0.clone()), ..backend("a", url) }
}

async fn check_version(name: &str, protocols: &[&[u8]], answer: &str) {
    let (url, certificate) = serve(protocols).await;
    let ca = CaFile::new(name, &certificate);
    let proxy = proxy_within([trusting(&url, &ca)], Timeouts::default());
    assert_eq!(text(soon(proxy.forward(post("{}"))).await.unwrap()).await, answer);
}

#[tokio::test]
async fn a_certificate_from_the_ca_file_is_trusted_and_the_version_negotiated() {
    check_version("h1", &[b"http/1.1"], "HTTP/1.1 localhost").await;
    check_version("h2", &[b"h2", b"http/1.1"], "HTTP/2.0 localhost").await;
    check_version("none", &[], "HTTP/1.1 localhost").await;
}

#[tokio::test]
async fn any_other_certificate_is_not() {
    let (url, _) = serve(&[b"http/1.1"]).await;
    let (_, other) = serve(&[]).await;
    let ca = CaFile::new("other", &other);
    let proxy = proxy_within([trusting(&url, &ca)], Timeouts::default());
    let error = soon(proxy.forward(post("{}"))).await.unwrap_err();
    assert!(matches!(error, ForwardError::Unavailable { reached: false, .. }), "{error:?}");
}

#[tokio::test]
async fn a_ca_file_without_certificates_is_an_error() {
    let empty = CaFile::new("empty", "nothing\n");
    let gone = PathBuf::from("/nonexistent/ca.pem");
    for path in [empty.0.clone(), gone] {
        let backend = Backend { ca_file: Some(path.clone()), ..backend("a", "https://localhost") };
        let error = Proxy::new(vec![backend], Timeouts::default()).unwrap_err();
        assert!(
            matches!(&error, ProxyError::Certificates { path: named, .. } if *named == path),
            "{error:?}"
        );
    }
}
