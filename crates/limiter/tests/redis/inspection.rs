//! What is found out about a server.

use fairlane_limiter::StoreError;
use fairlane_limiter::redis::{Mode, RedisStore};
use fairlane_redis_servers::{Server, ServerOptions};

use crate::support::{settings, store};

#[tokio::test]
async fn a_server_says_what_it_is() {
    let server = Server::start_with(ServerOptions::new().max_memory(64 << 20)).await;
    let store = store(&server).await;
    let found = store.inspect().await.unwrap();
    let [node] = &*found.nodes else { panic!("{found:?}") };
    assert_eq!(node.address, server.addr().to_string());
    assert_eq!(node.version, server.info("server", "redis_version").await);
    assert_eq!((node.role.as_deref(), node.max_memory), (Some("master"), Some(64 << 20)));
    assert!(node.runs_scripts() && node.evalsha && node.script_load && node.eval);
    let mut may_evict = Vec::new();
    for policy in ["noeviction", "allkeys-lru", "volatile-ttl"] {
        server.command(&["CONFIG", "SET", "maxmemory-policy", policy]).await;
        let node = store.inspect().await.unwrap().nodes.remove(0);
        assert_eq!(node.max_memory_policy.as_deref(), Some(policy));
        may_evict.push(node.may_evict());
    }
    assert_eq!(may_evict, [false, true, true]);
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    assert!(!store.inspect().await.unwrap().nodes[0].may_evict(), "memory without a bound is never full");
}

#[tokio::test]
async fn a_server_that_does_not_serve_is_asked_why() {
    let line = "user app on >secret ~* +@all -eval -evalsha -info";
    let server = Server::start_with(ServerOptions::new().line(line)).await;
    let url = format!("redis://app:secret@{}", server.addr());
    let store = RedisStore::new(settings(&url, Mode::Standalone)).unwrap();
    let node = store.inspect().await.unwrap().nodes.remove(0);
    assert_eq!((node.evalsha, node.script_load, node.eval), (false, true, false));
    assert!(!node.runs_scripts());
    assert_eq!((node.version, node.role), (None, None), "what it may not say");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_that_says_so() {
    let server = Server::start().await;
    server.stop();
    let store = RedisStore::new(settings(&server.url(), Mode::Standalone)).unwrap();
    let error = store.inspect().await.unwrap_err();
    let StoreError::Unavailable(Some(cause)) = &error else { panic!("{error:?}") };
    assert!(cause.to_string().contains("refused"), "{cause}");
}
