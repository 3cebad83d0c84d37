//! Users, passwords, databases and encryption.

use std::fs;

use fairlane_limiter::redis::{Mode, Password, RedisStore, SettingsError, Tls};
use fairlane_limiter::{Store, StoreError};
use fairlane_redis_servers::{Server, ServerOptions, Tls as ServerTls, wait};

use crate::support::{charge, settings, slow, up};

async fn refused(url: &str) -> String {
    let store = RedisStore::new(settings(url, Mode::Standalone)).unwrap();
    let error = store.take(&[charge(1, slow(10), 1)]).await.unwrap_err();
    let StoreError::Unavailable(Some(cause)) = &error else { panic!("{error:?}") };
    let shown = format!("{error} {error:?} {cause} {store:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
    cause.to_string()
}

async fn granted(url: &str) {
    let store = RedisStore::new(settings(url, Mode::Standalone)).unwrap();
    assert!(store.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted(), "{url}");
}

#[tokio::test]
async fn a_password_is_needed_and_not_shown() {
    let server =
        Server::start_with(ServerOptions::new().password("p@ss").line("user app on >word ~* +@all")).await;
    let address = server.addr();
    granted(&format!("redis://:p%40ss@{address}")).await;
    granted(&format!("redis://default:p%40ss@{address}")).await;
    granted(&format!("redis://app:word@{address}")).await;
    refused(&format!("redis://:hunter2@{address}")).await;
    refused(&format!("redis://app:hunter2@{address}")).await;
    refused(&format!("redis://{address}")).await;
}

/// As an operator changes a password without an outage.
#[tokio::test]
async fn two_passwords_are_good_for_a_while() {
    let server = Server::start_with(ServerOptions::new().line("user app on >old ~* +@all")).await;
    let url = |password: &str| format!("redis://app:{password}@{}", server.addr());
    let one = RedisStore::new(settings(&url("old"), Mode::Standalone)).unwrap();
    let take = async |store: &RedisStore| store.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted();
    assert!(take(&one).await);
    server.command(&["ACL", "SETUSER", "app", ">new"]).await;
    let other = RedisStore::new(settings(&url("new"), Mode::Standalone)).unwrap();
    assert!(take(&one).await && take(&other).await);
    server.command(&["ACL", "SETUSER", "app", "<old"]).await;
    assert!(take(&one).await && take(&other).await, "connections go on");
    server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    up(&one, false).await;
    let reconnected = || async { other.take(&[charge(1, slow(10), 1)]).await.ok() };
    assert!(wait::until("who knows the new one", reconnected).await.is_granted());
    one.take(&[charge(1, slow(10), 1)]).await.unwrap_err();
}

#[tokio::test]
async fn a_password_may_be_given_apart_from_the_url() {
    let server = Server::start_with(ServerOptions::new().password("hunter2")).await;
    let mut settings = settings(&server.url(), Mode::Standalone);
    settings.password = Some(Password::new("hunter2"));
    assert!(!format!("{settings:?}").contains("hunter2"));
    let store = RedisStore::new(settings).unwrap();
    assert!(store.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted());
}

#[tokio::test]
async fn a_server_is_found_by_name_and_by_either_kind_of_address() {
    let server = Server::start_with(ServerOptions::new().line("bind 127.0.0.1 ::1")).await;
    let port = server.addr().port();
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        granted(&format!("redis://{host}:{port}")).await;
    }
}

#[tokio::test]
async fn a_database_is_chosen() {
    let server = Server::start().await;
    granted(&format!("{}/3", server.url())).await;
    let keyspace = server.info("keyspace", "db3").await;
    assert!(keyspace.is_some(), "no keys in database 3");
    assert_eq!(server.info("keyspace", "db0").await, None);
}

#[tokio::test]
async fn tls_is_spoken_to_servers_that_are_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let made =
        rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.path().join(name));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let tls =
        ServerTls { authority: certificate.clone(), certificate, key, require_client_certificate: false };
    let server = Server::start_with(ServerOptions::new().password("p").tls(tls)).await;
    for host in ["127.0.0.1", "localhost"] {
        let mut settings =
            settings(&format!("rediss://:p@{host}:{}", server.tls_addr().port()), Mode::Standalone);
        settings.tls = Some(Tls::with_roots(made.cert.pem()));
        let store = RedisStore::new(settings).unwrap();
        assert!(store.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted(), "{host}");
    }
    let cause = refused(&format!("rediss://:p@{}", server.tls_addr())).await;
    assert!(cause.contains("certificate"), "the system does not trust it: {cause}");
}

#[tokio::test]
async fn certificates_that_cannot_be_read_are_an_error_at_once() {
    for roots in ["-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "no certificate", ""] {
        let mut settings = settings("rediss://localhost", Mode::Standalone);
        settings.tls = Some(Tls::with_roots(roots));
        assert_eq!(RedisStore::new(settings).unwrap_err(), SettingsError::Roots, "{roots}");
    }
}
