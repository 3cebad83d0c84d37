//! What an operator is told of servers that cannot be relied on.

use std::fmt;
use std::sync::{Arc, Mutex};

use fairlane_limiter::Store;
use fairlane_redis_servers::{Server, ServerOptions, wait};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::{charge, slow, store};

/// Keeps the lines of this thread, on which everything happens.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn with(&self, word: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|line| line.contains(word)).count()
    }
}

impl Visit for Lines {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("fairlane_limiter")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

async fn warned(policy: &str, max_memory: u64) -> usize {
    let lines = Lines::default();
    let _listening = tracing::subscriber::set_default(lines.clone());
    let options = ServerOptions::new().max_memory(max_memory).line(format!("maxmemory-policy {policy}"));
    let server = Server::start_with(options).await;
    let store = store(&server).await;
    assert!(store.take(&[charge(1, slow(10), 1)]).await.unwrap().is_granted());
    // Whoever connects again has looked at the policy before.
    for _ in 0..2 {
        server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        let again = || async {
            store.take(&[charge(1, slow(10), 1)]).await.ok().map(|decision| decision.is_granted())
        };
        assert!(wait::until("the store to connect again", again).await);
    }
    assert!(lines.with("connected to Redis at") >= 1, "the lines are heard");
    lines.with("maxmemory-policy")
}

#[tokio::test]
async fn a_server_that_throws_away_buckets_is_warned_of_once() {
    assert_eq!(warned("allkeys-lru", 64 << 20).await, 1);
    assert_eq!(warned("volatile-ttl", 64 << 20).await, 1);
    assert_eq!(warned("noeviction", 64 << 20).await, 0);
}
