//! Users, passwords, databases and encryption.

use fairlane_limiter::redis::{Mode, Password, RedisStore};
use fairlane_limiter::{Store, StoreError};
use fairlane_redis_servers::{Server, ServerOptions};

use crate::support::{charge, settings, slow};

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
async fn a_database_is_chosen() {
    let server = Server::start().await;
    granted(&format!("{}/3", server.url())).await;
    let keyspace = server.info("keyspace", "db3").await;
    assert!(keyspace.is_some(), "no keys in database 3");
    assert_eq!(server.info("keyspace", "db0").await, None);
}
