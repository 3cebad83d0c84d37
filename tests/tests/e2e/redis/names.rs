//! What is in Redis: no name of anybody, and nothing that stays.

use fairlane_redis_servers::Server;
use fairlane_tests::{Backend, Call};

use super::{PATIENT, people, started};
use crate::support::{alice, bob};

/// Everything that could name somebody, or something that a caller chose.
const RAW: [&str; 12] = [
    "alice",
    "bob",
    "research",
    "key-of",
    "alice-1",
    "gpt-x",
    "gpt",
    "primary",
    "127.0.0",
    "the-secret",
    "global",
    "hello",
];

#[tokio::test]
async fn no_key_names_anybody_and_each_expires() {
    let (backend, server) = (Backend::start().await, Server::start().await);
    let mut config = people(&backend, &server.url(), PATIENT).fair_queuing("max_wait_ms: 100");
    for dimension in
        ["global", "per_client", "per_api_key", "per_user", "per_team", "per_model", "per_backend"]
    {
        config = config.limit(&format!("{dimension}: {{ requests_per_minute: 3, requests_per_hour: 1000 }}"));
    }
    let gateway = started(&config).await;
    for call in [alice(), bob(), Call::chat("unheard-of").key("key-of-alice"), alice(), alice()] {
        gateway.call(call).await;
    }
    let keys: Vec<String> = server.query(&["KEYS", "*"]).await;
    // One for each period of each bucket: everything, one client, one model rule, one backend, one team; and two users and
    // two keys.
    let buckets = keys.iter().filter(|key| !key.contains("probe")).count();
    assert_eq!(buckets, 2 * (5 + 2 + 2), "{keys:?}");
    for key in &keys {
        assert!(key.starts_with("fairlane:v1:"), "{key}");
        for raw in RAW {
            assert!(!key.contains(raw), "{key} holds {raw}");
        }
        let value: Vec<u8> = server.query(&["GET", key]).await;
        for raw in RAW {
            let held = value.windows(raw.len()).any(|part| part == raw.as_bytes());
            assert!(!held, "{key} = {value:?} holds {raw}");
        }
        let lives: i64 = server.query(&["PTTL", key]).await;
        assert!((1..=3_600_000).contains(&lives), "{key} lives {lives} ms");
    }
}
