//! A Redis that speaks TLS, with a certificate of its own.

use std::fs;

use fairlane_redis_servers::{Server, ServerOptions, Tls};
use fairlane_tests::{Backend, Config, Gateway};
use tempfile::TempDir;

use super::{PATIENT, TIMEOUT, assert_out, shared, started, unready};
use crate::support::{alice, assert_limited, exhaust};

/// A server that nobody trusts but who is told to, and the folder with its certificate.
async fn server() -> (Server, TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])
        .expect("a certificate");
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.path().join(name));
    fs::write(&certificate, made.cert.pem()).expect("the folder is writable");
    fs::write(&key, made.signing_key.serialize_pem()).expect("the folder is writable");
    let tls = Tls { authority: certificate.clone(), certificate, key, require_client_certificate: false };
    (Server::start_with(ServerOptions::new().password("open/sesame").tls(tls)).await, folder)
}

fn config(backend: &Backend, host: &str, server: &Server, more: &str) -> Config {
    let url = format!("rediss://:open%2Fsesame@{host}:{}", server.tls_addr().port());
    crate::support::people(shared(Config::with(backend), &url, PATIENT, more))
        .limit("per_user: { requests_per_day: 3 }")
}

#[tokio::test]
async fn limits_are_shared_over_tls_by_those_who_trust_the_server() {
    let (backend, (server, folder)) = (Backend::start().await, server().await);
    let trusted = format!("ca_file: \"{}\"", folder.path().join("certificate.pem").display());
    let by_address = started(&config(&backend, "127.0.0.1", &server, &trusted)).await;
    let by_name = started(&config(&backend, "localhost", &server, &trusted)).await;
    assert_eq!(by_address.call(alice()).await.status, 200);
    let (passed, refused) = exhaust(&by_name, &alice(), 10).await;
    assert_limited(&refused, "user");
    assert_eq!(passed, 2, "one of three was taken at the other");
}

#[tokio::test]
async fn a_server_that_is_not_trusted_is_an_outage_that_says_why() {
    let (backend, (server, folder)) = (Backend::start().await, server().await);
    // That of another, which it is not.
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let file = folder.path().join("other.pem");
    fs::write(&file, other.cert.pem()).expect("the folder is writable");
    let untrusted = format!("ca_file: \"{}\"", file.display());
    let yaml = config(&backend, "localhost", &server, &untrusted).yaml();
    let timeouts = [PATIENT, TIMEOUT].map(|timeout| format!("timeout_ms: {}", timeout.as_millis()));
    let gateway = Gateway::start_yaml(&yaml.replace(&timeouts[0], &timeouts[1]), |_| {}).await;
    unready(&gateway).await;
    assert_out(&gateway.call(alice()).await);
    assert_eq!(backend.count(), 0);
    let line = gateway.stderr().line("is unavailable").await;
    assert!(line.contains("certificate"), "{line}");
    assert!(!gateway.stderr().text().contains("sesame"), "{line}");
}
